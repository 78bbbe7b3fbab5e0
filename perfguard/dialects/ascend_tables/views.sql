-- Tables of an Ascend device: what several checks of them need.

-- Whether an average of `count` numbers is not that of their total (ns): three decimals of a us each. CANN since 8.3 cuts averages of
-- operators off, so they may be `below` digits too small.
create macro average_is_off(average, count, total, below) as
  average * count - total > 1 + 0.51 * count or average * count - total < -1 - below * 0.51 * count;

-- 0.002 MB: totals are binary fractions written in full, or rounded to three decimals.
create macro is_other_size(here, there) as abs(here - there) > 2098;

-- Types of operators by device and core, as op_statistic counts them and as kernel_details has them. Devices are distinguished where both
-- files name them. At level 0 every type is N/A, and there is nothing to compare.
create view fill_counted_operators as
with apart as (
  select cycle from (select distinct cycle from op_statistic where device_id is not null)
  semi join (select distinct cycle from kernel_kinds where device is not null) using (cycle)),
untyped as (
  select cycle from kernel_lines group by cycle
  having cycle not in (select cycle from kernel_kinds where type <> 'N/A')),
there as (
  select cycle, if(cycle in (from apart), device, null) as device, type, core, sum(rows) as rows, sum(total_us) as total_us,
    min(least_us) as least_us, max(most_us) as most_us, min(row) as place
  from kernel_kinds group by all),
here as (select *, if(cycle in (from apart), device_id::varchar, null) as device from op_statistic)
select coalesce(here.cycle, there.cycle) as cycle, here.row, coalesce(op_type, type) || ' on ' || coalesce(core_type, core) as operator,
  count, total_time_ns / 1000 as total_us, min_time_ns / 1000 as min_us, max_time_ns / 1000 as max_us,
  coalesce(rows, 0) as rows, there.total_us as sum_us, least_us, most_us, place
from here
full join there on there.cycle = here.cycle and there.device is not distinct from here.device and there.type = op_type
  and there.core = core_type
where coalesce(here.cycle, there.cycle) not in (from untyped);

-- Rows of memory_record that are of one allocator, with what PTA grew by since its row before; GE gives memory back before it takes
-- more, and writes one row for both.
create view fill_moments as
select distinct cycle, timestamp_ns as at_ns, total_allocated_bytes, total_reserved_bytes, total_active_bytes,
  case when component = 'PTA' then total_allocated_bytes - lag(total_allocated_bytes) over (
    partition by cycle, component, device_type order by row) end as grown_bytes
from memory_record where component not in ('PTA+GE', 'MindSpore+GE', 'APP');

-- Rows of memory_record whose time is before that of the row above of the same component and device.
create view fill_late_records as
select cycle, row, component, timestamp_ns, before_ns
from (select *, lag(timestamp_ns) over (partition by cycle, component, device_type order by row) as before_ns from memory_record)
where timestamp_ns < before_ns;

-- Sums of both allocators (PTA+GE, MindSpore+GE) in memory_record: the row above each, what the row above and the last one of the other
-- allocator add up to, and what was active at the last row of PTA. One pass over the rows, of which there may be millions.
create view fill_record_sums as
with ordered as (
  select cycle, file, row, component, timestamp_ns, total_allocated_bytes, total_reserved_bytes, total_active_bytes,
    component in ('PTA+GE', 'MindSpore+GE') as is_sum, component = 'GE' as is_ge,
    lag(component) over near as above, lag(timestamp_ns) over near as above_ns,
    not is_sum and not is_ge and coalesce(lead(component) over near in ('PTA+GE', 'MindSpore+GE'), false) as is_summed
  from memory_record window near as (partition by cycle, file order by row)),
added as (
  select *,
    arg_max(if(is_summed, total_allocated_bytes, null), row) over before as allocated,
    arg_max(if(is_ge, total_allocated_bytes, null), row) over before as allocated_of_ge,
    arg_max(if(is_summed, total_reserved_bytes, null), row) over before as reserved,
    arg_max(if(is_ge, total_reserved_bytes, null), row) over before as reserved_of_ge,
    arg_max(if(is_summed, total_active_bytes, null), row) over before as active_there
  from ordered window before as (partition by cycle, file order by row rows between unbounded preceding and current row))
select cycle, row, component, timestamp_ns, above, above_ns, total_allocated_bytes, total_reserved_bytes, total_active_bytes,
  coalesce(allocated, 0) + coalesce(allocated_of_ge, 0) as allocated_there,
  coalesce(reserved, 0) + coalesce(reserved_of_ge, 0) as reserved_there, active_there
