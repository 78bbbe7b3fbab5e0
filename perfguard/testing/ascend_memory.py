"""Tables of device memory and of the device's own counters that torch_npu and MindSpore (2.5 and later) write.

Formats: real output of torch_npu (msinsight test data), MindSpore 2.10 source (mindspore/profiler/analysis/viewer), CANN 8
documents of the msprof data files. No real sample of the counters is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from random import Random
from typing import NamedTuple

from perfguard.testing.ascend_operators import COMPUTE_STREAM, cann_csv
from perfguard.testing.formats import Files, Row, columns, csv_bytes, rounded_microseconds, tabbed_microseconds, us
from perfguard.testing.truth import Allocation, Output, Rank, memory_totals

MEGABYTE = 1 << 20

#: Bytes the process holds before the window, of the framework's pool and of the graph engine.
_POOL_BEFORE = 981_462_016
#: Bytes the pool has reserved by then.
POOL_RESERVED = 1452 * MEGABYTE
_ENGINE_RESERVED = 78_381_056
#: Bytes the process as a whole has reserved.
PROCESS_RESERVED = 2_212_077_568

#: Time between two readings of CANN [ns].
READING_NS = 20_000_000

STREAM_POINTER = 897357296

#: Components of npu_module_mem; the real file has 77, sampled in turn.
MODULES = ("SLOG", "DEVMM", "RUNTIME", "AICPU", "HCCL", "APP", "GE", "MBUFF")


class Reading(NamedTuple):
    """One reading of device memory, in bytes; None where the component does not know."""

    component: str
    at_ns: int
    allocated: int | None
    reserved: int
    active: int | None


def memory_rows(rank: Rank, *, mindspore: bool) -> list[Reading]:
    """Return the rows of memory_record.csv: the whole process, the framework's pool, the graph engine, and both together."""
    pool = "MindSpore" if mindspore else "PTA"
    process = [Reading("APP", at, None, PROCESS_RESERVED, None) for at in range(rank.start_ns, rank.end_ns, READING_NS)]
    engine = engine_reserved = 0
    both = []

    def together(at_ns: int, allocated: int) -> Reading:
        return Reading(f"{pool}+GE", at_ns, allocated + engine, POOL_RESERVED + engine_reserved, allocated)

    for number, (at, _, total) in enumerate(memory_totals(rank.allocations)):
        used = _POOL_BEFORE + total
        both += [Reading(pool, at, used, POOL_RESERVED, used), together(at, used)]
        if number % 5 == 4:
            engine, engine_reserved = 0 if engine else 51_511_296, _ENGINE_RESERVED
            both += [Reading("GE", at + 1, engine, _ENGINE_RESERVED, None), together(at + 1, used)]
    # torch_npu puts the readings of the process first, MindSpore last.
    return [*both, *process] if mindspore else [*process, *both]


def memory_record(output: Output) -> bytes:
    """Write memory_record.csv. A MB of MindSpore has 1000 KB of 1024 bytes; one of torch_npu has 1024."""
    rows: list[Row] = []
    device = f"NPU:{output.number}"
    for one in memory_rows(output.rank, mindspore=bool(output.version)):
        if output.version:
            sizes: list[object] = [(size or 0) / 1024 / 1000 for size in one[2:]]
            # The framework's own times are decimals without trailing zeros, those copied from CANN keep their TAB.
            at = tabbed_microseconds(one.at_ns) if one.component == "GE" else str(Decimal(one.at_ns) / 1000)
        else:
            sizes = ["" if size is None else size / MEGABYTE for size in one[2:]]
            sizes.append("" if one.active is None else STREAM_POINTER)
            at = tabbed_microseconds(one.at_ns)
        if output.variant == "2023":
            at, sizes = rounded_microseconds(one.at_ns), sizes[:2]
        rows.append([one.component, at, *sizes, device])
    return csv_bytes(output.columns("memory_record"), rows)


def block_totals(rank: Rank) -> Iterator[tuple[Allocation, int, int]]:
    """Yield the blocks in the order of their allocation, with the pool's bytes then and at the release (0 without one)."""
    totals: dict[tuple[int, int | None], int] = {}
    for at, block, total in memory_totals(rank.allocations):
        totals[id(block), at] = _POOL_BEFORE + total
    for one in rank.allocations:
        yield one, totals[id(one), one.start_ns], totals.get((id(one), one.end_ns), 0)


def operator_memory(output: Output) -> bytes:
    """Write operator_memory.csv; a block that is not released has blank (torch_npu) or `N/A` cells (MindSpore).

    torch_npu of 2023 has rounded times, and no columns of active memory.
    """
    header = output.columns("operator_memory").split(",")
    time: Callable[[int], object] = us if output.version else tabbed_microseconds
    duration = time
    if output.variant == "2023":
        time, duration = rounded_microseconds, us
    blocks = block_cells(output, blank="N/A" if output.version else "", time=time, duration=duration)
    return csv_bytes(header, ([cells[name] for name in header] for cells in blocks))


