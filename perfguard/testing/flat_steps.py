"""Step traces and communication in MindSpore's flat `profiler/` directory.

Formats: MindSpore 1.9, 2.0 and 2.1 sources (step_trace_parser.py, hccl_parser.py), real output of MindSpore 1.x and 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from perfguard.testing.ascend_steps import overlap
from perfguard.testing.flat_form import Form, device_ns
from perfguard.testing.formats import Files, columns, csv_bytes, json_bytes, plain_csv
from perfguard.testing.truth import Collective, Kernel, Rank, Truth, of_step

#: Types of collective operations in these files.
_COLLECTIVES = {"allReduce": "AllReduce", "send": "Send", "receive": "Receive"}

_ALONE = "Communication(Not Overlapped)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Points:
    """The points of one step on the device's clock, in ticks of 10 ns."""

    start: int
    forward: int
    backward: int
    end: int
    reductions: tuple[tuple[int, int], ...]


def _step_points(rank: Rank) -> Iterator[_Points]:
    before: int | None = None
    for step in rank.steps:
        kernels, collectives = of_step(rank.kernels, step.number), of_step(rank.collectives, step.number)
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


def step_trace(rank: Rank, form: Form) -> bytes:
    """Write the points of every step, its parts and its communication; 1.3 puts durations last, and averages in a row 0."""
    is_early = form.version == "1.3"
    header = ["step_num", "start_point", "end_point", "total", "fp_point", "bp_point"]
    header += ["iteration_interval", "fp_and_bp", "tail"]
    if form.variant == "inference":
        header = ["step_num", "start_point", "end_point", "total", "fp_point", "iteration_interval", "fp"]
    rows = []
    for number, one in enumerate(_step_points(rank), start=1):
        row = [number, one.start, one.end, one.end - one.start, one.forward]
        if form.variant == "inference":
            row += [one.forward - one.start, one.end - one.forward]
        else:
            row.append(one.backward)
            row += [one.forward - one.start, one.backward - one.forward, one.end - one.backward]
        for start, end in one.reductions:
            row += [start, end, end - start] if is_early else [end - start, start, end]
        rows.append(row)
    for i, collective in enumerate(of_step(rank.collectives, rank.steps[0].number)):
        name = f"stream_10_parallel_{i}" if is_early else f"stream_48_{i}_{_COLLECTIVES[collective.type]}-op{4542 + i}"
        ends = [f"{name}_start_point", f"{name}_end_point"]
        header += [*ends, name] if is_early else [name, *ends]
    means = [sum(column) // len(rows) for column in zip(*rows, strict=True)]
    return csv_bytes([header, *rows, ["0" if is_early else "-", *means[1:]]])


def _last_gradient(kernels: list[Kernel]) -> Kernel:
    """Return the kernel that ends the backward pass; the last one of all without gradients."""
    return ([one for one in kernels if one.operator.subgraph == "Gradients"] or kernels)[-1]


def points(rank: Rank, form: Form) -> bytes:
    """Write step_trace_point_info: the operators that begin the forward and end the backward pass."""
    kernels = of_step(rank.kernels, rank.steps[0].number)
    point = {"fp_start": kernels[0].operator.full_name, "bp_end": _last_gradient(kernels).operator.full_name}
    return json_bytes([point] if form.since_2_1 else point)


def communication_costs(rank: Rank, *, since_2_1: bool) -> bytes:
    """Write hccl_raw: milliseconds and a row of means up to 2.0, microseconds and the last step twice since 2.1."""
    unit = 1000 if since_2_1 else 1_000_000
    steps = []
    for i, step in enumerate(rank.steps, start=1):
        operators = {
            f"stream_41_{k}_{_COLLECTIVES[one.type]}-op{4582 + k}": _operator_cost(one, unit)
            for k, one in enumerate(of_step(rank.collectives, step.number))
        }
        steps.append((str(i), operators))
    if since_2_1:
        steps.append(("-", steps[-1][1]))
    else:
        steps.append(("-", _mean_costs([operators for _, operators in steps])))
    rows: list[tuple[object, ...]] = []
    for name, costs in steps:
        links: _Links = {}
        for cost in costs.values():
            for link, part in cost.links.items():
                entry = links.setdefault(link, [0.0, 0.0])
                entry[0], entry[1] = entry[0] + part[0], entry[1] + part[1]
        time, wait = sum(cost.time for cost in costs.values()), sum(cost.wait for cost in costs.values())
        by_operator = {key: [name, cost.time, cost.wait, _by_transport(cost.links)] for key, cost in costs.items()}
        rows.append((name, time, wait, json.dumps(_by_transport(links)), json.dumps(by_operator)))
    header = columns("step_num,communication_cost,wait_cost,link_info,communication_operator_cost")
    return csv_bytes([header, *rows], newline="\n")


#: Time and size in KB by link (`1-0`, SDMA or RDMA).
_Links = dict[tuple[str, str], list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
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


def cluster_file(truth: Truth, rank: Rank, form: Form) -> Files:
    """Write the times of every step for a view of the cluster; the columns depend on how the model is split."""
    if form.version == "1.9":
        header: tuple[str, ...] = ("iteration_interval", "fp_and_bp", "tail")
        ticks = [
            (one.forward - one.start, one.backward - one.forward, one.end - one.backward) for one in _step_points(rank)
        ]
        return {_cluster_name(truth, rank, "data"): plain_csv([header, *ticks], separator=", ")}
    receives = tuple(one for one in rank.collectives if one.type == "receive")
    lanes = overlap(rank)
    waits = overlap(replace(rank, collectives=receives))[_ALONE]
    rows: list[tuple[float, ...]] = []
    for step in rank.steps:
        computing, alone, receive = (
            sum(one.duration_ns for one in of_step(lane, step.number)) / 1_000_000
            for lane in (lanes["Computing"], lanes[_ALONE], waits)
        )
        parts = (computing, alone, computing + alone - receive, receive, alone - receive)
        rows.append(tuple(round(part, 4) for part in (parts if truth.stages > 1 else parts[:2])))
    header = ("computation" if form.before_2_0 else "computation_time", "communication_alone_time")
    if truth.stages > 1:
        header += ("stage_time", "receive_alone_time", "collective_communication_alone_time")
    mode = "pipeline" if truth.stages > 1 else "model"
    return {_cluster_name(truth, rank, mode): plain_csv([header, *rows])}


def _cluster_name(truth: Truth, rank: Rank, mode: str) -> str:
    return f"ascend_cluster_analyse_{mode}-parallel_{truth.stages}_{truth.world}_{rank.number}.csv"
