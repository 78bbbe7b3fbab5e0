"""The report as a JSON document: verdict → document → verdict."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import perfguard
from perfguard.documents import schema, violations
from perfguard.errors import StoreError
from perfguard.findings import Code, Finding, Ignored, Severity
from perfguard.judge.baseline import BaselineFacts
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.refresh import Refresh
from perfguard.judge.verdict import Coverage, Outcome, Verdict
from perfguard.measure import METRICS, Measurement, MemoryTrack, StepTimeline
from perfguard.recording import Environment, Fingerprint, Step
from perfguard.reports import REPORTERS, RunReport
from perfguard.reports.document import (
    coverage_document,
    report_document,
    report_json,
    verdict_document,
    verdict_from_document,
)
from perfguard.reports.reading import read_report
from perfguard.reports.terminal import measurement_rows, summary
from perfguard.window import Phase, StepWindow

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NUMBERS = st.one_of(st.integers(-(2**60), 2**60), st.floats(-1e149, 1e149))
VALUES = st.one_of(NUMBERS, st.lists(TEXT, max_size=3), st.dictionaries(TEXT, NUMBERS, max_size=3))
COUNTS = st.integers(0, 1000)
SAMPLES = st.lists(st.floats(0, 1e12), max_size=4).map(tuple)
METRIC_NAMES = st.one_of(st.sampled_from(sorted(METRICS)), TEXT)

FINDINGS = st.builds(
    Finding,
    code=st.sampled_from(Code),
    message=TEXT,
    place=TEXT,
    severity=st.sampled_from(Severity),
    rank=st.one_of(st.none(), COUNTS),
    check=TEXT,
    more=COUNTS,
    excerpt=TEXT,
    ignored=st.one_of(
        st.none(), st.builds(Ignored, by=TEXT, severity=st.sampled_from((Severity.ERROR, Severity.WARNING)))
    ),
)
COMPARISONS = st.builds(
    Comparison,
    metric=METRIC_NAMES,
    subject=TEXT,
    state=st.sampled_from(State),
    judged=st.booleans(),
    reference=st.one_of(st.none(), VALUES),
    current=st.one_of(st.none(), VALUES),
    allowed=st.one_of(st.none(), NUMBERS),
    reference_samples=SAMPLES,
)
MEASUREMENTS = st.builds(Measurement, metric=METRIC_NAMES, subject=TEXT, value=VALUES, samples=SAMPLES)
WINDOWS = st.builds(
    StepWindow, skip_first=COUNTS, wait=COUNTS, warmup=COUNTS, active=COUNTS.map(lambda n: n + 1), repeat=st.just(2)
)
FINGERPRINTS = st.builds(
    Fingerprint,
    workload=TEXT,
    backend=TEXT,
    device=TEXT,
    mode=TEXT,
    world_size=st.integers(1, 9),
    threads=COUNTS,
    window=WINDOWS,
)
ENVIRONMENTS = st.builds(
    Environment,
    python=TEXT,
    platform=TEXT,
    packages=st.dictionaries(TEXT, TEXT, max_size=2),
    cpu_model=TEXT,
    cpu_count=COUNTS,
    device_name=TEXT,
)
NANOSECONDS = st.integers(-(10**18), 10**18)
CALLS = st.one_of(st.none(), st.integers(0, 10**6), st.floats(0, 1e6))
ENTRIES = st.builds(
    Entry,
    cause=st.sampled_from(Cause),
    subject=TEXT,
    base_ns=NANOSECONDS,
    current_ns=NANOSECONDS,
    base_calls=CALLS,
    current_calls=CALLS,
    renamed_from=TEXT,
    note=TEXT,
)
LEDGERS = st.builds(
    Ledger,
    metric=TEXT,
    base_ns=NANOSECONDS,
    current_ns=NANOSECONDS,
    entries=st.lists(ENTRIES, max_size=3).map(tuple),
    rank=st.one_of(st.none(), COUNTS),
)
FACTS = st.builds(
    BaselineFacts,
    commit=st.one_of(st.none(), TEXT),
    reason=st.one_of(st.none(), TEXT),
    environment=st.one_of(st.none(), ENVIRONMENTS),
    runs=COUNTS,
)
STEPS = st.builds(
    Step,
    index=COUNTS,
    phase=st.sampled_from(Phase),
    cycle=COUNTS,
    start_ns=NANOSECONDS,
    wall_ns=COUNTS,
    thread_cpu_ns=COUNTS,
    pause_ns=st.one_of(st.none(), COUNTS),
    rank=COUNTS,
)
TRACKS = st.builds(
    MemoryTrack,
    rank=COUNTS,
    device=TEXT,
    parts=COUNTS,
    curve_bytes=st.lists(st.integers(0, 2**62), max_size=3).map(tuple),
)
#: Spans of the two lanes and the three names that each timeline has.
SPANS = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 2**50), st.integers(0, 2**50))
TIMELINES = st.builds(
    StepTimeline,
    rank=COUNTS,
    step=COUNTS,
    duration_ns=st.integers(0, 2**50),
    count=COUNTS,
    lanes=st.tuples(TEXT, TEXT),
    names=st.tuples(TEXT, TEXT, TEXT),
    spans=st.lists(SPANS, max_size=3).map(tuple),
)
VERDICTS = st.builds(
    Verdict,
    workload=TEXT,
    outcome=st.sampled_from(Outcome),
    findings=st.lists(FINDINGS, max_size=3).map(tuple),
    comparisons=st.lists(COMPARISONS, max_size=3).map(tuple),
    measurements=st.lists(MEASUREMENTS, max_size=3).map(tuple),
    fingerprint=st.one_of(st.none(), FINGERPRINTS),
    environment=st.one_of(st.none(), ENVIRONMENTS),
    recording=st.one_of(st.none(), st.sampled_from([Path("/a/b"), Path("c")])),
    layouts=st.lists(TEXT, max_size=2).map(tuple),
    refresh=st.one_of(st.none(), st.sampled_from(Refresh)),
    changes=st.lists(TEXT, max_size=2).map(tuple),
    notes=st.lists(TEXT, max_size=2).map(tuple),
    read=st.dictionaries(st.sampled_from(["ranks", "cycles", "files", "rows"]), COUNTS),
    traits=st.fixed_dictionaries(
        {}, optional={"backend": TEXT, "device": TEXT, "mode": TEXT, "ranks": st.integers(1, 10**6)}
    ),
    ledger=st.one_of(st.none(), LEDGERS),
    compared_with=st.one_of(st.none(), FACTS),
    steps=st.lists(STEPS, max_size=2).map(tuple),
    memory=st.lists(TRACKS, max_size=2).map(tuple),
    timeline=st.one_of(st.none(), TIMELINES),
    base_timeline=st.one_of(st.none(), TIMELINES),
    source=TEXT,
)

PLAIN = Verdict(
    workload="test_a.py::test_a",
    outcome=Outcome.FAILED,
    findings=(Finding(code=Code.R102, place="steps", message="steps 3 → 4 steps, +1", rank=1, check="x"),),
    comparisons=(
        Comparison(
            metric="steps",
            subject="",
            state=State.WORSE,
            judged=True,
            reference=3,
            current=4,
            allowed=3,
            reference_samples=(3.0,),
        ),
    ),
    measurements=(Measurement(metric="step_time", subject="", value=1.5, samples=(1.5, 2.0, 2.5)),),
    fingerprint=Fingerprint(
        workload="test_a.py::test_a",
        backend="torch",
        device="cpu",
        mode="eager",
        world_size=1,
        threads=1,
        window=StepWindow(),
    ),
    recording=Path("/data/recording"),
    layouts=("pt-torch",),
    read={"files": 3},
    traits={"backend": "torch", "ranks": 1},
    compared_with=BaselineFacts(commit="abc", runs=5),
    steps=(Step(index=2, phase=Phase.ACTIVE, cycle=0, start_ns=5, wall_ns=7, thread_cpu_ns=6),),
    memory=(MemoryTrack(rank=0, device="cpu", parts=2, curve_bytes=(10, 0)),),
    timeline=StepTimeline(
        rank=0,
        step=0,
        duration_ns=90,
        count=2,
        lanes=("thread 1",),
        names=("a", "b"),
        spans=((0, 1, 5, 20), (0, 0, 30, 7)),
    ),
    source="test_a.py:3",
)


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Return the document of a verdict as a reader of the file has it: with lists instead of tuples."""
    return json.loads(json.dumps(verdict_document(verdict)))


