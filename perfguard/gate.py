"""The gate: examine a recording (contract, measures), judge it against a baseline or another one, refresh baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from perfguard import thresholds
from perfguard.artifacts.excerpt import with_excerpts
from perfguard.artifacts.layout import Layout, layout_named
from perfguard.artifacts.remote import RemoteTree
from perfguard.capture.replay import replay
from perfguard.contract import Cycle, Expectation, expectation, reduce
from perfguard.contract.progress import Progress
from perfguard.contract.reduction import Visit
from perfguard.errors import DamagedError, PerfguardError, StoreError, UsageError
from perfguard.findings import Code, Finding, is_invalid, worst_first
from perfguard.judge.baseline import Baseline
from perfguard.judge.confirmation import Confirm, confirmed, confirmed_before, why_not_confirmed
from perfguard.judge.pairs import (
    PAIRED_METRICS,
    Pace,
    Paired,
    own_tolerance,
    paired,
    with_pairs,
    without_judged,
)
from perfguard.judge.refresh import (
    Refresh,
    Refreshed,
    is_swamped,
    ratcheted,
    reason_in,
    refreshed,
    refused_busy,
    refused_unread,
    replaced,
    without_step_times,
)
from perfguard.judge.tolerance import IN_SETTINGS, OF_THE_TEST, Policy
from perfguard.judge.verdict import (
    Outcome,
    Verdict,
    compared,
    could_judge_runs,
    examined,
    has_runs,
    is_suspect,
    unread,
    with_runs,
    without_runs,
)
from perfguard.measure import (
    TIME_METRICS,
    CycleMeasurements,
    Measurement,
    measure,
    measure_cycle,
    memory_tracks,
    timeline_of,
)
from perfguard.recording import Recording
from perfguard.settings import codes, project_checks
from perfguard.stores import Store
from perfguard.timing import LostRun, PairedTiming, Timing


class Update(Enum):
    """Which baselines a run writes."""

    NOTHING = "nothing"
    #: Create missing ones, judge the others.
    NEW_ONLY = "new-only"
    #: Create missing ones, and rewrite all that changed beyond noise.
    ALL = "all"
    #: Judge, and store numbers that are better beyond their tolerance.
    RATCHET = "ratchet"


def examine(
    recording: Recording,
    *,
    workload: str,
    policy: Policy,
    expected: Expectation | None = None,
    layout: Layout | None = None,
    measured: bool = True,
    notes: bool = True,
    visit: Visit | None = None,
    progress: Progress | None = None,
    tree: RemoteTree | None = None,
) -> Verdict:
    """Inspect and measure one recording, and judge it alone: PASSED if it is complete and correct, else INVALID.

    `expected` are its options according to the caller; `layout` replaces the recognition. `notes` include excerpts of files.
    `visit` inspects the cycles elsewhere. The recording may be in a `tree` of another file system.
    """
    contract = reduce(
        recording,
        expected,
        layout,
        notes=notes,
        measure=partial(_measured_cycle, policy) if measured else None,
        checks=policy.checks,
        visit=visit,
        progress=progress,
        tree=tree,
    )
    if tree is None and notes and contract.findings:
        with recording.confined():
            contract = replace(contract, findings=with_excerpts(contract.findings, recording.directory))
    # An INVALID recording is not measured: its numbers would look trustworthy.
    is_measured = measured and not is_invalid(policy.considered(contract.findings))
    if not is_measured:
        return examined(contract, (), workload=workload, policy=policy)
    found, memory, timeline = measure(contract), memory_tracks(contract), timeline_of(contract)
    return examined(contract, found, workload=workload, policy=policy, memory=memory, timeline=timeline)


def _measured_cycle(policy: Policy, cycle: Cycle, findings: Sequence[Finding]) -> CycleMeasurements | None:
    """Measure a cycle, unless its findings make the whole recording INVALID."""
    return None if is_invalid(policy.considered(findings)) else measure_cycle(cycle)


def check(
    directory: str | Path,
    *,
    expect: str | Iterable[str] = "",
    layout: str | None = None,
    ignore: str | Iterable[str] = (),
) -> Verdict:
    """Check a profiler's output directory in a test of your own, as `perfguard check` does.

    `expect` are the expected options and numbers (`"graph,memory,ranks=2,steps=3"`, or a list of such words), `layout` the id
    of a layout instead of recognition, `ignore` codes to show without judging. The project's own checks (`checks` in
    [tool.perfguard]) run too. Returns the verdict with all measurements. Raises `AssertionError` with the findings if a check
    fails, or if the directory has no known profiler output.
    """
    # pytest shows the line of the test, without perfguard's own lines.
    __tracebackhide__ = True
    from perfguard.reports.terminal import checked

    try:
        ignored = codes(ignore.replace(" ", "").split(",") if isinstance(ignore, str) else ignore)
        verdict = examine(
            replay(Path(directory)),
            workload=str(directory),
            policy=Policy(
                ignore=ignored,
                ignored_by=dict.fromkeys(ignored, "ignore="),
                checks=project_checks(Path.cwd()),
            ),
            expected=_expected(expect),
            layout=layout_named(layout) if layout else None,
        )
    except PerfguardError as error:
        raise error.with_traceback(None) from None
    if not verdict.passed or not verdict.layouts:
        raise AssertionError("\n".join(checked(verdict, explain=False, metrics=False)))
    return verdict


def _expected(expect: str | Iterable[str]) -> Expectation:
    """Read `expect=` of a call; errors name the argument instead of the option."""
    words: list[Any] = [expect] if isinstance(expect, str) else list(expect or ())
    for word in words:
        if not isinstance(word, str):
            raise UsageError(
                f"expect must be a string or a list of strings such as 'graph,memory,ranks=2', got expect={word!r}."
            )
    return expectation(words, option="expect=")


def judge(recording: Recording, baseline: Baseline | None, *, workload: str, policy: Policy) -> Verdict:
    """Inspect, measure and judge one recording against a baseline."""
    return compared(examine(recording, workload=workload, policy=policy), baseline, policy=policy)


def judge_again(
    verdict: Verdict, baseline: Baseline | None, *, policy: Policy, judged_as: Verdict | None = None
) -> Verdict:
    """Judge the verdict of a report against a baseline, without its earlier comparison.

    With the same baseline, the A/B run with its commit still counts. The rules of the test's marker override `policy`: those
    of `judged_as`, if it is the same test in another version.
    """
    policy = _of_the_test(judged_as or verdict, policy)
    alone = policy.reconsidered(f for f in verdict.findings if not f.code.is_of_comparison)
    # Findings of a newer perfguard may be unknown here.
    invalid = verdict.outcome is Outcome.INVALID or is_invalid(alone)
    outcome = Outcome.INVALID if invalid else Outcome.PASSED
    fresh = replace(
        _uncompared(verdict, outcome, alone),
        rules=policy.marker,
        ignore=policy.ignore,
        changed_fails=policy.changed_fails,
        target=policy.marker_target,
        measurements=_comparable(verdict.measurements),
    )
    judged = compared(fresh, baseline, policy=policy)
    return judged if baseline is None else confirmed_before(judged, verdict, baseline)


def _uncompared(verdict: Verdict, outcome: Outcome, findings: tuple[Finding, ...]) -> Verdict:
    alone = replace(
        verdict, comparisons=(), refresh=None, changes=(), ledger=None, compared_with=None, base_timeline=None
    )
    return replace(alone, outcome=outcome, findings=findings)


def _of_the_test(verdict: Verdict, policy: Policy) -> Policy:
    """Return the policy with the rules of the test's own marker, which override it."""
    return replace(
        policy,
        marker=verdict.rules,
        ignore=tuple(dict.fromkeys((*policy.ignore, *verdict.ignore))),
        ignored_by={**dict.fromkeys(verdict.ignore, OF_THE_TEST), **dict.fromkeys(policy.ignore, IN_SETTINGS)},
        changed_fails=policy.changed_fails or verdict.changed_fails,
        marker_target=verdict.target,
    )


