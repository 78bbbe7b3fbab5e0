"""Every artifact schema by itself: what it describes passes, and each way of breaking it is refused.

The values come from the schema, so that no schema is without a test, real sample or not.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from perfguard.artifacts.layout import layouts
from perfguard.artifacts.schema import RowSchema, is_table, object_columns, row_schema
from perfguard.artifacts.table import Cells, Table
from perfguard.documents import schema

USED = sorted({name for layout in layouts() for slot in layout.slots for name in slot.schemas})
TABLES = [name for name in USED if is_table(schema(name))]
DOCUMENTS = [name for name in USED if not is_table(schema(name))]
QUICK = settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)


def resolved(part: Any, root: dict) -> dict:
    while isinstance(part, dict) and "$ref" in part:
        found: Any = root
        for key in part["$ref"][2:].split("/"):
            found = found[key]
        part = {**found, **{key: value for key, value in part.items() if key != "$ref"}}
    return part if isinstance(part, dict) else {}


def values(part: Any, root: dict) -> st.SearchStrategy:
    """Return values that a schema of ours describes; it uses few of JSON Schema's words."""
    part = resolved(part, root)
    if "const" in part:
        return st.just(part["const"])
    if "enum" in part:
        return st.sampled_from(part["enum"])
    for word in ("oneOf", "anyOf"):
        if word in part:
            return st.one_of([values(one, root) for one in part[word]])
    kinds = part.get("type", "object" if "properties" in part else "string")
    return st.one_of([of_type(kind, part, root) for kind in ([kinds] if isinstance(kinds, str) else kinds)])


def of_type(kind: str, part: dict, root: dict) -> st.SearchStrategy:
    low, high = part.get("minimum"), part.get("maximum")
    if kind == "integer":
        return st.integers(None if low is None else -int(-low // 1), None if high is None else int(high // 1))
    if kind == "number":
        bounds = {"min_value": -1e12 if low is None else low, "max_value": 1e12 if high is None else high}
        exclusive = {}
        if "exclusiveMinimum" in part:
            bounds["min_value"], exclusive = part["exclusiveMinimum"], {"exclude_min": True}
        return st.floats(**bounds, **exclusive, allow_nan=False, allow_infinity=False)
    if kind == "string":
        if "pattern" in part:
            return st.from_regex(part["pattern"], alphabet=st.characters(min_codepoint=32, max_codepoint=126))
        return st.text("ab /_-", min_size=part.get("minLength", 0), max_size=part.get("minLength", 0) + 4)
    if kind == "array":
        return arrays(part, root)
    if kind == "object":
        return objects(part, root)
    return {"boolean": st.booleans(), "null": st.none()}[kind]


def arrays(part: dict, root: dict) -> st.SearchStrategy:
    fixed = [values(one, root) for one in part.get("prefixItems", ())]
    least = max(part.get("minItems", 0) - len(fixed), 0)
    most = min(part.get("maxItems", least + 2) - len(fixed), least + 2)
    items = part.get("items", True)
    rest = st.lists(values(items, root), min_size=least, max_size=max(most, least)) if items else st.just([])
    return st.tuples(st.tuples(*fixed), rest).map(lambda both: [*both[0], *both[1]])


def objects(part: dict, root: dict) -> st.SearchStrategy:
    required = part.get("required", ())
    named = {key: values(one, root) for key, one in part.get("properties", {}).items()}
    for key in required:
        if key not in named:
            matching = [one for pattern, one in part.get("patternProperties", {}).items() if re.search(pattern, key)]
            named[key] = values(matching[0] if matching else part.get("additionalProperties", {}), root)
    if not named and part.get("patternProperties"):
        ((pattern, one), *_) = part["patternProperties"].items()
        keys = st.from_regex(pattern, alphabet=st.characters(min_codepoint=32, max_codepoint=126))
        return st.dictionaries(keys, values(one, root), min_size=1, max_size=2)
    if not named and isinstance(part.get("additionalProperties"), dict):
        keys = of_type("string", part.get("propertyNames", {}), root)
        return st.dictionaries(keys, values(part["additionalProperties"], root), min_size=1, max_size=2)
    optional = {key: one for key, one in named.items() if key not in required}
    return st.fixed_dictionaries({key: named[key] for key in required}, optional=optional)


def broken_rows(name: str, rows: list[dict]) -> list[int]:
    frame = object_columns([json.dumps(one) for one in rows])
    assert frame is not None
    return RowSchema(row_schema(schema(name)), schema(name)).invalid_rows(Table(frame=frame, cells=Cells.JSON))


def conditional(row: dict, found: dict, root: dict) -> bool:
    """Whether a row breaks what the schema says beyond its columns (if/then, allOf): then it is no example."""
    return not Draft202012Validator({**row, "$defs": root.get("$defs", {})}).is_valid(found)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.variants(23)
def test_a_row_as_described_passes_and_a_broken_one_does_not(name):
    root = schema(name)
    row = dict(row_schema(root))
    tried = 0

    @QUICK
    @given(values({"type": "object", **row}, root))
    def check(found):
        nonlocal tried
        if conditional(row, found, root):
            return
        tried += 1
        broken = {}
        for column in row.get("required", ()):
            broken[f"no {column}"] = {key: value for key, value in found.items() if key != column}
        for column, one in row.get("properties", {}).items():
            part = resolved(one, root)
            if "object" not in str(part.get("type", "")):
                broken[f"an object as {column}"] = {**found, column: {"no": "cell"}}
            for bound, step in (("minimum", -1), ("maximum", 1)):
                if isinstance(part.get(bound), (int, float)):
                    beyond = part[bound] + step * max(1, abs(part[bound]) * 1e-9)
                    broken[f"{column} beyond its {bound}"] = {**found, column: beyond}
        refused = set(broken_rows(name, [found, *broken.values()]))
        assert 0 not in refused
        assert [what for number, what in enumerate(broken, start=1) if number not in refused] == []

    check()
    assert tried


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.variants(7)
def test_a_document_as_described_passes_and_a_broken_one_does_not(name):
    root = schema(name)
    validator = Draft202012Validator(root)
    tried = 0

    @QUICK
    @given(values(root, root))
    def check(found):
        nonlocal tried
        if not validator.is_valid(found):
            return
        tried += 1
        for key in root.get("required", ()) if isinstance(found, dict) else ():
            assert not validator.is_valid({k: v for k, v in found.items() if k != key})
        assert not validator.is_valid("no such document")

    check()
    assert tried
