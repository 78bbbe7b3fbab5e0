"""SummaryMonitor, MindFormers' callback for summary files: its options in a YAML, and what they make it write.

Source: MindFormers 1.0 to 2.1 (`core/callback/callback.py`); SummaryCollector of MindSpore 2.0 and 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfguard.capture.rules import BOOLEAN, STRING, Rule, integer, is_integer, list_of, one_of, shown
from perfguard.errors import UsageError
from perfguard.integrations.section import Section

_COLLECTED = {
    "collect_metric": True,
    "collect_graph": True,
    "collect_train_lineage": True,
    "collect_eval_lineage": True,
    "collect_input_data": True,
    "collect_dataset_graph": True,
}
_PARAMETERS = (
    *("summary_dir", "collect_freq", "collect_specified_data", "keep_default_action", "custom_lineage_data"),
    *("collect_tensor_freq", "max_file_size", "export_options"),
)
#: Bytes of a file's first record: a file that cannot hold it stays empty.
_LEAST_FILE = 44
#: A larger number is not a step, a rank or a frequency.
MOST = 10**9 - 1

POSITIVE = integer(1, MOST)
DIRECTORY = Rule("a directory", lambda value: isinstance(value, str) and bool(value.strip()))
_FILE_SIZE = integer(
    _LEAST_FILE, 10**15 - 1, must=f"an integer of at least {_LEAST_FILE}, the bytes of a file's first record"
)
# SummaryCollector packs an integer into 32 bits.
_LINEAGE_VALUE = Rule(
    "a string, a number or an integer of 32 bits",
    lambda value: isinstance(value, (str, float)) or is_integer(value, -(2**31), 2**31 - 1),
)
_LANDSCAPE = {
    "landscape_size": integer(3, 256),
    "unit": one_of(("step", "epoch")),
    "create_landscape": Rule(
        "{train: True, result: True}",
        lambda value: (
            isinstance(value, dict)
            and set(value) <= {"train", "result"}
            and all(isinstance(one, bool) for one in value.values())
        ),
    ),
    "num_samples": POSITIVE,
    "intervals": list_of(
        list_of(POSITIVE, "a list of at least three integers", least=3),
        "a list of lists of at least three integers, as [[1, 2, 3]]",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryMonitor:
    """The options of MindFormers' SummaryMonitor, which is mindspore.SummaryCollector."""

    collect_freq: int
    collect_specified_data: dict[str, Any] | None
    keep_default_action: bool
    custom_lineage_data: dict[str, str | int | float] | None
    collect_tensor_freq: int | None
    #: The largest size of a file in bytes; None for no limit.
    max_file_size: int | None
    export_options: dict[str, str | None] | None
    #: The directory of all ranks; None for `<output>/summary/rank_N`.
    summary_dir: Path | None
    #: MindFormers' output directory.
    output: Path

    def summary_directory(self, rank: int = 0) -> Path:
        """Return the directory of a rank's files: `output/summary/rank_0`, or `summary_dir` for all ranks."""
        return self.summary_dir if self.summary_dir is not None else self.output / "summary" / f"rank_{rank}"

    def collector_arguments(self, rank: int = 0) -> dict[str, Any]:
        """Return the arguments of `mindspore.SummaryCollector`, as MindFormers gives them."""
        others = {name: getattr(self, name) for name in _PARAMETERS if name != "summary_dir"}
        return {"summary_dir": str(self.summary_directory(rank)), **others}

    @property
    def collects(self) -> frozenset[str]:
        """What is collected, by names of `collect_specified_data` (`collect_metric`, ...), defaults included."""
        specified = self.collect_specified_data or {}
        by_default: dict[str, Any] = {**_COLLECTED, "histogram_regular": None, "collect_landscape": {}}
        kept = by_default | specified if self.keep_default_action else specified
        # A histogram without a pattern is one of the first five parameters; a landscape of null is switched off.
        return frozenset(
            name for name, value in kept.items() if name == "histogram_regular" or value not in (False, None)
        )

    def steps(self, total: int) -> tuple[int, ...]:
        """Return the steps in which values are collected, of a training of `total` steps (in data sink mode: epochs)."""
        return tuple(sorted({1, *range(self.collect_freq, total + 1, self.collect_freq)})) if total > 0 else ()

    def tensor_steps(self, total: int) -> tuple[int, ...]:
        """Return the steps in which tensors are collected: by `collect_tensor_freq`, else at most 20 and the first."""
        from perfguard.dialects.invariants.summary_events import tensor_frequency

        if total < 1:
            return ()
        if self.collect_tensor_freq is not None:
            frequency, last = self.collect_tensor_freq, total
        else:
            frequency, last = tensor_frequency(self.collect_freq, total)
        return tuple(sorted({1, *range(frequency, min(last, total) + 1, frequency)}))

    def expectation(self, total: int | None = None) -> str:
        """Return the `expect` of `perfguard.check` for the files of a training of `total` steps."""
        numbers = {
            "collect_freq": self.collect_freq,
            "collect_tensor_freq": self.collect_tensor_freq,
            "max_file_size": self.max_file_size,
            "summary_steps": total,
        }
        # Without collected values there are no steps to check.
        if not self.collects & {"collect_metric", "histogram_regular"}:
            numbers |= {"collect_freq": None, "collect_tensor_freq": None, "summary_steps": None}
        items = [f"{name}={number}" for name, number in numbers.items() if number is not None]
        if self.collects & {"collect_train_lineage", "collect_dataset_graph"} or self.custom_lineage_data:
            items.append("lineage")
        items.append("landscape" if "collect_landscape" in self.collects else "no-landscape")
        return ",".join(items)


