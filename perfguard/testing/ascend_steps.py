"""step_trace_time.csv of torch_npu and MindSpore, and the overlap of computing and communication that it adds up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from perfguard.testing.ascend_operators import cann_csv
from perfguard.testing.formats import Row, microseconds, us
from perfguard.testing.truth import Output, Rank, Span, of_step

ALONE = "Communication(Not Overlapped)"


def overlap(rank: Rank) -> dict[str, Sequence[Span]]:
    """Return the lanes of "Overlap Analysis" by name, in the order of their threads.

    They cover every nanosecond between the device's first and last task. A gap belongs to the step it begins in.
    """
    bare: list[Span] = []
    ends = [work.end_ns for work in rank.kernels]
    for one in rank.collectives:
        at = one.start_ns
        for work in rank.kernels[bisect_right(ends, at) :]:
            if work.start_ns >= one.end_ns:
                break
            if work.start_ns > at:
                bare.append(Span(start_ns=at, end_ns=work.start_ns, step=one.step))
            at = max(at, work.end_ns)
        if at < one.end_ns:
            bare.append(Span(start_ns=at, end_ns=one.end_ns, step=one.step))
    free: list[Span] = []
    busy: list[Span] = sorted([*rank.kernels, *rank.collectives], key=lambda span: span.start_ns)
    until, step = busy[0].end_ns, busy[0].step
    for span in busy[1:]:
        if span.start_ns > until:
            free.append(Span(start_ns=until, end_ns=span.start_ns, step=step))
        if span.end_ns > until:
            until, step = span.end_ns, span.step
    return {"Computing": rank.kernels, "Communication": rank.collectives, ALONE: bare, "Free": free}


def step_trace_time(output: Output) -> bytes:
    """Write step_trace_time.csv: one row a step, or one for all steps without a schedule."""
    rows = (_mindspore_rows if output.version else torch_step_rows)(output.rank, scheduled=output.is_scheduled)
    return cann_csv(output, "step_trace_time", rows, newline="\r\n")


def _lanes_of_steps(rank: Rank, *, scheduled: bool) -> Iterator[tuple[Span, int | None, list[list[Span]], list[int]]]:
    """Yield the steps that have a row: the step, its number, its spans by lane, and the durations of its receives.

    Without a schedule there is one row for all steps, without a number.
    """
    lanes = overlap(rank).values()
    for step in rank.steps if scheduled else rank.steps[:1]:
        number = step.step if scheduled else None
        receives = [one.duration_ns for one in of_step(rank.collectives, number) if one.type == "receive"]
        yield step, number, [of_step(lane, number) for lane in lanes], receives


def torch_step_rows(rank: Rank, *, scheduled: bool) -> list[list[object]]:
    """Return the rows of step_trace_time as torch_npu computes them: in floats, `Stage` from rounded UNIX times."""
    rows: list[list[object]] = []
    for step, number, inside, receives in _lanes_of_steps(rank, scheduled=scheduled):
        computing, communication, bare, free = (sum(us(one.duration_ns) for one in lane) for lane in inside)
        tasks = [one for lane in inside for one in lane]
        first, last = us(min(one.start_ns for one in tasks)), max(us(o.start_ns) + us(o.duration_ns) for o in tasks)
        # A stage of a pipeline waits for another one in its receive operations.
        bubble = sum(map(us, receives))
        times = [computing, bare, communication - bare, communication, free, last - first - bubble, bubble]
        rows.append(["" if number is None else number, *times, bare - bubble, first - us(step.start_ns)])
    return rows


def database_step_rows(output: Output) -> list[Row]:
    """Return the rows of StepTraceTime: unlike those of the csv file, a step ends with its last task."""
    rows: list[Row] = []
    for step, number, inside, receives in _lanes_of_steps(output.rank, scheduled=output.is_scheduled):
        busy, sent, bare, _ = (sum(one.duration_ns for one in lane) for lane in inside)
        tasks = [*inside[0], *inside[1]]
        first = min(one.start_ns for one in tasks)
        span, bubble = max(one.end_ns for one in tasks) - first, sum(receives)
        times = (busy, bare, sent - bare, sent, span - busy - bare)
        stage = (span - bubble, bubble, bare - bubble, first - step.start_ns)
        rows.append(("" if number is None else str(number), *(ns / 1000 for ns in (*times, *stage))))
    return rows


def _mindspore_rows(rank: Rank, *, scheduled: bool) -> list[list[object]]:
    """Return the rows of step_trace_time as MindSpore computes them, in decimals of three places.

    A gap is cut at the bounds of the step. `Stage` lasts from the start of the first collective to the end of the last
    one: it is 0 without communication.
    """
    free_gaps = overlap(rank)["Free"]
    rows: list[list[object]] = []
    for step, number, inside, _ in _lanes_of_steps(rank, scheduled=scheduled):
        computing, communication, bare, free = (sum(one.duration_ns for one in lane) for lane in inside)
        if scheduled:
            cut = (min(one.end_ns, step.end_ns) - max(one.start_ns, step.start_ns) for one in free_gaps)
            free = sum(length for length in cut if length > 0)
        stage = inside[1][-1].end_ns - inside[1][0].start_ns if inside[1] else 0
        before = min(one.start_ns for lane in inside[:2] for one in lane) - step.start_ns
        times = [microseconds(ns) for ns in (computing, bare, communication - bare, communication, free)]
        tail = [microseconds(stage) if stage else "0", "0", microseconds(bare), microseconds(before)]
        rows.append([0 if number is None else number, *times, *tail])
    return rows
