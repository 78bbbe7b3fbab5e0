"""Run the unchanged suite of models many times, and count what the gate says although nothing changed.

Run: python benchmarks/repeat_suite.py [RUNS]. Every run is a fresh process, in random order where pytest-randomly is
installed; the last lines are the same suite under other conditions a machine may have (one core, other instruction sets),
with exact metrics only. Prints exact and timed findings, and the distinct values of every exact metric.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXACT = ("operator_calls", "operator_set", "operator_shapes", "steps", "peak_memory", "memory_alloc")
CONDITIONS = {
    "one core": {"AFFINITY": "0"},
    "4 OpenMP threads asked for": {"OMP_NUM_THREADS": "4"},
    "no AVX": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "AVX2 only": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}


def run(report: Path, *options: str, environment: dict[str, str] | None = None) -> list[dict]:
    extra = dict(environment or {})
    affinity = extra.pop("AFFINITY", None)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--perfguard", f"--perfguard-report={report}", *options, "tests/models"],
        cwd=ROOT,
        env={**os.environ, **extra},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        preexec_fn=None if affinity is None else lambda: os.sched_setaffinity(0, {int(affinity)}),
    )
    return json.loads(report.read_text(encoding="utf-8"))["workloads"]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    values: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    exact, timed, invalid = Counter(), Counter(), 0
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"

        def count(workloads: list[dict]) -> None:
            nonlocal invalid
            for workload in workloads:
                invalid += workload["outcome"] == "INVALID"
                for finding in workload["findings"]:
                    where = exact if finding["place"].startswith(EXACT) else timed
                    if finding["code"].startswith("R"):
                        where[f"{finding['code']} {finding['severity']} {workload['workload']} {finding['place']}"] += 1
                for one in workload["measurements"]:
                    if one["metric"].startswith(EXACT):
                        key = (workload["workload"], one["metric"], one["subject"])
                        values[key].add(json.dumps(one["value"], sort_keys=True))

        for number in range(1, runs + 1):
            count(run(report))
            print(f"run {number}/{runs}: {sum(exact.values())} exact, {sum(timed.values())} timed findings", flush=True)
        for title, environment in CONDITIONS.items():
            count(run(report, "--perfguard-time=off", environment=environment))
            print(f"{title}: {sum(exact.values())} exact findings so far", flush=True)
    print(f"\n{runs} runs and {len(CONDITIONS)} conditions, {invalid} INVALID recordings")
    print(f"exact metrics: {len(values)}, with more than one value: {sum(len(v) > 1 for v in values.values())}")
    print(f"exact findings: {sum(exact.values())}; timed findings: {sum(timed.values())}")
    for finding, times in (exact + timed).most_common():
        print(f"  {times} x {finding}")


if __name__ == "__main__":
    main()
