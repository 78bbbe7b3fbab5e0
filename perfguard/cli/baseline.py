"""`perfguard baseline refresh | show | diff | move | prune`: look after the stored baselines."""

from __future__ import annotations

import os
import posixpath
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.output import Exit, echo, echo_line, exit_code, screen
from perfguard.errors import UsageError, counted, nearest

if TYPE_CHECKING:
    from perfguard.stores import Store


@click.group(name="baseline", cls=options.CommandGroup)
def command() -> None:
    """Show, write, rename and delete baselines."""


@command.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--reason",
    metavar="TEXT",
    help="Why the baselines change; stored in them. Needed if something got slower, or uses more.",
)
@options.flag("--new-only", help="Create missing baselines, and judge existing ones.")
@options.flag("--ratchet", help="Judge, and store what got better beyond its tolerance.")
@click.option("--runs", metavar="N", type=int, help="Number of processes that measure the times (default: 5).")
@options.pytest_args
def refresh(reason: str | None, new_only: bool, ratchet: bool, runs: int | None, pytest_args: tuple[str, ...]) -> None:
    """Run pytest and write baselines.

    Everything after the options goes to pytest.
    """
    from perfguard import scratch
    from perfguard.capture.command import PYTEST, run_command
    from perfguard.judge.verdict import Outcome
    from perfguard.reports.reading import read_report

    if new_only and ratchet:
        raise UsageError("--new-only and --ratchet contradict each other; give one of them.")
    mode = "--perfguard-ratchet" if ratchet else f"--perfguard-update{'-new-only' if new_only else ''}"
    arguments = [*PYTEST, "--perfguard", mode]
    if reason:
        arguments.append(f"--perfguard-reason={reason}")
    if runs is not None:
        arguments.append(f"--perfguard-runs={runs}")
    with scratch.folder() as directory:
        report = directory / "report.json"
        if not any(one.startswith("--perfguard-report") for one in pytest_args):
            arguments.append(f"--perfguard-report={report}")
        command = [*arguments, *pytest_args]
        ended = run_command(command, environment=os.environ, mark="PERFGUARD_REFRESH", timeout_s=None)
        outcomes = [verdict.outcome for verdict in read_report(report)] if report.is_file() else []
    if ended.status == 1 and Outcome.INVALID in outcomes:
        sys.exit(Exit.INVALID)
    # pytest: 0 passed, 1 tests failed, 2 interrupted, 3 internal error, 4 usage, 5 no tests.
    sys.exit({0: Exit.PASSED, 1: Exit.REGRESSION, 5: Exit.NOTHING}.get(ended.status, Exit.USAGE))


@command.command()
@click.argument("workload", required=False)
@options.baselines()
@options.verbose(options.WIDE)
def show(workload: str | None, baselines: Path | None) -> None:
    """List the baselines, or print one.

    It shows what is stored, from which commit and machine.
    """
    from perfguard.cli.project import open_baselines
    from perfguard.reports.terminal import baseline_rows, measurement_rows

    store, _ = open_baselines(baselines, workload)
    if workload is None:
        stored = [found for name in store.workloads() if (found := store.load(name)) is not None]
        echo(baseline_rows(stored, screen()))
        sys.exit(Exit.PASSED if stored else Exit.NOTHING)
    name = _named(store, workload)
    found = store.load(name)
    assert found is not None
    assert found.fingerprint is not None
    assert found.environment is not None
    head = f"{name}: {counted(found.runs, 'run')}, commit {found.commit or '-'}, reason {found.reason or '-'}"
    echo_line(head)
    for key, value in {**found.fingerprint.as_dict(), **found.environment.as_dict()}.items():
        if key != "workload":
            echo_line(f"  {key}: {value}")
    echo(measurement_rows(found.measurements, screen()))


@command.command()
@click.argument("report", type=options.PATH)
@options.baselines()
@options.ledger
@options.quiet()
@options.verbose()
def diff(report: Path, baselines: Path | None, ledger: bool) -> None:
    """Show how a report differs from the stored baselines.

    Exit codes: 0 passed, 1 regression, 2 usage, 3 a recording is invalid, 4 nothing could be compared.
    """
    from perfguard.cli.project import open_baselines
    from perfguard.gate import judge_again
    from perfguard.judge.verdict import Outcome
    from perfguard.reports import RunReport
    from perfguard.reports.reading import read_report
    from perfguard.reports.terminal import compared_lines, summary

    shown_on = screen()
    store, settings = open_baselines(baselines)
    verdicts = [judge_again(v, store.load(v.workload), policy=settings.policy) for v in read_report(report)]
    if not shown_on.is_quiet:
        sides = "baseline → now" if shown_on.is_verbose else ""
        for verdict in verdicts:
            echo("\n".join(compared_lines(verdict, shown_on, ledger=ledger, sides=sides)))
        click.echo("")
    echo(summary(RunReport(verdicts=tuple(verdicts)), shown_on, told=True))
    sys.exit(exit_code([verdict.outcome for verdict in verdicts] or [Outcome.INCONCLUSIVE]))


