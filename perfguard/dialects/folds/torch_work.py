"""The work in a torch trace: operators and kernels added up by step while the trace goes by.

What needs the order of time waits in spools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from msgspec import UNSET

from perfguard.artifacts.readers.events import Words
from perfguard.artifacts.spool import Rows, Spool
from perfguard.dialects.collectives import COLLECTIVE, HOST_COLLECTIVE, no_collectives
from perfguard.dialects.coverage import CoveredSteps, Spans, in_steps
from perfguard.dialects.cycle import Executions
from perfguard.dialects.executions import HANDLE, TORCH_WORK, marks_of_steps, torch_shapes
from perfguard.dialects.folds import fold
from perfguard.dialects.folds.nesting import NONE, Open, parents
from perfguard.dialects.folds.processes import Classes
from perfguard.dialects.folds.torch_words import category_of

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle
    from perfguard.findings import Finding

_MARK = re.compile(r"ProfilerStep#([0-9]{1,18})")
_RUNTIME = re.compile(r"_(runtime|driver)$")
#: What an event is, by its category.
_OTHER, _HOST, _DEVICE, _LAUNCH, _ANNOTATION = range(5)
#: Stands for no number, and for no step.
_UNKNOWN, _NO_STEP = -(2**63), -1
Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark of a step: `ProfilerStep#number` on a thread of the vocabulary."""

    start_ns: int
    duration_ns: int
    number: int
    thread: int


class SelfTimes:
    """Own times of events that come sorted by start (longer first), a batch at a time; the rest waits until it has ended.

    An event is inside the one that was begun last on its thread and has not ended; one that only overlaps that one is no child
    of it.
    """

    def __init__(self) -> None:
        self._open = Open()

    def add(self, rows: Rows, *, last: bool = False) -> Rows:
        """Return the rows that are settled (all of them where these are the `last`), with their `self`."""
        rows = {**rows, "end": rows["start"] + rows["duration"], "self": rows["duration"].astype(np.int64)}
        rows, waiting = self._open.with_next(rows)
        around = parents(rows["thread"], rows["start"], rows["end"])
        own = rows["self"].copy()
        if around is None:
            _subtract_one_by_one(own, rows, waiting)
        else:
            inside = np.flatnonzero(around[waiting:] != NONE) + waiting
            np.subtract.at(own, around[inside], rows["duration"][inside])
        rows["self"] = own
        if last:
            self._open = Open()
            return rows
        reaches = self._open.keep(rows)
        return {name: column[~reaches] for name, column in rows.items()}


def _subtract_one_by_one(own: Ints, rows: Rows, waiting: int) -> None:
    """Take from each event what lies in it; the first `waiting` events have been taken from those around them already."""
    stacks: dict[int, list[tuple[int, int]]] = {}
    columns = (rows[name].tolist() for name in ("start", "end", "thread"))
    for index, (start, end, thread) in enumerate(zip(*columns, strict=True)):
        stack = stacks.setdefault(thread, [])
        while stack and stack[-1][1] <= start and not (end == start and stack[-1][1] == start):
            stack.pop()
        if index >= waiting and stack and end <= stack[-1][1]:
            own[stack[-1][0]] -= end - start
        stack.append((index, end))


