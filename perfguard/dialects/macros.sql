-- Macros for the queries of all dialects.

create macro word(wanted) as (select text from words where number = wanted);

-- A number as far as it is one: those that readers took for the largest are not known.
create macro known(number) as case when abs(number) < 1000000000000000000 then number end;

-- A sum within 64 bits: those of damaged times may be beyond.
create macro within(total) as greatest(least(total, 9223372036854775807), -9223372036854775807)::bigint;

-- Whether a column is in another unit than what it follows from: nine in ten of five or more factors are the usual one (the median),
-- within 5 %, since both are rounded. Half to twice is no other unit.
create macro is_another_unit(factors, usual) as
  len(factors) >= 5 and (usual < 0.5 or usual > 2)
  and len(list_filter(factors, lambda factor: abs(factor / usual - 1) < 0.05)) >= 0.9 * len(factors);
