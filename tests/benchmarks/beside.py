"""What `perfguard check` costs beside the code before: two source trees take turns at the same directories.

    git worktree add ../before COMMIT
    python tests/benchmarks/beside.py ../before DIR [DIR ...] [--runs 5] [--warm 20]

Prints for each directory, of the tree before and of this one, medians: CPU seconds (with children), wall seconds
and the peak of the largest process, of the command with `--jobs 1`; and the CPU milliseconds of an inspection in a process that
has made some already.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[2]
COMMAND = "import sys; from perfguard.cli import main; sys.argv[0] = 'perfguard'; main()"
WARM = """
import sys, time
from pathlib import Path
from perfguard.contract import reduce
from perfguard.recording import Recording
times = []
for _ in range(int(sys.argv[2])):
    begin = time.process_time()
    reduce(Recording(directory=Path(sys.argv[1])))
    times.append(time.process_time() - begin)
print(sorted(times)[len(times) // 2])
"""


def cost(tree: Path, directory: str) -> tuple[float, float, float]:
    """Return CPU seconds, wall seconds and MiB of one command."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "check", directory, "--jobs", "1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=tempfile.gettempdir(),
    )  # fmt: skip
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begin, usage.ru_maxrss / 1024


def warm(tree: Path, directory: str, times: int) -> float:
    """Return the CPU milliseconds of an inspection in a warm process."""
    done = subprocess.run(
        [sys.executable, "-c", WARM, directory, str(times)],
        stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=tempfile.gettempdir(),
    )  # fmt: skip
    return 1000 * float(done.stdout)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("directories", nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warm", type=int, default=20)
    asked = parser.parse_args()
    trees = {"before": asked.before.resolve(), "now": HERE}
    print(f"{'':40} {'':8} {'CPU s':>8} {'wall s':>8} {'MiB':>8} {'warm ms':>8}")
    for directory in map(os.path.abspath, asked.directories):
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in trees}
        for number in range(asked.runs):
            for name in sorted(trees, reverse=bool(number % 2)):
                found[name].append(cost(trees[name], directory))
        for name, tree in trees.items():
            cpu, wall, mib = (statistics.median(column) for column in zip(*found[name], strict=True))
            again = f"{warm(tree, directory, asked.warm):8.1f}" if asked.warm else ""
            print(f"{directory[-40:]:40} {name:8} {cpu:8.2f} {wall:8.2f} {mib:8.0f} {again}", flush=True)


if __name__ == "__main__":
    main()
