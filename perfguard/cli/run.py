"""`perfguard run -- COMMAND`: run an unmodified script under the profiler, and judge what came out."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfguard.cli import options
from perfguard.cli.output import echo, exit_code, report_files, screen
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfguard.judge.verdict import Verdict

_SHOWN_OPERATORS = 10


@click.command(name="run", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--backend", metavar="NAME", help="Framework of the script: mindspore or torch (default: the one that trains)."
)
@click.option(
    "--window",
    metavar="START:STOP",
    help="Profile these steps; the first is 1, STOP is included (default: the whole run).",
)
@click.option("--python", type=options.PATH, help="The Python that runs the script; it needs no perfguard.")
@click.option("--launcher", metavar="NAME", help="Start the ranks with msrun or torchrun.")
@click.option("--ranks", type=int, default=1, show_default=True, help="Number of ranks on this machine.")
@click.option(
    "--option",
    "pairs",
    multiple=True,
    metavar="KEY=JSON",
    help="An option of MindSpore's profiler, such as profile_memory=true.",
)
@click.option("--graphs", type=int, metavar="LEVEL", help="Save and judge the graphs MindSpore compiles: 1, 2 or 3.")
@options.timeout("Stop the script after this time.")
@options.path("--output", metavar="DIR", help="Keep the recording in this new or empty directory.")
@click.option("--name", metavar="WORKLOAD", help="Name of the baseline (default: the script and its arguments).")
@options.baselines()
@options.flag("--update", help="Write the baseline instead of judging against it.")
@click.option(
    "--reason",
    metavar="TEXT",
    help="Why the baseline changes; stored in it. Needed if something got slower, or uses more.",
)
@options.files(json=("--report", "Write everything to a JSON file."))
@options.time
@options.quiet("Print only the verdict and what is not green.")
@options.verbose("Print every finding and every operator.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def command(
    command: tuple[str, ...],
    backend: str | None,
    window: str | None,
    pairs: tuple[str, ...],
    output: Path | None,
    name: str | None,
    baselines: Path | None,
    update: bool,
    reason: str | None,
    time: str | None,
    **how: Any,
) -> None:
    """Run a script under its framework's profiler, and judge it.

    The recording is compared with its baseline. The command's output is not changed.

    Exit codes: that of the command if it fails; else 0 passed, 1 regression, 2 usage, 3 the recording is incomplete or
    wrong, 4 there is no baseline to compare with.
    """
    from perfguard.capture.checkout import measured_commit, provenance
    from perfguard.capture.script import Script, run_script
    from perfguard.cli.project import project_settings
    from perfguard.gate import Update, judge_with_store, refresh
    from perfguard.judge.refresh import Refresh
    from perfguard.recording import RECORDING_FILE
    from perfguard.reports import RunReport
    from perfguard.scratch import kept_folder, remove_tree
    from perfguard.stores.project import store_of
    from perfguard.window import StepWindow

    reports = report_files()
    settings = project_settings(time=time, baselines=baselines)
    script = Script(
        command=command,
        backend=backend or settings.backend,
        window=None if window is None else StepWindow.from_text(window),
        options=dict(_options(pairs)),
        **how,
    )
    workload = name or _workload(command, settings.root)
    store = store_of(settings)
    place = output if output is not None else kept_folder("perfguard-run-", RECORDING_FILE)
    try:
        run = run_script(script, workload=workload, directory=place)
    except UsageError:
        if output is None:
            remove_tree(place)
        raise
    doing = Update.ALL if update else Update.NOTHING
    verdict = judge_with_store(run.recording, store, workload=workload, policy=settings.policy, update=doing)
    if verdict.refresh is Refresh.DUE:
        commit = measured_commit(settings.root, store.path(workload).parent)
        verdict = refresh(verdict, store, policy=settings.policy, update=doing, commit=commit, reason=reason)
    # Standard output is the script's.
    for line in (*_lines(verdict), *run.notes, f"recording: {place}"):
        echo(f"perfguard: {line}" if line else "", err=True)
    for line in _next_commands(verdict):
        echo(f"perfguard: {line}", err=True)
    for file in reports:
        file.write(RunReport(verdicts=(verdict,), provenance=provenance(settings.root, os.environ)))
    # A script that was stopped for its time did not fail by itself.
    status = 0 if run.ended.timed_out else run.ended.status
    sys.exit(status or exit_code([verdict.outcome]))


def _next_commands(verdict: Verdict) -> Iterator[str]:
    """Yield the commands that store what was measured."""
    from perfguard.findings import Code
    from perfguard.judge.refresh import Refresh

    codes = {finding.code for finding in verdict.findings}
    if Code.B101 in codes:
        yield f"store this as the baseline with: {_again('--update')}"
    if verdict.refresh is Refresh.REFUSED and codes & {Code.B110, Code.B112}:
        # What refuses a refresh unless the user says why.
        yield f"store it all the same with: {_again('--reason', '...')}"


def _again(*options: str) -> str:
    """Return the command of this run with more options."""
    return shlex.join(["perfguard", "run", *options, *sys.argv[sys.argv.index("run") + 1 :]])


def _workload(command: tuple[str, ...], root: Path) -> str:
    """Return `train.py::--epochs 2` for `python train.py --epochs 2`: a baseline belongs to a script and its arguments."""
    words = list(command)
    if Path(words[0]).name.startswith("python"):
        del words[0]
        while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
            # What the interpreter is told, such as -u or -X dev, is no part of the name.
            del words[: 2 if words[0] in ("-W", "-X") else 1]
        if words[:1] == ["-m"]:
            del words[0]
    words = words or list(command)
    path = Path(words[0]).absolute()
    first = path.relative_to(root).as_posix() if path.is_file() and path.is_relative_to(root) else words[0]
    return f"{first}::{shlex.join(words[1:])}" if len(words) > 1 else first


def _options(texts: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Read `profile_memory=true`, `profiler_level=Level1`: JSON, or a plain word."""
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--option {text} is no option; write KEY=VALUE, such as --option profile_memory=true.")
        try:
            yield key, json.loads(value)
        except ValueError:
            yield key, value


