"""perfguard's own JSON documents: find their schemas, read and validate them, and format them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Self

import msgspec

from perfguard.errors import DamagedError, StoreError, UsageError
from perfguard.extensions import dialect_folders
from perfguard.inputs import Malformed, json_of, read_bytes, refuse_extremes, text_of
from perfguard.validator import Validator
from perfguard.version import reinstall_command, upgrade_command

_SHIPPED = Path(__file__).resolve().parent / "_schemas"
_CHECKOUT = Path(__file__).resolve().parent.parent / "schemas"

#: The first format number of perfguard's documents; `newest_format` returns the newest. A newer document is refused, or read
#: with a warning.
FORMAT = 1
#: Longest message about a document, in characters: jsonschema quotes the whole value.
_LONGEST_MESSAGE = 300
#: So many violations of a document are looked for: one is shown, the others are counted.
_MOST_VIOLATIONS = 20


class Plain:
    """Base of dataclasses that recordings, baselines and reports keep in plain form."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """Invert `as_dict`; JSON may hold 1.0 for 1, and lists for tuples."""
        return msgspec.convert(plain, cls, strict=False)


def merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return both objects as one; of a key in both the upper value counts, and two objects are merged too."""
    both = {key: value for key, value in upper.items() if isinstance(value, dict) and isinstance(lower.get(key), dict)}
    return {**lower, **upper, **{key: merged(lower[key], value) for key, value in both.items()}}


def schemas_directory() -> Path:
    """Return the directory of the schemas: inside the wheel, or at the top of a checkout (editable install)."""
    for place in (_SHIPPED, _CHECKOUT):
        if place.is_dir():
            return place
    raise StoreError(f"perfguard's schemas are missing from {_SHIPPED}; run: {reinstall_command()}")


@cache
def schema(name: str) -> dict[str, Any]:
    """Return the schema `<name>.schema.json`: perfguard's own, else that of a dialect from another distribution.

    Raises `StoreError` for an unknown name.
    """
    for folder in ("", "artifacts", "configurations"):
        path = schemas_directory() / folder / f"{name}.schema.json"
        if path.is_file():
            loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return loaded
    if (added := _added_schemas().get(name)) is None:
        raise StoreError(f"Unknown schema {name!r}. List the schemas with: perfguard schema list")
    return shipped_json(added, "a schema")


@cache
def _added_schemas() -> dict[str, Path]:
    """Return the schemas of dialects from other distributions by name. Raises `UsageError` for a duplicate name."""
    own = {path.name for path in schemas_directory().glob("**/*.schema.json")}
    found: dict[str, Path] = {}
    for folder in dialect_folders().values():
        for path in sorted((folder / "artifacts").glob("*.schema.json")):
            name = path.name.removesuffix(".schema.json")
            if path.name in own or name in found:
                raise UsageError(f"{path} has the same name as {found.get(name, 'a schema of perfguard')}. Rename it.")
            found[name] = path
    return found


def shipped_json(path: Path, what: str) -> dict[str, Any]:
    """Return the JSON object in a file of a dialect. Raises `UsageError` if it is not one."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not {what} in JSON: {error}. Correct it, or uninstall its package.") from error
    if not isinstance(loaded, dict):
        raise UsageError(
            f"{path} must be {what}, a JSON object, got {type(loaded).__name__}. Correct it, or uninstall its package."
        )
    return loaded


def newest_format(schema_name: str) -> int:
    """Return the newest format of a document that this perfguard reads; it is the one that it writes."""
    stated = schema(schema_name).get("properties", {}).get("format", {})
    return max([int(number) for number in stated.get("enum", [stated.get("const", FORMAT)])])


def schema_names() -> list[str]:
    """Return the names of all schemas: of artifacts, of other distributions, of perfguard's documents and configurations."""
    artifacts, *own = (
        sorted(path.name.removesuffix(".schema.json") for path in (schemas_directory() / folder).glob("*.schema.json"))
        for folder in ("artifacts", "", "configurations")
    )
    return [*artifacts, *_added_schemas(), *sorted(own[0] + own[1])]


def violations(document: object, schema_name: str, *, most: int = _MOST_VIOLATIONS) -> list[str]:
    """Return jsonschema's messages for the first violations in `document`, each with its JSON path, sorted by path."""
    found = islice(Validator(schema(schema_name)).errors(document), most)
    errors = sorted(found, key=lambda e: list(map(str, e.path)))
    return [_shortened(f"{error.json_path} {error.message}") for error in errors]


