"""What shared processes save, and what they cost in certainty: the same tests with shared processes and all isolated.

Run: python -m benchmarks.rounds [--groups N] [--models mlp,cnn,lenet] [--json FILE] [--quick] [--before DIR]
     python -m benchmarks.rounds --again FILE      (the tables of an earlier run)

The first tables are the wall and CPU time of a refresh and of a judged run of two projects, and of the same runs without any
timed process ("time off"), which sharing cannot shorten; with `--before` also with the perfguard of an earlier checkout,
whose environment is its .venv. A file that is there is added to.

The last table is of verdicts: real sessions of pytest refresh a project of the models of `benchmarks.verdicts` and of
others beside them, unchanged and with +17 % planted; each has five processes a model, which are one group. The rule of a stored
baseline then decides of every two groups. "One suspect" is what a judged run does: its first process is shared, the other four
are the suspect's own. Sessions of all kinds take turns in random order, so that the machine's moods fall on all alike. In
brackets: how many groups that share no process stand behind a figure.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.agreement.__main__ import commit, new_project
from benchmarks.agreement.plants import TESTS
from benchmarks.verdicts import rules
from benchmarks.verdicts.__main__ import ROOT, products_for
from benchmarks.verdicts.workloads import BACKENDS

#: What is refreshed and judged: the models of this repository, and the project of `benchmarks.agreement`.
MODELS, USERS = "tests/models (7 tests)", "a user's project (10 tests)"
PLANTED = 0.17
PROCESSES = 5
WAYS = ("isolated", "shared")
#: What is given to pytest for a run that is only timed.
OPTIONS = {"isolated": ("-p", "benchmarks.isolated"), "shared": (), "time off": ("--perfguard-time=off",)}
BEFORE = "before"

#: The models that are judged, in files of their framework, and what shares their processes.
HEAD = """
import json
import os
import perfguard as pg
import pytest
from benchmarks.verdicts.workloads import step_of

IN_A_PROCESS = "PERFGUARD_CONTROLLED" in os.environ
window = pg.StepWindow(skip_first=3, warmup=1, active=2)

def planted(model):
    return step_of(model, products=json.loads(os.environ["PRODUCTS"]).get(model, 0) if IN_A_PROCESS else 0)
"""
FILES = {
    "torch": HEAD
    + """
pytestmark = pytest.mark.perfguard(backend="torch", window=window)

def test_beside_transformer(perfguard):
    from tests.models.torch_nets import transformer_step
    perfguard(transformer_step())

def test_mlp(perfguard):
    perfguard(planted("mlp"))

def test_beside_inference(perfguard):
    from tests.models.torch_nets import inference_step
    perfguard(inference_step())

def test_cnn(perfguard):
    perfguard(planted("cnn"))
""",
    "mindspore": HEAD
    + """
pytestmark = pytest.mark.perfguard(backend="mindspore", window=window)

def test_lenet(perfguard):
    perfguard(planted("lenet"))

