"""The tools.json of MindSpeed-MM as frozen values, every value checked.

Source: MindSpeed-MM, mindspeed_mm/tools: README.md, profiler.py, tools.json (the older form lacks aic_metrics_type and
analyse_flag). FSDP2 configurations have the same tree below `tools:` of a YAML file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfguard.capture.rules import BOOLEAN, integer, is_integer, list_of, one_line, one_of, shown
from perfguard.errors import UsageError
from perfguard.integrations.config_files import read_json, read_text, read_yaml
from perfguard.integrations.section import REQUIRED, Section
from perfguard.window import StepWindow

#: The last step a window may have: a recording lists every step before it.
LAST_STEP = 10_000_000

LEVELS = ("level0", "level1", "level2")
AIC_METRICS = ("PipeUtilization", "ArithmeticUtilization")
PROFILE_TYPES = ("static", "dynamic")
_STACKS = ("all", "python")
#: The number that means all ranks.
EVERY_RANK = -1
_RANKS = list_of(integer(EVERY_RANK), "a list of ranks (0 or more, or -1 for all)", or_alone=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticParam:
    """`profile.static_param`: a window set before the training. Steps count from 0, and `end_step` is exclusive."""

    save_path: Path
    start_step: int
    end_step: int
    level: str = "level1"
    with_stack: bool = False
    with_memory: bool = False
    record_shapes: bool = False
    with_cpu: bool = True
    data_simplification: bool = False
    aic_metrics_type: str = "PipeUtilization"
    analyse_flag: bool = True

    @property
    def window(self) -> StepWindow:
        """The window, without wait and warm-up."""
        return StepWindow.from_start_end(self.start_step, self.end_step)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicParam:
    """`profile.dynamic_param`: the directory of profiler_config.json and of the log."""

    config_path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProfile:
    """`memory_profile`: the history of a device's memory, one pickle a rank. `max_entries` None means no limit."""

    enable: bool = False
    start_step: int = 0
    end_step: int = 2
    save_path: Path = Path("memory_snapshot")
    dump_ranks: tuple[int, ...] = (0,)
    stacks: str = "all"
    max_entries: int | None = None
    mem_info: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsConfig:
    """A whole tools.json. The parameters that `profile_type` names are present where the profile is enabled."""

    source: str
    enable: bool = False
    profile_type: str = "static"
    #: Global ranks to profile; (-1,) is all of them.
    ranks: tuple[int, ...] = (EVERY_RANK,)
    static_param: StaticParam | None = None
    dynamic_param: DynamicParam | None = None
    memory_profile: MemoryProfile = field(default_factory=MemoryProfile)
    #: Keys that lead to the tree inside the file: "tools." for a YAML of FSDP2.
    prefix: str = ""

    def holds_for(self, rank: int) -> bool:
        """Whether this rank is profiled."""
        return self.enable and (self.ranks == (EVERY_RANK,) or rank in self.ranks)


def read_tools_config(path: str | Path) -> ToolsConfig:
    """Read a tools.json, or the `tools:` of a YAML (.yaml, .yml). Raises `UsageError`, in one line that names the value."""
    if not isinstance(path, (str, Path)):
        raise UsageError(f"tools_profiler needs the path of a tools.json, got {shown(path)}.")
    text = read_text(Path(path), wanted="the tools.json of your model")
    name = one_line(str(path))
    if Path(path).suffix.lower() in (".yaml", ".yml"):
        return _config(_tools_of(read_yaml(text, name), name), name, prefix="tools.")
    return tools_config(read_json(text, name), source=name)


def tools_config(tree: object, *, source: str) -> ToolsConfig:
    """Return the configuration that a parsed tools.json holds. `source` names it in messages. Raises `UsageError`."""
    return _config(tree, source, prefix="")


def _tools_of(document: object, name: str) -> object:
    # The other keys of such a file belong to the model, the data and the training.
    if not isinstance(document, Mapping) or "tools" not in document:
        raise UsageError(f"{name} has no tools: key, where an FSDP2 configuration sets up the profiler.")
    return document["tools"]


