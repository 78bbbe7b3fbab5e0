-- What the documents of communication mean: communication.json, communication_matrix.json, and those that msprof-analyze makes of all
-- ranks.

-- Whether a time in ns or a size in bytes is not what others add up to: each of them is rounded.
create macro does_not_add_up(here, there, parts) as
  abs(here::double - there::double) > 1.5 + 0.5 * parts + 1e-9 * greatest(abs(here::double), abs(there::double));

-- Whether a bandwidth in GB/s is not a size in bytes over a time in ns: it has four decimals, and both are rounded.
create macro is_not_the_bandwidth(bandwidth, bytes, ns) as
  abs(bandwidth - coalesce(bytes / nullif(ns, 0), 0))
  > greatest(0.0001, 0.000001 * bandwidth) + coalesce(bytes / nullif(ns, 0), 0) * coalesce(0.5 / nullif(bytes, 0) + 0.5 / nullif(ns, 0), 0);

-- Whether a link carries data between devices; SDMA is the sum of those that are no network.
create macro is_between_devices(link) as link in ('RDMA', 'HCCS', 'PCIE', 'SIO');

-- What an operation is called with all others of its type and group of ranks: 'hcom_allReduce__586_0_1@1752' is 'allreduce@1752'.
create macro type_of(operation) as
  lower(regexp_extract(operation, '^(?:hcom_)?([A-Za-z]+)', 1)) || regexp_extract(operation, '@.*$');

-- Totals (`Total Op Info`), with what the operations beside them add up to.
create view fill_communication_totals as
with sums as (
  select cycle, file, step, kind, count(*) as parts, sum(elapse_time_ns) as elapse_time_ns, sum(transit_time_ns) as transit_time_ns,
    sum(wait_time_ns) as wait_time_ns, sum(synchronization_time_ns) as synchronization_time_ns, sum(idle_time_ns) as idle_time_ns
  from communication_operations where name <> 'Total Op Info' group by cycle, file, step, kind)
select cycle, file, row, path, step, kind, coalesce(parts, 0) as parts,
  totals.elapse_time_ns as elapse, totals.transit_time_ns as transit, totals.wait_time_ns as wait,
  totals.synchronization_time_ns as synchronization, totals.idle_time_ns as idle,
  coalesce(sums.elapse_time_ns, 0) as elapse_sum, coalesce(sums.transit_time_ns, 0) as transit_sum,
  coalesce(sums.wait_time_ns, 0) as wait_sum, coalesce(sums.synchronization_time_ns, 0) as synchronization_sum,
  coalesce(sums.idle_time_ns, 0) as idle_sum
from (from communication_operations where name = 'Total Op Info') as totals left join sums using (cycle, file, step, kind);

-- Links of the totals, with what the same links of the operations add up to.
create view fill_total_links as
with sums as (
  select cycle, file, step, kind, link, sum(transit_size_bytes) as size_sum, sum(transit_time_ns) as time_sum
  from communication_links where name <> 'Total Op Info' group by cycle, file, step, kind, link)
select totals.cycle, totals.file, totals.row, totals.path, parts, links.row as link_row, step, kind, link,
  transit_size_bytes as size, transit_time_ns as time, coalesce(size_sum, 0) as size_sum, coalesce(time_sum, 0) as time_sum
from communication_totals as totals
join (from communication_links where name = 'Total Op Info') as links using (cycle, file, step, kind)
left join sums using (cycle, file, step, kind, link);

-- Sizes of packets over the links of the totals, those that either the total or an operation has.
create view fill_total_packets as
with own as (
  select cycle, file, parent as link_row, size_mb, sum(packets) as packets, sum(time_ns) as time_ns
  from communication_packets where name = 'Total Op Info' group by all),
summed as (
  select cycle, file, link_row, size_mb, count(*) as rows, sum(packets) as packets, sum(time_ns) as time_ns
  from (select cycle, file, step, kind, link, size_mb, packets, time_ns from communication_packets where name <> 'Total Op Info')
  join total_links using (cycle, file, step, kind, link)
  group by cycle, file, link_row, size_mb),
