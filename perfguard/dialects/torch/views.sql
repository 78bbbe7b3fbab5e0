-- What the events of a torch trace are. Categories are those of torch 1.12 and later.

create macro word(wanted) as (select text from words where number = wanted);
-- number_of(...) is the number of a text in `words`: those that queries name have fixed ones.
-- A number as far as it is one: those that readers took for the largest are not known.
create macro known(number) as case when abs(number) < 1000000000000000000 then number end;

create view operators as
select * from spans where category = number_of('cpu_op');

create view step_marks as
select * from spans
where category = number_of('user_annotation')
  and name in (select number from words where regexp_full_match(text, 'ProfilerStep#[0-9]+'));

create view memory_events as
select cycle, row, thread, time_ns, event_index, bytes, known(total_bytes) as total_bytes,
       known(reserved_bytes) as reserved_bytes, reserved_bytes is not null as says_reserved, device_type, device_number, address,
       category
from instants where name = number_of('[memory]');

create view numbered_events as
select cycle, row, name, event_index from spans where event_index is not null
union all
select cycle, row, name, event_index from instants where event_index is not null;

create view forward_to_backward as
select * from flows where category = number_of('fwdbwd');

-- Spans that lie in each other on their thread.
create view nested_spans as
select cycle, row, thread, start_ns, duration_ns from operators
union all
select cycle, row, thread, start_ns, duration_ns from step_marks;
