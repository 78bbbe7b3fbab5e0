-- What the flat files of MindSpore 1.x to 2.4 say. They kept their names while their writers changed: up to 2.0 they are made by parsers
-- of MindSpore's own, from 2.1 on out of msprof's op_summary. Whatever holds for one of the two only is checked for its layouts.

-- Rows of step_trace_raw with the row above: the last one is the average.
create view step_lines as
select *, lag(step_num) over lines as before, lag(start_point_ns) over lines as earlier_ns, row_number() over lines as place,
  count(*) over (partition by cycle) as rows
from step_trace_raw
window lines as (partition by cycle order by row);

-- Whether a row of step_trace_raw is a step, and neither the average (numbered -, by old versions 0) nor filled with zeros.
create macro is_a_step(number, fp_point, bp_point) as number > 0 and (fp_point <> 0 or bp_point <> 0);

-- Parts of the steps with what they follow from.
create view step_parts as
select cycle, row, step_num as step,
  unnest(['total', 'total', 'total', 'iteration_interval', 'fp_and_bp', 'tail', 'fp']) as part,
  unnest([total_ns, total_ns, total_ns, iteration_interval_ns, fp_and_bp_ns, tail_ns, fp_ns]) as here_ns,
  unnest(['end_point - start_point', 'iteration_interval + fp_and_bp + tail', 'iteration_interval + fp', 'fp_point - start_point',
    'bp_point - fp_point', 'end_point - bp_point', 'end_point - fp_point']) as parts,
  unnest([end_point_ns - start_point_ns::hugeint, iteration_interval_ns::hugeint + fp_and_bp_ns + tail_ns,
    iteration_interval_ns::hugeint + fp_ns, fp_point_ns - start_point_ns::hugeint, bp_point_ns - fp_point_ns::hugeint,
    end_point_ns - bp_point_ns::hugeint, end_point_ns - fp_point_ns::hugeint]) as there_ns
from step_trace_raw
where is_a_step(step_num, fp_point_ns, bp_point_ns);

-- Communication operators of the rows of step_trace_raw: each has three columns.
create view step_communication as
select cycle, row, regexp_replace(name, '_(start|end)_point$', '') as name,
  max(value_ns) filter (not ends_with(cells.name, '_point')) as duration_ns,
  max(value_ns) filter (ends_with(cells.name, '_start_point')) as start_ns,
  max(value_ns) filter (ends_with(cells.name, '_end_point')) as end_ns
from step_trace_raw_communication as cells
group by all;

-- Cycles whose other files say that MindSpore up to 2.0 wrote them, whose flat files are those of its own parsers.
create view cycles_up_to_2_0 as
select cycle from aicore_intermediate_detail where task_type is null
union
select cycle from profiler_info_run
where regexp_matches(ms_version, '^([01]\.|2\.0([^0-9]|$))') and cycle not in (select cycle from aicore_intermediate_detail);

-- Steps of hccl_raw with its JSON, in which times are in ms up to 2.0, from 2.1 on in us. Costs beyond 64 bits are the largest.
create view hccl_steps as
select * replace (if(json_valid(link_info), link_info, '{}') as link_info,
  if(json_valid(communication_operator_cost), communication_operator_cost, '{}') as communication_operator_cost,
  coalesce(communication_cost_ns, 9223372036854775807) as communication_cost_ns,
  coalesce(wait_cost_ns, 9223372036854775807) as wait_cost_ns)
from hccl_raw where step_num is not null;

-- Steps whose last row is the last of them once more, as MindSpore since 2.1 writes it, and not their mean.
create view copied_steps as
select cycle
from hccl_raw
where cycle not in (from cycles_up_to_2_0)
group by cycle
having arg_max(communication_cost_ns, row) filter (step_num is null) = arg_max(communication_cost_ns, row) filter (step_num > 0)
  and arg_max(wait_cost_ns, row) filter (step_num is null) = arg_max(wait_cost_ns, row) filter (step_num > 0);

