-- What must hold in MindSpore's summary files. SummaryCollector collects in the first step, and in every step that its frequency divides,
-- so that a lost step is found without knowing the frequency. At the end of an epoch it collects once more: such a step occurs twice, with
-- the same values. SummaryRecord writes whatever its user records.
-- Source: MindSpore 2.0 and 2.10, train/callback/_summary_collector.py, train/summary/_writer_pool.py, and real output of both.

-- check: summary_files_are_in_order
-- code: I111
-- headline: the file does not begin with its version
-- needs: summary_events
-- in: summary_events
-- about: The first record is the version.
-- message: the first record is {kind}, not the version
select cycle, file, row, kind from summary_events where row = 1 and kind <> 'version'

-- check: summary_files_are_in_order
-- code: I114
-- about: No other record is the version.
-- message: a second version record
select cycle, file, row from summary_events where row > 1 and kind = 'version'

-- check: summary_files_are_in_order
-- code: I106
-- about: Steps of collected values never decrease.
-- message: step {step} follows step {before}
select cycle, file, row, step, before from (
  select *, lag(step) over (partition by cycle, file order by row) as before
  from summary_events where kind = 'summary' and step is not null)
where step < before

-- check: summary_files_are_in_order
-- code: I106
-- about: Wall times of collected values never decrease. Those of the version, the graph and of lineage may: a worker process takes
--   them when it packs the record.
-- message: wall_time {wall_time:.6f} follows wall_time {before:.6f}
select cycle, file, row, wall_time_ns / 1e9 as wall_time, before_ns / 1e9 as before from (
  select *, lag(wall_time_ns) over (partition by cycle, file order by row) as before_ns
  from summary_events where kind = 'summary' and wall_time_ns is not null)
where wall_time_ns < before_ns

-- check: every_summary_file_has_its_lineage
-- code: A102
-- severity: warning
-- needs: summary_events
-- in: summary_events
-- about: `events.out.events.summary.<time>.<id>.<host>_MS` and `..._lineage` come in pairs. SummaryRecord writes no lineage, and
--   SummaryCollector writes each of the two files only when it collects something for it. If there is no lineage at all, one is required
--   only for a file with a graph and values tagged `/auto`, the defaults of SummaryCollector.
-- source: MindSpore 2.0, 2.8, 2.9 and 2.10, real output with all options of both
-- message: its other half, {other}, is missing
with read as (
  select *, if(slot = 'summary_events', '_MS', '_lineage') as own, if(slot = 'summary_events', '_lineage', '_MS') as others,
    if(ends_with(name, own), name[:len(name) - len(own)], name) as stem
  from files where slot in ('summary_events', 'summary_lineage') and file is not null),
by_default as (
  select cycle from summary_events
  group by cycle, file having bool_or(kind = 'graph_def') and bool_or(contains(tags, '/auto')))
select here.cycle, here.slot as place, here.file, here.stem || here.others as other
from read as here anti join read as there on here.cycle = there.cycle and here.slot <> there.slot and here.stem = there.stem
where here.cycle in (from by_default) or here.cycle in (select cycle from read where slot = 'summary_lineage')

-- check: every_summary_file_has_its_lineage
-- code: A102
-- severity: note
-- needs: summary_lineage
-- in: summary_lineage
-- about: Where SummaryCollector collected nothing else, the lineage is alone, and nothing in it says whether that is so.
-- message: it is alone: nothing else was collected, or its other half, {other}, is missing
select cycle, file, if(ends_with(name, '_lineage'), name[:-9], name) || '_MS' as other
from files
where slot = 'summary_lineage' and file is not null and cycle not in (select cycle from files where slot = 'summary_events')

-- check: a_summary_has_every_step_of_its_frequency
-- code: C101
-- needs: summary_events
-- in: summary_events
-- about: Values `/auto` exist for the first step and for every step that the frequency divides. The caller may state `collect_freq`,
--   `collect_tensor_freq` and `summary_steps`. A warning where the file has reached `max_file_size`.
-- message: there are no {what} of {missing}{why}
with required as (
  select cycle, file, is_tensor, unnest(list_distinct([first_step] || generate_series(low, reach, stride))) as step from summary_rules),
absent as (
  select cycle, file, is_tensor, list(step order by step) as first_absent
  from required anti join summary_steps using (cycle, file, is_tensor, step) group by all),
