-- What must hold in a torch trace. Not asserted: allocated <= reserved (torch reserves nothing on a CPU), and an order of the
-- events in the file.

-- check: operators_all_have_an_external_id
-- code: S103
-- needs: spans
-- about: Every operator has an External id where one has. Exact.
-- message: {name} has no External id
select cycle, row, word(name) as name
from operators
where external_id is null and cycle in (select distinct cycle from operators where external_id is not null)

-- check: the_external_id_of_an_operator_is_its_own
-- code: I114
-- needs: spans
-- about: No two operators have one External id; 0 means none. Exact.
-- message: {name}: External id {external_id} is that of event {earlier} as well
with shared as (
  select cycle, external_id, min(row) as earlier
  from operators where known(external_id) > 0
  group by all having count(*) > 1)
select cycle, row, word(name) as name, external_id, earlier
from operators join shared using (cycle, external_id)
where row > earlier

-- check: events_are_numbered_through
-- code: I114
-- needs: spans | instants
-- about: No two events have one number (Ev Idx). Exact.
-- message: {name}: Ev Idx {event_index} is that of an earlier event as well
with shared as (
  select cycle, event_index, min(row) as earlier
  from numbered_events where cycle in (from misnumbered)
  group by all having count(*) > 1)
select cycle, row, word(name) as name, event_index
from numbered_events join shared using (cycle, event_index)
where row > earlier

-- check: events_are_numbered_through
-- code: I102
-- about: The events of the host carry the numbers 0 to N-1 (Ev Idx): none was lost. Exact, beside events of a GPU as well.
-- source: every option of the profiler on real output of torch 2.13 on CPU; torch numbers what it recorded before it writes any
--   of it (torch/csrc/profiler, profiler_kineto.cpp). torch 1.12 numbers nothing.
-- message: {lost} of {recorded} recorded events are not in the trace: Ev Idx {first_gaps}{more}
with gaps as (
  select cycle, event_index as next, event_index - lag(event_index, 1, -1) over (partition by cycle order by event_index) - 1 as missing
  from (select distinct cycle, event_index from numbered_events where cycle in (from misnumbered)))
select cycle, sum(missing)::bigint as lost, max(next) + 1 as recorded,
  array_to_string(list(if(missing = 1, (next - 1)::text, (next - missing)::text || ' to ' || (next - 1)) order by next)[:8], ', ')
    as first_gaps,
  if(count(*) > 8, ' and ' || (count(*) - 8) || ' more gaps', '') as more
from gaps where missing > 0
group by cycle

-- check: every_flow_has_two_ends
-- code: I110
-- needs: flows
-- about: The flows from forward to backward (fwdbwd) that begin (s) are those that end (f), by id and number. Exact: both are on
--   the host. Not checked for ac2g: Kineto writes an end at every call of the runtime, and a start at calls that lead to nothing
--   on the device (a memset of no bytes, a synchronisation).
-- source: kineto output_json.cpp
-- message: flow {id} of fwdbwd begins {starts} times and ends {stops} times
select cycle, min(row) as row, coalesce(forward_to_backward.id::text, word(id_text)) as id,
  count(*) filter (is_start) as starts, count(*) filter (not is_start) as stops
from forward_to_backward
group by cycle, forward_to_backward.id, id_text
having starts <> stops

-- check: operators_of_a_thread_are_nested
-- code: I112
-- needs: nesting
-- about: An operator is inside another of its thread, or beside it; the marks of steps count as such. So no operator is longer
--   than what called it, and none reaches out of the step it began in; but a TorchScript function that forks ends with the last
--   of its tasks (torch 2.4, real output), so one without a namespace may.
-- tolerance: 1 us: torch before 2.1 wrote whole microseconds, and what only touches by their rounding is a neighbour
-- message: {name} begins inside {around}, but ends {after_us:.3f} us after it
select inner_one.cycle, inner_one.row, word(inner_one.name) as name, word(outer_one.name) as around,
  inner_one.outlives_ns / 1000 as after_us
