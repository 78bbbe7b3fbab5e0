"""JSON documents perfguard keeps: found schemas, checked reading, atomic writing."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from perfguard.errors import DamagedError, StoreError, UsageError
from perfguard.extensions import dialect_folders
from perfguard.validator import Validator

_SHIPPED = Path(__file__).resolve().parent / "_schemas"
_CHECKOUT = Path(__file__).resolve().parent.parent / "schemas"

#: The number a document of perfguard's own begins with; `newest_format` says how far one has come. A newer one is refused, or
#: read with a remark, and never guessed at.
FORMAT = 1
_DESCRIPTOR = re.compile(r"/dev/(fd/|std(in|out|err)\Z)|/proc/[^/]+/(task/[^/]+/)?fd/")
#: How much of what is wrong with a document is told: jsonschema quotes the whole of it.
_TOLD = 300
#: A number of more digits than this is beyond what a float holds, and of no size or time.
_DIGITS = 300


def schemas_directory() -> Path:
    """Return where the schemas lie: inside the wheel, or at the top of a checkout (editable install)."""
    for place in (_SHIPPED, _CHECKOUT):
        if place.is_dir():
            return place
    raise StoreError(f"perfguard's schemas are missing from {_SHIPPED}; run: pip install --force-reinstall perfguard")


@cache
def schema(name: str) -> dict[str, Any]:
    """Return the schema `<name>.schema.json`: perfguard's own, else that of a dialect from another distribution.

    Raises `StoreError` when there is none of that name.
    """
    for folder in ("", "artifacts"):
        path = schemas_directory() / folder / f"{name}.schema.json"
        if path.is_file():
            loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return loaded
    if (added := _added_schemas().get(name)) is None:
        raise StoreError(f"There is no schema named {name!r}; run: perfguard schema list")
    return shipped_json(added, "a schema")


@cache
def _added_schemas() -> dict[str, Path]:
    """Return the schemas of dialects from other distributions by name. Raises `UsageError` where two have one name."""
    own = {path.name for path in schemas_directory().glob("**/*.schema.json")}
    found: dict[str, Path] = {}
    for folder in dialect_folders().values():
        for path in sorted((folder / "artifacts").glob("*.schema.json")):
            name = path.name.removesuffix(".schema.json")
            if path.name in own or name in found:
                raise UsageError(f"{path} has the name of {found.get(name, 'a schema of perfguard')}; rename it.")
            found[name] = path
    return found


def shipped_json(path: Path, what: str) -> dict[str, Any]:
    """Return the object in a file that came with a dialect. Raises `UsageError` where it holds none."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} must be {what} in JSON: {error}. Mend it, or uninstall what it came with.") from error
    if not isinstance(loaded, dict):
        raise UsageError(f"{path} must be {what}, which is an object. Mend it, or uninstall what it came with.")
    return loaded


def newest_format(schema_name: str) -> int:
    """Return the newest number of a document that this perfguard reads, which is the one it writes."""
    stated = schema(schema_name).get("properties", {}).get("format", {})
    return max([int(number) for number in stated.get("enum", [stated.get("const", FORMAT)])])


def schema_names() -> list[str]:
    """Return the names of all schemas: those of artifacts, those of other distributions, then perfguard's own."""
    artifacts, own = (
        [path.name.removesuffix(".schema.json") for path in sorted(folder.glob("*.schema.json"))]
        for folder in (schemas_directory() / "artifacts", schemas_directory())
    )
    return [*artifacts, *_added_schemas(), *own]


def violations(document: object, schema_name: str) -> list[str]:
    """Return jsonschema's messages for `document`, each with its JSON path, worst nesting last."""
    errors = sorted(Validator(schema(schema_name)).errors(document), key=lambda e: list(map(str, e.path)))
    return [_shortened(f"{error.json_path} {error.message}") for error in errors]


def _shortened(text: str) -> str:
    """Cut what was found in its middle: what should be there stands at the end."""
    return text if len(text) <= _TOLD else f"{text[: _TOLD * 2 // 3]} … {text[-_TOLD // 3 :]}"


