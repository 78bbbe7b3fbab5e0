"""`perfguard doctor`: what it says of an environment and a project, and what to do."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from perfguard.capture.environment import cpu_model, environment
from perfguard.cli import doctor
from perfguard.cli.pytest_settings import pytest_settings
from perfguard.version import install_command
from tests.cli import run, stored
from tests.cli.test_init import PAGE, write
from tests.programs import run_program

FRAMEWORKS = ("torch", "mindspore")


@pytest.fixture
def without_frameworks(monkeypatch, tmp_path):
    """A working directory in which no framework can be imported."""
    for name in FRAMEWORKS:
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("PYTEST_ADDOPTS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def observed(*arguments: str) -> dict[str, dict[str, str]]:
    """Run it, and return its observations by subject; the exit code is that of their states."""
    found = run("doctor", "--json", "--no-noise", *arguments)
    observations = json.loads(found.stdout)
    assert found.exit_code == (4 if any(one["todo"] for one in observations) else 0), found.output
    return {one["subject"]: one for one in observations}


# -- frameworks ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_frameworks")
def test_no_framework_is_something_to_do():
    found = run("doctor", "--no-noise")
    assert found.exit_code == 4
    assert "to do  framework      none" in found.output
    assert re.search(rf"^1\. .*{re.escape(install_command('torch'))}", found.output, re.MULTILINE)
    assert found.output.endswith("1 thing to do\n")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_framework_that_does_not_work_loses_only_itself(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mindspore", None)
    monkeypatch.setattr(doctor, "_IMPORT_S", 20.0)
    cases = {
        "raise ImportError('libtorch.so: no such file')": "libtorch.so: no such file",
        "raise RuntimeError('no driver')": "RuntimeError: no driver",
        "import os; os.abort()": "was ended by SIGABRT",
        "import os; os._exit(0)": "ended with status 0",
        "import time; time.sleep(600)": "was ended after 20 seconds. See why with",
    }
    problems = []
    for number, (code, said) in enumerate(cases.items()):
        place = write(tmp_path / str(number), {"torch/__init__.py": code})
        with monkeypatch.context() as patched:
            patched.syspath_prepend(str(place))
            patched.setenv("PYTHONPATH", str(place))
            patched.chdir(place)
            one = observed()["torch"]
        if said not in one["todo"] or "does not work" not in one["found"]:
            problems.append(f"{code}: {one}")
    assert problems == []


@pytest.mark.slow
def test_numpy_2_beside_mindspore_is_something_to_do(tmp_path, monkeypatch):
    pytest.importorskip("mindspore", reason="MindSpore is not installed: pip install -e '.[models]'")
    monkeypatch.setitem(sys.modules, "torch", None)
    # What an installed numpy 2 tells importlib.metadata.
    write(tmp_path, {"numpy-2.3.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: numpy\nVersion: 2.3.0\n"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    one = observed()["mindspore"]
    assert "numpy 2.3.0 is installed" in one["todo"]
    assert one["todo"].endswith("Run: pip install 'numpy<2'")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_what_is_installed_works_and_the_noise_is_measured(tmp_path):
    for name in FRAMEWORKS:
        pytest.importorskip(name, reason=f"{name} is not installed: pip install -e '.[models]'")
    found = run_program(Path(sys.executable).with_name("perfguard"), "doctor", cwd=tmp_path, PYTEST_ADDOPTS="")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.endswith("nothing to do\n")
    assert re.search(
        r"^ok     torch +2\.\S+, eager mode, 1 device \(.+\), ready in \d+\.\d s$", found.stdout, re.MULTILINE
    )
    assert re.search(r"^ok     mindspore +2\.\S+, pynative mode, 1 device", found.stdout, re.MULTILINE)
    judged = r"step_cost, which is judged, differs by \d+\.\d % \(tolerance 10 %\)"
    shown = r"the machine's speed by \d+\.\d %; other programs use \d+ % of the CPUs"
    assert re.search(f"noise +5 processes: {judged}, {shown}", found.stdout)
    assert f"no [tool.perfguard] at or above {tmp_path}" in found.stdout


def test_the_page_shows_the_lines_that_there_are(without_frameworks):
    """Those of the frameworks and of noise, which are the machine's, are read in the slow test."""
    page = PAGE.partition("$ perfguard doctor\n")[2].partition("```")[0]
    shown = [line[7:20].strip() for line in page.splitlines() if line[:7].strip() in ("ok", "note")]
    here = environment("3.11", {"perfguard": "0"}, cpu_model())
    root = write(without_frameworks / "project", {"pyproject.toml": "[tool.perfguard]\n"})
    store = stored(root / "baselines", "a.py::test_a")
    store.save(replace(store.load("a.py::test_a"), environment=here, runs=5))
    os.chdir(root)
    assert [one for one in observed() if one != "framework"] == [
        one for one in shown if one not in ("noise", *FRAMEWORKS)
    ]
    assert "nothing to do" in page


