"""Invariants: rules that are no query on the tables, one small function each.

What goes in: a `Cycle` whose artifacts have passed their schemas. What comes out: findings. To add one: a function here or in a
module of this package, with its tolerance and source in the docstring, and an entry in `INVARIANTS`. A function runs only where
all the slots it needs could be read. What must hold between cycles is in `whole_recording`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from perfguard.dialects.invariants import file_headers, graph_passes, integrity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle
    from perfguard.findings import Finding


class Invariant(NamedTuple):
    """One check of a cycle, the slots it needs, and the layouts it is for (empty: every layout that has the slots)."""

    check: Callable[[Cycle], Iterator[Finding]]
    needs: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.check.__name__


#: Findings come in this order.
_ORDERED = (
    Invariant(file_headers.a_unit_has_its_time_and_its_ratio, needs=("kernel_details",)),
    Invariant(file_headers.the_environment_is_recorded, needs=("profiler_info",), layouts=("pt-npu",)),
    Invariant(graph_passes.every_graph_that_was_begun_was_built, layouts=("ir",)),
    Invariant(graph_passes.every_compilation_that_began_was_validated, layouts=("ir",)),
    Invariant(graph_passes.no_graph_failed_to_compile, layouts=("ir",)),
    Invariant(graph_passes.no_number_stands_for_two_files, layouts=("ir",)),
    Invariant(graph_passes.no_number_is_left_out, layouts=("ir",)),
    Invariant(integrity.something_was_recorded),
    Invariant(integrity.no_event_without_time),
    Invariant(integrity.the_steps_asked_for_were_found),
    Invariant(integrity.every_step_has_the_same_operators),
    Invariant(integrity.counts_are_whole_steps, needs=("cpu_op_detail_info", "cpu_op_execute_timestamp")),
    Invariant(file_headers.process_groups_are_of_the_world, needs=("trace",)),
)
INVARIANTS = {one.name: one for one in _ORDERED}


def check_cycle(cycle: Cycle) -> Iterator[Finding]:
    """Run every invariant of the cycle's layout whose slots could be read."""
    for one in _ORDERED:
        if (not one.layouts or cycle.layout.id in one.layouts) and all(slot in cycle.artifacts for slot in one.needs):
            for finding in one.check(cycle):
                yield replace(finding, check=one.name, rank=cycle.rank)
