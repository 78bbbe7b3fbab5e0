"""Train under the callbacks of the real mindformers wheel, as its Trainer builds them from a YAML, and note every step's time.

python mf_real.py CONFIG.yaml STEPS TIMES.json. Needs mindspore, and on PYTHONPATH mindformers with the few packages that
its callback module imports; the packages' own __init__, which import everything else, are left out.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import json
import sys
import time
from pathlib import Path

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn

INSTALLED = importlib.metadata.distribution("mindformers")
BARE = {"mindformers", "mindformers.core", "mindformers.core.callback", "mindformers.models", "mindformers.dataset"}
BARE |= {"mindformers.parallel_core"}


class Bare:
    """Finds the packages above with nothing in them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in BARE:
            return None
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(INSTALLED.locate_file(name.replace(".", "/")))]
        return spec


class Clock(ms.Callback):
    """Notes when each step began and ended, in UNIX nanoseconds."""

    def __init__(self):
        self.times = []

    def on_train_step_begin(self, run_context):
        self.times.append([time.time_ns(), 0])

    def on_train_step_end(self, run_context):
        self.times[-1][1] = time.time_ns()


def callbacks(path):
    """Build what Trainer._build_profile_cb and build_callback do."""
    sys.meta_path.insert(0, Bare)
    importlib.import_module("mindformers").__version__ = INSTALLED.version
    config = importlib.import_module("mindformers.tools.register").MindFormerConfig(path)
    module = importlib.import_module("mindformers.core.callback.callback")
    found = []
    if config.profile:
        found.append(
            module.ProfileMonitor(
                start_step=config.profile_start_step,
                stop_step=config.profile_stop_step,
                start_profile=config.init_start_profile,
                profile_rank_ids=config.profile_rank_ids,
                profile_pipeline=config.profile_pipeline,
                profile_communication=config.profile_communication,
                profile_memory=config.profile_memory,
                output_path=config.profile_output,
                profiler_level=config.profiler_level,
                with_stack=config.with_stack,
                data_simplification=config.data_simplification,
                mstx=config.mstx,
            )
        )
    asked = [dict(one) for one in config.callbacks or [] if one["type"] == "SummaryMonitor"]
    return found + [module.SummaryMonitor(**{key: one[key] for key in one if key != "type"}) for one in asked]


def main(path, steps, times):
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    net = nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 1))
    x = np.random.default_rng(0).normal(size=(steps, 4)).astype(np.float32)
    data = ds.NumpySlicesDataset((x, x.sum(1, keepdims=True)), ["x", "y"], shuffle=False).batch(1)
    model = ms.Model(net, loss_fn=nn.MSELoss(), optimizer=nn.SGD(net.trainable_params(), 0.01))
    clock = Clock()
    # The clock is asked first when a step begins, and must not see the profiler's own work at its end.
    model.train(1, data, callbacks=[clock, *callbacks(path)], dataset_sink_mode=False)
    Path(times).write_text(json.dumps(clock.times))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
