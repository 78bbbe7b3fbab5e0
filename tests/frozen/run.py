"""The run: read every directory again, and show what is different from the facts that are kept.

Exits 1 where a difference is not in `differences.toml`, or stands there and is none any more.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import re
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.frozen.facts import facts_of
from tests.frozen.places import Place, generated, mutated, real
from tests.mutation.subjects import corpus_directory

FACTS = Path(__file__).parent / "data" / "facts.json.xz"
DIFFERENCES = Path(__file__).parent / "differences.toml"
_MUTANTS = 300
_GPU_MUTANTS = 40
_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """A difference that is meant: in which places, which facts (`- ...` is gone, `+ ...` is new; `*` is anything), and why.

    What is meant of a place is meant of its mutants.
    """

    where: str
    facts: tuple[str, ...]
    why: str

    def covers(self, place: str, change: str) -> bool:
        """Whether this is the reason of a change."""
        return bool(_pattern(self.where).fullmatch(place)) and any(
            _pattern(one).fullmatch(change) for one in self.facts
        )


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def main(arguments: list[str]) -> int:
    """Compare, or write; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("--place", default="*", help="only places of this name, for instance 'corpus/gpu/*'")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth of these places")
    parser.add_argument("--show", action="store_true", help="print the facts of these places as they are now")
    parser.add_argument("--all", action="store_true", help="print every difference, also those that are meant")
    parser.add_argument("--write", action="store_true", help="keep the facts as they are now")
    parser.add_argument("--make-mutants", action="store_true", help="choose the mutants anew")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    bases = [*real(corpus_directory()), *generated()]
    if asked.make_mutants:
        _make_mutants(bases)
    places = [one for one in [*bases, *mutated(bases)] if _pattern(asked.place).fullmatch(one.name)][:: asked.every]
    is_whole = asked.place == "*" and asked.every == 1
    now = _read(places, asked.processes)
    if asked.show:
        for name, facts in now.items():
            print(name, *(f"  {fact}" for fact in facts), sep="\n")
        return 0
    if asked.write:
        kept = now if is_whole else {**_kept(), **now}
        FACTS.write_bytes(lzma.compress(json.dumps(_packed(kept), indent=0, sort_keys=True).encode(), preset=9))
        print(f"{len(now)} places written in {time.monotonic() - began:.0f} s, {FACTS.stat().st_size} bytes")
        return 0
    code = _compared(now, is_whole=is_whole, show_all=asked.all)
    print(f"{len(now)} places in {time.monotonic() - began:.0f} s")
    return code


def _make_mutants(bases: list[Place]) -> None:
    from tests.frozen.making import made
    from tests.frozen.mutants import write_mutants

    with tempfile.TemporaryDirectory(prefix="frozen-") as folder:
        # Plain directories of every layout, real ones, and some of the others.
        plain = [one for one in bases if "," not in one.name]
        others = [one for one in bases if "," in one.name][::8]
        mutants = made([*plain, *others], Path(folder), _MUTANTS, _GPU_MUTANTS)
    write_mutants(mutants)
    print(f"{len(mutants)} mutants made")


def _read(places: list[Place], processes: int) -> dict[str, list[str]]:
    # Two processes on two cores: the threads of polars would only wait for each other.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return dict(pool.map(_facts, places, chunksize=4))


def _facts(place: Place) -> tuple[str, list[str]]:
    with tempfile.TemporaryDirectory(prefix="frozen-") as folder:
        directory, expected = place.written(Path(folder))
        # A directory without a file that is known is named whole.
        return place.name, [fact.replace(f"{folder}/", "") for fact in facts_of(directory, expected)]


def _packed(facts: dict[str, list[str]]) -> dict[str, Any]:
    """Of a mutant only the difference to its base is kept."""
    bases = _bases()
    return {
        name: _changes(facts[bases[name]], lines) if bases.get(name) in facts else lines
        for name, lines in facts.items()
    }


def _kept() -> dict[str, list[str]]:
    packed = json.loads(lzma.decompress(FACTS.read_bytes())) if FACTS.exists() else {}
    bases = _bases()
    return {
        name: _changed(packed[bases[name]], lines) if bases.get(name) in packed else lines
        for name, lines in packed.items()
    }


def _bases() -> dict[str, str]:
    every = [*real(corpus_directory()), *generated()]
    return {one.name: one.mutant.base for one in mutated(every) if one.mutant is not None}


def _changes(old: list[str], new: list[str]) -> list[str]:
    before, after = Counter(old), Counter(new)
    gone, come = before - after, after - before
    return [f"- {fact}" for fact in sorted(gone.elements())] + [f"+ {fact}" for fact in sorted(come.elements())]


def _changed(old: list[str], changes: list[str]) -> list[str]:
    facts = Counter(old)
    for change in changes:
        facts[change[2:]] += 1 if change[0] == "+" else -1
    return sorted(facts.elements())


def _compared(now: dict[str, list[str]], *, is_whole: bool, show_all: bool) -> int:
    kept, bases = _kept(), _bases()
    meant = [
        Meant(where=one["where"], facts=tuple(one["facts"]), why=one["why"])
        for one in tomllib.loads(DIFFERENCES.read_text()).get("difference", ())
    ]
    used: Counter[Meant] = Counter()
    unexplained: list[tuple[str, str]] = []
    for name, facts in now.items():
        for change in _changes(kept.get(name, []), facts):
            reason = next((one for one in meant if one.covers(bases.get(name, name), change)), None)
            if reason is None:
                unexplained.append((name, change))
            else:
                used[reason] += 1
                if show_all:
                    print(f"meant   {name}: {change}")
    for line in _worded(unexplained, show_all=show_all):
        print(line)
    for one in meant:
        print(f"{used[one]:6} meant: {one.why}")
    absent = sorted(kept.keys() - now.keys()) if is_whole else []
    stale = [one.why for one in meant if is_whole and not absent and not used[one]]
    for why in stale:
        print(f"no such difference any more, take it out of {DIFFERENCES.name}: {why}")
    if absent:
        print(f"not here: {len(absent)} places that facts are kept of ({absent[0]}, ...)")
    print(f"{len(unexplained)} differences without a reason, {used.total()} with one")
    return 1 if unexplained or stale else 0


def _worded(found: list[tuple[str, str]], *, show_all: bool) -> Iterator[str]:
    """Say of each kind of difference in how many places it is, and show some."""
    by_kind: dict[str, list[tuple[str, str]]] = {}
    for place, change in found:
        words = change.split()
        kind = " ".join(words[: 5 if words[1] == "finding" else 2])
        by_kind.setdefault(kind, []).append((place, change))
    for kind, changes in sorted(by_kind.items()):
        yield f"{kind}: {len(changes)} in {len({place for place, _ in changes})} places"
        shown = changes if show_all else changes[:_SHOWN]
        yield from (f"    {place}: {change}" for place, change in shown)
