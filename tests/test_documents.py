"""Documents: what was written is read again, what is damaged is refused, and nothing is ever half written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
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
    write_atomically,
)
from perfguard.errors import StoreError
from perfguard.version import upgrade_command
from tests.facts import names_the_next_command, unwritable_directory

REMEDY = "Restore it from version control."
STEP = {"index": 0, "phase": "active", "cycle": 0, "start_ns": 1, "wall_ns": 2, "thread_cpu_ns": 3}
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
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


# -- writing ---------------------------------------------------------------------------------------------------------


def test_directories_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "c.json"
    write_atomically(path, "text é\n")
    assert path.read_bytes() == "text é\n".encode()
    assert os.listdir(path.parent) == ["c.json"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_has_the_mode_of_any_other(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file.json", "text")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "file.json").stat().st_mode & 0o777 == mode


def test_a_long_name_leaves_room_for_the_temporary_neighbour(tmp_path):
    path = tmp_path / ("n" * 255)
    write_atomically(path, "text")
    assert os.listdir(tmp_path) == [path.name]


_FULL_DISK = """
import resource, sys
from pathlib import Path
from perfguard.documents import write_atomically
from perfguard.errors import StoreError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_atomically(Path(sys.argv[1]), "new" * int(sys.argv[2]))
except StoreError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize("old", [None, "what was there before"])
@pytest.mark.parametrize("size", [2_000, 100_000])
def test_a_full_disk_loses_nothing(tmp_path, old, size):
    path = tmp_path / "baseline.json"
    if old is not None:
        path.write_text(old)
    command = [sys.executable, "-c", _FULL_DISK, str(path), str(size)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.startswith(f"{path} cannot be written: File too large. The previous file is kept.")
    assert names_the_next_command(found.stderr)
    assert os.listdir(tmp_path) == ([] if old is None else ["baseline.json"])
    assert old is None or path.read_text() == old


def test_a_file_where_a_directory_is_needed_is_named(tmp_path):
    in_the_way = tmp_path / "baselines"
    in_the_way.write_text("not a directory")
    with pytest.raises(StoreError, match=r"x\.json cannot be written") as raised:
        write_atomically(in_the_way / "x.json", "new")
    assert names_the_next_command(str(raised.value))
    # "x.json cannot be written: File exists" would send its reader to the wrong file.
    assert "x.json cannot be written: File exists;" not in str(raised.value)
    assert in_the_way.read_text() == "not a directory"


def test_a_directory_where_the_file_should_be_is_kept(tmp_path):
    path = tmp_path / "x.json"
    path.mkdir()
    (path / "inside").write_text("kept")
    with pytest.raises(StoreError, match=r"x\.json ") as raised:
        write_atomically(path, "new")
    assert names_the_next_command(str(raised.value))
    assert os.listdir(tmp_path) == ["x.json"]
    assert (path / "inside").read_text() == "kept"


@pytest.mark.parametrize("name", ["x.json", "new.json", "inside/new.json"])
def test_an_unwritable_directory_is_one_sentence_and_loses_nothing(name):
    with unwritable_directory() as place:
        with pytest.raises(StoreError, match=r"cannot be written: Permission denied\. ") as raised:
            write_atomically(place / name, "new")
        assert os.listdir(place) == ["x.json"]
        assert (place / "x.json").read_text() == "old"
    assert str(raised.value).startswith(str(place / name))
    assert names_the_next_command(str(raised.value))


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="/proc is the file system that nobody can write")
@pytest.mark.parametrize("path", ["/proc/x.json", "/proc/perfguard/x.json"])
def test_a_file_system_that_takes_no_file_is_one_sentence(path):
    with pytest.raises(StoreError, match=f"{path} cannot be written: .*Free disk space or correct the permissions"):
        write_atomically(Path(path), "new")


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_directory_that_cannot_be_entered_is_one_sentence(mode):
    with unwritable_directory(mode) as place:
        with pytest.raises(StoreError, match=r"new\.json cannot be written: Permission denied"):
            write_atomically(place / "new.json", "new")
        with pytest.raises(StoreError, match=r"x\.json cannot be read: Permission denied"):
            read_document(place / "x.json", "steps", remedy=REMEDY)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_what_is_open_behind_a_descriptor_is_left_alone(tmp_path, name):
    """`>> log` and a file named /dev/stdout: the log would be replaced, and what others wrote into it would be gone."""
    (tmp_path / "log").write_text("precious\n")
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = f"from pathlib import Path; from perfguard.documents import write_atomically as w; w(Path({name!r}), 'x')"
    with (tmp_path / "log").open("a") as log:
        done = subprocess.run([sys.executable, "-c", code], stdout=log, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert "is not a regular file. Write to a file" in done.stderr
    assert (tmp_path / "log").read_text() == "precious\n"


def test_a_write_protected_file_is_kept(tmp_path):
    path = tmp_path / "kept.json"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(StoreError, match=r"kept.json is write-protected, and is kept. Run: chmod u\+w "):
        write_atomically(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777, len([*tmp_path.iterdir()])) == ("old", 0o444, 1)


def test_a_link_that_points_to_itself_is_one_sentence(tmp_path):
    path = tmp_path / "x.json"
    path.symlink_to(path)
    with pytest.raises(StoreError, match=r"x\.json"):
        write_atomically(path, "new")


def test_text_that_cannot_be_encoded_loses_nothing(tmp_path):
    # The id of a test below a directory whose name is not UTF-8 holds such a character.
    path = tmp_path / "x.json"
    write_atomically(path, dumps({"workload": "old"}))
    write_atomically(path, dumps({"workload": "tests/\udcff/test_net.py"}))
    assert json.loads(path.read_text(encoding="utf-8")) == {"workload": "tests/\udcff/test_net.py"}
    assert os.listdir(tmp_path) == ["x.json"]


def test_a_reader_never_sees_half_a_file(tmp_path):
    path = tmp_path / "x.json"
    texts = ["a" * 200_000, "b" * 10]
    write_atomically(path, texts[0])
    over = threading.Event()

    def write() -> None:
        for number in range(60):
            write_atomically(path, texts[number % 2])
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not over.is_set():
        seen.add(path.read_text())
    writer.join()
    assert seen <= set(texts)
    assert os.listdir(tmp_path) == ["x.json"]


def test_a_text_in_pieces_is_one_text_or_none(tmp_path):
    path = tmp_path / "x.json"
    write_atomically(path, (f"{number}\n" for number in range(3)))
    assert path.read_text() == "0\n1\n2\n"

    def broken():
        yield "half"
        raise StoreError("the database went away. Mend that.")

    with pytest.raises(StoreError, match="went away"):
        write_atomically(path, broken())
    assert path.read_text() == "0\n1\n2\n"
    assert os.listdir(tmp_path) == ["x.json"]
