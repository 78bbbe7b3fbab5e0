-- What must hold between the host's calls and a device's work in a torch trace. Read in Kineto (CuptiActivityProfiler.cpp,
-- output_json.cpp, CuptiActivity.cpp) and held on real traces of CUDA and ROCm, torch 1.8 to 2.8; none of it was run on a device.

-- check: launched_work_ran
-- code: C116
-- needs: spans
-- invariant: launched_work_ran
-- about: A launch has its work on a device, by their correlation: one that was made before the host waited for the whole device had
--   ended when the trace did. Launches inside of a graph's capture run nothing. A warning where the host did not wait, or where
--   several devices ran: it waits for one.
-- source: CUPTI: a kernel has the correlation of the call that launched it; torch/autograd/profiler.py synchronises before it stops
-- message: {name} launched work that is not in the trace (correlation {correlation})
with lost as (
  select cycle, row, name, start_ns, correlation from device_calls anti join device_work using (cycle, correlation)
  where kind = 'launch' and cycle in (select cycle from device_work)),
changes as (
  select cycle, start_ns, if(kind = 'begin capture', 1, -1) as depth, null::bigint as row from device_calls
  where kind in ('begin capture', 'end capture') and cycle in (select cycle from lost)),
around as (
  select cycle, row, sum(depth) over (partition by cycle order by start_ns, depth rows unbounded preceding) as depth
  from (from changes union all by name select cycle, start_ns, 0 as depth, row from lost where cycle in (select cycle from changes))),
captured as (
  select cycle, row
  from around join (select cycle, min(depth) as least from around group by cycle) using (cycle)
  -- A capture that ends in the window may have begun before it.
  where row is not null and depth > least(least, 0))
select lost.cycle, lost.row, word(lost.name) as name, lost.correlation,
  if(last_wait_ns is null or devices > 1, 'warning', 'error') as severity
from lost join device_facts using (cycle)
anti join captured on captured.cycle = lost.cycle and captured.row = lost.row
where lost.start_ns < coalesce(last_wait_ns, lost.start_ns + 1)

-- check: launched_work_ran
-- code: C112
-- needs: spans
-- about: Where something was launched, something ran on a device. A warning where nothing shows that devices were recorded:
--   ProfilerActivity.CPU alone records calls as well. Not asked of ranges of CUPTI (profiler_metrics), which stand for their kernels.
-- source: torch/csrc/profiler/kineto_shim.cpp, kCpuTypes has CUDA_RUNTIME and CUDA_DRIVER
-- message: {launches} launches, and no kernel, copy or fill on any device{otherwise}
select cycle, count(*) as launches,
  if(cycle in (select cycle from recorded_devices), 'error', 'warning') as severity,
  if(cycle in (select cycle from recorded_devices), '', ': record ProfilerActivity.CUDA as well, or it was lost') as otherwise
from device_calls
where kind = 'launch' and cycle not in (select cycle from device_work)
  and cycle not in (select cycle from spans where category = number_of('cuda_profiler_range'))
group by cycle

-- check: device_work_was_launched
-- code: C116
-- headline: a call on the host was lost
-- needs: spans
-- invariant: launched_work_ran
-- about: A kernel has the call that launched it, where calls before and after it are there: correlations count the calls of a
--   process. Work that was launched before the window has smaller ones. Some calls of the driver are not traced; so only kernels
--   whose name is launched by a traced call elsewhere.
-- message: {name} ran, and the call that launched it is not in the trace (correlation {correlation})
with known as (select cycle, min(correlation) as low, max(correlation) as high from device_calls where correlation > 0 group by cycle),
lost as (
  select cycle, row, name, correlation from device_work anti join device_calls using (cycle, correlation)
  where is_kernel),
launched as (
  select distinct cycle, name from device_work semi join device_calls using (cycle, correlation)
  where cycle in (select cycle from lost))
select lost.cycle, row, word(lost.name) as name, correlation
from lost join known using (cycle) semi join launched on launched.cycle = lost.cycle and launched.name = lost.name
where correlation between low and high

-- check: copies_ran
-- code: C116
-- needs: spans
-- invariant: copies_ran
-- about: A copy that the host asked for is on the device, by its correlation. One of no bytes is not: silent where more than one in
--   ten is missing.
-- message: {name} copied nothing that is in the trace (correlation {correlation})
with asked as (
  select cycle, row, name, start_ns, correlation, work.correlation is not null as ran
  from device_calls as calls
  left join (select distinct cycle, correlation from device_work) as work using (cycle, correlation)
  where kind = 'copy')
select cycle, row, word(name) as name, correlation
from asked join device_facts using (cycle)
where not ran and start_ns < last_wait_ns and devices = 1
  and cycle in (select cycle from asked group by cycle having count(*) filter (not ran) <= 0.1 * count(*))

-- check: flows_of_a_device_meet_what_they_connect
-- code: I110
-- headline: a flow ends where nothing is
-- needs: flows, spans
-- invariant: flows_have_two_ends
-- about: Each end of a flow between host and device (ac2g) is written with a call or with work on a device: at its start, on its
--   thread, with its correlation as id. Exact, where one in ten or more does so. Work of a graph may be drawn on another stream since.
-- source: kineto output_json.cpp, handleLink: the id is the correlation, place and time are those of the event; nine real traces
-- tolerance: 1 us: whole microseconds until torch 2.1
-- message: the flow {id} is at {time_us:.3f} us, where nothing with this correlation begins
with lost as (
  select cycle, row, id, time_ns from device_flows as ends
  -- torch 1.8 to 1.11 write the stream of a flow as a text, and that of the work as a number.
  anti join spans on spans.cycle = ends.cycle and spans.correlation = ends.id
    and (spans.thread = ends.thread or ends.category = number_of('async')) and abs(spans.start_ns - ends.time_ns) <= 1000
  where id is not null and time_ns is not null),
unmet as (
  select * from lost
  anti join graph_work on graph_work.cycle = lost.cycle and graph_work.correlation = lost.id
    and abs(graph_work.start_ns - lost.time_ns) <= 1001)
