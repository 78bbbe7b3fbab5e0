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
create view total_packets as
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
