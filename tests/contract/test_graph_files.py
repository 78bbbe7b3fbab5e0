"""Graphs as text: `.ir` and `.dot` files, whole and cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfguard.contract import inspect
from perfguard.contract.readers.graph import read_dot, read_ir
from perfguard.contract.table import Unreadable
from perfguard.findings import Severity
from perfguard.recording import read_recording

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

subgraph @other(%para2) {
  Return(%para2)
}


"""
ACTORS = "[Device tensor stores]\n\tgraph_id:0\n\n[Swap actors:0]\n"
DOT = """digraph mindspore {
compound=true
subgraph cluster_0x1{
label="net{"
node0x2_0[label=<<table port='core'><tr><td>MatMul</td></tr></table>>,]
}
node0x2_0:core->node0x2_1:0[arrowhead=vee,]
}
"""


@pytest.fixture
def graphs(tmp_path: Path) -> Path:
    """Write the files of one compilation."""
    for name, text in {
        "00_bootstrap_0000.ir": IR,
        "hwopt_d_after_graph_0_0582.ir": IR,
        "trace_code_graph_0605": IR,
        "actor_set/0_actor_set.ir": ACTORS,
        "verbose_ir_files/hwopt_pm_0561.ir": IR,
        "00_bootstrap_0001.dot": DOT,
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
    assert len(contract.cycles[0].files) == 6


def test_real_output_is_clean(corpus):
    contract = inspect(read_recording(corpus / "mindspore-2.0-ir-level1"))
    assert contract.layouts == ("ir",)
    assert contract.findings == ()
    assert len(contract.cycles[0].files) > 30


def test_what_is_known_of_a_graph(graphs):
    assert read_ir(graphs / "00_bootstrap_0000.ir", {}).document == {"entry": "net_12", "subgraphs": 2}
    assert read_ir(graphs / "actor_set" / "0_actor_set.ir", {}).document == {"entry": None, "subgraphs": 0}
    assert read_dot(graphs / "00_bootstrap_0001.dot", {}).document == {"name": "mindspore"}


@pytest.mark.parametrize("cut", range(IR.index("jit"), len(IR.rstrip()), 7))
def test_an_ir_file_that_was_cut_off_is_found(graphs, cut):
    (graphs / "00_bootstrap_0000.ir").write_text(IR[:cut])
    assert errors(graphs)[0][0] == "S101"


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "empty"),
        ("\n \n", "empty"),
        (IR.replace("@net_12", "", 1), "names no graph"),
        (IR.replace("subgraphs: 2", "subgraphs: 3"), "announces 3"),
        (IR.replace("# Total subgraphs: 2\n", ""), "does not say"),
        (IR.replace("subgraph @other(%para2) {\n", ""), "opens 2 blocks and closes 3"),
        (IR + "\0\n", "value 0"),
        (IR + "x", "cut off"),
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
    ],
)
def test_what_is_no_drawing_is_refused(tmp_path, text, words):
    (tmp_path / "one.dot").write_text(text)
    with pytest.raises(Unreadable, match=words):
        read_dot(tmp_path / "one.dot", {})
