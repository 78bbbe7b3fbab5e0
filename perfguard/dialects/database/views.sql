-- What the tables of a database say together.

-- What an id of STRING_IDS stands for: the first text, where it has several.
create view db_texts as
select cycle, id, arg_min(value, row) as text from db_string_ids group by cycle, id;

create macro text_of(wanted_cycle, wanted) as (select text from db_texts where cycle = wanted_cycle and id = wanted);

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
create view counter_names as
select distinct cycle, text as counter
from db_texts
semi join (select distinct cycle, name from db_task_pmu_info) as used on used.cycle = db_texts.cycle and used.name = db_texts.id
where cycle in (select cycle from db_compute_task_info);

-- MEMORY_RECORD of databases of one device, with the names of components.
create view memory_records as
select records.cycle, row, text as component, timestamp_ns, total_allocated_bytes, total_reserved_bytes
from db_memory_record as records left join db_texts on db_texts.cycle = records.cycle and db_texts.id = records.component
where records.cycle in (select cycle from db_memory_record group by cycle having count(distinct device_id) = 1);

-- The same beside the last record of each component; of databases that sum them up. `above_ns`, `below_ns`: the times of the record
-- above, and of the one below where that is a sum.
create view summed_records as
select *, lag(timestamp_ns) over records as above_ns,
  if(lead(component) over records = 'PTA+GE', lead(timestamp_ns) over records, null) as below_ns,
  coalesce(last_value(if(component = 'PTA', total_allocated_bytes, null) ignore nulls) over before, 0) as pta_allocated_bytes,
  coalesce(last_value(if(component = 'GE', total_allocated_bytes, null) ignore nulls) over before, 0) as ge_allocated_bytes,
  coalesce(last_value(if(component = 'PTA', total_reserved_bytes, null) ignore nulls) over before, 0) as pta_reserved_bytes,
  coalesce(last_value(if(component = 'GE', total_reserved_bytes, null) ignore nulls) over before, 0) as ge_reserved_bytes
from memory_records
where cycle in (select cycle from memory_records where component = 'PTA+GE')
window records as (partition by cycle order by row),
  before as (partition by cycle order by row rows between unbounded preceding and current row);

-- Allocations of NPU_OP_MEM with the next release of their operator and address; a second allocation at the same address takes the
-- place of the first.
create view engine_blocks as
select cycle, operator_name, size_bytes, timestamp_ns, released_ns
from (
  select *, lead(type) over blocks as next_type, lead(timestamp_ns) over blocks as released_ns
  from db_npu_op_mem
  window blocks as (partition by cycle, operator_name, addr, device_id order by row)) as changes
semi join (select cycle, id from db_texts where text = 'allocate') as kinds on kinds.cycle = changes.cycle and kinds.id = type
where next_type is distinct from type;
