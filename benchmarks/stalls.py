"""How often a stall is seen, and how often one is seen where there is none: real steps beside 0, 2 and 6 busy processes.

Run: python -m benchmarks.stalls [--runs N] [--busy 0,2,6] [--models mlp,cnn,lenet,loader]

Every process is fresh; the baseline is always made of those with nothing planted beside the fewest busy processes. The kinds
of process take turns, in random order. Load of others is printed, as it counts as well.
"""

from __future__ import annotations

import argparse
import os
import random
import sys

from tabulate import tabulate

from benchmarks.load import busy
from benchmarks.planted import LOADER, Plant, row, samples, timed
from perfguard.timing import Timing

METRIC = "run_blocked_time"
PLANTS = [
    *(Plant(model=model) for model in ("mlp", "cnn", "lenet", LOADER)),
    Plant(model="mlp", sleep_s=0.002),
    Plant(model="mlp", sleep_s=0.02),
    Plant(model="cnn", sleep_s=0.05, every=10),
    Plant(model="lenet", sleep_s=0.002),
    Plant(model=LOADER, item_sleep_s=0.002),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="processes of each kind")
    parser.add_argument("--busy", default="0,2,6")
    parser.add_argument("--models", default=f"mlp,cnn,lenet,{LOADER}")
    options = parser.parse_args()
    models = options.models.split(",")
    found: dict[int, dict[Plant, list[Timing]]] = {}
    for processes in map(int, options.busy.split(",")):
        arm = found[processes] = {plant: [] for plant in PLANTS if plant.model in models}
        with busy(processes):
            for number in range(options.runs):
                for plant in random.sample(list(arm), len(arm)):
                    if (timing := timed(plant)) is not None:
                        arm[plant].append(timing)
                load = "/".join(f"{one:.1f}" for one in os.getloadavg())
                print(f"{processes} busy: {number + 1} of {options.runs}, load {load}", file=sys.stderr)
    bases = {plant: samples(METRIC, timings) for plant, timings in next(iter(found.values())).items()}
    rows = []
    for processes, arm in found.items():
        for plant, timings in arm.items():
            base = bases[Plant(model=plant.model)]
            is_base = plant.is_unchanged and arm is next(iter(found.values()))
            current = base if is_base else samples(METRIC, timings)
            rows.append([processes, *row(str(plant), METRIC, base, current, 1e3)])
    head = ["busy", "step", "processes", "waits ms a step", "alone beyond", "five of five beyond (groups)"]
    print(tabulate(rows, headers=head, disable_numparse=True))


if __name__ == "__main__":
    main()
