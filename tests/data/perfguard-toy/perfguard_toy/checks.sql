-- What must hold of timings.

-- check: a_name_has_one_row
-- code: I114
-- needs: toy_timings
-- in: toy_timings
-- about: Each name is there once.
-- message: {name} has a second row
select cycle, row, name
from (select *, row_number() over (partition by cycle, name order by row) as number from toy_timings)
where number > 1

-- check: the_total_is_that_of_all_calls
-- code: I105
-- needs: toy_timings
-- in: toy_timings
-- about: Total = calls x mean.
-- tolerance: half of a printed digit for each call
-- message: {name}: {calls} calls of {mean_us:g} us are not {total_us:g} us
select cycle, row, name, calls, mean_ns / 1000 as mean_us, total_time_ns / 1000 as total_us
from toy_timings where abs(calls * mean_ns - total_time_ns) > 0.5 * calls
