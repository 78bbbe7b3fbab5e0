-- What the events of a torch trace are, and what they add up to. Categories of torch 1.8 to 1.11 are Operator, Kernel, Memcpy, Memset
-- and Runtime (real output of 1.8).

-- Operators of the host. Categories of torch 1.12 and later.
create view operators as
select * from spans where category = number_of('cpu_op');

create view step_marks as
select * from spans
where category = number_of('user_annotation')
  and name in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+'));

create view forward_to_backward as
select * from flows where category = number_of('fwdbwd');

-- The window that the profiler itself draws ("PyTorch Profiler"); `spans`: how many it draws, `ended_ns`: when Kineto stopped
-- ("Record Window End"), which is later.
create view recorded_windows as
select cycle, begin_ns, stop_ns, spans, ended_ns
from (
  select cycle, min(start_ns) as begin_ns, max(start_ns + duration_ns) as stop_ns, count(*) as spans
  from spans where category = number_of('Trace')
  group by cycle)
left join (
  select cycle, max(time_ns) as ended_ns from instants where name = number_of('Record Window End') group by cycle) using (cycle);

-- Events that torch numbers. Its exporter in Python writes what it knows of a collective, its number as well, to the kernel
-- (torch/profiler/_chrome_trace_export.py, since 2.13).
create view numbered_events as
select cycle, row, name, event_index from spans where event_index is not null and category <> number_of('kernel')
union all
select cycle, row, name, event_index from instants where event_index is not null;

-- Cycles whose numbers are not 0 to N-1, each once: count, least and largest number, sum and sum of squares say so without sorting.
create view fill_misnumbered as
with numbers as (select cycle, greatest(-1, least(event_index, 3000000000)) as number from numbered_events)
select cycle
from (
  select cycle, count(*)::hugeint as events, min(number) as least_number, max(number) as last_number, sum(number) as total,
    sum(number * number) as squares
  from numbers group by cycle)
where least_number <> 0 or last_number <> events - 1 or total <> events * (events - 1) // 2
  or squares <> events * (events - 1) * (2 * events - 1) // 6;

-- Marks of steps. Categories of torch 1.8 to 1.11 as well: there the marks of steps are operators, too.
create view marks as
select * from spans
where category in (number_of('user_annotation'), number_of('Operator'))
  and name in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]{1,18}'));

-- Calls of a device's runtime or driver, and the last step that had begun. (No asof join: prepared, duckdb 2.0 fails when it meets
-- no row the second time.)
create view launches as
select * exclude (is_call, mark), last_value(mark ignore nulls) over (
  partition by cycle order by start_ns, is_call rows unbounded preceding) as step
from (
  select cycle, row, name, start_ns, correlation, true as is_call, null::integer as mark from spans
  where category in (select number from words where regexp_matches(text, '_(runtime|driver)$') or text = 'Runtime')
  union all
  select cycle, null, null, start_ns, null, false, step from steps)
qualify is_call;

-- Collectives of the host that are annotated beside its operators.
create view annotated_collectives as
select cycle, name, start_ns, duration_ns from spans
where category = number_of('user_annotation') and name in (select number from words where is_host_collective(text));

create view work as
select *, category not in (number_of('cpu_op'), number_of('Operator')) as is_on_device
from nesting where category <> number_of('user_annotation');

create view memory_events as
select cycle, row, thread, time_ns, event_index, bytes, known(total_bytes) as total_bytes, known(reserved_bytes) as reserved_bytes,
  reserved_bytes is not null as says_reserved, device_type, device_number, address
from instants where name = number_of('[memory]');

-- Memory of each device's own account. What a DataLoader's workers hand over is no part of it: torch reports each such block once
-- more with a total of 0, as it is mapped with Total Reserved equal to its Bytes, as it is unmapped with both totals 0. Of a block
-- that is given back and was not allocated here the account shows whose it was.
create view own_memory_events as
with events as (
  select *, coalesce(event_index, 0) as number,
    coalesce(device_type = 0 and total_bytes = 0 and bytes > 0 and reserved_bytes = bytes, false) as is_mapped
  from memory_events),
emptied as (
  select cycle, row, address from events
  where device_type = 0 and total_bytes = 0 and bytes < 0 and reserved_bytes = 0 and address is not null),
allocated as (
  select cycle, address from events
  where bytes > 0 and not is_mapped and address is not null and cycle in (select distinct cycle from emptied)),
doubtful as (select cycle, row from emptied anti join allocated using (cycle, address)),
reported as (
  select events.cycle, events.row, bytes, doubtful.row is not null as is_doubtful,
    last_value(if(is_mapped or is_doubtful, null, total_bytes) ignore nulls) over (
      partition by events.cycle, device_type, device_number order by time_ns, number, events.row
      rows between unbounded preceding and 1 preceding) as account
  from events left join doubtful using (cycle, row)
  where events.cycle in (select distinct cycle from doubtful)),
