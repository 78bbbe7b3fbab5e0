-- What the summaries of a device measure.

-- metric: api_time
-- needs: api_statistic
-- digits: 3
-- about: Time(us) of each function of the API, divided by the steps of the window if they are known.
select cycle, api_name as subject, coalesce(sum(time_ns), 0) / 1000 / coalesce(any_value(steps), 1)
from api_statistic left join windows using (cycle)
group by cycle, api_name
order by cycle, api_name
