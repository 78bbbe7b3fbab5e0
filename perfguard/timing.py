"""Timings: the steps that one controlled process measured, and how it was controlled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfguard.documents import FORMAT, Plain, dumps, read_document
from perfguard.recording import Environment
from perfguard.writing import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Plain):
    """Steps of one workload in a process of its own, without the profiler. Times are in nanoseconds, one a step.

    `calibration_ns` is the CPU time of the calibration kernel before each step. `run_queue_ns` is the time that the thread that
    drives the step waited for a CPU (empty if the system does not report it). `clock` names the time that is the step's cost:
    `process` (CPU time of all threads), or `wall` if a device does the work.
    """

    workload: str
    clock: str
    thread_cpu_ns: tuple[int, ...]
    process_cpu_ns: tuple[int, ...]
    wall_ns: tuple[int, ...]
    calibration_ns: tuple[int, ...]
    run_queue_ns: tuple[int, ...] = ()
    #: Host memory in use before the first step and after every tenth (`thresholds.MEMORY_EVERY_STEPS`), warm-up steps
    #: included; empty if malloc does not report it.
    host_memory_bytes: tuple[int, ...] = ()
    #: The clock of the device, after every tenth step that is no warm-up, as its driver has it; empty where none is known.
    device_clocks_mhz: tuple[float, ...] = ()
    #: The CPUs the process was bound to; empty if the system cannot bind.
    cpus: tuple[int, ...] = ()
    threads: int = 1
    #: Share of the window in which some process of the machine waited for a CPU (PSI); None if the kernel does not report it.
    cpu_pressure: float | None = None
    #: Share of the machine's CPU time in the window that other processes and other virtual machines used; None if unknown.
    others_share: float | None = None
    minor_faults: int = 0
    major_faults: int = 0
    #: Messages about controls that failed and windows that were cut short.
    notes: tuple[str, ...] = ()
    environment: Environment | None = None

    @property
    def steps(self) -> int:
        """How many steps were timed."""
        return len(self.wall_ns)

    @property
    def cost_ns(self) -> tuple[int, ...]:
        """The time of each step that is its cost."""
        return self.wall_ns if self.clock == "wall" else self.process_cpu_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRun:
    """A controlled process without a timing, and the reason in one clause."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTiming:
    """Steps of the base and of the current version, timed in pairs. Times are in nanoseconds, one a step.

    `interleaved`: both ran in one process, step by step, and the two steps of a pair have the same index. Otherwise two
    processes took turns, block by block.
    """

    interleaved: bool
    base_ns: tuple[int, ...]
    current_ns: tuple[int, ...]
    #: Wall times of the same steps.
    base_wall_ns: tuple[int, ...] = ()
    current_wall_ns: tuple[int, ...] = ()
    #: `process` (CPU time of all threads), or `wall` if a device does the work.
    clock: str = "process"
    #: Seed of the random order of the two.
    seed: int = 0
    cpus: tuple[int, ...] = ()


def write_timing(timing: Timing, path: Path) -> None:
    """Write a timing for the parent process. Raises `StoreError`."""
    write_atomically(path, dumps({"format": FORMAT, **timing.as_dict()}))


def read_timing(path: Path) -> Timing:
    """Read a timing. Raises `StoreError` for a damaged one."""
    return Timing.from_dict(read_document(path, "timing", remedy="Run the same command again."))
