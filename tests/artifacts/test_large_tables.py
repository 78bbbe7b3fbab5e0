"""A table that goes by in blocks is judged as one that is read whole."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.layout import layout_named
from perfguard.artifacts.readers import Content, csv_stream
from perfguard.artifacts.readers.csv_stream import Rows, Streamed, read_header, stream_csv
from perfguard.artifacts.schema import row_schema
from perfguard.artifacts.survey import survey
from perfguard.artifacts.table import Unreadable
from perfguard.artifacts.tables import batch
from perfguard.contract import Contract
from perfguard.contract.conformity import row_findings, rules_under
from perfguard.contract.reading import _File, _read
from perfguard.findings import Code, Finding, Severity
from perfguard.measure import measure
from perfguard.recording import read_recording
from perfguard.testing import generate
from tests.artifacts.reading import read_by_csv_module
from tests.conftest import RECORDED, corpus_place
from tests.contract.test_damage import CASES, Damage, cells, lines
from tests.contract.together import inspect_together, places

#: Small enough that rows of the tests' own tables lie in several blocks.
SMALL_BLOCK = 1500


@pytest.fixture
def streaming(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Read tables in small blocks."""
    monkeypatch.setattr(csv_stream, "BLOCK_BYTES", SMALL_BLOCK)
    monkeypatch.setattr(csv_stream, "GRAMMAR_FROM", 0)
    return monkeypatch


Both = tuple[Contract, Contract]


def both(directories: Sequence[Path]) -> list[Both]:
    """Return what is said of each directory with its tables read whole, and with all of them read in small blocks."""
    recordings = [read_recording(one) for one in directories]
    whole = inspect_together(recordings)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_stream, "BLOCK_BYTES", SMALL_BLOCK)
        patched.setattr(csv_stream, "GRAMMAR_FROM", 0)
        return list(zip(whole, inspect_together(recordings), strict=True))


def told(findings: tuple[Finding, ...]) -> list[tuple[object, ...]]:
    return sorted(
        (f.code.name, f.severity.name, f.place, f.message, f.check or "", f.rank or 0, f.more) for f in findings
    )


def refuse_difference(found: Both) -> None:
    whole, passed = found
    expected, said = told(whole.findings), told(passed.findings)
    unreadable = {one[2].split(":")[0] for one in expected if one[0] == "S101" and one[1] == "ERROR"}
    # What came before a line that cannot be read is told as well where rows go by.
    said = [one for one in said if one in expected or one[2].split(":")[0] not in unreadable]
    assert said == expected
    assert whole.read == passed.read
    assert whole.is_whole == passed.is_whole
    assert measure(passed) == measure(whole)
    for one, other in zip(whole.cycles, passed.cycles, strict=True):
        assert one.artifacts.keys() == other.artifacts.keys()
        assert {name: dict(values) for name, values in one.measured.items()} == {
            name: dict(values) for name, values in other.measured.items()
        }
        if one.executions is not None:
            assert other.executions is not None
            for name in ("steps", "by_step", "step_numbers", "edges_ns", "marks_steps", "on_device"):
                assert getattr(other.executions, name) == getattr(one.executions, name), name


