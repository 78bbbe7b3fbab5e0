"""Make the recordings in tests/data/recorded anew, with the real profilers: python tests/data/make.py [NAME ...]

Each name is a directory of `recorded` and a function below, which runs in a process of its own. The Python needs MindSpore 2.10
and torch 2.13: pip install -e '.[models]'. The recordings of MindSpore 2.0 need a Python 3.9:

    python3.9 -m venv E && E/bin/pip install mindspore==2.0.0 'numpy<1.24' 'pillow<10' 'protobuf<4'
    E/bin/python tests/data/make.py --old

What the profilers wrote stays as it is, with three exceptions: the host is called `host`, the directory of the run
`/home/user/run`, and the directories of Python `/home/user/...`. Checkpoints and caches of kernels are left out. All of
tests/data together must stay below 3 MB.
"""

import contextlib
import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

RECORDED = Path(__file__).resolve().parent / "recorded"
#: A race is tried as often as this.
TRIES = 60


# -- what is trained -------------------------------------------------------------------------------------------------


def mindspore_step(mode="GRAPH"):
    """Return a step of a small training."""
    import mindspore as ms
    import numpy as np
    from mindspore import nn

    ms.set_context(mode=getattr(ms, f"{mode}_MODE"), device_target="CPU")
    net = nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 4))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    inputs, labels = ms.Tensor(np.ones((4, 8), np.float32)), ms.Tensor(np.arange(4).astype(np.int32))
    return lambda: step(inputs, labels)


def synchronize():
    from mindspore.runtime import synchronize

    synchronize()


def jitted_step():
    """Return a compiled step that returns before its operators ran: MindSpore's default mode queues it."""
    import mindspore as ms
    import numpy as np
    from mindspore import nn

    ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
    net, loss = nn.Dense(64, 4), nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)

    def forward(x, y):
        return loss(net(x), y)

    gradients = ms.value_and_grad(forward, None, optimizer.parameters)

    @ms.jit
    def step(x, y):
        value, found = gradients(x, y)
        optimizer(found)
        return value

    inputs, labels = ms.Tensor(np.ones((64, 64), np.float32)), ms.Tensor((np.arange(64) % 4).astype(np.int32))
    return lambda: step(inputs, labels)


def profiled(directory, step, steps, *, synced=True, schedule=None, **options):
    """Profile steps of a training with mindspore.profiler.profile and a schedule."""
    import mindspore as ms
    from mindspore.profiler import tensorboard_trace_handler

    window = ms.profiler.schedule(**(schedule or {"wait": 0, "warmup": 0, "active": 3, "repeat": 1, "skip_first": 1}))
    handler = tensorboard_trace_handler(str(directory))
    with ms.profiler.profile(schedule=window, on_trace_ready=handler, **options) as profiler:
        for _ in range(steps):
            step()
            if synced:
                synchronize()
            profiler.step()


def mindspore_2_10_cpu_graph_steps2to4(directory):
    profiled(directory, mindspore_step("GRAPH"), 6)


def mindspore_2_10_cpu_graph_memory(directory):
    profiled(directory, mindspore_step("GRAPH"), 6, profile_memory=True)


def mindspore_2_10_cpu_pynative_steps2to4(directory):
    profiled(directory, mindspore_step("PYNATIVE"), 6)


def mindspore_2_10_cpu_schedule_repeat2(directory):
    schedule = {"wait": 1, "warmup": 1, "active": 3, "repeat": 2, "skip_first": 1}
    profiled(directory, mindspore_step("GRAPH"), 12, schedule=schedule)


