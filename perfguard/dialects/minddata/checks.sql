-- What must hold in the files of MindData. Source, where a check names no other: MindSpore 2.0 and 2.10, minddata/dataset/engine/perf
-- (connector_size.cc, cpu_sampler.cc, dataset_iterator_tracing.cc, device_queue_tracing.cc), minddata_analyzer.py (2.0),
-- ms_minddata_viewer.py (2.10). Each holds on real output of both on CPU.

-- check: the_pipeline_is_a_tree
-- code: I114
-- needs: pipeline_profiling_operators
-- in: pipeline_profiling_operators
-- at: $.op_info
-- about: Ids are unique.
-- message: op_id {op_id} is the number of {count} operators
select cycle, op_id, count(*) as count from pipeline_profiling_operators group by cycle, op_id having count(*) > 1

-- check: the_pipeline_is_a_tree
-- code: I111
-- invariant: something_ran
-- about: Operator 0 is there.
-- message: there is no operator with op_id 0, which is the root
select cycle from pipeline_profiling_operators group by cycle having not bool_or(op_id = 0)

-- check: the_pipeline_is_a_tree
-- invariant: references_resolve
-- about: Children are there.
-- message: operator {op_id} has the child {child}, which is not there
select cycle, row, path || '.children' as path, op_id, child
from pipeline_children where (cycle, child) not in (select (cycle, op_id) from pipeline_profiling_operators)

-- check: the_pipeline_is_a_tree
-- invariant: pipeline_adds_up
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
select cycle, coalesce(some_of(list_sort(list_distinct(list(op_id) filter (is_root)))), 'none') as roots
from (
  select cycle, row, op_id, (cycle, op_id) not in (select (cycle, child) from pipeline_children where child is not null) as is_root
  from pipeline_profiling_operators)
group by cycle
having count(distinct op_id) filter (is_root) <> 1
  or coalesce(min(op_id) filter (is_root) not in (arg_min(op_id, row), arg_max(op_id, row)), true)

-- check: one_operator_of_a_pipeline_is_its_root
-- about: No operator is its own child.
-- message: operator {op_id} is its own child
select distinct cycle, row, path || '.children' as path, op_id from pipeline_children where child = op_id

-- check: one_operator_of_a_pipeline_is_its_root
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
--   process has nothing to be compared with. Samples of 1.x have n everywhere. Memory that could not be read once, of the process (smaps)
--   or of the machine, is left out altogether.
-- source: MindSpore 2.0 and 2.10: cpu_sampler.cc (SaveToFile, GetMemoryInfo: not even those that are there, where one is missing)
-- message: {length} numbers for {stamps} time stamps
select cycle, row, path, length, stamps from cpu_lists
where length <> stamps
  and not (block = 'device_info' and length in (2 * stamps, 2 * stamps + 2))
  and not (block = 'process_info' and length = stamps - 1)
  and not (length = 0 and (cycle, block) in (
    select (cycle, block) from cpu_lists where block in ('process_memory_info', 'system_memory_info')
    group by cycle, block having max(length) = 0))

-- check: lists_of_cpu_use_have_a_length_that_is_known
-- code: I106
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
-- about: Proportional <= resident <= virtual memory, sample by sample: the three are read in one pass over the same mappings.
-- source: MindSpore 2.0 and 2.10: cpu_sampler.cc (SampleMemInfo)
-- message: {proportional:g} MB proportional, {resident:g} resident, {virtual:g} virtual
select cycle, index as row, path || '[' || index || ']' as path, proportional, resident, virtual
from memory_samples where block = 'process_memory_info' and (proportional > resident or resident > virtual)

-- check: cpu_use_is_of_operators_of_the_pipeline
-- code: I113
-- headline: an operator is in one file only
-- severity: warning
-- needs: minddata_cpu_utilization_operators, pipeline_profiling_operators
-- in: minddata_cpu_utilization_operators
-- about: Every operator with CPU samples is in the pipeline; -1 is for samples of no operator. MindSpore keeps the file of an earlier
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
-- about: Usage = average / length.
-- tolerance: 1e-6 of it
-- message: operator {op_id}: usage {usage:g} here, average {average:g} / length {length} gives {share:g}
select cycle, row, op_id, usage, average, length, average / length as share
from pipeline_rows where average is not null and length > 0 and is_other(usage, average / length)

