-- What a torch trace measures of devices: what ran there, what the host called of their runtime, and where it waits for them.

-- metric: kernel_calls, kernel_total_ns
-- needs: windows, device_details, device_work_inside
-- about: How often each kernel, copy or set ran in the window, and how long.
select cycle, word(name) as subject, count(*), within(sum(duration_ns)) from device_work_inside group by cycle, name

-- metric: kernel_time
-- needs: windows, device_details, device_work_inside
-- digits: 3
-- about: The time of each kernel, a sample of each step that launched it; without steps that of the window.
select cycle, word(name) as subject, list(total_ns / 1000 order by step)
from (select cycle, name, step, sum(duration_ns) as total_ns from device_work_inside group by all)
group by cycle, name

-- metric: copies, copied_bytes
-- needs: windows, device_details, device_work_inside
-- about: How often a kind of copy (HtoD, DtoH, DtoD, ...) ran on the devices, and how many bytes it moved, a sample of each step, of the
--   step that launched it. Sets are none.
with copied as (
  select cycle, step, coalesce(nullif(regexp_extract(text, '^Mem[a-z]+ ([A-Za-z]+)', 1), ''), text) as subject, count(*) as copies,
    if(count(bytes) = count(*), within(sum(bytes)), null) as copied
  from device_work_inside join words on words.number = name
  where kind = 'copy'
  group by all),
kinds as (select cycle, subject, bool_and(copied is not null) as is_known from copied group by all)
select kinds.cycle, kinds.subject, list(coalesce(copies, 0) order by counted_steps.step),
  list(if(is_known, coalesce(copied, 0), null) order by counted_steps.step)
from kinds
join counted_steps using (cycle)
left join copied on copied.cycle = kinds.cycle and copied.subject = kinds.subject and copied.step is not distinct from counted_steps.step
group by all

-- metric: launches, synchronisations
-- needs: windows, device_details
-- about: How often a step launches work on a device (a graph is one launch), and waits for one, a sample a step: of the median, which one
--   step that empties a cache does not move. Unknown where no name of a call says what it does.
with counts as (
  select cycle, step, count(*) filter (kind in ('kernel', 'graph')) as launches,
    count(*) filter (kind = 'synchronise' or waits) as synchronisations, count(kind) as known
  from calls_in_steps where not is_inside
  group by cycle, step)
select counted_steps.cycle, '' as subject, list(if(is_known, coalesce(launches, 0), null) order by counted_steps.step),
  list(if(is_known, coalesce(synchronisations, 0), null) order by counted_steps.step)
from counted_steps
join (select cycle, sum(known) > 0 as is_known from counts group by cycle) as called on called.cycle = counted_steps.cycle
left join counts on counts.cycle = counted_steps.cycle and counts.step is not distinct from counted_steps.step
group by counted_steps.cycle

-- metric: device_time
-- needs: windows, device_details, device_work_inside
-- digits: 3
-- about: The parts of the fastest step, or of the window where no step is known.
with fastest as (
  select cycle, step from step_edges qualify row_number() over (partition by cycle order by end_ns - start_ns, step) = 1
  union all
  select cycle, null from windows where cycle not in (select cycle from step_edges)),
parts as (
  unpivot (select parts.* from device_parts as parts join fastest on fastest.cycle = parts.cycle and fastest.step is not distinct from parts.step)
  on computing, communication, exposed_communication, exposed_copying, idle, idle_for_host, idle_for_stream, idle_for_collective, idle_other into name part value part_ns)
select cycle, device || ':' || part as subject, [part_ns / 1000] from parts

-- metric: exposed_communication
-- needs: windows, device_details, device_work_inside
-- digits: 3
-- about: A sample a step, of cycles in which some device communicates.
select cycle, device as subject, list(exposed_communication / 1000 order by step)
from device_parts
where cycle in (select cycle from device_parts where communication > 0)
group by cycle, device

-- metric: device_idle
-- needs: windows, device_details, device_work_inside
-- digits: 3
-- about: A sample a step.
select cycle, device as subject, list(idle / 1000 order by step) from device_parts group by cycle, device

