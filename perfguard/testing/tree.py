"""A generated directory before it is on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

#: One file or directory for all ranks together.
_WITHOUT_RANKS = frozenset({"cluster", "dynamic-config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Files by their relative path (with `/`), and what is true of them."""

    files: Mapping[str, bytes]
    #: Id of the layout, as `perfguard check --explain` names it.
    layout: str
    #: How many ranks wrote it, and how many steps each schedule cycle of a rank holds.
    ranks: int = 1
    steps: int = 0
    #: How many schedule cycles each rank wrote.
    cycles: int = 1
    #: What was on and what was off; the names are those of the layouts' conditions.
    conditions: Mapping[str, bool] = field(default_factory=dict)
    #: Which of the layout's variants it is; empty for none.
    variant: str = ""

    def __repr__(self) -> str:
        """What it is, not what is in it: hypothesis prints a failing example."""
        of = f" {self.variant}" if self.variant else ""
        return f"<Tree {self.layout}{of}: {len(self.files)} files, --expect {self.expectation}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the same for hypothesis and IPython, which print every field of a dataclass otherwise."""
        printer.text(repr(self))

    @property
    def expectation(self) -> str:
        """What `perfguard check --expect` has to be told to look for exactly this: `no-graph,memory,ranks=2,steps=3`."""
        on = dict(self.conditions)
        words = []
        if "level1" in on:
            words.append("level2" if on.pop("level2") else "level1" if on["level1"] else "level0")
            del on["level1"]
        # A word may say something of others as well; what is on goes last.
        words += [f"no-{name}" for name, value in on.items() if not value]
        words += [name for name, value in on.items() if value]
        if self.layout not in _WITHOUT_RANKS:
            words.append(f"ranks={self.ranks}")
        return ",".join([*words, f"steps={self.steps}"])

    def write(self, directory: Path | str) -> Path:
        """Write every file below `directory`, which may exist; returns it as a path. Raises `OSError`."""
        directory = Path(directory)
        for name, content in self.files.items():
            path = directory / PurePosixPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return directory
