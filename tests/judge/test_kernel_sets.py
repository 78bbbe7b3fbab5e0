"""Sets of kernels: any of a set is the same, another one is a change, and runs that change nothing show what a set is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.errors import UsageError
from perfguard.judge.compare import changes_text, compare
from perfguard.judge.kernel_sets import joined, learned
from perfguard.judge.tolerance import Policy
from perfguard.settings import read_settings
from tests.facts import HERE, baseline, measured
from tests.judge.test_verdict import judge

SETS = {"gemm": ("cutlass_*", "ampere_sgemm_*<*>"), "norm": ("bn_?",)}


def calls(**kernels: float):
    return [measured("kernel_calls", count, name) for name, count in kernels.items()]


def of(measurements) -> dict[tuple[str, str], object]:
    return {one.key: one.value for one in measurements}


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"cutlass_a": 3}, {"cutlass_b": 3}, ""),
        ({"cutlass_a": 3}, {"cutlass_a": 1, "ampere_sgemm_1<float*>": 2}, ""),
        ({"cutlass_a": 3}, {"cutlass_b": 4}, "kernels changed: 1 called more or less often (gemm 3 → 4)"),
        ({"cutlass_a": 3}, {"volta_c": 3}, "kernels changed: 1 new (volta_c), 1 gone (gemm)"),
        ({"gemm": 3}, {"cutlass_a": 3}, ""),
        ({"bn_1": 1}, {"bn_12": 1}, "kernels changed: 1 new (bn_12), 1 gone (norm)"),
        ({"xcutlass_a": 3}, {"cutlass_a": 3}, "kernels changed: 1 new (gemm), 1 gone (xcutlass_a)"),
    ],
)
def test_any_of_a_set_is_the_same(before, now, said):
    found = compare(calls(**now), baseline(*calls(**before)), environment=HERE, policy=Policy(kernels=SETS))
    assert changes_text(found) == said


def test_ranks_are_joined_apart_and_times_are_left_out():
    sides = [
        measured("kernel_calls", 1, "rank0:cutlass_a"),
        measured("kernel_calls", 2, "rank0:cutlass_b"),
        measured("kernel_calls", 5, "rank1:cutlass_b"),
        measured("kernel_time", 2.0, "cutlass_a", samples=(2.0, 9.0)),
        measured("kernel_time", 3.0, "cutlass_b", samples=(8.0, 3.0)),
        measured("operator_calls", 1, "cutlass_a"),
    ]
    assert of(joined(sides, SETS)) == {
        ("kernel_calls", "rank0:gemm"): 3,
        ("kernel_calls", "rank1:gemm"): 5,
        ("operator_calls", "cutlass_a"): 1,
    }


@pytest.mark.parametrize(
    ("runs", "sets"),
    [
        pytest.param([{"a": 1}, {"a": 1}], [], id="nothing differs"),
        pytest.param([{"a": 3, "c": 1}, {"b": 3, "c": 1}], [("a", "b")], id="one for the other"),
        pytest.param([{"a": 3}, {"a": 1, "b": 2}], [("a", "b")], id="partly"),
        pytest.param([{"a": 3, "c": 5}, {"b": 3, "d": 5}], [("a", "b"), ("c", "d")], id="two sets"),
        pytest.param([{"a": 3}, {"b": 1, "c": 2}], [("a", "b", "c")], id="three in one"),
        pytest.param([{"a": 3}, {"b": 2}], [], id="that is a change"),
    ],
)
def test_sets_are_learned_of_unchanged_runs(runs, sets):
    assert learned([calls(**run) for run in runs], {}) == sets


def test_what_is_in_a_set_is_not_learned_again():
    assert learned([calls(cutlass_a=3), calls(volta=3)], SETS) == []


def test_a_note_says_what_a_set_made_equal():
    policy = Policy(kernels=SETS)
    found = judge([measured("kernel_calls", 3, "cutlass_a")], [measured("kernel_calls", 3, "cutlass_b")], policy=policy)
    (note,) = found.findings
    said = "ran in place of each other: gemm: cutlass_a 3 → 0, cutlass_b 0 → 3"
    assert (note.code.name, note.message) == ("R107", f"kernels that are the same by [tool.perfguard.kernels] {said}")
    assert found.outcome.value == "PASSED"


@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9)), min_size=1, max_size=4))
def test_with_what_was_learned_the_sets_are_steady(runs):
    sides = [calls(**run) for run in runs]
    sets = {str(number): names for number, names in enumerate(learned(sides, {}))}
    after = [of(joined(side, sets)) for side in sides]
    for name in sets:
        assert len({side.get(("kernel_calls", name), 0) for side in after}) == 1
    again = {name for names in learned(sides, sets) for name in names}
    assert not again & {name for names in sets.values() for name in names}


@pytest.mark.parametrize(
    "text",
    ["kernels = 1", *(f"kernels.gemm = {globs}" for globs in ('"cutlass_*"', "[]", '[""]', '["a", "*?"]'))],
)
def test_what_is_no_set_is_refused(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(f"[tool.perfguard]\n{text}\n")
    with pytest.raises(UsageError, match="kernels"):
        read_settings(tmp_path)


def test_sets_of_the_settings(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard.kernels]\ngemm = ["cutlass_*"]\n')
    assert read_settings(tmp_path).policy.kernels == {"gemm": ("cutlass_*",)}
