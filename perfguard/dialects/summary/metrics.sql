-- What summary files measure. The subjects of a second file, which a resumed training has, begin with `run2:`.

-- metric: summary_scalar
-- needs: summary_events
-- about: The last finite number of every step; of more than 200 steps every n-th, and the last one.
with numbered as (
  select cycle, file, tag, step, last(number order by row, item) as number,
    row_number() over (partition by cycle, file, tag order by step) as position, count(*) over (partition by cycle, file, tag) as steps
  from summary_values where number is not null group by cycle, file, tag, step)
select cycle, run || tag || '@' || step as subject, number
from numbered join summary_runs using (cycle, file)
where ((position - 1) % ceil(steps / 200)::bigint = 0 or position = steps) and isfinite(number)

-- metric: summary_not_finite
-- needs: summary_events
-- about: Steps with a NaN or an infinity.
select cycle, run || tag as subject, count(distinct step) filter (not isfinite(number))
from summary_values join summary_runs using (cycle, file) where number is not null group by all

-- metric: summary_steps
-- needs: summary_events
-- about: Steps with a value of the tag.
select cycle, run || tag as subject, count(distinct step) from summary_values join summary_runs using (cycle, file) group by all

-- metric: summary_tags
-- needs: summary_events
-- about: Tags with their kinds: `loss/auto (scalar)`.
select cycle, run as subject, coalesce(list(distinct named order by named) filter (named is not null), []::varchar[])
from (select *, tag || if(kind = '', '', ' (' || kind || ')') as named from summary_values) right join summary_runs using (cycle, file) group by all
