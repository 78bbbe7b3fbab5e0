-- What must hold in the CSV tables of an Ascend device and between them. Where a check names no other source, it is: real output of
-- torch_npu at levels 0, 1 and 2, eight directories, on which it holds with its tolerance.

-- check: op_statistic_counts_kernels
-- code: I101
-- needs: op_statistic, kernel_details
-- in: op_statistic
-- about: Count of op_statistic is how many rows of kernel_details have its type and core. Exact. Collectives are not in op_statistic.
-- message: {operator}: {count} here, {rows} kernels in kernel_details.csv
select cycle, row, operator, count, rows from counted_operators where row is not null and count <> rows

-- check: op_statistic_counts_kernels
-- about: A type of kernel_details has its row in op_statistic.
-- message: {operator}: not here, {rows} kernels in kernel_details.csv
select cycle, operator, rows from counted_operators where row is null

-- check: op_statistic_counts_kernels
-- code: I104
-- about: The total of op_statistic is the sum of its kernels.
-- tolerance: 0.01 us, and half of the third decimal of each kernel (0.007 us seen)
-- message: {operator}: total {total_us:.9g} us here, its kernels add up to {sum_us:.9g} us in kernel_details.csv
select cycle, row, operator, total_us, sum_us from counted_operators
where count = rows and abs(total_us - sum_us) > 0.01 + 0.0005 * rows

-- check: op_statistic_counts_kernels
-- code: I105
-- each: column, other, word = min_us, least_us, shortest; max_us, most_us, longest
-- about: Min and Max of op_statistic are its shortest and its longest kernel.
-- tolerance: 0.002 us
-- message: {operator}: {column} {here:g} here, its {word} kernel takes {there:g} us in kernel_details.csv
select cycle, row, operator, {column} as here, {other} as there from counted_operators
where count = rows and abs({column} - {other}) > 0.0021

-- check: {check}
-- code: I114
-- needs: {table}
-- in: {table}
-- each: check, table, keys, what = op_statistic_follows_from_itself, op_statistic, op_type || ' on ' || core_type, type and core;
--   api_statistic_follows_from_itself, api_statistic, level || ' ' || api_name, API and level
-- about: One row for each device and type of operator, or each API.
-- message: {subject} has a second row: one for each {what}
select cycle, row, subject
from (select *, {keys} as subject, row_number() over (partition by cycle, device_id, {keys} order by row) as number from {table})
where number > 1

-- check: {check}
-- code: I105
-- needs: {table}
-- in: {table}
-- each: check, table, subject, total, least, average, most, below =
--   op_statistic_follows_from_itself, op_statistic, op_type || ' on ' || core_type, total_time_ns, min_time_ns, avg_time_ns, max_time_ns, 2;
--   api_statistic_follows_from_itself, api_statistic, level || ' ' || api_name, time_ns, min_ns, avg_ns, max_ns, 1
-- about: Avg x Count = Total.
-- tolerance: half of the third decimal of Avg for each, 0.001 us more
-- message: {subject}: average {average_us:g} us x {count} is {product_us:.9g} us, the total says {total_us:.9g} us
select cycle, row, {subject} as subject, count, {average} / 1000 as average_us, {average} / 1000 * count as product_us,
  {total} / 1000 as total_us
from {table} where average_is_off({average}::double, count::double, {total}::double, {below})

-- check: {check}
-- code: I105
-- needs: {table}
-- in: {table}
-- each: check, table, subject, least, average, most =
--   op_statistic_follows_from_itself, op_statistic, op_type || ' on ' || core_type, min_time_ns, avg_time_ns, max_time_ns;
--   api_statistic_follows_from_itself, api_statistic, level || ' ' || api_name, min_ns, avg_ns, max_ns
-- about: Min <= Avg <= Max.
-- tolerance: 0.001 us
-- message: {subject}: average {average_us:g} us is not between min {least_us:g} us and max {most_us:g} us
select cycle, row, {subject} as subject, {average} / 1000 as average_us, {least} / 1000 as least_us, {most} / 1000 as most_us
from {table} where {average} < {least} - 1 or {average} > {most} + 1

-- check: op_statistic_follows_from_itself
-- code: I105
-- needs: op_statistic
-- in: op_statistic
-- about: Ratio(%) is the share of the total of all rows, or of those of its device.
-- tolerance: 0.0015 percent, three roundings
-- message: {operator}: ratio {ratio:g} %, its total is {share:.6g} % of the {own_us:.9g} us of all rows
select cycle, row, op_type || ' on ' || core_type as operator, ratio_percent as ratio, 100 * total / own as share, own / 1000 as own_us
from (
  select *, total_time_ns::double as total, sum(total) over (partition by cycle) as whole, sum(total) over (partition by cycle, device_id) as own
  from op_statistic)
where whole > 0 and least(abs(ratio_percent - 100 * total / whole), abs(ratio_percent - 100 * total / own)) > 0.0015

-- check: api_statistic_follows_from_itself
-- code: I105
-- needs: api_statistic
-- in: api_statistic
-- about: The variance of times between Min and Max is at most (Max - Avg)(Avg - Min). That of a sample divides by Count - 1, which makes
--   it larger by Count / (Count - 1).
-- tolerance: 0.001 us of each, 0.001 us^2
-- message: {subject}: variance {variance:g} us^2 is more than times between {least_us:g} and {most_us:g} us can have
select cycle, row, level || ' ' || api_name as subject, variance, min_ns / 1000 as least_us, max_ns / 1000 as most_us
from api_statistic
where variance > (max_ns / 1000 - avg_ns / 1000 + 0.001) * (avg_ns / 1000 - min_ns / 1000 + 0.001)
  * count / greatest(count - 1, 1) + 0.001

-- check: operators_contain_their_parts
-- code: I112
-- needs: operator_details
-- in: operator_details
-- each: part, whole = host_self_duration, host_total_duration; device_self_duration, device_total_duration;
--   device_self_duration_with_aicore, device_self_duration; device_total_duration_with_aicore, device_total_duration;
--   device_self_duration_with_aicore, device_total_duration_with_aicore
-- about: Self <= total, on host and device, and time with AI Core <= device time. torch_npu only: MindSpore's file has no times.
-- tolerance: 0.001 us
-- message: {name}: {part} is {part_us:.9g} us, more than {whole}, {whole_us:.9g} us
select cycle, row, name, {part}_ns / 1000 as part_us, {whole}_ns / 1000 as whole_us
from operator_details where {part}_ns > {whole}_ns + 1

-- check: memory_records_are_in_order
-- code: I106
-- needs: memory_record
-- in: memory_record
-- about: Times of memory_record do not go back, component by component and device by device. Exact. The samples of the whole process
--   (APP) are written apart from the allocator's.
-- message: {component} at {at_us:.3f} us comes {back_us:g} us before its previous row
select cycle, row, component, timestamp_ns / 1000 as at_us, (before_ns - timestamp_ns) / 1000 as back_us from late_records

