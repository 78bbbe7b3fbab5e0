"""Timed processes: real ones, of real tests, started by a real pytest."""

from __future__ import annotations

import json
import os
import re

import pytest

from perfguard.judge.calibration import Calibrated, ErrorRate
from perfguard.judge.step_time import StepTime, three_digits
from perfguard.plugin import controlled
from perfguard.reports import RunReport
from perfguard.reports.document import verdict_document
from perfguard.reports.page import page_html
from perfguard.reports.page.figures import figures_of
from perfguard.reports.reading import read_report
from perfguard.stores.calibration import Calibration, write_calibration
from tests.cli import run as perfguard
from tests.plugin.conftest import WRITTEN_HEAD

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

SETTINGS = """
[tool.pytest.ini_options]
addopts = "-p no:randomly"
"""

#: One step is a product of two matrices, as often as FACTOR says; in a timed process it sleeps SLEEP seconds, and keeps KEPT
#: bytes for good. A suspect is timed in as many processes as the product has it, or in MOST_RUNS; a window is a tenth of a
#: second.
MODEL = """
import logging
# The suite makes a machine busy, and a machine changes its speed; what follows from that has tests of its own.
thresholds.BUSY_SHARE, thresholds.CALIBRATION_MOVED = 1.0, 10.0
thresholds.WINDOW_S, thresholds.WARMUP_S = 0.1, 0.05
thresholds.MOST_RUNS = int(os.environ.get("MOST_RUNS", thresholds.MOST_RUNS))
kept = []
IN_A_PROCESS = "PERFGUARD_CONTROLLED" in os.environ

def product():
    # Only the timed process is slower: the profiled one has the operators it always had.
    for _ in range(int(os.environ.get("FACTOR", "1")) if IN_A_PROCESS else 1):
        multiply()
    if IN_A_PROCESS:
        time.sleep(float(os.environ.get("SLEEP", "0")))
        kept.append(bytes(int(os.environ.get("KEPT", "0"))))

def test_callable(perfguard):
    perfguard(product)
"""

#: The steps under a backend that starts no framework, and under torch's.
WRITTEN_STEPS = (
    WRITTEN_HEAD
    + """
x = np.ones((128, 128), np.float32)
pytestmark = pytest.mark.perfguard(backend="written", timed_steps=5, window=window)

def multiply():
    x @ x
"""
    + MODEL
)
TORCH_STEPS = (
    """
import os
import time
import pytest
import torch
import perfguard as pg
from perfguard import thresholds

pytestmark = pytest.mark.perfguard(backend="torch", timed_steps=5, window=pg.StepWindow(skip_first=1, warmup=1, active=2))
x = torch.ones(128, 128)

def multiply():
    torch.mm(x, x)
"""
    + MODEL
)


@pytest.fixture(scope="module")
def gated(module_project):
    """A project whose one test has a baseline of five processes."""
    project = module_project("controlled")
    project.write("pyproject.toml", SETTINGS)
    project.written()
    project.write("test_a.py", WRITTEN_STEPS)
    run = project.run("--perfguard-update", "--perfguard-report=created.json")
    assert run.status == 0, run.text
    return project


def costs(project, report):
    (one,) = project.report(report)["workloads"]
    return next((m.get("samples") for m in one["measurements"] if m["metric"] == "step_cost"), None)


def test_a_baseline_is_measured_in_five_processes(gated):
    (path,) = (gated.directory / "baselines").glob("test_a*.json")
    stored = json.loads(path.read_text())
    assert stored["runs"] == 5
    (cost,) = [m for m in stored["measurements"] if m["metric"] == "step_cost"]
    assert len(cost["samples"]) == 5
    assert cost["value"] == min(cost["samples"]) > 0


def test_each_process_was_controlled_and_says_how(gated):
    (one,) = gated.report("created.json")["workloads"]
    for timing in one["timings"]:
        assert len(timing["cpus"]) == (1 if hasattr(os, "sched_setaffinity") else 0)
        assert timing["threads"] == 1
        assert 5 <= len(timing["wall_ns"]) <= 300
        assert len(timing["calibration_ns"]) == len(timing["process_cpu_ns"]) == len(timing["thread_cpu_ns"])
        assert timing["notes"] == []
    assert len({tuple(timing["wall_ns"]) for timing in one["timings"]}) == 5


