-- The ranks in a text, each once and in their order.
create macro members_in(text) as list_sort(list_distinct(regexp_extract_all(text, '[0-9]+')::bigint[]));

-- Step times: rows of a rank, in both tables that have them. What is not overlapped, and what of that is no receive.
create view rank_steps as
select *, communication_ns - communication_not_overlapped_ns as overlapped_there_ns,
  communication_not_overlapped_ns - bubble_ns as sent_there_ns,
  communication_not_overlapped_and_exclude_receive_ns as sent_ns,
  computing_ns::hugeint + communication_not_overlapped_ns + free_ns as busy_ns, stage_ns::hugeint + bubble_ns as span_ns,
  count(*) over (partition by cycle, device_id) = 1 as is_alone
from step_trace_time;

-- The same of a cluster, in the table and in the database: `place` is which.
create view cluster_steps as
select *, communication_ns - communication_not_overlapped_ns as overlapped_there_ns,
  communication_not_overlapped_ns - bubble_ns as sent_there_ns,
  communication_not_overlapped_and_exclude_receive_ns as sent_ns,
  computing_ns::hugeint + communication_not_overlapped_ns + free_ns as busy_ns, stage_ns::hugeint + bubble_ns as span_ns,
  count(*) over (partition by place, cycle, type, index) = 1 as is_alone
from (
  select 'cluster_step_trace_time' as place, * replace (coalesce(trim(step::varchar), '') as step, trim(index, ' "') as index)
  from cluster_step_trace_time
  union all by name
  select 'db_cluster_step_trace_time' as place, * replace (coalesce(trim(step), '') as step, trim(index, ' "') as index)
  from db_cluster_step_trace_time);

create view cluster_ranks as from cluster_steps where type = 'rank';

-- The times of the rows of clusters.
create view cluster_times as
select place, cycle, file, row, computing_ns, communication_not_overlapped_ns, overlapped_ns, communication_ns, free_ns, stage_ns,
  bubble_ns, communication_not_overlapped_and_exclude_receive_ns, preparing_ns
from cluster_steps;

-- The ranks of a stage, which its index lists, with their rows in the same step.
create view stage_members as
with ranks as (
  select place, cycle, file, step, index as member, max(row) as member_row from cluster_ranks group by all),
named as (
  select place, cycle, file, row, step, index, unnest(regexp_extract_all(index, '[0-9]+')) as member
  from cluster_steps where type = 'stage')
from named left join ranks using (place, cycle, file, step, member);

create view lost_members as
select place, cycle, file, row, step, index, string_agg(member, ', ' order by member) as lost
from stage_members where member_row is null group by all;

-- Times of a stage with the largest of its ranks, where all of these are known.
create view stage_times as
with largest as (
  select place, cycle, file, stage as row, if(count(columns('_ns$')) = count(*), max(columns('_ns$')), null) as '\0'
  from (select place, cycle, file, row as stage, member_row as row from stage_members) join cluster_times using (place, cycle, file, row)
  where (place, cycle, file, stage) not in (select (place, cycle, file, row) from lost_members)
  group by all)
select own.place, own.cycle, own.file, own.row, index, own.part, own.time_ns as own_ns, theirs.time_ns as largest_ns
from (from cluster_times semi join largest using (place, cycle, file, row) unpivot (time_ns for part in (columns('_ns$')))) as own
join (from largest unpivot (time_ns for part in (columns('_ns$')))) as theirs using (place, cycle, file, row, part)
join cluster_steps using (place, cycle, file, row);
