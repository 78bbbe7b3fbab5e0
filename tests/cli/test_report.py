"""`perfguard report` and `perfguard view`: what runs came to, as files."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from perfguard.reports.document import report_json
from perfguard.reports.reading import read_run
from tests.cli import TORCH, run, stored
from tests.facts import RECORDINGS
from tests.reports import runs_to_show as show


@cache
def text_of_a_report() -> str:
    return report_json(show.run_of(show.failing(), show.passing()))


@pytest.fixture
def report(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "report.json"
    path.write_text(text_of_a_report(), encoding="utf-8")
    return path


def test_without_an_option_the_page_is_written(report):
    found = run("report", report)
    assert (found.exit_code, found.stdout) == (0, "html: perfguard.html\n")
    page = Path("perfguard.html").read_text(encoding="utf-8")
    assert "A step became slower: 147 → 294\N{NO-BREAK SPACE}us" in page


def test_every_form_is_written_where_it_is_asked_for(report, tmp_path):
    found = run(
        "report", report, "--html", "a/p.html", "--markdown", "m.md", "--metrics", "x.txt", "--json", "again.json"
    )
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == ["html: a/p.html", "markdown: m.md", "metrics: x.txt", "json: again.json"]
    assert (tmp_path / "again.json").read_bytes() == report.read_bytes()
    assert (tmp_path / "m.md").read_text().startswith("### perfguard: ❌ 1 failed, ✅ 1 passed")
    assert (tmp_path / "x.txt").read_text().endswith("# EOF\n")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_page_names_no_recording_that_is_gone_and_a_joined_report_keeps_its_name(tmp_path, monkeypatch, is_there):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "recording"
    if is_there:
        place.mkdir()
    gone = replace(show.failing(), recording=place)
    Path("r.json").write_text(report_json(show.run_of(gone)), encoding="utf-8")
    assert run("report", "r.json", "--html", "p.html", "--markdown", "m.md", "--json", "again.json").exit_code == 0
    command = f"perfguard view {place}"
    assert (command in Path("m.md").read_text()) is is_there
    assert ("perfguard view recordings/*" in Path("m.md").read_text()) is not is_there
    assert ("recording: <code>" in Path("p.html").read_text()) is is_there
    (again,) = read_run(Path("again.json")).verdicts
    assert again.recording == place


def test_several_reports_become_one_and_a_name_in_two_of_them_is_told_apart(report, tmp_path):
    other = tmp_path / "py312.json"
    other.write_text(report_json(show.run_of(show.passing())), encoding="utf-8")
    assert run("report", report, other, "--json", "all.json").exit_code == 0
    found = read_run(tmp_path / "all.json")
    assert [(one.workload, one.origin) for one in found.verdicts] == [
        ("tests/test_net.py::test_fails", ""),
        ("tests/test_net.py::test_passes", str(other)),
        ("tests/test_net.py::test_passes", str(report)),
    ]
    assert run("report", report, report, "--html", "p.html", "--markdown", "m.md", "--metrics", "x.txt").exit_code == 0
    assert "❌ 1 failed, ✅ 1 passed" in (tmp_path / "m.md").read_text()
    assert run("report", report, other, "--html", "p.html", "--markdown", "m.md", "--metrics", "x.txt").exit_code == 0
    assert f"of {other}" in (tmp_path / "p.html").read_text().replace("<wbr>", "")
    assert "py312.json" in (tmp_path / "m.md").read_text()
    lines = [line.partition("} ")[0] for line in (tmp_path / "x.txt").read_text().splitlines() if line[0] != "#"]
    assert len(lines) == len(set(lines))
    assert found.provenance == show.HERE


def test_a_recording_is_judged_against_its_baseline_where_there_is_one(report, tmp_path):
    workload = json.loads((TORCH / "recording.json").read_text())["fingerprint"]["workload"]
    assert run("report", TORCH, "--json", "alone.json").exit_code == 0
    (alone,) = read_run(tmp_path / "alone.json").verdicts
    assert not alone.comparisons
    stored(tmp_path / "baselines", workload)
    assert run("report", TORCH, "--json", "compared.json").exit_code == 0
    (compared,) = read_run(tmp_path / "compared.json").verdicts
    assert compared.comparisons
    assert compared.workload == workload


def test_an_older_report_is_shown_and_the_remark_is_told(report, tmp_path):
    document = json.loads(report.read_text())
    del document["run"]
    (tmp_path / "old.json").write_text(json.dumps({**document, "format": 1, "perfguard": "0.1.0"}))
    found = run("report", "old.json")
    assert found.exit_code == 0
    assert "old.json was written by perfguard 0.1.0, an older one" in found.stderr


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda place: place / "nowhere.json", "does not exist; write a report with: pytest --perfguard"),
        (lambda place: shutil.copy(next(RECORDINGS.rglob("*.csv")), place / "a.csv"), "is damaged"),
        (lambda place: (place / "cut.json").write_text('{"format": 2, "workl') and place / "cut.json", "is damaged"),
    ],
)
def test_what_is_no_report_is_refused_and_nothing_is_written(report, tmp_path, make, said):
    found = run("report", make(tmp_path))
    assert found.exit_code == 2
    assert said in found.stderr
    assert not (tmp_path / "perfguard.html").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(report, tmp_path):
    (tmp_path / "file").write_text("")
    found = run("report", report, "--html", "file/p.html")
    assert found.exit_code == 2
    assert "cannot be written" in found.stderr


def trace_in(page: Path) -> bytes:
    import base64
    import re

    packed = re.search(r'class="trace"[^>]*>([^<]+)<', page.read_text(encoding="utf-8"))
    assert packed is not None
    return gzip.decompress(base64.b64decode(packed[1]))


@pytest.mark.parametrize("name", ["torch-mlp", "mindspore-graph"])
@pytest.mark.variants(1)
def test_view_writes_a_page_with_the_timeline_inside(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    found = run("view", RECORDINGS / name, "--output", "v.html", "--no-open")
    assert (found.exit_code, found.stdout) == (0, "v.html\n")
    trace = trace_in(tmp_path / "v.html")
    assert trace in {path.read_bytes() for path in (RECORDINGS / name).rglob("*.json")}
    events = json.loads(trace)
    assert events["traceEvents"] if isinstance(events, dict) else events


def test_view_unpacks_a_timeline(tmp_path):
    shutil.copytree(TORCH, tmp_path / "r")
    path = next((tmp_path / "r" / "profiler").rglob("*.json"))
    plain = path.read_bytes()
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(plain))
    path.unlink()
    assert run("view", tmp_path / "r", "--output", tmp_path / "v.html", "--no-open").exit_code == 0
    assert trace_in(tmp_path / "v.html") == plain


def test_view_opens_a_browser(tmp_path, monkeypatch):
    import stat

    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", f"{program} %s")
    monkeypatch.setattr("webbrowser._tryorder", None)
    found = run("view", TORCH)
    assert found.exit_code == 0
    page = Path(found.stdout.strip())
    assert (tmp_path / "opened").read_text().strip() == page.resolve().as_uri()
    page.unlink()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("view", "-o"), "recording.json"),
        (("view", "-o"), "profiler/more.txt"),
        (("report", "--json"), "profiler/more.txt"),
        (("report", "--metrics"), "steps.json"),
    ],
)
@pytest.mark.variants(1)
def test_a_file_of_a_recording_that_is_read_is_never_written_over(tmp_path, command, name):
    shutil.copytree(TORCH, tmp_path / "r")
    (tmp_path / "r" / "profiler" / "more.txt").write_text("the profiler's")
    before = (tmp_path / "r" / name).read_bytes()
    found = run(command[0], tmp_path / "r", command[1], tmp_path / "r" / name)
    assert found.exit_code == 2
    assert "would be overwritten; name another one" in found.stderr
    assert (tmp_path / "r" / name).read_bytes() == before


@pytest.mark.exhaustive
def test_what_lies_beside_recordings_is_written_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(TORCH, tmp_path / "r")
    for _ in range(2):
        assert run("report", ".", "--json", "all.json", "--metrics", "m.txt").exit_code == 0


def test_a_history_is_never_written_over(report, tmp_path):
    (tmp_path / "h.db").write_bytes(b"SQLite format 3\0" + bytes(99))
    found = run("report", report, "--json", "h.db")
    assert found.exit_code == 2
    assert "h.db is a history, and would be overwritten" in found.stderr


def test_a_file_by_another_name_is_the_same_file(report, tmp_path):
    os.link(report, tmp_path / "other.json")
    assert run("report", report, "--json", "other.json").exit_code == 2


@pytest.mark.exhaustive
def test_a_recording_that_is_named_with_its_directory_is_told_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        shutil.copytree(TORCH, tmp_path / "two" / name)
    assert run("report", "two", "two/a", "--json", "all.json").exit_code == 0
    assert [one.origin for one in read_run(tmp_path / "all.json").verdicts] == ["two/a", "two/b"]


@pytest.mark.exhaustive
def test_a_page_inside_of_a_recording_is_written_anew(tmp_path):
    shutil.copytree(TORCH, tmp_path / "r")
    for _ in range(2):
        assert run("view", tmp_path / "r", "-o", tmp_path / "r" / "page.html", "--no-open").exit_code == 0


@pytest.mark.exhaustive
def test_recordings_of_one_workload_in_one_directory_are_told_apart_and_stay_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        shutil.copytree(TORCH, tmp_path / "two" / name)
    assert run("report", "two", "--json", "two.json", "--metrics", "m.txt", "--markdown", "m.md").exit_code == 0
    found = read_run(tmp_path / "two.json")
    assert [one.origin for one in found.verdicts] == ["two/a", "two/b", "two/c"]
    samples = [line for line in (tmp_path / "m.txt").read_text().splitlines() if not line.startswith("#")]
    assert len({line.rpartition(" ")[0] for line in samples}) == len(samples)
    # Joined with what is the same again, nothing is told twice either.
    assert run("report", "two.json", "two", "--json", "all.json").exit_code == 0
    origins = [one.origin for one in read_run(tmp_path / "all.json").verdicts]
    assert len(set(origins)) == len(origins) == 6
    assert "two/a in two.json" in origins


@pytest.mark.parametrize("content", ["[{}]", '{"traceEvents": []}', '{"workloads": {"a": "%s"}}' % ("x" * 10**5)])
@pytest.mark.parametrize("command", [("report",), ("compare", TORCH), ("history", "add")], ids=str)
@pytest.mark.variants(3)
def test_a_large_file_that_is_no_report_is_told_in_a_sentence(tmp_path, monkeypatch, command, content):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
    (tmp_path / "a.json").write_text(content)
    found = run(*command, "a.json")
    assert found.exit_code == 2
    assert 20 < len(found.stderr) < 800


def test_view_of_what_is_no_directory_is_refused(tmp_path):
    found = run("view", tmp_path / "nowhere")
    assert found.exit_code == 2
    assert "does not exist" in found.stderr


def test_where_there_is_a_history_the_page_says_since_when(report, tmp_path):
    pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
    for number in range(4):
        document = json.loads(report.read_text())
        document["run"] |= {"commit": f"{number:040d}", "committed_at": f"2026-11-0{number + 1}T00:00:00+00:00"}
        for workload in document["workloads"]:
            for one in workload["measurements"]:
                if one["metric"] == "peak_memory_bytes" and number < 2:
                    one["value"] //= 2
        (tmp_path / "one.json").write_text(json.dumps(document))
        assert run("history", "add", "one.json").exit_code == 0
    assert run("report", "one.json").exit_code == 0
    page = Path("perfguard.html").read_text(encoding="utf-8").replace("<wbr>", "")
    change = "776 → 1552~bytes, +100.0~%".replace("~", "\N{NO-BREAK SPACE}")
    assert f"history: peak_memory_bytes[cpu] since 000000000000 (2026-11-03): {change}" in page
    (tmp_path / "elsewhere").mkdir()
    assert run("report", "one.json", "--history", "elsewhere/none.db", "--html", "x.html").exit_code == 2


@pytest.mark.usefixtures("report")
def test_a_report_connects_to_a_server_only_where_it_is_asked_to(tmp_path, monkeypatch):
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -e '.[postgres]'")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        url = f"postgresql://me:hidden@127.0.0.1:{listener.getsockname()[1]}/db?connect_timeout=2"
        (tmp_path / "pyproject.toml").write_text(f"[tool.perfguard]\nhistory = '{url}'\n", encoding="utf-8")
        found = run("report", "report.json")
        assert found.exit_code == 0
        assert (
            "perfguard: the history was not looked at: it is a database that only pyproject.toml names" in found.stderr
        )
        with pytest.raises(BlockingIOError):
            listener.accept()
    # Nobody listens any more: a connection that was asked for is tried.
    assert "cannot be used" in run("report", "report.json", "--history", url).stderr
    monkeypatch.setenv("PERFGUARD_HISTORY", url)
    assert "cannot be used" in run("report", "report.json").stderr


@pytest.mark.exhaustive
def test_view_of_several_recordings_of_one_workload_shows_each_its_own_timeline(tmp_path):
    import base64
    import re

    for name in "ab":
        shutil.copytree(TORCH, tmp_path / "r" / name)
        trace = next((tmp_path / "r" / name / "profiler").rglob("*.json"))
        document = json.loads(trace.read_text())
        document["traceName"] = name
        trace.write_text(json.dumps(document))
    assert run("view", tmp_path / "r", "--output", tmp_path / "v.html", "--no-open").exit_code == 0
    packed = re.findall(r'class="trace"[^>]*>([^<]+)<', (tmp_path / "v.html").read_text(encoding="utf-8"))
    assert {json.loads(gzip.decompress(base64.b64decode(one)))["traceName"] for one in packed} == {"a", "b"}


@pytest.mark.parametrize("at", [0, 400])
def test_view_of_a_damaged_timeline_says_what_is_wrong(tmp_path, at):
    shutil.copytree(TORCH, tmp_path / "r")
    path = next((tmp_path / "r" / "profiler").rglob("*.json"))
    packed = bytearray(gzip.compress(path.read_bytes()))
    packed[at : at + 300] = b"\xff" * 300
    path.with_name(path.name + ".gz").write_bytes(packed)
    path.unlink()
    found = run("view", tmp_path / "r", "--output", tmp_path / "v.html", "--no-open")
    assert found.exit_code == 0
    assert "S101" in (tmp_path / "v.html").read_text() or "A101" in (tmp_path / "v.html").read_text()
