"""Metrics: the table of everything that can be measured, with units, directions and default tolerances.

The functions that measure them are in the other modules of this package, in tables by the same names; queries in the
`metrics.sql` of a dialect measure the rest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

from perfguard import thresholds
from perfguard.measure.measurement import Better, Join, Kind, Metric

#: Limits of a shown metric that a setting names without a number: fail beyond twice its baseline, warn beyond 1.3 times.
_FAIL_BEYOND = 1.0
_WARN_BEYOND = 0.3


def _metric(kind: Kind, better: Better, name: str, unit: str, meaning: str, **others: Any) -> Metric:
    return Metric(name=name, unit=unit, kind=kind, better=better, meaning=meaning, **others)


_less = partial(_metric, Kind.EXACT, Better.LOWER)
_more = partial(_metric, Kind.EXACT, Better.HIGHER)
_same = partial(_metric, Kind.EXACT, Better.EQUAL)
_timed = partial(_metric, Kind.TIMED, Better.LOWER)


def _shown(name: str, unit: str, meaning: str, better: Better = Better.LOWER, **others: Any) -> Metric:
    """Return a timed metric that is shown and ranked, and judged only if a setting names it."""
    fail, warn = _FAIL_BEYOND, _WARN_BEYOND
    if better is Better.HIGHER:
        # The same factors downwards, half and 1/1.3: a number cannot lose more than all of itself.
        fail, warn = fail / (1 + fail), warn / (1 + warn)
    limits = {"relative": fail, "warn_relative": warn}
    return _metric(Kind.TIMED, better, name, unit, meaning, gated=False, **limits, **others)


def _warned(name: str, unit: str, meaning: str, **others: Any) -> Metric:
    """Return a timed metric that warns if it is far longer, and fails only if a setting names it."""
    return _timed(name, unit, meaning, relative=math.inf, warn_relative=thresholds.WALL_WARNING, **others)


def _shown_of_runs(name: str, unit: str, meaning: str, better: Better = Better.LOWER, **others: Any) -> Metric:
    return replace(_shown(name, unit, meaning, better, **others), by_run=True)


_ALL = (
    # Operators, memory and steps of the profile.
    _more(
        "steps",
        "steps",
        "Steps the profiler recorded.",
        cycles=Join.SUM,
        noun="The number of profiled steps",
        of_workload=True,
    ),
    _same("operator_set", "names", "Which operators ran at all.", cycles=Join.UNION),
    _same(
        "operator_calls",
        "calls/step",
        "How often an operator runs in a step.",
        subject="operator",
        cycles=Join.PER_STEP,
        ranks=Join.SUM,
        noun="The calls of {} a step",
    ),
    _same(
        "operator_shapes",
        "calls/step by shape",
        "With which input shapes (and types, where recorded) an operator runs in a step.",
        subject="operator",
        cycles=Join.PER_STEP,
    ),
    _same(
        "operator_position",
        "place",
        "How many other operators began before an operator's first call in a step.",
        gated=False,
        subject="operator",
        cycles=Join.FIRST,
    ),
    _shown(
        "operator_time",
        "us/step",
        "Time of an operator in a step, without the operators inside it; the minimum of the steps.",
        subject="operator",
        ranks=Join.LARGEST,
        noun="The time of {} a step",
    ),
    _shown(
        "operator_share",
        "fraction",
        "Share of an operator in the time of all operators of the window.",
        Better.EQUAL,
        subject="operator",
    ),
    _less(
        "peak_memory_bytes",
        "bytes",
        "How far allocated memory rises above its lowest point inside a step; the largest of the steps but the first.",
        subject="device",
        cycles=Join.LARGEST_BUT_FIRST,
        ranks=Join.LARGEST,
        relative=thresholds.BYTES_TOLERANCE,
        noun="Peak memory on {}",
        of_workload=True,
        leads=7,
    ),
    # A count explains and does not decide: half of the bytes in more parts is no regression.
    _same(
        "memory_allocations",
        "allocations/step",
        "How many allocations a step makes; the median of the steps.",
        subject="device",
        cycles=Join.MEDIAN,
        ranks=Join.SUM,
        noun="The number of allocations a step on {}",
        of_workload=True,
    ),
    _less(
        "memory_allocated_bytes",
        "bytes/step",
        "How many bytes a step allocates, released again or not; the median of the steps.",
        subject="device",
        cycles=Join.MEDIAN,
        ranks=Join.SUM,
        relative=thresholds.BYTES_TOLERANCE,
        noun="What a step allocates on {}",
        of_workload=True,
    ),
    _less(
        "memory_growth_bytes",
        "bytes/step",
        "How many bytes a step leaves allocated: above 0 it leaks; the median of the steps.",
        subject="device",
        cycles=Join.MEDIAN,
        ranks=Join.SUM,
        noun="What a step leaves behind on {}",
        of_workload=True,
    ),
    _less(
        "resident_memory_bytes",
        "bytes",
        "What is allocated on a device at the end of a step, as its allocator counts; the median of the steps.",
        gated=False,
        subject="device",
        cycles=Join.MEDIAN,
        ranks=Join.LARGEST,
        relative=thresholds.BYTES_TOLERANCE,
        noun="What stays allocated on {}",
    ),
    # A snapshot of an allocator, where a program wrote one.
    _less(
        "snapshot_allocated_bytes",
        "bytes",
        "What is in use in a snapshot of a device's allocator.",
        subject="device",
        cycles=Join.LARGEST,
        ranks=Join.LARGEST,
        relative=thresholds.BYTES_TOLERANCE,
        noun="What is in use on {} in a snapshot",
        of_workload=True,
    ),
    _less(
        "snapshot_peak_bytes",
        "bytes",
        "The most that was in use on a device in the history of a snapshot, in what was asked for.",
        subject="device",
        cycles=Join.LARGEST,
        ranks=Join.LARGEST,
        relative=thresholds.BYTES_TOLERANCE,
        noun="The peak on {} in the history of a snapshot",
        of_workload=True,
    ),
    _less(
        "snapshot_reserved_bytes",
        "bytes",
        "What the allocator has of a device in a snapshot.",
        gated=False,
        subject="device",
        cycles=Join.LARGEST,
        ranks=Join.LARGEST,
        relative=thresholds.BYTES_TOLERANCE,
        noun="What is reserved on {} in a snapshot",
    ),
    _less(
        "snapshot_fragmentation",
        "fraction",
        "The part of what is reserved on a device that nothing uses.",
        gated=False,
        subject="device",
        cycles=Join.LARGEST,
        ranks=Join.LARGEST,
        noun="The unused part of what is reserved on {}",
    ),
    _shown("profiled_step_time", "us", "Wall time of a profiled step; the minimum of the steps.", ranks=Join.LARGEST),
    _shown(
        "profiled_step_part",
        "us",
        "Parts of the fastest profiled step: in which no operator ran (idle), in which only collectives ran "
        "(communication), and by how much the others ran beside each other (overlap).",
        Better.EQUAL,
        subject="part (idle, overlap, communication)",
        cycles=Join.FASTEST,
    ),
    # Steps that perfguard drove itself.
    _warned(
        "step_time",
        "us",
        "Wall time of an unprofiled step, device synchronised; the minimum of the timed steps.",
        noun="A step of the test's own process",
        of_workload=True,
        leads=5,
    ),
    _warned(
        "step_cpu_time",
        "us",
        "CPU time of the thread that drives an unprofiled step; the minimum of the timed steps.",
        # MindSpore runs operators in its own threads, and sometimes in this one: the same LeNet step took 1.8 ms of it in seven
        # processes and 14.2 ms in the eighth, at the same wall time.
        shown_on=frozenset({"mindspore"}),
        noun="The CPU time of a step",
        of_workload=True,
    ),
    _timed(
        "pause_between_steps",
        "us",
        "Time between two steps of a script, without the wait for a CPU (its loader, evaluation, logging); the mean "
        "of the timed steps without the longest, of the slowest rank.",
        relative=thresholds.STALL_TOLERANCE,
        absolute=thresholds.PAUSE_US,
        noun="The time between two steps (loader, evaluation, logging)",
        of_workload=True,
        leads=4,
    ),
    _shown(
        "slowest_rank", "ratio", "Time of the slowest rank's profiled steps over that of the fastest's.", subject="rank"
    ),
    _shown(
        "profiler_overhead",
        "ratio",
        "Profiled step time divided by unprofiled step time, minimum by minimum.",
        noun="The profiler's overhead",
        of_workload=True,
    ),
    # Communication between ranks.
    _less(
        "communication_calls",
        "calls/step",
        "How often a collective or a send ran in a step.",
        subject="kind of collective",
    ),
    _shown(
        "communication_time",
        "us/step",
        "Time of a kind of collective in a step, from its start to its end.",
        subject="kind of collective",
    ),
    _shown(
        "communication_wait", "us/step", "How much of it a rank waited for the others.", subject="kind of collective"
    ),
    _less(
        "communication_size",
        "MB/step",
        "How much went over a kind of link (HCCS, RDMA, PCIE, SDMA) in a step.",
        subject="kind of link",
    ),
    _shown(
        "communication_bandwidth", "GB/s", "Size over time of a kind of link.", Better.HIGHER, subject="kind of link"
    ),
    _shown(
        "step_part_time",
        "us",
        "Parts of a step on the device: computing, communication, overlapped, free, bubble, ...",
        subject="part of the step",
    ),
    _shown(
        "rank_spread",
        "ratio",
        "Slowest rank over fastest rank: of operators, computing and communication.",
        subject="operators, computing or communication",
    ),
    _shown(
        "collective_wait",
        "us/step",
        "How long a rank waited for the last one to come to a collective.",
        subject="rank and kind of collective",
    ),
    _shown(
        "collective_transfer",
        "us/step",
        "How long a collective took once all ranks had come.",
        subject="kind of collective",
    ),
    # The device and its runtime.
    _shown(
        "device_utilisation",
        "fraction",
        "How busy a unit of the device was (cube, vector, memory transfer), weighted by the kernels' durations.",
        Better.HIGHER,
        subject="unit of the device",
    ),
    _shown(
        "device_clock",
        "MHz",
        "The clock of a device while it was profiled, the mean over time.",
        Better.HIGHER,
        subject="device",
        noun="The clock of {}",
    ),
    _same(
        "kernel_calls",
        "calls/step",
        "How often a kernel, a copy or a set runs on a device in a step.",
        subject="kernel",
        cycles=Join.PER_STEP,
        ranks=Join.SUM,
        noun="The calls of kernel {} a step",
    ),
    _shown(
        "kernel_time",
        "us/step",
        "Time of a kernel, a copy or a set in a step, of the step that launched it; the minimum of the steps.",
        subject="kernel",
        ranks=Join.LARGEST,
    ),
    _less(
        "launches",
        "launches/step",
        "How often a step launches work on a device; a graph is one launch; the median of the steps.",
        cycles=Join.MEDIAN_OF_ALL,
        ranks=Join.SUM,
        noun="The launches of a step",
        of_workload=True,
    ),
    _less(
        "synchronisations",
        "calls/step",
        "How often a step makes the host wait for a device; the median of the steps.",
        cycles=Join.MEDIAN_OF_ALL,
        ranks=Join.SUM,
        noun="The waits of a step for its device",
        of_workload=True,
    ),
    _same(
        "host_reads",
        "reads/step",
        "How often a step of a trace without a device reads a value of a tensor on the host (item, nonzero, unique, ...): on a "
        "device each read waits until it has done all that was asked of it; the median of the steps.",
        cycles=Join.MEDIAN_OF_ALL,
        ranks=Join.SUM,
        noun="The values that a step reads on the host",
        of_workload=True,
        for_device=Better.LOWER,
    ),
    _same(
        "waiting_operators",
        "waits/step by operator",
        "Which operators the waits (`synchronisations`) or reads (`host_reads`) of a step are of.",
        cycles=Join.PER_STEP,
    ),
    _same(
        "waiting_functions",
        "names",
        "In which functions of Python these operators are called, where stacks were recorded.",
        gated=False,
        cycles=Join.UNION,
    ),
    _less(
        "copies",
        "copies/step",
        "How often a step copies to, from or on a device; the median of the steps.",
        subject="kind of copy, such as HtoD",
        zero_with="kernel_calls",
        cycles=Join.MEDIAN_OF_ALL,
        ranks=Join.SUM,
        noun="The copies {} of a step",
    ),
    _less(
        "copied_bytes",
        "bytes/step",
        "How many bytes it copies; the median of the steps.",
        subject="kind of copy, such as HtoD",
        zero_with="kernel_calls",
        unknown_with="copies",
        cycles=Join.MEDIAN_OF_ALL,
        ranks=Join.SUM,
        noun="What a step copies {}",
    ),
    _shown(
        "device_time",
        "us",
        "What a device does in the fastest profiled step: computing, exposed communication (nothing else runs), exposed "
        "copying (nothing is computed) and idle are all of it; also communication, and of idle the waits for the host, for "
        "a collective and for another stream.",
        Better.EQUAL,
        subject="device and part",
        cycles=Join.FASTEST,
    ),
    _shown(
        "exposed_communication",
        "us/step",
        "How long a device only communicates in a step; the minimum of the steps.",
        subject="device",
        zero_with="device_idle",
        ranks=Join.LARGEST,
        noun="The exposed communication of a step on {}",
    ),
    _shown(
        "device_idle",
        "us/step",
        "How long a device runs nothing in a step; the minimum of the steps.",
        subject="device",
        ranks=Join.LARGEST,
        noun="The idle time of a step on {}",
    ),
    _shown(
        "launch_delay",
        "us",
        "From a call that launches work on a device to its begin, the mean of a step; the minimum of the steps.",
        subject="device",
    ),
    _shown(
        "queue_length",
        "launches",
        "How much was launched on a device and had not begun, at most in a step; the minimum of the steps.",
        Better.EQUAL,
        subject="device",
    ),
    _shown(
        "straggler",
        "us/step",
        "How long the other ranks wait in collectives for this one, which came last to them.",
        subject="rank",
        noun="What all ranks wait for {}",
    ),
    _shown(
        "flops",
        "MFLOP or GFLOP/s",
        "Floating-point operations of the window, and per second.",
        Better.EQUAL,
        subject="key of the file",
    ),
    _shown(
        "api_time",
        "us/step",
        "Time the host spent in a call of the runtime (Launch, aclrtSynchronizeStream, ...).",
        subject="call",
    ),
    # Graphs that a compiler saved.
    _same("graph_passes", "names", "Which passes of the compiler saved a graph at level 1 (at every level the same)."),
    _same(
        "graph_pass_details",
        "names",
        "Which steps inside the passes saved a graph: the backend's from level 2, all of them at level 3.",
    ),
    _less(
        "graph_compilations",
        "compilations",
        "How often a function or a net was compiled: once for each set of shapes, types and settings.",
        subject="function or net",
    ),
    _less(
        "graphs_built",
        "graphs",
        "How many graphs were built for the device: one a compilation, and one more for each branch or loop.",
    ),
    _same(
        "graph_operators", "operators", "How often an operator occurs in all final graphs together.", subject="operator"
    ),
    # The data pipeline.
    _shown(
        "pipeline_queue_usage",
        "fraction",
        "How full an operator's output queue was on average; near 0 it cannot keep up.",
        Better.HIGHER,
        subject="operator of the pipeline",
    ),
    _shown(
        "pipeline_batch_time",
        "us",
        "Time to get one batch: from asking the pipeline to having it.",
        subject="pipeline, push or batch",
    ),
    # Summary files.
    _metric(
        Kind.TIMED,
        Better.EQUAL,
        "summary_scalar",
        "value",
        "A scalar of a summary file, by step: loss/auto@10 is the loss of step 10.",
        # Losses of one machine and one seed are equal bit by bit: five fresh processes each of 20 and 60 steps, graph and
        # PyNative mode, one thread and two (MindSpore 2.10, CPU). With another instruction set (AVX2 or SSE 4.1 instead of
        # AVX-512) they differed by up to 2.1e-7 of themselves within 60 steps. A loss near 0 changes by several times itself.
        relative=1e-4,
        absolute=1e-6,
        warn_relative=1e-6,
        subject="tag@step",
    ),
    _less(
        "summary_not_finite",
        "steps",
        "In how many collected steps a scalar of a summary file is NaN or infinite.",
        subject="tag",
    ),
    _more("summary_steps", "steps", "In how many steps a value was collected into a summary file.", subject="tag"),
    _same("summary_tags", "names", "Which values a summary file has at all, and of what kind they are."),
    # Controlled processes.
    _timed(
        "step_ab",
        "ratio",
        "A step over the same step of the base, timed beside each other in one session.",
        relative=thresholds.PAIRED_TOLERANCE,
        by_run=True,
        noun="A step in the A/B run",
        of_workload=True,
        leads=2,
    ),
    _shown_of_runs("step_ab_time", "us", "The step that `step_ab` is taken from; the minimum of a process."),
    _timed(
        "step_cost",
        "ratio",
        "CPU time of a step in controlled processes, over that of a fixed matrix product run between the steps; "
        "minimum by minimum; where a device does the work, whose speed that product does not know, wall time in ms.",
        relative=thresholds.STORED_TOLERANCE,
        by_run=True,
        noun="The cost of a step",
        of_workload=True,
        leads=1,
    ),
    _shown_of_runs("run_cpu_time", "us", "CPU time of a step over all threads of a controlled process; the minimum."),
    _shown_of_runs(
        "run_wall_time",
        "us",
        "Wall time of a step in a controlled process without the time it waited for a CPU; the minimum.",
    ),
    _warned(
        "run_wall_p90",
        "us",
        "Wall time of a step in a controlled process without the time it waited for a CPU; 90th percentile.",
        by_run=True,
        noun="The slow steps (90th percentile)",
        of_workload=True,
        leads=6,
    ),
    _timed(
        "run_blocked_time",
        "us",
        "Time of a step in a controlled process in which it neither ran nor waited for a CPU (sleep, I/O, a lock, a "
        "loader); the mean of the steps. Not measured where a device does the work: waiting for it is no stall.",
        relative=thresholds.STALL_TOLERANCE,
        absolute=thresholds.STALL_US,
        by_run=True,
        causes="possible causes: sleep, I/O, lock, data loader",
        noun="The wait of a step (sleep, I/O, lock, loader)",
        of_workload=True,
        leads=3,
    ),
    _timed(
        "host_memory_growth_bytes",
        "bytes/step",
        "Host memory that a step in a controlled process keeps, in the third of the window in which it keeps least: a "
        "leak of Python objects, buffers or host tensors.",
        relative=thresholds.MEMORY_GROWTH_TOLERANCE,
        absolute=thresholds.MEMORY_GROWTH_BYTES,
        by_run=True,
        causes="the host leaks memory",
        noun="What a step keeps of the host's memory",
        of_workload=True,
        leads=8,
    ),
    _shown_of_runs(
        "run_calibration", "us", "CPU time of the kernel between the steps of a controlled process; the minimum."
    ),
    _shown_of_runs(
        "run_device_clock",
        "MHz",
        "The clock of a GPU while a controlled process timed its steps, as its driver has it (nvidia-ml-py or amdsmi); the "
        "highest of the processes.",
        Better.HIGHER,
        noun="The clock of the device",
    ),
    _shown_of_runs(
        "run_machine_load",
        "%",
        "Share of the machine's CPU time that other processes and virtual machines used while the steps of a controlled "
        "process were timed.",
    ),
)

METRICS: dict[str, Metric] = {one.name: one for one in _ALL}
#: What queries measure besides, for metrics that are made of several cycles or ranks.
PARTS = frozenset({"operator_total_ns", "operator_self_ns", "kernel_total_ns", "collective_durations_ns"})


def unit_of(metric: str) -> str:
    """Return the unit of a metric; empty for an unknown one."""
    return METRICS[metric].unit if metric in METRICS else ""


#: All metrics of time; a loss is compared like a time, but is none.
TIME_METRICS = frozenset(name for name, metric in METRICS.items() if metric.kind is Kind.TIMED) - {"summary_scalar"}
