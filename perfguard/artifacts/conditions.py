"""Conditions: what was on when the profiler ran. They decide which files must be there.

A condition is on, off, or unknown. What the caller expects goes first, then what perfguard itself asked the profiler for, then
the sources a layout names: a value in a document, the presence of a file, a text. What nobody knows is said, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfguard.artifacts.layout import Layout
from perfguard.artifacts.survey import FoundCycle, FoundFile, head
from perfguard.errors import UsageError, nearest

#: Every condition a layout may speak of, and what it means when it is on.
CONDITIONS: dict[str, str] = {
    "graph": "graph mode; off means PyNative mode",
    "sink": "data sink mode: the device fetches the batches itself",
    "distributed": "more than one device",
    "level1": "profiler level 1 or 2",
    "level2": "profiler level 2",
    "memory": "profile_memory",
    "communication": "profile_communication",
    "heterogeneous": "some operators run on the host CPU beside a device",
    "dynamic_shape": "shapes change from step to step",
    "text": "the text export",
    "db": "the database export",
    "analysed": "what was collected has been analysed",
    "data_process": "data_process: the data pipeline is profiled",
    "parallel_strategy": "parallel_strategy",
    "host_info": "profile_framework is not None",
    "l2_cache": "l2_cache",
    "shapes": "record_shapes",
    "op_time": "op_time",
    "scheduled": "a schedule was set, so that steps are known",
    "sys_io": "sys_io: network counters",
    "sys_interconnection": "sys_interconnection: bus counters",
    "aicore": "operators ran on AI Core",
    "aicpu": "operators ran on AI CPU",
    "flops": "aicore_metrics = ArithmeticUtilization",
    "hccl": "collective operators ran",
    "cpu_device": "the device is the CPU",
    "gpu": "the device is a GPU",
    "npu": "the device is traced (ProfilerActivity.NPU)",
    "host": "the host is traced (ProfilerActivity.CPU)",
    "stack": "with_stack",
    "simplified": "data_simplification: raw data is removed",
    "lineage": "the lineage of the training is collected (SummaryCollector)",
    "landscape": "the parameters of a loss landscape are collected (SummaryCollector)",
    "recorded": "the profiler wrote something besides its own log",
    "recent": "a version that writes every file of its layout; older ones wrote fewer",
}

#: Numbers a caller may say of SummaryCollector's files, besides ranks and steps, and what they mean.
NUMBERS: dict[str, str] = {
    "collect_freq": "values are collected in the first step and in every so many steps",
    "collect_tensor_freq": "tensors are collected in the first step and in every so many steps",
    "max_file_size": "bytes a summary file may have at most",
    "summary_steps": "training steps (in data sink mode: epochs) the summary is of",
}

#: Other words for a condition, as `--expect` takes them.
_WORDS: dict[str, tuple[tuple[str, bool], ...]] = {
    "pynative": (("graph", False),),
    "level0": (("level1", False), ("level2", False)),
    "level1": (("level1", True), ("level2", False)),
    "level2": (("level1", True), ("level2", True)),
    "cpu": (("cpu_device", True), ("gpu", False)),
    "gpu": (("gpu", True), ("cpu_device", False)),
    "ascend": (("cpu_device", False), ("gpu", False)),
    "single": (("distributed", False),),
}


@dataclass(frozen=True, slots=True)
class Known:
    """Whether a condition is on, and who says so."""

    value: bool
    because: str
    #: Whether it was said, not only concluded from what is missing.
    is_said: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the caller says about a directory: conditions, how many ranks and steps there must be, other numbers."""

    conditions: Mapping[str, bool] = field(default_factory=dict)
    ranks: int | None = None
    steps: int | None = None
    #: What else was set up, by its word: see `NUMBERS`.
    numbers: Mapping[str, int] = field(default_factory=dict)


def expectation(texts: Iterable[str]) -> Expectation:
    """Read `graph,memory,no-shapes`, `ranks=8`, `steps=3`. Raises `UsageError` with the nearest word known."""
    conditions: dict[str, bool] = {}
    numbers: dict[str, int] = {}
    words = [word for whole in texts for part in whole.split(",") if (word := part.strip())]
    if both := next((word for word in words if f"no-{word}" in words), None):
        raise UsageError(f"--expect {both},no-{both}: it is on or off, not both.")
    for text in words:
        name, equals, value = text.partition("=")
        if re.search(r"\s", name):
            raise UsageError(f"--expect {text!r}: a comma separates two words, as in graph,ranks=8.")
        if equals:
            digits = 15 if name == "max_file_size" else 9
            if name not in ("ranks", "steps", *NUMBERS) or not re.fullmatch(rf"[1-9][0-9]{{0,{digits - 1}}}", value):
                raise UsageError(f"--expect {text!r}: numbers are expected as ranks=8 and steps=3.")
            numbers[name] = int(value)
            continue
        positive = text.removeprefix("no-")
        if text in _WORDS:
            conditions |= dict(_WORDS[text])
        elif positive in CONDITIONS:
            conditions[positive] = not text.startswith("no-")
        else:
            raise UsageError(
                f"--expect {text!r} is not known; {nearest(positive.lower(), list(dict.fromkeys([*CONDITIONS, *_WORDS])))}"
            )
    return Expectation(
        conditions=conditions, ranks=numbers.pop("ranks", None), steps=numbers.pop("steps", None), numbers=numbers
    )


