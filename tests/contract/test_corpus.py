"""The contract against real recordings: the faulty one is INVALID, its clean siblings are not."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import pytest

from perfguard.contract import Contract
from perfguard.findings import Severity
from perfguard.recording import read_recording
from tests.conftest import RECORDED, recorded
from tests.contract.together import inspect_together

RACED = "mindspore-2.10-cpu-graph-window3-raced"
NOT_ANALYSED = "mindspore-2.10-cpu-collect-only-not-analysed"
DATA = RECORDED.parent


@pytest.fixture(scope="module")
def inspected() -> dict[Path, Contract]:
    """Return what is said of every recording of the two frameworks, inside and in the corpus."""
    directories = [*recorded("mindspore-2.10-cpu-*"), *recorded("torch-*")]
    contracts = inspect_together([read_recording(path) for path in directories])
    return dict(zip(directories, contracts, strict=True))


def errors(contract: Contract) -> list[str]:
    return [finding.code.name for finding in contract.findings if finding.severity is Severity.ERROR]


def named(inspected: dict[Path, Contract], name: str) -> dict[Path, Contract]:
    found = {place: contract for place, contract in inspected.items() if place.name == name}
    assert found
    return found


def clean(inspected: dict[Path, Contract]) -> dict[Path, Contract]:
    return {place: contract for place, contract in inspected.items() if place.name not in (RACED, NOT_ANALYSED)}


def test_the_raced_recording_is_invalid_and_exactly_the_leaked_operators_are_named(inspected):
    for place, contract in named(inspected, RACED).items():
        (table,) = place.rglob("cpu_op_detail_info_0.csv")
        rows = list(csv.DictReader(table.read_text().splitlines()))
        counts = {row["full_op_name"]: int(row["op_occurrences"]) for row in rows}
        # Three steps were requested.
        leaked = [f"{name} (4 x)" for name, count in sorted(counts.items()) if count == 4]
        assert set(counts.values()) == {3, 4}
        assert not contract.is_whole
        assert errors(contract) == ["C101"]
        (finding,) = contract.findings
        _, _, operators = finding.message.rpartition(": ")
        assert sorted(operators.split(", ")) == leaked


def test_what_was_collected_but_never_analysed_is_said_so(inspected):
    for contract in named(inspected, NOT_ANALYSED).values():
        assert errors(contract) == ["A104"]
        assert not contract.is_whole


def test_every_clean_sibling_is_whole(inspected):
    found = clean(inspected)
    assert len(found) >= 10, [*found]
    assert {place: errors(contract) for place, contract in found.items() if errors(contract)} == {}
    assert all(contract.is_whole for contract in found.values())


def test_every_clean_sibling_has_the_layout_of_its_framework(inspected):
    expected = {"mindspore": "ms-2.5+cpu", "torch": "pt-torch"}
    found = {place: {c.layout.id for c in contract.cycles} for place, contract in clean(inspected).items()}
    assert found == {place: {expected[place.name.split("-")[0]]} for place in found}


def test_directories_that_say_a_rank_or_a_window_are_recognised(inspected):
    expected = {
        "mindspore-2.10-cpu-dynamic": ("ms-2.5+cpu", "ms-dyn"),
        "mindspore-2.10-cpu-msrun-2ranks": ("ms-2.5+cpu", "ranks"),
        "mindspore-2.10-cpu-msrun-2ranks-shared-dir": ("ms-2.5+cpu",),
    }
    for name, layouts in expected.items():
        assert {one.layouts for one in named(inspected, name).values()} == {layouts}, name


def test_ranks_and_cycles_are_told_apart(inspected):
    expected = {
        "mindspore-2.10-cpu-schedule-repeat2": [(0, 0, 3), (0, 1, 3)],
        "mindspore-2.10-cpu-dynamic": [(0, 0, 3), (0, 1, 2)],
        "mindspore-2.10-cpu-msrun-2ranks": [(0, 0, 4), (1, 0, 4)],
        "mindspore-2.10-cpu-msrun-2ranks-shared-dir": [(0, 0, 4), (1, 0, 4)],
        "torch-2.13-cpu-torchrun-2ranks": [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)],
        "torch-2.13-cpu-torchrun-2ranks-gz": [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)],
    }
    found = {
        place: [(c.rank, c.index, c.executions and c.executions.steps) for c in contract.cycles]
        for name in expected
        for place, contract in named(inspected, name).items()
    }
    assert found == {place: expected[place.name] for place in found}


def test_recordings_inside_are_small_and_name_no_machine():
    files = [path for path in DATA.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) <= 3_000_000
    machine = re.compile(rb"/(?:root|tmp|work|usr|opt|var|etc|home/(?!user/)[\w]+)/[/\w]*|[\w.-]+@[\w-]+\.\w+")
    hosts = re.compile(rb'"host_name": ?"(?!host"|vm")')
    found = {}
    for path in RECORDED.rglob("*"):
        if path.is_file():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            if wrong := {one.group() for one in (*machine.finditer(data), *hosts.finditer(data))}:
                found[str(path.relative_to(DATA))] = wrong
    assert found == {}
