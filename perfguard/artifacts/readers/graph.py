"""Graphs as text: MindSpore's `.ir` files and `.dot` drawings.

These readers check the structure, find missing nodes and count the operators; they do not interpret the graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, read_text
from perfguard.artifacts.table import Unreadable

#: A block of an `.ir` file begins at the margin (`subgraph @net() {`, `jit config {`); a `#` line quotes Python source.
_OPENS = re.compile(r"^[^\s#}].*\{$", re.MULTILINE)
_CLOSES = re.compile(r"^\}", re.MULTILINE)
_SUBGRAPH = re.compile(r"^subgraph @.*\{$", re.MULTILINE)
#: With the other order of graphs (MS_DEV_SAVE_GRAPHS_SORT_MODE=1) a dump has `# Total subgraph: 6`, in 2.0 `#Total subgraph:`.
_ANNOUNCED = re.compile(r"^# ?Total subgraphs?: ([0-9]{1,9})$", re.MULTILINE)
_ENTRY = re.compile(r"# ?IR entry *:(.*)")
#: What a dump states of the parameters of its first graph, and the lines of these; what precedes each subgraph.
_ANNOUNCED_PARAMETERS = re.compile(r"^# ?Total params: ([0-9]{1,9})$", re.MULTILINE)
_PARAMETER = re.compile(r"^%para[0-9]", re.MULTILINE)
_PRECEDES = ("subgraph attr:", "subgraph instance:")
#: A dump has a number, which MindSpore adds to the name of each; an actor set may end with the number of its graph.
_NUMBERED = re.compile(r"(?!.*actor_set).*_[0-9]{4,}\.ir|trace_code_graph_[0-9]+")
_ANNOUNCED_NODES = re.compile(r"^Total number of cnodes: ([0-9]{1,9})$", re.MULTILINE)
#: The lines that begin a graph, a node with its number and name, and the node that ends the graph.
_LINE = re.compile(r"^(?:(subgraph @)|  (?:%([0-9]{1,9})\(.*?\) = |(?=Return\())(.*))", re.MULTILINE)
#: The operator that a node calls: MindSpore 2.3 and later write PrimFunc_MatMul where 2.0 wrote MatMul, and
#: S-Prim-MatMul before types are known. `call @graph(` and `%3[@graph](` are not operators.
_OPERATOR = re.compile(r"(?:PrimFunc_|S-Prim-)?([A-Za-z_]\w*)\(")
#: The beginning of a drawing, and a quoted text in it, which may end with the drawing. Possessive (`*+`), because backtracking
#: would take very long on crafted lines.
_DIGRAPH = re.compile(r"\s*+(?:strict\s++)?digraph\s++(\S*)\s*+\{")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
#: A node of a drawing, and an edge with both its ends, without labels.
_DRAWN = re.compile(r"^[ \t]*(\w+)[ \t]*\[", re.MULTILINE)
_EDGE = re.compile(r"^[ \t]*(\w+)(?::\w+)*[ \t]*->[ \t]*(\w+)", re.MULTILINE)


def read_ir(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read an `.ir` file; the document is `{"entry": name or None, "subgraphs": number, "operators": {name: how often}}`.

    A dump begins with `# IR entry: @name` and states the number of subgraphs; every block is closed. The nodes of a subgraph
    are numbered from 0, except its end (`Return`), and MindSpore 2.7 and later state their number. The parameters of the first
    graph are counted and listed, and each subgraph has its attributes and its instance before it. A dump that was cut off, or
    lost a node, violates one of these. Files of other content (actor sets, the memory tracker's graph, analyze_fail.ir) have
    no such structure, and no operators. Raises `Unreadable` for a file that is empty, not text, or incomplete.
    Source: MindSpore 2.0, 2.7, 2.8, 2.9 and 2.10, 13 000 dumps of levels 1 to 3 read, in both orders
    (MS_DEV_SAVE_GRAPHS_SORT_MODE); anf_ir_dump.
    """
    text = _text(path)
    first = text.split("\n", 1)[0]
    subgraphs = len(_SUBGRAPH.findall(text))
    named = _ENTRY.match(first)
    if named is None:
        if _NUMBERED.fullmatch(path.name):
            raise Unreadable(f"its first line names no graph, so its begin is missing: {first[:80]!r}", ":1")
        return Content(document={"entry": None, "subgraphs": subgraphs, "operators": {}})
    entry = named[1].strip()
    if not entry.startswith("@") or len(entry) < 2:
        raise Unreadable(f"its first line names no graph: {first[:120]!r}", ":1")
    opened, closed = len(_OPENS.findall(text)), len(_CLOSES.findall(text))
    if opened != closed:
        raise Unreadable(f"it opens {opened} blocks and closes {closed}: part of it is missing")
    announced = _ANNOUNCED.search(text)
    if announced is None:
        raise Unreadable("the number of its subgraphs is missing, so part of it is missing")
    if int(announced[1]) != subgraphs:
        raise Unreadable(f"it states {announced[1]} subgraphs and has {subgraphs}")
    _refuse_missing_parts(text, subgraphs)
    operators = _operators(text)
    return Content(document={"entry": entry[1:], "subgraphs": subgraphs, "operators": operators})


