"""What is shipped: the wheel's files and metadata, and that both ways to install find the schemas."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution, entry_points, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

import perfguard
from perfguard.documents import schemas_directory
from perfguard.version import (
    ADDRESS,
    DISTRIBUTION,
    install_command,
    read_origin,
    reinstall_command,
    same_version,
    upgrade_command,
)
from tests.programs import git, run_program

TOP = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
#: The release that comes after the newest one.
NEXT = PYPROJECT["tool"]["hatch"]["version"]["fallback-version"].removesuffix(".dev0")


class Built(NamedTuple):
    """Distributions of the same sources."""

    sdist: Path
    from_sdist: Path
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    """The sdist, the wheel built from it, and the wheel of the sources, from a copy of what they are made of."""
    place = tmp_path_factory.mktemp("built")
    source = place / "source"
    ignored = shutil.ignore_patterns("__pycache__", "_version.py")
    for name in ("perfguard", "schemas", ".github"):
        shutil.copytree(TOP / name, source / name, ignore=ignored)
    for name in ("tests", "benchmarks", "baselines", "docs", "examples"):
        (source / name).mkdir()
        (source / name / "not_in_the_wheel.py").write_text("")
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(TOP / name, source / name)
    # With the build tools at hand this needs no network; without them pip fetches them.
    at_hand = all(find_spec(name) for name in ("hatchling", "hatch_vcs", "build"))
    build = [sys.executable, "-m", "build", *(["--no-isolation"] if at_hand else [])]
    for command in ([*build, "-o", place / "sdist", source], [*build, "--wheel", "-o", place / "wheel", source]):
        done = run_program(*command)
        assert done.returncode == 0, done.stdout + done.stderr
    (sdist,) = (place / "sdist").glob("*.tar.gz")
    (from_sdist,) = (place / "sdist").glob("*.whl")
    (wheel,) = (place / "wheel").glob("*.whl")
    return Built(sdist=sdist, from_sdist=from_sdist, wheel=wheel)


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    return built.from_sdist


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A directory with the wheel, and nothing else, installed in it."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    done = subprocess.run([*command, str(wheel)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return target


def call(*arguments: str, cwd: Path, first_on_path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(first_on_path)}
    found = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def files_below(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_wheel_holds_the_package_and_every_schema(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = {f"perfguard/{name}" for name in files_below(TOP / "perfguard") if "__pycache__" not in name}
    modules.add("perfguard/_version.py")
    schemas = {f"perfguard/_schemas/{name}" for name in files_below(TOP / "schemas")}
    workflows = {f"perfguard/_workflows/{name}.yml" for name in ("perfguard", "perfguard-comment")}
    assert names == modules | schemas | workflows
    assert "perfguard/py.typed" in names
    assert "perfguard/_schemas/layouts/pt-torch.json" in names


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_wheel_declares_its_entry_points(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    text = archive.read(name).decode()
    assert "[console_scripts]\nperfguard = perfguard.cli:main" in text
    assert "[pytest11]\nperfguard = perfguard.plugin\npytest_perfguard = perfguard.plugin.collision" in text


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_sdist_builds_the_wheel_of_the_sources(built):
    def contents(path: Path) -> dict[str, bytes]:
        archive = zipfile.ZipFile(path)
        return {name: archive.read(name) for name in archive.namelist()}

    assert built.from_sdist.name == built.wheel.name
    assert contents(built.from_sdist) == contents(built.wheel)
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CHANGELOG.md", "tests/not_in_the_wheel.py", "schemas/layouts/pt-torch.json", "PKG-INFO"} <= names


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_wheel_is_named_and_licensed(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Name"] == DISTRIBUTION
    assert metadata["Version"] == f"{NEXT}.dev0"
    assert wheel.name == f"{DISTRIBUTION.replace('-', '_')}-{NEXT}.dev0-py3-none-any.whl"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    extras = {"mindspore", "torch", "models", "mindformers", "viewers", "benchmarks", "peers", "calibrate"}
    extras |= {"browser", "dask", "dev", "docs", "history", "html", "postgres", "readers", "remote", "test", "testing"}
    extras |= {"lightning", "trainer"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
    # None that does not exist.
    assert [url for url in metadata.get_all("Project-URL", []) if not ADDRESS or ADDRESS not in url] == []
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload(decode=True).decode() == (TOP / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_installed_wheel_uses_the_schemas_it_shipped(installed, tmp_path):
    code = (
        "import json, perfguard.documents as d; "
        "print(json.dumps([str(d.schemas_directory()), d.schema('baseline')['title'], d.schema_names()]))"
    )
    directory, title, names = json.loads(call("-c", code, cwd=tmp_path, first_on_path=installed))
    assert Path(directory) == installed / "perfguard" / "_schemas"
    assert title == "Baseline of one test"
    assert sorted(names) == sorted(
        p.name.removesuffix(".schema.json") for p in (TOP / "schemas").rglob("*.schema.json")
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_installed_wheel_writes_the_workflows_of_this_repository(installed, tmp_path):
    git(tmp_path, "init", "-q")
    call("-m", "perfguard", "init", "--yes", "--backend=torch", "--ci=github", cwd=tmp_path, first_on_path=installed)
    place = Path(".github", "workflows", "perfguard-comment.yml")
    own = "INSTALL_REPORT: pip install /path/to/perfguard"
    assert (tmp_path / place).read_text() == (TOP / place).read_text().replace("INSTALL_REPORT: pip install .", own)
    assert (tmp_path / place.with_name("perfguard.yml")).is_file()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_installed_wheel_checks_a_recording(installed, tmp_path):
    recording = TOP / "tests" / "data" / "recordings" / "torch-mlp"
    found = call("-m", "perfguard", "check", str(recording), cwd=tmp_path, first_on_path=installed)
    assert found == f"PASSED {recording} (pt-torch: 1 rank, 1 cycle, 1 file, 592 rows)\n"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_installed_wheel_says_the_version_of_its_metadata(installed, tmp_path):
    code = f"import perfguard, importlib.metadata as m; print(perfguard.__version__, m.version({DISTRIBUTION!r}))"
    assert call("-c", code, cwd=tmp_path, first_on_path=installed) == f"{NEXT}.dev0 {NEXT}.dev0\n"
    found = call("-m", "perfguard", "--version", cwd=tmp_path, first_on_path=installed)
    assert found == f"perfguard, version {NEXT}.dev0\n"


@pytest.mark.slow
def test_a_checkout_finds_its_own_schemas_from_anywhere(tmp_path):
    code = "import perfguard.documents as d; print(d.schemas_directory())"
    assert call("-c", code, cwd=tmp_path, first_on_path=TOP).strip() == str(TOP / "schemas")
    assert schemas_directory() == TOP / "schemas"


def test_missing_schemas_are_said_with_the_command_that_mends_them(tmp_path, monkeypatch):
    from perfguard import documents
    from perfguard.errors import StoreError

    monkeypatch.setattr(documents, "_SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(documents, "_CHECKOUT", tmp_path / "checkout")
    with pytest.raises(StoreError, match=re.escape(f"run: {reinstall_command()}")):
        documents.schemas_directory()


def base_dependencies() -> set[str]:
    lines = [line for line in requires(DISTRIBUTION) or () if "extra ==" not in line]
    return {re.match(r"[A-Za-z0-9_.-]+", line)[0].lower().replace("_", "-") for line in lines}


@pytest.mark.parametrize("name", ["mindspore", "torch", "torch-npu", "pandas", "scipy"])
def test_the_base_install_draws_no_framework(name):
    assert name not in base_dependencies()


def test_every_package_that_is_imported_at_run_time_is_declared():
    import ast

    found = set()
    for path in (TOP / "perfguard").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        typing = [one for one in nodes if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"]
        # Type checkers bring what they need.
        never = {inner for one in typing for statement in one.body for inner in ast.walk(statement)}
        for node in nodes:
            if node in never:
                continue
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add((node.module or "").partition(".")[0])
    # In the extras, and imported where they are needed.
    optional = {
        "mindspore",
        "torch",
        "torch_npu",
        "scipy",
        "xdist",
        "hypothesis",
        "dask",
        "distributed",
        "fsspec",
        "aiohttp",
    }
    optional |= {"transformers", "alembic", "jinja2", "markupsafe", "ruptures", "sqlalchemy"}
    third_party = found - set(sys.stdlib_module_names) - {"perfguard", "_pytest"} - optional
    declared = base_dependencies()
    named_otherwise = {"google": "protobuf", "google_crc32c": "google-crc32c"}
    assert {named_otherwise.get(name, name.replace("_", "-")) for name in third_party} <= declared


def test_the_installed_entry_points_lead_to_what_they_name():
    mine = [
        one
        for group in ("pytest11", "console_scripts")
        for one in entry_points(group=group)
        if "perfguard" in one.value
    ]
    assert {(one.group, one.name) for one in mine} == {
        ("pytest11", "perfguard"),
        ("pytest11", "pytest_perfguard"),
        ("console_scripts", "perfguard"),
    }
    for one in mine:
        assert one.load() is not None


# -- versions ----------------------------------------------------------------------------------------------------------

#: Commands in a repository with one commit, and the version of its working tree. `None` is a tree without a repository.
TREES: dict[str, tuple[list[str] | None, str]] = {
    "a copy without .git": (None, f"{NEXT}.dev0"),
    "no tag": (["commit -m two"], f"{NEXT}.dev2+g#"),
    "on a tag": (["tag v1.2.0"], "1.2.0"),
    "on an annotated tag": (["tag -a -m release v1.2.0"], "1.2.0"),
    "on the tag of a candidate": (["tag v1.2.0rc1"], "1.2.0rc1"),
    "after a tag": (["tag v1.2.0", "commit -m two"], "1.3.0.dev1+g#"),
    "after a tag of a candidate": (["tag v1.2.0rc1", "commit -m two"], "1.3.0.dev1+g#"),
    "two tags on one commit": (["tag v1.2.0rc1", "tag v1.2.0"], "1.2.0"),
    "after a tag, on the branch of its fixes": (
        ["tag v1.2.0", "switch -c fixes/v1.2.1", "commit -m two"],
        "1.2.1.dev1+g#",
    ),
    "tags that name no version": (["tag nightly-2026.11", "tag v2.0.0-rc", "tag 9.9.9", "tag v3"], f"{NEXT}.dev1+g#"),
    "a tag on another branch": (["switch -c side", "commit -m two", "tag v1.2.0", "switch main"], f"{NEXT}.dev1+g#"),
}


def repository(place: Path, commands: list[str] | None) -> Path:
    place.mkdir(parents=True)
    shutil.copy(TOP / "pyproject.toml", place)
    if commands is not None:
        git(place, "init", "--quiet", "--initial-branch=main")
        git(place, "add", "--all")
        for command in ("commit -m one", *commands):
            is_commit = command.startswith("commit")
            git(place, *command.split(), *(["--quiet", "--allow-empty"] if is_commit else []))
    return place


def version_of(place: Path) -> str:
    """Return the version that a build of a tree has, with # for the name of its commit."""
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    return re.sub(r"\+g[0-9a-f]{7,}", "+g#", ProjectMetadata(str(place), PluginManager()).version)


