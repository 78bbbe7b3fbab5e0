"""Waits: how much more often a step waits for its device, or on a CPU reads what it would wait for, and where, in words."""

from __future__ import annotations

from collections.abc import Iterable

from perfguard.errors import listed
from perfguard.judge.comparison import Comparison
from perfguard.judge.quantities import quantity, show

#: Most operators, and most functions, that are named.
_NAMED = 3
_OPERATORS, _FUNCTIONS = "waiting_operators", "waiting_functions"


def added_waits(comparisons: Iterable[Comparison]) -> tuple[Comparison, str] | None:
    """Return the first comparison of waits or reads that are more than before, and a sentence about them without its full stop.

    `a step reads values on the host more often: 0 → 1 a step (aten::item 0 → 1, in train.py(12): step)`. None where a step
    does not wait more often, or where the baseline does not know how often it did.
    """
    comparisons = tuple(comparisons)
    for metric, what in _WHAT.items():
        for one in comparisons:
            if one.metric == metric and one.judged and one.is_more and one.numbers is not None:
                return one, f"{what}: {_sides(one)}{where_it_waits(one, comparisons)}"
    return None


_WHAT = {
    "synchronisations": "a step waits for its device more often",
    "host_reads": "a step reads values on the host more often, and on a device waits for each",
}


def _sides(one: Comparison) -> str:
    return " → ".join(quantity(side, "") for side in one.numbers or ()) + " a step"


def where_it_waits(waits: Comparison, comparisons: Iterable[Comparison]) -> str:
    """Return ` (aten::item 0 → 1, in train.py(12): step)` of a number of waits or reads.

    Empty for other numbers, and where no operator is known that waits more often.
    """
    if waits.metric not in _WHAT:
        return ""
    found = {one.metric: one for one in comparisons if one.subject == waits.subject}
    operators = found.get(_OPERATORS)
    if operators is None or not isinstance(operators.reference, dict) or not isinstance(operators.current, dict):
        return ""
    before, now = operators.reference, operators.current
    more = sorted(
        (name for name in now if now[name] > before.get(name, 0)), key=lambda name: before.get(name, 0) - now[name]
    )
    if not more:
        return ""
    parts = [listed([f"{name} {show(before.get(name, 0))} → {show(now[name])}" for name in more], _NAMED)]
    if functions := _functions(found.get(_FUNCTIONS), more):
        parts.append(f"in {listed(functions, _NAMED)}")
    return f" ({', '.join(parts)})"


def _functions(one: Comparison | None, operators: list[str]) -> list[str]:
    """Return the functions in which some operators wait: those that the baseline does not have, if there are any."""
    now = one.current if one is not None and isinstance(one.current, list) else []
    before = one.reference if one is not None and isinstance(one.reference, list) else []
    sides = [name.split(" in ", 1) for name in now if name.partition(" in ")[0] in operators]
    new = [function for operator, function in sides if f"{operator} in {function}" not in before]
    return sorted(set(new or [function for _, function in sides]))
