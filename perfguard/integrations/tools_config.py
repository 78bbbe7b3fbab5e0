"""The tools.json of MindSpeed-MM, every value checked; its keys, bounds and defaults are in tools_config.schema.json.

The `tools:` of an FSDP2 YAML is the same tree with other defaults, and has no dynamic windows: `x-fsdp2` in the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfguard.config_files import read_json, read_text, read_yaml
from perfguard.configuration import Schema, Section, configuration_schema
from perfguard.errors import UsageError
from perfguard.screen import one_line, shown

#: The number that means all ranks.
EVERY_RANK = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsConfig:
    """A whole tools.json. The parameters that `profile_type` names are present where the profile is enabled."""

    source: str
    enable: bool
    profile_type: str
    #: Global ranks to profile; [-1] is all of them.
    ranks: list[int]
    #: `profile.static_param`, by key. Steps count from 0, and `end_step` is exclusive.
    static_param: dict[str, Any] | None
    #: `profile.dynamic_param.config_path`, the directory of profiler_config.json and of the log.
    config_path: Path | None
    #: `memory_profile`, by key.
    memory_profile: dict[str, Any]
    #: Keys that lead to the tree inside the file: "tools." for a YAML of FSDP2.
    prefix: str = ""

    def holds_for(self, rank: int) -> bool:
        """Whether this rank is profiled."""
        return self.enable and (self.ranks == [EVERY_RANK] or rank in self.ranks)


def read_tools_config(path: str | Path) -> ToolsConfig:
    """Read a tools.json, or the `tools:` of a YAML (.yaml, .yml). Raises `UsageError`, in one line that names the value."""
    if not isinstance(path, (str, Path)):
        raise UsageError(f"tools_profiler needs the path of a tools.json, got {shown(path)}.")
    text = read_text(Path(path), hint="the tools.json of your model")
    name = one_line(str(path))
    if Path(path).suffix.lower() not in (".yaml", ".yml"):
        return tools_config(read_json(text, name), source=name)
    document = read_yaml(text, name)
    # The other keys of such a file belong to the model, the data and the training.
    if not isinstance(document, Mapping) or "tools" not in document:
        raise UsageError(f"{name} has no tools: key, where an FSDP2 configuration sets up the profiler.")
    return tools_config(document["tools"], source=name, at="tools", fsdp2=True)


def tools_config(tree: object, *, source: str, at: str = "", fsdp2: bool = False) -> ToolsConfig:
    """Return the configuration in a parsed tools.json. `source` and `at` name it in messages. Raises `UsageError`."""
    schema = configuration_schema("tools_config")
    root = Section.of(tree, _of_fsdp2(schema) if fsdp2 else schema, source, at)
    root.refuse_unknown()
    if "profile" not in root and "memory_profile" not in root:
        raise UsageError(
            f"{source} has neither {root.name('profile')} nor {root.name('memory_profile')}, so it profiles nothing."
        )
    profile = root.section("profile")
    found = profile.read()
    needed = found["profile_type"] if found["enable"] else ""
    dynamic = _parameters(profile, "dynamic_param", needed=needed == "dynamic")
    ranks = found["ranks"]
    if EVERY_RANK in ranks and len(ranks) > 1:
        raise profile.error("ranks", f"must be -1 alone, which means all ranks, or a list of ranks, got {ranks}")
    if not ranks:
        raise profile.error("ranks", "is empty, so no rank is profiled: write -1 for all ranks, or enable = false")
    return ToolsConfig(
        source=source,
        prefix=f"{at}." if at else "",
        enable=found["enable"],
        profile_type=found["profile_type"],
        ranks=ranks,
        static_param=_parameters(profile, "static_param", needed=needed == "static"),
        config_path=None if dynamic is None else dynamic["config_path"],
        memory_profile=_with_a_window(root.section("memory_profile")),
    )


def _of_fsdp2(schema: Schema) -> Schema:
    """Return a schema with the defaults and requirements of an FSDP2 YAML."""
    own = {**schema, **schema.get("x-fsdp2", {})}
    if "properties" in own:
        own["properties"] = {key: _of_fsdp2(one) for key, one in own["properties"].items()}
    return own


def _parameters(profile: Section, key: str, *, needed: bool) -> dict[str, Any] | None:
    if not needed and key not in profile:
        return None
    return _with_a_window(profile.section(key), needed=needed)


def _with_a_window(param: Section, *, needed: bool = False) -> dict[str, Any]:
    """Return the values of a section; where it is not used, one without an end_step holds a step at least."""
    found = param.read(needed=needed)
    if "start_step" not in found:
        return found
    first = found["start_step"]
    last = found["end_step"] if needed or "end_step" in param else max(found["end_step"], first + 1)
    if first >= last:
        raise UsageError(
            f"{param.source}: {param.name('start_step')} must be less than end_step, got {first} and {last}; steps count "
            "from 0, and end_step is exclusive."
        )
    return found | {"end_step": last}
