"""The comparison of `perfguard ab`: both sides are recorded, then each workload is compared and timed in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from perfguard import thresholds
from perfguard.capture.ab.policy import PolicyTree, as_written, policy_differences
from perfguard.capture.ab.sides import Recorded, Side, Timeable, base_in, base_on, current_side, record
from perfguard.capture.ab.timing import time_pairs
from perfguard.capture.checkout import current_commit
from perfguard.capture.worktree import Place, add_worktree, find_repository
from perfguard.cli.accepted import accepted
from perfguard.cli.bar import Steps
from perfguard.cli.output import echo, echo_line, exit_code, screen
from perfguard.cli.project import project_settings
from perfguard.cli.verdicts import verdicts_of
from perfguard.errors import CaptureError, PerfguardError, UsageError
from perfguard.gate import compare_exactly, compare_paired, is_to_be_confirmed
from perfguard.judge.pairs import Paired
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.reports import ReportFile, RunReport
from perfguard.reports.ab import ab_lines, ab_table
from perfguard.reports.document import tolerance_document
from perfguard.reports.reading import read_report
from perfguard.reports.terminal import coverage_line, ignored_line, summary
from perfguard.settings import Settings, find_root
from perfguard.version import __version__
from perfguard.workload import workload_of

#: pytest: tests passed, tests failed, no test was collected.
_RAN = (0, 1)
_NOTHING_COLLECTED = 5
#: ... and the call itself was wrong.
_REFUSED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """The options of the call."""

    policy: Policy
    #: The value of --time, and whose settings count: "base" or "current".
    time: str | None
    policy_of: str
    pytest_args: tuple[str, ...]
    accept_explained: bool
    sensitive: bool
    processes: int | None
    timeout_s: float
    output: Path | None
    #: The option or setting that switched times off; empty where they are on.
    time_off: str
    #: Shows the current step on a terminal.
    steps: Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload that both sides have. `limits` are those of its notes that say what was not timed as planned."""

    verdict: Verdict
    paired: Paired | None = None
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result: a row for each workload that both sides have, and remarks on all else."""

    sides: str
    #: The option or setting that switched times off; empty where they are on.
    time_off: str = ""
    rows: list[Row] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    #: Tests that use perfguard and failed here, and workloads whose base failed.
    failed: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    #: Workloads that are not as on the base, which a change of their own baseline explains.
    accepted: set[str] = field(default_factory=set)


class Invalid(Exception):
    """A side that cannot be run at all, in one sentence."""


@contextmanager
def outside(place: Place) -> Iterator[None]:
    """Let an error name no file in a directory that is deleted when it is read."""
    try:
        yield
    except (Invalid, PerfguardError) as error:
        raise type(error)(place.outside(str(error))) from error


def without_place(found: Found, requested: Requested, place: Place) -> Found:
    """Return the result as it is after the temporary directory is deleted: no text and no verdict names a file in it."""
    kept = requested.output is not None
    rows = [
        replace(row, verdict=_without_place(row.verdict, place, kept), limits=tuple(map(place.outside, row.limits)))
        for row in found.rows
    ]
    remarks = list(map(place.outside, found.remarks))
    if not kept and any(row.verdict.outcome is Outcome.INVALID for row in rows):
        remarks.append("to look at the recordings of both sides, run the same command again with: --output DIR")
    return replace(found, rows=rows, remarks=remarks)


def _without_place(verdict: Verdict, place: Place, kept: bool) -> Verdict:
    return replace(
        verdict,
        recording=verdict.recording if kept else None,
        findings=tuple(replace(one, message=place.outside(one.message)) for one in verdict.findings),
        notes=tuple(map(place.outside, verdict.notes)),
    )


def with_recording(path: Path, requested: Requested, place: Place) -> Found:
    """Compare with what was recorded once: exact metrics are judged, times shown."""
    before = verdicts_of(path, requested.policy)
    here = current_side(Path.cwd())
    recorded, now = _record(here, requested, place)
    if path.is_dir() and len(now) == 1:
        # A single recording is compared whatever it is called.
        before = dict(zip(now, before.values(), strict=True))
    others = len(before.keys() - now.keys())
    before = {name: verdict for name, verdict in before.items() if name in now}
    found = _found(f"{path} → the working tree", before, now, recorded, recorded)
    if others:
        found.remarks.append(f"{others} more in {path} were not selected in the working tree")
    found = replace(found, time_off=requested.time_off)
    found.remarks.append(
        "times are shown, not judged: a stored recording cannot be run again next to the working tree (B108)"
    )
    found.rows.extend(
        Row(verdict=compare_exactly(before[name], now[name], policy=requested.policy)) for name in now if name in before
    )
    return found


def with_side(ref: str | Path | None, requested: Requested, place: Place) -> Found:
    """Compare with a side that can be run: a commit (text) in a worktree, or another environment's interpreter (a path)."""
    directory = Path.cwd().resolve()
    here = current_side(directory)
    is_same = False
    if isinstance(ref, str):
        repository = find_repository(directory)
        here = current_side(directory, repository.top)
        requested.steps.show(f"checking out {ref}")
        worktree = add_worktree(repository, ref, place)
        tree = PolicyTree(
            checkout=str(repository.top), worktree=str(worktree.top), is_of_base=requested.policy_of == "base"
        )
        requested = _with_policy(tree, directory, requested)
        here = replace(here, policy=tree)
        is_same = current_commit(repository.top) == worktree.commit
        base = base_in(worktree, here)
        sides = f"{ref} ({worktree.commit[:12]}) → the working tree"
    else:
        assert ref is not None
        base = base_on(ref, here, __version__)
        sides = f"{ref} → {here.python}"
    recorded, now = _record(here, requested, place)
    recorded_base, before = _record(base, requested, place)
    found = replace(_found(sides, before, now, recorded_base, recorded), time_off=requested.time_off)
    both = [name for name in now if name in before]
    if is_same:
        found.remarks.append(f"{ref} is checked out, and no tracked file is changed: both sides are the same")
    if here.policy is not None:
        found.remarks.extend(policy_differences(here.policy, [directory, *map(Path, recorded.directories)]))
        found.remarks.extend(line for name in both for line in _other_marker(before[name], now[name], here.policy))
    if requested.time_off:
        found.remarks.append(f"no step was timed: {requested.time_off}")
    requested.steps.restart(len(both))
    for number, name in enumerate(both, 1):
        timed = (recorded_base.timed.get(name), recorded.timed.get(name))
        label = f"{name} ({number} of {len(both)})"
        requested.steps.begin_workload(label)
        found.rows.append(_compared((base, before[name], timed[0]), (here, now[name], timed[1]), requested, place))
        requested.steps.report(1)
    if requested.accept_explained:
        _accept(found, base.directory, directory)
    return found


