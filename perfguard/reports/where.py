"""Where in the model: the operators with a failing step's time or its added work, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile
from operator import eq

from perfguard import thresholds
from perfguard.errors import listed
from perfguard.findings import Severity
from perfguard.judge.attribution import Attribution, Doubt, Unattributed, attribution_of
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.ledger import Cause, Entry
from perfguard.judge.quantities import quantity
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.step_time import TimeUnit
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure.measurement import number
from perfguard.reports.ledger import is_newly_called, unattributed_text
from perfguard.reports.pauses import new_pause_text
from perfguard.screen import cut, printable

#: Most operators in a sentence.
_FIRST = 3
_WORDS = re.compile(r"\w+")
#: Longest text of a shape.
_SHAPES = 60
#: Times of a step that grow with the work of its operators; a wait and a pause do not.
_BY_WORK = ("step_cost", "step_ab", "step_time", "step_cpu_time", "run_cpu_time", "run_wall_time", "profiled_step_time")


def failed_places(verdict: Verdict) -> list[str]:
    """Return the places of errors, the worst first."""
    return list(dict.fromkeys(one.place for one in verdict.findings if one.severity is Severity.ERROR))


def where_text(verdict: Verdict, *, shapes: bool = True, after_work: bool = False) -> str:
    """Return the operators with a failing step's time or added work, or the reason why none is known; else empty.

    With `shapes` those of the largest part are in it. It comes `after_work` where the text of `more_work` is already shown.

    Calls are exact: an operator that runs more often is named if the recording does not show which one took the time.
    """
    if verdict.outcome is not Outcome.FAILED:
        return ""
    step, found = step_time_of(verdict), attribution_of(verdict)
    is_slower = step is not None and (step.change or 0) > 0
    is_waiting = is_slower and step is not None and step.metric == "run_blocked_time"
    if is_waiting and (pause := new_pause_text(verdict)):
        return pause
    if is_slower and isinstance(found, tuple):
        return _where_the_time_went(verdict, found, shapes=shapes)
    if added := _added(verdict):
        is_shown = after_work and more_work(verdict)
        return "" if is_shown else f"The step does more work: {listed([_with_calls(one) for one in added], _FIRST)}."
    if is_slower and isinstance(found, Unattributed) and found.doubt in (Doubt.OTHER_CHANGE, Doubt.OUTWEIGHED):
        # The profiled step of both sides shows a pause that the timed one may not have: the machine decides when it waits.
        has_both = found.doubt is Doubt.OTHER_CHANGE and verdict.base_timeline is not None
        pause = new_pause_text(verdict) if found.part is Cause.IDLE or has_both else ""
        return f"{unattributed_text(found)} {pause}".rstrip()
    return ""


def more_work(verdict: Verdict) -> str:
    """Return `aten::mm (3 → 7 calls a step), aten::gelu (new)` if a time failed, and these are its cause; else empty.

    They are if operators failed for added work, and no ledger says that most of the time went into another one.
    """
    if verdict.outcome is not Outcome.FAILED or set(_BY_WORK).isdisjoint(failed_places(verdict)):
        return ""
    added, found = _added(verdict), attribution_of(verdict)
    first = found[0] if isinstance(found, tuple) and found else None
    if first is not None and first.subject not in {one.subject for one in added}:
        return ""
    if first is not None and first.cause is Cause.PER_CALL and not is_newly_called(first):
        # It is called more often, but most of the time is that each call takes longer.
        return ""
    return listed([_with_calls(one) for one in added], _FIRST)


def _added(verdict: Verdict) -> list[Comparison]:
    """Return the operators that failed because they are called more often, those with most of the time first."""
    failed = failed_places(verdict)
    # With a rule of the user, an operator that runs less often can fail too.
    # One that fails because of changed = "fail" alone is no more work.
    changes = [
        one
        for one in verdict.comparisons
        if one.metric == "operator_calls" and one.is_more and one.state is State.WORSE
    ]
    return _by_weight(verdict, [one for one in changes if one.label in failed])


def _with_calls(one: Comparison) -> str:
    return f"{printable(one.subject)} ({_calls(one)})"


def _by_weight(verdict: Verdict, changes: Iterable[Comparison]) -> list[Comparison]:
    """Return operators by their share of the time, then by the change of their calls, without negligible shares."""
    shares = {
        one.subject: max(number(one.reference) or 0.0, number(one.current) or 0.0)
        for one in verdict.comparisons
        if one.metric == "operator_share"
    }

    def size(one: Comparison) -> tuple[float, float]:
        change = (number(one.current) or 0) - (number(one.reference) or 0)
        return -shares.get(one.subject, 0.0), -abs(change)

    ordered = sorted(changes, key=size)
    least = thresholds.NEGLIGIBLE_PART * -size(ordered[0])[0] if ordered else 0.0
    return [one for one in ordered if shares.get(one.subject, 0.0) >= least]


def _calls(one: Comparison) -> str:
    if one.is_new:
        return "new"
    return "gone" if one.is_gone else f"{quantity(one.reference, '')} → {quantity(one.current, '')} calls a step"


#: Why an operator became slower by more than the step, by the largest part with the opposite sign.
_WHY_MORE = {
    Cause.PROFILER: ", because profiling adds to it",
    Cause.OVERLAP: ", because operators overlap",
    Cause.RANK: ", because another rank was the slowest before",
    Cause.RESIDUAL: "",
}


def _where_the_time_went(verdict: Verdict, found: Attribution, *, shapes: bool) -> str:
    assert verdict.ledger is not None
    first, *others = found
    unit = TimeUnit.of([verdict.ledger.change_ns / 1e3, *(one.change_ns / 1e3 for one in found)])
    if len(found) > _FIRST and first.change_ns < thresholds.LEDGER_LEADING * verdict.ledger.change_ns:
        parts = ", ".join(f"{_share_name(one)} {unit.signed(one.change_ns / 1e3)}" for one in found[:_FIRST])
        return (
            f"The time is spread over {len(found)} operators, none of which stands out. The largest parts are {parts}."
        )
    of_the_whole = f", {100 * first.change_ns / verdict.ledger.change_ns:.0f} % of the change in time"
    if first.change_ns > verdict.ledger.change_ns:
        least = min(verdict.ledger.entries, key=lambda entry: entry.change_ns)
        of_the_whole = ", more than the whole change" + _WHY_MORE.get(least.cause, ", because other parts shrank")
    calls = _calls_of(verdict, first.subject) if first.cause in (Cause.CALLS, Cause.SHAPES) else ""
    why = ("newly called" if is_newly_called(first) else _CAUSES[first.cause]) + (
        _shapes(verdict, first) if shapes else ""
    )
    if calls:
        why = calls if first.cause is Cause.CALLS else f"{why}; {calls}"
    then = ", ".join(f"{_share_name(one)} {unit.signed(one.change_ns / 1e3)}" for one in others[: _FIRST - 1])
    text = f"The largest part is {_share_name(first)} ({why}): {unit.signed(first.change_ns / 1e3)}{of_the_whole}"
    return f"{text}; then {then}." if then else f"{text}."


def _calls_of(verdict: Verdict, operator: str) -> str:
    """Return the change of the calls of an operator; empty if there is none."""
    key = ("operator_calls", operator)
    found = next((one for one in verdict.comparisons if (one.metric, one.subject) == key), None)
    return _calls(found) if found is not None and found.reference != found.current else ""


def _share_name(share: Entry) -> str:
    return printable(share.subject) or "communication"


def _shapes(verdict: Verdict, share: Entry) -> str:
    """Return an old shape of an operator and the most similar new one."""
    found = next((c for c in verdict.comparisons if c.metric == "operator_shapes" and c.subject == share.subject), None)
    if found is None or not isinstance(found.reference, dict) or not isinstance(found.current, dict):
        return ""
    gone, new = found.reference.keys() - found.current.keys(), found.current.keys() - found.reference.keys()
    pairs = [(_alike(a, b), a, b) for a in sorted(gone)[:9] for b in sorted(new)[:9]]
    if not pairs:
        return ""
    _, before, now = max(pairs)
    return f": {cut(printable(before), _SHAPES)} → {cut(printable(now), _SHAPES)}"


def _alike(before: str, now: str) -> tuple[int, int]:
    """Return the similarity of two shapes: the number of equal words, place by place, and of equal first characters."""
    sides = _WORDS.findall(before), _WORDS.findall(now)
    return sum(map(eq, *sides)), sum(1 for _ in takewhile(lambda pair: eq(*pair), zip(before, now, strict=False)))


#: Causes of a share; parts of no operator have none.
_CAUSES = {
    Cause.NEW: "a new operator",
    Cause.VANISHED: "an operator that vanished",
    Cause.RENAMED: "an operator under a new name",
    Cause.CALLS: "the number of calls changed",
    Cause.SHAPES: "its shapes changed",
    Cause.PER_CALL: "each call takes longer",
    Cause.COMMUNICATION: "communication that is not overlapped",
}
