"""Configurations: which values keep a schema, and the sentence about any other value; sections name file and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.configuration import Section, configuration_schema, holds, violation, wording
from perfguard.errors import UsageError
from perfguard.screen import shown

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
BOOLEAN = {"type": "boolean"}
STRING = {"type": "string"}
NAME = {"type": "string", "minLength": 1}
PATH = {"type": "string", "format": "path"}
LEVELS = {"type": "string", "enum": ["level0", "level1"]}
ANY_CASE = {"type": "string", "enum": ["text", "db", "Text", "Db"], "x-any-case": True}
RANKS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "x-must": "a list of ranks"}


def integer(least: int, most: int | None = None, **more: object) -> dict:
    return {"type": "integer", "minimum": least, **({} if most is None else {"maximum": most}), **more}


SCHEMAS = {
    "boolean": BOOLEAN,
    "string": STRING,
    "name": NAME,
    "path": PATH,
    "integer": integer(1, 9),
    "number": {"type": "number", "minimum": 0},
    "bits": {"type": ["string", "number"], "x-bits": 32, "x-must": "a string or a number"},
    "not": integer(-1, 9, **{"not": {"const": 0}}),
    "one": LEVELS,
    "any case": ANY_CASE,
    "or null": {"type": ["string", "null"], "enum": ["all", None]},
    "list": RANKS,
    "list or one": {"type": "array", "items": LEVELS, "minItems": 1, "x-alone": True},
    "object": {"type": "object", "properties": {"train": BOOLEAN}},
}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (BOOLEAN, 1, "must be true or false, got 1"),
        (BOOLEAN, "True", "must be true or false, got 'True' (write it without quotes)"),
        (integer(0, 6), True, "must be an integer from 0 to 6, got true"),
        (integer(1), 1.0, "must be an integer of at least 1, got 1.0"),
        (
            integer(1, **{"x-below": "it would take 1"}),
            0,
            "must be an integer of at least 1, got 0 (it would take 1)",
        ),
        (integer(1, **{"x-most": 9}), 10, "must be an integer from 1 to 9, got 10"),
        ({"type": "integer"}, "1", "must be an integer, got '1'"),
        (SCHEMAS["number"], float("nan"), "must be a number of at least 0, got nan"),
        (SCHEMAS["number"], float("inf"), "must be a number of at least 0, got inf"),
        (SCHEMAS["number"], True, "must be a number of at least 0, got true"),
        (SCHEMAS["bits"], 2**31, "must be a string or a number, got 2147483648"),
        (SCHEMAS["not"], 0, "must be an integer from -1 to 9, got 0"),
        (LEVELS, "Level1", "must be one of level0, level1, got 'Level1' (did you mean 'level1'?)"),
        (LEVELS, None, "must be one of level0, level1, got null"),
        (LEVELS, "full", "must be one of level0, level1, got 'full'"),
        (ANY_CASE, "csv", "must be one of text, db, got 'csv'"),
        (PATH, "a\0b", r"must be a path, got 'a\x00b'"),
        (PATH, "\ud800", r"must be a path, got '\ud800'"),
        (NAME, "", "must be a string that is not empty, got ''"),
        (RANKS, [0, -1], "must be a list of ranks, got [0, -1] (-1 is not an integer of at least 0)"),
        (RANKS, 0, "must be a list of ranks, got 0"),
        (SCHEMAS["list or one"], [], "must be a list of at least one of level0, level1, got []"),
        (SCHEMAS["object"], [1], 'must be an object, {"key": value, ...}, got [1]'),
    ],
)
def test_a_violation_names_what_is_allowed_and_the_value(schema, value, expected):
    assert violation(value, schema) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("boolean", False),
        ("integer", 9),
        ("number", 0.5),
        ("bits", -(2**31)),
        ("one", "level1"),
        ("any case", "TEXT"),
        ("or null", None),
        ("list", []),
        ("list", (1, 2)),
        ("list or one", "level0"),
        ("path", "./a b"),
        ("object", {"train": True}),
    ],
)
def test_a_value_that_keeps_its_schema_has_no_violation(name, value):
    assert violation(value, SCHEMAS[name]) == ""


@given(st.sampled_from(sorted(SCHEMAS)), values)
def test_every_value_keeps_a_schema_or_breaks_it_in_one_line(name, value):
    found = violation(value, SCHEMAS[name])
    assert bool(found) != holds(value, SCHEMAS[name])
    assert len(found.splitlines()) <= 1
    assert not found or found.startswith(f"must be {wording(SCHEMAS[name])}, got {shown(value)}")


@given(st.integers(), st.integers(-5, 5), st.integers(0, 5))
def test_an_integer_is_taken_within_its_range_only(value, least, span):
    assert holds(value, integer(least, least + span)) == (value in range(least, least + span + 1))


def test_a_value_is_shown_short_whatever_its_size():
    nested = [1]
    for _ in range(60):
        nested = [nested, nested]
    assert len(shown(nested)) < 400
    assert len(shown("x" * 10**6)) <= 60
    assert shown("a\nb\x07") == r"'a\nb\x07'"


# -- sections ------------------------------------------------------------------------------------------------------------

OBJECT = {
    "type": "object",
    "required": ["steps"],
    "properties": {
        "steps": integer(1, 9, default=3),
        "place": {**PATH, "default": "./here"},
        "levels": {"type": "array", "items": LEVELS, "x-alone": True, "default": ["level0"]},
        "limit": {"type": ["integer", "null"], "minimum": 1, "default": None},
        "inner": {"type": "object", "properties": {"on": {**BOOLEAN, "default": True}}},
    },
}


def test_a_section_gives_values_and_defaults():
    section = Section.of({"levels": "level1", "limit": None}, OBJECT, "file")
    assert section.read() == {"steps": 3, "place": Path("here"), "levels": ["level1"], "limit": None}
    assert section.section("inner").read() == {"on": True}
    assert Section.of({"inner": {"on": False}, "place": "x"}, OBJECT, "file").given() == {
        "inner": {"on": False},
        "place": Path("x"),
    }
    with pytest.raises(UsageError, match=r"^file: steps is missing\.$"):
        section.read(needed=True)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ([1], 'file: top must be an object, {"key": value, ...}, got [1].'),
        ({"steps": 0}, "file: top.steps must be an integer from 1 to 9, got 0."),
        ({"steps": None}, "file: top.steps must be an integer from 1 to 9, got null."),
        ({"stps": 1}, "file: top.stps is not a known key; did you mean 'steps'?"),
        ({"inner": {"on": 1}}, "file: top.inner.on must be true or false, got 1."),
        ({"inner": None}, 'file: top.inner must be an object, {"key": value, ...}, got null.'),
    ],
)
def test_a_section_names_file_key_value_and_what_is_allowed(plain, message):
    def read():
        section = Section.of(plain, OBJECT, "file", "top")
        section.read()
        section.section("inner").read()

    with pytest.raises(UsageError) as caught:
        read()
    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["tools_config", "mindformers", "summary_monitor", "profiler_config.npu"])
def test_every_default_keeps_its_schema(name):
    def check(properties):
        for schema in properties.values():
            if schema.get("default") is not None:
                assert violation(schema["default"], {**schema, "type": schema["type"]}) == ""
            check(schema.get("properties", {}))

    check(configuration_schema(name)["properties"])
