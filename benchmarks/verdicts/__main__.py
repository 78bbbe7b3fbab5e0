"""How often each rule is wrong, and what it sees: one command, one table, one JSON file.

Run: python -m benchmarks.verdicts [--rounds N] [--models mlp,cnn,lenet] [--noise none,cpu,memory] [--json FILE]
     python -m benchmarks.verdicts --again FILE      (the table of an earlier run)

Every process is fresh. In a round each kind of process runs once for every slowdown and more often for none, in random
order, so that the machine's moods fall on all of them alike. Of what is resampled the table says, in brackets, how many
independent groups stand behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from operator import truediv
from pathlib import Path
from typing import Any

from benchmarks.verdicts import rules
from benchmarks.verdicts.workloads import BACKENDS
from perfguard.capture.controlled import controlled_environment
from perfguard.judge.ledger import Cause, Ledger

ROOT = Path(__file__).parents[2]
SLOWDOWNS = (0.02, 0.05, 0.09, 0.17, 0.32)
#: Slowdowns that are timed side by side, and that the other tools' rules are given; more of them say nothing more.
PAIRED_METRICS = (0.05, 0.09)
PLAIN = (0.05, 0.09, 0.17)
STALL_S = 0.002
SLOWER = "an operator made slower"
BLOCK = 5

NOISE = {
    "none": None,
    "cpu": "while True: pass",
    "memory": "import array\na = array.array('d', bytes(1 << 28))\nwhile True: b = a[:]",
}


def run(what: str, *, controlled: bool, **arguments: Any) -> dict[str, Any] | None:
    """Run one process and return what it printed; None where it failed, which is told."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if controlled:
        environment = controlled_environment(environment, threads=1)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.verdicts.process", what, json.dumps(arguments)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        print(f"{what} {arguments} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(lines[-1])
    return found


