"""The events of a trace_view in the order of their times: kernels beside their rows, flows at events, lanes in a row, repeats.

All of them wait in one spool; what each check asks of them is asked in one pass over it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from msgspec import UNSET, Raw

from perfguard.artifacts import spool
from perfguard.artifacts.readers.event_schema import compiled
from perfguard.artifacts.readers.events import Words, as_bytes
from perfguard.artifacts.readers.times import times_of
from perfguard.artifacts.readers.trace import stream_trace
from perfguard.artifacts.schema import WORDED_ROWS
from perfguard.artifacts.spool import Rows, Spool
from perfguard.dialects.folds import fold, hashed, refuse_change
from perfguard.dialects.folds.processes import Processes
from perfguard.dialects.invariants import ascend_joins, ascend_trace, mindspore_cpu
from perfguard.dialects.worded import WordedRows
from perfguard.findings import Code, Severity

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle
    from perfguard.findings import Finding

Ints = np.ndarray[Any, np.dtype[np.int64]]

#: What a row is: an event with a duration, one that is a task of a kernel, the ends of a flow, anything else.
_EVENT, _TASK, _BEGIN, _END, _OTHER = range(5)
_COLUMNS = {"at": "i8", "end": "i8", "row": "i8", "thread": "i4", "word": "i4", "what": "i1"}
_TASKS = frozenset(f'"{one}"'.encode() for one in ascend_trace.KERNEL_TASKS)
_NEVER = -(2**63)
_LARGE = 2**63
#: So many rows are asked about at once: all checks together hold several copies of them.
_AT_ONCE = 32 * 1024
#: Kinds of torch_npu's events beside those that last and flow, and metadata.
_OTHERS = ("C", "i", "I", "B", "E", "b", "e", "n", "t")


@fold(slots=("trace_view",), layouts=("ms-2.5+", "ms-2.3", "ms-2.5+cpu"))
class ViewInTime:
    """What lasts and what flows, by time.

    * `kernels_are_in_the_trace`: Every row of kernel_details is an event of the trace: same name, start within 1 ns,
      duration within 0.002 us. Starts differ by 1 ns in a few collectives only; durations by 0.001 us, since the trace
      has more decimals. MindSpore puts the operator that launched a kernel before its name in kernel_details (source:
      ascend_kernel_details_viewer.py).
    * `flows_of_the_trace_meet_events`: A flow ends (f) where an event of its thread starts, and begins (s) inside one.
      Exact to 1 ns. Asked of a category of which nine in ten do.
    * `the_lanes_of_overlap_share_out_the_time`: Computing, Communication(Not Overlapped) and Free follow each other
      without overlap or gap (0.005 us), per device. A gap, as between steps of a version that leaves it out, is only
      reported where nine in ten have none.
    * `device_events_are_there_once`: No event is there twice with all that is said of it. Exact; metadata may be
      repeated. Of MindSpore only what lasts: no real sample says how it draws flows.
    * `trace_events_are_there_once`: No complete event (X) is there twice, equal in every key. Source: MindSpore 2.10,
      real output. Not so in 2.0, and metadata events may repeat everywhere.
    """

    checks: ClassVar[tuple[str, ...]] = (
        "kernels_are_in_the_trace", "flows_of_the_trace_meet_events", "the_lanes_of_overlap_share_out_the_time",
        "device_events_are_there_once", "trace_events_are_there_once",
    )  # fmt: skip
    #: Kinds of events beside those that last and flow that must not be there twice.
    others: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._rows = Spool(_COLUMNS)
        self._processes = Processes()
        self._names, self._threads, self._categories = Words(), Words(), Words()
        self._has_categories = False
        self._schema: Any = None

    def see(self, events: Events) -> None:
        """Put what lasts and what flows into the spool."""
        self._schema, self._threads = events.schema, events.vocabulary.threads
        self._processes.see(events)
        if not self._has_categories:
            without = events.vocabulary.categories[UNSET]
            self._has_categories = bool((events.categories != without).any())
        complete = events.of("X")
        if len(complete):
            self._names = complete.vocabulary.names
            starts, lasts = complete.times("ts").ns, complete.times("dur")
            # Nothing lasts less than nothing: so is marked what nobody knows the end of.
            ends = np.where(lasts.is_known, starts + lasts.ns, starts - 1)
            self._add(complete, at=starts, end=ends, word=complete.names, what=self._tasks(complete))
        flows = events.of("s", "f")
        if len(flows):
            self._categories = events.vocabulary.categories
            ids = flows.derived(_hashed_ids)
            what = np.where(flows.is_of("s"), _BEGIN, _END)
            self._add(flows, at=flows.times("ts").ns, end=flows.categories, word=_low_half(ids), what=what)
        if self.others and len(others := events.of(*self.others)):
            self._see_others(others)

    def _add(self, events: Events, **columns: Any) -> None:
        self._rows.add(row=events.rows, thread=events.threads, **columns)

    def _tasks(self, events: Events) -> Any:
        return np.full(len(events), _EVENT, np.int8)

    def _see_others(self, events: Events) -> None:
        """Put what can only be there twice into the spool, by what is said of it."""
        said = events.derived(_hashed_arguments) ^ _mixed(events.names.astype(np.uint64)).view(np.int64)
        times = events.times("ts")
        # What has no time lies before all that has one, and not all at one place.
        at = times.ns if times.is_known.all() else np.where(times.is_known, times.ns, -1 - (said >> 2 & 2**60 - 1))
        self._add(events, at=at, end=said, word=_low_half(said), what=np.full(len(events), _OTHER, np.int8))

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Ask everything of all events, in the order of their times."""
        facts = _Facts(
            cycle=cycle,
            artifact=artifact,
            schema=self._schema,
            processes=self._processes,
            names=list(self._names),
            threads=list(self._threads),
            of_thread=self._processes.of_threads(self._threads),
            categories=list(self._categories),
        )
        asked = [make(facts) for make in self._asked(cycle)]
        if not self._has_categories:
            # No flow is of a category, so none is asked.
            asked = [one for one in asked if not isinstance(one, _Meetings)]
        for rows in self._rows.in_order(min(_AT_ONCE, spool.ROWS_IN_MEMORY)):
            for one in asked:
                one.see(rows)
        for one in asked:
            for finding in one.findings():
                yield finding if finding.check else replace(finding, check=one.check)
        self._rows.close()

    def _asked(self, cycle: Cycle) -> list[Callable[[_Facts], Any]]:
        """Return what is asked of the trace of a layout, in the order in which it is told."""
        if cycle.layout.id == "ms-2.5+cpu":
            return [_TwiceOnHost]
        kernels = [_Kernels] if "kernel_details" in cycle.artifacts else []
        # Whether MindSpore 2.3 keeps the other two, no real output at hand could tell.
        return [*kernels, _Sharing] if cycle.layout.id == "ms-2.3" else [*kernels, _Meetings, _Sharing, _Twice]


