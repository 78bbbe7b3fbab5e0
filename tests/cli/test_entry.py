"""The command line as a whole: the real console script, exit codes, and what is refused."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import perfguard
from perfguard.cli.output import exit_code
from perfguard.judge.verdict import Outcome
from tests.cli import RECORDINGS, TORCH, report_file, run, stored
from tests.programs import run_program

SCRIPT = Path(sys.executable).with_name("perfguard")


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.perfguard]\n")
    stored(tmp_path / "baselines", "a.py::test_a")
    report_file(tmp_path / "report.json", **{"a.py::test_a": TORCH})
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (("check", TORCH), 0, f"PASSED {TORCH}"),
        (("check", "."), 4, "A101"),
        (("check", "nowhere"), 2, "perfguard: nowhere does not exist"),
        (("check", TORCH, "--expect", "ranks=2"), 3, "A107"),
        (("--version",), 0, f"perfguard, version {perfguard.__version__}"),
    ],
)
@pytest.mark.variants(1)
def test_the_console_script_ends_with_its_exit_code(arguments, code, text):
    found = run_program(SCRIPT, *arguments)
    assert found.returncode == code, found.stderr
    assert text in found.stdout + found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "arguments, code, text",
    [
        (("ops", TORCH), 0, "aten::addmm"),
        (("ops", "."), 4, "perfguard: no operators could be read"),
        (("codes", "C1"), 0, "C101"),
        (("compare", TORCH, TORCH), 0, "0 worse, 0 better, 0 changed"),
        (("compare", TORCH, RECORDINGS / "torch-repeat2"), 4, "B102"),
        (("compare", TORCH, "."), 3, "A101"),
        (("baseline", "show"), 0, "a.py::test_a"),
        (("baseline", "diff", "report.json"), 0, "PASSED a.py::test_a"),
        (("baseline", "prune"), 2, "run this where pytest runs"),
        (("schema", "list"), 0, "torch_trace"),
        (("history", "show"), 2, "There is no history in"),
        (("history", "add", "report.json"), 0, "added: report.json is run 1"),
        (("schema", "show", "qqqqq"), 2, "list them with: perfguard schema list"),
        (("--help",), 0, "baseline"),
    ],
)
@pytest.mark.variants(1)
def test_every_command_ends_with_its_exit_code(arguments, code, text):
    found = run(*arguments)
    assert (found.exit_code, text in found.output) == (code, True), found.output


@pytest.mark.slow
def test_the_module_is_the_same_command_line(tmp_path):
    found = run_program(sys.executable, "-m", "perfguard", "--version", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (0, f"perfguard, version {perfguard.__version__}\n")


@pytest.mark.slow
def test_a_terminal_that_knows_only_ascii_gets_an_answer(tmp_path):
    stored(tmp_path / "baselines", "a.py::test_é")
    found = run_program(SCRIPT, "baseline", "show", cwd=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert "Traceback" not in found.stderr
    assert found.returncode == 0


@pytest.mark.parametrize("arguments", [(), ("baseline",), ("schema",)])
def test_a_group_without_a_command_shows_its_help_and_is_a_usage_error(arguments):
    found = run(*arguments)
    assert found.exit_code == 2
    assert "Commands:" in found.output


#: What the extras bring: without them a command may be refused, and its help is shown all the same.
EXTRAS = (
    *("scipy", "sqlalchemy", "alembic", "ruptures", "psycopg", "jinja2", "yaml", "fsspec", "distributed"),
    *("hypothesis", "orjson", "pandas", "playwright", "torch", "mindspore"),
)
HELP = """
import json, sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))
from click.testing import CliRunner
from perfguard.cli import cli

def commands(command, *words):
    yield words
    for name in getattr(command, "list_commands", lambda context: ())(None):
        yield from commands(command.get_command(None, name), *words, name)

print(json.dumps([
    [words, flag, found.exit_code, found.output]
    for words in commands(cli) for flag in ("-h", "--help") for found in [CliRunner().invoke(cli, [*words, flag])]
]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 50])
def test_every_command_explains_itself_in_whole_sentences_without_the_extras(tmp_path, width):
    found = run_program(sys.executable, "-c", HELP, *EXTRAS, cwd=tmp_path, COLUMNS=str(width))
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert len({tuple(words) for words, *_ in told}) > 20
    for words, flag, status, output in told:
        assert status == 0, output
        assert output.startswith(f"Usage: {' '.join(['cli', *words])} "), (words, flag)
        assert "..." not in output.partition("Commands:\n")[2], output
        if width == 80:
            listed = output.partition("Commands:\n")[2].splitlines()
            assert all(line[2] != " " for line in listed), f"a summary that needs more than a line: {listed}"


