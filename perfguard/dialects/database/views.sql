-- What the tables of a database say together.

-- The text of an id of STRING_IDS: the first text, where it has several.
create view fill_db_texts as
select cycle, id, arg_min(value, row) as text from db_string_ids group by cycle, id;

create macro text_of(of_cycle, of_id) as (select text from db_texts where cycle = of_cycle and id = of_id);

-- Kernels of an Ascend device, and its collectives, which the text export has in one table with them. A task is what the first row
-- with its id says.
create view database_executions as
with described as (
  select cycle, global_task_id, unnest(arg_min({op_type: op_type, name: name, input_shapes: input_shapes}, row))
  from db_compute_task_info group by cycle, global_task_id),
kernels as (
  select tasks.cycle, tasks.row, op_type, name, input_shapes, start_ns, end_ns, device_id as device, stream_id as stream, connection_id
  from db_task as tasks join described using (cycle, global_task_id)
  union all
  select cycle, row, op_type, op_name, null, start_ns, end_ns, null, null, connection_id from db_communication_op where op_type is not null)
select kernels.cycle, row, coalesce(types.text, op_type::varchar) as operator, coalesce(names.text, name::varchar) as name, start_ns,
  within(end_ns::hugeint - start_ns) as duration_ns, nullif(trim(inputs.text, '"'), 'N/A') as shapes, 1::bigint as calls, device, stream,
  connection_id
from kernels
left join db_texts as types on types.cycle = kernels.cycle and types.id = op_type
left join db_texts as names on names.cycle = kernels.cycle and names.id = name
left join db_texts as inputs on inputs.cycle = kernels.cycle and inputs.id = input_shapes;

-- What components have allocated.
create view database_components as
select records.cycle, row, coalesce(text, component::varchar) as device, timestamp_ns as time_ns, total_allocated_bytes as level
from db_memory_record as records left join db_texts on db_texts.cycle = records.cycle and db_texts.id = component;

create view database_levels as from levels_of('database_components');

-- Tasks of COMPUTE_TASK_INFO of a database that has counters, of a kind of which some task has counters: how many it has (null:
-- none), and how many there are in all tasks of its kind.
create view counted_tasks as
with counters as (select distinct cycle, global_task_id, name from db_task_pmu_info),
tasks as (
  select described.cycle, row, global_task_id, text as kind
  from db_compute_task_info as described join db_texts on db_texts.cycle = described.cycle and db_texts.id = task_type),
of_kinds as (
  select cycle, kind, count(*) as usual
  from (select distinct cycle, kind, counters.name from tasks join counters using (cycle, global_task_id))
  group by cycle, kind),
of_tasks as (select cycle, global_task_id, count(*) as counters from counters group by cycle, global_task_id)
select tasks.cycle, row, global_task_id, kind, counters, usual
from tasks join of_kinds using (cycle, kind) left join of_tasks using (cycle, global_task_id);

-- The names of counters that a database has, where it has tasks as well.
create view fill_counter_names as
select distinct cycle, text as counter
from db_texts
semi join (select distinct cycle, name from db_task_pmu_info) as used on used.cycle = db_texts.cycle and used.name = db_texts.id
where cycle in (select cycle from db_compute_task_info);

-- MEMORY_RECORD of databases of one device, with the names of components.
create view fill_memory_records as
select records.cycle, row, text as component, timestamp_ns, total_allocated_bytes, total_reserved_bytes
from db_memory_record as records left join db_texts on db_texts.cycle = records.cycle and db_texts.id = records.component
where records.cycle in (select cycle from db_memory_record group by cycle having count(distinct device_id) = 1);

