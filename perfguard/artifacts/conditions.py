"""Conditions: the options of the profiler and of the run. They decide which files must exist.

A condition is on, off, or unknown (reported, never guessed). The caller's expectation has priority, then the options that
perfguard itself passed to the profiler, then the sources that a layout names: a value in a document, a file, a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from perfguard.artifacts.survey import FoundCycle, head
from perfguard.errors import UsageError, nearest

#: Every condition that a layout may name, and its meaning when it is on.
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
    "analysed": "the collected data has been analysed",
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
    "early_gpu": "MindSpore 1.0 to 1.2 on a GPU",
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

#: Numbers that a caller may expect of SummaryCollector's files, besides ranks and steps, and their meanings.
NUMBERS: dict[str, str] = {
    "collect_freq": "values are collected in the first step and in every so many steps",
    "collect_tensor_freq": "tensors are collected in the first step and in every so many steps",
    "max_file_size": "largest size of a summary file in bytes",
    "summary_steps": "number of training steps (in data sink mode: epochs) in the summary",
}

#: What `--expect` counts in every layout; `NUMBERS` are of some.
_COUNTS = ("ranks", "cycles", "steps")
#: More words of `--expect`, each for one condition or several.
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
    """Whether a condition is on, and the source of that."""

    value: bool
    because: str
    #: Whether a source states it; False: it is inferred from a missing file.
    is_stated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the caller expects of a directory: conditions; how many ranks, cycles of a rank, steps of a cycle; other numbers."""

    conditions: Mapping[str, bool] = field(default_factory=dict)
    ranks: int | None = None
    steps: int | None = None
    cycles: int | None = None
    #: See `NUMBERS`.
    numbers: Mapping[str, int] = field(default_factory=dict)


def expectation(texts: Iterable[str], *, option: str = "--expect ") -> Expectation:
    """Parse `graph,memory,no-shapes`, `ranks=8`, `cycles=2`, `steps=3`.

    Raises `UsageError`, which names the words behind `option`: for an unknown word, with the nearest one, and for two that
    exclude each other.
    """
    conditions: dict[str, bool] = {}
    numbers: dict[str, int] = {}
    stated_by: dict[str, str] = {}
    words = [word for whole in texts for part in whole.split(",") if (word := part.strip())]
    for text in words:
        name, equals, value = text.partition("=")
        if re.search(r"\s", name):
            raise UsageError(f"{option}{text!r}: a comma separates two words, as in graph,ranks=8.")
        if equals:
            digits = 15 if name == "max_file_size" else 9
            if name not in (*_COUNTS, *NUMBERS) or not re.fullmatch(rf"[1-9][0-9]{{0,{digits - 1}}}", value):
                known = ", ".join(f"{one}=N" for one in (*_COUNTS, *NUMBERS))
                raise UsageError(f"{option}{text!r}: numbers are {known}, where N is at least 1.")
            if numbers.setdefault(name, int(value)) != int(value):
                raise UsageError(
                    f"{option}{name}={numbers[name]},{text}: it is one number, not two; leave one of them out."
                )
            continue
        positive = text.removeprefix("no-")
        if text not in _WORDS and positive not in CONDITIONS:
            raise UsageError(
                f"{option}{text!r} is not known; {nearest(positive.lower(), list(dict.fromkeys([*CONDITIONS, *_WORDS])))}"
            )
        for condition, is_on in _WORDS.get(text, ((positive, not text.startswith("no-")),)):
            if conditions.setdefault(condition, is_on) != is_on:
                raise UsageError(
                    f"{option}{stated_by[condition]},{text}: they exclude each other; leave one of them out."
                )
            stated_by.setdefault(condition, text)
    counts = {name: numbers.pop(name, None) for name in _COUNTS}
    return Expectation(conditions=conditions, numbers=numbers, **counts)


