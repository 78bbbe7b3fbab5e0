"""Train the net of MindSpore's own profiling tutorial under perfguard.callback; what to do is a JSON list in argv[1].

For each item it prints one line of JSON: what was raised, how the recording ended, how often every operator type ran.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mindspore
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.profiler.common.profiler_context import ProfilerContext
from mindspore.profiler.profiler_interface import ProfilerInterface
from mindspore.train import Callback, Model

from perfguard import StepWindow
from perfguard.capture.mindspore_callback import mindspore_callback


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 2)

    def construct(self, x):
        return self.fc(x)


def batches(count, fail_at=0):
    def generator():
        for number in range(1, count + 1):
            if number == fail_at:
                raise ZeroDivisionError("the data is gone")
            yield np.ones([2, 2], np.float32), np.ones([2], np.int32)

    return ds.GeneratorDataset(generator, ["data", "label"])


class At(Callback):
    """Does something at the end of one step."""

    def __init__(self, step, what):
        super().__init__()
        self.step = step
        self.what = what

    def on_train_step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.step:
            if self.what == "stop":
                run_context.request_stop()
            elif self.what == "raise":
                raise ZeroDivisionError("loss is gone")
            elif self.what == "interrupt":
                raise KeyboardInterrupt
            elif self.what == "profiler":
                self.other = mindspore.profiler.Profiler(start_profile=False, output_path="other")


def model():
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
    return Model(net, loss, optimizer, metrics={"acc"})


def own_loop(do, profiler):
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True)), optimizer)
    cell.set_train()
    data = batches(do["batches"]).create_tuple_iterator()
    if do["loop"] == "start-stop":
        for number, batch in enumerate(data, start=1):
            if number == do["from"]:
                profiler.start()
            cell(*batch)
            if number == do["to"]:
                profiler.stop()
    elif do["loop"] == "steps":
        with profiler:
            for number, batch in enumerate(data, start=1):
                with profiler.step():
                    cell(*batch)
                    if number == do.get("raise_at"):
                        raise ZeroDivisionError("loss is gone")
    else:  # forgotten: nobody closes it
        for batch in data:
            with profiler.step():
                cell(*batch)


def run(do, profiler):
    if "loop" in do:
        own_loop(do, profiler)
        return
    others = [At(step, what) for step, what in do.get("at", [])]
    more = {name: do[name] for name in ("dataset_sink_mode", "initial_epoch") if name in do}
    for _ in range(do.get("trainings", 1)):
        trained = model()
        if "evaluate" in do:
            trained.fit(
                do.get("epochs", 1),
                batches(do["batches"]),
                batches(2),
                valid_frequency=do["evaluate"],
                callbacks=[*others, profiler],
                **more,
            )
        else:
            data = batches(do["batches"], do.get("fail_at", 0))
            trained.train(do.get("epochs", 1), data, callbacks=[*others, profiler], **more)
    if "eval_after" in do:
        trained.eval(batches(2), callbacks=[profiler])


def census(directory):
    counts = {}
    for file in sorted(directory.rglob("cpu_op_type_info_*.csv")):
        for line in file.read_text().splitlines()[1:]:
            name, occurrences = line.split(",")[:2]
            counts[name] = counts.get(name, 0) + int(occurrences)
    return counts


def one(do):
    told, raised = [], None
    if do.get("running"):
        do["other"] = mindspore.profiler.profile()
    if "window" in do:
        do["made"]["window"] = StepWindow(**do["window"])
    try:
        profiler = mindspore_callback(
            do["output"], on_end=lambda recording: told.append(recording.ending.value), **do["made"]
        )
        run(do, profiler)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, the test looks at it
        raised = f"{type(error).__name__}: {error}"
    output = Path(do["output"])
    recording = json.loads((output / "recording.json").read_text()) if (output / "recording.json").is_file() else {}
    said = {
        "raised": raised,
        "told": told,
        "ending": recording.get("ending"),
        "reason": recording.get("reason"),
        "counts": census(output) if output.is_dir() else {},
        "is_on": ProfilerInterface.is_initialized,
        "directory": ProfilerContext().on_trace_ready_output_path,
    }
    print("RESULT " + json.dumps(said))


def main():
    mindspore.set_device("CPU")
    for do in json.loads(sys.argv[1]):
        mindspore.set_context(mode=getattr(mindspore, f"{do.get('mode', 'graph').upper()}_MODE"))
        one(do)


if __name__ == "__main__":
    main()
