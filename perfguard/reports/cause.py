"""Cause: the beginning of a headline, which says in plain words what changed in the model.

`The matrix product aten::mm is twice as wide (512 → 1024)`.

It is derived from facts only: the ledger's attribution for a time, and shapes and calls, which are exact. Without them there is
no cause, and a headline begins with the number that failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from perfguard.judge.attribution import attribution_of
from perfguard.judge.comparison import Comparison
from perfguard.judge.ledger import Cause, Entry
from perfguard.judge.quantities import quantity
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure.measurement import number
from perfguard.reports.ledger import is_newly_called
from perfguard.screen import cut, printable

#: A part names the cause if it is at least this share of the change; otherwise several parts do.
_MOST = 0.5
#: What readers call operators, by the last part of their names.
_NOUNS = (
    (r"(?:^|_)(?:add|bad?dbm?|b)?mm$|matmul|(?:^|_)linear|gemm", "matrix product"),
    (r"conv", "convolution"),
    (r"attention", "attention"),
    (r"softmax", "softmax"),
    (r"norm", "normalisation"),
    (r"embedding", "embedding"),
    (r"(?:^|_)copy|clone|memcpy", "copy"),
    (r"pool", "pooling"),
)
_NUMBER = re.compile(r"\d+")
#: Longest name of an operator in a headline.
_LONGEST = 80


def cause_of_the_step(verdict: Verdict) -> str:
    """Return what changed the time of the step, by its ledger, without a full stop; empty if no single operator did."""
    found = attribution_of(verdict)
    if not isinstance(found, tuple) or not found or verdict.ledger is None:
        return ""
    first = found[0]
    if first.change_ns / verdict.ledger.change_ns < _MOST:
        return ""
    name = operator_name(first.subject)
    slower = first.change_ns > 0
    if first.cause is Cause.COMMUNICATION or not first.subject:
        return f"Communication takes {'longer' if slower else 'less time'}"
    if first.cause is Cause.NEW:
        return f"{name} is new{_often(first.current_calls)}"
    if is_newly_called(first):
        return f"{name} is newly called{_often(first.current_calls)}"
    if first.cause is Cause.VANISHED:
        return f"{name} no longer runs"
    if first.cause is Cause.RENAMED:
        return f"{name} replaces {printable(first.renamed_from)}, and takes {'longer' if slower else 'less time'}"
    if first.cause is Cause.CALLS and first.base_calls and first.current_calls:
        return f"{name} runs {quantity(first.current_calls, '')} times a step, not {quantity(first.base_calls, '')}"
    if first.cause is Cause.SHAPES and (resized := _resized(_shapes_of(verdict, first.subject))):
        return f"{name} {resized}"
    return f"{name} takes {_times_as_long(first)}{' for its new shapes' if first.cause is Cause.SHAPES else ''}"


def cause_by_shapes(verdict: Verdict) -> str:
    """Return what is exact where the time names no cause: the operator with the most time of those with other shapes."""
    if verdict.outcome not in (Outcome.FAILED, Outcome.CHANGED):
        return ""
    shares = {one.subject: number(one.current) or 0.0 for one in verdict.comparisons if one.metric == "operator_share"}
    resized = {
        one.subject: text
        for one in verdict.comparisons
        if one.metric == "operator_shapes" and (text := _resized(one)) and one.subject in shares
    }
    if not resized:
        return ""
    first = max(resized, key=lambda name: (shares[name], name))
    others = [_factor(text) for text in resized.values()].count(_factor(resized[first])) - 1
    more = (
        f", and so {'is' if others == 1 else 'are'} {others} other operator{'s' if others > 1 else ''}"
        if others
        else ""
    )
    return f"{operator_name(first)} {resized[first]}{more}"


def _factor(resized: str) -> str:
    """Return a text without the two dimensions: `is twice as wide`."""
    return resized.partition(" (")[0]


def operator_name(operator: str) -> str:
    """Return an operator at the beginning of a sentence: `The matrix product aten::mm`."""
    last = re.split(r"[:.]+", operator)[-1].lower()
    noun = next((noun for pattern, noun in _NOUNS if re.search(pattern, last)), "operator")
    return f"The {noun} {cut(printable(operator), _LONGEST)}"


def _shapes_of(verdict: Verdict, operator: str) -> Comparison | None:
    key = ("operator_shapes", operator)
    return next((one for one in verdict.comparisons if (one.metric, one.subject) == key), None)


def _resized(shapes: Comparison | None) -> str:
    """Return `is twice as wide (512 → 1024)` if all changed shapes have the same new dimension; else empty."""
    if shapes is None or not isinstance(shapes.reference, Mapping) or not isinstance(shapes.current, Mapping):
        return ""
    gone, new = _more(shapes.reference, shapes.current), _more(shapes.current, shapes.reference)
    changes: set[tuple[int, int]] = set()
    is_wide = False
    for before in gone[:20]:
        found = min((one for one in (_differences(before, now) for now in new[:20]) if one), key=len, default=None)
        if found is None:
            return ""
        changes |= {(old, fresh) for old, fresh, _ in found}
        is_wide |= any(last for _, _, last in found)
    if len(changes) != 1:
        return ""
    ((old, fresh),) = changes
    return f"is {_ratio(fresh / old)} as {'wide' if is_wide else 'large'} ({old} → {fresh})" if old else ""


def _more(one: Mapping[str, float], other: Mapping[str, float]) -> list[str]:
    """Return the shapes that one side has more often."""
    return sorted(shape for shape, count in one.items() if count > other.get(shape, 0))


def _differences(before: str, now: str) -> list[tuple[int, int, bool]] | None:
    """Return the dimensions in which two shapes differ, and whether each is the last one of its tensor.

    None if they differ in more than dimensions.
    """
    if _NUMBER.sub("#", before) != _NUMBER.sub("#", now):
        return None
    sides = zip(_NUMBER.finditer(before), _NUMBER.finditer(now), strict=True)
    different = [(old, new) for old, new in sides if old[0] != new[0] and max(len(old[0]), len(new[0])) < 16]
    return [(int(old[0]), int(new[0]), before[old.end() : old.end() + 1] == "]") for old, new in different]


def _ratio(ratio: float) -> str:
    if ratio == 2:
        return "twice"
    if ratio == 0.5:
        return "half"
    return f"{ratio:.0f} times" if ratio >= 3 and ratio.is_integer() else f"{ratio:.2g} times"


def _times_as_long(entry: Entry) -> str:
    """Return how much longer a call takes, else the operator as a whole."""
    before, now = float(entry.base_ns), float(entry.current_ns)
    each = ""
    if entry.base_calls and entry.current_calls:
        before, now, each = before / entry.base_calls, now / entry.current_calls, " each time"
    if before <= 0 or now <= 0:
        return f"{'longer' if entry.change_ns > 0 else 'less time'}{each}"
    return f"{_ratio(round(now / before, 2))} as long{each}"


def _often(calls: float | None) -> str:
    if not calls:
        return ""
    return " and runs once a step" if calls == 1 else f" and runs {quantity(calls, '')} times a step"


def changed_shapes(verdict: Verdict, operators: Iterable[str]) -> list[tuple[str, list[str], list[str]]]:
    """Return the shapes that operators no longer have, and those that they have now."""
    found = []
    for operator in operators:
        one = _shapes_of(verdict, operator)
        if one is not None and isinstance(one.reference, Mapping) and isinstance(one.current, Mapping):
            gone, new = _more(one.reference, one.current), _more(one.current, one.reference)
            if gone or new:
                found.append((operator, gone, new))
    return found


def step_clause(verdict: Verdict) -> str:
    """Return `a step takes 25.2 → 40.2 ms, +59.2 %`; empty without a changed step."""
    step = step_time_of(verdict)
    return "" if step is None or step.change is None else f"a step takes {step.times}, {step.percentage}"
