"""Conditions: what the caller may say, who is believed first, and what follows for the files that must be there."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.artifacts.conditions import (
    CONDITIONS,
    Expectation,
    Known,
    contradicted,
    evaluate,
    expectation,
    known_conditions,
    parts_of,
    shown,
    undecided,
)
from perfguard.artifacts.layout import Layout, Slot, layouts
from perfguard.artifacts.survey import FoundCycle, FoundFile
from perfguard.errors import UsageError

NAMES = sorted(CONDITIONS)


def a_cycle(conditions: dict[str, list[dict[str, Any]]], *files: Path) -> FoundCycle:
    """A cycle with a file in the slot of the file's own stem, and a layout that reads `conditions`."""
    layout = Layout(
        id="a",
        title="t",
        source="s",
        order=1,
        cycle="directory",
        ranks="one",
        nests=False,
        recognise=(),
        conditions={name: tuple(sources) for name, sources in conditions.items()},
        slots=(),
    )
    found = tuple(
        FoundFile(slot=Slot(name=path.stem, path=path.name, format="json"), path=path, rank=None) for path in files
    )
    return FoundCycle(layout=layout, place=Path(), files=found)


def known(
    conditions: dict[str, list[dict[str, Any]]],
    *files: Path,
    documents: dict[str, Any] | None = None,
    said: dict[str, dict[str, bool]] | None = None,
) -> dict[str, tuple[bool, str]]:
    found = known_conditions(a_cycle(conditions, *files), documents or {}, said or {})
    return {name: (one.value, one.because) for name, one in found.items()}


# -- what the caller says --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "conditions", "ranks", "steps"),
    [
        ([], {}, None, None),
        (["graph"], {"graph": True}, None, None),
        (["no-graph"], {"graph": False}, None, None),
        (["pynative"], {"graph": False}, None, None),
        (["graph,memory,no-shapes"], {"graph": True, "memory": True, "shapes": False}, None, None),
        (["graph", "memory"], {"graph": True, "memory": True}, None, None),
        ([" graph , memory "], {"graph": True, "memory": True}, None, None),
        (["level0"], {"level1": False, "level2": False}, None, None),
        (["level1"], {"level1": True, "level2": False}, None, None),
        (["level2"], {"level1": True, "level2": True}, None, None),
        (["no-level2"], {"level2": False}, None, None),
        (["cpu"], {"cpu_device": True, "gpu": False}, None, None),
        (["gpu"], {"cpu_device": False, "gpu": True}, None, None),
        (["ascend"], {"cpu_device": False, "gpu": False}, None, None),
        (["single"], {"distributed": False}, None, None),
        (["ranks=8"], {}, 8, None),
        (["steps=3,ranks=1"], {}, 1, 3),
        (["ranks=2", "ranks=2"], {}, 2, None),
        (["graph,ranks=8", "steps=999999999"], {"graph": True}, 8, 999_999_999),
    ],
)
def test_what_is_expected_is_read(texts, conditions, ranks, steps):
    assert expectation(texts) == Expectation(conditions=conditions, ranks=ranks, steps=steps)


