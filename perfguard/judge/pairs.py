"""Pairs: whether a step is slower than the base's, where both were timed beside each other in one session.

The rules are those of the experiments in `thresholds`; the process is the unit of noise, so each gives one number and no
test over its steps is made. They are symmetrical: what is as much faster is told, and fails nobody.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity, worst_first
from perfguard.judge.compare import Comparison, State, weight_of_the_step
from perfguard.judge.step_time import milliseconds, relative_change, step_text
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict, outcome_of
from perfguard.measure.measurement import Kind, Measurement
from perfguard.measure.metrics import METRICS
from perfguard.timing import LostRun, PairedTiming

#: What the same steps come to where they were timed one side after the other: with `step_ab` at hand it decides nothing.
ONE_AFTER_THE_OTHER = frozenset({"step_time", "step_cpu_time", "profiler_overhead"})
#: What a run beside a base measures against it.
BESIDE = frozenset({"step_ab", "step_ab_time"})
#: All that is a time, of one run or of many; a loss is compared like one, and is none.
TIMES = frozenset(name for name, metric in METRICS.items() if metric.kind is Kind.TIMED) - {"summary_scalar"}


class Pace(Enum):
    """What became of the step."""

    SLOWER = "slower"
    SAME = "same"
    FASTER = "faster"
    #: Too few processes left a time.
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """What processes come to together. `effects` are logarithms of current over base, one a process."""

    pace: Pace
    effects: tuple[float, ...]
    #: Their median, or of three pairs that took turns their mean; 0 where there is none.
    effect: float
    #: The change, as a fraction, beyond which a step is slower.
    allowed: float
    interleaved: bool
    #: How many processes have to be there at least.
    least: int
    #: The smallest step of a process: of all processes the median, or of three pairs the geometric mean.
    base_us: float = 0.0
    current_us: float = 0.0

    @property
    def ratio(self) -> float:
        """Current over base."""
        return math.exp(self.effect)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Current over base, one a process."""
        return tuple(math.exp(effect) for effect in self.effects)


def effect_of(timing: PairedTiming) -> float | None:
    """Return the logarithm of current over base of one process, or pair of processes; None where a clock saw no time go by.

    Interleaved: the median over the pairs. Taking turns: minimum over minimum.
    """
    if timing.interleaved:
        pairs = zip(timing.base_ns, timing.current_ns, strict=True)
        ratios = [math.log(current / base) for base, current in pairs if base and current]
        return statistics.median(ratios) if ratios else None
    base, current = min(timing.base_ns, default=0), min(timing.current_ns, default=0)
    return math.log(current / base) if base and current else None


def paired(timings: Iterable[PairedTiming], *, tolerance: float | None = None, sensitive: bool = False) -> Paired:
    """Decide from all processes of one design. `tolerance` is the user's own, in place of the one measured."""
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
        effects=effects,
        effect=effect,
        allowed=allowed,
        interleaved=interleaved,
        least=least,
        base_us=_typical_us([timing.base_ns for timing, _ in counted], by_median),
        current_us=_typical_us([timing.current_ns for timing, _ in counted], by_median),
    )


def _typical_us(steps: Sequence[Sequence[int]], by_median: bool) -> float:
    """Return the smallest step of a process, over all processes; so that the two sides' are as far apart as the effect."""
    minima = [min(ns for ns in one if ns) / 1e3 for one in steps]
    if not minima:
        return 0.0
    return round(statistics.median(minima) if by_median else statistics.geometric_mean(minima), 3)


def _allowed(processes: int, interleaved: bool, sensitive: bool) -> float:
    if not interleaved:
        return thresholds.BLOCK_TOLERANCE
    # With fewer processes nobody measured what the narrow limit comes to.
    narrow = sensitive and processes >= thresholds.PAIRED_PROCESSES
    return thresholds.PAIRED_SENSITIVE if narrow else thresholds.PAIRED_TOLERANCE


def pace_of(effects: Sequence[float], effect: float, allowed: float, interleaved: bool) -> Pace:
    """Return what became of the step: `effect` is the logarithm of current over base, `effects` that of each process."""
    if abs(effect) <= math.log1p(allowed):
        return Pace.SAME
    agreeing = sum(one * effect > 0 for one in effects)
    if agreeing < (agreeing_of(len(effects)) if interleaved else len(effects)):
        return Pace.SAME
    return Pace.SLOWER if effect > 0 else Pace.FASTER


def agreeing_of(processes: int) -> int:
    """Return how many of so many interleaved processes have to point one way: 4 of 5, all of fewer, as large a part of more."""
    return min(processes, math.ceil(processes * thresholds.PAIRED_AGREEING / thresholds.PAIRED_PROCESSES))