def read_document(path: Path, schema_name: str, *, remedy: str) -> dict[str, Any]:
    """Read a document of perfguard's own and check it against its schema.

    `remedy` is the next command, appended to every message. Raises `StoreError` when the file cannot be read,
    is not JSON, is of a newer format, or breaks the schema.
    """
    return checked(path, parsed(path, remedy=remedy), schema_name, remedy=remedy)


def checked(path: Path, document: object, schema_name: str, *, remedy: str) -> dict[str, Any]:
    """Return a document that was read from `path`, when it is of a format that is known and keeps its schema; raises as
    `read_document` does."""
    newest = newest_format(schema_name)
    if (found := format_of(document)) > newest:
        raise StoreError(
            f"{path} has format {found}, and this perfguard reads up to {newest}: it was written by a newer one. "
            "Run: pip install --upgrade perfguard"
        )
    if broken := violations(document, schema_name):
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise DamagedError(f"{path} is damaged: {broken[0]}{more}. {remedy}")
    assert isinstance(document, dict)
    return document


def format_of(document: object) -> int:
    """Return the number a document carries; 0 where it has none."""
    found = document.get("format") if isinstance(document, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def parsed(path: Path, *, remedy: str, whole: Callable[[str], Any] = int) -> Any:
    """Return what a file of JSON holds, whatever it is; raises as `read_document` does. `whole` makes its whole numbers."""
    if os.path.exists(path) and not os.path.isfile(path):
        # Opening a pipe would wait for a writer who never comes.
        raise StoreError(f"{path} cannot be read: it is not a regular file. {remedy}")
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=whole)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing. {remedy}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}. {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: {error}. {remedy}") from error


def dumps(document: dict[str, Any], *, lines_of: str | None = None) -> str:
    """Return sorted, indented JSON; the items of the list `lines_of` are kept one a line, so that diffs read well.

    Raises `StoreError` for NaN and infinity, which JSON does not have.
    """
    if lines_of is None:
        return _dumps(document, indent=2) + "\n"
    items = [_dumps(item) for item in document[lines_of]]
    body = "[\n    " + ",\n    ".join(items) + "\n  ]" if items else "[]"
    others = {key: dumps({key: value})[2:-3] for key, value in document.items()}
    others[lines_of] = f"  {_dumps(lines_of)}: {body}"
    return "{\n" + ",\n".join(others[key] for key in sorted(others)) + "\n}\n"


def _dumps(value: object, *, indent: int | None = None) -> str:
    try:
        text = json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise StoreError(
            f"A measurement is NaN or infinite, which JSON cannot hold ({error}); measure again."
        ) from error
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A file name that is not UTF-8 comes as lone surrogates; escaped, it survives the way there and back.
        return json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return text


def sized_number(text: str) -> int:
    """Make a whole number that a float can hold; raises `ValueError` for one of more digits."""
    if len(text) > _DIGITS:
        raise ValueError(f"{text[:20]}… has {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is beyond every number")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def write_atomically(path: Path, text: str | Iterable[str]) -> None:
    """Write a temporary neighbour and rename it, so that a reader, a crash or a full disk never sees half a file.

    A long text may come in pieces. Raises `StoreError`; what was at `path` before is then untouched.
    """
    temporary: str | None = None
    try:
        if _is_a_descriptor(path):
            raise StoreError(f"{path} is not a regular file; name one, and print it afterwards.")
        path = Path(os.path.realpath(path))  # a link stays a link, and what it points to is written
        if os.path.lexists(path) and not os.path.isfile(path):
            raise StoreError(f"{path} is not a regular file; name another one.")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines([text] if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        found = f"{error.filename} is no directory" if isinstance(error, FileExistsError) else error.strerror
        raise StoreError(
            f"{path} cannot be written: {found}; what was there before is kept. "
            "Free the disk or mend the permissions, then run the same command again."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):  # gone already when the rename succeeded
                os.unlink(temporary)


def _is_a_descriptor(path: Path) -> bool:
    """Whether a path leads to what a process has open (/dev/stdout): behind it may be a log, which would be replaced."""
    seen: set[str] = set()
    place = os.path.abspath(path)
    while place not in seen and not _DESCRIPTOR.match(place) and os.path.islink(place):
        seen.add(place)
        place = os.path.abspath(os.path.join(os.path.dirname(place), os.readlink(place)))
    return _DESCRIPTOR.match(place) is not None


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