def _refuse_missing_parts(text: str, subgraphs: int) -> None:
    """Raise `Unreadable` if parameters are missing, or what precedes a subgraph.

    Source: MindSpore 2.0, 2.7 and 2.10, 4 500 dumps of levels 1 and 3 with control flow, in both orders; anf_ir_dump and
    analyze_fail (DumpParams, ExportOneFuncGraph).
    """
    announced = _ANNOUNCED_PARAMETERS.findall(text)
    parameters = len(_PARAMETER.findall(text))
    if len(announced) > 1 or (announced and int(announced[0]) != parameters):
        raise Unreadable(
            f"it states {' and '.join(announced)} parameters and has {parameters}: part of it is missing or twice"
        )
    counts = [len(re.findall(rf"^{part}", text, re.MULTILINE)) for part in _PRECEDES]
    if any(counts) and set(counts) != {subgraphs}:
        raise Unreadable(
            f"it has {subgraphs} subgraphs, and attributes of {counts[0]} and instances of {counts[1]} before them"
        )


def _operators(text: str) -> dict[str, int]:
    """Return the number of nodes of each operator; raises `Unreadable` if a node is missing."""
    found: Counter[str] = Counter()
    nodes = number = 0
    for match in _LINE.finditer(text):
        begins, numbered, called = match.groups()
        if begins:
            number = 0
            continue
        nodes += 1
        if numbered is not None:
            if int(numbered) != number:
                line = text.count("\n", 0, match.start()) + 1
                raise Unreadable(f"node %{numbered} follows where %{number} belongs: part of it is missing", f":{line}")
            number += 1
        if operator := _OPERATOR.match(called):
            found[operator[1]] += 1
    announced = _ANNOUNCED_NODES.search(text)
    if announced is not None and int(announced[1]) != nodes:
        raise Unreadable(f"it states {announced[1]} nodes and has {nodes}: part of it is missing")
    return dict(sorted(found.items()))


def read_dot(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a `.dot` drawing of a graph; the document is `{"name": name of the digraph}`.

    Raises `Unreadable` for a file that is empty, not text, no digraph, cut off, or has an edge to a node that it lacks. Source:
    MindSpore 2.0, 2.7 to 2.10, 3 000 drawings of level 3 read; Graphviz, the DOT language (which would draw such a node).
    """
    text = _text(path)
    begin = _DIGRAPH.match(text)
    if begin is None:
        raise Unreadable(f"it does not begin with a digraph: {text[:60]!r}", ":1")
    # Braces inside quoted labels and identifiers are text, not structure.
    plain = _QUOTED.sub('""', text)
    opened, closed = plain.count("{"), plain.count("}")
    if opened != closed or not plain.rstrip().endswith("}"):
        raise Unreadable(f"it opens {opened} blocks and closes {closed}: part of it is missing")
    drawn = set(_DRAWN.findall(plain))
    for edge in _EDGE.finditer(plain):
        for end in edge.groups():
            if end not in drawn:
                line = plain.count("\n", 0, edge.start()) + 1
                raise Unreadable(f"an edge leads to or from {end[:80]}, and no such node is drawn", f":{line}")
    return Content(document={"name": begin[1]})


def _text(path: Path) -> str:
    text = read_text(path).replace("\r\n", "\n")
    if not text.strip():
        raise Unreadable("it is empty")
    if "\0" in text:
        raise Unreadable("it has a null byte, so it is not text", f":{text[: text.index(chr(0))].count(chr(10)) + 1}")
    return text
