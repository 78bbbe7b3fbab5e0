"""A verdict that was given counts, whatever the test or a hook does after it; and a run that stopped before its gate is red.

Each row is a way in which a red gate could end green. The replay of an empty directory is a red verdict (INVALID) that costs
nothing; one with an xfail marker is known, so that a run has measured something and nothing else is red.
"""

from __future__ import annotations

import pytest

from tests.plugin.conftest import RECORDINGS, Project, Run

pytestmark = pytest.mark.slow

# -- what a test does after its verdict ---------------------------------------------------------------------------------

HEAD = """
import os
import signal
import sys
import threading
import unittest

import pytest

@pytest.fixture(scope="module")
def at_the_end():
    calls = []
    yield calls.append
    for call in calls:
        with pytest.raises(BaseException):
            call()

@pytest.fixture
def catching(perfguard, tmp_path):
    try:
        perfguard.replay(tmp_path)
    except BaseException:
        pytest.skip("in a fixture")

class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def guard(self, perfguard, tmp_path):
        self.replay = lambda: perfguard.replay(tmp_path)

    def test_skips(self):
        try:
            self.replay()
        except BaseException:
            self.skipTest("not today")

def test_in_a_fixture(catching):
    pass

def test_fixture_by_its_name(request, tmp_path):
    try:
        request.getfixturevalue("perfguard").replay(tmp_path)
    except BaseException:
        pytest.skip("not today")

@pytest.mark.xfail(False, reason="elsewhere")
def test_marker_for_elsewhere(perfguard, tmp_path):
    try:
        perfguard.replay(tmp_path)
    except BaseException:
        pytest.skip("not today")

@pytest.mark.xfail(raises=ValueError)
def test_marker_for_another_error(perfguard, tmp_path):
    try:
        perfguard.replay(tmp_path)
    except BaseException:
        pytest.skip("not today")
"""

#: The body of a test, and what the summary says of it: all are tests that pytest does not report as failed.
SWALLOWED = {
    "skips": ("try: replay()\nexcept BaseException: pytest.skip('x')", "skipped after an INVALID verdict"),
    "skips_finally": ("try: replay()\nfinally: pytest.skip('x')", "skipped after an INVALID verdict"),
    "xfails_finally": ("try: replay()\nfinally: pytest.xfail('x')", "xfailed after an INVALID verdict"),
    "raises_skip_test": (
        "try: replay()\nexcept BaseException: raise unittest.SkipTest('x')",
        "skipped after an INVALID verdict",
    ),
    "adds_a_marker": (
        "try: replay()\nfinally: request.node.add_marker(pytest.mark.xfail)",
        "xfailed after an INVALID verdict",
    ),
    "adds_a_marker_before_the_next": (
        "with pytest.raises(BaseException): replay()\nrequest.node.add_marker(pytest.mark.xfail)\nreplay(name='b')",
        "xfailed after an INVALID verdict",
    ),
    "in_a_loop": (
        "for name in 'ab':\n    try: replay(name=name)\n    except BaseException: continue\npytest.skip('x')",
        "skipped after an INVALID verdict",
    ),
    "in_a_thread": (
        "thread = threading.Thread(target=lambda: pytest.raises(BaseException, replay))\n"
        "thread.start(); thread.join(); pytest.skip('x')",
        "skipped after an INVALID verdict",
    ),
    "in_a_finalizer": (
        "request.addfinalizer(lambda: pytest.raises(BaseException, replay)); pytest.skip('x')",
        "skipped after an INVALID verdict",
    ),
    "after_its_end": ("at_the_end(replay); pytest.skip('x')", "skipped after an INVALID verdict"),
    "forgets_it": (
        "try: replay()\nexcept BaseException: perfguard.verdicts.clear(); pytest.skip('x')",
        "skipped after an INVALID verdict",
    ),
    "an_error": (
        "try: perfguard.replay('no/such/place')\nexcept BaseException: pytest.skip('x')",
        "skipped after an error of perfguard: no/such/place does not exist; name a directory that a profiler wrote",
    ),
    "forks": (
        "with pytest.raises(BaseException): replay()\nif not os.fork(): os._exit(0)\npytest.skip('x')",
        "skipped after an INVALID verdict",
    ),
}
OTHERS = (
    "TestCase::test_skips",
    "test_in_a_fixture",
    "test_fixture_by_its_name",
    "test_marker_for_elsewhere",
    "test_marker_for_another_error",
)


