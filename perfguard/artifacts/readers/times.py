"""Times: decimal texts of microseconds, many at once, to exact nanoseconds in int64.

A float64 holds UNIX microseconds to 0.25 us only, so the digits are added up as integers. `nanoseconds` of contract.table does
the same for columns of text; what is unusual is left to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfguard.artifacts.table import nanoseconds

#: Longest plain text: sign, 16 digits, point, 3 decimals, and some room.
_WIDTH = 24
_COMMA, _QUOTE, _MINUS, _POINT, _ZERO, _EIGHT = b',"-.08'
#: Up to so many digits before the point any number of nanoseconds fits; with one more the first may be 8 at most.
_DIGITS = 15
#: Decimals of a microsecond that are whole nanoseconds, and how many are read; floats are written with up to seventeen digits.
_DECIMALS, _MOST_DECIMALS = 3, 18

Ints = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

_ZEROS = np.uint64(0x3030303030303030)
#: The same for the five bytes above three decimals.
_FIVE_ZEROS = np.uint64(0x3030303030000000)
#: A text with three decimals, as far as the comma behind it, and how many bytes stand behind the last comma.
_ALIKE, _WIDTH_BEHIND = re.compile(rb'(?:[0-9]{1,16}\.[0-9]{3}|"[0-9]{1,16}\.[0-9]{3}"),'), 3
#: For each number of bytes before a text in its window of 16: which bytes of the first and of the second eight they are.
_BEFORE = tuple(
    np.array([(1 << 8 * min(max(count - 8 * part, 0), 8)) - 1 for count in range(_DIGITS + 2)], np.uint64)
    for part in (0, 1)
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Times:
    """Nanoseconds of each text; where `is_plain`, the text is digits with at most one point and three decimals.

    `is_known` is False where a text is no number of nanoseconds that fits; its value is 0 then. `is_quoted` says of plain texts
    whether they are JSON strings, `digits` how many stand before the point, `first` what the first of them is.
    """

    ns: Ints
    is_plain: Flags
    is_known: Flags
    is_quoted: Flags
    digits: Ints
    first: Ints

    def at(self, places: Ints) -> Times:
        """Return some of the times, without how they were written."""
        return known_times(self.ns[places], self.is_known[places])


_COLUMNS = ("ns", "is_plain", "is_known", "is_quoted", "digits", "first")


def times_of(texts: Sequence[Any]) -> Times:
    """Read JSON numbers or strings (bytes-like) as microseconds. Digits beyond the third decimal are rounded half to even."""
    count = len(texts)
    joined = bytes(_WIDTH) + b",".join(texts) + b",   "
    if (found := _alike(joined, count) or _numbers(joined, count)) is not None:
        return found
    letters = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(letters == _COMMA)
    if len(ends) != count:
        # A string with a comma in it: none of this is plain.
        unread = no_times(count)
        unread.is_quoted[:] = [bytes(text)[:1] == b'"' for text in texts]
        return _unusual(texts, unread, np.ones(count, np.bool_))
    starts = np.concatenate(([_WIDTH], ends[:-1] + 1))
    is_quoted = letters[starts] == _QUOTE
    starts, ends = starts + is_quoted, ends - is_quoted
    odd = is_quoted & (letters[ends] != _QUOTE)
    is_negative = letters[starts] == _MINUS
    starts = starts + is_negative
    # The point stands before three, two or one decimals, or nowhere.
    decimals = np.zeros(count, np.int64)
    for place in (1, 2, 3):
        decimals[(letters[ends - place - 1] == _POINT) & (ends - place - 1 > starts)] = place
    if (more := np.flatnonzero((decimals == 0) & (ends - starts > _DECIMALS + 2))).size:
        decimals[more] = _long_decimals(letters, starts[more], ends[more])
    point = ends - decimals - (decimals > 0)
    digits = point - starts
    odd |= (digits < 1) | (digits > _DIGITS + 1)
    # The sixteen bytes before each point; every byte of the text begins such a window.
    windows: Any = np.ndarray((len(letters) - _DIGITS, _DIGITS + 1), np.uint8, joined, strides=(1, 1))
    words = windows[point - _DIGITS - 1].view(np.uint64)
    missing = np.clip(_DIGITS + 1 - digits, 0, _DIGITS + 1)
    value = np.zeros(count, np.int64)
    for part in (0, 1):
        # What lies before the text in its window counts as zeros.
        before = _BEFORE[part][missing]
        word = (words[:, part] & ~before) | (_ZEROS & before)
        odd |= ~_all_digits(word)
        value = value * 10**8 + _eight_digits(word)
    ns = value * 1000
    for place, worth in ((1, 100), (2, 10), (3, 1)):
        letter = letters[point + place].astype(np.int64) - _ZERO
        there = decimals >= place
        odd |= there & ((letter < 0) | (letter > 9))
        ns += np.where(there, letter * worth, 0)
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


def _alike(joined: bytes, count: int) -> Times | None:
    """Read texts that are all as long as the first one, with three decimals, as a writer's starts are; None for others."""
    first = _ALIKE.match(joined, _WIDTH)
    if first is None:
        return None
    width = first.end() - _WIDTH
    if len(joined) != _WIDTH + count * width + _WIDTH_BEHIND:
        return None
    quotes = int(joined[_WIDTH] == _QUOTE)
    digits = width - _DECIMALS - 2 - 2 * quotes
    point = _WIDTH + quotes + digits

    def column(kind: Any, at: int) -> Any:
        return np.ndarray((count,), kind, joined, at, (width,))

    value = np.zeros(count, np.int64)
    for part in (0, 1):
        before = _BEFORE[part][_DIGITS + 1 - digits]
        word = (column("<u8", point - 16 + 8 * part) & ~before) | (_ZEROS & before)
        if not _all_digits(word).all():
            return None
        value = value * 10**8 + _eight_digits(word)
    decimals = column("<u4", point)
    if not (_all_digits((decimals >> np.uint32(8)).astype(np.uint64) | _FIVE_ZEROS)).all():
        return None
    ends = (_POINT, _COMMA) if not quotes else (_POINT, _QUOTE, _COMMA)
    for letter, at in zip(ends, (point, point + 4, point + 5), strict=False):
        if not (column(np.uint8, at) == letter).all():
            return None
    if quotes and not (column(np.uint8, _WIDTH) == _QUOTE).all():
        return None
    firsts = column(np.uint8, _WIDTH + quotes).astype(np.int64) - _ZERO
    if digits > _DIGITS and int(firsts.max()) > _EIGHT - _ZERO:
        return None
    ns = value * 1000
    for place, worth in ((1, 100), (2, 10), (3, 1)):
        ns += (column(np.uint8, point + place).astype(np.int64) - _ZERO) * worth
    yes = np.ones(count, np.bool_)
    return Times(
        ns=ns,
        is_plain=yes,
        is_known=yes.copy(),
        is_quoted=np.full(count, bool(quotes)),
        digits=np.full(count, digits, np.int64),
        first=firsts,
    )


