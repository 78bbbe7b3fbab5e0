"""The options of MindSpore's profiler, validated for one version, one surface and one device.

The profiler only warns about an option it does not understand, or ignores it, and records something else. Here each of these
is a `UsageError` before anything runs. No framework is imported: the version is text, and may be that of another environment.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from perfguard.configuration import Schema, configuration_schema, holds, is_integer, violation
from perfguard.errors import UsageError, nearest
from perfguard.screen import shown
from perfguard.window import StepWindow

Surface = Literal["Profiler", "profile", "env", "dynamic"]
Version = tuple[int, int]

#: The name of a surface in messages.
PLACES: dict[str, str] = {
    "Profiler": "mindspore.Profiler",
    "profile": "mindspore.profiler.profile",
    "env": "MS_PROFILER_OPTIONS",
    "dynamic": "profiler_config.json",
}
DEVICES: dict[str, str] = {"cpu": "a CPU", "gpu": "a GPU", "ascend": "an Ascend device"}
#: The first version that has a surface.
SURFACE_SINCE: dict[str, Version] = {"Profiler": (1, 0), "env": (1, 0), "dynamic": (2, 3), "profile": (2, 6)}
CLASSES = frozenset({"Profiler", "profile"})

_DOCUMENT = configuration_schema("mindspore_profiler")
#: Names of the numbers in Profiler(aicore_metrics=...) up to 2.4, which have another order.
_OLD_METRICS: list[str] = _DOCUMENT["x-old-metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the profiler, in the versions where it has this type, this default and this meaning."""

    name: str
    schema: Schema
    default: Any
    since: Version
    before: Version
    surfaces: frozenset[str]
    #: Devices on which it has an effect; the profiler ignores it on others.
    devices: frozenset[str]
    #: The condition of the layouts that it sets; `mindspore_options._is_on` says for which values.
    condition: str

    def is_in(self, version: Version, surface: str) -> bool:
        """Whether this version has it on this surface."""
        return self.since <= version < self.before and surface in self.surfaces

    @property
    def enum(self) -> str:
        """The name of the enum in mindspore.profiler whose members are accepted as well."""
        return str(self.schema.get("x-enum", ""))

    @property
    def is_list(self) -> bool:
        """Whether its value is a list."""
        return "items" in self.schema


def _parameter(name: str, schema: Schema) -> Parameter:
    default = schema["default"]
    return Parameter(
        name=name,
        schema=schema,
        default=tuple(default) if isinstance(default, list) else default,
        since=_numbers(schema.get("x-since", "1.0")),
        before=_numbers(schema.get("x-before", "1000.0")),
        surfaces=frozenset(schema.get("x-surfaces", PLACES)),
        devices=frozenset(schema.get("x-devices", ("ascend",))),
        condition=schema.get("x-condition", ""),
    )


def _numbers(version: str) -> Version:
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?=[.\-+a-z]|$)", version) if isinstance(version, str) else None
    if found is None or (numbers := (int(found[1]), int(found[2]))) < (1, 0):
        raise UsageError(f"The version of MindSpore must be written as 2.10.0, got {version!r}.")
    return numbers


#: Every parameter of every version. A name is here twice if its type, default or meaning changed.
PARAMETERS = tuple(
    _parameter(name, schema)
    for name, found in _DOCUMENT["properties"].items()
    for schema in found.get("anyOf", [found])
)