def test_function(name: str, body: str) -> str:
    lines = ["replay = lambda **how: perfguard.replay(tmp_path, **how)", *body.split("\n")]
    return f"\ndef test_{name}(perfguard, tmp_path, request, at_the_end):\n" + "".join(
        f"    {line}\n" for line in lines
    )


test_function.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture(scope="module", params=[(), ("-n1", "--perfguard-time=off")], ids=["one process", "xdist"])
def swallowed(request, module_project) -> tuple[Run, Project]:
    if request.param:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed: pip install -e '.[test]'")
    project: Project = module_project("swallowing")
    project.write("test_s.py", HEAD + "".join(test_function(name, body) for name, (body, _) in SWALLOWED.items()))
    files = ("--perfguard-report=report.json", "--junitxml=junit.xml")
    run = project.run("--perfguard", "-p", "no:rerunfailures", "-rN", *files, *request.param)
    return run, project


@pytest.fixture(scope="module")
def swallowing(swallowed) -> Run:
    return swallowed[0]


@pytest.mark.parametrize("name", SWALLOWED)
def test_the_summary_says_what_a_test_did_after_its_verdict(swallowing, name):
    assert swallowing.line(f"test_s.py::test_{name}: ").startswith(f"test_s.py::test_{name}: {SWALLOWED[name][1]}")


@pytest.mark.parametrize("name", OTHERS)
def test_the_summary_names_tests_of_every_form(swallowing, name):
    assert swallowing.line(f"test_s.py::{name}: ") == f"test_s.py::{name}: skipped after an INVALID verdict"


def test_no_test_that_swallowed_its_verdict_leaves_the_run_green(swallowing):
    assert set(swallowing.counts) == {"skipped", "xfailed"}, swallowing.text
    assert swallowing.status == 1
    count = len(SWALLOWED) + len(OTHERS)
    assert f"the run fails: {count} red tests, and pytest's own status was 0: test_s.py::" in swallowing.out


def test_the_report_and_junit_keep_the_red_verdicts(swallowed):
    _, project = swallowed
    findings = project.findings()
    # The second forgot it before the report was made, the third was given it afterwards: xdist's controller sees neither.
    assert {f"test_s.py::test_{name}" for name in SWALLOWED} - {one.partition("#")[0] for one in findings} <= {
        "test_s.py::test_an_error",
        "test_s.py::test_forgets_it",
        "test_s.py::test_after_its_end",
    }
    assert {outcome for outcome, _ in findings.values()} == {"INVALID"}
    values = [one.get("value") for one in project.junit().iter("property") if "outcome" in (one.get("name") or "")]
    assert values == ["INVALID"] * len(values)
    assert len(values) >= len(SWALLOWED)


# -- what the user says with a marker -----------------------------------------------------------------------------------

MARKED = """
import unittest
import pytest

@pytest.mark.xfail
def test_xfail(perfguard, tmp_path):
    perfguard.replay(tmp_path)

@pytest.mark.xfail(strict=True, raises=pytest.fail.Exception)
def test_strict(perfguard, tmp_path):
    perfguard.replay(tmp_path)

@pytest.mark.xfail(run=False)
def test_not_run(perfguard, tmp_path):
    perfguard.replay(tmp_path)

def test_marked_before(perfguard, tmp_path, request):
    request.node.add_marker(pytest.mark.xfail)
    perfguard.replay(tmp_path)

@pytest.mark.skip
def test_skip(perfguard, tmp_path):
    perfguard.replay(tmp_path)

@pytest.mark.skipif(True, reason="here")
def test_skipif(perfguard, tmp_path):
    perfguard.replay(tmp_path)

@pytest.mark.skipif(False, reason="elsewhere")
def test_skips_itself(perfguard, tmp_path):
    pytest.skip("no GPU")

def test_taken_out(perfguard, tmp_path):
    perfguard.replay(tmp_path)

class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def guard(self, perfguard, tmp_path):
        self.replay = lambda: perfguard.replay(tmp_path)

    @unittest.expectedFailure
    def test_expected(self):
        self.replay()

    def test_skips_itself(self):
        self.skipTest("no GPU")
"""
TAKEN_OUT = "def pytest_collection_modifyitems(items): items[:] = [i for i in items if 'taken' not in i.name]\n"


