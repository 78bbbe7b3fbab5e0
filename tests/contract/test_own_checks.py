"""Checks of a project's own: found, refused with file and line, and judged like perfguard's."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from perfguard.capture.replay import replay
from perfguard.contract import inspect, reduce
from perfguard.contract.own_checks import own_checks
from perfguard.contract.reduction import in_parallel
from perfguard.errors import UsageError
from perfguard.findings import Finding, OwnCode, Severity
from perfguard.gate import check, examine
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome
from perfguard.reports import RunReport
from perfguard.reports.document import report_json, verdict_document, verdict_from_document
from perfguard.reports.markdown import report_markdown
from perfguard.reports.reading import read_report
from perfguard.reports.sarif import report_sarif
from perfguard.reports.terminal import checked
from perfguard.testing import generate
from tests.cli import RECORDINGS, run
from tests.facts import refused
from tests.hostile_queries import HOSTILE, LATE

TORCH = RECORDINGS / "torch-mlp"
HEADER = {"check": "addmm_is_short", "code": "U001", "needs": "spans", "message": "{name} takes {ns} ns"}
QUERY = "select cycle, row, name, duration_ns as ns from spans where name = 'aten::addmm'"


def written(query: str = QUERY, **header: str) -> str:
    lines = [f"-- {key}: {value}" for key, value in {**HEADER, **header}.items() if value]
    return "\n".join([*lines, query, ""])


def checks(place: Path, *texts: str):
    """Write files of checks, and read them."""
    for number, text in enumerate(texts):
        (place / f"own{number}.sql").write_text(text, encoding="utf-8")
    return own_checks([place], place)


def found(place: Path, directory: Path, *texts: str, **how) -> list[Finding]:
    contract = reduce(replay(directory), checks=checks(place, *texts), **how)
    return [one for one in contract.findings if isinstance(one.code, OwnCode)]


# -- what is found -------------------------------------------------------------------------------------------------------


def test_rows_that_break_a_rule_are_findings_at_their_events(tmp_path):
    (path,) = (TORCH / "profiler").glob("*.json")
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    places = [number for number, event in enumerate(events) if event.get("name") == "aten::addmm"]
    findings = found(tmp_path, TORCH, written())
    assert [one.place for one in findings] == [f"profiler/{path.name} $.traceEvents[{number}]" for number in places]
    assert findings[0].message == f"aten::addmm takes {round(events[places[0]]['dur'] * 1000)} ns"
    assert {(one.code, one.check, one.severity, one.rank) for one in findings} == {
        (OwnCode("U001", "not met: addmm is short"), "addmm_is_short", Severity.ERROR, 0)
    }


ASKED = [
    ({}, f"{QUERY} and ns > 1e9", 0),
    ({"needs": "kernel_lines"}, QUERY, 0),
    ({"needs": "kernels | spans"}, QUERY, 6),
    ({"needs": "kernels, spans"}, QUERY, 0),
    ({"needs": "operators"}, QUERY, 6),
    ({"needs": "drawn_kernels"}, QUERY, 0),
    ({"layouts": "pt-torch, pt-npu"}, QUERY, 6),
    ({"layouts": "pt-npu"}, QUERY, 0),
    ({"files": "trace"}, QUERY, 6),
    ({"files": "trace kernel_details"}, QUERY, 0),
    ({"message": "rank {rank} of {layout}"}, "select cycle, rank, layout from cycles", 1),
    # A code of a text is never seen.
    ({"message": "{t}"}, "select cycle, typeof(name) as t from spans where typeof(name) <> 'VARCHAR'", 0),
]


def test_where_a_check_is_asked(tmp_path):
    texts = [
        written(query, **header, check=f"check_{number}", code=f"U{number:03}")
        for number, (header, query, _) in enumerate(ASKED)
    ]
    counts = Counter(one.code.name for one in found(tmp_path, TORCH, *texts))
    assert [counts[f"U{number:03}"] for number in range(len(ASKED))] == [count for *_, count in ASKED]


@pytest.mark.parametrize("header, place", [({}, ":2"), ({"in": "trace_view"}, " $[2]")])
@pytest.mark.variants(1)
def test_a_row_is_a_line_of_the_file_whose_table_is_needed(header, place, tmp_path):
    generate("pt-npu", ranks=1, steps=2).write(tmp_path / "npu")
    query = "select cycle, min(row) as row from kernel_lines group by cycle"
    text = written(query, needs="kernel_lines", message="row {row}", **header)
    (finding,) = found(tmp_path, tmp_path / "npu", text)
    name = "trace_view.json" if header else "kernel_details.csv"
    assert finding.place.endswith(f"{name}{place}")


def test_severities_are_those_of_the_header_or_of_the_rows(tmp_path):
    of_rows = "select cycle, row, name, 1 as ns, if(row % 2 = 0, 'note', 'warning') as severity from spans"
    texts = written(severity="warning"), written(of_rows, check="other", code="U002")
    findings = found(tmp_path, TORCH, *texts)
    assert {one.severity for one in findings if one.code.name == "U001"} == {Severity.WARNING}
    assert {one.severity for one in findings if one.code.name == "U002"} == {Severity.WARNING, Severity.NOTE}


def test_what_perfguard_adds_up_can_be_asked_for_without_metrics(tmp_path):
    query = "select cycle, steps, sum(calls) as calls from windows join operator_sums using (cycle) group by all"
    (finding,) = found(tmp_path, TORCH, written(query, needs="windows", message="{steps} steps, {calls} calls"))
    (cycle,) = inspect(replay(TORCH)).cycles
    assert finding.message == f"{cycle.executions.steps} steps, {cycle.executions.calls} calls"


def test_many_rows_are_counted(tmp_path):
    findings = found(tmp_path, TORCH, written("select cycle, row, name, 1 as ns from spans"))
    assert len(findings) == 101
    assert findings[-1].more == 306


def test_long_texts_are_cut(tmp_path):
    (finding,) = found(tmp_path, TORCH, written("select 0 as cycle, repeat('x', 100_000) as name, 1 as ns"))
    assert len(finding.message) < 1000


@pytest.mark.exhaustive
def test_processes_find_what_this_one_finds(tmp_path):
    generate("pt-torch", ranks=3, steps=2).write(tmp_path / "ranks")
    text = written("select cycle, row, name, duration_ns as ns from executions where name = 'aten::mm' and step = 1")
    here = found(tmp_path, tmp_path / "ranks", text)
    assert found(tmp_path, tmp_path / "ranks", text, visit=partial(in_parallel, jobs=2)) == here
    assert {one.rank for one in here} == {0, 1, 2}


def test_a_check_is_pickled_whole(tmp_path):
    one = checks(tmp_path, written())
    assert pickle.loads(pickle.dumps(one)) == one


# -- what is judged ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "severity, outcome", [("error", Outcome.INVALID), ("warning", Outcome.PASSED), ("note", Outcome.PASSED)]
)
@pytest.mark.variants(1)
def test_the_severity_decides_and_a_code_can_be_ignored(severity, outcome, tmp_path):
    own = checks(tmp_path, written(severity=severity))
    assert examine(replay(TORCH), workload="x", policy=Policy(checks=own)).outcome is outcome
    for ignored in ("U001", "U"):
        verdict = examine(replay(TORCH), workload="x", policy=Policy(checks=own, ignore=(ignored,)))
        assert verdict.outcome is Outcome.PASSED


def test_reports_have_it_and_give_it_back(tmp_path):
    own = checks(tmp_path, written("select cycle, 'a | b' as name, 1 as ns from cycles"))
    verdict = examine(replay(TORCH), workload="x", policy=Policy(checks=own))
    assert verdict_from_document(verdict_document(verdict)).findings == verdict.findings
    (tmp_path / "report.json").write_text(report_json(RunReport(verdicts=(verdict,))), encoding="utf-8")
    (again,) = read_report(tmp_path / "report.json")
    assert again.findings == verdict.findings
    (of_sarif,) = json.loads(report_sarif(RunReport(verdicts=(verdict,))))["runs"]
    (result,) = of_sarif["results"]
    rule = of_sarif["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert (result["ruleId"], rule["id"], rule["shortDescription"]["text"]) == (
        "U001",
        "U001",
        "not met: addmm is short",
    )
    assert "U001" in report_markdown(RunReport(verdicts=(verdict,)))
    assert any(
        line.strip().startswith("U001 not met: addmm is short")
        for line in checked(verdict, explain=False, metrics=False)
    )


def test_a_page_shows_it(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard]\nchecks = ["own.sql"]\n', encoding="utf-8")
    own = checks(tmp_path, written())
    verdict = examine(replay(TORCH), workload="x", policy=Policy(checks=own))
    (tmp_path / "report.json").write_text(report_json(RunReport(verdicts=(verdict,))), encoding="utf-8")
    assert run("report", tmp_path / "report.json", "--html", tmp_path / "page.html").exit_code in (0, 3)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "addmm is short" in page
    assert "look at the rows in the message, or at the query of the check" in page


def test_a_test_that_checks_a_directory_asks_them_as_well(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard]\nchecks = ["own.sql"]\n', encoding="utf-8")
    (tmp_path / "own.sql").write_text(written(), encoding="utf-8")
    check(TORCH)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="U001 not met: addmm is short"):
        check(TORCH)
    check(TORCH, ignore="U001")


# -- what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "own0.sql has no check"),
        ("select 1", "own0.sql has no check"),
        (f"--check: a\n{QUERY}", "own0.sql:1: a check begins with `-- check: NAME`"),
        (f"{written()}\n --  Check : b", "own0.sql:7: a check begins with `-- check: NAME`"),
        (written(code="I101"), "own0.sql:1: code 'I101'"),
        (written(code="U1"), "own0.sql:1: code 'U1'"),
        (written(severity="fatal"), "severity 'fatal'"),
        (written(message=""), "own0.sql:1: the header of a check has no message"),
        (written(message="{name"), "own0.sql:1: in a message expected '}' before end of string; write {{ and }}"),
        (written(message="name}"), "own0.sql:1: in a message Single '}' encountered"),
        (written(messag="x"), "own0.sql:1: a line of a check's header"),
        (written(needs="spns"), "own0.sql:1: needs names 'spns', which does not exist; did you mean 'spans'?"),
        (
            written(layouts="pt-troch"),
            "own0.sql:1: layouts names 'pt-troch', which does not exist; did you mean 'pt-torch'?",
        ),
        (written(where="levle1"), "where names 'levle1', which does not exist; did you mean 'level1'?"),
        (
            written(files="kernel_detail"),
            "files names 'kernel_detail', which does not exist; did you mean 'kernel_details'?",
        ),
        (written(**{"in": "tarce"}), "in names 'tarce', which does not exist; did you mean 'trace'?"),
        (written("selct 1"), "own0.sql:5: the query of addmm_is_short: Parser Error"),
        (
            written("\n\nselect cycle,\n  nme from spans"),
            'own0.sql:8: the query of addmm_is_short: Binder Error: Referenced column "nme"',
        ),
        (written("from spns"), "own0.sql:5: the query of addmm_is_short: Catalog Error"),
        (written("drop table main.spans"), "this is DROP"),
        (written("from read_csv('/etc/passwd')"), "it can read these tables, and nothing else"),
        (written("select 1; select 2"), "it has 2 statements"),
        (
            written(
                "with x as (insert into main.words values (1, 'a') returning *) select 0 as cycle, 'a' as name, 1 as ns"
            ),
            "must be at the top level",
        ),
        (written("select name, duration_ns as ns from spans"), "it returns no column cycle"),
        (written("select cycle, name from spans"), "it returns no column ns (the message names it)"),
        (written("select name as cycle, name, 1 as ns from spans"), "its column cycle is VARCHAR"),
        (written("select cycle, name as row, name, 1 as ns from spans"), "its column row is VARCHAR"),
        (written("select cycle, name as file, name, 1 as ns from spans"), "its column file is VARCHAR"),
        *(
            (
                written(message=f"{{name:{form}}}"),
                "own0.sql:1: a message formats a column as in {name:.1f}, with two",
            )
            for form in (">100", "0999999999d", ".999999999f", "x>999999999", "%999999999d", "%Y")
        ),
    ],
)
@pytest.mark.variants(1)
def test_a_check_that_is_none_is_refused_with_its_place(text, sentence, tmp_path):
    with refused(sentence):
        checks(tmp_path, text)


@pytest.mark.parametrize("other, word", [({"code": "U002"}, "addmm_is_short"), ({"check": "other"}, "U001")])
def test_a_name_or_a_code_that_is_there_twice_is_refused(other, word, tmp_path):
    with pytest.raises(UsageError, match=rf"own1\.sql:1: {word} is already used by own0\.sql:1"):
        checks(tmp_path, written(), written(**other))


@pytest.mark.parametrize(
    "query, header, sentence",
    [
        ("select cycle, name, 1 as ns, 'bad' as severity from spans", {}, "returned the unknown severity 'bad'"),
        (QUERY, {"message": "{name:.3f} {ns}"}, "the message of addmm_is_short does not fit a row that it returned"),
        (
            "select 0 as cycle, 'a' as name, 9999999999 as ns",
            {"message": "{ns:c} {name}"},
            "the message of addmm_is_short does not fit a row that it returned",
        ),
        (
            "select cycle, name, name::integer as ns from spans",
            {},
            "own0.sql:5: the query of addmm_is_short: Conversion Error",
        ),
    ],
)
@pytest.mark.variants(1)
def test_what_only_the_rows_show_is_one_sentence(query, header, sentence, tmp_path):
    with pytest.raises(UsageError) as error:
        found(tmp_path, TORCH, written(query, **header))
    assert sentence in str(error.value)


@pytest.mark.parametrize("form", ["", ".1f", ",", "+d", ".9g", ">12", "x^99", "08.3f", ",.2f", ".1%", "e"])
@pytest.mark.variants(2)
def test_formats_that_make_no_long_text_are_those_of_python(form, tmp_path):
    (finding,) = found(tmp_path, TORCH, written("select 0 as cycle, 'a' as name, 7 as ns", message=f"{{ns:{form}}}"))
    assert finding.message.strip() == format(7, form).strip()


@pytest.mark.parametrize(
    "query, number",
    [
        ("select null::integer as cycle, name, 1 as ns from spans", "null"),
        ("select -1 as cycle, name, 1 as ns from spans", "-1"),
        ("select 99 as cycle, name, 1 as ns from spans", "99"),
        ("select k.cycle, s.name, 1 as ns from spans s left join kernels k on s.row = k.row", "null"),
        # One row that can be reported does not hide the other.
        ("select 0 as cycle, 'a' as name, 1 as ns union all select null, 'b', 2", "null"),
        ("select unnest([0, 2]) as cycle, 'a' as name, 1 as ns", "2"),
        ("select cycle + 1 as cycle, row, 0 as file, name, 1 as ns from spans", "1"),
    ],
)
@pytest.mark.parametrize("severity", ["error", "note"])
@pytest.mark.variants(1)
def test_a_row_of_no_cycle_is_an_error_and_not_lost(query, number, severity, tmp_path):
    with refused(f"own0.sql:1: addmm_is_short returned a row whose cycle is {number}, and there is no such cycle"):
        found(tmp_path, TORCH, written(query, severity=severity))


def test_rows_of_cycles_that_a_check_is_not_for_are_not_asked_for(tmp_path):
    generate("pt-torch", ranks=1, steps=2).write(tmp_path / "both" / "torch")
    generate("pt-npu", ranks=1, steps=2).write(tmp_path / "both" / "npu")
    text = written("select cycle, layout as name, 1 as ns from cycles", needs="steps", layouts="pt-torch")
    assert {one.message for one in found(tmp_path, tmp_path / "both", text)} == {"pt-torch takes 1 ns"}


@pytest.mark.parametrize("file", [-1, 1, 99])
@pytest.mark.variants(1)
def test_a_row_of_no_file_is_an_error_and_not_lost(file, tmp_path):
    with refused(f"own0.sql:1: addmm_is_short returned a row of file {file}, and of trace there is 1 file"):
        found(tmp_path, TORCH, written(f"select cycle, {file} as file, row, name, 1 as ns from spans"))


# A value that is nested deep fits a message, which is cut.
@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "nested value"])
@pytest.mark.variants(1)
def test_a_check_that_would_take_all_time_or_memory_ends(name, tmp_path, monkeypatch, must_not_hang):
    monkeypatch.setattr("perfguard.contract.own_checks.LIMIT_S", 3.0)
    query, sentences = HOSTILE[name]
    text = written(f"select 0 as cycle, value as name, 1 as ns from (\n{query}\n) as t(value)")
    with pytest.raises(UsageError, match=r"^own0\.sql:[56]: the query of addmm_is_short: ") as error:
        found(tmp_path, TORCH, text)
    assert any(sentence in str(error.value) for sentence in (*sentences, LATE))


@pytest.mark.exhaustive
def test_what_a_process_finds_in_its_rows_is_the_same_sentence(tmp_path):
    generate("pt-torch", ranks=2, steps=2).write(tmp_path / "ranks")
    text = written("select cycle, name, 1 as ns, 'bad' as severity from spans")
    with pytest.raises(UsageError, match="returned the unknown severity 'bad'"):
        found(tmp_path, tmp_path / "ranks", text, visit=partial(in_parallel, jobs=2))


def test_a_check_without_an_end_ends(tmp_path, monkeypatch, must_not_hang):
    monkeypatch.setattr("perfguard.contract.own_checks.LIMIT_S", 0.3)
    endless = (
        "with recursive t as (select 1 as x union all select x + 1 from t) "
        "select 0 as cycle, 'a' as name, x as ns from t where x < 0"
    )
    with pytest.raises(UsageError, match=r"own0\.sql:5: the query of addmm_is_short: it takes longer than 0\.3 s"):
        found(tmp_path, TORCH, written(endless))


# -- where they are named ------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_files_and_folders_are_relative_to_the_project(tmp_path, monkeypatch):
    (tmp_path / "perf" / "deep").mkdir(parents=True)
    (tmp_path / "inner").mkdir()
    (tmp_path / "perf" / "deep" / "a.sql").write_text(written(), encoding="utf-8")
    (tmp_path / "b.sql").write_text(written(check="other", code="U002"), encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.perfguard]\nchecks = ["perf", "b.sql"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path / "inner")
    shown = run("check", TORCH)
    assert shown.exit_code == 3
    assert "U001 not met: addmm is short" in shown.stdout
    assert "U002 not met: other" in shown.stdout
    # Named on the command line they are those alone, wherever it is run.
    alone = run("check", TORCH, "--checks", tmp_path / "b.sql")
    assert "U001" not in alone.stdout
    assert "U002 not met: other" in alone.stdout
    assert run("check", TORCH, "--ignore", "U").exit_code == 0
    assert run("check", TORCH, "--select", "U2").exit_code == 0


@pytest.mark.parametrize(
    "value, sentence",
    [
        ('"perf"', "checks must be a list of files and folders as strings, got 'perf'."),
        ("[1]", "as strings, got [1] (1 is not a string)."),
        ('["perf"]', "checks: perf does not exist"),
        ('["empty"]', "checks: empty has no .sql file"),
        ('["bad.sql"]', "bad.sql cannot be read: it is not UTF-8: byte 10 is 0xff. Correct it"),
        ('["huge.sql"]', "huge.sql cannot be read: it is larger than 4 MiB. Correct it"),
        ('[]\ncheck = ["bad.sql"]', "[tool.perfguard].check is not a known key; did you mean 'checks'?"),
        ('["/dev/zero"]', "checks: /dev/zero is no file; name a .sql file"),
    ],
)
def test_a_setting_that_is_wrong_is_refused(value, sentence, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.sql").write_bytes(b"-- check: \xff")
    with (tmp_path / "huge.sql").open("wb") as file:
        file.truncate(3 * 1024**3)
    (tmp_path / "pyproject.toml").write_text(f"[tool.perfguard]\nchecks = {value}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = run("check", TORCH)
    assert shown.exit_code == 2
    assert sentence in shown.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_folder_that_cannot_be_searched_is_named(tmp_path, monkeypatch):
    # A process that nobody has waited for has a folder that the system does not list.
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    folder = f"/proc/{ended.pid}/net"
    (tmp_path / "pyproject.toml").write_text(f'[tool.perfguard]\nchecks = ["{folder}"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    shown = run("check", TORCH)
    ended.wait()
    assert shown.exit_code == 2
    assert f"checks: {folder} cannot be searched: Invalid argument: {folder}; name a .sql file" in shown.stderr
