"""The catalogue: every file the profilers document has a slot, a reader, a schema and a line."""

from __future__ import annotations

import pytest

from perfguard.artifacts.conditions import parts_of
from perfguard.artifacts.layout import Slot, layouts
from perfguard.artifacts.readers import OPAQUE, READERS
from perfguard.artifacts.readers.csv_stream import FORMATS
from perfguard.reports import catalogue

FLAT = ("ms-2.0", "ms-2.1", "ms-2.3")
OUTPUT = ("ms-2.5+", "pt-npu")

#: Files whose inside no document describes: raw data, compiler graphs, logs.
UNDESCRIBED = (
    "PROF_",
    "container",
    "hccl_info",
    "FRAMEWORK/mindspore.",
    "FRAMEWORK/op_range",
    ".pb",
    "FRAMEWORK/torch",
)

#: The file table of MindSpore's offline analysis (r2.4), every line of it: name -> layouts.
DOCUMENTED_FLAT = [
    *("step_trace_point_info_0.json", "step_trace_raw_0_detail_time.csv", "dynamic_shape_info_0.json"),
    *("pipeline_profiling_0.json", "minddata_pipeline_raw_0.csv", "minddata_pipeline_summary_0.csv"),
    *("minddata_pipeline_summary_0.json", "framework_raw_0.csv", "device_queue_profiling_0.txt"),
    *("minddata_aicpu_0.txt", "dataset_iterator_profiling_0.txt", "aicore_intermediate_0_detail.csv"),
    *("aicore_intermediate_0_type.csv", "aicpu_intermediate_0.csv", "flops_0.txt", "flops_summary_0.json"),
    *("ascend_timeline_display_0.json", "ascend_timeline_summary_0.json", "output_timeline_data_0.txt"),
    *("minddata_cpu_utilization_0.json", "cpu_op_detail_info_0.csv", "cpu_op_type_info_0.csv"),
    *("cpu_op_execute_timestamp_0.txt", "cpu_framework_0.txt", "hccl_raw_0.csv", "parallel_strategy_0.json"),
    *("ascend_cluster_analyse_model-parallel_1_8_0.csv", "profiler_info_0.json"),
]
DOCUMENTED_2_3 = [
    *("cpu_ms_memory_record_0.txt", "operator_memory_0.csv", "dataset_0.csv", "FRAMEWORK/op_range_0"),
    *("container/0/data/x", "PROF_000001_20240101_AB/host/x", "PROF_000001_20240101_AB/device_0/x"),
    *("PROF_000001_20240101_AB/analyse/x", "PROF_000001_20240101_AB/mindstudio_profiler_log/x"),
    *("PROF_000001_20240101_AB/mindstudio_profiler_output/x", "rank_0/memory_block.csv", "rank_0/task.csv"),
    "rank-0_20240101_ascend_ms/profiler_info_0.json",
    "rank-0_20240101_ascend_ms/profiler_metadata.json",
    "rank-0_20240101_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json",
]
#: What only the sources of 2.0 to 2.4 name.
SOURCES_FLAT = [
    *("output_op_compute_time_0.txt", "output_op_compute_time_detail_0.txt", "output_format_data_hwts_0.txt"),
    *("output_data_preprocess_aicpu_0.txt", "flops_scope_0.json", "memory_usage_summary_0.json"),
    *("memory_usage_details_0.json", "pynative_op_intermediate_0_type.csv", "pynative_op_intermediate_0_detail.csv"),
    *("gpu_op_detail_info_0.csv", "gpu_op_type_info_0.csv", "gpu_activity_data_0.csv"),
    *("gpu_op_execute_timestamp_0.txt", "activity_execute_timestamp_0.txt", "gpu_framework_0.txt"),
    *("gpu_timeline_display_0.json", "gpu_timeline_summary_0.json", "minddata_getnext_profiling_0.txt"),
    *("step_trace_profiling_0.txt", "cpu_timeline_display_0.json", "cpu_timeline_summary_0.json"),
    *("min_cycle_counter_0.txt", "hccl_info_0/x", "ascend_cluster_analyse_data-parallel_1_1_0.csv"),
]
DOCUMENTED_OUTPUT = [
    *("ASCEND_PROFILER_OUTPUT/trace_view.json", "ASCEND_PROFILER_OUTPUT/operator_details.csv"),
    *("ASCEND_PROFILER_OUTPUT/api_statistic.csv", "ASCEND_PROFILER_OUTPUT/op_statistic.csv"),
    *("ASCEND_PROFILER_OUTPUT/kernel_details.csv", "ASCEND_PROFILER_OUTPUT/step_trace_time.csv"),
    *("ASCEND_PROFILER_OUTPUT/communication.json", "ASCEND_PROFILER_OUTPUT/communication_matrix.json"),
    *("ASCEND_PROFILER_OUTPUT/data_preprocess.csv", "ASCEND_PROFILER_OUTPUT/l2_cache.csv"),
    *("ASCEND_PROFILER_OUTPUT/memory_record.csv", "ASCEND_PROFILER_OUTPUT/npu_module_mem.csv"),
    *("ASCEND_PROFILER_OUTPUT/operator_memory.csv", "ASCEND_PROFILER_OUTPUT/static_op_mem.csv"),
    *("ASCEND_PROFILER_OUTPUT/nic.csv", "ASCEND_PROFILER_OUTPUT/roce.csv", "ASCEND_PROFILER_OUTPUT/pcie.csv"),
    *("ASCEND_PROFILER_OUTPUT/hccs.csv", "ASCEND_PROFILER_OUTPUT/hbm.csv", "profiler_info_0.json"),
    *("profiler_metadata.json", "logs/profiler_20260101000000_1.log", "PROF_000001_20260101_AB/host/x"),
]
DOCUMENTED_MS = [
    *("FRAMEWORK/mindspore.op_range", "FRAMEWORK/mindspore.memory_usage", "FRAMEWORK/mindspore.record_shapes"),
    *("FRAMEWORK/cpu_op_detail_info_0.csv", "FRAMEWORK/cpu_op_type_info_0.csv"),
    *("FRAMEWORK/cpu_op_execute_timestamp_0.txt", "FRAMEWORK/cpu_framework_0.txt"),
    *("FRAMEWORK/cpu_ms_memory_record_0.txt", "FRAMEWORK/pipeline_profiling_0.json"),
    *("FRAMEWORK/minddata_cpu_utilization_0.json", "FRAMEWORK/device_queue_profiling_0.txt"),
    *("FRAMEWORK/dataset_iterator_profiling_0.txt", "ASCEND_PROFILER_OUTPUT/dataset.csv"),
    *("ASCEND_PROFILER_OUTPUT/minddata_pipeline_raw_0.csv", "ASCEND_PROFILER_OUTPUT/communication_analyzer.db"),
    *(
        "ASCEND_PROFILER_OUTPUT/minddata_pipeline_summary_0.csv",
        "ASCEND_PROFILER_OUTPUT/ascend_mindspore_profiler_0.db",
    ),
    "ASCEND_PROFILER_OUTPUT/minddata_pipeline_summary_0.json",
]
DOCUMENTED_PT = [
    *("ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db", "ASCEND_PROFILER_OUTPUT/analysis.db"),
    *("ASCEND_PROFILER_OUTPUT/task_time.csv", "ASCEND_PROFILER_OUTPUT/soc_pmu.csv", "FRAMEWORK/torch.op_range"),
    "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler.db",
    "profiler_info.json",
]
OTHERS = {
    "ms-2.1": ["host_info/host_info_0.csv", "host_info/timeline_0.json"],
    "ms-2.5+cpu": [
        *("FRAMEWORK/cpu_op_detail_info_0.csv", "FRAMEWORK/cpu_op_type_info_0.csv", "FRAMEWORK/cpu_framework_0.txt"),
        *("FRAMEWORK/cpu_op_execute_timestamp_0.txt", "FRAMEWORK/cpu_ms_memory_record_0.txt"),
        *("ASCEND_PROFILER_OUTPUT/trace_view.json", "profiler_info_0.json", "profiler_metadata.json"),
        "logs/profiler_20260101000000_1.log",
    ],
    "pt-torch": ["host_1.1795254642085552236.pt.trace.json", "host_1.1795254642085.pt.trace.json.gz"],
    "summary": [
        *("events.out.events.summary.1596869898.0.host_MS", "events.out.events.summary.1596869898.0.host_lineage"),
        *("events.out.events.summary.1596869898.host_MS", "ckpt_dir/train_metadata.json"),
    ],
    "ir": [
        *("00_bootstrap_0000.ir", "opt_pass_3_x_0007.ir", "hwopt_a_0001.ir", "graph_build_0_0002.ir", "a_0003.dot"),
        *("ms_output_0001.pb", "trace_code_graph_0001", "analyze_fail.ir"),
    ],
    "memtrack": ["memory_block.csv", "task.csv", "tracker_graph.ir"],
    "minddata": [
        *("pipeline_profiling_0.json", "minddata_pipeline_raw_0.csv", "minddata_pipeline_summary_0.csv"),
        *("minddata_pipeline_summary_0.json", "minddata_cpu_utilization_0.json", "device_queue_profiling_0.txt"),
        "dataset_iterator_profiling_0.txt",
    ],
    "memory-snapshot": ["snapshot_2026-01-01-00-00_0.pickle", "rank0_memory_snapshot.pickle", "dump_snapshot.pkl"],
    "dynamic-config": ["profiler_config.json"],
    "cluster": [
        *("cluster_step_trace_time.csv", "cluster_communication.json", "cluster_communication_matrix.json"),
        "communication_group.json",
    ],
}

