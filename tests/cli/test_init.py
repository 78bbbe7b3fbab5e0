"""`perfguard init`: what it finds in a project, what it writes, and that it overwrites and runs nothing."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from perfguard.cli.sources import read_sources
from perfguard.settings import read_settings
from tests.cli import run
from tests.facts import unwritable_directory
from tests.programs import git, run_program

TORCH = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.one, self.two = nn.Linear(width, 2 * width), nn.Linear(2 * width, 10)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))
"""
MINDSPORE = """
from mindspore import nn, ops

class Net(nn.Cell):
    def __init__(self, width=64):
        super().__init__()
        self.one, self.two = nn.Dense(width, 2 * width), nn.Dense(2 * width, 10)

    def construct(self, x):
        return self.two(ops.relu(self.one(x)))
"""
PACKAGED = '[build-system]\nrequires = ["setuptools"]\n'
PYTEST = Path(sys.executable).with_name("pytest")
#: Enough of torch for an import of the models here.
STAND_IN = "class nn:\n    class Module: ...\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return root


def tree(root: Path) -> dict[str, bytes]:
    paths = [path for path in root.rglob("*") if ".git" not in path.relative_to(root).parts[:1]]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths if path.is_file()}


# -- layouts -------------------------------------------------------------------------------------------------------------

