"""Pauses: the times of the fastest profiled step in which nothing ran, as text. A step that waits has no operator to blame."""

from __future__ import annotations

from perfguard.judge.step_time import TimeUnit
from perfguard.judge.verdict import Verdict
from perfguard.measure import Pause, StepTimeline
from perfguard.screen import cut, printable

#: The part of a step from which on a pause is named, and how many are named at most.
_LEAST = 0.05
_MOST = 8
#: The longest name of an operator, in characters.
_LONGEST = 80


def long_pauses(one: StepTimeline) -> tuple[Pause, ...]:
    """Return the pauses that are a large part of a step, the longest first."""
    return tuple(pause for pause in one.pauses[:_MOST] if pause.length_ns >= _LEAST * one.duration_ns)


def place_of(pause: Pause) -> str:
    """Return `after aten::mm and before aten::add`, or which end of the step it is at."""
    after, before = (cut(printable(name), _LONGEST) for name in (pause.after, pause.before))
    if after and before:
        return f"after {after} and before {before}"
    if after:
        return f"after {after}, to the end of the step"
    return f"from the begin of the step to {before}" if before else "the whole step"


def pause_text(one: StepTimeline) -> str:
    """Return the longest pause as `nothing ran for 10.2 ms, after a and before b`; empty without a long one."""
    if not (found := long_pauses(one)):
        return ""
    unit = TimeUnit.of([one.duration_ns / 1e3])
    # Of a step with many executions the longest are known.
    what = "nothing" if one.count <= len(one.spans) else "nothing long"
    return f"{what} ran for {unit.text(found[0].length_ns / 1e3)}, {place_of(found[0])}"


def new_pause_text(verdict: Verdict) -> str:
    """Return a sentence about the longest pause of the profiled step, unless the baseline's step has one half as long."""
    now, before = verdict.timeline, verdict.base_timeline
    if now is None or not (text := pause_text(now)):
        return ""
    if before is not None and before.pauses and before.pauses[0].length_ns * 2 > now.pauses[0].length_ns:
        return ""
    return f"In the profiled step {text}."
