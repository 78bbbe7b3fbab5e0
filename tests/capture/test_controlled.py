"""A controlled process from inside: how it is bound, what the clock keeps, and what a system may lack."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfguard import thresholds
from perfguard.capture import backend, controlled
from perfguard.capture.controlled import ControlledWindow, StepClock, bind, controlled_environment
from perfguard.errors import CaptureError
from perfguard.measure import measure_runs
from perfguard.timing import Timing, read_timing, write_timing
from tests.installed import needed

torch = needed("torch", "models")


@pytest.fixture
def short(monkeypatch):
    """A window of hundredths of a second."""
    for name, value in {"WINDOW_S": 0.01, "LONGEST_WINDOW_S": 0.05, "WARMUP_S": 0.01, "REST_S": 0.0}.items():
        monkeypatch.setattr(thresholds, name, value)


@pytest.fixture
def window(short):
    def make(**changes) -> ControlledWindow:
        facts = {"workload": "w", "settle": 2, "least": 5, "cpus": (0,)}
        return ControlledWindow(backend("torch"), **{**facts, **changes})

    return make


def work() -> None:
    # Small enough for one thread: on a busy machine two wait for each other.
    torch.mm(torch.ones(8, 8), torch.ones(8, 8))


# -- the window ----------------------------------------------------------------------------------------------------------


def test_steps_settle_before_they_are_timed_beside_the_kernel(window):
    count = 0

    def step():
        nonlocal count
        count += 1
        work()

    timing = window().run(step)
    assert 5 <= timing.steps <= thresholds.MOST_STEPS
    assert 3 <= count - timing.steps <= 2 + thresholds.WARMUP_STEPS
    lengths = {len(getattr(timing, f"{name}_ns")) for name in ("thread_cpu", "process_cpu", "wall", "calibration")}
    assert lengths == {timing.steps}
    assert min(timing.calibration_ns) > 0
    assert (timing.workload, timing.clock, timing.cpus, timing.notes) == ("w", "process", (0,), ())
    assert timing.environment is not None
    assert timing.environment.packages["torch"] == torch.__version__


@pytest.mark.exhaustive
def test_as_many_steps_as_are_asked_for_and_no_more_than_the_most(window, monkeypatch):
    monkeypatch.setattr(thresholds, "MOST_STEPS", 20)
    assert window(least=30).run(work).steps == 30
    assert window(least=1).run(lambda: None).steps <= 20


@pytest.mark.parametrize(("batches", "timed", "short"), [(3, 1, True), (7, 5, False), (9, 5, False)])
@pytest.mark.variants(1)
def test_a_loop_that_ends_early_is_timed_as_far_as_it_went(window, monkeypatch, batches, timed, short):
    """Two batches settle; what is beyond the five that are wanted warms up."""
    monkeypatch.setattr(thresholds, "WARMUP_S", 60.0)
    monkeypatch.setattr(thresholds, "WINDOW_S", 60.0)
    monkeypatch.setattr(thresholds, "LONGEST_WINDOW_S", 60.0)
    made = window()
    assert [work() for _ in made.iterate(range(batches))] == [None] * batches
    assert made.timing is not None
    assert made.timing.steps == timed
    assert made.timing.notes == ((f"the loader ended after {timed} of 5 timed steps",) if short else ())
    assert len(made.timing.calibration_ns) == timed


@pytest.mark.parametrize(("batches", "said"), [(0, "all needed to settle"), (1, "all needed to settle"), (2, "give")])
def test_a_loop_of_too_few_batches_is_said(window, batches, said):
    with pytest.raises(CaptureError, match=said):
        list(window().iterate(range(batches)))


def test_what_a_step_raises_comes_through(window):
    def broken():
        raise ZeroDivisionError("in the step")

    with pytest.raises(ZeroDivisionError, match="in the step"):
        window().run(broken)


SLEEPER = """
import sys, time
from pathlib import Path
from perfguard import thresholds
from perfguard.capture import backend
from perfguard.capture.controlled import ControlledWindow
from perfguard.timing import write_timing
thresholds.WINDOW_S = thresholds.WARMUP_S = 0.01
used = backend("torch")
window = ControlledWindow(used, workload="w", settle=2, least=5, cpus=())
write_timing(window.run(lambda: time.sleep(0.01)), Path(sys.argv[1]))
"""


@pytest.mark.exhaustive
def test_a_step_that_sleeps_stands_still_and_costs_nothing(tmp_path):
    """In a process of its own, with one thread: those of OpenBLAS turn for a while after a product, and that is CPU time."""
    command = [sys.executable, "-c", SLEEPER, tmp_path / "timing.json"]
    subprocess.run(command, env=controlled_environment(os.environ, threads=1), check=True)
    timing = read_timing(tmp_path / "timing.json")
    found = {one.metric: one.value for one in measure_runs([timing])}
    if timing.run_queue_ns:
        # Less what the scheduler says of a wait for a CPU after the sleep.
        assert found["run_blocked_time"] > 9_000
    assert found["run_wall_time"] >= 10_000
    assert found["run_cpu_time"] < found["run_wall_time"]


# -- what a system may lack ----------------------------------------------------------------------------------------------


def test_without_schedstat_nothing_is_said_of_standing_still(window, monkeypatch):
    monkeypatch.setattr(controlled, "_open_schedstat", lambda: None)
    timing = window().run(work)
    assert timing.run_queue_ns == ()
    assert "run_blocked_time" not in {one.metric for one in measure_runs([timing])}


def test_host_memory_is_read_before_the_first_step_and_after_every_tenth(window):
    timing = window(least=40).run(work)
    assert len(timing.host_memory_bytes) >= 1 + 40 // thresholds.MEMORY_EVERY_STEPS
    assert "host_memory_growth_bytes" in {one.metric for one in measure_runs([timing])}


def test_another_malloc_is_said(window, monkeypatch):
    monkeypatch.setattr(controlled, "host_memory_reader", lambda: None)
    timing = window(least=20).run(work)
    assert timing.host_memory_bytes == ()
    assert timing.notes == ("host memory is unknown: malloc is not that of glibc 2.33 or later",)
    assert "host_memory_growth_bytes" not in {one.metric for one in measure_runs([timing])}


def test_without_pressure_there_is_none(window, monkeypatch):
    monkeypatch.setattr(controlled, "_total_pressure_us", lambda: None)
    assert window().run(work).cpu_pressure is None


def test_a_system_that_binds_nothing_is_said(window, monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert bind(1) == ()
    assert window(cpus=()).run(work).notes == ("the process could not be bound to one CPU",)


class Driver:
    """A GPU as torch has it: it says its clock as often as it has one."""

    def __init__(self, *clocks: int) -> None:
        self._clocks = list(clocks)

    def synchronize(self) -> None: ...

    def get_device_name(self) -> str:
        return "a GPU"

    def clock_rate(self) -> int:
        if not self._clocks:
            raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed or it can't be imported.")
        return self._clocks.pop(0)


@pytest.mark.parametrize(
    ("driver", "clocks", "notes"),
    [
        (None, (), ()),
        (Driver(345, 1980, 1410, 1980), (1980.0, 1410.0), ()),
        (
            Driver(345, 1980),
            (1980.0,),
            ("the clock of the device is unknown: nvidia-ml-py does not seem to be installed or",),
        ),
        (Driver(), (), ("the clock of the device is unknown: nvidia-ml-py does not seem to be installed or",)),
    ],
    ids=["a CPU", "a GPU", "a driver that stops", "no driver"],
)
def test_the_clock_of_a_gpu_is_read_after_every_tenth_step(window, monkeypatch, driver, clocks, notes):
    """torch's own function asks NVML or AMD SMI; here a stand-in. The first reading is of an idle GPU."""
    made = window(least=20)
    monkeypatch.setattr(thresholds, "MOST_STEPS", 20)
    monkeypatch.setattr(thresholds, "WARMUP_STEPS", 0)
    if driver is not None:
        monkeypatch.setattr(made.backend, "_device", lambda: ("cuda", driver))
    timing = made.run(work)
    assert timing.device_clocks_mhz == clocks
    assert [found.startswith(one) for found, one in zip(timing.notes, notes, strict=True)] == [True] * len(notes)


