"""From the name of a layout to a directory: what can be generated, and under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

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
from perfguard.testing.counters import DEFAULT, METRICS
from perfguard.testing.formats import json_bytes
from perfguard.testing.tree import Tree
from perfguard.testing.truth import Rank, Truth, draw, in_stages, of_rank, over_network

Conditions = Mapping[str, bool]
Files = dict[str, bytes]


#: Conditions that only say how the same is written; no profiler was asked for them.
_HOW_WRITTEN = frozenset({"gzip", "dot"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Another way in which a layout is written: by an older or newer version, with other counters, of another run."""

    #: What is different, in one line.
    title: str
    #: What it comes with; asking for the contrary is refused.
    conditions: Conditions = field(default_factory=dict)
    #: What is different in the run itself, where that is it.
    run: Callable[[Truth], Truth] | None = None
    #: The layout whose conditions and files these are; empty for the layout it is a variant of.
    inner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One layout that can be generated: the conditions it knows, as they are unless asked otherwise."""

    #: Write all files, given the run, what is on, and the name of the variant.
    write: Callable[[Truth, Conditions, str], Files]
    conditions: Conditions
    variants: Mapping[str, Variant] = field(default_factory=dict)
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
    variant: str = "",
) -> Tree:
    """Generate the directory of a layout, the same for the same arguments.

    `layout` is one of `LAYOUTS`; `steps` is the number of steps in each of `cycles` schedule cycles, `operators` the
    number of operators of the model, each of which runs once a step. `conditions` switches on and off what the layout
    depends on (`{"memory": True}`); see `conditions_of`. `variant` is another way to write it: an older or newer version's
    columns, other counters, a run over a network; see `variants_of`.

    Raises `UsageError` for an unknown layout, condition or variant, for sizes below 1 and for conditions that exclude
    each other.
    """
    known = _known(layout, variant)
    for name, size in (("ranks", ranks), ("steps", steps), ("operators", operators), ("cycles", cycles)):
        if size < 1:
            raise UsageError(f"{name} is {size}: a run has at least one. Ask for {name}=1.")
    if cycles > 1 and not known.repeats:
        raise UsageError(f"A profiler that writes {layout} has no schedule to repeat; ask for cycles=1.")
    on = _settled(layout, conditions or {}, ranks, variant)
    truth = draw(seed=seed, ranks=ranks, steps=steps, operators=operators, cycles=cycles)
    if variant and (run := LAYOUTS[layout].variants[variant].run):
        truth = run(truth)
    files = LAYOUTS[layout].write(truth, on, variant)
    facts = {name: value for name, value in on.items() if name not in _HOW_WRITTEN}
    facts["distributed"] = ranks > 1
    return Tree(files=files, layout=layout, ranks=ranks, steps=steps, cycles=cycles, conditions=facts, variant=variant)


def conditions_of(layout: str, variant: str = "") -> Conditions:
    """Return the conditions a layout knows, as they are unless asked otherwise.

    Raises `UsageError` for an unknown layout or variant.
    """
    known = _known(layout, variant)
    return {**known.conditions, **(LAYOUTS[layout].variants[variant].conditions if variant else {})}


def variants_of(layout: str) -> dict[str, str]:
    """Return the names of a layout's variants, and what each is in one line. Raises `UsageError` for an unknown layout."""
    return {name: variant.title for name, variant in _known(layout, "").variants.items()}


def _known(layout: str, variant: str) -> Layout:
    """Return the layout whose conditions count: of `ranks` and the like, that of what lies in it."""
    if layout not in LAYOUTS:
        raise UsageError(f"No layout {layout!r} can be generated: {nearest(layout, LAYOUTS)}")
    found = LAYOUTS[layout]
    if variant and variant not in found.variants:
        raise UsageError(f"Layout {layout} has no variant {variant!r}: {nearest(variant, found.variants)}")
    inner = found.variants[variant].inner if variant else ""
    return LAYOUTS[inner] if inner else found


