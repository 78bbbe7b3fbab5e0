-- What collectives, sends and receives measure.

-- metric: communication_calls, communication_time, communication_wait
-- needs: communication_steps | db_comm_analyzer_time
-- about: Calls of each kind, the mean of the steps; their time and wait, a sample a step.
from communication_by_kind('collective_operations')

-- metric: communication_size, communication_bandwidth
-- needs: communication_steps | db_comm_analyzer_bandwidth
-- digits: 6, 4
-- about: What went over each kind of link, the mean of the steps, and size over time of the window. In databases a link of an operation
--   has a row for each size of its packets, all with the same total.
with links as (
  select cycle, link, transit_size_bytes as bytes, transit_time_ns as ns from communication_links where name <> 'Total Op Info'
  union all
  select cycle, transport_type, arg_min(transit_size_bytes, row), arg_min(transit_time_ns, row)
  from db_comm_analyzer_bandwidth
  where hccl_op_name <> 'Total Op Info' and cycle not in (select cycle from communication_steps)
  group by cycle, step, hccl_op_name, group_name, transport_type),
windows as (
  select cycle, count(*) as steps from communication_steps group by cycle
  union all
  select cycle, count(distinct coalesce(step, '')) from db_comm_analyzer_bandwidth
  where cycle not in (select cycle from communication_steps)
  group by cycle)
select cycle, link as subject, nullif(sum(bytes), 0) / 1e6 / any_value(steps), sum(bytes) / nullif(sum(ns), 0)
from links join windows using (cycle) group by cycle, link
