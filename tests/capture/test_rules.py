"""Rules for configuration values: what they accept, and the sentence about any other value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.capture.rules import BOOLEAN, NAME, PATH, STRING, integer, list_of, number, one_of, shown

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
LEVELS = one_of(("level0", "level1"))
RULES = {
    "boolean": BOOLEAN,
    "string": STRING,
    "name": NAME,
    "path": PATH,
    "integer": integer(1, 9),
    "number": number(0),
    "one": LEVELS,
    "any case": one_of(("text", "db"), ignore_case=True),
    "or null": one_of(("all", None)),
    "list": list_of(integer(0), "a list of ranks"),
    "list or one": list_of(LEVELS, "a list of levels", or_alone=True, least=1),
}


@pytest.mark.parametrize(
    ("rule", "value", "violation"),
    [
        (BOOLEAN, 1, "must be true or false, got 1"),
        (BOOLEAN, "True", "must be true or false, got 'True' (write it without quotes)"),
        (integer(0, 6), True, "must be an integer from 0 to 6, got True"),
        (integer(1), 1.0, "must be an integer of at least 1, got 1.0"),
        (integer(1, below="it would take 1"), 0, "must be an integer of at least 1, got 0 (it would take 1)"),
        (integer(), "1", "must be an integer, got '1'"),
        (number(0), float("nan"), "must be a number of at least 0, got nan"),
        (number(0), float("inf"), "must be a number of at least 0, got inf"),
        (number(0), True, "must be a number of at least 0, got True"),
        (LEVELS, "Level1", "must be one of level0, level1, got 'Level1' (did you mean 'level1'?)"),
        (LEVELS, None, "must be one of level0, level1, got None"),
        (LEVELS, "full", "must be one of level0, level1, got 'full'"),
        (PATH, "a\0b", r"must be a path, got 'a\x00b'"),
        (PATH, "\ud800", r"must be a path, got '\ud800'"),
        (NAME, "", "must be a string that is not empty, got ''"),
        (RULES["list"], [0, -1], "must be a list of ranks, got [0, -1] (-1 is not an integer of at least 0)"),
        (RULES["list"], 0, "must be a list of ranks, got 0"),
        (RULES["list or one"], [], "must be a list of levels, got []"),
    ],
)
def test_a_violation_names_the_rule_and_the_value(rule, value, violation):
    assert rule.violation(value) == violation


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (BOOLEAN, False),
        (integer(1, 9), 9),
        (number(0), 0.5),
        (LEVELS, "level1"),
        (RULES["any case"], "TEXT"),
        (RULES["or null"], None),
        (RULES["list"], []),
        (RULES["list or one"], "level0"),
        (PATH, "./a b"),
    ],
)
def test_a_value_that_keeps_a_rule_has_no_violation(rule, value):
    assert rule.violation(value) == ""


@given(st.sampled_from(sorted(RULES)), values)
def test_every_value_keeps_a_rule_or_breaks_it_in_one_line(name, value):
    violation = RULES[name].violation(value)
    assert bool(violation) != RULES[name].holds(value)
    assert len(violation.splitlines()) <= 1
    assert not violation or violation.startswith(f"must be {RULES[name].must}, got {shown(value)}")


@given(st.integers(), st.integers(-5, 5), st.integers(0, 5))
def test_an_integer_is_taken_within_its_range_only(value, least, span):
    assert integer(least, least + span).holds(value) == (value in range(least, least + span + 1))


def test_a_value_is_shown_short_whatever_its_size():
    nested = [1]
    for _ in range(60):
        nested = [nested, nested]
    assert len(shown(nested)) < 400
    assert len(shown("x" * 10**6)) <= 60
    assert shown("a\nb\x07") == r"'a\nb\x07'"
