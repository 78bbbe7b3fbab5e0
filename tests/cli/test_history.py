"""`perfguard history`, from outside: reports in; tables, sentences, files and exit codes out."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from perfguard.documents import read_document, violations
from tests.cli import RECORDINGS, TORCH, report_file, run
from tests.facts import WORKLOAD, names_the_next_command
from tests.histories import commit, report

pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'perfguard[history]'")

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


def test_options_go_before_the_report_and_mend_what_is_there():
    report(Path("r.json"), 1, {"steps": 5})
    history("add", "r.json", "--commit", "c" * 40, "--branch", "topic", "--at", "2026-01-02T03:04:00+01:00")
    assert rows(history("show").output) == [["1", "2026-01-02 02:04", "c" * 12, "topic", "-", "1 PASSED", "1"]]
    again = history("add", "r.json", "--release", "v1.2", "--branch", "topic")
    assert again.output == "already there: r.json is run 1; now with its release\n"
    assert rows(history("show", "v1.2").output) == [["PASSED", WORKLOAD, "1"]]


BAD = {
    "truncated": (lambda text: text[: len(text) // 2], "is damaged"),
    "empty": (lambda text: "", "is damaged"),
    "nan": (lambda text: text.replace("5.25", "NaN"), "NaN is not JSON"),
    "infinite": (lambda text: text.replace("5.25", "1e999"), "beyond every number"),
    "too large": (lambda text: text.replace("5.25", "9" * 400), "is no number that can be kept"),
    "of a far future": (
        lambda text: '{"format": 99, "perfguard": "9.0", "results": {}}',
        "was written by perfguard 9.0",
    ),
    "another document": (lambda text: '{"format": 1}', "is damaged"),
    "a list": (lambda text: "[]", "is damaged"),
    "no time": (lambda text: text.replace("2026-10-02T", "tomorrow "), "is no time"),
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
    assert said.startswith("not added: bad.json") or "is no time" in said
    assert words in said
    assert "Traceback" not in done.output
    assert "1 added, 0 already there, 1 not added" in done.output
    assert len(rows(history("show").output)) == 1


def test_a_report_of_a_newer_perfguard_is_kept_as_far_as_it_is_known():
    path = report(Path("newer.json"), 1, {"steps": 5})
    document = json.loads(path.read_text())
    document |= {"format": 99, "perfguard": "9.0", "weather": "fine"}
    path.write_text(json.dumps(document))
    done = history("add", path)
    assert done.exit_code == 0
    assert "newer.json was written by perfguard 9.0, a newer one" in done.stderr
    assert "this was left out: 1 x weather" in done.stderr
    assert "added: newer.json is run 1" in done.output
    assert history("add", path).output.endswith("already there: newer.json is run 1\n")


def test_a_wrong_option_makes_no_history(tmp_path):
    path = report(Path("r.json"), 1, {"steps": 5})
    assert "--at 'yesterday' is no time" in history("add", path, "--at", "yesterday").stderr
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
    assert "damaged, or no history" in done.stderr
    assert names_the_next_command(done.stderr)


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
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'perfguard[postgres]'")
    url = "postgresql://me:hidden-word@127.0.0.1:1/db"
    monkeypatch.setenv("PERFGUARD_HISTORY", url)
    for command in (("add", "r.json"), ("show",), ("trend", "--history", url)):
        done = history(*command)
        assert done.exit_code == 2
        assert "postgresql://me:***@127.0.0.1:1/db" in done.stderr
        assert "hidden-word" not in done.output


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


def test_a_regression_is_told_with_its_commit_and_exit_code():
    added([10.0] * 12 + [13.0] * 8, releases=[5])
    done = history("trend")
    assert done.exit_code == 1
    assert [row[:2] for row in rows(done.output)] == [["WORSE", "step_cost"], ["ok", "steps"]]
    assert (
        "  WORSE step_cost 10 → 13 units, +30.0 % since the release v5 (93b21ad4c4b4, 2026-10-06) (allowed 10.0 %)\n"
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
    assert done.output.startswith("nothing to look at: ")


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
    assert "these runs are of 2 branches; look at one with: --branch main" in done.output
    assert "1 of 3 runs have no commit" in done.output
    assert "branches" not in history("trend", "--branch", "main").output


# -- prune ---------------------------------------------------------------------------------------------------------------


def test_nobody_who_does_not_say_so_deletes_anything():
    added([1.0] * 5, releases=[1])
    done = history("prune", "--keep-runs", "2", answer="n\n")
    assert done.exit_code == 2
    assert "1 run of releases stay: --releases deletes them as well" in done.output
    assert "run 1 (2026-10-01 12:00) to run 3 (2026-10-03 12:00): 2 runs of 5, 4 measurements" in done.output
    assert "nothing was deleted" in done.output
    assert "delete without being asked: --yes" in history("prune", "--keep-runs", "2").stderr
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
def test_a_stream_without_blocks_and_arrows_gets_others(tmp_path):
    added([10.0] * 12 + [13.0] * 8)
    done = subprocess.run(
        [SCRIPT, "history", "trend"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    text = done.stdout.decode("ascii")
    assert "____________########" in text
    assert "10 -> 13" in text


@pytest.mark.slow
def test_reports_of_many_jobs_at_once_are_all_there(tmp_path):
    for number in range(8):
        report(Path(f"{number}.json"), number, {"steps": number})
    jobs = [
        subprocess.Popen([SCRIPT, "history", "add", f"{number}.json"], stdout=subprocess.DEVNULL) for number in range(8)
    ]
    assert [job.wait(timeout=120) for job in jobs] == [0] * 8
    assert len(rows(history("show").output)) == 8


@pytest.mark.slow
def test_the_help_of_a_command_loads_no_database():
    code = (
        "import sys, perfguard.cli\nsys.argv = ['perfguard', 'history', 'trend', '--help']\n"
        "try:\n perfguard.cli.main()\nfinally:\n print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert loaded & {"sqlalchemy", "alembic", "ruptures", "scipy", "numpy", "polars", "jsonschema"} == set()
