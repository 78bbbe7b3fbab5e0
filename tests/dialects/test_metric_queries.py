"""Metrics of dialects: files of queries with headers, and what they return."""

from __future__ import annotations

import pytest

from perfguard.artifacts.tables import batch
from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.dialects import metric_queries
from perfguard.dialects.metric_queries import metrics_of, parsed
from perfguard.dialects.queries import all_definitions, folders, named_texts
from perfguard.errors import UsageError
from perfguard.measure import METRICS
from perfguard.measure.metrics import PARTS
from tests.cli import RECORDINGS


@pytest.mark.parametrize(
    "query", [one for folder in folders() for one in metrics_of(folder)], ids=lambda one: one.place
)
def test_every_query_measures_metrics_that_there_are_and_returns_a_column_for_each(query):
    assert query.about
    assert query.metrics.keys() <= METRICS.keys() | PARTS
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


@pytest.mark.parametrize(
    "columns, words",
    [
        ("null::integer as cycle, 'a' as subject", "cycle None and subject a"),
        ("99 as cycle, 'a' as subject", "cycle 99 and subject a"),
        ("cycle, null::text as subject", "cycle 0 and subject None"),
    ],
)
@pytest.mark.variants(1)
def test_a_value_of_nothing_is_an_error_and_not_lost(columns, words, monkeypatch):
    text = f"-- metric: step_time\n-- needs: steps\nselect {columns}, 1.0 as step_time from steps"
    monkeypatch.setattr(metric_queries, "metrics_of", lambda folder: parsed(text, "other/metrics.sql"))
    with pytest.raises(
        UsageError, match=rf"other/metrics\.sql:1: step_time returned {words}: one of them is not there"
    ):
        inspect(replay(RECORDINGS / "torch-mlp"))
