"""SummaryMonitor, MindFormers' callback for summary files: its options in a YAML, and what they make it write.

Source: MindFormers 1.0 to 2.1 (`core/callback/callback.py`); SummaryCollector of MindSpore 2.0 and 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfguard.configuration import Section, configuration_schema, violation
from perfguard.screen import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryMonitor:
    """The options of MindFormers' SummaryMonitor, which is mindspore.SummaryCollector."""

    #: The arguments of SummaryCollector without `summary_dir`, as MindFormers gives them.
    arguments: dict[str, Any]
    #: The directory of all ranks; None for `<output>/summary/rank_N`.
    summary_dir: Path | None
    #: MindFormers' output directory.
    output: Path

    def summary_directory(self, rank: int = 0) -> Path:
        """Return the directory of a rank's files: `output/summary/rank_0`, or `summary_dir` for all ranks."""
        return self.summary_dir if self.summary_dir is not None else self.output / "summary" / f"rank_{rank}"

    @property
    def collects(self) -> frozenset[str]:
        """What is collected, by names of `collect_specified_data` (`collect_metric`, ...), defaults included."""
        specified = self.arguments["collect_specified_data"] or {}
        known = configuration_schema("summary_monitor")["properties"]["collect_specified_data"]["properties"]
        by_default = {name: one["default"] for name, one in known.items()}
        kept = by_default | specified if self.arguments["keep_default_action"] else specified
        # A histogram without a pattern is one of the first five parameters; a landscape of null is switched off.
        return frozenset(
            name for name, value in kept.items() if name == "histogram_regular" or value not in (False, None)
        )

    def expectation(self, total: int | None = None) -> str:
        """Return the `expect` of `perfguard.check` for the files of a training of `total` steps."""
        names = ("collect_freq", "collect_tensor_freq", "max_file_size")
        numbers = {name: self.arguments[name] for name in names} | {"summary_steps": total}
        # Without collected values there are no steps to check.
        if not self.collects & {"collect_metric", "histogram_regular"}:
            numbers |= {"collect_freq": None, "collect_tensor_freq": None, "summary_steps": None}
        items = [f"{name}={number}" for name, number in numbers.items() if number is not None]
        if self.collects & {"collect_train_lineage", "collect_dataset_graph"} or self.arguments["custom_lineage_data"]:
            items.append("lineage")
        items.append("landscape" if "collect_landscape" in self.collects else "no-landscape")
        return ",".join(items)


def read_summary_monitor(plain: Mapping[Any, Any], *, source: str, at: str, output: Path) -> SummaryMonitor:
    """Return the options of a SummaryMonitor among the callbacks; `output` is MindFormers' output directory.

    Raises `UsageError` for an unknown parameter and for a value that SummaryCollector refuses.
    """
    given = Section(_with_nulls(plain), configuration_schema("summary_monitor"), source, at)
    options = given.read()
    del options["type"]
    for key, read in _OBJECTS.items():
        options[key] = None if given.is_null(key) else read(given, key)
    return SummaryMonitor(summary_dir=options.pop("summary_dir"), arguments=options, output=output)


def _with_nulls(plain: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a mapping with null in place of the text `None`, as MindFormers' documents write null."""
    return {key: None if value == "None" else value for key, value in plain.items()}


def _specified(given: Section, key: str) -> dict[str, Any]:
    part = given.section(key)
    part.refuse_unknown()
    nullable = ("histogram_regular", "collect_landscape")
    plain = {**part.plain, **_with_nulls({name: part.plain[name] for name in nullable if name in part})}
    part = replace(part, plain=plain)
    found = {name: part.take(name) for name in plain}
    if part.is_null("collect_landscape"):
        # Switched off by null.
        found |= dict.fromkeys({"collect_landscape"} & plain.keys())
    elif "intervals" not in found["collect_landscape"]:
        raise part.error("collect_landscape.intervals", "is missing; write intervals: [[1, 2, 3]]")
    pattern: Any = found.get("histogram_regular")
    try:
        re.compile(pattern or "")
    except (re.error, OverflowError, RecursionError) as error:
        wrong = f"must be a regular expression, got {shown(pattern)}: {error}"
        raise part.error("histogram_regular", wrong) from error
    return found


def _lineage(given: Section, key: str) -> dict[str, str | int | float]:
    part = given.section(key)
    for name, value in part.plain.items():
        if not isinstance(name, str):
            raise given.error(key, f"must have strings as keys, got {shown(name)}")
        if wrong := violation(value, part.schema["additionalProperties"]):
            raise part.error(name, wrong)
    return dict(part.plain)


def _export(given: Section, key: str) -> dict[str, str | None]:
    part = given.section(key)
    return replace(part, plain=_with_nulls(part.plain)).given()


_OBJECTS = {"collect_specified_data": _specified, "custom_lineage_data": _lineage, "export_options": _export}
