-- What must hold in a database and in the one of its analysis. Unless a check names another, the source is a real database of
-- torch_npu level 1 (msinsight test data): all of this holds for each of its rows.

-- check: memory_of_the_database_adds_up
-- code: I106
-- needs: db_memory_record
-- in: db_memory_record
-- about: The records of a component on a device are in the order of their times. Exact.
-- message: its time is {early_ns} ns before that of its component's previous row
select cycle, row, before_ns - timestamp_ns as early_ns
from (
  select cycle, row, timestamp_ns, lag(timestamp_ns) over (partition by cycle, component, device_id order by row) as before_ns
  from db_memory_record)
where timestamp_ns < before_ns

-- check: memory_of_the_database_adds_up
-- code: I107
-- each: table, when, allocated, reserved = db_memory_record, in all, total_allocated_bytes, total_reserved_bytes;
--   db_op_memory, at its allocation, allocation_total_allocated_bytes, allocation_total_reserved_bytes;
--   db_op_memory, at its release, release_total_allocated_bytes, release_total_reserved_bytes
-- needs: {table}
-- in: {table}
-- about: No more is allocated than is reserved. Exact.
-- message: {allocated} bytes are allocated {when}, more than the {reserved} reserved
select cycle, row, {allocated} as allocated, {reserved} as reserved from {table} where {allocated} > {reserved}

-- check: memory_of_the_database_adds_up
-- each: length, released = duration, release_time; active_duration, active_release_time
-- needs: db_op_memory
-- in: db_op_memory
-- about: Durations of a block are the difference of its times. Exact.
-- message: {length} is {length_ns} ns, {released} - allocation_time is {life_ns} ns
select cycle, row, {length}_ns as length_ns, {released}_ns - allocation_time_ns as life_ns
from db_op_memory where {length}_ns <> {released}_ns - allocation_time_ns

-- check: memory_of_the_database_adds_up
-- about: The size of a block is a multiple of 512 bytes. Exact.
-- message: {size} bytes are no multiple of 512
select cycle, row, size_bytes as size from db_op_memory where size_bytes % 512 <> 0

-- check: counters_of_the_database_are_whole
-- code: I115
-- needs: db_task_pmu_info, db_compute_task_info
-- in: db_task_pmu_info
-- about: Counters are of tasks in COMPUTE_TASK_INFO. Exact.
-- message: globalTaskId is {task}, which COMPUTE_TASK_INFO does not have
select cycle, row, global_task_id as task
from db_task_pmu_info anti join db_compute_task_info using (cycle, global_task_id)
where cycle in (select cycle from db_compute_task_info)

-- check: counters_of_the_database_are_whole
-- code: I114
-- about: A task that runs once has each counter once. Exact.
-- message: task {task} has {counter} twice
select cycle, row, global_task_id as task, coalesce(text_of(cycle, name), name::text) as counter
from (
  select cycle, row, global_task_id, name, row_number() over (partition by cycle, global_task_id, name order by row) as time
  from db_task_pmu_info)
where time > 1 and cycle in (select cycle from db_compute_task_info) and cycle not in (select cycle from repeated_tasks)

-- check: counters_of_the_database_are_whole
-- code: I105
-- in: db_compute_task_info
-- about: Tasks of one kind have the same counters. A kind may have none (DSA_SQE). Exact; a task without any is a warning: the
--   profiler may lose counters on the way.
-- message: task {task} ({kind}) has {own} counters in TASK_PMU_INFO, all tasks of its kind have {usual}
select cycle, row, global_task_id as task, kind, coalesce(counters, 0) as own, usual,
  if(counters is null, 'warning', 'error') as severity
from counted_tasks where counters is distinct from usual

-- check: counters_of_the_database_are_whole
-- in: db_task_pmu_info
-- about: A unit whose time is counted has its ratio, and the other way round. Counters of the whole core have no ratio; other groups
--   than PipeUtilization have no times of units.
-- message: no task has {absent}, and there is {present}
with halves as (
  select cycle, regexp_extract(counter, '(.*)_(time|ratio)$', 1) as unit, bool_or(ends_with(counter, '_time')) as has_time,
    bool_or(ends_with(counter, '_ratio')) as has_ratio
  from counter_names
  where regexp_matches(counter, '_(time|ratio)$') and not regexp_matches(counter, '(_total|aicore|aiv|aic)_time$')
  group by all)
select cycle, unit || if(has_time, '_ratio', '_time') as absent, unit || if(has_time, '_time', '_ratio') as present
from halves
where has_time <> has_ratio and cycle in (select cycle from halves where has_time)

-- check: counters_of_the_database_are_whole
-- each: core = aic; aiv
-- about: The whole core has its time and its cycles.
-- message: there is {present} of the time and the cycles of {core}, and not the other one
select cycle, any_value(counter) as present
from counter_names where counter in ('{core}_total_time', '{core}_total_cycles')
group by cycle having count(*) = 1

-- check: memory_tables_tell_the_same
-- code: I107
-- needs: db_memory_record
-- in: db_memory_record
-- about: A record of PTA or GE is followed by one of PTA+GE at the same time, where there are any, and each of these follows one.
--   Exact; databases of one device only.
-- source: torch_npu: prof_db_parse/_memory_db_parser.py
-- message: {component} at {time_ns} ns is {where} {other_ns} ns
select cycle, row, component, timestamp_ns as time_ns,
  if(component = 'PTA+GE', 'no sum of the record above, which is of', 'not followed by PTA+GE, the next one is of') as where,
  coalesce(if(component = 'PTA+GE', above_ns, below_ns)::text, 'no') as other_ns
from summed_records
where component in ('PTA', 'GE') and timestamp_ns is distinct from below_ns
  or component = 'PTA+GE' and timestamp_ns is distinct from above_ns

-- check: memory_tables_tell_the_same
-- about: A record of PTA+GE is the sum of the last one of each. Exact, bytes.
-- message: PTA+GE has {own} bytes {name}, PTA {of_pta} and GE {of_ge}
select cycle, row, name, own, of_pta, of_ge
from (
  select cycle, row, unnest([
      {'name': 'allocated', 'own': total_allocated_bytes, 'of_pta': pta_allocated_bytes, 'of_ge': ge_allocated_bytes},
      {'name': 'reserved', 'own': total_reserved_bytes, 'of_pta': pta_reserved_bytes, 'of_ge': ge_reserved_bytes}
    ], recursive := true)
  from summed_records where component = 'PTA+GE')
where own <> of_pta::hugeint + of_ge

-- check: memory_tables_tell_the_same
-- needs: db_memory_record, db_npu_op_mem
-- about: A record of GE has time, allocated and reserved of a row of NPU_OP_MEM, and the other way round. Exact, bytes.
-- message: {here} records of GE at {time_ns} ns with {allocated} bytes allocated and {reserved} reserved, NPU_OP_MEM has {there}
select cycle, time_ns, allocated, reserved, sum(here) as here, sum(1 - here) as there
from (
  select cycle, timestamp_ns as time_ns, total_allocated_bytes as allocated, total_reserved_bytes as reserved, 1 as here
  from memory_records where component = 'GE'
  union all
  select cycle, timestamp_ns, total_allocate_bytes, total_reserve_bytes, 0 from db_npu_op_mem)
where cycle in (select cycle from db_npu_op_mem)
  and cycle not in (select cycle from db_memory_record group by cycle having count(distinct device_id) > 1)
group by all having sum(here) <> sum(1 - here)

-- check: memory_tables_tell_the_same
-- needs: db_memory_record, db_op_memory
-- in: db_op_memory
-- about: When a block is allocated there is a record, where nine blocks in ten have one.
-- message: {size} bytes are allocated at {time_ns} ns, MEMORY_RECORD has no record then
select cycle, row, size_bytes as size, allocation_time_ns as time_ns
from (select *, count(*) over (partition by cycle) as rows from db_op_memory)
anti join (select cycle, timestamp_ns as allocation_time_ns from db_memory_record) as records using (cycle, allocation_time_ns)
where allocation_time_ns is not null and cycle in (select cycle from db_memory_record)
qualify count(*) over (partition by cycle) <= 0.1 * rows

-- check: memory_tables_tell_the_same
-- needs: db_npu_op_mem, db_op_memory
-- about: A block of an operator in NPU_OP_MEM is an allocation and the next release of the same operator and address. Exact, bytes.
-- message: operator {name} took {size} bytes at {time_ns} ns and released them at {end_ns} ns {here} times here, {there} times in
--   NPU_OP_MEM
with made as (from engine_blocks),
sums as (
  select cycle, name, size_bytes, time_ns, released_ns, sum(here) as here, sum(1 - here) as there
  from (
    select cycle, name, size_bytes, allocation_time_ns as time_ns, release_time_ns as released_ns, 1 as here
    from db_op_memory semi join (select distinct cycle, operator_name as name from db_npu_op_mem) using (cycle, name)
    union all
    select cycle, operator_name, size_bytes, timestamp_ns, released_ns, 0 from made)
  where cycle in (select cycle from made)
  group by all having sum(here) <> sum(1 - here))
