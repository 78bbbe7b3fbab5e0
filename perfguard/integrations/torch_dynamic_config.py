"""The profiler_config.json of torch_npu's dynamic profile: its keys, defaults and rules.

Source: torch_npu, profiler/dynamic_profile.py and _dynamic_profiler/; its default file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfguard.capture.rules import BOOLEAN, STRING, integer, list_of, number, one_of
from perfguard.errors import UsageError
from perfguard.integrations.config_files import decoded, read_json
from perfguard.integrations.section import Section
from perfguard.integrations.tools_config import LAST_STEP
from perfguard.window import StepWindow

#: The start_step of a window that begins with the next step.
AT_ONCE = -1

#: What torch_npu writes into an empty directory.
DEFAULT: dict[str, Any] = {
    "activities": ["CPU", "NPU"],
    "prof_dir": "./",
    "analyse": False,
    "async_mode": False,
    "record_shapes": False,
    "profile_memory": False,
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "active": 1,
    "warmup": 0,
    "start_step": 0,
    "is_rank": False,
    "rank_list": [],
    "experimental_config": {
        "profiler_level": "Level0",
        "aic_metrics": "AiCoreNone",
        "l2_cache": False,
        "op_attr": False,
        "gc_detect_threshold": None,
        "data_simplification": True,
        "record_op_args": False,
        "export_type": ["text"],
        "msprof_tx": False,
        "mstx": False,
        "host_sys": [],
        "mstx_domain_include": [],
        "mstx_domain_exclude": [],
        "sys_io": False,
        "sys_interconnection": False,
    },
}
EXPERIMENTAL: dict[str, Any] = DEFAULT["experimental_config"]
#: Keys that only MindSpore's file of the same name has.
_OF_MINDSPORE = ("stop_step", "prof_path", "analyse_mode", "aicore_metrics", "profiler_level", "profile_communication")
_LEVELS = ("Level_none", "Level0", "Level1", "Level2")
_AIC_METRICS = (
    "AiCoreNone",
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "ResourceConflictRatio",
    "MemoryUB",
    "L2Cache",
    "MemoryAccess",
)
_EXPORT_TYPES = ("text", "db")
_HOST_SYS = ("cpu", "mem", "disk", "network", "osrt")


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicConfig:
    """A profiler_config.json. Steps count from 0: a window with start_step 3 begins after three steps.

    `start_step` is None where the file has none, as with older torch_npu: then every edit requests a window.
    """

    activities: tuple[str, ...] = ("CPU", "NPU")
    prof_dir: Path = Path("./")
    analyse: bool = False
    async_mode: bool = False
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    active: int = 1
    warmup: int = 0
    start_step: int | None = None
    is_rank: bool = False
    rank_list: tuple[int, ...] = ()
    experimental_config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def holds_for(self, rank: int) -> bool:
        """Whether this rank is profiled."""
        return not self.is_rank or rank in self.rank_list

    @property
    def window(self) -> StepWindow:
        """The window, counted from its first step."""
        return StepWindow(skip_first=0, wait=0, warmup=self.warmup, active=self.active)


_SWITCHES = tuple(key for key, value in DEFAULT.items() if value is False and key != "is_rank")
_ACTIVITIES = ("CPU", "NPU")


def read_dynamic_config(data: bytes, name: str) -> DynamicConfig:
    """Return the configuration in a profiler_config.json. Raises `UsageError`, in one line that names the value."""
    root = Section.of(read_json(decoded(data, name), name), "", name)
    if found := [key for key in _OF_MINDSPORE if key in root]:
        raise UsageError(
            f"{name} is MindSpore's: it has {', '.join(found)}, where torch_npu's file of the same name has active and "
            "prof_dir; give MindSpore's DynamicProfilerMonitor a directory of its own."
        )
    root.refuse_unknown((*DEFAULT, "metadata", "is_valid"))
    root.take("is_valid", BOOLEAN, False)
    activities = tuple(one.upper() for one in _strings(root, "activities", _ACTIVITIES, _ACTIVITIES))
    if not activities:
        raise root.error("activities", "is empty, so nothing is recorded: name CPU, NPU or both")
    is_rank = root.take("is_rank", BOOLEAN, False)
    ranks = root.take("rank_list", list_of(integer(0), "a list of ranks (0 or more)", or_alone=True), [])
    if is_rank and ranks == []:
        raise root.error(
            "is_rank", "is true and rank_list is empty, so no rank is profiled: name ranks, or write false"
        )
    return DynamicConfig(
        activities=activities,
        prof_dir=root.path("prof_dir", DEFAULT["prof_dir"]),
        active=root.take("active", integer(1, LAST_STEP, below="torch_npu would take 1"), 1),
        warmup=root.take("warmup", integer(0, LAST_STEP, below="torch_npu would take 0"), 0),
        start_step=root.take("start_step", integer(AT_ONCE, LAST_STEP, below="torch_npu would take 0"), None),
        is_rank=is_rank,
        rank_list=tuple(ranks) if isinstance(ranks, list) else (ranks,),
        experimental_config=_experimental(root.section("experimental_config")),
        metadata=root.section("metadata").plain,
        **{key: root.take(key, BOOLEAN, False) for key in _SWITCHES},
    )


def _experimental(section: Section) -> dict[str, Any]:
    """Return the keys that the file has; torch_npu's own defaults hold for the others."""
    section.refuse_unknown(EXPERIMENTAL)
    found: dict[str, Any] = {
        "profiler_level": section.take("profiler_level", one_of(_LEVELS), "Level0"),
        "aic_metrics": section.take("aic_metrics", one_of(_AIC_METRICS), "AiCoreNone"),
        "gc_detect_threshold": None
        if section.is_null("gc_detect_threshold")
        else section.take("gc_detect_threshold", number(0), None),
        "export_type": _strings(section, "export_type", ("text",), _EXPORT_TYPES),
        "host_sys": _strings(section, "host_sys", (), _HOST_SYS),
    }
    for key, value in EXPERIMENTAL.items():
        if isinstance(value, bool):
            found[key] = section.take(key, BOOLEAN, value)
        elif key not in found:
            found[key] = _strings(section, key, ())
    return {key: value for key, value in found.items() if key in section}


def _strings(section: Section, key: str, default: tuple[str, ...], names: tuple[str, ...] = ()) -> list[str]:
    """Return a list of strings, or of some names in whatever case; a string alone is a list of one."""
    item = one_of(names, ignore_case=True) if names else STRING
    must = f"a list of {', '.join(names)}" if names else "a list of strings"
    value = section.take(key, list_of(item, must, or_alone=True), default)
    return [value] if isinstance(value, str) else list(value)