@fold(
    slots=("trace_view",),
    layouts=("pt-npu",),
    wanted={"X": ("Task Type",), **dict.fromkeys(_OTHERS, ("*",))},
)
class NpuViewInTime(ViewInTime):
    """All of a trace of torch_npu, by time.

    * `the_trace_has_no_other_kernels`: Every kernel on the Ascend Hardware lanes of the trace is a row of kernel_details,
      by name and start (within 1 ns). A warning: it holds on two real ranks of torch_npu level 1, and nobody documents
      it.
    """

    checks: ClassVar = (*ViewInTime.checks, "the_trace_has_no_other_kernels")
    others: ClassVar = _OTHERS

    def _tasks(self, events: Events) -> Any:
        return np.where(events.has_text("Task Type", *_TASKS), np.int8(_TASK), np.int8(_EVENT))


def _hashed_ids(flows: Events) -> Ints:
    """Return ids that are numbers as they are, and texts (and what is too large) hashed."""
    values = flows.column("id")
    plain = (one if type(one) is int and -_LARGE < one < _LARGE else _NEVER for one in values)
    found = np.fromiter(plain, np.int64, count=len(values))
    if (texts := np.flatnonzero(found == _NEVER)).size:
        found[texts] = hashed(["" if values[place] is UNSET else json.dumps(values[place]) for place in texts.tolist()])
    return found