def test_beside_transformer(perfguard):
    import mindspore
    from tests.models.mindspore_nets import on_cpu, transformer_step
    on_cpu()
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    perfguard(transformer_step())
""",
}

Process = dict[str, Any]
#: Of every way, the groups of five processes of a model.
Groups = dict[str, list[list[Process]]]


def pytest_run(
    directory: Path, *arguments: str, environment: dict[str, str] | None = None, checkout: Path = ROOT
) -> dict[str, float]:
    """Run pytest, and return the seconds it took by the clock and of CPUs, with all processes that it started."""
    python = sys.executable if checkout == ROOT else checkout / ".venv/bin/python"
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(checkout), **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print(
            f"pytest {' '.join(arguments)} ended with status {done.returncode}:\n{done.stdout[-2000:]}", file=sys.stderr
        )
    cpu_s = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return {"wall_s": time.monotonic() - began, "cpu_s": cpu_s, "status": done.returncode}


# -- what it takes -----------------------------------------------------------------------------------------------------


def took(select: Sequence[str], before: Path | None) -> list[dict[str, Any]]:
    """Refresh and judge each project once: each way, without timed processes, and with the checkout of `before`."""
    rows = []
    ways = [*OPTIONS, *([BEFORE] if before is not None else [])]
    with tempfile.TemporaryDirectory() as place:
        for project, way in random.sample([*product((MODELS, USERS), ways)], 2 * len(ways)):
            checkout = before if way == BEFORE and before is not None else ROOT
            if project == MODELS:
                directory = checkout
                more = [f"--perfguard-baselines={place}/{way.replace(' ', '-')}", *select, "tests/models"]
            else:
                directory, more = Path(place) / f"{way}-project", [TESTS]
                new_project(directory)
                commit(directory)
            more += OPTIONS.get(way, ())
            for what, flag in (("refresh", "--perfguard-update"), ("judged run", "--perfguard")):
                found = pytest_run(directory, flag, *more, checkout=checkout)
                rows.append({"project": project, "way": way, "what": what, **found})
                print(f"{project}, {way}: {what} {found['wall_s']:.0f} s", file=sys.stderr)
    return rows


# -- what it decides ---------------------------------------------------------------------------------------------------


def session(models: Sequence[str], way: str, products: dict[str, int]) -> dict[str, list[Process]]:
    """Refresh the project once; return the five processes of each model, without those that lost one."""
    chosen = " or ".join((*(f"test_{model}" for model in models), *(["beside"] if way == "shared" else [])))
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        (directory / "pyproject.toml").write_text("[tool.pytest.ini_options]\n[tool.perfguard]\n", encoding="utf-8")
        for backend in {BACKENDS[model] for model in models}:
            (directory / f"test_{backend}.py").write_text(FILES[backend], encoding="utf-8")
        arguments = [f"--perfguard-runs={PROCESSES}", "--perfguard-report=report.json", "-k", chosen]
        pytest_run(
            directory,
            *("--perfguard-update", *arguments, *OPTIONS[way]),
            environment={"PRODUCTS": json.dumps(products)},
        )
        report = json.loads((directory / "report.json").read_text(encoding="utf-8"))
    found = {one["workload"].rpartition("::test_")[2]: one["timings"] for one in report["workloads"]}
    kept = {model: found.get(model, []) for model in models}
    for model, timings in kept.items():
        if len(timings) != PROCESSES:
            print(f"{model}, {way}: {len(timings)} of {PROCESSES} processes, left out", file=sys.stderr)
    return {
        model: [{key: one[key] for key in ("process_cpu_ns", "calibration_ns")} for one in timings]
        for model, timings in kept.items()
        if len(timings) == PROCESSES
    }


def collect(
    models: Sequence[str], groups: int, products: dict[str, int], found: dict[str, Groups]
) -> Iterator[dict[str, Groups]]:
    """Run sessions of every kind in random order; yield what there is of each model after every round of them."""
    found = {model: dict(found.get(model, {})) for model in {**found, **dict.fromkeys(models)}}
    for number in range(groups):
        kinds = [(way, planted) for way in WAYS for planted in (False, True)]
        for way, planted in random.sample(kinds, len(kinds)):
            for model, five in session(models, way, products if planted else {}).items():
                found[model].setdefault(kind(way, planted), []).append(five)
        print(f"verdicts: round {number + 1} of {groups}", file=sys.stderr)
        yield found


def kind(way: str, planted: bool) -> str:
    """Return what groups are kept under."""
    return f"{way} planted" if planted else way


def one_suspect(shared: Sequence[list[Process]], isolated: Sequence[list[Process]]) -> list[list[Process]]:
    """Return groups as a judged run has them: the first process shared, the others the suspect's own."""
    return [[one[0], *other[1:]] for one, other in zip(shared, isolated, strict=False)]


def rate(base: Sequence[list[Process]], current: Sequence[list[Process]], *, planted: bool) -> str:
    """Return how many of 100 decisions are red; a group is not compared with what was measured beside it, unchanged."""
    rule = rules.OF_FIVE["stored baseline, +10 %"]
    pairs = [(i, j) for i in range(len(base)) for j in range(len(current)) if planted or i != j]
    if not pairs:
        return "-"
    red = sum(rule(base[i], current[j]) for i, j in pairs)
    independent = min(len(base), len(current)) // (1 if planted else 2)
    return f"{100 * red / len(pairs):.1f} ({independent})"


