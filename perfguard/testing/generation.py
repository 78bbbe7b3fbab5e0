"""Generate the directory of a layout: the known layouts, their conditions and variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from perfguard.errors import UsageError, nearest
from perfguard.testing import (
    ascend_directory,
    graphs,
    minddata,
    mindspore_cpu,
    mindspore_flat,
    mindspore_gpu,
    summary,
    torch_snapshot,
)
from perfguard.testing.ascend_operators import DEFAULT, METRICS
from perfguard.testing.drawing import draw, in_stages, over_network
from perfguard.testing.formats import Files, below, json_bytes, template
from perfguard.testing.torch_trace import trace_file
from perfguard.testing.truth import Output, Truth

Conditions = Mapping[str, bool]

#: Layouts of one file or directory for all ranks together.
_WITHOUT_RANKS = frozenset({"cluster", "dynamic-config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Files by their relative path (with `/`), and what is true of them."""

    files: Mapping[str, bytes]
    #: Id of the layout, as `perfguard check --explain` names it.
    layout: str
    ranks: int = 1
    #: Steps in each schedule cycle of a rank.
    steps: int = 0
    #: Schedule cycles of each rank.
    cycles: int = 1
    #: Which conditions were on and which were off.
    conditions: Mapping[str, bool] = field(default_factory=dict)
    #: The variant of the layout; empty for none.
    variant: str = ""

    def __repr__(self) -> str:
        """Summarize the tree without its contents: hypothesis prints a failing example."""
        of = f" {self.variant}" if self.variant else ""
        return f"<Tree {self.layout}{of}: {len(self.files)} files, --expect {self.expectation}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the same for hypothesis and IPython, which print every field of a dataclass otherwise."""
        printer.text(repr(self))

    @property
    def expectation(self) -> str:
        """The value of `perfguard check --expect` that describes exactly this tree: `no-graph,memory,ranks=2,steps=3`."""
        on = dict(self.conditions)
        words = []
        if "level1" in on:
            words.append("level2" if on.pop("level2") else "level1" if on["level1"] else "level0")
            del on["level1"]
        # A word may set other conditions as well; what is on goes last.
        words += [f"no-{name}" for name, value in on.items() if not value]
        words += [name for name, value in on.items() if value]
        if self.layout not in _WITHOUT_RANKS:
            words.append(f"ranks={self.ranks}")
        return ",".join([*words, f"steps={self.steps}"])

    def write(self, directory: Path | str) -> Path:
        """Write every file below `directory`, which may exist; returns it as a path. Raises `OSError`."""
        directory = Path(directory)
        for name, content in self.files.items():
            path = directory / PurePosixPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return directory


#: Conditions of the writing alone: no option of a profiler sets them.
_HOW_WRITTEN = frozenset({"gzip", "dot"})