-- Communication operators of the steps: `{"name": [step, time, wait, links]}`.
create view hccl_operators as
select cycle, row, step_num, unnest(json_keys(communication_operator_cost)) as name,
  unnest(communication_operator_cost ->> '$.*[0]') as step,
  try_cast(unnest(communication_operator_cost ->> '$.*[1]') as double) as elapse,
  try_cast(unnest(communication_operator_cost ->> '$.*[2]') as double) as wait,
  unnest(communication_operator_cost -> '$.*[3]') as links
from hccl_steps;

-- Links of the steps and of their operators: `{"1-0": {"SDMA": [time in ms, size in KB, bandwidth]}}`.
create view hccl_links as
select cycle, row, of_operator, pair.key as pair, kind.key as kind, unnest(['time', 'size']) as what,
  coalesce(try_cast(unnest([kind.value -> 0, kind.value -> 1]) as double), 0) as amount
from (
  select cycle, row, false as of_operator, link_info as links from hccl_steps
  union all
  select cycle, row, true, links from hccl_operators),
  json_each(links) as pair, json_each(pair.value) as kind;

-- Types with the unit of their share: percent with two decimals up to 2.0, exact fractions from 2.1 on.
create view device_types as
select cycle, row, type, coalesce(total_time_ns, execution_time_ns) as total_ns, execution_frequency as times,
  coalesce(listed.share, listed.percent) as share, if(listed.share is null, 100, 1) as whole,
  if(listed.share is null, 0.0051, 0.000001) as slack, total_time_ns is not null and listed.share is null as of_executions
from aicore_intermediate_type as listed;

-- What shares are shares of. MindSpore 2.0 divides by the time of all executions plus the mean of every operator once more; without
-- the details that mean is between nothing and all of the time. `rounded_ns`: what times in whole ns can cost the base.
create view share_bases as
with sums as (
  select cycle, sum(total_ns)::double as total_ns, sum(share) as shares, count(*) as types, any_value(whole) as whole,
    any_value(slack) as slack, bool_or(of_executions) as of_executions
  from device_types group by cycle having sum(total_ns) > 0),
means as (select cycle, sum(mean_ns)::double as mean_ns, count(*) as operators from aicore_intermediate_detail group by cycle)
select cycle, total_ns, shares, types, whole, slack, 0.5 * (types + coalesce(operators, 0)) as rounded_ns,
  case
    when not of_executions then total_ns
    when mean_ns is null then least(greatest(100 * total_ns / nullif(shares, 0), total_ns), 2 * total_ns)
    when abs(100 - shares) <= abs(100 * total_ns / (total_ns + mean_ns) - shares) then total_ns
    else total_ns + mean_ns
  end as base_ns
from sums left join means using (cycle);

-- Types with what the operators that framework_raw says are of them add up to.
create view type_sums as
with kinds as (select cycle, name, arg_max(type, row) as type from framework_raw group by cycle, name),
sums as (
  select cycle, type, sum(mean_ns::double * coalesce(execution_frequency, 1)) as sum_ns,
    sum(coalesce(execution_frequency, 1)) as count
  from aicore_intermediate_detail join kinds using (cycle, name)
  group by cycle, type)
select cycle, row, type, times, coalesce(count, 0) as count, total_ns, sum_ns, times = coalesce(count, 0) or type = '' as is_counted
from device_types left join sums using (cycle, type);

-- Operators of the details with their executions in the timeline.
create view timed_operators as
with executions as (
  select cycle, name, avg(duration_ns) as duration_ns, count(*) as count from output_timeline_data group by cycle, name)
select cycle, row, name, execution_frequency as times, coalesce(count, 0) as count, mean_ns, duration_ns,
  count is not null and coalesce(execution_frequency = count, true) as is_counted
from aicore_intermediate_detail left join executions using (cycle, name);

create view timeline_breaks as
select cycle, row, name, start_time_ns as start_ns, before_ns
from (
  select cycle, row, name, start_time_ns, lag(start_time_ns) over (partition by cycle order by row) as before_ns
  from output_timeline_data)
where start_time_ns < before_ns;

