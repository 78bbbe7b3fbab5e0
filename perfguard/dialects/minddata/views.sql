-- What the files of MindData mean: the pipeline, and the use of the CPU by it.

-- Whom an operator takes its rows from, one row each.
create view pipeline_children as
select cycle, row, path, op_id, unnest(children::bigint[]) as child, generate_subscripts(children::bigint[], 1) as place
from pipeline_profiling_operators;

-- Operators with the number of samples of their queues, and that of most (of the first, where none has more).
create view queue_lengths as
with lengths as (
  select cycle, op_id, arg_max(length, row) as length, min(row) as row
  from (select cycle, row, op_id, json_array_length(size)::bigint as length from pipeline_profiling_operators)
  group by cycle, op_id
  having length > 0),
counts as (select cycle, length, count(*) as count, min(row) as row from lengths group by cycle, length),
usual as (select cycle, length as usual from counts qualify row_number() over (partition by cycle order by count desc, row) = 1)
from lengths join usual using (cycle);

-- Lists of samples, with the number of the time stamps.
create view cpu_lists as
with stamps as (
  select cycle, json_array_length(numbers)::bigint as stamps from minddata_cpu_utilization_lists where block = 'time_stamp')
select cycle, row, path, parent, block, name, numbers, json_array_length(numbers)::bigint as length, stamps
from minddata_cpu_utilization_lists join stamps using (cycle);

-- Samples of the memory of the machine and of the process.
create view memory_lists as
select cycle, block, max(path) filter (name = 'total_sys_memory_mbytes') as path,
  (max(numbers) filter (name = 'available_sys_memory_mbytes'))::double[] as available,
  (max(numbers) filter (name = 'used_sys_memory_mbytes'))::double[] as used,
  (max(numbers) filter (name = 'total_sys_memory_mbytes'))::double[] as total,
  (max(numbers) filter (name = 'pss_mbytes'))::double[] as proportional,
  (max(numbers) filter (name = 'rss_mbytes'))::double[] as resident, (max(numbers) filter (name = 'vss_mbytes'))::double[] as virtual
from minddata_cpu_utilization_lists group by cycle, block;

create view memory_samples as
select cycle, block, path, unnest(available) as available, unnest(used) as used, unnest(total) as total,
  unnest(proportional) as proportional, unnest(resident) as resident, unnest(virtual) as virtual,
  unnest(range(greatest(len(total), len(virtual)))) as index
from (select * replace (coalesce(path, '$.process_memory_info') as path) from memory_lists)
where block in ('system_memory_info', 'process_memory_info');

-- How much of the CPU an operator used, the mean of its samples.
create view cpu_use as
select operators.cycle, op_id, coalesce(list_avg(list_transform(list_zip(sys, "user", true), lambda one: one[1] + one[2])), 0) as mean
from minddata_cpu_utilization_operators as operators
join (
  select cycle, parent, (max(numbers) filter (name = 'sys_utilization'))::double[] as sys,
    (max(numbers) filter (name = 'user_utilization'))::double[] as "user"
  from minddata_cpu_utilization_lists where parent is not null group by cycle, parent) as lists
  on lists.cycle = operators.cycle and lists.parent = operators.row;
