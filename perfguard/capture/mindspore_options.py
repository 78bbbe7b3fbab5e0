"""The options of MindSpore's profiler, validated for one version, one surface and one device.

The profiler warns about what it does not understand, or says nothing, and records something else. Here each of these is one
`UsageError` before anything runs. No framework is imported: the version is text, and may be that of another environment.

Sources: the wheels 2.0.0, 2.7.0 and 2.10.0 (`profiler/profiling.py`, `envprofiling.py`, `common/profiler_parameters.py`,
`dynamic_profile/dynamic_profiler_config_context.py`, `platform/*_profiler.py`); the documents of 1.x, 2.2, 2.4, 2.5 and 2.6.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypedDict

from perfguard.errors import UsageError, nearest
from perfguard.window import StepWindow

Surface = Literal["Profiler", "profile", "env", "dynamic"]
Version = tuple[int, int]

#: How a surface is called where its users write it.
_PLACES: dict[str, str] = {
    "Profiler": "mindspore.Profiler",
    "profile": "mindspore.profiler.profile",
    "env": "MS_PROFILER_OPTIONS",
    "dynamic": "profiler_config.json",
}
_DEVICES: dict[str, str] = {"cpu": "a CPU", "gpu": "a GPU", "ascend": "an Ascend device"}
#: The first version that has a surface.
_SINCE: dict[str, Version] = {"Profiler": (1, 0), "env": (1, 0), "dynamic": (2, 3), "profile": (2, 6)}

_METRICS = (
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "ResourceConflictRatio",
    "L2Cache",
    "MemoryAccess",
    "AiCoreNone",
)
_LEVELS = ("LevelNone", "Level0", "Level1", "Level2")
_ACTIVITIES = ("CPU", "NPU", "GPU")
_EXPORTS = ("text", "db")
_HOST = ("cpu", "mem", "disk", "network", "osrt")

_CLASSES = frozenset({"Profiler", "profile"})
_CALLS = frozenset({"Profiler", "profile", "env"})
_RECORDING = frozenset({"Profiler", "profile", "env", "dynamic"})
_OLD = frozenset({"Profiler", "env"})
_ENV = frozenset({"env"})
_DYNAMIC = frozenset({"dynamic"})

_ALL = frozenset(_DEVICES)
_ASCEND = frozenset({"ascend"})
_ACCELERATORS = frozenset({"ascend", "gpu"})
_END: Version = (1000, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the profiler, in the versions that have it with this type and this default."""

    name: str
    #: "bool", "int", "text", "path", "choice", "choices", "texts", "schedule" or "callable".
    kind: str
    default: Any
    since: Version = (1, 0)
    before: Version = _END
    surfaces: frozenset[str] = _RECORDING
    #: Where it has an effect. Elsewhere the profiler ignores it.
    devices: frozenset[str] = _ASCEND
    #: Names of a choice, or the least and the largest integer.
    allowed: tuple[Any, ...] = ()
    #: Name of the enum in mindspore.profiler whose members are taken as well.
    enum: str = ""
    #: Whether the profiler ignores it without op_time.
    needs_op_time: bool = False
    #: The condition of the layouts that it switches; `switched` says by which values.
    condition: str = ""

    def is_in(self, version: Version, surface: str) -> bool:
        """Whether this version takes it on this surface."""
        return self.since <= version < self.before and surface in self.surfaces


def _flag(name: str, default: bool, **more: Any) -> Parameter:
    return Parameter(name=name, kind="bool", default=default, **more)


def _number(name: str, default: int, least: int, most: float = math.inf, **more: Any) -> Parameter:
    return Parameter(name=name, kind="int", default=default, allowed=(least, most), **more)


def _choice(name: str, default: str | None, allowed: tuple[Any, ...], enum: str = "", **more: Any) -> Parameter:
    return Parameter(name=name, kind="choice", default=default, allowed=allowed, enum=enum, **more)


