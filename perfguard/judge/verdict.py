"""Verdicts: all findings on one recording, and the outcome that follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from perfguard import thresholds
from perfguard.contract import Contract
from perfguard.findings import Code, Finding, Severity, is_invalid, worst_first
from perfguard.judge.baseline import Baseline, BaselineFacts, trait_differences, traits_of
from perfguard.judge.compare import changes_text, compare, lost_work
from perfguard.judge.comparison import Comparison, State, comparison_of
from perfguard.judge.kernel_sets import choices, joined
from perfguard.judge.ledger import Ledger, ledger
from perfguard.judge.machine import EXCUSES, excuse, more_load
from perfguard.judge.refresh import Refresh
from perfguard.judge.tolerance import Policy, Rule
from perfguard.judge.weights import workload_weight
from perfguard.measure import METRICS, MemoryTrack, StepTimeline, measure_runs
from perfguard.measure.measurement import Measurement
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
    #: What the model is meant to run on, by the marker: `host` or `device`; None where it does not say.
    target: str | None = None
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
    """Judge one inspected recording alone: INVALID if it is incomplete or wrong, else PASSED without comparisons.

    Of an empty one no outcome is green, whatever codes are ignored: it is INCONCLUSIVE.
    """
    recording = contract.recording
    findings = policy.considered(contract.findings)
    alone = Outcome.PASSED if any(one.files for one in contract.extracts) else Outcome.INCONCLUSIVE
    return Verdict(
        workload=workload,
        outcome=Outcome.INVALID if is_invalid(findings) else alone,
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
        target=policy.marker_target,
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


def without_run_times(baseline: Baseline) -> Baseline:
    """Return a baseline without the numbers of controlled processes, for a recording alone: it cannot hold them."""
    kept = [one for one in baseline.measurements if one.metric not in METRICS or not METRICS[one.metric].by_run]
    return replace(baseline, measurements=tuple(kept))


def without_runs(verdict: Verdict) -> Verdict:
    """Return the verdict with a note that its time was not judged, because its baseline has no controlled runs."""
    message = "the baseline has no times of controlled processes; measure them with: perfguard baseline refresh"
    return _with_findings(verdict, _note(Code.B108, message))


def is_suspect(verdict: Verdict, *, can_confirm: bool = False) -> bool:
    """Whether one more process is needed: a judged metric is worse in every process so far or in none of them, or the machine
    changed.

    If an A/B run can decide, a step is suspect from half of its tolerance on: the best of five processes is too coarse to
    detect a step just beyond the tolerance every time (`confirmation`).
    """
    if any(finding.code in EXCUSES and finding.severity is not Severity.NOTE for finding in verdict.findings):
        return True
    if _lacks_times(verdict.findings):
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
    if cost is None or cost.allowed is None or cost.numbers is None or more_load(comparisons) is not None:
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
    found = [c.finding for c in comparisons if c.finding and c.finding.code is not Code.B108]
    # A process that was lost is the reason of all of these.
    unmeasured = (
        [] if _lost_all(verdict) else [c.finding for c in comparisons if c.finding and c.finding.code is Code.B108]
    )
    of_all = (lost_work(verdict.measurements, baseline.measurements, policy=policy), _changes(comparisons, policy))
    findings = [*verdict.findings, *policy.considered(found + [f for f in of_all if f])]
    if policy.kernels and (chosen := choices(verdict.measurements, baseline.measurements, policy.kernels)):
        message = f"kernels that are the same by [tool.perfguard.kernels] ran in place of each other: {chosen}"
        findings.append(_note(Code.R107, message))
    findings += _untimed(verdict, baseline, is_cold=began_cold and policy_judges_time)
    explained = excuse(
        comparisons,
        verdict.measurements,
        baseline.measurements,
        failing={f.place for f in findings if f.severity is Severity.ERROR},
        is_of_device=any(timing.clock == "wall" for timing in verdict.timings),
    )
    if explained is not None:
        findings = [replace(f, severity=Severity.NOTE) if f.place in explained.places else f for f in findings]
    outcome = outcome_of(findings)
    failed = outcome is Outcome.FAILED
    verdict = replace(
        verdict,
        outcome=outcome,
        findings=worst_first([*findings, *unmeasured]),
        comparisons=comparisons,
        environment_changes=_environment_changes(verdict, baseline),
        ledger=ledger(*(joined(side, policy.kernels) for side in (baseline.measurements, verdict.measurements))),
        compared_with=baseline.facts,
    )
    has_common = any(one.judged and not one.is_new and not one.is_gone for one in comparisons)
    if not has_common and not failed:
        return _inconclusive(verdict, Code.B101, "it holds nothing that could be compared with this recording")
    if failed:
        # It fails for another reason than the machine.
        return verdict if explained is None else _with_findings(verdict, _note(explained.code, explained.message))
    if explained is not None:
        return _inconclusive(verdict, explained.code, explained.message)
    timed, lost = len(verdict.timings), len(verdict.lost_runs)
    if lost and timed < thresholds.FEWEST_RUNS and (is_suspect(verdict) or not timed):
        return _inconclusive(verdict, Code.B108, f"{timed} of {timed + lost} processes left a time")
    return replace(verdict, outcome=Outcome.INCONCLUSIVE) if _lacks_times(unmeasured) else verdict


def _lost_all(verdict: Verdict) -> bool:
    return bool(verdict.lost_runs) and not verdict.timings


def _lacks_times(findings: Iterable[Finding]) -> bool:
    """Whether stored times were not measured, so that nobody can say that they are not worse."""
    return any(one.code is Code.B108 and one.severity is Severity.ERROR for one in findings)


def _untimed(verdict: Verdict, baseline: Baseline, *, is_cold: bool) -> list[Finding]:
    """Return the notes on why times are not judged: the ranks began cold, or another machine measured the baseline."""
    found = []
    if is_cold:
        message = "times are shown, not judged: a first step waits for the rank that started last"
        found.append(_note(Code.B106, message))
    here, there = verdict.environment, baseline.environment
    if here is not None and there is not None and here.machine != there.machine:
        sides = f"{_machine(there)} there, {_machine(here)} here"
        found.append(_note(Code.B103, f"times are shown, not judged: {sides}"))
    return found


def _environment_changes(verdict: Verdict, baseline: Baseline) -> tuple[str, ...]:
    if verdict.environment is None or baseline.environment is None:
        return ()
    return tuple(verdict.environment.differences(baseline.environment))


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


def _machine(environment: Environment) -> str:
    return f"{environment.cpu_model}, {environment.cpu_count} cores, {environment.device_name}"


def _inconclusive(verdict: Verdict, code: Code, message: str) -> Verdict:
    return _with_findings(replace(verdict, outcome=Outcome.INCONCLUSIVE), Finding(code=code, message=message))


def _note(code: Code, message: str) -> Finding:
    return Finding(code=code, severity=Severity.NOTE, message=message)


def _with_findings(verdict: Verdict, *findings: Finding) -> Verdict:
    return replace(verdict, findings=worst_first([*verdict.findings, *findings]))
