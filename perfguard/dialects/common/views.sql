-- What all dialects say of what ran, and what follows from it, once their tables are filled.

-- Executions that files list, added up by operator, name, step and shapes.
create view fill_listed_sums as
select cycle, operator, name, step, shapes, within(sum(calls)) as calls, within(coalesce(sum(duration_ns::hugeint * calls), 0)) as total_ns,
  total_ns as self_ns, within(coalesce(sum(calls) filter (start_ns = 0 and duration_ns = 0), 0)) as unfilled, min(start_ns) as first_ns,
  min(place) filter (start_ns is not null) as first_place, max(start_ns) as last_ns,
  max(place) filter (start_ns is not null) as last_place
from listed where calls > 0
group by all
order by cycle, step nulls first, first_ns nulls first, first_place nulls first, operator nulls first, name nulls first,
  shapes nulls first;

-- What a kernel is an execution of is its type, or at level 0, which has none, its name without the number
-- behind it.
create view fill_kernel_operators as
select type, name, operator, is_collective(operator) as is_collective
from (
  select type, kinds.name, if(types.text in ('N/A', ''), regexp_replace(names.text, '[_0-9]+$', ''), types.text) as operator
  from (select distinct type, name from kernel_lines) as kinds
  join words as types on types.number = type
  join words as names on names.number = kinds.name);

-- Kernels added up, by the number of the step in the file.
create view fill_kernel_sums as
select cycle, type, name, step as number, shapes, count(*) as calls, within(sum(duration_ns)) as total_ns,
  count(*) filter (start_ns = 0 and duration_ns = 0) as unfilled, min(start_ns) as first_ns, arg_min(row, start_ns) as first_place,
  max(start_ns) as last_ns, arg_max(row, start_ns) as last_place
from kernel_lines
group by all;

-- The same by operator and step: two types may be one operator, because level 0 has types of collectives only.
create view fill_kernel_groups as
with placed as (
  select *, if(number is null, null, dense_rank() over (partition by cycle order by number) - 1) as step
  from kernel_sums join kernel_operators using (type, name))
select cycle, operator, name, step, shapes, within(sum(calls)) as calls, within(sum(total_ns)) as total_ns,
  within(sum(total_ns)) as self_ns, within(sum(unfilled)) as unfilled, min(first_ns) as first_ns,
  arg_min(first_place, first_ns) as first_place, max(last_ns) as last_ns, arg_max(last_place, last_ns) as last_place
from placed
group by all
order by cycle, step nulls first, first_ns nulls first, first_place nulls first, operator nulls first, name nulls first,
  shapes nulls first;

-- What ran inside of the steps, or at all where steps are not known, added up by operator, step and shapes, whatever wrote it.
-- `operator`: what metrics speak of.
create view fill_what_ran as
with sums as (
  select cycle, words.text as operator, step, null::varchar as shapes, calls, total_ns, self_ns, first_ns, first_place
  from operator_sums join words on words.number = operator_sums.operator
  where not on_device
  union all
  select cycle, operator, step, shapes, calls, total_ns, self_ns, first_ns, first_place from listed_sums where operator is not null
  union all
  select cycle, operator, step, words.text, calls, total_ns, self_ns, first_ns, first_place
  from kernel_groups left join words on words.number = kernel_groups.shapes
  where operator is not null)
select sums.*, steps, is_timeline, on_device from sums join windows using (cycle) where step is not null or not by_step;

-- The host's collectives one by one: those that files list, inside of the steps where these are known, and those that torch annotates;
-- not where a device communicates: there the host only starts it.
create view host_collectives as
select cycle, operator, start_ns, duration_ns from listed
where is_host_collective(operator) and cycle in (select cycle from windows where not on_device)
  and (step is not null or cycle not in (select cycle from steps))
union all
select cycle, word(name), start_ns, duration_ns from annotated_collectives
where cycle not in (select cycle from executions where on_device and is_collective);

-- Steps whose times are known.
create view step_edges as
select cycle, step, start_ns, end_ns from steps where end_ns is not null;