@pytest.mark.parametrize("options", [(), ("-n1", "--perfguard-time=off")], ids=["one process", "xdist"])
@pytest.mark.variants(1)
def test_a_marker_is_the_users_word_and_is_counted(project, options):
    if options:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed: pip install -e '.[test]'")
    project.write("test_m.py", MARKED)
    project.write("conftest.py", TAKEN_OUT)
    run = project.run("--perfguard", *options)
    assert (run.status, run.counts) == (0, {"skipped": 4, "xfailed": 5}), run.text
    marked = {
        **dict.fromkeys(("test_xfail", "test_strict", "test_not_run", "test_marked_before"), "xfail"),
        **dict.fromkeys(("test_skip", "test_skipif"), "skip"),
        "TestCase::test_expected": "expectedFailure",
    }
    count, _, known = run.line("known, not gated").partition(" known, not gated: ")
    assert (count, set(known.split(", "))) == ("7", {f"test_m.py::{name} ({word})" for name, word in marked.items()})
    assert "1 taken out of the run by a hook, not gated: test_m.py::test_taken_out" in run.out
    # A fixture for all tests asks for nothing, so a TestCase that skips is no gate test.
    assert "4 not run (skipped or failed before measuring)" in run.out


# -- what a hook, or the end of the run, makes of it ---------------------------------------------------------------------

RED = "def test_gate(perfguard, tmp_path):\n    perfguard.replay(tmp_path)\n"
KNOWN = "@pytest.mark.xfail\ndef test_known(perfguard, tmp_path):\n    perfguard.replay(tmp_path)\n"
WRAPPER = "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
ONE_RED = "1 red test, and pytest's own status was 0: test_g.py::test_gate"
GATE = f"perfguard: the run fails: {ONE_RED}"
UNREACHED = "1 not reached: test_g.py::test_gate"
NO_SESSION = "ERROR: perfguard: the gate was asked for, and no test session ran with it"
STATUS_0 = "def pytest_sessionfinish(session): session.exitstatus = 0\n"

