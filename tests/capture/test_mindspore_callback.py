"""perfguard.callback in real trainings on the CPU, each in a process of its own: MindSpore has one profiler a process."""

from __future__ import annotations

import gc
import json
import shutil
import sys
from pathlib import Path

import pytest

from perfguard import check
from perfguard.capture.mindspore_options import mindspore_options
from perfguard.errors import UsageError
from perfguard.recording import Ending, read_recording
from perfguard.window import Phase, StepWindow
from tests.installed import needed
from tests.programs import run_program

mindspore = needed("mindspore", "models")
pytestmark = pytest.mark.slow

from perfguard.capture.mindspore_backend import MindSporeBackend  # noqa: E402
from perfguard.capture.mindspore_callback import mindspore_callback, plain_callback  # noqa: E402

SCRIPT = Path(__file__).parent / "scripts" / "ms_train.py"

#: How often the operators of one training step of the script's net run.
STEP = {
    "graph": {
        "MatMul": 2,
        "ApplyMomentum": 2,
        "BiasAdd": 1,
        "BiasAddGrad": 1,
        "SoftmaxCrossEntropyWithLogits": 1,
        "OneHot": 1,
        "ExpandDims": 1,
        "AssignAdd": 1,
        "Mul": 1,
    },
    "pynative": {
        "MatMul": 2,
        "ApplyMomentum": 2,
        "BiasAdd": 1,
        "BiasAddGrad": 1,
        "SoftmaxCrossEntropyWithLogits": 1,
        "OneHot": 1,
        "Ones": 1,
        "AssignAdd": 1,
        "Mul": 3,
    },
}


