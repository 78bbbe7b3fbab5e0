"""Graphs that MindSpore saves while it compiles (`save_graphs`), and the tables of its memory tracker.

Formats read on real output: graphs of MindSpore 2.0.0, memory tracker of 2.10.0, both on CPU.
"""

from __future__ import annotations

from random import Random

from perfguard.testing.formats import Files, Row, columns, lines_bytes
from perfguard.testing.truth import Output, Rank, Shape, Truth, memory_totals

#: Passes of the compiler, in their order.
_PASSES = "bootstrap type_inference auto_monad graph_reusing inline optimize validate task_emit execute"

_STACK = "File:/home/user/train.py;Line:10;Function:<module>|"
_NEVER = 9223372036854775807

_HEAD = """\
# IR entry: @{title}
# Total subgraphs: 1

# Attrs:
training : 1

# Total params: 1
# Params:
%para1_inputs0 : <Tensor[Float32], (2, 2)>

subgraph attr:
training : 1
subgraph instance: {title} : 0x55e7339c9b00
# In file /home/user/train.py:8/    def construct(self, x):/
subgraph @{title}() {{
"""


def graph_files(output: Output) -> Files:
    """Write the graphs one rank saves: the graph after each pass; with `dot` also drawings and the code's trace."""
    truth, with_drawings = output.truth, output.on["dot"]
    files: Files = {}
    counter = 0
    for number, name in enumerate(_PASSES.split()):
        files[f"{number:02d}_{name}_{counter:04d}.ir"] = _graph(truth, name)
        if with_drawings:
            files[f"{number:02d}_{name}_{counter:04d}.dot"] = _drawing(truth, name)
        counter += 1
        if name == "inline":
            for one, step in enumerate(("py_interpret_to_execute", "opt_a", "opt_b")):
                files[f"opt_pass_{one}_{step}_{counter:04d}.ir"] = _graph(truth, step)
                counter += 1
    last = (f"hwopt_comm_after_kernel_select_kernel_graph_0_{counter:04d}", f"graph_build_0_{counter + 1:04d}")
    for name in (*last, "actor_set/0_actor_set_pipeline_kernel_graph_0"):
        files[f"{name}.ir"] = _graph(truth, "kernel_graph_0")
    random = Random(f"graph {truth.graph}")
    for name in ("before_opt_0", "after_opt_0", "optimize", "vm_build_0"):
        files[f"ms_output_{name}.pb"] = random.randbytes(128)
    if with_drawings:
        files[f"trace_code_graph_{counter + 2:04d}"] = _graph(truth, "trace_code")
    return files


def _graph(truth: Truth, name: str) -> bytes:
    title = f"{truth.graph}_1_construct.{name}"
    lines = _HEAD.format(title=title).splitlines()
    for number, operator in enumerate(truth.operators):
        before = "%para1_inputs0" if number == 0 else f"%{number - 1}"
        shape = _shape(operator.output)
        lines += [
            f"  %{number}(equiv{operator.name}) = {operator.type}({before}) {{instance name: {operator.type.lower()}}}",
            f"      : (<Tensor[Float32], {shape}>) -> (<Tensor[Float32], {shape}>)",
            f"      # Scope: ({operator.scope})",
        ]
    last = len(truth.operators) - 1
    shape = _shape(truth.operators[-1].output)
    lines += [f"  Return(%{last})", f"      : (<Tensor[Float32], {shape}>)", "      # Scope: (Default)", "}", "", ""]
    return "\n".join(lines).encode()


def _shape(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"


def _drawing(truth: Truth, name: str) -> bytes:
    lines = ["digraph mindspore {", 'compound="true";', f'label="{name}";']
    lines += [f'node_{i}[shape="ellipse" label="{one.name}"];' for i, one in enumerate(truth.operators)]
    lines += [f"node_{number}->node_{number + 1};" for number in range(len(truth.operators) - 1)]
    return lines_bytes([*lines, "}"])


def memory_tracker(output: Output) -> Files:
    """Write the files of the memory tracker of one rank."""
    return tracker_files(output, blocks=output.on["npu"])


def tracker_files(output: Output, *, blocks: bool) -> Files:
    """Write the files of the memory tracker; its time is a counter of its own events.

    `blocks`: without them, as on a CPU, memory_block.csv has a header only.
    """
    rank = output.rank
    tasks: list[Row] = []
    for number, execution in enumerate(rank.executions):
        names = (f"{execution.operator.name}_{number}", execution.operator.full_name, "kernel_graph_0")
        tasks.append((number, *names, "kernel_runner.cc", 212, _STACK))
    found = _blocks(rank, len(tasks)) if blocks else []
    return {
        "task.csv": _table(columns("task"), tasks),
        "memory_block.csv": _table(columns("memory_block"), found),
        "tracker_graph.ir": _tracker_graph(tasks, found),
    }


def _blocks(rank: Rank, first: int) -> list[Row]:
    moments: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    peak = 0
    peaks: dict[int, int] = {}
    for clock, (_, block, total) in enumerate(memory_totals(rank.allocations), start=first + 1):
        peak = max(peak, total)
        moments.setdefault(id(block), []).append(clock)
        used.setdefault(id(block), total)
        peaks.setdefault(id(block), peak)
    rows: list[Row] = []
    for number, one in enumerate(rank.allocations):
        start, *end = moments[id(one)]
        address = f"0x{0x12C0_0000_0000 + (number << 24):x}"
        sizes = (one.size, used[id(one)], peaks[id(one)])
        names = [f"{one.operator.name}_{number}", one.operator.full_name, "kernel_graph_0"]
        users = [f"{{{number}-}}", number, "", 0, 0]
        place: list[object] = ["kernel_runner.cc", 215, "OtherOpOutput", number]
        rows.append([start, *(end or [_NEVER]), address, 0, "Ascend", *sizes, *place, *names, *users])
    return rows


def _table(header: str, rows: list[Row]) -> bytes:
    """Write a table in which every line ends in a comma."""
    return lines_bytes([f"{header},", *("".join(f"{cell}," for cell in row) for row in rows)])


def _tracker_graph(tasks: list[Row], blocks: list[Row]) -> bytes:
    """Write the tasks with the blocks that each makes: a block is named by the moment of its allocation."""
    made: dict[object, list[object]] = {}
    for block in blocks:
        made.setdefault(block[11], []).append(block[0])
    lines = []
    for number, _, name, *_ in tasks:
        outputs = made.get(number, [])
        lines += [
            f"({', '.join(f'%{start}' for start in outputs)}) = {name}(), task_info: {number}, attrs {{stream_id=0}} ",
            f"    ({', '.join('Float32:[(2, 2)]' for _ in outputs)}) <- ()",
            f"    # {_STACK}",
        ]
    return lines_bytes(lines)
