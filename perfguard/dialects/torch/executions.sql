-- Fills `executions` from the work of a trace, once `steps` and `nesting` are there.
--
-- A device runs behind the host: what it does is of the step that launched it. Its queue is rarely empty when the profiler starts,
-- and what was launched before the first step is of none: calls are numbered through (`correlation`), so what is numbered below
-- every call was launched before them, as was what begins there before the first step and has no call. A thread that marks the steps
-- is where it says, with what it launches; others do not stop for the marks, and are in the last step that has begun.
with calls as (
  select cycle, correlation, arg_min(start_ns, row) as called_ns, arg_min_null(step, row) as called_step,
    arg_min(thread, row) as called_on
  from runtime_calls where correlation is not null
  group by all),
first_calls as (select cycle, min(correlation) as first_call from calls group by cycle),
begun as (
  select work.*, coalesce(work.correlation < first_call, false) as is_numbered_before,
    coalesce(called_ns, start_ns) as begun_ns, if(called_ns is null, last_step, called_step) as begun_step, called_on
  from work
  left join calls on calls.cycle = work.cycle and calls.correlation = work.correlation and is_on_device
  left join first_calls on first_calls.cycle = work.cycle and is_on_device),
windows as (select cycle, min(start_ns) as first_ns from steps group by cycle),
counted as (
  select begun.*, first_ns, is_marking,
    first_ns is null or not is_numbered_before and not (is_on_device and begun_ns < first_ns) as counts
  from begun
  left join windows on windows.cycle = begun.cycle
  left join (select distinct cycle, thread, true as is_marking from steps) as marking
    on marking.cycle = begun.cycle and marking.thread = coalesce(called_on, begun.thread))
select counted.cycle, counted.row, counted.name,
  case when first_ns is null or not counts then null
    when is_marking then if(begun_ns <= steps.end_ns, begun_step, null)
    else coalesce(begun_step, 0) end as step,
  counted.start_ns, counted.duration_ns, counted.self_ns, counts,
  counted.name in (select number from words where is_collective(text)) as is_collective, counted.input_shapes, counted.input_types,
  counted.is_on_device as on_device
from counted
left join steps on steps.cycle = counted.cycle and steps.step = counted.begun_step
