"""The benchmarks: what that of reading scales is still what a profiler would have written, and that of the history runs."""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import history
from benchmarks.agreement import __main__ as agreement
from benchmarks.agreement.plants import ALL, PLANTS, TESTS
from benchmarks.reading import inputs, jobs, process, report, scaling, sources
from perfguard.artifacts.readers import READERS
from perfguard.artifacts.schema import RowSchema, row_schema
from perfguard.cli import cli
from perfguard.documents import schema
from perfguard.testing import generate
from tests.artifacts.reading import read_file

RECORDING = Path(__file__).parent / "data/recordings/torch-mlp/profiler"
MB = 10**6


@pytest.fixture(scope="module")
def torch_source() -> Path:
    (found,) = RECORDING.glob("*.pt.trace.json")
    return found


@pytest.fixture(scope="module")
def ascend_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    conditions = {"level1": True, "memory": True}
    tree = generate("pt-npu", seed=1, ranks=1, steps=2, operators=20, conditions=conditions)
    written = Path(tree.write(tmp_path_factory.mktemp("ascend")))
    (found,) = written.rglob("trace_view.json")
    return found


def events_of(path: Path) -> list[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        document = json.load(file)
    return document["traceEvents"] if isinstance(document, dict) else document


def test_one_repetition_is_the_source_itself(torch_source: Path, tmp_path: Path) -> None:
    text = torch_source.read_text(encoding="utf-8")
    scaling.Trace(text).write(tmp_path / "one.json", repetitions=1)
    assert (tmp_path / "one.json").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.variants(1)
def test_a_scaled_torch_trace_passes_the_check(torch_source: Path, tmp_path: Path, suffix: str) -> None:
    trace = scaling.Trace(torch_source.read_text(encoding="utf-8"))
    repetitions = trace.repetitions_of(MB)
    path = tmp_path / (scaling.named_after_its_end(torch_source.name, trace, repetitions) + suffix)
    written = trace.write(path, repetitions=repetitions, compress=bool(suffix))
    events = events_of(path)
    assert written.rows == len(events) == trace.said_once + trace.repeated * repetitions
    assert suffix or abs(written.bytes - MB) < 0.2 * MB
    done = CliRunner().invoke(cli, ["check", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output == f"PASSED {tmp_path} (pt-torch: 1 rank, 1 cycle, 1 file, {written.rows} rows)\n"


def test_ids_steps_and_marks_of_a_scaled_torch_trace(torch_source: Path, tmp_path: Path) -> None:
    trace = scaling.Trace(torch_source.read_text(encoding="utf-8"))
    before = events_of(torch_source)
    trace.write(tmp_path / "trace.json", repetitions=3)
    events = events_of(tmp_path / "trace.json")
    numbered = sorted(event["args"]["Ev Idx"] for event in events if "Ev Idx" in event.get("args", {}))
    assert numbered == list(range(len(numbered)))
    operators = [event["args"]["External id"] for event in events if event.get("cat") == "cpu_op"]
    assert len(set(operators)) == len(operators)
    flows = Counter(event["id"] for event in events if event["ph"] in "sf")
    assert set(flows.values()) == {2}
    steps = [event["name"] for event in events if event["name"].startswith("ProfilerStep#")]
    first = min(int(name.partition("#")[2]) for name in steps)
    assert steps == [f"ProfilerStep#{first + number}" for number in range(len(steps))]
    for said_once in ("process_name", "PyTorch Profiler (0)", "Record Window End"):
        count = sum(event["name"] == said_once for event in before)
        assert sum(event["name"] == said_once for event in events) == count > 0


def test_a_scaled_ascend_trace_is_valid_and_joined(ascend_source: Path, tmp_path: Path) -> None:
    written = scaling.scale_trace(ascend_source, tmp_path / "trace_view.json", MB)
    events = events_of(tmp_path / "trace_view.json")
    before = events_of(ascend_source)
    assert "\n" not in (tmp_path / "trace_view.json").read_text(encoding="utf-8").strip()
    assert written.rows == len(events)
    rules = schema("artifacts/trace_view.pt")
    table = READERS["chrome-trace"](tmp_path / "trace_view.json", rules).table
    assert table is not None
    assert RowSchema(row_schema(rules), rules).invalid_rows(table) == []
    said_once = sum(event["ph"] == "M" for event in before)
    assert sum(event["ph"] == "M" for event in events) == said_once
    assert len(events) == said_once + (len(before) - said_once) * written.repetitions
    # As many ends of flows of a category as in the source, and none of two repetitions has one id.
    assert flows_of(events) == {key: count * written.repetitions for key, count in flows_of(before).items()}
    for event in events:
        if event["name"].startswith("HostToDevice"):
            assert event["name"] == f"HostToDevice{event['id']}"
        if event.get("cat") == "async_npu" and event["ph"] == "f":
            assert event["id"] == int(event["ts"].replace(".", ""))
    lanes = {(event["pid"], event.get("tid")) for event in before}
    assert {(event["pid"], event.get("tid")) for event in events} == lanes


def flows_of(events: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    """Count the flows by category and by how many ends they have."""
    ends = Counter((event["cat"], event["id"]) for event in events if event["ph"] in "sf")
    return Counter((category, count) for (category, _), count in ends.items())


@pytest.mark.parametrize("kind", ["torch", "ascend"])
def test_every_broken_event_is_found_and_no_other(
    kind: str, torch_source: Path, ascend_source: Path, tmp_path: Path
) -> None:
    source, name = {
        "torch": (torch_source, "artifacts/torch_trace"),
        "ascend": (ascend_source, "artifacts/trace_view.pt"),
    }[kind]
    written = scaling.scale_trace(source, tmp_path / "trace.json", 3 * MB, bad=True)
    # All ways of breaking one.
    assert written.bad >= 6
    assert written.bad == pytest.approx(written.rows / 1000, abs=2)
    rules = schema(name)
    table = READERS["chrome-trace"](written.path, rules).table
    assert table is not None
    assert len(RowSchema(row_schema(rules), rules).invalid_rows(table)) == written.bad


@pytest.mark.parametrize("bad", [False, True])
def test_scaled_kernels(ascend_source: Path, tmp_path: Path, bad: bool) -> None:
    source = ascend_source.with_name("kernel_details.csv")
    written = scaling.scale_kernels(source, tmp_path / "kernel_details.csv", 7500, bad=bad)
    with source.open(newline="", encoding="utf-8") as file:
        before = list(csv.DictReader(file))
    with written.path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert written.rows == len(rows) == 7500
    rules = schema("artifacts/kernel_details.level1")
    content = read_file("csv", written.path, rules)
    assert content.table is not None
    row = {**row_schema(rules), "required": [], "additionalProperties": True}
    assert len(RowSchema(row, rules).invalid_rows(content.table)) == written.bad == (7 if bad else 0)
    if bad:
        return
    assert rows[: len(before)] == before
    keys = Counter((one["Step Id"], one["Task ID"], one["Stream ID"], one["Start Time(us)"]) for one in rows)
    assert max(keys.values()) == max(Counter((one["Task ID"], one["Start Time(us)"]) for one in before).values())


def test_what_is_measured_runs_and_counts(torch_source: Path, ascend_source: Path) -> None:
    kernels = ascend_source.with_name("kernel_details.csv")
    trace = jobs.perfguard_trace(torch_source, "artifacts/torch_trace")
    assert trace["rows"] == jobs.orjson_loads(torch_source)["rows"]
    assert trace["operators"]
    assert trace["steps"]
    assert 0 < trace["self_ns"] <= trace["total_ns"]
    with kernels.open(newline="", encoding="utf-8") as file:
        rows = sum(1 for _ in csv.DictReader(file))
    metrics = jobs.perfguard_table_metrics(kernels, "artifacts/kernel_details.level1")
    assert jobs.perfguard_table(kernels, "artifacts/kernel_details.level1")["rows"] == metrics["rows"] == rows
    assert metrics["calls"] == rows
    assert metrics["total_ns"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ranks-3", "gpu-1", "gpu-1-other"])
@pytest.mark.exhaustive
def test_made_directories_pass_the_check(name: str, tmp_path: Path) -> None:
    found = inputs.prepared(name, tmp_path)
    done = CliRunner().invoke(cli, ["check", str(found.directory)])
    assert done.exit_code == 0, done.output
    assert done.output.count("\n") == 1
    assert f"{found.facts['rows']} rows" in done.output


def test_an_unknown_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="trace-gpu-1 is no input"):
        inputs.make("trace-gpu-1", tmp_path)


def test_the_gpu_trace_says_that_it_is_made(tmp_path: Path) -> None:
    found = sources.gpu_trace(tmp_path)
    assert found.origin.startswith("made")
    events = events_of(found.path)
    launched = {event["args"]["correlation"] for event in events if event["name"] == "cudaLaunchKernel"}
    assert {event["args"]["correlation"] for event in events if event.get("cat") == "kernel"} == launched


MEASURED = {
    "job": "trace",
    "mb": 10.0,
    "title": "torch trace",
    "reference": "orjson.loads",
    "target": {"perfguard": 0.25},
    "candidates": [
        {"name": "perfguard", "failure": None, "rounds": [{"cpu_s": 1.0}, {"cpu_s": 2.0}, {"cpu_s": 9.0}]},
        {"name": "orjson.loads", "failure": None, "rounds": [{"cpu_s": 4.0}]},
        {"name": "sampled", "failure": None, "rounds": [{"cpu_s": 40.0, "found": {"sampled": 10}}]},
        {"name": "too large", "failure": "more than 2.0 GB", "rounds": [{"cpu_s": 4.0}]},
    ],
}


def test_the_table_has_medians_ratios_and_failures() -> None:
    blank = {"cpu_before_s": 0.0, "wall_s": 1.0, "peak_bytes": 30e6, "tree_peak_bytes": 60e6, "found": {}}
    case = {
        **MEASURED,
        "candidates": [
            {**one, "rounds": [{**blank, **measured} for measured in one["rounds"]]} for one in MEASURED["candidates"]
        ],
    }
    machine = {"cpu": "a CPU", "cores": 2, "memory_bytes": 8e9, "system": "Linux", "python": "3.12.0"}
    shown = report.text(
        {"machine": machine, "rounds": 3, "packages": {}, "peers": {}, "left_out": ["peers"], "cases": [case]}
    )
    rows = {line.split("  ")[0]: " ".join(line.split()) for line in shown.splitlines()}
    assert rows["perfguard"] == "perfguard 2.000 0.50 x 0.25 x 0.50 x 1.000 - 9.000 1.000 (1.00 x) 30 (60) 5.0"
    assert rows["sampled"] == "sampled ≈ 40.0 10.00 x 40.0 - 40.0 30 (60)"
    assert "more than 2.0 GB" in shown
    assert shown.endswith("left out: peers")


def spent_by(code: str, tmp_path: Path, *, memory_limit: int = 10**10, time_limit_s: float = 60.0) -> process.Spent:
    return process.spend(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        environment=dict(os.environ),
        memory_limit=memory_limit,
        time_limit_s=time_limit_s,
    )


BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"


@pytest.mark.slow
def test_what_a_process_takes_counts_its_children(tmp_path: Path) -> None:
    code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\n{BUSY}print('{{\"rows\": 7}}')"
    found = spent_by(code, tmp_path)
    assert (found.status, found.failure, found.said) == (0, None, {"rows": 7})
    assert found.cpu_s >= 0.6
    assert found.tree_peak_bytes >= found.peak_bytes > 5 * MB


@pytest.mark.slow
@pytest.mark.parametrize(
    "code, limits, failure",
    [
        ("import time; held = b'x' * 300_000_000; time.sleep(60)", {"memory_limit": 200 * MB}, "more than 0.2 GB"),
        ("import time; time.sleep(60)", {"time_limit_s": 0.5}, "more than the time limit"),
        ("import os; os.abort()", {}, "killed by signal 6"),
        ("raise SystemExit(3)", {}, None),
    ],
)
def test_a_process_that_goes_beyond_a_limit_is_ended(
    code: str, limits: dict[str, Any], failure: str | None, tmp_path: Path
) -> None:
    found = spent_by(code, tmp_path, **limits)
    assert found.failure == failure
    assert found.status == (3 if failure is None else found.status)
    assert found.status != 0


# -- the history -------------------------------------------------------------------------------------------------------


def test_the_runs_of_the_history_have_as_many_numbers_as_asked_for() -> None:
    found = history.entry(1, 50)
    # And one more, which an entry computes of them: the step time.
    assert [len(one.numbers) for one in found.workloads] == [10 + 1] * 5
    assert sum(one.metric == "operator_time" for one in found.workloads[0].numbers) == 2
    assert history.entry(1, 50) == found != history.entry(2, 50)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_the_benchmark_of_the_history_prints_all_it_measures(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "postgres" and history.programs() is None:
        pytest.skip("PostgreSQL is not installed here: apt-get install postgresql")
    monkeypatch.setattr(history, "ROUNDS", 1)
    head, size, *lines = history.report_on(kind, 3, 20, tmp_path)
    assert "3 runs of 20 measurements, 60 in all" in head
    assert "bytes a measurement" in size
    assert len(lines) == 9
    assert all(" s " in line and line.endswith(" x") for line in lines)


# -- agreement ---------------------------------------------------------------------------------------------------------


def test_every_planted_change_can_be_made_and_is_python(tmp_path: Path) -> None:
    base = tmp_path / "base"
    agreement.new_project(base)
    gates = (base / TESTS).read_text(encoding="utf-8")
    assert set(ALL) == {line[9 : line.index("(")] for line in gates.splitlines() if line.startswith("def test_")}
    assert len({plant.name for plant in PLANTS}) == len(PLANTS)
    for plant in PLANTS:
        changed = agreement.planted(plant, base, tmp_path / plant.name)
        files = {file: (changed / file).read_text(encoding="utf-8") for file, _, _ in plant.edits}
        assert all(text != (base / file).read_text(encoding="utf-8") for file, text in files.items())
        for file, text in files.items():
            compile(text, file, "exec")
        assert all(f"def test_{test}(" in (changed / TESTS).read_text(encoding="utf-8") for test in plant.tests)


@pytest.mark.parametrize(
    "summary, wrong",
    [
        ("FAILED test 25.2 → 40.2 ms +59.5 %", []),
        ("FAILED test 25.2 → 40.2 ms +38.7 %", ["the summary does not show +59.5 %"]),
        ("FAILED test 25.2 → 40.2 ms, +59.5 %; 12.0 → 35.6 ms, +196.7 %", ["also shows 12.0 → 35.6 ms, +196.7 %"]),
        ("FAILED test 25.2 → 40.2 ms, +59.5 %, cost 1.2 units", ["terminal says 'units'"]),
    ],
)
def test_more_than_one_time_of_a_test_is_found(summary: str, wrong: list[str]) -> None:
    told = "FAILED: R101 step 25.2 → 40.2 ms, +59.5 %"
    output = f"E  Failed: perfguard {told}\n= perfguard =\n{summary}"
    found = agreement.Run(status=1, output=output, junit=told, markdown=told, workloads=(), added=())
    said = list(agreement.several_times(found))
    assert len(said) >= len(wrong)
    assert all(any(part in line for line in said) for part in wrong)
    assert wrong or not said
