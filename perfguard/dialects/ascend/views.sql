-- What the events of a trace_view are.

-- The first name of each process.
create view process_names as
select cycle, process, arg_min(text, row) as name from processes where is_name and text is not null group by all;

create view lanes as
select cycle, threads.number as thread, process, threads.thread as depth, process_names.name
from process_names join threads using (process);

create view view_step_marks as
select cycle, row, substr(text, 14) as label, start_ns, duration_ns
from view_spans join words on words.number = view_spans.name
where starts_with(text, 'ProfilerStep#');

create view drawn_processes as
select distinct cycle, word(name) as process
from (select distinct cycle, thread from view_spans) join lanes using (cycle, thread);

-- First and last start, without what CANN tells of a graph.
create view ranges as
select cycle, min(start_ns) as first_ns, max(start_ns) as last_ns
from view_spans left join lanes using (cycle, thread)
where not of_graph or lanes.name is not null and lanes.name <> number_of('CANN')
group by cycle;

-- What the lanes of Overlap Analysis add up to, by the number in the label of the process: `NPU 0` is device 0.
create view lane_sums as
with labels as (
  select cycle, process, nullif(regexp_extract(word(arg_min(text, row)), '[0-9]+'), '') as device
  from processes where not is_name and text is not null group by cycle, process)
select cycle, device, word(view_spans.name) as lane, within(sum(duration_ns)) as total_ns
from view_spans
join lanes using (cycle, thread)
left join labels using (cycle, process)
where lanes.name = number_of('Overlap Analysis') and view_spans.name in (
  number_of('Computing'), number_of('Communication'), number_of('Communication(Not Overlapped)'), number_of('Free'))
group by cycle, process, device, view_spans.name;

create view traced_on_host as
select distinct cycle from view_spans where category = number_of('cpu_op');

create view host_operator_sums as
select cycle, word(name) as name, count(*) as count, coalesce(within(sum(duration_ns)), 0) as lasts
from view_spans
where category = number_of('cpu_op')
  and name not in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+'))
group by cycle, view_spans.name;

-- Calls of CANN by name, without what stands before @: durations in ns, extremes in us, variance in us^2.
create view cann_sums as
select cycle, regexp_extract(word(view_spans.name), '[^@]*$') as name, count(*) as count, coalesce(within(sum(duration_ns)), 0) as lasts,
  min(duration_ns) / 1000 as least_drawn, max(duration_ns) / 1000 as most_drawn, var_pop(duration_ns / 1000) as spread_drawn
from view_spans
join threads on threads.number = view_spans.thread
semi join (select cycle, process from processes where is_name and text = number_of('CANN')) as cann
  on cann.cycle = view_spans.cycle and cann.process = threads.process
group by all;

-- Operators of the host that MindSpore draws.
create view host_operators as
select * from view_spans where kind = number_of('"HostCpuOps"');

-- Events that agree in time, thread, name and length: some may be one event twice.
create view alike as
select cycle, row, true as is_span
from (
  select cycle, row, count(*) over (partition by cycle, start_ns, thread, name, duration_ns) as times
  from view_spans
  semi join (select cycle, start_ns from view_spans group by all having count(*) > 1) using (cycle, start_ns))
where times > 1
union all
select cycle, row, false
from (
  select cycle, row, count(*) over (partition by cycle, time_ns, thread, category, id, id_text, is_start) as times
  from flows
  semi join (select cycle, time_ns from flows group by all having count(*) > 1) using (cycle, time_ns))
where times > 1
union all
select cycle, row, false
from (
  select cycle, row, count(*) over (partition by cycle, time_ns, thread, name, phase, arguments) as times
  from others
  semi join (select cycle, arguments from others group by all having count(*) > 1) using (cycle, arguments))
where times > 1;

-- Rows of kernel_details with the events that have their name and start; MindSpore puts the operator that launched a kernel before
-- its name there.
create view drawn_kernels as
with names as (
  select number as listed, number as name from words where number in (select name from listed_kernels)
  union all
  select endings.number, words_of.number
  from (
    select number, unnest(list_transform(range(2, len(parts) + 1), lambda first: array_to_string(parts[first:], '/'))) as ending
    from (select number, string_split(text, '/') as parts from words where contains(text, '/') and number in (
      select name from listed_kernels))) as endings
  join words as words_of on words_of.text = endings.ending)
select listed.cycle, listed.row, listed.name, listed.duration_ns as listed_ns, view_spans.duration_ns as drawn_ns
from (select *, start_ns + unnest([-1, 0, 1]) as near_ns from listed_kernels) as listed
join names on names.listed = listed.name
join view_spans on view_spans.cycle = listed.cycle and view_spans.name = names.name and view_spans.start_ns = listed.near_ns;

-- Operators of the host beside the executions that have their place among those of their name, where these are as many.
create view paired_operators as
with here as (
  select *, row_number() over (partition by cycle, name order by start_ns, row) as place, count(*) over (partition by cycle, name) as times
  from host_operators),
there as (
  select *, row_number() over (partition by cycle, name order by start_ns, row) as place, count(*) over (partition by cycle, name) as times
  from listed_operators)
select here.cycle, here.row, word(here.name) as name, here.start_ns, there.start_ns as listed_start_ns, here.duration_ns as here_ns,
  there.duration_ns as there_ns, abs(here.duration_ns - there.duration_ns) > 1 + there.duration_ns * 1e-9 as is_long
from here join there on there.cycle = here.cycle and there.name = here.name and there.place = here.place and there.times = here.times;
