-- What is measured of what ran, whatever profiler wrote it. Calls are those of the window, times samples of its steps.

-- metric: steps
-- needs: windows
-- about: The steps of the window.
select cycle, '' as subject, steps from windows

-- metric: operator_set
-- needs: windows
-- about: The operators that ran in the window.
select cycle, '' as subject, coalesce(list(distinct operator order by operator) filter (operator is not null), [])
from windows left join what_ran using (cycle)
group by cycle

-- metric: operator_calls, operator_total_ns, operator_self_ns
-- needs: windows
-- about: How often each operator ran in the window, and how long, with the operators inside of it and without.
select cycle, operator as subject, within(sum(calls)), within(sum(total_ns)), within(sum(self_ns))
from what_ran
group by cycle, operator

-- metric: operator_shapes
-- needs: windows, executions
-- about: How often each operator ran with which inputs in the window, as a trace has these.
select cycle, operator as subject, map_from_entries(list({'shapes': shapes, 'calls': calls} order by shapes))
from (
  select cycle, operator, inputs_of(dims, types) as shapes, within(sum(calls)) as calls
  from input_sums
  group by all having shapes is not null)
group by cycle, operator

-- metric: operator_shapes
-- needs: windows, kernel_lines | listed
-- about: How often each operator of a device ran with which shapes in the window.
select cycle, operator as subject, map_from_entries(list({'shapes': shapes, 'calls': calls} order by shapes))
from (
  select cycle, operator, shapes, within(sum(calls)) as calls
  from what_ran where shapes is not null and on_device
  group by all)
group by cycle, operator

-- metric: operator_time
-- needs: windows
-- digits: 3
-- about: The self time of each operator, a sample of each step that it ran in: else one of every third step would have a minimum of
--   zero. Where something is in no step, the mean.
with summed as (
  select cycle, operator, step, any_value(steps) as steps, sum(self_ns) as self_ns from what_ran group by cycle, operator, step),
whole as (select distinct cycle from summed where step is null or steps is null)
select cycle, operator as subject,
  if(cycle in (from whole), [sum(self_ns) / 1000 / coalesce(nullif(any_value(steps), 0), 1)], list(self_ns / 1000 order by step))
from summed
group by cycle, operator

-- metric: peak_memory_bytes
-- needs: windows, levels | traces, memory_steps
-- about: The largest rise of the first step and of the later ones, per device. The absolute level is not exact: it contains what
--   earlier tests of the process left alive. Nor is the first step: of what was allocated before the window no release counts
--   (`torch_levels`).
select cycle, device as subject, [max(rise) filter (step = 0 and has_moved), max(rise) filter (step > 0 and has_moved)]
from memory_moves
group by cycle, device

-- metric: memory_allocations, memory_allocated_bytes, memory_growth_bytes
-- needs: windows, levels | traces, memory_steps
-- about: A sample a step, per device: of the median, which a block reused by chance does not change.
select cycle, device as subject, coalesce(list(allocations order by step) filter (has_moved), []),
  coalesce(list(allocated order by step) filter (has_moved), []), coalesce(list(growth order by step) filter (has_moved), [])
from memory_moves
where not steps_differ
group by cycle, device

-- metric: memory_allocations, memory_allocated_bytes, memory_growth_bytes
-- needs: windows, levels | traces, memory_steps
-- about: The sum of the window where the steps differ by themselves: a median would be that of some of them.
select cycle, device as subject, within(sum(allocations)), within(sum(allocated)), within(sum(growth))
from memory_moves
where steps_differ
group by cycle, device

-- metric: profiled_step_time
-- needs: windows
-- about: A sample a step: from the profiler's files, else from perfguard's own clock; none unless all are known.
with timed as (
  select cycle, step, end_ns::hugeint - start_ns as step_ns from step_edges
  union all
  select cycle, step, wall_ns from driven_steps where cycle not in (select cycle from step_edges))
select cycle, '' as subject, list(step_ns / 1000 order by step)
from timed join windows using (cycle)
group by cycle, steps
having count(*) = steps

-- metric: operator_position
-- needs: windows
-- about: Places from 0, in the most frequent order of the steps; operators of other steps follow.
with firsts as (
  select cycle, coalesce(step, 0) as step, operator, min((first_ns, first_place)) as first
  from what_ran where first_ns is not null and is_timeline
  group by all),
orders as (select cycle, step, list(operator order by first, operator) as operators from firsts group by cycle, step),
ranked as (
  select cycle, operators, row_number() over (partition by cycle order by count(*) desc, operators) as place
  from orders group by cycle, operators),
places as (
  select cycle, unnest(operators) as operator, place, generate_subscripts(operators, 1) as nth from ranked)
select cycle, operator as subject, row_number() over (partition by cycle order by min((place, nth))) - 1
from places
group by cycle, operator

-- metric: profiled_step_part
-- needs: windows
-- about: Parts such that the fastest step is the self time of all operators but collectives - overlap + communication + idle; where
--   everything is in a step.
with fastest as (
  select cycle, step, end_ns::hugeint - start_ns as step_ns
  from step_edges join windows using (cycle)
  where is_timeline and cycle not in (select cycle from what_ran where step is null)
  qualify row_number() over (partition by cycle order by step_ns, step) = 1),
covered as (
  select cycle, step, coalesce(max(covered_ns) filter (part = 0), 0) as operators_ns,
    coalesce(max(covered_ns) filter (part = 1), 0) as collectives_ns, max(covered_ns) filter (part = 2) as either_ns
  from covered_sums group by cycle, step),
alone as (
  select cycle, step, within(sum(self_ns)) as self_ns from what_ran where not is_collective(operator) group by cycle, step),
parts as (
  select cycle, step_ns, coalesce(operators_ns, 0) as operators_ns, coalesce(collectives_ns, 0) as collectives_ns,
    coalesce(either_ns, operators_ns, 0) as either_ns, coalesce(self_ns, 0) as self_ns
  from fastest left join covered using (cycle, step) left join alone using (cycle, step))
select cycle, 'idle' as subject, (step_ns - either_ns) / 1000 from parts
union all
select cycle, 'overlap', (self_ns - operators_ns) / 1000 from parts
union all
select cycle, 'communication', (either_ns - operators_ns) / 1000 from parts where collectives_ns > 0

-- metric: collective_durations_ns
-- needs: windows, executions | listed
-- about: How long each collective of the host lasted, in the order of their starts: the n-th of a kind is the same call on every rank.
select cycle, operator as subject, list(duration_ns order by start_ns nulls first, duration_ns) from host_collectives group by cycle, operator
