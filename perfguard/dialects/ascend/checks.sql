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
-- headline: kernel_details and the trace differ
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: kernel_lines
-- in: kernel_details
-- files: trace_view
-- about: Every row of kernel_details is an event of the trace, by its name and start. MindSpore puts the operator that launched a
--   kernel before its name in kernel_details.
-- tolerance: 1 ns, of a few collectives only
-- source: MindSpore 2.10: ascend_kernel_details_viewer.py
-- message: {name}: no event of the trace with this name starts at {start_us:.3f} us
select cycle, row, word(name) as name, start_ns / 1000 as start_us
from kernel_lines
anti join drawn_kernels using (cycle, row)
where start_ns is not null

-- check: kernels_are_in_the_trace
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
-- headline: kernel_details and the trace differ
-- severity: warning
-- layouts: pt-npu
-- needs: view_spans
-- files: kernel_details
-- about: Every kernel on the Ascend Hardware lanes of the trace is a row of kernel_details, by name and start. A warning: it holds
--   on two real ranks of torch_npu level 1, and it is documented nowhere.
-- tolerance: 1 ns
-- message: {name} at {start_us:.3f} us is not in kernel_details
with hardware as (
  select view_spans.cycle, view_spans.row, view_spans.name, start_ns
  from view_spans join lanes using (cycle, thread)
  where lanes.name = number_of('Ascend Hardware') and kind in (
    number_of('"AI_CORE"'), number_of('"AI_VECTOR_CORE"'), number_of('"AI_CPU"'), number_of('"MIX_AIC"'), number_of('"MIX_AIV"'),
    number_of('"DSA_SQE"'))),
listed as (select cycle, name, start_ns + unnest([-1, 0, 1]) as start_ns from kernel_lines)
select cycle, row, word(name) as name, start_ns / 1000 as start_us
from hardware anti join listed using (cycle, name, start_ns)

-- check: flows_of_the_trace_meet_events
-- code: I110
-- headline: a flow ends where nothing is
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

-- check: trace_events_are_occurrences
-- code: I103
-- layouts: ms-2.5+, ms-2.3, ms-2.5+cpu
-- needs: trace_view, cpu_op_detail_info
-- about: Operators of the host in the trace = op_occurrences. Checked only if the trace has such operators.
-- source: MindSpore 2.10 on a CPU, real output; MindSpore 2.3: ascend_timeline_generator.py
-- message: {operator} has {count} events, but {listed} occurrences in cpu_op_detail_info
select cycle, operator, count, listed from drawn_occurrences where cycle in (select cycle from host_operators)

-- check: trace_events_are_occurrences
-- layouts: ms-2.5+cpu
-- about: Without a device, a trace has the operators of the host.
-- source: MindSpore 2.10 on a CPU, real output
-- message: {operator} has {count} events, but {listed} occurrences in cpu_op_detail_info
select cycle, operator, count, listed from drawn_occurrences where cycle not in (select cycle from host_operators)

-- check: trace_times_are_the_executions
-- code: I103
-- headline: the trace and cpu_op_execute_timestamp differ
-- layouts: ms-2.5+, ms-2.3, ms-2.5+cpu
-- needs: view_spans, cpu_op_execute_timestamp
-- about: An operator of the host lasts as long in the trace as its execution in cpu_op_execute_timestamp, where both have as many
--   of it; they are held against each other in the order of their starts.
-- tolerance: 1 ns, and what its print of six digits costs: the third decimal of a us
-- source: MindSpore 2.10, real output
-- message: {name}: it lasts {here_us:.3f} us here, {there_us:.3f} us in cpu_op_execute_timestamp
select cycle, row, name, here_ns / 1000 as here_us, there_ns / 1000 as there_us
from paired_operators where is_long

-- check: trace_times_are_the_executions
-- about: An operator of the host begins when its execution in cpu_op_execute_timestamp does.
-- tolerance: 0.5 us: the start in the trace went through a float of microseconds (within 0.25 us on real output)
-- message: {name}: it begins at {start_ns} ns here, at {listed_start_ns} ns in cpu_op_execute_timestamp
select cycle, row, name, start_ns, listed_start_ns
from paired_operators where abs(start_ns - listed_start_ns) > 500 and not coalesce(is_long, false)

