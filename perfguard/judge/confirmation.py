"""Confirmation: a step that is slower than its stored baseline is run side by side with the commit the baseline was made of.

A stored time is from another day. Before it turns a test red, the same two versions of the code are timed here and now, and
that decides: both run under the same load. Without such a run the stored time stands, and the verdict says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity, worst_first
from perfguard.judge.baseline import Baseline
from perfguard.judge.compare import Comparison, State, weight_of_the_step
from perfguard.judge.pairs import BESIDE, Pace, beside_comparisons, beside_measurements, pace_of, with_times_shown
from perfguard.judge.step_time import FRESH_TIME, relative_change, step_text
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import EXCUSES, Outcome, Verdict, is_in_doubt, outcome_of
from perfguard.recording import Environment

_COST = "step_cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """What running one workload side by side with a commit measured: the step over the commit's, one ratio a process."""

    commit: str
    #: All processes together, and each.
    ratio: float
    ratios: tuple[float, ...]
    #: Whether both ran step by step in one process, and not in two that took turns.
    interleaved: bool
    #: The step of the commit and of now.
    base_us: float
    current_us: float

    def missing(self, tolerance: float) -> str:
        """Say in one clause that there are too few processes to decide; empty where there are enough."""
        # Pairs that took turns and saw a slowdown are confirmed by more of them; those may have been lost.
        is_first = not self.interleaved and self.is_slower(tolerance)
        least = thresholds.CONFIRMING_PAIRS if is_first else thresholds.FEWEST_RUNS
        if len(self.ratios) >= least:
            return ""
        return f"side by side with {self.commit[:7]} {len(self.ratios)} processes left a time, of {least} needed"

    def is_slower(self, tolerance: float) -> bool:
        """Whether the step is slower by more than a fraction, and enough processes point that way."""
        effects = [math.log(ratio) for ratio in self.ratios]
        return pace_of(effects, math.log(self.ratio), tolerance, self.interleaved) is Pace.SLOWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """Why there was no such run, in one clause."""

    reason: str


class Confirm(Protocol):
    """Runs one workload side by side with the commit of its baseline."""

    def why_not(self, baseline: Baseline) -> str:
        """Say in one clause why that cannot be; empty where it can."""

    def __call__(self, baseline: Baseline) -> SideBySide | Unconfirmed:
        """Run it."""


def why_not_confirmed(confirm: Confirm | None, environment: Environment | None, baseline: Baseline) -> str:
    """Say in one clause why a stored time cannot be confirmed; empty where it can.

    The commit would run with the packages that are installed now, so a step that an upgrade made slower would not show.
    """
    if confirm is None:
        return "it is switched off"
    if environment is None or baseline.environment is None:
        return "what is installed is not known"
    changed = [name for name, of_both in _installed(environment, baseline.environment).items() if len(set(of_both)) > 1]
    if changed:
        return f"another {', '.join(changed)} is installed than for the baseline, and its commit would run with that as well"
    return confirm.why_not(baseline)


def _installed(*environments: Environment) -> dict[str, list[str]]:
    """Return the versions that a step runs with, of each environment; perfguard's own runs no step."""
    both = [{"python": one.python, **one.packages} for one in environments]
    return {name: [one.get(name, "-") for one in both] for name in sorted(both[0] | both[1]) if name != "perfguard"}


def confirmed(judge: Callable[[State | None], Verdict], run: Callable[[], SideBySide | Unconfirmed]) -> Verdict:
    """Return the verdict that `judge` comes to, after a run side by side where the stored time of the step decides it.

    `judge` is told what the step was judged to be, None where its stored time says that. Slower side by side is FAILED; not
    slower is green, with a warning where the stored time alone would not be. Where there was no such run the verdict is what it
    was, and its finding says so.
    """
    verdict = judge(None)
    needs = _needs_confirmation(verdict)
    if not needs and verdict.outcome is Outcome.FAILED:
        # Operators that changed may be worse only because the step is.
        needs = _needs_confirmation(judge(State.SAME))
    if not needs:
        return verdict
    found, tolerance = run(), _tolerance(verdict)
    if isinstance(found, SideBySide) and (missing := found.missing(tolerance)):
        found = Unconfirmed(reason=missing)
    if isinstance(found, Unconfirmed):
        return _unconfirmed(verdict, found)
    state = State.WORSE if found.is_slower(tolerance) else State.SAME
    says: Finding | None
    if state is State.WORSE:
        # The time by the clock, as in every other run; its change is that of the run side by side.
        fresh = next((one.value for one in verdict.measurements if one.metric == FRESH_TIME), None)
        says = _slower(found, tolerance, float(fresh) if isinstance(fresh, (int, float)) else found.current_us)
    else:
        says = None if verdict.passed else _not_slower(found)
    return _decided(judge(state), found, tolerance, state, says)