# -- the project ---------------------------------------------------------------------------------------------------------


def test_a_project_is_what_its_files_say(without_frameworks):
    cases: dict[str, tuple[dict[str, str], str, str]] = {
        "outside of any": ({}, "project", "defaults are used; perfguard init writes one"),
        "broken": ({"pyproject.toml": "[tool\n"}, "project", "is not valid TOML"),
        "wrong": ({"pyproject.toml": "[tool.perfguard]\nbackend = 3\n"}, "project", "backend must be"),
        "damaged": ({"pyproject.toml": "[tool.perfguard]\n", "baselines/a--1.json": "{"}, "project", "a--1.json"),
        "not installed": (
            {"pyproject.toml": '[tool.perfguard]\nbackend = "torch"\n'},
            "project",
            install_command("torch"),
        ),
        "no baseline": ({"pyproject.toml": "[tool.perfguard]\n"}, "baselines", "pytest --perfguard-update"),
    }
    problems = []
    for name, (files, subject, said) in cases.items():
        os.chdir(write(without_frameworks / name, {"pytest.ini": "", **files}))
        one = observed()[subject]
        if said not in one["note"] + one["todo"] or one["state"] != ("note" if name == "outside of any" else "to do"):
            problems.append(f"{name}: {one}")
    assert problems == []


def test_a_sentence_is_said_once(without_frameworks):
    write(without_frameworks, {"pyproject.toml": "[tool\n"})
    assert run("doctor", "--no-noise").output.count("is not valid TOML") == 1


def test_which_times_are_judged_here(without_frameworks):
    here = environment("3.11", {"perfguard": "0"}, cpu_model())
    cases = {
        "of here": ({"environment": here, "runs": 5}, "", "judged for 1 of 1 baseline", "no git repository"),
        "of few processes": ({"environment": here, "runs": 1}, "", "judged for 0 of 1", "only warns"),
        "of elsewhere": ({"environment": replace(here, cpu_model="Z80"), "runs": 5}, "", "0 of 1", "another machine"),
        "off": ({"environment": here, "runs": 5}, 'time = "off"\n', "not judged", 'time = "off"'),
        "not confirmed": ({"environment": here, "runs": 5}, 'confirm = "off"\n', "judged for 1 of 1", ""),
    }
    problems = []
    for name, (facts, settings, found, note) in cases.items():
        root = write(without_frameworks / name, {"pyproject.toml": f"[tool.perfguard]\n{settings}"})
        store = stored(root / "baselines", "a.py::test_a")
        store.save(replace(store.load("a.py::test_a"), **facts))
        os.chdir(root)
        one, exact = observed()["times"], observed()["exact metrics"]
        if found not in one["found"] or note not in one["note"] or bool(note) != bool(one["note"]):
            problems.append(f"{name}: {one}")
        if "judged on any machine: 1 baseline" not in exact["found"]:
            problems.append(f"{name}: {exact}")
    assert problems == []


# -- pytest --------------------------------------------------------------------------------------------------------------


