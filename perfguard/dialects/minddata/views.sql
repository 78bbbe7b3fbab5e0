-- What the files of MindData mean: the pipeline, and the use of the CPU by it.

-- Whom an operator takes its rows from, one row each.
create view fill_pipeline_children as
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

-- The operators of the document; of one that is there twice the last one counts.
create view last_operators as
from pipeline_profiling_operators qualify row_number() over (partition by cycle, op_id order by row desc) = 1;

-- Rows of the table beside what the document says of their operators. `is_of_one_run`: some operator has the same type in both.
create view pipeline_pairs as
select here.cycle, here.row, here.op_id, here.op_type, here.num_workers, here.sample_interval_ns // 1000000 as interval,
  coalesce(try_cast(nullif(here.output_queue_size, '') as hugeint[]), []) as sizes, here.length, there.op_id as number_there,
  there.op_type as type_there, there.num_workers as workers_there, sampling_interval_ns // 1000000 as interval_there,
  coalesce(try_cast(there.size as hugeint[]), []) as sizes_there, there.length as length_there,
  bool_or(coalesce(here.op_type = there.op_type, false)) over (partition by here.cycle) as is_of_one_run
from pipeline_rows as here
left join last_operators as there on there.cycle = here.cycle and there.op_id = here.op_id
left join pipeline_profiling_sampling as sampling on sampling.cycle = here.cycle;

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

-- The operators from which rows come to the root, with the root itself. No pipeline is so deep that this would not find all.
create view pipeline_parts as
with recursive reached(cycle, op_id, depth) as (
  select distinct cycle, op_id, 0 from pipeline_profiling_operators where op_id = 0
  union
  select cycle, child, min(depth) + 1 from reached join pipeline_children using (cycle, op_id) where depth < 256 group by cycle, child)
select distinct cycle, op_id from reached;

-- The values of a list as texts, those of numbers alike however they are written.
create macro numbers_as_such(list) as
  list_transform(list::json::varchar[], lambda one: coalesce(try_cast(one as double)::varchar, one));

-- A number with two decimals, as the writers of the summary round it.
create macro rounded(number) as format('{:.2f}', number)::double;

-- Both forms of the summary of the pipeline, as JSON lists.
create view summaries as
select 'minddata_pipeline_summary_json_summary' as form, * from minddata_pipeline_summary_json_summary
union all by name
select 'minddata_pipeline_summary_csv_summary' as form, * from minddata_pipeline_summary_csv_summary;

-- The lists of both summaries, and whether they must have an entry for each operator: the use of the CPU may be known of fewer, and
-- then there is none for each worker.
create view summary_lists as
select form, cycle, key, list, json_array_length(list)::bigint as length, json_array_length(op_ids)::bigint as operators,
  key in ('op_names', 'pipeline_ops', 'num_workers', 'queue_average_size', 'queue_utilization_pct', 'queue_empty_freq_pct',
    'children_ids', 'parent_id')
  or (has_cpu_per_worker and key in ('avg_cpu_pct', 'avg_cpu_pct_per_worker')) as is_by_operator
from (
  unpivot (
    select * exclude (file, row, path), op_ids as ids, avg_cpu_pct_per_worker is not null as has_cpu_per_worker from summaries)
  on columns(* exclude (form, cycle, ids, has_cpu_per_worker)) into name key value list)
  as lists(form, cycle, op_ids, has_cpu_per_worker, key, list);

-- What summaries say of each operator: numbers as they are written. Only those whose lists all have an entry for each.
create view summary_operators as
select form, cycle, place - 1 as index, op_ids[place] as op_id, names[place] as name, labels[place] as label,
  names[place] || '(id=' || op_ids[place] || ')' as own_label, parents[place] as parent, children[place] as children,
  workers[place] as workers, shares[place] as share, shares_per_worker[place] as share_per_worker
from (
  select form, cycle, try_cast(op_ids as hugeint[]) as op_ids, op_names::json::varchar[] as names,
    pipeline_ops::json::varchar[] as labels, try_cast(parent_id as hugeint[]) as parents,
    try_cast(children_ids as hugeint[][]) as children, num_workers::json::varchar[] as workers,
    avg_cpu_pct::json::varchar[] as shares, avg_cpu_pct_per_worker::json::varchar[] as shares_per_worker,
    unnest(range(1, json_array_length(op_ids)::bigint + 1)) as place
  from summaries
  where (form, cycle) not in (select (form, cycle) from summary_lists where is_by_operator and length <> operators));

-- The operators of the pipeline in the order of their numbers, with what the summary must say of their queues: -1 where they have none.
create view sampled_operators as
select cycle, op_id, place, left(op_type, -2) as name, num_workers, coalesce(average::varchar, '-1') as average,
  coalesce(rounded(100 * average / nullif(length, 0))::varchar, '-1') as utilization,
  coalesce(rounded(100 * len(list_filter(sizes, lambda size: size = 0)) / nullif(len(sizes), 0))::varchar, '-1') as empty_share
from (
  select *, rounded(list_avg(sizes)) as average, row_number() over (partition by cycle order by op_id, row) as place
  from (select *, try_cast(size as double[]) as sizes from pipeline_profiling_operators));

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

-- The numbers of the operators in the summary and in the pipeline.
create view pipeline_ids as
select cycle, op_ids as ids, ids_there, coalesce(try_cast(op_ids as hugeint[]) = ids_there, false) as is_same
from minddata_pipeline_summary_json_summary
join (select cycle, list(op_id order by place) as ids_there from sampled_operators group by cycle) using (cycle);

-- The mean times of a batch that the summary has, in ms: of all batches but the first. Without data sink that of a batch is the mean of
-- two series together, the times of the batches and the differences of their time stamps: so both versions of the writer compute it.
create view batch_means as
with ends as (
  select slot, cycle, batch, ts_ns - coalesce(lag(ts_ns) over (partition by cycle order by row), 0) as since_ns
  from batch_lines where slot = 'dataset_iterator_profiling' and (type = 1 or batch < 2)),
samples as (
  select slot, cycle, ['per_pipeline_time', 'per_push_queue_time', 'per_batch_time'][extra::bigint + 1] as key, value_ns as ns
  from batch_lines where type = 0 and extra in (0, 1, 2) and batch >= 2
  union all
  select slot, cycle, 'per_batch_time', since_ns from ends where batch >= 2),
timed as (
  select distinct slot, cycle, unnest(['per_pipeline_time', 'per_push_queue_time', 'per_batch_time']) as key from batch_lines where is_timed)
select slot, cycle, key, coalesce(avg(ns) / 1000000, -1) as mean_ms
from timed left join samples using (slot, cycle, key)
where slot = 'device_queue_profiling' or cycle not in (select cycle from device_queue_profiling)
group by slot, cycle, key;
