"""Users' checks: `.sql` files like those of the dialects, run on the readable tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from perfguard.artifacts.conditions import CONDITIONS
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readable import QueryError, Readable, make_readable
from perfguard.artifacts.tables import Batch, batch
from perfguard.contract.checks import Check, findings_of, parsed
from perfguard.dialects.headers import is_of_a_slot
from perfguard.dialects.queries import SLOTS, all_definitions, named_texts
from perfguard.errors import UsageError, nearest
from perfguard.findings import Finding
from perfguard.inputs import Malformed, read_bytes, text_of

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

_Found = TypeVar("_Found")

#: Time limit of one query, in seconds, and of planning it.
LIMIT_S, PLAN_S = 60.0, 10.0
#: A file of checks is some pages long.
_MOST_BYTES = 4 * 1024**2
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


def own_checks(paths: Iterable[Path], root: Path) -> tuple[Check, ...]:
    """Return the checks in files, and in all `.sql` files of folders; places are relative to `root`.

    Raises `UsageError` with file and line for a check that cannot be parsed, whose query refers to an unknown table or
    column, or whose name or code is used twice.
    """
    checks = [check for path in paths for file in _files(path, root) for check in _checks(file, root)]
    if not checks:
        return ()
    _refuse_twice(checks)
    slots = {slot.name for layout in layouts() for slot in layout.slots}
    with batch(all_definitions(), named_texts()) as tables:
        readable = _readable(tables, PLAN_S)
        for check in checks:
            _refuse_unknown(check, readable, slots)
        for check, columns in [*_bounded(readable, checks, lambda check: [readable.columns(check.query)])]:
            with _at(check):
                _refuse_columns(check, dict(columns))
    return tuple(_with_slot(check, slots) for check in checks)


def _files(path: Path, root: Path) -> list[Path]:
    if path.is_file():
        return [path]
    try:
        if found := sorted(one for one in path.rglob("*.sql") if one.is_file()):
            return found
    except OSError as error:
        what = f"cannot be searched: {error.strerror}: {error.filename}"
    else:
        what = "has no .sql file" if path.is_dir() else "is no file" if path.exists() else "does not exist"
    raise UsageError(f"checks: {_shown(path, root)} {what}; name a .sql file, or a folder with .sql files.")


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _checks(file: Path, root: Path) -> tuple[Check, ...]:
    name = _shown(file, root)
    try:
        text = text_of(read_bytes(file, most=_MOST_BYTES))
    except (OSError, Malformed) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{name} cannot be read: {reason}. Correct it, or name another file.") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.startswith("-- check:") and line.replace(" ", "").lower().startswith("--check:"):
            raise UsageError(f"{name}:{number}: a check begins with `-- check: NAME`, got {line!r}")
    if not (found := parsed(text, name, own=True)):
        raise UsageError(f"{name} has no check; a check begins with a line `-- check: NAME`.")
    return found


def _refuse_twice(checks: Sequence[Check]) -> None:
    """Refuse two checks with the same name or code: reports identify checks by them."""
    known: dict[str, Check] = {}
    for check in checks:
        for word in (check.name, check.code.name):
            if (other := known.setdefault(word, check)) is not check:
                raise UsageError(
                    f"{check.place}: {word} is already used by {other.place}; each check needs its own name and code."
                )


def _refuse_unknown(check: Check, tables: Readable, slots: set[str]) -> None:
    """Refuse unknown tables, layouts, conditions and slots: the check would never run."""
    needed = [one for several in check.needs for one in several]
    for key, words, known in (
        ("needs", needed, tables.tables),
        ("layouts", check.layouts, [layout.id for layout in layouts()]),
        ("where", filter(None, [check.where]), CONDITIONS),
        ("files", check.files, slots),
        ("in", filter(None, [check.slot]), slots),
    ):
        for word in words:
            if word not in known:
                raise UsageError(f"{check.place}: {key} names {word!r}, which does not exist; {nearest(word, known)}")


def _refuse_columns(check: Check, columns: Mapping[str, str]) -> None:
    for name in ("cycle", "row", "file"):
        if columns.get(name, "INTEGER") not in _WHOLE:
            raise QueryError(f"its column {name} is {columns[name]}, but must be an integer as in the tables")
    if missing := sorted(({"cycle"} | check.columns) - columns.keys()):
        reason = "every check must return it" if missing == ["cycle"] else "the message names it"
        raise QueryError(f"it returns no column {', '.join(missing)} ({reason}); it returns {', '.join(columns)}")


def _with_slot(check: Check, slots: set[str]) -> Check:
    """Return a check with a slot: without `in`, the slot of the first table that it needs."""
    first = sorted(check.needs[0])[0]
    return replace(check, slot=check.slot or SLOTS.get(first, first if is_of_a_slot(first) else ""))


def broken_own_rules(
    checks: Sequence[Check], tables: Batch, cycles: Mapping[int, Cycle]
) -> Iterator[tuple[int, Finding]]:
    """Run checks on the cycles in the tables; yield each finding with the number of its cycle.

    Raises `UsageError` with file and line for a query that fails.
    """
    readable = _readable(tables, LIMIT_S)

    def ask(check: Check) -> Iterator[tuple[int, Finding]]:
        concerned = {number: cycle for number, cycle in cycles.items() if check.is_for(cycle)}
        if concerned and _has_rows(check, readable) and readable.is_any(check.query):
            yield from findings_of(check, readable, concerned)

    for _, found in _bounded(readable, checks, ask):
        yield found


def _bounded(
    readable: Readable, checks: Sequence[Check], ask: Callable[[Check], Iterable[_Found]]
) -> Iterator[tuple[Check, _Found]]:
    """Yield what a function yields of each check that it asks of the tables, in a copy of this process for all of them."""

    def ask_all() -> Iterator[tuple[int, tuple[_Found, ...]]]:
        for number, check in enumerate(checks):
            # Named first: if its query ends the copy, this one knows which it was.
            yield number, ()
            with _at(check):
                for found in ask(check):
                    yield number, (found,)

    check = checks[0]
    try:
        for number, several in readable.bounded(ask_all):
            check = checks[number]
            for found in several:
                yield check, found
    except QueryError:
        with _at(check):
            raise


def _readable(tables: Batch, limit_s: float) -> Readable:
    connection = tables.cursor()
    make_readable(connection)
    return Readable(connection, limit_s=limit_s, remedy="make the check faster: select fewer rows")


def _has_rows(check: Check, tables: Readable) -> bool:
    """Whether the needed tables or views have rows: at least one of each alternative."""
    return all(any(tables.is_any(f"from {table} limit 1") for table in several) for several in check.needs)


@contextmanager
def _at(check: Check) -> Iterator[None]:
    """Turn errors of a query into `UsageError` with the file and line of its check."""
    try:
        yield
    except QueryError as error:
        file = check.place.rpartition(":")[0]
        raise UsageError(f"{file}:{check.line + (error.line or 1) - 1}: the query of {check.name}: {error}") from None
    except KeyError as error:
        raise UsageError(f"{check.place}: {check.name} returned the unknown severity {error}.") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(
            f"{check.place}: the message of {check.name} does not fit a row that it returned: {error}."
        ) from None
