-- What must hold in the flat files of MindSpore 1.x to 2.4, and between them.

-- check: step_parts_add_up
-- code: I108
-- layouts: {layouts}
-- each: layouts, slack_ns = ms-1.x, 0; ms-2.0 ms-2.1 ms-2.3, 50
-- needs: step_trace_raw
-- in: step_trace_raw
-- about: Total = end - start = interval + fp_and_bp + tail, and every part is the distance of its points. In inference there is no
--   bp_point: fp = end - fp_point.
-- tolerance: none up to 2.0. MindSpore since 2.1 cuts each number off on its own: 5 ticks of 10 ns
-- source: real output (405 steps of 10 files, no exception); MindSpore 2.0: step_trace_parser.py; MindSpore 2.1:
--   ascend_steptrace_generator.py
-- message: step {step}: {part} is {here_ns} ns, but {parts} is {there_ns} ns
select cycle, row, step, part, here_ns, parts, there_ns
from step_parts where abs(here_ns - there_ns) > if(cycle in (from cycles_up_to_2_0), 0, {slack_ns})

-- check: communication_in_steps_lasts_from_start_to_end
-- code: I109
-- layouts: {layouts}
-- each: layouts, slack_ns = ms-1.x, 0; ms-2.0 ms-2.1 ms-2.3, 50
-- needs: step_trace_raw_communication
-- in: step_trace_raw
-- about: A communication operator of a step lasts from its start_point to its end_point. Not checked for the average row.
-- tolerance: none up to 2.0, 5 ticks of 10 ns since 2.1
-- source: MindSpore 2.0: step_trace_parser.py; MindSpore 2.1: ascend_steptrace_generator.py; real output (up to 350 operators a step)
-- message: step {step}: {name} lasts {here_ns} ns, but it is {there_ns} ns from its start to its end
select cycle, row, step_num as step, name, duration_ns as here_ns, end_ns - start_ns::hugeint as there_ns
from step_communication join step_trace_raw using (cycle, row)
where is_a_step(step_num, fp_point_ns, bp_point_ns)
  and abs(here_ns - there_ns) > if(cycle in (from cycles_up_to_2_0), 0, {slack_ns})

-- check: a_communication_operator_has_three_columns
-- code: S102
-- needs: step_trace_raw_communication
-- in: step_trace_raw
-- about: A communication operator has its duration (`stream_<id>_<n>_<operator>`), its start_point and its end_point.
-- source: real output, ten files
-- message: column '{missing}' is missing: a communication operator has three
select cycle, 1 as row, name || ending as missing
from (
  select cycle, name, case when count(duration_ns) = 0 then '' when count(start_ns) = 0 then '_start_point'
    when count(end_ns) = 0 then '_end_point' end as ending
  from step_communication group by cycle, name)
where ending is not null

-- check: steps_follow_each_other
-- code: I108
-- needs: step_trace_raw
-- in: step_trace_raw
-- about: There is a step besides the average.
-- message: it has the average row, and no step
select cycle from step_lines where rows = 1

-- check: steps_follow_each_other
-- about: Steps are numbered one by one.
-- source: real output, ten files
-- message: step {step} follows step {before}
select cycle, row, step_num as step, before from step_lines where place < rows and rows >= 3 and step_num <> before::hugeint + 1

-- check: steps_follow_each_other
-- about: The last row is the average, and no other is.
-- message: only the last row, the average, has no number
select cycle, row from step_lines where place < rows and rows >= 3 and step_num is null

-- check: steps_follow_each_other
-- code: I106
-- about: Steps start one after the other. Rows that the writer could not fill are zeros.
-- message: step {step} starts at {start_ns} ns, before the one that it follows, which starts at {earlier_ns} ns
select cycle, row, step_num as step, start_point_ns as start_ns, earlier_ns
from step_lines
where place < rows and rows >= 3 and start_point_ns < earlier_ns and start_point_ns > 0

-- check: steps_have_their_average
-- code: I108
-- layouts: ms-1.x, ms-2.0
-- needs: step_trace_raw
-- in: step_trace_raw
-- about: The last row is the average: it has no number, up to 1.3 the number 0.
-- source: MindSpore 1.x and 2.0: step_trace_parser.py (_record_average_info)
-- message: the last row is step {step}: the average is missing, and maybe steps before it
select cycle, row, step_num as step from step_lines where place = rows and step_num > 0

-- check: steps_have_their_average
-- needs: files
-- about: A file without steps is not written.
-- message: it has no row
select cycle from files
where slot = 'step_trace_raw' and file is not null and cycle not in (select cycle from step_trace_raw)

-- check: parts_of_a_step_are_those_of_the_trace
-- code: I108
-- layouts: ms-1.x
-- needs: ascend_cluster_analyse, step_trace_raw
-- in: ascend_cluster_analyse
-- each: part = iteration_interval; fp_and_bp; tail
-- about: In the form of data parallel training, rows are the steps of step_trace_raw: interval, forward and backward, tail. Exact.
-- source: real output of MindSpore 1.x
-- message: {part} is {here_ns} ns, in step_trace_raw it is {there_ns} ns
with listed as (
  select cycle, file, row, {part}_ns as here_ns, row_number() over (partition by cycle, file order by row) as place,
    count(*) over (partition by cycle, file) as rows
  from ascend_cluster_analyse)
select listed.cycle, listed.file, listed.row, here_ns, {part}_ns as there_ns
from listed join step_lines on step_lines.cycle = listed.cycle and step_lines.place = listed.place and step_lines.rows = listed.rows + 1
where here_ns <> {part}_ns

-- check: parts_of_a_step_are_those_of_the_trace
-- about: A reader finds step n in row n, and in the last row the mean, if there is one: there are as many rows as steps, or one more.
-- source: MindInsight 1.x: cluster step trace analyser; real output of MindSpore 1.x
-- message: it has {rows} rows, step_trace_raw has {steps} steps
select cycle, rows, steps
from (
  select cycle, count(*) as rows from ascend_cluster_analyse where fp_and_bp_ns is not null group by cycle, file)
join (select cycle, count(*) - 1 as steps from step_lines group by cycle) using (cycle)
where steps > 0 and rows not in (steps, steps + 1)

-- check: averages_of_a_cluster_follow
-- code: I105
-- layouts: ms-1.x, ms-2.0
-- needs: ascend_cluster_analyse
-- in: ascend_cluster_analyse
-- each: column = computation_time; communication_alone_time; stage_time; receive_alone_time; collective_communication_alone_time
-- about: Of several steps the last row is the mean over all but the first.
-- tolerance: 110 ns: four decimals of a ms
-- source: MindSpore 1.7 to 2.0: ascend_timeline_generator.py, cpu_gpu_timeline_generator.py (_get_cluster_timeline)
-- message: {column} is {here_ns} ns in the last row, the steps from the second on make {there_ns}
select cycle, file, row, here_ns, coalesce(there_ns || ' ns', 'no mean') as there_ns
from (
  select cycle, file, max(row) as row, arg_max({column}_ns, row) as here_ns,
    round(avg({column}_ns) filter (place > 1 and place < rows))::bigint as there_ns
  from (
    select *, row_number() over (partition by cycle, file order by row) as place, count(*) over (partition by cycle, file) as rows
    from ascend_cluster_analyse where {column}_ns is not null)
  where rows > 1 group by cycle, file)
where coalesce(abs(here_ns - there_ns) > 110, true)

-- check: cluster_times_add_up
-- code: I109
-- needs: ascend_cluster_analyse
-- in: ascend_cluster_analyse
-- each: whole, part = communication_alone_time, receive_alone_time; stage_time, computation_time
-- about: Communication alone = receive + collective communication; stage = computation + collective communication. Only the files of
--   pipeline parallel training have these columns.
-- tolerance: 160 ns: three numbers with four decimals of a ms meet
-- source: MindSpore 2.0: ascend_timeline_generator.py; real output
-- message: {whole} is {here_ns} ns, but {part} + collective_communication_alone_time is {there_ns} ns
select cycle, file, row, {whole}_ns as here_ns, {part}_ns + collective_communication_alone_time_ns as there_ns
from ascend_cluster_analyse
where abs(here_ns - there_ns) > 160

-- check: communication_is_listed_step_by_step
-- code: I106
-- needs: hccl_raw
-- in: hccl_raw
-- about: Rows of hccl_raw are in the order of their steps, each once; the last, numbered -, is no step.
-- source: real output
-- message: step {step} follows step {before}
select cycle, row, step_num as step, before
from (select cycle, row, step_num, lag(step_num) over (partition by cycle order by row) as before from hccl_raw)
where step_num <= before

