-- Views of what all dialects put into tables, made once theirs are there.

-- Executions that files list, added up by operator, name, step and shapes.
create view listed_sums as
select cycle, operator, name, step, shapes, within(sum(calls)) as calls, within(coalesce(sum(duration_ns::hugeint * calls), 0)) as total_ns,
  total_ns as self_ns, within(coalesce(sum(calls) filter (start_ns = 0 and duration_ns = 0), 0)) as unfilled, min(start_ns) as first_ns,
  min(place) filter (start_ns is not null) as first_place, max(start_ns) as last_ns,
  max(place) filter (start_ns is not null) as last_place
from listed where calls > 0
group by all;

-- Collectives of the host among them, those inside steps where steps are known.
create view listed_collectives as
select cycle, operator, start_ns, duration_ns from listed
where is_host_collective(operator) and (step is not null or cycle not in (select cycle from listed_steps));

create view step_edges as
select cycle, step, start_ns, end_ns from steps union all from listed_steps;

-- In how much of each step operators ran (part 0), collectives (1), any of the two (2, where there are collectives); cut at the edges
-- of the step.
create view covered_sums as
with ran as (
  select cycle, step, start_ns, duration_ns, is_collective from executions where step is not null
  union all
  select cycle, step, start_ns, duration_ns, is_collective(operator) from listed where step is not null and duration_ns is not null and operator is not null
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