-- check: module_memory_is_in_order
-- code: I106
-- needs: npu_module_mem
-- in: npu_module_mem
-- about: Times of npu_module_mem do not go back, component by component and device by device. Exact.
-- message: {component} at {at_us:.3f} us comes {back_us:g} us before its previous row
select cycle, row, component, timestamp_ns / 1000 as at_us, (before_ns - timestamp_ns) / 1000 as back_us
from (select *, lag(timestamp_ns) over (partition by cycle, component, device, device_id order by row) as before_ns from npu_module_mem)
where timestamp_ns < before_ns

-- check: allocated_fits_into_reserved
-- code: I107
-- needs: memory_record
-- in: memory_record
-- about: Total Allocated <= Total Reserved. APP has no allocated memory.
-- tolerance: 0.002 MB
-- message: {component}: {allocated} bytes are allocated, more than the {reserved} reserved
select cycle, row, component, total_allocated_bytes as allocated, total_reserved_bytes as reserved
from memory_record where total_allocated_bytes > total_reserved_bytes + 2098

-- check: combined_memory_is_the_sum
-- code: I107
-- needs: memory_record
-- in: memory_record
-- about: Each record of an allocator is followed by the sum of both (PTA+GE, MindSpore+GE), with the same time.
-- source: torch_npu: _memory_view_parser.py, on three real files; MindSpore 2.10: ascend_memory_viewer.py
-- message: {component} at {at_us:.3f} us does not follow the row it sums up: above is {above} at {above_us:.3f} us
select cycle, row, component, timestamp_ns / 1000 as at_us, coalesce(above, 'nothing') as above, coalesce(above_ns, 0) / 1000 as above_us
from record_sums where above_ns is distinct from timestamp_ns or above in ('PTA+GE', 'MindSpore+GE')

-- check: combined_memory_is_the_sum
-- each: kind = allocated; reserved
-- about: The sum is that of the row above it and of the last one of the other allocator. Not of Total Active, which GE does not know.
--   Newer versions interleave WORKSPACE in the same way: what a sum follows is an allocator.
-- tolerance: 0.002 MB
-- message: {component}: {here} bytes {kind}, the allocators above add up to {there}
select cycle, row, component, total_{kind}_bytes as here, {kind}_there as there
from record_sums where is_other_size(total_{kind}_bytes, {kind}_there)

-- check: blocks_live_as_long_as_they_say
-- code: I107
-- needs: operator_memory
-- in: operator_memory
-- each: kind = ; active_
-- about: Duration = Release - Allocation, Active Duration = Active Release - Allocation.
-- tolerance: 0.5 us (0.35 seen): old files print UNIX times as float64 with one decimal, durations are of the numbers before that
-- message: {name}: {kind}duration is {reported_us:.9g} us, from the allocation to the {kind}release it is {life_us:.9g} us
select cycle, row, name, {kind}duration_ns / 1000 as reported_us, ({kind}release_time_ns - allocation_time_ns) / 1000 as life_us
from operator_memory where abs({kind}duration_ns - ({kind}release_time_ns - allocation_time_ns)) > 500

-- check: blocks_live_as_long_as_they_say
-- each: kind = ; active_
-- about: A block that was never released has neither a time of it nor a duration (blank in torch_npu, N/A in MindSpore). MindSpore 2.3,
--   which names a device otherwise, has no times of releases.
-- message: {name}: of {kind}duration and {kind}release time one is missing
select cycle, row, name
from operator_memory
where device is null and ({kind}duration_ns is null) <> (({kind}release_time_ns - allocation_time_ns) is null)

-- check: blocks_live_as_long_as_they_say
-- code: I106
-- each: kind = ; active_
-- about: A block is released behind its allocation.
-- tolerance: 0.5 us
-- message: {name}: its {kind}release is {early_us:.9g} us before its allocation
select cycle, row, name, (allocation_time_ns - {kind}release_time_ns) / 1000 as early_us
from operator_memory where allocation_time_ns - {kind}release_time_ns > 500

-- check: blocks_are_of_whole_units
-- code: I107
-- layouts: pt-npu, ms-2.5+
-- needs: operator_memory
-- in: operator_memory
-- about: Size(KB) is a multiple of 0.5: the allocators hand out 512 bytes at a time. Exact.
-- message: {name}: {size_bytes} bytes are no multiple of 512
select cycle, row, name, size_bytes from operator_memory where size_bytes % 512 <> 0

-- check: blocks_fit_into_reserved
-- code: I107
-- needs: operator_memory
-- in: operator_memory
-- each: side = allocation; release
-- about: Total Allocated <= Total Reserved at the allocation and at the release of a block.
-- tolerance: 0.002 MB
-- message: {name}: {allocated} bytes are allocated at its {side}, more than the {reserved} reserved
select cycle, row, name, {side}_total_allocated_bytes as allocated, {side}_total_reserved_bytes as reserved
from operator_memory where {side}_total_allocated_bytes > {side}_total_reserved_bytes + 2098

-- check: blocks_are_in_the_memory_record
-- code: I107
-- layouts: pt-npu
-- needs: operator_memory, memory_record
-- in: operator_memory
-- each: side = Allocation; Release
-- about: Where memory_record has a row of the time and device of an allocation or a release, one such row has its totals. Both files are
--   made of the same events. A time that memory_record lacks, or that has more than a hundred different totals, is not judged.
-- tolerance: 0.002 MB
-- source: both real ranks of torch_npu level 1, 344 times each
-- message: {name}: {allocated} of {reserved} bytes are allocated at the {side}, memory_record.csv says {there} of {kept} at that time
select ends.cycle, row, any_value(name) as name, any_value(allocated_bytes) as allocated, any_value(reserved_bytes) as reserved,
  arg_min(there, greatest(abs(allocated_bytes - there), abs(reserved_bytes - kept))) as there,
  arg_min(kept, greatest(abs(allocated_bytes - there), abs(reserved_bytes - kept))) as kept
from block_ends as ends
join of_a_moment('recorded_totals') as totals
  on totals.cycle = ends.cycle and totals.at_ns = ends.at_ns and totals.device_type = ends.device_type
where side = '{side}'
group by ends.cycle, row
having min(greatest(abs(allocated_bytes - there), abs(reserved_bytes - kept))) > 2098

-- check: allocations_are_in_the_record
-- code: I107
-- layouts: pt-npu
-- needs: operator_memory, memory_record
-- in: memory_record
-- each: side = Allocation; Release
-- about: Record and operators end together: no allocation, no release comes behind the last row. Versions of 2023 print other moments:
--   not checked where fewer than one in five is in the record.
-- source: 184 allocations and 160 releases of both real ranks of torch_npu level 1
-- message: it ends before {after} of {rows} times of {side} in operator_memory.csv
with ended as (select cycle, max(at_ns) as last_ns from moments group by cycle)
select sides.cycle, count(*) filter (at_ns > last_ns) as after, any_value(rows) as rows
from recorded_sides as sides
join ended using (cycle)
join block_ends as ends on ends.cycle = sides.cycle and ends.side = sides.side
where sides.side = '{side}'
group by sides.cycle
having count(*) filter (at_ns > last_ns) > 0

