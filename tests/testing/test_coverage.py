"""The generator writes everything perfguard knows: every version of every schema, and what every invariant needs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from perfguard.artifacts.layout import layouts
from perfguard.contract import Contract, expectation
from perfguard.dialects.invariants import INVARIANTS
from perfguard.findings import Severity
from perfguard.recording import read_recording
from perfguard.testing import LAYOUTS, Tree, generate, variants_of
from tests.contract.together import inspect_together, places

#: Versions of schemas no generated directory uses, and why.
NOT_GENERATED = {
    "kernel_details.pt-2023": "only for a row that lacks a cell, which the published sample of 2023 has once: what is "
    "generated of 2023 lacks none, and so fits kernel_details.level1",
}
#: Invariants that run on no generated directory, and why.
NEVER_RAN: dict[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A directory to generate."""

    layout: str
    variant: str = ""
    ranks: int = 1
    conditions: dict[str, bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Says all of it."""
        said = [f"{'' if value else 'no-'}{name}" for name, value in self.conditions.items()]
        return ",".join([self.layout, *filter(None, [self.variant]), f"{self.ranks}", *said])

    def tree(self) -> Tree:
        """Generate it, as small as it can be without losing anything."""
        return generate(
            self.layout, seed=6, ranks=self.ranks, steps=2, conditions=self.conditions, variant=self.variant
        )


#: One directory for each form of the files; together they hold all there are.
PLAIN = [Sample(layout=layout, ranks=2) for layout in LAYOUTS]
VARIANTS = [Sample(layout=layout, variant=name, ranks=2) for layout in LAYOUTS for name in variants_of(layout)]
CONDITIONS = [
    Sample(layout="ms-1.x", variant="1.3", conditions={"data_process": True}),
    Sample(layout="ms-1.x", variant="1.3", conditions={"data_process": True, "sink": True}),
    Sample(layout="ms-2.0", conditions={"cpu_device": True}),
    Sample(layout="ms-2.0", conditions={"graph": False}),
    Sample(layout="ms-2.0", conditions={"data_process": True}),
    Sample(layout="ms-2.0", conditions={"gpu": True, "dynamic_shape": True, "data_process": True, "sink": True}),
    Sample(
        layout="ms-2.0",
        conditions={"dynamic_shape": True, "heterogeneous": True, "memory": True, "parallel_strategy": True},
    ),
    Sample(layout="ms-2.3", ranks=2, conditions={"memory": True, "data_process": True, "sink": True}),
    Sample(layout="ms-2.5+", conditions={"level1": False}),
    Sample(layout="ms-2.5+", variant="block-dim", conditions={"level1": False}),
    Sample(
        layout="ms-2.5+",
        ranks=2,
        conditions=dict.fromkeys(("level2", "aicpu", "sys_io", "sys_interconnection", "db", "data_process"), True),
    ),
    Sample(layout="ms-2.5+cpu", conditions={"memory": True}),
    Sample(layout="pt-npu", conditions={"level1": False}),
    Sample(layout="pt-npu", variant="block-num", conditions={"level1": False}),
    Sample(layout="pt-npu", variant="device-id", ranks=2, conditions={"scheduled": False}),
    Sample(layout="pt-npu", variant="pipeline", ranks=3, conditions={"db": True}),
    Sample(layout="pt-npu", variant="rdma", ranks=2, conditions={"db": True}),
    Sample(layout="cluster", ranks=3, variant="pipeline", conditions={"db": True}),
    Sample(layout="minddata", variant="1.x", conditions={"sink": True}),
]
SAMPLES = {sample.name: sample for sample in (*PLAIN, *VARIANTS, *CONDITIONS)}


Looked = dict[str, Contract]


@pytest.fixture(scope="module")
def trees() -> dict[str, Tree]:
    return {name: sample.tree() for name, sample in SAMPLES.items()}


@pytest.fixture(scope="module")
def looked_at(trees: dict[str, Tree], tmp_path_factory: pytest.TempPathFactory) -> Looked:
    """Write and inspect every sample."""
    directories = places(tmp_path_factory.mktemp("samples"), len(trees))
    recordings = [read_recording(tree.write(one)) for tree, one in zip(trees.values(), directories, strict=True)]
    return dict(zip(trees, inspect_together(recordings), strict=True))


@pytest.fixture(scope="module")
def asked(trees: dict[str, Tree], looked_at: Looked) -> Looked:
    """Inspect every sample having been told what it is."""
    told = [expectation([tree.expectation]) for tree in trees.values()]
    return dict(zip(trees, inspect_together([one.recording for one in looked_at.values()], told), strict=True))


def said(contract: Contract) -> list[str]:
    found = (one for one in contract.findings if one.severity is not Severity.NOTE)
    return [f"{one.code.name} {one.place} {one.message}" for one in found]


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_said_of_a_sample(name: str, looked_at: Looked, asked: Looked):
    assert said(looked_at[name]) == []
    assert said(asked[name]) == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_schema_is_used(looked_at: Looked):
    used = {
        file.schema
        for contract in looked_at.values()
        for cycle in contract.cycles
        for file in cycle.files
        if file.schema
    }
    known = {name for layout in layouts() for slot in layout.slots for name in slot.schemas}
    assert sorted(known - used) == sorted(NOT_GENERATED)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_invariant_runs(looked_at: Looked):
    cycles = [cycle for contract in looked_at.values() for cycle in contract.cycles]
    ran = {
        one.name
        for one in INVARIANTS.values()
        for cycle in cycles
        if (not one.layouts or cycle.layout.id in one.layouts) and all(slot in cycle.artifacts for slot in one.needs)
    }
    assert sorted(INVARIANTS.keys() - ran) == sorted(NEVER_RAN)