def _accept(found: Found, base: Path, current: Path) -> None:
    """Accept what the baselines explain; the base's are in a directory that is deleted before the report."""
    red = [row.verdict.workload for row in found.rows if row.verdict.outcome in (Outcome.FAILED, Outcome.INCONCLUSIVE)]
    done = accepted(
        base, current, red=[*red, *found.uncompared], gone=found.gone, new=found.new, alone=not (red or found.rows)
    )
    found.accepted.update(done.names)
    found.remarks.extend(done.remarks)


def _with_policy(tree: PolicyTree, directory: Path, requested: Requested) -> Requested:
    """Return the request with the settings of the side whose policy counts. Raises `Invalid` if they cannot be read."""
    try:
        settings = project_settings(find_root(directory, tree.levels(directory)), time=requested.time)
    except UsageError as error:
        if not tree.is_of_base:
            raise
        raise Invalid(
            f"the settings of the base cannot be read: {error} Name another base, or judge by the working tree's settings: "
            "--policy current"
        ) from error
    return replace(requested, policy=settings.policy, time_off=time_off(settings, requested.time))


def time_off(settings: Settings, time: str | None) -> str:
    """Return the option or the setting that switches times off; empty where they are on."""
    return "" if settings.time else "--time off" if time == "off" else 'time = "off" in [tool.perfguard]'


def _other_marker(base: Verdict, current: Verdict, tree: PolicyTree) -> Iterator[str]:
    """Yield what the markers of one test on both sides do not share: with one policy, all else is the same."""
    sides = [
        {
            "tolerance": {rule.pattern: tolerance_document(rule.tolerance) for rule in one.rules},
            "ignore": [*one.ignore],
            "changed": "fail" if one.changed_fails else "warn",
            "target": one.target,
        }
        for one in (current, base)
    ]
    for key, here in sides[0].items():
        if here != sides[1][key]:
            there = as_written(sides[1][key])
            yield f"policy: {key} of {current.workload} is {as_written(here)} here and {there} on the base; {tree.whose} counts"


