"""What other distributions add: every kind in use, and every way in which one can be wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.distributions import TOY, TOY_ENTRIES, add_distribution, python_path
from tests.plugin.conftest import RECORDINGS, Project

#: Recording and judging a step, exactly.
STEP = """
import perfguard as pg
import pytest

@pytest.mark.perfguard(backend="toyframe", window=pg.StepWindow(skip_first=0, warmup=0, active=2), timed_steps=1)
def test_step(perfguard):
    perfguard(lambda: None)
"""


def python(*arguments: str, place: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=place,
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture
def toy(tmp_path) -> dict[str, str]:
    """Return the environment in which perfguard-toy is installed."""
    add_distribution(tmp_path / "site", "perfguard-toy", TOY_ENTRIES)
    return python_path(tmp_path / "site", TOY)


# -- each kind in use ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_file_is_written_in_a_format_from_outside(tmp_path, toy):
    project = Project(tmp_path / "project")
    project.replays(test_one="torch-mlp")
    assert project.run("--perfguard-update").status == 0
    run = project.run("--perfguard", "--perfguard-out=one-line:o/out.txt", "--perfguard-out=markdown:o/out.md", env=toy)
    assert run.status == 0, run.text
    assert (project.directory / "o" / "out.txt").read_text() == "PASSED test_a.py::test_one\n"
    assert (project.directory / "o" / "out.md").read_text().startswith("### perfguard")
    assert f"report: {project.directory}/o/out.txt" in run.out


@pytest.mark.exhaustive
def test_commands_write_it_as_well(tmp_path, toy):
    recording = str(RECORDINGS / "torch-mlp")
    for command in ("check", "report"):
        file = tmp_path / f"{command}.txt"
        done = python("-m", "perfguard", command, recording, "--out", f"one-line:{file}", place=tmp_path, env=toy)
        assert done.returncode == 0, done.stderr
        assert file.read_text().startswith("PASSED ")


@pytest.mark.parametrize(
    ("rows", "status", "said"),
    [
        ("step 2\nepoch 1\n", 0, "PASSED"),
        ("step 2\nepoch -1\n", 3, "S103 a value breaks the schema: line 3 $.count: -1 is less than the minimum of 0"),
        ("step two\n", 3, "S103 a value breaks the schema: line 2 $.count: 'two' is not of type 'integer'"),
        ("step 2", 3, "line 1: its last line is cut off"),
    ],
)
@pytest.mark.variants(1)
def test_a_file_is_found_read_and_validated_with_parts_from_outside(tmp_path, toy, rows, status, said):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.toy").write_text(rows)
    done = python("-m", "perfguard", "check", "out", place=tmp_path, env=toy)
    assert done.returncode == status, done.stderr
    assert said in done.stdout
    assert "toy: " in done.stdout


@pytest.mark.parametrize(
    ("rows", "status", "said"),
    [
        ("mm,4,10.0,2.5\nadd,1,0.5,0.5\n", 0, "PASSED"),
        ("mm,4,10.0,2.4\n", 3, "line 2: mm: 4 calls of 2.4 us are not 10 us"),
        ("mm,1,2.5,2.5\nmm,1,2.5,2.5\n", 3, "line 3: mm has a second row"),
    ],
)
@pytest.mark.exhaustive
def test_a_table_with_its_checks_is_a_slot_a_schema_and_queries(tmp_path, toy, rows, status, said):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "toy_timings.csv").write_text(f"Name,Calls,Total Time(us),Mean(us)\n{rows}")
    done = python("-m", "perfguard", "check", "out", place=tmp_path, env=toy)
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout
    mean = python(
        "-m", "perfguard", "sql", "out", "select max(mean_ns) as most from toy_timings", place=tmp_path, env=toy
    )
    assert mean.stdout.split()[-1] == str(int(max(float(row.split(",")[3]) for row in rows.split()) * 1000))


def test_layouts_and_schemas_from_outside_are_listed(tmp_path, toy):
    listed = python("-m", "perfguard", "schema", "list", "toy", place=tmp_path, env=toy)
    assert "toy_counts" in listed.stdout
    assert (
        "toy_counts: Counts by name"
        in python("-m", "perfguard", "schema", "show", "toy_counts", place=tmp_path, env=toy).stdout
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_step_is_recorded_by_a_backend_from_outside_and_kept_in_a_store_from_outside(tmp_path, toy):
    project = Project(tmp_path / "project")
    project.settings('store = "cellar"')
    project.write("test_a.py", STEP)
    run = project.run("--perfguard-update", "--perfguard-time=off", "--perfguard-recordings=recordings", env=toy)
    assert run.status == 0, run.text
    (kept,) = (project.directory / "baselines").rglob("*.json")
    assert kept.parent.name == "cellar"
    assert json.loads(kept.read_text())["fingerprint"]["backend"] == "toyframe"
    (written,) = (project.directory / "recordings").rglob("*.toy")
    assert written.read_text() == "step 2\n"
    run = project.run("--perfguard", "--perfguard-time=off", env=toy)
    # The baseline is read; of this file nothing is measured.
    assert "it holds nothing that could be compared with this recording" in run.out
    shown = python("-m", "perfguard", "baseline", "show", place=project.directory, env=toy)
    assert "test_a.py::test_step" in shown.stdout


# -- what is wrong ---------------------------------------------------------------------------------------------------

USES = {
    "backends": "from perfguard.capture import backend; backend('mine')",
    "dialects": "from perfguard.artifacts.layout import layouts; layouts()",
    "readers": "from perfguard.artifacts.readers import READERS; READERS['mine']",
    "reporters": "from perfguard.reports import report_file; from pathlib import Path; "
    "report_file('mine', Path('x'), option='--out FORMAT:FILE').write(None)",
    "stores": "from pathlib import Path; from perfguard.stores import STORES; STORES['mine'](Path('x'))",
}
CAUGHT = """
from perfguard.errors import UsageError
try:
    {}
