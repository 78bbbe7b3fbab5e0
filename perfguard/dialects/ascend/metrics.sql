-- What the kernels of a device measure.

-- metric: device_utilisation
-- needs: kernel_counters
-- digits: 6
-- about: How busy a unit was, the mean over the kernels that have the counter, weighted by their durations.
with counters as (
  select cycle, text as counter, sum(value * duration_ns) / nullif(sum(duration_ns), 0) as mean
  from kernel_counters join words on number = counter group by cycle, text)
select cycle, regexp_extract(counter, '^((aic|aiv|aicore|cube)\w*?)_(ratio|utilization\(%\))$', 1) as subject,
  if(ends_with(counter, '(%)'), mean / 100, mean)
from counters where subject <> ''

-- metric: device_clock
-- needs: clocks
-- digits: 3
-- about: By the counters of the trace.
select cycle, device as subject, mean from mean_over_time('counters_in_trace_views', 'clock_mhz')

-- metric: synchronisations, waiting_operators
-- needs: windows, view_spans, processes
-- about: Calls of AscendCL that make the host wait for its device, on threads that run operators or mark steps, by the step in which they
--   begin, and the operators around them. Not measured where the trace has no call of AscendCL's runtime (level 0).
from waits_by_step('waits_in_trace_views', 'cann_recorded')
