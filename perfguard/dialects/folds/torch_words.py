"""Words for what is wrong with a trace of torch.profiler, and the numbers that decide it.

Not asserted: allocated <= reserved (torch reserves nothing on a CPU), and an order of the events in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Artifact

#: torch before 2.1 wrote whole microseconds, so that a child may seem to end one later than its parent.
TOLERANCE_NS = 1000
#: How many gaps one finding names before it counts the rest.
NAMED = 8
#: Operators that make a tensor of nothing; they have no shapes to record.
FACTORIES = r"^aten::(empty|zeros|ones|full|rand|arange|eye|scalar_tensor|_?efficientzerotensor)"


#: What torch 1.8 to 1.11 call the categories (real output of 1.8); the marks of steps are operators there.
_BEFORE_1_12 = {
    "Operator": "cpu_op", "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Runtime": "cuda_runtime",
}  # fmt: skip


def category_of(category: str) -> str:
    """Return a category by the name that torch 1.12 and later have for it."""
    return _BEFORE_1_12.get(category, category)


def lost_events(gaps: Iterable[tuple[int, int]], *, count: int, lost: int, last: int) -> str:
    """Word gaps in the numbers of events: the first of them as (number behind it, how many are missing), and `count` in all."""
    named = ", ".join(
        f"{number - missing}" if missing == 1 else f"{number - missing} to {number - 1}" for number, missing in gaps
    )
    more = f" and {count - NAMED} more gaps" if count > NAMED else ""
    return f"{lost} of {last + 1} recorded events are not in the trace: Ev Idx {named}{more}"


def recorded_as_said(
    artifact: Artifact, *, calls: Mapping[str, int], memory_events: int, with_shapes: int
) -> Iterator[Finding]:
    """Hold the header of a trace against how often each operator ran, and how many events tell of memory and of shapes."""
    header = artifact.content.document
    allocating = sum(count for name, count in calls.items() if name.startswith("aten::empty"))
    if header.get("profile_memory") == 1 and allocating and not memory_events:
        yield Finding(
            code=Code.I113,
            place=f"{artifact.place} $.profile_memory",
            message=f"the header says that memory was profiled; {allocating} operators allocate, but no memory event is there",
        )
    taking = any(name.startswith("aten::") and not re.search(FACTORIES, name) for name in calls)
    if header.get("record_shapes") == 1 and taking and not with_shapes:
        yield Finding(
            code=Code.I113,
            place=f"{artifact.place} $.record_shapes",
            message=f"the header says that shapes were recorded; none of {sum(calls.values())} operators has Input Dims",
        )


def overlap(open_ones: list[tuple[int, str]], start: int, end: int, name: str) -> str | None:
    """Put an operator to those of its thread that have begun and not ended (end, name); say if it ends behind one of them."""
    message = None
    while open_ones and open_ones[-1][0] <= start:
        open_ones.pop()
    if open_ones and end > open_ones[-1][0] + TOLERANCE_NS:
        until, outer = open_ones[-1]
        # What only touches, by the rounding of whole microseconds, is a neighbour.
        may_outlive = outer.startswith("ProfilerStep#") and "::" not in name
        if until > start + TOLERANCE_NS and not may_outlive:
            message = f"{name} begins inside {outer}, but ends {(end - until) / 1000:.3f} us after it"
    open_ones.append((end, name))
    return message
