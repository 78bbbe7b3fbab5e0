-- What the events of a torch trace are, and what they add up to. Categories of torch 1.8 to 1.11 are Operator, Kernel, Memcpy, Memset
-- and Runtime (real output of 1.8).

-- Operators of the host. Categories of torch 1.12 and later.
create view trace_operators as
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
create view runtime_calls as
select * exclude (is_call, mark), max(mark) over (
  partition by cycle order by start_ns, is_call rows unbounded preceding) as step
from (
  select cycle, row, name, category, thread, start_ns, duration_ns, correlation, external_id, true as is_call, null::integer as mark from spans
  where category in (select number from words where regexp_matches(text, '_(runtime|driver)$') or text = 'Runtime')
  union all
  select cycle, null, null, null, null, start_ns, null, null, null, false, step from steps)
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
placed as (
  select *, row_number() over (partition by cycle, device_type, device_number order by time_ns, number, row) as place
  from events where cycle in (select distinct cycle from doubtful)),
reported as (
  select events.cycle, events.row, bytes, doubtful.row is not null as is_doubtful,
    arg_max(if(is_mapped or is_doubtful, null, total_bytes), place) over (
      partition by events.cycle, device_type, device_number order by place rows between unbounded preceding and 1 preceding) as account
  from placed as events left join doubtful using (cycle, row)),
unmapped as (select cycle, row from reported where is_doubtful and coalesce(account + bytes <> 0, true))
select * from events anti join unmapped using (cycle, row)
where not is_mapped;

-- A type of c10::DeviceType and the number of a device: cpu, cuda:0, hip:0.
create macro device_name(type, number) as
  case type when 0 then 'cpu' when 1 then 'cuda' when 6 then 'hip' else 'device' || type end
    || if(coalesce(number, -1) < 0, '', ':' || number);

-- The level of each device's memory (`cpu`, `cuda:0`, `hip:0`; of other types c10::DeviceType) after its events, and before. Ev Idx numbers the
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
    device_name(device_type, device_number) as device
  from own_memory_events anti join earlier using (cycle, row) where device_type is not null)
select cycle, device, place, time_ns, level, within(level::hugeint - bytes) as before
from (select *, within(sum(bytes) over (partition by cycle, device order by place rows unbounded preceding)) as level from events);

-- Executions added up by operator and step, in the order of the steps and first calls. torch 1.12 keeps the handle of a step's mark in
-- a tensor, which it makes between steps (autograd/profiler.py, record_function).
create view fill_operator_sums as
with added as (
  select cycle, name, step, coalesce(on_device, false) as on_device, count(*) as calls, within(sum(duration_ns)) as total_ns,
    within(sum(self_ns)) as self_ns, count(*) filter (start_ns = 0 and duration_ns = 0) as unfilled, min(start_ns) as first_ns,
    arg_min(row, start_ns) as first_place
  from executions where counts
  group by all)
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

-- What calls do, by their names in CUDA's runtime and driver API (13.0), in HIP's (7.0) and in SYCL's and Level Zero's (urEnqueueKernelLaunch);
-- the others have no kind. `waits`: the host goes on when the device has done it. torch copies to the host by hipMemcpyWithStream on
-- ROCm, which waits by itself (c10/cuda/CUDAFunctions.h, memcpy_and_sync).
create view call_kinds as
select number,
  case
    when regexp_matches(text, 'GraphAdd') then null
    when regexp_matches(text, 'GraphLaunch') then 'graph'
    when regexp_matches(text, 'LaunchKernel|LaunchCooperativeKernel|KernelLaunch') then 'kernel'
    when regexp_matches(text, 'Memcpy') then 'copy'
    when regexp_matches(text, 'Memset') then 'set'
    when regexp_matches(text, 'Synchronize|QueueFinish$|EventWait$') then 'synchronise'
  end as kind,
  regexp_matches(text, '^(cuda|cu|hip|ze)\w*Synchronize|^ur(QueueFinish|EventWait)$')
    or regexp_matches(text, '^(cuda|hip|cu)Memcpy') and not regexp_matches(text, 'Async|Batch|Peer|Symbol') as waits
from words;

-- Python functions that torch traces.
create view python_functions as
select spans.cycle, spans.row, name, thread, start_ns, start_ns + duration_ns as end_ns, event_index, python_id, parent_id, module_id
from spans join python_calls using (cycle, row);

