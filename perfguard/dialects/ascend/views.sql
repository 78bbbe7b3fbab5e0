-- What the events of a trace_view are.

-- The first name of each process.
create view process_names as
select cycle, process, arg_min(text, row) as name from processes where is_name and text is not null group by all;

create view lanes as
select cycle, threads.number as thread, process, threads.thread as depth, process_names.name
from process_names join threads using (process);

-- The number of a step, as a text that names it has it.
create macro step_number(label) as try_cast(regexp_extract(label, '^\s*([0-9]{1,18})\s*$', 1) as bigint);

create view view_step_marks as
select cycle, row, substr(text, 14) as label, start_ns, duration_ns
from view_spans join words on words.number = view_spans.name
where starts_with(text, 'ProfilerStep#');

-- First and last start, without events of CANN about a graph.
create view ranges as
select cycle, min(start_ns) as first_ns, max(start_ns) as last_ns
from view_spans left join lanes using (cycle, thread)
where not of_graph or lanes.name is not null and lanes.name <> number_of('CANN')
group by cycle;

-- What the lanes of Overlap Analysis add up to, by the number in the label of the process: `NPU 0` is device 0.
create view lane_sums as
with labels as (
  select cycle, process, nullif(regexp_extract(word(arg_min(text, row)), '[0-9]+'), '') as device
  from processes where not is_name and text is not null group by cycle, process)
select cycle, device, word(view_spans.name) as lane, within(sum(duration_ns)) as total_ns
from view_spans
join lanes using (cycle, thread)
left join labels using (cycle, process)
where lanes.name = number_of('Overlap Analysis') and view_spans.name in (
  number_of('Computing'), number_of('Communication'), number_of('Communication(Not Overlapped)'), number_of('Free'))
group by cycle, process, device, view_spans.name;

create view traced_on_host as
select distinct cycle from view_spans where category = number_of('cpu_op');

create view fill_host_operator_sums as
select cycle, word(name) as name, count(*) as count, coalesce(within(sum(duration_ns)), 0) as lasts
from view_spans
where category = number_of('cpu_op')
  and name not in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+'))
group by cycle, view_spans.name;

create view fill_traced_names as select distinct cycle, word(name) as name from view_spans where category = number_of('cpu_op');

-- Calls of CANN by name, without the part before @: durations in ns, extremes in us, variance in us^2.
create view fill_cann_sums as
select cycle, regexp_extract(word(view_spans.name), '[^@]*$') as name, count(*) as count, coalesce(within(sum(duration_ns)), 0) as lasts,
  min(duration_ns) / 1000 as least_drawn, max(duration_ns) / 1000 as most_drawn, var_pop(duration_ns / 1000) as spread_drawn
from view_spans
join threads on threads.number = view_spans.thread
semi join (select cycle, process from processes where is_name and text = number_of('CANN')) as cann
  on cann.cycle = view_spans.cycle and cann.process = threads.process
group by all;

-- Operators of the host that MindSpore draws.
create view host_operators as
select * from view_spans where kind = number_of('"HostCpuOps"');

-- Operators of the host that are drawn more or less often than cpu_op_detail_info counts them.
create view drawn_occurrences as
with drawn as (select cycle, word(name) as operator, count(*) as count from host_operators group by cycle, name),
counted as (
  select cycle, full_op_name as operator, sum(op_occurrences) as listed from cpu_op_detail_info group by cycle, full_op_name)
select cycle, operator, coalesce(count, 0) as count, coalesce(listed, 0) as listed
from drawn full join counted using (cycle, operator)
where coalesce(count, 0) <> coalesce(listed, 0);

-- Events that agree in time, thread, name and length: some may be one event twice.
create view alike as
select cycle, row, true as is_span
from (
  select cycle, row, count(*) over (partition by cycle, start_ns, thread, name, duration_ns) as times
  from view_spans
  semi join (select cycle, start_ns from view_spans group by all having count(*) > 1) using (cycle, start_ns))
