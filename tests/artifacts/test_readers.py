"""Readers: what good files are read as, and how every malformed one is named."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import tempfile
from contextlib import nullcontext
from decimal import MAX_EMAX, ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfguard.artifacts.readers import READERS, Content, decode_text, read_bytes
from perfguard.artifacts.readers.csv_stream import FORMATS
from perfguard.artifacts.schema import row_schema
from perfguard.artifacts.table import Cells, Unreadable, nanoseconds
from tests.artifacts.reading import read_file

EVENT = {"ph": {}, "name": {}, "ts": {}, "dur": {}, "args": {}}
TRACE_SCHEMA = {"type": "array", "items": {"properties": EVENT}}


def read(form: str, raw: bytes | str, *, name: str = "file", schema: dict | None = None) -> Content:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(raw.encode() if isinstance(raw, str) else raw)
        return read_file(form, path, schema or {})


def read_trace(raw: bytes | str, *, name: str = "trace.json") -> Content:
    return read("chrome-trace", raw, name=name, schema=TRACE_SCHEMA)


def columns(content: Content) -> dict[str, list[str | None]]:
    return content.frame.to_dict(as_series=False)


def places(content: Content) -> list[str]:
    assert content.table is not None
    return [content.table.place(row) for row in range(content.frame.height)]


# -- comma -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "table", "lines"),
    [
        ("a,b\n1,2\n", {"a": ["1"], "b": ["2"]}, [":2"]),
        ("a,b\r\n1,2\r\n", {"a": ["1"], "b": ["2"]}, [":2"]),
        ("\ufeffa,b\n1,2\n", {"a": ["1"], "b": ["2"]}, [":2"]),
        ("a,b\n", {"a": [], "b": []}, []),
        ("a,b\n,\n", {"a": [""], "b": [""]}, [":2"]),
        ("a,b\n1,\n", {"a": ["1"], "b": [""]}, [":2"]),
        ("a\n1\n", {"a": ["1"]}, [":2"]),
        ("a(ms),Größe\n007, 1\t\n", {"a(ms)": ["007"], "Größe": [" 1\t"]}, [":2"]),
        ("a,b\nnan,NULL\n", {"a": ["nan"], "b": ["NULL"]}, [":2"]),
        ("a,b\n#1,//2\n", {"a": ["#1"], "b": ["//2"]}, [":2"]),
        ('a,b\n"1,2",3\n4,5\n', {"a": ["1,2", "4"], "b": ["3", "5"]}, [":2", ":3"]),
        ('a,b\n"1\n2",3\n4,5\n', {"a": ["1\n2", "4"], "b": ["3", "5"]}, [":2", ":4"]),
        ('a,b\n"say ""x""",\n', {"a": ['say "x"'], "b": [""]}, [":2"]),
        ('"a","b"\n1,2\n', {"a": ["1"], "b": ["2"]}, [":2"]),
        ('"a ""b""",c\n1,2\n', {'a "b"': ["1"], "c": ["2"]}, [":2"]),
        ('"a\nb",c\n1,2\n', {"a\nb": ["1"], "c": ["2"]}, [":3"]),
    ],
)
def test_a_csv_is_read_as_text_cells(text, table, lines):
    content = read("csv", text)
    assert columns(content) == table
    assert places(content) == lines
    assert content.table.cells is Cells.TEXT


