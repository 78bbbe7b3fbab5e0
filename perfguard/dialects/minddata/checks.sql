-- What must hold in the files of MindData. Each holds on real output of MindSpore 2.0 and 2.10 on CPU.

-- check: the_pipeline_is_a_tree
-- code: I114
-- needs: pipeline_profiling_operators
-- in: pipeline_profiling_operators
-- at: $.op_info
-- about: Ids are unique.
-- message: op_id {op_id} stands for {count} operators
select cycle, op_id, count(*) as count from pipeline_profiling_operators group by cycle, op_id having count(*) > 1

-- check: the_pipeline_is_a_tree
-- code: I111
-- needs: pipeline_profiling_operators
-- in: pipeline_profiling_operators
-- about: Operator 0 is there.
-- message: there is no operator with op_id 0, which is the root
select cycle from pipeline_profiling_operators group by cycle having not bool_or(op_id = 0)

-- check: the_pipeline_is_a_tree
-- code: I111
-- needs: pipeline_profiling_operators
-- in: pipeline_profiling_operators
-- about: Children are there.
-- message: operator {op_id} has the child {child}, which is not there
select cycle, row, path || '.children' as path, op_id, child
from pipeline_children where (cycle, child) not in (select (cycle, op_id) from pipeline_profiling_operators)

-- check: the_pipeline_is_a_tree
-- code: I111
-- needs: pipeline_profiling_operators
-- in: pipeline_profiling_operators
-- about: A child has one parent.
-- message: operator {child} is a child of {first_parent} and of {op_id}
select cycle, row, path || '.children' as path, op_id, child, first_parent
from (
  select *, first_value(op_id) over (partition by cycle, child order by row, place) as first_parent from pipeline_children)
where op_id <> first_parent

-- check: one_operator_of_a_pipeline_is_its_root
-- code: I111
-- needs: pipeline_profiling_operators
-- in: pipeline_profiling_operators
-- at: $.op_info
-- about: Every operator but one is a child of another; the one that is not is listed first or last.
-- source: real output of MindSpore 1.x, 2.0 and 2.10
-- message: one operator, the first or the last, has nothing that reads from it; here: {roots}
select cycle, coalesce(array_to_string(list_sort(list_distinct(list(op_id) filter (is_root))), ', '), 'none') as roots
from (
  select cycle, row, op_id, (cycle, op_id) not in (select (cycle, child) from pipeline_children where child is not null) as is_root
  from pipeline_profiling_operators)
group by cycle
having count(distinct op_id) filter (is_root) <> 1
  or coalesce(min(op_id) filter (is_root) not in (arg_min(op_id, row), arg_max(op_id, row)), true)

-- check: one_operator_of_a_pipeline_is_its_root
-- code: I111
-- needs: pipeline_profiling_operators
-- in: pipeline_profiling_operators
-- about: No operator is its own child.
-- message: operator {op_id} is its own child
select distinct cycle, row, path || '.children' as path, op_id from pipeline_children where child = op_id

-- check: one_operator_of_a_pipeline_is_its_root
-- code: I111
-- needs: pipeline_profiling_operators
-- in: pipeline_profiling_operators
-- about: No operator has a child twice.
-- message: operator {op_id} has a child twice: {children}
select cycle, row, path || '.children' as path, op_id, list(child order by place)::varchar as children
from pipeline_children group by cycle, row, path, op_id having count(distinct child) < count(*)

-- check: lists_of_cpu_use_have_a_length_that_is_known
-- code: I111
-- needs: minddata_cpu_utilization_lists
-- in: minddata_cpu_utilization_lists
-- about: With n time stamps, lists have n numbers; of the machine also 2n or 2n + 2, of the process also n - 1. Some lists of the machine
--   are written twice a sample, once more when the profiler stops amid a sample, before its time stamp; and the first sample of the
--   process has nothing to be compared with. Samples of 1.x have n everywhere.
-- message: {length} numbers for {stamps} time stamps
select cycle, row, path, length, stamps from cpu_lists
where length <> stamps
  and not (block = 'device_info' and length in (2 * stamps, 2 * stamps + 2))
  and not (block = 'process_info' and length = stamps - 1)

