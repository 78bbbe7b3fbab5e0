"""What must agree in the flat files MindSpore 1.x to 2.4 writes of an Ascend device.

The files kept their names while their writers changed: up to 2.0 they are made by parsers of MindSpore's own, from 2.1 on
out of msprof's op_summary. Whatever holds for one of the two only is asked of that one; which one wrote a directory is
seen in its files (`task_type` in aicore_intermediate_detail, the version in profiler_info).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from perfguard.artifacts.table import as_float64, as_int64
from perfguard.dialects.disagreement import disagreeing_rows, disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Artifact, Cycle

#: Sums of numbers that were printed in full.
_EXACT = 1e-6
#: Cluster metrics have four decimals of a ms; three of them meet.
_CLUSTER_MS = 1.6e-4
#: From 2.1 on step times in ticks of 10 ns are cut off floats of ms, each on its own.
_CUT_TICKS = 5
#: Shares in percent have two decimals.
_PERCENT = 0.0051
#: Shares up to here are fractions, above they are percent: neither adds up to anything near.
_FRACTIONS_END = 10.0
_VERSION = re.compile(r"^(\d+)\.(\d+)")

_DETAIL, _TYPES, _FRAMEWORK = "aicore_intermediate_detail", "aicore_intermediate_type", "framework_raw"
_TIMELINE = "output_timeline_data"
#: One thing, one column; renamed from version to version.
_NAME = ("full_op_name", "full_kernel_name", "full_kernel_time", "op_full_name", "op_name", "kernel_name")
_TYPE = ("op_type", "kernel_type")
_TOTAL = ("total_time", "task_time", "execution_time")
_TIME = ("execution_time", "task_duration")
#: Keys of flops_summary: the column they are made of, whether they are its mean, and their last decimal.
_FLOPS = {
    "cube_FLOPs": (("MFLOPs(10^6 cube)",), False, 1e-4),
    "vec_FLOPs": (("MFLOPs(10^6 vector)",), False, 1e-4),
    "FLOPs": (("MFLOPs(10^6)", "FLOPs"), False, 1e-3),
    "FLOPS": (("GFLOPS(10^9)", "FLOPS"), True, 1e-3),
}


class _Writer(Enum):
    """Who made the flat files."""

    UP_TO_2_0 = "MindSpore up to 2.0"
    SINCE_2_1 = "MindSpore since 2.1"


# -- steps -----------------------------------------------------------------------------------------------------------


@invariant(needs=("step_trace_raw",))
def step_parts_add_up(cycle: Cycle) -> Iterator[Finding]:
    """Total = end - start = interval + fp_and_bp + tail, and every part is the distance of its points.

    Exact up to 2.0; 5 ticks of 10 ns from 2.1 on, which cuts each number off on its own. In inference there is no
    bp_point: fp = end - fp_point. Not asked of the average row (`-`, of old versions 0), nor of rows filled with zeros.
    Source: MindSpore 2.0 source: step_trace_parser.py; MindSpore 2.1 source: ascend_steptrace_generator.py; real output
    (405 steps of 10 files, no exception).
    """
    import polars as pl

    for artifact in _artifacts(cycle, "step_trace_raw"):
        rows = _steps(artifact)
        trained = {"bp_point", "fp_and_bp", "tail"} <= set(rows.columns)
        rules = {
            "total": {"end_point - start_point": pl.col("end_point") - pl.col("start_point")},
            "iteration_interval": {"fp_point - start_point": pl.col("fp_point") - pl.col("start_point")},
        }
        interval = pl.col("iteration_interval")
        if trained:
            rules["total"]["iteration_interval + fp_and_bp + tail"] = interval + pl.col("fp_and_bp") + pl.col("tail")
            rules["fp_and_bp"] = {"bp_point - fp_point": pl.col("bp_point") - pl.col("fp_point")}
            rules["tail"] = {"end_point - bp_point": pl.col("end_point") - pl.col("bp_point")}
        elif "fp" in rows.columns:
            rules["total"]["iteration_interval + fp"] = interval + pl.col("fp")
            rules["fp"] = {"end_point - fp_point": pl.col("end_point") - pl.col("fp_point")}
        slack = 0 if _writer(cycle) is _Writer.UP_TO_2_0 else _CUT_TICKS
        for part, equals in rules.items():
            for words, expression in equals.items():
                compared = rows.with_columns(other=expression)
                yield from _broken_rows(
                    artifact,
                    compared.filter((pl.col(part) - pl.col("other")).abs() > slack),
                    Code.I108,
                    _worded_step(part, words),
                )


@invariant(needs=("step_trace_raw",))
def communication_in_steps_lasts_from_start_to_end(cycle: Cycle) -> Iterator[Finding]:
    """Of every communication operator of a step: duration = end_point - start_point, in ticks of 10 ns.

    Exact up to 2.0, 5 ticks from 2.1 on; not asked of the average row. Source: MindSpore 2.0 source:
    step_trace_parser.py; MindSpore 2.1 source: ascend_steptrace_generator.py; real output (up to 350 operators a step).
    """
    import polars as pl

    slack = 0 if _writer(cycle) is _Writer.UP_TO_2_0 else _CUT_TICKS
    for artifact in _artifacts(cycle, "step_trace_raw"):
        rows = _steps(artifact)
        wrong = []
        for start in [name for name in rows.columns if name.endswith("_start_point")]:
            name = start.removesuffix("_start_point")
            if name not in rows.columns or f"{name}_end_point" not in rows.columns:
                continue
            part = rows.select(
                "row",
                "step_num",
                operator=pl.lit(name),
                duration=pl.col(name),
                other=pl.col(f"{name}_end_point") - pl.col(start),
            )
            wrong.append(part.filter((pl.col("duration") - pl.col("other")).abs() > slack))
        if wrong:
            yield from _broken_rows(
                artifact,
                pl.concat(wrong).sort("row"),
                Code.I109,
                lambda row: (
                    f"step {row['step_num']}: {row['operator']} lasts {row['duration']} (10 ns), from its start to its "
                    f"end it is {row['other']}"
                ),
            )


# -- communication ---------------------------------------------------------------------------------------------------


@invariant(needs=("ascend_cluster_analyse",))
def cluster_times_add_up(cycle: Cycle) -> Iterator[Finding]:
    """Alone: communication = receive + collective communication; stage_time = computation + collective communication.

    Within 0.00016 ms, the roundings of three numbers. Only pipeline parallel files have these columns. Source: MindSpore
    2.0 source: ascend_timeline_generator.py; real output.
    """
    import polars as pl

    collective = "collective_communication_alone_time"
    rules = {
        "communication_alone_time": ("receive_alone_time", collective),
        "stage_time": ("computation_time", collective),
    }
    for artifact in _artifacts(cycle, "ascend_cluster_analyse"):
        columns = artifact.content.frame.columns
        for whole, parts in rules.items():
            if not {whole, *parts} <= set(columns):
                continue
            rows = _numbers(artifact.content.frame, whole, *parts).with_columns(
                other=pl.col(parts[0]) + pl.col(parts[1])
            )
            yield from disagreeing_rows(
                artifact,
                (rows[whole] - rows["other"]).abs() > _CLUSTER_MS + rows["other"].abs() * 1e-12,
                Code.I109,
                _worded_sum(whole, " + ".join(parts)),
                frame=rows,
            )


@invariant(needs=("hccl_raw",))
def communication_costs_add_up(cycle: Cycle) -> Iterator[Finding]:
    """A step's communication_cost, wait_cost and link_info are the sums over its operators.

    Relative 1e-6. From 2.1 on the cost also holds what belongs to no operator, so there the operators may add up to less.
    Up to 2.0 the cost is of the main stream, so it is at most the time on all links (ms, as they are); from 2.1 on it is
    in us and links are in ms, so they are not compared. Bandwidths are averages of their own and follow from nothing.
    Source: MindSpore 2.0 source: hccl_parser.py; MindSpore 2.1 source: ascend_hccl_generator.py; real output of 2.0.
    """
    artifact = cycle.artifacts["hccl_raw"]
    steps = _hccl_steps(artifact)
    since = _hccl_writer(cycle, steps) is _Writer.SINCE_2_1

    def found() -> Iterator[tuple[str, str]]:
        for step in (one for one in steps if one["step"] != "-"):
            where, operators = step["place"], step["operators"]
            for key, index in (("communication_cost", 1), ("wait_cost", 2)):
                total = sum(_number(operator, index) for operator in operators.values())
                less = since and key == "communication_cost" and total <= step[key]
                if not less and not _equal(step[key], total):
                    yield (
                        f"{where} $.{key}",
                        f"step {step['step']}: {step[key]:.6g} here, its operators add up to {total:.6g}",
                    )
            yield from _link_sums(step, since=since)
            time = sum(_number(link, 0) for _, link in _links(step["links"]))
            if (
                not since
                and step["links"]
                and step["communication_cost"] > time
                and not _equal(step["communication_cost"], time)
            ):
                yield (
                    f"{where} $.communication_cost",
                    f"step {step['step']}: {step['communication_cost']:.6g} ms here, only {time:.6g} ms on its links",
                )
            for name, operator in operators.items():
                if str(operator[0]) != step["step"]:
                    yield (
                        f"{where} $.communication_operator_cost",
                        f"step {step['step']}: {name} says it is of step {operator[0]}",
                    )

    yield from disagreements(Code.I109, found(), place=artifact.place)


@invariant(needs=("hccl_raw",))
def average_of_communication_follows(cycle: Cycle) -> Iterator[Finding]:
    """The last row (`-`) has the mean cost of all steps up to 2.0, and is the last step once more from 2.1 on.

    Relative 1e-6. Source: MindSpore 2.0 source: hccl_parser.py; MindSpore 2.1 source: ascend_hccl_generator.py; real
    output of 2.0.
    """
    artifact = cycle.artifacts["hccl_raw"]
    everything = _hccl_steps(artifact)
    steps = [one for one in everything if one["step"] != "-"]
    if not steps:
        return
    wrote = _hccl_writer(cycle, everything)
    for row in (one for one in everything if one["step"] == "-"):
        for key in ("communication_cost", "wait_cost"):
            mean = sum(one[key] for one in steps) / len(steps)
            expected = steps[-1][key] if wrote is _Writer.SINCE_2_1 else mean
            if not _equal(row[key], expected):
                words = "the last step has" if wrote is _Writer.SINCE_2_1 else f"the mean of {len(steps)} steps is"
                yield Finding(
                    code=Code.I105,
                    place=f"{row['place']} $.{key}",
                    message=f"average {row[key]:.6g} here, {words} {expected:.6g}",
                )


# -- operators of the device -----------------------------------------------------------------------------------------


@invariant(needs=(_TYPES,))
def device_shares_follow(cycle: Cycle) -> Iterator[Finding]:
    """Percent = the type's time / the time of all, and all of them add up to the whole: 100 up to 2.0, 1 from 2.1 on.

    Percent have two decimals, fractions are exact. MindSpore 2.0 divides by the time of all executions plus the mean of
    every operator once more, so there the sum is below 100; with aicore_intermediate_detail at hand exactly that is
    asked. Source: MindSpore 1.x and 2.0 source: integrator.py; MindSpore 2.1 source: ascend_op_generator.py; real output
    of 1.x.
    """
    import polars as pl

    artifact = cycle.artifacts[_TYPES]
    frame = artifact.content.frame
    total, name = _column(frame, _TOTAL), _column(frame, _TYPE)
    if total is None or name is None:
        return
    rows = _numbers(frame, total, "percent").select(
        pl.Series("name", frame[name]), time=pl.col(total), share=pl.col("percent")
    )
    everything, shares = float(rows["time"].sum()), float(rows["share"].sum())
    if not everything > 0:
        return
    if shares < _FRACTIONS_END:
        whole, slack, bases = 1.0, _EXACT, [everything]
    else:
        whole, slack, bases = 100.0, _PERCENT, _bases_of_percent(cycle, total, everything, shares)
    base = min(bases, key=lambda one: abs(whole * everything / one - shares))
    expected = whole * everything / base
    if abs(shares - expected) > slack * max(rows.height, 1):
        yield Finding(
            code=Code.I105,
            place=artifact.place,
            message=f"percent adds up to {shares:.6g}, not to {expected:.6g}",
        )
    yield from disagreeing_rows(
        artifact,
        (rows["share"] - rows["time"] / base * whole).abs() > slack,
        Code.I105,
        lambda row: (
            f"{row['name']}: percent {row['share']:.6g}, but {row['time']:.6g} of {base:.6g} is "
            f"{row['time'] / base * whole:.6g}"
        ),
        frame=rows,
    )


@invariant(needs=(_TYPES, _DETAIL, _FRAMEWORK))
def device_types_are_the_sum_of_details(cycle: Cycle) -> Iterator[Finding]:
    """Up to 2.0: a type's time and frequency are the sums over the operators that framework_raw says are of it.

    Before 2.0 an operator counts once, with its mean time; in 2.0 as often as it ran. The frequency is exact, the time has
    a relative 1e-6. Not asked from 2.1 on, where one is of msprof's op_statistic, the other of its op_summary. Source:
    MindSpore 1.x and 2.0 source: integrator.py; real output of 1.x.
    """
    import polars as pl

    types, detail = cycle.artifacts[_TYPES].content.frame, _details(cycle)
    total, name = _column(types, _TOTAL), _column(types, _TYPE)
    if detail is None or total is None or name is None or _writer(cycle) is not _Writer.UP_TO_2_0:
        return
    framework = cycle.artifacts[_FRAMEWORK].content.frame
    key, kind = _column(framework, _NAME), _column(framework, _TYPE)
    if key is None or kind is None:
        return
    sums = (
        detail.join(framework.select(name=key, type=kind).unique("name", keep="last"), on="name")
        .group_by("type")
        .agg(sum=(pl.col("time") * pl.col("times")).sum(), count=pl.col("times").sum())
    )
    rows = pl.DataFrame(
        {"type": types[name], "time": as_float64(types[total]), "frequency": as_int64(types["execution_frequency"])}
    ).join(sums, on="type", how="left", maintain_order="left")
    other = cycle.artifacts[_DETAIL].path.name
    counted = (rows["frequency"] == rows["count"].fill_null(0)) | (rows["type"] == "")
    yield from disagreeing_rows(
        cycle.artifacts[_TYPES],
        ~counted,
        Code.I101,
        lambda row: f"{row['type']}: frequency {row['frequency']} here, {row['count'] or 0} in {other}",
        frame=rows,
    )
    yield from disagreeing_rows(
        cycle.artifacts[_TYPES],
        counted & ((rows["time"] - rows["sum"]).abs() > _EXACT + rows["sum"].abs() * _EXACT),
        Code.I104,
        lambda row: f"{row['type']}: {row['time']:.6g} ms here, its operators add up to {row['sum']:.6g} ms in {other}",
        frame=rows,
    )


@invariant(needs=(_DETAIL,))
def device_operators_are_listed_once(cycle: Cycle) -> Iterator[Finding]:
    """An operator has one row in aicore_intermediate_detail. Source: MindSpore 2.0 source: integrator.py; real output."""
    yield from _listed_twice(cycle.artifacts[_DETAIL], _NAME)


@invariant(needs=(_TYPES,))
def device_types_are_listed_once(cycle: Cycle) -> Iterator[Finding]:
    """A type has one row in aicore_intermediate_type. Source: MindSpore 2.0 source: integrator.py; real output."""
    yield from _listed_twice(cycle.artifacts[_TYPES], _TYPE)


@invariant(needs=(_DETAIL, _FRAMEWORK))
def device_operators_are_of_the_graph(cycle: Cycle) -> Iterator[Finding]:
    """Every operator of aicore_intermediate_detail is in framework_raw.

    Not asked where the type table has a blank type: then MindSpore 2.0 itself says that it missed some. Source: MindSpore
    2.0 source: integrator.py; MindSpore 2.1 source: ascend_op_generator.py; real output of 1.x.
    """
    types = cycle.content(_TYPES)
    if types is not None:
        kind = _column(types.frame, _TYPE)
        if kind is not None and (types.frame[kind] == "").any():
            return
    artifact, framework = cycle.artifacts[_DETAIL], cycle.artifacts[_FRAMEWORK].content.frame
    here, there = _column(artifact.content.frame, _NAME), _column(framework, _NAME)
    if here is None or there is None:
        return
    yield from disagreeing_rows(
        artifact,
        ~artifact.content.frame[here].is_in(framework[there].unique().implode()),
        Code.I101,
        lambda row: f"{row[here]}: it ran, but it is not in {cycle.artifacts[_FRAMEWORK].path.name}",
    )


@invariant(needs=(_DETAIL, _TIMELINE))
def device_times_are_those_of_the_timeline(cycle: Cycle) -> Iterator[Finding]:
    """Up to 2.0: an operator's time is the mean of its executions in output_timeline_data, its frequency their number.

    Operators are the same in both. The frequency is exact (there is none before 2.0), the time (ms) has a relative 1e-6.
    Not asked from 2.1 on, where the timeline holds AI Core operators only. Source: MindSpore 2.0 source: optime_parser.py;
    real output of 1.x.
    """
    import polars as pl

    detail, artifact = _details(cycle), cycle.artifacts[_DETAIL]
    timeline = cycle.artifacts[_TIMELINE].content.frame
    name, duration = _column(timeline, _NAME), _column(timeline, ("duration(ms)",))
    if detail is None or name is None or duration is None or _writer(cycle) is not _Writer.UP_TO_2_0:
        return
    executions = (
        pl.DataFrame({"name": timeline[name], "duration": as_float64(timeline[duration])})
        .group_by("name")
        .agg(mean=pl.col("duration").mean(), count=pl.len())
    )
    other = cycle.artifacts[_TIMELINE].path.name
    rows = detail.join(executions, on="name", how="left", maintain_order="left")
    counted = rows["count"].is_not_null()
    if "execution_frequency" in artifact.content.frame.columns:
        counted = counted & (rows["count"] == rows["times"])
    yield from disagreeing_rows(
        artifact,
        ~counted,
        Code.I101,
        lambda row: f"{row['name']}: {row['times']} executions here, {row['count'] or 0} in {other}",
        frame=rows,
    )
    yield from disagreeing_rows(
        artifact,
        counted & ((rows["time"] - rows["mean"]).abs() > _EXACT + rows["mean"].abs() * _EXACT),
        Code.I105,
        lambda row: f"{row['name']}: {row['time']:.6g} ms here, its executions last {row['mean']:.6g} ms in {other}",
        frame=rows,
    )
    strange = executions.filter(~pl.col("name").is_in(detail["name"].implode())).sort("name")
    yield from disagreements(
        Code.I101,
        (
            (
                cycle.artifacts[_TIMELINE].place,
                f"{row['name']}: {row['count']} executions here, not in {artifact.path.name}",
            )
            for row in strange.iter_rows(named=True)
        ),
        count=strange.height,
        place=cycle.artifacts[_TIMELINE].place,
    )


@invariant(needs=(_TIMELINE,))
def device_timeline_is_in_order(cycle: Cycle) -> Iterator[Finding]:
    """Starts in output_timeline_data do not go back.

    Up to 2.0 (ms) the writer sorts; from 2.1 on (us) the order is that of msprof's op_summary, so it is only remarkable.
    Source: MindSpore 2.0 source: optime_parser.py; MindSpore 2.1 source: ascend_op_generator.py; real output of 1.x.
    """
    import polars as pl

    artifact = cycle.artifacts[_TIMELINE]
    frame = artifact.content.frame
    name, start = _column(frame, _NAME), _column(frame, ("start_time(ms)", "start_time(us)"))
    if name is None or start is None:
        return
    times = as_float64(frame[start])
    rows = pl.DataFrame({"name": frame[name], "start": frame[start], "before": frame[start].shift(1)})
    unit = start.strip()[-3:-1]
    yield from disagreeing_rows(
        artifact,
        times < times.shift(1),
        Code.I106,
        lambda row: f"{row['name']}: it begins at {row['start']} {unit}, after one at {row['before']} {unit}",
        frame=rows,
        severity=Severity.ERROR if unit == "ms" else Severity.WARNING,
    )


@invariant(needs=("ascend_timeline_summary", _DETAIL))
def device_summary_is_of_these_operators(cycle: Cycle) -> Iterator[Finding]:
    """From 2.1 on: num_of_ops, op_exe_times and total_time are the number, executions and time of the detail table.

    Counts are exact, the time has a relative 1e-6. Up to 2.0 they are of other sets: real output has fewer executions
    than operators. Source: MindSpore 2.1 source: ascend_timeline_generator.py, ascend_op_generator.py.
    """
    detail = _details(cycle)
    if detail is None or _writer(cycle) is not _Writer.SINCE_2_1:
        return
    artifact, other = cycle.artifacts["ascend_timeline_summary"], cycle.artifacts[_DETAIL].path.name
    summary = artifact.content.document
    for key, count in (("num_of_ops", detail.height), ("op_exe_times", int(detail["times"].sum()))):
        if key in summary and summary[key] != count:
            yield Finding(
                code=Code.I101, place=f"{artifact.place} $.{key}", message=f"{summary[key]} here, {count} in {other}"
            )
    total = float((detail["time"] * detail["times"]).sum())
    if "total_time" in summary and not _equal(summary["total_time"], total):
        yield Finding(
            code=Code.I104,
            place=f"{artifact.place} $.total_time",
            message=f"{summary['total_time']:.6g} here, the operators in {other} add up to {total:.6g}",
        )


@invariant(needs=("flops", "flops_summary"))
def flops_add_up(cycle: Cycle) -> Iterator[Finding]:
    """FLOPs of the summary = sum over the operators; before 2.0 its FLOPS = mean of their rates.

    In MFLOP, and GFLOP/s. The summary is rounded to four decimals (three before 2.0). From 2.1 on it has a cube and a
    vector unit, whose rates are not derived: they were divided by the time of all once more. Source: MindSpore 1.9 source:
    flops_parser.py; MindSpore 2.1 source: ascend_flops_generator.py. Not asked of 2.0, whose sums no source was at hand of.
    """
    frame, artifact = cycle.artifacts["flops"].content.frame, cycle.artifacts["flops_summary"]
    summary = artifact.content.document
    if "cube_FLOPs" in summary and "FLOPs" in summary:
        return
    for key, (columns, is_mean, decimals) in _FLOPS.items():
        column = _column(frame, columns)
        if key not in summary or column is None or frame.is_empty():
            continue
        total = float(as_float64(frame[column]).sum())
        expected = total / frame.height if is_mean else total
        if abs(summary[key] - expected) > decimals + abs(expected) * _EXACT:
            yield Finding(
                code=Code.I104,
                place=f"{artifact.place} $.{key}",
                message=f"{summary[key]:.6g} here, the {'mean' if is_mean else 'sum'} of {column} in "
                f"{cycle.artifacts['flops'].path.name} is {expected:.6g}",
            )


# -- operators of the AI CPU -----------------------------------------------------------------------------------------


@invariant(needs=("aicpu_intermediate", _DETAIL))
def aicpu_total_is_dispatch_and_execution(cycle: Cycle) -> Iterator[Finding]:
    """From 2.1 on: total_time = dispatch_time + execution_time (ms), relative 1e-6.

    Older files break it throughout (7.9 ms of 0.15 and 0.22 ms). Source: MindSpore 2.1 source: ascend_op_generator.py.
    """
    import polars as pl

    artifact = cycle.artifacts["aicpu_intermediate"]
    if _writer(cycle) is not _Writer.SINCE_2_1:
        return
    rows = _numbers(artifact.content.frame, "total_time", "dispatch_time", "execution_time").with_columns(
        other=pl.col("dispatch_time") + pl.col("execution_time")
    )
    yield from disagreeing_rows(
        artifact,
        (rows["total_time"] - rows["other"]).abs() > _EXACT + rows["other"].abs() * _EXACT,
        Code.I104,
        _worded_sum("total_time", "dispatch_time + execution_time"),
        frame=rows,
    )


@invariant(needs=("aicpu_intermediate",))
def aicpu_rows_are_numbered(cycle: Cycle) -> Iterator[Finding]:
    """Rows are numbered 1, 2, 3 and so on, and none ends before it begins.

    Source: MindSpore 2.0 source: aicpu_data_parser.py; MindSpore 2.1 source: ascend_op_generator.py; real output of 1.x.
    """
    import polars as pl

    artifact = cycle.artifacts["aicpu_intermediate"]
    frame = artifact.content.frame
    serial = _column(frame, ("serial_number", "serial_num"))
    if serial is None:
        return
    rows = pl.DataFrame(
        {
            "serial": as_int64(frame[serial]),
            "nth": pl.int_range(1, frame.height + 1, eager=True),
            "start": as_float64(frame["run_start"]),
            "end": as_float64(frame["run_end"]),
        }
    )
    yield from disagreeing_rows(
        artifact,
        rows["serial"] != rows["nth"],
        Code.I114,
        lambda row: f"{serial} is {row['serial']} in row {row['nth']}",
        frame=rows,
    )
    yield from disagreeing_rows(
        artifact,
        rows["end"] < rows["start"],
        Code.I106,
        lambda row: f"it ends at {row['end']:.15g}, before it begins at {row['start']:.15g}",
        frame=rows,
    )


# -- what the checks share -------------------------------------------------------------------------------------------


_LAYOUTS = {"ms-1.x": _Writer.UP_TO_2_0, "ms-2.1": _Writer.SINCE_2_1, "ms-2.3": _Writer.SINCE_2_1}


def _artifacts(cycle: Cycle, slot: str) -> list[Artifact]:
    """Every file of a slot; some have one for every mode or stage."""
    return [one for one in cycle.files if one.slot.name == slot] or [cycle.artifacts[slot]]


def _writer(cycle: Cycle) -> _Writer | None:
    """Who wrote the directory, as its files tell, else its layout; None where ms-2.0 is only what is left."""
    detail = cycle.content(_DETAIL)
    if detail is not None and detail.table is not None:
        return _Writer.SINCE_2_1 if "task_type" in detail.frame.columns else _Writer.UP_TO_2_0
    information = cycle.content("profiler_info")
    document = information.document if information is not None else None
    version = _VERSION.match(str(document.get("ms_version", ""))) if isinstance(document, dict) else None
    if version is None:
        return _LAYOUTS.get(cycle.layout.id)
    return _Writer.SINCE_2_1 if (int(version[1]), int(version[2])) >= (2, 1) else _Writer.UP_TO_2_0


def _column(frame: pl.DataFrame, names: tuple[str, ...]) -> str | None:
    """The first of the names a frame has, blanks around it aside."""
    stripped = {column.strip(): column for column in frame.columns}
    return next((stripped[name] for name in names if name in stripped), None)


def _numbers(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({name: as_float64(frame[name]) for name in names})


def _steps(artifact: Artifact) -> pl.DataFrame:
    """Rows of step_trace_raw that are steps, in integers, with their row."""
    import polars as pl

    frame = artifact.content.frame
    counted = [name for name in frame.columns if name != "step_num"]
    numbers = pl.DataFrame(
        {"row": pl.int_range(frame.height, eager=True), "step_num": frame["step_num"]}
        | {name: as_int64(frame[name]) for name in counted}
    )
    is_step = pl.col("step_num").str.contains(r"^[1-9][0-9]*$")
    points = [name for name in ("fp_point", "bp_point") if name in counted]
    return numbers.filter(is_step & pl.any_horizontal(pl.col(name) != 0 for name in points))


def _worded_step(part: str, words: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: f"step {row['step_num']}: {part} {row[part]} (10 ns), but {words} is {row['other']}"


def _worded_sum(whole: str, parts: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: f"{whole} {row[whole]:.6g} ms, but {parts} is {row['other']:.6g} ms"


def _broken_rows(
    artifact: Artifact, wrong: pl.DataFrame, code: Code, message: Callable[[dict[str, Any]], str]
) -> Iterator[Finding]:
    """Word rows that were filtered, each by its number in `row`."""
    table = artifact.content.table
    assert table is not None
    yield from disagreements(
        code,
        ((f"{artifact.place}{table.place(row['row'])}", message(row)) for row in wrong.iter_rows(named=True)),
        count=wrong.height,
        place=artifact.place,
    )


def _listed_twice(artifact: Artifact, names: tuple[str, ...]) -> Iterator[Finding]:
    frame = artifact.content.frame
    name = _column(frame, names)
    if name is not None:
        yield from disagreeing_rows(
            artifact,
            ~frame[name].is_first_distinct(),
            Code.I114,
            lambda row: f"{row[name]}: a row above has it, too",
        )


def _details(cycle: Cycle) -> pl.DataFrame | None:
    """The detail table in numbers: name, time, times (1 where there is no frequency, before 2.0)."""
    import polars as pl

    frame = cycle.artifacts[_DETAIL].content.frame
    name, time = _column(frame, _NAME), _column(frame, _TIME)
    if name is None or time is None:
        return None
    times = (
        as_int64(frame["execution_frequency"])
        if "execution_frequency" in frame.columns
        else pl.repeat(1, frame.height, dtype=pl.Int64, eager=True)
    )
    return pl.DataFrame({"name": frame[name], "time": as_float64(frame[time]), "times": times})


def _bases_of_percent(cycle: Cycle, total: str, everything: float, shares: float) -> list[float]:
    """What percent may have been divided by: the time of all, and in 2.0 that plus every operator's mean."""
    if total != "total_time":
        return [everything]
    detail = _details(cycle) if cycle.content(_DETAIL) is not None else None
    if detail is not None:
        return [everything, everything + float(detail["time"].sum())]
    # Without the details the mean of an operator is between nothing and all of its time.
    return [min(max(100.0 * everything / shares, everything), 2 * everything)]


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= _EXACT * max(abs(one), abs(other)) + 1e-9


