"""Excerpts: the line of a table, or the element of a JSON file, that a finding is about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfguard.findings import Finding, split_place
from perfguard.opening import confined, open_regular

#: The largest numbers of files (those of the worst findings), of places in a file, of bytes that are searched for lines, and
#: of characters of an excerpt.
_FILES = 30
_PLACES = 20
_BYTES = 1 << 26
_CHARACTERS = 400
#: Larger JSON files are not read again for excerpts.
_JSON_BYTES = 1 << 22
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]")


def with_excerpts(findings: Iterable[Finding], directory: Path) -> tuple[Finding, ...]:
    """Return the findings with excerpts, where they name a line or an element of a file under `directory`.

    There is none if the file is outside of it or gone, or the line is too far down.
    """
    found = tuple(findings)
    by_file: dict[str, list[Finding]] = {}
    for one in found:
        file, line, inside = split_place(one.place)
        if (line is not None or inside) and not one.more:
            by_file.setdefault(file, []).append(one)
    quoted: dict[int, str] = {}
    with confined(directory):
        for file, group in list(by_file.items())[:_FILES]:
            quoted |= _quoted(directory / file, group[:_PLACES])
    return tuple(replace(one, excerpt=text) if (text := quoted.get(id(one))) else one for one in found)


def _quoted(path: Path, findings: Sequence[Finding]) -> dict[int, str]:
    """Return the excerpt of each finding, by its identity."""
    places = {id(one): split_place(one.place) for one in findings}
    lines = {line for _, line, _ in places.values() if line is not None}
    try:
        if lines:
            texts = _lines(path, lines)
            return {one: texts.get(line or 0, "") for one, (_, line, _) in places.items()}
        document = _document(path)
    except (OSError, ValueError, RecursionError):
        # The file was read before, and its errors are findings already.
        return {}
    return {one: _element(document, inside) for one, (_, _, inside) in places.items()}


def _lines(path: Path, numbers: set[int]) -> dict[int, str]:
    """Return some lines of a file, counted from 1."""
    found: dict[int, str] = {}
    with open_regular(path) as stream:
        left, number, last = _BYTES, 0, max(numbers)
        while number < last and left > 0 and (raw := stream.readline(left)):
            number += 1
            left -= len(raw)
            if number in numbers:
                found[number] = _short(raw[: 4 * _CHARACTERS].decode("utf-8", "replace").rstrip("\r\n"))
    return found


def _document(path: Path) -> Any:
    with open_regular(path) as stream:
        content = stream.read(_JSON_BYTES + 1)
    return json.loads(content) if len(content) <= _JSON_BYTES else None


def _element(document: Any, inside: str) -> str:
    """Return the innermost element of a list that a JSON path leads into: `$.traceEvents[17].dur` is about an event."""
    at, found = document, None
    for key, index in _STEP.findall(inside):
        if index and isinstance(at, list) and int(index) < len(at):
            at = found = at[int(index)]
        elif key and isinstance(at, dict) and key in at:
            at = at[key]
        else:
            break
    return "" if found is None else _short(json.dumps(found, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"