-- check: lists_of_cpu_use_have_a_length_that_is_known
-- code: I106
-- needs: minddata_cpu_utilization_lists
-- in: minddata_cpu_utilization_lists
-- about: Time does not run back.
-- message: {later} ms here, {earlier} ms before it
select cycle, row, path || '[' || index || ']' as path, later, earlier
from (
  select cycle, row, path, index, later, lag(later) over (partition by cycle order by index) as earlier
  from (
    select cycle, row, path, unnest(numbers::bigint[]) as later, unnest(range(length)) as index
    from cpu_lists where block = 'time_stamp'))
where later < earlier

-- check: lists_of_cpu_use_have_a_length_that_is_known
-- code: I114
-- needs: minddata_cpu_utilization_operators
-- in: minddata_cpu_utilization_operators
-- at: $.op_info
-- about: Operators are listed once.
-- message: op_id {op_id} is there {count} times
select cycle, op_id, count(*) as count from minddata_cpu_utilization_operators group by cycle, op_id having count(*) > 1

-- check: memory_of_the_machine_adds_up
-- code: I107
-- needs: minddata_cpu_utilization_lists
-- in: minddata_cpu_utilization_lists
-- about: Available + used = total. 1.x has no memory.
-- tolerance: 0.01 MB, or a millionth of the total
-- message: available {available} MB + used {used} MB is not the total {total} MB
select cycle, index as row, path || '[' || index || ']' as path, available, used, total
from memory_samples where abs(available + used - total) > greatest(0.01, 0.000001 * total)

-- check: memory_of_the_process_is_in_order
-- code: I107
-- needs: minddata_cpu_utilization_lists
-- in: minddata_cpu_utilization_lists
-- about: Proportional <= resident <= virtual memory, sample by sample.
-- message: {proportional:g} MB proportional, {resident:g} resident, {virtual:g} virtual
select cycle, index as row, path || '[' || index || ']' as path, proportional, resident, virtual
from memory_samples where block = 'process_memory_info' and (proportional > resident or resident > virtual)

-- check: cpu_use_is_of_operators_of_the_pipeline
-- code: I113
-- severity: warning
-- needs: minddata_cpu_utilization_operators, pipeline_profiling_operators
-- in: minddata_cpu_utilization_operators
-- about: Every operator with CPU samples is in the pipeline; -1 stands for what belongs to none. MindSpore keeps the file of an earlier
--   pipeline when a second one is profiled, and says so itself.
-- message: operator {op_id} is not in pipeline_profiling
select cycle, row, path || '.op_id' as path, op_id from minddata_cpu_utilization_operators
where op_id <> -1 and (cycle, op_id) not in (select (cycle, op_id) from pipeline_profiling_operators)

-- check: the_cpu_use_of_operators_is_the_mean_of_its_samples
-- code: I105
-- needs: minddata_pipeline_summary_json_summary, minddata_cpu_utilization_operators
-- in: minddata_pipeline_summary_json_summary
-- about: The share of the CPU that the summary says of an operator is the mean of the system and user time of its samples.
-- tolerance: 0.0051: two decimals
-- message: operator {op_id}: {average} here, the samples of minddata_cpu_utilization give {mean:.2f}
select cycle, row, '$.avg_cpu_pct[' || op_id || ']' as path, op_id, averages[op_id + 1] as average, mean
from (select cycle, row, avg_cpu_pct::double[] as averages from minddata_pipeline_summary_json_summary) join cpu_use using (cycle)
where op_id >= 0 and abs(averages[op_id + 1] - mean) > 0.0051

