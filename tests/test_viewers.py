"""What perfguard leaves behind is what the profiler wrote, to the byte, and other people's viewers still load it.

TensorBoard's PyTorch plugin is asked where it is installed (extra `viewers`, or PERFGUARD_PYTHON_TENSORBOARD names a Python
that has it); MindInsight needs protobuf 3, so it has an environment of its own (tests/environments.py). Perfetto's trace
processor is a program that its package fetches from outside the package index when it is first used; here the format it
documents is checked instead.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.cli import RECORDINGS, run
from tests.conftest import RECORDED, corpus_place, recorded

VIEWERS = Path(__file__).parent / "viewers"
NAMES = ["torch-mlp", "torch-repeat2", "mindspore-graph", "mindspore-pynative"]

#: Keys that an event of a phase has. Source: Trace Event Format, Google, 2016 (the format of chrome://tracing), which
#: Perfetto imports: a complete event has ts and dur, a flow has an id, what labels has a name and args.
NEEDED = {
    "X": {"name", "ts", "dur", "pid", "tid"},
    "B": {"name", "ts", "pid", "tid"},
    "E": {"ts", "pid", "tid"},
    "i": {"name", "ts", "pid", "tid"},
    "M": {"name", "pid", "args"},
    "s": {"name", "id", "ts", "pid", "tid"},
    "t": {"name", "id", "ts", "pid", "tid"},
    "f": {"name", "id", "ts", "pid", "tid"},
    "C": {"name", "ts", "pid", "args"},
}


def hashes(place: Path) -> dict[str, tuple[str, int]]:
    """Content and time of change of every file."""
    return {
        path.relative_to(place).as_posix(): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def tensorboard() -> str:
    """Return a Python that has the viewer, or skip and say how to get one."""
    if named := os.environ.get("PERFGUARD_PYTHON_TENSORBOARD"):
        return named
    if importlib.util.find_spec("torch_tb_profiler") is not None:
        return sys.executable
    pytest.skip("torch-tb-profiler is not installed: pip install -e '.[viewers]'")


def asked(python: str | Path, script: str, *arguments: object) -> dict:
    """Run one of the scripts of tests/viewers in the viewer's environment."""
    done = subprocess.run(
        [python, str(VIEWERS / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert (done.returncode, len(lines)) == (0, 1), done.stderr[-3000:]
    return json.loads(lines[0].removeprefix("RESULT "))


def recorded_by_torch(place: Path) -> Path:
    """Record three steps of a real net as perfguard does."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    from perfguard.capture import backend
    from perfguard.capture.driver import Driver
    from perfguard.window import StepWindow

    net = torch.nn.Linear(8, 4)
    inputs, labels = torch.ones(16, 8), torch.arange(16) % 4

    def step():
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()

    used = backend("torch")
    used.prepare(1)
    window = StepWindow(skip_first=1, wait=0, warmup=1, active=3, repeat=1)
    Driver(used, workload="viewed", directory=place, window=window, timed_steps=2).run(step)
    return place


def counted(place: Path, rank: int = 0) -> dict[str, int]:
    found = run("ops", place, "--json")
    assert found.exit_code == 0, found.stderr
    return {one["operator"]: one["occurrences"] for one in json.loads(found.stdout) if one["rank"] == rank}


# -- nothing is renamed, moved or rewritten --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(one, marks=pytest.mark.exhaustive) for one in NAMES[1:])])
def test_no_command_touches_what_the_profiler_wrote(tmp_path, monkeypatch, name):
    place = Path(shutil.copytree(RECORDINGS / name, tmp_path / "r"))
    for path in place.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = hashes(place)
    monkeypatch.chdir(tmp_path)
    for command in (
        ("check", place, "--explain", "--metrics", "--sarif", tmp_path / "f.sarif"),
        ("ops", place),
        ("ops", place, "--against", place, "--all"),
        ("compare", place, place, "--report", tmp_path / "r.json"),
    ):
        assert run(*command).exit_code == 0, command
    assert hashes(place) == before


@pytest.mark.slow
def test_a_refresh_touches_only_the_baseline(tmp_path, monkeypatch):
    from perfguard.capture.replay import replay
    from perfguard.gate import Update, judge_with_store, refresh
    from perfguard.judge.tolerance import Policy
    from perfguard.stores import STORES

    place = Path(shutil.copytree(RECORDINGS / "torch-mlp", tmp_path / "r"))
    before = hashes(place)
    store = STORES["directory"](tmp_path / "baselines")
    verdict = judge_with_store(replay(place), store, workload="w", policy=Policy(), update=Update.ALL)
    refresh(verdict, store, policy=Policy(), update=Update.ALL)
    assert len(list((tmp_path / "baselines").rglob("*.json"))) == 1
    judge_with_store(replay(place), store, workload="w", policy=Policy())
    assert hashes(place) == before


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_recording_of_a_backend_has_the_names_the_profiler_gives(tmp_path):
    place = recorded_by_torch(tmp_path / "r")
    names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    traces = [name for name in names if name.startswith("profiler/")]
    # tensorboard_trace_handler's own pattern: <host>_<pid>.<time>.pt.trace.json
    assert [name for name in names if name not in traces] == ["recording.json", "steps.json"]
    (trace,) = traces
    assert trace.removeprefix("profiler/").split(".", 1)[0].endswith(f"_{os.getpid()}")
    assert trace.endswith(".pt.trace.json")


# -- chrome://tracing and Perfetto: the documented format -------------------------------------------------------------


def traces() -> list[Path]:
    small = [path for name in NAMES for path in sorted((RECORDINGS / name).rglob("*trace*.json"))]
    patterns = ("*.pt.trace.json*", "trace_view.json", "*timeline_display*.json")
    places = (RECORDED, corpus_place() / "recorded")
    return small + sorted(path for place in places for pattern in patterns for path in place.rglob(pattern))


@pytest.mark.parametrize("trace", traces(), ids=lambda path: "-".join(path.parts[-3:]))
def test_a_trace_is_of_the_documented_format(trace):
    raw = gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes()
    document = json.loads(raw)
    events = document["traceEvents"] if isinstance(document, dict) else document
    assert events
    phases = Counter(event["ph"] for event in events)
    assert set(phases) <= set(NEEDED), phases
    for event in events:
        lacking = NEEDED[event["ph"]] - event.keys()
        assert not lacking, (lacking, event)
        for key in ("ts", "dur"):
            # MindSpore writes numbers as text; both viewers read that.
            assert math.isfinite(float(event.get(key, 0))), event
        assert float(event.get("dur", 0)) >= 0, event
        assert isinstance(event.get("args", {}), dict), event


# -- TensorBoard's PyTorch plugin ------------------------------------------------------------------------------------


def calls_agree(theirs: dict[str, int], ours: dict[str, int]) -> None:
    """The plugin leaves out what it takes for steps and annotations; what it counts is counted alike.

    But an operator whose only child has its own name (aten::sum of all elements) it counts as one; none of these nets has it.
    """
    assert theirs
    assert {name: ours.get(name) for name in theirs} == theirs
    assert {name for name in ours if name.startswith("aten::")} == {
        name for name in theirs if name.startswith("aten::")
    }


@pytest.mark.slow
@pytest.mark.exhaustive
def test_tensorboard_finds_steps_and_operators_of_a_recording(tmp_path, tensorboard):
    place = recorded_by_torch(tmp_path / "r")
    # Whether the recording or its profiler directory is the logdir.
    for logdir, name in ((place, "profiler"), (place / "profiler", ".")):
        found = asked(tensorboard, "tensorboard_runs.py", logdir)
        assert list(found) == [name]
        (profile,) = found[name]["profiles"]
        assert profile["views"] == ["overall", "operator", "trace", "memory"]
        # The first step of the profiler's own count is the one that warms up.
        assert profile["steps"] == ["1", "2", "3"]
        calls_agree(profile["calls"], counted(place))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_tensorboard_finds_every_cycle_of_a_window_that_repeats(tensorboard):
    found = asked(tensorboard, "tensorboard_runs.py", RECORDINGS / "torch-repeat2")
    profiles = found["profiler"]["profiles"]
    assert sorted(profile["span"] for profile in profiles) == ["1", "2"]
    total: Counter[str] = Counter()
    for profile in profiles:
        total.update(profile["calls"])
    calls_agree(dict(total), counted(RECORDINGS / "torch-repeat2"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "torch-2.13-cpu-torchrun-2ranks",
        pytest.param("torch-2.13-cpu-torchrun-2ranks-gz", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.exhaustive
def test_tensorboard_compares_the_ranks_of_one_directory(name, tensorboard):
    place = recorded(name)[0]
    (found,) = asked(tensorboard, "tensorboard_runs.py", place).values()
    workers = {profile["worker"] for profile in found["profiles"]}
    assert len(workers) == 3
    assert [p["views"] for p in found["profiles"] if p["worker"] == "All"] == [["distributed"]] * 2
    total: Counter[str] = Counter()
    for profile in found["profiles"]:
        total.update(profile.get("calls", {}))
    ours: Counter[str] = Counter()
    for rank in (0, 1):
        ours.update(counted(place, rank))
    calls_agree(dict(total), dict(ours))


# -- MindInsight -----------------------------------------------------------------------------------------------------


def mindinsight_agrees(python: Path, directory: Path, place: Path) -> None:
    before = hashes(place)
    found = asked(python, "mindinsight_operators.py", directory, "0")
    ours = {one["operator"]: one for one in json.loads(run("ops", place, "--json").stdout)}
    theirs = {one["op_type"]: one for one in found["types"]}
    assert {name: one["type_occurrences"] for name, one in theirs.items()} == {
        name: one["occurrences"] for name, one in ours.items()
    }
    for name, one in theirs.items():
        assert one["total_compute_time"] == pytest.approx(ours[name]["total_us"], rel=1e-4, abs=2e-3)
    by_type: Counter[str] = Counter()
    for one in found["details"]:
        by_type[one["op_type"]] += one["op_occurrences"]
    assert by_type == {name: one["occurrences"] for name, one in ours.items()}
    assert found["page"]["size"] == len(theirs)
    assert hashes(place) == before


@pytest.mark.exhaustive
@pytest.mark.slow
def test_mindinsight_reads_the_flat_output_of_mindspore_2_0(tmp_path, environment):
    place = Path(shutil.copytree(recorded("mindspore-2.0-cpu-graph-env")[0], tmp_path / "r"))
    mindinsight_agrees(environment("mindspore-2.0.0"), place / "profiler", place)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mindspore-graph", "mindspore-pynative"])
def test_mindinsight_reads_the_tables_of_a_recording_of_mindspore_2_10(tmp_path, environment, name):
    place = Path(shutil.copytree(RECORDINGS / name, tmp_path / "r"))
    (framework,) = place.rglob("FRAMEWORK")
    mindinsight_agrees(environment("mindspore-2.0.0"), framework, place)