#: Name: the files of a project, the files that init writes, and what the test imports.
LAYOUTS: dict[str, tuple[dict[str, str], set[str], str]] = {
    "one file": ({"model.py": TORCH}, {"pyproject.toml", "conftest.py", "tests/test_perfguard.py"}, "model"),
    "tests are a package": (
        {"app/__init__.py": "", "app/net.py": TORCH, "tests/__init__.py": ""},
        {"pyproject.toml", "tests/test_perfguard.py"},
        "app.net",
    ),
    "tests are no package": (
        {"app/__init__.py": "", "app/net.py": TORCH, "tests/test_a.py": "def test_a(): ...\n"},
        {"pyproject.toml", "conftest.py", "tests/test_perfguard.py"},
        "app.net",
    ),
    "a conftest.py that is there": (
        {"app/net.py": TORCH, "conftest.py": "X = 1\n", "test/test_a.py": ""},
        {"pyproject.toml", "test/test_perfguard.py"},
        "app.net",
    ),
    "src and pythonpath": (
        {"src/app/net.py": TORCH, "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n'},
        {"pyproject.toml", "tests/test_perfguard.py"},
        "app.net",
    ),
    "pytest.ini only": (
        {"net.py": TORCH, "pytest.ini": "[pytest]\ntestpaths = checks\npythonpath = .\n", "checks/test_a.py": ""},
        {"pyproject.toml", "checks/test_perfguard.py"},
        "net",
    ),
    "setup.cfg only": (
        {"net.py": TORCH, "setup.cfg": "[tool:pytest]\ntestpaths =\n    checks\n", "checks/__init__.py": ""},
        {"pyproject.toml", "checks/test_perfguard.py"},
        "net",
    ),
    "tests beside the code": (
        {"net.py": TORCH, "test_net.py": "def test_net(): ...\n"},
        {"pyproject.toml", "test_perfguard.py"},
        "net",
    ),
    "a path with spaces": (
        {"model.py": TORCH, "a b/other.py": "x = 1\n"},
        {"pyproject.toml", "conftest.py", "tests/test_perfguard.py"},
        "model",
    ),
}


def test_every_layout_gets_what_it_lacks_and_nothing_twice(tmp_path):
    problems = []
    for name, (files, expected, module) in LAYOUTS.items():
        root = write(tmp_path / name, files)
        before = tree(root)
        first = run("init", root, "--yes")
        after = tree(root)
        written = {path for path, text in after.items() if before.get(path) != text}
        kept = all(after[path].startswith(text) for path, text in before.items())
        test = next((after[path].decode() for path in written if path.endswith("test_perfguard.py")), "")
        second = run("init", root, "--yes")
        facts = {
            "exit": (first.exit_code, second.exit_code) == (0, 0),
            "written": written == expected,
            "kept": kept,
            "imports": f"    from {module} import Net\n" in test and "torch.randn(32, 64)" in test,
            "settings": read_settings(root).backend == "torch",
            "second run": "nothing is left to do" in second.output and tree(root) == after,
        }
        problems += [f"{name}: {what}: {first.output}{second.output}" for what, holds in facts.items() if not holds]
    assert problems == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_pytest_imports_the_model_in_every_layout(tmp_path):
    stand_in = write(tmp_path / "stand-in", {"torch.py": STAND_IN})
    problems = []
    for name, (files, *_) in LAYOUTS.items():
        root = write(tmp_path / "projects" / name, files)
        run("init", root, "--yes")
        (test,) = root.rglob("test_perfguard.py")
        imported = re.search(r"from \S+ import Net", test.read_text(encoding="utf-8"))[0]
        test.write_text(f"def test_import():\n    {imported}\n", encoding="utf-8")
        alone = {"PYTHONPATH": str(stand_in), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = run_program(PYTEST, "-q", "-p", "no:cacheprovider", test, cwd=root, **alone)
        problems += [f"{name}: {done.stdout}{done.stderr}"] if done.returncode else []
    assert problems == []


def test_what_pytest_cannot_import_yet_is_said(tmp_path):
    importlib = '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n'
    cases = {
        "pip install -e": {"src/app/net.py": TORCH, "pyproject.toml": PACKAGED},
        'add pythonpath = ["src"]': {"src/app/net.py": TORCH},
        'add pythonpath = ["."]': {"app/net.py": TORCH, "pyproject.toml": importlib},
    }
    problems = []
    for number, (hint, files) in enumerate(cases.items()):
        found = run("init", write(tmp_path / str(number), files), "--yes")
        if found.exit_code or hint not in found.output:
            problems.append(f"{hint}: {found.output}")
    assert problems == []


# -- models --------------------------------------------------------------------------------------------------------------

HEAD = "import torch, torch.nn as nn\n"
FORWARD = "    def forward(self, x): return self.a(x)\n"


def cell(name: str, layer: str, *, init: str = "self", forward: str = FORWARD, base: str = "nn.Module") -> str:
    return f"class {name}({base}):\n    def __init__({init}): self.a = {layer}\n{forward}"


#: Name: the file `m.py`, and the models that get a test.
MODELS: dict[str, tuple[str, list[str]]] = {
    "layers of any size": (HEAD + cell("A", "nn.Linear(f(), 2)"), ["A"]),
    "no layer that holds weights": (HEAD + cell("A", "nn.ReLU()"), ["A"]),
    "a base of the file": (HEAD + cell("A", "nn.Linear(3, 2)") + "class B(A):\n    pass\n", ["A", "B"]),
    "a factory before classes": (
        HEAD + cell("A", "nn.Linear(3, 2)") + "def build_model():\n    return A()\n",
        ["build_model", "A"],
    ),
    "a factory of layers": (HEAD + "def make_model():\n    return nn.Sequential(nn.Linear(7, 2))\n", ["make_model"]),
    "the whole without its part": (
        HEAD + cell("Block", "nn.Sequential(nn.Linear(3, 2), nn.ReLU())") + cell("A", "nn.Linear(9, 3), Block()"),
        ["A"],
    ),
    "a class that pytest would collect": (HEAD + cell("TestNet", "nn.Linear(3, 2)"), ["TestNet"]),
    "an argument without a default": (HEAD + cell("A", "nn.Linear(3, 2)", init="self, width"), []),
    "an argument by its name": (HEAD + cell("A", "nn.Linear(3, 2)", init="self, *, width"), []),
    "two inputs": (HEAD + cell("A", "nn.Linear(3, 2)", forward="    def forward(self, x, y): return x\n"), []),
    "two outputs": (HEAD + cell("A", "nn.Linear(3, 2)", forward="    def forward(self, x): return x, x\n"), []),
    "abstract": (
        HEAD + cell("A", "nn.Linear(3, 2)", forward="    def forward(self, x): raise NotImplementedError\n"),
        [],
    ),
    "private": (HEAD + cell("_A", "nn.Linear(3, 2)"), []),
    "another Module": ("import torch\nfrom mine import nn\n" + cell("A", "nn.Linear(3, 2)"), []),
    "its own base": (HEAD + cell("A", "nn.Linear(3, 2)", base="A"), []),
    "a factory with an argument": (HEAD + "def build_model(size):\n    return nn.Linear(size, 2)\n", []),
    "a factory of several things": (HEAD + "def build_model():\n    return nn.Linear(3, 2), 1\n", []),
}


def test_each_model_gets_a_test(tmp_path):
    problems = []
    for number, (name, (text, models)) in enumerate(MODELS.items()):
        root = write(tmp_path / str(number), {"m.py": text})
        found = run("init", root, "--yes")
        test = (root / "tests" / "test_perfguard.py").read_text(encoding="utf-8")
        functions = {node.name for node in ast.parse(test).body if isinstance(node, ast.FunctionDef)}
        imported = re.findall(r"    from m import (\w+)\n", test)
        asked = "put a batch of your own data into tests/test_perfguard.py" in found.output
        if found.exit_code or imported != models or len(functions) != max(1, len(models)) or asked != bool(models):
            problems.append(f"{name}: {found.output}")
        if ("put your model and a batch of your own data into" in found.output) is bool(models):
            problems.append(f"{name}: {found.output}")
        if not models and functions != {"test_example_train"}:
            problems.append(f"{name}: {test}")
    assert problems == []


def test_the_code_comes_before_helpers_of_tests(tmp_path):
    helper = HEAD + "def build_model(): return nn.Linear(3, 2)\n"
    write(tmp_path, {"tests/__init__.py": "", "tests/nets.py": helper, "z.py": HEAD + cell("A", "nn.Conv2d(3, 4, 3)")})
    found = run("init", tmp_path, "--yes")
    assert "models: z.py:2 A, tests/nets.py:2 build_model" in found.output


def test_a_model_that_is_made_with_arguments_is_named_as_left_out(tmp_path):
    init = "    def __init__(self, {arguments}): self.a = {made}\n"
    needs = "class {name}(nn.Module):\n" + init + "    def forward(self, x): return x\n"
    parts = {
        "whole.py": HEAD + needs.format(name="Whole", arguments="config", made="Part(3)"),
        "part.py": HEAD + needs.format(name="Part", arguments="width", made="width"),
        "free.py": HEAD + needs.format(name="Free", arguments="width=4", made="width"),
    }
    write(tmp_path, parts)
    found = run("init", tmp_path, "--yes", "--backend", "torch")
    line = next(line for line in found.output.splitlines() if line.startswith("perfguard: "))
    assert ("Free" in line, "Part" in line) == (True, False)
    assert "; made with arguments, so without a test: whole.py:" in line


def test_models_of_one_name_are_told_apart_by_their_module(tmp_path):
    write(tmp_path, {"a/net.py": TORCH, "b/net.py": TORCH, "conftest.py": ""})
    found = run("init", tmp_path, "--yes")
    assert "models: a/net.py:5 Net, b/net.py:5 Net" in found.output
    test = (tmp_path / "tests" / "test_perfguard.py").read_text()
    assert "def test_a_net_net_train(perfguard):\n    import torch\n\n    from a.net import Net\n" in test
    assert "def test_b_net_net_train(perfguard):\n    import torch\n\n    from b.net import Net\n" in test


@pytest.mark.parametrize("name", ["code.py", "my-net.py", "1.py"])
def test_a_file_that_has_no_name_to_import_is_not_imported(tmp_path, name):
    write(tmp_path, {name: TORCH})
    found = run("init", tmp_path, "--yes")
    assert found.exit_code == 0
    assert "test_example_train" in (tmp_path / "tests" / "test_perfguard.py").read_text()
    assert f"next: {name}:5 Net has no test, because its file cannot be imported by a name" in found.output


def test_the_users_code_never_runs(tmp_path):
    ran = tmp_path / "ran"
    trap = f"open({str(ran)!r}, 'w')\n"
    write(tmp_path, {"app/__init__.py": trap, "app/net.py": trap + TORCH, "conftest.py": trap, "setup.py": trap})
    found = run("init", tmp_path, "--yes")
    assert found.exit_code == 0
    assert "from app.net import Net" in (tmp_path / "tests" / "test_perfguard.py").read_text()
    assert not ran.exists()


def test_files_that_cannot_be_parsed_are_named_and_left_out(tmp_path):
    broken = {"a.py": "def (:\n", "b.py": "x = '\0'\n", "c.py": "(" * 5000, "d.py": "# coding: nonsense\n"}
    write(tmp_path, {"m.py": TORCH, **broken})
    found = run("init", tmp_path, "--yes")
    assert found.exit_code == 0
    assert "not parsed: a.py, b.py, c.py and 1 more" in found.output


def test_what_is_not_the_projects_own_is_not_searched(tmp_path):
    others = {f"{name}/x.py": TORCH for name in (".venv", "venv", "build", "node_modules", "mine/site-packages")}
    write(tmp_path, {**others, "env2/pyvenv.cfg": "", "env2/x.py": TORCH, "tests/test_x.py": TORCH})
    assert read_sources(tmp_path).models == ()


def test_a_name_of_a_file_cannot_leave_its_comment(tmp_path):
    write(tmp_path, {"a\nimport evil\n/net.py": TORCH})
    run("init", tmp_path, "--yes")
    test = (tmp_path / "tests" / "test_perfguard.py").read_text()
    assert not re.search(r"^\s*import evil", test, re.MULTILINE)
    compile(test, "test", "exec")


# -- frameworks and settings ---------------------------------------------------------------------------------------------


def test_the_framework_is_the_one_that_the_project_uses(tmp_path):
    project = '[project]\nname = "x"\nversion = "1"\ndependencies = ["{}"]\n'
    cases: dict[str, tuple[dict[str, str], tuple[str, ...], str | None]] = {
        "imports": ({"m.py": MINDSPORE}, (), "mindspore"),
        "imports of a script": ({"m.py": "import torch.utils.data\n"}, (), "torch"),
        "dependencies": ({"pyproject.toml": project.format("mindspore>=2.7")}, (), "mindspore"),
        "requirements": ({"requirements.txt": "numpy\ntorch==2.4\n"}, (), "torch"),
        "the option": ({"m.py": MINDSPORE}, ("--backend", "torch"), "torch"),
        # Every test names it, because the settings cannot.
        "both": ({"m.py": TORCH, "n.py": "import mindspore\n"}, (), None),
        "another distribution": ({"requirements.txt": "torch-geometric\nmy-mindspore\nmindspore\n"}, (), "mindspore"),
    }
    problems = []
    for number, (name, (files, options, backend)) in enumerate(cases.items()):
        root = write(tmp_path / str(number), files)
        found = run("init", root, "--yes", *options)
        test = (root / "tests" / "test_perfguard.py").read_text(encoding="utf-8")
        marked = '@pytest.mark.perfguard(backend="torch")\n' in test
        if (found.exit_code, read_settings(root).backend, marked) != (0, backend, backend is None):
            problems.append(f"{name}: {found.output}{test}")
    assert problems == []


def test_pyproject_keeps_every_byte_and_gets_a_table(tmp_path):
    texts = {
        "": '[tool.perfguard]\nbackend = "torch"\nbaselines = "tests/baselines"\n',
        "# mine\n[tool.ruff]  # why\nline-length = 100": "\n\n[tool.perfguard]\n",
        "[tool.ruff]\r\nline-length = 100\r\n": '\r\n[tool.perfguard]\r\nbackend = "torch"\r\n',
        "[tool.ruff]\nline-length = 100\n[[tool.x]]\na = 1\n": "\n[tool.perfguard]\n",
    }
    problems = []
    for number, (before, added) in enumerate(texts.items()):
        root = write(tmp_path / str(number), {"m.py": TORCH, "pyproject.toml": before})
        run("init", root, "--yes")
        after = (root / "pyproject.toml").read_bytes().decode()
        if not after.startswith(before + added) or read_settings(root).backend != "torch":
            problems.append(after)
    assert problems == []


def test_the_backend_of_settings_that_are_there_is_used(tmp_path):
    write(tmp_path, {"m.py": TORCH, "pyproject.toml": '[tool.perfguard]\nbackend = "mindspore"\n'})
    found = run("init", tmp_path, "--yes")
    assert "unchanged: pyproject.toml has [tool.perfguard]" in found.output
    test = (tmp_path / "tests" / "test_perfguard.py").read_text()
    assert "import mindspore" in test
    assert "pytest.mark" not in test


# -- CI ------------------------------------------------------------------------------------------------------------------


def repository(root: Path, remote: str = "") -> Path:
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "-q")
    if remote:
        git(root, "remote", "add", "origin", remote)
    return root


GITHUB = {".github/workflows/perfguard.yml", ".github/workflows/perfguard-comment.yml"}


def test_the_ci_job_is_the_one_of_the_repository(tmp_path):
    cases: dict[str, tuple[str, dict[str, str], tuple[str, ...], set[str], str]] = {
        "a remote at GitHub": ("git@github.com:a/b.git", {}, (), GITHUB, ""),
        "a remote at GitLab": ("https://gitlab.com/a/b", {}, (), {".gitlab-ci.yml"}, ""),
        "a job of GitLab": ("", {".gitlab-ci.yml": "x: {script: x}\n"}, (), {".gitlab/perfguard.yml"}, "include:"),
        "a job of GitHub": ("", {".github/workflows/ci.yml": "x: 1\n"}, (), GITHUB, ""),
        "one that is there": ("", {".github/workflows/perfguard.yml": "mine"}, (), GITHUB - {min(GITHUB, key=len)}, ""),
        "none": ("", {}, (), set(), "perfguard init --ci github"),
        "the option": ("", {}, ("--ci", "gitlab"), {".gitlab-ci.yml"}, ""),
        "the option none": ("git@github.com:a/b.git", {}, ("--ci", "none"), set(), ""),
    }
    problems = []
    for number, (name, (remote, files, options, expected, said)) in enumerate(cases.items()):
        root = write(repository(tmp_path / str(number), remote), {"m.py": TORCH, **files})
        before = tree(root)
        found = run("init", root, "--yes", *options)
        written = {path for path in tree(root) if path not in before and path.startswith(".git")}
        changed = [path for path, text in before.items() if tree(root)[path] != text]
        again = run("init", root, "--yes", *options)
        if (found.exit_code, written, changed) != (0, expected, []) or said not in found.output:
            problems.append(f"{name}: {written} {changed} {found.output}")
        if "nothing is left to do" not in again.output:
            problems.append(f"{name}, again: {again.output}")
    assert problems == []


def test_a_package_in_a_larger_repository(tmp_path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    top = repository(tmp_path, "git@github.com:a/b.git")
    write(top, {"pyproject.toml": PACKAGED, "packages/a/m.py": TORCH, "packages/a/requirements.txt": "torch\n"})
    found = run("init", top / "packages" / "a", "--yes")
    assert found.exit_code == 0
    assert f"note: this is inside of the project {top}" in found.output
    assert (top / "pyproject.toml").read_text() == PACKAGED
    assert tomllib.loads((top / "packages/a/pyproject.toml").read_text())["tool"]["perfguard"]["backend"] == "torch"
    workflow = yaml.safe_load((top / ".github/workflows/perfguard.yml").read_text())
    assert workflow["env"]["TESTS"] == "packages/a/tests/test_perfguard.py"
    assert workflow["env"]["BASELINES"] == "packages/a/tests/baselines"
    assert workflow["env"]["INSTALL"].startswith(
        "pip install -r packages/a/requirements.txt '/path/to/perfguard[html]' torch"
    )
    caches = [step["with"].get("cache-dependency-path") for step in workflow["jobs"]["gate"]["steps"] if "with" in step]
    assert "packages/a/pyproject.toml" in caches


def test_a_path_that_a_shell_would_split_gets_no_job(tmp_path):
    top = repository(tmp_path, "git@github.com:a/b.git")
    found = run("init", write(top / "my model", {"m.py": TORCH}), "--yes")
    assert found.exit_code == 0
    assert not (top / ".github").exists()
    assert "write the CI job yourself" in found.output


@pytest.mark.slow
@pytest.mark.parametrize("ci, schema", [("github", "github-workflows"), ("gitlab", "gitlab-ci")])
def test_the_ci_job_is_what_the_service_accepts(tmp_path, ci, schema):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    write(repository(tmp_path), {"m.py": TORCH, "setup.py": ""})
    run("init", tmp_path, "--yes", "--ci", ci)
    files = [*tmp_path.glob(".github/workflows/*.yml"), *tmp_path.glob(".gitlab-ci.yml")]
    assert files
    assert all(
        "pip install -e . '/path/to/perfguard[html]' torch" in f.read_text() for f in files if "comment" not in f.name
    )
    done = run_program(sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
    assert done.returncode == 0, done.stdout + done.stderr


# -- refused, and nothing written ----------------------------------------------------------------------------------------


def test_what_is_refused_leaves_everything_as_it_was(tmp_path):
    cases: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
        "broken": (
            {"m.py": TORCH, "pyproject.toml": "[tool\n"},
            ("--yes",),
            "pyproject.toml is not valid TOML: Expected ']'",
        ),
        "not UTF-8": ({"m.py": TORCH, "pytest.ini": "[pytest\n"}, ("--yes",), "pytest.ini is not valid INI"),
        "closed": ({"m.py": TORCH, "pyproject.toml": "tool = {a = 1}\n"}, ("--yes",), "Add this yourself"),
        "wrong": ({"m.py": TORCH, "pyproject.toml": "[tool.perfguard]\nx = 1\n"}, ("--yes",), "x is not a known key"),
        "no table": ({"m.py": TORCH, "pyproject.toml": "tool.perfguard = 3\n"}, ("--yes",), "must be a table"),
        "a file": ({"m.py": TORCH, "tests": ""}, ("--yes",), "tests is a file"),
        "unanswered": ({"m.py": TORCH}, (), "The question was not answered, so nothing was written"),
        "unknown": ({"m.py": TORCH}, ("--backend", "jax"), "'torch', 'mindspore'"),
    }
    problems = []
    for number, (name, (files, options, message)) in enumerate(cases.items()):
        root = write(tmp_path / str(number), files)
        before = tree(root)
        found = run("init", root, *options)
        if (found.exit_code, tree(root)) != (2, before) or message not in found.stderr:
            problems.append(f"{name}: {found.exit_code} {found.output}")
    assert problems == []


def test_a_project_without_a_framework(tmp_path):
    write(tmp_path, {"m.py": "x = 1\n"})
    found = run("init", tmp_path, "--yes")
    # Where both are installed, nothing decides; where one is, it is taken.
    from perfguard.capture.environment import package_version

    installed = [name for name in ("torch", "mindspore") if package_version(name)]
    assert found.exit_code == (0 if len(installed) == 1 else 2)
    if len(installed) != 1:
        assert "perfguard init --backend torch" in found.stderr
        assert tree(tmp_path) == {"m.py": b"x = 1\n"}


def test_an_answer(tmp_path):
    write(tmp_path, {"m.py": TORCH})
    refused = run("init", tmp_path, answer="n\n")
    assert (refused.exit_code, set(tree(tmp_path))) == (2, {"m.py"})
    assert "nothing was written" in refused.output
    agreed = run("init", tmp_path, answer="y\n")
    assert agreed.exit_code == 0
    for line in (
        "create pyproject.toml",
        '+ backend = "torch"',
        "create tests/test_perfguard.py",
        "+ def test_net_train(",
    ):
        assert line in agreed.output
    assert (tmp_path / "tests" / "test_perfguard.py").is_file()


def test_a_directory_that_may_not_be_written():
    with unwritable_directory() as place:
        found = run("init", place, "--yes", "--backend", "torch")
        assert found.exit_code == 2
        assert f"{place} cannot be written, so nothing was written" in found.stderr
        assert set(tree(place)) == {"x.json"}


@pytest.mark.parametrize("name", ["pyproject.toml", "tests"])
def test_a_link_to_elsewhere_is_not_written_through(tmp_path, name):
    elsewhere = write(tmp_path / "elsewhere", {"pyproject.toml": "# theirs\n", "tests/x": ""})
    root = write(tmp_path / "project", {"m.py": TORCH})
    os.symlink(elsewhere / name, root / name)
    before = tree(elsewhere)
    found = run("init", root, "--yes")
    assert (found.exit_code, tree(elsewhere)) == (2, before), found.output
    assert "leads out of" in found.stderr


def test_a_test_that_is_there_is_left_and_reported(tmp_path):
    write(tmp_path, {"m.py": TORCH, "tests/test_perfguard.py": "x = 1\n"})
    found = run("init", tmp_path, "--yes")
    assert "unchanged: tests/test_perfguard.py exists, and has no test that uses perfguard" in found.output
    assert (tmp_path / "tests" / "test_perfguard.py").read_text() == "x = 1\n"
    write(tmp_path, {"tests/test_own.py": "class TestX:\n    def test_own(self, perfguard): ...\n"})
    assert "unchanged: tests/test_own.py::test_own uses perfguard" in run("init", tmp_path, "--yes").output


# -- for real ------------------------------------------------------------------------------------------------------------


#: pytest three times in a process that imports the framework once: it stores, it judges, and it judges a wider layer.
SESSIONS = """
import pathlib, sys, pytest
sys.dont_write_bytecode = True

def session(option):
    status = pytest.main(["-q", "-p", "no:cacheprovider", option])
    for name in ("model", "conftest", "test_perfguard"):
        del sys.modules[name]
    print("ended with", int(status), len(list(pathlib.Path("tests", "baselines").glob("*.json"))))

session("--perfguard-update")
session("--perfguard")
model = pathlib.Path("model.py")
model.write_text(model.read_text().replace("2 * width", "8 * width"))
session("--perfguard")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "framework, model", [("torch", TORCH), pytest.param("mindspore", MINDSPORE, marks=pytest.mark.exhaustive)]
)
@pytest.mark.exhaustive
def test_the_first_test_is_green_and_a_wider_layer_is_red(tmp_path, framework, model):
    pytest.importorskip(framework, reason=f"{framework} is not installed: pip install -e '.[models]'")
    write(tmp_path, {"model.py": model})
    assert run("init", tmp_path, "--yes").exit_code == 0
    # Times are not what is tested here.
    with (tmp_path / "pyproject.toml").open("a") as settings:
        settings.write('time = "off"\n')
    done = run_program(sys.executable, "-P", "-c", SESSIONS, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    ended = [line for line in done.stdout.splitlines() if line.startswith("ended with ")]
    assert ended == ["ended with 0 1", "ended with 0 1", "ended with 1 1"], done.stdout + done.stderr
    assert "perfguard FAILED: R102" in done.stdout.rpartition(ended[1])[2]


# -- the page ------------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "init-and-doctor.md").read_text(encoding="utf-8")


def test_the_page_shows_what_init_prints(tmp_path, monkeypatch):
    model = re.search(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]
    shown = re.findall(r"^```console\n\$ perfguard init --yes\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    root = write(repository(tmp_path / "shop", "git@github.com:you/shop.git"), {"model.py": model})
    monkeypatch.chdir(root)
    printed = [run("init", "--yes").output.replace(str(root), "/home/you/shop") for _ in shown]
    # The version of torch is the one that is installed.
    assert [re.sub(r"torch(==\S+)? --extra", "torch --extra", text) for text in printed] == [
        re.sub(r"torch==\S+ --extra", "torch --extra", text) for text in shown
    ]
