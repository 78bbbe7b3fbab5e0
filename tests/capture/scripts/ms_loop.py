"""A training loop of one's own: PyNative, with an optimizer, and an evaluation before and after."""

import mindspore as ms
import numpy as np
from mindspore import nn

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
net = nn.SequentialCell(nn.Dense(8, 4))
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
optimizer = nn.SGD(net.trainable_params(), 0.1)
inputs, labels = ms.Tensor(np.ones((16, 8), np.float32)), ms.Tensor((np.arange(16) % 4).astype(np.int32))


def forward(x, y):
    return loss(net(x), y)


gradients = ms.value_and_grad(forward, None, optimizer.parameters)
net(inputs)
for _ in range(6):
    _, found = gradients(inputs, labels)
    optimizer(found)
net(inputs)
