"""Counters of AI Core at the end of kernel_details: which columns there are depends on the set of metrics asked for.

Sources: real output of torch_npu with PipeUtilization and MemoryL0 (msinsight test data); CANN documents of msprof's
op_summary for the columns of the other sets, as devices with separate cube (aic) and vector (aiv) cores have them.
"""

from __future__ import annotations

from perfguard.testing.formats import us
from perfguard.testing.truth import Kernel

#: The set both frameworks ask for unless told otherwise.
DEFAULT = "PipeUtilization"

#: 1800 MHz.
_CYCLES_PER_NS = 1.8

#: What every set begins with: of the cube core, then of the vector core.
_CUBE_TIME = ("aicore_time(us)", "aic_total_cycles")
_VECTOR_TIME = ("aiv_time(us)", "aiv_total_cycles")


def _both(*names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(f"aic_{name}" for name in names), tuple(f"aiv_{name}" for name in names)


#: Columns by set of metrics: those of the cube core, those of the vector core.
METRICS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    DEFAULT: (
        (
            "aic_mac_time(us)",
            "aic_mac_ratio",
            "aic_scalar_time(us)",
            "aic_scalar_ratio",
            "aic_mte1_time(us)",
            "aic_mte1_ratio",
            "aic_mte2_time(us)",
            "aic_mte2_ratio",
            "aic_fixpipe_time(us)",
            "aic_fixpipe_ratio",
            "aic_icache_miss_rate",
        ),
        (
            "aiv_vec_time(us)",
            "aiv_vec_ratio",
            "aiv_scalar_time(us)",
            "aiv_scalar_ratio",
            "aiv_mte2_time(us)",
            "aiv_mte2_ratio",
            "aiv_mte3_time(us)",
            "aiv_mte3_ratio",
            "aiv_icache_miss_rate",
        ),
    ),
    "ArithmeticUtilization": (
        ("aic_mac_fp16_ratio", "aic_mac_int8_ratio", "aic_cube_fops"),
        ("aiv_vec_fp32_ratio", "aiv_vec_fp16_ratio", "aiv_vec_int32_ratio", "aiv_vec_misc_ratio", "aiv_vector_fops"),
    ),
    "Memory": (
        ("aic_l1_read_bw(GB/s)", "aic_l1_write_bw(GB/s)", "aic_main_mem_read_bw(GB/s)", "aic_main_mem_write_bw(GB/s)"),
        ("aiv_ub_read_bw(GB/s)", "aiv_ub_write_bw(GB/s)", "aiv_main_mem_read_bw(GB/s)", "aiv_main_mem_write_bw(GB/s)"),
    ),
    "MemoryL0": (
        (
            "aic_l0a_read_bw(GB/s)",
            "aic_l0a_write_bw(GB/s)",
            "aic_l0b_read_bw(GB/s)",
            "aic_l0b_write_bw(GB/s)",
            "aic_l0c_read_bw_cube(GB/s)",
            "aic_l0c_write_bw_cube(GB/s)",
        ),
        ("aiv_l0c_read_bw(GB/s)", "aiv_l0c_write_bw(GB/s)"),
    ),
    "MemoryUB": (
        (),
        (
            "aiv_ub_read_bw_vector(GB/s)",
            "aiv_ub_write_bw_vector(GB/s)",
            "aiv_ub_read_bw_scalar(GB/s)",
            "aiv_ub_write_bw_scalar(GB/s)",
        ),
    ),
    "ResourceConflictRatio": (
        (),
        ("aiv_vec_bankgroup_cflt_ratio", "aiv_vec_bank_cflt_ratio", "aiv_vec_resc_cflt_ratio"),
    ),
    "L2Cache": _both(
        "write_cache_hit",
        "write_cache_miss_allocate",
        "r0_read_cache_hit",
        "r0_read_cache_miss_allocate",
        "r1_read_cache_hit",
        "r1_read_cache_miss_allocate",
    ),
    "MemoryAccess": _both(
        "read_main_memory_datas(KB)",
        "write_main_memory_datas(KB)",
        "GM_to_L1_datas(KB)",
        "L0C_to_L1_datas(KB)",
        "L0C_to_GM_datas(KB)",
        "GM_to_UB_datas(KB)",
        "UB_to_GM_datas(KB)",
    ),
}

#: The names CANN, and with it torch_npu's profiler_info, has for them.
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
    """Return the set of metrics a variant asks for: its own name, or what is asked for by default."""
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
    is_cube = one.operator.kind.core == "AI_CORE"
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