@pytest.mark.parametrize(
    ("raw", "place", "says"),
    [
        (b"", "", "empty"),
        (b"\n", ":1", "no header line"),
        (b"\na,b\n1,2\n", ":1", "no header line"),
        (b"a,b,a\n1,2,3\n", ":1", "'a' more than once"),
        (b",\n1,2\n", ":1", "'' more than once"),
        (b"a,b\n1,2\n1\n", ":3", "1 cells, the header 2"),
        (b"a,b\n1,2,3\n", ":2", "3 cells, the header 2"),
        (b"a,b\n1,2,\n", ":2", "3 cells, the header 2"),
        (b"a\n1\nb,\n", ":3", "2 cells, the header 1"),
        (b"a,b\n1,2\n\n3,4\n", ":3", "0 cells, the header 2"),
        (b"a,b\n1,\xff\n", ":2", "byte 0xff is not UTF-8"),
        (b"\xff\n", ":1", "byte 0xff is not UTF-8"),
        (b'a,b\n1,"2\n', ":2", "not CSV"),
        (b'a,b\n1,"2" 3\n', ":2", "not CSV"),
        (b"a,b\n1,2\n3,4", ":3", "cut off"),
        (b"a,b", ":1", "cut off"),
    ],
)
def test_a_malformed_csv_is_named_with_its_line(raw, place, says):
    with pytest.raises(Unreadable) as caught:
        read("csv", raw)
    assert caught.value.place == place
    assert says in caught.value.message


def test_a_document_that_is_not_utf_8_is_named_with_its_line():
    """Whatever the decoder says of it: msgspec 0.23 names no byte."""
    with pytest.raises(Unreadable) as caught:
        read("json", b'{"a": 1,\n"b": "\xff"}')
    assert caught.value.place == ":2"
    assert "byte 15 (0xff) is not UTF-8" in caught.value.message


CSV_TEXT = st.text('ab1 ,"\n\té', max_size=14)


@given(header=st.sampled_from(["a,b\n", "a,b\r\n", "a\n", '"a","b"\n']), body=CSV_TEXT)
@example(header="a\n", body="b,\n")
@example(header="a,b\n", body=',b",\n')
@example(header="a\n", body=' "\né\n')
@example(header="a\n", body='""1"\n')
@example(header="a,b\n", body='1,x"y')
@example(header="a,b\n", body='1,3"\n2,4"')
@example(header="a,b\n", body="1,2\r3,4")
@example(header='"a ""b""",c\n', body="1,2")
def test_a_csv_is_read_as_the_csv_module_reads_it_or_refused(header, body):
    text = f"{header}{body}\n"
    try:
        content = read("csv", text)
    except Unreadable:
        return
    expected_header, *expected = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert content.frame.columns == expected_header
    assert [list(row) for row in content.frame.rows()] == expected


@pytest.mark.parametrize(
    "text",
    ["a,{long}\n1,2\n", "a,b\n1,{long}\n", 'a,b\n1,"{long}"\n', 'a,b\n{long}\n"1",2\n'],
    ids=["name", "cell", "quoted cell", "short row"],
)
def test_a_cell_of_any_length_is_read_or_refused(text):
    try:
        frame = read("csv", text.format(long="x" * 200_000)).frame
    except Unreadable as error:
        message = error.message
    else:
        assert "x" * 200_000 in [*frame.columns, *frame.row(0)]
        message = ""
    assert len(message) < 1000


@given(
    names=st.lists(st.text("abc (ms)é,\n", min_size=1, max_size=5), min_size=1, max_size=4, unique=True),
    data=st.data(),
    ending=st.sampled_from(["\n", "\r\n"]),
)
def test_what_the_csv_module_writes_is_read_back(names, data, ending):
    cell = st.text('ab1 ,"\n\té-', max_size=5) if len(names) > 1 else st.text('ab1,"é', min_size=1, max_size=5)
    rows = data.draw(st.lists(st.lists(cell, min_size=len(names), max_size=len(names)), max_size=5))
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=ending)
    starts = []
    for row in [names, *rows]:
        starts.append(out.getvalue().count("\n") + 1)
        writer.writerow(row)
    content = read("csv", out.getvalue())
    assert content.frame.columns == names
    assert [list(row) for row in content.frame.rows()] == rows
    assert places(content) == [f":{line}" for line in starts[1:]]


# -- semicolon -------------------------------------------------------------------------------------------------------


