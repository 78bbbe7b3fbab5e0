-- What the times of steps measure.

-- metric: step_part_time
-- needs: step_trace_time | cluster_step_trace_time | db_step_trace_time
-- about: Parts of a step, a sample a step; of a cluster's file each rank is a subject of its own.
with rows as (
  select '' as subject, * exclude (step) from step_trace_time
  union all by name
  select coalesce(nullif(type, '') || index || ':', '') as subject, * exclude (type, index, step) from cluster_step_trace_time
  union all by name
  select '' as subject, * exclude (step) from db_step_trace_time
  where cycle not in (select cycle from step_trace_time union all select cycle from cluster_step_trace_time))
select cycle, subject || replace(part, '_ns', '') as subject, list(time_ns / 1000 order by row)
from (from rows unpivot (time_ns for part in (
  computing_ns, communication_ns, communication_not_overlapped_ns, overlapped_ns, free_ns, stage_ns, bubble_ns, preparing_ns)))
group by all
