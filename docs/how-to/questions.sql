-- Twenty questions to a recording, for every profiler: perfguard sql DIR "..."

-- 1. What runs on the host most often?
select type, sum(calls) as calls from operators group by type order by calls desc, type;

-- 2. What takes the most time there, without what runs inside?
select type, sum(self_ns) / 1e3 as self_us from operators group by type order by self_us desc nulls last, type;

-- 3. With which inputs does an operator run?
select type, input_shapes, input_types, sum(calls) as calls from operators where input_shapes is not null group by all order by all;

-- 4. How many calls does each step make?
select rank, step, sum(calls) as calls from operators group by all order by all;

-- 5. What runs in some steps only?
with counts as (select rank, count(distinct step) as steps from operators where step is not null group by rank)
select rank, type, count(distinct step) as steps_with_it, steps
from operators join counts using (rank)
where step is not null
group by rank, type, steps having count(distinct step) < steps
order by rank, type;

-- 6. How long is each step?
select rank, step, number, (end_ns - start_ns) / 1e3 as us from steps join cycles using (cycle) order by rank, cycle, step;

-- 7. Which kernels take the most time?
select type, kind, sum(calls) as calls, sum(duration_ns * calls) / 1e3 as us from kernels group by all order by us desc nulls last, type;

-- 8. Which operators launch them?
select operator, type, sum(calls) as calls from kernels where operator is not null group by all order by calls desc, operator, type;

-- 9. What does a device do in each step?
select rank, device, step, kind, sum(calls) as calls, sum(duration_ns * calls) / 1e3 as us from kernels group by all order by all;

-- 10. How many bytes are copied, and where?
select rank, step, name, count(*) as copies, sum(bytes) as bytes from kernels where kind in ('copy', 'set') group by all order by all;

-- 11. How often does a step call the device's runtime?
select rank, step, kind, count(*) as calls from launches group by all order by all;

-- 12. What makes the host wait for a device?
select rank, step, name, operator, count(*) as waits, sum(duration_ns) / 1e3 as us
from launches where kind = 'synchronise' group by all order by us desc, name;

-- 13. How long does a kernel wait between its launch and its start?
select kernels.rank, kernels.step, count(*) as kernels, median(kernels.start_ns - launches.start_ns) / 1e3 as median_us,
  max(kernels.start_ns - launches.start_ns) / 1e3 as longest_us
from kernels join launches on launches.cycle = kernels.cycle and launches.correlation = kernels.correlation
group by all order by all;

-- 14. How busy is each stream?
select rank, device, stream, count(*) as kernels, sum(duration_ns) / 1e3 as busy_us, (max(start_ns + duration_ns) - min(start_ns)) / 1e3 as of_us
from kernels where start_ns is not null group by all order by all;

-- 15. How long does nothing run on a device, between its first and its last kernel?
with reached as (
  select rank, cycle, device, start_ns, max(start_ns + duration_ns) over (
    partition by cycle, device order by start_ns rows between unbounded preceding and 1 preceding) as before_ns
  from kernels where start_ns is not null)
select rank, cycle, device, sum(greatest(start_ns - before_ns, 0)) / 1e3 as idle_us from reached group by all order by all;

-- 16. How long does a device only communicate?
with edges as (
  select rank, cycle, device, kind = 'communication' as moves, unnest([start_ns, start_ns + duration_ns]) as at_ns, unnest([1, -1]) as change
  from kernels where start_ns is not null and kind in ('communication', 'compute')),
levels as (
  select rank, cycle, device, at_ns, lead(at_ns) over w as next_ns, sum(if(moves, change, 0)) over w as moving,
    sum(if(moves, 0, change)) over w as computing
  from edges window w as (partition by cycle, device order by at_ns, change rows unbounded preceding))
select rank, cycle, device, sum(next_ns - at_ns) filter (moving > 0 and computing = 0) / 1e3 as exposed_us
from levels group by all order by all;

-- 17. What do ranks exchange?
select name, type, count(*) as calls, sum(bytes) as bytes, sum(duration_ns) / 1e3 as us from collectives group by all order by us desc, name;

-- 18. Which rank comes last to the collectives?
with numbered as (
  select rank, name, start_ns, row_number() over (partition by rank, name order by start_ns) as nth from collectives)
select arg_max(rank, start_ns) as last_rank, count(distinct rank) as ranks, name, nth from numbered group by name, nth order by name, nth;

-- 19. How far does the memory of a device rise in a step?
select rank, device, step, max(total_bytes) - min(total_bytes) as rise_bytes from memory group by all order by all;

-- 20. What does a step leave allocated?
select rank, device, step, sum(bytes) as left_bytes, count(*) filter (bytes > 0) as allocations from memory group by all order by all;
