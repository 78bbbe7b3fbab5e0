"""The whole directory one rank writes on an Ascend device: torch_npu, and MindSpore 2.5 and later.

Formats: real directories of torch_npu (msinsight test data), MindSpore 2.10 source (profiler_info.py, npu_profiler.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from random import Random

from perfguard.testing import minddata, system_counters
from perfguard.testing.ascend_communication import communication, communication_matrix
from perfguard.testing.ascend_memory import memory_record, npu_module_mem, operator_memory, static_op_mem
from perfguard.testing.ascend_operators import (
    api_statistic,
    cann_csv,
    kernel_details,
    l2_cache,
    op_statistic,
    operator_details,
)
from perfguard.testing.ascend_steps import step_trace_time
from perfguard.testing.ascend_trace import mindspore_trace_view, torch_trace_view
from perfguard.testing.counters import CANN_NAMES, metrics_of
from perfguard.testing.databases import (
    analysis_database,
    communication_database,
    mindspore_database,
    torch_database,
)
from perfguard.testing.formats import Files, below, columns, csv_bytes, json_bytes, stamp, tabbed_microseconds, us, utc
from perfguard.testing.mindspore_cpu import memory_file
from perfguard.testing.mindspore_info import directory_name, info_2_5, log_bytes, log_name, npu_log
from perfguard.testing.raw import raw_token
from perfguard.testing.truth import Rank, Truth

#: torch_npu names its directories in local time; this run was east of Greenwich.
_LOCAL = timedelta(hours=8)

_ENVIRONMENT = columns(
    "ASCEND_GLOBAL_LOG_LEVEL,HCCL_RDMA_TC,HCCL_RDMA_SL,ACLNN_CACHE_LIMIT,HOST_CACHE_CAPACITY,ASCEND_ENHANCE_ENABLE,"
    "PYTORCH_NPU_ALLOC_CONF,ASCEND_LAUNCH_BLOCKING"
)


def level_of(on: Mapping[str, bool]) -> int:
    """Return the profiler's level: 0, 1 or 2."""
    return 2 if on["level2"] else int(on["level1"])


def torch_cycle(truth: Truth, rank: Rank, on: Mapping[str, bool], variant: str) -> Files:
    """Write the directory of one rank and cycle of torch_npu."""
    distributed = truth.world > 1
    local = rank.start_ns + int(_LOCAL.total_seconds()) * 10**9
    name = f"{truth.host}_{rank.pid}_{stamp(local)}_ascend_pt"
    suffix = f"_{rank.number}" if distributed else ""
    files = {f"profiler_info{suffix}.json": _torch_info(rank, on, variant), **_raw(rank)}
    if variant != "2023":
        files |= {"profiler_metadata.json": _torch_metadata(truth, rank), **_torch_logs(rank, name)}
    made: Files = {}
    if on["analysed"] and on["text"]:
        made |= _torch_text(truth, rank, on, variant)
    if on["analysed"] and on["db"]:
        made[f"ascend_pytorch_profiler{suffix}.db"] = torch_database(truth, rank, memory=on["memory"])
        if distributed:
            made["analysis.db"] = analysis_database(truth, rank, scheduled=on["scheduled"], level=level_of(on))
    return below(name, {**files, **below("ASCEND_PROFILER_OUTPUT", made)})


def _torch_text(truth: Truth, rank: Rank, on: Mapping[str, bool], variant: str) -> Files:
    level, scheduled = level_of(on), on["scheduled"]
    with_device, is_recent = variant == "device-id", variant != "2023"
    files = {
        "kernel_details.csv": kernel_details(
            truth, rank, mindspore=False, level=level, scheduled=scheduled, variant=variant
        ),
        "operator_details.csv": operator_details(rank, mindspore=False, shapes=on["shapes"], stack=on["stack"]),
        "step_trace_time.csv": step_trace_time(rank, mindspore=False, scheduled=scheduled, variant=variant),
    }
    if is_recent:
        files["trace_view.json"] = torch_trace_view(
            truth, rank, shapes=on["shapes"], stack=on["stack"], scheduled=scheduled
        )
    files |= _counters(rank, on)
    if level == 0 and is_recent:
        files |= system_counters.tasks(rank)
    if on["l2_cache"]:
        files |= system_counters.translation(rank)
        files["l2_cache.csv"] = l2_cache(rank, with_device=with_device)
    if on["memory"]:
        files["memory_record.csv"] = memory_record(rank, mindspore=False, variant=variant)
        files["operator_memory.csv"] = operator_memory(rank, mindspore=False, variant=variant)
        files["npu_module_mem.csv"] = npu_module_mem(rank, mindspore=False)
    if level and is_recent:
        files["api_statistic.csv"] = api_statistic(rank, with_device=with_device)
        files["op_statistic.csv"] = op_statistic(rank, with_device=with_device)
    if level and truth.world > 1:
        files["communication.json"] = communication(truth, rank, mindspore=False, scheduled=scheduled, variant=variant)
        files["communication_matrix.json"] = communication_matrix(
            truth, rank, mindspore=False, scheduled=scheduled, variant=variant
        )
    return files


