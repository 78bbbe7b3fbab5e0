"""The documentation is true: its commands are run and print what it shows, its code and settings are accepted."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import click
import pytest

import perfguard
from perfguard.cli import cli
from perfguard.settings import read_settings
from tests.docs.commands import difference, measures, new_project, normal, outputs
from tests.docs.pages import OF_THEIR_OWN_TESTS, REASONS, ROOT, Block, blocks_of, page_paths

pytest.importorskip("markdown_it", reason="the docs are not installed: pip install -e '.[docs]'")

BLOCKS = [block for path in page_paths() for block in blocks_of(path)]
CONSOLES = sorted({block.page for block in BLOCKS if block.language == "console" and "shown" not in block.marks})
TIMED = sorted({block.page for block in BLOCKS if "timed" in block.marks})
OWN_CHECK = "-- check: no_spans\n-- code: U001\n-- needs: spans\n-- message: {row}\nselect cycle, row from spans\n"
#: What is not run, by page and reason.
SHOWN = {
    ("README.md", "measured times"): 1,
    ("docs/explanation/architecture.md", "a drawing"): 2,
    ("docs/explanation/error-rates.md", "measured times"): 6,
    ("docs/explanation/ledger.md", "measured times"): 1,
    ("docs/how-to/ab.md", "another release"): 2,
    ("docs/how-to/ab.md", "measured times"): 1,
    ("docs/how-to/analyse-later.md", "a training"): 1,
    ("docs/how-to/callbacks.md", "another release"): 1,
    ("docs/how-to/gate-a-wheel.md", "another release"): 1,
    ("docs/how-to/history.md", "measured times"): 1,
    ("docs/how-to/mindspeed-mm.md", "a training"): 1,
    ("docs/how-to/read-the-result.md", "measured times"): 5,
    ("docs/how-to/script.md", "a training"): 1,
    ("docs/tutorial/first-ab.md", "measured times"): 2,
}
#: Languages whose blocks nobody runs unless a test below does.
KNOWN = {"console", "bash", "python", "toml", "yaml", "sql", "text", "json", "ini"}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that every page's project is a copy of."""
    return new_project(tmp_path_factory.mktemp("docs") / "project")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "timed"),
    [
        # What a newcomer types first is tried before each commit.
        *((page, False) for page in CONSOLES if page.startswith(("README", "docs/tutorial/"))),
        *(
            pytest.param(page, False, marks=pytest.mark.exhaustive)
            for page in CONSOLES
            if not page.startswith(("README", "docs/tutorial/"))
        ),
        *(pytest.param(page, True, marks=pytest.mark.exhaustive) for page in TIMED),
    ],
)
@pytest.mark.variants(1)
def test_commands_print_what_the_page_shows(page, timed, recordings, tmp_path):
    for attempt in range(3):
        place = Path(shutil.copytree(recordings, tmp_path / str(attempt) / "project"))
        wrong = differences(page, place, timed=timed)
        # Other tests may take the machine while the page's own are timed; what is wrong with the page is so each time.
        if not (timed and wrong):
            break
    assert not wrong, "\n\n".join(wrong)


def differences(page: str, place: Path, *, timed: bool) -> list[str]:
    """Run the commands of a page in its project; return where they print something else than the page shows."""
    wrong = []
    for block, command, shown, printed in outputs(ROOT / page, place, timed=timed):
        measured = measures(command)
        if missing := difference(normal(shown, measured=measured), normal(printed, measured=measured)):
            wrong.append(f"{block.place}\n$ {command}\nlacks:\n{missing}\nprinted:\n{printed}")
    return wrong


def command_lines() -> list[tuple[Block, str]]:
    """Return the commands of the blocks that show no output, without their comments."""
    shell = [block for block in BLOCKS if block.language == "bash" and "command" not in block.marks]
    lines = [(block, re.sub(r"\s+#.*$|^#.*$", "", line)) for block in shell for line in block.text.splitlines()]
    return [(block, line.strip()) for block, line in lines if line.strip()]