#: Starts the n-th controlled process of one workload, and returns its timing.
Run = Callable[[int], Timing | LostRun]


def judge_with_store(
    recording: Recording,
    store: Store,
    *,
    workload: str,
    policy: Policy,
    update: Update = Update.NOTHING,
    run: Run | None = None,
    runs: int = 0,
    confirm: Confirm | None = None,
) -> Verdict:
    """Judge a recording against its stored baseline, or alone for a refresh: `refresh` writes the baseline of a DUE verdict.

    `run` times the workload in a controlled process: `runs` times for a baseline, and as often as needed for a verdict.
    `confirm` makes an A/B run with the baseline's commit if the stored time alone would decide.
    """
    verdict = examine(recording, workload=workload, policy=policy)
    try:
        baseline = None if update is Update.ALL else store.load(workload)
    except StoreError as error:
        # It was measured, and what cannot be read is not new.
        return unread(verdict, str(error))
    if update is Update.ALL or (update is Update.NEW_ONLY and baseline is None):
        if run is not None and policy.judge_time and verdict.outcome is not Outcome.INVALID:
            verdict = with_runs(verdict, *_parted([run(number) for number in range(1, runs + 1)]))
            if verdict.lost_runs and not verdict.timings and policy.judges_runs:
                return _settled(verdict, Refreshed(stored=baseline, state=Refresh.REFUSED, refused=_no_time(verdict)))
        return _due(verdict)
    if update is Update.RATCHET and baseline is not None:
        judged = judge_time(verdict, baseline, policy=policy, run=run, confirm=confirm, ratchet_runs=runs)
        return _due_where_better(judged, baseline, policy=policy)
    return judge_time(verdict, baseline, policy=policy, run=run, confirm=confirm)


