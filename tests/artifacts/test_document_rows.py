"""Rows of JSON documents: what a schema calls rows, with their keys, values, paths and parents."""

from __future__ import annotations

import pytest

from perfguard.artifacts import document_rows
from perfguard.artifacts.columns import shapes_of, slot_names, slot_of_parts
from perfguard.artifacts.document_rows import row_kinds, table_meanings
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.table import Cells, json_value

TIMES = {
    "Start Timestamp(us)": 1736408883732241.5,
    "Elapse Time(ms)": 2.5,
    "Transit Time(ms)": 1e-05,
    "Wait Time(ms)": 0,
    "Synchronization Time(ms)": 0.25,
    "Idle Time(ms)": -1e-06,
    "Wait Time Ratio": 0.0,
    "Synchronization Time Ratio": 0.5,
}
LINK = {
    "Transit Size(MB)": 4.194304,
    "Transit Time(ms)": 0.5,
    "Size Distribution": {"2.097152": [2, 0.5], "1e-3": [0, 0]},
}
OPERATION = {
    "Communication Time Info": TIMES,
    "Communication Bandwidth Info": {"HCCS": LINK, "SDMA": {**LINK, "Size Distribution": {}}},
}
DOCUMENT = {
    "step5": {"p2p": {}, "collective": {"all'reduce@1": OPERATION, "Total Op Info": OPERATION}},
    "step6": {"p2p": {"send@1": OPERATION}, "collective": {}},
}


def rows(document: object, version: str = "communication") -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    for name, table in document_rows.document_rows(document, version):
        several = found.setdefault(name, [])
        assert table.cells is Cells.JSON
        assert table.lines == range(len(several), len(several) + table.height)
        cells = table.frame.to_dicts()
        several += [{key: json_value(cell) for key, cell in row.items() if cell is not None} for row in cells]
    return found


def test_every_object_that_a_schema_calls_a_row_is_one():
    found = rows(DOCUMENT)
    assert {name: len(one) for name, one in found.items()} == {"steps": 2, "operations": 3, "links": 6, "packets": 6}
    keys = [(one["step"], one["kind"], one["name"]) for one in found["operations"]]
    assert keys == [
        ("step5", "collective", "all'reduce@1"),
        ("step5", "collective", "Total Op Info"),
        ("step6", "p2p", "send@1"),
    ]


def test_a_row_has_the_values_of_the_objects_in_it_that_are_no_rows():
    operation = rows(DOCUMENT)["operations"][0]
    assert {key: operation[key] for key in TIMES} == TIMES
    assert "Transit Size(MB)" not in operation


def test_a_row_says_where_it_is_and_in_which_row_it_lies():
    found = rows(DOCUMENT)
    assert found["operations"][0]["path"] == '$.step5.collective["all\'reduce@1"]'
    assert "parent" not in found["steps"][0]
    assert [one["parent"] for one in found["operations"]] == [0, 0, 1]
    assert [one["parent"] for one in found["links"]] == [0, 0, 1, 1, 2, 2]
    assert [one["parent"] for one in found["packets"]] == [0, 0, 2, 2, 4, 4]
    assert found["packets"][1]["size_mb"] == "1e-3"
    assert found["packets"][0]["packets"] == 2


def test_many_rows_are_as_few_are(monkeypatch):
    whole = rows(DOCUMENT)
    monkeypatch.setattr(document_rows, "_BLOCK_ROWS", 2)
    assert rows(DOCUMENT) == whole


def test_a_document_without_rows():
    assert rows({}) == {}


def test_an_object_without_values_is_a_row_as_well():
    document = {"step5": {"p2p": {}, "collective": {}}}
    assert rows(document) == {"steps": [{"path": "$.step5", "step": "step5"}]}


def test_a_value_has_the_name_that_its_schema_gives_it():
    (shape,) = (one for one in shapes_of("communication_matrix") if one.inner == "links")
    link = {
        "Transport Type": "HCCS",
        "Transit Size(MB)": 1,
        "Transit Time(ms)": 1,
        "Bandwidth(GB/s)": 1,
        "op_name": "send",
    }
    document = {"step": {"p2p": {"send@1": {"0-1": link}}, "collective": {}}}
    table = dict(document_rows.document_rows(document, "communication_matrix"))["links"]
    columns = shape.typed(table.frame, table.cells, "communication_matrix")
    names = ("op_name", "op_name_of_mindspore", "transit_size_bytes", "pair")
    assert [columns[name].to_list() for name in names] == [[None], ["send"], [1_000_000], ["0-1"]]


@pytest.mark.parametrize(
    ("key", "text"),
    [("a", ".a"), (3, "[3]"), ("b c", "['b c']"), ("1", "['1']"), ("it's", '["it\'s"]'), ("_x1", "._x1")],
)
def test_the_words_for_a_step_of_a_path(key, text):
    assert document_rows._step(key) == text


@pytest.mark.parametrize(
    ("table", "slot"),
    [
        ("communication_operations", "communication"),
        ("communication_matrix_links", "communication_matrix"),
        ("cluster_communication_operations", "cluster_communication"),
        ("step_trace_time_rows", ""),
        ("communication", ""),
        ("communication_totals", ""),
    ],
)
def test_a_table_begins_with_the_slot_of_its_documents(table, slot):
    assert slot_of_parts(table) == slot


VERSIONS = sorted(
    {version for layout in layouts() for slot in layout.slots if slot.format == "json" for version in slot.schemas}
)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_table_that_a_schema_names_has_rows_and_a_meaning(version):
    assert table_meanings(version).keys() == row_kinds(version).keys()
    assert all(table_meanings(version).values())


@pytest.mark.parametrize("version", VERSIONS)
def test_no_key_of_a_row_is_called_like_a_value(version):
    for part in _parts_with_rows(version):
        keys = [key for key in part.keys if key is not None]
        assert len({*keys, *part.values, "path", "parent"}) == len(keys) + len(part.values) + 2


def _parts_with_rows(version: str) -> list[document_rows.RowKind]:
    return [kind for kind, _ in document_rows._parts(version).kinds()]


def test_no_table_of_a_document_is_called_like_a_slot():
    names = {f"{slot.name}_{inner}" for layout in layouts() for slot in layout.slots if slot.format == "json"
             for version in slot.schemas for inner in row_kinds(version)}  # fmt: skip
    assert names
    assert not names & slot_names()