sizes as (select coalesce(own.cycle, summed.cycle) as cycle, coalesce(own.file, summed.file) as file,
    coalesce(own.link_row, summed.link_row) as link_row, coalesce(own.size_mb, summed.size_mb) as size_mb,
    coalesce(own.packets, 0) as packets, coalesce(own.time_ns, 0) as time_ns, coalesce(summed.packets, 0) as packets_sum,
    coalesce(summed.time_ns, 0) as time_sum, coalesce(rows, 0) as rows
  from own full join summed
    on own.cycle = summed.cycle and own.file = summed.file and own.link_row = summed.link_row and own.size_mb = summed.size_mb)
select cycle, file, row, path, link, size_mb, packets, time_ns, packets_sum, sizes.time_sum, rows
from sizes join total_links using (cycle, file, link_row);

-- Entries of the matrix with what goes over their links between devices, and what the operations that they stand for say: one of the
-- same name, or all of a type. None where a link is of a kind that operations do not list.
create view fill_matrix_sums as
with entries as (
  select entries.cycle, entries.file, entries.row, any_value(entries.path) as path, any_value(entries.step) as step,
    any_value(entries.kind) as kind, any_value(entries.name) as name, coalesce(sum(transit_size_bytes), 0) as size,
    coalesce(sum(transit_time_ns), 0) as time, count(links.row) as links
  from communication_matrix_entries as entries
  left join (from communication_matrix_links where transport_type is distinct from 'LOCAL') as links
    on links.cycle = entries.cycle and links.file = entries.file and links.parent = entries.row
  group by entries.cycle, entries.file, entries.row
  having count(*) filter (not is_between_devices(transport_type)) = 0),
operations as (
  select operations.cycle, operations.step, operations.kind, operations.name,
    coalesce(sum(transit_size_bytes), 0) as size, coalesce(sum(links.transit_time_ns), 0) as time, count(links.row) as links
  from communication_operations as operations
  left join (from communication_links where is_between_devices(link)) as links
    on links.cycle = operations.cycle and links.file = operations.file and links.parent = operations.row
  group by all),
types as (
  select cycle, step, kind, type_of(name) as type, sum(size) as size, sum(time) as time, sum(links) as links
  from operations where name <> 'Total Op Info' group by all)
select entries.cycle, entries.file, entries.row, entries.path, entries.size, entries.time,
  coalesce(operations.size, types.size) as size_there, coalesce(operations.time, types.time) as time_there,
  entries.links + coalesce(operations.links, types.links) as parts
from entries
left join operations using (cycle, step, kind, name)
left join types
  on operations.name is null and entries.name like '%-total@%' and types.cycle = entries.cycle and types.step = entries.step
  and types.kind = entries.kind and types.type = regexp_replace(entries.name, '-total@', '@')
where coalesce(operations.size, types.size) is not null;

-- Collectives, sends and receives with the totals of each step, and a row for a step without any: those of the database where there is
-- no document.
create view collective_operations as
select cycle, steps.row as place, step, nullif(name, 'Total Op Info') as name, elapse_time_ns as elapse_ns, wait_time_ns as wait_ns
from communication_steps as steps left join communication_operations using (cycle, step)
union all
select cycle, min(row), coalesce(step, ''), nullif(hccl_op_name, 'Total Op Info'), arg_max(elapse_time_ns, row), arg_max(wait_time_ns, row)
from db_comm_analyzer_time
where cycle not in (select cycle from communication_steps)
group by cycle, coalesce(step, ''), hccl_op_name, group_name;

-- Groups of ranks of a cluster as a text of the ranks in their order, and those that operations are said to be of.
create view cluster_groups as
select distinct cycle, kind, members_in(numbers::varchar) as ranks from communication_group_groups;

