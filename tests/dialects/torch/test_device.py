"""Calls of the host and work of a device in torch traces: what Kineto may write, and what was lost.

The trace is made here as Kineto writes one (output_json.cpp): no device is at hand. tests/contract/test_cases.py has real ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.recording import Recording

Event = dict[str, Any]
#: Numbers of functions in CUPTI.
NUMBERS = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "mcLaunchKernel": 1,
    "mcMemcpyAsync": 2,
    "mcDeviceSynchronize": 3,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaDeviceSynchronize": 165,
    "cudaEventRecord": 135,
    "cudaEventQuery": 138,
    "cudaStreamWaitEvent": 147,
    "cudaGraphLaunch": 311,
    "cudaStreamBeginCapture": 314,
    "cudaStreamEndCapture": 315,
    "cuLaunchKernel": 307,
}
HOST, DEVICE = {"pid": 7, "tid": 7}, {"pid": 0, "tid": 7}


def call(name: str, ts: float, number: int, dur: float = 5.0, **where: Any) -> Event:
    category = "cuda_driver" if name.startswith("cu") and not name.startswith("cuda") else "cuda_runtime"
    arguments = {"External id": number, "correlation": number}
    if not name.startswith("hip"):
        arguments["cbid"] = NUMBERS.get(name, 1000)
    return {"ph": "X", "cat": category, "name": name, **HOST, **where, "ts": ts, "dur": dur, "args": arguments}


def work(name: str, ts: float, number: int, dur: float = 8.0, category: str = "kernel", **where: Any) -> Event:
    arguments = {"External id": number, "device": 0, "stream": 7, "correlation": number}
    return {"ph": "X", "cat": category, "name": name, **DEVICE, **where, "ts": ts, "dur": dur, "args": arguments}


def flows(events: Iterable[Event]) -> list[Event]:
    """Return the flows that Kineto writes: one at each call and at each piece of work."""
    made = []
    for one in (one for one in events if "correlation" in one["args"]):
        number = one["args"]["correlation"]
        starts = one["cat"].endswith(("_runtime", "_driver")) and any(
            word in one["name"] for word in ("Launch", "Memcpy", "Memset")
        )
        place = {"pid": one["pid"], "tid": one["tid"], "ts": one["ts"], "cat": "ac2g", "name": "ac2g", "id": number}
        made.append({"ph": "s", **place} if starts else {"ph": "f", **place, "bp": "e"})
    return made


def whole(
    launch: str = "cudaLaunchKernel", wait: str = "cudaDeviceSynchronize", count: int = 20, copies: str | None = None
) -> list[Event]:
    """Return a window of launches with copies between them, and the wait at its end. Correlations are ten apart."""
    made: list[Event] = []
    copies = copies or ("hipMemcpyAsync" if launch.startswith("hip") else "cudaMemcpyAsync")
    for number in range(1, count + 1):
        at = 1000 + 20.0 * number
        if number % 5:
            made += [call(launch, at, 10 * number), work("gemm", at + 7, 10 * number)]
        else:
            made += [call(copies, at, 10 * number), work("HtoD", at + 7, 10 * number, category="gpu_memcpy")]
    return [*made, call(wait, 1000 + 20.0 * (count + 1), 10 * (count + 1), dur=30.0)]


def document(events: list[Event]) -> dict[str, Any]:
    span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
    names = [
        {"name": "process_name", "ph": "M", "ts": 990, "pid": pid, "tid": 0, "args": {"name": "python"}}
        for pid in (0, 1, 7)
    ]
    marks = [
        {"ph": "i", "s": "g", "name": name, "pid": "Traces", "tid": "", "ts": ts}
        for name, ts in (("Iteration Start: PyTorch Profiler", 990), ("Record Window End", 2995))
    ]
    operator = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        **HOST,
        "ts": 1001,
        "dur": 4,
        "args": {"External id": 1},
    }
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 10**18,
        "traceEvents": [*names, operator, *events, {**span, "ts": 990, "dur": 2000}, *marks],
    }


def found(directory: Path, events: list[Event]) -> list[tuple[str, str, str]]:
    (directory / "rank0.pt.trace.json").write_text(json.dumps(document(events)))
    findings = inspect(Recording(directory=directory)).findings
    return [(one.check, one.code.name, one.severity.value) for one in findings if one.severity is not Severity.NOTE]


MARK = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", **HOST, "ts": 1000, "dur": 600, "args": {}}
#: A launch, its kernel, a copy, its work, and the wait in `whole()`, by place.
LAUNCH, KERNEL, COPY, COPIED, WAIT = 20, 21, 8, 9, 40


def without(events: list[Event], *places: int) -> list[Event]:
    return [one for at, one in enumerate(events) if at not in places]


def changed(events: list[Event], at: int, **changes: Any) -> list[Event]:
    return [{**one, **(changes if index == at else {})} for index, one in enumerate(events)]


def both(events: list[Event]) -> list[Event]:
    return [*events, *flows(events)]


def annotation(**changes: Any) -> list[Event]:
    """Return an annotation of the host, and its copy around all work of the stream."""
    host = {"ph": "X", "cat": "user_annotation", "name": "forward", **HOST, "ts": 1000, "dur": 500}
    stream = {**host, **DEVICE, "cat": "gpu_user_annotation", "ts": 1027, "dur": 388}
    return [{**one, "args": {"External id": 77}} for one in (host, {**stream, **changes})]


def in_a_capture(events: list[Event]) -> list[Event]:
    """Put launches into the capture of a graph, where they run nothing, in front of others."""
    begin, end = call("cudaStreamBeginCapture", 1005, 1, dur=0.5), call("cudaStreamEndCapture", 1015, 5, dur=0.5)
    return [begin, *(call("cudaLaunchKernel", 1006.0 + n, 2 + n, dur=0.5) for n in range(3)), end, *events]


def of_a_graph(events: list[Event]) -> list[Event]:
    kernels = [work(name, 1500.0 + 10 * n, 205) for n, name in enumerate(("a", "b", "c"))]
    return [
        *without(events, WAIT),
        call("cudaGraphLaunch", 1480, 205),
        *kernels,
        call("cudaDeviceSynchronize", 1600, 210),
    ]


#: A call that began first comes second onto the stream.
RACING = [
    call("cudaLaunchKernel", 1010, 1, dur=30.0),
    call("cudaLaunchKernel", 1015, 2, dur=5.0, tid=8),
    work("b", 1022, 2, dur=4.0),
    work("a", 1045, 1, dur=4.0),
    call("cudaDeviceSynchronize", 1090, 3),
]
DEPENDENT = [
    call("cudaLaunchKernelExC", 1010, 1),
    work("a", 1020, 1, dur=40.0),
    call("cudaLaunchKernelExC", 1016, 2),
    work("b", 1040, 2, dur=40.0),
    call("cudaDeviceSynchronize", 1090, 3),
]


#: The thread of another pool than the operators'.
OTHER_THREAD = {"tid": 9}
OUTSIDE = ("calls_are_made_by_their_operator", "I112", "error")


def linked(count: int = 20) -> list[Event]:
    """Return calls that one operator, of External id 1, makes: questions to the runtime, which run nothing."""
    made = [call("cudaEventQuery", 1001.1 + 0.1 * number, number, dur=0.05) for number in range(1, count + 1)]
    return [{**one, "args": {**one["args"], "External id": 1}} for one in made]


def on_lanes(events: list[Event]) -> list[Event]:
    """Draw the last kernel of a graph elsewhere, as torch.cuda._annotate_cuda_graph_trace does; its flow stays."""
    return [{**one, "tid": 8, "args": {**one["args"], "stream": 8}} if one["name"] == "c" else one for one in events]


def around_a_graph() -> list[Event]:
    host, stream = annotation(ts=1500, dur=28)
    return [{**host, "ts": 1470, "dur": 100}, stream]


def fine(events: list[Event]) -> list[Event]:
    """Give times nanoseconds."""
    return [{**one, "dur": one["dur"] and one["dur"] + 0.013} for one in events]


#: What ProfilerActivity.CPU alone records beside a device: the calls, and the flows that begin at them.
CALLS_ALONE = [one for one in whole() if not one["cat"].startswith(("kernel", "gpu_"))]
#: A loop that waits for the device itself.
WAITED = [call("cudaLaunchKernel", 1005, 2), call("cudaDeviceSynchronize", 1012, 3), *CALLS_ALONE]
RANGE = {
    "ph": "X",
    "cat": "cuda_profiler_range",
    "name": "__Kernel_0__",
    "pid": 0,
    "tid": 0,
    "ts": 1500,
    "dur": 2,
    "args": {},
}
#: Two branches of a graph begin in the same microsecond.
BRANCHES = [
    call("cudaGraphLaunch", 1010, 1),
    work("a", 1020, 1),
    work("b", 1020, 1, dur=9.0),
    call("cudaDeviceSynchronize", 1090, 3),
]


def late(events: list[Event], by_us: float) -> list[Event]:
    """Move the calls of the host: the clock of the device is behind the host's."""
    return [{**one, "ts": one["ts"] + by_us} if one["pid"] == HOST["pid"] else one for one in events]


