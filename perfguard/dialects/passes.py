"""A pass: one step of MindSpore's compiler, read from the name of the file that was saved after it.

Every file ends in a number that counts all files of a process, from 0000 on; before it stand the name of the pass, and
numbers for the number of its run or of its graph: `21_validate_0076.ir`, `opt_pass_2_opt_a_0016.ir`,
`graph_build_0_0094.ir`. Those numbers are no part of what a pass is called here: they move with every node that is added.
Source: names of 17 000 files of MindSpore 2.0, 2.7, 2.8, 2.9 and 2.10 at levels 1 to 3; DumpIR in the compiler's sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfguard.opening import listed

if TYPE_CHECKING:
    from pathlib import Path

#: Where the passes of the backend lie that are saved from level 2 on.
VERBOSE = "verbose_ir_files"
#: The pass that ends the front end, and the one that leaves the graph a device runs.
VALIDATED, BUILT = "validate", "graph_build"

_NUMBERED = re.compile(r"(.+)_([0-9]{4,9})(\.ir|\.dot)?")
_FRONT_END = re.compile(r"([0-9]{2,4})_(.+)")
_OPTIMIZER = re.compile(r"opt_pass_[0-9]{1,4}_(.+)")
_OF_GRAPH = re.compile(r"(graph_build|graph_before_reset_id|hwopt_.+?)_(?:kernel_)?(?:graph_?)?([0-9]{1,20})(_.*)?")
#: `r1` is the round of a loop of passes, `j0` that of the loop around it; the number of the pass in its round follows.
_ROUND = re.compile(r"[._]r[0-9]{1,4}(?:_j[0-9]{1,4})?(?:_[0-9]{1,4}(?=_))?")
_NUMBER = re.compile(r"_[0-9]{1,9}(?=_)")
_REST = re.compile(r"_[0-9].*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One saved file. `number` counts the files of the process; `graph` is the number of the graph, where it is of one.

    `is_detail` is what level 1 does not save: the steps inside a pass (level 3) and the backend's own (level 2).
    """

    name: str
    file: str
    number: int
    is_detail: bool = False
    #: Its place in the front end; 0 begins a compilation.
    position: int | None = None
    graph: int | None = None

    @property
    def is_drawing(self) -> bool:
        """Whether it is the drawing of a graph that is saved as text as well."""
        return self.file.endswith(".dot")


def pass_of(file: str) -> Pass | None:
    """Read a file's name, relative to the directory of the graphs; None for what is no pass (actor sets, analyze_fail.ir)."""
    folder, _, name = file.rpartition("/")
    numbered = _NUMBERED.fullmatch(name)
    if numbered is None or folder not in ("", VERBOSE):
        return None
    base, number = numbered[1], int(numbered[2])
    if folder == VERBOSE:
        return Pass(name=_NUMBER.sub("", base), file=file, number=number, is_detail=True)
    if match := _FRONT_END.fullmatch(base):
        return Pass(name=match[2], file=file, number=number, position=int(match[1]))
    if match := _OPTIMIZER.fullmatch(base):
        return Pass(name=f"opt_pass_{match[1]}", file=file, number=number)
    if match := _OF_GRAPH.fullmatch(base):
        return Pass(name=match[1], file=file, number=number, graph=None if match[3] else int(match[2]))
    if _ROUND.search(base):
        return Pass(name=_ROUND.sub("", base), file=file, number=number, is_detail=True)
    return Pass(name=_REST.sub("", base), file=file, number=number)


def saved_passes(place: Path) -> list[Pass]:
    """Return the passes saved in a directory, in the order they were saved in; of names, whatever is in the files."""
    files = [*_files(place, ""), *_files(place / VERBOSE, f"{VERBOSE}/")]
    found = (pass_of(file) for file in files)
    return sorted((one for one in found if one is not None), key=lambda one: (one.number, one.file))


def _files(folder: Path, prefix: str) -> list[str]:
    if folder.is_symlink() or not folder.is_dir():
        return []
    with listed(folder) as entries:
        return [prefix + entry.name for entry in entries if entry.is_file()]
