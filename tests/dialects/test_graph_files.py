"""Graphs as text: `.ir` and `.dot` files, whole and cut off."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perfguard.artifacts.readers.graph import read_dot, read_ir
from perfguard.artifacts.table import Unreadable
from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.recording import read_recording
from tests.conftest import recorded

IR = """# IR entry: @net_12
# Total subgraphs: 2

jit config {
  level: O0
}

# Total params: 1
%para1_x : <Tensor[Float32], (2, 2)>

subgraph attr:
subgraph instance: net_12 : 0x55e7336456b0
# In file net.py:3/    def construct(self, x): return {/
subgraph @net_12() {
  %0(y) = MatMul(%para1_x, %para1_x) primitive_attrs: {transpose_a: Bool(0)}
      : (<Tensor[Float32], (2, 2)>) -> (<Tensor[Float32], (2, 2)>)
  Return(%0)
}

subgraph attr:
subgraph instance: other : 0x55e7336456c0
subgraph @other(%para2) {
  Return(%para2)
}


"""
BEGUN = "hwopt_d_before_optimization_without_backend_graph"
ACTORS = "[Device tensor stores]\n\tgraph_id:0\n\n[Swap actors:0]\n"
DOT = """digraph mindspore {
compound=true
subgraph cluster_0x1{
label="net{"
node0x2_0[label=<<table port='core'><tr><td>MatMul</td></tr></table>>,]
node0x2_1[label="Return"]
}
node0x2_0:core->node0x2_1:0[arrowhead=vee,]
}
"""


@pytest.fixture
def graphs(tmp_path: Path) -> Path:
    """Write the files of one compilation."""
    for name, text in {
        "00_bootstrap_0000.ir": IR,
        "00_bootstrap_0001.dot": DOT,
        "21_validate_0002.ir": IR,
        "verbose_ir_files/hwopt_pm_0_print_value_type_0003.ir": IR,
        "hwopt_common_final_graph_0_0004.ir": IR,
        "graph_build_0_0005.ir": IR,
        "trace_code_graph_0006": IR,
        "actor_set/0_actor_set.ir": ACTORS,
        "ms_output_optimize.pb": "\x08",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def errors(place: Path) -> list[tuple[str, str]]:
    found = inspect(read_recording(place)).findings
    return [(f.code.name, f.place) for f in found if f.severity is Severity.ERROR]


def test_whole_files_are_clean(graphs):
    contract = inspect(read_recording(graphs))
    assert contract.layouts == ("ir",)
    assert contract.findings == ()
    assert len(contract.cycles[0].files) == 8


def test_real_output_is_whole_but_for_what_was_left_out(tmp_path):
    inside, *corpus = recorded("mindspore-2.0-ir-level1")
    whole = inspect(read_recording(inside))
    assert whole.layouts == ("ir",)
    assert whole.findings == ()
    lesser = Path(shutil.copytree(inside, tmp_path / "lesser"))
    for number in (8, 20, 21):
        (path,) = lesser.rglob(f"*_{number:04}.ir")
        path.unlink()
    left_out = {lesser: "3 of the numbered files are missing (numbers 8, 20 to 21)"}
    left_out |= dict.fromkeys(corpus, "26 of the numbered files are missing (numbers 19 to 35, 42 to 49, 51)")
    for place, words in left_out.items():
        contract = inspect(read_recording(place))
        (finding,) = contract.findings
        assert (finding.code.name, finding.severity) == ("A102", Severity.WARNING)
        assert words in finding.message
        assert len(contract.cycles[0].files) > 30


def test_what_is_known_of_a_graph(graphs):
    known = {"entry": "net_12", "subgraphs": 2, "operators": {"MatMul": 1, "Return": 2}}
    assert read_ir(graphs / "00_bootstrap_0000.ir", {}).document == known
    actors = {"entry": None, "subgraphs": 0, "operators": {}}
    assert read_ir(graphs / "actor_set" / "0_actor_set.ir", {}).document == actors
    assert read_dot(graphs / "00_bootstrap_0001.dot", {}).document == {"name": "mindspore"}


@pytest.mark.parametrize(
    "header",
    [
        "# IR entry: @net_12\n# Total subgraph: 2\n",  # MindSpore 2.10
        "#IR entry      : @net_12\n#Total subgraph: 2\n",  # MindSpore 2.0
    ],
)
def test_a_dump_in_another_order_is_whole(graphs, header):
    # MS_DEV_SAVE_GRAPHS_SORT_MODE=1
    other = IR.replace("# IR entry: @net_12\n# Total subgraphs: 2\n", header)
    (graphs / "00_bootstrap_0000.ir").write_text(other)
    assert read_ir(graphs / "00_bootstrap_0000.ir", {}).document["operators"] == {"MatMul": 1, "Return": 2}
    assert errors(graphs) == []
    (graphs / "00_bootstrap_0000.ir").write_text(other.replace("subgraph: 2", "subgraph: 3"))
    assert errors(graphs) == [("S101", "00_bootstrap_0000.ir")]


@pytest.mark.parametrize(
    "line, operator",
    [
        ("%0(y) = MatMul(%para1_x)", "MatMul"),
        ("%0(y) = PrimFunc_MatMul(%para1_x, Bool(0))", "MatMul"),
        ("%0(x) = S-Prim-MatMul(%para1_x)", "MatMul"),
        ("%0([CNode]343) = Load(%para3_fc.weight, U)", "Load"),
        ("%0(CNode_4) = call @39_3_\u21b5__main___W_construct_171(%para1_x)", None),
        ("%0(CNode_5) = %0[@FuncUnion(@40_4, @41_16)]()", None),
        ("%0(CNode_17) = %0(%para1_x)", None),
        ("%0(type_str) = class 'str'(%0)", None),
    ],
)
def test_a_node_is_the_operator_it_calls(tmp_path, line, operator):
    (tmp_path / "one.ir").write_text(IR.replace(IR.splitlines()[14], f"  {line}"))
    census = {"Return": 2} | ({operator: 1} if operator else {})
    assert read_ir(tmp_path / "one.ir", {}).document["operators"] == census


@pytest.mark.parametrize(
    "gone, found",
    [
        ("graph_build_0_0005.ir", ("A102", "graph_build_0_*.ir")),
        ("21_validate_0002.ir", None),  # a gap: nobody knows whether the pass was saved
    ],
)
def test_a_final_graph_that_is_missing_is_found(graphs, gone, found):
    (graphs / gone).unlink()
    assert errors(graphs) == ([found] if found else [])


@pytest.mark.parametrize(
    "added, found",
    [
        # The backend does not have an operator: the graph is begun, and never built.
        (["hwopt_d_before_optimization_without_backend_graph_1_0007.ir"], ("A102", "graph_build_1_*.ir")),
        # PyNative's graphs of single operators are never built.
        (["hwopt_d_before_optimization_without_backend_graph_4000000000_0007.ir"], None),
        # Those of MindSpore 2.0 have the numbers that follow: no compilation is under way.
        (["23_execute_0007.ir", "hwopt_d_before_optimization_without_backend_graph_1_0008.ir"], None),
        (
            ["23_execute_0007.ir", "00_bootstrap_0008.ir", "21_validate_0009.ir", f"{BEGUN}_1_0010.ir"],
            ("A102", "graph_build_1_*.ir"),
        ),
        # A second compilation died in the front end.
        (["00_bootstrap_0007.ir", "01_type_inference_0008.ir"], ("C110", "01_type_inference_0008.ir")),
        (["00_parse_0007.ir"], ("C110", "00_parse_0007.ir")),
        # An export ends in the front end.
        (["00_bootstrap_0007.ir", "21_validate_0008.ir", "22_backend_pass_0009.ir"], None),
        (["analyze_fail.ir"], ("C110", "analyze_fail.ir")),
        # A second process began to count again.
        (["22_backend_pass_0005.ir"], ("I113", "graph_build_0_0005.ir")),
        (["99_not_counted.ir"], None),
    ],
)
def test_what_became_of_a_compilation_is_told_by_the_names(graphs, added, found):
    for name in added:
        (graphs / name).write_text(ACTORS if name == "analyze_fail.ir" else IR)
    assert errors(graphs) == ([found] if found else [])


def test_places_are_relative_to_what_is_judged(graphs):
    (graphs / "graph_build_0_0005.ir").unlink()
    inside = graphs.parent / "run" / "graphs"
    inside.parent.mkdir()
    graphs.rename(inside)
    assert errors(inside.parent) == [("A102", "graphs/graph_build_0_*.ir")]


@pytest.mark.parametrize("cut", range(IR.index("jit"), len(IR.rstrip()), 7))
@pytest.mark.variants(13)
def test_an_ir_file_that_was_cut_off_is_found(graphs, cut):
    (graphs / "00_bootstrap_0000.ir").write_text(IR[:cut])
    assert errors(graphs)[0][0] == "S101"


@pytest.mark.parametrize("name", ["00_bootstrap_0000.ir", "trace_code_graph_0002"])
def test_a_dump_without_its_begin_is_found(tmp_path, name):
    """An actor set has no such begin, and its name may end with the number of a graph of PyNative."""
    for half, whole in ((name, False), ("1_actor_set_kernel_graph_4000000000.ir", True), ("analyze_fail.ir", True)):
        (tmp_path / half).write_text(IR[IR.index("subgraph attr") :])
        if whole:
            assert read_ir(tmp_path / half, {}).document["entry"] is None
        else:
            with pytest.raises(Unreadable, match="its begin is missing"):
                read_ir(tmp_path / half, {})


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "empty"),
        ("\n \n", "empty"),
        (IR.replace("@net_12", "", 1), "names no graph"),
        (IR.replace("subgraphs: 2", "subgraphs: 3"), "states 3"),
        (IR.replace("# Total subgraphs: 2\n", ""), "the number of its subgraphs is missing"),
        (IR.replace("subgraph @other(%para2) {\n", ""), "opens 2 blocks and closes 3"),
        (IR.replace("%para1_x : <Tensor[Float32], (2, 2)>\n", ""), "states 1 parameters and has 0"),
        (IR.replace("# Total params: 1\n", "# Total params: 1\n" * 2), "states 1 and 1 parameters"),
        (IR.replace("subgraph attr:\n", "", 1), "attributes of 1 and instances of 2"),
        (IR.replace("subgraph instance: other", "subgraph other"), "attributes of 2 and instances of 1"),
        (IR + "\0\n", "null byte"),
        (IR + "x", "cut off"),
        (IR.replace("  %0(y) =", "  %1(y) ="), "node %1 follows where %0 belongs"),
        (
            IR.replace("\nsubgraph attr", "\nTotal number of cnodes: 4\n\nsubgraph attr"),
            "states 4 nodes and has 3",
        ),
    ],
)
def test_what_is_no_ir_is_refused(tmp_path, text, words):
    (tmp_path / "one.ir").write_text(text)
    with pytest.raises(Unreadable, match=words):
        read_ir(tmp_path / "one.ir", {})


def test_broken_utf_8_is_found_with_its_line(graphs):
    (graphs / "00_bootstrap_0000.ir").write_bytes(b"# IR entry: @net\n\xff\n")
    assert errors(graphs) == [("S101", "00_bootstrap_0000.ir:2")]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "empty"),
        ("graph g {\n}\n", "digraph"),
        (DOT[:-2], "opens 2"),
        (DOT[:-40], "cut off"),
        (DOT + "node\n", "closes 2"),
        (DOT.replace("node0x2_1[", "node0x3_1["), "leads to or from node0x2_1, and no such node is drawn"),
        (DOT.replace("node0x2_0:core->", "node0x9_0:core->"), "leads to or from node0x9_0"),
    ],
)
def test_what_is_no_drawing_is_refused(tmp_path, text, words):
    (tmp_path / "one.dot").write_text(text)
    with pytest.raises(Unreadable, match=words):
        read_dot(tmp_path / "one.dot", {})