create view operations_of_groups as
select cycle, 'cluster_communication' as slot, file, row, path, members, step, name, null as pair from cluster_communication_operations
union all
select cycle, 'cluster_communication_matrix', file, row, path, members, step, name, pair from cluster_communication_matrix_links;

-- Operations of a cluster by the group of their name: totals are of all groups (`Total Op Info`), or of one (`Total Op Info@group`).
create view cluster_parts as
select *, starts_with(name, 'Total Op Info') as is_total,
  if(starts_with(name, 'Total Op Info'), nullif(regexp_extract(name, '@(.*)$', 1), ''), regexp_extract(name, '[^@]*$')) as of_group
from cluster_communication_operations;

-- What a total is the sum of: the operations of its ranks and step, of one group (`of_group`) and of all.
create view fill_cluster_sums as
with parts as (
  select cycle, file, members, step, of_rank, of_group, elapse_time_ns, transit_time_ns, wait_time_ns, synchronization_time_ns, idle_time_ns
  from cluster_parts where not is_total)
select cycle, file, members, step, of_rank, of_group, count(*) as parts, sum(elapse_time_ns)::double as elapse_sum,
  sum(transit_time_ns)::double as transit_sum, sum(wait_time_ns)::double as wait_sum,
  sum(synchronization_time_ns)::double as synchronization_sum, sum(idle_time_ns)::double as idle_sum
from (from parts union all by name select * replace (null as of_group) from parts)
group by cycle, file, members, step, of_rank, of_group;

-- Totals of a cluster with what the operations beside them add up to.
create view fill_cluster_totals as
select totals.cycle, totals.file, totals.row, totals.path, totals.members, totals.step, totals.of_rank, totals.of_group,
  coalesce(parts, 0) as parts,
  totals.elapse_time_ns as elapse, totals.transit_time_ns as transit, totals.wait_time_ns as wait,
  totals.synchronization_time_ns as synchronization, totals.idle_time_ns as idle,
  coalesce(elapse_sum, 0) as elapse_sum, coalesce(transit_sum, 0) as transit_sum, coalesce(wait_sum, 0) as wait_sum,
  coalesce(synchronization_sum, 0) as synchronization_sum, coalesce(idle_sum, 0) as idle_sum
from (from cluster_parts where is_total) as totals
left join cluster_sums as sums
  on sums.cycle = totals.cycle and sums.file = totals.file and sums.members = totals.members and sums.step = totals.step
  and sums.of_rank = totals.of_rank and sums.of_group is not distinct from totals.of_group;

-- Links and packets of the totals of a cluster, and the same of the operations, by the total that they are a part of.
create view fill_cluster_shares as
select totals.cycle, totals.file, totals.row as total, ops.row as operation
from cluster_totals as totals
join (from cluster_parts where not is_total) as ops
  on ops.cycle = totals.cycle and ops.file = totals.file and ops.members = totals.members and ops.step = totals.step
  and ops.of_rank = totals.of_rank and (totals.of_group is null or totals.of_group = ops.of_group);

create view fill_cluster_total_links as
with sums as (
  select shares.cycle, shares.file, total, link, sum(transit_size_bytes)::double as size_sum, sum(transit_time_ns)::double as time_sum
  from cluster_shares as shares
  join cluster_communication_links as links
    on links.cycle = shares.cycle and links.file = shares.file and links.parent = shares.operation
  group by all),
own as (
  select totals.cycle, totals.file, totals.row as total, totals.path, totals.parts, link, transit_size_bytes as size, transit_time_ns as time
  from cluster_totals as totals
  join cluster_communication_links as links
    on links.cycle = totals.cycle and links.file = totals.file and links.parent = totals.row)
select own.cycle, own.file, own.total as row, own.path, own.parts, own.link, own.size, own.time, coalesce(size_sum, 0) as size_sum,
  coalesce(time_sum, 0) as time_sum
