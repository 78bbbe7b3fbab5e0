-- Operators with the step in which they began. They run on threads of XLA, so the thread that marks the steps says nothing.
select nesting.cycle, nesting.row, nesting.name, if(nesting.start_ns <= steps.end_ns, steps.step, null) as step,
  nesting.start_ns, nesting.duration_ns, nesting.self_ns, true as counts,
  nesting.name in (select number from words where is_collective(text)) as is_collective, nesting.input_shapes, nesting.input_types
from nesting
left join steps on steps.cycle = nesting.cycle and steps.step = nesting.last_step