-- check: trace_times_are_the_executions
-- layouts: ms-2.5+cpu
-- about: It is drawn in the thread that ran it.
-- message: {name}: thread {drawn} here, thread {listed} in cpu_op_execute_timestamp
select cycle, row, name, drawn, listed
from paired_operators
where drawn <> listed and not coalesce(is_long, false) and abs(start_ns - listed_start_ns) <= 500

-- check: scopes_begin_and_end_with_operators
-- code: I103
-- headline: a scope is not where its operators are
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

-- check: scopes_cover_their_operators
-- code: I103
-- invariant: inside_its_whole
-- headline: a scope is not where its operators are
-- layouts: ms-2.5+cpu
-- needs: view_spans, processes
-- about: The blocks of the lane "Scope Layer" are those that the operators make: at each depth one goes on as long as no operator differs
--   in the scopes down to there. Exact. Not checked where operators overlap, or begin at the same time: the writer leaves out whatever
--   runs beside another.
-- source: MindSpore 2.7 and 2.10: scope_layer_timeline_creator.py
-- message: {here} blocks of scope {scope} at depth {depth} from {begins_us:.3f} to {ends_us:.3f} us, its operators make {there}
select cycle, coalesce(row, 0) as row, coalesce(here.times, 0) as here, scope, depth, begins_ns / 1000 as begins_us,
  ends_ns / 1000 as ends_us, coalesce(there.times, 0) as there
from (
  select cycle, depth, word(view_spans.name) as scope, start_ns as begins_ns, start_ns + duration_ns as ends_ns, count(*) as times,
    min(row) as row
  from view_spans join lanes using (cycle, thread)
  where lanes.name = number_of('Scope Layer') and duration_ns is not null
    and cycle in (select cycle from operators_in_a_row where name is not null)
  group by all) as here
full join scope_blocks as there using (cycle, depth, scope, begins_ns, ends_ns)
where coalesce(here.times, 0) <> coalesce(there.times, 0)

-- check: kernels_are_in_order
-- code: I106
-- needs: kernel_lines
-- in: kernel_details
-- about: Rows of kernel_details are sorted by start, device by device. Exact.
-- source: real output of torch_npu levels 0, 1 and 2 (msinsight test data, eight directories)
-- message: {name} starts at {start_us:.3f} us, {early_us:g} us before the kernel in the row above: rows are sorted by start
select cycle, row, word(name) as name, start_ns / 1000 as start_us, (before_ns - start_ns) / 1000 as early_us
from (select cycle, row, name, start_ns, lag(start_ns) over (partition by cycle, device order by row) as before_ns from kernel_lines)
where start_ns < before_ns

-- check: kernels_take_time
-- code: I106
-- headline: a kernel takes no time
-- severity: warning
-- needs: kernel_lines
-- in: kernel_details
-- about: A kernel that ran takes time. No real file has a duration of 0, and no document excludes it.
-- message: {name} lasts 0 us: a kernel that ran takes time
select cycle, row, word(name) as name from kernel_lines where duration_ns = 0

-- check: no_kernel_is_written_twice
-- code: I114
-- headline: a row is written twice
-- needs: kernel_lines
-- in: kernel_details
-- about: No two rows of kernel_details are the same in every column: one of them would start in the same ns, on one stream.
-- source: real output of torch_npu levels 0, 1 and 2 (msinsight test data, eight directories)
-- message: {name} at {start_us:.3f} us is here a second time, the same in every column
select cycle, row, word(name) as name, start_ns / 1000 as start_us
from (
  select cycle, row, name, start_ns, row_number() over (partition by cycle, start_ns, print order by row) as time
  from kernel_lines
  semi join (select cycle, start_ns from kernel_lines group by all having count(*) > 1) using (cycle, start_ns))
where time > 1

-- check: kernels_wait_for_the_one_before
-- code: I105
-- needs: kernel_gaps
-- in: kernel_details
-- about: Wait Time is in us, as the gap before a kernel is.
-- message: Wait Time(us) is {factor:.6g} times the gap before the kernel in all rows: another unit?
from wait_factors

