"""`perfguard ab`: two sides of one model, measured beside each other in one session."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfguard.cli.bar import Steps
from perfguard.cli.exits import EXIT_INVALID, exit_code
from perfguard.cli.output import file_options, report_files
from perfguard.cli.project import project_settings, time_option
from perfguard.cli.screen import QUIET, VERBOSE, echo, quiet_option, screen, verbose_option
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfguard.capture.ab.pytest_run import Recorded, Timeable
    from perfguard.capture.ab.sides import Side
    from perfguard.capture.ab.timing import Say
    from perfguard.capture.worktree import Place
    from perfguard.judge import Paired, Policy, Verdict
    from perfguard.reports.files import ReportFile
    from perfguard.screen import Screen

#: pytest: tests passed, tests failed, no test was collected.
_RAN = (0, 1)
_NOTHING_COLLECTED = 5
#: ... and the call itself was wrong.
_REFUSED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the user asked for."""

    policy: Policy
    arguments: tuple[str, ...]
    sensitive: bool
    processes: int | None
    timeout_s: float
    output: Path | None
    #: What switched times off; empty where they are on.
    time_off: str
    #: Told what is being done, for a terminal.
    steps: Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What the comparison came to: a row a workload that both sides have, and sentences about all else."""

    sides: str
    rows: list[tuple[Verdict, Paired | None]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    #: Tests that use perfguard and failed here, and workloads whose base failed.
    failed: list[str] = field(default_factory=list)
    uncompared: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)


class _Invalid(Exception):
    """A side that cannot be run at all, in one sentence."""


@click.command(name="ab", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--base", "ref", metavar="REF", help="A commit, branch or tag: it is checked out beside your checkout.")
@click.option(
    "--base-python",
    "python",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Another environment's Python, for the same files; it needs this perfguard.",
)
@click.option(
    "--base-recording",
    "recording",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A recording's directory, or a file of --perfguard-report: exact metrics only, times are shown.",
)
@click.option("--sensitive", is_flag=True, help="Fail beyond +3 % instead of +5 %: a false alarm or two in a hundred.")
@click.option(
    "--processes", type=int, metavar="N", help="How many processes run both sides, step by step (default: 5)."
)
@time_option
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="Limit for pytest, on each side.",
)
@file_options(
    json=("--report", "Write the comparison to a JSON file."),
    markdown=("--markdown", "Write it for a pull request's comment."),
)
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Keep both sides' recordings here.")
@quiet_option(QUIET)
@verbose_option(VERBOSE)
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def command(
    ref: str | None,
    python: Path | None,
    recording: Path | None,
    sensitive: bool,
    processes: int | None,
    time: str | None,
    timeout_s: float,
    output: Path | None,
    quiet: bool,
    verbose: bool,
    pytest_args: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare the working tree with a base, in one session.

    Example: perfguard ab --base main -- tests/models -k mlp

    Exact metrics of both sides are compared, and the steps of both are timed beside each other. Exit codes: 0 passed,
    1 regression, 2 usage, 3 one of the two is invalid, 4 nothing could be compared.
    """
    from perfguard.capture.worktree import guarded_place

    shown_on = screen(quiet=quiet, verbose=verbose)
    _refuse(ref, python, recording, sensitive, processes, pytest_args)
    files = report_files(options)
    settings = project_settings(time=time)
    off = "--time off" if time == "off" else 'time = "off" in [tool.perfguard]'
    asked = _Asked(
        policy=settings.policy,
        arguments=pytest_args,
        sensitive=sensitive,
        processes=processes,
        timeout_s=timeout_s,
        output=output.absolute() if output is not None else None,
        time_off="" if settings.time else off,
        steps=Steps(is_wanted=not quiet),
    )
    try:
        with guarded_place() as place, asked.steps:
            side = ref if ref is not None else python
            found = (
                _with_recording(recording, asked, place) if recording is not None else _with_side(side, asked, place)
            )
    except _Invalid as error:
        from perfguard.reports.names import printable

        echo(f"INVALID: {printable(str(error))}", shown_on)
        sys.exit(EXIT_INVALID)
    sys.exit(_tell(found, asked, files, shown_on))