def entries() -> list[Path]:
    """Return the real directories with tables, inside and in the corpus."""
    places = [RECORDED.parent, corpus_place()]
    found = {place.joinpath(*path.relative_to(place).parts[:2]) for place in places for path in place.rglob("*.csv")}
    return sorted(found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("entry", entries(), ids=lambda entry: f"{entry.parent.name}-{entry.name}")
def test_real_output_is_judged_alike(entry):
    (found,) = both([entry])
    refuse_difference(found)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    directories = places(tmp_path_factory.mktemp("damaged"), len(CASES))
    for case, directory in zip(CASES, directories, strict=True):
        generate(case.layout, seed=3, ranks=case.ranks, operators=12, conditions=case.conditions).write(directory)
        case.damage(directory)
    return dict(zip((case.name for case in CASES), both(directories), strict=True))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_damage_is_told_alike(damaged, name):
    refuse_difference(damaged[name])


def swapped(rows: list[str]) -> list[str]:
    return [rows[0], rows[2], rows[1], *rows[3:]]


KERNELS = "kernel_details.csv"


def step(change: Callable[[str], str], *, row: int) -> Damage:
    def damage(place: Path) -> None:
        named = "Step Id" if "Step Id" in next(place.rglob(KERNELS)).read_text() else "Step ID"
        cells(KERNELS, named, change, row=row)(place)

    return damage


MORE_DAMAGE = {
    "nothing": lambda place: None,
    "rows in another order": lines(KERNELS, swapped),
    "a row twice": lines(KERNELS, lambda rows: [*rows[:6], rows[5], *rows[6:]]),
    "every row twice": lines(KERNELS, lambda rows: [rows[0], *(row for row in rows[1:] for _ in range(2))]),
    "a step that comes back": step(lambda text: "3", row=30),
    "a kernel of no step": step(lambda text: "", row=7),
    "durations of nothing": cells(KERNELS, "Duration(us)", lambda text: "0"),
    "a longer wait": cells(KERNELS, "Wait Time(us)", lambda text: "77.5", row=9),
    "negative durations": cells(KERNELS, "Duration(us)", lambda text: f"-{text}"),
    "a duration in words": cells(KERNELS, "Duration(us)", lambda text: "long", row=12),
    "numbers with exponents": cells(KERNELS, "Duration(us)", lambda text: f"{text}e0"),
    "leading zeros": cells(KERNELS, "Start Time(us)", lambda text: f"0{text}", row=3),
    "a name with a line break": cells(KERNELS, "Name", lambda text: f"{text}\nx", row=4),
    "a name with quotes": cells(KERNELS, "Name", lambda text: f'{text} "x"'),
    "another type": cells(KERNELS, "Type", lambda text: f"{text}x", row=2),
    "no types": cells(KERNELS, "Type", lambda text: "N/A"),
    "ratios of one": cells(KERNELS, "aic_mac_ratio", lambda text: "1.0"),
    "a ratio beyond one": cells(KERNELS, "aic_mac_ratio", lambda text: "1.5", row=20),
    "a row cut off": lines(KERNELS, lambda rows: [*rows[:-1], rows[-1][:-9]]),
    "a cell too many": lines(KERNELS, lambda rows: [*rows[:9], f"1,{rows[9]}", *rows[10:]]),
    "a blank line": lines(KERNELS, lambda rows: [*rows[:9], "\n", *rows[9:]]),
    "an unknown column": lines(KERNELS, lambda rows: [f"{row[:-1]},{'x' if at else 'new'}\n" for at, row in enumerate(rows)]),
    "a lost column": lines(KERNELS, lambda rows: [row.partition(",")[2] for row in rows]),
    "no rows": lines(KERNELS, lambda rows: rows[:1]),
    "a header twice": lines(KERNELS, lambda rows: [rows[0], *rows]),
    "the header of another version": lines(KERNELS, lambda rows: [rows[0].replace("Block Dim", "Block Num"), *rows[1:]]),
}  # fmt: skip


@pytest.fixture(scope="module")
def damaged_kernels(tmp_path_factory):
    @cache
    def of(layout: str) -> dict[str, Both]:
        directories = places(tmp_path_factory.mktemp("kernels"), len(MORE_DAMAGE))
        for change, directory in zip(MORE_DAMAGE.values(), directories, strict=True):
            generate(layout, seed=5, operators=30, ranks=1).write(directory)
            change(directory)
        return dict(zip(MORE_DAMAGE, both(directories), strict=True))

    return of


@pytest.mark.parametrize("layout", ["pt-npu", "ms-2.5+"])
@pytest.mark.parametrize("name", MORE_DAMAGE)
@pytest.mark.exhaustive
def test_damaged_kernels_are_judged_alike(damaged_kernels, layout, name):
    refuse_difference(damaged_kernels(layout)[name])


# -- one table -------------------------------------------------------------------------------------------------------

CELL = st.one_of(
    st.sampled_from(
        [
            "",
            "1",
            "-1",
            "1.5",
            "1e3",
            "N/A",
            "a",
            "007",
            "1.0",
            " 1",
            "1\t",
            "inf",
            "x,y",
            'say "x"',
            "a\nb",
            "a\rb",
            "é",
            "\x00",
        ]
    ),
    st.text('01.,"\n\r é\x01', max_size=4),
)
RULES = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["a", "b"],
        "properties": {
            "a": {"type": ["integer", "null"], "minimum": 0, "maximum": 1000},
            "b": {"type": ["number", "string"], "pattern": "^(N/A|x,y)$"},
            "c": {"type": "string", "minLength": 1},
        },
    },
}


