"""The pages of docs/reference say what the code says today, and leave out nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from docs.generate import OF_THE_SITE, PAGES, REFERENCE, pages
from docs.generate.settings import variables
from perfguard import plugin
from perfguard.capture import checkout
from perfguard.cli import cli
from perfguard.contract.checks import checks_of
from perfguard.contract.grid import grid
from perfguard.dialects.queries import folders
from perfguard.documents import schema
from perfguard.findings import Code, Severity, advice
from perfguard.judge.verdict import Outcome
from perfguard.measure import METRICS
from perfguard.reports.catalogue import columns
from perfguard.settings import Settings, marker_schema
from tests.test_catalogue import BY_ID

ROOT = Path(__file__).resolve().parents[1]
CODE = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "perfguard").rglob("*.py"))}
OWN_DOCUMENTS = ("report", "baseline", "calibration", "recording", "steps", "timing", "history")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


def test_the_pages_are_not_stale(made):
    """Write them again with: python -m docs.generate."""
    written = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
    kept = {name: text for name, text in made.items() if name not in OF_THE_SITE}
    assert written.keys() - OF_THE_SITE.keys() == kept.keys()
    assert [name for name, text in kept.items() if written[name] != text] == []


def test_no_page_of_the_repository_links_to_one_of_the_site_alone():
    paths = [*REFERENCE.parent.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "llms.txt", *(ROOT / ".github").rglob("*.md")]
    texts = {path: path.read_text(encoding="utf-8") for path in paths if path.name not in OF_THE_SITE}
    links = re.compile(rf"\]\([^)]*\b({'|'.join(map(re.escape, OF_THE_SITE))})")
    assert [str(path) for path, text in texts.items() if links.search(text)] == []


def test_a_reader_finds_everything_by_its_name(made):
    """By construction; but a page that lost its rows would be equal to itself."""
    expected = {
        "index.md": [
            f"(on the site, or `{OF_THE_SITE[name]}`)" if name in OF_THE_SITE else f"]({name})" for name in PAGES
        ],
        "command-line.md": [f"## perfguard {name}" for name in cli.list_commands(None)],
        "settings.md": [f"| `{name}` |" for name in Settings.__dataclass_fields__ if name not in _NO_SETTINGS],
        "marker-and-fixture.md": ["### `perfguard(...)`", *(f"| `{name}` |" for name in marker_schema()["properties"])],
        "metrics.md": [f"| `{name}`" for name in METRICS],
        "findings.md": [f"({code.name.lower()})=\n### {code.name}: {code.value}\n\n* Severity: " for code in Code],
        "grid.md": [f"({row.name.replace('_', '-')})=" for row in grid().rows],
        "layouts.md": [f"\n## {name}\n" for name in BY_ID],
        "tables.md": ["\n### steps\n", "\n### cpu_op_type_info\n", "| `start_ns` | bigint | ns |"],
        "reports.md": [f"(format-{name})=" for name in OWN_DOCUMENTS],
        "python-api.md": ["### `perfguard.StepWindow`", "### `perfguard.testing.generate`"],
    }
    assert expected.keys() == made.keys()
    lost = [(name, part) for name, parts in expected.items() for part in parts if part not in made[name]]
    assert lost == []


#: Fields of `Settings` that are no keys: the project, and those of a marker.
_NO_SETTINGS = ("root", "marker_tolerance", "marker_ignore", "marker_target", "isolated", "period")


def test_links_lead_to_pages_and_anchors(made):
    anchors = {name: {*re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE)} for name, text in made.items()}
    lost = []
    for name, text in made.items():
        for page, anchor in re.findall(r"\]\(([\w.-]*)(?:#([\w-]+))?\)", re.sub(r"`[^`\n]*`", "", text)):
            target = page or name
            if target not in made or (anchor and anchor not in anchors[target]):
                lost.append(f"{name}: {page}#{anchor}")
    assert lost == []


def test_no_cell_and_no_text_is_missing(made):
    """A meaning that nobody wrote is an empty last cell, or a None."""
    empty = [
        f"{name}: {line}"
        for name, text in made.items()
        if name not in OF_THE_SITE
        for line in text.splitlines()
        if re.search(r"\|  \|$|\| *None *\||: None\b", line)
    ]
    assert empty == []


def test_every_key_of_perfguards_own_documents_has_a_meaning():
    assert [f"{name}: {key}" for name in OWN_DOCUMENTS for key, *_, meaning in columns(name) if not meaning] == []


def test_the_marker_that_pytest_shows_names_every_argument():
    declared = re.search(r'"perfguard\(([^)]*)\)', Path(plugin.__file__).read_text(encoding="utf-8")).group(1)
    assert declared.replace("=", "").split(", ") == [*marker_schema()["properties"]]


def test_every_environment_variable_that_the_code_reads_is_described():
    read = {
        name
        for path, text in CODE.items()
        if "injected" not in path.parts
        for name in re.findall(r'environ\w*(?:\.get\(|\.pop\(|\[)"([A-Z_]+)"', text)
    }
    read |= {*checkout._BRANCHES, *checkout._PAGES}
    described = {name for names, _ in variables() for name in names}
    assert read - described == set()
    # Those that are read by another name: a constant, or a loop over names.
    assert [name for name in described if not any(f'"{name}"' in text for text in CODE.values())] == []


# -- severities and outcomes, which advice.toml states ---------------------------------------------------------------------


def test_the_severities_of_a_code_are_those_that_its_checks_have():
    wrong = []
    for check in (check for folder in folders() for check in checks_of(folder)):
        severities = {check.severity}
        if re.search(r"\bas severity\b", check.query):
            severities |= {one for one in Severity if f"'{one.value}'" in check.query}
        if not severities <= {*advice(check.code).severity}:
            wrong.append(f"{check.place} {check.name}: {check.code.name} {severities}")
    assert wrong == []


def test_the_severities_of_a_code_are_those_that_functions_give_it():
    """Where a call names both: `Finding(code=Code.A103, severity=Severity.NOTE)`, or a variable with a severity."""
    found = {pair for text in CODE.values() if "Code." in text for pair in _stated(ast.parse(text))}
    assert len(found) > 40
    assert sorted(pair for pair in found if Severity[pair[1]] not in advice(Code[pair[0]]).severity) == []


#: The severity of what a function makes without being told one.
MADE_BY = {"Finding": ("ERROR",), "_finding": ("ERROR",), "_note": ("NOTE",)}


def _stated(tree: ast.AST):
    """Yield the names of codes and severities that are arguments of one call."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        assigned = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            given = [*call.args, *(one.value for one in call.keywords)]
            given = [assigned.get(one.id, one) if isinstance(one, ast.Name) else one for one in given]
            severities = [found for one in given for found in _members(one, "Severity")]
            if not severities:
                severities = [(name, {}) for name in MADE_BY.get(getattr(call.func, "id", ""), ())]
            for code, when in (found for one in given for found in _members(one, "Code")):
                # `code=X if slower else Y, severity=V if slower else W` is X with V, and Y with W.
                yield from ((code, name) for name, then in severities if _agree(when, then))


