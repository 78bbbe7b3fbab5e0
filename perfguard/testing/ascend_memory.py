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
from perfguard.testing.formats import Files, Row, csv_bytes, rounded_microseconds, tabbed_microseconds, us
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

_OPERATOR_MEMORY = (
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type"
)

_NETWORK = (
    "Timestamp(us),Bandwidth(MB/s),Rx Bandwidth efficiency(%),rxPacket/s,rxError rate(%),rxDropped rate(%),"
    "Tx Bandwidth efficiency(%),txPacket/s,txError rate(%),txDropped rate(%),funcId"
)


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
    header = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB)"
    device = f"NPU:{output.number}"
    rows: list[Row] = []
    if output.version:
        for one in memory_rows(output.rank, mindspore=True):
            sizes = [(size or 0) / 1024 / 1000 for size in one[2:]]
            # The framework's own times are decimals without trailing zeros, those copied from CANN keep their TAB.
            at = tabbed_microseconds(one.at_ns) if one.component == "GE" else str(Decimal(one.at_ns) / 1000)
            rows.append([one.component, at, *sizes, device])
        return csv_bytes(f"{header},Total Active(MB),Device Type", rows)
    for one in memory_rows(output.rank, mindspore=False):
        megabytes = ["" if size is None else size / MEGABYTE for size in one[2:]]
        if output.variant == "2023":
            rows.append([one.component, rounded_microseconds(one.at_ns), *megabytes[:2], device])
            continue
        stream = "" if one.active is None else STREAM_POINTER
        rows.append([one.component, tabbed_microseconds(one.at_ns), *megabytes, stream, device])
    recent = "" if output.variant == "2023" else ",Total Active(MB),Stream Ptr"
    return csv_bytes(f"{header}{recent},Device Type", rows)


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
    header = _OPERATOR_MEMORY.split(",")
    time: Callable[[int], object] = us if output.version else tabbed_microseconds
    duration = time
    if output.variant == "2023":
        header = [name for name in header if "Active" not in name and name != "Stream Ptr"]
        time, duration = rounded_microseconds, us
    blank = "N/A" if output.version else ""
    blocks = block_cells(output, blank=blank, time=time, duration=duration)
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
        cells: dict[str, object] = dict.fromkeys(_OPERATOR_MEMORY.split(","), blank)
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
    unit, number = ("KB", output.number) if output.version else ("MB", None)
    rows: list[Row] = [
        [module, tabbed_microseconds(at), 1024.0 * i if number is not None else float(i), f"NPU:{output.number}"]
        for i, module in enumerate(MODULES)
        for at in range(output.rank.start_ns, output.rank.start_ns + 4 * READING_NS, READING_NS)
    ]
    header = f"Component,Timestamp(us),Total Reserved({unit}),Device"
    if number is None:
        return cann_csv(header, rows, device=None)
    return csv_bytes(f"Device_id,{header}", ([number, *row] for row in rows))


def static_op_mem(output: Output) -> bytes:
    """Write static_op_mem.csv: memory of operators in graphs of fixed shapes."""
    rows = [
        [one.full_name, "kernel_graph0", output.truth.graph, number, number + 1, 64.0 * (number + 1)]
        for number, one in enumerate(output.truth.operators)
    ]
    return cann_csv("Op Name,Model Name,Graph ID,Node Index Start,Node Index End,Size(KB)", rows, device="host")


# --- the device's own counters: memory, network, buses, tasks


def memory_bandwidth(output: Output) -> bytes:
    """Write hbm.csv: the mean, then each stack of memory."""
    random = output.random("counters")
    stacks = [_sample(random, 2, 4_000) for _ in range(4)]
    mean = [round(sum(column) / len(stacks), 3) for column in zip(*stacks, strict=True)]
    rows = [["Average", *mean], *([f"hbmId{i}", *stack] for i, stack in enumerate(stacks))]
    return cann_csv("Metric,Read(MB/s),Write(MB/s)", rows, device=output.number)


def bus_counters(output: Output) -> Files:
    """Write nic.csv and roce.csv (`sys_io`), a row every 10 ms, and pcie.csv and hccs.csv (`sys_interconnection`)."""
    files: Files = {}
    if output.on["sys_io"]:
        random = output.random("counters")
        files |= {name: _network(output, random) for name in ("nic.csv", "roce.csv")}
    if output.on["sys_interconnection"]:
        random = output.random("counters")
        pcie, hccs = [], []
        for mode in ("Tx_p_avg(MB/s)", "Tx_np_avg(MB/s)", "Rx_p_avg(MB/s)", "Rx_np_avg(MB/s)"):
            low, mean, high = sorted(_sample(random, 3, 900))
            pcie.append((mode, low, high, mean))
        for mode in ("Tx(MB/s)", "Rx(MB/s)"):
            low, mean, high = sorted(_sample(random, 3, 900))
            hccs.append((mode, high, low, mean))
        files["pcie.csv"] = cann_csv("Mode,Min,Max,Avg", pcie, device=output.number)
        files["hccs.csv"] = cann_csv("Mode,Max,Min,Average", hccs, device=output.number)
    return files


def _network(output: Output, random: Random) -> bytes:
    rows = []
    for at in range(output.rank.start_ns, output.rank.end_ns, 10_000_000):
        row: list[object] = [tabbed_microseconds(at), *_sample(random, 1, 200)]
        for _ in range(2):
            row += [*_sample(random, 1, 100), random.randrange(9_000), 0.0, 0.0]
        rows.append([*row, 0])
    return cann_csv(_NETWORK, rows, device=output.number)


def _sample(random: Random, count: int, most: int) -> list[float]:
    return [round(random.uniform(0, most), 3) for _ in range(count)]


def task_time(output: Output) -> bytes:
    """Write task_time.csv: every task of the device, also at level 0."""
    rows = []
    for one in output.rank.kernels:
        times = (us(one.duration_ns), tabbed_microseconds(one.start_ns), tabbed_microseconds(one.end_ns))
        rows.append((one.name, one.operator.core, COMPUTE_STREAM, one.task, *times))
    header = "kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)"
    return cann_csv(header, rows, device=output.number)


def soc_pmu(output: Output) -> bytes:
    """Write soc_pmu.csv: hits of the translation buffer, by task."""
    rows = []
    for one in output.rank.kernels:
        hits = round(one.task % 89 / 100, 6)
        rows.append((COMPUTE_STREAM, one.task, hits, round(1 - hits, 6), one.name))
    return cann_csv("Stream Id,Task Id,TLB Hit Rate,TLB Miss Rate,Op Name", rows, device=output.number)
