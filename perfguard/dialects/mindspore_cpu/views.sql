-- What the files of MindSpore say of operators on the host's CPU. They print C++ floats with six significant digits, so a cell is off by
-- up to 5e-6 of itself, and what was added up in such floats by a little more.

-- How often operators are counted by a slot, by what they have in a column, or all of them.
create view cpu_counts as
select cycle, 'cpu_op_detail_info' as slot, part, name, sum(op_occurrences) as count
from (
  select cycle, unnest(['all', 'op_type', 'op_name', 'full_op_name']) as part,
    unnest(['all operators', op_type, op_name, full_op_name]) as name, op_occurrences
  from cpu_op_detail_info)
group by cycle, part, name
union all
select cycle, 'cpu_op_type_info', 'op_type', op_type, sum(type_occurrences) from cpu_op_type_info group by cycle, op_type
union all
select cycle, 'cpu_framework', part, name, count(*)
from (
  select cycle, unnest(['all', 'op_type', 'op_name']) as part, unnest(['all operators', op_type, op_name]) as name from cpu_framework)
group by cycle, part, name
union all
select cycle, 'cpu_op_execute_timestamp', 'full_op_name', full_op_name, count(*) from cpu_op_execute_timestamp group by cycle, full_op_name;

-- What two slots count differently, where either has it.
create macro cpu_differences(one_slot, other_slot, column_name) as table
with here as (from cpu_counts where slot = one_slot and part = column_name),
there as (from cpu_counts where slot = other_slot and part = column_name)
select coalesce(here.cycle, there.cycle) as cycle, coalesce(here.name, there.name) as name, coalesce(here.count, 0) as here,
  coalesce(there.count, 0) as there
from here full join there on here.cycle = there.cycle and here.name = there.name
where coalesce(here.count, 0) <> coalesce(there.count, 0);

-- Whether two times differ by more than their prints (`relative`) and the adding of `terms` 32 bit floats explain: that loses 3e-7
-- times the root of their number, for its roundings go up as often as down. Each of `rounded` times in whole ns is off by half a ns.
create macro cpu_differ(one, other, relative, terms, rounded) as
  abs(one::double - other) > greatest(abs(one::double), abs(other::double)) * (relative + 3e-7 * sqrt(terms)) + 0.5 * (rounded);

-- Operators of the host one by one.
create view cpu_executions as
with types as (
  select cycle, full_op_name, arg_min(op_type, row) as type from cpu_op_detail_info group by cycle, full_op_name)
select cycle, row, coalesce(type, full_op_name) as operator, full_op_name as name, start_ns, duration_ns, null::varchar as shapes,
  1::bigint as calls
from cpu_op_execute_timestamp left join types using (cycle, full_op_name);

-- With which inputs the operators of the host ran, where the file names them: those that ran through pyboost have no name.
create view framework_shapes as
select cycle, op_type as operator,
  rtrim(regexp_replace(regexp_replace(inputs, 'input_[0-9]+:', '', 'g'), '(NoShape;)*$', ''), ';') as shapes, count(*) as calls
from cpu_framework where op_type <> ''
group by all;

-- What the host pool has allocated; of several files of a cycle the last one counts. The record of a later cycle or session repeats
-- earlier ones, with gaps, so only rows of the cycle's own steps count; what the very first of them did to the level is not known.
create view pool_levels as
with windows as (select cycle, min(start_ns) as first_ns, arg_max(end_ns, step) as last_ns from step_edges group by cycle)
select cycle, 'cpu' as device, row as place, timestamp_ns as time_ns, total_allocated_bytes as level,
  coalesce(lag(total_allocated_bytes) over (partition by cycle order by row), total_allocated_bytes) as before
from cpu_ms_memory_record left join windows using (cycle)
where (cycle, file) in (select (cycle, max(file)) from cpu_ms_memory_record group by cycle)
  and coalesce(timestamp_ns between first_ns and last_ns, true);

-- Cycles whose timeline is complete: MindSpore 2.0 stops writing it at 20 MB, in the middle of the events.
create view complete_timelines as
select cycle from files where slot = 'cpu_timeline_display' and file is not null and bytes < 20971520;

-- Events with a duration in these timelines, and the executions they are made of, by the last part of the name. `nth`: the place in time
-- among the `times` of the name.
create view timeline_events as
select *, row_number() over (partition by cycle, name order by start_ns nulls first, row) as nth,
  count(*) over (partition by cycle, name) as times
