"""`perfguard schema list | show`, and the page made of them."""

from __future__ import annotations

import json

import pytest

from perfguard.artifacts.conditions import CONDITIONS
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.schema import is_table, row_schema
from perfguard.documents import schema, schema_names
from perfguard.reports import catalogue
from perfguard.reports.prose import code, prose
from tests.cli import run

#: Every slot that ships, with the layout it is of.
SLOTS = [(layout, slot) for layout in layouts() for slot in layout.slots]
USED = sorted({name for _, slot in SLOTS for name in slot.schemas})


@pytest.fixture(scope="module")
def listed() -> list[str]:
    found = run("schema", "list")
    assert found.exit_code == 0
    return found.stdout.splitlines()


@pytest.fixture(scope="module")
def page() -> str:
    return catalogue.markdown()


def test_list_has_a_row_for_every_file_of_every_layout_and_every_document_of_its_own(listed):
    rows = [line.split("  ") for line in listed[2:]]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert [(row[0], row[1]) for row in cells[: len(SLOTS)]] == [(slot.path, layout.id) for layout, slot in SLOTS]
    assert [row[0] for row in cells[len(SLOTS) :]] == ["perfguard's own"] * (len(cells) - len(SLOTS))
    own = sorted(set(schema_names()) - set(USED))
    assert [row[1] for row in cells[len(SLOTS) :]] == own
    assert {"baseline", "recording", "report", "steps", "layout"} <= set(own)


@pytest.mark.parametrize(
    ("file", "layout", "parts"),
    [
        ("*.pt.trace.json*", "pt-torch", ["always", "torch_trace", "Trace of torch.profiler (Kineto)"]),
        (
            "FRAMEWORK/cpu_op_type_info_{rank}.csv",
            "ms-2.5+cpu",
            ["when recorded", "cpu_op_type_info", "Operators that ran"],
        ),
        ("FRAMEWORK/cpu_ms_memory_record_{rank}.txt", "ms-2.5+cpu", ["when memory", "cpu_ms_memory_record"]),
        ("ASCEND_PROFILER_OUTPUT/kernel_details.csv", "pt-npu", ["when text & npu", "kernel_details."]),
    ],
)
def test_list_says_where_a_file_lies_when_it_must_be_there_and_what_it_holds(listed, file, layout, parts):
    (line,) = [line for line in listed if line.startswith(f"{file} ") and f" {layout} " in line]
    position = 0
    for part in parts:
        position = line.index(part, position) + len(part)


def test_list_with_columns_shows_every_column_below_its_file():
    lines = run("schema", "list", "--columns").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("FRAMEWORK/cpu_op_type_info_{rank}.csv"))
    names = [column[0] for column in catalogue.columns("cpu_op_type_info")]
    below = lines[start + 1 : start + 1 + len(names)]
    assert [line.split()[:2] for line in below] == [["-", name] for name in names]
    units = {column[0]: column[2] for column in catalogue.columns("cpu_op_type_info")}
    assert all(units[line.split()[1]] in line for line in below)


def test_the_page_is_what_markdown_prints(page):
    assert run("schema", "list", "--markdown").stdout == page + "\n"


def test_the_page_names_every_layout_file_condition_and_column(page):
    lines = page.splitlines()
    for layout in layouts():
        assert f"## {layout.id}" in lines
    for name in USED:
        assert f"### {name}" in lines
    for name, meaning in CONDITIONS.items():
        assert f"| `{name}` | {prose(meaning)} |" in lines
    for _, slot in SLOTS:
        assert any(line.startswith(f"| `{slot.path}` |") for line in lines)
    for name in USED:
        for column, *_ in catalogue.columns(name):
            cell = code(column).replace("|", "\\|").replace("\n", " ")
            assert any(line.startswith(f"| {cell} |") for line in lines), (name, column)


def test_every_row_of_the_page_has_as_many_cells_as_its_header(page):
    width = None
    for line in page.splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = line.replace("\\|", "").count("|")
        width = cells if width is None else width
        assert cells == width, line


@pytest.mark.parametrize("name", USED)
def test_the_columns_of_a_table_are_all_in_the_catalogue(name):
    found = list(catalogue.columns(name))
    if is_table(schema(name)):
        row = row_schema(schema(name))
        top = [column for column, *_ in found if column in row.get("properties", {})]
        assert top == list(row.get("properties", {}))
        required = {column for column, _, _, needed, _ in found if needed == "yes" and column in top}
        assert required == set(row.get("required", ())) & set(top)