def test_what_pytests_options_do_to_the_gate(without_frameworks, monkeypatch):
    cases = {
        "-n 4": "pytest-xdist",
        "-nauto": "pytest-xdist",
        "--numprocesses=2": "pytest-xdist",
        "-n 0": "",
        "-n0 -q": "",
        "--no-header -ra": "",
        "-p no:perfguard": "remove `-p no:perfguard`",
        "--benchmark-skip": "remove it",
        "--benchmark-only": "",
    }
    problems = []
    for number, (text, said) in enumerate(cases.items()):
        for way in ("file", "variable"):
            root = without_frameworks / f"{number}-{way}"
            write(root, {"pytest.ini": f"[pytest]\naddopts = {text if way == 'file' else ''}\n"})
            monkeypatch.setenv("PYTEST_ADDOPTS", text if way == "variable" else "")
            monkeypatch.chdir(root)
            one = observed()["plugins"]
            if said not in one["todo"] or bool(said) != bool(one["todo"]):
                problems.append(f"{text} ({way}): {one}")
    assert problems == []


def test_plugins_that_are_not_loaded_or_are_anothers(without_frameworks, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    assert "pytest -p perfguard --perfguard" in observed()["plugins"]["todo"]
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    write(
        without_frameworks,
        {
            "other/rival-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: rival\nVersion: 1\n",
            "other/rival-1.dist-info/entry_points.txt": "[pytest11]\nperfguard = rival.plugin\n",
        },
    )
    monkeypatch.syspath_prepend(str(without_frameworks / "other"))
    assert "pip uninstall rival" in observed()["plugins"]["todo"]
    write(without_frameworks, {"pytest.ini": "[pytest]\naddopts = --reruns 2\n"})
    assert "reported as flaky" in observed()["plugins"]["note"]


def test_pytests_settings_are_the_nearest_that_pytest_takes(tmp_path):
    cases: dict[str, tuple[dict[str, str], str | None, tuple[str, ...]]] = {
        "none": ({"pyproject.toml": "[tool.x]\n", "setup.cfg": "[metadata]\n"}, None, ()),
        "pytest.ini first": (
            {
                "pytest.ini": "[pytest]\ntestpaths = a\n",
                "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["b"]\n',
            },
            "pytest.ini",
            ("a",),
        ),
        "an empty one": ({"pytest.ini": "", "setup.cfg": "[tool:pytest]\ntestpaths = a\n"}, "pytest.ini", ()),
        "pyproject.toml": (
            {"pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = "a b"\n'},
            "pyproject.toml",
            ("a", "b"),
        ),
        "setup.cfg": ({"setup.cfg": "[tool:pytest]\ntestpaths =\n  a\n  b\n"}, "setup.cfg", ("a", "b")),
        "tox.ini": ({"tox.ini": "[pytest]\ntestpaths = a%s\n"}, "tox.ini", ("a%s",)),
        "above": ({"../pytest.ini": "[pytest]\ntestpaths = a\n"}, "pytest.ini", ("a",)),
    }
    problems = []
    for number, (name, (files, file, words)) in enumerate(cases.items()):
        top = write(tmp_path / str(number), {".git/x": ""})
        (top / "project").mkdir()
        found = pytest_settings(write(top / "project", files))
        if (found.file and found.file.name, found.get("testpaths")) != (file, words):
            problems.append(f"{name}: {found}")
    assert problems == []


def test_the_files_are_read_as_pytest_reads_them(tmp_path):
    """One that pytest takes and the doctor does not would hide what its options do."""
    assert find_spec("pytest") is not None
    from _pytest.config.findpaths import locate_config

    problems = []
    for number, (name, text) in enumerate(
        {
            "pytest.toml": '[pytest]\naddopts = ["-ra"]\n',
            ".pytest.ini": "[pytest]\naddopts = -ra\n",
            "pyproject.toml": '[tool.pytest]\naddopts = ["-ra"]\n',
            "tox.ini": "[pytest]\naddopts = -ra\n",
            "setup.cfg": "[tool:pytest]\naddopts = -ra\n",
        }.items()
    ):
        root = write(tmp_path / str(number), {name: text, ".git/x": ""})
        found, theirs = pytest_settings(root), locate_config(root, [root])
        if (found.root, found.file, found.get("addopts")) != (theirs[0], theirs[1], ("-ra",)):
            problems.append(f"{name}: {found} {theirs}")
    assert problems == []
