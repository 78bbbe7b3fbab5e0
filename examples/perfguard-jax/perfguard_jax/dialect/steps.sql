-- The marks of steps: StepTraceAnnotation("train", step_num=...), in the order of their times.
select cycle, start_ns, duration_ns, thread, row_number() over (partition by cycle order by start_ns) - 1 as number
from view_spans
where name = number_of('train')
