"""The calibration file beside the baselines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfguard.errors import StoreError
from perfguard.judge.calibration import Calibrated, ErrorRate
from perfguard.stores.calibration import (
    CALIBRATION_FILE,
    Calibration,
    move_calibration,
    read_calibration,
    write_calibration,
)
from perfguard.stores.directory import BaselineDirectory, file_name
from tests.facts import unwritable_directory

FOUND = Calibration(
    runs=20,
    machine=("AMD EPYC", 2, "cpu"),
    workloads={
        "test_a.py::test_a": (
            Calibrated(
                metric="step_cost", runs=20, spread=0.02, tolerance=0.1, alarms=0, comparisons=132, independent=2
            ),
            Calibrated(metric="steps", runs=20, values=1, tolerance=0.0),
        )
    },
    error_rate=ErrorRate(alarms=0, comparisons=132, independent=2, at_most=0.7764, smallest_slowdown=None),
)


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_directory_that_cannot_be_entered_is_not_one_without_a_calibration(mode):
    with unwritable_directory(mode) as place, pytest.raises(StoreError, match="cannot be read: Permission denied"):
        read_calibration(place)


@pytest.mark.parametrize("found", [FOUND, Calibration(runs=1, machine=("", 0, ""), workloads={}, error_rate=None)])
def test_what_is_written_is_read(tmp_path, found):
    assert write_calibration(found, tmp_path) == tmp_path / CALIBRATION_FILE
    assert read_calibration(tmp_path) == found


def test_there_may_be_none(tmp_path):
    assert read_calibration(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 99}'])
def test_a_damaged_one_names_the_next_command(tmp_path, text):
    (tmp_path / CALIBRATION_FILE).write_text(text)
    with pytest.raises(StoreError, match="perfguard"):
        read_calibration(tmp_path)


def test_it_is_no_baseline(tmp_path):
    write_calibration(FOUND, tmp_path)
    assert BaselineDirectory(tmp_path).workloads() == []
    assert f"{file_name('calibration')}.json" != CALIBRATION_FILE


@pytest.mark.parametrize(
    "names, has_any",
    [({"test_a.py::test_a": "test_a.py::test_b"}, True), ({"test_c.py::test_a": "x"}, False), ({}, False)],
)
def test_renamed_workloads_keep_what_was_found_of_them(tmp_path, names, has_any):
    write_calibration(FOUND, tmp_path)
    assert move_calibration(tmp_path, names) == has_any
    workloads = {names.get(name, name): found for name, found in FOUND.workloads.items()}
    assert read_calibration(tmp_path) == replace(FOUND, workloads=workloads)


def test_without_a_calibration_none_is_renamed(tmp_path):
    assert not move_calibration(tmp_path, {"a": "b"})
    assert list(tmp_path.iterdir()) == []