@pytest.mark.parametrize(
    "events",
    {
        "CUDA": both(whole()),
        "ROCm": both(whole("hipLaunchKernel", "hipDeviceSynchronize")),
        "the driver": both(whole("cuLaunchKernel")),
        "kernels only": both([one for one in whole() if one["cat"] == "kernel"]),
        "the capture of a graph": both(in_a_capture(whole())),
        "a capture that began before the window": both(in_a_capture(whole())[1:]),
        "a graph: one launch, three kernels": both(of_a_graph(whole())),
        "a dependent launch overlaps": both(DEPENDENT),
        "launched before the window": both([work("gemm", 1002.0, 3), *whole()]),
        "a kernel whose call is not traced": both([*whole(), work("of a library", 1800.0, 55)]),
        "launched behind the last wait": both([*whole(), call("cudaLaunchKernel", 2000, 999)]),
        "calls of an operator": both(linked()),
        "older torch: calls have numbers that are no operator's": both(whole()),
        "two threads launch on one stream at a time": both(RACING),
        "a fill of no bytes": both([call("cudaMemsetAsync", 1005, 4), *whole()]),
        "an annotation": [*both(whole()), *annotation()],
        "no device at all": [],
        "calls of another thread until the profiler stops": both([*whole(), call("cudaHostAlloc", 2985, 999, tid=9)]),
        "branches of a graph that begin at once": both(BRANCHES),
        "a device that stands in for CUDA's": both(whole("mcLaunchKernel", "mcDeviceSynchronize", 20, "mcMemcpyAsync")),
        "a clock of steps of 100 ns": both([*whole(), call("cudaPeekAtLastError", 1900, 999, dur=0)]),
        "work of a graph on a lane of its own": on_lanes(both(of_a_graph(whole()))),
        "the annotation of a graph whose work moved": on_lanes(both(of_a_graph(whole()))) + around_a_graph(),
        "ranges of CUPTI instead of kernels": [*both(CALLS_ALONE), RANGE],
    }.items(),
    ids=lambda item: item[0],
)
@pytest.mark.variants(1)
def test_what_kineto_may_write_is_right(tmp_path, events):
    assert found(tmp_path, events[1]) == []


