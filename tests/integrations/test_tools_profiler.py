"""The profiler object of MindSpeed-MM, with real torch on the CPU: the window, ranks, and what goes wrong."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest

import perfguard
from perfguard.capture.replay import recordings_in
from perfguard.capture.torch_backend import TorchBackend
from perfguard.errors import CaptureError, UsageError
from perfguard.integrations.tools_config import read_tools_config
from perfguard.integrations.tools_part import CLAIM_FILE
from perfguard.integrations.tools_profiler import ToolsProfiler, tools_profiler
from perfguard.recording import Ending, read_recording
from perfguard.window import StepWindow
from tests.installed import needed
from tests.integrations.test_tools_config import REAL
from tests.programs import run_program

torch = needed("torch", "models")
pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parent / "scripts" / "torch_tools.py"


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def config(*, enable=True, ranks=-1, memory_profile=None, **static) -> Path:
    tree = deepcopy(REAL)
    tree["profile"] |= {"enable": enable, "ranks": ranks}
    tree["profile"]["static_param"] |= {"start_step": 2, "end_step": 4, **static}
    tree["memory_profile"] |= memory_profile or {}
    path = Path("tools.json")
    path.write_text(json.dumps(tree))
    return path


def work():
    torch.mm(torch.ones(4, 4), torch.ones(4, 4))


def trained(prof: ToolsProfiler, steps: int) -> ToolsProfiler:
    """MindSpeed-MM's own loop."""
    prof.start()
    for _ in range(steps):
        work()
        prof.step()
    prof.stop()
    return prof


def child(*arguments: object, ranks: int = 1, **environment: str) -> subprocess.CompletedProcess:
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return run_program(*launcher, SCRIPT, *arguments, timeout=600, **environment)


def steps_marked(directory: Path) -> list[str]:
    (trace,) = directory.glob("*.pt.trace.json")
    return sorted(set(re.findall(r"ProfilerStep#[0-9]+", trace.read_text())))


def codes(directory: Path) -> set[str]:
    try:
        perfguard.check(directory)
    except AssertionError as error:
        return set(re.findall(r"^\s+([A-Z][0-9]{3}) ", str(error), re.MULTILINE))
    return set()


# -- the window ----------------------------------------------------------------------------------------------------------


def test_exactly_the_steps_asked_for_are_in_save_path_and_judged():
    prof = trained(tools_profiler(config()), steps=6)

    place = Path("npu_profiling")
    assert steps_marked(place) == ["ProfilerStep#2", "ProfilerStep#3"]
    verdict = perfguard.check(place, expect="steps=2,ranks=1,no-memory,no-shapes")
    calls = {m.subject: m.value for m in verdict.measurements if m.metric == "operator_calls"}
    assert calls == {"aten::mm": 1, "aten::ones": 2, "aten::empty": 2, "aten::fill_": 2, "aten::resolve_conj": 3}
    (recording,) = prof.recordings
    assert recording == read_recording(place.absolute())
    assert recording.ending is Ending.COMPLETE
    assert recording.window == StepWindow(skip_first=2, wait=0, warmup=0, active=2)
    assert [step.phase.value for step in recording.steps] == ["settle", "settle", "active", "active"]
    assert recording.conditions == {"memory": False, "shapes": False}
    assert sorted(one for one in os.listdir(place) if not one.endswith(".pt.trace.json")) == [
        "options.json",
        "recording.json",
        "steps.json",
    ]


@pytest.mark.parametrize(("start", "end"), [(0, 1), (3, 5)])
@pytest.mark.variants(1)
def test_any_window(start, end):
    trained(tools_profiler(config(start_step=start, end_step=end)), steps=5)
    assert steps_marked(Path("npu_profiling")) == [f"ProfilerStep#{step}" for step in range(start, end)]
    perfguard.check("npu_profiling", expect=f"steps={end - start}")


@pytest.mark.parametrize(
    ("options", "conditions", "in_trace", "not_in_trace"),
    [
        ({"with_memory": True}, {"memory": True, "shapes": False}, '"[memory]"', '"Input Dims"'),
        ({"record_shapes": True}, {"memory": False, "shapes": True}, '"Input Dims"', '"[memory]"'),
        ({"with_stack": True}, {"memory": False, "shapes": False, "stack": True}, '"python_function"', '"[memory]"'),
    ],
)
@pytest.mark.variants(1)
def test_options_reach_the_profiler(options, conditions, in_trace, not_in_trace):
    prof = trained(tools_profiler(config(**options)), steps=5)

    (trace,) = Path("npu_profiling").glob("*.pt.trace.json")
    assert in_trace in trace.read_text()
    assert not_in_trace not in trace.read_text()
    assert prof.recordings[0].conditions == conditions
    perfguard.check("npu_profiling", expect="steps=2")


