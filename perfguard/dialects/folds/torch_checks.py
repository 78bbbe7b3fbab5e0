"""What must hold in a torch trace, asked while it goes by.

What lies far apart in the file (the two ends of a flow, two events with one number, an operator and what runs around it)
meets in a spool that is sorted by what they have in common.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import UNSET

from perfguard.artifacts.readers.events import Words
from perfguard.artifacts.spool import Rows, Spool
from perfguard.dialects.folds import NO_NUMBER, fold, lacks, look_again, torch_words, whole_numbers
from perfguard.dialects.folds.nesting import Open, parents
from perfguard.dialects.invariants import torch_window
from perfguard.dialects.worded import WordedRows
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle

Ints = np.ndarray[Any, np.dtype[np.int64]]
_STEP = re.compile(torch_window.STEP)
_MEMORY = "[memory]"
#: Ids that are texts, or too large, are numbered from here downwards.
_TEXTS = 2**62
#: So many allocations are tried one by one before the next batch is asked for.
_TRIED = 1000


@fold(slots=("trace",))
class Numbered:
    """External ids, and the numbers of the events: each once, and all of them.

    * `the_external_id_of_an_operator_is_its_own`: No two cpu_op events have one External id. Exact; 0 stands for none.
    * `operators_all_have_an_external_id`: Every operator has an External id where one has. Exact.
    * `events_are_numbered_through`: The events of the host carry the numbers 0 to N-1 (Ev Idx), each once: none was lost,
      none written twice. Exact. Holds with every option of the profiler on real output of torch 2.13 on CPU; torch
      numbers what it recorded before it writes any of it (torch/csrc/profiler, profiler_kineto.cpp). torch 1.12 numbers
      nothing. Beside events of a GPU a gap is a warning: no such trace was at hand.
    """

    checks: ClassVar = (
        "the_external_id_of_an_operator_is_its_own", "operators_all_have_an_external_id", "events_are_numbered_through",
    )  # fmt: skip

    def __init__(self) -> None:
        self._ids = Spool({"number": "i8", "row": "i8", "word": "i4"})
        self._indices = Spool({"number": "i8", "row": "i8", "word": "i4"})
        self._without = WordedRows()
        self._has_ids = False
        self._has_kernels = False
        self._names = Words()

    def see(self, events: Events) -> None:
        """Put both numbers of each event into the spools."""
        self._names = events.vocabulary.names
        numbered = events.arguing
        indices = numbered.derived(whole_numbers, "Ev Idx")
        there = np.flatnonzero(indices != NO_NUMBER)
        self._indices.add(number=indices[there], row=numbered.rows[there], word=numbered.names[there])
        self._has_kernels |= bool(events.is_of_category("kernel").any())
        operators = events.of("X")
        operators = operators.of_category("cpu_op")
        if not len(operators):
            return
        ids = operators.derived(whole_numbers, "External id")
        own = np.flatnonzero(ids > 0)
        self._ids.add(number=ids[own], row=operators.rows[own], word=operators.names[own])
        without = ids == NO_NUMBER
        if without.any():
            without &= operators.derived(lacks, "External id")
        self._has_ids |= not without.all()
        called = self._names.of(operators.names[without])
        rows = operators.rows[without].tolist()
        self._without.add((row, f"{name} has no External id") for row, name in zip(rows, called, strict=True))

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which numbers are there twice, and which are not there."""
        if self._has_ids:
            yield from self._without.findings(Code.S103, artifact, check="operators_all_have_an_external_id")
        again = WordedRows()
        for rows in self._ids.in_order():
            _, found = _repeated(rows, first=True)
            again.add(
                (row, f"{name}: External id {number} is that of event {before} as well")
                for row, name, number, before in zip(
                    found["row"].tolist(), self._names.of(found["word"].tolist()), found["number"].tolist(),
                    found["first"].tolist(), strict=True,
                )
            )  # fmt: skip
        yield from again.findings(Code.I114, artifact, check="the_external_id_of_an_operator_is_its_own")
        yield from self._gaps(artifact)

    def _gaps(self, artifact: Artifact) -> Iterator[Finding]:
        again = WordedRows()
        before, lost, count, gaps = -1, 0, 0, []
        for rows in self._indices.in_order():
            unique, found = _repeated(rows, first=False)
            again.add(
                (row, f"{name}: Ev Idx {number} is that of an earlier event as well")
                for row, name, number in zip(
                    found["row"].tolist(), self._names.of(found["word"].tolist()), found["number"].tolist(), strict=True
                )
            )
            steps = np.diff(unique, prepend=before) - 1
            places = np.flatnonzero(steps > 0)
            lost += int(steps[places].sum())
            count += len(places)
            gaps += [(int(unique[place]), int(steps[place])) for place in places[: torch_words.NAMED].tolist()]
            before = int(unique[-1])
        check = "events_are_numbered_through"
        yield from again.findings(Code.I114, artifact, check=check)
        if count:
            message = torch_words.lost_events(gaps[: torch_words.NAMED], count=count, lost=lost, last=before)
            severity = Severity.WARNING if self._has_kernels else Severity.ERROR
            yield Finding(code=Code.I102, severity=severity, place=artifact.place, message=message, check=check)


