"""Rounds: which tests share a timed process, in which order, and what becomes of the rest when one of them ends it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfguard.plugin import rounds
from perfguard.plugin.controlled import LogEntry
from perfguard.plugin.rounds import Rounds
from perfguard.settings import Settings
from perfguard.timing import LostRun
from tests.judge.test_time import timing
from tests.plugin.conftest import RECORDINGS, WRITTEN_HEAD

SETTINGS = """
[tool.pytest.ini_options]
addopts = "-p no:randomly"

[tool.perfguard]
runs = 2

[tool.perfguard.tolerance]
step_cost = 4.0
"""

#: Every process that times says which test it runs; windows are hundredths of a second, and a suspect has three processes.
#: Tests are skipped unless an option is given, which the timed processes must know as well.
CONFTEST = """
import os
import pytest
from perfguard import thresholds

IN_A_PROCESS = "PERFGUARD_CONTROLLED" in os.environ
thresholds.WINDOW_S, thresholds.WARMUP_S, thresholds.BUSY_SHARE = 0.02, 0.02, 1.0
thresholds.CALIBRATION_MOVED = 10.0
thresholds.LEAST_TIMEOUT_S, thresholds.TIMEOUT_FACTOR, thresholds.MOST_RUNS = 40.0, 0.0, 3

def pytest_configure(config):
    config.addinivalue_line("markers", "big: needs much")

def pytest_collection_modifyitems(config, items):
    if config.getoption("-m") != "big":
        for item in items:
            item.add_marker(pytest.mark.skip("needs -m big"))

def note(what, file="seen"):
    if IN_A_PROCESS:
        with open(os.path.join(os.path.dirname(__file__), file), "a") as seen:
            print(os.getpid(), what, file=seen)

@pytest.fixture(autouse=True)
def noted(request):
    note(request.node.nodeid.partition("::")[2])
"""

HEAD = (
    WRITTEN_HEAD
    + """
import signal
import sys
import unittest
from conftest import IN_A_PROCESS, note
from written import Written

pytestmark = [pytest.mark.big, pytest.mark.perfguard(backend="written", timed_steps=5, window=window)]

def product():
    x @ x
"""
)

SHARED = (
    HEAD
    + """
@pytest.fixture(scope="module")
def of_module():
    note("module", "fixtures")

@pytest.fixture(scope="class")
def of_class():
    note("class", "fixtures")

def test_named(perfguard, of_module):
    assert Written.threads == 1
    Written.threads = 2
    perfguard(product, name="first")
    for _ in perfguard.steps(range(100), name="second"):
        product()

class TestIn:
    @pytest.mark.parametrize("size", ["a/b", "x::y"])
    def test_sized(self, perfguard, of_module, of_class, size):
        # The backend is prepared anew for every test.
        assert Written.threads == 1
        perfguard(product)

class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def guard(self, perfguard):
        self.perfguard = perfguard

    def test_case(self):
        self.perfguard(product)

def test_last(perfguard, of_module):
    perfguard(lambda: [product() for _ in range(int(os.environ.get("FACTOR", "1")) if IN_A_PROCESS else 1)])

def test_script(perfguard):
    if IN_A_PROCESS:
        perfguard.script([sys.executable, "train.py"])
    perfguard.replay(RECORDING)

def test_not_selected(perfguard):
    perfguard(product)
