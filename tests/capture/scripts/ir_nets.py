"""Compile nets for the CPU: `ir_nets.py NAME [LEVEL PATH]`. With a level the script itself switches graph saving on."""

import sys

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops

WHAT, *OWN = sys.argv[1:]
mindspore.set_context(mode=mindspore.GRAPH_MODE)
try:
    mindspore.set_device("CPU")
except AttributeError:  # MindSpore 2.0
    mindspore.set_context(device_target="CPU")
if OWN:
    mindspore.set_context(save_graphs=int(OWN[0]), save_graphs_path=OWN[1])


class Net(nn.Cell):
    """Two dense layers; a pair of casts after the first `casts` of them."""

    def __init__(self, casts=0):
        super().__init__()
        self.fc1 = nn.Dense(8, 6)
        self.fc2 = nn.Dense(6, 3)
        self.relu = nn.ReLU()
        self.cast = ops.Cast()
        self.casts = casts

    def construct(self, x):
        x = self.relu(self.fc1(x))
        if self.casts > 0:
            x = self.cast(self.cast(x, mindspore.float16), mindspore.float32)
        x = self.fc2(x)
        if self.casts > 1:
            x = self.cast(self.cast(x, mindspore.float16), mindspore.float32)
        return x


class Other(nn.Cell):
    """One more net to compile."""

    def construct(self, x):
        return ops.tanh(x).sum()


class Loop(nn.Cell):
    """A loop and a branch: several graphs are built of one compilation."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(8, 8)

    def construct(self, x, n):
        i = Tensor(0, mindspore.int32)
        while i < n:
            x = self.fc(x)
            i = i + 1
        if x.sum() > 0:
            x = ops.exp(x)
        return x


class Mismatched(nn.Cell):
    """The front end finds that these shapes cannot be multiplied."""

    def construct(self, x):
        return ops.matmul(x, x)


class Missing(nn.Cell):
    """The backend finds that a CPU does not have this operator."""

    def __init__(self):
        super().__init__()
        self.status = ops.operations.NPUAllocFloatStatus()

    def construct(self, x):
        return x + self.status().sum()


def inputs(batch=4):
    return Tensor(np.ones((batch, 8), np.float32))


def train(net):
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
    cell.set_train()
    for _ in range(2):
        cell(inputs(), Tensor(np.array([0, 1, 2, 0]), mindspore.int32)).asnumpy()


def both_shapes():
    net = Net()
    net(inputs(4)).asnumpy()
    net(inputs(2)).asnumpy()


def both_nets():
    Net()(inputs()).asnumpy()
    Other()(inputs()).asnumpy()


def caught():
    Net()(inputs()).asnumpy()
    Mismatched()(inputs())


def export():
    mindspore.export(Net(), inputs(), file_name="net", file_format="MINDIR")


DO = {
    "train": lambda: train(Net()),
    "train-casts": lambda: train(Net(2)),
    "infer": lambda: Net()(inputs()).asnumpy(),
    "infer-casts": lambda: Net(1)(inputs()).asnumpy(),
    "infer-more-casts": lambda: Net(2)(inputs()).asnumpy(),
    "shapes": both_shapes,
    "nets": both_nets,
    "loop": lambda: Loop()(inputs(), Tensor(3, mindspore.int32)).asnumpy(),
    "export": export,
    "mismatched": lambda: Mismatched()(inputs()),
    "mismatched-later": caught,
    "missing": lambda: Missing()(inputs()).asnumpy(),
}
DO[WHAT]()