def confirmed_before(judge: Callable[[State | None], Verdict], verdict: Verdict, baseline: Baseline) -> Verdict:
    """Return the verdict that `judge` comes to, with the run side by side that `verdict` already has, where it has one.

    So a report that is judged again says of the step what its own run said, as long as the time is judged as it was then.
    """
    alone = judge(None)
    one = next((one for one in verdict.comparisons if one.metric == "step_ab" and one.judged), None)
    times = next((one for one in verdict.comparisons if one.metric == "step_ab_time"), None)
    ratios = next((one.samples for one in verdict.measurements if one.metric == "step_ab"), ())
    if verdict.compared_with != baseline.facts or one is None or one.allowed is None or times is None:
        return alone
    is_excused = any(finding.code in EXCUSES for finding in alone.findings)
    if alone.outcome is Outcome.INVALID or (alone.outcome is Outcome.INCONCLUSIVE and not is_excused):
        return alone
    numbers = [one for one in (one.current, times.reference, times.current) if isinstance(one, (int, float))]
    if len(numbers) < 3 or _cost(alone) is None or not math.isclose(_tolerance(alone), one.allowed - 1, abs_tol=1e-5):
        return alone
    found = SideBySide(
        commit=baseline.commit_of_time or "",
        ratio=numbers[0],
        ratios=tuple(ratios),
        interleaved=True,
        base_us=numbers[1],
        current_us=numbers[2],
    )
    said = next((one for one in verdict.findings if one.place == "step_ab" or one.code is Code.B113), None)
    if said is not None and one.state is State.WORSE:
        # Reports do not keep weights; and what was ignored then is a note, and may fail now.
        message = said.message.partition(" (ignored: ")[0]
        weight = weight_of_the_step(abs(found.ratio - 1))
        said = replace(said, message=message, weight=weight, severity=Severity.ERROR)
    return _decided(judge(one.state), found, one.allowed - 1, one.state, said)


def _needs_confirmation(verdict: Verdict) -> bool:
    """Whether the stored time of the step alone decides this verdict, or nearly does.

    What fails for another reason fails whatever the time is. So does a step that waits: on a busy machine a run side by side
    cannot see a wait of a millisecond.
    """
    waits = any(
        one.metric == "run_blocked_time" and one.judged and one.state is State.WORSE for one in verdict.comparisons
    )
    if _cost(verdict) is None or waits or len(verdict.timings) < thresholds.FEWEST_RUNS:
        return False
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return any(finding.code in EXCUSES for finding in verdict.findings)
    errors = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
    if errors:
        return all(finding.place == _COST for finding in errors)
    return is_in_doubt(verdict.comparisons)


def _decided(verdict: Verdict, found: SideBySide, tolerance: float, state: State, says: Finding | None) -> Verdict:
    """Return a verdict with the run side by side, and what is to be said of it, in place of the stored time."""
    kept = [one for one in verdict.findings if one.place != _COST and one.code not in EXCUSES]
    findings = [*kept, *Policy(ignore=verdict.ignore).considered([says] if says else [])]
    shown = with_times_shown(verdict, frozenset({_COST}))
    comparisons = [
        *(one for one in shown.comparisons if one.metric not in BESIDE),
        *beside_comparisons(
            (found.base_us, found.current_us),
            found.ratio,
            state=state,
            judged=True,
            allowed=round(1 + tolerance, 6),
            finding=says if state is State.WORSE else None,
        ),
    ]
    measurements = [*verdict.measurements, *beside_measurements(found.ratio, found.ratios, found.current_us)]
    return replace(
        verdict,
        outcome=outcome_of(findings),
        findings=worst_first(findings),
        comparisons=tuple(sorted(comparisons, key=lambda one: (one.metric, one.subject))),
        measurements=tuple(sorted(measurements, key=lambda one: one.key)),
    )


def _cost(verdict: Verdict) -> Comparison | None:
    """Return the judged cost of the step, where it has a reference and a limit that a ratio can be held against."""
    found = next((one for one in verdict.comparisons if one.metric == _COST and one.judged), None)
    if found is None or found.allowed is None or not isinstance(found.reference, (int, float)) or found.reference <= 0:
        return None
    return found


def _tolerance(verdict: Verdict) -> float:
    """Return by how much the step may be slower, as a fraction, of a verdict whose cost is judged."""
    cost = _cost(verdict)
    assert cost is not None
    assert cost.allowed is not None
    assert isinstance(cost.reference, (int, float))
    return cost.allowed / cost.reference - 1


def _slower(found: SideBySide, tolerance: float, now_us: float) -> Finding:
    return Finding(
        code=Code.R101,
        place="step_ab",
        message=f"{step_text(now_us, relative_change(1, found.ratio))} (allowed +{100 * tolerance:.1f} %), "
        f"confirmed side by side with {found.commit[:7]} in {len(found.ratios)} processes",
        weight=weight_of_the_step(abs(found.ratio - 1)),
    )


def _not_slower(found: SideBySide) -> Finding:
    return Finding(
        code=Code.B113,
        severity=Severity.WARNING,
        message=f"the step is not slower than the baseline's commit {found.commit[:7]}, run side by side in "
        f"{len(found.ratios)} processes",
    )


def _unconfirmed(verdict: Verdict, found: Unconfirmed) -> Verdict:
    if verdict.passed:
        return verdict

    decisive = [
        one
        for one in verdict.findings
        if one.severity is Severity.ERROR and (one.code in EXCUSES or one.place == _COST)
    ]
    # Operators fail because the step does, and the step itself is excused: the worst of them says it.
    decisive = decisive or [one for one in verdict.findings if one.severity is Severity.ERROR][:1]

    def marked(one: Finding) -> Finding:
        return replace(one, message=f"{one.message}; not confirmed: {found.reason}") if one in decisive else one

    return replace(verdict, findings=tuple(marked(one) for one in verdict.findings))