def known_conditions(
    found: FoundCycle, documents: Mapping[str, Any], stated: Mapping[str, Mapping[str, bool]]
) -> dict[str, Known]:
    """Return every known condition of a cycle.

    `documents` are the JSON documents by slot; `stated` are conditions by their source, the one with priority first.
    """
    known: dict[str, Known] = {}
    for source, conditions in stated.items():
        for name, value in conditions.items():
            known.setdefault(name, Known(value, source))
        _imply(known)
    for name, sources in found.layout.conditions.items():
        if name not in known:
            values = (_from_source(source, found, documents) for source in sources)
            if (one := next((one for one in values if one is not None), None)) is not None:
                known[name] = one
    _imply(known)
    return known


def _imply(known: dict[str, Known]) -> None:
    """Add the level that follows from the other level, before a source of lower priority is read."""
    if (two := known.get("level2")) is not None and two.value:
        known.setdefault("level1", Known(True, two.because))
    if (one := known.get("level1")) is not None and not one.value:
        known.setdefault("level2", Known(False, one.because))


#: By the kind of a source that names files: the value that follows if one of them exists, and the reason.
_FILES = {"present": (True, "is there"), "absent": (False, "is there"), "unranked": (False, "names no rank")}


def _from_source(source: Mapping[str, Any], found: FoundCycle, documents: Mapping[str, Any]) -> Known | None:
    if "always" in source:
        return Known(source["always"], f"layout {found.layout.id}")
    for kind, (is_on, reason) in _FILES.items():
        if kind in source:
            files = (file for slot in source[kind] for file in found.files if file.slot.name == slot)
            one = next((file for file in files if kind != "unranked" or file.rank is None), None)
            return None if one is None else Known(is_on, f"{one.path.name} {reason}", is_stated=is_on)
    if "text" in source:
        ((slot, pattern),) = source["text"].items()
        path = next((file.path for file in found.files if file.slot.name == slot), None)
        if path is None:
            return None
        return Known(re.search(pattern, head(path), re.MULTILINE) is not None, f"the text of {path.name}")
    value: Any = documents.get(source["slot"])
    for key in source["path"].split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else _from_value(value, source)


def _from_value(value: Any, source: Mapping[str, Any]) -> Known | None:
    because = f"{source['path']} of {source['slot']}"
    pattern = source.get("pattern")
    if pattern is None:
        return Known(value, because) if isinstance(value, bool) else None
    items = value if isinstance(value, list) else [value]
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in items]
    return Known(any(re.search(pattern, text) for text in texts), because)


def contradicted(expected: Mapping[str, bool], known: Mapping[str, Known]) -> Iterator[tuple[str, Known]]:
    """Yield each expected condition, in the syntax of `--expect`, that a source contradicts; `known` lacks the expectation."""
    for name, value in expected.items():
        # On a CPU every rank of MindSpore 2.0 states that it is the only one.
        is_sure = name in known and known[name].is_stated and (known[name].value or name != "distributed")
        if is_sure and known[name].value is not value:
            yield (name if value else f"no-{name}"), known[name]


def shown(expression: str) -> str:
    """Return `graph & !sink` in the syntax of `--expect`: graph, no-sink."""
    return ", ".join(name if is_on else f"no-{name}" for name, is_on in parts_of(expression))


def evaluate(expression: str, known: Mapping[str, Known]) -> bool | None:
    """Evaluate `graph & !heterogeneous`: False if one part is known to be off, else None if one is unknown."""
    parts = parts_of(expression)
    if any(name in known and known[name].value is not is_on for name, is_on in parts):
        return False
    return None if undecided(expression, known) else True


def parts_of(expression: str) -> list[tuple[str, bool]]:
    """Return the conditions of an expression, and whether each must be on."""
    parts = [part.strip(" ()") for part in expression.split("&")]
    return [(part.removeprefix("!").strip(), not part.startswith("!")) for part in parts]


def undecided(expression: str, known: Mapping[str, Known]) -> list[str]:
    """Return the unknown conditions of an expression."""
    return [name for name, _ in parts_of(expression) if name not in known]