present as (select cycle, file, is_tensor, count(*) filter (is_required) as present from summary_steps_judged group by all)
select cycle, file, what, steps_in_words(first_absent, required - present) as missing,
  is_full and first_absent[1] > highest as is_cut, if(is_cut, ': the file has reached max_file_size', '') as why,
  if(is_cut, 'warning', 'error') as severity
from (select *, (cycle, file) in (from summary_files_full) as is_full from summary_rules)
join absent using (cycle, file, is_tensor) join present using (cycle, file, is_tensor)

-- check: a_summary_has_every_step_of_its_frequency
-- code: C101
-- about: ... and for no other step.
-- message: there are {what} of {extra}, which should not be collected
select cycle, file, what, steps_in_words(list(step order by step), count(*)) as extra
from summary_steps_judged where not is_required group by all

-- check: every_step_of_a_summary_has_every_value
-- code: I115
-- needs: summary_events
-- in: summary_events
-- about: A value that SummaryCollector collects in one step exists in every step. A warning for summary operators, which may be in a
--   branch of the network. Tensors have a frequency of their own.
-- message: {tag} has values for {count} of {steps} steps, but not for {missing}
with tags as (
  select cycle, file, tag, arg_min(is_auto, (row, item)) as is_auto, count(distinct step) as count
  from summary_values join (from summary_steps where not is_tensor) using (cycle, file, step) where kind <> 'tensor' group by all),
numbers as (select cycle, file, count(*) as steps from summary_steps where not is_tensor group by all),
short as (
  select *, row_number() over (partition by cycle, file, is_auto order by tag) as place_in_order
  from tags join numbers using (cycle, file) where count < steps),
absent as (
  select cycle, file, tag, list(step order by step)[:8] as first_absent
  from (from short where place_in_order <= 100) join (from summary_steps where not is_tensor) using (cycle, file)
  anti join (select distinct cycle, file, tag, step from summary_values) using (cycle, file, tag, step) group by all)
select cycle, file, tag, count, steps, steps_in_words(first_absent, steps - count) as missing, if(is_auto, 'error', 'warning') as severity
from short left join absent using (cycle, file, tag)

-- check: a_step_of_a_summary_stands_for_one_value
-- code: I114
-- needs: summary_events
-- in: summary_events
-- about: A value `/auto` occurs once in a step; at the end of an epoch twice, with the same number.
-- message: {tag} of step {step} {differs}
select cycle, file, row, tag, step,
  if(scalar <> first_scalar,
    'is ' || coalesce(nullif(scalar, ''), 'None') || ', but ' || coalesce(nullif(first_scalar, ''), 'None') || ' in record ' || first_row,
    'occurs ' || times || ' times') as differs
from summary_repeats where scalar <> first_scalar or times > 2

-- check: a_step_of_a_summary_stands_for_one_value
-- code: I114
-- severity: warning
-- needs: summary_events, train_metadata_training
-- about: The steps of an epoch are known if a landscape is collected. Two equal values within an epoch.
-- message: {tag} of step {step} occurs twice, but no epoch of {step_per_epoch} steps ends there
select cycle, summary_repeats.file, summary_repeats.row, tag, step, step_per_epoch
from summary_repeats join train_metadata_training using (cycle)
where step_per_epoch > 0 and step % step_per_epoch <> 0

-- check: a_summary_file_keeps_its_size
-- code: A110
-- needs: summary_events
-- in: summary_events
-- about: No summary or lineage file is larger than `max_file_size`, if the caller states it.
-- message: max_file_size={max_bytes} is expected, but it has {bytes} bytes
select cycle, slot as place, file, max_bytes, bytes
from files join summary_numbers using (cycle)
where slot in ('summary_events', 'summary_lineage') and file is not null and bytes > max_bytes

-- check: a_record_of_a_summary_is_written_once
-- code: I114
-- headline: a record is written twice
-- needs: {table}
-- in: {table}
-- each: table = summary_events; summary_lineage
-- about: Two records of one content have different times: each is packed at its own. Values are left out: how often a step has one is
--   checked above.
-- source: MindSpore 2.0 and 2.10: _summary_adapter.py, _writer_pool.py; real output
-- message: the {kind} of wall_time {wall_time:.6f} is there a second time
select cycle, file, row, kind, wall_time_ns / 1e9 as wall_time from {table} where kind not in ('summary', 'version')
qualify row_number() over (partition by cycle, file, kind, step, tags, scalars, wall_time_ns order by row) > 1

