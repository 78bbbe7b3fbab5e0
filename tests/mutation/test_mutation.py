"""The mutation suite in small: a seeded sample of it, and that its own parts do what they say."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readers.summary import read_records
from perfguard.contract import reading
from perfguard.findings import Severity
from perfguard.recording import read_recording
from perfguard.testing import generate
from tests.contract.together import inspect_together
from tests.mutation import records
from tests.mutation import run as suite
from tests.mutation import subjects as directories
from tests.mutation.freedoms import FREEDOMS, Freedom, freedom_of
from tests.mutation.operators import OPERATORS, Site, sites_of, view_of
from tests.mutation.run import Plan, Report, lines_of, run
from tests.mutation.sheets import applied, number_parts, sheet_of
from tests.mutation.subjects import Subject
from tests.mutation.values import values_of

CSV = 'Name,"Shapes, all",Start(us)\nadd,"[2, 3]",17.5\t\nmul,"a ""b""\r\nc",18\n'
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "Python"}},
    {"ph": "X", "name": "add", "pid": 7, "tid": 1, "ts": "17.5", "dur": 2, "args": {"Dims": [[2, 3], []]}},
    {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 7, "tid": 1, "ts": "17.5"},
]


def sites(tmp_path: Path, form: str, raw: bytes, *, stale: bytes | None = None, unit: str = "us") -> list[Site]:
    path = tmp_path / "file"
    path.write_bytes(raw)
    return sites_of(view_of(path, form, stale=stale, units=lambda column: unit, seed="0", sites=2))


def of(found: list[Site], operator: str) -> list[Site]:
    return [site for site in found if site.operator == operator]


class TestSheets:
    def test_a_csv_is_taken_apart_at_its_own_commas(self) -> None:
        sheet = sheet_of(CSV, "csv")
        assert [[sheet.of(cell) for cell in row.cells] for row in sheet.rows] == [
            ["add", '"[2, 3]"', "17.5\t"],
            ["mul", '"a ""b""\r\nc"', "18"],
        ]
        assert [cell.column for cell in sheet.rows[0].cells] == ["Name", '"Shapes, all"', "Start(us)"]

    def test_every_cell_of_a_trace_is_where_its_span_says(self) -> None:
        text = json.dumps(EVENTS, indent=1)
        sheet = sheet_of(text, "chrome-trace")
        found = {cell.column: json.loads(sheet.of(cell)) for row in sheet.rows for cell in row.cells}
        assert found["X:Python.ts"] == "17.5"
        assert found["M:process_name.args.name"] == "Python"
        assert found["s:fwdbwd.id"] == 1

    def test_what_is_cut_from_a_trace_leaves_json(self) -> None:
        text = json.dumps(EVENTS)
        sheet = sheet_of(text, "chrome-trace")
        for number, row in enumerate(sheet.rows):
            left = json.loads(applied(text, [(*row.cut, "")]))
            assert left == EVENTS[:number] + EVENTS[number + 1 :]

    def test_what_is_cut_from_a_document_leaves_json(self) -> None:
        text = json.dumps({"a": 1, "b": {"c": [1, {"d": None}], "e": "f"}})
        for part in sheet_of(text, "json").keys:
            json.loads(applied(text, [(*part.cut, "")]))

    def test_the_executions_of_an_operator_are_cells_of_its_line(self) -> None:
        sheet = sheet_of("a/b;HostCpuOps;10,0.5,0 20,0.25,0 \n", "cpu-op-timestamps")
        assert [(cell.column, sheet.of(cell)) for cell in sheet.rows[0].cells[2:5]] == [
            ("start", "10"),
            ("duration", "0.5"),
            ("thread", "0"),
        ]

    @pytest.mark.parametrize(
        ("text", "parts"),
        [("17.5\t", ("", "17.5", "\t")), ('"3"', ('"', "3", '"')), ("N/A", None), ("1e-05", ("", "1e-05", ""))],
    )
    def test_a_number_is_known_with_what_is_around_it(self, text: str, parts: tuple[str, str, str] | None) -> None:
        assert number_parts(text) == parts


class TestOperators:
    @pytest.mark.parametrize(
        ("form", "raw"),
        [
            ("csv", CSV.encode()),
            ("chrome-trace", json.dumps(EVENTS).encode()),
            ("json", json.dumps({"a": [1, 2], "b": {"c": "3"}}).encode()),
            ("columns", b"0 1 2 3 4\n1 16 2 0 4\n"),
            ("cpu-op-timestamps", b"a/b;HostCpuOps;10,0.5,0 20,0.25,0 \n"),
            ("log", b"one\ntwo\n"),
        ],
    )
    def test_every_site_changes_the_bytes(self, tmp_path: Path, form: str, raw: bytes) -> None:
        found = sites(tmp_path, form, raw, stale=b"another")
        assert found
        assert all(site.change(raw) != raw for site in found)

    def test_a_packed_trace_is_packed_again(self, tmp_path: Path) -> None:
        raw = gzip.compress(json.dumps(EVENTS).encode())
        dropped = of(sites(tmp_path, "chrome-trace", raw), "drop an event")[0].change(raw)
        assert len(json.loads(gzip.decompress(dropped))) == len(EVENTS) - 1

    def test_a_column_is_dropped_with_its_cells(self, tmp_path: Path) -> None:
        dropped = of(sites(tmp_path, "csv", b"a,b,c\n1,2,3\n"), "drop a column")
        assert [site.change(b"a,b,c\n1,2,3\n") for site in dropped] == [b"b,c\n2,3\n", b"a,c\n1,3\n", b"a,b\n1,2\n"]

    def test_a_unit_is_changed_in_the_whole_column(self, tmp_path: Path) -> None:
        raw = b"a(ms)\n1.5\n20\n0\n"
        changed = of(sites(tmp_path, "csv", raw), "a thousand times too large")[0].change(raw)
        assert changed == b"a(ms)\n1500.0\n20000\n0\n"

    def test_a_value_keeps_its_decimals(self, tmp_path: Path) -> None:
        raw = b"a\n1.50\n"
        assert of(sites(tmp_path, "csv", raw), "change a value by a tenth")[0].change(raw) == b"a\n1.65\n"

    def test_a_table_of_a_database_is_changed(self, tmp_path: Path) -> None:
        path = tmp_path / "some.db"
        with sqlite3.connect(path) as base:
            base.execute("create table TASK (startNs integer, endNs integer)")
            base.execute("insert into TASK values (1, 2)")
        base.close()
        raw = path.read_bytes()
        found = sites(tmp_path, "sqlite", raw)
        assert {"drop a table", "drop a column", "rename a column", "drop a row", "negate a value"} <= {
            site.operator for site in found
        }
        assert all(site.change(raw) != raw for site in found)

    def test_the_values_of_a_database_are_renamed_and_moved_in_time(self, tmp_path: Path) -> None:
        path = tmp_path / "some.db"
        with sqlite3.connect(path) as base:
            base.execute("create table TASK (name text, startNs integer)")
            base.executemany("insert into TASK values (?, ?)", [("add", 10), ("add", 20), ("mul", 30), ("mul", 40)])
        base.close()
        raw = path.read_bytes()
        found = sites(tmp_path, "sqlite", raw)

        def after(operator: str, column: str) -> list[Any]:
            site = next(site for site in of(found, operator) if site.column == f"TASK.{column}")
            path.write_bytes(site.change(raw))
            with closing(sqlite3.connect(path)) as base:
                return [value for (value,) in base.execute(f"select {column} from TASK order by rowid")]

        assert {"addx", "mulx"} & set(after("rename a value", "name"))
        assert after("second half of a column ahead", "startNs") == [10, 20, 330, 340]
        assert after("second half of a column back", "startNs") == [10, 20, 0, 10]
        assert min(after("move a value before the column", "startNs")) < 0
        assert after("one value in a whole column", "name") == ["add"] * 4

    def test_the_records_of_a_summary_are_changed_and_packed_again(self, tmp_path: Path) -> None:
        files = generate("summary", seed=1, ranks=1, conditions={}).files
        name, raw = next((name, raw) for name, raw in files.items() if name.endswith("_MS"))
        found = sites(tmp_path, "tfrecord", raw)

        def values(raw: bytes, column: str) -> list[Any]:
            return [one.value for one in records.parts_of(raw, column)]

        def after(operator: str, column: str) -> bytes:
            new = next(site for site in of(found, operator) if site.column == column).change(raw)
            (tmp_path / name).write_bytes(new)
            read_records(tmp_path / name, {})  # the checksums are right
            return new

        steps, times = values(raw, "step"), values(raw, "wall_time")
        assert any(tag.endswith(b"x") for tag in values(after("rename a value", "tag"), "tag"))
        assert max(values(after("move a value beyond the column", "step"), "step")) > max(steps)
        assert max(values(after("move a value beyond the column", "wall_time"), "wall_time")) > max(times)
        assert values(after("second half of a column back", "wall_time"), "wall_time")[-1] < times[-1]
        assert values(after("second half of the rows gone", ""), "wall_time") == times[:3]
        scaled = values(after("a thousand times too large", "scalar"), "scalar")
        assert scaled == pytest.approx([1000 * value for value in values(raw, "scalar")])

    def test_the_same_seed_makes_the_same_sites(self, tmp_path: Path) -> None:
        raw = json.dumps(EVENTS).encode()
        first, second = (sites(tmp_path, "chrome-trace", raw) for _ in range(2))
        assert [(site.operator, site.column, site.place) for site in first] == [
            (site.operator, site.column, site.place) for site in second
        ]

    def test_nothing_is_done_to_an_empty_file(self, tmp_path: Path) -> None:
        assert sites(tmp_path, "csv", b"") == []
        assert OPERATORS


class TestFreedoms:
    def test_brackets_of_a_path_are_no_classes(self) -> None:
        freedom = Freedom(mutator="*", column="a.[].b", freedom="")
        assert freedom.covers("drop a key", "any", "slot", "a.[].b")
        assert not freedom.covers("drop a key", "any", "slot", "a.].b")

    def test_every_freedom_is_of_a_writer_and_names_where(self) -> None:
        assert all((one.layout, one.slot, one.column) != ("*", "*", "*") for one in FREEDOMS)
        assert not [one for one in FREEDOMS if "no other file" in one.freedom]

    def test_a_file_may_be_dropped_by_its_name_only(self) -> None:
        slots = {one.id: {slot.name for slot in one.slots} for one in layouts()}
        for freedom in FREEDOMS:
            if freedom.mutator == "drop a file":
                names = slots if freedom.layout == "*" else freedom.layout.split("|")
                assert set(freedom.slot.split("|")) <= set().union(*(slots[name] for name in names)), freedom

    @pytest.mark.parametrize(
        ("layout", "slot", "column"),
        [
            ("ms-2.0", "step_trace_raw", "npu & graph & !heterogeneous & !dynamic_shape, and no option says it"),
            ("ms-2.0", "framework_raw", "npu & aicore & graph"),
            ("ms-1.x", "min_cycle_counter", "optional"),
            ("minddata", "dataset_iterator_profiling", "!sink, and no option says it"),
            ("memtrack", "task", "always"),
            ("cluster", "cluster_step_trace_time", "text"),
            ("pt-npu", "profiler_metadata", "optional"),
        ],
    )
    def test_that_no_other_file_says_so_makes_no_file_free(self, layout: str, slot: str, column: str) -> None:
        assert freedom_of("drop a file", layout, slot, column) is None

    def test_no_freedom_covers_a_measurement(self) -> None:
        assert freedom_of("change a value by a tenth", "pt-npu", "op_statistic", "Total Time(us)") is None
        assert freedom_of("drop a file", "pt-npu", "kernel_details", "always") is None


@pytest.mark.parametrize(
    ("name", "path", "layout", "family"),
    [
        ("ms-2.0,no-aicpu,ranks=3", "profiler/hccl_raw_2.csv", "ms-2.0", "Ascend text"),
        ("ms-2.0,cpu_device,ranks=1", "profiler/timeline_0.json", "ms-2.0", "MindSpore CPU"),
        ("ms-2.0,gpu,ranks=1", "profiler/gpu_framework_0.txt", "ms-2.0", "MindSpore GPU"),
        ("ms-dyn,plain,ranks=1", "trace_view.json", "ms-dyn", "MindSpore CPU"),
        ("mindspore-2.10-cpu-env", "trace_view.json", "ms-2.5+cpu", "MindSpore CPU"),
        ("mindspore-2.0-minddata", "pipeline_profiling_0.json", "minddata", "minddata"),
        ("torch-2.13-cpu-memory", "a.pt.trace.json", "pt-torch", "torch CPU"),
        ("hta-amd_mi250", "rank0.pt.trace.json.gz", "pt-torch", "torch GPU"),
        ("pt-npu,db,ranks=1", "analysis.db", "pt-npu", "databases"),
        ("cluster,db,ranks=1", "cluster_analysis.db", "cluster", "cluster output"),
    ],
)
def test_a_file_has_one_family(name: str, path: str, layout: str, family: str) -> None:
    assert directories.family_of(name, path, layout) == family


class TestValues:
    @pytest.mark.parametrize(
        ("form", "one", "two", "are_equal"),
        [
            ("json", b'{"a": 1, "b": [2]}', b'{"b":[2],"a":1}', True),
            ("json", b'{"a": [1, 2]}', b'{"a": [2, 1]}', False),
            ("chrome-trace", b'[{"ts": 1}, {"ts": 2}]', b'[{"ts": 2}, {"ts": 1}]', True),
            ("chrome-trace", b'[{"ts": 1}, {"ts": 2}]', b'[{"ts": 2}, {"ts": 2}]', False),
            ("csv", b"a,b\n1.0,2\n", b"b,a\n2,1.00\n", True),
            ("csv", b"a,b\n1,2\n", b"b,a\n1,2\n", False),
            ("log", b"a", b"b", False),
        ],
    )
    def test_a_mutant_equal_in_every_value_is_none(self, form: str, one: bytes, two: bytes, are_equal: bool) -> None:
        assert (values_of(one, form) == values_of(two, form)) is are_equal


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_suite_says_no_where_checks_are_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = directories.build(tmp_path, pattern="ms-2.5+cpu,plain,*", only_small=True)
    plan = Plan(files=1, limit=34)
    # What a run puts there is taken away with the test.
    monkeypatch.setattr(reading, "_read_version", reading._read_version)
    suite._begin(found, plan)
    clean = suite.survey_subject(0)
    files = suite.chosen_files([clean], found, plan)
    mutants = suite.chosen([mutant for file in files for mutant in suite.take_apart(file)], plan)
    whole = Report(found, [clean], suite.run_mutants(0, mutants, clean.findings, tmp_path))
    findings_of = suite.findings_of
    monkeypatch.setattr(suite, "findings_of", lambda *of: [one for one in findings_of(*of) if not one.check])
    blind = Report(found, [clean], suite.run_mutants(0, mutants, clean.findings, tmp_path))
    assert not whole.faults
    assert blind.rate < whole.rate - 0.05, (blind.rate, whole.rate)
    assert whole.fallen({"MindSpore CPU": whole.rate + 0.06})
    assert not whole.fallen({"MindSpore CPU": whole.rate})


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_sample_of_all_mutants_is_found_out(tmp_path: Path) -> None:
    found = directories.build(tmp_path, pattern="*", only_small=True)
    report = run(found, Plan(seed=Random().randrange(10**6), files=1, limit=120), work=tmp_path)
    told = "\n".join(lines_of(report))
    assert not report.faults, told
    assert 0 < report.rate < 1, told


#: Small real directories, one of a family.
SMALL = "mindspore-2.10-cpu-graph-steps2to4|mindspore-2.10-summary|hta-amd_mi250"


def test_small_real_directories_are_not_blamed(tmp_path: Path) -> None:
    corpus = directories.corpus_directory() or directories.RECORDINGS.parent
    found = list(directories.real(tmp_path, corpus, SMALL))
    assert found
    assert not blamed(found)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_unmutated_directories_are_not_blamed(tmp_path: Path) -> None:
    corpus = directories.corpus_directory() or directories.RECORDINGS.parent
    found = [*directories.build(tmp_path, pattern="*,plain,*"), *directories.real(tmp_path, corpus, "*")]
    assert any(not subject.is_generated for subject in found)
    assert not blamed(found)


def blamed(found: list[Subject]) -> list[tuple[str, str]]:
    """Return the errors of undamaged directories."""
    recordings = [read_recording(subject.directory) for subject in found]
    contracts = inspect_together(recordings, [subject.expected for subject in found])
    return [
        (subject.name, f"{finding.code.name} {finding.place}: {finding.message}")
        for subject, contract in zip(found, contracts, strict=True)
        for finding in contract.findings
        if finding.severity is Severity.ERROR
    ]
