"""Whole directories of torch_npu and of MindSpore 2.5 and later on an Ascend device, and msprof-analyze's of all ranks.

Formats: real directories of torch_npu and real output of msprof-analyze (msinsight test data), MindSpore 2.10 source
(profiler_info.py, npu_profiler.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from perfguard.testing import ascend_memory as memory
from perfguard.testing import ascend_operators as operators
from perfguard.testing import minddata
from perfguard.testing.ascend_communication import by_kind, communication_files, matrix_entries, with_total
from perfguard.testing.ascend_steps import step_trace_time, torch_step_rows
from perfguard.testing.ascend_trace import trace_view
from perfguard.testing.databases import cluster_database, communication_database, profiler_database
from perfguard.testing.formats import Files, below, csv_bytes, json_bytes, stamp, tabbed_microseconds, template, us
from perfguard.testing.mindspore_cpu import directory_name, log_file, memory_file
from perfguard.testing.truth import Collective, Output, Rank, of_step

#: torch_npu names its directories in local time; this run was east of Greenwich.
_LOCAL_NS = 8 * 3600 * 10**9


def torch_cycle(output: Output) -> Files:
    """Write the directory of one rank and cycle of torch_npu."""
    rank = output.rank
    name = f"{output.truth.host}_{rank.pid}_{stamp(rank.start_ns + _LOCAL_NS)}_ascend_pt"
    suffix = f"_{rank.number}" if output.is_distributed else ""
    files = {f"profiler_info{suffix}.json": _torch_info(output), **_raw(output)}
    if output.variant != "2023":
        files |= {"profiler_metadata.json": _torch_metadata(output), **log_file(output, "torch", name)}
    return below(name, files | _exports(output, f"ascend_pytorch_profiler{suffix}.db", "analysis.db"))


def _exports(output: Output, database: str, communication: str) -> Files:
    """Write the folder of what the analysis makes: text files, and databases under these names."""
    files: Files = {}
    if output.on["analysed"] and output.on["text"]:
        files |= _text_files(output)
    if output.on["analysed"] and output.on["db"]:
        files[database] = profiler_database(output)
        if output.is_distributed:
            files[communication] = communication_database(output)
    return below("ASCEND_PROFILER_OUTPUT", files)


def _text_files(output: Output) -> Files:
    """Write the text files that a level, the options and the version of a framework have."""
    on, is_mindspore, is_recent = output.on, bool(output.version), output.variant != "2023"
    has_statistics = is_mindspore or (output.level > 0 and is_recent)
    writers: dict[str, tuple[bool, Callable[[Output], bytes]]] = {
        "kernel_details.csv": (True, operators.kernel_details),
        "step_trace_time.csv": (True, step_trace_time),
        "trace_view.json": (is_recent, trace_view),
        "operator_details.csv": (on["shapes"] or not is_mindspore, operators.operator_details),
        "op_statistic.csv": (has_statistics, operators.op_statistic),
        "api_statistic.csv": (has_statistics, operators.api_statistic),
        "task_time.csv": (not has_statistics and is_recent, memory.task_time),
        "soc_pmu.csv": (on["l2_cache"] and not is_mindspore, memory.soc_pmu),
        "l2_cache.csv": (on["l2_cache"], operators.l2_cache),
        "memory_record.csv": (on["memory"], memory.memory_record),
        "operator_memory.csv": (on["memory"], memory.operator_memory),
        "npu_module_mem.csv": (on["memory"], memory.npu_module_mem),
        "static_op_mem.csv": (on["memory"] and is_mindspore, memory.static_op_mem),
        "hbm.csv": (is_mindspore, memory.memory_bandwidth),
        "dataset.csv": (is_mindspore, _dataset),
        "data_preprocess.csv": (output.level == 2 and on.get("aicpu", False), _data_preprocess),
    }
    files = {name: write(output) for name, (is_written, write) in writers.items() if is_written}
    files |= memory.bus_counters(output)
    if output.level and output.is_distributed:
        files |= communication_files(output)
    if on.get("data_process"):
        files |= minddata.analysed(output)
    return files


def _torch_info(output: Output) -> bytes:
    rank, on = output.rank, output.on
    first = rank.steps[0].step
    exports = [name for name in ("text", "db") if on[name]]
    schedule: dict[str, int] = {}
    if on["scheduled"]:
        warmup, skip = min(first, 1), max(first - 1, 0)
        schedule = {"wait": 0, "active": len(rank.steps), "warmup": warmup, "repeat": 1, "skip_first": skip}
    is_recent = output.variant != "2023"
    common = template(
        "common_config",
        schedule=schedule if is_recent else {f"_{name}": value for name, value in schedule.items()},
        record_shapes=on["shapes"],
        profile_memory=on["memory"],
        with_stack=on["stack"],
    )
    experimental = template(
        "experimental_config",
        _profiler_level=f"Level{output.level}",
        _aic_metrics=f"ACL_AICORE_{operators.METRICS[operators.metrics_of(output.variant)][0]}",
        _l2_cache=on["l2_cache"],
        _sys_io=on["sys_io"],
        _sys_interconnection=on["sys_interconnection"],
        _export_type=exports[0] if len(exports) == 1 else exports,
    )
    if not is_recent:
        old = ("_profiler_level", "_aic_metrics", "_l2_cache", "_data_simplification", "record_op_args")
        experimental = {name: experimental[name] for name in old} | {"_data_simplification": None}
    document: dict[str, object] = {"config": {"common_config": common, "experimental_config": experimental}}
    if is_recent:
        # The files of 2023 do not have the start.
        count = rank.start_ns // 10 % 10**14
        start = {"syscnt_enable": True, "freq": 100, "start_cnt": count, "start_monotonic": rank.start_ns % 10**15}
        document["start_info"] = start
    document["end_info"] = {"collectionTimeEnd": rank.end_ns, "MonotonicTimeEnd": rank.end_ns % 10**15}
    # A text since torch_npu 2.7.
    document["rank_id"] = str(rank.number) if output.variant == "device-id" else rank.number
    return json_bytes(document, indent=4)


def _torch_metadata(output: Output) -> bytes:
    truth, number = output.truth, output.number
    document: dict[str, object] = {"ENV_VARIABLES": template("environment")}
    if output.is_distributed:
        document["distributed_args"] = template(
            "distributed_args",
            pipeline_model_parallel_size=truth.stages,
            data_parallel_size=max(truth.world // truth.stages, 1),
            rank=number,
            world_size=truth.world,
        )
        ranks = list(range(truth.world))
        group = {"group_name": "default_group", "group_rank": number, "global_ranks": ranks}
        document["parallel_group_info"] = {f"127.0.1.1%eno1_{truth.group[:5]}_0_1": group}
    return json_bytes(document, indent=4)


def _raw(output: Output) -> Files:
    name, random = output.raw_folder()
    return {
        f"{name}/host/data/unaging.api_event.data.slice_0": random.randbytes(256),
        f"{name}/device_{output.number}/data/ffts_profile.data.{output.number}.slice_0": random.randbytes(256),
    }


def mindspore_cycle(output: Output) -> Files:
    """Write the directory of one rank and cycle of MindSpore 2.5 and later on an Ascend device."""
    on, number = output.on, output.number
    name = directory_name(output)
    random = output.random("framework")
    files = {
        f"profiler_info_{number}.json": _mindspore_info(output),
        **_raw(output),
        **log_file(output, "npu", name),
    }
    if not on["simplified"] or not on["analysed"]:
        kept = {"mindspore.op_range": random.randbytes(512)}
        if on["memory"]:
            kept |= {"mindspore.memory_usage": random.randbytes(512), **memory_file(output.rank)}
        if on["data_process"]:
            kept |= minddata.collected(output)
        files |= below("FRAMEWORK", kept)
    database = f"ascend_mindspore_profiler_{number}.db"
    return below(name, files | _exports(output, database, "communication_analyzer.db"))


def _mindspore_info(output: Output) -> bytes:
    on, number = output.on, str(output.number)
    active = len(output.rank.steps) if on["scheduled"] else 0
    schedule = {"wait": 0, "active": max(active, 1), "warmup": 0, "repeat": min(active, 1), "skip_first": 0}
    options = ("with_stack", "profile_memory", "data_process", "l2_cache", "sys_io", "sys_interconnection")
    conditions = {"with_stack": "stack", "profile_memory": "memory"}
    parameters = template(
        "profiler_parameters",
        is_set_schedule=on["scheduled"],
        profiler_level=f"Level{output.level}",
        **{name: on[conditions.get(name, name)] for name in options},
        data_simplification=on["simplified"],
        record_shapes=on["shapes"],
        export_type=[export for export in ("text", "db") if on[export]],
        schedule=schedule,
    )
    if output.level:
        parameters["aic_metrics"] = operators.metrics_of(output.variant)
    ids = {"rank_id": number, "device_id": number}
    return json_bytes(template("profiler_info", profiler_parameters=parameters, ms_profiler_info=ids), indent=4)


def _dataset(output: Output) -> bytes:
    pipeline = output.rank.pipeline
    batches = pipeline.batches
    mean = round(sum(batch.pipeline_ms for batch in batches) * 250 / len(batches), 2)
    rows = [
        (f"Pipeline{stage.type.removesuffix('Op')}", "WorkerEntry", len(batches), mean, "") for stage in pipeline.stages
    ]
    return csv_bytes(output.columns("dataset"), rows)


def _data_preprocess(output: Output) -> bytes:
    rows = []
    for number, step in enumerate(output.rank.steps):
        compute, copy, dispatch = 12_000 + 10 * number, 2_000, 1_500
        task = compute + copy
        times = map(us, (compute, copy, task, dispatch, task + dispatch))
        rows.append([tabbed_microseconds(step.start_ns), "GetNext", *times, 3, number])
    return operators.cann_csv(output, "data_preprocess", rows)


# --- the directory of all ranks


def cluster_files(output: Output) -> Files:
    """Write cluster_analysis_output of one schedule cycle: times of steps, and of communication if that is on.

    The database holds the times of steps only: the format of its other tables is not known well enough.
    """
    on, members = output.on, output.truth.cycles[0]
    outputs = [replace(output, rank=rank) for rank in members]
    files: Files = {}
    rows = _step_times(members)
    if on["db"]:
        files["cluster_analysis.db"] = cluster_database(rows)
    if on["text"]:
        files["cluster_step_trace_time.csv"] = csv_bytes(output.columns("cluster_step_trace_time"), rows)
    if on["text"] and on["communication"]:
        ranks = range(len(members))
        pairs = sorted({pair for rank in members if (pair := _neighbours(rank))})
        for name, entries in (("", _operations), ("_matrix", _links)):
            of = {kind: _by_step(outputs, kind, entries) for kind in ("p2p", "collective")}
            if entries is _links:
                _add_up(of)
            document = {"p2p": of["p2p"] if pairs else {}, str(tuple(ranks)): of["collective"]}
            files[f"cluster_communication{name}.json"] = json_bytes(document)
        # Up to msprof-analyze 1.3 the groups of p2p are the stages (step_trace_time_analysis.py).
        files["communication_group.json"] = json_bytes({"collective": [[*ranks]], "p2p": [[*ranks]]})
    return below("cluster_analysis_output", files)


def _neighbours(rank: Rank) -> tuple[int, ...]:
    """Return the sender and the receiver that this rank is one of; nothing outside a pipeline."""
    links = (link for one in rank.collectives if one.is_point_to_point for link in one.links)
    return next((tuple(sorted((one.source, one.target))) for one in links if one.source != one.target), ())


def _step_times(ranks: Sequence[Rank]) -> list[list[object]]:
    rows: list[list[object]] = []
    by_rank = [torch_step_rows(rank, scheduled=True) for rank in ranks]
    for same_step in zip(*by_rank, strict=True):
        step = same_step[0][0]
        # The last column of a rank's own file, the time until its first task, is left out.
        rows += [[step, "rank", rank.number, *row[1:-1]] for rank, row in zip(ranks, same_step, strict=True)]
        slowest = [max(float(str(v)) for v in column) for column in zip(*(row[1:-1] for row in same_step), strict=True)]
        rows.append([step, "stage", str(tuple(rank.number for rank in ranks)), *slowest])
    return rows


_Entries = Callable[[Output, list[Collective], dict[str, dict[str, Any]]], None]


def _by_step(outputs: list[Output], kind: str, add: _Entries) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what `add` puts into a document for each rank, by step."""
    document: dict[str, dict[str, dict[str, Any]]] = {}
    for step in outputs[0].rank.steps:
        operations: dict[str, dict[str, Any]] = {}
        for output in outputs:
            add(output, by_kind(of_step(output.rank.collectives, step.step))[kind], operations)
        document[f"step{step.step}"] = operations
    return document


