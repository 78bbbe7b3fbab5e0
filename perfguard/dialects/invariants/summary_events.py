"""What must hold in MindSpore's summary files and in the configuration of a dynamic profiler.

SummaryCollector tags what it collects itself `.../auto`, by a fixed rule: the first step, and every step that its frequency
divides. So a step that was lost in the middle is seen without being told the frequency. At the end of an epoch it
collects once more, so that such a step stands twice, with the same values. SummaryRecord writes whatever its user says.
Source: MindSpore 2.0 and 2.10, train/callback/_summary_collector.py, and real output of both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice, pairwise
from math import gcd
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import as_float64, as_int64
from perfguard.dialects.disagreement import disagreeing_rows, disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Artifact, Cycle


@invariant(needs=("summary_events",))
def summary_files_are_in_order(cycle: Cycle) -> Iterator[Finding]:
    """The first record says the version, and only it; steps and wall times of collected values do not go back. Exact.

    Wall times of the version, the graph and of lineage are taken when a worker process packs them, so they may.
    Source: MindSpore 2.0 and 2.10, real output and train/summary/_writer_pool.py.
    """
    for artifact in _files(cycle, "summary_events"):
        frame = artifact.content.frame
        if frame["kind"][0] != "version":
            message = f"the first record is {frame['kind'][0]}, not the version"
            yield Finding(code=Code.I111, place=f"{artifact.place}:1", message=message)
        again = frame["kind"] == "version"
        again[0] = False
        yield from disagreeing_rows(artifact, again, Code.I114, lambda row: "the version is said a second time")
        collected = frame["kind"] == "summary"
        for column, numbers in (("step", as_int64(frame["step"])), ("wall_time", as_float64(frame["wall_time"]))):
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

    SummaryRecord writes no lineage of its own, and SummaryCollector each of the two only when it collects something for it;
    so where no lineage is there at all, one is missed only beside a graph and values that SummaryCollector tagged `/auto`, as
    it collects them by default. Source: MindSpore 2.0, 2.8, 2.9 and 2.10, real output with all options of both.
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
            message=f"there is no {stem}{other} beside it",
        )


@invariant(needs=("summary_events",))
def a_summary_has_every_step_of_its_frequency(cycle: Cycle) -> Iterator[Finding]:
    """Values `/auto` are there of the first step and of every step the frequency divides, and of no other. Exact.

    `collect_freq`, `collect_tensor_freq` and `summary_steps` are what the caller says. Where he says no frequency it is the
    greatest number that divides every step but the first, once three are there; where he says no steps, the last one there is
    the last. Tensors follow a frequency of their own: `collect_tensor_freq`, else at most 20 steps and the first.
    """
    for artifact in _files(cycle, "summary_events"):
        values = list(collected_values(artifact))
        if not any(value.is_auto for value in values):
            continue
        steps = {value.step for value in values if value.is_auto and value.kind != "tensor"}
        tensors = {value.step for value in values if value.kind == "tensor"}
        told = cycle.asked.numbers
        total = told.get("summary_steps")
        yield from _misses(cycle, artifact, "values", steps, _rule(steps, told.get("collect_freq"), total))
        if tensors:
            yield from _misses(cycle, artifact, "tensors", tensors, _tensor_rule(tensors, told))


@invariant(needs=("summary_events",))
def every_step_of_a_summary_has_every_value(cycle: Cycle) -> Iterator[Finding]:
    """What SummaryCollector collects in one step it collects in every one. Exact; a warning for summary operators.

    Tensors have a frequency of their own. A summary operator may stand in a branch of the network.
    """
    for artifact in _files(cycle, "summary_events"):
        values = [value for value in collected_values(artifact) if value.kind != "tensor"]
        steps = {value.step for value in values if value.is_auto}
        by_tag: dict[str, set[int]] = defaultdict(set)
        for value in values:
            by_tag[value.tag].add(value.step)
        for tag, there in sorted(by_tag.items()):
            if absent := sorted(steps - there):
                yield Finding(
                    code=Code.I115,
                    severity=Severity.ERROR if tag.endswith(_AUTO) else Severity.WARNING,
                    place=artifact.place,
                    message=f"{tag} is there of {len(there & steps)} of {len(steps)} steps, "
                    f"and not of {_worded(absent, len(absent))}",
                )


@invariant(needs=("summary_events",))
def a_step_of_a_summary_stands_for_one_value(cycle: Cycle) -> Iterator[Finding]:
    """A value `/auto` is there of a step once, at the end of an epoch twice, and then its number is the same. Exact.

    How many steps an epoch has is known where a landscape is collected: step_per_epoch of train_metadata.json. That it is
    there twice within an epoch, and the same, is a warning.
    """
    metadata = cycle.content("train_metadata")
    per_epoch = metadata.document.get("step_per_epoch") if metadata else None
    for artifact in _files(cycle, "summary_events"):
        values = [value for value in collected_values(artifact) if value.is_auto]
        yield from disagreements(Code.I114, _contradicting(artifact, values), place=artifact.place)
        if isinstance(per_epoch, int) and per_epoch > 0:
            twice = _within_an_epoch(artifact, values, per_epoch)
            yield from disagreements(Code.I114, twice, place=artifact.place, severity=Severity.WARNING)


@invariant(needs=("summary_events",))
def a_summary_file_keeps_its_size(cycle: Cycle) -> Iterator[Finding]:
    """No summary or lineage file is larger than `max_file_size`, where the caller says one. Exact."""
    largest = cycle.asked.numbers.get("max_file_size")
    if largest is None:
        return
    for artifact in cycle.files:
        if artifact.slot.name in ("summary_events", "summary_lineage"):
            size = artifact.path.stat().st_size
            if size > largest:
                message = f"max_file_size={largest} is expected, and it has {size} bytes"
                yield Finding(code=Code.A110, place=artifact.place, message=message)


@invariant(needs=("profiler_config",))
def a_window_ends_after_it_begins(cycle: Cycle) -> Iterator[Finding]:
    """0 <= start_step <= stop_step, or both -1 for none; another window is silently never profiled. A warning.

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
#: How many steps a message names.
_NAMED = 8
#: SummaryCollector collects tensors of this many steps where it is told no frequency for them.
_TENSOR_STEPS = 20