def _record(side: Side, requested: Requested, place: Place) -> tuple[Recorded, dict[str, Verdict]]:
    """Record a side. Raises `Invalid` where pytest cannot run there, `UsageError` where the user's own side has no test."""
    here = side.name == "current"
    whose = "the working tree" if here else "the base"
    requested.steps.show(f"recording {whose}")
    recorded = record(
        side,
        place,
        requested.pytest_args,
        time=requested.policy.judge_time,
        timeout_s=requested.timeout_s,
        recordings=requested.output / side.name if requested.output is not None else None,
    )
    is_missing = recorded.status == _NOTHING_COLLECTED or bool(recorded.not_found)
    if here and is_missing:
        what = f"there is no {recorded.not_found[0]}" if recorded.not_found else "pytest collected no test"
        raise UsageError(f"{what}; name tests that use perfguard, such as: perfguard ab --base main -- tests/models")
    if recorded.status not in _RAN and not is_missing:
        why = next(iter(recorded.reasons.values()), f"it {recorded.last_words}")
        if here and recorded.status == _REFUSED:
            raise UsageError(f"pytest refuses this call: {recorded.last_words}")
        mend = "mend it" if here else "name another base"
        raise Invalid(f"pytest cannot run {whose}: {why}; {mend}, then run the same command again")
    if recorded.strangers:
        names = ", ".join(recorded.strangers[:3])
        raise Invalid(
            f"{whose} took {names} from elsewhere, so both sides would run the same code; "
            "install it editable (pip install -e .), or give the base an environment of its own (--base-python PATH)"
        )
    if recorded.taken:
        names = ", ".join(recorded.taken[:3])
        raise Invalid(
            f"{whose} read {names} of the working tree, of which it has another version, so both sides would be the same; "
            "let the tests find their files relative to their own (Path(__file__).parent)"
        )
    if recorded.problems and not recorded.report.is_file():
        # A full disk: what was measured is lost.
        raise CaptureError(f"{whose} could not be measured: {place.outside(recorded.problems[-1])}")
    verdicts = read_report(recorded.report) if recorded.report.is_file() else ()
    if here and not verdicts:
        why = next(iter(recorded.reasons.values()), "no test that was run uses perfguard")
        raise UsageError(f"nothing was measured here: {why}; name tests that use perfguard: perfguard ab ... -- TESTS")
    return recorded, {verdict.workload: verdict for verdict in verdicts}


def _found(sides: str, before: dict[str, Verdict], now: dict[str, Verdict], base: Recorded, current: Recorded) -> Found:
    """Return the result without rows: what only one of the sides has, and why."""
    gone = sorted(before.keys() - now.keys())
    alone = sorted(now.keys() - before.keys())
    uncompared = [name for name in alone if _node(name) in {*base.failed, *base.unreached}]
    # The row of an incomplete recording shows it.
    accounted = {_node(name) for name in gone} | {_node(name) for name, verdict in now.items() if not verdict.passed}
    unreached = sorted({*current.unreached} - accounted)
    failed = sorted(current.failed.keys() - accounted)
    remarks = [f"gone: {name} ran on the base only{_why(name, current)}" for name in gone]
    remarks += [f"failed: {node} failed here ({current.failed[node]})" for node in failed]
    remarks += [f"failed: {node} was not reached here: pytest stopped before it" for node in unreached]
    for name in uncompared:
        error = base.failed.get(_node(name))
        why = "was not reached on the base" if error is None else f"failed on the base ({error})"
        remarks.append(f"not compared: {name} {why}")
    remarks += [f"new: {name} ran here only{_why(name, base)}" for name in alone if name not in uncompared]
    return Found(
        sides=sides,
        gone=gone,
        new=[name for name in alone if name not in uncompared],
        failed=[*failed, *unreached],
        uncompared=uncompared,
        remarks=remarks,
    )


def _node(workload: str) -> str:
    """Return the test of a workload."""
    return workload_of(workload).test


def _why(workload: str, recorded: Recorded) -> str:
    """Return the reason why a side has not measured a workload, in brackets; empty without one."""
    nodeid = _node(workload)
    if nodeid in recorded.unreached:
        return " (pytest stopped before it)"
    reason = recorded.reasons.get(nodeid) or recorded.reasons.get(nodeid.partition("::")[0])
    return f" ({reason})" if reason else ""


