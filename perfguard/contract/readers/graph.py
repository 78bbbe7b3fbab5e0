"""Graphs as text: MindSpore's `.ir` files and `.dot` drawings. Only their frame is looked at, not what the graph computes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.contract.readers import Content, read_text
from perfguard.contract.table import Unreadable

#: A block of an `.ir` file begins at the margin (`subgraph @net() {`, `jit config {`); a `#` line quotes Python source.
_OPENS = re.compile(r"^[^\s#}].*\{$", re.MULTILINE)
_CLOSES = re.compile(r"^\}", re.MULTILINE)
_SUBGRAPH = re.compile(r"^subgraph @.*\{$", re.MULTILINE)
_ANNOUNCED = re.compile(r"^# Total subgraphs: ([0-9]{1,9})$", re.MULTILINE)


def read_ir(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read an `.ir` file; the document is `{"entry": name or None, "subgraphs": number}`.

    A dump begins with `# IR entry: @name`; it says how many subgraphs follow, and every block is closed: a dump that was cut
    off breaks one of these. Files of other content (actor sets, the memory tracker's graph, analyze_fail.ir) have no such
    frame. Raises `Unreadable` for what is empty, no text, or cut off. Source: MindSpore 2.0 and 2.10, all dumps of levels 1
    and 3 read; anf_ir_dump.
    """
    text = _text(path)
    first = text.split("\n", 1)[0]
    subgraphs = len(_SUBGRAPH.findall(text))
    if not first.startswith("# IR entry:"):
        return Content(document={"entry": None, "subgraphs": subgraphs})
    entry = first.removeprefix("# IR entry:").strip()
    if not entry.startswith("@") or len(entry) < 2:
        raise Unreadable(f"its first line names no graph: {first[:120]!r}", ":1")
    opened, closed = len(_OPENS.findall(text)), len(_CLOSES.findall(text))
    if opened != closed:
        raise Unreadable(f"it opens {opened} blocks and closes {closed}: part of it is missing")
    announced = _ANNOUNCED.search(text)
    if announced is None:
        raise Unreadable("it does not say how many subgraphs it has: part of it is missing")
    if int(announced[1]) != subgraphs:
        raise Unreadable(f"it announces {announced[1]} subgraphs and holds {subgraphs}")
    return Content(document={"entry": entry[1:], "subgraphs": subgraphs})


def read_dot(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a `.dot` drawing of a graph; the document is `{"name": name of the digraph}`.

    Raises `Unreadable` for what is empty, no text, no digraph, or cut off. Source: MindSpore 2.10, all drawings of level 3
    read; Graphviz, the DOT language.
    """
    text = _text(path)
    begin = re.match(r"\s*(?:strict\s+)?digraph\s+(\S*)\s*\{", text)
    if begin is None:
        raise Unreadable(f"it does not begin with a digraph: {text[:60]!r}", ":1")
    # Braces inside labels and identifiers in quotes are text, not structure.
    plain = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    opened, closed = plain.count("{"), plain.count("}")
    if opened != closed or not plain.rstrip().endswith("}"):
        raise Unreadable(f"it opens {opened} blocks and closes {closed}: part of it is missing")
    return Content(document={"name": begin[1]})


def _text(path: Path) -> str:
    text = read_text(path).replace("\r\n", "\n")
    if not text.strip():
        raise Unreadable("it is empty")
    if "\0" in text:
        raise Unreadable(
            "it holds a byte of value 0, so it is no text", f":{text[: text.index(chr(0))].count(chr(10)) + 1}"
        )
    return text