@pytest.mark.parametrize("name", ["check", "compare", "baseline", "history", "schema"])
def test_the_help_lists_the_command(name):
    assert f"  {name} " in run("--help").output


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("chekc",), "There is no command 'chekc'; did you mean 'check'?"),
        (("compair",), "There is no command 'compair'; did you mean 'compare'?"),
        (("baselines", "show"), "There is no command 'baselines'; did you mean 'baseline'?"),
        (("Check",), "There is no command 'Check'; did you mean 'check'?"),
        (
            ("zzz",),
            "There is no command 'zzz'; known are demo, init, doctor, run, check, analyse, compare, ab, calibrate, ops, sql, "
            "report, view, baseline, history, schema, codes.",
        ),
        (("baseline", "shwo"), "'show'?"),
        (("baseline", "refesh"), "'refresh'?"),
        (("history", "trends"), "'trend'?"),
        (("schema", "lst"), "'list'?"),
        (("baseline", "zzz"), "baseline --help"),
        (("schema", "zzz"), "schema --help"),
        (("check", TORCH, "--jsno"), "--json"),
        (("check", TORCH, "--explian"), "--explain"),
        (("check", TORCH, "--sarfi", "x"), "--sarif"),
        (("ops", TORCH, "--jsno"), "--json"),
        (("ops",), "Missing argument 'DIRECTORY'"),
        (("compare", TORCH, TORCH, "--reprot", "x"), "--report"),
        (("baseline", "prune", "--yees"), "--yes"),
        (("compare", TORCH, TORCH, "--time", "of"), "'on', 'off'"),
        (("check",), "Missing argument 'DIRECTORY|FILE'"),
        (("compare", TORCH), "Missing argument 'CURRENT'"),
        (("compare", TORCH, TORCH, TORCH), "unexpected extra argument"),
        (("baseline", "diff"), "Missing argument 'REPORT'"),
        (("schema", "show"), "Missing argument 'NAME'"),
    ],
)
def test_what_is_unknown_or_missing_is_named_with_the_nearest_known(arguments, message):
    found = run(*arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr


P, F, X, N = Outcome.PASSED, Outcome.FAILED, Outcome.INVALID, Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    "outcomes, code",
    [([], 4), ([P], 0), ([F], 1), ([X], 3), ([N], 4), ([P, N], 4), ([P, F], 1), ([N, F, P], 1), ([P, F, N, X], 3)],
)
def test_the_exit_code_is_that_of_the_gravest_outcome(outcomes, code):
    assert exit_code(outcomes) == code


def test_a_defect_of_perfguard_does_not_exit_as_a_regression(monkeypatch):
    def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect\n::error::taken \x1b[31m")

    monkeypatch.setattr("perfguard.capture.replay.recordings_in", crash)
    monkeypatch.setattr("perfguard.cli.verdicts.recordings_in", crash)
    with pytest.raises(AssertionError) as raised:
        run("check", TORCH)
    printed = str(raised.value)
    assert printed.startswith("exit 2\n")
    assert "ZeroDivisionError: a defect\n\\x3a:error::taken \\x1b[31m\nperfguard: this is a defect" in printed


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is a device of Linux")
@pytest.mark.parametrize(("output", "errors"), [("/dev/full", "/dev/null"), ("/dev/full", "/dev/full")])
@pytest.mark.variants(1)
def test_where_no_word_can_be_written_it_is_no_regression(output, errors):
    with open(output, "w") as out, open(errors, "w") as err:
        done = subprocess.run([SCRIPT, "check", TORCH, "--json"], stdout=out, stderr=err, check=False)
    assert done.returncode not in (0, 1, 3)


def test_without_standard_streams_a_query_is_answered(tmp_path):
    file = tmp_path / "x.csv"
    closed = f'exec "$0" sql "{TORCH}" "select 1 as a" --output "{file}" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", closed, SCRIPT], check=False).returncode == 0
    assert file.read_text() == "a\n1\n"


@pytest.mark.parametrize(
    "arguments", [("check", TORCH), ("baseline", "show"), ("history", "show")], ids=lambda one: one[0]
)
@pytest.mark.variants(1)
def test_a_working_directory_that_is_gone_is_named(tmp_path, arguments):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = shlex.join([str(SCRIPT), *map(str, arguments)])
    done = run_program("sh", "-c", f"cd {gone} && rmdir {gone} && {command}")
    assert done.returncode == 2
    assert done.stderr.startswith("perfguard: the working directory is not there any more; change to another one")
