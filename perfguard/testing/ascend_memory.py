"""Tables of device memory that torch_npu and MindSpore (2.5 and later) write.

Formats: real output of torch_npu (msinsight test data), MindSpore 2.10 source (mindspore/profiler/analysis/viewer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from perfguard.testing.ascend_operators import cann_csv
from perfguard.testing.formats import columns, csv_bytes, rounded_microseconds, tabbed_microseconds, us
from perfguard.testing.truth import Rank, Truth, memory_totals

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

_OPERATOR_MEMORY = columns(
    "Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),Active Duration(us),"
    "Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),"
    "Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """One reading of device memory, in bytes; None where the component does not know."""

    component: str
    at_ns: int
    allocated: int | None = None
    reserved: int
    active: int | None = None


def memory_rows(rank: Rank, *, mindspore: bool) -> list[MemoryRow]:
    """Return the rows of memory_record.csv: the whole process, the framework's pool, the graph engine, and both together."""
    pool = "MindSpore" if mindspore else "PTA"
    process = [
        MemoryRow(component="APP", at_ns=at, reserved=PROCESS_RESERVED)
        for at in range(rank.start_ns, rank.end_ns, READING_NS)
    ]
    engine = engine_reserved = 0
    both = []

    def together(at_ns: int, allocated: int) -> MemoryRow:
        total, reserved = allocated + engine, POOL_RESERVED + engine_reserved
        return MemoryRow(component=f"{pool}+GE", at_ns=at_ns, allocated=total, reserved=reserved, active=allocated)

    for number, (at, _, total) in enumerate(memory_totals(rank.allocations)):
        used = _POOL_BEFORE + total
        both.append(MemoryRow(component=pool, at_ns=at, allocated=used, reserved=POOL_RESERVED, active=used))
        both.append(together(at, used))
        if number % 5 == 4:
            engine, engine_reserved = 0 if engine else 51_511_296, _ENGINE_RESERVED
            both.append(MemoryRow(component="GE", at_ns=at + 1, allocated=engine, reserved=_ENGINE_RESERVED))
            both.append(together(at + 1, used))
    # torch_npu puts the readings of the process first, MindSpore last.
    return [*both, *process] if mindspore else [*process, *both]


