"""How often the gate is wrong on a busy machine, and how often it sees +17 % on a quiet one: whole runs of the gate.

Run: python -m benchmarks.under_load [--groups N] [--times N,N,N] [--planted N] [--models NAME,...] [--json FILE]
     python -m benchmarks.under_load --again FILE      (the table of an earlier run)

A group is a repository of its own with fresh baselines, made beside nothing. In it the unchanged suite is judged beside 0, 2
and 6 busy processes (loops, copies of memory, a compiler), in random order, and with +17 % planted beside none in each model
that can be made slower.
A file that is there already is added to. A decision is the verdict on one model. Decisions of one group share their baselines:
in brackets, how many groups there are.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.load import busy
from benchmarks.verdicts import workloads
from benchmarks.verdicts.__main__ import ROOT, products_for
from benchmarks.verdicts.workloads import BACKENDS as PLANTABLE

#: Models judged unchanged only, and the framework each needs.
UNCHANGED = {"transformer": "torch", "inference": "torch", "block": "mindspore"}
BACKENDS = {**PLANTABLE, **UNCHANGED}
PLANTED = 0.17
LOADS = (0, 2, 6)
OUTCOMES = ("PASSED", "INCONCLUSIVE", "FAILED")

TESTS = """
import json
from pathlib import Path
import perfguard as pg
import pytest
from benchmarks.under_load import step_of

pytestmark = pytest.mark.perfguard(backend="{backend}", window=pg.StepWindow(skip_first=3, warmup=1, active=2))
PRODUCTS = json.loads((Path(__file__).parent / "products.json").read_text())

@pytest.mark.parametrize("model", {models})
def test(perfguard, model):
    perfguard(step_of(model, PRODUCTS.get(model, 0)))
"""
#: What is planted is one operator more, which the exact metrics would see: here time alone is asked.
SETTINGS = """
[tool.pytest.ini_options]