#: What numbers without sign and exponent are made of, and what separates them.
_OF_NUMBERS = np.zeros(256, np.bool_)
_OF_NUMBERS[np.frombuffer(b"0123456789.,", np.uint8)] = True


def _numbers(joined: bytes, count: int) -> Times | None:
    """Read numbers without sign and exponent, of any length, as durations are; None for others."""
    letters = np.frombuffer(joined, np.uint8)
    texts = letters[_WIDTH : len(letters) - _WIDTH_BEHIND]
    if not _OF_NUMBERS[texts].all():
        return None
    ends = np.flatnonzero(letters == _COMMA)
    points = np.flatnonzero(texts == _POINT) + _WIDTH
    if len(ends) != count:
        return None
    starts = np.concatenate(([_WIDTH], ends[:-1] + 1))
    if len(points) == count and bool(((points > starts) & (points < ends)).all()):
        point = points
    else:
        next_one = np.searchsorted(points, starts)
        point = np.append(points, len(letters))[next_one]
        if np.count_nonzero(point < ends) != len(points):
            # Two points in one of them.
            return None
        point = np.minimum(point, ends)
    digits, decimals = point - starts, np.maximum(ends - point - 1, 0)
    first = letters[starts].astype(np.int64) - _ZERO
    least, most = (int(digits.min()), int(digits.max())) if count else (1, 1)
    if least < 1 or most > _DIGITS or bool((decimals > _MOST_DECIMALS).any()) or bool((point == ends - 1).any()):
        return None
    windows: Any = np.ndarray((len(letters) - _DIGITS, _DIGITS + 1), np.uint8, joined, strides=(1, 1))
    words = windows[point - _DIGITS - 1].view(np.uint64)
    missing = _DIGITS + 1 - digits
    value = np.zeros(count, np.int64)
    for part in (0, 1) if most > 8 else (1,):
        before = _BEFORE[part][missing]
        value = value * 10**8 + _eight_digits((words[:, part] & ~before) | (_ZEROS & before))
    ns = value * 1000
    for place, worth in ((1, 100), (2, 10), (3, 1)):
        ns += np.where(decimals >= place, (letters[point + place].astype(np.int64) - _ZERO) * worth, 0)
    if (more := np.flatnonzero(decimals > _DECIMALS)).size:
        fourth = letters[point[more] + 1 + _DECIMALS]
        ns[more] += fourth > ord("5")
        if (half := more[fourth == ord("5")]).size:
            up, _ = _rounded_up(letters, point[half] + 1 + _DECIMALS, decimals[half] - _DECIMALS, ns[half])
            ns[half] += up
    yes = np.ones(count, np.bool_)
    return Times(ns=ns, is_plain=decimals <= _DECIMALS, is_known=yes, is_quoted=~yes, digits=digits, first=first)


