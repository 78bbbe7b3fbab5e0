"""Configuration files, of projects and of other tools: read as text, JSON, YAML or TOML; every error names the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfguard.errors import UsageError
from perfguard.inputs import Malformed, json_of, read_bytes, text_of, toml_of, yaml_of
from perfguard.screen import one_line
from perfguard.version import install_command

#: A configuration is a page long; a larger file is something else.
LARGEST_BYTES = 1 << 20
_LONGEST_INTEGER = 18


def read_text(path: Path, *, hint: str, largest: int = LARGEST_BYTES) -> str:
    """Return the text of a configuration file; `hint` says which file to name if it is missing.

    Raises `UsageError` for a file that is missing, not regular, too large, empty or not UTF-8.
    """
    name = one_line(str(path))
    try:
        data = read_bytes(path, most=largest)
    except FileNotFoundError as error:
        raise UsageError(f"{name} is missing; name {hint}.") from error
    except Malformed as error:
        what = "is a directory; name the file in it" if path.is_dir() else f"is no configuration file: {error}"
        raise UsageError(f"{name} {what}.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{name} cannot be read: {reason}.") from error
    return decoded(data, name, largest=largest)


def decoded(data: bytes, name: str, *, largest: int = LARGEST_BYTES) -> str:
    """Return the bytes of a configuration file as text. Raises `UsageError`: too large, empty, not UTF-8."""
    if len(data) > largest:
        raise UsageError(f"{name} is no configuration file: it is larger than {largest >> 20} MiB.")
    if not data.strip():
        raise UsageError(f"{name} is empty.")
    try:
        return text_of(data)
    except Malformed as error:
        raise UsageError(f"{name} is no configuration file: {error}.") from error


def read_json(text: str, name: str) -> Any:
    """Parse strict JSON, as `inputs.json_of` does, with integers of 64 bits. Raises `UsageError` with line and column."""
    try:
        return json_of(text, digits=_LONGEST_INTEGER)
    except Malformed as error:
        raise UsageError(f"{name} is not JSON: {error}.") from error


def read_yaml(text: str, name: str) -> Any:
    """Parse YAML, as `inputs.yaml_of` does. Raises `UsageError` with line and column, and without PyYAML."""
    try:
        return yaml_of(text)
    except ImportError as error:
        raise UsageError(
            f"{name} is YAML, and PyYAML is not installed. Run: {install_command('mindformers')}"
        ) from error
    except Malformed as error:
        raise UsageError(f"{name} is not YAML: {error}.") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file. Raises `UsageError` for one that cannot be read, or is none."""
    try:
        return toml_of(text_of(read_bytes(path, most=LARGEST_BYTES)))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Correct its permissions.") from error
    except Malformed as error:
        raise UsageError(f"{path} is not valid TOML: {error}. Correct it, then run the same command again.") from error
