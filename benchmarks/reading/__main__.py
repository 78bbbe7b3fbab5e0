"""What reading costs, perfguard beside others: one command, one table, one JSON file.

Run: python -m benchmarks.reading [--quick] [--only JOB ...] [--sizes MB ...] [--rounds N] [--peers DIR] [--json FILE]
     python -m benchmarks.reading --again FILE      (the table of an earlier run)

Every candidate is a fresh process; in a round each runs once, one after the other, and the order turns from round to round.
Figures are medians of the rounds: CPU seconds (user + system, with all children, start-up included) and the peak of the
largest process as os.wait4 has them, wall seconds beside them. A sampled candidate's CPU time is extrapolated: marked with ≈.
A peak has a floor of about 20 MB, which is what a process that starts another hands on.
--peers makes an environment of its own for the other tools, once; without it they are left out.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.reading import cases as table
from benchmarks.reading import peers, report
from benchmarks.reading.inputs import prepared
from benchmarks.reading.process import Spent, spend

ROOT = Path(__file__).parents[2]
_PACKAGES = ("perfguard", "polars", "msgspec", "numpy", "jsonschema", "orjson", "isal", "torch")


def main() -> None:
    asked = _arguments()
    if asked.again is not None:
        print(report.text(json.loads(asked.again.read_text(encoding="utf-8"))))
        return
    if asked.scratch is not None:
        asked.scratch.mkdir(parents=True, exist_ok=True)
        measured(asked, asked.scratch.resolve())
        return
    with tempfile.TemporaryDirectory(prefix="perfguard-reading-") as scratch:
        measured(asked, Path(scratch))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--quick", action="store_true", help="small inputs only: minutes, and figures of start-up mostly"
    )
    parser.add_argument("--only", nargs="+", choices=table.JOBS, metavar="JOB", help=", ".join(table.JOBS))
    parser.add_argument("--sizes", nargs="+", type=float, metavar="MB", help="traces: 10 100 500 1000; 4000 on demand")
    parser.add_argument("--rows", nargs="+", type=int, help="tables: 500000 5000000")
    parser.add_argument("--ranks", nargs="+", type=int, help="1 64 1024")
    parser.add_argument("--gpu-sizes", nargs="+", type=float, metavar="MB", help="35 200")
    parser.add_argument(
        "--without", nargs="+", default=(), metavar="NAME", help="candidates to leave out, by their names"
    )
    parser.add_argument("--scratch", type=Path, help="keep the inputs here (default: a temporary folder)")
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="the other tools' environment; made there if it is not"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    parser.add_argument("--again", type=Path, metavar="FILE", help="print the table of an earlier run")
    parser.add_argument(
        "--memory-limit", type=float, metavar="GB", help="end what needs more (default: 80 %% of what is free)"
    )
    parser.add_argument("--time-limit", type=float, default=900, metavar="S", help="end what takes longer")
    return parser.parse_args()


def measured(asked: argparse.Namespace, scratch: Path) -> None:
    """Make the inputs, run every case, and print and write what came of it; the JSON file is written after every case."""
    extent = _extent(asked)
    jobs = asked.only or table.JOBS
    python = peers.python_of(asked.peers.resolve()) if asked.peers else None
    needed = table.names(extent, jobs, peers=python is not None)
    wanted = dict.fromkeys(name for names in needed.values() for name in names)
    inputs = {}
    for name in wanted:
        _tell(f"input {name}")
        inputs[name] = prepared(name, scratch)
    output = scratch / "output"
    output.mkdir(exist_ok=True)
    bench = table.Bench(inputs=inputs, peers=python, output=output)
    limit = int(asked.memory_limit * 1e9) if asked.memory_limit else int(0.8 * _free_bytes())
    document: dict[str, Any] = {
        "format": 1,
        "rounds": asked.rounds,
        "memory_limit_bytes": limit,
        "time_limit_s": asked.time_limit,
        "machine": machine(),
        "packages": _versions(),
        "peers": peers.versions(python) if python else {},
        "inputs": {name: one.facts for name, one in inputs.items()},
        "left_out": _left_out(jobs, python is not None),
        "cases": [],
    }
    for case in table.cases(extent, jobs, bench):
        kept = tuple(one for one in case.candidates if one.name not in asked.without)
        document["cases"].append(_run(replace(case, candidates=kept), asked, limit, scratch))
        if asked.json is not None:
            asked.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(report.text(document))


def _extent(asked: argparse.Namespace) -> table.Extent:
    extent = table.QUICK if asked.quick else table.FULL
    named = {"sizes": asked.sizes, "rows": asked.rows, "ranks": asked.ranks, "gpu_sizes": asked.gpu_sizes}
    return replace(extent, **{name: tuple(value) for name, value in named.items() if value})


def _left_out(jobs: Iterable[str], has_peers: bool) -> list[str]:
    told = []
    if not has_peers and (lost := [job for job in jobs if job in ("gpu", "diff", "pair")]):
        told.append(f"{', '.join(lost)}: the other tools were left out; --peers DIR makes their environment")
    return told


def _run(case: table.Case, asked: argparse.Namespace, limit: int, scratch: Path) -> dict[str, Any]:
    """Run one case: every candidate once a round. One that fails is not run again."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found: dict[str, list[dict[str, Any]]] = {one.name: [] for one in case.candidates}
    failed: dict[str, str] = {}
    for number in range(asked.rounds):
        turned = case.candidates[number % len(case.candidates) :] + case.candidates[: number % len(case.candidates)]
        for candidate in turned:
            if candidate.name in failed:
                continue
            _tell(f"{case.title}: round {number + 1} of {asked.rounds}, {candidate.name}")
            load = os.getloadavg()[0]
            spent = spend(
                candidate.command, cwd=_place_of(candidate, scratch), environment=environment,
                memory_limit=limit, time_limit_s=asked.time_limit,
            )  # fmt: skip
            if (failure := _failure(candidate, spent)) is not None:
                failed[candidate.name] = failure
                print(f"{case.title}: {candidate.name}: {failure} {spent.said.get('error', '')}", file=sys.stderr)
            found[candidate.name].append(_row(candidate, spent) | {"load": round(load, 2)})
    return {
        "job": case.job,
        "title": case.title,
        "mb": round(case.mb, 3),
        "reference": case.reference,
        "target": dict(case.target),
        "candidates": [
            {"name": one.name, "failure": failed.get(one.name), "rounds": found[one.name]} for one in case.candidates
        ],
    }


