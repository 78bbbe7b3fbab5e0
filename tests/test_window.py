"""Windows: which step number is profiled, in everybody's way of counting."""

from __future__ import annotations

from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard import StepWindow
from perfguard.capture.script import step_counts
from perfguard.errors import UsageError
from perfguard.window import Phase

WINDOWS = st.builds(
    StepWindow,
    skip_first=st.integers(0, 6),
    wait=st.integers(0, 4),
    warmup=st.integers(0, 4),
    active=st.integers(1, 6),
    repeat=st.integers(1, 4),
)


def active_numbers(window: StepWindow, first: int) -> list[int]:
    """Number the steps of a capture from `first`, and return those that are recorded."""
    return [number for number, (phase, _) in enumerate(window.phases(0), first) if phase is Phase.ACTIVE]


@given(start=st.integers(1, 60), length=st.integers(0, 40))
def test_start_stop_counts_from_one_and_includes_the_stop_step(start, length):
    stop = start + length
    expected = [number for number in range(1, 200) if start <= number <= stop]
    assert active_numbers(StepWindow.from_start_stop(start, stop), first=1) == expected


@given(start=st.integers(0, 60), length=st.integers(1, 40))
def test_start_end_counts_from_zero_and_leaves_the_end_step_out(start, length):
    end = start + length
    expected = [number for number in range(200) if start <= number < end]
    assert active_numbers(StepWindow.from_start_end(start, end), first=0) == expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (StepWindow.from_start_stop(1, 1), StepWindow(skip_first=0, warmup=0, active=1)),
        (StepWindow.from_start_stop(3, 5), StepWindow(skip_first=2, warmup=0, active=3)),
        (StepWindow.from_start_end(0, 1), StepWindow(skip_first=0, warmup=0, active=1)),
        (StepWindow.from_start_end(3, 5), StepWindow(skip_first=3, warmup=0, active=2)),
    ],
)
def test_two_numbers_become_a_window(window, expected):
    assert window == expected


@given(start=st.integers(1, 60), length=st.integers(0, 40))
def test_the_two_ways_of_counting_name_the_same_steps(start, length):
    assert StepWindow.from_start_stop(start, start + length) == StepWindow.from_start_end(start - 1, start + length)


@given(window=WINDOWS, timed=st.integers(0, 5), timed_first=st.booleans())
def test_phases_run_in_order_and_repeat(window, timed, timed_first):
    cycles = chain.from_iterable(
        chain(
            repeat(("wait", cycle), window.wait),
            repeat(("warmup", cycle), window.warmup),
            repeat(("active", cycle), window.active),
        )
        for cycle in range(window.repeat)
    )
    last = [*repeat(("timed", 0), timed)]
    first = [last.pop() for _ in range(timed)] if timed_first else []
    found = [(phase.value, cycle) for phase, cycle in window.phases(timed, timed_first=timed_first)]
    assert found == [*repeat(("settle", 0), window.skip_first), *first, *cycles, *last]
    assert found.index(("active", 0)) + 1 == window.first_profiled_step(len(first))


@given(window=WINDOWS, timed=st.integers(0, 5))
def test_the_same_steps_are_profiled_however_many_are_timed(window, timed):
    def profiled(timed):
        return [number for number, (phase, _) in enumerate(window.phases(timed)) if phase is Phase.ACTIVE]

    assert profiled(timed) == profiled(0)


@given(window=WINDOWS)
def test_the_profiler_sees_as_many_steps_as_the_window_says(window):
    phases = list(window.profiler_phases())
    assert len(phases) == window.profiler_steps == window.steps_per_cycle * window.repeat
    assert list(window.phases(0)) == [(Phase.SETTLE, 0)] * window.skip_first + phases


@given(window=WINDOWS)
def test_the_plain_form_is_the_window(window):
    assert StepWindow(**window.as_dict()) == window


@pytest.mark.parametrize("field", ["skip_first", "wait", "warmup", "active", "repeat"])
@pytest.mark.parametrize("value", [-1, 1.0, "2", None, True, float("nan")])
def test_what_is_no_count_is_no_window(field, value):
    with pytest.raises(UsageError, match=rf"StepWindow\({field}=.*{field} must be an integer of at least [01]\."):
        StepWindow(**{field: value})


@pytest.mark.parametrize("field", ["active", "repeat"])
def test_a_window_records_at_least_one_step(field):
    with pytest.raises(UsageError, match=f"{field} must be an integer of at least 1"):
        StepWindow(**{field: 0})


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (-1, 3), (4, 3), (1, 0), ("1", 3), (1, "3"), (None, 3), (1.5, 3)])
def test_what_is_no_start_and_stop_is_refused(start, stop):
    with pytest.raises(UsageError, match="is not a window"):
        StepWindow.from_start_stop(start, stop)


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 3), (4, 3), (0, 0), ("0", 3), (0, "3"), (None, 3), (0.5, 3)])
def test_what_is_no_start_and_end_is_refused(start, end):
    with pytest.raises(UsageError, match="is not a window"):
        StepWindow.from_start_end(start, end)


@given(st.integers(1, 10**6), st.integers(0, 10**4))
def test_a_window_is_read_from_text_as_it_is_from_numbers(start, length):
    assert StepWindow.from_text(f"{start}:{start + length}") == StepWindow.from_start_stop(start, start + length)


@pytest.mark.parametrize("text", ["", ":", "10", "10:", ":20", "a:b", "1:2:3", "-1:5", "1.5:2", "٣:٤", " 1:2", "0x1:2"])
def test_text_that_is_no_window_is_refused(text):
    with pytest.raises(UsageError, match=r"is not a window\. Write START:STOP, such as 10:20"):
        StepWindow.from_text(text)


@given(st.integers(1, 500), st.integers(0, 50))
def test_a_script_profiles_exactly_the_steps_it_was_asked_for(start, length):
    counts = step_counts(StepWindow.from_start_stop(start, start + length))
    before = counts["skip_first"] + counts["timed"] + counts["warmup"]
    assert (before + 1, counts["active"]) == (start, length + 1)
    assert min(counts.values()) >= 0
    assert counts["timed"] <= 30
    assert counts["timed"] == 0 or counts["skip_first"] >= 2
