"""Files of MindData's profiler on the data pipeline; those of MindSpore 2.0 and 2.10 differ in the order of keys.

Formats read on real output of MindSpore 2.0.0 and 2.10.0; sink mode from MindSpore 2.0 source (minddata_parser.py).
"""

from __future__ import annotations

from itertools import pairwise

from perfguard.testing.formats import Files, Row, columns, compact_json, csv_bytes, json_bytes, lines_bytes
from perfguard.testing.truth import Output, Pipeline, Stage


def pipeline_files(output: Output) -> Files:
    """Write the files of the pipeline, and unless analysis is off those that it makes of them."""
    return {**collected(output), **(analysed(output) if output.on.get("analysed", True) else {})}


def collected(output: Output) -> Files:
    """Write the files that the pipeline itself writes; 1.3 measured throughput, but neither memory nor the time of a batch."""
    rank, pipeline, is_old = output.number, output.rank.pipeline, output.version == "1.3"
    found = _stages(output)
    queue = "device_queue_profiling" if output.on["sink"] else "dataset_iterator_profiling"
    return {
        f"pipeline_profiling_{rank}.json": _profiling(pipeline, found, throughput=is_old),
        f"minddata_cpu_utilization_{rank}.json": (_utilization_of_1 if is_old else _utilization)(pipeline, found),
        f"{queue}_{rank}.txt": _queue(pipeline, timed=not is_old),
    }


def analysed(output: Output) -> Files:
    """Write the files of the analysis: the table of queues, and the summary twice."""
    rank = output.number
    summary = _summary(output)
    rows = [[key, *values] for key, values in summary.items()]
    return {
        f"minddata_pipeline_raw_{rank}.csv": _raw(output.rank.pipeline, _stages(output)),
        f"minddata_pipeline_summary_{rank}.json": json_bytes(summary),
        f"minddata_pipeline_summary_{rank}.csv": csv_bytes(rows[0], rows[1:]),
    }


def device_wait(pipeline: Pipeline, *, header: bool) -> bytes:
    """Write minddata_aicpu: how long the device waited for each batch (data sink, Ascend); 1.x had no header."""
    lines = ["node_name start_time end_time queue_size"] if header else []
    for batch in pipeline.batches:
        start = batch.at_ms * 1000
        lines.append(f"GetNext_dequeue_wait {start} {start + batch.push_ms} {batch.queued}")
    return lines_bytes(lines)


def _stages(output: Output) -> tuple[Stage, ...]:
    """Return the pipeline's operators; with data sink the root is the device's queue, which has no output queue."""
    pipeline = output.rank.pipeline
    idle = (0,) * len(pipeline.sampled_at_ms)
    root = [Stage("DeviceQueueOp", 1, None, idle, idle)] if output.on["sink"] else []
    return (*root, *pipeline.stages)


def _children(number: int, found: tuple[Stage, ...]) -> list[int]:
    return [number + 1] if number + 1 < len(found) else []


def _profiling(pipeline: Pipeline, found: tuple[Stage, ...], *, throughput: bool) -> bytes:
    operators = []
    for number, one in enumerate(found):
        metrics: dict[str, object] | None = None
        if one.sizes is not None:
            queue: dict[str, object] = {"length": pipeline.capacity, "size": one.sizes}
            if throughput:
                queue["throughput"] = [size / pipeline.interval_ms for size in one.sizes]
            metrics = {"output_queue": queue}
        operator = {"metrics": metrics, "num_workers": one.workers, "op_id": number, "op_type": one.type}
        children = _children(number, found)
        operators.append({**operator, **({"children": children} if children else {})})
    return compact_json({"op_info": operators, "sampling_interval": pipeline.interval_ms})


