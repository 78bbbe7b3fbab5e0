"""Cycles that are inspected elsewhere, or let go as soon as they were: what is found does not depend on it."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfguard.artifacts.layout import layouts
from perfguard.artifacts.survey import FoundCycle
from perfguard.contract import Cycle, inspect, inspection, reading, reduce, reduction
from perfguard.contract.inspection import Task
from perfguard.contract.reduction import batches, distributed, in_parallel, worthwhile_jobs
from perfguard.dialects.cycle import Requested
from perfguard.engines.local import LocalEngine
from perfguard.findings import Code
from perfguard.measure import measure, measure_cycle
from perfguard.recording import Recording, read_recording
from perfguard.testing import LAYOUTS, generate
from tests.contract.test_alike_ranks import recorded
from tests.runs import several_runs

KINDS = ["pt-torch", "pt-npu", "ms-2.5+cpu", "ir", "summary", "cluster"]


def taken_whole(cycle, findings):
    return measure_cycle(cycle)


class Deadly:
    """Kills the process that takes rank 1."""

    def __call__(self, cycle, findings):
        if cycle.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)


class Removing:
    """Removes a file as soon as the first cycle was looked at."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, cycle, findings):
        self.path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Return a directory of six small ranks: one is cut off, one is a copy of another."""
    return several_runs(tmp_path_factory.mktemp("ranks"), 3)


def judged(contract):
    return contract.findings, contract.notes, contract.read, contract.layouts


def on_processes(jobs):
    return lambda tasks, wanted: in_parallel(tasks, wanted, jobs=jobs)


# -- the same, wherever ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.variants(1)
def test_extracts_say_what_cycles_with_their_artifacts_say(tmp_path, kind):
    recording = Recording(directory=generate(kind, seed=5, ranks=1 if kind == "cluster" else 2).write(tmp_path))
    whole, small = inspect(recording), reduce(recording, measure=taken_whole)
    assert judged(small) == judged(whole)
    assert (len(whole.cycles), small.cycles) == (len(whole.extracts), ())
    assert measure(small) == measure(whole)


@pytest.mark.parametrize(
    "layout", ["pt-torch", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("pt-npu", "ms-2.5+cpu"))]
)
def test_what_only_metrics_need_is_not_queried_for_rules(layout, tmp_path, monkeypatch):
    place = Path(generate(layout, seed=1).write(tmp_path))
    for name in ("fill_levels", "memory_of", "measured"):
        with monkeypatch.context() as patched:
            patched.setattr(inspection, name, lambda *_, name=name: pytest.fail(name))
            reduce(Recording(directory=place))
            with pytest.raises(pytest.fail.Exception, match=name):
                inspect(Recording(directory=place))


@pytest.mark.exhaustive
def test_directories_of_all_layouts_are_judged_and_measured_together_as_each_alone(tmp_path):
    """They share a batch: a query of one layout is no query of another."""

    def measured(contract):
        # In which order a query yields its groups is up to the database; measurements are sorted by their names.
        return {
            (cycle.place, metric): sorted(values, key=lambda value: value[0])
            for cycle in contract.cycles
            for metric, values in cycle.measured.items()
        }

    alone = {}
    for seed, layout in enumerate(LAYOUTS):
        directory = generate(layout, seed=seed, steps=2, operators=6).write(tmp_path / layout)
        alone |= measured(inspect(Recording(directory=directory)))
    contract = inspect(Recording(directory=tmp_path))
    assert contract.findings == ()
    assert measured(contract) == alone


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [2, pytest.param(3, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_processes_find_what_one_finds(ranks, jobs):
    recording = Recording(directory=ranks)
    found = reduce(recording, measure=taken_whole, visit=on_processes(jobs))
    here = inspect(recording)
    assert judged(found) == judged(here)
    assert measure(found) == measure(here)
    assert {"S101", "I113"} <= {one.code.name for one in found.findings}


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [lambda events: events[: len(events) // 2], pytest.param(list, marks=pytest.mark.exhaustive)]
)
@pytest.mark.exhaustive
def test_ranks_of_a_recording_are_compared_wherever_they_were_read(tmp_path, change):
    recording = read_recording(recorded(tmp_path, change))
    assert judged(reduce(recording, visit=on_processes(2))) == judged(inspect(recording))


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_rank_that_only_its_file_tells_is_asked_for_its_own_steps(tmp_path, jobs):
    """Names say rank 0; what was asked of it is asked again when the trace says another."""
    directory = recorded(tmp_path, list)
    for number in (0, 1):
        (directory / "profiler" / f"rank_{number}").rename(directory / "profiler" / f"out{number}")
    recording = read_recording(directory)
    found = reduce(recording, visit=on_processes(jobs))
    assert judged(found) == judged(inspect(recording))
    assert sorted(extract.rank for extract in found.extracts) == [0, 1]
    assert not [one for one in found.findings if one.invalidates]


# -- what is kept ----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_no_cycle_outlives_its_inspection(ranks):
    alive = []

    def count(cycle, findings):
        alive.append(sum(type(one) is Cycle for one in gc.get_objects()))

    before = sum(type(one) is Cycle for one in gc.get_objects())
    reduce(Recording(directory=ranks), measure=count)
    # Those of a batch wait for each other; the last is there alone, and as it was before it knew its executions.
    assert alive[-1] - before <= 2
    assert len(alive) == 6


def test_equal_facts_are_kept_once(tmp_path):
    found = reduce(read_recording(recorded(tmp_path, list)))
    first, second = found.extracts
    assert first.ran is second.ran
    assert first.conditions is second.conditions


def test_an_extract_is_small(ranks):
    found = reduce(Recording(directory=ranks), notes=False)
    assert max(len(pickle.dumps(extract)) for extract in found.extracts) < 1000


@pytest.mark.exhaustive
@pytest.mark.slow
def test_memory_does_not_grow_with_the_ranks(tmp_path):
    """Peak memory of a check of 256 ranks, and of 512, in processes of their own; the first fill what the database keeps."""
    peaks = {}
    for count in (256, 512):
        directory = generate("pt-torch", seed=1, ranks=count, steps=1, operators=2).write(tmp_path / str(count))
        code = (
            "import sys\n"
            "from pathlib import Path\n"
            "from perfguard.contract import reduce\n"
            "from perfguard.recording import Recording\n"
            "found = reduce(Recording(directory=Path(sys.argv[1])), notes=False)\n"
            # Of getrusage the peak begins with that of the process which starts this one.
            "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
            "print(len(found.extracts), peak)\n"
        )
        told = subprocess.run([sys.executable, "-c", code, directory], capture_output=True, text=True, check=True)
        cycles, peaks[count] = map(int, told.stdout.split())
        assert cycles == count
    assert peaks[512] - peaks[256] < 30_000  # kB; with every table kept it is far more than 50 MB


# -- what is lost ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_cycle_that_kills_its_process_twice_is_a_finding_of_its_rank(tmp_path):
    directory = generate("ms-2.5+cpu", seed=1, ranks=3, steps=1, operators=1).write(tmp_path)
    visit = lambda tasks, wanted: distributed(tasks, wanted, engine=LocalEngine(2))  # noqa: E731
    found = reduce(Recording(directory=directory), measure=Deadly(), visit=visit)
    assert [(one.code.name, one.rank) for one in found.findings if one.invalidates] == [("A111", 1)]
    (finding,) = (one for one in found.findings if one.code.name == "A111")
    assert "died twice" in finding.message
    assert sorted(extract.rank for extract in found.extracts) == [0, 1, 2]
    assert found.read["cycles"] == 3


@pytest.mark.exhaustive
def test_a_file_that_vanishes_after_the_survey_is_a_finding(ranks, tmp_path, monkeypatch):
    monkeypatch.setattr(reduction, "_MOST_OF_A_BATCH", 1)
    directory = Path(shutil.copytree(ranks, tmp_path / "ranks"))
    last = sorted(directory.glob("*/*.json"))[-1]
    found = reduce(Recording(directory=directory), measure=Removing(last))
    told = [one for one in found.findings if one.place == last.relative_to(directory).as_posix()]
    assert [one.code.name for one in told] in (["A111"], ["S101"])
    assert found.read["cycles"] == 6


def test_a_disk_that_does_not_give_back_a_file_is_a_finding_and_the_others_are_judged(ranks, monkeypatch):
    """Of the file that fails some was read already: nothing of it is asked of the tables, which the others share."""
    last = sorted(ranks.glob("*/*.json"))[-1]
    whole = reading.stream_trace

    def failing(path, *arguments, **more):
        found = whole(path, *arguments, **more)
        if path.name == last.name:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return found

    expected = reduce(Recording(directory=ranks))
    monkeypatch.setattr(reading, "stream_trace", failing)
    found = reduce(Recording(directory=ranks))
    (lost,) = (one for one in found.findings if one.code is Code.A111)
    assert lost.message.startswith("it cannot be read: Input/output error")
    assert lost.place.endswith(last.name)
    # Beside it only what is compared between the ranks is another.
    assert [one for one in found.findings if one is not lost and not one.place.startswith("rank ")] == [
        one for one in expected.findings if not one.place.startswith("rank ")
    ]
    assert found.read["rows"] < expected.read["rows"]


@pytest.mark.parametrize("what", ["file", "folder"])
@pytest.mark.variants(1)
def test_what_may_not_be_read_is_a_finding_and_the_others_are_judged(ranks, tmp_path, what):
    """A rank whose file, or whose folder, may not be read."""
    directory = Path(shutil.copytree(ranks, tmp_path / "ranks"))
    closed = directory / "run2"
    for path in closed.glob("*.json") if what == "file" else [closed]:
        # A folder that may be listed, and not entered.
        path.chmod(0o000 if what == "file" else 0o644)
    *findings, cycles = unreadable_in(directory)
    names = sorted(path.name for path in (ranks / "run2").glob("*.json"))
    assert findings == [f"S101 run2/{name}" for name in names]
    assert cycles == "6"


def test_what_nobody_could_open_may_be_a_rank_and_is_said(tmp_path):
    """Where a layout is known by a text, nobody knows what a closed file is: its rank would be missing in silence."""
    directory = generate("memtrack", seed=1, ranks=3, steps=1).write(tmp_path)
    hidden = sorted(directory.glob("rank_2/*.csv"))
    for path in hidden:
        path.chmod(0o000)
    *findings, cycles = unreadable_in(directory)
    assert findings == [f"A111 rank_2/{path.name}" for path in hidden]
    assert cycles == "2"


def unreadable_in(directory: Path) -> list[str]:
    """Return the findings that say that something cannot be read, and how many cycles there are."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from perfguard.contract import reduce\n"
        "from perfguard.recording import Recording\n"
        "found = reduce(Recording(directory=Path(sys.argv[1])))\n"
        "print(*sorted({f'{one.code.name} {one.place}' for one in found.findings if 'cannot be' in one.message}), sep='\\n')\n"
        "print(found.read['cycles'])\n"
    )
    command = [*as_one_whom_permissions_bind(), sys.executable, "-c", code, directory]
    told = subprocess.run(command, capture_output=True, text=True)
    for path in directory.rglob("*"):
        path.chmod(0o755)
    assert told.returncode == 0, told.stderr
    return told.stdout.splitlines()