-- Operators that autograd numbers.
create view autograd_operators as
select trace_operators.cycle, trace_operators.row, name, thread, start_ns, sequence, coalesce(forward_thread, 0) > 0 as is_backward, forward_thread
from host_details join trace_operators using (cycle, row)
where sequence is not null;

-- The ends of flows from forward to backward, and the numbers of autograd of the operators that begin there. Times are rounded to ns.
create view fill_connected_sequences as
select ends.cycle, ends.row, ends.id, ends.is_start, operators.sequence
from (select cycle, row, id, is_start, thread, time_ns, time_ns + unnest([-2, -1, 0, 1, 2]) as start_ns from forward_to_backward
  where id is not null and time_ns is not null) as ends
join autograd_operators as operators on operators.cycle = ends.cycle and operators.thread = ends.thread
  and operators.start_ns = ends.start_ns and operators.is_backward = not ends.is_start;

-- The names of devices: torch's `cuda:0` is hip:0 where calls of HIP are in the trace.
create view device_families as
select cycle,
  case when bool_or(name in (select number from words where starts_with(text, 'hip'))) then 'hip'
    when bool_or(name in (select number from words where starts_with(text, 'cu'))) then 'cuda' else 'device' end as family
from runtime_calls group by cycle;

-- Operators by the External id that Kineto writes to what they called and launched; of traces in which it is theirs: those of torch
-- 1.12 to 2.0 at hand have ids at calls that are of other operators, or of none.
create view fill_operators_by_id as
with ids as (
  select cycle, external_id, if(count(distinct name) = 1, any_value(name), null) as name, count(*) as operators, any_value(thread) as thread,
    any_value(start_ns) as start_ns, any_value(duration_ns) as duration_ns
  from trace_operators where known(external_id) > 0 group by cycle, external_id),
wrong as (
  select distinct calls.cycle
  from runtime_calls as calls join ids using (cycle, external_id)
  where operators = 1 and (ids.thread <> calls.thread or bounded(calls.start_ns) not between ids.start_ns and ids.start_ns + ids.duration_ns))
select cycle, external_id, name from ids where cycle not in (from wrong);

create view operators_in_traces as
select executions.cycle, executions.row, executions.step, words.text as name, words.text as type, 1::bigint as calls, nesting.thread,
  if((executions.cycle, nesting.parent) in (select (cycle, row) from step_marks), null, nesting.parent) as parent, word(executions.input_shapes) as input_shapes, word(executions.input_types) as input_types, executions.start_ns,
  executions.duration_ns, executions.self_ns
from executions
join words on words.number = executions.name
left join nesting using (cycle, row)
where not coalesce(on_device, false);

-- Calls of the runtime or driver with the step that they are inside of, and what they do. `is_inside`: a call of the driver inside of one
-- of the runtime that does the same: SYCL's launches by Level Zero's, CUDA's may by its own, and both are drawn. Of a copy within a device
-- CUDA does not make the host wait (Runtime API, "API synchronization behavior", 9.2 to 13.0).
create view calls_in_steps as
with kinds as (
  select calls.*, kind, coalesce(waits, false) and within_device.correlation is null as waits,
    calls.category in (select number from words where ends_with(text, '_driver')) as is_of_driver
  from runtime_calls as calls
  left join call_kinds on call_kinds.number = calls.name
  left join (
    select distinct cycle, correlation from spans
    where correlation is not null and category in (number_of('gpu_memcpy'), number_of('Memcpy'))
      and name in (select number from words where starts_with(text, 'Memcpy DtoD'))) as within_device
    on within_device.cycle = calls.cycle and within_device.correlation = calls.correlation and kind = 'copy')
select kinds.* exclude (step, is_of_driver), if(steps.end_ns >= kinds.start_ns, kinds.step, null) as step,
  is_of_driver and kind is not null and coalesce(max(if(is_of_driver, null, bounded(kinds.start_ns) + bounded(duration_ns))) over (
    partition by kinds.cycle, kinds.thread, kind order by kinds.start_ns, is_of_driver, kinds.row
    rows between unbounded preceding and 1 preceding) > kinds.start_ns, false) as is_inside
from kinds left join steps on steps.cycle = kinds.cycle and steps.step = kinds.step;

create view launches_in_traces as
select calls.cycle, calls.row, step, words.text as name, coalesce(kind, 'other') as kind, thread, word(operators_by_id.name) as operator,
  start_ns, duration_ns, correlation
