"""Loops in MindSpore as projects write them; which of them is said by the argument."""

import json
import os
import sys

import mindspore as ms
import numpy as np
from mindspore import nn

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
x = ms.Tensor(np.ones((8, 4), np.float32))


def two_optimizers():
    generator, judge = nn.Dense(4, 4), nn.Dense(4, 1)
    slow, fast = nn.Adam(generator.trainable_params()), nn.Adam(judge.trainable_params())
    of_judge = ms.value_and_grad(lambda: judge(generator(x)).mean(), None, fast.parameters)
    of_generator = ms.value_and_grad(lambda: judge(generator(x)).mean(), None, slow.parameters)
    for _ in range(6):
        fast(of_judge()[1])
        slow(of_generator()[1])


def schedule():
    """A profiler of its own that leaves steps out."""
    from mindspore.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

    net = nn.Dense(4, 4)
    windows = schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(
        activities=[ProfilerActivity.CPU], schedule=windows, on_trace_ready=tensorboard_trace_handler("./own")
    ) as own:
        for _ in range(6):
            net(x)
            own.step()


def monitor():
    """MindSpore's own monitor makes the profiler."""
    from mindspore.profiler import DynamicProfilerMonitor

    os.makedirs("cfg", exist_ok=True)
    with open("cfg/profiler_config.json", "w") as stream:
        json.dump({"start_step": 3, "stop_step": 5, "activities": 0, "analyse": True, "analyse_mode": 0}, stream)
    net = nn.Dense(4, 2)
    rows = ms.dataset.NumpySlicesDataset((np.ones((48, 4), np.float32), np.ones((48, 2), np.float32)), ["x", "y"])
    model = ms.train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params()))
    watch = DynamicProfilerMonitor(cfg_path="cfg", output_path="./own")
    model.train(1, rows.batch(8), callbacks=[watch], dataset_sink_mode=False)


globals()[sys.argv[1]]()