def _agree(one: Mapping[str, bool], other: Mapping[str, bool]) -> bool:
    return all(other.get(condition, is_so) is is_so for condition, is_so in one.items())


def _members(value: ast.expr, enumeration: str, when: Mapping[str, bool] | None = None):
    """Yield the members of an enumeration that a value may be, with the conditions of an `if ... else` that it is of."""
    when = when or {}
    if isinstance(value, ast.IfExp):
        condition = ast.dump(value.test)
        yield from _members(value.body, enumeration, {**when, condition: True})
        yield from _members(value.orelse, enumeration, {**when, condition: False})
    elif isinstance(value, ast.Attribute) and getattr(value.value, "id", "") == enumeration:
        yield value.attr, when


def test_an_outcome_is_one_that_there_is():
    outcomes = {code.name: advice(code).outcome for code in Code}
    unknown = {name: text for name, text in outcomes.items() if text and text not in Outcome.__members__}
    # Of a run, or of a refresh: sentences.
    assert unknown.keys() == {"B104", "B105", "B110", "B111"}
    assert {code.name for code in Code if code.family in "ASIC" and outcomes[code.name] not in ("INVALID", "")} == set()
    assert schema("report")["properties"]["workloads"]["items"]["properties"]["outcome"]["enum"] == [
        *Outcome.__members__
    ]