def with_times_shown(verdict: Verdict, metrics: frozenset[str] = ONE_AFTER_THE_OTHER) -> Verdict:
    """Return a compared verdict in which such times are shown, and decide nothing."""
    comparisons = tuple(
        replace(one, judged=False, finding=None) if one.metric in metrics and one.judged else one
        for one in verdict.comparisons
    )
    silenced = {one.label for one in verdict.comparisons if one.metric in metrics}
    findings = tuple(f for f in verdict.findings if f.place not in silenced)
    outcome = outcome_of(findings) if verdict.outcome is Outcome.FAILED else verdict.outcome
    return replace(verdict, outcome=outcome, comparisons=comparisons, findings=findings)


def own_tolerance(policy: Policy) -> float | None:
    """Return the tolerance that the user set for the step, if one was."""
    rule = policy.rule("step_ab", "")
    return rule.tolerance.relative if rule is not None and rule.tolerance is not None else None


def judged_step(timings: Iterable[PairedTiming], *, policy: Policy, sensitive: bool = False) -> State | None:
    """Return what timing both sides beside each other says of the step; None where it is not judged, or too few left a time."""
    if not _is_judged(policy):
        return None
    found = paired(timings, tolerance=own_tolerance(policy), sensitive=sensitive)
    return _STATES.get(found.pace)


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
    """Return a compared verdict with what timing both sides beside each other came to, and that by itself.

    A slower step makes it FAILED; where too few processes left a time, what passed otherwise is INCONCLUSIVE.
    """
    is_judged = _is_judged(policy)
    found = paired(timings, tolerance=own_tolerance(policy), sensitive=sensitive)
    if found.pace is Pace.SLOWER and not found.interleaved and len(found.effects) < thresholds.CONFIRMING_PAIRS:
        # Those that were to confirm it were lost.
        found = replace(found, pace=Pace.UNDECIDED, least=thresholds.CONFIRMING_PAIRS)
    if verdict.outcome is Outcome.INVALID:
        return verdict, found
    verdict = with_times_shown(verdict)
    findings = [*verdict.findings]
    findings += [
        Finding(code=Code.B109, severity=Severity.WARNING, message=f"process {one.number} {one.reason}") for one in lost
    ]
    comparisons = [*verdict.comparisons]
    measurements = list(verdict.measurements)
    if found.effects:
        finding = _finding(found)
        standing = _standing(timings, policy)
        waits = _waits(found, standing)
        counts = is_judged and found.pace is not Pace.UNDECIDED
        comparisons += beside_comparisons(
            (found.base_us, found.current_us),
            found.ratio,
            state=_STATES[found.pace] if counts else State.NOT_COMPARABLE,
            judged=counts,
            finding=finding if counts else None,
        )
        measurements += beside_measurements(found.ratio, found.ratios, found.current_us)
        if standing is not None:
            comparisons += _still(standing, waits, judged=found.pace is not Pace.SLOWER)
        if is_judged and finding is not None:
            findings += policy.considered([finding])
        if waits is not None:
            findings += policy.considered([waits])
    if found.pace is Pace.UNDECIDED and is_judged:
        findings.append(_undecided(found))
    judged = replace(
        verdict,
        outcome=_outcome(verdict, findings, found, is_judged),
        findings=worst_first(findings),
        comparisons=tuple(sorted(comparisons, key=lambda c: (c.metric, c.subject))),
        measurements=tuple(sorted(measurements, key=lambda m: m.key)),
    )
    return judged, found


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
        f"({'allowed' if slower else 'told beyond'} {sign}{100 * edge:.1f} %), {found.pace.value} {_how(found)}",
        weight=weight_of_the_step(abs(found.ratio - 1)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """How long a step stands still on both sides, in us: by the clock, and not on a CPU; the mean of the steps."""

    base_us: float
    current_us: float
    #: CPU time beside it.
    base_cpu_us: float
    current_cpu_us: float
    #: What one more microsecond than this is too much of.
    allowed_us: float
    #: Whether every process saw more.
    everywhere: bool


def _standing(timings: Sequence[PairedTiming], policy: Policy) -> _Standing | None:
    """Return how long the steps of both sides stood still, None where a device does the work, or it is not judged.

    What a step waits for a CPU is in it, on both sides alike; so it counts only where every process says the same.
    """
    limits = policy.tolerance(METRICS["run_blocked_time"], "")
    walls = [one for one in timings if one.clock == "process" and one.base_wall_ns and one.current_wall_ns]
    if limits is None or len(walls) < thresholds.FEWEST_RUNS:
        return None
    still = [
        (_mean_wait_us(one.base_wall_ns, one.base_ns), _mean_wait_us(one.current_wall_ns, one.current_ns))
        for one in walls
    ]
    base_us, current_us = (statistics.median(side) for side in zip(*still, strict=True))
    cpu_us = [(statistics.median(one.base_ns) / 1e3, statistics.median(one.current_ns) / 1e3) for one in walls]
    base_cpu_us, current_cpu_us = (statistics.median(side) for side in zip(*cpu_us, strict=True))
    return _Standing(
        base_us=round(base_us, 3),
        current_us=round(current_us, 3),
        base_cpu_us=round(base_cpu_us, 3),
        current_cpu_us=round(current_cpu_us, 3),
        allowed_us=round(base_us + limits.allowance(base_us), 3),
        everywhere=all(current - base > limits.allowance(base) for base, current in still),
    )


def _mean_wait_us(wall_ns: Sequence[int], cpu_ns: Sequence[int]) -> float:
    return statistics.fmean(max(0, wall - cpu) for wall, cpu in zip(wall_ns, cpu_ns, strict=True)) / 1e3


def _waits(found: Paired, standing: _Standing | None) -> Finding | None:
    """Say that a step stands still longer than the base's without costing more: an error where every process saw that."""
    if found.pace is Pace.SLOWER or standing is None or standing.current_us <= standing.allowed_us:
        return None
    before_us = standing.base_us + standing.base_cpu_us
    now_us = standing.current_us + standing.current_cpu_us
    ratio = relative_change(before_us, now_us)
    more = "" if standing.everywhere else ", not in every process"
    before, now, most = (milliseconds(us / 1e3) for us in (standing.base_us, standing.current_us, standing.allowed_us))
    return Finding(
        code=Code.R101 if standing.everywhere else Code.R105,
        place="run_blocked_time",
        severity=Severity.ERROR if standing.everywhere else Severity.WARNING,
        message=f"{step_text(now_us, ratio)}; it waits longer: {before} → {now} ms, "
        f"allowed {most} ms{more} ({METRICS['run_blocked_time'].causes})",
        weight=weight_of_the_step(ratio or 0.0),
    )


def _how(found: Paired) -> str:
    count = len(found.effects)
    if found.interleaved:
        return f"step by step in {count} process{'es' if count > 1 else ''}"
    return f"in {count} pair{'s' if count > 1 else ''} of processes that took turns"


def _undecided(found: Paired) -> Finding:
    what = "processes" if found.interleaved else "pairs of processes"
    left = f"{len(found.effects)} {what} left a time, of {found.least} needed"
    return Finding(code=Code.B108, message=left)


def beside_comparisons(
    times_us: tuple[float, float],
    ratio: float,
    *,
    state: State,
    judged: bool,
    allowed: float | None = None,
    finding: Finding | None = None,
) -> list[Comparison]:
    """Return the step beside that of a base: its ratio, and both times (base, current) in us."""
    base_us, current_us = times_us
    return [
        Comparison(
            metric="step_ab",
            subject="",
            state=state,
            judged=judged,
            reference=1.0,
            current=round(ratio, 6),
            allowed=allowed,
            finding=finding,
        ),
        _shown("step_ab_time", base_us, current_us),
    ]


def beside_measurements(ratio: float, ratios: Iterable[float], current_us: float) -> list[Measurement]:
    """Return what `beside_comparisons` is of, with a ratio a process."""
    samples = tuple(round(one, 6) for one in ratios)
    return [
        Measurement(metric="step_ab", subject="", value=round(ratio, 6), samples=samples),
        Measurement(metric="step_ab_time", subject="", value=current_us),
    ]


def _shown(metric: str, reference: float, current: float) -> Comparison:
    return Comparison(metric=metric, subject="", state=State.SAME, judged=False, reference=reference, current=current)


def _still(standing: _Standing, waits: Finding | None, *, judged: bool) -> list[Comparison]:
    """Return how long the step stood still; where it is slower as well, that alone is judged: it has one time."""
    is_worse = waits is not None and standing.everywhere
    return [
        Comparison(
            metric="run_blocked_time",
            subject="",
            state=State.WORSE if is_worse else State.SAME,
            judged=judged,
            reference=standing.base_us,
            current=standing.current_us,
            allowed=standing.allowed_us,
            finding=waits,
        ),
        _shown("run_cpu_time", standing.base_cpu_us, standing.current_cpu_us),
    ]
