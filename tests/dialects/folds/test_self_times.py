"""Self times of events that are listed one by one: what the times that traces leave while they go by are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st


def self_times(tracks: Sequence[Any], start_ns: Sequence[int], duration_ns: Sequence[int]) -> list[int]:
    """Return each event's time without the events nested in it on the same track (thread).

    Events come sorted by start, longer first where starts are equal. An event that only overlaps its predecessor is
    no child of it.
    """
    own = list(duration_ns)
    stacks: dict[Any, list[tuple[int, int]]] = {}
    for index, (track, start, duration) in enumerate(zip(tracks, start_ns, duration_ns, strict=True)):
        stack = stacks.setdefault(track, [])
        end = start + duration
        while stack and stack[-1][1] <= start and not (duration == 0 and stack[-1][1] == start):
            stack.pop()
        if stack and end <= stack[-1][1]:
            own[stack[-1][0]] -= duration
        stack.append((index, end))
    return own


@pytest.mark.parametrize(
    ("events", "own"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([("t", 0, 10)], [10], id="one"),
        pytest.param([("t", 0, 10), ("t", 2, 3), ("t", 5, 5)], [2, 3, 5], id="two children, one to the end"),
        pytest.param([("t", 0, 10), ("t", 0, 10)], [0, 10], id="a child as long as its parent"),
        pytest.param([("t", 0, 10), ("t", 1, 8), ("t", 2, 3)], [2, 5, 3], id="a grandchild"),
        pytest.param([("t", 0, 10), ("u", 2, 3)], [10, 3], id="another thread"),
        pytest.param([("t", 0, 10), ("t", 10, 5)], [10, 5], id="a neighbour that touches"),
        pytest.param([("t", 0, 10), ("t", 5, 10)], [10, 10], id="an overlap is no child"),
        pytest.param([("t", 0, 10), ("t", 0, 0), ("t", 10, 0)], [10, 0, 0], id="events without duration"),
        pytest.param([("t", 0, 4), ("t", 4, 0), ("t", 4, 4), ("t", 5, 1)], [4, 0, 3, 1], id="an empty one between"),
    ],
)
def test_the_self_times_of_events(events, own):
    assert self_times(*map(list, zip(*events, strict=True))) == own if events else self_times([], [], []) == []


TREES = st.recursive(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.just(())),
    lambda inner: st.tuples(st.integers(0, 3), st.integers(0, 3), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


def nested_events(trees: Any, now: int, track: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield (track, start, duration, own time) of every event of a row of trees that begins at `now`, parents first."""
    for gap, tail, children in trees:
        start = now + gap
        inside = list(nested_events(children, start, track))
        end = max([start, *(begin + duration for _, begin, duration, _ in inside)]) + tail
        direct, at = 0, start
        for _, begin, duration, _ in inside:
            if begin >= at and duration:  # the next one behind, not inside, the last direct child
                direct, at = direct + duration, begin + duration
        yield track, start, end - start, end - start - direct
        yield from inside
        now = end


@given(st.dictionaries(st.sampled_from("tu"), st.lists(TREES, max_size=3), max_size=2))
def test_self_times_of_nested_events_are_durations_without_direct_children(tracks):
    events = [event for track, trees in tracks.items() for event in nested_events(trees, 0, track)]
    events.sort(key=lambda event: (event[1], -event[2]))
    found = self_times([e[0] for e in events], [e[1] for e in events], [e[2] for e in events])
    assert found == [e[3] for e in events]


@given(st.lists(TREES, max_size=4))
def test_self_times_of_one_thread_add_up_to_the_time_it_was_busy(trees):
    events = sorted(nested_events(trees, 0, "t"), key=lambda event: (event[1], -event[2]))
    busy = {tick for _, start, duration, _ in events for tick in range(start, start + duration)}
    assert sum(self_times([e[0] for e in events], [e[1] for e in events], [e[2] for e in events])) == len(busy)