#: What a conftest.py holds, or what stands in the red test instead, and why the run fails.
TURNED = {
    # reports
    "makereport": (
        WRAPPER + "def pytest_runtest_makereport():\n    r = yield\n    r.outcome = 'passed'\n    return r",
        GATE,
    ),
    "makereport, skipped": (
        WRAPPER + "def pytest_runtest_makereport(call):\n    r = yield\n"
        "    if r.failed: r.outcome, r.longrepr = 'skipped', ('a', 1, 'b')\n    return r",
        GATE,
    ),
    "makereport, xfailed": (
        WRAPPER + "def pytest_runtest_makereport(call):\n    r = yield\n"
        "    if r.failed: r.outcome, r.wasxfail = 'skipped', 'x'\n    return r",
        GATE,
    ),
    "makereport, another report": (
        WRAPPER + "def pytest_runtest_makereport(item, call):\n    yield\n"
        "    return pytest.TestReport(item.nodeid, item.location, {}, 'passed', None, call.when)",
        GATE,
    ),
    "call": (WRAPPER + "def pytest_runtest_call(item):\n    try: yield\n    except BaseException: pass", GATE),
    # the exit status
    "sessionfinish": (STATUS_0, GATE),
    "sessionfinish, last": (f"@pytest.hookimpl(trylast=True)\n{STATUS_0}", GATE),
    "sessionfinish, outermost": (
        WRAPPER + "def pytest_sessionfinish(session):\n    yield\n    session.exitstatus = 0",
        GATE,
    ),
    "sessionfinish, sys.exit": ("@pytest.hookimpl(tryfirst=True)\ndef pytest_sessionfinish(): sys.exit(0)", GATE),
    "sessionfinish, pytest.exit": ("def pytest_sessionfinish(): pytest.exit('x', returncode=0)", GATE),
    "terminal summary": (
        "def pytest_terminal_summary(terminalreporter): terminalreporter._session.exitstatus = 0",
        GATE,
    ),
    "terminal summary, sys.exit": ("def pytest_terminal_summary(): sys.exit(0)", GATE),
    "unconfigure": (
        "def pytest_sessionstart(session): session.config.session = session\n"
        "def pytest_unconfigure(config): config.session.exitstatus = 0",
        GATE,
    ),
    "unconfigure, sys.exit": ("def pytest_unconfigure(): sys.exit(0)", GATE),
    "cleanup": (
        "def pytest_sessionstart(session): session.config.add_cleanup(lambda: setattr(session, 'exitstatus', 0))",
        GATE,
    ),
    "cmdline_main": ("@pytest.hookimpl(wrapper=True)\ndef pytest_cmdline_main():\n    yield\n    return 0", GATE),
    "cmdline_main, nothing": ("@pytest.hookimpl(wrapper=True)\ndef pytest_cmdline_main():\n    yield", GATE),
    # a test that ends the run
    "exit after the verdict": (
        "TEST: try: perfguard.replay(tmp_path)\n    except BaseException: pytest.exit('x', returncode=0)",
        GATE,
    ),
    "a status of which 8 bits are 0": (
        "TEST: try: perfguard.replay(tmp_path)\n    except BaseException: pytest.exit('x', returncode=256)",
        GATE,
    ),
    "exit before the gate": (
        "TEST: pytest.exit('no GPU', returncode=0)",
        f"perfguard: the run fails: the run ended early (no GPU), {UNREACHED}",
    ),
    "stopped before the gate": (
        f"{STATUS_0}def pytest_runtest_logfinish(): pytest.session.shouldstop = 'enough'\n"
        "def pytest_sessionstart(session): pytest.session = session",
        f"perfguard: the run fails: the run ended early (enough), {UNREACHED}",
    ),
    "failed before the gate": (
        f"{STATUS_0}def pytest_runtest_logfinish(): pytest.session.shouldfail = 'stopping after 1 failures'\n"
        "def pytest_sessionstart(session): pytest.session = session",
        f"perfguard: the run fails: the run ended early (stopping after 1 failures), {UNREACHED}",
    ),
    # hooks that leave the gate out
    "exit while collecting": (
        "def pytest_collection_finish(): pytest.exit('no GPU', returncode=0)",
        "perfguard: the run fails: nothing was measured, so nothing was gated; the run ended early (no GPU), "
        "2 not reached: test_g.py::test_known, test_g.py::test_gate",
    ),
    "a protocol that runs nothing": (
        "def pytest_runtest_protocol(item): return True if 'gate' in item.name else None",
        UNREACHED,
    ),
    "a protocol that lies": (
        "def pytest_runtest_protocol(item):\n    if 'gate' in item.name:\n"
        "        report = pytest.TestReport(item.nodeid, item.location, {}, 'passed', None, 'call')\n"
        "        item.ihook.pytest_runtest_logreport(report=report)\n        return True",
        UNREACHED,
    ),
    "items after collection": ("def pytest_collection_finish(session): del session.items[1:]", UNREACHED),
    "the gate is taken out": (
        "def pytest_collection(session): session.config.pluginmanager.unregister(name='perfguard-session')",
        NO_SESSION,
    ),
    "the option is taken back": ("def pytest_configure(config): config.option.perfguard = False", NO_SESSION),
    "cmdline_main, no run": ("def pytest_cmdline_main(): return 0", NO_SESSION),
    "exit while configuring": ("def pytest_configure(): pytest.exit('no GPU', returncode=0)", NO_SESSION),
    "sys.exit in a conftest.py": ("sys.exit(0)", NO_SESSION),
    "no terminal": (STATUS_0, GATE),
}
OPTIONS = {
    "no terminal": ["-p", "no:terminal"],
    **{f"--{name}": [f"--{name}"] for name in ("help", "version", "markers", "fixtures", "cache-show")},
}
#: What leaves a run green that holds no more than the known test, or that runs none.
GREEN = {
    "nobody stopped it": "",
    "exit after all": "def pytest_sessionfinish(): pytest.exit('x', returncode=0)",
    "a hook adds an xfail marker": (
        "def pytest_collection_modifyitems(items):\n    for item in items: item.add_marker(pytest.mark.xfail)"
    ),
    "--help": "",
    "--version": "",
    "--markers": "",
    "--fixtures": "",
    "--cache-show": "",
}