def _choices(name: str, default: tuple[str, ...], allowed: tuple[str, ...], enum: str, **more: Any) -> Parameter:
    return Parameter(name=name, kind="choices", default=default, allowed=allowed, enum=enum, **more)


#: Every parameter of every version. A name stands twice where its type, default or meaning changed.
PARAMETERS: tuple[Parameter, ...] = (
    # -- where, and when
    _flag("start", False, surfaces=_ENV, devices=_ALL),
    Parameter(name="output_path", kind="path", default=None, surfaces=_OLD, devices=_ALL),
    _flag("start_profile", True, surfaces=_CLASSES, devices=_ALL),
    Parameter(name="schedule", kind="schedule", default=None, since=(2, 5), surfaces=_CLASSES, devices=_ALL),
    Parameter(name="on_trace_ready", kind="callable", default=None, since=(2, 5), surfaces=_CLASSES, devices=_ALL),
    # -- 1.x: other words in the environment variable
    _flag("memory", False, before=(2, 0), surfaces=_ENV, condition="memory"),
    _flag("hccl", False, before=(2, 0), surfaces=_ENV, condition="communication"),
    # -- to 2.4
    _flag("op_time", True, since=(2, 0), before=(2, 5), surfaces=_OLD, devices=_ACCELERATORS, condition="op_time"),
    _flag(
        "profile_communication",
        False,
        before=(2, 0),
        surfaces=frozenset({"Profiler"}),
        needs_op_time=True,
        condition="communication",
    ),
    _flag("profile_communication", False, since=(2, 0), before=(2, 5), needs_op_time=True, condition="communication"),
    _flag("profile_memory", False, before=(2, 0), surfaces=frozenset({"Profiler"}), condition="memory"),
    _flag("profile_memory", False, since=(2, 0), before=(2, 5), surfaces=_OLD, needs_op_time=True, condition="memory"),
    _flag("parallel_strategy", True, since=(2, 0), before=(2, 3), surfaces=_OLD, condition="parallel_strategy"),
    _number("aicore_metrics", 0, -1, 5, before=(2, 3), surfaces=_OLD, needs_op_time=True, condition="flops"),
    _number(
        "aicore_metrics", 0, -1, 6, since=(2, 3), before=(2, 5), surfaces=_OLD, needs_op_time=True, condition="flops"
    ),
    _number("aicore_metrics", -1, -1, 6, since=(2, 3), before=(2, 5), surfaces=_DYNAMIC, condition="flops"),
    _flag("l2_cache", False, before=(2, 5), surfaces=_OLD, condition="l2_cache"),
    _flag("sync_enable", True, surfaces=_CALLS, devices=frozenset({"gpu"}), needs_op_time=True),
    _flag(
        "data_process",
        True,
        since=(2, 0),
        before=(2, 3),
        surfaces=_OLD,
        devices=_ACCELERATORS,
        condition="data_process",
    ),
    _flag("data_process", False, since=(2, 3), surfaces=_CALLS, devices=_ACCELERATORS, condition="data_process"),
    _number("timeline_limit", 500, 1, since=(2, 0), before=(2, 5), surfaces=_OLD, devices=_ALL, needs_op_time=True),
    _choice(
        "profile_framework",
        "all",
        ("all", "time", "memory", None),
        since=(2, 1),
        before=(2, 3),
        surfaces=_OLD,
        devices=_ACCELERATORS,
        condition="host_info",
    ),
    _choice(
        "profile_framework",
        None,
        ("all", "time", "memory", None),
        since=(2, 3),
        before=(2, 5),
        surfaces=_OLD,
        devices=_ACCELERATORS,
        condition="host_info",
    ),
    _flag("host_stack", True, since=(2, 3), before=(2, 5), surfaces=_OLD),
    # -- 2.3 and later
    _choice(
        "profiler_level",
        None,
        (*_LEVELS[1:], None),
        "ProfilerLevel",
        since=(2, 3),
        before=(2, 5),
        surfaces=frozenset({"Profiler"}),
    ),
    _number("profiler_level", -1, -1, 2, since=(2, 3), before=(2, 5), surfaces=_DYNAMIC),
    _number("profile_framework", -1, -1, 1, since=(2, 3), before=(2, 5), surfaces=_DYNAMIC, devices=_ACCELERATORS),
    _flag("parallel_strategy", False, since=(2, 3), condition="parallel_strategy"),
    _flag("data_simplification", True, since=(2, 3), condition="simplified"),
    _flag("with_stack", False, since=(2, 4), needs_op_time=True, condition="stack"),
    _flag("hbm_ddr", False, since=(2, 3), surfaces=_CALLS),
    _flag("pcie", False, since=(2, 3), surfaces=_CALLS),
    # -- 2.5 and later: enums
    _choice("profiler_level", "Level0", _LEVELS[1:], "ProfilerLevel", since=(2, 5), before=(2, 6)),
    _choice("profiler_level", "Level0", _LEVELS, "ProfilerLevel", since=(2, 6)),
    _choice("aicore_metrics", "AiCoreNone", _METRICS, "AicoreMetrics", since=(2, 5), before=(2, 6)),
    _choice("aic_metrics", "AiCoreNone", _METRICS, "AicoreMetrics", since=(2, 6)),
    _choices("activities", ("CPU", "NPU"), _ACTIVITIES, "ProfilerActivity", since=(2, 5), devices=_ALL),
    _flag("profile_memory", False, since=(2, 5), devices=frozenset({"ascend", "cpu"}), condition="memory"),
    _flag("l2_cache", False, since=(2, 5), condition="l2_cache"),
    _flag("mstx", False, since=(2, 6)),
    _choices("export_type", ("text",), _EXPORTS, "ExportType", since=(2, 6)),
    _flag("record_shapes", False, since=(2, 7), condition="shapes"),
    Parameter(name="mstx_domain_include", kind="texts", default=(), since=(2, 7)),
    Parameter(name="mstx_domain_exclude", kind="texts", default=(), since=(2, 7)),
    _flag("sys_io", False, since=(2, 7), condition="sys_io"),
    _flag("sys_interconnection", False, since=(2, 7), condition="sys_interconnection"),
    _choices("host_sys", (), _HOST, "HostSystem", since=(2, 7)),
    # -- the file a DynamicProfilerMonitor reads
    _number("start_step", -1, -1, since=(2, 3), surfaces=_DYNAMIC, devices=_ALL),
    _number("stop_step", -1, -1, since=(2, 3), surfaces=_DYNAMIC, devices=_ALL),
    _number("analyse_mode", -1, -1, 1, since=(2, 3), surfaces=_DYNAMIC, devices=_ALL),
    _flag("analyse", False, since=(2, 5), surfaces=_DYNAMIC, devices=_ALL, condition="analysed"),
    Parameter(name="prof_path", kind="text", default="./", since=(2, 5), surfaces=_DYNAMIC, devices=_ALL),
)