def _hashed_arguments(events: Events) -> Ints:
    found: Ints = hashed([b"" if one is UNSET else one for one in as_bytes(events.column("args"))])
    return found


def _low_half(numbers: Any) -> Any:
    return (numbers & 0x7FFFFFFF).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What is known once all events have been seen."""

    cycle: Cycle
    artifact: Artifact
    schema: Any
    processes: Processes
    names: list[str]
    threads: list[Any]
    #: The number of the process of each thread.
    of_thread: Any
    categories: list[Any]

    def threads_of(self, process: str, *, any_name: bool = False) -> Any:
        """Return by thread whether it is of a process of that (first) name."""
        known = self.processes.all
        names = [self.processes.names.get(one, [])[: None if any_name else 1] for one in known]
        return np.array([process in given for given in names], np.bool_)[self.of_thread[: len(self.threads)]]

    def again(self, see: Callable[[Events], None], *, whole: bool = False) -> None:
        """Look at the trace once more; with the `whole` of each event's arguments."""
        schema = compiled(self.schema.row, self.schema.root, {"*": ("*",)}) if whole else self.schema
        refuse_change(self.artifact, stream_trace(self.artifact.path, schema, see))

    def worded(self, found: WordedRows, word: Callable[[Any], str]) -> None:
        """Word the rows of `found` by their events: these are few, and the trace is looked at once more for them."""
        if not found.count:
            return
        words: dict[int, str] = {}
        wanted = np.array(sorted(row for row, _ in found.kept), np.int64)

        def see(events: Events) -> None:
            for place in np.flatnonzero(np.isin(events.rows, wanted)).tolist():
                words[int(events.rows[place])] = word(events.events[place])

        self.again(see)
        found.kept = [(row, words[row]) for row, _ in found.kept]


# -- kernels ---------------------------------------------------------------------------------------------------------


class _Kernels:
    """The rows of kernel_details beside the events that begin within 1 ns of them."""

    check = "kernels_are_in_the_trace"

    def __init__(self, facts: _Facts) -> None:
        self._facts = facts
        frame = ascend_trace.kernel_rows(facts.cycle).drop_nulls("start").sort("start")
        self._table_rows = frame["row"].to_numpy()
        self._starts = frame["start"].to_numpy()
        self._lasts = frame["lasts"].cast(float).fill_null(float("nan")).to_numpy()
        names = dict.fromkeys(frame["Name"].to_list())
        numbers = {name: number for number, name in enumerate(names)}
        self._names = np.fromiter((numbers[name] for name in frame["Name"]), np.int64, count=frame.height)
        words = {name: number for number, name in enumerate(facts.names)}
        self._words = max(len(words), 1)
        same = [number * self._words + words[name] for name, number in numbers.items() if name in words]
        self._same = np.array(sorted(same), np.int64)
        ends = (
            number * self._words + words[end]
            for name, number in numbers.items()
            for end in _ends_of(name or "")
            if end in words
        )
        self._alike = np.unique(np.array([*same, *ends], np.int64))
        count = frame.height
        self._off, self._there = np.full(count, np.inf), np.full(count, np.inf)
        #: Rows of which nobody can tell how far they are off.
        self._unknown = np.isnan(self._lasts)
        self._hardware = facts.threads_of("Ascend Hardware")
        self._is_asked_of_others = facts.cycle.layout.id == "pt-npu"
        self._other = WordedRows()

    def see(self, rows: Rows) -> None:
        """Find the kernels of the table that events begin with."""
        events = np.flatnonzero((rows["what"] == _EVENT) | (rows["what"] == _TASK))
        met = np.zeros(len(events), np.bool_)
        at, words = rows["at"][events], rows["word"][events].astype(np.int64)
        for offset in (-1, 0, 1):
            low = np.searchsorted(self._starts, at + offset, "left")
            counts = np.searchsorted(self._starts, at + offset, "right") - low
            places = np.flatnonzero(counts)
            if not places.size:
                continue
            event = np.repeat(places, counts[places])
            before = np.cumsum(counts[places]) - counts[places]
            kernel = np.arange(len(event)) - np.repeat(before, counts[places]) + low[event]
            pairs = self._names[kernel] * self._words + words[event]
            met[event[_among(pairs, self._same)]] = True
            alike = _among(pairs, self._alike)
            self._take(kernel[alike], (rows["end"][events] - at)[event[alike]])
        if self._is_asked_of_others:
            self._see_others(rows, events[~met])

    def _take(self, kernels: Ints, lasts: Ints) -> None:
        self._unknown[kernels[lasts < 0]] = True
        there = lasts / 1000
        off = np.abs(there - self._lasts[kernels])
        order = np.lexsort((there, off, kernels))
        kernels, first = np.unique(kernels[order], return_index=True)
        off, there = off[order][first], there[order][first]
        nearer = (off < self._off[kernels]) | ((off == self._off[kernels]) & (there < self._there[kernels]))
        self._off[kernels[nearer]], self._there[kernels[nearer]] = off[nearer], there[nearer]

    def _see_others(self, rows: Rows, places: Ints) -> None:
        places = places[(rows["what"][places] == _TASK) & self._hardware[rows["thread"][places]]]
        kernels = self._facts.cycle.artifacts["kernel_details"]
        self._other.add(
            (
                int(rows["row"][place]),
                ascend_trace.other_kernel(self._facts.names[rows["word"][place]], int(rows["at"][place]), kernels),
            )
            for place in places.tolist()
        )

    def findings(self) -> Iterator[Finding]:
        import polars as pl

        found = np.flatnonzero(np.isfinite(self._off) & ~self._unknown)
        yield from ascend_trace.kernels_that_differ(
            self._facts.cycle,
            pl.DataFrame(
                {"row": self._table_rows[found], "off": self._off[found], "there": self._there[found]},
                schema_overrides={"row": pl.UInt32},
            ),
        )
        check = "the_trace_has_no_other_kernels"
        yield from self._other.findings(Code.I103, self._facts.artifact, check=check, severity=Severity.WARNING)


