"""profiler_info and the logs of MindSpore's profiler, and the names of its directories."""

from __future__ import annotations

from collections.abc import Iterable

from perfguard.testing.formats import date_and_time, json_bytes, lines_bytes, stamp, utc
from perfguard.testing.truth import Rank, Truth


def directory_name(truth: Truth, rank: Rank) -> str:
    """Name of a cycle's directory since MindSpore 2.5; it carries no rank, and its time is UTC."""
    return f"{truth.host}_{rank.pid}_{stamp(rank.start_ns)}_ascend_ms"


def profiler_info(
    rank: Rank, *, version: str, world: int, analysed_ns: int, known: dict[str, object], **more: object
) -> bytes:
    """Write profiler_info of MindSpore 2.0 to 2.4.

    `known` is what the profiler knows at its end, `more` replaces the values of graph mode.
    """
    document: dict[str, object] = {"profiling_start_time": date_and_time(rank.start_ns)}
    if known:
        document["profiling_stop_time"] = date_and_time(rank.end_ns)
    document |= {
        "analyse_start_time": date_and_time(rank.end_ns),
        "context_mode": "graph",
        "rank_id": str(rank.number),
        "ms_version": version,
        **known,
        "analyse_end_time": date_and_time(analysed_ns),
        "rank_size": world,
        "is_heterogeneous": False,
    }
    return json_bytes(document | more)


def info_2_5(
    rank: Rank, *, activities: tuple[str, ...], level: str, parameters: dict[str, object], scheduled: int
) -> bytes:
    """Write profiler_info of MindSpore 2.5 and later; `scheduled` is the number of active steps, 0 without a schedule."""
    repeat = 1 if scheduled else 0
    document = {
        "profiler_parameters": {
            "is_set_schedule": scheduled > 0,
            "output_path": "./data",
            "profiler_level": level,
            "activities": list(activities),
            "aic_metrics": "PipeUtilization" if level != "Level0" else "None",
            **dict.fromkeys(("with_stack", "profile_memory", "data_process", "parallel_strategy"), False),
            "start_profile": True,
            **dict.fromkeys(("l2_cache", "hbm_ddr", "pcie", "sys_io", "sys_interconnection"), False),
            "host_sys": [],
            "sync_enable": True,
            "data_simplification": True,
            "record_shapes": False,
            "export_type": ["text"],
            "mstx": False,
            "mstx_domain_include": [],
            "mstx_domain_exclude": [],
            "schedule": {"wait": 0, "active": max(scheduled, 1), "warmup": 0, "repeat": repeat, "skip_first": 0},
            **parameters,
        },
        "ms_profiler_info": {"rank_id": str(rank.number), "device_id": str(rank.number)},
        "cann_profiler_info": {},
        "analysis_cost_time": {},
        "ms_version": "2.10.0",
        "cann_version": "not known" if "NPU" not in activities else "8.2.RC1",
        "jit_level": "",
    }
    return json_bytes(document, indent=4)


def log_name(rank: Rank) -> str:
    """The name of the first log below `logs/`."""
    return f"profiler_{utc(rank.start_ns):%Y%m%d%H%M%S}_{rank.pid}.log"


def log_bytes(lines: Iterable[tuple[int, str, str]]) -> bytes:
    """Write a profiler's log: UNIX time, `file.py:line` and message of each line, all at INFO."""
    return lines_bytes(f"[{utc(at):%Y-%m-%d-%H:%M:%S}] [INFO] [{place}] {text}" for at, place, text in lines)


def cpu_log(rank: Rank, directory: str, *, analysed: bool) -> bytes:
    """Write the log of MindSpore 2.5 and later on a CPU; `directory` is the name of the cycle's directory."""
    path = f"/home/user/out/{directory}"
    lines = [
        (rank.start_ns, "log.py:108", f"Profiler logger initialized at: {path}/logs/{log_name(rank)}"),
        (rank.start_ns, "cpu_profiler.py:51", "CpuProfiler start."),
        (rank.start_ns, "cpu_profiler.py:53", f"CpuProfiler framework_path: {path}/FRAMEWORK"),
        (rank.end_ns, "cpu_profiler.py:64", "CpuProfiler stop."),
        (rank.end_ns, "cpu_profiler.py:76", "CpuProfiler finalize."),
    ]
    if analysed:
        flow = f"[cpu_flow] [pid: {rank.pid + 117}]"
        hook = "Parser [FrameworkParser] post hook [MsDatasetViewer.save]"
        view = f"{path}/ASCEND_PROFILER_OUTPUT/trace_view.json"
        after = rank.end_ns + 400_000_000
        lines += [
            (after, "cpu_profiler.py:71", "CpuProfiler analyse."),
            (after, "task_manager.py:89", f"TaskManager run flow {flow} start"),
            (after, "ms_framework_parser.py:69", "FrameworkParser parse op range done."),
            (after, "ms_framework_parser.py:71", "FrameworkParser parse cpu op done."),
            (after, "base_parser.py:116", f"{hook} start"),
            (after, "ms_dataset_viewer.py:50", "MsDatasetViewer start"),
            (after, "ms_dataset_viewer.py:57", "MsDatasetViewer end"),
            (after, "base_parser.py:129", f"{hook} completed"),
            (after, "ascend_timeline_viewer.py:42", "AscendTimelineViewer start"),
            (after, "ascend_timeline_viewer.py:56", "Trace view saved start"),
            (after, "ascend_timeline_viewer.py:58", f"Trace view saved done, save path: {view}"),
            (after, "ascend_timeline_viewer.py:52", "AscendTimelineViewer end"),
            (after, "task_manager.py:93", f"TaskManager flow {flow} join"),
        ]
    return log_bytes(lines)


def npu_log(rank: Rank, directory: str) -> bytes:
    """Write the log of MindSpore 2.5 and later on an Ascend device."""
    start, end = rank.start_ns, rank.end_ns
    after = end + 3 * 10**9
    path = f"/home/user/out/{directory}/logs/{log_name(rank)}"
    return log_bytes(
        [
            (start, "log.py:108", f"Profiler logger initialized at: {path}"),
            (start, "npu_profiler.py:106", "NpuProfiler start."),
            (end, "npu_profiler.py:126", "NpuProfiler stop."),
            (end, "npu_profiler.py:162", "NpuProfiler analyse."),
            (after, "ascend_timeline_viewer.py:42", "AscendTimelineViewer start"),
            (after, "ascend_timeline_viewer.py:52", "AscendTimelineViewer end"),
            (after, "npu_profiler.py:170", "NpuProfiler finalize."),
        ]
    )
