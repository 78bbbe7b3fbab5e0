"""Training steps in MindSpore: a LeNet-style CNN and a transformer block."""

from __future__ import annotations

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import Normal


def on_cpu() -> None:
    """Run on the CPU. MindSpore takes a device before its first kernel only; whoever ran one before has a device."""
    try:
        mindspore.set_device("CPU")
    except RuntimeError:
        if mindspore.get_context("device_target") != "CPU":
            raise


class LeNet(nn.Cell):
    """Two convolutions, three dense layers; `width` scales the dense part."""

    def __init__(self, width: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid", weight_init=Normal(0.02))
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid", weight_init=Normal(0.02))
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(16 * 5 * 5, 120 * width, weight_init=Normal(0.02))
        self.fc2 = nn.Dense(120 * width, 84, weight_init=Normal(0.02))
        self.fc3 = nn.Dense(84, 10, weight_init=Normal(0.02))

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.relu(self.fc1(self.flatten(x)))
        return self.fc3(self.relu(self.fc2(x)))


class TransformerBlock(nn.Cell):
    """One pre-norm block: self-attention with four heads, then a feed-forward part, then a mean over the sequence."""

    def __init__(self, size: int = 32, heads: int = 4, hidden: int = 64):
        super().__init__()
        self.heads = heads
        self.head_size = size // heads
        self.norm1 = nn.LayerNorm((size,))
        self.norm2 = nn.LayerNorm((size,))
        self.query = nn.Dense(size, size)
        self.key = nn.Dense(size, size)
        self.value = nn.Dense(size, size)
        self.out = nn.Dense(size, size)
        self.up = nn.Dense(size, hidden)
        self.down = nn.Dense(hidden, size)
        self.act = nn.ReLU()
        self.classify = nn.Dense(size, 4)
        self.softmax = nn.Softmax(axis=-1)
        self.matmul = ops.BatchMatMul()
        self.matmul_transposed = ops.BatchMatMul(transpose_b=True)

    def split(self, x, batch, length):
        return x.reshape((batch, length, self.heads, self.head_size)).transpose((0, 2, 1, 3))

    def construct(self, x):
        batch, length, size = x.shape
        y = self.norm1(x)
        q = self.split(self.query(y), batch, length)
        k = self.split(self.key(y), batch, length)
        v = self.split(self.value(y), batch, length)
        weights = self.softmax(self.matmul_transposed(q, k) * (self.head_size**-0.5))
        y = self.matmul(weights, v).transpose((0, 2, 1, 3)).reshape((batch, length, size))
        x = x + self.out(y)
        x = x + self.down(self.act(self.up(self.norm2(x))))
        return self.classify(x.mean(axis=1))


def training_step(net, *inputs):
    """Return a callable that trains `net` for one step on fixed inputs."""
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.01, momentum=0.9)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
    cell.set_train()
    return lambda: cell(*inputs)


def lenet_step(width: int = 1, batch: int = 8):
    """Return one training step of LeNet on random images."""
    images = Tensor(np.random.default_rng(0).normal(size=(batch, 1, 32, 32)).astype(np.float32))
    return training_step(LeNet(width), images, Tensor(np.arange(batch) % 10, mindspore.int32))


def transformer_step(batch: int = 4, length: int = 8, size: int = 32):
    """Return one training step of the transformer block on random sequences."""
    sequences = Tensor(np.random.default_rng(0).normal(size=(batch, length, size)).astype(np.float32))
    return training_step(TransformerBlock(size), sequences, Tensor(np.arange(batch) % 4, mindspore.int32))