-- metric: launch_delay
-- needs: windows, device_details, device_work_inside
-- digits: 3
-- about: From the begin of the call to that of what it launched: the mean of each step. What began before its call was not asked for by it.
select cycle, device as subject, list(delay_us order by step)
from (
  select cycle, device, step, avg(start_ns::hugeint - called_ns) / 1000 as delay_us
  from device_calls_answered join windows using (cycle)
  where start_ns >= called_ns and (step is not null or not by_step)
  group by cycle, device, step)
group by cycle, device

-- metric: queue_length
-- needs: windows, device_details, device_work_inside
-- about: The largest of each step of how much was asked for and had not begun.
with changes as (
  select cycle, device, step, unnest([called_ns, start_ns]) as at_ns, unnest([1, -1]) as change
  from device_calls_answered join windows using (cycle)
  where start_ns > called_ns and (step is not null or not by_step)),
lengths as (
  select cycle, device, step, sum(change) over (partition by cycle, device order by at_ns, change rows unbounded preceding) as length
  from changes)
select cycle, device as subject, list(longest order by step)
from (select cycle, device, step, max(length)::bigint as longest from lengths group by all)
group by cycle, device

-- metric: collective_durations_ns
-- needs: windows, device_details, device_work_inside
-- about: How long each collective lasted on its device, in the order of their starts, by name and, where it is known, the size of its group. It runs there until all ranks have come, so it is
--   shortest on the rank that came last.
select cycle, word(name) || coalesce('/' || group_size, '') as subject, list(duration_ns order by start_ns, duration_ns)
from device_work_inside
where kind = 'communication'
group by cycle, name, group_size

-- metric: resident_memory_bytes
-- needs: windows, levels
-- about: By the account of each device's allocator, after the last event of a step: a sample of each that has one, or of the window. The
--   host's account begins with the profiler, so it is not told.
with placed as (
  select events.cycle, steps.step, total_bytes, row_number() over (order by time_ns, coalesce(event_index, 0), row) as place,
    device_name(device_type, device_number) as device
  from own_memory_events as events
  left join step_ranges as steps on steps.cycle = events.cycle and time_ns between steps.start_ns and steps.end_ns and time_ns < next_ns
  where device_type <> 0 and total_bytes is not null
    and (steps.step is not null or events.cycle not in (select cycle from step_edges))),
lasts as (select cycle, device, step, arg_max(total_bytes, place) as resident from placed group by all)
select cycle, device as subject, list(resident order by step) from lasts group by cycle, device

-- metric: host_reads, waiting_operators
-- needs: windows, executions
-- about: Reads, a sample a step: where the calls of a runtime were recorded, `synchronisations` says what waited. And in the whole window
--   how often an operator reads or waits, or a call of the runtime that none made.
with counts as (select cycle, step, count(*) as reads from host_reads group by all),
samples as (
  select counted_steps.cycle, list(coalesce(reads, 0) order by counted_steps.step) as reads
  from counted_steps
  left join counts on counts.cycle = counted_steps.cycle and counts.step is not distinct from counted_steps.step
  where counted_steps.cycle not in (select cycle from calls_in_steps where kind is not null)
  group by counted_steps.cycle),
named as (
  select cycle, map_from_entries(list({'name': name, 'waits': waits} order by name)) as operators
  from (
    select waits.cycle, word(name) as name, count(*) as waits
    from waits join windows using (cycle)
    where step is not null or not by_step
    group by all)
  group by cycle)
select windows.cycle, '' as subject, reads, coalesce(operators, map {})
from windows left join samples using (cycle) left join named using (cycle)
where windows.cycle in (select cycle from traces)

-- metric: waiting_functions
-- needs: windows, executions, python_calls
-- about: Of the whole window, by the profiler's stacks; the line is that where the function begins.
select cycle, '' as subject, list(name || ' in ' || function order by name, function)
from (
  select distinct cycle, word(name) as name, word(function) as function
  from waiting_functions join windows using (cycle)
  where step is not null or not by_step)
group by cycle
