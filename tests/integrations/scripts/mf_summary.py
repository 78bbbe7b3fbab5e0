"""Train under mindspore.SummaryCollector: python mf_summary.py 'JSON of [DIRECTORY, STEPS, EPOCHS, ARGUMENTS, RATE], ...'.

Runs on MindSpore 2.0 (Python 3.9) as on 2.10. The network has a TensorSummary and a ScalarSummary.
"""

import json
import os
import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import SummaryCollector, nn, ops


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 3)
        self.tensor = ops.TensorSummary()
        self.scalar = ops.ScalarSummary()

    def construct(self, x):
        y = self.fc(x)
        self.tensor("out", y)
        self.scalar("first", y[0][0])
        return y


def main(place, steps, epochs, arguments, rate):
    os.chdir(place)
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    ms.set_seed(1)
    x = np.random.default_rng(0).normal(size=(steps * 2, 4)).astype(np.float32)
    y = (np.arange(steps * 2) % 3).astype(np.int32)
    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(2)
    net = Net()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = ms.Model(net, loss, nn.Momentum(net.trainable_params(), rate, 0.9))
    model.train(epochs, data, callbacks=[SummaryCollector(**arguments)], dataset_sink_mode=False)


# SummaryCollector forks: without this line MindSpore 2.0 starts the training again in each of its processes.
if __name__ == "__main__":
    for one in json.loads(sys.argv[1]):
        main(*one)
