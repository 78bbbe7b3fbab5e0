"""Verdicts: all findings on one recording, and the outcome that follows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from perfguard import thresholds
from perfguard.contract import Contract
from perfguard.findings import Code, Finding, Severity, is_invalid, worst_first
from perfguard.judge.baseline import Baseline, BaselineFacts, trait_differences, traits_of
from perfguard.judge.compare import Comparison, Key, State, changes_text, compare, comparison_of, lost_work
from perfguard.judge.ledger import Ledger, ledger
from perfguard.judge.refresh import Refresh
from perfguard.judge.tolerance import Policy, Rule
from perfguard.judge.weights import workload_weight
from perfguard.measure import METRICS, MemoryTrack, StepTimeline, measure_runs
from perfguard.measure.measurement import Measurement, Value, number
from perfguard.recording import Environment, Fingerprint, Step
from perfguard.timing import LostRun, Timing


class Outcome(Enum):
    """The result of a verdict. PASSED and CHANGED are green."""

    PASSED = "PASSED"
    CHANGED = "CHANGED"
    FAILED = "FAILED"
    INVALID = "INVALID"
    INCONCLUSIVE = "INCONCLUSIVE"

    @property
    def meaning(self) -> str:
        """What it means, in a sentence."""
        return _MEANINGS[self]


_MEANINGS = {
    Outcome.PASSED: "The recording is complete and was compared, and nothing got worse.",
    Outcome.CHANGED: "It has other operators or shapes than the baseline, and nothing shows that the step got worse.",
    Outcome.FAILED: "Something got worse.",
    Outcome.INVALID: "The recording is incomplete or wrong, or breaks a check of your own; nothing was compared.",
    Outcome.INCONCLUSIVE: "Nothing could be compared: no baseline, another fingerprint, or a busy machine.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The number of measurements by result; each is counted once."""

    compared: int = 0
    worse: int = 0
    better: int = 0
    changed: int = 0
    not_comparable: int = 0
    shown_only: int = 0

    @classmethod
    def of(cls, comparisons: Collection[Comparison]) -> Coverage:
        """Count comparisons."""
        comparable = [one for one in comparisons if one.state is not State.NOT_COMPARABLE]
        judged = [one.state for one in comparable if one.judged]
        return cls(
            compared=len(judged),
            worse=judged.count(State.WORSE),
            better=judged.count(State.BETTER),
            changed=judged.count(State.CHANGED),
            not_comparable=len(comparisons) - len(comparable),
            shown_only=len(comparable) - len(judged),
        )

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All findings on one recording, worst first, and their outcome."""

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
    #: Numbers of ranks, cycles, files and rows that were read.
    read: dict[str, int] = field(default_factory=dict)
    #: Differences between this environment and the baseline's.
    environment_changes: tuple[str, ...] = ()
    refresh: Refresh | None = None
    changes: tuple[str, ...] = ()
    #: The rules and ignored codes of the test's own marker, so that a report can be judged again as the test was.
    rules: tuple[Rule, ...] = ()
    ignore: tuple[str, ...] = ()
    #: Whether changes fail, by the marker or the settings.
    changed_fails: bool = False
    #: Backend, device, mode and ranks according to the files; they replace a missing fingerprint.
    traits: Mapping[str, Any] = field(default_factory=dict)
    #: Timings of controlled processes in the order they ran, and processes without a timing.
    timings: tuple[Timing, ...] = ()
    lost_runs: tuple[LostRun, ...] = ()
    #: The parts of the change of the step's time, if both sides have times of operators.
    ledger: Ledger | None = None
    #: The baseline it was compared with; None without a comparable one.
    compared_with: BaselineFacts | None = None
    #: The steps that perfguard drove, in order; empty for a foreign directory.
    steps: tuple[Step, ...] = ()
    #: Share of the machine's CPU time that other processes used while a script ran; None if unknown, or if none did.
    others_share: float | None = None
    #: The memory of each device over the profiled steps.
    memory: tuple[MemoryTrack, ...] = ()
    #: The fastest profiled step, and that of the recording it was compared with: a stored baseline has none.
    timeline: StepTimeline | None = None
    base_timeline: StepTimeline | None = None
    #: File and line of its test or script (`tests/test_lenet.py:12`); empty if unknown.
    source: str = ""
    #: The report it was read from, if several of the joined reports have this workload.
    origin: str = ""

    @property
    def coverage(self) -> Coverage:
        """Count of the comparisons."""
        return Coverage.of(self.comparisons)

    @property
    def passed(self) -> bool:
        """Whether the outcome is green."""
        return self.outcome in GREEN


#: The machine may have caused a slower step: the verdict is INCONCLUSIVE.
EXCUSES = frozenset({Code.B107, Code.B112})
#: Times that are longer on a busy machine, independent of the code.
_UNDER_LOAD = frozenset({"step_cost", "run_blocked_time"})

#: Outcomes that let a build pass.
GREEN = frozenset({Outcome.PASSED, Outcome.CHANGED})


def outcome_of(findings: Iterable[Finding]) -> Outcome:
    """Return the outcome of the findings on a compared recording."""
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
    timeline: StepTimeline | None = None,
) -> Verdict:
    """Judge one inspected recording alone: INVALID if it is incomplete or wrong, else PASSED without comparisons."""
    recording = contract.recording
    findings = policy.considered(contract.findings)
    return Verdict(
        workload=workload,
        outcome=Outcome.INVALID if is_invalid(findings) else Outcome.PASSED,
        findings=findings,
        measurements=measurements,
        fingerprint=recording.fingerprint,
        environment=recording.environment,
        recording=None if recording.leads_out else recording.directory,
        layouts=contract.layouts,
        notes=contract.notes,
        read=contract.read,
        rules=policy.marker,
        ignore=policy.ignore,
        changed_fails=policy.changed_fails,
        traits=traits_of(contract),
        steps=recording.steps,
        others_share=recording.others_share,
        memory=memory,
        timeline=timeline,
    )


def with_runs(verdict: Verdict, timings: tuple[Timing, ...], lost_runs: tuple[LostRun, ...]) -> Verdict:
    """Return the verdict with the timings of controlled processes, in place of earlier ones."""
    others = [m for m in verdict.measurements if m.metric not in METRICS or not METRICS[m.metric].by_run]
    findings = [*verdict.findings, *lost_findings("run", lost_runs)]
    measurements = [*others, *measure_runs(timings)]
    timed = replace(verdict, timings=timings, lost_runs=lost_runs)
    return settled(timed, verdict.outcome, findings, verdict.comparisons, measurements)


def lost_findings(what: str, lost: Iterable[LostRun]) -> list[Finding]:
    """Return a warning for each process without a timing."""
    return [
        Finding(code=Code.B109, severity=Severity.WARNING, message=f"{what} {one.number} {one.reason}") for one in lost
    ]


def settled(
    verdict: Verdict,
    outcome: Outcome,
    findings: Iterable[Finding],
    comparisons: Iterable[Comparison],
    measurements: Iterable[Measurement],
) -> Verdict:
    """Return a verdict with other results, in their order."""
    return replace(
        verdict,
        outcome=outcome,
        findings=worst_first([*findings]),
        comparisons=tuple(sorted(comparisons, key=lambda one: (one.metric, one.subject))),
        measurements=tuple(sorted(measurements, key=lambda one: one.key)),
    )


def could_judge_runs(verdict: Verdict, baseline: Baseline | None, *, policy: Policy) -> bool:
    """Whether controlled processes can be judged: time is judged, and the baseline has the same machine and window."""
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
    """Return the verdict with a note that its time was not judged, because its baseline has no controlled runs."""
    message = "the baseline has no times of controlled processes; measure them with: perfguard baseline refresh"
    return _with_findings(verdict, _note(Code.B108, message))


def is_suspect(verdict: Verdict, *, can_confirm: bool = False) -> bool:
    """Whether one more process is needed: a judged metric is worse in every process so far, or the machine changed.

    If an A/B run can decide, a step is suspect from half of its tolerance on: the best of five processes is too coarse to
    detect a step just beyond the tolerance every time (`confirmation`).
    """
    if any(finding.code in EXCUSES and finding.severity is not Severity.NOTE for finding in verdict.findings):
        return True
    if can_confirm and is_in_doubt(verdict.comparisons):
        return True
    worse = {one.metric for one in verdict.comparisons if one.judged and one.state is State.WORSE}
    return any(METRICS[name].by_run for name in worse & METRICS.keys())


def is_in_doubt(comparisons: Iterable[Comparison]) -> bool:
    """Whether the step is slower than the stored baseline by more than half of its tolerance.

    Never on a busy machine: there nearly every step is, and an A/B run takes long, so only a failing step is in doubt.
    """
    comparisons = tuple(comparisons)
    cost = comparison_of(comparisons, "step_cost", judged=True)
    if cost is None or cost.allowed is None or cost.numbers is None or _more_load(comparisons) is not None:
        return False
    reference, current = cost.numbers
    return current > (reference + cost.allowed) / 2


def compared(verdict: Verdict, baseline: Baseline | None, *, policy: Policy) -> Verdict:
    """Judge an examined recording against a baseline.

    An INVALID one is not compared. Without any comparison the outcome is INCONCLUSIVE, never green: without a baseline, with
    one of another fingerprint, or one without common metrics.
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
    comparisons = compare(verdict.measurements, baseline, environment=verdict.environment, policy=policy)
    found = [c.finding for c in comparisons if c.finding]
    of_all = (lost_work(verdict.measurements, baseline.measurements, policy=policy), _changes(comparisons, policy))
    findings = [*verdict.findings, *policy.considered(found + [f for f in of_all if f])]
    if began_cold and policy_judges_time:
        message = "times are shown, not judged: a first step waits for the rank that started last"
        findings.append(_note(Code.B106, message))
    environment_changes: tuple[str, ...] = ()
    if verdict.environment is not None and baseline.environment is not None:
        environment_changes = tuple(verdict.environment.differences(baseline.environment))
        if verdict.environment.machine != baseline.environment.machine:
            there, here = _machine(baseline.environment), _machine(verdict.environment)
            findings.append(_note(Code.B103, f"times are shown, not judged: {there} there, {here} here"))
    moved = _moved_machine(verdict, baseline, comparisons)
    busy = _busy_machine(comparisons, {f.place for f in findings if f.severity is Severity.ERROR})
    # They are shown as notes.
    excused = frozenset({"step_cost"} if moved else ()) | (_UNDER_LOAD if busy else frozenset())
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
    has_common = any(one.judged and not one.is_new and not one.is_gone for one in comparisons)
    if not has_common and not failed:
        return _inconclusive(verdict, Code.B101, "it holds nothing that could be compared with this recording")
    excuse = (Code.B112, busy) if busy else (Code.B107, moved) if moved else None
    if failed:
        # It fails for another reason than the machine.
        return _with_findings(verdict, _note(*excuse)) if excuse is not None else verdict
    if excuse is not None:
        return _inconclusive(verdict, *excuse)
    timed, lost = len(verdict.timings), len(verdict.lost_runs)
    if lost and timed < thresholds.FEWEST_RUNS and (is_suspect(verdict) or not timed):
        return _inconclusive(verdict, Code.B108, f"{timed} of {timed + lost} processes left a time")
    return verdict


