"""Inputs: the documents that other people wrote, in JSON, YAML and TOML, read within bounds.

Every foreign or stored document comes in here: perfguard's own (`documents`) and configurations (`config_files`). A profiler's
files have readers of their own (`artifacts.readers`). Nothing in a document is executed. A key that an object has twice is an
error, since parsers keep one of the two without a word (RFC 8259, section 4).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from perfguard.opening import NotRegular, open_regular
from perfguard.screen import one_line, shown

#: The bounds of a document: with them each is read, validated and shown in 512 MB. The report of a test has some 5 000 values.
MAX_BYTES = 64 * 1024**2
MAX_VALUES = 3_000_000
#: The deepest nesting; perfguard's own documents have ten levels.
MAX_DEPTH = 64
#: More digits than this are no size and no time; with the same bound of other numbers, sums and squares stay finite.
MAX_DIGITS = 150
_LARGEST, _TOO_LONG = 10.0**MAX_DIGITS, 10**MAX_DIGITS
#: Beyond it every float is whole (IEEE 754).
_ALL_WHOLE = 2.0**53
#: The largest number of nodes of a YAML document; each takes some 30 us. MindFormers' own have some hundred.
_MOST_NODES = 100_000
#: The largest number of entries that merge keys give a document; MindFormers' own give some hundred.
_MOST_MERGED = 10_000
_MERGE_TAG = "tag:yaml.org,2002:merge"
#: A dotted key of more parts: Python's parser keeps every beginning of it, so that memory grows with the square.
_MAX_KEY_PARTS = 64
#: A word or a text in quotation marks, with the dot that follows it in a dotted key; or what is between them.
_TOML_TOKEN = re.compile(
    r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)[ \t]*+(?P<dot>\.?)[ \t]*+|[^A-Za-z0-9_"'-]++"""
)


class Malformed(ValueError):
    """What is wrong with a document, without its name."""


def read_bytes(path: Path, *, most: int = MAX_BYTES) -> bytes:
    """Return the bytes of a regular file. Raises `Malformed` for another file and for more than `most` bytes, and `OSError`."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            # It is not trusted: files below /proc have none, and others grow.
            data = b"" if size > most else file.read(most + 1)
    except NotRegular as error:
        raise Malformed(error.strerror) from error
    if max(size, len(data)) > most:
        raise Malformed(f"it is larger than {most >> 20} MiB")
    return data


def text_of(data: bytes) -> str:
    """Return UTF-8 as text, without a byte order mark. Raises `Malformed`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Malformed(f"it is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from error


# -- JSON ----------------------------------------------------------------------------------------------------------------


def json_of(text: str, *, digits: int = MAX_DIGITS) -> Any:
    """Parse JSON: no NaN, no key twice, no number of more digits. Raises `Malformed`, of syntax with line and column."""
    # Each value but the first follows one of these; those inside of texts make the count larger.
    if (values := sum(map(text.count, ",[{"))) > MAX_VALUES:
        raise Malformed(f"it has about {values} values, more than the {MAX_VALUES} that are read")

    def whole(number: str) -> int:
        if len(number.lstrip("-")) > digits:
            raise Malformed(f"the number {number[:20]}... has more than {digits} digits")
        return int(number)

    def real(text: str) -> float:
        # A large one is an integer, as schemas have it: 1e18 of nanoseconds.
        number = float(text)
        return int(number) if _ALL_WHOLE < abs(number) < 10.0**digits else number

    try:
        found = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_int=whole,
            parse_float=real,
        )
    except json.JSONDecodeError as error:
        raise Malformed(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise Malformed("it is nested too deeply") from error
    refuse_extremes(found)
    return found


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        double = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise Malformed(f"an object has the key {shown(double)} twice")
    return found


def _refuse_constant(name: str) -> None:
    raise Malformed(f"{name} is not a JSON number")


def refuse_extremes(document: Any, *, endless: bool = False) -> None:
    """Raise `Malformed` for nesting that is too deep, and for a number whose square no float holds.

    With `endless`, infinities and NaN are no error: TOML and YAML have them. What is there several times (YAML's aliases) is
    looked at once on each level.
    """
    level, depth = [document], 0
    while level:
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list | tuple):
                below += one
            elif isinstance(one, float) and not -_LARGEST < one < _LARGEST and not (endless and not math.isfinite(one)):
                raise Malformed(f"a number is {one:g}, which is beyond ±{_LARGEST:g}")
            elif isinstance(one, int) and not -_TOO_LONG < one < _TOO_LONG:
                raise Malformed(f"a number has more than {MAX_DIGITS} digits")
        level, depth = [*{id(one): one for one in below}.values()] if endless else below, depth + 1
        if depth > MAX_DEPTH:
            raise Malformed("it is nested too deeply")


