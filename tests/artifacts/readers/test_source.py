"""Files that are read whole, unpacked."""

from __future__ import annotations

import gzip

import pytest

from perfguard.artifacts.readers.source import Source, read_plain
from perfguard.artifacts.table import Unreadable

TEXT = bytes(range(250)) * 2


@pytest.mark.parametrize("most, is_given", [(1000, True), (500, True), (499, False), (0, False)])
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_file_is_given_unpacked_as_far_as_it_fits(tmp_path, most, is_given, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT) if name.endswith("gz") else TEXT)
    assert read_plain(path, most_bytes=most) == (TEXT if is_given else None)


def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b"\0" * 50_000_000))
    with pytest.raises(Unreadable, match="unpacks to more than 200 times"):
        read_plain(path, most_bytes=100_000_000)


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    path.write_bytes(TEXT)
    monkeypatch.setattr(Source, "read_into", None)
    assert read_plain(path, most_bytes=len(TEXT) - 1) is None