from nesting as inner_one
join nesting as outer_one on outer_one.cycle = inner_one.cycle and outer_one.row = inner_one.parent
where inner_one.outlives_ns > 1000 and inner_one.left_ns > 1000
  and inner_one.category in (number_of('cpu_op'), number_of('user_annotation'))
  and not (starts_with(word(outer_one.name), 'ProfilerStep#') and not contains(word(inner_one.name), '::'))

-- check: flows_begin_and_end_at_operators
-- code: I110
-- needs: flows
-- about: Both ends of a flow from forward to backward are at the start of an operator of their thread.
-- tolerance: 2 ns: two times, each rounded to nanoseconds
-- message: no operator of thread {thread} begins at {time_us:.3f} us, where the flow does
with unmet as (
  -- Nearly all are met to the nanosecond.
  select ends.* from forward_to_backward as ends
  anti join operators on operators.cycle = ends.cycle and operators.thread = ends.thread
    and operators.start_ns = ends.time_ns
  where time_ns is not null),
near as (
  select cycle, row
  from (select cycle, row, thread, time_ns + unnest([-2, -1, 1, 2]) as start_ns from unmet)
  semi join operators using (cycle, thread, start_ns))
select cycle, row, threads.thread, time_ns / 1000 as time_us
from (from unmet anti join near using (cycle, row)) as lost join threads on threads.number = lost.thread

-- check: memory_is_allocated_in_operators
-- code: I112
-- needs: instants, spans
-- about: Of the allocations on the host at least one is in an operator of its thread: else times or units are mixed up. On real
--   output all of them do; what allocates outside of operators is possible and rare.
-- tolerance: 1 us
-- message: none of {allocations} allocations is in one of {operators} operators of its thread
with allocations as (select * from memory_events where bytes > 0 and device_type = 0),
-- A few are enough of nearly every trace; for the others all are compared.
few as (select * from allocations qualify row_number() over (partition by cycle order by row) <= 3),
doubtful as (
  select distinct cycle from allocations
  anti join (
    select distinct few.cycle from few join operators on operators.cycle = few.cycle and operators.thread = few.thread
    where operators.start_ns <= few.time_ns and few.time_ns <= operators.start_ns + operators.duration_ns + 1000)
  using (cycle)),
met as (
  select cycle
  from (
    select cycle, time_ns, is_allocation, max(end_ns) over (
      partition by cycle, thread order by time_ns, is_allocation rows unbounded preceding) as latest_ns
    from (
      select cycle, thread, time_ns, true as is_allocation, null as end_ns from allocations
      union all
      select cycle, thread, start_ns, false, start_ns + duration_ns from operators)
    where cycle in (from doubtful))
  where is_allocation and time_ns <= latest_ns + 1000)
select cycle, count(*) as allocations, any_value(ran) as operators
from allocations join (select cycle, count(*) as ran from operators group by cycle) using (cycle)
where cycle in (from doubtful) and cycle not in (from met)
group by cycle

-- check: events_lie_in_the_window
-- code: I113
-- needs: spans
-- about: Operators, memory events and flows lie in the span "PyTorch Profiler" that the trace draws. The mark of a step, a Python
--   function and what a collective annotates from its own thread may begin before it; no step ends behind it. A task that
--   another thread was at when the profiler stopped may end behind it (torch 2.8, jit.fork).
-- tolerance: 1 us: microseconds are written as floats (2.x) or whole (1.12)
-- message: {name}: {start_us:.3f} to {end_us:.3f} us, the window is {begin_us:.3f} to {stop_us:.3f} us
with windows as (
  select cycle, any_value(start_ns) as begin_ns, any_value(start_ns + duration_ns) as stop_ns
  from spans where category = number_of('Trace')
  group by cycle having count(*) = 1),
marking as (
  select distinct cycle, threads.thread from step_marks join threads on threads.number = step_marks.thread),
stopping as (
  select windows.cycle, threads.number as thread from windows cross join threads
  where windows.cycle not in (select distinct cycle from marking) or (windows.cycle, threads.thread) in (from marking)),