-- The same beside the last record of each component; of databases that sum them up. `above_ns`, `below_ns`: the times of the record
-- above, and of the one below where that is a sum.
create view fill_summed_records as
select *, lag(timestamp_ns) over records as above_ns,
  if(lead(component) over records = 'PTA+GE', lead(timestamp_ns) over records, null) as below_ns,
  coalesce(arg_max(if(component = 'PTA', total_allocated_bytes, null), row) over before, 0) as pta_allocated_bytes,
  coalesce(arg_max(if(component = 'GE', total_allocated_bytes, null), row) over before, 0) as ge_allocated_bytes,
  coalesce(arg_max(if(component = 'PTA', total_reserved_bytes, null), row) over before, 0) as pta_reserved_bytes,
  coalesce(arg_max(if(component = 'GE', total_reserved_bytes, null), row) over before, 0) as ge_reserved_bytes
from memory_records
where cycle in (select cycle from memory_records where component = 'PTA+GE')
window records as (partition by cycle order by row),
  before as (partition by cycle order by row rows between unbounded preceding and current row);

-- Allocations of NPU_OP_MEM with the next release of their operator and address; a second allocation at the same address takes the
-- place of the first.
create view fill_engine_blocks as
select cycle, operator_name, size_bytes, timestamp_ns, released_ns
from (
  select *, lead(type) over blocks as next_type, lead(timestamp_ns) over blocks as released_ns
  from db_npu_op_mem
  window blocks as (partition by cycle, operator_name, addr, device_id order by row)) as changes
semi join (select cycle, id from db_texts where text = 'allocate') as kinds on kinds.cycle = changes.cycle and kinds.id = type
where next_type is distinct from type;

-- Databases of a recording in which a graph was captured, loaded or run: its operators are launched without running at once.
create view fill_database_graphs as
select distinct api.cycle
from db_cann_api as api join db_texts as texts on texts.cycle = api.cycle and texts.id = api.name
where is_call_of_a_graph(text);

-- Kernels that COMPUTE_TASK_INFO describes, and copies (MEMCPY_ASYNC), that have a connection: how many, of how many CANN_API lacks
-- the call, and the first such connection. Not where a graph was captured, loaded or run.
create view calls_of_tasks as
select tasks.cycle, kind, count(*) as tasks, count(*) filter (called.connection_id is null) as lost,
  min(tasks.connection_id) filter (called.connection_id is null) as connection
from (
  select task.cycle, 'kernel' as kind, connection_id from db_task as task semi join db_compute_task_info using (cycle, global_task_id)
  union all
  select task.cycle, 'copy', connection_id
  from db_task as task join db_texts as texts on texts.cycle = task.cycle and texts.id = task.task_type
  where text = 'MEMCPY_ASYNC') as tasks
left join (select distinct cycle, connection_id from db_cann_api) as called
  on called.cycle = tasks.cycle and called.connection_id = tasks.connection_id
where tasks.connection_id between 1 and 4294967294
  and tasks.cycle in (select cycle from db_cann_api) and tasks.cycle not in (from database_graphs)
group by all;

-- Tasks that TASK has several rows of: those of a graph run again, with the number that device, stream, task and batch have.
create view fill_repeated_tasks as
select cycle, global_task_id from db_task where global_task_id is not null group by all having count(*) > 1;

-- Operations of COMMUNICATION_OP with the tasks of COMMUNICATION_TASK_INFO, as far as TASK has them: how many, and where they begin
-- and end. `is_meant`: most operations begin where their first task does; else this version means something else by it. Not of databases
-- in which tasks run again: which time belongs to which operation is not written.
create view fill_operation_tasks as
with tasks as (
  select cycle, global_task_id, any_value(start_ns) as start_ns, any_value(end_ns) as end_ns
  from db_task semi join db_communication_task_info using (cycle, global_task_id)
  group by cycle, global_task_id),
sums as (
  select cycle, op_id, count(*) as tasks, min(start_ns) as first_ns, max(end_ns) as last_ns
  from db_communication_task_info join tasks using (cycle, global_task_id)
  group by cycle, op_id)
