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

-- check: blocks_of_the_tracker_are_in_order
-- code: I106
-- needs: memory_block
-- in: memory_block
-- about: Blocks are listed as they were allocated: start_time_stamp ascends strictly. -1 is a block inside another.
-- source: MindSpore 2.4 to 2.10: mem_tracker.cc (AllocMemBlock)
-- message: block {device_addr} is allocated at {start_time_stamp}, after one at {before}
select cycle, file, row, device_addr, start_time_stamp, before
from (
  select *, lag(start_time_stamp) over (partition by cycle, file order by row) as before
  from memory_block where start_time_stamp >= 0)
where start_time_stamp <= before

-- check: a_moment_of_the_tracker_is_of_one_block
-- code: I114
-- needs: memory_block
-- in: memory_block
-- about: Every allocation and every release raises the counter, so no two of them have the same number.
-- source: MindSpore 2.4 to 2.10: mem_tracker.cc (AllocMemBlock, FreeMemBlock)
-- message: block {device_addr} is {does} at {moment}, when a block above was allocated or released
select cycle, file, row, device_addr, does, moment
from (
  select cycle, file, row, device_addr, unnest(['allocated', 'released']) as does, unnest([start_time_stamp, end_time_stamp]) as moment
  from memory_block)
where moment between 0 and 9223372036854775806
qualify row_number() over (partition by cycle, file, moment order by row, does) > 1

-- check: blocks_of_an_address_follow_each_other
-- code: I107
-- needs: memory_block
-- in: memory_block
-- about: An address is given out again only after its block was released.
-- source: MindSpore 2.4 to 2.10: mem_tracker.cc (device_mem_block_map)
-- message: block {device_addr} is allocated at {start_time_stamp}, and the one before it at this address is released at {before}
select cycle, file, row, device_addr, start_time_stamp, before
from (
  select *, lag(end_time_stamp) over (partition by cycle, file, pool_type, device_addr order by start_time_stamp, row) as before
  from memory_block where start_time_stamp >= 0)
where before > start_time_stamp and before < 9223372036854775807

-- check: users_of_a_block_are_tasks_of_its_life
-- code: I106
-- headline: a block and its users disagree
-- needs: memory_block
-- in: memory_block
-- about: last_user_task is the last of user_tasks, and before the release. A simple tracker leaves user_tasks blank.
-- source: MindSpore 2.4 to 2.10: mem_tracker.cc (UseMemBlock, task_list_to_str)
-- message: block {device_addr}: last_user_task is {last}, user_tasks are {users}, and it is released at {end_time_stamp}
select cycle, file, row, device_addr, coalesce(last_user_task::varchar, 'none') as last, shown(user_tasks) as users, end_time_stamp
from memory_block
where coalesce(user_tasks, '') <> '' and (cycle, file) in (select (cycle, file) from memory_block where last_user_task is not null)
    and last_user_task::varchar is distinct from nullif(regexp_extract(user_tasks, '([0-9]+)-?\}$', 1), '')
  or end_time_stamp >= 0 and last_user_task > end_time_stamp

-- check: a_block_names_its_task
-- code: I101
-- headline: a block and its task disagree
-- needs: memory_block, task
-- in: memory_block
-- each: part = node_name; graph_name
-- about: A block repeats what task.csv says of the task that asked for it.
-- source: MindSpore 2.4 to 2.10: mem_tracker.cc (NewMemInfo, block_csv, task_csv)
-- message: block {device_addr}: {part} of task {producer} is {here}, in task.csv it is {there}
with tasks as (
  select cycle, time_stamp, task_name, min(coalesce({part}, '')) as least, max(coalesce({part}, '')) as most from task group by all)
select block.cycle, block.file, block.row, device_addr, producer_task as producer, coalesce(block.{part}, '') as here,
  if(here <> least, least, most) as there
from memory_block as block join tasks on tasks.cycle = block.cycle and tasks.time_stamp = block.producer_task
  and tasks.task_name = block.task_name
where here <> least or here <> most

-- check: tasks_are_the_operators_of_the_graph
-- code: I101
-- headline: a task is not in the graph
-- invariant: counted_twice_agrees
-- needs: task, tracker_graph
-- in: task
-- about: A task is put into the list of task.csv and into the graph at once. Exact.
-- source: MindSpore 2.6 to 2.10: mem_tracker.cc (AddTask, CacheLastTask, Dump); real output of 2.10, graph mode and PyNative
-- message: task {time_stamp}, {node_name}, is not in tracker_graph.ir
select cycle, file, row, time_stamp, coalesce(node_name, '') as node_name
from task
where time_stamp is not null and (cycle, time_stamp) not in (select (cycle, time_stamp) from tracker_graph where time_stamp is not null)

