"""Train under MindSpore's own DynamicProfilerMonitor, and edit its configuration meanwhile.

argv: the mode, the number of steps, and a JSON object: at the end of which step what window is asked for.
"""

from __future__ import annotations

import json
import os
import sys
import time

import mindspore
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.profiler import DynamicProfilerMonitor
from mindspore.runtime import stream
from mindspore.train import Callback, Model

from perfguard.integrations.mindspore_dynamic import write_profiler_config


class OwnMonitor(DynamicProfilerMonitor):
    """MindSpore names the shared memory by the hour: two trainings of one hour would read each other's configuration."""

    def _check_shm_for_killed(self):
        self._shm_name += f"-{os.getpid()}"


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 2)

    def construct(self, x):
        return self.fc(x)


class Edit(Callback):
    """Asks for a window in mid-training, and waits until the monitor has looked; a step has ended when the device has."""

    def __init__(self, edits):
        super().__init__()
        self.edits = edits

    def on_train_step_end(self, run_context):
        stream.synchronize_()
        window = self.edits.get(str(run_context.original_args().cur_step_num))
        if window is not None:
            write_profiler_config("cfg", **window)
            time.sleep(3)


def batches(count):
    def generator():
        for _ in range(count):
            yield np.ones([2, 2], np.float32), np.ones([2], np.int32)

    return ds.GeneratorDataset(generator, ["data", "label"])


if __name__ == "__main__":
    mindspore.set_device("CPU")
    mindspore.set_context(mode=getattr(mindspore, f"{sys.argv[1].upper()}_MODE"))
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    monitor = OwnMonitor(cfg_path="cfg", output_path="dynamic", poll_interval=1)
    Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True), optimizer).train(
        1, batches(int(sys.argv[2])), callbacks=[Edit(json.loads(sys.argv[3])), monitor]
    )