select cycle, row, op_id, start_ns, end_ns, tasks, first_ns, last_ns,
  2 * count(*) filter (start_ns <> first_ns) over (partition by cycle) <= count(*) over (partition by cycle) as is_meant
from db_communication_op left join sums using (cycle, op_id)
where cycle in (select cycle from db_communication_task_info) and cycle not in (select cycle from repeated_tasks);

-- What a rank moved over links between devices, by kind of operation: `<kind>-total` of CommAnalyzerMatrix beside all operations of
-- the kind in CommAnalyzerBandwidth, where the matrix adds them up.
create view moved_by_kind as
with links as (
  select cycle, step, group_name, nullif(regexp_extract(hccl_op_name, '^([A-Za-z]+)-total$', 1), '') as kind,
    transit_size_bytes as size_bytes, transit_time_ns as time_ns, true as is_total
  from db_comm_analyzer_matrix where transport_type <> 'LOCAL'),
speeds as (
  select cycle, step, group_name, lower(regexp_extract(hccl_op_name, '^(?:hcom_)?([A-Za-z]+)', 1)) as kind,
    any_value(transit_size_bytes), any_value(transit_time_ns), false
  from db_comm_analyzer_bandwidth where transport_type in ('RDMA', 'HCCS', 'PCIE', 'SIO')
  group by cycle, step, group_name, hccl_op_name, transport_type)
select cycle, coalesce(step, '') as step, group_name, kind, count(*) as rows,
  coalesce(sum(size_bytes) filter (is_total), 0) as size_total, coalesce(sum(size_bytes) filter (not is_total), 0) as size_reported,
  coalesce(sum(time_ns) filter (is_total), 0) as time_total, coalesce(sum(time_ns) filter (not is_total), 0) as time_reported
from (from links where kind is not null union all from speeds)
where cycle in (
  select cycle from db_comm_analyzer_matrix where regexp_matches(hccl_op_name, '-(top1|middle|bottom[123]|total)$'))
group by cycle, coalesce(step, ''), group_name, kind;

-- Operations of COMMUNICATION_OP with their names.
create view fill_ran_operations as
select operations.cycle, row, text as name, start_ns, end_ns, connection_id
from db_communication_op as operations left join db_texts on db_texts.cycle = operations.cycle and db_texts.id = op_name;

-- Operations of CommAnalyzerTime: not the entry that adds up those of a step, in versions that write one.
create view fill_timed_operations as
select cycle, row, hccl_op_name as name, coalesce(step, '') as step, start_timestamp_ns as start_ns, elapse_time_ns as elapse_ns
from db_comm_analyzer_time where hccl_op_name <> 'Total Op Info';

create view fill_lost_operations as select * from timed_operations anti join ran_operations using (cycle, name);

-- Databases of two runs: some operations were timed and some ran, and no name is in both.
create view fill_operations_apart as
select cycle, rows
from (select cycle, count(*) as rows from timed_operations group by cycle) as timed
join (select cycle, count(*) as lost from lost_operations group by cycle) as lost using (cycle)
where rows = lost and cycle in (select cycle from db_communication_op);

-- Operations whose name is once in CommAnalyzerTime and once in COMMUNICATION_OP.
create view fill_paired_operations as
with timed as (select * from timed_operations qualify count(*) over (partition by cycle, name) = 1),
ran as (select * from ran_operations qualify count(*) over (partition by cycle, name) = 1)
select cycle, timed.row, name, timed.start_ns as reported_ns, elapse_ns, ran.start_ns, ran.end_ns - ran.start_ns as lasts_ns
from timed join ran using (cycle, name);

-- Whether spans of a cycle cover no more than three times the time from the first start to the last end.
create macro lie_apart(first, last, of) as
  sum(last::hugeint - first) over (partition by of)
    <= 3 * (max(last::hugeint) over (partition by of) - min(first) over (partition by of));

