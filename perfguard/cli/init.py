"""`perfguard init`: write the settings, a first test of each model and the CI job that a project lacks."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfguard.cli import options
from perfguard.cli.output import echo, echo_line
from perfguard.errors import StoreError, UsageError, counted, listed
from perfguard.version import SOMEWHERE, Origin, origin, reinstall_command

if TYPE_CHECKING:
    from perfguard.cli.pytest_settings import PytestSettings
    from perfguard.cli.sources import Model, Sources

_TEST = "test_perfguard.py"
_CONFTEST = '"""pytest puts the directory of this file on the import path, so that tests can import the project."""\n'
_HERE = Path(__file__).resolve().parent
#: The workflows of this repository: inside the wheel, or at the top of a checkout.
_WORKFLOWS = (_HERE.parent / "_workflows", _HERE.parents[1] / ".github" / "workflows")
_CPU_WHEELS = "--extra-index-url https://download.pytorch.org/whl/cpu"
_MOST_SHOWN = 60
#: A path that means the same in YAML and in a shell without quotes.
_PLAIN = re.compile(r"[\w./@+-]+")
_FIND = (
    "import importlib.util, sys; found = importlib.util.find_spec(sys.argv[1]); "
    "print(found and (found.origin or [*found.submodule_search_locations][0]) or '')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """Text to write: a new file, or the end of one that exists. `shown` are the lines to show if not all of them."""

    path: Path
    text: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What was found in a directory. `top` is the repository's; None outside git."""

    root: Path
    top: Path | None
    framework: str | None
    has_table: bool
    names_backend: bool
    pytest: PytestSettings
    sources: Sources

    @property
    def boundary(self) -> Path:
        """The directory that holds all files of the project."""
        return self.top or self.root

    def shown(self, path: Path) -> str:
        """Return a path as a reader at the top would write it."""
        return path.relative_to(self.boundary).as_posix()


@click.command(name="init")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option(
    "--backend", type=click.Choice(["torch", "mindspore"]), help="The framework (default: what the code imports)."
)
@click.option(
    "--ci",
    type=click.Choice(["github", "gitlab", "none"]),
    help="The CI job to write (default: what the repository uses).",
)
@click.option("--yes", is_flag=True, help="Write without asking.")
def command(directory: Path, backend: str | None, ci: str | None, yes: bool) -> None:
    """Set up a project: settings, a first test, a CI job.

    It reads the project's files, runs none of its code, and shows what it will write before it asks. Existing files are
    never overwritten; pyproject.toml gets a table at its end. Exit codes: 0 written, or nothing left to do; 2 usage,
    nothing was written.
    """
    from perfguard.settings import find_root

    project = _examined(directory.resolve(), backend)
    additions: list[Addition] = []
    left: list[str] = []
    todo: list[str] = []
    _plan_settings(project, additions, left)
    test = _plan_test(project, additions, left, todo)
    _plan_ci(project, ci or _ci_of(project), test, additions, left, todo)
    for one in additions:
        _require_writable(one.path, project.boundary)
    echo_line(f"perfguard: {_summary(project)}")
    if (outer := find_root(project.root)) != project.root and outer.is_relative_to(project.boundary):
        echo_line(
            f"note: this is inside of the project {outer}; to set that up: perfguard init {shlex.quote(str(outer))}"
        )
    for line in left:
        echo_line(f"unchanged: {line}")
    if not additions:
        echo("nothing is left to do")
    else:
        for one in additions:
            _show(one, project)
        options.confirm(f"Write {counted(len(additions), 'file')}?", nothing="nothing was written", to="write", yes=yes)
        for one in additions:
            _write(one)
            echo_line(f"written: {project.shown(one.path)}")
        todo += _next_commands(project, test)
    for line in todo:
        echo_line(f"next: {line}")


# -- what is there -------------------------------------------------------------------------------------------------------


def _examined(root: Path, backend: str | None) -> Project:
    from perfguard.capture.checkout import repository_of
    from perfguard.cli.pytest_settings import pytest_settings
    from perfguard.cli.sources import read_sources
    from perfguard.settings import find_table, read_settings

    has_table = find_table(root) == root
    settings = read_settings(root)
    sources = read_sources(root)
    framework = backend or settings.backend or _framework(root, sources)
    if framework is None and not (has_table and sources.gate_tests):
        raise UsageError(
            f"{root} imports neither torch nor mindspore, and the environment does not decide between them; "
            "name the framework: perfguard init --backend torch"
        )
    return Project(
        root=root,
        top=repository_of(root),
        framework=framework,
        has_table=has_table,
        names_backend=settings.backend is None and (has_table or len(sources.frameworks) > 1),
        pytest=pytest_settings(root),
        sources=sources,
    )