-- check: kernels_wait_for_the_one_before
-- about: Wait Time <= the gap since the kernel before it on the device ended, and = where the table is whole. A kernel that was left
--   out (it belongs to no step) takes the gap before it with it, so a shorter wait is only reported where nine rows in ten wait for the
--   whole gap; and none where more than one in ten waits longer, since then it is another convention.
-- tolerance: 0.3 us: three decimals of a us, printed of a float that holds a quarter of one
-- source: torch_npu level 1, real output, both ranks
-- message: it waited {wait_us:g} us, the kernel before it ended {gap_us:g} us before
select cycle, row, wait_ns / 1000 as wait_us, gap_ns / 1000 as gap_us
from kernel_gaps join wait_counts using (cycle)
where long <= 0.1 * known and (wait_ns > gap_ns + 300 or wait_ns < gap_ns - 300 and short <= 0.1 * known)
  and cycle not in (select cycle from wait_factors)

-- check: pipeline_ratios_follow_from_times
-- code: I105
-- severity: warning
-- needs: kernel_counters
-- in: kernel_details
-- about: `aic_X_ratio` = `aic_X_time(us)` / `aicore_time(us)`, the same with `aiv_`. A warning: it holds on all rows of two real
--   ranks, and no document of CANN promises it.
-- tolerance: half of the third decimal of each
-- source: torch_npu level 1 with PipeUtilization, real output
-- message: {ratio} is {value:g}, {part} / {whole} is {share:.4g}
select cycle, row, word(counter) as ratio, value, replace(word(counter), '_ratio', '_time(us)') as part, if(starts_with(word(counter), 'aic'), 'aicore_time(us)', 'aiv_time(us)') as whole,
  part_us / whole_us as share
from kernel_shares
where whole_us > 0 and abs(value - part_us / whole_us) > 0.001 + 0.001 / whole_us

-- check: ratios_of_a_kernel_follow_from_its_times
-- code: I105
-- needs: kernel_counters
-- in: kernel_details
-- about: The times of a unit are in us, as its ratio says.
-- message: {part} is {factor:.6g} times what {ratio} says in all rows: another unit?
select cycle, word(counter) as ratio, replace(word(counter), '_ratio', '_time(us)') as part, factor
from share_factors

-- check: ratios_of_a_kernel_follow_from_its_times
-- about: `aic_mac_ratio` = `aic_mac_time(us)` / `aicore_time(us)`, so for every unit and for aiv. Silent where more than one row in
--   ten breaks it, since then it is another convention; but not where one in ten keeps it, and the other units of its core do.
-- tolerance: what three decimals of each cost
-- source: msprof: calculate_ai_core_data.py (add_pipe_time makes the time of each unit of its ratio in the same way); torch_npu level 1, real
--   output, both ranks
-- message: {ratio} is {value:g}, {part} is {part_us:g} of {whole_us:g} in {whole}
select cycle, row, word(counter) as ratio, value, replace(word(counter), '_ratio', '_time(us)') as part, part_us, whole_us,
  if(starts_with(word(counter), 'aic'), 'aicore_time(us)', 'aiv_time(us)') as whole
from kernel_shares join (
  select *, sum(known) over core - known as others_known, sum(off) over core - off as others_off
  from share_counts window core as (partition by cycle, left(word(counter), 3))) using (cycle, counter)
where is_off and (off <= 0.1 * known or off <= 0.9 * known and others_known > 0 and others_off <= 0.1 * others_known)

-- check: l2_cache_names_the_kernels
-- code: I113
-- headline: l2_cache and kernel_details name a task differently
-- needs: kernel_lines, l2_cache
-- in: l2_cache
-- about: A task of l2_cache that kernel_details knows (by stream and task) has the same name there; MindSpore puts the operator that
--   launched a kernel before its name. Where most differ the file is of another run.
-- source: real output, all 179 rows of two ranks
-- message: {wrong} of the {known} tasks that kernel_details.csv knows have another name there: one of the two is of another run
select cycle, wrong, known from task_counts where 2 * wrong > known

