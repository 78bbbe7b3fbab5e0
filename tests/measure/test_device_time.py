"""Where a device's time goes in each step: real traces, added up here from json and Decimal alone, and small ones by hand."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from decimal import Decimal
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import pytest

from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.measure import Measurement, measure
from tests.conftest import gpu_traces

Event = dict[str, Any]
Span = tuple[Decimal, Decimal]
#: Categories of marks of steps.
MARKS = ("user_annotation", "Operator", "cpu_op")
_DEVICE = {
    "kernel": "",
    "gpu_memcpy": "copies",
    "gpu_memset": "copies",
    "Kernel": "",
    "Memcpy": "copies",
    "Memset": "copies",
}


def of_devices(place: Path) -> dict[tuple[str, str], Measurement]:
    """The measurements, by metric and what the subject is besides the device's name."""
    return {(one.metric, one.subject): one for one in measure(inspect(replay(place)))}


def events_of(place: Path) -> list[Event]:
    (path,) = (one for one in place.iterdir() if ".json" in one.name)
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found: list[Event] = json.loads(text.decode(), parse_float=Decimal, parse_int=Decimal, strict=False)["traceEvents"]
    return found


def covered(spans: Iterable[Span]) -> Decimal:
    """How long any of some spans runs."""
    total, reached = Decimal(0), Decimal("-Infinity")
    for begin, end in sorted(spans):
        total, reached = total + max(Decimal(0), end - max(begin, reached)), max(reached, end)
    return total


def parts(work: list[tuple[Decimal, Decimal, str]], begin: Decimal, end: Decimal) -> dict[str, Decimal]:
    """What a device does between two moments [us]."""
    cut = [(max(begin, a), min(end, b), kind) for a, b, kind in work if a < end and b > begin]

    def of(*kinds: str) -> Decimal:
        return covered((a, b) for a, b, kind in cut if kind in kinds)

    whole = of("computes", "communicates", "copies")
    return {
        "computing": of("computes"),
        "communication": of("communicates"),
        "exposed_communication": whole - of("computes", "copies"),
        "exposed_copying": of("computes", "copies") - of("computes"),
        "idle": end - begin - whole,
    }


def causes_of_idle(events: list[Event], device: int, begin: Decimal, end: Decimal) -> dict[str, Decimal]:
    """What a device waits for between two moments [us], gap by gap; nothing where the call of what ran next is not there."""
    calls: dict[Any, Decimal] = {}
    for one in events:
        if one.get("cat") in ("cuda_runtime", "cuda_driver", "hip_runtime", "Runtime") and "correlation" in one["args"]:
            number = one["args"]["correlation"]
            calls[number] = min(one["ts"], calls.get(number, one["ts"]))
    work = sorted(
        (one for one in events if one.get("cat", "") in _DEVICE and one["args"]["device"] == device and one["dur"] > 0),
        key=lambda one: one["ts"],
    )
    found = dict.fromkeys(("idle_for_host", "idle_for_stream", "idle_for_collective", "idle_other"), Decimal(0))
    busy_until, ended = Decimal("-Infinity"), []
    for at, one in enumerate([*work, None]):
        begins = one["ts"] if one else Decimal("Infinity")
        if begins > busy_until and max(busy_until, begin) < min(begins, end):
            gap_begin, gap_end = max(busy_until, begin), min(begins, end)
            next_ones = list(takewhile(lambda other, begins=begins: other["ts"] == begins, islice(work, at, None)))
            asked = [calls.get(other["args"].get("correlation")) for other in next_ones]
            if None in asked:
                return {}
            call = min(max(min(asked, default=gap_end), gap_begin), gap_end)
            found["idle_for_host"] += call - gap_begin
            streams = {other["args"].get("stream") for other in next_ones}
            ended_on = {other["args"].get("stream") for other in ended}
            if (
                not ended
                or min(asked, default=busy_until) >= busy_until
                or None in streams | ended_on
                or streams & ended_on
            ):
                cause = "idle_other"
            elif any(re.match("(nccl|rccl)", other["name"]) for other in ended):
                cause = "idle_for_collective"
            else:
                cause = "idle_for_stream"
            found[cause] += gap_end - call
        if one:
            stops = one["ts"] + one["dur"]
            ended = [one] if stops > busy_until else [*ended, one] if stops == busy_until else ended
            busy_until = max(stops, busy_until)
    return found