def mindspore_2_10_cpu_graph_window3_raced(directory):
    """Three steps, without waiting for the device before the profiler's step(): operators of a fourth one get in."""
    step = jitted_step()
    step()
    for _ in range(TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        profiled(directory, step, 6, synced=False, profile_memory=True)
        (table,) = directory.rglob("cpu_op_detail_info_0.csv")
        header, *rows = [line.split(",") for line in table.read_text().splitlines()]
        calls = [int(row[header.index("op_occurrences")]) for row in rows]
        if set(calls) == {3, 4} and calls.count(4) < calls.count(3):
            return
    raise SystemExit(f"no race in {TRIES} tries; make the machine busy meanwhile")


def mindspore_2_10_cpu_env(directory):
    """Profile a whole process, by the variable of the environment."""
    options = {"start": True, "output_path": str(directory), "activities": ["CPU"], "profile_memory": False}
    worker("three_steps", directory, MS_PROFILER_OPTIONS=json.dumps(options))


def three_steps(directory):
    step = mindspore_step("GRAPH")
    for _ in range(3):
        step()


def recorded_by_hand(directory, *, analyse):
    """Profile with mindspore.Profiler, which starts at once."""
    import mindspore as ms

    step = mindspore_step("PYNATIVE")
    step()
    synchronize()
    profiler = ms.Profiler(output_path=str(directory))
    for _ in range(3):
        step()
        synchronize()
    profiler.stop()
    if analyse:
        profiler.analyse()


def mindspore_2_10_cpu_collect_only_not_analysed(directory):
    recorded_by_hand(directory, analyse=False)


def mindspore_2_10_cpu_offline_analysed(directory):
    recorded_by_hand(directory, analyse=False)
    # MindSpore's own offline_analyse refuses a recording of a CPU; perfguard calls the analyser that its profiler calls.
    subprocess.run([sys.executable, "-m", "perfguard", "analyse", directory], check=True, stdout=sys.stderr)


def mindspore_2_10_cpu_dynamic(directory):
    """Two windows of one training, which its configuration asks for one after the other."""
    import mindspore as ms
    import mindspore.dataset as ds
    import numpy as np
    from mindspore import nn
    from mindspore.profiler import DynamicProfilerMonitor

    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    settings = {"profile_memory": True, "analyse": True, "analyse_mode": 0, "activities": ["CPU"]}

    class Monitor(DynamicProfilerMonitor):
        """Its shared memory is named by the hour."""

        def _check_shm_for_killed(self):
            self._shm_name += f"-{os.getpid()}"

    class Edit(ms.Callback):
        def on_train_step_end(self, run_context):
            synchronize()
            windows = {1: (3, 5), 6: (9, 10)}
            if (window := windows.get(run_context.original_args().cur_step_num)) is not None:
                write_configuration(dict(zip(("start_step", "stop_step"), window, strict=True), **settings))
                time.sleep(4)

    def write_configuration(values):
        Path("cfg").mkdir(exist_ok=True)
        Path("cfg/profiler_config.json").write_text(json.dumps(values, indent=4))

    write_configuration({"start_step": -1, "stop_step": -1, **settings})
    net = nn.Dense(8, 4)
    images = np.ones((12, 8), np.float32), np.zeros(12, np.int32)
    data = ds.NumpySlicesDataset(images, ["x", "y"], shuffle=False).batch(1)
    monitor = Monitor(cfg_path="cfg", output_path=str(directory), poll_interval=1)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = ms.Model(net, loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
    model.train(1, data, callbacks=[Edit(), monitor], dataset_sink_mode=False)
    beside = directory.parent / "mindspore-2.10-dynamic-config"
    beside.mkdir()
    shutil.copy("cfg/profiler_config.json", beside)


# -- two ranks -------------------------------------------------------------------------------------------------------


def mindspore_2_10_cpu_msrun_2ranks(directory):
    msrun("rank_of_its_own", directory)


def mindspore_2_10_cpu_msrun_2ranks_shared_dir(directory):
    msrun("rank_in_one_directory", directory)


def msrun(function, directory):
    command = [
        "--worker_num=2",
        "--local_worker_num=2",
        f"--master_port={free_port()}",
        "--join=True",
        "--log_dir=logs",
    ]
    program = Path(sys.executable).with_name("msrun")
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    command = [program, *command, __file__, "call", function, directory]
    subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, "PATH": path})


def rank_of_its_own(directory):
    profile_rank(lambda rank: directory / f"rank_{rank}")


def rank_in_one_directory(directory):
    profile_rank(lambda rank: directory)


def profile_rank(directory_of):
    """Profile four steps of one of the ranks that msrun starts: a layer, and a reduction over the ranks."""
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
    inputs, labels = ms.Tensor(np.ones((4, 8), np.float32)), ms.Tensor(np.arange(4).astype(np.int32))
    step(inputs, labels)
    synchronize()
    profiler = ms.Profiler(output_path=str(directory_of(get_rank())), profile_memory=True)
    for _ in range(4):
        step(inputs, labels)
        synchronize()
    profiler.stop()
    profiler.analyse()


def torch_2_13_cpu_torchrun_2ranks(directory):
    torchrun("torch_rank", directory)


def torch_2_13_cpu_torchrun_2ranks_gz(directory):
    torchrun("torch_rank_gz", directory)


def torchrun(function, directory):
    command = ["--nproc-per-node=2", f"--master-port={free_port()}", __file__, "call", function, str(directory)]
    subprocess.run([sys.executable, "-m", "torch.distributed.run", *command], check=True, stdout=sys.stderr)


