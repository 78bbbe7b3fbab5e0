"""Capture integrity: the profiler recorded the requested window, with the same operators in every step.

Profilers lose data silently: MindSpore 2.10 in graph mode leaks the tail of the step before the window without a
synchronise, torch has dropped kernels at session start (pytorch#192021), torch_npu returned 8 of 10 steps
(Ascend/pytorch#167). Each shows in the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.dialects.counts import calls_by, infer_steps
from perfguard.dialects.disagreement import disagreements
from perfguard.errors import listed
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Counts, Cycle, Executions


def something_was_recorded(cycle: Cycle) -> Iterator[Finding]:
    """A profiled window has at least one operator.

    Where torch numbered what else it recorded, no operator ran, or its number would be missing: nothing is measured, and a
    foreign run may be so: the loop ended as the window began, or only Python was profiled.
    """
    executions = cycle.executions
    if executions is None or executions.calls:
        return
    if executions.has_other_events and cycle.requested.active is None and not cycle.requested.steps:
        why = "the window has events, and no operator among them: nothing is measured in it"
        yield _finding(cycle, Code.C103, why, Severity.WARNING)
    else:
        yield _finding(cycle, Code.C103, "the profiler's output has no operator")


def no_event_without_time(cycle: Cycle) -> Iterator[Finding]:
    """No execution has start 0 and duration 0: the profiler never filled in its times."""
    if cycle.executions is None or not cycle.executions.is_timeline:
        return
    if counts := calls_by(cycle.executions.counts.by_name, "name", "unfilled"):
        yield _finding(cycle, Code.C104, f"{counts.total()} executions have start 0 and duration 0: {_names(counts)}")


def the_steps_asked_for_were_found(cycle: Cycle) -> Iterator[Finding]:
    """Requested steps = recorded steps, and no operator ran outside of them.

    Steps are known from torch's ProfilerStep annotations, or from the times that perfguard took around each step.
    """
    executions = cycle.executions
    if executions is None or not executions.calls:
        return
    numbers = executions.step_numbers
    if numbers and list(numbers) != list(range(numbers[0], numbers[0] + len(numbers))):
        yield _finding(
            cycle, Code.C101, f"the profiler's steps are numbered {listed(numbers)}, which is not consecutive"
        )
    requested = cycle.requested.active
    idle = executions.idle_numbers
    if executions.marks_steps and requested is not None and len(numbers) != requested:
        without = f" with work, and {_marks(idle)} without: the loop ended, or the profiler lost it" if idle else ""
        yield _finding(
            cycle, Code.C101, f"{requested} steps were requested, but the trace marks {len(numbers)}{without}"
        )
    elif idle:
        why = (
            f"no operator ran in {_marks(idle)}, at an end of the window, which is no step: the loop ended inside the window, "
            "or calls step() before its work"
        )
        yield replace(_finding(cycle, Code.C101, why, Severity.NOTE), of_check="a mark of a step has no work")
    if not executions.by_step:
        return
    if absent := sorted(set(range(executions.steps or 0)).difference(executions.counts.steps)):
        named = listed([step + 1 for step in absent])
        if requested is not None or cycle.requested.steps:
            why = f"{requested or executions.steps} steps were requested, but no operator ran in step {named} of the window: "
            yield _finding(cycle, Code.C101, f"{why}the profiler lost it")
        else:
            # A loop that ends inside the window leaves the mark of a step that never ran; a step may also be skipped.
            yield _finding(
                cycle,
                Code.C101,
                f"{executions.steps} steps are marked, but no operator ran in step {named}: the loop ended or "
                "skipped it, or the profiler lost it (state the number of steps with `--expect steps=N`)",
                Severity.WARNING,
            )
    outside = calls_by(executions.counts.by_name, "name", "outside")
    # A whole run has work before, between and after its steps.
    is_whole_run = cycle.requested.active is None and bool(cycle.requested.steps)
    if outside and not is_whole_run:
        yield _finding(
            cycle,
            Code.C101,
            f"{outside.total()} executions are outside of every step of the window, a neighbouring step leaked in: "
            f"{_names(outside)}",
        )


def _marks(numbers: Sequence[int]) -> str:
    return " and ".join(f"ProfilerStep#{number}" for number in numbers)


def every_step_has_the_same_operators(cycle: Cycle) -> Iterator[Finding]:
    """Every step of the window has the same operator census (number of calls of each operator), or that of a period before.

    Where the profiler cannot have lost anything the steps differ by themselves, and the whole window is judged: a note where
    they repeat or grow, else a warning.
    """
    executions = cycle.executions
    if executions is None or not executions.by_step or (executions.steps or 0) < 2:
        return
    # Steps of a foreign run may differ (a loader's last batch, an update every fourth step, a first step that compiles), and a
    # device's kernels depend on the data: a warning.
    may_differ = executions.on_device or executions.is_complete or cycle.requested.active is None
    severity = Severity.WARNING if may_differ else Severity.ERROR
    counts = executions.counts
    if (period := cycle.requested.period) is not None and len(counts.kinds) >= 2 * period:
        yield from _outside_of_the_period(cycle, period, severity)
        return
    if counts.odd_steps and executions.is_complete and (pattern := _pattern(counts, period)):
        yield _finding(cycle, Code.C102, f"{pattern}; the whole window is judged", Severity.NOTE)
        return
    if counts.odd_steps and period is not None and not may_differ:
        yield _finding(
            cycle,
            Code.C102,
            f"the steps differ, and one period of {period} steps does not show whether a neighbouring step leaked in; "
            f"profile two: window=perfguard.StepWindow(active={2 * period})",
        )
        return
    shown = [
        (cycle.place.name, f"step {step + 1} of the window ran different operators from the other steps: {differing}")
        for step, calls in counts.odd.items()
        if (differing := _difference(calls, counts.usual))
    ]
    yield from disagreements(Code.C102, shown, len(counts.odd_steps), cycle.place.name, severity=severity)


def _pattern(counts: Counts, period: int | None) -> str:
    """Return how the steps differ from each other, in words; empty where they neither repeat nor grow."""
    if period is not None:
        return f"the steps repeat every {period} (period={period})"
    kinds, calls = counts.kinds, counts.calls_by_step
    odd = [place for place, step in enumerate(counts.steps) if step in set(counts.odd_steps)]
    for length in range(2, len(kinds)):
        repeats = all(kinds[place] == kinds[place + length] for place in range(len(kinds) - length))
        if repeats and any(place + length in odd for place in odd):
            return f"the steps repeat every {length}"
    if len(calls) > 2 and all(before < after for before, after in pairwise(calls)):
        return f"work grows with every step: {listed(list(calls), 6)} operators"
    return ""


def _outside_of_the_period(cycle: Cycle, period: int, severity: Severity) -> Iterator[Finding]:
    """Yield a finding for steps that are not what the step one period before was."""
    assert cycle.executions is not None
    counts = cycle.executions.counts
    pairs = enumerate(zip(counts.kinds, counts.kinds[period:], strict=False), period)
    broken = [place for place, (before, now) in pairs if before != now]
    shown = [
        (
            cycle.place.name,
            f"step {place + 1} of the window ran other operators ({counts.calls_by_step[place]} calls) than step "
            f"{place + 1 - period} ({counts.calls_by_step[place - period]} calls), but period={period} says that they repeat",
        )
        for place in broken[:SHOWN_VIOLATIONS]
    ]
    yield from disagreements(Code.C102, shown, len(broken), cycle.place.name, severity=severity)


def counts_are_whole_steps(cycle: Cycle) -> Iterator[Finding]:
    """Without recorded steps: the number of calls of every operator is a multiple of the number of steps.

    MindSpore 2.10 in graph mode starts the profiler without waiting for the running step; the operators of its tail are then
    counted once more, at the head of the window (3 of 24 runs without a synchronise). Operators that ran N+1 times with the
    surplus before everything else, or N-1 times at the end, prove it. Other surpluses are a warning, because a model may run
    an operator in some steps only.
    """
    executions = cycle.executions
    if executions is None or executions.by_step or executions.steps is None:
        return
    steps = executions.steps
    counts = calls_by(executions.counts.by_name, "name", "calls")
    odd = {name: count for name, count in counts.items() if count % steps}
    if not odd:
        return
    named = _names(Counter(odd))
    shown = infer_steps(counts)
    if cycle.requested.active is not None and shown is None and max(counts.values()) < steps:
        yield _finding(
            cycle,
            Code.C101,
            f"{steps} steps were requested, but no operator ran more than {max(counts.values())} times",
        )
        return
    if cycle.requested.active is not None and shown is not None and shown % steps:
        yield _finding(cycle, Code.C101, f"{steps} steps were requested, but most operators ran {shown} times: {named}")
        return
    if _surplus_at_an_edge(executions, odd, steps):
        why = f"these operators have a surplus at its edge, so a neighbouring step leaked in: {named}"
        if all(count % steps == steps - 1 for count in odd.values()):
            why = f"these operators ran once less: an execution is missing, or a step was cut off: {named}"
        yield _finding(cycle, Code.C101, f"the window has {steps} steps, but {why}")
    else:
        yield _finding(
            cycle,
            Code.C102,
            f"most operators ran a multiple of {steps} times, these did not: {named}",
            Severity.WARNING,
        )


def _finding(cycle: Cycle, code: Code, message: str, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(code=code, severity=severity, place=cycle.place.name, message=message)


def _surplus_at_an_edge(executions: Executions, odd: dict[str, int], steps: int) -> bool:
    """Whether a part of a neighbouring step at one end of the window explains every odd count.

    A surplus of one execution that precedes (follows) everything else is the tail (head) of a neighbouring step. A lack of
    one execution, with other operators running later (earlier), is a step cut off at the end (at the head).
    """
    first: dict[str, tuple[int, int]] = {}
    last: dict[str, tuple[int, int]] = {}
    for one in executions.counts.by_name:
        begin, end = (one.first_ns, one.first_place), (one.last_ns, one.last_place)
        first[one.name] = min(first.get(one.name, begin), begin)
        last[one.name] = max(last.get(one.name, end), end)
    others = last.keys() - odd.keys()
    if not others:
        return False
    if all(count > steps and count % steps == 1 for count in odd.values()):
        return max(first[n] for n in odd) < min(first[n] for n in others) or min(last[n] for n in odd) > max(
            last[n] for n in others
        )
    # With two steps a lack of one is also a surplus of one, such as an operator that runs once at the start.
    if steps > 2 and all(count % steps == steps - 1 for count in odd.values()):
        return max(last[n] for n in odd) < min(last[n] for n in others) or min(first[n] for n in odd) > max(
            first[n] for n in others
        )
    return False


def _difference(found: Counter[str], usual: Counter[str]) -> str:
    names = sorted(found.keys() | usual.keys())
    changed = [f"{name} {found[name]} instead of {usual[name]}" for name in names if found[name] != usual[name]]
    return listed(changed)


def _names(counts: Counter[str]) -> str:
    return listed(
        [f"{name} ({count} x)" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    )