@pytest.mark.parametrize("name", schema_names())
def test_every_schema_can_be_shown(name):
    found = run("schema", "show", name)
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert lines[0] == f"{name}: {schema(name)['title']}"
    assert lines[1] == f"source: {schema(name)['$comment']}"
    assert lines[3].split() == ["column", "type", "unit", "required", "meaning"]
    assert len(lines) > 5


@pytest.mark.parametrize("name", schema_names())
def test_json_is_the_schema_itself(name):
    found = run("schema", "show", name, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout) == schema(name)


def test_a_file_of_many_versions_is_shown_with_all_of_them():
    versions = [name for name in schema_names() if name.startswith("aicore_intermediate_detail.")]
    assert len(versions) > 2
    lines = run("schema", "show", "aicore_intermediate_detail").stdout.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("aicore_intermediate_detail.")] == versions
    assert sum(line.startswith("source: ") for line in lines) == len(versions)
    found = json.loads(run("schema", "show", "aicore_intermediate_detail", "--json").stdout)
    assert found == [schema(name) for name in versions]


def test_one_version_is_shown_alone():
    lines = run("schema", "show", "aicore_intermediate_detail.2.0").stdout.splitlines()
    assert [line for line in lines if line.startswith("source: ")] == [
        f"source: {schema('aicore_intermediate_detail.2.0')['$comment']}"
    ]


@pytest.mark.parametrize(
    "name, row",
    [
        ("cpu_op_type_info", ["percent", "number", "fraction", "yes", "Share of all types' time"]),
        ("cpu_op_detail_info", ["op_side", "always 'Host'", "", "yes", "Where the operator ran."]),
        ("trace_view_cpu", ["ph", "one of M, X", "", "yes", "M names a process or thread"]),
        ("torch_trace", ["pid", "integer or string", "", "yes", "Process, or Spans / Traces."]),
        ("torch_trace", ["dur", "number", "us", "", "Duration."]),
        ("baseline", ["commit", "string or null", "", "yes", ""]),
    ],
)
def test_a_column_is_shown_with_type_unit_and_meaning(name, row):
    column, *others = row
    lines = [line for line in run("schema", "show", name).stdout.splitlines() if f"{column} " in line]
    line = next(line for line in lines if line.split()[0].split(".")[-1] == column)
    position = 0
    for part in others:
        position = line.index(part, position) + len(part)


@pytest.mark.parametrize(
    "name, hint",
    [
        ("baselin", "did you mean 'baseline'?"),
        ("torch-trace", "did you mean 'torch_trace'?"),
        ("aicore_intermediate_detial.2.0", "did you mean 'aicore_intermediate_detail.2.0'?"),
        ("kernel_detials", "did you mean 'kernel_details'?"),
        ("operator_memroy", "did you mean 'operator_memory'?"),
        ("zzz", "list them with: perfguard schema list"),
        ("", "list them with: perfguard schema list"),
        ("../pyproject", "list them with: perfguard schema list"),
        ("\x1b[31m", "list them with: perfguard schema list"),
    ],
)
def test_an_unknown_schema_is_refused_with_the_nearest(name, hint):
    found = run("schema", "show", name)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"perfguard: There is no schema named {name!r}; {hint}")
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", [layout.id for layout in layouts() if layout.slots])
@pytest.mark.parametrize("options", [(), ("--columns",)])
def test_the_list_of_a_layout_has_its_files_only(name, options):
    found = run("schema", "list", name, *options)
    assert found.exit_code == 0
    rows = [line for line in found.stdout.splitlines()[2:] if not line.startswith("- ")]
    assert [row.split("  ")[0].strip() for row in rows] == [slot.path for layout, slot in SLOTS if layout.id == name]
    assert "perfguard's own" not in found.stdout


@pytest.mark.parametrize("name", [layout.id for layout in layouts() if not layout.slots])
def test_a_layout_without_files_says_so(name):
    found = run("schema", "list", name)
    assert (found.exit_code, len(found.stdout.splitlines())) == (0, 1)
    assert found.stdout.startswith(f"{name} has no files of its own: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list", "pt-npi"), "There is no layout 'pt-npi'; did you mean 'pt-npu'?"),
        (("list", "pt-npu", "--markdown"), "--markdown prints the whole catalogue, so it takes no layout"),
        (("show", "pt-npu"), "pt-npu is a layout, not a file; list its files with: perfguard schema list pt-npu"),
    ],
)
def test_a_layout_where_it_does_not_belong_is_refused_with_the_next_command(arguments, said):
    found = run("schema", *arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"perfguard: {said}")
    assert len(found.stderr.splitlines()) == 1
