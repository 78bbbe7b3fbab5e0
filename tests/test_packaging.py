"""What is shipped: the wheel's files and metadata, and that both ways to install find the schemas."""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import entry_points, requires
from importlib.util import find_spec
from pathlib import Path

import pytest

import perfguard
from perfguard.documents import schemas_directory

TOP = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel built from a copy of what is tracked, so that nothing is left in the checkout."""
    import shutil

    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    for name in ("perfguard", "schemas"):
        shutil.copytree(TOP / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests", "baselines"):
        (source / name).mkdir()
        (source / name / "not_shipped.py").write_text("")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TOP / name, source / name)
    # With hatchling at hand the build needs no network; without it pip fetches it.
    isolation = ["--no-build-isolation"] if find_spec("hatchling") else []
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *isolation, "-w", str(place), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr
    return next(place.glob("*.whl"))


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
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def files_below(directory: Path) -> set[str]:
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_every_schema(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = {f"perfguard/{name}" for name in files_below(TOP / "perfguard") if "__pycache__" not in name}
    schemas = {f"perfguard/_schemas/{name}" for name in files_below(TOP / "schemas")}
    assert names == modules | schemas
    assert "perfguard/py.typed" in names
    assert "perfguard/_schemas/layouts/pt-torch.json" in names


@pytest.mark.slow
def test_the_wheel_declares_its_entry_points(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    text = archive.read(name).decode()
    assert "[console_scripts]\nperfguard = perfguard.cli:main" in text
    assert "[pytest11]\nperfguard = perfguard.plugin\npytest_perfguard = perfguard.plugin.collision" in text


@pytest.mark.slow
def test_the_wheel_is_named_and_licensed(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert wheel.name == f"perfguard-{perfguard.__version__}-py3-none-any.whl"
    assert metadata["Version"] == perfguard.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    extras = {"mindspore", "torch", "models", "mindformers", "viewers", "benchmarks", "peers", "calibrate"}
    extras |= {"browser", "dask", "dev", "history", "html", "postgres", "readers", "remote", "test", "testing"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


@pytest.mark.slow
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
def test_an_installed_wheel_checks_a_recording(installed, tmp_path):
    recording = TOP / "tests" / "data" / "recordings" / "torch-mlp"
    found = call("-m", "perfguard", "check", str(recording), cwd=tmp_path, first_on_path=installed)
    assert found == f"PASSED {recording} (pt-torch: 1 rank, 1 cycle, 1 file, 592 rows)\n"


@pytest.mark.slow
def test_an_installed_wheel_says_its_version(installed, tmp_path):
    found = call("-m", "perfguard", "--version", cwd=tmp_path, first_on_path=installed)
    assert found == f"perfguard, version {perfguard.__version__}\n"


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
    with pytest.raises(StoreError, match="run: pip install --force-reinstall perfguard"):
        documents.schemas_directory()


def base_dependencies() -> set[str]:
    lines = [line for line in requires("perfguard") or () if "extra ==" not in line]
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
    optional = {"mindspore", "torch", "torch_npu", "scipy", "xdist", "hypothesis", "dask", "distributed", "fsspec"}
    optional |= {"alembic", "jinja2", "markupsafe", "ruptures", "sqlalchemy"}
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


def test_the_version_is_the_same_in_both_places():
    text = (TOP / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{perfguard.__version__}"\n' in text
