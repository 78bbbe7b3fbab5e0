"""Metrics of the graphs that MindSpore saves while it compiles: passes, compilations, operators of the final graphs.

The final graphs are those of `graph_build_N`, which the device gets: operators are fused and selected, with one graph for each
part of the control flow. If nothing was built (an export, a backend that builds no single graphs) they are those of `validate`,
the last pass of the front end. `execute` comes later but is still the front end's: MindSpore 2.0 on a CPU has MatMul, BiasAdd
and ReLU there, and one MatMulBiasAddReluFusion in graph_build. Every operator counts, also those that only connect a graph and
never run (Load, MakeTuple, UpdateState, Depend, Return).

The values are independent of the machine: four runs in fresh processes, on one core and on two, left the same names and the
same graphs at levels 1 and 3. Addresses, times and the numbers in names differ, and are not part of any value.
Source: MindSpore 2.0 and 2.7 to 2.10, real output at all levels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from perfguard.contract import Artifact, Cycle
from perfguard.dialects.passes import BUILT, VALIDATED, Pass, pass_of
from perfguard.measure.measurement import Samples

SLOTS = ("graph_ir", "verbose_ir", "trace_code_graph")
#: Numbers the compiler puts around the name of a function: `25_1___main___Net_construct_117`, `construct.Default.352`.
_NUMBERS_BEFORE = re.compile(r"^(?:[0-9]+_)+")
_NUMBER_BEHIND = re.compile(r"[._][0-9]+$")


def _graph_compilations(cycle: Cycle) -> Iterator[tuple[str, Samples]]:
    """Yield the compilations that passed the front end, by function name; MindSpore 2.0 uses one name for every net."""
    named = Counter(
        graph_name(artifact.content.document["entry"])
        for one, artifact in _saved(cycle)
        if one.name == VALIDATED and artifact.content.document["entry"]
    )
    yield from sorted(named.items())


def _graphs_built(cycle: Cycle) -> Iterator[tuple[str, Samples]]:
    """Yield the number of graph_build files, if any."""
    if count := sum(one.name == BUILT for one, _ in _saved(cycle)):
        yield "", count


def final_operators(cycle: Cycle) -> dict[str, int]:
    """Return the number of occurrences of each operator in the final graphs of a cycle."""
    saved = [(one, artifact) for one, artifact in _saved(cycle) if one.name in (BUILT, VALIDATED)]
    final = [artifact for one, artifact in saved if one.name == BUILT] or [artifact for _, artifact in saved]
    total: Counter[str] = Counter()
    for artifact in final:
        total.update(artifact.content.document["operators"])
    return dict(sorted(total.items()))


def graph_name(entry: str) -> str:
    """Return the name of the compiled function: `25_1___main___Net_construct_117` is `__main___Net_construct`.

    >>> graph_name("25_1_construct.Default.352")
    'construct.Default'
    """
    return _NUMBER_BEHIND.sub("", _NUMBERS_BEFORE.sub("", entry)) or entry


def _pass_names(cycle: Cycle, *, detail: bool) -> Iterator[tuple[str, Samples]]:
    """Yield sorted names without rounds and numbers; there are no details at level 1."""
    names = sorted({one.name for one, _ in _saved(cycle) if one.is_detail is detail})
    if names:
        yield "", names


def _saved(cycle: Cycle) -> Iterator[tuple[Pass, Artifact]]:
    for artifact in cycle.files:
        if artifact.slot.name not in SLOTS:
            continue
        one = pass_of(artifact.path.relative_to(cycle.place).as_posix())
        if one is not None:
            yield one, artifact


OF_CYCLE: dict[str, Callable[[Cycle], Iterable[tuple[str, Samples]]]] = {
    "graph_passes": partial(_pass_names, detail=False),
    "graph_pass_details": partial(_pass_names, detail=True),
    "graph_compilations": _graph_compilations,
    "graphs_built": _graphs_built,
    "graph_operators": lambda cycle: final_operators(cycle).items(),
}
