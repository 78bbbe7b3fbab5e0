"""`perfguard sql DIR "select ..."`: ask a profiler's output in SQL, of the tables that perfguard's own checks are asked of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.output import Exit, echo, echo_data, echo_plain, refuse_clash, screen
from perfguard.errors import DamagedError, UsageError, nearest

if TYPE_CHECKING:
    from perfguard.artifacts.remote import RemoteTree
    from perfguard.contract.open_tables import OpenTables
    from perfguard.recording import Recording

_FORMATS = ("table", "csv", "json", "parquet")
_LONGEST_S = 86_400.0
#: The longest query, in characters.
_LONGEST_QUERY = 4_000_000
#: So many rows of a table are shown; a screen is for people.
_SHOWN_ROWS = 1000
_PRINTED_AT_ONCE = 1024


@click.command(name="sql")
@click.argument("directory")
@click.argument("query", required=False)
@options.flag("--tables", "lists_tables", help="List the tables and views that have rows.")
@click.option("--columns", "table", metavar="TABLE", help="List the columns of a table or view, with their types.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help="Format of the rows (default: by the ending of --output, else table).",
)
@options.path("--output", "-o", metavar="FILE", help="Write the rows to a file.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True, max=_LONGEST_S),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Stop the query after this time.",
)
@options.verbose("Show whole texts, whatever the width of the terminal.")
def command(
    directory: str,
    query: str | None,
    lists_tables: bool,
    table: str | None,
    form: str | None,
    output: Path | None,
    timeout_s: float,
) -> None:
    """Query a profiler's output in SQL.

    The tables hold all files of all ranks and cycles; --tables lists them. The column `cycle` distinguishes ranks and cycles,
    and the table `cycles` has the rank of each. QUERY is one query that reads, in DuckDB's SQL; - reads it from standard input.
    A query can reach nothing but the tables. A large result is written row by row.

    Exit codes: 0 answered, 2 usage, or a query that fails, 4 nothing here is known profiler output.
    """
    from perfguard.cli.bar import Bar
    from perfguard.contract.open_tables import open_tables

    if [query is not None, lists_tables, table is not None].count(True) != 1:
        raise UsageError('Ask one thing: perfguard sql DIR "select ...", or --tables, or --columns TABLE.')
    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    form = form or (ending if ending in _FORMATS else "table")
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise UsageError("Parquet is nothing that a terminal shows; write it to a file: --output rows.parquet")
    text = sys.stdin.read(_LONGEST_QUERY + 1) if query == "-" else query
    if text is not None and len(text) > _LONGEST_QUERY:
        raise UsageError(f"The query has more than {_LONGEST_QUERY} characters; write a shorter one.")
    recordings = _recordings(directory, output)
    remedy = f"ask for less, or allow more: --timeout {10 * timeout_s:g}"
    with Bar() as bar, open_tables(recordings, limit_s=timeout_s, remedy=remedy, progress=bar) as found:
        bar.clear()
        if not found.cycles:
            echo_plain("perfguard: nothing here is known profiler output; look at: perfguard check", err=True)
            sys.exit(Exit.NOTHING)
        if not found.is_whole:
            echo_plain(
                "perfguard: not all of it could be read, so rows may be missing; look at: perfguard check", err=True
            )
        _write(found, lambda: _listing(found, table) if text is None else text, form, output)


def _recordings(directory: str, output: Path | None) -> list[tuple[str, Recording, RemoteTree | None]]:
    """Return what is to be read, each with its name; one that is damaged is named on standard error and left out."""
    from perfguard.artifacts.remote import local_path
    from perfguard.capture.replay import recordings_in, replay, replay_tree, trees_in

    path = local_path(directory)
    places = trees_in(directory) if path is None else recordings_in(path)
    if output is not None:
        refuse_clash([one for one in places if isinstance(one, Path)], [output])
    found: list[tuple[str, Recording, RemoteTree | None]] = []
    for place in places:
        try:
            if isinstance(place, Path):
                found.append((place.name or str(place), replay(place, found_in=path), None))
            else:
                found.append((place.shown, replay_tree(place), place))
        except DamagedError as error:
            if len(places) == 1:
                raise
            echo_plain(f"perfguard: {error}", err=True)
    return found


def _listing(found: OpenTables, table: str | None) -> str:
    """Return the query that lists the tables with rows, or the columns of one table."""
    from perfguard.contract.open_tables import meanings
    from perfguard.dialects.queries import common_tables

    known = found.tables.tables
    if table is None:
        told = meanings()
        counted = found.tables.counts()
        # The tables that all profilers fill come first.
        counts = {name: counted[name] for name in dict.fromkeys((*common_tables(), *counted)) if counted[name]}
        rows = [f"({_quoted(name)}, {count}, {_quoted(told.get(name, ''))})" for name, count in counts.items()]
        return f'from (values {", ".join(rows)}) as tables(name, rows, "what it is")'
    if table not in known:
        raise UsageError(f"There is no table {table!r}; {nearest(table, known)}")
    rows = [f"({_quoted(name)}, {_quoted(kind.lower())})" for name, kind in known[table]]
    return f'from (values {", ".join(rows)}) as columns("column", type)'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _write(found: OpenTables, query: Callable[[], str], form: str, output: Path | None) -> None:
    """Answer a query in a copy of this process, and write what it sends."""
    from perfguard.artifacts.readable import QueryError

    try:
        if form == "table":
            _show(found, query, output)
        else:
            _copy(found, query, form, output)
    except QueryError as error:
        raise UsageError(f"The query cannot be answered: {error}") from None


def _show(found: OpenTables, query: Callable[[], str], output: Path | None) -> None:
    from perfguard.reports.rows import table_text
    from perfguard.screen import LOG
    from perfguard.writing import write_atomically

    on = screen() if output is None else LOG

    def ask() -> Iterator[tuple[str, bool]]:
        answer = found.tables.answer(query())
        rows = list(islice(answer.rows, _SHOWN_ROWS))
        yield table_text(answer.columns, rows, on), next(answer.rows, None) is not None

    ((text, are_more),) = found.tables.bounded(ask)
    if output is None:
        echo(text)
    else:
        write_atomically(output, f"{text}\n")
    if are_more:
        echo_plain(f"perfguard: these are the first {_SHOWN_ROWS} rows; all of them: --format csv", err=True)


def _copy(found: OpenTables, query: Callable[[], str], form: str, output: Path | None) -> None:
    """Write the rows in a format for programs, as they come."""
    from perfguard.reports.rows import csv_lines, json_lines
    from perfguard.writing import pieces_of, write_atomically

    def ask() -> Iterator[str]:
        if form == "parquet":
            found.tables.to_parquet(query(), str(found.output))
            return
        answer = found.tables.answer(query())
        lines = (csv_lines if form == "csv" else json_lines)(answer.columns, answer.rows)
        while text := "".join(islice(lines, _PRINTED_AT_ONCE)):
            yield text

    pieces: Iterable[str | bytes] = found.tables.bounded(ask)
    if form == "parquet":
        pieces = chain(pieces, pieces_of(found.output))
    if output is not None:
        write_atomically(output, pieces)
        return
    for piece in pieces:
        if isinstance(piece, str):
            echo_data(piece, is_json=form == "json")
        else:
            sys.stdout.buffer.write(piece)
