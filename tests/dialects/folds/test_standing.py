"""Whatever is asked of a trace that is read whole is asked of one that goes by: nobody looks for the rows that are not kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfguard.artifacts.layout import layouts
from perfguard.contract import inspection
from perfguard.dialects import invariants
from perfguard.dialects.executions import executions_of
from perfguard.dialects.folds import folds_of
from perfguard.dialects.invariants import check_cycle, check_folds
from perfguard.testing import LAYOUTS, conditions_of, generate
from tests.dialects.folds.streaming import streamed


class Rowless:
    """A content whose rows nobody may ask for."""

    def __init__(self, content):
        self._content = content

    def __getattr__(self, name):
        assert name not in ("table", "frame"), f"somebody asks for the {name} of a trace that went by"
        return getattr(self._content, name)


def rowless(cycle):
    def of(artifact):
        return replace(artifact, content=Rowless(artifact.content)) if artifact.content.folds else artifact

    artifacts = {slot: of(artifact) for slot, artifact in cycle.artifacts.items()}
    return replace(cycle, artifacts=artifacts, files=tuple(map(of, cycle.files)))


#: Layouts with a trace that goes by.
STREAMED = sorted(
    layout.id
    for layout in layouts()
    for slot in layout.slots
    if slot.format == "chrome-trace" and folds_of(slot.name, layout.id)
)


def test_these_are_the_layouts_whose_traces_go_by():
    assert STREAMED == ["ms-2.3", "ms-2.5+", "ms-2.5+cpu", "pt-npu", "pt-torch"]
    assert set(STREAMED) <= set(LAYOUTS)


@pytest.mark.parametrize("condition", ["", "memory", "level2", "stack"])
@pytest.mark.parametrize("layout", STREAMED)
def test_no_invariant_asks_for_the_rows_of_a_trace_that_went_by(tmp_path, monkeypatch, layout, condition):
    known = {condition: True} if condition in conditions_of(layout) else {}
    generate(layout, seed=5, ranks=2, operators=9, conditions=known).write(tmp_path)
    monkeypatch.setattr(invariants, "check_folds", lambda cycle: check_folds(rowless(cycle)))
    monkeypatch.setattr(invariants, "check_cycle", lambda cycle, *rest: check_cycle(rowless(cycle), *rest))
    monkeypatch.setattr(inspection, "executions_of", lambda cycle: executions_of(rowless(cycle)))
    found = streamed(tmp_path)
    assert found.streamed
    assert not found.findings