def passed(path: Path, rules: dict, columns: tuple[str, ...] = ("a", "b", "c")) -> tuple[Streamed, list[Rows]]:
    parts: list[Rows] = []
    header = read_header(path)
    found = stream_csv(path, rules_under(row_schema(rules), header), rules, columns, parts.append)
    return found, parts


def read_or_refused(path: Path, rules: dict) -> tuple[Content | None, Unreadable | None]:
    try:
        return read_by_csv_module(path, rules), None
    except Unreadable as error:
        return None, error


def header_or_refused(path: Path) -> tuple[tuple[str, ...] | None, Unreadable | None]:
    try:
        return read_header(path), None
    except Unreadable as error:
        return None, error


def refuse_other_reading(path: Path, rules: dict) -> None:
    """Compare what a file is streamed as with what it is read as, cell by cell and finding by finding."""
    content, error = read_or_refused(path, rules)
    if content is None:
        header, refused = header_or_refused(path)
        if header is None:
            assert (refused.message, refused.place) == (error.message, error.place)
            return
        found, _ = passed(path, rules)
        assert found.unreadable is not None
        if "UTF-8" not in error.message and b"\r" not in path.read_bytes():
            # A row of another length is met before what is no CSV behind it.
            assert int(found.unreadable.place[1:]) <= int(error.place[1:])
        return
    found, parts = passed(path, rules)
    assert found.unreadable is None
    expected = list(row_findings(content.table, row_schema(rules), rules, "x"))
    worded = [f"x:{line} {error.path}: {error.message}" for line, error in found.errors]
    assert worded == [f"{one.place}: {one.message}" for one in expected if not one.more]
    assert found.broken == len({one.place.split(" ")[0] for one in expected if not one.more}) + sum(
        one.more for one in expected
    )
    assert found.rows == content.frame.height
    if not expected and found.rows:
        cells = pl.concat([part.frame for part in parts])
        assert cells.equals(content.frame.select(cells.columns))
        places = [f":{line}" for part in parts for line in part.lines]
        assert places == [content.table.place(row) for row in range(content.frame.height)]
        prints = [number for part in parts for number in part.prints().to_list()]
        assert prints == csv_stream._prints_of(content.frame).to_list()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(CELL, CELL, CELL), max_size=12),
    ending=st.sampled_from(["\n", "\r\n"]),
    block=st.integers(1, 60),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_the_csv_module_writes_is_judged_alike(rows, ending, block, quoting, streaming, tmp_path):
    streaming.setattr(csv_stream, "BLOCK_BYTES", block)
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=ending, quoting=quoting).writerows([["a", "b", "c"], *rows])
    path = tmp_path / "x.csv"
    path.write_bytes(out.getvalue().encode())
    refuse_other_reading(path, RULES)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.text('01a.,"\n\r\té\x00\x01\ufeff', max_size=40), block=st.integers(1, 30), short=st.booleans())
