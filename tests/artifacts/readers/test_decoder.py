"""Events decoded by types that prove the schema: the same events are refused as by jsonschema, in the same words."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readers import chunks
from perfguard.artifacts.readers.event_schema import compiled
from perfguard.artifacts.readers.events import Events
from perfguard.artifacts.readers.trace import stream_trace
from perfguard.artifacts.schema import SHOWN_VIOLATIONS, row_schema
from perfguard.artifacts.table import Unreadable
from perfguard.dialects.queries import DIALECTS
from perfguard.documents import schema
from perfguard.testing import generate
from perfguard.validator import in_json

TRACES = sorted(
    {
        name
        for one in layouts()
        if one.id in DIALECTS
        for slot in one.slots
        if slot.name == DIALECTS[one.id].slot
        for name in slot.schemas
    }
)
#: What any key may be damaged to.
ODD: list[Any] = [
    None, True, "", "x", 0, -1, 1.5, 5.0, 1e300, 2**63, 2**70, [], [1], ["a"], {}, {"a": 1}, "12.5", "-3", "1e3", "0",
]  # fmt: skip


def events_of(layout: str, pattern: str) -> list[dict[str, Any]]:
    tree = generate(layout, seed=3, steps=3, operators=4)
    for path, content in tree.files.items():
        if Path(path).match(pattern):
            found = json.loads(content)
            return list(found["traceEvents"] if isinstance(found, dict) else found)
    raise AssertionError(f"{layout} has no {pattern}")


def judged(path: Path, name: str) -> tuple[int, list[tuple[int, str, str]], str | None]:
    """Return how many events break the schema, the words for the first of them, and why the rest could not be read."""
    rules = schema(name)
    found = stream_trace(path, compiled(row_schema(rules), rules, {}), lambda events: None)
    words = [(error.row, error.path, error.message) for error in found.errors]
    return found.broken, words, found.unreadable and found.unreadable.message


def by_jsonschema(events: list[Any], name: str) -> tuple[int, list[tuple[int, str, str]]]:
    rules = schema(name)
    row = {**row_schema(rules), "additionalProperties": True}
    validator = Draft202012Validator({**row, "$defs": rules.get("$defs", {})})
    refused = [(row, event) for row, event in enumerate(events) if not validator.is_valid(event)]
    words = [
        (row, error.json_path, in_json(error))
        for row, event in refused[:SHOWN_VIOLATIONS]
        for error in sorted(validator.iter_errors(event), key=lambda error: (error.json_path, in_json(error)))
    ]
    return len(refused), words


@pytest.mark.parametrize("name", TRACES)
def test_the_schema_of_every_trace_compiles(name):
    rules = schema(name)
    found = compiled(row_schema(rules), rules, {})
    assert {kind.ph for kind in found.kinds} == set(row_schema(rules)["properties"]["ph"]["enum"])
    assert not all(kind.is_open for kind in found.kinds)


def samples() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    yield "torch_trace", events_of("pt-torch", "*.pt.trace.json")
    yield "trace_view.pt", events_of("pt-npu", "*trace_view.json")
    yield "trace_view_cpu", events_of("ms-2.5+cpu", "*trace_view.json")
    yield "trace_view.ms", events_of("ms-2.5+", "*trace_view.json")


SAMPLES = dict(samples())


@st.composite
def damaged(draw: st.DrawFn, events: list[dict[str, Any]]) -> list[Any]:
    """Real events, of which some have a key less, a key more, another value, or another kind."""
    found: list[Any] = [json.loads(json.dumps(draw(st.sampled_from(events)))) for _ in range(draw(st.integers(1, 30)))]
    for _ in range(draw(st.integers(0, 6))):
        event = found[draw(st.integers(0, len(found) - 1))]
        key = draw(st.sampled_from([*event, "more"]))
        what = draw(st.sampled_from(["drop", "change", "argument", "kind", "name"]))
        arguments = event.get("args")
        if what == "drop" and key in event:
            del event[key]
        elif what == "argument" and isinstance(arguments, dict) and arguments:
            argument = draw(st.sampled_from([*arguments, "Bytes", "Ev Idx", "name", "Input Dims"]))
            arguments[argument] = draw(st.sampled_from(ODD))
        elif what == "kind":
            event["ph"] = draw(st.sampled_from(["X", "M", "i", "s", "f", "C", "t", "Z"]))
        elif what == "name":
            event["name"] = draw(
                st.sampled_from(["[memory]", "process_name", "process_sort_index", "process_labels", ""])
            )
        else:
            event[key] = draw(st.sampled_from(ODD))
    return found


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=25)
@given(data=st.data(), length=st.integers(300, 3000), form=st.sampled_from([None, 1]))
@pytest.mark.variants(1)
def test_it_refuses_what_jsonschema_refuses_in_its_words(tmp_path_factory, name, data, length, form):
    events = data.draw(damaged(SAMPLES[name]))
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    around = {"schemaVersion": 1, "traceEvents": events} if name == "torch_trace" else events
    path.write_text(json.dumps(around, indent=form))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunks, "CHUNK_BYTES", length)
        count, words, unreadable = judged(path, name)
    assert unreadable is None
    assert (count, words) == by_jsonschema(events, name)


def unknown_keys(events: list[Any], name: str) -> dict[str, int]:
    known = row_schema(schema(name))["properties"]
    found: dict[str, int] = {}
    for row, event in enumerate(events):
        for key in event:
            if key not in known:
                found.setdefault(key, row)
    return found


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=25)
@given(data=st.data(), length=st.integers(300, 3000))
@pytest.mark.variants(1)
def test_a_key_that_the_schema_lacks_is_left_out(tmp_path_factory, name, data, length):
    """The rest of the event is read, whether the key is on a few events or on all of them."""
    events = json.loads(json.dumps(SAMPLES[name][: data.draw(st.integers(1, 40))]))
    more = data.draw(st.sampled_from(["priority", "ts2", "Ph"]))
    for event in data.draw(st.sampled_from([events, events[::7], events[-1:]])):
        event[more] = data.draw(st.sampled_from(ODD))
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    rules = schema(name)
    seen: list[Any] = []

    def consume(some: Events) -> None:
        seen.extend(zip(some.column("name"), some.column("pid"), some.times("ts").ns.tolist(), strict=True))

    kept = []
    for one in (events, [{key: value for key, value in event.items() if key != more} for event in events]):
        path.write_text(json.dumps(one))
        seen.clear()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(chunks, "CHUNK_BYTES", length)
            result = stream_trace(path, compiled(row_schema(rules), rules, {}), consume)
        assert (result.broken, result.unreadable, result.rows) == (0, None, len(events))
        assert result.unknown == unknown_keys(one, name)
        kept.append(list(seen))
    assert kept[0] == kept[1]


def broken_at_random(event: Any, random: Random) -> Any:
    """Return an event with a key less, or with another value under one of its keys."""
    key = random.choice(sorted(event))
    changed = {**event, key: random.choice(ODD)}
    if random.random() < 0.5:
        del changed[key]
    return changed


def sampled(events: list[Any]) -> list[Any]:
    """Return an event of each kind, by phase, category, keys and types of values, and every n-th of all."""
    kinds = {
        json.dumps([event.get("ph"), event.get("cat"), typed(event)], sort_keys=True): event
        for event in reversed(events)
    }
    return [*kinds.values(), *events[:: 1 + len(events) // 200]]


def typed(value: Any) -> Any:
    return {key: typed(one) for key, one in value.items()} if isinstance(value, dict) else type(value).__name__


@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_real_trace_is_judged_as_jsonschema_judges_it_event_by_event(tmp_path, real_traces):
    """As it is, and with some events damaged."""
    random = Random(1)
    for path, name in real_traces:
        text = path.read_bytes()
        found = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)
        events = sampled(found["traceEvents"] if isinstance(found, dict) else found)
        damaged_events = [event if at % 7 else broken_at_random(event, random) for at, event in enumerate(events)]
        for some, is_damaged in ((events, False), (damaged_events, True)):
            copy = tmp_path / "sampled.json"
            copy.write_text(json.dumps({**found, "traceEvents": some} if isinstance(found, dict) else some))
            count, words, unreadable = judged(copy, name)
            assert unreadable is None, path
            assert (count, words) == by_jsonschema(some, name), path
            assert bool(count) == is_damaged, path


@pytest.mark.parametrize("number", ["1e309", "-1e400", "9" * 400])
@pytest.mark.parametrize("name", SAMPLES)
def test_a_number_beyond_every_float_is_refused_and_no_crash(tmp_path, name, number):
    """Under a key that the schema says nothing of, and under one that it knows."""
    for key in ("Sequence of none", "ts"):
        events = json.loads(json.dumps(SAMPLES[name]))
        place = next(at for at, event in enumerate(events) if "args" in event and "ts" in event)
        (events[place]["args"] if key != "ts" else events[place])[key] = "HERE"
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(events).replace('"HERE"', number))
        count, _, unreadable = judged(path, name)
        assert key != "ts" or count == 1 or unreadable is not None


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.variants(2)
def test_of_many_broken_events_a_hundred_are_worded_and_all_are_counted(tmp_path, monkeypatch, name):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 5000)
    events = [json.loads(json.dumps(event)) for event in (SAMPLES[name] * 400)[:400]]
    for event in events[::3]:
        event["pid"] = None
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    count, words, _ = judged(path, name)
    assert (count, words) == by_jsonschema(events, name)
    assert len({row for row, _, _ in words}) == SHOWN_VIOLATIONS < count


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[{"ph": "M", "name": "a", "pid": 1, "tid": 2}, 5]', "an event is not an object: '5'"),
        ('[{"ph": "i", "ph": "i", "name": "a", "pid": 1, "tid": 2, "ts": 1, "s": "t"}]', "'ph' twice"),
        ('[{"ph": "X", "cat": "a", "name": "a", "pid": 1, "tid": 2, "ts": 1, "dur": 1, "dur": 2}]', "'dur' twice"),
        ("[" + "{}," * 50_000 + "{}]", "no event of a trace is that short"),
        ('[{"ph": "i", "name": "\xff", "pid": 1, "tid": 2, "ts": 1, "s": "t"}]', "0xff is not UTF-8"),
        (
            '[{"ph": "i", "name": "a", "pid": 1, "tid": 2, "ts": 1, "s": "t", "args": {"b": "\xff"}}]',
            "0xff is not UTF-8",
        ),
        (
            "[" + '{"ph": "M", "name": "a", "pid": 1, "tid": 2, "args": {"a": ' + "[" * 10_000 + "]" * 10_000 + "}}]",
            "deep",
        ),
    ],
    ids=["number", "key", "another key", "empty", "name", "argument", "nested"],
)
def test_what_is_no_event_is_told(tmp_path, text, says):
    path = tmp_path / "trace.json"
    path.write_bytes(text.encode("latin-1"))
    assert says in (judged(path, "torch_trace")[2] or "")


def test_whole_numbers_may_be_written_as_floats(tmp_path):
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 2.0, "ts": 1, "dur": 2, "args": {"External id": 5.0}}'
    path = tmp_path / "trace.json"
    path.write_text(f"[{event}]")
    seen = []
    rules = schema("torch_trace")
    stream_trace(
        path,
        compiled(row_schema(rules), rules, {}),
        lambda events: seen.append(
            (events.column("tid"), events.arguments("External id"), events.times("dur").ns.tolist())
        ),
    )
    assert seen == [([2], [5], [2000])]


def test_a_place_that_is_no_file_is_told(tmp_path):
    rules = schema("torch_trace")
    found = stream_trace(tmp_path, compiled(row_schema(rules), rules, {}), lambda events: None)
    assert isinstance(found.unreadable, Unreadable)


def test_how_much_was_read_is_told_on_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 2000)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(SAMPLES["trace_view.pt"] * 3))
    told: list[int] = []
    rules = schema("trace_view.pt")
    stream_trace(path, compiled(row_schema(rules), rules, {}), lambda events: None, told.append)
    assert sum(told) == path.stat().st_size
    assert len(told) > 5
