"""Times: decimal texts of microseconds, many at once, to exact nanoseconds in int64.

A float64 holds UNIX microseconds to 0.25 us only, so the digits are added up as integers: a millisecond for the 10 000 times of
a chunk. `artifacts.table.nanoseconds` does the same for columns of cells; it takes longer, and reads the unusual texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfguard.artifacts.readers.event_schema import keywords
from perfguard.artifacts.table import nanoseconds

#: Longest plain text: sign, 16 digits, point, 3 decimals, and some room.
_WIDTH = 24
_COMMA, _QUOTE, _MINUS, _POINT, _ZERO, _EIGHT = b',"-.08'
#: With up to this many digits before the point, the nanoseconds fit an int64; with one more, if the first digit is at most 8.
_DIGITS = 15
#: Decimals of a microsecond that are whole nanoseconds, and the most decimals that are read; floats have up to 17 digits.
_DECIMALS, _MOST_DECIMALS = 3, 18

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

_ZEROS = np.uint64(0x3030303030303030)
#: Masks of the bytes in front of a text in its window of 16, by their number: for the first and the second eight bytes.
_BEFORE = tuple(
    np.array([(1 << 8 * min(max(count - 8 * part, 0), 8)) - 1 for count in range(_DIGITS + 2)], np.uint64)
    for part in (0, 1)
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """Nanoseconds of each text. `is_plain`: the text has only digits, and at most one point and three decimals.

    `is_known` is False for a text that is not a number, or too large for an int64; its value is 0. Of plain texts, `is_quoted`
    marks JSON strings, `digits` counts the digits before the point, and `first` is the first digit.
    """

    ns: Ints
    is_plain: Flags
    is_known: Flags
    is_quoted: Flags
    digits: Ints
    first: Ints

    def at(self, places: Ints) -> Times:
        """Return some of the times, without the facts about their texts."""
        return known_times(self.ns[places], self.is_known[places])


_COLUMNS = ("ns", "is_plain", "is_known", "is_quoted", "digits", "first")


def times_of(texts: Sequence[Any]) -> Times:
    """Read JSON numbers or strings (bytes-like) as microseconds. Digits beyond the third decimal are rounded half to even."""
    count = len(texts)
    joined = bytes(_WIDTH) + b",".join(texts) + b",   "
    letters = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(letters == _COMMA)
    if len(ends) != count:
        # A string contains a comma: treat all texts as unusual.
        unread = no_times(count)
        unread.is_quoted[:] = [bytes(text)[:1] == b'"' for text in texts]
        return _unusual(texts, unread, np.ones(count, np.bool_))
    starts = np.concatenate(([_WIDTH], ends[:-1] + 1))
    is_quoted = letters[starts] == _QUOTE
    starts, ends = starts + is_quoted, ends - is_quoted
    odd = is_quoted & (letters[ends] != _QUOTE)
    is_negative = letters[starts] == _MINUS
    starts = starts + is_negative
    # The point is before three, two or one decimals, or there is none.
    decimals = np.zeros(count, np.int64)
    for place in (1, 2, 3):
        decimals[(letters[ends - place - 1] == _POINT) & (ends - place - 1 > starts)] = place
    if (more := np.flatnonzero((decimals == 0) & (ends - starts > _DECIMALS + 2))).size:
        decimals[more] = _long_decimals(letters, starts[more], ends[more])
    point = ends - decimals - (decimals > 0)
    digits = point - starts
    odd |= (digits < 1) | (digits > _DIGITS + 1)
    # Windows of the sixteen bytes before each point, without copying.
    windows: Any = np.ndarray((len(letters) - _DIGITS, _DIGITS + 1), np.uint8, joined, strides=(1, 1))
    words = windows[point - _DIGITS - 1].view(np.uint64)
    missing = np.clip(_DIGITS + 1 - digits, 0, _DIGITS + 1)
    value = np.zeros(count, np.int64)
    for part in (0, 1):
        # Bytes in front of the text count as zeros.
        before = _BEFORE[part][missing]
        word = (words[:, part] & ~before) | (_ZEROS & before)
        odd |= ~_all_digits(word)
        value = value * 10**8 + _eight_digits(word)
    ns = value * 1000
    for place, weight in ((1, 100), (2, 10), (3, 1)):
        letter = letters[point + place].astype(np.int64) - _ZERO
        there = decimals >= place
        odd |= there & ((letter < 0) | (letter > 9))
        ns += np.where(there, letter * weight, 0)
    if (more := np.flatnonzero(decimals > _DECIMALS)).size:
        up, broken = _rounded_up(letters, point[more] + 1 + _DECIMALS, decimals[more] - _DECIMALS, ns[more])
        ns[more] += up
        odd[more] |= broken
    first = letters[starts].astype(np.int64) - _ZERO
    odd |= (digits == _DIGITS + 1) & (first > _EIGHT - _ZERO)
    found = Times(
        ns=np.where(is_negative, -ns, ns),
        is_plain=~odd & ~is_negative & (decimals <= _DECIMALS),
        is_known=~odd,
        is_quoted=is_quoted,
        digits=digits,
        first=first,
    )
    return _unusual(texts, found, odd) if odd.any() else found


def _long_decimals(letters: Any, starts: Ints, ends: Ints) -> Ints:
    """Return the number of decimals after the point, up to `_MOST_DECIMALS`; 0 without a point."""
    found = np.zeros(len(ends), np.int64)
    for place in range(_DECIMALS + 1, _MOST_DECIMALS + 1):
        at = ends - place - 1
        found[(letters[at] == _POINT) & (at > starts)] = place
    return found


def _rounded_up(letters: Any, starts: Ints, count: Ints, ns: Ints) -> tuple[Ints, Flags]:
    """Return 1 where the decimals beyond nanoseconds round up (half to even), and flags of texts that are not decimals."""
    broken = np.zeros(len(starts), np.bool_)
    beyond = np.zeros(len(starts), np.int64)
    for place in range(_MOST_DECIMALS - _DECIMALS):
        letter = letters[np.minimum(starts + place, len(letters) - 1)].astype(np.int64) - _ZERO
        there = place < count
        broken |= there & ((letter < 0) | (letter > 9))
        beyond = beyond * 10 + np.where(there, letter, 0)
    half = 5 * 10 ** (_MOST_DECIMALS - _DECIMALS - 1)
    return ((beyond > half) | ((beyond == half) & (ns % 2 == 1))).astype(np.int64), broken


def _all_digits(word: Words) -> Flags:
    """Return flags of the words whose eight bytes are all ASCII digits."""
    high = np.uint64(0xF0F0F0F0F0F0F0F0)
    found: Flags = ((word & high) == _ZEROS) & (((word + np.uint64(0x0606060606060606)) & high) == _ZEROS)
    return found


def _eight_digits(word: Words) -> Ints:
    """Return the value of eight ASCII digits, the first in the lowest byte: add them up as pairs, fours, eights."""
    word = word - _ZEROS
    word = word * np.uint64(10) + (word >> np.uint64(8))
    pairs = np.uint64(0x000000FF000000FF)
    upper = (word & pairs) * np.uint64(100 + (1_000_000 << 32))
    lower = ((word >> np.uint64(16)) & pairs) * np.uint64(1 + (10_000 << 32))
    return ((upper + lower) >> np.uint64(32)).astype(np.int64)


def no_times(count: int) -> Times:
    """Return unknown times, for events without one."""
    return Times(
        ns=np.zeros(count, np.int64),
        is_plain=np.zeros(count, np.bool_),
        is_known=np.zeros(count, np.bool_),
        is_quoted=np.zeros(count, np.bool_),
        digits=np.zeros(count, np.int64),
        first=np.zeros(count, np.int64),
    )


def known_times(ns: Ints, is_known: Flags) -> Times:
    """Return times of known nanoseconds, without the facts about their texts."""
    none = is_known[:0]
    return Times(ns=ns, is_known=is_known, is_plain=none, is_quoted=none, digits=ns[:0], first=ns[:0])


def spread(times: Times, there: Flags) -> Times:
    """Return times for all events: `times`, in order, for the events in `there`, unknown for the others."""
    found = no_times(len(there))
    for name in _COLUMNS:
        getattr(found, name)[there] = getattr(times, name)
    return found


def _unusual(texts: Sequence[Any], found: Times, odd: Flags) -> Times:
    places = np.flatnonzero(odd)
    import polars as pl

    words = pl.Series("time", [bytes(texts[place]).decode("utf-8", "replace") for place in places], dtype=pl.String)
    exact = nanoseconds(words)
    ns, is_known = found.ns.copy(), found.is_known.copy()
    ns[places] = exact.fill_null(0).to_numpy()
    is_known[places] = exact.is_not_null().to_numpy()
    return Times(
        ns=ns,
        is_plain=found.is_plain & ~odd,
        is_known=is_known,
        is_quoted=found.is_quoted,
        digits=found.digits,
        first=found.first,
    )


def proven(times: Times, schema: Mapping[str, Any]) -> Flags:
    """Return flags of the texts that certainly conform to a schema of a number, of a string of digits, or of either.

    False means that jsonschema must decide. Supported are the types number and string, bounds, and patterns that limit the
    number of digits (`^[0-8]?[0-9]{1,15}(\\.[0-9]+)?$`).
    """
    rules = keywords(schema)
    types = {rules["type"]} if isinstance(rules.get("type"), str) else set(rules.get("type", ()))
    none = np.zeros(len(times.ns), np.bool_)
    if not types or not rules.keys() <= {"type", "pattern", "minimum", "maximum"}:
        return none
    number = none
    if "number" in types:
        # Outside of strings, the decoder has refused texts that are not JSON numbers (007).
        number = times.is_known & ~times.is_quoted
        for key in ("minimum", "maximum"):
            if key in rules:
                bound = rules[key] * 1000
                if not isinstance(bound, int) or abs(bound) >= 2**63:
                    return none
                inside = (times.ns > bound) if key == "minimum" else (times.ns < bound)
                # Equal to the bound only if nothing was rounded away.
                number = number & (inside | (times.is_plain & (times.ns == bound)))
    text = none
    if "string" in types:
        text = times.is_plain & times.is_quoted
        if "pattern" in rules:
            text = text & _conforms(times, rules["pattern"])
    return number | text


def _conforms(times: Times, pattern: str) -> Flags:
    found = re.fullmatch(
        r"\^(?P<lead>\[0-8\]\?)?\[0-9\](?:\{1,(?P<most>[0-9]+)\}|\+)\(\\\.\[0-9\]\+\)\?"
        r"(?:\(\[eE\]\[\+-\]\?\[0-9\]\+\)\?)?\$",
        pattern,
    )
    if found is None:
        return np.zeros(len(times.ns), np.bool_)
    if found["most"] is None:
        return np.ones(len(times.ns), np.bool_)
    most = int(found["most"])
    fits = times.digits <= most
    if found["lead"]:
        fits = fits | ((times.digits == most + 1) & (times.first <= 8))
    return fits
