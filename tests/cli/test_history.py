"""`perfguard history`, from outside: reports in; tables, sentences, files and exit codes out."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfguard.cli.trends import with_trends
from perfguard.documents import read_document, violations
from perfguard.errors import StoreError, UsageError
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.recording import Provenance
from perfguard.reports import RunReport
from perfguard.stores.history import open_history
from perfguard.version import install_command, upgrade_command
from tests.cli import RECORDINGS, TORCH, report_file, run
from tests.facts import ELSEWHERE, FINGERPRINT, HERE, WORKLOAD, names_the_next_command
from tests.programs import run_program

pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install -e '.[history]'")

from perfguard.stores.history.tables import VERSION_TABLE
from tests.histories import commit, report
from tests.histories import entry as entry_of_run

TOP = Path(__file__).resolve().parents[2]

SCRIPT = Path(sys.executable).with_name("perfguard")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    """A project of its own, which says nothing of a history."""
    (tmp_path / "pyproject.toml").write_text("[tool.perfguard]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFGUARD_HISTORY", raising=False)
    return tmp_path


def history(*arguments: object, answer: str | None = None):
    return run("history", *arguments, answer=answer)


def added(values, *, metric: str = "step_cost", releases=(), **changes) -> None:
    """Add a run a day, each with one number (and the steps)."""
    for number, value in enumerate(values):
        path = report(Path(f"r{number}.json"), number, {metric: value, "steps": 5}, **changes)
        done = history("add", path, *(["--release", f"v{number}"] if number in releases else []))
        assert done.exit_code == 0, done.output


def rows(text: str) -> list[list[str]]:
    """Return the cells of a table's rows."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if set(line) <= {"-", " "} and line)
    found = []
    for line in lines[start + 1 :]:
        if not line or line.startswith("  "):
            break
        found.append(re.split(r"\s{2,}", line.strip()))
    return found


# -- add -----------------------------------------------------------------------------------------------------------------


def test_a_report_of_real_recordings_is_added_once(tmp_path):
    report_file(tmp_path / "report.json", **{"a.py::test_a": TORCH, "b.py::test_b": RECORDINGS / "mindspore-graph"})
    first = history("add", "report.json")
    assert first.exit_code == 0
    found = re.fullmatch(
        r"added: report.json is run 1 \(no commit: name it with --commit SHA\): 2 workloads, (\d+) measurements\n",
        first.output,
    )
    assert int(found[1]) > 50
    assert history("add", "report.json").output == "already there: report.json is run 1\n"
    assert (tmp_path / "perfguard-history.db").is_file()
    kept = {row[1] for row in rows(history("show", "1").output)}
    assert kept == {"a.py::test_a", "b.py::test_b"}


def test_the_commit_is_that_of_the_report_and_never_guessed(tmp_path):
    subprocess.run(["git", "init", "-q", "."], check=True)
    report(Path("known.json"), 1, {"steps": 5})
    report(Path("unknown.json"), 2, {"steps": 5}, commit=None, branch=None)
    done = history("add", "known.json", "unknown.json")
    assert f"known.json is run 1 (commit {commit(1)[:12]}, branch main)" in done.output
    assert "unknown.json is run 2 (no commit: name it with --commit SHA)" in done.output
    assert done.output.endswith("perfguard-history.db: 2 added, 0 already there, 0 not added\n")


def test_a_report_of_an_older_perfguard_says_nothing_of_its_run():
    path = report(Path("old.json"), 1, {"steps": 5})
    document = json.loads(path.read_text())
    del document["run"]
    path.write_text(json.dumps(document))
    assert history("add", "old.json", "--commit", "abcdef123456", "--at", "2026-05-01").exit_code == 0
    assert rows(history("show").output) == [["1", "2026-05-01 00:00", "abcdef123456", "-", "-", "1 PASSED", "1"]]


OPTIONS = ("--commit", "c" * 40, "--branch", "topic", "--at", "2026-01-02T03:04:00+01:00")


@pytest.mark.parametrize(
    "unknown, kept",
    [
        ((), ["2026-10-02 12:00", commit(1)[:12], "main"]),
        (("commit",), ["2026-10-02 12:00", "c" * 12, "main"]),
        (("branch",), ["2026-10-02 12:00", commit(1)[:12], "topic"]),
        (("committed_at",), ["2026-01-02 02:04", commit(1)[:12], "main"]),
        (("commit", "branch", "committed_at"), ["2026-01-02 02:04", "c" * 12, "topic"]),
    ],
)
def test_options_say_what_the_report_does_not(unknown, kept):
    report(Path("r.json"), 1, {"steps": 5}, **dict.fromkeys(unknown))
    done = history("add", "r.json", *OPTIONS)
    assert f"(commit {kept[1]}, branch {kept[2]})" in done.output
    assert rows(history("show").output) == [["1", *kept, "-", "1 PASSED", "1"]]


