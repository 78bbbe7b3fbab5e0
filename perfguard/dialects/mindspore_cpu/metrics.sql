-- What MindSpore's files of a host measure.

-- metric: operator_shapes
-- needs: cpu_framework
-- about: How often each operator ran with which shapes, as the file has them: outside of the window as well.
select cycle, operator as subject, map_from_entries(list({'shapes': shapes, 'calls': calls} order by shapes))
from framework_shapes
where shapes is not null and cycle in (select cycle from windows where not on_device)
group by cycle, operator