-- check: the_usage_of_a_queue_follows_from_its_samples
-- code: I105
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: The average is the mean of the samples.
-- tolerance: 1e-6 of it
-- source: minddata_analyzer.py (2.0), ms_minddata_viewer.py (2.10)
-- message: operator {op_id}: average {average:g} here, its {samples} samples give {mean:g}
select cycle, row, op_id, average, len(sizes) as samples, list_avg(sizes) as mean
from pipeline_rows where len(sizes) > 0 and is_other(average, list_avg(sizes))

-- check: the_usage_of_a_queue_follows_from_its_samples
-- code: I105
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: Usage = average / length.
-- tolerance: 1e-6 of it
-- source: minddata_analyzer.py (2.0), ms_minddata_viewer.py (2.10)
-- message: operator {op_id}: usage {usage:g} here, average {average:g} / length {length} gives {share:g}
select cycle, row, op_id, usage, average, length, average / length as share
from pipeline_rows where average is not null and length > 0 and is_other(usage, average / length)

-- check: the_usage_of_a_queue_follows_from_its_samples
-- code: I105
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: An operator has samples, average and length of its queue, or none of them.
-- message: operator {op_id}: samples, average and length must be there together
select cycle, row, op_id
from pipeline_rows where (average is null) <> (len(sizes) = 0) or (length is null) <> (len(sizes) = 0)

-- check: {check}
-- code: I111
-- needs: {table}
-- in: {table}
-- each: check, table = the_pipeline_is_a_tree, pipeline_profiling_operators;
--   the_usage_of_a_queue_follows_from_its_samples, minddata_pipeline_raw
-- about: All queues that have samples have the same number of them. Exact.
-- message: operator {op_id} has {samples} samples of its queue, others {usual}
select cycle, op_id, samples, usual from sampled_queues where place = '{table}' and samples <> usual

-- check: parents_and_children_of_a_pipeline_agree
-- code: I114
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: Ids are unique.
-- message: op_id {op_id} is there twice
select cycle, row, op_id from pipeline_rows where number > 1

-- check: parents_and_children_of_a_pipeline_agree
-- code: I111
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: The root, 0, has no parent, and every other operator has one.
-- message: operator {op_id} has {said}
select cycle, row, op_id, coalesce('the parent ' || parent_id, 'no parent') as said
from pipeline_rows where (parent_id is null) <> (op_id = 0)

-- check: parents_and_children_of_a_pipeline_agree
-- code: I111
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: There is a root.
-- message: there is no operator with op_id 0, which is the root
select cycle, min(row) as row from pipeline_rows group by cycle having bool_and(op_id <> 0)

-- check: parents_and_children_of_a_pipeline_agree
-- code: I111
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: Who is named as a parent has the operator as a child.
-- message: operator {op_id} has the parent {parent_id}, which does not have it as a child
select here.cycle, here.row, here.op_id, here.parent_id
from pipeline_rows as here
left join last_rows as parent on parent.cycle = here.cycle and parent.op_id = here.parent_id
where here.op_id is distinct from 0 and here.parent_id is not null and not coalesce(list_contains(parent.children, here.op_id), false)

-- check: parents_and_children_of_a_pipeline_agree
-- code: I111
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: Who is named as a child has the operator as its parent.
-- message: operator {op_id} has the child {child}, which has the parent {its_parent}
select named.cycle, row, named.op_id, child, last_rows.parent_id as its_parent
from (select cycle, row, op_id, unnest(children) as child from pipeline_rows) as named
left join last_rows on last_rows.cycle = named.cycle and last_rows.op_id = child
where last_rows.parent_id is distinct from named.op_id

-- check: {check}
-- code: I111
-- needs: {table}
-- in: {table}
-- each: check, table = every_batch_of_the_iterator_is_whole, dataset_iterator_profiling;
--   every_batch_of_the_device_queue_is_whole, device_queue_profiling
-- about: A queue has no more entries than it can hold. Exact. They stand where times stand in ms.
-- message: batch {batch}: {entries:.0f} entries in a queue of {extra:.0f}
select cycle, row, batch, value_ns / 1000000 as entries, extra
from batch_lines where slot = '{table}' and type = 1 and value_ns / 1000000 > extra