except UsageError as error: print(error)
else: print('nothing is wrong')
"""
TRACE = {"slot": "events", "queries": ["mine"], "kind": "type"}


def layout(**changes: Any) -> str:
    """Return a layout of one trace, as a file has it."""
    whole = {
        "format": 1,
        "id": "mine",
        "title": "t",
        "source": "s",
        "order": 1,
        "cycle": "file",
        "recognise": [{"name": "x"}],
    }
    return json.dumps({key: value for key, value in {**whole, **changes}.items() if value is not None})


def said_of(place: Path, code: str, *distributions: dict[str, dict[str, str]], files: dict[str, str]) -> str:
    """Return what perfguard says of distributions called `one`, `two`, ... whose files lie on the path."""
    for name, entries in zip(("one", "two"), distributions, strict=False):
        add_distribution(place, name, entries)
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    done = python("-c", CAUGHT.format(code), place=place, env=python_path(place))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("group", ["backends", "readers", "reporters", "stores"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "import nothing_of_that_name",
            "cannot be loaded: ModuleNotFoundError: No module named 'nothing_of_that_name'.",
        ),
        ("1 / 0", "cannot be loaded: ZeroDivisionError: division by zero."),
        ("other = 1", "cannot be loaded: AttributeError: module 'mine_module' has no attribute 'part'."),
        ("part = 1", "must be a class or a function, got int."),
    ],
)
@pytest.mark.variants(2)
def test_a_part_that_cannot_be_loaded_is_one_sentence(tmp_path, group, text, said):
    found = said_of(tmp_path, USES[group], {group: {"mine": "mine_module:part"}}, files={"mine_module.py": text})
    whose = f"the entry point 'mine' (mine_module:part) of one in perfguard.{group} "
    assert found == f"{whose}{said} Update it, or run: pip uninstall one\n"


@pytest.mark.parametrize(
    ("group", "code"),
    [*USES.items(), ("readers", "from perfguard.artifacts.readers import READERS; list(READERS)")],
)
@pytest.mark.variants(2)
def test_one_name_in_two_distributions_is_one_sentence(tmp_path, group, code):
    entries = {group: {"mine": "mine_module:part"}}
    found = said_of(tmp_path, code, entries, entries, files={"mine_module.py": "part = str"})
    assert found == f"one and two both have an entry point 'mine' in perfguard.{group}. Uninstall one of them.\n" or (
        found == f"two and one both have an entry point 'mine' in perfguard.{group}. Uninstall one of them.\n"
    )


@pytest.mark.parametrize(
    ("group", "name"), [("backends", "torch"), ("readers", "json"), ("reporters", "json"), ("stores", "directory")]
)
@pytest.mark.variants(1)
def test_a_built_in_part_cannot_be_replaced(tmp_path, group, name):
    code = f"from perfguard.extensions import Registry; {USES[group]}"
    entries = {group: {name: "mine_module:part", "mine": "mine_module:part"}}
    found = said_of(tmp_path, code, entries, files={"mine_module.py": "part = str"})
    assert (
        f"the entry point '{name}' (mine_module:part) of one in perfguard.{group} has the name of a built-in part"
        in found
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "class part:\n    pass",
            "the reporter 'mine' has no method text(report); correct it, or leave out --out FORMAT:FILE.",
        ),
        (
            "class part:\n    def __init__(self): raise OSError('no disk')",
            "the reporter 'mine' failed (OSError: no disk); correct it, or leave out --out FORMAT:FILE.",
        ),
        (
            "class part:\n    def text(self, report): return report.verdicts",
            "the reporter 'mine' failed (AttributeError: 'NoneType' object has no attribute 'verdicts'); "
            "correct it, or leave out --out FORMAT:FILE.",
        ),
    ],
)
@pytest.mark.variants(1)
def test_a_reporter_that_fails_is_one_sentence(tmp_path, text, said):
    entries = {"reporters": {"mine": "mine_module:part"}}
    assert said_of(tmp_path, USES["reporters"], entries, files={"mine_module.py": text}) == said + "\n"


@pytest.mark.parametrize(
    ("value", "files", "said"),
    [
        ("nothing.of_that_name", {}, "cannot be found: ModuleNotFoundError: No module named 'nothing'"),
        ("mine_module", {"mine_module.py": ""}, "must name a package (a folder of files)."),
        ("mine:folder", {"mine/layouts/l.json": layout()}, "must name a package (a folder of files)."),
        ("mine", {"mine/layouts/l.json": "{"}, "l.json is not a layout in JSON: "),
        ("mine", {"mine/layouts/l.json": "[]"}, "l.json must be a layout, a JSON object, got list."),
        ("mine", {"mine/layouts/l.json": layout(order=None)}, "l.json is not a layout: $ 'order' is a required prop"),
        ("mine", {"mine/layouts/l.json": layout(id="pt-torch")}, "l.json has the id of another layout, 'pt-torch'"),
        (
            "mine",
            {"mine/layouts/l.json": layout(), "mine/layouts/m.json": layout()},
            "m.json has the id of another layout, 'mine'; rename it.",
        ),
        ("mine", {"mine/layouts/l.json": layout()}, "nothing is wrong"),
    ],
)
@pytest.mark.variants(3)
def test_a_dialect_that_is_wrong_is_one_sentence(tmp_path, value, files, said):
    found = said_of(tmp_path, USES["dialects"], {"dialects": {"mine": value}}, files=files)
    assert said in found
    assert found.count("\n") == 1


@pytest.mark.parametrize("name", ["torch_trace", "baseline"])
def test_a_schema_of_perfguard_cannot_be_replaced(tmp_path, name):
    files = {
        f"mine/artifacts/{name}.schema.json": '{"title": "mine"}',
        "mine/artifacts/other.schema.json": '{"title": "o"}',
    }
    entries = {"dialects": {"mine": "mine"}}
    code = "from perfguard.documents import schema; schema('other')"
    assert f"{name}.schema.json has the same name as a schema of perfguard" in said_of(
        tmp_path, code, entries, files=files
    )
    own = f"from perfguard.documents import schema; assert schema('{name}')['title'] != 'mine'"
    assert python("-c", own, place=tmp_path, env=python_path(tmp_path)).returncode == 0


@pytest.mark.parametrize(
    ("tables", "files", "said"),
    [
        (
            TRACE,
            {"mine/views.sql": "create view v as selec 1"},
            "the views.sql of the dialect 'mine' cannot be used: Parser Error:",
        ),
        (
            TRACE,
            {"mine/views.sql": "create view operators as select 1"},
            "the views.sql of the dialect 'mine' cannot be used: operators is a table that all dialects fill;",
        ),
        (
            TRACE,
            {"mine/executions.sql": "select 1"},
            "mine/executions.sql says what ran, and there is no mine/steps.sql;",
        ),
        (
            TRACE,
            {"mine/executions.sql": "select 1", "mine/steps.sql": "select * from nowhere"},
            "mine/steps.sql cannot be run: Catalog Error: Table with name nowhere does not exist!",
        ),
        (
            TRACE,
            {"mine/executions.sql": "select cycle from view_spans", "mine/steps.sql": "from steps"},
            "mine/steps.sql cannot be run: Binder Error:",
        ),
        (
            TRACE,
            {
                "mine/executions.sql": "select cycle from view_spans",
                "mine/steps.sql": "select cycle, start_ns, duration_ns, 0 as number, thread from view_spans",
            },
            "mine/executions.sql cannot be run: Binder Error:",
        ),
        (
            {**TRACE, "queries": ["trade"]},
            {},
            "A layout names the queries 'trade', and no folder of dialects has them;",
        ),
    ],
)
@pytest.mark.variants(1)
def test_queries_that_are_wrong_are_one_sentence(tmp_path, tables, files, said):
    slot = {"name": "events", "path": "*.x", "format": "chrome-trace", "schema": "trace_view_cpu"}
    files = {**files, "mine/layouts/l.json": layout(tables=tables, slots=[slot], recognise=[{"name": r"\.x$"}])}
    (tmp_path / "out").mkdir()
    event = {"ph": "X", "name": "a", "pid": 0, "tid": 0, "ts": "1.0", "dur": "1.0", "args": {}}
    (tmp_path / "out" / "a.x").write_text(json.dumps([event]))
    code = "from perfguard.capture.replay import replay; from perfguard.contract import inspect; from pathlib import Path; "
    code += "inspect(replay(Path('out')))"
    found = said_of(tmp_path, code, {"dialects": {"mine": "mine"}}, files=files)
    assert found.startswith(said)
    assert found.count("\n") == 1


@pytest.mark.parametrize(
    ("requested", "said"),
    [
        (
            "sarif",
            "--perfguard-out takes FORMAT:FILE, such as json:report.json, got 'sarif'; formats are terminal, json,",
        ),
        (":x", "--perfguard-out takes FORMAT:FILE, such as json:report.json, got ':x'"),
        ("jsn:x", "There is no 'jsn' in perfguard.reporters; did you mean 'json'?"),
        ("json:.", "is a directory. Name a file with --perfguard-out FORMAT:FILE."),
    ],
)
@pytest.mark.slow
@pytest.mark.variants(1)
def test_a_file_that_cannot_be_requested_is_refused_before_anything_runs(tmp_path, requested, said):
    project = Project(tmp_path / "project")
    project.replays(test_one="torch-mlp")
    run = project.run("--perfguard", f"--perfguard-out={requested}")
    assert run.status == 4
    assert said in run.err
    assert "test_a.py" not in run.out


# -- what it costs where nothing is added ----------------------------------------------------------------------------


def test_entry_points_are_not_looked_up_for_built_in_parts():
    code = (
        "from perfguard.artifacts.readers import READERS; from perfguard.capture import BACKENDS; "
        "from perfguard.reports import REPORTERS; from perfguard.stores import STORES; from perfguard.documents import schema; "
        "READERS['log'], REPORTERS['json'], STORES['directory'], 'torch' in BACKENDS, schema('baseline'); "
        "from perfguard import extensions; print(extensions._entries.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
