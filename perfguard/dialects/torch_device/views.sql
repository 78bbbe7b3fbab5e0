-- What ran on a device according to a torch trace, and the calls of its runtime or driver that started it.

-- Kernels, copies and fills on a device. Categories of torch 1.8 to 1.11 are Kernel, Memcpy and Memset.
create view device_work as
select *, category in (number_of('kernel'), number_of('Kernel')) as is_kernel
from spans
where category in (number_of('kernel'), number_of('gpu_memcpy'), number_of('gpu_memset'),
    number_of('Kernel'), number_of('Memcpy'), number_of('Memset'));

-- Calls of a runtime or driver. `kind`: what one is sure to do, by its name in CUDA's runtime and driver API (13.0) and in HIP's (7.0);
-- null for others. A fill of no bytes leaves nothing on the device, and a graph of HIP has no kernels with its number. `may_overlap`:
-- its kernel may begin before the one in front of it has ended (programmatic dependent launch), or it starts several.
create view device_calls as
select spans.*, kinds.kind, kinds.may_overlap
from spans
left join (
  select number,
    case
      when regexp_matches(text, '^(cuda|cu|hip)[A-Za-z]*Launch(Cooperative)?Kernel') then 'launch'
      when regexp_matches(text, '^(cuda|cu)GraphLaunch') then 'launch'
      when regexp_matches(text, '^(cuda|hip)Memcpy') then 'copy'
      when regexp_matches(text, '^(cuda|hip)DeviceSynchronize|^cuCtxSynchronize') then 'synchronise'
      when regexp_matches(text, 'StreamBeginCapture') then 'begin capture'
      when regexp_matches(text, 'StreamEndCapture') then 'end capture'
    end as kind,
    regexp_matches(text, 'LaunchKernelEx|GraphLaunch') as may_overlap
  from words where starts_with(text, 'cu') or starts_with(text, 'hip')) as kinds on kinds.number = spans.name
where category in (select number from words where regexp_matches(text, '_(runtime|driver)$') or text = 'Runtime');

-- Work that a graph launched. torch.cuda._annotate_cuda_graph_trace (2.13) and export_chrome_trace(graph_lanes=) draw it on other
-- streams, and may leave its flows and annotations where they were.
create view graph_work as
select work.cycle, work.row, work.correlation, work.start_ns, work.duration_ns
from device_work as work
where (work.cycle, work.correlation) in (
  select (cycle, correlation) from device_calls
  where name in (select number from words where contains(text, 'GraphLaunch')));

-- What is known of the devices of a cycle: how many ran something, when the host last began to wait for all of it and until when,
-- and whether they are CUDA's. torch waits for the device before the profiler stops (autograd/profiler.py, since 1.8); a trace taken
-- on demand from outside need not.
create view fill_device_facts as
select calls.cycle, coalesce(devices, 0) as devices, last_wait_ns, waited_ns, is_cuda
from (
  select cycle, max(start_ns) filter (kind = 'synchronise') as last_wait_ns,
    max(start_ns + duration_ns) filter (kind = 'synchronise') as waited_ns,
    coalesce(bool_or(name in (select number from words where starts_with(text, 'cu'))), false) as is_cuda
  from device_calls group by cycle) as calls
left join (
  select cycle, count(distinct threads.process) as devices
  from (select distinct cycle, thread from device_work) as used join threads on threads.number = used.thread
  group by cycle) as used on used.cycle = calls.cycle;

-- Flows between the host and a device. Their category was `async` in torch 1.8 to 1.11.
create view device_flows as
select * from flows where category in (number_of('ac2g'), number_of('async'));

-- Work of CUDA and ROCm with what Kineto writes of it, and the process and thread at which it is drawn.
create view detailed_work as
select work.cycle, work.row, work.name, work.category, work.correlation, work.duration_ns, work.is_kernel, details.* exclude (cycle, row),
  try_cast(threads.process as bigint) as process,
  try_cast(regexp_extract(threads.thread, '(-?[0-9]+) ?"?$', 1) as bigint) as lane
from device_work as work
join device_details as details on details.cycle = work.cycle and details.row = work.row
join threads on threads.number = work.thread
where work.cycle in (
  select cycle from device_calls
  where category in (number_of('cuda_runtime'), number_of('cuda_driver'), number_of('Runtime')));

-- Triples of numbers, as Kineto writes a grid and a block, and how many they are together.
create view extents as
select number, list_product(try_cast(text as double[])) as size from words
where regexp_full_match(text, '\[\s*[0-9]{1,18}\s*,\s*[0-9]{1,18}\s*,\s*[0-9]{1,18}\s*\]');

-- Cycles in which devices were recorded, by what ProfilerActivity.CPU alone leaves out: what runs there, its annotations, waits and
-- overhead, an end of a flow on a device, or the wait of the profiler itself. That is the only one for a device, or the second
-- behind the last launch, where the loop waits as well.
create view recorded_devices as
select cycle from spans
where category in (number_of('kernel'), number_of('gpu_memcpy'), number_of('gpu_memset'), number_of('Kernel'), number_of('Memcpy'),
    number_of('Memset'), number_of('gpu_user_annotation'), number_of('cuda_sync'), number_of('overhead'),
    number_of('cuda_profiler_range'))
union
select cycle from device_flows anti join device_calls using (cycle, thread) where not is_start
union
select cycle
from device_calls
left join (select cycle, max(start_ns) as last_ns from device_calls where kind = 'launch' group by cycle) as launches using (cycle)
where kind = 'synchronise'
group by cycle
having count(*) filter (start_ns > last_ns) >= if(count(*) = 1, 1, 2);