-- check: {check}
-- code: I106
-- needs: {table}
-- in: {table}
-- each: check, table = every_batch_of_the_iterator_is_whole, dataset_iterator_profiling;
--   every_batch_of_the_device_queue_is_whole, device_queue_profiling
-- about: Time does not run back. Exact.
-- message: batch {batch}: {at_ms:.0f} ms here, {before_ms:.0f} ms in the line before
select cycle, row, batch, ts_ns / 1000000 as at_ms, before_ns / 1000000 as before_ms
from batch_lines where slot = '{table}' and ts_ns < before_ns

-- check: {check}
-- code: I111
-- needs: {table}
-- in: {table}
-- each: check, table, edge = every_batch_of_the_iterator_is_whole, dataset_iterator_profiling, error;
--   every_batch_of_the_device_queue_is_whole, device_queue_profiling, warning
-- about: Four lines a batch in the order push, batch, pipeline, queue. The device queue is written by a thread of its own, so a window may
--   cut its first or last batch: a warning.
-- message: batch {batch} has the lines {lines}, not push, batch, pipeline, queue
select cycle, row, batch, if(is_at_edge, '{edge}', 'error') as severity,
  array_to_string(list_transform(kinds[:8], lambda kind: ['pipeline', 'push', 'batch', 'queue'][kind + 1]), ', ') as lines
from batches where slot = '{table}' and kinds <> [1, 2, 0, 3]

-- check: {check}
-- code: I111
-- needs: {table}
-- in: {table}
-- each: check, table = every_batch_of_the_iterator_is_whole, dataset_iterator_profiling;
--   every_batch_of_the_device_queue_is_whole, device_queue_profiling
-- about: Batches are numbered one by one; a new epoch may count from 1 again.
-- message: batch {batch} follows batch {earlier}
select cycle, row, batch, earlier from batches where slot = '{table}' and batch <> 1 and batch - 1 <> earlier

-- check: {check}
-- code: I104
-- needs: {table}
-- in: {table}
-- each: check, table = every_batch_of_the_iterator_is_whole, dataset_iterator_profiling;
--   every_batch_of_the_device_queue_is_whole, device_queue_profiling
-- about: The time of a batch is that of its pipeline and its push.
-- tolerance: 1 ms: the push is measured inside the batch in whole milliseconds, and one may be lost
-- message: batch {batch} took {whole_ms:.0f} ms, its pipeline and push {parts_ms:.0f} ms together
select cycle, row, batch, whole_ns / 1000000 as whole_ms, parts_ns / 1000000 as parts_ms
from batches where slot = '{table}' and kinds = [1, 2, 0, 3] and abs(whole_ns - parts_ns) > 1000000

-- check: waits_of_the_device_are_in_order
-- code: I106
-- needs: minddata_aicpu
-- in: minddata_aicpu
-- about: No wait ends before it begins. Exact.
-- source: MindSpore 1.x on Ascend, real output; MindSpore 2.0: minddata_parser.py
-- message: {node_name} ends at {end_us:.3f} us, before it begins at {start_us:.3f} us
select cycle, row, node_name, start_time_ns / 1000 as start_us, end_time_ns / 1000 as end_us
from minddata_aicpu where end_time_ns < start_time_ns

-- check: waits_of_the_device_are_in_order
-- code: I106
-- needs: minddata_aicpu
-- in: minddata_aicpu
-- about: Of one node no wait begins before the one in front of it. Exact.
-- source: MindSpore 1.x on Ascend, real output; MindSpore 2.0: minddata_parser.py
-- message: {node_name} begins at {start_us:.3f} us, the line before it at {before_us:.3f} us
select cycle, row, node_name, start_time_ns / 1000 as start_us, before_ns / 1000 as before_us
from (select *, lag(start_time_ns) over (partition by cycle, node_name order by row) as before_ns from minddata_aicpu)
where start_time_ns < before_ns