def unread(verdict: Verdict, why: str) -> Verdict:
    """Return the verdict of a recording whose baseline cannot be read, and `why`: INCONCLUSIVE, unless it is INVALID."""
    return verdict if verdict.outcome is Outcome.INVALID else _inconclusive(verdict, Code.B114, why)


def _changes(comparisons: Iterable[Comparison], policy: Policy) -> Finding | None:
    """Return one warning for all changes; None if changes fail, because each has its own finding."""
    text = "" if policy.changed_fails else changes_text(comparisons)
    if not text:
        return None
    # It decides the outcome, so it comes before other warnings.
    return Finding(code=Code.R107, severity=Severity.WARNING, message=text, weight=2 * workload_weight(1.0))


def common_mode(current: Iterable[Measurement], base: Iterable[Measurement]) -> tuple[float, float, str] | None:
    """Return two factors of the machine's speed (the calibration kernel's, all times'), and the message that names them.

    None if it did not change, or if that is unknown.

    The kernel decides whether the machine changed: slower operators with an unchanged kernel are a slower model or framework.
    The operators decide whether everything changed.
    """
    now, before = ({one.key: one.value for one in side} for side in (current, base))
    kernel = _ratio(now, before, ("run_calibration", ""))
    if kernel is None or abs(math.log(kernel)) < math.log1p(thresholds.CALIBRATION_MOVED):
        return None
    ratios = _control_ratios(now, before)
    is_trusted = max(kernel, 1 / kernel) <= thresholds.CALIBRATION_TRUSTED
    if is_trusted and len(ratios) < thresholds.CONTROLS:
        return None
    factor, spread = statistics.median(ratios) if ratios else kernel, thresholds.CONTROLS_SPREAD
    agreeing = sum(1 / spread <= ratio / factor <= spread for ratio in ratios)
    sentence = f"the calibration kernel is {kernel:.2f} times what it was"
    if ratios:
        sentence += f", {agreeing} of {len(ratios)} unchanged operators about {factor:.2f} times"
    has_one_direction = math.log(factor) * math.log(kernel) > 0
    explained = abs(math.log(factor)) <= thresholds.CALIBRATION_SLOPE * abs(math.log(kernel))
    is_common = has_one_direction and explained and agreeing >= thresholds.CONTROLS_AGREEING * len(ratios)
    return (kernel, factor, sentence) if is_common or not is_trusted else None


