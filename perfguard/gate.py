"""The gate: the whole story on one page.

capture → contract → measure → judge → report. The plugin and the command line both call `judge`; everything else here is
what surrounds it: comparing two things that lie on disk, and refreshing a baseline.
"""

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
from perfguard.contract import Cycle, Expectation, expectation, inspect, reduce
from perfguard.contract.progress import Progress
from perfguard.contract.reduction import Visit
from perfguard.errors import DamagedError, PerfguardError, UsageError
from perfguard.findings import Code, Finding, is_invalid, worst_first
from perfguard.judge import (
    PAIRED_METRICS,
    TIME_METRICS,
    Baseline,
    Confirm,
    Outcome,
    Pace,
    Paired,
    Policy,
    Refresh,
    Refreshed,
    State,
    Unconfirmed,
    Verdict,
    compared,
    confirmed,
    confirmed_before,
    could_judge_runs,
    examined,
    has_runs,
    is_suspect,
    judged_step,
    own_tolerance,
    paired,
    ratcheted,
    refreshed,
    why_not_confirmed,
    with_pairs,
    with_runs,
    without_judged,
    without_runs,
)
from perfguard.measure import (
    CycleMeasurements,
    Measurement,
    Operator,
    measure,
    measure_cycle,
    memory_tracks,
    operators_of,
)
from perfguard.recording import Recording
from perfguard.settings import codes, project_checks
from perfguard.stores import STORES, Store
from perfguard.timing import LostRun, PairedTiming, Timing


class Update(Enum):
    """What a run does with baselines besides reading them."""

    NOTHING = "nothing"
    #: Create what is missing, judge what is there.
    NEW_ONLY = "new-only"
    #: Create and rewrite whatever changed beyond noise.
    ALL = "all"
    #: Judge what is there, and write what got better beyond its tolerance.
    RATCHET = "ratchet"


def open_store(place: Path, store: str = "directory") -> Store:
    """Return the baselines that the store of that name keeps in `place`. Raises `UsageError` for a name that is not known."""
    return STORES[store](place)


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
    """Inspect and measure one recording, and judge it by itself: PASSED when it is whole, else INVALID.

    `expected` is what the caller says was on when it was recorded; with `layout` it is judged as that one. Whoever wants no
    measurements, or no notes and no lines quoted beside findings, says so, and less is kept of every rank. `visit` has the
    cycles inspected elsewhere. The recording may lie in a `tree` of another file system.
    """
    contract = reduce(
        recording,
        expected,
        layout,
        notes=notes,
        taking=partial(_measured_cycle, policy) if measured else None,
        checks=policy.checks,
        visit=visit,
        progress=progress,
        tree=tree,
    )
    if tree is None and notes and contract.findings:
        contract = replace(contract, findings=with_excerpts(contract.findings, recording.directory))
    # What is not whole is not measured: its numbers would look like numbers.
    is_measured = measured and not is_invalid(policy.considered(contract.findings))
    return examined(
        contract,
        measure(contract) if is_measured else (),
        workload=workload,
        policy=policy,
        memory=memory_tracks(contract) if is_measured else (),
    )


def _measured_cycle(policy: Policy, cycle: Cycle, findings: Sequence[Finding]) -> CycleMeasurements | None:
    """Take of a cycle what is measured, unless what was found in it makes the whole recording INVALID."""
    return None if is_invalid(policy.considered(findings)) else measure_cycle(cycle)


