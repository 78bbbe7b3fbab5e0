-- What the files of MindData mean: the pipeline, and the use of the CPU by it.

-- Whom an operator takes its rows from, one row each.
create view pipeline_children as
select cycle, row, path, op_id, unnest(children::bigint[]) as child, generate_subscripts(children::bigint[], 1) as place
from pipeline_profiling_operators;

-- Lists of samples, with the number of the time stamps.
create view cpu_lists as
with stamps as (
  select cycle, json_array_length(numbers)::bigint as stamps from minddata_cpu_utilization_lists where block = 'time_stamp')
select cycle, row, path, block, numbers, json_array_length(numbers)::bigint as length, stamps
from (from minddata_cpu_utilization_lists union all by name from minddata_cpu_utilization_operator_lists) join stamps using (cycle);

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
  from minddata_cpu_utilization_operator_lists group by cycle, parent) as lists
  on lists.cycle = operators.cycle and lists.parent = operators.row;

-- Whether a number is another than the one that it follows from. One that is missing is another.
create macro is_other(here, there) as coalesce(abs(here - there) > greatest(1e-9, 1e-6 * abs(there)), true);

-- Operators of the pipeline with the samples of their queues and with their children.
create view pipeline_rows as
select *, coalesce(try_cast(nullif(output_queue_size, '') as double[]), []) as sizes,
  coalesce(try_cast(nullif(children_id, '') as hugeint[]), []) as children,
  output_queue_average_size as average, output_queue_length as length, output_queue_usage_rate as usage,
  row_number() over (partition by cycle, op_id order by row) as number
from minddata_pipeline_raw;

-- How many samples the queues have in the document and in the table (`place`), those that have any, and how many most have: of
-- numbers that are as frequent the first.
create view sampled_queues as
with sizes as (
  select 'minddata_pipeline_raw' as place, cycle, op_id, row, len(sizes) as samples from pipeline_rows
  union all
  select 'pipeline_profiling_operators', cycle, op_id, row, json_array_length(size)::bigint from pipeline_profiling_operators),
queues as (
  select place, cycle, op_id, min(row) as row, arg_max(samples, row) as samples
  from sizes group by place, cycle, op_id having arg_max(samples, row) > 0)
select place, cycle, op_id, samples, first_value(samples) over (partition by place, cycle order by times desc, first) as usual
from (
  select *, count(*) over alike as times, min(row) over alike as first
  from queues window alike as (partition by place, cycle, samples));

-- The parent and the children of each operator: of one that is there twice those of the last row.
create view last_rows as
select cycle, op_id, parent_id, children
from pipeline_rows qualify row_number() over (partition by cycle, op_id order by row desc) = 1;

-- Lines of both files of batches, numbered by the batch that they are of; files of 1.x have no times.
create view batch_lines as
with lines as (
  select 'dataset_iterator_profiling' as slot, * from dataset_iterator_profiling
  union all by name
  select 'device_queue_profiling' as slot, * from device_queue_profiling)
-- Not `count(*) filter`, which takes duckdb 2.0 the square of the rows.
select *, count(case when is_first then 1 end) over (partition by slot, cycle order by row) as place
from (
  select slot, cycle, row, type, extra, batch_num as batch, value_ns, ts_ns, lag(ts_ns) over lines_before as before_ns,
    batch_num is distinct from lag(batch_num) over lines_before as is_first,
    bool_or(ts_ns is not null) over (partition by slot, cycle) as is_timed
  from lines window lines_before as (partition by slot, cycle order by row));

-- Batches with what their lines are, in order: the pipeline (0), the push (1), the batch (2), the state of the queue (3).
create view batches as
select slot, cycle, place, batch, min(row) as row, list(if(type = 0, extra::integer, 3) order by row) as kinds,
  arg_min(value_ns, row) filter (type = 0 and extra = 2) as whole_ns,
  sum(value_ns) filter (type = 0 and extra < 2) as parts_ns,
  lag(batch) over (partition by slot, cycle order by place) as earlier,
  place in (1, max(place) over (partition by slot, cycle)) as is_at_edge
from batch_lines where is_timed group by slot, cycle, place, batch;