def test_commands_without_output_have_options_that_exist(pytestconfig):
    options = pytest_options(pytestconfig)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    wrong = []
    for block, line in command_lines():
        words = shlex.split(line)
        try:
            if words[0] == "perfguard":
                parse(words[1:])
            elif words[0] == "pytest":
                unknown = {one.partition("=")[0] for one in words if one.startswith("--")} - options
                assert not unknown, f"unknown options: {unknown}"
            for named in re.findall(r"perfguard(?:-ml)?\[([\w,]+)\]", line):
                assert set(named.split(",")) <= extras, f"unknown extras: {named}"
        except (click.ClickException, AssertionError) as error:
            wrong.append(f"{block.place} {line}\n  {error}")
    assert not wrong, "\n".join(wrong)


def pytest_options(config: pytest.Config) -> set[str]:
    """Return every long option that pytest has here, with its plugins."""
    groups = [config._parser._anonymous, *config._parser._groups]
    return {name for group in groups for option in group.options for name in option.names() if name.startswith("--")}


def parse(words: list[str]) -> None:
    """Parse a command of perfguard as click does; nothing is run."""
    command, context = cli, context_of(cli, None)
    while isinstance(command, click.Group):
        _, left, _ = command.make_parser(context).parse_args(args=words)
        name, found, words = command.resolve_command(context, left)
        assert found is not None, f"unknown command: {name}"
        command, context = found, context_of(found, context)
    command.make_parser(context).parse_args(args=words)


def context_of(command: click.Command, parent: click.Context | None) -> click.Context:
    """Return what click would parse a command in. A command keeps the first help option that it is asked for."""
    return click.Context(command, parent=parent, resilient_parsing=True, **command.context_settings)


def test_python_is_python_and_its_names_of_perfguard_exist():
    wrong = []
    for block in BLOCKS:
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text, block.place)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "perfguard":
                module = importlib.import_module(node.module)
                wrong += [f"{block.place} {one.name}" for one in node.names if not hasattr(module, one.name)]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "perfguard":
                there = hasattr(perfguard, node.attr) or hasattr(perfguard.Guard, node.attr)
                wrong += [] if there else [f"{block.place} perfguard.{node.attr}"]
    assert not wrong


def test_settings_are_accepted(tmp_path):
    (tmp_path / "perf" / "checks").mkdir(parents=True)
    (tmp_path / "perf" / "checks" / "own.sql").write_text(OWN_CHECK, encoding="utf-8")
    for block in BLOCKS:
        if block.language == "toml" and "[tool.perfguard" in block.text:
            (tmp_path / "pyproject.toml").write_text(block.text, encoding="utf-8")
            read_settings(tmp_path)
        elif block.language == "toml":
            tomllib.loads(block.text)


def test_workflows_are_yaml():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    for block in BLOCKS:
        if block.language == "yaml":
            document = yaml.safe_load(block.text)
            assert document, block.place
            if "jobs" in document:
                assert document["permissions"] == {"contents": "read"}, block.place


def test_a_block_is_of_a_known_language_and_runs_or_says_why_not():
    wrong = [f"{block.place} {block.language!r}" for block in BLOCKS if block.language not in KNOWN]
    wrong += [f"{b.place} {b.marks['shown']!r}" for b in BLOCKS if b.marks.get("shown", "a drawing") not in REASONS]
    wrong += [b.place for b in BLOCKS if b.language == "text" and not {"shown", "file"} & set(b.marks)]
    wrong += [b.place for b in BLOCKS if b.language == "sql" and "file" not in b.marks]
    assert not wrong


def test_what_is_shown_and_not_run():
    """A block more, or for another reason, is a decision: it changes this table."""
    marked = [block for block in BLOCKS if "shown" in block.marks and block.page not in OF_THEIR_OWN_TESTS]
    shown = Counter((block.page, block.marks["shown"]) for block in marked)
    assert dict(shown) == SHOWN
