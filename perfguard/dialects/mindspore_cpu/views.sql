-- What the files of MindSpore say of operators on the host's CPU.

-- How often operators are counted by a slot, by what they have in a column, or all of them.
create view cpu_counts as
select cycle, 'cpu_op_detail_info' as slot, part, name, sum(op_occurrences) as count
from (
  select cycle, unnest(['all', 'op_type', 'op_name', 'full_op_name']) as part,
    unnest(['all operators', op_type, op_name, full_op_name]) as name, op_occurrences
  from cpu_op_detail_info)
group by cycle, part, name
union all
select cycle, 'cpu_op_type_info', 'op_type', op_type, sum(type_occurrences) from cpu_op_type_info group by cycle, op_type
union all
select cycle, 'cpu_framework', part, name, count(*)
from (
  select cycle, unnest(['all', 'op_type', 'op_name']) as part, unnest(['all operators', op_type, op_name]) as name from cpu_framework)
group by cycle, part, name
union all
select cycle, 'cpu_op_execute_timestamp', 'full_op_name', full_op_name, count(*) from cpu_op_execute_timestamp group by cycle, full_op_name;

-- What two slots count differently, where either has it.
create macro cpu_differences(one_slot, other_slot, column_name) as table
with here as (from cpu_counts where slot = one_slot and part = column_name),
there as (from cpu_counts where slot = other_slot and part = column_name)
select coalesce(here.cycle, there.cycle) as cycle, coalesce(here.name, there.name) as name, coalesce(here.count, 0) as here,
  coalesce(there.count, 0) as there
from here full join there on here.cycle = there.cycle and here.name = there.name
where coalesce(here.count, 0) <> coalesce(there.count, 0);

-- Whether two times differ by more than their prints (`relative`) and the adding of `terms` 32 bit floats explain: that loses 3e-7
-- times the root of their number, for its roundings go up as often as down. Each of `rounded` times in whole ns is off by half a ns.
create macro cpu_differ(one, other, relative, terms, rounded) as
  abs(one::double - other) > greatest(abs(one::double), abs(other::double)) * (relative + 3e-7 * sqrt(terms)) + 0.5 * (rounded);

-- Operators of the host one by one.
create view cpu_executions as
with types as (
  select cycle, full_op_name, arg_min(op_type, row) as type from cpu_op_detail_info group by cycle, full_op_name)
select cycle, row, coalesce(type, full_op_name) as operator, full_op_name as name, start_ns, duration_ns, 1::bigint as calls
from cpu_op_execute_timestamp left join types using (cycle, full_op_name);

-- What the host pool has allocated; of several files of a cycle the last one counts.
create view pool_levels as
select cycle, row, timestamp_ns as time, total_allocated_bytes as level from cpu_ms_memory_record
where (cycle, file) in (select (cycle, max(file)) from cpu_ms_memory_record group by cycle);
