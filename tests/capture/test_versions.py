"""Other versions, in environments of their own: captured there by `--python`, judged here."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfguard.capture.script import Script, ScriptRun, run_script
from perfguard.contract import inspect
from perfguard.errors import UsageError
from perfguard.findings import Severity
from perfguard.recording import Ending
from perfguard.window import StepWindow

# Each installs a framework once (a minute or two, and several hundred megabytes).
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture
def python(request, environment):
    """Return the interpreter of an environment."""
    return environment(request.param)


def run(python: Path, tmp_path: Path, name: str, window: str | None = None, **how) -> ScriptRun:
    script = Script(
        command=("python", str(SCRIPTS / name)),
        python=python,
        window=None if window is None else StepWindow.from_text(window),
        **how,
    )
    return run_script(script, workload=name, directory=tmp_path / "out")


def errors(done: ScriptRun) -> list[str]:
    return sorted(
        f"{f.code.name} {f.message}" for f in inspect(done.recording).findings if f.severity is Severity.ERROR
    )


def calls_a_step(done: ScriptRun, operator: str) -> float:
    (cycle,) = inspect(done.recording).cycles
    return dict(cycle.measured["operator_calls"])[operator] / cycle.executions.steps


@pytest.mark.parametrize(
    ("python", "layout", "plain"),
    [("mindspore-2.0.0", "ms-2.0", "1"), ("mindspore-2.0.0", "ms-2.0", ""), ("mindspore-2.7.0", "ms-2.5+cpu", "")],
    indirect=["python"],
)
def test_the_sample_of_the_documents_is_recorded_by_other_versions(tmp_path, monkeypatch, python, layout, plain):
    monkeypatch.setenv("PLAIN", plain)
    monkeypatch.chdir(tmp_path)
    done = run(python, tmp_path, "seed_train.py")
    assert done.recording.ending is Ending.COMPLETE, done.recording.reason
    assert errors(done) == []
    contract = inspect(done.recording)
    assert contract.layouts == (layout,)
    assert contract.cycles[0].executions.steps == 2
    assert calls_a_step(done, "BiasAddGrad") == 1
    assert f"mindspore-{done.recording.environment.packages['mindspore']}" in str(python)


@pytest.mark.parametrize("python", ["mindspore-2.7.0"], indirect=True)
@pytest.mark.parametrize(("script", "window", "count"), [("seed_train.py", "2:2", 1), ("ms_loop.py", "3:5", 3)])
def test_a_window_of_the_oldest_version_with_wheels_for_this_python(
    tmp_path, monkeypatch, python, script, window, count
):
    monkeypatch.setenv("PLAIN", "1")
    done = run(python, tmp_path, script, window)
    assert done.recording.ending is Ending.COMPLETE, done.recording.reason
    assert errors(done) == []
    assert inspect(done.recording).cycles[0].executions.steps == count
    assert calls_a_step(done, "BiasAddGrad") == 1


@pytest.mark.parametrize("python", ["mindspore-2.0.0"], indirect=True)
@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"window": "2:3"},
            "MindSpore 2.0.0 of .* has no profiler with a schedule, and MS_PROFILER_OPTIONS has no window",
        ),
        ({"options": {"profile_memory": True}}, "profile_memory"),
    ],
)
def test_what_an_old_version_would_ignore_is_refused_before_the_run(tmp_path, python, how, message):
    with pytest.raises(UsageError, match=message):
        run(python, tmp_path, "seed_train.py", **how)


@pytest.mark.parametrize("python", ["mindspore-2.0.0"], indirect=True)
def test_pynative_of_2_0_on_a_cpu_fails_in_its_own_words(tmp_path, monkeypatch, python):
    """Its profiler has no PyNative on a CPU: it writes six files and raises while the process ends."""
    done = run(python, tmp_path, "ms_loop.py")
    assert [one.partition(" ")[0] for one in errors(done)] == ["C110"]
    assert len(list((tmp_path / "out" / "profiler" / "profiler").iterdir())) == 6