#: Words for the same thing in other versions and other tools.
_SAME = (
    ("memory", "profile_memory"),
    ("hccl", "profile_communication"),
    ("aicore_metrics", "aic_metrics"),
    ("timeline_limit_size", "timeline_limit"),
    ("record_shape", "record_shapes"),
    ("host_stack", "with_stack"),
    ("profile_level", "profiler_level"),
    ("analyze", "analyse"),
)
#: What took the place of a parameter where no other name did, since 2.5.
_REPLACED = {
    "profile_communication": "communication is recorded at profiler_level='Level1' or 'Level2'",
    "hccl": "communication is recorded at profiler_level='Level1' or 'Level2'",
    "op_time": "operators are recorded by activities, such as activities=['CPU', 'NPU']",
    "profile_framework": "the host is recorded by activities=['CPU', ...]",
    "timeline_limit": "nothing limits the timeline any more",
    "timeline_limit_size": "nothing limits the timeline any more",
}
#: What else a surface does, where a parameter of another one is meant.
_ELSEWHERE = {
    ("profile", "output_path"): "its directory is that of on_trace_ready=tensorboard_trace_handler(DIR)",
    ("profile", "start"): "only MS_PROFILER_OPTIONS has it",
    ("env", "start_profile"): "the environment variable always starts at once, and its word for that is 'start'",
    ("env", "schedule"): "the environment variable records the whole run",
    ("env", "on_trace_ready"): "the environment variable analyses by itself",
    ("dynamic", "output_path"): "it is an argument of DynamicProfilerMonitor, or 'prof_path' here",
    ("dynamic", "schedule"): "the window is start_step and stop_step",
    ("dynamic", "data_process"): "a window of steps cannot hold the data pipeline",
}
#: aic_metrics as a number in profiler_config.json of 2.6 and later; MindSpore warns about each of them.
_DYNAMIC_NUMBERS: dict[str, dict[int, Any]] = {
    "profiler_level": dict(zip(range(-1, 3), _LEVELS, strict=True)),
    "aic_metrics": dict(enumerate(_METRICS[:2])) | dict(zip(range(2, 8), _METRICS[2:8], strict=True)),
    "activities": {0: ["CPU", "NPU"], 1: ["CPU"], 2: ["NPU"]},
    "export_type": {1: ["db"], 2: ["text", "db"]},
}
#: The same in Profiler(aicore_metrics=...) up to 2.4: another order.
_OLD_METRICS = (
    "ArithmeticUtilization",
    "PipeUtilization",
    "Memory",
    "MemoryL0",
    "ResourceConflictRatio",
    "MemoryUB",
    "L2Cache",
)
#: What of mindspore.profiler.profile is given in an _ExperimentalConfig.
_EXPERIMENTAL = frozenset(
    {
        "profiler_level",
        "aic_metrics",
        "l2_cache",
        "mstx",
        "data_simplification",
        "export_type",
        "mstx_domain_include",
        "mstx_domain_exclude",
        "sys_io",
        "sys_interconnection",
        "host_sys",
    }
)


