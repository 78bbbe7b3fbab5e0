-- What must agree across the files that MindSpore writes of operators on the host's CPU. Each check held on all 83 real output directories
-- of MindSpore 2.0 and 2.10 it was tried on.

-- check: {name}
-- code: {code}
-- each: name, code, here, there, part = types_are_the_sum_of_details, I101, cpu_op_detail_info, cpu_op_type_info, op_type;
--   framework_lines_are_occurrences, I101, cpu_framework, cpu_op_detail_info, all;
--   timestamps_are_occurrences, I102, cpu_op_execute_timestamp, cpu_op_detail_info, full_op_name
-- needs: {here}, {there}
-- in: {here}
-- about: type_occurrences = sum of op_occurrences of the type; lines of cpu_framework = executions, in all; executions with a
--   timestamp = op_occurrences, for the same operators.
-- source: MindSpore 2.0 and 2.10, real output
-- message: {operator}: {count} here, {count_there} in {there}
select cycle, name as operator, here as count, there as count_there from cpu_differences('{here}', '{there}', '{part}')

-- check: {name}
-- code: I101
-- each: name, there, part = framework_types_are_occurrences, cpu_op_type_info, op_type;
--   framework_names_are_occurrences, cpu_op_detail_info, op_name
-- needs: cpu_framework, {there}
-- in: cpu_framework
-- about: Lines of cpu_framework of a type = type_occurrences, of a name = op_occurrences of that op_name, over all scopes. Only where
--   every line has a type: PyNative mode of 2.10 leaves types blank.
-- source: MindSpore 2.0 and 2.10, real output, names in graph mode
-- message: {operator}: {count} here, {count_there} in {there}
select cycle, name as operator, here as count, there as count_there
from cpu_differences('cpu_framework', '{there}', '{part}')
where cycle not in (select cycle from cpu_framework where op_type = '')

