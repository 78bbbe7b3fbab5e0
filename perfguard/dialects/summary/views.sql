-- What MindSpore's summary files say. SummaryCollector tags the values that it collects by itself `.../auto`.

-- Values of summary files that have a step. `item`: the position in its record; `scalar`: the number as it is written.
create view fill_summary_values as
select cycle, file, row, item, step, tag, value_kind as kind, scalar, try_cast(scalar as double) as number, tag like '%/auto' as is_auto
from (
  select cycle, file, row, step, unnest(range(len(string_split(tags, '|')))) as item, unnest(string_split(tags, '|')) as tag,
    unnest(string_split(kinds, '|')) as value_kind, unnest(string_split(scalars, '|')) as scalar
  from summary_events
  where kind = 'summary' and step is not null and (tags <> '' or kinds <> ''));

-- Steps in which SummaryCollector collected values, and steps with tensors, which have a frequency of their own.
create view fill_summary_steps as
with collected as (select cycle, file from summary_values group by all having bool_or(is_auto))
select distinct cycle, file, kind = 'tensor' as is_tensor, step
from summary_values join collected using (cycle, file) where is_auto or kind = 'tensor';

-- Numbers that the caller states for summary files. Tensors have by default the frequency of the values, but at most 20 steps and
-- the first. Source: MindSpore 2.10, SummaryCollector._get_tensor_collect_range.
create view summary_numbers as
with stated as (
  select cycle, max(number) filter (name = 'collect_freq') as every, max(number) filter (name = 'collect_tensor_freq') as every_tensor,
    max(number) filter (name = 'summary_steps') as total, max(number) filter (name = 'max_file_size') as max_bytes
  from cycles left join requested_numbers using (cycle) group by cycle),
by_default as (
  select *, every_tensor is null and total is not null as is_by_default,
    case when total // every < 20 then every else greatest(total // 19, 1) end as tensors_every,
    case when total // every < 20 then total when total < 38 then least(total, 20) else total // 19 * 19 end as last_tensor
  from stated)
select cycle, max_bytes, every, total,
  coalesce(every_tensor, if(is_by_default, tensors_every, null)) as every_tensor,
  if(is_by_default and every is not null, last_tensor, if(every_tensor is null, null, total)) as last_tensor
from by_default;

-- The steps that a summary file must have: the first, and from `low` to `high` every `stride`-th. Where the caller does not state the
-- frequency it is the greatest common divisor of all steps but the first, if there are three.
create view fill_summary_rules as
with there as (
  select cycle, file, is_tensor, list(step order by step) as steps from summary_steps group by all),
stated as (
  select *, if(is_tensor, every_tensor, every) as stated_every, if(is_tensor, last_tensor, total) as last
  from there join summary_numbers using (cycle)),
found as (
  select *, coalesce(stated_every, if(len(steps) > 3, list_reduce(steps[2:], lambda one, other: gcd(one, other)), null)) as stride
  from stated),
bounds as (
  select cycle, file, is_tensor, stride, steps[-1] as highest, coalesce(last, steps[-1]) as high,
    if(stated_every is null, steps[1], 1) as first_step, if(stated_every is null, (steps[1] // stride + 1) * stride, stride) as low,
    -- The first eight missing steps are up to here.
    least(low::hugeint + stride::hugeint * (len(steps) + 8), high)::bigint as reach
  from found where stride is not null)
select *, if(is_tensor, 'tensors', 'values') as what, if(high < low, 0, (high - low) // stride + 1)
  + if(first_step between low and high and (first_step - low) % stride = 0, 0, 1) as required
from bounds;

-- Whether a step is one that `summary_rules` requires.
create view fill_summary_steps_judged as
select *, step = first_step or (step between low and high and (step - low) % stride = 0) as is_required
from summary_steps join summary_rules using (cycle, file, is_tensor);

create macro steps_in_words(steps, total) as
  if(total = 1, 'step ', 'steps ') || array_to_string(steps[:8], ', ') || if(total > 8, ' and ' || (total - 8) || ' more', '');

-- Summary files whose next record might have exceeded max_file_size.
create view summary_files_full as
select cycle, file from (
  select cycle, file, bytes, lead(offset_bytes, 1, bytes) over (partition by cycle, file order by row) - offset_bytes as of_record
  from summary_events join files using (cycle, file) where slot = 'summary_events')
join summary_numbers using (cycle)
group by cycle, file having any_value(bytes) + max(of_record) > any_value(max_bytes);

-- Values `/auto` that repeat an earlier value of their step.
create view fill_summary_repeats as
select cycle, file, row, item, tag, step, scalar, first_value(scalar) over same as first_scalar, first_value(row) over same as first_row,
  row_number() over same as times
from summary_values where is_auto
window same as (partition by cycle, file, step, tag order by row, item)
qualify times > 1;

-- The prefix of the subjects of each file.
create view summary_runs as
select cycle, file, if(number = 1, '', 'run' || number || ':') as run
from (
  select cycle, file, row_number() over (partition by cycle order by name) as number
  from files where slot = 'summary_events' and file is not null);

-- The intervals of a landscape, in their order.
create view landscape_intervals as
select cycle, file, key, numbers, row_number() over (partition by cycle, file order by place) as place
from (
  select cycle, file, unnest(json_keys(epoch_group)) as key, unnest(range(len(json_keys(epoch_group)))) as place,
    unnest(json_extract(epoch_group, '$.*'))::varchar[] as numbers
  from train_metadata_training);

-- The files of parameters. `place`: the step or epoch, null beyond 64 bits; `usual`: the folder of the first.
create view landscape_files as
select training.cycle, training.file, unit, number, try_cast(number as bigint)::hugeint as place, regexp_extract(files.path, '[^/\\]*$') as name,
  regexp_extract(files.path, '^(.*)[/\\][^/\\]*$', 1) as folder,
  first_value(regexp_extract(files.path, '^(.*)[/\\][^/\\]*$', 1)) over (
    partition by training.cycle, training.file order by try_cast(number as bigint)) as usual
from train_metadata_training as training
join (
  select cycle, file, unnest(json_keys(model_params_file_map)) as number,
    unnest(json_extract_string(model_params_file_map, '$.*')) as path
  from train_metadata_training) as files using (cycle, file);

-- The steps or epochs of all intervals.
create view landscape_numbers as
select cycle, file, try_cast(unnest(numbers) as bigint)::hugeint as number from landscape_intervals;
