"""Graphs as text: MindSpore's `.ir` files and `.dot` drawings.

These readers check the structure, find missing nodes and count the operators; they do not interpret the graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.readers import Content, text_blocks
from perfguard.artifacts.table import Unreadable

#: Longer graphs are not read: of a graph of half a million nodes a dump has about as much.
MAX_GRAPH_BYTES = 256 * 1024**2
#: Longer drawings are not read: what is quoted in it is taken out, which needs its size in memory twice.
MAX_DRAWING_BYTES = 64 * 1024**2
#: The largest number of different operators, and of nodes and of quotation marks of a drawing.
MAX_OPERATORS, MAX_NODES, MAX_QUOTES = 20_000, 1_000_000, 4_000_000
#: The patterns of lines begin with the break before the line: to search for that is quick, for the begin of a line it is not.
#: A block of an `.ir` file begins at the margin (`subgraph @net() {`, `jit config {`); a `#` line quotes Python source.
_OPENS = re.compile(r"\n[^\s#}].*\{(?=\n)")
_CLOSES = re.compile(r"\n\}")
_SUBGRAPH = re.compile(r"\nsubgraph @.*\{(?=\n)")
#: With the other order of graphs (MS_DEV_SAVE_GRAPHS_SORT_MODE=1) a dump has `# Total subgraph: 6`, in 2.0 `#Total subgraph:`.
_ANNOUNCED = re.compile(r"\n# ?Total subgraphs?: ([0-9]{1,9})(?=\n)")
_ENTRY = re.compile(r"# ?IR entry *:(.*)")
#: What a dump states of the parameters of its first graph, and the lines of these; what precedes each subgraph.
_ANNOUNCED_PARAMETERS = re.compile(r"\n# ?Total params: ([0-9]{1,9})(?=\n)")
_PARAMETER = re.compile(r"\n%para[0-9]")
_PRECEDES = ("\nsubgraph attr:", "\nsubgraph instance:")
#: A dump has a number, which MindSpore adds to the name of each; an actor set may end with the number of its graph.
_NUMBERED = re.compile(r"(?!.*actor_set).*_[0-9]{4,}\.ir|trace_code_graph_[0-9]+")
_ANNOUNCED_NODES = re.compile(r"\nTotal number of cnodes: ([0-9]{1,9})(?=\n)")
#: The lines that begin a graph, a node with its number and name, and the node that ends the graph.
_LINE = re.compile(r"\n(?:(subgraph @)|  (?:%([0-9]{1,9})\(.*?\) = |(?=Return\())(.*))")
#: The operator that a node calls: MindSpore 2.3 and later write PrimFunc_MatMul where 2.0 wrote MatMul, and
#: S-Prim-MatMul before types are known. `call @graph(` and `%3[@graph](` are not operators.
_OPERATOR = re.compile(r"(?:PrimFunc_|S-Prim-)?([A-Za-z_]\w*)\(")
#: The beginning of a drawing, and a quoted text in it, which may end with the drawing. Possessive (`*+`), because backtracking
#: would take very long on crafted lines.
_DIGRAPH = re.compile(rb"\s*+(?:strict\s++)?digraph\s++(\S*)\s*+\{")
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
#: A node of a drawing, and an edge with both its ends, without labels.
_DRAWN = re.compile(rb"^[ \t]*([\w\x80-\xff]+)[ \t]*\[", re.MULTILINE)
_EDGE = re.compile(rb"^[ \t]*([\w\x80-\xff]+)(?::[\w\x80-\xff]+)*[ \t]*->[ \t]*([\w\x80-\xff]+)", re.MULTILINE)


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
    found = _Dump(path)
    for text in text_blocks(path, most_bytes=MAX_GRAPH_BYTES):
        found.read(text)
    return Content(document=found.document())


class _Dump:
    """What an `.ir` file states, and what it has, block after block."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._entry: str | None = None
        self._lines = self._subgraphs = self._opened = self._closed = self._parameters = 0
        self._precede = [0 for _ in _PRECEDES]
        self._announced: list[str] = []
        self._announced_parameters: list[str] = []
        self._announced_nodes: list[str] = []
        #: The operators of all nodes, the number of nodes, and that of the next one in its graph.
        self._operators: Counter[str] = Counter()
        self._nodes = self._number = 0
        self._is_blank = True

    def read(self, block: str) -> None:
        """Count what is in some whole lines."""
        text = "\n" + block.replace("\r\n", "\n")
        if "\0" in text:
            line = self._lines + text.count("\n", 0, text.index("\0"))
            raise Unreadable("it has a null byte, so it is not text", f":{line}")
        if not self._lines:
            self._read_first(text[1:].split("\n", 1)[0])
        self._is_blank = self._is_blank and not text.strip()
        self._subgraphs += len(_SUBGRAPH.findall(text))
        if self._entry is not None:
            self._opened += len(_OPENS.findall(text))
            self._closed += len(_CLOSES.findall(text))
            self._parameters += len(_PARAMETER.findall(text))
            for count, part in enumerate(_PRECEDES):
                self._precede[count] += text.count(part)
            self._announced += _ANNOUNCED.findall(text)[:2]
            self._announced_parameters += _ANNOUNCED_PARAMETERS.findall(text)[:2]
            self._announced_nodes += _ANNOUNCED_NODES.findall(text)[:1]
            self._read_nodes(text)
        self._lines += text.count("\n") - 1

    def _read_first(self, line: str) -> None:
        named = _ENTRY.match(line)
        if named is None:
            if _NUMBERED.fullmatch(self._name):
                raise Unreadable(f"its first line names no graph, so its begin is missing: {line[:80]!r}", ":1")
            return
        self._entry = named[1].strip()
        if not self._entry.startswith("@") or len(self._entry) < 2:
            raise Unreadable(f"its first line names no graph: {line[:120]!r}", ":1")

    def _read_nodes(self, text: str) -> None:
        for match in _LINE.finditer(text):
            begins, numbered, called = match.groups()
            if begins:
                self._number = 0
                continue
            self._nodes += 1
            if numbered is not None:
                if int(numbered) != self._number:
                    line = self._lines + text.count("\n", 0, match.start() + 1)
                    wrong = f"node %{numbered} follows where %{self._number} belongs: part of it is missing"
                    raise Unreadable(wrong, f":{line}")
                self._number += 1
            if operator := _OPERATOR.match(called):
                self._operators[operator[1]] += 1
                if len(self._operators) > MAX_OPERATORS:
                    raise Unreadable(f"it has more than {MAX_OPERATORS} different operators")

    def document(self) -> dict[str, Any]:
        """Return the document once all is read; raises `Unreadable` if parts are missing.

        Source: MindSpore 2.0, 2.7 and 2.10, 4 500 dumps of levels 1 and 3 with control flow, in both orders; anf_ir_dump and
        analyze_fail (DumpParams, ExportOneFuncGraph).
        """
        if self._is_blank:
            raise Unreadable("it is empty")
        if self._entry is None:
            return {"entry": None, "subgraphs": self._subgraphs, "operators": {}}
        if self._opened != self._closed:
            raise Unreadable(f"it opens {self._opened} blocks and closes {self._closed}: part of it is missing")
        if not self._announced:
            raise Unreadable("the number of its subgraphs is missing, so part of it is missing")
        if int(self._announced[0]) != self._subgraphs:
            raise Unreadable(f"it states {self._announced[0]} subgraphs and has {self._subgraphs}")
        announced = self._announced_parameters
        if len(announced) > 1 or (announced and int(announced[0]) != self._parameters):
            raise Unreadable(
                f"it states {' and '.join(announced[:2])} parameters and has {self._parameters}: "
                "part of it is missing or twice"
            )
        if any(self._precede) and set(self._precede) != {self._subgraphs}:
            raise Unreadable(
                f"it has {self._subgraphs} subgraphs, and attributes of {self._precede[0]} and instances of "
                f"{self._precede[1]} before them"
            )
        if self._announced_nodes and int(self._announced_nodes[0]) != self._nodes:
            raise Unreadable(f"it states {self._announced_nodes[0]} nodes and has {self._nodes}: part of it is missing")
        return {
            "entry": self._entry[1:],
            "subgraphs": self._subgraphs,
            "operators": dict(sorted(self._operators.items())),
        }