def known_conditions(
    found: FoundCycle, documents: Mapping[str, Any], said: Mapping[str, Mapping[str, bool]]
) -> dict[str, Known]:
    """Return every condition that can be known of a cycle.

    `documents` are the JSON documents read, by slot; `said` is what others say, by who says it, the first goes first.
    """
    known: dict[str, Known] = {}
    for who, conditions in said.items():
        for name, value in conditions.items():
            known.setdefault(name, Known(value, who))
        _imply(known)
    by_slot: dict[str, list[FoundFile]] = {}
    for file in found.files:
        by_slot.setdefault(file.slot.name, []).append(file)
    for name, sources in found.layout.conditions.items():
        for source in sources:
            if name in known:
                break
            if (one := _from_source(source, found.layout.id, by_slot, documents)) is not None:
                known[name] = one
    _imply(known)
    return known


def _imply(known: dict[str, Known]) -> None:
    """Add what one level says of the other, before anybody less believed is asked."""
    if (two := known.get("level2")) is not None and two.value:
        known.setdefault("level1", Known(True, two.because))
    if (one := known.get("level1")) is not None and not one.value:
        known.setdefault("level2", Known(False, one.because))


def _from_source(
    source: Mapping[str, Any], layout: str, by_slot: Mapping[str, Sequence[FoundFile]], documents: Mapping[str, Any]
) -> Known | None:
    if "always" in source:
        return Known(source["always"], f"layout {layout}")
    if "present" in source:
        there = next((by_slot[slot][0] for slot in source["present"] if slot in by_slot), None)
        return None if there is None else Known(True, f"{there.path.name} is there")
    if "absent" in source:
        there = next((by_slot[slot][0] for slot in source["absent"] if slot in by_slot), None)
        return None if there is None else Known(False, f"{there.path.name} is there", is_said=False)
    if "unranked" in source:
        one = next((file for slot in source["unranked"] for file in by_slot.get(slot, ()) if file.rank is None), None)
        return None if one is None else Known(False, f"{one.path.name} names no rank", is_said=False)
    if "text" in source:
        ((slot, pattern),) = source["text"].items()
        if slot not in by_slot:
            return None
        path = by_slot[slot][0].path
        return Known(re.search(pattern, head(path), re.MULTILINE) is not None, f"the text of {path.name}")
    value = _value_at(documents.get(source["slot"]), source["path"].split("."))
    return None if value is None else _judged(value, source)


def _judged(value: Any, source: Mapping[str, Any]) -> Known | None:
    because = f"{source['path']} of {source['slot']}"
    pattern = source.get("pattern")
    if pattern is None:
        return Known(value, because) if isinstance(value, bool) else None
    items = value if isinstance(value, list) else [value]
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in items]
    return Known(any(re.search(pattern, text) for text in texts), because)


def _value_at(document: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of keys, or None."""
    for key in path:
        if not isinstance(document, Mapping) or key not in document:
            return None
        document = document[key]
    return document


def contradicted(expected: Mapping[str, bool], known: Mapping[str, Known]) -> Iterator[tuple[str, Known]]:
    """Yield what was expected, as `--expect` has it, and who says otherwise; `known` must not hold what the caller said."""
    for name, value in expected.items():
        # On a CPU every rank of MindSpore 2.0 says that it is alone.
        is_sure = name in known and known[name].is_said and (known[name].value or name != "distributed")
        if is_sure and known[name].value is not value:
            yield (name if value else f"no-{name}"), known[name]


def worded(expression: str) -> str:
    """Word `graph & !sink` as `--expect` would: graph, no-sink."""
    return ", ".join(name if wanted else f"no-{name}" for name, wanted in parts_of(expression))


def evaluate(expression: str, known: Mapping[str, Known]) -> bool | None:
    """Evaluate `graph & !heterogeneous`: False when one part is known to be off, None when nobody knows."""
    verdict: bool | None = True
    for name, wanted in parts_of(expression):
        if name not in known:
            verdict = None if verdict is not False else False
        elif known[name].value is not wanted:
            return False
    return verdict


def parts_of(expression: str) -> list[tuple[str, bool]]:
    """Return the conditions of an expression, and whether each is wanted on."""
    parts = [part.strip(" ()") for part in expression.split("&")]
    return [(part.removeprefix("!").strip(), not part.startswith("!")) for part in parts]


def undecided(expression: str, known: Mapping[str, Known]) -> list[str]:
    """Return the conditions of an expression that nobody knows."""
    return [name for name, _ in parts_of(expression) if name not in known]


def check_names(layout: Layout) -> list[str]:
    """Return the condition names a layout uses that do not exist (a test keeps this empty)."""
    used = set(layout.conditions)
    for slot in layout.slots:
        if slot.required not in ("always", "optional", "never"):
            used |= {name for name, _ in parts_of(slot.required)}
    return sorted(used - CONDITIONS.keys())