-- check: allocations_are_in_the_record
-- in: operator_memory
-- each: side, total = Allocation | Release, allocated | reserved | active
-- about: Where memory_record has the moment of an allocation or a release, it has the same totals.
-- tolerance: 0.002 MB
-- message: {side} Total {total} is {bytes} bytes, memory_record.csv has another at that moment
select cycle, row, {total}_bytes as bytes
from recorded_ends join recorded_sides using (cycle, side)
where side = '{side}' and is_joined and {total}_off > 2098

-- check: allocations_are_in_the_record
-- about: Size(KB) of a block is what the total of PTA grew by.
-- tolerance: 0.01 KB; where more than one in ten is off it is another convention
-- message: the size is {size_bytes} bytes, the total grew by {grown_bytes}
select cycle, row, size_bytes, grown_bytes
from recorded_ends join recorded_sides using (cycle, side)
where side = 'Allocation' and is_joined and grown_bytes > 0 and abs(grown_bytes - size_bytes) > 10 and wrong <= 0.1 * grown

-- check: allocations_are_in_the_record
-- about: The size of all blocks is in KB.
-- message: Size(KB) is {usual:.6g} times what the total grew by in all rows: another unit?
select cycle, usual from recorded_sides
where side = 'Allocation' and is_joined and wrong > 0.1 * grown and has_other_unit

-- check: memory_is_of_one_device
-- code: I113
-- headline: two files are of different devices
-- needs: operator_memory, memory_record
-- in: memory_record
-- about: Some device (NPU:N) of one of the two files is in the other. Exact.
-- message: it is of {here}, operator_memory.csv of {there}
with here as (select distinct cycle, device_type from memory_record where starts_with(device_type, 'NPU:')),
there as (select distinct cycle, device_type from operator_memory where starts_with(device_type, 'NPU:'))
select here.cycle, some_of(list(distinct here.device_type order by here.device_type)) as here,
  some_of(list(distinct there.device_type order by there.device_type)) as there
from here join there using (cycle)
group by here.cycle
having count(*) filter (here.device_type = there.device_type) = 0

-- check: a_task_lasts_from_start_to_stop
-- code: I105
-- needs: task_time
-- in: task_time
-- about: task_time = task_stop - task_start.
-- tolerance: 0.002 us
-- source: CANN documents of task_time; no real sample was found
-- message: task_time is {reported_us:g} us, from start to stop it is {lasts_us:g} us
select cycle, row, task_time_ns / 1000 as reported_us, (task_stop_ns - task_start_ns) / 1000 as lasts_us
from task_time where abs(task_stop_ns - task_start_ns - task_time_ns) > 2

-- check: least_average_and_most_are_in_order
-- code: I105
-- needs: {table}
-- in: {table}
-- each: table, average = hccs, average_mb_per_s; pcie, avg_mb_per_s
-- about: Min <= average <= Max in hccs.csv and pcie.csv.
-- tolerance: 0.001 MB/s
-- source: CANN documents of msprof; no real sample was found
-- message: the least is {least:g} MB/s, the average {average_mb:g}, the most {most:g}
select cycle, row, min_mb_per_s as least, {average} as average_mb, max_mb_per_s as most
from {table} where min_mb_per_s > {average} + 0.001 or {average} > max_mb_per_s + 0.001

-- check: operator_details_are_the_operators_of_the_trace
-- code: I103
-- headline: operator_details and the trace differ
-- layouts: pt-npu
-- needs: operator_details, trace_view
-- in: operator_details
-- about: Rows of operator_details by name are the cpu_op events of the trace, steps excepted.
-- message: {name}: {here} rows here, {there} cpu_op events in trace_view.json
select cycle, name, here, there from detailed_operators where here <> there

-- check: operator_details_are_the_operators_of_the_trace
-- about: Host Total Duration of the rows of a name is what its cpu_op events last.
-- tolerance: 0.01 us each
-- message: {name}: {here_us:.9g} us here, {there_us:.9g} us in cpu_op events in trace_view.json
select cycle, name, here_ns / 1000 as here_us, there_ns / 1000 as there_us
from detailed_operators where here = there and abs(here_ns - there_ns) > 10 * here

-- check: api_statistic_is_the_trace
-- code: I103
-- headline: api_statistic and the trace differ
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: api_statistic, trace_view
-- in: api_statistic
-- about: Count of an API is how many events it has in the process CANN of the trace (`name`, or `what@name`). Not checked where more than
--   one in ten differs.
-- message: {name}: {here} calls here, {there} events in trace_view.json
select cycle, name, here, there from drawn_calls where here <> there

-- check: api_statistic_is_the_trace
-- about: Time of an API is what its events last.
-- tolerance: 0.01 us an event
-- message: {name}: {here_us:.9g} us here, {there_us:.9g} us in events in trace_view.json
select cycle, name, here_ns / 1000 as here_us, there_ns / 1000 as there_us
from drawn_calls where here = there and abs(here_ns - there_ns) > 10 * here

-- check: api_statistic_is_the_trace
-- code: I105
-- each: column, value, there, tolerance = Min(us), min_ns / 1000, least_drawn, 0.01; Max(us), max_ns / 1000, most_drawn, 0.01;
--   Variance, variance, spread_drawn, 0.02 + 0.005 * spread_drawn
-- about: Min, Max and Variance (of all, not of a sample) are those of its events. Not checked for an API of several levels.
-- tolerance: 0.01 us; of the variance 0.5 %
-- message: {name}: {column} is {reported:g}, its events in trace_view.json have {drawn_value:.6g}
select calls.cycle, calls.row, api_name as name, {value} as reported, {there} as drawn_value
from (select *, count(*) over (partition by cycle, api_name) as levels from api_statistic) as calls
join drawn_calls as drawn on drawn.cycle = calls.cycle and drawn.name = calls.api_name
where levels = 1 and drawn.here = drawn.there and abs({value} - {there}) > {tolerance}

-- check: communication_is_in_the_kernels
-- code: I109
-- severity: warning
-- needs: communication_operations, communication_kernels
-- files: kernel_details
-- in: communication_operations
-- about: Where most names are in one of the two files only, it is unknown what is missing: one finding reports it. Two old directories were
--   cut by hand.
-- message: {here} operations here, {there} in kernel_details.csv, of which {common} have the same name: one of the two was cut, or is of
--   another run
select cycle, here, there, common from communication_counts where 2 * common < greatest(here, there)

-- check: communication_is_in_the_kernels
-- about: Operations of communication.json are the communication rows of kernel_details, by name. It is cut by step: a collective outside
--   of every step is among the kernels only, which is a warning.
-- source: six real directories
-- message: {name}: {here} here, {there} kernels in kernel_details.csv
select cycle, name, listed.here, listed.there, if(listed.there - listed.here between 1 and outside, 'warning', 'error') as severity
from communication_kernels as listed join communication_counts as counts using (cycle)
where listed.here <> listed.there and 2 * common >= greatest(counts.here, counts.there)

