"""A generated directory before it is on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath


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

    def write(self, directory: Path) -> Path:
        """Write every file below `directory`, which may exist; returns `directory`. Raises `OSError`."""
        for name, content in self.files.items():
            path = directory / PurePosixPath(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return directory