def _framework(root: Path, sources: Sources) -> str | None:
    """Return the framework of the best model, else the one imported or required most, else the only one installed."""
    from perfguard.capture.environment import package_version
    from perfguard.cli.sources import FRAMEWORKS

    if sources.models:
        return sources.models[0].framework
    if sources.frameworks:
        return sources.frameworks[0]
    files = [*root.glob("requirements*.txt"), *(root / name for name in ("pyproject.toml", "setup.cfg", "setup.py"))]
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file())
    required = [name for name in FRAMEWORKS if re.search(rf"(?<![\w.-]){name}(?![\w.-])", text)]
    installed = [name for name in FRAMEWORKS if package_version(name) is not None]
    return next((names[0] for names in (required, installed) if len(names) == 1), None)


def _ci_of(project: Project) -> str:
    from perfguard.capture.checkout import remotes

    if project.top is None:
        return "none"
    if (project.top / ".github" / "workflows").is_dir():
        return "github"
    if (project.top / ".gitlab-ci.yml").exists():
        return "gitlab"
    urls = remotes(project.top)
    return next((name for name in ("github", "gitlab") if name in urls), "none")


def _summary(project: Project) -> str:
    from perfguard.cli.sources import MOST_FILES

    sources = project.sources
    unread = f"; not parsed: {listed([project.shown(path) for path in sources.unread], 3)}" if sources.unread else ""
    models = [f"{project.shown(one.file)}:{one.line} {one.name}" for one in sources.models]
    found = f"models: {listed(models, 4)}" if models else "no model that is made without arguments"
    if unmade := [f"{project.shown(one.file)}:{one.line} {one.name}" for one in sources.unmade]:
        found += f"; made with arguments, so without a test: {listed(unmade, 4)}"
    cut = f"; only the first {MOST_FILES} files were read" if sources.is_cut else ""
    git = "" if project.top else "; no git repository, so no CI job is written and a slower step is not measured again"
    return f"{project.root}: {project.framework or 'no framework'}; {found}{unread}{cut}{git}"


# -- what to write -------------------------------------------------------------------------------------------------------


def _plan_settings(project: Project, additions: list[Addition], left: list[str]) -> None:
    from perfguard.inputs import Malformed, toml_of

    path = project.root / "pyproject.toml"
    if project.has_table:
        left.append(f"{project.shown(path)} has [tool.perfguard]")
        return
    before = path.read_bytes().decode("utf-8") if path.is_file() else ""
    backend = "" if project.names_backend or project.framework is None else f'backend = "{project.framework}"\n'
    table = f'[tool.perfguard]\n{backend}baselines = "{_baselines(project)}"\n'
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    text = gap + table
    if "\r\n" in before:
        text = text.replace("\n", "\r\n")
    try:
        after = toml_of(before + text)
    except Malformed as error:
        # `tool = {...}` on one line is closed.
        raise UsageError(
            f"{path} cannot have a table added at its end ({error}). Add this yourself, then run the same command again: "
            f"{' '.join(table.split())}"
        ) from error
    assert after["tool"].pop("perfguard").keys() <= {"backend", "baselines"}
    additions.append(Addition(path=path, text=text))


def _baselines(project: Project) -> str:
    """Return the directory of the baselines, as the settings name it.

    By default it is beside the tests: setuptools refuses a project with a second directory at its top.
    """
    from perfguard.settings import read_settings

    if project.has_table:
        return read_settings(project.root).baselines.as_posix()
    return (_tests_folder(project).relative_to(project.root) / "baselines").as_posix()