-- check: communication_is_in_the_kernels
-- about: Both start at the same time, where there is one of the name.
-- tolerance: 0.5 us: communication.json has a float
-- source: eight real directories
-- message: it starts at {start_us:.3f} us here, its kernel at {kernel_us:.3f} us in kernel_details.csv
select cycle, file, row, path, start_ns / 1000 as start_us, kernel_ns / 1000 as kernel_us
from communication_kernels where here = 1 and there = 1 and abs(start_ns - kernel_ns) > 500

-- check: kernels_name_their_step
-- code: I113
-- headline: kernels belong to no step
-- severity: warning
-- layouts: pt-npu
-- needs: kernel_details, step_trace_time
-- in: kernel_details
-- about: Where step_trace_time names a step, some kernel has its Step Id. A warning: kernels of a graph belong to no step.
-- message: no kernel has a Step Id, and step_trace_time.csv has step {steps}
with unnamed as (
  select cycle from (select distinct cycle, step_text from kernel_lines where step_text is not null)
  join words on words.number = step_text
  group by cycle having bool_and(trim(text) = ''))
select cycle, some_of(list(step order by step)) as steps
from (select distinct cycle, step from step_trace_time where step is not null) semi join unnamed using (cycle)
group by cycle

-- check: samples_are_of_the_run
-- code: I113
-- headline: a sample is far from the run in time
-- needs: kernel_details, {table}
-- in: {table}
-- each: table, reach_ns, reported = npu_module_mem, 30::bigint * 86400000000000, far < samples;
--   cpu_ms_memory_record, 3600000000000, far = samples
-- about: Memory samples lie around the kernels: another unit is years away, another run usually more than an hour. Some modules are
--   sampled when a driver starts; files_are_of_one_run reports it if none of them is near. A record continues from cycle to cycle,
--   so only a record without any near row is of another run.
-- tolerance: 30 days for modules, an hour for records
-- source: real output of torch_npu level 1, whose module samples begin 57 minutes before the first kernel; MindSpore 2.10
-- message: its time is {apart_s:.6g} s from the first kernel
with run as (select cycle, min(start_ns)::hugeint as first_ns, max(start_ns)::hugeint as last_ns from kernel_lines group by cycle),
sampled as (
  select cycle, row, abs(timestamp_ns - first_ns) / 1e9 as apart_s,
    timestamp_ns not between first_ns - {reach_ns} and last_ns + {reach_ns} as is_far
  from {table} join run using (cycle)),
counts as (select cycle, count(*) as samples, count(*) filter (is_far) as far from sampled group by cycle)
select cycle, row, apart_s from sampled join counts using (cycle) where is_far and {reported}

-- check: the_collection_ends_with_the_run
-- code: I113
-- headline: the collection ended long after the run
-- layouts: pt-npu
-- needs: kernel_details, profiler_info_run
-- in: profiler_info
-- at: $.end_info.collectionTimeEnd
-- about: The collection ends [ns] after the start of the last kernel, within an hour: the profiler ends its collection after the
--   last step.
-- tolerance: 0.3 s
-- source: torch_npu level 1, real output, both ranks
-- message: the collection ended {late_s:.6g} s after the last kernel of kernel_details.csv began
select cycle, (collection_time_end_ns - last_ns) / 1e9 as late_s
from profiler_info_run join (select cycle, last_ns from file_times where slot = 'kernel_details') using (cycle)
where collection_time_end_ns > 0 and collection_time_end_ns - last_ns not between -300000000 and 3600000000000

-- check: metadata_is_of_the_rank
-- code: I113
-- headline: a file is of another rank
-- layouts: pt-npu
-- needs: profiler_metadata_arguments, profiler_info_run
-- in: profiler_metadata
-- at: $.distributed_args.rank
-- about: distributed_args.rank is the rank in profiler_info. Exact.
-- source: torch_npu source: _metadata_manager.py; MindSpeed and MindFormers add distributed_args
-- message: it is of rank {rank}, but {name} is of rank {stated}
select cycle, split.rank, name, try_cast(rank_id as bigint) as stated
from profiler_metadata_arguments as split
join profiler_info_run using (cycle)
join (from files where slot = 'profiler_info' and file = 0) as files using (cycle)
where stated >= 0 and split.rank <> stated

-- check: metadata_is_of_the_rank
-- needs: profiler_metadata_groups, profiler_info_run
-- about: The rank is a member of each group, at the position that the group states. Exact.
-- message: group {communicator}: position {group_rank} of ranks {global_ranks} is not rank {stated}
select cycle, groups.row, '$.parallel_group_info' as path, communicator, group_rank, global_ranks, try_cast(rank_id as bigint) as stated
from profiler_metadata_groups as groups join profiler_info_run using (cycle)
where stated >= 0 and group_rank is not null and (
  group_rank < 0 or json_extract_string(global_ranks, '$[' || greatest(group_rank, 0) || ']') is distinct from stated::varchar)

-- check: step_times_are_the_lanes_of_the_trace
-- code: I108
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: step_trace_time, trace_view
-- in: step_trace_time
-- each: lane, column = Computing, computing_ns; Communication, communication_ns; Communication(Not Overlapped), exposed_ns; Free, free_ns
-- about: Computing, Communication, its not overlapped part and Free = the events of that name under Overlap Analysis, where the file has
--   one step of a device. Of several, what is in no step is left out, so the steps may add up to less, never to more; MindSpore does so
--   for one step too, unless no step is marked.
-- tolerance: 2 ns for three printed decimals, and half a ns for each row of versions that print all
-- source: torch_npu at levels 0, 1 and 2, real output; _trace_step_time_parser.py; MindSpore 2.10: ascend_step_trace_time_viewer.py
-- message: {whose}{lane} is {here_us:.9g} us{several}, but its events in trace_view.json add up to {there_us:.9g} us
with drawn as (
  select added.cycle, added.device, {column} as here_ns, steps, rows, coalesce(sum(total_ns), 0) as there_ns
  from added_steps as added
  left join lane_sums on lane_sums.cycle = added.cycle and lane = '{lane}' and coalesce(lane_sums.device = added.device, added.device is null)
  group by all)
select cycle, coalesce('device ' || device || ': ', '') as whose, '{lane}' as lane, here_ns / 1000 as here_us,
  if(steps = 1, '', ' in ' || steps || ' steps') as several, there_ns / 1000 as there_us
from drawn
where here_ns - there_ns > 2 + 0.5 * rows + 1e-9 * there_ns
  or (steps = 1 and there_ns - here_ns > 2 + 0.5 * rows + 1e-9 * there_ns and cycle not in (from cut_steps))

-- check: steps_are_the_same_everywhere
-- code: I113
-- headline: two files have different steps
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: {slot}, odd_steps
-- in: {slot}
-- each: slot = step_trace_time; kernel_details; communication
-- about: ProfilerStep#N of the trace, Step of step_trace_time, Step Id of kernel_details and keys of communication agree. Exact. A
--   warning where steps are only missing, and the caller requested no number of steps: they may have run nothing on the device.
-- source: torch_npu at levels 0, 1 and 2, real output; Ascend/pytorch issue 167, where steps of the window were lost
-- message: it has steps {steps}, but {name} has steps {expected}
select cycle, steps, name, expected, if(is_wrong, 'error', 'warning') as severity from odd_steps where slot = '{slot}'