from added where is_sum;

-- Allocations and releases of operator_memory, with the totals at that moment.
create view fill_block_ends as
select cycle, row, name, size_bytes, device_type, 'Allocation' as side, allocation_time_ns as at_ns,
  allocation_total_allocated_bytes as allocated_bytes, allocation_total_reserved_bytes as reserved_bytes,
  allocation_total_active_bytes as active_bytes
from operator_memory
union all
select cycle, row, name, size_bytes, device_type, 'Release', release_time_ns, release_total_allocated_bytes, release_total_reserved_bytes,
  release_total_active_bytes
from operator_memory;

-- What memory_record says the totals are at a time.
create view recorded_totals as
select distinct cycle, timestamp_ns as at_ns, device_type, total_allocated_bytes as there, total_reserved_bytes as kept
from memory_record where component <> 'PTA+GE' and total_allocated_bytes is not null and total_reserved_bytes is not null;

-- Rows of a table whose time has at most a hundred: each block of a time is compared with each of them.
create macro of_a_moment(rows) as table
from query_table(rows)
semi join (select cycle, at_ns from query_table(rows) group by all having count(*) <= 100) using (cycle, at_ns);

-- Those of a moment that memory_record has, and by how much their totals and sizes are off there at the least.
create view fill_recorded_ends as
select ends.cycle, ends.side, ends.row, any_value(name) as name, any_value(size_bytes) as size_bytes,
  arg_min(grown_bytes, abs(grown_bytes - size_bytes)) as grown_bytes,
  min(abs(allocated_bytes - total_allocated_bytes)) as allocated_off, min(abs(reserved_bytes - total_reserved_bytes)) as reserved_off,
  min(abs(active_bytes - total_active_bytes)) as active_off,
  any_value(allocated_bytes) as allocated_bytes, any_value(reserved_bytes) as reserved_bytes, any_value(active_bytes) as active_bytes
from block_ends as ends
join of_a_moment('moments') as moments
  on moments.cycle = ends.cycle and moments.at_ns = ends.at_ns
group by ends.cycle, ends.side, ends.row;

-- Sides of which memory_record has at least one in five, so that the two files are held against each other. `is_joined`: nine in ten
-- agree on some total.
create view fill_recorded_sides as
with known as (
  select cycle, side, count(at_ns) as rows, max(at_ns) as last_ns from block_ends group by all),
met as (
  select cycle, side, count(*) as met, count(*) filter (allocated_off > 2098) as allocated, count(*) filter (reserved_off > 2098) as reserved,
    count(*) filter (active_off > 2098) as active, count(active_off) as active_known,
    count(*) filter (grown_bytes > 0) as grown, count(*) filter (grown_bytes > 0 and abs(grown_bytes - size_bytes) > 10) as wrong,
    list(size_bytes / grown_bytes) filter (grown_bytes > 0 and size_bytes > 0) as factors,
    median(size_bytes / grown_bytes) filter (grown_bytes > 0 and size_bytes > 0) as usual
  from recorded_ends group by cycle, side)
select cycle, side, rows, met, allocated <= 0.1 * met or reserved <= 0.1 * met or (active_known > 0 and active <= 0.1 * met) as is_joined,
  grown, wrong, usual, is_another_unit(factors, usual) as has_other_unit
from known join met using (cycle, side)
where met >= rows / 5;

-- Operators of the host by name: rows of operator_details, and events of the trace, steps excepted. Where both files have some.
create view fill_detailed_operators as
with listed as (
  select cycle, name, count(*) as here, within(sum(host_total_duration_ns)) as ns from operator_details
  where host_total_duration_ns is not null group by cycle, name)
select coalesce(listed.cycle, drawn.cycle) as cycle, coalesce(listed.name, drawn.name) as name, coalesce(here, 0) as here,
  coalesce(count, 0) as there, coalesce(ns, 0) as here_ns, coalesce(lasts, 0) as there_ns
from listed full join host_operator_sums as drawn on drawn.cycle = listed.cycle and drawn.name = listed.name
qualify count(here) over (partition by coalesce(listed.cycle, drawn.cycle)) > 0
  and count(count) over (partition by coalesce(listed.cycle, drawn.cycle)) > 0;

-- Calls of CANN by name: api_statistic, and events of the trace. Where both files have some, and at least nine names in ten as many.
create view fill_drawn_calls as
with listed as (
  select cycle, api_name as name, within(sum(count)) as here, within(sum(time_ns)) as ns from api_statistic group by cycle, api_name)
