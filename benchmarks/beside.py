"""What `perfguard check` costs beside the code before: two source trees take turns at the same directories.

    git worktree add ../before COMMIT
    python benchmarks/beside.py ../before DIR [DIR ...] [--runs 5] [--warm 20]

Prints for each directory, of the tree before and of this one, the least of all runs, since other work on the machine only
adds: CPU seconds (with children), wall seconds and the peak of the largest process, of the command with `--jobs 1`; and the
CPU milliseconds of an inspection in a process that has made some already.

Two more rows are floors of this tree, whatever the engine: `no rows` decodes and validates everything, but puts no row into the
tables, so nearly no query has anything to do; `imports` only loads the libraries that every `check` needs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[1]
COMMAND = "import sys; from perfguard.cli import main; sys.argv[0] = 'perfguard'; main()"
NO_ROWS = "from perfguard.artifacts.tables import Batch; Batch.put = lambda self, table, **columns: None\n"
IMPORTS = "import click, duckdb, jsonschema_rs, msgspec, numpy, polars"
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


def cost(tree: Path, program: str, directory: str) -> tuple[float, float, float]:
    """Return CPU seconds, wall seconds and MiB of one command."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", program, "check", directory, "--jobs", "1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=tempfile.gettempdir(),
    )  # fmt: skip
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begin, usage.ru_maxrss / 1024


def warm(tree: Path, before: str, directory: str, times: int) -> float:
    """Return the CPU milliseconds of an inspection in a warm process."""
    done = subprocess.run(
        [sys.executable, "-c", before + WARM, directory, str(times)],
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
    #: By row: the source tree, what comes before the program, and the program.
    rows = {
        "before": (asked.before.resolve(), "", COMMAND),
        "now": (HERE, "", COMMAND),
        "no rows": (HERE, NO_ROWS, COMMAND),
        "imports": (HERE, "", IMPORTS),
    }
    print(f"{'':40} {'':8} {'CPU s':>8} {'wall s':>8} {'MiB':>8} {'warm ms':>8}")
    for directory in map(os.path.abspath, asked.directories):
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in rows}
        for number in range(asked.runs):
            for name in sorted(rows, reverse=bool(number % 2)):
                tree, first, program = rows[name]
                again = (warm(tree, first, directory, asked.warm),) if asked.warm and program == COMMAND else ()
                found[name].append((*cost(tree, first + program, directory), *again))
        for name, runs in found.items():
            cpu, wall, mib, *again = (min(column) for column in zip(*runs, strict=True))
            times = "".join(f"{one:8.1f}" for one in again)
            print(f"{directory[-40:]:40} {name:8} {cpu:8.2f} {wall:8.2f} {mib:8.0f} {times}", flush=True)


if __name__ == "__main__":
    main()
