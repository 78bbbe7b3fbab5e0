"""`target = "device"`: what a step reads on the host is a change on a CPU, and worse if the model is meant for a device."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import TORCH_HEAD

pytestmark = pytest.mark.slow

TEST = (
    TORCH_HEAD.partition("def matmul")[0].replace("4, 4", "256, 256")
    + """
def test_step(perfguard):
    def step():
        loss = torch.mm(x, x).sum()
        {more}
    perfguard(step)
"""
)


@pytest.mark.parametrize(
    ("settings", "marker"),
    [("", ""), ('target = "device"', ""), ("", '@pytest.mark.perfguard(target="device")\n')],
    ids=["host", "settings", "marker"],
)
@pytest.mark.variants(1)
def test_an_item_in_a_step(project, settings, marker):
    project.settings(settings)
    test = TEST.replace("def test_step", f"{marker}def test_step")
    project.write("test_a.py", test.format(more="pass"))
    assert project.run("--perfguard-update").status == 0
    assert project.run("--perfguard").status == 0
    project.write("test_a.py", test.format(more="loss.item()"))
    run = project.run("--perfguard", "--perfguard-report=report.json")
    said = "0 → 1 a step (aten::item 0 → 1)"
    if settings or marker:
        assert run.status == 1, run.text
        assert "FAILED: R102 host_reads 0 → 1 reads/step, +1 (exact: any increase fails): aten::item 0 → 1" in run.text
    else:
        assert run.status == 0, run.text
        assert (
            f"R107 (warning) a step reads values on the host more often, and on a device waits for each: {said}"
            in run.text
        )


def test_another_word_is_refused(project):
    project.settings('target = "gpu"')
    project.write("test_a.py", "def test_a(perfguard): pass\n")
    run = project.run("--perfguard")
    assert run.status == 4
    assert "target" in run.text