@pytest.mark.parametrize(
    ("events", "check", "code", "severity"),
    [
        (without(both(whole()), KERNEL), "flows_of_a_device_meet_what_they_connect", "I110", "error"),
        (both(without(whole(), KERNEL)), "launched_work_ran", "C116", "error"),
        (both(without(whole(), *range(1, 40, 2))), "launched_work_ran", "C112", "error"),
        (both(without(whole(), KERNEL, WAIT)), "launched_work_ran", "C116", "warning"),
        (
            both(changed(without(whole(), KERNEL), 1, pid=1, args={**whole()[1]["args"], "device": 1})),
            "launched_work_ran",
            "C116",
            "warning",
        ),
        (both(without(whole(), LAUNCH)), "device_work_was_launched", "C116", "error"),
        (without(both(whole()), LAUNCH), "flows_of_a_device_meet_what_they_connect", "I110", "error"),
        (both(without(whole(count=60), COPIED)), "copies_ran", "C116", "error"),
        ([*whole(), *flows(without(whole(), KERNEL))], "device_work_has_its_flow", "I110", "error"),
        (both(changed(whole(), KERNEL, ts=1001.0)), "work_begins_behind_its_launch", "I106", "error"),
        (both(changed(whole(), KERNEL, dur=300.0)), "work_of_a_stream_does_not_overlap", "I106", "error"),
        (
            both(changed(whole("hipLaunchKernel", "hipDeviceSynchronize"), KERNEL, dur=60.0)),
            "work_of_a_stream_does_not_overlap",
            "I106",
            "warning",
        ),
        (both(changed(whole(), 37, dur=900.0)), "waiting_ends_behind_the_work", "I106", "error"),
        (both(changed(whole(), 37, dur=1.6e6)), "events_lie_in_the_window", "I113", "error"),
        ([*both(whole()), whole()[KERNEL]], "nothing_of_a_device_is_there_twice", "I114", "error"),
        (whole(), "device_work_has_its_flow", "I110", "error"),
        (without(both(whole()), *range(0, 40, 2)), "flows_of_a_device_meet_what_they_connect", "I110", "error"),
        ([*both(whole()), flows(whole())[KERNEL]], "nothing_of_a_device_is_there_twice", "I114", "error"),
        (both(changed(whole(), KERNEL, dur=0)), "work_and_calls_take_time", "I106", "error"),
        (both(fine(changed(whole(), LAUNCH, dur=0))), "work_and_calls_take_time", "I106", "error"),
        (both(changed(whole(), LAUNCH, dur=22)), "calls_of_a_thread_are_nested", "I112", "error"),
        ([*both(whole()), *annotation(dur=300)], "annotations_of_a_device_are_around_work", "I112", "error"),
        ([*both(whole()), *annotation(name="backward")], "annotations_of_a_device_are_of_the_host", "I115", "error"),
        ([*both(whole()), *annotation(), annotation()[1]], "nothing_of_a_device_is_there_twice", "I114", "error"),
        (both(changed(whole(), LAUNCH, name="launch")), "names_are_those_of_the_api", "S103", "error"),
        (both([MARK, *without(whole(), WAIT)]), "a_window_ends_with_a_wait", "C116", "error"),
        ([*both(whole()), *both([call("cudaLaunchKernel", 4e12, 999)])], "events_lie_in_the_window", "I113", "error"),
        ([*both(whole()), whole()[LAUNCH]], "nothing_of_a_device_is_there_twice", "I114", "error"),
        (both([*whole(), {**whole()[KERNEL], "ts": 1900.0}]), "one_launch_runs_one_kernel", "I114", "error"),
        (both(changed(whole(), KERNEL, ts=1300.0)), "work_of_a_stream_is_in_the_order_of_its_calls", "I106", "error"),
        (
            both(changed(whole("hipLaunchKernel", "hipDeviceSynchronize"), KERNEL, ts=1300.0)),
            "work_of_a_stream_is_in_the_order_of_its_calls",
            "I106",
            "warning",
        ),
        (
            both(changed(whole(), KERNEL, args={**whole()[KERNEL]["args"], "External id": 7})),
            "work_has_the_operator_of_its_call",
            "I101",
            "error",
        ),
        (changed(both(linked()), 2, args={"External id": 99, "correlation": 3}), *OUTSIDE),
        (changed(both(linked()), 2, ts=1400.0), *OUTSIDE),
        (changed(both(linked()), 2, **OTHER_THREAD), *OUTSIDE),
        ([*whole(), *flows(without(whole(), LAUNCH))], "calls_have_their_flow", "I110", "error"),
    ],
    ids=[
        "a kernel",
        "a kernel and its flow",
        "all work of the device",
        "nobody waited",
        "two devices",
        "a launch and its flow",
        "a launch",
        "the work of a copy",
        "a flow",
        "a kernel earlier than its launch",
        "a kernel that lasts into the next",
        "the same on ROCm",
        "a kernel that outlasts the wait",
        "a kernel that outlasts the window",
        "a kernel twice",
        "no flows",
        "all launches, not their flows",
        "a flow twice",
        "a kernel without time",
        "a call without time",
        "a call that lasts into the next",
        "an annotation that ends early",
        "an annotation of nothing",
        "an annotation twice",
        "a call under another name",
        "the end of the window",
        "another unit",
        "a launch twice",
        "a kernel once more, later",
        "a kernel behind the next ones",
        "the same on a queue of ROCm",
        "the operator of another call",
        "an operator that is gone",
        "a call outside of its operator",
        "a call on another thread than its operator",
        "the flow of a call",
    ],
)
@pytest.mark.variants(2)
def test_what_was_lost_or_cannot_be_is_found(tmp_path, events, check, code, severity):
    assert (check, code, severity) in found(tmp_path, events)