class ProfilerOptions(TypedDict, total=False):
    """The options of `PARAMETERS` that a callback takes in some version, for type checkers."""

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
    """Options that one version of MindSpore takes as they stand. Made by `mindspore_options`."""

    version: str
    surface: Surface
    device: str
    #: What was asked for, enums by the names of their members.
    asked: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Every parameter of this version and surface, by name."""
        return _parameters(_numbers(self.version), self.surface)

    @property
    def values(self) -> dict[str, Any]:
        """Every parameter of this version and surface, and its value: what was asked for, else the profiler's default."""
        return {name: self.asked.get(name, one.default) for name, one in self.parameters.items()} | self._completed()

    def environment(self, output_path: str | Path | None = None) -> str:
        """Return the text of MS_PROFILER_OPTIONS that records into `output_path`.

        Raises `UsageError` for a path that is not absolute: MindSpore up to 2.4 replaces it by `data` where it runs.
        """
        if self.surface != "env":
            raise UsageError(f"These options are for {_PLACES[self.surface]}; make them with surface='env'.")
        path = str(output_path) if output_path is not None else self.asked.get("output_path")
        if path is None or not os.path.isabs(path):
            raise UsageError(
                f"output_path={path!r} of MS_PROFILER_OPTIONS must be an absolute path: MindSpore puts "
                "its output elsewhere otherwise."
            )
        if self.asked.get("output_path", path) != path:
            raise UsageError(
                f"MS_PROFILER_OPTIONS is to write into {path}, and output_path={self.asked['output_path']!r} is given as "
                "well; leave output_path out."
            )
        return json.dumps({"start": True, "output_path": path} | self._plain(none="None"))

    def document(self) -> dict[str, Any]:
        """Return what was asked for as profiler_config.json holds it. Raises `UsageError` for another surface."""
        if self.surface != "dynamic":
            raise UsageError(f"These options are for {_PLACES[self.surface]}; make them with surface='dynamic'.")
        return self._plain(none="AiCoreNone")

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of `mindspore.Profiler` or `mindspore.profiler.profile`. Imports MindSpore."""
        if self.surface not in _CLASSES:
            raise UsageError(f"These options are for {_PLACES[self.surface]}, which takes no arguments.")
        from mindspore import profiler

        parameters = self.parameters
        made = {name: _real(profiler, parameters[name], value) for name, value in self._completed().items()}
        if self.surface == "Profiler":
            return made
        experimental = {name: made.pop(name) for name in sorted(made.keys() & _EXPERIMENTAL)}
        if experimental:
            made["experimental_config"] = profiler._ExperimentalConfig(**experimental)
        return made

    @property
    def conditions(self) -> dict[str, bool]:
        """What the profiler is asked to record, by the condition names of the layouts; only what has an effect here."""
        values = self.values
        known: dict[str, bool] = {}
        for name, one in self.parameters.items():
            if one.condition and self.device in one.devices:
                known[one.condition] = _is_on(one, values[name])
        if self.device == "ascend" and "activities" in values:
            known |= {"host": "CPU" in values["activities"], "npu": "NPU" in values["activities"]}
            known |= {export: export in values["export_type"] for export in _EXPORTS if "export_type" in values}
        if self.device == "ascend" and isinstance(level := values.get("profiler_level"), str):
            known |= {"level1": level in ("Level1", "Level2"), "level2": level == "Level2"}
        if known.get("op_time") is False:
            known |= {name: False for name in ("memory", "communication", "flops") if name in known}
        return known

    def _completed(self) -> dict[str, Any]:
        """What was asked for, and what MindSpore would warn about if it were left out."""
        asked = dict(self.asked)
        if "aic_metrics" in self.parameters and asked.get("profiler_level") in ("Level1", "Level2"):
            asked.setdefault("aic_metrics", "PipeUtilization")
        return asked

    def _plain(self, *, none: str) -> dict[str, Any]:
        """Values as JSON has them; `none` is how the surface spells AiCoreNone."""
        left_out = {"start", "output_path"}
        plain = {name: value for name, value in self._completed().items() if name not in left_out}
        return {
            name: none if value == "AiCoreNone" else list(value) if isinstance(value, tuple) else value
            for name, value in plain.items()
        }


def mindspore_options(
    version: str, given: Mapping[str, Any], *, surface: Surface, device: str = "cpu"
) -> MindSporeOptions:
    """Validate profiler options for a version of MindSpore, one of its surfaces, and the device it runs on.

    `version` is text such as `2.10.0`; versions newer than known ones are taken as the newest known. Enums are given by the
    names of their members (`"Level1"`), or as members. Raises `UsageError` for whatever this profiler would only warn about,
    ignore, or reset: an unknown name, a wrong type, a value out of range, a contradiction, what has no effect there.
    """
    numbers = _numbers(version)
    if surface not in _PLACES:
        raise UsageError(f"surface={surface!r} is not known; {nearest(str(surface), _PLACES)}")
    if device not in _DEVICES:
        raise UsageError(f"device={device!r} is not known; {nearest(str(device).lower(), _DEVICES)}")
    if numbers < _SINCE[surface]:
        raise UsageError(
            f"MindSpore {version} has no {_PLACES[surface]}; it came with {_SINCE[surface][0]}.{_SINCE[surface][1]}."
        )
    if not isinstance(given, Mapping):
        raise UsageError(f"Profiler options are names and values, not {given!r}.")
    known = _parameters(numbers, surface)
    asked = {
        name: _checked(known, version, numbers, surface, device, name, value)
        for name, value in given.items()
        if not (name in known and value is None and known[name].default is None)
    }
    options = MindSporeOptions(version=version, surface=surface, device=device, asked=MappingProxyType(asked))
    for problem in _contradictions(options):
        raise UsageError(f"MindSpore {version}, {_PLACES[surface]}: {problem}")
    return options


def _numbers(version: str) -> Version:
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})(?=[.\-+a-z]|$)", version) if isinstance(version, str) else None
    if found is None or (numbers := (int(found[1]), int(found[2]))) < (1, 0):
        raise UsageError(f"{version!r} is not a version of MindSpore; write it as 2.10.0.")
    return numbers


def _parameters(version: Version, surface: str) -> dict[str, Parameter]:
    return {one.name: one for one in PARAMETERS if one.is_in(version, surface)}


# -- one option -------------------------------------------------------------------------------------------------------


def _checked(
    known: Mapping[str, Parameter],
    version: str,
    numbers: Version,
    surface: str,
    device: str,
    name: str,
    value: Any,
) -> Any:
    where = f"MindSpore {version}, {_PLACES[surface]}"
    if name not in known:
        raise UsageError(f"{where}: {name!r} is not an option there; {_instead(known, numbers, surface, device, name)}")
    one = known[name]
    if device not in one.devices:
        raise UsageError(
            f"{where}: {name}={value!r} has no effect on {_DEVICES[device]}, it is for "
            f"{_or(_DEVICES[other] for other in sorted(one.devices))} only; leave it out."
        )
    if name == "export_type" and surface in _CLASSES and isinstance(value, (str, Enum)):
        value = [value]  # MindSpore takes one alone there, and there only.
    taken, problem = _KINDS[one.kind](one, value)
    if name == "output_path" and surface == "env" and not problem and not os.path.isabs(taken):
        problem = "it must be an absolute path, or MindSpore writes elsewhere"
    if problem:
        numbered = _DYNAMIC_NUMBERS.get(name, {}) if surface == "dynamic" and one.kind != "int" else {}
        if isinstance(value, int) and not isinstance(value, bool) and value in numbered:
            problem = f"MindSpore warns about numbers there; {value} stands for {numbered[value]!r}"
        if name == "aicore_metrics" and one.kind == "int" and value in _OLD_METRICS[: one.allowed[1] + 1]:
            problem = f"it is a number in this version; {value} is {_OLD_METRICS.index(value)}"
        raise UsageError(f"{where}: {name}={value!r}: {problem}{'' if problem.endswith('?') else '.'}")
    return taken


def _instead(known: Mapping[str, Parameter], version: Version, surface: str, device: str, name: Any) -> str:
    """Say what to write instead of a name that this version does not take there."""
    others = [other for pair in _SAME if name in pair for other in pair if other != name]
    if now := next((other for other in others if other in known), None):
        useless = "" if device in known[now].devices else f", and it has no effect on {_DEVICES[device]}"
        return f"this version calls it {now!r}{useless}."
    if not isinstance(name, str):
        return "names are text."
    if version >= (2, 5) and name in _REPLACED:
        return f"since 2.5 {_REPLACED[name]}."
    if (surface, name) in _ELSEWHERE:
        return f"{_ELSEWHERE[surface, name]}."
    if name == "ascend_job_id":
        return "it reads what was recorded earlier, and records nothing."
    versions = [one for one in PARAMETERS if one.name == name and surface in one.surfaces]
    if versions:
        first, last = min(one.since for one in versions), max(one.before for one in versions)
        if version < first:
            return f"it came with {first[0]}.{first[1]}."
        return f"it went with {last[0]}.{last[1]}."
    return nearest(name, known)


def _or(words: Iterator[str]) -> str:
    return " or ".join(words)


def _flag_of(one: Parameter, value: Any) -> tuple[Any, str]:
    return value, "" if isinstance(value, bool) else f"it must be true or false, not {_article(value)}"


def _number_of(one: Parameter, value: Any) -> tuple[Any, str]:
    least, most = one.allowed
    if isinstance(value, bool) or not isinstance(value, int):
        return value, f"it must be an integer, not {_article(value)}"
    if not least <= value <= most:
        return value, f"it must be at least {least}" if most == math.inf else f"it must be from {least} to {most}"
    return value, ""


def _text_of(one: Parameter, value: Any) -> tuple[Any, str]:
    if not isinstance(value, str):
        return value, f"it must be text, not {_article(value)}"
    return value, "" if value else "it must not be empty"


def _path_of(one: Parameter, value: Any) -> tuple[Any, str]:
    return _text_of(one, str(value) if isinstance(value, Path) else value)


def _choice_of(one: Parameter, value: Any) -> tuple[Any, str]:
    name = _name_of(one, value)
    if name in one.allowed:
        return name, ""
    names = [str(known) for known in one.allowed if known is not None]
    near = nearest(name, names) if isinstance(name, str) else f"known are {', '.join(names)}"
    return value, f"it must be one of its names; {near.rstrip('.')}"


def _choices_of(one: Parameter, value: Any) -> tuple[Any, str]:
    if not isinstance(value, (list, tuple)):
        return value, f"it must be a list of names ({', '.join(one.allowed)}), not {_article(value)}"
    if not value and one.default:
        return value, f"it must hold at least one of {', '.join(one.allowed)}"
    taken = []
    for item in value:
        name, problem = _choice_of(one, item)
        if problem:
            return value, f"{item!r} in it: {problem}"
        taken.append(name)
    return tuple(dict.fromkeys(taken)), ""


def _texts_of(one: Parameter, value: Any) -> tuple[Any, str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) and item for item in value):
        return value, "it must be a list of names that are not empty"
    return tuple(dict.fromkeys(value)), ""


def _schedule_of(one: Parameter, value: Any) -> tuple[Any, str]:
    # A function would do for torch. MindSpore resets whatever is not its own Schedule, and records one step.
    is_one = isinstance(value, StepWindow) or type(value).__name__ == "Schedule"
    return value, "" if is_one else "it must be made by mindspore.profiler.schedule(...), or be a StepWindow"


def _callable_of(one: Parameter, value: Any) -> tuple[Any, str]:
    return value, "" if callable(value) else "it must be callable, as tensorboard_trace_handler(DIR) is"


_KINDS: dict[str, Callable[[Parameter, Any], tuple[Any, str]]] = {
    "bool": _flag_of,
    "int": _number_of,
    "text": _text_of,
    "path": _path_of,
    "choice": _choice_of,
    "choices": _choices_of,
    "texts": _texts_of,
    "schedule": _schedule_of,
    "callable": _callable_of,
}


def _name_of(one: Parameter, value: Any) -> Any:
    """Return the name that stands for a choice: of an enum's member, and of the two words that differ from it."""
    if isinstance(value, Enum):
        if type(value).__name__ != one.enum:
            return value
        value = value.name if one.enum in ("ProfilerLevel", "AicoreMetrics") else value.value
    if one.enum == "AicoreMetrics" and value == "None":
        return "AiCoreNone"
    if one.enum == "ExportType" and value in ("Text", "Db"):
        return value.lower()
    return value if isinstance(value, str) or value is None else repr(value)