def test_clocks_that_stand_still_give_zeros_and_no_cost(window, monkeypatch):
    for clock in ("process_time_ns", "thread_time_ns", "perf_counter_ns"):
        monkeypatch.setattr(time, clock, lambda: 7)
    timing = window().run(work)
    assert set(timing.process_cpu_ns + timing.wall_ns) == {0}
    assert "step_cost" not in {one.metric for one in measure_runs([timing])}


def test_a_clock_that_jumps_back_gives_no_negative_time(window, monkeypatch):
    ticks = iter(range(10**9, 0, -1000))
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(ticks))
    assert set(window().run(work).wall_ns) == {0}


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no process to a CPU")
@pytest.mark.parametrize("threads", [1, 2, 64])
def test_a_process_is_bound_to_as_many_cpus_as_it_has_threads(threads):
    code = f"import os; from perfguard.capture.controlled import bind; print(bind({threads}), os.sched_getaffinity(0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bound, really = done.stdout.strip().split(") ")
    cpus = {int(cpu) for cpu in bound.strip("(,").split(",") if cpu.strip()}
    assert cpus == {int(cpu) for cpu in really.strip("{}").split(",")}
    assert len(cpus) == min(threads, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("threads", [1, 4])
def test_what_the_user_set_stays(threads):
    found = controlled_environment({"MALLOC_TOP_PAD_": "1", "HOME": "/h"}, threads=threads)
    assert (found["MALLOC_TOP_PAD_"], found["HOME"], found["OMP_NUM_THREADS"]) == ("1", "/h", str(threads))
    assert found["MALLOC_MMAP_MAX_"] == thresholds.MALLOC["MALLOC_MMAP_MAX_"]


# -- the plain form ------------------------------------------------------------------------------------------------------


def test_a_timing_is_read_as_it_was_written(window, tmp_path):
    timing = window().run(work)
    write_timing(timing, tmp_path / "timing.json")
    assert read_timing(tmp_path / "timing.json") == timing
    assert Timing.from_dict(timing.as_dict()) == timing


def test_the_clock_keeps_the_order_of_steps(short):
    clock = StepClock(backend("torch"))
    for seconds in (0.0, 0.5, 0.0):
        clock.begin()
        time.sleep(seconds)
        clock.end()
    timing = clock.timing("w", cpus=(), notes=())
    assert max(range(3), key=lambda index: timing.wall_ns[index]) == 1


def test_the_thresholds_are_explained():
    text = Path(thresholds.__file__).read_text(encoding="utf-8")
    names = [name for name in vars(thresholds) if name.isupper()]
    assert len(names) > 20
    assert all(f"\n{name} = " in text for name in names)
