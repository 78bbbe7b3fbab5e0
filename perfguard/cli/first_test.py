"""The first test that `perfguard init` writes: a training step of the project's own model, or of an example."""

from __future__ import annotations

import re

from perfguard.cli.sources import Model

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
_NORMAL = {"torch": "torch.randn{shape}", "mindspore": "mindspore.ops.randn{shape}"}
_INTEGERS = {
    "torch": "torch.randint(0, {values}, {shape})",
    "mindspore": "mindspore.ops.randint(0, {values}, {shape})",
}


def first_test(
    framework: str, *, model: Model | None, module: str = "", place: str = "", names_backend: bool, unused: str = ""
) -> str:
    """Return the source of the test file.

    `module` is what the model is imported from and `place` its file and line. With `names_backend` the test says which
    profiler to use. `unused` names a model that was found, but not what to call it with.
    """
    if model is None:
        hint = f" (init saw the model at {unused}, but not what it is called with)" if unused else ""
        title, function = "An example: replace its model and its batch by yours", "test_example_train"
        imported = ""
        todo = f"    # Replace these two lines by your model and a batch of your data{hint}.\n"
        made = f"{todo}    model = {_EXAMPLE[framework]}\n"
        batch = _NORMAL[framework].format(shape="(32, 64)")
    else:
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", model.name.removeprefix("build_")).lower()
        title, function = f"A training step of {module}.{model.name}", f"test_{name}_train"
        imported = f"\n    from {module} import {model.name}\n"
        how = "a guess" if "Conv" in model.layer else "guessed"
        made = (
            f"    model = {model.name}()\n"
            f"    # The shape is {how} from {model.layer} at {place}: put a batch of your own data here.\n"
        )
        kind = _NORMAL if model.values is None else _INTEGERS
        batch = kind[framework].format(shape=model.shape, values=model.values)
    marker = f'@pytest.mark.perfguard(backend="{framework}")\n' if names_backend else ""
    return (
        f'"""{title}. The step is measured, profiled and compared with its baseline."""\n\n'
        + ("import pytest\n\n\n" if marker else "\n")
        + f"{marker}def {function}(perfguard):\n    import {framework}\n{imported}\n"
        + f"    {_SEED[framework]}\n{made}    batch = {batch}\n{_STEP[framework]}"
    )
