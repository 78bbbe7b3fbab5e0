-- Tables of MindData: what several checks of them need.

-- Whether a number is another than the one that it follows from. One that is missing is another.
create macro is_other(here, there) as coalesce(abs(here - there) > greatest(1e-9, 1e-6 * abs(there)), true);

-- Operators of the pipeline with the samples of their queues and with their children.
create view pipeline_rows as
select *, coalesce(try_cast(nullif(output_queue_size, '') as double[]), []) as sizes,
  coalesce(try_cast(nullif(children_id, '') as hugeint[]), []) as children,
  output_queue_average_size as average, output_queue_length as length, output_queue_usage_rate as usage,
  row_number() over (partition by cycle, op_id order by row) as number
from minddata_pipeline_raw;

-- How many samples the queues have, those that have any, and how many most have: of numbers that are as frequent the first.
create view sampled_queues as
with queues as (
  select cycle, op_id, min(row) as row, arg_max(len(sizes), row) as samples
  from pipeline_rows group by cycle, op_id having samples > 0)
select cycle, op_id, samples, first_value(samples) over (partition by cycle order by times desc, first) as usual
from (select *, count(*) over alike as times, min(row) over alike as first from queues window alike as (partition by cycle, samples));

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
select *, count(*) filter (is_first) over (partition by slot, cycle order by row) as place
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