from calls_in_steps as calls
join words on words.number = calls.name
left join operators_by_id on operators_by_id.cycle = calls.cycle and operators_by_id.external_id = calls.external_id;

-- Reads of a value by the host, the outermost of those in each other. Operators with torch's tags data_dependent_output or
-- dynamic_output_shape (native_functions.yaml, 2.13), but for index (with a mask it calls nonzero), repeat_interleave (it reads by item),
-- one_hot (which reads on a CPU to check) and what reads from the host (_ctc_loss, linalg_lstsq). Some operators read on a CPU alone: a
-- number that is put or filled in, and the range of quantile; so do the optimizers of torch whose counter of steps is on the host
-- (optim, _get_value).
create view fill_host_reads as
with named as (
  select number, regexp_full_match(text, 'aten::(index_put_?|_index_put_impl_|masked_fill_?|quantile|nanquantile)') as is_shell,
    text in ('aten::item', 'aten::_local_scalar_dense', 'aten::is_nonzero', 'aten::equal') as is_of_a_value
  from words
  where is_shell or regexp_full_match(text, 'aten::(item|_local_scalar_dense|is_nonzero|nonzero|argwhere|equal|allclose|'
    'masked_select|_unique2?|unique_consecutive|unique_dim(_consecutive)?|bincount)')),
reads as (
  select ran.cycle, ran.row, ran.step, ran.name, thread, ran.start_ns, ran.start_ns + ran.duration_ns as end_ns, is_shell, is_of_a_value
  from executions as ran join nesting using (cycle, row) join named on named.number = ran.name
  where counts and not coalesce(on_device, false)),
placed as (
  select *, coalesce(max(if(is_shell, null, end_ns)) over before, end_ns - 1) < end_ns as is_outermost,
    coalesce(max(if(is_shell, end_ns, null)) over before, end_ns - 1) >= end_ns as is_in_a_shell
  from reads
  window before as (partition by cycle, thread order by start_ns, end_ns desc, row rows between unbounded preceding and 1 preceding)),
optimizers as (
  select cycle, thread, start_ns, start_ns + duration_ns as end_ns from spans
  where category in (number_of('user_annotation'), number_of('cpu_op'), number_of('Operator'))
    and name in (
      select number from words
      where regexp_full_match(text, 'Optimizer\.step#(Adagrad|Adam|AdamW|Adamax|ASGD|NAdam|RAdam)\.step'))),
begun as (
  select * exclude (optimizer_end_ns), coalesce(max(optimizer_end_ns) over (
    partition by cycle, thread order by start_ns rows unbounded preceding) >= end_ns, false) as is_of_an_optimizer
  from (
    select cycle, row, step, name, thread, start_ns, end_ns, null as optimizer_end_ns
    from placed where is_outermost and not is_shell and not (is_in_a_shell and is_of_a_value)
    union all
    select cycle, null, null, null, thread, start_ns, end_ns, end_ns from optimizers))
select cycle, row, step, name, thread, start_ns from begun where row is not null and not is_of_an_optimizer;

-- Where a step waits for a device, or would: calls that wait where calls were recorded, else reads of the host. `name` is the
-- innermost operator around a call, or the call itself: the last one that began before it, or the first above that one that still runs.
create view fill_waits as
with recursive called as (select distinct cycle from calls_in_steps where kind is not null),
calls as (select * from calls_in_steps where (kind = 'synchronise' or waits) and not is_inside),
begun as (
  select * from (
    select cycle, thread, row, is_call, start_ns,
      max(if(is_call, null, (start_ns, -duration_ns, row))) over (
        partition by cycle, thread order by start_ns, is_call rows unbounded preceding) as last
    from (
      select cycle, thread, row, true as is_call, start_ns, 0 as duration_ns from calls
      union all
      select cycle, thread, row, false, start_ns, duration_ns from nesting
      where category in (number_of('cpu_op'), number_of('Operator')) and (cycle, thread) in (select (cycle, thread) from calls)))
  where is_call),
above as (
  select cycle, row, start_ns, last[3] as operator from begun where last is not null
  union all
  select above.cycle, above.row, above.start_ns, parent
  from above join nesting on nesting.cycle = above.cycle and nesting.row = above.operator
  where parent is not null
    and (nesting.start_ns + nesting.duration_ns < above.start_ns or category not in (number_of('cpu_op'), number_of('Operator')))),
