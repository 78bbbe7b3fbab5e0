"""What a test gets as `perfguard`, with the gate and without it: what it carries, and what it says to a wrong call."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import RECORDINGS, TORCH_HEAD

pytestmark = pytest.mark.slow

COROUTINE = (
    "your step is a coroutine (async def), and calling it runs none of its code. In a plain `def` test write: "
    "loop = asyncio.new_event_loop(); perfguard(lambda: loop.run_until_complete(step()))"
)
INSTEAD = "needs a function, one step without arguments; write perfguard(lambda: model(x)), not perfguard(model(x))."

HEAD = (
    TORCH_HEAD
    + """
import asyncio
import functools

model = torch.nn.Linear(4, 300)

async def step(size=1):
    matmul()

class Callable:
    async def __call__(self):
        pass

class Later:
    def __await__(self):
        yield

async def batches():
    yield 1

"""
)

#: What a test does with the guard, and the sentence it fails with.
WRONG = {
    "a_coroutine_function": ("perfguard(step)", COROUTINE),
    "a_part_of_one": ("perfguard(functools.partial(step, 2))", COROUTINE),
    "an_object_with_one": ("perfguard(Callable())", COROUTINE),
    "an_async_generator": ("perfguard(batches)", COROUTINE),
    "a_function_that_returns_one": ("perfguard(lambda: step())", COROUTINE),
    "a_coroutine": ("perfguard(step())", COROUTINE),
    "something_to_await": (
        "perfguard(lambda: Later())",
        "your step returns a Later, which must be awaited: the step has not run when it returns. Wait for it inside the step.",
    ),
    "a_tensor": ("perfguard(model(x))", f"perfguard(...) was given a Tensor of shape (4, 300) and {INSTEAD}"),
    "nothing": ("perfguard(matmul())", f"perfguard(...) was given None and {INSTEAD}"),
    "a_number": ("perfguard(0.5)", f"perfguard(...) was given 0.5 and {INSTEAD}"),
    "a_list": ("perfguard([model(x)] * 99)", f"perfguard(...) was given a list and {INSTEAD}"),
    "a_command_that_is_text": (
        "perfguard.script('python train.py')",
        "perfguard.script('python train.py') takes a list",
    ),
}
#: The same, with what only the gate looks at.
WRONG_MARKERS = {
    "windw=3": "@pytest.mark.perfguard(...): windw is not a known key; did you mean 'window'?",
    "timed_steps=0": "@pytest.mark.perfguard(...): timed_steps must be an integer of at least 1, got 0.",
}


#: What is right, and looks at its guard.
RIGHT = """
def test_right(perfguard):
    assert perfguard.StepWindow is pg.StepWindow
    assert perfguard.StepWindow.from_start_stop(3, 5).active == 3
    with open("guards", "a") as told:
        print(type(perfguard).__name__, file=told)
    perfguard(matmul)
"""


@pytest.fixture(scope="module")
def wrong(module_project):
    project = module_project("guard")
    source = "\n".join(f"def test_{name}(perfguard):\n    {call}\n" for name, (call, _) in WRONG.items())
    markers = "\n".join(
        f"@pytest.mark.perfguard({marker})\n@pytest.mark.filterwarnings('error')\n"
        f"def test_marker_{number}(perfguard):\n    perfguard(matmul)\n"
        for number, marker in enumerate(WRONG_MARKERS)
    )
    written = project.write("test_w.py", f"{HEAD}{source}\n{markers}\n{RIGHT}")
    lines = written.read_text().splitlines()

    def line_of(start: str) -> int:
        (number,) = [number for number, line in enumerate(lines, 1) if line.startswith(start)]
        return number

    runs = {
        mode: project.run(*options, "-W", "error")
        for mode, options in (("plain", ()), ("gate", ("--perfguard-update",)))
    }
    return runs, line_of, project


@pytest.mark.parametrize("mode", ["plain", "gate"])
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.variants(4)
def test_a_wrong_call_is_one_sentence_with_file_and_line(wrong, mode, name):
    runs, line_of, _ = wrong
    said = runs[mode].line(f"FAILED test_w.py::test_{name} - ").partition(" - ")[2]
    assert said.startswith(f"Failed: perfguard: test_w.py:{line_of(f'def test_{name}(')}: {WRONG[name][1]}")


@pytest.mark.parametrize("number", range(len(WRONG_MARKERS)))
def test_a_wrong_marker_is_one_sentence_with_file_and_line(wrong, number):
    runs, line_of, _ = wrong
    marker, sentence = list(WRONG_MARKERS.items())[number]
    place = f"test_w.py:{line_of(f'@pytest.mark.perfguard({marker})')}"
    said = runs["gate"].line(f"FAILED test_w.py::test_marker_{number} - ").partition(" - ")[2]
    assert said == f"Failed: perfguard: {place}: {sentence}"


def test_no_tensor_is_printed_and_no_coroutine_is_left_behind(wrong):
    runs, _, _ = wrong
    for run in runs.values():
        assert "tensor(" not in run.text
        assert "never awaited" not in run.text
    assert runs["plain"].counts == {"failed": len(WRONG), "passed": 1 + len(WRONG_MARKERS)}
    assert runs["gate"].counts == {"failed": len(WRONG) + len(WRONG_MARKERS), "passed": 1}


@pytest.mark.exhaustive
def test_every_guard_carries_the_window(wrong):
    _, _, project = wrong
    again = project.run("--perfguard-update", "--perfguard-runs=1", "-k", "right")
    assert again.counts["passed"] == 1, again.text
    guards = (project.directory / "guards").read_text().split()
    assert guards == ["PlainGuard", "GateGuard", "GateGuard", "ControlledGuard"]


# -- which tests are gate tests ------------------------------------------------------------------------------------------

CONFTEST = """
import pytest

