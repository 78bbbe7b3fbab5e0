-- Step times: rows of a rank, in both tables that have them. What is not overlapped, and what of that is no receive.
create view rank_steps as
select *, communication_ns - communication_not_overlapped_ns as overlapped_there_ns,
  communication_not_overlapped_ns - bubble_ns as sent_there_ns,
  communication_not_overlapped_and_exclude_receive_ns as sent_ns,
  computing_ns::hugeint + communication_not_overlapped_ns + free_ns as busy_ns, stage_ns::hugeint + bubble_ns as span_ns,
  count(*) over (partition by cycle, device_id) = 1 as is_alone
from step_trace_time;

create view cluster_steps as
select *, communication_ns - communication_not_overlapped_ns as overlapped_there_ns,
  communication_not_overlapped_ns - bubble_ns as sent_there_ns,
  communication_not_overlapped_and_exclude_receive_ns as sent_ns,
  computing_ns::hugeint + communication_not_overlapped_ns + free_ns as busy_ns, stage_ns::hugeint + bubble_ns as span_ns,
  count(*) over (partition by cycle, type, index) = 1 as is_alone
from cluster_step_trace_time;
