"""The sample of the documents (seed 000), on a CPU: it has a profiler of its own, unless PLAIN is set."""

import os

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 2)

    def construct(self, x):
        return self.fc(x)


def generator():
    for _ in range(2):
        yield (np.ones([2, 2]).astype(np.float32), np.ones([2]).astype(np.int32))


def train(net):
    optimizer = nn.Momentum(net.trainable_params(), 1, 0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
    data = ds.GeneratorDataset(generator, ["data", "label"])
    model = ms.Model(net, loss, optimizer)
    model.train(int(os.environ.get("EPOCHS", "1")), data)


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    plain = os.environ.get("PLAIN")
    if not plain:
        profiler = ms.Profiler(output_path="./profiler_data")
    net = Net()
    train(net)
    if not plain:
        profiler.analyse()
    print("trained")