select cycle, coalesce(text_of(cycle, name), name::text) as name, size_bytes as size, time_ns,
  coalesce(released_ns::text, 'no') as end_ns, here, there
from sums

-- check: communication_of_the_database_adds_up
-- code: I109
-- needs: db_comm_analyzer_time
-- in: db_comm_analyzer_time
-- about: idle = elapse - transit - wait.
-- tolerance: 1 ns, and half a ns for each of the four
-- message: idle is {idle_ms:.9g} ms, elapse - transit - wait is {rest_ms:.9g} ms
select cycle, row, idle_time_ns / 1e6 as idle_ms, rest_ns / 1e6 as rest_ms
from (
  select *, elapse_time_ns::hugeint - transit_time_ns - wait_time_ns as rest_ns from db_comm_analyzer_time)
where abs(rest_ns - idle_time_ns) > 3

-- check: communication_of_the_database_adds_up
-- about: Synchronization is part of wait.
-- tolerance: 1 ns, and half a ns for each of the two
-- message: synchronization is {own_ms:.9g} ms, more than wait, {wait_ms:.9g} ms
select cycle, row, synchronization_time_ns / 1e6 as own_ms, wait_time_ns / 1e6 as wait_ms
from db_comm_analyzer_time where synchronization_time_ns - wait_time_ns > 2

-- check: communication_of_the_database_adds_up
-- each: table = db_comm_analyzer_bandwidth; db_comm_analyzer_matrix
-- needs: {table}
-- in: {table}
-- about: Bandwidth = size / time; a byte a ns is a GB/s.
-- tolerance: 1e-4 GB/s, 1e-6 of it, and what half a byte and half a ns cost
-- message: bandwidth is {own:.9g} GB/s, {size:.9g} MB in {time_ms:.9g} ms are {real:.4f}
select cycle, row, bandwidth_gb_per_s as own, transit_size_bytes / 1e6 as size, transit_time_ns / 1e6 as time_ms, real
from (
  select *, if(transit_time_ns > 0, transit_size_bytes / transit_time_ns, 0) as real,
    if(transit_time_ns > 0, 0.5 / transit_time_ns, 0) as half
  from {table})
where abs(bandwidth_gb_per_s - real) > 0.0001 + 0.000001 * real + half * (1 + real)

-- check: communication_of_the_database_adds_up
-- needs: db_comm_analyzer_bandwidth
-- in: db_comm_analyzer_bandwidth
-- about: Where a link of an operation lists its packages they add up to its size and its time, which are in each of their rows.
-- tolerance: 1 byte and 1 ns, 1e-9 of it, and half a byte for each package and half a ns for each row
-- message: {size:.9g} MB in {time_ms:.9g} ms, the packages of its link add up to {sizes_mb:.9g} MB in {times_ms:.9g} ms
select cycle, row, transit_size_bytes / 1e6 as size, transit_time_ns / 1e6 as time_ms, sizes / 1e6 as sizes_mb, times / 1e6 as times_ms
from (
  select cycle, row, transit_size_bytes, transit_time_ns, coalesce(sum(package_size_bytes * count) over link, 0) as sizes,
    coalesce(sum(total_duration_ns::double) over link, 0) as times, coalesce(sum(count) over link, 0) as packages,
    count(*) over link as rows
  from db_comm_analyzer_bandwidth
  window link as (partition by cycle, hccl_op_name, group_name, transport_type, step, type))
where packages > 0 and (
  abs(transit_size_bytes - sizes) > 1.5 + 1e-9 * sizes + 0.5 * packages
  or abs(transit_time_ns - times) > 1.5 + 1e-9 * times + 0.5 * rows)

-- check: operations_are_made_of_their_tasks
-- code: I109
-- needs: db_communication_op, db_communication_task_info, db_task
-- in: db_communication_task_info
-- where: level1
-- about: Where there are operations there are tasks of them.
-- message: it has no rows, and COMMUNICATION_OP has {operations} operations
select cycle, count(*) as operations
from db_communication_op where cycle not in (select distinct cycle from db_communication_task_info)
group by cycle

-- check: operations_are_made_of_their_tasks
-- in: db_communication_op
-- about: An operation lasts from the start of its first task to the end of its last one. Exact; not checked where most begin elsewhere,
--   since then it is another version. A warning where it lies inside of its tasks: newer versions only take those of its main stream.
-- source: msprof: communication_info_processor.cpp (FormatData: all tasks, later those with isMaster)
-- message: operation {op_id} lasts from {start_ns} to {end_ns} ns, its {tasks} tasks in COMMUNICATION_TASK_INFO from {first_ns} to
--   {last_ns} ns
select *, if(start_ns >= first_ns and end_ns <= last_ns, 'warning', 'error') as severity
from operation_tasks where is_meant and (start_ns <> first_ns or end_ns <> last_ns)

-- check: operations_are_made_of_their_tasks
-- severity: warning
-- about: An operation has tasks, where some operation has.
-- message: operation {op_id} has no task in COMMUNICATION_TASK_INFO
select cycle, row, op_id from operation_tasks where tasks is null and op_id is not null

-- check: operations_are_made_of_their_tasks
-- each: column, of_task = op_name, name; group_name, group_name
-- about: The tasks of an operation carry its name and its group. Exact.
-- message: {column} of operation {op_id} is {own}, of a task of it in COMMUNICATION_TASK_INFO it is {other}
select operation.cycle, operation.row, operation.op_id,
  coalesce(text_of(operation.cycle, operation.{column}), operation.{column}::text, 'null') as own,
  coalesce(text_of(operation.cycle, task.{of_task}), task.{of_task}::text, 'null') as other
from db_communication_op as operation
join (
  select cycle, op_id, {of_task}
  from db_communication_task_info semi join db_task using (cycle, global_task_id)
  group by all) as task
  on task.cycle = operation.cycle and task.op_id = operation.op_id and task.{of_task} is distinct from operation.{column}
qualify row_number() over (partition by operation.cycle, operation.row) = 1

-- check: communication_tables_have_the_same_operations
-- code: I114
-- needs: db_comm_analyzer_time
-- in: db_comm_analyzer_time
-- about: An operation of a group has one row in a step. Exact.
-- message: operation {operation} of group {group_name} has a second row in {step}
select cycle, row, hccl_op_name as operation, group_name, coalesce(nullif(step, ''), 'no step') as step
from db_comm_analyzer_time
qualify row_number() over (partition by cycle, coalesce(step, ''), group_name, hccl_op_name, type order by row) > 1

-- check: communication_tables_have_the_same_operations
-- code: I109
-- each: table, operation = db_comm_analyzer_bandwidth, hccl_op_name; db_comm_analyzer_matrix, op_name
-- needs: {table}, db_comm_analyzer_time
-- in: {table}
-- about: An operation has its row in CommAnalyzerTime, by step, group and name. Exact.
-- message: operation {operation} of group {group_name} in {step} has no row in CommAnalyzerTime
select cycle, row, operation, group_name, coalesce(nullif(step, ''), 'no step') as step
from (select cycle, row, coalesce(step, '') as step, group_name, {operation} as operation from {table}) as reported
anti join (select cycle, coalesce(step, '') as step, group_name, hccl_op_name as operation from db_comm_analyzer_time) as times
  using (cycle, step, group_name, operation)
where operation not in ('', 'Total Op Info')

-- check: communication_tables_have_the_same_operations
-- invariant: totals_are_sums
-- needs: db_comm_analyzer_matrix, db_comm_analyzer_bandwidth, db_comm_analyzer_time
-- in: db_comm_analyzer_matrix
-- about: `<type>-total` of a group moved as much between devices as CommAnalyzerBandwidth says of all operations of that type, and is
--   there for each type that moved.
-- tolerance: 1 byte and 1 ns, 1e-9 of it, and half of each for each row
-- message: {kind}-total of group {group_name} in {step} is {size:.9g} MB in {time_ms:.9g} ms between devices, the operations in
--   CommAnalyzerBandwidth moved {reported_mb:.9g} MB in {reported_ms:.9g} ms
select cycle, kind, group_name, step, size_total / 1e6 as size, time_total / 1e6 as time_ms,
  size_reported / 1e6 as reported_mb, time_reported / 1e6 as reported_ms
