"""Excerpts: the line of a file that a finding is about, as it stands there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfguard.findings import Finding, split_place

#: Of one file so many lines are quoted, and so far into it is looked; a line is quoted as far as this many characters.
_LINES = 20
_BYTES = 1 << 26
_CHARACTERS = 400


def with_excerpts(findings: Iterable[Finding], directory: Path) -> tuple[Finding, ...]:
    """Return the findings, those that name a line of a text file under `directory` with that line.

    What cannot be quoted stays as it is: the file lies elsewhere, has vanished, or the line is too far down.
    """
    found = tuple(findings)
    wanted: dict[str, list[int]] = {}
    for one in found:
        file, line, _ = split_place(one.place)
        if line is not None and not one.more and len(lines := wanted.setdefault(file, [])) < _LINES:
            lines.append(line)
    quoted = {file: _lines(directory, file, lines) for file, lines in wanted.items()}
    return tuple(_quoting(one, quoted) for one in found)


def _quoting(finding: Finding, quoted: Mapping[str, Mapping[int, str]]) -> Finding:
    file, line, _ = split_place(finding.place)
    text = quoted.get(file, {}).get(line or 0, "")
    return replace(finding, excerpt=text) if text else finding


def _lines(directory: Path, file: str, lines: Sequence[int]) -> dict[int, str]:
    """Return some lines of a file, counted from 1; none where it is no plain file inside of `directory`."""
    root = os.path.realpath(directory)
    path = os.path.realpath(os.path.join(root, file))
    found: dict[int, str] = {}
    if not path.startswith(root + os.sep) or not os.path.isfile(path):
        return found
    try:
        with open(path, "rb") as stream:
            left, last = _BYTES, max(lines)
            number = 0
            while number < last and left > 0 and (raw := stream.readline(left)):
                number += 1
                left -= len(raw)
                if number in lines:
                    found[number] = _text(raw)
    except OSError:
        # It was there when it was checked; a quotation is no reason to fail.
        return {}
    return found


def _text(raw: bytes) -> str:
    text = raw[: 4 * _CHARACTERS].decode("utf-8", "replace").rstrip("\r\n")
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"