def _counters(rank: Rank, on: Mapping[str, bool]) -> Files:
    files: Files = {}
    if on["sys_io"]:
        files |= system_counters.network(rank)
    if on["sys_interconnection"]:
        files |= system_counters.buses(rank)
    return files


def _torch_info(rank: Rank, on: Mapping[str, bool], variant: str) -> bytes:
    first = rank.steps[0].number
    exports = [name for name in ("text", "db") if on[name]]
    schedule: dict[str, int] = {}
    if on["scheduled"]:
        warmup, skip = min(first, 1), max(first - 1, 0)
        schedule = {"wait": 0, "active": len(rank.steps), "warmup": warmup, "repeat": 1, "skip_first": skip}
    recent = variant != "2023"
    counters = CANN_NAMES[metrics_of(variant)]
    common: dict[str, object] = {
        "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
        "schedule": schedule if recent else {f"_{name}": value for name, value in schedule.items()},
        "record_shapes": on["shapes"],
        "profile_memory": on["memory"],
        "with_stack": on["stack"],
        "with_flops": False,
        "with_modules": False,
    }
    experimental: dict[str, object] = {
        "_profiler_level": f"Level{level_of(on)}",
        "_aic_metrics": f"ACL_AICORE_{counters}",
        "_l2_cache": on["l2_cache"],
    }
    if recent:
        experimental |= {
            "_sys_io": on["sys_io"],
            "_sys_interconnection": on["sys_interconnection"],
            "_msprof_tx": False,
            "_data_simplification": True,
            "record_op_args": False,
            "_export_type": exports[0] if len(exports) == 1 else exports,
            "_op_attr": False,
            "_gc_detect_threshold": None,
        }
    else:
        experimental |= {"_data_simplification": None, "record_op_args": False}
    document: dict[str, object] = {"config": {"common_config": common, "experimental_config": experimental}}
    if recent:
        # The files of 2023 do not have the start.
        count = rank.start_ns // 10 % 10**14
        start = {"syscnt_enable": True, "freq": 100, "start_cnt": count, "start_monotonic": rank.start_ns % 10**15}
        document["start_info"] = start
    document["end_info"] = {"collectionTimeEnd": rank.end_ns, "MonotonicTimeEnd": rank.end_ns % 10**15}
    # A text since torch_npu 2.7.
    document["rank_id"] = str(rank.number) if variant == "device-id" else rank.number
    return json_bytes(document, indent=4)


