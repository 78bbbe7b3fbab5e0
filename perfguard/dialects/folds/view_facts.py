"""The small facts of a trace_view, kept while it goes by; `trace_view` hands them out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from perfguard.artifacts.readers.events import Words
from perfguard.dialects.folds import fold, grown, of_a_graph
from perfguard.dialects.folds.processes import Classes, Processes
from perfguard.dialects.trace_view import CALL_SUMS, OVERLAP_LANES, STEP_MARK, LaneSum, StepMark

if TYPE_CHECKING:
    import polars as pl

    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle
    from perfguard.findings import Finding

#: What an event is, by its name.
_OTHER, _MARK, _LANE = range(3)
_LATEST = 2**63 - 1


def _lasting_us(events: Events) -> Any:
    texts = events.column("dur")
    return np.fromiter((float(bytes(text).strip(b'"')) for text in texts), np.float64, count=len(texts))


def _class_of(name: str) -> int:
    if name.startswith(STEP_MARK):
        return _MARK
    return _LANE if name in OVERLAP_LANES else _OTHER


@fold(slots=("trace_view",), wanted={"X": ("level",), "M": ("*",)})
class ViewFacts:
    """Marks of steps, processes that are drawn, and sums by name."""

    checks: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._processes = Processes()
        self._names = Words()
        self._classes = Classes(_class_of)
        self._marks: list[StepMark] = []
        self._lanes: dict[tuple[Any, str], float] = {}
        #: By process and name, and by name alone.
        self._calls = _Sums()
        self._operators = _Sums()
        self.has_operators = False
        self._low, self._high = _LATEST, -_LATEST
        #: By process: the earliest and the latest start of what CANN tells of a graph.
        self._graph: dict[int, tuple[int, int]] = {}

    def see(self, events: Events) -> None:
        """Add up the events of a chunk."""
        self._processes.see(events)
        if not self.has_operators:
            self.has_operators = bool(events.is_of_category("cpu_op").any())
        complete = events.of("X")
        if not len(complete):
            return
        self._names = complete.vocabulary.names
        names, lasts = complete.names, complete.times("dur")
        threads = complete.threads
        processes = self._processes.of_threads(complete.vocabulary.threads)[threads]
        classes = self._classes.of(self._names)[names]
        self._see_marks(complete, np.flatnonzero(classes == _MARK))
        if (classes == _LANE).any():
            self._see_lanes(complete.named(*OVERLAP_LANES))
        self._keep_range(complete, processes)
        self._calls.add(processes, names, lasts.ns, lasts.is_known)
        if self.has_operators:
            # Asked for first, so that the vocabulary knows the categories of these events.
            categories = complete.categories
            operators = categories == complete.vocabulary.categories.get("cpu_op", -1)
            words = names[operators]
            self._operators.add(np.zeros_like(words), words, lasts.ns[operators], lasts.is_known[operators])

    def _see_marks(self, events: Events, places: Any) -> None:
        starts, lasts = events.times("ts"), events.times("dur")
        for place, name in zip(places.tolist(), self._names.of(events.names[places]), strict=True):
            self._marks.append(
                StepMark(
                    label=name[len(STEP_MARK) :],
                    start_ns=int(starts.ns[place]) if starts.is_known[place] else None,
                    duration_ns=int(lasts.ns[place]) if lasts.is_known[place] else None,
                )
            )

    def _see_lanes(self, events: Events) -> None:
        processes = events.vocabulary.threads.of(events.threads)
        for (process, _), lane, lasts in zip(
            processes, self._names.of(events.names), events.derived(_lasting_us).tolist(), strict=True
        ):
            self._lanes[process, lane] = self._lanes.get((process, lane), 0.0) + lasts

    def _keep_range(self, events: Events, processes: Any) -> None:
        times = events.times("ts")
        of_graph = of_a_graph(events)
        plain = times.ns[times.is_known & ~of_graph]
        if len(plain):
            self._low, self._high = min(self._low, int(plain.min())), max(self._high, int(plain.max()))
        if not of_graph.any():
            return
        for process in np.unique(processes[of_graph]).tolist():
            own = times.ns[of_graph & (processes == process)]
            low, high = self._graph.get(process, (_LATEST, -_LATEST))
            self._graph[process] = min(low, int(own.min())), max(high, int(own.max()))

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """It checks nothing."""
        yield from ()

    # -- what was kept, under the names of the functions of `trace_view` ----------------------------------------------

    @property
    def step_marks(self) -> tuple[StepMark, ...]:
        """The marks of steps, in the order of the trace."""
        return tuple(self._marks)

    @cached_property
    def drawn_processes(self) -> frozenset[str]:
        """The names of the processes that have events with a duration."""
        names = map(self._processes.called, self._drawn)
        return frozenset(name for name in names if name is not None)

    @property
    def _drawn(self) -> list[Any]:
        known = self._processes.all
        return [known[number] for number in self._calls.groups]

    @cached_property
    def range_of_events(self) -> tuple[int, int] | None:
        """The first and the last start [ns], without what CANN tells of a graph."""
        known = self._processes.all
        others = [
            span for number, span in self._graph.items() if self._processes.called(known[number]) not in (None, "CANN")
        ]
        low, high = min([self._low, *(low for low, _ in others)]), max([self._high, *(high for _, high in others)])
        return (low, high) if low <= high else None

    @cached_property
    def lane_sums(self) -> tuple[LaneSum, ...]:
        """What the lanes of Overlap Analysis add up to."""
        return tuple(
            LaneSum(device=self._processes.device_of(process), lane=lane, total_us=total)
            for (process, lane), total in self._lanes.items()
            if self._processes.called(process) == "Overlap Analysis"
        )

    @cached_property
    def operator_sums(self) -> pl.DataFrame | None:
        """Name, count and lasts [ns] of the operators on the host, steps excepted."""
        import polars as pl

        sums = self._operators.frame(list(self._names)).select("name", "count", "lasts")
        sums = sums.filter(~pl.col("name").str.contains(rf"^{STEP_MARK}[0-9]+$"))
        return None if sums.is_empty() else sums

    @cached_property
    def call_sums(self) -> pl.DataFrame:
        """Sums of the events of the process CANN, by name."""
        import polars as pl

        ours = [
            number
            for number, process in enumerate(self._processes.all)
            if "CANN" in self._processes.names.get(process, ())
        ]
        return _merged(self._calls.frame(list(self._names)).filter(pl.col("group").is_in(ours)))


class _Sums:
    """Count, sum, least, most and squares of durations [ns], by the number of a group and of a name in it.

    Squares are of the distance from one of the durations, so that they stay small.
    """

    def __init__(self) -> None:
        #: By group and name: 1 + the place in the other tables, 0 where there is none.
        self._places = np.zeros((0, 0), np.int32)
        self._words: list[int] = []
        self._groups: list[int] = []
        self._count, self._known, self._total = (np.zeros(0, np.int64) for _ in range(3))
        self._least, self._most, self._pivot = (np.zeros(0, np.int64) for _ in range(3))
        self._off, self._squares = np.zeros(0), np.zeros(0)

    @property
    def groups(self) -> frozenset[int]:
        """The groups that have events."""
        return frozenset(self._groups)

    def add(self, groups: Any, words: Any, lasts: Any, is_known: Any) -> None:
        """Take in the durations of some events."""
        if not len(words):
            return
        height, width = self._places.shape
        if (last := int(groups.max())) >= height or int(words.max()) >= width:
            larger = np.zeros((max(height, last + 1), max(width, 2 * int(words.max()) + 1)), np.int32)
            larger[:height, :width] = self._places
            self._places = larger
        if (new := np.flatnonzero(self._places[groups, words] == 0)).size:
            self._take_in(np.unique(np.column_stack((groups[new], words[new])), axis=0))
        at = self._places[groups, words] - 1
        np.add.at(self._count, at, 1)
        if not is_known.all():
            at, lasts = at[is_known], lasts[is_known]
        first = self._known[at] == 0
        if first.any():
            self._pivot[at[first]] = lasts[first]
        np.add.at(self._known, at, 1)
        np.add.at(self._total, at, lasts)
        np.minimum.at(self._least, at, lasts)
        np.maximum.at(self._most, at, lasts)
        off = (lasts - self._pivot[at]) / 1000
        np.add.at(self._off, at, off)
        np.add.at(self._squares, at, off * off)

    def _take_in(self, pairs: Any) -> None:
        before, count = len(self._words), len(self._words) + len(pairs)
        self._places[pairs[:, 0], pairs[:, 1]] = np.arange(before, count) + 1
        self._groups += pairs[:, 0].tolist()
        self._words += pairs[:, 1].tolist()
        for name in ("_count", "_known", "_total", "_most", "_pivot", "_off", "_squares"):
            setattr(self, name, grown(getattr(self, name), count))
        if len(self._least) < count:
            larger = np.full(len(self._count), _LATEST)
            larger[: len(self._least)] = self._least
            self._least = larger

    def frame(self, names: list[str]) -> pl.DataFrame:
        """Return the sums: group, name, count, known, lasts, least and most [ns], mean [us] and squares around it [us^2]."""
        import polars as pl

        count = len(self._words)
        known = np.maximum(self._known[:count], 1)
        off = self._off[:count]
        frame = pl.DataFrame(
            {
                "group": self._groups,
                "name": [names[word] for word in self._words],
                "count": self._count[:count],
                "known": self._known[:count],
                "lasts": self._total[:count],
                "least": self._least[:count],
                "most": self._most[:count],
                "mean": self._pivot[:count] / 1000 + off / known,
                "squares": self._squares[:count] - off * off / known,
            },
            schema_overrides={"group": pl.Int64, "name": pl.String},
        )
        return frame.with_columns(pl.when(pl.col("known") > 0).then(pl.col("least", "most")).otherwise(None))


def _merged(sums: pl.DataFrame) -> pl.DataFrame:
    """Return CALL_SUMS of the names without what stands before @."""
    import polars as pl

    sums = sums.with_columns(pl.col("name").str.split("@").list.last())
    known, mean = pl.col("known"), pl.col("mean")
    middle = (mean * known).sum() / known.sum()
    around = pl.col("squares").sum() + (known * (mean - middle) ** 2).sum()
    return (
        sums.group_by("name")
        .agg(
            pl.col("count", "lasts").sum(),
            least_drawn=pl.col("least").min() / 1000,
            most_drawn=pl.col("most").max() / 1000,
            spread_drawn=pl.when(known.sum() > 0).then((around / known.sum()).clip(lower_bound=0)),
        )
        .select(CALL_SUMS)
    )
