"""A verdict: all findings on one recording, and the outcome that follows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from perfguard import thresholds
from perfguard.contract import Contract
from perfguard.findings import Code, Finding, Severity, is_invalid, worst_first
from perfguard.judge.baseline import Baseline, BaselineFacts
from perfguard.judge.common_mode import CommonMode, common_mode
from perfguard.judge.compare import Comparison, State, changes_in_words, compare, lost_work, weight_of_the_whole
from perfguard.judge.ledger import Ledger, ledger
from perfguard.judge.refresh import Refresh
from perfguard.judge.tolerance import Policy, Rule
from perfguard.judge.traits import trait_differences, traits_of
from perfguard.measure import METRICS, MemoryTrack, measure_runs
from perfguard.measure.measurement import Measurement
from perfguard.recording import Environment, Fingerprint, Step
from perfguard.timing import LostRun, Timing


class Outcome(Enum):
    """What a verdict comes to. PASSED and CHANGED are green."""

    PASSED = "PASSED"
    #: Other operators or shapes than the baseline's, and no evidence that anything got worse.
    CHANGED = "CHANGED"
    FAILED = "FAILED"
    INVALID = "INVALID"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many measurements were compared, and with which result; nothing is left out of the sum."""

    compared: int = 0
    worse: int = 0
    better: int = 0
    changed: int = 0
    not_comparable: int = 0
    shown_only: int = 0

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> Coverage:
        """Count comparisons."""
        counts: Counter[str] = Counter()
        for one in comparisons:
            if one.state is State.NOT_COMPARABLE:
                counts["not_comparable"] += 1
            elif not one.judged:
                counts["shown_only"] += 1
            else:
                counts["compared"] += 1
                if one.state is not State.SAME:
                    counts[one.state.value] += 1
        return cls(**counts)

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All findings on one recording, worst first, and what they come to."""

    workload: str
    outcome: Outcome
    findings: tuple[Finding, ...]
    comparisons: tuple[Comparison, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    fingerprint: Fingerprint | None = None
    environment: Environment | None = None
    recording: Path | None = None
    layouts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: What was looked at: ranks, cycles, files, rows.
    read: dict[str, int] = field(default_factory=dict)
    #: How the environment differs from the baseline's, shown beside what got worse.
    environment_changes: tuple[str, ...] = ()
    refresh: Refresh | None = None
    changes: tuple[str, ...] = ()
    #: The rules and ignored codes of the test's own marker, so that a report can be judged again as the test was.
    rules: tuple[Rule, ...] = ()
    ignore: tuple[str, ...] = ()
    #: Whether what only changed failed, by the marker or the settings.
    changed_fails: bool = False
    #: What the files tell of backend, device, mode and ranks; where there is no fingerprint, they stand for it.
    traits: Mapping[str, Any] = field(default_factory=dict)
    #: What controlled processes measured of it, in the order they ran, and those that left nothing.
    timings: tuple[Timing, ...] = ()
    lost_runs: tuple[LostRun, ...] = ()
    #: Where the change of the step's time went, where the times of operators are known of both sides.
    ledger: Ledger | None = None
    #: What it was compared with, where there was a baseline that fits.
    compared_with: BaselineFacts | None = None
    #: The steps perfguard drove, in the order they ran; empty for a foreign directory.
    steps: tuple[Step, ...] = ()
    #: How the memory of each device moved over the profiled steps.
    memory: tuple[MemoryTrack, ...] = ()
    #: The file and line that asked for it (`tests/test_lenet.py:12`): a test, or a script; empty where nobody knows.
    source: str = ""
    #: The report it was read from, where several were joined and it is in more than one of them.
    origin: str = ""

    @property
    def coverage(self) -> Coverage:
        """Count of the comparisons."""
        return Coverage.of(self.comparisons)

    @property
    def passed(self) -> bool:
        """Whether the outcome is green."""
        return self.outcome in GREEN


#: Why a slower step may be the machine's doing: the verdict is INCONCLUSIVE, and blames nobody.
EXCUSES = frozenset({Code.B107, Code.B112})
#: The times that a busy machine makes longer, whatever the code does.
_UNDER_LOAD = frozenset({"step_cost", "run_blocked_time"})

#: Outcomes that let a build pass.
GREEN = frozenset({Outcome.PASSED, Outcome.CHANGED})


def outcome_of(findings: Iterable[Finding]) -> Outcome:
    """Return what the findings on a compared recording come to."""
    findings = tuple(findings)
    if any(finding.severity is Severity.ERROR for finding in findings):
        return Outcome.FAILED
    changed = any(finding.code is Code.R107 and finding.severity is Severity.WARNING for finding in findings)
    return Outcome.CHANGED if changed else Outcome.PASSED


def examined(
    contract: Contract,
    measurements: tuple[Measurement, ...],
    *,
    workload: str,
    policy: Policy,
    memory: tuple[MemoryTrack, ...] = (),
) -> Verdict:
    """Judge one inspected recording by itself: INVALID when it is not whole, else PASSED with nothing compared yet."""
    recording = contract.recording
    findings = policy.considered(contract.findings)
    return Verdict(
        workload=workload,
        outcome=Outcome.INVALID if is_invalid(findings) else Outcome.PASSED,
        findings=findings,
        measurements=measurements,
        fingerprint=recording.fingerprint,
        environment=recording.environment,
        recording=recording.directory,
        layouts=contract.layouts,
        notes=contract.notes,
        read=contract.read,
        rules=policy.marker,
        ignore=policy.ignore,
        changed_fails=policy.changed_fails,
        traits=traits_of(contract),
        steps=recording.steps,
        memory=memory,
    )


def with_runs(verdict: Verdict, timings: tuple[Timing, ...], lost_runs: tuple[LostRun, ...]) -> Verdict:
    """Return the verdict with what controlled processes measured, in place of what earlier ones did."""
    others = [m for m in verdict.measurements if m.metric not in METRICS or not METRICS[m.metric].by_run]
    measurements = sorted([*others, *measure_runs(timings)], key=lambda m: m.key)
    lost = [
        Finding(code=Code.B109, severity=Severity.WARNING, message=f"run {one.number} {one.reason}")
        for one in lost_runs
    ]
    return replace(
        verdict,
        findings=worst_first([*verdict.findings, *lost]),
        measurements=tuple(measurements),
        timings=timings,
        lost_runs=lost_runs,
    )


def could_judge_runs(verdict: Verdict, baseline: Baseline | None, *, policy: Policy) -> bool:
    """Whether controlled processes could be judged: the baseline is of this machine and window, and time is asked for."""
    if baseline is None or verdict.outcome is Outcome.INVALID or not policy.judges_runs:
        return False
    if trait_differences((verdict.fingerprint, verdict.traits), (baseline.fingerprint, baseline.traits)):
        return False
    here, there = verdict.environment, baseline.environment
    return here is not None and there is not None and here.machine == there.machine


def has_runs(baseline: Baseline | None) -> bool:
    """Whether a baseline has times of controlled processes."""
    of_runs = {name for name, metric in METRICS.items() if metric.by_run and metric.gated}
    return baseline is not None and any(one.metric in of_runs for one in baseline.measurements)


def without_runs(verdict: Verdict) -> Verdict:
    """Say of a verdict that its time was not judged, because its baseline has no runs."""
    message = "the baseline has no times of controlled processes; measure them with: perfguard baseline refresh"
    note = Finding(code=Code.B108, severity=Severity.NOTE, message=message)
    return replace(verdict, findings=worst_first([*verdict.findings, note]))


def is_suspect(verdict: Verdict, *, can_confirm: bool = False) -> bool:
    """Whether what may fail is worse in every process so far, or the machine moved, so that one more has to be asked.

    Where a side-by-side run can decide, a step is suspect from half of its tolerance on: the best of five processes is too
    coarse to see a step just beyond the tolerance every time (`confirmation`).
    """
    if any(finding.code in EXCUSES and finding.severity is not Severity.NOTE for finding in verdict.findings):
        return True
    if can_confirm and is_in_doubt(verdict.comparisons):
        return True
    return any(
        one.judged and one.state is State.WORSE and one.metric in METRICS and METRICS[one.metric].by_run
        for one in verdict.comparisons
    )


def is_in_doubt(comparisons: Iterable[Comparison]) -> bool:
    """Whether the stored baseline says that the step is slower by more than half of what is allowed.

    On a busy machine that is nearly always so, and a run side by side takes long: there only what would fail is in doubt.
    """
    comparisons = tuple(comparisons)
    cost = next((one for one in comparisons if one.metric == "step_cost" and one.judged), None)
    if cost is None or cost.allowed is None or _more_load(comparisons) is not None:
        return False
    assert isinstance(cost.current, (int, float))
    assert isinstance(cost.reference, (int, float))
    return cost.current > (cost.reference + cost.allowed) / 2


def compared(verdict: Verdict, baseline: Baseline | None, *, policy: Policy, step: State | None = None) -> Verdict:
    """Judge an examined recording against a baseline.

    Validity goes before verdict: an INVALID one is not compared. Nothing compared is never green: no baseline, one of
    another fingerprint, or one that shares nothing with the recording is INCONCLUSIVE. `step` is what the step's time was
    judged to be where something else than `step_cost` judged it.
    """
    if verdict.outcome is Outcome.INVALID:
        return verdict
    if baseline is None:
        return _inconclusive(verdict, Code.B101, "there is none")
    differing = trait_differences((verdict.fingerprint, verdict.traits), (baseline.fingerprint, baseline.traits))
    if differing:
        return _inconclusive(verdict, Code.B102, "; ".join(differing))
    if verdict.fingerprint is not None:
        policy = replace(policy, backend=verdict.fingerprint.backend)
    policy_judges_time = policy.judge_time
    began_cold = verdict.fingerprint is not None and verdict.fingerprint.begins_cold
    if began_cold:
        policy = replace(policy, judge_time=False)
    comparisons = compare(verdict.measurements, baseline, environment=verdict.environment, policy=policy, step=step)
    found = [c.finding for c in comparisons if c.finding]
    lost = lost_work(verdict.measurements, baseline.measurements, policy=policy)
    findings = [*verdict.findings, *policy.considered(found + [f for f in (lost, _changes(comparisons, policy)) if f])]
    if began_cold and policy_judges_time:
        message = "times are shown, not judged: a first step waits for the rank that started last"
        findings.append(Finding(code=Code.B106, severity=Severity.NOTE, message=message))
    environment_changes: tuple[str, ...] = ()
    if verdict.environment is not None and baseline.environment is not None:
        environment_changes = tuple(verdict.environment.differences(baseline.environment))
        if verdict.environment.machine != baseline.environment.machine:
            findings.append(
                Finding(
                    code=Code.B103,
                    severity=Severity.NOTE,
                    message=f"times are shown, not judged: {_machine(baseline.environment)} there, "
                    f"{_machine(verdict.environment)} here",
                )
            )
    moved = _moved_machine(verdict, baseline, comparisons)
    busy = _busy_machine(comparisons, {f.place for f in findings if f.severity is Severity.ERROR})
    # Shown, and blamed on nobody.
    excused = frozenset({"step_cost"} if moved is not None else ()) | (_UNDER_LOAD if busy else frozenset())
    findings = [replace(f, severity=Severity.NOTE) if f.place in excused else f for f in findings]
    outcome = outcome_of(findings)
    failed = outcome is Outcome.FAILED
    verdict = replace(
        verdict,
        outcome=outcome,
        findings=worst_first(findings),
        comparisons=comparisons,
        environment_changes=environment_changes,
        ledger=ledger(baseline.measurements, verdict.measurements),
        compared_with=baseline.facts,
    )
    both = any(one.judged and not one.is_new and not one.is_gone for one in comparisons)
    if not both and not failed:
        return _inconclusive(verdict, Code.B101, "it holds nothing that could be compared with this recording")
    excuse = (Code.B112, busy) if busy else (Code.B107, moved.sentence) if moved is not None else None
    if failed and excuse is not None:
        # It fails for another reason; what is said of its time is still the machine's doing.
        note = Finding(code=excuse[0], severity=Severity.NOTE, message=excuse[1])
        return replace(verdict, findings=worst_first([*verdict.findings, note]))
    if failed:
        return verdict
    if excuse is not None:
        return _inconclusive(verdict, *excuse)
    if (
        verdict.lost_runs
        and len(verdict.timings) < thresholds.FEWEST_RUNS
        and (is_suspect(verdict) or not verdict.timings)
    ):
        left = f"{len(verdict.timings)} of {len(verdict.timings) + len(verdict.lost_runs)} processes left a time"
        return _inconclusive(verdict, Code.B108, left)
    return verdict


def _changes(comparisons: Iterable[Comparison], policy: Policy) -> Finding | None:
    """Say in one line what changed without getting worse; where that fails, each difference has said so itself."""
    words = "" if policy.changed_fails else changes_in_words(comparisons)
    if not words:
        return None
    # It decides the outcome, so it is told before what else is a warning.
    return Finding(code=Code.R107, severity=Severity.WARNING, message=words, weight=2 * weight_of_the_whole(1.0))


def _moved_machine(verdict: Verdict, baseline: Baseline, comparisons: Iterable[Comparison]) -> CommonMode | None:
    """Return the factor the machine moved by, where that decides: it explains why the step is slower, or nobody can tell."""
    cost = next((one for one in comparisons if one.metric == "step_cost" and one.judged), None)
    if cost is None or any(timing.clock == "wall" for timing in verdict.timings):
        # The kernel knows nothing of a device's speed.
        return None
    found = common_mode(verdict.measurements, baseline.measurements)
    if found is None:
        return None
    if max(found.calibration, 1 / found.calibration) > thresholds.CALIBRATION_TRUSTED:
        return found
    if cost.state is not State.WORSE:
        return None
    assert isinstance(cost.current, (int, float))
    assert isinstance(cost.reference, (int, float))
    # The step itself, whose cost is counted in kernels: what it took beyond its operators is the model's.
    step = cost.current / cost.reference * found.calibration if cost.reference else math.inf
    return found if step <= found.factor * thresholds.CONTROLS_SPREAD else None


def _busy_machine(comparisons: Iterable[Comparison], failing: Collection[str]) -> str:
    """Say how much busier the machine is than it was for the baseline, where something fails that suffers from that.

    What would only warn (of a baseline of too few runs, or ignored by the user) needs no excuse.
    """
    load = _more_load(comparisons) if not _UNDER_LOAD.isdisjoint(failing) else None
    if load is None:
        return ""
    before, now = load
    return (
        f"other processes used {now:.0f} % of the machine's CPU time while this step was timed, and {before:.0f} % when the "
        "baseline was made"
    )


def _more_load(comparisons: Iterable[Comparison]) -> tuple[float, float] | None:
    """Return what others used of the machine for the baseline and now, in percent, where that is much more now.

    The least of all processes on either side: a step that was slow in a quiet moment as well has no excuse.
    """
    load = next((one for one in comparisons if one.metric == "run_machine_load"), None)
    if load is None or not isinstance(load.current, (int, float)) or not isinstance(load.reference, (int, float)):
        return None
    is_more = load.current - load.reference > 100 * thresholds.BUSY_SHARE
    return (float(load.reference), float(load.current)) if is_more else None


def _machine(environment: Environment) -> str:
    return f"{environment.cpu_model}, {environment.cpu_count} cores, {environment.device_name}"


def _inconclusive(verdict: Verdict, code: Code, message: str) -> Verdict:
    return replace(
        verdict,
        outcome=Outcome.INCONCLUSIVE,
        findings=worst_first([*verdict.findings, Finding(code=code, message=message)]),
    )