-- check: frequency_is_operators_of_a_type
-- code: I105
-- needs: cpu_op_detail_info, cpu_op_type_info
-- in: cpu_op_type_info
-- about: execution_frequency(per-step) = type_occurrences // op_occurrences of some operator of the type. It is no rate per step: a
--   type whose operators ran unequally often has the quotient of one of them.
-- source: MindSpore 2.0 and 2.10, real output (302 of 302 rows)
-- message: {type}: execution_frequency {frequency} here, but no operator of the type ran 1/{frequency} of its {times} times in
--   cpu_op_detail_info
with counts as (select distinct cycle, op_type, op_occurrences as one from cpu_op_detail_info where op_occurrences > 0)
select cycle, row, op_type as type, any_value(type_occurrences) as times, any_value(execution_frequency_per_step) as frequency
from cpu_op_type_info join counts using (cycle, op_type)
group by cycle, row, op_type
having not bool_or(type_occurrences // one = execution_frequency_per_step)

-- check: type_totals_are_the_sum_of_details
-- code: I104
-- needs: cpu_op_detail_info, cpu_op_type_info
-- in: cpu_op_type_info
-- about: total_compute_time = sum of op_total_time(ms) of the type, where both count it equally often.
-- tolerance: relative 1.1e-5 (two prints of six digits) and what a float loses in adding; half a ns for each time
-- source: MindSpore 2.0 and 2.10, real output (6.6e-6 at most)
-- message: {type}: total {total_ns} ns here, its operators add up to {sum_ns} ns in cpu_op_detail_info
with sums as (
  select cycle, op_type, sum(op_occurrences) as count, sum(op_total_time_ns) as sum_ns, count(*) as terms
  from cpu_op_detail_info group by cycle, op_type)
select cycle, row, op_type as type, total_compute_time_ns as total_ns, sum_ns
from cpu_op_type_info join sums using (cycle, op_type)
where type_occurrences = count and cpu_differ(total_compute_time_ns, sum_ns, 1.1e-5, terms, terms + 1)

-- check: totals_are_the_sum_of_executions
-- code: I104
-- needs: cpu_op_detail_info, cpu_op_execute_timestamp
-- in: cpu_op_detail_info
-- about: op_total_time(ms) = sum of the durations of the operator's executions, where both count it equally often.
-- tolerance: relative 1.1e-5 (prints of six digits) and what a float loses in adding; half a ns for each time
-- source: MindSpore 2.0 and 2.10, real output (6.2e-6 at most)
-- message: {name}: total {total_ns} ns here, its executions add up to {sum_ns} ns in cpu_op_execute_timestamp
with sums as (
  select cycle, full_op_name, sum(duration_ns) as sum_ns, count(*) as terms from cpu_op_execute_timestamp group by cycle, full_op_name)
select cycle, row, full_op_name as name, op_total_time_ns as total_ns, sum_ns
from cpu_op_detail_info join sums using (cycle, full_op_name)
where op_occurrences = terms and cpu_differ(op_total_time_ns, sum_ns, 1.1e-5, terms, terms + 1)

-- check: {check}
-- code: I105
-- each: check, slot, name, times, total, average =
--   operator_averages_follow, cpu_op_detail_info, full_op_name, op_occurrences, op_total_time_ns, op_avg_time_ns;
--   type_averages_follow, cpu_op_type_info, op_type, type_occurrences, total_compute_time_ns, avg_time_ns
-- needs: {slot}
-- in: {slot}
-- about: Average * occurrences = total.
-- tolerance: relative 1.1e-5: two prints of six digits; half a ns for each time, of the average for each occurrence
-- source: MindSpore 2.0 and 2.10, real output (5.1e-6 at most)
-- message: {operator}: average {mean_ns} ns, but {total_ns} ns over {count} executions is {expected:.6g} ns
select cycle, row, {name} as operator, {times} as count, {average} as mean_ns, {total} as total_ns, {total} / {times} as expected
from {slot}
where cpu_differ({average}::double * {times}, {total}, 1.1e-5, 1, {times}::double + 1)

-- check: {check}
-- code: I105
-- each: check, slot, name, total, share =
--   operator_shares_follow, cpu_op_detail_info, full_op_name, op_total_time_ns, total_proportion;
--   type_shares_follow, cpu_op_type_info, op_type, total_compute_time_ns, percent
-- needs: {slot}
-- in: {slot}
-- about: A share is the total / the sum of all: a fraction, whatever the name of its column says.
-- tolerance: relative 1.6e-5 (three prints of six digits) and what a float loses in adding; half a ns for each time
-- source: MindSpore 2.0 and 2.10, real output (6.5e-6 at most)
-- message: {operator}: {share} {part:.6g}, but {total_ns} of {all_ns} ns is {expected:.6g}
select cycle, row, {name} as operator, {share} as part, {total} as total_ns, all_ns, {total} / all_ns as expected
from {slot} join (
  select cycle, sum({total}) as all_ns, count(*) as terms from {slot} group by cycle having sum({total}) > 0) using (cycle)
where cpu_differ({share} * all_ns, {total}, 1.6e-5, terms, terms * {share} + 1)

-- check: {check}
-- code: I105
-- each: check, slot, total, share = operator_shares_follow, cpu_op_detail_info, op_total_time_ns, total_proportion;
--   type_shares_follow, cpu_op_type_info, total_compute_time_ns, percent
-- needs: {slot}
-- in: {slot}
-- about: All shares add up to 1.
-- tolerance: 1.1e-5 and what a float loses in adding
-- source: MindSpore 2.0 and 2.10, real output (1.6e-6 at most)
-- message: {share} adds up to {shares:.6g}, not to 1
select cycle, sum({share}) as shares
from {slot}
group by cycle
having sum({total}) > 0 and abs(sum({share}) - 1) > 1.1e-5 + 3e-7 * sqrt(count(*))

-- check: {check}
-- code: I114
-- each: check, slot, name = operators_are_listed_once, cpu_op_detail_info, full_op_name;
--   types_are_listed_once, cpu_op_type_info, op_type
-- needs: {slot}
-- in: {slot}
-- about: {name} is unique in {slot} (op_name is not).
-- source: MindSpore 2.0 and 2.10, real output
-- message: {operator}: a row above has it, too
select cycle, row, {name} as operator from {slot} qualify row_number() over (partition by cycle, {name} order by row) > 1

-- check: operators_have_one_line_of_timestamps
-- code: I114
-- needs: cpu_op_execute_timestamp
-- in: cpu_op_execute_timestamp
-- about: All executions of an operator are in one line.
-- source: MindSpore 2.0 and 2.10, real output
-- message: {name}: a line above has executions of it, too
select cycle, row, name
from (select distinct cycle, row, full_op_name as name from cpu_op_execute_timestamp)
qualify row_number() over (partition by cycle, name order by row) > 1

-- check: names_are_parts_of_the_full_name
-- code: I114
-- headline: a name is not the end of its full name
-- needs: cpu_op_detail_info
-- in: cpu_op_detail_info
-- about: op_name is the end of full_op_name behind its last slash, op_type is op_name up to its last hyphen.
-- source: MindSpore 2.0: data_saver.cc, OpDetailInfo; real output of 2.0 and 2.10
-- message: op_name {op_name} and op_type {op_type} are not the end of full_op_name {full_op_name}
select cycle, row, op_name, op_type, full_op_name
from (select *, regexp_replace(full_op_name, '^.*/', '') as ending from cpu_op_detail_info)
where op_name <> ending or op_type <> regexp_replace(ending, '-[^-]*$', '')

-- check: operators_are_of_one_process
-- code: I113
-- headline: operators ran in several processes
-- needs: cpu_op_detail_info
-- in: cpu_op_detail_info
-- about: The same pid in every row: one process writes one file.
-- source: MindSpore 2.0 and 2.10, real output
-- message: {name}: it ran in process {pid}, other operators in {usual}
with processes as (
  select cycle, pid as usual
  from cpu_op_detail_info
  group by cycle, pid
  qualify row_number() over (partition by cycle order by count(*) desc, min(row)) = 1)
select cycle, row, full_op_name as name, pid, usual from cpu_op_detail_info join processes using (cycle) where pid <> usual

-- check: memory_record_is_in_order
-- code: I106
-- needs: cpu_ms_memory_record
-- in: cpu_ms_memory_record
-- about: Timestamps do not go back: earlier cycles come first, and all is in order.
-- source: MindSpore 2.10, real output
-- message: a record of {timestamp_ns} ns comes after one of {before_ns} ns
select cycle, row, timestamp_ns, before_ns
from (select *, lag(timestamp_ns) over (partition by cycle order by row) as before_ns from cpu_ms_memory_record)
where timestamp_ns < before_ns

-- check: memory_in_use_was_reserved
-- code: I107
-- needs: cpu_ms_memory_record
-- in: cpu_ms_memory_record
-- about: Total Allocated <= Total Reserved. Not checked where nothing was ever reserved: MindSpore 2.10 beside MindFormers, whose
--   allocator reserves nothing ahead.
-- source: MindSpore 2.10, real output
-- message: {allocated} bytes are allocated, only {reserved} are reserved
select cycle, row, total_allocated_bytes as allocated, total_reserved_bytes as reserved
from cpu_ms_memory_record
where total_allocated_bytes > total_reserved_bytes
  and cycle in (select cycle from cpu_ms_memory_record group by cycle having max(total_reserved_bytes) <> 0)

-- check: memory_is_of_the_pools_grain
-- code: I107
-- invariant: values_are_possible
-- layouts: ms-2.5+cpu
-- needs: cpu_ms_memory_record
-- in: cpu_ms_memory_record
-- about: Every amount is a multiple of 512 bytes, which the pool gives out.
-- source: MindSpore 2.10 on a CPU, real output
-- message: not every amount is a multiple of 512 bytes: allocated {allocated}, reserved {reserved}, active {active}
select cycle, row, total_allocated_bytes as allocated, total_reserved_bytes as reserved, total_active_bytes as active
from cpu_ms_memory_record
where allocated % 512 <> 0 or reserved % 512 <> 0 or active % 512 <> 0

-- check: memory_is_of_the_pools_grain
-- invariant: memory_adds_up
-- about: On a CPU what is allocated is active. A device may keep memory active that is no longer allocated.
-- message: {allocated} bytes are allocated, {active} are active: on a CPU they are the same
select cycle, row, total_allocated_bytes as allocated, total_active_bytes as active
from cpu_ms_memory_record
where allocated <> active and allocated % 512 = 0 and total_reserved_bytes % 512 = 0 and active % 512 = 0

-- check: memory_record_is_of_these_executions
-- code: I113
-- needs: cpu_ms_memory_record, cpu_op_execute_timestamp
-- in: cpu_ms_memory_record
-- about: Some record is within a second of the executions, or the file is of another run. It may begin long before: MindSpore 2.10
--   writes the records of earlier cycles once more. Compared only where both files tell UNIX time (from 1e18 ns on, which is 2001).
-- tolerance: 1 s
-- source: MindSpore 2.10, real output
-- message: its records are of {first_record_ns} to {last_record_ns} ns, the executions in cpu_op_execute_timestamp of {first_ns} to
--   {last_ns} ns: it is of another run
with executions as (
  select cycle, min(start_ns) as first_ns, max(start_ns::hugeint + duration_ns) as last_ns from cpu_op_execute_timestamp group by cycle)
select cycle, min(timestamp_ns) as first_record_ns, max(timestamp_ns) as last_record_ns, first_ns, last_ns
from cpu_ms_memory_record join executions using (cycle)
where first_ns >= 1000000000000000000
group by cycle, first_ns, last_ns
having min(timestamp_ns) >= 1000000000000000000
  and not bool_or(timestamp_ns between first_ns - 1000000000 and last_ns + 1000000000)

-- check: executions_are_in_order
-- code: I106
-- needs: cpu_op_execute_timestamp
-- in: cpu_op_execute_timestamp
-- about: Starts do not go back in the line of an operator, and no execution begins before the one before it has ended.
-- tolerance: 1 us for the end (the clock), and half of the sixth digit of its duration
-- source: MindSpore 2.0 and 2.10, real output
-- message: {name}: an execution begins at {start_ns} ns, the one before it at {before_ns} ns, and it took {took_ns} ns
select cycle, row, name, start_ns, before_ns, took_ns
from (
  select cycle, row, full_op_name as name, start_ns, lag(start_ns) over line as before_ns, lag(duration_ns) over line as took_ns
  from cpu_op_execute_timestamp
  window line as (partition by cycle, row order by rowid))
where start_ns < before_ns or start_ns < before_ns::hugeint + took_ns - 1000 - took_ns * 5e-6

-- check: {check}
-- code: I101
-- headline: a summary does not count what the files list
-- needs: cpu_timeline_summary_totals, {table}
-- in: cpu_timeline_summary_totals
-- at: $.{key}
-- each: check, key, table, counted = timeline_summary_counts_operators, num_of_ops, cpu_op_detail_info, count(*);
--   timeline_summary_counts_operators, op_exe_times, cpu_op_detail_info, sum(op_occurrences);
--   timeline_summary_counts_threads, num_of_streams, cpu_op_execute_timestamp, count(distinct thread);
--   timeline_summary_counts_operators, max_scope_name_num, cpu_op_execute_timestamp, max(scope_depth(full_op_name))
-- about: The summary of the timeline counts operators, their executions, the threads that ran them, and the depth of their scopes.
-- source: MindSpore 2.0: cpu_gpu_timeline_generator.py; real output
-- message: {here} here, {there} in {table}
select cycle, {key} as here, coalesce(counted, 0) as there
from cpu_timeline_summary_totals left join (select cycle, {counted} as counted from {table} group by cycle) as counts using (cycle)
where {key} <> coalesce(counted, 0)

-- check: timeline_summary_counts_operators
-- code: I104
-- needs: cpu_timeline_summary_totals, cpu_op_detail_info
-- in: cpu_timeline_summary_totals
-- at: $.total_time
-- about: Its time is that of all operators.
-- tolerance: 1.1e-5 of it: two prints of six digits; what a float loses in adding; half of a ns for each operator
-- source: MindSpore 2.0: cpu_gpu_timeline_generator.py; real output (2e-6 at most)
-- message: {here_ms:.6g} ms here, the operators in cpu_op_detail_info add up to {there_ms:.6g} ms
select cycle, total_time_ns / 1e6 as here_ms, there_ns / 1e6 as there_ms
from cpu_timeline_summary_totals
join (
  select cycle, sum(op_total_time_ns)::double as there_ns, count(*) as operators
  from cpu_op_detail_info group by cycle) as sums using (cycle)
where cpu_differ(total_time_ns, there_ns, 0.000011, operators, operators + 1)

-- check: timeline_events_are_executions
-- code: I103
-- headline: the timeline and cpu_op_execute_timestamp differ
-- needs: cpu_timeline_display, cpu_op_execute_timestamp
-- in: cpu_timeline_display
-- about: HostCpuOps threads have as many events of a name as there are executions of the operators whose names end in it.
-- source: MindSpore 2.0: base_timeline_generator.py, cpu_gpu_timeline_generator.py; real output
-- message: {name}: {here} here, {there} in cpu_op_execute_timestamp
with here as (select cycle, name, count(*) as count from timeline_events group by cycle, name),
there as (select cycle, name, count(*) as count from timed_executions group by cycle, name)
select cycle, name, coalesce(here.count, 0) as here, coalesce(there.count, 0) as there
from here full join there using (cycle, name)
where coalesce(here.count, 0) <> coalesce(there.count, 0)

-- check: timeline_events_are_executions
-- about: Events have the times of the executions, the n-th of a name in time those of the n-th.
-- tolerance: 1 ns, or 0.5 us where the clock is UNIX time (a 64-bit float); half of the sixth digit of a duration
-- message: {name}: {duration_us:.3f} us from {start_ns} ns here, {duration_there_us:.3f} us from {start_there_ns} ns in
--   cpu_op_execute_timestamp
select cycle, row, name, here.duration_ns / 1e3 as duration_us, here.start_ns, there.duration_ns / 1e3 as duration_there_us,
  there.start_ns as start_there_ns
from timeline_events as here join timed_executions as there using (cycle, name, nth, times)
where abs(here.start_ns::hugeint - there.start_ns) > 1 + abs(there.start_ns) * power(2, -51)
  or abs(here.duration_ns::hugeint - there.duration_ns) > 1 + there.duration_ns * 1e-9

-- check: timeline_lanes_are_made_of_executions
-- code: I103
-- headline: the timeline and cpu_op_execute_timestamp differ
-- needs: cpu_timeline_display, cpu_op_execute_timestamp
-- in: cpu_timeline_display
-- about: The lane of merged computation has an event for each execution that begins after all before it.
-- tolerance: gaps under 2 ns, or 0.8 us where the clock is UNIX time (a 64-bit float)
-- source: MindSpore 2.0: base_timeline_generator.py; real output
-- message: the lane of merged computation has {merged} events, but the executions in cpu_op_execute_timestamp make {expected}
select cycle, merged, if(least = most, least || '', least || ' to ' || most) as expected
from timeline_lanes join merged_executions using (cycle)
where merged not between least and most

-- check: timeline_lanes_are_made_of_executions
-- about: The lane of free time has an event between every two of merged computation.
-- message: the lane of free time has {free} events, but {gaps} lie between the {merged} of merged computation
select cycle, free, merged - 1 as gaps, merged
from timeline_lanes join merged_executions using (cycle)
where merged between least and most and free <> merged - 1

-- check: timeline_steps_are_ends_of_steps
-- code: I108
-- needs: cpu_timeline_display, cpu_op_execute_timestamp
-- in: cpu_timeline_display
-- about: The Steps lane has an event for each execution of the operator that ends a step. In graph mode that is the number of steps.
-- source: MindSpore 2.0: base_timeline_generator.py; real output
-- message: the Steps lane has {steps} events, but {name}, which ends a step, ran {ends} times in cpu_op_execute_timestamp
select cycle, steps, name, len(list_filter(names, lambda one: one = name)) as ends
from timeline_lanes join step_ends using (cycle)
where steps <> ends

-- check: timeline_is_of_the_rank
-- code: I113
-- headline: a file is of another rank
-- needs: cpu_timeline_display
-- in: cpu_timeline_display
-- about: Operators and steps have the rank of the file's name as their pid.
-- source: MindSpore 2.0: cpu_gpu_timeline_generator.py; real output of one and of two ranks
-- message: {events} operators and steps are of rank {pid}, but the file's name says {rank}
select cycle, '$[' || arg_min(row, (tid = '100000', row)) || '].pid' as path, count(*) as events,
  arg_min(pid, (tid = '100000', row)) as pid, rank
from cpu_timeline_display as events join files using (cycle)
where ph = 'X' and (tid = '100000' or starts_with(tid, 'HostCpuOps')) and files.slot = 'cpu_timeline_display' and pid <> rank::varchar
group by cycle, rank

-- check: timeline_lanes_begin_and_end_with_executions
-- code: I103
-- headline: the timeline and cpu_op_execute_timestamp differ
-- needs: cpu_timeline_display, cpu_op_execute_timestamp
-- in: cpu_timeline_display
-- about: A step, a scope, and merged computation begin where an operator begins and end where one ends, of a scope one that is in it, at
--   that depth. Free time begins where one ends, and ends where one begins.
-- tolerance: 2 ns, or 1 us where the clock is UNIX time (a 64-bit float)
-- source: MindSpore 2.0: base_timeline_generator.py (_get_step_time_list, _get_scope_name_time_list, _get_merged_time_list)
-- message: {name} {does} at {time_ns} ns, where no operator{of_scope} {wants}
select cycle, row, name, does, time_ns, if(depth is null, '', ' of that scope at depth ' || depth) as of_scope, wants
from edges_met where next_ns is null or next_ns > most_ns

-- check: a_record_of_memory_is_written_once
-- code: I114
-- headline: a row is written twice
-- needs: cpu_ms_memory_record
-- in: cpu_ms_memory_record
-- about: A record is one event at its nanosecond: a row that repeats the row above is written twice. Where all times are whole multiples of 100 ns the
--   clock is coarse (macOS, Windows), and fewer than one in ten may be events within one tick.
-- source: MindSpore 2.3 to 2.10: dynamic_mem_pool.cc, mem_dynamic_allocator.cc (RecordMemoryPoolInfo, once an allocation or a release, under the lock
--   of the pool); real output of 2.10 (in 22 files no two records within 270 ns)
-- message: {same} of {rows} records repeat the one above, the first at {timestamp_ns} ns
select cycle, file, min(row) filter (is_same) as row, count(*) filter (is_same) as same, count(*) as rows,
  min(timestamp_ns) filter (is_same) as timestamp_ns
from (
  select *, (timestamp_ns, total_allocated_bytes, total_reserved_bytes, total_active_bytes)
    = lag((timestamp_ns, total_allocated_bytes, total_reserved_bytes, total_active_bytes)) over (partition by cycle, file order by row)
    as is_same
  from cpu_ms_memory_record)
group by cycle, file
having same >= if(bool_or(timestamp_ns % 100 <> 0), 1, greatest(2, rows / 10))

-- check: executions_lie_in_the_window_of_the_log
-- code: I113
-- headline: an execution is outside of the window
-- invariant: inside_the_window
-- layouts: ms-2.5+cpu
-- needs: cpu_op_execute_timestamp, log_lines
-- in: cpu_op_execute_timestamp
-- about: Operators run between `CpuProfiler start.`, written before the profiler records, and `CpuProfiler stop.`, written before it ends. A log tells
--   local time, whose distance from UNIX time is a multiple of 15 minutes: times are compared within these. Not where the window is longer, and
--   only where the executions tell UNIX time (from 1e18 ns on).
-- tolerance: 10 s: a log tells whole seconds, a clock may be set
-- source: MindSpore 2.7 to 2.10: cpu_profiler.py (start, stop), log.py; real output, all of 105 windows within 1 s
-- message: {name} runs from {start_ns} to {end_ns} ns, {off_s:.6g} s away from the window that the log tells of, from {began} to {stopped}
with marks as (
  select cycle, word, count(*) as times, any_value(told) as told
  from (
    select cycle, regexp_extract(line, '\] CpuProfiler (start|stop)\.', 1) as word,
      try_strptime(regexp_extract(line, '^\[(\d{4}-\d{2}-\d{2}-\d{2}:\d{2}:\d{2})\]', 1), '%Y-%m-%d-%H:%M:%S') as told
    from log_lines)
  where word <> '' group by all),
windows as (
  select began.cycle, began.told as began, stopped.told as stopped, epoch(began.told)::bigint as began_s,
    epoch(stopped.told)::bigint - epoch(began.told)::bigint as lasts_s
  from marks as began join marks as stopped on stopped.cycle = began.cycle
  where began.word = 'start' and stopped.word = 'stop' and began.times = 1 and stopped.times = 1
    and epoch(stopped.told) - epoch(began.told) between 0 and 600),
placed as (
  select cycle, row, full_op_name as name, start_ns, start_ns::hugeint + duration_ns as end_ns, began, stopped, lasts_s,
    (start_ns / 1e9 - began_s + 10) - 900 * floor((start_ns / 1e9 - began_s + 10) / 900) - 10 as since_s
  from cpu_op_execute_timestamp join windows using (cycle)
  where start_ns >= 1000000000000000000)
select cycle, row, name, start_ns, end_ns, least(since_s + (end_ns - start_ns) / 1e9 - lasts_s, 900 - since_s) as off_s, began::varchar as began,
  stopped::varchar as stopped
from placed where since_s + (end_ns - start_ns) / 1e9 > lasts_s + 11

-- check: peaks_of_memory_are_recorded_twice
-- code: I107
-- layouts: ms-2.5+cpu
-- needs: cpu_ms_memory_record, cpu_op_execute_timestamp
-- in: cpu_ms_memory_record
-- about: The pool records its total behind an allocation, and before a release. So a rise ends in an allocation, a fall begins with a release, and
--   records of one total are of both in turn: where the total rises before them and falls behind them they are even in number. Compared only within
--   the executions: before them are records of earlier cycles.
-- source: MindSpore 2.3 to 2.10: mem_dynamic_allocator.cc (AllocTensorMem, CombineMemBuf); real output of 2.10, 407 peaks in 32 files
-- message: {times} records of {allocated} bytes from {timestamp_ns} ns on lie between a rise and a fall, which takes an even number: one is lost
with windows as (
  select cycle, min(start_ns) as first_ns, max(start_ns::hugeint + duration_ns) as last_ns
  from cpu_op_execute_timestamp group by cycle having min(start_ns) >= 1000000000000000000),
records as (
  select cycle, file, row, timestamp_ns, total_allocated_bytes as allocated,
    total_allocated_bytes is distinct from lag(total_allocated_bytes) over (partition by cycle, file order by row) as is_other
  from cpu_ms_memory_record join windows using (cycle) where timestamp_ns between first_ns and last_ns),
numbered as (
  select *, sum(is_other::integer) over (partition by cycle, file order by row rows unbounded preceding) as number from records),
levels as (
  select cycle, file, number, min(row) as row, min(timestamp_ns) as timestamp_ns, any_value(allocated) as allocated, count(*) as times
  from numbered group by cycle, file, number)
select cycle, file, row, timestamp_ns, allocated, times
from (
  select *, lag(allocated) over (partition by cycle, file order by number) as before, lead(allocated) over (partition by cycle, file order by number) as after
  from levels)
where before < allocated and after < allocated and times % 2 = 1
