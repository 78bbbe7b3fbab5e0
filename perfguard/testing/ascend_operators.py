"""Tables of kernels, operators and calls that torch_npu and MindSpore (2.5 and later) share.

Formats: real output of torch_npu level 0 to 2 (msinsight test data), MindSpore 2.10 source
(mindspore/profiler/analysis/viewer). Where both write a file, most of it is a copy of CANN's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import pvariance
from typing import NamedTuple

from perfguard.testing.counters import counter_cells, counters
from perfguard.testing.formats import columns, csv_bytes, rounded_microseconds, tabbed_microseconds, us
from perfguard.testing.torch_trace import HostOperation, host_operations
from perfguard.testing.truth import Collective, Kernel, Operator, Rank, Truth, grouped

#: The number CANN prints for no model, no context and no subtask.
NO_ID = 4294967295

#: Connection of the first kernel's launch; every later kernel and collective has the next number.
FIRST_CONNECTION = 900

#: The device's stream of kernels.
COMPUTE_STREAM = 2

_SHAPES = columns("Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats")


def collective_name(truth: Truth, one: Collective) -> str:
    """Name of one collective operation, with three digits of its group: `hcom_allReduce__586_0_1`."""
    return f"hcom_{one.type}__{truth.group[-3:]}_{one.index}_1"


def kernel_name(one: Kernel) -> str:
    """Name of a kernel, as CANN writes it."""
    return f"{one.operator.type}_{one.operator.number}"


def shape_text(shape: Sequence[int]) -> str:
    """Print a shape as CANN does: `32,64`."""
    return ",".join(map(str, shape))


def input_shapes(operator: Operator) -> str:
    """Print the shapes of an operator's inputs as CANN does, without scalars: `32,64;64`."""
    return ";".join(shape_text(shape) for shape in operator.inputs if shape)


def kernel_details(
    truth: Truth, rank: Rank, *, mindspore: bool, level: int, scheduled: bool, variant: str = ""
) -> bytes:
    """Write kernel_details.csv. Level 0 has neither shapes nor, for torch_npu, operator types and counters.

    `variant` selects the columns of older or newer writers (`block-dim`, `block-num`, `device-id`, `2023`), or the counters.
    """
    step = "Step ID" if mindspore else "Step Id"
    header = [*([step] if scheduled else []), *_kernel_header(mindspore=mindspore, level=level, variant=variant)]
    found = _kernel_cells(truth, rank, mindspore=mindspore, level=level, variant=variant)
    rows = []
    before_ns: int | None = None
    for one, cells in sorted(found, key=lambda pair: pair[0].start_ns):
        # A kernel waits from the end of the one that began before it, on whatever stream that was.
        wait_ns = 0 if before_ns is None else max(0, one.start_ns - before_ns)
        cells |= {step: one.step, "Wait Time(us)": us(wait_ns)}
        rows.append([cells.get(column, "N/A") for column in header])
        before_ns = one.end_ns
    return csv_bytes([header, *rows])


def _kernel_header(*, mindspore: bool, level: int, variant: str) -> list[str]:
    times = ["Start Time(us)", "Duration(us)", "Wait Time(us)"]
    is_number = variant != "block-dim" if mindspore else variant == "block-num"
    block = "Block Num" if is_number else "Block Dim"
    device = ["Device_id"] if variant == "device-id" else []
    if level == 0 and not mindspore:
        return [*device, "Name", "Type", "Accelerator Core", *times, block]
    state = [] if variant == "2023" else ["OP State"]
    names = [*device, "Model ID", "Task ID", "Stream ID", "Name", "Type", *state, "Accelerator Core"]
    if level == 0:
        return [*names, *times, block]
    return [*names, *times, block, f"Mix {block}", "HF32 Eligible", *_SHAPES, "Context ID", *counters(variant)]


def _kernel_cells(
    truth: Truth, rank: Rank, *, mindspore: bool, level: int, variant: str
) -> Iterator[tuple[Kernel | Collective, dict[str, object]]]:
    """Yield every kernel and collective with its cells by column."""
    time = rounded_microseconds if variant == "2023" else tabbed_microseconds

    def common(one: Kernel | Collective) -> dict[str, object]:
        start, duration = time(one.start_ns), us(one.duration_ns)
        return {"Device_id": rank.number, "Model ID": NO_ID, "Start Time(us)": start, "Duration(us)": duration}

    for one in rank.kernels:
        operator, name = one.operator, kernel_name(one)
        yield (
            one,
            {
                **common(one),
                "Task ID": one.task,
                "Stream ID": COMPUTE_STREAM,
                "Name": f"{operator.full_name}/{name}" if mindspore else name,
                "Type": "N/A" if level == 0 else operator.type,
                "OP State": "N/A" if level == 0 else "dynamic",
                "Accelerator Core": operator.kind.core,
                **dict.fromkeys(("Block Dim", "Block Num"), 32),
                **dict.fromkeys(("Mix Block Dim", "Mix Block Num"), 0),
                "HF32 Eligible": "YES" if operator.is_cube else "NO",
                **_shape_cells(operator),
                **counter_cells(one, variant),
            },
        )
    for collective in rank.collectives:
        name, kind = collective_name(truth, collective), f"hcom_{collective.type}_"
        blocks = dict.fromkeys(("Block Dim", "Block Num"), 0)
        yield collective, {**common(collective), "Name": name, "Type": kind, "Accelerator Core": "HCCL", **blocks}