def _config(tree: object, source: str, *, prefix: str) -> ToolsConfig:
    root = Section.of(tree, "", source, prefix)
    # Only the feature extraction reads sorafeature.
    root.refuse_unknown(("profile", "memory_profile", "sorafeature"))
    if "profile" not in root and "memory_profile" not in root:
        raise UsageError(f"{source} has neither {prefix}profile nor {prefix}memory_profile, so it profiles nothing.")
    profile = root.section("profile")
    profile.refuse_unknown(("enable", "profile_type", "ranks", "static_param", "dynamic_param"))
    enable = profile.take("enable", BOOLEAN, False)
    kind = profile.take("profile_type", one_of(PROFILE_TYPES), "static")
    return ToolsConfig(
        source=source,
        prefix=prefix,
        enable=enable,
        profile_type=kind,
        ranks=_ranks(profile),
        static_param=_static(profile, needed=enable and kind == "static"),
        dynamic_param=_dynamic(profile, needed=enable and kind == "dynamic"),
        memory_profile=_memory(root.section("memory_profile")),
    )


def _ranks(profile: Section) -> tuple[int, ...]:
    ranks = _as_tuple(profile.take("ranks", _RANKS, EVERY_RANK))
    if EVERY_RANK in ranks and len(ranks) > 1:
        raise profile.error("ranks", f"must be -1 alone, which means all ranks, or a list of ranks, got {list(ranks)}")
    if not ranks:
        raise profile.error("ranks", "is empty, so no rank is profiled: write -1 for all ranks, or enable = false")
    return ranks


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if is_integer(value) else tuple(value)


def _static(profile: Section, *, needed: bool) -> StaticParam | None:
    if not needed and "static_param" not in profile:
        return None
    param = profile.section("static_param")
    param.refuse_unknown(StaticParam.__dataclass_fields__)
    start, end = _window(param, needed=needed)
    path = param.path("save_path", REQUIRED if needed else "./npu_profiling")
    defaults = StaticParam(save_path=path, start_step=start, end_step=end)
    rules = {"level": one_of(LEVELS), "aic_metrics_type": one_of(AIC_METRICS)}
    rules |= dict.fromkeys(("with_stack", "with_memory", "record_shapes", "with_cpu"), BOOLEAN)
    rules |= dict.fromkeys(("data_simplification", "analyse_flag"), BOOLEAN)
    values = {key: param.take(key, rule, getattr(defaults, key)) for key, rule in rules.items()}
    return StaticParam(save_path=path, start_step=start, end_step=end, **values)


def _window(param: Section, *, needed: bool, start: int = 10, end: int = 11) -> tuple[int, int]:
    step = integer(0, LAST_STEP)
    first = param.take("start_step", step, REQUIRED if needed else start)
    last = param.take("end_step", step, REQUIRED if needed else max(end, first + 1))
    if first >= last:
        raise UsageError(
            f"{param.source}: {param.name('start_step')} must be less than end_step, got {first} and {last}; steps count "
            "from 0, and end_step is exclusive."
        )
    return first, last


def _dynamic(profile: Section, *, needed: bool) -> DynamicParam | None:
    if not needed and "dynamic_param" not in profile:
        return None
    param = profile.section("dynamic_param")
    param.refuse_unknown(DynamicParam.__dataclass_fields__)
    return DynamicParam(config_path=param.path("config_path", REQUIRED if needed else "."))


def _memory(param: Section) -> MemoryProfile:
    defaults = MemoryProfile()
    param.refuse_unknown(MemoryProfile.__dataclass_fields__)
    start, end = _window(param, needed=False, start=defaults.start_step, end=defaults.end_step)
    return MemoryProfile(
        enable=param.take("enable", BOOLEAN, defaults.enable),
        start_step=start,
        end_step=end,
        save_path=param.path("save_path", str(defaults.save_path)),
        dump_ranks=_as_tuple(param.take("dump_ranks", _RANKS, defaults.dump_ranks)),
        stacks=param.take("stacks", one_of(_STACKS), defaults.stacks),
        max_entries=None if param.is_null("max_entries") else param.take("max_entries", integer(1), None),
        mem_info=param.take("mem_info", BOOLEAN, defaults.mem_info),
    )