-- check: communication_costs_add_up
-- code: I109
-- layouts: {layouts}
-- each: layouts, unit_ns, since_2_1 = ms-1.x, 1000000, false; ms-2.0, 1000000, cycle in (from copied_steps); ms-2.1 ms-2.3, 1000, true
-- needs: hccl_raw
-- in: hccl_raw
-- about: The costs of a step are the sums over its operators; from 2.1 on communication_cost also holds what belongs to no operator. Up
--   to 2.0 it is the time of the main stream: at most that of all links. Since 2.1 they are not in its unit.
-- tolerance: relative 1e-6, and 1 ns
-- source: MindSpore 2.0: hccl_parser.py; MindSpore 2.1: ascend_hccl_generator.py; real output of 2.0
-- message: step {step}: {part} is {here_ns} ns, that of its {parts} {there_ns:.0f} ns together
select cycle, row, '$.' || part as path, step_num as step, part, here_ns, parts, there_ns
from (
  select cycle, row, step_num, unnest(['communication_cost', 'wait_cost', 'communication_cost']) as part,
    unnest(['operators', 'operators', 'links']) as parts, unnest([if({since_2_1}, -1, 0), 0, 1]) as wrong,
    unnest([communication_cost_ns, wait_cost_ns, communication_cost_ns]) as here_ns,
    unnest([json_sum(communication_operator_cost, '$.*[1]'), json_sum(communication_operator_cost, '$.*[2]'),
      if({since_2_1} or link_info = '{}', null, json_sum(link_info, '$.*.*[0]'))]) * {unit_ns} as there_ns
  from hccl_steps)
where abs(here_ns - there_ns) > 1 + 0.000001 * greatest(here_ns, there_ns) and wrong in (0, sign(here_ns - there_ns))

-- check: communication_costs_add_up
-- layouts: {layouts}
-- each: layouts, since_2_1 = ms-1.x, false; ms-2.0, cycle in (from copied_steps); ms-2.1 ms-2.3, true
-- about: Time and size of a link are the sums over the operators. MindSpore since 2.1 pairs RDMA events within whatever it looks at, so
--   the parts have others than the whole.
-- tolerance: relative 1e-6
-- message: step {step}: {what} {here:.6g} on link {pair} ({kind}), the operators add up to {there:.6g}
select cycle, row, '$.link_info' as path, step_num as step, what, pair, kind, here.amount as here, coalesce(there.amount, 0) as there
from hccl_links as here join hccl_steps using (cycle, row)
left join (
  select cycle, row, pair, kind, what, sum(amount) as amount from hccl_links where of_operator group by all) as there
  using (cycle, row, pair, kind, what)
where not of_operator and (kind = 'SDMA' or not {since_2_1})
  and abs(here.amount - coalesce(there.amount, 0)) > 1e-9 + 0.000001 * greatest(here.amount, there.amount)

-- check: communication_costs_add_up
-- layouts:
-- about: An operator says of which step it is.
-- message: step {step}: {name} says that it is of step {its_step}
select cycle, row, '$.communication_operator_cost' as path, step_num as step, name, step as its_step
from hccl_operators where step <> step_num::varchar

-- check: average_of_communication_follows
-- code: I105
-- layouts: {layouts}
-- each: layouts, since_2_1 = ms-1.x, false; ms-2.0, cycle in (from copied_steps); ms-2.1 ms-2.3, true
-- needs: hccl_raw
-- in: hccl_raw
-- about: The last row (`-`) has the mean costs of all steps up to 2.0, and is the last step once more from 2.1 on.
-- tolerance: relative 1e-6, and 1 ns
-- source: MindSpore 2.0: hccl_parser.py; MindSpore 2.1: ascend_hccl_generator.py; real output of 2.0
-- message: the average of {part} is {here_ns} ns, the {steps} steps make {there_ns:.0f} ns
select cycle, row, '$.' || part as path, part, here_ns, steps, there_ns
from (
  select cycle, row, unnest(['communication_cost', 'wait_cost']) as part, unnest([communication_cost_ns, wait_cost_ns]) as here_ns,
    unnest(if({since_2_1}, last_ns, mean_ns)) as there_ns, steps
  from hccl_raw
  join (
    select cycle, count(*) as steps, [avg(communication_cost_ns), avg(wait_cost_ns)] as mean_ns,
      arg_max([communication_cost_ns::double, wait_cost_ns], row) as last_ns
    from hccl_steps group by cycle) using (cycle)
  where step_num is null)
where abs(here_ns - there_ns) > 1 + 0.000001 * greatest(here_ns, there_ns)

-- check: device_shares_follow
-- code: I105
-- needs: aicore_intermediate_type
-- in: aicore_intermediate_type
-- about: The shares of all types add up to the whole: 100 up to 2.0, 1 from 2.1 on. MindSpore 2.0 divides by more than the time of
--   all, so there they add up to less.
-- tolerance: half of the second decimal of a percent, 1e-6 of a fraction, for each type; what times in whole ns cost
-- source: MindSpore 1.x and 2.0: integrator.py; MindSpore 2.1: ascend_op_generator.py; real output of 1.x
-- message: percent adds up to {shares:.6g}, not to {expected:.6g}
select cycle, shares, whole * total_ns / base_ns as expected
from share_bases
where abs(shares - expected) > slack * types + whole * rounded_ns / base_ns

-- check: device_shares_follow
-- about: Percent = the time of the type / the time of all; in 2.0 / that plus the mean of every operator once more.
-- tolerance: half of the second decimal of a percent, 1e-6 of a fraction; what times in whole ns cost
-- message: {type}: percent is {share:.6g}, but {total_ns} of {base_ns:.0f} ns is {expected:.6g}
select cycle, row, type, share, device_types.total_ns, base_ns, device_types.whole * device_types.total_ns / base_ns as expected
from device_types join share_bases using (cycle)
where abs(share - expected) > device_types.slack + device_types.whole * (0.5 + rounded_ns * device_types.total_ns / base_ns) / base_ns

-- check: device_types_are_the_sum_of_details
-- code: I101
-- layouts: ms-1.x, ms-2.0
-- needs: aicore_intermediate_type, aicore_intermediate_detail, framework_raw
-- in: aicore_intermediate_type
-- about: The frequency of a type is the sum over the operators that framework_raw says are of it. Before 2.0 an operator counts once,
--   in 2.0 as often as it ran. From 2.1 on one is of msprof's op_statistic, the other of its op_summary.
-- source: MindSpore 1.x and 2.0: integrator.py; real output of 1.x
-- message: {type}: frequency {times} here, {count} in the details
select cycle, row, type, times, count from type_sums where not is_counted

-- check: device_types_are_the_sum_of_details
-- code: I104
-- about: The time of a type is the sum over its operators: of their means before 2.0, of all executions in 2.0.
-- tolerance: relative 1e-6, and 1 ns; half a ns for each mean that is counted
-- message: {type}: {total_ns} ns here, its operators in the details add up to {sum_ns:.0f} ns
select cycle, row, type, total_ns, sum_ns
from type_sums
where is_counted and abs(total_ns - sum_ns) > 1.5 + 0.5 * times + 0.000001 * sum_ns

-- check: device_operators_are_listed_once
-- code: I114
-- needs: aicore_intermediate_detail
-- in: aicore_intermediate_detail
-- about: An operator has one row in aicore_intermediate_detail.
-- source: MindSpore 2.0: integrator.py; real output
-- message: {name}: a row above has it, too
select cycle, row, name
from (select cycle, row, name, row_number() over (partition by cycle, name order by row) as time from aicore_intermediate_detail)
where time > 1

-- check: device_types_are_listed_once
-- code: I114
-- needs: aicore_intermediate_type
-- in: aicore_intermediate_type
-- about: A type has one row in aicore_intermediate_type.
-- source: MindSpore 2.0: integrator.py; real output
-- message: {type}: a row above has it, too
select cycle, row, type
from (select cycle, row, type, row_number() over (partition by cycle, type order by row) as time from aicore_intermediate_type)
where time > 1

-- check: device_operators_are_of_the_graph
-- code: I101
-- headline: an operator is in one table only
-- needs: aicore_intermediate_detail, framework_raw
-- in: aicore_intermediate_detail
-- about: Every operator of aicore_intermediate_detail is in framework_raw. Not checked where the type table has a blank type: then
--   MindSpore 2.0 itself says that it missed some.
-- source: MindSpore 2.0: integrator.py; MindSpore 2.1: ascend_op_generator.py; real output of 1.x
-- message: {name}: it ran, but it is not in framework_raw
select cycle, row, name
from aicore_intermediate_detail anti join framework_raw using (cycle, name)
where cycle not in (select cycle from aicore_intermediate_type where type = '')

-- check: device_times_are_those_of_the_timeline
-- code: I101
-- layouts: ms-1.x, ms-2.0
-- needs: aicore_intermediate_detail, output_timeline_data
-- in: aicore_intermediate_detail
-- about: The frequency of an operator (there is none before 2.0) is the number of its executions in output_timeline_data, and it has
--   one there. From 2.1 on the timeline holds AI Core operators only.
-- source: MindSpore 2.0: optime_parser.py; real output of 1.x
-- message: {name}: {times} executions here, {count} in output_timeline_data
select cycle, row, name, coalesce(times, 1) as times, count from timed_operators where not is_counted

-- check: device_times_are_those_of_the_timeline
-- code: I105
-- about: The time of an operator is the mean of its executions in output_timeline_data.
-- tolerance: relative 1e-6, and 2 ns
-- message: {name}: {mean_ns} ns here, its executions in output_timeline_data last {duration_ns:.0f} ns on average
select cycle, row, name, mean_ns, duration_ns
from timed_operators
where is_counted and abs(mean_ns - duration_ns) > 2 + 0.000001 * duration_ns