@pytest.mark.parametrize("place", gpu_traces())
@pytest.mark.variants(1)
def test_real_devices(place):
    events = events_of(place)
    devices: dict[int, list[tuple[Decimal, Decimal, str]]] = {}
    for one in events:
        if (kind := _DEVICE.get(one.get("cat", ""))) is not None:
            kind = kind or ("communicates" if re.match("(nccl|rccl)", one["name"]) else "computes")
            span = (one["ts"], one["ts"] + one["dur"], kind)
            devices.setdefault(int(one["args"]["device"]), []).append(span)
    marks = {
        (one["ts"], one["ts"] + one["dur"])
        for one in events
        if re.fullmatch(r"ProfilerStep#\d+", one.get("name", ""))
        and one["cat"] in ("user_annotation", "Operator", "cpu_op")
    }
    ran = [
        one["ts"] for one in events if one.get("cat") in ("cpu_op", "Operator") and "ProfilerStep" not in one["name"]
    ]
    steps = sorted((a, b) for a, b in marks if any(a <= ts <= b for ts in ran))
    found = of_devices(place)
    for number, work in devices.items():
        ranges = steps or [(min(a for a, _, _ in work), max(b for _, b, _ in work))]
        expected = [parts(work, begin, end) for begin, end in ranges]
        (name,) = {subject for metric, subject in found if metric == "device_idle" and subject.endswith(f":{number}")}
        for metric, part in (("device_idle", "idle"), ("exposed_communication", "exposed_communication")):
            if any(one["communication"] for one in expected) or part == "idle":
                one = found[metric, name]
                samples = one.samples or (one.value,)
                assert samples == pytest.approx([float(step[part]) for step in expected], abs=0.02), (
                    place.name,
                    metric,
                )
        fastest = min(range(len(ranges)), key=lambda at: (ranges[at][1] - ranges[at][0], at))
        waits = causes_of_idle(events, number, *ranges[fastest])
        for part, us in {**expected[fastest], **waits}.items():
            assert found["device_time", f"{name}:{part}"].value == pytest.approx(float(us), abs=0.02), (
                place.name,
                part,
            )
        if not waits:
            assert ("device_time", f"{name}:idle_for_host") not in found


# -- by hand -----------------------------------------------------------------------------------------------------------


def span(category: str, name: str, ts: float, dur: float, **args: Any) -> Event:
    where = {"pid": args["device"], "tid": args["stream"]} if "device" in args else {"pid": 1, "tid": 1}
    return {"ph": "X", **where, "cat": category, "name": name, "ts": ts, "dur": dur, "args": args}


def launched(
    number: int, called: float, start: float, dur: float, name: str = "gemm", *, device: int = 0, stream: int = 7
) -> list[Event]:
    call = span("cuda_runtime", "cudaLaunchKernel", called, 1, cbid=1, correlation=number)
    return [call, span("kernel", name, start, dur, device=device, stream=stream, correlation=number)]