shown as (
  select cycle, row, name, thread, start_ns, start_ns + duration_ns as end_ns, true as is_work from operators
  union all
  select cycle, row, name, thread, time_ns, time_ns, true from instants
  where category = number_of('cpu_instant_event') and name = number_of('[memory]')
  union all
  select cycle, row, name, thread, time_ns, time_ns, true from forward_to_backward where time_ns is not null
  union all
  select cycle, row, name, thread, start_ns, start_ns + duration_ns, false from step_marks)
select cycle, row, word(name) as name, start_ns / 1000 as start_us, end_ns / 1000 as end_us, begin_ns / 1000 as begin_us,
  stop_ns / 1000 as stop_us
from shown join windows using (cycle)
where (start_ns < begin_ns - 1000 or end_ns > stop_ns + 1000)
  and (is_work and (start_ns < begin_ns - 1000 or start_ns > stop_ns + 1000)
    or end_ns > stop_ns + 1000 and (not is_work or (cycle, thread) in (from stopping)))

-- check: what_was_to_be_recorded_is_there
-- code: I113
-- needs: spans
-- when: memory
-- at: $.profile_memory
-- about: With profile_memory there are memory events. Asked only where operators ran that allocate. The header says that it was
--   on, or the caller expects it: the header leaves out what was off, and older ones name nothing.
-- message: memory was to be profiled; {allocating} operators allocate, but no memory event is there
select cycle, count(*) as allocating
from operators
where cycle not in (select distinct cycle from memory_events)
  and name in (select number from words where starts_with(text, 'aten::empty'))
group by cycle

-- check: what_was_to_be_recorded_is_there
-- when: shapes
-- at: $.record_shapes
-- about: With record_shapes operators have Input Dims. Asked only where operators ran that take tensors: those that make one of
--   nothing have no shapes to record.
-- message: shapes were to be recorded; none of {operators} operators has Input Dims
select cycle, count(*) as operators
from operators
group by cycle
having count(input_shapes) = 0 and count(*) filter (name in (
  select number from words
  where starts_with(text, 'aten::')
    and not regexp_matches(text, '^aten::(empty|zeros|ones|full|rand|arange|eye|scalar_tensor|_?efficientzerotensor)'))) > 0

-- check: what_is_there_was_recorded
-- code: I113
-- needs: instants
-- at: $.profile_memory
-- about: Memory events are there only with profile_memory, in a header that says so. The header names what was on and leaves out
--   what was off; torch 1.12 names both always.
-- message: the header says that it was off, and {events} memory events are there
select cycle, count(*) as events from memory_events join traces using (cycle) where profile_memory = 0 group by cycle

-- check: what_is_there_was_recorded
-- needs: spans | instants
-- at: $.record_shapes
-- about: Input Dims are there only with record_shapes, in a header that says so.
-- message: the header says that it was off, and {events} events with Input Dims are there
select cycle, count(*) as events
from (select cycle, input_shapes from spans union all select cycle, input_shapes from instants) join traces using (cycle)
where record_shapes = 0 and input_shapes is not null
group by cycle

-- check: a_trace_is_named_after_its_end
-- code: I113
-- severity: warning
-- needs: spans
-- about: <worker>.<ns>.pt.trace.json carries the time at which it was named: after its last event, within six hours. Only where
--   the name has nanoseconds and the trace its epoch; a warning, since a name may be given by hand.
-- tolerance: 60 s before, 6 hours behind: what it takes to collect a large trace, and not another run
-- source: torch 2.x: profiler.py, tensorboard_trace_handler
-- message: its last operator ends {after_s:.1f} s before the time in its name ({named_ns} ns)
select cycle, (any_value(named_ns)::hugeint - any_value(base_ns) - max(start_ns + duration_ns)) / 1e9 as after_s,
  any_value(named_ns) as named_ns
from operators join traces using (cycle)
group by cycle
having after_s not between -60 and 6 * 3600

-- check: allocated_memory_is_a_running_sum
-- code: I107
-- needs: instants
-- about: A memory event says the total where others do. Exact.
-- message: it has no Total Allocated, as other memory events have
select cycle, row
from memory_events
where total_bytes is null and cycle in (select distinct cycle from memory_events where total_bytes is not null)

