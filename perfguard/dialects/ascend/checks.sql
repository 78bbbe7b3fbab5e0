-- What must hold in a trace_view, and between it and the files beside it.

-- check: flows_have_two_ends
-- code: I110
-- layouts: pt-npu
-- needs: flows
-- about: As many flows begin as end, with the same ids: async_task_queue, fwdbwd and async_npu, whose two ends one profiler writes.
--   Exact for fwdbwd, whose two ends lie in one step; of the others the window can cut the first and the last, which is only
--   remarkable. Not HostToDevice: CANN ends it twice where a collective starts (210 begin and 215 end in a correct trace).
-- message: flow {id} of {category} begins {starts} times and ends {stops} times
with ends as (
  select cycle, category, id, id_text, min(row) as row, count(*) filter (is_start) as starts, count(*) filter (not is_start) as stops,
    min(time_ns) filter (is_start) as start_ns, min(time_ns) filter (not is_start) as stop_ns
  from flows
  where category in (number_of('async_task_queue'), number_of('fwdbwd'), number_of('async_npu'))
  group by cycle, category, id, id_text),
whole as (
  select cycle, category, max(start_ns) as last_ns, min(stop_ns) as first_ns from ends where starts = stops group by cycle, category)
select cycle, row, coalesce(id::text, trim(word(id_text), '"')) as id, word(category) as category, starts, stops,
  if(category <> number_of('fwdbwd') and (stops = 0 and coalesce(start_ns > last_ns, true)
    or starts = 0 and coalesce(stop_ns < first_ns, true)), 'warning', 'error') as severity
from ends left join whole using (cycle, category)
where starts <> stops

-- check: counters_count
-- code: S103
-- layouts: pt-npu
-- needs: others
-- about: What a counter (C) carries is numbers, at least one, and nothing else.
-- message: the counter {name} carries {arguments}
select cycle, row, to_json(word(name))::text as name, word(odd_arguments) as arguments
from others where odd_arguments is not null

-- check: kernels_are_in_the_trace
-- code: I103
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: listed_kernels
-- in: kernel_details
-- about: Every row of kernel_details is an event of the trace, by its name and start. MindSpore puts the operator that launched a
--   kernel before its name in kernel_details.
-- tolerance: 1 ns, of a few collectives only
-- source: MindSpore 2.10: ascend_kernel_details_viewer.py
-- message: {name}: no event of the trace with this name starts at {start_us:.3f} us
select cycle, row, word(name) as name, start_ns / 1000 as start_us
from listed_kernels
anti join drawn_kernels using (cycle, row)
where start_ns is not null

-- check: kernels_are_in_the_trace
-- code: I103
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: listed_kernels
-- in: kernel_details
-- about: Every row of kernel_details lasts as long as its event.
-- tolerance: 2 ns: the trace has more decimals
-- message: {name}: {here_us:g} us here, {there_us:g} us in the trace
select cycle, row, word(any_value(name)) as name, any_value(listed_ns) / 1000 as here_us,
  arg_min(drawn_ns, abs(drawn_ns - listed_ns)) / 1000 as there_us
from drawn_kernels
group by cycle, row
having min(abs(drawn_ns - listed_ns)) > 2

-- check: the_trace_has_no_other_kernels
-- code: I103
-- severity: warning
-- layouts: pt-npu
-- needs: view_spans, listed_files
-- about: Every kernel on the Ascend Hardware lanes of the trace is a row of kernel_details, by name and start. A warning: it holds
--   on two real ranks of torch_npu level 1, and nobody documents it.
-- tolerance: 1 ns
-- message: {name} at {start_us:.3f} us is not in kernel_details
with kernels as (
  select view_spans.cycle, view_spans.row, view_spans.name, start_ns
  from view_spans join lanes using (cycle, thread)
  where lanes.name = number_of('Ascend Hardware') and kind in (
    number_of('"AI_CORE"'), number_of('"AI_VECTOR_CORE"'), number_of('"AI_CPU"'), number_of('"MIX_AIC"'), number_of('"MIX_AIV"'),
    number_of('"DSA_SQE"'))),
listed as (select cycle, name, start_ns + unnest([-1, 0, 1]) as start_ns from listed_kernels)
select cycle, row, word(name) as name, start_ns / 1000 as start_us
from kernels anti join listed using (cycle, name, start_ns)
where cycle in (select distinct cycle from listed_files where file = number_of('kernel_details'))

-- check: flows_of_the_trace_meet_events
-- code: I110
-- layouts: pt-npu, ms-2.5+
-- needs: flows, view_spans
-- about: A flow ends (f) where an event of its thread starts, and begins (s) inside one. Asked of a category of which nine in ten
--   do, and of none where no event has one.
-- tolerance: 1 ns
-- message: flow {id} of {category} {does} at {time_us:.3f} us, where thread {thread} has no event
with known as (
  select cycle, thread, start_ns, start_ns + duration_ns as end_ns from view_spans
  where duration_ns is not null and cycle in (
    select distinct cycle from flows where category is not null union all select distinct cycle from view_spans where category is not null)),
-- Nearly all are met by an event that starts there.
unmet as (
  select * from flows anti join known on known.cycle = flows.cycle and known.thread = flows.thread and known.start_ns = time_ns
  where flows.cycle in (select distinct cycle from known)),
doubtful as (
  select * from unmet
  anti join known on known.cycle = unmet.cycle and known.thread = unmet.thread and known.start_ns + 1 = time_ns),