-- check: device_times_are_those_of_the_timeline
-- code: I101
-- in: output_timeline_data
-- about: Every operator of output_timeline_data is in the details.
-- message: {name}: {count} executions here, and it is not in the details
select cycle, name, count(*) as count
from output_timeline_data anti join aicore_intermediate_detail using (cycle, name)
group by cycle, name

-- check: device_timeline_is_in_order
-- code: I106
-- layouts: ms-1.x, ms-2.0
-- needs: output_timeline_data
-- in: output_timeline_data
-- about: Starts in output_timeline_data do not go back: the writer sorts.
-- source: MindSpore 2.0: optime_parser.py; real output of 1.x
-- message: {name}: it begins at {start_ns} ns, after one at {before_ns} ns
from timeline_breaks

-- check: device_timeline_is_in_order
-- severity: warning
-- layouts: ms-2.1, ms-2.3
-- about: The same. The order is that of msprof's op_summary since 2.1, so a break is only remarkable.
-- source: MindSpore 2.1: ascend_op_generator.py
-- message: {name}: it begins at {start_ns} ns, after one at {before_ns} ns
from timeline_breaks

-- check: aicpu_total_is_dispatch_and_execution
-- code: I104
-- layouts: ms-2.1, ms-2.3
-- needs: aicpu_intermediate
-- in: aicpu_intermediate
-- about: total_time = dispatch_time + execution_time. Older files break it throughout (7.9 ms of 0.15 and 0.22 ms).
-- tolerance: relative 1e-6, and 2 ns
-- source: MindSpore 2.1: ascend_op_generator.py
-- message: total_time is {total_ns} ns, but dispatch_time + execution_time is {sum_ns} ns
select cycle, row, total_time_ns as total_ns, dispatch_time_ns + execution_time_ns as sum_ns
from aicpu_intermediate
where abs(total_ns - sum_ns) > 2 + 0.000001 * sum_ns

-- check: aicpu_rows_are_numbered
-- code: I114
-- headline: the rows are not numbered through
-- needs: aicpu_intermediate
-- in: aicpu_intermediate
-- about: Rows are numbered 1, 2, 3 and so on.
-- source: MindSpore 2.0: aicpu_data_parser.py; MindSpore 2.1: ascend_op_generator.py; real output of 1.x
-- message: the number is {number} in row {nth}
select cycle, row, serial_number as number, nth
from (select cycle, row, serial_number, row_number() over (partition by cycle order by row) as nth from aicpu_intermediate)
where serial_number <> nth

-- check: aicpu_rows_are_numbered
-- code: I106
-- about: No execution ends before it begins.
-- message: it ends at {end_ns} ns, before it begins at {start_ns} ns
select cycle, row, run_start_ns as start_ns, run_end_ns as end_ns from aicpu_intermediate where run_end_ns < run_start_ns

-- check: aicpu_files_say_the_same
-- code: I114
-- needs: output_data_preprocess_aicpu, aicpu_intermediate
-- in: output_data_preprocess_aicpu
-- about: A number is there once.
-- source: real output of MindSpore 1.x
-- message: the number {number} is there a second time
select cycle, row, serial_number as number
from (
  select cycle, row, serial_number, row_number() over (partition by cycle, serial_number order by row) as time
  from output_data_preprocess_aicpu)
where time > 1

-- check: aicpu_files_say_the_same
-- code: I101
-- headline: executions are missing
-- about: Every execution of aicpu_intermediate is there.
-- message: {lost} executions of aicpu_intermediate are not here, the first is number {first}
select cycle, count(*) as lost, arg_min(serial_number, row) as first
from aicpu_intermediate anti join output_data_preprocess_aicpu using (cycle, serial_number)
group by cycle

-- check: aicpu_files_say_the_same
-- headline: an execution has other times in another file
-- each: column = total_time; dispatch_time; execution_time; run_start; run_end
-- about: Rows of output_data_preprocess_aicpu and aicpu_intermediate with one number are one execution: all that they share agrees.
-- tolerance: 1 ns
-- message: {column} is {here_ns} ns, in aicpu_intermediate it is {there_ns} ns
select here.cycle, here.row, here.{column}_ns as here_ns, there_ns
from output_data_preprocess_aicpu as here
join (select cycle, serial_number, arg_min({column}_ns, row) as there_ns from aicpu_intermediate group by all)
  using (cycle, serial_number)
where abs(here_ns - there_ns::hugeint) > 1

-- check: compute_times_are_the_details
-- code: I101
-- headline: operators are missing
-- layouts: ms-1.x, ms-2.0
-- needs: output_op_compute_time, aicore_intermediate_detail
-- in: output_op_compute_time
-- about: Every operator of the details is there; where more than one in ten is missing it is another set of operators.
-- source: real output of MindSpore 1.x
-- message: {gone} operators of aicore_intermediate_detail are not here: {names}
select cycle, gone, names
from (
  select cycle, count(distinct name) as gone, array_to_string(list_sort(list(distinct name))[:8], ', ') as names
  from aicore_intermediate_detail
  anti join output_op_compute_time as listed on listed.cycle = aicore_intermediate_detail.cycle and op_name = name
  group by cycle)
join (select cycle, count(distinct name) as operators from aicore_intermediate_detail group by cycle) using (cycle)
where gone <= 0.1 * operators

-- check: compute_times_are_the_details
-- code: I114
-- about: An operator is listed once. The last row is the total.
-- message: {name} is listed a second time
select cycle, row, name
from (
  select cycle, row, op_name as name, row_number() over (partition by cycle, op_name order by row) as time
  from output_op_compute_time)
where time > 1 and not regexp_full_match(name, 'total( op)?')

-- check: compute_times_are_the_details
-- code: I113
-- about: The file is of the run of the details, and in its unit: nine in ten operators have the time that they have there.
-- message: {off} of {known} operators have other times in aicore_intermediate_detail: another run, or another unit
select distinct cycle, off, known from compute_times where off > 0.1 * known

-- check: compute_times_are_the_details
-- code: I101
-- headline: an operator has another time in another file
-- about: compute_time of an operator = its execution_time in aicore_intermediate_detail.
-- tolerance: relative 1e-4 (six digits are printed, or those of a float), and 1 ns
-- message: {name}: {here_ns} ns here, {there_ns} ns in aicore_intermediate_detail
select cycle, row, name, here_ns, there_ns from compute_times where is_off and off <= 0.1 * known

-- check: flat_files_share_a_clock
-- code: I113
-- layouts: ms-1.x, ms-2.0
-- needs: {table}
-- in: {table}
-- each: table = step_trace_raw; output_format_data_hwts; aicpu_intermediate
-- about: Starts in output_timeline_data, aicpu_intermediate, step_trace_raw and the counter of the hardware are of the clock of the
--   device, and of one run: within an hour of each other. Later versions write another clock for AI CPU.
-- source: real output of MindSpore 1.x
-- message: its times are {first_s:.6g} to {last_s:.6g} s, those of {believed} {from_s:.6g} to {to_s:.6g} s
select cycle, first_ns / 1e9 as first_s, last_ns / 1e9 as last_s, believed, from_ns / 1e9 as from_s, to_ns / 1e9 as to_s
from device_clocks
where slot = '{table}' and not is_believed and (first_s > to_s + 3600 or last_s < from_s - 3600 or last_s - first_s > 86400)

-- check: gpu_averages_follow
-- code: I105
-- needs: {table}
-- in: {table}
-- each: table, times, total, average = gpu_op_detail_info, op_occurrences, op_total_time, op_avg_time;
--   gpu_op_type_info, type_occurrences, total_time, avg_time; gpu_activity_data, occurrences, total_duration, avg_duration
-- about: Average * count = total in the tables of operators, types and activities.
-- tolerance: relative 2e-5 (six digits are printed), and half a ns for each that is counted
-- source: MindSpore 2.0: gpu_data_saver.cc, data_saver.cc
-- message: {count} times {average_ns} ns is not the total, {total_ns} ns
select cycle, row, {times} as count, {average}_ns as average_ns, {total}_ns as total_ns
from {table}
where abs({times}::double * {average}_ns - {total}_ns) > 0.00002 * {total}_ns + 0.5 * ({times} + 1)

-- check: gpu_averages_follow
-- needs: gpu_activity_data
-- in: gpu_activity_data
-- about: The shortest execution of an activity is no longer than their average, and that no longer than the longest.
-- tolerance: relative 2e-5, and 1 ns
-- message: the shortest takes {least_ns} ns, the average is {average_ns} ns, the longest takes {most_ns} ns
select cycle, row, min_duration_ns as least_ns, avg_duration_ns as average_ns, max_duration_ns as most_ns
from gpu_activity_data
where least_ns > average_ns * 1.00002 + 1 or average_ns > most_ns * 1.00002 + 1

-- check: gpu_types_are_the_sum_of_details
-- code: I101
-- needs: gpu_op_type_info, gpu_op_detail_info
-- in: gpu_op_type_info
-- about: Occurrences of a type = the sum over its operators, and the types are the same.
-- source: MindSpore 2.0: gpu_data_saver.cc, data_saver.cc
-- message: {type}: {times} here, {count} in gpu_op_detail_info
select cycle, type, times, count from gpu_types where times <> count