-- Steps of STEP_TIME: the last row of each, and of very many steps the first ones. None where they lie upon each other, as no steps
-- do: what is in them would be looked at again for each.
create view fill_recorded_steps as
select cycle, step, start_ns, end_ns
from (
  select cycle, id::varchar as step, start_ns, end_ns
  from (select * from db_step_time qualify row_number() over (partition by cycle, id order by row desc) = 1)
  where start_ns is not null and end_ns is not null
  qualify row_number() over (partition by cycle order by row) <= 200)
qualify lie_apart(start_ns, end_ns, cycle);

-- Events ProfilerStep#N of PYTORCH_API that occur once.
create view fill_host_step_marks as
select cycle, number, any_value(start_ns) as start_ns, any_value(end_ns) as end_ns
from (
  select called.cycle, number, start_ns, end_ns
  from db_pytorch_api as called
  join (select cycle, id, try_cast(regexp_extract(text, '^ProfilerStep#([0-9]{1,18})$', 1) as bigint) as number from db_texts) as marks
    on marks.cycle = called.cycle and marks.id = called.name
  where number is not null)
group by cycle, number having count(*) = 1;

-- Steps of torch_npu whose tasks can be found by their launches: those of STEP_TIME, and without a name all there is, where STEP_TIME
-- has none or StepTraceTime a row without one.
create view fill_reported_steps as
with whole as (
  select cycle
  from database_tables
  where is_there and name in ('TASK', 'COMPUTE_TASK_INFO', 'CANN_API')
    and cycle in (select cycle from database_tables where name = 'STEP_TIME')
    and cycle not in (select cycle from db_task group by cycle having count(distinct device_id) > 1)
  group by cycle having count(*) = 3)
select cycle, step, start_ns, end_ns from recorded_steps semi join whole using (cycle)
union all
select cycle, '', null, null
from whole
where cycle not in (select cycle from recorded_steps) or cycle in (select cycle from db_step_trace_time where coalesce(step, '') = '');

-- What was launched by a call of CANN (of type node) that is in a step; a row without a task for a step that launched nothing.
-- `begins_ns`, `ends_ns`: where the step is on the device, from the first of these tasks to the end of the last one, or of the step.
create view fill_launched_tasks as
with launches as (
  select distinct reported_steps.cycle, step, reported_steps.start_ns as marked_ns, reported_steps.end_ns as until_ns, connection_id
  from reported_steps
  left join (select cycle, start_ns, end_ns, connection_id from db_cann_api where type = 10000) as called
    on called.cycle = reported_steps.cycle and called.start_ns >= coalesce(reported_steps.start_ns, 0)
    and called.end_ns <= coalesce(reported_steps.end_ns, 9223372036854775807))
select launches.cycle, step, marked_ns, task.start_ns, task.end_ns, global_task_id,
  coalesce(min(task.start_ns) over steps, marked_ns, 0) as begins_ns,
  greatest(coalesce(max(task.end_ns) over steps, 0), coalesce(until_ns, 4611686018427387904)) as ends_ns
from launches
left join db_task as task on task.cycle = launches.cycle and task.connection_id = launches.connection_id
window steps as (partition by launches.cycle, step);

create view fill_device_steps as select distinct cycle, step, marked_ns, begins_ns, ends_ns from launched_tasks;

-- What computes (tasks of COMPUTE_TASK_INFO) and what communicates in a step, with a row without times for each step and version.
-- Three versions of torch_npu tell them differently: what was launched in the step and whole operations that begin while it is on the
-- device; all that begins then; what was launched, tasks of operations as well.
create view step_spans as
with launched as (from launched_tasks),
steps as (
  select *
  from (select distinct cycle, step, marked_ns, begins_ns, ends_ns from launched)
  qualify lie_apart(begins_ns, ends_ns, cycle)),
begun as (
  select steps.*, start_ns, end_ns, global_task_id
  from steps join db_task as task on task.cycle = steps.cycle and start_ns >= begins_ns and start_ns < ends_ns),
