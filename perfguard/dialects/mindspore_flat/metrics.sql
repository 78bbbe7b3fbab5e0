-- What the flat files of MindSpore 1.x to 2.4 measure.

-- metric: communication_calls, communication_time, communication_wait
-- needs: hccl_raw
-- layouts: {layouts}
-- unless: communication
-- digits: -, 3, 3
-- each: unit, layouts = ms, ms-1.x ms-2.0; us, ms-2.1 ms-2.3
-- about: Calls of each kind, the mean of the steps; their time and wait, a sample a step. Costs are in ms up to 2.0, in us from 2.1 on.
from communication_by_kind('hccl_costs_in_{unit}')

-- metric: step_part_time
-- needs: step_trace_raw
-- about: Parts of a step, a sample a step; the last row is the average of the others.
select cycle, replace(part, '_ns', '') as subject, list(time_ns / 1000 order by row)
from (from step_trace_raw unpivot (time_ns for part in (total_ns, iteration_interval_ns, fp_and_bp_ns, tail_ns)))
where step_num > 0
group by all
