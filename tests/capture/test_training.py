"""A training from its callback's side: which steps go where, and what fails the test."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext

import pytest

from perfguard import thresholds
from perfguard.capture import lightning_callback, trainer_callback
from perfguard.capture.controlled import ControlledWindow, TurnsWindow
from perfguard.capture.training import OneStep, Training
from perfguard.errors import CaptureError, PerfguardError, UsageError
from perfguard.version import install_command
from tests.capture.test_turns import Backend, Told


def train(steps, *, most: int) -> tuple[int, list[object], str]:
    """Run a training; return its optimizer steps, what was handed on as done, and perfguard's error."""
    done: list[object] = []
    training = Training(lambda: steps, done=done.append, failing=nullcontext)
    ran = 0
    try:
        training.begin()
        training.begin_epoch()
        while ran < most:
            training.begin_step()
            sum(range(1000))
            ran += 1
            # Between steps; only the profiler makes this matter.
            training.evaluate()
            training.begin_epoch()
            if training.end_step():
                break
        training.end()
    except PerfguardError as error:
        return ran, done, str(error)
    return ran, done, ""


def test_without_the_gate_there_is_one_step():
    for most in (5, 0):
        steps = OneStep()
        assert train(steps, most=most) == (min(most, 1), [steps], "")


@pytest.mark.exhaustive
def test_a_timed_process_stops_the_training_when_it_has_enough(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    from perfguard.capture import backend

    for name, value in {"WINDOW_S": 0.01, "LONGEST_WINDOW_S": 0.05, "WARMUP_S": 0.01, "REST_S": 0.0}.items():
        monkeypatch.setattr(thresholds, name, value)

    def window() -> ControlledWindow:
        return ControlledWindow(backend("torch"), workload="w", settle=2, least=5, cpus=(0,))

    long = window()
    ran, done, error = train(long, most=10_000)
    assert (done, error) == ([long], "")
    assert long.timing is not None
    assert 5 <= long.timing.steps <= ran - 2 <= thresholds.MOST_STEPS + thresholds.WARMUP_STEPS
    assert long.timing.notes == ()
    short = window()
    assert train(short, most=4) == (4, [short], "")
    assert short.timing is not None
    assert short.timing.notes == ("the loader ended after 2 of 5 timed steps",)
    for most in (0, 2):
        ended = f"the training ended after {most} optimizer steps, all needed to settle; give it more."
        assert train(window(), most=most) == (most, [], ended)


@pytest.mark.exhaustive
def test_a_side_of_a_comparison_trains_in_turns():
    turns = Told(2, 1)
    window = TurnsWindow(Backend(), turns, settle=2)
    assert train(window, most=100) == (5, [window], "")
    assert [len(costs) for costs in turns.costs] == [2, 1]
    assert train(TurnsWindow(Backend(), Told(2, 2), settle=1), most=4)[2] == (
        "the loader ended after 3 timed steps; give it more batches."
    )
    # No turn at all: the first step after the settling ones is the last.
    assert train(TurnsWindow(Backend(), Told(), settle=1), most=9)[0] == 2


def test_a_callback_measures_one_training():
    training = Training(OneStep, done=lambda steps: None, failing=nullcontext)
    training.begin()
    with pytest.raises(UsageError, match="this callback has measured a training already"):
        training.begin()


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [(trainer_callback, "transformers", "trainer"), (lightning_callback, "lightning.pytorch", "lightning")],
)
def test_a_framework_that_is_not_installed_is_named(monkeypatch, module, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
    module._callback_class.cache_clear()
    make = getattr(module, module.__name__.rpartition(".")[2])
    with pytest.raises(CaptureError, match=f"cannot be imported .*{re.escape(install_command(extra))}"):
        make(Training(OneStep, done=lambda steps: None, failing=nullcontext))