def _long_decimals(letters: Any, starts: Ints, ends: Ints) -> Ints:
    """Return how many decimals stand behind the point, up to `_MOST_DECIMALS`; 0 where there is no point."""
    found = np.zeros(len(ends), np.int64)
    for place in range(_DECIMALS + 1, _MOST_DECIMALS + 1):
        at = ends - place - 1
        found[(letters[at] == _POINT) & (at > starts)] = place
    return found


def _rounded_up(letters: Any, starts: Ints, count: Ints, ns: Ints) -> tuple[Ints, Flags]:
    """Return 1 where the digits beyond nanoseconds round up (half to even), and which of them are no digits."""
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
    """Return which eight bytes are all ASCII digits."""
    high = np.uint64(0xF0F0F0F0F0F0F0F0)
    found: Flags = ((word & high) == _ZEROS) & (((word + np.uint64(0x0606060606060606)) & high) == _ZEROS)
    return found


def _eight_digits(word: Words) -> Ints:
    """Return the number that eight ASCII digits are, the first of them in the lowest byte: pairs, fours, eight at once."""
    word = word - _ZEROS
    word = word * np.uint64(10) + (word >> np.uint64(8))
    pairs = np.uint64(0x000000FF000000FF)
    upper = (word & pairs) * np.uint64(100 + (1_000_000 << 32))
    lower = ((word >> np.uint64(16)) & pairs) * np.uint64(1 + (10_000 << 32))
    return ((upper + lower) >> np.uint64(32)).astype(np.int64)


def no_times(count: int) -> Times:
    """Return the times of events that have none."""
    return Times(
        ns=np.zeros(count, np.int64),
        is_plain=np.zeros(count, np.bool_),
        is_known=np.zeros(count, np.bool_),
        is_quoted=np.zeros(count, np.bool_),
        digits=np.zeros(count, np.int64),
        first=np.zeros(count, np.int64),
    )


def known_times(ns: Ints, is_known: Flags) -> Times:
    """Return times of which only the nanoseconds are told."""
    none = is_known[:0]
    return Times(ns=ns, is_known=is_known, is_plain=none, is_quoted=none, digits=ns[:0], first=ns[:0])


def spread(times: Times, there: Flags) -> Times:
    """Return times for all events: those of `times`, in order, where there are any, and none elsewhere."""
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
    """Return which plain texts certainly keep a schema of a number, of a string of digits, or of either.

    False only means that jsonschema has to say. Understood are the types number and string, bounds, and the patterns that count
    digits (`^[0-8]?[0-9]{1,15}(\\.[0-9]+)?$`).
    """
    says = {key: value for key, value in schema.items() if key not in ("description", "title") and key[:2] != "x-"}
    types = {says["type"]} if isinstance(says.get("type"), str) else set(says.get("type", ()))
    none = np.zeros(len(times.ns), np.bool_)
    if not types or not says.keys() <= {"type", "pattern", "minimum", "maximum"}:
        return none
    number = none
    if "number" in types:
        # What is no JSON number (007) the decoder has refused outside of a string.
        number = times.is_known & ~times.is_quoted
        for key in ("minimum", "maximum"):
            if key in says:
                bound = says[key] * 1000
                if not isinstance(bound, int) or abs(bound) >= 2**63:
                    return none
                inside = (times.ns > bound) if key == "minimum" else (times.ns < bound)
                # At the bound only where nothing was rounded away.
                number = number & (inside | (times.is_plain & (times.ns == bound)))
    text = none
    if "string" in types:
        text = times.is_plain & times.is_quoted
        if "pattern" in says:
            text = text & _keeps(times, says["pattern"])
    return number | text


def _keeps(times: Times, pattern: str) -> Flags:
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