lasting as (
  select cycle, row
  from (
    select cycle, row, time_ns, max(end_ns) over (
      partition by cycle, thread order by time_ns, row is not null rows unbounded preceding) as latest_ns
    from (
      select cycle, thread, row, time_ns, null as end_ns from doubtful where is_start
      union all
      select cycle, thread, null, start_ns, end_ns from known semi join (select distinct cycle, thread from doubtful) using (cycle, thread)))
  where row is not null and time_ns <= latest_ns + 1),
lost as (select * from doubtful anti join lasting using (cycle, row)),
of_category as (select cycle, category, is_start, count(*) as flows from flows group by all),
few as (
  select of_category.cycle, of_category.category, of_category.is_start
  from (select cycle, category, is_start, count(*) as lost from lost group by all) as lost_ones
  join of_category on of_category.cycle = lost_ones.cycle and of_category.is_start = lost_ones.is_start
    and of_category.category is not distinct from lost_ones.category
  where lost < flows * 0.1 or lost = 1 and flows >= 5)
select lost.cycle, lost.row, coalesce(lost.id::text, word(id_text)) as id, word(lost.category) as category,
  if(lost.is_start, 'begins', 'ends') as does, time_ns / 1000 as time_us, threads.thread as thread
from lost
join few on few.cycle = lost.cycle and few.is_start = lost.is_start and few.category is not distinct from lost.category
join threads on threads.number = lost.thread

-- check: the_lanes_of_overlap_share_out_the_time
-- code: I106
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: view_spans, processes
-- about: Computing, Communication(Not Overlapped) and Free of Overlap Analysis follow each other without overlap or gap, on each
--   device. A gap, as between steps of a version that leaves it out, is only reported where nine in ten have none.
-- tolerance: 5 ns
-- message: {name} begins {off_us:.6g} us {where} what is before it ends
with parts as (
  select cycle, row, name, start_ns - lag(end_ns) over (partition by cycle, process order by start_ns, end_ns, row) as off_ns
  from (
    select view_spans.cycle, row, name, start_ns, start_ns + duration_ns as end_ns, process
    from view_spans
    join threads on threads.number = view_spans.thread
    semi join (select cycle, process from processes where is_name and text = number_of('Overlap Analysis')) as ours
      on ours.cycle = view_spans.cycle and ours.process = threads.process
    where duration_ns is not null and name in (
      number_of('Computing'), number_of('Communication(Not Overlapped)'), number_of('Free')))),
gapless as (select cycle from parts group by cycle having count(*) filter (off_ns > 5) < 0.1 * count(*))
select cycle, row, to_json(word(name))::text as name, abs(off_ns) / 1000 as off_us, if(off_ns < 0, 'before', 'after') as where
from parts
where off_ns < -5 or off_ns > 5 and cycle in (from gapless)

-- check: trace_times_are_the_executions
-- code: I103
-- layouts: ms-2.5+, ms-2.3, ms-2.5+cpu
-- needs: view_spans, listed_operators
-- about: An operator of the host lasts as long in the trace as its execution in cpu_op_execute_timestamp, where both have as many
--   of it; they are held against each other in the order of their starts.
-- tolerance: 1 ns, and what its print of six digits costs: the third decimal of a us
-- source: MindSpore 2.10, real output
-- message: {name}: it lasts {here_us:.3f} us here, {there_us:.3f} us in cpu_op_execute_timestamp
select cycle, row, name, here_ns / 1000 as here_us, there_ns / 1000 as there_us
from paired_operators where is_long

-- check: trace_times_are_the_executions
-- code: I103
-- layouts: ms-2.5+, ms-2.3, ms-2.5+cpu
-- needs: view_spans, listed_operators
-- about: An operator of the host begins when its execution in cpu_op_execute_timestamp does.
-- tolerance: 0.5 us: the start in the trace went through a float of microseconds (within 0.25 us on real output)
-- source: MindSpore 2.10, real output
-- message: {name}: it begins at {start_ns} ns here, at {listed_start_ns} ns in cpu_op_execute_timestamp
select cycle, row, name, start_ns, listed_start_ns
from paired_operators where abs(start_ns - listed_start_ns) > 500 and not coalesce(is_long, false)

-- check: scopes_begin_and_end_with_operators
-- code: I103
-- layouts: ms-2.5+cpu
-- needs: view_spans, processes
-- about: A block of the lane "Scope Layer" begins where an operator of its scope begins, and ends where one ends. The thread of a
--   block is the depth of its scope; the writer joins neighbours of one scope into a block. Exact.
-- source: MindSpore 2.7 and 2.10: scope_layer_timeline_creator.py; real output of 2.10
-- message: the block of scope {scope} {does} at {time_us:.3f} us, where no operator of that scope does
with edges as (
  select view_spans.cycle, row, view_spans.name, lanes.name as lane, lanes.depth,
    unnest([start_ns, start_ns + duration_ns]) as time_ns, unnest(['begins', 'ends']) as does
  from view_spans join lanes using (cycle, thread)
  where duration_ns is not null),
scopes as (
  select number as name, unnest(range(len(parts) - 1))::text as depth, unnest(parts[:-2]) as scope
  from (select number, string_split(text, '/') as parts from words where contains(text, '/'))),
met as (
  select distinct cycle, time_ns, does, scopes.depth, scope
  from edges join scopes using (name) where lane = number_of('CPU OP')),
blocks as (
  select cycle, row, time_ns, does, depth, word(name) as scope from edges
  where lane = number_of('Scope Layer') and cycle in (select distinct cycle from edges where lane = number_of('CPU OP')))
select cycle, row, scope, does, time_ns / 1000 as time_us
from blocks anti join met using (cycle, time_ns, does, depth, scope)