def _article(value: Any) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


# -- together ---------------------------------------------------------------------------------------------------------


def _contradictions(options: MindSporeOptions) -> Iterator[str]:
    """Yield what the options say against each other, in the words of those who wrote them."""
    asked, values, parameters = options.asked, options.values, options.parameters
    if asked.get("start") is False:
        yield "start=False records nothing; leave it out, or say true."
    if asked.get("op_time") is False:
        for name in sorted(asked):
            if parameters[name].needs_op_time:
                yield f"{name}={asked[name]!r} has no effect with op_time=False; leave one of them out."
    if asked.get("profile_communication") is True and asked.get("start_profile") is False:
        yield (
            "profile_communication=True cannot be begun in mid-training, so it does not go with start_profile=False; "
            "leave one of them out."
        )
    if asked.get("schedule") is not None and asked.get("data_process") is True:
        yield "data_process=True is reset where a schedule is set; leave one of them out."
    yield from _of_activities(options)
    yield from _of_level(asked, values)
    yield from _of_mstx(asked, values)
    yield from _deprecated(asked, parameters)
    yield from _of_steps(asked)
    if asked.get("analyse_mode", -1) != -1 and "analyse" in values and not values["analyse"]:
        yield f"analyse_mode={asked['analyse_mode']} has no effect with analyse=False; add analyse=True."


