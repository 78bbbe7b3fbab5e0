"""Waits: how much more often a step waits for its device, or reads what it would wait for, or launches work; and where."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfguard.errors import listed
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.quantities import quantity, show
from perfguard.measure.measurement import number
from perfguard.screen import cut

#: Most operators, functions or kernels that are named, and the longest name.
_NAMED = 3
_LONGEST = 80
_COPY = re.compile("Mem(cpy|set)")
_LINE = re.compile(r"\(\d+\)")
_OPERATORS, _FUNCTIONS = "waiting_operators", "waiting_functions"


def added_waits(comparisons: Iterable[Comparison]) -> tuple[Comparison, str] | None:
    """Return the first comparison of waits or reads that are more than before, and a sentence about them without its full stop.

    `a step reads values on the host more often: 0 → 1 a step (aten::item 0 → 1, in train.py(12): step)`. None where a step
    does not wait more often, or where the baseline does not know how often it did.
    """
    comparisons = tuple(comparisons)
    # What is worse comes before what is allowed.
    more = sorted(
        (one for one in comparisons if one.metric in _WHAT and one.is_more),
        key=lambda one: one.state is not State.WORSE,
    )
    for metric, what in _WHAT.items():
        for one in more:
            if one.metric == metric and one.judged and one.numbers is not None:
                where = where_it_waits(one, comparisons)
                return one, f"{what}: {_sides(one)}{where and f' ({where})'}"
    return None


_WHAT = {
    "synchronisations": "a step waits for its device more often",
    "host_reads": "a step reads values on the host more often, and on a device waits for each",
}


def _sides(one: Comparison) -> str:
    return " → ".join(quantity(side, "") for side in one.numbers or ()) + " a step"


def where_it_waits(waits: Comparison, comparisons: Iterable[Comparison]) -> str:
    """Return `aten::item 0 → 1, in train.py(12): step` of a number of waits or reads, `sgemm 3 → 5` of launches.

    Empty for other numbers, and where no operator or kernel is known that is of the difference.
    """
    if waits.metric == "launches":
        return _launched(waits, comparisons)
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
    return ", ".join(parts)


def _launched(launches: Comparison, comparisons: Iterable[Comparison]) -> str:
    """Return the kernels that run more often, those with the most calls more first; copies and sets are launched otherwise."""
    more: dict[str, tuple[float, float]] = {}
    for one in comparisons:
        name = one.subject.removeprefix(launches.subject)
        if one.metric == "kernel_calls" and one.subject.startswith(launches.subject) and one.is_more:
            more[name] = (number(one.reference) or 0, number(one.current) or 0)
    # Of one rank the subject is empty, and those of several begin with theirs.
    names = sorted((name for name in more if not _COPY.match(name)), key=lambda name: more[name][0] - more[name][1])
    parts = [f"{cut(name, _LONGEST)} {show(more[name][0])} → {show(more[name][1])}" for name in names]
    return listed(parts, _NAMED)


def _functions(one: Comparison | None, operators: list[str]) -> list[str]:
    """Return the functions in which some operators wait: those that the baseline does not have, if there are any."""
    now = one.current if one is not None and isinstance(one.current, list) else []
    before = one.reference if one is not None and isinstance(one.reference, list) else []
    # A line that was added above moves all others.
    known = {_LINE.sub("", name) for name in before}
    sides = [name.split(" in ", 1) for name in now if name.partition(" in ")[0] in operators]
    new = [function for operator, function in sides if _LINE.sub("", f"{operator} in {function}") not in known]
    return sorted(set(new or [function for _, function in sides]))