where times > 1
union all
select cycle, row, false
from (
  select cycle, row, count(*) over (partition by cycle, time_ns, thread, category, id, id_text, is_start) as times
  from flows
  semi join (select cycle, time_ns from flows group by all having count(*) > 1) using (cycle, time_ns))
where times > 1
union all
select cycle, row, false
from (
  select cycle, row, count(*) over (partition by cycle, time_ns, thread, name, phase, arguments) as times
  from others
  semi join (select cycle, arguments from others group by all having count(*) > 1) using (cycle, arguments))
where times > 1;

-- Rows of kernel_details with the events that have their name and start; MindSpore puts the operator that launched a kernel before
-- its name there.
create view drawn_kernels as
with names as (
  select number as listed, number as name from words where number in (select name from kernel_lines)
  union all
  select endings.number, words_of.number
  from (
    select number, unnest(list_transform(range(2, len(parts) + 1), lambda first: array_to_string(parts[first:], '/'))) as ending
    from (select number, string_split(text, '/') as parts from words where contains(text, '/') and number in (
      select name from kernel_lines))) as endings
  join words as words_of on words_of.text = endings.ending)
select listed.cycle, listed.row, listed.name, listed.duration_ns as listed_ns, view_spans.duration_ns as drawn_ns
from (select cycle, row, name, duration_ns, start_ns + unnest([-1, 0, 1]) as near_ns from kernel_lines) as listed
join names on names.listed = listed.name
join view_spans on view_spans.cycle = listed.cycle and view_spans.name = names.name and view_spans.start_ns = listed.near_ns;

-- Operators of the host beside the executions that have their place among those of their name, where these are as many.
create view paired_operators as
with here as (
  select *, row_number() over (partition by cycle, name order by start_ns, row) as place, count(*) over (partition by cycle, name) as times
  from host_operators),
there as (
  select listed.cycle, words.number as name, listed.start_ns, listed.duration_ns, listed.thread,
    row_number() over (partition by listed.cycle, words.number order by listed.start_ns, listed.row) as place,
    count(*) over (partition by listed.cycle, words.number) as times
  from cpu_op_execute_timestamp as listed join words on words.text = listed.full_op_name)
select here.cycle, here.row, word(here.name) as name, here.start_ns, there.start_ns as listed_start_ns, here.duration_ns as here_ns,
  there.duration_ns as there_ns, drawn.thread as drawn, there.thread::varchar as listed, abs(here.duration_ns - there.duration_ns) > 1 + there.duration_ns * 1e-9 as is_long
from here join there on there.cycle = here.cycle and there.name = here.name and there.place = here.place and there.times = here.times
left join threads as drawn on drawn.number = here.thread;

-- Operators of the host with a scope that is drawn, of traces in which no two of them run at once or begin together.
create view fill_operators_in_a_row as
with scoped as (
  select cycle, row, view_spans.name, start_ns, start_ns + duration_ns as end_ns, string_split(words.text, '/')[:-2] as scopes
  from view_spans join lanes using (cycle, thread) join words on words.number = view_spans.name
  where lanes.name = number_of('CPU OP') and duration_ns is not null and contains(words.text, '/')
    and regexp_matches(words.text, '^(Default|Gradients|recompute_Default)')),
beside as (
  select cycle, start_ns, lag(start_ns) over in_time as before_ns,
    max(end_ns) over (partition by cycle order by start_ns, row rows between unbounded preceding and 1 preceding) as busy_ns
  from scoped window in_time as (partition by cycle order by start_ns, row))
from scoped where cycle not in (select cycle from beside where start_ns <= before_ns or start_ns < busy_ns);

-- The blocks of scopes that they make.
create view scope_blocks as
with levels as (select cycle, row, start_ns, end_ns, unnest(range(len(scopes))) as depth, unnest(scopes) as scope from operators_in_a_row),
alike as (
  select *, coalesce(scope = lag(scope) over (partition by cycle, depth order by start_ns), false) as is_same from levels),
going_on as (
  select *, bool_and(is_same) over (partition by cycle, row order by depth) as goes_on from alike),
