"""Two ranks over MindSpore's CPU collectives: a training step whose output is reduced."""

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.communication import get_rank, init

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
init()


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(8, 4)
        self.reduce = ops.AllReduce()

    def construct(self, x):
        return self.reduce(self.fc(x))


net = Net()
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), nn.SGD(net.trainable_params(), 0.1))
inputs, labels = ms.Tensor(np.ones((16, 8), np.float32)), ms.Tensor((np.arange(16) % 4).astype(np.int32))
for number in range(6):
    step(inputs, labels)
    if os.environ.get("LOSE") == str(get_rank()) and number == 3:
        sys.exit(9)
