"""Tables of kernels, operators and calls that torch_npu and MindSpore (2.5 and later) share.

Formats: real output of torch_npu level 0 to 2 (msinsight test data), MindSpore 2.10 source
(mindspore/profiler/analysis/viewer). Where both write a file, most of it is a copy of CANN's. Counters of AI Core: CANN
documents of msprof's op_summary, as devices with separate cube (aic) and vector (aiv) cores have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import pvariance
from typing import NamedTuple

from perfguard.testing.formats import Row, csv_bytes, rounded_microseconds, tabbed_microseconds, us
from perfguard.testing.torch_trace import HostOperation, host_operations
from perfguard.testing.truth import Collective, Kernel, Operator, Output, Rank, grouped, shape_text

#: The number CANN prints for no model, no context and no subtask.
NO_ID = 4294967295

#: Connection of the first kernel's launch; every later kernel and collective has the next number.
FIRST_CONNECTION = 900

#: The device's stream of kernels.
COMPUTE_STREAM = 2

_SHAPES = ["Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats"]

#: The default set of counters of both frameworks.
DEFAULT = "PipeUtilization"
_CYCLES_PER_NS = 1.8

_L2_CACHE = "write_cache_hit write_cache_miss_allocate " + " ".join(
    f"r{i}_read_cache_{result}" for i in (0, 1) for result in ("hit", "miss_allocate")
)
_MEMORY_ACCESS = "read_main_memory write_main_memory GM_to_L1 L0C_to_L1 L0C_to_GM GM_to_UB UB_to_GM"


def _times(units: str) -> str:
    return " ".join(f"{unit}_time(us) {unit}_ratio" for unit in units.split()) + " icache_miss_rate"


#: Sets of counters: their name in CANN, the columns of the cube core, those of the vector core, and what these end with.
METRICS: dict[str, tuple[str, str, str, str]] = {
    DEFAULT: ("PIPE_UTILIZATION", _times("mac scalar mte1 mte2 fixpipe"), _times("vec scalar mte2 mte3"), ""),
    "ArithmeticUtilization": (
        "ARITHMETIC_UTILIZATION",
        "mac_fp16_ratio mac_int8_ratio cube_fops",
        "vec_fp32_ratio vec_fp16_ratio vec_int32_ratio vec_misc_ratio vector_fops",
        "",
    ),
    "Memory": (
        "MEMORY_BANDWIDTH",
        "l1_read l1_write main_mem_read main_mem_write",
        "ub_read ub_write main_mem_read main_mem_write",
        "_bw(GB/s)",
    ),
    "MemoryL0": (
        "L0B_AND_WIDTH",
        "l0a_read_bw l0a_write_bw l0b_read_bw l0b_write_bw l0c_read_bw_cube l0c_write_bw_cube",
        "l0c_read_bw l0c_write_bw",
        "(GB/s)",
    ),
    "MemoryUB": (
        "MEMORY_UB",
        "",
        "ub_read_bw_vector ub_write_bw_vector ub_read_bw_scalar ub_write_bw_scalar",
        "(GB/s)",
    ),
    "ResourceConflictRatio": ("RESOURCE_CONFLICT_RATIO", "", "vec_bankgroup vec_bank vec_resc", "_cflt_ratio"),
    "L2Cache": ("L2_CACHE", _L2_CACHE, _L2_CACHE, ""),
    "MemoryAccess": ("MEMORY_ACCESS", _MEMORY_ACCESS, _MEMORY_ACCESS, "_datas(KB)"),
}


def metrics_of(variant: str) -> str:
    """Return the set of counters of a variant: its own name, or the default."""
    return variant if variant in METRICS else DEFAULT


def counters(variant: str) -> list[str]:
    """Return the columns of the counters, in their order."""
    _, cube, vector, ending = METRICS[metrics_of(variant)]
    columns = ["aicore_time(us)", "aic_total_cycles", *(f"aic_{name}{ending}" for name in cube.split())]
    columns += ["aiv_time(us)", "aiv_total_cycles", *(f"aiv_{name}{ending}" for name in vector.split())]
    return [*columns, *(["cube_utilization(%)"] if metrics_of(variant) == DEFAULT else [])]


def _counter_cells(one: Kernel, variant: str) -> dict[str, object]:
    """Return the counters of one kernel by their columns; those of the core it did not run on are 0."""
    columns = counters(variant)
    cells: dict[str, object] = {
        column: 0 if column.endswith(("_cycles", "_fops", "_hit", "_allocate", "(%)")) else 0.0 for column in columns
    }
    is_cube = one.operator.is_cube
    prefix = ("aic_", "aicore_") if is_cube else ("aiv_",)
    busy = one.duration_ns * 9 // 10
    for place, column in enumerate(name for name in columns if name.startswith(prefix)):
        cells[column] = _counter(column, place, busy)
    if is_cube and "cube_utilization(%)" in cells:
        cells["cube_utilization(%)"] = 66.301
    return cells


def _counter(column: str, place: int, busy_ns: int) -> float:
    values = {
        "aicore_time(us)": us(busy_ns),
        "aiv_time(us)": us(busy_ns),
        "_cycles": int(busy_ns * _CYCLES_PER_NS),
        "_time(us)": round(us(busy_ns) / (place + 1), 3),
        "_ratio": round(1 / max(place, 1), 3),
        **dict.fromkeys(("_fops", "_hit", "_allocate"), busy_ns // (place + 1)),
        **dict.fromkeys(("(GB/s)", "(KB)"), round(us(busy_ns) / (place + 3) % 400, 6)),
    }
    return next((value for ending, value in values.items() if column.endswith(ending)), 0.013)


def kernel_details(output: Output) -> bytes:
    """Write kernel_details.csv. Level 0 has neither shapes nor, for torch_npu, operator types and counters.

    The variant selects the columns of older or newer writers (`block-dim`, `block-num`, `device-id`, `2023`), or the counters.
    """
    step = "Step ID" if output.version else "Step Id"
    header = [*([step] if output.is_scheduled else []), *_kernel_header(output)]
    rows = []
    before_ns: int | None = None
    for one, cells in sorted(_kernel_cells(output), key=lambda pair: pair[0].start_ns):
        # A kernel waits from the end of the one that began before it, on whatever stream that was.
        wait_ns = 0 if before_ns is None else max(0, one.start_ns - before_ns)
        cells |= {step: one.step, "Wait Time(us)": us(wait_ns)}
        rows.append([cells.get(column, "N/A") for column in header])
        before_ns = one.end_ns
    return csv_bytes(header, rows)


def _kernel_header(output: Output) -> list[str]:
    variant = output.variant
    times = ["Start Time(us)", "Duration(us)", "Wait Time(us)"]
    is_number = variant != "block-dim" if output.version else variant == "block-num"
    block = "Block Num" if is_number else "Block Dim"
    device = ["Device_id"] if variant == "device-id" else []
    if output.level == 0 and not output.version:
        return [*device, "Name", "Type", "Accelerator Core", *times, block]
    state = [] if variant == "2023" else ["OP State"]
    names = [*device, "Model ID", "Task ID", "Stream ID", "Name", "Type", *state, "Accelerator Core"]
    if output.level == 0:
        return [*names, *times, block]
    return [*names, *times, block, f"Mix {block}", "HF32 Eligible", *_SHAPES, "Context ID", *counters(variant)]


def _kernel_cells(output: Output) -> Iterator[tuple[Kernel | Collective, dict[str, object]]]:
    """Yield every kernel and collective with its cells by column."""
    time = rounded_microseconds if output.variant == "2023" else tabbed_microseconds

    def common(one: Kernel | Collective, blocks: int) -> dict[str, object]:
        start, duration = time(one.start_ns), us(one.duration_ns)
        cells = {"Device_id": output.number, "Model ID": NO_ID, "Start Time(us)": start, "Duration(us)": duration}
        return {**cells, "Block Dim": blocks, "Block Num": blocks}

    for one in output.rank.kernels:
        operator, name = one.operator, one.name
        cells = common(one, 32) | {
            "Task ID": one.task,
            "Stream ID": COMPUTE_STREAM,
            "Name": f"{operator.full_name}/{name}" if output.version else name,
            "Type": operator.type if output.level else "N/A",
            "OP State": "dynamic" if output.level else "N/A",
            "Accelerator Core": operator.core,
            "Mix Block Dim": 0,
            "Mix Block Num": 0,
            "HF32 Eligible": "YES" if operator.is_cube else "NO",
        }
        yield one, {**cells, **_shape_cells(operator), **_counter_cells(one, output.variant)}
    for collective in output.rank.collectives:
        names = {"Name": output.truth.name_of(collective), "Type": f"hcom_{collective.type}_"}
        yield collective, {**common(collective, 0), **names, "Accelerator Core": "HCCL"}


def _shape_cells(operator: Operator) -> dict[str, object]:
    inputs = [shape for shape in operator.inputs if shape]
    # The quotes are part of the text.
    shapes = [f'"{operator.input_shapes}"', ";".join("FLOAT" for _ in inputs), ";".join("ND" for _ in inputs)]
    return dict(zip(_SHAPES, [*shapes, f'"{shape_text(operator.output)}"', "FLOAT", "ND"], strict=True))


def cann_csv(output: Output, table: str, rows: Iterable[Row], *, device: object = None, newline: str = "\n") -> bytes:
    """Write a table of CANN, or a copy of one; newer ones begin with the device, or `host`, older ones end earlier."""
    names = output.columns(table).split(",")
    first = [output.number if device is None else device] if names[0] == "Device_id" else []
    return csv_bytes(names, ([*first, *row][: len(names)] for row in rows), newline=newline)


def op_statistic(output: Output) -> bytes:
    """Write op_statistic.csv: kernels by type and core, the longest first; collective operations are not in it."""
    kernels = output.rank.kernels
    groups = grouped(kernels, lambda one: (one.operator.type, one.operator.core))
    times = [(*key, [one.duration_ns for one in ones]) for key, ones in groups.items()]
    whole = sum(one.duration_ns for one in kernels)
    is_new = output.version or output.variant == "device-id"
    rows = []
    for kind, core, durations in sorted(times, key=lambda item: -sum(item[2])):
        total = sum(durations)
        # Newer CANN cuts the average off, older rounds it.
        average = total // len(durations) / 1000 if is_new else round(total / len(durations) / 1000, 3)
        low, high = us(min(durations)), us(max(durations))
        rows.append([kind, core, len(durations), us(total), low, average, high, round(100 * total / whole, 3)])
    return cann_csv(output, "op_statistic", rows)


def l2_cache(output: Output) -> bytes:
    """Write l2_cache.csv; the hit rate is not available on the hardware whose files are known."""
    kernels = output.rank.kernels
    rows = [[COMPUTE_STREAM, one.task, "N/A", round(one.task % 97 / 100, 6), one.name] for one in kernels]
    return cann_csv(output, "l2_cache", rows)


class Call(NamedTuple):
    """One call into CANN on the host; `connection` joins it with the task on the device."""

    level: str
    name: str
    start_ns: int
    duration_ns: int
    connection: int


def calls(rank: Rank) -> list[Call]:
    """Return the calls that launched kernels and collective operations, in the order of time."""
    found = []
    for number, one in enumerate(rank.kernels, start=FIRST_CONNECTION):
        start, length = one.launch.start_ns, one.launch.duration_ns
        found.append(Call("node", "launch", start, length // 2, number))
        found.append(Call("acl", f"aclnn{one.operator.type}_Tiling", start, length // 4, number))
    for number, collective in enumerate(rank.collectives, start=FIRST_CONNECTION + len(rank.kernels)):
        found.append(Call("node", "launch", collective.launch_ns, 4_010, number))
        found.append(Call("hccl", "Launch_Ffts", collective.launch_ns + 500, 3_120, number))
    return sorted(found, key=lambda call: (call.start_ns, -call.duration_ns))


def api_statistic(output: Output) -> bytes:
    """Write api_statistic.csv: calls by level and name."""
    rows = []
    for key, group in grouped(calls(output.rank), lambda call: (call.level, call.name)).items():
        times = [us(call.duration_ns) for call in group]
        total = us(sum(call.duration_ns for call in group))
        average, variance = round(total / len(times), 3), round(pvariance(times), 3)
        rows.append([*key, total, len(times), average, min(times), max(times), variance])
    return cann_csv(output, "api_statistic", rows, device="host")


def operator_details(output: Output) -> bytes:
    """Write operator_details.csv. torch_npu's cells of shapes and stacks hold line ends of their own."""
    rank, header = output.rank, output.columns("operator_details")
    if output.version:
        inputs = [(one.operator.full_name, str([*map(list, one.operator.shapes)])) for one in rank.kernels]
        return csv_bytes(header, inputs)
    kernels = {one.launch.start_ns: one for one in rank.kernels}
    rows = []
    for one, inner, own, below in _device_times(host_operations(rank), kernels):
        device = [sum(kernel.duration_ns for kernel in ones) for ones in (own, below)]
        device += [sum(kernel.duration_ns for kernel in ones if kernel.operator.is_cube) for ones in (own, below)]
        host = one.duration_ns
        texts = (
            one.name,
            one.input_shapes if output.on["shapes"] else "",
            one.call_stack if output.on["stack"] else "",
        )
        rows.append([*texts, us(host - inner), us(host), *(us(time) if time else 0 for time in device)])
    return csv_bytes(header, rows)


def _device_times(
    operations: list[HostOperation], kernels: dict[int, Kernel]
) -> Iterator[tuple[HostOperation, int, list[Kernel], list[Kernel]]]:
    """Yield each operation, the time of its direct children, its own kernels, and its own with those of all descendants."""
    for place, one in enumerate(operations):
        inside = []
        for other in operations[place + 1 :]:
            if other.start_ns >= one.end_ns:
                break
            inside.append(other)
        direct, until = 0, 0
        for other in inside:
            if other.end_ns > until:
                direct, until = direct + other.duration_ns, other.end_ns
        own = [kernels[one.launch_ns]] if one.is_kernel_launch else []
        below = [kernels[other.launch_ns] for other in inside if other.is_kernel_launch]
        yield one, direct, own, [*own, *below]