DOCUMENTED = [
    *((layout, file) for layout in FLAT for file in (*DOCUMENTED_FLAT, *SOURCES_FLAT)),
    *(("ms-2.3", file) for file in DOCUMENTED_2_3),
    *((layout, file) for layout in OUTPUT for file in DOCUMENTED_OUTPUT),
    *(("ms-2.5+", file) for file in DOCUMENTED_MS),
    *(("pt-npu", file) for file in DOCUMENTED_PT),
    *((layout, file) for layout, files in OTHERS.items() for file in files),
]
BY_ID = {layout.id: layout for layout in layouts()}


def slot_of(layout: str, file: str) -> Slot | None:
    return next((slot for slot in BY_ID[layout].slots if slot.match(file) is not False), None)


@pytest.mark.parametrize("layout", sorted({layout for layout, _ in DOCUMENTED}))
def test_a_documented_file_has_a_slot_a_reader_a_schema_and_a_line(layout):
    for file in (file for of, file in DOCUMENTED if of == layout):
        slot = BY_ID[layout].slots[0] if BY_ID[layout].cycle == "file" else slot_of(layout, file)
        assert slot is not None, file
        if any(part in file for part in UNDESCRIBED):
            assert slot.format == OPAQUE, file
        else:
            assert slot.format in {*READERS, *FORMATS}, file
            assert slot.schemas or slot.format in ("log", "ir", "dot") or "trace_code_graph" in file, file
        assert catalogue.meaning(slot), file
        assert catalogue.condition(slot), file