def _refuse(
    ref: str | None,
    python: Path | None,
    recording: Path | None,
    sensitive: bool,
    processes: int | None,
    pytest_args: tuple[str, ...],
) -> None:
    """Refuse a call that means nothing. Raises `UsageError`."""
    from perfguard import thresholds

    if sum(one is not None for one in (ref, python, recording)) != 1:
        raise UsageError(
            "perfguard ab needs one base to compare with: --base REF, --base-python PATH or --base-recording PATH."
        )
    least = thresholds.FEWEST_RUNS
    if processes is not None and not least <= processes <= thresholds.MOST_BASELINE_RUNS:
        raise UsageError(
            f"--processes must be {least} to {thresholds.MOST_BASELINE_RUNS}, got {processes}: "
            "fewer cannot tell noise from a change. Leave it out for 5."
        )
    if ref is None and (sensitive or processes is not None):
        option = "--sensitive" if sensitive else "--processes"
        raise UsageError(f"{option} needs both sides in one process, so it works with --base REF only; leave it out.")
    own = next((one for one in pytest_args if one.startswith("--perfguard")), None)
    if own is not None:
        raise UsageError(f"perfguard ab sets {own.partition('=')[0]} itself; leave it out (see perfguard ab --help).")


def _with_recording(path: Path, asked: _Asked, place: Place) -> _Found:
    """Compare with what was recorded once: exact metrics are judged, times shown."""
    from perfguard.capture.ab.sides import current_side
    from perfguard.cli.compare import verdicts_of
    from perfguard.gate import compare_exactly

    before = verdicts_of(path, asked.policy)
    here = current_side(Path.cwd())
    recorded, now = _record(here, asked, place)
    if path.is_dir() and len(now) == 1:
        # A single recording is compared whatever it is called.
        before = dict(zip(now, before.values(), strict=True))
    others = len(before.keys() - now.keys())
    before = {name: verdict for name, verdict in before.items() if name in now}
    found = _found(f"{path} → the working tree", before, now, recorded, recorded)
    if others:
        found.told.append(f"{others} more in {path} were not selected in the working tree")
    found.told.append(
        "times are shown, not judged: a stored recording cannot be run again beside the working tree (B108)"
    )
    found.rows.extend(
        (compare_exactly(before[name], now[name], policy=asked.policy), None) for name in now if name in before
    )
    return found


def _with_side(ref: str | Path | None, asked: _Asked, place: Place) -> _Found:
    """Compare with a side that can be run: a commit (text) in a worktree, or another environment's interpreter (a path)."""
    from functools import partial

    from perfguard.capture.ab.sides import base_in, base_on, current_side
    from perfguard.capture.worktree import add_worktree, find_repository
    from perfguard.version import __version__

    directory = Path.cwd().resolve()
    here = current_side(directory)
    if isinstance(ref, str):
        repository = find_repository(directory)
        here = current_side(directory, repository.top)
        asked.steps.say(f"checking out {ref}")
        worktree = add_worktree(repository, ref, place)
        base = base_in(worktree, here)
        sides = f"{ref} ({worktree.commit[:12]}) → the working tree"
    else:
        assert ref is not None
        base = base_on(ref, here, __version__)
        sides = f"{ref} → {here.python}"
    recorded, now = _record(here, asked, place)
    recorded_base, before = _record(base, asked, place)
    found = _found(sides, before, now, recorded_base, recorded)
    if asked.time_off:
        found.told.append(f"no step was timed: {asked.time_off}")
    both = [name for name in now if name in before]
    asked.steps.begin_anew(len(both))
    for number, name in enumerate(both, 1):
        timed = (recorded_base.timed.get(name), recorded.timed.get(name))
        say = partial(_say, asked.steps, f"{name} ({number} of {len(both)})")
        found.rows.append(_compared((base, before[name], timed[0]), (here, now[name], timed[1]), asked, place, say))
        asked.steps.report(1)
    return found