select cycle, row, id, time_ns / 1000 as time_us
from unmet
where cycle in (
  select cycle from (
    select cycle, count(*) as ends from device_flows group by cycle) join (
    select cycle, count(*) as lost from unmet group by cycle) using (cycle)
  where lost <= 0.9 * ends)

-- check: device_work_has_its_flow
-- code: I110
-- headline: a flow was lost
-- needs: spans
-- invariant: flows_have_two_ends
-- about: A flow between host and device ends at each kernel, copy and fill that has a correlation. Exact.
-- source: kineto output_json.cpp, handleLink; nine real traces, of torch 1.8 as well
-- message: no flow ends at {name} (correlation {correlation})
select cycle, row, word(name) as name, correlation
from device_work
anti join (select cycle, id as correlation from device_flows where not is_start) as ends using (cycle, correlation)
where correlation > 0

-- check: nothing_of_a_device_is_there_twice
-- code: I114
-- headline: an event is there twice
-- needs: flows, spans
-- invariant: nothing_twice
-- about: No two ends of a flow between host and device have the same id, thread and time, unless as many pieces of work begin then:
--   kernels of a graph have one correlation, and branches of it may begin in the same microsecond. Exact.
-- message: the flow {id} is there {ends} times at {time_us:.3f} us
with same as (
  select cycle, min(row) as row, id, time_ns, count(*) as ends
  from device_flows where id is not null
  group by cycle, id, thread, time_ns, is_start
  having count(*) > 1)
select same.cycle, same.row, id, time_ns / 1000 as time_us, ends
from same
left join (
  select cycle, correlation as id, start_ns as time_ns, count(*) as begun from device_work
  where cycle in (select cycle from same)
  group by all) as works using (cycle, id, time_ns)
where ends > coalesce(begun, 1)

-- check: work_begins_behind_its_launch
-- code: I106
-- headline: work of a device begins before its launch
-- needs: spans
-- invariant: order_of_time
-- about: Nothing runs on a device before the call that launched it. A warning on ROCm, and where more than half of it does: then
--   the clocks of host and device differ.
-- tolerance: 100 us: the clocks of host and device are brought together with some error
-- source: torch.profiler._trace_validator of torch 2.13 has the rule; the least distance in nine real traces is 4 us. Kineto before
--   #991 (September 2024) moved the times of ROCm by one constant offset of another clock
-- message: {name} begins {early_us:.3f} us before the call that launched it
with launched as (
  select work.cycle, work.row, work.name, calls.start_ns::hugeint - work.start_ns as early_ns
  from device_work as work join device_calls as calls on calls.cycle = work.cycle and calls.correlation = work.correlation),
skewed as (select cycle from launched group by cycle having count(*) filter (early_ns > 100000) > 0.5 * count(*))
select launched.cycle, launched.row, word(name) as name, early_ns / 1000 as early_us,
  if(is_cuda and launched.cycle not in (select cycle from skewed), 'error', 'warning') as severity
from launched join device_facts on device_facts.cycle = launched.cycle
where early_ns > 100000

-- check: work_of_a_stream_does_not_overlap
-- code: I106
-- headline: work of a stream overlaps
-- needs: spans
-- invariant: nothing_overlaps_on_a_stream
-- about: On a stream one runs after the other. Not asked of kernels that may overlap what is before them (launched by
--   cudaLaunchKernelExC, cuLaunchKernelEx or with a graph), nor of those launched before the window. A warning on ROCm: several
--   streams may share a queue.
-- tolerance: 10 us; one overlap of 2 us in nine real traces
-- message: {name} begins {overlap_us:.3f} us before the end of what runs before it on its stream
with placed as (
  select cycle, row, name, thread, start_ns, correlation, max(start_ns + duration_ns) over (
    partition by cycle, thread order by start_ns, row rows between unbounded preceding and 1 preceding) as busy_ns
  from device_work)
select placed.cycle, placed.row, word(placed.name) as name, (busy_ns - placed.start_ns) / 1000 as overlap_us,
  if(is_cuda, 'error', 'warning') as severity
from placed
join device_calls as calls on calls.cycle = placed.cycle and calls.correlation = placed.correlation
join device_facts on device_facts.cycle = placed.cycle
where busy_ns > placed.start_ns + 10000 and not coalesce(may_overlap, false)

-- check: events_lie_in_the_window
-- code: I113
-- headline: an event is outside of the window
-- needs: instants, spans
-- invariant: inside_the_window
-- about: Calls and work of a device begin in the span "PyTorch Profiler" that the trace draws, and end before "Record Window End":
--   Kineto drops what begins before it or ends behind it. It still records what other threads do (pin_memory) after torch took
--   the end of its span.
-- source: kineto CuptiActivityProfiler.cpp, outOfRange; torch/csrc/profiler/collection.cpp, addKinetoEvents stops Kineto
-- tolerance: 1 us: microseconds are written as floats (2.x) or whole (1.12)
-- message: {name}: {start_us:.3f} to {end_us:.3f} us, the window is {begin_us:.3f} to {stop_us:.3f} us
with windows as (
  select cycle, begin_ns, greatest(stop_ns, coalesce(ended_ns, stop_ns)) as stop_ns from recorded_windows where spans = 1),
shown as (
  select cycle, row, name, start_ns, duration_ns from device_work
  union all
  select cycle, row, name, start_ns, duration_ns from device_calls)
select cycle, row, word(name) as name, start_ns / 1000 as start_us, (start_ns + duration_ns) / 1000 as end_us,
  begin_ns / 1000 as begin_us, stop_ns / 1000 as stop_us
from shown join windows using (cycle)
where start_ns < begin_ns - 1000 or start_ns + duration_ns > stop_ns + 1000