def _of_activities(options: MindSporeOptions) -> Iterator[str]:
    asked, values = options.asked, options.values
    if "activities" not in values:
        return
    activities = values["activities"]
    here = {"cpu": {"CPU"}, "gpu": {"CPU", "GPU"}, "ascend": {"CPU", "NPU"}}[options.device]
    if "activities" in asked and (others := sorted(set(activities) - here)):
        yield f"activities={list(activities)!r}: {others[0]} has no effect on {_DEVICES[options.device]}; leave it out."
    for name in ("record_shapes", "with_stack"):
        if asked.get(name) is True and "CPU" not in activities:
            yield f"{name}=True is reset without CPU among the activities; add it."
    if asked.get("aic_metrics", "AiCoreNone") != "AiCoreNone" and "NPU" not in activities:
        yield f"aic_metrics={asked['aic_metrics']!r} has no effect without NPU among the activities; add it."


def _of_level(asked: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    level, metrics = values.get("profiler_level"), asked.get("aic_metrics")
    if "aic_metrics" not in values:
        return
    if level == "LevelNone" and not values.get("mstx"):
        yield "profiler_level='LevelNone' is reset to 'Level0' without mstx=True; add it, or name another level."
    if level in ("LevelNone", "Level0") and metrics not in (None, "AiCoreNone"):
        yield f"aic_metrics={metrics!r} is reset at profiler_level={level!r}; say profiler_level='Level1' or 'Level2'."
    if level in ("Level1", "Level2") and metrics == "AiCoreNone":
        yield f"aic_metrics='AiCoreNone' is reset to 'PipeUtilization' at profiler_level={level!r}; leave it out."


def _of_mstx(asked: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    domains = [name for name in ("mstx_domain_include", "mstx_domain_exclude") if asked.get(name)]
    if domains and not values["mstx"]:
        yield f"{domains[0]}={list(asked[domains[0]])!r} is reset without mstx=True; add it."
    if len(domains) == 2:
        yield "mstx_domain_include and mstx_domain_exclude do not go together, the second is dropped; leave one of them out."


def _deprecated(asked: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> Iterator[str]:
    for name, instead in (("pcie", "sys_interconnection"), ("hbm_ddr", "profile_memory")):
        # The version that brought sys_interconnection is the one that warns about both.
        if asked.get(name) is True and "sys_interconnection" in parameters:
            yield f"MindSpore warns that {name} goes; say {instead}=True instead."


def _of_steps(asked: Mapping[str, Any]) -> Iterator[str]:
    start, stop = asked.get("start_step", -1), asked.get("stop_step", -1)
    if start == stop == -1:
        return
    if start < 1 or stop < start:
        yield (
            f"start_step={start}, stop_step={stop} is not a window: steps count from 1 and the stop step is included, so "
            "1 <= start_step <= stop_step; both -1 switch it off."
        )


def _is_on(one: Parameter, value: Any) -> bool:
    if one.condition == "host_info":
        return value is not None
    if one.condition == "flops":
        return bool(value == 0)
    return bool(value)


def _real(profiler: Any, one: Parameter, value: Any) -> Any:
    """Return a value as MindSpore takes it: members of its enums, lists, a schedule."""
    if isinstance(value, StepWindow):
        return profiler.schedule(**value.as_dict())
    if one.kind in ("choices", "texts"):
        return [_member(profiler, one, name) for name in value]
    return _member(profiler, one, value)


def _member(profiler: Any, one: Parameter, name: Any) -> Any:
    if not one.enum or name is None:
        return name
    kind = getattr(profiler, one.enum)
    return kind[name] if one.enum in ("ProfilerLevel", "AicoreMetrics") else kind(name)
