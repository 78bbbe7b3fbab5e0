"""Rules for MindSpore's summary files, and for the configuration of a dynamic profiler.

SummaryCollector tags the values that it collects by itself `.../auto`. It collects them in the first step, and in every step
that its frequency divides, so that a lost step is found without knowing the frequency. At the end of an epoch it collects once
more: such a step occurs twice, with the same values. SummaryRecord writes whatever its user records.
Source: MindSpore 2.0 and 2.10, train/callback/_summary_collector.py, and real output of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice, pairwise
from math import gcd
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import as_int64, in_int64, quantity
from perfguard.dialects.disagreement import disagreeing_rows, disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle


@invariant(needs=("summary_events",))
def summary_files_are_in_order(cycle: Cycle) -> Iterator[Finding]:
    """The first record, and no other, is the version; steps and wall times of collected values never decrease. Exact.

    Wall times of the version, the graph and of lineage may decrease: a worker process takes them when it packs the record.
    Source: MindSpore 2.0 and 2.10, real output and train/summary/_writer_pool.py.
    """
    for artifact in _files(cycle, "summary_events"):
        frame = artifact.content.frame
        if frame["kind"][0] != "version":
            message = f"the first record is {frame['kind'][0]}, not the version"
            yield Finding(code=Code.I111, place=f"{artifact.place}:1", message=message)
        again = frame["kind"] == "version"
        again[0] = False
        yield from disagreeing_rows(artifact, again, Code.I114, lambda row: "a second version record")
        collected = frame["kind"] == "summary"
        for column, numbers in (("step", as_int64(frame["step"])), ("wall_time", quantity(frame["wall_time"]))):
            before = numbers.set(~collected, None).shift(1).fill_null(strategy="forward")
            yield from disagreeing_rows(
                artifact,
                collected & (numbers < before),
                Code.I106,
                partial(_went_back, column),
                frame=frame.with_columns(before=before),
            )


@invariant(needs=("summary_events",))
def every_summary_file_has_its_lineage(cycle: Cycle) -> Iterator[Finding]:
    """`events.out.events.summary.<time>.<id>.<host>_MS` and `..._lineage` come in pairs. A warning.

    SummaryRecord writes no lineage, and SummaryCollector writes each of the two files only when it collects something for it.
    If there is no lineage at all, one is required only for a file with a graph and values tagged `/auto`, the defaults of
    SummaryCollector. Source: MindSpore 2.0, 2.8, 2.9 and 2.10, real output with all options of both.
    """
    frame = cycle.artifacts["summary_events"].content.frame
    by_default = (frame["kind"] == "graph_def").any() and frame["tags"].str.contains("/auto", literal=True).any()
    if not by_default and not _files(cycle, "summary_lineage"):
        return
    ends = {"summary_events": "_MS", "summary_lineage": "_lineage"}
    names = {slot: {a.path.name.removesuffix(end): a for a in _files(cycle, slot)} for slot, end in ends.items()}
    for stem in sorted(names["summary_events"].keys() ^ names["summary_lineage"].keys()):
        here = "summary_events" if stem in names["summary_events"] else "summary_lineage"
        other = ends["summary_lineage" if here == "summary_events" else "summary_events"]
        yield Finding(
            code=Code.A102,
            severity=Severity.WARNING,
            place=names[here][stem].place,
            message=f"its other half, {stem}{other}, is missing",
        )


@invariant(needs=("summary_events",))
def a_summary_has_every_step_of_its_frequency(cycle: Cycle) -> Iterator[Finding]:
    """Values `/auto` exist for the first step and for every step that the frequency divides, and for no other. Exact.

    The caller may state `collect_freq`, `collect_tensor_freq` and `summary_steps`. The default frequency is the greatest common
    divisor of all steps but the first, if there are three; the default last step is the last one recorded. Tensors have a
    frequency of their own: `collect_tensor_freq`, else at most 20 steps and the first.
    """
    for artifact in _files(cycle, "summary_events"):
        values = collected_values(artifact)
        if not values["is_auto"].any():
            continue
        is_tensor = values["kind"] == "tensor"
        steps = set(values.filter(values["is_auto"] & ~is_tensor)["step"].unique())
        tensors = set(values.filter(is_tensor)["step"].unique())
        expected = cycle.requested.numbers
        total = expected.get("summary_steps")
        yield from _misses(cycle, artifact, "values", steps, _rule(steps, expected.get("collect_freq"), total))
        if tensors:
            yield from _misses(cycle, artifact, "tensors", tensors, _tensor_rule(tensors, expected))


@invariant(needs=("summary_events",))
def every_step_of_a_summary_has_every_value(cycle: Cycle) -> Iterator[Finding]:
    """A value that SummaryCollector collects in one step exists in every step. Exact; a warning for summary operators.

    Tensors have a frequency of their own. A summary operator may be in a branch of the network.
    """
    import polars as pl

    for artifact in _files(cycle, "summary_events"):
        values = collected_values(artifact).filter(pl.col("kind") != "tensor")
        steps = values.filter("is_auto").select(pl.col("step").unique().sort())
        is_step = pl.col("step").is_in(steps["step"].implode())
        counts = values.group_by("tag").agg(pl.col("is_auto").first(), count=pl.col("step").filter(is_step).n_unique())
        short = counts.filter(pl.col("count") < steps.height).sort("tag")
        for severity, part in (
            (Severity.ERROR, short.filter("is_auto")),
            (Severity.WARNING, short.filter(~pl.col("is_auto"))),
        ):
            yield from disagreements(
                Code.I115,
                (
                    (artifact.place, _absent_steps(tag, count, values.filter(pl.col("tag") == tag), steps))
                    for tag, count in part.select("tag", "count").iter_rows()
                ),
                count=part.height,
                place=artifact.place,
                severity=severity,
            )


@invariant(needs=("summary_events",))
def a_step_of_a_summary_stands_for_one_value(cycle: Cycle) -> Iterator[Finding]:
    """A value `/auto` occurs once in a step; at the end of an epoch twice, with the same number. Exact.

    The steps of an epoch are known if a landscape is collected: step_per_epoch of train_metadata.json. Two equal values
    within an epoch are a warning.
    """
    metadata = cycle.content("train_metadata")
    per_epoch = metadata.document.get("step_per_epoch") if metadata else None
    for artifact in _files(cycle, "summary_events"):
        again = _there_again(collected_values(artifact))
        yield from disagreements(Code.I114, _contradicting(artifact, again), place=artifact.place)
        if isinstance(per_epoch, int) and per_epoch > 0:
            twice = _within_an_epoch(artifact, again, per_epoch)
            yield from disagreements(Code.I114, twice, place=artifact.place, severity=Severity.WARNING)


@invariant(needs=("summary_events",))
def a_summary_file_keeps_its_size(cycle: Cycle) -> Iterator[Finding]:
    """No summary or lineage file is larger than `max_file_size`, if the caller states it. Exact."""
    largest = cycle.requested.numbers.get("max_file_size")
    if largest is None:
        return
    for artifact in cycle.files:
        if artifact.slot.name in ("summary_events", "summary_lineage"):
            size = artifact.path.stat().st_size
            if size > largest:
                message = f"max_file_size={largest} is expected, but it has {size} bytes"
                yield Finding(code=Code.A110, place=artifact.place, message=message)


@invariant(needs=("profiler_config",))
def a_window_ends_after_it_begins(cycle: Cycle) -> Iterator[Finding]:
    """0 <= start_step <= stop_step, or both -1; any other window is silently never profiled. A warning.

    Source: MindSpore 2.10 source: dynamic_profiler.py; stop_step is inclusive. torch_npu has `active` instead.
    """
    artifact = cycle.artifacts["profiler_config"]
    start, stop = (artifact.content.document.get(key) for key in ("start_step", "stop_step"))
    if start is None or stop is None or start == stop == -1 or 0 <= start <= stop:
        return
    yield Finding(
        code=Code.C101,
        severity=Severity.WARNING,
        place=f"{artifact.place} $.stop_step",
        message=f"the window from step {start} to step {stop} is never profiled",
    )


_AUTO = "/auto"
#: The largest number of steps that a message names.
_NAMED = 8
#: The number of steps for which SummaryCollector collects tensors by default.
_TENSOR_STEPS = 20


def collected_values(artifact: Artifact) -> pl.DataFrame:
    """Return every value of a summary file that has a step, in the order of the file.

    Columns: record (from 1), step, tag, kind, scalar (as written, blank for other kinds), number (null for other kinds), and
    is_auto: SummaryCollector collected it by itself, not a summary operator of the network.
    """
    import polars as pl

    frame = artifact.content.frame.with_row_index("record", offset=1)
    is_there = (
        (pl.col("kind") == "summary") & (pl.col("step") != "") & ((pl.col("tags") != "") | (pl.col("kinds") != ""))
    )
    frame = frame.filter(is_there).select(
        "record", pl.col("step").cast(pl.Int64), tag="tags", kind="kinds", scalar="scalars"
    )
    if frame["kind"].str.contains("|", literal=True).any():
        several = ("tag", "kind", "scalar")
        frame = frame.with_columns(pl.col(*several).str.split("|")).explode(*several)
    return frame.with_columns(
        number=pl.col("scalar").cast(pl.Float64, strict=False), is_auto=pl.col("tag").str.ends_with(_AUTO)
    )


def tensor_frequency(collect_freq: int, total: int) -> tuple[int, int]:
    """Return the default step interval for tensors of SummaryCollector, and the last step with tensors.

    Source: MindSpore 2.10, SummaryCollector._get_tensor_collect_range.
    """
    if len(range(0, total + 1, collect_freq)) <= _TENSOR_STEPS:
        return collect_freq, total
    frequency = total // (_TENSOR_STEPS - 1)
    if frequency > 1:
        return frequency, (_TENSOR_STEPS - 1) * frequency
    return 1, _TENSOR_STEPS


@dataclass(frozen=True, slots=True)
class _RequiredSteps:
    """The required steps, in order: the first one, and a range of others, which may be huge."""

    first: int
    others: range

    def __contains__(self, step: int) -> bool:
        return step == self.first or step in self.others

    def absent(self, there: set[int]) -> tuple[list[int], int]:
        """Return the first few missing steps, and the number of missing steps."""
        first = range(self.first, self.first + (self.first not in self.others))
        named = islice((step for step in merge(first, self.others) if step not in there), _NAMED)
        return list(named), len(first) + len(self.others) - sum(step in self for step in there)


def _rule(steps: set[int], frequency: int | None, total: int | None) -> _RequiredSteps | None:
    """Return the required steps, or None if they are unknown."""
    first, *others = sorted(steps) or [1]
    if frequency is not None:
        last = total if total is not None else max(steps, default=1)
        return _RequiredSteps(1, range(frequency, last + 1, frequency))
    if len(others) < 3:
        return None
    divisor = gcd(*others)
    last = total if total is not None else others[-1]
    return _RequiredSteps(first, range((first // divisor + 1) * divisor, last + 1, divisor))


def _tensor_rule(steps: set[int], expected: Mapping[str, int]) -> _RequiredSteps | None:
    total = expected.get("summary_steps")
    if "collect_tensor_freq" in expected or "collect_freq" not in expected or total is None:
        return _rule(steps, expected.get("collect_tensor_freq"), total if "collect_tensor_freq" in expected else None)
    frequency, last = tensor_frequency(expected["collect_freq"], total)
    return _RequiredSteps(1, range(frequency, min(last, total) + 1, frequency))


def _misses(
    cycle: Cycle, artifact: Artifact, what: str, there: set[int], required: _RequiredSteps | None
) -> Iterator[Finding]:
    """Yield findings for missing and for unexpected steps."""
    if required is None:
        return
    absent, missing = required.absent(there)
    extra = sorted(step for step in there if step not in required)
    if absent and absent[0] > max(there, default=0) and _is_full(cycle, artifact):
        yield Finding(
            code=Code.C101,
            severity=Severity.WARNING,
            place=artifact.place,
            message=f"there are no {what} of {_steps_in_words(absent, missing)}: the file has reached max_file_size",
        )
    elif absent:
        yield Finding(
            code=Code.C101, place=artifact.place, message=f"there are no {what} of {_steps_in_words(absent, missing)}"
        )
    if extra:
        message = f"there are {what} of {_steps_in_words(extra, len(extra))}, which should not be collected"
        yield Finding(code=Code.C101, place=artifact.place, message=message)


def _is_full(cycle: Cycle, artifact: Artifact) -> bool:
    """Whether one more record of the largest size would not have fitted into the file."""
    largest = cycle.requested.numbers.get("max_file_size")
    if largest is None:
        return False
    size = artifact.path.stat().st_size
    edges = [*map(int, artifact.content.frame["offset"].to_list()), size]
    return size + max(after - before for before, after in pairwise(edges)) > largest


def _absent_steps(tag: str, count: int, there: pl.DataFrame, steps: pl.DataFrame) -> str:
    absent = steps.filter(~steps["step"].is_in(there["step"].implode()))["step"]
    missing = _steps_in_words(absent.head(_NAMED).to_list(), len(absent))
    return f"{tag} has values for {count} of {steps.height} steps, but not for {missing}"


def _there_again(values: pl.DataFrame) -> pl.DataFrame:
    """Return the values `/auto` that repeat an earlier value of their step.

    `first_record` and `first` are the record and the value of the first one; `times` counts them so far.
    """
    import polars as pl

    key = ("step", "tag")
    # One number for both takes less memory than a number and a text.
    tag = pl.col("tag").cast(pl.Categorical).to_physical().cast(pl.Int64)
    same = values.filter("is_auto").filter((pl.col("step").rank("dense").cast(pl.Int64) * 2**32 + tag).is_duplicated())
    same = same.with_columns(
        first=pl.col("scalar").first().over(key),
        first_record=pl.col("record").first().over(key),
        times=pl.int_range(1, pl.len() + 1).over(key),
    )
    return same.filter(pl.col("times") > 1)


def _contradicting(artifact: Artifact, again: pl.DataFrame) -> Iterator[tuple[str, str]]:
    import polars as pl

    # Compared as text, so that NaN equals NaN.
    differs = pl.col("scalar") != pl.col("first")
    for value in again.filter(differs | (pl.col("times") > 2)).iter_rows(named=True):
        where, what = f"{artifact.place}:{value['record']}", f"{value['tag']} of step {value['step']}"
        if value["scalar"] != value["first"]:
            own, first = (one or "None" for one in (value["scalar"], value["first"]))
            yield where, f"{what} is {own}, but {first} in record {value['first_record']}"
        else:
            yield where, f"{what} occurs {value['times']} times"


def _within_an_epoch(artifact: Artifact, again: pl.DataFrame, per_epoch: int) -> Iterator[tuple[str, str]]:
    import polars as pl

    for value in again.filter(pl.col("step") % in_int64(per_epoch) != 0).iter_rows(named=True):
        what = f"{value['tag']} of step {value['step']} occurs twice, but no epoch of {per_epoch} steps ends there"
        yield f"{artifact.place}:{value['record']}", what


def _steps_in_words(steps: list[int], count: int) -> str:
    """Return `steps 1, 2 and 8 more` for the first of `count` steps."""
    named = ", ".join(map(str, steps[:_NAMED]))
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    return f"step {named}{more}" if count == 1 else f"steps {named}{more}"


def _files(cycle: Cycle, slot: str) -> list[Artifact]:
    return [artifact for artifact in cycle.files if artifact.slot.name == slot]


def _went_back(column: str, row: dict[str, Any]) -> str:
    return f"{column} {row[column]} follows {column} {row['before']}"
