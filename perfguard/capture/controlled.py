"""A controlled process: one CPU, one framework thread, fixed malloc settings, steps without the profiler, each with a kernel.

perfguard starts such a process only to time steps. The variables of `controlled_environment` must be set before it starts;
`bind` comes before the framework is imported; `StepClock` then times the steps. A process of an A/B comparison runs its steps
in turns.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from perfguard import thresholds
from perfguard.capture import Backend
from perfguard.capture.driver import iterate
from perfguard.capture.environment import environment_of
from perfguard.capture.machine_load import MachineLoad, busy_ticks
from perfguard.errors import CaptureError
from perfguard.timing import Timing

Batch = TypeVar("Batch")

#: The variables from which libraries read their number of threads when they are loaded.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: Seconds over which CPUs are observed to find the idlest.
_WATCHED_S = 0.1
#: The fields of `Timing` with a value a step, in the order in which the clocks are read at the begin of one.
_SAMPLES = ("run_queue_ns", "wall_ns", "process_cpu_ns", "thread_cpu_ns", "calibration_ns")
#: Allocated to test whether `mallinfo2` counts it: if another malloc is preloaded, that of glibc counts nothing.
_PROBE_BYTES = 1 << 20


def controlled_environment(environment: Mapping[str, str], *, threads: int) -> dict[str, str]:
    """Return the environment of a controlled process. Variables that the user set stay unchanged."""
    controlled = {**thresholds.MALLOC, **dict.fromkeys(_THREADS, str(threads)), "PYTHONHASHSEED": "0"}
    return {**controlled, **environment}


def choose_cpus(threads: int) -> tuple[int, ...]:
    """Return one CPU per thread, the idlest of those this process may use; empty if the system has no affinity."""
    if not hasattr(os, "sched_setaffinity"):
        return ()
    before = busy_ticks()
    time.sleep(_WATCHED_S)
    after = busy_ticks()
    cpus = sorted(os.sched_getaffinity(0), key=lambda cpu: (after.get(cpu, 0) - before.get(cpu, 0), cpu))
    return tuple(sorted(cpus[:threads]))


def bind(threads: int, cpus: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Bind this process to `cpus`, else to those of `choose_cpus`; return them, or nothing if the system refuses."""
    chosen = choose_cpus(threads) if cpus is None else cpus
    try:
        os.sched_setaffinity(0, chosen)
    except (AttributeError, OSError):
        return ()
    return chosen


def calibration_kernel() -> Callable[[], None]:
    """Return the kernel that runs before every step: matrix products of numpy, which is independent of the framework."""
    # Not before `controlled_environment` is set and `bind` was called.
    import numpy as np

    size = thresholds.CALIBRATION_SIZE
    generator = np.random.default_rng(0)
    left, right = (generator.random((size, size), dtype=np.float32) for _ in range(2))
    out = np.empty_like(left)

    def kernel() -> None:
        for _ in range(thresholds.CALIBRATION_PRODUCTS):
            np.matmul(left, right, out=out)

    return kernel