-- check: parameters_of_a_landscape_have_their_files
-- code: I113
-- headline: a file is of another step
-- needs: train_metadata_training
-- in: train_metadata
-- about: Parameters are saved in a file named by its step or epoch.
-- source: MindSpore 2.0 and 2.10: _summary_collector.py (_save_model_params)
-- message: {unit} {number} has the file {name}
select cycle, file, '$.model_params_file_map.' || number as path, unit, number, name
from landscape_files where name not like '%\_' || number || '\_' || unit || '.ckpt' escape '\'

-- check: parameters_of_a_landscape_have_their_files
-- code: I113
-- headline: a file is of another training
-- about: All files are in one folder.
-- message: {unit} {number} has a file in {folder}, others in {usual}
select cycle, file, '$.model_params_file_map.' || number as path, unit, number, folder, usual
from landscape_files where folder <> usual

-- check: parameters_of_a_landscape_have_their_files
-- code: I115
-- headline: an interval is too short or in the wrong place
-- about: Intervals are numbered from 0, and each has at least three steps or epochs.
-- source: MindSpore 1.x, 2.0 and 2.10: _summary_collector.py (_check_intervals, _create_epoch_group)
-- message: interval {key} has {numbers} numbers, and is the {nth}. of the intervals
select cycle, file, '$.epoch_group.' || key as path, key, len(numbers) as numbers, place as nth
from landscape_intervals where len(numbers) < 3 or key <> (place - 1)::varchar

-- check: parameters_of_a_landscape_have_their_files
-- code: I115
-- headline: a file is in no interval
-- about: Parameters are saved in the steps or epochs of the intervals, and in no others.
-- source: MindSpore 2.0 and 2.10: _summary_collector.py (step_end, epoch_end)
-- message: {unit} {number} has a file and is in no interval
select cycle, file, '$.model_params_file_map.' || number as path, unit, number
from landscape_files
where (cycle, file, place) not in (select (cycle, file, number) from landscape_numbers)

-- check: parameters_of_a_landscape_have_their_files
-- headline: a file of an interval is missing
-- about: ... and in all of them that the training came by: none is left out between two neighbours that are saved. Where the data is sunk, only every
--   n-th step is seen.
-- message: {unit} {number} is of an interval and has no file; those before and after it have one
with saved as (select distinct cycle, file, unit, place as number from landscape_files),
strides as (
  select cycle, file, any_value(unit) as unit, list_reduce(list(distinct gap) filter (gap is not null), lambda one, other: gcd(one, other)) as stride
  from (select *, number - lag(number) over (partition by cycle, file order by number) as gap from saved)
  group by cycle, file having count(gap) > 1)
select cycle, file, '$.model_params_file_map' as path, unit, number
from strides join (select distinct * from landscape_numbers) using (cycle, file)
where (cycle, file, number) not in (select (cycle, file, number) from saved)
  and (cycle, file, number - stride) in (select (cycle, file, number) from saved)
  and (cycle, file, number + stride) in (select (cycle, file, number) from saved)

-- check: the_graph_of_a_summary_comes_first
-- code: I106
-- needs: summary_events
-- in: summary_events
-- about: SummaryCollector records the graph in the first step, before any value: records are written in the order in which they are made.
-- source: MindSpore 2.0 and 2.10: _summary_collector.py (step_end), _writer_pool.py (run)
-- message: the graph follows the values of step {step}
select cycle, file, row, before as step
from (
  select *, arg_max(if(kind = 'summary' and contains(tags, '/auto'), step, null), row) over (
    partition by cycle, file order by row) as before
  from summary_events)
where kind = 'graph_def' and before is not null

-- check: a_lineage_is_in_order
-- code: I106
-- needs: summary_lineage
-- in: summary_lineage
-- about: The data pipeline is recorded in the first step, what the user adds after it, and the lineage of the training at its end.
-- source: MindSpore 2.0 and 2.10: _summary_collector.py (step_end, end), _writer_pool.py (run)
-- message: the {kind} follows the {before}
select cycle, file, row, kind, before
from (
  select cycle, file, row, kind, arg_max(if(kind = 'train_lineage' or kind = 'user_defined_info', kind, null), row) over (
    partition by cycle, file order by row rows between unbounded preceding and 1 preceding) as before,
    bool_or(kind = 'train_lineage') over (partition by cycle, file order by row rows between unbounded preceding and 1 preceding) as is_trained
  from summary_lineage)