def _repeated(rows: Rows, *, first: bool) -> tuple[Ints, Rows]:
    """Return the different numbers, and the rows whose number an earlier one has (with the `first` such row)."""
    order = np.lexsort((rows["row"], rows["number"]))
    numbers, at = rows["number"][order], rows["row"][order]
    is_new = np.concatenate(([True], numbers[1:] != numbers[:-1]))
    again = ~is_new
    found = {"number": numbers[again], "row": at[again], "word": rows["word"][order][again]}
    if first:
        found["first"] = at[np.flatnonzero(is_new)[np.cumsum(is_new) - 1]][again]
    return numbers[is_new], found


@fold(slots=("trace",))
class Flows:
    """Both ends of each flow.

    * `every_flow_has_two_ends`: The flows from forward to backward (fwdbwd) that begin (s) are those that end (f), by id
      and number. Exact: both are on the host. Not asked of ac2g: Kineto writes an `f` at every call of the runtime and an
      `s` at calls that lead to nothing on the device (a memset of no bytes, a synchronisation), output_json.cpp.
    """

    checks: ClassVar = ("every_flow_has_two_ends",)

    def __init__(self) -> None:
        self._ends = Spool({"id": "i8", "row": "i8", "begins": "i1"})
        self._texts = Words()

    def see(self, events: Events) -> None:
        """Put the ends of flows into the spool."""
        flows = events.of("s", "f").of_category("fwdbwd")
        if not len(flows):
            return
        ids = flows.derived(_ids)
        if (others := np.flatnonzero(ids == NO_NUMBER)).size:
            told = flows.column("id")
            # Texts are numbered from below, where no id of a writer is.
            ids = ids.copy()
            ids[others] = [-_TEXTS - self._texts[told[place]] for place in others.tolist()]
        self._ends.add(id=ids, row=flows.rows, begins=flows.is_of("s"))

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which flows have one end."""
        found, texts = WordedRows(), self._texts.listed
        for rows in self._ends.in_order():
            for number, row, starts, stops in _unbalanced(rows):
                text = _as_json(number if number > -_TEXTS else texts[-_TEXTS - number])
                found.add([(row, f"flow {text} of fwdbwd begins {starts} times and ends {stops} times")])
        yield from found.findings(Code.I110, artifact, check=self.checks[0])


#: What a row of the time line is.
_OPERATOR, _FLOW, _ALLOCATION, _STEP_MARK = range(4)


@fold(slots=("trace",))
class TimeLine:
    """What runs around what on a thread: operators inside operators, flows and allocations at or in operators.

    * `operators_of_a_thread_are_nested`: An operator lies inside another of its thread, or beside it; the marks of steps
      count as such. Tolerance 1 us. So no operator is longer than what called it, and none reaches out of the step it
      began in; but a TorchScript function that forks ends with the last of its tasks (torch 2.4, real output), so one
      without a namespace may.
    * `flows_begin_and_end_at_operators`: Both ends of a flow from forward to backward are at the start of an operator of
      their thread. Tolerance 2 ns.
    * `memory_is_allocated_in_operators`: Of the allocations on the host at least one lies in an operator of its thread:
      else times or units are mixed up. On real output all of them do; what allocates outside of operators is possible and
      rare.
    """

    checks: ClassVar = (
        "operators_of_a_thread_are_nested", "flows_begin_and_end_at_operators", "memory_is_allocated_in_operators",
    )  # fmt: skip

    def __init__(self) -> None:
        self._rows = Spool({"start": "i8", "end": "i8", "row": "i8", "thread": "i4", "word": "i4", "what": "i1"})
        self._counts = Counter[int]()
        self._names = Words()
        self._threads = Words()

    def see(self, events: Events) -> None:
        """Put operators, marks, flows and allocations into the spool."""
        self._names = events.vocabulary.names
        self._threads = events.vocabulary.threads
        complete = events.of("X")
        if len(complete):
            self._add(complete.of_category("cpu_op"), _OPERATOR)
            self._add(_step_marks(complete), _STEP_MARK)
        flows = events.of("s", "f")
        if len(flows):
            self._add(flows.at(np.flatnonzero(flows.is_of_category("fwdbwd") & flows.times("ts").is_known)), _FLOW)
        memory = events.named(_MEMORY)
        if len(memory):
            is_allocated = memory.is_of("i") & (memory.derived(whole_numbers, "Bytes") > 0)
            on_host = memory.derived(whole_numbers, "Device Type") == 0
            self._add(memory.at(np.flatnonzero(is_allocated & on_host)), _ALLOCATION)

    def _add(self, events: Events, what: int) -> None:
        if not len(events):
            return
        starts = events.times("ts").ns
        lasts = events.times("dur").ns if what in (_OPERATOR, _STEP_MARK) else 0
        self._counts[what] += len(events)
        self._rows.add(
            start=starts, end=starts + lasts, row=events.rows, thread=events.threads, word=events.names,
            what=np.full(len(events), what, np.int8),
        )  # fmt: skip

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which operators overlap, which flows begin where none does, and if no allocation lies in one."""
        overlapping, lost = WordedRows(), WordedRows()
        open_ones = Open()
        latest = np.full(len(self._threads), -(2**63), np.int64)
        is_met = not (self._counts[_ALLOCATION] and self._counts[_OPERATOR])
        near = _Near(self._threads.listed)
        for rows in self._rows.in_order():
            overlapping.add(self._overlapping(rows, open_ones))
            if self._counts[_FLOW]:
                lost.add(near.without_operator(rows))
            is_met = is_met or _meets(rows, latest)
        lost.add(near.rest())
        yield from overlapping.findings(Code.I112, artifact, check="operators_of_a_thread_are_nested")
        yield from lost.findings(Code.I110, artifact, check="flows_begin_and_end_at_operators")
        if not is_met:
            found = torch_window.allocated_outside(
                artifact, allocations=self._counts[_ALLOCATION], operators=self._counts[_OPERATOR]
            )
            yield replace(found, check="memory_is_allocated_in_operators")

    def _overlapping(self, rows: Rows, open_ones: Open) -> Iterator[tuple[int, str]]:
        """Yield the operators that overlap; where all are nested (as they are in a right trace) that is seen at once."""
        work = np.flatnonzero((rows["what"] == _OPERATOR) | (rows["what"] == _STEP_MARK))
        work = work[np.lexsort((rows["row"][work], -rows["end"][work], rows["start"][work]))]
        work_rows, waiting = open_ones.with_next({name: column[work] for name, column in rows.items()})
        if parents(work_rows["thread"], work_rows["start"], work_rows["end"]) is None:
            stacks: dict[int, list[tuple[int, str]]] = {}
            names = self._names.of(work_rows["word"].tolist())
            columns = (work_rows[name].tolist() for name in ("start", "end", "thread", "row"))
            for place, (start, end, thread, row, name) in enumerate(zip(*columns, names, strict=True)):
                message = torch_words.overlap(stacks.setdefault(thread, []), start, end, name)
                if message and place >= waiting:
                    yield row, message
        open_ones.keep(work_rows)