select coalesce(listed.cycle, drawn.cycle) as cycle, coalesce(listed.name, drawn.name) as name, coalesce(here, 0) as here,
  coalesce(count, 0) as there, coalesce(ns, 0) as here_ns, coalesce(lasts, 0) as there_ns, least_drawn, most_drawn, spread_drawn
from listed full join cann_sums as drawn on drawn.cycle = listed.cycle and drawn.name = listed.name
qualify count(here) over (partition by coalesce(listed.cycle, drawn.cycle)) > 0
  and count(count) over (partition by coalesce(listed.cycle, drawn.cycle)) > 0
  and count(*) filter (coalesce(here, 0) <> coalesce(count, 0)) over (partition by coalesce(listed.cycle, drawn.cycle))
    <= 0.1 * count(*) over (partition by coalesce(listed.cycle, drawn.cycle));

-- Operations of communication.json by name, without the group of ranks, with the kernels of the name: those that either file has.
create view fill_communication_kernels as
with here as (
  select cycle, regexp_replace(name, '@.*$', '') as name, count(*) as calls, any_value(file) as file, any_value(row) as row,
    any_value(path) as path, max(start_timestamp_ns) as start_ns
  from communication_operations where name <> 'Total Op Info' group by all)
select coalesce(here.cycle, there.cycle) as cycle, coalesce(here.name, there.name) as name, coalesce(here.calls, 0) as here,
  coalesce(there.calls, 0) as there, coalesce(outside, 0) as outside, file, row, path, here.start_ns as start_ns,
  there.start_ns as kernel_ns
from here full join kernel_collectives as there on there.cycle = here.cycle and there.name = here.name;

-- How many of them there are, and how many have the same name.
create view communication_counts as
select cycle, sum(here) as here, sum(there) as there, sum(least(here, there)) as common from communication_kernels group by cycle;

-- Steps that files name. The first file of `place` says which the others must have. One that names no step is not here: no schedule
-- was set, or the level is 0. MindSpore has step0 in communication.json where it does not tell steps apart, even if it does so
-- elsewhere (a whole graph on the device).
create view fill_named_steps as
with listed as (
  select cycle, regexp_replace(step, '^step', '') as label from communication_steps)
select distinct cycle, place, slot, name, known(step) as step
from (
  select cycle, 0 as place, 'trace_view' as slot, 'trace_view.json' as name, step_number(label) as step from view_step_marks
  union all
  select cycle, 1, 'step_trace_time', 'step_trace_time.csv', step from step_trace_time
  union all
  select cycle, 2, 'kernel_details', 'kernel_details.csv', step from kernel_lines
  union all
  select cycle, 3, 'communication', 'communication.json', step_number(label)
  from listed
  where cycle in (
    select cycle from cycles where layout = 'pt-npu' union all select cycle from listed where step_number(label) <> 0))
where known(step) is not null;

-- Files that name other steps than the first that names any. A step that only the first one has may have run nothing on the device;
-- communication names some steps only.
create view fill_odd_steps as
with files_of as (
  select cycle, place, slot, any_value(name) as name, count(*) as count, some_of(list(step order by step)) as steps
  from named_steps group by cycle, place, slot),
first_of as (select * from files_of qualify place = min(place) over (partition by cycle)),
common as (
  select here.cycle, here.slot, count(*) as count
  from named_steps as here
  join (from named_steps semi join first_of using (cycle, slot)) as there using (cycle, step)
  group by all)
select here.cycle, here.slot, here.steps, first_of.name, first_of.steps as expected,
  here.count > coalesce(common.count, 0) or requested_steps is not null as is_wrong
from files_of as here
join first_of using (cycle)
join cycles using (cycle)
left join common on common.cycle = here.cycle and common.slot = here.slot
where here.count > coalesce(common.count, 0)
  or (here.slot <> 'communication' and first_of.count > coalesce(common.count, 0));

-- The first and the last time in files.
create view fill_file_times as
select cycle, slot, first_ns::hugeint as first_ns, last_ns::hugeint as last_ns
from (
  select cycle, 'kernel_details' as slot, min(start_ns) as first_ns, max(start_ns) as last_ns from kernel_lines group by cycle
  union all
  select cycle, 'memory_record', min(timestamp_ns), max(timestamp_ns) from memory_record group by cycle
  union all
  select cycle, 'operator_memory', min(allocation_time_ns), max(allocation_time_ns) from operator_memory group by cycle
  union all
  select cycle, 'npu_module_mem', min(timestamp_ns), max(timestamp_ns) from npu_module_mem group by cycle
  union all
  select cycle, 'communication', min(start_timestamp_ns), max(start_timestamp_ns) from communication_operations group by cycle
  union all
  select cycle, 'trace_view', first_ns, last_ns from ranges)