-- check: the_usage_of_a_queue_follows_from_its_samples
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

-- check: the_raw_table_is_the_pipeline
-- code: I113
-- needs: pipeline_profiling_operators, minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: Some operator has the type that it has in the document.
-- message: no operator has the type it has in pipeline_profiling: the two are not of one run
select cycle from pipeline_pairs group by cycle having not bool_or(is_of_one_run)

-- check: the_raw_table_is_the_pipeline
-- code: I111
-- about: Every operator of the table is in the document.
-- message: operator {op_id} is not in pipeline_profiling
select cycle, row, op_id from pipeline_pairs where is_of_one_run and number_there is null

-- check: the_raw_table_is_the_pipeline
-- each: key, here, there = op_type, op_type, type_there; num_workers, num_workers, workers_there;
--   sample_interval, interval, interval_there; output_queue_size, sizes, sizes_there; output_queue_length, length, length_there
-- about: Every row repeats what the document says of the operator. Exact.
-- message: operator {op_id}: {key} {value} here, {documented} in pipeline_profiling
select cycle, row, op_id, shown({here}::varchar) as value, shown({there}::varchar) as documented
from pipeline_pairs where is_of_one_run and number_there is not null and {here} is distinct from {there}

-- check: the_raw_table_is_the_pipeline
-- needs: pipeline_profiling_operators
-- about: The root has a row, and every operator with a queue from which rows come to it.
-- message: operator {op_id} of pipeline_profiling has a queue and no row here
select cycle, op_id
from pipeline_parts join last_operators using (cycle, op_id)
where (op_id = 0 or length is not null)
  and (cycle, op_id) not in (select (cycle, op_id) from minddata_pipeline_raw where op_id is not null)
  and cycle not in (select cycle from pipeline_pairs where not is_of_one_run)

-- check: parents_and_children_of_a_pipeline_agree
-- code: I114
-- needs: minddata_pipeline_raw
-- in: minddata_pipeline_raw
-- about: Ids are unique.
-- message: op_id {op_id} is there twice
select cycle, row, op_id from pipeline_rows where number > 1

-- check: parents_and_children_of_a_pipeline_agree
-- code: I111
-- about: The root, 0, has no parent, and every other operator has one.
-- message: operator {op_id} has {parent}
select cycle, row, op_id, coalesce('the parent ' || parent_id, 'no parent') as parent
from pipeline_rows where (parent_id is null) <> (op_id = 0)

-- check: parents_and_children_of_a_pipeline_agree
-- about: There is a root.
-- message: there is no operator with op_id 0, which is the root
select cycle, min(row) as row from pipeline_rows group by cycle having bool_and(op_id <> 0)

-- check: parents_and_children_of_a_pipeline_agree
-- about: Who is named as a parent has the operator as a child.
-- message: operator {op_id} has the parent {parent_id}, which does not have it as a child
select here.cycle, here.row, here.op_id, here.parent_id
from pipeline_rows as here
left join last_rows as parent on parent.cycle = here.cycle and parent.op_id = here.parent_id
where here.op_id is distinct from 0 and here.parent_id is not null and not coalesce(list_contains(parent.children, here.op_id), false)

-- check: parents_and_children_of_a_pipeline_agree
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
-- invariant: values_are_possible
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
-- invariant: all_steps_are_there
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

-- check: {check}
-- code: I114
-- needs: {form}
-- in: {form}
-- each: check, form = the_summary_agrees_with_itself, minddata_pipeline_summary_json_summary;
--   the_summary_table_agrees_with_itself, minddata_pipeline_summary_csv_summary
-- about: Operators are listed once, in the order of their numbers.
-- message: {ids} is not ascending, or an operator is there twice
select cycle, '$.op_ids' as path, shown(op_ids) as ids
from (select *, try_cast(op_ids as hugeint[]) as numbers from {form})
where numbers <> list_sort(list_distinct(numbers))

