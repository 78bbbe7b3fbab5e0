"""MindSpeed-LLM's profiler: its steps, options, ranks and directory, from a launch script, a command line or an FSDP2 YAML.

Nothing of MindSpeed-LLM is imported, and no script is run. A launch script is searched for the words that begin with
`--profile`, wherever they are; comments are left out, and a variable has the value that the same file assigns to it.

The two backends count differently: Megatron's steps are iterations, from 1 on, and a training that is resumed from a checkpoint
goes on counting; FSDP2 counts from 0. In both the end is excluded, and one step before the window warms the profiler up.

Sources: MindSpeed-LLM, mindspeed_llm/training/training.py (`get_profiler`, `train`), features_manager/common/profile.py,
fsdp2/utils/{arguments,profiler}.py, fsdp2/train/trainer.py; megatron/training/arguments.py; torch_npu/profiler/scheduler.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfguard.config_files import read_text, read_yaml
from perfguard.configuration import Schema, Section, configuration_schema, violation
from perfguard.errors import UsageError
from perfguard.integrations.ranks import expected_ranks, require_ranks, require_world_size
from perfguard.screen import one_line, shown
from perfguard.window import StepWindow

#: The number that means all ranks.
EVERY_RANK = -1
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_ITERATION = {"type": "integer", "minimum": 0, "maximum": 10**9 - 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class MindSpeedLLMProfile:
    """The profiler options of a training of MindSpeed-LLM."""

    #: The file, or "command line".
    source: str
    is_on: bool
    #: The schedule of torch_npu's profiler; None where it records until the training ends.
    window: StepWindow | None
    #: The first and the last profiled training step, counted from 1; the last is None where the training's end is the window's.
    training_steps: tuple[int, int | None]
    #: The options besides the window: {"profile_level": "level1", "profile_with_cpu": True, ...}.
    options: dict[str, Any]
    #: `profile_save_path`, into which every profiled rank writes a directory.
    directory: Path
    #: The profiled ranks; None for all ranks.
    ranks: tuple[int, ...] | None
    #: False: `--profile-ranks` is left out, whose default differs between versions.
    ranks_are_given: bool = True
    #: The number of ranks, where the caller gave it.
    world_size: int | None
    #: What to know of the settings, a sentence each.
    notes: tuple[str, ...]

    @property
    def expectation(self) -> str:
        """The `expect` of `perfguard.check(profile.directory, expect=profile.expectation)`.

        It has the number of steps where they are marked, which needs `profile_with_cpu`, and the number of ranks where they
        are 0 to N - 1.
        """
        items = []
        if self.window is not None and self.options["profile_with_cpu"]:
            items.append(f"steps={self.window.active}")
        for key, word in (
            ("profile_with_memory", "memory"),
            ("profile_record_shapes", "shapes"),
            ("profile_with_stack", "stack"),
        ):
            items.append(word if self.options[key] else f"no-{word}")
        level = self.options["profile_level"]
        items += ["no-level1" if level == "level_none" else level, self.options["profile_export_type"]]
        items += expected_ranks(self.ranks, self.world_size) if self.ranks_are_given else []
        return ",".join(items)


def read_mindspeed_llm(
    source: str | Path | Sequence[str], *, world_size: int | None = None, iteration: int = 0
) -> MindSpeedLLMProfile:
    """Read what MindSpeed-LLM profiles: of a launch script, an FSDP2 YAML (.yaml, .yml), or the words of a command line.

    `world_size` is the number of ranks, `iteration` the one that a checkpoint is resumed from. Raises `UsageError` for a
    misspelt key, a wrong value, an option with two values, and a window that is none.
    """
    require_world_size(world_size)
    if problem := violation(iteration, _ITERATION):
        raise UsageError(f"iteration {problem}.")
    if not isinstance(source, (str, Path)):
        return _megatron([*source], "command line", {}, world_size, iteration)
    path, name = Path(source), one_line(str(source))
    text = read_text(path, hint="the launch script or the YAML of your training")
    if path.suffix.lower() in (".yaml", ".yml"):
        return _fsdp2(read_yaml(text, name), name, world_size)
    script = re.sub(r"(?m)(?<!\S)#.*$", "", text)
    words = _words(script)
    if not any(word.startswith("--profile") for word in words):
        raise UsageError(f"{name} has no --profile, so it profiles nothing.")
    return _megatron(words, name, _assigned(script), world_size, iteration)


# -- the two backends ------------------------------------------------------------------------------------------------


def _megatron(
    words: Sequence[str], source: str, variables: Mapping[str, str], world_size: int | None, iteration: int
) -> MindSpeedLLMProfile:
    schema = _of_megatron(configuration_schema("mindspeed_llm"))
    notes: list[str] = []
    plain = _options(words, schema, source, variables)
    section = Section(plain, schema, source)
    _check_names(section, notes)
    found = {key[2:].replace("-", "_"): section.take(key) for key in schema["properties"]}
    start, end = found["profile_step_start"], found["profile_step_end"]
    if start >= end:
        raise section.error(
            "--profile-step-start", f"must be less than --profile-step-end, got {start} and {end}; the end is excluded"
        )
    if start <= iteration:
        raise section.error(
            "--profile-step-start", f"must be greater than the iteration that is resumed, got {start} and {iteration}"
        )
    if EVERY_RANK in (ranks := found["profile_ranks"]) and len(ranks) > 1:
        raise section.error(
            "--profile-ranks", f"must be -1 alone, which means all ranks, or a list of ranks, got {ranks}"
        )
    if "--profile-ranks" not in plain and found["profile"]:
        notes.append("--profile-ranks is not given: rank 0 is profiled, and all ranks by older versions.")
    window = StepWindow(skip_first=max(start - iteration - 2, 0), warmup=int(start > iteration + 1), active=end - start)
    profile = _profile(section, found, window, (start, end - 1), world_size, notes)
    return replace(profile, ranks_are_given="--profile-ranks" in plain)


def _fsdp2(document: object, source: str, world_size: int | None) -> MindSpeedLLMProfile:
    if not isinstance(document, Mapping) or "training" not in document:
        raise UsageError(
            f"{source} has no training: key, where an FSDP2 configuration of MindSpeed-LLM sets up the profiler."
        )
    section = Section.of(document["training"], configuration_schema("mindspeed_llm"), source, "training")
    notes: list[str] = []
    _check_names(section, notes)
    found = {key: section.take(key) for key in section.schema["properties"]}
    start, end = found["profile_step_start"], found["profile_step_end"]
    if end == -1:
        return _profile(section, found, None, (start + 1, None), world_size, notes)
    if start >= end:
        raise section.error(
            "profile_step_start",
            f"must be less than profile_step_end, got {start} and {end}; steps count from 0, and the end is excluded",
        )
    window = StepWindow(skip_first=max(start - 1, 0), warmup=int(start > 0), active=end - start)
    return _profile(section, found, window, (start + 1, end), world_size, notes)


def _profile(
    section: Section,
    found: dict[str, Any],
    window: StepWindow | None,
    training_steps: tuple[int, int | None],
    world_size: int | None,
    notes: Sequence[str],
) -> MindSpeedLLMProfile:
    key = next(one for one in section.schema["properties"] if one.endswith("ranks"))
    ranks = None if EVERY_RANK in found["profile_ranks"] else tuple(sorted(set(found["profile_ranks"])))
    if ranks == ():
        raise section.error(key, "is empty, so no rank is profiled; name some ranks, or -1 for all")
    if ranks is not None:
        require_ranks(section, key, [*ranks], world_size)
    taken = ("profile", "profile_step_start", "profile_step_end", "profile_ranks", "profile_save_path")
    return MindSpeedLLMProfile(
        source=section.source,
        is_on=found["profile"],
        window=window,
        training_steps=training_steps,
        options={one: value for one, value in found.items() if one not in taken},
        directory=found["profile_save_path"],
        ranks=ranks,
        world_size=world_size,
        notes=tuple(notes),
    )


def _of_megatron(schema: Schema) -> Schema:
    """Return the schema of the command line's options."""
    parts = {
        "--" + key.replace("_", "-"): {**part, **part.get("x-megatron", {})}
        for key, part in schema["properties"].items()
    }
    return {**schema, "properties": parts}


