"""The guides for contributors: every name and every path that they give in backticks exists, and is where they say it is.

A name of Python has its place in `PLACES`, a word of a file format or a setting its file in `WORDS`. A name in neither fails:
a name somewhere in the package is no proof that the guide is right.
"""

from __future__ import annotations

import ast
import keyword
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

GUIDES = (ROOT / ".github" / "CONTRIBUTING.md", DOCS / "how-to" / "extend.md")
#: The definition that a name of the guides stands for: a module, and a name in it, of a class a field or method of it.
PLACES = {
    "BACKENDS": "perfguard.capture:BACKENDS",
    "Code": "perfguard.findings:Code",
    "Engine": "perfguard.engines:Engine",
    "Extract": "perfguard.dialects.extract:Extract",
    "FORMAT": "perfguard.documents:FORMAT",
    "FRAMEWORKS": "perfguard.capture.injected.sitecustomize:FRAMEWORKS",
    "Framework": "perfguard.capture.injected.perfguard_bootstrap.recorder:Framework",
    "INVARIANTS": "perfguard.dialects.invariants:INVARIANTS",
    "PARAMETERS": "perfguard.capture.mindspore_options:PARAMETERS",
    "READERS": "perfguard.artifacts.readers:READERS",
    "RECORDING_INVARIANTS": "perfguard.dialects.invariants.whole_recording:RECORDING_INVARIANTS",
    "REPORTERS": "perfguard.reports:REPORTERS",
    "REVISION": "perfguard.stores.history.tables:REVISION",
    "RunReport": "perfguard.reports:RunReport",
    "SOURCES": "perfguard.dialects.listed:SOURCES",
    "STORES": "perfguard.stores:STORES",
    "Unreadable": "perfguard.artifacts.table:Unreadable",
    "UsageError": "perfguard.errors:UsageError",
    "by_run": "perfguard.measure.measurement:Metric.by_run",
    "extract_of": "perfguard.dialects.extract:extract_of",
    "opened": "perfguard.engines.local:opened",
    "perfguard.capture.Backend": "perfguard.capture:Backend",
    "perfguard.reports.document.report_document": "perfguard.reports.document:report_document",
    "perfguard.stores.Store": "perfguard.stores:Store",
    # The example of a reader with exactly the arguments of the guide.
    "read": "perfguard.artifacts.readers.whitespace:read_whitespace",
    "spread": "perfguard.engines.spread:spread",
    "tables.REVISION": "perfguard.stores.history.tables:REVISION",
    "test_what_is_shown_and_not_run": "tests.docs.test_pages:test_what_is_shown_and_not_run",
    "text": "perfguard.reports:Reporter.text",
}
#: Words of formats, settings and groups, by a pattern and the file in which it is.
WORDS = {
    "X": (r"fill_\(\\w\+\)", "perfguard/dialects/queries.py"),
    "fill_X": (r"fill_\(\\w\+\)", "perfguard/dialects/queries.py"),
    "always": ('"always"', "schemas/layout.schema.json"),
    "never": ('"never"', "schemas/layouts/ms-2.0.json"),
    "optional": ('"optional"', "schemas/layouts/ms-2.0.json"),
    "opaque": ('= "opaque"', "perfguard/artifacts/readers/__init__.py"),
    "order": ('"order": {', "schemas/layout.schema.json"),
    "otherwise": ('"otherwise": {', "schemas/layout.schema.json"),
    "tables": ('"tables": {', "schemas/layout.schema.json"),
    "tolerance": ('KEYS = .*"tolerance"', "perfguard/dialects/headers.py"),
    "source": ('KEYS = .*"source"', "perfguard/dialects/headers.py"),
    "properties": ('"properties": {', "schemas/layout.schema.json"),
    "description": ('"description": ', "schemas/layout.schema.json"),
    "baselines": (r"^## Keys of `\[tool.perfguard\]`$(.|\n)*^\| `baselines` \|", "docs/reference/settings.md"),
    "checks": (r"^## Keys of `\[tool.perfguard\]`$(.|\n)*^\| `checks` \|", "docs/reference/settings.md"),
    "console": ("console", "tests/docs/pages.py"),
    "slow": ('"slow: ', "pyproject.toml"),
    "exhaustive": ('"exhaustive: ', "pyproject.toml"),
    "pytest.mark.variants": (r'"variants\(n\): ', "pyproject.toml"),
    **{
        f"perfguard.{name}": (f'"{name}"', f"perfguard/{module}")
        for name, module in {
            "backends": "capture/__init__.py",
            "dialects": "extensions.py",
            "readers": "artifacts/readers/__init__.py",
            "reporters": "reports/__init__.py",
            "stores": "stores/__init__.py",
        }.items()
    },
}
#: Names of other packages.
OF_OTHERS = {"concurrent.futures.Executor": "the standard library's", "op": "Alembic's", "create_all": "SQLAlchemy's"}
#: What a command makes, or what an extension brings.
MADE = frozenset({"build/docs/index.html", "layouts/", "artifacts/"})
NAME = re.compile(r"@?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\((.*)\))?(?: -> \w+)?")
PATH = re.compile(r"[\w./-]+/[\w./-]*|[\w-]+\.(?:py|toml|sql|md)")
#: A name, and the file or folder that the guide says it is in.
PLACED = re.compile(r"`([^`\n]+)`(?:,? (?:of|in)| \()\s*`([^`\n]+)`")
BELOW = (ROOT, ROOT / "perfguard", ROOT / "perfguard" / "dialects", ROOT / "perfguard" / "artifacts")