-- Operators of output_op_compute_time with their time in the details, those that have one there; how many there are, and how many of
-- them are off.
create view compute_times as
select *, count(*) over (partition by cycle) as known, count(*) filter (is_off) over (partition by cycle) as off
from (
  select listed.cycle, row, op_name as name, compute_time_ns as here_ns, there_ns,
    abs(compute_time_ns - there_ns) > 1 + 0.0001 * there_ns as is_off
  from output_op_compute_time as listed
  join (select cycle, name, arg_min(mean_ns, row) as there_ns from aicore_intermediate_detail group by cycle, name) as details
    on details.cycle = listed.cycle and details.name = op_name
  where not regexp_full_match(op_name, 'total( op)?'));

-- First and last time on the clock of the device in the files that have one, beside those of the file that is believed: the first of
-- them that is there.
create view device_clocks as
select *, row_number() over files = 1 as is_believed, first_value(slot) over files as believed,
  first_value(first_ns) over files as from_ns, first_value(last_ns) over files as to_ns
from (
  select cycle, place, slot, min(time_ns) as first_ns, max(time_ns) as last_ns
  from (
    select cycle, 1 as place, 'output_timeline_data' as slot, start_time_ns as time_ns from output_timeline_data
    union all select cycle, 2, 'step_trace_raw', start_point_ns from step_trace_raw
    union all select cycle, 3, 'output_format_data_hwts', cycle_counter_ns from output_format_data_hwts
    union all select cycle, 4, 'aicpu_intermediate', run_start_ns from aicpu_intermediate
    union all select cycle, 5, 'aicpu_intermediate', run_end_ns from aicpu_intermediate)
  where time_ns > 0
  group by cycle, place, slot)
window files as (partition by cycle order by place);

-- Types of a GPU's operators, those that either file has: what they say of themselves, and what their operators add up to.
create view gpu_types as
with sums as (
  select cycle, op_type, sum(op_occurrences) as count, sum(op_total_time_ns) as total_ns, count(*) as operators
  from gpu_op_detail_info group by cycle, op_type)
select coalesce(listed.cycle, sums.cycle) as cycle, coalesce(listed.op_type, sums.op_type) as type,
  coalesce(type_occurrences, 0) as times, coalesce(count, 0) as count, coalesce(total_time_ns, 0) as here_ns,
  coalesce(total_ns, 0) as there_ns, coalesce(operators, 0) as operators
from gpu_op_type_info as listed full join sums on sums.cycle = listed.cycle and sums.op_type = listed.op_type;

-- Operators of a GPU, those that either file has, with their executions.
create view gpu_operators as
with listed as (
  select cycle, op_full_name as name, sum(op_occurrences) as times, sum(op_total_time_ns) as total_ns
  from gpu_op_detail_info group by cycle, op_full_name),
executions as (
  select cycle, full_op_name as name, count(*) as count, sum(duration_ns) as total_ns
  from gpu_op_execute_timestamp group by cycle, full_op_name)
select coalesce(listed.cycle, executions.cycle) as cycle, coalesce(listed.name, executions.name) as name, coalesce(times, 0) as times,
  coalesce(count, 0) as count, coalesce(listed.total_ns, 0) as there_ns, coalesce(executions.total_ns, 0) as here_ns
from listed full join executions on executions.cycle = listed.cycle and executions.name = listed.name;

-- Activities of a GPU, those that either file has, with their executions. Where the fewer of them agree in number the two files may
-- tell activities apart by something else: then there is none.
create view gpu_activities as
with listed as (
  select cycle, name, stream_id, sum(occurrences) as times, sum(total_duration_ns) as total_ns, max(max_duration_ns) as most_ns,
    min(min_duration_ns) as least_ns
  from gpu_activity_data group by cycle, name, stream_id),
executions as (
  select cycle, name, stream_id, count(*) as count, sum(duration_ns) as total_ns, max(duration_ns) as most_ns, min(duration_ns) as least_ns
  from activity_execute_timestamp group by cycle, name, stream_id),