@pytest.fixture
def no_version_requested(monkeypatch):
    pytest.importorskip("hatch_vcs", reason=f"hatch-vcs is not installed: {install_command('dev')}")
    pytest.importorskip("hatchling", reason=f"hatchling is not installed: {install_command('dev')}")
    for name in [name for name in os.environ if name.startswith(("SETUPTOOLS_SCM", "VCS_VERSIONING", "GIT_"))]:
        monkeypatch.delenv(name)


@pytest.mark.filterwarnings("ignore")
def test_the_version_is_that_of_the_tag(tmp_path, no_version_requested):
    found = {}
    for number, (name, (commands, _)) in enumerate(TREES.items()):
        found[name] = version_of(repository(tmp_path / str(number), commands))
    assert found == {name: expected for name, (_, expected) in TREES.items()}


@pytest.mark.filterwarnings("ignore")
def test_the_version_of_trees_that_come_from_others(tmp_path, no_version_requested):
    origin = repository(tmp_path / "origin", ["commit -m two", "tag v1.2.0", "commit -m three"])
    git(tmp_path, "clone", "--quiet", "--depth=1", origin.as_uri(), "shallow")
    git(tmp_path, "clone", "--quiet", "--no-tags", origin.as_uri(), "without-tags")
    git(origin, "worktree", "add", "--quiet", tmp_path / "worktree")
    # An unpacked sdist, inside a repository of someone else.
    sdist = repository(origin / "unpacked", None)
    (sdist / "PKG-INFO").write_text(f"Metadata-Version: 2.4\nName: {DISTRIBUTION}\nVersion: 0.2.9\n")
    changed = repository(tmp_path / "changed", ["tag v1.2.0"])
    (changed / "pyproject.toml").write_text((changed / "pyproject.toml").read_text() + "\n")
    assert {
        "shallow": version_of(tmp_path / "shallow"),
        "without tags": version_of(tmp_path / "without-tags"),
        "worktree": version_of(tmp_path / "worktree"),
        "copy in another repository": version_of(repository(origin / "copy", None)),
        "sdist": version_of(sdist),
        "changed files": re.sub(r"\.d\d{8}$", ".d#", version_of(changed)),
    } == {
        "shallow": f"{NEXT}.dev1+g#",
        "without tags": f"{NEXT}.dev3+g#",
        "worktree": "1.3.0.dev1+g#",
        "copy in another repository": f"{NEXT}.dev0",
        "sdist": "0.2.9",
        "changed files": "1.3.0.dev0+g#.d#",
    }


