"""Timelines: which files of a recording Perfetto and chrome://tracing open as they are."""

from __future__ import annotations

from pathlib import Path

from perfguard.artifacts.readers import TRACE
from perfguard.artifacts.survey import survey
from perfguard.recording import Recording


def timelines_in(recording: Recording) -> tuple[Path, ...]:
    """Return the traces of a recording in the trace event format, by rank and name."""
    with recording.confined():
        found = survey(recording.profiler_directory, without=recording.without)
    traces = [
        (file.rank or 0, file.path) for cycle in found.cycles for file in cycle.files if file.slot.format == TRACE
    ]
    return tuple(path for _, path in sorted(traces))