def judge_time(
    verdict: Verdict,
    baseline: Baseline | None,
    *,
    policy: Policy,
    run: Run | None,
    confirm: Confirm | None = None,
    ratchet_runs: int | None = None,
) -> Verdict:
    """Judge an examined recording, and time it in fresh processes until it passes or the rule allows no more.

    Only a suspect is timed again: if one process is within the tolerance, so is the minimum of all. After a change of the
    machine's speed the next process may be normal. A suspect after all processes is confirmed. For a ratchet the result may
    become a baseline: it needs the processes of both, a verdict and a baseline (`ratchet_runs`).
    """
    decide = compared if ratchet_runs is None else _judged_as_ratcheted
    if run is None or not could_judge_runs(verdict, baseline, policy=policy):
        return decide(verdict, baseline, policy=policy)
    if not has_runs(baseline):
        return without_runs(decide(verdict, baseline, policy=policy))
    assert baseline is not None
    unconfirmed = why_not_confirmed(confirm, verdict.environment, baseline)
    found: list[Timing | LostRun] = []
    while len(found) < max(ratchet_runs or 0, thresholds.MOST_RUNS):
        found.append(run(len(found) + 1))
        if ratchet_runs is None:
            judged = compared(with_runs(verdict, *_parted(found)), baseline, policy=policy)
            if judged.timings and not is_suspect(judged, can_confirm=not unconfirmed):
                break
    timed = with_runs(verdict, *_parted(found))
    if confirm is None:
        return decide(timed, baseline, policy=policy)
    return confirmed(decide(timed, baseline, policy=policy), lambda: unconfirmed or confirm(baseline))


def seems_suspect(
    timings: tuple[Timing, ...], baseline: Baseline, *, policy: Policy, confirm: Confirm | None = None
) -> bool:
    """Whether `judge_time` would need one more process after these timings: a forecast before the test has run."""
    untimed = Verdict(
        workload=baseline.workload,
        outcome=Outcome.PASSED,
        findings=(),
        fingerprint=baseline.fingerprint,
        environment=timings[0].environment,
    )
    can_confirm = not why_not_confirmed(confirm, untimed.environment, baseline)
    return is_suspect(compared(with_runs(untimed, timings, ()), baseline, policy=policy), can_confirm=can_confirm)


def _no_time(verdict: Verdict) -> Finding:
    """Refuse a baseline without times."""
    lost = verdict.lost_runs[0]
    return Finding(
        code=Code.B111,
        message=f"none of {len(verdict.lost_runs)} processes left a time: run {lost.number} {lost.reason}; correct that, or "
        "store exact metrics only: --perfguard-time=off",
    )


def _parted(found: Sequence[Timing | LostRun]) -> tuple[tuple[Timing, ...], tuple[LostRun, ...]]:
    timings = tuple(one for one in found if isinstance(one, Timing))
    return timings, tuple(one for one in found if isinstance(one, LostRun))


def _judged_as_ratcheted(verdict: Verdict, baseline: Baseline | None, *, policy: Policy) -> Verdict:
    """Judge against the baseline; if green, against the tightened one, so that improvements are not reported."""
    judged = compared(verdict, baseline, policy=policy)
    if baseline is None or not judged.passed or judged.fingerprint is None:
        return judged
    tightened = ratcheted(baseline, _measured(verdict), policy=policy)
    if tightened.refused is not None:
        return _settled(judged, tightened)
    return compared(verdict, tightened.stored, policy=policy)


def _due_where_better(judged: Verdict, baseline: Baseline, *, policy: Policy) -> Verdict:
    """Return a green verdict as due if the ratchet would change the baseline."""
    if not judged.passed or judged.fingerprint is None or judged.refresh is not None:
        return judged
    tightened = ratcheted(baseline, _measured(judged), policy=policy)
    return judged if tightened.state is Refresh.KEPT else replace(judged, refresh=Refresh.DUE)


def _measured(verdict: Verdict, *, commit: str | None = None, reason: str | None = None) -> Baseline:
    """Return the measurements of a verdict as a baseline."""
    return Baseline(
        workload=verdict.workload,
        fingerprint=verdict.fingerprint,
        environment=verdict.environment,
        measurements=_comparable(verdict.measurements),
        runs=max(1, len(verdict.timings)),
        commit=commit,
        reason=reason_in(reason or ""),
        traits=verdict.traits,
    )