@pytest.mark.exhaustive
def test_what_is_unchanged_is_judged_by_as_many_processes_as_it_takes(gated):
    (one,) = gated.report("created.json")["workloads"]
    machine = tuple(one["environment"][key] for key in ("cpu_model", "cpu_count", "device_name"))
    rate = ErrorRate(alarms=0, comparisons=132, independent=2, at_most=0.7764, smallest_slowdown=0.17)
    of_cost = Calibrated(metric="step_cost", runs=20, tolerance=0.1, alarms=0, comparisons=132, independent=2)
    found = Calibration(runs=20, machine=machine, workloads={"test_a.py::test_callable": (of_cost,)}, error_rate=rate)
    write_calibration(found, gated.directory / "baselines")
    run = gated.run("--perfguard", "--perfguard-report=same.json")
    assert rate.sentence in run.out
    assert "baselines: baselines (1)" in run.out
    samples = costs(gated, "same.json")
    # One is enough on a quiet machine; where all five were slow, the verdict says so of each.
    assert 1 <= len(samples) <= 5
    assert (run.status == 0) or "in all of 5 fresh processes" in run.text


@pytest.fixture(scope="module")
def slower(gated):
    """A run whose step costs five times as much, with every form of its report."""
    files = ("--perfguard-report=slow.json", "--perfguard-markdown=slow.md", "--perfguard-metrics=slow.txt")
    return gated.run("--perfguard", *files, "--junitxml=slow.xml", env={"FACTOR": "5", "COLUMNS": "200"})


def test_a_step_that_got_five_times_slower_fails_after_five_processes(gated, slower):
    assert slower.counts == {"failed": 1}
    outcome, codes = gated.findings("slow.json")["test_a.py::test_callable"]
    assert (outcome, codes) == ("FAILED", ["R101"])
    assert len(costs(gated, "slow.json")) == 5
    assert "(allowed +10.0 %), worse in all of 5 fresh processes" in slower.text


def test_every_form_of_a_report_has_the_same_time_and_the_same_change(gated, slower, monkeypatch):
    """One time of a step, one change: a reader of any two reports of a run finds the same numbers in both."""
    (one,) = gated.report("slow.json")["workloads"]
    step = one["step"]
    before, now, change = step["step_baseline_ms"], step["step_ms"], step["step_change_percent"]
    assert (step["judged"], step["source"]) == (True, "5 fresh processes")
    # Who divides them gets the percentage, as far as the digits that are shown go.
    assert 100 * (now / before - 1) == pytest.approx(change, rel=0.02)
    # The time is the one that was measured.
    measured = next(m["value"] for m in one["measurements"] if m["metric"] == "run_wall_time")
    assert now == pytest.approx(measured / 1e3, rel=0.005)

    of_step = StepTime(now_ms=now, change=now / before - 1, judged=True, metric="", source="")
    times, percentage = of_step.times_ms, f"+{change:.1f} %"
    # The first line of the failure, and with it pytest's short summary; the row of the summary.
    assert f"perfguard FAILED: R101 step {of_step.times}, {percentage} (allowed +10.0 %)" in slower.out
    assert re.search(
        rf"FAILED +test_a.py::test_callable +{re.escape(times)} +{re.escape(percentage)} +1$", slower.out, re.M
    )
    markdown = (gated.directory / "slow.md").read_text()
    assert f"A step became slower: {of_step.times} (+{change:.1f} %)." in markdown.replace("&#45;", "-")
    assert f"| {times} | {percentage} |" in markdown
    metrics = dict(
        re.findall(r"^perfguard_(step\w*)\{[^}]*\} (\S+)$", (gated.directory / "slow.txt").read_text(), re.M)
    )
    properties = dict(
        re.findall(r'name="perfguard\.(step\w*)" value="([^"]*)"', (gated.directory / "slow.xml").read_text())
    )
    expected = {"step_baseline_ms": before, "step_ms": now, "step_change_percent": change}
    for found in (metrics, properties):
        assert {name: float(found[name]) for name in expected} == expected
    assert set(properties) == {*expected, "steps"}
    # Nobody is told that the same step rose by another percentage, nor a number without a meaning. What fell is another
    # number: on a machine that is less busy than it was for the baseline, a step waits less.
    shown = slower.out + markdown.partition("<details>")[0]
    assert set(re.findall(r"\+\d+\.\d %", shown)) <= {percentage, "+10.0 %"}
    assert "units" not in slower.text + markdown

    pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install -e '.[history]'")
    monkeypatch.chdir(gated.directory)
    monkeypatch.setenv("PERFGUARD_HISTORY", "history.db")
    monkeypatch.setenv("COLUMNS", "1000")
    for arguments in (["add", "slow.json"], ["show", "1"], ["trend"]):
        done = perfguard("history", *arguments)
        assert done.exit_code in (0, 1), done.output
        if arguments[0] == "show":
            assert re.search(rf"test_callable +{re.escape(three_digits(now))} +{re.escape(percentage)} ", done.stdout)
        elif arguments[0] == "trend":
            assert re.search(rf"step +1 +\S+ +{re.escape(three_digits(now))} +ms ", done.stdout)


