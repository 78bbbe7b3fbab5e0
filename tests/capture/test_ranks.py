"""Two ranks, really started by msrun and by torchrun: each is judged, and all of them with each other."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from perfguard.capture.script import Script, ScriptRun, run_script
from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.gate import examine, judge
from perfguard.judge.baseline import Baseline
from perfguard.judge.ledger import ledger
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome
from perfguard.recording import Ending, read_recording
from perfguard.window import StepWindow

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

SCRIPTS = Path(__file__).parent / "scripts"


def run(launcher: str, directory: Path, window: str | None = "3:5") -> ScriptRun:
    pytest.importorskip({"msrun": "mindspore", "torchrun": "torch"}[launcher], reason="pip install -e '.[models]'")
    name = {"msrun": "ms_ranks.py", "torchrun": "torch_ranks.py"}[launcher]
    script = Script(
        command=(sys.executable, str(SCRIPTS / name)),
        window=None if window is None else StepWindow.from_text(window),
        launcher=launcher,
        ranks=2,
        timeout_s=600,
    )
    return run_script(script, workload="ranks", directory=directory)


def findings(recording, severity: Severity) -> dict[str, str]:
    return {f.code.name: f.message for f in inspect(recording).findings if f.severity is severity}


@pytest.fixture(scope="module", params=["msrun", pytest.param("torchrun", marks=pytest.mark.exhaustive)])
def two(request, tmp_path_factory):
    done = run(request.param, tmp_path_factory.mktemp(request.param) / "out")
    assert done.ended.status == 0
    return done.recording


COLLECTIVE = {"mindspore": ("AllReduce", "AllReduce"), "torch": ("c10d::allreduce_", "gloo:all_reduce")}


def test_both_ranks_are_recorded_over_the_same_window(two):
    assert two.ending is Ending.COMPLETE, two.reason
    assert (two.fingerprint.world_size, two.rank, two.ranks) == (2, None, (0, 1))
    assert sorted(path.name for path in two.profiler_directory.iterdir()) == ["rank_0", "rank_1"]
    for rank in (0, 1):
        assert [s.phase.value for s in two.steps if s.rank == rank] == ["settle", "warmup", *["active"] * 3]
    contract = inspect(two)
    assert [(cycle.rank, cycle.executions.steps) for cycle in contract.cycles] == [(0, 3), (1, 3)]
    assert findings(two, Severity.ERROR) == {}
    assert findings(two, Severity.WARNING) == {}


@pytest.mark.exhaustive
def test_a_job_is_measured_by_rank_and_as_a_whole(two):
    verdict = examine(two, workload="ranks", policy=Policy())
    measured = {m.label: m.value for m in verdict.measurements}
    operator, kind = COLLECTIVE[two.fingerprint.backend]
    calls = [measured[f"operator_calls[{of}:{operator}]"] for of in ("rank0", "rank1", "ranks")]
    assert calls[0] == calls[1] == calls[2] / 2 > 0
    assert measured["peak_memory_bytes[ranks:cpu]"] == max(measured[f"peak_memory_bytes[rank{r}:cpu]"] for r in (0, 1))
    # A collective is the same for all, less the wait for whoever came last.
    assert measured[f"collective_transfer[{kind}]"] > 0
    assert all(measured[f"collective_wait[rank{r}:{kind}]"] >= 0 for r in (0, 1))
    assert [label for label in measured if label.startswith("slowest_rank[rank")]
    # The ledger is of one rank: its collectives are a part of their own, and its step is what the parts come to.
    found = ledger(verdict.measurements, verdict.measurements)
    assert found is not None
    slowest = max((0, 1), key=lambda rank: measured[f"profiled_step_time[rank{rank}:]"])
    assert (found.rank, found.metric) == (slowest, "profiled_step_time")
    parts = {
        name: measured[f"profiled_step_part[rank{slowest}:{name}]"] for name in ("idle", "overlap", "communication")
    }
    # Nothing is left of it where operators ran beside all of it.
    assert 0 <= parts["communication"] <= found.base_ns / 1e3
    assert 0 <= parts["idle"] <= found.base_ns / 1e3 - parts["communication"]


def test_a_job_is_compared_with_one_of_its_size_only(two):
    verdict = examine(two, workload="ranks", policy=Policy())
    baseline = Baseline(
        workload="ranks",
        fingerprint=verdict.fingerprint,
        environment=verdict.environment,
        measurements=verdict.measurements,
    )
    again = judge(two, baseline, workload="ranks", policy=Policy())
    assert again.outcome is Outcome.PASSED
    assert any(one.subject.startswith("ranks:") and one.judged for one in again.comparisons)
    alone = {**verdict.fingerprint.as_dict(), "world_size": 4}
    other = Baseline(
        workload="ranks",
        fingerprint=type(verdict.fingerprint).from_dict(alone),
        environment=verdict.environment,
        measurements=verdict.measurements,
    )
    differing = judge(two, other, workload="ranks", policy=Policy())
    assert differing.outcome is Outcome.INCONCLUSIVE
    assert differing.findings[0].message == "world_size: 4 → 2"


@pytest.mark.parametrize("launcher", [pytest.param("msrun", marks=pytest.mark.exhaustive), "torchrun"])
@pytest.mark.exhaustive
def test_a_rank_that_dies_is_named(tmp_path, monkeypatch, launcher):
    monkeypatch.setenv("LOSE", "1")
    # How long the rank that is left waits for the other, in seconds: by itself it takes most of a minute to give up.
    for wait in ("MS_RECEIVE_MSG_TIMEOUT", "MS_NODE_TIMEOUT"):
        monkeypatch.setenv(wait, "5")
    done = run(launcher, tmp_path / "out", window="3:6")
    assert done.ended.status != 0
    assert done.recording.ending is Ending.SCRIPT_FAILED
    told = findings(done.recording, Severity.ERROR)
    assert told["C113"].startswith("the script ended with status")


def test_a_rank_of_which_nothing_is_left_is_missing(two, tmp_path):
    shutil.copytree(two.directory, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "profiler" / "rank_1")
    told = findings(read_recording(tmp_path / "copy"), Severity.ERROR)
    assert told["A107"] == "2 ranks were started, but rank 1 is missing"


def test_ranks_with_different_windows_are_told(two, tmp_path):
    shutil.copytree(two.directory, tmp_path / "copy")
    path = tmp_path / "copy" / "steps.json"
    document = json.loads(path.read_text())
    last = max(i for i, step in enumerate(document["steps"]) if step["rank"] == 1)
    del document["steps"][last]
    path.write_text(json.dumps(document))
    assert (
        "3 active steps of rank 1 were requested, but 2 have a duration"
        in findings(read_recording(tmp_path / "copy"), Severity.ERROR).values()
    )


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Ranks that run from their first step, one of them another operator."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ODD", "1")
        return run("torchrun", tmp_path_factory.mktemp("odd") / "out", window=None).recording


@pytest.mark.exhaustive
def test_ranks_that_ran_something_else_are_told(odd):
    assert findings(odd, Severity.ERROR) == {}
    assert findings(odd, Severity.WARNING)["C114"] == "rank 1 ran aten::sin 6 x, not 0, as rank 0 did"


@pytest.mark.exhaustive
def test_the_time_of_ranks_without_a_step_to_warm_up_is_shown_only(odd):
    verdict = examine(odd, workload="ranks", policy=Policy())
    baseline = Baseline(
        workload="ranks",
        fingerprint=verdict.fingerprint,
        environment=verdict.environment,
        measurements=verdict.measurements,
    )
    again = judge(odd, baseline, workload="ranks", policy=Policy())
    assert again.outcome is Outcome.PASSED
    assert "B106" in {f.code.name for f in again.findings}


@pytest.mark.exhaustive
def test_ranks_that_the_script_starts_itself_are_told_apart(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="pip install -e '.[models]'")
    monkeypatch.setenv("STORE", str(tmp_path / "store"))
    command = (sys.executable, str(SCRIPTS / "run_loops.py"), "ranks")
    script = Script(command=command, window=StepWindow.from_text("3:5"), timeout_s=600)
    done = run_script(script, workload="ranks", directory=tmp_path / "out")
    assert done.recording.ending is Ending.COMPLETE, done.recording.reason
    assert (done.recording.fingerprint.world_size, done.recording.ranks) == (2, (0, 1))
    assert findings(done.recording, Severity.ERROR) == {}
