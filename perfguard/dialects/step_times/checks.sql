-- What must hold in tables of step times. Source: torch_npu: _trace_step_time_parser.py; real output of torch_npu.

-- check: {check}
-- code: I108
-- needs: {table}
-- in: {table}
-- each: check, table, rows = step_times_add_up, step_trace_time, rank_steps;
--   cluster_step_times_add_up, cluster_step_trace_time, (from cluster_ranks where place = 'cluster_step_trace_time');
--   cluster_step_times_add_up, db_cluster_step_trace_time, (from cluster_ranks where place = 'db_cluster_step_trace_time')
-- about: Overlapped = Communication - Communication(Not Overlapped). Rows of a stage are maxima, and are not checked.
-- tolerance: 2 ns for three printed decimals, two more for versions that print all
-- message: step {step_name}: Overlapped is {here_us:.9g} us, Communication minus its part that is not overlapped is {there_us:.9g} us
select cycle, row, coalesce(step::varchar, '(none)') as step_name, overlapped_ns / 1000 as here_us, overlapped_there_ns / 1000 as there_us
from {rows} where abs(overlapped_ns - overlapped_there_ns) > 3 + 1e-12 * communication_ns

-- check: {check}
-- code: I108
-- needs: {table}
-- in: {table}
-- each: check, table, rows = step_times_add_up, step_trace_time, rank_steps;
--   cluster_step_times_add_up, cluster_step_trace_time, (from cluster_ranks where place = 'cluster_step_trace_time');
--   cluster_step_times_add_up, db_cluster_step_trace_time, (from cluster_ranks where place = 'db_cluster_step_trace_time')
-- about: Communication without receives = Communication(Not Overlapped) - Bubble.
-- tolerance: 2 ns for three printed decimals, two more for versions that print all
-- message: step {step_name}: Communication(Not Overlapped and Exclude Receive) is {here_us:.9g} us, what is not overlapped minus Bubble is
--   {there_us:.9g} us
select cycle, row, coalesce(step::varchar, '(none)') as step_name, sent_ns / 1000 as here_us, sent_there_ns / 1000 as there_us
from {rows} where abs(sent_ns - sent_there_ns) > 3 + 1e-12 * communication_ns

-- check: step_times_add_up
-- code: I108
-- layouts: pt-npu
-- needs: step_trace_time
-- in: step_trace_time
-- about: Computing + Communication(Not Overlapped) + Free = Stage + Bubble, where the file has one step of a device. Of several, each event
--   is of the step it begins in, so a collective that reaches into the next one makes Stage longer: there the sum may only be less.
--   MindSpore's Stage is another: from the first collective to the end of the last (2.10: ascend_step_trace_time_viewer.py).
-- tolerance: 0.5 us (0.13 us seen): Stage is measured between float64 UNIX times in us, which are 0.25 us apart
-- message: step {step_name}: Computing + Communication(Not Overlapped) + Free is {busy_us:.9g} us, Stage + Bubble is {span_us:.9g} us
select cycle, row, coalesce(step::varchar, '(none)') as step_name, busy_ns / 1000 as busy_us, span_ns / 1000 as span_us
from rank_steps where busy_ns - span_ns > 500 or (is_alone and busy_ns - span_ns < -500)

-- check: cluster_step_times_add_up
-- code: I108
-- needs: {table}
-- in: {table}
-- each: table = cluster_step_trace_time; db_cluster_step_trace_time
-- about: The same of the ranks of a cluster. Nothing says whose ranks they are, and MindSpore's Stage is another time: it is judged where it
--   is the sum of its parts in at least half of the rows.
-- tolerance: 0.5 us
-- message: step {step_name}: Computing + Communication(Not Overlapped) + Free is {busy_us:.9g} us, Stage + Bubble is {span_us:.9g} us
select cycle, row, coalesce(nullif(step, ''), '(none)') as step_name, busy_ns / 1000 as busy_us, span_ns / 1000 as span_us
from cluster_ranks
where place = '{table}' and (busy_ns - span_ns > 500 or (is_alone and busy_ns - span_ns < -500))
  and cycle in (
    select cycle from cluster_ranks where place = '{table}' group by cycle
    having 2 * count(*) filter (abs(busy_ns - span_ns) <= 500) >= count(*))

-- check: a_stage_is_its_slowest_rank
-- code: I108
-- needs: {table}
-- in: {table}
-- each: table = cluster_step_trace_time; db_cluster_step_trace_time
-- about: The ranks of a stage, which `Index` lists, have rows of their own in the same step.
-- source: real output; msprof-analyze: cluster_analyse
-- message: stage {index} of step {step} has ranks without a row of their own: {lost}
select cycle, row, shown(index) as index, step, shown(lost) as lost from lost_members where place = '{table}'