@dataclass(frozen=True, slots=True)
class Variant:
    """Another way in which a layout is written: by an older or newer version, with other counters, of another run."""

    #: The difference, in one line.
    title: str
    #: Conditions that it fixes; a request for the contrary is refused.
    conditions: Conditions = field(default_factory=dict)
    #: The change of the run itself.
    run: Callable[[Truth], Truth] = lambda truth: truth
    #: The layout whose conditions and files these are; empty for the layout it is a variant of.
    inner: str = ""
    #: The version of MindSpore; empty for that of the layout.
    version: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """One layout that can be generated, with the defaults of its conditions."""

    #: Write the files of one rank and cycle, or of all of them.
    write: Callable[[Output], Files]
    conditions: Conditions
    variants: Mapping[str, Variant] = field(default_factory=dict)
    #: Exactly one of these conditions is on.
    forms: tuple[str, ...] = ()
    #: Whether the profiler can write several schedule cycles.
    repeats: bool = False
    #: The version of MindSpore where it changes files.
    version: str = ""
    #: The folder of each rank, and that where it is not the only one; `{rank}`, `{first}` and `{last}` step are filled in.
    folder: str = ""
    folder_of_several: str = ""


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
    number of operators of the model, each of which runs once a step. `conditions` switches options of the profiler on and
    off (`{"memory": True}`); see `conditions_of`. `variant` selects the columns of an older or newer version, other
    counters, or a run over a network; see `variants_of`.

    Raises `UsageError` for an unknown layout, condition or variant, for sizes below 1 and for conditions that exclude
    each other.
    """
    known, other = known_layout(layout, variant)
    for name, size in (("ranks", ranks), ("steps", steps), ("operators", operators), ("cycles", cycles)):
        if size < 1:
            raise UsageError(f"{name} is {size}, but must be at least 1. Use {name}=1.")
    if cycles > 1 and not known.repeats:
        raise UsageError(
            f"cycles is {cycles}, but the profiler that writes {layout} has no schedule to repeat. Use cycles=1."
        )
    on = _settled(layout, conditions or {}, ranks, variant)
    truth = other.run(draw(seed=seed, ranks=ranks, steps=steps, operators=operators, cycles=cycles))
    # The directories in a folder of ranks have no variant, and no folders of their own.
    folder = (ranks > 1 and LAYOUTS[layout].folder_of_several) or LAYOUTS[layout].folder
    part = "" if other.inner else variant
    files: Files = {}
    for rank in truth.ranks[:1] if layout in _WITHOUT_RANKS else truth.ranks:
        output = Output(truth=truth, rank=rank, on=on, variant=part, version=other.version or known.version)
        place = folder.format(rank=rank.number, first=rank.steps[0].step, last=rank.steps[-1].step)
        files |= below(place, known.write(output))
    facts = {name: value for name, value in on.items() if name not in _HOW_WRITTEN} | {"distributed": ranks > 1}
    return Tree(files=files, layout=layout, ranks=ranks, steps=steps, cycles=cycles, conditions=facts, variant=variant)


def conditions_of(layout: str, variant: str = "") -> Conditions:
    """Return the conditions of a layout, with their defaults.

    Raises `UsageError` for an unknown layout or variant.
    """
    known, other = known_layout(layout, variant)
    return {**known.conditions, **other.conditions}


def variants_of(layout: str) -> dict[str, str]:
    """Return the names of a layout's variants, each with its title. Raises `UsageError` for an unknown layout."""
    return {name: variant.title for name, variant in known_layout(layout, "")[0].variants.items()}


def known_layout(layout: str, variant: str) -> tuple[Layout, Variant]:
    """Return a variant, and the layout whose conditions apply: for a folder of ranks that of the directories in it.

    Raises `UsageError` for an unknown layout or variant.
    """
    if layout not in LAYOUTS:
        raise UsageError(f"No layout {layout!r} can be generated: {nearest(layout, LAYOUTS)}")
    variants = LAYOUTS[layout].variants
    if variant and variant not in variants:
        raise UsageError(f"Layout {layout} has no variant {variant!r}: {nearest(variant, variants)}")
    other = variants.get(variant, Variant("none"))
    return LAYOUTS[other.inner or layout], other


def _settled(layout: str, requested: Conditions, ranks: int, variant: str) -> Conditions:
    """Return all conditions: the defaults, those of the variant, the requested ones, and what follows from them."""
    known, other = known_layout(layout, variant)
    fixed = other.conditions
    for name, value in requested.items():
        if name not in known.conditions:
            raise UsageError(f"Layout {layout} has no condition {name!r}: {nearest(name, known.conditions)}")
        if fixed.get(name, value) != value:
            raise UsageError(f"Variant {variant} has {name}={fixed[name]}. Leave {name} out, or use another variant.")
    on = {**known.conditions, **fixed, **requested}
    chosen = [form for form in known.forms if requested.get(form)]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other. Use one of them.")
    if chosen:
        on |= {form: form == chosen[0] for form in known.forms}
    elif known.forms and not any(on[form] for form in known.forms):
        raise UsageError(f"One of {', '.join(known.forms)} must be on.")
    if on.get("level2"):
        if requested.get("level1") is False:
            raise UsageError("level2 includes level1. Leave level1 on.")
        on["level1"] = True
    if "graph" in on and "flops" in on:
        on |= _possible(on, other.inner or layout)
    if "communication" in on:
        on["communication"] = on["communication"] and ranks > 1
    if "db" in on and not (on["db"] or on["text"]):
        raise UsageError("text and db are both off, but a profiler exports at least one of them. Switch one on.")
    return on


