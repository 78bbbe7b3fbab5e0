"""What a run that does not use perfguard pays for having it installed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

HEAVY = frozenset(
    ["polars", "numpy", "jsonschema", "torch", "mindspore", "msgspec", "click", "tabulate", "filelock", "scipy", "isal"]
)
PYTEST = "import pytest, sys; status = pytest.main(sys.argv[1:])"
#: `-X importtime` does not see what `importlib.import_module` loads (pytest's plugins), `sys.modules` not what was dropped.
AND_SAY = "; import sys; print('MODULES', *sys.modules)"


def imported(directory, code: str, *arguments: str, **env: str) -> set[str]:
    """Return the modules a Python process had loaded when `code` was through."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code + AND_SAY, *arguments],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("MODULES ")]
    timed = [line for line in done.stderr.splitlines() if re.match(r"import time: +\d", line)]
    assert timed
    return {*line.split()[1:], *(line.rpartition("|")[2].strip() for line in timed)}


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("env", [{}, {"PYTHONDONTWRITEBYTECODE": "1"}], ids=["plain", "without byte code"])
@pytest.mark.parametrize(
    "files, arguments",
    [({}, ("--collect-only",)), ({"test_plain.py": "def test_plain():\n    pass\n"}, ("-q",))],
    ids=["an empty directory", "a test"],
)
@pytest.mark.variants(1)
def test_a_run_that_does_not_use_perfguard_loads_only_its_entry(tmp_path, files, arguments, env):
    for name, source in files.items():
        (tmp_path / name).write_text(source)
    modules = imported(tmp_path, PYTEST, "-p", "no:randomly", *arguments, **env)
    own = {name for name in modules if name.partition(".")[0] == "perfguard"}
    assert own == {"perfguard", "perfguard.plugin", "perfguard.plugin.collision"}
    assert packages(modules) & HEAVY == set()


def test_no_perfguard_loads_nothing_of_it(tmp_path):
    modules = imported(tmp_path, PYTEST, "-p", "no:perfguard", "-p", "no:randomly", "--collect-only")
    assert "perfguard" not in packages(modules)


@pytest.mark.exhaustive
def test_its_entry_adds_no_module_that_pytest_has_not_loaded(tmp_path):
    arguments = ("-p", "no:randomly", "--collect-only")
    added = imported(tmp_path, PYTEST, *arguments) - imported(tmp_path, PYTEST, "-p", "no:perfguard", *arguments)
    assert packages(added) == {"perfguard"}


@pytest.mark.parametrize(
    "code, own",
    [
        ("import perfguard; perfguard.__version__", {"perfguard", "perfguard.version", "perfguard._version"}),
        ("import perfguard; perfguard.StepWindow(active=3)", {"perfguard", "perfguard.window", "perfguard.errors"}),
        ("from perfguard import Callback, Guard", {"perfguard", "perfguard.guard"}),
    ],
)
def test_importing_perfguard_loads_nothing_heavy(tmp_path, code, own):
    modules = imported(tmp_path, code)
    assert {name for name in modules if name.partition(".")[0] == "perfguard"} == own
    assert packages(modules) & (HEAVY | {"pytest"}) == set()


def test_a_plain_run_of_a_guarded_test_loads_no_framework_and_no_engine(tmp_path):
    (tmp_path / "test_step.py").write_text("def test_step(perfguard):\n    perfguard(lambda: None)\n")
    modules = imported(tmp_path, PYTEST, "-p", "no:randomly", "-q")
    assert packages(modules) & {"torch", "mindspore", "polars", "numpy", "jsonschema"} == set()


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["baseline", "--help"]])
def test_help_loads_the_commands_and_nothing_they_work_with(tmp_path, arguments):
    modules = imported(tmp_path, f"from perfguard.cli import cli; cli.main({arguments}, standalone_mode=False)")
    own = {name for name in modules if name.startswith("perfguard.")}
    beside = {name.removeprefix("perfguard.") for name in own if not name.startswith("perfguard.cli")}
    assert beside == {"errors", "screen", "version", "_version"}
    assert packages(modules) & HEAVY == {"click"}