def check(
    directory: str | Path,
    *,
    expect: str | Iterable[str] = "",
    layout: str | None = None,
    ignore: str | Iterable[str] = (),
) -> Verdict:
    """Check a profiler's output directory in a test of your own, as `perfguard check` does.

    `expect` says what was on and how much there must be (`"graph,memory,ranks=2,steps=3"`, or a list of such words),
    `layout` names one where it should not be recognised, `ignore` are codes to show without judging. The project's own
    checks (`checks` in [tool.perfguard]) are asked as well. Returns the verdict, with everything measured. Raises
    `AssertionError` with the findings where something is wrong, or where nothing here is known profiler output.
    """
    # pytest shows the line of the test, and none of perfguard's own.
    __tracebackhide__ = True
    from perfguard.reports.terminal import checked

    try:
        verdict = examine(
            replay(Path(directory)),
            workload=str(directory),
            policy=Policy(
                ignore=codes(ignore.replace(" ", "").split(",") if isinstance(ignore, str) else ignore),
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
    """Read `expect=` of a call; what is wrong with it is said in the words of the call."""
    words: list[Any] = [expect] if isinstance(expect, str) else list(expect or ())
    for word in words:
        if not isinstance(word, str):
            raise UsageError(f"expect={word!r} is no text; write words such as expect='graph,memory,ranks=2'.")
    try:
        return expectation(words)
    except UsageError as error:
        raise UsageError(str(error).replace("--expect ", "expect=")) from None


def operators(recording: Recording) -> list[Operator]:
    """Return how often and how long every operator ran, by rank; what could not be read is left out."""
    return operators_of(inspect(recording))


def judge(recording: Recording, baseline: Baseline | None, *, workload: str, policy: Policy) -> Verdict:
    """Inspect, measure and judge one recording against a baseline."""
    return compared(examine(recording, workload=workload, policy=policy), baseline, policy=policy)


def judge_again(verdict: Verdict, baseline: Baseline | None, *, policy: Policy, step: State | None = None) -> Verdict:
    """Judge what a report holds against a baseline, dropping whatever the report itself was compared with.

    Of the same baseline, what the run found side by side with its commit stands.

    The rules of the test's own marker go before `policy`, as they did in the test. `step` is as in `compared`.
    """
    policy = _of_the_test(verdict, policy)
    alone = tuple(f for f in verdict.findings if not f.code.is_of_comparison)
    # What a newer perfguard found wrong may have no finding here.
    invalid = verdict.outcome is Outcome.INVALID or is_invalid(alone)
    fresh = replace(
        verdict,
        outcome=Outcome.INVALID if invalid else Outcome.PASSED,
        findings=alone,
        ignore=policy.ignore,
        measurements=_comparable(verdict.measurements),
        comparisons=(),
        refresh=None,
        changes=(),
        ledger=None,
        compared_with=None,
    )
    if step is not None or baseline is None:
        return compared(fresh, baseline, policy=policy, step=step)
    return confirmed_before(lambda step: compared(fresh, baseline, policy=policy, step=step), verdict, baseline)


def _of_the_test(verdict: Verdict, policy: Policy) -> Policy:
    """Return the policy with what the test's own marker says, which goes before it."""
    return replace(
        policy,
        marker=verdict.rules,
        ignore=tuple({*policy.ignore, *verdict.ignore}),
        changed_fails=policy.changed_fails or verdict.changed_fails,
    )


#: Starts controlled process number so many of one workload, and returns what it measured.
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
    """Judge a recording against its stored baseline, or for a refresh by itself; nothing is written yet.

    Where the verdict's `refresh` is DUE, `refresh` writes the baseline. An INVALID capture is never due. `run` times the
    workload in a process of its own: `runs` times for a baseline, and to judge one as often as it takes. `confirm` runs it
    side by side with the baseline's commit, where the stored time alone would decide.
    """
    verdict = examine(recording, workload=workload, policy=policy)
    baseline = None if update is Update.ALL else store.load(workload)
    if update is Update.ALL or (update is Update.NEW_ONLY and baseline is None):
        if run is not None and policy.judge_time and verdict.outcome is not Outcome.INVALID:
            verdict = with_runs(verdict, *_parted([run(number) for number in range(1, runs + 1)]))
            if verdict.lost_runs and not verdict.timings and policy.judges_runs:
                return _settled(verdict, Refreshed(stored=baseline, state=Refresh.REFUSED, refused=_no_time(verdict)))
        return _due(verdict)
    if update is Update.RATCHET and baseline is not None:
        if run is None or not could_judge_runs(verdict, baseline, policy=policy):
            return _due_where_better(_judged_as_ratcheted(verdict, baseline, policy=policy), baseline, policy=policy)
        if not has_runs(baseline):
            judged = without_runs(_judged_as_ratcheted(verdict, baseline, policy=policy))
            return _due_where_better(judged, baseline, policy=policy)
        # As many as a baseline has, for it may become one, and never fewer than a verdict needs.
        numbers = range(1, max(runs, thresholds.MOST_RUNS) + 1)
        timed = with_runs(verdict, *_parted([run(number) for number in numbers]))
        judged = _confirmed(
            lambda step: _judged_as_ratcheted(timed, baseline, policy=policy, step=step),
            baseline,
            confirm=confirm,
            unconfirmed=why_not_confirmed(confirm, verdict.environment, baseline),
        )
        return _due_where_better(judged, baseline, policy=policy)
    return judge_time(verdict, baseline, policy=policy, run=run, confirm=confirm)


def judge_time(
    verdict: Verdict, baseline: Baseline | None, *, policy: Policy, run: Run | None, confirm: Confirm | None = None
) -> Verdict:
    """Judge an examined recording, and time it in fresh processes until it has passed or the rule has run out of them.

    Only a suspect is timed again: as soon as one process is within the tolerance, so is the minimum of all. A process on
    a machine that moved is one too: the next one may find it as it was. What is suspect after all of them is confirmed.
    """
    if run is None or not could_judge_runs(verdict, baseline, policy=policy):
        return compared(verdict, baseline, policy=policy)
    if not has_runs(baseline):
        return without_runs(compared(verdict, baseline, policy=policy))
    assert baseline is not None
    unconfirmed = why_not_confirmed(confirm, verdict.environment, baseline)
    found: list[Timing | LostRun] = []
    judged = verdict
    while len(found) < thresholds.MOST_RUNS:
        found.append(run(len(found) + 1))
        judged = compared(with_runs(verdict, *_parted(found)), baseline, policy=policy)
        if judged.timings and not is_suspect(judged, can_confirm=not unconfirmed):
            break
    timed = with_runs(verdict, *_parted(found))
    return _confirmed(
        lambda step: compared(timed, baseline, policy=policy, step=step),
        baseline,
        confirm=confirm,
        unconfirmed=unconfirmed,
    )


def _confirmed(
    judge: Callable[[State | None], Verdict], baseline: Baseline, *, confirm: Confirm | None, unconfirmed: str
) -> Verdict:
    """Judge, with a run side by side where the stored time decides; `unconfirmed` says why there can be none."""
    if confirm is None:
        return judge(None)
    return confirmed(judge, lambda: Unconfirmed(reason=unconfirmed) if unconfirmed else confirm(baseline))


def seems_suspect(
    timings: tuple[Timing, ...], baseline: Baseline, *, policy: Policy, confirm: Confirm | None = None
) -> bool:
    """Whether these timings alone would have `judge_time` ask for one more: a forecast, made before the test has run."""
    seen = Verdict(
        workload=baseline.workload,
        outcome=Outcome.PASSED,
        findings=(),
        fingerprint=baseline.fingerprint,
        environment=timings[0].environment,
    )
    can_confirm = not why_not_confirmed(confirm, seen.environment, baseline)
    return is_suspect(compared(with_runs(seen, timings, ()), baseline, policy=policy), can_confirm=can_confirm)


def _no_time(verdict: Verdict) -> Finding:
    """Refuse a baseline that would have no time, and would never be judged by any."""
    lost = verdict.lost_runs[0]
    return Finding(
        code=Code.B111,
        message=f"none of {len(verdict.lost_runs)} processes left a time: run {lost.number} {lost.reason}; mend that, or store "
        "exact metrics only: --perfguard-time=off",
    )


def _parted(found: Iterable[Timing | LostRun]) -> tuple[tuple[Timing, ...], tuple[LostRun, ...]]:
    timings, lost = [], []
    for one in found:
        if isinstance(one, Timing):
            timings.append(one)
        else:
            lost.append(one)
    return tuple(timings), tuple(lost)


def _judged_as_ratcheted(verdict: Verdict, baseline: Baseline, *, policy: Policy, step: State | None = None) -> Verdict:
    """Judge against the baseline, and where that is green as the ratchet would leave it: what got better is no news then."""
    judged = compared(verdict, baseline, policy=policy, step=step)
    if not judged.passed or judged.fingerprint is None:
        return judged
    tightened = ratcheted(baseline, _measured(verdict), policy=policy)
    if tightened.refused is not None:
        return _settled(judged, tightened)
    return compared(verdict, tightened.stored, policy=policy, step=step)


def _due_where_better(judged: Verdict, baseline: Baseline, *, policy: Policy) -> Verdict:
    """Return a green verdict as due for the baseline that the ratchet would leave, where that is another one."""
    if not judged.passed or judged.fingerprint is None or judged.refresh is not None:
        return judged
    tightened = ratcheted(baseline, _measured(judged), policy=policy)
    return judged if tightened.state is Refresh.KEPT else replace(judged, refresh=Refresh.DUE)


def _measured(verdict: Verdict, *, commit: str | None = None, reason: str | None = None) -> Baseline:
    """Return what a verdict measured, in the form of a baseline."""
    return Baseline(
        workload=verdict.workload,
        fingerprint=verdict.fingerprint,
        environment=verdict.environment,
        measurements=_comparable(verdict.measurements),
        runs=max(1, len(verdict.timings)),
        commit=commit,
        reason=reason.strip() or None if reason else None,
        traits=verdict.traits,
    )


def _comparable(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Leave out what was measured against a base of its own: it says nothing beside another one."""
    return tuple(one for one in measurements if one.metric not in PAIRED_METRICS)


def _settled(verdict: Verdict, done: Refreshed) -> Verdict:
    """Return the verdict with what a refresh did; one that was refused is FAILED."""
    verdict = replace(verdict, refresh=done.state, changes=tuple(str(change) for change in done.changes))
    if done.refused is None:
        return verdict
    return replace(verdict, outcome=Outcome.FAILED, findings=worst_first([*verdict.findings, done.refused]))


def _due(verdict: Verdict) -> Verdict:
    if verdict.outcome is Outcome.PASSED and verdict.fingerprint is None:
        raise UsageError(
            f"{verdict.recording} was not recorded by perfguard, so nobody knows its window and machine, and it cannot "
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
    """Write the baseline a verdict is due for, and return the verdict with what was done; FAILED where it was refused.

    A `reason` accepts what is worse, or missing, and is kept. The store is locked while the old entry is read and the new
    one written, so that two runs at once lose nothing.
    """
    with store.locked():
        try:
            old = store.load(verdict.workload)
        except DamagedError:
            # A refresh is how a damaged baseline is mended, but only the one that may rewrite what is there.
            if update is not Update.ALL:
                raise
            old = None
        new = _measured(verdict, commit=commit, reason=reason)
        if update is Update.ALL or (update is Update.NEW_ONLY and old is None):
            done = refreshed(old, new, policy=policy)
        elif update is Update.RATCHET and old is not None:
            done = ratcheted(old, new, policy=policy)
        else:
            # Another run was quicker.
            done = Refreshed(stored=old, state=Refresh.KEPT)
        if done.state in (Refresh.CREATED, Refresh.UPDATED):
            assert done.stored is not None
            store.save(done.stored)
    return _settled(verdict, done)


def compare(base: Verdict, current: Verdict, *, policy: Policy, step: State | None = None) -> Verdict:
    """Judge `current` against what `base` measured. INVALID when either is; what is wrong with the base says so.

    `step` is as in `compared`.
    """
    if base.outcome is Outcome.INVALID:
        broken = tuple(replace(f, message=f"in the base: {f.message}") for f in base.findings if f.invalidates)
        alone = tuple(f for f in current.findings if not f.code.is_of_comparison)
        return replace(
            current,
            outcome=Outcome.INVALID,
            findings=broken + alone,
            comparisons=(),
            refresh=None,
            changes=(),
            ledger=None,
            compared_with=None,
        )
    return judge_again(current, _measured(base), policy=policy, step=step)


def compare_beside(
    base: Verdict,
    current: Verdict,
    timings: tuple[PairedTiming, ...],
    lost: tuple[LostRun, ...],
    *,
    policy: Policy,
    sensitive: bool = False,
) -> tuple[Verdict, Paired]:
    """Judge `current` against `base`, whose steps were timed beside each other: exact metrics first, then the step."""
    policy = _of_the_test(current, policy)
    step = judged_step(timings, policy=policy, sensitive=sensitive)
    verdict = compare(base, current, policy=policy, step=step)
    return with_pairs(verdict, timings, lost, policy=policy, sensitive=sensitive)


def is_to_be_confirmed(timings: tuple[PairedTiming, ...], current: Verdict, *, policy: Policy) -> bool:
    """Whether processes that took turns have seen a change, so that more of them are asked."""
    tolerance = own_tolerance(_of_the_test(current, policy))
    # A wide tolerance of the user's is no reason for fewer: a stored time may be confirmed by another one.
    asked = thresholds.BLOCK_TOLERANCE if tolerance is None else min(tolerance, thresholds.BLOCK_TOLERANCE)
    return paired(timings, tolerance=asked).pace in (Pace.SLOWER, Pace.FASTER)


def compare_exactly(base: Verdict, current: Verdict, *, policy: Policy) -> Verdict:
    """Judge what is exact of `current` against `base`; times are shown, and decide nothing."""
    return without_judged(compare(base, current, policy=policy), TIME_METRICS)