class ProfilerOptions(TypedDict, total=False):
    """The options that a callback accepts in some version, for type checkers."""

    activities: Sequence[str | Enum]
    aic_metrics: str | Enum | None
    aicore_metrics: int | str | Enum | None
    data_process: bool
    data_simplification: bool
    export_type: Sequence[str | Enum]
    hbm_ddr: bool
    host_stack: bool
    host_sys: Sequence[str | Enum]
    l2_cache: bool
    mstx: bool
    mstx_domain_exclude: Sequence[str]
    mstx_domain_include: Sequence[str]
    op_time: bool
    parallel_strategy: bool
    pcie: bool
    profile_communication: bool
    profile_framework: str | None
    profile_memory: bool
    profiler_level: str | Enum | None
    record_shapes: bool
    sync_enable: bool
    sys_interconnection: bool
    sys_io: bool
    timeline_limit: int
    with_stack: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MindSporeOptions:
    """Profiler options that one version of MindSpore accepts. Made by `mindspore_options`."""

    version: str
    surface: Surface
    device: str
    #: The requested options; enums by the names of their members.
    requested: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Every parameter of this version and surface, by name."""
        version = _numbers(self.version)
        return {one.name: one for one in PARAMETERS if one.is_in(version, self.surface)}

    @property
    def where(self) -> str:
        """The version and the surface, as messages name them."""
        return f"MindSpore {self.version}, {PLACES[self.surface]}"

    @property
    def values(self) -> dict[str, Any]:
        """The value of every parameter of this version and surface: the requested one, else the profiler's default."""
        return {
            name: self.requested.get(name, one.default) for name, one in self.parameters.items()
        } | self._completed()

    def environment(self, output_path: str) -> str:
        """Return the text of MS_PROFILER_OPTIONS that records into the absolute path `output_path`."""
        if self.requested.get("output_path", output_path) != output_path:
            raise UsageError(
                f"MS_PROFILER_OPTIONS: output_path is given twice, {output_path!r} and {self.requested['output_path']!r}; "
                "leave the option out."
            )
        return json.dumps({"start": True, "output_path": output_path} | self._plain(none="None"))

    def document(self) -> dict[str, Any]:
        """Return the requested options in the form of profiler_config.json."""
        return self._plain(none="AiCoreNone")

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of `mindspore.Profiler` or `mindspore.profiler.profile`. Imports MindSpore."""
        from mindspore import profiler

        parameters = self.parameters
        made = {name: _real(profiler, parameters[name], value) for name, value in self._completed().items()}
        if self.surface == "Profiler":
            return made
        names = sorted(name for name in made if parameters[name].schema.get("x-experimental"))
        experimental = {name: made.pop(name) for name in names}
        if experimental:
            made["experimental_config"] = profiler._ExperimentalConfig(**experimental)
        return made

    @property
    def conditions(self) -> dict[str, bool]:
        """What the profiler records, by the condition names of the layouts; only options that have an effect here."""
        values = self.values
        known: dict[str, bool] = {}
        for name, one in self.parameters.items():
            if one.condition and self.device in one.devices:
                known[one.condition] = _is_on(one, values[name])
        if self.device == "ascend" and "activities" in values:
            known |= {"host": "CPU" in values["activities"], "npu": "NPU" in values["activities"]}
            known |= {export: export in values["export_type"] for export in ("text", "db") if "export_type" in values}
        if self.device == "ascend" and isinstance(level := values.get("profiler_level"), str):
            known |= {"level1": level in ("Level1", "Level2"), "level2": level == "Level2"}
        if known.get("op_time") is False:
            known |= {name: False for name in ("memory", "communication", "flops") if name in known}
        return known

    def _completed(self) -> dict[str, Any]:
        """Return the requested options, completed by those whose absence MindSpore warns about."""
        requested = dict(self.requested)
        if "aic_metrics" in self.parameters and requested.get("profiler_level") in ("Level1", "Level2"):
            requested.setdefault("aic_metrics", "PipeUtilization")
        return requested

    def _plain(self, *, none: str) -> dict[str, Any]:
        """Return the values as JSON types; `none` is the surface's name for AiCoreNone."""
        return {
            name: none if value == "AiCoreNone" else list(value) if isinstance(value, tuple) else value
            for name, value in self._completed().items()
            if name not in ("start", "output_path")
        }