"""
)

IN_ORDER = ["test_named", "TestIn::test_sized[a/b]", "TestIn::test_sized[x::y]", "test_last"]
#: It comes to its guard by a fixture for all tests, so that no round is planned with it.
UNPLANNED = "TestCase::test_case"


def processes(project, file="seen") -> list[list[str]]:
    """Return what each timed process noted, in the order they began; the next run begins anew."""
    noted: dict[str, list[str]] = {}
    path = project.directory / file
    for line in path.read_text().splitlines():
        pid, _, what = line.partition(" ")
        noted.setdefault(pid, []).append(what)
    path.unlink()
    return list(noted.values())


def written(project, conftest=CONFTEST):
    """Write the settings of a project, and its conftest.py."""
    project.write("pyproject.toml", SETTINGS)
    project.write("conftest.py", conftest)
    project.written()
    return project


@pytest.fixture(scope="module")
def shared(module_project):
    """A file of tests with baselines of two processes, and what its timed processes noted."""
    project = written(module_project("rounds"))
    project.write("train.py", "open('trained', 'x').close()")
    project.write("test_shared.py", SHARED.replace("RECORDING", repr(str(RECORDINGS / "torch-mlp"))))
    run = project.run("--perfguard-update", "--perfguard-report=created.json", "-m", "big", "-k", "not selected")
    assert run.counts == {"passed": 6, "deselected": 1}, run.text
    return project, processes(project), processes(project, "fixtures")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_refresh_has_one_process_a_round_and_rotates_the_order(shared):
    _, seen, _ = shared
    # What test_script does belongs into no shared process, and its guard times nothing.
    assert seen == [[*IN_ORDER, "test_script"], [*IN_ORDER[1:], IN_ORDER[0]], [UNPLANNED], [UNPLANNED]]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_workload_has_the_timings_of_every_round(shared):
    """None is lost, so the conftest.py of a timed process reads the options of the run."""
    project, _, _ = shared
    found = {one["workload"]: one for one in project.report("created.json")["workloads"]}
    timed = {name for name, one in found.items() if one["timings"]}
    assert {name.removeprefix("test_shared.py::") for name in timed} == {
        *("test_named#first", "test_named#second", *IN_ORDER[1:], UNPLANNED)
    }
    for name in timed:
        assert [one["workload"] for one in found[name]["timings"]] == [name] * 2
        assert found[name]["lost_runs"] == []
        # test_named sets threads itself.
        threads = 2 if "named" in name else 1
        assert {one["threads"] for one in found[name]["timings"]} == {threads}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_fixtures_of_a_module_are_made_once_a_round(shared):
    _, _, fixtures = shared
    assert [one.count("module") for one in fixtures] == [1, 1]
    assert all(one.count("class") >= 1 for one in fixtures)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_script_is_run_in_no_round(shared):
    project, _, _ = shared
    assert not (project.directory / "trained").exists()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_one_suspect_has_the_later_processes_to_itself_and_the_others_share_one(shared, tmp_path):
    project = shared[0].copy(tmp_path / "copy")
    options = ("--perfguard", "--perfguard-report=slow.json", "-m", "big", "-k", "not selected and not script")
    run = project.run(*options, env={"FACTOR": "100"})
    assert run.status == 0, run.text
    assert processes(project) == [IN_ORDER, [UNPLANNED], *[["test_last"]] * 2]
    found = {
        one["workload"].rpartition("::")[2]: len(one["timings"]) for one in project.report("slow.json")["workloads"]
    }
    assert found.pop("test_last") == 3
    assert set(found.values()) == {1}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_place_of_temporary_files_that_is_gone_is_said_in_a_sentence(module_project, tmp_path):
    """As a full disk is: the process of a round has nowhere to be told what to do."""
    project = written(module_project("gone"))
    place = str(tmp_path / "gone")
    test = f"import tempfile\n\ndef test_gone(perfguard):\n    tempfile.tempdir = {place!r}\n    perfguard(product)\n"
    project.write("test_gone.py", HEAD + test)
    run = project.run("--perfguard-update", "-m", "big", "test_gone.py")
    assert (run.status, run.counts) == (1, {"failed": 1}), run.text
    assert f"perfguard: No such file or directory: {place}" in run.text
    assert "mend that, then run the same command again." in run.text
    assert "rounds.py" not in run.text


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_limit_of_pytest_timeout_ends_where_the_timed_processes_begin(module_project):
    """They have limits of their own; the first test of a file waits for the processes that time all of them."""
    pytest.importorskip("pytest_timeout", reason="pytest-timeout is not installed: pip install -e '.[test]'")
    slow = "@pytest.fixture(autouse=True)\ndef slow():\n    import time\n    time.sleep(20 if IN_A_PROCESS else 0)\n"
    conftest = f"{CONFTEST}\n{slow}\nthresholds.LEAST_TIMEOUT_S = 300.0\n"
    project = written(module_project("limited"), conftest)
    project.write("test_limited.py", HEAD + "def test_limited(perfguard):\n    perfguard(product)\n")
    # Each of the two processes is within the limit, both together are not.
    run = project.run("--perfguard-update", "-m", "big", "-o", "timeout=35")
    assert (run.status, run.counts) == (0, {"passed": 1}), run.text


BAD = (
    HEAD
    + """