def _ends_of(name: str) -> Iterator[str]:
    """Yield what stands behind each slash of a name."""
    place = name.find("/")
    while place >= 0:
        yield name[place + 1 :]
        place = name.find("/", place + 1)


def _among(values: Ints, ordered: Ints) -> Any:
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    return ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values


# -- flows -----------------------------------------------------------------------------------------------------------


class _Meetings:
    """Flows that begin in no event of their thread, or end where none starts."""

    check = "flows_of_the_trace_meet_events"

    def __init__(self, facts: _Facts) -> None:
        self._facts = facts
        #: By thread: the start of the last event, and the latest end of all so far.
        self._start = np.full(len(facts.threads), _NEVER, np.int64)
        self._latest = np.full(len(facts.threads), _NEVER, np.int64)
        self._has_spans = False
        #: By category and end.
        self._flows: dict[int, _Counted] = {}

    def see(self, rows: Rows) -> None:
        """Hold the flows of a batch against the events before them."""
        what = rows["what"]
        is_flow = (what == _BEGIN) | (what == _END)
        is_span = (what <= _TASK) & (rows["end"] >= rows["at"])
        self._has_spans |= bool(is_span.any())
        chosen = np.flatnonzero(is_flow | is_span)
        if not chosen.size:
            return
        # Within a thread by time, and what starts before what flows at the same time.
        order = np.lexsort((is_flow[chosen], rows["at"][chosen], rows["thread"][chosen]))
        chosen = chosen[order]
        thread, at, end = rows["thread"][chosen], rows["at"][chosen], rows["end"][chosen]
        flows = is_flow[chosen]
        firsts = np.flatnonzero(np.diff(thread, prepend=-1))
        start, latest = np.empty(len(chosen), np.int64), np.empty(len(chosen), np.int64)
        for first, last in zip(firsts, [*firsts[1:], len(chosen)], strict=True):
            number, part = thread[first], slice(first, last)
            start[part] = np.maximum.accumulate(np.where(flows[part], _NEVER, at[part]))
            latest[part] = np.maximum.accumulate(np.where(flows[part], _NEVER, end[part]))
            np.maximum(start[part], self._start[number], out=start[part])
            np.maximum(latest[part], self._latest[number], out=latest[part])
            self._start[number], self._latest[number] = start[last - 1], latest[last - 1]
        places = np.flatnonzero(flows)
        self._count(rows, chosen[places], start[places], latest[places])

    def _count(self, rows: Rows, places: Ints, start: Ints, latest: Ints) -> None:
        at, what, category = rows["at"][places], rows["what"][places], rows["end"][places]
        never = start == _NEVER
        lost = never | np.where(what == _END, at - np.where(never, at, start) > 1, at > np.where(never, at, latest) + 1)
        for key in np.unique(category * 2 + (what == _END)).tolist():
            own = (category * 2 + (what == _END)) == key
            counted = self._flows.setdefault(key, _Counted())
            counted.flows += int(own.sum())
            found = np.sort(rows["row"][places][own & lost])
            # They are worded when it is known that they are few.
            counted.lost.add(((int(row), "") for row in found[:WORDED_ROWS]), count=len(found))

    def findings(self) -> Iterator[Finding]:
        wrong = WordedRows()
        if not self._has_spans:
            return
        for one in self._flows.values():
            if one.lost.count and ascend_joins.are_few(one.lost.count, one.flows):
                wrong.add(one.lost.kept, count=one.lost.count)
        self._facts.worded(wrong, _lonely)
        yield from wrong.findings(Code.I110, self._facts.artifact, check=self.check)