-- check: l2_cache_names_the_kernels
-- severity: warning
-- about: The same of single tasks. A warning: their numbers wrap around.
-- message: task {task} of stream {stream} is {name} here, {kernel} in kernel_details.csv
select cycle, row, task, stream, name, kernel
from task_tracks join task_counts using (cycle)
where is_known and not is_met and 2 * wrong <= known

-- check: cached_tasks_are_kernels
-- code: I113
-- needs: kernel_lines, l2_cache
-- in: l2_cache
-- about: Some task of l2_cache that has a name is a kernel of kernel_details: stream, task and name are those of a row.
-- source: msprof: get_l2_cache_data.py (add_op_name: N/A where no operator of the task is known); real output of torch_npu level 1
-- message: none of its {rows} tasks is a kernel of kernel_details.csv: one of them is of another run
select cycle, rows from task_counts where lost = rows

-- check: cached_tasks_are_kernels
-- code: I101
-- headline: a task is in one table only
-- about: Every row of l2_cache is a kernel. Kernels of other steps may be missing from kernel_details: not checked where fewer than nine
--   in ten are there.
-- source: torch_npu level 1, real output, both ranks
-- message: task {task} of stream {stream} ({name}) is no kernel of kernel_details.csv
select cycle, row, task, stream, name
from task_tracks join task_counts using (cycle)
where not is_met and lost <= 0.1 * rows

-- check: steps_of_the_tables_are_marked
-- code: I113
-- headline: the trace marks no step
-- layouts: pt-npu
-- needs: view_spans, kernel_lines | step_trace_time
-- about: Where the host was traced and a table names steps, the trace marks them: ProfilerStep#N.
-- source: real output of torch_npu level 1, both ranks
-- message: it marks no step, and kernel_details.csv or step_trace_time.csv name {steps}
select cycle, some_of(list(step order by step)) as steps
from (select cycle, step from kernel_lines union select cycle, step from step_trace_time) semi join traced_on_host using (cycle)
where step is not null and cycle not in (select cycle from view_step_marks)
group by cycle

-- check: flows_end_at_what_they_were_made_of
-- code: I110
-- headline: flows point to events that are not there
-- invariant: flows_have_two_ends
-- layouts: pt-npu
-- where: level1
-- needs: flows, view_spans
-- about: HostToDevice ends at a task of the device, async_npu begins at an operator and ends at a task, async_task_queue goes from Enqueue
--   to Dequeue: the writer makes these ends of the events themselves, so one without an event means that the event is lost. However many
--   are: where single ones are, flows_of_the_trace_meet_events says so of each. At level 0 the writer takes events out by their names.
-- tolerance: 1 ns
-- source: torch_npu 2.14: _trace_event_manager.py, _cann_file_parser.py (combine_acl_to_npu), _trace_view_parser.py; both real ranks of
--   torch_npu level 1; not run on a device
-- message: {lost} of {flows} flows of {category} {does} where the trace has no event, first at {time_us:.3f} us: what they {point} is lost
select cycle, arg_min(row, time_ns) as row, count(*) as lost, any_value(flows) as flows, word(category) as category,
  if(is_start, 'begin', 'end') as does, min(time_ns) / 1000 as time_us, if(is_start, 'come from', 'point to') as point
from lost_ends join flow_counts using (cycle, category, is_start)
group by cycle, category, is_start
having count(*) >= 0.1 * any_value(flows) and not (count(*) = 1 and any_value(flows) >= 5)

-- check: operators_of_a_thread_nest
-- code: I112
-- headline: two operators of a thread overlap
-- layouts: pt-npu
-- needs: view_spans
-- about: An operator that the dispatcher calls (`aten::add`, `npu::...`) ends before the one that called it: torch_npu notes both ends on the
--   thread that runs them.
-- source: torch: record_function.h, RecordFunction is a scope; both real ranks of torch_npu level 1; not run on a device
-- message: {name} begins inside of {other} on its thread, and ends {late_us:.6g} us behind it
select cycle, row, to_json(word(name))::text as name, to_json(word(other))::text as other, (end_ns - other_ns) / 1000 as late_us
from (
  select cycle, row, name, start_ns, end_ns, lag(name) over around as other, lag(end_ns) over around as other_ns
  from traced_operators
  where name in (select number from words where regexp_full_match(text, '[a-z_]\w*::\w+'))
  window around as (partition by cycle, thread order by start_ns, end_ns desc, row))