def run_all(directory, dos):
    """Run the script in `directory`, everything in one process; return what it says of each."""
    requests = json.dumps([{"output": "out", "batches": 6, **do} for do in dos])
    done = run_program(sys.executable, SCRIPT, requests, cwd=directory, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(lines) == len(dos)
    return [json.loads(line.removeprefix("RESULT ")) for line in lines]


@pytest.fixture(scope="module")
def all_of(tmp_path_factory):
    """Run many trainings one after the other in one process, so that each also shows what the one before left behind."""
    ran = {}

    def all_of(name, dos):
        if name not in ran:
            root = tmp_path_factory.mktemp("trained")
            said = run_all(root, [{**do, "output": case} for case, do in dos.items()])
            ran[name] = {case: (root / case, one) for case, one in zip(dos, said, strict=True)}
        return ran[name]

    return all_of


def census(mode, steps):
    return {name: count * steps for name, count in STEP[mode].items()}


#: What the script does, how many training steps the window holds, and how many steps the recording has.
WAYS = {
    "step": ({"made": {"start_step": 3, "stop_step": 5}}, 3, 3),
    "step-over-epochs": ({"batches": 2, "epochs": 3, "made": {"start_step": 2, "stop_step": 5}}, 4, 4),
    "epoch": ({"batches": 3, "epochs": 4, "made": {"start_epoch": 2, "stop_epoch": 3}}, 6, 2),
    "start-stop": ({"loop": "start-stop", "from": 3, "to": 5, "made": {}}, 3, 1),
    "steps": ({"loop": "steps", "made": {"start_step": 3, "stop_step": 5}}, 3, 3),
}


@pytest.mark.parametrize(
    ("mode", "via"),
    [("graph", "profile"), pytest.param("pynative", "Profiler", marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.variants(1)
def test_the_window_holds_exactly_its_steps(all_of, mode, via, way):
    _, trained, recorded = WAYS[way]
    dos = {case: {**do, "mode": mode, "made": {**do["made"], "via": via}} for case, (do, _, _) in WAYS.items()}
    out, said = all_of(f"{mode} {via}", dos)[way]

    assert (said["raised"], said["told"], said["is_on"]) == (None, ["complete"], False)
    assert said["counts"] == census(mode, trained)
    verdict = check(out, expect=f"{mode},memory,steps={recorded}")
    assert verdict.layouts == ("ms-2.5+cpu",)
    recording = read_recording(out)
    assert recording.ending is Ending.COMPLETE
    assert recording.fingerprint.workload == ("train-by-epoch" if way == "epoch" else "train")
    assert len(recording.steps_of(Phase.ACTIVE)) == recorded


#: What else the script does in graph mode, and with which made arguments.
MORE = {
    # The first one, since memory that was recorded stays on.
    "no memory": {"made": {"start_step": 3, "stop_step": 5, "profile_memory": False, "activities": ["CPU"]}},
    "timed steps": {"made": {"start_step": 3, "stop_step": 5, "timed_steps": 1}},
    "timed epochs": {"batches": 3, "epochs": 4, "made": {"start_epoch": 2, "stop_epoch": 3, "timed_steps": 1}},
    "two cycles": {
        "batches": 8,
        "window": {"skip_first": 1, "wait": 1, "warmup": 0, "active": 2, "repeat": 2},
        "made": {"via": "Profiler"},
    },
    "a warm-up": {"window": {"skip_first": 1, "wait": 1, "warmup": 1, "active": 2, "repeat": 1}, "made": {}},
    "evaluations outside": {
        "batches": 4,
        "epochs": 3,
        "evaluate": 1,
        "eval_after": True,
        "made": {"start_step": 5, "stop_step": 8},
    },
    "evaluations inside": {"batches": 3, "epochs": 4, "evaluate": 1, "made": {"start_epoch": 2, "stop_epoch": 3}},
    "going on": {"batches": 3, "epochs": 4, "initial_epoch": 2, "made": {"start_epoch": 4, "stop_epoch": 4}},
    "sink on a CPU": {"dataset_sink_mode": True, "made": {"start_step": 3, "stop_step": 5}},
    # The last one, since nobody closes it.
    "forgotten": {"loop": "forgotten", "made": {"start_step": 3, "stop_step": 9}},
}


@pytest.fixture
def more(all_of):
    return lambda case: all_of("more", MORE)[case]


@pytest.mark.parametrize(
    ("case", "trained", "settled", "active"), [("timed steps", 3, 1, 3), ("timed epochs", 6, 0, 2)]
)
@pytest.mark.exhaustive
def test_steps_are_timed_before_the_window_without_moving_it(more, case, trained, settled, active):
    out, said = more(case)
    assert said["counts"] == census("graph", trained)
    phases = [step.phase.value for step in read_recording(out).steps]
    assert phases == ["settle"] * settled + ["timed"] + ["active"] * active


@pytest.mark.exhaustive
def test_a_window_of_several_cycles_goes_through_start_and_stop(more):
    out, said = more("two cycles")
    assert said["counts"] == census("graph", 4)
    assert len(list((out / "profiler").iterdir())) == 2
    check(out)


@pytest.mark.exhaustive
def test_a_schedule_with_a_warm_up_is_recorded_by_profile(more):
    out, said = more("a warm-up")
    assert said["counts"] == census("graph", 2)
    check(out, expect="steps=2")


@pytest.mark.exhaustive
def test_options_go_to_the_profiler(more):
    out, said = more("no memory")
    assert said["counts"] == census("graph", 3)
    check(out, expect="no-memory")
    assert read_recording(out).conditions == {"memory": False}
    assert not list(out.rglob("cpu_ms_memory_record_*.txt"))


@pytest.mark.exhaustive
def test_evaluations_outside_the_window_do_not_disturb(more):
    out, said = more("evaluations outside")
    assert (said["raised"], said["ending"]) == (None, "complete")
    assert said["counts"] == census("graph", 4)
    check(out, expect="steps=4")


@pytest.mark.exhaustive
def test_the_evaluation_of_an_epoch_belongs_to_it(more):
    out, said = more("evaluations inside")
    assert said["counts"]["ApplyMomentum"] == 2 * 3 * 2
    assert said["counts"]["MatMul"] == 2 * 3 * 2 + 2 * 2  # and one a batch of the evaluations
    check(out, expect="steps=2")


@pytest.mark.exhaustive
def test_epochs_of_a_training_that_goes_on_are_those_it_numbers(more):
    out, said = more("going on")
    assert said["counts"] == census("graph", 3)
    assert read_recording(out).fingerprint.window.skip_first == 1


@pytest.mark.exhaustive
def test_a_cpu_runs_data_sink_mode_step_by_step_so_a_window_of_steps_is_recorded(more):
    out, said = more("sink on a CPU")
    assert said["counts"] == census("graph", 3)
    check(out, expect="steps=3")


#: What the script does, what it raises, how the recording ends, and the reason in it.
ENDS = {
    "a callback raises": (
        {"at": [[4, "raise"]]},
        "ZeroDivisionError: loss is gone",
        "step-raised",
        "step 4 of 5: ZeroDivisionError: loss is gone",
    ),
    "interrupted": (
        {"at": [[4, "interrupt"]]},
        "KeyboardInterrupt: ",
        "interrupted",
        "step 4 of 5: KeyboardInterrupt:",
    ),
    "stop is requested": (
        {"at": [[4, "stop"]]},
        None,
        "loader-ended",
        "4 steps were run, the window needs 5 (2 settle + 3 profiled + 0 timed)",
    ),
    "stop is requested before the window": (
        {"at": [[1, "stop"]]},
        None,
        "loader-ended",
        "1 steps were run, the window needs 5 (2 settle + 3 profiled + 0 timed)",
    ),
    "the window is longer than the training": (
        {"made": {"start_step": 3, "stop_step": 50}},
        None,
        "loader-ended",
        "6 steps were run, the window needs 50 (2 settle + 48 profiled + 0 timed)",
    ),
    "epochs that never come": (
        {"epochs": 2, "made": {"start_epoch": 2, "stop_epoch": 3}},
        None,
        "loader-ended",
        "2 epochs were run, the window needs 3 (1 settle + 2 profiled + 0 timed)",
    ),
    "an evaluation inside the window": (
        {"batches": 4, "epochs": 3, "evaluate": 1},
        None,
        "loader-ended",
        "4 steps were run before an evaluation began inside the window, the window needs 5 (2 settle + 3 profiled + 0 timed)",
    ),
    "a loop that raises": (
        {"loop": "steps", "raise_at": 4},
        "ZeroDivisionError: loss is gone",
        "step-raised",
        "step 4 of 5: ZeroDivisionError: loss is gone",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", ENDS)
def test_a_training_that_ends_otherwise_leaves_nothing_profiling(all_of, case):
    _, raised, ending, reason = ENDS[case]
    dos = {name: {"made": {"start_step": 3, "stop_step": 5}, **do} for name, (do, _, _, _) in ENDS.items()}
    out, said = all_of("ends", dos)[case]
    assert (said["raised"], said["ending"], said["reason"]) == (raised, ending, reason)
    assert said["told"] == [ending]
    assert (said["is_on"], said["directory"]) == (False, None)
    code = {"step-raised": "C105", "interrupted": "C108", "loader-ended": "C106"}[ending]
    with pytest.raises(AssertionError, match=code):
        check(out)


@pytest.mark.exhaustive
def test_a_recording_that_nobody_closed_is_closed_at_exit(more):
    out, said = more("forgotten")
    assert said["is_on"]
    recording = read_recording(out)
    assert recording.ending is Ending.INTERRUPTED
    assert "the recording was not closed before the process ended" in recording.reason
    assert len(recording.steps) == 6


#: What the script does, the words of what is raised, and whether something is left behind.
STOPS = {
    "a training that never begins": ({"fail_at": 1}, "the data is gone", False),
    "an epoch that is over": (
        {"epochs": 4, "initial_epoch": 2, "made": {"start_epoch": 1, "stop_epoch": 4}},
        "UsageError: This training resumes at epoch 3, and the window begins earlier; name a later one.",
        False,
    ),
    "used twice": (
        {"trainings": 2},
        "UsageError: This callback has recorded already (used twice), and a recording is of one training; make a new",
        True,
    ),
    "no window": (
        {"made": {}},
        "UsageError: This callback has no window; write perfguard.callback(DIR, start_step=10,",
        False,
    ),
    "a profiler made meanwhile": (
        {"at": [[3, "profiler"]]},
        "another MindSpore profiler was made in this process",
        True,
    ),
    "a profiler made meanwhile by its class": (
        {"at": [[3, "profiler"]], "made": {"start_step": 3, "stop_step": 5, "via": "Profiler"}},
        "another MindSpore profiler was made in this process",
        True,
    ),
    "start without end": (
        {"made": {"start_step": 3}},
        "UsageError: start_step=3, stop_step=None is half a window; give both, the last step is included.",
        False,
    ),
    "an option it ignores": (
        {"made": {"start_step": 3, "stop_step": 5, "with_stack": True}},
        "mindspore.profiler.profile: with_stack=True has no effect on a CPU",
        False,
    ),
    "memory that stays on": (
        {"made": {"start_step": 3, "stop_step": 5, "profile_memory": False}},
        "profile_memory=False has no effect: memory was recorded in this process before",
        True,
    ),
    "a name, MindSpore; refuses": ({}, "CaptureError: MindSpore does not accept the path", True),
    # The last one, since it is never stopped.
    "a profiler that runs": ({"running": True}, "another MindSpore profiler is running in this process", True),
}


@pytest.mark.parametrize("case", STOPS)
@pytest.mark.exhaustive
def test_what_cannot_be_recorded_is_one_sentence(all_of, case):
    _, words, is_left = STOPS[case]
    dos = {name: {"made": {"start_step": 3, "stop_step": 5}, **do} for name, (do, _, _) in STOPS.items()}
    out, said = all_of("stops", dos)[case]
    assert words in said["raised"]
    assert is_left or said["told"] == []
    assert said["is_on"] is (case == "a profiler that runs")  # the program's own goes on
    assert out.exists() is is_left


# -- in this process ---------------------------------------------------------------------------------------------------


@pytest.fixture
def on_cpu():
    from tests.models.mindspore_nets import on_cpu

    mode = mindspore.get_context("mode")
    on_cpu()
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    yield
    mindspore.set_context(mode=mode)


def work():
    mindspore.ops.matmul(mindspore.ops.ones((4, 4)), mindspore.ops.ones((4, 4)))


def told(**parameters):
    """What MindSpore hands to a callback."""
    from mindspore.train.callback import RunContext
    from mindspore.train.callback._callback import InternalCallbackParam

    return RunContext(InternalCallbackParam(parameters))


def test_a_step_window_in_data_sink_mode_is_refused_before_the_first_step(tmp_path, on_cpu):
    watch = mindspore_callback(tmp_path / "out", start_step=3, stop_step=5)
    with pytest.raises(UsageError, match="In data-sink mode the device runs a whole epoch by itself"):
        watch.on_train_begin(told(dataset_sink_mode=True, cur_step_num=0))
    assert not (tmp_path / "out").exists()


@pytest.mark.exhaustive
def test_a_second_run_never_writes_into_the_first(tmp_path, on_cpu, more):
    shutil.copytree(more("timed steps")[0], tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="out is not empty, and a recording is not mixed with other files"):
        mindspore_callback(tmp_path / "out", start_step=3, stop_step=5).on_train_begin(told(cur_step_num=0))
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


@pytest.mark.exhaustive
def test_epochs_in_data_sink_mode_are_recorded(tmp_path, on_cpu):
    watch = mindspore_callback(tmp_path / "out", start_epoch=2, stop_epoch=3)
    with watch:
        watch.on_train_begin(told(dataset_sink_mode=True, cur_step_num=0))
        for epoch in (1, 2, 3, 4):
            now = told(dataset_sink_mode=True, cur_step_num=epoch * 100, cur_epoch_num=epoch)
            watch.on_train_epoch_begin(now)
            watch.on_train_step_begin(now)
            work()
            watch.on_train_step_end(now)
            watch.on_train_epoch_end(now)
        watch.on_train_end(now)
    assert watch.recording.ending is Ending.COMPLETE
    check(tmp_path / "out", expect="steps=2")


def test_the_recording_is_passed_on_once_at_the_end(tmp_path, on_cpu):
    ended = []
    watch = mindspore_callback(tmp_path / "out", start_step=2, stop_step=3, on_end=ended.append)
    assert isinstance(watch, mindspore.train.Callback)
    for number in (1, 2, 3, 4):
        watch.on_train_step_begin(told(cur_step_num=number))
        work()
        watch.on_train_step_end(told(cur_step_num=number))
    assert ended == [watch.recording]
    check(tmp_path / "out", expect="pynative,steps=2")


def test_a_plain_callback_takes_the_same_calls_and_does_nothing(on_cpu):
    plain = plain_callback()
    assert isinstance(plain, mindspore.train.Callback)
    with plain as entered, plain.step():
        work()
    assert entered is plain
    plain.on_train_begin(told())
    plain.start()
    plain.stop()
    assert (plain.close(), plain.recording, plain.is_used) == (None, None, False)


def test_a_watch_says_whether_it_was_used(tmp_path, on_cpu):
    watch = mindspore_callback(tmp_path / "out", start_step=1, stop_step=1)
    assert not watch.is_used
    with watch.step():
        work()
    assert watch.is_used


@pytest.mark.exhaustive
def test_a_watch_that_is_gone_is_interrupted(tmp_path, on_cpu):
    from mindspore.profiler.profiler_interface import ProfilerInterface

    watch = mindspore_callback(tmp_path / "out", start_step=1, stop_step=5)
    watch.on_train_step_begin(told(cur_step_num=1))
    work()
    watch.on_train_step_end(told(cur_step_num=1))
    assert ProfilerInterface.is_initialized
    del watch
    gc.collect()
    assert not ProfilerInterface.is_initialized
    assert read_recording(tmp_path / "out").ending is Ending.INTERRUPTED


def test_start_and_stop_are_called_once_and_in_order(tmp_path, on_cpu):
    watch = mindspore_callback(tmp_path / "out")
    with pytest.raises(UsageError, match="call start"):
        watch.stop()
    with pytest.raises(UsageError, match="has no window to count steps in"), watch.step():
        pass
    watch.start()
    work()
    with pytest.raises(UsageError, match=r"start\(\) was called before"):
        watch.start()
    watch.stop()
    watch.stop()
    assert watch.close().ending is Ending.COMPLETE
    check(tmp_path / "out")
    with pytest.raises(UsageError, match="The window decides which steps are recorded"):
        mindspore_callback(tmp_path / "other", start_step=1, stop_step=2).start()


#: Arguments of perfguard.callback, and the words of the refusal.
WRONG = [
    ({"start_step": 5, "stop_step": 3}, "start_step=5, stop_step=3 is not a window"),
    ({"start_step": 0, "stop_step": 3}, "steps count from 1"),
    ({"start_step": 1.0, "stop_step": 3}, "is not a window"),
    ({"start_step": True, "stop_step": 3}, "is not a window"),
    (
        {"start_epoch": 5, "stop_epoch": 3},
        "start_epoch=5, stop_epoch=3 is not a window: epochs count from 1 and the stop epoch",
    ),
    ({"stop_epoch": 3}, "start_epoch=None, stop_epoch=3 is half a window"),
    ({"start_step": 1, "stop_step": 2, "start_epoch": 1, "stop_epoch": 2}, "start_step and start_epoch are given"),
    ({"start_step": 1, "stop_step": 2, "window": StepWindow()}, "start_step and window are given"),
    ({"window": (3, 5)}, "window must be a perfguard.StepWindow"),
    ({"start_step": 1, "stop_step": 2, "via": "profiler"}, "via='profiler' is not known"),
    ({"window": StepWindow(warmup=1), "via": "Profiler"}, "has no warm-up"),
    (
        {"start_step": 3, "stop_step": 5, "timed_steps": 3},
        "timed_steps=3 do not fit into the 2 steps before the window",
    ),
    ({"start_step": 3, "stop_step": 5, "timed_steps": -1}, "must be an integer of at least 0"),
    ({"start_step": 3, "stop_step": 5, "timed_steps": True}, "must be an integer of at least 0"),
    ({"start_step": 3, "stop_step": 5, "profile_memory": 1}, "profile_memory must be true or false, got 1"),
    ({"start_step": 3, "stop_step": 5, "profil_memory": True}, "did you mean 'profile_memory'?"),
    ({"start_step": 3, "stop_step": 5, "schedule": StepWindow()}, "perfguard sets it from the window"),
    ({"start_step": 3, "stop_step": 5, "start_profile": False, "via": "Profiler"}, "perfguard sets it from the window"),
    ({"start_step": 3, "stop_step": 5, "output_path": "/x", "via": "Profiler"}, "perfguard sets it from the window"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
@pytest.mark.variants(3)
def test_a_call_that_is_wrong_is_one_sentence(tmp_path, on_cpu, arguments, words):
    with pytest.raises(UsageError) as error:
        mindspore_callback(tmp_path / "out", **arguments)
    assert words in str(error.value)
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_one_sentence(tmp_path, on_cpu):
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="is not a directory; name one to record into"):
        mindspore_callback(tmp_path / "out", start_step=1, stop_step=2)


def test_an_option_that_a_schedule_resets_is_refused_by_the_backend():
    with pytest.raises(UsageError, match="data_process=True is reset by a schedule"):
        MindSporeBackend(mindspore_options("2.10.0", {"data_process": True}, surface="profile", device="ascend"))
