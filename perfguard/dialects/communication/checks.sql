-- What must hold in the documents of communication of an Ascend device, and between them and the kernels. Where a check names no other
-- source, it is: real output of torch_npu, eight directories; of msprof-analyze, sixteen ranks.

-- check: {check}
-- code: I109
-- needs: {table}
-- in: {table}
-- each: check, table = communication_times_add_up, communication_operations; cluster_communication_adds_up, cluster_communication_operations
-- about: Idle = Elapse - Transit - Wait.
-- tolerance: times are rounded to ns
-- message: Idle is {idle_ms:.9g} ms, Elapse - Transit - Wait is {rest_ms:.9g} ms
select cycle, file, row, path, idle_time_ns / 1e6 as idle_ms, rest_ns / 1e6 as rest_ms
from (select *, elapse_time_ns::hugeint - transit_time_ns - wait_time_ns as rest_ns from {table})
where does_not_add_up(idle_time_ns, rest_ns, 3)

-- check: {check}
-- code: I109
-- needs: {table}
-- in: {table}
-- each: check, table = communication_times_add_up, communication_operations; cluster_communication_adds_up, cluster_communication_operations
-- about: Synchronization <= Wait.
-- tolerance: times are rounded to ns
-- message: Synchronization is {synchronization_ms:.9g} ms, more than the whole Wait of {wait_ms:.9g} ms
select cycle, file, row, path, synchronization_time_ns / 1e6 as synchronization_ms, wait_time_ns / 1e6 as wait_ms
from {table} where synchronization_time_ns > wait_time_ns + 2

-- check: {check}
-- code: I109
-- needs: {table}
-- in: {table}
-- each: check, table, part = communication_times_add_up, communication_operations, wait | synchronization;
--   cluster_communication_adds_up, cluster_communication_operations, wait | synchronization
-- about: The ratios follow from Wait, Synchronization and Transit: 0 where nothing was sent or waited for.
-- tolerance: 0.0001: four decimals; times are rounded to ns
-- message: the ratio of {part} is {ratio}, {part_ms:.6g} ms of it and {transit_ms:.6g} ms of Transit make {expected:.4f}
select cycle, file, row, path, {part}_time_ratio as ratio, {part}_time_ns / 1e6 as part_ms, transit_time_ns / 1e6 as transit_ms, expected
from (
  select *, coalesce({part}_time_ns / nullif({part}_time_ns::hugeint + transit_time_ns, 0), 0) as expected,
    coalesce(1 / nullif({part}_time_ns::hugeint + transit_time_ns, 0), 0) as rounded
  from {table})
where abs({part}_time_ratio - expected) > 0.0001 + rounded

-- check: {check}
-- code: I109
-- needs: {table}_links
-- in: {table}_links
-- each: check, table = communication_bandwidths_follow, communication; cluster_communication_adds_up, cluster_communication;
--   matrix_bandwidths_follow, communication_matrix; cluster_matrix_bandwidths_follow, cluster_communication_matrix
-- about: Bandwidth = Transit Size / Transit Time. MB/ms is GB/s.
-- tolerance: 0.0001 GB/s: four decimals; or a millionth of it; sizes and times are rounded to bytes and ns
-- message: Bandwidth is {bandwidth_gb_per_s} GB/s, {size_mb:.9g} MB in {time_ms:.9g} ms are {expected:.4f} GB/s
select cycle, file, row, path, bandwidth_gb_per_s, transit_size_bytes / 1e6 as size_mb, transit_time_ns / 1e6 as time_ms,
  coalesce(transit_size_bytes / nullif(transit_time_ns, 0), 0) as expected
from {table}_links where is_not_the_bandwidth(bandwidth_gb_per_s, transit_size_bytes, transit_time_ns)

