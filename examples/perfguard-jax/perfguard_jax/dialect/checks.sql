-- What must hold in a JAX trace of a CPU.

-- check: jax_operators_have_an_end
-- code: I102
-- needs: view_spans
-- about: Each operator leaves one event `end: <operator>` when it has ended (XLA, thunk_executor.cc), also where others run on the
--   same thread between. Exact: where one is without the other, events were lost.
-- source: JAX 0.10.2 on a CPU, 5 programs
-- message: {operator} ran {starts} times and ended {stops} times
with named as (
  select cycle, row, word(name) as operator, true as is_start from view_spans where kind is not null
  union all
  select cycle, row, substr(text, 6), false from view_spans join words on words.number = view_spans.name
  where starts_with(text, 'end: '))
select cycle, min(row) as row, operator, count(*) filter (is_start) as starts, count(*) filter (not is_start) as stops
from named
group by cycle, operator
having starts <> stops

-- check: jax_operators_run_in_steps
-- code: I112
-- needs: view_spans
-- about: An operator begins and ends within one step. Where it does not, the step did not wait for its result, and its time is
--   counted in the next step or in none. Not asked of a trace without steps.
-- tolerance: 1 us
-- message: {operator} runs from {start_us:.3f} to {end_us:.3f} us, in no step; end the step with jax.block_until_ready(result)
select view_spans.cycle, view_spans.row, word(name) as operator, view_spans.start_ns / 1000 as start_us,
  (view_spans.start_ns + duration_ns) / 1000 as end_us
from view_spans
anti join steps on steps.cycle = view_spans.cycle
  and view_spans.start_ns >= steps.start_ns - 1000 and view_spans.start_ns + duration_ns <= steps.end_ns + 1000
where kind is not null and view_spans.cycle in (select distinct cycle from steps)

-- check: jax_operators_are_what_they_are_called
-- code: I103
-- needs: view_spans
-- about: The name of an operator is its hlo_op. Exact.
-- message: {name} says that it is {kind}
select cycle, row, word(name) as name, word(kind) as kind
from view_spans
where kind is not null and word(kind) <> to_json(word(name))::text

-- check: jax_steps_follow_each_other
-- code: I113
-- needs: view_spans
-- about: A step begins when the one before has ended.
-- tolerance: 1 us
-- message: it begins {overlap_us:.3f} us before the step before it has ended
select cycle, row, (last_ns - start_ns) / 1000 as overlap_us
from (
  select cycle, row, start_ns, lag(start_ns + duration_ns) over (partition by cycle order by start_ns) as last_ns
  from view_spans where name = number_of('train'))
where last_ns > start_ns + 1000
