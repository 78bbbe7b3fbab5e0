"""`period=` with MindSpore's profiler, which numbers no events: steps that differ are INVALID, unless two periods repeat."""

from __future__ import annotations

import pytest

from tests.installed import needs

needs("mindspore", "models")
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

#: Every second step does more, as an optimizer does that steps with every second batch. `{odd}` is a step that breaks it.
STEPS = """
import itertools
import mindspore as ms
import numpy as np
import perfguard as pg
import pytest
from mindspore import mint

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
x = ms.Tensor(np.ones((16, 16), np.float32))

def made():
    number = itertools.count()
    def step():
        now = next(number)
        y = ms.ops.matmul(x, x)
        if now % 2 or now == {odd}:
            y = ms.ops.relu(y)
        return y
    return step

@pytest.mark.perfguard(backend="mindspore", window=pg.StepWindow(skip_first=2, warmup=2, active={active}){period})
def test_steps(perfguard):
    perfguard(made())
"""


def judged(project, *arguments, active, period="", odd=-1):
    project.write("test_p.py", STEPS.format(active=active, period=period, odd=odd))
    run = project.run("--perfguard-time=off", "--perfguard-report=report.json", *arguments)
    return run, project.findings()["test_p.py::test_steps"]


def test_two_periods_that_repeat_are_judged(project):
    run, found = judged(project, "--perfguard-update", active=4, period=", period=2")
    assert (run.status, found) == (0, ("PASSED", [])), run.text
    run, found = judged(project, "--perfguard", active=4, period=", period=2")
    assert (run.status, found) == (0, ("PASSED", [])), run.text
    # Of five steps two whole periods are profiled.
    run, found = judged(project, "--perfguard", active=5, period=", period=2")
    assert (run.status, found) == (0, ("PASSED", [])), run.text


@pytest.mark.parametrize(
    "how, says",
    [
        pytest.param({"active": 4}, "ran different operators from the other steps", id="no period"),
        pytest.param({"active": 2, "period": ", period=2"}, "profile two: window=", id="one period"),
        # Settling steps 0 and 1, warm-up 2 and 3, profiled 4 to 7: step 6 is not what step 4 was.
        pytest.param(
            {"active": 4, "period": ", period=2", "odd": 6}, "but period=2 says that they repeat", id="broken"
        ),
    ],
)
def test_steps_that_differ_otherwise_stay_invalid(project, how, says):
    run, found = judged(project, "--perfguard-update", **how)
    assert (run.status, found[0], {*found[1]}) == (1, "INVALID", {"C102"}), run.text
    assert says in run.text
    assert project.baselines == {}
