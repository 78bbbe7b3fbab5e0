"""Which span lies in which other, and what is left of its time: as a stack of open spans says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.artifacts import nesting
from perfguard.artifacts.nesting import nest, parents
from perfguard.artifacts.table_definitions import NULL, Definitions
from perfguard.artifacts.tables import batch

VIEW = "(select *, category = 0 as is_work from spans)"


def by_stack(threads: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return the place of the span that each one lies in, -1 for none; sorted by start, longer first."""
    stacks: dict[int, list[int]] = {}
    found = []
    for place, (thread, start, end) in enumerate(zip(threads, starts, ends, strict=True)):
        stack = stacks.setdefault(thread, [])
        while stack and ends[stack[-1]] <= start and not start == end == ends[stack[-1]]:
            stack.pop()
        found.append(stack[-1] if stack else -1)
        stack.append(place)
    return found


def by_hand(threads: Sequence[int], starts: Sequence[int], lasts: Sequence[int]) -> list[int]:
    """Return each span's time without those that lie in it; one that only overlaps another is no child of it."""
    ends = [start + last for start, last in zip(starts, lasts, strict=True)]
    own = list(lasts)
    for place, parent in enumerate(by_stack(threads, starts, ends)):
        if parent >= 0 and ends[place] <= ends[parent]:
            own[parent] -= lasts[place]
    return own


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 2)), max_size=40).map(
    lambda found: sorted(found, key=lambda span: (span[0], -span[1]))
)


@given(SPANS)
def test_it_is_what_a_stack_says(found):
    starts, lasts, threads = ([span[at] for span in found] for at in range(3))
    ends = [start + last for start, last in zip(starts, lasts, strict=True)]
    result = parents(*(np.array(column, np.int64) for column in (threads, starts, ends)))
    assert result.tolist() == by_stack(threads, starts, ends)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([(0, 10), (0, 10), (2, 5), (5, 10)], [-1, 0, 1, 1]),
        ([(0, 5), (5, 9)], [-1, -1]),
        # What only overlaps, and what has no length, at the end of another, between two.
        ([(0, 5), (4, 6)], [-1, 0]),
        ([(0, 5), (5, 5)], [-1, 0]),
        ([(0, 10), (1, 5), (2, 7), (6, 7), (8, 9)], [-1, 0, 1, 2, 0]),
    ],
)
def test_the_edges(spans, expected):
    starts, ends = (np.array([span[at] for span in spans], np.int64) for at in range(2))
    assert parents(np.zeros(len(spans), np.int64), starts, ends).tolist() == expected


@pytest.mark.parametrize("alike", [False, True])
def test_a_deep_nest_is_walked_once(alike):
    # Level by level it would take a pass for each of 60 000 levels.
    count = 60_000
    starts = np.zeros(count, np.int64) if alike else np.arange(count)
    found = parents(np.zeros(count, np.int64), starts, 3 * count - np.arange(count))
    assert found.tolist() == list(range(-1, count - 1))


def told(
    cycles: dict[int, Sequence[tuple[int, int, int, bool]]], steps: dict[int, Sequence[int]]
) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the row of `nesting` of each cycle and row, of spans (start, duration, thread, is work)."""
    with batch(Definitions(views={"unused": "create macro unused() as 1;"})) as tables:
        for cycle, spans in cycles.items():
            columns = {
                name: np.array([span[at] for span in spans], np.int64)
                for at, name in enumerate(("start_ns", "duration_ns", "thread"))
            }
            columns["category"] = np.array([not span[3] for span in spans], np.int64)
            columns["row"] = np.arange(len(spans))
            none = np.full(len(spans), NULL, np.int64)
            others = ("name", "event_index", "external_id", "correlation", "input_shapes", "input_types")
            tables.add("spans", cycle, **columns, **dict.fromkeys(others, none))
        tables.hand_over()
        nest(tables, VIEW, steps)
        tables.hand_over()
        return {(row["cycle"], row["row"]): row for row in tables.rows("from nesting")}


@pytest.mark.parametrize("at_once", [3, 1000])
@given(st.lists(SPANS, min_size=1, max_size=3))
@pytest.mark.variants(1)
def test_own_times_are_those_of_a_stack_however_they_are_cut(at_once, found):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(nesting, "_AT_ONCE", at_once)
        rows = told(
            {
                cycle: [(start, last, thread, True) for start, last, thread in spans]
                for cycle, spans in enumerate(found)
            },
            dict.fromkeys(range(len(found)), ()),
        )
    for cycle, spans in enumerate(found):
        starts, lasts, threads = ([span[at] for span in spans] for at in range(3))
        ends = [start + last for start, last in zip(starts, lasts, strict=True)]
        own = [rows[cycle, row] for row in range(len(spans))]
        assert [one["self_ns"] for one in own] == by_hand(threads, starts, lasts)
        expected = by_stack(threads, starts, ends)
        assert [one["parent"] for one in own] == [None if parent < 0 else parent for parent in expected]
        for one, parent, start, end in zip(own, expected, starts, ends, strict=True):
            if parent >= 0:
                assert (one["left_ns"], one["outlives_ns"]) == (ends[parent] - start, end - ends[parent])


def test_a_mark_takes_no_time_from_what_it_lies_in():
    # An operator, a mark inside of it, an operator inside of the mark.
    rows = told({0: [(0, 100, 0, True), (10, 80, 0, False), (20, 30, 0, True)]}, {0: ()})
    assert [rows[0, row]["self_ns"] for row in range(3)] == [70, 80, 30]
    assert [rows[0, row]["parent"] for row in range(3)] == [None, 0, 1]


def test_the_last_step_that_had_begun():
    spans = [(start, 1, 0, True) for start in (0, 10, 15, 20, 99)]
    rows = told({4: spans, 7: spans}, {4: (10, 20), 7: ()})
    assert [rows[4, row]["last_step"] for row in range(5)] == [None, 0, 0, 1, 1]
    assert [rows[7, row]["last_step"] for row in range(5)] == [None] * 5


TREES = st.recursive(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.just(())),
    lambda inner: st.tuples(st.integers(0, 3), st.integers(0, 3), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


def nested_events(trees: Any, now: int) -> Iterator[tuple[int, int]]:
    """Yield (start, duration) of every event of a row of trees that begins at `now`, parents first."""
    for gap, tail, children in trees:
        start = now + gap
        inside = list(nested_events(children, start))
        end = max([start, *(begin + duration for begin, duration in inside)]) + tail
        yield start, end - start
        yield from inside
        now = end


@given(st.lists(TREES, max_size=4))
@pytest.mark.exhaustive
def test_own_times_of_one_thread_add_up_to_the_time_it_was_busy(trees):
    events = sorted(nested_events(trees, 0), key=lambda event: (event[0], -event[1]))
    busy = {tick for start, duration in events for tick in range(start, start + duration)}
    rows = told({0: [(start, last, 0, True) for start, last in events]} if events else {}, {0: ()})
    assert sum(row["self_ns"] for row in rows.values()) == len(busy)