-- check: gpu_types_are_the_sum_of_details
-- code: I104
-- about: The total of a type = the sum over its operators.
-- tolerance: relative 2e-5, and half a ns for each operator
-- message: {type}: {here_ns} ns here, {there_ns} ns in gpu_op_detail_info
select cycle, type, here_ns, there_ns
from gpu_types
where abs(here_ns - there_ns) > 0.00002 * there_ns + 0.5 * (operators + 1)

-- check: gpu_shares_follow
-- code: I105
-- needs: {table}
-- in: {table}
-- each: table, total = gpu_op_type_info, total_time; gpu_op_detail_info, op_total_time
-- about: total_proportion = the total of a row / the sum of all. In percent, or as a fraction: no real file was at hand.
-- tolerance: 2e-5 of the whole (six digits are printed), and what times in whole ns cost
-- source: MindSpore 2.0: gpu_data_saver.cc, data_saver.cc
-- message: total_proportion is {share:g}, {total_ns} of {sum_ns} ns is {expected:g}
with sums as (
  select cycle, sum({total}_ns) as sum_ns, count(*) as rows, if(sum(total_proportion) > 2, 100, 1) as whole
  from {table} group by cycle having sum({total}_ns) > 0)
select cycle, row, total_proportion as share, {total}_ns as total_ns, sum_ns, whole * {total}_ns / sum_ns as expected
from {table} join sums using (cycle)
where abs(share - expected) > whole * (0.00002 + 0.5 * (1 + rows * {total}_ns / sum_ns) / sum_ns)

-- check: gpu_timestamps_are_occurrences
-- code: I102
-- needs: gpu_op_execute_timestamp, gpu_op_detail_info
-- in: gpu_op_execute_timestamp
-- about: As many executions as op_occurrences, of the same operators.
-- source: MindSpore 2.0: gpu_data_saver.cc, data_saver.cc
-- message: {name}: {count} executions here, {times} in gpu_op_detail_info
select cycle, name, count, times from gpu_operators where times <> count

-- check: gpu_timestamps_are_occurrences
-- code: I104
-- about: The executions of an operator add up to its total.
-- tolerance: relative 2e-5 (six digits are printed), and half a ns for each
-- message: {name}: executions of {here_ns} ns here, {there_ns} ns in gpu_op_detail_info
select cycle, name, here_ns, there_ns
from gpu_operators
where times = count and abs(here_ns - there_ns) > 0.00002 * there_ns + 0.5 * (count + 1)

-- check: gpu_activities_are_their_executions
-- code: I102
-- needs: gpu_activity_data, activity_execute_timestamp
-- in: activity_execute_timestamp
-- about: Occurrences of an activity = its lines in activity_execute_timestamp, by name and stream.
-- source: MindSpore 2.0: gpu_data_saver.cc, data_saver.cc
-- message: {name}: {count} executions here, {times} in gpu_activity_data
select cycle, name, coalesce(count, 0) as count, coalesce(times, 0) as times from gpu_activities where not is_counted

-- check: gpu_activities_are_their_executions
-- code: I104
-- in: gpu_activity_data
-- each: column, words, rounded = total, total time, count + 1; most, longest time, 2; least, shortest time, 2
-- about: Total, longest and shortest time of an activity = those of its lines in activity_execute_timestamp.
-- tolerance: relative 2e-5 (six digits are printed), and half a ns for each
-- message: {name}: the {words} is {here_ns} ns, its executions in activity_execute_timestamp make {there_ns} ns
select cycle, name, {column}_ns as here_ns, {column}_there_ns as there_ns
from gpu_activities
where is_counted and abs(here_ns - there_ns) > 0.00002 * here_ns + 0.5 * ({rounded})

-- check: gpu_executions_lie_together
-- code: I113
-- headline: an execution is far from the times of the others
-- needs: gpu_op_execute_timestamp
-- in: gpu_op_execute_timestamp
-- about: All executions begin within a day of most others. The clock is that of a process, in ns.
-- source: MindSpore 2.0: gpu_data_saver.cc, data_saver.cc
-- message: {name} starts at {start_ns} ns, most others about {usual_ns:.0f} ns
select cycle, row, full_op_name as name, start_ns, usual_ns
from gpu_op_execute_timestamp
join (select cycle, median(start_ns) as usual_ns from gpu_op_execute_timestamp group by cycle) using (cycle)
where abs(start_ns - usual_ns) > 86400e9

-- check: device_summary_is_of_these_operators
-- code: I101
-- headline: a summary does not count what the files list
-- layouts: ms-2.1, ms-2.3
-- needs: ascend_timeline_summary_totals, aicore_intermediate_detail
-- in: ascend_timeline_summary_totals
-- at: $.{key}
-- each: key, counted = num_of_ops, count(*); op_exe_times, sum(execution_frequency)
-- about: From 2.1 on the summary counts the operators of the detail table and their executions. Up to 2.0 it is of other sets: real
--   output has fewer executions than operators.
-- source: MindSpore 2.1: ascend_timeline_generator.py, ascend_op_generator.py
-- message: {here} here, {there} in aicore_intermediate_detail
select cycle, {key} as here, coalesce(counted, 0) as there
from ascend_timeline_summary_totals
left join (select cycle, {counted} as counted from aicore_intermediate_detail group by cycle) as counts using (cycle)
where {key} <> coalesce(counted, 0)

-- check: device_summary_is_of_these_operators
-- code: I104
-- at: $.total_time
-- about: Its time is that of all executions of the detail table.
-- tolerance: a millionth, and half of a ns for each execution
-- message: {here_ms:.6g} ms here, the operators in aicore_intermediate_detail add up to {there_ms:.6g} ms
select cycle, total_time_ns / 1e6 as here_ms, there_ns / 1e6 as there_ms
from ascend_timeline_summary_totals
join (
  select cycle, sum(mean_ns::double * execution_frequency) as there_ns, sum(execution_frequency) as count
  from aicore_intermediate_detail group by cycle) as sums using (cycle)
where abs(total_time_ns - there_ns) > 1 + 0.5 * count + 0.000001 * greatest(total_time_ns, there_ns)

-- check: flops_add_up
-- code: I104
-- needs: flops_summary_totals, flops
-- in: flops_summary_totals
-- at: $.{key}
-- each: key, column, total, decimals = cube_FLOPs, cube_mflop, sum, 0.0001; vec_FLOPs, vector_mflop, sum, 0.0001;
--   FLOPs, operations_mflop, sum, 0.001; FLOPS, rate_gflop_per_s, avg, 0.001
-- about: FLOPs of the summary are the sum over the operators; before 2.0 its FLOPS is the mean of their rates. From 2.1 on it has a cube and
--   a vector unit, whose rates are not derived: they were divided by the time of all once more. Not checked for 2.0, whose sums no source
--   was at hand of.
-- tolerance: four decimals (three before 2.0), and a millionth
-- source: MindSpore 1.9: flops_parser.py; MindSpore 2.1: ascend_flops_generator.py
-- message: {here:.6g} here, {column} of the operators in flops makes {there:.6g}
select cycle, {column} as here, there
from (from flops_summary_totals where cube_mflop is null or operations_mflop is null) as summary
join (select cycle, {total}({column}) as there from flops group by cycle) as sums using (cycle)
where abs({column} - there) > {decimals} + 0.000001 * abs(there)

-- check: every_execution_has_its_time_and_shape
-- code: I101
-- headline: the means are of other types than the operators
-- needs: dynamic_shape_info_operators
-- in: dynamic_shape_info_operators
-- at: $.op_type
-- about: The types of the operators are those that the means are of.
-- source: MindSpore 2.0 to 2.2: dynamic_frame_work_parser.py
-- message: op_type and the operators have different types: {types}
select cycle, some_of(list(type order by type)) as types
from (
  select coalesce(means.cycle, operators.cycle) as cycle, coalesce(means.type, operators.type) as type
  from (select distinct cycle, type from dynamic_shape_info_means) as means
  full join (select distinct cycle, type from dynamic_shape_info_operators) as operators
    on operators.cycle = means.cycle and operators.type = means.type
  where means.type is null or operators.type is null)
group by cycle

-- check: every_execution_has_its_time_and_shape
-- code: I114
-- about: An operator is listed once.
-- message: {name} is listed more than once
select cycle, row, path, name
from (select *, row_number() over (partition by cycle, type, name order by row) as number from dynamic_operators) where number = 2

-- check: every_execution_has_its_time_and_shape
-- code: I101
-- headline: executions, times and shapes of an operator differ in number
-- about: op_exe_occurrences is the number of op_exe_time and of op_shape, and the same for all operators.
-- message: executions: {occurrences} in op_exe_occurrences, {times} in op_exe_time, {shapes} in op_shape; most operators have {usual}
select cycle, row, path, occurrences, times, shapes, usual
from dynamic_operators where occurrences <> usual or times <> usual or shapes <> usual

-- check: every_execution_has_its_time_and_shape
-- headline: an operator is listed under another type
-- about: An operator is listed under its type, the text before the first `-`.
-- message: it is no operator of type {type}
select cycle, row, path, type from dynamic_operators where split_part(name, '-', 1) <> type

-- check: every_execution_has_its_time_and_shape
-- headline: a type and its operators are counted differently
-- in: dynamic_shape_info_means
-- about: A type has as many executions as its operators.
-- message: {here} executions of the type, {times} of its operators
select cycle, row, path, len(means_ms) as here, times from dynamic_types where not is_counted