def _record(side: Side, asked: _Asked, place: Place) -> tuple[Recorded, dict[str, Verdict]]:
    """Record a side. Raises `_Invalid` where pytest cannot run there, `UsageError` where the user's own side has no test."""
    from perfguard.capture.ab.pytest_run import record
    from perfguard.reports.reading import read_report

    here = side.name == "current"
    whose = "the working tree" if here else "the base"
    asked.steps.say(f"recording {whose}")
    recorded = record(
        side,
        place,
        asked.arguments,
        time=asked.policy.judge_time,
        timeout_s=asked.timeout_s,
        recordings=asked.output / side.name if asked.output is not None else None,
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
        raise _Invalid(f"pytest cannot run {whose}: {why}; {mend}, then run the same command again")
    if recorded.strangers:
        names = ", ".join(recorded.strangers[:3])
        raise _Invalid(
            f"{whose} took {names} from elsewhere, so both sides would run the same code; "
            "install it editable (pip install -e .), or give the base an environment of its own (--base-python PATH)"
        )
    verdicts = read_report(recorded.report) if recorded.report.is_file() else ()
    if here and not verdicts:
        why = next(iter(recorded.reasons.values()), "no test that was run uses perfguard")
        raise UsageError(f"nothing was measured here: {why}; name tests that use perfguard: perfguard ab ... -- TESTS")
    return recorded, {verdict.workload: verdict for verdict in verdicts}


def _found(
    sides: str, before: dict[str, Verdict], now: dict[str, Verdict], base: Recorded, current: Recorded
) -> _Found:
    """Say what only one of the sides has, and why."""
    gone = sorted(before.keys() - now.keys())
    alone = sorted(now.keys() - before.keys())
    uncompared = [name for name in alone if _node(name) in {*base.failed, *base.unreached}]
    # Of a capture that is not whole the row says so.
    accounted = {_node(name) for name in gone} | {_node(name) for name, verdict in now.items() if not verdict.passed}
    unreached = sorted({*current.unreached} - accounted)
    failed = sorted(current.failed.keys() - accounted)
    told = [f"gone: {name} ran on the base only{_why(name, current)}" for name in gone]
    told += [f"failed: {node} failed here ({current.failed[node]})" for node in failed]
    told += [f"failed: {node} was not reached here: pytest stopped before it" for node in unreached]
    told += [
        f"not compared: {name} "
        + (
            f"failed on the base ({base.failed[node]})"
            if (node := _node(name)) in base.failed
            else "was not reached on the base"
        )
        for name in uncompared
    ]
    told += [f"new: {name} ran here only{_why(name, base)}" for name in alone if name not in uncompared]
    return _Found(sides=sides, gone=gone, failed=[*failed, *unreached], uncompared=uncompared, told=told)


def _node(workload: str) -> str:
    """Return the test of a workload."""
    from perfguard.workload import workload_of

    return workload_of(workload).test


def _why(workload: str, recorded: Recorded) -> str:
    """Say why a side has not measured a workload, where it tried."""
    nodeid = _node(workload)
    if nodeid in recorded.unreached:
        return " (pytest stopped before it)"
    file = nodeid.partition("::")[0]
    reason = recorded.reasons.get(nodeid) or recorded.reasons.get(file)
    return f" ({reason})" if reason else ""


def _compared(
    base: tuple[Side, Verdict, Timeable | None],
    current: tuple[Side, Verdict, Timeable | None],
    asked: _Asked,
    place: Place,
    say: Say,
) -> tuple[Verdict, Paired | None]:
    """Compare one workload, and time it where both sides have steps that can be run again."""
    from dataclasses import replace
    from functools import partial

    from perfguard import thresholds
    from perfguard.capture.ab.timing import time_pairs
    from perfguard.gate import compare_exactly, compare_paired, is_to_be_confirmed
    from perfguard.judge import Outcome

    before, now = base[1], current[1]
    exact = compare_exactly(before, now, policy=asked.policy)
    if asked.time_off:
        return exact, None
    if exact.outcome in (Outcome.INVALID, Outcome.INCONCLUSIVE):
        why = "a recording is not whole" if exact.outcome is Outcome.INVALID else "the two cannot be compared"
        return replace(exact, notes=(*exact.notes, f"not timed: {why}")), None
    if base[2] is None or current[2] is None:
        return replace(exact, notes=(*exact.notes, _without_steps(base[2], current[2]))), None
    can_share = base[0].moved is not None
    unlike = _unlike(base[2].switches, current[2].switches)
    found = time_pairs(
        (base[0], base[2]),
        (current[0], current[2]),
        place,
        processes=asked.processes or thresholds.PAIRED_PROCESSES,
        together=can_share and not unlike,
        say=say,
        is_suspect=partial(is_to_be_confirmed, current=now, policy=asked.policy),
    )
    verdict, judged = compare_paired(
        before, now, found.timings, found.lost, policy=asked.policy, sensitive=asked.sensitive
    )
    why = (
        f"not interleaved, as the sides set up the process differently ({', '.join(unlike)}); two processes took turns"
    )
    notes = (why, *found.notes) if can_share and unlike else found.notes
    return replace(verdict, notes=(*verdict.notes, *notes)), judged


def _without_steps(base: Timeable | None, current: Timeable | None) -> str:
    """Say which side's test has no step that a process of its own could run again."""
    sides = " and ".join(name for name, side in (("the base", base), ("the working tree", current)) if side is None)
    return (
        f"not timed: the test of {sides} has no step that can be run again; perfguard(step) and perfguard.steps(...) have, "
        "replay, script and callback have none"
    )


def _unlike(base: dict[str, str], current: dict[str, str]) -> list[str]:
    """Say what the sides have set for the whole process, each otherwise than the other."""
    names = sorted(name for name in base.keys() | current.keys() if base.get(name) != current.get(name))
    return [f"{name}: {base.get(name, 'not set')} → {current.get(name, 'not set')}" for name in names]


def _say(steps: Steps, workload: str, what: str) -> None:
    steps.say(f"{workload}: {what}")


# -- telling -----------------------------------------------------------------------------------------------------------


def _tell(found: _Found, asked: _Asked, files: Iterable[ReportFile], shown_on: Screen) -> int:
    """Print the comparison, write the files by reporter, and return the exit code."""
    from perfguard.judge import Outcome
    from perfguard.reports import RunReport
    from perfguard.reports.ab import ab_lines, ab_table
    from perfguard.reports.names import printable
    from perfguard.reports.terminal import coverage_line, summary

    run = RunReport(
        verdicts=tuple(verdict for verdict, _ in found.rows),
        is_time_off=bool(asked.time_off),
        remarks=(found.sides, *found.told),
    )
    if not shown_on.is_quiet:
        echo(f"perfguard ab: {printable(found.sides)}", shown_on)
        for verdict, _ in found.rows:
            for line in ab_lines(verdict, verbose=shown_on.is_verbose):
                echo(line, shown_on)
    for line in found.told:
        echo(printable(line), shown_on)
    if found.rows and shown_on.is_quiet:
        echo(summary(run, shown_on), shown_on)
    elif found.rows:
        echo(
            f"\n{ab_table(found.rows, shown_on)}\n\n{coverage_line(run.coverage, is_time_off=run.is_time_off)}",
            shown_on,
        )
    else:
        echo("nothing was compared: the two have no workload in common", shown_on)
    for file in files:
        file.write(run)
    outcomes = [verdict.outcome for verdict in run.verdicts]
    # A workload that stopped running is not green, nor is a test that failed; one whose base failed is not compared.
    if found.failed or (found.gone and outcomes):
        outcomes.append(Outcome.FAILED)
    if found.uncompared:
        outcomes.append(Outcome.INCONCLUSIVE)
    return exit_code(outcomes)
