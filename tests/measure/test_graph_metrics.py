"""Metrics of saved graphs: names of passes, what was compiled, and the census of the final graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.contract import inspect
from perfguard.dialects.passes import Pass, pass_of, saved_passes
from perfguard.judge.baseline import Baseline
from perfguard.judge.compare import compare
from perfguard.judge.tolerance import Policy
from perfguard.measure import METRICS, measure
from perfguard.measure.census import Census, Counted, differences
from perfguard.measure.graphs import graph_name
from perfguard.recording import read_recording
from tests.conftest import recorded


@pytest.mark.parametrize(
    "file, name, number, rest",
    [
        # MindSpore 2.10
        ("00_bootstrap_0000.ir", "bootstrap", 0, {"position": 0}),
        ("21_validate_0076.ir", "validate", 76, {"position": 21}),
        ("07_parallel-infer-symbol_0008.ir", "parallel-infer-symbol", 8, {"position": 7}),
        ("opt_pass_26_merge_cast_opt_0040.ir", "opt_pass_merge_cast_opt", 40, {}),
        ("opt_pass_44_split_matmul_comm_elemetwise_10058.ir", "opt_pass_split_matmul_comm_elemetwise", 10058, {}),
        ("graph_build_12_0094.ir", "graph_build", 94, {"graph": 12}),
        ("graph_before_reset_id_0_0093.ir", "graph_before_reset_id", 93, {"graph": 0}),
        ("hwopt_common_final_graph_0_0091.ir", "hwopt_common_final", 91, {"graph": 0}),
        ("hwopt_comm_after_kernel_select_kernel_graph3_0090.ir", "hwopt_comm_after_kernel_select", 90, {"graph": 3}),
        (
            "hwopt_before_mindrt_unify_mindir_graph_25_1___main___Net_construct_117_0078.ir",
            "hwopt_before_mindrt_unify_mindir",
            78,
            {},
        ),
        (
            "hwopt_d_after_optimization_without_backend_graph_4000000000_0009.ir",
            "hwopt_d_after_optimization_without_backend",
            9,
            {"graph": 4000000000},
        ),
        ("trace_code_graph_0095", "trace_code_graph", 95, {}),
        ("jit_bprop_graph_lift_60_24_bprop_builder_303_0078.ir", "jit_bprop_graph_lift", 78, {}),
        (
            "verbose_ir_files/hwopt_pm_12_softmax_grad_fusion_cpu_0105.ir",
            "hwopt_pm_softmax_grad_fusion_cpu",
            105,
            {"is_detail": True},
        ),
        ("opt_substep_jit_opt_a_r1_j0_18_cse_0054.ir", "opt_substep_jit_opt_a_cse", 54, {"is_detail": True}),
        ("opt_substep_opt_a_r2_j0_2_a_1_0104.ir", "opt_substep_opt_a_a_1", 104, {"is_detail": True}),
        ("opt_a.r1.a_2.merge_addn_0123.ir", "opt_a.a_2.merge_addn", 123, {"is_detail": True}),
        # MindSpore 2.0
        ("00_parse_0000.ir", "parse", 0, {"position": 0}),
        ("14_distribtued_split_0041.ir", "distribtued_split", 41, {"position": 14}),
        ("hwopt_comm_after_kernel_select_kernel_graph_0_0050.ir", "hwopt_comm_after_kernel_select", 50, {"graph": 0}),
        ("opt_a_r1_a_2_switch_simplify_0130.ir", "opt_a_a_2_switch_simplify", 130, {"is_detail": True}),
        ("opt_substep_opt_b_r1_0_b_1_0200.ir", "opt_substep_opt_b_b_1", 200, {"is_detail": True}),
        ("after_lift_3_construct.WithLossCell.973_0133.ir", "after_lift", 133, {}),
        ("13_validate_0040.dot", "validate", 40, {"position": 13}),
    ],
)
def test_a_name_tells_its_pass(file, name, number, rest):
    assert pass_of(file) == Pass(name=name, file=file, number=number, **rest)


@pytest.mark.parametrize(
    "file",
    [
        "analyze_fail.ir",
        "actor_set/0_actor_set_pipeline_kernel_graph_0.ir",
        "elsewhere/00_bootstrap_0000.ir",
        "ms_output_optimize.pb",
        "00_bootstrap_000.ir",
        "_0000.ir",
        "",
    ],
)
def test_what_is_no_pass_has_none(file):
    assert pass_of(file) is None


@given(st.text(max_size=60))
def test_any_name_is_a_pass_or_none(name):
    found = pass_of(name)
    assert found is None or (found.file == name and found.number >= 0 and found.name)


@pytest.mark.parametrize(
    "entry, name",
    [
        ("25_1___main___Net_construct_117", "__main___Net_construct"),
        ("138_80_1_mindspore_nn_wrap_cell_wrapper_X_construct_430", "mindspore_nn_wrap_cell_wrapper_X_construct"),
        ("23_1_conv_2_127", "conv_2"),
        ("25_1_construct.Default.352", "construct.Default"),
        ("net", "net"),
        ("12", "12"),
    ],
)
def test_the_name_of_what_was_compiled_has_no_numbers(entry, name):
    assert graph_name(entry) == name


def ir(entry: str, *operators: str) -> str:
    nodes = "".join(f"  %{number}(x) = {name}(%para1_x)\n" for number, name in enumerate(operators))
    return f"# IR entry: @{entry}\n# Total subgraphs: 1\n\nsubgraph @{entry}() {{\n{nodes}  Return(%0)\n}}\n"


def saved(place: Path, *files: tuple[str, str]) -> dict[str, object]:
    place.mkdir(exist_ok=True)
    for number, (name, text) in enumerate(files):
        (place / f"{name}_{number:04d}.ir").write_text(text)
    contract = inspect(read_recording(place))
    assert contract.findings == ()
    return {one.label: one.value for one in measure(contract)}


NET = "9_1_Net_construct_17"


def test_the_final_graphs_are_those_that_were_built(tmp_path):
    values = saved(
        tmp_path,
        ("00_bootstrap", ir("Net_construct_4", "MatMul")),
        ("21_validate", ir(NET, "PrimFunc_MatMul", "PrimFunc_BiasAdd", "PrimFunc_Cast")),
        ("hwopt_common_final_graph_0", ir("kernel_graph0", "MatMulBiasAddFusion", "Cast")),
        ("graph_build_0", ir("kernel_graph0", "MatMulBiasAddFusion", "Cast")),
        ("graph_build_1", ir("kernel_graph1", "Cast", "PrimFunc_Cast")),
        ("24_execute", ir(NET, "PrimFunc_MatMul", "PrimFunc_BiasAdd", "PrimFunc_Cast")),
    )
    assert values == {
        "graph_compilations[Net_construct]": 1,
        "graph_operators[Cast]": 3,
        "graph_operators[MatMulBiasAddFusion]": 1,
        "graph_operators[Return]": 2,
        "graph_passes": ["bootstrap", "execute", "graph_build", "hwopt_common_final", "validate"],
        "graphs_built": 2,
    }


def test_where_nothing_was_built_the_final_graphs_are_those_that_were_validated(tmp_path):
    values = saved(
        tmp_path,
        ("00_bootstrap", ir("Net_construct_4", "MatMul")),
        ("21_validate", ir(NET, "PrimFunc_MatMul")),
        ("00_bootstrap", ir("Net_construct_4", "MatMul")),
        ("21_validate", ir(NET, "PrimFunc_MatMul", "PrimFunc_Cast")),
    )
    assert values == {
        "graph_compilations[Net_construct]": 2,
        "graph_operators[Cast]": 1,
        "graph_operators[MatMul]": 2,
        "graph_operators[Return]": 2,
        "graph_passes": ["bootstrap", "validate"],
    }


def test_every_metric_of_graphs_is_exact_and_gated():
    found = {name: metric for name, metric in METRICS.items() if name.startswith("graph")}
    assert set(found) == {
        *("graph_passes", "graph_pass_details", "graph_compilations", "graphs_built", "graph_operators")
    }
    assert {(metric.kind.value, metric.gated, metric.relative, metric.absolute) for metric in found.values()} == {
        ("exact", True, 0.0, 0.0)
    }


def compared(before: Path, after: Path) -> list[tuple[str, str]]:
    base, now = (inspect(read_recording(place)) for place in (before, after))
    baseline = Baseline(workload="w", fingerprint=None, environment=None, measurements=measure(base))
    found = compare(measure(now), baseline, environment=None, policy=Policy(changed_fails=True))
    return [(one.finding.code.name, one.finding.message) for one in found if one.finding]


def test_three_more_casts_one_more_pass_and_one_more_compilation_are_told_by_name(tmp_path):
    start = [("00_bootstrap", ir("Net_construct_4", "MatMul")), ("21_validate", ir(NET, "MatMul"))]
    saved(tmp_path / "a", *start, ("graph_build_0", ir("kernel_graph0", "MatMul", "Cast")))
    saved(
        tmp_path / "b",
        *start,
        ("opt_pass_0_merge_cast_opt", ir(NET, "MatMul")),
        ("graph_build_0", ir("kernel_graph0", "MatMul", *["Cast"] * 4)),
    )
    saved(tmp_path / "c", *start, *start, ("graph_build_0", ir("kernel_graph0", "MatMul", "Cast", "ReLU")))
    exact = "(exact: any increase fails)"
    assert compared(tmp_path / "a", tmp_path / "b") == [
        (
            "R102",
            "graph_operators[Cast] 1 → 4 operators, +3 (added work: +100.0 % operators in the step, all together)",
        ),
        ("R102", 'graph_passes changed: + opt_pass_merge_cast_opt (fails because of changed = "fail")'),
    ]
    assert compared(tmp_path / "a", tmp_path / "c") == [
        ("R102", f"graph_compilations[Net_construct] 1 → 2 compilations, +1 {exact}"),
        (
            "R104",
            "graph_operators[ReLU] is 1 operators, and the baseline has none "
            "(added work: +33.3 % operators in the step, all together)",
        ),
    ]
    assert compared(tmp_path / "a", tmp_path / "a") == []


def test_passes_are_read_in_the_order_they_were_saved_in(tmp_path):
    (tmp_path / "verbose_ir_files").mkdir()
    for name in (
        "24_execute_0004.ir",
        "00_bootstrap_0000.ir",
        "verbose_ir_files/hwopt_pm_0_x_0002.ir",
        "13_validate_0001.dot",
    ):
        (tmp_path / name).touch()
    (tmp_path / "00_parse_0003.ir").mkdir()
    assert [one.number for one in saved_passes(tmp_path)] == [0, 1, 2, 4]
    assert saved_passes(tmp_path / "missing") == []


def test_real_output_of_2_0_has_the_operators_its_backend_fused():
    for place in recorded("mindspore-2.0-ir-level1"):
        values = {one.label: one.value for one in measure(inspect(read_recording(place)))}
        assert values["graph_compilations[construct.Default]"] == 1
        assert values["graphs_built"] == 1
        assert values["graph_operators[MatMulBiasAddFusion]"] == 1
        assert values["graph_operators[MatMul]"] == 1


# -- two censuses ----------------------------------------------------------------------------------------------------


def ran(counts: dict[str, int], steps: int | None = None, rank: int = 0) -> Census:
    return Census(counted=Counted.RUN, rank=rank, counts=counts, steps=steps)


@pytest.mark.parametrize(
    "base, now, found",
    [
        ([ran({"a": 6}, 3)], [ran({"a": 4}, 2)], [("a", 2, 2)]),
        ([ran({"a": 6}, 3)], [ran({"a": 5}, 2)], [("a", 2, 2.5)]),
        # Of one of the two nobody knows the steps: then it is the windows that are compared.
        ([ran({"a": 6})], [ran({"a": 4}, 2)], [("a", 6, 4)]),
        ([ran({"a": 3}, 3)], [ran({"b": 3}, 3)], [("a", 1, 0), ("b", 0, 1)]),
        ([ran({"a": 3}, 3)], [ran({"a": 3}, 3), ran({"a": 3}, 3, rank=1)], [("a", 1, 1), ("a", 0, 1)]),
        ([ran({"a": 1})], [Census(counted=Counted.GRAPH, rank=0, counts={"a": 1})], []),
        ([], [ran({"a": 1})], []),
    ],
)
def test_two_censuses_differ_by_operator(base, now, found):
    assert [(one.operator, one.base, one.now) for one in differences(base, now)] == found


@given(st.dictionaries(st.text(), st.integers(1, 99)), st.dictionaries(st.text(), st.integers(1, 99)))
def test_differences_add_up_to_the_difference_of_the_sums(before, after):
    found = differences([ran(before)], [ran(after)])
    assert sum(one.difference for one in found) == sum(after.values()) - sum(before.values())
    assert {one.operator for one in found} == before.keys() | after.keys()
