"""The kinds of input that the fuzz knows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fuzz import directories, documents, queries

#: Writes an input into an empty folder, and returns the commands that read it.
Maker = Callable[[random.Random, Path], list[Sequence[str]]]
KINDS: dict[str, Maker] = {**directories.KINDS, **documents.KINDS, **queries.KINDS}
