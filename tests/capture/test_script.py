"""Unmodified scripts, really run: what the bootstrap sees of their steps, and that it leaves them as they are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from perfguard.capture.script import LIMIT, Script, ScriptRun, run_script
from perfguard.contract import inspect
from perfguard.errors import StoreError, UsageError
from perfguard.findings import Severity
from perfguard.gate import compare, examine
from perfguard.judge.tolerance import Policy
from perfguard.measure import measure
from perfguard.recording import Ending, read_recording
from perfguard.window import Phase, StepWindow
from tests.installed import needs
from tests.programs import wait_until

needs("torch", "models")
pytestmark = pytest.mark.slow
exhaustive = pytest.mark.exhaustive

SCRIPTS = Path(__file__).parent / "scripts"
TORCH, SEED, LOOP, LOOPS = (
    str(SCRIPTS / name) for name in ("torch_train.py", "seed_train.py", "ms_loop.py", "run_loops.py")
)


@pytest.fixture
def mindspore():
    pytest.importorskip("mindspore", reason="mindspore is not installed: pip install -e '.[models]'")


def run(tmp_path: Path, *command: str, window: str | None = None, place: str = "out", **how) -> ScriptRun:
    script = Script(
        command=(sys.executable, *command), window=None if window is None else StepWindow.from_text(window), **how
    )
    os.environ["RECORDING"] = str(tmp_path / place)
    return run_script(script, workload="a script", directory=tmp_path / place)


def errors(recording) -> list[str]:
    return sorted({f.code.name for f in inspect(recording).findings if f.severity is Severity.ERROR})


def phases(recording) -> dict[str, int]:
    return dict(Counter(step.phase.value for step in recording.steps))


def calls(recording, operator: str) -> int:
    return sum(
        dict(one.measured["operator_calls"]).get(operator, 0)
        for one in inspect(recording).cycles
        if one.executions is not None
    )


# -- which steps are seen ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "window", "expected", "operator", "count"),
    [
        (["train"], "5:6", {"settle": 2, "timed": 1, "warmup": 1, "active": 2}, "aten::addmm", 2),
        pytest.param(["infer"], "4:6", {"settle": 2, "warmup": 1, "active": 3}, "aten::addmm", 3, marks=exhaustive),
        # An evaluation before the training is no step of it, nor is one in between.
        pytest.param(
            ["evaluate", "train", "evaluate", "train"], None, {"active": 12}, "aten::addmm", 12, marks=exhaustive
        ),
    ],
)
@pytest.mark.exhaustive
def test_the_steps_of_a_torch_script(tmp_path, words, window, expected, operator, count):
    done = run(tmp_path, TORCH, *words, window=window)
    assert_recorded(done, tmp_path, expected, operator, count)
    assert (done.recording.window is None) is (window is None)


def assert_recorded(done, tmp_path, expected, operator, count):
    recording = done.recording
    assert done.ended.status == 0
    assert recording.ending is Ending.COMPLETE, recording.reason
    assert phases(recording) == expected
    assert calls(recording, operator) == count
    assert errors(recording) == []
    assert read_recording(tmp_path / "out") == recording
    assert recording.fingerprint.backend == "torch"
    assert recording.fingerprint.device == "cpu"
    assert all(step.wall_ns > 0 and step.thread_cpu_ns >= 0 for step in recording.steps)


@exhaustive
def test_what_a_script_does_besides_changes_no_step(tmp_path, capfd, monkeypatch):
    """Another directory, a fork that trains, an evaluation, and workers, whose shared memory torch counts apart.

    A sitecustomize that is there is run as well, and a process that is left behind is ended and told.
    """
    monkeypatch.setattr("perfguard.capture.command.GRACE_S", 0.5)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('theirs')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    done = run(tmp_path, TORCH, "chdir", "fork", "evaluate", "workers", "child", window="3:5")
    assert_recorded(done, tmp_path, {"settle": 1, "warmup": 1, "active": 3}, "aten::addmm", 3)
    assert done.notes == ("1 processes were left behind, and were ended",)
    said = capfd.readouterr().out
    assert "theirs" in said
    assert_child_ended(said)


@pytest.mark.parametrize(
    ("words", "window", "active", "calls_a_step"),
    [
        pytest.param(["evaluated"], "1:4", 4, {"aten::addmm": 2, "aten::sin": 0}, marks=exhaustive),
        pytest.param(["critic"], "3:5", 3, {"aten::addmm": 8}, marks=exhaustive),
        pytest.param(["critic"], None, 5, {"aten::addmm": 8}, marks=exhaustive),
        (["closure"], None, 6, {"aten::addmm": 2, "aten::sin": 0}),
        pytest.param(["closure"], "2:4", 3, {"aten::addmm": 2, "aten::sin": 0}, marks=exhaustive),
        pytest.param(["twice"], None, 6, {"aten::addmm": 2}, marks=exhaustive),
    ],
)
@exhaustive
def test_the_steps_of_loops_as_projects_write_them(tmp_path, words, window, active, calls_a_step):
    done = run(tmp_path, LOOPS, *words, window=window)
    assert done.ended.status == 0
    assert done.recording.ending is Ending.COMPLETE, done.recording.reason
    assert phases(done.recording)["active"] == active
    assert {name: calls(done.recording, name) / active for name in calls_a_step} == calls_a_step
    assert errors(done.recording) == []
    (cycle,) = inspect(done.recording).cycles
    assert cycle.executions is not None
    assert cycle.executions.steps == active
    # Its first update looked like a step of its own.
    assert bool(done.notes) is (words == ["critic"] and window is None)


#: A loop whose loader takes its time, between steps that do not see it.
LATE = """
import sys, time, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    time.sleep(float(sys.argv[1]))
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
"""


@exhaustive
def test_a_loader_that_is_late_fails(tmp_path):
    path = tmp_path / "late.py"
    path.write_text(LATE, encoding="utf-8")
    policy = Policy()
    base, late = (
        examine(
            run(tmp_path, str(path), seconds, window="9:10", place=place).recording, workload="a script", policy=policy
        )
        for place, seconds in (("base", "0"), ("late", "0.5"))
    )
    pauses = [step.pause_ns for step in late.steps]
    assert pauses[0] is None
    # The clocks of the profiler and of the system run apart by up to some hundredths.
    assert min(pauses[1:]) >= 400_000_000
    errors = [
        [found.place for found in compare(one, other, policy=policy).findings if found.severity is Severity.ERROR]
        for one, other in ((base, late), (late, base))
    ]
    assert errors == [["pause_between_steps"], []]


@pytest.mark.parametrize(
    ("word", "window", "ending", "reason"),
    [
        ("forgotten", None, Ending.LOADER_ENDED, "a step began and none ended: perfguard finds steps of Model.train"),
        (
            "critic",
            "1:2",
            Ending.PROFILER_FAILED,
            "the first step cannot be distinguished from what the script ran before",
        ),
    ],
)
@exhaustive
def test_steps_that_cannot_be_told_are_not_judged(tmp_path, word, window, ending, reason):
    done = run(tmp_path, LOOPS, word, window=window)
    assert (done.ended.status, done.recording.ending) == (0, ending)
    assert done.recording.reason.startswith(reason)


@pytest.mark.parametrize(
    ("script", "plain", "window", "expected", "operator", "count"),
    [
        pytest.param(SEED, "", None, {"active": 2}, "BiasAddGrad", 2, marks=exhaustive),
        pytest.param(LOOP, "", None, {"active": 6}, "BiasAddGrad", 6, marks=exhaustive),
        (LOOP, "", "3:5", {"settle": 1, "warmup": 1, "active": 3}, "BiasAddGrad", 3),
    ],
)
@pytest.mark.usefixtures("mindspore")
@exhaustive
def test_the_steps_of_a_mindspore_script(tmp_path, monkeypatch, script, plain, window, expected, operator, count):
    monkeypatch.setenv("PLAIN", plain)
    monkeypatch.chdir(tmp_path)
    done = run(tmp_path, script, window=window)
    recording = done.recording
    assert recording.ending is Ending.COMPLETE, recording.reason
    assert phases(recording) == expected
    assert calls(recording, operator) == count
    assert errors(recording) == []
    assert (recording.fingerprint.backend, recording.fingerprint.device) == ("mindspore", "cpu")
    assert list((tmp_path / "out" / "profiler").glob("*_ascend_ms/FRAMEWORK/cpu_ms_memory_record_0.txt"))
    if script == SEED and not plain:
        # What the script's own profiler wrote stays where its user looks for it, and is asked for memory as well.
        assert "has its own profiler (mindspore.Profiler)" in done.notes[0]
        (own,) = (tmp_path / "profiler_data").iterdir()
        (copy,) = (tmp_path / "out" / "profiler").iterdir()
        assert own.name == copy.name


@pytest.mark.usefixtures("mindspore")
@exhaustive
def test_the_graphs_a_script_compiles_are_a_part_of_its_recording(tmp_path, monkeypatch):
    monkeypatch.setenv("PLAIN", "1")
    recording = run(tmp_path, SEED, window="2:2", graphs=1).recording
    assert phases(recording) == {"settle": 1, "active": 1}
    assert calls(recording, "BiasAddGrad") == 1
    assert errors(recording) == []
    contract = inspect(recording)
    assert contract.layouts == ("ir", "ms-2.5+cpu")
    measured = {m.label: m.value for m in measure(contract)}
    assert measured["graph_operators[MatMul]"] == measured["operator_calls[MatMul]"] == 2


@pytest.mark.parametrize(
    ("word", "window", "steps", "calls_a_step"),
    [
        ("two_optimizers", "3:5", 3, {"Adam": 4}),
        pytest.param("schedule", None, 2, {}, marks=exhaustive),
        pytest.param("monitor", None, 3, {}, marks=exhaustive),
    ],
)
@pytest.mark.usefixtures("mindspore")
@exhaustive
def test_mindspore_loops_as_projects_write_them(tmp_path, monkeypatch, word, window, steps, calls_a_step):
    monkeypatch.chdir(tmp_path)
    done = run(tmp_path, str(SCRIPTS / "run_ms.py"), word, window=window)
    assert done.recording.ending is Ending.COMPLETE, done.recording.reason
    assert errors(done.recording) == []
    (cycle,) = inspect(done.recording).cycles
    assert cycle.executions is not None
    assert cycle.executions.steps == steps
    assert {name: calls(done.recording, name) / steps for name in calls_a_step} == calls_a_step
    assert any("has its own profiler" in note for note in done.notes) is (window is None)


@exhaustive
def test_a_whole_run_is_recorded_up_to_a_limit(tmp_path):
    done = run(tmp_path, TORCH, *["train"] * (LIMIT // 6 + 2))
    assert phases(done.recording) == {"active": LIMIT}
    assert errors(done.recording) == []


# -- profilers of the script's own -----------------------------------------------------------------------------------------


@exhaustive
def test_a_scripts_own_torch_profiler_keeps_its_window(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(tmp_path, TORCH, "own")
    assert done.recording.ending is Ending.COMPLETE
    assert errors(done.recording) == []
    assert calls(done.recording, "aten::addmm") == 2
    assert [one.name for one in (tmp_path / "tb").iterdir()] == [
        one.name for one in (tmp_path / "out" / "profiler").iterdir()
    ]


@pytest.mark.parametrize(
    ("words", "window"),
    [
        (["own"], "3:5"),
        pytest.param(["train", "legacy"], None, marks=exhaustive),
        pytest.param(["legacy", "train"], "2:3", marks=exhaustive),
    ],
)
@exhaustive
def test_two_profilers_in_one_process_are_told_and_the_script_is_none_the_worse(
    tmp_path, monkeypatch, capfd, words, window
):
    monkeypatch.chdir(tmp_path)
    done = run(tmp_path, TORCH, *words, window=window)
    assert done.ended.status == 0
    assert done.recording.ending is Ending.TWO_PROFILERS
    assert "torch_train.py:" in done.recording.reason
    assert "C115" in errors(done.recording)
    if "legacy" in words:
        assert "True" in capfd.readouterr().out


# -- scripts that go wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "how", "status", "ending", "reason"),
    [
        pytest.param(
            ["train", "crash"],
            {"window": "2:4"},
            134,
            Ending.SCRIPT_FAILED,
            "the script ended with status 134",
            marks=exhaustive,
        ),
        pytest.param(
            ["train"],
            {"window": "5:9"},
            0,
            Ending.LOADER_ENDED,
            "6 steps were run, the window needs 9 (it ends with step 9)",
            marks=exhaustive,
        ),
        pytest.param(
            ["two", "train"],
            {},
            0,
            Ending.PROFILER_FAILED,
            "2 processes of the script trained as one rank",
            marks=exhaustive,
        ),
        (["train", "delete"], {"window": "2:4"}, 0, Ending.COMPLETE, ""),
    ],
)
@exhaustive
def test_a_script_that_goes_wrong_is_told_and_keeps_its_status(tmp_path, words, how, status, ending, reason):
    done = run(tmp_path, TORCH, *words, **how)
    assert done.ended.status == status
    assert done.recording.ending is ending
    assert done.recording.reason.startswith(reason)
    assert errors(done.recording) != []
    assert read_recording(tmp_path / "out") == done.recording


@exhaustive
def test_what_a_failing_script_had_recorded_is_kept(tmp_path):
    done = run(tmp_path, TORCH, "train", "raise", window="2:4")
    assert (done.ended.status, done.recording.ending) == (1, Ending.SCRIPT_FAILED)
    assert done.recording.reason.startswith("the script ended with status 1: RuntimeError: out of luck")
    assert errors(done.recording) != []
    assert read_recording(tmp_path / "out") == done.recording
    assert phases(done.recording) == {"settle": 1, "active": 3}
    assert list((tmp_path / "out" / "profiler").glob("*.pt.trace.json"))


def assert_child_ended(said: str) -> None:
    """The process that the script told of is gone, or will be once somebody has waited for it."""
    status = Path(f"/proc/{said.split('child ')[1].split()[0]}/status")
    wait_until(lambda: not status.exists())


@pytest.fixture
def impatient(monkeypatch, tmp_path):
    """The seconds a script is given end when it hangs, however long it took to get there; it is left little time to go."""
    monkeypatch.setattr("perfguard.capture.command.GRACE_S", 0.5)
    monkeypatch.setenv("HANGING", str(tmp_path / "hanging"))
    wait = subprocess.Popen.wait

    def until_it_hangs(process, timeout=None):
        if timeout == TIMEOUT_S:
            while not (tmp_path / "hanging").exists() and process.poll() is None:
                time.sleep(0.05)
            timeout = 0.01
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", until_it_hangs)


TIMEOUT_S = 120


@pytest.mark.usefixtures("impatient")
@exhaustive
def test_a_script_that_hangs_is_ended_with_all_it_started(tmp_path, capfd):
    """Even where it does not end when it is interrupted, and has a child in a session of its own."""
    done = run(tmp_path, TORCH, "train", "stubborn", "child", "hang", window="2:4", timeout_s=TIMEOUT_S)
    assert done.ended.timed_out
    assert done.recording.ending is Ending.INTERRUPTED
    assert done.recording.reason == "the script did not end in 120 s and was stopped; its output so far is kept"
    assert phases(done.recording) == {"settle": 1, "active": 3}
    said = capfd.readouterr().out
    assert "hanging" in said
    assert_child_ended(said)


#: Runs torch_train.py as `perfguard run` does, in a process of its own; what it says of it is the last line of its output.
DRIVER = """
import resource, signal, sys
from pathlib import Path
from perfguard.capture.script import Script, run_script
from perfguard.contract import inspect
script, place, limit, *words = sys.argv[1:]
if int(limit):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
done = run_script(Script(command=(sys.executable, script, *words)), workload="x", directory=Path(place))
peak_kb = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
codes = sorted({finding.code.name for finding in inspect(done.recording).findings})
print(done.ended.status, done.recording.ending.value, peak_kb, *codes, file=sys.stderr)
"""


def driven(place: Path, *words: str, limit: int = 0) -> list[str]:
    # Nobody keeps its output: pytest would write it to a file.
    command = [sys.executable, "-c", DRIVER, TORCH, str(place), str(limit), *words]
    # The limit would truncate byte code as well, and Python would keep it.
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stderr.splitlines()[-1].split()


@exhaustive
def test_two_gigabytes_of_output_go_through(tmp_path):
    status, ending, peak_kb, *codes = driven(tmp_path / "out", "train", "shout")
    assert (status, ending, codes) == ("0", "complete", [])
    assert int(peak_kb) < 300_000


@exhaustive
def test_a_full_disk_is_told_and_the_script_goes_on(tmp_path):
    status, _, _, *codes = driven(tmp_path / "out", "train", limit=20_000)
    assert status == "0"
    assert codes


# -- what is refused before it runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"backend": "tensorflow"},
            "There is no backend 'tensorflow' to run a script with; known are mindspore, torch.",
        ),
        ({"backend": "troch"}, "There is no backend 'troch' to run a script with; did you mean 'torch'?"),
        ({"launcher": "mpirun"}, "There is no launcher 'mpirun'; did you mean 'msrun'?"),
        ({"ranks": 2}, "--ranks 2 needs a launcher; add --launcher msrun or --launcher torchrun."),
        ({"ranks": 0, "launcher": "msrun"}, "--ranks must be at least 1, got 0."),
        ({"timeout_s": 0}, "--timeout must be greater than 0 seconds, got 0."),
        ({"window": StepWindow(repeat=2)}, "a script is recorded in one window, without wait and repeat"),
        ({"python": Path("/bin/true")}, "/bin/true is not a working Python"),
        ({"python": Path("/no/such/python")}, "/no/such/python is not a working Python"),
        (
            {"backend": "torch", "options": {"profile_memory": True}},
            "profile_memory: these are options of MindSpore's profiler",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_it_runs(tmp_path, how, message):
    marker = tmp_path / "ran"
    command = (sys.executable, "-c", f"open({str(marker)!r}, 'w')")
    with pytest.raises(UsageError) as caught:
        run_script(Script(command=command, **how), workload="x", directory=tmp_path / "out")
    assert str(caught.value).startswith(message)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": True}, "memory"),
        ({"hccl": True}, "hccl"),
        ({"profile_memry": True}, "profile_memry"),
        ({"profile_memory": 1}, "profile_memory"),
        ({"timeline_limit": 100}, "timeline_limit"),
    ],
)
@pytest.mark.usefixtures("mindspore")
@pytest.mark.variants(2)
def test_an_option_the_version_would_ignore_is_refused_before_it_runs(tmp_path, options, message):
    marker = tmp_path / "ran"
    script = Script(command=(sys.executable, "-c", f"open({str(marker)!r}, 'w')"), options=options)
    with pytest.raises(UsageError, match=message):
        run_script(script, workload="x", directory=tmp_path / "out")
    assert not marker.exists()


def test_a_place_that_holds_another_run_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "recording.json").write_text("mine")
    with pytest.raises(
        UsageError, match="is not empty, and may hold another run; name a new directory with --output DIR"
    ):
        run(tmp_path, "-c", "pass")
    assert (tmp_path / "out" / "recording.json").read_text() == "mine"


@exhaustive
def test_an_empty_directory_is_a_fresh_place(tmp_path):
    (tmp_path / "out").mkdir()
    done = run(tmp_path, "-c", "import torch")
    assert (done.ended.status, done.recording.ending) == (0, Ending.LOADER_ENDED)
    assert done.recording.reason.startswith("no step was found: perfguard finds steps of Model.train, optimizers")
    assert errors(done.recording) != []
    assert read_recording(tmp_path / "out") == done.recording


def test_a_command_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match="there is no command 'no-such-program'"):
        run_script(Script(command=("no-such-program",)), workload="x", directory=tmp_path / "out")


# -- what it leaves as it was ------------------------------------------------------------------------------------------------


def test_a_python_that_takes_no_bootstrap_is_told(tmp_path):
    done = run(tmp_path, "-I", "-c", "pass")
    assert done.recording.reason == (
        "no Python of the command loaded perfguard's bootstrap: a Python started with -I, -E or -S loads none"
    )


@exhaustive
def test_without_a_plan_the_bootstrap_does_nothing(tmp_path):
    injected = Path(run_script.__code__.co_filename).parent / "injected"
    code = "import sys, torch; print(len(torch.nn.modules.module._global_forward_hooks))"
    environment = {**os.environ, "PYTHONPATH": str(injected)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "0"


@exhaustive
def test_a_compiled_model_runs_under_warnings_as_errors(tmp_path):
    code = (
        "import torch; net = torch.compile(torch.nn.Linear(8, 4), backend='eager'); "
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(5): net(torch.ones(2, 8)).sum().backward(); optimizer.step()"
    )
    done = run(tmp_path, "-W", "error::UserWarning", "-c", code, window="3:5")
    assert done.ended.status == 0
    assert phases(done.recording)[Phase.ACTIVE.value] == 3


def test_a_module_of_the_scripts_own_named_as_a_framework_is_left_alone(tmp_path, monkeypatch, capfd):
    (tmp_path / "torch.py").write_text("VALUE = 3")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run(tmp_path, "-c", "import torch; print(torch.VALUE)")
    assert done.ended.status == 0
    assert capfd.readouterr().out == "3\n"
    assert done.recording.reason.startswith("no step was found")


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of the size of files stands for a full disk")
def test_where_the_disk_was_full_the_same_directory_is_taken_again(tmp_path):
    import resource

    script = Script(command=(sys.executable, "-c", "import torch"), backend="torch")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(StoreError, match="cannot be written: File too large"):
            run_script(script, workload="a", directory=tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert run_script(script, workload="a", directory=tmp_path / "out").ended.status == 0