-- check: {check}
-- code: I109
-- needs: {table}_links
-- in: {table}_links
-- each: check, table, what, unit, value, sum =
--   communication_bandwidths_follow, communication, Size, MB, transit_size_bytes, 1e6 * sum(size_mb::double * packets);
--   communication_bandwidths_follow, communication, Time, ms, transit_time_ns, sum(time_ns)::double;
--   cluster_communication_adds_up, cluster_communication, Size, MB, transit_size_bytes, 1e6 * sum(size_mb::double * packets);
--   cluster_communication_adds_up, cluster_communication, Time, ms, transit_time_ns, sum(time_ns)::double
-- about: The packets of a link add up to its Transit Size and Transit Time. Where it lists none (SDMA never does) there is nothing to
--   add up.
-- tolerance: one ns or byte, and half of one for each size of packets
-- message: {link}: Transit {what} is {here:.9g} {unit}, the packets of its distribution add up to {packets:.9g} {unit}
with sums as (select cycle, file, parent, {sum} as there, count(*) as parts from {table}_packets group by cycle, file, parent)
select links.cycle, links.file, row, path, link, {value} / 1e6 as here, there / 1e6 as packets
from {table}_links as links join sums on sums.cycle = links.cycle and sums.file = links.file and sums.parent = links.row
where does_not_add_up({value}, there, parts)

-- check: {check}
-- code: I109
-- needs: {table}_links
-- in: {table}_links
-- each: check, table, what, value, unit =
--   communication_bandwidths_follow, communication, Size, transit_size_bytes, MB;
--   communication_bandwidths_follow, communication, Time, transit_time_ns, ms;
--   cluster_communication_adds_up, cluster_communication, Size, transit_size_bytes, MB;
--   cluster_communication_adds_up, cluster_communication, Time, transit_time_ns, ms
-- about: SDMA = HCCS + PCIE + SIO.
-- tolerance: 3 ns or bytes: each is rounded
-- message: SDMA: Transit {what} is {own:.9g} {unit}, HCCS, PCIE and SIO add up to {parts:.9g} {unit}
select own.cycle, own.file, own.row, own.path, here / 1e6 as own, there / 1e6 as parts
from (
  select cycle, file, parent, max({value}) filter (link = 'SDMA') as here,
    coalesce(sum({value}) filter (link in ('HCCS', 'PCIE', 'SIO')), 0) as there
  from {table}_links group by cycle, file, parent) as sums
join {table}_links as own on own.cycle = sums.cycle and own.file = sums.file and own.parent = sums.parent and own.link = 'SDMA'
where does_not_add_up(here, there, 3)

-- check: communication_total_is_the_sum
-- code: I109
-- needs: {operations}, {totals}
-- in: {operations}
-- each: operations, totals, part =
--   communication_operations, communication_totals, elapse | transit | wait | synchronization | idle;
--   cluster_communication_operations, cluster_totals, elapse | transit | wait | synchronization | idle
-- about: `Total Op Info` is the sum of the operations beside it, of one rank; `Total Op Info@group` of those of the group.
-- source: real output of torch_npu, eight directories; msprof-analyze of 2023: communication_analysis.py (class CommunicationAnalysis);
--   1.3.4 and 26.2: communication_analysis.py (compute_total_info)
-- tolerance: 1 ns, and half of one for each operation
-- message: the {part} time is {here:.9g} ms, the {parts} operations add up to {there:.9g} ms
select cycle, file, row, path, {part} / 1e6 as here, {part}_sum / 1e6 as there, parts
from {totals} where does_not_add_up({part}, {part}_sum, parts)

-- check: communication_total_is_the_sum
-- needs: {operations}, {totals}
-- in: {operations}
-- each: operations, totals, part, unit =
--   communication_operations, total_links, size, MB; communication_operations, total_links, time, ms;
--   cluster_communication_operations, cluster_total_links, size, MB; cluster_communication_operations, cluster_total_links, time, ms
-- about: ... and so are the size and the time of each of its links.
-- tolerance: 1 ns or byte, and half of one for each operation
-- message: {link}: its {part} is {here:.9g} {unit}, the {parts} operations add up to {there:.9g} {unit}
select cycle, file, row, path, link, {part} / 1e6 as here, {part}_sum / 1e6 as there, parts
from {totals} where does_not_add_up({part}, {part}_sum, parts)