def test_a_run_that_is_there_is_marked_as_a_release_and_else_left_as_it_is():
    report(Path("r.json"), 1, {"steps": 5}, commit=None, branch=None)
    history("add", "r.json")
    before = history("show").output
    again = history("add", "r.json", *OPTIONS)
    assert again.output == "already there: r.json is run 1; its commit, branch and time stay as they are\n"
    assert history("show").output == before
    assert history("add", "r.json", "--release", "v1").output.endswith("is run 1; now of release v1\n")
    assert history("add", "r.json", "--release", "v1").output.endswith("is run 1\n")
    assert history("add", "r.json", "--release", "v1.2").output.endswith("is run 1; now of release v1.2\n")
    assert rows(history("show", "v1.2").output) == [["PASSED", WORKLOAD, "-", "-", "1"]]


@pytest.mark.parametrize("option, value", [OPTIONS[place : place + 2] for place in (0, 2, 4)])
def test_an_export_takes_no_facts_of_one_run(option, value):
    added([1.5, 2.5])
    history("export", "all.json")
    done = history("add", "--history", "other.db", "all.json", option, value)
    assert done.exit_code == 2
    (said,) = done.stderr.splitlines()
    assert said.startswith("not added: all.json is an exported history")
    assert said.endswith(f"add it without {option}.")
    assert history("show", "--history", "other.db").exit_code == 2


BAD = {
    "truncated": (lambda text: text[: len(text) // 2], "is damaged"),
    "empty": (lambda text: "", "is damaged"),
    "nan": (lambda text: text.replace("5.25", "NaN"), "NaN is not a JSON number"),
    "infinite": (lambda text: text.replace("5.25", "1e999"), "a number is inf"),
    "too large": (lambda text: text.replace("5.25", "9" * 400), "has more than 150 digits"),
    "of a far future": (
        lambda text: '{"format": 99, "perfguard": "9.0", "results": {}}',
        "was written by perfguard 9.0",
    ),
    "another document": (lambda text: '{"format": 1}', "is damaged"),
    "a list": (lambda text: "[]", "is not a report"),
    "a long list": (lambda text: f"[{text}]", "is not a report"),
    "no time": (lambda text: text.replace("2026-10-02T", "tomorrow "), "is not a time"),
    "an export cut off": (lambda text: '{\n"format": 1,\n"perfguard": "0",\n"runs": [\n{', "perfguard history export"),
    "an export of nothing known": (lambda text: '{"format": 1, "perfguard": "0", "runs": [{}]}', "is damaged"),
    "a workload twice": (lambda text: text.replace('"workloads": [', '"workloads": [' + _first(text) + ", "), "twice"),
}


def _first(text: str) -> str:
    return json.dumps(json.loads(text)["workloads"][0])


@pytest.mark.parametrize("name", BAD)
def test_a_bad_report_is_a_sentence_and_the_others_are_added(name):
    spoil, words = BAD[name]
    good, bad = (report(Path(f"{one}.json"), number, {"step_cost": 5.25}) for number, one in enumerate(("good", "bad")))
    bad.write_text(spoil(bad.read_text()))
    done = history("add", bad, good)
    assert done.exit_code == 2
    (said,) = done.stderr.splitlines()
    assert said.startswith("not added: bad.json") or "is not a time" in said
    assert words in said
    assert "Traceback" not in done.output
    assert "1 added, 0 already there, 1 not added" in done.output
    assert len(rows(history("show").output)) == 1


def test_a_report_of_a_newer_perfguard_waits_for_that():
    path = report(Path("newer.json"), 1, {"steps": 5})
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"format": 99, "perfguard": "9.0", "weather": "fine"}))
    done = history("add", path)
    assert done.exit_code == 2
    (said,) = done.stderr.splitlines()
    assert said.startswith("not added: newer.json was written by perfguard 9.0, a newer one")
    assert upgrade_command() in said
    assert history("show").exit_code == 2
    path.write_text(json.dumps(document))
    assert history("add", path).output.startswith("added: newer.json is run 1 ")


def test_a_report_of_an_older_format_is_whole():
    path = report(Path("older.json"), 1, {"steps": 5})
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 1, "perfguard": "0.1.0"}))
    done = history("add", path)
    assert (done.exit_code, len(done.stderr.splitlines())) == (0, 1)
    assert "an older one" in done.stderr
    assert "added: older.json is run 1" in done.output