-- check: the_window_has_the_steps_asked_for
-- code: C101
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: trace_view, named_steps
-- about: ProfilerStep#N follow each other without a gap.
-- message: it marks steps {steps}, which are not consecutive
select cycle, some_of(list(step order by step)) as steps
from named_steps where slot = 'trace_view' group by cycle having max(step) - min(step) + 1 <> count(*)

-- check: the_window_has_the_steps_asked_for
-- needs: trace_view, named_steps, profiler_info_run
-- about: They are as many as the schedule has active ones. More is an error; fewer is a warning: the loop may have been left early on
--   purpose.
-- source: torch_npu writes the schedule into profiler_info.json
-- message: the schedule has {planned} active steps, but the trace marks {steps}
select cycle, coalesce(active, active_2023) as planned, steps, if(steps > planned, 'error', 'warning') as severity
from profiler_info_run
join (select cycle, count(*) as steps from named_steps where slot = 'trace_view' group by cycle) using (cycle)
where steps <> planned

-- check: something_ran_on_the_device
-- code: C112
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- when: npu
-- needs: kernel_details
-- in: kernel_details
-- about: If the NPU was traced, kernel_details has rows: a profiler that loses the device writes all files and reports nothing.
-- source: pytorch issue 192021 and the like
-- message: the NPU was traced, but there is no kernel
select cycle from cycles where cycle not in (select cycle from kernel_lines)

-- check: something_ran_on_the_device
-- in:
-- when: npu
-- needs: trace_view
-- about: The trace has events on Ascend Hardware.
-- message: the NPU was traced, but no event is on Ascend Hardware
select cycle from cycles
where cycle not in (
  select cycle from view_spans semi join (from lanes where name = number_of('Ascend Hardware')) as hardware using (cycle, thread))

-- check: files_are_of_one_run
-- code: I113
-- layouts: pt-npu, ms-2.5+, ms-2.3
-- needs: {slot}, foreign_files
-- in: {slot}
-- each: slot = kernel_details; memory_record; operator_memory; npu_module_mem; trace_view; communication
-- about: The times of all files lie in the time that profiler_info says was profiled, else near those of the kernels. Of npu_module_mem it
--   is a warning only: a published sample mixes two runs there.
-- tolerance: 10 s: host and device have clocks of their own, and a host runs ahead of its device; no run is restarted in less
-- source: three real directories of torch_npu
-- message: its times {how} {apart_s:.6g} s {which} those of {name}: it is of another run
select cycle, if(is_stated, 'reach', 'are') as how, apart_ns / 1e9 as apart_s, if(is_stated, 'beyond', 'away from') as which, name,
  if(slot = 'npu_module_mem', 'warning', 'error') as severity
from foreign_files where slot = '{slot}'

-- check: rank_is_that_of_the_file_name
-- code: I113
-- headline: a file is of another rank
-- layouts: pt-npu, ms-2.5+, ms-2.5+cpu
-- needs: profiler_info_run
-- in: profiler_info
-- about: The rank in profiler_info is that of its file name.
-- source: MindSpore 2.10: ms_profiler_info.rank_id, a text; torch_npu: rank_id, a number; real output of each
-- message: rank {inside} inside the file, {rank} in its name
select cycle, file, path || '.rank_id' as path, inside, rank from ranks_inside('profiler_info_run', 'profiler_info')

-- check: tables_have_rows
-- code: C112
-- headline: a table without a row
-- layouts: pt-npu
-- needs: {table}
-- in: {table}
-- each: table = api_statistic; op_statistic; l2_cache; npu_module_mem; operator_memory; memory_record; operator_details; step_trace_time
-- about: torch_npu writes no table without rows: a header alone is what is left of a file.
-- source: torch_npu 2.14: _integrate_parser.py, _memory_view_parser.py, _file_manager.py (create_csv_file returns where there is no data)
-- message: it has a header and no row, and torch_npu writes no such file: its rows are lost
select cycle from cycles where layout = 'pt-npu' and cycle not in (select cycle from {table})

-- check: what_was_launched_ran
-- code: C116
-- layouts: pt-npu
-- where: level1
-- needs: api_statistic, kernel_details
-- in: kernel_details
-- about: At least as many kernels ran as `launch` of the level `node` counts: each launch starts one, and torch_npu waits for the device
--   before it stops. More is normal: one launch may start several. Not checked where a graph was captured, loaded or run, whose operators are
--   launched without running at once. A warning where one in ten or fewer is missing, and two for each operation of communication: msprof leaves
--   out tasks that the device logged nothing of, and kernels of HCCL that AI CPU runs.
-- source: torch_npu: profiler_mgr.cpp (Stop waits for the device); msprof: op_summary_assembler.cpp (INVALID_TASK_TYPE), task_processor.cpp; 191
--   launches and 191 kernels on both real ranks of torch_npu level 1
-- message: api_statistic.csv counts {launches} launches, but here are {rows} kernels: {lost} of them never arrived
with launched as (
  select cycle, within(sum(count)) as launches from api_statistic where level = 'node' and api_name = 'launch' group by cycle),
graphs as (
  select distinct cycle from api_statistic where is_call_of_a_graph(api_name)),
ran as (select cycle, count(*) as rows from kernel_lines group by cycle)
select cycle, launches, rows, launches - rows as lost,
  if(lost > 0.1 * launches + 2 * coalesce(collectives, 0), 'error', 'warning') as severity
from launched join ran using (cycle)
left join (select cycle, sum(calls) as collectives from kernel_collectives group by cycle) as moving using (cycle)
where launches > rows and cycle not in (from graphs)

-- check: operators_count_the_work_they_started
-- code: I103
-- headline: the operators and the trace have different times on the device
-- invariant: launched_work_ran
-- layouts: pt-npu
-- needs: operator_details, reached_tasks
-- in: operator_details
-- files: trace_view
-- about: Device Self Duration of all rows is what the tasks last that async_npu points to: both are made of the same operators and tasks.
-- tolerance: 0.01 us a row
-- source: torch_npu 2.14: _operator_view_parser.py, _trace_view_parser.py; both real ranks of torch_npu level 1; not run on a device
-- message: its operators took {here_us:.9g} us of the device, the {tasks} tasks of the trace that operators started last {there_us:.9g} us
select cycle, here_ns / 1000 as here_us, tasks, tasks_ns / 1000 as there_us
from (
  select cycle, within(sum(device_self_duration_ns)) as here_ns, count(*) as rows from operator_details
  where device_self_duration_ns is not null group by cycle)
join reached_tasks using (cycle)
where abs(here_ns - tasks_ns) > 10 * rows

