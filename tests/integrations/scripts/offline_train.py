"""Train on the CPU under MindSpore's profiler, and end in one of the ways that leave what is not analysed."""

import os
import signal
import sys

import mindspore
import numpy as np
from mindspore import Tensor, nn

STEPS = 6


def main(output: str, ending: str) -> None:
    mindspore.set_device("CPU")
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    net = nn.Dense(8, 4)
    optimiser = nn.SGD(net.trainable_params(), 0.01)
    step = mindspore.value_and_grad(lambda x: net(x).sum(), None, optimiser.parameters)
    x = Tensor(np.ones((2, 8), np.float32))
    profiler = mindspore.Profiler(output_path=output, profile_memory=True)
    for done in range(STEPS):
        if done == STEPS // 2 and ending == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if done == STEPS // 2 and ending == "raises":
            raise RuntimeError("out of data")
        optimiser(step(x)[1])
    profiler.stop()
    if ending == "analysed":
        profiler.analyse()


if __name__ == "__main__":
    main(*sys.argv[1:])
