"""Facts that tests start from: a fingerprint, a machine, a baseline; each test changes only what it is about."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfguard.artifacts import survey
from perfguard.errors import UsageError
from perfguard.gate import Update, judge_with_store, refresh
from perfguard.judge.baseline import Baseline
from perfguard.judge.refresh import Refresh
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Verdict
from perfguard.measure import Measurement
from perfguard.recording import Environment, Fingerprint, Recording
from perfguard.stores import Store
from perfguard.window import StepWindow

RECORDINGS = Path(__file__).parent / "data" / "recordings"
WORKLOAD = "tests/test_net.py::test_train"

FINGERPRINT = Fingerprint(
    workload=WORKLOAD, backend="torch", device="cpu", mode="eager", world_size=1, threads=1, window=StepWindow()
)
HERE = Environment(
    python="3.11.7",
    platform="Linux x86_64",
    packages={"torch": "2.13.0"},
    cpu_model="AMD EPYC",
    cpu_count=2,
    device_name="AMD EPYC",
)
ELSEWHERE = replace(HERE, cpu_count=64, cpu_model="Kunpeng 920", device_name="Kunpeng 920")

_NEXT_COMMAND = re.compile(
    r"\b([Rr]un: |[Rr]un the same command|[Rr]ecord it again|[Rr]estore it|[Dd]elete |[Rr]ename |[Nn]ame another |"
    r"[Mm]end |[Cc]orrect |[Ff]ree disk space|[Mm]easure again|[Ww]rite it again)"
)


def measured(metric: str, value: Any, subject: str = "", *, samples: tuple[float, ...] = ()) -> Measurement:
    """Return a measurement, in one line."""
    return Measurement(metric=metric, subject=subject, value=value, samples=samples)


def baseline(*measurements: Measurement, **changes: Any) -> Baseline:
    """Return a baseline of `WORKLOAD`, measured here."""
    start = Baseline(workload=WORKLOAD, fingerprint=FINGERPRINT, environment=HERE, measurements=measurements)
    return replace(start, **changes)


def codes(verdict: Verdict) -> list[str]:
    """Return the codes of a verdict's findings, worst first."""
    return [finding.code.name for finding in verdict.findings]


def names_the_next_command(message: str) -> bool:
    """Whether a message tells its reader what to do now."""
    return _NEXT_COMMAND.search(message) is not None


@contextmanager
def refused(*words: str, begins: str = "") -> Iterator[None]:
    """Expect a `UsageError` of one line that has these words."""
    with pytest.raises(UsageError) as raised:
        yield
    said = str(raised.value)
    assert [word for word in words if word not in said] == [], said
    assert said.startswith(begins)
    assert "\n" not in said


@contextmanager
def unwritable_directory(mode: int = 0o555) -> Iterator[Path]:
    """Give a directory with one file `x.json` and that mode; it holds for the process even when it is run by root."""
    with tempfile.TemporaryDirectory() as name:
        place, user = Path(name), os.geteuid()
        (place / "x.json").write_text("old")
        place.chmod(mode)
        if user == 0:
            os.seteuid(65534)
        try:
            yield place
        finally:
            os.seteuid(user)
            place.chmod(0o755)


def unlistable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make a folder of that name one that cannot be listed, also by root."""

    def listed(path: str) -> Any:
        if os.path.basename(path) == name:
            raise PermissionError(13, "Permission denied")
        return real(path)

    real = survey.listed
    monkeypatch.setattr(survey, "listed", listed)


def gated(
    recording: Recording, store: Store, *, workload: str, policy: Policy, update: Update = Update.NOTHING, **more: Any
) -> Verdict:
    """Judge a recording and, as after a test that ended well, write the baseline that is due."""
    verdict = judge_with_store(recording, store, workload=workload, policy=policy, update=update)
    return refresh(verdict, store, policy=policy, update=update, **more) if verdict.refresh is Refresh.DUE else verdict
