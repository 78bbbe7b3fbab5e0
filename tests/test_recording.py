"""Recordings: what was written beside the profiler's output is read back, or refused."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard import StepWindow
from perfguard.errors import StoreError
from perfguard.recording import (
    Ending,
    Environment,
    Fingerprint,
    Recording,
    Step,
    read_recording,
    write_recording,
)
from perfguard.version import upgrade_command
from perfguard.window import Phase
from tests.facts import ELSEWHERE, FINGERPRINT, HERE, RECORDINGS, names_the_next_command

COUNTS = st.integers(0, 2**63)
RECORDED = st.builds(
    Recording,
    directory=st.just(Path()),
    fingerprint=st.builds(
        Fingerprint,
        workload=st.text(),
        backend=st.text(),
        device=st.text(),
        mode=st.text(),
        world_size=st.integers(1, 4096),
        threads=st.integers(0, 64),
        window=st.builds(StepWindow, skip_first=st.integers(0, 99), active=st.integers(1, 99)),
    ),
    environment=st.builds(
        Environment,
        python=st.text(),
        platform=st.text(),
        packages=st.dictionaries(st.text(), st.text(), max_size=3),
        cpu_model=st.text(),
        cpu_count=st.integers(0, 1024),
        device_name=st.text(),
    ),
    steps=st.lists(
        st.builds(
            Step,
            index=COUNTS,
            phase=st.sampled_from(Phase),
            cycle=COUNTS,
            start_ns=COUNTS,
            wall_ns=COUNTS,
            thread_cpu_ns=COUNTS,
            pause_ns=st.one_of(st.none(), COUNTS),
        ),
        max_size=5,
    ).map(tuple),
    ending=st.sampled_from(Ending),
    reason=st.text(),
    rank=st.integers(0, 4096),
    timed_steps=st.integers(0, 99),
    conditions=st.dictionaries(st.text(), st.booleans(), max_size=3),
)


def step(index: int, phase: Phase, *, cycle: int = 0) -> Step:
    return Step(index=index, phase=phase, cycle=cycle, start_ns=100 * index, wall_ns=10, thread_cpu_ns=5)


def recorded(directory: Path) -> Recording:
    steps = (step(0, Phase.SETTLE), step(1, Phase.TIMED), step(2, Phase.ACTIVE), step(3, Phase.ACTIVE, cycle=1))
    return Recording(
        directory=directory,
        fingerprint=FINGERPRINT,
        environment=HERE,
        steps=steps,
        ending=Ending.COMPLETE,
        rank=0,
        timed_steps=1,
        conditions={"memory": True},
    )


@given(recording=RECORDED)
@settings(max_examples=60)
def test_a_recording_is_read_as_it_was_written(recording):
    with tempfile.TemporaryDirectory() as place:
        recording = replace(recording, directory=Path(place))
        write_recording(recording)
        assert read_recording(Path(place)) == recording


@pytest.mark.parametrize("unknown", ["rank", "timed_steps"])
def test_what_nobody_knows_stays_unknown(tmp_path, unknown):
    recording = replace(recorded(tmp_path), **{unknown: None})
    write_recording(recording)
    assert read_recording(tmp_path) == recording


@pytest.mark.parametrize("name", ["mindspore-graph", "mindspore-pynative", "torch-mlp", "torch-repeat2"])
def test_a_stored_recording_is_written_as_it_was_read(tmp_path, name):
    recording = read_recording(RECORDINGS / name)
    write_recording(replace(recording, directory=tmp_path))
    for file in ("recording.json", "steps.json"):
        assert (tmp_path / file).read_bytes() == (RECORDINGS / name / file).read_bytes()


def test_steps_are_written_one_a_line(tmp_path):
    write_recording(recorded(tmp_path))
    lines = (tmp_path / "steps.json").read_text().splitlines()
    assert [json.loads(line.strip().rstrip(","))["phase"] for line in lines if '"phase"' in line] == [
        "settle",
        "timed",
        "active",
        "active",
    ]


def test_a_foreign_directory_has_no_facts(tmp_path):
    assert read_recording(tmp_path) == Recording(directory=tmp_path)
    assert read_recording(tmp_path).window is None


def test_a_foreign_directory_has_nothing_to_write(tmp_path):
    with pytest.raises(ValueError, match="foreign"):
        write_recording(Recording(directory=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("facts", "made", "expected"),
    [(True, True, "profiler"), (True, False, "."), (False, True, "."), (False, False, ".")],
)
def test_the_profilers_files_lie_beside_the_facts(tmp_path, facts, made, expected):
    if made:
        (tmp_path / "profiler").mkdir()
    recording = recorded(tmp_path) if facts else Recording(directory=tmp_path)
    assert recording.profiler_directory == tmp_path / expected


@pytest.mark.parametrize(
    ("phase", "cycle", "expected"),
    [
        (Phase.SETTLE, None, [0]),
        (Phase.TIMED, None, [1]),
        (Phase.WAIT, None, []),
        (Phase.ACTIVE, None, [2, 3]),
        (Phase.ACTIVE, 0, [2]),
        (Phase.ACTIVE, 1, [3]),
        (Phase.ACTIVE, 2, []),
    ],
)
def test_steps_of_a_phase(phase, cycle, expected):
    assert [found.index for found in recorded(Path()).steps_of(phase, cycle=cycle)] == expected


def test_a_step_ends_when_it_has_lasted():
    assert step(3, Phase.ACTIVE).end_ns == 310


# -- damage ----------------------------------------------------------------------------------------------------------


def set_key(keys: str, value: Any):
    def change(document: dict) -> dict:
        *way, last = keys.split(".")
        inner = document
        for key in way:
            inner = inner[int(key) if key.isdigit() else key]
        inner[last] = value
        return document

    return change


def drop_key(key: str):
    return lambda document: {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("recording.json", drop_key("ending")),
        ("recording.json", drop_key("format")),
        ("recording.json", drop_key("fingerprint")),
        ("recording.json", set_key("more", 1)),
        ("recording.json", set_key("ending", "happy")),
        ("recording.json", set_key("rank", -1)),
        ("recording.json", set_key("timed_steps", "3")),
        ("recording.json", set_key("conditions.memory", "yes")),
        ("recording.json", set_key("fingerprint.window.active", 0)),
        ("recording.json", set_key("fingerprint.window.active", True)),
        ("recording.json", set_key("fingerprint.world_size", 0)),
        ("recording.json", set_key("environment.packages", ["torch"])),
        ("steps.json", drop_key("steps")),
        ("steps.json", set_key("steps", {})),
        ("steps.json", set_key("steps.0.phase", "asleep")),
        ("steps.json", set_key("steps.0.wall_ns", -1)),
        ("steps.json", set_key("steps.0.wall_ns", 1.5)),
        ("steps.json", set_key("steps.0.colour", "red")),
    ],
)
def test_damaged_facts_are_refused(tmp_path, file, change):
    write_recording(recorded(tmp_path))
    path = tmp_path / file
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(StoreError, match="is damaged") as raised:
        read_recording(tmp_path)
    assert str(raised.value).startswith(f"{path} ")
    assert names_the_next_command(str(raised.value))


def test_a_whole_number_with_a_point_is_the_number(tmp_path):
    # JSON has one kind of number: the schema takes 5.0 for an integer, as some editors write it.
    write_recording(recorded(tmp_path))
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(set_key("fingerprint.window.active", 5.0)(json.loads(path.read_text()))))
    assert read_recording(tmp_path) == recorded(tmp_path)


@pytest.mark.parametrize("file", ["recording.json", "steps.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]"])
def test_facts_that_are_no_document_are_refused(tmp_path, file, content):
    write_recording(recorded(tmp_path))
    (tmp_path / file).write_bytes(content)
    with pytest.raises(StoreError, match="is damaged") as raised:
        read_recording(tmp_path)
    assert names_the_next_command(str(raised.value))


@pytest.mark.parametrize("file", ["recording.json", "steps.json"])
def test_facts_of_a_newer_perfguard_say_to_upgrade(tmp_path, file):
    write_recording(recorded(tmp_path))
    path = tmp_path / file
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))
    with pytest.raises(StoreError, match=re.escape(upgrade_command())):
        read_recording(tmp_path)


@pytest.mark.parametrize("damage", ["missing", "broken"])
def test_steps_that_cannot_be_read_name_the_file_whose_deletion_helps(tmp_path, damage):
    write_recording(recorded(tmp_path))
    path = tmp_path / "steps.json"
    path.unlink() if damage == "missing" else path.write_text("{")
    with pytest.raises(StoreError, match=r"steps\.json") as raised:
        read_recording(tmp_path)
    # Without steps.json the directory is refused as well: what makes it a foreign one is a missing recording.json.
    assert "recording.json" in str(raised.value)


# -- fingerprint and environment -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"workload": "another"}, []),
        ({"mode": "graph"}, ["mode: eager → graph"]),
        ({"backend": "mindspore", "threads": 4}, ["backend: torch → mindspore", "threads: 1 → 4"]),
        ({"world_size": 8}, ["world_size: 1 → 8"]),
        ({"device": "npu"}, ["device: cpu → npu"]),
    ],
)
def test_fingerprints_differ_in_what_decides_the_numbers(changes, expected):
    assert replace(FINGERPRINT, **changes).differences(FINGERPRINT) == expected


def test_another_window_is_another_fingerprint():
    (difference,) = replace(FINGERPRINT, window=StepWindow(active=6)).differences(FINGERPRINT)
    assert difference.startswith("window: ")
    assert "'active': 5" in difference
    assert "'active': 6" in difference


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"python": "3.12.0"}, ["python: 3.11.7 → 3.12.0"]),
        ({"packages": {"torch": "2.14.0"}}, ["torch: 2.13.0 → 2.14.0"]),
        ({"packages": {"mindspore": "2.10.0"}}, ["mindspore: - → 2.10.0", "torch: 2.13.0 → -"]),
    ],
)
def test_environments_name_what_differs(changes, expected):
    assert replace(HERE, **changes).differences(HERE) == expected


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"python": "3.12.0", "platform": "other", "packages": {}}, True),
        ({"cpu_model": "other"}, False),
        ({"cpu_count": 3}, False),
        ({"device_name": "other"}, False),
    ],
)
def test_a_machine_is_its_processor_its_cores_and_its_device(changes, same):
    assert (replace(HERE, **changes).machine == HERE.machine) is same
    assert HERE.machine != ELSEWHERE.machine