def _settled(layout: str, asked: Conditions, ranks: int, variant: str) -> Conditions:
    known = _known(layout, variant)
    fixed = LAYOUTS[layout].variants[variant].conditions if variant else {}
    for name, value in asked.items():
        if name not in known.conditions:
            raise UsageError(f"Layout {layout} knows no condition {name!r}: {nearest(name, known.conditions)}")
        if fixed.get(name, value) != value:
            raise UsageError(f"Variant {variant} comes with {name}={fixed[name]}; ask for another one.")
    on = {**known.conditions, **fixed, **asked}
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
    if "graph" in on and "flops" in on:
        on |= _possible(on, (LAYOUTS[layout].variants[variant].inner if variant else "") or layout)
    if "communication" in on:
        on["communication"] = on["communication"] and ranks > 1
    if "db" in on and not (on["db"] or on["text"]):
        raise UsageError("A profiler exports text, db or both; ask for one of them.")
    return on


def _possible(on: Conditions, layout: str) -> dict[str, bool]:
    """Return what a flat directory cannot but be: a host CPU has next to nothing, PyNative mode no graph."""
    if on.get("cpu_device"):
        return {name: name == "graph" for name in _FLAT}
    if on.get("gpu"):
        return {name: name == "graph" for name in _FLAT if name not in ("data_process", "sink", "dynamic_shape")}
    if on["graph"]:
        return {}
    lost = ["communication", "dynamic_shape", "aicpu", "flops", "parallel_strategy"]
    # Since 2.3 memory is read from the framework, not from the graph.
    return dict.fromkeys(lost if layout == "ms-2.3" else [*lost, "memory"], False)


def _merged(parts: list[Files], prefix: str = "") -> Files:
    return {f"{prefix}{name}": content for part in parts for name, content in part.items()}


def _all(truth: Truth) -> list[Rank]:
    return [rank for cycle in truth.cycles for rank in cycle]


def _mindspore_2_5_cpu(truth: Truth, on: Conditions, variant: str) -> Files:
    return _merged([_cpu_cycle(truth, rank, on, variant) for rank in _all(truth)])


def _cpu_cycle(truth: Truth, rank: Rank, on: Conditions, variant: str) -> Files:
    return mindspore_cpu.cycle_2_5(truth, rank, graph=on["graph"], memory=on["memory"], analysed=on["analysed"])


def _mindspore_2_5(truth: Truth, on: Conditions, variant: str) -> Files:
    return _merged([ascend_directory.mindspore_cycle(truth, rank, on, variant) for rank in _all(truth)])


def _torch_npu(truth: Truth, on: Conditions, variant: str) -> Files:
    return _merged([ascend_directory.torch_cycle(truth, rank, on, variant) for rank in _all(truth)])


def _torch(truth: Truth, on: Conditions, variant: str) -> Files:
    return {
        torch_trace.file_name(truth, rank, compressed=on["gzip"]): torch_trace.trace_file(
            truth, rank, memory=on["memory"], shapes=on["shapes"], flops=on["flops"], compressed=on["gzip"]
        )
        for rank in _all(truth)
    }


def _minddata(truth: Truth, on: Conditions, variant: str) -> Files:
    files: Files = {}
    version = variant or "2.10"
    for rank in _all(truth):
        files |= minddata.collected(rank.pipeline, rank.number, sink=on["sink"], version=version)
        if on["analysed"]:
            files |= minddata.analysed(rank.pipeline, rank.number, sink=on["sink"], version=version)
    return files


def _of_device(truth: Truth, rank: Rank, on: Conditions, variant: str) -> Files:
    write = _cpu_cycle if on["cpu_device"] else ascend_directory.mindspore_cycle
    return write(truth, rank, on, variant)


def _mf_profile(truth: Truth, on: Conditions, variant: str) -> Files:
    return _merged(
        [_merged([_of_device(truth, rank, on, variant)], f"profile/rank_{rank.number}/") for rank in _all(truth)]
    )


def _ms_dyn(truth: Truth, on: Conditions, variant: str) -> Files:
    files: Files = {}
    for rank in _all(truth):
        folder = f"rank{rank.number}_start{rank.steps[0].number}_stop{rank.steps[-1].number}"
        files |= _merged([_of_device(truth, rank, on, variant)], f"{folder}/")
    return files


