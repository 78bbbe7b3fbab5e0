-- The marks of steps. `ran`: something began in it. `step()` begins the mark of the next step, so the loop leaves a mark without
-- work behind if it ends inside the window, or before the first if it calls `step()` first (torch/profiler/profiler.py). The thread
-- that marks the steps says so, where it works at all: others may work on behind the loop. What a device ran is work where it began
-- if no call launched it, else where that is. torch 1.12 keeps the handle of an annotation in a tensor, which is no work.
with ends as (
  select *, row_number() over (partition by cycle order by start_ns) as place,
    row_number() over (partition by cycle order by start_ns desc) as place_from_the_end
  from marks),
calls as (
  select cycle, thread, start_ns, name, correlation from spans
  where category in (select number from words where regexp_matches(text, '_(runtime|driver)$') or text = 'Runtime')),
started as (
  select cycle, thread, start_ns from spans
  where category in (number_of('cpu_op'), number_of('Operator'))
    and name not in (
      select number from words
      where text in ('aten::zeros', 'aten::empty', 'aten::zero_') or regexp_full_match(text, 'ProfilerStep#[0-9]+'))
  union all
  select cycle, thread, start_ns from calls
  where name in (select number from words where regexp_matches(text, 'Launch|Mem(cpy|set)'))
  union all
  select cycle, null, start_ns from spans anti join calls using (cycle, correlation)
  where category in (number_of('kernel'), number_of('gpu_memcpy'), number_of('gpu_memset'), number_of('Kernel'),
    number_of('Memcpy'), number_of('Memset'))),
working as (
  select distinct cycle, thread from marks semi join started using (cycle, thread)),
idle as (
  select cycle, place from ends
  where least(place, place_from_the_end) = 1 and not exists (
    select 1 from started
    where started.cycle = ends.cycle and started.start_ns between ends.start_ns and ends.start_ns + ends.duration_ns
      and (started.thread is null or started.thread = ends.thread or (ends.cycle, ends.thread) not in (from working))))
select cycle, start_ns, duration_ns, thread, try_cast(replace(text, 'ProfilerStep#', '') as bigint) as number,
  (cycle, place) not in (from idle) as ran
from ends join words on words.number = ends.name
