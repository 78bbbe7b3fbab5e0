"""The schemas and layouts: each is well-formed, used, and says what it describes and from where it is known."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from perfguard.artifacts.conditions import CONDITIONS, parts_of
from perfguard.artifacts.layout import layouts
from perfguard.artifacts.readers import OPAQUE, READERS
from perfguard.artifacts.readers.csv_stream import FORMATS
from perfguard.artifacts.schema import is_table, row_schema
from perfguard.capture.replay import replay
from perfguard.contract import inspect
from perfguard.dialects.headers import is_of_a_slot
from perfguard.dialects.invariants import INVARIANTS
from perfguard.dialects.listed import SOURCES
from perfguard.documents import schema, schema_names, schemas_directory, violations
from perfguard.findings import Code, Severity

TOP = Path(__file__).resolve().parent.parent
SCHEMAS = sorted((TOP / "schemas").rglob("*.schema.json"))
ARTIFACTS = sorted((TOP / "schemas" / "artifacts").glob("*.schema.json"))
LAYOUTS = sorted((TOP / "schemas" / "layouts").glob("*.json"))
RECORDINGS = sorted((TOP / "tests" / "data" / "recordings").iterdir())

#: Names of perfguard's own schemas and the files of the repository that keep them.
DOCUMENTS = [
    *[("recording", path / "recording.json") for path in RECORDINGS],
    *[("steps", path / "steps.json") for path in RECORDINGS],
    *[("baseline", path) for path in sorted((TOP / "baselines").glob("*.json"))],
    *[("layout", path) for path in LAYOUTS],
]


def name_of(path: Path) -> str:
    return path.name.removesuffix(".schema.json")


def load(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))


def parts(node: object):
    """Yield every subschema, and every other object, of a schema."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from parts(value)
    elif isinstance(node, list):
        for value in node:
            yield from parts(value)


def columns_of(name: str) -> dict[str, dict]:
    found = schema(name)
    return dict(row_schema(found).get("properties", {})) if is_table(found) else {}


#: The schemas of the columns of all tables, by table and column.
COLUMNS = {(name_of(path), column): part for path in ARTIFACTS for column, part in columns_of(name_of(path)).items()}


def test_every_file_in_schemas_is_a_schema_or_a_layout():
    assert sorted((TOP / "schemas").rglob("*.json")) == sorted([*SCHEMAS, *LAYOUTS])
    assert schemas_directory() == TOP / "schemas"


def test_every_schema_keeps_the_meta_schema():
    meta = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    assert [path.name for path in SCHEMAS if not meta.is_valid(load(path))] == []


def test_every_schema_names_itself_its_version_and_its_source():
    for path in SCHEMAS:
        found = load(path)
        assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema", path
        assert found["$id"] == "urn:perfguard:" + path.relative_to(TOP).as_posix(), path
        assert found["title"], path
        assert re.search(r"MindSpore|torch|perfguard's own; format \d+ since", found["$comment"]), path


def test_the_names_of_schemas_differ():
    assert len(schema_names()) == len(set(schema_names())) == len(SCHEMAS)


def test_every_reference_leads_somewhere():
    for path in SCHEMAS:
        found = load(path)
        for part in parts(found):
            if isinstance(target := part.get("$ref"), str):
                place = found
                for key in target.removeprefix("#/").split("/"):
                    assert key in place, (path, target)
                    place = place[key]


def test_what_is_required_is_described():
    for path in SCHEMAS:
        for part in parts(load(path)):
            if isinstance(part.get("required"), list) and isinstance(part.get("properties"), dict) and "if" not in part:
                open_part = part.get("additionalProperties") is not False
                assert open_part or set(part["required"]) <= set(part["properties"]), path


def test_no_key_is_written_twice():
    def pairs(found):
        names = [name for name, _ in found]
        assert len(names) == len(set(names)), names
        return dict(found)

    for path in SCHEMAS:
        json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)


# -- columns -------------------------------------------------------------------------------------------------------------


def test_every_column_has_a_type_and_a_meaning():
    assert [which for which, part in COLUMNS.items() if not {"type", "const", "enum"} & part.keys()] == []
    assert [which for which, part in COLUMNS.items() if not part.get("description", "").strip()] == []


#: Numbers that name something and measure nothing.
IDENTIFIERS = re.compile(r"^(pid|tid|thread|Step|Index|Metric|.*(_id|Id|ID|_pid|_index| id)|id)$")


def test_every_measured_number_has_a_unit():
    def is_numeric(part):
        types = part.get("type", ())
        return bool(({types} if isinstance(types, str) else set(types)) & {"number", "integer"})

    measured = {
        (name, column): part
        for (name, column), part in COLUMNS.items()
        if is_numeric(part) and not IDENTIFIERS.match(column)
    }
    assert measured
    assert [which for which, part in measured.items() if not part.get("x-unit")] == []


def test_units_are_known_ones():
    units = {part["x-unit"] for path in SCHEMAS for part in parts(load(path)) if "x-unit" in part}
    assert units <= {
        *("1", "ns", "us", "10ns", "ms", "s", "byte", "KB", "MB", "GB", "GB/s", "MB/s", "byte/s", "1/s", "MHz"),
        *("percent", "fraction", "FLOP", "MFLOP", "GFLOP/s", "cycle", "address"),
    }