def _plan_test(project: Project, additions: list[Addition], left: list[str], todo: list[str]) -> Path:
    """Plan a test of each model, unless one is there; return the file that the gate runs."""
    from perfguard.cli.first_test import first_tests

    folder = _tests_folder(project)
    path = folder / _TEST
    if tests := project.sources.gate_tests:
        left.append(f"{listed(tests, 2)} {'uses' if len(tests) == 1 else 'use'} perfguard")
        return Path(os.path.commonpath([project.root / one.partition("::")[0] for one in tests]))
    if path.exists() or path.is_symlink():
        left.append(f"{project.shown(path)} exists, and has no test that uses perfguard")
        return path
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"{folder} is a file, and tests belong in a directory; name one as `testpaths` of pytest's settings."
        )
    assert project.framework is not None
    found: list[tuple[str, str]] = []
    conftests: set[Path] = set()
    hints: list[str] = []
    for one in project.sources.models:
        if one.framework != project.framework or one.is_part:
            continue
        if (imported := _imported(one, path, project)) is None:
            place = f"{one.file.relative_to(project.root).as_posix()}:{one.line}"
            hints.append(f"{place} {one.name} has no test, because its file cannot be imported by a name")
            continue
        module, conftest, hint = imported
        found.append((module, one.name))
        conftests |= {conftest} if conftest is not None else set()
        hints += [hint] if hint else []
    additions += [Addition(path=one, text=_CONFTEST) for one in sorted(conftests)]
    todo += dict.fromkeys(hints)
    if found:
        todo.append(f"put a batch of your own data into {project.shown(path)}: each test has one of shape (32, 64)")
    else:
        todo.append(f"put your model and a batch of your own data into {project.shown(path)}: it measures an example")
    text = first_tests(project.framework, models=found, names_backend=project.names_backend)
    additions.append(Addition(path=path, text=text))
    return path


def _tests_folder(project: Project) -> Path:
    named = [project.pytest.root / name for name in project.pytest.get("testpaths")]
    usual = [project.root / name for name in ("tests", "test")]
    files = [path.parent for path in project.sources.test_files if path.name != "conftest.py"]
    present = [
        path.resolve() for path in (*named, *usual, *sorted(files, key=lambda path: len(path.parts))) if path.is_dir()
    ]
    return next((path for path in present if path.is_relative_to(project.root)), project.root / "tests")


def _imported(model: Model, test: Path, project: Project) -> tuple[str, Path | None, str] | None:
    """Return the module of a model, the conftest.py that lets the test import it, and what else that needs.

    None if it cannot be imported by a name.
    """
    from perfguard.cli.sources import import_root, module_of

    found = module_of(model.file, project.root)
    if found is None:
        return None
    place, module = found
    if place in [(project.pytest.root / name).resolve() for name in project.pytest.get("pythonpath")]:
        return module, None, ""
    if _is_installed(module.partition(".")[0], place):
        return module, None, ""
    if project.pytest.imports_by_path:
        above = [one for one in test.parents if one == project.root or one.is_relative_to(project.root)]
        files = [test, *(one / "conftest.py" for one in above if (one / "conftest.py").is_file())]
        if place in map(import_root, files):
            return module, None, ""
        if place in above:
            return module, place / "conftest.py", ""
    folder = place.relative_to(project.root).as_posix()
    hint = f"`pip install -e {_relative(project.root)}`, because {module} is not installed"
    if not _installable(project.root):
        hint = f'add pythonpath = ["{folder}"] to the settings of pytest, so that tests can import {module}'
    return module, None, hint


def _is_installed(name: str, place: Path) -> bool:
    """Whether a top-level module is imported from a directory in this environment; nothing is imported to find out."""
    from perfguard import child

    done = child.ask(child.python(), _FIND, name, environment=os.environ)
    origin = done.stdout.strip()
    return bool(origin) and Path(origin).resolve().is_relative_to(place)


def _installable(root: Path) -> bool:
    from perfguard.config_files import read_toml

    path = root / "pyproject.toml"
    table = read_toml(path) if path.is_file() else {}
    return bool({"project", "build-system"} & table.keys()) or (root / "setup.py").is_file()


def _plan_ci(
    project: Project, ci: str, test: Path, additions: list[Addition], left: list[str], todo: list[str]
) -> None:
    if ci == "none":
        if project.top is not None:
            todo.append(
                "perfguard init --ci github (or gitlab), if CI is to run the gate: the repository names neither"
            )
        return
    tests, prefix = project.shown(test), project.shown(project.root)
    if not _PLAIN.fullmatch(tests):
        todo.append(f"write the CI job yourself: a shell would split or change the path {tests!r}")
        return
    for path, text, values in _jobs(project, ci, tests, "" if prefix == "." else f"{prefix}/"):
        if path.exists() or path.is_symlink():
            left.append(f"{project.shown(path)} exists")
            continue
        for key, value in values.items():
            text = re.sub(rf"(?m)^( +{key}:) .*$", rf"\1 {value}", text, count=1)
        lines = [line.strip() for line in text.splitlines() if line.strip().partition(":")[0] in values]
        additions.append(Addition(path=path, text=text, shown=tuple(lines)))
    if SOMEWHERE in "".join(line for one in additions for line in one.shown):
        todo.append(f"replace {SOMEWHERE} in the CI job by a clone or wheel of perfguard that the runner can read")
    if ci == "gitlab" and any(one.path.name == "perfguard.yml" for one in additions):
        todo.append("add to .gitlab-ci.yml: include: [{local: /.gitlab/perfguard.yml}]")