def test_the_installed_version_is_the_one_that_perfguard_says():
    assert version(DISTRIBUTION) == perfguard.__version__, f"built before the last install; run: pip install -e {TOP}"


def test_a_source_tree_that_was_not_built_has_no_version(tmp_path):
    shutil.copytree(
        TOP / "perfguard", tmp_path / "perfguard", ignore=shutil.ignore_patterns("_version.py", "__pycache__")
    )
    code = "import perfguard; print(perfguard.__version__)"
    assert call("-c", code, cwd=tmp_path, first_on_path=tmp_path) == "0+unknown\n"


def test_commands_name_what_perfguard_was_installed_from(tmp_path):
    """Not the name of the distribution: nobody has registered it, so anybody could."""
    clone, wheel = tmp_path / "a clone", tmp_path / "perfguard_ml-1.0-py3-none-any.whl"
    clone.mkdir()
    wheel.touch()
    commit = {"vcs": "git", "commit_id": "0a1b2c"}
    cases = {
        json.dumps({"url": clone.as_uri(), "dir_info": {"editable": True}}): f"-e '{clone}[torch]'",
        json.dumps({"url": clone.as_uri(), "dir_info": {}}): f"'{clone}[torch]'",
        json.dumps({"url": wheel.as_uri(), "archive_info": {}}): f"'{wheel}[torch]'",
        json.dumps({"url": "https://git.example/p", "vcs_info": commit}): (
            f"'{DISTRIBUTION}[torch] @ git+https://git.example/p@0a1b2c'"
        ),
        json.dumps({"url": "https://git.example/p.whl", "archive_info": {}}): (
            f"'{DISTRIBUTION}[torch] @ https://git.example/p.whl'"
        ),
        # From an index, deleted since, and not written by pip.
        None: "'/path/to/perfguard[torch]'",
        json.dumps({"url": (tmp_path / "gone.whl").as_uri(), "archive_info": {}}): "'/path/to/perfguard[torch]'",
        "[]": "'/path/to/perfguard[torch]'",
        "{": "'/path/to/perfguard[torch]'",
    }
    assert {one: read_origin(one).requirement("torch") for one in cases} == cases