# -- what Kineto writes of calls and work ------------------------------------------------------------------------------


def detailed(launch: str = "cudaLaunchKernel") -> list[Event]:
    """Return a window in which each event has what Kineto writes of it, on a device of 4 multiprocessors."""
    wait = "hipDeviceSynchronize" if launch.startswith("hip") else "cudaDeviceSynchronize"
    events = whole(launch, wait)
    for one in events:
        args = one["args"]
        if one["cat"] == "gpu_memcpy":
            args |= {"bytes": 4096, "memory bandwidth (GB/s)": 4096 / (one["dur"] * 1000)}
        elif one["cat"] == "kernel":
            args |= {"grid": [6, 2, 1], "block": [64, 2, 1]}
            if not launch.startswith("hip"):
                args |= {"blocks per SM": 3.0, "warps per SM": 12.0, "registers per thread": 32, "shared memory": 0}
                args["est. achieved occupancy %"] = 75
        elif launch.startswith("hip") and "Launch" in one["name"]:
            args |= {"kernel": "gemm", "grid": [6, 2, 1], "block": [64, 2, 1]}
    return both(events)


def with_argument(at: int, name: str, value: Any, launch: str = "cudaLaunchKernel") -> list[Event]:
    events = detailed(launch)
    events[at]["args"][name] = value
    return events


