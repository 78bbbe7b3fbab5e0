-- The tables that readers fill. `cycle` is the first column of those with rows of a cycle, `row` refers to the file. Names,
-- categories, shapes and other texts are integers, their numbers in `words`. The first sentence above a table is
-- its description in `perfguard sql DIR --tables`.

-- Texts that other tables refer to by number: names, categories, arguments as JSON.
create table words (number integer, text varchar);

-- Process and thread as JSON.
create table threads (number integer, process varchar, thread varchar);

-- The documents around the events of torch traces. One row for each trace.
create table traces (
    cycle integer, base_ns bigint, named_ns bigint, written_ns bigint, profile_memory integer, record_shapes integer
);

-- Devices that the documents around the events of torch traces describe, with the number of their multiprocessors.
create table devices (cycle integer, device bigint, multiprocessors bigint);

-- Events of torch traces with a start and a duration (X).
create table spans (
    cycle integer, row bigint, name integer, category integer, thread integer, start_ns bigint, duration_ns bigint,
    correlation bigint, input_shapes integer, input_types integer, event_index bigint, external_id bigint
);

-- What Kineto writes of calls of a device's runtime or driver and of its work. `cbid`: the number of the function that was called;
-- `kernel`: the name of the kernel that a call launched, of ROCm. Null where an event has none.
create table device_details (
    cycle integer, row bigint, device bigint, stream bigint, cbid bigint, copied_bytes bigint, bandwidth double, grid integer,
    block integer, blocks_per_sm double, warps_per_sm double, registers bigint, shared_memory bigint, occupancy double,
    kernel integer
);

-- Waits of the host and of streams that Kineto writes (cuda_sync). `wait` is the kind as JSON; `event` is the number of the CUDA event
-- that it waits for, `recorded_on` the stream and `recorded_by` the correlation of the call that recorded it, -1 where Kineto
-- does not know it. Null where it has none.
create table device_waits (
    cycle integer, row bigint, wait integer, device bigint, wait_stream bigint, event bigint, recorded_on bigint,
    recorded_by bigint
);

-- What torch writes of a collective to its operator (record_param_comms), and Kineto to the kernel of it. Names are JSON. Null where
-- an event has none.
create table collective_details (
    cycle integer, row bigint, collective integer, dtype integer, in_elements bigint, out_elements bigint, group_size bigint
);

-- What torch writes of the Python functions that it traces. `python_id` counts them, `parent_id` is that of the caller, and
-- `module_id` counts the modules of a class.
create table python_calls (cycle integer, row bigint, python_id bigint, parent_id bigint, module_id bigint);

-- What torch writes of operators that autograd numbers, or that have a number of their call. `sequence` connects a forward
-- operator with its backward ones, whose `forward_thread` is not 0.
create table host_details (
    cycle integer, row bigint, sequence bigint, forward_thread bigint, recorded_call bigint
);

-- Spans of the host and of devices with their self times and parents (parent is a row of spans). Computed once, because a
-- self-join of 2.5 million spans takes longer. `last_step`: the last step that began before the span; `left_ns`: from the
-- start of the span until its parent ends; `outlives_ns`: by how much the span ends after its parent.
create table nesting (
    cycle integer, row bigint, name integer, category integer, thread integer, start_ns bigint, duration_ns bigint,
    correlation bigint, input_shapes integer, input_types integer,
    last_step bigint, self_ns bigint, parent bigint, left_ns bigint, outlives_ns bigint
);

-- Events of torch traces at one time (i), such as allocations.
create table instants (
    cycle integer, row bigint, name integer, category integer, thread integer, time_ns bigint, event_index bigint,
    bytes bigint, total_bytes bigint, reserved_bytes bigint, device_type bigint, device_number bigint, address bigint,
    input_shapes integer
);

-- Events of trace_views with a start and a duration (X). `kind`: the argument with the kind of the event, as JSON; `of_graph`:
-- the event is about a graph, with the time at which the graph was loaded.
create table view_spans (
    cycle integer, row bigint, name integer, category integer, thread integer, start_ns bigint, duration_ns bigint,
    kind integer, of_graph boolean
);

-- Events of other kinds, such as counters. `arguments`: a hash of their arguments; `odd_arguments`: the arguments of a counter
-- that are not numbers, as JSON.
create table others (
    cycle integer, row bigint, phase integer, name integer, thread integer, time_ns bigint, arguments bigint,
    odd_arguments integer
);

-- Readings of a device's clock that a trace draws as a counter, in MHz; null for one that is no number.
create table clocks (cycle integer, row bigint, name integer, thread integer, time_ns bigint, mhz double);

