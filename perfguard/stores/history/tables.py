"""The tables of a history, as the newest migration leaves them.

Times are whole microseconds since 1970 in UTC. A name is found by the SHA-256 of what identifies it, because PostgreSQL's
index takes no text beyond 2704 bytes, and a generated operator may be called longer. Measurements lie by series and run,
so that a trend is read in one piece.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, MetaData, String, Table, Text, TypeDecorator

if TYPE_CHECKING:
    from sqlalchemy import Dialect

    _TextDecorator = TypeDecorator[str]
else:
    _TextDecorator = TypeDecorator

#: The newest migration; `database` refuses what it does not know.
REVISION = "0001"
VERSION_TABLE = "perfguard_history_version"

_KEY = String(64)
_UNSTORABLE = re.compile("[\\\\\x00\ud800-\udfff]")
_ESCAPED = re.compile(r"\\\\|\\u[0-9a-f]{4}")


class AnyText(_TextDecorator):
    """Text that any database keeps: what PostgreSQL refuses (NUL) and UTF-8 has not (lone surrogates) is escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape."""
        return None if value is None else escaped(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        """Give back what was escaped."""
        return None if value is None else unescaped(text_of(value))


def text_of(value: object) -> str:
    """Return a text; raises `TypeError` for what is none: a file that lost bits may hold anything."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def number_of(value: object) -> float:
    """Return a finite number; raises as `text_of` does."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{value!r:.40} is no number")
    # A column whose declared type was lost gives integers.
    return float(value)


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
    Column("digest", _KEY, nullable=False, unique=True),
    Column("commit", AnyText),
    Column("branch", AnyText),
    Column("release", AnyText),
    Column("committed_at_us", BigInteger),
    Column("finished_at_us", BigInteger),
    Column("added_at_us", BigInteger, nullable=False),
    Column("ci_url", AnyText),
    Column("perfguard", AnyText, nullable=False),
    sqlite_autoincrement=True,
)

WORKLOADS = Table(
    "perfguard_workloads",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", _KEY, nullable=False, unique=True),
    Column("name", AnyText, nullable=False),
)

#: What belongs to many rows: a fingerprint, an environment, a test's own tolerances; `document` is JSON.
FACTS = Table(
    "perfguard_facts",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", _KEY, nullable=False, unique=True),
    Column("document", AnyText, nullable=False),
)

#: What one workload came to in one run. `finding` is the worst one, in words.
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

#: What may be compared over time: one metric of one subject, recorded alike, and for times on one machine (else empty).
SERIES = Table(
    "perfguard_series",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", _KEY, nullable=False, unique=True),
    Column("workload_id", Integer, ForeignKey("perfguard_workloads.id"), nullable=False, index=True),
    Column("metric", AnyText, nullable=False),
    Column("subject", AnyText, nullable=False),
    Column("unit", AnyText, nullable=False),
    Column("fingerprint_id", Integer, ForeignKey("perfguard_facts.id")),
    Column("machine", AnyText, nullable=False),
)

#: `run_id` refers to nothing on purpose: an index for it would double the table, and without one every run that is pruned
#: would be looked for in all of it. What adds and prunes keeps both tables in one transaction.
MEASUREMENTS = Table(
    "perfguard_measurements",
    METADATA,
    Column("series_id", Integer, ForeignKey("perfguard_series.id"), primary_key=True, autoincrement=False),
    Column("run_id", Integer, primary_key=True, autoincrement=False),
    Column("value", Double, nullable=False),
    sqlite_with_rowid=False,
)
