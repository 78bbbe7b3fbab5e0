"""Checks of the user's own: `.sql` files like those of dialects, asked of the readable tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.artifacts.conditions import CONDITIONS
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readable import QueryError, Readable, make_readable
from perfguard.artifacts.tables import Batch, batch
from perfguard.contract.checks import Check, findings_of, parsed
from perfguard.dialects.headers import is_of_a_slot
from perfguard.dialects.queries import SLOTS, all_definitions, named_texts
from perfguard.errors import UsageError, nearest
from perfguard.findings import Finding

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

#: Seconds that one query of a check may take.
LIMIT_S = 60.0
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


def own_checks(paths: Iterable[Path], root: Path) -> tuple[Check, ...]:
    """Return the checks in files, and in all `.sql` files of folders; places are relative to `root`.

    Raises `UsageError` with file and line for a check that is none, whose query names what is not there, or whose name or code
    another one has.
    """
    checks = [check for path in paths for file in _files(path, root) for check in _checks(file, root)]
    if not checks:
        return ()
    _refuse_twice(checks)
    slots = {slot.name for layout in layouts() for slot in layout.slots}
    with batch(all_definitions(), named_texts()) as tables:
        readable = _readable(tables)
        for check in checks:
            _refuse_unknown(check, readable, slots)
            with _at(check):
                _refuse_columns(check, dict(readable.columns(check.query)))
    return tuple(_with_slot(check, slots) for check in checks)


def _files(path: Path, root: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if found := sorted(one for one in path.rglob("*.sql") if one.is_file()):
        return found
    what = "holds no .sql file" if path.is_dir() else "is no file and no folder"
    raise UsageError(f"{_shown(path, root)}, where checks are to be, {what}; name a .sql file, or a folder of them.")


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _checks(file: Path, root: Path) -> tuple[Check, ...]:
    name = _shown(file, root)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} cannot be read as UTF-8: {error}. Mend it, or name another file.") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.startswith("-- check:") and line.replace(" ", "").lower().startswith("--check:"):
            raise UsageError(f"{name}:{number}: a check begins with `-- check: NAME`, and this is nearly so: {line!r}")
    if not (found := parsed(text, name, own=True)):
        raise UsageError(f"{name} holds no check; a check begins with a line `-- check: NAME`.")
    return found


def _refuse_twice(checks: Sequence[Check]) -> None:
    """Refuse two checks of one name or code: reports show nothing else of them."""
    known: dict[str, Check] = {}
    for check in checks:
        for word in (check.name, check.code.name):
            if (other := known.setdefault(word, check)) is not check:
                raise UsageError(f"{check.place}: {word} is what {other.place} has as well; each check has its own.")


def _refuse_unknown(check: Check, tables: Readable, slots: set[str]) -> None:
    """Refuse tables, layouts, conditions and slots that are nowhere: the check would never be asked."""
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
                raise UsageError(f"{check.place}: {key} names {word!r}, which is none; {nearest(word, known)}")


def _refuse_columns(check: Check, columns: Mapping[str, str]) -> None:
    for name in ("cycle", "row"):
        if columns.get(name, "INTEGER") not in _WHOLE:
            raise QueryError(f"its column {name} is {columns[name]}, and must be the whole number that tables have")
    if missing := sorted(({"cycle"} | check.columns) - columns.keys()):
        named = "of a check, which says with it what a row is of" if missing == ["cycle"] else "that its message names"
        raise QueryError(f"it returns no column {', '.join(missing)} {named}; it returns {', '.join(columns)}")


def _with_slot(check: Check, slots: set[str]) -> Check:
    """Give a check the file whose rows it returns, where it does not say so: that of the first table it needs."""
    first = sorted(check.needs[0])[0]
    return replace(check, slot=check.slot or SLOTS.get(first, first if is_of_a_slot(first) else ""))


def broken_own_rules(
    checks: Sequence[Check], tables: Batch, cycles: Mapping[int, Cycle]
) -> Iterator[tuple[int, Finding]]:
    """Ask checks of the cycles in the tables; yield what they say, with the numbers of the cycles.

    Raises `UsageError` with file and line for a query that cannot be answered.
    """
    readable = _readable(tables)
    for check in checks:
        asked = {number: cycle for number, cycle in cycles.items() if check.is_for(cycle)}
        with _at(check):
            if asked and _has_rows(check, readable) and readable.is_any(check.query):
                yield from findings_of(check, readable, asked)


def _readable(tables: Batch) -> Readable:
    connection = tables.cursor()
    make_readable(connection)
    return Readable(connection, limit_s=LIMIT_S, remedy="a check is to be quicker: ask for less")


def _has_rows(check: Check, tables: Readable) -> bool:
    """Whether one table of each that it needs has rows; it may be a view."""
    return all(any(tables.is_any(f"from {table} limit 1") for table in several) for several in check.needs)


@contextmanager
def _at(check: Check) -> Iterator[None]:
    """Say of which query what is raised is."""
    try:
        yield
    except QueryError as error:
        file = check.place.rpartition(":")[0]
        raise UsageError(f"{file}:{check.line + (error.line or 1) - 1}: the query of {check.name}: {error}") from None
    except KeyError as error:
        raise UsageError(f"{check.place}: {check.name} returned the severity {error}, which is none.") from None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{check.place}: the message of {check.name} does not fit a row that it returned: {error}."
        ) from None
