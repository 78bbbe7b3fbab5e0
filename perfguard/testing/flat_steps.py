"""Step traces, communication and floating point operations in MindSpore's flat `profiler/` directory.

Formats: MindSpore 1.9, 2.0 and 2.1 sources (step_trace_parser.py, hccl_parser.py, flops_parser.py), real output of
MindSpore 1.x and 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from perfguard.testing.ascend_steps import ALONE, overlap
from perfguard.testing.formats import Files, Row, csv_bytes, json_bytes, plain_csv
from perfguard.testing.truth import Collective, Kernel, Operator, Output, Rank, Truth, of_step, summed

STREAM = 519

#: The device's clock at the start of the window, in nanoseconds.
_DEVICE_START = 154_907_895_000_000

#: Types of collective operations in these files.
_COLLECTIVES = {"allReduce": "AllReduce", "send": "Send", "receive": "Receive"}

_PEAK_GFLOPS = 320_000


def device_ns(rank: Rank, ns: int) -> int:
    """Convert UNIX time to the device's clock, a multiple of its ticks of 10 ns."""
    return (ns - rank.start_ns) // 10 * 10 + _DEVICE_START


class _Points(NamedTuple):
    """The points of one step on the device's clock, in ticks of 10 ns."""

    start: int
    forward: int
    backward: int
    end: int
    reductions: list[list[int]]