moved as (
  select steps.*, start_ns, end_ns, coalesce(starts_with(name, 'hcom_receive'), false) as is_receive, connection_id
  from steps join ran_operations as ran on ran.cycle = steps.cycle and start_ns >= begins_ns and start_ns < ends_ns),
parts as (
  select moving.cycle, global_task_id, bool_or(coalesce(starts_with(text, 'hcom_receive'), false)) as is_receive
  from db_communication_task_info as moving
  left join db_texts on db_texts.cycle = moving.cycle and db_texts.id = moving.name
  group by moving.cycle, global_task_id)
select cycle, step, marked_ns, unnest([1, 2, 3]) as version, false as is_moving, false as is_receive, null as start_ns, null as end_ns
from steps
union all select cycle, step, marked_ns, unnest([1, 3]), false, false, start_ns, end_ns
from launched semi join db_compute_task_info using (cycle, global_task_id)
union all select cycle, step, marked_ns, 2, false, false, start_ns, end_ns
from begun semi join db_compute_task_info using (cycle, global_task_id)
union all select cycle, step, marked_ns, 1, true, is_receive, start_ns, end_ns from moved
union all select cycle, step, marked_ns, 2, true, is_receive, start_ns, end_ns from moved semi join db_task using (cycle, connection_id)
union all select cycle, step, marked_ns, 3, true, is_receive, start_ns, end_ns from launched join parts using (cycle, global_task_id);

-- The columns of StepTraceTime that follow from what is in a step, by version.
create view step_versions as
with sums as (
  select cycle, step, marked_ns, version, sum(greatest(end_ns - greatest(start_ns, before_ns), 0)) as whole_ns,
    sum(greatest(end_ns - greatest(start_ns, before_own_ns), 0)) filter (not is_moving) as busy_ns,
    coalesce(sum(greatest(end_ns - greatest(start_ns, before_own_ns), 0)) filter (is_moving), 0) as sent_ns,
    coalesce(max(end_ns) - min(start_ns), 0) as span_ns, coalesce(sum(end_ns - start_ns) filter (is_receive), 0) as received_ns,
    min(start_ns) filter (not is_moving) as first_ns, min(start_ns) filter (is_moving) as first_moving_ns
  from (
    select *, max(end_ns) over (
        partition by cycle, step, version order by start_ns rows between unbounded preceding and 1 preceding) as before_ns,
      max(end_ns) over (
        partition by cycle, step, version, is_moving order by start_ns
        rows between unbounded preceding and 1 preceding) as before_own_ns
    from step_spans)
  group by cycle, step, marked_ns, version)
select cycle, step, version, busy_ns as computing, sent_ns as communication, whole_ns - busy_ns as exposed, span_ns - whole_ns as free,
  span_ns - received_ns as stage, received_ns as bubble,
  if(first_ns is null, null, least(first_ns, first_moving_ns) - marked_ns) as preparing
from sums;

create macro is_off(own, reported) as
  coalesce(abs(own::hugeint - reported) > 2 + 1e-9 * abs(reported), false);

-- Rows of StepTraceTime, column by column beside what ran, for the version that agrees best with the row; `off`: how many columns do
-- not. Of databases of one device.
create view compared_steps as
with steps as (
  select *, count(*) over (partition by cycle) as rows
  from db_step_trace_time
  where cycle not in (select cycle from db_step_trace_time group by cycle having count(distinct coalesce(device_id, -2)) > 1))
select cycle, row, step, off, unnest([
    {'name': 'computing', 'own': computing_ns, 'reported': computing},
    {'name': 'communication', 'own': communication_ns, 'reported': communication},
    {'name': 'communication_not_overlapped', 'own': communication_not_overlapped_ns, 'reported': exposed},
    {'name': 'free', 'own': free_ns, 'reported': free}, {'name': 'stage', 'own': stage_ns, 'reported': stage},
    {'name': 'bubble', 'own': bubble_ns, 'reported': bubble}, {'name': 'preparing', 'own': preparing_ns, 'reported': preparing}
  ], recursive := true)
