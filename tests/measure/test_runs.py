"""What controlled processes measured, one sample a process."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.measure import METRICS, measure_runs
from perfguard.measure.runs import best_of_runs
from perfguard.timing import Timing


def timing(**changes) -> Timing:
    """Three steps of 2, 3 and 4 ms in one thread, beside a kernel of 1 ms; each waited half a millisecond for a CPU."""
    facts = {
        "workload": "w",
        "clock": "process",
        "thread_cpu_ns": (2_000_000, 3_000_000, 4_000_000),
        "process_cpu_ns": (2_000_000, 3_000_000, 4_000_000),
        "wall_ns": (2_500_000, 3_500_000, 4_500_000),
        "calibration_ns": (1_000_000, 1_100_000, 1_200_000),
        "run_queue_ns": (500_000, 500_000, 500_000),
    }
    return Timing(**{**facts, **changes})


def of(*timings: Timing) -> dict[str, tuple[float, tuple[float, ...]]]:
    return {one.metric: (one.value, one.samples) for one in measure_runs(timings)}


def test_one_process_is_one_sample_of_every_metric():
    assert of(timing()) == {
        "run_blocked_time": (0.0, (0.0,)),
        "run_calibration": (1000.0, (1000.0,)),
        "run_cpu_time": (2000.0, (2000.0,)),
        # Without the half millisecond that each step waited for a CPU: the 90th percentile of 2, 3 and 4 ms.
        "run_wall_p90": (3800.0, (3800.0,)),
        "run_wall_time": (2000.0, (2000.0,)),
        "step_cost": (2.0, (2.0,)),
    }


@pytest.mark.parametrize(
    ("changes", "metric", "expected"),
    [
        # A wait is counted when it ends, and may be longer than the step it is counted for: no step is quicker than its work.
        ({"run_queue_ns": (9_000_000, 0, 0)}, "run_wall_time", 2000.0),
        ({"run_queue_ns": ()}, "run_wall_time", 2500.0),
        # Of a device's speed the kernel knows nothing.
        ({"clock": "wall", "calibration_ns": (9_000_000,) * 3}, "step_cost", 2.5),
        ({"process_cpu_ns": (0, 3, 4)}, "step_cost", None),
        ({"calibration_ns": (0, 3, 4)}, "step_cost", None),
        ({"run_queue_ns": ()}, "run_blocked_time", None),
        ({"run_queue_ns": ()}, "run_wall_p90", 4300.0),
        # Waiting for a device is no stall.
        ({"clock": "wall", "wall_ns": (10_000_000,) * 3}, "run_blocked_time", None),
        ({"host_memory_bytes": (0, 10, 20)}, "host_memory_growth_bytes", None),
        ({"host_memory_bytes": (0, 10, 20, 30)}, "host_memory_growth_bytes", 1.0),
        # 10 ms by the clock, of which 2, 3 and 4 ms were work and half of one waited for a CPU.
        ({"wall_ns": (10_000_000,) * 3}, "run_blocked_time", 6500.0),
        # One late batch of three.
        ({"wall_ns": (2_500_000, 3_500_000, 34_500_000)}, "run_blocked_time", 10_000.0),
        # Another thread of its own had the CPU for 2 ms of the 3 that the first one waited: that is work and no wait.
        (
            {
                "wall_ns": (10_000_000,) * 3,
                "thread_cpu_ns": (0, 1_000_000, 2_000_000),
                "run_queue_ns": (3_000_000,) * 3,
            },
            "run_blocked_time",
            6000.0,
        ),
        # Of two CPUs it had one, so that it can have kept the first thread from both for 1 ms at most.
        (
            {
                "wall_ns": (10_000_000,) * 3,
                "thread_cpu_ns": (0, 1_000_000, 2_000_000),
                "run_queue_ns": (3_000_000,) * 3,
                "cpus": (0, 1),
            },
            "run_blocked_time",
            5000.0,
        ),
        # MindSpore's turn as long as the step lasts, and nothing stands still.
        (
            {
                "wall_ns": (3_000_000,) * 3,
                "process_cpu_ns": (3_000_000,) * 3,
                "thread_cpu_ns": (0,) * 3,
                "run_queue_ns": (3_000_000,) * 3,
            },
            "run_blocked_time",
            0.0,
        ),
        (
            {"process_cpu_ns": (3_000_000,) * 3, "thread_cpu_ns": (0,) * 3, "run_queue_ns": (3_000_000,) * 3},
            "run_wall_p90",
            4300.0,
        ),
        # Threads that worked side by side: more CPU time than the clock saw.
        ({"process_cpu_ns": (9_000_000,) * 3}, "run_blocked_time", 0.0),
    ],
)
def test_a_sample(changes, metric, expected):
    found = of(timing(**changes)).get(metric)
    assert (found and found[0]) == expected


@pytest.mark.parametrize("steps", [1, 2])
def test_a_step_or_two_are_enough_for_a_number(steps):
    parts = ("thread_cpu_ns", "process_cpu_ns", "wall_ns", "calibration_ns", "run_queue_ns")
    found = of(timing(**{name: getattr(timing(), name)[:steps] for name in parts}))
    assert found["step_cost"] == (2.0, (2.0,))


def test_the_clock_of_a_device_is_the_usual_one_of_the_process_with_the_highest():
    """A process that was throttled is not the one whose step counts."""
    clocks = [(1980.0, 1410.0, 1980.0), (1410.0, 1410.0, 1980.0), ()]
    assert of(*(timing(device_clocks_mhz=one) for one in clocks))["run_device_clock"] == (1980.0, (1980.0, 1410.0))
    assert "run_device_clock" not in of(timing())


def test_processes_keep_their_order():
    slow = timing(process_cpu_ns=(4_000_000, 5_000_000, 5_000_000))
    assert of(slow, timing(), slow)["step_cost"] == (2.0, (4.0, 2.0, 4.0))
    assert of() == {}


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([3.0], 3.0),
        ([3.0, 1.0, 2.0, 5.0], 1.0),
        ([3.0, 1.0, 2.0, 5.0, 4.0], 1.0),
        # What is beyond a whole five is left out, as the minimum of more would be lower.
        ([3.0, 1.0, 2.0, 5.0, 4.0, 0.5], 1.0),
        ([1.0] + [9.0] * 4 + [3.0] * 5, 3.0),
        ([1.0] + [9.0] * 4 + [3.0] * 5 + [5.0] * 5, 3.0),
    ],
)
def test_many_processes_are_read_as_groups_of_five(samples, expected):
    assert best_of_runs(samples) == expected


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60))
def test_the_best_is_one_of_them_and_no_better_than_the_least(samples):
    best = best_of_runs(samples)
    assert min(samples) <= best <= max(samples)
    assert best in samples
    if len(samples) < 10:
        assert best == min(samples[:5] if len(samples) >= 5 else samples)


def test_fifty_processes_come_to_what_five_do_on_average():
    # With the minimum of fifty every later five would look slower.
    samples = [1.0 + (17 * i % 50) / 100 for i in range(50)]
    fives = [min(samples[i : i + 5]) for i in range(0, 50, 5)]
    assert best_of_runs(samples) == statistics.median_high(fives) > min(samples)


def test_what_fails_and_what_warns():
    of_runs = {name: metric for name, metric in METRICS.items() if metric.by_run}
    failing = {name for name, metric in of_runs.items() if metric.gated and metric.relative < math.inf}
    warning = {name for name, metric in of_runs.items() if metric.gated and metric.relative == math.inf}
    failing_here = {"step_cost", "step_ab", "run_blocked_time", "host_memory_growth_bytes"}
    assert (failing, warning) == (failing_here, {"run_wall_p90"})


# -- host memory ---------------------------------------------------------------------------------------------------------

LEAK_BYTES = 65536


def growth(*readings: float) -> float:
    """What a process keeps a step, by readings of every tenth."""
    return of(timing(host_memory_bytes=tuple(map(round, readings))))["host_memory_growth_bytes"][0]


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        # A cache fills in one third of the window.
        ([0, 0, 1000, 1000], 0),
        ([0, 1000, 1000, 1000, 1000, 1000, 1000], 0),
        ([0, 0, 0, 0, 0, 0, 1000], 0),
        # A leak that came to an end, or began late.
        ([0, 100, 200, 200], 0),
        ([0, 0, 100, 200], 0),
        ([0, 100, 200, 300], 10),
        ([300, 200, 100, 0], 0),
        # Garbage that is collected once in the window, late or early.
        ([0, 100, 200, 300, 400, 500, 0], 0),
        ([0, 100, 200, 0, 100, 200, 300], 0),
    ],
)
def test_what_stays_in_every_third_of_the_window_is_growth(readings, expected):
    assert growth(*readings) == expected


NOISE = st.lists(st.integers(0, 10 * LEAK_BYTES // 8), min_size=4, max_size=40)


@given(noise=NOISE, leak=st.integers(0, 100 * LEAK_BYTES))
def test_a_constant_leak_is_found_under_noise(noise, leak):
    """Of at most an eighth of 64 KiB a step: what is found is off by no more than the noise over the shortest third."""
    found = growth(*(10 * leak * index + one for index, one in enumerate(noise)))
    shortest = max(1, (len(noise) - 1) // 3)
    # A sample is rounded to six digits.
    assert abs(found - leak) <= max(noise) / (10 * shortest) + 1e-6


@given(
    teeth=st.integers(1, 20),
    height=st.integers(0, 2**40),
    readings=st.integers(4, 40),
    late=st.integers(0, 20),
)
def test_a_sawtooth_is_no_leak(teeth, height, readings, late):
    """Garbage that is collected every so many readings, at least once after the first third."""
    saw = [height * ((index + late) % teeth) for index in range(readings)]
    lowest = [index for index, one in enumerate(saw) if one == min(saw)]
    if lowest[-1] >= round((readings - 1) / 3):
        assert growth(*saw) == 0