@command.command()
@click.argument("old")
@click.argument("new")
@options.baselines()
def move(old: str, new: str, baselines: Path | None) -> None:
    """Rename the baselines of a renamed test, file or directory.

    OLD and NEW are a test (`tests/test_a.py::test_b`, whose parameters and named measurements move along), a test file,
    or a directory of tests, as `perfguard baseline show` names them. The numbers stay as they are. A calibration beside
    the baselines is renamed as well. A history keeps the old names: trends start again under the new ones.

    Exit codes: 0 moved, 2 usage, nothing was moved.
    """
    from perfguard.cli.project import open_baselines
    from perfguard.stores.calibration import move_calibration
    from perfguard.workload import moved

    store, settings = open_baselines(baselines)
    old, new = _place(old), _place(new)
    with store.locked():
        names = store.workloads()
        found = moved(names, old, new)
        # Read before anything is written: a damaged file stops the move as a whole.
        stored = {name: store.load(name) for name in found}
        taken = [to for name, to in found.items() if to in names and not _is_moved(store, name, to)]
        _refuse_move(old, new, names, found, taken)
        has_calibration = move_calibration(settings.baselines_directory, found)
        for name, baseline in stored.items():
            assert baseline is not None
            store.save(baseline.named(found[name]))
            store.delete(name)
            echo_line(f"moved: {name} → {found[name]}")
    echo(f"{counted(len(found), 'baseline')} moved{', and their calibration' if has_calibration else ''}")


@command.command()
@options.baselines()
@options.yes
@click.argument("workloads", nargs=-1)
def prune(baselines: Path | None, yes: bool, workloads: tuple[str, ...]) -> None:
    """Delete the named baselines, or those without a test file."""
    from perfguard.cli.project import open_baselines
    from perfguard.settings import has_test_file

    doomed: dict[str, Store] = {}
    for workload in workloads:
        store, _ = open_baselines(baselines, workload)
        doomed[_named(store, workload)] = store
    if not workloads:
        store, settings = open_baselines(baselines)
        names = store.workloads()
        unused = [name for name in names if not has_test_file(settings.root, name)]
        if unused and unused == names:
            raise UsageError(
                f"No baseline has its test file below {settings.root}, so their names begin at another directory; "
                "run this where pytest runs, or name the workloads to delete."
            )
        doomed = dict.fromkeys(unused, store)
    for name in doomed:
        echo_line(f"{'delete' if workloads else 'unused'}: {name}")
    if not doomed:
        echo("nothing to prune: the file of every baseline's test exists; name a workload to delete its baseline")
        return
    options.confirm_deletion(counted(len(doomed), "baseline"), yes=yes)
    for name, store in doomed.items():
        with store.locked():
            store.delete(name)
    echo(f"{len(doomed)} deleted")


def _place(text: str) -> str:
    """Return a test, file or directory as baselines are named. Raises `UsageError` for one outside of their tree."""
    path, separator, test = text.partition("::")
    path = posixpath.normpath(path)
    if path.startswith(("/", "..")) or path == ".":
        raise UsageError(f"{text!r} is no test, file or directory as baselines are named; see: perfguard baseline show")
    return f"{path}{separator}{test}"


def _kind(place: str) -> str:
    return "a test" if "::" in place else "a file" if place.endswith(".py") else "a directory"


def _is_moved(store: Store, old: str, new: str) -> bool:
    """Whether a move that was killed has written a baseline under its new name, and not yet deleted the old one."""
    stored = store.load(old)
    return old != new and stored is not None and store.load(new) == stored.named(new)


def _refuse_move(old: str, new: str, names: list[str], found: dict[str, str], taken: list[str]) -> None:
    """Refuse a move that has nothing to move, or would overwrite a baseline. Raises `UsageError`."""
    from perfguard.workload import places

    if not found:
        known = dict.fromkeys(place for name in names for place in places(name))
        ending = [place for place in known if place.endswith((f"::{old}", f"/{old}"))]
        hint = f"did you mean {ending[0]!r}?" if ending else ""
        hint = hint or nearest(old, known, otherwise="list them with: perfguard baseline show")
        raise UsageError(f"There is no baseline of {old!r}; {hint}")
    if _kind(old) != _kind(new):
        raise UsageError(f"{old!r} is {_kind(old)}, and {new!r} is {_kind(new)}; name two of one kind.")
    if taken:
        more = f" (and {len(taken) - 1} more)" if len(taken) > 1 else ""
        raise UsageError(
            f"{min(taken)!r}{more} has a baseline already, so nothing was moved; "
            f"to see which of the two is right: perfguard baseline show {shlex.quote(min(taken))}"
        )


def _named(store: Store, workload: str) -> str:
    """Return the one workload a name means: exactly, or as the last parts of its id (`test_mlp`, `test_torch.py::test_mlp`)."""
    names = store.workloads()
    if workload in names:
        return workload
    last = workload.lstrip(":/")
    ending = [name for name in names if last and name.endswith((f"::{last}", f"/{last}"))]
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise UsageError(f"{workload!r} names {len(ending)} baselines: {', '.join(ending)}; give one of these.")
    hint = nearest(workload, names, otherwise="list them with: perfguard baseline show")
    raise UsageError(f"There is no baseline of {workload!r}; {hint}")
