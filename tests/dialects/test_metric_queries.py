"""Metrics of dialects: files of queries with headers, and what they return."""

from __future__ import annotations

import pytest

from perfguard.artifacts.tables import batch
from perfguard.dialects.metric_queries import metrics_of, parsed
from perfguard.dialects.queries import all_definitions, folders, named_texts
from perfguard.errors import UsageError
from perfguard.measure import METRICS


@pytest.mark.parametrize(
    "query", [one for folder in folders() for one in metrics_of(folder)], ids=lambda one: one.place
)
def test_every_query_measures_metrics_that_there_are_and_returns_a_column_for_each(query):
    assert query.about
    assert query.metrics.keys() <= METRICS.keys()
    with batch(all_definitions(), named_texts()) as tables:
        tables.add("traces", 0, base_ns=[0], named_ns=[0], written_ns=[0], profile_memory=[0], record_shapes=[0])
        columns = [one["column_name"] for one in tables.rows(f"describe ({query.query}\n)")]
    assert len(columns) == 2 + len(query.metrics)
    assert columns[:2] == ["cycle", "subject"]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("-- metric: a\n-- code: I113", "each key once"),
        ("-- metric: a", "has no needs"),
        ("-- metric: a, b\n-- needs: steps\n-- digits: 3", "a number or - for each metric: '3'"),
        ("-- metric: a\n-- needs: steps\n-- digits: x", "a number or - for each metric: 'x'"),
    ],
)
def test_a_header_that_is_none_is_one_sentence_with_its_line(header, said):
    with pytest.raises(UsageError, match=r"^perf/metrics\.sql:1: ") as found:
        parsed(f"{header}\nselect 1", "perf/metrics.sql")
    assert said in str(found.value)