def rows_of(model: str, groups: Groups) -> list[list[str]]:
    """Return the lines of one model."""
    rows = []
    both = {
        planted: [groups.get(kind(way, planted), []) for way in ("shared", "isolated")] for planted in (False, True)
    }
    isolated = [one for group in groups.get("isolated", []) for one in group]
    for way in WAYS:
        unchanged, planted = groups.get(way, []), groups.get(kind(way, True), [])
        every = [one for group in unchanged for one in group]
        slower = [one for group in planted for one in group]
        rows.append(
            [
                model,
                way,
                f"{100 * rules.spread(every):.1f} %" if len(every) > 1 else "-",
                apart(isolated, every),
                rate(unchanged, unchanged, planted=False),
                f"{rate(unchanged, planted, planted=True)} at {apart(every, slower)}",
            ]
        )
    base = groups.get("shared", [])
    found = [rate(base, one_suspect(*both[planted]), planted=planted) for planted in (False, True)]
    rows.append([model, "shared, one suspect", "", "", *found])
    return rows


def apart(base: Sequence[Process], current: Sequence[Process]) -> str:
    """Return by how much the median cost of a step is higher."""
    if not base or not current:
        return "-"
    medians = [statistics.median(map(rules.cost, side)) for side in (base, current)]
    return f"{100 * (medians[1] / medians[0] - 1):+.1f} %"


# -- the tables --------------------------------------------------------------------------------------------------------


def tables(result: dict[str, Any]) -> str:
    """Return the result as text."""
    from tabulate import tabulate

    parts = []
    for project in dict.fromkeys(one["project"] for one in result["took"]):
        ran = [one for one in result["took"] if one["project"] == project]
        rows = []
        ways = [way for way in (BEFORE, *OPTIONS) if any(one["way"] == way for one in ran)]
        against = [way for way in (BEFORE, "isolated") if way in ways]
        for what in ("refresh", "judged run"):
            medians = {
                way: [
                    statistics.median(one[key] for one in ran if (one["what"], one["way"]) == (what, way))
                    for key in ("wall_s", "cpu_s")
                ]
                for way in ways
            }
            for place, name in enumerate(("wall", "CPU")):
                seconds = {way: medians[way][place] for way in ways}
                ratios = [f"{seconds['shared'] / seconds[way]:.2f} x" for way in against]
                rows.append([f"{what}, {name}", *(f"{one:.0f} s" for one in seconds.values()), *ratios])
        red = sum(one["status"] != 0 for one in ran)
        times = min(Counter((one["way"], one["what"]) for one in ran).values())
        head = f"{project}, medians of {times} or more, {red} of {len(ran)} runs were red"
        headers = ["", *ways, *(f"shared / {way}" for way in against)]
        parts.append(f"{head}\n{tabulate(rows, headers=headers, disable_numparse=True)}")
    lines = [row for model, groups in result["models"].items() for row in rows_of(model, groups)]
    head = [
        "model",
        "processes",
        "spread",
        "cost beside isolated",
        "false alarms in 100",
        f"+{100 * PLANTED:.0f} % caught",
    ]
    if lines:
        parts.append(str(tabulate(lines, headers=head, disable_numparse=True)))
    return "\n\n".join(parts)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rounds", description=__doc__)
    parser.add_argument("--groups", type=int, default=10, help="groups of five processes of each kind")
    parser.add_argument("--times", type=int, default=3, help="how often each project is refreshed and judged; 0: never")
    parser.add_argument("--models", default=",".join(BACKENDS))
    parser.add_argument(
        "--quick", action="store_true", help="one group of the MLP, and the projects once: two tests of tests/models"
    )
    parser.add_argument("--json", type=Path, default=Path("rounds.json"))
    parser.add_argument("--before", type=Path, help="an earlier checkout, with its environment in .venv")
    parser.add_argument("--again", type=Path)
    options = parser.parse_args()
    if options.again is not None:
        print(tables(json.loads(options.again.read_text(encoding="utf-8"))))
        return
    models = ["mlp"] if options.quick else options.models.split(",")
    result: dict[str, Any] = {"took": [], "models": {}, "cpus": os.cpu_count()}
    if options.json.is_file() and not options.quick:
        result = json.loads(options.json.read_text(encoding="utf-8"))

    def keep() -> None:
        options.json.write_text(json.dumps(result), encoding="utf-8")

    for _ in range(min(1, options.times) if options.quick else options.times):
        result["took"] += took(
            ["-k", "mlp_train"] if options.quick else [], options.before and options.before.resolve()
        )
        keep()
    groups = 1 if options.quick else options.groups
    products = {model: products_for(model, [PLANTED])[PLANTED] for model in models} if groups else {}
    earlier = result["models"]
    for result["models"] in collect(models, groups, products, earlier):
        keep()
    print(tables(result))


if __name__ == "__main__":
    main()