-- check: allocated_memory_is_a_running_sum
-- about: Total Allocated rises by Bytes from one memory event of a device to the next, by their times: Ev Idx numbers the events
--   thread by thread, so it orders only those of one moment. Exact. A warning on devices: their allocator reports from several
--   threads. Shared memory of a loader's workers is left out (`own_memory_events`).
-- source: every real trace at hand, CUDA and ROCm, torch 1.8 to 2.13; shared memory: torch 2.13 with two workers on a CPU
-- message: {before} bytes before, {bytes:+d} bytes, but a total of {total} bytes
with counted as (
  select *,
    lag(total_bytes) over (partition by cycle, device_type, device_number order by time_ns, number, row) as before
  from own_memory_events where event_index is not null)
select cycle, row, before, bytes, total_bytes as total, if(device_type = 0, 'error', 'warning') as severity
from counted
where before + bytes <> total_bytes

-- check: the_host_reserves_nothing
-- code: I107
-- needs: instants
-- about: Total Reserved of a memory event on the host is 0: PyTorch's host allocator keeps no pool. Exact. A block of shared
--   memory, as a DataLoader's workers hand over, is its own reserve, and in no process's total.
-- message: the host has reserved {reserved}
select cycle, row, coalesce(reserved_bytes || ' bytes', 'more bytes than there are') as reserved
from memory_events
where device_type = 0 and says_reserved and coalesce(reserved_bytes <> 0, true)
  and not coalesce(total_bytes = 0 and reserved_bytes = bytes, false)

-- check: numbers_follow_threads_and_starts
-- code: I106
-- headline: an event is in another place than its number
-- needs: spans
-- invariant: order_of_time
-- about: torch collects what each thread recorded, thread by thread, and numbers it so (Ev Idx): an event between two of one thread is
--   of that thread, and between two of its kind it begins between them. So nothing was moved to another thread or time. Python functions
--   are collected from all threads together.
-- tolerance: 1 us: whole microseconds until torch 2.1
-- source: torch/csrc/profiler/collection.cpp, getRecords: the queue of a thread is materialised by itself, kind by kind, in order
-- message: {name} (Ev Idx {event_index}) is {why} its neighbours {before} and {behind}
with numbered as (
  select cycle, row, name, event_index, thread, start_ns, category = number_of('python_function') as is_python, false as is_instant
  from spans
  where event_index is not null
    and category in (number_of('cpu_op'), number_of('user_annotation'), number_of('python_function'))
  union all
  select cycle, row, name, event_index, thread, time_ns, false, true from instants
  where event_index is not null and name = number_of('[memory]')),
by_thread as (
  select *, lag(event_index) over numbers as before, lead(event_index) over numbers as behind,
    lag(thread) over numbers as thread_before, lead(thread) over numbers as thread_behind
  from numbered where not is_python
  window numbers as (partition by cycle order by event_index)),
by_start as (
  select *, lag(event_index) over numbers as before, lead(event_index) over numbers as behind,
    lag(start_ns) over numbers as start_before, lead(start_ns) over numbers as start_behind
  from numbered
  window numbers as (partition by cycle, thread, is_python, is_instant order by event_index))
select cycle, row, word(name) as name, event_index, before, behind, 'on another thread than' as why
from by_thread where thread_before = thread_behind and thread <> thread_before
union all
select cycle, row, word(name), event_index, before, behind, if(start_ns < start_before, 'before both of', 'behind both of')
from by_start
where start_before <= start_behind and (start_ns < start_before - 1000 or start_ns > start_behind + 1000)

-- check: times_are_of_this_century
-- code: I113
-- headline: the times are in another unit
-- needs: spans
-- invariant: of_one_run
-- about: The base of a trace and its first event are before the year 2100: with another unit they are not. No lower bound: without a
--   base the clock may count from the start of the machine.
-- source: kineto output_json.cpp: ts is relative to baseTimeNanoseconds, which is of the wall clock
-- message: its first event is {years:.0f} years after 1970
select cycle, (coalesce(any_value(base_ns), 0)::hugeint + min(start_ns)) / 31556952e9 as years
from spans left join traces using (cycle)
where category in (number_of('cpu_op'), number_of('Operator'), number_of('kernel'), number_of('Kernel'))
group by cycle
having years > 130