[tool.perfguard.tolerance]
operator_set = "off"
operator_calls = "off"
operator_shapes = "off"
memory_allocations = "off"
memory_allocated_bytes = "off"
peak_memory_bytes = "off"
memory_growth_bytes = "off"
"""

Decision = dict[str, Any]


def step_of(model: str, products: int) -> Any:
    """Return one step of a model, with so many products planted where it can be made slower."""
    if model in PLANTABLE:
        return workloads.step_of(model, products=products)
    if UNCHANGED[model] == "torch":
        from tests.models import torch_nets

        return torch_nets.inference_step() if model == "inference" else torch_nets.transformer_step()
    import mindspore

    from tests.models import mindspore_nets

    mindspore_nets.on_cpu()
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    return mindspore_nets.transformer_step()


def git(directory: Path, *words: str) -> None:
    """Run git in a repository."""
    who = ["-c", "user.email=perfguard@example.org", "-c", "user.name=perfguard"]
    subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True)


def pytest_run(directory: Path, *arguments: str) -> dict[str, Any]:
    """Run pytest; return its report, and how long it took."""
    began = time.monotonic()
    report = directory.parent / "report.json"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", f"--perfguard-report={report}", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if not report.is_file():
        raise SystemExit(f"pytest {' '.join(arguments)} left no report:\n{done.stdout[-3000:]}")
    return {**json.loads(report.read_text(encoding="utf-8")), "wall_s": time.monotonic() - began}


def decisions(report: dict[str, Any], **kind: Any) -> Iterator[Decision]:
    """Yield the verdict on each model of a run, and what led to it."""
    for one in report["workloads"]:
        model = one["workload"].partition("[")[2].rstrip("]")
        by_metric = {m["metric"]: m["value"] for m in one["measurements"]}
        yield {
            **kind,
            "model": model,
            "outcome": one["outcome"],
            "codes": sorted({f["code"] for f in one["findings"] if f["severity"] != "note"}),
            "first": one["findings"][0]["message"] if one["findings"] else "",
            "processes": len(one["timings"]),
            "beside": by_metric.get("step_ab"),
            "load": by_metric.get("run_machine_load"),
            "wall_s": report["wall_s"],
        }


def group(
    number: int, models: Sequence[str], times: Sequence[int], planted: int, products: dict[str, int]
) -> Iterator[Decision]:
    """Make a repository with baselines, and judge it; yield the decisions."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "project"
        directory.mkdir()
        (directory / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
        (directory / ".gitignore").write_text("__pycache__\n.pytest_cache\n", encoding="utf-8")
        (directory / "products.json").write_text("{}", encoding="utf-8")
        for backend in {BACKENDS[model] for model in models}:
            chosen = [model for model in models if BACKENDS[model] == backend]
            source = TESTS.format(backend=backend, models=chosen)
            (directory / f"test_{backend}.py").write_text(source, encoding="utf-8")
        git(directory, "init", "-q")
        git(directory, "add", "-A")
        git(directory, "commit", "-qm", "models")
        pytest_run(directory, "--perfguard-update")
        git(directory, "add", "-A")
        git(directory, "commit", "-qm", "baselines")
        kinds = [("unchanged", load) for load, count in zip(LOADS, times, strict=True) for _ in range(count)]
        kinds += [("planted", 0)] * planted
        for what, load in random.sample(kinds, len(kinds)):
            text = json.dumps(products if what == "planted" else {})
            (directory / "products.json").write_text(text, encoding="utf-8")
            with busy(load):
                report = pytest_run(directory, "--perfguard")
            for one in decisions(report, group=number, busy=load):
                yield {**one, "what": what if one["model"] in PLANTABLE else "unchanged"}


def tables(result: dict[str, Any]) -> str:
    """Return the result as text."""
    from tabulate import tabulate

    rows = []
    found = result["decisions"]
    models = [model for model in BACKENDS if any(one["model"] == model for one in found)]
    for what, load in (*(("unchanged", load) for load in LOADS), ("planted", 0)):
        for model in (*models, "all"):
            chosen = [
                one for one in found if (one["what"], one["busy"]) == (what, load) and model in (one["model"], "all")
            ]
            if not chosen:
                continue
            counts = Counter(one["outcome"] for one in chosen)
            confirmed = [one["beside"] for one in chosen if one["beside"] is not None]
            rows.append(
                [
                    f"+{100 * PLANTED:.0f} %" if what == "planted" else "unchanged",
                    load,
                    model,
                    f"{len(chosen)} ({len({one['group'] for one in chosen})})",
                    *(counts[outcome] for outcome in OUTCOMES),
                    len(confirmed),
                    f"{100 * (statistics.median(confirmed) - 1):+.1f} %" if confirmed else "-",
                    f"{sum(one['wall_s'] for one in chosen) / len(chosen):.0f} s",
                ]
            )
    head = [
        "code",
        "busy processes",
        "model",
        "decisions (groups)",
        *OUTCOMES,
        "run side by side",
        "median there",
        "a run takes",
    ]
    text = str(tabulate(rows, headers=head, disable_numparse=True))
    red = [one for one in found if one["what"] == "unchanged" and one["outcome"] == "FAILED"]
    return "\n".join([text, *(f"false: {one['model']} beside {one['busy']}: {one['first']}" for one in red)])


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.under_load", description=__doc__)
    parser.add_argument("--groups", type=int, default=3)
    parser.add_argument(
        "--times", default="5,4,3", help=f"unchanged runs in a group, beside each of {LOADS} busy processes"
    )
    parser.add_argument("--planted", type=int, default=1, help="runs with +17 %% in a group")
    parser.add_argument("--models", default=",".join(BACKENDS))
    parser.add_argument("--json", type=Path, default=Path("under-load.json"))
    parser.add_argument("--again", type=Path)
    options = parser.parse_args()
    if options.again is not None:
        print(tables(json.loads(options.again.read_text(encoding="utf-8"))))
        return
    models = options.models.split(",")
    times = [int(count) for count in options.times.split(",")]
    products = (
        {model: products_for(model, [PLANTED])[PLANTED] for model in models if model in PLANTABLE}
        if options.planted
        else {}
    )
    result: dict[str, Any] = {"decisions": [], "products": products, "cpus": os.cpu_count()}
    if options.json.is_file():
        result = json.loads(options.json.read_text(encoding="utf-8"))
    known = {one["group"] for one in result["decisions"]}
    for number in range(len(known), len(known) + options.groups):
        for one in group(number, models, times, options.planted, products):
            result["decisions"].append(one)
            options.json.write_text(json.dumps(result), encoding="utf-8")
        print(f"group {number + 1}", file=sys.stderr)
    print(tables(result))


if __name__ == "__main__":
    main()
