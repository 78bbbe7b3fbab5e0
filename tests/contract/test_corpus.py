"""The contract against real recordings: the faulty one is INVALID, its clean siblings are not."""

from __future__ import annotations

import pytest

from perfguard.contract import Contract
from perfguard.findings import Severity
from perfguard.recording import read_recording
from tests.contract.together import inspect_together

RACED = "mindspore-2.10-cpu-graph-window3-raced"
NOT_ANALYSED = "mindspore-2.10-cpu-collect-only-not-analysed"
LEAKED = [
    "Default/ApplyMomentum-op0",
    "Default/ApplyMomentum-op1",
    "Default/AssignAdd-op0",
    "Gradients/Default/Grad_MatMul/MatMul-op0",
]


@pytest.fixture(scope="module")
def inspected(corpus) -> dict[str, Contract]:
    """Return what is said of every recording of the two frameworks, by its name."""
    names = [*corpus.glob("mindspore-2.10-cpu-*"), *corpus.glob("torch-*")]
    recordings = [read_recording(path) for path in sorted(names)]
    return {
        one.directory.name: contract for one, contract in zip(recordings, inspect_together(recordings), strict=True)
    }


def errors(contract: Contract) -> list[str]:
    return [finding.code.name for finding in contract.findings if finding.severity is Severity.ERROR]


def clean(inspected: dict[str, Contract]) -> dict[str, Contract]:
    return {name: contract for name, contract in inspected.items() if name not in (RACED, NOT_ANALYSED)}


def test_the_raced_recording_is_invalid_and_exactly_the_leaked_operators_are_named(inspected):
    contract = inspected[RACED]
    assert not contract.is_whole
    assert errors(contract) == ["C101"]
    (finding,) = contract.findings
    _, _, named = finding.message.rpartition(": ")
    assert named.split(", ") == [f"{name} (4 x)" for name in LEAKED]


def test_what_was_collected_but_never_analysed_is_said_so(inspected):
    contract = inspected[NOT_ANALYSED]
    assert errors(contract) == ["A104"]
    assert not contract.is_whole


def test_every_clean_sibling_is_whole(inspected):
    found = clean(inspected)
    assert len(found) >= 10, [*found]
    assert {name: errors(contract) for name, contract in found.items() if errors(contract)} == {}
    assert all(contract.is_whole for contract in found.values())


def test_every_clean_sibling_has_the_layout_of_its_framework(inspected):
    expected = {"mindspore": "ms-2.5+cpu", "torch": "pt-torch"}
    found = {name: {c.layout.id for c in contract.cycles} for name, contract in clean(inspected).items()}
    assert found == {name: {expected[name.split("-")[0]]} for name in found}


def test_directories_that_say_a_rank_or_a_window_are_recognised(inspected):
    expected = {
        "mindspore-2.10-cpu-dynamic": ("ms-2.5+cpu", "ms-dyn"),
        "mindspore-2.10-cpu-msrun-2ranks": ("ms-2.5+cpu", "ranks"),
        "mindspore-2.10-cpu-msrun-2ranks-shared-dir": ("ms-2.5+cpu",),
    }
    assert {name: inspected[name].layouts for name in expected} == expected


def test_ranks_and_cycles_of_the_corpus_are_told_apart(inspected):
    expected = {
        "mindspore-2.10-cpu-schedule-repeat2": [(0, 0, 3), (0, 1, 3)],
        "mindspore-2.10-cpu-dynamic": [(0, 0, 3), (0, 1, 2)],
        "mindspore-2.10-cpu-msrun-2ranks": [(0, 0, 4), (1, 0, 4)],
        "mindspore-2.10-cpu-msrun-2ranks-shared-dir": [(0, 0, 4), (1, 0, 4)],
        "torch-2.13-cpu-torchrun-2ranks": [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)],
        "torch-2.13-cpu-torchrun-2ranks-gz": [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)],
    }
    found = {
        name: [(c.rank, c.index, c.executions and c.executions.steps) for c in inspected[name].cycles]
        for name in expected
    }
    assert found == expected