def memory_record(rank: Rank, *, mindspore: bool, variant: str = "") -> bytes:
    """Write memory_record.csv. A MB of MindSpore has 1000 KB of 1024 bytes; one of torch_npu has 1024."""
    header = "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB)"
    device = f"NPU:{rank.number}"
    rows: list[list[object]] = []
    if mindspore:
        for one in memory_rows(rank, mindspore=True):
            sizes = [(size or 0) / 1024 / 1000 for size in (one.allocated, one.reserved, one.active)]
            # The framework's own times are decimals without trailing zeros, those copied from CANN keep their TAB.
            at = tabbed_microseconds(one.at_ns) if one.component == "GE" else str(Decimal(one.at_ns) / 1000)
            rows.append([one.component, at, *sizes, device])
        return csv_bytes([columns(f"{header},Total Active(MB),Device Type"), *rows])
    for one in memory_rows(rank, mindspore=False):
        megabytes = ["" if size is None else size / MEGABYTE for size in (one.allocated, one.reserved, one.active)]
        if variant == "2023":
            rows.append([one.component, rounded_microseconds(one.at_ns), *megabytes[:2], device])
            continue
        stream = "" if one.active is None else STREAM_POINTER
        rows.append([one.component, tabbed_microseconds(one.at_ns), *megabytes, stream, device])
    recent = "" if variant == "2023" else ",Total Active(MB),Stream Ptr"
    return csv_bytes([columns(f"{header}{recent},Device Type"), *rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRow:
    """The life of one block of device memory, with the pool's totals in bytes at its allocation and release."""

    name: str
    size: int
    start_ns: int
    end_ns: int | None
    total_at_start: int
    total_at_end: int | None


def block_rows(rank: Rank, *, mindspore: bool) -> list[BlockRow]:
    """Return the blocks in the order of their allocation."""
    totals: dict[tuple[int, int | None], int] = {}
    for at, block, total in memory_totals(rank.allocations):
        totals[id(block), at] = _POOL_BEFORE + total
    return [
        BlockRow(
            name=one.operator.type if mindspore else one.operator.kind.torch,
            size=one.size,
            start_ns=one.start_ns,
            end_ns=one.end_ns,
            total_at_start=totals[id(one), one.start_ns],
            total_at_end=totals.get((id(one), one.end_ns)),
        )
        for one in rank.allocations
    ]


def operator_memory(rank: Rank, *, mindspore: bool, variant: str = "") -> bytes:
    """Write operator_memory.csv; a block that is not released has blank (torch_npu) or `N/A` cells (MindSpore).

    torch_npu of 2023 has rounded times, and no columns of active memory.
    """
    header: tuple[str, ...] = _OPERATOR_MEMORY
    time: Callable[[int], object] = us if mindspore else tabbed_microseconds
    duration = time
    if variant == "2023":
        header = tuple(name for name in header if "Active" not in name and name != "Stream Ptr")
        time, duration = rounded_microseconds, us
    blocks = block_cells(rank, mindspore=mindspore, blank="N/A" if mindspore else "", time=time, duration=duration)
    return csv_bytes([header, *([cells[name] for name in header] for cells in blocks)])


def block_cells(
    rank: Rank, *, mindspore: bool, blank: str, time: Callable[[int], object], duration: Callable[[int], object]
) -> Iterator[dict[str, object]]:
    """Yield the cells of every block by their columns in operator_memory.csv."""
    reserved = POOL_RESERVED / MEGABYTE

    def totals(moment: str, total: int) -> dict[str, object]:
        used = total / MEGABYTE
        return dict(zip((f"{moment} Total {kind}(MB)" for kind in _KINDS), (used, reserved, used), strict=True))

    for one in block_rows(rank, mindspore=mindspore):
        cells: dict[str, object] = dict.fromkeys(_OPERATOR_MEMORY, blank)
        cells |= {"Name": one.name, "Size(KB)": one.size / 1024, "Allocation Time(us)": time(one.start_ns)}
        cells |= {"Stream Ptr": STREAM_POINTER, "Device Type": f"NPU:{rank.number}"}
        cells |= totals("Allocation", one.total_at_start)
        if one.end_ns is not None and one.total_at_end is not None:
            for prefix in ("",) if mindspore else ("", "Active "):
                cells[f"{prefix}Release Time(us)"] = time(one.end_ns)
                cells[f"{prefix}Duration(us)"] = duration(one.end_ns - one.start_ns)
            cells |= totals("Release", one.total_at_end)
        yield cells


_KINDS = ("Allocated", "Reserved", "Active")


def npu_module_mem(rank: Rank, *, mindspore: bool) -> bytes:
    """Write npu_module_mem.csv: MB in torch_npu's file, KB in CANN's, which MindSpore copies."""
    rows: list[list[object]] = []
    for number, module in enumerate(MODULES):
        for reading in range(4):
            at = tabbed_microseconds(rank.start_ns + READING_NS * reading)
            size = 1024.0 * number
            rows.append([module, at, size if mindspore else size / 1024, f"NPU:{rank.number}"])
    unit = "KB" if mindspore else "MB"
    header = f"Component,Timestamp(us),Total Reserved({unit}),Device"
    if mindspore:
        return csv_bytes([columns(f"Device_id,{header}"), *([rank.number, *row] for row in rows)])
    return cann_csv(header, rows, device=None)


def static_op_mem(truth: Truth) -> bytes:
    """Write static_op_mem.csv: memory of operators in graphs of fixed shapes."""
    rows = [
        [one.full_name, "kernel_graph0", truth.graph, number, number + 1, 64.0 * (number + 1)]
        for number, one in enumerate(truth.operators)
    ]
    header = "Op Name,Model Name,Graph ID,Node Index Start,Node Index End,Size(KB)"
    return cann_csv(header, rows, device="host")