numbered as (
  select *, count(case when not goes_on then 1 end) over (partition by cycle, depth order by start_ns) as block from going_on)
select cycle, depth::varchar as depth, any_value(scope) as scope, min(start_ns) as begins_ns, arg_max(end_ns, start_ns) as ends_ns,
  1::bigint as times
from numbered group by cycle, depth, block;

-- The host's steps as trace_view marks them (ProfilerStep#N); none where it marks other steps than kernels name.
create view kernel_steps as
with marked as (
  select cycle, list_sort(list(label::bigint)) as numbers,
    list_sort(list([start_ns, bounded(start_ns) + bounded(duration_ns)])) as edges
  from view_step_marks where regexp_full_match(label, '[0-9]{1,18}')
  group by cycle
  having count(start_ns) = count(*) and count(duration_ns) = count(*)),
named as (select cycle, list_sort(list(distinct step)) as numbers from kernel_lines where step is not null group by cycle)
select cycle, unnest(range(len(numbers)))::integer as step, unnest(numbers) as number, null::integer as thread,
  unnest(edges)[1] as start_ns, unnest(edges)[2] as end_ns
from marked join named using (cycle, numbers);

-- Kernels that are no communication by device, type and core, as op_statistic counts them.
create view fill_kernel_kinds as
select cycle, word(device) as device, word(type) as type, word(core) as core, count(*) as rows,
  within(sum(duration_ns)) / 1000 as total_us, min(duration_ns) / 1000 as least_us, max(duration_ns) / 1000 as most_us, min(row) as row
from kernel_lines
where core not in (number_of('HCCL'), number_of('COMMUNICATION'))
group by cycle, kernel_lines.device, kernel_lines.type, kernel_lines.core;

-- Kernels that are communication by name, without the operator that launched them, which MindSpore puts before it; how many of
-- them lie in no step of a file that has steps.
create view kernel_collectives as
select cycle, name, count(*) as calls, count(*) filter (step_text in (number_of(''), number_of('N/A'))) as outside,
  arg_max(start_ns, row) as start_ns
from (select cycle, row, step_text, start_ns, regexp_extract(word(name), '[^/]*$') as name from kernel_lines
  where core in (number_of('HCCL'), number_of('COMMUNICATION')))
group by cycle, name;

-- Kernels with what they waited, and the time from the end of the kernel before on their device to their start.
create view fill_kernel_gaps as
select cycle, row, wait_ns, greatest(start_ns - ended_ns, 0) as gap_ns
from (
  select cycle, row, start_ns, wait_ns, lag(start_ns + duration_ns) over (partition by cycle, device order by row) as ended_ns
  from kernel_lines)
where wait_ns is not null and ended_ns is not null;

create view wait_counts as
select cycle, count(*) as known, count(*) filter (wait_ns > gap_ns + 300) as long, count(*) filter (wait_ns < gap_ns - 300) as short
from kernel_gaps
group by cycle;

-- Ratios with the times they follow from.
create view kernel_shares as
select cycle, row, counter, value, part_us, whole_us,
  whole_us > 0 and abs(value * whole_us - part_us) > 0.001 * whole_us + 0.0011 as is_off
from kernel_counters where part_us is not null;

create view fill_share_counts as
select cycle, counter, count(*) as known, count(*) filter (is_off) as off from kernel_shares group by cycle, counter;

-- By which constant factor Wait Time is the gap, and the time of a unit what its ratio says: it is in another unit. Asked where more
-- than one in ten is off; the first 100 000 lines tell.
create view wait_factors as
select cycle, usual as factor
from (
  select cycle, list(wait_ns / gap_ns) as factors, median(wait_ns / gap_ns) as usual
  from kernel_gaps
  where gap_ns > 300 and wait_ns > 0 and row <= 100000
    and cycle in (select cycle from wait_counts where greatest(long, short) > 0.1 * known)
  group by cycle)
where is_another_unit(factors, usual);