def judged_with_devices(
    place: Path, events: list[Event], multiprocessors: int | None = 4
) -> list[tuple[str, str, str]]:
    whole_document = document(events) | {"deviceProperties": [{"id": 0, "numSms": multiprocessors}]}
    (place / "rank0.pt.trace.json").write_text(json.dumps(whole_document))
    findings = inspect(Recording(directory=place)).findings
    return [(one.check, one.code.name, one.severity.value) for one in findings if one.severity is not Severity.NOTE]


HIP = "hipLaunchKernel"


def of_whole_microseconds() -> list[Event]:
    """Round as torch before 2.1 did: the bandwidth follows from the time that was rounded."""
    events = detailed()
    events[COPIED]["args"]["memory bandwidth (GB/s)"] = 4096 / 8_900
    return events


def between_devices() -> list[Event]:
    """Have a copy between two devices, which has no `device` of its own."""
    events = detailed()
    events[COPIED]["args"] |= {"fromDevice": 0, "inDevice": 0, "toDevice": 1}
    del events[COPIED]["args"]["device"]
    return events


def of_no_bytes() -> list[Event]:
    events = detailed()
    events[COPIED]["args"] |= {"bytes": 0, "memory bandwidth (GB/s)": 0.0}
    return events


def of_an_unknown_device() -> list[Event]:
    """Write what Kineto does of a device that it does not know: it counts with -1 multiprocessors."""
    events = detailed()
    for one in events:
        if one.get("cat") == "kernel":
            one["args"] |= {"blocks per SM": -12, "warps per SM": -48, "est. achieved occupancy %": -99}
    return events


#: What torch writes of a collective.
DESCRIBED = {
    "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 2,
}  # fmt: skip


def of_a_collective() -> list[Event]:
    """Give the kernel of a collective all that torch's exporter in Python knows of its operator."""
    events = detailed()
    arguments: dict[str, Any] = {**DESCRIBED, "Record function id": 5, "Sequence number": 3, "Fwd thread id": 0}
    operator = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", **HOST, "ts": 1003, "dur": 2}
    arguments["Ev Idx"] = 0
    events[KERNEL]["args"] |= arguments
    return [*events, {**operator, "args": {**arguments, "External id": 2}}]


@pytest.mark.parametrize(
    ("events", "multiprocessors"),
    [
        (detailed(), 4),
        (of_an_unknown_device(), None),
        (of_a_collective(), 4),
        (detailed(HIP), 4),
        # A device that says nothing of itself.
        (with_argument(KERNEL, "blocks per SM", 5.0), None),
        (with_argument(COPIED, "memory bandwidth (GB/s)", "N/A"), 4),
        (of_no_bytes(), 4),
        (between_devices(), 4),
        # The same kernel in another block has another occupancy.
        (with_argument(KERNEL, "registers per thread", 64), 4),
        # CUPTI has no name for some numbers.
        (both([call("INVALID", 1003, 1), *whole()]), 4),
        (with_argument(LAUNCH, "kernel", "unknown", HIP), 4),
    ],
)
@pytest.mark.variants(1)
def test_what_kineto_writes_of_calls_and_work_is_right(tmp_path, events, multiprocessors):
    assert judged_with_devices(tmp_path, events, multiprocessors) == []


def test_a_bandwidth_of_a_rounded_time_is_right_where_times_are_rounded(tmp_path):
    check = ("bandwidth_is_bytes_by_time", "I105", "error")
    assert check in judged_with_devices(tmp_path, of_whole_microseconds())
    made = document(of_whole_microseconds())
    del made["baseTimeNanoseconds"]
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps(made))
    assert check[0] not in {one.check for one in inspect(Recording(directory=tmp_path)).findings}


FIGURE, COUNT = ("I105", "error"), ("I101", "error")