def write_case(project: Project, source: str, *, red: bool = True) -> None:
    conftest, _, body = source.partition("TEST: ")
    project.write("conftest.py", f"import sys\nimport pytest\n{conftest}\n")
    gate = f"def test_gate(perfguard, tmp_path, request):\n    {body}\n" if body else RED * red
    project.write("test_g.py", f"import pytest\n{KNOWN}{gate}")


@pytest.fixture(scope="module")
def turned(tmp_path_factory) -> dict[str, Run]:
    """What each case came to, with no plugin that has nothing to do with it."""
    directory = tmp_path_factory.mktemp("turned")
    quick = ("-p", "no:xdist", "-p", "no:rerunfailures", "-p", "no:hypothesispytest", "-p", "no:benchmark")
    runs = {}
    for name in (*TURNED, *GREEN):
        project = Project(directory / name)
        write_case(project, TURNED[name][0] if name in TURNED else GREEN[name], red=name in TURNED or "marker" in name)
        runs[name] = project.run("--perfguard", *quick, *OPTIONS.get(name, []))
    return runs


@pytest.mark.parametrize("way", TURNED)
def test_nothing_turns_a_red_gate_green(turned, way):
    run = turned[way]
    why = TURNED[way][1]
    assert run.status == (4 if why == NO_SESSION else 1), run.text
    # Without a terminal's plugin there is nothing to say it with.
    assert way == "no terminal" or f"{why}\n" in run.text


@pytest.mark.parametrize("way", GREEN)
def test_what_is_green_stays_green(turned, way):
    assert turned[way].status == 0, turned[way].text
    assert "the run fails" not in turned[way].text


def test_hooks_of_workers_and_the_controller_turn_nothing_green(project):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed: pip install -e '.[test]'")
    another_report, _ = TURNED["makereport, another report"]
    rewritten = "@pytest.hookimpl(tryfirst=True)\ndef pytest_runtest_logreport(report): report.outcome = 'passed'\n"
    write_case(project, f"{another_report}\n{rewritten}{STATUS_0}")
    run = project.run("--perfguard", "-n1", "--perfguard-time=off")
    assert (run.status, run.counts) == (1, {"passed": 2}), run.text
    assert "test_g.py::test_gate: passed after an INVALID verdict" in run.out
    assert run.line("the run fails").endswith(ONE_RED)


@pytest.mark.exhaustive
def test_a_worker_that_exits_with_status_0_is_red(project):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed: pip install -e '.[test]'")
    write_case(project, f"{STATUS_0}TEST: import os\n    os._exit(0)")
    run = project.run("--perfguard", "-n1", "--perfguard-time=off")
    assert (run.status, run.counts["failed"]) == (1, 1), run.text
    assert UNREACHED in run.line("the run fails")


def test_a_rerun_that_skips_itself_does_not_undo_the_verdict_before(project):
    pytest.importorskip("pytest_rerunfailures", reason="pytest-rerunfailures is not installed")
    write_case(project, "TEST: if request.node.execution_count > 1: pytest.skip('x')\n    perfguard.replay(tmp_path)")
    run = project.run("--perfguard", "--reruns=1")
    assert (run.status, run.counts) == (1, {"skipped": 1, "xfailed": 1, "rerun": 1}), run.text
    assert "test_g.py::test_gate: skipped after an INVALID verdict" in run.out


def test_ctrl_c_keeps_its_own_status(project):
    write_case(project, "TEST: raise KeyboardInterrupt")
    run = project.run("--perfguard")
    assert run.status == 2
    assert f"the run ended early (KeyboardInterrupt), {UNREACHED}" in run.out
    assert "the run fails" not in run.out


@pytest.mark.parametrize(
    "conftest, test",
    [
        ("@pytest.fixture\ndef perfguard(): return print", "def test_gate(perfguard): perfguard(print)"),
        ("", "@pytest.mark.parametrize('perfguard', [print])\ndef test_gate(perfguard): perfguard(print)"),
    ],
    ids=["a fixture of that name", "a parameter of that name"],
)
def test_what_hides_the_fixture_is_said(project, conftest, test):
    project.write("conftest.py", f"import pytest\n{conftest}\n")
    project.write("test_g.py", f"import pytest\n{test}\n")
    run = project.run("--perfguard")
    assert run.status == 1
    assert "another fixture or parameter `perfguard` hides perfguard's own: give it another name" in run.out