from (
  select *, is_off(computing_ns, computing)::integer + is_off(communication_ns, communication)::integer
    + is_off(communication_not_overlapped_ns, exposed)::integer + is_off(free_ns, free)::integer + is_off(stage_ns, stage)::integer
    + is_off(bubble_ns, bubble)::integer + is_off(preparing_ns, preparing)::integer as off
  from steps join step_versions on step_versions.cycle = steps.cycle and step_versions.step = coalesce(steps.step, '')
  where row < 200 and (step_versions.step <> '' or rows = 1)
  qualify row_number() over (partition by steps.cycle, row order by off, version) = 1);

-- Call stacks, without those that are left of a directory that the same process of torch_npu analysed before: they are below the first that
-- a row of PYTORCH_API has, and their texts are not here.
create view own_callchains as
select chains.*
from db_pytorch_callchains as chains
left join (select cycle, min(callchain_id) as first_id from db_pytorch_api group by cycle) as used using (cycle)
where used.cycle is null or id >= first_id;

-- Cells that hold an id of STRING_IDS, with their table (`place`) and their column.
create view ids_of_texts as
select cycle, row, 'db_task' as place, 'taskType' as name, task_type as id from db_task
union all select cycle, row, 'db_compute_task_info',
  unnest(['name', 'taskType', 'opType', 'inputFormats', 'inputDataTypes', 'inputShapes', 'outputFormats', 'outputDataTypes',
    'outputShapes', 'attrInfo']),
  unnest([name, task_type, op_type, input_formats, input_data_types, input_shapes, output_formats, output_data_types,
    output_shapes, attr_info])
from db_compute_task_info
union all select cycle, row, 'db_cann_api', 'name', name from db_cann_api
union all select cycle, row, 'db_communication_op',
  unnest(['opName', 'groupName', 'algType', 'opType']),
  unnest([op_name, group_name, alg_type, op_type])
from db_communication_op
union all select cycle, row, 'db_communication_task_info',
  unnest(['name', 'taskType', 'groupName']),
  unnest([name, task_type, group_name])
from db_communication_task_info
union all select cycle, row, 'db_pytorch_api',
  unnest(['name', 'inputShapes', 'inputDtypes']),
  unnest([name, input_shapes, input_dtypes])
from db_pytorch_api
union all select cycle, row, 'db_pytorch_callchains', 'stack', stack from own_callchains
union all select cycle, row, 'db_memory_record', 'component', component from db_memory_record
union all select cycle, row, 'db_op_memory', 'name', name from db_op_memory
union all select cycle, row, 'db_npu_op_mem',
  unnest(['operatorName', 'type', 'component']),
  unnest([operator_name, type, component])
from db_npu_op_mem
union all select cycle, row, 'db_task_pmu_info', 'name', name from db_task_pmu_info
union all select cycle, row, 'db_npu_mem', 'type', type from db_npu_mem
union all select cycle, row, 'db_hbm', 'type', type from db_hbm
union all select cycle, row, 'db_llc', 'mode', mode from db_llc;