def _of_this_command(line: str) -> str:
    """Return a line with the options of `perfguard run`, which have the names of pytest's without `perfguard-`."""
    return line.replace("pytest --perfguard ", "perfguard run ").replace("--perfguard-", "--")


def _lines(verdict: Verdict) -> Iterator[str]:
    """Word the verdict: what is wrong or worse first, then what was measured; quiet, only what is not green."""
    from dataclasses import replace

    from perfguard.judge.verdict import Outcome
    from perfguard.measure.measurement import number
    from perfguard.reports import terminal
    from perfguard.screen import printable

    shown_on = screen(err=True)
    yield f"{terminal.result(verdict)} {printable(verdict.workload)}"
    most = terminal.most_shown(shown_on.is_verbose)
    if not (shown_on.is_quiet and verdict.passed):
        yield from (f"  {_of_this_command(line)}" for line in terminal.finding_lines(verdict.findings, most=most))
        yield from (f"  {line}" for line in terminal.change_lines(verdict.changes, most=most))
    if line := terminal.ignored_line([verdict]):
        yield line
    if verdict.outcome is Outcome.INVALID or shown_on.is_quiet:
        return
    timed = (m for m in verdict.measurements if m.metric in ("operator_time", "kernel_time"))
    times = sorted(timed, key=lambda m: -(number(m.value) or 0.0))
    whole = ("steps", "step_time", "peak_memory_bytes", "memory_allocated_bytes", "memory_growth_bytes")
    shown = len(times) if shown_on.is_verbose else _SHOWN_OPERATORS
    told = [m for m in verdict.measurements if m.metric in whole] + times[:shown]
    width = None if shown_on.width is None else shown_on.width - len("perfguard:   ")
    yield from (f"  {line}" for line in terminal.measurement_rows(told, replace(shown_on, width=width)).splitlines())
    if len(times) > shown:
        yield f"  and {len(times) - shown} more operators: perfguard ops {verdict.recording}"
    if verdict.comparisons:
        yield terminal.coverage_line(verdict.coverage)
