-- What must hold in a torch trace. Not asserted: allocated <= reserved (torch reserves nothing on a CPU), and an order of the
-- events in the file.

-- check: processes_are_named_together
-- code: I103
-- headline: a process has no name
-- invariant: counted_twice_agrees
-- needs: spans | instants | flows | others
-- about: Where a process has a name, all have: Kineto writes the names of its own process (the operators') and of devices 0 to 15
--   together, or none, as on macOS and Windows, where there is no /proc. A process that has a label has a name. What other
--   profilers that Kineto hosts draw (XPU, MTIA), a device behind those named, Python frames in process 0 (torch 2.4) and
--   overhead (-1) may have none.
-- source: kineto GenericActivityProfiler.cpp (before, CuptiActivityProfiler.cpp: devices 0 to 7), finalizeTrace; ThreadUtil.cpp,
--   processName; output_json.cpp, handleDeviceInfo; torch/profiler/_chrome_trace_export.py names every process it draws
-- message: no process_name names process {process} of {name}
with named as (select distinct cycle, process from processes where is_name),
behind as (
  select cycle, max(try_cast(process as bigint)) as last
  from processes where text in (select number from words where regexp_full_match(text, 'GPU [0-9]{1,2}'))
  group by cycle),
hosts as (
  select cycle, row, name, thread from spans
  where category in (number_of('cpu_op'), number_of('user_annotation'), number_of('Operator'))
  union all
  select cycle, row, name, thread from instants where category = number_of('cpu_instant_event')),
devices as (
  select cycle, row, name, thread from spans
  where category in (number_of('kernel'), number_of('gpu_memcpy'), number_of('gpu_memset'), number_of('Kernel'),
    number_of('Memcpy'), number_of('Memset'))),
shown as (
  select hosts.cycle, row, process, word(name) as name from hosts join threads on threads.number = hosts.thread
  union all
  select cycle, row, process, word(name)
  from devices join threads on threads.number = devices.thread join behind using (cycle)
  where try_cast(process as bigint) between 0 and last
  union all
  select cycle, row, process, 'label ' || word(processes.text) from processes where not is_name)
select cycle, min(row) as row, process, to_json(arg_min(name, row))::text as name
from shown anti join named using (cycle, process)
where cycle in (select cycle from named) and process <> '-1' and regexp_full_match(process, '-?[0-9]+')
group by cycle, process

-- check: operators_all_have_an_external_id
-- code: S103
-- needs: spans
-- about: Every operator has an External id where one has. Exact.
-- message: {name} has no External id
select cycle, row, word(name) as name
from trace_operators
where external_id is null and cycle in (select distinct cycle from trace_operators where external_id is not null)

-- check: the_external_id_of_an_operator_is_its_own
-- code: I114
-- needs: spans
-- about: No two operators have one External id; 0 means none. Exact.
-- message: {name}: External id {external_id} is that of event {earlier} as well
with shared as (
  select cycle, external_id, min(row) as earlier
  from trace_operators where known(external_id) > 0
  group by all having count(*) > 1)
select cycle, row, word(name) as name, external_id, earlier
from trace_operators join shared using (cycle, external_id)
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
-- headline: events were lost
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
-- headline: two operators of a thread overlap
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
-- headline: a flow begins or ends where no operator does
-- needs: flows
-- about: Both ends of a flow from forward to backward are at the start of an operator of their thread.
-- tolerance: 2 ns: two times, each rounded to nanoseconds
-- message: no operator of thread {thread} begins at {time_us:.3f} us, where the flow does
with unmet as (
  -- Nearly all are met to the nanosecond.
  select ends.* from forward_to_backward as ends
  anti join trace_operators on trace_operators.cycle = ends.cycle and trace_operators.thread = ends.thread
    and trace_operators.start_ns = ends.time_ns
  where time_ns is not null),
near as (
  select cycle, row
  from (select cycle, row, thread, time_ns + unnest([-2, -1, 1, 2]) as start_ns from unmet)
  semi join trace_operators using (cycle, thread, start_ns))
select cycle, row, threads.thread, time_ns / 1000 as time_us
from (from unmet anti join near using (cycle, row)) as lost join threads on threads.number = lost.thread

-- check: events_lie_in_the_window
-- code: I113
-- headline: an event is outside of the window
-- needs: spans
-- about: Operators, memory events and flows lie in the span "PyTorch Profiler" that the trace draws. The mark of a step, a Python
--   function and what a collective annotates from its own thread may begin before it; no step ends behind it. A task that
--   another thread was at when the profiler stopped may end behind it (torch 2.8, jit.fork). An operator that had not ended,
--   such as one of a backward pass with a hook that stops the profiler, ends with "Record Window End".
-- source: torch/csrc/profiler/collection.cpp, passEventsToKineto: Kineto extends what has no end; real output of torch 2.13
-- tolerance: 1 us: microseconds are written as floats (2.x) or whole (1.12)
-- message: {name}: {start_us:.3f} to {end_us:.3f} us, the window is {begin_us:.3f} to {stop_us:.3f} us
with windows as (from recorded_windows where spans = 1),
marking as (
  select distinct cycle, threads.thread from step_marks join threads on threads.number = step_marks.thread),
stopping as (
  select windows.cycle, threads.number as thread from windows cross join threads
  where windows.cycle not in (select distinct cycle from marking) or (windows.cycle, threads.thread) in (from marking)),
shown as (
  select cycle, row, name, thread, start_ns, start_ns + duration_ns as end_ns, true as is_work from trace_operators
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
    or end_ns > stop_ns + 1000 and (
      not is_work or (cycle, thread) in (from stopping) and coalesce(abs(end_ns - ended_ns) > 1000, true)))

-- check: what_was_to_be_recorded_is_there
-- code: I113
-- headline: something that was to be recorded is missing
-- needs: spans
-- when: memory
-- at: $.profile_memory
-- about: With profile_memory there are memory events. Asked only where operators ran that certainly allocate: aten::empty_like of a
--   tensor with elements (Input Dims). Others may allocate no bytes. Only where processes have names: without these it is not Linux,
--   and macOS has a device whose allocator reports nothing. The header says that it was on, or the caller expects it: the
--   header leaves out what was off, and older ones name nothing. A warning where the header says it: with profile_all_threads torch
--   writes the same header and records no memory of any thread, and nothing in the trace says which of the two it was.
-- source: c10/core/CPUAllocator.cpp reports every block, and none of 0 bytes; aten/src/ATen/mps/MPSAllocator.mm reports none;
--   c10/core/Allocator.cpp asks the state of the thread, and profile_all_threads has a global one (pytorch issues 166121 and 192290)
-- message: memory was to be profiled; {allocating} operators allocate, but no memory event is there (torch records
--   none with profile_all_threads: then leave one of the two out)
select trace_operators.cycle, count(*) as allocating, if(bool_or(coalesce(profile_memory = 1, false)), 'warning', 'error') as severity
from trace_operators left join traces using (cycle)
where trace_operators.cycle not in (select distinct cycle from memory_events)
  and trace_operators.cycle in (select cycle from processes where is_name)
  and name = number_of('aten::empty_like')
  and input_shapes in (
    select number from words
    where starts_with(text, '[[') and not regexp_matches(regexp_extract(text, '^\[\[([^]]*)\]', 1), '(^|[ ,])0([ ,]|$)'))
group by trace_operators.cycle

-- check: what_was_to_be_recorded_is_there
-- when: shapes
-- at: $.record_shapes
-- about: With record_shapes operators have Input Dims. Asked only where operators ran that take tensors: those that make one of
--   nothing have no shapes to record.
-- message: shapes were to be recorded; none of {operators} operators has Input Dims
select cycle, count(*) as operators
from trace_operators
group by cycle
having count(input_shapes) = 0 and count(*) filter (name in (
  select number from words
  where starts_with(text, 'aten::')
    and not regexp_matches(text,
      '^aten::(empty|zeros|ones|full|rand|normal$|arange|range$|linspace|logspace|eye|tri[lu]_indices|scalar_tensor'
      || '|_?efficientzerotensor|[a-z]+_window$)'))) > 0

-- check: what_is_there_was_recorded
-- code: I113
-- headline: something was recorded though its option was off
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
-- headline: a trace has another time in its name
-- severity: warning
-- needs: spans
-- about: <worker>.<ns>.pt.trace.json carries the time at which it was named: after its last event, within six hours. Only where
--   the name has nanoseconds and the trace its epoch; a warning, since a name may be given by hand.
-- tolerance: 60 s before, 6 hours behind: what it takes to collect a large trace, and not another run
-- source: torch 2.x: profiler.py, tensorboard_trace_handler
-- message: its last operator ends {after_s:.1f} s before the time in its name ({named_ns} ns)
select cycle, (any_value(named_ns)::hugeint - any_value(base_ns) - max(start_ns + duration_ns)) / 1e9 as after_s,
  any_value(named_ns) as named_ns
from trace_operators join traces using (cycle)
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
-- about: The base of a trace and its first event are before the year 2100: with another unit they are not. A base is a time of the wall
--   clock, so one that is after January of 1970 is after 2001. Without a base the clock may count from the start of the machine.
-- source: kineto output_json.cpp: ts is relative to baseTimeNanoseconds, which is of the wall clock
-- message: its first event is {years:.1f} years after 1970
select cycle, (coalesce(any_value(base_ns), 0)::hugeint + min(start_ns)) / 31556952e9 as years
from spans left join traces using (cycle)
where category in (number_of('cpu_op'), number_of('Operator'), number_of('kernel'), number_of('Kernel'))
group by cycle
having years > 130 or any_value(base_ns) between 1000000000000000 and 999999999999999999

-- check: external_ids_follow_their_events
-- code: I101
-- headline: an event has another External id than its number
-- needs: spans
-- invariant: counted_twice_agrees
-- about: Operators and annotations of a thread have External ids that rise as their numbers (Ev Idx) do: torch keeps them in blocks of 512,
--   and each block begins with 1 above a multiple of 512. Exact, where all of them have both.
-- source: torch/csrc/profiler/collection.h, OpList and EventBlock (since 1.13); 9 real traces of devices, 100 of a host
-- message: {name} (Ev Idx {event_index}) has External id {external_id}, and the event before it on its thread (Ev Idx {index_before})
--   has {id_before}
with hosts as (
  select cycle, row, name, event_index, external_id, thread from spans
  where category in (number_of('cpu_op'), number_of('user_annotation'))),
placed as (
  select *, lag(external_id) over numbers as id_before, lag(event_index) over numbers as index_before
  from hosts
  where cycle in (select cycle from hosts group by cycle having count(*) = count(event_index) and count(*) = count(external_id))
  window numbers as (partition by cycle, thread order by event_index, row))
select cycle, row, word(name) as name, event_index, external_id, index_before, id_before
from placed
where external_id - id_before <> event_index - index_before and external_id % 512 <> 1

-- check: operators_run_in_steps
-- code: I112
-- headline: an operator is outside of the steps
-- needs: spans
-- invariant: inside_its_whole
-- about: Operators and annotations of the thread that marks the steps begin in one: step() ends a mark and begins the next, and the
--   profiler starts and stops between them. Asked where one thread marks several steps, nothing is between two of them and nearly all
--   (19 of 20) is in them: a program may draw such marks itself, around a part of its loop. torch 1.12 and before make a tensor for each mark, between the marks.
-- tolerance: 1 us: whole microseconds until torch 2.1
-- source: torch/profiler/profiler.py: start, stop and step
-- message: {name} begins at {start_us:.3f} us, {gap_us:.3f} us {where_it_is} ProfilerStep#
with marking as (
  select cycle, any_value(thread) as thread from step_marks group by cycle having count(distinct thread) = 1 and count(*) > 1),
placed as (
  select spans.cycle, spans.row, spans.name, spans.start_ns, spans.category,
    arg_max(marks.start_ns + marks.duration_ns, marks.start_ns) over (
      partition by spans.cycle order by spans.start_ns, marks.row is null rows unbounded preceding) as end_ns,
    min(marks.start_ns) over (partition by spans.cycle) as first_ns, max(marks.start_ns) over (partition by spans.cycle) as last_ns,
    marks.row as mark
  from spans
  join marking on marking.cycle = spans.cycle and marking.thread = spans.thread
  left join step_marks as marks on marks.cycle = spans.cycle and marks.row = spans.row
  where spans.category in (number_of('cpu_op'), number_of('user_annotation'))),
outside as (
  select * from placed
  where mark is null and (start_ns < first_ns - 1000 or start_ns > end_ns + 1000)
    and name not in (
      select number from words where text in ('aten::zeros', 'aten::empty', 'aten::zero_') or starts_with(text, 'profiler::_record_function'))),
shares as (
  select cycle
  from placed left join (select cycle, row, start_ns between first_ns and last_ns as is_between from outside) as found using (cycle, row)
  group by cycle having count(is_between) * 20 <= count(*) and not coalesce(bool_or(is_between), false))
select cycle, row, word(name) as name, start_ns / 1000 as start_us,
  if(start_ns < first_ns, first_ns - start_ns, start_ns - end_ns) / 1000 as gap_us,
  if(start_ns < first_ns, 'before the first', 'behind the end of the last') as where_it_is
from outside semi join shares using (cycle)

-- check: a_release_has_the_size_of_its_allocation
-- code: I107
-- headline: memory is released in another size than it was allocated
-- needs: instants
-- about: A block is released with the Bytes with which it was allocated at its address (Addr). Exact on the host. A warning on a device:
--   a thread that is not recorded may release a block and allocate another at its address.
-- source: c10/core/CPUAllocator.cpp keeps the size of each block that was reported; c10/core/Allocator.cpp asks the state of the
--   thread, and c10/cuda/CUDACachingAllocator.cpp has one pool for all threads
-- message: {released} bytes are released at an address where {allocated} bytes were allocated
with placed as (
  select cycle, row, bytes, device_type,
    lag(bytes) over (partition by cycle, device_type, device_number, address order by time_ns, number, row) as before
  from own_memory_events where address is not null)
select cycle, row, -bytes as released, before as allocated, if(device_type = 0, 'error', 'warning') as severity
from placed
where bytes < 0 and before > 0 and before + bytes <> 0

-- check: the_window_is_marked_once
-- code: I113
-- headline: the window and its marks disagree
-- needs: spans | instants
-- invariant: inside_the_window
-- about: With each span of the profiler ("PyTorch Profiler") Kineto writes one mark "Iteration Start" at its start, and behind the last
--   event one "Record Window End", not before the span ends. It is the last that is written, whatever was recorded: a trace without it lost
--   its end. The mark says the name of the span, which is "PyTorch Profiler" with the number of its trace.
-- tolerance: 1 us: microseconds are written as floats (2.x) or whole (1.12)
-- source: kineto output_json.cpp, handleTraceSpan, addIterationMarker and finalizeTrace, since torch 1.8; torch/csrc/profiler/
--   collection.cpp and kineto_shim.cpp name the span;
--   torch/profiler/_chrome_trace_export.py
-- message: {found}
with starts as (
  select cycle, row, time_ns, text as said
  from instants join words on words.number = name
  where starts_with(text, 'Iteration Start: ')),
ends as (select cycle, row, time_ns from instants where name = number_of('Record Window End')),
drawn as (
  select cycle, row, text as said, start_ns, start_ns + duration_ns as stop_ns
  from spans join words on words.number = name
  where category = number_of('Trace')),
counts as (
  select cycle, max(row) as row, count(*) filter (is_span) as spans, count(*) filter (is_start) as starts, count(*) filter (is_end) as ends
  from (
    select cycle, row, true as is_span, false as is_start, false as is_end from drawn
    union all
    select cycle, row, false, true, false from starts
    union all
    select cycle, row, false, false, true from ends
    union all
    select cycle, max(row), false, false, false from spans group by cycle)
  group by cycle)
select cycle, row, case when ends = 0 then 'no mark Record Window End, the last that is written, is there: the end of the trace is lost'
  else spans || ' spans of the profiler, ' || starts || ' marks Iteration Start and ' || ends || ' marks Record Window End' end as found
from counts where spans <> starts or ends <> 1
union all
select drawn.cycle, drawn.row, 'the span of the profiler begins at ' || drawn.start_ns / 1000 || ' us, and no mark Iteration Start is there'
from drawn anti join starts on starts.cycle = drawn.cycle and abs(starts.time_ns - drawn.start_ns) <= 1000
union all
select ends.cycle, ends.row, 'Record Window End is at ' || ends.time_ns / 1000 || ' us, the span of the profiler ends at ' || stop_ns / 1000
  || ' us'
from ends join (select cycle, max(stop_ns) as stop_ns from drawn group by cycle) using (cycle)
where ends.time_ns < stop_ns - 1000
union all
select cycle, row, 'the mark of the window is "' || said || '"' from starts where said <> 'Iteration Start: PyTorch Profiler'
union all
select cycle, row, 'the span of the profiler is "' || said || '"'
from drawn where not regexp_full_match(said, 'PyTorch Profiler \([0-9]+\)')

-- check: flows_connect_one_sequence
-- code: I110
-- headline: a flow connects operators that do not belong together
-- needs: flows, host_details
-- about: A flow from forward to backward begins at an operator and ends at one with the same Sequence number, and only the second has the
--   thread of a forward operator (Fwd thread id). Exact.
-- tolerance: 2 ns: two times, each rounded to nanoseconds
-- source: torch/csrc/profiler/collection.cpp, generateForwardBackwardLink: since torch 2.0
-- message: the flow {id} begins at Sequence number {begins} and ends at {ends}
with sequences as (
  select cycle, id, list(distinct sequence) filter (is_start) as begins, list(distinct sequence) filter (not is_start) as ends
  from connected_sequences
  group by cycle, id),
flowing as (
  select cycle, id, max(row) as row, count(*) filter (is_start) as starts, count(*) filter (not is_start) as stops
  from forward_to_backward where id is not null group by cycle, id)
select flowing.cycle, row, id, coalesce(array_to_string(begins, ', '), 'no operator of autograd') as begins,
  coalesce(array_to_string(ends, ', '), 'no backward operator') as ends
from flowing left join sequences using (cycle, id)
where starts > 0 and stops > 0 and not coalesce(list_has_any(begins, ends), false)

-- check: flows_are_numbered_through
-- code: I110
-- headline: a flow was lost
-- needs: flows
-- about: The flows from forward to backward have the ids 1 to N. Exact.
-- source: torch/csrc/profiler/collection.cpp, generateForwardBackwardLinks
-- message: {flows} flows of fwdbwd have ids from {least} to {most}
select cycle, max(row) as row, count(distinct id) as flows, min(id) as least, max(id) as most
from forward_to_backward where id is not null
group by cycle
having min(id) <> 1 or max(id) <> count(distinct id)

-- check: a_backward_operator_has_its_flow
-- code: I110
-- headline: a flow was lost
-- needs: flows, host_details
-- about: A flow leads to the first backward operator of each Sequence number that a forward operator before it has. Asked where one thread
--   ran forward operators, and a flow is there. Exact.
-- source: torch/csrc/profiler/collection.cpp, generateForwardBackwardLink
-- message: no flow ends at {name}, though a forward operator has its Sequence number ({sequence}) as well
with forward as (
  select cycle, sequence, min(start_ns) as start_ns from autograd_operators where not is_backward group by all),
threads_of as (
  select cycle from autograd_operators
  group by cycle
  having count(distinct thread) filter (not is_backward) = 1 and count(distinct forward_thread) filter (is_backward) = 1)
select backward.cycle, backward.row, word(backward.name) as name, backward.sequence
from (
  select cycle, sequence, min(start_ns) as start_ns, arg_min(row, start_ns) as row, arg_min(name, start_ns) as name
  from autograd_operators where is_backward group by all) as backward
join forward on forward.cycle = backward.cycle and forward.sequence = backward.sequence and forward.start_ns < backward.start_ns
anti join (from connected_sequences where not is_start) as ends on ends.cycle = backward.cycle and ends.sequence = backward.sequence
where backward.cycle in (from threads_of) and backward.cycle in (select distinct cycle from connected_sequences)

-- check: calls_have_a_number_of_their_own
-- code: I114
-- needs: host_details
-- about: No two operators or annotations have one Record function id; 0 means none. Exact.
-- source: aten/src/ATen/record_function.cpp: a handle is the next of a counter; it has one while an execution trace is written
-- message: {name}: Record function id {recorded_call} is that of event {earlier} as well
with shared as (
  select cycle, recorded_call, min(row) as earlier from host_details
  where known(recorded_call) > 0 group by all having count(*) > 1)
select cycle, row, word(name) as name, recorded_call, earlier
from host_details join shared using (cycle, recorded_call) join spans using (cycle, row)
where row > earlier

-- check: python_ids_follow_their_events
-- code: I101
-- headline: a Python function has another number than its event
-- needs: python_calls
-- about: Python functions are numbered twice, by Python id and by Ev Idx, and both rise by one from one to the next. Exact, where all have
--   both.
-- source: torch/csrc/autograd/profiler_python.cpp, PythonIDVisitor, and torch/csrc/profiler/collection.cpp (1.13 and later)
-- message: {name} (Ev Idx {event_index}) has Python id {python_id}, and the one before it (Ev Idx {index_before}) has {id_before}
with placed as (
  select *, lag(python_id) over numbers as id_before, lag(event_index) over numbers as index_before
  from python_functions
  where cycle in (select cycle from python_functions group by cycle having count(event_index) = count(*)) and python_id is not null
  window numbers as (partition by cycle order by event_index, row))
select cycle, row, word(name) as name, event_index, python_id, index_before, id_before
from placed
where python_id - id_before <> event_index - index_before

-- check: python_functions_have_their_caller
-- code: I115
-- headline: a Python function is not inside the one that called it
-- needs: python_calls
-- invariant: references_resolve
-- about: The caller of a Python function (Python parent id) is there, and began before it. On the same thread it had not ended. Of the
--   first function of another thread the caller is where its backward pass began.
-- tolerance: 1 us: whole microseconds until torch 2.1
-- source: torch/csrc/profiler/collection.cpp, build_tree; torch/csrc/autograd/profiler_kineto.cpp: the next Python function around it
-- message: {name}: its caller (Python parent id {parent_id}) {why}
with called as (
  select called.cycle, called.row, called.name, called.parent_id,
    case
      when callers.row is null then 'is not there'
      when callers.start_ns > called.start_ns + 1000 then 'begins ' || (callers.start_ns - called.start_ns) / 1000 || ' us after it'
      when callers.thread = called.thread and callers.end_ns < called.start_ns - 1000
        then 'ends ' || (called.start_ns - callers.end_ns) / 1000 || ' us before it begins'
    end as why
  from python_functions as called
  left join python_functions as callers on callers.cycle = called.cycle and callers.python_id = called.parent_id
  where called.parent_id is not null and called.event_index is not null)
select cycle, row, word(name) as name, parent_id, why from called where why is not null

-- check: modules_are_named_by_their_number
-- code: I101
-- headline: a module has another number than its name
-- needs: python_calls
-- about: The call of a module is named nn.Module: <class>_<Python module id>. Exact.
-- source: torch/csrc/profiler/collection.cpp (toString of PyCall), torch 1.13 and later
-- message: {name} has Python module id {module}
select cycle, row, text as name, coalesce(module_id::text, 'none') as module
from python_functions join words on words.number = name
where event_index is not null and (module_id is not null and (not starts_with(text, 'nn.Module: ') or not ends_with(text, '_' || module_id))
  or module_id is null and starts_with(text, 'nn.Module: ') and cycle in (
    select cycle from python_calls where module_id is not null))

-- check: a_trace_is_in_the_file_it_was_written_to
-- code: I113
-- headline: a file has the trace of another
-- needs: spans | instants
-- about: Where a file and the trace in it (traceName) both are named <worker>.<ns>.pt.trace.json, they have the same time. Only where
--   both have one: a file that was given another name has none, nor has a trace that was packed (use_gzip).
-- source: torch/profiler/profiler.py, tensorboard_trace_handler; kineto output_json.cpp, finalizeTrace
-- message: the file is named after {named_ns} ns, the trace in it was written to one of {written_ns} ns
select cycle, named_ns, written_ns from traces where named_ns <> written_ns

-- check: lanes_have_names_and_places
-- code: I103
-- headline: a lane has a name or a place, not both
-- needs: lane_marks
-- invariant: counted_twice_agrees
-- about: Kineto writes the name and the place of a thread together, and the name and the label of a process. Asked where any has a place
--   or a label: torch 1.8 wrote no places. A lane of work on a device may have a name alone: torch names those to which it moves the work
--   of CUDA graphs. The name of a thread has its number; the waits of stream N are on lane N + 1000000, called "stream N
--   (sync)" (2026). Overhead (-1) has no label.
-- source: kineto output_json.cpp, handleResourceInfo and handleDeviceInfo;
--   torch/profiler/_chrome_trace_export.py; torch/cuda/_annotate_cuda_graph_trace.py; all real traces, of torch 1.8 as well
-- message: {found}
with placed as (select distinct cycle from lane_marks where kind = number_of('thread_sort_index')),
threads_named as (select distinct cycle, process, lane from lane_marks where kind = number_of('thread_name')),
threads_placed as (select distinct cycle, process, lane from lane_marks where kind = number_of('thread_sort_index')),
names as (
  select cycle, row, process from processes where is_name and regexp_full_match(process, '[0-9]+'))
select cycle, min(row) as row, 'thread ' || process || '/' || lane || ' has a place (thread_sort_index) and no name' as found
from lane_marks anti join threads_named using (cycle, process, lane)
where kind = number_of('thread_sort_index')
group by cycle, process, lane
union all
select cycle, min(row), 'thread ' || process || '/' || lane || ' has a name and no place (thread_sort_index)'
from lane_marks anti join threads_placed using (cycle, process, lane)
where kind = number_of('thread_name') and cycle in (from placed) and not starts_with(word(label), 'stream ')
group by cycle, process, lane
union all
select cycle, row, 'process ' || process || ' has a name and no label'
from names anti join (from processes where not is_name) as found using (cycle, process)
where cycle in (select cycle from processes where not is_name)
union all
select cycle, row, 'thread ' || process || '/' || lane || ' is called ' || word(label)
from lane_marks
where kind = number_of('thread_name') and try_cast(regexp_extract(word(label), '^(?:thread|stream) -?([0-9]{1,18})\b', 1) as bigint)
  <> try_cast(regexp_extract(lane, '([0-9]{1,18}) ?"?$', 1) as bigint) - if(ends_with(word(label), ' (sync)'), 1000000, 0)

-- check: memory_is_where_and_what_it_can_be
-- code: I107
-- headline: a memory event cannot be
-- needs: instants
-- about: What is allocated is part of the total behind it, and of what CUDA or ROCm has reserved (0: not known). A block of the host begins
--   at a multiple of 16 bytes, one of CUDA or ROCm at one of 256.
-- source: c10/core/alignment.h and CPUAllocator.cpp: 64, on phones 16; c10/cuda/CUDACachingAllocator.cpp: 512; CUDA's own: 256
-- message: {bytes:+d} bytes at {address}, a total of {total} bytes and {reserved} bytes reserved: {why}
with judged as (
  select cycle, row, bytes, address, total_bytes, reserved_bytes,
    case
      when total_bytes < greatest(bytes, 0) then 'the total is less than what was allocated'
      when device_type = 1 and reserved_bytes > 0 and total_bytes > reserved_bytes then 'the total is more than what is reserved'
      when device_type = 0 and address % 16 <> 0 or device_type = 1 and address % 256 <> 0 then 'no block begins there'
    end as why
  from own_memory_events)
select cycle, row, bytes, coalesce(address::text, 'no address') as address, total_bytes as total, coalesce(reserved_bytes::text, 'no') as reserved, why
from judged where why is not null

-- check: memory_events_are_of_their_category
-- code: S103
-- needs: instants
-- invariant: values_are_possible
-- about: A memory event is of the category cpu_instant_event; torch 1.8 wrote none. Exact.
-- source: torch/csrc/profiler/kineto_shim.cpp and collection.cpp; kineto ActivityType.cpp
-- message: [memory] is of the category {category}
select cycle, row, word(category) as category
from instants
where name = number_of('[memory]') and category <> number_of('cpu_instant_event')

-- check: sequences_rise_with_the_forward_pass
-- code: I106
-- headline: a forward operator has a Sequence number of an earlier one
-- needs: host_details
-- invariant: order_of_time
-- about: The Sequence numbers of the forward operators of a thread do not fall. Exact, but for operators of one moment.
-- tolerance: 1 us: whole microseconds until torch 2.1
-- source: aten/src/ATen/SequenceNumber.cpp: each thread has a counter; 22 000 pairs in 130 real traces
-- message: {name} has Sequence number {sequence}, and {before_name} before it {before}
with placed as (
  select cycle, row, name, sequence, start_ns, lag(sequence) over starts as before, lag(name) over starts as before_name,
    lag(start_ns) over starts as before_ns
  from autograd_operators where not is_backward
  window starts as (partition by cycle, thread order by start_ns, row))
select cycle, row, word(name) as name, sequence, word(before_name) as before_name, before
from placed where sequence < before and start_ns > before_ns + 1000

-- check: a_sequence_has_one_flow
-- code: I114
-- needs: flows, host_details
-- about: One flow at most leads from the forward operator of a Sequence number. Exact, where one thread ran forward operators.
-- source: torch/csrc/profiler/collection.cpp, generateForwardBackwardLink, forgets the operator once it has a flow
-- message: the flow {id} begins at Sequence number {sequence}, as flow {earlier} does
with begun as (
  select cycle, sequence, id, min(row) as row from connected_sequences where is_start group by all),
ambiguous as (select cycle, id from begun group by all having count(*) > 1),
single as (
  select cycle from autograd_operators where not is_backward group by cycle having count(distinct thread) = 1),
shared as (
  select cycle, sequence, min(id) as earlier
  from begun anti join ambiguous using (cycle, id) where cycle in (from single)
  group by all having count(distinct id) > 1)
select cycle, row, id, sequence, earlier
from begun join shared using (cycle, sequence) anti join ambiguous using (cycle, id)
where id > earlier

-- check: python_functions_have_their_caller
-- code: I115
-- headline: a Python function is not inside the one that called it
-- needs: python_calls
-- invariant: references_resolve
-- about: A Python function inside of another on its thread has a caller on that thread. Exact.
-- tolerance: 1 us: whole microseconds until torch 2.1
-- source: torch/csrc/profiler/collection.cpp, build_tree: the next around it on its thread, another thread only where there is none;
--   80 000 functions in 60 real traces
-- message: {name} is inside of another Python function on its thread, and its caller (Python parent id {parent}) is not
with placed as (
  select *, max(end_ns) over (
    partition by cycle, thread order by start_ns, python_id rows between unbounded preceding and 1 preceding) as open_ns
  from python_functions
  where event_index is not null and python_id is not null)
select placed.cycle, placed.row, word(placed.name) as name, coalesce(placed.parent_id::text, 'none') as parent
from placed left join placed as callers on callers.cycle = placed.cycle and callers.python_id = placed.parent_id
where placed.open_ns > placed.start_ns + 1000
  and (placed.parent_id is null or callers.row is not null and callers.thread <> placed.thread)

-- check: python_functions_end_with_their_caller
-- code: I112
-- severity: note
-- headline: a Python function outlasts the one that called it
-- needs: python_calls
-- invariant: inside_its_whole
-- about: A Python function ends before its caller on the same thread does. A note: torch pairs calls and returns itself, and loses some.
-- tolerance: 1 us: whole microseconds until torch 2.1
-- message: {name} ends {after_us:.3f} us after its caller {caller}
select called.cycle, called.row, word(called.name) as name, word(callers.name) as caller, (called.end_ns - callers.end_ns) / 1000 as after_us
from python_functions as called
join python_functions as callers on callers.cycle = called.cycle and callers.python_id = called.parent_id and callers.thread = called.thread
where called.end_ns > callers.end_ns + 1000 and called.start_ns <= callers.end_ns

-- check: inputs_are_described_one_by_one
-- code: S103
-- headline: what is said of the inputs of an operator cannot be
-- needs: spans
-- invariant: values_are_possible
-- about: An operator has as many Input Dims as Input type, no size is negative, and what is no tensor has no sizes. Exact.
-- source: torch/csrc/profiler/util.cpp, inputs of one call; torch/csrc/profiler/collection.cpp, InputOutputEncoder; 100 000 operators
-- message: {name} has Input Dims {dims} and Input type {types}
with described as (
  select distinct input_shapes, input_types from spans where input_shapes is not null and input_types is not null),
texts as (
  select input_shapes, input_types, shapes.text as dims, types.text as types
  from described
  join words as shapes on shapes.number = input_shapes
  join words as types on types.number = input_types
  where json_valid(shapes.text) and json_valid(types.text)),
odd as (
  select input_shapes, input_types, dims, types from texts
  where json_array_length(dims) <> json_array_length(types) or regexp_matches(dims, '-[0-9]')
    or len(list_filter(list_zip(from_json(dims, '["json"]'), from_json(types, '["varchar"]')),
      lambda one: one[2] in ('', 'Scalar', 'ScalarList') and one[1]::varchar <> '[]')) > 0)
select cycle, row, word(name) as name, shown(dims) as dims, shown(types) as types
from spans join odd using (input_shapes, input_types)
