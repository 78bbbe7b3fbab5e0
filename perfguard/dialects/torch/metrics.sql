-- What a torch trace measures.

-- metric: device_calls
-- needs: spans
-- about: How often a step launches work, copies and waits for a device, the median of the steps: one step that empties a cache does not
--   move it. Without steps, the calls of the window.
with parts as (
  select cycle, step from steps
  union all
  select distinct cycle, null from call_sums where cycle not in (select cycle from steps)),
kinds as (select unnest(['launches', 'copies', 'synchronisations']) as kind),
counts as (
  select cycle, kind, if(cycle in (select cycle from steps), inside, null) as step, sum(calls) as calls from call_sums group by all)
select parts.cycle, kinds.kind as subject, quantile_disc(coalesce(calls, 0)::bigint, 0.5)
from parts
semi join call_sums using (cycle)
cross join kinds
left join counts on counts.cycle = parts.cycle and counts.kind = kinds.kind and counts.step is not distinct from parts.step
group by parts.cycle, kinds.kind
