"""Metrics: queries that return what the files of cycles measure; each query runs once for all cycles of a batch.

A `metrics.sql` has queries with headers (`perfguard.dialects.headers`) that begin with `-- metric:`. Keys of their own:

* `metric`: its name, or several (`a, b`) that one query returns;
* `digits`: to how many decimals the numbers of each are rounded, or `-`; without it they are left as they are, and a single
  number that is whole is an integer;
* `unless`: slots that must not have been read: they say the same.

A query returns `cycle`, `subject`, and a column for each metric: a number, a list of samples or names, or a map; null for what
was not measured. What a metric means, its unit and which direction is good `perfguard.measure` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from sys import intern
from typing import TYPE_CHECKING, Any

from perfguard.dialects.headers import KEYS, Entry, HeadedQuery, entries, words
from perfguard.dialects.queries import by_folder, sql
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.artifacts.tables import Batch
    from perfguard.dialects.cycle import Cycle

_KEYS = frozenset((*KEYS, "metric", "digits", "unless"))
#: (subject, value or samples), by metric.
Values = dict[str, list[tuple[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuery(HeadedQuery):
    """One query with its header."""

    #: The metrics that it returns, with the decimals of each.
    metrics: Mapping[str, int | None]
    unless: frozenset[str]

    def is_for(self, cycle: Cycle) -> bool:
        """Whether it is measured for a cycle."""
        return self.unless.isdisjoint(cycle.artifacts) and HeadedQuery.is_for(self, cycle)


def parsed(text: str, name: str) -> tuple[MetricQuery, ...]:
    """Return the queries of a file. Raises `UsageError` with file and line for a wrong one."""
    return tuple(map(_query, entries(text, name, "metric", _KEYS, ("metric", "needs"))))


def _query(entry: Entry) -> MetricQuery:
    names = [one.strip() for one in entry.header["metric"].split(",")]
    digits = [one.strip() for one in entry.header.get("digits", ",".join("-" for _ in names)).split(",")]
    if len(digits) != len(names) or not all(one == "-" or one.isdecimal() for one in digits):
        raise UsageError(f"{entry.place}: `digits` is a number or - for each metric: {entry.header['digits']!r}")
    metrics = {name: None if one == "-" else int(one) for name, one in zip(names, digits, strict=True)}
    unless = words(entry.header.get("unless", ""))
    return MetricQuery(name=entry.header["metric"], metrics=metrics, unless=unless, **entry.common)


@cache
def metrics_of(folder: str) -> tuple[MetricQuery, ...]:
    """Return the queries for metrics of a folder, in their order."""
    return parsed(sql(folder, "metrics"), f"{folder}/metrics.sql")


def measured(batch: Batch, cycles: Mapping[int, Cycle]) -> dict[int, Values]:
    """Ask the metrics of their dialects of the cycles in the tables; return what was measured of each, by its number."""
    found: dict[int, Values] = {}
    for query, of_dialect in ((query, of) for folder, of in by_folder(cycles).items() for query in metrics_of(folder)):
        requested = {number for number, cycle in of_dialect.items() if query.is_for(cycle)}
        if not requested or not query.has_rows(batch):
            continue
        for cycle, subject, *values in batch.execute(query.query):
            if (cycle not in cycles and (cycle,) not in batch.execute("select cycle from cycles")) or subject is None:
                raise UsageError(
                    f"{query.place}: {query.name} returned cycle {cycle} and subject {subject}: one of them is not there, so "
                    "its value would be lost. Return both of each row, as the tables have them, or uninstall its package."
                )
            for (metric, digits), value in zip(query.metrics.items(), values, strict=True):
                if value is not None and cycle in requested:
                    own = found.setdefault(cycle, {}).setdefault(metric, [])
                    # A thousand ranks have the same subjects.
                    own.append((intern(subject), _rounded(value, digits)))
    return found


def _rounded(value: Any, digits: int | None) -> Any:
    if isinstance(value, dict) or (isinstance(value, list) and (not value or isinstance(value[0], str))):
        return value
    if isinstance(value, list):
        return tuple(value if digits is None else (round(one, digits) for one in value))
    if digits is not None:
        return round(value, digits)
    return int(value) if isinstance(value, float) and value.is_integer() else value