where first_ns is not null;

-- Files whose times reach more than ten seconds beyond those that were profiled, as profiler_info says them: the end in UNIX ns,
-- start and end on a monotonic clock. Both are read from clocks that drift apart with the machine's age: 28 s in 19 days on real output
-- of torch_npu 2.10, and quartzes are off by up to one part in 10 000. Without them the kernels tell; a file may begin long before the first one (a graph is
-- compiled first) and end long after the last, so only one that is wholly apart is of another run.
create view fill_foreign_files as
with listed as (
  select cycle, collection_time_end_ns - (stop_ns - begin_ns) - begin_ns // 10000 as first_ns,
    collection_time_end_ns + begin_ns // 10000 as last_ns
  from (
    select *, monotonic_time_end_ns::hugeint as stop_ns, start_monotonic_ns::hugeint as begin_ns from profiler_info_run)
  where stop_ns >= begin_ns and collection_time_end_ns is not null),
run as (
  select listed.*, true as is_stated, name
  from listed join files using (cycle) where slot = 'profiler_info' and file = 0
  union all
  select cycle, first_ns, last_ns, false, 'kernel_details.csv'
  from file_times where slot = 'kernel_details' and cycle not in (select cycle from listed))
select cycle, slot, is_stated, name,
  if(is_stated, greatest(run.first_ns - times.first_ns, times.last_ns - run.last_ns),
    greatest(run.first_ns - times.last_ns, times.first_ns - run.last_ns)) as apart_ns
from file_times as times join run using (cycle)
where apart_ns > 10000000000;

-- Times of steps in step_trace_time, added up, by device where the lanes of the trace name all of its devices. `steps`: how many there
-- are of a device. Not of a cycle without any lane.
create view fill_added_steps as
with unmet as (
  select step_trace_time.cycle from step_trace_time
  left join lane_sums on lane_sums.cycle = step_trace_time.cycle and lane_sums.device = device_id::varchar
  where lane_sums.cycle is null)
select cycle, device, max(of_device) as steps, count(*) as rows, coalesce(sum(computing_ns), 0) as computing_ns,
  coalesce(sum(communication_ns), 0) as communication_ns, coalesce(sum(communication_not_overlapped_ns), 0) as exposed_ns,
  coalesce(sum(free_ns), 0) as free_ns
from (
  select *, if(cycle in (from unmet), null, device_id::varchar) as device, count(*) over (partition by cycle, device_id) as of_device
  from step_trace_time)
where cycle in (select cycle from lane_sums)
group by cycle, device;

-- Cycles whose step_trace_time leaves out what is in no step, though there is only one: MindSpore where steps are marked. Kernels of a
-- graph (torchair) belong to no step, and torch_npu leaves out what ran before the first one that does.
create view cut_steps as
select cycle from cycles where layout <> 'pt-npu' and cycle in (select cycle from named_steps where slot = 'trace_view')
union all
select cycle from cycles
where layout = 'pt-npu' and cycle in (select cycle from named_steps where slot = 'step_trace_time')
  and cycle in (select cycle from kernel_lines where step_text in (select number from words where trim(text) = ''));

-- What components have allocated; of several files of a cycle the last one counts.
create view memory_components as
select cycle, row, component as device, timestamp_ns as time_ns, total_allocated_bytes as level from memory_record
where (cycle, file) in (select (cycle, max(file)) from memory_record group by cycle);

create view memory_levels as from levels_of('memory_components');

-- Functions of CANN that the trace draws, with their level (`level@name`), and whether api_statistic lists them; of cycles in which it counts
-- nine in ten of those it lists as often as the trace does.
create view fill_named_calls as
with drawn as (
  select distinct view_spans.cycle, split_part(word(view_spans.name), '@', 1) as level, regexp_extract(word(view_spans.name), '[^@]*$') as name
  from view_spans join lanes using (cycle, thread)
  where lanes.name = number_of('CANN') and contains(word(view_spans.name), '@')),
listed as (select cycle, api_name as name, within(sum(count)) as calls from api_statistic group by cycle, api_name),
alike as (
  select listed.cycle
  from listed join cann_sums as sums on sums.cycle = listed.cycle and sums.name = listed.name
  group by listed.cycle having count(*) >= 5 and count(*) filter (calls = count) >= 0.9 * count(*))
select drawn.cycle, level, drawn.name, listed.name is not null as is_listed
from drawn left join listed on listed.cycle = drawn.cycle and listed.name = drawn.name
where drawn.cycle in (select cycle from alike);
