"""Pickles of plain values are read as Python reads them; of others nothing is run, whatever they are."""

from __future__ import annotations

import os
import pickle
import pickletools
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.readers import pickled
from perfguard.artifacts.table import Unreadable

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**120), 2**120) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=5) | st.lists(inner, max_size=5).map(tuple)
    | st.dictionaries(st.text(max_size=8).filter(lambda key: key != "frames"), inner, max_size=5),
    max_leaves=40,
)  # fmt: skip


def read(path: Path, raw: bytes) -> Any:
    path.write_bytes(raw)
    return pickled.read_snapshot(path, {}).document


def in_lists(value: Any) -> Any:
    if type(value) is int and 2**63 <= value < 2**64:
        return value - 2**64
    if isinstance(value, dict):
        return {key: in_lists(one) for key, one in value.items()}
    return [in_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=PLAIN, protocol=st.integers(2, pickle.HIGHEST_PROTOCOL), is_optimized=st.booleans())
def test_plain_values_are_those_that_python_reads(tmp_path, value, protocol, is_optimized):
    raw = pickle.dumps(value, protocol)
    assert read(tmp_path / "a.pickle", pickletools.optimize(raw) if is_optimized else raw) == in_lists(value)


def test_what_is_there_twice_is_read_twice_and_frames_are_counted(tmp_path):
    frames = [{"name": "f", "filename": "a.py", "line": line} for line in range(3)]
    blocks = [{"size": 8, "frames": frames}] * 4
    snapshot = {"segments": [{"blocks": blocks, "frames": frames}], "again": blocks}
    found = [{"size": 8, "frames": 3}] * 4
    read_back = read(tmp_path / "a.pickle", pickle.dumps(snapshot))
    assert read_back == {"segments": [{"blocks": found, "frames": 3}], "again": found}


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch evil",)


def _of_itself() -> list[Any]:
    one: list[Any] = []
    one.append(one)
    return one


def _doubled(times: int) -> list[Any]:
    one: list[Any] = [0]
    for _ in range(times):
        one = [one, one]
    return one


def _deep(times: int) -> list[Any]:
    one: list[Any] = []
    for _ in range(times):
        one = [one]
    return one


#: Why a pickle is not read, by what it is.
REFUSED: dict[str, tuple[bytes, str]] = {
    "a call": (pickle.dumps(_Evil()), "opcode"),
    "a call of protocol 0": (b"cos\nsystem\n(S'touch evil'\ntR.", "opcode"),
    "an object of Python": (pickle.dumps(Path("/")), "opcode"),
    "a set": (pickle.dumps({1, 2}), "opcode"),
    "bytes": (pickle.dumps(b"raw"), "opcode"),
    "an id of another process": (b"\x80\x02U\x01aQ.", "opcode"),
    "a buffer from elsewhere": (b"\x80\x05\x97.", "opcode"),
    "nothing": (b"", "cut off"),
    "text": (b"segments: none", "takes a value"),
    "JSON": (b'{"segments": []}', "opcode"),
    "more behind it": (pickle.dumps([]) + b"x", "1 bytes follow"),
    "two values": (b"\x80\x02]].", "does not end with one value"),
    "no value": (b"\x80\x02.", "does not end with one value"),
    "an open mark": (b"\x80\x02](.", "does not end with one value"),
    "values that are not there": (b"\x80\x02a.", "takes a value"),
    "a mark that is not there": (b"\x80\x02]e.", "takes a value"),
    "a mark above its list": (b"\x80\x02]((0e.", "opcode '0'"),
    "a memo that is not there": (b"\x80\x02h\x07.", "takes a value"),
    "a list as an object": (b"\x80\x02]K\x01K\x02s.", "no keys"),
    "an object as a list": (b"\x80\x02}K\x01a.", "no list"),
    "half a pair": (b"\x80\x02}(X\x01\x00\x00\x00au.", "no keys"),
    "a number as a key": (pickle.dumps({1: 2}), "a key is no text"),
    "a list as a key": (b"\x80\x02}]K\x01s.", "a key is no text"),
    "a key twice": (b"\x80\x02}(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00aK\x02u.", "'a' twice"),
    "NaN": (pickle.dumps(float("nan")), "nan is no number"),
    "an infinity": (pickle.dumps(float("-inf")), "-inf is no number"),
    "a long integer": (pickle.dumps(1 << 200), "integer of 26 bytes"),
    "an integer of negative length": (b"\x80\x02\x8b" + struct.pack("<i", -1) + b".", "integer of -1 bytes"),
    "a text of an exabyte": (b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b".", "more than the"),
    "a text that is not UTF-8": (b"\x80\x02X\x01\x00\x00\x00\xff.", "not UTF-8"),
    "a list in itself": (pickle.dumps(_of_itself()), "deep"),
    "lists in lists": (pickle.dumps(_deep(200)), "deep"),
    "a billion of one value": (pickle.dumps(_doubled(14)), ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_pickle_is_refused_and_nothing_of_it_runs(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pickled, "MAX_VALUES", 10_000)
    raw, words = REFUSED[name]
    with pytest.raises(Unreadable) as caught:
        read(tmp_path / "a.pickle", raw)
    assert words in caught.value.message
    assert [one.name for one in tmp_path.iterdir()] == ["a.pickle"]


def test_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(pickled, "MAX_VALUES", 1000)
    read(tmp_path / "a.pickle", pickle.dumps([*range(900)]))
    with pytest.raises(Unreadable, match="1000 values"):
        read(tmp_path / "b.pickle", pickle.dumps([*range(1001)]))
    with pytest.raises(Unreadable, match="1000 values"):
        read(tmp_path / "c.pickle", b"\x80\x04]" + b"\x94" * 1001 + b".")
    monkeypatch.setattr(pickled, "MAX_OPCODES", 1000)
    with pytest.raises(Unreadable, match="1000 opcodes"):
        read(tmp_path / "d.pickle", b"\x80\x02]" + b"q\x00" * 1001 + b".")


def test_a_text_that_is_there_many_times_is_as_large_as_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr(pickled, "MAX_HELD_BYTES", 10_000)
    text = "x" * 100
    read(tmp_path / "a.pickle", pickle.dumps([text] * 100))
    with pytest.raises(Unreadable, match="10000 characters"):
        read(tmp_path / "b.pickle", pickle.dumps([text] * 101))


def test_a_snapshot_that_is_cut_off_anywhere_is_refused(tmp_path):
    raw = pickle.dumps({"segments": [{"size": 2**33, "name": "a", "x": (1.5, None, True)}]})
    for end in range(len(raw)):
        with pytest.raises(Unreadable):
            read(tmp_path / "a.pickle", raw[:end])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_are_read_or_refused(tmp_path, data):
    whole = pickle.dumps(
        {"segments": [{"size": 2**33, "name": "a", "x": (1.5, None, True)}] * 2}, data.draw(st.integers(2, 5))
    )
    at, more = data.draw(st.integers(0, len(whole))), data.draw(st.binary(max_size=6))
    with suppress(Unreadable):
        read(tmp_path / "a.pickle", whole[:at] + more + whole[at + data.draw(st.integers(0, 6)) :])
