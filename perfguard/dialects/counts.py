"""Counts: how often what ran in each cycle, from the tables in which it is added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.artifacts.tables import Batch, frame, frames
from perfguard.dialects.cycle import Counts
from perfguard.dialects.executions import in_words

if TYPE_CHECKING:
    import polars as pl

#: Executions that begin in the same nanosecond are in the order of the file; those without a time come first.
_TIMES = """, within(sum(total_ns)) as total_ns, min(coalesce(first_ns, -1)) as first_ns,
arg_min(coalesce(first_place, -1), (coalesce(first_ns, -1), coalesce(first_place, -1))) as first_place,
max(coalesce(last_ns, -1)) as last_ns,
arg_max(coalesce(last_place, -1), (coalesce(last_ns, -1), coalesce(last_place, -1))) as last_place"""


def counts_of(
    batch: Batch, table: str, cycles: Collection[int], *, compared: str = "name", times: bool = True
) -> dict[int, Counts]:
    """Return how often what ran by cycle, from a table of sums; without `times` only how often.

    `compared` is the column, or what to make of columns, by which steps are compared.
    """
    import polars as pl

    texts = pl.Series("text", batch.texts, dtype=pl.String)
    by_name = frames(
        batch,
        f"""
select cycle, operator, name, within(sum(calls)) as calls,
  within(coalesce(sum(calls) filter (step is null), 0)) as outside, within(sum(unfilled)) as unfilled{_TIMES if times else ""}
from {table} group by cycle, operator, name order by all""",
        cycles,
    )
    # One number for each row: the operators of a step in a list would take several times the memory of the rows.
    prints = frames(
        batch,
        f"""
select cycle, step, (sum((hash({compared}) >> 16)::hugeint * calls) % {2**63 - 25})::bigint as print,
  within(sum(calls)) as calls
from {table} where step is not null group by cycle, step order by cycle, step""",
        cycles,
    )
    alike = {cycle: _alike(rows) for cycle, rows in prints.items()}
    usual = {cycle: max(groups, key=len) for cycle, groups in alike.items() if groups}
    odd = {
        cycle: sorted(step for steps in groups if steps is not usual[cycle] for step in steps)
        for cycle, groups in alike.items()
    }
    shown = {cycle: (usual[cycle][0], *steps[:SHOWN_VIOLATIONS]) for cycle, steps in odd.items() if steps}
    examples = _calls(batch, table, compared, shown, texts)
    return {
        cycle: Counts(
            by_name=in_words(by_name[cycle], texts),
            steps=tuple(prints[cycle]["step"].to_list()),
            odd_steps=tuple(odd[cycle]),
            kinds=_kinds(prints[cycle]),
            calls_by_step=tuple(prints[cycle]["calls"].to_list()),
            usual=examples[cycle, shown[cycle][0]] if cycle in shown else Counter(),
            odd={step: examples[cycle, step] for step in shown.get(cycle, ())[1:]},
        )
        for cycle in cycles
    }


def _alike(prints: pl.DataFrame) -> list[list[int]]:
    """Return the steps in groups of equal operators and calls, in their order."""
    return [steps.to_list() for steps in prints.group_by("print", maintain_order=True).agg("step")["step"]]


def _kinds(prints: pl.DataFrame) -> tuple[int, ...]:
    """Return a number for each step, equal for equal operators and calls."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(one, len(numbers)) for one in prints["print"].to_list())


def _calls(
    batch: Batch, table: str, compared: str, shown: Mapping[int, Sequence[int]], texts: pl.Series
) -> dict[tuple[int, int], Counter[str]]:
    """Return the calls by name, by cycle and step."""
    pairs = ", ".join(f"({cycle}, {step})" for cycle, steps in shown.items() for step in steps)
    if not pairs:
        return {}
    rows = frame(
        batch,
        f"select cycle, step, {compared} as name, within(sum(calls)) as calls from {table} "
        f"semi join (values {pairs}) as shown(cycle, step) using (cycle, step) group by all",
    )
    found: dict[tuple[int, int], Counter[str]] = {}
    for cycle, step, name, calls in in_words(rows, texts).iter_rows():
        found.setdefault((cycle, step), Counter())[name] = calls
    return found
