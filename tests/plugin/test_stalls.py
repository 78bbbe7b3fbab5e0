"""Steps that wait, in real timed processes: a slow loader in both forms, and a step that sleeps on purpose."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

SETTINGS = '[tool.pytest.ini_options]\naddopts = "-p no:randomly"\n'
MODEL = """
import os
import time
import pytest
import torch
import perfguard as pg
from perfguard import thresholds

thresholds.WINDOW_S, thresholds.WARMUP_S, thresholds.MOST_RUNS = 0.1, 0.05, 3
pytestmark = pytest.mark.perfguard(backend="torch", timed_steps=5, window=pg.StepWindow(skip_first=1, warmup=1, active=2))
x = torch.ones(128, 128)
LATE_S = float(os.environ.get("LATE", "0")) if "PERFGUARD_CONTROLLED" in os.environ else 0.0

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(LATE_S / 4)
        return x

def batches():
    for _ in range(1000):
        time.sleep(LATE_S)
        yield x

def test_loop(perfguard):
    for batch in perfguard.steps(batches()):
        torch.mm(batch, batch)

def test_workers(perfguard):
    for batch in perfguard.steps(torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=1)):
        torch.mm(batch[0], batch[0])

def test_of_a_microsecond(perfguard):
    one = torch.ones(1)
    perfguard(lambda: one.add_(1))

def test_on_purpose(perfguard):
    def step():
        torch.mm(x, x)
        time.sleep(0.005)

    perfguard(step)
"""


def test_a_loader_that_is_late_fails_and_a_step_that_always_slept_does_not(project):
    project.write("pyproject.toml", SETTINGS)
    project.write("test_late.py", MODEL)
    created = project.run("--perfguard-update")
    assert created.status == 0, created.text
    run = project.run("--perfguard", "--perfguard-report=late.json", env={"LATE": "0.008"})
    # On a busy machine the verdict on both is INCONCLUSIVE, and the cost of a step of microseconds may be found worse as well:
    # what the machine did meanwhile is not what is asked here.
    worse = {
        one["workload"].partition("::test_")[2]
        for one in project.report("late.json")["workloads"]
        for found in one["comparisons"]
        if (found["metric"], found["state"]) == ("run_blocked_time", "worse")
    }
    assert (run.status, worse) == (1, {"loop", "workers"}), run.text
