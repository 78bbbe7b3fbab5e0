-- What databases of msprof, torch_npu and MindSpore measure.

-- metric: device_clock
-- needs: db_aicore_freq
-- unless: trace_view
-- digits: 3
-- about: By the readings of the database.
select cycle, device as subject, mean from mean_over_time('counters_in_databases', 'clock_mhz')

-- metric: synchronisations, waiting_operators
-- needs: windows, db_cann_api
-- unless: trace_view
-- about: As of a trace_view.
from waits_by_step('waits_in_databases', 'db_recorded')
