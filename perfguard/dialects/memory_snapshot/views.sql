-- What a snapshot of a caching allocator of torch says of each segment, block and address.

-- Segments with the sums of their blocks.
create view segment_sums as
select segments.*, coalesce(sums.found, 0) as found, coalesce(used, 0) as used, coalesce(active, 0) as active,
  if(sums.unknown > 0, null, coalesce(requested, 0)) as requested
from memory_snapshot_segments as segments
left join (
  select cycle, file, parent, sum(size_bytes) as found, sum(size_bytes) filter (state = 'active_allocated') as used,
    sum(size_bytes) filter (state <> 'inactive') as active, sum(requested_size_bytes) filter (state <> 'inactive') as requested,
    count(*) filter (state <> 'inactive' and requested_size_bytes is null) as unknown
  from memory_snapshot_blocks group by all) as sums
on sums.cycle = segments.cycle and sums.file = segments.file and sums.parent = segments.row;

-- Blocks with the address that follows from those before, and the state of the one before.
create view placed_blocks as
select blocks.*, segments.address + coalesce(sum(size_bytes) over (
    partition by blocks.cycle, blocks.file, parent order by blocks.row rows between unbounded preceding and 1 preceding), 0) as expected,
  lag(state) over (partition by blocks.cycle, blocks.file, parent order by blocks.row) as before
from memory_snapshot_blocks as blocks
join memory_snapshot_segments as segments
on segments.cycle = blocks.cycle and segments.file = blocks.file and segments.row = blocks.parent;

-- What happened to blocks and segments, with what happened to the same address before; of devices whose history has all of it.
create view address_history as
select *, lag(action) over before as before, lag(size_bytes) over before as before_bytes
from memory_snapshot_entries
semi join (
  select cycle, file, device from memory_snapshot_entries
  group by all
  having bool_or(action = 'alloc') and bool_or(action = 'free_requested') and bool_or(action = 'free_completed')) as whole
using (cycle, file, device)
where action in ('alloc', 'free_requested', 'free_completed', 'segment_alloc', 'segment_free')
window before as (partition by cycle, file, device, addr, action like 'segment_%' order by row);

-- How many bytes were in use after each entry, in what was asked for: counted back from what is active in the snapshot. Unknown where the
-- program left allocations or releases out of the history.
create view snapshot_levels as
with active as (
  select cycle, file, device::varchar as device, sum(requested) as requested
  from segment_sums group by all having count(requested) = count(*)),
changes as (
  select cycle, file, device, row,
    case action when 'alloc' then size_bytes when 'free_completed' then -size_bytes else 0 end as change,
    bool_or(action = 'alloc') over whole and bool_or(action = 'free_completed') over whole as is_known
  from memory_snapshot_entries
  window whole as (partition by cycle, file, device)),
sums as (
  select *, sum(change) over (partition by cycle, file, device order by row) as level,
    sum(change) over (partition by cycle, file, device) as total
  from changes where is_known)
select cycle, file, device, row, requested - total + level as level_bytes
from sums join active using (cycle, file, device);
