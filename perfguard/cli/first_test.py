"""The tests that `perfguard init` writes: a training step of each model of the project, or of an example."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_EXAMPLE = {"torch": "torch.nn.Linear(64, 10)", "mindspore": "mindspore.nn.Dense(64, 10)"}
_STEP = {
    "torch": """\
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    perfguard(step)
""",
    "mindspore": """\
    labels = mindspore.ops.zeros_like(model(batch))
    optimizer = mindspore.nn.SGD(model.trainable_params(), learning_rate=0.01)
    train = mindspore.nn.TrainOneStepCell(mindspore.nn.WithLossCell(model, mindspore.nn.MSELoss()), optimizer)
    train.set_train()

    # Compiled, because PyNative mode frees tensors in an order that varies, so that its memory is not exact.
    @mindspore.jit
    def step():
        return train(batch, labels)

    perfguard(step)
""",
}
_SEED = {"torch": "torch.manual_seed(0)", "mindspore": "mindspore.set_seed(0)"}
_BATCH = {"torch": "torch.randn(32, 64)", "mindspore": "mindspore.ops.randn(32, 64)"}


def first_tests(framework: str, *, models: Sequence[tuple[str, str]], names_backend: bool) -> str:
    """Return the source of the test file: a test of each model, or of an example where there is none.

    A model is a module and what it makes the model by. With `names_backend` the tests say which profiler to use.
    """
    named = models or [("", "")]
    names = Counter(_test_name(name) for _, name in named)
    tests = []
    for module, name in named:
        test = _test_name(name)
        if names[test] > 1:
            # Two modules have a model of that name.
            test = f"{module.replace('.', '_')}_{test}"
        imported = f"\n    from {module} import {name}\n" if module else ""
        tests.append(
            (f'@pytest.mark.perfguard(backend="{framework}")\n' if names_backend else "")
            + f"def test_{test}_train(perfguard):\n    import {framework}\n{imported}\n    {_SEED[framework]}\n"
            + (f"    model = {name}()\n" if module else f"    model = {_EXAMPLE[framework]}  # put your model here\n")
            + f"    batch = {_BATCH[framework]}  # put a batch of your own data here\n{_STEP[framework]}"
        )
    title = "A training step of each model" if models else "An example: replace its model and its batch by yours"
    head = f'"""{title}. The step is measured, profiled and compared with its baseline."""\n\n'
    return head + ("import pytest\n\n\n" if names_backend else "\n") + "\n\n".join(tests)


def _test_name(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("build_")).lower() or "example"