-- Times of the profiler's database, with their table (`place`) and their column.
create view times_of_databases as
select cycle, row, 'db_task' as place, unnest(['startNs', 'endNs']) as name, unnest([start_ns, end_ns]) as at_ns from db_task
union all select cycle, row, 'db_communication_op', unnest(['startNs', 'endNs']), unnest([start_ns, end_ns]) from db_communication_op
union all select cycle, row, 'db_cann_api', unnest(['startNs', 'endNs']), unnest([start_ns, end_ns]) from db_cann_api
union all select cycle, row, 'db_pytorch_api', unnest(['startNs', 'endNs']), unnest([start_ns, end_ns]) from db_pytorch_api
union all select cycle, row, 'db_step_time', unnest(['startNs', 'endNs']), unnest([start_ns, end_ns]) from db_step_time
union all select cycle, row, 'db_npu_mem', 'timestampNs', timestamp_ns from db_npu_mem
union all select cycle, row, 'db_npu_op_mem', 'timestampNs', timestamp_ns from db_npu_op_mem
union all select cycle, row, 'db_npu_module_mem', 'timestampNs', timestamp_ns from db_npu_module_mem
union all select cycle, row, 'db_aicore_freq', 'timestampNs', timestamp_ns from db_aicore_freq
union all select cycle, row, 'db_hbm', 'timestampNs', timestamp_ns from db_hbm
union all select cycle, row, 'db_llc', 'timestampNs', timestamp_ns from db_llc
union all select cycle, row, 'db_acc_pmu', 'timestampNs', timestamp_ns from db_acc_pmu
union all select cycle, row, 'db_soc_bandwidth_level', 'timestampNs', timestamp_ns from db_soc_bandwidth_level
union all select cycle, row, 'db_memory_record', 'timestamp', timestamp_ns from db_memory_record
union all select cycle, row, 'db_op_memory',
  unnest(['allocationTime', 'releaseTime', 'activeReleaseTime']),
  unnest([allocation_time_ns, release_time_ns, active_release_time_ns])
from db_op_memory;

-- Tasks that run code of an operator on the cores of the device, and are no part of a collective operation.
create view fill_kernel_tasks as
with kinds as (
  select cycle, id, text as kind
  from db_texts
  where text in (
    'KERNEL_AICORE', 'KERNEL_AIVEC', 'KERNEL_MIX_AIC', 'KERNEL_MIX_AIV', 'AI_CORE', 'AI_VECTOR_CORE', 'MIX_AIC', 'MIX_AIV'))
select task.cycle, row, kind, global_task_id, connection_id
from (from db_task anti join db_communication_op using (cycle, connection_id)) as task
join kinds on kinds.cycle = task.cycle and kinds.id = task_type;

-- Databases in which one table has rows and another one is missing.
create macro lacking(filled, absent) as table
select cycle, rows
from (select cycle, rows from database_tables where name = filled and rows > 0) as filled_ones
semi join (select cycle from database_tables where name = absent and not is_there) as absent_ones using (cycle);

-- Tensors that a text of shapes, types or formats lists, and whether three of them list others: of the same kernel, N/A where unknown.
create macro listed_tensors(text) as len(string_split(text, ';'));

create macro not_the_same_tensors(shapes, types, formats) as
  shapes <> 'N/A' and types <> 'N/A' and formats <> 'N/A' and shapes <> '' and types <> '' and formats <> ''
  and (listed_tensors(types) <> listed_tensors(formats) or listed_tensors(shapes) <> listed_tensors(types));

-- The clocks of devices.
create view counters_in_databases as
select cycle, row, 'npu:' || device_id as device, 'clock_mhz' as name, timestamp_ns as time_ns, freq_mhz as value
from db_aicore_freq where freq_mhz > 0;

-- Databases beside which there is no trace: both say the same.
create view databases_alone as
select cycle from cycles anti join (select cycle from files where slot = 'trace_view' and file is not null) using (cycle);

-- The steps as the host ran them, each up to the next one; `steps` has them without an end, since the device works behind.
create view host_steps_in_databases as
select steps.cycle, step, steps.start_ns, marks.end_ns,
  coalesce(lead(steps.start_ns) over (partition by steps.cycle order by step), 9223372036854775807) as next_ns
from steps join db_step_time as marks on marks.cycle = steps.cycle and marks.id = steps.number and marks.start_ns = steps.start_ns;

