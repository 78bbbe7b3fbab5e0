"""Findings as SARIF 2.1.0: what the standard requires of a log, and of the names of files in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import perfguard
from perfguard.findings import Code, Finding, Severity, advice, split_place
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.reports import RunReport
from perfguard.reports.sarif import report_sarif

#: Any name a file system gives: no slash, no NUL; bytes that are not UTF-8 come as lone surrogates.
NAMES = st.binary(min_size=1, max_size=12).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"n").replace(b"/", b"s")))


def finding(place: str = "", code: Code = Code.S103, **more: Any) -> Finding:
    return Finding(code=code, message="m", place=place, **more)


def log_of(*findings: Finding, recording: Path | None = Path("/data/run 1")) -> dict[str, Any]:
    verdict = Verdict(workload="w", outcome=Outcome.INVALID, findings=findings, recording=recording)
    found: dict[str, Any] = json.loads(report_sarif(RunReport(verdicts=(verdict,))))
    return found


def result_of(one: Finding) -> dict[str, Any]:
    (result,) = log_of(one)["runs"][0]["results"]
    return dict(result)


def uri_of(one: Finding) -> str:
    return str(result_of(one)["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


# -- the log (3.13), the run (3.14), the tool (3.18, 3.19, 3.49) ------------------------------------------------------


def test_a_log_names_its_version_and_schema():
    log = log_of()
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    assert set(log) == {"$schema", "version", "runs"}


def test_no_verdict_is_a_log_without_runs():
    assert json.loads(report_sarif(RunReport(verdicts=())))["runs"] == []


def test_a_log_is_text_that_ends_with_a_line_break():
    assert report_sarif(RunReport(verdicts=())).endswith("\n")
    assert report_sarif(RunReport(verdicts=())).isascii()


def test_the_tool_is_named_with_its_version():
    driver = log_of()["runs"][0]["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("perfguard", perfguard.__version__)


def test_every_code_is_a_rule_with_words_for_people():
    rules = log_of()["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [code.name for code in Code]
    for rule, code in zip(rules, Code, strict=True):
        assert rule["shortDescription"] == {"text": code.value}
        assert rule["fullDescription"] == {"text": advice(code).cause}
        assert rule["help"] == {"text": advice(code).fix}


def test_a_run_without_findings_has_an_empty_list_of_results():
    assert log_of()["runs"][0]["results"] == []


@pytest.mark.parametrize(
    ("recording", "base"),
    [
        (Path("/data/run 1"), "file:///data/run%201/"),
        (Path("/data/a#b"), "file:///data/a%23b/"),
        (Path(os.fsdecode(b"/data/\xff")), "file:///data/%FF/"),
        (None, "file:///"),
    ],
)
def test_the_base_of_all_names_is_an_absolute_uri_that_ends_with_a_slash(recording, base):
    assert log_of(recording=recording)["runs"][0]["originalUriBaseIds"] == {"PROFILER_OUTPUT": {"uri": base}}


# -- the result (3.27) -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "level"), [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.NOTE, "note")]
)
def test_a_result_points_at_its_rule_and_has_a_level(severity, level):
    for code in Code:
        log = log_of(finding(code=code, severity=severity))
        (result,) = log["runs"][0]["results"]
        assert result["ruleId"] == code.name
        assert log["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == code.name
        assert result["level"] == level
        assert result["message"] == {"text": f"{code.value}: m"}


@pytest.mark.parametrize(
    ("one", "properties"),
    [
        (finding(), None),
        (finding(rank=0), {"rank": 0}),
        (finding(check="x"), {"check": "x"}),
        (finding(rank=3, check="x"), {"rank": 3, "check": "x"}),
    ],
)
def test_rank_and_check_are_properties_where_they_are_known(one, properties):
    assert result_of(one).get("properties") == properties


def test_results_keep_the_order_of_the_findings():
    codes = [Code.C101, Code.A101, Code.S103, Code.A101]
    results = log_of(*(finding(code=code) for code in codes))["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == [code.name for code in codes]


# -- the location (3.28, 3.29, 3.30, 3.33) ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        ("a/b.csv", ("a/b.csv", None, "")),
        ("a/b.csv:7", ("a/b.csv", 7, "")),
        ("a/b.csv:7 $.percent", ("a/b.csv", 7, "$.percent")),
        ("a/b.json $[5] $.dur", ("a/b.json", None, "$[5] $.dur")),
        ("a/b.json $.traceEvents[3] $.args['Ev Idx']", ("a/b.json", None, "$.traceEvents[3] $.args['Ev Idx']")),
        ("a/b.json $", ("a/b.json", None, "$")),
        ("two words/b.csv:7 $.x", ("two words/b.csv", 7, "$.x")),
        ("two words/b c.csv", ("two words/b c.csv", None, "")),
        ("two words/b.json $.x", ("two words/b.json", None, "$.x")),
        ("a:7/b.csv:9", ("a:7/b.csv", 9, "")),
        ("two\nlines/b.csv:9 $.x", ("two\nlines/b.csv", 9, "$.x")),
        ("a/b.csv:0", ("a/b.csv", None, "")),
        ("rank 3", ("rank 3", None, "")),
        ("", ("", None, "")),
    ],
)
def test_a_place_is_file_line_and_what_is_inside(place, parts):
    assert split_place(place) == parts


@given(
    names=st.lists(st.text("ab .:_-é#%\n", min_size=1, max_size=6), min_size=1, max_size=3),
    line=st.none() | st.integers(1, 10**9),
    inside=st.sampled_from(["", "$.x", "$[5] $.dur", "$.traceEvents[3] $.args['Ev Idx']"]),
)
def test_every_place_is_taken_apart_as_it_was_made(names, line, inside):
    file = "/".join(names) + ".csv"
    place = file + (f":{line}" if line else "") + (f" {inside}" if inside else "")
    assert split_place(place) == (file, line, inside)


def test_a_line_is_a_region_and_a_path_inside_is_a_logical_location():
    (location,) = result_of(finding("a/b.csv:7 $.percent"))["locations"]
    assert location == {
        "physicalLocation": {
            "artifactLocation": {"uri": "a/b.csv", "uriBaseId": "PROFILER_OUTPUT"},
            "region": {"startLine": 7},
        },
        "logicalLocations": [{"fullyQualifiedName": "$.percent"}],
    }


def test_without_a_place_there_is_no_location():
    assert result_of(finding())["locations"] == []


@given(names=st.lists(NAMES, min_size=1, max_size=3))
def test_every_name_is_a_relative_uri_that_leads_back_to_it(names):
    file = "/".join(names) + ".csv"
    # So a place goes on inside a file; of a name that has it too nobody can tell.
    assume(" $" not in file)
    uri = uri_of(finding(f"{file}:7 $.x"))
    assert not set(uri) & set(' "<>\\^`{|}#?:')
    assert uri.isascii()
    assert uri.isprintable()
    parts = urlsplit(uri)
    assert (parts.scheme, parts.netloc) == ("", "")
    assert os.fsdecode(unquote_to_bytes(uri)) == file


@given(
    file=NAMES, key=st.text(st.characters(exclude_categories=())), message=st.text(st.characters(exclude_categories=()))
)
def test_whatever_a_finding_says_the_log_is_unicode(file, key, message):
    one = Finding(code=Code.S103, place=f"{file}.json $.args[{key!r}]", message=message)
    other = Finding(code=Code.S103, place=f"{file}.json $.args['{key}']", message=message)
    json.dumps(log_of(one, other), ensure_ascii=False).encode("utf-8")


def test_a_log_is_what_models_of_the_standard_accept():
    """sarif-pydantic has the objects of SARIF 2.1.0 with their types."""
    models = pytest.importorskip("sarif_pydantic", reason="sarif-pydantic is not installed")
    findings = [
        finding(place=place, severity=severity) for place in ("a.csv:3 $.x", "", "rank 1") for severity in Severity
    ]
    log = models.Sarif.model_validate(log_of(*findings))
    (run,) = log.runs
    assert [result.rule_id for result in run.results] == ["S103"] * len(findings)
    assert run.results[0].locations[0].physical_location.region.start_line == 3
    assert {rule.id for rule in run.tool.driver.rules} == {code.name for code in Code}