-- check: operators_share_out_their_time
-- code: I103
-- headline: the operators and the trace have different self times
-- layouts: pt-npu
-- needs: operator_details, top_operators
-- in: operator_details
-- files: trace_view
-- about: Host Self Duration of all rows is what the operators at the top of their threads last in the trace: an operator that was moved in time
--   or to another thread is a part of another one.
-- tolerance: 1 ns a row, and operators that begin exactly where another begins or ends
-- source: torch_npu 2.14: _tree_builder.py, _operator_view_parser.py; both real ranks of torch_npu level 1; not run on a device
-- message: its operators took {here_us:.9g} us for themselves, those of the trace that are part of no other last {there_us:.9g} us
select cycle, here_ns / 1000 as here_us, top_ns / 1000 as there_us
from (
  select cycle, within(sum(host_self_duration_ns)) as here_ns, count(*) as rows from operator_details
  where host_self_duration_ns is not null group by cycle)
join top_operators using (cycle)
where rows = operators and abs(here_ns - top_ns) > rows + tied_ns

-- check: a_block_is_written_once
-- code: I114
-- headline: a row is written twice
-- needs: operator_memory
-- in: operator_memory
-- about: No two blocks are allocated at the same time, with the same name, size, stream and totals: the second would have grown the total.
-- source: torch_npu 2.14: _memory_prepare_parser.py; three real ranks of torch_npu
-- message: {name} at {at_us:.3f} us is here a second time
select cycle, row, name, allocation_time_ns / 1000 as at_us
from (
  select *, row_number() over (
    partition by cycle, device_type, name, size_bytes, allocation_time_ns, allocation_total_allocated_bytes, release_time_ns order by row)
      as number
  from operator_memory where allocation_time_ns is not null and allocation_total_allocated_bytes is not null)
where number > 1 and size_bytes > 0

-- check: modules_are_sampled_once
-- code: I114
-- headline: a row is written twice
-- needs: npu_module_mem
-- in: npu_module_mem
-- about: A component of a device has one row at a time.
-- source: three real ranks of torch_npu
-- message: {component} at {at_us:.3f} us is here a second time
select cycle, row, component, timestamp_ns / 1000 as at_us
from (
  select *, row_number() over (partition by cycle, component, device, device_id, timestamp_ns order by row) as number from npu_module_mem)
where number > 1

-- check: a_task_is_cached_once
-- code: I114
-- headline: a row is written twice
-- needs: l2_cache
-- in: l2_cache
-- about: No two rows are the same, task, name and rates: task numbers of a stream come again after 65536 tasks only. Not checked where
--   kernel_details has a task of a stream twice, as tasks of a graph run again in each step; a warning where it says nothing of tasks.
-- source: msprof: get_l2_cache_data.py, overlap_analysis_assembler.cpp (several times of one task); both real ranks of torch_npu level 1
-- message: task {task} of stream {stream} ({name}) is here a second time, the same in every column
with known as (
  select cycle, max(times) > 1 as runs_again
  from (
    select cycle, count(*) as times from kernel_lines where stream >= 0 and task >= 0 group by cycle, device, stream, task)
  group by cycle)
select cycle, row, task_id as task, stream_id as stream, op_name as name, if(runs_again is null, 'warning', 'error') as severity
from (
  select *, row_number() over (partition by cycle, stream_id, task_id, op_name, hit_rate, victim_rate order by row) as number
  from l2_cache)
left join known using (cycle)
where number > 1 and task_id is not null and not coalesce(runs_again, false)

-- check: growth_has_its_block
-- code: I107
-- invariant: counted_twice_agrees
-- layouts: pt-npu
-- needs: operator_memory, memory_record
-- in: operator_memory
-- about: Where the total of PTA grows in memory_record, a block is allocated: both files are made of the same events of the allocator. Not checked
--   where nine in ten of these times are no allocation: versions of 2023 print other moments. A warning where more than one in ten is none:
--   memory that a library takes of the allocator by itself is in memory_record only.
-- tolerance: 1 ns
-- source: torch_npu 2.14: _memory_prepare_parser.py (is_inner_allocator), _memory_view_parser.py; 127 growths on each real rank of torch_npu
--   level 1
-- message: {lost} of the {grown} times at which memory_record.csv says that PTA grew have no allocation here, first {at_us:.3f} us
with grown as (select distinct cycle, at_ns from moments where grown_bytes > 0),
counted as (
  select grown.cycle, count(*) as grown, count(*) filter (allocated.at_ns is null) as lost, min(grown.at_ns) filter (allocated.at_ns is null) as first_ns
  from grown
  left join (select distinct cycle, allocation_time_ns as at_ns from operator_memory) as allocated
    on allocated.cycle = grown.cycle and allocated.at_ns = grown.at_ns
  group by grown.cycle)
select cycle, lost, grown, first_ns / 1000 as at_us, if(lost > 0.1 * grown, 'warning', 'error') as severity
from counted where lost > 0 and (lost <= 0.9 * grown)