def test_a_verdict_as_a_document():
    assert as_json(PLAIN) == {
        "workload": "test_a.py::test_a",
        "outcome": "FAILED",
        "step": {
            "step_baseline_ms": None,
            "step_ms": 0.0015,
            "step_change_percent": None,
            "judged": False,
            "metric": "step_time",
            "source": "3 timed steps of the test's own process",
        },
        "findings": [
            {
                "code": "R102",
                "headline": "an exact metric differs",
                "severity": "error",
                "message": "steps 3 → 4 steps, +1",
                "place": "steps",
                "rank": 1,
                "check": "x",
                "more": 0,
                "excerpt": "",
            }
        ],
        "comparisons": [
            {
                "metric": "steps",
                "subject": "",
                "state": "worse",
                "judged": True,
                "reference": 3,
                "current": 4,
                "allowed": 3,
                "reference_samples": [3.0],
                "unit": "steps",
            }
        ],
        "coverage": {"compared": 1, "worse": 1, "better": 0, "changed": 0, "not-comparable": 0, "shown-only": 0},
        "measurements": [
            {"metric": "step_time", "subject": "", "value": 1.5, "samples": [1.5, 2.0, 2.5], "median": 2.0, "p90": 2.4}
        ],
        "fingerprint": {
            "workload": "test_a.py::test_a",
            "backend": "torch",
            "device": "cpu",
            "mode": "eager",
            "world_size": 1,
            "threads": 1,
            "window": {"skip_first": 2, "wait": 0, "warmup": 1, "active": 5, "repeat": 1},
            "first_profiled_step": None,
        },
        "environment": None,
        "recording": "/data/recording",
        "layouts": ["pt-torch"],
        "notes": [],
        "read": {"files": 3},
        "traits": {"backend": "torch", "ranks": 1},
        "environment_changes": [],
        "tolerance": {},
        "ignore": [],
        "changed": "warn",
        "target": None,
        "baseline": None,
        "changes": [],
        "timings": [],
        "lost_runs": [],
        "ledger": None,
        "compared_with": {"commit": "abc", "reason": None, "environment": None, "runs": 5},
        "steps": [
            {"index": 2, "phase": "active", "cycle": 0, "start_ns": 5, "wall_ns": 7, "thread_cpu_ns": 6, "rank": 0}
        ],
        "memory": [{"rank": 0, "device": "cpu", "parts": 2, "curve_bytes": [10, 0]}],
        "timeline": {
            "rank": 0,
            "step": 0,
            "duration_ns": 90,
            "count": 2,
            "lanes": ["thread 1"],
            "names": ["a", "b"],
            "spans": ["0 1 5 20", "0 0 30 7"],
        },
        "source": "test_a.py:3",
    }


