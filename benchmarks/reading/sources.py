"""The small recordings that are scaled: real ones where they are at hand, else such as perfguard.testing makes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parents[2]
_ASCEND_RANKS = ("rank0_ascend_pt", "rank1_ascend_pt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A recording to scale, and where it is from (shown beside the figures)."""

    path: Path
    origin: str


def ascend_ranks(scratch: Path) -> tuple[Source, Source]:
    """Return two ranks (directories) of torch_npu, level 1: of the corpus, else generated."""
    if corpus := os.environ.get("PERFGUARD_CORPUS"):
        place = Path(corpus) / "msinsight" / "torch_npu-level1"
        if all((place / rank).is_dir() for rank in _ASCEND_RANKS):
            found = [
                Source(path=place / rank, origin="msinsight test data, torch_npu level 1") for rank in _ASCEND_RANKS
            ]
            return found[0], found[1]
    first, second = generated_ascend_ranks(scratch / "ascend", steps=6)
    return first, second


def generated_ascend_ranks(target: Path, *, steps: int) -> tuple[Source, Source]:
    """Return two ranks of a run that perfguard.testing makes; 60 steps are a trace_view of 8 MB each."""
    from perfguard.testing import generate

    if not target.is_dir():
        made = target.with_name(target.name + ".part")
        shutil.rmtree(made, ignore_errors=True)
        conditions = {"level1": True, "memory": True}
        generate("pt-npu", seed=1, ranks=2, steps=steps, operators=40, conditions=conditions).write(made)
        made.rename(target)
    ranks = sorted(path for path in target.iterdir() if path.is_dir())
    return tuple(Source(path=one, origin=f"perfguard.testing, pt-npu, {steps} steps") for one in ranks)  # type: ignore[return-value]


def ascend_trace(scratch: Path) -> Source:
    """Return a trace_view.json of torch_npu: one line, times as text, `ph` last in events of the device."""
    rank = ascend_ranks(scratch)[0]
    return Source(path=rank.path / "ASCEND_PROFILER_OUTPUT" / "trace_view.json", origin=rank.origin)