-- check: every_execution_has_its_time_and_shape
-- code: I105
-- about: op_type has for every execution the mean of its operators.
-- tolerance: 0.000051 ms: four decimals
-- message: {mean_ms} ms, its {operators} operators take {there_ms:.9g}
select cycle, row, path || '[' || index || ']' as path, mean_ms, operators, there_ms
from dynamic_means where abs(mean_ms - there_ms) > 0.000051

-- check: times_of_dynamic_shapes_are_the_timeline
-- code: I101
-- headline: an operator has other times in another file
-- layouts: ms-1.x, ms-2.0
-- needs: dynamic_shape_info_operators, output_timeline_data
-- in: dynamic_shape_info_operators
-- about: op_exe_time of an operator are its durations in output_timeline_data, in their order. An operator on the AI CPU is not there.
-- tolerance: 1 ns
-- source: MindSpore 2.0: dynamic_frame_work_parser.py
-- message: op_exe_time is not what output_timeline_data says of {name}
with timed as (
  select cycle, name, list(duration_ns order by row) as durations
  from (select cycle, row, regexp_extract(trim(name), '[^/]*$') as name, duration_ns from output_timeline_data)
  group by cycle, name)
select cycle, row, path, name
from dynamic_operators join timed using (cycle, name)
where len(times_ms) <> len(durations)
  or not list_bool_and(list_transform(list_zip(times_ms, durations), lambda one: coalesce(abs(one[1] * 1e6 - one[2]) <= 1, false)))

-- check: the_display_is_the_timeline
-- code: I113
-- headline: the timeline is drawn at other times
-- needs: output_timeline_data, ascend_timeline_display
-- in: ascend_timeline_display
-- about: An execution of output_timeline_data is an event of the display: name, stream, duration, and one clock apart. If more than one
--   in ten is not, a column is in another unit or a file of another run, which is reported once. Silent where fewer than half of the
--   executions are there, since 2.1 fewer than nine in ten: those versions draw other lanes.
-- tolerance: 0.01 us for durations, 1 us for starts
-- source: real output of MindSpore 1.x
-- message: {off} of {executions} executions in output_timeline_data are drawn at other times
select distinct cycle, off, executions from drawn_executions where off > 0.1 * executions

-- check: the_display_is_the_timeline
-- code: I103
-- headline: the display and output_timeline_data differ
-- in: output_timeline_data
-- about: The same of a single execution.
-- tolerance: 0.01 us for durations, 1 us for starts
-- message: {name}: {duration_us:.6g} us at {start_us:.3f} us is not drawn so in ascend_timeline_display
select cycle, row, name, duration_ns / 1e3 as duration_us, start_ns / 1e3 as start_us
from drawn_executions where is_off and off <= 0.1 * executions

-- check: the_display_is_the_timeline
-- in: ascend_timeline_display
-- about: An operator has no more events on a stream than executions.
-- message: {more} more events than executions in output_timeline_data: of {names}
select cycle, count(*) as more, array_to_string(list(distinct name order by name)[:8], ', ') as names
from drawn_events
  anti join streamed_executions using (cycle, name, stream, nth)
  semi join streamed_executions using (cycle, name, stream)
where cycle in (select cycle from drawn_executions where off <= 0.1 * executions)
group by cycle

-- check: {check}
-- code: I113
-- headline: a file is named after another rank
-- each: check, table, slot, at =
--   rank_is_that_of_the_file_name, profiler_info_run, profiler_info, rank_id;
--   documents_are_of_the_rank_in_their_name, ascend_ms_profiler_info_run, ascend_ms_profiler_info, rank_id;
--   documents_are_of_the_rank_in_their_name, parallel_strategy_config, parallel_strategy, rankId
-- layouts: ms-1.x, ms-2.0, ms-2.1, ms-2.3
-- needs: {table}
-- in: {slot}
-- about: The rank inside the document is that of its file name.
-- source: MindSpore 2.0: profiler_info.py (rank_id, a text); real output
-- message: rank {inside} inside the file, {rank} in its name
select cycle, file, path || '.{at}' as path, inside, rank from ranks_inside('{table}', '{slot}')

-- check: called_types_are_the_types
-- code: I114
-- needs: output_op_compute_time_detail_types, aicore_intermediate_type
-- in: output_op_compute_time_detail
-- about: A type has one row.
-- source: real output of MindSpore 1.x
-- message: {type}: a row above has it, too
select cycle, row, optype_name as type
from output_op_compute_time_detail_types
qualify row_number() over (partition by cycle, optype_name order by row) > 1