-- check: waiting_ends_behind_the_work
-- code: I106
-- headline: work of a device ends after the host has waited for it
-- needs: spans
-- invariant: order_of_time
-- about: What was launched before the host waited for the device has ended when the wait ends. Asked of the last wait, and where one
--   device ran.
-- tolerance: 100 us: the clocks of host and device are brought together with some error
-- message: {name} ends {late_us:.3f} us after the host has waited for the device
select work.cycle, work.row, word(work.name) as name, (work.start_ns + work.duration_ns - waited_ns) / 1000 as late_us
from device_work as work
join device_facts on device_facts.cycle = work.cycle
join device_calls as calls on calls.cycle = work.cycle and calls.correlation = work.correlation
where devices = 1 and calls.start_ns < last_wait_ns and work.start_ns + work.duration_ns > waited_ns + 100000

-- check: waiting_ends_behind_the_work
-- needs: device_details, device_waits, spans
-- about: What was launched into a stream before the host began to wait for that stream (Stream Sync) has ended when the wait ends.
--   The kernel may run while the wait begins: a wait has the time of its call on the host. So torch's own rule, that nothing of the
--   stream runs then (_check_stream_sync_overlap), is wrong of right output. Asked where one device ran, and not of graphs.
-- source: CUPTI, CUpti_ActivitySynchronization: start and end of the function; kineto #1356 says that kernels overlap with it
-- tolerance: 100 us: the clocks of host and device are brought together with some error
-- message: {name} ends {late_us:.3f} us after the host has waited for its stream
with placed as (
  select work.cycle, work.row, work.name, details.stream, calls.start_ns + calls.duration_ns as time_ns,
    work.start_ns + work.duration_ns as end_ns
  from device_work as work
  join device_details as details on details.cycle = work.cycle and details.row = work.row
  join device_calls as calls on calls.cycle = work.cycle and calls.correlation = work.correlation
  join device_facts on device_facts.cycle = work.cycle and devices = 1
  where work.cycle in (select cycle from device_waits) and (work.cycle, work.row) not in (select (cycle, row) from graph_work)
  union all
  select waits.cycle, null, null, wait_stream, start_ns, start_ns + duration_ns
  from device_waits as waits join spans using (cycle, row)
  where wait in (select number from words where text = '"Stream Sync"')),
waited as (
  select *, min(if(row is null, end_ns, null)) over (
    partition by cycle, stream order by time_ns, row nulls last rows between 1 following and unbounded following) as waited_ns
  from placed)
select cycle, row, word(name) as name, (end_ns - waited_ns) / 1000 as late_us
from waited where row is not null and end_ns > waited_ns + 100000

-- check: waits_say_what_they_wait_for
-- code: S103
-- headline: a wait lacks what Kineto writes of it
-- needs: device_waits, spans
-- invariant: values_are_possible
-- about: A wait (cuda_sync, with enable_cuda_sync_events) is named after its kind, and has a correlation, a device and a stream. One for
--   an event of CUDA (Stream Wait Event, Event Sync) has the call that recorded it, or -1 where Kineto does not know it; then it does not
--   know the stream of the record either. Exact. Both are there since Kineto #808 (September 2023): asked where times have a
--   base (torch 2.4), or another wait has a call. A call of -1 is right, though torch's own rule refuses it
--   (_check_stream_wait_corr_id_populated): the event was recorded before the window, on another device, or with CUDA 12.9 or later.
-- source: kineto CuptiActivity.cpp, CudaSyncActivity::metadataJson; CuptiActivityProfiler.cpp, handleCudaSyncActivity;
--   torch/profiler/_cupti/monitor_trace.py, after 2.13, writes -1 as the stream of each record; pytorch #195068 for CUDA 12.9
-- message: {name} {why}
with waits as (
  select *, name as kind, coalesce(word(wait)::json ->> '$', '') as said
  from device_waits join (select cycle, row, word(name) as name, correlation from spans) as spans using (cycle, row)),
judged as (
  select waits.cycle, row, name,
    case
      when said = '' then 'has no cuda_sync_kind'
      when said <> name then 'is a wait of another kind (cuda_sync_kind ' || said || ')'
      when correlation is null then 'has no correlation'
      when device is null then 'has no device'
      when wait_stream is null then 'has no stream'
      when name not in ('Stream Wait Event', 'Event Sync') then null
      when recorded_by < 0 and recorded_on >= 0
        then 'has the stream of a record (' || recorded_on || '), and not its call (wait_on_cuda_event_record_corr_id ' || recorded_by || ')'
      when base_ns is null and waits.cycle not in (select cycle from device_waits where recorded_by is not null) then null
      when recorded_by is null then 'has no call that recorded the event (wait_on_cuda_event_record_corr_id)'
      when recorded_on is null then 'has no stream on which the event was recorded (wait_on_stream)'
    end as why
  from waits left join traces using (cycle))
select cycle, row, name, why from judged where why is not null

-- check: waits_are_for_a_record_before_them
-- code: I106
-- headline: a wait is for an event that was recorded later
-- needs: device_waits, spans
-- invariant: order_of_time
-- about: The call that recorded an event was made before the wait for it: correlations count the calls of a process. A warning: Kineto took
--   the last record that it had read when it met the wait, until it looked for the one before it (2026). torch's own rule
--   (_check_stream_wait_corr_id_in_past) wants the call in the trace as well: one before the window is not.
-- tolerance: 100 us where the call is in the trace: another thread may be between its number and its time
-- source: kineto CuptiActivityProfiler.cpp, getWaitEventInfo; torch.profiler._trace_validator of torch 2.13 has the rule
-- message: {name} (correlation {correlation}) waits for what call {recorded_by} recorded {later}
select waits.cycle, waits.row, word(spans.name) as name, spans.correlation, recorded_by, 'warning' as severity,
  coalesce(format('{:.3f} us later', (calls.start_ns - spans.start_ns) / 1000), 'later') as later
from device_waits as waits
join spans on spans.cycle = waits.cycle and spans.row = waits.row
left join device_calls as calls on calls.cycle = waits.cycle and calls.correlation = recorded_by
where recorded_by >= 0 and (recorded_by > spans.correlation or calls.start_ns > spans.start_ns + 100000)