def _shortened(text: str) -> str:
    """Cut a long message in its middle: the expected value is at its end."""
    if len(text) <= _LONGEST_MESSAGE:
        return text
    return f"{text[: _LONGEST_MESSAGE * 2 // 3]} … {text[-_LONGEST_MESSAGE // 3 :]}"


def read_document(path: Path, schema_name: str, *, remedy: str) -> dict[str, Any]:
    """Read one of perfguard's documents and validate it against its schema.

    `remedy` is the next command, appended to every message. Raises `StoreError` if the file cannot be read, is not JSON, has
    a newer format, or violates the schema.
    """
    return checked(path, parsed(path, remedy=remedy), schema_name, remedy=remedy)


def checked(path: Path, document: object, schema_name: str, *, remedy: str) -> dict[str, Any]:
    """Validate a document that was read from `path`, and return it; raises as `read_document` does."""
    newest = newest_format(schema_name)
    if (found := format_of(document)) > newest:
        raise StoreError(
            f"{path} has format {found}, but this perfguard reads formats up to {newest}: a newer perfguard wrote it. "
            f"Run: {upgrade_command()}"
        )
    if broken := violations(document, schema_name):
        least = "at least " if len(broken) == _MOST_VIOLATIONS else ""
        more = f" (and {least}{len(broken) - 1} more)" if len(broken) > 1 else ""
        raise DamagedError(f"{path} is damaged: {broken[0]}{more}. {remedy}")
    assert isinstance(document, dict)
    return document


def exists(path: Path) -> bool:
    """Whether a directory has an entry, also a link that leads nowhere. Raises `StoreError` if it cannot be searched."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}. Run: chmod u+rx {shlex.quote(str(path.parent))}"
        ) from error
    return True


def format_of(document: object) -> int:
    """Return the format number of a document; 0 without one."""
    found = document.get("format") if isinstance(document, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def parsed(path: Path, *, remedy: str) -> Any:
    """Return the content of a JSON file within the bounds of `inputs`; raises as `read_document` does."""
    try:
        data = read_bytes(path)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing. {remedy}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}. {remedy}") from error
    except Malformed as error:
        raise DamagedError(f"{path} cannot be read: {error}. {remedy}") from error
    try:
        return json_of(text_of(data))
    except Malformed as error:
        raise DamagedError(f"{path} is damaged: {_fault(path, data) or f'{error}.'} {remedy}") from error


#: How `git merge` begins, parts and ends both sides of a conflict (git-merge(1), "How conflicts are presented").
_CONFLICT = re.compile(rb"^(<{7} |={7}$|>{7} )", re.MULTILINE)
#: The first line of a pointer (github.com/git-lfs/git-lfs, docs/spec.md).
_LFS = b"version https://git-lfs.github.com/spec/"


def _fault(path: Path, content: bytes) -> str:
    """Return what is in a file that is no JSON, and the command for that; empty if it is nothing known."""
    if not content.strip():
        return "it is empty."
    if content.startswith(_LFS):
        return "it is a pointer of Git LFS, not the file itself; run: git lfs pull."
    if found := _CONFLICT.search(content):
        line = content.count(b"\n", 0, found.start()) + 1
        take = f"git checkout --ours {shlex.quote(str(path))}"
        return f"it has a merge conflict (line {line}); take one side: {take}, or --theirs."
    return ""


def dumps(document: dict[str, Any], *, lines_of: str | None = None) -> str:
    """Return JSON with sorted keys and indentation; the items of the list `lines_of` are one a line, for readable diffs.

    Raises `StoreError` for what `parsed` would refuse: NaN, infinity, and numbers beyond the bounds of `inputs`.
    """
    try:
        refuse_extremes(document)
    except Malformed as error:
        raise StoreError(f"A measurement cannot be written as JSON: {error}. Measure again.") from error
    if lines_of is None:
        return _dumps(document, indent=2) + "\n"
    items = [_dumps(item) for item in document[lines_of]]
    body = "[\n    " + ",\n    ".join(items) + "\n  ]" if items else "[]"
    others = {key: dumps({key: value})[2:-3] for key, value in document.items()}
    others[lines_of] = f"  {_dumps(lines_of)}: {body}"
    return "{\n" + ",\n".join(others[key] for key in sorted(others)) + "\n}\n"


def _dumps(value: object, *, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A file name that is not UTF-8 contains lone surrogates; escaped, they survive writing and reading.
        return json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return text
