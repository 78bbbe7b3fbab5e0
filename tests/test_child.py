"""Child processes: what the Pythons of perfguard's own import, and that nothing in a stranger's directory runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from perfguard import child
from perfguard.testing import generate
from tests.cli import TORCH, report_file, run, stored
from tests.programs import git, run_program

#: As pip writes it.
CONSOLE_SCRIPT = "import sys\nfrom perfguard.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
#: Says so where it is imported; nothing of it may be found out by an import that fails.
TRAP = "with open({marker!r}, 'a') as marker:\n    marker.write(__name__ + ' ')\n"


def trap(directory: Path, marker: Path) -> None:
    """Put a module of every name that a Python may import into a directory, and plug-ins."""
    names = {*sys.stdlib_module_names, *packages_distributions(), "perfguard", "sitecustomize", "usercustomize", "mine"}
    for name in names:
        if name.isidentifier() and not name.startswith("__"):
            (directory / f"{name}.py").write_text(TRAP.format(marker=str(marker)))
    metadata = directory / "mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    groups = ("backends", "readers", "metrics", "reporters", "stores", "checks", "engines", "dialects")
    points = "\n".join(f"[perfguard.{group}]\nmine = mine:made" for group in groups)
    (metadata / "entry_points.txt").write_text(f"{points}\n[pytest11]\nmine = mine\n")


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "what ran"


@pytest.fixture
def trapped(tmp_path, monkeypatch, marker):
    """Work in a directory that holds nothing but traps."""
    directory = tmp_path / "json"
    directory.mkdir()
    trap(directory, marker)
    monkeypatch.chdir(directory)
    return directory


# -- a Python of perfguard's own -----------------------------------------------------------------------------------------

SHOWS = {
    "called.py": "import json, sys\ndef show():\n    import mine\n    print(json.dumps([sys.path, sys.argv, mine.__file__]))",
    "mine.py": "",
}


@pytest.fixture
def packages(tmp_path):
    """A directory of modules that is not the working one."""
    directory = tmp_path / "packages"
    directory.mkdir()
    for name, text in SHOWS.items():
        (directory / name).write_text(text)
    return directory


@pytest.mark.usefixtures("trapped")
@pytest.mark.parametrize("how", [{}, {"isolated": True}, {"ends_with_parent": False}])
@pytest.mark.variants(1)
def test_nothing_of_the_working_directory_is_imported(marker, how):
    done = child.run(child.own_command("perfguard.cli:main", "--version", **how), capture_output=True)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith("perfguard, version")
    assert not marker.exists()


def test_the_given_path_is_that_of_the_call(trapped, marker, packages):
    command = child.own_command("called:show", "a", "b", path=["", str(packages), *filter(None, sys.path), 7])
    path, arguments, _ = json.loads(child.run(command, capture_output=True, cwd=packages).stdout)
    assert path[:2] == ["", str(packages)]
    assert arguments == ["called", "a", "b"]
    assert not marker.exists()


def test_the_working_directory_is_first_for_code_of_the_users(trapped, marker, packages):
    command = child.own_command("called:show", path=[str(packages), *filter(None, sys.path)], working_directory=True)
    path, _, mine = json.loads(child.run(command, capture_output=True).stdout)
    assert (path[0], mine) == (str(trapped), str(trapped / "mine.py"))
    assert marker.read_text() == "mine "


def test_packages_of_the_environment_are_found_unless_it_is_isolated(packages):
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    found = [
        child.run(child.own_command("called:show", **how), env=environment, capture_output=True).returncode
        for how in ({}, {"isolated": True})
    ]
    assert found == [0, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_a_process_ends_with_the_one_that_started_it(packages):
    (packages / "waits.py").write_text(
        "import time\ndef wait():\n    print('begun', flush=True)\n    time.sleep(600)\n"
    )
    command = child.own_command("waits:wait", path=[str(packages), *filter(None, sys.path)])
    # The one that starts it is killed once it has begun; its standard error ends when the child has ended as well.
    parent = (
        "import os, subprocess; "
        f"child = subprocess.Popen({command!r}, stdout=subprocess.PIPE, start_new_session=True); "
        "child.stdout.readline(); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", parent], stderr=subprocess.PIPE, timeout=600, check=False)
    assert done.returncode == -9


# -- a Python of another environment -------------------------------------------------------------------------------------


def test_another_python_imports_nothing_of_the_working_directory(trapped, marker):
    done = child.ask(sys.executable, "import json, mine; print(mine.__file__)", environment=os.environ, timeout_s=600)
    assert "No module named 'mine'" in done.stderr
    assert not marker.exists()


def test_another_python_has_the_places_of_pythonpath_and_not_the_empty_ones(trapped, marker, packages):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(("", "../packages"))}
    done = child.ask(sys.executable, "import json, mine; print(mine.__file__)", environment=environment, timeout_s=600)
    assert done.stdout.strip() == str(packages / "mine.py")
    assert not marker.exists()


def test_another_python_may_be_named_from_here(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert child.ask("bin/python", "print(1)", environment=os.environ, timeout_s=600).stdout == "1\n"


# -- a stranger's directory ----------------------------------------------------------------------------------------------

PROGRAMS = """\
[core]
    fsmonitor = {program}
    hooksPath = {hooks}
    pager = {program}
    sshCommand = {program}
