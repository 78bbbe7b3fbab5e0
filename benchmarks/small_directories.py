"""CPU milliseconds of `inspect` on one small directory of each layout, in a warm process; several trees in turns.

    python benchmarks/small_directories.py [TREE ...] [--runs 7] [--only LAYOUT]

TREE: other checkouts of perfguard, each with its `.venv`; without any, this one alone. The trees take turns, a process each
time; the median of the runs is printed, of a run the fastest of five inspections.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_MEASURE = """
import gc, json, sys, time
from pathlib import Path
from perfguard.contract import inspect
from perfguard.recording import Recording
found = {}
for folder in map(Path, sys.argv[1:]):
    recording = Recording(directory=folder)
    spent = []
    for _ in range(7):
        gc.collect()
        before = time.process_time()
        inspect(recording)
        spent.append(1000 * (time.process_time() - before))
    found[folder.name] = min(spent[2:])
print(json.dumps(found))
"""


def directories(scratch: Path, only: str) -> list[Path]:
    """Write one small directory of each layout; return those and real ones of the corpus, where it is."""
    from perfguard.testing import LAYOUTS, generate

    wanted = [name for name in sorted(LAYOUTS) if only in ("", name)]
    return [Path(generate(name, seed=1).write(scratch / name)) for name in wanted]


def measured(tree: Path, folders: list[Path]) -> dict[str, float]:
    """Return the milliseconds of each directory in a new process of a tree."""
    command = [str(tree / ".venv/bin/python"), "-c", _MEASURE, *map(str, folders)]
    return json.loads(subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    trees = [one.resolve() for one in options.trees] or [Path(sys.prefix).parent]
    with tempfile.TemporaryDirectory() as scratch:
        folders = directories(Path(scratch), options.only)
        runs = [[measured(tree, folders) for tree in trees] for _ in range(options.runs)]
    print(" " * 16, *(f"{tree.name:>10}" for tree in trees))
    for folder in folders:
        spent = [statistics.median(run[number][folder.name] for run in runs) for number in range(len(trees))]
        print(f"{folder.name:16}", *(f"{one:10.0f}" for one in spent))


if __name__ == "__main__":
    main()