class StepClock:
    """Times steps one by one: `begin`, the step, `end`. The kernel runs in `begin`, outside of the step's time."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kernel = calibration_kernel()
        # The first run of the kernel loads the library and allocates its buffers.
        self._kernel()
        self._schedule = _open_schedstat()
        self._pressure = _total_pressure_us()
        self._faults = _faults()
        self._load = MachineLoad()
        self._opened, self._opened_cpu = time.perf_counter(), time.process_time()
        #: The clocks at the begin of a step, in ns: of the run queue, wall, process, thread.
        self._began: tuple[int, int, int, int] | None = None
        self._warm_up = 0
        #: By field of `Timing`, one value a step.
        self._samples: dict[str, list[int]] = {name: [] for name in _SAMPLES}
        self._read_clock = getattr(backend, "clock_mhz", None)
        self._clocks_mhz: list[float] = []
        #: Why the clock of the device is not known.
        self._no_clock: tuple[str, ...] = ()
        # The first reading opens the driver's library, and says what the clock was before there was anything to do.
        self._look_at_the_clock()
        self._clocks_mhz.clear()
        self._read_memory = host_memory_reader()
        self._host_memory = [] if self._read_memory is None else [self._read_memory()]

    @property
    def steps(self) -> int:
        """How many steps have ended."""
        return len(self._samples["wall_ns"])

    def has_enough(self, least: int) -> bool:
        """Whether enough steps and enough time have passed."""
        # CPU time of this process: on a busy machine it takes longer, but measures as much.
        own = time.process_time() - self._opened_cpu >= thresholds.WINDOW_S
        long = time.perf_counter() - self._opened >= thresholds.LONGEST_WINDOW_S
        steps = self.steps - self._warm_up
        return steps >= max(least, thresholds.MOST_STEPS) or (steps >= least and (own or long))

    def begin(self) -> None:
        """Run the kernel, wait for the device, read the clocks."""
        began = time.thread_time_ns()
        self._kernel()
        self._samples["calibration_ns"].append(time.thread_time_ns() - began)
        self._backend.synchronize()
        self._began = self._waited(), time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns()

    def end(self) -> None:
        """Wait for the device, read the clocks again."""
        self._backend.synchronize()
        thread, process, wall = time.thread_time_ns(), time.process_time_ns(), time.perf_counter_ns()
        began, self._began = self._began, None
        assert began is not None
        for name, before, now in zip(_SAMPLES, began, (self._waited(), wall, process, thread), strict=False):
            self._samples[name].append(max(0, now - before))
        if self._read_memory is not None and self.steps % thresholds.MEMORY_EVERY_STEPS == 0:
            self._host_memory.append(self._read_memory())
        is_early = time.perf_counter() - self._opened <= thresholds.WARMUP_S
        if self.steps == 1 or (is_early and self.steps <= thresholds.WARMUP_STEPS):
            self._warm_up = self.steps
        elif self.steps % thresholds.MEMORY_EVERY_STEPS == 0:
            self._look_at_the_clock()

    def _look_at_the_clock(self) -> None:
        """Read the clock of the device, which a driver takes milliseconds for; until it once has none."""
        if self._read_clock is None:
            return
        try:
            found = self._read_clock()
        except CaptureError as error:
            found, self._no_clock = None, (str(error),)
        if found is None:
            self._read_clock = None
        else:
            self._clocks_mhz.append(found)

    def is_disturbed(self) -> bool:
        """Whether other processes use so much of the machine that a rest may help; also if that is unknown."""
        share = self._load.others_share()
        return share is None or share > thresholds.QUIET_SHARE

    def leave_out_warm_up(self, least: int) -> None:
        """Drop the warm-up steps, but keep at least `least` steps: a short loop has none to spare."""
        spare = max(0, min(self._warm_up, self.steps - least))
        for samples in self._samples.values():
            del samples[:spare]

    def forget(self) -> None:
        """Drop the step that has begun and did not run."""
        if self._began is not None:
            self._began = None
            self._samples["calibration_ns"].pop()

    def timing(self, workload: str, *, cpus: tuple[int, ...], notes: tuple[str, ...]) -> Timing:
        """Return the measurements. Raises `CaptureError` if no step was timed."""
        if not self.steps:
            raise CaptureError("no step was left to time after the settling steps; give the loop more batches.")
        target = self._backend.target()
        elapsed = time.perf_counter() - self._opened
        pressure = _total_pressure_us()
        minor, major = _faults()
        if self._read_memory is None:
            notes += ("host memory is unknown: malloc is not that of glibc 2.33 or later",)
        if self._schedule is None:
            del self._samples["run_queue_ns"]
        else:
            os.close(self._schedule)
        return Timing(
            workload=workload,
            clock="process" if target.device == "cpu" else "wall",
            **{name: tuple(samples) for name, samples in self._samples.items()},
            host_memory_bytes=tuple(self._host_memory),
            device_clocks_mhz=tuple(self._clocks_mhz),
            cpus=cpus,
            threads=target.threads,
            cpu_pressure=None
            if pressure is None or self._pressure is None
            else round((pressure - self._pressure) / 1e6 / elapsed, 4),
            others_share=self._load.others_share(),
            minor_faults=minor - self._faults[0],
            major_faults=major - self._faults[1],
            notes=notes + self._no_clock,
            environment=environment_of(target),
        )

    def _waited(self) -> int:
        # The second number is how long this thread waited for a CPU (kernel: Documentation/scheduler/sched-stats.rst).
        return 0 if self._schedule is None else int(os.pread(self._schedule, 64, 0).split()[1])


def _open_schedstat() -> int | None:
    try:
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return None
    if len(os.pread(descriptor, 64, 0).split()) < 2:
        os.close(descriptor)
        return None
    return descriptor


def _total_pressure_us() -> int | None:
    """Return how long any process waited for a CPU since boot (kernel: Documentation/accounting/psi.rst)."""
    try:
        text = Path("/proc/pressure/cpu").read_text(encoding="ascii")
    except OSError:
        return None
    some = next((line for line in text.splitlines() if line.startswith("some ")), "")
    total = some.rpartition("total=")[2]
    return int(total) if total.isdigit() else None


def _faults() -> tuple[int, int]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt, usage.ru_majflt


class _MallocState(ctypes.Structure):
    """`struct mallinfo2` (malloc.h, glibc 2.33 and later), summed over all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


