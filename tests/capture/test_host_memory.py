"""Host memory in use, really read: what is kept counts, what is freed does not."""

from __future__ import annotations

import ctypes
import os
import sys

import pytest

from perfguard.capture import controlled
from perfguard.capture.controlled import host_memory_reader

MIB = 1 << 20
KEPT = {
    "one large object": lambda: bytes(MIB),
    "many of 64 KiB": lambda: [bytes(65536) for _ in range(16)],
    # 24 bytes each, in a block of 32, and 8 of the list.
    "floats": lambda: [number / 2 for number in range(MIB // 40)],
    "malloc": lambda: ctypes.create_string_buffer(MIB),
}


@pytest.fixture
def in_use():
    read = host_memory_reader()
    if read is None:
        assert not (sys.platform == "linux" and os.confstr("CS_GNU_LIBC_VERSION") >= "glibc 2.33")
        pytest.skip("malloc is not that of glibc 2.33 or later")
    return read


@pytest.mark.parametrize("what", KEPT)
def test_what_is_kept_counts_until_it_is_freed(in_use, what):
    before = in_use()
    kept = KEPT[what]()
    assert 0.9 * MIB < in_use() - before < 1.2 * MIB
    del kept
    assert abs(in_use() - before) < 0.1 * MIB


class CountsNothing:
    """glibc's own count where another malloc does the work."""

    def __call__(self):
        return controlled._MallocState()


@pytest.mark.parametrize("library", [object(), type("Library", (), {"mallinfo2": CountsNothing()})()])
def test_another_malloc_is_not_guessed_at(monkeypatch, library):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert host_memory_reader() is None