def _number(values: Any, index: int) -> float:
    value = values[index] if isinstance(values, list) and len(values) > index else 0.0
    return float(value) if isinstance(value, (int, float)) else 0.0


def _hccl_steps(artifact: Artifact) -> list[dict[str, Any]]:
    """Rows of hccl_raw with their JSON decoded."""
    import msgspec

    frame, table = artifact.content.frame, artifact.content.table
    assert table is not None
    rows = []
    for number, row in enumerate(frame.iter_rows(named=True)):
        rows.append(
            {
                "place": f"{artifact.place}{table.place(number)}",
                "step": row["step_num"].strip(),
                "links": msgspec.json.decode(row["link_info"]),
                "operators": msgspec.json.decode(row["communication_operator_cost"]),
            }
        )
    for key in ("communication_cost", "wait_cost"):
        for one, value in zip(rows, as_float64(frame[key]).to_list(), strict=True):
            one[key] = value
    return rows


def _hccl_writer(cycle: Cycle, rows: list[dict[str, Any]]) -> _Writer:
    """Who wrote hccl_raw: where nothing else tells, a last row equal to the last step is the way of 2.1."""
    known = _writer(cycle)
    if known is not None:
        return known
    steps = [one for one in rows if one["step"] != "-"]
    average = [one for one in rows if one["step"] == "-"]
    is_copy = bool(steps and average) and all(
        average[-1][key] == steps[-1][key] for key in ("communication_cost", "wait_cost")
    )
    return _Writer.SINCE_2_1 if is_copy else _Writer.UP_TO_2_0


def _links(links: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """Every link of a step or operator: ((source-destination, SDMA or RDMA), [time, size, ...])."""
    for pair, kinds in links.items():
        for kind, values in kinds.items():
            yield (pair, kind), values


def _link_sums(step: Mapping[str, Any], *, since: bool) -> Iterator[tuple[str, str]]:
    """Compare the links of a step with the sums over its operators: their time (ms) and size (KB)."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for operator in step["operators"].values():
        if len(operator) < 4:
            return
        for key, values in _links(operator[3]):
            sums[key][0] += _number(values, 0)
            sums[key][1] += _number(values, 1)
    for key, values in _links(step["links"]):
        # 2.1 pairs RDMA events within whatever it looks at, so what it finds in the parts is not what is in the whole.
        if since and key[1] != "SDMA":
            continue
        for index, what in ((0, "time"), (1, "size")):
            if not _equal(_number(values, index), sums[key][index]):
                yield (
                    f"{step['place']} $.link_info",
                    f"step {step['step']}: {what} {_number(values, index):.6g} on link {key[0]} ({key[1]}), the "
                    f"operators add up to {sums[key][index]:.6g}",
                )
