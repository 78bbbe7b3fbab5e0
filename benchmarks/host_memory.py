"""How often a leak of the host's memory is seen, and how often one is seen where there is none.

Run: python -m benchmarks.host_memory [--runs N] [--unchanged N] [--models mlp,cnn,lenet,loader] [--busy 0]

Every process is fresh: unchanged steps, and steps that keep 64, 16 and 4 KiB of Python bytes, or 64 KiB of floats, for good.
The kinds of process take turns, in random order. Unchanged ones may be more.
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

METRIC = "host_memory_growth_bytes"
KIB = 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.host_memory", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="processes of each kind")
    parser.add_argument("--unchanged", type=int, default=100, help="processes of those with nothing planted")
    parser.add_argument("--models", default=f"mlp,cnn,lenet,{LOADER}")
    parser.add_argument("--busy", type=int, default=0)
    options = parser.parse_args()
    found: dict[Plant, list[Timing]] = {}
    for model in options.models.split(","):
        found[Plant(model=model)] = []
        for kib in (64, 16, 4):
            found[Plant(model=model, kept_bytes=kib * KIB)] = []
        found[Plant(model=model, kept_bytes=64 * KIB, in_floats=True)] = []
    with busy(options.busy):
        for number in range(max(options.runs, options.unchanged)):
            due = [plant for plant in found if number < (options.runs if plant.kept_bytes else options.unchanged)]
            for plant in random.sample(due, len(due)):
                if (timing := timed(plant)) is not None:
                    found[plant].append(timing)
            load = "/".join(f"{one:.1f}" for one in os.getloadavg())
            print(f"{number + 1} of {max(options.runs, options.unchanged)}, load {load}", file=sys.stderr)
    measured = {plant: samples(METRIC, timings) for plant, timings in found.items()}
    rows = [
        row(str(plant), METRIC, measured[Plant(model=plant.model)], current, KIB) for plant, current in measured.items()
    ]
    head = ["step", "processes", "keeps KiB a step", "alone beyond", "five of five beyond (groups)"]
    print(tabulate(rows, headers=head, disable_numparse=True))


if __name__ == "__main__":
    main()