[diff]
    external = {program}
[log]
    showSignature = true
[gpg]
    program = {program}
[filter "mine"]
    clean = {program}
    smudge = {program}
    process = {program}
"""


def received(directory: Path, marker: Path, *, ranks: int) -> None:
    """Fill a directory as a stranger may: a repository whose settings name programs, recordings, and modules."""
    program = directory / "program"
    program.write_text(f"#!/bin/sh\necho program >> '{marker}'\n")
    program.chmod(0o755)
    git(directory, "init", "-q")
    (directory / ".gitattributes").write_text("* filter=mine diff=mine\n")
    (directory / "kept").write_text("1")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "first")
    with open(directory / ".git" / "config", "a") as file:
        file.write(PROGRAMS.format(program=program, hooks=directory))
    shutil.copy(program, directory / "post-checkout")
    (directory / "kept").write_text("2")
    generate("pt-torch", seed=1, ranks=ranks, steps=2, operators=2).write(directory / "json")
    generate("pt-npu", seed=1, conditions={"analysed": False}).write(directory / "raw")
    (directory / "pyproject.toml").write_text("[tool.perfguard]\n")
    (directory / "test_mine.py").write_text("")
    trap(directory, marker)


#: What is typed in a directory that somebody sent, and the exit status.
COMMANDS = [
    (["check", "."], 3),
    (["check", "json", "-j", "2"], 0),
    (["check", "json", "--out", "sarif:out.sarif", "--expect", "ranks=3"], 0),
    (["ops", "json"], 0),
    (["sql", "json", "select count(*) from operators", "-o", "out.csv"], 0),
    (["report", "json", "report.json", "--json", "out.json", "--html", "out.html"], 0),
    (["view", "json", "--no-open", "-o", "view.html"], 0),
    (["compare", "json", "json"], 0),
    (["analyse", "raw"], 2),
    (["history", "add", "report.json", "--history", "out.db"], 0),
    (["history", "trend", "--history", "kept.db"], 0),
    (["baseline", "show"], 0),
    (["baseline", "diff", "report.json"], 0),
    (["init"], 2),
    (["schema", "list"], 0),
    (["codes"], 0),
    (["demo"], 0),
    (["doctor", "--no-noise"], 0),
    (["run", "--", "/bin/true"], 3),
    (["ab", "--base", "nothing"], 2),
]


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    directory, marker = tmp_path_factory.mktemp("received"), tmp_path_factory.mktemp("told") / "what ran"
    report_file(directory / "report.json", **{"test_mine.py::test_mine": TORCH})
    stored(directory / "baselines", "test_mine.py::test_mine")
    assert run("history", "add", directory / "report.json", "--history", directory / "kept.db").exit_code == 0
    received(directory, marker, ranks=3)
    return directory, marker


@pytest.fixture
def console_script(tmp_path):
    script = tmp_path / "perfguard"
    script.write_text(CONSOLE_SCRIPT)
    return script


@pytest.mark.slow
@pytest.mark.parametrize("arguments, status", COMMANDS, ids=lambda one: " ".join(one) if isinstance(one, list) else "")
@pytest.mark.variants(2)
def test_nothing_runs_of_a_directory_that_somebody_sent(strangers, console_script, arguments, status):
    directory, marker = strangers
    marker.unlink(missing_ok=True)
    done = run_program(sys.executable, console_script, *arguments, cwd=directory)
    assert not marker.exists(), marker.read_text()
    assert "Traceback" not in done.stderr
    assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.exhaustive
def test_nothing_runs_of_a_directory_of_many_ranks(tmp_path, console_script, marker):
    """They are checked by processes without being asked for."""
    directory = tmp_path / "received"
    directory.mkdir()
    received(directory, marker, ranks=180)
    done = run_program(sys.executable, console_script, "check", "json", cwd=directory)
    assert (done.returncode, marker.exists()) == (0, False), done.stderr


def test_as_a_module_the_command_imports_no_more_of_it_than_python_itself(tmp_path, marker):
    """`python -m` puts the working directory first before it imports anything: what that imports, perfguard cannot mend."""
    (tmp_path / "received").mkdir()
    generate("pt-torch", seed=1, ranks=3, steps=2, operators=2).write(tmp_path / "received" / "ranks")
    for name in ("json", "multiprocessing", "subprocess", "pickle", "msgspec", "numpy", "duckdb", "click"):
        (tmp_path / "received" / f"{name}.py").write_text(TRAP.format(marker=str(marker)))
    done = run_program(sys.executable, "-m", "perfguard", "check", "ranks", "-j", "2", cwd=tmp_path / "received")
    assert (done.returncode, marker.exists()) == (0, False), done.stderr