-- check: waits_are_for_a_call_that_records
-- code: I115
-- headline: a wait is for a call that records no event
-- needs: device_waits, spans
-- invariant: references_resolve
-- about: The call that a wait names records events: a launch without attributes, a copy and a wait do not. Calls of a graph and of
--   cudaLaunchKernelExC may.
-- source: CUPTI, CUpti_ActivityCudaEvent: its correlation is that of the call that recorded the event
-- message: {name} waits for what {call} recorded (correlation {recorded_by})
select waits.cycle, waits.row, word(spans.name) as name, word(calls.name) as call, recorded_by
from device_waits as waits
join spans on spans.cycle = waits.cycle and spans.row = waits.row
join device_calls as calls on calls.cycle = waits.cycle and calls.correlation = recorded_by
where calls.kind in ('launch', 'copy', 'synchronise') and not calls.may_overlap

-- check: waits_are_for_a_call_that_records
-- code: I115
-- headline: a wait does not name the call that recorded its event
-- about: Where another wait for the same event names a record that was made before this one, Kineto knows one. A warning: until 2026 it
--   knew those that it had read when it met the wait.
-- source: kineto CuptiActivityProfiler.cpp, getWaitEventInfo
-- message: {name} does not say which call recorded event {event}, and call {known} had
with known as (
  select cycle, device, event, min(recorded_by) as known
  from device_waits where recorded_by >= 0 and event is not null
  group by all)
select waits.cycle, waits.row, word(spans.name) as name, waits.event, known, 'warning' as severity
from device_waits as waits
join spans on spans.cycle = waits.cycle and spans.row = waits.row
join known on known.cycle = waits.cycle and known.device = waits.device and known.event = waits.event
where recorded_by < 0 and known < spans.correlation

-- check: collectives_are_described
-- code: S103
-- headline: a collective lacks what torch writes of it
-- needs: collective_details, spans
-- invariant: values_are_possible
-- about: The operator of a collective (record_param_comms) has its name, its dtype, the elements that go in and out, and the size of its
--   group, together. One with none of them is a warning where others have them; torch before 2.1 writes none, so torch's own rule
--   (_check_nccl_metadata), which wants them of each, refuses right output.
-- source: torch/csrc/profiler/util.cpp, saveNcclMeta: all of them, or none where no debug info is at hand
-- message: {name} has {lacks}
with operators_of as (
  select details.*, spans.name,
    [if(collective is null, 'Collective name', null), if(dtype is null, 'dtype', null), if(in_elements is null, 'In msg nelems', null),
      if(out_elements is null, 'Out msg nelems', null), if(group_size is null, 'Group size', null)] as keys
  from collective_details as details join trace_operators as spans using (cycle, row)),
counted as (select *, list_filter(keys, lambda key: key is not null) as missing from operators_of)
select cycle, row, word(name) as name, 'no ' || list_aggregate(missing, 'string_agg', ', no ') as lacks,
  if(len(missing) = 5, 'warning', 'error') as severity
from counted
where len(missing) between 1 and 4 or len(missing) = 5 and cycle in (select cycle from counted where len(missing) < 5)

-- check: a_kernel_is_of_its_collective
-- code: I101
-- headline: a kernel and its collective disagree
-- needs: collective_details, spans
-- invariant: counted_twice_agrees
-- about: The kernel of a collective has what its operator has (External id): name, dtype, elements and size of the group. Exact.
-- source: kineto output_json.cpp copies them from the operator; torch/profiler/_chrome_trace_export.py as well
-- message: {name} has {kernel}, its operator {operator}
with described as (
  select details.*, spans.name, external_id, category = number_of('cpu_op') as is_operator
  from collective_details as details join spans using (cycle, row))
select kernels.cycle, kernels.row, word(kernels.name) as name, each.key || ' ' || each.kernel as kernel, each.operator
from described as kernels
join described as hosts on hosts.cycle = kernels.cycle and hosts.external_id = kernels.external_id and hosts.is_operator,
  unnest([
    {key: 'Collective name', kernel: word(kernels.collective), operator: word(hosts.collective)},
    {key: 'dtype', kernel: word(kernels.dtype), operator: word(hosts.dtype)},
    {key: 'In msg nelems', kernel: kernels.in_elements::text, operator: hosts.in_elements::text},
    {key: 'Out msg nelems', kernel: kernels.out_elements::text, operator: hosts.out_elements::text},
    {key: 'Group size', kernel: kernels.group_size::text, operator: hosts.group_size::text}]) as pairs(each)
where not kernels.is_operator and each.kernel <> each.operator

-- check: nothing_of_a_device_is_there_twice
-- code: I114
-- headline: an event is there twice
-- needs: spans
-- invariant: nothing_twice
-- about: No two calls, and no two kernels, copies or fills, have the same name, thread, correlation, start and duration. Exact.
-- message: {name} is the same as event {earlier}
with shown as (
  select cycle, row, name, thread, correlation, start_ns, duration_ns from device_work
  union all
  select cycle, row, name, thread, correlation, start_ns, duration_ns from device_calls),
same as (
  select cycle, name, thread, correlation, start_ns, duration_ns, min(row) as earlier
  from shown group by all having count(*) > 1)
select cycle, row, word(name) as name, earlier
from shown join same using (cycle, name, thread, correlation, start_ns, duration_ns)
where row > earlier

-- check: work_and_calls_take_time
-- code: I106
-- headline: something takes no time
-- needs: spans
-- invariant: values_are_possible
-- about: What runs on a device, and a call of its runtime, takes time. Where times have nanoseconds: in whole microseconds 0 is real.
--   Calls of a host on Linux, which names its processes: on Windows a clock counts steps of 100 ns, and on Linux under Hyper-V as
--   well, which all durations of calls show.
-- source: CUPTI and roctracer give nanoseconds, which torch 2.4 and later write with a base; real traces of three devices
-- message: {name} takes no time
with coarse as (
  select cycle from device_calls group by cycle having count(*) filter (duration_ns % 100 <> 0) <= 0.01 * count(*) and max(duration_ns) > 0)
