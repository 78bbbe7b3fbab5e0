"""Which event lies in which other: as a stack of open events says it, wherever events are nested at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.dialects.folds.nesting import NONE, parents


def by_stack(threads: list[int], starts: list[int], ends: list[int]) -> list[int] | None:
    """Return the parents, or None where an event only overlaps another or has no length."""
    stacks: dict[int, list[int]] = {}
    found = []
    for place, (thread, start, end) in enumerate(zip(threads, starts, ends, strict=True)):
        stack = stacks.setdefault(thread, [])
        while stack and ends[stack[-1]] <= start:
            stack.pop()
        if end <= start or (stack and ends[stack[-1]] < end):
            return None
        found.append(stack[-1] if stack else NONE)
        stack.append(place)
    return found


spans = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 2)), max_size=14)


@given(spans)
def test_it_is_what_a_stack_says(found):
    found = sorted(found, key=lambda span: (span[0], -span[1]))
    starts, lasts, threads = ([span[at] for span in found] for at in range(3))
    ends = [start + last for start, last in zip(starts, lasts, strict=True)]
    result = parents(np.array(threads, np.int64), np.array(starts, np.int64), np.array(ends, np.int64))
    assert (None if result is None else result.tolist()) == by_stack(threads, starts, ends)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], []),
        ([(0, 10), (0, 10), (2, 5), (5, 10)], [NONE, 0, 1, 1]),
        ([(0, 5), (5, 9)], [NONE, NONE]),
        ([(0, 5), (4, 6)], None),
        ([(0, 5), (5, 5)], None),
        ([(0, 10), (1, 5), (2, 7)], None),
    ],
)
def test_the_edges(spans, expected):
    starts, ends = (np.array([span[at] for span in spans], np.int64) for at in range(2))
    found = parents(np.zeros(len(spans), np.int64), starts, ends)
    assert (None if found is None else found.tolist()) == expected
