"""What `perfguard check` costs on one rank: CPU seconds with start-up, beside `import polars` and `json.load` of its trace.

    python benchmarks/check_cost.py [DIR ...] [--runs 5]

Without DIR: a generated level-1 rank of torch_npu (twelve files and a trace of 2 MB) and, where the corpus of real output is at
hand (PERFGUARD_CORPUS), a real one. The runs are interleaved; medians of the runs are printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def cpu_seconds(command: list[str]) -> tuple[float, int]:
    """Return user and system time of a process, and its exit status."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status)


def subjects(named: list[Path], scratch: Path) -> list[Path]:
    if named:
        return named
    from perfguard.testing import generate

    tree = generate("pt-npu", seed=1, ranks=1, steps=6, operators=40, conditions={"level1": True, "memory": True})
    found = [Path(tree.write(scratch / "generated"))]
    corpus = os.environ.get("PERFGUARD_CORPUS")
    real = Path(corpus or "../shared/corpus") / "msinsight" / "torch_npu-level1" / "rank0_ascend_pt"
    return [*found, real] if real.is_dir() else found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for directory in subjects(asked.directories, Path(scratch)):
            files = [path for path in directory.rglob("*") if path.is_file()]
            trace = max(files, key=lambda path: path.stat().st_size)
            load = f"import json; json.load(open({str(trace)!r}))" if trace.suffix == ".json" else "pass"
            commands = {
                "perfguard check": [sys.executable, "-m", "perfguard", "check", str(directory)],
                "import polars": [sys.executable, "-c", "import polars"],
                "json.load of the trace": [sys.executable, "-c", load],
            }
            measured: dict[str, list[float]] = {name: [] for name in commands}
            exits = set()
            for _ in range(asked.runs):
                for name, command in commands.items():
                    seconds, status = cpu_seconds(command)
                    measured[name].append(seconds)
                    exits |= {status} if name == "perfguard check" else set()
            size = sum(path.stat().st_size for path in files)
            print(f"{directory.name}: {len(files)} files, {size / 1e6:.1f} MB, exit {sorted(exits)}")
            base = statistics.median(measured["import polars"])
            for name, seconds in measured.items():
                middle = statistics.median(seconds)
                print(f"  {name:24} {middle:6.2f} CPU s   {middle / base:5.1f} x import polars")


if __name__ == "__main__":
    main()
