"""What a command leaves: its exit code, what it prints on which screen, and the files that it writes.

The screen has colours by --color, NO_COLOR and FORCE_COLOR, and shows as much as -q and -v request.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfguard.errors import UsageError
from perfguard.screen import Screen, is_terminal, json_for, screen_of

if TYPE_CHECKING:
    from perfguard.judge.verdict import Outcome
    from perfguard.reports import ReportFile

#: In `Context.meta`: -1 for --quiet, 1 for --verbose; and the requested report files, each a flag, a format and a value.
VERBOSITY = "perfguard.verbosity"
FILES = "perfguard.files"
#: What no profiler writes: a page made anew may replace the one before, inside a recording as well.
_OWN = (".html", ".htm", ".md")


class Exit(IntEnum):
    """A command exits with the code of the gravest outcome; its help says what the code means there."""

    PASSED = 0
    REGRESSION = 1
    USAGE = 2
    INVALID = 3
    NOTHING = 4

    @property
    def meaning(self) -> str:
        """What it means, in a clause."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.PASSED: "everything that was judged passed",
    Exit.REGRESSION: "something got worse",
    Exit.USAGE: "the call, an option or the configuration is wrong, the command was stopped, or perfguard has a defect",
    Exit.INVALID: "a recording is incomplete or wrong",
    Exit.NOTHING: "nothing could be judged: no baseline, or no known profiler output",
}


def exit_code(outcomes: list[Outcome]) -> Exit:
    """Return the exit code of several outcomes, that of the gravest; of none, that nothing could be judged."""
    found = {outcome.value for outcome in outcomes}
    gravest = {"INVALID": Exit.INVALID, "FAILED": Exit.REGRESSION, "INCONCLUSIVE": Exit.NOTHING}
    return next((code for name, code in gravest.items() if name in found), Exit.PASSED if found else Exit.NOTHING)


# -- what it prints ------------------------------------------------------------------------------------------------------


def screen(*, err: bool = False) -> Screen:
    """Return what standard output (or error) is."""
    context = click.get_current_context(silent=True)
    return screen_of(
        sys.stderr if err else sys.stdout,
        colours=None if context is None else context.color,
        verbosity=0 if context is None else context.meta.get(VERBOSITY, 0),
    )


def echo(text: str, *, err: bool = False) -> None:
    """Print lines as the screen shows them."""
    on = screen(err=err)
    click.echo(on.shown(text), err=err, color=on.colours)


def echo_plain(text: str, *, err: bool = False) -> None:
    """Print lines without colours."""
    click.echo(screen(err=err).carried(text), err=err)


def echo_line(text: str, *, err: bool = False) -> None:
    """Print one line with its control characters escaped."""
    from perfguard.screen import printable

    echo(printable(text), err=err)


def echo_json(text: str, *, nl: bool = True) -> None:
    """Print a JSON document, which stays one whatever characters standard output has."""
    click.echo(json_for(sys.stdout, text), nl=nl, color=False)


def echo_data(text: str, *, is_json: bool) -> None:
    """Print a part of a JSON or CSV document: to a pipe byte by byte in UTF-8, to a terminal as it can be shown."""
    if not is_terminal(sys.stdout):
        click.echo(text.encode("utf-8"), nl=False)
    elif is_json:
        echo_json(text, nl=False)
    else:
        click.echo(screen().carried(text), nl=False)


def table_text(columns: dict[str, dict[str, Any]], rows: Iterable[Iterable[object]]) -> str:
    """Return a table, control characters escaped. `columns` are the further arguments of `Column` by title."""
    from perfguard.reports.table import Column, table
    from perfguard.screen import printable

    cells = [[printable(str(cell)) for cell in row] for row in rows]
    return table([Column(title=title, **how) for title, how in columns.items()], cells, screen())


# -- what it writes ------------------------------------------------------------------------------------------------------


def report_files(default: str | None = None) -> list[ReportFile]:
    """Return the files that `options.files` were given; `default` is the page to write without any. Raises `UsageError`."""
    from perfguard.reports import report_file, split

    requested = click.get_current_context().meta.get(FILES) or ([("--html", "html", default)] if default else [])
    files = []
    for flag, form, value in requested:
        option = f"{flag} {'FILE' if form != 'out' else 'FORMAT:FILE'}"
        form, path = split(value, option=flag) if form == "out" else (form, value)
        files.append(report_file(form, Path(path), option=option))
    return files


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