def test_the_commands_of_messages_run_pip_on_the_clone_that_is_installed():
    recorded = distribution(DISTRIBUTION).read_text("direct_url.json")
    assert recorded is not None
    found = read_origin(recorded)
    assert install_command("torch") == f"pip install {found.requirement('torch')}"
    assert same_version("1.2.3", "env/bin/pip").startswith(f"env/bin/pip install {found.address} (")
    assert reinstall_command() == f"pip install --force-reinstall {found.requirement()}"
    assert upgrade_command() == f"git -C {found.address} pull && pip install {found.requirement()}"


# -- the changelog, the name, and the README on an index -----------------------------------------------------------------


def test_the_changelog_lists_the_releases_and_the_next_version_follows_the_newest():
    headings = re.findall(r"^## (.*)$", (TOP / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    releases = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d)", one) for one in headings[1:]]
    assert all(releases), headings
    numbers = [tuple(map(int, one.groups()[:3])) for one in releases]
    assert numbers == sorted(numbers, reverse=True)
    assert tuple(map(int, NEXT.split("."))) > numbers[0], "raise fallback-version of [tool.hatch.version]"


def test_the_distribution_has_one_name():
    assert PYPROJECT["project"]["name"] == DISTRIBUTION
    wrong = re.compile(r"pip install (?:-\S+ )*'?perfguard\b(?!-)|'perfguard\[|perfguard==")
    found = [
        f"{path.relative_to(TOP)}:{number}: {line.strip()}"
        for folder in ("perfguard", "schemas", "docs", "examples", ".github", "tests", "benchmarks", ".ci")
        for path in (TOP / folder).rglob("*")
        if path.suffix in (".py", ".md", ".yml", ".yaml", ".toml", ".json", ".j2", ".html", ".ini", ".txt", "")
        if path.is_file() and path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if wrong.search(line)
    ]
    assert not found
    assert [line for line in (TOP / "README.md").read_text(encoding="utf-8").splitlines() if wrong.search(line)] == []


def test_the_readme_reads_on_an_index():
    """Without an address of the project links are relative to the repository; with one, an index needs whole addresses."""
    text = (TOP / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)[^)]*\)|(?:src|srcset|href)=\"([^\"]+)\"", prose)
    assert links
    if ADDRESS:
        assert [one or other for one, other in links if not (one or other).startswith(("https://", "#"))] == []
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
    assert {one[1:] for one, _ in links if one.startswith("#")} <= anchors