def test_a_wrong_option_makes_no_history(tmp_path):
    path = report(Path("r.json"), 1, {"steps": 5})
    assert "--at 'yesterday' is not a time" in history("add", path, "--at", "yesterday").stderr
    assert not (tmp_path / "perfguard-history.db").exists()


def test_what_is_no_file_is_a_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, words in (
        ("nowhere.json", "does not exist"),
        (".", "not a regular file"),
        ("pipe", "not a regular file"),
    ):
        done = history("add", name)
        assert done.exit_code == 2
        assert words in done.stderr


def test_a_run_that_is_invalid_is_told_and_has_no_numbers(tmp_path):
    report_file(tmp_path / "report.json", **{"a.py::test_a": TORCH, "gone.py::test_b": tmp_path})
    done = history("add", "report.json")
    assert "2 workloads, 1 of them INVALID and without numbers" in done.output
    assert [row[:3] for row in rows(history("show", "1").output)][1][:2] == ["INVALID", "gone.py::test_b"]


# -- where ---------------------------------------------------------------------------------------------------------------


def test_the_option_goes_before_the_variable_and_that_before_the_settings(tmp_path, monkeypatch):
    report(Path("r.json"), 1, {"steps": 5})
    (tmp_path / "below").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard]\nhistory = "of-settings.db"\n')
    monkeypatch.chdir(tmp_path / "below")
    history("add", "../r.json")
    assert (tmp_path / "of-settings.db").is_file()  # relative to pyproject.toml
    monkeypatch.setenv("PERFGUARD_HISTORY", "of-variable.db")
    history("add", "../r.json")
    history("add", "../r.json", "--history", "of-option.db")
    assert sorted(path.name for path in (tmp_path / "below").iterdir()) == ["of-option.db", "of-variable.db"]


@pytest.mark.parametrize("command", [("show",), ("trend",), ("prune", "--keep-runs", "1"), ("export",)])
def test_without_a_history_there_is_a_sentence_and_no_file(tmp_path, command):
    done = history(*command)
    assert done.exit_code == 2
    assert "There is no history in" in done.stderr
    assert "perfguard history add" in done.stderr
    assert not (tmp_path / "perfguard-history.db").exists()


@pytest.mark.parametrize("command", [("show",), ("add", "r.json"), ("export",)])
def test_a_damaged_history_is_a_sentence(tmp_path, command):
    report(Path("r.json"), 1, {"steps": 5})
    (tmp_path / "perfguard-history.db").write_bytes(b"not a database at all" * 99)
    done = history(*command)
    assert done.exit_code == 2
    assert "damaged, or not a history" in done.stderr
    assert names_the_next_command(done.stderr)


def test_an_export_with_a_number_of_hundreds_of_digits_is_a_sentence_and_the_others_are_added():
    added([1.5])
    history("export", "all.json")
    text = Path("all.json").read_text()
    Path("huge.json").write_text(text.replace(":1.5}", f":{'9' * 320}}}"))
    assert Path("huge.json").read_text() != text
    done = history("add", "--history", "other.db", "huge.json", "all.json")
    assert done.exit_code == 2
    assert "not added: huge.json is damaged: the number 99999999999999999999... has more than 150 digits" in done.stderr
    assert "1 added, 0 already there, 1 not added" in done.output


def test_a_release_that_an_export_brings_is_told(tmp_path):
    added([1.5], releases=[0])
    history("export", "all.json")
    Path("bare.json").write_text(Path("all.json").read_text().replace('"release":"v0"', '"release":null'))
    history("add", "--history", "other.db", "bare.json")
    done = history("add", "--history", "other.db", "all.json")
    assert "is run 1; now of release v0" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "export", "trend"])
@pytest.mark.variants(1)
def test_a_reader_who_has_seen_enough_makes_no_regression(command):
    """As `| head -n 1` in a shell that looks at every part of a pipe: 1 would mean that something got worse."""
    added([1.5, 2.5])
    line = f"{sys.executable} -m perfguard history {command} | true; echo ${{PIPESTATUS[0]}}"
    done = run_program("bash", "-c", line)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("output", ["2>&1", "2>&1 >&-"], ids=["both", "errors alone"])
