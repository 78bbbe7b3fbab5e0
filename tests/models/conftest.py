"""The suite that `pytest --perfguard tests/models` runs: small real models, a window well under a second a step."""

from __future__ import annotations

import pytest


@pytest.fixture
def mindspore_mode():
    """Switch MindSpore's execution mode for one test; the mode is the process's, so it is put back."""
    mindspore = pytest.importorskip("mindspore", reason="MindSpore is not installed: pip install -e '.[models]'")
    from tests.models.mindspore_nets import on_cpu

    before = mindspore.get_context("mode")

    def switch(name: str) -> None:
        modes = {"graph": mindspore.GRAPH_MODE, "pynative": mindspore.PYNATIVE_MODE}
        on_cpu()
        mindspore.set_context(mode=modes[name])

    yield switch
    mindspore.set_context(mode=before)