def _comparable(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Leave out metrics of an A/B run: they belong to their own base."""
    return tuple(one for one in measurements if one.metric not in PAIRED_METRICS)


def _settled(verdict: Verdict, done: Refreshed) -> Verdict:
    """Return the verdict with the result of a refresh; FAILED if it was refused."""
    verdict = replace(verdict, refresh=done.state, changes=tuple(str(change) for change in done.changes))
    if done.refused is None:
        return verdict
    return replace(verdict, outcome=Outcome.FAILED, findings=worst_first([*verdict.findings, done.refused]))


def _due(verdict: Verdict) -> Verdict:
    if verdict.outcome is Outcome.PASSED and verdict.fingerprint is None:
        raise UsageError(
            f"{verdict.recording} was not recorded by perfguard, so its window and machine are unknown, and it cannot "
            "become a baseline; compare two such directories with: perfguard compare BASE CURRENT"
        )
    return replace(verdict, refresh=Refresh.REFUSED if verdict.outcome is Outcome.INVALID else Refresh.DUE)


def refresh(
    verdict: Verdict,
    store: Store,
    *,
    policy: Policy,
    update: Update,
    commit: str | None = None,
    reason: str | None = None,
) -> Verdict:
    """Write the baseline of a due verdict, and return the verdict with the result; FAILED if it was refused.

    A `reason` accepts worse numbers and missing metrics, and is stored. The store is locked, for simultaneous runs.
    """
    with store.locked():
        new = _measured(verdict, commit=commit, reason=reason)
        if is_swamped(new, verdict.others_share):
            if policy.judge_time:
                return _settled(verdict, refused_busy(verdict.others_share or 0.0))
            # With time off the exact numbers are stored: they do not depend on the load.
            new = without_step_times(new)
        try:
            old = store.load(verdict.workload)
        except StoreError as error:
            done = _over_unread(error, new, policy=policy, update=update)
            if done.stored is not None:
                store.save(done.stored)
            return _settled(verdict, done)
        if update is Update.ALL or (update is Update.NEW_ONLY and old is None):
            done = refreshed(old, new, policy=policy)
        elif update is Update.RATCHET and old is not None:
            done = ratcheted(old, new, policy=policy)
        else:
            # Another run was faster.
            done = Refreshed(stored=old, state=Refresh.KEPT)
        if done.state in (Refresh.CREATED, Refresh.UPDATED):
            assert done.stored is not None
            store.save(done.stored)
    return _settled(verdict, done)


def _over_unread(error: StoreError, new: Baseline, *, policy: Policy, update: Update) -> Refreshed:
    """Return what replaces a stored baseline that cannot be read: only a damaged one is replaced, and with a reason."""
    is_replaceable = isinstance(error, DamagedError) and update is Update.ALL
    refused = refused_unread(new if is_replaceable else replace(new, reason=None), str(error))
    return refused or replaced(new, policy=policy)


def compare(base: Verdict, current: Verdict, *, policy: Policy, judged_as: Verdict | None = None) -> Verdict:
    """Judge `current` against the measurements of `base`; INVALID if either is. `judged_as` is the one whose marker counts."""
    if base.outcome is Outcome.INVALID:
        broken = tuple(replace(f, message=f"in the base: {f.message}") for f in base.findings if f.invalidates)
        alone = tuple(f for f in current.findings if not f.code.is_of_comparison)
        return _uncompared(current, Outcome.INVALID, broken + alone)
    judged = judge_again(current, _measured(base), policy=policy, judged_as=judged_as)
    return replace(judged, base_timeline=base.timeline)


def compare_paired(
    base: Verdict,
    current: Verdict,
    timings: tuple[PairedTiming, ...],
    lost: tuple[LostRun, ...],
    *,
    policy: Policy,
    judged_as: Verdict | None = None,
    sensitive: bool = False,
) -> tuple[Verdict, Paired]:
    """Judge `current` against `base` after an A/B run: exact metrics first, then the step."""
    verdict = compare(base, current, policy=policy, judged_as=judged_as)
    policy = _of_the_test(judged_as or current, policy)
    return with_pairs(verdict, timings, lost, policy=policy, sensitive=sensitive)


def is_to_be_confirmed(timings: tuple[PairedTiming, ...], judged_as: Verdict, *, policy: Policy) -> bool:
    """Whether alternating processes show a change, so that more of them are needed, by the marker of `judged_as`."""
    tolerance = own_tolerance(_of_the_test(judged_as, policy))
    # A wide tolerance of the user does not reduce the processes: a stored time may be confirmed with another one.
    limit = thresholds.BLOCK_TOLERANCE if tolerance is None else min(tolerance, thresholds.BLOCK_TOLERANCE)
    return paired(timings, tolerance=limit).pace in (Pace.SLOWER, Pace.FASTER)


def compare_exactly(base: Verdict, current: Verdict, *, policy: Policy, judged_as: Verdict | None = None) -> Verdict:
    """Judge the exact metrics of `current` against `base`; times are only shown."""
    return without_judged(compare(base, current, policy=policy, judged_as=judged_as), TIME_METRICS)
