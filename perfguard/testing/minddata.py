"""Files of MindData's profiler on the data pipeline; those of MindSpore 2.0 and 2.10 differ in the order of keys.

Formats read on real output of MindSpore 2.0.0 and 2.10.0; sink mode from MindSpore 2.0 source (minddata_parser.py).
"""

from __future__ import annotations

from dataclasses import replace

from perfguard.testing.formats import Files, columns, compact_json, csv_bytes, json_bytes, lines_bytes
from perfguard.testing.truth import Pipeline, Stage

_RAW = columns(
    "op_id,op_type,num_workers,output_queue_size,output_queue_average_size,output_queue_length,"
    "output_queue_usage_rate,sample_interval,parent_id,children_id"
)


def collected(pipeline: Pipeline, rank: int, *, sink: bool, version: str = "2.10") -> Files:
    """Write the files that the pipeline itself writes.

    `version` is "1.x", "2.0" or "2.10"; 1.x measured throughput, but neither memory nor the time of a batch.
    """
    queue = "device_queue_profiling" if sink else "dataset_iterator_profiling"
    is_old = version == "1.x"
    return {
        f"pipeline_profiling_{rank}.json": _profiling(pipeline, sink=sink, throughput=is_old),
        f"minddata_cpu_utilization_{rank}.json": (_utilization_of_1 if is_old else _utilization)(pipeline, sink=sink),
        f"{queue}_{rank}.txt": _queue(pipeline, timed=not is_old),
    }


def analysed(pipeline: Pipeline, rank: int, *, sink: bool, version: str) -> Files:
    """Write the files of the analysis: the table of queues, and the summary twice. `version`: "1.x", "2.0" or "2.10"."""
    summary = _summary(pipeline, sink=sink, version=version)
    transposed = [[key, *values] for key, values in summary.items()]
    return {
        f"minddata_pipeline_raw_{rank}.csv": _raw(pipeline, sink=sink),
        f"minddata_pipeline_summary_{rank}.json": json_bytes(summary),
        f"minddata_pipeline_summary_{rank}.csv": csv_bytes(transposed),
    }


def device_wait(pipeline: Pipeline, rank: int, *, header: bool = True) -> Files:
    """Write minddata_aicpu: how long the device waited for each batch (data sink, Ascend); 1.x had no header."""
    lines = ["node_name start_time end_time queue_size"] if header else []
    for batch in pipeline.batches:
        start = batch.at_ms * 1000
        lines.append(f"GetNext_dequeue_wait {start} {start + batch.push_ms} {batch.queued}")
    return {f"minddata_aicpu_{rank}.txt": lines_bytes(lines)}


def stages(pipeline: Pipeline, *, sink: bool) -> tuple[Stage, ...]:
    """Return the pipeline's operators; with data sink the root is the device's queue, which has no output queue."""
    if not sink:
        return pipeline.stages
    idle = tuple(0 for _ in pipeline.sampled_at_ms)
    root = replace(pipeline.stages[0], workers=1, children=(1,), sizes=None, system_percent=idle, user_percent=idle)
    root = replace(root, type="DeviceQueueOp")
    rest = (
        replace(
            one,
            number=one.number + 1,
            parent=0 if one.parent is None else one.parent + 1,
            children=tuple(child + 1 for child in one.children),
        )
        for one in pipeline.stages
    )
    return (root, *rest)


def _profiling(pipeline: Pipeline, *, sink: bool, throughput: bool) -> bytes:
    operators = []
    for one in stages(pipeline, sink=sink):
        metrics: dict[str, object] | None = None
        if one.sizes is not None:
            queue: dict[str, object] = {"length": one.length, "size": list(one.sizes)}
            if throughput:
                queue["throughput"] = [size / pipeline.interval_ms for size in one.sizes]
            metrics = {"output_queue": queue}
        operator = {"metrics": metrics, "num_workers": one.workers, "op_id": one.number, "op_type": one.type}
        operators.append({**operator, **({"children": list(one.children)} if one.children else {})})
    return compact_json({"op_info": operators, "sampling_interval": pipeline.interval_ms})


