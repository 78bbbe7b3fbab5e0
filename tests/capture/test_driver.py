"""The driver, with real frameworks: phases, failures, and that one capture leaves the next unharmed."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfguard.capture import BACKENDS, backend
from perfguard.capture.driver import Driver, require_callable
from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.errors import CaptureError, UsageError
from perfguard.findings import Code, Severity
from perfguard.recording import Ending, read_recording
from perfguard.window import Phase, StepWindow
from tests.installed import needed

torch = needed("torch", "models")
pytestmark = pytest.mark.slow

WINDOW = StepWindow(skip_first=2, wait=1, warmup=1, active=2, repeat=2)
PHASES = [
    *[("settle", 0)] * 2,
    *[("wait", 0), ("warmup", 0), ("active", 0), ("active", 0)],
    *[("wait", 1), ("warmup", 1), ("active", 1), ("active", 1)],
    *[("timed", 0)] * 3,
]


def work():
    torch.mm(torch.ones(4, 4), torch.ones(4, 4))


def driver(directory: Path, *, window=WINDOW, timed_steps=3, name="torch", **options) -> Driver:
    used = backend(name)
    used.prepare(1)
    return Driver(used, workload="a workload", directory=directory, window=window, timed_steps=timed_steps, **options)


def error_codes(recording):
    return {f.code.name for f in inspect(recording).findings if f.severity is Severity.ERROR}


def phases(recording):
    return [(step.phase.value, step.cycle) for step in recording.steps]


def test_the_callable_form_runs_the_phases_in_order(tmp_path):
    recording = driver(tmp_path).run(work)

    assert phases(recording) == PHASES
    assert recording.ending is Ending.COMPLETE
    assert error_codes(recording) == set()
    assert read_recording(tmp_path) == recording


def test_the_loop_form_runs_the_same_phases_and_takes_no_batch_too_many(tmp_path):
    batches = iter(range(1000))
    driven = driver(tmp_path)
    for _ in driven.iterate(batches):
        work()

    assert phases(driven.recording) == PHASES
    assert next(batches) == len(PHASES)
    assert error_codes(driven.recording) == set()


def test_steps_carry_unix_time_and_do_not_overlap(tmp_path):
    before = time.time_ns()
    recording = driver(tmp_path).run(work)
    after = time.time_ns()

    starts = [step.start_ns for step in recording.steps]
    assert before <= starts[0] < starts[-1] <= after
    assert starts == sorted(starts)
    assert all(step.wall_ns > 0 and step.thread_cpu_ns >= 0 for step in recording.steps)


def test_the_pace_drives_the_timed_steps_only(tmp_path):
    paced = []

    def pace(function, rounds):
        paced.append(rounds)
        for _ in range(rounds):
            function()

    driver(tmp_path).run(work, pace=pace)
    assert paced == [3]


def test_progress_is_told_of_every_step(tmp_path):
    told = []
    driver(tmp_path, progress=lambda phase, done, total: told.append((phase.value, done, total))).run(work)
    assert told == [(phase, i, len(PHASES)) for i, (phase, _) in enumerate(PHASES, start=1)]


@pytest.mark.parametrize(
    ("failing_call", "phase"),
    [
        (5, "active"),
        (12, "timed"),
        *(pytest.param(*one, marks=pytest.mark.exhaustive) for one in [(1, "settle"), (10, "active")]),
    ],
)
@pytest.mark.variants(1)
def test_a_step_that_raises_keeps_what_was_written_and_harms_nobody(tmp_path, failing_call, phase):
    calls = 0

    def failing():
        nonlocal calls
        calls += 1
        work()
        if calls == failing_call:
            raise ZeroDivisionError("loss is gone")

    driven = driver(tmp_path / "failing")
    with pytest.raises(ZeroDivisionError, match="loss is gone"):
        driven.run(failing)

    recording = read_recording(tmp_path / "failing")
    assert recording.ending is Ending.STEP_RAISED
    assert recording.reason == f"step {failing_call} of 13: ZeroDivisionError: loss is gone"
    assert "C105" in error_codes(recording)
    assert len(recording.steps) == failing_call - 1
    assert gc.isenabled()
    assert error_codes(driver(tmp_path / "next").run(work)) == set()


def test_an_interrupt_is_told_from_a_failure(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    driven = driver(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        driven.run(interrupted)
    assert driven.recording.ending is Ending.INTERRUPTED
    assert error_codes(driven.recording) >= {"C108"}


@pytest.mark.parametrize("length", [0, 4, 12])
def test_a_loader_that_ends_early_is_no_shorter_window(tmp_path, length):
    driven = driver(tmp_path)
    for _ in driven.iterate(range(length)):
        work()

    assert driven.recording.ending is Ending.LOADER_ENDED
    assert driven.recording.reason == (
        f"the loader gave {length} batches, the window needs 13 (2 settle + 8 profiled + 3 timed)"
    )
    assert "C106" in error_codes(driven.recording)
    assert gc.isenabled()


def test_a_loader_that_raises_comes_through(tmp_path):
    def broken():
        yield 1
        raise OSError("disk is gone")

    driven = driver(tmp_path)
    with pytest.raises(OSError, match="disk is gone"):
        list(driven.iterate(broken()))
    assert driven.recording.ending is Ending.STEP_RAISED


def test_abort_twice_says_the_first_reason(tmp_path):
    driven = driver(tmp_path)
    driven.abort(ValueError("first"))
    driven.abort(ValueError("second"))
    assert "first" in read_recording(tmp_path).reason


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="--perfguard-recordings DIR"):
        driver(tmp_path / "file" / "below")


def test_garbage_collection_stays_off_where_the_program_had_it_off(tmp_path):
    gc.disable()
    try:
        driver(tmp_path).run(work)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads_are_set_for_the_capture_and_put_back(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        used = backend("torch")
        used.prepare(1)
        assert used.target().threads == 1
        used.restore()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.exhaustive
def test_sessions_of_both_frameworks_follow_each_other_in_one_process(tmp_path):
    mindspore = pytest.importorskip("mindspore", reason="MindSpore is not installed: pip install -e '.[models]'")
    from tests.models.mindspore_nets import on_cpu, transformer_step

    mode = mindspore.get_context("mode")
    window = StepWindow(skip_first=2, warmup=1, active=3)
    censuses = {}
    try:
        for number, kind in enumerate(["graph", "torch", "pynative", "graph", "torch", "pynative"]):
            directory = tmp_path / str(number)
            if kind == "torch":
                recording = driver(directory, window=window).run(work)
            else:
                on_cpu()
                mindspore.set_context(mode=getattr(mindspore, f"{kind.upper()}_MODE"))
                recording = driver(directory, window=window, name="mindspore").run(transformer_step())
                assert recording.fingerprint.mode == kind
            contract = inspect(recording)
            assert [f for f in contract.findings if f.severity is Severity.ERROR] == []
            counts = dict(contract.cycles[0].measured["operator_calls"])
            assert censuses.setdefault(kind, counts) == counts
            assert len(recording.steps_of(Phase.ACTIVE)) == 3
    finally:
        mindspore.set_context(mode=mode)


@pytest.mark.exhaustive
def test_a_failing_mindspore_step_harms_nobody(tmp_path):
    mindspore = pytest.importorskip("mindspore", reason="MindSpore is not installed: pip install -e '.[models]'")
    import numpy as np

    from tests.models.mindspore_nets import on_cpu

    on_cpu()
    x = mindspore.Tensor(np.ones((4, 4), np.float32))
    window = StepWindow(skip_first=1, warmup=1, active=2)
    calls = 0

    def failing():
        nonlocal calls
        calls += 1
        mindspore.ops.matmul(x, x)
        if calls == 4:
            raise ZeroDivisionError

    driven = driver(tmp_path / "failing", window=window, timed_steps=0, name="mindspore")
    with pytest.raises(ZeroDivisionError):
        driven.run(failing)
    assert "C105" in error_codes(read_recording(tmp_path / "failing"))

    after = driver(tmp_path / "next", window=window, timed_steps=0, name="mindspore").run(
        lambda: mindspore.ops.matmul(x, x)
    )
    assert error_codes(after) == set()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("replay", r"replay runs no step: use perfguard\.replay\(directory\)"),
        ("tensorflow", "known are mindspore, torch, replay"),
        ("", "known are mindspore, torch, replay"),
    ],
)
def test_an_unknown_backend_is_one_sentence(name, sentence):
    with pytest.raises(UsageError, match=sentence):
        backend(name)


def test_every_backend_keeps_the_protocol():
    methods = {"prepare", "restore", "target", "synchronize", "start", "advance", "stop", "conditions", "name"}
    for name in BACKENDS:
        pytest.importorskip(name, reason=f"{name} is not installed: pip install -e '.[models]'")
        assert methods <= set(dir(backend(name)))


def test_what_cannot_be_called_is_one_sentence():
    with pytest.raises(UsageError, match="was given a list and needs a function"):
        require_callable([1, 2])


def test_replay_takes_a_directory_and_nothing_else(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        replay(tmp_path / "missing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a directory"):
        replay(tmp_path / "file")
    assert replay(tmp_path).fingerprint is None


def extra_work(every):
    """Return a step that does more at each `every`-th call."""
    calls = 0

    def step():
        nonlocal calls
        calls += 1
        work()
        if calls % every == 0:
            torch.ones(4).exp()

    return step


def growing_work():
    """Return a step that does more with each call."""
    calls = 0

    def step():
        nonlocal calls
        calls += 1
        for _ in range(calls):
            torch.ones(4).exp()

    return step


def first_step_differs():
    """Return a step whose fourth call, the first that is profiled, does more."""
    return extra_work(4)


@pytest.mark.parametrize(
    ("step", "active", "period", "severity", "says"),
    [
        (lambda: extra_work(4), 5, None, Severity.NOTE, "the steps repeat every 4"),
        (lambda: extra_work(2), 5, None, Severity.NOTE, "the steps repeat every 2"),
        (growing_work, 5, None, Severity.NOTE, "work grows with every step: "),
        (first_step_differs, 3, None, Severity.WARNING, "step 1 of the window ran different operators"),
        (lambda: extra_work(4), 4, 4, Severity.NOTE, "the steps repeat every 4 (period=4)"),
        (lambda: extra_work(4), 8, 4, None, ""),
        (lambda: extra_work(4), 8, 3, Severity.WARNING, "but period=3 says that they repeat"),
        (lambda: work, 5, None, None, ""),
    ],
)
@pytest.mark.variants(1)
def test_steps_that_differ_by_themselves_are_judged_as_a_whole_window(tmp_path, step, active, period, severity, says):
    driven = driver(tmp_path, window=StepWindow(skip_first=2, warmup=1, active=active), timed_steps=0)
    recording = replace(driven.run(step()), period=period)
    findings = [one for one in inspect(recording).findings if one.code is Code.C102]
    assert error_codes(recording) == set()
    assert {one.severity for one in findings} == ({severity} if severity else set())
    assert all(says in one.message for one in findings)


@pytest.mark.parametrize("timed_steps", [0, 3])
def test_the_profiled_steps_are_the_same_with_time_on_and_off(tmp_path, timed_steps):
    calls = growing_work()
    driven = driver(tmp_path, window=StepWindow(skip_first=2, warmup=1, active=2), timed_steps=timed_steps)
    recording = driven.run(calls)
    assert recording.fingerprint.first_profiled_step == 4
    assert [step.index + 1 for step in recording.steps if step.phase is Phase.ACTIVE] == [4, 5]