-- check: a_stage_is_its_slowest_rank
-- each: table = cluster_step_trace_time; db_cluster_step_trace_time
-- about: Every time in a row of a stage is the largest of its ranks in the same step.
-- tolerance: 1 ns
-- message: stage {index}: {column} is {own_us:.9g} us, the largest of its ranks is {largest_us:.9g} us
select cycle, row, shown(index) as index, part[:-4] as column, own_ns / 1000 as own_us, largest_ns / 1000 as largest_us from stage_times
where place = '{table}' and abs(own_ns - largest_ns) > 1

-- check: every_step_has_one_row
-- code: I114
-- needs: step_trace_time
-- in: step_trace_time
-- about: step_trace_time has one row for each step of a device. Exact.
-- source: real output of torch_npu, eight directories
-- message: step {step_name} has a second row
select cycle, row, coalesce(step::varchar, '(none)') as step_name
from (select *, row_number() over (partition by cycle, device_id, step order by row) as number from step_trace_time)
where number > 1

-- check: {check}
-- code: I114
-- needs: {table}
-- in: {table}
-- each: check, table = a_cluster_has_one_row_of_each, cluster_step_trace_time; a_cluster_has_one_row_of_each, db_cluster_step_trace_time
-- about: A step has one row of each rank and of each stage. Exact.
-- source: msprof-analyze 26.2: step_trace_time_analysis.py; real output of sixteen ranks
-- message: {type} {index} has a second row of step {step_name}
select cycle, row, type, shown(index) as index, coalesce(nullif(step, ''), '(none)') as step_name
from (
  select *, row_number() over (partition by cycle, file, step, type, index order by row) as number
  from cluster_steps where place = '{table}')
where number > 1

-- check: every_rank_is_of_a_stage
-- code: I108
-- invariant: counted_twice_agrees
-- needs: {table}
-- in: {table}
-- each: table = cluster_step_trace_time; db_cluster_step_trace_time
-- about: Where there are stages, every rank of a step is in one of them; a rank that is in none has the stage `()`.
-- source: msprof-analyze 26.2: step_trace_time_analysis.py (analyze_step_time); real output of sixteen ranks
-- message: rank {index} of step {step_name} is in no stage, and {stages} stages have rows: those of stages, or of this one, are lost
with staged as (select place, cycle, file, count(*) as stages from cluster_steps where type = 'stage' group by all)
select ranks.cycle, ranks.row, shown(ranks.index) as index, coalesce(nullif(ranks.step, ''), '(none)') as step_name, stages
from cluster_ranks as ranks
join staged using (place, cycle, file)
where ranks.place = '{table}'
  and (ranks.place, ranks.cycle, ranks.file, ranks.step, ranks.index) not in (select (place, cycle, file, step, member) from stage_members)
  and (ranks.place, ranks.cycle, ranks.file, ranks.step) not in (
    select (place, cycle, file, step) from cluster_steps where type = 'stage' and not regexp_matches(index, '[0-9]'))

-- check: every_rank_of_a_group_has_steps
-- code: I113
-- headline: a rank is missing
-- invariant: counted_twice_agrees
-- needs: cluster_step_trace_time, communication_group_groups
-- in: cluster_step_trace_time
-- about: A rank that communicates has a row: both files are made of the directories of the same ranks.
-- source: msprof-analyze 26.2: base_communication_group.py, step_trace_time_analysis.py; real output of sixteen ranks
-- message: communication_group.json has ranks that have no row here: {lost}
with named as (
  select distinct cycle, unnest(regexp_extract_all(numbers::varchar, '[0-9]+')) as member from communication_group_groups)
select cycle, some_of(list(member::bigint order by member::bigint)) as lost
from named anti join (select cycle, index as member from cluster_ranks where place = 'cluster_step_trace_time') as ranks using (cycle, member)
group by cycle

-- check: a_rank_with_steps_is_in_a_group
-- code: I113
-- headline: a rank is missing
-- severity: warning
-- invariant: counted_twice_agrees
-- needs: cluster_step_trace_time, communication_group_groups
-- in: communication_group
-- about: A rank that spent time on communication is in some group. A warning: what msprof lists as an operation of a group is up to CANN.
-- source: real output of sixteen ranks
-- message: cluster_step_trace_time.csv has ranks that communicate, and no group here has them: {lost}
with named as (
  select distinct cycle, unnest(regexp_extract_all(numbers::varchar, '[0-9]+')) as index from communication_group_groups)
