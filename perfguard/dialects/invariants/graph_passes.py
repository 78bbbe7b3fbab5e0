"""Rules for the files that MindSpore saves while it compiles: every compilation ended, and all files are of one run.

Source: 40 directories of MindSpore 2.0, 2.7, 2.8, 2.9 and 2.10 on a CPU, levels 1 to 3, training, inference, control flow,
PyNative, export, and compilations that failed in the front end and in the backend.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from perfguard.dialects.passes import BUILT, VALIDATED, Pass, saved_passes
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

#: Passes of a graph that the backend has begun and not yet built.
_BEFORE_BUILT = frozenset(
    {"hwopt_d_before_optimization_without_backend", "hwopt_comm_after_kernel_select", "hwopt_common_final"}
)
#: Graphs of single operators of PyNative have numbers from here on; they are never built.
_SINGLE_OPERATORS = 4_000_000_000
_EXECUTED = "execute"
_FAILED = "analyze_fail.ir"
_NAMED = 5


def every_graph_that_was_begun_was_built(cycle: Cycle) -> Iterator[Finding]:
    """A graph N that the backend optimizes is finally saved as graph_build_N. Exact.

    If that file is missing, the backend failed (the device lacks an operator), or the file was not copied. Graphs of
    single operators of PyNative are not built: MindSpore 2.0 numbers them on, and they begin when every compilation has come to
    `execute`.
    """
    passes = saved_passes(cycle.place)
    idle = _idle(passes)
    built = {one.graph for one in passes if one.name == BUILT}
    begun = [
        one
        for one in passes
        if one.name in _BEFORE_BUILT
        and one.graph is not None
        and one.graph < _SINGLE_OPERATORS
        and one.number not in idle
    ]
    for graph in sorted({one.graph for one in begun} - built, key=lambda number: number or 0):
        last = [one for one in passes if one.graph == graph][-1]
        yield Finding(
            code=Code.A102,
            place=_place(cycle, f"{BUILT}_{graph}_*.ir"),
            message=f"graph {graph} was begun ({last.file}), but its final graph is missing: its compilation failed, or "
            "the file was not copied",
        )


def every_compilation_that_began_was_validated(cycle: Cycle) -> Iterator[Finding]:
    """As many compilations reach `validate`, the end of the front end, as begin. Exact.

    Checked only if all files are here: MS_DEV_DUMP_IR_PASSES saves some passes only.
    """
    saved = saved_passes(cycle.place)
    if any(_missing(saved)):
        return
    passes = [one for one in saved if not one.is_drawing]
    begun = sum(one.position == 0 for one in passes)
    validated = sum(one.name == VALIDATED for one in passes)
    if begun > validated:
        yield Finding(
            code=Code.C110,
            place=_place(cycle, passes[-1].file),
            message=f"{begun - validated} of {begun} compilations did not reach {VALIDATED!r}; this file is the last pass",
        )


def no_graph_failed_to_compile(cycle: Cycle) -> Iterator[Finding]:
    """There is no analyze_fail.ir: MindSpore writes it when the front end fails, by default next to the script."""
    for artifact in cycle.files:
        if artifact.path.name == _FAILED:
            yield Finding(
                code=Code.C110,
                place=artifact.place,
                message="MindSpore writes this file when it cannot compile a graph; the file names the node that failed",
            )


def no_number_stands_for_two_files(cycle: Cycle) -> Iterator[Finding]:
    """The number at the end of a name counts the files of one process, so each number occurs once. Exact."""
    # A drawing has a number of its own; perfguard's own generator gives it the number of the pass.
    by_number: dict[tuple[int, bool], list[Pass]] = defaultdict(list)
    for one in saved_passes(cycle.place):
        by_number[one.number, one.is_drawing].append(one)
    doubled = [passes for passes in by_number.values() if len(passes) > 1]
    for first, second, *_ in doubled[:_NAMED]:
        yield Finding(
            code=Code.I113,
            place=_place(cycle, second.file),
            message=f"it has the number of {first.file}: two runs saved their graphs here",
        )
    if len(doubled) > _NAMED:
        more = len(doubled) - _NAMED
        place = _place(cycle, doubled[-1][1].file)
        yield Finding(code=Code.I113, place=place, message=f"and {more} more numbers like these", more=more)


def no_number_is_left_out(cycle: Cycle) -> Iterator[Finding]:
    """The numbers run from 0000 to the last without a gap. A warning: MS_DEV_DUMP_IR_PASSES saves some passes only."""
    gaps = list(_missing(saved_passes(cycle.place)))
    if gaps:
        shown = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in gaps[:_NAMED])
        count = sum(high - low + 1 for low, high in gaps)
        yield Finding(
            code=Code.A102,
            severity=Severity.WARNING,
            place=_place(cycle, "").rstrip("/") or cycle.place.name,
            message=f"{count} of the numbered files are missing (numbers {shown}"
            f"{' and more' if len(gaps) > _NAMED else ''}): not copied, or left out by MS_DEV_DUMP_IR_PASSES",
        )


def _idle(passes: list[Pass]) -> set[int]:
    """Return the numbers of the passes that were saved while no compilation was under way."""
    found: set[int] = set()
    begun = executed = 0
    for one in sorted((one for one in passes if not one.is_drawing), key=lambda one: one.number):
        begun += one.position == 0
        executed += one.name == _EXECUTED
        if executed and executed == begun:
            found.add(one.number)
    return found


def _place(cycle: Cycle, file: str) -> str:
    """Return the place of a file as findings show it."""
    for artifact in cycle.files:
        inside = artifact.path.relative_to(cycle.place).as_posix()
        if artifact.place.endswith(inside):
            return artifact.place.removesuffix(inside) + file
    return file


def _missing(passes: list[Pass]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of each gap."""
    numbers = sorted({-1, *(one.number for one in passes)})
    for before, after in pairwise(numbers):
        if after > before + 1:
            yield before + 1, after - 1