@pytest.fixture(autouse=True)
def guarded(perfguard, request):
    if request.instance is not None:
        request.instance.perfguard = perfguard

@pytest.fixture
def measure(perfguard):
    return perfguard
"""
TESTS = f"""
import unittest
import pytest

pytestmark = pytest.mark.perfguard(timed_steps=3)
REPLAY = {str(RECORDINGS / "torch-mlp")!r}

def test_of_something_else():
    import sys
    assert "written" not in sys.modules

def test_measures(perfguard):
    perfguard.replay(REPLAY)

class TestOfUnittest(unittest.TestCase):
    def test_of_something_else(self):
        pass
"""
FORGET = """
def test_names_the_fixture(perfguard):
    pass

def test_names_a_fixture_that_names_it(measure):
    pass

@pytest.mark.usefixtures("perfguard")
def test_uses_the_fixture():
    pass

@pytest.mark.perfguard(timed_steps=3)
def test_has_a_marker_of_its_own():
    pass

def test_makes_a_loop_it_never_runs(request):
    request.getfixturevalue("perfguard").steps([1])

@pytest.mark.perfguard(timed_steps=3)
class TestWithMarker(unittest.TestCase):
    def test_forgets(self):
        pass
"""


def test_a_test_that_does_not_ask_for_perfguard_is_no_gate_test(project):
    project.settings('backend = "written"')
    project.written()
    project.write("test_a.py", TESTS)
    stored = project.run("--perfguard-update", "--perfguard-report=report.json")
    assert (stored.status, stored.counts) == (0, {"passed": 3}), stored.text
    assert project.report()["summary"]["not_run"] == []
    assert "not run" not in stored.out


@pytest.mark.exhaustive
def test_a_fixture_for_all_makes_no_gate_test_and_a_test_of_unittest_can_measure_through_it(project):
    project.settings('backend = "written"')
    project.written()
    project.write("conftest.py", CONFTEST)
    project.write("test_a.py", f"{TESTS}    def test_measures(self):\n        self.perfguard.replay(REPLAY)\n")
    stored = project.run("--perfguard-update")
    assert (stored.status, stored.counts) == (0, {"passed": 4}), stored.text
    assert project.workloads == ["test_a.py::TestOfUnittest::test_measures", "test_a.py::test_measures"]
    judged = project.run("--perfguard", "--perfguard-report=report.json")
    assert (judged.status, judged.counts) == (0, {"passed": 4}), judged.text
    assert project.report()["summary"]["not_run"] == []
    assert "not run" not in judged.out


def test_a_test_that_asks_for_perfguard_and_measures_nothing_fails(project):
    project.write("conftest.py", CONFTEST.replace("autouse=True", ""))
    project.write("test_a.py", TESTS + FORGET)
    run = project.run("--perfguard-update")
    forget = {
        "test_names_the_fixture": "call perfguard(step), or loop over perfguard.steps(loader) to its end.",
        "test_names_a_fixture_that_names_it": "call perfguard(step), or loop over perfguard.steps(loader) to its end.",
        "test_uses_the_fixture": "call perfguard(step), or loop over perfguard.steps(loader) to its end.",
        "test_has_a_marker_of_its_own": "it has the marker, and not the fixture: add the argument `perfguard`.",
        "test_makes_a_loop_it_never_runs": "perfguard.steps(loader) was never looped over, or a callback was never used.",
        "TestWithMarker::test_forgets": "a unittest.TestCase takes no fixture as argument: write the test as a function.",
    }
    assert (run.status, run.counts) == (1, {"failed": len(forget), "passed": 3}), run.text
    for name, what in forget.items():
        assert run.line(f"FAILED test_a.py::{name} - ").endswith(
            f"B105 a test requested perfguard, but measured nothing: test_a.py::{name}; {what}"
        )
