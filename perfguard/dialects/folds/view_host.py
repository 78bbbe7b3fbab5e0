"""Operators of the host in MindSpore's trace_view: their executions one by one, and the scopes drawn from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from perfguard.artifacts.readers.events import Words
from perfguard.artifacts.spool import Rows, Spool
from perfguard.dialects.folds import fold, grown
from perfguard.dialects.folds.processes import Processes
from perfguard.dialects.invariants import mindspore_cpu
from perfguard.dialects.trace_view import HOST_OPERATOR
from perfguard.dialects.worded import WordedRows
from perfguard.findings import Code

if TYPE_CHECKING:
    from perfguard.artifacts.readers.events import Events
    from perfguard.dialects.cycle import Artifact, Cycle
    from perfguard.findings import Finding

_TYPE = f'"{HOST_OPERATOR}"'.encode()
#: A number that no time is.
_NEVER = -(2**63)


@fold(slots=("trace_view",), layouts=("ms-2.5+", "ms-2.3", "ms-2.5+cpu"), wanted={"X": ("type",)})
class HostOperators:
    """The operators of the host by time, beside their executions in cpu_op_execute_timestamp.

    * `trace_times_are_the_executions`: Every execution has the same duration and start in trace_view, of operators both
      hold equally often. The duration is exact but for its third decimal of a us, the start within 0.5 us: the trace's
      went through a float. Source: MindSpore 2.10, real output (starts within 0.25 us).
    """

    checks: ClassVar = ("trace_times_are_the_executions",)

    def __init__(self) -> None:
        self._rows = Spool({"start": "i8", "duration": "i8", "row": "i8", "word": "i4"})
        self._names = Words()
        self._counts = np.zeros(0, np.int64)

    def see(self, events: Events) -> None:
        """Put the operators of the host into the spool."""
        complete = events.of("X")
        if not len(complete):
            return
        places = np.flatnonzero(complete.has_text("type", _TYPE))
        if not places.size:
            return
        words, lasts = complete.names[places], complete.times("dur")
        self._names = complete.vocabulary.names
        self._counts = grown(self._counts, len(self._names))
        np.add.at(self._counts, words, 1)
        self._rows.add(
            start=complete.times("ts").ns[places],
            duration=np.where(lasts.is_known, lasts.ns, _NEVER)[places],
            row=complete.rows[places],
            word=words,
        )

    @property
    def calls(self) -> Counter[str]:
        """How often each operator was drawn."""
        return Counter({name: count for name, count in zip(self._names, self._counts.tolist(), strict=False) if count})

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Hold each operator against the execution that has its place in time among those of its name."""
        check = self.checks[0]
        if "cpu_op_execute_timestamp" not in cycle.artifacts:
            return
        long, late = WordedRows(), WordedRows()
        executions = _Executions(cycle, self._names, self._counts)
        for rows in self._rows.in_order():
            pairs = executions.beside(rows)
            is_late, is_long = mindspore_cpu.late_or_long(pairs)
            for found, broken, word in (
                (long, is_long, mindspore_cpu.other_length),
                (late, is_late & ~is_long, mindspore_cpu.other_start),
            ):
                found.add((row["row"], word(row, cycle)) for row in pairs.filter(broken).iter_rows(named=True))
        for found in (long, late):
            yield from found.findings(Code.I103, artifact, check=check)
        self._rows.close()


