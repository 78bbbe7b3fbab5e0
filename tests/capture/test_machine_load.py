"""How much of the machine other processes use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from perfguard.capture import machine_load
from perfguard.capture.machine_load import MachineLoad, busy_ticks


def test_it_is_a_share_of_all_cpus():
    load = MachineLoad()
    share = load.others_share()
    assert share is None if not busy_ticks() else 0.0 <= share <= 1.0


@pytest.mark.parametrize(
    "busy, own, share",
    [
        # Seconds that the CPUs were busy, those of this process, of 10 s on 2 CPUs.
        ((100.0, 100.0), (1.0, 1.0), 0.0),
        ((100.0, 110.0), (1.0, 11.0), 0.0),
        ((100.0, 115.0), (1.0, 6.0), 0.5),
        ((100.0, 190.0), (1.0, 1.0), 1.0),
        ((None, 100.0), (1.0, 1.0), None),
        ((100.0, None), (1.0, 1.0), None),
    ],
)
def test_what_this_process_and_its_children_use_is_left_out(monkeypatch, busy, own, share):
    for name, values in (("_busy_seconds", busy), ("_own_seconds", own)):
        monkeypatch.setattr(machine_load, name, iter(values).__next__)
    monkeypatch.setattr(machine_load.time, "perf_counter", iter((5.0, 15.0)).__next__)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert MachineLoad().others_share() == share


@pytest.mark.skipif(not busy_ticks(), reason="needs /proc/stat")
@pytest.mark.parametrize("is_waited_for", [True, False])
@pytest.mark.variants(1)
def test_a_child_is_no_other_process(is_waited_for):
    """It works for half a second: as an ended child, and as one that is still there."""
    burn = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    before = machine_load._own_seconds()
    child = subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    if is_waited_for:
        child.communicate(b"\n")
    found = machine_load._own_seconds() - before
    child.communicate(None if is_waited_for else b"\n")
    # In ticks of the system, of 10 ms.
    assert found >= 0.4
