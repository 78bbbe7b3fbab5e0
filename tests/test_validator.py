"""The validator must say what jsonschema says, of every value and schema."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from perfguard.documents import schema, schema_names
from perfguard.validator import Validator, _compiled, in_json
from tests.artifacts.test_schema import BOUNDS, NAMES, NUMBERS, PATTERNS, STRINGS, TYPES, row_schemas, with_definitions

VALUES = st.recursive(
    st.one_of(
        NUMBERS,
        STRINGS,
        st.booleans(),
        st.none(),
        st.floats(),
        st.sampled_from([10**400, -(10**400), "a\n", "b\r", "\ud800", "a\u2028", "١", "\xa0"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(NAMES, STRINGS), inner, max_size=3)),
    max_leaves=5,
)

PARTS = st.fixed_dictionaries(
    {}, optional={"type": TYPES, "minimum": BOUNDS, "not": st.fixed_dictionaries({"pattern": PATTERNS})}
)


@settings(max_examples=200, deadline=None)
@example(part={}, row={"not": {"pattern": "^a$"}}, rules={"$ref": "#/$defs/row"}, value="a\n")
@example(part={}, row={"type": ["null", "number"], "maximum": 3}, rules={"$ref": "#/$defs/row"}, value=math.inf)
@example(part={}, row={"const": [1]}, rules={"$ref": "#/$defs/row"}, value=[True])
@given(rules=row_schemas(), part=PARTS, row=PARTS, value=VALUES)
def test_the_verdict_and_the_errors_are_those_of_jsonschema(rules, part, row, value):
    root = with_definitions(rules, part, row)
    for one in (root, rules):
        oracle = Draft202012Validator(root).evolve(schema=one)
        ours = Validator(one, root)
        assert ours.is_valid(value) == oracle.is_valid(value)
        found = [error.message for error in ours.errors(value)]
        assert found == [in_json(error) for error in oracle.iter_errors(value)]


def test_deep_nesting_is_judged_by_jsonschema():
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    assert Validator({"type": "array"}).is_valid(deep)
    assert not Validator({"type": "object"}).is_valid(deep)


@pytest.mark.parametrize("pattern", [r"\d", r"^\w+$", "(?i)a", "[[a]b]", r"[\s]", "[a&&b]"])
def test_patterns_that_python_reads_in_another_way_are_left_to_it(pattern):
    assert Validator({"pattern": pattern})._fast == (None, True)


def test_every_schema_of_perfguard_is_one_for_the_fast_validator():
    assert [name for name in schema_names() if _compiled(json.dumps(schema(name)))[0] is None] == []


@pytest.mark.parametrize(
    ("rules", "value", "message"),
    [
        ({"enum": [0, 1]}, False, "false is not one of [0, 1]"),
        ({"enum": [None, True]}, "a", "'a' is not one of [null, true]"),
        ({"type": "object"}, None, "null is not of type 'object'"),
        ({"type": "string"}, {"a": [True]}, "{\"a\": [true]} is not of type 'string'"),
        (False, 1, "nothing is allowed here, found 1"),
    ],
)
def test_a_message_has_values_as_json_has_them(rules, value, message):
    assert [error.message for error in Validator(rules).errors(value)] == [message]