def read_dot(path: Path, schema: Mapping[str, Any]) -> Content:
    """Read a `.dot` drawing of a graph; the document is `{"name": name of the digraph}`.

    Raises `Unreadable` for a file that is empty, not text, no digraph, cut off, or has an edge to a node that it lacks. Source:
    MindSpore 2.0, 2.7 to 2.10, 3 000 drawings of level 3 read; Graphviz, the DOT language (which would draw such a node).
    """
    text = b"".join(block.encode() for block in text_blocks(path, most_bytes=MAX_DRAWING_BYTES))
    if b"\r\n" in text:
        text = text.replace(b"\r\n", b"\n")
    if not text.strip():
        raise Unreadable("it is empty")
    if b"\0" in text:
        line = text.count(b"\n", 0, text.index(0)) + 1
        raise Unreadable("it has a null byte, so it is not text", f":{line}")
    begin = _DIGRAPH.match(text)
    if begin is None:
        raise Unreadable(f"it does not begin with a digraph: {text[:60].decode(errors='replace')!r}", ":1")
    if (quotes := text.count(b'"')) > MAX_QUOTES:
        raise Unreadable(f"it has {quotes} quotation marks, more than the {MAX_QUOTES} that are read")
    # Braces inside quoted labels and identifiers are text, not structure.
    plain = _QUOTED.sub(b'""', text)
    del text
    opened, closed = plain.count(b"{"), plain.count(b"}")
    if opened != closed or not plain.rstrip().endswith(b"}"):
        raise Unreadable(f"it opens {opened} blocks and closes {closed}: part of it is missing")
    drawn: set[bytes] = set()
    for node in _DRAWN.finditer(plain):
        drawn.add(node[1])
        if len(drawn) > MAX_NODES:
            raise Unreadable(f"it has more than {MAX_NODES} nodes")
    for edge in _EDGE.finditer(plain):
        for end in edge.groups():
            if end not in drawn:
                line = plain.count(b"\n", 0, edge.start()) + 1
                shown = end[:80].decode(errors="replace")
                raise Unreadable(f"an edge leads to or from {shown}, and no such node is drawn", f":{line}")
    return Content(document={"name": begin[1].decode()})
