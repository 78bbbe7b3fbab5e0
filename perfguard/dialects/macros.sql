-- Macros for the queries of all dialects.

create macro word(wanted) as (select text from words where number = wanted);

-- A number as far as it is one: those that readers took for the largest are not known.
create macro known(number) as case when abs(number) < 1000000000000000000 then number end;

-- A sum within 64 bits: those of damaged times may be beyond.
create macro within(total) as greatest(least(total, 9223372036854775807), -9223372036854775807)::bigint;
