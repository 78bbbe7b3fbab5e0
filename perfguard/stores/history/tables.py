"""The tables of a history, as the newest migration leaves them.

A row is found by the SHA-256 of its identifying text (`key`), because PostgreSQL's index takes no text beyond 2704 bytes, and
a generated operator may have a longer name. Measurements are sorted by series and run, so that a trend is read in one piece.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

#: The newest migration; `database` refuses a later one.
REVISION = "0001"
VERSION_TABLE = "perfguard_history_version"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNSTORABLE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\\\|\\u[0-9a-f]{4}")


class AnyText(TypeDecorator[Any]):
    """Text that any database keeps: NUL (refused by PostgreSQL) and lone surrogates (not in UTF-8) are escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape."""
        return None if value is None else escaped(value)

    def process_result_value(self, value: object, dialect: Dialect) -> str | None:
        """Invert the escape. Raises `TypeError` for anything but a text: a file that lost bits may hold anything."""
        return None if value is None else unescaped(text_of(value))


class Instant(TypeDecorator[Any]):
    """A time, stored as whole microseconds since 1970 in UTC."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Return microseconds."""
        return None if value is None else (value - _EPOCH) // timedelta(microseconds=1)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return a time in UTC."""
        return None if value is None else _EPOCH + timedelta(microseconds=value)


class FiniteNumber(TypeDecorator[Any]):
    """A finite number; raises `TypeError` for anything else, as `AnyText` does."""

    impl = Double
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> float:
        """Return a number; a column that lost its declared type has integers."""
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise TypeError(f"{value!r:.40} is not a number")
        return float(value)


def text_of(value: object) -> str:
    """Return a text; raises `TypeError` for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return value


def escaped(text: str) -> str:
    """Return text without NUL and lone surrogates; `unescaped` inverts it."""
    return _UNSTORABLE.sub(lambda found: "\\\\" if found[0] == "\\" else f"\\u{ord(found[0]):04x}", text)


def unescaped(text: str) -> str:
    """Invert `escaped`."""
    return _ESCAPED.sub(lambda found: "\\" if found[0] == "\\\\" else chr(int(found[0][2:], 16)), text)


METADATA = MetaData()

#: One run of a suite. `digest` is the SHA-256 of its report, so that the same report is one run.
RUNS = Table(
    "perfguard_runs",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("commit", AnyText),
    Column("branch", AnyText),
    Column("release", AnyText),
    Column("committed_at_us", Instant, key="committed_at"),
    Column("finished_at_us", Instant, key="finished_at"),
    Column("added_at_us", Instant, key="added_at", nullable=False),
    Column("ci_url", AnyText),
    Column("perfguard", AnyText, nullable=False),
    sqlite_autoincrement=True,
)


def _keyed(name: str, *columns: Column[Any]) -> Table:
    """Return a table whose rows are found by a hash."""
    key = Column("key", String(64), nullable=False, unique=True)
    return Table(name, METADATA, Column("id", Integer, primary_key=True), key, *columns)


WORKLOADS = _keyed("perfguard_workloads", Column("name", AnyText, nullable=False))
#: Documents (JSON) that many rows share: a fingerprint, an environment, a test's own tolerances.
FACTS = _keyed("perfguard_facts", Column("document", AnyText, nullable=False))

#: The result of one workload in one run. `finding` is the message of the worst one.
OUTCOMES = Table(
    "perfguard_outcomes",
    METADATA,
    Column("run_id", Integer, ForeignKey("perfguard_runs.id"), primary_key=True),
    Column("workload_id", Integer, ForeignKey("perfguard_workloads.id"), primary_key=True),
    Column("outcome", String(16), nullable=False),
    Column("finding", AnyText),
    Column("measurements", Integer, nullable=False),
    Column("fingerprint_id", Integer, ForeignKey("perfguard_facts.id")),
    Column("environment_id", Integer, ForeignKey("perfguard_facts.id")),
    Column("tolerance_id", Integer, ForeignKey("perfguard_facts.id")),
    sqlite_with_rowid=False,
)

#: Numbers that are comparable over time: one metric of one subject, recorded the same way; times on one `machine` (else empty).
SERIES = _keyed(
    "perfguard_series",
    Column("workload_id", Integer, ForeignKey("perfguard_workloads.id"), nullable=False, index=True),
    Column("metric", AnyText, nullable=False),
    Column("subject", AnyText, nullable=False),
    Column("unit", AnyText, nullable=False),
    Column("fingerprint_id", Integer, ForeignKey("perfguard_facts.id")),
    Column("machine", AnyText, nullable=False),
)

#: `run_id` is deliberately not a foreign key: its index would double the table, and without one each deleted run would be
#: searched for in the whole table. Adding and deleting keep both tables consistent in one transaction.
MEASUREMENTS = Table(
    "perfguard_measurements",
    METADATA,
    Column("series_id", Integer, ForeignKey("perfguard_series.id"), primary_key=True, autoincrement=False),
    Column("run_id", Integer, primary_key=True, autoincrement=False),
    Column("value", FiniteNumber, nullable=False),
    sqlite_with_rowid=False,
)