def _step_marks(events: Events) -> Events:
    places = np.flatnonzero(events.is_of_category("user_annotation"))
    names = events.vocabulary.names.of(events.names[places])
    return events.at(places[[_STEP.match(name) is not None for name in names]] if names else places)


def _ids(flows: Events) -> Ints:
    """Return the ids of flows; `NO_NUMBER` for texts, and for numbers that are too large."""
    told = flows.column("id")
    plain = (one if isinstance(one, int) and abs(one) < _TEXTS else NO_NUMBER for one in told)
    return np.fromiter(plain, np.int64, count=len(told))


def _meets(rows: Rows, latest: Ints) -> bool:
    """Whether an allocation lies in an operator of its thread; `latest` are the ends of those that began before."""
    allocations = np.flatnonzero(rows["what"] == _ALLOCATION)
    for place in allocations.tolist():
        begun = rows["start"] <= rows["start"][place]
        own = begun & (rows["what"] == _OPERATOR) & (rows["thread"] == rows["thread"][place])
        end = max(int(latest[rows["thread"][place]]), int(rows["end"][own].max(initial=-(2**63))))
        if int(rows["start"][place]) <= end + torch_window.EDGE_NS:
            return True
        if place > allocations[0] + _TRIED:
            break
    operators = rows["what"] == _OPERATOR
    np.maximum.at(latest, rows["thread"][operators], rows["end"][operators])
    return False