def host_memory_reader() -> Callable[[], int] | None:
    """Return a function that reads the bytes in use, or None if malloc is not that of glibc 2.33 or later.

    In use are the allocations of malloc and the small blocks of Python's own allocator. The resident set would not do: a leak
    first fills memory that was used and freed before, and the resident set does not change.
    """
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return None
    mallinfo2.restype = _MallocState

    def in_use_bytes() -> int:
        state = mallinfo2()
        small = sys.getallocatedblocks() * thresholds.PYTHON_BLOCK_BYTES
        return int(state.uordblks + state.hblkhd + small)

    before = in_use_bytes()
    probe = bytearray(_PROBE_BYTES)
    return in_use_bytes if in_use_bytes() - before >= len(probe) else None


class _Settling:
    """The settling steps of a window and at most `most` warm-up steps; then it collects garbage, once."""

    def __init__(self, settle: int) -> None:
        self.most = 0
        self.ran = 0
        self._settle = settle
        self._began = 0.0
        self._is_over = False

    def needs_step(self) -> bool:
        """Whether the next step still belongs to these."""
        if self._is_over:
            return False
        self._began = self._began or time.perf_counter()
        is_warm = self.ran >= self._settle + self.most or time.perf_counter() - self._began >= thresholds.WARMUP_S
        if self.ran < self._settle or not is_warm:
            return True
        self._is_over = True
        gc.collect()
        return False

    def refuse(self, what: str) -> CaptureError:
        """Return the error of a loop that had no step but these."""
        return CaptureError(f"{what.format(self.ran)}, all needed to settle; give it more.")


