"""The parameters of MindSpore's profiler: those of every version, from mindspore_profiler.schema.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict

from perfguard.configuration import Schema, configuration_schema

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
#: What combinations of options lead to: schemas of the requested options and of all values, and a message.
CONFLICTS: list[dict[str, Any]] = _DOCUMENT["x-conflicts"]
#: Names of one parameter in different versions and tools.
SYNONYMS: list[list[str]] = _DOCUMENT["x-synonyms"]
#: How to get the effect of a parameter that 2.5 removed without a new name.
REPLACED: dict[str, str] = _DOCUMENT["x-replaced"]
#: How a surface gets the effect of a parameter that only other surfaces have.
ELSEWHERE: dict[str, dict[str, str]] = _DOCUMENT["x-elsewhere"]
#: Numbers in profiler_config.json, as text, and the names they mean since 2.6; MindSpore warns about each number.
DYNAMIC_NUMBERS: dict[str, dict[str, Any]] = _DOCUMENT["x-numbers"]
#: The names of the numbers in Profiler(aicore_metrics=...) up to 2.4, which have another order.
OLD_METRICS: list[str] = _DOCUMENT["x-old-metrics"]


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


def _parameters() -> Iterator[Parameter]:
    for name, found in _DOCUMENT["properties"].items():
        for schema in found.get("anyOf", [found]):
            default = schema["default"]
            yield Parameter(
                name=name,
                schema=schema,
                default=tuple(default) if isinstance(default, list) else default,
                since=_version(schema.get("x-since", "1.0")),
                before=_version(schema.get("x-before", "1000.0")),
                surfaces=frozenset(schema.get("x-surfaces", PLACES)),
                devices=frozenset(schema.get("x-devices", ("ascend",))),
                condition=schema.get("x-condition", ""),
            )


def _version(text: str) -> Version:
    major, minor = text.split(".")
    return int(major), int(minor)


#: Every parameter of every version. A name is here twice if its type, default or meaning changed.
PARAMETERS: tuple[Parameter, ...] = tuple(_parameters())


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
