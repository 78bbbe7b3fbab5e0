"""Regressions planted in real models, run by the real frameworks: each must be caught, and named."""

from __future__ import annotations

import time

import pytest

from perfguard.capture import backend
from perfguard.capture.driver import Driver
from perfguard.findings import Severity
from perfguard.gate import examine, judge
from perfguard.judge.baseline import Baseline
from perfguard.judge.comparison import State
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Outcome
from perfguard.window import StepWindow

pytestmark = pytest.mark.slow

WINDOW = StepWindow(skip_first=2, warmup=1, active=3)


@pytest.fixture
def run(tmp_path):
    """Capture steps one after the other; the first is the baseline of those that follow."""
    count = 0

    def capture(name, step, *, timed_steps=0):
        nonlocal count
        count += 1
        used = backend(name)
        used.prepare(1)
        try:
            driver = Driver(
                used, workload="planted", directory=tmp_path / str(count), window=WINDOW, timed_steps=timed_steps
            )
            return driver.run(step)
        finally:
            used.restore()

    def judged(name, before, after, *, timed_steps=0, policy=None):
        base = examine(capture(name, before, timed_steps=timed_steps), workload="planted", policy=Policy())
        assert base.outcome is Outcome.PASSED, base.findings
        baseline = Baseline(
            workload="planted",
            fingerprint=base.fingerprint,
            environment=base.environment,
            measurements=base.measurements,
        )
        recording = capture(name, after, timed_steps=timed_steps)
        return judge(recording, baseline, workload="planted", policy=policy or Policy())

    return judged


def errors(verdict):
    return [f"{f.code.name} {f.message}" for f in verdict.findings if f.severity is Severity.ERROR]


def changed(verdict):
    return {one.label for one in verdict.comparisons if one.state is State.CHANGED}


@pytest.fixture(params=["graph", pytest.param("pynative", marks=pytest.mark.exhaustive)])
def mindspore_mode(request):
    mindspore = pytest.importorskip("mindspore", reason="MindSpore is not installed: pip install -e '.[models]'")
    from tests.models.mindspore_nets import on_cpu

    before = mindspore.get_context("mode")
    on_cpu()
    mindspore.set_context(mode=getattr(mindspore, f"{request.param.upper()}_MODE"))
    yield request.param
    mindspore.set_context(mode=before)


def mindspore_inference(matmuls):
    import mindspore
    import numpy as np
    from mindspore import nn, ops

    class Chain(nn.Cell):
        def __init__(self):
            super().__init__()
            self.matmul = ops.MatMul()
            self.count = matmuls

        def construct(self, x, weight):
            for _ in range(self.count):
                x = self.matmul(x, weight)
            return x

    net = Chain()
    x = mindspore.Tensor(np.ones((4, 4), np.float32))
    weight = mindspore.Tensor(np.eye(4, dtype=np.float32))
    return lambda: net(x, weight)


def torch_inference(matmuls):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    x, weight = torch.ones(4, 4), torch.eye(4)

    def step():
        y = x
        for _ in range(matmuls):
            y = torch.mm(y, weight)

    return step


@pytest.mark.exhaustive
def test_an_extra_matmul_in_mindspore_is_named(run, mindspore_mode):
    verdict = run("mindspore", mindspore_inference(2), mindspore_inference(3))

    assert verdict.outcome is Outcome.FAILED
    assert any(
        one.startswith("R102 operator_calls[MatMul] 2 → 3 calls/step, +1 (added work: +") for one in errors(verdict)
    )


@pytest.mark.exhaustive
def test_an_extra_matmul_in_torch_is_named(run):
    verdict = run("torch", torch_inference(2), torch_inference(3))

    assert verdict.outcome is Outcome.FAILED
    assert any(
        one.startswith("R102 operator_calls[aten::mm] 2 → 3 calls/step, +1 (added work: +") for one in errors(verdict)
    )