def _described(error: Exception) -> str:
    """Return the words of a parser, without Python's advice to raise its own bound of digits."""
    return str(error).partition("; use sys.")[0]


# -- YAML ----------------------------------------------------------------------------------------------------------------


def yaml_of(text: str) -> Any:
    """Parse YAML 1.1 with PyYAML's safe loader. Raises `Malformed` with line and column, and `ImportError` without PyYAML."""
    yaml = import_module("yaml")
    try:
        found = yaml.load(text, Loader=_loader(yaml))
    except yaml.MarkedYAMLError as error:
        raise Malformed(_syntax_error(text, error)) from error
    except RecursionError as error:
        raise Malformed("it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise Malformed(" ".join(one_line(_described(error)).split())) from error
    refuse_extremes(found, endless=True)
    return found


def _loader(yaml: Any) -> Any:
    """Return PyYAML's safe loader with more rules: a mapping has every key once, and nodes and merged entries are bounded.

    Without the bound each line of `<<: [*above, *above]` doubles what is in memory.
    """

    def refuse(problem: str, mark: Any) -> None:
        raise yaml.constructor.ConstructorError(None, None, problem, mark)

    def compose_node(self: Any, parent: Any, index: Any) -> Any:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            refuse(f"it has more than {_MOST_NODES} values", self.peek_event().start_mark)
        return yaml.SafeLoader.compose_node(self, parent, index)

    def construct_mapping(self: Any, node: Any, deep: bool = False) -> Any:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE_TAG:
                continue
            if (key.tag, key.value) in seen:
                refuse(f"the key {shown(key.value)} is there twice", key.start_mark)
            seen.add((key.tag, key.value))
        return yaml.SafeLoader.construct_mapping(self, node, deep=deep)

    def flatten_mapping(self: Any, node: Any) -> None:
        before = len(node.value)
        yaml.SafeLoader.flatten_mapping(self, node)
        self.merged += max(0, len(node.value) - before)
        if self.merged > _MOST_MERGED:
            refuse(f"merge keys (<<) give more than {_MOST_MERGED} entries", node.start_mark)

    rules = {
        "compose_node": compose_node,
        "construct_mapping": construct_mapping,
        "flatten_mapping": flatten_mapping,
        "merged": 0,
        "nodes": 0,
    }
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


# -- TOML ----------------------------------------------------------------------------------------------------------------


def toml_of(text: str) -> dict[str, Any]:
    """Parse TOML 1.0. Raises `Malformed`, of syntax with line and column."""
    import tomllib

    dots = 0
    for token in _TOML_TOKEN.finditer(text):
        dots = dots + 1 if token["dot"] else 0
        if dots >= _MAX_KEY_PARTS:
            line = text.count("\n", 0, token.start()) + 1
            raise Malformed(f"line {line}: a key has more than {_MAX_KEY_PARTS} parts")
    try:
        found: dict[str, Any] = tomllib.loads(text)
    except RecursionError as error:
        raise Malformed("it is nested too deeply") from error
    except ValueError as error:
        # Of its syntax, and of a number with more digits than Python converts.
        raise Malformed(one_line(_described(error))) from error
    refuse_extremes(found, endless=True)
    return found