-- check: {check}
-- code: I111
-- needs: {form}
-- in: {form}
-- each: check, form = the_summary_agrees_with_itself, minddata_pipeline_summary_json_summary;
--   the_summary_table_agrees_with_itself, minddata_pipeline_summary_csv_summary
-- about: One entry an operator in every list.
-- message: {length} entries for {operators} operators
select cycle, '$.' || key as path, length, operators from summary_lists where form = '{form}' and is_by_operator and length <> operators

-- check: {check}
-- code: I111
-- needs: {form}
-- in: {form}
-- each: check, form = the_summary_agrees_with_itself, minddata_pipeline_summary_json_summary;
--   the_summary_table_agrees_with_itself, minddata_pipeline_summary_csv_summary
-- about: An operator is called by its name and number.
-- message: {label} here, {own_label} by name and number
select cycle, '$.pipeline_ops[' || index || ']' as path, label, own_label
from summary_operators where form = '{form}' and label <> own_label

-- check: {check}
-- code: I111
-- needs: {form}
-- in: {form}
-- each: check, form = the_summary_agrees_with_itself, minddata_pipeline_summary_json_summary;
--   the_summary_table_agrees_with_itself, minddata_pipeline_summary_csv_summary
-- invariant: references_resolve
-- about: Children are there.
-- message: {own_label} has the child {child}, which does not exist
select cycle, '$.children_ids[' || index || ']' as path, own_label, child
from (select *, unnest(children) as child from summary_operators where form = '{form}')
where (cycle, child) not in (select (cycle, op_id) from summary_operators where form = '{form}')

-- check: {check}
-- code: I111
-- needs: {form}
-- in: {form}
-- each: check, form = the_summary_agrees_with_itself, minddata_pipeline_summary_json_summary;
--   the_summary_table_agrees_with_itself, minddata_pipeline_summary_csv_summary
-- about: The parent of an operator is one that names it as a child; -1 where none does.
-- message: {own_label} has the parent {parent}, but is a child of {parents}
with named as (
  select cycle, child, list_sort(list_distinct(list(op_id))) as parents
  from (select cycle, op_id, unnest(children) as child from summary_operators where form = '{form}')
  group by cycle, child)
select here.cycle, '$.parent_id[' || index || ']' as path, own_label, parent, coalesce(parents, [-1])::varchar as parents
from summary_operators as here left join named on named.cycle = here.cycle and child = op_id
where form = '{form}' and not list_contains(coalesce(parents, [-1]), parent)

-- check: {check}
-- code: I105
-- needs: {form}
-- in: {form}
-- each: check, form = the_summary_agrees_with_itself, minddata_pipeline_summary_json_summary;
--   the_summary_table_agrees_with_itself, minddata_pipeline_summary_csv_summary
-- about: The use of the CPU by a worker is that by the operator / its workers; -1 where it is not known. It is written only where it is
--   known of all operators.
-- tolerance: 0.0051: two decimals
-- message: {share_per_worker} here, {share} / {workers} workers gives {expected}
select cycle, '$.avg_cpu_pct_per_worker[' || index || ']' as path, share_per_worker, share, workers, expected
from (
  select *, coalesce(rounded(case when share::double >= 0 then share::double end / nullif(workers::double, 0))::varchar, '-1') as expected
  from summary_operators where form = '{form}')
where abs(share_per_worker::double - expected::double) > 0.0051

-- check: both_summaries_say_the_same
-- code: I111
-- needs: minddata_pipeline_summary_json_summary, minddata_pipeline_summary_csv_summary
-- in: minddata_pipeline_summary_csv_summary
-- about: Both forms have the same keys and values; only the order of keys may differ. Exact.
-- message: {key}: {value} here, {documented} in minddata_pipeline_summary_json
with here as (from summary_lists where form = 'minddata_pipeline_summary_csv_summary'),
there as (from summary_lists where form = 'minddata_pipeline_summary_json_summary')
select coalesce(here.cycle, there.cycle) as cycle, coalesce(here.key, there.key) as key, shown(here.list) as value,
  shown(there.list) as documented
from here full join there on there.cycle = here.cycle and there.key = here.key
where numbers_as_such(here.list) is distinct from numbers_as_such(there.list)