@pytest.mark.parametrize(
    ("events", "check"),
    [
        (with_argument(KERNEL, "stream", 8), ("work_is_drawn_on_its_stream", *COUNT)),
        (with_argument(KERNEL, "device", 1), ("work_is_drawn_on_its_stream", *COUNT)),
        (with_argument(KERNEL, "stream", "seven"), ("work_is_drawn_on_its_stream", *COUNT)),
        (with_argument(KERNEL, "stream", 8, HIP), ("work_is_drawn_on_its_stream", *COUNT)),
        (with_argument(COPIED, "bytes", 4505), ("bandwidth_is_bytes_by_time", *FIGURE)),
        (with_argument(COPIED, "bytes", 0), ("bandwidth_is_bytes_by_time", *FIGURE)),
        (with_argument(COPIED, "memory bandwidth (GB/s)", 0.9), ("bandwidth_is_bytes_by_time", *FIGURE)),
        (with_argument(KERNEL, "blocks per SM", 3.3), ("blocks_and_warps_follow_from_the_grid", *FIGURE)),
        (with_argument(KERNEL, "warps per SM", 13.2), ("blocks_and_warps_follow_from_the_grid", *FIGURE)),
        (with_argument(KERNEL, "grid", [6, 3, 1]), ("blocks_and_warps_follow_from_the_grid", *FIGURE)),
        (with_argument(KERNEL, "block", [64, 1, 1]), ("blocks_and_warps_follow_from_the_grid", *FIGURE)),
        (with_argument(KERNEL, "est. achieved occupancy %", 70), ("alike_launches_occupy_alike", *COUNT)),
        (with_argument(KERNEL, "registers per thread", -32), ("figures_of_a_kernel_are_together", "S103", "error")),
        (with_argument(KERNEL, "grid", [0, 2, 1]), ("figures_of_a_kernel_are_together", "S103", "error")),
        (with_argument(KERNEL, "block", None), ("figures_of_a_kernel_are_together", "S103", "error")),
        (with_argument(LAUNCH, "cbid", 41), ("a_function_has_one_number", *COUNT)),
        (with_argument(LAUNCH, "cbid", 210), ("a_function_has_one_number", *COUNT)),
        (with_argument(LAUNCH, "kernel", "gemv", HIP), ("a_call_names_the_kernel_it_launched", *COUNT)),
        (with_argument(KERNEL, "grid", [6, 3, 1], HIP), ("a_call_names_the_kernel_it_launched", *COUNT)),
    ],
)
@pytest.mark.variants(1)
def test_what_kineto_writes_of_calls_and_work_is_found_where_it_was_changed(tmp_path, events, check):
    assert check in judged_with_devices(tmp_path, events)


def annotated(*more: Event) -> list[Event]:
    """Return a window in which another annotation than that of the stream is around all launches."""
    host = {
        "ph": "X",
        "cat": "user_annotation",
        "name": "backward",
        **HOST,
        "ts": 1001,
        "dur": 480,
        "args": {"External id": 78},
    }
    return [*both(whole()), *annotation(), host, *more]


def test_work_without_the_annotation_of_its_launch_is_found(tmp_path):
    check = ("annotated_work_has_its_annotation", "I101", "error")
    assert check in found(tmp_path, annotated())
    drawn = {**annotation()[1], "name": "backward", "args": {"External id": 78}}
    assert found(tmp_path, annotated(drawn)) == []


def test_annotations_that_overlap_do_not_say_which_is_around_a_launch(tmp_path):
    late = {
        "ph": "X",
        "cat": "user_annotation",
        "name": "late",
        **HOST,
        "ts": 1480,
        "dur": 400,
        "args": {"External id": 79},
    }
    assert found(tmp_path, annotated(late)) == []


@pytest.mark.parametrize(
    ("events", "severity"),
    [
        (both(without(CALLS_ALONE, -1)[:-1]), "warning"),
        (both(WAITED), "warning"),
        (both(CALLS_ALONE), "error"),
        (CALLS_ALONE[:-1], "warning"),
        (CALLS_ALONE, "error"),
        ([*both(CALLS_ALONE[:-1]), *flows([work("gemm", 1500.0, 10)])], "error"),
        ([*both(CALLS_ALONE[:-1]), *annotation()], "error"),
    ],
    ids=[
        "only the CPU was recorded",
        "only the CPU, the loop waits",
        "the profiler waited for a device",
        "its flows are gone as well",
        "its flows are gone as well, and it waited for a device",
        "a flow ends on a device",
        "an annotation of a device",
    ],
)
@pytest.mark.variants(1)
def test_launches_alone_are_an_error_where_a_device_was_recorded(tmp_path, events, severity):
    verdicts = found(tmp_path, [MARK, *events])
    assert ("launched_work_ran", "C112", severity) in verdicts
    assert severity == "error" or "a_window_ends_with_a_wait" not in {check for check, _, _ in verdicts}


