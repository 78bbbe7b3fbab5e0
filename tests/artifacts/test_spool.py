"""A spool gives back what was put into it, in the order of its first column, whether it is in memory or on the disk."""

from __future__ import annotations

import itertools
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.artifacts import spool
from perfguard.artifacts.spool import Spool


@given(
    batches=st.lists(st.lists(st.integers(-50, 50), max_size=40), max_size=12),
    in_memory=st.sampled_from([1, 7, 30, 10_000]),
    at_once=st.sampled_from([1, 20, 10_000]),
)
def test_rows_come_back_in_order_and_equal_keys_together(batches, in_memory, at_once):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spool, "ROWS_IN_MEMORY", in_memory)
        patched.setattr(spool, "EVERY", 4)
        rows = Spool({"key": "i8", "place": "i4"})
        expected = []
        for batch in batches:
            places = range(len(expected), len(expected) + len(batch))
            rows.add(key=np.array(batch, np.int64), place=np.array(places, np.int32))
            expected += zip(batch, places, strict=True)
        parts = [
            list(zip(part["key"].tolist(), part["place"].tolist(), strict=True)) for part in rows.in_order(at_once)
        ]
        rows.close()
    assert sorted(one for part in parts for one in part) == sorted(expected)
    assert [key for part in parts for key, _ in part] == sorted(key for key, _ in expected)
    edges = [(before[-1][0], after[0][0]) for before, after in itertools.pairwise(parts)]
    assert all(before < after for before, after in edges)


def test_it_can_be_gone_through_again(monkeypatch):
    monkeypatch.setattr(spool, "ROWS_IN_MEMORY", 10)
    rows = Spool({"key": "i8"})
    for start in range(0, 100, 9):
        rows.add(key=np.arange(start, start + 9)[::-1])
    assert [sum(len(part["key"]) for part in rows.in_order()) for _ in range(3)] == [108, 108, 108]
    assert rows.height == 108


def test_nothing_comes_back_of_nothing():
    rows = Spool({"key": "i8", "word": "i4"})
    rows.add(key=np.empty(0, np.int64), word=np.empty(0, np.int32))
    assert list(rows.in_order()) == []


def test_few_rows_need_no_file(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    rows = Spool({"key": "i8"})
    rows.add(key=np.arange(1000))
    assert [len(part["key"]) for part in rows.in_order()] == [1000]
