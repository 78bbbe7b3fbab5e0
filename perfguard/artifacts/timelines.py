"""Timelines: which files of a recording Perfetto and chrome://tracing open as they are."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from perfguard.artifacts.readers import TRACE
from perfguard.artifacts.survey import survey
from perfguard.recording import Recording


def timelines_in(recording: Recording) -> tuple[Path, ...]:
    """Return the traces of a recording in the trace event format, by rank and name."""
    found = survey(recording.profiler_directory)
    traces = [
        (file.rank or 0, file.path) for cycle in found.cycles for file in cycle.files if file.slot.format == TRACE
    ]
    return tuple(path for _, path in sorted(traces))


def trace_bytes(path: Path, *, most_bytes: int) -> bytes | None:
    """Return a trace unpacked, or None where it has more than so many bytes. Raises `OSError`, of a damaged gzip as well."""
    if os.path.getsize(path) > most_bytes:
        return None
    with open(path, "rb") as stream:
        packed = stream.read(most_bytes + 1)
    if not packed.startswith(b"\x1f\x8b"):
        return packed if len(packed) <= most_bytes else None
    from isal import igzip, igzip_lib

    try:
        with open(path, "rb") as stream:
            plain = igzip.IGzipFile(fileobj=stream, mode="rb")  # type: ignore[no-untyped-call]
            text: bytes = plain.read(most_bytes + 1)
    except (igzip_lib.IsalError, EOFError, zlib.error) as error:  # type: ignore[misc]
        raise OSError(f"{path} is no whole gzip: {error}") from error
    return text if len(text) <= most_bytes else None