# -- plugins of pytest that are switched off -----------------------------------------------------------------------------

#: What a run says that has one red test and one that swallowed its verdict, by the plugins of pytest that it lacks.
WITHOUT = {
    "terminal": "perfguard: INVALID  test_w.py::test_red: A101 ",
    "skipping": "FAILED test_w.py::test_red - Failed: perfguard INVALID: A101 ",
    "terminal skipping capture logging warnings xdist benchmark junitxml rerunfailures": (
        "perfguard: INVALID  test_w.py::test_red: A101 "
    ),
    **dict.fromkeys(
        ("capture", "logging", "warnings", "junitxml", "xdist", "benchmark", "unittest", "assertion", "faulthandler"),
        "FAILED test_w.py::test_red - Failed: perfguard INVALID: A101 ",
    ),
}
SWALLOWS = """
import pytest

def test_swallows(perfguard, tmp_path):
    try:
        perfguard.replay(tmp_path)
    except BaseException:
        pytest.skip("not today")

@pytest.mark.xfail
def test_red(perfguard, tmp_path):
    perfguard.replay(tmp_path)
"""


@pytest.mark.parametrize("names", WITHOUT)
@pytest.mark.variants(2)
def test_a_plugin_that_is_switched_off_takes_nothing_from_the_gate(project, names):
    project.write("test_w.py", SWALLOWS if names == "skipping" else SWALLOWS.replace("@pytest.mark.xfail\n", ""))
    run = project.run("--perfguard", *(word for name in names.split() for word in ("-p", f"no:{name}")))
    assert run.status == 1
    assert "INTERNALERROR" not in run.text
    assert WITHOUT[names] in run.text
    assert "test_w.py::test_swallows: skipped after an INVALID verdict" in run.text


def test_without_a_terminal_the_reason_of_a_red_run_is_on_standard_error(project):
    project.write("test_w.py", SWALLOWS.partition("@pytest")[0])
    run = project.run("--perfguard", "-p", "no:terminal")
    assert run.status == 1
    why = "perfguard: the run fails: 1 red test, and pytest's own status was 0: test_w.py::test_swallows"
    assert why in run.err.splitlines()


# -- what runs in other processes, after the end, or not at all ------------------------------------------------------------

REPLAYS_RED = "    perfguard.replay(tmp_path)\n"
IN_A_CHILD = """
import os
import multiprocessing
import pytest

def measure(perfguard, place, status):
    try:
        perfguard.replay(place, name="child")
    finally:
        os._exit(status)

def test_forks(perfguard, tmp_path):
    if not (child := os.fork()):
        measure(perfguard, tmp_path, 0)
    os.waitpid(child, 0)
    pytest.skip("not today")

def test_multiprocessing(perfguard, tmp_path):
    context = multiprocessing.get_context("fork")
    process = context.Process(target=measure, args=(perfguard, tmp_path, 0))
    process.start()
    process.join()
    pytest.skip("not today")

@pytest.mark.xfail
def test_known(perfguard, tmp_path):
    if not (child := os.fork()):
        measure(perfguard, tmp_path, 0)
    os.waitpid(child, 0)
    perfguard.replay(tmp_path)
"""


@pytest.mark.parametrize("options", [(), ("-n1", "--perfguard-time=off")], ids=["one process", "xdist"])
@pytest.mark.variants(1)
def test_a_red_verdict_of_a_forked_child_counts(project, options):
    project.write("test_w.py", IN_A_CHILD)
    run = project.run("--perfguard", *options)
    assert (run.status, run.counts) == (1, {"skipped": 2, "xfailed": 1}), run.text
    for name in ("forks", "multiprocessing"):
        assert f"test_w.py::test_{name}: skipped after an INVALID verdict in a child process" in run.out
    assert "1 known, not gated: test_w.py::test_known (xfail)" in run.out