@pytest.mark.variants(1)
def test_an_error_that_nobody_reads_is_no_regression(output):
    line = f"{sys.executable} -m perfguard history trend --history none.db {output} | true; echo ${{PIPESTATUS[0]}}"
    done = run_program("bash", "-c", line)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_history_that_is_locked_keeps_what_was_there(tmp_path, monkeypatch):
    monkeypatch.setattr("perfguard.stores.history.WAIT_S", 0.2)
    added([1.5])
    other = sqlite3.connect(tmp_path / "perfguard-history.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for number in (7, 8):
        report(Path(f"new{number}.json"), number, {"steps": 5})
    done = history("add", "new7.json", "new8.json")
    other.close()
    assert done.exit_code == 2
    assert done.stderr.count("has been locked by another process for 0.2 seconds") == 2
    assert "0 added, 0 already there, 2 not added" in done.output
    assert len(rows(history("show").output)) == 1


@pytest.mark.slow
def test_a_password_is_never_printed(monkeypatch):
    report(Path("r.json"), 1, {"steps": 5})
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -e '.[postgres]'")
    url = "postgresql://me:hidden-word@127.0.0.1:1/db"
    monkeypatch.setenv("PERFGUARD_HISTORY", url)
    for command in (("add", "r.json"), ("show",), ("trend", "--history", url)):
        done = history(*command)
        assert done.exit_code == 2
        assert "postgresql://me:***@127.0.0.1:1/db" in done.stderr
        assert "hidden-word" not in done.output


@pytest.mark.parametrize("command", [("show",), ("add", "r.json")])
def test_the_home_of_nobody_is_a_sentence(command):
    report(Path("r.json"), 1, {"steps": 5})
    done = history(*command, "--history", "~no-such-user/history.db")
    assert done.exit_code == 2
    (said,) = done.stderr.splitlines()
    assert "~no-such-user/history.db starts with the home directory of an unknown user" in said
    assert names_the_next_command(said)


# -- show ----------------------------------------------------------------------------------------------------------------


def test_the_newest_runs_are_shown_and_the_others_counted():
    added([1.0] * 5)
    done = history("show", "--last", "2")
    assert done.output.startswith("3 earlier runs are not shown: --last 5\n")
    assert [row[0] for row in rows(done.output)] == ["4", "5"]
    assert history("show", "--branch", "main", "--last", "9").output.count(" 1 PASSED") == 5


def test_one_run_is_shown_by_its_number_or_commit():
    added([1.0, 2.0])
    done = history("show", commit(1)[:10])
    assert done.output.startswith(f"run 2\n  commit: {commit(1)}\n  branch: main\n")
    assert "machine: AMD EPYC, 2 cores, AMD EPYC" in done.output
    assert history("show", "9").exit_code == 2
    assert history("show", "--branch", "nobody").exit_code == 4


def test_names_do_what_they_like_and_the_terminal_obeys_none():
    evil = "t.py::<script>\x1b[31m\u202e\x07"
    path = report(
        Path("r.json"), 1, {f"operator_calls[{evil}]": 2}, workload=evil, branch="b\x1b[2J", commit="c\x1b]0;x"
    )
    texts = [
        history("add", path, "--release", "v\x1b[1m").output,
        history("show").output,
        history("show", "1").output,
        history("trend", "--metric", "*").output,
    ]
    for text in texts:
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text), ascii(text)
    assert "<script>\\x1b[31m\\u202e\\x07" in texts[2]


# -- trend ---------------------------------------------------------------------------------------------------------------


def test_a_step_has_one_time_in_ms_and_the_change_that_is_judged():
    # The machine is twice as slow in the last runs, and the step costs 30 % more from run 13 on: times alone say +160 %.
    for number in range(20):
        cost, speed = (13.0 if number >= 12 else 10.0), (2.0 if number >= 15 else 1.0)
        numbers = {"step_cost": cost, "run_wall_time": 2500 * cost / 10 * speed, "step_time": 9e3, "run_wall_p90": 8e3}
        path = report(Path(f"r{number}.json"), number, {**numbers, "steps": 5})
        assert history("add", path).exit_code == 0
    done = history("trend")
    assert [row[1] for row in rows(done.output)] == ["step", "steps"]
    assert rows(done.output)[0][4:] == ["6.50", "ms", "0", "+30.0 %"]
    assert (
        f"  WORSE step 5.00 → 6.50 ms, +30.0 % since the first run, {commit(0)[:12]} (2026-10-01) (allowed +10.0 %)"
        in (done.output)
    )
    # What is asked for by its name is shown as it was measured.
    asked = history("trend", "--metric", "step_*", "--metric", "run_*").output
    assert [row[1] for row in rows(asked)] == ["run_wall_p90", "run_wall_time", "step_cost", "step_ms", "step_time"]


