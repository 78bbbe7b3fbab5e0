-- What the data pipeline measures.

-- metric: pipeline_queue_usage
-- needs: minddata_pipeline_raw
-- digits: 6
-- about: How full the output queue of each operator was; the root, which feeds the training itself, has none.
select cycle, op_type || '(id=' || op_id || ')' as subject, output_queue_usage_rate from minddata_pipeline_raw

-- metric: pipeline_batch_time
-- needs: dataset_iterator_profiling | device_queue_profiling
-- about: Time records (type 0) of the iterator or the device queue, in files that say when.
select cycle, ['pipeline', 'push', 'batch'][extra::bigint + 1] as subject, list(value_ns / 1000 order by slot, row)
from batch_lines where is_timed and type = 0 and extra in (0, 1, 2) and value_ns is not null
group by all