create view share_factors as
select cycle, counter, usual as factor
from (
  select cycle, counter, list(part_us / (value * whole_us)) as factors, median(part_us / (value * whole_us)) as usual
  from kernel_shares
  semi join (select cycle, counter from share_counts where off > 0.1 * known) using (cycle, counter)
  where part_us > 0 and value * whole_us > 0 and row <= 100000
  group by cycle, counter)
where is_another_unit(factors, usual);

-- Tasks of l2_cache, and whether kernel_details knows their streams and numbers, and their names there. Not those without a name (N/A): msprof
-- writes it where it knows no operator of the task.
create view fill_task_tracks as
with tasks as (
  select cycle, row, stream_id as stream, task_id as task, op_name as text from l2_cache
  where op_name <> 'N/A' and cycle in (select distinct cycle from kernel_lines where stream is not null and task is not null)),
met as (
  select distinct cycle, stream, task, name
  from kernel_lines semi join (select distinct cycle, stream, task from tasks) using (cycle, stream, task)),
known as (select met.*, text as kernel from met join words on words.number = met.name)
select tasks.cycle, row, any_value(tasks.text) as name, tasks.stream, tasks.task, min(kernel) as kernel, count(kernel) > 0 as is_known,
  coalesce(bool_or(kernel = tasks.text or ends_with(kernel, '/' || tasks.text)), false) as is_met
from tasks left join known on known.cycle = tasks.cycle and known.stream = tasks.stream and known.task = tasks.task
group by tasks.cycle, row, tasks.stream, tasks.task;

create view fill_task_counts as
select cycle, count(*) as rows, count(*) filter (is_known) as known, count(*) filter (is_known and not is_met) as wrong,
  count(*) filter (not is_met) as lost
from task_tracks
group by cycle;

-- Kernels on one core of AI Core in the streams that l2_cache has, whether it has them.
create view fill_cached_kernels as
select kernel_lines.cycle, row, kernel_lines.name, kernel_lines.stream, kernel_lines.task, cached.task is not null as is_met
from kernel_lines
left join (select distinct cycle, stream_id as stream, task_id as task from l2_cache) as cached
  on cached.cycle = kernel_lines.cycle and cached.stream = kernel_lines.stream and cached.task = kernel_lines.task
where kernel_lines.core in (number_of('AI_CORE'), number_of('AI_VECTOR_CORE')) and kernel_lines.task >= 0
  and kernel_lines.cycle in (select cycle from task_counts where 2 * wrong <= known and known > 0);

-- Operators of the host in the trace, steps excepted.
create view traced_operators as
select cycle, row, name, thread, start_ns, start_ns + duration_ns as end_ns, duration_ns
from view_spans
where category = number_of('cpu_op') and duration_ns is not null
  and name not in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+'));

-- What the operators at the top of their threads last. Where one begins as another ends, or with another, the writer may take it for a
-- part of it: `tied_ns` is what those last.
create view fill_top_operators as
with placed as (
  select *, max(end_ns) over (partition by cycle, thread order by start_ns, end_ns desc, row rows between unbounded preceding and 1 preceding)
      as before_ns,
    lag(start_ns) over (partition by cycle, thread order by start_ns, end_ns desc, row) as above_ns
  from traced_operators)
select cycle, within(coalesce(sum(duration_ns) filter (before_ns is null or start_ns >= before_ns), 0)) as top_ns,
  within(coalesce(sum(duration_ns) filter (start_ns = before_ns or start_ns = above_ns), 0)) as tied_ns, count(*) as operators
from placed group by cycle;

-- Flows whose ends the writer makes of events, how many there are, and those that have no event where they begin or end.
create view made_flows as
select * from flows
where category in (number_of('async_npu'), number_of('async_task_queue')) or category = number_of('HostToDevice') and not is_start;

create view flow_counts as
select cycle, category, is_start, count(*) as flows from made_flows group by all;

create view lost_ends as
select made_flows.*
from made_flows
anti join view_spans as spans
  on spans.cycle = made_flows.cycle and spans.thread = made_flows.thread and spans.start_ns between time_ns - 1 and time_ns + 1;

