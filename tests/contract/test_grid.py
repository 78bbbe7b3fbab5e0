"""The grid of invariants and kinds of output."""

import pytest

from perfguard.contract.checks import checks_of
from perfguard.contract.grid import Cell, grid
from perfguard.dialects.queries import folders


def test_every_check_is_in_a_row_that_says_what_must_hold():
    shown = {name for row in grid().rows for cell in row.cells.values() for name in cell.checks}
    # What a configuration says is no output of a profiler.
    known = {check.name for folder in folders() if folder != "dynamic_config" for check in checks_of(folder)}
    assert known <= shown
    assert all(row.about for row in grid().rows)


def test_nothing_is_checked_where_it_is_said_that_it_cannot_hold():
    both = [(row.name, name) for row in grid().rows for name, cell in row.cells.items() if cell.checks and cell.cannot]
    assert both == []


def test_every_invariant_of_every_output_has_a_rule_or_a_reason():
    """Where this fails, write a rule (its header names the invariant), or say in grid.toml why it cannot hold."""
    assert [(row.name, name) for row in grid().rows for name, cell in row.cells.items() if cell.is_missing] == []


@pytest.mark.parametrize(
    ("cell", "is_missing"),
    {
        "checked": (Cell(checks=("a",)), False),
        "cannot hold": (Cell(cannot="why"), False),
        "neither": (Cell(), True),
    }.values(),
)
def test_a_hole_is_a_cell_without_a_check_and_a_reason(cell, is_missing):
    assert cell.is_missing == is_missing


@pytest.mark.parametrize(
    ("row", "output", "check"),
    [
        ("flows_have_two_ends", "torch", "every_flow_has_two_ends"),
        ("of_one_run", "mindspore_cpu", "a_trace_is_of_one_run"),
        ("all_steps_are_there", "torch", "the_steps_asked_for_were_found"),
        ("the_profiler_finished", "memory_tracker", "required_files_are_there"),
    ],
)
def test_a_cell_has_the_checks_of_its_folders_and_of_all_outputs(row, output, check):
    (found,) = (one for one in grid().rows if one.name == row)
    assert check in found.cells[output].checks