from moved_by_kind
where abs(size_total - size_reported) > 1 + 1e-9 * size_reported + 0.5 * rows or abs(time_total - time_reported) > 1 + 1e-9 * time_reported + 0.5 * rows

-- check: communication_of_the_database_is_what_ran
-- code: I113
-- needs: db_comm_analyzer_time, db_communication_op
-- in: db_comm_analyzer_time
-- about: Some operation of CommAnalyzerTime is in COMMUNICATION_OP, by its name.
-- message: none of its {rows} operations is in COMMUNICATION_OP of the profiler's database: one of the two is of another run
from operations_apart

-- check: communication_of_the_database_is_what_ran
-- code: I109
-- about: Each operation in CommAnalyzerTime ran.
-- source: torch_npu: prof_db_parse/_communication_db_parser.py
-- message: operation {name} did not run: COMMUNICATION_OP does not have it
select cycle, row, name
from lost_operations
where cycle in (select cycle from db_communication_op) and cycle not in (select cycle from operations_apart)

-- check: communication_of_the_database_is_what_ran
-- about: elapse_time of an operation = endNs - startNs. A warning where it is shorter: it is that of the tasks of its main stream only, and
--   COMMUNICATION_OP has all of them in some versions.
-- tolerance: 2 ns, 1e-9 of it, and half a ns
-- source: msprof: communication_parser.py (op_time_parser), communication_info_processor.cpp (FormatData)
-- message: elapse_time of {name} is {elapse_ms:.9g} ms, in COMMUNICATION_OP it lasts {lasts_ms:.9g} ms
select cycle, row, name, elapse_ns / 1e6 as elapse_ms, lasts_ns / 1e6 as lasts_ms, if(elapse_ns < lasts_ns, 'warning', 'error') as severity
from paired_operations where abs(elapse_ns::hugeint - lasts_ns) > 2.5 + 1e-9 * lasts_ns

-- check: communication_of_the_database_is_what_ran
-- about: start_timestamp of an operation is startNs on another clock (21 us off for all four real operations).
-- tolerance: 1 ms, and 1e-4 of the session: both clocks may drift
-- message: {name} starts at {reported_us:.3f} us here, at {start_us:.3f} us in COMMUNICATION_OP
with sessions as (
  select cycle, any_value(end_time_ns - start_time_ns) as session_ns from db_session_time_info group by cycle having count(*) = 1)
select cycle, row, name, reported_ns / 1000 as reported_us, start_ns / 1000 as start_us
from paired_operations left join sessions using (cycle)
where abs(reported_ns - start_ns) > 1000000 + coalesce(greatest(session_ns, 0), 0) // 10000

-- check: communication_of_the_database_is_what_ran
-- in: db_communication_op
-- about: Each operation that ran in a step has its row in CommAnalyzerTime: where it begins between the first and the last operation of
--   a step, and in torch_npu where it begins further inside a step than the two clocks differ.
-- message: operation {name} has no row in CommAnalyzerTime
with clocks as (
  select cycle, least(1000000, max(abs(reported_ns - start_ns)) + 1000) as apart_ns from paired_operations group by cycle),
spans as (
  select cycle, min(ran.start_ns)::hugeint as start_ns, max(ran.end_ns)::hugeint as end_ns
  from timed_operations join ran_operations as ran using (cycle, name)
  group by cycle, step
  union all
  select cycle, begins_ns::hugeint + coalesce(apart_ns, 1000000), ends_ns::hugeint - coalesce(apart_ns, 1000000)
  from device_steps left join clocks using (cycle)
  where step <> '' or cycle not in (select cycle from recorded_steps)),
edges as (
  select cycle, row, name, start_ns::hugeint as start_ns, null as end_ns
  from ran_operations anti join timed_operations using (cycle, name)
  where cycle not in (select cycle from operations_apart)
  union all
  select cycle, null, null, start_ns, end_ns from spans)
select cycle, row, coalesce(name, 'without a name') as name
from (
  select *, max(end_ns) over (partition by cycle order by start_ns, row is null rows unbounded preceding) as latest_ns from edges)
where row is not null and start_ns < latest_ns

-- check: steps_of_the_database_add_up
-- code: I108
-- needs: db_step_trace_time
-- in: db_step_trace_time
-- about: communication = what is overlapped + what is not.
-- tolerance: 2 ns: three decimals of a us, added up as floats
-- message: overlapped is {over_us:.9g} us, the rest of communication is {rest_us:.9g} us
select cycle, row, overlapped_ns / 1000 as over_us, rest_ns / 1000 as rest_us
from (select *, communication_ns - communication_not_overlapped_ns as rest_ns from db_step_trace_time)
where abs(rest_ns::hugeint - overlapped_ns) > 2

-- check: steps_of_the_database_add_up
-- about: What is not overlapped = bubble + communication without receive.
-- tolerance: 2 ns: three decimals of a us, added up as floats
-- message: communication without receive is {sent_us:.9g} us, what is not overlapped minus bubble is {rest_us:.9g} us
select cycle, row, communication_not_overlapped_and_exclude_receive_ns / 1000 as sent_us, rest_ns / 1000 as rest_us
from (select *, communication_not_overlapped_ns - bubble_ns as rest_ns from db_step_trace_time)
where abs(rest_ns::hugeint - communication_not_overlapped_and_exclude_receive_ns) > 2

-- check: steps_of_the_database_add_up
-- about: computing + communication not overlapped + free = stage + bubble. It may be less where a device has several steps.
-- tolerance: 0.5 us, as in step_trace_time.csv
-- message: computing + communication not overlapped + free is {parts_us:.9g} us, stage + bubble is {whole_us:.9g} us
select cycle, row, parts / 1000 as parts_us, whole / 1000 as whole_us
from (
  select cycle, row, computing_ns::hugeint + communication_not_overlapped_ns + free_ns as parts, stage_ns::hugeint + bubble_ns as whole,
    count(*) over (partition by cycle, device_id) = 1 as is_alone
  from db_step_trace_time)
where parts - whole > 500 or is_alone and parts - whole < -500

-- check: steps_of_the_database_add_up
-- code: I113
-- headline: two tables have different steps
-- needs: db_step_trace_time, db_step_time
-- about: The steps of StepTraceTime are those of STEP_TIME. Exact.
-- message: it holds steps {here}, STEP_TIME in the profiler's database steps {there}
with here as (select cycle, list_sort(list(distinct step)) as steps from db_step_trace_time where step <> '' group by cycle),
there as (select cycle, list_sort(list(distinct id::varchar)) as steps from db_step_time where id is not null group by cycle)
select cycle, array_to_string(here.steps, ', ') as here, array_to_string(there.steps, ', ') as there
from here join there using (cycle) where here.steps <> there.steps

