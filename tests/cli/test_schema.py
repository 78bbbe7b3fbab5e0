"""`perfguard schema list | show`."""

from __future__ import annotations

import json

import pytest

from perfguard.documents import schema, schema_names, schemas_directory
from tests.cli import run


def test_list_names_every_schema_file():
    found = run("schema", "list")
    assert found.exit_code == 0
    listed = [line.split()[0] for line in found.stdout.splitlines()[2:]]
    files = {path.name.removesuffix(".schema.json") for path in schemas_directory().rglob("*.schema.json")}
    assert sorted(listed) == sorted(files)


@pytest.mark.parametrize(
    "name, where, title",
    [
        ("torch_trace", "pt-torch: *.pt.trace.json*", "Trace of torch.profiler (Kineto)"),
        ("cpu_op_type_info", "ms-2.5+cpu: FRAMEWORK/cpu_op_type_info_{rank}.csv", "Operators that ran on the host CPU"),
        ("baseline", "perfguard's own", "Baseline of one test"),
    ],
)
def test_list_says_where_a_schema_is_used_and_what_it_describes(name, where, title):
    line = next(line for line in run("schema", "list").stdout.splitlines() if line.startswith(f"{name} "))
    assert where in line
    assert title in line


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
    line = next(line for line in run("schema", "show", name).stdout.splitlines() if line.startswith(f"{column} "))
    position = 0
    for part in others:
        position = line.index(part, position) + len(part)


@pytest.mark.parametrize(
    "name, hint",
    [
        ("baselin", "did you mean 'baseline'?"),
        ("torch-trace", "did you mean 'torch_trace'?"),
        ("zzz", "list them with: perfguard schema list"),
        ("", "list them with: perfguard schema list"),
        ("../pyproject", "list them with: perfguard schema list"),
        ("\x1b[31m", "list them with: perfguard schema list"),
    ],
)
def test_an_unknown_schema_is_refused_with_the_nearest(name, hint):
    found = run("schema", "show", name)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == f"perfguard: There is no schema named {name!r}; {hint}\n"
