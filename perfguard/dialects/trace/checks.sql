-- What must hold in every timeline.

-- check: drawn_processes_are_named
-- code: I103
-- headline: a process has no name
-- needs: spans | view_spans | instants | flows | others
-- layouts: pt-npu, ms-2.5+, ms-2.5+cpu
-- where: level1
-- about: Every process (a number) with a span, an instant, a counter or the end of a flow is named by a process_name. torch_npu
--   prunes names at level 0; MindSpore before 2.5 leaves some without a name. Of torch traces another check says it.
-- source: real traces of MindSpore 2.10 on CPU and torch_npu level 1 (msinsight test data): none else is without one
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
-- headline: an event is far from the times of the others
-- needs: spans | view_spans | instants | flows | others
-- about: All times of a trace lie together. A run may pause as long as it wants, so none is further than a day from where most
--   are; where Kineto draws the profiler's own span, none is further than a minute from that and from where most are. Ten times the
--   length of where most are is added. Counters and flows begin and end with the collection, not with the steps; a time in another
--   unit is years away. A graph was loaded by the process that runs it, however long ago: 90 days. Of a long trace some times say
--   where most are.
-- source: kineto output_json.cpp, handleTraceSpan: the span is the window, and device work outside of it is dropped
--   (GenericActivityProfiler::outOfRange); a pause of 75 s in front of the only work on torch 2.13
-- message: its time is {time_us:.3f} us, those of most events are {low_us:.3f} to {high_us:.3f} us
with sizes as (select cycle, count(*) // 100000 + 1 as every from timed group by cycle),
middle as (
  select cycle, quantile_disc(time_ns, [0.3, 0.7]) as found
  from timed join sizes using (cycle)
  where row % every = 0
  group by cycle),
around as (
  select cycle, least(found[1], begin_ns)::hugeint as low_ns, greatest(found[2], stop_ns)::hugeint as high_ns,
    if(begin_ns is null, 86400, 60) * 1000000000::hugeint + 10 * (found[2]::hugeint - found[1]::hugeint) as reach_ns
  from middle left join recorded_windows using (cycle))
select cycle, row, time_ns / 1000 as time_us, low_ns / 1000 as low_us, high_ns / 1000 as high_us
from timed join around using (cycle)
where time_ns < low_ns - if(of_graph, 90 * 86400 * 1000000000::hugeint, reach_ns) or time_ns > high_ns + reach_ns