def mindspore_options(
    version: str, given: Mapping[str, Any], *, surface: Surface, device: str = "cpu"
) -> MindSporeOptions:
    """Validate profiler options for a version of MindSpore, one of its surfaces, and the device it runs on.

    `version` is text such as `2.10.0`; a version newer than the known ones counts as the newest. Enums are given by the names
    of their members (`"Level1"`), or as members. Raises `UsageError` for an option that this profiler would only warn about,
    ignore or reset: an unknown name, a wrong type, a value out of range, a contradiction, an option without effect.
    """
    numbers = _numbers(version)
    if device not in DEVICES:
        raise UsageError(f"device={device!r} is not known; {nearest(str(device).lower(), DEVICES)}")
    if numbers < SURFACE_SINCE[surface]:
        raise UsageError(
            f"MindSpore {version} has no {PLACES[surface]}; it was added in "
            f"{SURFACE_SINCE[surface][0]}.{SURFACE_SINCE[surface][1]}."
        )
    if not isinstance(given, Mapping):
        raise UsageError(f"Profiler options must be a mapping of names to values, got {shown(given)}.")
    empty = MindSporeOptions(version=version, surface=surface, device=device)
    known = empty.parameters
    requested = {
        name: _checked(empty, known, name, value)
        for name, value in given.items()
        if not (name in known and value is None and known[name].default is None)
    }
    options = replace(empty, requested=MappingProxyType(requested))
    for problem in _contradictions(options):
        raise UsageError(f"{options.where}: {problem}")
    return options


# -- one option -------------------------------------------------------------------------------------------------------


def _checked(options: MindSporeOptions, known: Mapping[str, Parameter], name: str, value: Any) -> Any:
    """Return the value of an option in the form of this module. Raises `UsageError` for an option that is wrong there."""
    where, surface, device = options.where, options.surface, options.device
    if name not in known:
        raise UsageError(f"{where}: {name!r} is not an option there; {_instead(options, known, name)}")
    one = known[name]
    if device not in one.devices:
        others = " or ".join(DEVICES[other] for other in sorted(one.devices))
        raise UsageError(
            f"{where}: {name}={value!r} has no effect on {DEVICES[device]}, only on {others}; leave it out."
        )
    if name == "export_type" and surface in CLASSES and isinstance(value, (str, Enum)):
        value = [value]  # MindSpore takes one alone there, and there only.
    plain = _plain_value(one, value)
    problem = _violation(one, plain)
    if name == "output_path" and surface == "env" and not problem and not os.path.isabs(plain):
        problem = f"must be an absolute path, got {plain!r}; MindSpore writes a relative one elsewhere"
    if problem:
        raise UsageError(f"{where}: {name} {problem}{_number_hint(one, surface, value)}.")
    return tuple(dict.fromkeys(plain)) if one.is_list else plain


def _number_hint(one: Parameter, surface: str, value: Any) -> str:
    """Return the name to write for a number, or the number to write for a name; empty where neither is meant."""
    is_number = one.schema.get("type") == "integer"
    name = (
        _DOCUMENT["x-numbers"].get(one.name, {}).get(str(value)) if surface == "dynamic" and is_integer(value) else None
    )
    if name is not None and not is_number:
        return f"; {value} means {name!r}, and MindSpore warns about numbers"
    if one.name == "aicore_metrics" and is_number and value in _OLD_METRICS[: one.schema["maximum"] + 1]:
        return f"; {value} is {_OLD_METRICS.index(value)} in this version"
    return ""


def _instead(options: MindSporeOptions, known: Mapping[str, Parameter], name: Any) -> str:
    """Return what to write instead of a name that this version does not have on this surface."""
    version, surface, device = _numbers(options.version), options.surface, options.device
    others = [other for pair in _DOCUMENT["x-synonyms"] if name in pair for other in pair if other != name]
    if now := next((other for other in others if other in known), None):
        useless = "" if device in known[now].devices else f", which has no effect on {DEVICES[device]}"
        return f"this version calls it {now!r}{useless}."
    if not isinstance(name, str):
        return "names are strings."
    if version >= (2, 5) and (instead := _DOCUMENT["x-replaced"].get(name)):
        return f"since 2.5 {instead}."
    if instead := _DOCUMENT["x-elsewhere"].get(surface, {}).get(name):
        return f"{instead}."
    if name == "ascend_job_id":
        return "it analyses an earlier recording, and records nothing."
    versions = [one for one in PARAMETERS if one.name == name and surface in one.surfaces]
    if versions:
        first, last = min(one.since for one in versions), max(one.before for one in versions)
        if version < first:
            return f"it was added in {first[0]}.{first[1]}."
        return f"it was removed in {last[0]}.{last[1]}."
    return nearest(name, known)


