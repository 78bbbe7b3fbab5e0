-- What must hold in the profilers' own logs.

-- check: the_log_tells_of_no_error
-- code: C111
-- needs: log_lines
-- in: log
-- about: No line of logs/*.log has the level ERROR; a WARNING is shown as one. Lines are `[time] [LEVEL] [file.py:line] message`; the text
--   of a message does not count, and other lines continue the message above. An ERROR that MindSpore prints to stderr (`CPU device is not
--   supported`) is not in these files. A message may be a whole dump.
-- source: MindSpore 2.10: log.py; MindSpore's own tests search the same files
-- message: {level}: {text}
with leveled as (
  select cycle, file, row,
    regexp_extract(line, '^\[[^\]]*\] (?:\[\d+\] )?\[(ERROR|CRITICAL|FATAL|WARNING)\]\s*(.*)', ['level', 'text']) as found
  from log_lines)
select cycle, file, row, found.level, if(found.level = 'WARNING', 'warning', 'error') as severity,
  if(len(found.text) > 200, found.text[:199] || '…', found.text) as text
from leveled where found.level <> ''

-- check: the_log_tells_of_a_whole_window
-- code: C110
-- needs: log_lines
-- in: log
-- layouts: ms-2.5+cpu
-- about: The profiler was stopped after it was started. A killed process leaves `CpuProfiler start.` as the last message.
-- source: MindSpore 2.7 to 2.10: cpu_profiler.py, real output of runs that were killed, cut short, and empty
-- message: the profiler started and never stopped: the process died in the window
select cycle, file from log_windows where is_started and not is_ended

-- check: the_log_tells_of_a_whole_window
-- code: C103
-- severity: warning
-- about: A loop that ends while the schedule waits leaves a directory that was finalised and never started; the other cycles are complete.
-- message: the profiler was opened, but never started: the loop ended before the window began
select cycle, file from log_windows where is_alone and not is_started

-- check: the_log_tells_of_a_whole_window
-- code: C103
-- about: The profiler left more files than its log. A warning for the last of several windows of a process: a schedule that repeats
--   opens another one behind the last step of a loop, in which nothing runs.
-- source: MindSpore 2.10: profiler.py (step), real output of schedule(wait=0, active=2) over four steps
-- message: the profiler was started and stopped, but left only this log: no operator ran on the CPU, or the other files were removed
with windows as (
  select log_windows.*, cycles.place, regexp_extract(files.name, '_([0-9]+)\.log$', 1) as process
  from log_windows join cycles using (cycle)
  join files on files.cycle = log_windows.cycle and files.file = log_windows.file and files.slot = 'log'),
ordered as (
  select *, count(*) filter (not is_alone) over earlier as kept, count(*) over later as behind
  from windows
  window earlier as (partition by process order by place rows between unbounded preceding and 1 preceding),
    later as (partition by process order by place rows between 1 following and unbounded following))
select cycle, file, if(kept > 0 and behind = 0, 'warning', 'error') as severity
from ordered where is_alone and is_started and is_ended

-- check: a_log_is_where_it_says
-- code: I113
-- needs: log_lines
-- in: log
-- about: The first line of a log names the log file itself. Only the name of the file counts: directories are moved and renamed.
-- source: MindSpore 2.10: log.py, torch_npu: _log.py (`Profiler logger initialized at: <path>`)
-- message: its first line names {named}: it is the log of another run
select lines.cycle, lines.file, row, named
from (
  select cycle, file, row, regexp_extract(line, '\] Profiler logger initialized at: (.*/)?([^/]*\.log)\s*$', 2) as named
  from log_lines where row = 1) as lines
join files on files.cycle = lines.cycle and files.file = lines.file and files.slot = 'log'
where named not in ('', files.name)