from (
  select cycle, row, name, ts_ns as start_ns, dur_ns as duration_ns
  from cpu_timeline_display semi join complete_timelines using (cycle)
  where ph = 'X' and starts_with(tid, 'HostCpuOps'));

create view timed_executions as
select *, row_number() over (partition by cycle, name order by start_ns nulls first, place) as nth,
  count(*) over (partition by cycle, name) as times
from (
  select cycle, regexp_replace(full_op_name, '^.*/', '') as name, start_ns, duration_ns, rowid as place
  from cpu_op_execute_timestamp semi join complete_timelines using (cycle));

-- Numbers of events in the lanes of a complete timeline: merged computation, time between it, and steps.
create view timeline_lanes as
select cycle, count(*) filter (tid = '7999') as merged, count(*) filter (tid = '8002') as free,
  count(*) filter (tid = '100000') as steps
from complete_timelines left join (select cycle, tid from cpu_timeline_display where ph = 'X') as events using (cycle)
group by cycle;

-- How many events merged computation has at least and at most: one for each execution that begins after all before it. Gaps under 2 ns
-- may go either way, since the writer compared floats.
create view merged_executions as
select cycle, 1 + count(*) filter (gap > blur) as least, 1 + count(*) filter (gap > -blur) as most
from (
  select cycle, 2 + start_ns * power(2, -51) as blur,
    start_ns - max(start_ns::hugeint + duration_ns) over (
      partition by cycle order by start_ns, place rows between unbounded preceding and 1 preceding) as gap
  from timed_executions)
group by cycle;

-- The operator that ends a step: the last before the first operator comes again (after the one that sets up the data queue).
create view step_ends as
select cycle, names, names[if(again > 0, first + again - 1, len(names))] as name
from (
  select *, list_position(names[first + 1:], names[first]) as again
  from (
    select cycle, names, if(starts_with(names[1], 'Default/InitDataSetQueue') and len(names) > 1, 2, 1) as first
    from (
      select cycle, list(full_op_name order by start_ns) as names
      from cpu_op_execute_timestamp group by cycle having count(distinct start_ns) = count(*))));

-- Where the events of the lanes of a complete timeline begin and end, and what an operator must do there. `scope`: its depth and name.
create view timeline_edges as
select *, time_ns - blur_ns as least_ns, time_ns + blur_ns as most_ns
from (
  select cycle, row, name, depth, if(depth is null, '', depth || ':' || name) as scope, does, time_ns,
    if(tid = '8002', ['ends', 'begins'], ['begins', 'ends'])[place] as wants, 2 + (abs(time_ns) * power(2, -50))::bigint as blur_ns
  from (
    select cycle, row, tid, if(tid = '100001', coalesce(scope_level, -1), null) as depth,
      case tid when '100000' then 'step ' || name when '100001' then name when '7999' then 'merged computation' else 'free time' end as name,
      unnest(['begins', 'ends']) as does, unnest([1, 2]) as place, unnest([ts_ns, ts_ns + dur_ns]) as time_ns
    from cpu_timeline_display semi join complete_timelines using (cycle)
    where ph = 'X' and tid in ('100000', '100001', '7999', '8002')));

-- Where operators begin and end: of any scope, and of each that they are in.
create view operator_edges as
with executions as (
  select cycle, start_ns, duration_ns, string_split(full_op_name, '/')[:-2] as scopes
  from cpu_op_execute_timestamp semi join complete_timelines using (cycle)),
scoped as (
  select cycle, start_ns, duration_ns, '' as scope from executions
  union all
  select cycle, start_ns, duration_ns, unnest(range(len(scopes))) || ':' || unnest(scopes) from executions)
select cycle, scope, unnest(['begins', 'ends']) as does, unnest([start_ns, start_ns + duration_ns]) as time_ns from scoped;

-- The edges of the lanes, each with the next time from `least_ns` on at which an operator does what it must. No asof join, which duckdb
-- ends in an internal error where a side is empty.
create view edges_met as
select * exclude (kind, met_ns), min(met_ns) over (
    partition by cycle, wants, scope order by least_ns, kind rows between current row and unbounded following) as next_ns
from (
  select cycle, row, name, depth, scope, does, time_ns, wants, least_ns, most_ns, 0 as kind, null::bigint as met_ns from timeline_edges
  union all
  select cycle, null, null, null, scope, null, time_ns, does, time_ns, null, 1, time_ns from operator_edges)
qualify kind = 0;