select cycle, row, word(name) as name
from (
  select cycle, row, name, duration_ns from device_work
  union all
  select cycle, row, name, duration_ns from device_calls
  where cycle in (select cycle from processes where is_name) and cycle not in (select cycle from coarse))
join traces using (cycle)
where duration_ns = 0 and base_ns is not null

-- check: calls_of_a_thread_are_nested
-- code: I112
-- headline: two calls of a thread overlap
-- needs: spans
-- invariant: inside_its_whole
-- about: A call of a runtime or driver is inside another of its thread, or beside it: one clock has the times of both.
-- tolerance: 1 us: whole microseconds until torch 2.1
-- message: {name} begins inside {around}, and ends {after_us:.3f} us after it
with placed as (
  select cycle, row, name, thread, start_ns, start_ns + duration_ns as end_ns,
    lag(name) over calls as around, lag(start_ns + duration_ns) over calls as around_ns
  from device_calls
  window calls as (partition by cycle, thread order by start_ns, row))
select cycle, row, word(name) as name, word(around) as around, (end_ns - around_ns) / 1000 as after_us
from placed
where around_ns > start_ns + 1000 and end_ns > around_ns + 1000

-- check: annotations_of_a_device_are_around_work
-- code: I112
-- headline: an annotation is not around the work of its stream
-- needs: spans
-- invariant: inside_its_whole
-- about: An annotation on a stream (gpu_user_annotation) begins with the first work that ran in it there, and ends with the last.
-- source: kineto GpuUserEventMap / CuptiActivityProfiler.cpp: it is extended by each activity of its stream; real traces of 3 devices
-- tolerance: 1 us
-- message: {name} {does} at {time_us:.3f} us, where no work of its stream does
with annotations as (select * from spans where category = number_of('gpu_user_annotation')),
ends as (
  select cycle, row, name, thread, start_ns as time_ns, 'begins' as does from annotations
  union all
  select cycle, row, name, thread, start_ns + duration_ns, 'ends' from annotations),
-- Nearly all are met to the nanosecond.
unmet as (
  select * from ends anti join (
    select cycle, thread, start_ns as time_ns, 'begins' as does from device_work
    union all
    select cycle, thread, start_ns + duration_ns, 'ends' from device_work) as works using (cycle, thread, time_ns, does))
select unmet.cycle, unmet.row, word(unmet.name) as name, does, unmet.time_ns / 1000 as time_us
from unmet
anti join device_work on device_work.cycle = unmet.cycle and device_work.thread = unmet.thread
  and abs(unmet.time_ns - (device_work.start_ns + if(does = 'begins', 0, device_work.duration_ns))) <= 1000
anti join graph_work on graph_work.cycle = unmet.cycle
  and abs(unmet.time_ns - (graph_work.start_ns + if(does = 'begins', 0, graph_work.duration_ns))) <= 1001

-- check: annotations_of_a_device_are_of_the_host
-- code: I115
-- needs: spans
-- invariant: references_resolve
-- about: An annotation on a stream has the name and the External id of one of the host.
-- source: kineto CuptiActivityProfiler.cpp: it is a copy of the host's annotation; real traces of three devices
-- message: {name} (External id {external_id}) annotates a stream, and nothing on the host
select annotations.cycle, annotations.row, word(annotations.name) as name, annotations.external_id
from spans as annotations
anti join spans as hosts on hosts.cycle = annotations.cycle and hosts.name = annotations.name
  and hosts.category = number_of('user_annotation') and hosts.external_id is not distinct from annotations.external_id
where annotations.category = number_of('gpu_user_annotation')

-- check: nothing_of_a_device_is_there_twice
-- code: I114
-- headline: an event is there twice
-- needs: spans
-- invariant: nothing_twice
-- about: An annotation is once on a stream. Exact.
-- message: {name} is on its stream {times} times
select cycle, min(row) as row, word(name) as name, count(*) as times
from spans where category = number_of('gpu_user_annotation') and external_id > 0
group by cycle, name, thread, external_id having count(*) > 1

-- check: a_window_ends_with_a_wait
-- code: C116
-- headline: the end of the window was lost
-- needs: flows, spans
-- invariant: all_steps_are_there
-- about: torch.profiler waits for the device before it stops, so the thread that waits launches nothing behind its last wait. Asked where
--   steps are marked: then it was torch.profiler that stopped, and no tool from outside; and where devices were recorded: with
--   ProfilerActivity.CPU alone it does not wait.
-- source: torch/autograd/profiler.py, __exit__ (since 1.8): where use_device is set
-- message: {launches} launches, and the host does not wait for the device behind the last of them
with waits as (
  select cycle, thread, max(start_ns) as waited_ns from device_calls where kind = 'synchronise' group by all),
last as (select cycle, arg_max(thread, waited_ns) as thread, max(waited_ns) as waited_ns from waits group by cycle)
select calls.cycle, count(*) as launches
from device_calls as calls left join last on last.cycle = calls.cycle
where kind = 'launch' and (last.thread is null or last.thread = calls.thread and calls.start_ns > last.waited_ns)
  and calls.cycle in (select cycle from step_marks) and calls.cycle in (select cycle from recorded_devices)
group by calls.cycle

-- check: names_are_those_of_the_api
-- code: S103
-- headline: a call or a flow has another name than its writer gives
-- needs: spans | flows
-- invariant: values_are_possible
-- about: A call of a category cuda_runtime or cuda_driver is named after a function of CUDA or ROCm, or INVALID where Kineto does not know
--   its number; a flow is named as its category is. Devices that stand in for CUDA's name their calls otherwise: silent where more
--   than half of the calls are.
-- source: kineto CuptiActivity.cpp (runtimeCbidName), RocprofActivity.cpp, output_json.cpp (handleLink); nine real traces
-- message: {name} is no name of {category}
with named as (
  select cycle, row, name, category,
    name in (
      select number from words
      where regexp_matches(text, '^(cuda|cu|hip|hsa|roc|_*hip|INVALID|[Uu]nknown|UNKNOWN|<|[0-9])')) as is_known
  from spans where category in (number_of('cuda_runtime'), number_of('cuda_driver')))