@fold(slots=("trace",), layouts=("pt-torch",), wanted={"X": ("correlation",)})
class TorchWork:
    """Work of a torch trace, its launches, its marks of steps and the collectives annotated beside it."""

    checks: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._work = Spool(
            {"start": "i8", "duration": "i8", "begun": "i8", "word": "i4", "thread": "i4", "shapes": "i4"}
        )
        #: Of devices, by the correlation with what launched them.
        self._launched = Spool(
            {"correlation": "i8", "start": "i8", "duration": "i8", "word": "i4", "thread": "i4", "shapes": "i4"}
        )
        self._launches = Spool({"correlation": "i8", "start": "i8", "row": "i8"})
        #: The lowest number of a call.
        self._first_call = 2**63 - 1
        self._marks: list[Mark] = []
        self._annotated: list[tuple[str, int, int]] = []
        self._shapes = Words()
        self._texts: list[str | None] = []
        self._names: Words = Words()
        self._are_marks = Classes(lambda name: int(isinstance(name, str) and _MARK.fullmatch(name) is not None))
        self._words: dict[str, Words] = {}

    def see(self, events: Events) -> None:
        """Put the work of a chunk into the spools."""
        found = events.of("X")
        if not len(found):
            return
        self._names = found.vocabulary.names
        kinds = self._kinds(found)
        if "Operator" in found.vocabulary.categories:
            is_mark = self._are_marks.of(found.vocabulary.names)[found.names] == 1
            kinds = np.where(is_mark & found.is_of_category("Operator"), np.int8(_ANNOTATION), kinds)
        starts, lasts = found.times("ts").ns, found.times("dur").ns
        names, threads = found.names, found.threads
        marked = np.flatnonzero(kinds == _ANNOTATION)
        if marked.size:
            self._annotations(found, marked.tolist())
        host = np.flatnonzero(kinds == _HOST)
        shapes = self._shapes_of(found)
        self._work.add(
            start=starts[host], duration=lasts[host], begun=starts[host], word=names[host], thread=threads[host],
            shapes=shapes[host],
        )  # fmt: skip
        device, runtime = np.flatnonzero(kinds == _DEVICE), np.flatnonzero(kinds == _LAUNCH)
        if not device.size and not runtime.size:
            return
        correlations = found.derived(_correlations)
        known = device[correlations[device] != _UNKNOWN]
        self._launched.add(
            correlation=correlations[known], start=starts[known], duration=lasts[known], word=names[known],
            thread=threads[known], shapes=shapes[known],
        )  # fmt: skip
        alone = device[correlations[device] == _UNKNOWN]
        self._work.add(
            start=starts[alone], duration=lasts[alone], begun=starts[alone], word=names[alone], thread=threads[alone],
            shapes=shapes[alone],
        )  # fmt: skip
        runtime = runtime[correlations[runtime] != _UNKNOWN]
        if runtime.size:
            self._first_call = min(self._first_call, int(correlations[runtime].min()))
        self._launches.add(correlation=correlations[runtime], start=starts[runtime], row=found.rows[runtime])

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """It checks nothing."""
        yield from ()

    def _kinds(self, events: Events) -> Any:
        """Return what each event is, by its category."""
        numbers = events.categories
        table = np.zeros(len(events.vocabulary.categories), np.int8)
        for category, number in events.vocabulary.categories.items():
            table[number] = _kind_of(category)
        return table[numbers]

    def _annotations(self, events: Events, places: Sequence[int]) -> None:
        starts, lasts = events.times("ts").ns, events.times("dur").ns
        for place, name in zip(places, self._names.of(events.names[places]), strict=True):
            start, duration = int(starts[place]), int(lasts[place])
            if mark := _MARK.fullmatch(name):
                thread = int(events.threads[place])
                self._marks.append(Mark(start_ns=start, duration_ns=duration, number=int(mark[1]), thread=thread))
            elif HOST_COLLECTIVE.match(name):
                self._annotated.append((name, start, duration))

    def _shapes_of(self, events: Events) -> Any:
        """Return the number of the shapes of each event: of what its arguments have as dimensions, and as types."""
        dims, types = events.texts("Input Dims"), events.texts("Input type")
        self._words = events.vocabulary.texts
        # Few different pairs come again and again.
        pairs = dims.astype(np.int64) << 32 | types
        different, places = np.unique(pairs, return_inverse=True)
        return self._shapes.numbers(different.tolist(), len(different))[places]

    # -- at the end ----------------------------------------------------------------------------------------------

    def executions(self, cycle: Cycle, header: Any) -> Executions:
        """Return the executions of the trace, once all of it has been seen."""
        marks = self._marks_frame()
        if cycle.asked.active is None and cycle.asked.steps:
            marks = marks_of_steps(marks, cycle, header)
        edges = tuple(
            zip(marks["start_ns"].to_list(), (marks["start_ns"] + marks["duration_ns"]).to_list(), strict=True)
        )
        self._join_launches()
        covered = CoveredSteps.of(edges)
        annotated = self._annotated_frame()
        beside = in_steps(annotated, edges).select(*_SPAN).sort("start_ns")
        marked = np.array(sorted(set(marks["thread"].to_list())), np.int64)
        collective = np.array([COLLECTIVE.search(name) is not None for name in self._names], np.bool_)
        sums, shapes, own, place = _Sums("word", "step"), _Groups("word", "shapes"), SelfTimes(), 0
        for rows, is_last in _with_last(self._work.in_order()):
            order = np.lexsort((-rows["duration"], rows["start"]))
            rows = {name: column[order] for name, column in rows.items()}
            before = _launched_before(rows, edges)
            rows["step"] = np.where(before, _NO_STEP, _steps_of(rows, edges, marked))
            rows["place"] = np.arange(place, place + len(order))
            place += len(order)
            if edges:
                until = int(rows["start"][-1])
                due = beside if is_last else beside.filter(pl.col("start_ns") <= until)
                beside = beside.slice(due.height)
                covered = _covered(covered, rows, collective[rows["word"]], due)
            rows["counts"] = ~before
            timed = own.add(rows, last=is_last)
            sums.add({name: column[timed["counts"]] for name, column in timed.items()})
            counted = ~before & (rows["step"] != _NO_STEP) if edges else ~before
            shapes.add({name: column[counted] for name, column in rows.items()})
        groups = self._groups(sums.rows(), has_steps=bool(edges))
        return Executions(
            groups=groups,
            shapes=self._shapes_frame(shapes.rows()),
            covered=covered.by_step if edges else (),
            collectives=annotated,
            steps=len(edges) or None,
            by_step=bool(edges),
            step_numbers=tuple(marks["number"].to_list()),
            edges_ns=edges,
            marks_steps=True,
        )

    def _marks_frame(self) -> pl.DataFrame:
        rows = [(mark.start_ns, mark.duration_ns, mark.number, mark.thread) for mark in self._marks]
        schema = {"start_ns": pl.Int64, "duration_ns": pl.Int64, "number": pl.Int64, "thread": pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row").sort("start_ns", maintain_order=True)

    def _annotated_frame(self) -> pl.DataFrame:
        schema = no_collectives().schema
        return pl.DataFrame(self._annotated, schema=schema, orient="row").sort("start_ns", maintain_order=True)

    def _join_launches(self) -> None:
        """Move the work of devices to the rest, with the time at which it was launched.

        Of several launches with one number the first in the trace counts. Both sides come sorted by the number. What has none
        begins when it runs, and `_UNKNOWN` where its number is below that of every call: it was launched before them.
        """
        first_call = self._first_call if self._launches.height else _UNKNOWN
        launches = _first_of_each(self._launches)
        waiting: Rows | None = next(launches, None)
        for rows in self._launched.in_order():
            numbers = rows["correlation"]
            begun = np.where(numbers < first_call, _UNKNOWN, rows["start"])
            while waiting is not None and len(numbers):
                _match(numbers, begun, waiting)
                if len(waiting["correlation"]) and waiting["correlation"][-1] > numbers[-1]:
                    break
                waiting = next(launches, None)
            self._work.add(
                start=rows["start"], duration=rows["duration"], begun=begun, word=rows["word"], thread=rows["thread"],
                shapes=rows["shapes"],
            )  # fmt: skip
        self._launched.close()
        self._launches.close()

    def _groups(self, rows: Rows, *, has_steps: bool) -> pl.DataFrame:
        """Return the sums with their texts, as `groups.aggregated` has them."""
        # No two first calls have one place.
        order = np.lexsort((rows["first_place"], rows["first_ns"]))
        if has_steps and (handles := [self._names[name] for name in HANDLE if name in self._names]):
            # torch 1.12 keeps the handle of a step's mark in a tensor, made between steps.
            between = (rows["step"] == _NO_STEP) & np.isin(rows["word"], handles)
            order = order[~between[order]]
        called = pl.Series(self._names.listed, dtype=pl.String).gather(rows["word"][order])
        step = pl.Series(rows["step"][order])
        return pl.DataFrame(
            {
                "operator": called,
                "name": called,
                "step": step.set(step == _NO_STEP, None),
                "shapes": pl.Series([None], dtype=pl.String).new_from_index(0, len(called)),
                **{name: pl.Series(rows[name][order]) for name in _SUMS},
            }
        )

    def _shapes_frame(self, rows: Rows) -> pl.DataFrame:
        """Return how often each operator ran with which shapes."""
        worded = self._shape_texts()
        texts = Words()
        # Different arguments may be worded alike.
        numbers = np.fromiter((-1 if one is None else texts[one] for one in worded), np.int64, count=len(worded))
        alike = {name: column for name, column in rows.items() if name != "shapes"}
        alike["shapes"] = numbers[rows["shapes"]]
        known = np.flatnonzero(alike["shapes"] >= 0)
        alike = {name: column[known] for name, column in alike.items()}
        if known.size and len(texts) < np.count_nonzero(numbers >= 0):
            alike = _Groups("word", "shapes").summed(alike)
        return pl.DataFrame(
            {
                "operator": pl.Series(self._names.listed, dtype=pl.String).gather(alike["word"]),
                "shapes": pl.Series(texts.listed, dtype=pl.String).gather(alike["shapes"]),
                "calls": pl.Series(alike["calls"]),
            }
        )

    def _shape_texts(self) -> list[str | None]:
        """Return the text of each shape seen, in the order of their numbers."""
        if len(self._texts) < len(self._shapes):
            dims, types = (list(self._words[key]) for key in ("Input Dims", "Input type"))
            new = list(self._shapes)[len(self._texts) :]
            self._texts += torch_shapes([_inputs(dims[pair >> 32], types[pair & 0xFFFFFFFF]) for pair in new])
        return self._texts


def _inputs(dims: Any, types: Any) -> str | None:
    """Return the arguments that say the shapes, as the trace has them; None where there are none."""
    if dims is UNSET:
        return None
    kinds = "" if types is UNSET else f', "Input type": {types.decode()}'
    return f'{{"Input Dims": {dims.decode()}{kinds}}}'


def _kind_of(category: Any) -> int:
    if category is UNSET:
        return _OTHER
    category = category_of(category)
    if category == "cpu_op":
        return _HOST
    if category in TORCH_WORK:
        return _DEVICE
    if category == "user_annotation":
        return _ANNOTATION
    return _LAUNCH if _RUNTIME.search(category) else _OTHER


def _correlations(events: Events) -> Ints:
    """Return the numbers of launches, of up to eighteen digits; `_UNKNOWN` for anything else."""
    texts = events.arguments("correlation")
    found = np.full(len(texts), _UNKNOWN, np.int64)
    for place, text in enumerate(texts):
        if text is not UNSET and (plain := bytes(text)).isdigit() and len(plain) <= 18:
            found[place] = int(plain)
    return found


def _launched_before(rows: Rows, edges: Sequence[tuple[int, int]]) -> Any:
    """Return which rows were launched before the first step: they count for none, whenever they ran.

    The queue of a device is rarely empty when the profiler starts. Calls are numbered through (`correlation`), so what was
    launched before all calls of the trace has a lower number than any of them (`_join_launches`).
    """
    before = rows["begun"] == _UNKNOWN
    rows["begun"] = np.where(before, rows["start"], rows["begun"])
    if not edges:
        return np.zeros_like(before)
    return before | ((rows["begun"] < rows["start"]) & (rows["begun"] < edges[0][0]))


def _steps_of(rows: Rows, edges: Sequence[tuple[int, int]], marked: Ints) -> Ints:
    """Return the step of every event: where it lies for a thread that marks the steps, else the last step begun.

    Other threads do not stop for the marks, and a device runs behind the host: what it does is of the step that launched it.
    """
    if not edges:
        return np.full(len(rows["start"]), _NO_STEP, np.int64)
    starts, ends = np.array([start for start, _ in edges]), np.array([end for _, end in edges])
    last = np.searchsorted(starts, rows["begun"], "right") - 1
    inside = (last >= 0) & (rows["begun"] <= ends[np.maximum(last, 0)])
    return np.where(np.isin(rows["thread"], marked), np.where(inside, last, _NO_STEP), np.maximum(last, 0))


def _with_last(batches: Iterator[Rows]) -> Iterator[tuple[Rows, bool]]:
    """Yield each batch, and whether it is the last one."""
    before = next(batches, None)
    while before is not None:
        after = next(batches, None)
        yield before, after is None
        before = after


def _first_of_each(launches: Spool) -> Iterator[Rows]:
    for rows in launches.in_order():
        order = np.lexsort((rows["row"], rows["correlation"]))
        numbers = rows["correlation"][order]
        is_first = np.concatenate(([True], numbers[1:] != numbers[:-1]))
        yield {"correlation": numbers[is_first], "start": rows["start"][order][is_first]}


def _match(numbers: Ints, begun: Ints, launches: Rows) -> None:
    """Put the start of each launch at the events with its number; both are sorted."""
    known = launches["correlation"]
    places = np.minimum(np.searchsorted(known, numbers), max(len(known) - 1, 0))
    if len(known):
        same = known[places] == numbers
        begun[same] = launches["start"][places[same]]


_SPAN = ("operator", "step", "start_ns", "duration_ns")


def _covered(covered: CoveredSteps, rows: Rows, is_collective: Any, beside: pl.DataFrame) -> CoveredSteps:
    """Add executions, and the annotated collectives that begin among them."""
    inside = np.flatnonzero(rows["step"] != _NO_STEP)
    columns = {"step": "step", "start_ns": "start", "duration_ns": "duration"}
    told, is_collective = {name: rows[column][inside] for name, column in columns.items()}, is_collective[inside]
    if beside.height:
        told = {name: np.concatenate([column, beside[name].to_numpy()]) for name, column in told.items()}
        is_collective = np.concatenate([is_collective, np.ones(beside.height, np.bool_)])
        order = np.argsort(told["start_ns"], kind="stable")
        told, is_collective = {name: column[order] for name, column in told.items()}, is_collective[order]
    return covered.told_apart(Spans(**told), is_collective)


#: What is added up of a group, as `groups.aggregated` has it.
_SUMS = (
    "calls", "total_ns", "self_ns", "unfilled", "first_ns", "first_place", "last_ns", "last_place",
)  # fmt: skip


class _Groups:
    """Sums of batches by group: a part a batch, and parts that are about as long are added up to one.

    So no group is sorted again for each batch that does not have it.
    """

    #: What there is of each group.
    sums: ClassVar[tuple[str, ...]] = ("calls",)

    def __init__(self, *group: str) -> None:
        self._group = group
        self._parts: list[Rows] = []

    def rows(self) -> Rows:
        """Return a row a group."""
        while len(self._parts) > 1:
            self._join()
        none = {name: np.empty(0, np.int64) for name in (*self._group, *self.sums)}
        return self._parts[0] if self._parts else none

    def add(self, rows: Rows) -> None:
        """Add executions: what they are grouped by and the start of each; for sums duration, self and place as well."""
        if not len(rows["start"]):
            return
        self._parts.append(self.summed(self._of(rows)))
        while len(self._parts) > 1 and _height(self._parts[-2]) < 2 * _height(self._parts[-1]):
            self._join()

    def _join(self) -> None:
        last, before = self._parts.pop(), self._parts.pop()
        self._parts.append(self.summed({name: np.concatenate([before[name], last[name]]) for name in last}))

    def _of(self, rows: Rows) -> Rows:
        """Return each execution as a group of its own."""
        found = {name: rows[name].astype(np.int64) for name in self._group}
        return {**found, "calls": np.ones(len(rows["start"]), np.int64)}

    def summed(self, rows: Rows) -> Rows:
        """Add up the rows of each group; there is at least one."""
        order, firsts = self._sorted(rows)
        found = {name: rows[name][order[firsts]] for name in self._group}
        found["calls"] = np.add.reduceat(rows["calls"][order], firsts)
        return found

    def _sorted(self, rows: Rows) -> tuple[Ints, Ints]:
        """Return the order in which the rows of a group are beside each other, and where each group begins in it."""
        order = np.lexsort([rows[name] for name in reversed(self._group)])
        return order, _firsts(rows, order, self._group)


class _Sums(_Groups):
    """Sums of calls and times."""

    sums = _SUMS

    def _of(self, rows: Rows) -> Rows:
        start, duration = rows["start"], rows["duration"]
        return {
            **super()._of(rows),
            "total_ns": duration,
            "self_ns": rows["self"],
            "unfilled": ((start == 0) & (duration == 0)).astype(np.int64),
            "first_ns": start,
            "first_place": rows["place"],
            "last_ns": start,
            "last_place": rows["place"],
        }

    def summed(self, rows: Rows) -> Rows:
        """Add up the rows of each group, with its first and its last call; there is at least one row."""
        order, firsts = self._sorted(rows)
        found = {name: rows[name][order[firsts]] for name in self._group}
        for name in ("calls", "total_ns", "self_ns", "unfilled"):
            found[name] = np.add.reduceat(rows[name][order], firsts)
        counts = np.diff(firsts, append=len(order))
        for end, most, none in (("first", np.minimum, 2**63 - 1), ("last", np.maximum, -1)):
            times = rows[f"{end}_ns"][order]
            found[f"{end}_ns"] = most.reduceat(times, firsts)
            is_at_end = times == np.repeat(found[f"{end}_ns"], counts)
            found[f"{end}_place"] = most.reduceat(np.where(is_at_end, rows[f"{end}_place"][order], none), firsts)
        return found


def _height(rows: Rows) -> int:
    return len(rows["calls"])


def _firsts(rows: Rows, order: Ints, group: tuple[str, ...]) -> Ints:
    """Return where a new group begins, of rows in this order."""
    is_new = np.zeros(len(order), np.bool_)
    is_new[0] = True
    for name in group:
        column = rows[name][order]
        is_new[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_new)