-- check: the_summary_follows_from_the_pipeline
-- code: I111
-- needs: pipeline_profiling_operators, minddata_pipeline_summary_json_summary
-- in: minddata_pipeline_summary_json_summary
-- about: The operators of the summary are those of the pipeline.
-- message: op_ids {ids} here, {ids_there} in pipeline_profiling
select cycle, '$.op_ids' as path, shown(ids) as ids, shown(ids_there::varchar) as ids_there
from pipeline_ids where not is_same

-- check: the_summary_follows_from_the_pipeline
-- code: {code}
-- each: code, key, value = I111, op_names, name; I111, num_workers, num_workers; I105, queue_average_size, average;
--   I105, queue_utilization_pct, utilization; I105, queue_empty_freq_pct, empty_share
-- about: Operators, workers and queues of the summary are those sampled: the average is the mean; the utilisation 100 * that / length;
--   empty the share of samples that are 0.
-- tolerance: 0.0051 for the queues: two decimals
-- message: operator {op_id}: {key} {here} here, {there} follows from pipeline_profiling
with pairs as (
  select cycle, op_id, place, pipeline.{value} as there, (summary.{key}::json::varchar[])[place] as here
  from sampled_operators as pipeline join minddata_pipeline_summary_json_summary as summary using (cycle)
  where cycle in (select cycle from pipeline_ids where is_same))
select cycle, '$.{key}[' || (place - 1) || ']' as path, op_id, coalesce(here, 'nothing') as here, there
from pairs
where '{code}' = 'I111' and here is distinct from there::varchar
  or '{code}' = 'I105' and abs(try_cast(here as double) - try_cast(there as double)) > 0.0051

-- check: {check}
-- code: I105
-- needs: minddata_pipeline_summary_json_summary, {slot}
-- in: minddata_pipeline_summary_json_summary
-- each: check, slot = the_mean_times_follow_from_the_batches, dataset_iterator_profiling;
--   the_mean_times_follow_from_the_device_queue, device_queue_profiling
-- about: Mean times are those of all batches but the first; -1 where there are none.
-- tolerance: 0.00051 ms: three decimals
-- source: minddata_analyzer.py (2.0), ms_minddata_viewer.py (2.10)
-- message: {reported} ms here, the batches in {slot} give {mean_ms:.3f} ms
select cycle, '$.' || key || '[0]' as path, reported, mean_ms
from (select cycle, key, (list::json::varchar[])[1] as reported from summary_lists where form = 'minddata_pipeline_summary_json_summary')
join batch_means using (cycle, key)
where slot = '{slot}' and abs(reported::double - mean_ms) > 0.00051
  and cycle in (select cycle from minddata_pipeline_summary_json_summary where per_pipeline_time is not null)

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
-- about: Of one node no wait begins before the one in front of it. Exact.
-- message: {node_name} begins at {start_us:.3f} us, the line before it at {before_us:.3f} us
select cycle, row, node_name, start_time_ns / 1000 as start_us, before_ns / 1000 as before_us
from (select *, lag(start_time_ns) over (partition by cycle, node_name order by row) as before_ns from minddata_aicpu)
where start_time_ns < before_ns

-- check: samples_have_one_interval
-- code: I113
-- headline: the files are not of one run
-- needs: minddata_cpu_utilization_sampling, pipeline_profiling_sampling
-- in: minddata_cpu_utilization
-- at: $.sampling_interval
-- about: The queues and the CPU are sampled at the interval that the program set. Not where the file is of an earlier pipeline, which has
--   other operators, and not in 1.x.
-- source: MindSpore 2.0 and 2.10: cpu_sampler.cc, connector_size.cc (SaveToFile: monitor_sampling_interval)
-- message: {here} ms here, {there} ms in pipeline_profiling
select here.cycle, here.sampling_interval_ns // 1000000 as here, there.sampling_interval_ns // 1000000 as there
from minddata_cpu_utilization_sampling as here join pipeline_profiling_sampling as there using (cycle)
where here.sampling_interval_ns <> there.sampling_interval_ns
  and here.cycle not in (
    select cycle from minddata_cpu_utilization_operators
    where op_id <> -1 and (cycle, op_id) not in (select (cycle, op_id) from pipeline_profiling_operators))
