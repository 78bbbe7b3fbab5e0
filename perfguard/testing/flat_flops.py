"""Files of floating point operations in MindSpore's flat `profiler/` directory.

Formats: MindSpore 1.9, 2.0 and 2.1 sources (flops_parser.py), real output of MindSpore 1.x and 2.0.
"""

from __future__ import annotations

from itertools import pairwise

from perfguard.testing.flat_form import Form, operator_runs
from perfguard.testing.formats import Files, csv_bytes, json_bytes, plain_csv
from perfguard.testing.truth import Operator, Rank, Truth

_PEAK_GFLOPS = 320_000


def _operations(operator: Operator) -> int:
    """Return the floating point operations of one run: those of a matrix product, else one for each number."""
    shapes = [shape for shape in operator.inputs if shape]
    numbers = shapes[0][0] * shapes[0][-1] if shapes else 1
    return 2 * numbers * shapes[1][0] if operator.type == "MatMul" else numbers


def flops_files(truth: Truth, rank: Rank, form: Form) -> Files:
    """Write the files of floating point operations."""
    if form.before_2_0:
        return _flops_of_1(truth, rank, form)
    number = rank.number
    rows: list[tuple[object, ...]] = []
    totals = {"cube": 0.0, "vec": 0.0}
    time = 0.0
    for one in operator_runs(truth, rank):
        million = round(_operations(one.operator) / 1_000_000, 6)
        rate = round(_operations(one.operator) / one.mean_ns, 6)
        used = round(100 * rate / _PEAK_GFLOPS, 4)
        is_cube = one.operator.is_cube
        totals["cube" if is_cube else "vec"] += million
        time += one.mean_ns
        parts = (million, rate) if form.since_2_1 else (million, rate, used)
        nothing = (0,) * len(parts)
        rows.append((one.name, *(parts + nothing if is_cube else nothing + parts)))
    rates = {unit: round(total * 1_000_000 / time, 4) for unit, total in totals.items()}
    if form.since_2_1:
        name = "full_kernel_name" if form.kernels else "op_full_name"
        header = (name, "MFLOPs(10^6 cube)", "GFLOPS(10^9 cube)", "MFLOPs(10^6 vector)", "GFLOPS(10^9 vector)")
        summary = {
            f"{unit}_{key}": value
            for unit in totals
            for key, value in (("FLOPs", round(totals[unit], 4)), ("FLOPS", rates[unit]))
        }
        return {f"flops_{number}.txt": csv_bytes([header, *rows]), f"flops_summary_{number}.json": json_bytes(summary)}
    title = "op_full_name, MFLOPs(10^6 cube), GFLOPS(10^9 cube), FLOPS utilization(% cube), MFLOPs(10^6 vec), "
    title += "GFLOPS(10^9 vec), FLOPS utilization(% vec) \n"
    if form.kernels:
        title = "full_kernel_name, MFLOPs(10^6 cube), GFLOPS(10^9 cube), FLOPS utilization(cube), "
        title += "MFLOPs(10^6 vector), GFLOPS(10^9 vector), FLOPS utilization(vec)\n"
    whole = {"FLOPs": round(sum(totals.values()), 4), "FLOPS": round(sum(rates.values()), 4)}
    summary = {**whole, "FLOPS_Utilization": round(100 * whole["FLOPS"] / _PEAK_GFLOPS, 4)}
    for unit, total in totals.items():
        summary[f"{unit}_FLOPs"], summary[f"{unit}_FLOPS"] = round(total, 4), rates[unit]
        summary[f"{unit}_FLOPS_Utilization"] = round(100 * rates[unit] / _PEAK_GFLOPS, 4)
    return {
        f"flops_{number}.txt": title.encode() + plain_csv(rows, separator=", "),
        f"flops_summary_{number}.json": json_bytes(summary),
        f"flops_scope_{number}.json": _flops_by_scope(truth),
    }


def _flops_of_1(truth: Truth, rank: Rank, form: Form) -> Files:
    """Write the files of 1.x: one unit, and the share of the peak by step as a table (its name ends in .json)."""
    number = rank.number
    rows: list[tuple[object, ...]] = []
    millions, rates = 0.0, []
    for one in operator_runs(truth, rank):
        million = round(_operations(one.operator) / 1_000_000, 3)
        rate = round(_operations(one.operator) / one.mean_ns, 3)
        rows.append((one.name, million, rate, round(100 * rate / _PEAK_GFLOPS, 3)))
        millions += million
        rates.append(rate)
    mean = sum(rates) / len(rates)
    used = 100 * mean / _PEAK_GFLOPS
    title = "op_full_name, MFLOPs(10^6), GFLOPS(10^9), FLOPS utilization(%) \n"
    if form.version == "1.3":
        title = "full_kernel_name, FLOPs, FLOPS, FLOPS utilization\n"
    summary = {"FLOPs": round(millions, 3), "FLOPS": round(mean, 3), "FLOPS_Utilization": round(used, 3)}
    steps = [("steps", "FLOPS_Utilization %"), *((i, round(used, 3)) for i, _ in enumerate(rank.steps, start=1))]
    return {
        f"flops_{number}.txt": title.encode() + plain_csv(rows, separator=", "),
        f"flops_summary_{number}.json": json_bytes(summary),
        f"flops_scope_{number}.json": _flops_by_scope(truth),
        f"flops_utilization_step_{number}.json": plain_csv(steps),
    }


def _flops_by_scope(truth: Truth) -> bytes:
    links: dict[tuple[str, str], float] = {}
    depth = 0
    for operator in truth.operators:
        top, *scopes = operator.kind.scope.split("/")
        path = ["Total", top, *(f"{scope}({top})" for scope in scopes if scope != "Default")]
        depth = max(depth, len(path) - 1)
        for outer, inner in pairwise(path):
            links[outer, inner] = links.get((outer, inner), 0) + _operations(operator) / 1_000_000
    nodes = sorted({name for link in links for name in link})
    return json_bytes(
        {
            "data": {
                "nodes": [{"name": name} for name in nodes],
                "links": [
                    {"source": outer, "target": inner, "value": round(value, 3)}
                    for (outer, inner), value in links.items()
                ],
            },
            "max_scope_num": depth,
        }
    )
