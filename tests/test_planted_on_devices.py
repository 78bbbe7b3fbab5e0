"""Regressions planted in real traces of GPUs: each is red or CHANGED as it should be, and its cause is in the first line."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perfguard.capture.replay import replay
from perfguard.gate import compare, examine
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.reports.overview import headline
from perfguard.settings import rules

pytestmark = pytest.mark.slow

Event = dict[str, Any]
#: Where overlap is judged: it is a time, and shown otherwise.
POLICY = Policy(settings=rules({"exposed_communication": 0.1}, where="here"))


class Trace:
    """A trace of CUDA or ROCm, and what can be added to each of its steps."""

    def __init__(self, place: Path) -> None:
        (path,) = (one for one in place.iterdir() if ".json" in one.name)
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        self.document = json.loads(text.decode(), strict=False)
        self.events: list[Event] = self.document["traceEvents"]
        self.steps = [
            one
            for one in self.events
            if one.get("cat") == "user_annotation" and one["name"].startswith("ProfilerStep#")
        ]
        self.kernels = [one for one in self.events if one.get("cat") == "kernel"]
        self._numbers = count(50_000_000)
        # What CUPTI numbers the functions of the runtime.
        self._functions = {one["name"]: one["args"]["cbid"] for one in self.events if "cbid" in one.get("args", {})}

    def write(self, place: Path) -> Path:
        place.mkdir()
        (place / "rank0.pt.trace.json").write_text(json.dumps(self.document))
        return place

    def operator(self, step: Event, name: str, after: float, dur: float) -> None:
        where = {"pid": step["pid"], "tid": step["tid"], "ts": step["ts"] + after, "dur": dur}
        self.events.append(
            {"ph": "X", "cat": "cpu_op", "name": name, **where, "args": {"External id": next(self._numbers)}}
        )

    def call(self, step: Event, name: str, after: float, dur: float, work: Event | None = None) -> None:
        """A call of the runtime, with what it starts: a copy of an event of the trace, on a stream of its own."""
        number = next(self._numbers)
        numbered = {"External id": number, "correlation": number}
        where = {"pid": step["pid"], "tid": step["tid"], "ts": step["ts"] + after}
        args = {"cbid": self._functions[name], **numbered}
        self.events.append({"ph": "X", "cat": "cuda_runtime", "name": name, **where, "dur": dur, "args": args})
        flow = {"cat": "ac2g", "name": "ac2g", "id": number}
        if work is None:
            # As torch of that age writes a call that starts nothing.
            self.events.append({"ph": "f", **flow, **where, "bp": "e"})
            return
        started = copy.deepcopy(work)
        started |= {"ts": step["ts"] + after + 2 * dur, "tid": 99}
        started["args"] |= {**numbered, "stream": 99}
        end = {"pid": started["pid"], "tid": 99, "ts": started["ts"]}
        self.events += [started, {"ph": "s", **flow, **where}, {"ph": "f", **flow, **end, "bp": "e"}]

    def work(self, beginning: str) -> Event:
        return min(
            (
                one
                for one in self.events
                if one.get("cat") in ("kernel", "gpu_memcpy") and one["name"].startswith(beginning)
            ),
            key=lambda one: one["dur"],
        )


def hidden_wait(trace: Trace) -> None:
    for step in trace.steps:
        trace.operator(step, "aten::item", 0, 9)
        trace.operator(step, "aten::_local_scalar_dense", 1, 7)
        trace.call(step, "cudaStreamSynchronize", 2, 4)


def extra_copy(trace: Trace) -> None:
    work = trace.work("Memcpy HtoD")
    for step in trace.steps:
        trace.call(step, "cudaMemcpyAsync", 1, 2, work)


def more_launches(trace: Trace) -> None:
    work = trace.work("void at::native::")
    for step in trace.steps:
        for number in range(200):
            trace.call(step, "cudaLaunchKernel", number * 10, 3, work)


def another_kernel(trace: Trace) -> None:
    name = max((one["name"] for one in trace.kernels if "gemm" in one["name"]), key=len)
    for one in trace.events:
        if one.get("name") == name:
            one["name"] = "ampere_sgemm_128x64_tn"


def lost_overlap(trace: Trace) -> None:
    """What is computed beside communication takes a quarter of its time there."""
    moves = [(one["ts"], one["ts"] + one["dur"]) for one in trace.kernels if "nccl" in one["name"]]
    for one in trace.kernels:
        begin, end = one["ts"], one["ts"] + one["dur"]
        if "nccl" not in one["name"] and any(begin < stop and end > start for start, stop in moves):
            one["dur"] = one["dur"] / 4


def judged(corpus: Path, tmp_path: Path, name: str, plant: Callable[[Trace], None]) -> Verdict:
    place = corpus.parent / "gpu" / name
    trace = Trace(place)
    plant(trace)
    sides: Iterable[Path] = (place, trace.write(tmp_path / "altered"))
    base, now = (examine(replay(one), workload="w", policy=POLICY) for one in sides)
    return compare(base, now, policy=POLICY)


@pytest.mark.parametrize(
    ("name", "plant", "outcome", "first"),
    [
        (
            "hta-neg_queue", hidden_wait, Outcome.FAILED,
            "A step waits for its device more often: 15 → 16 a step (aten::_local_scalar_dense 0 → 1).",
        ),
        ("hta-neg_queue", extra_copy, Outcome.FAILED, "The copies HtoD of a step: 16 → 17 (+6.2 %)."),
        (
            "hta-neg_queue", more_launches, Outcome.FAILED,
            "The launches of a step: 1062 → 1262 (+18.8 %): "
            "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<double… 178 → 378.",
        ),
        (
            "hta-neg_queue", another_kernel, Outcome.CHANGED,
            "Kernels changed: 1 new (ampere_sgemm_128x64_tn), 1 gone (void "
            "split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per…). "
            "Nothing shows that the step got worse.",
        ),
        (
            "tracelens-mi300_resnet_actckpt", lost_overlap, Outcome.FAILED,
            "The exposed communication of a step on hip:2: 9.05 ms → 10.7 ms (+18.8 %).",
        ),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)  # fmt: skip
@pytest.mark.variants(1)
def test_planted(corpus, tmp_path, name, plant, outcome, first):
    found = judged(corpus, tmp_path, name, plant)
    assert (found.outcome, headline(found)) == (outcome, first)