select cycle, row, word(name) as name, word(category) as category
from named
where not is_known and cycle in (select cycle from named group by cycle having count(*) filter (not is_known) <= 0.5 * count(*))
union all
select cycle, row, word(name), word(category)
from flows where category in (number_of('ac2g'), number_of('fwdbwd')) and name <> category

-- check: one_launch_runs_one_kernel
-- code: I114
-- headline: a launch or its kernel is there twice
-- needs: spans
-- invariant: nothing_twice
-- about: A launch has one kernel with its correlation, and a correlation is that of one call. Exact. Not asked of a graph, nor of a
--   launch on several devices.
-- source: CUPTI: a call has a correlation of its own, and the kernel that it launches has the same; nine real traces
-- message: correlation {correlation} is that of {times} times {name}
with launches as (
  select cycle, correlation from device_calls
  where kind = 'launch' and name not in (select number from words where regexp_matches(text, 'Graph|Multi'))),
ran as (
  select cycle, row, name, correlation from device_work semi join launches using (cycle, correlation)
  union all
  select cycle, row, name, correlation from device_calls where correlation > 0)
select cycle, max(row) as row, word(any_value(name)) as name, correlation, count(*) as times
from (select ran.*, work.row is not null as is_work from ran left join device_work as work using (cycle, row))
group by cycle, is_work, correlation, if(is_work, null, name)
having count(*) > 1

-- check: work_of_a_stream_is_in_the_order_of_its_calls
-- code: I106
-- headline: work of a stream runs in another order than it was launched
-- needs: spans
-- invariant: order_of_time
-- about: What a stream runs, it runs in the order of the calls: one begins behind another whose call had ended before its own call
--   began. Not asked of graphs, whose branches run beside each other. A warning on ROCm: several streams may share a queue.
-- source: CUDA programming guide, streams; not one of 47 000 neighbours in nine real traces is in another order
-- tolerance: 10 us, as for what overlaps
-- message: {name} begins {early_us:.3f} us before {behind}, whose call was {calls_us:.3f} us earlier
with placed as (
  select work.cycle, work.row, work.name, work.thread, bounded(work.start_ns) as start_ns, bounded(calls.start_ns) as called_ns,
    bounded(calls.start_ns) + bounded(calls.duration_ns) as returned_ns
  from device_work as work
  join device_calls as calls on calls.cycle = work.cycle and calls.correlation = work.correlation
  where calls.name not in (select number from words where contains(text, 'Graph'))),
behind as (
  select *, min(returned_ns) over later as first_returned_ns, arg_min(name, returned_ns) over later as name_behind,
    arg_min(start_ns, returned_ns) over later as start_behind
  from placed
  window later as (partition by cycle, thread order by start_ns, row rows between 1 following and unbounded following))
select behind.cycle, row, word(name) as name, word(name_behind) as behind, (start_behind - start_ns) / 1000 as early_us,
  (called_ns - first_returned_ns) / 1000 as calls_us, if(is_cuda, 'error', 'warning') as severity
from behind join device_facts on device_facts.cycle = behind.cycle
where first_returned_ns < called_ns and start_behind > start_ns + 10000

-- check: work_has_the_operator_of_its_call
-- code: I101
-- headline: a call and its work are of different operators
-- needs: spans
-- invariant: counted_twice_agrees
-- about: Work on a device has the External id of the call that launched it: that of the operator that made the call. Exact.
-- source: kineto, linkedActivity: both look up the operator by their correlation; 40 000 pairs in eight real traces
-- message: {name} has External id {external_id}, its call {called}
select work.cycle, work.row, word(work.name) as name, work.external_id, calls.external_id as called
from device_work as work join device_calls as calls on calls.cycle = work.cycle and calls.correlation = work.correlation
where work.external_id <> calls.external_id

-- check: calls_are_made_by_their_operator
-- code: I112
-- headline: a call is outside of its operator
-- needs: spans
-- invariant: inside_its_whole
-- about: A call is made on the thread of its operator (External id), while that runs. Silent where more than one in ten is not: older
--   torch numbers operators for the trace otherwise than for the calls. Older Kineto gives a call without an operator its own
--   correlation as External id.
-- source: torch/csrc/profiler/collection.cpp (begin_op): Kineto has the number of the innermost operator until that ends
-- tolerance: 100 us: CUPTI and torch read the clock in different ways
-- message: {name} is made at {start_us:.3f} us, {why} {operator} (External id {external_id})
with linked as (
  select calls.cycle, calls.row, calls.name, calls.start_ns, external_id, made.name as operator,
    case
      when made.row is null then if(external_id = calls.correlation, null, 'by an operator that is not in the trace:')
      when made.thread <> calls.thread then 'on another thread than'
      when calls.start_ns < made.start_ns - 100000 then 'before'
      when calls.start_ns + calls.duration_ns > made.start_ns + made.duration_ns + 100000 then 'and ends after'
    end as why
  from device_calls as calls
  left join (from spans where category in (number_of('cpu_op'), number_of('user_annotation'))) as made using (cycle, external_id)
  where external_id > 0)
select cycle, row, word(name) as name, start_ns / 1000 as start_us, why, coalesce(word(operator), 'none') as operator, external_id
from linked
where why is not null
  and cycle in (select cycle from linked group by cycle having count(why) <= 0.1 * count(*))

-- check: calls_have_their_flow
-- code: I110
-- headline: a flow was lost
-- needs: flows, spans
-- invariant: flows_have_two_ends
-- about: A flow between host and device begins or ends at each call. Exact; silent where more than one in ten has none, as in torch 1.8
--   to 1.11.
-- source: kineto output_json.cpp, handleActivity: every activity with a correlation is followed by its end of the flow
-- message: no flow begins or ends at {name} (correlation {correlation})
with lost as (
  select cycle, row, name, correlation from device_calls as calls
  anti join device_flows as ends on ends.cycle = calls.cycle and ends.id = calls.correlation and ends.thread = calls.thread
  where correlation > 0)
