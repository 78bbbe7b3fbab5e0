-- Views of what all dialects put into tables, made once theirs are there.

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

-- Collectives of the host among them, those inside steps where steps are known.
create view listed_collectives as
select cycle, operator, start_ns, duration_ns from listed
where is_host_collective(operator) and (step is not null or cycle not in (select cycle from listed_steps));

-- Steps whose times are known.
create view step_edges as
select cycle, step, start_ns, end_ns from steps union all from listed_steps where end_ns is not null;

-- Memory of each device in each step, or in one where no times of steps are known. `levels` has a row for each event (`place`: their
-- order): the level in bytes after it, and before it. `points`: of equal parts of the step's time the number, the highest and the last
-- level, where a part has any. `lane`: the first event of the device. Growth is counted from the begin of a step to that of the next:
-- a loop drops its last batch and loss after a step has ended. The last step, which no other follows, ends with itself.
create macro memory_by_step(levels) as table
with edges as (select *, least(32, 2000 // count(*) over (partition by cycle)) as parts from step_edges),
begun as (
  select * exclude (mark), last_value(mark ignore nulls) over (
    partition by cycle order by time_ns, place nulls first, mark rows unbounded preceding) as begun
  from (
    select cycle, device, place, time_ns, level, before, min(place) over (partition by cycle, device) as lane, null::integer as mark
    from query_table(levels)
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
  from inside group by all)
select cycle, device, step, within(max(top)::hugeint - min(lowest)) as rise, within(sum(allocations)) as allocations,
  within(sum(allocated)) as allocated,
  coalesce(any_value(left_behind.growth), within(arg_max(last, last_place)::hugeint - arg_min(first, place))) as growth,
  min(lowest) as lowest, arg_min(first, place) as first, parts, list([part, highest, last] order by part) filter (part is not null) as points, lane,
  min(place) as place
from by_part left join left_behind using (cycle, device, step)
group by cycle, device, lane, step, parts;

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
with ran as (
  select cycle, step, start_ns, duration_ns, is_collective from executions where step is not null
  union all
  select cycle, step, bounded(start_ns), bounded(duration_ns), is_collective(operator) from listed where step is not null and duration_ns is not null and operator is not null
  union all
  select kernels.cycle, steps.step, kernels.start_ns, kernels.duration_ns, is_collective
  from kernels
  join steps on steps.cycle = kernels.cycle and steps.number = kernels.step
  join kernel_operators using (type, name)
  union all
  select steps.cycle, steps.step, annotated.start_ns, annotated.duration_ns, true
  from annotated_collectives as annotated
  join steps on steps.cycle = annotated.cycle
    and annotated.start_ns < steps.end_ns and annotated.start_ns + annotated.duration_ns > steps.start_ns),
cut as (
  select cycle, step, is_collective,
    greatest(steps.start_ns, least(steps.end_ns, ran.start_ns)) as begin_ns,
    greatest(steps.start_ns, least(steps.end_ns, ran.start_ns + ran.duration_ns)) as stop_ns
  from ran join step_edges as steps using (cycle, step)),
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
ran as (
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
  select kernels.cycle, steps.step, stream_name(kernels.device::varchar, kernels.stream::varchar), true, operator, kernels.start_ns, kernels.duration_ns
  from kernels
  join steps on steps.cycle = kernels.cycle and steps.number = kernels.step
  join kernel_operators using (type, name)
  where operator is not null)
select cycle, step, step_ns, lane, is_device, ran.name, ran.start_ns - begin_ns as start_ns, duration_ns as length_ns
from ran join fastest using (cycle, step)
where ran.start_ns >= begin_ns and ran.start_ns - begin_ns < 4 * step_ns and duration_ns between 0 and 4 * step_ns;
