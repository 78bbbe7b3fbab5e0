"""Generated directories keep the contract: nothing is wrong with any of them, and what is read is what was drawn."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.layout import layouts
from perfguard.contract import expectation, inspect
from perfguard.errors import UsageError
from perfguard.findings import Finding, Severity
from perfguard.recording import read_recording
from perfguard.testing import LAYOUTS, Tree, conditions_of, directories, generate, variants_of
from tests.contract.together import inspect_together, places
from tests.dialects.summed import groups_of


def wrong_with(trees: Sequence[Tree], place: Path, *, asked: bool = True) -> list[list[Finding]]:
    """Return what `perfguard check` finds in each, beyond notes; `asked`: having been told what to look for."""
    told = [expectation([tree.expectation] if asked else []) for tree in trees]
    recordings = [read_recording(tree.write(one)) for tree, one in zip(trees, places(place, len(trees)), strict=True)]
    contracts = inspect_together(recordings, told)
    for tree, contract in zip(trees, contracts, strict=True):
        assert tree.layout in contract.layouts or tree.layout in ("mf-profile", "ms-dyn"), contract.layouts
    return [[finding for finding in one.findings if finding.severity is not Severity.NOTE] for one in contracts]


def errors_in(trees: Sequence[Tree], place: Path, *, asked: bool = True) -> list[str]:
    return [
        f"{number}, {tree.layout}: {one.code.name} {one.place} {one.message}"
        for number, (tree, found) in enumerate(zip(trees, wrong_with(trees, place, asked=asked), strict=True))
        for one in found
        if one.severity is Severity.ERROR
    ]


def test_every_layout_can_be_generated():
    assert {layout.id for layout in layouts()} == set(LAYOUTS)


def test_nothing_is_wrong_with_one_rank(tmp_path):
    assert errors_in([generate(layout, seed=1) for layout in LAYOUTS], tmp_path) == []


@pytest.mark.exhaustive
def test_nothing_is_wrong_with_several_ranks_when_nobody_says_what_was_asked(tmp_path):
    trees = [generate(layout, seed=2, ranks=3, steps=2, operators=11) for layout in LAYOUTS]
    assert errors_in(trees, tmp_path, asked=False) == []


@pytest.mark.exhaustive
def test_nothing_is_wrong_with_several_cycles(tmp_path):
    repeating = [name for name, known in LAYOUTS.items() if known.repeats]
    trees = [generate(layout, seed=3, cycles=2, steps=1, operators=1) for layout in repeating]
    assert errors_in(trees, tmp_path) == []


def test_a_task_number_of_five_digits_does_not_touch_the_next_column(tmp_path):
    assert errors_in([generate("ms-2.0", seed=8, ranks=3, steps=2, operators=11)], tmp_path) == []


def test_a_step_of_one_operator_counts_as_those_of_many(tmp_path):
    on = {"npu": True, "cpu_device": False}
    assert errors_in([generate("ms-2.0", seed=0, steps=2, operators=1, conditions=on)], tmp_path) == []


SWITCHED = [
    ("ms-2.0", {"cpu_device": True}),
    ("ms-2.0", {"gpu": True, "data_process": True, "sink": True}),
    ("ms-2.0", {"graph": False}),
    ("ms-1.x", {"data_process": True, "parallel_strategy": True}),
    ("ms-2.0", {"dynamic_shape": True, "heterogeneous": True, "parallel_strategy": True, "memory": True}),
    ("ms-2.1", {"data_process": True, "graph": False}),
    ("ms-2.3", {"memory": True, "host_info": True, "data_process": True, "sink": True}),
    ("ms-2.5+", {"level2": True, "aicpu": True, "data_process": True, "sys_io": True, "simplified": False}),
    ("ms-2.5+", {"level1": False, "scheduled": False, "memory": False, "shapes": False}),
    ("ms-2.5+", {"db": True, "text": False}),
    ("ms-2.5+cpu", {"graph": False, "memory": True}),
    ("pt-npu", {"level1": False, "l2_cache": False, "stack": False}),
    ("pt-npu", {"level2": True, "sys_interconnection": True, "sys_io": True}),
    ("pt-npu", {"db": True}),
    ("pt-npu", {"db": True, "text": False, "scheduled": False}),
    ("pt-torch", {"gzip": True, "memory": False, "shapes": False, "flops": True}),
    ("mf-profile", {"cpu_device": True, "memory": True}),
    ("ms-dyn", {"npu": True}),
    ("minddata", {"sink": True}),
    ("ir", {"dot": True}),
    ("memtrack", {"npu": True}),
]


@pytest.mark.exhaustive
def test_nothing_is_wrong_under_other_conditions(tmp_path):
    trees = [generate(layout, seed=4, ranks=2, conditions=conditions) for layout, conditions in SWITCHED]
    assert errors_in(trees, tmp_path) == []


def several(layout: str = "") -> st.SearchStrategy[list[Tree]]:
    return st.lists(directories(layout) if layout else directories(), min_size=3, max_size=3)


LARGE = settings(
    max_examples=2, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@LARGE
@given(several())
def test_nothing_is_wrong_with_any_directory(trees):
    with tempfile.TemporaryDirectory() as folder:
        assert errors_in(trees, Path(folder)) == []


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_wrong_with_any_directory_of_a_layout(layout):
    @LARGE
    @given(several(layout))
    def of_one_layout(trees):
        with tempfile.TemporaryDirectory() as folder:
            assert errors_in(trees, Path(folder)) == []

    of_one_layout()


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_wrong_when_one_condition_is_switched(layout, tmp_path):
    trees = []
    for name in (name for name in conditions_of(layout) if name != "analysed"):
        value = not conditions_of(layout)[name]
        more = {"db": True} if name == "text" else {}
        if name in LAYOUTS[layout].forms and not value:
            more = {other: other == LAYOUTS[layout].forms[0] for other in LAYOUTS[layout].forms}
        trees.append(generate(layout, conditions={name: value, **more}))
    assert errors_in(trees, tmp_path) == []


def test_what_was_collected_only_is_said_to_be_not_analysed(tmp_path):
    layouts_of_raw_data = ("ms-2.5+", "ms-2.5+cpu", "pt-npu", "ms-dyn")
    trees = [generate(layout, conditions={"analysed": False}) for layout in layouts_of_raw_data]
    found = wrong_with(trees, tmp_path, asked=False)
    assert [{finding.code.name for finding in one} for one in found] == [{"A104"}] * len(trees)


@pytest.mark.parametrize("layout", ["ms-2.0", "ms-2.5+cpu", "ms-2.5+", "pt-npu", "pt-torch"])
@pytest.mark.variants(1)
def test_the_executions_read_are_those_drawn(layout, tmp_path):
    conditions = {"cpu_device": True} if layout == "ms-2.0" else {}
    tree = generate(layout, ranks=2, steps=4, operators=8, conditions=conditions)
    contract = inspect(read_recording(tree.write(tmp_path)))
    assert sorted(cycle.rank for cycle in contract.cycles) == [0, 1]
    sums = groups_of(contract.recording)
    runs = dict(sums.group_by("name").agg(pl.col("calls").sum()).iter_rows())
    for cycle in contract.cycles:
        assert cycle.executions.steps in (4, None)
        assert {count % 4 for name, count in runs.items() if not name.startswith("hcom_")} == {0}, runs


# -- what can be asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_arguments_give_the_same_bytes(layout):
    first, second = (generate(layout, seed=5, ranks=2).files for _ in range(2))
    assert first == second


def test_another_seed_gives_another_run():
    assert generate("ms-2.5+", seed=1).files != generate("ms-2.5+", seed=2).files


def test_a_tree_says_what_is_true_of_it():
    tree = generate("pt-npu", ranks=2, steps=5, conditions={"level2": True, "stack": False})
    assert (tree.layout, tree.ranks, tree.steps, tree.cycles) == ("pt-npu", 2, 5, 1)
    assert tree.conditions["level1"]
    assert tree.conditions["distributed"]
    words = tree.expectation.split(",")
    assert {"level2", "no-stack", "memory", "distributed", "ranks=2", "steps=5"} <= set(words)


def test_a_tree_says_which_variant_it_is():
    tree = generate("ms-2.0", variant="kernel-names")
    assert (tree.variant, tree.conditions["graph"]) == ("kernel-names", True)
    assert conditions_of("ms-2.0", "kernel-names")["npu"]


def test_every_variant_is_said_in_a_line():
    for layout in LAYOUTS:
        for name, title in variants_of(layout).items():
            assert title, name
            assert "\n" not in title, name


def test_conditions_are_those_of_what_lies_in_a_directory_of_a_rank():
    assert conditions_of("ranks", "pt-torch") == conditions_of("pt-torch")


def test_how_it_is_written_is_no_condition():
    assert "gzip" not in generate("pt-torch", conditions={"gzip": True}).conditions


def test_writing_puts_every_file_in_its_place(tmp_path):
    tree = generate("ms-2.3", ranks=2)
    tree.write(tmp_path / "new")
    written = {
        path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*") if path.is_file()
    }
    assert written == set(tree.files)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"layout": "ms-2.5"}, "did you mean 'ms-2.5\\+'"),
        ({"layout": "minddata", "steps": 0}, "steps is 0"),
        ({"layout": "minddata", "ranks": -1}, "ranks is -1"),
        ({"layout": "minddata", "cycles": 2}, "no schedule"),
        ({"layout": "ms-2.5+", "conditions": {"memroy": True}}, "did you mean 'memory'"),
        ({"layout": "ms-2.0", "conditions": {"gpu": True, "cpu_device": True}}, "exclude each other"),
        ({"layout": "ms-2.0", "conditions": {"npu": False}}, "must be on"),
        ({"layout": "pt-npu", "conditions": {"level2": True, "level1": False}}, "Leave level1 on"),
        ({"layout": "pt-npu", "conditions": {"text": False}}, "text and db are both off"),
        ({"layout": "pt-npu", "variant": "rmda"}, "did you mean 'rdma'"),
        ({"layout": "pt-npu", "variant": "2023", "conditions": {"db": True}}, "has db=False"),
        ({"layout": "ranks", "variant": "pt-torch", "conditions": {"level2": True}}, "no condition 'level2'"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        generate(**arguments)


def test_a_strategy_of_an_unknown_layout_is_refused():
    with pytest.raises(UsageError, match="did you mean 'pt-npu'"):
        directories("pt-npus")
    with pytest.raises(UsageError, match="No layout has a variant 'bf16'"):
        directories(variant="bf16")


@settings(max_examples=5, deadline=None, derandomize=True, database=None)
@given(directories("ms-2.5+cpu", ranks=2, steps=(1, 4), conditions={"graph": False}))
def test_a_strategy_keeps_what_was_fixed(tree):
    assert (tree.layout, tree.ranks, tree.conditions["graph"]) == ("ms-2.5+cpu", 2, False)
    assert tree.steps in (1, 4)


@settings(max_examples=5, deadline=None, derandomize=True, database=None)
@given(directories("pt-npu", ranks=1, steps=1, variant="2023"))
def test_a_strategy_keeps_the_variant(tree):
    assert (tree.variant, tree.conditions["db"]) == ("2023", False)