def test_timestamps_are_one_row_an_execution():
    content = read("cpu-op-timestamps", "a/b-op0;HostCpuOps;1,0.5,0 2,0.25,0 \nx;y;HostCpuOps;3,1,-1\n")
    assert columns(content) == {
        "full_op_name": ["a/b-op0", "a/b-op0", "x;y"],
        "op_side": ["HostCpuOps"] * 3,
        "start": ["1", "2", "3"],
        "duration": ["0.5", "0.25", "1"],
        "thread": ["0", "0", "-1"],
    }
    assert places(content) == [":1", ":1", ":2"]


@pytest.mark.parametrize(
    ("raw", "place", "says"),
    [
        (b"", "", "empty"),
        (b"a;H;1,2,0", ":1", "cut off"),
        (b"a;H;1,2,0 \na;H;1", ":2", "cut off"),
        (b"a;1,2,0\n", ":1", "2 fields"),
        (b"a;H;1,2,0\n\n", ":2", "1 fields"),
        (b"\n", ":1", "1 fields"),
        (b"a;H;1,2,0\na;H;1,2\n", ":2", "'1,2' is not start,duration,thread"),
        (b"a;H;1,2,0\na;H;1,2,0 1,2,3,4 \n", ":2", "'1,2,3,4' is not start,duration,thread"),
        (b"a;H;\n", ":1", "'' is not start,duration,thread"),
        (b"a;H;1,2,0  1,2,0\n", ":1", "'' is not start,duration,thread"),
        (b"a;H;1,2,0\n\xc3;H;1,2,0\n", ":2", "is not UTF-8"),
    ],
)
def test_malformed_timestamps_are_named_with_their_line(raw, place, says):
    with pytest.raises(Unreadable) as caught:
        read("cpu-op-timestamps", raw)
    assert caught.value.place == place
    assert says in caught.value.message


@given(
    st.lists(
        st.tuples(
            st.text("ab/-;é", min_size=1, max_size=6),
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(-1, 9)), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_timestamps_are_read_back(operators):
    text = "".join(
        f"{name};HostCpuOps;{''.join('{},{},{} '.format(*one) for one in executions)}\n"
        for name, executions in operators
    )
    content = read("cpu-op-timestamps", text)
    assert [tuple(row) for row in content.frame.rows()] == [
        (name, "HostCpuOps", *map(str, one)) for name, executions in operators for one in executions
    ]


def test_framework_lines_are_one_row_an_execution():
    content = read("cpu-framework", "MatMul;MatMul-op0;7;input_1:[2, 8];input_2:NoShape;\n;;0;\n")
    assert columns(content) == {
        "op_type": ["MatMul", ""],
        "op_name": ["MatMul-op0", ""],
        "graph_id": ["7", "0"],
        "inputs": ["input_1:[2, 8];input_2:NoShape;", ""],
    }
    assert places(content) == [":1", ":2"]


@pytest.mark.parametrize(
    ("raw", "place", "says"),
    [
        (b"", "", "empty"),
        (b"a;b;0;\nc;d", ":2", "cut off"),
        (b"a;b;0;\nc;d;0\n", ":2", "3 fields"),
        (b"a;b;0;\n\n", ":2", "1 fields"),
        (b"a;b;0;\xfe\n", ":1", "is not UTF-8"),
    ],
)
def test_a_malformed_framework_file_is_named_with_its_line(raw, place, says):
    with pytest.raises(Unreadable) as caught:
        read("cpu-framework", raw)
    assert caught.value.place == place
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("cpu-framework", "MatMul;MatMul-op0;7;input_1:[2, 8];\nb;c;0;\n"),
        ("cpu-op-timestamps", "a;HostCpuOps;1,2,3 4,5,6\nb;HostCpuOps;1,2,3\n"),
        ("gpu-op-timestamps", "a;GpuOps;1,2 3,4\n"),
        ("gpu-activity-timestamps", "a;1;2;3\n"),
    ],
)
def test_line_ends_of_windows_are_no_part_of_the_last_cell(form, text):
    assert columns(read(form, text.replace("\n", "\r\n"))) == columns(read(form, text))