def _ratio(now: Mapping[Key, Value], before: Mapping[Key, Value], key: Key) -> float | None:
    after, reference = number(now.get(key)) or 0.0, number(before.get(key)) or 0.0
    return after / reference if after > 0 and reference > 0 else None


def _control_ratios(now: Mapping[Key, Value], before: Mapping[Key, Value]) -> list[float]:
    """Return the time ratio of every operator with unchanged calls and shapes."""
    controls = [
        operator
        for metric, operator in now
        if metric == "operator_time"
        and all(
            now.get((name, operator)) == before.get((name, operator)) for name in ("operator_calls", "operator_shapes")
        )
    ]
    ratios = (_ratio(now, before, ("operator_time", operator)) for operator in controls)
    return [ratio for ratio in ratios if ratio is not None]


def _moved_machine(verdict: Verdict, baseline: Baseline, comparisons: Iterable[Comparison]) -> str:
    """Return the speed change of the machine if it explains the slower step, or is too large to judge it; else empty."""
    cost = comparison_of(comparisons, "step_cost", judged=True)
    if cost is None or any(timing.clock == "wall" for timing in verdict.timings):
        # The calibration kernel does not measure a device.
        return ""
    found = common_mode(verdict.measurements, baseline.measurements)
    if found is None:
        return ""
    kernel, factor, sentence = found
    if max(kernel, 1 / kernel) > thresholds.CALIBRATION_TRUSTED:
        return sentence
    if cost.state is not State.WORSE or cost.numbers is None:
        return ""
    reference, current = cost.numbers
    # The cost is counted in kernels. A step that slowed down more than its unchanged operators is a slower model.
    step = current / reference * kernel if reference else math.inf
    return sentence if step <= factor * thresholds.CONTROLS_SPREAD else ""


def _busy_machine(comparisons: Iterable[Comparison], failing: Collection[str]) -> str:
    """Return how much busier the machine is than for the baseline, if a failing time depends on that; else empty.

    A warning (with a baseline of too few runs, or ignored by the user) needs no excuse.
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
    """Return the load by other processes for the baseline and now, in percent, if it grew much.

    It is the minimum over the processes of either side: a step that was slow in a quiet moment too has no excuse.
    """
    found = comparison_of(comparisons, "run_machine_load")
    load = found.numbers if found is not None else None
    is_more = load is not None and load[1] - load[0] > 100 * thresholds.BUSY_SHARE
    return load if is_more else None


def _machine(environment: Environment) -> str:
    return f"{environment.cpu_model}, {environment.cpu_count} cores, {environment.device_name}"


def _inconclusive(verdict: Verdict, code: Code, message: str) -> Verdict:
    return _with_findings(replace(verdict, outcome=Outcome.INCONCLUSIVE), Finding(code=code, message=message))


def _note(code: Code, message: str) -> Finding:
    return Finding(code=code, severity=Severity.NOTE, message=message)


def _with_findings(verdict: Verdict, *findings: Finding) -> Verdict:
    return replace(verdict, findings=worst_first([*verdict.findings, *findings]))
