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
    reductions: tuple[tuple[int, int], ...]


def _step_points(rank: Rank) -> Iterator[_Points]:
    before: int | None = None
    for step in rank.steps:
        kernels, collectives = of_step(rank.kernels, step.step), of_step(rank.collectives, step.step)
        end = max(one.end_ns for lane in (kernels, collectives) for one in lane)
        ticks = [device_ns(rank, ns) // 10 for ns in (kernels[0].start_ns, _last_gradient(kernels).end_ns, end)]
        yield _Points(
            # A step goes on where the one before it ended.
            start=ticks[0] if before is None else before,
            forward=ticks[0],
            backward=ticks[1],
            end=ticks[2],
            reductions=tuple((device_ns(rank, c.start_ns) // 10, device_ns(rank, c.end_ns) // 10) for c in collectives),
        )
        before = ticks[2]


def step_trace(output: Output) -> bytes:
    """Write the points of every step, its parts and its communication; 1.3 puts durations last, and averages in a row 0."""
    rank, is_early, is_inference = output.rank, output.version == "1.3", output.variant == "inference"
    parts = "iteration_interval,fp" if is_inference else "bp_point,iteration_interval,fp_and_bp,tail"
    header = f"step_num,start_point,end_point,total,fp_point,{parts}".split(",")
    rows = []
    for number, one in enumerate(_step_points(rank), start=1):
        row = [number, one.start, one.end, one.end - one.start, one.forward]
        if is_inference:
            row += [one.forward - one.start, one.end - one.forward]
        else:
            row.append(one.backward)
            row += [one.forward - one.start, one.backward - one.forward, one.end - one.backward]
        for start, end in one.reductions:
            row += [start, end, end - start] if is_early else [end - start, start, end]
        rows.append(row)
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
    header = "step_num,communication_cost,wait_cost,link_info,communication_operator_cost"
    return csv_bytes(header, rows, newline="\n")


#: Time and size in KB by link (`1-0`, SDMA or RDMA).
_Links = dict[tuple[str, str], list[float]]


class _Cost(NamedTuple):
    """Time, wait and links of one collective operation in one step."""

    time: float
    wait: float
    links: _Links


def _operator_cost(one: Collective, unit: int) -> _Cost:
    links = {
        (f"{link.target}-{link.source}", "RDMA" if link.transport == "RDMA" else "SDMA"): [
            link.duration_ns / unit,
            link.size / 1000,
        ]
        for link in one.links
    }
    return _Cost(time=sum(time for time, _ in links.values()), wait=one.wait_ns / unit, links=links)


def _mean_costs(steps: list[dict[str, _Cost]]) -> dict[str, _Cost]:
    count = len(steps)
    return {
        name: _Cost(
            time=sum(step[name].time for step in steps) / count,
            wait=sum(step[name].wait for step in steps) / count,
            links={
                link: [sum(step[name].links[link][i] for step in steps) / count for i in range(2)]
                for link in steps[0][name].links
            },
        )
        for name in steps[0]
    }


def _by_transport(links: _Links) -> dict[str, dict[str, list[float]]]:
    """Return time, size and bandwidth of every link; a network (RDMA) also has a time of waiting."""
    found: dict[str, dict[str, list[float]]] = {}
    for (pair, transport), (time, size) in links.items():
        waited = [0.0] if transport == "RDMA" else []
        found.setdefault(pair, {})[transport] = [time, size, size / time * 1000 if time else 0, *waited]
    return found


def cluster_file(output: Output) -> Files:
    """Write the times of every step for a view of the cluster; the columns depend on how the model is split."""
    rank, stages = output.rank, output.truth.stages
    if output.version == "1.9":
        ticks = [
            (one.forward - one.start, one.backward - one.forward, one.end - one.backward) for one in _step_points(rank)
        ]
        return _cluster_table(output, "data", plain_csv("iteration_interval, fp_and_bp, tail", ticks, separator=", "))
    receives = tuple(one for one in rank.collectives if one.type == "receive")
    lanes = overlap(rank)
    waits = overlap(replace(rank, collectives=receives))[ALONE]
    rows: list[Row] = []
    for step in rank.steps:
        computing, alone, receive = (
            sum(one.duration_ns for one in of_step(lane, step.step)) / 1_000_000
            for lane in (lanes["Computing"], lanes[ALONE], waits)
        )
        parts = (computing, alone, computing + alone - receive, receive, alone - receive)
        rows.append([round(part, 4) for part in (parts if stages > 1 else parts[:2])])
    header = f"{'computation' if output.before_2_0 else 'computation_time'},communication_alone_time"
    if stages == 1:
        return _cluster_table(output, "model", plain_csv(header, rows))
    header += ",stage_time,receive_alone_time,collective_communication_alone_time"
    return _cluster_table(output, "pipeline", plain_csv(header, rows))


def _cluster_table(output: Output, mode: str, table: bytes) -> Files:
    truth = output.truth
    return {f"ascend_cluster_analyse_{mode}-parallel_{truth.stages}_{truth.world}_{output.number}.csv": table}


# --- floating point operations


def _operations(operator: Operator) -> int:
    """Return the floating point operations of one run: those of a matrix product, else one for each number."""
    shapes = [shape for shape in operator.inputs if shape]
    numbers = shapes[0][0] * shapes[0][-1] if shapes else 1
    return 2 * numbers * shapes[1][0] if operator.type == "MatMul" else numbers


def flops_files(output: Output) -> Files:
    """Write the files of floating point operations; cube and vector cores have their own columns."""
    if output.before_2_0:
        return _flops_of_1(output)
    rows: list[Row] = []
    totals = {"cube": 0.0, "vec": 0.0}
    time = 0.0
    for one in output.rank.runs():
        million = round(_operations(one.operator) / 1_000_000, 6)
        rate = round(_operations(one.operator) / one.mean_ns, 6)
        is_cube = one.operator.is_cube
        totals["cube" if is_cube else "vec"] += million
        time += one.mean_ns
        parts = (million, rate) if output.since_2_1 else (million, rate, _used(rate, 4))
        nothing = (0,) * len(parts)
        rows.append((one.name, *(parts + nothing if is_cube else nothing + parts)))
    rates = {unit: round(total * 1_000_000 / time, 4) for unit, total in totals.items()}
    if output.since_2_1:
        name = "full_kernel_name" if output.names_kernels else "op_full_name"
        header = f"{name},MFLOPs(10^6 cube),GFLOPS(10^9 cube),MFLOPs(10^6 vector),GFLOPS(10^9 vector)"
        summary: dict[str, float] = {}
        for unit, total in totals.items():
            summary |= {f"{unit}_FLOPs": round(total, 4), f"{unit}_FLOPS": rates[unit]}
        return {
            f"flops_{output.number}.txt": csv_bytes(header, rows),
            f"flops_summary_{output.number}.json": json_bytes(summary),
        }
    title = "op_full_name, MFLOPs(10^6 cube), GFLOPS(10^9 cube), FLOPS utilization(% cube), MFLOPs(10^6 vec), "
    title += "GFLOPS(10^9 vec), FLOPS utilization(% vec) "
    if output.names_kernels:
        title = "full_kernel_name, MFLOPs(10^6 cube), GFLOPS(10^9 cube), FLOPS utilization(cube), "
        title += "MFLOPs(10^6 vector), GFLOPS(10^9 vector), FLOPS utilization(vec)"
    whole = round(sum(rates.values()), 4)
    summary = {"FLOPs": round(sum(totals.values()), 4), "FLOPS": whole, "FLOPS_Utilization": _used(whole, 4)}
    for unit, total in totals.items():
        summary |= {f"{unit}_FLOPs": round(total, 4), f"{unit}_FLOPS": rates[unit]}
        summary[f"{unit}_FLOPS_Utilization"] = _used(rates[unit], 4)
    return _old_flops(output, title, rows, summary)


def _used(rate: float, digits: int) -> float:
    """Return a rate [GFLOPS] in percent of the device's peak."""
    return round(100 * rate / _PEAK_GFLOPS, digits)


def _old_flops(output: Output, title: str, rows: list[Row], summary: dict[str, float]) -> Files:
    """Write the files of 2.0 and older."""
    return {
        f"flops_{output.number}.txt": plain_csv(title, rows, separator=", "),
        f"flops_summary_{output.number}.json": json_bytes(summary),
        f"flops_scope_{output.number}.json": _flops_by_scope(output.truth),
    }


def _flops_of_1(output: Output) -> Files:
    """Write the files of 1.x: one unit, and the share of the peak by step as a table (its name ends in .json)."""
    rows: list[Row] = []
    millions, rates = 0.0, []
    for one in output.rank.runs():
        million = round(_operations(one.operator) / 1_000_000, 3)
        rate = round(_operations(one.operator) / one.mean_ns, 3)
        rows.append((one.name, million, rate, _used(rate, 3)))
        millions += million
        rates.append(rate)
    mean = sum(rates) / len(rates)
    title = "op_full_name, MFLOPs(10^6), GFLOPS(10^9), FLOPS utilization(%) "
    if output.version == "1.3":
        title = "full_kernel_name, FLOPs, FLOPS, FLOPS utilization"
    summary = {"FLOPs": round(millions, 3), "FLOPS": round(mean, 3), "FLOPS_Utilization": _used(mean, 3)}
    steps = plain_csv("steps,FLOPS_Utilization %", ((i + 1, _used(mean, 3)) for i in range(len(output.rank.steps))))
    files = _old_flops(output, title, rows, summary)
    return {**files, f"flops_utilization_step_{output.number}.json": steps}


def _flops_by_scope(truth: Truth) -> bytes:
    links: dict[tuple[str, str], float] = {}
    depth = 0
    for operator in truth.operators:
        top, *scopes = operator.scope.split("/")
        path = ["Total", top, *(f"{scope}({top})" for scope in scopes if scope != "Default")]
        depth = max(depth, len(path) - 1)
        for outer, inner in pairwise(path):
            links[outer, inner] = links.get((outer, inner), 0) + _operations(operator) / 1_000_000
    nodes = sorted({name for link in links for name in link})
    ends = [{"source": outer, "target": inner, "value": round(value, 3)} for (outer, inner), value in links.items()]
    return json_bytes({"data": {"nodes": [{"name": name} for name in nodes], "links": ends}, "max_scope_num": depth})