-- check: communication_total_is_the_sum
-- needs: {operations}, {totals}
-- in: {operations}
-- each: operations, totals = communication_operations, total_packets; cluster_communication_operations, cluster_total_packets
-- about: ... and its packets of each size, and their time.
-- tolerance: 1 ns, and half of one for each operation
-- message: {link}: {packets:g} packets of {size_mb} MB in {time_ms:.9g} ms, the operations have {packets_sum:g} in {sum_ms:.9g} ms
select cycle, file, row, path, link, size_mb, packets, time_ns / 1e6 as time_ms, packets_sum, time_sum / 1e6 as sum_ms
from {totals} where does_not_add_up(time_ns, time_sum, rows) or abs(packets - packets_sum) > 1e-6

-- check: matrix_agrees_with_communication
-- code: I109
-- invariant: references_resolve
-- needs: communication_matrix_links, communication_operations
-- in: communication_matrix_links
-- about: The operator that a link was measured in is one of communication.json.
-- source: three real directories of torch_npu
-- message: {pair} is of {op_name}, which communication.json does not have in {step}.{kind}
select links.cycle, links.file, links.row, entries.path, pair, links.op_name, links.step, links.kind
from (
  from communication_matrix_links
  select * replace (coalesce(nullif(op_name, ''), op_name_of_mindspore) as op_name)) as links
join communication_matrix_entries as entries
  on entries.cycle = links.cycle and entries.file = links.file and entries.row = links.parent
left join communication_operations as operations
  on operations.cycle = links.cycle and operations.step = links.step and operations.kind = links.kind
  and operations.name = links.op_name || '@' || regexp_replace(links.name, '^[^@]*@?', '')
where links.op_name <> '' and operations.row is null

-- check: matrix_agrees_with_communication
-- invariant: communication_adds_up
-- needs: communication_matrix_entries, communication_operations, matrix_sums
-- in: communication_matrix_entries
-- each: part, unit = size, MB; time, ms
-- about: What the matrix sends over the links between devices is what communication.json says of the same operations. An entry is one
--   operation (older versions), `Total Op Info`, or `<type>-total` of a group, which adds up all of its type. LOCAL does not count.
-- tolerance: 1 ns or byte, and half of one for each link
-- message: the {part} of its links is {here:.9g} {unit}, communication.json says {there:.9g} {unit}
select cycle, file, row, path, {part} / 1e6 as here, {part}_there / 1e6 as there from matrix_sums where does_not_add_up({part}, {part}_there, parts)

-- check: summed_operations_have_a_slowest
-- code: I109
-- needs: communication_matrix_entries
-- in: communication_matrix_entries
-- about: Where operations are summed up by type (`allreduce-total@group`), the one of the highest bandwidth is named too (`-top1`).
-- source: torch_npu: _communication_parser.py (integrate_matrix_data makes both of each link); real output of level 1
-- message: {slowest} is missing beside it
select cycle, file, row, path, slowest
from (select *, replace(name, '-total@', '-top1@') as slowest from communication_matrix_entries where contains(name, '-total@')) as sums
where (cycle, file, step, kind, slowest) not in (select (cycle, file, step, kind, name) from communication_matrix_entries)

