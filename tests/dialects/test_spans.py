"""The spans of the fastest step: on which thread or stream, in which order, how many."""

from __future__ import annotations

import json
import shutil

import pytest

from perfguard.capture.replay import replay
from perfguard.dialects.spans import MOST_SPANS
from perfguard.gate import examine
from perfguard.judge.tolerance import Policy
from perfguard.measure import StepTimeline
from perfguard.testing import generate
from tests.facts import RECORDINGS

TORCH = RECORDINGS / "torch-mlp"


def timeline(place, *ignore: str) -> StepTimeline | None:
    return examine(replay(place), workload="a", policy=Policy(ignore=ignore)).timeline


def trace_of(place):
    return next((place / "profiler").rglob("*.json"))


def ns(us: float) -> int:
    return round(us * 1000)


def test_they_are_the_operators_of_the_trace_in_its_fastest_step():
    events = json.loads(trace_of(TORCH).read_text())["traceEvents"]
    steps = [one for one in events if str(one["name"]).startswith("ProfilerStep#") and one.get("ph") == "X"]
    fastest = min(steps, key=lambda one: one["dur"])
    begin, end = fastest["ts"], fastest["ts"] + fastest["dur"]
    own = [e for e in events if e.get("cat") == "cpu_op" and e.get("ph") == "X" and begin <= e["ts"] <= end]
    found = timeline(TORCH)
    assert found is not None
    assert (found.rank, found.step) == (0, steps.index(fastest))
    assert found.duration_ns == pytest.approx(fastest["dur"] * 1000, abs=1)
    assert found.lanes == (f"thread {fastest['tid']}",)
    assert found.count == len(found.spans) == len(own)
    spans = sorted((found.names[name], start, length) for _, name, start, length in found.spans)
    expected = sorted((e["name"], ns(e["ts"] - begin), ns(e["dur"])) for e in own)
    assert [one[0] for one in spans] == [one[0] for one in expected]
    assert [one[1:] for one in spans] == [pytest.approx(one[1:], abs=2) for one in expected]


def test_each_thread_is_a_lane(tmp_path):
    shutil.copytree(TORCH, tmp_path / "r")
    path = trace_of(tmp_path / "r")
    trace = json.loads(path.read_text())
    moved = [e for e in trace["traceEvents"] if "Backward0" in str(e["name"]) and e.get("cat") == "cpu_op"]
    for event in moved:
        event["tid"] = 99
    path.write_text(json.dumps(trace))
    found = timeline(tmp_path / "r", "I", "C", "S")
    assert len(found.lanes) == 2
    assert "thread 99" in found.lanes
    names = {found.names[name] for lane, name, *_ in found.spans if found.lanes[lane] == "thread 99"}
    assert names
    assert all("Backward0" in name for name in names)


@pytest.mark.parametrize(
    "layout, lanes", [("pt-npu", ("stream 2",)), ("ms-2.3", ("stream 2",)), ("pt-torch", None), ("ms-2.0", ())]
)
@pytest.mark.variants(1)
def test_streams_of_a_device_are_lanes_and_without_steps_there_is_no_timeline(tmp_path, layout, lanes):
    generate(layout, seed=3, steps=3, operators=6).write(tmp_path)
    found = timeline(tmp_path)
    if lanes == ():
        assert found is None
    else:
        assert found is not None
        assert lanes is None or found.lanes == lanes
        # Spans lie in the step: what is outside of it belongs to another one.
        assert all(0 <= start < found.duration_ns for _, _, start, _ in found.spans)


def test_of_a_long_step_the_longest_spans_are_kept_and_all_are_counted(tmp_path):
    shutil.copytree(TORCH, tmp_path / "r")
    path = trace_of(tmp_path / "r")
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    last = max((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: e["ts"] + e["dur"])
    steps = [e for e in events if str(e["name"]).startswith("ProfilerStep#") and e.get("ph") == "X"]
    number = max(e["args"].get("Ev Idx", 0) for e in events if "args" in e)
    for step in steps:
        for place in range(MOST_SPANS + 100):
            number += 1
            extra = {**last, "name": "tiny", "ts": step["ts"] + place * 0.001, "dur": 0.001, "tid": 77}
            events.append(extra | {"args": {"Ev Idx": number}})
    path.write_text(json.dumps(trace))
    found = timeline(tmp_path / "r", "I", "C", "S")
    assert found is not None
    assert len(found.spans) == MOST_SPANS
    assert found.count > MOST_SPANS + 100
    kept = [length for *_, length in found.spans]
    assert min(kept) <= 1
    assert {found.names[name] for _, name, _, length in found.spans if length > 1} > {"aten::addmm"}


def test_the_rank_whose_fastest_step_takes_longest_is_shown(tmp_path):
    generate("pt-torch", seed=7, ranks=3, steps=2, operators=6).write(tmp_path)
    verdict = examine(replay(tmp_path), workload="a", policy=Policy())
    fastest = {
        one.subject: one.value
        for one in verdict.measurements
        if one.metric == "profiled_step_time" and "rank" in one.subject
    }
    assert verdict.timeline.duration_ns / 1e3 == pytest.approx(
        max(value for name, value in fastest.items() if name.startswith("rank") and not name.startswith("ranks")),
        rel=1e-3,
    )