where kind = 'dataset_graph' and before is not null or kind = 'user_defined_info' and is_trained

-- check: a_lineage_is_in_order
-- code: I114
-- about: Both are recorded once.
-- message: a second {kind}
select cycle, file, row, kind from summary_lineage where kind in ('dataset_graph', 'user_defined_info')
qualify row_number() over (partition by cycle, file, kind order by row) > 1

-- check: a_summary_is_of_its_file
-- code: I113
-- headline: a file is of another run
-- needs: {table}
-- in: {table}
-- each: table = summary_events; summary_lineage
-- about: The name of a file has the second in which the collector was made: no record is older.
-- source: MindSpore 2.0 and 2.10: summary_record.py (_initialize), _summary_adapter.py (get_event_file_name)
-- tolerance: an hour: clocks are set
-- message: its first record is of {first_s:.0f} s UNIX time, the name of the file says {named_s:.0f} s
select cycle, file, min(wall_time_ns) / 1e9 as first_s, any_value(named) as named_s
from {table}
join (
  select cycle, file, try_cast(regexp_extract(name, 'events\.summary\.([0-9]{1,12})\.', 1) as bigint) as named
  from files where slot = '{table}') using (cycle, file)
group by cycle, file having min(wall_time_ns) / 1e9 < any_value(named) - 3600

-- check: a_summary_is_of_its_lineage
-- code: I113
-- headline: two files are of different runs
-- invariant: counted_twice_agrees
-- needs: summary_events, summary_lineage
-- in: summary_lineage
-- about: The graph and the data pipeline are recorded together, in the first step.
-- source: MindSpore 2.0 and 2.10: _summary_collector.py (step_end); real output of both
-- tolerance: an hour: a worker process packs them
-- message: the graph is of {graph_s:.0f} s UNIX time, the data pipeline of {data_s:.0f} s
with stems as (
  select cycle, file, slot, regexp_replace(name, '(_MS|_lineage)$', '') as stem from files
  where slot in ('summary_events', 'summary_lineage') and file is not null),
graphs as (
  select cycle, stem, min(wall_time_ns) / 1e9 as graph_s
  from summary_events join (from stems where slot = 'summary_events') using (cycle, file) where kind = 'graph_def' group by all),
pipelines as (
  select cycle, file, stem, min(wall_time_ns) / 1e9 as data_s
  from summary_lineage join (from stems where slot = 'summary_lineage') using (cycle, file) where kind = 'dataset_graph' group by all)
select cycle, file, graph_s, data_s from graphs join pipelines using (cycle, stem) where abs(graph_s - data_s) > 3600

-- check: a_summary_file_has_a_record
-- code: C103
-- severity: warning
-- headline: a summary file without a record
-- needs: summary_events
-- in: summary_events
-- about: A file is made when the first record is written, so it has another one than the version. A warning: the first record may be larger than
--   `max_file_size`, and then it is left out.
-- source: MindSpore 2.0 and 2.10: writer.py (BaseWriter.writer, write), _writer_pool.py
-- message: it has the version and no record: nothing was collected, or the process died
select cycle, file
from files
where slot = 'summary_events' and file is not null
  and (cycle, file) not in (select (cycle, file) from summary_events where kind <> 'version')

-- check: a_value_of_a_summary_is_of_its_kind
-- code: S103
-- headline: a value is of another kind
-- needs: summary_events
-- in: summary_events
-- about: What SummaryCollector collects (`/auto`) is of one kind in all steps: a loss is a scalar, a parameter a histogram, data an image. Not where a step
--   has several: a parameter may be called like the loss.
-- source: MindSpore 2.0 and 2.10: _summary_collector.py (_collect_metric, _collect_histogram, _collect_input_data)
-- message: {tag} of step {step} is a {kind}, in most steps a {usual}
with kinds as (
  select cycle, file, tag, step, min(row) as row, min(kind) as kind
  from summary_values where is_auto group by all having count(distinct kind) = 1),
most as (
  select cycle, file, tag, kind as usual from kinds group by cycle, file, tag, kind
  qualify row_number() over (partition by cycle, file, tag order by count(*) desc, min(row)) = 1)
select cycle, file, row, tag, step, kind, usual from kinds join most using (cycle, file, tag) where kind <> usual