def test_a_clock_of_the_device_that_is_behind_is_a_warning(tmp_path):
    behind = both(late(whole(), 300.0))
    assert ("work_begins_behind_its_launch", "I106", "warning") in found(tmp_path, behind)
    assert "error" not in {severity for _, _, severity in found(tmp_path, behind)}


# -- waits of the host and of streams (enable_cuda_sync_events) --------------------------------------------------------


def wait(kind: str, ts: float, number: int, dur: float = 2.0, stream: int = 7, **arguments: Any) -> Event:
    """Return a wait as Kineto writes it (CuptiActivity.cpp, CudaSyncActivity)."""
    made = {"cuda_sync_kind": kind, "stream": stream, "correlation": number, "device": 0, "context": 1, **arguments}
    place = {"pid": 0, "tid": abs(stream)}
    return {"ph": "X", "cat": "cuda_sync", "name": kind, **place, "ts": ts, "dur": dur, "args": made}


def for_event(ts: float, number: int, recorded_by: int, recorded_on: int = 7, **arguments: Any) -> Event:
    """Return the wait of a stream for a record of event 5."""
    recorded = {"wait_on_stream": recorded_on, "wait_on_cuda_event_record_corr_id": recorded_by}
    return wait("Stream Wait Event", ts, number, stream=20, wait_on_cuda_event_id=5, **recorded, **arguments)


RECORD, SECOND_RECORD = call("cudaEventRecord", 1100, 42, dur=1.0), call("cudaEventRecord", 1300, 142, dur=1.0)
STREAM_WAIT = call("cudaStreamWaitEvent", 1105, 43, dur=1.0)


def waiting(*more: Event) -> list[Event]:
    """Return a window in which event 5 is recorded twice, and more."""
    return both([*whole(), RECORD, STREAM_WAIT, SECOND_RECORD, *more])


def said(event: Event, **arguments: Any) -> Event:
    """Return an event with other arguments, without those that are None."""
    found = {key: value for key, value in {**event["args"], **arguments}.items() if value is not None}
    return {**event, "args": found}


FOR_THE_RECORD = for_event(1105, 43, 42)
#: Of the kernel of the launch at 1220, which runs from 1227 to 1235.
OF_THE_STREAM = wait("Stream Sync", 1226, 112, dur=12.0)


@pytest.mark.parametrize(
    "events",
    {
        "a wait for a record": waiting(FOR_THE_RECORD),
        "a record that Kineto does not know": waiting(for_event(1105, 43, -1, -1)),
        "Kineto before #808": waiting(said(wait("Event Sync", 1105, 43, stream=-1, wait_on_stream=7))),
        "a record before the window": waiting(for_event(1105, 43, 5)),
        "torch's exporter in Python does not write the stream": waiting(for_event(1105, 43, 42, -1)),
        "a record of an event that another stream waited for later": waiting(
            for_event(1105, 43, -1, -1), for_event(1305, 143, 142)
        ),
        "a stream's wait begins while its kernel runs": waiting(OF_THE_STREAM),
        "a kernel behind the wait": waiting({**OF_THE_STREAM, "ts": 1205.0, "dur": 5.0}),
        "a wait for the device": waiting(wait("Context Sync", 1900, 201, stream=-1)),
    }.items(),
    ids=lambda item: item[0],
)
@pytest.mark.variants(2)
def test_waits_that_kineto_may_write_are_right(tmp_path, events):
    made = document(events[1])
    if "before #808" in events[0]:
        del made["baseTimeNanoseconds"]
    (tmp_path / "rank0.pt.trace.json").write_text(json.dumps(made))
    findings = inspect(Recording(directory=tmp_path)).findings
    assert [one.check for one in findings if one.severity is not Severity.NOTE] == []


SAYS = ("waits_say_what_they_wait_for", "S103", "error")
RECORDS = ("waits_are_for_a_call_that_records", "I115")