def test_a_report_as_a_document():
    kept = Verdict(workload="b", outcome=Outcome.PASSED, findings=(), refresh=Refresh.KEPT)
    document = report_document(RunReport(verdicts=(PLAIN, kept), unused=("c",), not_run=("d",), remarks=("e",)))
    assert [one["workload"] for one in document["workloads"]] == ["test_a.py::test_a", "b"]
    assert {key: value for key, value in document.items() if key != "workloads"} == {
        "format": 3,
        "perfguard": perfguard.__version__,
        "run": {"commit": None, "branch": None, "committed_at": None, "finished_at": None, "ci_url": None},
        "summary": {
            "outcomes": {"FAILED": 1, "PASSED": 1},
            "coverage": {"compared": 1, "worse": 1, "better": 0, "changed": 0, "not-comparable": 0, "shown-only": 0},
            "unused": ["c"],
            "not_run": ["d"],
            "remarks": ["e"],
        },
    }


@given(VERDICTS)
@settings(deadline=None)
def test_a_verdict_survives_the_way_through_json(verdict):
    text = json.dumps(verdict_document(verdict), allow_nan=False)
    assert verdict_from_document(json.loads(text)) == verdict


@given(st.lists(VERDICTS, max_size=2), st.lists(TEXT, max_size=2), st.lists(TEXT, max_size=2))
@settings(deadline=None, max_examples=50)
def test_every_report_keeps_its_schema(verdicts, unused, not_run):
    report = RunReport(verdicts=tuple(verdicts), unused=tuple(unused), not_run=tuple(not_run))
    document = json.loads(REPORTERS["json"]().text(report))
    assert violations(document, "report") == []
    assert document["summary"]["outcomes"] == report.outcomes