where start_ns < other_ns and end_ns > other_ns

-- check: the_trace_fits_into_the_window
-- code: I113
-- headline: the trace is longer than the window
-- invariant: inside_the_window
-- layouts: pt-npu
-- needs: view_spans, profiler_info_run
-- about: From the first to the last event of the host's operators is at most what profiler_info says was profiled: from start_monotonic,
--   read before the profiler starts, to MonotonicTimeEnd, read after it stopped.
-- tolerance: 1 s, and one part in 10 000 of the time since the machine started: NTP steers the clock of the end, not that of the start
-- source: torch_npu 2.14: profiler_interface.py, csrc/toolkit/profiler/common/utils.h (GetClockMonotonicRawNs); both real ranks of
--   torch_npu level 1
-- message: {name} at {start_us:.3f} us lies in {span_s:.6g} s of operators, though {window_s:.6g} s were profiled
with ends as (
  select cycle, min(start_ns) as first_ns, max(end_ns) as last_ns, median(start_ns) as middle_ns
  from traced_operators group by cycle),
windows as (
  select cycle, monotonic_time_end_ns::hugeint - start_monotonic_ns as window_ns, start_monotonic_ns // 10000 as drift_ns
  from profiler_info_run where monotonic_time_end_ns > start_monotonic_ns and start_monotonic_ns > 0),
beyond as (
  select ends.*, window_ns from ends join windows using (cycle)
  where last_ns::hugeint - first_ns > window_ns + 1000000000 + drift_ns)
select cycle, arg_max(row, greatest(abs(start_ns - middle_ns), abs(end_ns - middle_ns))) as row,
  to_json(word(arg_max(name, greatest(abs(start_ns - middle_ns), abs(end_ns - middle_ns)))))::text as name,
  arg_max(start_ns, greatest(abs(start_ns - middle_ns), abs(end_ns - middle_ns))) / 1000 as start_us,
  any_value(last_ns - first_ns) / 1e9 as span_s, any_value(window_ns) / 1e9 as window_s
from traced_operators join beyond using (cycle)
group by cycle

-- check: kernels_are_cached_tasks
-- code: I101
-- severity: warning
-- headline: l2_cache lacks kernels
-- layouts: pt-npu
-- needs: cached_kernels
-- in: l2_cache
-- about: A kernel on AI Core or a vector core has its row in l2_cache, which has one a task; not tasks that use both kinds of core. The first task may lack
--   one. A warning: msprof writes the counters that the device sent, and no public source says that it sends those of each task.
-- tolerance: one in ten
-- source: msprof: get_l2_cache_data.py; 171 of 172 kernels of both real ranks of torch_npu level 1
-- message: {lost} of {kernels} kernels of kernel_details.csv have no row here, the first is task {task} of stream {stream}
select cycle, count(*) as kernels, count(*) filter (not is_met) as lost, arg_min(task, row) filter (not is_met) as task,
  arg_min(stream, row) filter (not is_met) as stream
from cached_kernels group by cycle having lost > 1 and lost > 0.1 * count(*)

-- check: a_lane_shows_its_stream
-- code: I103
-- headline: kernel_details and the trace differ
-- layouts: pt-npu
-- needs: kernel_lines, view_spans
-- in: kernel_details
-- files: trace_view
-- about: A kernel is drawn in the lane of its stream. An error of a stream of which nine in ten kernels are; else a warning where nine in ten of all
--   are: kernels of a logical stream, of versions that have them, are all drawn in the lane of the stream that runs it.
-- source: msprof: ascend_hardware_assembler.cpp (GetPhysicStreamId), op_summary_assembler.cpp; all 374 kernels of both real ranks of torch_npu
--   level 1
-- message: {name} at {start_us:.3f} us is of stream {stream} here, and drawn in lane {lane}
with hardware as (
  select view_spans.cycle, view_spans.name, start_ns, list(distinct try_cast(depth as bigint)) as lanes
  from view_spans join lanes using (cycle, thread)
  where lanes.name = number_of('Ascend Hardware') and try_cast(depth as bigint) is not null
  group by all),
