"""One side recorded: pytest run as the user calls it, and what it measured."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfguard import thresholds
from perfguard.capture.ab.sides import Side, fresh_directory, run_side
from perfguard.capture.worktree import Place

#: pytest's exit status if an argument names no file and no test.
_NOT_FOUND = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeable:
    """A workload whose steps another process can repeat."""

    request: str
    threads: int
    took_s: float
    #: How long pytest took until it ran the test.
    before_s: float = 0.0
    #: The process-wide settings of its side when it ran.
    switches: dict[str, str] = field(default_factory=dict)

    @property
    def timeout_s(self) -> float:
        """The time after which a process that repeats it counts as hung, in addition to `thresholds.LEAST_TIMEOUT_S`."""
        return self.before_s + thresholds.TIMEOUT_FACTOR * self.took_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The result of pytest on one side. `report` exists if anything was measured; `status` is None if pytest was ended."""

    status: int | None
    report: Path
    timed: dict[str, Timeable] = field(default_factory=dict)
    #: Why tests and files did not complete, by node.
    reasons: dict[str, str] = field(default_factory=dict)
    #: Modules that were not imported from the side's own tree.
    strangers: Sequence[str] = ()
    #: Tests that use perfguard and failed, and why.
    failed: dict[str, str] = field(default_factory=dict)
    #: Tests that use perfguard and did not run, because pytest ended early.
    unreached: Sequence[str] = ()
    #: The files and tests named in the arguments, and those of them that do not exist.
    places: Sequence[str] = ()
    not_found: Sequence[str] = ()
    last_words: str = ""


def record(
    side: Side, place: Place, arguments: Sequence[str], *, time: bool, timeout_s: float, recordings: Path | None = None
) -> Recorded:
    """Run pytest as the user calls it, on one side, and measure without judging.

    Only the side's own tests write into its tree. Of several files or tests in the arguments, those that a base lacks are
    left out.
    """
    named = [side.argument(one) for one in arguments]
    while True:
        recorded = _record(side, place, named, time=time, timeout_s=timeout_s, recordings=recordings)
        # pytest names only the first that is missing.
        kept = [one for one in named if not _is_among(one, side.directory, recorded.not_found)]
        if side.name != "base" or len(kept) == len(named) or not set(kept) & set(recorded.places):
            return recorded
        named = kept


def _record(
    side: Side, place: Place, arguments: Sequence[str], *, time: bool, timeout_s: float, recordings: Path | None
) -> Recorded:
    own = fresh_directory(place)
    report, result = own / "report.json", own / "facts.json"
    options = [
        *("--perfguard-update", "--perfguard-runs=0", f"--perfguard-time={'on' if time else 'off'}"),
        *(f"--perfguard-baselines={own / 'baselines'}", f"--perfguard-report={report}"),
        *(f"--perfguard-recordings={recordings or own / 'recordings'}", f"--basetemp={own / 'tmp'}"),
        *("-o", f"cache_dir={own / 'cache'}"),
        # pytest empties it as it starts, and the run that started this one to confirm a time is still writing it.
        *("-o", f"log_file={os.devnull}"),
    ]
    request = {
        "do": "record",
        "directory": str(side.directory),
        "moved": side.moved,
        "top": side.top,
        "checkout": side.checkout,
        "arguments": [*arguments, *options],
        "requests": str(own / "requests"),
        "result": str(result),
    }
    ended, line = run_side(side, request, own, place, environment=side.environment, timeout_s=timeout_s)
    facts: dict[str, Any] = {"status": None}
    if result.is_file():
        facts = json.loads(result.read_text(encoding="utf-8"))
    return Recorded(
        report=report,
        timed={name: Timeable(**one) for name, one in facts.pop("timed", {}).items()},
        not_found=_not_found(own / "output") if facts["status"] == _NOT_FOUND else (),
        last_words=ended.sentence(timeout_s, line, did=""),
        **facts,
    )


def _not_found(output: Path) -> tuple[str, ...]:
    """Return the files and tests of the arguments that pytest cannot find."""
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    names = [line.partition("not found: ")[2] for line in lines if line.startswith("ERROR: ")]
    return tuple(dict.fromkeys(name.partition(" (no ")[0].strip() for name in names if name))


def _is_among(argument: str, directory: Path, names: Sequence[str]) -> bool:
    """Whether an argument is one of the files or tests named: pytest names a file as it was given, a test by its full path."""
    return argument in names or os.path.join(directory, argument) in names
