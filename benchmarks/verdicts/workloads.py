"""Models whose step can be made slower on purpose: by so many small products of matrices, an operator more, a byte more."""

from __future__ import annotations

from collections.abc import Callable

Step = Callable[[], object]

#: Which framework each needs.
BACKENDS = {"mlp": "torch", "cnn": "torch", "lenet": "mindspore"}


def step_of(
    model: str,
    *,
    products: int = 0,
    numpy_products: int = 0,
    sleep_s: float = 0.0,
    kept_bytes: int = 0,
    more: bool = False,
    reads: str = "",
) -> Step:
    """Return one training step of a model, and what is planted after it.

    `products` are 64-wide float32 matrix products of torch, or beside MindSpore's step as many tanh of numpy; `kept_bytes`
    are allocated in the step and freed with the next one; `more` is one operator the model does not have otherwise; `reads`
    is an addition that reads "rows" of memory, or, of the same name and shape and slower, "columns". MindSpore's step can
    only be made slower. `numpy_products` are products by the library of the calibration kernel, in any of them.
    """
    if BACKENDS[model] == "mindspore":
        step = _mindspore(products, sleep_s)
    else:
        step = _torch(model, products, sleep_s, kept_bytes, more, reads)
    return step if not numpy_products else _with_numpy(step, numpy_products)


def _with_numpy(step: Step, products: int) -> Step:
    import numpy as np

    small = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)

    def longer() -> None:
        step()
        for _ in range(products):
            small @ small

    return longer


def _torch(model: str, products: int, sleep_s: float, kept_bytes: int, more: bool, reads: str) -> Step:
    import time

    import torch

    torch.manual_seed(0)
    if model == "mlp":
        net = torch.nn.Sequential(*(layer for _ in range(3) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())))
        inputs = torch.randn(128, 256)
    else:
        convolutions = [torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 32, 3, padding=1)]
        layers = [
            part for conv in convolutions for part in (conv, torch.nn.BatchNorm2d(conv.out_channels), torch.nn.ReLU())
        ]
        net = torch.nn.Sequential(*layers, torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(32 * 8 * 8, 256))
        inputs = torch.randn(32, 3, 16, 16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    labels = torch.arange(len(inputs)) % 256
    small = torch.randn(64, 64)
    kept = []
    # Every element of the second lies in a line of memory of its own.
    read = {"rows": torch.randn(4096, 16), "columns": torch.randn(4096, 1024)[:, ::64]}.get(reads)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        for _ in range(products):
            torch.mm(small, small)
        if more:
            torch.cumsum(small, 0)
        if read is not None:
            torch.add(read, 1.0)
        if kept_bytes:
            kept[:] = [torch.empty(kept_bytes, dtype=torch.uint8)]
        if sleep_s:
            time.sleep(sleep_s)

    return step


def _mindspore(products: int, sleep_s: float) -> Step:
    import time

    import mindspore
    import numpy as np

    from tests.models.mindspore_nets import lenet_step, on_cpu

    on_cpu()
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    step_of_model = lenet_step(batch=32)
    small = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)

    def step() -> None:
        step_of_model()
        # MindSpore would make an operator of each, and this is about time alone. Not numpy's products: they wake its library
        # up for the calibration kernel.
        for _ in range(products):
            np.tanh(small)
        if sleep_s:
            time.sleep(sleep_s)

    return step
