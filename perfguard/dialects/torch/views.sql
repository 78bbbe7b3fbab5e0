-- What the events of a torch trace are. `number_of(...)` is the number of a text in `words`: those that queries name have fixed ones.

create macro word(wanted) as (select text from words where number = wanted);
-- A number as far as it is one: those that readers took for the largest are not known.
create macro known(number) as case when abs(number) < 1000000000000000000 then number end;

-- A sum within 64 bits: those of damaged times may be beyond.
create macro within(total) as greatest(least(total, 9223372036854775807), -9223372036854775807)::bigint;

-- Categories of torch 1.12 and later.
create view operators as
select * from spans where category = number_of('cpu_op');

create view step_marks as
select * from spans
where category = number_of('user_annotation')
  and name in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+'));

create view forward_to_backward as
select * from flows where category = number_of('fwdbwd');

create view numbered_events as
select cycle, row, name, event_index from spans where event_index is not null
union all
select cycle, row, name, event_index from instants where event_index is not null;

-- Categories of torch 1.8 to 1.11 as well: there the marks of steps are operators, too.
create view marks as
select * from spans
where category in (number_of('user_annotation'), number_of('Operator'))
  and name in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]{1,18}'));

-- Calls of a device's runtime or driver, and the last step that had begun. (No asof join: prepared, duckdb 2.0 fails when it meets
-- no row the second time.)
create view launches as
select * exclude (is_call, mark), last_value(mark ignore nulls) over (
  partition by cycle order by start_ns, is_call rows unbounded preceding) as step
from (
  select cycle, row, name, start_ns, correlation, true as is_call, null::integer as mark from spans
  where category in (select number from words where regexp_matches(text, '_(runtime|driver)$') or text = 'Runtime')
  union all
  select cycle, null, null, start_ns, null, false, step from steps)
qualify is_call;

-- Collectives of the host that are annotated beside its operators.
create view annotated_collectives as
select cycle, name, start_ns, duration_ns from spans
where category = number_of('user_annotation') and name in (select number from words where is_host_collective(text));

-- Spans that lie in each other on their thread: work of the host and of devices, and the marks of steps.
create view nested_spans as
select *, category <> number_of('user_annotation') as is_work
from spans
where category in (number_of('cpu_op'), number_of('kernel'), number_of('gpu_memcpy'), number_of('gpu_memset'),
    number_of('Kernel'), number_of('Memcpy'), number_of('Memset'))
  or category = number_of('Operator')
    and name not in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]{1,18}'))
  or category = number_of('user_annotation')
    and name in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+'));

create view work as
select *, category not in (number_of('cpu_op'), number_of('Operator')) as is_on_device
from nesting where category <> number_of('user_annotation');

create view memory_events as
select cycle, row, thread, time_ns, event_index, bytes, known(total_bytes) as total_bytes, known(reserved_bytes) as reserved_bytes,
  reserved_bytes is not null as says_reserved, device_type, device_number, address
from instants where name = number_of('[memory]');

-- Memory of each device's own account. What a DataLoader's workers hand over is no part of it: torch reports each such block once
-- more with a total of 0, as it is mapped with Total Reserved equal to its Bytes, as it is unmapped with both totals 0. Of a block
-- that is given back and was not allocated here nobody knows whose it was: the account tells.
create view own_memory_events as
with events as (
  select *, coalesce(event_index, 0) as number,
    coalesce(device_type = 0 and total_bytes = 0 and bytes > 0 and reserved_bytes = bytes, false) as is_mapped
  from memory_events),
own as (select distinct cycle, address from events where bytes > 0 and not is_mapped and address is not null),
marked as (
  select events.*,
    coalesce(device_type = 0 and total_bytes = 0 and bytes < 0 and reserved_bytes = 0 and events.address is not null
      and own.address is null, false) as may_be_unmapped
  from events left join own on own.cycle = events.cycle and own.address = events.address),
told as (
  select *,
    last_value(if(is_mapped or may_be_unmapped, null, total_bytes) ignore nulls) over (
      partition by cycle, device_type, device_number order by time_ns, number, row
      rows between unbounded preceding and 1 preceding) as account
  from marked)
select * from told
where not is_mapped and not (may_be_unmapped and coalesce(account + bytes <> 0, true));

create view marked_steps as
select cycle, start_ns, duration_ns, thread, replace(text, 'ProfilerStep#', '')::bigint as number
from marks join words on words.number = marks.name;
