"""From the name of a layout to a directory: what can be generated, and under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perfguard.errors import UsageError, nearest
from perfguard.testing import (
    ascend_directory,
    cluster,
    graphs,
    minddata,
    mindspore_cpu,
    mindspore_flat,
    mindspore_gpu,
    summary,
    torch_trace,
)
from perfguard.testing.formats import json_bytes
from perfguard.testing.tree import Tree
from perfguard.testing.truth import Rank, Truth, draw

Conditions = Mapping[str, bool]
Files = dict[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One layout that can be generated: the conditions it knows, as they are unless asked otherwise."""

    write: Callable[[Truth, Conditions], Files]
    conditions: Conditions
    #: Of these exactly one is on.
    forms: tuple[str, ...] = ()
    #: Whether the profiler can write several schedule cycles.
    repeats: bool = False


def generate(
    layout: str,
    *,
    seed: int = 0,
    ranks: int = 1,
    steps: int = 3,
    operators: int = 8,
    cycles: int = 1,
    conditions: Conditions | None = None,
) -> Tree:
    """Generate the directory of a layout, the same for the same arguments.

    `layout` is one of `LAYOUTS`; `steps` is the number of steps in each of `cycles` schedule cycles, `operators` the
    number of operators of the model, each of which runs once a step. `conditions` switches on and off what the layout
    depends on (`{"memory": True}`); see `conditions_of`.

    Raises `UsageError` for an unknown layout or condition, for sizes below 1 and for conditions that exclude each other.
    """
    if layout not in LAYOUTS:
        raise UsageError(f"No layout {layout!r} can be generated: {nearest(layout, LAYOUTS)}")
    for name, size in (("ranks", ranks), ("steps", steps), ("operators", operators), ("cycles", cycles)):
        if size < 1:
            raise UsageError(f"{name} is {size}: a run has at least one. Ask for {name}=1.")
    if cycles > 1 and not LAYOUTS[layout].repeats:
        raise UsageError(f"A profiler that writes {layout} has no schedule to repeat; ask for cycles=1.")
    on = _settled(layout, conditions or {})
    truth = draw(seed=seed, ranks=ranks, steps=steps, operators=operators, cycles=cycles)
    files = LAYOUTS[layout].write(truth, on)
    facts = dict(on) if "distributed" in on else {**on, "distributed": ranks > 1}
    return Tree(files=files, layout=layout, ranks=ranks, steps=steps, cycles=cycles, conditions=facts)


def conditions_of(layout: str) -> Conditions:
    """Return the conditions a layout knows, as they are unless asked otherwise. Raises `KeyError` for an unknown one."""
    return LAYOUTS[layout].conditions


def _settled(layout: str, asked: Conditions) -> Conditions:
    known = LAYOUTS[layout]
    for name in asked:
        if name not in known.conditions:
            raise UsageError(f"Layout {layout} knows no condition {name!r}: {nearest(name, known.conditions)}")
    on = {**known.conditions, **asked}
    if chosen := [form for form in known.forms if asked.get(form)]:
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} exclude each other; ask for one of them.")
        on |= {form: form == chosen[0] for form in known.forms}
    elif known.forms and not any(on[form] for form in known.forms):
        raise UsageError(f"One of {', '.join(known.forms)} has to be on.")
    if on.get("level2"):
        if asked.get("level1") is False:
            raise UsageError("level2 holds all of level1; leave level1 on.")
        on["level1"] = True
    if "db" in on and not (on["db"] or on["text"]):
        raise UsageError("A profiler exports text, db or both; ask for one of them.")
    return on


def _merged(parts: list[Files], prefix: str = "") -> Files:
    return {f"{prefix}{name}": content for part in parts for name, content in part.items()}


def _all(truth: Truth) -> list[Rank]:
    return [rank for cycle in truth.cycles for rank in cycle]


def _mindspore_2_5_cpu(truth: Truth, on: Conditions) -> Files:
    return _merged([_cpu_cycle(truth, rank, on) for rank in _all(truth)])


def _cpu_cycle(truth: Truth, rank: Rank, on: Conditions) -> Files:
    return mindspore_cpu.cycle_2_5(truth, rank, graph=on["graph"], memory=on["memory"], analysed=on["analysed"])


def _mindspore_2_5(truth: Truth, on: Conditions) -> Files:
    return _merged([ascend_directory.mindspore_cycle(truth, rank, on) for rank in _all(truth)])


def _torch_npu(truth: Truth, on: Conditions) -> Files:
    return _merged([ascend_directory.torch_cycle(truth, rank, on) for rank in _all(truth)])


def _torch(truth: Truth, on: Conditions) -> Files:
    return {
        torch_trace.file_name(truth, rank, compressed=on["gzip"]): torch_trace.trace_file(
            truth, rank, memory=on["memory"], shapes=on["shapes"], flops=on["flops"], compressed=on["gzip"]
        )
        for rank in _all(truth)
    }


def _minddata(truth: Truth, on: Conditions) -> Files:
    files: Files = {}
    for rank in _all(truth):
        files |= minddata.collected(rank.pipeline, rank.number, sink=on["sink"])
        if on["analysed"]:
            files |= minddata.analysed(rank.pipeline, rank.number, sink=on["sink"], version="2.10")
    return files