def torch_rank(directory):
    profile_torch_rank(directory, name=True, profile_memory=True, record_shapes=True, with_flops=True)


def torch_rank_gz(directory):
    profile_torch_rank(directory, use_gzip=True)


def profile_torch_rank(directory, *, name=False, use_gzip=False, **options):
    """Profile two windows of two steps of one of the ranks that torchrun starts."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    inputs, labels = torch.ones(16, 8), torch.arange(16) % 4
    handler = torch.profiler.tensorboard_trace_handler(
        str(directory), worker_name=f"rank{rank}" if name else None, use_gzip=use_gzip
    )
    # DistributedDataParallel rebuilds its buckets in the second step.
    window = torch.profiler.schedule(skip_first=2, wait=0, warmup=1, active=2, repeat=2)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, schedule=window, on_trace_ready=handler, **options) as profiler:
        for _ in range(9):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs), labels).backward()
            optimizer.step()
            profiler.step()
    dist.barrier()
    dist.destroy_process_group()


def torch_2_13_cpu_memory(directory):
    """One rank with memory and shapes: a layer that is trained."""
    import torch

    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    inputs, labels = torch.ones(16, 8), torch.arange(16) % 4
    handler = torch.profiler.tensorboard_trace_handler(str(directory))
    window = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    options = {"profile_memory": True, "record_shapes": True, "on_trace_ready": handler, "schedule": window}
    with torch.profiler.profile(activities=cpu, **options) as profiler:
        for _ in range(4):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs), labels).backward()
            optimizer.step()
            profiler.step()


# -- data and summaries, by MindSpore 2.0 and 2.10 -----------------------------------------------------------------------


def mindspore_2_10_minddata(directory):
    """Profile a pipeline of data, and analyse it as MindSpore's own analysis of a device does."""
    from mindspore.profiler.analysis.parser.ms_minddata_parser import MindDataParser
    from mindspore.profiler.analysis.viewer import ms_minddata_viewer as viewers
    from mindspore.profiler.common.log import ProfilerLogger

    ProfilerLogger.init(str(directory))
    profiled_pipeline(directory)
    places = {name: str(directory) for name in ("framework_path", "ascend_ms_dir", "ascend_profiler_output_path")}
    options = {"rank_id": 0, "device_id": 0, "activities": [], **places}
    found = MindDataParser(**options)._parse({})
    for viewer in (viewers.MindDataPipelineRawViewer, viewers.MindDataPiplineSummaryViewer):
        viewer(**options).save(found)


def mindspore_2_0_minddata(directory):
    from mindspore.profiler.parser.minddata_analyzer import MinddataProfilingAnalyzer
    from mindspore.profiler.parser.minddata_pipeline_parser import MinddataPipelineParser

    profiled_pipeline(directory)
    MinddataPipelineParser(str(directory), 0, str(directory)).parse()
    MinddataProfilingAnalyzer(str(directory), 0, str(directory)).analyze()


def profiled_pipeline(directory):
    import mindspore._c_dataengine as engine
    import mindspore.dataset as ds
    import numpy as np

    directory.mkdir(exist_ok=True)
    manager = engine.GlobalContext.profiling_manager()
    manager.init()
    manager.start()
    ds.config.set_monitor_sampling_interval(10)

    def rows():
        for number in range(16):
            time.sleep(0.002)
            yield (np.full(8, number, np.float32),)

    data = ds.GeneratorDataset(rows, ["x"], num_parallel_workers=1, shuffle=False)
    data = data.map(lambda x: x * 2, ["x"], num_parallel_workers=2).batch(4, num_parallel_workers=2)
    for _ in data.create_dict_iterator(num_epochs=1):
        pass
    manager.stop()
    manager.save(str(directory))


def mindspore_2_10_summary(directory):
    summary(directory)


def mindspore_2_0_summary(directory):
    summary(directory)