select cycle, row, word(name) as name, correlation
from lost
where cycle in (
  select cycle from (select cycle, count(*) as made from device_calls group by cycle)
  join (select cycle, count(*) as losses from lost group by cycle) using (cycle) where losses <= 0.1 * made)

-- check: work_is_drawn_on_its_stream
-- code: I101
-- headline: work of a device is drawn on another stream than it ran on
-- needs: device_details, spans
-- invariant: counted_twice_agrees
-- about: Work of a device is drawn in the process of its device and on the thread of its stream. Exact, of CUDA and ROCm; not
--   asked of work of a graph. A copy between two devices has fromDevice, inDevice and toDevice instead of one device.
-- source: kineto CuptiActivity.cpp and RoctracerActivity.cpp: both are deviceId() and resourceId(), since torch 1.8; nine real traces
-- message: {name} is drawn at {process}/{lane}, and ran on device {device}, stream {stream}
select cycle, row, word(name) as name, process, lane, coalesce(device::text, 'none') as device, coalesce(stream::text, 'none') as stream
from detailed_work
where (coalesce(device <> process or stream <> lane, false)
  or (stream is null or device is null and category <> number_of('gpu_memcpy'))
    and cycle in (select cycle from detailed_work where device is not null and stream is not null))
  and (cycle, row) not in (select (cycle, row) from graph_work)

-- check: bandwidth_is_bytes_by_time
-- code: I105
-- headline: a bandwidth does not follow from its bytes and its time
-- needs: device_details, spans
-- invariant: figures_follow
-- about: The bandwidth of a copy or a fill is its bytes by its duration.
-- tolerance: 2 ns of the duration and 0.1 % of it; 1 us where the trace has whole microseconds (without a base)
-- source: kineto CuptiActivity.cpp, bandwidth; RoctracerActivity.cpp; nine real traces
-- message: {name} has {copied_bytes} bytes in {time_us:.3f} us, and a bandwidth of {bandwidth:.6g} GB/s
select cycle, row, word(name) as name, copied_bytes, duration_ns / 1000 as time_us, bandwidth
from detailed_work left join traces using (cycle)
where not is_kernel and (
  (bandwidth <= 0) <> (copied_bytes = 0)
  or bandwidth > 0 and abs(copied_bytes / bandwidth - duration_ns) > if(base_ns is null, 1001, 2) + 0.001 * duration_ns)

-- check: blocks_and_warps_follow_from_the_grid
-- code: I105
-- headline: what a multiprocessor runs does not follow from the grid
-- needs: device_details, devices
-- invariant: figures_follow
-- about: Blocks per multiprocessor are those of the grid by the multiprocessors of the device (deviceProperties), and warps per
--   multiprocessor are the blocks by the threads of one, in 32s.
-- tolerance: 0.1 % and 0.00001: they are written with six digits
-- source: kineto CudaDeviceProperties.cpp, blocksPerSm and warpsPerSm, since torch 1.8; six real traces of CUDA
-- message: {name}: grid {grid}, block {block} and {multiprocessors} multiprocessors, and {blocks_per_sm:.6g} blocks and
--   {warps_per_sm:.6g} warps each
select work.cycle, row, word(name) as name, word(work.grid) as grid, word(work.block) as block, multiprocessors,
  blocks_per_sm, warps_per_sm
from detailed_work as work
join devices on devices.cycle = work.cycle and devices.device = work.device and multiprocessors > 0
join extents as grids on grids.number = work.grid
join extents as blocks on blocks.number = work.block
where is_kernel and blocks_per_sm is not null and warps_per_sm is not null
  and (abs(blocks_per_sm - grids.size / multiprocessors) > 0.00001 + 0.001 * blocks_per_sm
    or abs(warps_per_sm - grids.size / multiprocessors * blocks.size / 32) > 0.00001 + 0.001 * warps_per_sm)

-- check: alike_launches_occupy_alike
-- code: I101
-- headline: the same launch has two occupancies
-- needs: device_details, spans
-- invariant: figures_follow
-- about: Kineto estimates the occupancy from the device, the grid, the block, the registers and the shared memory of a kernel; so the same
--   kernel has the same one. Exact. It is a share of 100, and negative of a device that Kineto does not know.
-- source: kineto CudaDeviceProperties.cpp, kernelOccupancy, since torch 1.8; six real traces of CUDA
-- message: {name} occupies {occupancy:g} % here, and {usual:g} % elsewhere
with alike as (
  select cycle, device, name, grid, block, registers, shared_memory, mode(occupancy) as usual
  from detailed_work where occupancy is not null
  group by all having count(distinct occupancy) > 1)
select work.cycle, row, word(work.name) as name, occupancy, usual
from detailed_work as work join alike using (cycle, device, name, grid, block, registers, shared_memory)
where occupancy <> usual
union all
select cycle, row, word(name), occupancy, 100 from detailed_work where occupancy > 100

-- check: a_function_has_one_number
-- code: I101
-- headline: a function of the API has two numbers
-- needs: device_details, spans
-- invariant: counted_twice_agrees
-- about: A number of a function of CUDA (cbid) has one name; functions that CUDA has in one version have one number. Exact.
-- source: CUPTI, cupti_runtime_cbid.h and cupti_driver_cbid.h; kineto names a call by its number (cupti_strings.cpp)
-- message: {name} has cbid {cbid}, which is {usual}
with calls as (
  select calls.cycle, calls.row, calls.category, calls.name, cbid
  from device_calls as calls join device_details using (cycle, row) where cbid is not null),
usual_names as (
  select cycle, category, cbid, mode(name) as usual from calls group by all having count(distinct name) > 1),