def is_first_time(what):
    # Whether this is the first timed process that comes here.
    if not IN_A_PROCESS or os.path.exists(what):
        return False
    open(what, "x").close()
    return True

def test_before(perfguard):
    perfguard(product)

def test_raises(perfguard):
    if IN_A_PROCESS:
        raise ValueError("no luck")
    perfguard(product)

def test_skips(perfguard):
    if IN_A_PROCESS:
        pytest.skip("not here")
    perfguard(product)

def test_forks(perfguard):
    if IN_A_PROCESS:
        os.fork()
    perfguard(product)

def test_killed_after_a_name(perfguard):
    perfguard(product, name="kept")
    if is_first_time("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    perfguard(product, name="redone")

def test_hangs(perfguard):
    if is_first_time("hung"):
        try:
            time.sleep(600)
        finally:
            note("hung", "hangs")
    perfguard(product)

def test_after(perfguard):
    perfguard(product)
"""
)


#: Tests that share no process, beside one that does.
APART = (
    HEAD
    + """
def test_together(perfguard):
    perfguard(product)

@pytest.mark.perfguard(isolated=True)
def test_isolated(perfguard):
    perfguard(product)

@pytest.mark.perfguard(threads=2)
def test_two_threads(perfguard):
    perfguard(product)

def test_by_name(request):
    request.getfixturevalue("perfguard")(product)
"""
)


@pytest.fixture(scope="module")
def bad(module_project):
    """Both files with baselines of one process: the project, the run, the processes of each file, and its workloads."""
    project = written(module_project("bad"))
    project.write("test_apart.py", APART)
    project.write("test_bad.py", BAD)
    run = project.run("--perfguard-update", "--perfguard-runs=1", "--perfguard-report=r.json", "-m", "big")
    seen = processes(project)
    found = {one["workload"].partition("::test_")[2]: one for one in project.report("r.json")["workloads"]}
    return project, run, seen[:4], seen[4:], found


@pytest.mark.slow
@pytest.mark.exhaustive
def test_what_is_isolated_or_has_other_threads_or_asks_late_has_other_processes(bad):
    _, _, seen, _, found = bad
    assert seen == [["test_together"], ["test_isolated"], ["test_two_threads"], ["test_by_name"]]
    (timing,) = found["two_threads"]["timings"]
    assert timing["threads"] == 2
    assert [len(found[name]["timings"]) for name in ("together", "isolated", "by_name")] == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_baseline_whose_processes_were_all_lost_is_not_written(bad):
    """It would never be judged by time. The reason is told, and the way to store none on purpose."""
    project, run, _, _, _ = bad
    assert run.status == 1, run.text
    assert ": none of 1 processes left a time: run 1 was skipped and timed nothing: not here; correct that" in run.text
    stored = {name.removeprefix("test_bad.py::test_") for name in project.workloads}
    assert {"before", "raises", "skips", "after"} & stored == {"before", "after"}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_test_that_ends_its_process_is_redone_alone_and_the_others_lose_nothing(bad):
    project, run, _, seen, found = bad
    lost = {name: lost["reason"] for name in found for lost in found[name]["lost_runs"]}
    assert lost == {
        "raises": "failed and timed nothing: ValueError: no luck",
        "skips": "was skipped and timed nothing: not here",
    }, run.text
    timed = ("before", "forks", "killed_after_a_name#kept", "killed_after_a_name#redone", "hangs", "after")
    assert [len(found[name]["timings"]) for name in timed] == [1] * len(timed)
    assert seen == [
        # The round, and what was left of it each time that its process was ended.
        ["test_before", "test_raises", "test_skips", "test_forks", "test_killed_after_a_name"],
        ["test_hangs"],
        ["test_after"],
        # Each when its test asks; what was timed before is kept.
        ["test_raises"],
        ["test_skips"],
        ["test_killed_after_a_name"],
        ["test_hangs"],
    ]
    # The one that was ended as it hung did nothing more.
    assert processes(project, "hangs") == [["hung"]]


# -- what is planned ---------------------------------------------------------------------------------------------------


class Scripted(Rounds):
    """Rounds whose processes are told what their tests do: names of what they time, and "!" with how that ends."""

    def __init__(
        self, tests: dict[str, tuple[str, ...]], *, slow: tuple[str, ...] = (), marked: dict[str, dict] | None = None
    ) -> None:
        self.does = {f"f.py::{name}": what for name, what in tests.items()}
        self.ran: list[str] = []
        self.settings = {name: Settings(root=Path(), **(marked or {}).get(name, {})) for name in tests}
        items = [(SimpleNamespace(nodeid=f"f.py::{name}"), self.settings[name]) for name in tests]
        super().__init__(None, items, needs_round=self.needs_round, show=lambda *_: None)
        self.slow = slow

    def needs_round(self, workload, settings, timings):
        assert timings
        return workload.removeprefix("f.py::") in self.slow

    def _process(self, tests, number, limit_s, *, place=0, of=1):
        self.ran.append(f"{number}: " + " ".join(map(self.named, tests)))
        log, timings = [], []
        for test in tests:
            what = self.does[test.nodeid]
            ending = next((one for one in what if one.startswith("!")), "")
            if ending == "!never begins":
                break
            nodeid = "f.py::another" if ending == "!is another" else test.nodeid
            log.append(LogEntry(what="begun", nodeid=nodeid))
            for name in what:
                workload = test.nodeid + name
                if test.times(workload) and not name.startswith("!"):
                    timings.append((test.nodeid, replace(timing(1.0), workload=workload)))
            if ending == "!dies":
                break
            log.append(LogEntry(what="ended", nodeid=nodeid, text=ending[1:]))
        return rounds._Ran(log=log, timings=timings, ending="died")

    def named(self, test):
        if test.workloads is None:
            return test.nodeid.removeprefix("f.py::")
        return "+".join(sorted(test.workloads)).replace("f.py::", "")

    def ask(self, workload: str, numbers: range) -> list[str]:
        """Ask as a test does, and return what became of it."""
        name = workload.partition("#")[0]
        item = SimpleNamespace(nodeid=f"f.py::{name}")
        found = [
            self.time(item, f"f.py::{workload}", self.settings[name], number=number, limit_s=1.0) for number in numbers
        ]
        return [one.reason if isinstance(one, LostRun) else one.workload.removeprefix("f.py::") for one in found]


ONE, FIVE = range(1, 2), range(1, 6)
PLAIN: tuple[str, ...] = ("",)


@pytest.mark.parametrize(
    "tests, facts, asked, ran",
    [
        pytest.param(
            {"a": PLAIN, "b": PLAIN, "c": PLAIN},
            {},
            {"a": ONE, "b": ONE, "c": ONE},
            ["1: a b c"],
            id="all green is one process",
        ),
        pytest.param(
            {"a": PLAIN, "b": PLAIN, "c": PLAIN},
            {},
            {"a": ONE, "b": range(1, 4), "c": ONE},
            ["1: a b c", "2: b", "3: b"],
            id="one suspect has the others to itself",
        ),
        pytest.param(
            {"a": PLAIN, "b": PLAIN, "c": PLAIN, "d": PLAIN},
            {"slow": ("a", "c", "d")},
            {"a": range(1, 4), "b": ONE, "c": range(1, 4), "d": range(1, 3)},
            ["1: a b c d", "2: c d a", "3: d a c"],
            id="suspects share theirs",
        ),
        pytest.param(
            {"a": ("#1", "#2"), "b": ("#1",)},
            {"slow": ("a#2",)},
            {"a#1": range(1, 3), "a#2": range(1, 3), "b#1": ONE},
            ["1: a b", "2: a#1+a#2"],
            id="of a test only the names that ask again",
        ),
        pytest.param(
            {"a": PLAIN, "b": PLAIN, "c": PLAIN},
            {},
            {"b": ONE, "c": ONE},
            ["1: b c"],
            id="what came before is not timed",
        ),
        pytest.param(
            {"a": ("#1", "#2"), "b": PLAIN, "c": PLAIN},
            {"marked": {"a": {"isolated": True}, "c": {"isolated": True}}, "slow": ("b",)},
            {"a#1": range(1, 3), "a#2": ONE, "b": range(1, 3), "c": ONE},
            ["1: a#1", "2: a#1", "1: a#2", "1: b", "2: b", "1: c"],
            id="isolated",
        ),
        pytest.param(
            {"a": PLAIN, "b": ("!dies",), "c": PLAIN},
            {"slow": ("a", "c")},
            {"a": range(1, 3), "b": range(1, 3), "c": range(1, 3)},
            ["1: a b c", "1: c", "2: c a", "1: b", "2: b"],
            id="what ends a process is alone from then on",
        ),
        pytest.param(
            {"a": PLAIN, "b": ("!why",), "c": PLAIN},
            {},
            {"a": ONE, "b": range(1, 3), "c": ONE},
            ["1: a b c", "1: b", "2: b"],
            id="so is what fails",
        ),
        pytest.param(
            {"a": ("!never begins",), "b": PLAIN},
            {},
            {"a": ONE, "b": ONE},
            ["1: a b", "1: a", "1: b"],
            id="where nothing begins each is on its own",
        ),
        pytest.param(
            {"a": ("!is another",), "b": PLAIN},
            {},
            {"a": ONE, "b": ONE},
            ["1: a b", "1: a", "1: a"],
            id="so is a test that pytest calls otherwise",
        ),
        pytest.param(
            {"a": ("#1", "!why"), "b": PLAIN},
            {"slow": ("a#1", "b")},
            {"a#1": range(1, 3), "b": range(1, 3)},
            ["1: a b", "2: a#1", "2: b"],
            id="what fails after it was timed keeps that",
        ),
        pytest.param(
            {"a": ("#1", "#2")},
            {"slow": ("a#1",)},
            {"a#1": ONE, "a#2": range(1, 3)},
            ["1: a", "2: a#2"],
            id="what has been judged does not ask again",
        ),
        pytest.param(
            {"a": PLAIN, "b": PLAIN, "c": PLAIN},
            {"marked": {"b": {"threads": 2}, "c": {"backend": "torch"}}},
            {"a": ONE, "b": ONE, "c": ONE},
            ["1: a", "1: b", "1: c"],
            id="threads and backends do not mix",
        ),
        pytest.param(
            {"a": PLAIN, "b": PLAIN},
            {},
            {"a#late": range(1, 3), "b": ONE},
            ["1: a b", "1: a#late", "2: a#late"],
            id="a name that the round did not come to",
        ),
    ],
)
def test_which_tests_a_round_has(tests, facts, asked, ran):
    made = Scripted(tests, **facts)
    for workload, numbers in asked.items():
        made.ask(workload, numbers)
    assert made.ran == ran


def test_a_test_that_is_run_again_is_timed_again():
    made = Scripted({"a": PLAIN, "b": PLAIN})
    assert made.ask("a", ONE) == made.ask("a", ONE) == ["a"]
    assert made.ask("b", ONE) == ["b"]
    assert made.ran == ["1: a b", "1: a"]


def test_what_is_lost_says_why():
    made = Scripted({"a": ("!failed: no luck",), "b": ("!dies",), "c": ("#1",)})
    assert made.ask("a", range(1, 3)) == ["failed: no luck"] * 2
    assert made.ask("b", ONE) == ["died"]
    assert made.ask("c#2", ONE) == ["passed, and did not ask for this workload"]


@pytest.mark.parametrize("changed", [{"nodeid": "f.py::late"}, {"settings": Settings(root=Path(), timed_steps=7)}])
def test_what_is_known_of_a_test_only_as_it_runs_is_timed_alone(changed):
    """The fixture by `getfixturevalue`, or a marker that a fixture adds: no round was planned with that."""
    made = Scripted({"a": PLAIN, "b": PLAIN})
    made.does["f.py::late"] = PLAIN
    facts = {"nodeid": "f.py::a", "settings": made.settings["a"], **changed}
    item = SimpleNamespace(nodeid=facts["nodeid"])
    found = made.time(item, facts["nodeid"], facts["settings"], number=1, limit_s=1.0)
    assert found.workload == facts["nodeid"]
    assert made.ran == [f"1: {item.nodeid.removeprefix('f.py::')}"]
