"""The gate: real recordings against real stores, from the first baseline to the regression."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.errors import StoreError, UsageError
from perfguard.findings import Code, Finding
from perfguard.gate import (
    Update,
    check,
    compare,
    examine,
    judge,
    judge_again,
    judge_with_store,
    refresh,
)
from perfguard.judge.baseline import Baseline
from perfguard.judge.refresh import Refresh
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Outcome, Verdict, compared
from perfguard.measure import METRICS, Measurement, measure_runs
from perfguard.measure.measurement import Kind
from perfguard.recording import Recording, read_recording
from perfguard.reports.document import verdict_document, verdict_from_document
from perfguard.stores import STORES, Store
from perfguard.version import upgrade_command
from tests.facts import ELSEWHERE, RECORDINGS, WORKLOAD, codes, gated
from tests.judge.test_confirmation import Beside
from tests.judge.test_time import timing

NAMES = ("mindspore-graph", "mindspore-pynative", "torch-mlp", "torch-repeat2")
BENT = {
    "mindspore-graph": "MatMul",
    "mindspore-pynative": "MatMul",
    "torch-mlp": "aten::addmm",
    "torch-repeat2": "aten::mm",
}
POLICY = Policy()


@pytest.fixture
def store(tmp_path) -> Store:
    return STORES["directory"](tmp_path / "baselines")


def run(recording: Recording, store: Store, update: Update = Update.NOTHING, *, policy: Policy = POLICY, **more):
    return gated(recording, store, workload=WORKLOAD, policy=policy, update=update, **more)


def files(store: Store) -> dict[str, bytes]:
    place = store.directory
    return {path.name: path.read_bytes() for path in place.glob("*.json")} if place.is_dir() else {}


def a_step_is_lost(tmp_path: Path) -> Recording:
    """Return a recording whose steps.json has lost an active step."""
    place = tmp_path / "lost"
    shutil.copytree(RECORDINGS / "torch-mlp", place)
    document = json.loads((place / "steps.json").read_text())
    document["steps"] = [step for step in document["steps"] if step["index"] != 8]
    (place / "steps.json").write_text(json.dumps(document))
    return read_recording(place)


def bend(baseline: Baseline, metric: str, subject: str, value) -> Baseline:
    """Return a baseline in which one number is another."""
    bent = tuple(replace(m, value=value) if m.key == (metric, subject) else m for m in baseline.measurements)
    assert bent != baseline.measurements
    return replace(baseline, measurements=bent)


def stored(store: Store) -> Baseline:
    found = store.load(WORKLOAD)
    assert found is not None
    return found


# -- nothing is written ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(2)
def test_without_a_baseline_nothing_is_compared_and_nothing_written(store, name):
    verdict = run(read_recording(RECORDINGS / name), store)
    assert (verdict.outcome, codes(verdict), verdict.refresh) == (Outcome.INCONCLUSIVE, ["B101"], None)
    assert not store.directory.exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(1)
def test_a_recording_passes_against_its_own_baseline(store, name):
    recording = read_recording(RECORDINGS / name)
    run(recording, store, Update.ALL)
    before = files(store)
    verdict = run(recording, store)
    assert (verdict.outcome, codes(verdict), verdict.refresh) == (Outcome.PASSED, [], None)
    assert verdict.coverage.compared > 10
    assert verdict.coverage.worse == verdict.coverage.changed == 0
    assert files(store) == before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(1)
def test_calls_that_the_baseline_had_not_fail_and_name_the_operator(store, name):
    recording = read_recording(RECORDINGS / name)
    run(recording, store, Update.ALL)
    calls = {m.subject: m.value for m in stored(store).measurements if m.metric == "operator_calls"}[BENT[name]]
    store.save(bend(stored(store), "operator_calls", BENT[name], 0))
    before = files(store)
    verdict = run(recording, store)
    assert (verdict.outcome, codes(verdict)) == (Outcome.FAILED, ["R102"])
    assert verdict.findings[0].place == f"operator_calls[{BENT[name]}]"
    assert f" 0 → {calls} calls/step, +{calls}" in verdict.findings[0].message
    assert files(store) == before


@pytest.mark.exhaustive
def test_an_invalid_recording_is_told_before_any_baseline(store, tmp_path):
    run(read_recording(RECORDINGS / "torch-mlp"), store, Update.ALL)
    verdict = run(a_step_is_lost(tmp_path), store)
    assert verdict.outcome is Outcome.INVALID
    assert "C107" in codes(verdict)
    assert verdict.measurements == verdict.comparisons == ()


@pytest.mark.parametrize(
    ("update", "content"),
    [
        *((Update.NOTHING, content) for content in (b"", b"{", b"[]", b'{"format": 1}', b'{"format": 2}')),
        *((update, b"{") for update in (Update.NEW_ONLY, Update.RATCHET)),
    ],
)
@pytest.mark.variants(1)
def test_a_damaged_baseline_is_red_and_is_kept(store, update, content):
    recording = read_recording(RECORDINGS / "mindspore-graph")
    run(recording, store, Update.ALL)
    path = store.path(WORKLOAD)
    path.write_bytes(content)
    verdict = run(recording, store, update)
    assert (verdict.outcome, codes(verdict)) == (Outcome.INCONCLUSIVE, ["B114"])
    assert path.name in verdict.findings[0].message
    assert path.read_bytes() == content


# -- only what is new ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("update", [Update.NEW_ONLY, Update.ALL])
@pytest.mark.variants(1)
def test_the_first_refresh_creates(store, update):
    verdict = run(read_recording(RECORDINGS / "torch-mlp"), store, update, commit="abc", reason="first")
    assert (verdict.outcome, verdict.refresh, verdict.changes) == (Outcome.PASSED, Refresh.CREATED, ())
    assert (codes(verdict), verdict.comparisons) == ([], ())
    assert (stored(store).commit, stored(store).reason, stored(store).workload) == ("abc", "first", WORKLOAD)
    assert {m.key for m in stored(store).measurements} == {m.key for m in verdict.measurements}


def test_new_only_judges_what_is_there_and_leaves_it(store):
    recording = read_recording(RECORDINGS / "mindspore-graph")
    run(recording, store, Update.ALL)
    store.save(bend(stored(store), "operator_calls", "MatMul", 1))
    before = files(store)
    verdict = run(recording, store, Update.NEW_ONLY)
    assert (verdict.outcome, codes(verdict), verdict.refresh) == (Outcome.FAILED, ["R102"], None)
    assert files(store) == before


@pytest.mark.parametrize("update", [Update.NEW_ONLY, Update.ALL])
@pytest.mark.variants(1)
def test_an_invalid_capture_never_becomes_a_baseline(store, tmp_path, update):
    verdict = run(a_step_is_lost(tmp_path), store, update)
    assert (verdict.outcome, verdict.refresh) == (Outcome.INVALID, Refresh.REFUSED)
    assert "C107" in codes(verdict)
    assert files(store) == {}


# -- everything ------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_an_invalid_capture_never_replaces_a_baseline(store, tmp_path):
    run(read_recording(RECORDINGS / "torch-mlp"), store, Update.ALL)
    before = files(store)
    for update in (Update.NEW_ONLY, Update.ALL):
        assert run(a_step_is_lost(tmp_path / update.value), store, update).outcome is Outcome.INVALID
    assert files(store) == before


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 1}'])
@pytest.mark.variants(1)
def test_an_invalid_capture_never_mends_a_damaged_baseline(store, tmp_path, content):
    store.directory.mkdir()
    store.path(WORKLOAD).write_bytes(content)
    assert run(a_step_is_lost(tmp_path), store, Update.ALL).refresh is Refresh.REFUSED
    assert store.path(WORKLOAD).read_bytes() == content


@pytest.mark.exhaustive
def test_a_refresh_replaces_a_damaged_baseline_with_a_reason_only(store):
    recording = read_recording(RECORDINGS / "mindspore-graph")
    store.directory.mkdir()
    store.path(WORKLOAD).write_bytes(b"{")
    verdict = run(recording, store, Update.ALL)
    assert (verdict.outcome, verdict.refresh, codes(verdict)) == (Outcome.FAILED, Refresh.REFUSED, ["B114"])
    assert store.path(WORKLOAD).read_bytes() == b"{"
    verdict = run(recording, store, Update.ALL, reason="cut off by a full disk")
    assert (verdict.outcome, verdict.refresh) == (Outcome.PASSED, Refresh.UPDATED)
    assert run(recording, store).outcome is Outcome.PASSED


SHARES = [(None, True), (0.0, True), (0.15, True), (0.16, False), (1.0, False)]


@pytest.mark.parametrize("share, is_stored", SHARES)
@pytest.mark.variants(1)
def test_times_of_a_busy_machine_become_no_baseline_without_a_reason(store, share, is_stored):
    recording = replace(read_recording(RECORDINGS / "torch-mlp"), others_share=share)
    verdict = run(recording, store, Update.ALL)
    expected = (Outcome.PASSED, Refresh.CREATED, []) if is_stored else (Outcome.FAILED, Refresh.REFUSED, ["B112"])
    assert (verdict.outcome, verdict.refresh, codes(verdict)) == expected
    assert bool(files(store)) is is_stored
    assert run(recording, store, Update.ALL, reason="it is always busy").refresh in (Refresh.CREATED, Refresh.KEPT)


@pytest.mark.exhaustive
def test_a_baseline_keeps_its_times_from_a_quiet_machine(store):
    recording = read_recording(RECORDINGS / "torch-mlp")
    run(recording, store, Update.ALL)
    store.save(bend(stored(store), "peak_memory_bytes", "cpu", 10**9))
    before = files(store)
    assert run(replace(recording, others_share=0.6), store, Update.ALL).refresh is Refresh.REFUSED
    assert files(store) == before


def test_with_time_off_exact_numbers_of_a_busy_machine_are_stored(store):
    recording = replace(read_recording(RECORDINGS / "torch-mlp"), others_share=0.6)
    verdict = run(recording, store, Update.ALL, policy=replace(POLICY, judge_time=False))
    assert verdict.refresh is Refresh.CREATED
    judged_times = {name for name, one in METRICS.items() if one.kind is Kind.TIMED and one.gated}
    names = {one.metric for one in stored(store).measurements}
    assert "step_time" in {one.metric for one in verdict.measurements}
    assert not names & judged_times
    assert {"operator_calls", "operator_share", "peak_memory_bytes"} <= names


def test_a_refresh_never_overwrites_what_a_newer_perfguard_wrote(store):
    recording = read_recording(RECORDINGS / "mindspore-graph")
    run(recording, store, Update.ALL)
    path = store.path(WORKLOAD)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2, "history": [1, 2, 3]}))
    before = path.read_bytes()
    verdict = run(recording, store, Update.ALL, reason="it is newer")
    assert (verdict.outcome, verdict.refresh, codes(verdict)) == (Outcome.FAILED, Refresh.REFUSED, ["B114"])
    assert upgrade_command() in verdict.findings[0].message
    assert path.read_bytes() == before


def test_a_second_refresh_keeps(store):
    recording = read_recording(RECORDINGS / "torch-mlp")
    run(recording, store, Update.ALL, commit="abc")
    before = files(store)
    verdict = run(recording, store, Update.ALL, commit="def")
    assert (verdict.outcome, verdict.refresh, verdict.changes) == (Outcome.PASSED, Refresh.KEPT, ())
    assert files(store) == before


def test_a_refresh_writes_what_is_worse_and_says_so(store):
    recording = read_recording(RECORDINGS / "mindspore-graph")
    run(recording, store, Update.ALL)
    good = stored(store)
    store.save(bend(good, "operator_calls", "MatMul", 1))
    verdict = run(recording, store, Update.ALL, reason="a second MatMul")
    assert (verdict.outcome, verdict.refresh) == (Outcome.PASSED, Refresh.UPDATED)
    assert verdict.changes == ("worse: operator_calls[MatMul] 1 → 2 calls/step",)
    assert codes(verdict) == []
    assert stored(store) == replace(good, reason="a second MatMul")
    assert run(recording, store).outcome is Outcome.PASSED


@pytest.mark.parametrize("reason", [None, "", " \n"])
@pytest.mark.variants(1)
def test_a_refresh_of_what_is_worse_is_refused_without_a_reason(store, reason):
    recording = read_recording(RECORDINGS / "mindspore-graph")
    run(recording, store, Update.ALL)
    store.save(bend(stored(store), "operator_calls", "MatMul", 1))
    before = files(store)
    verdict = run(recording, store, Update.ALL, reason=reason)
    assert (verdict.outcome, verdict.refresh, codes(verdict)) == (Outcome.FAILED, Refresh.REFUSED, ["B110"])
    assert verdict.changes == ("worse: operator_calls[MatMul] 1 → 2 calls/step",)
    assert 'operator_calls[MatMul] 1 → 2 calls/step; if this is intended, say why: --perfguard-reason "..."' in [
        finding.message for finding in verdict.findings
    ]
    assert files(store) == before
    again = verdict_from_document(verdict_document(verdict))
    assert (again.outcome, again.refresh, again.changes) == (verdict.outcome, verdict.refresh, verdict.changes)
    # A report of it is judged by its numbers alone.
    assert codes(judge_again(again, stored(store), policy=POLICY)) == ["R102"]


def test_a_refresh_of_what_only_changed_needs_no_reason(store):
    recording = read_recording(RECORDINGS / "mindspore-graph")
    run(recording, store, Update.ALL, reason="the first")
    store.save(bend(stored(store), "operator_calls", "MatMul", 3))
    verdict = run(recording, store, Update.ALL)
    assert (verdict.outcome, verdict.refresh) == (Outcome.PASSED, Refresh.UPDATED)
    assert verdict.changes == ("changed: operator_calls[MatMul] 3 → 2 calls/step",)
    assert stored(store).reason == "the first"


@pytest.mark.exhaustive
def test_a_time_of_0_is_not_even_created(store, tmp_path):
    place = tmp_path / "zero"
    shutil.copytree(RECORDINGS / "torch-mlp", place)
    document = json.loads((place / "steps.json").read_text())
    for step in document["steps"]:
        step["thread_cpu_ns"] = 0
    (place / "steps.json").write_text(json.dumps(document))
    for update in (Update.ALL, Update.NEW_ONLY):
        verdict = run(read_recording(place), store, update, reason="why not")
        assert (verdict.outcome, verdict.refresh, codes(verdict)) == (Outcome.FAILED, Refresh.REFUSED, ["B111"])
    assert files(store) == {}


def test_a_refresh_of_one_test_leaves_the_others(store):
    recording = read_recording(RECORDINGS / "mindspore-graph")
    run(recording, store, Update.ALL)
    before = files(store)
    gated(recording, store, workload="another", policy=POLICY, update=Update.ALL)
    assert sorted(store.workloads()) == sorted(["another", WORKLOAD])
    assert before.items() <= files(store).items()


def test_a_refresh_that_cannot_write_loses_nothing(store, tmp_path):
    place = tmp_path / "baselines"
    place.write_text("a file")
    with pytest.raises(StoreError, match="--perfguard-baselines DIR"):
        run(read_recording(RECORDINGS / "mindspore-graph"), store, Update.ALL)
    assert place.read_text() == "a file"


# -- the ratchet -----------------------------------------------------------------------------------------------------

GRAPH = RECORDINGS / "mindspore-graph"


def test_the_ratchet_stores_what_improved_and_passes(store):
    run(read_recording(GRAPH), store, Update.ALL, commit="abc", reason="the first")
    good = stored(store)
    store.save(bend(bend(good, "operator_calls", "MatMul", 3), "peak_memory_bytes", "cpu", 10**9))
    verdict = run(read_recording(GRAPH), store, Update.RATCHET, commit="def")
    assert (verdict.outcome, verdict.refresh, codes(verdict)) == (Outcome.PASSED, Refresh.UPDATED, [])
    assert [" ".join(change.split(" ")[:2]) for change in verdict.changes] == [
        "better: peak_memory_bytes[cpu]",
    ]
    assert verdict.coverage.compared > 10
    assert stored(store) == replace(good, commit="def")


def test_the_ratchet_of_the_same_numbers_judges_and_writes_nothing(store):
    run(read_recording(GRAPH), store, Update.ALL)
    before = files(store)
    verdict = run(read_recording(GRAPH), store, Update.RATCHET, commit="def")
    assert (verdict.outcome, verdict.refresh, codes(verdict)) == (Outcome.PASSED, None, [])
    assert files(store) == before


def test_beside_what_is_worse_the_ratchet_stores_nothing(store):
    run(read_recording(GRAPH), store, Update.ALL)
    store.save(bend(bend(stored(store), "operator_calls", "MatMul", 1), "peak_memory_bytes", "cpu", 10**9))
    before = files(store)
    verdict = run(read_recording(GRAPH), store, Update.RATCHET, reason="even with a reason")
    assert (verdict.outcome, verdict.refresh, codes(verdict)) == (Outcome.FAILED, None, ["R102", "R106"])
    assert files(store) == before


@pytest.mark.parametrize("policy", [POLICY, Policy(changed_fails=True)])
@pytest.mark.variants(1)
def test_the_ratchet_stores_nothing_of_a_step_that_fails(store, policy):
    """It takes operators along with what got better, and is judged against those that were stored all the same."""
    run(read_recording(GRAPH), store, Update.ALL)
    good = stored(store)
    more = [
        Measurement(metric="operator_calls", subject="Sort", value=3),
        Measurement(metric="operator_share", subject="Sort", value=0.0 if policy.changed_fails else 4.0),
    ]
    wasteful = bend(good, "peak_memory_bytes", "cpu", 10**9)
    store.save(replace(wasteful, measurements=(*wasteful.measurements, *more)))
    before = files(store)
    verdict = run(read_recording(GRAPH), store, Update.RATCHET, policy=policy)
    assert (verdict.outcome, verdict.refresh) == (Outcome.FAILED, None)
    assert ("R103" if policy.changed_fails else "R108") in codes(verdict)
    assert files(store) == before


def test_the_ratchet_creates_nothing(store):
    verdict = run(read_recording(GRAPH), store, Update.RATCHET)
    assert (verdict.outcome, codes(verdict), files(store)) == (Outcome.INCONCLUSIVE, ["B101"], {})


@pytest.mark.exhaustive
def test_the_ratchet_stores_nothing_of_an_invalid_capture_or_of_another_window(store, tmp_path):
    run(read_recording(RECORDINGS / "torch-mlp"), store, Update.ALL)
    before = files(store)
    invalid = run(a_step_is_lost(tmp_path), store, Update.RATCHET)
    assert (invalid.outcome, invalid.refresh) == (Outcome.INVALID, None)
    other = run(read_recording(RECORDINGS / "torch-repeat2"), store, Update.RATCHET)
    assert (other.outcome, codes(other)) == (Outcome.INCONCLUSIVE, ["B102"])
    assert files(store) == before


@pytest.mark.parametrize(("cost", "runs", "outcome"), [(2.0, 1, "PASSED"), (4.0, 1, "FAILED"), (4.0, 7, "FAILED")])
@pytest.mark.variants(1)
def test_the_ratchet_asks_for_as_many_processes_as_a_verdict_needs(store, cost, runs, outcome):
    run(read_recording(GRAPH), store, Update.ALL)
    good = stored(store)
    store.save(replace(good, measurements=(*good.measurements, *measure_runs([timing(2.0)] * 5))))
    asked = []

    def timed(number):
        asked.append(number)
        return timing(cost)

    policy = Policy(settings=tuple(rule for rule in POLICY.settings if rule.pattern != "step_cost"))
    verdict = judge_with_store(
        read_recording(GRAPH), store, workload=WORKLOAD, policy=policy, update=Update.RATCHET, run=timed, runs=runs
    )
    assert (verdict.outcome.value, asked) == (outcome, list(range(1, max(runs, 5) + 1)))


@pytest.mark.parametrize(("ratio", "outcome", "refresh"), [(1.3, "FAILED", None), (1.0, "PASSED", Refresh.DUE)])
@pytest.mark.variants(1)
def test_the_ratchet_stores_what_is_better_where_the_run_side_by_side_says_green(store, ratio, outcome, refresh):
    """The memory is better; the step is slower than stored, which a run side by side denies or confirms."""
    run(read_recording(GRAPH), store, Update.ALL)
    good = bend(stored(store), "peak_memory_bytes", "cpu", 10**9)
    store.save(replace(good, measurements=(*good.measurements, *measure_runs([timing(2.0)] * 5))))
    verdict = judge_with_store(
        read_recording(GRAPH),
        store,
        workload=WORKLOAD,
        policy=Policy(settings=tuple(rule for rule in POLICY.settings if rule.pattern != "step_cost")),
        update=Update.RATCHET,
        run=lambda number: timing(4.0),
        runs=5,
        confirm=Beside(*[ratio] * 5),
    )
    assert (verdict.outcome.value, verdict.refresh) == (outcome, refresh)


def test_the_ratchet_starts_no_process_for_a_baseline_without_runs(store):
    run(read_recording(GRAPH), store, Update.ALL)
    verdict = judge_with_store(
        read_recording(GRAPH), store, workload=WORKLOAD, policy=Policy(), update=Update.RATCHET, run=pytest.fail, runs=5
    )
    assert "B108" in {finding.code.name for finding in verdict.findings}


def test_a_baseline_that_was_removed_meanwhile_is_not_ratcheted(store):
    run(read_recording(GRAPH), store, Update.ALL)
    store.save(bend(stored(store), "peak_memory_bytes", "cpu", 10**9))
    due = judge_with_store(read_recording(GRAPH), store, workload=WORKLOAD, policy=POLICY, update=Update.RATCHET)
    assert due.refresh is Refresh.DUE
    store.delete(WORKLOAD)
    assert refresh(due, store, policy=POLICY, update=Update.RATCHET).refresh is Refresh.KEPT
    assert files(store) == {}


def test_a_baseline_that_somebody_tightened_meanwhile_is_not_loosened(store):
    run(read_recording(GRAPH), store, Update.ALL)
    store.save(bend(stored(store), "peak_memory_bytes", "cpu", 10**9))
    due = judge_with_store(read_recording(GRAPH), store, workload=WORKLOAD, policy=POLICY, update=Update.RATCHET)
    store.save(bend(stored(store), "peak_memory_bytes", "cpu", 1))
    before = files(store)
    assert refresh(due, store, policy=POLICY, update=Update.RATCHET).refresh is Refresh.KEPT
    assert files(store) == before


# -- one recording ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(2)
def test_a_whole_recording_is_measured_and_passes_by_itself(name):
    verdict = examine(read_recording(RECORDINGS / name), workload="w", policy=POLICY)
    assert (verdict.outcome, verdict.findings, verdict.workload) == (Outcome.PASSED, (), "w")
    assert verdict.measurements


@pytest.mark.exhaustive
def test_what_is_not_whole_is_not_measured_unless_it_is_ignored(tmp_path):
    recording = a_step_is_lost(tmp_path)
    invalid = examine(recording, workload="w", policy=POLICY)
    assert (invalid.outcome, invalid.measurements) == (Outcome.INVALID, ())
    ignoring = Policy(ignore=tuple(f.code.name for f in invalid.findings))
    ignored = examine(recording, workload="w", policy=ignoring)
    assert ignored.outcome is Outcome.PASSED
    assert ignored.measurements
    assert codes(ignored) == codes(invalid)


def test_an_empty_directory_is_invalid(tmp_path):
    verdict = judge(read_recording(tmp_path), None, workload="w", policy=POLICY)
    assert (verdict.outcome, codes(verdict)) == (Outcome.INVALID, ["A101"])


# -- two recordings --------------------------------------------------------------------------------------------------


def verdict_of(name: str):
    return examine(read_recording(RECORDINGS / name), workload=name, policy=POLICY)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(1)
def test_a_recording_is_the_same_as_itself(name):
    found = compare(verdict_of(name), verdict_of(name), policy=POLICY)
    assert (found.outcome, found.findings) == (Outcome.PASSED, ())


@pytest.mark.parametrize(
    ("base", "current"), [("torch-mlp", "torch-repeat2"), ("mindspore-graph", "mindspore-pynative")]
)
@pytest.mark.variants(1)
def test_recordings_of_another_window_or_mode_are_inconclusive(base, current):
    found = compare(verdict_of(base), verdict_of(current), policy=POLICY)
    assert (found.outcome, codes(found)) == (Outcome.INCONCLUSIVE, ["B102"])


@pytest.mark.exhaustive
def test_on_another_machine_only_what_is_exact_is_compared():
    base = replace(verdict_of("torch-mlp"), environment=ELSEWHERE)
    found = compare(base, verdict_of("torch-mlp"), policy=POLICY)
    assert (found.outcome, codes(found)) == (Outcome.PASSED, ["B103"])
    assert found.coverage.not_comparable > 0


@pytest.mark.exhaustive
def test_what_is_invalid_is_not_compared_on_either_side(tmp_path):
    invalid = examine(a_step_is_lost(tmp_path), workload="w", policy=POLICY)
    good = verdict_of("torch-mlp")
    for base, current, told in ((invalid, good, {True}), (good, invalid, {False}), (invalid, invalid, {True, False})):
        found = compare(base, current, policy=POLICY)
        assert found.outcome is Outcome.INVALID
        assert set(codes(found)) == set(codes(invalid))
        assert {f.message.startswith("in the base: ") for f in found.findings if f.invalidates} == told
        assert found.comparisons == ()


@pytest.mark.exhaustive
def test_what_the_report_was_compared_with_is_forgotten(tmp_path):
    good = verdict_of("torch-mlp")
    old = Finding(code=Code.R101, message="told against another baseline")
    reported = replace(good, outcome=Outcome.FAILED, findings=(old,), refresh=Refresh.KEPT, changes=("steps 1 → 2",))
    again = compare(good, reported, policy=POLICY)
    assert (again.outcome, again.findings, again.refresh, again.changes) == (Outcome.PASSED, (), None, ())
    alone = judge_again(reported, None, policy=POLICY)
    assert (alone.outcome, codes(alone)) == (Outcome.INCONCLUSIVE, ["B101"])
    invalid = examine(a_step_is_lost(tmp_path), workload="w", policy=POLICY)
    assert "R101" not in codes(compare(invalid, reported, policy=POLICY))


def test_the_tolerances_of_now_decide():
    base = verdict_of("torch-mlp")
    slow = replace(
        base,
        measurements=tuple(
            replace(m, value=m.value * 2.5) if m.metric == "step_time" else m for m in base.measurements
        ),
    )
    strict = Policy(settings=(Rule(pattern="step_time", tolerance=Tolerance(relative=0.1)),))
    assert codes(compare(base, slow, policy=POLICY)) == ["R105"]
    assert codes(compare(base, slow, policy=strict)) == ["R101"]
    assert compare(base, slow, policy=Policy(judge_time=False)).findings == ()


# -- the commit ------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_report_is_judged_again_by_the_rules_of_its_tests_own_marker():
    recording = read_recording(RECORDINGS / "torch-mlp")
    whole = examine(recording, workload=WORKLOAD, policy=POLICY)
    fewer = tuple(
        replace(m, value=m.value + 1) if m.key == ("operator_calls", "aten::addmm") else m for m in whole.measurements
    )
    base = Baseline(workload=WORKLOAD, fingerprint=whole.fingerprint, environment=whole.environment, measurements=fewer)
    lenient = Policy(marker=(Rule(pattern="operator_calls[aten::addmm]", tolerance=Tolerance(relative=1.0)),))

    strict = verdict_from_document(verdict_document(judge(recording, base, workload=WORKLOAD, policy=POLICY)))
    marked = verdict_from_document(verdict_document(judge(recording, base, workload=WORKLOAD, policy=lenient)))

    snapshot = replace(POLICY, changed_fails=True)
    taken = verdict_from_document(verdict_document(judge(recording, base, workload=WORKLOAD, policy=snapshot)))

    assert [one.outcome for one in (strict, marked, taken)] == [Outcome.CHANGED, Outcome.PASSED, Outcome.FAILED]
    again = [judge_again(one, base, policy=POLICY).outcome for one in (strict, marked, taken)]
    assert again == [Outcome.CHANGED, Outcome.PASSED, Outcome.FAILED]


# -- checking a directory in a test of one's own ---------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(1)
def test_a_whole_directory_is_checked_and_measured(name):
    for directory in (RECORDINGS / name, str(RECORDINGS / name / "profiler")):
        verdict = check(directory)
        assert verdict.outcome is Outcome.PASSED
        assert {"steps", "operator_calls"} <= {one.metric for one in verdict.measurements}


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ("ranks=2", "A107 a rank is missing: ranks=2 is expected, but rank 1 is missing"),
        ("steps=4", "C101 the profiled window is not the requested one: 4 steps were requested, but the trace marks 3"),
    ],
)
@pytest.mark.variants(1)
def test_what_is_wrong_is_an_assertion_with_the_findings(expect, said):
    with pytest.raises(AssertionError, match=re.escape(said)) as raised:
        check(RECORDINGS / "torch-mlp" / "profiler", expect=expect)
    assert str(raised.value).startswith(f"INVALID {RECORDINGS / 'torch-mlp' / 'profiler'} (pt-torch: ")


@pytest.mark.exhaustive
def test_what_is_ignored_is_no_assertion():
    assert check(RECORDINGS / "torch-mlp" / "profiler", expect="ranks=2", ignore=["A107"]).passed
    assert check(RECORDINGS / "torch-mlp" / "profiler", expect="ranks=1,steps=3,shapes").passed


@pytest.mark.parametrize("ignore", [(), ("A101",)])
def test_a_directory_without_profiler_output_is_an_assertion_whatever_is_ignored(tmp_path, ignore):
    with pytest.raises(AssertionError, match="A101"):
        check(tmp_path, ignore=ignore)


def test_a_directory_is_checked_as_the_layout_that_is_named():
    with pytest.raises(AssertionError, match="A102"):
        check(RECORDINGS / "torch-mlp" / "profiler", layout="ms-2.5+cpu")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expect": "grahp"}, "expect='grahp' is not known; did you mean 'graph'"),
        ({"expect": ["graph", "memroy"]}, "expect='memroy' is not known; did you mean 'memory'"),
        ({"expect": ["graph", 3]}, "got expect=3"),
        ({"layout": "pt-trch"}, "did you mean 'pt-torch'"),
        ({"ignore": ["Q"]}, "There is no finding code 'Q'"),
        ({"ignore": ["B"]}, "cannot be ignored"),
    ],
)
def test_a_wrong_word_is_refused_with_the_nearest(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        check(RECORDINGS / "torch-mlp", **options)


@pytest.mark.parametrize(
    "expect", ["ranks=1,steps=3", ["ranks=1", "steps=3"], ("ranks=1,steps=3",), {"ranks=1"}, "", []]
)
@pytest.mark.variants(1)
def test_what_is_expected_is_a_text_or_several(expect):
    assert check(RECORDINGS / "torch-mlp" / "profiler", expect=expect).passed


@pytest.mark.parametrize("ignore", ["A107", "A107, C1", ["A107"]])
@pytest.mark.variants(1)
def test_what_is_ignored_is_a_text_or_several(ignore):
    assert check(RECORDINGS / "torch-mlp" / "profiler", expect=["ranks=2"], ignore=ignore).passed


@pytest.mark.parametrize(
    "options",
    [{"expect": "ranks=2"}, {"expect": "grahp"}, {"layout": "pt-trch"}, {"ignore": ["Q"]}, {"directory": "no"}],
)
def test_a_failed_check_shows_no_frame_of_perfguard(options):
    with pytest.raises((AssertionError, UsageError)) as raised:
        check(**{"directory": RECORDINGS / "torch-mlp" / "profiler", **options})
    shown = raised.traceback.filter(raised)
    assert [Path(str(entry.path)).name for entry in shown] == ["test_gate.py"]
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


# -- an exact verdict is exact -----------------------------------------------------------------------------------------


@cache
def _examined(name: str) -> Verdict:
    return examine(read_recording(RECORDINGS / name), workload=WORKLOAD, policy=POLICY)


@pytest.mark.parametrize("name", sorted(BENT))
@given(data=st.data())
@settings(max_examples=20, deadline=None)
@pytest.mark.variants(1)
def test_no_time_of_the_run_changes_an_exact_finding(name, data):
    """Real recordings, whose operators run as often as drawn; every time of the run is drawn, or those of others."""
    verdict = _examined(name)
    names = sorted(m.subject for m in verdict.measurements if m.metric == "operator_calls")
    factors = data.draw(st.fixed_dictionaries({one: st.sampled_from([0, 1, 1, 1, 2, 20]) for one in names}))
    base = Baseline(
        workload=WORKLOAD,
        fingerprint=verdict.fingerprint,
        environment=verdict.environment,
        measurements=tuple(
            replace(m, value=m.value * factors[m.subject]) if m.metric == "operator_calls" else m
            for m in verdict.measurements
            if m.metric not in ("operator_calls", "operator_share", "operator_shapes") or factors.get(m.subject, 1)
        ),
    )
    timed = [m for m in verdict.measurements if METRICS[m.metric].kind is Kind.TIMED]
    values = data.draw(st.permutations([m.value for m in timed]))
    factor = data.draw(st.floats(0.01, 100))
    other = [replace(m, value=value * factor, samples=()) for m, value in zip(timed, values, strict=True)]
    exact = [m for m in verdict.measurements if METRICS[m.metric].kind is Kind.EXACT]
    first, second = (
        compared(replace(verdict, measurements=(*exact, *times)), base, policy=POLICY) for times in (timed, other)
    )
    assert _exact(first) == _exact(second)


def _exact(verdict: Verdict) -> list[tuple[object, ...]]:
    of_times = {m.label for m in verdict.measurements if METRICS[m.metric].kind is Kind.TIMED}
    return [(f.code, f.place, f.message, f.severity, f.weight) for f in verdict.findings if f.place not in of_times]
