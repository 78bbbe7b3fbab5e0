"""A history: every run once and whole, in the order of its commits, in a file and in a real PostgreSQL."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.documents import violations
from perfguard.errors import StoreError, UsageError
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.tolerance import Rule, Tolerance
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.stores.history import open_history
from perfguard.stores.history.archive import History, run_named
from perfguard.stores.history.entry import RunFacts, digest_of, entry_of, instant, rules_of
from perfguard.stores.history.exchange import csv_text, document_text, entry_document, entry_from
from perfguard.stores.history.tables import escaped, unescaped
from perfguard.thresholds import TREND_STALE_RUNS
from tests.facts import ELSEWHERE, FINGERPRINT, HERE, WORKLOAD, measured
from tests.histories import FIRST, commit, entry, facts

ODD_NAMES = [
    "tests/<script>alert(1)</script>.py::test_a",
    "a\x00b",
    "a\x1b[31mred\x07",
    "\u202eevil\u2066",
    "back\\slash\\u0041\\\\",
    "\ud800lone",
    "naïf 测试 🔥",
    "'; DROP TABLE perfguard_runs; --",
    "%s {x} :name ?",
    "",
    "x" * 20_000,
]


def opened(place: str) -> History:
    return open_history(place, root=Path("/"), writing=True)


def everything(history: History):
    return history.series(workload=lambda _: True, metric=lambda *_: True, runs=history.runs())


def values(history: History) -> dict[str, tuple[float, ...]]:
    return {one.series.label: one.series.values for one in everything(history)}


# -- in and out ----------------------------------------------------------------------------------------------------------


def test_what_goes_in_comes_out(place):
    history = opened(place)
    numbers = {"step_cost": 12.125, "peak_memory_bytes[cpu]": 43824, "operator_time[aten::mm]": 1e-7, "steps": 5}
    first = entry(
        1, numbers, ci_url="https://ci/1", release="v1", finished_at=FIRST + timedelta(days=1, microseconds=7)
    )
    assert history.add(first).is_new
    (back,) = history.entries()
    assert replace(back, added_at=None) == first
    assert history.workloads_of(1) == first.workloads
    (run,) = history.runs()
    assert (run.number, run.facts, run.outcomes, run.measurements) == (1, first.facts, (("PASSED", 1),), 4)


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
@pytest.mark.variants(1)
def test_any_name_is_kept_as_it_is(place, name):
    history = opened(place)
    # An operator may have a longer name than a test or a branch.
    short = name[:4_096]
    odd = entry(1, {f"operator_calls[{name}]": 2}, workload=short, branch=short, release=short or None)
    odd = replace(odd, workloads=(replace(odd.workloads[0], finding=f"R102 {name}"),))
    history.add(odd)
    assert replace(next(history.entries()), added_at=None) == odd
    assert [one.series.subject for one in everything(opened(place))] == [name]


@given(st.text(st.one_of(st.characters(), st.sampled_from("\\u0\ud800\udfff\x00"))))
def test_escaped_text_is_text_that_any_database_keeps(text):
    kept = escaped(text)
    assert unescaped(kept) == text
    assert b"\x00" not in kept.encode("utf-8")


def test_the_same_report_is_one_run(place):
    history = opened(place)
    first = entry(1, {"steps": 5})
    assert history.add(first).is_new
    again = opened(place).add(first)
    assert (again.is_new, again.run, again.marked) == (False, 1, None)
    assert len(history.runs()) == 1


def test_what_is_said_of_a_run_is_kept_where_its_report_does_not_say_it(place):
    history = opened(place)
    first = entry(1, {"steps": 5}, branch=None)
    given = RunFacts(commit="another", branch="main", committed_at=FIRST, ci_url="https://ci/1")
    history.add(first, given=given)
    (run,) = history.runs()
    assert run.facts == replace(first.facts, branch="main", ci_url="https://ci/1")


def test_of_a_run_that_is_there_only_a_release_is_kept(place):
    history = opened(place)
    first = entry(1, {"steps": 5}, branch=None, release="v0")
    history.add(first)
    for number, marked in enumerate(("v1", None)):
        done = history.add(first, given=RunFacts(commit="another", branch="main", committed_at=FIRST, release="v1"))
        assert (done.is_new, done.marked) == (False, marked), number
    assert history.add(first, given=RunFacts(branch="main")).marked is None
    (run,) = history.runs()
    assert run.facts == replace(first.facts, release="v1")


def test_a_release_that_is_said_goes_before_that_of_the_report(place):
    history = opened(place)
    history.add(entry(1, {"steps": 5}, release="v0"), given=RunFacts(release="v1"))
    assert history.runs()[0].facts.release == "v1"


def test_the_digest_is_of_the_content_not_of_its_spelling():
    document = {"b": [1, 2.5], "a": {"ä": None}}
    respelled = json.loads(json.dumps(document, indent=4, sort_keys=True))
    assert digest_of(document) == digest_of(respelled) != digest_of({**document, "c": 1})


@pytest.mark.variants(1)
def test_runs_are_in_the_order_of_their_commits(place):
    history = opened(place)
    late = {"committed_at": None, "finished_at": FIRST + timedelta(days=5)}
    history.add(entry(9, {"steps": 9}))
    history.add(entry(5, {"steps": 5}, **late))
    history.add(entry(1, {"steps": 1}, branch="feature"))
    nothing_known = entry(0, {"steps": 0}, committed_at=None)
    history.add(nothing_known)
    assert values(history) == {"steps": (1, 5, 9, 0)}
    assert [run.number for run in history.runs(branch="main")] == [2, 1, 4]


def test_a_series_goes_on_where_its_unit_has_another_name(place):
    history = opened(place)
    older = entry(1, {"step_cost": 10})
    (workload,) = older.workloads
    (number,) = workload.numbers
    history.add(replace(older, workloads=(replace(workload, numbers=(replace(number, unit="units"),)),)))
    history.add(entry(2, {"step_cost": 12}))
    (found,) = everything(history)
    assert (found.series.values, found.series.unit) == ((10, 12), "ratio")


def test_times_belong_to_a_machine_and_counts_do_not(place):
    history = opened(place)
    history.add(entry(1, {"step_cost": 10, "steps": 5}))
    history.add(entry(2, {"step_cost": 3, "steps": 5}, environment=ELSEWHERE))
    found = [(one.series.metric, one.series.machine.split(",")[0], one.series.values) for one in everything(history)]
    assert found == [("step_cost", "AMD EPYC", (10,)), ("step_cost", "Kunpeng 920", (3,)), ("steps", "", (5, 5))]


def test_what_was_recorded_in_another_way_is_another_series(place):
    history = opened(place)
    history.add(entry(1, {"steps": 5}))
    history.add(entry(2, {"steps": 7}, fingerprint=replace(FINGERPRINT, mode="compiled")))
    (told,) = everything(history)
    assert (told.series.values, told.backend, told.series.way) == ((7,), "torch", "")


def test_what_is_recorded_in_two_ways_side_by_side_is_two_series(place):
    history = opened(place)
    npu = replace(FINGERPRINT, device="npu", mode="graph")
    for number in range(4):
        history.add(entry(number, {"steps": number}, fingerprint=npu if number % 2 else FINGERPRINT))
    found = {one.series.way: (one.series.values, one.series.current) for one in everything(history)}
    assert found == {"device cpu, mode eager": ((0, 2), True), "device npu, mode graph": ((1, 3), True)}


def test_what_has_not_run_for_long_is_a_matter_of_the_past(place):
    history = opened(place)
    npu = replace(FINGERPRINT, device="npu")
    history.add(entry(0, {"steps": 5}))
    for number in range(1, 1 + TREND_STALE_RUNS):
        history.add(entry(number, {"steps": 6}, fingerprint=npu))
    history.add(entry(-1, {"steps": 6}, fingerprint=npu))  # before it: they went on side by side
    found = {one.series.way: one.series.current for one in everything(history)}
    assert found == {"device cpu": False, "device npu": True}


@pytest.mark.parametrize("runs, current", [(TREND_STALE_RUNS, True), (TREND_STALE_RUNS + 1, False)])
@pytest.mark.variants(2)
def test_a_test_that_is_in_no_run_any_more_is_a_matter_of_the_past(place, runs, current):
    """It was deleted, or has another name now: nobody can mend what got worse in it."""
    history = opened(place)
    for number in range(3):
        history.add(entry(number, {"steps": 5}, workload="renamed"))
    for number in range(3, 2 + runs):
        history.add(entry(number, {"steps": 5}, workload="other"))
    assert {one.series.workload: one.series.current for one in everything(history)} == {
        "renamed": current,
        "other": True,
    }


@pytest.mark.variants(1)
def test_a_job_of_every_night_is_waited_for_longer_than_one_of_every_push(place):
    history = opened(place)
    for number in range(90):
        history.add(entry(number, {"steps": 5}, workload="nightly" if number in (0, 30) else "push"))
    assert {one.series.workload: one.series.current for one in everything(history)} == {"nightly": True, "push": True}
    history.add(entry(90, {"steps": 5}, workload="push"))
    assert {one.series.workload: one.series.current for one in everything(history)} == {"nightly": False, "push": True}


def test_a_test_whose_recordings_are_invalid_is_still_there(place):
    history = opened(place)
    history.add(entry(0, {"steps": 5}))
    for number in range(1, 3 * TREND_STALE_RUNS):
        history.add(entry(number, {}, outcome="INVALID"))
    assert [one.series.current for one in everything(history)] == [True]


def test_a_release_that_an_export_brings_is_kept_where_there_is_none(place):
    history = opened(place)
    bare = entry(1, {"steps": 5})
    history.add(bare)
    assert history.add(replace(bare, facts=replace(bare.facts, release="v1"))).marked == "v1"
    assert history.add(replace(bare, facts=replace(bare.facts, release="v2"))).marked is None
    assert [run.facts.release for run in history.runs()] == ["v1"]


def test_what_newer_runs_do_not_have_is_not_current(place):
    history = opened(place)
    history.add(entry(1, {"steps": 5, "step_cost": 10, "peak_memory_bytes[cpu]": 3}))
    history.add(entry(2, {"steps": 5, "step_cost": 10}))
    history.add(entry(3, {"steps": 5}, environment=ELSEWHERE))
    assert {one.series.metric: one.series.current for one in everything(history)} == {
        "peak_memory_bytes": False,
        "steps": True,
        "step_cost": True,  # that machine may come again
    }
    history.add(entry(4, {"steps": 5}))
    assert not {one.series.metric: one.series.current for one in everything(history)}["step_cost"]


def test_the_newest_rules_of_a_tests_marker_come_with_its_series(place):
    history = opened(place)
    history.add(entry(1, {"steps": 5}, tolerance={"steps": None}))
    history.add(entry(2, {"steps": 5}, tolerance={"steps": {"relative": 0.5, "absolute": 0.0}}))
    (told,) = everything(history)
    assert rules_of(told.tolerance) == (Rule(pattern="steps", tolerance=Tolerance(relative=0.5)),)


# -- entries of verdicts -------------------------------------------------------------------------------------------------


def verdict(*measurements, **changes) -> Verdict:
    start = Verdict(
        workload=WORKLOAD,
        outcome=Outcome.PASSED,
        findings=(),
        measurements=measurements,
        fingerprint=FINGERPRINT,
        environment=HERE,
    )
    return replace(start, **changes)


def taken(*verdicts: Verdict):
    return entry_of(verdicts, digest="0" * 64, perfguard="0", facts=RunFacts())


def test_numbers_are_taken_and_lists_are_not():
    census = measured("operator_shapes", {"[2, 3]": 1.0}, "MatMul")
    names = measured("operator_set", ["MatMul"])
    (found,) = taken(verdict(measured("step_time", 1.5), names, census, measured("steps", 5))).workloads
    assert [(one.metric, one.value, one.unit) for one in found.numbers] == [
        ("step_time", 1.5, "us"),
        ("steps", 5, "steps"),
        # As the report showed it.
        ("step_ms", 0.0015, "ms"),
    ]


def test_what_is_invalid_has_an_outcome_and_no_numbers():
    note = Finding(code=Code.B106, message="noted", severity=Severity.NOTE)
    lost = Finding(code=Code.C101, message="a step is missing")
    broken = verdict(measured("steps", 5), outcome=Outcome.INVALID, findings=(note, lost))
    (found,) = taken(broken).workloads
    assert (found.outcome, found.finding, found.numbers) == ("INVALID", "C101 a step is missing", ())


@pytest.mark.parametrize(
    "verdicts, message",
    [
        ((verdict(), verdict()), f"{WORKLOAD} occurs twice"),
        ((verdict(measured("steps", 5), measured("steps", 6)),), r"steps\[\] occurs twice"),
        ((verdict(measured("steps", 10**400)),), "steps of .* is not a finite number"),
        ((verdict(measured("step_time", float("nan"))),), "step_time of .* is not a finite number"),
    ],
)
def test_what_nobody_could_read_back_is_refused(verdicts, message):
    with pytest.raises(StoreError, match=message):
        taken(*verdicts)


RULES = (
    Rule(pattern="step_cost", tolerance=Tolerance(relative=0.05)),
    Rule(pattern="step_time", tolerance=Tolerance(relative=float("inf"), warn_relative=0.5)),
    Rule(pattern="operator_shapes[Cast]", tolerance=None),
)


def test_the_rules_of_a_marker_survive():
    (found,) = taken(verdict(rules=RULES)).workloads
    assert rules_of(json.loads(json.dumps(found.tolerance))) == RULES
    assert rules_of({"metric_of_tomorrow[x]": None}) == ()


@pytest.mark.parametrize(
    "text, hour",
    [
        ("2026-11-21", 0),
        ("2026-11-21T11:52:48Z", 11),
        ("2026-11-21T11:52:48+02:00", 9),
        ("2026-11-21T11:52:48.500", 11),
    ],
)
def test_a_time_without_a_zone_is_utc(text, hour):
    assert instant(text, where="--at").utctimetuple().tm_hour == hour


def test_what_is_no_time_is_refused():
    for text in ("yesterday", "", "2026-13-01", "9999-12-31T23:59:59-23:00"):
        with pytest.raises(UsageError, match=r"--at '.*' is not a time; write it as 2026-11-21"):
            instant(text, where="--at")


# -- names of runs -------------------------------------------------------------------------------------------------------


def test_a_run_is_named_by_its_number_its_release_or_its_commit(place):
    history = opened(place)
    for number in range(3):
        history.add(entry(number, {"steps": 5}, release="v1.2" if number == 1 else None))
    runs = history.runs()
    assert [run_named(runs, name).number for name in ("2", "#2", "v1.2", commit(1)[:8])] == [2, 2, 2, 2]
    with pytest.raises(UsageError, match="There is no run 'v9'"):
        run_named(runs, "v9")


def test_the_beginning_of_two_commits_names_none():
    history_runs = [replace(_run(), number=number, facts=RunFacts(commit=f"abcd{number}")) for number in (1, 2)]
    with pytest.raises(UsageError, match="'abcd' begins 2 commits"):
        run_named(history_runs, "abcd")


def _run():
    from perfguard.stores.history.archive import Run

    return Run(number=0, digest="", perfguard="", facts=RunFacts(), added_at=FIRST)


# -- pruning -------------------------------------------------------------------------------------------------------------


def test_a_run_goes_with_all_it_measured_and_nothing_else(place):
    history = opened(place)
    history.add(entry(1, {"steps": 5, "operator_calls[Old]": 1}, workload="gone", environment=ELSEWHERE))
    kept = entry(2, {"steps": 5})
    history.add(kept)
    assert history.forget([1, 99]) == 1
    assert [replace(one, added_at=None) for one in history.entries()] == [kept]
    with history.database.reading() as connection:
        counted = {
            table: connection.exec_driver_sql(f"SELECT count(*) FROM perfguard_{table}").scalar()
            for table in ("runs", "workloads", "facts", "outcomes", "series", "measurements")
        }
    assert counted == {"runs": 1, "workloads": 1, "facts": 2, "outcomes": 1, "series": 1, "measurements": 1}
    assert history.add(entry(3, {"steps": 6})).run == 3


def test_a_number_of_a_run_is_never_given_again(place):
    history = opened(place)
    history.add(entry(1, {"steps": 5}))
    history.forget([1])
    assert history.add(entry(2, {"steps": 5})).run == 2


def test_a_pruned_file_is_smaller(tmp_path):
    history = opened(str(tmp_path / "history.db"))
    for number in range(40):
        history.add(entry(number, {f"operator_time[{name}]": 1.5 for name in range(500)}))
    before = (tmp_path / "history.db").stat().st_size
    history.forget(range(1, 39))
    history.database.compact()
    assert (tmp_path / "history.db").stat().st_size < before / 2
    assert len(history.runs()) == 2


# -- export --------------------------------------------------------------------------------------------------------------


def test_an_exported_history_is_the_same_elsewhere(place, tmp_path):
    history = opened(place)
    numbers = {"step_cost": 0.1 + 0.2, "steps": 5, 'operator_calls[a,"b"\n]': 1.5}
    history.add(entry(1, numbers, committed_at=None, tolerance={"steps": None}))
    history.add(replace(entry(2, {}, outcome="INVALID"), digest="f" * 64))
    text = "".join(document_text(history.entries()))
    document = json.loads(text)
    assert violations(document, "history") == []
    assert len(text.splitlines()) == 4 + 2 + 2  # what is around the runs, and a line for each
    other = opened(str(tmp_path / "other.db"))
    for plain in document["runs"]:
        other.add(entry_from(plain))
    assert list(other.entries()) == list(history.entries())
    assert "".join(document_text(other.entries())) == text


def test_an_entry_survives_its_document():
    first = entry(1, {"step_cost": 1.5, "steps": 5})
    assert entry_from(entry_document(first)) == first


def test_csv_has_a_line_a_measurement(place):
    history = opened(place)
    history.add(entry(1, {'operator_calls[a,"b"]': 2, "step_cost": 1.5}))
    rows = list(csv.DictReader(io.StringIO("".join(csv_text(history.entries())), newline="")))
    assert [(row["metric"], row["subject"], row["value"], row["unit"]) for row in rows] == [
        ("operator_calls", 'a,"b"', "2", "calls/step"),
        ("step_cost", "", "1.5", rows[1]["unit"]),
    ]
    assert [row["machine"] for row in rows] == ["", "AMD EPYC, 2 cores, AMD EPYC"]
    assert rows[0]["commit"] == facts(1).commit


def test_a_lone_surrogate_does_not_stop_csv():
    text = "".join(csv_text([entry(1, {"steps": 5}, workload="\ud800")]))
    assert "\\ud800" in text
    text.encode("utf-8")


# -- several at once -----------------------------------------------------------------------------------------------------

WRITERS, EACH = 8, 12


def write(place: str, writer: int) -> None:
    history = opened(place)
    for number in range(EACH):
        run = writer * EACH + number
        history.add(entry(run, {"step_cost": run, f"operator_calls[of {writer}]": run}, workload=f"w{run % 3}"))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_writers_at_once_lose_nothing(place):
    """All of them make the tables, too: the place is empty."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write, args=(place, writer)) for writer in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    history = opened(place)
    assert len(history.runs()) == WRITERS * EACH
    found = [run for one in everything(history) if one.series.metric == "step_cost" for run in one.series.values]
    assert sorted(found) == list(range(WRITERS * EACH))


def test_a_reader_sees_one_state_while_others_write(place):
    history = opened(place)
    for number in range(3):
        history.add(entry(number, {"steps": number}))
    entries = history.entries()
    next(entries)
    opened(place).add(entry(9, {"steps": 9}))
    assert len(list(entries)) == 2
    assert len(history.runs()) == 4