def _check_names(section: Section, notes: list[str]) -> None:
    """Refuse a misspelt key, and note an unknown one of a profiler; other keys are of other parts."""
    known = [*section.schema["properties"]]
    for key in section.plain:
        if not isinstance(key, str) or key in known or not key.lstrip("-").lower().startswith("profil"):
            continue
        notes.append(section.unknown(one_line(key), known))


# -- the words of a command line ---------------------------------------------------------------------------------------

#: Between the words of a script: what is on its two sides is not of one option.
_END = "\n"
_TOKENS = re.compile(r""""(?:\\.|[^"\\])*"|'[^']*'|[()\n]|[^\s"'()]+""", re.DOTALL)


def _words(script: str) -> list[str]:
    """Return the words of a script without quotation marks, and `_END` where a line, a bracket or a quoted text ends."""
    found: list[str] = []
    for token in _TOKENS.findall(script.replace("\\\n", " ")):
        if token[0] not in "\"'":
            found.append(_END if token in "()\n" else token)
            continue
        inside = token[1:-1].split()
        found += inside if len(inside) == 1 else [_END, *inside, _END]
    return found


def _options(words: Sequence[str], schema: Schema, source: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the options that begin with `--profil`: integers, lists of them, texts, True for a flag."""
    found: dict[str, Any] = {}
    for at, word in enumerate(words):
        key, equals, first = word.partition("=")
        if not key.startswith("--profil"):
            continue
        following = [first] if first else []
        for one in words[at + 1 :] if not first else ():
            # A negative number is a value.
            if one == _END or (one.startswith("-") and not _NUMBER.fullmatch(one)):
                break
            following.append(one)
        part = schema["properties"].get(key, {"type": "boolean"})
        value = True if part["type"] == "boolean" and not equals else _value(key, part, following, source, variables)
        if found.setdefault(key, value) != value:
            raise UsageError(
                f"{source}: {key} is there twice, with {shown(found[key])} and {shown(value)}; leave one of them out."
            )
    return found


def _value(key: str, part: Schema, following: Sequence[str], source: str, variables: Mapping[str, str]) -> Any:
    if not following:
        raise UsageError(f"{source}: {key} has no value.")
    if "array" not in part["type"]:
        text = _resolved(key, following[0], source, variables)
        return int(text) if part["type"] == "integer" and _NUMBER.fullmatch(text) else text
    found: list[Any] = []
    for word in following:
        text = _resolved(key, word, source, variables)
        if not _NUMBER.fullmatch(text):
            # In a script, the numbers may be followed by more than options: `--profile-ranks 0 1 | tee log`.
            return found or [text]
        found.append(int(text))
    return found


def _resolved(key: str, word: str, source: str, variables: Mapping[str, str]) -> str:
    if "$" not in word:
        return word
    variable = _VARIABLE.fullmatch(word)
    if variable is None or variable[1] not in variables:
        raise UsageError(
            f"{source}: {key} is {shown(word)}, whose value is not in the file; pass the words of the command instead, as in "
            f'read_mindspeed_llm(["--profile", "{key}", ...]).'
        )
    return variables[variable[1]]


def _assigned(script: str) -> dict[str, str]:
    """Return the variables that a script assigns one plain word to, and no other."""
    found: dict[str, set[str]] = {}
    for name, value in re.findall(r"(?m)^[ \t]*(?:export[ \t]+)?(\w+)=(.*?)[ \t;]*$", script):
        found.setdefault(name, set()).add(value.strip("\"'"))
    single = {name: values.pop() for name, values in found.items() if len(values) == 1}
    return {name: value for name, value in single.items() if re.fullmatch(r"[^\s$`\"'()\\]+", value)}
