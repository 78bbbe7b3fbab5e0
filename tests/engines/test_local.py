"""Processes of this machine: results in order, lost ones made up for, and none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfguard.engines import engine_named
from perfguard.engines.local import LocalEngine, usable_cpus
from perfguard.engines.spread import spread
from perfguard.errors import UsageError
from tests.engines import calls

pytestmark = pytest.mark.slow

ITEMS = list(range(20))
BATCHES = [ITEMS[0:1], ITEMS[1:5], ITEMS[5:9], ITEMS[9:10], ITEMS[10:20]]


#: The processes of other tests, such as a tracker of resources, which ends with this process.
OTHERS: set[int] = set()


def children() -> list[int]:
    """Return the processes that this one has started and not yet ended."""
    found = (Path(f"/proc/self/task/{task}/children").read_text() for task in os.listdir("/proc/self/task"))
    return [int(pid) for text in found for pid in text.split() if int(pid) not in OTHERS]


@pytest.fixture(autouse=True)
def _of_others():
    OTHERS.clear()
    OTHERS.update(children())


def lost(item):
    return f"lost {item}"


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_items(jobs):
    told = []
    found = list(spread(calls.doubled, BATCHES, LocalEngine(jobs), lost=lost, done=told.extend))
    assert found == [2 * item for item in ITEMS]
    assert sorted(told) == ITEMS
    assert children() == []


def test_nothing_to_do_starts_nothing():
    assert list(spread(calls.doubled, [], LocalEngine(2), lost=lost)) == []


def test_a_process_that_died_is_made_up_for(tmp_path):
    found = spread(calls.DeadlyOnce(tmp_path / "died"), BATCHES, LocalEngine(2), lost=lost)
    assert list(found) == [2 * item for item in ITEMS]
    assert (tmp_path / "died").exists()


def test_an_exception_that_cannot_be_sent_is_no_lost_worker():
    with pytest.raises(RuntimeError, match="an odd mistake"):
        list(spread(calls.failing_oddly, BATCHES, LocalEngine(2), lost=lost))


def test_what_kills_a_process_twice_is_lost_and_nothing_else_is():
    found = list(spread(calls.deadly, BATCHES, LocalEngine(2), lost=lost))
    assert found == [2 * item if item != 7 else "lost 7" for item in ITEMS]
    assert children() == []


def test_a_process_killed_from_outside_is_made_up_for():
    engine, killed = LocalEngine(2), []

    def kill(batch):
        if not killed:
            killed.append(children()[0])
            os.kill(killed[0], signal.SIGKILL)

    found = spread(calls.slowly_doubled, [[item] for item in ITEMS], engine, lost=lost, done=kill)
    assert list(found) == [2 * item for item in ITEMS]
    assert killed


def test_an_exception_in_a_call_is_raised_here():
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        list(spread(calls.failing, BATCHES, LocalEngine(2), lost=lost))
    assert children() == []


def test_who_stops_asking_leaves_no_process_behind():
    results = spread(calls.slowly_doubled, BATCHES, LocalEngine(2), lost=lost)
    assert next(results) == 0
    results.close()
    assert children() == []


def test_processes_share_the_cpus(monkeypatch):
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    jobs = max(2, usable_cpus())
    found = list(spread(calls.surroundings, [[1]] * 4, LocalEngine(jobs), lost=lost))
    assert {threads for _, threads, _ in found} == {"1"}
    assert os.getpid() not in {pid for pid, _, _ in found}


def test_processes_are_gone_when_theirs_was_killed(tmp_path):
    """Not even SIGKILL of the first process leaves others behind."""
    script = tmp_path / "main.py"
    script.write_text(
        "import sys\n"
        "from perfguard.engines.local import LocalEngine\n"
        "from perfguard.engines.spread import spread\n"
        "from tests.engines import calls\n"
        "if __name__ == '__main__':\n"
        "    for one in spread(calls.surroundings, [[1]] * 3, LocalEngine(1), lost=str):\n"
        "        print(one[0], flush=True)\n"
        "        sys.stdin.read()\n"
    )
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=where,
    ) as process:
        worker = int(process.stdout.readline())
        process.kill()
    for _ in range(600):
        if not is_running(worker):
            break
        time.sleep(0.05)
    assert not is_running(worker)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_scheduler_is_for_dask_only():
    with pytest.raises(UsageError, match="--scheduler tcp://h:1 needs --engine dask"):
        engine_named("local", 1, "tcp://h:1")
