"""SummaryMonitor, MindFormers' callback for summary files: its options in a YAML, and what they make it write.

Source: MindFormers 1.0 to 2.1 (`core/callback/callback.py`); SummaryCollector of MindSpore 2.0 and 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfguard.configuration import Section, configuration_schema, shown, violation


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
        own = ("summary_dir", "output")
        others = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in own}
        return {"summary_dir": str(self.summary_directory(rank)), **others}

    @property
    def collects(self) -> frozenset[str]:
        """What is collected, by names of `collect_specified_data` (`collect_metric`, ...), defaults included."""
        specified = self.collect_specified_data or {}
        known = configuration_schema("summary_monitor")["properties"]["collect_specified_data"]["properties"]
        by_default = {name: one["default"] for name, one in known.items()}
        kept = by_default | specified if self.keep_default_action else specified
        # A histogram without a pattern is one of the first five parameters; a landscape of null is switched off.
        return frozenset(
            name for name, value in kept.items() if name == "histogram_regular" or value not in (False, None)
        )

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


def read_summary_monitor(plain: Mapping[Any, Any], *, source: str, at: str, output: Path) -> SummaryMonitor:
    """Return the options of a SummaryMonitor among the callbacks; `output` is MindFormers' output directory.

    Raises `UsageError` for an unknown parameter and for a value that SummaryCollector refuses.
    """
    given = Section(_with_nulls(plain), configuration_schema("summary_monitor"), source, at)
    options = given.read()
    del options["type"]
    return SummaryMonitor(
        collect_specified_data=_specified(given),
        custom_lineage_data=_lineage(given),
        export_options=_export(given),
        output=output,
        **options,
    )


def _with_nulls(plain: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a mapping with null in place of the text `None`, as MindFormers' documents write null."""
    return {key: None if value == "None" else value for key, value in plain.items()}


def _specified(given: Section) -> dict[str, Any] | None:
    if given.is_null("collect_specified_data"):
        return None
    part = given.section("collect_specified_data")
    part.refuse_unknown()
    nullable = ("histogram_regular", "collect_landscape")
    plain = {**part.plain, **_with_nulls({key: part.plain[key] for key in nullable if key in part})}
    part = replace(part, plain=plain)
    found = {key: _landscape(part) if key == "collect_landscape" else part.take(key) for key in plain}
    pattern: Any = found.get("histogram_regular")
    try:
        re.compile(pattern or "")
    except (re.error, OverflowError, RecursionError) as error:
        wrong = f"must be a regular expression, got {shown(pattern)}: {error}"
        raise part.error("histogram_regular", wrong) from error
    return found


def _landscape(specified: Section) -> dict[str, Any] | None:
    if specified.is_null("collect_landscape"):
        return None
    found: dict[str, Any] = specified.take("collect_landscape")
    if "intervals" not in found:
        raise specified.error("collect_landscape.intervals", "is missing; write intervals: [[1, 2, 3]]")
    return found


def _lineage(given: Section) -> dict[str, str | int | float] | None:
    if given.is_null("custom_lineage_data"):
        return None
    part = given.section("custom_lineage_data")
    for key, value in part.plain.items():
        if not isinstance(key, str):
            raise given.error("custom_lineage_data", f"must have strings as keys, got {shown(key)}")
        if wrong := violation(value, part.schema["additionalProperties"]):
            raise part.error(key, wrong)
    return dict(part.plain)


def _export(given: Section) -> dict[str, str | None] | None:
    if given.is_null("export_options"):
        return None
    part = given.section("export_options")
    return replace(part, plain=_with_nulls(part.plain)).given()
