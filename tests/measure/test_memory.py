"""Memory over the window: the curves of steps, and the tracks of ranks."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.tables import SMALL_BYTES, batch
from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.dialects.memory import memory_of
from perfguard.dialects.queries import definitions, named_texts
from perfguard.measure import measure, memory_tracks
from perfguard.measure.memory import MOST_RANKS
from perfguard.testing import generate
from tests.contract.together import inspect_together, places
from tests.dialects.counted import curve_bytes, levels_by_step, parts_of_a_step
from tests.facts import RECORDINGS


def columns(events):
    return [np.array(column, np.int64) for column in zip(*events, strict=True)]


@pytest.mark.parametrize(
    "events, expected",
    [
        ([(0, 8, 0)], (8, 8, 8, 8)),
        ([(99, 8, 0)], (0, 0, 0, 8)),
        # What goes up and down within a part is its highest point; the next one begins where it ended.
        ([(10, 8, 0), (20, 2, 8), (60, 3, 2)], (8, 2, 3, 3)),
        # A fall is seen in the part after it.
        ([(30, 5, 9)], (9, 9, 5, 5)),
        # An event at the very end of the step belongs to it.
        ([(100, 4, 0)], (0, 0, 0, 4)),
    ],
)
def test_a_step_is_drawn_in_equal_parts_of_its_time(events, expected):
    assert curve_bytes((0, 100), 4, *columns(events)) == expected


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(0, 999), st.integers(-50, 50)), min_size=1, max_size=30).map(sorted),
)
def test_the_highest_point_of_a_step_is_that_of_its_curve(parts, changes):
    after = np.cumsum([change for _, change in changes])
    events = [(time, int(level), int(level) - change) for (time, change), level in zip(changes, after, strict=True)]
    drawn = curve_bytes((0, 1000), parts, *columns(events))
    highest = max(max(level, before) for _, level, before in events)
    assert len(drawn) == parts
    assert max(drawn) == highest
    ((step, _),) = levels_by_step("cpu", [(0, 1000)], *columns(events))
    lowest = min(min(level, before) for _, level, before in events)
    assert (step.rise_bytes, max(step.curve_bytes)) == (highest - lowest, highest - lowest)


@pytest.mark.parametrize("steps, parts", [(0, 32), (1, 32), (62, 32), (63, 31), (2000, 1), (2001, 0)])
def test_a_window_of_many_steps_has_fewer_parts_each(steps, parts):
    assert parts_of_a_step(steps) == parts


@pytest.fixture(scope="module")
def tables():
    # Of their own: those of the thread are used by what the other tests inspect.
    with batch(definitions(frozenset({"ms-2.5+cpu"})), named_texts(), size=SMALL_BYTES) as found:
        found.filled.update(("steps", "levels", "memory_steps"))
        yield found


EVENTS = st.lists(
    st.tuples(st.sampled_from(["cpu", "cuda:0"]), st.integers(0, 70), st.integers(-50, 50)), min_size=1, max_size=30
)
WINDOWS = [(), ((10, 60),), ((10, 30), (30, 40), (45, 60)), tuple((at, at + 1) for at in range(0, 2100, 1))]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edges=st.sampled_from(WINDOWS), events=EVENTS)
@pytest.mark.exhaustive
def test_queries_cut_levels_into_steps_as_a_second_count_does(tables, edges, events):
    run = tables._database.quick.execute
    run("delete from steps; delete from levels; delete from memory_steps")
    tables._kept.discard("memory_steps")
    levels = dict.fromkeys(("cpu", "cuda:0"), 0)
    lanes, rows = {}, []
    for place, (device, time, change) in enumerate(events):
        before, levels[device] = levels[device], levels[device] + change
        lanes.setdefault(device, []).append((time, levels[device], before))
        rows.append(f"(7, '{device}', {place}, {time}, {levels[device]}, {before}, false)")
    run(f"insert into levels values {', '.join(rows)}")
    if edges:
        # Two thousand statements of a row each would take longer than all the rest.
        rows = [f"(7, {step}, 0, 0, {start}, {end})" for step, (start, end) in enumerate(edges)]
        run(f"insert into steps values {', '.join(rows)}")
    expected = [one for device, several in lanes.items() for one in levels_by_step(device, edges, *columns(several))]
    assert memory_of(tables, [7])[7] == tuple(step for step, _ in expected)
    counts = tables.execute("select allocations, allocated, growth from memory_steps order by lane, place")
    assert counts == [counts for _, counts in expected]


@pytest.mark.parametrize("name", ["torch-mlp", "torch-repeat2", "mindspore-graph", "mindspore-pynative"])
@pytest.mark.variants(1)
def test_the_tracks_of_a_real_recording_rise_as_far_as_its_peak(name):
    contract = inspect(replay(RECORDINGS / name))
    peaks = {one.subject: one.value for one in measure(contract) if one.metric == "peak_memory_bytes"}
    tracks = memory_tracks(contract)
    assert {track.device: track.peak_bytes for track in tracks} == peaks
    steps = next(one.value for one in measure(contract) if one.metric == "steps")
    for track in tracks:
        assert len(track.curve_bytes) == steps * (track.parts or 1)


def steps_of(contract):
    """The starts and ends of the steps of the only cycle."""
    (cycle,) = contract.cycles
    return cycle.executions.edges_ns


def silenced(directory, edges_ns):
    """Take out of a recording what memory did within these times."""

    def is_within(ns):
        return any(start <= ns <= end for start, end in edges_ns)

    for path in directory.rglob("*.pt.trace.json"):
        trace = json.loads(path.read_text())
        trace["traceEvents"] = [
            one for one in trace["traceEvents"] if one["name"] != "[memory]" or not is_within(one["ts"] * 1000)
        ]
        path.write_text(json.dumps(trace))
    for path in directory.rglob("cpu_ms_memory_record_0.txt"):
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([head, *(row for row in rows if not is_within(int(row.partition(",")[0]))), ""]))


@pytest.mark.parametrize("name", ["torch-mlp", "mindspore-pynative"])
@pytest.mark.variants(1)
@pytest.mark.exhaustive
def test_a_step_in_which_memory_stood_still_is_a_level_line(name, tmp_path):
    several = ((0,), (1,), (2,), (0, 1))
    before = inspect(replay(RECORDINGS / name))
    (old,), edges_ns = memory_tracks(before), steps_of(before)
    directories = places(tmp_path, len(several))
    for silent, place in zip(several, directories, strict=True):
        shutil.copytree(RECORDINGS / name, place, dirs_exist_ok=True)
        silenced(place, [edges_ns[step] for step in silent])

    def steps(track):
        return [track.curve_bytes[at : at + track.parts] for at in range(0, len(track.curve_bytes), track.parts)]

    for silent, after in zip(several, inspect_together([replay(place) for place in directories]), strict=True):
        (new,) = memory_tracks(after)
        assert (new.parts, len(new.curve_bytes)) == (old.parts, len(old.curve_bytes))
        for step, (was, now) in enumerate(zip(steps(old), steps(new), strict=True)):
            # A pool's record says the level after an event, so what was taken out is in the first event after it. Of torch, a
            # release of what was taken out does not count.
            if step in silent or step - 1 not in silent:
                assert now == ((0,) * old.parts if step in silent else was), (silent, step)


@pytest.mark.exhaustive
def test_a_release_that_the_first_step_lacks_moves_no_peak(tmp_path):
    """torch knows what was allocated before the window by chance: where an earlier one has seen a block at that address."""
    place = tmp_path / "torch-mlp"
    shutil.copytree(RECORDINGS / "torch-mlp", place)

    def peak():
        return next(one.value for one in measure(inspect(replay(place))) if one.metric == "peak_memory_bytes")

    def first_step():
        (track,) = memory_tracks(inspect(replay(place)))
        return max(track.curve_bytes[: track.parts])

    before, drawn = peak(), first_step()
    (path,) = place.rglob("*.pt.trace.json")
    trace = json.loads(path.read_text())
    memory = [one for one in trace["traceEvents"] if one["name"] == "[memory]"]
    trace["traceEvents"].remove(next(one for one in memory if one["args"]["Bytes"] < 0))
    path.write_text(json.dumps(trace))
    assert first_step() > drawn
    assert peak() == before


@pytest.mark.exhaustive
def test_a_release_of_what_the_window_did_not_allocate_moves_nothing(tmp_path):
    """torch tells it where an earlier window of the process saw a block at that address, with the size of that one."""

    def told(place):
        contract = inspect(replay(place))
        of_memory = {one.metric: one.value for one in measure(contract) if "memory" in one.metric}
        return of_memory, [track.curve_bytes for track in memory_tracks(contract)]

    place = tmp_path / "torch-mlp"
    shutil.copytree(RECORDINGS / "torch-mlp", place)
    before = told(place)
    edges_ns = steps_of(inspect(replay(place)))
    (path,) = place.rglob("*.pt.trace.json")
    trace = json.loads(path.read_text())
    at, first = next((at, one) for at, one in enumerate(trace["traceEvents"]) if one["name"] == "[memory]")
    for step, (start_ns, _) in enumerate(edges_ns):
        args = {**first["args"], "Addr": 64 * (step + 1), "Bytes": -120 - step}
        trace["traceEvents"].insert(at, {**first, "ts": start_ns / 1000 + 1, "args": args})
    path.write_text(json.dumps(trace))
    assert before[0]["memory_allocations"] > 0
    assert told(place) == before


@pytest.mark.parametrize(
    "header, expected", [({"profile_memory": 1}, {0}), ({"profile_memory": 0}, set()), ({}, set())]
)
@pytest.mark.variants(1)
def test_no_event_is_a_zero_where_memory_was_recorded(header, expected, tmp_path):
    place = tmp_path / "torch-mlp"
    shutil.copytree(RECORDINGS / "torch-mlp", place)
    (path,) = place.rglob("*.pt.trace.json")
    trace = json.loads(path.read_text())
    del trace["profile_memory"]
    trace["traceEvents"] = [one for one in trace["traceEvents"] if one["name"] != "[memory]"]
    path.write_text(json.dumps(header | trace))
    of_memory = ("peak_memory_bytes", "memory_allocations", "memory_allocated_bytes", "memory_growth_bytes")
    measured = [one for one in measure(inspect(replay(place))) if one.metric in of_memory]
    assert {one.value for one in measured} == expected
    assert {one.subject for one in measured} == ({"cpu"} if expected else set())


def test_of_many_ranks_those_that_rise_highest_are_kept(tmp_path):
    generate("pt-torch", seed=3, ranks=MOST_RANKS + 3, steps=1, operators=4).write(tmp_path)
    contract = inspect(replay(tmp_path))
    peaks = {
        int(one.subject.partition(":")[0].removeprefix("rank")): one.value
        for one in measure(contract)
        if one.metric == "peak_memory_bytes" and one.subject.startswith("rank") and not one.subject.startswith("ranks")
    }
    kept = {track.rank: track.peak_bytes for track in memory_tracks(contract)}
    assert len(kept) == MOST_RANKS
    assert min(kept.values()) >= max(value for rank, value in peaks.items() if rank not in kept)


@pytest.mark.exhaustive
def test_a_cycle_in_which_memory_stood_still_says_nothing_where_another_moved(tmp_path):
    place = tmp_path / "torch-repeat2"
    shutil.copytree(RECORDINGS / "torch-repeat2", place)

    def found():
        of_memory = ("memory_allocations", "memory_allocated_bytes", "memory_growth_bytes")
        return {one.metric: one.value for one in measure(inspect(replay(place))) if one.metric in of_memory}

    before = found()
    path = sorted(place.rglob("*.pt.trace.json"))[0]
    trace = json.loads(path.read_text())
    trace["traceEvents"] = [one for one in trace["traceEvents"] if one["name"] != "[memory]"]
    path.write_text(json.dumps(trace))
    assert found() == before
    (track,) = memory_tracks(inspect(replay(place)))
    assert track.parts > 1