-- check: cluster_communication_is_of_one_run
-- code: I113
-- headline: an operation is far from the times of the others
-- needs: cluster_communication_operations
-- in: cluster_communication_operations
-- about: Every operation of every rank starts within a day of the others; totals have no start.
-- message: it started at {start_us:.3f} us, most others about {middle_us:.3f} us
with middles as (
  select cycle, file, (list_sort(list(start_timestamp_ns)))[count(*) // 2 + 1] as middle_ns
  from cluster_communication_operations where start_timestamp_ns is not null and name <> 'Total Op Info' group by cycle, file)
select cycle, file, row, path, start_timestamp_ns / 1000 as start_us, middle_ns / 1000 as middle_us
from cluster_communication_operations join middles using (cycle, file)
where name <> 'Total Op Info' and abs(start_timestamp_ns::hugeint - middle_ns) > 86400000000000

-- check: operations_are_of_a_known_group
-- code: I109
-- invariant: counted_twice_agrees
-- needs: {slot}_{rows}, communication_group_groups
-- in: {slot}_{rows}
-- each: slot, rows = cluster_communication, operations; cluster_communication_matrix, links
-- about: The ranks of a collective operation are a group of communication_group.json: both are made of the same operations.
-- source: msprof-analyze 26.2: base_communication_group.py, communication_json_generator.py; real output of sixteen ranks
-- message: {name} is of ranks {members}, which are no group in communication_group.json
select cycle, any_value(file) as file, min(row) as row, arg_min(path, row) as path, shown(arg_min(name, row)) as name, members
from (from operations_of_groups where slot = '{slot}' and members <> 'p2p') as listed
where (cycle, members_in(members)) not in (select (cycle, ranks) from cluster_groups where kind = 'collective')
group by cycle, members

-- check: operations_are_of_a_known_group
-- needs: {slot}_{rows}, communication_group
-- each: slot, rows = cluster_communication, operations; cluster_communication_matrix, links
-- about: Where ranks send to each other, there are groups of them.
-- message: {name} is sent from rank to rank, and communication_group.json has no group of p2p
select cycle, any_value(file) as file, min(row) as row, arg_min(path, row) as path, shown(arg_min(name, row)) as name
from (from operations_of_groups where slot = '{slot}' and members = 'p2p')
where cycle not in (select cycle from cluster_groups where kind = 'p2p')
group by cycle

-- check: links_are_between_members
-- code: I109
-- invariant: counted_twice_agrees
-- needs: cluster_communication_matrix_links
-- in: cluster_communication_matrix_links
-- about: Both ends of a link of a collective operation are ranks of its group.
-- source: msprof-analyze 26.2: comm_matrix_analysis.py; real output of sixteen ranks
-- message: the link {pair} of {name} leaves its group of ranks {members}
select cycle, file, row, path, pair, shown(name) as name, members
from operations_of_groups
where slot = 'cluster_communication_matrix' and members <> 'p2p' and not list_has_all(members_in(members), members_in(pair))

-- check: times_and_matrix_have_the_same_groups
-- code: I109
-- invariant: counted_twice_agrees
-- needs: cluster_communication_operations, cluster_communication_matrix_links
-- in: {here}
-- each: here, other, name = cluster_communication_operations, cluster_communication_matrix, cluster_communication_matrix.json;
--   cluster_communication_matrix_links, cluster_communication, cluster_communication.json
-- about: The operations of a group of ranks and of a step have times and links: both files are made of the same operations.
-- source: msprof-analyze 26.2: base_communication_group.py; real output of sixteen ranks
-- message: {count} operations of ranks {members} in {step} are only in {name}
select theirs.cycle, count(distinct theirs.name) as count, theirs.members, theirs.step, '{name}' as name
from operations_of_groups as theirs
where slot = '{other}' and (cycle, members, step) not in (select (cycle, members, step) from operations_of_groups where slot <> '{other}')
group by all

-- check: operations_have_the_same_kinds_of_links
-- code: I109
-- invariant: counted_twice_agrees
-- needs: {table}_operations, {table}_links
-- in: {table}_operations
-- each: table = communication; cluster_communication
-- about: Every operation lists the same kinds of links, those that carried nothing too.
-- source: msprof: meta_parser.py (init_bandwidth_dict: an entry for each type of transport); real output of torch_npu and of sixteen ranks
-- message: it has no {lost}, which {others} of {all_operations} operations have
with operations as (
  select op.cycle, op.file, op.row, any_value(op.path) as path, list(links.link) filter (links.link is not null) as links
  from {table}_operations as op
  left join {table}_links as links on links.cycle = op.cycle and links.file = op.file and links.parent = op.row
  group by op.cycle, op.file, op.row),
counted as (
  select cycle, link, count(*) as others from (select cycle, unnest(links) as link from operations) group by all),
known as (select cycle, count(*) as all_operations from operations group by cycle)
select operations.cycle, file, row, path, string_agg(link, ', ' order by link) as lost, min(others) as others, any_value(all_operations) as all_operations
from operations join counted using (cycle) join known using (cycle)
where not list_contains(coalesce(links, []), link) and 2 * others >= all_operations
group by operations.cycle, file, row, path

-- check: operations_with_times_have_links
-- code: I109
-- invariant: counted_twice_agrees
-- needs: cluster_communication_operations, cluster_communication_matrix_links
-- in: cluster_communication_operations
-- about: Where the matrix has single operations (torch_npu of 2023; later ones sum them up by type), those that have times have links. Judged where
--   it has at least half of them.
-- source: msprof-analyze 1.3.4 and 26.2: base_communication_group.py; real output of sixteen ranks
-- message: {name} of ranks {members} in {step} is not in cluster_communication_matrix.json
with listed as (
  select cycle, any_value(file) as file, min(row) as row, arg_min(path, row) as path, members, step, name
  from operations_of_groups
  where slot = 'cluster_communication' and not starts_with(name, 'Total Op Info') group by cycle, members, step, name),
judged as (
  select *, (cycle, members, step, name) in (
    select (cycle, members, step, name) from operations_of_groups where slot <> 'cluster_communication') as is_met
  from listed),
counted as (select cycle, count(*) as rows, count(*) filter (is_met) as met from judged group by cycle)
select cycle, file, row, path, shown(name) as name, members, step
from judged join counted using (cycle)
where not is_met and 2 * met >= rows

-- check: operations_of_a_cluster_have_a_total
-- code: I109
-- invariant: counted_twice_agrees
-- needs: cluster_communication_operations, cluster_sums
-- in: cluster_communication_operations
-- about: Where ranks have operations in a step, each has a total. Judged where most have one.
-- source: msprof-analyze of 2023 and 26.2: communication_analysis.py (compute_total_info)
-- message: rank {of_rank} of {members} has {parts} operations in {step}, and no total, which {met} of {all_totals} have
with style as (
  select cycle, bool_or(of_group is not null) as is_of_groups from cluster_parts where is_total group by cycle),
wanted as (
  select sums.*, (sums.cycle, sums.file, members, step, of_rank, coalesce(of_group, '')) in (
    select (cycle, file, members, step, of_rank, coalesce(of_group, '')) from cluster_parts where is_total) as is_met
  from cluster_sums as sums join style using (cycle) where (of_group is not null) = is_of_groups),
counted as (select cycle, count(*) as all_totals, count(*) filter (is_met) as met from wanted group by cycle)
select wanted.cycle, any_value(wanted.file) as file, members, step, of_rank, any_value(parts) as parts, any_value(met) as met,
  any_value(all_totals) as all_totals
from wanted join counted using (cycle)
where not is_met and 2 * met > all_totals
group by wanted.cycle, members, step, of_rank

-- check: the_total_of_a_matrix_is_the_sum
-- code: I109
-- invariant: totals_are_sums
-- needs: cluster_communication_matrix_links, cluster_matrix_sums
-- in: cluster_communication_matrix_links
-- each: part, value, unit = size, transit_size_bytes, MB; time, transit_time_ns, ms
-- about: A link of `Total Op Info` is the sum of the same link of the operations beside it, of a group where it names one. Where these are the
--   fastest, the middle and the slowest of a type, versions differ in what they add up: all, all but the middle, or whole sums.
-- source: msprof-analyze of 2023 and 2024: communication_analysis.py (combine_link_info); 26.2: comm_matrix_analysis.py, base_analysis.py
--   (check_add_op)
-- tolerance: 1 ns or byte, and half of one for each operation
-- message: the {part} of {pair} is {here:.9g} {unit}, the operations of its step add up to {there:.9g} {unit}
select totals.cycle, totals.file, totals.row, totals.path, totals.pair,
  {value} / 1e6 as here, coalesce({part}_whole, 0) / 1e6 as there
from (from cluster_matrix_parts where is_total) as totals
left join cluster_matrix_sums as sums
  on sums.cycle = totals.cycle and sums.file = totals.file and sums.members = totals.members and sums.step = totals.step
  and sums.pair = totals.pair and sums.of_group is not distinct from totals.of_group
where does_not_add_up(here * 1e6, coalesce({part}_all, 0), coalesce(parts, 0))
  and does_not_add_up(here * 1e6, coalesce({part}_no_middle, 0), coalesce(parts, 0))
  and does_not_add_up(here * 1e6, coalesce({part}_whole, 0), coalesce(parts, 0))

-- check: the_total_of_a_matrix_is_the_sum
-- each:
-- invariant: counted_twice_agrees
-- about: ... and has each link that they have. Judged where most are there.
-- message: the total of {members} in {step} has no link {pair}, which its operations have
with style as (
  select cycle, bool_or(of_group is not null) as is_of_groups from cluster_matrix_parts where is_total group by cycle),
wanted as (
  select sums.*, (sums.cycle, sums.file, members, step, pair, coalesce(of_group, '')) in (
    select (cycle, file, members, step, pair, coalesce(of_group, '')) from cluster_matrix_parts where is_total) as is_met
  from cluster_matrix_sums as sums join style using (cycle) where has_whole and (of_group is not null) = is_of_groups),
counted as (select cycle, count(*) as all_links, count(*) filter (is_met) as met from wanted group by cycle)
select cycle, file, members, step, pair
from wanted join counted using (cycle)
where not is_met and 2 * met > all_links

-- check: a_link_that_carried_has_packets
-- code: I109
-- invariant: counted_twice_agrees
-- needs: {table}_links
-- in: {table}_links
-- each: table = communication; cluster_communication
-- about: What a link carries is counted as a packet of its size. SDMA is the sum of other links, and has none of its own.
-- source: msprof: hccl_analysis_tool.py (update_bandwidth_record), three versions
-- message: {link}: {size_mb:.9g} MB in {time_ms:.9g} ms, and no packet in its Size Distribution
select cycle, file, row, path, link, transit_size_bytes / 1e6 as size_mb, transit_time_ns / 1e6 as time_ms
from {table}_links
where link in ('RDMA', 'HCCS', 'PCIE', 'SIO') and (transit_size_bytes > 0 or transit_time_ns > 0)
  and (cycle, file, row) not in (select (cycle, file, parent) from {table}_packets)

-- check: large_packets_are_some_of_the_packets
-- code: I109
-- invariant: figures_follow
-- needs: {table}_links
-- in: {table}_links
-- each: table = communication; cluster_communication
-- about: Large Packet Ratio is the share of the packets above a size, so it is that of the largest ones of Size Distribution, or 0.
-- source: msprof: hccl_analysis_tool.py (analyze_bandwidth_info), three versions
-- tolerance: 0.0001: four decimals
-- message: {link}: Large Packet Ratio is {ratio}, the packets by size have shares {shares}
with sizes as (
  select cycle, file, parent, size_mb::double as size, sum(packets) as packets from {table}_packets group by all),
above as (
  select cycle, file, parent, round(sum(packets) over (partition by cycle, file, parent order by size desc)
    / sum(packets) over (partition by cycle, file, parent), 6) as share
  from sizes),
known as (select cycle, file, parent, list(share order by share) as shares from above group by all)
select links.cycle, links.file, links.row, path, link, large_packet_ratio as ratio, shown(coalesce(shares::varchar, 'none')) as shares
from {table}_links as links
left join known on known.cycle = links.cycle and known.file = links.file and known.parent = links.row
where large_packet_ratio is not null
  and len(list_filter(coalesce(shares, []) || [0.0], lambda share: abs(share - large_packet_ratio) <= 0.0001)) = 0

-- check: a_total_is_carried_as_its_parts
-- code: I109
-- invariant: counted_twice_agrees
-- needs: cluster_communication_matrix_links
-- in: cluster_communication_matrix_links
-- about: The kind of a link of `Total Op Info` is that of the last operation of its sum.
-- source: msprof-analyze of 2023: communication_analysis.py (combine_link); 26.2: comm_matrix_analysis.py
-- message: {pair} is {transport_type} here, and {theirs} in the operations of its step
select totals.cycle, totals.file, totals.row, totals.path, totals.pair, totals.transport_type, string_agg(distinct parts.transport_type, ', ') as theirs
from (from cluster_matrix_parts where is_total) as totals
join (from cluster_matrix_parts where not is_total) as parts
  on parts.cycle = totals.cycle and parts.file = totals.file and parts.members = totals.members and parts.step = totals.step
  and parts.pair = totals.pair and (totals.of_group is null or parts.of_group = totals.of_group)
group by totals.cycle, totals.file, totals.row, totals.path, totals.pair, totals.transport_type
having not bool_or(parts.transport_type is not distinct from totals.transport_type)

-- check: groups_are_described
-- code: I109
-- invariant: counted_twice_agrees
-- needs: communication_group_groups, communication_group_parallel
-- in: communication_group
-- about: comm_group_parallel_info has one entry for each list of ranks, in the same order. Its ranks are those of the list, or all that the
--   process group has.
-- source: msprof-analyze 2.0 and 26.2: base_communication_group.py (analyze_parallel_group_info), communication_group_map.py (update_rank_set)
-- message: {kind} {number}: the ranks are {here}, in comm_group_parallel_info {there}
select cycle, file, '$.' || kind || '[' || (number - 1) || ']' as path, kind, number,
  if(is_lost, 'lost', shown(ranks::varchar)) as here, if(is_extra, 'lost', shown(ranks_there::varchar)) as there
from cluster_groups_twice where is_lost or is_extra or not list_has_all(ranks_there, ranks)

-- check: operations_are_of_a_described_group
-- code: I109
-- invariant: counted_twice_agrees
-- needs: {slot}_{rows}, communication_group_parallel
-- in: {slot}_{rows}
-- each: slot, rows = cluster_communication, operations; cluster_communication_matrix, links
-- about: The group in the name of an operation is described in comm_group_parallel_info: both are made of the same names.
-- source: msprof-analyze 2.0 and 26.2: base_communication_group.py, base_analysis.py (split_op_by_group)
-- message: {name} of ranks {members} is of group {of_group}, and comm_group_parallel_info has none of this name with these ranks
select ops.cycle, any_value(ops.file) as file, min(row) as row, arg_min(path, row) as path, shown(arg_min(name, row)) as name, members, of_group
from (select *, regexp_extract(name, '[^@]*$') as of_group from operations_of_groups where slot = '{slot}') as ops
where not starts_with(name, 'Total Op Info') and ops.cycle in (select cycle from communication_group_parallel)
  and (ops.cycle, of_group, members_in(members)) not in (
    select (cycle, group_name, ranks) from cluster_groups_twice where group_name is not null and ranks is not null)
group by ops.cycle, members, of_group

-- check: every_group_has_operations
-- code: I109
-- invariant: counted_twice_agrees
-- needs: cluster_communication_operations, communication_group_parallel
-- in: communication_group
-- about: A group is known by its operations, which are in one of the two files.
-- source: msprof-analyze 2.0 and 26.2: base_communication_group.py (analyze_communication_data)
-- message: no operation is of group {group_name}, which has ranks {members}
select cycle, file, kind, group_name, shown(ranks::varchar) as members
from cluster_groups_twice
where group_name is not null and cycle in (select cycle from operations_of_groups where slot = 'cluster_communication')
  and (cycle, group_name) not in (select (cycle, regexp_extract(name, '[^@]*$')) from operations_of_groups)

-- check: times_and_matrix_are_of_one_run
-- code: I113
-- headline: two files are of different runs
-- invariant: counted_twice_agrees
-- needs: cluster_communication_operations, cluster_communication_matrix_links
-- in: cluster_communication_matrix_links
-- about: Both files are made of the same operations, so that they name at least one communicator both.
-- source: msprof-analyze 1.3.4 and 26.2: base_communication_group.py; real output of sixteen ranks
-- message: none of its communicators ({own}) is one of cluster_communication.json ({other})
with named as (
  select distinct cycle, slot, regexp_extract(name, '[^@]*$') as communicator
  from operations_of_groups where contains(name, '@') and not starts_with(name, 'Total Op Info')),
sides as (
  select cycle, list(communicator order by communicator) filter (slot = 'cluster_communication') as others,
    list(communicator order by communicator) filter (slot = 'cluster_communication_matrix') as owns
  from named group by cycle)
select cycle, some_of(owns) as own, some_of(others) as other
from sides where len(owns) > 0 and len(others) > 0 and not list_has_any(owns, others)