def test_a_regression_is_told_with_its_commit_and_exit_code():
    added([10.0] * 12 + [13.0] * 8, releases=[5])
    done = history("trend")
    assert done.exit_code == 1
    assert [row[:2] for row in rows(done.output)] == [["WORSE", "step_cost"], ["ok", "steps"]]
    assert (
        "  WORSE step_cost 10 → 13 units, +30.0 % since the release v5 (93b21ad4c4b4, 2026-10-06) (allowed +10.0 %)\n"
    ).replace("93b21ad4c4b4", commit(5)[:12]).replace("units", rows(done.output)[0][5]) in done.output
    assert f"step_cost since {commit(12)[:12]} (2026-10-13): 10 → 13" in done.output
    assert done.output.endswith("2 series of 1 workload judged: 1 worse, 1 not\n")


def test_nothing_worse_is_green():
    added([13.0] * 10 + [10.0] * 10)
    done = history("trend")
    assert done.exit_code == 0
    assert f"step_cost since {commit(10)[:12]} (2026-10-11): 13 → 10" in done.output


def test_creep_in_steps_that_each_passed_is_red():
    added([10 * 1.005**number for number in range(40)])
    done = history("trend")
    assert done.exit_code == 1
    assert re.search(
        r"step_cost creeps since \w{12} \(2026-10-01\): 10 → 12.1 \w+, \+21.\d % over 40 runs, no step larger than",
        done.output,
    )


def test_a_tolerance_of_the_settings_holds(tmp_path):
    added([10.0] * 12 + [13.0] * 8)
    (tmp_path / "pyproject.toml").write_text("[tool.perfguard.tolerance]\nstep_cost = 0.5\n")
    assert history("trend").exit_code == 0
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard.tolerance]\nstep_cost = "off"\n')
    done = history("trend")
    assert (done.exit_code, rows(done.output)[0][0]) == (0, "shown")


def test_what_is_looked_at_can_be_narrowed():
    added([10.0] * 12 + [13.0] * 8)
    assert history("trend", "--since", commit(12)[:12]).exit_code == 0
    assert history("trend", "--since", "2026-10-13").exit_code == 0
    assert history("trend", "--since", "2").exit_code == 1
    assert history("trend", "test_train", "--metric", "steps").exit_code == 0
    assert history("trend", "tests/*", "--metric", "step_*").exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [("no_such_test",), ("--metric", "no_such_metric"), ("--branch", "no_such_branch"), ("--since", "2030-01-01")],
)
def test_nothing_to_look_at_is_its_own_exit_code(arguments):
    added([10.0])
    done = history("trend", *arguments)
    assert done.exit_code == 4
    assert done.output.startswith("nothing to show: ")


def test_operators_are_looked_at_when_they_are_named():
    for number in range(2):
        history("add", report(Path(f"{number}.json"), number, {"operator_time[MatMul]": 5.5, "operator_calls[a]": 1}))
    assert [row[1] for row in rows(history("trend", "--metric", "operator_time[*]").output)] == [
        "operator_time[MatMul]"
    ]
    assert len(rows(history("trend", "--metric", "operator_time", "--metric", "operator_calls").output)) == 2
    assert history("trend").exit_code == 4


def test_mixed_branches_and_runs_without_a_commit_are_told():
    added([10.0, 10.0])
    history("add", report(Path("x.json"), 3, {"step_cost": 10.0}, branch="topic", commit=None))
    done = history("trend")
    assert (
        "these are the runs of topic, the newest run's branch, without 2 of others; show another with: --branch main"
        in (done.output)
    )
    assert "1 of 1 run have no commit" in done.output
    assert "the newest run's branch" not in history("trend", "--branch", "main").output


def test_a_commit_of_another_branch_is_blamed_for_nothing():
    """A topic branch that takes more memory, among the runs of main, which did not change."""
    takes = [("main", 100)] * 3 + [("topic", 200)] * 3 + [("main", 100)]
    for number, (branch, taken) in enumerate(takes):
        history("add", report(Path(f"{number}.json"), number, {"peak_memory_bytes[cpu]": taken}, branch=branch))
    done = history("trend")
    assert (done.exit_code, "[cpu] since " in done.output) == (0, False), done.output
    # On its own branch the change is told.
    history("add", report(Path("9.json"), 9, {"peak_memory_bytes[cpu]": 300}, branch="topic"))
    done = history("trend")
    assert (done.exit_code, f"since {commit(9)[:12]}" in done.output) == (1, True), done.output


# -- for a report --------------------------------------------------------------------------------------------------------

ON_NPU = replace(FINGERPRINT, device="npu")


def reported(*, branch: str | None = "main", **changes: Any) -> RunReport:
    """Return a report of one workload, of which only the facts decide."""
    facts = {"fingerprint": FINGERPRINT, "environment": HERE, **changes}
    verdict = Verdict(workload=WORKLOAD, outcome=Outcome.PASSED, findings=(), **facts)
    return RunReport(verdicts=(verdict,), provenance=Provenance(branch=branch))