class _Near:
    """Finds flows without an operator of their thread near; what is near the edge of a batch waits for the next one."""

    def __init__(self, threads: Sequence[Any]) -> None:
        self._threads = threads
        self._waiting: Rows | None = None
        self._from = -(2**63)

    def without_operator(self, rows: Rows) -> list[tuple[int, str]]:
        """Return the flows of the batch (and those that waited) that have none."""
        wanted = (rows["what"] == _OPERATOR) | (rows["what"] == _FLOW)
        rows = {name: column[wanted] for name, column in rows.items()}
        if self._waiting is not None:
            rows = {name: np.concatenate([self._waiting[name], column]) for name, column in rows.items()}
        if not len(rows["start"]):
            return []
        until = int(rows["start"].max()) - torch_window.FLOW_NS
        found = list(self._lost(rows, self._from, until))
        kept = rows["start"] >= until - torch_window.FLOW_NS
        self._waiting = {name: column[kept] for name, column in rows.items()}
        self._from = max(until, self._from)
        return found

    def rest(self) -> list[tuple[int, str]]:
        """Return those that waited and have none."""
        return list(self._lost(self._waiting, self._from, 2**63 - 1)) if self._waiting is not None else []

    def _lost(self, rows: Rows, begin: int, end: int) -> Iterator[tuple[int, str]]:
        starts = rows["start"]
        flows = np.flatnonzero((rows["what"] == _FLOW) & (starts >= begin) & (starts < end))
        if not flows.size:
            return
        # Threads apart, by an offset that no time within the batch bridges.
        first = int(starts.min())
        width = int(starts.max()) - first + 4 * torch_window.FLOW_NS
        keys = rows["thread"].astype(np.int64) * width + (starts - first)
        known = np.sort(keys[rows["what"] == _OPERATOR])
        nearest = np.searchsorted(known, keys[flows] - torch_window.FLOW_NS)
        there = np.zeros(len(flows), np.bool_)
        if len(known):
            at = np.minimum(nearest, len(known) - 1)
            there = (nearest < len(known)) & (known[at] <= keys[flows] + torch_window.FLOW_NS)
        for place in flows[~there].tolist():
            thread = _as_json(self._threads[int(rows["thread"][place])][1])
            message = (
                f"no operator of thread {thread} begins at {int(starts[place]) / 1000:.3f} us, where the flow does"
            )
            yield int(rows["row"][place]), message


