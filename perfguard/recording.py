"""Recordings: one profiled run on disk, and the facts about it.

A recording is a directory with `recording.json`, `steps.json` and `profiler/` (the profiler's output, unchanged). A foreign
directory has only the profiler's output: it is a recording without facts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from perfguard.documents import FORMAT, Plain, dumps, read_document
from perfguard.errors import DamagedError
from perfguard.opening import confined
from perfguard.window import Phase, StepWindow
from perfguard.writing import write_atomically

RECORDING_FILE = "recording.json"
STEPS_FILE = "steps.json"
#: The files that make a directory a recording.
FACTS_FILES = (RECORDING_FILE, STEPS_FILE)
PROFILER_DIRECTORY = "profiler"

#: The fields in the first file.
_FACTS = ("fingerprint", "environment", "ending", "reason", "rank", "timed_steps", "conditions")
_REMEDY = f"Record it again, or delete {RECORDING_FILE} and {STEPS_FILE} to judge the profiler's files alone."


class Ending(Enum):
    """How a capture ended."""

    COMPLETE = "complete"
    STEP_RAISED = "step-raised"
    LOADER_ENDED = "loader-ended"
    INTERRUPTED = "interrupted"
    PROFILER_FAILED = "profiler-failed"
    SCRIPT_FAILED = "script-failed"
    TWO_PROFILERS = "two-profilers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint(Plain):
    """The properties that must be equal for a comparison of two recordings.

    `window` is None for a whole run, and for a window of a script's own profiler.
    """

    workload: str
    backend: str
    device: str
    mode: str
    world_size: int
    threads: int
    window: StepWindow | None
    #: The number of the first profiled step, counted from 1; None without a window.
    first_profiled_step: int | None = None

    @property
    def begins_cold(self) -> bool:
        """Whether several ranks were recorded from their first step on; its collectives wait for the last rank to start."""
        window = self.window
        return self.world_size > 1 and (window is None or not window.skip_first + window.wait + window.warmup)

    @classmethod
    def from_document(cls, plain: dict[str, Any], *, timed_steps: int) -> Fingerprint:
        """Invert `as_dict`. In documents without the first profiled step, the timed steps came before the profiler."""
        found = cls.from_dict(plain)
        if "first_profiled_step" in plain or found.window is None:
            return found
        return replace(found, first_profiled_step=found.window.first_profiled_step(timed_steps))

    def differences(self, other: Fingerprint) -> list[str]:
        """Return the differences as `key: other → self`; the workload's name is not compared."""
        mine, theirs = self.as_dict(), other.as_dict()
        return _changes([key for key in mine if key != "workload"], theirs, mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment(Plain):
    """Versions and the machine: they may differ between comparable recordings, and are shown."""

    python: str
    platform: str
    packages: dict[str, str]
    cpu_model: str
    cpu_count: int
    device_name: str

    @property
    def machine(self) -> tuple[str, int, str]:
        """CPU model, cores and device: times are comparable only if they are equal."""
        return self.cpu_model, self.cpu_count, self.device_name

    def differences(self, other: Environment) -> list[str]:
        """Return the differences as `key: other → self`."""
        mine, theirs = self.flat, other.flat
        return _changes(sorted(mine.keys() | theirs.keys()), theirs, mine)

    @property
    def flat(self) -> dict[str, Any]:
        """The plain form, with the packages among the other keys."""
        plain = self.as_dict()
        return {**plain.pop("packages"), **plain}


def _changes(keys: Iterable[str], before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    found = [(key, before.get(key, "-"), now.get(key, "-")) for key in keys]
    return [f"{key}: {old} → {new}" for key, old, new in found if old != new]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance(Plain):
    """The origin of a run: commit and branch, their times, and the URL of the CI run.

    Times are ISO 8601, `finished_at` in UTC; unknown values are None. A commit with changed files ends with `+dirty`.
    """

    commit: str | None = None
    branch: str | None = None
    committed_at: str | None = None
    finished_at: str | None = None
    ci_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a capture, of one rank where the recording holds several.

    `start_ns` is UNIX time in nanoseconds (it joins with the profiler's timestamps), `wall_ns` and `thread_cpu_ns` are
    durations; the last is the CPU time of the thread that drove the step, not of the framework's own threads. `pause_ns` is
    the time since the previous step without the wait for a CPU, if a script drives the loop (its data loader); else None.
    """

    index: int
    phase: Phase
    cycle: int
    start_ns: int
    wall_ns: int
    thread_cpu_ns: int
    pause_ns: int | None = None
    rank: int = 0

    @property
    def end_ns(self) -> int:
        """UNIX time at which the step had ended and the device was synchronised."""
        return self.start_ns + self.wall_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One profiled run: its directory and its facts (all None or empty for a foreign directory)."""

    directory: Path
    fingerprint: Fingerprint | None = None
    environment: Environment | None = None
    steps: tuple[Step, ...] = ()
    ending: Ending | None = None
    reason: str = ""
    #: Its rank; None if unknown, or if it holds several ranks.
    rank: int | None = None
    timed_steps: int | None = None
    #: The profiler's options, by condition name of the layouts: {"memory": True, ...}.
    conditions: dict[str, bool] = field(default_factory=dict)
    #: After how many steps they repeat, if the test says so; not kept in the file.
    period: int | None = None
    #: Share of the machine's CPU time that other processes used while a script ran; None if unknown; not kept in the file.
    others_share: float | None = field(default=None, compare=False)
    #: The directory that was named, if this recording was found in it: nothing outside of it is read.
    found_in: Path | None = None
    #: Folders in it that are recordings of their own, by relative path: it is what is beside them.
    without: tuple[str, ...] = ()
    #: Whether its directory is a link out of the one it was found in: then nothing in it is read.
    leads_out: bool = False

    @property
    def profiler_directory(self) -> Path:
        """The directory of the profiler's own files."""
        return self.directory if self.fingerprint is None else profiler_directory_in(self.directory)

    def confined(self) -> AbstractContextManager[None]:
        """Open nothing outside of its directory, nor of the one it was found in, while the context lasts."""
        return confined(*filter(None, (self.found_in, self.directory)))

    @property
    def window(self) -> StepWindow | None:
        """The requested window, if known."""
        return self.fingerprint.window if self.fingerprint else None

    def steps_of(self, phase: Phase, *, cycle: int | None = None, rank: int | None = None) -> tuple[Step, ...]:
        """Return the steps of one phase, optionally of one cycle or rank."""
        return tuple(
            s
            for s in self.steps
            if s.phase is phase and (cycle is None or s.cycle == cycle) and (rank is None or s.rank == rank)
        )

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have steps."""
        return tuple(sorted({step.rank for step in self.steps}))


def begin_recording(directory: Path) -> None:
    """Write a `steps.json` without steps: until `write_recording`, it says that a recording is not finished.

    Of a process that is killed after its profiler has written all, nothing else tells. Raises `StoreError`.
    """
    write_atomically(directory / STEPS_FILE, dumps({"format": FORMAT, "steps": []}, lines_of="steps"))


def write_recording(recording: Recording) -> None:
    """Write `recording.json` and `steps.json` next to the profiler's output. Raises `StoreError`."""
    if recording.fingerprint is None or recording.environment is None or recording.ending is None:
        raise ValueError("a foreign directory has no facts to write")
    facts = {"format": FORMAT} | {name: msgspec.to_builtins(getattr(recording, name)) for name in _FACTS}
    steps = {"format": FORMAT, "steps": [_step_document(step, ranked=any(recording.ranks)) for step in recording.steps]}
    # Write the facts last: they make a directory a recording, so the steps must exist by then.
    write_atomically(recording.directory / STEPS_FILE, dumps(steps, lines_of="steps"))
    write_atomically(recording.directory / RECORDING_FILE, dumps(facts))


def _step_document(step: Step, *, ranked: bool) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(step)
    if not ranked:
        del document["rank"]
    if step.pause_ns is None:
        del document["pause_ns"]
    return document


def unfinished(shown: str) -> DamagedError:
    """Return the error for a recording, shown as a path or URL, whose process did not come to its end."""
    return DamagedError(
        f"{shown}/{RECORDING_FILE} is missing: the process that recorded it was killed, or is still running. "
        "Record it again, and delete this one."
    )


def profiler_directory_in(directory: Path) -> Path:
    """Return the directory of the profiler's own files in a recording; a link in its place is not followed."""
    inside = directory / PROFILER_DIRECTORY
    return inside if os.path.isdir(inside) and not os.path.islink(inside) else directory


def leads_out(path: Path, directory: Path) -> bool:
    """Whether a path is a link out of a directory."""
    return os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory))


def read_recording(directory: Path) -> Recording:
    """Read a recording, or wrap a foreign directory. Raises `StoreError` for damaged facts, and where one file is missing.

    A directory whose facts are links that lead out of it is foreign: the survey of its files reports them.
    """
    facts_path = directory / RECORDING_FILE
    present = [name for name in FACTS_FILES if os.path.lexists(directory / name)]
    if not present or any(leads_out(directory / name, directory) for name in present):
        return Recording(directory=directory)
    if RECORDING_FILE not in present:
        raise unfinished(str(directory))
    with confined(directory):
        facts = read_document(facts_path, "recording", remedy=_REMEDY)
        steps = read_document(directory / STEPS_FILE, "steps", remedy=_REMEDY)["steps"]
    found: Recording = msgspec.convert({**facts, "directory": directory, "steps": steps}, Recording, strict=False)
    fingerprint = Fingerprint.from_document(facts["fingerprint"], timed_steps=found.timed_steps or 0)
    return replace(found, fingerprint=fingerprint)