def as_one_whom_permissions_bind() -> list[str]:
    """Return what starts a process without root's right to read everything."""
    if os.geteuid() != 0:
        return []
    command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    if shutil.which("setpriv") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("root may read everything, and setpriv is not here to take that away")
    return command


# -- batches ---------------------------------------------------------------------------------------------------------------


def task(size: int) -> Task:
    found = FoundCycle(layout=layouts()[0], place=Path("x"), files=())
    return Task(
        found=found,
        recording=Recording(directory=Path()),
        expected=None,
        rank=0,
        index=0,
        requested=Requested(),
        size=size,
    )


@pytest.mark.parametrize(
    ("sizes", "jobs", "cut"),
    [
        ([], 2, []),
        ([5], 2, [1]),
        ([30_000] * 4, 2, [1] * 4),
        ([30_000] * 32, 2, [2] * 16),
        ([30_000] * 2048, 2, [64] * 32),
        ([30_000_000, 10, 10, 10], 1, [1, 1, 1, 1]),
        ([1] * 16 + [1_000_000] + [1] * 15, 1, [4, 4, 4, 4, 1, 4, 4, 4, 3]),
        ([0] * 16, 1, [2] * 8),
    ],
)
def test_small_cycles_are_sent_together_and_large_ones_alone(sizes, jobs, cut):
    assert [len(batch) for batch in batches([task(size) for size in sizes], parts=8 * jobs)] == cut


@pytest.mark.parametrize(("sizes", "most"), [([], 1), ([10_000_000], 1), ([30_000] * 100, 1), ([30_000] * 1024, 64)])
def test_processes_are_started_where_there_is_work_for_them(sizes, most, monkeypatch):
    monkeypatch.setattr("perfguard.engines.local.usable_cpus", lambda: 64)
    found = worthwhile_jobs([task(size) for size in sizes])
    assert found == 1 if most == 1 else 2 <= found <= most