class _Executions:
    """Executions in the order of their starts, by operator, as far as as many of the operator were drawn."""

    def __init__(self, cycle: Cycle, names: Words, counts: Any) -> None:
        self._texts = pl.Series(list(names), dtype=pl.String)
        words = {name: word for word, name in enumerate(names) if word < len(counts)}
        told = mindspore_cpu.timed_executions(cycle).sort("start", maintain_order=True)
        told = told.with_columns(
            word=pl.col("name").replace_strict(words, default=None, return_dtype=pl.Int64)
            if words
            else pl.lit(None, pl.Int64)
        )
        told = told.drop_nulls("word").sort("word", maintain_order=True)
        self._told = told.select(pl.col("start", "duration").name.suffix("_there"), "inexact")
        there = (
            np.bincount(told["word"].to_numpy(), minlength=len(counts))
            if told.height
            else np.zeros(len(counts), np.int64)
        )
        #: By operator: where its executions begin, how many of them have been met, and whether they are as many as drawn.
        self._firsts = np.concatenate(([0], np.cumsum(there)[:-1])) if len(there) else there
        self._met = np.zeros(len(counts), np.int64)
        self._is_met = there == counts

    def beside(self, rows: Rows) -> pl.DataFrame:
        """Return operators, which come in order, with the executions beside them (`_there`)."""
        order = np.lexsort((rows["row"], rows["start"], rows["word"]))
        words = rows["word"][order]
        is_first = np.concatenate(([True], words[1:] != words[:-1]))
        nth = np.arange(len(words)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
        places = self._firsts[words] + self._met[words] + nth
        np.add.at(self._met, words, 1)
        kept = self._is_met[words]
        order, words, places = order[kept], words[kept], places[kept]
        duration = pl.Series(rows["duration"][order])
        here = pl.DataFrame(
            {
                "row": rows["row"][order],
                "name": self._texts.gather(words) if len(words) else pl.Series([], dtype=pl.String),
                "start": rows["start"][order],
                "duration": duration.set(duration == _NEVER, None),
            }
        )
        there: pl.DataFrame = self._told[places.tolist()]
        return pl.concat([here, there], how="horizontal")


#: The two ends of a block, and what it does there.
_EDGES = (("start", "begins"), ("end", "ends"))
#: Which end of an event a row is of, and what drew it.
_OF_EDGE = {name: number for number, (name, _) in enumerate(_EDGES)}


@fold(slots=("trace_view",), layouts=("ms-2.5+cpu",))
class HostScopes:
    """The blocks of scopes beside the operators that begin and end with them.

    * `scopes_begin_and_end_with_operators`: A block of the lane "Scope Layer" begins where an operator of its scope
      begins, and ends where one ends. Exact. The thread of a block is the depth of its scope; the writer joins neighbours
      of one scope into a block. Source: MindSpore 2.7 and 2.10: scope_layer_timeline_creator.py; real output of 2.10.
    """

    checks: ClassVar = ("scopes_begin_and_end_with_operators",)

    def __init__(self) -> None:
        self._edges = Spool({"at": "i8", "row": "i8", "thread": "i4", "word": "i4", "edge": "i1"})
        self._processes = Processes()
        self._names, self._threads = Words(), Words()

    def see(self, events: Events) -> None:
        """Put both ends of what lasts into the spool."""
        self._processes.see(events)
        complete = events.of("X")
        complete = complete.at(np.flatnonzero(complete.times("dur").is_known)) if len(complete) else complete
        if not len(complete):
            return
        self._names, self._threads = complete.vocabulary.names, complete.vocabulary.threads
        starts = complete.times("ts").ns
        for edge, at in (("start", starts), ("end", starts + complete.times("dur").ns)):
            self._edges.add(
                at=at, row=complete.rows, thread=complete.threads, word=complete.names,
                edge=np.full(len(complete), _OF_EDGE[edge], np.int8),
            )  # fmt: skip

    def findings(self, cycle: Cycle, artifact: Artifact) -> Iterator[Finding]:
        """Say which blocks begin or end where no operator of their scope does."""
        names, threads = list(self._names), list(self._threads)
        of_process = {
            process: np.array([self._processes.called(pid) == process for pid, _ in threads], np.bool_)
            for process in ("Scope Layer", "CPU OP")
        }
        stray = {edge: WordedRows() for edge in _OF_EDGE.values()}
        has_scopes = has_operators = False
        for rows in self._edges.in_order():
            scopes, operators = (np.flatnonzero(own[rows["thread"]]) for own in of_process.values())
            has_scopes, has_operators = has_scopes or bool(scopes.size), has_operators or bool(operators.size)
            known = _scopes_at(rows, operators, names)
            for place in scopes.tolist():
                at, edge, name = int(rows["at"][place]), int(rows["edge"][place]), names[rows["word"][place]]
                if (at, edge, threads[rows["thread"][place]][1], name) not in known:
                    message = _stray_edge(name, _EDGES[edge][1], at)
                    stray[edge].add([(int(rows["row"][place]), message)])
        self._edges.close()
        if not (has_scopes and has_operators):
            return
        for found in stray.values():
            yield from found.findings(Code.I103, artifact, check=self.checks[0])


def _scopes_at(rows: Rows, operators: Any, names: list[str]) -> set[tuple[int, int, int, str]]:
    """Return the scopes that operators of a batch lie in, by time, edge and depth."""
    found = set()
    columns = (rows[name][operators].tolist() for name in ("at", "edge", "word"))
    for at, edge, word in zip(*columns, strict=True):
        for depth, scope in enumerate(names[word].split("/")[:-1]):
            found.add((at, edge, depth, scope))
    return found


def _stray_edge(scope: str, does: str, at: int) -> str:
    """Word a block that begins or ends at a time [ns] at which no operator of its scope does."""
    return f"the block of scope {scope} {does} at {at / 1000:.3f} us, where no operator of that scope does"
