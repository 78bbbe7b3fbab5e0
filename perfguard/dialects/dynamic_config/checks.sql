-- What must hold in the configuration of a dynamic profiler.

-- check: a_window_ends_after_it_begins
-- code: C101
-- severity: warning
-- needs: profiler_config_window
-- in: profiler_config
-- at: $.stop_step
-- about: 0 <= start_step <= stop_step, or both -1; any other window is silently never profiled. torch_npu has `active` instead.
-- source: MindSpore 2.10 source: dynamic_profiler.py; stop_step is inclusive
-- message: the window from step {start_step} to step {stop_step} is never profiled
select cycle, start_step, stop_step from profiler_config_window
where start_step is not null and stop_step is not null and not (start_step = -1 and stop_step = -1)
  and not (0 <= start_step and start_step <= stop_step)