-- Memory of each device in each step, or in one where no times of steps are known. A step in which the level did not move is not there.
-- `rise`: how far it rises above its lowest point. `points`: of equal parts of the step's time the number, the highest and the last
-- level, where a part has any. `lane`: the first event of the device. Growth is counted from the begin of a step to that of the next:
-- a loop drops its last batch and loss after a step has ended. The last step, which no other follows, ends with itself.
-- A host that torch recorded and that neither allocated nor released in a step has no event in it: that is a 0 and no gap, since a
-- step that begins to allocate is worse than one that did not. Components record more than the steps; where the host marks none, it is divided by these.
create view fill_memory_steps as
with
edges as (select *, least(32, 2000 // count(*) over (partition by cycle)) as parts from step_edges),
begun as (
  select * exclude (mark), max(mark) over (
    partition by cycle order by time_ns, place nulls first, mark rows unbounded preceding) as begun
  from (
    select cycle, device, place, time_ns, level, before, min(place) over (partition by cycle, device) as lane, null::integer as mark
    from levels
    union all by name
    select cycle, start_ns as time_ns, step as mark from edges)
  qualify place is not null),
inside as (
  select begun.*, coalesce(edges.step, 0) as step, nullif(parts, 0) as parts,
    if(parts > 0, least((time_ns::hugeint - start_ns) * parts // greatest(end_ns::hugeint - start_ns, 1), parts - 1), null) as part
  from begun
  left join edges on edges.cycle = begun.cycle and edges.step = begun.begun and edges.end_ns >= time_ns
  where edges.step is not null or begun.cycle not in (select cycle from edges)),
left_behind as (
  select begun.cycle, device, begun as step, within(arg_max(level, place)::hugeint - arg_min(before, place)) as growth
  from begun join edges on edges.cycle = begun.cycle and edges.step = begun.begun
  join (select cycle, max(step) as last_step from edges group by cycle) as lasts on lasts.cycle = begun.cycle
  where step < last_step or time_ns <= end_ns
  group by all),
by_part as (
  select cycle, device, lane, step, parts, part, min(place) as place, max(place) as last_place, max(level) as highest,
    greatest(max(level), max(before)) as top, least(min(level), min(before)) as lowest, arg_max(level, place) as last,
    arg_min(before, place) as first, count(*) filter (level > before) as allocations,
    sum(greatest(level::hugeint - before, 0)) as allocated
  from inside group by all),
by_step as (
  select cycle, device, step, within(max(top)::hugeint - min(lowest)) as rise, within(sum(allocations)) as allocations,
    within(sum(allocated)) as allocated,
    coalesce(any_value(left_behind.growth), within(arg_max(last, last_place)::hugeint - arg_min(first, place))) as growth,
    min(lowest) as lowest, arg_min(first, place) as first, parts,
    list([part, highest, last] order by part) filter (part is not null) as points, lane, min(place) as place
  from by_part left join left_behind using (cycle, device, step)
  group by cycle, device, lane, step, parts),
divisors as (
  select cycle, steps from windows
  where steps > 0 and cycle in (select cycle from levels where is_of_components) and cycle not in (select cycle from edges))
select cycle, device, step, rise, if(steps is null, allocations, allocations // steps) as allocations,
  if(steps is null, allocated, allocated // steps) as allocated,
  if(steps is null, growth, (growth - (growth % steps + steps) % steps) // steps) as growth, lowest, first, parts, points, lane, place
from by_step left join divisors using (cycle)
union all by name
select distinct cycle, 'cpu' as device, 0 as step, 0 as rise, 0 as allocations, 0 as allocated, 0 as growth
from traces join windows using (cycle)
where profile_memory = 1 and cycle not in (select cycle from by_step where device = 'cpu');

-- The same, and whether the level of the device moved at all in the cycle.
create view memory_moves as
select memory_steps.*, steps_differ, rise > 0 or allocations > 0 as has_moved from memory_steps join windows using (cycle);

-- Levels of components: each follows on the one before, in the order of the times.
create macro levels_of(records) as table
select *, coalesce(lag(level) over (partition by cycle, device order by place), level) as before
from (
  select cycle, device, time_ns, level, row_number() over (partition by cycle order by time_ns, row) as place
  from query_table(records)
  where device is not null and time_ns is not null and level is not null);

-- In how much of each step operators ran (part 0), collectives (1), any of the two (2, where there are collectives); cut at the edges
-- of the step.
create view covered_sums as
with pieces as (
  select cycle, step, start_ns, duration_ns, is_collective from executions where step is not null and not coalesce(on_device, false)
  union all
  select cycle, step, bounded(start_ns), bounded(duration_ns), is_collective(operator) from listed where step is not null and duration_ns is not null and operator is not null
  union all
  select kernel_lines.cycle, steps.step, kernel_lines.start_ns, kernel_lines.duration_ns, is_collective
  from kernel_lines
  join steps on steps.cycle = kernel_lines.cycle and steps.number = kernel_lines.step
  join kernel_operators using (type, name)
  union all
  select steps.cycle, steps.step, annotated.start_ns, annotated.duration_ns, true
  from annotated_collectives as annotated
  join steps on steps.cycle = annotated.cycle
    and annotated.start_ns < steps.end_ns and annotated.start_ns + annotated.duration_ns > steps.start_ns),
cut as (
  select cycle, step, is_collective,
    greatest(steps.start_ns, least(steps.end_ns, pieces.start_ns)) as begin_ns,
    greatest(steps.start_ns, least(steps.end_ns, pieces.start_ns + pieces.duration_ns)) as stop_ns
  from pieces join step_edges as steps using (cycle, step)),
apart as (
  select *, is_collective::integer as part from cut
  union all
  select *, 2 from cut where cycle in (select distinct cycle from cut where is_collective)),
alone as (
  select cycle, step, part, stop_ns - greatest(begin_ns, coalesce(max(stop_ns) over (
    partition by cycle, step, part order by begin_ns rows between unbounded preceding and 1 preceding), begin_ns)) as alone_ns
  from apart)
select cycle, step, part, sum(alone_ns)::bigint as covered_ns
from alone where alone_ns > 0
group by all;

-- The name of a stream; older traces say `stream 7` themselves, and a device may not be known.
create macro stream_name(device, stream) as
  coalesce('device ' || device || ', ', '') || if(starts_with(stream, 'stream '), '', 'stream ') || coalesce(stream, '?');

-- What ran in the fastest step of each cycle, one by one, with its thread or stream; times count from the start of the step.
create view fastest_spans as
with fastest as (
  select cycle, step, start_ns as begin_ns, end_ns - start_ns as step_ns from step_edges
  where end_ns > start_ns and end_ns - start_ns < 1000000000000000
  qualify row_number() over (partition by cycle order by end_ns - start_ns, step) = 1),
pieces as (
  select executions.cycle, executions.step, if(is_host, 'thread ' || coalesce(trim(thread, '"'), '?'), stream_name(trim(process, '"'), trim(thread, '"'))) as lane,
    not is_host as is_device, words.text as name, executions.start_ns, executions.duration_ns
  from executions
  join (
    select cycle, row, threads.process, threads.thread, category in (select number from words where text in ('cpu_op', 'Operator')) as is_host
    from spans join threads on threads.number = spans.thread) as placed using (cycle, row)
  join words on words.number = executions.name
  where step is not null
  union all
  select cycle, step, 'host', false, operator, start_ns, duration_ns from listed
  where step is not null and duration_ns is not null and operator is not null
  union all
  select kernel_lines.cycle, steps.step, stream_name(kernel_lines.device::varchar, kernel_lines.stream::varchar), true, operator, kernel_lines.start_ns, kernel_lines.duration_ns
  from kernel_lines
  join steps on steps.cycle = kernel_lines.cycle and steps.number = kernel_lines.step
  join kernel_operators using (type, name)
  where operator is not null)
select cycle, step, step_ns, lane, is_device, pieces.name, pieces.start_ns - begin_ns as start_ns, duration_ns as length_ns
from pieces join fastest using (cycle, step)
where pieces.start_ns >= begin_ns and pieces.start_ns - begin_ns < 4 * step_ns and duration_ns between 0 and 4 * step_ns;

create view operators_in_lists as
select cycle, step, name, operator as type, listed.calls, shapes as input_shapes, if(is_timeline, start_ns, null) as start_ns, duration_ns,
  duration_ns as self_ns
from listed join windows using (cycle)
where not on_device and listed.calls > 0;

create view kernels_in_lists as
select cycle, step, name, operator as type, if(is_collective(operator), 'communication', 'compute') as kind, listed.calls, shapes as input_shapes,
  if(is_timeline, start_ns, null) as start_ns, duration_ns
from listed join windows using (cycle)
where on_device and listed.calls > 0 and cycle not in (select cycle from db_task);

-- Steps whose times are known, each up to the next one: what is at an edge is of the later one.
create view step_ranges as
select *, coalesce(lead(start_ns) over (partition by cycle order by step), 9223372036854775807) as next_ns from step_edges;

create view memory_in_levels as
select levels.cycle, step, device, time_ns, within(level::hugeint - before) as bytes, level as total_bytes
from levels
left join step_ranges as steps on steps.cycle = levels.cycle and time_ns between start_ns and end_ns and time_ns < next_ns;

create view collectives_in_lists as
select cycle, step, name, 'npu' as device, start_ns, duration_ns from kernels_in_lists where kind = 'communication';

create view collectives_in_hosts as
select calls.cycle, step, operator as name, calls.start_ns, duration_ns
from host_collectives as calls
left join step_ranges as steps on steps.cycle = calls.cycle and calls.start_ns between steps.start_ns and steps.end_ns
  and calls.start_ns < next_ns;

-- The mean of a reading of each device over the time between its first and its last one: each holds until the next.
create macro mean_over_time(readings, wanted) as table
select cycle, device, coalesce(sum(value * lasts_ns) / nullif(sum(lasts_ns), 0), avg(value)) as mean
from (
  select cycle, device, value, coalesce(lead(time_ns) over (partition by cycle, device order by time_ns, row) - time_ns, 0) as lasts_ns
  from query_table(readings) where name = wanted and device is not null)
group by cycle, device;