@pytest.mark.parametrize(("ending", "unit"), [("(ns)", "ns"), ("(us)", "us"), ("(ms)", "ms"), ("(Byte)", "byte")])
def test_a_unit_in_a_columns_name_is_its_unit(ending, unit):
    named = {which: part.get("x-unit") for which, part in COLUMNS.items() if which[1].endswith(ending)}
    assert named == dict.fromkeys(named, unit)


def test_bounds_are_in_order_and_patterns_can_be_compiled():
    for path in SCHEMAS:
        for part in parts(load(path)):
            if isinstance(part.get("minimum"), (int, float)) and isinstance(part.get("maximum"), (int, float)):
                assert part["minimum"] < part["maximum"], path
            if isinstance(part.get("pattern"), str):
                re.compile(part["pattern"])


# -- layouts -------------------------------------------------------------------------------------------------------------


def test_every_layout_file_is_loaded_under_its_own_name():
    assert sorted(layout.id for layout in layouts()) == sorted(path.name.removesuffix(".json") for path in LAYOUTS)


@pytest.mark.parametrize("path", LAYOUTS, ids=lambda path: path.name)
def test_a_layout_keeps_its_schema_and_names_its_source(path):
    document = load(path)
    assert violations(document, "layout") == []
    assert re.search(r"MindSpore|torch|MindFormers|msprof", document["source"])
    for way in document["recognise"]:
        for pattern in (*way.get("texts", {}).values(), way.get("name", ""), way.get("path", "")):
            re.compile(pattern)


@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.id)
def test_a_layout_speaks_of_conditions_that_exist_and_of_its_own_slots(layout):
    needed = [slot.required for slot in layout.slots if slot.required not in ("always", "optional", "never")]
    named = {name for expression in needed for name, _ in parts_of(expression)}
    assert {*layout.conditions, *named} - CONDITIONS.keys() == set()
    names = {slot.name for slot in layout.slots}
    for sources in layout.conditions.values():
        for source in sources:
            spoken = [*source.get("present", ()), *source.get("absent", ()), *source.get("text", {})]
            assert set(spoken) | ({source["slot"]} if "slot" in source else set()) <= names


@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.id)
def test_every_condition_a_slot_needs_can_be_known(layout):
    for slot in layout.slots:
        if slot.required not in ("always", "optional", "never"):
            assert [name for name, _ in parts_of(slot.required) if name not in layout.conditions] == []


SLOTS = [(layout.id, slot) for layout in layouts() for slot in layout.slots]


def test_a_slot_names_a_format_and_a_code_that_exist():
    for layout, slot in SLOTS:
        assert slot.format in {*READERS, *FORMATS, OPAQUE}, (layout, slot.name)
        assert Code[slot.missing].family in "AC", (layout, slot.name)


def test_only_formats_without_structure_go_without_a_schema():
    without = {slot.format for _, slot in SLOTS if not slot.schemas}
    assert without <= {"log", "ir", "dot", OPAQUE}


@pytest.mark.parametrize("layout", layouts(), ids=lambda layout: layout.id)
def test_the_slots_of_a_layout_differ_in_path(layout):
    assert len({slot.path for slot in layout.slots}) == len(layout.slots)


def test_the_schemas_of_artifacts_are_those_of_the_slots():
    assert {name for _, slot in SLOTS for name in slot.schemas} == {name_of(path) for path in ARTIFACTS}


def test_every_format_is_used_by_a_slot():
    assert {*READERS, *FORMATS} <= {slot.format for _, slot in SLOTS}


def test_every_invariant_and_every_source_of_executions_speaks_of_known_slots_and_layouts():
    slots = {slot.name for _, slot in SLOTS}
    ids = {layout.id for layout in layouts()}
    assert INVARIANTS
    for one in INVARIANTS.values():
        assert set(one.needs) <= slots, one.name
        assert set(one.layouts) <= ids, one.name
    for source in SOURCES:
        assert all(is_of_a_slot(table) for table in source.needs)


# -- real files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, path", DOCUMENTS, ids=[f"{name} {path.parent.name}/{path.name[:40]}" for name, path in DOCUMENTS]
)
def test_a_document_of_the_repository_keeps_its_schema(name, path):
    assert violations(load(path), name) == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
@pytest.mark.variants(1)
def test_what_a_real_profiler_wrote_keeps_its_schemas(path):
    contract = inspect(replay(path))
    assert [finding for finding in contract.findings if finding.severity is Severity.ERROR] == []
    found = {artifact.slot.name for cycle in contract.cycles for artifact in cycle.artifacts.values()}
    required = {
        slot.name for one in layouts() if one.id in contract.layouts for slot in one.slots if slot.required == "always"
    }
    assert required <= found


@pytest.mark.parametrize("path", sorted(p for r in RECORDINGS for p in r.rglob("*.json") if "trace" in p.name), ids=str)
def test_a_real_trace_keeps_its_whole_schema_in_jsonschemas_own_words(path):
    name = "trace_view_cpu" if path.name == "trace_view.json" else "torch_trace"
    assert violations(load(path), name) == []


@pytest.mark.parametrize("name, path", DOCUMENTS[:1] + [d for d in DOCUMENTS if d[0] in ("steps", "baseline")][:2])
@pytest.mark.parametrize("change", ["extra", "missing", "newer"])
def test_a_document_that_was_changed_breaks_its_schema(name, path, change):
    document = load(path)
    if change == "extra":
        document["unheard_of"] = 1
    elif change == "missing":
        del document[next(key for key in document if key != "format")]
    else:
        document["format"] = 2
    assert violations(document, name) != []
