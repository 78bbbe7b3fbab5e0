"""A recording: one profiled run as it lies on disk, and the facts that came with it.

A recording is a directory with `recording.json`, `steps.json` and `profiler/` (what the profiler wrote, untouched).
A foreign directory has only what the profiler wrote; it is a recording without facts.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from perfguard.documents import FORMAT, dumps, read_document, write_atomically
from perfguard.window import Phase, StepWindow

RECORDING_FILE = "recording.json"
STEPS_FILE = "steps.json"
PROFILER_DIRECTORY = "profiler"

_REMEDY = f"Record it again, or delete {RECORDING_FILE} to judge the directory by what it holds."


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
class Fingerprint:
    """What must be equal for two recordings to be compared at all.

    `window` is None for a whole run, and where a script's own profiler had the window.
    """

    workload: str
    backend: str
    device: str
    mode: str
    world_size: int
    threads: int
    window: StepWindow | None

    @property
    def begins_cold(self) -> bool:
        """Whether several ranks were recorded from their first step on: its collectives wait for the last rank to start."""
        window = self.window
        return self.world_size > 1 and (window is None or not window.skip_first + window.wait + window.warmup)

    def differences(self, other: Fingerprint) -> list[str]:
        """Name what differs, as `key: other → self`; the workload's name is not compared."""
        mine, theirs = self.as_dict(), other.as_dict()
        return [f"{key}: {theirs[key]} → {mine[key]}" for key in mine if key != "workload" and mine[key] != theirs[key]]

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as recordings and baselines keep it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Fingerprint:
        """Invert `as_dict`."""
        told = plain["window"]
        window = None if told is None else StepWindow(**{key: int(value) for key, value in told.items()})
        return cls(**{**plain, "window": window})


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What may differ between comparable recordings, and is shown: versions and the machine (never a clock)."""

    python: str
    platform: str
    packages: dict[str, str]
    cpu_model: str
    cpu_count: int
    device_name: str

    @property
    def machine(self) -> tuple[str, int, str]:
        """The identity that decides whether times are comparable: CPU model, cores, device."""
        return self.cpu_model, self.cpu_count, self.device_name

    def differences(self, other: Environment) -> list[str]:
        """Name what differs, as `key: other → self`."""
        mine, theirs = self._flat(), other._flat()
        return [
            f"{key}: {theirs.get(key, '-')} → {mine.get(key, '-')}"
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key) != theirs.get(key)
        ]

    def _flat(self) -> dict[str, Any]:
        plain = asdict(self)
        return {**plain.pop("packages"), **plain}

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as recordings and baselines keep it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Environment:
        """Invert `as_dict`."""
        return cls(**plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a run comes from: the commit and branch that were checked out, when, and the page of the CI that ran it.

    Times are ISO 8601, `finished_at` in UTC; whatever nobody knows is None. A commit of changed files ends with `+dirty`.
    """

    commit: str | None = None
    branch: str | None = None
    committed_at: str | None = None
    finished_at: str | None = None
    ci_url: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as reports keep it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a capture, of one rank where the recording holds several.

    `start_ns` is UNIX time in nanoseconds (it joins with the profiler's timestamps), `wall_ns` and `thread_cpu_ns` are
    durations; the last is the CPU time of the thread that drove the step, not of the framework's own threads. `pause_ns` is
    the time since the step before, without the wait for a CPU: the loader's, where a script has the loop; else None.
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
    """One profiled run: where it lies, and what is known of it (all None or empty for a foreign directory)."""

    directory: Path
    fingerprint: Fingerprint | None = None
    environment: Environment | None = None
    steps: tuple[Step, ...] = ()
    ending: Ending | None = None
    reason: str = ""
    #: The one rank it is of; None where nobody knows, and where it holds several.
    rank: int | None = None
    timed_steps: int | None = None
    #: What the profiler was asked to record, by condition name of the layouts: {"memory": True, ...}.
    conditions: dict[str, bool] = field(default_factory=dict)

    @property
    def profiler_directory(self) -> Path:
        """Where the profiler's own files lie."""
        inside = self.directory / PROFILER_DIRECTORY
        return inside if self.fingerprint is not None and inside.is_dir() else self.directory

    @property
    def window(self) -> StepWindow | None:
        """The window asked for, where known."""
        return self.fingerprint.window if self.fingerprint else None

    def steps_of(self, phase: Phase, *, cycle: int | None = None, rank: int | None = None) -> tuple[Step, ...]:
        """Return the steps of one phase, of one cycle and one rank where given."""
        return tuple(
            s
            for s in self.steps
            if s.phase is phase and (cycle is None or s.cycle == cycle) and (rank is None or s.rank == rank)
        )

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose steps are here."""
        return tuple(sorted({step.rank for step in self.steps}))


def write_recording(recording: Recording) -> None:
    """Write `recording.json` and `steps.json` beside the profiler's output. Raises `StoreError`."""
    if recording.fingerprint is None or recording.environment is None or recording.ending is None:
        raise ValueError("a foreign directory has no facts to write")
    facts = {
        "format": FORMAT,
        "fingerprint": recording.fingerprint.as_dict(),
        "environment": recording.environment.as_dict(),
        "ending": recording.ending.value,
        "reason": recording.reason,
        "rank": recording.rank,
        "timed_steps": recording.timed_steps,
        "conditions": recording.conditions,
    }
    steps = {"format": FORMAT, "steps": [_step_document(step, ranked=any(recording.ranks)) for step in recording.steps]}
    # The facts come last: they are what makes a directory a recording, and they promise that the steps are there.
    write_atomically(recording.directory / STEPS_FILE, dumps(steps, lines_of="steps"))
    write_atomically(recording.directory / RECORDING_FILE, dumps(facts))


def _step_document(step: Step, *, ranked: bool) -> dict[str, Any]:
    document = {**asdict(step), "phase": step.phase.value}
    if not ranked:
        del document["rank"]
    if step.pause_ns is None:
        del document["pause_ns"]
    return document


def read_recording(directory: Path) -> Recording:
    """Read a recording, or take a foreign directory as it is. Raises `StoreError` for damaged facts."""
    facts_path = directory / RECORDING_FILE
    if not os.path.lexists(facts_path):
        return Recording(directory=directory)
    facts = read_document(facts_path, "recording", remedy=_REMEDY)
    steps = read_document(directory / STEPS_FILE, "steps", remedy=_REMEDY)["steps"]
    return Recording(
        directory=directory,
        fingerprint=Fingerprint.from_dict(facts["fingerprint"]),
        environment=Environment.from_dict(facts["environment"]),
        steps=tuple(Step(**{**step, "phase": Phase(step["phase"])}) for step in steps),
        ending=Ending(facts["ending"]),
        reason=facts["reason"],
        rank=facts["rank"],
        timed_steps=facts["timed_steps"],
        conditions=facts["conditions"],
    )
