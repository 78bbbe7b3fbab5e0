"""Pairs: judge the step of an A/B run, in which both sides were timed in one session.

The rules come from the experiments in `thresholds`. The process is the unit of noise: each gives one number, without a test
over its steps. The rules are symmetrical: an equal speed-up is reported, and never fails.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.step_time import relative_change, step_text, three_digits
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict, lost_findings, outcome_of, settled
from perfguard.judge.weights import step_weight
from perfguard.measure.measurement import Measurement
from perfguard.measure.metrics import METRICS
from perfguard.timing import LostRun, PairedTiming

#: Times of the two sides measured one after the other; `step_ab` replaces them.
SEQUENTIAL_TIMES = frozenset({"step_time", "step_cpu_time", "profiler_overhead"})
#: Metrics of an A/B run.
PAIRED_METRICS = frozenset({"step_ab", "step_ab_time"})


class Pace(Enum):
    """The result for the step of an A/B run."""

    SLOWER = "slower"
    SAME = "same"
    FASTER = "faster"
    #: Too few processes left a time.
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedStep:
    """The step of an A/B run. Ratios are current over base: `ratios` one a process, `ratio` of all processes together."""

    #: The median of `ratios`, or the geometric mean of three alternating pairs; 1 without processes.
    ratio: float
    ratios: tuple[float, ...]
    #: Whether both sides ran step by step in one process, not in two alternating ones.
    interleaved: bool
    #: The smallest step of a process: the median of all processes, or the geometric mean of three pairs.
    base_us: float
    current_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(PairedStep):
    """The result of all processes. `least` is the number of processes that it needs.

    `allowed` is the change, as a fraction, beyond which a step is slower.
    """

    pace: Pace
    allowed: float
    least: int


def effect_of(timing: PairedTiming) -> float | None:
    """Return the logarithm of current over base of one process, or pair of processes; None if a clock did not advance.

    Interleaved steps: the median over the pairs. Alternating processes: minimum over minimum.
    """
    if timing.interleaved:
        pairs = zip(timing.base_ns, timing.current_ns, strict=True)
        ratios = [_log_ratio(base, current) for base, current in pairs if base and current]
        return statistics.median(ratios) if ratios else None
    base, current = min(timing.base_ns, default=0), min(timing.current_ns, default=0)
    return _log_ratio(base, current) if base and current else None


def paired(timings: Iterable[PairedTiming], *, tolerance: float | None = None, sensitive: bool = False) -> Paired:
    """Return the result of all processes of one design. `tolerance` is the user's own, instead of that of the experiments."""
    timings = tuple(timings)
    interleaved = all(timing.interleaved for timing in timings)
    counted = [(timing, effect) for timing in timings if (effect := effect_of(timing)) is not None]
    effects = tuple(effect for _, effect in counted)
    least = thresholds.FEWEST_RUNS if interleaved else thresholds.PROCESS_PAIRS
    allowed = _allowed(len(effects), interleaved, sensitive) if tolerance is None else tolerance
    by_median = interleaved or len(effects) >= thresholds.CONFIRMING_PAIRS
    effect = (statistics.median(effects) if by_median else statistics.fmean(effects)) if effects else 0.0
    pace = Pace.UNDECIDED if len(effects) < least else pace_of(effects, effect, allowed, interleaved)
    return Paired(
        pace=pace,
        ratio=math.exp(effect),
        ratios=tuple(math.exp(one) for one in effects),
        allowed=allowed,
        interleaved=interleaved,
        least=least,
        base_us=_typical_us([timing.base_ns for timing, _ in counted], by_median),
        current_us=_typical_us([timing.current_ns for timing, _ in counted], by_median),
    )


def _typical_us(steps: Sequence[Sequence[int]], by_median: bool) -> float:
    """Return the typical smallest step of a process; the ratio of the two sides is then the effect."""
    minima = [min(ns for ns in one if ns) / 1e3 for one in steps]
    if not minima:
        return 0.0
    return round(statistics.median(minima) if by_median else statistics.geometric_mean(minima), 3)


def _log_ratio(base: float, current: float) -> float:
    """Return the logarithm of current over base. With the sides swapped it is exactly its negative, which a quotient is not."""
    return math.log(current) - math.log(base)


def _allowed(processes: int, interleaved: bool, sensitive: bool) -> float:
    if not interleaved:
        return thresholds.BLOCK_TOLERANCE
    # The narrow limit was not measured with fewer processes.
    narrow = sensitive and processes >= thresholds.PAIRED_PROCESSES
    return thresholds.PAIRED_SENSITIVE if narrow else thresholds.PAIRED_TOLERANCE


def pace_of(effects: Sequence[float], effect: float, allowed: float, interleaved: bool) -> Pace:
    """Return the result: `effect` is the logarithm of current over base, `effects` are those of each process."""
    if abs(effect) <= math.log1p(allowed):
        return Pace.SAME
    agreeing = sum(one * effect > 0 for one in effects)
    if agreeing < (agreeing_of(len(effects)) if interleaved else len(effects)):
        return Pace.SAME
    return Pace.SLOWER if effect > 0 else Pace.FASTER