def _step_points(rank: Rank) -> Iterator[_Points]:
    def ticks(*moments: int) -> list[int]:
        return [device_ns(rank, ns) // 10 for ns in moments]

    before: int | None = None
    for step in rank.steps:
        kernels, collectives = of_step(rank.kernels, step.step), of_step(rank.collectives, step.step)
        last = max(one.end_ns for lane in (kernels, collectives) for one in lane)
        forward, backward, end = ticks(kernels[0].start_ns, _last_gradient(kernels).end_ns, last)
        # A step goes on where the one before it ended.
        start = forward if before is None else before
        yield _Points(start, forward, backward, end, [ticks(one.start_ns, one.end_ns) for one in collectives])
        before = end


def step_trace(output: Output) -> bytes:
    """Write the points of every step, its parts and its communication; 1.3 puts durations last, and averages in a row 0."""
    rank, is_early = output.rank, output.version == "1.3"
    rows = []
    for number, one in enumerate(_step_points(rank), start=1):
        row = [number, one.start, one.end, one.end - one.start, one.forward]
        if output.variant == "inference":
            row += [one.forward - one.start, one.end - one.forward]
        else:
            row += [one.backward, one.forward - one.start, one.backward - one.forward, one.end - one.backward]
        for start, end in one.reductions:
            row += [start, end, end - start] if is_early else [end - start, start, end]
        rows.append(row)
    header = output.columns("step_trace_raw").split(",")
    for i, collective in enumerate(of_step(rank.collectives, rank.steps[0].step)):
        name = f"stream_10_parallel_{i}" if is_early else f"stream_48_{i}_{_COLLECTIVES[collective.type]}-op{4542 + i}"
        ends = [f"{name}_start_point", f"{name}_end_point"]
        header += [*ends, name] if is_early else [name, *ends]
    means = [sum(column) // len(rows) for column in zip(*rows, strict=True)]
    return csv_bytes(header, [*rows, ["0" if is_early else "-", *means[1:]]])


def _last_gradient(kernels: list[Kernel]) -> Kernel:
    """Return the kernel that ends the backward pass; the last one of all without gradients."""
    return ([one for one in kernels if one.operator.subgraph == "Gradients"] or kernels)[-1]


def points(output: Output) -> bytes:
    """Write step_trace_point_info: the operators that begin the forward and end the backward pass."""
    kernels = of_step(output.rank.kernels, output.rank.steps[0].step)
    point = {"fp_start": kernels[0].operator.full_name, "bp_end": _last_gradient(kernels).operator.full_name}
    return json_bytes([point] if output.since_2_1 else point)


def communication_costs(output: Output) -> bytes:
    """Write hccl_raw: milliseconds and a row of means up to 2.0, microseconds and the last step twice since 2.1."""
    unit = 1000 if output.since_2_1 else 1_000_000
    steps: dict[str, dict[str, _Cost]] = {}
    for i, step in enumerate(output.rank.steps, start=1):
        steps[str(i)] = {
            f"stream_41_{k}_{_COLLECTIVES[one.type]}-op{4582 + k}": _operator_cost(one, unit)
            for k, one in enumerate(of_step(output.rank.collectives, step.step))
        }
    found = list(steps.values())
    steps["-"] = found[-1] if output.since_2_1 else _mean_costs(found)
    rows: list[Row] = []
    for name, costs in steps.items():
        links = summed(item for cost in costs.values() for item in cost.links.items())
        time, wait = sum(cost.time for cost in costs.values()), sum(cost.wait for cost in costs.values())
        by_operator = {key: [name, cost.time, cost.wait, _by_transport(cost.links)] for key, cost in costs.items()}
        rows.append((name, time, wait, json.dumps(_by_transport(links)), json.dumps(by_operator)))
    return csv_bytes(output.columns("hccl_raw"), rows, newline="\n")


#: Time and size in KB by link (`1-0`, SDMA or RDMA).
_Links = dict[tuple[str, str], list[float]]


class _Cost(NamedTuple):
    """Time, wait and links of one collective operation in one step."""

    time: float
    wait: float
    links: _Links


def _operator_cost(one: Collective, unit: int) -> _Cost:
    links: _Links = {}
    for link in one.links:
        transport = "RDMA" if link.transport == "RDMA" else "SDMA"
        links[f"{link.target}-{link.source}", transport] = [link.duration_ns / unit, link.size / 1000]
    return _Cost(time=sum(time for time, _ in links.values()), wait=one.wait_ns / unit, links=links)


def _mean_costs(steps: list[dict[str, _Cost]]) -> dict[str, _Cost]:
    means, count = {}, len(steps)
    for name in steps[0]:
        costs = [step[name] for step in steps]
        links = summed(item for cost in costs for item in cost.links.items())
        means[name] = _Cost(
            time=sum(cost.time for cost in costs) / count,
            wait=sum(cost.wait for cost in costs) / count,
            links={link: [total / count for total in totals] for link, totals in links.items()},
        )
    return means


def _by_transport(links: _Links) -> dict[str, dict[str, list[float]]]:
    """Return time, size and bandwidth of every link; a network (RDMA) also has a time of waiting."""
    found: dict[str, dict[str, list[float]]] = {}
    for (pair, transport), (time, size) in links.items():
        waited = [0.0] if transport == "RDMA" else []
        found.setdefault(pair, {})[transport] = [time, size, size / time * 1000 if time else 0, *waited]
    return found


def cluster_file(output: Output) -> Files:
    """Write the times of every step for a view of the cluster; the columns depend on how the model is split."""
    rank, truth = output.rank, output.truth
    if output.version == "1.9":
        parts = ((o.forward - o.start, o.backward - o.forward, o.end - o.backward) for o in _step_points(rank))
        mode, table = "data", plain_csv("iteration_interval, fp_and_bp, tail", parts, separator=", ")
    else:
        rows = []
        mode, count = ("model", 2) if truth.stages == 1 else ("pipeline", 5)
        lanes = overlap(rank)
        receives = tuple(one for one in rank.collectives if one.type == "receive")
        waits = overlap(replace(rank, collectives=receives))[ALONE]
        for step in rank.steps:
            computing, alone, receive = (
                sum(one.duration_ns for one in of_step(lane, step.step)) / 1_000_000
                for lane in (lanes["Computing"], lanes[ALONE], waits)
            )
            times = (computing, alone, computing + alone - receive, receive, alone - receive)
            rows.append([round(time, 4) for time in times[:count]])
        if len(rows) > 1 and not output.since_2_1:
            rows.append([round(sum(column) / (len(rows) - 1), 4) for column in zip(*rows[1:], strict=True)])
        header = output.columns("ascend_cluster_analyse").split(",")[:count]
        table = plain_csv(",".join(header), rows)
    return {f"ascend_cluster_analyse_{mode}-parallel_{truth.stages}_{truth.world}_{output.number}.csv": table}


# --- floating point operations


def _operations(operator: Operator) -> int:
    """Return the floating point operations of one run: those of a matrix product, else one for each number."""
    shapes = [shape for shape in operator.inputs if shape]
    numbers = shapes[0][0] * shapes[0][-1] if shapes else 1
    return 2 * numbers * shapes[1][0] if operator.type == "MatMul" else numbers


def flops_files(output: Output) -> Files:
    """Write the files of floating point operations; 1.x writes the share of the peak by step as a table named .json."""
    number = output.number
    rows, summary = (_flops_of_1 if output.before_2_0 else _flops_by_core)(output)
    header = output.columns("flops")
    table = csv_bytes(header, rows) if output.since_2_1 else plain_csv(header, rows, separator=", ")
    files = {f"flops_{number}.txt": table, f"flops_summary_{number}.json": json_bytes(summary)}
    if not output.since_2_1:
        files[f"flops_scope_{number}.json"] = _flops_by_scope(output.truth)
    if output.before_2_0:
        steps = ((i + 1, summary["FLOPS_Utilization"]) for i in range(len(output.rank.steps)))
        files[f"flops_utilization_step_{number}.json"] = plain_csv("steps,FLOPS_Utilization %", steps)
    return files


def _flops_by_core(output: Output) -> tuple[list[Row], dict[str, float]]:
    """Return the rows and the summary since 2.0, where cube and vector cores have their own columns."""
    rows: list[Row] = []
    totals = {"cube": 0.0, "vec": 0.0}
    for one in output.rank.runs():
        million = round(_operations(one.operator) / 1_000_000, 6)
        rate = round(_operations(one.operator) / one.mean_ns, 6)
        is_cube = one.operator.is_cube
        totals["cube" if is_cube else "vec"] += million
        parts = (million, rate) if output.since_2_1 else (million, rate, _used(rate, 4))
        nothing = (0,) * len(parts)
        rows.append((one.name, *(parts + nothing if is_cube else nothing + parts)))
    time = sum(one.mean_ns for one in output.rank.runs())
    rates = {f"{unit}_": round(total * 1_000_000 / time, 4) for unit, total in totals.items()}
    sums = {f"{unit}_": round(total, 4) for unit, total in totals.items()}
    if not output.since_2_1:
        rates = {"": round(sum(rates.values()), 4), **rates}
        sums = {"": round(sum(totals.values()), 4), **sums}
    summary: dict[str, float] = {}
    for unit, rate in rates.items():
        summary |= {f"{unit}FLOPs": sums[unit], f"{unit}FLOPS": rate}
        if not output.since_2_1:
            summary[f"{unit}FLOPS_Utilization"] = _used(rate, 4)
    return rows, summary


def _used(rate: float, digits: int) -> float:
    """Return a rate [GFLOPS] in percent of the device's peak."""
    return round(100 * rate / _PEAK_GFLOPS, digits)


def _flops_of_1(output: Output) -> tuple[list[Row], dict[str, float]]:
    """Return the rows and the summary of 1.x, which knows one unit."""
    rows: list[Row] = []
    millions, rates = 0.0, []
    for one in output.rank.runs():
        million = round(_operations(one.operator) / 1_000_000, 3)
        rate = round(_operations(one.operator) / one.mean_ns, 3)
        rows.append((one.name, million, rate, _used(rate, 3)))
        millions += million
        rates.append(rate)
    mean = sum(rates) / len(rates)
    return rows, {"FLOPs": round(millions, 3), "FLOPS": round(mean, 3), "FLOPS_Utilization": _used(mean, 3)}


def _flops_by_scope(truth: Truth) -> bytes:
    links: dict[tuple[str, str], float] = {}
    depth = 0
    for operator in truth.operators:
        top, *scopes = operator.scope.split("/")
        path = ["Total", top, *(f"{scope}({top})" for scope in scopes)]
        depth = max(depth, len(path) - 1)
        for outer, inner in pairwise(path):
            links[outer, inner] = links.get((outer, inner), 0) + _operations(operator) / 1_000_000
    nodes = sorted({name for link in links for name in link})
    ends = [{"source": outer, "target": inner, "value": round(value, 3)} for (outer, inner), value in links.items()]
    return json_bytes({"data": {"nodes": [{"name": name} for name in nodes], "links": ends}, "max_scope_num": depth})