def read_summary_monitor(callback: Section, output: Path) -> SummaryMonitor:
    """Return the options of a SummaryMonitor among the callbacks; `output` is MindFormers' output directory.

    Raises `UsageError` for an unknown parameter and for a value that SummaryCollector refuses.
    """
    callback.refuse_unknown(("type", *_PARAMETERS))
    given = _with_nulls(callback)
    folder = given.take("summary_dir", DIRECTORY, None)
    return SummaryMonitor(
        collect_freq=given.take("collect_freq", POSITIVE, 10),
        collect_specified_data=_specified(given),
        keep_default_action=given.take("keep_default_action", BOOLEAN, True),
        custom_lineage_data=_lineage(given),
        collect_tensor_freq=given.take("collect_tensor_freq", POSITIVE, None),
        max_file_size=given.take("max_file_size", _FILE_SIZE, None),
        export_options=_export(given),
        summary_dir=None if folder is None else Path(folder),
        output=output,
    )


def _with_nulls(section: Section) -> Section:
    """Return the section with null in place of the text `None`: MindFormers' documents write null so."""
    plain = {key: None if value == "None" else value for key, value in section.plain.items()}
    return Section(plain, section.at, section.source, null_is_default=True)


def _part(section: Section, key: str, known: Mapping[str, object] | None) -> Section | None:
    """Return the mapping at a key, None for null. Raises `UsageError` for other values and for unknown keys."""
    if section.is_null(key):
        return None
    part = section.section(key)
    if known is not None:
        part.refuse_unknown(known)
    return part


def _specified(given: Section) -> dict[str, Any] | None:
    known = {**_COLLECTED, "histogram_regular": None, "collect_landscape": None}
    if (part := _part(given, "collect_specified_data", known)) is None:
        return None
    values = _with_nulls(part)
    found: dict[str, Any] = {}
    for key in part.plain:
        if key in _COLLECTED:
            found[key] = part.take(key, BOOLEAN, None)
        elif key == "histogram_regular":
            found[key] = _pattern(values, key)
        else:
            found[key] = _landscape(values, key)
    return found


def _pattern(section: Section, key: str) -> str | None:
    pattern: str | None = section.take(key, STRING, None)
    try:
        re.compile(pattern or "")
    except (re.error, OverflowError, RecursionError) as error:
        raise section.error(key, f"must be a regular expression, got {shown(pattern)}: {error}") from error
    return pattern


def _landscape(section: Section, key: str) -> dict[str, Any] | None:
    if (part := _part(section, key, _LANDSCAPE)) is None:
        return None
    if part.is_null("intervals"):
        raise UsageError(f"{part.source}: {part.name('intervals')} is missing; write intervals: [[1, 2, 3]].")
    return {name: part.checked(name, _LANDSCAPE[name], value) for name, value in part.plain.items()}


def _lineage(given: Section) -> dict[str, str | int | float] | None:
    if (part := _part(given, "custom_lineage_data", None)) is None:
        return None
    for key, value in part.plain.items():
        if not isinstance(key, str):
            raise given.error("custom_lineage_data", f"must have strings as keys, got {shown(key)}")
        part.checked(key, _LINEAGE_VALUE, value)
    return dict(part.plain)


def _export(given: Section) -> dict[str, str | None] | None:
    if (part := _part(given, "export_options", {"tensor_format": None})) is None:
        return None
    return {key: _with_nulls(part).take(key, one_of(("npy", None)), None) for key in part.plain}
