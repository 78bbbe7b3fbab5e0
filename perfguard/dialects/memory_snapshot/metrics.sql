-- What a snapshot of a caching allocator of torch measures, of each device.

-- metric: snapshot_allocated_bytes, snapshot_reserved_bytes, snapshot_fragmentation
-- needs: memory_snapshot_segments, memory_snapshot_blocks
-- digits: -, -, 6
-- about: Of all segments. Fragmentation is the part of them that is neither in use nor waiting to be free.
select cycle, 'device:' || device as subject, within(sum(allocated_size_bytes)), within(sum(total_size_bytes)),
  1 - sum(active_size_bytes) / nullif(sum(total_size_bytes), 0)
from memory_snapshot_segments where device is not null
group by cycle, device

-- metric: snapshot_peak_bytes
-- needs: memory_snapshot_segments, memory_snapshot_entries
-- about: The largest level of the history that was recorded, in what was asked for: counted back from the snapshot.
select cycle, 'device:' || device as subject, within(max(level_bytes)) from snapshot_levels group by cycle, device
