"""The command line on screens: colours, widths, characters, -q and -v, from outside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perfguard.reports.table import display_width
from tests.cli import RECORDINGS, TORCH, copied, report_file, run, stored
from tests.terminals import on_a_terminal

SCRIPT = str(Path(sys.executable).with_name("perfguard"))
OTHER = RECORDINGS / "torch-repeat2"
RED, GREEN, OFF = "\x1b[31;1m", "\x1b[32;1m", "\x1b[0m"


def piped(*arguments: object, encoding: str = "utf-8", **environment: str) -> tuple[int, str, str]:
    """Run the console script with its output in a pipe, of an encoding."""
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)],
        capture_output=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding, **environment},
    )
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.fixture(scope="module")
def worse(tmp_path_factory) -> Path:
    """A recording in which operators have another name."""
    return copied(TORCH, tmp_path_factory.mktemp("worse") / "run", replace=("aten::addmm", "aten::fused"))


# -- colours ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before, after, environment, is_coloured",
    [
        ((), (), {}, False),
        ((), ("--color", "always"), {}, True),
        (("--color", "always"), (), {}, True),
        (("--color", "always"), ("--color", "never"), {}, False),
        ((), (), {"FORCE_COLOR": "1"}, True),
        ((), (), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ((), ("--color", "always"), {"NO_COLOR": "1"}, True),
        ((), ("--color=auto",), {}, False),
    ],
)
@pytest.mark.variants(1)
def test_a_pipe_has_colours_only_where_somebody_asked_for_them(monkeypatch, before, after, environment, is_coloured):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = run(*before, "check", TORCH, *after).stdout
    assert out.startswith(f"{GREEN}PASSED{OFF} " if is_coloured else "PASSED ")
    assert ("\x1b" in out) == is_coloured


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, environment, is_coloured",
    [(("-q",), {}, True), ((), {"NO_COLOR": "1"}, False)],
)
@pytest.mark.variants(1)
def test_a_terminal_has_them_by_itself(worse, arguments, environment, is_coloured):
    status, text = on_a_terminal(
        [SCRIPT, "compare", str(TORCH), str(worse), *arguments], env={**os.environ, **environment}
    )
    assert status == 1
    assert (f"{RED}FAILED{OFF}" in text) == is_coloured
    assert "FAILED" in text
    assert ("\x1b" in text) == is_coloured


@pytest.mark.exhaustive
def test_no_colour_reaches_json_or_a_file(worse, tmp_path):
    out = run("--color", "always", "check", TORCH, "--json").stdout
    assert "\x1b" not in out
    assert json.loads(out)["outcome"] == "PASSED"
    assert "\x1b" in run("--color", "always", "compare", TORCH, worse, "--report", tmp_path / "report.json").stdout
    assert "\x1b" not in (tmp_path / "report.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [("baseline", "show"), ("schema", "list"), ("check",), ("ops",), ("compare",)])
def test_colours_are_an_option_of_commands_and_of_their_groups(command):
    assert "--color [auto|always|never]" in run(*command, "--help").stdout


@pytest.mark.parametrize("command", [("baseline", "refresh"), ("calibrate",)])
def test_what_goes_to_pytest_keeps_the_option_pytest_has(command):
    assert "--color" not in run(*command, "--help").stdout


# -- characters ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.exhaustive
def test_arrows_are_written_in_what_the_output_has():
    status, out, err = piped("compare", TORCH, OTHER, encoding="cp437")
    assert (status, err) == (4, "")
    assert " 'repeat': 1} -> {'skip_first': 1" in out
    assert "?" not in out
    assert "\\u2192" not in out


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_c_locale_is_ascii():
    _, out, err = _in_the_c_locale("compare", TORCH, OTHER)
    assert " -> {'skip_first': 1" in out
    assert err == ""


def _in_the_c_locale(*arguments: object) -> tuple[int, str, str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONIOENCODING"}
    environment |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)], capture_output=True, timeout=600, check=False, env=environment
    )
    return done.returncode, done.stdout.decode("ascii"), done.stderr.decode("ascii")


@pytest.mark.slow
def test_names_are_escaped_and_json_stays_the_same(tmp_path):
    encoding = "cp1252"
    place = tmp_path / "é→中"
    place.mkdir()
    status, out, _ = piped("check", place, encoding=encoding)
    assert status == 4
    assert "->\\u4e2d" in out
    _, out, _ = piped("check", place, "--json", encoding=encoding)
    assert json.loads(out)["workload"] == str(place)
    status, _, err = piped("check", tmp_path / "中", encoding=encoding)
    assert status == 2
    assert "\\u4e2d does not exist" in err


# -- widths ----------------------------------------------------------------------------------------------------------------


def rows(text: str, title: str) -> list[str]:
    """Return the lines of the table that begins with a title."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    lines = plain[plain.index(title) :].split("\n\n")[0].splitlines()
    return [line for line in lines if line]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize(
    "command, title",
    [
        (("ops", TORCH), "operator  "),
        (("check", TORCH, "--metrics"), "metric  "),
        (("compare", TORCH, TORCH), "outcome  "),
        (("ops", TORCH, "--against", OTHER), "operator  "),
    ],
)
@pytest.mark.variants(1)
def test_a_table_is_no_wider_than_columns(monkeypatch, columns, command, title):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert_fits(run(*command).stdout, title, columns)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.variants(1)
def test_a_table_is_no_wider_than_its_terminal(columns):
    _, text = on_a_terminal([SCRIPT, "ops", str(TORCH)], columns=columns)
    assert_fits(text, "operator  ", columns)