def agreeing_of(processes: int) -> int:
    """Return how many interleaved processes must agree: 4 of 5, all of fewer, the same share of more."""
    return min(processes, math.ceil(processes * thresholds.PAIRED_AGREEING / thresholds.PAIRED_PROCESSES))


def without_judged(verdict: Verdict, metrics: frozenset[str] = SEQUENTIAL_TIMES) -> Verdict:
    """Return a compared verdict in which these metrics are only shown."""
    comparisons = tuple(
        replace(one, judged=False, finding=None) if one.metric in metrics and one.judged else one
        for one in verdict.comparisons
    )
    labels = {one.label for one in verdict.comparisons if one.metric in metrics}
    findings = tuple(f for f in verdict.findings if f.place not in labels)
    # A time that was not measured is such a metric, and alone it makes a verdict inconclusive.
    were_errors, are_errors = (any(f.severity is Severity.ERROR for f in one) for one in (verdict.findings, findings))
    is_undone = verdict.outcome is Outcome.INCONCLUSIVE and were_errors and not are_errors
    outcome = outcome_of(findings) if verdict.outcome is Outcome.FAILED or is_undone else verdict.outcome
    return replace(verdict, outcome=outcome, comparisons=comparisons, findings=findings)


def own_tolerance(policy: Policy) -> float | None:
    """Return the user's tolerance for the step, if any."""
    rule = policy.rule("step_ab", "")
    return rule.tolerance.relative if rule is not None and rule.tolerance is not None else None


_STATES = {Pace.SLOWER: State.WORSE, Pace.SAME: State.SAME, Pace.FASTER: State.BETTER}


def _is_judged(policy: Policy) -> bool:
    rule = policy.rule("step_ab", "")
    return rule is None or rule.tolerance is not None


def with_pairs(
    verdict: Verdict,
    timings: tuple[PairedTiming, ...],
    lost: tuple[LostRun, ...],
    *,
    policy: Policy,
    sensitive: bool = False,
) -> tuple[Verdict, Paired]:
    """Return a compared verdict with the result of an A/B run, and that result.

    A slower step makes it FAILED; with too few processes, an otherwise green verdict is INCONCLUSIVE.
    """
    is_judged = _is_judged(policy)
    found = paired(timings, tolerance=own_tolerance(policy), sensitive=sensitive)
    if found.pace is Pace.SLOWER and not found.interleaved and len(found.ratios) < thresholds.CONFIRMING_PAIRS:
        # The confirming pairs were lost.
        found = replace(found, pace=Pace.UNDECIDED, least=thresholds.CONFIRMING_PAIRS)
    if verdict.outcome is Outcome.INVALID:
        return verdict, found
    verdict = without_judged(verdict)
    findings = [*verdict.findings, *lost_findings("process", lost)]
    comparisons = [*verdict.comparisons]
    measurements = list(verdict.measurements)
    if found.ratios:
        finding = _finding(found)
        new = [finding] if finding is not None and is_judged else []
        counts = is_judged and found.pace is not Pace.UNDECIDED
        comparisons += paired_comparisons(
            found,
            state=_STATES[found.pace] if counts else State.NOT_COMPARABLE,
            judged=counts,
            finding=finding if counts else None,
        )
        measurements += paired_measurements(found)
        if (waits := _blocked_time(timings, policy)) is not None:
            blocked, cpu, everywhere = waits
            # A slower step has one finding.
            is_free = found.pace is not Pace.SLOWER
            longer = _longer_wait(blocked, cpu, everywhere=everywhere) if is_free else None
            state = State.WORSE if longer is not None and everywhere else State.SAME
            comparisons += [replace(blocked, judged=is_free, finding=longer, state=state), cpu]
            new += [longer] if longer is not None else []
        findings += policy.considered(new)
    if found.pace is Pace.UNDECIDED and is_judged:
        what = "processes" if found.interleaved else "pairs of processes"
        left = f"{len(found.ratios)} {what} left a time, of {found.least} needed"
        findings.append(Finding(code=Code.B108, message=left))
    outcome = _outcome(verdict, findings, found, is_judged)
    return settled(verdict, outcome, findings, comparisons, measurements), found


def _outcome(verdict: Verdict, findings: list[Finding], found: Paired, is_judged: bool) -> Outcome:
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return verdict.outcome
    outcome = outcome_of(finding for finding in findings if finding.code is not Code.B108)
    if outcome is not Outcome.FAILED and found.pace is Pace.UNDECIDED and is_judged:
        return Outcome.INCONCLUSIVE
    return outcome


