"""Reports of this perfguard, of older and newer ones, and what became of files on their way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfguard
from perfguard.errors import StoreError
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.recording import Provenance
from perfguard.reports import REPORTERS, RunReport
from perfguard.reports.document import report_document, report_json
from perfguard.reports.page import page_html
from perfguard.reports.reading import read_report, read_run
from perfguard.version import upgrade_command
from tests.reports import runs_to_show as show


@pytest.fixture(scope="module")
def run() -> RunReport:
    return show.run_of(show.passing(), show.failing(), unused=("u",), not_run=("n",))


def without_weights(verdict: Verdict) -> Verdict:
    """Return a verdict as a report keeps it: its findings are in their order, so what orders them is not written."""
    findings = tuple(replace(one, weight=0.0) for one in verdict.findings)
    comparisons = tuple(replace(one, finding=None) for one in verdict.comparisons)
    return replace(verdict, findings=findings, comparisons=comparisons)


def written(place: Path, document: object) -> Path:
    path = place / "report.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return path


def test_a_run_is_read_back_whole(run, tmp_path):
    found = read_run(written(tmp_path, report_json(run)))
    assert found.verdicts == tuple(without_weights(one) for one in run.verdicts)
    assert (found.unused, found.not_run, found.provenance) == (run.unused, run.not_run, run.provenance)
    assert (found.written_by, found.remarks) == (perfguard.__version__, ())
    # The page of what was read is that of what was written.
    assert page_html(found) == page_html(run)


def test_what_a_run_said_beside_its_workloads_is_read_back(run, tmp_path):
    said = ("gone: a ran on the base only", "accepted: b is new, and so is its baseline")
    assert read_run(written(tmp_path, report_json(replace(run, remarks=said)))).remarks == said


def as_format_1(document: dict) -> dict:
    """Return a report as perfguard 0.1 wrote it."""
    del document["run"]
    for one in document["workloads"]:
        for key in ("compared_with", "steps", "memory", "source", "changed"):
            del one[key]
        for comparison in one["comparisons"]:
            comparison.pop("allowed")
            comparison.pop("reference_samples", None)
            if comparison["current"] is None:
                comparison["state"] = "gone"
        for finding in one["findings"]:
            del finding["more"], finding["excerpt"]
    return {**document, "format": 1, "perfguard": "0.1.0"}


def test_an_older_report_is_read_with_a_remark(run, tmp_path):
    path = written(tmp_path, as_format_1(report_document(run)))
    found = read_run(path)
    (remark,) = found.remarks
    assert f"{path} was written by perfguard 0.1.0, an older one (format 1;" in remark
    assert [one.outcome for one in found.verdicts] == [Outcome.PASSED, Outcome.FAILED]
    assert found.provenance == Provenance()
    assert len(read_report(path)) == 2
    assert remark.replace("&", "&amp;") in page_html(found).replace("<wbr>", "")


def newer(document: dict, change) -> dict:
    change(document)
    return {**document, "format": 7, "perfguard": "9.1.0"}


def test_a_newer_report_is_shown_as_far_as_it_is_known_and_judged_by_nobody(run, tmp_path):
    def change(document):
        first = document["workloads"][1]
        document["cloud"] = {"a": 1}
        first["heat"] = [1]
        first["findings"].append(
            {"code": "Z900", "headline": "a new kind", "severity": "error", "message": "boom", "place": ""}
        )
        first["comparisons"][0]["state"] = "wobbly"
        first["measurements"].append({"metric": "m", "subject": "s", "value": None})
        first["ledger"]["entries"][0]["cause"] = "moonlight"

    path = written(tmp_path, newer(report_document(run), change))
    found = read_run(path)
    (remark,) = found.remarks
    assert "was written by perfguard 9.1.0, a newer one (format 7;" in remark
    assert (
        "1 x cloud, 1 x comparisons, 1 x findings, which are among the notes, 1 x heat, 1 x ledger, 1 x measurements"
        in remark
    )
    assert upgrade_command() in remark
    last = found.verdicts[1]
    assert (last.outcome, last.ledger) == (Outcome.FAILED, None)
    assert last.findings == without_weights(run.verdicts[1]).findings
    assert last.notes[0] == "Z900 a new kind: boom"
    assert len(last.comparisons) == len(run.verdicts[1].comparisons) - 1
    with pytest.raises(
        StoreError, match="format 7, but this perfguard reads formats up to 3: a newer perfguard wrote it"
    ):
        read_report(path)


def test_a_workload_with_an_outcome_that_is_not_known_is_left_out_and_counted(run, tmp_path):
    def change(document):
        document["workloads"][0]["outcome"] = "SKIPPED"

    found = read_run(written(tmp_path, newer(report_document(run), change)))
    assert [one.workload for one in found.verdicts] == [run.verdicts[1].workload]
    assert "1 x workload" in found.remarks[0]


@pytest.mark.parametrize("workloads", [7, {"a": 1}, None, "x"])
def test_a_newer_report_of_another_form_says_so_in_one_sentence(tmp_path, workloads):
    path = written(tmp_path, {"format": 9, "perfguard": "9.9.9", "workloads": workloads})
    with pytest.raises(StoreError, match=r"written by perfguard 9\.9\.9, in format 9, of which .* can read nothing"):
        read_run(path)


@pytest.mark.parametrize("read", [read_run, read_report])
@pytest.mark.parametrize(
    "text, why",
    [
        ("", "is damaged"),
        ("[]", "is not a report; if a profiler wrote it"),
        ('{"traceEvents": []}', "is not a report; if a profiler wrote it"),
        ("{}", "is damaged"),
        ('{"format": 2, "perfguard": "0", "workloads": []}', "is damaged"),
        ("\x00" * 40, "is damaged"),
    ],
)
def test_what_is_no_report_is_refused_with_the_next_command(tmp_path, read, text, why):
    with pytest.raises(StoreError) as caught:
        read(written(tmp_path, text))
    assert why in str(caught.value)
    assert "pytest --perfguard --perfguard-report FILE" in str(caught.value)


@given(st.floats(0, 0.9999))
def test_a_truncated_report_is_never_read_as_a_shorter_one(tmp_path_factory, share):
    text = report_json(show.run_of(show.without_baseline()))
    path = written(tmp_path_factory.mktemp("cut"), text[: int(share * (len(text) - 2))])
    with pytest.raises(StoreError, match="is damaged"):
        read_run(path)


def test_a_number_that_is_none_is_refused(run, tmp_path):
    text = report_json(run).replace('"judged": true', '"judged": NaN', 1)
    with pytest.raises(StoreError, match="NaN is not a JSON number"):
        read_run(written(tmp_path, text))


def test_what_goes_with_one_workload_takes_nothing_of_another(run, tmp_path):
    def change(document):
        first = document["workloads"][0]
        first["outcome"] = "FLAKY"
        first["findings"] = [{"code": "R102", "headline": "", "severity": "grave", "message": "", "place": ""}]
        for one in first["measurements"][:5]:
            one["value"] = None

    for turned in (False, True):
        document = newer(report_document(run), change)
        document["workloads"] = document["workloads"][::-1] if turned else document["workloads"]
        (kept,) = read_run(written(tmp_path, document)).verdicts
        assert kept.workload == run.verdicts[1].workload
        assert kept.measurements == run.verdicts[1].measurements
        assert kept.findings == without_weights(run.verdicts[1]).findings


@pytest.mark.parametrize(
    "part, value, what",
    [
        ("tolerance", {"of_a_later_one": {"relative": 0.1}}, "nothing"),
        ("tolerance", {"step_time": "auto"}, "1 x tolerance"),
        ("tolerance", {"step_time": {"relative": "much"}}, "1 x tolerance"),
        ("notes", None, "1 x notes"),
        ("layouts", None, "1 x layouts"),
        ("coverage", {"compared": 0.5}, "1 x coverage"),
        ("steps", [{"index": 1, "phase": "cooldown"}], "1 x steps"),
        ("timings", [{"workload": "a"}], "1 x timings"),
        ("baseline", "promoted", "1 x baseline"),
    ],
)
def test_a_part_that_is_not_known_is_left_out_and_the_workload_stays(run, tmp_path, part, value, what):
    def change(document):
        document["workloads"][1][part] = value

    found = read_run(written(tmp_path, newer(report_document(run), change)))
    assert [one.workload for one in found.verdicts] == [one.workload for one in run.verdicts]
    assert found.is_partial
    assert f"so this was left out: {what}" in found.remarks[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one["steps"][0].__setitem__("phase", "cooldown"),
        lambda one: one["measurements"].append({"metric": "m", "subject": "", "value": 10**400}),
        lambda one: one["tolerance"].__setitem__("of_a_later_one", 0.5),
        lambda one: one["timings"].append({"workload": "a", "environment": {"a": 1}}),
    ],
)
def test_what_a_report_of_this_format_cannot_hold_is_one_sentence(run, tmp_path, change):
    document = report_document(run)
    change(document["workloads"][1])
    with pytest.raises(StoreError):
        read_run(written(tmp_path, document))


def test_odd_parts_of_a_report_are_shown_in_every_form(run, tmp_path):
    document = report_document(run)
    document["workloads"][1]["ledger"]["entries"] = []
    document["workloads"][0]["findings"].append(
        {"code": "S103", "headline": "", "severity": "note", "message": "m", "place": "a.csv:" + "9" * 5000}
    )
    found = read_run(written(tmp_path, document))
    for name in ("html", "markdown", "metrics", "terminal", "json"):
        assert REPORTERS[name]().text(found)
