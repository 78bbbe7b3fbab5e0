"""TensorBoard's PyTorch plugin: `tensorboard_runs.py LOGDIR`; prints what its own search and loader find, as JSON.

Runs where torch-tb-profiler is installed; imports nothing of perfguard.
"""

import json
import os
import sys

from torch_tb_profiler import consts, io
from torch_tb_profiler.plugin import TorchProfilerPlugin
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.loader import RunLoader


class Search:
    """Enough of the plugin to ask which directories it would show: starting it starts its threads and its server."""

    def __init__(self, logdir):
        self.logdir = logdir


def run_of(directory):
    profiles = []
    for (worker, span), profile in RunLoader("run", directory, io.Cache()).load().profiles.items():
        if worker == "All":
            profiles.append({"worker": worker, "views": [view.name for view in profile.views]})
            continue
        steps = profile.overview["steps"]["rows"]
        profiles.append(
            {
                "worker": worker,
                "span": span,
                "views": [view.name for view in profile.views],
                "steps": [row[0] for row in steps],
                "calls": {row["name"]: row["calls"] for row in profile.operation_table_by_name["data"]},
            }
        )
    return profiles


def event_counts(directory):
    """What the parser reads from each file: the number of its events."""
    counts = {}
    for name in sorted(os.listdir(directory)):
        match = consts.WORKER_PATTERN.match(name)
        if match:
            data = RunProfileData.parse(match.group(1), match.group(2), os.path.join(directory, name), None)
            counts[name] = len(data.events)
    return counts


def main():
    logdir = sys.argv[1]
    runs = sorted(TorchProfilerPlugin._get_run_dirs(Search(logdir)))
    found = {os.path.relpath(run, logdir): {"profiles": run_of(run), "events": event_counts(run)} for run in runs}
    print("RESULT " + json.dumps(found))


if __name__ == "__main__":
    main()