def summary(directory):
    """Collect a summary of twelve steps: a loss at each second one."""
    import mindspore as ms
    import mindspore.dataset as ds
    import numpy as np
    from mindspore import SummaryCollector, nn

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc = nn.Dense(4, 3)

        def construct(self, x):
            return self.fc(x)

    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    ms.set_seed(1)
    values = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32), (np.arange(12) % 3).astype(np.int32)
    data = ds.NumpySlicesDataset(values, ["x", "y"], shuffle=False).batch(2)
    net = Net()
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = ms.Model(net, loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
    collector = SummaryCollector(summary_dir=str(directory), collect_freq=1)
    model.train(1, data, callbacks=[collector], dataset_sink_mode=False)


def mindspore_2_0_ir_level1(directory):
    """Save the graphs of a forward pass: a layer, and a product."""
    import mindspore as ms
    import numpy as np
    from mindspore import nn, ops

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc = nn.Dense(4, 4)
            self.product = ops.MatMul()

        def construct(self, x):
            return self.product(self.fc(x), x)

    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU", save_graphs=1, save_graphs_path=str(directory))
    Net()(ms.Tensor(np.ones((4, 4), np.float32)))


def mindspore_2_0_cpu_graph_env(directory):
    """Profile a whole process, by the variable of the environment."""
    options = {"start": True, "output_path": str(directory), "op_time": True, "profile_memory": False}
    worker("three_steps", directory, MS_PROFILER_OPTIONS=json.dumps(options))


def mindspore_2_0_cpu_graph_window4(directory):
    four_steps_in_2_0(directory, "GRAPH")


def mindspore_2_0_cpu_pynative_incomplete(directory):
    """Its analysis ends in an error of its own: it knows no graph."""
    with contextlib.suppress(RuntimeError):
        four_steps_in_2_0(directory, "PYNATIVE")


def four_steps_in_2_0(directory, mode):
    from mindspore import Profiler

    step = mindspore_step(mode)
    step()
    profiler = Profiler(output_path=str(directory))
    for _ in range(4):
        step().asnumpy()
    profiler.analyse()


# -- how they are made ---------------------------------------------------------------------------------------------------

#: What is copied into `recorded`, and which of it MindSpore 2.0 makes.
NAMES = {
    one.__name__.replace("_", "-")
    .replace("-2-10-", "-2.10-")
    .replace("-2-13-", "-2.13-")
    .replace("-2-0-", "-2.0-"): one
    for key, one in list(globals().items())
    if key.startswith(("mindspore_2_", "torch_2_"))
}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def worker(function, directory, **environment):
    """Call a function of this file in a process of its own, in the current directory."""
    command = [sys.executable, __file__, "call", function, str(directory)]
    subprocess.run(command, check=True, env={**os.environ, **environment}, stdout=sys.stderr)


def without_names_of_the_machine(data, run):
    """Replace the directory of the run, Python's packages and the name of the host in a file."""
    for found, instead in (
        (str(run), "/home/user/run"),
        (sysconfig.get_path("purelib"), "/home/user/site-packages"),
        (str(Path(sys.prefix)), "/home/user/env"),
        (str(Path(sys.base_prefix)), "/home/user/python"),
        (str(Path(__file__).resolve().parent), "/home/user"),
    ):
        data = data.replace(found.encode(), instead.encode())
    for form in ('"host_name": "%s"', "%s_", "/%s_", ".%s_MS", ".%s_lineage"):
        data = data.replace((form % socket.gethostname()).encode(), (form % "host").encode())
    return data


def keep(source, target, run):
    """Copy what a profiler wrote, without names of the machine and without what is left out."""
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        if not path.is_file() or path.suffix == ".ckpt" or "kernel_meta" in path.parts:
            continue
        data = path.read_bytes()
        if path.suffix == ".gz":
            text = without_names_of_the_machine(gzip.decompress(data), run)
            data = gzip.compress(text, mtime=0)
        elif not path.name.startswith("events.out"):
            # Records of a summary have checksums; they hold no such name.
            data = without_names_of_the_machine(data, run)
        place = target / without_names_of_the_machine(name.encode(), run).decode()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def main(arguments):
    if arguments[:1] == ["call"]:
        globals()[arguments[1]](Path(arguments[2]))
        return
    old = "--old" in arguments
    names = [one for one in arguments if one != "--old"] or [one for one in NAMES if ("-2.0-" in one) == old]
    for name in names:
        with tempfile.TemporaryDirectory() as temporary:
            run = Path(temporary).resolve()
            (run / name).mkdir()
            os.chdir(run)
            # torch makes a gzip file in the temporary directory, and notes its name.
            worker(NAMES[name].__name__, run / name, TMPDIR=str(run))
            # Some make a second one beside it.
            for one in sorted(path for path in run.iterdir() if path.name.startswith(("mindspore-", "torch-"))):
                keep(one, RECORDED / one.name, run)
                size = sum(path.stat().st_size for path in (RECORDED / one.name).rglob("*") if path.is_file())
                print(f"{one.name}: {size} bytes")
            os.chdir(RECORDED.parent)


if __name__ == "__main__":
    main(sys.argv[1:])
