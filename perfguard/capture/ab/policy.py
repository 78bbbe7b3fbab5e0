"""The policy of a comparison: whose `[tool.perfguard]` counts for both sides, and in what the other's differs.

It is the base's. With its own, a change could ignore the finding that it causes, or widen the tolerance that it breaks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfguard.settings import find_table, read_settings, read_table

#: Most differences that are listed.
_LISTED = 20
#: The longest value that is shown, in characters.
_LONGEST = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTree:
    """The tree whose pyproject.toml count: the base's worktree, or the checkout itself."""

    checkout: str
    worktree: str
    is_of_base: bool = True

    @property
    def whose(self) -> str:
        """The side whose settings count."""
        return "the base's" if self.is_of_base else "the working tree's"

    def levels(self, directory: Path) -> list[Path]:
        """Return where the settings of a directory of either side are: at or above it in this tree, then above the checkout."""
        real = Path(os.path.realpath(directory))
        # The worktree may be in a temporary directory inside the checkout.
        tops = [top for top in (self.worktree, self.checkout) if real.is_relative_to(top)]
        if not tops:
            return [directory, *directory.parents]
        top = Path(self.worktree if self.is_of_base else self.checkout)
        path = top / real.relative_to(tops[0])
        inside = [one for one in (path, *path.parents) if one.is_relative_to(top)]
        return [*inside, *Path(self.checkout).parents]

    @property
    def other(self) -> PolicyTree:
        """The tree whose settings do not count."""
        return PolicyTree(checkout=self.checkout, worktree=self.worktree, is_of_base=not self.is_of_base)


def policy_differences(tree: PolicyTree, directories: Iterable[Path]) -> list[str]:
    """Return a line for each setting of these directories that the two sides do not share. Raises `UsageError`."""
    base, here = (tree, tree.other) if tree.is_of_base else (tree.other, tree)
    roots = {(find_table(one, here.levels(one)), find_table(one, base.levels(one))): None for one in directories}
    lines = [line for ours, theirs in roots for line in _differences(ours, theirs, tree)]
    lines = list(dict.fromkeys(lines))
    return lines[:_LISTED] + ([f"policy: and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else [])


def _differences(here: Path | None, base: Path | None, tree: PolicyTree) -> Iterator[str]:
    ours, theirs = _settings(here), _settings(base)
    counts = f"{tree.whose} counts"
    if tree.is_of_base and base is None and ours:
        yield "policy: the base has no [tool.perfguard], so defaults count; land the settings first, in a change of their own"
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            sides = (as_written(side[key]) if key in side else "not set" for side in (ours, theirs))
            yield "policy: {} is {} here and {} on the base; {}".format(key, *sides, counts)
    if ours.get("checks") and ours.get("checks") == theirs.get("checks") and here is not None and base is not None:
        files = [{one.name: one for one in read_settings(root).checks} for root in (here, base)]
        names = sorted(name for name in files[0].keys() | files[1].keys() if files[0].get(name) != files[1].get(name))
        if names:
            yield f"policy: other checks here than on the base ({', '.join(names[:3])}); {counts}"


def as_written(value: object) -> str:
    """Return a value as pyproject.toml has it; a long one is cut."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _settings(root: Path | None) -> dict[str, Any]:
    """Return the settings in a pyproject.toml by name, those of a table as `window.active`."""
    table = {} if root is None else read_table(root)
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= {f"{key}.{part}": one for part, one in value.items()} if isinstance(value, Mapping) else {key: value}
    return found
