"""A timing: what one controlled process measured, step by step, and how it was controlled."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from perfguard.documents import FORMAT, dumps, read_document, write_atomically
from perfguard.errors import StoreError
from perfguard.recording import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Steps of one workload in a process of its own, without the profiler. Times are in nanoseconds, one a step.

    `calibration_ns` is the CPU time of the calibration kernel before each step; `run_queue_ns` how long the thread that drives
    the step waited for a CPU (empty where the system does not say). `clock` says which of the times is the step's cost:
    `process` (CPU time of all threads), or `wall` where the work is done by a device.
    """

    workload: str
    clock: str
    thread_cpu_ns: tuple[int, ...]
    process_cpu_ns: tuple[int, ...]
    wall_ns: tuple[int, ...]
    calibration_ns: tuple[int, ...]
    run_queue_ns: tuple[int, ...] = ()
    #: Host memory in use before the first step and after every tenth (`thresholds.MEMORY_EVERY_STEPS`), those that warmed up
    #: included; empty where malloc does not say.
    host_memory_bytes: tuple[int, ...] = ()
    #: The CPUs the process was bound to; empty where the system cannot.
    cpus: tuple[int, ...] = ()
    threads: int = 1
    #: Share of the window in which some process of the machine waited for a CPU (PSI); None where the kernel does not say.
    cpu_pressure: float | None = None
    #: Share of the machine's CPU time in the window that went to other processes and other virtual machines; None where the
    #: system does not say.
    others_share: float | None = None
    minor_faults: int = 0
    major_faults: int = 0
    #: What could not be controlled, or was cut short, in words.
    notes: tuple[str, ...] = ()
    environment: Environment | None = None

    @property
    def steps(self) -> int:
        """How many steps were timed."""
        return len(self.wall_ns)

    @property
    def cost_ns(self) -> tuple[int, ...]:
        """The time of each step that its cost is taken from."""
        return self.wall_ns if self.clock == "wall" else self.process_cpu_ns

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as reports keep it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Timing:
        """Invert `as_dict`; lists become tuples again."""
        values = {f.name: plain[f.name] for f in fields(cls) if f.name in plain}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        if values.get("environment") is not None:
            values["environment"] = Environment.from_dict(values["environment"])
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """A controlled process that left no timing, and why, in one clause."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTiming:
    """Steps of a base and of the current side, timed beside each other. Times are in nanoseconds, one a step.

    `interleaved`: both in one process, step by step, and the two of a pair are at the same place of their tuples. Else two
    processes took turns, block by block.
    """

    interleaved: bool
    base_ns: tuple[int, ...]
    current_ns: tuple[int, ...]
    #: The same steps by the clock on the wall.
    base_wall_ns: tuple[int, ...] = ()
    current_wall_ns: tuple[int, ...] = ()
    #: `process` (CPU time of all threads), or `wall` where a device does the work.
    clock: str = "process"
    #: What the order of the two was drawn with.
    seed: int = 0
    cpus: tuple[int, ...] = ()


def write_timing(timing: Timing, path: Path) -> None:
    """Write a timing for the process that asked for it. Raises `StoreError`."""
    write_atomically(path, dumps({"format": FORMAT, **timing.as_dict()}))


def read_timing(path: Path) -> Timing:
    """Read a timing. Raises `StoreError` where it is damaged."""
    try:
        return Timing.from_dict(read_document(path, "timing", remedy="Run the same command again."))
    except TypeError as error:
        raise StoreError(f"{path} is no timing of this perfguard: {error}. Run the same command again.") from error
