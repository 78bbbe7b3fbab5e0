"""The graph of MindSpore's memory tracker: `tracker_graph.ir`, the tasks with the blocks that they read and write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import MAX_CELLS, Content, open_file, read_text, text_table
from perfguard.artifacts.table import Unreadable

#: The first line of a task: what it writes, its name, what it reads, its number in task.csv.
_TASK = re.compile(r"(\(.*\) = .*\(.*\)), task_info: ([0-9]{1,19}), attrs \{.*\} ?")
_TYPES, _STACK = re.compile(r"    \(.*\) <- \(.*\)"), "    # "
_LINES = 3


def read_tracker_graph(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read the graph of the memory tracker: one row for each task, with its number and its call, `(outputs) = name(inputs)`.

    A task has three lines: the call with the task's number, the types of its outputs and inputs, and the stack of the Python
    program. A tracker that saw no task writes an empty file. Raises `Unreadable` for anything else.
    Source: MindSpore 2.6 to 2.10: tracker_graph.cc, mem_tracker.cc (TrackerOperator::ToString, Dump); real output of 2.10.
    """
    with open_file(path) as file:
        if not file.read(1):
            return Content(table=text_table([], ("time_stamp", "call"), []))
    lines = read_text(path).replace("\r\n", "\n").split("\n")[:-1]
    if len(lines) > MAX_CELLS:
        raise Unreadable(f"it has {len(lines)} lines, more than the {MAX_CELLS} that are read")
    rows: list[tuple[str, str]] = []
    numbers: list[int] = []
    for first in range(0, len(lines), _LINES):
        head, types, stack = (lines[first : first + _LINES] + [""] * _LINES)[:_LINES]
        found = _TASK.fullmatch(head)
        if found is None:
            raise Unreadable(
                f"a task begins here, and this is none: {head[:80]!r}: part of it is missing", f":{first + 1}"
            )
        if not _TYPES.fullmatch(types) or not stack.startswith(_STACK):
            raise Unreadable("a task has no types or no stack: part of it is missing", f":{first + 1}")
        rows.append((found[2], found[1]))
        numbers.append(first + 1)
    return Content(table=text_table(rows, ("time_stamp", "call"), numbers))
