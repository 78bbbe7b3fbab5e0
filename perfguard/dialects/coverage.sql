-- A view of what all dialects put into tables, made once theirs are there.

-- In how much of each step operators ran (part 0), collectives (1), any of the two (2, where there are collectives); cut at the edges
-- of the step.
create view covered_sums as
with ran as (
  select cycle, step, start_ns, duration_ns, is_collective from executions where step is not null
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
  from ran join steps using (cycle, step)),
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