def _compared(
    base: tuple[Side, Verdict, Timeable | None],
    current: tuple[Side, Verdict, Timeable | None],
    requested: Requested,
    place: Place,
) -> Row:
    """Compare one workload, and time it where both sides have steps that can be run again."""
    before, now = base[1], current[1]
    is_of_base = current[0].policy is not None and current[0].policy.is_of_base
    judged_as = before if is_of_base else now
    exact = compare_exactly(before, now, policy=requested.policy, judged_as=judged_as)
    if requested.time_off:
        return Row(verdict=exact)
    note = _why_not_timed(exact, base[2], current[2])
    if base[2] is None or current[2] is None or note:
        limit = f"not timed: {note}"
        return Row(verdict=replace(exact, notes=(*exact.notes, limit)), limits=(limit,))
    can_share = base[0].moved is not None
    unlike = _unlike(base[2].switches, current[2].switches)
    found = time_pairs(
        (base[0], base[2]),
        (current[0], current[2]),
        place,
        processes=requested.processes or thresholds.PAIRED_PROCESSES,
        together=can_share and not unlike,
        show=requested.steps.show,
        is_suspect=partial(is_to_be_confirmed, judged_as=judged_as, policy=requested.policy),
    )
    verdict, judged = compare_paired(
        *(before, now, found.timings, found.lost),
        policy=requested.policy,
        judged_as=judged_as,
        sensitive=requested.sensitive,
    )
    how = f"the sides set up the process differently ({', '.join(unlike)})"
    why = (f"not interleaved, as {how}; two processes took turns",) if can_share and unlike else ()
    verdict = replace(verdict, notes=(*verdict.notes, *why, *found.notes))
    return Row(verdict=verdict, paired=judged, limits=(*why, *found.limits))


def _why_not_timed(exact: Verdict, base: Timeable | None, current: Timeable | None) -> str:
    """Return the reason why a workload is not timed; empty where it can be."""
    if exact.outcome is Outcome.INVALID:
        return "a recording is incomplete"
    if exact.outcome is Outcome.INCONCLUSIVE:
        return "the two cannot be compared"
    sides = " and ".join(name for name, side in (("the base", base), ("the working tree", current)) if side is None)
    return sides and (
        f"the test of {sides} has no step that can be run again; perfguard(step) and perfguard.steps(...) have, "
        "replay, script and callback have none"
    )


def _unlike(base: dict[str, str], current: dict[str, str]) -> list[str]:
    """Return the process-wide settings that differ between the sides."""
    names = sorted(name for name in base.keys() | current.keys() if base.get(name) != current.get(name))
    return [f"{name}: {base.get(name, 'not set')} → {current.get(name, 'not set')}" for name in names]


def report(found: Found, files: Iterable[ReportFile]) -> int:
    """Print the comparison, write the files by reporter, and return the exit code."""
    shown_on = screen()
    run = RunReport(
        verdicts=tuple(row.verdict for row in found.rows),
        is_time_off=bool(found.time_off),
        remarks=(found.sides, *found.remarks),
    )
    if not shown_on.is_quiet:
        echo_line(f"perfguard ab: {found.sides}")
        for row in found.rows:
            for line in ab_lines(row.verdict, limits=row.limits, verbose=shown_on.is_verbose):
                echo(line)
    for line in found.remarks:
        echo_line(line)
    if found.rows and shown_on.is_quiet:
        echo(summary(run, shown_on))
    elif found.rows:
        rows = ab_table([(row.verdict, row.paired) for row in found.rows], shown_on)
        echo(f"\n{rows}\n\n{coverage_line(run.coverage, is_time_off=run.leaves_out_time_alone)}")
        if line := ignored_line(run.verdicts):
            echo(line)
    else:
        echo("nothing was compared: the two have no workload in common")
    for file in files:
        file.write(run)
    known = found.accepted
    outcomes = [Outcome.PASSED if one.workload in known else one.outcome for one in run.verdicts]
    # A workload that stopped running is not green, nor is a test that failed; one whose base failed is not compared.
    if found.failed or ({*found.gone} - known and outcomes):
        outcomes.append(Outcome.FAILED)
    if {*found.uncompared} - known:
        outcomes.append(Outcome.INCONCLUSIVE)
    if not outcomes and known.issuperset((*found.gone, *found.new)) and known:
        outcomes.append(Outcome.PASSED)
    return exit_code(outcomes)