# -- trace -----------------------------------------------------------------------------------------------------------

EVENTS = '[{"ph": "X", "name": "a\\"b", "ts": 1.250, "args": {"x": [1, 2]}}, {"ph":"M","name":"n"}]'
EVENT_COLUMNS = {
    "ph": ['"X"', '"M"'],
    "name": ['"a\\"b"', '"n"'],
    "ts": ["1.250", None],
    "args": ['{"x": [1, 2]}', None],
}


@pytest.mark.parametrize(
    ("raw", "name", "document", "path"),
    [
        (EVENTS.encode(), "t.json", {}, "$"),
        (b" \n" + EVENTS.encode() + b"\n", "t.json", {}, "$"),
        (gzip.compress(EVENTS.encode(), mtime=0), "t.json.gz", {}, "$"),
        (f'{{"a": [1], "traceEvents": {EVENTS}, "b": "c"}}'.encode(), "t.json", {"a": [1], "b": "c"}, "$.traceEvents"),
        (gzip.compress(f'{{"traceEvents": {EVENTS}}}'.encode(), mtime=0), "t.json.gz", {}, "$.traceEvents"),
    ],
    ids=["array", "array with blanks around", "array, gzip", "object", "object, gzip"],
)
def test_a_trace_is_read_as_raw_cells(raw, name, document, path):
    content = read_trace(raw, name=name)
    assert columns(content) == EVENT_COLUMNS
    assert content.document == document
    assert content.table.cells is Cells.JSON
    assert places(content) == [f" {path}[0]", f" {path}[1]"]


def test_keys_the_schema_does_not_name_are_kept():
    content = read_trace('[{"ph": "X", "new": {"a": 1}}, {"ph": "M"}]')
    assert columns(content) == {"ph": ['"X"', '"M"'], "new": ['{"a": 1}', None]}


@pytest.mark.parametrize("raw", ["[]", '{"traceEvents": []}'])
def test_an_empty_trace_has_no_rows(raw):
    assert read_trace(raw).frame.height == 0


@pytest.mark.parametrize("items", [{"properties": EVENT}, {"$ref": "#/$defs/event"}])
def test_the_schema_of_an_event_is_found(items):
    definitions = {"$defs": {"event": {"properties": EVENT}}}
    assert row_schema({"items": items, **definitions})["properties"] == EVENT
    nested = {"properties": {"traceEvents": {"items": items}}, **definitions}
    assert row_schema(nested)["properties"] == EVENT