def test_a_page_has_the_same_time_and_the_same_change(gated, slower):
    pytest.importorskip("jinja2", reason="Jinja2 is not installed: pip install -e '.[html]'")
    (verdict,) = read_report(gated.directory / "slow.json")
    step = verdict_document(verdict)["step"]
    assert step == gated.report("slow.json")["workloads"][0]["step"]
    page = page_html(RunReport(verdicts=(verdict,)))
    before, now, change = step["step_baseline_ms"], step["step_ms"], step["step_change_percent"]
    times = StepTime(now_ms=now, change=now / before - 1, judged=True, metric="", source="").times
    headline = f">A step became slower: {times} (+{change:.1f} %)."
    assert re.sub(" (?=ms|us|%)", "\N{NO-BREAK SPACE}", headline) in page
    (cost,) = [one for one in figures_of(verdict) if one.kind == "cost"]
    assert cost.caption.startswith(f"{times}, +{change:.1f} %;")


@pytest.mark.exhaustive
def test_a_step_that_waits_and_one_that_leaks_fail(gated):
    """The cost is CPU time, and sees neither."""
    waits = {"SLEEP": "0.005", "KEPT": "65536", "MOST_RUNS": "3"}
    run = gated.run("--perfguard", "--perfguard-report=stalled.json", env=waits)
    assert run.counts == {"failed": 1}
    (one,) = gated.report("stalled.json")["workloads"]
    failed = {found["place"] for found in one["findings"] if found["severity"] == "error"}
    assert {"run_blocked_time", "host_memory_growth_bytes"} <= failed
    said = {found["place"]: found["message"] for found in one["findings"]}
    assert "(possible causes: sleep, I/O, lock, data loader)" in said["run_blocked_time"]
    assert "fresh processes (the host leaks memory)" in run.text


def test_without_time_no_process_is_started(gated):
    # Of another tolerance, the calibration says nothing of this run.
    path = gated.directory / "baselines" / "calibration.json"
    if path.exists():
        path.write_text(path.read_text().replace('"tolerance": 0.1', '"tolerance": 0.2'))
    run = gated.run("--perfguard", "--perfguard-time=off", "--perfguard-report=off.json", env={"FACTOR": "5"})
    assert "this gate:" not in run.out
    assert run.status == 0
    assert costs(gated, "off.json") is None


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (("--perfguard-runs=0",), ""),
        (("--perfguard-runs=0", "--perfguard-ratchet"), ""),
        # What was recorded once has no steps that a process can run.
        ((), "perfguard.replay(next(Path('kept').iterdir()))"),
    ],
    ids=["judged", "ratcheted", "replayed"],
)
@pytest.mark.variants(1)
def test_a_baseline_of_processes_is_not_compared_with_a_run_without_them(gated, tmp_path, options, body):
    project = gated.copy(tmp_path / "copy")
    if body:
        project.run("--perfguard", "--perfguard-runs=0", "--perfguard-recordings=kept")
        steps = WRITTEN_STEPS.replace("    perfguard(product)\n", f"    {body}\n")
        project.write("test_a.py", f"from pathlib import Path\n{steps}")
    run = project.run("--perfguard", "--perfguard-report=untimed.json", *options)
    assert run.counts == {"failed": 1}, run.text
    outcome, codes = project.findings("untimed.json")["test_a.py::test_callable"]
    assert (outcome, set(codes)) == ("INCONCLUSIVE", {"B108"})
    assert "B108 time was shown, but not judged: step_cost was " in run.out
    assert "leave out --perfguard-runs 0" in run.out


#: How the processes end, one after the other, and what is said of each.
ENDINGS = {
    "os.kill(os.getpid(), 9)": "was ended by SIGKILL, which the system sends when memory runs out",
    "os._exit(3)": "ended with status 3 and timed nothing",
    "raise ValueError('no luck')": "failed and timed nothing: ValueError: no luck",
    "time.sleep(600)": "was ended after ",
}


@pytest.mark.exhaustive
def test_processes_that_are_lost_are_told_and_nothing_is_green(gated, tmp_path):
    project = gated.copy(tmp_path / "copy")
    # Long before the two minutes and more that a process is given: forty seconds, and what this run took to its test.
    limits = "thresholds.LEAST_TIMEOUT_S, thresholds.TIMEOUT_FACTOR = 40.0, 0.0"
    project.write("conftest.py", f"from perfguard import thresholds\n{limits}\n")
    lines = ["    if IN_A_PROCESS:", "        with open('seen', 'a') as seen:", "            print(file=seen)"]
    lines += ["        number = len(open('seen').read())"]
    # The first of them ends a shared process, so the test is timed again alone.
    for number, how in enumerate((next(iter(ENDINGS)), *ENDINGS), start=1):
        lines += [f"        if number == {number}:", f"            {how}"]
    project.write(
        "test_a.py",
        WRITTEN_STEPS.replace("    perfguard(product)\n", "\n".join([*lines, "    perfguard(product)", ""])),
    )
    run = project.run("--perfguard", "--perfguard-report=lost.json", env={"MOST_RUNS": str(len(ENDINGS))})
    assert run.counts == {"failed": 1}
    outcome, codes = project.findings("lost.json")["test_a.py::test_callable"]
    assert (outcome, codes) == ("INCONCLUSIVE", ["B108"])
    (one,) = project.report("lost.json")["workloads"]
    assert [lost["number"] for lost in one["lost_runs"]] == [1, 2, 3, 4]
    for lost, said in zip(one["lost_runs"], ENDINGS.values(), strict=True):
        assert said in lost["reason"]