from own left join sums on sums.cycle = own.cycle and sums.file = own.file and sums.total = own.total and sums.link = own.link;

create view fill_cluster_total_packets as
with packets as (
  select packets.cycle, packets.file, links.parent as operation, packets.link, size_mb, packets, packets.time_ns
  from cluster_communication_packets as packets
  join cluster_communication_links as links
    on links.cycle = packets.cycle and links.file = packets.file and links.row = packets.parent),
own as (
  select cycle, file, operation as row, link, size_mb::double as size_mb, sum(packets) as packets, sum(time_ns)::double as time_ns
  from packets where (cycle, file, operation) in (select (cycle, file, row) from cluster_totals) group by all),
summed as (
  select cycle, file, total as row, link, size_mb::double as size_mb, count(*) as rows, sum(packets) as packets_sum,
    sum(time_ns)::double as time_sum
  from packets join cluster_shares using (cycle, file, operation) group by all)
select cycle, file, row, totals.path, link, size_mb, coalesce(packets, 0) as packets, coalesce(time_ns, 0) as time_ns,
  coalesce(packets_sum, 0) as packets_sum, coalesce(time_sum, 0) as time_sum, coalesce(rows, 0) as rows
from own full join summed using (cycle, file, row, link, size_mb)
join cluster_totals as totals using (cycle, file, row);

-- Links of the matrix of a cluster, as `cluster_parts`. Versions of msprof-analyze sum up different ones of the operations where these are
-- the fastest, the middle and the slowest of a type: all, all but the middle, or the rest, which are whole sums.
create view cluster_matrix_parts as
select *, starts_with(name, 'Total Op Info') as is_total,
  if(starts_with(name, 'Total Op Info'), nullif(regexp_extract(name, '@(.*)$', 1), ''), regexp_extract(name, '[^@]*$')) as of_group,
  not contains(name, 'middle') as is_no_middle,
  not (contains(name, 'middle') or contains(name, 'top') or contains(name, 'bottom')) as is_whole
from cluster_communication_matrix_links;

create view fill_cluster_matrix_sums as
with parts as (
  select cycle, file, members, step, of_group, pair, is_no_middle, is_whole, transit_size_bytes as size, transit_time_ns as time
  from cluster_matrix_parts where not is_total)
select cycle, file, members, step, of_group, pair, count(*) as parts,
  sum(size)::double as size_all, coalesce(sum(size) filter (is_no_middle), 0)::double as size_no_middle,
  coalesce(sum(size) filter (is_whole), 0)::double as size_whole,
  sum(time)::double as time_all, coalesce(sum(time) filter (is_no_middle), 0)::double as time_no_middle,
  coalesce(sum(time) filter (is_whole), 0)::double as time_whole, bool_or(is_whole) as has_whole
from (from parts union all by name select * replace (null as of_group) from parts)
group by cycle, file, members, step, of_group, pair;

-- Groups of one kind by their number, with their ranks there and in comm_group_parallel_info.
create view cluster_groups_twice as
with listed as (
  select cycle, file, row, path, kind, numbers::varchar as ranks, row_number() over (partition by cycle, file, kind order by row) as number
  from communication_group_groups),
described as (
  select cycle, file, type as kind, rank_set::varchar as ranks, group_name,
    row_number() over (partition by cycle, file, type order by row) as number
  from communication_group_parallel)
select coalesce(listed.cycle, described.cycle) as cycle, coalesce(listed.file, described.file) as file,
  coalesce(listed.kind, described.kind) as kind, coalesce(listed.number, described.number) as number, group_name,
  members_in(listed.ranks) as ranks, members_in(described.ranks) as ranks_there, listed.number is null as is_lost, described.number is null as is_extra
from listed full join described
  on listed.cycle = described.cycle and listed.file = described.file and listed.kind = described.kind and listed.number = described.number
where coalesce(listed.cycle, described.cycle) in (select cycle from communication_group_parallel);
