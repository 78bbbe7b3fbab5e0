"""The parameters of MindSpore's profiler: every version's names, types, defaults, surfaces and devices.

Sources: the wheels 2.0.0, 2.7.0 and 2.10.0 (`profiler/profiling.py`, `envprofiling.py`, `common/profiler_parameters.py`,
`dynamic_profile/dynamic_profiler_config_context.py`, `platform/*_profiler.py`); the documents of 1.x, 2.2, 2.4, 2.5 and 2.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict

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
EXPORTS = ("text", "db")
_HOST = ("cpu", "mem", "disk", "network", "osrt")

CLASSES = frozenset({"Profiler", "profile"})
_CALLS = frozenset({"Profiler", "profile", "env"})
_RECORDING = frozenset({"Profiler", "profile", "env", "dynamic"})
_OLD = frozenset({"Profiler", "env"})
_ENV = frozenset({"env"})
_DYNAMIC = frozenset({"dynamic"})

_ALL = frozenset(DEVICES)
_ASCEND = frozenset({"ascend"})
_ACCELERATORS = frozenset({"ascend", "gpu"})
_END: Version = (1000, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the profiler, in the versions where it has this type and this default."""

    name: str
    #: "bool", "int", "text", "path", "choice", "choices", "texts", "schedule" or "callable".
    kind: str
    default: Any
    since: Version = (1, 0)
    before: Version = _END
    surfaces: frozenset[str] = _RECORDING
    #: Devices on which it has an effect; the profiler ignores it on others.
    devices: frozenset[str] = _ASCEND
    #: The names to choose from, or the least and the largest integer.
    allowed: tuple[Any, ...] = ()
    #: Name of the enum in mindspore.profiler whose members are accepted as well.
    enum: str = ""
    #: Whether the profiler ignores it without op_time.
    needs_op_time: bool = False
    #: The condition of the layouts that it sets; `mindspore_options._is_on` says for which values.
    condition: str = ""

    def is_in(self, version: Version, surface: str) -> bool:
        """Whether this version has it on this surface."""
        return self.since <= version < self.before and surface in self.surfaces


def _flag(name: str, default: bool, **more: Any) -> Parameter:
    return Parameter(name=name, kind="bool", default=default, **more)


def _number(name: str, default: int, least: int, most: float = math.inf, **more: Any) -> Parameter:
    return Parameter(name=name, kind="int", default=default, allowed=(least, most), **more)


def _choice(name: str, default: str | None, allowed: tuple[Any, ...], enum: str = "", **more: Any) -> Parameter:
    return Parameter(name=name, kind="choice", default=default, allowed=allowed, enum=enum, **more)


def _choices(name: str, default: tuple[str, ...], allowed: tuple[str, ...], enum: str, **more: Any) -> Parameter:
    return Parameter(name=name, kind="choices", default=default, allowed=allowed, enum=enum, **more)


#: Every parameter of every version. A name is here twice if its type, default or meaning changed.
PARAMETERS: tuple[Parameter, ...] = (
    # -- output and schedule
    _flag("start", False, surfaces=_ENV, devices=_ALL),
    Parameter(name="output_path", kind="path", default=None, surfaces=_OLD, devices=_ALL),
    _flag("start_profile", True, surfaces=CLASSES, devices=_ALL),
    Parameter(name="schedule", kind="schedule", default=None, since=(2, 5), surfaces=CLASSES, devices=_ALL),
    Parameter(name="on_trace_ready", kind="callable", default=None, since=(2, 5), surfaces=CLASSES, devices=_ALL),
    # -- 1.x: other names in the environment variable
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
    _choices("export_type", ("text",), EXPORTS, "ExportType", since=(2, 6)),
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

#: Names of one parameter in different versions and tools.
SYNONYMS = (
    ("memory", "profile_memory"),
    ("hccl", "profile_communication"),
    ("aicore_metrics", "aic_metrics"),
    ("timeline_limit_size", "timeline_limit"),
    ("record_shape", "record_shapes"),
    ("host_stack", "with_stack"),
    ("profile_level", "profiler_level"),
    ("analyze", "analyse"),
)
#: How to get the effect of a parameter that 2.5 removed without a new name.
REPLACED = {
    "profile_communication": "communication is recorded at profiler_level='Level1' or 'Level2'",
    "hccl": "communication is recorded at profiler_level='Level1' or 'Level2'",
    "op_time": "operators are recorded by activities, such as activities=['CPU', 'NPU']",
    "profile_framework": "the host is recorded by activities=['CPU', ...]",
    "timeline_limit": "the timeline has no limit",
    "timeline_limit_size": "the timeline has no limit",
}
#: How a surface gets the effect of a parameter that only other surfaces have.
ELSEWHERE = {
    ("profile", "output_path"): "name the directory with on_trace_ready=tensorboard_trace_handler(DIR)",
    ("profile", "start"): "only MS_PROFILER_OPTIONS has it",
    ("env", "start_profile"): "the environment variable always starts at once; its name for that is 'start'",
    ("env", "schedule"): "the environment variable records the whole run",
    ("env", "on_trace_ready"): "the environment variable always analyses",
    ("dynamic", "output_path"): "give it to DynamicProfilerMonitor, or write 'prof_path' here",
    ("dynamic", "schedule"): "the window is start_step and stop_step",
    ("dynamic", "data_process"): "a window of steps cannot hold the data pipeline",
}
#: Numbers in profiler_config.json and the names they mean since 2.6; MindSpore warns about each number.
DYNAMIC_NUMBERS: dict[str, dict[int, Any]] = {
    "profiler_level": dict(zip(range(-1, 3), _LEVELS, strict=True)),
    "aic_metrics": dict(enumerate(_METRICS[:2])) | dict(zip(range(2, 8), _METRICS[2:8], strict=True)),
    "activities": {0: ["CPU", "NPU"], 1: ["CPU"], 2: ["NPU"]},
    "export_type": {1: ["db"], 2: ["text", "db"]},
}
#: The names of the numbers in Profiler(aicore_metrics=...) up to 2.4, which have another order.
OLD_METRICS = (
    "ArithmeticUtilization",
    "PipeUtilization",
    "Memory",
    "MemoryL0",
    "ResourceConflictRatio",
    "MemoryUB",
    "L2Cache",
)
#: Parameters that mindspore.profiler.profile takes in an _ExperimentalConfig.
EXPERIMENTAL = frozenset(
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