def block_cells(
    output: Output, *, blank: str, time: Callable[[int], object], duration: Callable[[int], object]
) -> Iterator[dict[str, object]]:
    """Yield the cells of every block by their columns in operator_memory.csv."""

    def totals(moment: str, total: int) -> dict[str, object]:
        sizes = {"Allocated": total, "Reserved": POOL_RESERVED, "Active": total}
        return {f"{moment} Total {kind}(MB)": size / MEGABYTE for kind, size in sizes.items()}

    for one, at_start, at_end in block_totals(output.rank):
        name = one.operator.type if output.version else one.operator.torch
        cells: dict[str, object] = dict.fromkeys(columns("operator_memory").split(","), blank)
        cells |= {"Name": name, "Size(KB)": one.size / 1024, "Allocation Time(us)": time(one.start_ns)}
        cells |= {"Stream Ptr": STREAM_POINTER, "Device Type": f"NPU:{output.number}"}
        cells |= totals("Allocation", at_start)
        if one.end_ns is not None:
            for prefix in ("",) if output.version else ("", "Active "):
                cells[f"{prefix}Release Time(us)"] = time(one.end_ns)
                cells[f"{prefix}Duration(us)"] = duration(one.end_ns - one.start_ns)
            cells |= totals("Release", at_end)
        yield cells


def npu_module_mem(output: Output) -> bytes:
    """Write npu_module_mem.csv: MB in torch_npu's file, KB in CANN's, which MindSpore copies."""
    unit, device = 1024.0 if output.version else 1.0, f"NPU:{output.number}"
    rows = [
        [module, tabbed_microseconds(output.rank.start_ns + reading * READING_NS), unit * i, device]
        for i, module in enumerate(MODULES)
        for reading in range(4)
    ]
    return cann_csv(output, "npu_module_mem", rows, newline="\r\n" if output.version else "\n")


def static_op_mem(output: Output) -> bytes:
    """Write static_op_mem.csv: memory of operators in graphs of fixed shapes."""
    rows = [
        [one.full_name, "kernel_graph0", output.truth.graph, number, number + 1, 64.0 * (number + 1)]
        for number, one in enumerate(output.truth.operators)
    ]
    return cann_csv(output, "static_op_mem", rows, device="host")


# --- the device's own counters: memory, network, buses, tasks


def memory_bandwidth(output: Output) -> bytes:
    """Write hbm.csv: the mean, then each stack of memory."""
    random = output.random("counters")
    stacks = [_sample(random, 2, 4_000) for _ in range(4)]
    mean = [round(sum(column) / len(stacks), 3) for column in zip(*stacks, strict=True)]
    return cann_csv(output, "hbm", [["Average", *mean], *([f"hbmId{i}", *stack] for i, stack in enumerate(stacks))])


def bus_counters(output: Output) -> Files:
    """Write nic.csv and roce.csv (`sys_io`), a row every 10 ms, and pcie.csv and hccs.csv (`sys_interconnection`)."""
    files: Files = {}
    if output.on["sys_io"]:
        random = output.random("counters")
        files |= {name: cann_csv(output, "network", _network(output, random)) for name in ("nic.csv", "roce.csv")}
    if output.on["sys_interconnection"]:
        random = output.random("counters")
        modes = ("Tx_p_avg", "Tx_np_avg", "Rx_p_avg", "Rx_np_avg", "Tx", "Rx")
        rows = [(f"{mode}(MB/s)", *sorted(_sample(random, 3, 900))) for mode in modes]
        files["pcie.csv"] = cann_csv(output, "pcie", [(mode, low, high, mean) for mode, low, mean, high in rows[:4]])
        files["hccs.csv"] = cann_csv(output, "hccs", [(mode, high, low, mean) for mode, low, mean, high in rows[4:]])
    return files


def _network(output: Output, random: Random) -> Iterator[Row]:
    for at in range(output.rank.start_ns, output.rank.end_ns, 10_000_000):
        row: list[object] = [tabbed_microseconds(at), *_sample(random, 1, 200)]
        for _ in range(2):
            row += [*_sample(random, 1, 100), random.randrange(9_000), 0.0, 0.0]
        yield [*row, 0]


def _sample(random: Random, count: int, most: int) -> list[float]:
    return [round(random.uniform(0, most), 3) for _ in range(count)]


def task_time(output: Output) -> bytes:
    """Write task_time.csv: every task of the device, also at level 0."""
    rows = []
    for one in output.rank.kernels:
        times = (us(one.duration_ns), tabbed_microseconds(one.start_ns), tabbed_microseconds(one.end_ns))
        rows.append((one.name, one.operator.core, COMPUTE_STREAM, one.task, *times))
    return cann_csv(output, "task_time", rows)


def soc_pmu(output: Output) -> bytes:
    """Write soc_pmu.csv: hits of the translation buffer, by task."""
    hits = ((one, round(one.task % 89 / 100, 6)) for one in output.rank.kernels)
    rows = [(COMPUTE_STREAM, one.task, share, round(1 - share, 6), one.name) for one, share in hits]
    return cann_csv(output, "soc_pmu", rows)