def test_the_dialects_of_the_documents_are_all_there():
    wanted = {"ms-2.0", "ms-2.1", "ms-2.3", "ms-2.5+", "ms-2.5+cpu", "pt-npu", "pt-torch", "mf-profile", "ms-dyn"}
    assert wanted | {"summary", "ir", "memtrack", "memory-snapshot", "cluster"} <= set(BY_ID)


def test_a_layout_names_the_framework_that_writes_it():
    """Recordings of two are not compared, also of another distribution (`perfguard.judge.baseline`)."""
    of_several = {"cluster", "dynamic-config", "ranks"}
    assert {name for name, one in BY_ID.items() if not one.backend} == of_several
    assert {one.backend for one in BY_ID.values()} == {"", "mindspore", "torch"}
    silent = {name for name, one in BY_ID.items() if one.backend and not {"npu", "gpu"} <= one.devices.keys()}
    assert silent == set()


@pytest.mark.parametrize(
    ("layout", "slot", "required"),
    [
        ("ms-2.0", "hccl_raw", {"communication", "graph", "distributed"}),
        ("ms-2.0", "step_trace_raw", {"graph"}),
        ("ms-2.0", "dynamic_shape_info", {"dynamic_shape"}),
        ("ms-2.0", "parallel_strategy", {"parallel_strategy"}),
        ("pt-npu", "op_statistic", {"level1"}),
        ("pt-npu", "communication", {"level1", "distributed"}),
        ("ms-2.5+", "communication", {"level1", "distributed"}),
        ("ms-2.5+", "memory_record", {"memory"}),
        ("ms-2.5+cpu", "cpu_ms_memory_record", {"memory"}),
    ],
)
def test_the_conditions_of_the_documents_hold(layout, slot, required):
    found = next(one for one in BY_ID[layout].slots if one.name == slot)
    assert required <= {name for name, wanted in parts_of(found.required) if wanted}