@pytest.mark.exhaustive
def test_what_has_no_meaning_on_a_cpu_is_told_in_the_recording():
    prof = trained(tools_profiler(config(level="level2")), steps=4)

    options = json.loads(Path("npu_profiling/options.json").read_text())
    assert options["asked"]["level"] == "level2"
    assert options["without_meaning"] == list(prof.notes)
    assert [note.partition(" = ")[0] for note in prof.notes] == [
        "profile.static_param.level",
        "profile.static_param.aic_metrics_type",
        "profile.static_param.data_simplification",
        "profile.static_param.analyse_flag",
    ]
    assert prof.notes[0] == (
        "profile.static_param.level = 'level2' has no effect here: it sets up an Ascend device (how much it records)"
    )


def test_output_goes_before_save_path(tmp_path):
    trained(tools_profiler(config(), output=tmp_path / "here", workload="demo"), steps=4)
    assert not Path("npu_profiling").exists()
    assert read_recording(tmp_path / "here").fingerprint.workload == "demo"
    perfguard.check(tmp_path / "here", expect="steps=2")


def test_by_with_and_from_a_value_that_was_read_before():
    with tools_profiler(read_tools_config(config())) as prof:
        for _ in range(6):
            work()
            prof.step()
    assert [one.ending for one in prof.recordings] == [Ending.COMPLETE]
    assert gc.isenabled()


# -- who is profiled -----------------------------------------------------------------------------------------------------


def test_a_profiler_that_is_not_enabled_does_nothing():
    prof = tools_profiler(config(enable=False))
    prof.step()
    trained(prof, steps=3)
    prof.start()
    assert prof.recordings == ()
    assert os.listdir() == ["tools.json"]


