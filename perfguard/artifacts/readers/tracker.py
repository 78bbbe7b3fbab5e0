"""The graph of MindSpore's memory tracker: `tracker_graph.ir`, the tasks with the blocks that they read and write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, numbered_lines, open_file, text_table
from perfguard.artifacts.table import Unreadable

#: The first line of a task: what it writes, its name, what it reads, its number in task.csv.
_TASK = re.compile(r"(\(.*\) = .*\(.*\)), task_info: ([0-9]{1,19}), attrs \{.*\} ?")
_TYPES, _STACK = re.compile(r"    \(.*\) <- \(.*\)"), "    # "


def read_tracker_graph(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read the graph of the memory tracker: one row for each task, with its number and its call, `(outputs) = name(inputs)`.

    A task has three lines: the call with the task's number, the types of its outputs and inputs, and the stack of the Python
    program. A tracker that saw no task writes an empty file. Raises `Unreadable` for anything else.
    Source: MindSpore 2.6 to 2.10: tracker_graph.cc, mem_tracker.cc (TrackerOperator::ToString, Dump); real output of 2.10.
    """
    with open_file(path) as file:
        is_empty = not file.read(1)
    return Content(table=text_table(() if is_empty else _tasks(path), ("time_stamp", "call")))


def _tasks(path: Path) -> Iterator[tuple[int, tuple[str, str]]]:
    lines = numbered_lines(path)
    for number, head in lines:
        types, stack = (next(lines, (0, ""))[1] for _ in range(2))
        found = _TASK.fullmatch(head)
        if found is None:
            raise Unreadable(
                f"a task begins here, and this is none: {head[:80]!r}: part of it is missing", f":{number}"
            )
        if not _TYPES.fullmatch(types) or not stack.startswith(_STACK):
            raise Unreadable("a task has no types or no stack: part of it is missing", f":{number}")
        yield number, (found[2], found[1])