def assert_fits(text: str, title: str, columns: int) -> None:
    lines = [line for line in text.splitlines() if title in line]
    assert lines
    assert max(map(display_width, rows(text, lines[0][:10] if columns < 60 else title))) <= columns


@pytest.mark.exhaustive
def test_a_log_is_whole_and_columns_says_otherwise(monkeypatch):
    whole = run("ops", TORCH).stdout
    assert "autograd::engine::evaluate_function: AddmmBackward0" in whole
    assert "…" not in whole
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, run("ops", TORCH).stdout.splitlines())) <= 50


@pytest.mark.parametrize("command", ["show", "diff"])
def test_tables_of_baselines_fit(tmp_path, monkeypatch, command):
    name = "tests/of/a/long/path/test_a.py::test_of_a_long_name"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.perfguard]\n")
    stored(tmp_path / "baselines", name, reason="because it is so, and for many words")
    report_file(tmp_path / "report.json", **{name: TORCH})
    for columns in (40, 60, 80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        found = run("baseline", command, *(["report.json"] if command == "diff" else []))
        assert found.exit_code == 0
        title = "workload" if command == "show" else "outcome"
        table = rows(found.stdout, title + ("  " if title == "outcome" else ""))
        assert max(map(display_width, table)) <= columns
        assert "long_name" in table[-1]
        assert (name in table[-1]) == (columns == 200)


# -- less and more -----------------------------------------------------------------------------------------------------------


def test_quiet_of_two_that_are_alike_is_one_line():
    assert run("compare", TORCH, TORCH, "-q").stdout == (
        "94 compared: 0 worse, 0 better, 0 changed; 0 not comparable; 139 shown, not judged\n"
    )


@pytest.mark.exhaustive
def test_quiet_of_what_is_worse_is_a_line_a_workload_and_the_count(worse):
    found = run("compare", TORCH, worse, "-q")
    first, last = found.stdout.splitlines()
    assert re.match(r"FAILED  test_rec\.py::test_torch_mlp: R10\d ", first)
    assert " compared: " in last
    assert found.exit_code == 1


@pytest.mark.exhaustive
def test_verbose_says_all_of_it(worse):
    few, all_ = (run("compare", TORCH, worse, *more).stdout for more in ((), ("-v",)))
    assert set(few.splitlines()) < set(all_.splitlines())
    assert "residual" in all_
    assert "layout pt-torch" in all_


def test_verbose_check_counts_no_finding_away(tmp_path):
    place = tmp_path / "run"
    copied(TORCH, place, replace=('"dur":', '"duration":'))
    few, all_ = (run("check", place, *more).stdout for more in ((), ("-v",)))
    assert len(all_.splitlines()) >= len(few.splitlines())


@pytest.mark.parametrize("command", [("compare", TORCH, TORCH), ("check", TORCH)])
def test_less_and_more_contradict_each_other(command):
    found = run(*command, "-q", "-v")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "--quiet and --verbose contradict each other" in found.stderr