@pytest.mark.parametrize("name", NAMES)
def test_every_condition_can_be_expected_on_and_off(name):
    assert expectation([name]).conditions[name] is True
    assert expectation([f"no-{name}"]).conditions == {name: False}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grahp", "--expect 'grahp' is not known; did you mean 'graph'?"),
        ("no-grahp", "--expect 'no-grahp' is not known; did you mean 'graph'?"),
        ("pynativ", "did you mean 'pynative'?"),
        ("levle1", "did you mean 'level1'?"),
        ("Graph", "did you mean 'graph'?"),
        ("MEMORY", "did you mean 'memory'?"),
        ("memory ranks=2", "--expect 'memory ranks=2': a comma separates two words, as in graph,ranks=8."),
        ("no-graph,memory,graph", "--expect no-graph,graph: they exclude each other"),
        ("graph,pynative", "--expect graph,pynative: they exclude each other; leave one of them out."),
        ("level1,level2", "--expect level1,level2: they exclude each other"),
        ("ranks=2,ranks=4", "--expect ranks=2,ranks=4: it is one number, not two"),
        ("zzz", "known are graph, sink, "),
        ("no-", "--expect 'no-' is not known"),
        ("no-no-graph", "--expect 'no-no-graph' is not known"),
        ("ranks", "--expect 'ranks' is not known"),
        ("ranks=", "--expect 'ranks=': numbers are ranks=N, cycles=N, steps=N, "),
        ("ranks=0", "numbers are ranks=N"),
        ("ranks=-1", "numbers are ranks=N"),
        ("ranks=08", "numbers are ranks=N"),
        ("ranks=8.0", "numbers are ranks=N"),
        ("ranks= 8", "numbers are ranks=N"),
        ("ranks=٣", "numbers are ranks=N"),
        ("ranks=9999999999", "numbers are ranks=N"),
        ("graph=on", "numbers are ranks=N"),
        ("rank=8", "numbers are ranks=N"),
        ("=8", "numbers are ranks=N"),
    ],
)
def test_what_cannot_be_expected_is_refused_with_the_nearest(text, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        expectation([text])


@pytest.mark.parametrize("text", ["", " ", ",", " , ,"])
def test_blank_words_expect_nothing(text):
    assert expectation([text]) == Expectation()


# -- sources ---------------------------------------------------------------------------------------------------------

INFO = {"on": True, "off": False, "deep": {"er": {"on": True}}, "level": "Level1", "n": 2, "none": None, "empty": ""}
MORE = {"list": ["CPU", "NPU"], "nothing": [], "flags": [False, True], "a.b": True}
DOCUMENT = {"info": INFO | MORE}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"path": "on"}, True),
        ({"path": "off"}, False),
        ({"path": "deep.er.on"}, True),
        ({"path": "deep.er"}, None),
        ({"path": "deep.missing.on"}, None),
        ({"path": "on.further"}, None),
        ({"path": "missing"}, None),
        ({"path": "level"}, None),
        ({"path": "n"}, None),
        ({"path": "none"}, None),
        ({"path": "none", "pattern": "."}, None),
        ({"path": "level", "pattern": "Level[12]$"}, True),
        ({"path": "level", "pattern": "Level2$"}, False),
        ({"path": "n", "pattern": "^2$"}, True),
        ({"path": "empty", "pattern": "."}, False),
        ({"path": "on", "pattern": "^true$"}, True),
        ({"path": "off", "pattern": "^true$"}, False),
        ({"path": "list", "pattern": "^NPU$"}, True),
        ({"path": "list", "pattern": "^GPU$"}, False),
        ({"path": "list"}, None),
        ({"path": "nothing", "pattern": "."}, False),
        ({"path": "flags", "pattern": "true"}, True),
        ({"path": "a.b"}, None),
    ],
)
def test_a_value_of_a_document_is_a_source(source, value):
    found = known({"memory": [{"slot": "info", **source}]}, documents=DOCUMENT)
    assert found == ({} if value is None else {"memory": (value, f"{source['path']} of info")})


@pytest.mark.parametrize("document", [None, [], 5, "text", [{"on": True}]])
def test_a_document_of_another_shape_says_nothing(document):
    assert known({"memory": [{"slot": "info", "path": "on"}]}, documents={"info": document}) == {}
    assert known({"memory": [{"slot": "other", "path": "on"}]}, documents={"info": document}) == {}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"present": ["a"]}, (True, "a.json is there")),
        ({"present": ["x", "b", "a"]}, (True, "b.json is there")),
        ({"present": ["x"]}, None),
        ({"absent": ["a"]}, (False, "a.json is there")),
        ({"absent": ["x", "b"]}, (False, "b.json is there")),
        ({"absent": ["x"]}, None),
        ({"always": True}, (True, "layout a")),
        ({"always": False}, (False, "layout a")),
        ({"text": {"a": "^second"}}, (True, "the text of a.json")),
        ({"text": {"a": "^third"}}, (False, "the text of a.json")),
        ({"text": {"x": "."}}, None),
    ],
)
def test_a_file_is_a_source(tmp_path, source, value):
    (tmp_path / "a.json").write_text("first\nsecond\n" + " " * 70_000 + "\nthird")
    found = known({"memory": [source]}, tmp_path / "a.json", tmp_path / "b.json")
    assert found == ({} if value is None else {"memory": value})


@pytest.mark.usefixtures("must_not_hang")
def test_a_text_is_not_looked_for_in_what_is_no_file(tmp_path):
    import os

    os.mkfifo(tmp_path / "a.json")
    found = known({"memory": [{"text": {"a": "x"}}]}, tmp_path / "a.json")
    assert found == {"memory": (False, "the text of a.json")}


@pytest.mark.parametrize(
    ("sources", "value"),
    [
        ([{"slot": "info", "path": "missing"}, {"present": ["a"]}], True),
        ([{"slot": "info", "path": "off"}, {"present": ["a"]}], False),
        ([{"present": ["x"]}, {"absent": ["a"]}, {"always": True}], False),
        ([{"present": ["x"]}, {"absent": ["x"]}], None),
        ([], None),
    ],
)
def test_the_first_source_that_knows_decides(tmp_path, sources, value):
    found = known({"memory": sources}, tmp_path / "a.json", documents=DOCUMENT)
    assert {name: one for name, (one, _) in found.items()} == ({} if value is None else {"memory": value})