def _possible(on: Conditions, layout: str) -> dict[str, bool]:
    """Return the conditions that the device and the mode of a flat directory fix: PyNative mode has no graph."""
    if on.get("cpu_device"):
        return {name: name == "graph" for name in _FLAT}
    if on.get("gpu"):
        return {name: name == "graph" for name in _FLAT if name not in ("data_process", "sink", "dynamic_shape")}
    if on["graph"]:
        return {}
    lost = ["communication", "dynamic_shape", "aicpu", "flops", "parallel_strategy"]
    # Since 2.3 memory is read from the framework, not from the graph.
    return dict.fromkeys(lost if layout == "ms-2.3" else [*lost, "memory"], False)


def _of_device(output: Output) -> Files:
    return (mindspore_cpu.cycle_2_5 if output.on["cpu_device"] else ascend_directory.mindspore_cycle)(output)


def _flat(output: Output) -> Files:
    if output.on.get("cpu_device"):
        return mindspore_cpu.directory_2_0(output)
    return mindspore_gpu.directory(output) if output.on.get("gpu") else mindspore_flat.directory(output)


def _dynamic_config(output: Output) -> Files:
    """Write the settings of dynamic profiling. torch_npu has the number of steps where MindSpore has the last step."""
    first, last = output.rank.steps[0].step, output.rank.steps[-1].step
    end = {"active": last - first + 1} if output.variant == "torch_npu" else {"stop_step": last}
    options = {"profile_memory": output.on["memory"], "with_stack": output.on["stack"]}
    document = template(f"profiler_config {output.variant}".strip(), start_step=first, **end, **options)
    return {"profiler_config.json": json_bytes(document, indent=4)}


def _switches(words: str) -> dict[str, bool]:
    """Return conditions as `--expect` writes them: `memory no-stack`."""
    return {word.removeprefix("no-"): not word.startswith("no-") for word in words.split()}


_CPU = _switches("graph no-memory analysed")
_TORCH_NPU = _switches(
    "text no-db analysed level1 no-level2 memory shapes stack l2_cache no-sys_io no-sys_interconnection scheduled"
)
_MINDSPORE_NPU = {**_TORCH_NPU, **_switches("no-stack simplified no-data_process no-sink no-aicpu")}
_ON_CPU, _ON_NPU = _switches("cpu_device no-npu"), _switches("no-cpu_device npu")
_FLAT = _switches(
    "graph no-memory communication no-heterogeneous no-dynamic_shape aicpu flops no-parallel_strategy "
    "no-data_process no-sink"
)
_FLAT_NPU = _switches("no-cpu_device no-gpu npu")
#: What 1.x knows: graph mode on a device.
_FLAT_1 = {name: on for name, on in _FLAT.items() if name not in ("graph", "memory", "heterogeneous", "dynamic_shape")}

_OF_THE_RUN = {
    "pipeline": Variant("the model is split into stages: ranks send and receive", run=in_stages),
    "rdma": Variant("the ranks are on several machines: communication over a network", run=over_network),
}
_METRICS = {
    name: Variant(f"kernel_details ends with the counters of {name}", {"level1": True})
    for name in METRICS
    if name != DEFAULT
}

_DEVICES = ("cpu_device", "npu")
_RANK = "rank_{rank}"