def looked_at(found: RunReport) -> list[tuple[str, tuple[float, ...]]]:
    assert found.remarks == ()
    return [(one.series.label, one.series.values) for one in found.trends]


@pytest.fixture
def many(tmp_path) -> None:
    """Runs of two machines on main, one of a topic, two on an NPU, and one of another workload."""
    kept = open_history("perfguard-history.db", root=tmp_path, writing=True)
    for entry in (
        entry_of_run(0, {"step_cost": 1.0, "steps": 1}),
        entry_of_run(1, {"step_cost": 2.0, "steps": 2}, environment=ELSEWHERE),
        entry_of_run(2, {"step_cost": 3.0, "steps": 3}, fingerprint=ON_NPU),
        entry_of_run(3, {"step_cost": 4.0, "steps": 4}),
        entry_of_run(4, {"step_cost": 5.0, "steps": 5}, branch="topic"),
        entry_of_run(5, {"step_cost": 6.0, "steps": 6}, fingerprint=ON_NPU),
        entry_of_run(6, {"step_cost": 7.0, "steps": 7}, workload="other.py::test"),
        entry_of_run(7, {"step_cost": 8.0, "steps": 8}),
    ):
        kept.add(entry)


@pytest.mark.parametrize(
    "found, numbers",
    [
        (reported(), {"step_cost": (1, 4, 8), "steps": (1, 2, 4, 8)}),
        (reported(environment=ELSEWHERE), {"step_cost": (2,), "steps": (1, 2, 4, 8)}),
        (reported(environment=None), {"steps": (1, 2, 4, 8)}),
        (reported(fingerprint=ON_NPU), {"step_cost": (3, 6), "steps": (3, 6)}),
        (reported(fingerprint=replace(FINGERPRINT, device="tpu")), {}),
        (reported(branch="topic"), {"step_cost": (5,), "steps": (5,)}),
        (reported(branch="no-such-branch"), {}),
        (reported(branch=None), {"step_cost": (1, 4, 5, 8), "steps": (1, 2, 4, 5, 8)}),
    ],
    ids=["here", "elsewhere", "nowhere", "npu", "never recorded so", "a branch", "no such branch", "no branch"],
)
def test_a_report_is_told_of_runs_like_its_own(many, found, numbers):
    assert dict(looked_at(with_trends(found, None))) == numbers
    assert with_trends(found, "perfguard-history.db") == with_trends(found, None)


def test_a_report_of_another_workload_is_told_nothing(many):
    (verdict,) = reported().verdicts
    found = replace(reported(), verdicts=(replace(verdict, workload=f"{WORKLOAD} (a.json)"),))
    assert with_trends(found, None) == found


def test_what_was_remarked_before_stays(many):
    found = with_trends(replace(reported(), remarks=("half of it",)), None)
    assert (len(found.trends), found.remarks) == (2, ("half of it",))


def of_default(monkeypatch, place: Path) -> None:
    place.rename("perfguard-history.db")


def of_variable(monkeypatch, place: Path) -> None:
    monkeypatch.setenv("PERFGUARD_HISTORY", str(place))


def of_settings(monkeypatch, place: Path) -> None:
    Path("pyproject.toml").write_text(f"[tool.perfguard]\nhistory = {json.dumps(str(place))}\n", encoding="utf-8")


NOT_ASKED_FOR = [of_default, of_variable, of_settings]


@pytest.mark.parametrize("named", [lambda *_: None, of_variable, of_settings])
def test_a_history_that_is_not_there_yet_is_nothing_to_speak_of(monkeypatch, named):
    named(monkeypatch, Path("none.db"))
    assert with_trends(reported(), None) == reported()
    assert [path.name for path in Path().iterdir()] == ["pyproject.toml"]
    with pytest.raises(UsageError, match="There is no history"):
        with_trends(reported(), "none.db")


def damaged(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 99)


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")


@pytest.mark.parametrize("named", NOT_ASKED_FOR)
@pytest.mark.parametrize("spoil, words", [(damaged, "damaged, or not a history"), (newer, "a newer perfguard")])
def test_a_history_that_is_of_no_use_is_remarked(tmp_path, monkeypatch, named, spoil, words):
    kept = open_history("kept.db", root=tmp_path, writing=True)
    kept.add(entry_of_run(0, {"steps": 1}))
    spoil(Path("kept.db"))
    with pytest.raises(StoreError, match=words) as raised:
        with_trends(reported(), "kept.db")
    named(monkeypatch, Path("kept.db"))
    found = with_trends(reported(), None)
    assert found.trends == ()
    (said,) = found.remarks
    assert said.startswith("the history was not looked at: ")
    if named is of_variable:
        assert said == f"the history was not looked at: {raised.value}"
    assert words in said


