-- Macros for the queries of all dialects.

create macro word(code) as (select text from words where number = code);

-- A number as far as it is one: those that readers took for the largest are not known.
create macro known(number) as case when abs(number) < 1000000000000000000 then number end;

-- A sum within 64 bits: those of damaged times may be beyond.
create macro within(total) as if(total is null, null, greatest(least(total, 9223372036854775807), -9223372036854775807)::bigint);

-- A time whose sum with another is within 64 bits.
create macro bounded(time) as if(time is null, null, greatest(least(time, 4000000000000000000), -4000000000000000000));

-- A list as a message shows it.
create macro shown(list) as if(len(list) > 80, list[:80] || '…', coalesce(list, 'nothing'));

-- Numbers or names as a message has them, of many the first ones.
create macro some_of(parts) as array_to_string(parts[:8], ', ') || if(len(parts) > 8, ' and ' || (len(parts) - 8) || ' more', '');

-- Whether a column is in another unit than what it follows from: nine in ten of five or more factors are the usual one (the median),
-- within 5 %, since both are rounded. Half to twice is no other unit.
create macro is_another_unit(factors, usual) as
  len(factors) >= 5 and (usual < 0.5 or usual > 2)
  and len(list_filter(factors, lambda factor: abs(factor / usual - 1) < 0.05)) >= 0.9 * len(factors);

-- Calls of each kind of communication, the mean of the steps; their times and waits, a sample a step. Of a table with a row for each
-- operation: `hcom_allReduce__586_0_1@17522` is a `hcom_allReduce`, `AllReduce-op33` an `AllReduce`. Without a name it only says that
-- there was a step.
create macro communication_by_kind(operations) as table
with calls as (
  select cycle, place, step, elapse_ns, wait_ns,
    coalesce(nullif(regexp_replace(name, '(__[0-9]|@|-op[0-9]|[.][0-9]).*$', ''), ''), name) as kind
  from query_table(operations)),
windows as (select cycle, count(distinct step) as steps from calls group by cycle),
by_step as (
  select cycle, kind, step, min(place) as place, count(*) as calls, coalesce(sum(elapse_ns), 0) / 1000 as time_us,
    coalesce(sum(wait_ns), 0) / 1000 as wait_us
  from calls where kind is not null group by cycle, kind, step)
select cycle, kind as subject, sum(calls) / any_value(steps) as communication_calls,
  list(time_us order by place) as communication_time, list(wait_us order by place) as communication_wait
from by_step join windows using (cycle) group by cycle, kind;

-- Documents of a slot that say another rank than their file names; `documents`: the table with their `rank_id`.
create macro ranks_inside(documents, of_slot) as table
select cycle, file, row, path, rank_id as inside, rank
from query_table(documents) join files using (cycle, file)
where slot = of_slot and try_cast(rank_id as hugeint) <> rank;

-- Executions of a view in the order of their starts, with the step that each starts in. Steps are numbered in the order of their starts,
-- so the last one that has begun has the largest number (`last_value` that ignores nulls looks back over all of a million executions).
create macro with_steps(executions) as table
with begun as (
  select * exclude (mark), max(mark) over before as begun, count(row) over before - 1 as place
  from (
    select cycle, row, operator, name, start_ns, duration_ns, shapes, calls, null::integer as mark from query_table(executions)
    union all by name
    select cycle, start_ns, step as mark from steps)
  window before as (partition by cycle order by start_ns nulls first, row nulls first, mark rows unbounded preceding)
  qualify row is not null)
select begun.cycle, place, operator, name, steps.step, begun.start_ns, duration_ns, shapes, calls
from begun
left join steps on steps.cycle = begun.cycle and steps.step = begun.begun
  and coalesce(steps.end_ns >= begun.start_ns, true);

-- How many scopes an operator is in.
create macro scope_depth(name) as len(name) - len(replace(name, '/', ''));

-- Whether a function of CANN captures, loads or runs a graph.
create macro is_call_of_a_graph(name) as regexp_matches(name, '(?i)capture|^aclmdl|^model|graph|^GE');

-- How many bytes an element of a type of torch has; null for others (c10/core/ScalarType.h).
create macro size_of_type(name) as case
  when regexp_matches(name, '^(Byte|Char|Bool|Float8.*|Q(U)?Int8)$') then 1
  when name in ('Short', 'Half', 'BFloat16', 'UInt16') then 2
  when name in ('Int', 'Float', 'UInt32', 'QInt32', 'ComplexHalf') then 4
  when name in ('Long', 'Double', 'UInt64', 'ComplexFloat') then 8
  when name = 'ComplexDouble' then 16
  end;

