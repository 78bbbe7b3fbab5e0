-- What the profilers' own logs say.

-- Cycles with a log: whether the profiler of MindSpore was started, and stopped, and whether there are other files. `file` is the last log.
create view log_windows as
select cycle, max(file) as file, bool_or(word = 'start') as is_started, bool_or(word in ('stop', 'finalize')) as is_ended,
  cycle not in (select cycle from files where slot <> 'log' and file is not null) as is_alone
from (select cycle, file, regexp_extract(line, '\] CpuProfiler (start|stop|finalize)\b', 1) as word from log_lines)
group by cycle;