@pytest.mark.parametrize(
    ("more", "check"),
    [
        ([said(FOR_THE_RECORD, correlation=None)], SAYS),
        ([said(FOR_THE_RECORD, stream=None)], SAYS),
        ([said(FOR_THE_RECORD, cuda_sync_kind=None)], SAYS),
        ([said(FOR_THE_RECORD, cuda_sync_kind="Event Sync")], SAYS),
        ([said(FOR_THE_RECORD, wait_on_cuda_event_record_corr_id=None)], SAYS),
        ([said(FOR_THE_RECORD, wait_on_stream=None)], SAYS),
        ([said(FOR_THE_RECORD, wait_on_cuda_event_record_corr_id=-1)], SAYS),
        ([for_event(1105, 43, 142)], ("waits_are_for_a_record_before_them", "I106", "warning")),
        ([for_event(1105, 143, 142)], ("waits_are_for_a_record_before_them", "I106", "warning")),
        ([for_event(1305, 143, 40)], (*RECORDS, "error")),
        ([FOR_THE_RECORD, for_event(1305, 143, -1, -1)], (*RECORDS, "warning")),
        ([{**OF_THE_STREAM, "ts": 1126.0, "dur": 1.0}], ("waiting_ends_behind_the_work", "I106", "error")),
    ],
    ids=[
        "no correlation",
        "no stream",
        "no kind",
        "another kind than its name",
        "no record",
        "no stream of the record",
        "a stream of a record that is not known",
        "a record with a later call",
        "a record at a later time",
        "a call that copies",
        "a record that another wait knows",
        "a stream's wait that ends in front of its kernel",
    ],
)
@pytest.mark.variants(2)
def test_waits_that_cannot_be_are_found(tmp_path, more, check):
    events = waiting(*more)
    if check[0] == "waiting_ends_behind_the_work":
        # The kernel of the launch at 1020 ends behind a wait that began behind that launch.
        events = [{**one, "dur": 280.0} if one["name"] == "gemm" and one["ts"] == 1027 else one for one in events]
    assert check in found(tmp_path, events)


# -- collectives -------------------------------------------------------------------------------------------------------


def collective(ts: float, number: int, **arguments: Any) -> Event:
    """Return the operator that torch records of a collective."""
    known = {key: value for key, value in {**DESCRIBED, **arguments}.items() if value is not None}
    operator = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", **HOST, "ts": ts, "dur": 0.5}
    return {**operator, "args": {"External id": number, **known}}


NOT_DESCRIBED = dict.fromkeys(DESCRIBED)


def with_collectives(*operators: Event, **of_the_kernel: Any) -> list[Event]:
    """Return a window with operators of collectives; the first launches the kernel of correlation 10."""
    events = whole()
    events[1]["args"] |= {key: value for key, value in {**DESCRIBED, **of_the_kernel}.items() if value is not None}
    return [*both(events), *operators]


@pytest.mark.parametrize(
    "events",
    [
        with_collectives(collective(1019, 10)),
        with_collectives(collective(1019, 10, **NOT_DESCRIBED), **NOT_DESCRIBED),
        # Kineto did not copy the name at first.
        with_collectives(collective(1019, 10), **{"Collective name": None}),
        with_collectives(collective(1019, 10), collective(1018, 9, **{"Collective name": "wait", "In msg nelems": 0})),
    ],
    ids=["all", "torch before 2.1", "a kernel without the name", "a wait"],
)
@pytest.mark.variants(1)
def test_collectives_that_torch_may_describe_are_right(tmp_path, events):
    assert found(tmp_path, events) == []


@pytest.mark.parametrize(
    ("events", "check"),
    [
        *(
            (with_collectives(collective(1019, 10, **{key: None})), ("collectives_are_described", "S103", "error"))
            for key in DESCRIBED
        ),
        (
            with_collectives(collective(1019, 10), collective(1018, 9, **NOT_DESCRIBED)),
            ("collectives_are_described", "S103", "warning"),
        ),
        *(
            (with_collectives(collective(1019, 10), **{key: value}), ("a_kernel_is_of_its_collective", "I101", "error"))
            for key, value in (
                ("Collective name", "broadcast"),
                ("dtype", "Half"),
                ("Out msg nelems", 1),
                ("Group size", 4),
            )
        ),
    ],
    ids=[
        *(f"no {key}" for key in DESCRIBED),
        "none of them",
        "another name",
        "another dtype",
        "other elements",
        "another group",
    ],
)
@pytest.mark.variants(2)
def test_collectives_that_lost_what_they_are_are_found(tmp_path, events, check):
    assert check in found(tmp_path, events)
