"""Rules for the profiler's own log: no errors, and a complete window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

_LIFE = re.compile(r"\] CpuProfiler (start|stop|finalize)\b")
_LEVEL = re.compile(r"^\[[^\]]*\] (?:\[\d+\] )?\[(ERROR|CRITICAL|FATAL|WARNING)\]\s*(.*)")
_ITSELF = re.compile(r"\] Profiler logger initialized at: (.*\.log)\s*$")
#: A message in a log may be a whole dump.
_LONGEST_LINE = 200


@invariant(needs=("log",))
def the_log_tells_of_no_error(cycle: Cycle) -> Iterator[Finding]:
    """No line of logs/profiler_*.log has the level ERROR; a WARNING is shown as one.

    Lines are `[time] [LEVEL] [file.py:line] message`; the text of a message does not count, and other lines continue the
    message above. Source: MindSpore 2.10: log.py; MindSpore's own tests search the
    same files. An ERROR that MindSpore prints to stderr (`CPU device is not supported`) is not in these files.
    """
    logs = [file for file in cycle.files if file.slot.name == "log"] or [cycle.artifacts["log"]]
    for artifact in logs:
        lines_of: dict[Severity, list[tuple[str, str]]] = {Severity.ERROR: [], Severity.WARNING: []}
        lines = artifact.content.document if isinstance(artifact.content.document, list) else []
        for number, line in enumerate(lines, start=1):
            if (found := _LEVEL.match(line)) is not None:
                severity = Severity.WARNING if found[1] == "WARNING" else Severity.ERROR
                lines_of[severity].append((f"{artifact.place}:{number}", f"{found[1]}: {_short(found[2])}"))
        for severity, found_lines in lines_of.items():
            yield from disagreements(
                Code.C111, found_lines, count=len(found_lines), place=artifact.place, severity=severity
            )


@invariant(needs=("log",), layouts=("ms-2.5+cpu",))
def the_log_tells_of_a_whole_window(cycle: Cycle) -> Iterator[Finding]:
    """The profiler was stopped after it was started, and left more files than its log.

    A killed process leaves `CpuProfiler start.` as the last message. A loop that ends while the schedule waits leaves a
    directory that was finalised and never started (a warning: the other cycles are complete). Source: MindSpore 2.7 to 2.10:
    cpu_profiler.py, real output of runs that were killed, cut short, and empty.
    """
    logged = {
        word
        for artifact in cycle.files
        if artifact.slot.name == "log" and isinstance(artifact.content.document, list)
        for line in artifact.content.document
        if (found := _LIFE.search(line)) is not None
        for word in found.groups()
    }
    place = cycle.artifacts["log"].place
    is_empty = not any(artifact.slot.name != "log" for artifact in cycle.files)
    if "start" in logged and not logged & {"stop", "finalize"}:
        message = "the profiler started and never stopped: the process died in the window"
        yield Finding(code=Code.C110, place=place, message=message)
    elif is_empty and "start" not in logged:
        message = "the profiler was opened, but never started: the loop ended before the window began"
        yield Finding(code=Code.C103, severity=Severity.WARNING, place=place, message=message)
    elif is_empty:
        message = (
            "the profiler was started and stopped, but left only this log: no operator ran on the CPU, or the other "
            "files were removed"
        )
        yield Finding(code=Code.C103, place=place, message=message)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 1] + "…"


@invariant(needs=("log",))
def a_log_is_where_it_says(cycle: Cycle) -> Iterator[Finding]:
    """The first line of a log names the log file itself.

    Only the name of the file counts: directories are moved and renamed. Source: MindSpore 2.10: log.py, torch_npu: _log.py
    (`Profiler logger initialized at: <path>`).
    """
    for artifact in cycle.files:
        lines = artifact.content.document if artifact.slot.name == "log" else None
        if not isinstance(lines, list) or not lines or (found := _ITSELF.search(lines[0])) is None:
            continue
        if (named := found[1].rpartition("/")[2]) != artifact.path.name:
            message = f"its first line names {named}: it is the log of another run"
            yield Finding(code=Code.I113, place=f"{artifact.place}:1", message=message)
