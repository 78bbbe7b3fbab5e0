"""The public names as a type checker sees them: real mypy, strict, on a user's test file."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import perfguard
from perfguard.capture.mindspore_callback import IdleCallback, RecordingCallback, mindspore_callback
from perfguard.capture.mindspore_options import PARAMETERS, ProfilerOptions
from perfguard.guard import Guard

TOP = Path(__file__).resolve().parent.parent

GOOD = """
import os
from collections.abc import Callable, Iterator

import perfguard as pg
from perfguard import Callback, Guard, Script, StepWindow

WINDOW: StepWindow = pg.StepWindow(active=5)
TRAINING = Script(command=("python", "train.py"), ranks=1)


def step() -> float:
    return 0.5


def train(callback: Callback) -> None:
    with callback, callback.step():
        step()
    callback.close()


def test_forms(perfguard: Guard, tmp_path: "os.PathLike[str]") -> None:
    perfguard(step)
    perfguard(lambda: step(), name="decode")
    batches: Iterator[int] = perfguard.steps([1, 2, 3])
    for batch in batches:
        print(batch + 1)
    perfguard.replay(tmp_path)
    perfguard.script(["python", "train.py"], window="10:20", launcher="torchrun", ranks=2, timeout=60)
    perfguard.script(TRAINING.command, window=perfguard.StepWindow.from_start_stop(10, 20), options={"l2_cache": True})
    train(perfguard.callback(start_step=3, stop_step=5, profiler_level="Level1", name="train"))
    print(perfguard.trainer_callback(), perfguard.lightning_callback(name="second"))
    train(pg.callback("runs/today", start_step=3, stop_step=5, via="Profiler", l2_cache=True))


def test_shadowed(perfguard: pg.Guard) -> None:
    window: pg.StepWindow = perfguard.StepWindow(skip_first=2, active=5)
    print(window.active, pg.check("runs", expect="graph").passed, pg.__version__)
    measure: Callable[[Callable[[], object]], None] = perfguard
    measure(step)
"""

#: A line of a user's file, and what mypy says of it.
WRONG = {
    "window = pg.StepWindw(active=5)": 'Module has no attribute "StepWindw"; maybe "StepWindow"?  [attr-defined]',
    "checked: int = pg.chek('runs')": 'Module has no attribute "chek"; maybe "check"?  [attr-defined]',
    "window = pg.StepWindow(activ=5)": 'Unexpected keyword argument "activ" for "StepWindow"',
    "callback = pg.callback('runs', start_stp=3)": 'Unexpected keyword argument "start_stp" for "mindspore_callback"',
    "callback = pg.callback('runs', l2_cache='yes')": 'Argument "l2_cache" to "mindspore_callback" has incompatible type',
    "guard(5)": 'Argument 1 to "__call__" of "Guard" has incompatible type "int"',
    "guard(print, nam='x')": 'Unexpected keyword argument "nam" for "__call__" of "Guard"',
    "guard.stepz([1])": '"Guard" has no attribute "stepz"; maybe "steps"?  [attr-defined]',
    "window = guard.StepWindow(activ=5)": 'Unexpected keyword argument "activ" for "StepWindow"',
    "text: list[str] = list(guard.steps([1]))": 'List item 0 has incompatible type "int"; expected "str"',
    "guard.script(['python'], windows='2:4')": 'Unexpected keyword argument "windows" for "script" of "Guard"',
    "guard.script(['python'], ranks='2')": 'Argument "ranks" to "script" of "Guard" has incompatible type "str"',
    "guard.trainer_callback(nam='x')": 'Unexpected keyword argument "nam" for "trainer_callback" of "Guard"',
    "guard.lightning_callbak()": '"Guard" has no attribute "lightning_callbak"; maybe "lightning_callback"?',
    "guard.callback(stop_stp=3)": 'Unexpected keyword argument "stop_stp" for "callback" of "Guard"',
    "guard.callback().cloze()": '"Callback" has no attribute "cloze"; maybe "close"?  [attr-defined]',
    "number: int = guard.callback().recording": "Incompatible types in assignment",
}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed: pip install -e '.[dev]'")
@pytest.mark.exhaustive
def test_a_users_file_is_typed_and_each_typo_is_an_error(tmp_path):
    head = "import perfguard as pg\n\n\ndef test_wrong(guard: pg.Guard) -> None:\n"
    wrong = head + "".join(f"    {line}\n" for line in WRONG)
    (tmp_path / "test_good.py").write_text(GOOD)
    (tmp_path / "test_wrong.py").write_text(wrong)
    # The settings of this repository are not the user's; perfguard is an installed package for both.
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--config-file=",
        "--cache-dir=cache",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout.splitlines()
    assert (done.returncode, [line for line in said if not line.startswith("test_wrong.py:")]) == (1, []), done.stderr
    errors = {int(found[1]): found[2] for line in said if (found := re.match(r"[\w.]+:(\d+): error: (.*)", line))}
    lines = [line.strip() for line in wrong.splitlines()]
    assert [lines[number - 1] for number in sorted(errors)] == list(WRONG), said
    for number, message in errors.items():
        assert WRONG[lines[number - 1]] in message


def test_every_public_name_is_there_and_known_to_type_checkers():
    source = ast.parse((TOP / "perfguard" / "__init__.py").read_text(encoding="utf-8"))
    (for_types,) = [
        node for node in source.body if isinstance(node, ast.If) and not node.orelse and isinstance(node.test, ast.Name)
    ]
    imported = {alias.asname or alias.name for node in for_types.body for alias in node.names}  # type: ignore[attr-defined]
    assert imported == set(perfguard.__all__)
    for name in perfguard.__all__:
        assert getattr(perfguard, name) is not None
    with pytest.raises(AttributeError, match="module 'perfguard' has no attribute 'StepWindw'"):
        perfguard.StepWindw


def test_the_callback_of_a_test_takes_what_the_public_one_takes():
    own = set(inspect.signature(Guard.callback).parameters) - {"self", "name"}
    public = set(inspect.signature(mindspore_callback).parameters) - {"output", "workload", "on_end"}
    assert own == public


def test_the_options_of_the_profiler_are_typed():
    # Where and when it records is the callback's own.
    window = {"start_profile", "schedule", "on_trace_ready", "output_path"}
    taken = {one.name for one in PARAMETERS if one.surfaces & {"Profiler", "profile"}}
    assert set(ProfilerOptions.__annotations__) == taken - window


@pytest.mark.parametrize("name", ["step", "start", "stop", "close", "__enter__", "__exit__"])
def test_what_a_run_without_the_gate_gives_takes_what_a_callback_takes(name):
    idle, recording = (inspect.signature(getattr(one, name)) for one in (IdleCallback, RecordingCallback))
    assert idle.parameters == recording.parameters