def _place_of(candidate: table.Candidate, scratch: Path) -> Path:
    # `perfguard compare` reads the settings of the project it runs in, and this one's are not meant.
    return scratch if "compare" in candidate.command else ROOT


def _failure(candidate: table.Candidate, spent: Spent) -> str | None:
    if spent.failure is not None:
        return spent.failure
    if spent.status not in candidate.statuses:
        return f"exit status {spent.status}"
    # A figure of other work is none.
    wrong = [f"{spent.said[key]} {key}, not {count}" for key, count in candidate.expects.items()
             if spent.said.get(key, count) != count]  # fmt: skip
    return f"found {', '.join(wrong)}" if wrong else None


def _row(candidate: table.Candidate, spent: Spent) -> dict[str, Any]:
    said = {key: value for key, value in spent.said.items() if key != "error"}
    before_s = said.pop("cpu_before_s", None)
    cpu_s = spent.cpu_s
    if candidate.rows is not None and said.get("sampled") and before_s is not None:
        cpu_s = before_s + (cpu_s - before_s) * candidate.rows / said["sampled"]
    return {
        "cpu_s": round(cpu_s, 4),
        "measured_cpu_s": round(spent.cpu_s, 4),
        "cpu_before_s": None if before_s is None else round(before_s, 4),
        "wall_s": round(spent.wall_s, 4),
        "peak_bytes": spent.peak_bytes,
        "tree_peak_bytes": spent.tree_peak_bytes,
        "found": said,
    }


# -- the machine -----------------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """Return what the figures were measured on; no name, no path."""
    models = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = next((int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def _free_bytes() -> int:
    return next(int(line.split()[1]) * 1024 for line in _lines("/proc/meminfo") if line.startswith("MemAvailable"))


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:110]}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
