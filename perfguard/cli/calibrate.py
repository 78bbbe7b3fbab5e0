"""`perfguard calibrate`: run the suite unchanged, and count how often its gate would be wrong."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.bar import Steps
from perfguard.cli.output import Exit, echo, table_text
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.judge.calibration import Calibrated
    from perfguard.judge.verdict import Verdict
    from perfguard.stores.calibration import Calibration


@click.command(name="calibrate", context_settings={"ignore_unknown_options": True})
@click.option(
    "--runs", metavar="N", type=click.IntRange(10, 1000), default=20, show_default=True, help="Number of runs."
)
@options.baselines("The directory of the baselines, where the result is written.")
@options.pytest_args
def command(runs: int, baselines: Path | None, pytest_args: tuple[str, ...]) -> None:
    """Run the suite N times unchanged, and count false alarms.

    It prints the spread of every metric, and the smallest slowdown that the gate would see. Everything after the
    options goes to pytest. Nothing is judged, and no baseline is touched. The result is written beside
    the baselines, and the summary of every later run on this machine quotes it.
    """
    from perfguard.cli.project import project_settings
    from perfguard.judge.calibration import calibrated, error_rate, rate_at_most
    from perfguard.judge.kernel_sets import as_settings, learned
    from perfguard.stores.calibration import Calibration, write_calibration

    rate_at_most(0.0, 1)  # a missing dependency fails here, not after an hour of runs
    settings = project_settings(baselines=baselines)
    found: list[dict[str, Verdict]] = []
    began = time.monotonic()
    with Steps() as steps:
        steps.begin(runs)
        while len(found) < runs:
            steps.show(f"run {len(found) + 1} of {runs}")
            found.append(_one_run(pytest_args))
            steps.report(1)
            if not found[0]:
                raise UsageError(
                    "the first run measured nothing that is whole; see why with: pytest --perfguard --perfguard-time=off"
                )
            if len(found) == 1:
                took_s = time.monotonic() - began
                steps.clear()
                echo(f"perfguard: {runs} runs of {took_s:.0f} s: about {took_s * runs / 60:.0f} minutes", err=True)
    whole = [run for run in found if run]
    environments = [verdict.environment for run in whole for verdict in run.values()]
    machines = {environment.machine for environment in environments if environment is not None}
    workloads: dict[str, tuple[Calibrated, ...]] = {}
    learned_sets: dict[tuple[str, ...], None] = {}
    for workload in sorted({name for run in whole for name in run}):
        of_workload = [run[workload] for run in whole if workload in run]
        policy = settings.policy
        if of_workload[0].rules:
            policy = replace(policy, marker=of_workload[0].rules)
        learned_sets |= dict.fromkeys(learned([verdict.measurements for verdict in of_workload], policy.kernels))
        workloads[workload] = calibrated([verdict.measurements for verdict in of_workload], policy=policy)
    calibration = Calibration(
        runs=len(whole),
        machine=sorted(machines)[0] if machines else ("", 0, ""),
        workloads=workloads,
        error_rate=error_rate(workloads),
    )
    echo(_table(calibration))
    if learned_sets:
        echo("a library chose other kernels in other runs. If any of a line will do, write into pyproject.toml:")
        echo("\n".join(["[tool.perfguard.kernels]", *as_settings(learned_sets)]))
    if lost := len(found) - len(whole):
        echo(f"{lost} of {runs} runs measured nothing, and are left out")
    if calibration.error_rate is None:
        echo("time was not compared: no workload was timed in processes of its own ten times")
    else:
        echo(calibration.error_rate.sentence)
    settings.baselines_directory.mkdir(parents=True, exist_ok=True)
    echo(f"written to {write_calibration(calibration, settings.baselines_directory)}")
    sys.exit(0 if workloads else Exit.NOTHING)


def _one_run(pytest_args: tuple[str, ...]) -> dict[str, Verdict]:
    """Run the suite once in a temporary directory; return its green verdicts by workload, none if it measured nothing."""
    from perfguard import scratch
    from perfguard.capture.command import PYTEST, last_line, run_command
    from perfguard.reports.reading import read_report

    with scratch.folder() as directory:
        report, output = directory / "report.json", directory / "output"
        with open(output, "wb") as stream:
            done = run_command(
                [
                    *(*PYTEST, "--perfguard", "--perfguard-update", "--perfguard-runs=1", "-q"),
                    *(f"--perfguard-baselines={directory}/baselines", f"--perfguard-report={report}", *pytest_args),
                ],
                environment=os.environ,
                mark="PERFGUARD_CALIBRATE",
                timeout_s=None,
                output=stream,
            )
        if done.status in (2, 3, 4):
            # Interrupted, or a call that pytest itself refused: one more run says the same.
            raise UsageError(f"pytest ended with status {done.status}: {last_line(output) or 'it wrote nothing'}")
        if not report.is_file():
            return {}
        return {verdict.workload: verdict for verdict in read_report(report) if verdict.passed}


def _table(calibration: Calibration) -> str:
    rows = []
    for workload, metrics in calibration.workloads.items():
        exact = [one for one in metrics if one.values is not None]
        steady = sum(one.values == 1 for one in exact)
        rows.append((workload, f"{len(exact)} exact metrics", f"{steady} steady", "", "", "", ""))
        for one in exact:
            if one.values != 1:
                cells = (f"{one.values} values", f"{one.alarms} changed", "", "", "not exact here: off, or a tolerance")
                rows.append((workload, one.metric, *cells))
        rows += [(workload, one.metric, *_timed_cells(one)) for one in metrics if one.values is None]
    columns = {
        "workload": {"least": 24},
        "metric": {},
        "spread": {"leaves": 3},
        "false alarms": {"leaves": 2},
        "at most in 100": {"leaves": 5},
        "sees": {"leaves": 1},
        "proposed": {"leaves": 4},
    }
    return table_text(columns, rows)


def _timed_cells(one: Calibrated) -> tuple[str, str, str, str, str]:
    spread = "-" if one.spread is None else f"{100 * one.spread:.1f} %"
    if one.comparisons is None:
        return spread, "", "", "", ""
    at_most = "-" if one.at_most is None else f"{100 * one.at_most:.0f} ({one.independent} share no process)"
    sees = "-" if one.smallest_slowdown is None else f"+{100 * one.smallest_slowdown:.0f} %"
    proposed = "-" if one.proposed_tolerance is None else f"{one.metric} = {one.proposed_tolerance}"
    return spread, f"{one.alarms} of {one.comparisons}", at_most, sees, proposed
