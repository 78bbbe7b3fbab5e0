"""The memory tracker, and the parameters of a loss landscape: right files are silent, a change is found."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.recording import read_recording
from perfguard.testing import generate


def found(place: Path) -> set[str]:
    findings = inspect(read_recording(place)).findings
    return {f"{one.code.name} {one.check}" for one in findings if one.severity is Severity.ERROR}


@pytest.fixture
def tracked(tmp_path: Path) -> Path:
    generate("memtrack", seed=3, operators=4, conditions={"npu": True}).write(tmp_path)
    return tmp_path


BLOCKS = {
    "a block before the one above": (r"\A(.*\n)(.*\n)(.*\n)", r"\1\3\2", "I106 blocks_of_the_tracker_are_in_order"),
    "a block twice": (r"\A(.*\n)(.*\n)", r"\1\2\2", "I106 blocks_of_the_tracker_are_in_order"),
    "a moment of two blocks": (
        r"\A(.*\n\d+,)\d+(,.*\n\d+,)(\d+)",
        r"\1\3\2\3",
        "I114 a_moment_of_the_tracker_is_of_one_block",
    ),
    "an address given out twice": (
        r"\A(.*\n\d+,)\d+,(\w+)(.*\n)(\d+,)(\d+),\w+",
        r"\g<1>99\5,\2\3\g<4>\5,\2",
        "I107 blocks_of_an_address_follow_each_other",
    ),
    "another last user": (r"\{0-\},0", "{0-},7", "I106 users_of_a_block_are_tasks_of_its_life"),
    "a release of another block": (
        r"\A(.*\n\d+,)\d+,",
        r"\1-1,",
        "S103 a_block_inside_another_has_no_times",
    ),
    "another node": (r"MatMul-op0,kernel_graph", "MatMul-op9,kernel_graph", "I101 a_block_names_its_task"),
    "another graph": (r"MatMul-op0,kernel_graph_0", "MatMul-op0,kernel_graph_7", "I101 a_block_names_its_task"),
}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.variants(2)
def test_what_is_changed_in_a_block_is_found(tracked: Path, name: str) -> None:
    old, new, expected = BLOCKS[name]
    assert found(tracked) == set()
    table = next(tracked.rglob("memory_block.csv"))
    text = table.read_text()
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    table.write_text(changed)
    assert expected in found(tracked)


def test_a_simple_tracker_leaves_the_users_of_a_block_blank(tracked: Path) -> None:
    table = next(tracked.rglob("memory_block.csv"))
    table.write_text(re.sub(r"\{[0-9-]*\}", "", table.read_text()))
    assert found(tracked) == set()


def test_a_block_inside_another_has_neither_of_its_times(tracked: Path) -> None:
    table = next(tracked.rglob("memory_block.csv"))
    changed = re.sub(r"\A(.*\n)\d+,\d+,", r"\1-1,-1,", table.read_text())
    table.write_text(changed)
    assert "S103 a_block_inside_another_has_no_times" not in found(tracked)


def test_tasks_of_another_run_are_found(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("one", "other")]
    for seed, place in enumerate(places):
        generate("memtrack", seed=seed, operators=4 + seed, conditions={"npu": True}).write(place)
        assert found(place) == set()
    here, there = (next(place.rglob("tracker_graph.ir")) for place in places)
    here.write_text(there.read_text())
    assert "I101 tasks_are_the_operators_of_the_graph" in found(places[0])


@pytest.fixture
def summary(tmp_path: Path) -> Path:
    generate("summary", seed=3, operators=4).write(tmp_path)
    return tmp_path


LANDSCAPES = {
    "the file of another step": (
        lambda one: one["model_params_file_map"].update({"2": one["model_params_file_map"]["1"]}),
        "I113",
    ),
    "a file elsewhere": (
        lambda one: one["model_params_file_map"].update({"2": "/tmp/other/Net_2_step.ckpt"}),
        "I113",
    ),
    "an interval of two": (lambda one: one["epoch_group"]["0"].pop(), "I115"),
    "an interval without the first": (lambda one: one.update(epoch_group={"1": one["epoch_group"]["0"]}), "I115"),
}


@pytest.mark.parametrize("name", LANDSCAPES)
@pytest.mark.variants(1)
def test_what_is_changed_of_a_landscape_is_found(summary: Path, name: str) -> None:
    change, code = LANDSCAPES[name]
    assert found(summary) == set()
    path = next(summary.rglob("train_metadata.json"))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    assert found(summary) == {f"{code} parameters_of_a_landscape_have_their_files"}


@pytest.mark.parametrize(("name", "at"), [("*_MS", 1), ("*_lineage", 0)])
def test_a_record_is_written_once(summary: Path, name: str, at: int) -> None:
    path = next(summary.rglob(name))
    raw, records, start = path.read_bytes(), [], 0
    while start < len(raw):
        end = start + 16 + struct.unpack_from("<Q", raw, start)[0]
        records.append(raw[start:end])
        start = end
    path.write_bytes(b"".join([*records[: at + 1], *records[at:]]))
    assert "I114 a_record_of_a_summary_is_written_once" in found(summary)