placed as (
  select kernel_lines.cycle, row, kernel_lines.name, kernel_lines.start_ns, stream, lanes[1] as lane, list_contains(lanes, stream) as is_met
  from kernel_lines join hardware using (cycle, name, start_ns)
  where stream >= 0),
shares as (
  select cycle, stream, count(*) as rows, count(*) filter (not is_met) as unmet from placed group by cycle, stream),
counted as (
  select placed.*, unmet <= 0.1 * rows as is_usual_of_stream, all_unmet <= 0.1 * all_rows as is_usual
  from placed join shares using (cycle, stream)
  join (select cycle, sum(rows) as all_rows, sum(unmet) as all_unmet from shares group by cycle) as whole using (cycle))
select cycle, row, word(name) as name, start_ns / 1000 as start_us, stream, lane, if(is_usual_of_stream, 'error', 'warning') as severity
from counted
where not is_met and (is_usual or is_usual_of_stream)

-- check: kernels_of_a_lane_follow_each_other
-- code: I106
-- severity: warning
-- invariant: nothing_overlaps_on_a_stream
-- layouts: pt-npu, ms-2.5+
-- needs: kernel_lines
-- in: kernel_details
-- about: A stream runs one kernel at a time: none begins before the one above on its stream ended. Not checked where more than one in ten does. A
--   warning: several parts of one task (with a Context ID) run at once, streams of a graph share the stream that runs them, and no public
--   source says when the next task of a stream may begin.
-- tolerance: 0.1 us: two reads of the device's clock
-- source: msprof: tree_analyzer.cpp (GenComputeHostTasks: contexts of a task); 187, 187 and 21 kernels of three real directories
-- message: {name} begins {early_us:.6g} us before the kernel above on stream {stream} has ended
with ordered as (
  select cycle, row, name, stream, start_ns, max(start_ns + duration_ns) over (
      partition by cycle, device, stream order by start_ns, row rows between unbounded preceding and 1 preceding) as before_ns
  from kernel_lines where stream >= 0 and duration_ns is not null
    and core in (number_of('AI_CORE'), number_of('AI_VECTOR_CORE'), number_of('MIX_AIC'), number_of('MIX_AIV')))
select cycle, row, word(name) as name, stream, (before_ns - start_ns) / 1000 as early_us
from (select *, count(*) over (partition by cycle) as rows from ordered)
where before_ns - start_ns > 100
qualify count(*) over (partition by cycle) <= 0.1 * rows

-- check: counters_of_a_reading_come_together
-- code: I103
-- headline: a sample is lost
-- layouts: pt-npu
-- needs: others, processes
-- about: A reading of LLC, NPU MEM and Acc PMU draws all of its counters. Reads and writes of HBM are readings of their own, so that fewer of one are
--   a warning.
-- source: msprof: hbm_assembler.cpp, llc_assembler.cpp, npu_mem_assembler.cpp, acc_pmu_assembler.cpp; 20 counters of both real ranks of
--   torch_npu level 1
-- message: {name} has {count} samples, and {other} has {most}
with counted as (
  select cycle, process, word(others.name) as name, word(lanes.name) as label, count(*) as count, min(row) as row
  from others join lanes using (cycle, thread)
  where phase = number_of('C') and lanes.name in (number_of('HBM'), number_of('LLC'), number_of('NPU MEM'), number_of('Acc PMU'))
  group by all),
parts as (
  select *, regexp_replace(name, '/[^/]*$', '') as part from counted where label <> 'Acc PMU' and contains(name, '/')
  union all
  select *, 'all' from counted where label = 'Acc PMU')
select cycle, row, to_json(name)::text as name, count, to_json(other)::text as other, most, if(label = 'HBM', 'warning', 'error') as severity
from (
  select *, max(count) over component as most, first_value(name) over (partition by cycle, process, part order by count desc, name) as other
  from parts window component as (partition by cycle, process, part))
where count < most