def test_a_history_that_is_locked_is_remarked(many, tmp_path, monkeypatch):
    monkeypatch.setattr("perfguard.stores.history.WAIT_S", 0.2)
    with closing(sqlite3.connect(tmp_path / "perfguard-history.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        (said,) = with_trends(reported(), None).remarks
        with pytest.raises(StoreError, match="has been locked"):
            with_trends(reported(), "perfguard-history.db")
    assert "has been locked by another process for 0.2 seconds" in said


@pytest.mark.slow
@pytest.mark.parametrize("package", ["sqlalchemy", "ruptures"])
@pytest.mark.variants(1)
def test_packages_that_are_missing_are_remarked(tmp_path, package):
    """In a Python that has them not: they are hidden from it."""
    kept = open_history("kept.db", root=tmp_path, writing=True)
    for number in range(20):
        kept.add(entry_of_run(number, {"step_cost": 1.0 + number % 3}))
    code = f"""
import sys
sys.modules["{package}"] = None
from perfguard.cli.trends import with_trends
from perfguard.errors import UsageError
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.reports import RunReport
from tests.facts import FINGERPRINT, HERE, WORKLOAD
verdict = Verdict(workload=WORKLOAD, outcome=Outcome.PASSED, findings=(), fingerprint=FINGERPRINT, environment=HERE)
print(with_trends(RunReport(verdicts=(verdict,)), None).remarks)
try:
    with_trends(RunReport(verdicts=(verdict,)), "kept.db")
except UsageError as error:
    print(error)
"""
    for there in (False, True):
        if there:
            Path("kept.db").rename("perfguard-history.db")
        done = run_program(sys.executable, "-c", code, PYTHONPATH=str(TOP))
        assert done.returncode == 0, done.stderr
        remarks, said = done.stdout.splitlines()
        if there:
            assert "the history was not looked at: perfguard history needs " in remarks
            assert "There is no history" in said
        else:
            assert remarks == "()"
            assert said.startswith("perfguard history needs ")
        assert install_command("history") in (remarks if there else said)


# -- prune ---------------------------------------------------------------------------------------------------------------


def test_nobody_who_does_not_say_so_deletes_anything():
    added([1.0] * 5, releases=[1])
    done = history("prune", "--keep-runs", "2", answer="n\n")
    assert done.exit_code == 2
    assert "1 run of releases kept; to delete them too: --releases" in done.output
    assert "run 1 (2026-10-01 12:00) to run 3 (2026-10-03 12:00): 2 runs of 5, 4 measurements" in done.output
    assert "nothing was deleted" in done.output
    assert "to delete without a question: --yes" in history("prune", "--keep-runs", "2").stderr
    assert len(rows(history("show").output)) == 5


@pytest.mark.parametrize(
    "arguments, kept",
    [
        (("--keep-runs", "2"), ["2", "4", "5"]),
        (("--keep-runs", "2", "--releases"), ["4", "5"]),
        (("--before", "2026-10-04"), ["2", "4", "5"]),
        (("--branch", "topic"), ["1", "2", "3", "4", "5"]),
        (("--branch", "main", "--before", "2026-10-02"), ["2", "3", "4", "5"]),
    ],
)
@pytest.mark.variants(1)
def test_what_is_asked_for_is_deleted_and_releases_stay(arguments, kept):
    added([1.0] * 5, releases=[1])
    assert history("prune", *arguments, "--yes").exit_code == 0
    assert [row[0] for row in rows(history("show").output)] == kept


def test_prune_must_be_told_what():
    added([1.0])
    done = history("prune", "--yes")
    assert done.exit_code == 2
    assert "--keep-runs N, --before DATE or --branch NAME" in done.stderr


# -- export --------------------------------------------------------------------------------------------------------------


def test_an_export_moves_to_another_history_and_is_the_same_there():
    added([1.5, 2.5], releases=[1])
    assert history("export", "all.json").output == ""
    assert violations(json.loads(Path("all.json").read_text()), "history") == []
    first = history("add", "--history", "other.db", "all.json")
    assert (first.exit_code, first.output.count("added: all.json ")) == (0, 2)
    assert "0 added, 2 already there, 0 not added" in history("add", "--history", "other.db", "all.json").output
    assert history("export", "--history", "other.db").output == Path("all.json").read_text()
    assert history("trend", "--history", "other.db").output == history("trend").output
    assert len(read_document(Path("all.json"), "history", remedy="")["runs"]) == 2


def test_csv_goes_to_standard_output():
    added([1.5])
    lines = history("export", "--format", "csv").output.splitlines()
    assert lines[0].startswith("run,digest,commit,branch,release,at,workload")
    assert len(lines) == 3


def test_an_export_that_cannot_be_written_keeps_what_was_there(tmp_path):
    added([1.5])
    (tmp_path / "is").mkdir()
    done = history("export", "is")
    assert done.exit_code == 2
    assert "not a regular file" in done.stderr


# -- as a program --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_stream_without_blocks_and_arrows_gets_others(tmp_path):
    added([10.0] * 12 + [13.0] * 8)
    done = run_program(SCRIPT, "history", "trend", PYTHONIOENCODING="ascii")
    assert done.returncode == 1, done.stderr
    assert done.stdout.isascii()
    assert "____________########" in done.stdout
    assert "10 -> 13" in done.stdout


@pytest.mark.slow
@pytest.mark.exhaustive
def test_reports_of_many_jobs_at_once_are_all_there(tmp_path):
    for number in range(4):
        report(Path(f"{number}.json"), number, {"steps": number})
    jobs = [
        subprocess.Popen([SCRIPT, "history", "add", f"{number}.json"], stdout=subprocess.DEVNULL) for number in range(4)
    ]
    assert [job.wait(timeout=600) for job in jobs] == [0] * 4
    assert len(rows(history("show").output)) == 4


@pytest.mark.slow
def test_the_help_of_a_command_loads_no_database():
    code = (
        "import sys, perfguard.cli\nsys.argv = ['perfguard', 'history', 'trend', '--help']\n"
        "try:\n perfguard.cli.main()\nfinally:\n print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert loaded & {"sqlalchemy", "alembic", "ruptures", "scipy", "numpy", "polars", "jsonschema"} == set()


def test_a_history_is_not_overwritten_by_its_export(project):
    report(project / "r.json", 1, {"step_cost": 1.0})
    assert run("history", "add", "r.json").exit_code == 0
    before = (project / "perfguard-history.db").read_bytes()
    found = run("history", "export", "perfguard-history.db")
    assert found.exit_code == 2
    assert "is a history, and would be overwritten" in found.stderr
    assert (project / "perfguard-history.db").read_bytes() == before


def test_a_number_near_the_largest_is_drawn(project):
    for number, value in enumerate((1e-300, 1e149, 1e140)):
        report(project / "r.json", number, {"step_cost": value})
        assert run("history", "add", "r.json").exit_code == 0
    assert "step_cost" in run("history", "trend").stdout


def test_no_cell_of_an_exported_history_is_a_formula():
    added([-1.5], workload="=cmd|'/c calc'!A0", metric="overhead")
    lines = history("export", "--format", "csv").output.splitlines()
    assert any(",\"'=cmd|'/c calc'!A0\"," in line or ",'=cmd|'/c calc'!A0," in line for line in lines)
    assert any(",-1.5," in line for line in lines)
    assert "=cmd" not in [cell[:4] for line in lines for cell in line.split(",")]


# -- a stranger's history ------------------------------------------------------------------------------------------------

FOREIGN = "\n::error::taken\r::error::taken\u2028 \x1b[31m \x9b31m \u202e \ud800"
OBEYED = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\ud800]|^\s*::error::taken", re.MULTILINE)


def test_no_text_of_a_strangers_history_leaves_its_line():
    added([1.0, 2.0, 3.0], releases=(0,))
    document = json.loads(history("export").stdout)

    def marked(node: Any, key: str = "") -> Any:
        if isinstance(node, list):
            return [marked(one, key) for one in node]
        if isinstance(node, dict):
            return {name: marked(one, name) for name, one in node.items()}
        is_kept = key in ("digest", "committed_at", "finished_at", "added_at", "outcome")
        return node if is_kept or not isinstance(node, str) else node + FOREIGN

    foreign = {**document, "runs": marked(document["runs"])}
    for run_ in foreign["runs"]:
        for one in run_["workloads"]:
            one["measurements"]["step_cost"]["values"] = {FOREIGN: 1.0, "": 2.0}
    Path("foreign.json").write_text(json.dumps(foreign), encoding="utf-8")
    wrong = {}
    commands = [
        *[("add", "foreign.json"), ("add", "foreign.json"), ("show",), ("show", "1"), ("show", "3", "-v")],
        *[("trend",), ("trend", "--metric", "*", "-v"), ("prune", "--keep-runs", "2", "--yes")],
    ]
    for words in commands:
        done = history(*words, "--history", "foreign.db")
        if done.exit_code == 2 or OBEYED.search(done.output):
            wrong[words] = done.output
    assert wrong == {}
