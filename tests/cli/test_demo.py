"""`perfguard demo`: the bundled recordings, judged by the gate, and their page."""

from __future__ import annotations

import re
import sys

import pytest

from perfguard.cli.demo import RECORDINGS
from tests.cli.test_check import run
from tests.programs import run_program


def test_a_green_a_red_and_an_invalid_one_their_page_and_the_next_command(tmp_path, monkeypatch):
    pytest.importorskip("jinja2", reason="Jinja2 is not installed: pip install -e '.[html]'")
    monkeypatch.chdir(tmp_path)
    found = run("demo")
    assert found.exit_code == 0
    outcomes = re.findall(r"^  (PASSED|FAILED|INVALID) (\w+)", found.stdout, re.MULTILINE)
    assert outcomes == [("PASSED", "same"), ("FAILED", "twice"), ("INVALID", "short")]
    assert "R102 operator_calls[aten::addmm] 2 → 3 calls/step" in found.stdout
    assert "C106 the loader ended before the window did" in found.stdout
    assert found.stdout.splitlines()[-1].startswith("next: perfguard init")
    page = (tmp_path / "perfguard-demo.html").read_text(encoding="utf-8")
    assert all(word in page for word in ("twice", "FAILED", "INVALID", "C106"))


@pytest.mark.parametrize(
    "command, outcome, code",
    [
        ("compare base same --time off", "PASSED", 0),
        ("compare base twice --time off", "FAILED", 1),
        ("check short", "INVALID", 3),
    ],
)
@pytest.mark.variants(1)
def test_what_is_shown_is_what_the_commands_say(tmp_path, monkeypatch, command, outcome, code):
    shown = run("demo", "--html", tmp_path / "page.html").stdout
    assert f": perfguard {command}\n" in shown
    monkeypatch.chdir(RECORDINGS)
    found = run(*command.split())
    assert found.exit_code == code
    findings = re.findall(r"(?:R\d+|C\d+) .*", found.stdout)
    assert (findings == []) == (outcome == "PASSED")
    assert findings[:1] == [one for one in findings[:1] if one in shown]
    assert found.stdout.startswith(outcome)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_it_runs_without_a_framework_and_without_the_page(tmp_path):
    code = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(['torch', 'mindspore', 'jinja2'])\n"
        "import importlib.util, perfguard.cli\n"
        "real = importlib.util.find_spec\n"
        "import perfguard.cli.demo as demo\n"
        "demo.find_spec = lambda name: None\n"
        "sys.argv = ['perfguard', 'demo']\n"
        "perfguard.cli.main()\n"
    )
    done = run_program(sys.executable, "-c", code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "page: it needs Jinja2, which is not installed. Run: pip install" in done.stdout
    assert list(tmp_path.glob("*.html")) == []


def test_the_recordings_are_small():
    assert sum(path.stat().st_size for path in RECORDINGS.rglob("*")) < 150_000