both_files as (
  select coalesce(listed.cycle, executions.cycle) as cycle, coalesce(listed.name, executions.name) as name, times, count,
    coalesce(times = count, false) as is_counted, listed.total_ns, executions.total_ns as total_there_ns, listed.most_ns,
    executions.most_ns as most_there_ns, listed.least_ns, executions.least_ns as least_there_ns
  from listed full join executions
    on executions.cycle = listed.cycle and executions.name = listed.name and executions.stream_id = listed.stream_id)
from both_files
where cycle in (
  select cycle from both_files group by cycle having 2 * count(*) filter (is_counted) > least(count(times), count(count)));

-- Operators whose shapes change, with how many executions most have (the first, where none has more).
create view dynamic_operators as
with counts as (
  select cycle, op_exe_occurrences as usual, count(*) as operators, min(row) as row
  from dynamic_shape_info_operators group by cycle, op_exe_occurrences),
most as (select cycle, usual from counts qualify row_number() over (partition by cycle order by operators desc, row) = 1)
select cycle, row, path, type, name, op_exe_occurrences as occurrences, usual, op_exe_time::double[] as times_ms,
  json_array_length(op_exe_time)::bigint as times, json_array_length(op_shape)::bigint as shapes
from dynamic_shape_info_operators join most using (cycle);

-- Their types, those that are listed with their means and have operators; whether all of these have as many executions as the type.
create view dynamic_types as
select means.cycle, means.row, means.path, type, numbers::double[] as means_ms, any_value(times) as times,
  min(times) = max(times) and min(times) = len(numbers::double[]) as is_counted, list(times_ms order by operators.row) as times_ms
from dynamic_shape_info_means as means join dynamic_operators as operators using (cycle, type)
group by means.cycle, means.row, means.path, type, numbers;

create view dynamic_means as
select cycle, row, path, index, mean_ms, avg(times_ms[index + 1]) as there_ms, count(*) as operators
from (
  select cycle, row, path, index, means_ms[index + 1] as mean_ms, unnest(times_ms) as times_ms
  from (select *, unnest(range(len(means_ms))) as index from dynamic_types where is_counted))
group by cycle, row, path, index, mean_ms;

-- The sum of the numbers under a path of a JSON document.
create macro json_sum(document, numbers) as
  coalesce(list_sum(list_transform(json_extract(document, numbers), lambda one: coalesce(try_cast(one as double), 0))), 0);

-- Operations of hccl_raw, and a row without a name for each step. `hccl_costs_in_ms`: up to MindSpore 2.0; `hccl_costs_in_us`: from 2.1 on.
create view hccl_costs as
select cycle, row, name, elapse, wait from hccl_operators
union all
select cycle, row, null, null, null from hccl_steps;

create view hccl_costs_in_ms as
select cycle, row as place, row as step, name, elapse * 1e6 as elapse_ns, wait * 1e6 as wait_ns from hccl_costs;

create view hccl_costs_in_us as
select cycle, row as place, row as step, name, elapse * 1e3 as elapse_ns, wait * 1e3 as wait_ns from hccl_costs;

-- The type of each operator: what framework_raw says of it, or else what its name has: `Default/layer1/MatMul-op12` is a MatMul.
create view operator_types as
select cycle, name, arg_min(coalesce(kernel_type, type), row) as operator from framework_raw where name is not null group by cycle, name;

create macro type_in_name(name) as coalesce(nullif(regexp_extract(name, '([^/]+?)(?:-op\d+)?$', 1), ''), name);

-- Operators of a device one by one.
create view timeline_executions as
select cycle, row, coalesce(operator, type_in_name(name)) as operator, name, start_time_ns as start_ns, duration_ns,
  null::varchar as shapes, 1::bigint as calls
from output_timeline_data left join operator_types using (cycle, name);

-- Operators of a device by their averages: each ran once where the file does not say how often. A damaged count is not to stand for
-- all else.
create view average_executions as
select * exclude (times), null::varchar as shapes, least(times, 1000000::bigint) as calls
from (
  select cycle, row, coalesce(operator, type_in_name(name)) as operator, name, 0::bigint as start_ns, mean_ns as duration_ns,
    if(bool_or(execution_frequency is not null) over (partition by cycle), execution_frequency, 1::bigint) as times
  from aicore_intermediate_detail left join operator_types using (cycle, name))