-- check: steps_are_the_marks_of_the_host
-- code: I113
-- headline: two tables have different steps
-- needs: db_step_time, db_pytorch_api
-- in: db_step_time
-- about: STEP_TIME has the steps that ProfilerStep#N of PYTORCH_API mark.
-- message: PYTORCH_API marks step {number} (ProfilerStep#{number}), STEP_TIME does not have it
select cycle, number from host_step_marks anti join (select cycle, id as number from db_step_time) as steps using (cycle, number)

-- check: steps_are_the_marks_of_the_host
-- code: I108
-- about: A step lasts as long as its mark. Exact.
-- message: step {id} lasts from {start_ns} to {end_ns} ns, ProfilerStep#{id} in PYTORCH_API from {marked_ns} to {until_ns} ns
select steps.cycle, row, id, steps.start_ns, steps.end_ns, marks.start_ns as marked_ns, marks.end_ns as until_ns
from db_step_time as steps join host_step_marks as marks on marks.cycle = steps.cycle and marks.number = steps.id
where steps.start_ns <> marks.start_ns or steps.end_ns <> marks.end_ns

-- check: step_times_are_what_ran
-- code: I108
-- needs: db_step_trace_time, db_task, db_compute_task_info, db_cann_api
-- in: db_step_trace_time
-- about: A row of StepTraceTime = lengths of what its tasks of COMPUTE_TASK_INFO and its collective operations cover. Its tasks are
--   those whose launch (CANN_API of type node) is in the step's STEP_TIME; it reaches from the first of them to the end of the last
--   or of the step, and its operations of COMMUNICATION_OP begin in there. Overlapped counts once; free is what is left from the first
--   to the last, stage all of that but receives; preparing is how long after the start of the step the first begins. Other versions
--   of torch_npu take other tasks and operations: a row has to agree with one of them. Where most of it is off that is remarkable
--   only: so is the rule then, of a version of which no real output is known.
-- tolerance: 2 ns, and 1e-9 of it
-- source: torch_npu: prof_db_parse/_trace_step_time_db_parser.py and _step_info_db_parser.py
-- message: {name} is {own_us:.9g} us, what ran {which} makes {reported_us:.9g} us
select cycle, row, name, own / 1000 as own_us, reported / 1000 as reported_us, coalesce('in step ' || nullif(step, ''), 'in all') as which,
  if(off <= 3, 'error', 'warning') as severity
from compared_steps where is_off(own, reported)

-- check: spans_of_the_database_have_two_ends
-- code: I106
-- each: table, begin, end = db_task, start_ns, end_ns; db_communication_op, start_ns, end_ns; db_cann_api, start_ns, end_ns;
--   db_pytorch_api, start_ns, end_ns; db_step_time, start_ns, end_ns; db_session_time_info, start_time_ns, end_time_ns
-- needs: {table}
-- in: {table}
-- about: What starts ends no earlier. Exact; events without duration are real (PROFILING_ENABLE).
-- message: it ends {early_ns} ns before it starts
select cycle, row, {begin} - {end} as early_ns from {table} where {begin} > {end}

-- check: ids_of_the_database_resolve
-- code: I115
-- needs: db_string_ids
-- in: db_string_ids
-- about: Every name is an id of STRING_IDS. Exact.
-- message: {name} is {id}, which STRING_IDS.id does not have
select cycle, row, place, name, id from ids_of_texts anti join db_string_ids using (cycle, id) where id is not null

-- check: ids_of_the_database_resolve
-- each: table, column, other, key = db_compute_task_info, global_task_id, db_task, global_task_id;
--   db_communication_task_info, global_task_id, db_task, global_task_id; db_communication_task_info, op_id, db_communication_op, op_id;
--   db_task_pmu_info, global_task_id, db_task, global_task_id; db_pytorch_api, callchain_id, db_pytorch_callchains, id;
--   db_npu_module_mem, module_id, db_enum_module, id; db_pytorch_api, connection_id, db_connection_ids, id;
--   db_cann_api, type, db_enum_api_type, id; db_pytorch_api, type, db_enum_api_type, id; db_task, device_id, db_npu_info, id;
--   db_rank_device_map, device_id, db_npu_info, id
-- needs: {table}, {other}
-- in: {table}
-- about: Tasks, operations, modules, devices, kinds and call chains are in their own tables. Exact. Not the connection ids of TASK: two
--   of 552 are in no CANN_API of a correct database. A rank of several devices has device -1.
-- message: {column} is {id}, which {key} of {other} does not have
select cycle, row, {column} as id
from {table} anti join (select cycle, {key} as {column} from {other}) as there using (cycle, {column})
where {column} is not null and ('{table}' <> 'db_rank_device_map' or {column} >= 0)

-- check: ids_of_the_database_resolve
-- each: table, column, other = db_communication_op, data_type, db_enum_hccl_data_type;
--   db_communication_task_info, data_type, db_enum_hccl_data_type; db_communication_task_info, link_type, db_enum_hccl_link_type;
--   db_communication_task_info, transport_type, db_enum_hccl_transport_type;
--   db_communication_task_info, rdma_type, db_enum_hccl_rdma_type
-- needs: {table}, {other}
-- in: {table}
-- about: What HCCL has names for is in its enumerations; from 65534 on it is none, or unknown. Exact.
-- message: {column} is {id}, which {other} does not have
select cycle, row, {column} as id
from {table} anti join (select cycle, id as {column} from {other}) as there using (cycle, {column})
where {column} < 65534

-- check: ids_of_the_database_resolve
-- code: S102
-- each: slot = ascend_pytorch_profiler; ascend_mindspore_profiler
-- needs: {slot}, database_tables
-- in: {slot}
-- about: The table that ids lead to is there. Not an enumeration: other versions may have none.
-- message: table '{absent}' is missing: {name} leads to it
with pointing as (
  select cycle, 'TASK' as absent, 'COMPUTE_TASK_INFO.globalTaskId' as name from lacking('COMPUTE_TASK_INFO', 'TASK')
  union all select cycle, 'TASK', 'COMMUNICATION_TASK_INFO.globalTaskId' from lacking('COMMUNICATION_TASK_INFO', 'TASK')
  union all select cycle, 'TASK', 'TASK_PMU_INFO.globalTaskId' from lacking('TASK_PMU_INFO', 'TASK')
  union all select cycle, 'COMMUNICATION_OP', 'COMMUNICATION_TASK_INFO.opId' from lacking('COMMUNICATION_TASK_INFO', 'COMMUNICATION_OP')
  union all select cycle, 'PYTORCH_CALLCHAINS', 'PYTORCH_API.callchainId' from lacking('PYTORCH_API', 'PYTORCH_CALLCHAINS')
  where cycle in (select cycle from db_pytorch_api where callchain_id is not null)
  union all select cycle, 'CONNECTION_IDS', 'PYTORCH_API.connectionId' from lacking('PYTORCH_API', 'CONNECTION_IDS')
  where cycle in (select cycle from db_pytorch_api where connection_id is not null))
select cycle, absent, min(name) as name from pointing group by cycle, absent

-- check: ids_of_the_database_are_unique
-- code: I114
-- each: table, column = db_string_ids, id; db_step_time, id
-- needs: {table}
-- in: {table}
-- about: An id has one row. Exact.
-- message: {column} {id} has a second row
select cycle, row, {column} as id
from {table} semi join (select cycle, {column} from {table} group by all having count(*) > 1) as repeated using (cycle, {column})
qualify row_number() over (partition by cycle, {column} order by row) > 1

-- check: ids_of_the_database_are_unique
-- each:
-- needs: db_task
-- in: db_task
-- about: A task has one row for each time that it ran: one of a graph runs again in each step, with the same number. Exact.
-- source: msprof: db_assembler.cpp (SaveAscendTaskData: the number is that of device, stream, task, context and batch),
--   overlap_analysis_assembler.cpp (several times of one task)
-- message: task {id} has a second row
select cycle, row, global_task_id as id
from db_task semi join (from repeated_tasks) as repeated using (cycle, global_task_id)
qualify row_number() over (partition by cycle, global_task_id, start_ns order by row) > 1

-- check: ids_of_the_database_are_unique
-- each:
-- needs: db_compute_task_info
-- in: db_compute_task_info
-- about: A task is described once, where none of the database's runs again: tasks of a graph may be described for each model.
-- source: msprof: db_assembler.cpp, overlap_analysis_assembler.cpp (tasks of a graph that are described again are left out)
-- message: task {id} has a second row
select cycle, row, global_task_id as id
from db_compute_task_info
where cycle not in (select cycle from repeated_tasks)
qualify row_number() over (partition by cycle, global_task_id order by row) > 1

-- check: what_the_database_holds_lies_in_the_session
-- code: I113
-- headline: an event is outside of the session
-- needs: db_session_time_info
-- in: db_session_time_info
-- about: No profiler runs for a month.
-- message: the session lasts {days:.6g} days
select cycle, any_value(end_time_ns - start_time_ns) / 86400e9 as days
from db_session_time_info group by cycle having count(*) = 1 and days > 31

-- check: what_the_database_holds_lies_in_the_session
-- invariant: inside_the_window
-- about: All times lie in the session: else a table is of another run, or in another unit. A warning of NPU_MODULE_MEM: only newer versions leave
--   out what is older, and a driver may have sampled before.
-- tolerance: 10 s: device times are joined with the session's by the profiler's own correlation of clocks
-- message: {name} is {after_s:.6g} s after the start of the session, outside of it
with sessions as (
  select cycle, any_value(start_time_ns) as start_ns, any_value(end_time_ns) as end_ns
  from db_session_time_info group by cycle having count(*) = 1)
select cycle, row, place, name, (at_ns - start_ns) / 1e9 as after_s, if(place = 'db_npu_module_mem', 'warning', 'error') as severity
from times_of_databases join sessions using (cycle)
where end_ns is not null and (at_ns - start_ns < -10000000000 or at_ns - end_ns > 10000000000)

-- check: the_database_is_of_its_rank
-- code: I113
-- headline: a file is of another rank
-- needs: db_rank_device_map, database_tables
-- in: db_rank_device_map
-- about: The rank in the name of `..._profiler_<rank>.db` is one of RANK_DEVICE_MAP. Exact.
-- message: it says it is of rank {ranks}, the file's name says {named}
with names as (
  select cycle, try_cast(regexp_extract(file, '_([0-9]+)\.db$', 1) as bigint) as named
  from database_tables where name = 'RANK_DEVICE_MAP')
select cycle, any_value(named) as named, some_of(list(rank_id order by row)) as ranks
from db_rank_device_map join names using (cycle)
where named is not null
group by cycle having not bool_or(rank_id is not distinct from named)

-- check: something_ran_according_to_the_database
-- code: C112
-- each: slot = ascend_pytorch_profiler; ascend_mindspore_profiler
-- needs: {slot}, database_tables
-- in: {slot}
-- at: $.TASK
-- where: npu
-- about: TASK has rows where the NPU was traced.
-- message: the NPU was traced, and no task is here
select cycle from database_tables where name = 'TASK' and is_there and rows = 0

-- check: something_ran_according_to_the_database
-- each: slot = ascend_pytorch_profiler; ascend_mindspore_profiler
-- at: $.TASK
-- when: npu
-- about: TASK is there where a file says that the NPU was traced: a table without rows may not be written at all.
-- message: the NPU was traced, and no task is here
select cycle from database_tables where name = 'TASK' and not is_there

-- check: what_ran_is_described
-- code: S102
-- each: slot = ascend_pytorch_profiler; ascend_mindspore_profiler
-- needs: {slot}, db_task, database_tables
-- in: {slot}
-- where: aicore
-- about: Where TASK has kernels there is COMPUTE_TASK_INFO. Not where the profiler's level has none.
-- message: table 'COMPUTE_TASK_INFO' is missing: TASK has {kernels} kernels
select cycle, count(*) as kernels from kernel_tasks
where cycle in (select cycle from database_tables where name = 'COMPUTE_TASK_INFO' and not is_there)
group by cycle

-- check: what_ran_is_described
-- code: C103
-- needs: db_task, db_compute_task_info
-- in: db_compute_task_info
-- where: aicore
-- about: Where TASK has kernels COMPUTE_TASK_INFO has rows. Not where the profiler's level has none.
-- message: it has no rows, TASK has {kernels} kernels
select cycle, count(*) as kernels from kernel_tasks where cycle not in (select distinct cycle from db_compute_task_info) group by cycle

-- check: what_ran_is_described
-- code: I101
-- headline: a task is in one table only
-- in: db_task
-- where: aicore
-- about: A kernel of TASK, or another task of its launch, is in COMPUTE_TASK_INFO, where nine kernels in ten are. On the real database
--   17 of 202 are shadows of a task that is described.
-- message: task {task} ({kind}) is a kernel, COMPUTE_TASK_INFO does not have it
select cycle, row, global_task_id as task, kind
from (select *, count(*) over (partition by cycle) as rows from kernel_tasks)
anti join db_compute_task_info using (cycle, global_task_id)
anti join (select cycle, connection_id from db_task semi join db_compute_task_info using (cycle, global_task_id)) as launched
  using (cycle, connection_id)
where connection_id is not null and cycle in (select cycle from db_compute_task_info)
qualify count(*) over (partition by cycle) <= 0.1 * rows

-- check: tables_of_the_database_come_together
-- code: S102
-- each: filled, absent = CONNECTION_IDS, PYTORCH_API; PYTORCH_CALLCHAINS, PYTORCH_API
-- needs: ascend_pytorch_profiler, database_tables
-- in: ascend_pytorch_profiler
-- about: What operators of the host lead to comes with them.
-- message: table '{absent}' is missing: {filled} has {rows} rows
from lacking('{filled}', '{absent}')

-- check: tables_of_the_database_come_together
-- when: aicore
-- about: CANN's own calls are there at every level.
-- message: table 'CANN_API' is missing: COMPUTE_TASK_INFO has {rows} rows
from lacking('COMPUTE_TASK_INFO', 'CANN_API')

-- check: tables_of_the_database_come_together
-- each: absent = MEMORY_RECORD; OP_MEMORY
-- when: memory, npu
-- about: torch_npu writes both tables of memory with profile_memory.
-- source: torch_npu: prof_db_parse/
-- message: table '{absent}' is missing: profile_memory was on
from lacking('PYTORCH_API', '{absent}')

-- check: tables_of_the_database_come_together
-- code: I107
-- each: table = db_memory_record; db_op_memory
-- needs: {table}, db_pytorch_api
-- in: {table}
-- when: memory, npu
-- about: With profile_memory the tables of memory have rows.
-- message: it has no rows, and profile_memory was on
select distinct cycle from db_pytorch_api where cycle not in (select distinct cycle from {table})

-- check: tables_of_the_database_come_together
-- code: S102
-- needs: db_pytorch_api, db_meta_data, database_tables
-- in: ascend_pytorch_profiler
-- about: torch_npu writes STEP_TIME where ProfilerStep#N of PYTORCH_API mark steps, since it writes META_DATA too.
-- message: table 'STEP_TIME' is missing: PYTORCH_API marks {steps} steps, the first is {number}
select cycle, count(*) as steps, min(number) as number
from host_step_marks
where cycle in (select cycle from database_tables where name = 'STEP_TIME' and not is_there)
group by cycle

-- check: tables_of_the_database_come_together
-- needs: analysis, ascend_pytorch_profiler, database_tables
-- in: analysis
-- about: torch_npu always writes StepTraceTime.
-- message: table 'StepTraceTime' is missing: torch_npu always writes it
select cycle from database_tables where name = 'StepTraceTime' and not is_there

-- check: tables_of_the_database_come_together
-- each: slot, absent = analysis, CommAnalyzerTime; analysis, CommAnalyzerBandwidth; analysis, CommAnalyzerMatrix;
--   ascend_pytorch_profiler, COMMUNICATION_TASK_INFO
-- in: {slot}
-- when: level1, npu
-- about: From level 1 on the analysis of communication has all of its tables, and operations their tasks.
-- message: table '{absent}' is missing: COMMUNICATION_OP has {rows} operations
from lacking('COMMUNICATION_OP', '{absent}')

-- check: tables_of_the_database_come_together
-- each: slot, filled = analysis, CommAnalyzerBandwidth; analysis, CommAnalyzerMatrix; communication_analyzer, CommAnalyzerBandwidth;
--   communication_analyzer, CommAnalyzerMatrix
-- needs: {slot}, database_tables
-- in: {slot}
-- about: What the links of operations carried comes with their times.
-- message: table 'CommAnalyzerTime' is missing: {filled} has {rows} rows
from lacking('{filled}', 'CommAnalyzerTime')

-- check: tables_of_the_database_come_together
-- each: slot = ascend_pytorch_profiler; ascend_mindspore_profiler
-- needs: {slot}, db_comm_analyzer_time, database_tables
-- in: {slot}
-- about: Operations whose times are in CommAnalyzerTime ran.
-- message: table 'COMMUNICATION_OP' is missing: CommAnalyzerTime has {rows} operations
from lacking('CommAnalyzerTime', 'COMMUNICATION_OP')

-- check: rows_of_the_database_are_written_once
-- code: I114
-- headline: a row is written twice
-- each: table = db_pytorch_api; db_connection_ids; db_pytorch_callchains; db_op_memory; db_npu_op_mem; db_npu_mem; db_hbm;
--   db_llc; db_cann_api; db_communication_op; db_gc_record; db_session_time_info; db_npu_info; db_host_info;
--   db_step_trace_time; db_comm_analyzer_bandwidth; db_comm_analyzer_matrix
-- needs: {table}
-- in: {table}
-- about: No two rows of a table are the same in every column: a row is one event of a thread, one sample of a time, one link of an operation. Exact.
--   Not of MEMORY_RECORD, whose rows have no identity.
-- source: msprof: db_assembler.cpp; torch_npu: prof_db_parse/_fwk_api_db_parser.py, _memory_db_parser.py, _basic_db_parser.py,
--   _communication_db_parser.py
-- message: it is here a second time, the same in every column
select cycle, again as row
from (select * exclude (row), max(row) as again from {table} group by all having count(*) > 1)

-- check: rows_of_the_database_are_written_once
-- headline: a row is written twice
-- each: table = db_communication_task_info
-- about: So are tasks of operations, where no task of the database runs again, as those of a graph do.
-- message: it is here a second time, the same in every column
select cycle, again as row
from (
  select * exclude (row), max(row) as again from {table} where cycle not in (select cycle from repeated_tasks)
  group by all having count(*) > 1)

-- check: rows_of_the_database_are_written_once
-- headline: a row is written twice
-- severity: warning
-- each: table = db_acc_pmu; db_soc_bandwidth_level; db_aicore_freq; db_npu_module_mem; db_rank_device_map
-- about: A warning of readings that the device logs: msprof adds the frequency at the start and at the end to those that were read, which may be
--   the same, merges readings of one time when it draws them, and leaves out the kind of device of a module. Newer versions of msprof write the
--   rank of the device, and torch_npu adds its own row.
-- source: msprof: aicore_freq_processor.cpp, acc_pmu_assembler.cpp, npu_module_mem_processor.cpp; torch_npu: prof_db_parse/_basic_db_parser.py
-- message: it is here a second time, the same in every column
select cycle, again as row
from (select * exclude (row), max(row) as again from {table} group by all having count(*) > 1)

-- check: tables_of_facts_have_rows
-- code: C112
-- headline: a table without a row
-- each: slot = ascend_pytorch_profiler; ascend_mindspore_profiler
-- needs: {slot}, database_tables
-- in: {slot}
-- about: Tables of facts about the recording, and enumerations, are made together with their rows.
-- source: torch_npu: prof_db_parse/_basic_db_parser.py; msprof: analysis/csrc/application/database
-- message: table '{name}' has no row, and its writer makes it together with its rows: they are lost
select cycle, name from database_tables
where is_there and rows = 0 and name in (
  'SESSION_TIME_INFO', 'RANK_DEVICE_MAP', 'HOST_INFO', 'META_DATA', 'NPU_INFO', 'ENUM_API_TYPE', 'ENUM_MODULE', 'ENUM_HCCL_DATA_TYPE',
  'ENUM_HCCL_LINK_TYPE', 'ENUM_HCCL_RDMA_TYPE', 'ENUM_HCCL_TRANSPORT_TYPE')

-- check: tables_of_facts_have_rows
-- each:
-- needs: analysis, db_task, database_tables
-- in: analysis
-- about: torch_npu adds up the times of each step, and of all there is where no step is marked.
-- source: torch_npu: prof_db_parse/_trace_step_time_db_parser.py
-- message: table 'StepTraceTime' has no row, and {tasks} tasks ran
select cycle, count(*) as tasks
from db_task where cycle in (select cycle from database_tables where name = 'StepTraceTime' and is_there and rows = 0)
group by cycle

-- check: tables_of_facts_have_rows
-- code: S102
-- each: slot = ascend_pytorch_profiler; ascend_mindspore_profiler
-- needs: {slot}, database_tables
-- in: {slot}
-- about: The four enumerations of HCCL come together.
-- source: msprof: db_constant.h (ENUM_TABLE has the four), db_assembler.cpp (SaveEnumData writes all of it)
-- message: table '{absent}' is missing, and {there} of the four enumerations of HCCL are here
with enumerations as (
  select * from database_tables
  where name in ('ENUM_HCCL_DATA_TYPE', 'ENUM_HCCL_LINK_TYPE', 'ENUM_HCCL_RDMA_TYPE', 'ENUM_HCCL_TRANSPORT_TYPE'))
select absent.cycle, absent.name as absent, there
from (from enumerations where not is_there) as absent
join (select cycle, count(*) as there from enumerations where is_there group by cycle) using (cycle)

-- check: enumerations_name_what_they_stand_for
-- code: S102
-- headline: an enumeration names something else
-- each: table = db_enum_api_type; db_enum_hccl_data_type; db_enum_hccl_link_type; db_enum_hccl_rdma_type; db_enum_hccl_transport_type;
--   db_enum_mstx_event_type
-- needs: {table}
-- in: {table}
-- about: msprof and torch_npu write enumerations as they are in their source. A number that has had one name in every version has that name; a number
--   whose name changed, or that came later, is not checked. Exact.
-- source: msprof: unified_db_constant.h (three versions of 2023 to 2025), prof_common.h; torch_npu 2.1.0.post8 to 2.14.0:
--   _fwk_api_db_parser.py; real output of 2025
-- message: {id} is {name}, and its writer calls it {usual}
with known(kind, id, usual) as (values
  ('db_enum_api_type', 5000, 'runtime'), ('db_enum_api_type', 10000, 'node'), ('db_enum_api_type', 15000, 'model'),
  ('db_enum_api_type', 20000, 'acl'), ('db_enum_api_type', 50001, 'op'), ('db_enum_api_type', 50002, 'queue'),
  ('db_enum_api_type', 50003, 'trace'), ('db_enum_api_type', 50004, 'mstx'),
  ('db_enum_hccl_data_type', 0, 'INT8'), ('db_enum_hccl_data_type', 1, 'INT16'), ('db_enum_hccl_data_type', 2, 'INT32'),
  ('db_enum_hccl_data_type', 3, 'FP16'), ('db_enum_hccl_data_type', 4, 'FP32'), ('db_enum_hccl_data_type', 5, 'INT64'),
  ('db_enum_hccl_data_type', 6, 'UINT64'), ('db_enum_hccl_data_type', 7, 'UINT8'), ('db_enum_hccl_data_type', 8, 'UINT16'),
  ('db_enum_hccl_data_type', 9, 'UINT32'), ('db_enum_hccl_data_type', 10, 'FP64'), ('db_enum_hccl_data_type', 11, 'BFP16'),
  ('db_enum_hccl_data_type', 12, 'INT128'),
  ('db_enum_hccl_link_type', 0, 'ON_CHIP'), ('db_enum_hccl_link_type', 1, 'HCCS'), ('db_enum_hccl_link_type', 2, 'PCIE'),
  ('db_enum_hccl_link_type', 3, 'ROCE'), ('db_enum_hccl_link_type', 4, 'SIO'), ('db_enum_hccl_link_type', 5, 'HCCS_SW'),
  ('db_enum_hccl_link_type', 6, 'STANDARD_ROCE'),
  ('db_enum_hccl_rdma_type', 0, 'RDMA_SEND_NOTIFY'), ('db_enum_hccl_rdma_type', 1, 'RDMA_SEND_PAYLOAD'),
  ('db_enum_hccl_transport_type', 0, 'SDMA'), ('db_enum_hccl_transport_type', 1, 'RDMA'), ('db_enum_hccl_transport_type', 2, 'LOCAL'),
  ('db_enum_mstx_event_type', 0, 'marker'), ('db_enum_mstx_event_type', 1, 'push/pop'), ('db_enum_mstx_event_type', 2, 'start/end'),
  ('db_enum_mstx_event_type', 3, 'marker_ex'))
select cycle, row, id, name, usual
from {table} join (from known where kind = '{table}') as known using (id)
where name <> usual

-- check: times_of_the_database_move
-- code: I106
-- headline: a clock that stands still
-- each: table, column, name = db_task, start_ns, startNs; db_task, end_ns, endNs; db_cann_api, start_ns, startNs; db_cann_api, end_ns, endNs;
--   db_pytorch_api, start_ns, startNs; db_pytorch_api, end_ns, endNs; db_memory_record, timestamp_ns, timestamp;
--   db_op_memory, allocation_time_ns, allocationTime
-- needs: {table}
-- in: {table}
-- about: Rows are written one an event, each with the clock of its moment. Of sixteen or more not all have one time: four records of memory can, one of
--   each component.
-- source: msprof: task_processor.cpp, api_processor.cpp; torch_npu: prof_db_parse/_fwk_api_db_parser.py, _memory_db_parser.py; real output of 2025
-- message: all {rows} rows have the same {name}
select cycle, min(row) as row, count({column}) as rows from {table}
group by cycle having count({column}) >= 16 and count(distinct {column}) = 1

-- check: what_the_host_names_is_used
-- code: I115
-- each: table, key, column, what = db_connection_ids, id, connection_id, connections; db_pytorch_callchains, id, callchain_id, call stacks
-- needs: {table}, db_pytorch_api
-- in: {table}
-- about: torch_npu numbers the connections and the call stacks of its operators when it writes them: each belongs to a row of PYTORCH_API. Exact. Not
--   those below the first that a row has, which are of a directory that the same process analysed before; a warning where no row has any.
-- source: torch_npu: prof_db_parse/_fwk_api_db_parser.py, _id_manager.py (its numbers are never cleared), _parser_deps_config.py (DB_PARSER is a
--   thread); all 487 and 316 of real output
-- message: {lost} of {ids} {what} belong to no row of PYTORCH_API, the first is {id}: rows of it are lost
with first as (select cycle, min({column}) as first_id from db_pytorch_api group by cycle),
ids as (
  select distinct cycle, {key} as id, first_id from {table} join first using (cycle) where first_id is null or {key} >= first_id)
select ids.cycle, count(*) filter (used.id is null) as lost, count(*) as ids, min(ids.id) filter (used.id is null) as id,
  if(any_value(first_id) is null, 'warning', 'error') as severity
from ids left join (select distinct cycle, {column} as id from db_pytorch_api) as used on used.cycle = ids.cycle and used.id = ids.id
group by ids.cycle having lost > 0

-- check: what_the_host_names_is_used
-- needs: db_string_ids, db_pytorch_api
-- in: db_string_ids
-- about: torch_npu numbers its texts (from 2^28 on) when it writes a row that has them. Not checked where more than one in ten is used by no table
--   that is known: another version may have more tables. Not of the names of allocators: it numbers WORKSPACE to look for it.
-- source: torch_npu: _id_manager.py, _constant.py (START_STRING_ID_FWK_API), prof_db_parse/_memory_db_parser.py (_combine_record); all
--   973 of real output
-- message: {value} ({id}) is in no row: what had that name is lost
select cycle, row, id, to_json(value)::text as value
from (
  select *, count(*) over (partition by cycle) as texts from db_string_ids
  where id >= 268435456 and value not in ('WORKSPACE', 'PTA', 'GE', 'PTA+GE', 'APP'))
anti join (select distinct cycle, id from ids_of_texts) as used using (cycle, id)
where cycle in (select cycle from db_pytorch_api)
qualify count(*) over (partition by cycle) <= 0.1 * texts

-- check: call_stacks_are_whole
-- code: I115
-- headline: a call stack has gaps
-- needs: db_pytorch_callchains
-- in: db_pytorch_callchains
-- about: The frames of a call stack are numbered from 0 on, without a gap. Exact.
-- source: torch_npu: _id_manager.py (CallChainIdManager); all 316 of real output
-- message: call stack {id} has {frames} frames, numbered from {first} to {last}
select cycle, min(row) as row, id, count(*) as frames, min(stack_depth) as first, max(stack_depth) as last
from db_pytorch_callchains
group by cycle, id
having min(stack_depth) <> 0 or max(stack_depth) <> count(*) - 1 or count(distinct stack_depth) <> count(*)

-- check: launches_of_the_database_ran
-- code: C116
-- needs: db_cann_api, db_task
-- in: db_task
-- about: A launch (`launch`, type node) has a task with its connection: torch_npu waits for the device before it stops. Not checked where a graph was
--   captured, loaded or run. A warning where one in ten or fewer has none, since msprof leaves out tasks that the device logged nothing of and
--   those that begin before the session by the device's clock, and of MindSpore, of which nobody has read whether it waits.
-- source: torch_npu: profiler_mgr.cpp (Stop waits for the device); msprof: task_processor.cpp (LoadData, FilterDataByStartTime); all 191
--   launches of real output
-- message: {lost} of {launches} launches in CANN_API have no task in TASK, first connection {connection}: their work never arrived
with of_mindspore as (select cycle from database_tables where contains(file, 'ascend_mindspore_profiler')),
launched as (
  select api.cycle, connection_id
  from db_cann_api as api join db_texts as texts on texts.cycle = api.cycle and texts.id = api.name
  where text = 'launch' and type = 10000 and connection_id is not null and api.cycle not in (from database_graphs))
select launched.cycle, count(*) as launches, count(*) filter (ran.connection_id is null) as lost,
  min(launched.connection_id) filter (ran.connection_id is null) as connection, if(lost > 0.1 * launches and launched.cycle not in (from of_mindspore), 'error', 'warning') as severity
from launched
left join (select distinct cycle, connection_id from db_task) as ran
  on ran.cycle = launched.cycle and ran.connection_id = launched.connection_id
where launched.cycle in (select cycle from db_task)
group by launched.cycle having lost > 0

-- check: tasks_of_operations_are_described
-- code: I109
-- severity: warning
-- where: level1
-- needs: db_communication_op, db_communication_task_info, db_task
-- in: db_communication_task_info
-- about: A task of TASK that a collective operation launched, of a kind that tasks of operations have and kernels do not, is in
--   COMMUNICATION_TASK_INFO. A warning: msprof describes what ran below a call of HCCL, and a wait of the operation's own may not.
-- source: msprof: tree_analyzer.cpp (IsHcclTask, AnalyzeRuntimeNode); real output, all 296 tasks of four operations
-- message: {lost} of the {tasks} tasks that operations launched are not here, the first is task {task}
with launched as (
  select task.cycle, global_task_id, task_type
  from db_task as task semi join db_communication_op as operation
    on operation.cycle = task.cycle and operation.connection_id = task.connection_id),
described as (select distinct cycle, global_task_id from db_communication_task_info),
kinds as (
  select distinct launched.cycle, task_type
  from (from launched semi join described using (cycle, global_task_id)) as launched
  join db_texts on db_texts.cycle = launched.cycle and db_texts.id = task_type
  where not regexp_matches(text, '^(KERNEL|AI_|MIX_|AICPU)'))
select cycle, count(*) as tasks, count(*) filter (is_lost) as lost, min(global_task_id) filter (is_lost) as task
from (
  select launched.cycle, launched.global_task_id, described.global_task_id is null as is_lost
  from launched semi join kinds using (cycle, task_type)
  left join described on described.cycle = launched.cycle and described.global_task_id = launched.global_task_id)
group by cycle having lost > 0

-- check: kernels_of_a_stream_follow_each_other
-- code: I106
-- severity: warning
-- invariant: nothing_overlaps_on_a_stream
-- needs: db_task, db_compute_task_info
-- in: db_task
-- about: A stream runs one kernel at a time: of those that COMPUTE_TASK_INFO describes none begins before the one above on its stream ended. Not those
--   with a context, of which one task has several, and not checked where more than one in ten does. A warning: that tasks of a stream are in
--   order is documented, when the next of them may begin is not, and streams of a graph share the stream that runs them.
-- tolerance: 0.1 us: two reads of the device's clock
-- source: real output of three directories
-- message: task {task} of stream {stream} begins {early_us:.6g} us before the one above has ended
with described as (
  select cycle, row, global_task_id, stream_id, start_ns, end_ns,
    max(end_ns) over (
      partition by cycle, device_id, stream_id order by start_ns, end_ns, row rows between unbounded preceding and 1 preceding) as before_ns
  from (from db_task semi join db_compute_task_info using (cycle, global_task_id))
  where coalesce(context_id, 4294967295) = 4294967295)
select cycle, row, global_task_id as task, stream_id as stream, (before_ns - start_ns) / 1000 as early_us
from (select *, count(*) over (partition by cycle) as tasks from described)
where before_ns - start_ns > 100
qualify count(*) over (partition by cycle) <= 0.1 * tasks

-- check: blocks_of_the_database_are_in_its_record
-- code: I107
-- needs: db_op_memory, db_memory_record
-- in: db_op_memory
-- each: side = allocation; release
-- about: Where MEMORY_RECORD has a record of the time and device of an allocation or a release, one such record has its totals. A time with more
--   than a hundred records is not judged, and none where more than one in ten differs in all of its totals.
-- source: torch_npu: _memory_prepare_parser.py, prof_db_parse/_memory_db_parser.py; all 344 moments of real output
-- message: {allocated} of {reserved} bytes are allocated at the {side}, MEMORY_RECORD has other totals at that time
with ends as (
  select cycle, row, device_id, {side}_time_ns as at_ns, {side}_total_allocated_bytes as allocated, {side}_total_reserved_bytes as reserved,
    {side}_total_active_bytes as active
  from db_op_memory where {side}_time_ns is not null),
totals as (
  select *, count(*) over (partition by cycle, device_id, timestamp_ns) as times
  from (select cycle, device_id, timestamp_ns, total_allocated_bytes, total_reserved_bytes, total_active_bytes
    from db_memory_record semi join (select distinct cycle, at_ns as timestamp_ns from ends) using (cycle, timestamp_ns))),
met as (
  select ends.cycle, row, any_value(allocated) as allocated, any_value(reserved) as reserved,
    bool_or(total_allocated_bytes is not distinct from allocated and total_reserved_bytes is not distinct from reserved
      and (active is null or total_active_bytes is null or total_active_bytes = active)) as is_met,
    bool_or(total_allocated_bytes = allocated or total_reserved_bytes = reserved or total_active_bytes = active) as is_near
  from ends join totals
    on totals.cycle = ends.cycle and totals.device_id = ends.device_id and totals.timestamp_ns = ends.at_ns and times <= 100
  group by ends.cycle, row)
select cycle, row, allocated, reserved
from (select *, count(*) over (partition by cycle) as known, count(*) filter (is_near) over (partition by cycle) as near from met)
where not is_met
qualify count(*) over (partition by cycle) <= 0.1 * known or known < 10 or near >= 0.9 * known

-- check: samples_of_a_time_are_whole
-- code: I107
-- severity: warning
-- invariant: counted_twice_agrees
-- headline: a sample is lost
-- each: table, part, whole = db_npu_module_mem, module_id, module; db_llc, llc_id || '/' || mode, cache and mode; db_hbm, hbm_id || '/' || type, stack and type
-- needs: {table}
-- in: {table}
-- about: The driver reads all parts at a time: each time has a row for each of them. Not checked where more than three in five are absent: a published sample
--   was cut by hand. A warning: msprof writes what the driver sent row by row, and the driver is not public.
-- source: msprof: npu_module_mem_processor.cpp, hbm_processor.cpp, llc_processor.cpp; real output of three ranks, 77 modules at 14 times;
--   8 stacks and 2 caches at 13
-- message: {lost} of {cells} rows are missing: {parts} kinds of {whole} at {times} times have one each
with parts as (select distinct cycle, device_id, {part} as part from {table}),
times as (select distinct cycle, device_id, timestamp_ns from {table}),
counts as (
  select cycle, sum(parts) as parts, sum(times) as times, sum(parts * times) as cells, sum(filled) as filled
  from (select cycle, device_id, count(*) as parts from parts group by all)
  join (select cycle, device_id, count(*) as times from times group by all) using (cycle, device_id)
  join (select cycle, device_id, count(distinct ({part}, timestamp_ns)) as filled from {table} group by all) using (cycle, device_id)
  group by cycle)
select cycle, cells - filled as lost, cells, parts, times
from counts where filled < cells and filled >= 0.4 * cells

-- check: tensors_have_shape_type_and_format
-- code: I105
-- headline: the tensors of a kernel differ
-- needs: db_compute_task_info
-- in: db_compute_task_info
-- each: side = input; output
-- about: Shapes, types and formats of a kernel list the same tensors: the writer adds the three of each tensor at once. Exact.
-- source: msprof: cann_trace_db_dumper.cpp (AddTensorShapeInfo; N/A where there are none); all 187 kernels of real output
-- message: {side}s of task {task}: {shapes} shapes, {types} types, {formats} formats
with lists as (
  select kernel.cycle, row, global_task_id as task, trim(shapes.text, '"') as shape, trim(kinds.text, '"') as kind, trim(forms.text, '"') as form
  from db_compute_task_info as kernel
  join db_texts as shapes on shapes.cycle = kernel.cycle and shapes.id = {side}_shapes
  join db_texts as kinds on kinds.cycle = kernel.cycle and kinds.id = {side}_data_types
  join db_texts as forms on forms.cycle = kernel.cycle and forms.id = {side}_formats)
select cycle, row, task, listed_tensors(shape) as shapes, listed_tensors(kind) as types, listed_tensors(form) as formats
from lists
where not_the_same_tensors(shape, kind, form)

-- check: the_database_has_the_steps_asked_for
-- code: C101
-- needs: db_step_time, profiler_info_run
-- in: db_step_time
-- about: STEP_TIME has as many steps as the schedule has active ones. More is an error; fewer is a warning: the loop may have been left early on purpose.
-- source: torch_npu writes the schedule into profiler_info.json
-- message: the schedule has {planned} active steps, here are {steps}
select cycle, coalesce(active, active_2023) as planned, steps, if(steps > planned, 'error', 'warning') as severity
from profiler_info_run
join (select cycle, count(distinct id) as steps from db_step_time group by cycle) using (cycle)
where steps <> planned

-- check: the_session_is_that_of_profiler_info
-- code: I113
-- headline: a file is of another session
-- layouts: pt-npu
-- needs: db_session_time_info, profiler_info_run
-- in: db_session_time_info
-- about: The collection ends where profiler_info says that it did, within an hour.
-- tolerance: 10 s before: host and device have clocks of their own
-- source: torch_npu: profiler_interface.py (stop_trace, finalize_trace, _dump_profiler_info: all at once); real output
-- message: the session ended {apart_s:.6g} s away from the end of the collection in profiler_info
select cycle, abs(collection_time_end_ns::hugeint - end_ns) / 1e9 as apart_s
from profiler_info_run
join (select cycle, max(end_time_ns) as end_ns from db_session_time_info group by cycle) using (cycle)
where end_ns is not null and collection_time_end_ns::hugeint - end_ns not between -10000000000 and 3600000000000

-- check: kernels_have_their_launch
-- code: C116
-- needs: db_task, db_compute_task_info, db_cann_api
-- in: db_cann_api
-- about: A kernel that COMPUTE_TASK_INFO describes was launched by a function of CANN: CANN_API has its connection. Not checked where a graph was
--   captured, loaded or run; a launch from before the recording may be missing, and one that no function of CANN made has no connection.
-- tolerance: one in ten
-- source: msprof: tree_analyzer.cpp (GenHostTask, INVALID_VALUE), db_assembler.cpp; all 187 kernels of real output
-- message: {lost} of {kernels} kernels have a connection that CANN_API does not have, first {connection}: its rows are lost
select cycle, tasks as kernels, lost, connection from calls_of_tasks where kind = 'kernel' and lost > 0.1 * tasks

-- check: the_version_of_the_schema_is_whole
-- code: S102
-- headline: a fact of the database is missing
-- needs: db_meta_data
-- in: db_meta_data
-- about: The four rows of the version of the schema are written at once.
-- source: msprof: meta_data_processor.cpp, db_constant.h (one list of four); real output
-- message: it has no {absent}, and {there} of the four rows of the version
with parts as (select unnest(['SCHEMA_VERSION', 'SCHEMA_VERSION_MAJOR', 'SCHEMA_VERSION_MINOR', 'SCHEMA_VERSION_MICRO']) as absent),
there as (select cycle, list(name) as names, count(*) as there from db_meta_data where starts_with(name, 'SCHEMA_VERSION') group by cycle)
select cycle, absent, there from there cross join parts where not list_contains(names, absent)

-- check: links_of_the_matrix_are_whole
-- code: I109
-- needs: db_comm_analyzer_matrix
-- in: db_comm_analyzer_matrix
-- about: Each link of a kind of operation has its total and its fastest one (`<kind>-total`, `<kind>-top1`), where there are any of
--   both.
-- source: torch_npu: _communication_parser.py (integrate_matrix_data makes both of each link), prof_db_parse/_communication_db_parser.py;
--   all 8 links of real output
-- message: {kind} from rank {src_rank} to {dst_rank} has {has} and no {lacks}
with links as (
  select cycle, coalesce(step, '') as step, group_name, type, regexp_extract(hccl_op_name, '^(.*)-(top1|total)$', 1) as kind, src_rank, dst_rank,
    min(row) as row, bool_or(ends_with(hccl_op_name, '-total')) as has_total, bool_or(ends_with(hccl_op_name, '-top1')) as has_top
  from db_comm_analyzer_matrix where regexp_matches(hccl_op_name, '-(top1|total)$')
  group by all)
select cycle, row, kind, src_rank, dst_rank, if(has_total, 'a total', 'a fastest one') as has, if(has_total, 'fastest one', 'total') as lacks
from links
where has_total <> has_top and cycle in (select cycle from links where has_total) and cycle in (select cycle from links where has_top)

-- check: copies_of_the_database_have_their_call
-- code: C116
-- invariant: copies_ran
-- headline: the call of a copy is lost
-- needs: db_task, db_cann_api
-- in: db_cann_api
-- about: A copy (MEMCPY_ASYNC) was started by a function of CANN: CANN_API has its connection. Not checked where a graph was captured, loaded or run.
--   One from before the recording may be missing. The other direction does not hold: a copy that the host waits for (aclrtMemcpy) has no
--   task.
-- tolerance: one copy, and one in ten
-- source: msprof: tree_analyzer.cpp (GenHostTask, INVALID_VALUE), task_processor.cpp (hostType MEMCPY_ASYNC); all 24 copies of real output
-- message: {lost} of {copies} copies have a connection that CANN_API does not have, first {connection}: its rows are lost
select cycle, tasks as copies, lost, connection from calls_of_tasks where kind = 'copy' and lost > greatest(1, 0.1 * tasks)

-- check: operators_of_the_database_nest
-- code: I112
-- needs: db_pytorch_api, db_string_ids
-- in: db_pytorch_api
-- about: An operator that the dispatcher calls (`aten::add`, `npu::...`) ends before the one that called it: torch_npu notes both ends on the
--   thread that runs them.
-- source: torch: record_function.h, RecordFunction is a scope; torch_npu: prof_db_parse/_fwk_api_db_parser.py; all 444 of real output
-- message: {name} begins inside of {other} on its thread, and ends {late_us:.6g} us behind it
select cycle, row, to_json(name)::text as name, to_json(other)::text as other, (end_ns - other_ns) / 1000 as late_us
from (
  select api.cycle, row, text as name, start_ns, end_ns, lag(text) over around as other, lag(start_ns) over around as above_ns,
    lag(end_ns) over around as other_ns
  from db_pytorch_api as api join db_texts on db_texts.cycle = api.cycle and db_texts.id = api.name
  where regexp_full_match(text, '[a-z_]\w*::\w+') and end_ns >= start_ns
  window around as (partition by api.cycle, global_tid order by start_ns, end_ns desc, row))
where start_ns < other_ns and end_ns > other_ns