def test_a_written_report_is_read_back(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(report_json(RunReport(verdicts=(PLAIN, replace(PLAIN, workload="b")))), encoding="utf-8")
    assert read_report(path) == (PLAIN, replace(PLAIN, workload="b"))


def test_a_report_is_sorted_indented_text_that_ends_with_a_line_break():
    text = report_json(RunReport(verdicts=(PLAIN,)))
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["value", "samples", "census", "reference"])
def test_a_number_json_has_not_never_becomes_a_document(number, place):
    """It is refused with an error of perfguard's own, or written as JSON; never as `NaN`."""
    odd = {
        "value": replace(PLAIN, measurements=(Measurement(metric="step_time", subject="", value=number),)),
        "samples": replace(
            PLAIN, measurements=(Measurement(metric="step_time", subject="", value=1.0, samples=(1.0, number)),)
        ),
        "census": replace(
            PLAIN, measurements=(Measurement(metric="operator_shapes", subject="a", value={"x": number}),)
        ),
        "reference": replace(PLAIN, comparisons=(replace(PLAIN.comparisons[0], reference=number),)),
    }[place]
    try:
        text = report_json(RunReport(verdicts=(odd,)))
    except (StoreError, ValueError):
        return

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    "coverage, document",
    [
        (
            Coverage(compared=5, worse=1, better=1, changed=2, not_comparable=2, shown_only=3),
            {"compared": 5, "worse": 1, "better": 1, "changed": 2, "not-comparable": 2, "shown-only": 3},
        )
    ],
)
def test_the_coverage_as_a_document(coverage, document):
    assert coverage_document(coverage) == document


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(TEXT, inner, max_size=2)),
    max_leaves=4,
)
#: What others may have written into a report: every part looks right, as far as a schema can easily say.
FOREIGN = {
    ("findings", 0, "code"): st.from_regex("^[A-Z][0-9]{3}$"),
    ("findings", 0, "severity"): st.one_of(st.sampled_from(["error", "note"]), JSON),
    ("measurements", 0, "value"): st.one_of(VALUES, JSON),
    ("measurements", 0, "samples"): st.lists(st.one_of(NUMBERS, JSON), max_size=3),
    ("comparisons", 0, "state"): st.one_of(st.sampled_from(["same", "worse"]), JSON),
    ("fingerprint", "window", "active"): st.one_of(st.sampled_from([1, 3.0]), JSON),
    ("fingerprint", "window", "repeat"): st.one_of(st.sampled_from([1, 1.0]), JSON),
    ("outcome",): st.one_of(st.sampled_from(["PASSED", "passed"]), JSON),
    ("baseline",): st.one_of(st.sampled_from(["kept", "unused"]), JSON),
    ("changes",): st.one_of(st.lists(TEXT, max_size=1), JSON),
    ("recording",): JSON,
    ("timeline",): JSON,
    ("timeline", "spans"): st.one_of(
        st.lists(st.one_of(st.sampled_from(["0 1 2 3", "9 0 1 1", "0 9 1 1"]), TEXT)), JSON
    ),
    ("timeline", "names"): st.one_of(st.lists(TEXT, max_size=2), JSON),
}


@given(st.data(), st.sampled_from(sorted(FOREIGN, key=str)))
@settings(deadline=None, max_examples=150)
def test_what_others_wrote_is_read_and_shown_or_refused_with_a_sentence(tmp_path_factory, data, place):
    document = json.loads(report_json(RunReport(verdicts=(PLAIN,))))
    *parents, last = place
    part = document["workloads"][0]
    for key in parents:
        part = part[key]
    part[last] = data.draw(FOREIGN[place])
    path = tmp_path_factory.mktemp("report") / "report.json"
    path.write_text(json.dumps(document))
    try:
        verdicts = read_report(path)
    except StoreError as error:
        said = str(error)
    else:
        said = "\n".join([str(path), measurement_rows(verdicts[0].measurements), summary(RunReport(verdicts=verdicts))])
    assert str(path) in said


@pytest.mark.parametrize("key", sorted(verdict_document(PLAIN)))
def test_every_key_the_reader_needs_is_required_by_the_schema(key):
    document = as_json(PLAIN)
    del document[key]
    part = schema("report")["properties"]["workloads"]["items"]
    if Draft202012Validator(part).is_valid(document):
        assert verdict_from_document(document).workload == PLAIN.workload
    else:
        assert key in part["required"]


def test_a_timing_in_a_report_is_a_timing_of_its_own_file():
    """The report's schema repeats the timing's, because a report is one document."""
    own, report = schema("timing"), schema("report")
    inside = report["properties"]["workloads"]["items"]["properties"]["timings"]["items"]
    durations = own["$defs"]["durations"]
    plain = {
        name: {**durations, "description": one["description"]} if "$ref" in one else one
        for name, one in own["properties"].items()
    }
    del plain["format"]
    assert inside["properties"] == plain
    assert inside["required"] == [name for name in own["required"] if name != "format"]


@pytest.mark.parametrize("word", ["new", "gone"])
def test_what_only_one_side_had_was_worse_in_older_reports(word):
    plain = verdict_document(PLAIN)
    plain["comparisons"][0]["state"] = word
    assert verdict_from_document(plain).comparisons[0].state is State.WORSE
