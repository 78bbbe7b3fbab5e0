"""Confirmation: an A/B run of a step that is slower than its stored baseline, with the commit of the baseline.

A stored time is from another day. Before it fails a test, the same two versions of the code are timed here, under the same
load, and that result decides. Without such a run the stored time decides, and the verdict says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.baseline import Baseline
from perfguard.judge.comparison import State, comparison_of
from perfguard.judge.machine import EXCUSES
from perfguard.judge.pairs import (
    PAIRED_METRICS,
    Pace,
    PairedStep,
    pace_of,
    paired_comparisons,
    paired_measurements,
    without_judged,
)
from perfguard.judge.step_time import FRESH_TIME, relative_change, step_text
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict, is_in_doubt, outcome_of, settled
from perfguard.judge.weights import step_weight
from perfguard.measure.measurement import number
from perfguard.recording import Environment

_COST = "step_cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRun(PairedStep):
    """The step of an A/B run of one workload with a commit, which is the base."""

    commit: str

    @classmethod
    def of(cls, verdict: Verdict, commit: str, *, interleaved: bool) -> PairedRun | None:
        """Return the A/B run that a verdict has, if any."""
        measured = next((one for one in verdict.measurements if one.metric == "step_ab"), None)
        times = comparison_of(verdict.comparisons, "step_ab_time")
        ratio = number(measured.value) if measured is not None else None
        if measured is None or ratio is None or times is None or times.numbers is None:
            return None
        base_us, current_us = times.numbers
        return cls(
            commit=commit,
            ratio=ratio,
            ratios=measured.samples,
            interleaved=interleaved,
            base_us=base_us,
            current_us=current_us,
        )

    def missing(self, tolerance: float) -> str:
        """Return a clause if there are too few processes to decide; else empty."""
        # A slowdown in alternating pairs is confirmed by more pairs, which may have been lost.
        is_first = not self.interleaved and self.is_slower(tolerance)
        least = thresholds.CONFIRMING_PAIRS if is_first else thresholds.FEWEST_RUNS
        if len(self.ratios) >= least:
            return ""
        return f"in the A/B run with {self.commit[:7]} {len(self.ratios)} processes left a time, of {least} needed"

    def is_slower(self, tolerance: float) -> bool:
        """Whether the step is slower by more than a fraction, and enough processes agree."""
        effects = [math.log(ratio) for ratio in self.ratios]
        return pace_of(effects, math.log(self.ratio), tolerance, self.interleaved) is Pace.SLOWER


class Confirm(Protocol):
    """Makes an A/B run of one workload with the commit of its baseline."""

    def why_not(self, baseline: Baseline) -> str:
        """Return in one clause why it is impossible; empty if it is possible."""

    def __call__(self, baseline: Baseline) -> PairedRun | str:
        """Make the A/B run; the text is the reason, in one clause, why there is none."""


def why_not_confirmed(confirm: Confirm | None, environment: Environment | None, baseline: Baseline) -> str:
    """Return in one clause why a stored time cannot be confirmed; empty if it can.

    The commit would run with the packages that are installed now, so a slowdown by an upgrade would be invisible.
    """
    if confirm is None:
        return "it is switched off"
    if environment is None or baseline.environment is None:
        return "the installed packages are unknown"
    here, there = ({"python": one.python, **one.packages} for one in (environment, baseline.environment))
    # perfguard itself runs no step.
    changed = [name for name in sorted({**here, **there}) if name != "perfguard" and here.get(name) != there.get(name)]
    if changed:
        return f"another {', '.join(changed)} is installed than for the baseline, and its commit would run with that as well"
    return confirm.why_not(baseline)


def confirmed(verdict: Verdict, run: Callable[[], PairedRun | str]) -> Verdict:
    """Return the verdict after an A/B run, if the stored time of the step decides it.

    Slower in the A/B run is FAILED; not slower is green, with a warning if the stored time alone would fail. Without an A/B run
    the verdict is unchanged, and its finding says why.
    """
    if not _needs_confirmation(verdict):
        return verdict
    found, tolerance = run(), _tolerance(verdict)
    assert tolerance is not None
    reason = found if isinstance(found, str) else found.missing(tolerance)
    if isinstance(found, str) or reason:
        return _unconfirmed(verdict, reason)
    if found.is_slower(tolerance):
        # The wall time, as in every other run, with the change from the A/B run.
        fresh_us = next((number(one.value) for one in verdict.measurements if one.metric == FRESH_TIME), None)
        finding = _slower(found, tolerance, found.current_us if fresh_us is None else fresh_us)
        return _decided(verdict, found, tolerance, State.WORSE, finding)
    return _decided(verdict, found, tolerance, State.SAME, None if verdict.passed else _not_slower(found))


def confirmed_before(alone: Verdict, verdict: Verdict, baseline: Baseline) -> Verdict:
    """Return `alone`, which is judged by the stored time, with the A/B run that `verdict` of the report has, if any.

    So a report that is judged again has the same result for the step, as long as its tolerance is the same.
    """
    one = comparison_of(verdict.comparisons, "step_ab", judged=True)
    found = PairedRun.of(verdict, baseline.commit_of_time or "", interleaved=True)
    if verdict.compared_with != baseline.facts or one is None or one.allowed is None or found is None:
        return alone
    is_excused = any(finding.code in EXCUSES for finding in alone.findings)
    if alone.outcome is Outcome.INVALID or (alone.outcome is Outcome.INCONCLUSIVE and not is_excused):
        return alone
    tolerance = _tolerance(alone)
    if tolerance is None or not math.isclose(tolerance, one.allowed - 1, abs_tol=1e-5):
        return alone
    finding = next((one for one in verdict.findings if one.place == "step_ab" or one.code is Code.B113), None)
    if finding is not None and one.state is State.WORSE:
        # Reports do not keep weights; and a finding that was ignored is a note, but may fail now.
        (finding,) = Policy().reconsidered([finding])
        finding = replace(finding, weight=step_weight(abs(found.ratio - 1)), severity=Severity.ERROR)
    return _decided(alone, found, one.allowed - 1, one.state, finding)


def _needs_confirmation(verdict: Verdict) -> bool:
    """Whether the stored time of the step alone decides this verdict, or nearly does.

    A verdict that fails for another reason fails anyway. So does a longer wait: an A/B run on a busy machine cannot measure a
    wait of a millisecond.
    """
    blocked = comparison_of(verdict.comparisons, "run_blocked_time", judged=True)
    waits = blocked is not None and blocked.state is State.WORSE
    if _tolerance(verdict) is None or waits or len(verdict.timings) < thresholds.FEWEST_RUNS:
        return False
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return any(finding.code in EXCUSES for finding in verdict.findings)
    errors = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
    if errors:
        return all(finding.place == _COST for finding in errors)
    return is_in_doubt(verdict.comparisons)


def _decided(verdict: Verdict, found: PairedRun, tolerance: float, state: State, finding: Finding | None) -> Verdict:
    """Return a verdict with the A/B run and its finding instead of the stored time."""
    kept = [one for one in verdict.findings if one.place != _COST and one.code not in EXCUSES]
    findings = [*kept, *Policy(ignore=verdict.ignore).considered([finding] if finding else [])]
    shown = without_judged(verdict, frozenset({_COST}))
    comparisons = [
        *(one for one in shown.comparisons if one.metric not in PAIRED_METRICS),
        *paired_comparisons(
            found,
            state=state,
            judged=True,
            allowed=round(1 + tolerance, 6),
            finding=finding if state is State.WORSE else None,
        ),
    ]
    measurements = [*verdict.measurements, *paired_measurements(found)]
    return settled(verdict, outcome_of(findings), findings, comparisons, measurements)


def _tolerance(verdict: Verdict) -> float | None:
    """Return the tolerance of the step as a fraction; None unless its cost is judged with a limit and a positive reference."""
    cost = comparison_of(verdict.comparisons, _COST, judged=True)
    reference = (number(cost.reference) if cost is not None else None) or 0.0
    return cost.allowed / reference - 1 if cost is not None and cost.allowed is not None and reference > 0 else None


def _slower(found: PairedRun, tolerance: float, now_us: float) -> Finding:
    return Finding(
        code=Code.R101,
        place="step_ab",
        message=f"{step_text(now_us, relative_change(1, found.ratio))} (allowed +{100 * tolerance:.1f} %), "
        f"confirmed by an A/B run with {found.commit[:7]} in {len(found.ratios)} processes",
        weight=step_weight(abs(found.ratio - 1)),
    )


def _not_slower(found: PairedRun) -> Finding:
    return Finding(
        code=Code.B113,
        severity=Severity.WARNING,
        message=f"the step is not slower than the baseline's commit {found.commit[:7]} in an A/B run of "
        f"{len(found.ratios)} processes",
    )


def _unconfirmed(verdict: Verdict, reason: str) -> Verdict:
    if verdict.passed:
        return verdict
    marked = [
        replace(one, message=f"{one.message}; not confirmed: {reason}")
        if one.severity is Severity.ERROR and (one.code in EXCUSES or one.place == _COST)
        else one
        for one in verdict.findings
    ]
    return replace(verdict, findings=tuple(marked))