#: Every layout that can be generated, by its id in perfguard.
LAYOUTS: dict[str, Layout] = {
    "ms-1.x": Layout(
        _flat,
        _FLAT_1,
        {"1.3": Variant("MindSpore 1.3 and older, where 1.9 has other columns", version="1.3")},
        version="1.9",
        folder_of_several=_RANK,
    ),
    "ms-2.0": Layout(
        _flat,
        {**_FLAT, **_FLAT_NPU},
        {
            "kernel-names": Variant("columns are named after kernels, not operators", {"graph": True, **_FLAT_NPU}),
            "inference": Variant("no backward pass", {"graph": True, **_FLAT_NPU}),
            **_OF_THE_RUN,
        },
        forms=("cpu_device", "gpu", "npu"),
        version="2.0",
        folder_of_several=_RANK,
    ),
    "ms-2.1": Layout(_flat, {**_FLAT, "host_info": True}, _OF_THE_RUN, version="2.1", folder_of_several=_RANK),
    "ms-2.3": Layout(
        _flat,
        {**_FLAT, "host_info": False},
        {"documented": Variant("columns as in the documents, where the source has others"), **_OF_THE_RUN},
        version="2.3",
        folder_of_several=_RANK,
    ),
    "ms-2.5+": Layout(
        ascend_directory.mindspore_cycle,
        _MINDSPORE_NPU,
        {
            "block-dim": Variant("an older CANN: Block Dim in kernel_details, where it is Block Num now"),
            "rdma": _OF_THE_RUN["rdma"],
            **_METRICS,
        },
        repeats=True,
        version="2.5",
    ),
    "ms-2.5+cpu": Layout(mindspore_cpu.cycle_2_5, _CPU, repeats=True, version="2.5"),
    "pt-npu": Layout(
        ascend_directory.torch_cycle,
        _TORCH_NPU,
        {
            "2023": Variant(
                "torch_npu of 2023: rounded times, fewer columns and files; how it wrote traces is not known",
                _switches("text no-db no-sys_io no-sys_interconnection"),
            ),
            "block-num": Variant("a newer CANN: Block Num in kernel_details, where it was Block Dim"),
            "device-id": Variant("a newer CANN: tables begin with the device"),
            **_OF_THE_RUN,
            **_METRICS,
        },
        repeats=True,
    ),
    "pt-torch": Layout(trace_file, _switches("memory shapes no-flops no-gzip"), repeats=True),
    "mf-profile": Layout(
        _of_device, {**_MINDSPORE_NPU, **_CPU, **_ON_NPU}, forms=_DEVICES, version="2.5", folder=f"profile/{_RANK}"
    ),
    "ms-dyn": Layout(
        _of_device,
        {**_MINDSPORE_NPU, **_CPU, **_ON_CPU},
        forms=_DEVICES,
        repeats=True,
        version="2.5",
        folder="rank{rank}_start{first}_stop{last}",
    ),
    "ranks": Layout(
        _of_device,
        {**_MINDSPORE_NPU, **_CPU, **_ON_NPU},
        {
            inner: Variant(f"around {inner}", inner=inner)
            for inner in ("ms-1.x", "ms-2.0", "ms-2.1", "ms-2.3", "pt-npu", "pt-torch")
        },
        forms=_DEVICES,
        version="2.5",
        folder=_RANK,
    ),
    "minddata": Layout(
        minddata.pipeline_files,
        _switches("no-sink analysed"),
        {"1.x": Variant("MindSpore 1.3: no times of batches, no memory, but throughput", version="1.3")},
        version="2.10",
    ),
    "summary": Layout(summary.summary_files, {}, folder_of_several=_RANK),
    "ir": Layout(graphs.graph_files, {"dot": False}, folder_of_several=_RANK),
    "memtrack": Layout(graphs.memory_tracker, {"npu": False}, folder_of_several=_RANK),
    "memory-snapshot": Layout(torch_snapshot.snapshot_file, {}),
    "dynamic-config": Layout(
        _dynamic_config,
        _switches("memory no-stack"),
        {
            "ms-2.4": Variant("MindSpore 2.4: numbers for names"),
            "torch_npu": Variant("torch_npu's dynamic_profile: the number of steps, where MindSpore has the last"),
        },
    ),
    "cluster": Layout(ascend_directory.cluster_files, _switches("communication text no-db"), _OF_THE_RUN),
}
