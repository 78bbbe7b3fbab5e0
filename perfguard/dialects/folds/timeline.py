"""What every timeline says about itself, asked while it goes by: its lanes have names, and all of it is of one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from perfguard.artifacts.spool import Spool
from perfguard.dialects.folds import fold, grown, look_again, of_a_graph
from perfguard.dialects.invariants import ascend_joins
from perfguard.dialects.worded import WordedRows
from perfguard.findings import Code

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle
    from perfguard.findings import Finding

#: Kinds that draw something in a process.
_DRAWN = ("X", "i", "s", "f", "C")
#: Layouts whose writers name every process they draw; MindSpore before 2.5 and its GPU form leave some without a name.
_NAMED_LAYOUTS = ("ms-2.5+", "ms-2.5+cpu", "pt-npu", "pt-torch")
#: The process in which Kineto draws what is of none.
_NOWHERE = -1
_SLOTS = ("trace", "trace_view")
#: So many times are kept to tell where most of them are; every second one is dropped when there are twice as many.
_SAMPLED = 100_000


@fold(slots=_SLOTS, layouts=_NAMED_LAYOUTS)
class Processes:
    """The processes that are named, and the first event of each that is drawn.

    * `drawn_processes_are_named`: Every process (a number) with an event, an instant, a counter or the end of a flow is
      named by a `process_name`. Kineto's own span has a text for a process and no name, and torch 2.4 draws Python frames
      of threads it did not know in a process 0 without one. Kineto draws its "Buffer Flush" in process -1 (H100), and
      torch_npu prunes names at level 0. Source: real traces of MindSpore 2.10 on CPU, torch_npu level 1 (msinsight test
      data) and torch 2.13: none else is without one.
    """

    checks: ClassVar = ("drawn_processes_are_named",)

    def __init__(self) -> None:
        self._named: set[Any] = set()
        self._drawn: dict[Any, tuple[int, str]] = {}
        #: By the number of a thread: whether something was drawn on it.
        self._seen = np.zeros(0, np.bool_)

    def see(self, events: Events) -> None:
        """Note the processes of a chunk."""
        metadata = events.of("M")
        if len(metadata):
            named = metadata.named("process_name")
            self._named |= {process for process, _ in events.vocabulary.threads.of(np.unique(named.threads))}
        threads, categories, vocabulary = events.threads, events.categories, events.vocabulary
        frames = vocabulary.categories.get("python_function", -1)
        self._seen = grown(self._seen, len(vocabulary.threads))
        places = np.flatnonzero(~self._seen[threads])
        if not places.size:
            return
        places = places[events.is_of(*_DRAWN)[places] & (categories[places] != frames)]
        self._seen[threads[places]] = True
        _, firsts = np.unique(threads[places], return_index=True)
        places = np.sort(places[firsts])
        told = zip(vocabulary.threads.of(threads[places]), vocabulary.names.of(events.names[places]), strict=True)
        for row, ((process, _), name) in zip(events.rows[places].tolist(), told, strict=True):
            if isinstance(process, int) and process != _NOWHERE and process not in self._drawn:
                self._drawn[process] = (row, name)

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which processes nobody names."""
        if cycle.layout.id == "pt-npu" and cycle.conditions.get("level1") is False:
            return
        unnamed = WordedRows()
        unnamed.add(
            (row, f"no process_name names process {process} of {json.dumps(name, ensure_ascii=False)}")
            for process, (row, name) in self._drawn.items()
            if process not in self._named
        )
        yield from unnamed.findings(Code.I103, artifact, check=self.checks[0])


@fold(slots=_SLOTS, wanted={"X": ("level",)})
class OneRun:
    """Where the times of a trace are: all of them lie together.

    * `a_trace_is_of_one_run`: All times of a trace lie together: none is further from the rest than a minute and the
      length of the rest. Counters and flows begin and end with the collection, not with the steps; a time in another unit
      is years away. CANN tells of a graph (levels model and node, and flows from there) with the time it was loaded at,
      however long ago.
    """

    checks: ClassVar = ("a_trace_is_of_one_run",)

    def __init__(self) -> None:
        self._low, self._high = _LATEST, -_LATEST
        self._graph_low = _LATEST
        self._sample: list[Any] = []
        self._count, self._every = 0, 1

    def see(self, events: Events) -> None:
        """Keep the extremes, and some of the times."""
        times, of_graph = _times(events)
        if not len(times):
            return
        self._high = max(self._high, int(times.max()))
        for low, chosen in (("_low", ~of_graph), ("_graph_low", of_graph)):
            if chosen.any():
                setattr(self, low, min(getattr(self, low), int(times[chosen].min())))
        # Copied, so that none of the rest is held with it.
        self._sample.append(times[:: self._every].copy())
        self._count += len(self._sample[-1])
        if self._count > 2 * _SAMPLED:
            kept = np.concatenate(self._sample)[::2].copy()
            self._sample, self._count, self._every = [kept], len(kept), 2 * self._every

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which events lie far from the rest."""
        if not self._sample:
            return
        middle = np.sort(np.concatenate(self._sample))
        low, high = _most(middle)
        # Of a sample: twice as near as it must be is near enough; for the rest the trace is looked at once more.
        reach = ascend_joins.reach_ns(low, high) // 2
        if min(self._low, self._graph_low + ascend_joins.LOADED_NS // 2) >= low - reach and self._high <= high + reach:
            return
        far = self._far(artifact)
        yield from far.findings(Code.I113, artifact, check=self.checks[0])

    def _far(self, artifact: Artifact) -> WordedRows:
        everything = Spool({"time": "i8"})
        look_again(artifact, lambda events: everything.add(time=_times(events)[0]))
        low, high = (_at_rank(everything, share) for share in ascend_joins.MIDDLE)
        everything.close()
        reach = ascend_joins.reach_ns(low, high)
        far = WordedRows()

        def see(events: Events) -> None:
            times, of_graph = _times(events)
            before = np.where(of_graph, ascend_joins.LOADED_NS, reach)
            places = np.flatnonzero((times < low - before) | (times > high + reach)).tolist()
            known = events.rows[_timed(events)]
            far.add((int(known[place]), ascend_joins.far_words(int(times[place]), low, high)) for place in places)

        look_again(artifact, see)
        return far


_LATEST = 2**63 - 1


def _timed(events: Events) -> Any:
    return events.times("ts").is_known & ~events.is_of("M")


def _times(events: Events) -> tuple[Any, Any]:
    """Return the known times [ns] of what is no metadata, and which of them are of a graph, told when it was loaded."""
    of_graph = events.is_of("s") & (events.categories == events.vocabulary.categories.get("HostToDevice", -1))
    complete = events.of("X")
    if len(complete):
        places = np.flatnonzero(events.is_of("X"))
        of_graph[places[of_a_graph(complete)]] = True
    timed = _timed(events)
    return events.times("ts").ns[timed], of_graph[timed]


def _most(ordered: Any) -> tuple[int, int]:
    """Return where most of the sorted times are."""
    low, high = (int(ordered[ascend_joins.rank_of(share, len(ordered))]) for share in ascend_joins.MIDDLE)
    return low, high


def _at_rank(times: Spool, share: float) -> int:
    rank = ascend_joins.rank_of(share, times.height)
    passed = 0
    for rows in times.in_order():
        column = rows["time"]
        if rank < passed + len(column):
            return int(column[rank - passed])
        passed += len(column)
    raise AssertionError("a rank beyond the last of the times")
