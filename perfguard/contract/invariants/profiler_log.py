"""The profiler's own log: what it says went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.contract.invariants import invariant
from perfguard.contract.invariants.disagreement import disagreements
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.contract.inspection import Cycle

_LEVEL = re.compile(r"^\[[^\]]*\] (?:\[\d+\] )?\[(ERROR|CRITICAL|FATAL|WARNING)\]\s*(.*)")
#: A message in a log may be a whole dump.
_LONGEST_LINE = 200


@invariant(needs=("log",))
def the_log_tells_of_no_error(cycle: Cycle) -> Iterator[Finding]:
    """No line of logs/profiler_*.log has the level ERROR; a WARNING is shown as one.

    Lines are `[time] [LEVEL] [file.py:line] message`; what a message itself says of errors does not count, and lines that
    do not begin like this go on with the message above. Source: MindSpore 2.10: log.py; MindSpore's own tests search the
    same files. An ERROR that MindSpore prints to stderr (`CPU device is not supported`) is not in these files.
    """
    logs = [file for file in cycle.files if file.slot.name == "log"] or [cycle.artifacts["log"]]
    for artifact in logs:
        said: dict[Severity, list[tuple[str, str]]] = {Severity.ERROR: [], Severity.WARNING: []}
        lines = artifact.content.document if isinstance(artifact.content.document, list) else []
        for number, line in enumerate(lines, start=1):
            if (found := _LEVEL.match(line)) is not None:
                severity = Severity.WARNING if found[1] == "WARNING" else Severity.ERROR
                said[severity].append((f"{artifact.place}:{number}", f"{found[1]}: {_short(found[2])}"))
        for severity, lines_said in said.items():
            yield from disagreements(
                Code.C111, lines_said, count=len(lines_said), place=artifact.place, severity=severity
            )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 1] + "…"