class _Counted:
    """How many flows of a category begin, or end, and those of them that are lost."""

    def __init__(self) -> None:
        self.flows = 0
        self.lost = WordedRows()


def _lonely(event: Any) -> str:
    category = None if event.cat is UNSET else _as_json(event.cat)
    at = _ns(event.ts)
    thread = _as_json(event.tid)
    return ascend_joins.lonely_flow(_as_json(event.id_), category, thread, at, ends=_phase(event) == "f")


def _phase(event: Any) -> str:
    return str(event.__struct_config__.tag)


def _ns(text: Any) -> int:
    return int(times_of([text]).ns[0])


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- lanes -----------------------------------------------------------------------------------------------------------


class _Sharing:
    """Lanes of Overlap Analysis that begin before, or after, what is before them has ended."""

    check = "the_lanes_of_overlap_share_out_the_time"

    def __init__(self, facts: _Facts) -> None:
        self._facts = facts
        self._ours = facts.threads_of("Overlap Analysis", any_name=True)
        self._lanes = np.array([name in ascend_joins.SHARING_LANES for name in facts.names], np.bool_)
        self._ends: dict[int, int] = {}
        self._height = 0
        self._overlaps, self._gaps = WordedRows(), WordedRows()

    def see(self, rows: Rows) -> None:
        """Hold the lanes of a batch against what is before them."""
        events = np.flatnonzero(rows["what"] <= _TASK)
        events = events[self._lanes[rows["word"][events]]]
        events = events[self._ours[rows["thread"][events]] & (rows["end"][events] >= rows["at"][events])]
        if not events.size:
            return
        process = self._facts.of_thread[rows["thread"][events]]
        order = np.lexsort((rows["row"][events], rows["end"][events], rows["at"][events], process))
        events, process = events[order], process[order]
        self._height += len(events)
        for number in np.unique(process).tolist():
            own = events[process == number]
            at, end = rows["at"][own], rows["end"][own]
            before = self._ends.get(number)
            off = at - np.concatenate(([at[0] if before is None else before], end[:-1]))
            self._ends[number] = int(end[-1])
            for broken, found in (
                (off < -ascend_joins.OVERLAP_NS, self._overlaps),
                (off > ascend_joins.OVERLAP_NS, self._gaps),
            ):
                found.add(self._worded(rows, own[broken], off[broken]))

    def _worded(self, rows: Rows, places: Ints, off: Ints) -> Iterator[tuple[int, str]]:
        for place, by in zip(places.tolist(), off.tolist(), strict=True):
            name = _as_json(self._facts.names[rows["word"][place]])
            yield int(rows["row"][place]), ascend_joins.out_of_row(name, by)

    def findings(self) -> Iterator[Finding]:
        if ascend_joins.gaps_are_few(self._gaps.count, self._height):
            self._overlaps.add(self._gaps.kept, count=self._gaps.count)
        yield from self._overlaps.findings(Code.I106, self._facts.artifact, check=self.check)