usual_numbers as (
  select cycle, category, name, mode(cbid) as usual from calls
  where name in (
    select number from words
    where regexp_full_match(text, 'cudaLaunchKernel|cudaLaunchKernelExC|cudaMemcpyAsync|cudaMemsetAsync|cuda(Stream|Device)Synchronize'
      || '|cudaStreamIsCapturing|cudaStreamWaitEvent|cudaEventQuery|cudaDeviceGetAttribute|cuLaunchKernel'))
  group by all having count(distinct cbid) > 1)
select calls.cycle, row, word(calls.name) as name, calls.cbid, word(usual) as usual
from calls join usual_names using (cycle, category, cbid) where calls.name <> usual
union all
select calls.cycle, row, word(calls.name), calls.cbid, 'elsewhere ' || usual
from calls join usual_numbers using (cycle, category, name) where calls.cbid <> usual

-- check: a_call_names_the_kernel_it_launched
-- code: I101
-- headline: a call and its kernel disagree
-- needs: device_details, spans
-- invariant: counted_twice_agrees
-- about: A launch of ROCm has the name, the grid and the block of its kernel, where both have them. Exact.
-- source: kineto RoctracerActivity.cpp and RocprofActivity.cpp: both demangle one name; 2264 pairs in three real traces
-- message: {name} ran, and its launch names {launched}
select work.cycle, work.row, word(work.name) || coalesce(' ' || word(work.grid), '') || coalesce(' ' || word(work.block), '') as name,
  word(launches.kernel)::json ->> '$' || coalesce(' ' || word(launches.grid), '') || coalesce(' ' || word(launches.block), '') as launched
from detailed_work as work
join device_calls as calls on calls.cycle = work.cycle and calls.correlation = work.correlation
join device_details as launches on launches.cycle = calls.cycle and launches.row = calls.row
where work.is_kernel and word(launches.kernel) not in ('""', '"unknown"') and word(work.name) <> 'unknown'
  and (word(launches.kernel)::json ->> '$' <> word(work.name)
    or work.grid <> launches.grid or work.block <> launches.block)

-- check: annotated_work_has_its_annotation
-- code: I101
-- headline: an annotation of a stream was lost
-- needs: spans
-- invariant: counted_twice_agrees
-- about: Where work was launched inside of an annotation of the host, its stream has one with the same External id. Asked where the trace
--   has any on a stream, of the last annotation that had begun at the launch, and not of a thread on which annotations overlap: there CUPTI
--   knows another as the innermost. Exact.
-- source: kineto CuptiActivityProfiler.cpp, handleGpuActivity and GpuUserEventMap; real traces of three devices
-- message: {name} was launched inside of {annotation} (External id {external_id}), and its stream has no such annotation
with hosts as (
  select cycle, row, name, thread, start_ns, start_ns + duration_ns as end_ns, external_id from spans
  where category = number_of('user_annotation') and cycle in (
    select distinct cycle from spans where category = number_of('gpu_user_annotation'))),
crowded as (select cycle, thread from hosts group by all having count(*) > 5000),
overlapping as (
  select distinct one.cycle, one.thread
  from hosts as one join hosts as other on other.cycle = one.cycle and other.thread = one.thread
    and other.start_ns > one.start_ns and other.start_ns < one.end_ns and other.end_ns > one.end_ns
  where (one.cycle, one.thread) not in (from crowded)
  union
  from crowded),
launched as (
  select cycle, null::bigint as row, null::integer as name, thread, start_ns, end_ns, external_id, null::integer as stream from hosts
  union all
  select work.cycle, work.row, work.name, calls.thread, calls.start_ns, calls.start_ns + calls.duration_ns, null, work.thread
  from device_work as work join device_calls as calls on calls.cycle = work.cycle and calls.correlation = work.correlation
  where work.cycle in (select cycle from hosts)),
placed as (
  select *, arg_max(external_id, start_ns) over before as annotation, arg_max(if(row is null, end_ns, null), start_ns) over before as until_ns
  from launched
  window before as (partition by cycle, thread order by start_ns, row is not null rows unbounded preceding))
select placed.cycle, placed.row, word(placed.name) as name, word(hosts.name) as annotation, placed.annotation as external_id
from placed
join hosts on hosts.cycle = placed.cycle and hosts.external_id = placed.annotation
anti join spans as drawn on drawn.cycle = placed.cycle and drawn.thread = placed.stream and drawn.external_id = placed.annotation
  and drawn.category = number_of('gpu_user_annotation')
where placed.row is not null and placed.annotation > 0 and placed.end_ns <= placed.until_ns
  and (placed.cycle, placed.row) not in (select (cycle, row) from graph_work)
  and (placed.cycle, placed.thread) not in (from overlapping)

-- check: figures_of_a_kernel_are_together
-- code: S103
-- headline: a kernel lacks a figure
-- needs: device_details, spans
-- invariant: values_are_possible
-- about: A kernel of CUDA has registers, shared memory, grid, block and occupancy together; registers and shared memory are not
--   negative, and a grid and a block are of at least 1. Exact.
-- source: kineto CuptiActivity.cpp, metadataJson of a kernel, since torch 1.8; six real traces of CUDA.
--   CudaDeviceProperties.cpp, kernelOccupancy: less than 0 (-99, or more) where it does not know the device
-- message: {name} has registers {registers}, shared memory {shared_memory}, grid {grid}, block {block} and occupancy {occupancy}
with figures as (
  select work.cycle, row, name, registers, shared_memory, grid, block, occupancy,
    [registers is not null, shared_memory is not null, occupancy is not null, coalesce(grids.size > 0, false), coalesce(blocks.size > 0, false)]
      as known
  from detailed_work as work
  left join extents as grids on grids.number = work.grid
  left join extents as blocks on blocks.number = work.block
  where is_kernel)
select cycle, row, word(name) as name, coalesce(registers::text, 'none') as registers, coalesce(shared_memory::text, 'none') as shared_memory,
  coalesce(word(grid), 'none') as grid, coalesce(word(block), 'none') as block, coalesce(format('{:g}', occupancy), 'none') as occupancy
from figures
where list_contains(known[:3], true) and list_contains(known, false)
