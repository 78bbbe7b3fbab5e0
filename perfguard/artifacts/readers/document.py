"""Plain JSON documents and the profilers' own logs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, decode_text, read_bytes
from perfguard.artifacts.table import Unreadable

#: Larger documents and traces are not searched for repeated keys: the search makes every object a Python object.
MAX_SEARCHED_BYTES = 64 * 1024**2
#: The keys of an object with more than so many are not counted in the text: each count reads all of it.
_COUNTED_KEYS = 64
#: The number of bytes that are quoted before and after an error in JSON.
_AROUND = 40
#: The first half of a surrogate pair without its second; the decoder only reports truncated data.
_HALF_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")
_JSON_BYTE = re.compile(r" \(byte ([0-9]+)\)\Z")
#: Larger logs are refused: MindSpore and torch_npu begin another file at 10 MB.
MAX_LOG_BYTES = 16 * 1024**2
#: Each message is a line of at least 40 characters, so the largest log has fewer.
_MAX_LOG_MESSAGES = 500_000
#: The largest size and number of values of a document: each value is a Python object, an empty one of 64 bytes.
MAX_JSON_BYTES = 128 * 1024**2
MAX_VALUES = 4_000_000
_BEFORE_VALUES = (b",", b"[", b"{")
#: Keys of an event that its arguments do not use: to find a repeated one, count them in the text.
UNREPEATED = ("ph", "ts", "dur", "pid", "tid", "cat")
_SPACED_COLON = re.compile(rb'"\s++:')


def read_json(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read one JSON document. Raises `Unreadable`, also for NaN, Infinity, trailing text and a repeated key in an object."""
    import msgspec

    raw = read_bytes(path, limit=MAX_JSON_BYTES)
    if (values := sum(map(raw.count, _BEFORE_VALUES))) > MAX_VALUES:
        raise Unreadable(f"it has about {values} values, more than the {MAX_VALUES} that are read")
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed("it is not JSON", raw, error) from error
    if not _has_every_key(document, raw):
        # The search for keys needs as much memory again.
        del document
        refuse_repeated_keys(raw)
        document = msgspec.json.decode(raw)
    return Content(document=document)


def _has_every_key(document: Any, raw: bytes) -> bool:
    """Whether a document certainly has all keys of its text: as many as there are colons after quotation marks."""
    if _SPACED_COLON.search(raw):
        return False
    keys, waiting = 0, [document]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            keys += len(one)
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return keys == raw.count(b'":')


def place_of(error: Exception) -> int | None:
    """Return the byte at which a decoder reports an error."""
    found = _JSON_BYTE.search(str(error))
    return int(found[1]) if found else None


def malformed(what: str, raw: bytes, error: Exception) -> Unreadable:
    """Return the message for invalid JSON, with the line and the text around the error if the decoder reports a byte.

    `error` is msgspec's; its text names the byte, or that the data is truncated, or neither of a text that is not UTF-8.
    """
    if not raw.strip():
        return Unreadable(f"{what}: the file is empty")
    found = _JSON_BYTE.search(str(error))
    if found is None and (half := _HALF_PAIR.search(raw)):
        line = raw.count(b"\n", 0, half.start()) + 1
        return Unreadable(f"{what}: {half[0].decode()} is half of a surrogate pair", f":{line}")
    if found is None and "truncated" in str(error):
        end = raw[-4 * _AROUND :].decode("utf-8", "replace").splitlines()[-1][-_AROUND:]
        return Unreadable(f"{what}: the file ends in the middle of it, after {end!r}")
    if found is None:
        try:
            decode_text(raw)
        except Unreadable as broken:
            return Unreadable(f"{what}: {broken.message}", broken.place)
        return Unreadable(f"{what}: {error}")
    at = int(found[1])
    reason = f"{what}: {str(error)[: found.start()]}"
    before = raw[max(0, at - _AROUND) : at].decode("utf-8", "replace").splitlines()
    after = raw[at : at + _AROUND].decode("utf-8", "replace").splitlines()
    if before:
        reason += f" after {before[-1]!r}"
    if after:
        reason += f", before {after[0]!r}"
    line = raw[:at].count(b"\n") + 1
    return Unreadable(reason, f":{line}")


def refuse_repeated_keys(raw: bytes, decoded: Mapping[str, Any] | None = None) -> None:
    """Raise `Unreadable` if an object has a key twice: then its meaning is unpredictable (RFC 8259, section 4).

    Given the `decoded` outermost object, only its own keys are checked.
    """
    if (
        decoded is not None
        and len(decoded) <= _COUNTED_KEYS
        and not any(raw.count(json.dumps(key).encode()) > 1 for key in decoded)
    ):
        return
    if len(raw) <= MAX_SEARCHED_BYTES:
        json.loads(raw, object_pairs_hook=_unique if decoded is None else _unique_among(frozenset(decoded)))


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        count = Counter(name for name, _ in pairs)
        repeated = next(name for name, times in count.items() if times > 1)
        raise Unreadable(f"an object has the key {repeated[:80]!r} twice")


def _unique_among(outermost: frozenset[str]) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> None:
        if {name for name, _ in pairs} == outermost:
            _unique(pairs)

    return unique


def read_log(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read the messages of a log, each with the number of its line. Raises `Unreadable` for more than a writer leaves."""
    text = decode_text(read_bytes(path, limit=MAX_LOG_BYTES))
    messages = tuple(islice(_messages(text), _MAX_LOG_MESSAGES + 1))
    if len(messages) > _MAX_LOG_MESSAGES:
        raise Unreadable(f"it has more than the {_MAX_LOG_MESSAGES} messages that are read of a log")
    return Content(document=messages)


def _messages(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines that can be messages: `[time] [LEVEL] [file.py:line] message`."""
    number, seen = 1, 0
    while (at := text.find("] ", seen)) >= 0:
        start = text.rfind("\n", seen, at) + 1 or seen
        number += text.count("\n", seen, start)
        end = text.find("\n", at)
        seen = len(text) if end < 0 else end
        yield number, text[start:seen].rstrip("\r")