around as (
  select above.cycle, above.row, nesting.name
  from above join nesting on nesting.cycle = above.cycle and nesting.row = above.operator
  where nesting.start_ns + nesting.duration_ns >= above.start_ns and category in (number_of('cpu_op'), number_of('Operator'))
    and nesting.name not in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+')))
select calls.cycle, step, coalesce(around.name, calls.name) as name, thread, start_ns from calls left join around using (cycle, row)
union all
select cycle, step, name, thread, start_ns from host_reads where cycle not in (from called);

-- Functions of Python in which a step waits: the innermost around it that are not torch's own, of the first hundred waits of an operator.
create view waiting_functions as
select waits.cycle, waits.step, waits.name, arg_max(functions.name, functions.start_ns) as function
from (select * from waits qualify row_number() over (partition by cycle, name order by start_ns) <= 100) as waits
join python_functions as functions
  on functions.cycle = waits.cycle and functions.thread = waits.thread
  and functions.start_ns <= waits.start_ns and functions.end_ns >= waits.start_ns
where functions.name in (
  select number from words
  where regexp_matches(text, '\.py\([0-9]+\): ') and not regexp_matches(text, '(^|(site|dist)-packages[/\\])torch[/\\]'))
group by waits.cycle, waits.step, waits.name, waits.start_ns, waits.thread;

-- What ran on devices one by one.
create view device_runs as
select ran.cycle, ran.row, ran.step, counts, ran.name,
  case when spans.category in (number_of('gpu_memcpy'), number_of('Memcpy')) then 'copy'
    when spans.category in (number_of('gpu_memset'), number_of('Memset')) then 'set'
    when is_collective then 'communication' else 'compute' end as kind,
  coalesce(family, 'device') || ':' || device as device, stream, ran.start_ns, ran.duration_ns, copied_bytes as bytes,
  spans.correlation, spans.external_id
from executions as ran
join spans using (cycle, row)
left join device_details using (cycle, row)
left join device_families on device_families.cycle = ran.cycle
where on_device;

create view kernels_in_traces as
select runs.* exclude (name), words.text as name, words.text as type, word(operators_by_id.name) as operator, 1::bigint as calls
from device_runs as runs
join words on words.number = runs.name
left join operators_by_id on operators_by_id.cycle = runs.cycle and operators_by_id.external_id = runs.external_id;

create view collectives_in_traces as
select ran.cycle, ran.row, ran.step, coalesce(word(collective) ->> '$', ran.name) as name, word(dtype) ->> '$' as type, group_size as size,
  in_elements * size_of_type(word(dtype) ->> '$') as bytes, device, start_ns, duration_ns
from kernels_in_traces as ran left join collective_details using (cycle, row)
where kind = 'communication';

-- What ran on devices in the window.
create view fill_device_work_inside as
select cycle, step, name, kind, device, start_ns, duration_ns, bytes, group_size
from device_runs join windows using (cycle) left join collective_details using (cycle, row)
where counts and (step is not null or not by_step);

-- The steps in which calls and copies are counted: the window is one where none is known.
create view counted_steps as
select cycle, step from steps union all select cycle, null from windows where cycle not in (select cycle from steps);

-- What ran on devices, and when the host asked for it: the begin of the call with its number.
create view fill_device_queue as
with calls as (
  select cycle, correlation, min(start_ns) as called_ns from runtime_calls where correlation is not null group by cycle, correlation)
select runs.cycle, device, stream, step, kind, start_ns, duration_ns, runs.correlation, called_ns
from device_runs as runs left join calls on calls.cycle = runs.cycle and calls.correlation = runs.correlation
where device is not null;

-- The first of what each call launched on a device: a graph is one call of many kernels.
create view device_calls_answered as
select cycle, device, min(step) as step, min(start_ns) as start_ns, any_value(called_ns) as called_ns
from device_queue where called_ns is not null
group by cycle, device, correlation;

-- What a device does from one moment at which something begins or ends there, or a step does, to the next. `called_ns`: when the host
-- asked for what begins next; -1 where no call says it, null where nothing follows. `waits_for`: what was asked for while another stream
-- worked waits for that, a collective or other work; on its own stream, and of what was asked for later, it begins as fast as the device
-- can. `edge`: twice the step that began last, and one more behind its end.
create view fill_device_states as
with runs as (select * from device_queue where duration_ns > 0),
marks as (
  select cycle, unnest([start_ns, end_ns]) as at_ns, unnest([2 * step, 2 * step + 1])::bigint as edge from steps where end_ns is not null),
edges as (
  select cycle, device, kind, unnest([start_ns, start_ns::hugeint + duration_ns])::bigint as at_ns, unnest([1, -1]) as change,
    null::bigint as edge
  from runs
  union all
  select cycle, device, null, at_ns, 0, edge from marks join (select distinct cycle, device from runs) as used using (cycle)),
levels as (
  select cycle, device, at_ns, lead(at_ns) over before as next_ns, max(edge) over before as edge,
    max(if(change = -1, at_ns, null)) over before as ended_ns,
    sum(if(kind = 'compute', change, 0)) over before > 0 as computes,
    sum(if(kind = 'communication', change, 0)) over before > 0 as communicates,
    sum(if(kind in ('copy', 'set'), change, 0)) over before > 0 as copies
  from edges
  window before as (partition by cycle, device order by at_ns, change rows unbounded preceding)),
-- From behind, so that what begins next is the last that was seen.
behind as (
  select *, min(if(computes or communicates or copies, at_ns, null)) over (
    partition by cycle, device order by at_ns desc rows unbounded preceding) as begins_ns
  from levels where next_ns > at_ns),
asked as (
  select cycle, device, start_ns, min(coalesce(called_ns, -1)) as called_ns, list(distinct coalesce(stream, -1)) as streams
  from runs group by all),
ended as (
  select cycle, device, start_ns::hugeint + duration_ns as ended_ns, bool_or(kind = 'communication') as is_communication,
    list(distinct coalesce(stream, -1)) as streams
  from runs group by all)
select behind.* exclude (begins_ns, ended_ns), asked.called_ns,
  case when ended.streams is null or asked.called_ns >= behind.ended_ns or list_contains(ended.streams || asked.streams, -1)
      or list_has_any(ended.streams, asked.streams) then 'other'
    when is_communication then 'collective' else 'stream' end as waits_for
from behind
left join asked on asked.cycle = behind.cycle and asked.device = behind.device and asked.start_ns = begins_ns
  and not (computes or communicates or copies)
left join ended on ended.cycle = behind.cycle and ended.device = behind.device and ended.ended_ns = behind.ended_ns
  and not (computes or communicates or copies);

-- The parts of a device's time in each step, as the host marks it; in one that is the whole window where no step is known. Computing,
-- exposed communication (nothing else runs), exposed copying (nothing is computed) and idle add up to it. Idle is a wait for the host
-- until it asked for what ran next, then one for a stream or a collective that has ended, or other; unknown where a call is not there.
create view fill_device_parts as
with inside as (
  select cycle, device, if(edge is null, null, edge // 2) as step, called_ns, waits_for, computes, communicates, copies,
    not (computes or communicates or copies) as idles, at_ns as begin_ns, next_ns as stop_ns,
    greatest(begin_ns, least(coalesce(called_ns, stop_ns), stop_ns)) as asked_ns
  from device_states
  where edge % 2 = 0 or cycle not in (select cycle from steps))
select cycle, device, step, coalesce(sum(stop_ns - begin_ns) filter (computes), 0) as computing,
  coalesce(sum(stop_ns - begin_ns) filter (communicates), 0) as communication,
  coalesce(sum(stop_ns - begin_ns) filter (communicates and not computes and not copies), 0) as exposed_communication,
  coalesce(sum(stop_ns - begin_ns) filter (copies and not computes), 0) as exposed_copying,
  coalesce(sum(stop_ns - begin_ns) filter (idles), 0) as idle,
  bool_or(idles and called_ns = -1) as is_unknown,
  if(is_unknown, null, coalesce(sum(asked_ns - begin_ns) filter (idles), 0)) as idle_for_host,
  if(is_unknown, null, coalesce(sum(stop_ns - asked_ns) filter (idles and waits_for = 'stream'), 0)) as idle_for_stream,
  if(is_unknown, null, coalesce(sum(stop_ns - asked_ns) filter (idles and waits_for = 'collective'), 0)) as idle_for_collective,
  if(is_unknown, null, coalesce(sum(stop_ns - asked_ns) filter (idles and waits_for = 'other'), 0)) as idle_other
from inside
group by all;