def a_trace(place: Path, *events: Event) -> dict[tuple[str, str], Any]:
    """The values of a trace of one step, from 100 to 200 us."""
    step = [span("user_annotation", "ProfilerStep#1", 100, 100), span("cpu_op", "aten::mm", 101, 5)]
    (place / "rank0.pt.trace.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*step, *events]}))
    return {key: one.value for key, one in of_devices(place).items()}


def times(found: dict[tuple[str, str], Any], device: str = "cuda:0") -> dict[str, float]:
    return {
        subject.removeprefix(f"{device}:"): value
        for (metric, subject), value in found.items()
        if metric == "device_time" and subject.startswith(device)
    }


def test_idle_is_a_wait_for_the_host_until_it_asks(tmp_path):
    # 100 to 110 nothing was asked for; 140 to 150 the next was asked for at 144; 160 to 200 nothing follows.
    found = a_trace(tmp_path, *launched(1, 110, 112, 28), *launched(2, 144, 150, 10))
    assert times(found) == {
        "computing": 38, "communication": 0, "exposed_communication": 0, "exposed_copying": 0, "idle": 62,
        "idle_for_host": 10 + 4 + 40, "idle_for_stream": 0, "idle_for_collective": 0, "idle_other": 2 + 6,
    }  # fmt: skip
    assert found["launch_delay", "cuda:0"] == 4
    assert ("exposed_communication", "cuda:0") not in found


def test_what_is_asked_for_ahead_waits_for_the_device(tmp_path):
    found = a_trace(tmp_path, *(one for n in range(5) for one in launched(n + 1, 102 + n, 110 + 10 * n, 10)))
    assert found["queue_length", "cuda:0"] == 5
    assert times(found)["idle_for_host"] == 2 + 40
    assert found["launch_delay", "cuda:0"] == sum(8 + 9 * n for n in range(5)) / 5


def test_communication_is_exposed_where_nothing_else_runs(tmp_path):
    copy = [
        span("cuda_runtime", "cudaMemcpyAsync", 103, 1, cbid=1, correlation=3),
        span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 170, 10, device=0, stream=9, correlation=3, bytes=4),
    ]
    found = a_trace(
        tmp_path, *launched(1, 101, 110, 40), *launched(2, 102, 130, 60, "ncclDevKernel_AllReduce", stream=8), *copy
    )
    assert times(found) == {
        "computing": 40, "communication": 60, "exposed_communication": 30, "exposed_copying": 10, "idle": 20,
        "idle_for_host": 1 + 10, "idle_for_stream": 0, "idle_for_collective": 0, "idle_other": 9,
    }  # fmt: skip
    assert found["exposed_communication", "cuda:0"] == 30


@pytest.mark.parametrize(
    ("first", "stream", "expected"),
    [
        ("gemm", 7, "idle_other"),
        ("gemm", 8, "idle_for_stream"),
        ("ncclDevKernel_AllReduce", 8, "idle_for_collective"),
        ("ncclDevKernel_AllReduce", 7, "idle_other"),
    ],
)
@pytest.mark.variants(1)
def test_idle_of_what_was_asked_for_is_a_wait_for_what_has_ended(tmp_path, first, stream, expected):
    """From 130 on nothing runs; what runs from 142 on was asked for at 120."""
    found = a_trace(tmp_path, *launched(1, 100, 100, 30, first), *launched(2, 120, 142, 58, stream=stream))
    waits = dict.fromkeys(("idle_for_stream", "idle_for_collective", "idle_other"), 0) | {expected: 12}
    assert {part: us for part, us in times(found).items() if part.startswith("idle")} == {
        "idle": 12, "idle_for_host": 0, **waits,
    }  # fmt: skip


def test_what_was_asked_for_when_all_had_ended_waits_for_none(tmp_path):
    first = launched(1, 100, 100, 30, "ncclDevKernel_AllReduce")
    found = times(a_trace(tmp_path, *first, *launched(2, 136, 142, 58, stream=8)))
    assert (found["idle_for_host"], found["idle_for_collective"], found["idle_other"]) == (6, 0, 6)


def test_a_stream_that_is_not_known_is_no_other_one(tmp_path):
    call, work = launched(2, 120, 142, 58)
    del work["args"]["stream"]
    found = times(a_trace(tmp_path, *launched(1, 100, 100, 30), call, work))
    assert (found["idle_for_stream"], found["idle_other"]) == (0, 12)