-- Types and shapes of inputs as one text.
create macro inputs_in(shapes, kinds) as array_to_string(list_transform(
  range(1, 1 + if(len(kinds) > 0, least(len(shapes), len(kinds)), len(shapes))),
  lambda place: if(shapes[place] in ('[]', '""', '0', 'null') and coalesce(kinds[place], '') = '', '-', coalesce(kinds[place], '') || shapes[place])
  ), ';');

-- The inputs of an operator as metrics have them, `float[4, 8];long[]`: type and shape of each, `-` for one that is no tensor. `dims`
-- and `types` are JSON; null for other JSON than torch writes.
create macro inputs_of(dims, types) as inputs_in(
  list_transform(from_json(dims, '["json"]'), lambda one: replace(replace(one::varchar, ' ', ''), ',', ', ')), from_json(types, '["varchar"]'));

-- What a call of CANN does, by the level that the writer gives it and its name (AscendCL, acl_rt.h and acl_mdl.h of CANN 5 to 9). A call of
-- the level Runtime is a part of one of AscendCL. A copy and a graph that are not asynchronous wait for themselves, not for what was asked
-- for before. CANN records no aclrtSynchronizeEventWithTimeout (acl_rt_impl).
create macro kind_of_cann(level, name) as case
  when level = 'node' and name = 'launch' then 'kernel'
  when level <> 'acl' then 'other'
  when regexp_full_match(name, 'aclrt(Synchronize(Device|Event|Stream)(WithTimeout)?|Free(Host)?WithDevSync)') then 'synchronise'
  when starts_with(name, 'aclrtMemcpy') then 'copy'
  when starts_with(name, 'aclrtMemset') then 'set'
  when regexp_matches(name, '^aclmdl(RI)?Execute') then 'graph'
  else 'other' end;

-- Calls with the innermost operator around each on its thread (`operator`). `calls`: cycle, tid, row, start_ns and others; `operators`:
-- cycle, tid, name, start_ns, end_ns. Operators of a thread lie in each other or beside each other, so the one around a call is the last
-- that began at the depth of the call. An operator without a call inside changes nothing of that, and there may be millions.
create macro inside_of(calls, operators) as table
with used as (
  select * from (
    select *, min(if(name is null, start_ns, null)) over (partition by cycle, tid order by start_ns desc, name nulls first
      rows unbounded preceding) as next_ns
    from (
      select cycle, tid, name, start_ns, end_ns from query_table(operators) where end_ns > start_ns
      union all
      select cycle, tid, null, start_ns, null from query_table(calls)))
  where name is not null and next_ns <= end_ns),
edges as (
  select cycle, tid, start_ns as at_ns, 1 as change, end_ns, name, null::bigint as row from used
  union all
  select cycle, tid, end_ns, -1, null, null, null from used
  union all
  select cycle, tid, start_ns, 0, null, null, row from query_table(calls)),
placed as (
  select *, row_number() over in_time as place, sum(change) over in_time as depth
  from edges
  window in_time as (
    partition by cycle, tid order by at_ns, if(change = 0, 2, change), end_ns desc, name rows unbounded preceding)),
around as (
  select cycle, row, change, at_ns,
    arg_max({'name': name, 'end_ns': end_ns}, place) filter (change = 1) over (
      partition by cycle, tid, depth order by place rows unbounded preceding) as last
  from placed where change >= 0)
select found.*, if(last.end_ns >= at_ns, last.name, null) as operator
from query_table(calls) as found
left join around on around.cycle = found.cycle and around.row = found.row and around.change = 0;

-- Waits of each step for a device, a sample a step or one of the window where none is known, and which operators they are of in all.
-- `of_waits`: cycle, step, name; `of_recorded`: the cycles whose calls were recorded.
create macro waits_by_step(of_waits, of_recorded) as table
with counts as (select cycle, step, count(*) as waits from query_table(of_waits) group by all),
samples as (
  select windows.cycle, list(coalesce(waits, 0) order by windows.step) as waits
  from (
    select cycle, step, windows.steps from windows left join steps using (cycle)
    where (step is not null or windows.steps is null) and cycle in (select cycle from query_table(of_recorded))) as windows
  left join counts on counts.cycle = windows.cycle and counts.step is not distinct from windows.step
  group by windows.cycle),
named as (
  select cycle, map_from_entries(list({'name': name, 'waits': waits} order by name)) as operators
  from (
    select cycle, name, count(*) as waits from query_table(of_waits) where step is not null or cycle not in (select cycle from steps) group by all)
  group by cycle)
select cycle, '' as subject, waits, coalesce(operators, map {}) as operators from samples left join named using (cycle);