@example(body="1,1,a\n\ufeff1,1,a\n", block=7, short=False)
@example(body='1,1,a\n1,N/A,"b\n1,1,a\n"\n', block=5, short=False)
@example(body="1,1\n1,1,a\n", block=50, short=True)
@example(body="\n1,1,a\n\n", block=50, short=True)
@example(body="1,1,a\r1,1,a\r", block=50, short=False)
@example(body="1,1,a\x01\n", block=50, short=False)
@example(body='"\n"', block=1, short=True)
def test_any_text_is_judged_alike(body, block, short, streaming, tmp_path):
    streaming.setattr(csv_stream, "BLOCK_BYTES", block)
    path = tmp_path / "x.csv"
    path.write_bytes(f"a,b,c\n{body}".encode())
    refuse_other_reading(path, {**RULES, **({"x-short-rows": "warning"} if short else {})})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=30), block=st.integers(1, 30))
def test_any_bytes_are_judged_alike(raw, block, streaming, tmp_path):
    streaming.setattr(csv_stream, "BLOCK_BYTES", block)
    path = tmp_path / "x.csv"
    path.write_bytes(raw)
    content, _ = read_or_refused(path, {})
    header, _ = header_or_refused(path)
    assert header is not None or content is None
    if header is not None and content is None:
        assert passed(path, RULES)[0].unreadable is not None


# -- bad input -------------------------------------------------------------------------------------------------------

GOOD = "1,1.5,x\n"


def streamed(path: Path, text: str | bytes, streaming: pytest.MonkeyPatch, rules: dict = RULES) -> Streamed:
    streaming.setattr(csv_stream, "BLOCK_BYTES", 64)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return passed(path, rules)[0]


@pytest.mark.parametrize(
    ("text", "rows", "place", "says"),
    [
        (f"a,b,c\n{GOOD * 50}1,2", 50, ":52", "its last line is cut off: no line break at the end"),
        (f"a,b,c\n{GOOD * 50}1,2,x", 50, ":52", "its last line is cut off"),
        (f'a,b,c\n{GOOD * 50}1,2,"x\n{GOOD * 50}', 50, ":102", "it is not CSV: unexpected end of data"),
        (f"a,b,c\n{GOOD * 50}1,2\n{GOOD * 50}", 50, ":52", "the row has 2 cells, the header 3: '1,2'"),
        (f"a,b,c\n{GOOD * 50}\n{GOOD * 50}", 50, ":52", "the row has 0 cells"),
        (f"a,b,c\n{GOOD * 50}".encode() + b"1,2,\xff\n", 50, ":52", "byte 0xff is not UTF-8"),
        (f"a,b,c\n{GOOD * 50}a,b,c,d\n", 50, ":52", "the row has 4 cells"),
    ],
)
def test_where_reading_ends_is_said_and_what_came_before_is_known(tmp_path, streaming, text, rows, place, says):
    found = streamed(tmp_path / "x.csv", text, streaming)
    assert found.unreadable is not None
    assert (found.rows, found.broken, found.unreadable.place) == (rows, 0, place)
    assert says in found.unreadable.message


@pytest.mark.parametrize(
    ("text", "rows", "broken"),
    [
        ("a,b,c\n", 0, []),
        ("\ufeffa,b,c\r\n" + GOOD.replace("\n", "\r\n") * 50, 50, []),
        (f"a,b,c\n{GOOD * 50}a,b,c\n{GOOD * 50}", 101, [(52, "$.a"), (52, "$.b")]),
        (f'a,b,c\n{GOOD * 50}1,2,"x\ny"\n{GOOD * 50}', 101, []),
        (f'a,b,c\n{GOOD * 50}1,2,"{"x" * 500}\ny"\n-1,2,x\n{GOOD * 50}', 102, [(54, "$.a")]),
        (f"a,b,c\n{GOOD * 50}1,2,x\x00\n", 51, []),
        (f"a,b,c\n{GOOD * 50}1,2,\n{GOOD * 7}1,0x1,x\n", 59, [(52, "$.c"), (60, "$.b")]),
    ],
)
def test_rows_that_break_the_schema_are_told_with_their_lines(tmp_path, streaming, text, rows, broken):
    found = streamed(tmp_path / "x.csv", text, streaming)
    assert found.unreadable is None
    assert (found.rows, [(line, error.path) for line, error in found.errors]) == (rows, broken)


