"""A real Dask cluster of processes: results in order, a worker killed in mid-run, and everything that may not be there."""

from __future__ import annotations

import os
import signal
import socket
import sys
from unittest import mock

import pytest

from perfguard.contract import reduce
from perfguard.contract.reduction import distributed
from perfguard.engines import engine_named
from perfguard.engines.spread import spread
from perfguard.errors import UsageError
from perfguard.recording import Recording
from perfguard.version import install_command
from tests.cli import run
from tests.engines import calls
from tests.installed import needed
from tests.runs import several_runs

dask_distributed = needed("distributed", "dask")

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

ITEMS = list(range(20))
BATCHES = [ITEMS[0:1], ITEMS[1:5], ITEMS[5:9], ITEMS[9:10], ITEMS[10:20]]


@pytest.fixture(scope="module")
def cluster():
    import dask

    # A task is given up with the first worker it kills, and not with the fourth: that takes a second each.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dask_distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=60
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def scheduler(cluster):
    """Return the address of the scheduler once both workers are there: a test that killed one does not wait for the next."""
    with dask_distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=600)
    return cluster.scheduler_address


@pytest.fixture
def engine(scheduler):
    opened = engine_named("dask", None, scheduler)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Return a directory of ten ranks: one that is cut off, one that is a copy of another."""
    return several_runs(tmp_path_factory.mktemp("ranks"), 5)


def lost(item):
    return f"lost {item}"


def test_it_has_as_many_jobs_as_the_cluster_has_threads(engine):
    assert engine.jobs == 2


def test_results_come_in_the_order_of_the_items(engine):
    assert list(spread(calls.doubled, BATCHES, engine, lost=lost)) == [2 * item for item in ITEMS]


def test_an_exception_in_a_call_is_raised_here(engine):
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        list(spread(calls.failing, BATCHES, engine, lost=lost))


def test_an_exception_that_cannot_be_sent_is_no_lost_worker(engine):
    """It arrives with its words; or as it is, once distributed has taught the worker (by tblib) how to send its kind."""
    with pytest.raises((RuntimeError, calls.Odd), match="an odd mistake"):
        list(spread(calls.failing_oddly, BATCHES, engine, lost=lost))


@pytest.mark.exhaustive
def test_what_kills_a_worker_twice_is_lost_and_nothing_else_is(engine):
    found = list(spread(calls.deadly, BATCHES, engine, lost=lost))
    assert found == [2 * item if item != 7 else "lost 7" for item in ITEMS]


@pytest.mark.exhaustive
def test_a_worker_killed_in_mid_run_is_made_up_for(ranks, engine):
    """Killed when the first result has come and the others have not; what is found is what is found without that."""
    killed = []

    class Killer:
        def begin(self, total):
            pass

        def report(self, count):
            if not killed:
                killed.append(next(iter(engine.run_everywhere(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

    recording = Recording(directory=ranks)
    found = reduce(recording, visit=lambda tasks, wanted: distributed(tasks, wanted, engine=engine, progress=Killer()))
    here = reduce(recording)
    assert killed
    assert killed[0] not in engine.run_everywhere(os.getpid).values()
    assert (found.findings, found.notes, found.read) == (here.findings, here.notes, here.read)
    assert {"S101", "I113"} <= {one.code.name for one in found.findings}


@pytest.mark.parametrize(
    "more",
    [("--json",), *(pytest.param(more, marks=pytest.mark.exhaustive) for more in [(), ("--explain", "--metrics")])],
)
def test_what_is_printed_is_what_is_printed_without_it(ranks, scheduler, more):
    there = run("check", ranks, "--engine", "dask", "--scheduler", scheduler, *more)
    here = run("check", ranks, "--jobs", "1", *more)
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)


@pytest.mark.exhaustive
def test_the_address_may_come_from_dasks_own_configuration(ranks, scheduler):
    import dask

    with dask.config.set({"scheduler-address": scheduler}):
        assert run("check", ranks, "--engine", "dask").exit_code == 3


# -- what is not there ---------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_scheduler_that_is_not_there_is_said_in_a_sentence(ranks):
    address = f"tcp://127.0.0.1:{free_port()}"
    found = run("check", ranks, "--engine", "dask", "--scheduler", address)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"perfguard: no Dask scheduler answers at {address} (OSError). Start one with: dask scheduler, or leave --engine "
        "dask out to use the processes of this machine.\n"
    )


def test_no_address_is_said_in_a_sentence(ranks):
    found = run("check", ranks, "--engine", "dask")
    assert found.exit_code == 2
    assert "Add: --scheduler tcp://HOST:8786" in found.stderr


def test_the_package_is_named_where_it_is_missing(ranks):
    with mock.patch.dict(sys.modules, {"distributed": None}):
        found = run("check", ranks, "--engine", "dask", "--scheduler", "tcp://127.0.0.1:1")
    assert found.exit_code == 2
    assert f"Run: {install_command('dask')}" in found.stderr


def test_a_cluster_without_workers_is_said_in_a_sentence(ranks):
    with dask_distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=60) as empty:
        found = run("check", ranks, "--engine", "dask", "--scheduler", empty.scheduler_address)
    assert found.exit_code == 2
    assert "has no workers. Start one with: dask worker tcp://" in found.stderr


def test_a_directory_that_workers_do_not_see_is_said(engine, tmp_path):
    with pytest.raises(UsageError, match=r"the worker .* cannot access .*. Use a directory on a filesystem that all"):
        engine.require_access(str(tmp_path / "nowhere"))


@pytest.mark.exhaustive
def test_a_url_of_this_process_is_for_no_cluster(scheduler):
    fsspec = pytest.importorskip("fsspec", reason="URLs need the extra remote")
    fsspec.filesystem("memory").pipe("/of-this-process/a.txt", b"text")
    found = run("check", "memory://of-this-process", "--engine", "dask", "--scheduler", scheduler)
    assert found.exit_code == 2
    assert "is in the memory of this process" in found.stderr