-- check: called_types_are_the_types
-- code: I101
-- headline: a type has other figures in another file
-- each: column, there, rounding = compute_time_ns, time_ns, 1; called_times, execution_frequency, 0
-- about: Time and number of calls of a type are those in aicore_intermediate_type. Silent where more than one type in ten differs, or
--   all: later versions may count otherwise.
-- tolerance: relative 1e-4 (six significant digits, or a 32-bit float's own); 1 ns
-- message: {type}: {column} is {here}, but {there} in aicore_intermediate_type is {there_reported}
with listed as (
  select cycle, type, arg_min(coalesce(total_time_ns, execution_time_ns), row) as time_ns,
    arg_min(execution_frequency, row) as execution_frequency
  from aicore_intermediate_type group by cycle, type),
compared as (
  select listed.cycle, listed.type, {column} as here, {there} as there_reported,
    coalesce(abs(here - there_reported) > {rounding} + 1e-4 * there_reported, false) as is_off
  from output_op_compute_time_detail_types as types join listed on listed.cycle = types.cycle and listed.type = types.optype_name)
select cycle, type, here, there_reported
from compared
where is_off
  and cycle in (
    from compared select cycle
    group by cycle having count(*) filter (is_off) <= greatest(1, 0.1 * count(*)) and not bool_and(is_off))

-- check: gpu_points_are_those_of_the_operators
-- code: I108
-- layouts: ms-2.0, ms-2.1, ms-2.3
-- needs: step_trace_profiling, gpu_op_execute_timestamp
-- in: step_trace_profiling
-- about: A point of a step is the start of its operator's execution, the n-th in step n; the point that ends a step, and an end, are the
--   end of it. An operator on the host is not there.
-- tolerance: relative 2e-5 of the duration (six digits are printed), and 1 ns; 10 ns where the file has counts of 10 ns
-- source: MindSpore 2.0: gpu_data_saver.cc (WriteStepTraceAsyncLaunchKernel, WriteStepTrace)
-- message: {name}: {what} of execution {nth} is at {here_ns} ns here, at {there_ns} ns in gpu_op_execute_timestamp
with known as (
  select points.cycle, points.row, points.op_name as name, points.nth, is_async, if(is_async, 1, 10) as slack_ns,
    if(is_async and place = 4, null, points.start_ns) as starts_ns,
    if(is_async and place = 4, points.start_ns, points.end_ns) as ends_ns, runs.start_ns, runs.duration_ns, runs.full_op_name
  from gpu_points as points left join gpu_runs as runs
    on runs.cycle = points.cycle and runs.full_op_name = points.op_name and runs.nth = points.nth
  where (points.cycle, points.op_name) in (select (cycle, full_op_name) from gpu_runs))
select cycle, row, name, nth, what, here_ns, coalesce(there_ns::varchar, 'no time') as there_ns
from (
  select cycle, row, name, nth, slack_ns, unnest(['the start', 'the end']) as what, unnest([starts_ns, ends_ns]) as here_ns,
    unnest([start_ns, start_ns + duration_ns]) as there_ns, unnest([0, duration_ns]) as lasts_ns
  from known)
where here_ns is not null and coalesce(abs(here_ns - there_ns) > slack_ns + 0.00002 * lasts_ns, true)

-- check: gpu_steps_are_those_of_the_trace
-- code: I108
-- layouts: ms-2.0, ms-2.1, ms-2.3
-- needs: step_trace_profiling, step_trace_raw
-- in: step_trace_raw
-- each: point, column = start, begins_ns; fp, forward_ns; bp, backward_ns; end, ends_ns
-- about: With asynchronous launch every line of step_trace_profiling is a row here, in counts of 10 ns: start, end, and both passes.
-- source: MindSpore 2.0: step_trace_parser.py (GpuStepTraceParser)
-- message: step {step}: {point}_point is {here_ns}, in step_trace_profiling it is {there_ns} ns
select steps.cycle, rows.row, steps.step, '{point}' as point, coalesce({point}_point_ns || ' ns', 'missing') as here_ns, {column} as there_ns
from gpu_steps as steps left join (from step_trace_raw where step_num is not null) as rows
  on rows.cycle = steps.cycle and rows.step_num = steps.step
where {column} > 0 and (rows.row is null and '{point}' = 'start' or {point}_point_ns <> {column} // 10 * 10)

-- check: gpu_steps_are_those_of_the_trace
-- about: ... and a row is a step.
-- message: step {step} is not in step_trace_profiling
select cycle, row, step_num as step from step_trace_raw
where step_num is not null and cycle in (select cycle from gpu_steps)
  and (cycle, step_num) not in (select (cycle, step) from gpu_steps)

-- check: gpu_steps_have_their_trace
-- code: I108
-- invariant: the_profiler_finished
-- layouts: ms-2.0, ms-2.1, ms-2.3
-- needs: step_trace_profiling, files
-- in: step_trace_profiling
-- about: MindSpore writes step_trace_raw of the points of one graph; in PyNative mode, of several graphs and beside operators on the host
--   it does not.
-- source: MindSpore 2.0: profiling.py (_is_support_step_info_collect, _analyse_step_trace)
-- message: it has {steps} steps, but step_trace_raw_*_detail_time.csv, which is made of them, is missing
select cycle, count(*) as steps
from gpu_steps join profiler_info_run as info using (cycle)
where begins_ns > 0 and forward_ns > 0 and backward_ns > 0 and ends_ns > 0
  and info.context_mode = 'graph' and not info.is_heterogeneous and json_array_length(info.graph_ids) = 1
  and cycle not in (select cycle from step_trace_raw)
  and cycle not in (select cycle from files where slot = 'step_trace_raw' and file is not null)
group by cycle

-- check: a_gpu_runs_behind_its_start
-- code: I106
-- needs: start_time, {table}
-- in: {table}
-- each: table, name, slack_ns = gpu_op_execute_timestamp, full_op_name, 0; activity_execute_timestamp, name, 1000000
-- about: No operator begins before the profiler does, and no activity: start_time has when it began by the clock of the GPU.
-- tolerance: none for operators, whose starts are read from the same clock; 1 ms for activities, whose times are converted
-- source: MindSpore 2.0: gpu_profiling.cc (Init, OpDataProducerBegin)
-- message: {name} starts at {start_ns} ns, before the profiler began at {began_ns} ns
with began as (select cycle, max(time_ns) as began_ns from start_time where clock like 'gpu_%' group by cycle)
select cycle, row, name, start_ns, began_ns
from (select cycle, row, {name} as name, start_ns from {table}) join began using (cycle)
where start_ns < began_ns - {slack_ns}

-- check: start_time_has_both_clocks
-- code: S103
-- needs: start_time
-- in: start_time
-- about: Both clocks are there once: first that of the host, then that of the GPU.
-- source: MindSpore 1.x and 2.0: gpu_data_saver.cc, data_saver.cc (WriteStartTime)
-- message: it has {clocks}, not the clock of the host and that of the GPU
select cycle, string_agg(clock, ', ' order by row) as clocks
from start_time group by cycle having list(clock order by row) <> ['host_monotonic_raw_time(ns):', 'gpu_start_time(ns):']

-- check: gpu_framework_has_every_execution
-- code: I101
-- layouts: ms-2.0, ms-2.1, ms-2.3
-- needs: gpu_framework, gpu_op_detail_info
-- in: gpu_framework
-- each: part = op_name; op_type
-- about: A line for each execution: as many of a name and of a type as gpu_op_detail_info counts. Both are the end of the full name; one
--   without a hyphen there is written as that of the line before, so a file with such names is not compared.
-- source: MindSpore 2.0: gpu_kernel_executor.cc (LaunchKernelWithProfiling), gpu_profiling.cc (RecordFrameWorkInfo)
-- message: {name}: {here} lines here, {there} executions in gpu_op_detail_info
with here as (select cycle, {part} as name, count(*) as times from gpu_framework group by all),
there as (select cycle, {part} as name, sum(op_occurrences) as times from gpu_op_detail_info group by all)
select coalesce(here.cycle, there.cycle) as cycle, coalesce(here.name, there.name) as name, coalesce(here.times, 0) as here,
  coalesce(there.times, 0) as there
from here full join there on here.cycle = there.cycle and here.name = there.name
where coalesce(here.times, 0) <> coalesce(there.times, 0)
  and coalesce(here.cycle, there.cycle) not in (select cycle from gpu_op_detail_info where op_name not like '_%-%')

-- check: gpu_framework_is_of_the_graphs
-- code: I113
-- layouts: ms-2.0, ms-2.1, ms-2.3
-- needs: gpu_framework, profiler_info_run
-- in: gpu_framework
-- about: graph_ids of profiler_info are those of the lines.
-- source: MindSpore 2.0: profiling.py (_analyse_step_relation_info), framework_parser.py (get_graph_ids)
-- message: its lines are of the graphs {here}, profiler_info names {there}
select cycle, shown(here::varchar) as here, shown(there::varchar) as there
from (select cycle, list_sort(list(distinct graph_id::hugeint)) as here from gpu_framework group by cycle)
join (select cycle, list_sort(try_cast(graph_ids as hugeint[])) as there from profiler_info_run) using (cycle)
where here <> there

-- check: gpu_activities_are_listed_once
-- code: I114
-- needs: gpu_activity_data
-- in: gpu_activity_data
-- about: A kernel has one row.
-- source: MindSpore 1.x and 2.0: gpu_data_saver.cc, data_saver.cc (AddKernelEventToDevice)
-- message: {name}: a row above has it, too
select cycle, row, name from gpu_activity_data qualify row_number() over (partition by cycle, name order by row) > 1

-- check: gpu_timeline_draws_what_ran
-- code: I103
-- headline: the timeline and the timestamps differ
-- needs: gpu_timeline_display, gpu_op_execute_timestamp
-- in: gpu_timeline_display
-- about: The timeline has an event for each execution of an operator, for each activity (by its stream), and for each step of
--   step_trace_profiling with asynchronous launch. Steps are not drawn before 1.3. A timeline is cut off behind a size.
-- source: MindSpore 1.x: integrator.py; MindSpore 2.0: cpu_gpu_timeline_generator.py
-- message: {name}: {here} events here, {there} times in the files of timestamps
with here as (select cycle, kind, name, count(*) as times from gpu_drawings group by all),
there as (select cycle, kind, name, count(*) as times from gpu_drawn group by all)
select coalesce(here.cycle, there.cycle) as cycle, coalesce(here.kind, there.kind) || ' ' || coalesce(here.name, there.name) as name,
  coalesce(here.times, 0) as here, coalesce(there.times, 0) as there
from here full join there on here.cycle = there.cycle and here.kind = there.kind and here.name = there.name
where coalesce(here.times, 0) <> coalesce(there.times, 0)
  and coalesce(here.cycle, there.cycle) in (from whole_gpu_timelines)
  and (coalesce(here.kind, there.kind) <> 'step' or coalesce(here.cycle, there.cycle) in (select cycle from gpu_steps) and
    coalesce(here.cycle, there.cycle) in (select cycle from cycles where layout <> 'ms-1.x'))
  and (coalesce(here.kind, there.kind) <> 'activity' or coalesce(here.cycle, there.cycle) in (select cycle from activity_execute_timestamp))

-- check: gpu_timeline_draws_what_ran
-- about: Events have the times of what they draw, the n-th of a name and stream in time those of the n-th.
-- tolerance: 0.5 us for starts (a 64-bit float of UNIX time); half of the sixth digit of a duration, and 0.5 us for a step
-- message: {name}: {duration_us:.3f} us from {start_ns} ns here, {duration_there_us:.3f} us from {start_there_ns} ns there
select cycle, row, kind || ' ' || name as name, here.duration_ns / 1e3 as duration_us, here.start_ns,
  there.duration_ns / 1e3 as duration_there_us, there.start_ns as start_there_ns
from gpu_drawings as here join gpu_drawn as there using (cycle, kind, name, stream, nth, times)
where abs(here.start_ns::hugeint - there.start_ns) > 1 + abs(there.start_ns) * power(2, -51)
  or abs(here.duration_ns::hugeint - there.duration_ns) > if(kind = 'step', 500, 1) + there.duration_ns * 1e-5

-- check: gpu_timeline_draws_what_ran
-- about: An activity is drawn on its stream.
-- message: {name}: {here} events on stream {stream} here, {there} in activity_execute_timestamp
with here as (select cycle, name, stream, count(*) as times from gpu_drawings where kind = 'activity' group by all),
there as (select cycle, name, stream, count(*) as times from gpu_drawn where kind = 'activity' group by all)
select cycle, name, stream, coalesce(here.times, 0) as here, coalesce(there.times, 0) as there
from here full join there using (cycle, name, stream)
where coalesce(here.times, 0) <> coalesce(there.times, 0) and cycle in (select cycle from activity_execute_timestamp)

-- check: gpu_timeline_draws_what_ran
-- needs: gpu_timeline_display, gpu_activity_data
-- about: An activity has the operator, the kind of launch and the dimensions that gpu_activity_data has of its name.
-- message: {name}: {key} is {here}, in gpu_activity_data it is {there}
select cycle, row, name, key, coalesce(here, 'missing') as here, there
from (
  select drawn.cycle, drawn.row, drawn.name, unnest(['type', 'op_full_name', 'block_dim', 'grid_dim']) as key,
    unnest([args ->> '$.type', args ->> '$.op_full_name', args ->> '$.block_dim', args ->> '$.grid_dim']) as here,
    unnest([listed.type, listed.op_full_name, listed.block_dim, listed.grid_dim]) as there
  from gpu_drawings as drawn join (
    select cycle, regexp_replace(name, '^.*/', '') as name, type, op_full_name, block_dim, grid_dim from gpu_activity_data
    qualify count(*) over (partition by cycle, regexp_replace(name, '^.*/', '')) = 1) as listed using (cycle, name)
  where kind = 'activity')
where here is distinct from there

-- check: gpu_timeline_is_of_the_device
-- code: I113
-- headline: a file is of another rank
-- needs: gpu_timeline_display
-- in: gpu_timeline_display
-- about: Operators and steps have the number of the device, which ends the name of the file, as their pid.
-- source: MindSpore 1.x: integrator.py; MindSpore 2.0: cpu_gpu_timeline_generator.py
-- message: {events} operators and steps are of device {pid}, but the file's name says {rank}
select cycle, '$[' || min(row) || '].pid' as path, count(*) as events, arg_min(pid, row) as pid, rank
from gpu_drawings join files using (cycle)
where kind <> 'activity' and files.slot = 'gpu_timeline_display' and pid <> rank::varchar
group by cycle, rank

-- check: gpu_timeline_summary_counts_operators
-- code: I101
-- headline: a summary does not count what the files list
-- needs: gpu_timeline_summary_totals, gpu_op_execute_timestamp
-- in: gpu_timeline_summary_totals
-- at: $.{key}
-- each: key, counted, when = num_of_ops, operators, layout <> 'ms-1.x' or not has_host;
--   op_exe_times, runs, layout <> 'ms-1.x' or not has_host; num_of_streams, lanes, layout <> 'ms-1.x';
--   max_scope_name_num, depth, layout <> 'ms-1.x' and cycle not in (select cycle from gpu_points where is_async and place > 4)
-- about: The summary counts operators, executions, lanes of operators and the depth of their scopes: those of the GPU, and of the host
--   beside it. Lanes were counted otherwise in 1.x. Scopes of communication do not count.
-- source: MindSpore 2.0: cpu_gpu_timeline_generator.py
-- message: {here} here, {there} in the files of timestamps
select cycle, {key} as here, {counted} as there
from gpu_timeline_summary_totals join gpu_figures using (cycle) join cycles using (cycle)
where {key} <> {counted} and ({when})

-- check: gpu_timeline_summary_counts_operators
-- code: I104
-- at: $.total_time
-- about: Its time is that of all operators; with operators of the host at least that of the GPU's.
-- tolerance: relative 2e-5 (six digits are printed), and half a ns for each
-- message: {here_ms:.6g} ms here, the executions in gpu_op_execute_timestamp add up to {there_ms:.6g} ms
select cycle, total_time_ns / 1e6 as here_ms, lasts_ns / 1e6 as there_ms
from gpu_timeline_summary_totals join gpu_figures using (cycle)
where not (has_host and total_time_ns > lasts_ns) and abs(total_time_ns - lasts_ns) > 0.00002 * lasts_ns + 0.5 * (runs + 1)

-- check: gpu_operators_have_their_activities
-- code: I104
-- invariant: launched_work_ran
-- needs: gpu_op_detail_info, activity_execute_timestamp
-- in: gpu_op_detail_info
-- about: Kernels and copies of all operators are counted and timed in the detail table; activity_execute_timestamp has the kernels, so
--   it has neither more of them nor more time.
-- tolerance: relative 2e-5 (six digits are printed, sums of floats), and 1 ns for each
-- source: MindSpore 2.0: gpu_profiling.cc (ProcessEvents), gpu_data_saver.cc (ParseEvent)
-- message: {here} {what} here, but {there} in activity_execute_timestamp
select cycle, here, what, there
from (
  select cycle, unnest(['activities', 'ns']) as what, unnest([calls, lasts_ns]) as here, unnest([runs, ran_ns]) as there,
    unnest([0, runs + 0.0001 * ran_ns]) as slack
  from (
    select cycle, sum(cuda_activity_call_count) as calls, sum(cuda_activity_cost_time_ns)::double as lasts_ns
    from gpu_op_detail_info group by cycle)
  join (
    select cycle, count(*) as runs, sum(duration_ns)::double as ran_ns from activity_execute_timestamp group by cycle) using (cycle))
where there > here + slack

-- check: gpu_operators_are_listed_once
-- code: I114
-- needs: {table}
-- in: {table}
-- each: table, name = gpu_op_detail_info, op_full_name; gpu_op_type_info, op_type
-- about: An operator has one row, and so has a type.
-- source: MindSpore 1.x and 2.0: data_saver.cc
-- message: {operator}: a row above has it, too
select cycle, row, {name} as operator from {table} qualify row_number() over (partition by cycle, {name} order by row) > 1

-- check: gpu_names_are_parts_of_the_full_name
-- code: I114
-- headline: a name is not the end of its full name
-- needs: gpu_op_detail_info
-- in: gpu_op_detail_info
-- about: op_name is the end of op_full_name behind its last slash, op_type is op_name up to its last hyphen.
-- source: MindSpore 1.x and 2.0: data_saver.cc (OpDetailInfo)
-- message: op_name {op_name} and op_type {op_type} are not the end of op_full_name {op_full_name}
select cycle, row, op_name, op_type, op_full_name
from (select *, regexp_replace(op_full_name, '^.*/', '') as ending from gpu_op_detail_info)
where op_name <> ending or op_type <> regexp_replace(ending, '-[^-]*$', '')

-- check: step_averages_follow
-- code: I105
-- layouts: ms-1.x, ms-2.0
-- needs: step_trace_raw
-- in: step_trace_raw
-- about: The last row has the mean of every column: over all steps (2.0), or over all but the first (1.x), the same for all columns. Of a
--   single step 1.x wrote zeros.
-- tolerance: 1 tick of 10 ns
-- source: MindSpore 1.x and 2.0: step_trace_parser.py (_record_average_info); real output of 1.x
-- message: the averages are those of no set of steps; over {steps} steps {columns} differ: {name} is {here_ns} ns, not {there_ns} ns
select cycle, row, any_value(steps) as steps, count(*) as columns, arg_min(name, place_of) as name, arg_min(here_ns, place_of) as here_ns,
  arg_min(there_ns, place_of) as there_ns
from step_averages semi join (
  select cycle, arg_min(form, (off, form)) as form from (
    select cycle, form, count(*) filter (is_off) as off from step_averages group by cycle, form)
  group by cycle having min(off) > 0) as nearest using (cycle, form)
where is_off
group by cycle, row

-- check: executions_are_of_the_hardware_log
-- code: I103
-- headline: the timeline and the log of the hardware differ
-- layouts: ms-1.x, ms-2.0
-- needs: output_timeline_data, output_format_data_hwts
-- in: output_timeline_data
-- each: kind, time, does = Start, start_time_ns, starts; End, start_time_ns + duration_ns, ends
-- about: An execution is made of two records of the log, the start and the end of a task.
-- tolerance: 5 ns: half a tick
-- source: MindSpore 1.x and 2.0: optime_parser.py (_calculate_op_execution_time); real output of 1.x
-- message: {name} {does} at {at_ns} ns, and output_format_data_hwts has no such record
select cycle, row, name, '{does}' as does, {time} as at_ns
from output_timeline_data anti join (
  select distinct cycle, (cycle_counter_ns + 5) // 10 as tick from output_format_data_hwts where type like '{kind} of task') as records
  on records.cycle = output_timeline_data.cycle and records.tick = ({time} + 5) // 10

-- check: a_record_of_the_hardware_is_written_once
-- code: I114
-- needs: output_format_data_hwts
-- in: output_format_data_hwts
-- about: A task has one start and one end at a time, and so has a block.
-- source: MindSpore 1.x and 2.0: hwts_log_parser.py (a row for each record of the log); real output of 1.x
-- message: {type} {task_id}: a row above has the same counter
select cycle, row, type, task_id from output_format_data_hwts
qualify row_number() over (partition by cycle, type, task_id, core_id, block_id, stream_id, cycle_counter_ns order by row) > 1

-- check: executed_operators_have_their_mean
-- code: I101
-- headline: operators are missing
-- layouts: ms-1.x, ms-2.0
-- needs: output_op_compute_time, output_timeline_data
-- in: output_op_compute_time
-- about: Both files are written of the same operators.
-- source: MindSpore 1.x and 2.0: optime_parser.py (execute); real output of 1.x
-- message: {gone} operators of output_timeline_data are not here: {names}
select cycle, count(distinct name) as gone, some_of(list(distinct trim(name) order by trim(name))) as names
from output_timeline_data
anti join output_op_compute_time as listed on listed.cycle = output_timeline_data.cycle and op_name = trim(name)
group by cycle

-- check: executed_operators_have_their_mean
-- code: I104
-- needs: output_op_compute_time
-- about: The last row is the sum of the others.
-- tolerance: relative 1e-6, and 1 ns for each
-- message: the total is {here_ns} ns, the {operators} operators add up to {there_ns} ns
select cycle, total.row, total.compute_time_ns as here_ns, operators, there_ns
from (from output_op_compute_time where regexp_full_match(op_name, 'total( op)?')) as total
join (
  select cycle, count(*) as operators, sum(compute_time_ns)::double as there_ns
  from output_op_compute_time where not regexp_full_match(op_name, 'total( op)?') group by cycle) using (cycle)
where abs(here_ns - there_ns) > operators + 0.000001 * there_ns

-- check: types_have_all_details
-- code: I101
-- headline: types of operators are missing
-- layouts: ms-1.x, ms-2.0
-- needs: aicore_intermediate_detail, framework_raw
-- in: aicore_intermediate_type
-- about: Every type that framework_raw says of an operator in the details has a row. Not where there is a blank type: then MindSpore 2.0
--   itself says that it missed some.
-- source: MindSpore 1.x and 2.0: integrator.py (_parse_aicore_type_time); real output of 1.x
-- message: there is no row for {lost} types of operators in aicore_intermediate_detail: {names}
with kinds as (select cycle, name, arg_max(type, row) as type from framework_raw group by cycle, name),
wanted as (select distinct cycle, type from aicore_intermediate_detail join kinds using (cycle, name))
select cycle, count(*) as lost, some_of(list(type order by type)) as names
from wanted anti join aicore_intermediate_type using (cycle, type)
where cycle in (select cycle from files where slot = 'aicore_intermediate_type' and file is not null)
  and cycle not in (select cycle from aicore_intermediate_type where type = '')
group by cycle

-- check: aicpu_files_say_the_same
-- code: I101
-- headline: an execution has another type in another file
-- needs: output_data_preprocess_aicpu, aicpu_intermediate
-- in: output_data_preprocess_aicpu
-- layouts: ms-1.x, ms-2.0
-- about: Rows of one number are of one type.
-- source: MindSpore 1.x and 2.0: aicpu_data_parser.py, integrator.py (_parse_aicpu_time); real output of 1.x
-- message: number {number} is {type} here, {there} in aicpu_intermediate
select here.cycle, here.row, serial_number as number, here.node_type_name as type, there.type as there
from output_data_preprocess_aicpu as here join (
  select cycle, serial_number, arg_min(type, row) as type from aicpu_intermediate group by all) as there using (cycle, serial_number)
where here.node_type_name <> there.type

-- check: aicpu_files_say_the_same
-- headline: executions are missing
-- layouts: ms-1.x, ms-2.0
-- in: aicpu_intermediate
-- about: Every execution of output_data_preprocess_aicpu is there.
-- message: {lost} executions of output_data_preprocess_aicpu are not here, the first is number {first}
select cycle, count(*) as lost, min(serial_number) as first
from (from output_data_preprocess_aicpu where serial_number is not null) anti join aicpu_intermediate using (cycle, serial_number)
group by cycle

-- check: aicpu_files_say_the_same
-- code: I104
-- needs: output_data_preprocess_aicpu
-- in: output_data_preprocess_aicpu
-- about: The last row is the sum of the others.
-- tolerance: 1 us for each: three decimals of a ms
-- message: the total is {here_ns} ns, the {count} executions add up to {there_ns} ns
select cycle, total.row, total.total_time_ns as here_ns, count, there_ns
from (from output_data_preprocess_aicpu where serial_number is null and node_type_name like '%Total%') as total
join (
  select cycle, count(*) as count, sum(total_time_ns) as there_ns
  from output_data_preprocess_aicpu where serial_number is not null group by cycle) using (cycle)
where abs(here_ns - there_ns) > 1000 * (count + 1)

-- check: flops_add_up
-- code: I105
-- needs: flops_summary_totals, flops
-- in: flops_summary_totals
-- at: $.FLOPS_Utilization
-- about: Before 2.0 the utilization of the summary is the mean over the operators.
-- tolerance: three decimals of both
-- source: MindSpore 1.9: flops_parser.py
-- message: {here:.6g} % here, the operators in flops make {there:.6g} %
select cycle, summary.utilization_percent as here, there
from flops_summary_totals as summary
join (select cycle, avg(utilization_percent) as there from flops where operations_mflop is not null group by cycle) using (cycle)
where abs(here - there) > 0.0011 + 0.000001 * there

-- check: rates_follow_from_operations
-- code: I105
-- layouts: ms-1.x
-- needs: flops, output_op_compute_time
-- in: flops
-- about: The rate of an operator = its operations / its mean time in output_op_compute_time.
-- tolerance: three decimals of both, and a millionth
-- source: MindSpore 1.5 to 1.9: flops_parser.py (execute)
-- message: {name}: {rate:.6g} GFLOP/s, but {operations:.6g} MFLOP in {time_ms:.6g} ms are {there:.6g}
select flops.cycle, flops.row, name, rate_gflop_per_s as rate, operations_mflop as operations, time_ns / 1e6 as time_ms,
  operations_mflop / (time_ns / 1e6) as there
from flops join (
  select cycle, op_name, arg_min(compute_time_ns, row) as time_ns from output_op_compute_time group by all) as times
  on times.cycle = flops.cycle and times.op_name = flops.name
where time_ns > 0 and operations_mflop is not null
  and abs(rate - there) > 0.00051 + 0.00051 / (time_ns / 1e6) + 0.000001 * there + 1.5 * there / time_ns

-- check: rates_follow_from_operations
-- needs: flops
-- about: All shares of the peak are shares of the same peak.
-- tolerance: three decimals of both
-- message: {name}: {share:.6g} % of the peak at {rate:.6g} GFLOP/s, but all operators together make that {there:.6g} %
select cycle, row, name, utilization_percent as share, rate_gflop_per_s as rate, rate_gflop_per_s * sums.share / sums.rate as there
from flops join (
  select cycle, sum(utilization_percent) as share, sum(rate_gflop_per_s) as rate, count(*) as operators
  from flops where operations_mflop is not null group by cycle having sum(rate_gflop_per_s) > 0) as sums using (cycle)
where operations_mflop is not null
  and abs(utilization_percent - there) > 0.0011 + 0.001 * sums.share / sums.rate + 0.0006 * sums.operators * rate_gflop_per_s / sums.rate

-- check: scopes_have_the_operations_of_their_operators
-- code: I104
-- layouts: ms-1.x
-- needs: flops_scope_links, flops
-- in: flops_scope
-- about: A link from a scope to one inside has the operations of all operators in it.
-- tolerance: three decimals of each, and a millionth
-- source: MindSpore 1.5 to 1.9: flops_parser.py (_add_flops_to_each_scope, _format_scope_flops)
-- message: {source} to {target}: {here} MFLOP here, {there} in flops
select coalesce(here.cycle, there.cycle) as cycle, coalesce(here.source, there.source) as source,
  coalesce(here.target, there.target) as target, coalesce(here.value::varchar, 'no link') as here,
  coalesce(round(there.value, 4)::varchar, 'no such scope') as there
from (select cycle, source, target, value_mflop as value from flops_scope_links) as here
full join flops_of_scopes as there on here.cycle = there.cycle and here.source = there.source and here.target = there.target
where coalesce(here.cycle, there.cycle) in (select cycle from flops_scope_links)
  and coalesce(here.cycle, there.cycle) in (select cycle from flops_of_scopes)
  and coalesce(abs(here.value - there.value) > 0.0006 * (operators + 1) + 0.000001 * there.value, true)

-- check: scopes_have_the_operations_of_their_operators
-- code: I101
-- headline: nodes and links of the scopes disagree
-- needs: flops_scope_links, flops_scope_nodes
-- about: The nodes are the ends of the links, each once.
-- message: {name}: {nodes} nodes, and {words} it
select coalesce(here.cycle, there.cycle) as cycle, coalesce(here.name, there.name) as name, coalesce(nodes, 0) as nodes,
  if(there.name is null, 'no link has', 'a link has') as words
from (select cycle, name, count(*) as nodes from flops_scope_nodes group by all) as here
full join (
  select distinct cycle, unnest([source, target]) as name from flops_scope_links) as there on here.cycle = there.cycle and here.name = there.name
where coalesce(nodes, 0) <> 1 or there.name is null

-- check: scopes_have_the_operations_of_their_operators
-- headline: the scopes have another depth than their operators
-- needs: flops_scope_depth, flops
-- about: max_scope_num is the depth of the deepest scope.
-- message: max_scope_num is {here}, the deepest operator in flops is in {there} scopes
select cycle, '$.max_scope_num' as path, max_scope_num as here, there
from flops_scope_depth join (
  select cycle, max(scope_depth(name)) as there from flops where operations_mflop is not null group by cycle) using (cycle)
where max_scope_num <> there

-- check: executions_of_a_stream_follow_each_other
-- code: I106
-- severity: warning
-- invariant: nothing_overlaps_on_a_stream
-- headline: work of a stream overlaps
-- each: table, start = output_timeline_data, start_time_ns; activity_execute_timestamp, start_ns
-- needs: {table}
-- in: {table}
-- about: A stream runs one task at a time: none begins before the one above on its stream ended. Not checked where more than one in ten does. A warning:
--   that tasks of a stream are in order is documented, when the next of them may begin is not.
-- tolerance: 10 us, and 2e-5 of the duration: six digits are printed
-- source: MindSpore 1.x and 2.0: optime_parser.py (start and end of a task by the log of the hardware), gpu_data_saver.cc (kernels by CUPTI); real
--   output of 1.x, 107 executions
-- message: {name} begins {early_us:.6g} us before what runs before it on stream {stream} has ended
with ordered as (
  select cycle, row, name, stream_id as stream, {start} as start_ns,
    max({start}::hugeint + duration_ns - (duration_ns * 2e-5)::bigint) over (
      partition by cycle, stream_id order by {start}, row rows between unbounded preceding and 1 preceding) as before_ns
  from {table})
select cycle, row, name, stream, (before_ns - start_ns) / 1000 as early_us
from (select *, count(*) over (partition by cycle) as rows from ordered)
where before_ns - start_ns > 10000
qualify count(*) over (partition by cycle) <= 0.1 * rows
