"""What a history of a million measurements costs: its size, one more run, a trend, a list, an export.

    python -m benchmarks.history [--runs 1000] [--numbers 1000] [--place file postgres]

A run has five workloads with a fifth of the numbers each; eight numbers of a workload are of the whole, the others of
operators. The same is measured of a hundredth of the runs first, so that the last column says what a hundred times as many
cost. Seconds of the clock, each the median of five; commands are fresh processes, start-up included. PostgreSQL is measured
where it is installed, on a server of the benchmark's own (with its usual fsync).
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement
from perfguard.reports import RunReport
from perfguard.reports.document import report_json
from perfguard.stores.history import open_history
from perfguard.stores.history.archive import History
from perfguard.stores.history.entry import Entry, RunFacts, entry_of
from tests.facts import FINGERPRINT, HERE
from tests.histories import facts
from tests.postgres import programs, running

WORKLOADS = 5
ROUNDS = 5
WHOLE = (
    *("steps", "step_cost", "step_time", "step_cpu_time", "profiler_overhead"),
    *("peak_memory_bytes", "memory_allocations", "memory_allocated_bytes"),
)
TITLES = {
    "file": "SQLite",
    "postgres": "PostgreSQL",
}


def verdicts(number: int, numbers: int) -> list[Verdict]:
    """Return what one run measured: a little noise on everything that is timed."""
    noise = random.Random(number)
    found = []
    for workload in range(WORKLOADS):
        labels = [(metric, "") for metric in WHOLE[: numbers // WORKLOADS]]
        labels += [("operator_time", f"aten::operator_{one}") for one in range(numbers // WORKLOADS - len(labels))]
        measurements = tuple(
            Measurement(metric=metric, subject=subject, value=_value(metric, place, noise))
            for place, (metric, subject) in enumerate(labels)
        )
        found.append(
            Verdict(
                workload=f"tests/models/test_net.py::test_{workload}",
                outcome=Outcome.PASSED,
                findings=(),
                measurements=measurements,
                fingerprint=FINGERPRINT,
                environment=HERE,
            )
        )
    return found


def _value(metric: str, place: int, noise: random.Random) -> float:
    exact = metric == "steps" or "memory" in metric
    return 5 + place if exact else (10 + place) * noise.lognormvariate(0, 0.03)


def entry(number: int, numbers: int) -> Entry:
    known: RunFacts = facts(number)
    return entry_of(verdicts(number, numbers), digest=f"{number:064x}", perfguard="0.1.0", facts=known)


def seconds(*works: Callable[[int], object]) -> list[float]:
    """Return the median of some rounds of each; they take turns, so that a busy moment is that of all. Rounds have a number."""
    took: list[list[float]] = [[] for _ in works]
    for number in range(ROUNDS):
        for work, of_work in zip(works, took, strict=True):
            began = time.perf_counter()
            work(number)
            of_work.append(time.perf_counter() - began)
    return [statistics.median(of_work) for of_work in took]


def command(place: str, *arguments: str) -> Callable[[int], object]:
    called = [sys.executable, "-m", "perfguard", "history", *arguments]
    environment = {**os.environ, "PERFGUARD_HISTORY": place}

    def work(_: int) -> None:
        done = subprocess.run(called, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr

    return work


def filled(place: str, runs: int, numbers: int) -> tuple[History, float]:
    """Add the runs one after the other; return the history, and how long that took."""
    history = open_history(place, root=Path("/"), writing=True)
    entries = (entry(number, numbers) for number in range(runs))
    took = 0.0
    for one in entries:
        began = time.perf_counter()
        history.add(one)
        took += time.perf_counter() - began
    return history, took


def costs(histories: dict[str, History], numbers: int, scratch: Path) -> Iterator[tuple[str, list[float]]]:
    """Yield what everything takes in seconds in each of the places, by what it is."""
    more = [entry(10_000 + number, numbers) for number in range(ROUNDS)]
    for number in range(ROUNDS):
        report = RunReport(verdicts=tuple(verdicts(20_000 + number, numbers)))
        (scratch / f"report{number}.json").write_text(report_json(report), encoding="utf-8")

    def adds(history: History) -> Callable[[int], object]:
        return lambda number: history.add(more[number])

    def adds_report(place: str) -> Callable[[int], object]:
        return lambda number: command(place, "add", str(scratch / f"report{number}.json"))(number)

    yield "one more run, in a process that is there", seconds(*map(adds, histories.values()))
    yield "perfguard history add REPORT", seconds(*map(adds_report, histories))
    commands = {
        "show": ("show",),
        "show RUN": ("show", "1"),
        "trend test_0": ("trend", "test_0"),
        "trend": ("trend",),
        "trend test_0 --metric '*'": ("trend", "test_0", "--metric", "*"),
        "export FILE": ("export", str(scratch / "export.json")),
    }
    for words, arguments in commands.items():
        yield f"perfguard history {words}", seconds(*(command(place, *arguments) for place in histories))


@contextmanager
def places(kind: str, scratch: Path) -> Iterator[Callable[[str], str]]:
    """Give what makes an empty place of a name."""
    if kind == "file":
        yield lambda name: str(scratch / f"{name}.db")
        return
    with running(fsync=True) as server:
        yield server.made


def size_bytes(place: str) -> int:
    if "://" not in place:
        return Path(place).stat().st_size
    import psycopg

    with psycopg.connect(place) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert found is not None
    return int(found[0])


def report_on(kind: str, runs: int, numbers: int, scratch: Path) -> Iterator[str]:
    small_runs, count = max(1, runs // 100), runs * numbers
    yield f"{TITLES[kind]}: {runs} runs of {numbers} measurements, {count} in all; beside it {small_runs} runs"
    with places(kind, scratch) as made:
        large_place, small_place = made("large"), made("small")
        (large, large_s), (small, small_s) = (
            filled(large_place, runs, numbers),
            filled(small_place, small_runs, numbers),
        )
        sizes = (size_bytes(large_place), size_bytes(small_place))
        yield f"  {'size':52} {sizes[0] / 1e6:8.1f} MB {sizes[1] / 1e6:8.1f} MB   {sizes[0] / count:5.0f} bytes a measurement"
        rows = [("all runs, one after the other, each", [large_s / runs, small_s / small_runs])]
        for what, (one, other) in [*rows, *costs({large_place: large, small_place: small}, numbers, scratch)]:
            yield f"  {what:52} {one:8.3f} s  {other:8.3f} s   {one / other:5.1f} x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--numbers", type=int, default=1000)
    parser.add_argument("--place", nargs="+", choices=list(TITLES), default=list(TITLES))
    asked = parser.parse_args()
    for kind in asked.place:
        if kind == "postgres" and programs() is None:
            print("PostgreSQL: left out, it is not installed here")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            for line in report_on(kind, asked.runs, asked.numbers, Path(scratch)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