@pytest.mark.exhaustive
def test_a_doubled_layer_in_mindspore_shows_in_shapes_and_memory(run, mindspore_mode):
    from tests.models.mindspore_nets import lenet_step

    verdict = run("mindspore", lenet_step(), lenet_step(width=2))

    metrics = {f.place.partition("[")[0] for f in verdict.findings if f.severity is Severity.ERROR}
    assert verdict.outcome is Outcome.FAILED
    assert {"peak_memory_bytes", "memory_allocated_bytes"} <= metrics
    # In PyNative mode MindSpore 2.10 leaves the shapes of MatMul blank; what it records there still shows the change.
    operator = {"graph": "MatMul", "pynative": "BiasAdd"}[mindspore_mode]
    assert f"operator_shapes[{operator}]" in changed(verdict)


@pytest.mark.exhaustive
def test_a_doubled_layer_in_torch_shows_in_shapes_and_memory(run):
    pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    from tests.models.torch_nets import mlp_step

    verdict = run("torch", mlp_step(), mlp_step(hidden=128))

    metrics = {f.place.partition("[")[0] for f in verdict.findings if f.severity is Severity.ERROR}
    assert verdict.outcome is Outcome.FAILED
    assert {"peak_memory_bytes", "memory_allocated_bytes"} <= metrics
    assert "operator_shapes[aten::addmm]" in changed(verdict)


@pytest.mark.exhaustive
def test_a_step_that_begins_to_allocate_fails_and_one_that_stops_is_better(run):
    """torch writes no event of memory for a step that allocates nothing; that is a 0, and not a gap."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    x, weight, out = torch.ones(64, 64), torch.eye(64), torch.empty(64, 64)

    def into():
        torch.mm(x, weight, out=out)

    def anew():
        torch.mm(x, weight)

    verdict = run("torch", into, anew)
    assert verdict.outcome is Outcome.FAILED
    assert "R102 memory_allocated_bytes[cpu] 0 → 16.0 KiB/step, +16.0 KiB/step (allowed +0.1 %)" in errors(verdict)

    verdict = run("torch", anew, into)
    assert verdict.outcome is Outcome.CHANGED, "mm gets other shapes with an output"
    assert "memory_allocated_bytes[cpu]" in {one.label for one in verdict.comparisons if one.state is State.BETTER}


@pytest.mark.exhaustive
def test_a_step_three_times_slower_warns_by_the_clock_and_fails_where_the_user_says_so(run):
    """The sleep is a lower bound that no machine undercuts, and long enough that no scheduler doubles the minimum."""
    work = torch_inference(1)

    def lasting(seconds):
        def step():
            work()
            time.sleep(seconds)

        return step

    verdict = run("torch", lasting(0.1), lasting(0.3), timed_steps=5)
    assert verdict.outcome is Outcome.PASSED
    assert "R105" in {f.code.name for f in verdict.findings if f.place == "step_time"}

    strict = Policy(settings=(Rule(pattern="step_time", tolerance=Tolerance(relative=1.0)),))
    verdict = run("torch", lasting(0.1), lasting(0.3), timed_steps=5, policy=strict)
    assert verdict.outcome is Outcome.FAILED
    assert {f.place for f in verdict.findings if f.severity is Severity.ERROR} == {"step_time"}
    (slower,) = [text for text in errors(verdict) if text.startswith("R101 step_time ")]
    assert "(allowed +100.0 %)" in slower


@pytest.mark.parametrize("name", ["torch", pytest.param("mindspore", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_a_lost_step_is_invalid(run, name):
    """The third profiled step runs nothing: what a profiler that lost a step leaves behind."""
    pytest.importorskip(name, reason=f"{name} is not installed: pip install -e '.[models]'")
    if name == "mindspore":
        from tests.models.mindspore_nets import on_cpu

        on_cpu()
    whole = {"torch": torch_inference, "mindspore": mindspore_inference}[name](2)
    calls = 0

    def losing():
        nonlocal calls
        calls += 1
        if calls != WINDOW.skip_first + WINDOW.warmup + 2:
            whole()

    verdict = run(name, whole, losing)

    assert verdict.outcome is Outcome.INVALID
    assert verdict.comparisons == ()
    assert any(e.startswith("C101 ") and "no operator ran in step 2 of the window" in e for e in errors(verdict))
