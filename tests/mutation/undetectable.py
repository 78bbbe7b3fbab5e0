"""What nobody could detect: a rule for each kind of corruption that leaves a directory as right as it was, and why."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

_IDENTIFIER = "the column measures nothing, and no other file repeats it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Globs of operator, layout, slot and column (units: glob of its unit, "-" for none), and the reason."""

    operator: str
    layout: str = "*"
    slot: str = "*"
    column: str = "*"
    unit: str = "*"
    #: Columns it does not speak of after all.
    but: str = ""
    because: str

    def covers(self, operator: str, layout: str, slot: str, column: str, unit: str) -> bool:
        """Whether a mutant is one of these."""
        pairs = ((operator, self.operator), (layout, self.layout), (slot, self.slot), (column, self.column))
        if self.but and _matches(column, self.but):
            return False
        return all(_matches(text, globs) for text, globs in (*pairs, (unit, self.unit)))


def _matches(text: str, globs: str) -> bool:
    """Whether a text matches one of several globs, separated by `|`; `[` and `]` mean themselves."""
    return any(fnmatch.fnmatchcase(text, glob.replace("[", "[[]")) for glob in globs.split("|"))


_VALUE = "change a value by a tenth|zero a value|negate a value"
_TEXT = "NaN|Infinity"
_UNIT = "a thousand times too large|a thousand times too small|a hundred times too large|a hundred times too small"
_NUMBER = f"{_VALUE}|{_UNIT}|swap the values of two columns"
_ROWS = "drop a row|duplicate a row|swap two rows"
_TRACES = "trace|trace_view|timeline|cpu_timeline_display|ascend_timeline_display|gpu_timeline_display"
_PROFILERS = "ascend_pytorch_profiler*|ascend_mindspore_profiler*"
_DATABASES = f"{_PROFILERS}|analysis|communication_analyzer|cluster_analysis"
#: Samples of what a machine does at a moment: any of them may be missing, and no other file has them.
_SAMPLED = "npu_module_mem|hbm|nic|roce|pcie|hccs|soc_pmu|host_info|minddata_cpu_utilization|minddata_aicpu"
#: Identifiers that another file, or another table, repeats.
_JOINED = (
    "*Step I*|*step*|*Ev Idx|*rank*|*world_size|*globalTaskId|*Task I*|*task_id|*Stream I*|*serial_num*|*.pid|*.ts|s:*|f:*"
    "|*children*|*parent_id|*pg_*|*full_op_name|*op_id"
)