@pytest.mark.parametrize(
    ("raw", "name", "place", "says"),
    [
        (b"", "t.json", "", "not a JSON trace"),
        (b"null", "t.json", "", "not a JSON trace"),
        (b"5", "t.json", "", "not a JSON trace"),
        (b"{}", "t.json", "", "no traceEvents"),
        (b'{"traceEvents": null}', "t.json", "", "not a JSON trace"),
        (b'{"traceEvents": {}}', "t.json", "", "not a JSON trace"),
        (b"[1]", "t.json", " $[0]", "not an object: '1'"),
        (b'[{"ph": "X"}, null]', "t.json", " $[1]", "not an object: 'null'"),
        (b'{"traceEvents": [[]]}', "t.json", " $.traceEvents[0]", "not an object: '[]'"),
        (b'[{"ph": "X"}', "t.json", "", "not a JSON trace"),
        (b'[{"ph": "X"}][{"ph": "X"}]', "t.json", "", "not a JSON trace"),
        (b'[{"ph": NaN}]', "t.json", "", "not a JSON trace"),
        (b'[{"ts": Infinity}]', "t.json", "", "not a JSON trace"),
        (b'[{"ts": 01}]', "t.json", "", "not a JSON trace"),
        (b'[{"ts": 1,}]', "t.json", "", "not a JSON trace"),
        (b'[{"name": "\xff"}]', "t.json", "", "not a JSON trace"),
        (b'[{"new\xff": 1}]', "t.json", "", "not a JSON trace"),
        (b'{"a": 1e999, "traceEvents": []}', "t.json", "", "not a JSON trace"),
        (b"[" * 100_000, "t.json", "", "not a JSON trace"),
        (b'[{"args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]", "t.json", "", "not a JSON trace"),
        (b"", "t.json.gz", "", ""),
        (EVENTS.encode(), "t.json.gz", "", "not whole gzip"),
        (gzip.compress(EVENTS.encode(), mtime=0)[:-9], "t.json.gz", "", "not whole gzip"),
        (gzip.compress(EVENTS.encode(), mtime=0)[:-4] + b"\0\0\0\0", "t.json.gz", "", "not whole gzip"),
        (gzip.compress(EVENTS.encode(), mtime=0) + b"rubbish", "t.json.gz", "", "not whole gzip"),
        (gzip.compress(b" " * 50_000_000, mtime=0), "t.json.gz", "", "unpacks to more than"),
        (gzip.compress(EVENTS.encode(), mtime=0), "t.json", "", "not a JSON trace"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_malformed_trace_is_named(raw, name, place, says):
    with pytest.raises(Unreadable) as caught:
        read_trace(raw, name=name)
    # Where the decoder says at which byte, the line is named as well.
    assert caught.value.place in (place, place or ":1")
    assert says in caught.value.message


JSON_KEYS = st.sampled_from(["ph", "name", "ts", "dur", "args", "new", "ne\\w"])
JSON_CELLS = st.one_of(
    st.integers(-5, 5), st.none(), st.text('a"\\é', max_size=3), st.lists(st.integers(0, 3), max_size=2)
)


@given(st.lists(st.dictionaries(JSON_KEYS, JSON_CELLS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_every_key_and_value_of_a_trace_is_kept(events):
    frame = read_trace(json.dumps(events)).frame
    found = [
        {key: json.loads(text) for key, text in row.items() if text is not None} for row in frame.iter_rows(named=True)
    ]
    assert found == events


# -- nanoseconds -----------------------------------------------------------------------------------------------------


def exact_nanoseconds(text: str) -> int | None:
    with localcontext() as context:
        context.prec, context.Emax = 100, MAX_EMAX
        if abs(Decimal(text.strip('"'))) > 2**63:
            return None
        value = (Decimal(text.strip('"')) * 1000).to_integral_value(rounding=ROUND_HALF_EVEN)
    return int(value) if -(2**63) < value < 2**63 else None


NUMBER_TEXTS = st.builds(
    lambda sign, whole, fraction, exponent, quote: f"{quote}{sign}{whole}{fraction}{exponent}{quote}",
    sign=st.sampled_from(["", "-"]),
    whole=st.integers(0, 10**17).map(str),
    fraction=st.one_of(st.just(""), st.text("0123456789", min_size=1, max_size=6).map(".{}".format)),
    exponent=st.sampled_from(["", "", "", "e0", "e3", "E-3", "e+2"]),
    quote=st.sampled_from(["", '"']),
)


@given(st.lists(NUMBER_TEXTS, min_size=1, max_size=4))
@example(["1795261968310120.906"])
@example(["9223372036854775.807", "9223372036854775.808"])
@example(["9300000000000000"])
@example(["9999999999999999.999"])
@example(["-9300000000000000"])
@example(["0.0005", "0.0015", "0.0025", "-0.0005"])
@example(["1e999", "-1e999", "1e999999999"])
def test_nanoseconds_are_exact(texts):
    assert nanoseconds(pl.Series("ts", texts)).to_list() == [exact_nanoseconds(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-0", 0),
        ("1", 1000),
        ("1.5", 1500),
        ("1.05", 1050),
        ("1.0005", 1000),
        ("1.0015", 1002),
        ("1.00051", 1001),
        ("-1.5", -1500),
        ("1e3", 1_000_000),
        ('"12.345"', 12345),
        ("4404939053098.340", 4404939053098340),
        ("9007199254740993.001", 9007199254740993001),
        ("9999999999999999", None),
        ('"x"', None),
        (None, None),
    ],
)
def test_the_nanoseconds_of_one_text(text, expected):
    assert nanoseconds(pl.Series("ts", [text], dtype=pl.String)).to_list() == [expected]


def test_no_nanoseconds_in_an_empty_column():
    found = nanoseconds(pl.Series("ts", [], dtype=pl.String))
    assert (found.dtype, found.to_list(), found.name) == (pl.Int64, [], "ts")


# -- documents and logs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "document"),
    [
        (b'{"a": [1, 2.5, "\xc3\xa9", null, true]}', {"a": [1, 2.5, "é", None, True]}),
        (b"[]", []),
        (b" 5 ", 5),
    ],
)
def test_a_json_document_is_read(raw, document):
    content = read("json", raw)
    assert content.document == document
    assert content.table is None


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"{} {}", b'{"a": NaN}', b'{"a": 1e999}', b'"\xff"', b"[" * 100_000, b"{'a': 1}", b"\xff\xfe{\0}\0"],
)
def test_a_malformed_json_document_is_refused(raw):
    with pytest.raises(Unreadable, match="not JSON"):
        read("json", raw)


@given(st.lists(st.sampled_from(["] ", "\n", "\r\n", "x", "]", " ", "é"])).map("".join))
def test_a_log_is_its_messages_with_the_numbers_of_their_lines(text):
    lines = enumerate(text.split("\n"), 1)
    assert read("log", text).document == tuple((row, line.rstrip("\r")) for row, line in lines if "] " in line)


def test_a_log_with_broken_utf8_is_named_with_its_line():
    with pytest.raises(Unreadable, match="0xff") as caught:
        read("log", b"one\ntwo \xff\n")
    assert caught.value.place == ":2"


@pytest.mark.parametrize(("most", "error"), [(2, "more than the 2 messages"), (3, None)])
def test_every_message_of_a_log_is_read_or_none(monkeypatch, most, error):
    monkeypatch.setattr("perfguard.artifacts.readers.document._MAX_LOG_MESSAGES", most)
    with pytest.raises(Unreadable, match=error) if error else nullcontext():
        assert len(read("log", "a] 1\nb] 2\nc] 3\n").document) == 3


def test_a_document_has_no_frame():
    with pytest.raises(ValueError, match="no table"):
        read("json", b"{}").frame


# -- bytes -----------------------------------------------------------------------------------------------------------


def fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: None, id="nothing"),
        pytest.param(fifo, id="fifo"),
        pytest.param(Path.mkdir, id="directory"),
        pytest.param(lambda path: path.symlink_to(path.name), id="link to itself"),
        pytest.param(lambda path: path.symlink_to("nowhere"), id="dangling link"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), id="link to a device"),
    ],
)
@pytest.mark.parametrize("form", sorted([*READERS, *FORMATS]))
@pytest.mark.usefixtures("must_not_hang")
def test_only_regular_files_are_opened(tmp_path, make, form):
    path = tmp_path / "x"
    make(path)
    with pytest.raises(Unreadable, match=r"not a regular file|cannot be opened: (No such file|Too many levels)"):
        read_file(form, path, TRACE_SCHEMA)


def test_a_file_above_the_limit_is_not_read(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_bytes(path, limit=5) == b"12345"
    with pytest.raises(Unreadable, match="5 bytes, more than the 4"):
        read_bytes(path, limit=4)


@pytest.mark.parametrize(
    ("raw", "place"), [(b"\xff", ":1"), (b"a\nb\xff", ":2"), (b"a\n\n\n\xc3", ":4"), (b"a\nb\n\xed\xa0\x80", ":3")]
)
def test_broken_utf8_is_named_with_its_line(raw, place):
    with pytest.raises(Unreadable) as caught:
        decode_text(raw)
    assert caught.value.place == place


@given(st.text())
def test_text_is_decoded_without_its_byte_order_mark(text):
    assert decode_text(text.encode()) == text.removeprefix("\ufeff")
