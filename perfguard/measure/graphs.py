"""Metrics of the graphs that MindSpore saves while it compiles: its passes, what it compiled, the operators that remain.

The final graphs are those of `graph_build_N`: what a device is given, operators fused and selected, one graph a part of the
control flow. Where nothing was built (an export, a backend that builds no graphs one by one) they are those of `validate`,
with which the front end ends. `execute` comes later and is still the front end's: MindSpore 2.0 on a CPU has MatMul, BiasAdd
and ReLU there, and one MatMulBiasAddReluFusion in graph_build. Every operator counts, also those that hold a graph together
and never run (Load, MakeTuple, UpdateState, Depend, Return); the others run as often as the profiler sees them in a step.

None of it depends on the machine: four runs in fresh processes, on one core and on two, left the same names and the same
graphs at levels 1 and 3. Addresses, times and the numbers in names do depend on it, and are no part of any value.
Source: MindSpore 2.0 and 2.7 to 2.10, real output at all levels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.dialects.passes import BUILT, VALIDATED, pass_of
from perfguard.measure.measurement import Better, Kind, Metric
from perfguard.measure.metrics import Measured, cycle_metric

if TYPE_CHECKING:
    from perfguard.contract import Artifact, Cycle
    from perfguard.dialects.passes import Pass

_SLOTS = ("graph_ir", "verbose_ir", "trace_code_graph")
#: Numbers the compiler puts around the name of a function: `25_1___main___Net_construct_117`, `construct.Default.352`.
_NUMBERS_BEFORE = re.compile(r"^(?:[0-9]+_)+")
_NUMBER_BEHIND = re.compile(r"[._][0-9]+$")


@cycle_metric(
    Metric(
        name="graph_passes",
        unit="names",
        kind=Kind.EXACT,
        better=Better.EQUAL,
        meaning="Which passes of the compiler saved a graph at level 1 (at every level the same).",
    ),
    needs=_SLOTS,
)
def graph_passes(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Sorted names, without their running numbers."""
    yield from _pass_names(cycle, detail=False)


@cycle_metric(
    Metric(
        name="graph_pass_details",
        unit="names",
        kind=Kind.EXACT,
        better=Better.EQUAL,
        meaning="Which steps inside the passes saved a graph: the backend's from level 2, all of them at level 3.",
    ),
    needs=_SLOTS,
)
def graph_pass_details(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Sorted names, without rounds and numbers; nothing at level 1."""
    yield from _pass_names(cycle, detail=True)


@cycle_metric(
    Metric(
        name="graph_compilations",
        unit="compilations",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How often a function or a net was compiled: once for each set of shapes, types and settings.",
    ),
    needs=_SLOTS,
)
def graph_compilations(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Compilations that passed the front end, by the name of what was compiled; MindSpore 2.0 calls every net the same."""
    named = Counter(
        graph_name(artifact.content.document["entry"])
        for one, artifact in _saved(cycle)
        if one.name == VALIDATED and artifact.content.document["entry"]
    )
    yield from sorted(named.items())


@cycle_metric(
    Metric(
        name="graphs_built",
        unit="graphs",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How many graphs were built for the device: one a compilation, and one more for each branch or loop.",
    ),
    needs=_SLOTS,
)
def graphs_built(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Number of graph_build files; nothing where nothing was built."""
    if count := sum(one.name == BUILT for one, _ in _saved(cycle)):
        yield "", count


@cycle_metric(
    Metric(
        name="graph_operators",
        unit="operators",
        kind=Kind.EXACT,
        better=Better.EQUAL,
        meaning="How often an operator stands in the final graphs, added up over all of them.",
    ),
    needs=_SLOTS,
)
def graph_operators(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Census of the final graphs."""
    yield from final_operators(cycle).items()


def final_operators(cycle: Cycle) -> dict[str, int]:
    """Return how often each operator stands in the final graphs of a cycle; empty where it has none."""
    saved = [(one, artifact) for one, artifact in _saved(cycle) if one.name in (BUILT, VALIDATED)]
    final = [artifact for one, artifact in saved if one.name == BUILT] or [artifact for _, artifact in saved]
    total: Counter[str] = Counter()
    for artifact in final:
        total.update(artifact.content.document["operators"])
    return dict(sorted(total.items()))


def graph_name(entry: str) -> str:
    """Return what was compiled: `25_1___main___Net_construct_117` is `__main___Net_construct`.

    >>> graph_name("25_1_construct.Default.352")
    'construct.Default'
    """
    return _NUMBER_BEHIND.sub("", _NUMBERS_BEFORE.sub("", entry)) or entry


def _pass_names(cycle: Cycle, *, detail: bool) -> Iterator[tuple[str, Measured]]:
    names = sorted({one.name for one, _ in _saved(cycle) if one.is_detail is detail})
    if names:
        yield "", names


def _saved(cycle: Cycle) -> Iterator[tuple[Pass, Artifact]]:
    for artifact in cycle.files:
        if artifact.slot.name not in _SLOTS:
            continue
        one = pass_of(artifact.path.relative_to(cycle.place).as_posix())
        if one is not None:
            yield one, artifact
