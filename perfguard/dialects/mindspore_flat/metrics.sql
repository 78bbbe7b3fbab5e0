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

-- metric: flops
-- needs: flops_summary_totals
-- about: Every number of the file under its key.
select cycle, total.subject, total.number
from (
  select cycle, unnest([
    {'subject': 'FLOPs', 'number': operations_mflop}, {'subject': 'FLOPS', 'number': rate_gflop_per_s},
    {'subject': 'FLOPS_Utilization', 'number': utilization_percent}, {'subject': 'cube_FLOPs', 'number': cube_mflop},
    {'subject': 'cube_FLOPS', 'number': cube_gflop_per_s}, {'subject': 'cube_FLOPS_Utilization', 'number': cube_utilization_percent},
    {'subject': 'vec_FLOPs', 'number': vector_mflop}, {'subject': 'vec_FLOPS', 'number': vector_gflop_per_s},
    {'subject': 'vec_FLOPS_Utilization', 'number': vector_utilization_percent}]) as total
  from flops_summary_totals)