def _ranks(truth: Truth, on: Conditions, variant: str) -> Files:
    write = LAYOUTS[LAYOUTS["ranks"].variants[variant].inner].write if variant else _ranks_of_mindspore
    numbers = [rank.number for rank in truth.cycles[0]]
    return _merged([_merged([write(of_rank(truth, number), on, "")], f"rank_{number}/") for number in numbers])


def _ranks_of_mindspore(truth: Truth, on: Conditions, variant: str) -> Files:
    return _merged([_of_device(truth, rank, on, variant) for rank in _all(truth)])


def _flat(version: str) -> Callable[[Truth, Conditions, str], Files]:
    def write(truth: Truth, on: Conditions, variant: str) -> Files:
        # In 1.x the variant is the version itself.
        form = mindspore_flat.Form(version=variant if variant == "1.3" else version, variant=variant)
        files: Files = {}
        for rank in _all(truth):
            if on.get("cpu_device"):
                one = mindspore_cpu.directory_2_0(truth, rank)
            elif on.get("gpu"):
                one = mindspore_gpu.directory(truth, rank, on)
            else:
                one = mindspore_flat.directory(truth, rank, on, form)
            files |= _merged([one], f"rank_{rank.number}/" if len(truth.cycles[0]) > 1 else "")
        return files

    return write


def _cluster(truth: Truth, on: Conditions, variant: str) -> Files:
    return cluster.cluster_files(
        truth, truth.cycles[0], communication=on["communication"], text=on["text"], db=on["db"]
    )


def _summary(truth: Truth, on: Conditions, variant: str) -> Files:
    return _merged([summary.summary_files(truth, rank) for rank in _all(truth)])


def _ir(truth: Truth, on: Conditions, variant: str) -> Files:
    level = 3 if on["dot"] else 1
    return _merged([graphs.graph_files(truth, rank, level=level) for rank in _all(truth)])


def _memory_tracker(truth: Truth, on: Conditions, variant: str) -> Files:
    return _merged(
        [
            _merged(
                [graphs.tracker_files(truth, rank, blocks=on["npu"])], f"rank_{rank.number}/" if truth.world > 1 else ""
            )
            for rank in _all(truth)
        ]
    )


