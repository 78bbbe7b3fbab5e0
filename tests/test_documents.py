"""Documents: what was written is read again, and what is damaged is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from perfguard.documents import (
    FORMAT,
    dumps,
    read_document,
    schema,
    schema_names,
    schemas_directory,
    violations,
)
from perfguard.errors import StoreError
from perfguard.version import upgrade_command

REMEDY = "Restore it from version control."
STEP = {"index": 0, "phase": "active", "cycle": 0, "start_ns": 1, "wall_ns": 2, "thread_cpu_ns": 3}
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**149), 10**149),
        st.floats(-1e149, 1e149),
        st.text(),
        st.sampled_from(["\u2028", "\x85", "\r\n", "[]", '"items"']),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


# -- schemas ---------------------------------------------------------------------------------------------------------


def test_every_schema_is_a_schema():
    assert schema_names()
    for name in schema_names():
        Draft202012Validator.check_schema(schema(name))


def test_every_schema_file_has_a_name():
    files = {path.name for path in schemas_directory().rglob("*.schema.json")}
    assert {f"{name}.schema.json" for name in schema_names()} == files


def test_an_unknown_schema_says_how_to_list_them():
    with pytest.raises(StoreError, match=r"Unknown schema 'nonesuch'\. List the schemas with: perfguard schema list"):
        schema("nonesuch")


def test_violations_name_the_place():
    document = {"format": 1, "steps": [STEP, {**STEP, "phase": "asleep"}]}
    assert [text.split(" ")[0] for text in violations(document, "steps")] == ["$.steps[1].phase"]


# -- reading ---------------------------------------------------------------------------------------------------------


def read(tmp_path: Path, content: bytes) -> dict:
    path = tmp_path / "steps.json"
    path.write_bytes(content)
    return read_document(path, "steps", remedy=REMEDY)


def test_a_whole_document_is_read(tmp_path):
    document = {"format": 1, "steps": [STEP]}
    assert read(tmp_path, json.dumps(document).encode()) == document


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"format": 1, "steps": [',
        b'{"format": 1, "steps": []} trailing',
        b"\xff\xfe{}",
        b"\x80",
        b"null",
        b"[]",
        b'"steps"',
        b"{}",
        b'{"format": 1}',
        b'{"format": 0, "steps": []}',
        b'{"format": "1", "steps": []}',
        b'{"format": true, "steps": []}',
        b'{"format": 1, "steps": [], "more": 1}',
        b'{"format": 1, "steps": [{}]}',
        b"<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> theirs\n",
        b"[" * 100_000,
        b'{"format": ' + b"9" * 5000 + b"}",
        json.dumps({"format": 1, "steps": [{**STEP, "wall_ns": -1}]}).encode(),
        json.dumps({"format": 1, "steps": [{**STEP, "wall_ns": "2"}]}).encode(),
    ],
    ids=range(21),
)
def test_a_damaged_document_is_refused_with_its_path_and_the_remedy(tmp_path, content):
    with pytest.raises(StoreError, match=r"steps\.json is damaged: .*Restore it from version control\."):
        read(tmp_path, content)


@pytest.mark.parametrize("cut", [1, 2, 10, 100, 300])
def test_a_truncated_document_is_refused(tmp_path, cut):
    text = dumps({"format": 1, "steps": [STEP] * 5}, lines_of="steps")
    with pytest.raises(StoreError, match="is damaged"):
        read(tmp_path, text[:-cut].rstrip().encode()[:-1])


@pytest.mark.parametrize("number", [FORMAT + 1, 99])
def test_a_newer_format_says_to_upgrade(tmp_path, number):
    with pytest.raises(StoreError, match=f"format {number}.*newer.*Run: {re.escape(upgrade_command())}"):
        read(tmp_path, json.dumps({"format": number, "unheard": "of"}).encode())


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(StoreError, match=r"is missing\. Restore it"):
        read_document(tmp_path / "steps.json", "steps", remedy=REMEDY)


def test_a_directory_is_no_document(tmp_path):
    with pytest.raises(StoreError, match=r"cannot be read: it is not a regular file\. Restore it"):
        read_document(tmp_path, "steps", remedy=REMEDY)


# -- JSON text -------------------------------------------------------------------------------------------------------


@given(document=st.dictionaries(st.text(max_size=5), JSON, max_size=4), items=st.lists(JSON, max_size=4))
def test_text_is_the_document(document, items):
    document = {**document, "items": items}
    for lines_of in (None, "items"):
        text = dumps(document, lines_of=lines_of)
        assert json.loads(text) == document
        assert text == dumps(json.loads(text), lines_of=lines_of)


def test_items_are_kept_one_a_line_and_keys_sorted():
    text = dumps({"b": 1, "items": [{"z": 1, "a": [1, 2]}, {"é": {}}], "a": None}, lines_of="items")
    expected = '{\n  "a": null,\n  "b": 1,\n  "items": [\n    {"a": [1, 2], "z": 1},\n    {"é": {}}\n  ]\n}\n'
    assert text == expected


def test_a_string_is_never_taken_for_the_list():
    document = {"items": [1, 2], "reason": "\0items\0"}
    assert json.loads(dumps(document, lines_of="items")) == document


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_json_is_never_written(value):
    with pytest.raises(StoreError, match="JSON"):
        dumps({"value": value})
    with pytest.raises(StoreError, match="JSON"):
        dumps({"items": [value]}, lines_of="items")