select cycle, some_of(list(distinct index order by index)) as lost
from (from cluster_ranks where place = 'cluster_step_trace_time' and communication_ns > 0) anti join named using (cycle, index)
group by cycle

-- check: stages_are_the_groups_of_neighbours
-- code: I108
-- invariant: counted_twice_agrees
-- needs: cluster_step_trace_time, communication_group_groups
-- in: communication_group
-- about: Up to msprof-analyze 1.3, which writes no comm_group_parallel_info, a stage is a group of p2p in communication_group.json: each group
--   whose ranks have rows is a stage, and each stage is a group.
-- source: msprof-analyze 1.3.4: step_trace_time_analysis.py (analyze_step_time); real output of sixteen ranks
-- message: the stages of cluster_step_trace_time.csv have ranks {stages}, the groups of p2p have {groups}
with old as (
  select distinct cycle from communication_group_groups
  where cycle not in (select cycle from communication_group_parallel)),
stages as (
  select cycle, list_sort(list(distinct members_in(index))) as stages from cluster_steps
  where place = 'cluster_step_trace_time' and type = 'stage' and regexp_matches(index, '[0-9]') group by cycle),
groups as (
  select cycle, list_sort(list(distinct members_in(numbers::varchar))) as groups from communication_group_groups
  where kind = 'p2p' group by cycle)
select old.cycle, shown(coalesce(stages::varchar, 'none')) as stages, shown(coalesce(groups::varchar, 'none')) as groups
from old left join stages using (cycle) left join groups using (cycle)
where stages is distinct from groups

-- check: {check}
-- code: C112
-- headline: a table without a row
-- layouts: cluster
-- needs: {slot}
-- in: {slot}
-- each: check, slot, condition =
--   the_table_of_a_cluster_has_rows, cluster_step_trace_time, cycle not in (select cycle from cluster_step_trace_time);
--   the_table_of_a_cluster_has_rows, cluster_analysis,
--     cycle in (select cycle from database_tables where name = 'ClusterStepTraceTime' and is_there and rows = 0)
-- about: msprof-analyze makes no table of step times where it has none: a header alone is what is left of one.
-- source: msprof-analyze of 2023 and 26.2: step_trace_time_analysis.py (dump_data), file_manager.py (create_csv_file)
-- message: the table of step times has no row, and msprof-analyze writes no such table: its rows are lost
select cycle from cycles where layout = 'cluster' and {condition}

-- check: a_stage_is_joined_by_its_groups
-- code: I108
-- invariant: counted_twice_agrees
-- needs: cluster_step_trace_time, communication_group_groups
-- in: communication_group
-- about: Up to msprof-analyze 1.3, which writes no comm_group_parallel_info, a stage is made of the groups of collective operations that have ranks
--   in common: each of its ranks is with another one in such a group.
-- source: msprof-analyze of 2023: base_communication_group.py (generate_p2p_communication_group)
-- message: ranks {alone} of the stage {stage} are with no other rank of it in a group of collective operations
with stages as (
  select cycle, file, row, members_in(numbers::varchar) as stage, unnest(members_in(numbers::varchar)) as member
  from communication_group_groups
  where kind = 'p2p' and len(members_in(numbers::varchar)) > 1 and cycle not in (select cycle from communication_group_parallel)
    and (cycle, members_in(numbers::varchar)) in (select (cycle, members_in(index)) from cluster_steps where type = 'stage')),
joined as (
  select distinct stages.cycle, stages.file, stages.row, member
  from stages
  join communication_group_groups as groups
    on groups.cycle = stages.cycle and groups.kind = 'collective' and len(members_in(numbers::varchar)) > 1
    and list_contains(members_in(numbers::varchar), member) and list_has_all(stage, members_in(numbers::varchar)))
select cycle, file, row, shown(any_value(stage)::varchar) as stage, some_of(list(member order by member)) as alone
from stages anti join joined using (cycle, file, row, member)
group by cycle, file, row

-- check: an_index_is_of_its_type
-- code: S103
-- headline: a value does not fit the others of its row
-- each: table = cluster_step_trace_time; db_cluster_step_trace_time
-- needs: {table}
-- in: {table}
-- about: The index of a rank is its number, that of a stage the list of its ranks.
-- source: msprof-analyze of 2023 and 26.2: step_trace_time_analysis.py (analyze_step_time); real output of sixteen ranks
-- message: a row of a {type} has the index {index}
select cycle, file, row, type, shown(index) as index
from cluster_steps
where place = '{table}' and (type = 'rank') <> regexp_full_match(index, '[0-9]+')