AFTER_THE_END = """
import atexit
import threading
import time
import pytest

@pytest.mark.xfail
def test_known(perfguard, tmp_path):
    perfguard.replay(tmp_path)

def test_later(perfguard, tmp_path):
    HOW(lambda: perfguard.replay(tmp_path))
    pytest.skip("not today")
"""


@pytest.mark.parametrize(
    "how",
    [
        "atexit.register",
        # A thread that is no daemon: Python waits for it after the end of pytest.
        "(lambda do: threading.Timer(4.0, do).start())",
    ],
    ids=["atexit", "thread"],
)
@pytest.mark.variants(1)
def test_a_red_verdict_after_the_end_of_the_run_ends_the_process_red(project, how):
    project.write("test_w.py", AFTER_THE_END.replace("HOW", how))
    run = project.run("--perfguard", env={"PYTHONHASHSEED": "0"})
    assert "1 skipped, 1 xfailed" in run.out
    assert run.status == 1, run.text
    why = "perfguard: the run fails: an INVALID verdict after its end: test_w.py::test_later"
    assert why in run.err.splitlines()


PASSES = f"    perfguard.replay({str(RECORDINGS / 'torch-mlp')!r})\n"
TWICE = {
    "functions": f"def test_a(perfguard, tmp_path):\n{REPLAYS_RED}def test_a(perfguard):\n{PASSES}",
    "the second uses it not": f"def test_a(perfguard, tmp_path):\n{REPLAYS_RED}def test_a(): pass\n",
    "the first through a fixture": f"def test_a(guarded): guarded()\ndef test_a(perfguard):\n{PASSES}",
    "by its marker": "@pytest.mark.perfguard(threads=1)\ndef test_a(guarded): guarded()\ndef test_a(): pass\n",
    "parametrized": f"def test_a(perfguard, tmp_path):\n{REPLAYS_RED}@pytest.mark.parametrize('x', [1])\ndef test_a(x): pass\n",
    "methods": "class TestIt:\n  def test_a(self, perfguard, tmp_path): perfguard.replay(tmp_path)\n"
    "  def test_a(self): pass\n",
    "classes": "class TestIt:\n  def test_a(self, perfguard, tmp_path): perfguard.replay(tmp_path)\n"
    "class TestIt:\n  def test_b(self): pass\n",
}
ONCE = f"""
import sys
import pytest

if sys.platform == "linux":
    def test_a(perfguard):
    {PASSES}
else:
    def test_a(perfguard):
    {PASSES}

class TestOne:
    def test_b(self): pass

class TestTwo:
    def test_b(self): pass

def helper(): pass
def helper(): pass
"""


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.variants(1)
def test_a_test_that_a_later_one_of_its_name_replaces_is_said(project, name):
    project.write("test_w.py", f"import pytest\n{TWICE[name]}")
    project.write("test_other.py", f"def test_other(perfguard):\n{PASSES}")
    assert project.run("--perfguard-update", "test_other.py").status == 0
    run = project.run("--perfguard-update")
    assert run.status == 1, run.text
    assert run.counts["failed"] == 1
    assert "B105 a test requested perfguard, but measured nothing: test_w.py::" in run.out
    assert "which never runs, because line " in run.out


def test_definitions_of_which_each_runs_or_no_test_is_one_are_not_said(project):
    project.write("test_w.py", ONCE)
    run = project.run("--perfguard-update")
    assert (run.status, run.counts) == (0, {"passed": 3}), run.text


WRITES = """
import json, os
from pathlib import Path

def test_a(perfguard):
    for path in Path("baselines").glob("*.json") if "WRITES" in os.environ else ():
        stored = json.loads(path.read_text())
        for one in stored["measurements"]:
            if isinstance(one["value"], (int, float)):
                one["value"] *= 2
        path.write_text(json.dumps(stored))
    perfguard.replay(RECORDING)
"""


def test_a_test_that_writes_its_own_baseline_is_not_compared_with_it(project):
    project.write("test_w.py", WRITES.replace("RECORDING", repr(str(RECORDINGS / "torch-mlp"))))
    assert project.run("--perfguard-update").status == 0
    assert project.run("--perfguard").status == 0
    run = project.run("--perfguard", env={"WRITES": "1"})
    assert run.status == 1
    assert (
        "the baseline of test_w.py::test_a was written while this run judged, so nothing is compared with it" in run.out
    )