# -- who is believed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("you", "recording", "source", "winner"),
    [
        *((y, r, s, "you") for y, r, s in itertools.product((True, False), (True, False, None), (True, False, None))),
        *((None, r, s, "the recording") for r, s in itertools.product((True, False), (True, False, None))),
        *((None, None, s, "layout a") for s in (True, False)),
        (None, None, None, None),
    ],
)
def test_you_go_before_the_recording_and_both_before_the_files(you, recording, source, winner):
    said = {
        who: {} if value is None else {"memory": value} for who, value in (("you", you), ("the recording", recording))
    }
    found = known({"memory": [] if source is None else [{"always": source}]}, said=said)
    values = {"you": you, "the recording": recording, "layout a": source}
    assert found == ({} if winner is None else {"memory": (values[winner], winner)})


def test_what_is_stated_counts_where_the_layout_names_no_source():
    assert known({}, said={"you": {"graph": True}}) == {"graph": (True, "you")}


@pytest.mark.parametrize(
    ("said", "sources", "levels"),
    [
        ({"level2": True}, {}, (True, True)),
        ({"level1": False}, {}, (False, False)),
        ({"level1": True}, {}, (True, None)),
        ({"level2": False}, {}, (None, False)),
        ({}, {"level2": True}, (True, True)),
        ({}, {"level1": False}, (False, False)),
        ({}, {"level1": True, "level2": False}, (True, False)),
        ({"level1": False}, {"level2": True}, (False, False)),
        ({"level2": True}, {"level1": False}, (True, True)),
    ],
)
def test_a_level_speaks_of_the_other_unless_somebody_more_believed_does(said, sources, levels):
    found = known({name: [{"always": value}] for name, value in sources.items()}, said={"you": said})
    assert tuple(found.get(name, (None,))[0] for name in ("level1", "level2")) == levels


# -- expressions -----------------------------------------------------------------------------------------------------

PARTS = st.dictionaries(st.sampled_from(NAMES), st.booleans(), min_size=1, max_size=5)
STATES = st.dictionaries(st.sampled_from(NAMES), st.booleans(), max_size=8)


def expression(parts: dict[str, bool]) -> str:
    return " & ".join(name if wanted else f"!{name}" for name, wanted in parts.items())


@given(parts=PARTS)
def test_the_parts_of_an_expression_are_read_back(parts):
    assert parts_of(expression(parts)) == list(parts.items())


@given(parts=PARTS, states=STATES)
def test_an_expression_is_what_all_completions_of_the_unknown_agree_on(parts, states):
    unknown = [name for name in parts if name not in states]
    verdicts = {
        all((states | dict(zip(unknown, values, strict=True)))[name] is wanted for name, wanted in parts.items())
        for values in itertools.product((True, False), repeat=len(unknown))
    }
    expected = verdicts.pop() if len(verdicts) == 1 else None
    said = {name: Known(value, "x") for name, value in states.items()}
    assert evaluate(expression(parts), said) is expected
    assert undecided(expression(parts), said) == unknown
    assert (expected is None) <= bool(unknown)


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("graph", [("graph", True)]),
        ("!graph", [("graph", False)]),
        ("! graph", [("graph", False)]),
        ("graph&memory", [("graph", True), ("memory", True)]),
        ("graph & (!memory)", [("graph", True), ("memory", False)]),
        ("(graph & !memory) & text", [("graph", True), ("memory", False), ("text", True)]),
    ],
)
def test_an_expression_may_have_blanks_and_parentheses(expression, parts):
    assert parts_of(expression) == parts


def test_every_condition_is_spoken_of_by_a_layout():
    spoken = {name for one in layouts() for name in one.conditions}
    for one in layouts():
        for slot in one.slots:
            if slot.required not in ("always", "optional", "never"):
                spoken |= {name for name, _ in parts_of(slot.required)}
    assert CONDITIONS.keys() - spoken == set()


# -- against what the files say --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "told", "says"),
    [
        ("memory", True, Known(False, "a file"), "memory"),
        ("memory", False, Known(True, "a file"), "no-memory"),
        ("memory", True, Known(True, "a file"), None),
        ("memory", True, None, None),
        ("memory", True, Known(False, "a file is there", is_stated=False), None),
        ("distributed", True, Known(False, "a file"), None),
        ("distributed", False, Known(True, "a file"), "no-distributed"),
    ],
)
def test_what_was_said_contradicts_and_what_is_missing_does_not(name, value, told, says):
    found = [word for word, _ in contradicted({name: value}, {} if told is None else {name: told})]
    assert found == ([] if says is None else [says])


def test_an_expression_is_worded_as_it_is_expected():
    assert shown("graph & !sink") == "graph, no-sink"
