-- What must hold in every timeline.

-- check: drawn_processes_are_named
-- code: I103
-- needs: spans | view_spans | instants | flows | others
-- layouts: pt-torch, pt-npu, ms-2.5+, ms-2.5+cpu
-- where: level1
-- about: Every process (a number) with a span, an instant, a counter or the end of a flow is named by a process_name. Kineto's own
--   span has a text for a process and no name, and torch 2.4 draws Python frames of threads it did not know in a process 0 without
--   one. Kineto draws its "Buffer Flush" in process -1 (H100), and torch_npu prunes names at level 0.
--   MindSpore before 2.5 leaves some without a name.
-- source: real traces of MindSpore 2.10 on CPU, torch_npu level 1 (msinsight test data) and torch 2.13: none else is without one
-- message: no process_name names process {process} of {name}
with unnamed as (
  select shown.cycle, shown.thread, threads.process
  from (select distinct cycle, thread from drawn) as shown
  join threads on threads.number = shown.thread
  anti join (select cycle, process from processes where is_name) as named
    on named.cycle = shown.cycle and named.process = threads.process
  where regexp_full_match(threads.process, '-?[0-9]+') and threads.process <> '-1')
select cycle, min(row) as row, process, to_json(word(arg_min(name, row)))::text as name
from drawn join unnamed using (cycle, thread)
group by cycle, process

-- check: a_trace_is_of_one_run
-- code: I113
-- needs: spans | view_spans | instants | flows | others
-- about: All times of a trace lie together: none is further from where most are than a minute and ten times the length of that.
--   Counters and flows begin and end with the collection, not with the steps; a time in another unit is years away. A graph was
--   loaded by the process that runs it, however long ago: 90 days. Of a long trace some times say where most are.
-- message: its time is {time_us:.3f} us, those of most events are {low_us:.3f} to {high_us:.3f} us
with sizes as (select cycle, count(*) // 100000 + 1 as every from timed group by cycle),
middle as (
  select cycle, quantile_disc(time_ns, [0.3, 0.7]) as found
  from timed join sizes using (cycle)
  where row % every = 0
  group by cycle),
around as (
  select cycle, found[1]::hugeint as low_ns, found[2]::hugeint as high_ns,
    60000000000 + 10 * (found[2]::hugeint - found[1]::hugeint) as reach_ns
  from middle)
select cycle, row, time_ns / 1000 as time_us, low_ns / 1000 as low_us, high_ns / 1000 as high_us
from timed join around using (cycle)
where time_ns < low_ns - if(of_graph, 90 * 86400 * 1000000000::hugeint, reach_ns) or time_ns > high_ns + reach_ns