unmapped as (select cycle, row from reported where is_doubtful and coalesce(account + bytes <> 0, true))
select * from events anti join unmapped using (cycle, row)
where not is_mapped;

-- The level of each device's memory (`cpu`, `cuda:0`; of other types c10::DeviceType) after its events, and before. Ev Idx numbers the
-- events thread by thread (a backward thread, a forked task), so it orders only those of one moment: by their times the account of each
-- device adds up on every real trace at hand, CUDA and ROCm, torch 1.8 to 2.13.
-- Of the host, a release counts if the window saw the allocation. torch tells no other, as it knows no size, unless an earlier window of
-- the process saw a block at the same address: then it tells the size of that one, so that the rest would depend on what ran before.
create view torch_levels as
with earlier as (
  select cycle, arg_min(row, (time_ns, number, row)) as row
  from own_memory_events where device_type = 0 and address is not null
  group by cycle, address having arg_min(bytes, (time_ns, number, row)) < 0),
events as (
  select cycle, time_ns, bytes, row_number() over (partition by cycle order by time_ns, number, row) as place,
    case device_type when 0 then 'cpu' when 1 then 'cuda' else 'device' || device_type end
      || if(coalesce(device_number, -1) < 0, '', ':' || device_number) as device
  from own_memory_events anti join earlier using (cycle, row) where device_type is not null)
select cycle, device, place, time_ns, level, within(level::hugeint - bytes) as before
from (select *, within(sum(bytes) over (partition by cycle, device order by place rows unbounded preceding)) as level from events);

-- Executions added up by operator and step, in the order of the steps and first calls. torch 1.12 keeps the handle of a step's mark in
-- a tensor, which it makes between steps (autograd/profiler.py, record_function).
create view fill_operator_sums as
with added as (
  select cycle, name, step, count(*) as calls, within(sum(duration_ns)) as total_ns, within(sum(self_ns)) as self_ns,
    count(*) filter (start_ns = 0 and duration_ns = 0) as unfilled, min(start_ns) as first_ns, arg_min(row, start_ns) as first_place
  from executions where counts
  group by cycle, name, step)
select cycle, name as operator, name, step, null::integer as shapes, added.* exclude (cycle, name, step)
from added
where not (step is null and cycle in (select distinct cycle from steps)
  and name in (select number from words where text in ('aten::zeros', 'aten::empty', 'aten::zero_')))
order by cycle, step nulls first, first_ns nulls first, first_place nulls first, name;

-- How often operators ran with which inputs in the window, as the trace has these.
create view input_sums as
select cycle, name, word(name) as operator, word(input_shapes) as dims, word(input_types) as types, calls
from (
  select cycle, name, input_shapes, input_types, count(*) as calls
  from executions
  where counts and input_shapes is not null and (step is not null or cycle not in (select distinct cycle from steps))
  group by all);

-- What calls do, by their names in CUDA's runtime and driver API (13.0) and in HIP's (7.0), and how often in which step; the others
-- have no kind.
create view call_sums as
with kinds as (
  select number,
    case
      when regexp_matches(text, 'LaunchKernel|LaunchCooperativeKernel|ModuleLaunchKernel|GraphLaunch') then 'launches'
      when regexp_matches(text, 'Mem(cpy|set)') then 'copies'
      when regexp_matches(text, 'Synchronize') then 'synchronisations'
    end as kind
  from words)
select launches.cycle, kind, if(steps.end_ns >= launches.start_ns, launches.step, null) as inside, count(*) as calls
from launches
join kinds on kinds.number = launches.name
left join steps on steps.cycle = launches.cycle and steps.step = launches.step
group by all;

-- Python functions that torch traces.
create view python_functions as
select spans.cycle, spans.row, name, thread, start_ns, start_ns + duration_ns as end_ns, event_index, python_id, parent_id, module_id
from spans join python_calls using (cycle, row);

-- Operators that autograd numbers.
create view autograd_operators as
select operators.cycle, operators.row, name, thread, start_ns, sequence, coalesce(forward_thread, 0) > 0 as is_backward, forward_thread
from host_details join operators using (cycle, row)
where sequence is not null;

-- The ends of flows from forward to backward, and the numbers of autograd of the operators that begin there. Times are rounded to ns.
create view fill_connected_sequences as
select ends.cycle, ends.row, ends.id, ends.is_start, operators.sequence
from (select cycle, row, id, is_start, thread, time_ns, time_ns + unnest([-2, -1, 0, 1, 2]) as start_ns from forward_to_backward
  where id is not null and time_ns is not null) as ends
join autograd_operators as operators on operators.cycle = ends.cycle and operators.thread = ends.thread
  and operators.start_ns = ends.start_ns and operators.is_backward = not ends.is_start;
