"""Chunks: whatever the length of a chunk, the events are those of the whole document; what breaks it is said with the byte."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.artifacts.readers import chunks
from perfguard.artifacts.readers.chunks import Chunk, Chunks
from perfguard.artifacts.readers.decoder import meaning
from perfguard.artifacts.readers.source import Source
from perfguard.artifacts.table import Unreadable


def decode(chunk: Chunk) -> list[Any]:
    """Decode as the decoder of events does, without a schema."""
    try:
        return msgspec.json.decode(bytes(chunk.view), type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise meaning(error) from error


def read(path: Path) -> tuple[list[Any], dict[str, Any], list[int]]:
    found: list[Any] = []
    parts = []
    with Source.open(path) as source:
        pieces = Chunks(source)
        for events in pieces.decoded(decode):
            found += events
            parts.append(len(events))
        source.refuse_growth()
        return found, pieces.document, parts


def broken(path: Path) -> tuple[list[Any], str]:
    """Return the events that came before the trace broke, and what is said of it."""
    found: list[Any] = []
    with Source.open(path) as source:
        pieces = Chunks(source)
        with pytest.raises(Unreadable) as error:  # noqa: PT012 - all of it may raise
            for events in pieces.decoded(decode):
                found += events
            source.refuse_growth()
            _ = pieces.document
    return found, error.value.message


#: Texts that look like what is searched for: the ends of objects, the beginnings of events.
hostile = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["traceEvents", '},{"name":', '}, {"ph":"X"', "]}", '"traceEvents":[', "\\", '\\"', "}]", "[{", "\u2028", "é😀"]
    ),
)
values = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.none(), hostile),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(hostile, inner, max_size=3)),
    max_leaves=6,
)
nested = st.lists(st.fixed_dictionaries({"name": hostile}), min_size=2, max_size=3)
events = st.lists(
    st.fixed_dictionaries({"ph": st.just("X"), "name": hostile}, optional={"args": values, "more": nested}), max_size=12
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[list[Any], dict[str, Any] | None, str]:
    """Events, the object around them (None: a bare array), and the text."""
    found = draw(events)
    around = draw(
        st.one_of(st.none(), st.dictionaries(hostile.filter(lambda key: key != "traceEvents"), values, max_size=3))
    )
    form = draw(st.sampled_from([{"indent": None}, {"indent": 2}, {"indent": 0}, {"separators": (",", ":")}]))
    if around is None:
        return found, None, json.dumps(found, **form)
    keys = list(around)
    place = draw(st.integers(0, len(keys)))
    before = {key: around[key] for key in keys[:place]}
    behind = {key: around[key] for key in keys[place:]}
    return found, around, json.dumps({**before, "traceEvents": found, **behind}, **form)


@settings(max_examples=300)
@given(document=documents(), length=st.integers(16, 400), is_packed=st.booleans())
@pytest.mark.exhaustive
def test_every_cut_gives_the_events_of_the_document(tmp_path_factory, document, length, is_packed):
    found, around, text = document
    folder = tmp_path_factory.mktemp("trace")
    path = folder / ("trace.json.gz" if is_packed else "trace.json")
    path.write_bytes(gzip.compress(text.encode()) if is_packed else text.encode())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunks, "CHUNK_BYTES", length)
        assert read(path)[:2] == (found, around or {})


def trace(count: int, **around: Any) -> str:
    return json.dumps({**around, "traceEvents": [{"ph": "X", "name": f"operator {n}", "ts": n} for n in range(count)]})


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 200)


@given(st.integers(30, 2000))
def test_a_trace_that_is_cut_off_says_at_which_byte_and_keeps_what_came_before(tmp_path_factory, length):
    text = trace(100, schemaVersion=1)[:length]
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunks, "CHUNK_BYTES", 200)
        found, message = broken(path)
    assert f"byte {len(text)}" in message or "has no array traceEvents" in message or "ends in the middle" in message
    whole = text.count("}")
    assert whole - 1 <= len(found) <= whole
    assert found == json.loads(trace(100))["traceEvents"][: len(found)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1, 2]\n[3]", "a second document begins at byte 7"),
        ('[{"ph": "X"}] {"ph": "X"}', "a second document begins at byte 14"),
        ('[{"ph": "X"}] x', "more follows at byte 14"),
        (trace(3) + trace(3), f"its document has ended, and a second document begins at byte {len(trace(3))}"),
        (trace(3) + "x", f"more follows at byte {len(trace(3))}"),
        ('{"a": 1}', "has no array traceEvents"),
        ('{"traceEvents": {"ph": 1}}', "has no array traceEvents"),
        ("", "empty"),
        ("   ", "empty"),
        ("nothing", "not a JSON trace"),
        ('[{"ph": "X",}]', "at byte"),
        ('[{"ph": "X"} {"ph": "X"}]', "at byte"),
        ('[{"ph": "X"},]', "at byte"),
        ('{"traceEvents": [{"ph": "X"}], "a": 1, "a": 2}', "twice"),
        ('{"traceEvents": [{"ph": "X"}], ' + "".join(f'"{n}": 1, ' for n in range(100)) + '"99": 2}', "twice"),
        ('{"traceEvents": [{"ph": "X"}], "more":', "around its events"),
    ],
)
def test_what_is_no_trace_is_told(tmp_path, text, says):
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert says in broken_words(path)


def broken_words(path: Path) -> str:
    def any_value(chunk: Chunk) -> list[Any]:
        try:
            return msgspec.json.decode(bytes(chunk.view), type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError) as error:
            raise meaning(error) from error

    with Source.open(path) as source:
        pieces = Chunks(source)
        with pytest.raises(Unreadable) as error:  # noqa: PT012
            list(pieces.decoded(any_value))
            _ = pieces.document
    return error.value.message


@pytest.mark.usefixtures("small_chunks")
def test_a_place_in_the_middle_that_is_no_json_keeps_what_came_before(tmp_path):
    path = tmp_path / "trace.json"
    text = trace(100)
    path.write_text(text.replace('"operator 70"', '"operator 70'))
    found, message = broken(path)
    assert "at byte" in message
    assert 60 <= len(found) <= 70


@pytest.mark.usefixtures("small_chunks")
def test_gzip_of_many_members_is_one_trace(tmp_path):
    text = trace(100).encode()
    path = tmp_path / "trace.json.gz"
    path.write_bytes(b"".join(gzip.compress(text[at : at + 500]) for at in range(0, len(text), 500)))
    assert len(read(path)[0]) == 100


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda packed: packed[:-8] + b"\0" * 8, "not whole gzip"),
        (lambda packed: packed[:-4] + b"\0" * 4, "not whole gzip"),
        (lambda packed: packed[:-8], "not whole gzip"),
        (lambda packed: packed[: len(packed) // 2], "not whole gzip"),
        (lambda packed: b"no gzip at all", "not whole gzip"),
        (lambda packed: b"", "empty"),
    ],
)
def test_broken_gzip_is_told(tmp_path, damage, says):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(damage(gzip.compress(trace(2000).encode())))
    assert says in broken(path)[1]


def test_what_unpacks_to_far_more_than_a_trace_does_is_refused(tmp_path):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 40_000_000 + b"]"))
    assert "times its size" in broken(path)[1]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(("change", "word"), [(b" ", "grew"), (None, "shrank")])
def test_a_file_that_somebody_still_writes_is_refused(tmp_path, change, word):
    path = tmp_path / "trace.json"
    path.write_text(trace(100))
    with Source.open(path) as source:
        pieces = Chunks(source)
        for number, _ in enumerate(pieces.decoded(decode)):
            if number == 0 and change:
                with path.open("ab") as file:
                    file.write(change)
        if not change:
            path.write_text("[]")
        with pytest.raises(Unreadable, match=word):
            source.refuse_growth()


def test_one_long_event_among_short_ones_does_not_make_the_chunks_long(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)
    long = {"ph": "X", "name": "x" * 20_000}
    found = [
        *[{"ph": "X", "name": str(n)} for n in range(500)],
        long,
        *[{"ph": "X", "name": str(n)} for n in range(500)],
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(found))
    events, _, parts = read(path)
    assert events == found
    assert len(parts) > 15


def test_an_event_longer_than_is_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(chunks, "MAX_EVENT_BYTES", 10_000)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([{"ph": "X", "name": "a"}, {"ph": "X", "name": "x" * 50_000}]))
    assert "longer than is read" in broken(path)[1]


@pytest.mark.parametrize("seed", range(20))
def test_a_gzip_trace_with_damaged_bytes_is_a_finding_wherever_they_are(tmp_path, seed):
    """Its own library has errors that are no OSError: one of them came through once."""
    import gzip
    import random
    import shutil

    from perfguard.capture.replay import replay
    from perfguard.gate import examine
    from perfguard.judge.tolerance import Policy
    from tests.facts import RECORDINGS

    shutil.copytree(RECORDINGS / "torch-mlp", tmp_path / "r")
    path = next((tmp_path / "r" / "profiler").rglob("*.json"))
    packed = bytearray(gzip.compress(path.read_bytes(), mtime=0))
    drawn = random.Random(seed)
    for _ in range(1 + 100 * (seed % 2)):
        packed[drawn.randrange(10, len(packed))] ^= 1 + drawn.randrange(255)
    path.with_name(path.name + ".gz").write_bytes(packed)
    path.unlink()
    verdict = examine(replay(tmp_path / "r"), workload="a", policy=Policy())
    assert [one.code.name for one in verdict.findings if one.invalidates][:1] == ["S101"]
