"""`perfguard check DIR`: is everything the profiler wrote there, well-formed and consistent?"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfguard.cli import options
from perfguard.cli.output import echo, echo_json, echo_line, exit_code, refuse_clash, report_files, screen
from perfguard.errors import UsageError
from perfguard.screen import is_terminal

if TYPE_CHECKING:
    from perfguard.cli.bar import Bar
    from perfguard.cli.verdicts import Place
    from perfguard.contract.reduction import Visit
    from perfguard.judge.verdict import Outcome, Verdict


@click.command(name="check")
@click.argument("directory", metavar="DIRECTORY|FILE")
@options.flag("--json", "as_json", help="Print the verdict as JSON (schema: report, one workload).")
@options.files(sarif=("--sarif", "Write the findings as SARIF 2.1.0 to a file."))
@options.flag("--explain", help="Show which layouts were recognised, why, and what is unknown.")
@options.flag("--metrics", help="Print the measurements, too.")
@click.option(
    "--expect",
    multiple=True,
    metavar="WORDS",
    help="Expected options and numbers: graph,memory,no-shapes,level1,ranks=8,cycles=2,steps=3.",
)
@click.option(
    "--layout",
    "layout_name",
    metavar="ID",
    help="Check the directory as this layout; perfguard schema list shows them.",
)
@click.option(
    "--select", multiple=True, metavar="CODES", help="Check only these codes, or beginnings of codes: A1,C101."
)
@click.option(
    "--checks",
    multiple=True,
    type=options.PATH,
    metavar="PATH",
    help="Checks of your own: a .sql file or a folder (default: `checks` in [tool.perfguard]).",
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Show findings of these codes without judging them.")
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks to check at the same time (default: as many as there are CPUs, and as is faster).",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "dask"]),
    default="local",
    help="Where ranks are checked: in processes of this machine, or by the workers of a Dask cluster.",
)
@click.option("--scheduler", metavar="ADDRESS", help="The scheduler of the Dask cluster, such as tcp://10.0.0.1:8786.")
@options.quiet("Print only verdicts, errors and warnings: no notes, no progress bar.")
@options.verbose("Print every finding, instead of ten of each code and file.")
def command(
    directory: str,
    as_json: bool,
    explain: bool,
    metrics: bool,
    expect: tuple[str, ...],
    layout_name: str | None,
    select: tuple[str, ...],
    checks: tuple[Path, ...],
    ignore: tuple[str, ...],
    jobs: int | None,
    engine: str,
    scheduler: str | None,
) -> None:
    """Check a profiler's output, or a directory of recordings.

    FILE is a file that a profiler wrote, such as a trace; it is judged alone. DIRECTORY is a path, or the URL of a file
    system that fsspec knows (s3://..., memory://..., http://...).

    Ranks are checked in parallel if that is faster; the output is the same. On a terminal, a progress bar appears on standard
    error after two seconds.

    Exit codes: 0 nothing is wrong, 2 usage, 3 something is wrong, 4 nothing here is known profiler output.
    """
    from perfguard.artifacts.layout import layout_named
    from perfguard.artifacts.remote import local_path
    from perfguard.cli.bar import Bar
    from perfguard.cli.verdicts import examined, places_in
    from perfguard.contract import expectation
    from perfguard.contract.own_checks import own_checks
    from perfguard.documents import dumps
    from perfguard.judge.tolerance import Policy
    from perfguard.reports import RunReport
    from perfguard.reports.document import report_json, verdict_document
    from perfguard.reports.github import is_a_job, job_annotations
    from perfguard.reports.terminal import checked
    from perfguard.settings import codes, project_checks

    shown_on = screen()
    if shown_on.is_quiet and (explain or metrics):
        raise UsageError("--quiet leaves out what --explain and --metrics print; take the one or the other.")
    selected = _selected(_split(select))
    own = own_checks(checks, Path.cwd()) if checks else project_checks(Path.cwd())
    ignored = codes(_split(ignore))
    policy = Policy(ignore=ignored, ignored_by=dict.fromkeys(ignored, "--ignore"), select=selected, checks=own)
    expected = expectation(expect)
    layout = layout_named(layout_name) if layout_name else None
    places = places_in(directory)
    files = report_files()
    if files:
        refuse_clash([one for one in places if isinstance(one, Path)], [file.path for file in files])
    # SARIF holds findings alone.
    is_measured = as_json or metrics or any(file.format != "sarif" for file in files)
    found_in = local_path(directory)
    how: dict[str, Any] = {
        "found_in": found_in,
        "expected": expected,
        "layout": layout,
        "measured": is_measured,
        "notes": as_json or explain,
    }
    results = _Results(keeps_verdicts=as_json or bool(files) or is_a_job())
    with Bar() as bar, _visiting(engine, jobs, scheduler, bar) as visit:
        for place in places:
            verdict = examined(place, policy, visit=visit(place), progress=bar, **how)
            results.add(verdict)
            if not as_json:
                bar.clear()
                lines = checked(verdict, explain=explain, metrics=metrics, select=selected, screen=shown_on)
                echo("\n".join(lines))
    report = RunReport(verdicts=tuple(results.verdicts))
    for file in files:
        file.write(report)
    if not (as_json or metrics or explain or shown_on.is_quiet) and (line := results.next_command(places)):
        echo_line(line)
    if as_json:
        (one, *others) = report.verdicts
        echo_json(report_json(report) if others else dumps(verdict_document(one)), nl=False)
    else:
        for line in job_annotations(report, root=Path.cwd()):
            click.echo(line)
    sys.exit(exit_code(results.outcomes))


@dataclass
class _Results:
    """What is kept of the verdicts, which are large: all of them only where they are written at the end."""

    keeps_verdicts: bool
    verdicts: list[Verdict] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    #: The codes of errors, the worst of each verdict first.
    codes: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        from perfguard.findings import Severity

        self.outcomes.append(verdict.outcome)
        self.codes += [one.code.name for one in verdict.findings if one.severity is Severity.ERROR]
        if self.keeps_verdicts:
            self.verdicts.append(verdict)

    def next_command(self, places: Sequence[Place]) -> str:
        """Return the line that says what to run next, for what a person checks: one file, or one directory on a terminal."""
        if len(places) != 1 or not isinstance(places[0], Path):
            return ""
        is_file = os.path.isfile(places[0])
        if not is_file and not is_terminal(sys.stdout):
            return ""
        place, (outcome,) = shlex.quote(str(places[0])), [one.value for one in self.outcomes]
        if outcome == "INVALID" and self.codes:
            return f"next: perfguard codes {self.codes[0]}  (the cause and the fix)"
        if outcome == "INCONCLUSIVE":
            return f"next: perfguard check {place} --explain  (what was recognised, and what is unknown)"
        if is_file:
            return f"next: perfguard check {place} --metrics  (what is measured in it)"
        return f"next: perfguard view {place}  (its page)"


@contextmanager
def _visiting(name: str, jobs: int | None, scheduler: str | None, bar: Bar) -> Iterator[Callable[[Place], Visit]]:
    """Give what has the cycles of a place inspected: by the engine of that name."""
    from perfguard.artifacts.remote import RemoteTree
    from perfguard.contract.reduction import distributed, in_parallel
    from perfguard.engines import engine_named

    if name == "local" and scheduler is None:

        def here(place: Place) -> Visit:
            is_alone = isinstance(place, RemoteTree) and place.is_of_one_process
            return partial(in_parallel, jobs=1 if is_alone else jobs, progress=bar)

        yield here
        return
    engine = engine_named(name, jobs, scheduler)

    def visit(place: Place) -> Visit:
        if isinstance(place, Path):
            engine.require_access(str(place.resolve()))
        elif place.is_of_one_process:
            raise UsageError(f"{place.shown} is in the memory of this process; leave --engine {name} out.")
        return partial(distributed, engine=engine, progress=bar)

    with closing(engine):
        yield visit


def _split(values: tuple[str, ...]) -> list[str]:
    """Return `("A1,C203", "S")` as three."""
    return [part.strip() for value in values for part in value.split(",")]


def _selected(names: list[str]) -> tuple[str, ...]:
    """Check the codes of `--select`; raises `UsageError` for those that only a comparison comes to."""
    from perfguard.settings import codes

    found = codes(names, use="select")
    if never := [name for name in found if name.startswith(("B", "R"))]:
        raise UsageError(
            f"check never finds {', '.join(never)}, because it compares with nothing; "
            "select codes of A, S, I, C and U, or use: perfguard compare BASE CURRENT"
        )
    return found