-- check: tasks_are_the_operators_of_the_graph
-- headline: an operator of the graph is not in task.csv
-- in: tracker_graph
-- about: ... and the other way round.
-- message: task {time_stamp} is not in task.csv: {call}
select cycle, file, row, time_stamp, shown(call) as call
from tracker_graph
where time_stamp is not null and (cycle, time_stamp) not in (select (cycle, time_stamp) from task where time_stamp is not null)

-- check: tasks_are_the_operators_of_the_graph
-- invariant: of_one_run
-- headline: a task has another name in the graph
-- about: Both have the same name.
-- message: task {time_stamp} is {node_name} in task.csv, and here: {call}
with tasks as (
  select cycle, time_stamp, min(coalesce(node_name, '')) as least, max(coalesce(node_name, '')) as most from task group by all)
select cycle, file, row, time_stamp, if(contains(call, ') = ' || least || '('), most, least) as node_name, shown(call) as call
from tracker_graph join tasks using (cycle, time_stamp)
where not contains(call, ') = ' || least || '(') or not contains(call, ') = ' || most || '(')

-- check: tasks_are_the_operators_of_the_graph
-- code: I106
-- needs: tracker_graph
-- about: Tasks are in the order of their numbers, each once.
-- message: task {time_stamp} follows task {before}
select cycle, file, row, time_stamp, before
from (select *, lag(time_stamp) over (partition by cycle, file order by row) as before from tracker_graph)
where time_stamp <= before

-- check: blocks_of_the_graph_are_listed
-- code: I101
-- headline: a block of the graph is not in the list of blocks
-- invariant: counted_twice_agrees
-- needs: memory_block, tracker_graph
-- in: tracker_graph
-- about: The graph names a block by the moment of its allocation: each is one of memory_block.csv, which lists all but those of the CPU.
--   Judged where it lists at least half of them, or none at all.
-- source: MindSpore 2.6 to 2.10: mem_tracker.cc (TrackerTensor::ToString, MarkTensorAsInput, Dump)
-- message: task {time_stamp} has the block %{moment}, and memory_block.csv has none that was allocated then
with named as (
  select cycle, file, row, time_stamp, unnest(list_distinct(regexp_extract_all(call, '[( ]%([0-9]{1,18})', 1)))::bigint as moment from tracker_graph),
judged as (
  select *, (cycle, moment) in (select (cycle, start_time_stamp) from memory_block where start_time_stamp is not null) as is_met from named),
counted as (select cycle, count(*) as blocks, count(*) filter (is_met) as met from judged group by cycle)
select cycle, min(file) as file, min(row) as row, arg_min(time_stamp, row) as time_stamp, moment
from judged join counted using (cycle)
where not is_met and (2 * met >= blocks or cycle not in (select cycle from memory_block))
group by cycle, moment

-- check: a_block_has_all_of_its_origin
-- code: I115
-- headline: a part of a row is missing
-- needs: memory_block
-- in: memory_block
-- about: Who asked for a block, and where, is known as a whole or not at all.
-- source: MindSpore 2.4 to 2.10: mem_tracker.cc (block_csv)
-- message: block {device_addr} has no {lost}, and the rest of who asked for it is there
select cycle, file, row, device_addr, array_to_string(lost, ', ') as lost
from (
  select *, list_filter([if(line_num is null, 'line_num', ''), if(coalesce(type, '') = '', 'type', ''),
    if(producer_task is null, 'producer_task', ''), if(coalesce(task_name, '') = '', 'task_name', '')], lambda name: name <> '') as lost
  from memory_block)
where len(lost) between 1 and 3

-- check: a_block_inside_another_has_no_times
-- code: S103
-- headline: a value does not fit the others of its row
-- needs: memory_block
-- in: memory_block
-- about: A block inside another has -1 for its allocation and for its release, which are those of the other; all other blocks have neither.
-- source: MindSpore 2.4 and 2.5: mem_tracker.cc (BindDevicePtr, kInSideSomas); later ones have no such blocks
-- message: block {device_addr} is allocated at {start_time_stamp} and released at {end_time_stamp}: only one of the two is -1
select cycle, file, row, device_addr, start_time_stamp, end_time_stamp
from memory_block where (start_time_stamp = -1) <> (end_time_stamp = -1)