where times > 0;

-- Operators of a GPU by their averages.
create view gpu_executions as
select cycle, row, op_type as operator, op_full_name as name, 0::bigint as start_ns, op_avg_time_ns as duration_ns,
  null::varchar as shapes, least(op_occurrences, 1000000::bigint) as calls
from gpu_op_detail_info where op_occurrences > 0;

-- Executions of output_timeline_data beside the events that ascend_timeline_display draws of them: the n-th of a name on a stream here
-- and there. Its clock begins at the first event of the run: `apart_ns` is the usual distance. `undrawn`: share of the executions that
-- have no event; `off`: share of those that are drawn at another time, or not.
create view drawn_events as
select cycle, regexp_replace(name, '^.*/', '') as name, tid as stream, ts_ns, dur_ns,
  row_number() over (partition by cycle, regexp_replace(name, '^.*/', ''), tid order by ts_ns nulls first, row) as nth
from ascend_timeline_display where ph = 'X';

create view streamed_executions as
select cycle, row, regexp_replace(trim(name), '^.*/', '') as name, stream_id::varchar as stream, start_time_ns as start_ns, duration_ns,
  row_number() over (
    partition by cycle, regexp_replace(trim(name), '^.*/', ''), stream_id order by start_time_ns nulls first, row) as nth
from output_timeline_data;

create view fill_drawn_executions as
with joined as (from streamed_executions left join drawn_events using (cycle, name, stream, nth)),
-- Groups, because windows over a whole cycle take the square of its rows.
counted as (
  select cycle, count(*) as executions, count(*) filter (ts_ns is null) as undrawn, median(ts_ns - start_ns::hugeint) as apart_ns
  from joined group by cycle),
judged as (
  select joined.*, executions, coalesce(
    ts_ns is null or abs(dur_ns::hugeint - duration_ns) > 10 or abs(ts_ns - start_ns::hugeint - apart_ns) > 1000, false) as is_off
  from joined join counted using (cycle)
  where undrawn < executions
    and undrawn <= executions * if(cycle in (select cycle from cycles where layout in ('ms-1.x', 'ms-2.0')), 0.5, 0.1))
select judged.*, off
from judged join (select cycle, count(*) filter (is_off) as off from judged group by cycle) using (cycle);

-- Points of the steps on a GPU, in ns: with asynchronous launch a line is a step, and its first four points begin the step, begin and
-- end the passes, and end the step; behind them is communication. Without, a line has all starts and ends of one operator. `nth`: which
-- execution of the operator.
create view gpu_points as
select *, if(is_async, line, place) as nth
from (
  select cycle, row, line, op_name, start_ns, end_ns, bool_or(end_ns is null) over (partition by cycle) as is_async,
    row_number() over (partition by cycle, line order by rowid) as place
  from step_trace_profiling);

create view gpu_runs as
select cycle, row, full_op_name, regexp_replace(full_op_name, '^.*/', '') as name, start_ns, duration_ns,
  row_number() over (partition by cycle, full_op_name order by rowid) as nth
from gpu_op_execute_timestamp;

-- Steps on a GPU, with asynchronous launch.
create view gpu_steps as
select cycle, line as step, min(row) as row, max(start_ns) filter (place = 1) as begins_ns, max(start_ns) filter (place = 2) as forward_ns,
  max(start_ns) filter (place = 3) as backward_ns, max(start_ns) filter (place = 4) as ends_ns
from gpu_points where is_async group by cycle, line;

-- Timelines that are whole: a writer stops behind a number of MiB, 20 by default, and adds no more than the names of the lanes.
create view whole_gpu_timelines as
select cycle from files
where slot = 'gpu_timeline_display' and file is not null and (bytes < 1048576 or bytes % 1048576 > 65536);

-- What a timeline of a GPU draws: steps, operators and activities. Up to 1.2 lanes are called by their names, and operators in full. Lanes
-- of communication have arguments, too, but no operator.
create view gpu_drawings as
select *, row_number() over (partition by cycle, kind, name, stream order by start_ns nulls first, row) as nth,
  count(*) over (partition by cycle, kind, name, stream) as times
