"""The files that a command writes: reports in the formats that are installed; never what it reads, and never a history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.reports.files import ReportFile

Command = TypeVar("Command", bound=Callable[..., Any])

#: What no profiler writes: a page made anew may take the place of the one before, inside a recording as well.
_OWN = (".html", ".htm", ".md")


def file_options(**shorthands: tuple[str, str]) -> Callable[[Command], Command]:
    """Add `--out FORMAT:FILE` to a command, and options that say the format themselves: format → (flag, help).

    The command is given them as keyword arguments; `report_files` reads these.
    """

    def add(command: Command) -> Command:
        for form, (flag, what) in reversed(shorthands.items()):
            kind = click.Path(path_type=Path)
            command = click.option(flag, form, type=kind, metavar="FILE", help=what)(command)
        what = "Write a report in any installed format, such as sarif:findings.sarif. May be repeated."
        return click.option("--out", multiple=True, metavar="FORMAT:FILE", help=what)(command)

    return add


def report_files(options: Mapping[str, Any]) -> list[ReportFile]:
    """Return the files that the options of `file_options` request. Raises `UsageError`."""
    from perfguard.reports.files import report_file, split

    flags = {one.name: one.opts[0] for one in click.get_current_context().command.params}
    named = [(form, path, f"{flags[form]} FILE") for form, path in options.items() if form != "out" and path]
    split_ones = (split(one, option="--out") for one in options["out"])
    named += [(form, Path(file), "--out FORMAT:FILE") for form, file in split_ones]
    return [report_file(form, path, option=option) for form, path, option in named]


def refuse_clash(places: Iterable[Path], files: Iterable[Path]) -> None:
    """Refuse to write a file that is read, as one or within a recording, one that holds a history, or the same one twice.

    `places` are files and directories that are read. Raises `UsageError`.
    """
    taken: list[Path] = list(places)
    recordings = {Path(os.path.realpath(one)) for place in taken if os.path.isdir(place) for one in _recordings(place)}
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


def _recordings(directory: Path) -> Iterable[Path]:
    from perfguard.capture.replay import recordings_in

    return recordings_in(directory)


def _is_same(one: Path, other: Path) -> bool:
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