@pytest.mark.exhaustive
def test_a_process_runs_its_tests_as_the_run_was_asked_to(module_project):
    """And a loop that is long enough for the gate is long enough to be timed, even if it spares no batch.

    One batch settles, five are timed and three profiled: the timed process has the same nine.
    """
    project = module_project("options")
    project.write("pyproject.toml", SETTINGS + "[tool.perfguard]\nruns = 1\n")
    project.write(
        "conftest.py",
        "import pytest\n"
        "def pytest_addoption(parser):\n    parser.addoption('--size', type=int, default=0)\n"
        "@pytest.fixture\ndef size(request):\n    return request.config.getoption('--size')\n",
    )
    project.write(
        "deep/test_b.py",
        TORCH_STEPS
        + """
class TestIn:
    @pytest.mark.parametrize("name", ["a/b", "x::y"])
    def test_form(self, perfguard, size, name, tmp_path):
        assert size == 3
        with open("seen", "a") as seen:
            print(name, IN_A_PROCESS, file=seen)
        assert not (IN_A_PROCESS and {"COV_CORE_SOURCE", "COVERAGE_PROCESS_START"} & set(os.environ))
        logging.getLogger().info("of the run: %s", name)
        perfguard(product, name="first")
        for _ in perfguard.steps(range(40), name="second"):
            product()

def test_short(perfguard):
    for _ in perfguard.steps(range(9)):
        product()

def test_not_asked(perfguard):
    raise AssertionError("it was deselected")
""",
    )
    run = project.run(
        *(
            "--perfguard-update",
            "--size=3",
            "-k",
            "form or short",
            "--junitxml=junit.xml",
            "-x",
            "--perfguard-report=r.json",
        ),
        *("--log-file=run.log", "--log-file-level=INFO", "deep"),
        env={"COV_CORE_SOURCE": ".", "COVERAGE_PROCESS_START": "none"},
    )
    assert run.counts == {"passed": 3, "deselected": 2}, run.text
    found = {one["workload"]: one for one in project.report("r.json")["workloads"]}
    assert len(found) == 5
    for name, one in found.items():
        assert one["lost_runs"] == [], name
        (timing,) = one["timings"]
        assert timing["workload"] == name
        assert len(timing["wall_ns"]) >= 5
        # The long loop has batches for ten steps to warm up and some thirty more.
        assert timing["notes"] == [] or name.endswith("second")
    seen = (project.directory / "seen").read_text().splitlines()
    assert sorted(seen) == sorted(f"{name} {where}" for name in ("a/b", "x::y") for where in (False, True))
    # The report and the log of the run are the run's own.
    assert (project.directory / "run.log").read_text().count("of the run: ") == 2
    assert project.junit().get("tests") == "3"


@pytest.mark.parametrize(
    "longrepr, said",
    [
        (("t.py", 3, "Skipped: no torch"), "Skipped: no torch"),
        ("E   ImportError: a\nE   ModuleNotFoundError: b\n", "ModuleNotFoundError: b"),
        ("first\nlast", "last"),
        (None, ""),
    ],
)
def test_the_line_of_a_failure_that_says_what_it_was(longrepr, said):
    assert controlled._last_line(longrepr) == said


#: Says in the process and in the run what the garbage collector does as a test runs.
COLLECTOR = """
import gc
from pathlib import Path

{}

@pytest.fixture(autouse=True)
def told(request):
    text = f"{{request.node.name}} {{gc.get_threshold()}} {{gc.isenabled()}}\\n"
    with open(Path(__file__).with_suffix(".controlled" if IN_A_PROCESS else ".run"), "a") as file:
        file.write(text)
"""


def test_the_garbage_collector_of_a_test_is_the_users_own(project):
    project.written()
    for name, own in (("as_ever", ""), ("rare", "gc.set_threshold(5000, 7, 8)"), ("off", "gc.disable()")):
        project.write(f"test_{name}.py", WRITTEN_STEPS + COLLECTOR.format(own))
        run = project.run("--perfguard-update", "--perfguard-runs=1", f"test_{name}.py")
        assert run.status == 0, run.text
        told = [(project.directory / f"test_{name}{end}").read_text() for end in (".controlled", ".run")]
        assert told[0] == told[1]