def _mf_profile(truth: Truth, on: Conditions) -> Files:
    write = _cpu_cycle if on["cpu_device"] else ascend_directory.mindspore_cycle
    return {
        f"profile/rank_{rank.number}/{name}": content
        for rank in _all(truth)
        for name, content in write(truth, rank, on).items()
    }


def _ms_dyn(truth: Truth, on: Conditions) -> Files:
    write = _cpu_cycle if on["cpu_device"] else ascend_directory.mindspore_cycle
    files: Files = {}
    for rank in _all(truth):
        folder = f"rank{rank.number}_start{rank.steps[0].number}_stop{rank.steps[-1].number}"
        files |= _merged([write(truth, rank, on)], f"{folder}/")
    return files


def _flat(version: str) -> Callable[[Truth, Conditions], Files]:
    def write(truth: Truth, on: Conditions) -> Files:
        files: Files = {}
        for rank in _all(truth):
            if on.get("cpu_device"):
                one = mindspore_cpu.directory_2_0(truth, rank)
            elif on.get("gpu"):
                one = mindspore_gpu.directory(truth, rank, on)
            else:
                one = mindspore_flat.directory(truth, rank, on, version)
            files |= _merged([one], f"rank_{rank.number}/" if truth.world > 1 else "")
        return files

    return write


def _cluster(truth: Truth, on: Conditions) -> Files:
    return cluster.cluster_files(truth, truth.cycles[0], communication=on["communication"] and truth.world > 1)


def _summary(truth: Truth, on: Conditions) -> Files:
    return _merged([summary.summary_files(truth, rank) for rank in _all(truth)])


def _ir(truth: Truth, on: Conditions) -> Files:
    level = 3 if on["dot"] else 1
    return _merged([graphs.graph_files(truth, rank, level=level) for rank in _all(truth)])


def _memory_tracker(truth: Truth, on: Conditions) -> Files:
    return _merged(
        [
            _merged(
                [graphs.tracker_files(truth, rank, blocks=on["npu"])], f"rank_{rank.number}/" if truth.world > 1 else ""
            )
            for rank in _all(truth)
        ]
    )


def _dynamic_config(truth: Truth, on: Conditions) -> Files:
    steps = truth.cycles[0][0].steps
    document = {
        "start_step": steps[0].number,
        "stop_step": steps[-1].number,
        "aic_metrics": "AiCoreNone",
        "profiler_level": "Level0",
        "analyse_mode": 0,
        "activities": ["CPU"],
        "profile_memory": on["memory"],
        "with_stack": on["stack"],
        "data_simplification": False,
        "analyse": True,
    }
    return {"profiler_config.json": json_bytes(document, indent=4)}


_CPU = {"graph": True, "memory": False, "analysed": True}
_EXPORT = {"text": True, "db": False, "analysed": True}
_LEVELS = {"level1": True, "level2": False}
_TORCH_NPU = {
    **_EXPORT,
    **_LEVELS,
    "memory": True,
    "shapes": True,
    "stack": True,
    "l2_cache": True,
    "scheduled": True,
}
_MINDSPORE_NPU = {
    **_TORCH_NPU,
    "stack": False,
    "simplified": True,
    "data_process": False,
    "sink": False,
    "aicpu": False,
}

_FLAT = {
    "graph": True,
    "memory": False,
    "communication": True,
    "heterogeneous": False,
    "dynamic_shape": False,
    "aicpu": True,
    "flops": True,
    "parallel_strategy": False,
    "data_process": False,
    "sink": False,
}

#: Every layout that can be generated, by the id perfguard knows it by.
LAYOUTS: dict[str, Layout] = {
    "ms-2.0": Layout(
        write=_flat("2.0"),
        conditions={**_FLAT, "cpu_device": False, "gpu": False, "npu": True},
        forms=("cpu_device", "gpu", "npu"),
    ),
    "ms-2.1": Layout(write=_flat("2.1"), conditions={**_FLAT, "host_info": True}),
    "ms-2.3": Layout(write=_flat("2.3"), conditions={**_FLAT, "host_info": False}),
    "ms-2.5+": Layout(write=_mindspore_2_5, conditions=_MINDSPORE_NPU, repeats=True),
    "ms-2.5+cpu": Layout(write=_mindspore_2_5_cpu, conditions=_CPU, repeats=True),
    "pt-npu": Layout(write=_torch_npu, conditions=_TORCH_NPU, repeats=True),
    "pt-torch": Layout(
        write=_torch, conditions={"memory": True, "shapes": True, "flops": False, "gzip": False}, repeats=True
    ),
    "mf-profile": Layout(
        write=_mf_profile,
        conditions={**_MINDSPORE_NPU, **_CPU, "cpu_device": False, "npu": True},
        forms=("cpu_device", "npu"),
    ),
    "ms-dyn": Layout(
        write=_ms_dyn,
        conditions={**_MINDSPORE_NPU, **_CPU, "cpu_device": True, "npu": False},
        forms=("cpu_device", "npu"),
        repeats=True,
    ),
    "minddata": Layout(write=_minddata, conditions={"sink": False, "analysed": True}),
    "summary": Layout(write=_summary, conditions={}),
    "ir": Layout(write=_ir, conditions={"dot": False}),
    "memtrack": Layout(write=_memory_tracker, conditions={"npu": False}),
    "dynamic-config": Layout(write=_dynamic_config, conditions={"memory": True, "stack": False}),
    "cluster": Layout(write=_cluster, conditions={"communication": True}),
}