def test_a_row_of_two_megabytes_is_a_row(tmp_path, streaming):
    streaming.setattr(csv_stream, "BLOCK_BYTES", 4 * 1024**2)
    path = tmp_path / "x.csv"
    path.write_text(f"a,b,c\n{GOOD}1,2,{'x' * 2_000_000}\n-1,2,x\n")
    found, _ = passed(path, RULES, ())
    assert (found.rows, [line for line, _ in found.errors], found.unreadable) == (3, [4], None)


@pytest.mark.parametrize(
    ("cell", "says"), [("x" * 2000, "more than 1000 bytes"), ('"' + "x\n" * 2000, "no quotation mark ends")]
)
def test_a_row_without_an_end_is_not_read_for_ever(tmp_path, streaming, cell, says):
    streaming.setattr(csv_stream, "LONGEST_ROW", 1000)
    found = streamed(tmp_path / "x.csv", f"a,b,c\n{GOOD * 9}1,2,{cell}", streaming)
    assert found.unreadable is not None
    assert says in found.unreadable.message
    assert found.unreadable.place == ":11"


@pytest.mark.parametrize(
    ("more", "says"), [(GOOD * 3, "it is still being written"), ("1,", "it is still being written")]
)
def test_a_file_that_grows_while_it_is_read_is_told(tmp_path, streaming, more, says):
    streaming.setattr(csv_stream, "BLOCK_BYTES", 64)
    path = tmp_path / "x.csv"
    path.write_text(f"a,b,c\n{GOOD * 50}")

    def write(rows: Rows) -> None:
        if rows.first == 0:
            with path.open("a") as file:
                file.write(more)

    found = stream_csv(path, rules_under(row_schema(RULES), ("a", "b", "c")), RULES, ("a",), write)
    assert found.unreadable is not None
    assert says in found.unreadable.message


def test_a_hundred_rows_are_worded_and_all_are_counted(tmp_path, streaming):
    text = f"a,b,c\n{(GOOD + '-1,2,x' + chr(10)) * 300}"
    found = streamed(tmp_path / "x.csv", text, streaming)
    assert (found.rows, found.broken, len(found.errors)) == (600, 300, 100)
    assert found.errors[-1][0] == 201
    assert {error.message for _, error in found.errors} == {"-1 is less than the minimum of 0"}


@pytest.mark.exhaustive
def test_cells_are_in_tables_only_whatever_the_size(tmp_path):
    generate("pt-npu", seed=5, operators=12, ranks=1, conditions={"level2": True}).write(tmp_path)
    for found in both([tmp_path])[0]:
        tables = [one.content.table for one in found.cycles[0].files if one.slot.format == "csv"]
        assert len(tables) == 10
        assert all(one.streamed is not None for one in tables)


def test_a_table_in_an_unknown_version_is_judged_by_the_version_it_fits_best(tmp_path, streaming):
    generate("pt-npu", seed=5, operators=12, ranks=1).write(tmp_path)
    (cycle,) = survey(tmp_path, layout_named("pt-npu")).cycles
    file = next(one for one in cycle.files if one.slot.name == "kernel_details")
    text = file.path.read_text().replace("HF32 Eligible", "HF64 Eligible", 1)
    file.path.write_text(text)
    with batch() as tables:
        here = {"layout": cycle.layout.id, "place": "x", "report": lambda count: None}
        artifact, found = _read(_File(found=file, tables=tables, cycle=0, number=0, **here))
    # A column that no version has is a note: a newer writer may have added it.
    assert artifact is not None
    assert any("HF64 Eligible" in one.message for one in found)
    assert {one.code for one in found} == {Code.S102}
    assert all(one.severity is Severity.NOTE for one in found)