class ControlledWindow:
    """The steps of one controlled process: settling, warm-up and timed steps. Sets `timing` at the end."""

    def __init__(self, backend: Backend, *, workload: str, settle: int, least: int, cpus: tuple[int, ...]) -> None:
        self.backend = backend
        self.workload = workload
        self.least = least
        self.cpus = cpus
        self.timing: Timing | None = None
        self._settling = _Settling(settle)
        self._clock: StepClock | None = None

    def run(self, step: Callable[[], object]) -> Timing:
        """Call a step. Its exceptions are raised here."""
        while self.begin():
            step()
            self.end()
        assert self.timing is not None
        return self.timing

    def iterate(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a batch per step; fetching it is part of the step."""
        return iterate(self, batches)

    @property
    def has_ended(self) -> bool:
        """Whether enough steps were timed, or there are no more."""
        return self.timing is not None

    def begin(self) -> bool:
        """Begin the next step; return False, and do nothing, once the window has ended."""
        if self.has_ended:
            return False
        if not self._settling.needs_step():
            self._clock = clock = self._clock or StepClock(self.backend)
            if clock.steps and clock.steps % thresholds.STEPS_IN_A_ROW == 0 and clock.is_disturbed():
                time.sleep(thresholds.REST_S)
            clock.begin()
        return True

    def end(self) -> bool:
        """End the step that has begun; return whether the window has ended."""
        if self._clock is None:
            self._settling.ran += 1
        elif not self.has_ended:
            self._clock.end()
            if self._clock.has_enough(self.least):
                self._finish(self._clock)
        return self.has_ended

    def close(self, what: str) -> None:
        """End the window, as there are no more steps. Raises `CaptureError` if none was timed."""
        if self.has_ended:
            return
        if self._clock is None:
            raise self._settling.refuse(what)
        self._clock.forget()
        self._finish(self._clock)

    def _finish(self, clock: StepClock) -> None:
        notes: tuple[str, ...] = () if self.cpus else ("the process could not be bound to one CPU",)
        if clock.steps < self.least:
            notes += (f"the loader ended after {clock.steps} of {self.least} timed steps",)
        clock.leave_out_warm_up(self.least)
        self.timing = clock.timing(self.workload, cpus=self.cpus, notes=notes)


# -- in turns ----------------------------------------------------------------------------------------------------------


def process_switches(before: Mapping[str, str]) -> dict[str, str]:
    """Return the process-wide settings, which two sides in one process share; `before` is its first environment.

    These are changed environment variables, garbage collection, and global settings of the frameworks that are loaded.
    """
    changed = {name for name in before.keys() | os.environ.keys() if before.get(name) != os.environ.get(name)}
    found = {f"${name}": os.environ.get(name, "") for name in changed if not name.startswith(("PYTEST_", "PERFGUARD_"))}
    found["garbage collection"] = str(gc.isenabled())
    if (torch := sys.modules.get("torch")) is not None:
        found["torch float32 matmul precision"] = torch.get_float32_matmul_precision()
        found["torch deterministic algorithms"] = str(torch.are_deterministic_algorithms_enabled())
        found["torch default dtype"] = str(torch.get_default_dtype())
        found["torch.backends.cudnn.benchmark"] = str(torch.backends.cudnn.benchmark)
        found["torch.backends.cudnn.deterministic"] = str(torch.backends.cudnn.deterministic)
    if (mindspore := sys.modules.get("mindspore")) is not None:
        for name in ("mode", "device_target", "enable_graph_kernel", "deterministic"):
            found[f"mindspore {name}"] = str(mindspore.get_context(name))
    return found


class Turns(Protocol):
    """The schedule of one side."""

    def ready(self, clock: str) -> None:
        """Report that the settling steps have run, and the clock of the costs: `process` or `wall`."""

    def wait(self) -> int:
        """Wait for this side's turn; return the number of steps to run, 0 after the last turn."""

    def done(self, costs_ns: list[int], wall_ns: list[int]) -> None:
        """Return the cost and the wall time of each step of the turn."""


class TurnsWindow:
    """Runs the steps of one workload of an A/B comparison in its turns, while the other side rests."""

    def __init__(self, backend: Backend, turns: Turns, *, settle: int) -> None:
        self.backend = backend
        self.turns = turns
        self.has_ended = False
        self._settling = _Settling(settle)
        #: What counts as cost; set when the first turn may come.
        self._clock: Callable[[], int] | None = None
        #: The steps of this turn, and what each cost.
        self._steps = self._ran = 0
        self._began = 0, 0
        self._costs: list[int] = []
        self._walls: list[int] = []

    def run(self, step: Callable[[], object]) -> None:
        """Call a step. Its exceptions are raised here."""
        # A loop as long as the test's own window has no batch to spare for this.
        self._settling.most = thresholds.WARMUP_STEPS
        while self.begin():
            step()
            self.end()

    def iterate(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield a batch per step; fetching it is part of the step. Raises `CaptureError` if the loader ends too early."""
        return iterate(self, batches)

    def begin(self) -> bool:
        """Begin the next step, after a wait for the turn if it is the first; return False after the last turn."""
        if self.has_ended:
            return False
        if self._settling.needs_step():
            return True
        if self._clock is None:
            on_cpu = self.backend.target().device == "cpu"
            self._clock = time.process_time_ns if on_cpu else time.perf_counter_ns
            self.turns.ready("process" if on_cpu else "wall")
            if self._is_last_turn():
                return False
        # Without this the work that a step left behind would be timed as part of the next one.
        self.backend.synchronize()
        self._began = time.perf_counter_ns(), self._clock()
        return True

    def end(self) -> bool:
        """End the step, and after the last one of a turn wait for the next turn; return whether there is none."""
        if self._clock is None:
            self._settling.ran += 1
        elif not self.has_ended:
            self.backend.synchronize()
            began_wall, began = self._began
            self._costs.append(max(0, self._clock() - began))
            self._walls.append(max(0, time.perf_counter_ns() - began_wall))
            self._ran += 1
            if len(self._costs) == self._steps:
                self.turns.done(self._costs, self._walls)
                self._is_last_turn()
        return self.has_ended

    def close(self, what: str) -> None:
        """Raise `CaptureError`: there are no more steps for the turns that are left."""
        if not self.has_ended:
            if self._clock is None:
                raise self._settling.refuse(what)
            raise CaptureError(f"the loader ended after {self._ran} timed steps; give it more batches.")

    def _is_last_turn(self) -> bool:
        """Wait for the next turn; return whether there is none."""
        self._steps, self._costs, self._walls = self.turns.wait(), [], []
        self.has_ended = not self._steps
        return self.has_ended