def test_without_calls_it_is_not_known_what_it_waits_for(tmp_path):
    found = a_trace(tmp_path, span("kernel", "gemm", 150, 10, device=0, stream=7, correlation=5))
    assert times(found, "device:0")["idle"] == 90
    assert "idle_for_host" not in times(found, "device:0")
    assert not {"launch_delay", "queue_length"} & {metric for metric, _ in found}


def test_each_device_has_its_own(tmp_path):
    found = a_trace(tmp_path, *launched(1, 101, 110, 10), *launched(2, 102, 120, 50, device=1))
    assert (times(found)["idle"], times(found, "cuda:1")["idle"]) == (90, 50)


def test_work_that_reaches_into_a_step_is_cut_at_its_edges(tmp_path):
    found = a_trace(tmp_path, *launched(1, 101, 60, 60), *launched(2, 102, 190, 60))
    assert (times(found)["computing"], times(found)["idle"]) == (30, 70)


# -- what is odd -----------------------------------------------------------------------------------------------------------


def kernel(number: int, start: float, dur: float = 5, name: str = "gemm", *, device: int = 0) -> Event:
    return span("kernel", name, start, dur, device=device, stream=7, correlation=number)


def called(number: int, ts: float, name: str = "cudaLaunchKernel") -> Event:
    return span("cuda_runtime", name, ts, 1, cbid=1, correlation=number)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [called(1, 110)],
            {("launches", ""): 1, ("device_idle", "cuda:0"): None, ("kernel_calls", "gemm"): None},
            id="launches and no kernel",
        ),
        pytest.param(
            [kernel(1, 120)],
            {("launches", ""): None, ("kernel_calls", "gemm"): 1, ("device_idle", "device:0"): 95.0},
            id="a kernel and no launch",
        ),
        pytest.param(
            [called(1, 110), called(1, 130), kernel(1, 140), kernel(1, 150)],
            {("launches", ""): 2, ("kernel_calls", "gemm"): 2, ("launch_delay", "cuda:0"): 30.0},
            id="a number twice",
        ),
        pytest.param(
            [called(1, 110, "cudaGraphLaunch"), kernel(1, 120), kernel(1, 130), kernel(1, 140, name="relu")],
            {
                ("launches", ""): 1,
                ("kernel_calls", "gemm"): 2,
                ("kernel_calls", "relu"): 1,
                ("queue_length", "cuda:0"): 1,
            },
            id="a graph",
        ),
        pytest.param(
            [called(1, 150), kernel(1, 120)],
            {("kernel_calls", "gemm"): 1, ("launch_delay", "cuda:0"): None, ("queue_length", "cuda:0"): None},
            id="a clock that goes back",
        ),
        pytest.param(
            [called(1, 110), kernel(1, 120), called(2, 115), kernel(2, 130, 0, device=1)],
            {("device_idle", "cuda:0"): 95.0, ("device_idle", "cuda:1"): None, ("kernel_calls", "gemm"): 2},
            id="a silent device",
        ),
        pytest.param(
            [
                one
                for n in range(10_000)
                for one in (called(n, 101 + n / 1000), kernel(n, 120 + n / 1000, 0.001, f"k{n}"))
            ],
            {("launches", ""): 10_000, ("kernel_calls", "k9999"): 1, ("device_idle", "cuda:0"): 90.0},
            id="ten thousand kernels",
        ),
    ],
)
@pytest.mark.variants(2)
def test_what_is_odd_is_counted_or_unknown(tmp_path, events, expected):
    found = a_trace(tmp_path, *events)
    assert {key: found.get(key) for key in expected} == expected


def test_a_stack_of_ten_thousand_functions(tmp_path):
    stack = []
    for n in range(10_000):
        ids = {"Python id": n + 1, "Python parent id": n or None}
        stack.append(span("python_function", f"a.py({n}): f{n}", 110 + n / 1000, 80 - n / 500, **ids))
    found = a_trace(tmp_path, *stack, span("cpu_op", "aten::item", 125, 1))
    assert found["waiting_functions", ""] == ["aten::item in a.py(9999): f9999"]