-- Tasks of the device that async_npu points to, added up.
create view fill_reached_tasks as
select flows.cycle, count(*) as tasks, within(coalesce(sum(duration_ns), 0)) as tasks_ns
from flows
join view_spans on view_spans.cycle = flows.cycle and view_spans.thread = flows.thread and start_ns = time_ns
where flows.category = number_of('async_npu') and not is_start and duration_ns is not null
group by flows.cycle;

-- Copies on the device, whether a flow of CANN ends at each, and whether that flow begins somewhere. Its number is that of the connection,
-- from 4000000000 on that of none.
create view fill_drawn_copies as
with copies as (
  select view_spans.cycle, row, view_spans.thread, start_ns
  from view_spans join lanes using (cycle, thread)
  where lanes.name = number_of('Ascend Hardware') and view_spans.name = number_of('MEMCPY_ASYNC')),
begun as (select distinct cycle, id, id_text from flows where category = number_of('HostToDevice') and is_start),
ended as (
  select copies.cycle, copies.row,
    bool_or(begun.cycle is not null or coalesce(flows.id, try_cast(trim(word(flows.id_text), '"') as bigint)) not between 1 and 3999999999)
      as is_begun
  from (select *, start_ns + unnest([-1, 0, 1]) as time_ns from copies) as copies
  join flows on flows.cycle = copies.cycle and flows.thread = copies.thread and flows.time_ns = copies.time_ns
  left join begun on begun.cycle = flows.cycle and begun.id is not distinct from flows.id and begun.id_text is not distinct from flows.id_text
  where flows.category = number_of('HostToDevice') and not is_start
  group by copies.cycle, copies.row)
select copies.*, ended.row is not null as has_flow, coalesce(is_begun, false) as is_begun
from copies left join ended on ended.cycle = copies.cycle and ended.row = copies.row;

-- Functions of AscendCL that started a copy: those at which a flow to the device begins, but for functions of events, and for those at which
-- a launch (of the level node) begins, too. Whether that flow ends.
create view fill_asked_copies as
with begun as (
  select *, time_ns + unnest([-1, 0, 1]) as met_ns from flows where category = number_of('HostToDevice') and is_start),
ended as (select distinct cycle, id, id_text from flows where category = number_of('HostToDevice') and not is_start),
called as (
  select begun.cycle, begun.row, any_value(spans.name) as name, any_value(start_ns) as start_ns, any_value(begun.id) as id,
    any_value(begun.id_text) as id_text
  from begun
  join view_spans as spans on spans.cycle = begun.cycle and spans.thread = begun.thread and start_ns = met_ns
  join words on words.number = spans.name
  group by begun.cycle, begun.row
  having bool_and(starts_with(text, 'AscendCL@') and not contains(lower(text), 'event')))
select called.cycle, called.row, name, start_ns, ended.cycle is not null as has_end
from called left join ended
  on ended.cycle = called.cycle and ended.id is not distinct from called.id and ended.id_text is not distinct from called.id_text;

create view operators_in_trace_views as
select events.cycle, row, step, words.text as name, words.text as type, 1::bigint as calls, events.thread, events.start_ns, duration_ns
from view_spans as events
join words on words.number = events.name
left join step_ranges as steps on steps.cycle = events.cycle and events.start_ns between steps.start_ns and steps.end_ns
  and events.start_ns < next_ns
where category = number_of('cpu_op') and not starts_with(words.text, 'ProfilerStep#');

-- Where an operator of the host asked for what begins on a device at a time: torch_npu and MindSpore draw an arrow (async_npu).
create view asked_at as
select ended.cycle, ended.time_ns, min(words.text) as operator
from flows as ended
join flows as begun on begun.cycle = ended.cycle and begun.category = ended.category and begun.is_start
  and begun.id is not distinct from ended.id and begun.id_text is not distinct from ended.id_text