@fold(slots=("trace",))
class Window:
    """The window of a trace, what its header says was recorded, and the time in its name.

    * `events_lie_in_the_window`: Operators, memory events and flows lie in the span "PyTorch Profiler" that the trace
      draws. Tolerance 1 us. The mark of a step, a Python function and what a collective annotates from its own thread may
      begin before it; no step ends behind it. A task that another thread was at when the profiler stopped may end behind
      it (torch 2.8, jit.fork).
    * `what_the_header_says_was_recorded_is_there`: With profile_memory there are memory events, with record_shapes
      operators have Input Dims. Asked only where operators ran that must leave them: those that allocate, and those that
      take tensors.
    * `what_is_there_was_recorded`: Memory events are there only with profile_memory, Input Dims only with record_shapes,
      in a header that says so. The header names what was on and leaves out what was off; torch 1.12 names both always.
    * `a_trace_is_named_after_its_end`: `<worker>.<ns>.pt.trace.json` carries the time at which it was named: after its
      last event, within six hours. Only where the name has nanoseconds and the trace its epoch; a warning, since a name
      may be given by hand. Source: torch 2.x: profiler.py, tensorboard_trace_handler.
    """

    checks: ClassVar = (
        "events_lie_in_the_window", "what_the_header_says_was_recorded_is_there", "what_is_there_was_recorded",
        "a_trace_is_named_after_its_end",
    )  # fmt: skip

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self._marked: set[Any] = set()
        self._low, self._high = 2**63 - 1, -(2**63)
        self._mark_end = -(2**63)
        #: The latest end on each thread, and of the operators of all of them.
        self._ends: dict[int, int] = {}
        self._last: int | None = None
        self._calls = np.zeros(0, np.int64)
        self._names = Words()
        self._threads = Words()
        self._memory_events = self._with_shapes = self._operators_with_shapes = 0

    def see(self, events: Events) -> None:
        """Keep the extremes, and count."""
        self._names = events.vocabulary.names
        self._threads = events.vocabulary.threads
        self._memory_events += int(np.count_nonzero(events.is_named(_MEMORY)))
        arguing = events.arguing
        has_shapes = arguing.texts("Input Dims") != events.vocabulary.texts["Input Dims"].get(UNSET, -1)
        self._with_shapes += int(np.count_nonzero(has_shapes))
        is_complete = events.is_of("X")
        operators = is_complete & events.is_of_category("cpu_op")
        of_operators = has_shapes & arguing.is_of("X") & arguing.is_of_category("cpu_op")
        self._operators_with_shapes += int(np.count_nonzero(of_operators))
        counts = np.bincount(events.names[operators], minlength=len(events.vocabulary.names))
        counts[: len(self._calls)] += self._calls
        self._calls = counts
        if operators.any():
            ends = events.times("ts").ns[operators] + events.times("dur").ns[operators]
            self._last = max(int(ends.max()), self._last if self._last is not None else -(2**63))
        for start, end in _spans(events, is_complete):
            self._spans.append((start, end))
        marks = _step_marks(events)
        if len(marks):
            self._marked |= {tid for _, tid in self._threads.of(np.unique(marks.threads))}
            self._mark_end = max(self._mark_end, int((marks.times("ts").ns + marks.times("dur").ns).max()))
        self._keep_extremes(events)

    def _keep_extremes(self, events: Events) -> None:
        places = _host_places(events)
        if not places.size:
            return
        starts = events.times("ts").ns[places]
        self._low, self._high = min(self._low, int(starts.min())), max(self._high, int(starts.max()))
        ends = starts + events.times("dur").ns[places]
        threads = events.threads[places]
        for thread in np.unique(threads).tolist():
            self._ends[thread] = max(self._ends.get(thread, -(2**63)), int(ends[threads == thread].max()))

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Hold the events against the window, and the header and the name against the events."""
        yield from self._outside(artifact)
        calls = {name: count for name, count in zip(self._names, self._calls.tolist(), strict=False) if count}
        for check, found in (
            (
                "what_the_header_says_was_recorded_is_there",
                torch_words.recorded_as_said(
                    artifact, calls=calls, memory_events=self._memory_events, with_shapes=self._operators_with_shapes
                ),
            ),
            (
                "what_is_there_was_recorded",
                torch_window.recorded_though_off(
                    artifact, memory_events=self._memory_events, with_shapes=self._with_shapes
                ),
            ),
            ("a_trace_is_named_after_its_end", torch_window.named_after_its_end(artifact, self._last)),
        ):
            for finding in found:
                yield replace(finding, check=check)

    def _outside(self, artifact: Artifact) -> Iterator[Finding]:
        if len(self._spans) != 1:
            return
        begin, end = self._spans[0]
        edge = torch_window.EDGE_NS
        threads = self._threads.listed
        stopped = [
            last for thread, last in self._ends.items() if not self._marked or threads[thread][1] in self._marked
        ]
        is_inside = self._low >= begin - edge and self._high <= end + edge
        if is_inside and max([self._mark_end, *stopped]) <= end + edge:
            return
        # Some event lies outside, so the trace is looked at once more, for which.
        outside = WordedRows()

        def see(events: Events) -> None:
            outside.add(self._events_outside(events, begin - edge, end + edge, (begin, end)))

        look_again(artifact, see)
        yield from outside.findings(Code.I113, artifact, check="events_lie_in_the_window")

    def _events_outside(
        self, events: Events, low: int, high: int, window: tuple[int, int]
    ) -> Iterator[tuple[int, str]]:
        starts = events.times("ts").ns
        ends = starts + events.times("dur").ns
        host = np.zeros(len(events), np.bool_)
        host[_host_places(events)] = True
        marks = np.isin(events.rows, _step_marks(events).rows)
        if self._marked:
            stopped = np.fromiter((one in self._marked for one in events.column("tid")), np.bool_, count=len(events))
        else:
            stopped = np.ones(len(events), np.bool_)
        found = (host & ((starts < low) | (starts > high))) | (((host & stopped) | marks) & (ends > high))
        names = events.column("name")
        for place in np.flatnonzero(found).tolist():
            words = torch_window.outside_words(names[place], int(starts[place]), int(ends[place]), *window)
            yield int(events.rows[place]), words


def _host_places(events: Events) -> Ints:
    """Return the places of operators, memory events and flows between forward and backward, as far as they have a time."""
    is_complete = events.is_of("X")
    host = (
        (is_complete & events.is_of_category("cpu_op"))
        | (events.is_of_category("cpu_instant_event") & events.is_named(_MEMORY))
        | events.is_of_category("fwdbwd")
    )
    return np.flatnonzero(host & events.times("ts").is_known)


def _spans(events: Events, is_complete: Any) -> Iterator[tuple[int, int]]:
    for place in np.flatnonzero(is_complete & events.is_of_category("Trace")).tolist():
        start = int(events.times("ts").ns[place])
        yield start, start + int(events.times("dur").ns[place])


def _as_json(value: Any) -> str:
    import json

    return "None" if value is UNSET else json.dumps(value)


def _unbalanced(rows: Rows) -> Iterator[tuple[int, int, int, int]]:
    """Yield (id, first row, begins, ends) of flows that do not begin as often as they end."""
    order = np.lexsort((rows["row"], rows["id"]))
    ids, at, begins = rows["id"][order], rows["row"][order], rows["begins"][order].astype(np.int64)
    firsts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    starts = np.add.reduceat(begins, firsts)
    stops = np.add.reduceat(1 - begins, firsts)
    for place in np.flatnonzero(starts != stops).tolist():
        first = firsts[place]
        yield int(ids[first]), int(at[first]), int(starts[place]), int(stops[place])
