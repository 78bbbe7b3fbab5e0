"""`perfguard ab`: two sides of one model, measured in one session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from perfguard.cli import options
from perfguard.cli.output import Exit, echo_line, report_files
from perfguard.errors import UsageError


@click.command(name="ab", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--base", "ref", metavar="REF", help="A commit, branch or tag; it is checked out in a temporary worktree."
)
@options.path(
    *("--base-python", "python"),
    metavar="PATH",
    help="Another environment's Python, for the same files; it needs this perfguard.",
)
@options.path(
    *("--base-recording", "recording"),
    metavar="PATH",
    help="A recording, or a file of --perfguard-report: exact metrics are compared, times are only shown.",
)
@options.flag(
    "--accept-explained",
    help="With --base: accept what is worse if the baseline of that workload holds a reason that is new since the base.",
)
@options.flag("--sensitive", help="Fail beyond +3 % instead of +5 %; one or two false alarms in a hundred.")
@click.option(
    "--processes", type=int, metavar="N", help="Number of processes that run both sides, step by step (default: 5)."
)
@options.time
@options.timeout("Time limit of pytest, for each side.", default=1800.0)
@options.files(
    json=("--report", "Write the comparison to a JSON file."),
    markdown=("--markdown", "Write the comparison in Markdown, for a comment on a pull request."),
)
@click.option(
    "--policy",
    "policy_of",
    type=click.Choice(["base", "current"]),
    default="base",
    help="Whose [tool.perfguard] and markers count, with --base REF (default: the base's).",
)
@options.path("--output", metavar="DIR", help="Keep the recordings of both sides in this directory.")
@options.quiet()
@options.verbose()
@options.pytest_args
def command(
    ref: str | None, python: Path | None, recording: Path | None, time: str | None, output: Path | None, **how: Any
) -> None:
    """Compare the working tree with a base, in one session.

    Example: perfguard ab --base main -- tests/models -k mlp

    Exact metrics of both sides are compared, and the steps of both are timed in pairs. The settings and markers of the base
    count: a change cannot silence its own comparison. What differs in them is reported.

    Exit codes: 0 passed, 1 regression, 2 usage, 3 one of the two is invalid, 4 nothing could be compared.
    """
    from perfguard.capture.worktree import guarded_place
    from perfguard.cli import paired
    from perfguard.cli.bar import Steps
    from perfguard.cli.project import project_settings

    _refuse((ref, python, recording), **how)
    files = report_files()
    settings = project_settings(time=time)
    requested = paired.Requested(
        policy=settings.policy,
        time=time,
        output=output.absolute() if output is not None else None,
        time_off=paired.time_off(settings, time),
        steps=Steps(),
        **how,
    )
    try:
        with guarded_place() as place, requested.steps, paired.outside(place):
            if recording is not None:
                found = paired.with_recording(recording, requested, place)
            else:
                found = paired.with_side(python if ref is None else ref, requested, place)
            found = paired.without_place(found, requested, place)
    except paired.Invalid as error:
        echo_line(f"INVALID: {error}")
        sys.exit(Exit.INVALID)
    sys.exit(paired.report(found, files))


def _refuse(
    bases: tuple[object, ...],
    *,
    accept_explained: bool,
    sensitive: bool,
    processes: int | None,
    policy_of: str,
    pytest_args: tuple[str, ...],
    **_: Any,
) -> None:
    """Raise `UsageError` for options that contradict each other; `bases` are the values of the three --base options."""
    from perfguard import thresholds

    if sum(one is not None for one in bases) != 1:
        raise UsageError(
            "perfguard ab needs one base to compare with: --base REF, --base-python PATH or --base-recording PATH."
        )
    least = thresholds.FEWEST_RUNS
    if processes is not None and not least <= processes <= thresholds.MOST_BASELINE_RUNS:
        raise UsageError(
            f"--processes must be {least} to {thresholds.MOST_BASELINE_RUNS}, got {processes}: "
            "fewer cannot tell noise from a change. Leave it out for 5."
        )
    if bases[0] is None and policy_of == "current":
        raise UsageError("--policy needs two trees, so it works with --base REF only; leave it out.")
    if bases[0] is None and (sensitive or processes is not None):
        option = "--sensitive" if sensitive else "--processes"
        raise UsageError(f"{option} needs both sides in one process, so it works with --base REF only; leave it out.")
    if bases[0] is None and accept_explained:
        raise UsageError(
            "--accept-explained compares stored baselines with those of a commit: --base REF; leave it out."
        )
    own = next((one for one in pytest_args if one.startswith("--perfguard")), None)
    if own is not None:
        raise UsageError(f"perfguard ab sets {own.partition('=')[0]} itself; leave it out (see perfguard ab --help).")