def ascend_kernels(scratch: Path) -> Source:
    """Return a kernel_details.csv of torch_npu, level 1, with every counter column."""
    rank = ascend_ranks(scratch)[0]
    return Source(path=rank.path / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv", origin=rank.origin)


def torch_trace(scratch: Path) -> Source:
    """Return a trace of torch.profiler: recorded here where torch is installed, else the recording of the tests."""
    if find_spec("torch") is None:
        (path,) = (ROOT / "tests/data/recordings/torch-mlp/profiler").glob("*.pt.trace.json")
        return Source(path=path, origin="recording of the tests, torch 2.13 on CPU")
    return _recorded(scratch / "torch", "mlp")


def small_torch_trace(scratch: Path) -> Source:
    """Return a trace of about 30 kB, of one step of a tiny model."""
    if find_spec("torch") is None:
        target = scratch / "torch-small"
        if not target.is_dir():
            from perfguard.testing import generate

            generate("pt-torch", seed=1, ranks=1, steps=1, operators=16).write(target)
        (path,) = target.glob("*.pt.trace.json")
        return Source(path=path, origin="perfguard.testing, pt-torch")
    return _recorded(scratch / "torch-small", "tiny")


def _recorded(target: Path, model: str) -> Source:
    # In a process of its own: what measures stays small, because a process begins with the peak of the one that starts it.
    if not target.is_dir():
        made = target.with_name(target.name + ".part")
        shutil.rmtree(made, ignore_errors=True)
        subprocess.run(
            [sys.executable, "-m", "benchmarks.reading.sources", model, str(made)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
        made.rename(target)
    (path,) = target.glob("*.pt.trace.json")
    version = json.loads((target / "version.json").read_text(encoding="utf-8"))
    return Source(path=path, origin=f"torch {version} on CPU, recorded here")


def record(model: str, target: Path) -> None:
    """Record some training steps of a small model with torch.profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

    torch.manual_seed(0)
    tiny = model == "tiny"
    layers: list[Any] = [torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)]
    if not tiny:
        layers = [torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), *layers[1:], torch.nn.Dropout(0.1)]
        layers[4] = torch.nn.Linear(64, 8)
    net = torch.nn.Sequential(*layers)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    samples, labels = torch.randn(16, 32), torch.randint(0, 8, (16,))
    steps = 1 if tiny else 4
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=steps, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(target), worker_name="host_1"),
        record_shapes=not tiny,
        profile_memory=not tiny,
        acc_events=True,
    ) as running:
        for _ in range(2 + steps):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(samples), labels).backward()
            optimiser.step()
            running.step()
    (target / "version.json").write_text(json.dumps(torch.__version__), encoding="utf-8")


# -- a GPU that is not here -------------------------------------------------------------------------------------------

_KERNELS = (
    ("aten::mm", "ampere_sgemm_128x64_tn", 180.0),
    ("aten::addmm", "ampere_sgemm_64x32_sliced1x4_nn", 95.0),
    (
        "aten::native_layer_norm",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
        22.0,
    ),
    ("aten::gelu", "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>", 14.0),
    ("aten::add", "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", 11.0),
    ("aten::_softmax", "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>", 17.0),
    ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", 410.0),
)
_GPU_START_US = 1_712_345_678_901_234


def gpu_trace(scratch: Path, *, lasts: float = 1.0) -> Source:
    """Return a made trace of kineto on a GPU: two steps of operators, their launches and their kernels.

    It is made and not real: no such trace may be shipped, and HolisticTraceAnalysis's own archive holds none. Its form is that
    of kineto's output_json.cpp (torch 2.x): cpu_op, cuda_runtime and kernel events joined by External id and correlation, flows
    ac2g, streams, `distributedInfo`, and times of 19 digits. `lasts` is how much longer its kernels take than others'.
    """
    path = scratch / "gpu" / str(lasts) / "rank0.1712345679901234567.pt.trace.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_gpu_text(lasts), encoding="utf-8")
    return Source(path=path, origin="made: kineto's form of a GPU run")


def _gpu_text(longer: float) -> str:
    random = Random(1)
    host, device = 4000, 0
    events: list[dict[str, Any]] = []
    for process, label, name in ((host, "CPU", "python3"), (device, "GPU 0", "python3")):
        for kind, key, value in (
            ("process_name", "name", name),
            ("process_labels", "labels", label),
            ("process_sort_index", "sort_index", process),
        ):
            events.append({"ph": "M", "name": kind, "ts": _us(0), "pid": process, "tid": 0, "args": {key: value}})
    number, now, kernel_end = 0, 500.0, 900.0
    work = [(*random.choice(_KERNELS), random.choice((64, 128, 512))) for _ in range(150)]
    for step in (10, 11):
        began, inside = now, []
        number += 1
        marked = number
        for operator, kernel, lasts, rows in work:
            number += 1
            cpu, launch = round(random.uniform(12, 30), 3), round(random.uniform(4, 8), 3)
            dims = [[rows, 512], [512, 512]]
            inside.append(
                _complete(host, host, "cpu_op", operator, now, cpu,
                          {"External id": number, "Record function id": 0, "Input Dims": dims,
                           "Input type": ["float", "float"], "Ev Idx": 0})
            )  # fmt: skip
            inside.append(
                _complete(host, host, "cuda_runtime", "cudaLaunchKernel", now + 3, launch,
                          {"External id": number, "cbid": 211, "correlation": number})
            )  # fmt: skip
            inside.append(_flow("s", host, host, number, now + 3))
            kernel_end = max(kernel_end, now + 3 + launch) + round(random.uniform(1, 3), 3)
            lasted = round(lasts * longer * random.uniform(0.9, 1.1), 3)
            stream = 20 if operator.startswith("c10d") else 7
            inside.append(
                _complete(device, stream, "kernel", kernel, kernel_end, lasted,
                          {"External id": number, "queued": 0, "device": 0, "context": 1, "stream": stream,
                           "correlation": number, "registers per thread": 32, "shared memory": 0, "blocks per SM": 2.7,
                           "warps per SM": 21.6, "grid": [216, 1, 1], "block": [256, 1, 1],
                           "est. achieved occupancy %": 25})
            )  # fmt: skip
            inside.append(_flow("f", device, stream, number, kernel_end))
            kernel_end += lasted
            now += cpu + round(random.uniform(2, 6), 3)
        # torch.profiler waits for the device before it stops, which is traced.
        waited, correlation = max(1.0, kernel_end - now + 1), 1_000_000 + step
        wait = {"External id": 0, "cbid": 165, "correlation": correlation}
        inside.append(_complete(host, host, "cuda_runtime", "cudaDeviceSynchronize", now, waited, wait))
        inside.append(_flow("f", host, host, correlation, now))
        now += waited + 1
        arguments = {"External id": marked, "Record function id": 0, "Ev Idx": 0}
        events.append(
            _complete(host, host, "user_annotation", f"ProfilerStep#{step}", began - 5, now - began + 10, arguments)
        )
        events += inside
        now += 40
    for index, event in enumerate(one for one in events if "Ev Idx" in one.get("args", {})):
        event["args"]["Ev Idx"] = index
    end = max(now, kernel_end) + 100
    span = _complete("Spans", "PyTorch Profiler", "Trace", "PyTorch Profiler (0)", 100, end, {"Op count": 0})
    marks = [
        {"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces",
         "tid": "Trace PyTorch Profiler", "ts": _us(100)},
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": _us(100 + end + 50)},
    ]  # fmt: skip
    header = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "a made GPU", "totalGlobalMem": 34359738368, "numSms": 80}],
        "record_shapes": 1,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1, "pg_count": 0, "pg_config": []},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
    }
    head = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in header.items())
    body = ",\n".join(_kineto(event) for event in (*events, span, *marks))
    return f'{{\n{head}  "traceEvents": [\n{body}\n  ],"traceName": "rank0.pt.trace.json" }}'


def _kineto(event: dict[str, Any]) -> str:
    """Write an event as kineto does: a line a key, the arguments in one."""
    lines = []
    for key, value in event.items():
        text = json.dumps(value)
        if key == "args":
            text = f"{{\n      {text[1:-1]}\n    }}"
        lines.append(f"    {json.dumps(key)}: {value[1:] if key == 'ts' else text}")
    return "  {\n" + ",\n".join(lines) + "\n  }"


def _us(after: float) -> str:
    # Sixteen digits and three decimals: more than a float holds, so they go into the text as they are.
    whole, part = divmod(round(after * 1000), 1000)
    return f"@{_GPU_START_US + whole}.{part:03d}"


def _complete(
    pid: int | str, tid: int | str, category: str, name: str, ts: float, dur: float, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": _us(ts), "dur": round(dur, 3), "args": args,
    }  # fmt: skip


def _flow(kind: str, pid: int, tid: int, number: int, ts: float) -> dict[str, Any]:
    flow = {"ph": kind, "id": number, "pid": pid, "tid": tid, "ts": _us(ts), "cat": "ac2g", "name": "ac2g"}
    return {**flow, "bp": "e"} if kind == "f" else flow


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]))
