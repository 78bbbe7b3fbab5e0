"""Whether the calibration kernel is a witness of its own: cold, as it is run, and warmed up by a run that is not timed.

Run: python -m benchmarks.kernel_warmth [PROCESSES] [MODEL] [PRODUCTS]. The step as it is, and with so many products of
numpy after it, which is the kernel's own library, in random order. Prints the medians of the least CPU time of a step, of the
kernel and of the cost, and the cost's spread between processes (the standard deviation of its logarithm).
"""

from __future__ import annotations

import random
import statistics
import sys

from benchmarks.verdicts import rules
from benchmarks.verdicts.__main__ import run


def main() -> None:
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    model = sys.argv[2] if len(sys.argv) > 2 else "mlp"
    planted = sorted({0, int(sys.argv[3]) if len(sys.argv) > 3 else 0})
    jobs = [(warm, products) for warm in (False, True) for products in planted for _ in range(processes)]
    random.shuffle(jobs)
    found: dict[tuple[bool, int], list[rules.Process]] = {}
    for warm, products in jobs:
        one = run("controlled", controlled=True, model=model, numpy_products=products, warm_kernel=warm)
        if one is not None:
            found.setdefault((warm, products), []).append(one)
    for (warm, products), measured in sorted(found.items()):
        step, kernel = (
            statistics.median(min(one[what]) for one in measured) / 1e6 for what in ("process_cpu_ns", "calibration_ns")
        )
        cost = statistics.median(map(rules.cost, measured))
        print(
            f"{model}, kernel {'warm' if warm else 'cold'}, {products} products: {len(measured)} processes, "
            f"step {step:.3f} ms, kernel {kernel:.3f} ms, cost {cost:.2f}, spread {100 * rules.spread(measured):.1f} %"
        )


if __name__ == "__main__":
    main()