def _operations(output: Output, ones: list[Collective], found: dict[str, dict[str, Any]]) -> None:
    for name, entry in with_total(output, ones).items():
        for link in entry["Communication Bandwidth Info"].values():
            size, time = link["Transit Size(MB)"], link["Transit Time(ms)"]
            link.setdefault("Bandwidth(GB/s)", round(size / time, 4) if time else 0)  # the total of a rank has none
        found.setdefault(name, {})[str(output.number)] = entry


def _links(output: Output, ones: list[Collective], found: dict[str, dict[str, Any]]) -> None:
    for name, link, entry, _ in matrix_entries(output, ones):
        found.setdefault(f"{name}@{output.truth.group}", {})[link] = entry


def _add_up(of: dict[str, dict[str, dict[str, dict[str, Any]]]]) -> None:
    """Add `Total Op Info`, the sum of the totals of all types, by link."""
    for steps in of.values():
        for entries in steps.values():
            found: dict[str, list[dict[str, Any]]] = {}
            for link, entry in (item for name, links in entries.items() if "-total@" in name for item in links.items()):
                found.setdefault(link, []).append(entry)
            if found:
                entries["Total Op Info"] = {link: _summed_links(parts) for link, parts in found.items()}


def _summed_links(parts: list[dict[str, Any]]) -> dict[str, Any]:
    size, time = (sum(part[name] for part in parts) for name in ("Transit Size(MB)", "Transit Time(ms)"))
    return {
        "Transport Type": parts[-1]["Transport Type"],
        "Transit Time(ms)": time,
        "Transit Size(MB)": size,
        "Bandwidth(GB/s)": round(size / time, 4) if time else 0,
    }