def _dynamic_config(truth: Truth, on: Conditions, variant: str) -> Files:
    steps = truth.cycles[0][0].steps
    window = {"start_step": steps[0].number, "stop_step": steps[-1].number}
    document: dict[str, object] = {
        **window,
        "aic_metrics": "AiCoreNone",
        "profiler_level": "Level0",
        "analyse_mode": 0,
        "activities": ["CPU"],
        "profile_memory": on["memory"],
        "with_stack": on["stack"],
        "data_simplification": False,
        "analyse": True,
    }
    if variant == "ms-2.4":
        document = {
            **window,
            "aicore_metrics": -1,
            "profiler_level": -1,
            "profile_framework": 1,
            "analyse_mode": 0,
            "profile_communication": False,
            "parallel_strategy": False,
            "with_stack": on["stack"],
            "data_simplification": True,
            "profile_memory": on["memory"],
        }
    elif variant == "torch_npu":
        document = {
            "activities": ["CPU", "NPU"],
            "prof_dir": "./",
            "analyse": False,
            "record_shapes": False,
            "profile_memory": on["memory"],
            "with_stack": on["stack"],
            "with_flops": False,
            "with_modules": False,
            "active": len(steps),
            "warmup": 0,
            "start_step": steps[0].number,
            "is_rank": False,
            "rank_list": [],
            "experimental_config": {
                "profiler_level": "Level0",
                "aic_metrics": "AiCoreNone",
                "l2_cache": False,
                "op_attr": False,
                "gc_detect_threshold": None,
                "data_simplification": True,
                "record_op_args": False,
                "export_type": ["text"],
                "mstx": False,
                "mstx_domain_include": [],
                "mstx_domain_exclude": [],
                "host_sys": [],
                "sys_io": False,
                "sys_interconnection": False,
            },
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
    "sys_io": False,
    "sys_interconnection": False,
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

#: What 1.x knows: graph mode on a device.
_FLAT_1 = {name: on for name, on in _FLAT.items() if name not in ("graph", "memory", "heterogeneous", "dynamic_shape")}

_OF_THE_RUN = {
    "pipeline": Variant(title="the model is split into stages: ranks send and receive", run=in_stages),
    "rdma": Variant(title="the ranks are on several machines: communication over a network", run=over_network),
}
_METRICS = {
    name: Variant(title=f"kernel_details ends with the counters of {name}", conditions={"level1": True})
    for name in METRICS
    if name != DEFAULT
}
_KERNEL_NAMES = Variant(title="columns are named after kernels, not operators", conditions={"graph": True})
_ON_NPU = {"cpu_device": False, "gpu": False, "npu": True}

#: Every layout that can be generated, by the id perfguard knows it by.
LAYOUTS: dict[str, Layout] = {
    "ms-1.x": Layout(
        write=_flat("1.9"),
        conditions=_FLAT_1,
        variants={"1.3": Variant(title="MindSpore 1.3 and older, where 1.9 has other columns")},
    ),
    "ms-2.0": Layout(
        write=_flat("2.0"),
        conditions={**_FLAT, **_ON_NPU},
        forms=("cpu_device", "gpu", "npu"),
        variants={
            "kernel-names": replace(_KERNEL_NAMES, conditions={"graph": True, **_ON_NPU}),
            "inference": Variant(title="no backward pass", conditions={"graph": True, **_ON_NPU}),
            **_OF_THE_RUN,
        },
    ),
    "ms-2.1": Layout(write=_flat("2.1"), conditions={**_FLAT, "host_info": True}, variants=_OF_THE_RUN),
    "ms-2.3": Layout(
        write=_flat("2.3"),
        conditions={**_FLAT, "host_info": False},
        variants={
            "documented": Variant(title="columns as in the documents, where the source has others"),
            **_OF_THE_RUN,
        },
    ),
    "ms-2.5+": Layout(
        write=_mindspore_2_5,
        conditions=_MINDSPORE_NPU,
        repeats=True,
        variants={
            "block-dim": Variant(title="an older CANN: Block Dim in kernel_details, where it is Block Num now"),
            "rdma": _OF_THE_RUN["rdma"],
            **_METRICS,
        },
    ),
    "ms-2.5+cpu": Layout(write=_mindspore_2_5_cpu, conditions=_CPU, repeats=True),
    "pt-npu": Layout(
        write=_torch_npu,
        conditions=_TORCH_NPU,
        repeats=True,
        variants={
            "2023": Variant(
                title="torch_npu of 2023: rounded times, fewer columns and files; how it wrote traces is not known",
                conditions={"text": True, "db": False, "sys_io": False, "sys_interconnection": False},
            ),
            "block-num": Variant(title="a newer CANN: Block Num in kernel_details, where it was Block Dim"),
            "device-id": Variant(title="a newer CANN: tables begin with the device"),
            **_OF_THE_RUN,
            **_METRICS,
        },
    ),
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
    "ranks": Layout(
        write=_ranks,
        conditions={**_MINDSPORE_NPU, **_CPU, "cpu_device": False, "npu": True},
        forms=("cpu_device", "npu"),
        variants={
            inner: Variant(title=f"around {inner}", inner=inner)
            for inner in ("ms-1.x", "ms-2.0", "ms-2.1", "ms-2.3", "pt-npu", "pt-torch")
        },
    ),
    "minddata": Layout(
        write=_minddata,
        conditions={"sink": False, "analysed": True},
        variants={"1.x": Variant(title="MindSpore 1.3: no times of batches, no memory, but throughput")},
    ),
    "summary": Layout(write=_summary, conditions={}),
    "ir": Layout(write=_ir, conditions={"dot": False}),
    "memtrack": Layout(write=_memory_tracker, conditions={"npu": False}),
    "dynamic-config": Layout(
        write=_dynamic_config,
        conditions={"memory": True, "stack": False},
        variants={
            "ms-2.4": Variant(title="MindSpore 2.4: numbers for names"),
            "torch_npu": Variant(
                title="torch_npu's dynamic_profile: the number of steps, where MindSpore has the last"
            ),
        },
    ),
    "cluster": Layout(
        write=_cluster, conditions={"communication": True, "text": True, "db": False}, variants=_OF_THE_RUN
    ),
}