@dataclass(frozen=True, slots=True)
class CollectedValue:
    """One value of a summary file: the record it stands in (from 1), its step, tag and kind, and its number if it is one."""

    record: int
    step: int
    tag: str
    kind: str
    number: float | None

    @property
    def is_auto(self) -> bool:
        """Whether SummaryCollector collected it by itself, not a summary operator of the network."""
        return self.tag.endswith(_AUTO)


def collected_values(artifact: Artifact) -> Iterator[CollectedValue]:
    """Yield every value of a summary file that has a step, in the order of the file."""
    frame = artifact.content.frame
    columns = (frame[name].to_list() for name in ("kind", "step", "tags", "kinds", "scalars"))
    for record, (what, step, tags, kinds, numbers) in enumerate(zip(*columns, strict=True), start=1):
        if what != "summary" or not step or not (tags or kinds):
            continue
        for tag, kind, number in zip(tags.split("|"), kinds.split("|"), numbers.split("|"), strict=True):
            yield CollectedValue(record, int(step), tag, kind, float(number) if number else None)


def tensor_frequency(collect_freq: int, total: int) -> tuple[int, int]:
    """Return every how many steps SummaryCollector collects tensors by default, and the last step it may do so in.

    Source: MindSpore 2.10, SummaryCollector._get_tensor_collect_range.
    """
    if len(range(0, total + 1, collect_freq)) <= _TENSOR_STEPS:
        return collect_freq, total
    frequency = total // (_TENSOR_STEPS - 1)
    if frequency > 1:
        return frequency, (_TENSOR_STEPS - 1) * frequency
    return 1, _TENSOR_STEPS


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The steps there must be, in order: the first, and others, which may be as many as numbers there are."""

    first: int
    others: range

    def __contains__(self, step: int) -> bool:
        return step == self.first or step in self.others

    def absent(self, there: set[int]) -> tuple[list[int], int]:
        """Return the first few that are not there, and how many are not."""
        first = range(self.first, self.first + (self.first not in self.others))
        named = islice((step for step in merge(first, self.others) if step not in there), _NAMED)
        return list(named), len(first) + len(self.others) - sum(step in self for step in there)


def _rule(steps: set[int], frequency: int | None, total: int | None) -> _Wanted | None:
    """Return the steps there must be; None where nobody can know."""
    first, *others = sorted(steps) or [1]
    if frequency is not None:
        last = total if total is not None else max(steps, default=1)
        return _Wanted(1, range(frequency, last + 1, frequency))
    if len(others) < 3:
        return None
    divisor = gcd(*others)
    last = total if total is not None else others[-1]
    return _Wanted(first, range((first // divisor + 1) * divisor, last + 1, divisor))


def _tensor_rule(steps: set[int], told: Mapping[str, int]) -> _Wanted | None:
    total = told.get("summary_steps")
    if "collect_tensor_freq" in told or "collect_freq" not in told or total is None:
        return _rule(steps, told.get("collect_tensor_freq"), total if "collect_tensor_freq" in told else None)
    frequency, last = tensor_frequency(told["collect_freq"], total)
    return _Wanted(1, range(frequency, min(last, total) + 1, frequency))


def _misses(cycle: Cycle, artifact: Artifact, what: str, there: set[int], wanted: _Wanted | None) -> Iterator[Finding]:
    """Say which steps are missing, and which should not be there."""
    if wanted is None:
        return
    absent, missing = wanted.absent(there)
    extra = sorted(step for step in there if step not in wanted)
    if absent and absent[0] > max(there, default=0) and _is_full(cycle, artifact):
        yield Finding(
            code=Code.C101,
            severity=Severity.WARNING,
            place=artifact.place,
            message=f"there are no {what} of {_worded(absent, missing)}: the file has reached max_file_size",
        )
    elif absent:
        yield Finding(
            code=Code.C101, place=artifact.place, message=f"there are no {what} of {_worded(absent, missing)}"
        )
    if extra:
        message = f"there are {what} of {_worded(extra, len(extra))}, which should not be collected"
        yield Finding(code=Code.C101, place=artifact.place, message=message)


def _is_full(cycle: Cycle, artifact: Artifact) -> bool:
    """Whether one more record, as large as the largest there, would not have gone into the file."""
    largest = cycle.asked.numbers.get("max_file_size")
    if largest is None:
        return False
    size = artifact.path.stat().st_size
    edges = [*map(int, artifact.content.frame["offset"].to_list()), size]
    return size + max(after - before for before, after in pairwise(edges)) > largest


def _contradicting(artifact: Artifact, values: Iterable[CollectedValue]) -> Iterator[tuple[str, str]]:
    seen: dict[tuple[int, str], CollectedValue] = {}
    count: Counter[tuple[int, str]] = Counter()
    for value in values:
        key = (value.step, value.tag)
        count[key] += 1
        before = seen.setdefault(key, value)
        where, what = f"{artifact.place}:{value.record}", f"{value.tag} of step {value.step}"
        # As text, so that NaN is NaN.
        if repr(before.number) != repr(value.number):
            yield where, f"{what} is {value.number!r}, and {before.number!r} in record {before.record}"
        elif count[key] > 2:
            yield where, f"{what} is there {count[key]} times"


def _within_an_epoch(artifact: Artifact, values: Iterable[CollectedValue], per_epoch: int) -> Iterator[tuple[str, str]]:
    seen: set[tuple[int, str]] = set()
    for value in values:
        if (value.step, value.tag) in seen and value.step % per_epoch:
            what = f"{value.tag} of step {value.step} is there twice, and no epoch of {per_epoch} steps ends there"
            yield f"{artifact.place}:{value.record}", what
        seen.add((value.step, value.tag))


def _worded(steps: list[int], count: int) -> str:
    """Name the first of so many steps."""
    named = ", ".join(map(str, steps[:_NAMED]))
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    return f"step {named}{more}" if count == 1 else f"steps {named}{more}"


def _files(cycle: Cycle, slot: str) -> list[Artifact]:
    return [artifact for artifact in cycle.files if artifact.slot.name == slot]


def _went_back(column: str, row: dict[str, Any]) -> str:
    return f"{column} {row[column]} follows {column} {row['before']}"
