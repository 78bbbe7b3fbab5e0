"""What must agree across MindSpore's CPU files. Each held on all 83 real output directories it was tried on (2.0, 2.10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfguard.contract.executions import unquoted
from perfguard.contract.invariants import invariant
from perfguard.contract.schema import WORDED_ROWS
from perfguard.contract.table import as_int64
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    import polars as pl

    from perfguard.contract.inspection import Cycle

_LAYOUTS = ("ms-2.5+cpu",)


@invariant(layouts=_LAYOUTS, needs=("cpu_op_detail_info", "cpu_op_type_info"))
def types_are_the_sum_of_details(cycle: Cycle) -> Iterator[Finding]:
    """type_occurrences = sum of op_occurrences of the type. Exact."""
    yield from _disagreements(
        cycle,
        Code.I101,
        _Counted("cpu_op_detail_info", _sums(cycle, "cpu_op_detail_info", "op_type", "op_occurrences")),
        _Counted("cpu_op_type_info", _sums(cycle, "cpu_op_type_info", "op_type", "type_occurrences")),
    )


@invariant(layouts=_LAYOUTS, needs=("cpu_op_detail_info", "cpu_framework"))
def framework_lines_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Lines of cpu_framework = executions, in all. Exact; by type it fails in PyNative mode, where types are blank."""
    lines = _frame(cycle, "cpu_framework").height
    executions = sum(_sums(cycle, "cpu_op_detail_info", "op_type", "op_occurrences").values())
    yield from _disagreements(
        cycle,
        Code.I101,
        _Counted("cpu_framework", {"all operators": lines}),
        _Counted("cpu_op_detail_info", {"all operators": executions}),
    )


@invariant(layouts=_LAYOUTS, needs=("cpu_op_detail_info", "cpu_op_execute_timestamp"))
def timestamps_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Executions with a timestamp = op_occurrences, for the same operators. Exact."""
    stamps = Counter(_frame(cycle, "cpu_op_execute_timestamp")["full_op_name"].to_list())
    yield from _disagreements(cycle, Code.I102, _Counted("cpu_op_execute_timestamp", stamps), _occurrences(cycle))


@invariant(layouts=_LAYOUTS, needs=("cpu_op_detail_info", "trace_view"))
def trace_events_are_occurrences(cycle: Cycle) -> Iterator[Finding]:
    """Events of trace_view marked HostCpuOps = op_occurrences, for the same operators. Exact."""
    import polars as pl

    trace = _frame(cycle, "trace_view")
    marked = trace.filter((pl.col("ph") == '"X"') & pl.col("args").str.contains('"HostCpuOps"', literal=True))
    events = Counter(marked.select(unquoted("name"))["name"].to_list())
    yield from _disagreements(cycle, Code.I103, _Counted("trace_view", events), _occurrences(cycle))


@dataclass(frozen=True, slots=True)
class _Counted:
    """How often each operator is counted by one slot."""

    slot: str
    counts: Mapping[str, int]


def _frame(cycle: Cycle, slot: str) -> pl.DataFrame:
    return cycle.artifacts[slot].content.frame


def _sums(cycle: Cycle, slot: str, name: str, count: str) -> dict[str, int]:
    frame = _frame(cycle, slot)
    sums: Counter[str] = Counter()
    for one, number in zip(frame[name].to_list(), as_int64(frame[count]).to_list(), strict=True):
        sums[one] += number
    return dict(sums)


def _occurrences(cycle: Cycle) -> _Counted:
    return _Counted("cpu_op_detail_info", _sums(cycle, "cpu_op_detail_info", "full_op_name", "op_occurrences"))


def _disagreements(cycle: Cycle, code: Code, here: _Counted, there: _Counted) -> Iterator[Finding]:
    names = sorted(here.counts.keys() | there.counts.keys())
    differing = [name for name in names if here.counts.get(name, 0) != there.counts.get(name, 0)]
    place, other = cycle.artifacts[here.slot].path.name, cycle.artifacts[there.slot].path.name
    for name in differing[:WORDED_ROWS]:
        message = f"{name}: {here.counts.get(name, 0)} here, {there.counts.get(name, 0)} in {other}"
        yield Finding(code=code, place=place, message=message)
    if len(differing) > WORDED_ROWS:
        yield Finding(code=code, place=place, message=f"and {len(differing) - WORDED_ROWS} more operators")
