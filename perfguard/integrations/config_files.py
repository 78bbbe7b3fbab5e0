"""Configuration files of other tools: read as text, JSON or YAML; every error is one line with line and column.

Nothing in a file is executed. A key that an object has twice is an error, since JSON and YAML parsers keep one of the two
without a word.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from perfguard.configuration import one_line, shown
from perfguard.errors import UsageError
from perfguard.version import install_command

#: A configuration is a page long; a larger file is something else.
LARGEST_BYTES = 1 << 20
_LONGEST_INTEGER = 18
#: The largest number of entries that merge keys give a document; MindFormers' own give some hundred.
_MOST_MERGED = 10_000
_MERGE_TAG = "tag:yaml.org,2002:merge"


def read_text(path: Path, *, hint: str, largest: int = LARGEST_BYTES) -> str:
    """Return the text of a configuration file; `hint` says which file to name if it is missing.

    Raises `UsageError` for a file that is missing, not regular, too large, empty or not UTF-8.
    """
    name = one_line(str(path))
    try:
        # Without O_NONBLOCK a pipe waits for a writer. The type is looked up after opening, so that it cannot change between.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise UsageError(f"{name} is not a regular file; name a configuration file.")
            data = file.read(largest + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{name} is missing; name {hint}.") from error
    except IsADirectoryError as error:
        raise UsageError(f"{name} is a directory; name the file in it.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{name} cannot be read: {reason}.") from error
    return decoded(data, name, largest=largest)


def decoded(data: bytes, name: str, *, largest: int = LARGEST_BYTES) -> str:
    """Return the bytes of a configuration file as text. Raises `UsageError`: too large, empty, not UTF-8."""
    if len(data) > largest:
        raise UsageError(f"{name} is larger than {largest >> 20} MiB, so it is not a configuration file.")
    if not data.strip():
        raise UsageError(f"{name} is empty.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}.") from error


# -- JSON ----------------------------------------------------------------------------------------------------------------


def read_json(text: str, name: str) -> Any:
    """Parse strict JSON: no NaN, no key twice, no integer of more than 18 digits. Raises `UsageError` with line and column."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}.") from error
    except RecursionError as error:
        raise UsageError(f"{name} is nested too deeply to be a configuration.") from error
    except ValueError as error:
        raise UsageError(f"{name} is not JSON: {error}.") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        double = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {shown(double)} twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise ValueError(f"the number {text[:_LONGEST_INTEGER]}... has more than {_LONGEST_INTEGER} digits")
    return int(text)


# -- YAML ----------------------------------------------------------------------------------------------------------------


def read_yaml(text: str, name: str) -> Any:
    """Parse YAML 1.1 with PyYAML's safe loader. Raises `UsageError` with line and column, and without PyYAML."""
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        raise UsageError(
            f"{name} is YAML, and PyYAML is not installed. Run: {install_command('mindformers')}"
        ) from error
    try:
        return yaml.load(text, Loader=_loader(yaml))
    except yaml.MarkedYAMLError as error:
        raise UsageError(f"{name} is not YAML: {_syntax_error(text, error)}.") from error
    except RecursionError as error:
        raise UsageError(f"{name} is nested too deeply to be a configuration.") from error
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{name} is not YAML: {' '.join(one_line(str(error)).split())}.") from error


def _loader(yaml: Any) -> Any:
    """Return PyYAML's safe loader with two more rules: a mapping has every key once, and merge keys give few entries.

    Without the second one each line of `<<: [*above, *above]` doubles what is in memory.
    """

    def construct_mapping(self: Any, node: Any, deep: bool = False) -> Any:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE_TAG:
                continue
            if (key.tag, key.value) in seen:
                problem = f"the key {shown(key.value)} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, key.value))
        return yaml.SafeLoader.construct_mapping(self, node, deep=deep)

    def flatten_mapping(self: Any, node: Any) -> None:
        before = len(node.value)
        yaml.SafeLoader.flatten_mapping(self, node)
        self.merged += max(0, len(node.value) - before)
        if self.merged > _MOST_MERGED:
            problem = f"merge keys (<<) give more than {_MOST_MERGED} entries"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)

    rules = {"construct_mapping": construct_mapping, "flatten_mapping": flatten_mapping, "merged": 0}
    return type("Loader", (yaml.SafeLoader,), rules)


def _syntax_error(text: str, error: Any) -> str:
    problem = " ".join(one_line(str(error.problem or error.context)).split())
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return problem
    lines = text.splitlines()[: mark.line + 1]
    # MindFormers' documents print lists with asterisks, which YAML reads as aliases.
    starred = [number for number, line in enumerate(lines, start=1) if re.match(r"\s*\*\s+\w+:", line)]
    if starred:
        return f"line {starred[-1]}: a list item begins with '- ', not with '* '"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