def _torch_metadata(truth: Truth, rank: Rank) -> bytes:
    document: dict[str, object] = {"ENV_VARIABLES": dict.fromkeys(_ENVIRONMENT, "")}
    if truth.world > 1:
        ranks = list(range(truth.world))
        document["distributed_args"] = {
            "tensor_model_parallel_size": 1,
            "pipeline_model_parallel_size": truth.stages,
            "data_parallel_size": max(truth.world // truth.stages, 1),
            "context_parallel_size": 1,
            "expert_model_parallel_size": 1,
            "sequence_parallel": False,
            "rank": rank.number,
            "world_size": truth.world,
        }
        group = {"group_name": "default_group", "group_rank": rank.number, "global_ranks": ranks}
        document["parallel_group_info"] = {f"127.0.1.1%eno1_{truth.group[:5]}_0_1": group}
    return json_bytes(document, indent=4)


def _torch_logs(rank: Rank, directory: str) -> Files:
    at = rank.end_ns
    name = f"profiler_{utc(at):%Y%m%d%H%M%S}_{rank.pid}.log"
    path = f"/home/user/out/{directory}/logs/{name}"
    lines = [
        (at, "_log.py:87", f"Profiler logger initialized at: {path}"),
        (at, "_profiling_parser.py:120", "Start parsing profiling data"),
        (at + 2 * 10**9, "_profiling_parser.py:131", "All profiling data parsed"),
    ]
    return {f"logs/{name}": log_bytes(lines)}


def _raw(rank: Rank) -> Files:
    random, name = raw_token(rank)
    return {
        f"{name}/host/data/unaging.api_event.data.slice_0": random.randbytes(256),
        f"{name}/device_{rank.number}/data/ffts_profile.data.{rank.number}.slice_0": random.randbytes(256),
    }


def mindspore_cycle(truth: Truth, rank: Rank, on: Mapping[str, bool], variant: str) -> Files:
    """Write the directory of one rank and cycle of MindSpore 2.5 and later on an Ascend device."""
    name = directory_name(truth, rank)
    random = Random(f"framework {rank.start_ns} {rank.number}")
    level = level_of(on)
    exports = [export for export in ("text", "db") if on[export]]
    parameters: dict[str, object] = {
        "profile_memory": on["memory"],
        "record_shapes": on["shapes"],
        "with_stack": on["stack"],
        **{name: on[name] for name in ("data_process", "l2_cache", "sys_io", "sys_interconnection")},
        "hbm_ddr": True,
        "export_type": exports,
        "data_simplification": on["simplified"],
    }
    if level:
        parameters["aic_metrics"] = metrics_of(variant)
    files = {
        f"profiler_info_{rank.number}.json": info_2_5(
            rank,
            activities=("CPU", "NPU"),
            level=f"Level{level}",
            parameters=parameters,
            scheduled=len(rank.steps) if on["scheduled"] else 0,
        ),
        **_raw(rank),
        f"logs/{log_name(rank)}": npu_log(rank, name),
    }
    if not on["simplified"] or not on["analysed"]:
        files["FRAMEWORK/mindspore.op_range"] = random.randbytes(512)
        if on["memory"]:
            files["FRAMEWORK/mindspore.memory_usage"] = random.randbytes(512)
            files[f"FRAMEWORK/cpu_ms_memory_record_{rank.number}.txt"] = memory_file(rank)
        if on["data_process"]:
            files |= below("FRAMEWORK", minddata.collected(rank.pipeline, rank.number, sink=on["sink"]))
    made: Files = {}
    if on["analysed"] and on["text"]:
        made |= _mindspore_text(truth, rank, on, variant)
    if on["analysed"] and on["db"]:
        made[f"ascend_mindspore_profiler_{rank.number}.db"] = mindspore_database(truth, rank, memory=on["memory"])
        if truth.world > 1:
            made["communication_analyzer.db"] = communication_database(
                truth, rank, scheduled=on["scheduled"], level=level
            )
    return below(name, {**files, **below("ASCEND_PROFILER_OUTPUT", made)})


def _mindspore_text(truth: Truth, rank: Rank, on: Mapping[str, bool], variant: str) -> Files:
    level, scheduled = level_of(on), on["scheduled"]
    files = {
        "trace_view.json": mindspore_trace_view(truth, rank, scheduled=scheduled),
        "kernel_details.csv": kernel_details(
            truth, rank, mindspore=True, level=level, scheduled=scheduled, variant=variant
        ),
        "step_trace_time.csv": step_trace_time(rank, mindspore=True, scheduled=scheduled),
        "op_statistic.csv": op_statistic(rank, with_device=True),
        "api_statistic.csv": api_statistic(rank, with_device=True),
        "dataset.csv": _dataset(rank),
    }
    if on["shapes"]:
        files["operator_details.csv"] = operator_details(rank, mindspore=True, shapes=True, stack=False)
    if on["l2_cache"]:
        files["l2_cache.csv"] = l2_cache(rank, with_device=True)
    if on["memory"]:
        files["memory_record.csv"] = memory_record(rank, mindspore=True)
        files["operator_memory.csv"] = operator_memory(rank, mindspore=True)
        files["npu_module_mem.csv"] = npu_module_mem(rank, mindspore=True)
        files["static_op_mem.csv"] = static_op_mem(truth)
    if level and truth.world > 1:
        files["communication.json"] = communication(truth, rank, mindspore=True, scheduled=scheduled)
        files["communication_matrix.json"] = communication_matrix(truth, rank, mindspore=True, scheduled=scheduled)
    if level == 2 and on["aicpu"]:
        files["data_preprocess.csv"] = _data_preprocess(rank)
    files |= system_counters.memory_bandwidth(rank)
    files |= _counters(rank, on)
    if on["data_process"]:
        files |= minddata.analysed(rank.pipeline, rank.number, sink=on["sink"], version="2.10")
    return files


def _dataset(rank: Rank) -> bytes:
    batches = rank.pipeline.batches
    mean = round(sum(batch.pipeline_ms for batch in batches) * 250 / len(batches), 2)
    rows = [
        (f"Pipeline{stage.type.removesuffix('Op')}", "WorkerEntry", len(batches), mean, "")
        for stage in rank.pipeline.stages
    ]
    return csv_bytes([columns("Operation,Stage,Occurrences,Avg. time (us),Custom Info"), *rows])


def _data_preprocess(rank: Rank) -> bytes:
    rows = []
    for number, step in enumerate(rank.steps):
        compute, copy, dispatch = 12_000 + 10 * number, 2_000, 1_500
        task = compute + copy
        times = map(us, (compute, copy, task, dispatch, task + dispatch))
        rows.append([tabbed_microseconds(step.start_ns), "GetNext", *times, 3, number])
    header = (
        "Timestamp(us),Node,Compute_time(us),Memcpy_time(us),Task_time(us),Dispatch_time(us),Total_time(us),"
        "Stream ID,Task ID"
    )
    return cann_csv(header, rows, device=rank.number)