def _jobs(project: Project, ci: str, tests: str, prefix: str) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """Yield the files of a CI job: the path, the text, and the values by key that are the project's own."""
    install = _install(project, prefix)
    top = project.boundary
    if ci == "gitlab":
        path = top / ".gitlab-ci.yml"
        if path.exists() and "perfguard" not in path.read_text(encoding="utf-8", errors="replace"):
            path = top / ".gitlab" / "perfguard.yml"
        text = (_HERE / "templates" / "gitlab-ci.yml").read_text(encoding="utf-8")
        yield path, text, {"INSTALL": install, "TESTS": tests}
        return
    folder = next((place for place in _WORKFLOWS if place.is_dir()), None)
    if folder is None:
        raise StoreError(f"perfguard's workflows are missing from {_WORKFLOWS[0]}; run: {reinstall_command()}")
    text = (folder / "perfguard.yml").read_text(encoding="utf-8")
    text = text.replace("cache-dependency-path: pyproject.toml", f"cache-dependency-path: {prefix}pyproject.toml")
    values = {
        "INSTALL": install,
        "INSTALL_HISTORY": f"pip install {_of_a_runner().requirement('history,html')}",
        "TESTS": tests,
        "BASELINES": f"{prefix}{_baselines(project)}",
    }
    target = top / ".github" / "workflows"
    yield target / "perfguard.yml", text, values
    text = (folder / "perfguard-comment.yml").read_text(encoding="utf-8")
    yield target / "perfguard-comment.yml", text, {"INSTALL_REPORT": f"pip install {_of_a_runner().requirement()}"}


def _of_a_runner() -> Origin:
    """Return what perfguard is installed from if a CI runner reaches it as well: a URL, not a path of this machine."""
    found = origin()
    return found if "://" in found.address else Origin()


def _install(project: Project, prefix: str) -> str:
    """Return the command that installs the project, perfguard and the framework, in its version of today."""
    from perfguard.capture.environment import package_version

    words = ["pip install"]
    if _installable(project.root):
        words.append(f"-e {prefix or '.'}")
    if (project.root / "requirements.txt").is_file():
        words.append(f"-r {prefix}requirements.txt")
    words.append(_of_a_runner().requirement("html"))
    if project.framework is not None:
        version = (package_version(project.framework) or "").partition("+")[0]
        words.append(f"{project.framework}=={version}" if version else project.framework)
        words.append(_CPU_WHEELS if project.framework == "torch" else "'numpy<2'")
    return " ".join(words)


# -- show and write ------------------------------------------------------------------------------------------------------


def _show(one: Addition, project: Project) -> None:
    verb = "append to" if one.path.exists() else "create"
    lines = one.text.strip().splitlines()
    if one.shown or len(lines) > _MOST_SHOWN:
        echo_line(f"{verb} {project.shown(one.path)}, as perfguard ships it{' except for' if one.shown else ''}")
        lines = list(one.shown)
    else:
        echo_line(f"{verb} {project.shown(one.path)}")
    for line in lines:
        echo_line(f"+ {line}".rstrip())


def _require_writable(path: Path, boundary: Path) -> None:
    """Refuse before anything is written. Raises `UsageError`."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(boundary)):
        raise UsageError(f"{path} leads out of {boundary}, to {real}; nothing was written. Write that file yourself.")
    present = next(one for one in (path, *path.parents) if one.exists())
    effective = os.access in os.supports_effective_ids
    if not os.access(present, os.W_OK, effective_ids=effective) or (present != path and not present.is_dir()):
        raise UsageError(
            f"{present} cannot be written, so nothing was written. Correct that, then run the same command again."
        )


def _write(one: Addition) -> None:
    from perfguard.writing import write_atomically

    # Created, or appended to: nothing that is there is lost.
    is_new = one.path.name != "pyproject.toml" or not one.path.exists()
    text = one.text.encode("utf-8")
    write_atomically(one.path, text if is_new else one.path.read_bytes() + text, is_new=is_new)


def _next_commands(project: Project, test: Path) -> Iterator[str]:
    there = "" if project.root == Path.cwd() else f"cd {shlex.quote(_relative(project.root))} && "
    name = shlex.quote(test.relative_to(project.root).as_posix())
    yield f"{there}pytest --perfguard-update {name}  (measures the baselines; commit them with the test)"
    yield f"{there}pytest --perfguard {name}  (fails from now on if the model gets worse)"
    yield "perfguard doctor  (what is judged on this machine)"


def _relative(path: Path) -> str:
    return os.path.relpath(path)