from (
  select cycle, row, pid, case when tid in ('100000', 'Steps') then 'step' when tid in ('100002', 'GpuOps', 'Ops') then 'operator'
    when args ->> '$.op_full_name' is not null then 'activity' end as kind,
    regexp_replace(gpu_timeline_display.name, '^.*/', '') as name, if(args is null, '', regexp_extract(tid, '[0-9]+$')) as stream,
    args, ts_ns as start_ns, dur_ns as duration_ns
  from gpu_timeline_display semi join whole_gpu_timelines using (cycle)
  where ph = 'X')
where kind is not null;

-- What it is made of.
create view gpu_drawn as
select *, row_number() over (partition by cycle, kind, name, stream order by start_ns nulls first, place) as nth,
  count(*) over (partition by cycle, kind, name, stream) as times
from (
  select cycle, 'operator' as kind, name, '' as stream, start_ns, duration_ns, row as place from gpu_runs
  union all
  select cycle, 'activity', regexp_replace(name, '^.*/', ''), stream_id::varchar, start_ns, duration_ns, row from activity_execute_timestamp
  union all
  select cycle, 'step', step::varchar, '', begins_ns, ends_ns - begins_ns, step from gpu_steps)
where cycle in (from whole_gpu_timelines);

-- Figures of the operators on a GPU and on the host beside it.
create view gpu_figures as
select cycle, count(distinct (side, name)) as operators, count(*) as runs, sum(duration_ns) filter (side = 'gpu')::double as lasts_ns,
  count(distinct lane) as lanes, max(scope_depth(name)) as depth, bool_or(side = 'cpu') as has_host
from (
  select cycle, 'gpu' as side, full_op_name as name, 'gpu' as lane, duration_ns from gpu_op_execute_timestamp
  union all
  select cycle, 'cpu', full_op_name, coalesce(thread::varchar, 'host'), 0 from cpu_op_execute_timestamp)
group by cycle having bool_or(side = 'gpu');

-- The average row of the steps, column by column, beside the mean over all steps (`form` 0) and over all but the first (1).
create view step_averages as
with columns_of as (
  select cycle, row, place, rows, unnest(range(9)) as place_of,
    unnest(['start_point', 'end_point', 'total', 'fp_point', 'bp_point', 'iteration_interval', 'fp_and_bp', 'tail', 'fp']) as name,
    unnest([start_point_ns, end_point_ns, total_ns, fp_point_ns, bp_point_ns, iteration_interval_ns, fp_and_bp_ns, tail_ns, fp_ns]) as ns
  from step_lines where rows > 1),
means as (
  select cycle, form, name, count(*) as steps, sum(ns::hugeint) // count(*) as there_ns
  from columns_of, (select unnest([0, 1]) as form)
  where place < rows and (form = 0 or place > 1) and ns is not null
  group by cycle, form, name)
select cycle, row, place_of, name, form, ns as here_ns, steps, there_ns, abs(ns - there_ns) > 10 as is_off
from columns_of join means using (cycle, name)
where place = rows and ns is not null
  and cycle in (select cycle from step_lines where place = rows and coalesce(step_num, 0) = 0 and (start_point_ns > 0 or end_point_ns > 0));

-- Operations of the scopes, link by link: below the top scope, names have that in brackets, of a gradient of what is computed again
-- `recompute_Gradients`.
create view flops_of_scopes as
with named as (
  select cycle, operations_mflop as value, string_split(name, '/')[:-2] as scopes,
    if(starts_with(name, 'Gradients/recompute_Default'), 'recompute_Gradients', string_split(name, '/')[1]) as top
  from flops where operations_mflop is not null and contains(name, '/')),
chains as (
  select cycle, value, ['Total', scopes[1]] || list_transform(scopes[2:], lambda one: one || '(' || top || ')') as chain from named)
select cycle, source, target, sum(value) as value, count(*) as operators
from (select cycle, value, unnest(chain[:-2]) as source, unnest(chain[2:]) as target from chains)
group by all;