@contextlib.contextmanager
def noisy(kind: str) -> Iterator[None]:
    """Keep as many hogs running as there are CPUs."""
    code = NOISE[kind]
    hogs = [] if code is None else [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def products_for(model: str, slowdowns: Sequence[float] = SLOWDOWNS) -> dict[float, int]:
    """Return how many products make each slowdown of a model's step.

    Measured step by step in one process, with so many products planted and without: the CPU time of a product depends on how
    many there are, and that of a step on the moment.
    """

    def slower(products: int, processes: int) -> float:
        jobs = [{"model": model, "products": products, "sleep_s": 0.0}] * processes
        found = [run("paired", controlled=True, **job) for job in jobs]
        return statistics.median(
            statistics.median(map(truediv, one["current_ns"], one["base_ns"])) - 1 for one in found if one
        )

    products = 50
    while (share := slower(products, 1)) < 0.1:
        products *= 4
    chosen = {}
    for slowdown in slowdowns:
        count = max(1, round(slowdown / share * products))
        chosen[slowdown] = max(1, round(slowdown / max(slower(count, 5), slowdown / 2) * count))
    return chosen


def collect(model: str, noise: str, rounds: int, products: dict[float, int]) -> dict[str, list[dict[str, Any]]]:
    """Run the rounds of one model, and return the processes by kind and slowdown, in the order they ran."""
    found: dict[str, list[dict[str, Any]]] = {}
    slowdowns = SLOWDOWNS if noise == "none" else (0.17,)
    for number in range(rounds):
        jobs = [("controlled", level) for level in (0.0, 0.0, 0.0, *slowdowns)]
        jobs += [("plain", level) for level in (0.0, 0.0, *(level for level in PLAIN if level in slowdowns))]
        jobs += [("paired", level) for level in (0.0, *(PAIRED_METRICS if noise == "none" else (0.09,)))]
        if noise == "none":
            jobs.append(("controlled", -1.0))
        random.shuffle(jobs)
        for what, level in jobs:
            sleep_s = STALL_S if level < 0 else 0.0
            count = products[level] if level > 0 else 0
            one = run(what, controlled=what != "plain", model=model, products=count, sleep_s=sleep_s)
            if one is not None:
                found.setdefault(f"{what} {level:g}", []).append(one)
        print(f"{model}, {noise} noise: round {number + 1} of {rounds}", file=sys.stderr)
    return found


def exact(model: str, rounds: int) -> dict[str, dict[str, int]]:
    """Record the model unchanged and with something more, and count what the gate says of exact metrics alone."""
    from perfguard.capture.replay import replay
    from perfguard.gate import compare, examine
    from perfguard.judge.tolerance import Policy
    from perfguard.judge.verdict import Outcome

    policy = Policy(judge_time=False)
    # In a graph of MindSpore nothing can be planted beside the step.
    planted: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {"unchanged": ({}, {})}
    if BACKENDS[model] == "torch":
        planted |= {
            "one operator more": ({}, {"more": True}),
            "+1 MB a step": ({}, {"kept_bytes": 1 << 20}),
            SLOWER: ({"reads": "rows"}, {"reads": "columns"}),
        }
    counts = {name: {"processes": 0, "red": 0} for name in planted}
    with tempfile.TemporaryDirectory() as directory:

        def verdict(name: str, number: int, changes: dict[str, Any]) -> Any:
            place = str(Path(directory) / f"{name}-{number}")
            if run("profiled", controlled=False, model=model, directory=place, **changes) is None:
                return None
            return examine(replay(Path(place)), workload=model, policy=policy)

        for name, (before, after) in planted.items():
            base = verdict(f"base of {name}", 0, before)
            for number in range(rounds):
                current = verdict(name, number, after)
                if base is None or current is None:
                    continue
                found = compare(base, current, policy=policy)
                counts[name]["processes"] += 1
                counts[name]["red"] += found.outcome is not Outcome.PASSED
                if name == SLOWER:
                    counts[name].setdefault("named by the ledger", 0)
                    counts[name]["named by the ledger"] += is_first(found.ledger, "aten::add")
    return counts


def is_first(found: Ledger | None, operator: str) -> bool:
    """Whether the largest part of a ledger is this operator, slower per call."""
    if found is None:
        return False
    largest = max(found.entries, key=lambda entry: entry.change_ns)
    return (largest.cause, largest.subject) == (Cause.PER_CALL, operator)


# -- the table ---------------------------------------------------------------------------------------------------------


def blocks(processes: Sequence[dict[str, Any]]) -> dict[int, Sequence[dict[str, Any]]]:
    """Return every five processes in a row, by where they begin."""
    return {first: processes[first : first + BLOCK] for first in range(len(processes) - BLOCK + 1)}


def realised(processes: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Return by how much each planted step really is slower, by kind of process.

    Controlled: median over median of the cost. Side by side: the median over the processes of the median over their pairs,
    which is the surer.
    """
    found = {}
    for name, planted in processes.items():
        what, _, level = name.partition(" ")
        if what == "paired":
            ratios = [
                statistics.median(
                    after / before for before, after in zip(one["base_ns"], one["current_ns"], strict=True)
                )
                for one in planted
            ]
            found[name] = statistics.median(ratios) - 1
        elif what == "controlled" and float(level) > 0:
            sides = [[rules.cost(one) for one in side] for side in (processes["controlled 0"], planted)]
            found[name] = statistics.median(sides[1]) / statistics.median(sides[0]) - 1
    return found


def levels_of(processes: dict[str, list[dict[str, Any]]]) -> list[float]:
    """Return the slowdowns that were planted in any of the processes."""
    return [level for level in SLOWDOWNS if any(name.endswith(f" {level:g}") for name in processes)]


def rates(processes: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return, for every rule and slowdown, how many decisions were red, of how many, and how many of them share nothing."""
    levels = levels_of(processes)
    rows = []
    plain0, controlled0 = processes.get("plain 0", []), processes.get("controlled 0", [])
    for name, rule in rules.SINGLE.items():
        for level in (0.0, *levels):
            current = processes.get(f"plain {level:g}", [])
            pairs = [(i, j) for i in range(len(plain0)) for j in range(len(current)) if level or i != j]
            red = sum(rule([plain0[i]], [current[j]]) for i, j in pairs)
            rows.append(row(name, level, red, len(pairs), min(len(plain0), len(current)) // (1 if level else 2)))
    for name, rule in rules.OF_FIVE.items():
        for level in (0.0, *levels):
            current = processes.get(f"controlled {level:g}", [])
            pairs = [
                (one, other)
                for at, one in blocks(controlled0).items()
                for where, other in blocks(current).items()
                if level or abs(at - where) >= BLOCK
            ]
            red = sum(rule(one, other) for one, other in pairs)
            independent = min(len(controlled0), len(current)) // (BLOCK if level else 2 * BLOCK)
            rows.append(row(name, level, red, len(pairs), independent))
    for name, sensitive in (("A/B step by step, +5 %", False), ("A/B step by step, sensitive (+3 %)", True)):
        for level in (0.0, *levels):
            found = processes.get(f"paired {level:g}", [])
            sessions = list(blocks(found).values())
            if not level:
                # Nothing is planted, so either side may be called the base.
                swapped = [{"base_ns": one["current_ns"], "current_ns": one["base_ns"]} for one in found]
                sessions += list(blocks(swapped).values())
            if sessions:
                red = sum(rules.beside(one, sensitive) for one in sessions)
                rows.append(row(name, level, red, len(sessions), len(found) // BLOCK))
    return rows


def row(rule: str, level: float, red: int, decisions: int, independent: int) -> dict[str, Any]:
    """Return one line of the result."""
    return {"rule": rule, "planted": level, "red": red, "decisions": decisions, "independent": independent}


def stalls(processes: dict[str, list[dict[str, Any]]]) -> dict[str, int] | None:
    """Count processes whose steps stood still for longer than is allowed beyond a baseline that never did."""
    from perfguard import thresholds
    from perfguard.measure.runs import run_blocked_time
    from perfguard.timing import Timing

    counts = {}
    for name, key in (("unchanged", "controlled 0"), ("stalled", "controlled -1")):
        timings = [Timing.from_dict(one) for one in processes.get(key, [])]
        still = [found for timing in timings if (found := run_blocked_time(timing)) is not None]
        counts[name] = len(still)
        counts[f"{name}, beyond the tolerance"] = sum(one > thresholds.STALL_US for one in still)
    return counts if counts["stalled"] else None


def results(processes: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return what the processes of one model come to."""
    return {"realised": realised(processes), "rates": rates(processes), "stalls": stalls(processes)}


def table(result: dict[str, Any]) -> str:
    """Return the result as text."""
    from tabulate import tabulate

    parts = []
    for one in result["arms"]:
        levels = levels_of(one["processes"])
        head = ["rule", "false alarms in 100"]
        for level in levels:
            size = one["realised"].get(f"controlled {level:g}")
            head.append(f"caught, planted +{100 * level:.0f} %" if size is None else f"caught at +{100 * size:.1f} %")
        by_rule: dict[str, dict[float, dict[str, Any]]] = {}
        for line in one["rates"]:
            by_rule.setdefault(line["rule"], {})[line["planted"]] = line
        rows = []
        for rule, lines in by_rule.items():
            cells = [cell(lines.get(level)) for level in (0.0, *levels)]
            if rule.startswith("A/B"):
                own = [one["realised"].get(f"paired {level:g}") for level in (0.0, *levels)]
                cells = [
                    text if size is None else f"{text} at {100 * size:+.1f} %"
                    for text, size in zip(cells, own, strict=True)
                ]
            rows.append([rule, *cells])
        parts.append(
            f"{one['model']}, noise: {one['noise']}\n" + str(tabulate(rows, headers=head, disable_numparse=True))
        )
        unchanged = one["processes"].get("controlled 0", [])
        if len(unchanged) > 1:
            spreads = [f"{100 * rules.spread(unchanged, power):.1f} % (^{power:g})" for power in (0.0, 1.0, 1.6, 2.0)]
            parts.append(
                f"spread between {len(unchanged)} unchanged processes, by the kernel's power: {', '.join(spreads)}"
            )
        if one["stalls"]:
            parts.append(f"a stall of {1e3 * STALL_S:.0f} ms: {one['stalls']}")
    for model, counts in result["exact"].items():
        said = ", ".join(f"{name}: {count['red']} of {count['processes']} red" for name, count in counts.items())
        parts.append(f"{model}, exact metrics: {said}")
        if SLOWER in counts:
            slower = counts[SLOWER]
            parts[-1] += f"; the ledger named it first in {slower['named by the ledger']} of {slower['processes']}"
    return "\n\n".join(parts)


def cell(line: dict[str, Any] | None) -> str:
    """Return a rate with the number of independent groups behind it."""
    if line is None or not line["decisions"]:
        return "-"
    return f"{100 * line['red'] / line['decisions']:.1f} ({line['independent']})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--models", default=",".join(BACKENDS))
    parser.add_argument("--noise", default="none,cpu,memory")
    parser.add_argument("--json", type=Path, default=Path("verdicts.json"))
    parser.add_argument("--again", type=Path)
    options = parser.parse_args()
    if options.again is not None:
        again = json.loads(options.again.read_text(encoding="utf-8"))
        for one in again["arms"]:
            # By the rules of today, from the processes of then.
            one |= results(one["processes"])
        print(table(again))
        return
    began = time.time()
    result: dict[str, Any] = {"arms": [], "exact": {}, "cpus": os.cpu_count()}
    for model in options.models.split(","):
        products = products_for(model)
        result["exact"][model] = exact(model, max(2, options.rounds // 4))
        for noise in options.noise.split(","):
            with noisy(noise):
                processes = collect(model, noise, options.rounds if noise == "none" else options.rounds // 2, products)
            result["arms"].append({"model": model, "noise": noise, **results(processes), "processes": processes})
            result["minutes"] = round((time.time() - began) / 60, 1)
            options.json.write_text(json.dumps(result), encoding="utf-8")
    print(table(result))


if __name__ == "__main__":
    main()
