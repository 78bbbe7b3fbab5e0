"""The files that a command writes: reports in the formats that are installed; never what it reads, and never a history."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.reports import ReportFile

#: What no profiler writes: a page made anew may replace the one before, inside a recording as well.
_OWN = (".html", ".htm", ".md")


def report_files(options: Mapping[str, Any]) -> list[ReportFile]:
    """Return the files that the options of `file_options` request. Raises `UsageError`."""
    from perfguard.reports import report_file, split

    flags = {one.name: one.opts[0] for one in click.get_current_context().command.params}
    named = [(form, path, f"{flags[form]} FILE") for form, path in options.items() if form != "out" and path]
    for form, file in (split(one, option="--out") for one in options["out"]):
        named.append((form, Path(file), "--out FORMAT:FILE"))
    return [report_file(form, path, option=option) for form, path, option in named]


def refuse_clash(places: Iterable[Path], files: Iterable[Path]) -> None:
    """Refuse to write a file that is read, as one or within a recording, one that holds a history, or the same one twice.

    `places` are files and directories that are read. Raises `UsageError`.
    """
    from perfguard.capture.replay import recordings_in

    taken: list[Path] = list(places)
    directories = [one for place in taken if os.path.isdir(place) for one in recordings_in(place)]
    recordings = {Path(os.path.realpath(one)) for one in directories}
    for path in files:
        real = Path(os.path.realpath(path))
        is_of_a_recording = real.is_file() and real.suffix.lower() not in _OWN and recordings & set(real.parents)
        if is_of_a_recording or any(_is_same(path, one) for one in taken):
            raise UsageError(f"{path} is another file of this command, and would be overwritten; name another one.")
        if _is_database(path):
            raise UsageError(f"{path} is a history, and would be overwritten; name another file.")
        taken.append(path)


def _is_database(file: Path) -> bool:
    """Whether a file is one of SQLite's (SQLite, "Database File Format", section 1.3.1)."""
    if not os.path.isfile(file):
        return False
    with open(file, "rb") as stream:
        return stream.read(16) == b"SQLite format 3\0"


def _is_same(one: Path, other: Path) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