join view_spans as events on events.cycle = begun.cycle and events.thread = begun.thread and events.start_ns = begun.time_ns
join words on words.number = events.name
where ended.category = number_of('async_npu') and not ended.is_start and not starts_with(words.text, 'ProfilerStep#')
group by ended.cycle, ended.time_ns
having count(distinct words.text) = 1;

create view kernels_in_tables as
with numbered as (
  select distinct cycle, step as number, dense_rank() over (partition by cycle order by step) - 1 as step
  from kernel_lines where step is not null)
select lines.cycle, row, numbered.step, words.text as name, kernel_operators.operator as type, if(is_collective, 'communication', 'compute') as kind,
  1::bigint as calls, 'npu:' || nullif(word(device), '') as device, stream, asked_at.operator, word(shapes) as input_shapes, start_ns, duration_ns, wait_ns
from kernel_lines as lines
left join asked_at on asked_at.cycle = lines.cycle and asked_at.time_ns = lines.start_ns
join words on words.number = lines.name
join kernel_operators on kernel_operators.type = lines.type and kernel_operators.name = lines.name
left join numbered on numbered.cycle = lines.cycle and numbered.number = lines.step;

create view collectives_in_tables as
select cycle, row, step, name, device, start_ns, duration_ns from kernels_in_tables where kind = 'communication';

-- The clocks of devices: msprof numbers its processes by that of the host, the kind of the lane and the device, 5 bits (trace_view).
create view counters_in_trace_views as
select cycle, row, 'npu:' || (try_cast(process as bigint) % 32) as device, 'clock_mhz' as name, time_ns, mhz as value
from clocks join threads on threads.number = clocks.thread
where mhz > 0 and not isnan(mhz);

-- Calls of CANN, which msprof draws as `level@name`. `tid`: the thread of the host that made them, as the system numbers it.
create view cann_calls as
select events.cycle, events.row, steps.step, if(parts[1] = 'AscendCL', 'acl', lower(parts[1])) as level, parts[2] as name,
  kind_of_cann(level, parts[2]) as kind, events.thread, trim(depth, '"') as tid, events.start_ns, duration_ns
from view_spans as events
join (
  select number, [string_split(text, '@')[1], regexp_extract(text, '^[^@]*@(.*)$', 1)] as parts
  from words where contains(text, '@')) as names on names.number = events.name
join lanes using (cycle, thread)
left join step_ranges as steps on steps.cycle = events.cycle and events.start_ns between steps.start_ns and steps.end_ns
  and events.start_ns < next_ns
where lanes.name = number_of('CANN') and events.start_ns is not null;

create view cann_callers as
select events.cycle, trim(depth, '"') as tid, words.text as name, events.start_ns, events.start_ns + duration_ns as end_ns
from view_spans as events
join words on words.number = events.name
join lanes using (cycle, thread)
where category = number_of('cpu_op') and not starts_with(words.text, 'ProfilerStep#') and duration_ns is not null;

create view launches_in_trace_views as
select cycle, row, step, name, kind, thread, operator, start_ns, duration_ns from inside_of('cann_calls', 'cann_callers');

-- Threads of the host that mark steps or run operators: what they call is of the step in which it begins. torch_npu's queue and other
-- threads of its own call when they come to it.
create view stepping_threads as
select distinct events.cycle, trim(depth, '"') as tid
from view_spans as events
join lanes using (cycle, thread)
where category = number_of('cpu_op') or (events.cycle, events.row) in (select (cycle, row) from view_step_marks);

-- Cycles whose calls of the runtime were recorded, and that say which thread runs the steps. The text of level 0 has none.
create view cann_recorded as
select distinct cycle from cann_calls where level = 'acl' and starts_with(name, 'aclrt') and cycle in (select cycle from stepping_threads);

create view cann_waits as
select * from cann_calls where kind = 'synchronise' and (cycle, tid) in (select (cycle, tid) from stepping_threads);

create view waits_in_trace_views as
select cycle, step, coalesce(operator, name) as name from inside_of('cann_waits', 'cann_callers');
