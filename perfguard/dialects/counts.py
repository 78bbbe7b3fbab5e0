"""Counts: how often what ran in each cycle, from the tables in which it is added up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.artifacts.tables import Batch
from perfguard.dialects.cycle import Counts, Named

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
    texts = batch.texts
    by_name: dict[int, list[Named]] = defaultdict(list)
    for cycle, operator, name, *numbers in batch.execute(f"""
select cycle, operator, name, within(sum(calls)) as calls,
  within(coalesce(sum(calls) filter (step is null), 0)) as outside, within(sum(unfilled)) as unfilled{_TIMES if times else ""}
from {table} group by cycle, operator, name order by all"""):
        by_name[cycle].append(Named(_word(operator, texts), _word(name, texts), *numbers))
    # One number for each step: its operators in a list would take several times the memory of the rows.
    prints: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for cycle, *of_step in batch.execute(f"""
select cycle, step, (sum((hash({compared}) >> 16)::hugeint * calls) % {2**63 - 25})::bigint as print,
  within(sum(calls)) as calls
from {table} where step is not null group by cycle, step order by cycle, step"""):
        prints[cycle].append((of_step[0], of_step[1], of_step[2]))
    alike = {cycle: _alike(prints[cycle]) for cycle in cycles}
    usual = {cycle: max(groups, key=len) for cycle, groups in alike.items() if groups}
    odd = {
        cycle: sorted(step for steps in groups if steps is not usual[cycle] for step in steps)
        for cycle, groups in alike.items()
    }
    shown = {cycle: (usual[cycle][0], *steps[:SHOWN_VIOLATIONS]) for cycle, steps in odd.items() if steps}
    examples = _calls(batch, table, compared, shown, texts)
    return {
        cycle: Counts(
            by_name=tuple(by_name[cycle]),
            steps=tuple(step for step, _, _ in prints[cycle]),
            odd_steps=tuple(odd[cycle]),
            kinds=_kinds(prints[cycle]),
            calls_by_step=tuple(calls for _, _, calls in prints[cycle]),
            usual=examples[cycle, shown[cycle][0]] if cycle in shown else Counter(),
            odd={step: examples[cycle, step] for step in shown.get(cycle, ())[1:]},
        )
        for cycle in cycles
    }


def calls_by(rows: Iterable[Named], column: str, of: str = "calls") -> Counter[str]:
    """Return how often each operator or name (what the column holds) ran, or another count of them, where it is not zero."""
    found = Counter[str]()
    for row in rows:
        if count := getattr(row, of):
            found[getattr(row, column)] += count
    return found


def is_any_outside(counts: Counts) -> bool:
    """Whether anything ran in no step."""
    return any(one.outside for one in counts.by_name)


def infer_steps(counts: Counter[str]) -> int | None:
    """Infer how many steps a window had from how often each operator ran, or None when the counts do not say.

    The number that divides most operators' counts, the largest of several; it must explain at least half of them, or
    the window may as well have had one step.
    """
    if not counts:
        return None
    candidates = {count for count in counts.values() if count > 1}
    support = {n: sum(count % n == 0 for count in counts.values()) for n in candidates}
    if not support:
        return None
    best = max(support, key=lambda n: (support[n], n))
    return best if 2 * support[best] >= len(counts) else None


def _word(value: Any, texts: Sequence[str]) -> Any:
    """Return a text in place of its code; some tables of sums have texts."""
    return texts[value] if isinstance(value, int) else value


def _alike(prints: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """Return the steps in groups of equal operators and calls, in their order."""
    found: dict[int, list[int]] = {}
    for step, of_step, _ in prints:
        found.setdefault(of_step, []).append(step)
    return list(found.values())


def _kinds(prints: Sequence[tuple[int, int, int]]) -> tuple[int, ...]:
    """Return a number for each step, equal for equal operators and calls."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(of_step, len(numbers)) for _, of_step, _ in prints)


def _calls(
    batch: Batch, table: str, compared: str, shown: Mapping[int, Sequence[int]], texts: Sequence[str]
) -> dict[tuple[int, int], Counter[str]]:
    """Return the calls by name, by cycle and step."""
    pairs = ", ".join(f"({cycle}, {step})" for cycle, steps in shown.items() for step in steps)
    if not pairs:
        return {}
    found: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for cycle, step, name, calls in batch.execute(
        f"select cycle, step, {compared} as name, within(sum(calls)) as calls from {table} "
        f"semi join (values {pairs}) as shown(cycle, step) using (cycle, step) group by all"
    ):
        found[cycle, step][_word(name, texts)] = calls
    return found
