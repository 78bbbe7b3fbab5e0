-- What must hold in a snapshot of a caching allocator of torch. Its history is taken under the allocator's lock, then its segments are: others
-- may go on in between.

-- check: blocks_fill_their_segment
-- code: I107
-- needs: memory_snapshot_segments, memory_snapshot_blocks
-- in: memory_snapshot_segments
-- about: The blocks of a segment are all of it.
-- source: torch: c10/cuda/CUDACachingAllocator.cpp (snapshot)
-- message: a segment of {total_size_bytes} bytes has blocks of {found} bytes
select cycle, file, row, path, total_size_bytes, found from segment_sums where found <> total_size_bytes

-- check: sizes_of_a_segment_are_those_of_its_blocks
-- code: I107
-- needs: memory_snapshot_segments, memory_snapshot_blocks
-- in: memory_snapshot_segments
-- about: What is in use, what is active (in use or waiting to be free), and what was asked for in active blocks: each is the sum of the
--   blocks, to the byte.
-- source: torch: c10/cuda/CUDACachingAllocator.cpp (snapshot)
-- message: {what} of a segment is {stated} bytes, of its blocks {found}
select cycle, file, row, path, what, stated, found
from (
  select cycle, file, row, path, unnest(['allocated_size', 'active_size', 'requested_size']) as what,
    unnest([allocated_size_bytes, active_size_bytes, requested_size_bytes]) as stated, unnest([used, active, requested]) as found
  from segment_sums)
where stated <> found

-- check: blocks_follow_each_other
-- code: I107
-- needs: memory_snapshot_segments, memory_snapshot_blocks
-- in: memory_snapshot_blocks
-- about: The first block begins with the segment, each other where the one before ends.
-- source: torch: torch/csrc/cuda/Module.cpp (memorySnapshot)
-- message: a block is at {address}; its segment begins, or the block before ends, at {expected}
select cycle, file, row, path, address, expected from placed_blocks where address <> expected

-- check: free_blocks_are_merged
-- code: I107
-- needs: memory_snapshot_segments, memory_snapshot_blocks
-- in: memory_snapshot_blocks
-- severity: warning
-- about: A free block has no free neighbour: the allocator merges them.
-- source: torch: c10/cuda/CUDACachingAllocator.cpp (free_block, try_merge_blocks)
-- message: two free blocks follow each other at {address}
select cycle, file, row, path, address from placed_blocks where state = 'inactive' and before = 'inactive'

-- check: a_block_has_what_was_asked_for
-- code: I112
-- needs: memory_snapshot_blocks
-- in: memory_snapshot_blocks
-- about: Sizes are rounded up: an active block is not smaller than what was asked for in it.
-- source: torch: c10/cuda/CUDACachingAllocator.cpp (round_size)
-- message: {requested_size_bytes} bytes were asked for in a block of {size_bytes}
select cycle, file, row, path, requested_size_bytes, size_bytes from memory_snapshot_blocks where state <> 'inactive' and requested_size_bytes > size_bytes

-- check: segments_do_not_overlap
-- code: I114
-- needs: memory_snapshot_segments
-- in: memory_snapshot_segments
-- about: A byte of a device is of one segment.
-- source: torch: c10/cuda/CUDACachingAllocator.cpp; torch_npu appends segments of workspaces to the sorted ones (Module.cpp)
-- message: a segment begins at {address}, and another ends at {before}
select cycle, file, row, path, address, before
from (
  select *, max(address::hugeint + total_size_bytes) over (
    partition by cycle, file, device order by address, row rows between unbounded preceding and 1 preceding) as before
  from memory_snapshot_segments)
where address < before

-- check: history_of_an_allocator_is_in_order
-- code: I106
-- needs: memory_snapshot_entries
-- in: memory_snapshot_entries
-- about: Times of a device's history do not descend: each entry is written under the allocator's lock.
-- source: torch: c10/cuda/CUDACachingAllocator.cpp (record_trace)
-- message: {action} at {time_us} us, after {before_us} us
select cycle, file, row, path, action, time_ns // 1000 as time_us, before_ns // 1000 as before_us
from (select *, lag(time_ns) over (partition by cycle, file, device order by row) as before_ns from memory_snapshot_entries)
where time_ns < before_ns

-- check: an_address_is_given_out_once_at_a_time
-- code: I114
-- needs: memory_snapshot_entries
-- in: memory_snapshot_entries
-- severity: warning
-- about: Between two allocations at an address it became free, and between two releases it was given out; so for segments. Or the history
--   was off in between. Where the program left out some of these (`skip_actions`), nothing is said.
-- source: torch: c10/cuda/CUDACachingAllocator.cpp (malloc, free, free_block, release_block)
-- message: {action} at address {addr}, {after} {before}
select cycle, file, row, path, action, addr, if(before = action, 'after another', 'after') as after, before
from address_history
where action = 'alloc' and before <> 'free_completed' or action = 'free_requested' and before <> 'alloc'
  or action = 'free_completed' and before <> 'free_requested' or action like 'segment_%' and before = action

-- check: a_block_is_released_as_it_was_allocated
-- code: I107
-- needs: memory_snapshot_entries
-- in: memory_snapshot_entries
-- severity: warning
-- about: What is released at an address is as much as was asked for there, or the history was off in between.
-- source: torch: c10/cuda/CUDACachingAllocator.cpp (free, free_block)
-- message: {action} of {size_bytes} bytes at {addr}, and {before} of {before_bytes} before
select cycle, file, row, path, action, size_bytes, addr, before, before_bytes
from address_history
where (before = 'alloc' and action = 'free_requested' or before = 'free_requested' and action = 'free_completed')
  and size_bytes <> before_bytes