def _finding(found: Paired) -> Finding | None:
    if found.pace not in (Pace.SLOWER, Pace.FASTER):
        return None
    slower = found.pace is Pace.SLOWER
    sign = "+" if slower else "−"
    edge = found.allowed if slower else 1 - 1 / (1 + found.allowed)
    return Finding(
        code=Code.R101 if slower else Code.R106,
        place="step_ab",
        severity=Severity.ERROR if slower else Severity.NOTE,
        message=f"{step_text(found.current_us, relative_change(1, found.ratio))} "
        f"({'allowed' if slower else 'reported beyond'} {sign}{100 * edge:.1f} %), {found.pace.value} {_design(found)}",
        weight=step_weight(abs(found.ratio - 1)),
    )


def _blocked_time(timings: Sequence[PairedTiming], policy: Policy) -> tuple[Comparison, Comparison, bool] | None:
    """Return the blocked time of a step (wall time minus CPU time, the mean of the steps) and its CPU time on both sides.

    The third value is whether it is longer than allowed in every process: only then it counts, because it includes the wait for
    a CPU. None if a device does the work, or if it is not judged.
    """
    limits = policy.tolerance(METRICS["run_blocked_time"], "")
    walls = [one for one in timings if one.clock == "process" and one.base_wall_ns and one.current_wall_ns]
    if limits is None or len(walls) < thresholds.FEWEST_RUNS:
        return None
    blocked = [
        (_mean_wait_us(one.base_wall_ns, one.base_ns), _mean_wait_us(one.current_wall_ns, one.current_ns))
        for one in walls
    ]
    cpu_us = [(statistics.median(one.base_ns) / 1e3, statistics.median(one.current_ns) / 1e3) for one in walls]
    (base_us, current_us), (base_cpu_us, current_cpu_us) = (
        [statistics.median(side) for side in zip(*sides, strict=True)] for sides in (blocked, cpu_us)
    )
    blocked_time = replace(
        _shown("run_blocked_time", round(base_us, 3), round(current_us, 3)),
        allowed=round(base_us + limits.allowance(base_us), 3),
    )
    everywhere = all(current - base > limits.allowance(base) for base, current in blocked)
    return blocked_time, _shown("run_cpu_time", round(base_cpu_us, 3), round(current_cpu_us, 3)), everywhere


def _mean_wait_us(wall_ns: Sequence[int], cpu_ns: Sequence[int]) -> float:
    return statistics.fmean(max(0, wall - cpu) for wall, cpu in zip(wall_ns, cpu_ns, strict=True)) / 1e3


def _longer_wait(blocked: Comparison, cpu: Comparison, *, everywhere: bool) -> Finding | None:
    """Return a finding for a step that is blocked longer: an error if every process agrees."""
    assert blocked.numbers is not None
    assert blocked.allowed is not None
    assert cpu.numbers is not None
    (before_us, now_us), (cpu_before_us, cpu_now_us) = blocked.numbers, cpu.numbers
    if now_us <= blocked.allowed:
        return None
    ratio = relative_change(before_us + cpu_before_us, now_us + cpu_now_us)
    more = "" if everywhere else ", not in every process"
    before, now, most = (three_digits(us / 1e3) for us in (before_us, now_us, blocked.allowed))
    return Finding(
        code=Code.R101 if everywhere else Code.R105,
        place="run_blocked_time",
        severity=Severity.ERROR if everywhere else Severity.WARNING,
        message=f"{step_text(now_us + cpu_now_us, ratio)}; it waits longer: {before} → {now} ms, "
        f"allowed {most} ms{more} ({METRICS['run_blocked_time'].causes})",
        weight=step_weight(ratio or 0.0),
    )


def _design(found: Paired) -> str:
    count = len(found.ratios)
    if found.interleaved:
        return f"step by step in {count} process{'es' if count > 1 else ''}"
    return f"in {count} alternating pair{'s' if count > 1 else ''} of processes"


def paired_comparisons(
    step: PairedStep,
    *,
    state: State,
    judged: bool,
    allowed: float | None = None,
    finding: Finding | None = None,
) -> list[Comparison]:
    """Return the comparisons of an A/B run: the ratio of the steps, and both times in us."""
    return [
        Comparison(
            metric="step_ab",
            subject="",
            state=state,
            judged=judged,
            reference=1.0,
            current=round(step.ratio, 6),
            allowed=allowed,
            finding=finding,
        ),
        _shown("step_ab_time", step.base_us, step.current_us),
    ]


def paired_measurements(step: PairedStep) -> list[Measurement]:
    """Return the measurements of an A/B run, with a ratio a process."""
    samples = tuple(round(one, 6) for one in step.ratios)
    return [
        Measurement(metric="step_ab", subject="", value=round(step.ratio, 6), samples=samples),
        Measurement(metric="step_ab_time", subject="", value=step.current_us),
    ]


def _shown(metric: str, reference: float, current: float) -> Comparison:
    return Comparison(metric=metric, subject="", state=State.SAME, judged=False, reference=reference, current=current)
