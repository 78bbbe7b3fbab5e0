"""Where a step waits for its device, or on a CPU reads what it would wait for: counted, and named by operator and function."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.measure import measure
from tests.conftest import gpu_traces
from tests.installed import needs

Event = dict[str, Any]
METRICS = ("steps", "host_reads", "waiting_operators", "waiting_functions", "synchronisations")


def found_in(place: Path) -> dict[str, Any]:
    return {one.metric: one.value for one in measure(inspect(replay(place))) if one.metric in METRICS}


def op(name: str, ts: float, dur: float, *, tid: int = 1, category: str = "cpu_op") -> Event:
    return {"ph": "X", "pid": 1, "tid": tid, "cat": category, "name": name, "ts": ts, "dur": dur, "args": {}}


def item(ts: float, *, tid: int = 1) -> list[Event]:
    return [op("aten::item", ts, 5, tid=tid), op("aten::_local_scalar_dense", ts + 1, 3, tid=tid)]


def mark(number: int) -> Event:
    return op(f"ProfilerStep#{number}", 100 * number, 99, category="user_annotation")


def call(name: str, ts: float, number: int, *, tid: int = 1) -> Event:
    args = {"cbid": 1, "correlation": number}
    return {**op(name, ts, 2, tid=tid, category="cuda_runtime"), "args": args}


def a_trace(place: Path, *events: Event, steps: int = 2) -> dict[str, Any]:
    """The measurements of a trace of steps of 99 us, from 100 us on, with an operator in each."""
    ran = [one for n in range(1, steps + 1) for one in (mark(n), op("aten::mm", 100 * n + 1, 5))]
    document = {"schemaVersion": 1, "traceEvents": [*(ran or [op("aten::mm", 1, 5)]), *events]}
    (place / "rank0.pt.trace.json").write_text(json.dumps(document))
    return found_in(place)


BOTH = (110, 210)


@pytest.mark.parametrize(
    ("events", "reads", "operators"),
    [
        pytest.param([], 0, {}, id="nothing"),
        pytest.param([one for ts in BOTH for one in item(ts)], 1, {"aten::item": 1}, id="item in each step"),
        pytest.param([one for ts in (110, 120, 210) for one in item(ts)], 1, {"aten::item": 1.5}, id="one step more often"),
        pytest.param(
            [one for ts in BOTH for one in (op("aten::is_nonzero", ts - 1, 8), *item(ts))], 1, {"aten::is_nonzero": 1},
            id="an if",
        ),
        pytest.param(
            [one for ts in BOTH for one in (op("aten::allclose", ts - 1, 30), *item(ts), *item(ts + 10))], 1,
            {"aten::allclose": 1}, id="several inside of one",
        ),
        pytest.param(
            [one for ts in BOTH for one in (*item(ts), *item(ts, tid=2))], 2, {"aten::item": 2}, id="two threads at once"
        ),
        pytest.param([one for ts in BOTH for one in (*item(ts), *item(ts + 5))], 2, {"aten::item": 2}, id="one right behind"),
        pytest.param(
            [one for ts in BOTH for one in (op("aten::index", ts, 9), op("aten::nonzero", ts + 1, 3))], 1,
            {"aten::nonzero": 1}, id="a mask",
        ),
        pytest.param(
            [
                one
                for ts in BOTH
                for one in (op("Optimizer.step#Adam.step", ts - 5, 20, category="user_annotation"), *item(ts))
            ],
            0, {}, id="the counter of an optimizer",
        ),
        pytest.param(
            [one for ts in BOTH for one in (op("aten::masked_fill_", ts - 1, 20), *item(ts))], 0, {},
            id="a number that is filled in",
        ),
        pytest.param(
            [one for ts in BOTH for one in (op("aten::index_put_", ts - 1, 20), op("aten::nonzero", ts, 3))], 1,
            {"aten::nonzero": 1}, id="a mask that is written to",
        ),
        pytest.param(
            [one for ts in BOTH for one in (op("aten::quantile", ts - 1, 20), op("aten::equal", ts, 3))], 0, {},
            id="a check of the CPU",
        ),
        pytest.param(
            [one for ts in BOTH for one in (op("aten::repeat_interleave", ts - 1, 20), op("aten::view", ts, 3))], 0, {},
            id="an overload that reads nothing",
        ),
        pytest.param(
            [
                one
                for ts in BOTH
                for one in (op("Optimizer.step#LBFGS.step", ts - 5, 20, category="user_annotation"), *item(ts))
            ],
            1, {"aten::item": 1}, id="an optimizer that reads the loss",
        ),
        pytest.param(item(50), 0, {}, id="before the first step"),
        pytest.param([op("my::item", ts, 5) for ts in BOTH], 0, {}, id="an operator of a user"),
    ],
)  # fmt: skip
@pytest.mark.variants(2)
def test_reads_of_the_host(tmp_path, events, reads, operators):
    found = a_trace(tmp_path, *events)
    assert (found["host_reads"], found["waiting_operators"]) == (reads, operators)
    assert "synchronisations" not in found


def test_without_steps_the_window_is_one(tmp_path):
    found = a_trace(tmp_path, *item(110), *item(120), steps=0)
    assert (found["host_reads"], found["waiting_operators"]) == (2, {"aten::item": 2})


def test_with_a_runtime_its_calls_say_what_waited(tmp_path):
    """What reads memory of the host waits for nothing; the call is of the innermost operator around it."""
    calls = [
        one
        for n, ts in enumerate(BOTH)
        for one in (
            *item(ts),
            op("aten::to", ts + 20, 20),
            op("aten::copy_", ts + 22, 15),
            call("cudaMemcpyAsync", ts + 23, 10 * n),
            call("cudaStreamSynchronize", ts + 26, 10 * n + 1),
            # Of another thread, at the same time; and of no operator.
            call("cudaStreamSynchronize", ts + 26, 10 * n + 2, tid=2),
            call("cudaDeviceSynchronize", ts + 60, 10 * n + 3),
        )
    ]
    found = a_trace(tmp_path, *calls)
    assert found["synchronisations"] == 3
    assert found["waiting_operators"] == {"aten::copy_": 1, "cudaDeviceSynchronize": 1, "cudaStreamSynchronize": 1}
    assert "host_reads" not in found


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("hipMemcpyWithStream", 1),
        ("cudaMemcpy", 1),
        ("cuMemcpyDtoH_v2", 1),
        ("cudaMemcpy2D", 1),
        ("urQueueFinish", 1),
        ("cudaMemcpyAsync", 0),
        ("hipMemcpyAsync", 0),
        ("cudaLaunchKernel", 0),
        ("cudaStreamWaitEvent", 0),
        ("cudaEventQuery", 0),
    ],
)
@pytest.mark.variants(2)
def test_which_calls_wait(tmp_path, name, waits):
    made = [one for n, ts in enumerate(BOTH) for one in (*item(ts), call(name, ts + 2, n))]
    known = [call("cudaLaunchKernel", ts + 50, 10 + n) for n, ts in enumerate(BOTH)]
    found = a_trace(tmp_path, *made, *known)
    assert found["synchronisations"] == waits
    assert found["waiting_operators"] == ({"aten::_local_scalar_dense": 1} if waits else {})


@pytest.mark.parametrize(("kind", "waits"), [("DtoD (Device -> Device)", 0), ("DtoH (Device -> Pageable)", 1)])
def test_cuda_does_not_wait_for_a_copy_within_a_device(tmp_path, kind, waits):
    made = [one for n, ts in enumerate(BOTH) for one in (*item(ts), call("cudaMemcpy", ts + 2, n + 1))]
    args = {"device": 0, "stream": 7, "bytes": 4}
    copies = [
        op(f"Memcpy {kind}", ts + 3, 1, category="gpu_memcpy")
        | {"pid": 0, "tid": 7, "args": {**args, "correlation": n + 1}}
        for n, ts in enumerate(BOTH)
    ]
    assert a_trace(tmp_path, *made, *copies)["synchronisations"] == waits


def test_functions_are_the_innermost_that_are_not_torchs_own(tmp_path):
    def function(name: str, ts: float, dur: float, number: int, parent: int | None) -> Event:
        args = {"Python id": number, "Python parent id": parent}
        return {**op(name, ts, dur, category="python_function"), "args": args}

    stack = [
        one
        for n, ts in enumerate(BOTH)
        for one in (
            function("train.py(3): main", ts - 9, 60, 9 * n + 1, None),
            function("models/loss.py(12): mean", ts - 8, 50, 9 * n + 2, 9 * n + 1),
            function("torch/_tensor.py(40): wrapped", ts - 7, 40, 9 * n + 3, 9 * n + 2),
            function("<built-in method item of Tensor object at 0x7f00>", ts - 6, 30, 9 * n + 4, 9 * n + 3),
            *item(ts),
        )
    ]
    assert a_trace(tmp_path, *stack)["waiting_functions"] == ["aten::item in models/loss.py(12): mean"]
    assert "waiting_functions" not in a_trace(tmp_path, *item(110), *item(210))


#: Operators whose tag is of what they read that lies on the host, or that call another one of the list where they read.
BUT = {"aten::index", "aten::one_hot", "aten::repeat_interleave", "aten::_ctc_loss", "aten::linalg_lstsq"}


def test_they_are_the_operators_that_torch_says_depend_on_data(tmp_path):
    needs("torch", "models")
    import torch

    tagged = set()
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        if space == "aten" and (packet := getattr(torch.ops.aten, base, None)) is not None:
            tags = {str(tag) for tag in getattr(packet, overload or "default").tags}
            if tags & {"Tag.data_dependent_output", "Tag.dynamic_output_shape"}:
                tagged.add(f"aten::{base}")
    found = a_trace(tmp_path, *(op(name, 110 + 2 * n, 1) for n, name in enumerate(sorted(tagged))), steps=1)
    assert found["waiting_operators"].keys() == tagged - BUT


@pytest.mark.parametrize("place", gpu_traces())
@pytest.mark.variants(1)
def test_real_waits_are_of_the_operators_around_them(place):
    """Read with json alone: of each wait inside of the steps the operator that began last of those that are still running."""
    (path,) = (one for one in place.iterdir() if ".json" in one.name)
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    events = json.loads(text.decode(), parse_float=Decimal, strict=False)["traceEvents"]
    steps = [
        (one["ts"], one["ts"] + one["dur"])
        for one in events
        if one.get("cat") == "user_annotation" and one["name"].startswith("ProfilerStep#")
    ]
    waits = [
        one
        for one in events
        if "_runtime" in one.get("cat", "")
        and ("Synchronize" in one["name"] or one["name"] == "hipMemcpyWithStream")
        and any(a <= one["ts"] <= b for a, b in steps)
    ]
    operators: dict[Any, list[Event]] = {}
    for one in events:
        if one.get("cat") == "cpu_op":
            operators.setdefault(one["tid"], []).append(one)
    named: Counter[str] = Counter()
    for wait in waits:
        around = [one for one in operators.get(wait["tid"], []) if one["ts"] <= wait["ts"] <= one["ts"] + one["dur"]]
        named[max(around, key=lambda one: (one["ts"], -one["dur"]))["name"] if around else wait["name"]] += 1
    found = found_in(place)
    if steps:
        # A mark at an end in which nothing ran is no step.
        assert {name: round(count * found["steps"]) for name, count in found["waiting_operators"].items()} == named