# -- repeats ---------------------------------------------------------------------------------------------------------


class _Twice:
    """Events that are there a second time."""

    check = "device_events_are_there_once"
    code = Code.I114

    def __init__(self, facts: _Facts) -> None:
        self._facts = facts
        #: Of MindSpore only what lasts.
        self._only_lasting = facts.cycle.layout.id != "pt-npu"
        #: Rows that look like another one.
        self._suspects = Spool({"row": "i8"})

    def see(self, rows: Rows) -> None:
        """Note the events that agree in time, thread, length and name."""
        at = rows["at"]
        same = at[1:] == at[:-1]
        tied = np.zeros(len(at), np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        if self._only_lasting:
            tied &= rows["what"] <= _TASK
        places = np.flatnonzero(tied)
        if not places.size:
            return
        key = rows["thread"][places].astype(np.uint64) << np.uint64(32) | rows["word"][places].astype(np.uint64)
        key = _mixed(_mixed(_mixed(key) ^ rows["end"][places].astype(np.uint64)) ^ at[places].astype(np.uint64))
        key ^= rows["what"][places].astype(np.uint64)
        order = np.argsort(key)
        alike = key[order][1:] == key[order][:-1]
        suspect = np.zeros(len(places), np.bool_)
        suspect[order[1:][alike]] = True
        suspect[order[:-1][alike]] = True
        self._suspects.add(row=rows["row"][places[suspect]])

    def findings(self) -> Iterator[Finding]:
        again = self._confirmed() if self._suspects.height else WordedRows()
        self._facts.worded(again, self.word)
        yield from again.findings(self.code, self._facts.artifact, check=self.check)
        self._suspects.close()

    def _confirmed(self) -> WordedRows:
        """Return those of the suspects that are equal to an earlier one in everything."""
        texts = Spool({"print": "i8", "row": "i8"})
        suspects = _Sorted(self._suspects)

        def see(events: Events) -> None:
            if len(events):
                places = np.searchsorted(events.rows, suspects.until(int(events.rows[-1])))
                prints = [_print_of(events.events[place]) for place in places.tolist()]
                texts.add(print=np.array(prints, np.int64), row=events.rows[places])

        self._facts.again(see, whole=True)
        again = WordedRows()
        for rows in texts.in_order():
            order = np.lexsort((rows["row"], rows["print"]))
            prints, found = rows["print"][order], rows["row"][order]
            again.add((int(row), "") for row in found[1:][prints[1:] == prints[:-1]])
        texts.close()
        return again

    def word(self, event: Any) -> str:
        """Word an event that is there again."""
        return ascend_joins.repeated_event(_as_json(event.name))


class _TwiceOnHost(_Twice):
    """Operators of the host that are there a second time."""

    check = "trace_events_are_there_once"
    code = Code.I103

    def word(self, event: Any) -> str:
        """Word an event that is there again."""
        return mindspore_cpu.equal_event(_as_json(event.name), bytes(event.ts).decode())


class _Sorted:
    """The rows of a spool in order, taken up to a row at a time."""

    def __init__(self, rows: Spool) -> None:
        self._batches = rows.in_order()
        self._waiting: Ints = np.empty(0, np.int64)

    def until(self, last: int) -> Ints:
        """Return the rows up to `last` that have not been taken."""
        taken = []
        while not len(self._waiting) or self._waiting[-1] <= last:
            taken.append(self._waiting)
            batch = next(self._batches, None)
            if batch is None:
                self._waiting = np.empty(0, np.int64)
                return np.concatenate(taken)
            self._waiting = batch["row"]
        place = int(np.searchsorted(self._waiting, last, "right"))
        taken.append(self._waiting[:place])
        self._waiting = self._waiting[place:]
        return np.concatenate(taken)


def _print_of(event: Any) -> int:
    """Return a number that equal events have, and hardly any others: of all their keys, as the file has them."""
    values: Iterable[Any] = msgspec.structs.astuple(event)
    return hash((type(event), *(bytes(one) if type(one) is Raw else one for one in values)))


def _mixed(numbers: Any) -> Any:
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(29))