-- check: overlap_is_drawn
-- code: C112
-- headline: a lane without an event
-- layouts: pt-npu
-- where: level1
-- needs: kernel_lines, processes, view_spans
-- files: kernel_details
-- about: Where kernels ran, Overlap Analysis has events: msprof makes them of the kernels.
-- source: msprof: overlap_analysis_assembler.cpp (Free is all that is left between the first and the last task); both real ranks of torch_npu
--   level 1
-- message: Overlap Analysis is named, and has no event, though {kernels} kernels ran
select cycle, count(*) as kernels
from kernel_lines
where cycle in (select cycle from processes where is_name and text = number_of('Overlap Analysis'))
  and cycle not in (select cycle from view_spans semi join (from lanes where name = number_of('Overlap Analysis')) as overlap using (cycle, thread))
group by cycle

-- check: kernels_list_their_tensors
-- code: I105
-- headline: the tensors of a kernel differ
-- needs: kernel_lines
-- in: kernel_details
-- about: Shapes, types and formats of a kernel list the same tensors: the writer adds the three of each tensor at once. Not checked where one in ten does
--   not.
-- source: msprof: cann_trace_db_dumper.cpp (AddTensorShapeInfo; N/A where there are none); all kernels of both real ranks of torch_npu level 1
-- message: {name} lists {tensors}
select cycle, row, word(name) as name, word(odd_tensors) as tensors
from (select *, count(*) over (partition by cycle) as rows from kernel_lines)
where odd_tensors is not null
qualify count(*) over (partition by cycle) <= greatest(0.1 * rows, 1)

-- check: copies_have_their_call
-- code: C116
-- invariant: copies_ran
-- headline: the call of a copy is lost
-- layouts: pt-npu
-- where: level1
-- needs: drawn_copies
-- about: A copy (MEMCPY_ASYNC) on the Ascend Hardware lanes has the end of a flow (HostToDevice): msprof makes both of the same task. Judged where nine in
--   ten have one: older versions draw flows of kernels only. The other direction does not hold: a copy that the host waits for (aclrtMemcpy) has no task.
-- tolerance: 1 ns
-- source: msprof: ascend_hardware_assembler.cpp (GenerateMemcpyAsyncConnectionTrace); all 24 copies of both real ranks of torch_npu level 1
-- message: no flow ends at the copy at {time_us:.3f} us: what started it is lost
select cycle, row, start_ns / 1000 as time_us
from (select *, count(*) over (partition by cycle) as copies from drawn_copies)
where not has_flow
qualify count(*) over (partition by cycle) <= greatest(0.1 * copies, if(copies >= 5, 1, 0))

-- check: copies_have_their_call
-- about: ... which begins at the function of CANN that started the copy. One from before the recording has no beginning. Not checked where a graph was
--   captured, loaded or run.
-- tolerance: one copy, and one in ten
-- source: msprof: cann_assembler.cpp (GetMemcpyAsyncConnectionIds, GenerateConnectionTrace); all 24 copies of both real ranks of torch_npu level 1
-- message: the flows of {lost} of {copies} copies begin at no call of CANN, the first ends at {time_us:.3f} us: their calls are lost
select cycle, min(row) filter (not is_begun) as row, count(*) as copies, count(*) filter (not is_begun) as lost,
  min(start_ns) filter (not is_begun) / 1000 as time_us
from drawn_copies
where has_flow and cycle not in (select cycle from cann_sums where is_call_of_a_graph(name))
group by cycle having lost > greatest(1, 0.1 * copies) and lost < copies

-- check: copies_have_their_call
-- needs: asked_copies
-- about: ... and the other way round: a flow that begins at a function of AscendCL, and not at one of events, is drawn only because a copy has its
--   number, so it ends. Not checked where none does.
-- source: msprof: cann_assembler.cpp (GenerateConnectionTrace: functions of the level node, of events, and those of copies); all 19 of both real
--   ranks of torch_npu level 1
-- message: {name} at {time_us:.3f} us started a copy, and its flow ends nowhere: the copy is lost
select cycle, row, to_json(word(name))::text as name, start_ns / 1000 as time_us
from asked_copies
where not has_end and cycle in (select cycle from asked_copies where has_end)
