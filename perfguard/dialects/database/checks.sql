-- What must hold in a database and in the one of its analysis. Where nothing else is said, the source is a real database of
-- torch_npu level 1 (msinsight test data): all of this holds for each of its rows.

-- check: memory_of_the_database_adds_up
-- code: I106
-- needs: db_memory_record
-- in: db_memory_record
-- about: The records of a component on a device are in the order of their times. Exact.
-- message: its time lies {early_ns} ns before that of its component's previous row
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
-- code: I107
-- each: length, released = duration, release_time; active_duration, active_release_time
-- needs: db_op_memory
-- in: db_op_memory
-- about: Durations of a block are what lies between its times. Exact.
-- message: {length} is {length_ns} ns, {released} - allocation_time is {life_ns} ns
select cycle, row, {length}_ns as length_ns, {released}_ns - allocation_time_ns as life_ns
from db_op_memory where {length}_ns <> {released}_ns - allocation_time_ns

-- check: memory_of_the_database_adds_up
-- code: I107
-- needs: db_op_memory
-- in: db_op_memory
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
-- needs: db_task_pmu_info, db_compute_task_info
-- in: db_task_pmu_info
-- about: A task has each counter once. Exact.
-- message: task {task} has {counter} twice
select cycle, row, global_task_id as task, coalesce(text_of(cycle, name), name::text) as counter
from (
  select cycle, row, global_task_id, name, row_number() over (partition by cycle, global_task_id, name order by row) as time
  from db_task_pmu_info)
where time > 1 and cycle in (select cycle from db_compute_task_info)

-- check: counters_of_the_database_are_whole
-- code: I105
-- needs: db_task_pmu_info, db_compute_task_info
-- in: db_compute_task_info
-- about: Tasks of one kind have the same counters. A kind may have none (DSA_SQE). Exact; a task without any is a warning: the
--   profiler may lose counters on the way.
-- message: task {task} ({kind}) has {own} counters in TASK_PMU_INFO, all tasks of its kind have {usual}
select cycle, row, global_task_id as task, kind, coalesce(counters, 0) as own, usual,
  if(counters is null, 'warning', 'error') as severity
from counted_tasks where counters is distinct from usual

-- check: counters_of_the_database_are_whole
-- code: I105
-- needs: db_task_pmu_info, db_compute_task_info
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
-- code: I105
-- each: core = aic; aiv
-- needs: db_task_pmu_info, db_compute_task_info
-- in: db_task_pmu_info
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
-- code: I107
-- each: name = allocated; reserved
-- needs: db_memory_record
-- in: db_memory_record
-- about: A record of PTA+GE is the sum of the last one of each. Exact, bytes.
-- source: torch_npu: prof_db_parse/_memory_db_parser.py
-- message: PTA+GE has {own} bytes {name}, PTA {of_pta} and GE {of_ge}
select cycle, row, total_{name}_bytes as own, pta_{name}_bytes as of_pta, ge_{name}_bytes as of_ge
from summed_records
where component = 'PTA+GE' and total_{name}_bytes <> pta_{name}_bytes::hugeint + ge_{name}_bytes

-- check: memory_tables_tell_the_same
-- code: I107
-- needs: db_memory_record, db_npu_op_mem
-- in: db_memory_record
-- about: A record of GE has time, allocated and reserved of a row of NPU_OP_MEM, and the other way round. Exact, bytes.
-- source: torch_npu: prof_db_parse/_memory_db_parser.py
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
-- code: I107
-- needs: db_memory_record, db_op_memory
-- in: db_op_memory
-- about: When a block is allocated there is a record, where nine blocks in ten have one.
-- message: {size} bytes are allocated at {time_ns} ns, MEMORY_RECORD has no record then
with lost as (
  select cycle, row, size_bytes as size, allocation_time_ns as time_ns
  from db_op_memory anti join (select cycle, timestamp_ns as allocation_time_ns from db_memory_record) as records
    using (cycle, allocation_time_ns)
  where allocation_time_ns is not null and cycle in (select cycle from db_memory_record)),
few as (
  select cycle
  from (select cycle, count(*) as lost from lost group by cycle) join (select cycle, count(*) as rows from db_op_memory group by cycle) using (cycle)
  where lost <= 0.1 * rows)
select * from lost where cycle in (from few)

-- check: memory_tables_tell_the_same
-- code: I107
-- needs: db_npu_op_mem, db_op_memory
-- in: db_op_memory
-- about: A block of an operator in NPU_OP_MEM is an allocation and the next release of the same operator and address. Exact, bytes.
-- source: torch_npu: prof_db_parse/_memory_db_parser.py
-- message: operator {name} took {size} bytes at {time_ns} ns and released them at {end_ns} ns {here} times here, {there} times in
--   NPU_OP_MEM
with sums as (
  select cycle, name, size_bytes, time_ns, released_ns, sum(here) as here, sum(1 - here) as there
  from (
    select cycle, name, size_bytes, allocation_time_ns as time_ns, release_time_ns as released_ns, 1 as here
    from db_op_memory semi join (select distinct cycle, operator_name as name from db_npu_op_mem) using (cycle, name)
    union all
    select cycle, operator_name, size_bytes, timestamp_ns, released_ns, 0 from engine_blocks)
  where cycle in (select cycle from engine_blocks)
  group by all having sum(here) <> sum(1 - here))
select cycle, coalesce(text_of(cycle, name), name::text) as name, size_bytes as size, time_ns, coalesce(released_ns::text, 'no') as end_ns,
  here, there
from sums
