"""A small classifier for MindSpore, as a step, and as a `Model`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mindspore
import mindspore.dataset
import numpy as np
from mindspore import Tensor, nn

HIDDEN = 64


def network() -> nn.Cell:
    """Return two dense layers."""
    return nn.SequentialCell(nn.Dense(32, HIDDEN), nn.ReLU(), nn.Dense(HIDDEN, 10))


def training_step() -> Callable[[], Tensor]:
    """Return a function that trains for one step on fixed data."""
    net = network()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.01)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
    cell.set_train()
    images, labels = Tensor(np.ones((8, 32), np.float32)), Tensor(np.arange(8, dtype=np.int32))
    return lambda: cell(images, labels)


def trained_model() -> mindspore.Model:
    """Return a `Model` to train."""
    net = network()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return mindspore.Model(net, loss, nn.SGD(net.trainable_params(), learning_rate=0.01))


def data(batches: int) -> mindspore.dataset.Dataset:
    """Return a data set of so many batches."""

    def rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _ in range(batches):
            yield np.ones((8, 32), np.float32), np.arange(8, dtype=np.int32)

    return mindspore.dataset.GeneratorDataset(rows, ["image", "label"], shuffle=False)