def _utilization(pipeline: Pipeline, *, sink: bool) -> bytes:
    switches, idle, io, runnable, system, user = (list(column) for column in zip(*pipeline.device, strict=True))
    virtual, resident, proportional = (list(column) for column in zip(*pipeline.memory_kb, strict=True))
    total = [pipeline.total_kb] * len(pipeline.sampled_at_ms)
    used = [pipeline.total_kb // 25 + size // 2 for size in resident]
    return compact_json(
        {
            "cpu_processor_num": pipeline.processors,
            "sampling_interval": pipeline.interval_ms,
            "time_stamp": list(pipeline.sampled_at_ms),
            "device_info": {
                # Four of the six are written twice per sample, with a 0 or the same again.
                "context_switch_count": _interleaved(switches),
                "idle_utilization": _interleaved(idle),
                "io_utilization": _interleaved(io),
                "runnable_process": [count for count in runnable for _ in range(2)],
                "sys_utilization": system,
                "user_utilization": user,
            },
            "op_info": _operator_utilization(pipeline, sink=sink),
            # One sample less: a process's share is measured between two samples.
            "process_info": {
                "sys_utilization": [one[0] for one in pipeline.process],
                "user_utilization": [one[1] for one in pipeline.process],
            },
            "process_memory_info": {
                "pss_mbytes": _megabytes(proportional),
                "rss_mbytes": _megabytes(resident),
                "vss_mbytes": _megabytes(virtual),
            },
            "system_memory_info": {
                "available_sys_memory_mbytes": _megabytes([a - b for a, b in zip(total, used, strict=True)]),
                "total_sys_memory_mbytes": _megabytes(total),
                "used_sys_memory_mbytes": _megabytes(used),
            },
        }
    )


def _utilization_of_1(pipeline: Pipeline, *, sink: bool) -> bytes:
    switches, idle, io, runnable, system, user = (list(column) for column in zip(*pipeline.device, strict=True))
    process = [pipeline.process[0], *pipeline.process]
    document: dict[str, object] = {
        "sampling_interval": pipeline.interval_ms,
        "cpu_processor_num": pipeline.processors,
        "time_stamp": list(pipeline.sampled_at_ms),
        "device_info": {
            "user_utilization": user,
            "sys_utilization": system,
            "io_utilization": io,
            "idle_utilization": idle,
            "runable_processes": runnable,
            "context_switch_count": switches,
        },
        "process_info": {
            "user_utilization": [user for _, user in process],
            "sys_utilization": [system for system, _ in process],
        },
        "op_info": _operator_utilization(pipeline, sink=sink),
    }
    return json_bytes(document)


def _operator_utilization(pipeline: Pipeline, *, sink: bool) -> list[dict[str, object]]:
    return [
        {
            "metrics": {
                "user_utilization": list(one.user_percent),
                "sys_utilization": list(one.system_percent),
            },
            "op_id": one.number,
        }
        for one in stages(pipeline, sink=sink)
    ]


def _interleaved(values: list[int]) -> list[int]:
    return [value for one in values for value in (0, one)]


def _megabytes(kilobytes: list[int]) -> list[float]:
    return [one / 1024 for one in kilobytes]


def _queue(pipeline: Pipeline, *, timed: bool) -> bytes:
    lines = []
    for one in pipeline.batches:
        at = f" {one.at_ms}" if timed else ""
        lines += [
            f"0 1 {one.number} {one.push_ms}{at}",
            f"0 2 {one.number} {one.total_ms}{at}",
            f"0 0 {one.number} {one.pipeline_ms}{at}",
            f"1 {pipeline.capacity} {one.number} {one.queued}{at}",
        ]
    return lines_bytes(lines)


def _raw(pipeline: Pipeline, *, sink: bool) -> bytes:
    rows: list[tuple[object, ...]] = [_RAW]
    for one in stages(pipeline, sink=sink):
        children = list(one.children) or None
        if one.sizes is None:
            queue: tuple[object, ...] = (None, None, None, None)
        else:
            average = sum(one.sizes) / len(one.sizes)
            queue = (list(one.sizes), average, one.length, average / one.length)
        rows.append((one.number, one.type, one.workers, *queue, pipeline.interval_ms, one.parent, children))
    return csv_bytes(rows)


def _summary(pipeline: Pipeline, *, sink: bool, version: str) -> dict[str, list[object]]:
    found = stages(pipeline, sink=sink)
    names = [one.type.removesuffix("Op") for one in found]
    operators = [f"{name}(id={one.number})" for name, one in zip(names, found, strict=True)]
    cpu = [
        round(sum(map(sum, zip(one.system_percent, one.user_percent, strict=True))) / len(one.system_percent), 2)
        for one in found
    ]
    per_worker = [round(percent / one.workers, 2) for percent, one in zip(cpu, found, strict=True)]
    average, used, empty = zip(*(_queue_summary(one) for one in found), strict=True)
    summary: dict[str, list[object]] = {
        "op_ids": [one.number for one in found],
        "op_names": list(names),
        "pipeline_ops": list(operators),
        "num_workers": [one.workers for one in found],
        "queue_average_size": list(average),
        "queue_utilization_pct": list(used),
        "queue_empty_freq_pct": list(empty),
        "children_ids": [list(one.children) for one in found],
        "parent_id": [-1 if one.parent is None else one.parent for one in found],
        "avg_cpu_pct": list(cpu),
        **_batch_times(pipeline, sink=sink, version=version),
        "avg_cpu_pct_per_worker": list(per_worker),
    }
    details = [
        f"{name} is using {percent}% CPU per worker. Using num_parallel_workers={one.workers} might not bring as much "
        "benefit due to low CPU usage per worker."
        for name, percent, one in zip(operators, per_worker, found, strict=True)
        if percent < 20 and one.workers > 1
    ]
    if details:
        summary["cpu_analysis_details"] = list(details)
    if version == "2.0":
        first = ("pipeline_ops", "op_names", "op_ids")
        return {**{key: summary[key] for key in first}, **{k: v for k, v in summary.items() if k not in first}}
    return summary


def _queue_summary(one: Stage) -> tuple[float, float, float]:
    if one.sizes is None:
        return -1, -1, -1
    average = round(sum(one.sizes) / len(one.sizes), 2)
    return average, round(100 * average / one.length, 2), round(100 * one.sizes.count(0) / len(one.sizes), 2)


def _batch_times(pipeline: Pipeline, *, sink: bool, version: str) -> dict[str, list[object]]:
    """Return mean times of a batch in milliseconds, -1 without any; the first batch is not counted.

    Without data sink, `per_batch_time` is the mean of the batches' times and of the times between batches.
    """
    counted = pipeline.batches[1:]
    between = [after.at_ms - before.at_ms for before, after in zip(pipeline.batches, counted, strict=False)]
    total = [one.total_ms for one in counted] + ([] if sink or version == "1.x" else between)
    times: dict[str, list[object]] = {
        "per_pipeline_time": [_mean([one.pipeline_ms for one in counted])],
        "per_push_queue_time": [_mean([one.push_ms for one in counted])],
        "per_batch_time": [_mean(total)],
    }
    if version == "1.x":
        return {"per_batch_time": times["per_batch_time"]}
    if version == "2.0":
        return {key: times[key] for key in ("per_batch_time", "per_pipeline_time", "per_push_queue_time")}
    return times


def _mean(values: list[int]) -> float:
    return round(sum(values) / len(values), 3) if values else -1
