-- The marks of steps.
select cycle, start_ns, duration_ns, thread, try_cast(replace(text, 'ProfilerStep#', '') as bigint) as number
from marks join words on words.number = marks.name