def _utilization(pipeline: Pipeline, found: tuple[Stage, ...]) -> bytes:
    switches, idle, io, runnable, system, user = zip(*pipeline.device, strict=True)
    virtual, resident, proportional = zip(*pipeline.memory_kb, strict=True)
    total = pipeline.total_kb
    used = [total // 25 + size // 2 for size in resident]
    process = {"pss": proportional, "rss": resident, "vss": virtual}
    machine = {"available": [total - part for part in used], "total": [total] * len(used), "used": used}
    # One sample less: a process's share is measured between two samples.
    process_system, process_user = zip(*pipeline.process, strict=True)
    return compact_json(
        {
            "cpu_processor_num": pipeline.processors,
            "sampling_interval": pipeline.interval_ms,
            "time_stamp": pipeline.sampled_at_ms,
            "device_info": {
                # Four of the six are written twice per sample, with a 0 or the same again.
                "context_switch_count": _interleaved(switches),
                "idle_utilization": _interleaved(idle),
                "io_utilization": _interleaved(io),
                "runnable_process": [count for count in runnable for _ in range(2)],
                "sys_utilization": system,
                "user_utilization": user,
            },
            "op_info": _operator_utilization(found),
            "process_info": {"sys_utilization": process_system, "user_utilization": process_user},
            "process_memory_info": {f"{key}_mbytes": [kb / 1024 for kb in sizes] for key, sizes in process.items()},
            "system_memory_info": {
                f"{key}_sys_memory_mbytes": [kb / 1024 for kb in sizes] for key, sizes in machine.items()
            },
        }
    )


def _utilization_of_1(pipeline: Pipeline, found: tuple[Stage, ...]) -> bytes:
    switches, idle, io, runnable, system, user = zip(*pipeline.device, strict=True)
    process_system, process_user = zip(pipeline.process[0], *pipeline.process, strict=True)
    device = {"user_utilization": user, "sys_utilization": system, "io_utilization": io, "idle_utilization": idle}
    return json_bytes(
        {
            "sampling_interval": pipeline.interval_ms,
            "cpu_processor_num": pipeline.processors,
            "time_stamp": pipeline.sampled_at_ms,
            "device_info": {**device, "runable_processes": runnable, "context_switch_count": switches},
            "process_info": {"user_utilization": process_user, "sys_utilization": process_system},
            "op_info": _operator_utilization(found),
        }
    )


def _operator_utilization(found: tuple[Stage, ...]) -> list[dict[str, object]]:
    shares = [{"user_utilization": one.user_percent, "sys_utilization": one.system_percent} for one in found]
    return [{"metrics": metrics, "op_id": number} for number, metrics in enumerate(shares)]


def _interleaved(values: tuple[int, ...]) -> list[int]:
    return [value for one in values for value in (0, one)]


def _queue(pipeline: Pipeline, *, timed: bool) -> bytes:
    lines = []
    for one in pipeline.batches:
        at = f" {one.at_ms}" if timed else ""
        parts = {"0 1": one.push_ms, "0 2": one.total_ms, "0 0": one.pipeline_ms, f"1 {pipeline.capacity}": one.queued}
        lines += [f"{kind} {one.number} {value}{at}" for kind, value in parts.items()]
    return lines_bytes(lines)


def _raw(pipeline: Pipeline, found: tuple[Stage, ...]) -> bytes:
    rows = []
    for number, one in enumerate(found):
        queue: Row = (None, None, None, None)
        if one.sizes is not None:
            average = sum(one.sizes) / len(one.sizes)
            queue = (list(one.sizes), average, pipeline.capacity, average / pipeline.capacity)
        links = (number - 1 if number else None, _children(number, found) or None)
        rows.append((number, one.type, one.workers, *queue, pipeline.interval_ms, *links))
    return csv_bytes(columns("minddata_pipeline_raw"), rows)


def _summary(output: Output) -> dict[str, list[object]]:
    found, capacity = _stages(output), output.rank.pipeline.capacity
    names = [one.type.removesuffix("Op") for one in found]
    operators = [f"{name}(id={number})" for number, name in enumerate(names)]
    cpu = [round((sum(one.system_percent) + sum(one.user_percent)) / len(one.system_percent), 2) for one in found]
    per_worker = [round(percent / one.workers, 2) for percent, one in zip(cpu, found, strict=True)]
    average, used, empty = zip(*(_queue_summary(one.sizes, capacity) for one in found), strict=True)
    summary: dict[str, list[object]] = {
        "op_ids": [*range(len(found))],
        "op_names": [*names],
        "pipeline_ops": [*operators],
        "num_workers": [one.workers for one in found],
        "queue_average_size": [*average],
        "queue_utilization_pct": [*used],
        "queue_empty_freq_pct": [*empty],
        "children_ids": [_children(number, found) for number in range(len(found))],
        "parent_id": [*range(-1, len(found) - 1)],
        "avg_cpu_pct": [*cpu],
        **_batch_times(output),
        "avg_cpu_pct_per_worker": [*per_worker],
    }
    details: list[object] = [
        f"{name} is using {percent}% CPU per worker. Using num_parallel_workers={one.workers} might not bring as much "
        "benefit due to low CPU usage per worker."
        for name, percent, one in zip(operators, per_worker, found, strict=True)
        if percent < 20 and one.workers > 1
    ]
    if details:
        summary["cpu_analysis_details"] = details
    first = ("pipeline_ops", "op_names", "op_ids") if output.version == "2.0" else ()
    return {**{key: summary[key] for key in first}, **summary}


def _queue_summary(sizes: tuple[int, ...] | None, capacity: int) -> tuple[float, float, float]:
    if sizes is None:
        return -1, -1, -1
    average = round(sum(sizes) / len(sizes), 2)
    return average, round(100 * average / capacity, 2), round(100 * sizes.count(0) / len(sizes), 2)


def _batch_times(output: Output) -> dict[str, list[object]]:
    """Return mean times of a batch in milliseconds, -1 without any; the first batch is not counted.

    Without data sink, `per_batch_time` is the mean of the batches' times and of the times between batches.
    """
    batches = output.rank.pipeline.batches
    between = [after.at_ms - before.at_ms for before, after in pairwise(batches)]
    total = [one.total_ms for one in batches[1:]]
    total += [] if output.on["sink"] or output.version == "1.3" else between
    whole = {"per_batch_time": _mean(total)}
    parts = {
        "per_pipeline_time": _mean([one.pipeline_ms for one in batches[1:]]),
        "per_push_queue_time": _mean([one.push_ms for one in batches[1:]]),
    }
    return {"1.3": whole, "2.0": {**whole, **parts}}.get(output.version, {**parts, **whole})


def _mean(values: list[int]) -> list[object]:
    return [round(sum(values) / len(values), 3) if values else -1]
