-- Operators that lie in each other: what a loop runs lies in the loop.
select cycle, row, name, category, thread, start_ns, duration_ns,
  null::bigint as correlation, null::integer as input_shapes, null::integer as input_types, true as is_work
from view_spans
where kind is not null
