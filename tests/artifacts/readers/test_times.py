"""Times in text: exact to the nanosecond whatever their digits, and proven only where jsonschema would agree."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.artifacts.readers.times import no_times, proven, spread, times_of
from perfguard.artifacts.schema import RowSchema
from perfguard.artifacts.table import Cells, cell_value

#: 19 digits in all, as kineto and CANN write them; a float64 loses up to 250 ns of these.
LONG = ["1712195495519689.047", "1736408883688177.930", "8999999999999999.999", "1704161511420306.491"]
ODD = [
    "0E-3",
    "1.5e3",
    "007",
    "",
    "-",
    ".",
    "5.",
    "1.2.3",
    "x,y",
    "9999999999999999",
    "9300000000000000000",
    "nan",
    "1_0",
]


def exact_ns(text: str) -> int | None:
    try:
        value = (Decimal(text) * 1000).quantize(Decimal(1), rounding=ROUND_HALF_EVEN)
    except ArithmeticError:
        return None
    return int(value) if value.is_finite() and abs(value) < 2**63 else None


@pytest.mark.parametrize("text", LONG)
@pytest.mark.parametrize("quoted", [True, False])
def test_nineteen_digits_lose_nothing(text, quoted):
    found = times_of([json.dumps(text).encode() if quoted else text.encode()])
    assert found.ns[0] == exact_ns(text)
    assert found.is_plain[0]
    assert found.is_quoted[0] == quoted


plain = st.from_regex(r"-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,18})?", fullmatch=True)


@given(st.lists(st.from_regex(r"(0|[1-9][0-9]{0,15})(\.[0-9]{1,18})?", fullmatch=True), min_size=1, max_size=40))
def test_numbers_of_any_length_are_what_decimal_says(texts):
    found = times_of([text.encode() for text in texts])
    expected = [exact_ns(text) for text in texts]
    assert found.is_known.tolist() == [one is not None for one in expected]
    assert found.ns.tolist() == [one or 0 for one in expected]
    assert not found.is_quoted.any()


@given(st.lists(st.tuples(plain, st.booleans()), min_size=1, max_size=40))
def test_any_decimals_are_what_decimal_says(texts):
    found = times_of([json.dumps(text).encode() if quoted else text.encode() for text, quoted in texts])
    for place, (text, _) in enumerate(texts):
        expected = exact_ns(text)
        assert found.is_known[place] == (expected is not None), text
        assert found.ns[place] == (expected or 0), text


@given(st.lists(st.one_of(plain, st.sampled_from(ODD)), min_size=1, max_size=20))
def test_odd_texts_leave_their_neighbours_alone(texts):
    found = times_of([json.dumps(text).encode() for text in texts])
    alone = [times_of([json.dumps(text).encode()]) for text in texts]
    assert found.ns.tolist() == [int(one.ns[0]) for one in alone]
    assert found.is_known.tolist() == [bool(one.is_known[0]) for one in alone]


SCHEMAS = [
    {"type": "number", "minimum": 0, "maximum": 9000000000000000},
    {"type": "number", "minimum": -9000000000000000, "maximum": 9000000000000000},
    {"type": "string", "pattern": "^[0-8]?[0-9]{1,15}(\\.[0-9]+)?$"},
    {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)?$"},
    {"type": ["string", "number"], "pattern": "^[0-9]+(\\.[0-9]+)?$", "minimum": 0, "maximum": 9000000000000},
    {"type": "integer"},
    {"type": "number", "multipleOf": 2},
    {"type": "string", "pattern": "^[13579]+$"},
    {},
]
json_numbers = st.one_of(
    plain, st.sampled_from(["0E-3", "1.5e3", "9e15", "9000000000000000", "9000000000000000.0001", "0", "-0"])
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
@settings(max_examples=40)
@given(texts=st.lists(st.tuples(st.one_of(json_numbers, st.sampled_from(ODD)), st.booleans()), min_size=1, max_size=20))
@pytest.mark.variants(1)
def test_what_is_proven_jsonschema_grants(schema, texts):
    raw = [json.dumps(text) for text, quoted in texts if quoted]
    raw += [text for text, quoted in texts if not quoted and text not in ODD[2:]]
    if not raw:
        return
    validator = RowSchema({}).validator(schema)
    for text, is_proven in zip(raw, proven(times_of([one.encode() for one in raw]), schema), strict=True):
        if is_proven:
            assert validator.is_valid(cell_value(text, Cells.JSON, None)), text


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (SCHEMAS[0], "4397610712622.139"),
        (SCHEMAS[0], "0"),
        (SCHEMAS[0], "0.72003125"),
        (SCHEMAS[2], '"1736408883688177.930"'),
        (SCHEMAS[4], "145.57"),
        (SCHEMAS[4], '"145.57"'),
    ],
)
def test_what_writers_write_is_proven(schema, text):
    assert proven(times_of([text.encode()]), schema).all()


def test_events_without_a_time_have_none():
    found = spread(times_of([b"1.5"]), no_times(3).is_known | [False, True, False])
    assert found.ns.tolist() == [0, 1500, 0]
    assert found.is_known.tolist() == [False, True, False]
