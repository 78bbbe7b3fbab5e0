"""`perfguard analyse DIR`: analyse what was only collected, by the profiler's own analyser, and judge what came out."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from perfguard.cli import options
from perfguard.cli.output import Exit, echo, echo_line, exit_code
from perfguard.errors import UsageError


@click.command(name="analyse")
@click.argument("directory", metavar="PATH", type=options.PATH)
@click.option(
    "--steps", metavar="START:STOP", help="Analyse only these recorded steps; the first is 1, STOP is included."
)
@options.flag("--pretty", help="Indent the JSON files (MindSpore 2.2 to 2.4).")
@options.flag("--keep-raw", help="Keep all raw data; without it the analyser may delete some.")
@click.option("--jobs", type=int, metavar="N", help="Ranks to analyse at the same time (default: half of the CPUs).")
@click.option("--python", type=options.PATH, help="The Python that has the analyser.")
@options.timeout("Stop the analysis of a rank after this time.")
def command(directory: Path, steps: str | None, **how: Any) -> None:
    """Analyse raw profiler data with its framework, then check it.

    PATH holds one rank or many, of MindSpore or torch_npu. An analysis that fails changes nothing.

    Exit codes: 0 nothing is wrong, 2 usage, refused or nothing to analyse, 3 a rank could not be analysed or something
    is wrong with it.
    """
    from perfguard.capture.replay import recordings_in
    from perfguard.cli.verdicts import examined
    from perfguard.integrations.offline import analyse
    from perfguard.integrations.offline_recordings import AnalysisOptions
    from perfguard.judge.tolerance import Policy
    from perfguard.reports.terminal import checked

    window = None if steps is None else _steps(steps)
    codes = []
    # Closed at once where this is interrupted, so that no analyser goes on alone.
    with closing(analyse(directory, AnalysisOptions(steps=window, **how))) as analysed:
        for one in analysed:
            echo_line(one.sentence)
            if one.refused:
                codes.append(Exit.USAGE)
            elif not one.done or one.doubtful:
                codes.append(Exit.INVALID)
    verdicts = [examined(place, Policy(), found_in=directory) for place in recordings_in(directory)]
    for verdict in verdicts:
        echo("\n".join(checked(verdict, explain=False, metrics=False)))
    codes.append(exit_code([verdict.outcome for verdict in verdicts]))
    sys.exit(next((code for code in (Exit.INVALID, Exit.REGRESSION, Exit.USAGE) if code in codes), codes[-1]))


def _steps(text: str) -> tuple[int, int]:
    """Read `5:8`, or `5` for one step."""
    found = re.fullmatch(r"(\d+)(?::(\d+))?", text, re.ASCII)
    if found is None:
        raise UsageError(
            f"--steps {text} is not a range; write START:STOP, such as --steps 5:8 (steps are contiguous)."
        )
    return int(found[1]), int(found[2] or found[1])
