"""Table definitions: the columns of all tables that readers fill, and what a batch needs besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Null in an integer column; in a column of floats null is NaN.
NULL = -(2**63)

_LASTING = {
    "cycle": "integer",
    "row": "bigint",
    "name": "integer",
    "category": "integer",
    "thread": "integer",
    "start_ns": "bigint",
    "duration_ns": "bigint",
}
#: The columns of a span of a torch trace.
SPAN = {
    **_LASTING,
    "correlation": "bigint",
    "input_shapes": "integer",
    "input_types": "integer",
}

#: The tables that readers fill, by name, with columns and types. `cycle` is the first column of those with rows of a cycle.
TABLES: dict[str, dict[str, str]] = {
    # Texts that other tables refer to by code: names, categories, arguments as JSON.
    "words": {"number": "integer", "text": "varchar"},
    # Process and thread as JSON.
    "threads": {"number": "integer", "process": "varchar", "thread": "varchar"},
    # The document around the events of a trace, one row a trace.
    "traces": {
        "cycle": "integer",
        "base_ns": "bigint",
        "named_ns": "bigint",
        "profile_memory": "integer",
        "record_shapes": "integer",
    },
    # Events with a start and a duration (X).
    "spans": {**SPAN, "event_index": "bigint", "external_id": "bigint"},
    # Spans nested in each other on their thread, computed once because a self-join of 2.5 million spans takes longer: the time
    # of a span without its children, and its parent.
    "nesting": {
        **SPAN,
        # The last step that began before the span.
        "last_step": "bigint",
        "self_ns": "bigint",
        "parent": "bigint",
        # From the start of the span until its parent ends, and by how much the span ends after its parent.
        "left_ns": "bigint",
        "outlives_ns": "bigint",
    },
    # Events at one time (i).
    "instants": {
        "cycle": "integer",
        "row": "bigint",
        "name": "integer",
        "category": "integer",
        "thread": "integer",
        "time_ns": "bigint",
        "event_index": "bigint",
        "bytes": "bigint",
        "total_bytes": "bigint",
        "reserved_bytes": "bigint",
        "device_type": "bigint",
        "device_number": "bigint",
        "address": "bigint",
        "input_shapes": "integer",
    },
    # Events with a start and a duration (X) of a trace_view. `kind`: the argument with the kind of the event, as JSON;
    # `of_graph`: the event is about a graph, with the time at which the graph was loaded.
    "view_spans": {**_LASTING, "kind": "integer", "of_graph": "boolean"},
    # Events of all other kinds (counters, instants of a trace_view, ...), with a hash of their arguments. `odd_arguments`: the
    # arguments of a counter that are no numbers, as JSON.
    "others": {
        "cycle": "integer",
        "row": "bigint",
        "phase": "integer",
        "name": "integer",
        "thread": "integer",
        "time_ns": "bigint",
        "arguments": "bigint",
        "odd_arguments": "integer",
    },
    # Metadata of processes (JSON): their names (`is_name`), and their labels.
    "processes": {"cycle": "integer", "row": "bigint", "process": "varchar", "is_name": "boolean", "text": "integer"},
    # Ends of arrows between spans (s, t, f).
    "flows": {
        "cycle": "integer",
        "row": "bigint",
        "is_start": "boolean",
        "name": "integer",
        "category": "integer",
        "thread": "integer",
        "time_ns": "bigint",
        # An integer id, or the code of a text id.
        "id": "bigint",
        "id_text": "integer",
    },
    # Kernels on a device, one row of kernel_details each; `row` is its line. `step` is the number in `step_text`, which is null
    # where the file has no such column. `print`: a hash of all cells.
    "kernels": {
        "cycle": "integer",
        "row": "bigint",
        "device": "integer",
        "step": "bigint",
        "step_text": "integer",
        "name": "integer",
        "type": "integer",
        "core": "integer",
        "stream": "bigint",
        "task": "bigint",
        "shapes": "integer",
        "start_ns": "bigint",
        "duration_ns": "bigint",
        "wait_ns": "bigint",
        "print": "bigint",
    },
    # The operator that kernels of a type and a name belong to.
    "kernel_operators": {"type": "integer", "name": "integer", "operator": "varchar", "is_collective": "boolean"},
    # Utilisation of the units of a device during a kernel, by the name of the column; the time of the unit and of all units
    # together, if the file has them.
    "kernel_counters": {
        "cycle": "integer",
        "row": "bigint",
        "counter": "integer",
        "value": "double",
        "part_us": "double",
        "whole_us": "double",
        "duration_ns": "bigint",
    },
    # The tables that the schema of a database names: whether they exist, and the number of rows; `file` is the file name.
    "database_tables": {
        "cycle": "integer",
        "file": "varchar",
        "name": "varchar",
        "is_there": "boolean",
        "rows": "bigint",
    },
    # The steps of a window, from 0, with the profiler's number and the thread that marks them.
    "steps": {
        "cycle": "integer",
        "step": "integer",
        "number": "bigint",
        "thread": "integer",
        "start_ns": "bigint",
        "end_ns": "bigint",
    },
    # Executed operators of the host, and their work on a device. `step` is null outside of steps; `counts` is false for work
    # launched before the first step.
    "executions": {
        "cycle": "integer",
        "row": "bigint",
        "name": "integer",
        "step": "integer",
        "start_ns": "bigint",
        "duration_ns": "bigint",
        "self_ns": "bigint",
        "counts": "boolean",
        "is_collective": "boolean",
        "input_shapes": "integer",
        "input_types": "integer",
    },
    # The cycles themselves. `requested_steps`: number of steps that the schedule or the caller requested; `recorded_steps`:
    # number of steps that the recording saw. Null where unknown.
    "cycles": {
        "cycle": "integer",
        "recording": "varchar",
        "rank": "bigint",
        "layout": "varchar",
        "place": "varchar",
        "requested_steps": "bigint",
        "recorded_steps": "bigint",
    },
    # Numbers that the caller expects (`collect_freq=10`).
    "requested_numbers": {"cycle": "integer", "name": "varchar", "number": "bigint"},
    # The files of the cycles, opaque ones too. `file` is the number among the files of the slot that were read, else null;
    # `rank` is the rank in its name.
    "files": {
        "cycle": "integer",
        "slot": "varchar",
        "file": "integer",
        "name": "varchar",
        "rank": "bigint",
        "bytes": "bigint",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The tables of a batch with their columns and types, and its views. Each is created once in a process."""

    tables: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: TABLES)
    #: Statements that create views and macros, by a name, in their order.
    views: Mapping[str, str] = field(default_factory=dict)
    #: The derived tables that a query needs, by the view or table that it names; each is filled from its view `fill_<table>`.
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
