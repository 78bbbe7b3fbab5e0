"""Snapshots of a caching allocator: right ones are right for torch too, wrong ones are found, and what is measured of them."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perfguard
from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.measure import measure
from perfguard.testing import generate
from tests.cli import RECORDINGS, run
from tests.installed import needs

Snapshot = dict[str, Any]


def made(seed: int = 1) -> Snapshot:
    (raw,) = generate("memory-snapshot", seed=seed, steps=4, operators=20).files.values()
    # Of its own lists, so that a change is a change of one.
    found: Snapshot = json.loads(json.dumps(pickle.loads(raw)))
    return found


def written(place: Path, snapshot: Any, name: str = "dump_snapshot.pickle", protocol: int = 4) -> Path:
    place.mkdir(exist_ok=True)
    (place / name).write_bytes(pickle.dumps(snapshot, protocol))
    return place


def codes(place: Path) -> set[str]:
    return {finding.code.name for finding in inspect(replay(place)).findings}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.variants(2)
def test_a_right_snapshot_is_right_for_torch_and_here(tmp_path, seed):
    needs("torch", "models")
    from torch.cuda._memory_viz import segsum, trace

    snapshot = made(seed)
    # They raise where the sizes of segments and blocks do not add up, or an address is given out twice.
    assert "total_reserved" in segsum(snapshot)
    assert trace(snapshot)
    assert codes(written(tmp_path / "s", snapshot)) == set()


def _segment(snapshot: Snapshot) -> dict[str, Any]:
    return max(snapshot["segments"], key=lambda one: len(one["blocks"]))


def _used(snapshot: Snapshot) -> dict[str, Any]:
    return next(one for of in snapshot["segments"] for one in of["blocks"] if one["state"] == "active_allocated")


def _free(snapshot: Snapshot) -> dict[str, Any]:
    return next(one for of in snapshot["segments"] for one in of["blocks"] if one["state"] == "inactive")


def _history(snapshot: Snapshot) -> list[dict[str, Any]]:
    return snapshot["device_traces"][0]


def _without(snapshot: Snapshot, action: str) -> None:
    snapshot["device_traces"] = [[one for one in _history(snapshot) if one["action"] != action]]


def _of_address_in_use(snapshot: Snapshot) -> dict[str, Any]:
    address = _used(snapshot)["address"]
    return [one for one in _history(snapshot) if one["addr"] == address and one["action"] == "alloc"][-1]


#: What is changed, and the code it is found by.
WRONG: dict[str, tuple[Callable[[Snapshot], object], str]] = {
    "a block is lost": (lambda one: _segment(one)["blocks"].pop(), "I107"),
    "a block is longer": (lambda one: _free(one).update(size=_free(one)["size"] + 512), "I107"),
    "a segment is longer": (lambda one: _segment(one).update(total_size=_segment(one)["total_size"] + 512), "I107"),
    "more is in use": (lambda one: _segment(one).update(allocated_size=_segment(one)["allocated_size"] + 512), "I107"),
    "more is active": (lambda one: _segment(one).update(active_size=_segment(one)["active_size"] + 1), "I107"),
    "more was asked for": (lambda one: _segment(one).update(requested_size=_segment(one)["requested_size"] + 1), "I107"),
    "a block is elsewhere": (lambda one: _used(one).update(address=_used(one)["address"] + 512), "I107"),
    "a block in use is free": (lambda one: _used(one).update(state="inactive"), "I107"),
    "more was asked for than there is": (lambda one: _used(one).update(requested_size=_used(one)["size"] + 1), "I112"),
    "a segment twice": (lambda one: one["segments"].append(one["segments"][-1]), "I114"),
    "a segment into another": (lambda one: one["segments"][0].update(address=one["segments"][1]["address"] - 512), "I114"),
    "a segment at the end of memory": (lambda one: one["segments"][0].update(address=2**63 - 1), "I107"),
    "a segment without a device": (lambda one: one["segments"][0].pop("device"), "S103"),
    "an entry without an address": (lambda one: _history(one)[5].pop("addr"), "S103"),
    "a release of another size": (
        lambda one: next(e for e in _history(one) if e["action"] == "free_requested").update(size=3), "I107"
    ),
    "a segment is given twice": (
        lambda one: _history(one).append(next(e for e in _history(one) if e["action"] == "segment_alloc")), "I114"
    ),
    "a time before": (lambda one: _history(one)[-1].update(time_us=1), "I106"),
    "an allocation twice": (lambda one: _history(one).insert(-1, _of_address_in_use(one)), "I114"),
    "a release is lost": (
        lambda one: _history(one).remove(next(e for e in _history(one) if e["action"] == "free_completed")), "I114"
    ),
    "an unknown state": (lambda one: _used(one).update(state="lost"), "S103"),
    "a size that is a text": (lambda one: _used(one).update(size="512"), "S103"),
    "a negative size": (lambda one: _used(one).update(size=-512), "S103"),
    "no state": (lambda one: _used(one).pop("state"), "S103"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.variants(2)
def test_a_wrong_snapshot_is_found(tmp_path, name):
    change, code = WRONG[name]
    snapshot = made(4)
    change(snapshot)
    assert code in codes(written(tmp_path / "s", snapshot))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: one.update(segments=[], device_traces=[]), "a process that used no device"),
        (lambda one: one.pop("device_traces"), "torch 1.12 has no history"),
        (lambda one: one.update(device_traces=[[]]), "history that was never switched on"),
        (lambda one: one.update(device_traces=[_history(one)[7:]]), "a ring of so many entries lost the first"),
        (lambda one: [e.update(user_metadata="layer 1", pool_id=[0, 0], compile_context="N/A") for e in _history(one)],
         "torch 2.14"),
        (lambda one: [e.pop("time_us") for e in _history(one)], "torch 2.0"),
        (lambda one: _history(one).append({"action": "oom", "device_free": 512, "size": 1 << 40, "stream": 0}),
         "an allocation that failed"),
        (lambda one: _history(one).append({**_of_address_in_use(one), "addr": 1, "time_us": _history(one)[-1]["time_us"]}),
         "another thread went on between the two"),
        (lambda one: one["device_traces"].extend([[], []]), "other devices, silent"),
        (lambda one: [of.update(is_new=True) for of in one["segments"]], "a key of a newer torch"),
        (lambda one: one["segments"].reverse(), "torch_npu appends segments of workspaces"),
        (lambda one: one["device_traces"].insert(0, [
            {"action": action, "addr": 64, "size": 1024, "stream": 0, "time_us": 5}
            for action in ("workspace_snapshot", "segment_alloc", "alloc")]), "workspaces of torch_npu"),
        (lambda one: _without(one, "free_requested"), "skip_actions"),
        (lambda one: _without(one, "alloc"), "skip_actions"),
        (lambda one: [e.update(addr=e["addr"] + 2**63 + 2**48) for e in _history(one)], "addresses of Intel's devices"),
    ],
)  # fmt: skip
@pytest.mark.variants(2)
def test_what_other_versions_and_runs_write_is_right(tmp_path, change, why):
    snapshot = made(2)
    change(snapshot)
    assert codes(written(tmp_path / "s", snapshot)) == set(), why


def test_what_is_measured_is_what_the_allocator_did(tmp_path):
    snapshot = made(3)
    level = peak = 0
    for entry in _history(snapshot):
        level += {"alloc": entry["size"], "free_completed": -entry["size"]}.get(entry["action"], 0)
        peak = max(peak, level)
    used = sum(one["size"] for of in snapshot["segments"] for one in of["blocks"] if one["state"] != "inactive")
    reserved = sum(of["total_size"] for of in snapshot["segments"])
    # A ring that lost its first entries counts back from the end.
    for name, history in (("whole", _history(snapshot)), ("ring", _history(snapshot)[-30:])):
        place = written(tmp_path / name, {**snapshot, "device_traces": [history]})
        found = {one.label: one.value for one in measure(inspect(replay(place)))}
        assert found["snapshot_allocated_bytes[device:0]"] == used
        assert found["snapshot_reserved_bytes[device:0]"] == reserved
        assert found["snapshot_fragmentation[device:0]"] == round(1 - used / reserved, 6)
        assert found["snapshot_peak_bytes[device:0]"] <= peak
        assert level == sum(of["requested_size"] for of in snapshot["segments"])
        if name == "whole":
            assert found["snapshot_peak_bytes[device:0]"] == peak
            assert len(found) == 4


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["snapshot_2026-01-01-00-00_0.pickle", "snapshot_2026-01-01-00-00_7.pickle"], [0, 7]),
        (["rank0_memory_snapshot.pickle", "rank12_memory_snapshot.pickle"], [0, 12]),
        (["memory_snapshot_rank3_step6.pkl"], [3]),
        (["dump_snapshot.pickle", "my_snapshot.pickle"], [0, 0]),
        (["000002_step_10.pickle", "000003_step_10.pickle"], [2, 3]),
        (["snapshot_rank_4.pickle", "mem.rank-5.pickle", "local_rank0_rank8.pickle"], [4, 5, 8]),
        (["memory_snapshot_3.pickle"], [0]),
    ],
)
@pytest.mark.variants(2)
def test_names_say_the_rank(tmp_path, names, ranks):
    for name in names:
        written(tmp_path / "s", made(), name)
    assert sorted(one.rank for one in inspect(replay(tmp_path / "s")).extracts) == ranks


@pytest.mark.parametrize(
    "name",
    [
        "dump_snapshot.pickle",
        "snapshot_2026-01-01-00-00_0.pickle",
        "snapshot_rank_0.pickle",
        "rank0_memory_snapshot.pickle",
    ],
)
@pytest.mark.variants(1)
def test_what_is_named_as_one_and_is_none_is_found(tmp_path, name):
    """A writer that was killed, or a disk: beside a right trace it must not vanish."""
    shutil.copytree(RECORDINGS / "torch-mlp" / "profiler", tmp_path / "s")
    assert codes(tmp_path / "s") == set()
    for beginning in (b"", bytes(4096)):
        (tmp_path / "s" / name).write_bytes(beginning)
        assert codes(tmp_path / "s") == {"S101"}


def test_another_pickle_is_no_snapshot(tmp_path):
    """Datasets and models are pickled too: nothing is said of them, beside a snapshot or alone."""
    written(tmp_path / "s", made())
    for number, other in enumerate(
        ({"images": [1, 2]}, {"segments": [[0, 1.5]], "labels": ["a"]}, {"num_segments": 4})
    ):
        written(tmp_path / "s", other, f"data{number}.pickle")
    assert perfguard.check(tmp_path / "s").layouts == ("memory-snapshot",)
    result = run("check", written(tmp_path / "alone", {"images": [1, 2]}, "data.pickle"))
    assert result.exit_code == 4, result.output


def test_a_peak_is_unknown_where_the_program_left_something_out(tmp_path):
    for action in ("alloc", "free_completed"):
        snapshot = made(3)
        _without(snapshot, action)
        found = {one.metric for one in measure(inspect(replay(written(tmp_path / action, snapshot))))}
        assert found == {"snapshot_allocated_bytes", "snapshot_reserved_bytes", "snapshot_fragmentation"}


def test_bytes_more_in_use_are_a_regression(tmp_path):
    base, more = made(5), made(5)
    block = _used(more)
    segment = next(of for of in more["segments"] if block in of["blocks"])
    free = next((one for one in segment["blocks"] if one["state"] == "inactive"), None)
    assert free is not None
    free.update(state="active_allocated", requested_size=free["size"])
    for name in ("allocated_size", "active_size", "requested_size"):
        segment[name] += free["size"]
    result = run(
        "compare", written(tmp_path / "base", base), written(tmp_path / "now", {**more, "device_traces": []}), "-v"
    )
    assert result.exit_code == 1, result.output
    assert "snapshot_allocated_bytes[device:0]" in result.output
