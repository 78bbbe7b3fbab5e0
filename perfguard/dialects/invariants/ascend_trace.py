"""The trace of an Ascend device against the tables beside it, and what says that files belong together.

Source, unless a function says otherwise: real output of torch_npu at levels 0, 1 and 2 (msinsight test data).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perfguard.dialects.ascend.view import OVERLAP_LANES, LaneSum, step_numbers, view_of
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import by_device, distinct_texts, quantity, span_ns
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

#: One part in so many is what two monotonic clocks may differ by.
_DRIFT = 20_000
#: Layouts whose trace holds a device.
_DEVICE_LAYOUTS = ("pt-npu", "ms-2.5+", "ms-2.3")
#: Clocks of host and device are joined by the profiler, and a host runs ahead of its device; no run is restarted in less.
_ONE_RUN_NS = 10 * 10**9


@invariant(layouts=_DEVICE_LAYOUTS, needs=("step_trace_time", "trace_view"))
def step_times_are_the_lanes_of_the_trace(cycle: Cycle) -> Iterator[Finding]:
    """Computing, Communication, its not overlapped part and Free = the events of that name under Overlap Analysis.

    Exact to 0.001 us (three decimals: 0.002) where step_trace_time has one step of a device. Of several, what lies in no
    step is left out, so the steps may add up to less, never to more; MindSpore does so for one step too, unless no step is
    marked. Source: also torch_npu: _trace_step_time_parser.py; MindSpore 2.10 source: ascend_step_trace_time_viewer.py.
    """
    import polars as pl

    artifact, trace = cycle.artifacts["step_trace_time"], cycle.artifacts["trace_view"]
    table = artifact.content.frame
    lanes = view_of(trace.content).lane_sums
    if not lanes:
        return
    cuts = cycle.layout.id != "pt-npu" and "trace_view" in dict(_steps_named(cycle))
    if "kernel_details" in cycle.artifacts and "step_trace_time" in dict(_steps_named(cycle)):
        # Kernels of a graph (torchair) belong to no step, and what ran before the first one that does is left out.
        kernels = cycle.artifacts["kernel_details"].content
        assert kernels.table is not None
        if "Step Id" in kernels.table.columns:
            cuts = cuts or any(not text.strip() for text in distinct_texts(kernels, "Step Id"))
    devices = by_device(table)
    apart = bool(devices) and set(table[devices[0]].to_list()) <= {lane.device for lane in lanes}
    found: list[str | None] = sorted(set(table[devices[0]].to_list())) if apart else [None]
    for device in found:
        rows = table if device is None else table.filter(pl.col(devices[0]) == device)
        whose = f"device {device}: " if device is not None else ""
        steps = (
            rows.height if device is not None or not devices else max(rows.group_by(devices).len()["len"], default=0)
        )
        for lane in OVERLAP_LANES:
            here = float(quantity(rows, lane).sum())
            there = _total(lanes, lane, device)
            slack = 0.002 + 1e-9 * there
            if here - there > slack or (steps == 1 and not cuts and there - here > slack):
                several = f" in {steps} steps" if steps != 1 else ""
                yield Finding(
                    code=Code.I108,
                    place=artifact.place,
                    message=f"{whose}{lane} is {here:.9g} us here{several}, its events in {trace.path.name} add up to "
                    f"{there:.9g} us",
                )


def _total(lanes: tuple[LaneSum, ...], name: str, device: str | None) -> float:
    return sum(one.total_us for one in lanes if one.lane == name and device in (None, one.device))


@invariant(needs=())
def steps_are_the_same_everywhere(cycle: Cycle) -> Iterator[Finding]:
    """ProfilerStep#N of the trace, Step of step_trace_time, Step Id of kernel_details and keys of communication agree.

    The first three name the same steps (one that only the trace marks ran nothing on the device); communication names some
    of them, and a file that names no step (no schedule was set, or level 0) is not asked. Exact. Source: also Ascend/pytorch
    issue 167, where steps of the window were lost.
    """
    if cycle.layout.id not in _DEVICE_LAYOUTS:
        return
    named = dict(_steps_named(cycle))
    if len(named) < 2:
        return
    reference = next(
        slot for slot in ("trace_view", "step_trace_time", "kernel_details", "communication") if slot in named
    )
    expected = named.pop(reference)
    for slot, steps in named.items():
        artifact = cycle.artifacts[slot]
        missing = set() if slot == "communication" else expected - steps
        if not (missing or steps - expected):
            continue
        # A marked step may have run nothing on the device; a step that nobody marked is of another run.
        lost_one = not steps - expected and cycle.asked.active is None
        yield Finding(
            code=Code.I113,
            severity=Severity.WARNING if lost_one else Severity.ERROR,
            place=artifact.place,
            message=f"it holds steps {_numbers(steps)}, {cycle.artifacts[reference].path.name} steps {_numbers(expected)}",
        )


def _steps_named(cycle: Cycle) -> Iterator[tuple[str, frozenset[int]]]:
    for slot, columns in (("step_trace_time", ("Step",)), ("kernel_details", ("Step Id", "Step ID"))):
        if slot not in cycle.artifacts:
            continue
        content = cycle.artifacts[slot].content
        assert content.table is not None
        for column in columns:
            if column in content.table.columns and (steps := step_numbers(distinct_texts(content, column))):
                yield slot, steps
    if "trace_view" in cycle.artifacts:
        marks = view_of(cycle.artifacts["trace_view"].content).step_marks
        if steps := step_numbers(mark.label for mark in marks):
            yield "trace_view", steps
    document = cycle.artifacts["communication"].content.document if "communication" in cycle.artifacts else None
    steps = step_numbers(key.removeprefix("step") for key in document) if isinstance(document, Mapping) else frozenset()
    # MindSpore writes step0 where it does not tell steps apart, even if it does so elsewhere (a whole graph on the device).
    if steps and (cycle.layout.id == "pt-npu" or steps != {0}):
        yield "communication", steps


def _numbers(steps: frozenset[int]) -> str:
    ordered = sorted(steps)
    return ", ".join(map(str, ordered[:8])) + (f" and {len(ordered) - 8} more" if len(ordered) > 8 else "")


@invariant(layouts=_DEVICE_LAYOUTS, needs=("trace_view",))
def the_window_has_the_steps_asked_for(cycle: Cycle) -> Iterator[Finding]:
    """ProfilerStep#N follow each other without a gap, and are as many as the schedule in profiler_info has active ones.

    More, or a gap, is an error. Fewer is a warning: the loop may have been left early on purpose. Source: torch_npu writes
    the schedule into profiler_info.json.
    """
    artifact = cycle.artifacts["trace_view"]
    steps = sorted(dict(_steps_named(cycle)).get("trace_view", ()))
    if not steps:
        return
    if steps != list(range(steps[0], steps[0] + len(steps))):
        message = f"it marks steps {_numbers(frozenset(steps))}: they are not in a row"
        yield Finding(code=Code.C101, place=artifact.place, message=message)
    schedule = _at(_said(cycle), "config", "common_config", "schedule")
    active = _at(schedule, "active") or _at(schedule, "_active")
    if isinstance(active, int) and active != len(steps):
        yield Finding(
            code=Code.C101,
            place=artifact.place,
            message=f"the schedule has {active} active steps, the trace marks {len(steps)}",
            severity=Severity.ERROR if len(steps) > active else Severity.WARNING,
        )


def _said(cycle: Cycle) -> Any:
    info = cycle.artifacts.get("profiler_info")
    return info.content.document if info is not None else None


def _at(document: Any, *keys: str) -> Any:
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


@invariant(layouts=_DEVICE_LAYOUTS)
def something_ran_on_the_device(cycle: Cycle) -> Iterator[Finding]:
    """Where the NPU was traced, kernel_details has rows and the trace has events on Ascend Hardware.

    A profiler that loses the device says so nowhere else: its files are all there. Source: pytorch issue 192021 and the like.
    """
    activities = _at(_said(cycle), "config", "common_config", "activities")
    asked = any("NPU" in str(one) for one in activities) if isinstance(activities, list) else None
    if not cycle.conditions.get("npu", bool(asked)):
        return
    kernels = cycle.artifacts["kernel_details"].content.table if "kernel_details" in cycle.artifacts else None
    if kernels is not None and not kernels.height:
        yield Finding(
            code=Code.C112,
            place=cycle.artifacts["kernel_details"].place,
            message="the NPU was traced, and no kernel is here",
        )
    if (
        "trace_view" in cycle.artifacts
        and "Ascend Hardware" not in view_of(cycle.artifacts["trace_view"].content).drawn_processes
    ):
        yield Finding(
            code=Code.C112,
            place=cycle.artifacts["trace_view"].place,
            message="the NPU was traced, and no event lies on Ascend Hardware",
        )


@invariant(layouts=_DEVICE_LAYOUTS)
def files_are_of_one_run(cycle: Cycle) -> Iterator[Finding]:
    """The times of all files lie in the time profiler_info says was profiled, else near those of the kernels; within 10 s.

    profiler_info has the end in UNIX ns, and start and end on a monotonic clock. Without it a file may begin long before the
    first kernel (a graph is compiled first) and end long after the last; only one that lies wholly apart is of another run.
    npu_module_mem is a warning only: a published sample mixes two runs there. Holds for the rest on three real directories.
    """
    ranges = dict(_ranges_ns(cycle))
    window = _window_ns(cycle)
    within = window is not None
    if window is None and "kernel_details" in ranges:
        window = (*ranges["kernel_details"], cycle.artifacts["kernel_details"].path.name)
    if window is None:
        return
    start, end, source = window
    for slot, (first, last) in ranges.items():
        off = max(start - first, last - end) if within else max(start - last, first - end)
        if off <= _ONE_RUN_NS:
            continue
        how = "reach {} s beyond" if within else "lie {} s away from"
        yield Finding(
            code=Code.I113,
            place=cycle.artifacts[slot].place,
            message=f"its times {how.format(f'{off / 1e9:.6g}')} those of {source}: it is of another run",
            severity=Severity.WARNING if slot == "npu_module_mem" else Severity.ERROR,
        )


def _window_ns(cycle: Cycle) -> tuple[int, int, str] | None:
    """Return start and end of what profiler_info says was profiled (UNIX ns), or None where it does not.

    Both monotonic times are read from clocks that drift apart with the machine's age: 28 s in 19 days on real output of
    torch_npu 2.10.
    """
    artifact = cycle.artifacts.get("profiler_info")
    document = _said(cycle)
    end, stop = (_at(document, "end_info", key) for key in ("collectionTimeEnd", "MonotonicTimeEnd"))
    begin = _at(document, "start_info", "start_monotonic")
    if (
        not (isinstance(end, int) and isinstance(stop, int) and isinstance(begin, int))
        or stop < begin
        or artifact is None
    ):
        return None
    drift = begin // _DRIFT
    return end - (stop - begin) - drift, end + drift, artifact.path.name


def _ranges_ns(cycle: Cycle) -> Iterator[tuple[str, tuple[int, int]]]:
    for slot, column in (
        ("kernel_details", "Start Time(us)"),
        ("memory_record", "Timestamp(us)"),
        ("operator_memory", "Allocation Time(us)"),
        ("npu_module_mem", "Timestamp(us)"),
    ):
        if slot in cycle.artifacts and (span := span_ns(cycle.artifacts[slot].content, column)) is not None:
            yield slot, span
    if "trace_view" in cycle.artifacts:
        known_range = view_of(cycle.artifacts["trace_view"].content).range_ns
        if known_range is not None:
            yield "trace_view", known_range
    if "communication" in cycle.artifacts:
        kinds = [kind for step in cycle.artifacts["communication"].content.document.values() for kind in step.values()]
        times = [one.get("Communication Time Info", {}) for kind in kinds for one in kind.values()]
        starts = [one.get("Start Timestamp(us)") for one in times]
        known = [round(float(start) * 1000) for start in starts if start is not None]
        if known:
            yield "communication", (min(known), max(known))
