-- The common tables: what ran and what it took, in the same columns and units whatever profiler wrote it. A dialect says what it knows
-- in views named `<table>_in_<its own word>`; columns that such a view lacks are null. Times are in ns, of the clock of the recording;
-- a row leads back to its file by `row`. A profiler that lists sums has `calls` above 1, and its starts are null.

-- What ran on the host. `type` is what metrics call it, `name` the most precise name; `parent` is the `row` of the operator around it, and
-- `self_ns` the duration without what ran inside; `step` is null outside of the steps.
create table operators (
    rank bigint, cycle integer, row bigint, step integer, name varchar, type varchar, calls bigint, thread integer, parent bigint,
    input_shapes varchar, input_types varchar, start_ns bigint, duration_ns bigint, self_ns bigint
);

-- Calls of a device's runtime or driver. `kind`: kernel, graph, copy, set, synchronise or other; `operator` is the one that called,
-- and `step` the one in which it began.
create table launches (
    rank bigint, cycle integer, row bigint, step integer, name varchar, kind varchar, thread integer, operator varchar,
    start_ns bigint, duration_ns bigint, correlation bigint
);

-- What ran on a device. `kind`: compute, communication, copy or set; `type` is what metrics call it; `step` is the one that launched
-- it, and `operator` the operator of the host that did. `bytes` are those of copies and sets, `wait_ns` the time before it started.
create table kernels (
    rank bigint, cycle integer, row bigint, step integer, name varchar, type varchar, kind varchar, operator varchar, calls bigint,
    device varchar, stream bigint, input_shapes varchar, start_ns bigint, duration_ns bigint, wait_ns bigint, bytes bigint,
    correlation bigint
);

-- Each change of a device's memory: by how many `bytes`, and what was allocated in all after it, as far as the window knows.
create table memory (
    rank bigint, cycle integer, step integer, device varchar, time_ns bigint, bytes bigint, total_bytes bigint
);

-- Readings of a device: `name` is clock_mhz.
create table counters (rank bigint, cycle integer, row bigint, device varchar, name varchar, time_ns bigint, value double);

-- Collectives and transfers between ranks, on the host or on a `device`. `type` is the type of the elements, `size` how many ranks are in
-- the group, `bytes` what a rank hands in.
create table collectives (
    rank bigint, cycle integer, row bigint, step integer, name varchar, type varchar, size bigint, bytes bigint, device varchar,
    start_ns bigint, duration_ns bigint
);