def _shape_cells(operator: Operator) -> dict[str, object]:
    inputs = [shape for shape in operator.inputs if shape]
    # The quotes are part of the text.
    shapes = [f'"{input_shapes(operator)}"', ";".join("FLOAT" for _ in inputs), ";".join("ND" for _ in inputs)]
    return dict(zip(_SHAPES, [*shapes, f'"{shape_text(operator.output)}"', "FLOAT", "ND"], strict=True))


def cann_csv(header: str, rows: Sequence[Sequence[object]], *, device: int | str | None) -> bytes:
    """Write a file of CANN; newer ones begin with the device, or `host`."""
    if device is not None:
        header, rows = f"Device_id,{header}", [[device, *row] for row in rows]
    return csv_bytes([columns(header), *rows], newline="\n")


def op_statistic(rank: Rank, *, with_device: bool) -> bytes:
    """Write op_statistic.csv: kernels by type and core, the longest first; collective operations are not in it."""
    groups = grouped(rank.kernels, lambda one: (one.operator.type, one.operator.kind.core))
    times = [(*key, [one.duration_ns for one in ones]) for key, ones in groups.items()]
    whole = sum(one.duration_ns for one in rank.kernels)
    rows = []
    for kind, core, durations in sorted(times, key=lambda item: -sum(item[2])):
        total = sum(durations)
        # Newer CANN cuts the average off, older rounds it.
        average = total // len(durations) / 1000 if with_device else round(total / len(durations) / 1000, 3)
        low, high = us(min(durations)), us(max(durations))
        rows.append([kind, core, len(durations), us(total), low, average, high, round(100 * total / whole, 3)])
    header = "OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)"
    return cann_csv(header, rows, device=rank.number if with_device else None)


def l2_cache(rank: Rank, *, with_device: bool) -> bytes:
    """Write l2_cache.csv; the hit rate is not available on the hardware whose files are known."""
    rows = [[COMPUTE_STREAM, one.task, "N/A", round(one.task % 97 / 100, 6), kernel_name(one)] for one in rank.kernels]
    header = "Stream Id,Task Id,Hit Rate,Victim Rate,Op Name"
    return cann_csv(header, rows, device=rank.number if with_device else None)


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


def api_statistic(rank: Rank, *, with_device: bool) -> bytes:
    """Write api_statistic.csv: calls by level and name."""
    rows = []
    for key, group in grouped(calls(rank), lambda call: (call.level, call.name)).items():
        times = [us(call.duration_ns) for call in group]
        total = us(sum(call.duration_ns for call in group))
        average, variance = round(total / len(times), 3), round(pvariance(times), 3)
        rows.append([*key, total, len(times), average, min(times), max(times), variance])
    header = "Level,API Name,Time(us),Count,Avg(us),Min(us),Max(us),Variance"
    return cann_csv(header, rows, device="host" if with_device else None)


def operator_details(rank: Rank, *, mindspore: bool, shapes: bool, stack: bool) -> bytes:
    """Write operator_details.csv. torch_npu's cells of shapes and stacks hold line ends of their own."""
    if mindspore:
        inputs = [(one.operator.full_name, str([*map(list, one.operator.shapes)])) for one in rank.kernels]
        return csv_bytes([("Name", "Input Shapes"), *inputs])
    header = columns(
        "Name,Input Shapes,Call Stack,Host Self Duration(us),Host Total Duration(us),Device Self Duration(us),"
        "Device Total Duration(us),Device Self Duration With AICore(us),Device Total Duration With AICore(us)"
    )
    kernels = {one.launch.start_ns: one for one in rank.kernels}
    rows = []
    for one, inner, own, below in _device_times(host_operations(rank), kernels):
        device = [sum(kernel.duration_ns for kernel in ones) for ones in (own, below)]
        device += [sum(kernel.duration_ns for kernel in ones if kernel.operator.is_cube) for ones in (own, below)]
        host = one.end_ns - one.start_ns
        texts = (one.name, torch_shapes(one) if shapes else "", call_stack(one) if stack else "")
        rows.append([*texts, us(host - inner), us(host), *(us(time) if time else 0 for time in device)])
    return csv_bytes([header, *rows])


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
                direct, until = direct + other.end_ns - other.start_ns, other.end_ns
        own = [kernels[one.launch_ns]] if one.is_kernel_launch else []
        below = [kernels[other.launch_ns] for other in inside if other.is_kernel_launch]
        yield one, direct, own, [*own, *below]


def torch_shapes(one: HostOperation) -> str:
    """Input shapes as torch_npu prints them: `32,64;\\r\\n64;\\r\\n`."""
    return "" if one.operator is None else ";\r\n".join(shape_text(shape or ()) for shape in one.operator.inputs)


def torch_types(operator: Operator) -> str:
    """Input types as torch_npu prints them: `float;\\r\\nScalar`."""
    return ";\r\n".join("float" if shape else "Scalar" for shape in operator.inputs)


def call_stack(one: HostOperation) -> str:
    """A call stack as torch_npu prints it, the innermost call first."""
    if one.is_backward:
        return ""
    return ";\r\n".join(
        (
            "/usr/lib/python3/torch/nn/modules/module.py(1527): _call_impl",
            f"/home/user/train.py({100 + len(one.name)}): train",
            "<string>(1): <module>",
        )
    )
