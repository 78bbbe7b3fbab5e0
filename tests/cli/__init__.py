"""The command line, tested from outside: arguments in; exit code, output and files out."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace as replaced
from functools import cache
from pathlib import Path
from unittest import mock

from click.testing import CliRunner, Result

import perfguard.cli
from perfguard.capture.replay import replay
from perfguard.gate import examine
from perfguard.judge.baseline import Baseline
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Verdict
from perfguard.reports import RunReport
from perfguard.reports.document import report_json
from perfguard.stores.directory import BaselineDirectory

RECORDINGS = Path(__file__).resolve().parent.parent / "data" / "recordings"
TORCH = RECORDINGS / "torch-mlp"


class _Script:
    """What the console script runs, in this process: click's runner wants an object with a `main`."""

    name = "perfguard"

    def main(self, *, args: list[str], prog_name: str) -> None:
        with mock.patch.object(sys, "argv", [prog_name, *args]):
            perfguard.cli.main()


def run(*args: object, answer: str | None = None) -> Result:
    """Run the command line; an exception that is not an exit is the test's own failure."""
    found = CliRunner().invoke(_Script(), [str(one) for one in args], input=answer, color=True)  # type: ignore[arg-type]
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert "this is a defect of perfguard" not in found.stderr, f"exit {found.exit_code}\n{found.stderr}"
    return found


def copied(source: Path, target: Path, *, replace: tuple[str, str] | None = None, **fingerprint: object) -> Path:
    """Copy a recording, with one text replaced in what the profiler wrote, and other values in its fingerprint."""
    shutil.copytree(source, target)
    if replace is not None:
        for path in (target / "profiler").rglob("*.json"):
            path.write_text(path.read_text(encoding="utf-8").replace(*replace), encoding="utf-8")
    facts = json.loads((target / "recording.json").read_text(encoding="utf-8"))
    facts["fingerprint"].update(fingerprint)
    (target / "recording.json").write_text(json.dumps(facts), encoding="utf-8")
    return target


@cache
def _examined_once(recording: Path) -> Verdict:
    return examine(replay(recording), workload="", policy=Policy())


def examined(recording: Path, workload: str) -> Verdict:
    """Examine a recording; those of this repository, which nobody changes, only once."""
    if RECORDINGS in recording.parents:
        return replaced(_examined_once(recording), workload=workload)
    return examine(replay(recording), workload=workload, policy=Policy())


def report_file(path: Path, **recordings: Path) -> Path:
    """Write the report of a run that measured these recordings, by the name of their workload."""
    verdicts = [examined(place, name) for name, place in recordings.items()]
    path.write_text(report_json(RunReport(verdicts=tuple(verdicts))), encoding="utf-8")
    return path


def stored(directory: Path, *workloads: str, recording: Path = TORCH, **facts: object) -> BaselineDirectory:
    """Store what a recording measured as the baseline of every workload."""
    store = BaselineDirectory(directory)
    for workload in workloads:
        verdict = examined(recording, workload)
        store.save(
            Baseline(
                workload=workload,
                fingerprint=verdict.fingerprint,
                environment=verdict.environment,
                measurements=verdict.measurements,
                **facts,  # type: ignore[arg-type]
            )
        )
    return store