-- Names and labels of the processes of traces. `process` is JSON; `is_name` is false for labels.
create table processes (cycle integer, row bigint, process varchar, is_name boolean, text integer);

-- What torch traces write of the lanes that they draw: names and places of threads, and places of processes. `kind` is the name of
-- the metadata event; `place` is an integer, and `label` is the name.
create table lane_marks (
    cycle integer, row bigint, kind integer, process varchar, lane varchar, label integer, place bigint
);

-- Flow events, the ends of arrows between spans (s, t, f). `id` is an integer; `id_text` is the number of a text.
create table flows (
    cycle integer, row bigint, is_start boolean, name integer, category integer, thread integer, time_ns bigint,
    id bigint, id_text integer
);

-- Kernels on devices: the lines of kernel_details.csv. `row` is the line. `step` is the number in `step_text`, which is null
-- if the file has no such column; `odd_tensors`: how many shapes, types and formats of tensors it has, where they differ; `print`: a
-- hash of all cells.
create table kernel_lines (
    cycle integer, row bigint, device integer, step bigint, step_text integer, name integer, type integer, core integer,
    stream bigint, task bigint, shapes integer, odd_tensors integer, start_ns bigint, duration_ns bigint, wait_ns bigint,
    print bigint
);

-- The operator of the kernels of a type and a name.
create table kernel_operators (type integer, name integer, operator varchar, is_collective boolean);

-- Utilisation of units of a device during kernels. `counter` is the column of the file; `part_us` and `whole_us`: the times of
-- the unit and of all units together, if the file has them.
create table kernel_counters (
    cycle integer, row bigint, counter integer, value double, part_us double, whole_us double, duration_ns bigint
);

-- Tables that the schemas of databases name, whether they exist, and how many rows they have. `file` is the file name.
create table database_tables (cycle integer, file varchar, name varchar, is_there boolean, rows bigint);

-- Steps of the window: step counts from 0, number is the profiler's own. `thread` is the one that marks them. `end_ns` is null if a
-- device runs later than the host's steps.
create table steps (
    cycle integer, step integer, number bigint, thread integer, start_ns bigint, end_ns bigint
);

-- Executions of operators, with the steps they ran in. `step` is null outside of steps; `counts` is false for work launched
-- before the first step.
create table executions (
    cycle integer, row bigint, name integer, step integer, start_ns bigint, duration_ns bigint, self_ns bigint,
    counts boolean, is_collective boolean, input_shapes integer, input_types integer, on_device boolean
);

-- Executions that files list one by one, or sums of them (`calls`), and the steps they began in. `place` is their order by time.
create table listed (
    cycle integer, place bigint, operator varchar, name varchar, step integer, start_ns bigint, duration_ns bigint, shapes varchar,
    calls bigint
);

-- The window of each cycle of which it is known what ran, with the number of its steps; null if it is unknown. `by_step`: what ran
-- is assigned to the steps; `steps_differ`: they ran different operators, and none of these was lost; `is_timeline`: the starts of
-- what ran are known, and not only how often and how long; `on_device`: it ran on a device, and not on the host.
create table windows (
    cycle integer, steps bigint, by_step boolean, steps_differ boolean, is_timeline boolean, on_device boolean
);

-- Steps that perfguard drove itself, with their wall times.
create table driven_steps (cycle integer, step integer, wall_ns bigint);

-- The level of each device's memory after each event, and before; `place` is the order of the events. `is_of_components`: the
-- events are of the framework's components, and not of a step's operators alone.
create table levels (
    cycle integer, device varchar, place bigint, time_ns bigint, level bigint, before bigint, is_of_components boolean
);

-- Messages in the profilers' own logs: `row` is the number of the line.
create table log_lines (cycle integer, file integer, row bigint, line varchar);

-- Cycles, each the profiler's output of one rank and one schedule cycle, with the number of steps requested.
-- `requested_steps`: by the schedule or the caller; `recorded_steps`: seen by the recording. Null if unknown.
create table cycles (
    cycle integer, recording varchar, rank bigint, layout varchar, place varchar, requested_steps bigint,
    recorded_steps bigint
);

-- Other settings that the caller expects, such as collect_freq (--expect).
create table requested_numbers (cycle integer, name varchar, number bigint);

-- Files of the cycles with the rank in their names and their sizes; `file` is the number among the files of
-- the slot, null if it was not read.
create table files (cycle integer, slot varchar, file integer, name varchar, rank bigint, bytes bigint);
