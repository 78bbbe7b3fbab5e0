"""What the rests between timed steps are worth: fresh processes with and without them, one after the other.

Run: python -m benchmarks.step_rests [PROCESSES] [MODEL] [NOISE], which is none, cpu or memory, and runs beside them.
Prints, for each, the spread of the cost of a step between processes (the standard deviation of its logarithm), how far the
best of five in a row lie apart, and how long a process took.
"""

from __future__ import annotations

import statistics
import sys
import time

from benchmarks.verdicts import rules
from benchmarks.verdicts.__main__ import BLOCK, blocks, noisy, run
from perfguard import thresholds


def main() -> None:
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    model = sys.argv[2] if len(sys.argv) > 2 else "mlp"
    noise = sys.argv[3] if len(sys.argv) > 3 else "none"
    found: dict[float, list[rules.Process]] = {0.0: [], thresholds.REST_S: []}
    took: dict[float, list[float]] = {rest: [] for rest in found}
    with noisy(noise):
        for _ in range(processes):
            for rest in found:
                began = time.monotonic()
                one = run("controlled", controlled=True, model=model, rest_s=rest)
                if one is not None:
                    found[rest].append(one)
                    took[rest].append(time.monotonic() - began)
    for rest, measured in found.items():
        best = [min(map(rules.cost, five)) for five in blocks(measured).values()]
        apart = f"{100 * (max(best) / min(best) - 1):.1f} %" if best else "-"
        spread = 100 * rules.spread(measured)
        print(
            f"{model}, {noise} noise, rests of {rest} s: {len(measured)} processes, spread {spread:.1f} %, "
            f"best of {BLOCK} within {apart}, {statistics.median(took[rest]):.1f} s a process"
        )


if __name__ == "__main__":
    main()
