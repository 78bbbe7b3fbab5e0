"""Foreign text: what a stranger wrote into any field of a report stays text, in one line, wherever perfguard shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from perfguard.errors import PerfguardError
from perfguard.reports import RunReport
from perfguard.reports.document import report_json
from perfguard.reports.github import workflow_commands
from perfguard.reports.markdown import report_markdown
from perfguard.reports.openmetrics import report_openmetrics
from perfguard.reports.reading import read_run
from perfguard.reports.terminal import checked, failure_message, summary
from perfguard.screen import Screen
from tests.reports.runs_to_show import LINKS, failing, invalid, live, passing, run_of

#: Line breaks of all kinds before a command of GitHub's runner, what a terminal obeys, marks of direction, half a character.
FOREIGN = "\n::error::taken\r::error::taken\u2028::error::taken \x1b[31m \x9b31m \u202e \ud800"
OBEYED = re.compile(r"[^\n -~\xa0-\U0010ffff]|[\x7f-\x9f\u2028\u202e\ud800]|^\s*::error::taken", re.MULTILINE)
VERBOSE = Screen(verbosity=1)
#: Enough items of every list, so that reading the report stays quick.
ITEMS = 3


def trimmed(node: Any) -> Any:
    """Return a document with short lists. The lists of a timeline belong together."""
    if isinstance(node, dict):
        return {key: one if key.endswith("timeline") else trimmed(one) for key, one in node.items()}
    return [trimmed(one) for one in node[:ITEMS]] if isinstance(node, list) else node


def texts(node: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every text in a document."""
    if isinstance(node, str):
        yield path
    for key, one in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from texts(one, *path, key)


def put(document: Any, path: tuple[str | int, ...], text: str) -> Any:
    """Return a document with a foreign text after that at the path."""
    found = node = deepcopy(document)
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] += text
    return found


def reports_with(text: str, place: Path) -> Iterator[tuple[str, RunReport]]:
    """Yield a report for each of its fields that can hold a foreign text, and the field."""
    more = {"unused": ("old.py::test",), "not_run": ("b.py::test",), "remarks": ("gone: c.py::test",)}
    run = run_of(failing(), invalid(place / "invalid"), passing(), **more)
    document = trimmed(json.loads(report_json(run)))
    fields = {tuple("*" if isinstance(key, int) else key for key in path): path for path in texts(document)}
    file = place / "report.json"
    for field, path in fields.items():
        file.write_text(json.dumps(put(document, path, text)), encoding="utf-8")
        try:
            found = read_run(file)
        except PerfguardError:
            continue  # it is one of a few words
        yield ".".join(map(str, field)), found


@pytest.mark.slow
@pytest.mark.exhaustive
def test_no_text_of_a_report_is_live_in_markdown(tmp_path):
    pytest.importorskip("cmarkgfm", reason="cmarkgfm is not installed")
    text = " ".join(("", *LINKS))
    found = {field: live(report_markdown(report)) for field, report in reports_with(text, tmp_path)}
    assert len(found) > 40
    assert {field: one for field, one in found.items() if one} == {}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_no_text_of_a_report_leaves_its_line(tmp_path):
    leaks, read = [], 0
    for field, found in reports_with(FOREIGN, tmp_path):
        read += 1
        red = [one for one in found.verdicts if not one.passed]
        shown = {
            "Markdown": report_markdown(found),
            "GitHub": "\n".join(workflow_commands(found, root=Path("/"))),
            "OpenMetrics": report_openmetrics(found),
            "terminal": VERBOSE.shown(summary(found, VERBOSE)),
            "a test's failure": "\n".join(failure_message(one, refresh_command="x", verbose=True) for one in red),
            "check": "\n".join(line for one in found.verdicts for line in checked(one, explain=True, metrics=False)),
        }
        leaks += [f"{field} in {name}" for name, text in shown.items() if OBEYED.search(text)]
    assert (leaks, read > 40) == ([], True)