def text_of(path: Path) -> str:
    """Return a guide without its blocks of code."""
    return re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def quoted(path: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text_of(path))


def names_in(words: list[str]) -> dict[str, str | None]:
    """Return what looks like a name of Python's, and its arguments where it has any."""
    found = {}
    for word in words:
        match = NAME.fullmatch(word)
        if match is not None and not keyword.iskeyword(word) and not PATH.fullmatch(word):
            found[match[1]] = match[2]
    return found


def module_of(name: str) -> Path:
    """Return the file of a module."""
    place = ROOT.joinpath(*name.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def definitions(path: Path) -> dict[str, ast.AST]:
    """Return what a module defines at its top, and the fields and methods of its classes as `Class.name`."""
    found: dict[str, ast.AST] = {}

    def add(nodes: list[ast.stmt], prefix: str = "") -> None:
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[prefix + node.name] = node
                if isinstance(node, ast.ClassDef):
                    add(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update((prefix + one.id, node) for one in targets if isinstance(one, ast.Name))

    add(ast.parse(path.read_bytes()).body)
    return found


def wrong(name: str, arguments: str | None = None) -> str:
    """Return what is wrong with a name of a guide; empty if it is where it is said to be."""
    if name in OF_OTHERS:
        return ""
    if name in WORDS:
        pattern, file = WORDS[name]
        is_there = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        return "" if is_there else f"{file} lacks {name}"
    if name not in PLACES:
        return f"{name} has no place"
    module, _, inside = PLACES[name].partition(":")
    path = module_of(module)
    node = definitions(path).get(inside) if path.is_file() else None
    if node is None:
        return f"{module} lacks {inside}"
    if arguments is not None and isinstance(node, ast.FunctionDef):
        stated = [one.partition(":")[0].strip() for one in arguments.split(",")]
        has = [one.arg for one in node.args.args if one.arg != "self"]
        if has != stated:
            return f"{inside} takes {has}, not {stated}"
    return ""


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_name_is_where_its_place_is(guide):
    names = names_in(quoted(guide))
    assert len(names) >= 20
    assert [what for name, arguments in names.items() if (what := wrong(name, arguments))] == []


def test_every_place_is_of_a_name_in_a_guide():
    named = {name for guide in GUIDES for name in names_in(quoted(guide))}
    assert (PLACES.keys() | WORDS.keys() | OF_OTHERS.keys()) - named == set()


@pytest.mark.parametrize(
    ("name", "arguments", "what"),
    [
        # A decorator that there is no more; a name that the package has, and no guide may use without a place.
        ("recording_invariant", "", "recording_invariant has no place"),
        ("verdict", None, "verdict has no place"),
        ("opened", "jobs", "opened takes ['jobs', 'scheduler'], not ['jobs']"),
    ],
)
def test_a_name_without_a_place_or_with_other_arguments_is_found(name, arguments, what):
    assert wrong(name, arguments) == what


def test_a_name_that_was_moved_is_found(monkeypatch):
    monkeypatch.setitem(PLACES, "READERS", "perfguard.capture:READERS")
    monkeypatch.setitem(PLACES, "Code", "perfguard.no_module:Code")
    monkeypatch.setitem(WORDS, "slow", ('"quick: ', "pyproject.toml"))
    assert [wrong(name) for name in ("READERS", "Code", "slow")] == [
        "perfguard.capture lacks READERS",
        "perfguard.no_module lacks Code",
        "pyproject.toml lacks slow",
    ]


def misplaced(text: str) -> list[str]:
    """Return names that are not in the file, or in no module of the folder, that stands beside them."""
    found = []
    for word, place in PLACED.findall(text):
        match, where = NAME.fullmatch(word), place.partition("<")[0].partition("*")[0]
        if match is None or not PATH.fullmatch(place) or match[1] not in PLACES:
            continue
        module, _, inside = PLACES[match[1]].partition(":")
        file = module_of(module)
        is_there = any(
            file == one or file.is_relative_to(one) for below in BELOW if (one := below / where.rstrip("/")).exists()
        )
        # A bare name of a file is enough where it is the module's.
        if not is_there and file.name != where:
            found.append(f"{inside} is not in {place}")
    return found


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_name_is_in_the_file_that_the_guide_names_with_it(guide):
    text = text_of(guide)
    assert len([1 for word, place in PLACED.findall(text) if PATH.fullmatch(place)]) >= 4
    assert misplaced(text) == []


def test_a_name_beside_another_file_is_found():
    text = "in `READERS` of `perfguard/capture`, `Extract` (`perfguard/dialects/extract.py`), `FORMAT` in `gate.py`"
    assert misplaced(text) == ["READERS is not in perfguard/capture", "FORMAT is not in gate.py"]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_keyword_of_a_schema_is_read_by_the_code(guide):
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "perfguard").rglob("*.py"))
    words = {word for word in quoted(guide) if word.startswith("x-")}
    assert {word for word in words if f'"{word}"' not in code} == set()


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_every_path_is_there(guide):
    """A path is below the repository, or below the package; one with a placeholder has its folder there."""
    paths = [word.partition("<")[0].partition("*")[0] for word in quoted(guide) if "/" in word or PATH.fullmatch(word)]
    paths = [one.removeprefix(".venv/bin/") for one in paths if PATH.fullmatch(one) and not one.startswith(".venv")]
    gone = [one for one in paths if not any((place / one).exists() for place in BELOW)]
    gone = [one for one in gone if "/" in one or not any((ROOT / "perfguard").rglob(one))]
    assert [one for one in gone if one not in MADE] == []
