"""What the installed but unused plugin costs a pytest run, in CPU milliseconds, beside pytest-benchmark's.

Run: python tests/benchmarks/plugin_startup.py [ROUNDS]. Every round runs each variant once, in random order, in an empty
directory; the figures are medians over the rounds, with what a bare pytest costs taken off round by round.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile

OURS, THEIRS = ["-p", "no:perfguard"], ["-p", "no:benchmark"]
VARIANTS = {"bare": [*OURS, *THEIRS], "perfguard": THEIRS, "pytest-benchmark": OURS}
OTHERS = ["-p", "no:hypothesispytest", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:rerunfailures"]


def cpu_ms(options: list[str], directory: str, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *OTHERS, *options],
        cwd=directory,
        env=environment,
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for title, extra in (("bytecode cached", {}), ("PYTHONDONTWRITEBYTECODE=1", {"PYTHONDONTWRITEBYTECODE": "1"})):
        samples: dict[str, list[float]] = {name: [] for name in VARIANTS}
        with tempfile.TemporaryDirectory() as directory:
            environment = {**os.environ, **extra}
            for options in VARIANTS.values():
                cpu_ms(options, directory, environment)
            for _ in range(rounds):
                for name in random.sample(list(VARIANTS), len(VARIANTS)):
                    samples[name].append(cpu_ms(VARIANTS[name], directory, environment))
        print(f"{title}: bare pytest {statistics.median(samples['bare']):.0f} ms of CPU, {rounds} rounds")
        for name in ("perfguard", "pytest-benchmark"):
            added = [one - bare for one, bare in zip(samples[name], samples["bare"], strict=True)]
            print(f"  {name:16} {statistics.median(added):+6.1f} ms (quartiles {quartiles(added)})")


def quartiles(values: list[float]) -> str:
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:+.1f} to {high:+.1f}"


if __name__ == "__main__":
    main()