def _plain_value(one: Parameter, value: Any) -> Any:
    """Return a value with names in place of enum members and paths."""
    if isinstance(value, Path):
        return str(value) if one.name == "output_path" else value
    if one.is_list and isinstance(value, (list, tuple)):
        return [_name_of(one, item) for item in value]
    return _name_of(one, value)


def _name_of(one: Parameter, value: Any) -> Any:
    """Return the name of an enum member, and the name for the two texts that differ from it."""
    if isinstance(value, Enum):
        if type(value).__name__ != one.enum:
            return value
        value = value.name if one.enum in ("ProfilerLevel", "AicoreMetrics") else value.value
    if one.enum == "AicoreMetrics" and value == "None":
        return "AiCoreNone"
    if one.enum == "ExportType" and value in ("Text", "Db"):
        return value.lower()
    return value


def _violation(one: Parameter, value: Any) -> str:
    """Return what is wrong with a value, empty for one that the parameter accepts."""
    if one.name == "schedule" and not (isinstance(value, StepWindow) or type(value).__name__ == "Schedule"):
        # torch takes a function. MindSpore resets everything but its own Schedule, and records one step.
        return f"must be made by mindspore.profiler.schedule(...), or a StepWindow, got {shown(value)}"
    if one.name == "on_trace_ready" and not callable(value):
        return f"must be callable, as tensorboard_trace_handler(DIR) is, got {shown(value)}"
    return violation(value, one.schema)


# -- contradictions ---------------------------------------------------------------------------------------------------------


def _contradictions(options: MindSporeOptions) -> Iterator[str]:
    """Yield the contradictions between options."""
    requested, values = options.requested, options.values
    shown_values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    for conflict in _DOCUMENT["x-conflicts"]:
        if _apply(conflict.get("requested", {}), requested) and _apply(conflict.get("values", {}), values):
            yield conflict["message"].format(**shown_values)
    if requested.get("op_time") is False:
        for name in sorted(requested):
            if options.parameters[name].schema.get("x-needs") == "op_time":
                yield f"{name}={requested[name]!r} has no effect with op_time=False; leave one of them out."
    here = {"cpu": {"CPU"}, "gpu": {"CPU", "GPU"}, "ascend": {"CPU", "NPU"}}[options.device]
    if others := sorted(set(requested.get("activities", ())) - here):
        activities = shown_values["activities"]
        yield f"activities={activities!r}: {others[0]} has no effect on {DEVICES[options.device]}; leave it out."
    start, stop = requested.get("start_step", -1), requested.get("stop_step", -1)
    if (start, stop) != (-1, -1) and (start < 1 or stop < start):
        yield (
            f"start_step and stop_step must be a window, 1 <= start_step <= stop_step, got {start} and {stop}; steps count "
            "from 1, the stop step is included, and both -1 switch profiling off."
        )


def _apply(schemas: Mapping[str, Schema], values: Mapping[str, Any]) -> bool:
    return all(name in values and holds(values[name], schema) for name, schema in schemas.items())


def _is_on(one: Parameter, value: Any) -> bool:
    return bool({"host_info": value is not None, "flops": value == 0}.get(one.condition, value))


def _real(profiler: Any, one: Parameter, value: Any) -> Any:
    """Return a value in MindSpore's own types: members of its enums, lists, a schedule."""
    if isinstance(value, StepWindow):
        return profiler.schedule(**value.as_dict())
    if one.is_list and not isinstance(value, str):
        return [_real(profiler, one, name) for name in value]
    if not one.enum or value is None:
        return value
    kind = getattr(profiler, one.enum)
    return kind[value] if one.enum in ("ProfilerLevel", "AicoreMetrics") else kind(value)