-- Operators of the host that torch_npu records, of the type 50001 (op) in its ENUM_API_TYPE; steps are marked among them.
create view db_operators as
select api.cycle, api.row, names.text as name, global_tid as tid, start_ns, end_ns, input_shapes, input_dtypes
from db_pytorch_api as api
join databases_alone using (cycle)
join db_texts as names on names.cycle = api.cycle and names.id = api.name
where api.type = 50001 and not starts_with(names.text, 'ProfilerStep#') and start_ns is not null and end_ns is not null;

create view operators_in_databases as
select ran.cycle, row, step, name, name as type, 1::bigint as calls, shapes.text as input_shapes, types.text as input_types, ran.start_ns,
  within(ran.end_ns::hugeint - ran.start_ns) as duration_ns
from db_operators as ran
left join db_texts as shapes on shapes.cycle = ran.cycle and shapes.id = input_shapes
left join db_texts as types on types.cycle = ran.cycle and types.id = input_dtypes
left join host_steps_in_databases as steps on steps.cycle = ran.cycle and ran.start_ns between steps.start_ns and steps.end_ns
  and ran.start_ns < next_ns;

-- Calls of CANN; levels are msprof's: 20000 AscendCL, 10000 node.
create view db_calls as
select api.cycle, api.row, step, case type when 20000 then 'acl' when 10000 then 'node' else 'other' end as level, names.text as name,
  kind_of_cann(level, names.text) as kind, global_tid as tid, api.start_ns, within(api.end_ns::hugeint - api.start_ns) as duration_ns,
  connection_id as correlation
from db_cann_api as api
join databases_alone using (cycle)
join db_texts as names on names.cycle = api.cycle and names.id = api.name
left join host_steps_in_databases as steps on steps.cycle = api.cycle and api.start_ns between steps.start_ns and steps.end_ns
  and api.start_ns < next_ns
where api.start_ns is not null;

create view launches_in_databases as
select cycle, row, step, name, kind, operator, start_ns, duration_ns, correlation from inside_of('db_calls', 'db_operators');

-- Threads that run operators; torch_npu's queue calls when it comes to it.
create view db_stepping_threads as select distinct cycle, global_tid as tid from db_pytorch_api where type = 50001;

create view db_recorded as
select distinct cycle from db_calls where level = 'acl' and starts_with(name, 'aclrt') and cycle in (select cycle from db_stepping_threads);

create view db_waits as
select * from db_calls where kind = 'synchronise' and (cycle, tid) in (select (cycle, tid) from db_stepping_threads);

create view waits_in_databases as
select cycle, step, coalesce(operator, name) as name from inside_of('db_waits', 'db_operators');

-- Which operator of the host asked for what has the number of a connection; one has a list of them.
create view db_askers as
select operators.cycle, ids.connection_id, min(names.text) as operator
from db_pytorch_api as operators
join db_connection_ids as ids on ids.cycle = operators.cycle and ids.id = operators.connection_id
join db_texts as names on names.cycle = operators.cycle and names.id = operators.name
where operators.type = 50001 and not starts_with(names.text, 'ProfilerStep#')
group by operators.cycle, ids.connection_id
having count(distinct names.text) = 1;

-- Kernels with their device and stream; those of a step are those that start after it began and before the next one does.
create view kernels_in_databases as
select ran.cycle, row, step, name, ran.operator as type, if(is_collective(ran.operator), 'communication', 'compute') as kind, calls,
  'npu:' || device as device, stream, db_askers.operator, shapes as input_shapes, ran.start_ns, duration_ns,
  ran.connection_id as correlation
from database_executions as ran
left join db_askers on db_askers.cycle = ran.cycle and db_askers.connection_id = ran.connection_id
left join host_steps_in_databases as steps on steps.cycle = ran.cycle and ran.start_ns >= steps.start_ns and ran.start_ns < next_ns
where ran.cycle in (select cycle from listed);

create view collectives_in_databases as
select cycle, row, step, name, coalesce(device, 'npu') as device, start_ns, duration_ns from kernels_in_databases where kind = 'communication';