UNDETECTABLE: tuple[Rule, ...] = (
    # -- names and numbers that stand for something outside of the files
    Rule(
        operator=_VALUE, unit="-", but=_JOINED, because="an id, an address, a shape or an option: any other is as good"
    ),
    Rule(operator=_TEXT, unit="-", because="a text that happens to look like a number may be any text"),
    Rule(operator="wrong type", column="*Shapes|*shape", because="a shape is written as text, and any text is one"),
    # -- whole files
    Rule(operator="drop a file", column="optional", because="the layout may be without it"),
    Rule(
        operator="drop a file",
        column="*, and nobody says it",
        because="whether what it belongs to was on is known from the file alone",
    ),
    Rule(
        operator="drop a file",
        layout="pt-torch|summary|dynamic-config",
        because="each file is a capture of its own, and nothing says how many there were",
    ),
    Rule(
        operator="shift a rank suffix",
        layout="ms-1.x",
        because="nothing in 1.x says how many ranks there are, and a rank may have any of the files",
    ),
    # -- texts
    Rule(operator=_ROWS, slot="log", because="a log may say anything, in any order"),
    Rule(operator="truncate a file", slot="log", because="a log ends where the process stopped writing"),
    Rule(
        operator=_ROWS,
        slot="*ir|*dot|actor_set|trace_code_graph|tracker_graph",
        because="the text of a graph is read for its frame; whether a line of it is right only the compiler knows",
    ),
    Rule(
        operator="truncate a file",
        slot="actor_set|tracker_graph|trace_code_graph",
        column="at a line",
        because="nothing in it counts its lines",
    ),
    # -- traces
    Rule(operator="swap two rows", slot=_TRACES, because="the events of a trace have no order"),
    Rule(
        operator="drop an event|duplicate an event",
        column="M:*",
        but="M:process_name",
        because="it labels a lane; a lane without a label is drawn by its number, MindSpore 2.0 labels most of them twice",
    ),
    Rule(operator="duplicate an event", column="M:process_name", because="the second label says the same"),
    Rule(operator="*", column="M:*.ts|M:*.cat|M:*.tid", because="what labels a lane has no time and no place"),
    Rule(
        operator="drop a key|wrong type|drop a row|duplicate a row",
        slot=_TRACES,
        column="X:*.args*|i:*.args*|f:*.args*|s:*.args*|C:*.args*",
        but="*Bytes|*Device Type|*Total Allocated|*Ev Idx|X:cpu_op.args.External id|C:*.args",
        because="what an event says beside its time differs from version to version, and may be left out",
    ),
    Rule(
        operator="drop a key",
        slot=_TRACES,
        column="*.cat|*.bp|C:*.tid|*.s|X:Overlap Analysis.tid|X:*.scope_level|i:*.tid|f:HostToDevice.tid",
        because="it only says how an event is drawn",
    ),
    Rule(
        operator="drop an event|duplicate an event",
        slot=_TRACES,
        column="C:*|i:*|X:Trace",
        but="i:[memory]",
        because="a counter is a sample, a mark is for people: no other file has them",
    ),
    Rule(
        operator=f"drop an event|duplicate an event|{_NUMBER}",
        slot=_TRACES,
        column="s:HostToDevice*|f:HostToDevice*",
        because="CANN itself writes its flows unpaired (210 begin, 215 end in a right trace)",
    ),
    Rule(
        operator=_NUMBER,
        slot=_TRACES,
        column="X:user_annotation*|X:python_function*|X:enqueue*|X:dequeue*|X:MindSpore*|X:Trace*|X:Host*|X:.dur",
        but="*.ts",
        because="how long it took no other file says",
    ),
    Rule(
        operator=_VALUE,
        slot="trace|trace_view",
        column="X:cpu_op.dur|X:ProfilerStep.dur|X:HCCL.dur|X:Ascend Hardware.dur|X:CANN.dur",
        because="a task that is no kernel, or an operator that calls none, may last any time within what called it",
    ),
    Rule(
        operator="a thousand times too small",
        slot="trace",
        column="X:cpu_op.dur",
        because="without memory events nothing says how long an operator must last",
    ),
    Rule(
        operator=f"{_NUMBER}|drop a key|stale file of another run",
        slot="trace",
        column="$.*|",
        but="$.distributedInfo*|$.traceEvents*",
        because="the header of a trace names the run, its name may be given by hand, and options say nothing of events",
    ),
    Rule(operator="drop a key", slot="trace", column="$.*", because="not every version of torch writes it"),
    Rule(
        operator="change a value by a tenth",
        slot="trace",
        column="$.distributedInfo.pg_count",
        because="it counts all process groups that were ever made, and the file lists those of this rank",
    ),
    # -- rows whose order or number nothing fixes
    Rule(
        operator="swap two rows",
        slot="cpu_op_detail_info|cpu_op_type_info|cpu_op_execute_timestamp|cpu_framework|gpu_op_*|gpu_framework"
        "|aicore_intermediate_*|framework_raw|op_statistic|api_statistic|operator_memory|dataset|memory_block"
        "|minddata_pipeline_*|activity_execute_timestamp|gpu_activity_data|static_op_mem|l2_cache|operator_details"
        "|output_op_compute_time*|output_data_preprocess_aicpu|pynative_op_*|communication_group|cluster_*|flops"
        "|summary_lineage|output_timeline_data|task_time|output_format_data_hwts|data_preprocess|task|start_time",
        because="the format gives its rows no order",
    ),
    Rule(operator=_ROWS, slot=_SAMPLED, because="one sample more or less, or another of the same moment"),
    Rule(
        operator="truncate a file",
        slot="cpu_ms_memory_record",
        column="at a line",
        because="memory is recorded at its events, and no other file counts them",
    ),
    Rule(
        operator=_ROWS,
        slot="cpu_ms_memory_record|memory_record",
        because="memory is recorded at its events, and no other file counts them",
    ),
    Rule(
        operator=_NUMBER,
        slot=_SAMPLED,
        but="*Timestamp(us)*|time_stamp*|op_info.[].op_id",
        because="a sample of its own within its bounds: no other file has it",
    ),
    Rule(
        operator="truncate a file",
        slot=_SAMPLED,
        column="at a line",
        because="one sample more or less, or another of the same moment",
    ),
    Rule(
        operator=f"stale file of another run|{_NUMBER}",
        slot="nic|roce|pcie|hccs|hbm|soc_pmu|host_info|minddata_cpu_utilization|minddata_aicpu",
        column="*Timestamp*|time_stamp*|*ime_stamp*|at a line|",
        because="nobody documents the clock of these samples, so it cannot be held against the run's",
    ),
    Rule(
        operator="drop a column|rename a column",
        slot="nic|roce|pcie|hccs|hbm|soc_pmu",
        column="Device_id",
        because="not every version writes it",
    ),
    # -- tables
    Rule(
        operator="reorder columns",
        slot="kernel_details",
        column="Context ID|ai?_*|cube_*",
        because="the order of counters is that of the metrics asked for",
    ),
    Rule(
        operator="drop a column|rename a column",
        slot="kernel_details",
        column="*_rate*|*_cycles*|*_fops*|*_cflt_*|*_bw*|aicore_*|aiv_time*|cube_*|Context ID|OP State|Step ID|Step Id",
        because="the tail of the table depends on the metrics asked for, and on the version",
    ),
    Rule(
        operator=_NUMBER,
        slot="kernel_details",
        column="*_cycles*|*_miss_rate*|cube_*|Block *|*_fops*|ai?_* & *",
        because="a counter of the device that nothing else repeats",
    ),
    Rule(
        operator=_VALUE,
        slot="kernel_details",
        column="Wait Time(us)",
        because="a kernel that belongs to no step is left out, and takes the gap before it along",
    ),
    Rule(
        operator=_NUMBER,
        slot="operator_details",
        column="Device *|Host Self*",
        because="self below total is all that is known of it",
    ),
    Rule(
        operator=_NUMBER,
        slot="operator_memory",
        column="Active *|Stream Ptr*",
        because="what else holds a block, and on which stream, no other file says",
    ),
    Rule(
        operator=_NUMBER,
        layout="ms-2.3|ms-2.5+",
        slot="operator_memory",
        column="*Active*|Size(KB)*|Allocation Total *|Release Total *|*& Allocation Total *",
        because="no real sample says that MindSpore's two files have the same moments",
    ),
    Rule(
        operator=f"{_ROWS}|truncate a file",
        slot="operator_memory|memory_block|task|dataset",
        column="|at a line",
        because="which allocations and tasks there were no other file says",
    ),
    Rule(
        operator=_NUMBER,
        slot="cpu_ms_memory_record|memory_record",
        column="*Total *",
        because="one pool at one moment, within its bounds",
    ),
    Rule(
        operator=_NUMBER,
        slot="cpu_ms_memory_record",
        column="Timestamp*",
        because="the record goes on through all cycles of a process",
    ),
    Rule(
        operator=_NUMBER,
        slot="step_trace_time|cluster_step_trace_time",
        column="Preparing*|Free*|Stage*|Computing*",
        because="of several steps, and where Stage is MindSpore's, the parts need not make up the whole",
    ),
    Rule(
        operator="truncate a file|drop a row|stale file of another run",
        slot="cluster_*",
        column="|at a line",
        because="msprof-analyze sums what it is given: nothing in its output says how many ranks or steps there were",
    ),
    Rule(
        operator=f"drop a key|{_NUMBER}",
        slot="cluster_communication*|communication|communication_matrix",
        column="*|*Total Op Info*",
        but="*Time Info*|*Bandwidth(GB/s)*|*Transit*",
        because="which collectives, links and packages there were is said once",
    ),
    Rule(
        operator=_NUMBER,
        slot="cluster_communication*",
        column="*Total Op Info*|*Synchronization Time*",
        because="totals over ranks that were cut are not judged",
    ),
    Rule(
        operator=_NUMBER,
        slot="l2_cache|static_op_mem|flops*|memory_block|memory_usage*|task",
        unit="*",
        because="a number of its own within its bounds: no other file has it",
    ),
    Rule(operator=_NUMBER, slot="dataset", column="Avg. time (us)", because="no other file has the time of a worker"),
    # -- options and descriptions
    Rule(
        operator=f"{_ROWS}|drop a key|{_NUMBER}|stale file of another run",
        slot="profiler_info*|profiler_metadata|profiler_config|train_metadata|ascend_ms_profiler_info",
        but="*rank_id|*.rank|*group_rank*|*global_ranks*|*collectionTimeEnd",
        because="options as somebody set them: versions have others, and nothing says what was meant",
    ),
    Rule(
        operator="*",
        slot="parallel_strategy",
        column="graph*|config.stage*|config.parallelType*",
        because="it describes a graph that no other file holds",
    ),
    Rule(
        operator=f"{_ROWS}|drop a key|stale file of another run",
        slot="memory_usage*|step_trace_point_info*|flops_scope",
        because="it describes a graph that no other file holds",
    ),
    # -- databases
    Rule(
        operator="drop a column|rename a column",
        slot=_DATABASES,
        column="* (empty)",
        because="a table without rows holds nothing that could be wrong",
    ),
    Rule(
        operator="drop a row|duplicate a row",
        slot=_DATABASES,
        column="ENUM_*|META_DATA|HOST_INFO|NPU_INFO|SESSION_TIME_INFO|RANK_DEVICE_MAP|NPU_*MEM*|HBM|LLC|ACC_PMU|AICORE_FREQ"
        "|SOC_BANDWIDTH_LEVEL|MEMORY_RECORD|OP_MEMORY|PYTORCH_*|CANN_API|TASK*|COMPUTE_*|COMMUNICATION_*|CommAnalyzer*"
        "|STEP_TIME|CONNECTION_IDS",
        because="a database has no second table that counts its rows",
    ),
    Rule(operator="drop a table", slot=_DATABASES, because="which tables there are depends on what happened"),
    Rule(
        operator="drop a column|rename a column",
        slot=_DATABASES,
        column="*.attrInfo|*.relay|*.retry|*.opType|PYTORCH_API.type|*StepTraceTime.deviceId|*StepTraceTime.preparing|*.op_name",
        because="not every version writes it",
    ),
    Rule(
        operator=_NUMBER,
        slot=_DATABASES,
        column="*.total*|*.size|*.hbm|*.ddr|*.freq|*.blockDim|*.mixBlockDim|OP_MEMORY.*|*.stackDepth|*.bandwidth|*Level"
        "|*.hitRate|*.throughput|*.start_timestamp|*.free|*.stage|*.count|*.value",
        because="a sample or a size that no other table repeats",
    ),
    Rule(operator=_VALUE, slot=_DATABASES, column="*Ns|*.timestamp", because="any moment within the session"),
    Rule(
        operator="flip a bit of a sqlite",
        column="page|header",
        because="a page of a database has no checksum, and most of its header is read by nobody",
    ),
    # -- summaries
    Rule(
        operator=_ROWS,
        slot="summary_events|summary_lineage",
        because="which steps are collected an option says; a run may end at any of them",
    ),
    Rule(
        operator="stale file of another run",
        slot="summary_events|summary_lineage",
        because="a summary names no run, and is packed whenever its process has time",
    ),
    # -- flat files
    Rule(
        operator="stale file of another run",
        slot="cpu_framework|gpu_framework|framework_raw",
        because="the same model: there is no time in it",
    ),
    Rule(
        operator="truncate a file",
        slot="gpu_framework|start_time",
        column="at a line",
        because="nothing counts its lines",
    ),
    Rule(
        operator=_NUMBER,
        slot="cpu_timeline_display|ascend_timeline_display|gpu_timeline_display|timeline",
        column="X:*|C:*|s:*|f:*",
        because="a block of a lane that is drawn from others, or has no counterpart",
    ),
    Rule(
        operator="drop an event|duplicate an event",
        slot="cpu_timeline_display|ascend_timeline_display|gpu_timeline_display",
        column="X:*|s:*|f:*",
        because="a block of a lane that is drawn from others, or has no counterpart",
    ),
    Rule(operator=_NUMBER, slot="*timeline_summary", because="what it counts the writer decided by device and version"),
    Rule(
        operator=f"{_NUMBER}|stale file of another run|truncate a file",
        slot="aicpu_intermediate|data_preprocess",
        column="*|",
        because="operators on AI CPU are in no other file of the text export",
    ),
    # -- what only a warning is said of, because no document says that it must hold
    Rule(
        operator=_NUMBER,
        slot="kernel_details",
        column="ai?_*|aicore_*",
        because="a counter and its ratio are held against each other as a warning only: no document relates them",
    ),
    # -- ends of a series, and what has no counterpart in its version
    Rule(
        operator="drop a step|truncate a file",
        slot="step_trace_raw|hccl_raw|ascend_cluster_analyse",
        because="a shorter window is as right as a longer one, and the files do not say how long it was to be",
    ),
    Rule(
        operator=f"{_NUMBER}|{_ROWS}|stale file of another run",
        layout="ms-2.1|ms-2.3",
        slot="output_timeline_data",
        because="from 2.1 on it is a copy of msprof's own table, which is not among the files",
    ),
    Rule(
        operator=_ROWS,
        layout="ms-2.1|ms-2.3",
        slot="aicpu_intermediate",
        because="from 2.1 on it is a copy of msprof's own table, which is not among the files",
    ),
    Rule(operator=_ROWS, slot="l2_cache", because="not every kernel has a row, and no other file counts them"),
    Rule(
        operator="drop an event|duplicate an event",
        slot="trace_view",
        column="X:Scope Layer*|X:CANN*|X:MindSpore*|X:enqueue*|X:dequeue*|X:python_function*",
        because="blocks drawn from others, and calls of the host: no other file lists them one by one",
    ),
    Rule(operator=_VALUE, column="M:*.pid", because="a label or the place of a lane that is missing is not drawn"),
    Rule(operator="drop a key", slot=_TRACES, column="X:*.tid", because="a lane without a thread is one line"),
    Rule(operator=_VALUE, slot=_TRACES, column="*.args.*Id", because="an id of the device that no other file repeats"),
    Rule(
        operator="drop a key|stale file of another run",
        slot="*timeline_summary",
        because="the oldest versions write fewer keys, and none of them is in another file",
    ),
    Rule(
        operator=f"{_ROWS}|truncate a file|stale file of another run",
        slot="output_format_data_hwts",
        column="|at a line",
        because="the hardware's log begins and ends wherever its buffer does",
    ),
    Rule(
        operator=_ROWS,
        slot="framework_raw|flops|static_op_mem",
        because="an operator may be in several graphs, and one without the metric has no row",
    ),
    Rule(
        operator="drop a row|swap the values of two columns",
        slot="step_trace_raw",
        column="|*fp_and_bp*|*bp_point*|*start_point*",
        because="a shorter window is as right, and the averages of real files are not the means of their rows",
    ),
    Rule(
        operator="stale file of another run",
        slot="*ir|*dot|dataset|npu_module_mem|flops*|aicore_intermediate_type|ascend_timeline_display|output_op_compute_*"
        "|step_trace_raw",
        because="the same model, and no clock that another file of its version shares",
    ),
    Rule(
        operator=_VALUE,
        slot="framework_raw",
        column="block_dim",
        because="into how many blocks a kernel is split no other file says",
    ),
    Rule(
        operator=_VALUE,
        layout="ms-2.1|ms-2.3",
        slot="aicore_intermediate_type",
        column="execution_frequency",
        because="from 2.1 on it is a copy of msprof's own table, which is not among the files",
    ),
    Rule(
        operator="drop a column",
        slot="static_op_mem|step_trace_time",
        column="Device_id|Preparing",
        because="not every version writes it",
    ),
    Rule(
        operator="drop a key",
        slot="flops_summary|ascend_timeline_display",
        column="cube_*|vec_*|s:*.tid",
        because="not every version writes it",
    ),
    Rule(
        operator="drop an event|duplicate an event",
        layout="ms-2.3|ms-2.5+",
        slot="trace_view",
        column="s:*|f:*",
        because="no real sample says that MindSpore's flows come in pairs",
    ),
    Rule(
        operator=f"{_VALUE}|{_UNIT}",
        layout="ms-2.3|ms-2.5+",
        slot="trace_view",
        column="*.pid|X:ProfilerStep.dur",
        because="no real sample says which processes MindSpore names, or how long it marks a step",
    ),
    Rule(
        operator=_VALUE,
        slot="kernel_details",
        column="Mix Block *|Step I?",
        because="nothing repeats it, and which of two neighbouring steps a kernel belongs to only the writer knows",
    ),
    Rule(operator=_NUMBER, unit="address", because="an address: any other is as good"),
    Rule(
        operator=_VALUE,
        layout="ms-2.3|ms-2.5+",
        slot="trace_view",
        column="s:*.id|f:*.id",
        because="no real sample says that MindSpore's flows are paired by id",
    ),
    # -- files of versions nobody could run, and for which no source says more
    Rule(
        operator=f"{_ROWS}|{_NUMBER}|truncate a file",
        slot="pynative_op_intermediate_*",
        because="how 2.0 sums up operators in PyNative mode no source that was read says",
    ),
    Rule(
        operator=f"{_ROWS}|{_NUMBER}",
        slot="ascend_cluster_analyse",
        column="|computation_time*|communication_alone_time*",
        because="two times of two columns, which neither file nor source relates to another",
    ),
    Rule(
        operator="reorder columns",
        slot="step_trace_raw",
        column="stream_*|hccl_*|tail",
        because="the columns of collective operators come in any order",
    ),
    Rule(
        operator="stale file of another run",
        slot="hccl_raw|operator_details|l2_cache|timeline|start_time",
        because="the same model, and no time that another file has",
    ),
    Rule(
        operator=f"{_ROWS}|truncate a file",
        slot="step_trace_profiling|flops_utilization_step",
        column="|at a line",
        because="nothing counts its lines",
    ),
    Rule(
        operator="drop a column",
        slot="memory_block|task|npu_module_mem",
        column="is_persistent|is_small|last_user_task|actual_used_memory|python_stack|Device_id",
        because="not every version writes it",
    ),
    Rule(
        operator=f"{_NUMBER}|drop an event|duplicate an event",
        layout="ms-2.3|ms-2.5+",
        slot="trace_view",
        column="X:CANN*|X:HCCL*|X:Scope Layer*",
        because="calls of the host and blocks drawn from others: no other file of MindSpore lists them one by one",
    ),
    Rule(
        operator="truncate a file",
        slot="l2_cache|output_timeline_data",
        column="at a line",
        because="not every kernel has a row, and no other file counts them",
    ),
    Rule(
        operator="truncate a file",
        layout="ms-1.x",
        slot="device_queue_profiling",
        column="at a line",
        because="in 1.x nothing counts the batches",
    ),
    Rule(
        operator=_VALUE,
        slot="minddata_cpu_utilization",
        column="op_info.[].op_id",
        because="an operator the pipeline does not have is a warning: real files have -1 for the process itself",
    ),
    Rule(
        operator="drop a key|zero a value",
        layout="ms-1.x|minddata",
        slot="pipeline_profiling",
        column="*throughput*",
        because="only the oldest versions write it, and no other file has it",
    ),
    Rule(
        operator="drop a key",
        slot="profiler_info",
        column="rank_id",
        because="a process that is alone writes none",
    ),
    Rule(
        operator=_VALUE,
        slot="profiler_metadata",
        column="parallel_group_info.*.global_ranks.[]",
        because="the other ranks of a group are named once",
    ),
    Rule(
        operator=_VALUE, slot="task_time", column="task_id|stream_id", because="no other file of level 0 has the task"
    ),
    Rule(
        operator="drop a column|rename a column",
        slot="task_time",
        column="Device_id",
        because="not every version writes it",
    ),
    Rule(
        operator=_VALUE,
        layout="ms-2.5+|ms-2.3",
        slot="kernel_details",
        column="Task ID|Stream ID",
        because="no real sample says which other file of MindSpore has the task",
    ),
    Rule(
        operator=f"{_VALUE}|drop an event",
        slot="trace_view",
        column="X:HCCL.args.* rank|X:HCCL",
        because="the tasks inside of a collective operation are in no other file",
    ),
    Rule(
        operator=_NUMBER,
        slot="communication_analyzer|analysis",
        column="*.synchronization_time",
        because="it is a part of the wait, however large",
    ),
    Rule(operator=_NUMBER, slot="dataset", column="Occurrences", because="no other file counts what a worker did"),
    Rule(operator=_VALUE, slot="framework_raw", column="task_id", because="no other text file of 1.x has the task"),
)


def rule_of(operator: str, layout: str, slot: str, column: str, unit: str) -> Rule | None:
    """Return the first rule that covers a mutant."""
    found = (rule for rule in UNDETECTABLE if rule.covers(operator, layout, slot, column, unit))
    return next(found, None)
