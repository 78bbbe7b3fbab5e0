"""A training in torch that knows nothing of a profiler; what else it does is said by its arguments."""

import os
import subprocess
import sys
import time

import torch

net = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
inputs, labels = torch.ones(16, 8), torch.arange(16) % 4


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()


def evaluate():
    net.eval()
    with torch.no_grad():
        net(inputs)
        net(inputs)
    net.train()


for word in sys.argv[1:] or ["train"]:
    if word == "train":
        train(6)
    elif word == "evaluate":
        evaluate()
    elif word == "workers":
        data = torch.utils.data.TensorDataset(inputs.repeat(6, 1), labels.repeat(6))
        for batch in torch.utils.data.DataLoader(data, batch_size=16, num_workers=2):
            inputs, labels = batch
            train(1)
    elif word == "infer":
        for _ in range(6):
            evaluate()
    elif word == "own":
        place = torch.profiler.tensorboard_trace_handler("./tb")
        with torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=place
        ) as own:
            for _ in range(6):
                train(1)
                own.step()
    elif word == "legacy":
        with torch.autograd.profiler.profile() as own:
            evaluate()
        print(len(own.function_events) > 0)
    elif word == "raise":
        raise RuntimeError("out of luck")
    elif word == "exit":
        sys.exit(7)
    elif word == "hang":
        print("hanging", flush=True)
        if sign := os.environ.get("HANGING"):
            open(sign, "w").close()
        time.sleep(600)
    elif word == "stubborn":
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif word == "child":
        # In a session of its own: no process group holds it.
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        print(f"child {child.pid}", flush=True)
    elif word == "fork":
        if os.fork() == 0:
            train(3)
            os._exit(0)
        os.wait()
    elif word == "chdir":
        os.chdir("/")
    elif word == "delete":
        import shutil

        shutil.rmtree(os.environ["RECORDING"])
    elif word == "shout":
        for _ in range(200):
            sys.stdout.write("x" * (10 << 20))
    elif word == "two":
        # Two processes that train.
        subprocess.run([sys.executable, __file__, "train"], check=True)
    elif word == "crash":
        os.abort()
