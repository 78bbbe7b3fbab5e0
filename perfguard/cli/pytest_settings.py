"""The pytest settings of a project, read from its files as pytest finds them, without running pytest."""

from __future__ import annotations

import configparser
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfguard.config_files import LARGEST_BYTES, read_toml
from perfguard.errors import UsageError
from perfguard.inputs import Malformed, read_bytes, text_of

#: The files in the order in which pytest looks for them in a directory, each with the tables that may hold its settings
#: (pytest: "Initialization: determining rootdir and configfile").
_FILES = {
    "pytest.toml": ("pytest",),
    ".pytest.toml": ("pytest",),
    "pytest.ini": ("pytest",),
    ".pytest.ini": ("pytest",),
    "pyproject.toml": ("tool.pytest", "tool.pytest.ini_options"),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PytestSettings:
    """The settings that decide which tests run and what they can import. `file` is None where there are none."""

    root: Path
    file: Path | None = None
    values: Mapping[str, tuple[str, ...]]

    def get(self, key: str) -> tuple[str, ...]:
        """Return the words of a setting; none if it is not set."""
        return self.values.get(key, ())

    @property
    def imports_by_path(self) -> bool:
        """Whether pytest puts the directories of tests and conftest.py files on the import path (its default)."""
        options = " ".join(self.get("addopts")).replace("--import-mode ", "--import-mode=")
        return "--import-mode=importlib" not in options


def pytest_settings(start: Path) -> PytestSettings:
    """Return the settings of the nearest directory at or above `start` that has some. Raises `UsageError` for a broken file."""
    for directory in (start, *start.parents):
        for name, tables in _FILES.items():
            path = directory / name
            if path.is_file() and (found := _read(path, tables)) is not None:
                return PytestSettings(root=directory, file=path, values=found)
        if (directory / ".git").exists():
            break
    return PytestSettings(root=start, values={})


def _read(path: Path, tables: tuple[str, ...]) -> dict[str, tuple[str, ...]] | None:
    found = _toml_tables(read_toml(path), tables) if path.suffix == ".toml" else _ini_section(path, tables[0])
    if found is None and path.name.endswith(("pytest.ini", "pytest.toml")):
        # pytest takes them even if they are empty.
        found = {}
    return None if found is None else {key: _words(value) for key, value in found.items()}


def _toml_tables(document: dict[str, Any], tables: tuple[str, ...]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = None
    for table in tables:
        value: Any = document
        for key in table.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, dict):
            found = {**(found or {}), **value}
    return found


def _ini_section(path: Path, section: str) -> dict[str, Any] | None:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text_of(read_bytes(path, most=LARGEST_BYTES)))
    except (Malformed, configparser.Error) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{path} is not valid INI: {reason}. Correct it, then run the same command again.") from error
    return dict(parser[section]) if parser.has_section(section) else None


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(map(str, value))
    try:
        return tuple(shlex.split(str(value), comments=True))
    except ValueError:
        return tuple(str(value).split())
