-- What must hold in the files of MindSpore's memory tracker. Its time stamps are a counter of events, no clock.

-- check: tasks_of_the_tracker_are_numbered_upwards
-- code: I106
-- needs: task
-- in: task
-- about: time_stamp ascends strictly: the counter is raised and the task appended under one lock.
-- source: MindSpore 2.4 to 2.6: mem_tracker.cc; real output of 2.10
-- message: {task_name}: time stamp {time_stamp} after {before}
select cycle, file, row, task_name, time_stamp, before
from (select *, lag(time_stamp) over (partition by cycle, file order by row) as before from task)
where time_stamp <= before

-- check: no_block_is_released_before_it_is_allocated
-- code: I106
-- needs: memory_block
-- in: memory_block
-- about: end_time_stamp > start_time_stamp, except -1, for a block inside another.
-- source: MindSpore 2.4 to 2.6: mem_tracker.cc
-- message: block {device_addr} is released at {end_time_stamp}, allocated at {start_time_stamp}
select cycle, file, row, device_addr, end_time_stamp, start_time_stamp
from memory_block
where end_time_stamp <= start_time_stamp and end_time_stamp <> -1 and start_time_stamp <> -1

-- check: the_peak_is_not_below_a_block
-- code: I107
-- needs: memory_block
-- in: memory_block
-- about: The peak is not below what is in use, where the file says both. A peak of 0 was not counted.
-- source: MindSpore 2.4 to 2.6: mem_tracker.cc
-- message: {used} bytes in use, but a peak of {peak} bytes so far
select cycle, file, row, actual_used_memory_bytes as used, actual_peak_memory_bytes as peak
from memory_block
where actual_peak_memory_bytes < actual_used_memory_bytes and actual_peak_memory_bytes > 0