def test_a_rank_that_is_not_asked_for_does_nothing(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert trained(tools_profiler(config(ranks=[0])), steps=5).recordings == ()
    assert os.listdir() == ["tools.json"]


@pytest.mark.exhaustive
def test_every_rank_has_a_directory_of_its_own(monkeypatch):
    path = config()
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        (recording,) = trained(tools_profiler(path), steps=5).recordings
        assert (recording.rank, recording.fingerprint.world_size) == (int(rank), 2)

    assert [one.name for one in recordings_in(Path("npu_profiling"))] == ["rank_0", "rank_1"]
    for rank in (0, 1):
        perfguard.check(f"npu_profiling/rank_{rank}", expect="steps=2")


@pytest.mark.parametrize("value", ["abc", "-1", "1.5", "٣", "9" * 30])
def test_a_rank_that_is_no_number_is_refused(monkeypatch, value):
    monkeypatch.setenv("RANK", value)
    with pytest.raises(
        UsageError, match=r"^RANK='.*' in the environment is not a number; unset it, or start with torchrun\.$"
    ):
        tools_profiler(config()).start()


@pytest.mark.exhaustive
def test_torchrun_with_two_ranks():
    done = child(config(ranks=[-1]), 6, "gloo", ranks=2)

    # torch aborts at the exit of a process with gloo now and then; what was written is whole all the same.
    assert [one.name for one in recordings_in(Path("npu_profiling"))] == ["rank_0", "rank_1"], done.stderr
    for rank in (0, 1):
        recording = read_recording(Path(f"npu_profiling/rank_{rank}"))
        assert (recording.rank, recording.fingerprint.world_size, recording.ending) == (rank, 2, Ending.COMPLETE)
        verdict = perfguard.check(recording.directory, expect="steps=2")
        calls = {m.subject: m.value for m in verdict.measurements if m.metric == "operator_calls"}
        assert calls["c10d::allreduce_"] == 1


# -- what goes wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_training_shorter_than_the_window_is_no_shorter_window(steps):
    prof = trained(tools_profiler(config()), steps)

    (recording,) = prof.recordings
    assert recording.ending is Ending.LOADER_ENDED
    assert recording.reason == f"{steps} steps were run, the window needs 4 (2 settle + 2 profiled + 0 timed)"
    assert "C106" in codes(Path("npu_profiling"))
    assert not torch.autograd._profiler_enabled()
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("how", "ending", "reason", "code"),
    [
        (
            "raise",
            Ending.INTERRUPTED,
            "step 4 of 4: ProcessEnded: the process ended before stop() was called (ValueError: loss is gone)",
            "C108",
        ),
        pytest.param(
            *(
                "exit",
                Ending.INTERRUPTED,
                "step 4 of 4: ProcessEnded: the process ended before stop() was called",
                "C108",
            ),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_loop_that_ends_without_stop_leaves_a_recording_that_says_so(how, ending, reason, code):
    done = child(config(), 6, how)

    assert done.returncode == (5 if how == "exit" else 1)
    if how == "raise":
        assert done.stderr.count("ValueError: loss is gone") == 1
    recording = read_recording(Path("npu_profiling"))
    assert (recording.ending, recording.reason) == (ending, reason)
    assert code in codes(Path("npu_profiling"))
    assert CLAIM_FILE not in os.listdir("npu_profiling")


@pytest.mark.parametrize(
    ("last", "ending", "reason"),
    [(2, Ending.STEP_RAISED, "step 4 of 4: ZeroDivisionError: division by zero"), (3, Ending.COMPLETE, "")],
    ids=["inside of the window", "after it"],
)
@pytest.mark.variants(1)
def test_a_body_that_raises_in_a_with_is_a_step_that_raised(last, ending, reason):
    prof = tools_profiler(config())

    def train():
        with prof:
            for step in range(6):
                work()
                prof.step()
                1 / (last - step)

    with pytest.raises(ZeroDivisionError):
        train()
    (recording,) = prof.recordings
    assert (recording.ending, recording.reason) == (ending, reason)
    assert (codes(Path("npu_profiling")) == set()) is (ending is Ending.COMPLETE)
    assert CLAIM_FILE not in os.listdir("npu_profiling")
    prof.step()
    prof.stop()
    assert not torch.autograd._profiler_enabled()
    assert gc.isenabled()


def test_a_training_may_change_its_directory(monkeypatch, tmp_path):
    prof = tools_profiler(config())
    prof.start()
    for step in range(6):
        if step == 3:
            monkeypatch.chdir("/")
        work()
        prof.step()
    prof.stop()
    assert [(one.directory, one.ending) for one in prof.recordings] == [(tmp_path / "npu_profiling", Ending.COMPLETE)]
    perfguard.check(tmp_path / "npu_profiling", expect="steps=2")


@pytest.mark.exhaustive
def test_a_training_may_fork():
    done = child(config(), 6, "fork")
    assert done.stdout.splitlines()[-1] == "npu_profiling:complete", done.stderr
    perfguard.check("npu_profiling", expect="steps=2")


@pytest.mark.parametrize(
    ("misuse", "sentence"),
    [
        (
            lambda prof: prof.step(),
            "step() of a tools_profiler was called before start(); call start() once, before the loop.",
        ),
        (
            lambda prof: prof.stop(),
            "stop() of a tools_profiler was called before start(); call start() once, before the loop.",
        ),
        (
            lambda prof: (prof.start(), prof.start()),
            "start() of a tools_profiler was called before; make a new tools_profiler",
        ),
        (lambda prof: (prof.start(), prof.stop(), prof.start()), "start() of a tools_profiler was called before"),
    ],
)
def test_misuse_is_refused(misuse, sentence):
    prof = tools_profiler(config())
    with pytest.raises(UsageError, match=re.escape(sentence)):
        misuse(prof)
    if prof.recordings or Path("npu_profiling").exists():
        prof.stop()


def test_after_stop_a_loop_may_go_on():
    prof = trained(tools_profiler(config()), steps=6)
    prof.stop()
    prof.step()
    assert [one.ending for one in prof.recordings] == [Ending.COMPLETE]


def test_two_profilers_of_one_process_are_refused(tmp_path):
    path = config()
    with tools_profiler(path):
        with pytest.raises(
            UsageError,
            match=r"^A tools_profiler of tools\.json is running in this process, and torch has one profiler at a time; "
            r"call its stop\(\) first\.$",
        ):
            tools_profiler(path, output=tmp_path / "second").start()
        assert not (tmp_path / "second").exists()
    trained(tools_profiler(path, output=tmp_path / "third"), steps=4)
    perfguard.check(tmp_path / "third", expect="steps=2")


def test_a_profiler_of_the_training_itself_is_said():
    prof = tools_profiler(config(start_step=1))
    with torch.profiler.profile():
        prof.start()
        work()
        with pytest.raises(CaptureError, match="another torch profiler is running in this process"):
            prof.step()
    (recording,) = prof.recordings
    assert recording.ending is Ending.PROFILER_FAILED
    assert "C109" in codes(Path("npu_profiling"))


@pytest.mark.exhaustive
def test_a_place_that_holds_another_run_is_neither_mixed_nor_overwritten():
    path = config()
    trained(tools_profiler(path), steps=4)
    before = {one.name: one.read_bytes() for one in Path("npu_profiling").iterdir()}

    prof = tools_profiler(path)
    with pytest.raises(UsageError) as caught:
        prof.start()
    assert str(caught.value) == (
        "profile.static_param.save_path = 'npu_profiling' of tools.json already holds options.json, recording.json, "
        "steps.json and 1 more, and a directory holds one run; move it away or name another directory."
    )
    assert {one.name: one.read_bytes() for one in Path("npu_profiling").iterdir()} == before
    trained(tools_profiler(config(save_path="other")), steps=4)


def test_ranks_are_not_mixed_with_a_run_of_one(monkeypatch):
    path = config()
    trained(tools_profiler(path), steps=4)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match=r"already holds options\.json, .*a directory holds one run"):
        tools_profiler(path).start()


def test_a_place_that_another_process_fills_is_refused():
    Path("npu_profiling").mkdir()
    Path("npu_profiling", CLAIM_FILE).touch()
    with pytest.raises(UsageError, match=r"already holds \.perfguard-running, and a directory holds one run"):
        tools_profiler(config()).start()


@pytest.mark.parametrize(
    ("save_path", "sentence"),
    [
        (
            "tools.json",
            "profile.static_param.save_path = 'tools.json' of tools.json is a file, or is below one; name a directory.",
        ),
        ("tools.json/below", "cannot be created: Not a directory; name another directory."),
        ("x" * 300, "cannot be created: File name too long; name another directory."),
        ("/proc/nowhere", "cannot be created: No such file or directory; name another directory."),
    ],
)
@pytest.mark.variants(1)
def test_a_place_that_cannot_be_made_is_refused(save_path, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)):
        tools_profiler(config(save_path=save_path)).start()


def test_a_cpu_without_its_operators_has_nothing_to_record():
    if torch.cuda.is_available():
        pytest.skip("torch sees a device here")
    with pytest.raises(
        UsageError, match=r"^tools\.json: profile\.static_param\.with_cpu is false, which records nothing here"
    ):
        tools_profiler(config(with_cpu=False)).start()
    assert not Path("npu_profiling").exists()


def test_the_history_of_memory_needs_a_device():
    if torch.cuda.is_available():
        pytest.skip("torch sees a device here")
    with pytest.raises(
        UsageError,
        match=r"^tools\.json: memory_profile\.enable is true, and torch finds no device; write false \(profile\."
        r"static_param\.with_memory records the memory of a CPU\)\.$",
    ):
        tools_profiler(config(memory_profile={"enable": True})).start()
    # A rank that is not to be dumped has nothing to ask a device for.
    trained(tools_profiler(config(memory_profile={"enable": True, "dump_ranks": [3]})), steps=4)


def test_the_history_of_memory_of_a_device():
    if not torch.cuda.is_available():
        pytest.skip("torch sees no device here")
    prof = tools_profiler(config(enable=False, memory_profile={"enable": True, "start_step": 1, "end_step": 3}))
    prof.start()
    for _ in range(4):
        torch.ones(1024, device="cuda")
        prof.step()
    prof.stop()
    assert Path("memory_snapshot/snapshot_rank_0.pickle").stat().st_size > 1000


# -- on an Ascend device, as far as the call -----------------------------------------------------------------------------


@pytest.fixture
def ascend(monkeypatch):
    """torch_npu as far as its interface goes, over torch's own profiler: no device was at hand to run it on."""
    asked = {}

    class Profile(torch.profiler.profile):
        def __init__(self, *, activities, experimental_config=None, **options):
            asked.update(options, activities=activities, experimental_config=experimental_config)
            super().__init__(activities=[torch.profiler.ProfilerActivity.CPU], **options)

    def handler(directory, **options):
        asked["handler"] = (directory, options)
        return torch.profiler.tensorboard_trace_handler(directory)

    npu = SimpleNamespace(
        ProfilerActivity=SimpleNamespace(CPU="cpu", NPU="npu"),
        ProfilerLevel=SimpleNamespace(Level0="level 0", Level1="level 1", Level2="level 2"),
        AiCMetrics=SimpleNamespace(PipeUtilization="pipe", ArithmeticUtilization="arithmetic"),
        _ExperimentalConfig=lambda **options: options,
        schedule=torch.profiler.schedule,
        tensorboard_trace_handler=handler,
        profile=Profile,
    )
    device = SimpleNamespace(get_device_name=lambda: "Ascend910B", synchronize=lambda: None)
    monkeypatch.setattr(torch, "npu", device, raising=False)
    for module in ("capture.torch_backend", "integrations.tools_profiler"):
        monkeypatch.setattr(f"perfguard.{module}.npu_profiler", lambda torch: npu)
    return asked


@pytest.mark.parametrize(
    ("static", "activities", "experimental", "analyse"),
    [
        (
            {"level": "level2", "aic_metrics_type": "ArithmeticUtilization", "data_simplification": True},
            ["cpu", "npu"],
            {"profiler_level": "level 2", "aic_metrics": "arithmetic", "data_simplification": True},
            True,
        ),
        (
            {"with_cpu": False, "analyse_flag": False},
            ["npu"],
            {"profiler_level": "level 1", "aic_metrics": "pipe", "data_simplification": False},
            False,
        ),
    ],
)
@pytest.mark.variants(1)
def test_on_an_ascend_device_torch_npu_is_asked_as_mindspeed_does(ascend, static, activities, experimental, analyse):
    prof = trained(tools_profiler(config(with_stack=True, **static)), steps=5)

    assert prof.notes == ()
    assert ascend["activities"] == activities
    assert ascend["experimental_config"] == experimental
    assert ascend["handler"] == (str(Path("npu_profiling").absolute()), {"analyse_flag": analyse})
    assert (ascend["with_stack"], ascend["record_shapes"], ascend["profile_memory"]) == (True, False, False)
    assert [ascend["schedule"](step).name for step in range(5)] == ["NONE", "NONE", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert prof.recordings[0].fingerprint.device == "npu"


def test_perfguards_own_captures_ask_for_no_more_than_before(ascend):
    backend = TorchBackend()
    backend.start(Path("out"), StepWindow(active=1, warmup=0))
    work()
    backend.advance()
    backend.stop()

    assert backend.conditions == {"memory": True, "shapes": True}
    assert ascend.pop("handler") == ("out", {"analyse_flag": True})
    assert callable(ascend.pop("schedule"))
    assert callable(ascend.pop("on_trace_ready"))
    assert ascend == {
        "activities": ["cpu", "npu"],
        "experimental_config": None,
        "record_shapes": True,
        "profile_memory": True,
        "with_stack": False,
        "with_flops": False,
        "with_modules": False,
    }


def test_the_history_of_memory_is_asked_for_its_steps(ascend, monkeypatch):
    calls = []
    memory = SimpleNamespace(
        _record_memory_history=lambda **options: calls.append(options), _dump_snapshot=lambda path: calls.append(path)
    )
    monkeypatch.setattr(torch.npu, "memory", memory, raising=False)
    path = config(enable=False, memory_profile={"enable": True, "start_step": 1, "end_step": 3, "mem_info": True})
    prof = tools_profiler(path)
    prof.start()
    for _ in range(5):
        prof.step()
        calls.append("step")
    prof.stop()

    on = {"stacks": "all", "max_entries": sys.maxsize}
    dumped = "memory_snapshot/snapshot_rank_0.pickle"
    assert calls == [on, "step", "step", dumped, {"enabled": None}, "step", "step", "step"]
    assert prof.notes == ("memory_profile.mem_info has no effect here: only MindSpeed-MM writes that log",)

    Path(dumped).touch()
    with pytest.raises(UsageError, match=r"memory_profile\.save_path 'memory_snapshot' already holds snap"):
        tools_profiler(path).start()