-- check: preparing_ends_with_the_first_work
-- code: I108
-- layouts: pt-npu
-- needs: step_trace_time, view_spans
-- in: step_trace_time
-- files: trace_view
-- about: Preparing is the time from the mark of the step (ProfilerStep#N) to the first piece of Computing or Communication in it, so one
--   begins there. A step without any has the number that the writer makes of a first piece at -1.
-- tolerance: 1 us: it is the difference of two float64 UNIX times in us
-- source: torch_npu 2.14: _trace_step_time_parser.py (get_prepare_time); both real ranks of torch_npu level 1; not run on a device
-- message: step {step}: Preparing is {preparing_us:.9g} us, and neither Computing nor Communication begins so long after the step does
with begun as (
  select spans.cycle, spans.start_ns
  from view_spans as spans join lanes using (cycle, thread)
  where lanes.name = number_of('Overlap Analysis') and spans.name in (number_of('Computing'), number_of('Communication'))),
marked as (
  select cycle, try_cast(label as bigint) as step, min(start_ns) as start_ns from view_step_marks group by all),
placed as (
  select times.cycle, times.row, times.step, preparing_ns, marked.start_ns + preparing_ns as first_ns
  from step_trace_time as times join marked on marked.cycle = times.cycle and marked.step = times.step
  where preparing_ns is not null and times.cycle in (select cycle from begun))
select cycle, row, step, preparing_ns / 1000 as preparing_us
from placed
where abs(first_ns + 1000) > 2000
  and not exists (from begun where begun.cycle = placed.cycle and begun.start_ns between placed.first_ns - 1000 and placed.first_ns + 1000)

-- check: times_of_the_tables_move
-- code: I106
-- headline: a clock that stands still
-- layouts: pt-npu, ms-2.5+
-- each: table, column = memory_record, timestamp_ns; operator_memory, allocation_time_ns
-- needs: {table}
-- in: {table}
-- about: Rows are written one an event, each with the clock of its moment. Of sixteen or more not all have one time: four records of memory can, one of
--   each component.
-- source: torch_npu: _memory_prepare_parser.py, _memory_view_parser.py; MindSpore 2.10: ascend_memory_viewer.py; real output of 2023 and 2025
-- message: all {rows} rows have the same time
select cycle, min(row) as row, count({column}) as rows from {table}
group by cycle having count({column}) >= 16 and count(distinct {column}) = 1

-- check: profiler_info_is_whole
-- code: S102
-- headline: profiler_info is not whole
-- layouts: pt-npu
-- needs: profiler_info_run
-- in: profiler_info
-- each: at, column = end_info.collectionTimeEnd, collection_time_end_ns; end_info.MonotonicTimeEnd, monotonic_time_end_ns
-- at: $.{at}
-- about: The writer has put the times of the end into every profiler_info since 2023.
-- source: torch_npu 2.14: profiler_interface.py (_dump_profiler_info); real output of 2023 and 2025
-- message: it is missing, and torch_npu always writes it
select cycle from profiler_info_run where {column} is null

-- check: profiler_info_is_whole
-- at: $.rank_id
-- about: A file that has a rank in its name says it inside.
-- message: it is missing, and the name of the file has a rank
select cycle from profiler_info_run
join (from files where slot = 'profiler_info' and rank is not null) as files using (cycle)
where rank_id is null

-- check: allocators_are_summed_up
-- code: I107
-- layouts: pt-npu
-- needs: memory_record
-- in: memory_record
-- about: A record of PTA or GE is followed by the sum of both (PTA+GE) at the same time. Of single rows where nine in ten are.
-- source: torch_npu 2.14: _memory_view_parser.py (_add_pta_ge_record_data); all 990 records of two real ranks; not run on a device
-- message: {component} at {at_us:.3f} us is not followed by PTA+GE at that time
with followed as (
  select *, timestamp_ns is not distinct from below_ns and below = 'PTA+GE' as is_met
  from (
    select *, lead(component) over (partition by cycle, file order by row) as below, lead(timestamp_ns) over (partition by cycle, file order by row) as below_ns
    from memory_record)
  where component in ('PTA', 'GE'))
select cycle, row, component, timestamp_ns / 1000 as at_us
from (select *, count(*) over (partition by cycle) as records from followed)
where not coalesce(is_met, false)
qualify count(*) over (partition by cycle) <= 0.1 * records

-- check: allocators_are_summed_up
-- about: There are sums where there are records.
-- message: {records} records of PTA and GE have no sum: no row is of PTA+GE
select cycle, count(*) as records from memory_record where component in ('PTA', 'GE')
group by cycle having count(*) >= 10 and cycle not in (select cycle from memory_record where component = 'PTA+GE')

-- check: allocators_are_summed_up
-- about: Total Active of a sum is that of the last record of PTA: GE has none.
-- tolerance: 0.002 MB
-- message: PTA+GE has {here} bytes active, the record of PTA above has {there}
select cycle, row, total_active_bytes as here, active_there as there
from record_sums where component = 'PTA+GE' and is_other_size(total_active_bytes, active_there)

-- check: allocators_are_summed_up
-- about: A record of PTA has what is reserved, what is active and its stream, where versions have columns of them.
-- message: {component} at {at_us:.3f} us has no {what}
with filled as (
  select cycle, count(allocation_total_active_bytes) > 0 as has_active, count(nullif(stream_ptr, '')) > 0 as has_stream
  from operator_memory group by cycle)
select cycle, row, component, timestamp_ns / 1000 as at_us,
  case when total_reserved_bytes is null then 'reserved bytes' when total_active_bytes is null then 'active bytes' else 'stream' end as what
from memory_record left join filled using (cycle)
where component = 'PTA' and (total_reserved_bytes is null or total_active_bytes is null and has_active or nullif(stream_ptr, '') is null and has_stream)

-- check: times_of_records_differ
-- code: I106
-- headline: all rows have the same time
-- needs: {table}
-- in: {table}
-- each: table, time = memory_record, timestamp_ns; npu_module_mem, timestamp_ns; operator_memory, allocation_time_ns
-- about: Rows of a time series have more than one time.
-- message: all {rows} rows have one time
select cycle, count(*) as rows from {table} where {time} is not null
group by cycle, file having count(*) >= 200 and min({time}) = max({time})

-- check: the_process_is_sampled_at_the_times_of_the_trace
-- code: I103
-- headline: memory_record and the trace differ
-- layouts: pt-npu
-- needs: memory_record, others
-- in: memory_record
-- files: trace_view
-- about: Rows of APP are the samples that the trace draws as APP/Memory, or APP/HBM: both come from the same readings of CANN. Not checked where they
--   have no time in common.
-- tolerance: 1 us
-- source: msprof: npu_mem_viewer.py and npu_mem_assembler.cpp read one table; torch_npu 2.14: _memory_view_parser.py; both real ranks of
--   torch_npu level 1
-- message: {lost} of {samples} samples are in one of the two files only, the first at {at_us:.3f} us
with drawn as (
  select distinct cycle, time_ns as at_ns from others
  where name in (number_of('APP/Memory'), number_of('APP/HBM')) and phase = number_of('C')),
listed as (select distinct cycle, timestamp_ns as at_ns from memory_record where component = 'APP'),
-- Each is beside the nearest one of the other file.
ordered as (
  select *, max(if(is_drawn, at_ns, null)) over before as drawn_before, min(if(is_drawn, at_ns, null)) over behind as drawn_behind,
    max(if(is_drawn, null, at_ns)) over before as listed_before, min(if(is_drawn, null, at_ns)) over behind as listed_behind
  from (select *, true as is_drawn from drawn union all select *, false from listed)
  where cycle in (select cycle from drawn) and cycle in (select cycle from listed)
  window before as (partition by cycle order by at_ns range between unbounded preceding and current row),
    behind as (partition by cycle order by at_ns range between current row and unbounded following)),
judged as (
  select cycle, at_ns,
    coalesce(least(at_ns - if(is_drawn, listed_before, drawn_before), if(is_drawn, listed_behind, drawn_behind) - at_ns) <= 1000, false) as is_met
  from ordered)
select cycle, count(*) as samples, count(*) filter (not is_met) as lost, min(at_ns) filter (not is_met) / 1000 as at_us
from judged
group by cycle having lost > 0 and lost < samples

-- check: modules_are_sampled_together
-- code: I107
-- severity: warning
-- headline: a sample is lost
-- invariant: counted_twice_agrees
-- layouts: pt-npu, ms-2.5+
-- needs: npu_module_mem
-- in: npu_module_mem
-- about: The driver reads all modules at a time: each time has a row for each of them. Not checked where more than one in four is absent: a published
--   sample was cut by hand. A warning: msprof writes what the driver sent row by row, and the driver is not public.
-- source: msprof: npu_module_mem_viewer.py; three real ranks, 77 modules at 14 times
-- message: {lost} of {cells} rows are missing: {parts} modules at {times} times have one each
with cells as (
  select cycle, file, coalesce(device, device_id::varchar, '') as device, component, timestamp_ns as at_ns from npu_module_mem),
counts as (
  select cycle, count(distinct component) as parts, count(distinct at_ns) as times, count(distinct (component, at_ns)) as filled
  from cells group by cycle, file, device)
select cycle, sum(parts * times - filled) as lost, sum(parts * times) as cells, max(parts) as parts, max(times) as times
from counts where parts >= 5 and times >= 2
group by cycle having sum(filled) < sum(parts * times) and sum(filled) >= 0.75 * sum(parts * times)

-- check: blocks_are_of_operators_of_the_trace
-- code: I103
-- headline: operator_memory and the trace differ
-- layouts: pt-npu
-- needs: operator_memory, traced_names
-- in: operator_memory
-- files: trace_view
-- about: A block of torch_npu (not `cann::`) has the name of an operator of the host, which is an event of the trace, where nine in ten have.
-- source: torch_npu 2.14: _memory_prepare_parser.py; all 254 blocks of both real ranks of torch_npu level 1
-- message: {name} allocated memory, and no event of the trace has that name
select cycle, row, name
from (
  select *, count(*) over (partition by cycle) as blocks from operator_memory
  where name <> '' and not starts_with(name, 'cann::') and cycle in (select cycle from traced_names))
anti join traced_names using (cycle, name)
qualify count(*) over (partition by cycle) <= 0.1 * blocks

-- check: blocks_are_of_operators_of_the_trace
-- headline: operator_memory and memory_record differ
-- code: I107
-- needs: operator_memory, memory_record
-- files:
-- about: The stream of a block is one of memory_record. Exact: both are of the same events.
-- source: torch_npu 2.14: _memory_prepare_parser.py, _memory_view_parser.py; both real ranks of torch_npu level 1
-- message: {name} is of stream {stream_ptr}, which no row of memory_record.csv has
select blocks.cycle, row, name, blocks.stream_ptr
from operator_memory as blocks
anti join (select distinct cycle, stream_ptr from memory_record) as records
  on records.cycle = blocks.cycle and records.stream_ptr = blocks.stream_ptr
where blocks.stream_ptr <> '' and blocks.cycle in (select cycle from memory_record where stream_ptr <> '')

-- check: records_of_the_engine_have_their_block
-- code: I107
-- invariant: counted_twice_agrees
-- layouts: pt-npu
-- needs: operator_memory, memory_record
-- in: operator_memory
-- about: Where the total of GE grows, an operator of CANN (`cann::`) allocates memory. Not where it falls: what was allocated before the recording is
--   released without a row. Not checked where nine in ten are none: versions of 2023 print other moments.
-- tolerance: 1 ns
-- source: msprof: npu_op_mem (a row is made at an allocation); torch_npu: prof_db_parse/_memory_db_parser.py (get_ge_op_mem_data),
--   _memory_view_parser.py; both real ranks of torch_npu level 1
-- message: {lost} of the {records} times at which memory_record.csv says that GE grew have no allocation here, first {at_us:.3f} us
with ends as (
  select distinct cycle, at_ns from block_ends where starts_with(name, 'cann::') and at_ns is not null),
records as (
  select distinct cycle, at_ns
  from (
    select cycle, timestamp_ns as at_ns, total_allocated_bytes > lag(total_allocated_bytes) over (
      partition by cycle, file, device_type order by row) as has_grown
    from memory_record where component = 'GE' and cycle in (select cycle from operator_memory where not starts_with(name, 'cann::')))
  where has_grown),
judged as (
  select records.cycle, records.at_ns, ends.at_ns is null as is_lost
  from records left join ends on ends.cycle = records.cycle and ends.at_ns = records.at_ns)
select cycle, count(*) filter (is_lost) as lost, count(*) as records, min(at_ns) filter (is_lost) / 1000 as at_us
from judged group by cycle having lost > 0 and lost <= 0.9 * records

-- check: calls_of_the_trace_are_in_api_statistic
-- code: I103
-- headline: api_statistic and the trace differ
-- layouts: pt-npu, ms-2.5+
-- needs: api_statistic, named_calls
-- in: api_statistic
-- files: trace_view
-- about: A function of CANN that the trace draws has its row, where another one of its level has one. Not checked where counts of those that have one differ.
-- source: msprof: api_statistic_assembler.cpp and cann_assembler.cpp go through the same calls; both real ranks of torch_npu level 1
-- message: {names} functions that the trace draws as {level} have no row, the first is {name}
select cycle, level, count(*) filter (not is_listed) as names, min(name) filter (not is_listed) as name
from named_calls
group by cycle, level having bool_or(is_listed) and names > 0

-- check: profiler_info_says_what_was_recorded
-- code: I113
-- headline: profiler_info contradicts itself
-- layouts: pt-npu
-- needs: profiler_info_run
-- in: profiler_info
-- at: $.start_info.start_monotonic
-- about: The recording starts before it ends, and lasts less than a month.
-- tolerance: one part in 10 000 of the time since the machine started: the start is read of a clock that NTP does not steer
--   (CLOCK_MONOTONIC_RAW), the end of one that it does, and quartzes are off by so much
-- source: torch_npu 2.14: profiler_interface.py, csrc/toolkit/profiler/common/utils.h (GetClockMonotonicRawNs)
-- message: the recording lasts {days:.6g} days
select cycle, (monotonic_time_end_ns::hugeint - start_monotonic_ns) / 86400e9 as days
from profiler_info_run
where start_monotonic_ns > 0 and monotonic_time_end_ns is not null
  and monotonic_time_end_ns::hugeint - start_monotonic_ns not between -start_monotonic_ns // 10000 and 31 * 86400000000000

-- check: profiler_info_says_what_was_recorded
-- code: S103
-- headline: a counter that does not count
-- at: $.start_info.start_cnt
-- about: Where the counter of the system is read it counts since the machine started, at less than 10 GHz.
-- source: torch_npu 2.14: profiler_interface.py (start_trace, _dump_profiler_info), utils.h (getClockSyscnt); real output of 2025
-- message: syscnt_enable is on, start_cnt is {start_cnt} and freq {freq_mhz:g} MHz
select cycle, start_cnt, freq_mhz from profiler_info_run
where syscnt_enable and (start_cnt = 0 or freq_mhz <= 0 or freq_mhz > 10000)

-- check: profiler_info_says_what_was_recorded
-- code: I114
-- headline: an activity is there twice
-- at: $.config.common_config.activities
-- about: Activities are a set.
-- message: {activities} has one of them twice
select cycle, activities from profiler_info_run
where len(json_extract_string(activities, '$[*]')) > len(list_distinct(json_extract_string(activities, '$[*]')))

-- check: profiler_info_says_what_was_recorded
-- code: I113
-- headline: profiler_info contradicts the trace
-- needs: profiler_info_run, {table}
-- each: table, activity = traced_names, CPU; kernel_lines, NPU
-- at: $.config.common_config.activities
-- about: What is there was recorded: operators of the host with the activity CPU, kernels with NPU.
-- message: {activities} are the activities, without {activity}, and the directory has what only {activity} records
select cycle, activities from profiler_info_run
where not contains(activities, '{activity}') and cycle in (select cycle from {table})
