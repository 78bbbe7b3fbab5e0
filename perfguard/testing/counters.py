"""Counters of AI Core, the last columns of kernel_details: they depend on the requested set of metrics.

Sources: real output of torch_npu with PipeUtilization and MemoryL0 (msinsight test data); CANN documents of msprof's
op_summary for the columns of the other sets, as devices with separate cube (aic) and vector (aiv) cores have them.
"""

from __future__ import annotations

from perfguard.testing.formats import us
from perfguard.testing.truth import Kernel

#: The default set of both frameworks.
DEFAULT = "PipeUtilization"

#: 1800 MHz.
_CYCLES_PER_NS = 1.8

#: The first columns of every set: of the cube core, then of the vector core.
_CUBE_TIME = ("aicore_time(us)", "aic_total_cycles")
_VECTOR_TIME = ("aiv_time(us)", "aiv_total_cycles")


def _pair(cube: str, vector: str, *, ending: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (
        tuple(f"aic_{name}{ending}" for name in cube.split()),
        tuple(f"aiv_{name}{ending}" for name in vector.split()),
    )


_L2_CACHE = " ".join(
    f"{access}_cache_{result}" for access in ("write", "r0_read", "r1_read") for result in ("hit", "miss_allocate")
)
_MEMORY_ACCESS = "read_main_memory write_main_memory GM_to_L1 L0C_to_L1 L0C_to_GM GM_to_UB UB_to_GM"


def _times(units: str) -> str:
    return " ".join(f"{unit}_time(us) {unit}_ratio" for unit in units.split()) + " icache_miss_rate"


#: Columns by set of metrics: those of the cube core, those of the vector core.
METRICS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    DEFAULT: _pair(_times("mac scalar mte1 mte2 fixpipe"), _times("vec scalar mte2 mte3")),
    "ArithmeticUtilization": _pair(
        "mac_fp16_ratio mac_int8_ratio cube_fops",
        "vec_fp32_ratio vec_fp16_ratio vec_int32_ratio vec_misc_ratio vector_fops",
    ),
    "Memory": _pair(
        "l1_read l1_write main_mem_read main_mem_write",
        "ub_read ub_write main_mem_read main_mem_write",
        ending="_bw(GB/s)",
    ),
    "MemoryL0": _pair(
        "l0a_read_bw l0a_write_bw l0b_read_bw l0b_write_bw l0c_read_bw_cube l0c_write_bw_cube",
        "l0c_read_bw l0c_write_bw",
        ending="(GB/s)",
    ),
    "MemoryUB": _pair("", "ub_read_bw_vector ub_write_bw_vector ub_read_bw_scalar ub_write_bw_scalar", ending="(GB/s)"),
    "ResourceConflictRatio": _pair("", "vec_bankgroup vec_bank vec_resc", ending="_cflt_ratio"),
    "L2Cache": _pair(_L2_CACHE, _L2_CACHE),
    "MemoryAccess": _pair(_MEMORY_ACCESS, _MEMORY_ACCESS, ending="_datas(KB)"),
}

#: Their names in CANN, and in torch_npu's profiler_info.
CANN_NAMES = {
    DEFAULT: "PIPE_UTILIZATION",
    "ArithmeticUtilization": "ARITHMETIC_UTILIZATION",
    "Memory": "MEMORY_BANDWIDTH",
    "MemoryL0": "L0B_AND_WIDTH",
    "MemoryUB": "MEMORY_UB",
    "ResourceConflictRatio": "RESOURCE_CONFLICT_RATIO",
    "L2Cache": "L2_CACHE",
    "MemoryAccess": "MEMORY_ACCESS",
}


def metrics_of(variant: str) -> str:
    """Return the set of metrics of a variant: its own name, or the default."""
    return variant if variant in METRICS else DEFAULT


def counters(variant: str) -> tuple[str, ...]:
    """Return the columns of the counters, in their order."""
    metrics = metrics_of(variant)
    cube, vector = METRICS[metrics]
    last = ("cube_utilization(%)",) if metrics == DEFAULT else ()
    return (*_CUBE_TIME, *cube, *_VECTOR_TIME, *vector, *last)


def counter_cells(one: Kernel, variant: str) -> dict[str, object]:
    """Return the counters of one kernel by their columns; those of the core it did not run on are 0."""
    columns = counters(variant)
    cells: dict[str, object] = {
        column: 0 if column.endswith(("_cycles", "_fops", "_hit", "_allocate", "(%)")) else 0.0 for column in columns
    }
    is_cube = one.operator.is_cube
    prefix = ("aic_", "aicore_") if is_cube else ("aiv_",)
    busy = one.duration_ns * 9 // 10
    for place, column in enumerate(name for name in columns if name.startswith(prefix)):
        cells[column] = _value(column, place, busy)
    if is_cube and "cube_utilization(%)" in cells:
        cells["cube_utilization(%)"] = 66.301
    return cells


def _value(column: str, place: int, busy_ns: int) -> object:
    if column in ("aicore_time(us)", "aiv_time(us)"):
        return us(busy_ns)
    if column.endswith("_cycles"):
        return int(busy_ns * _CYCLES_PER_NS)
    if column.endswith("_time(us)"):
        return round(us(busy_ns) / (place + 1), 3)
    if column.endswith("_ratio"):
        return round(1 / place, 3)
    if column.endswith(("_fops", "_hit", "_allocate")):
        return busy_ns // (place + 1)
    if column.endswith(("(GB/s)", "(KB)")):
        return round(us(busy_ns) / (place + 3) % 400, 6)
    return 0.013
