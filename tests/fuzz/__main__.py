"""Run the fuzz: many cases, each command in a process of its own with bounds; every fall says how to repeat it."""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from tests.fuzz.kinds import KINDS
from tests.fuzz.runs import run_case, warm_up


def main() -> int:
    """Run cases until the time is over, or one; return 1 if one fell."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long to go on")
    parser.add_argument("--cases", type=int, default=10**9, help="the largest number of cases")
    parser.add_argument("--seed", default="", help="the seed of all cases; a new one by default")
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--jobs", type=int, default=2, help="how many cases at a time")
    parser.add_argument("--case", help="repeat this case alone, as a fall names it")
    parser.add_argument("--keep", type=Path, help="with --case: where the input is left")
    options = parser.parse_args()
    # One folder for all, the inputs that a process keeps for its later cases included.
    with tempfile.TemporaryDirectory(prefix="fuzz-") as home:
        tempfile.tempdir = home
        warm_up()
        return _repeat(options.case, options.keep) if options.case else _run(options)


def _run(options: argparse.Namespace) -> int:
    seed = options.seed or str(random.SystemRandom().randrange(10**6))
    names = [name for name in sorted(KINDS) if options.only in name]
    print(f"seed {seed}, kinds {', '.join(names)}", flush=True)
    end = time.monotonic() + 60 * options.minutes
    count: Counter[str] = Counter()
    exits: Counter[int] = Counter()
    falls: Counter[str] = Counter()
    # Processes, not threads: each forks for its commands.
    context = multiprocessing.get_context("fork")
    done: Any = context.SimpleQueue()
    workers = [
        context.Process(target=_work, args=(names, seed, range(first, options.cases, options.jobs), end, done))
        for first in range(options.jobs)
    ]
    for worker in workers:
        worker.start()
    left = len(workers)
    while left:
        if done.empty() and not any(worker.is_alive() for worker in workers):
            print(f"{left} of {len(workers)} processes were killed")
            break
        if done.empty():
            time.sleep(0.1)
            continue
        case, found, statuses = done.get()
        left -= case is None
        count.update([case.partition(":")[0]] if case else [])
        exits.update(statuses)
        for fall in found:
            # One line for each different fall; the others are counted.
            if not falls[fall.key]:
                print(f"\n{fall.words}\n  repeat: python -m tests.fuzz --case '{case}'", flush=True)
            falls[fall.key] += 1
    print(f"\n{sum(count.values())} cases ({', '.join(f'{n} {name}' for name, n in sorted(count.items()))})")
    print(f"commands by exit status: {', '.join(f'{status}: {times}' for status, times in sorted(exits.items()))}")
    for key, times in falls.most_common():
        print(f"  {times} times: {key}")
    print("none fell" if not falls else f"{sum(falls.values())} fell, in {len(falls)} ways")
    for worker in workers:
        worker.join()
    return 1 if falls or any(worker.exitcode for worker in workers) else 0


def _work(names: Sequence[str], seed: str, numbers: Iterable[int], end: float, done: Any) -> None:
    """Run cases until the time is over; put each with its falls into a queue, and None at the end."""
    try:
        for number in takewhile(lambda _: time.monotonic() < end, numbers):
            case = f"{names[number % len(names)]}:{seed}:{number}"
            with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
                done.put((case, *run_case(case, Path(folder))))
    finally:
        done.put((None, [], []))


def _repeat(case: str, keep: Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        place = keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        found, _ = run_case(case, place, show=True)
    for fall in found:
        print(f"\n{fall.words}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
