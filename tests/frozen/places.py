"""Places: the directories that do not change. Real ones, generated ones of every layout, and both with one thing changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from perfguard.artifacts.conditions import CONDITIONS
from perfguard.contract import Expectation
from perfguard.errors import UsageError
from perfguard.testing import LAYOUTS, Tree, conditions_of, generate, variants_of
from tests.facts import RECORDINGS
from tests.frozen.mutants import Mutant, read_mutants
from tests.mutation.subjects import RANKLESS

#: The folders of the corpus whose directories are one profiler's output each.
_FOLDERS = ("recorded", "msinsight", "mindinsight", "gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One directory: an existing one or a generated one, and what is changed in it."""

    name: str
    source: Path | None = None
    #: The arguments of `generate`.
    arguments: dict[str, object] = field(default_factory=dict)
    mutant: Mutant | None = None

    def written(self, folder: Path) -> tuple[Path, Expectation | None]:
        """Write it below `folder`; return where it lies, and what its maker says of it. What is only read stays where it is."""
        if self.source is None:
            tree = generate(**self.arguments)  # type: ignore[arg-type]
            directory = tree.write(folder / "run")
            expected: Expectation | None = _expected(tree)
        else:
            directory, expected = self.source, None
            if self.mutant is not None:
                directory = _copied(self.source, folder / self.source.name)
        if self.mutant is not None:
            self.mutant.apply(directory)
        return directory, expected


def _expected(tree: Tree) -> Expectation:
    facts = {key: on for key, on in tree.conditions.items() if key in CONDITIONS}
    return Expectation(conditions=facts, ranks=None if tree.layout in RANKLESS else tree.ranks, steps=tree.steps)


def _copied(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    for folder, _, files in os.walk(target):
        for one in (folder, *(os.path.join(folder, file) for file in files)):
            os.chmod(one, 0o700)
    return target


def real(corpus: Path | None) -> list[Place]:
    """Return the recordings of this project, and the directories of the corpus where it is at hand."""
    found = [Place(name=f"recordings/{one.name}", source=one) for one in sorted(RECORDINGS.iterdir()) if one.is_dir()]
    if corpus is not None:
        for folder in _FOLDERS:
            directories = sorted(one for one in (corpus / folder).iterdir() if one.is_dir())
            found += [Place(name=f"corpus/{folder}/{one.name}", source=one) for one in directories]
    return found


def generated() -> list[Place]:
    """Return every layout plain, with each of its conditions the other way round, and in each of its variants.

    The plain ones are of one rank; ranks, steps, operators and cycles of the others go round.
    """
    found, number = [], count()
    for layout in LAYOUTS:
        plain = conditions_of(layout)
        found.append(Place(name=f"generated/{layout}", arguments={"layout": layout, "seed": 1}))
        found.append(Place(name=f"generated/{layout},3 ranks", arguments={"layout": layout, "seed": 2, "ranks": 3}))
        forms: list[tuple[str, dict[str, object]]] = [
            (f"{'no-' if on else ''}{name}", {"conditions": {name: not on}}) for name, on in plain.items()
        ]
        forms += [(name, {"variant": name}) for name in variants_of(layout)]
        for said, form in forms:
            turn = next(number)
            sizes = {"seed": turn, "ranks": 1 + turn % 3, "steps": 2 + turn % 2, "operators": (8, 5, 11)[turn // 3 % 3]}
            made = _possible({"layout": layout, **sizes, **form, "cycles": 1 + turn // 2 % 2})
            if made is not None:
                found.append(Place(name=f"generated/{layout},{said}", arguments=made))
    return found


def _possible(arguments: dict[str, object]) -> dict[str, object] | None:
    """Return the arguments with one cycle where there are no more; None where the condition cannot be alone."""
    for changed in ({}, {"cycles": 1}):
        try:
            generate(**{**arguments, **changed})  # type: ignore[arg-type]
        except UsageError:
            continue
        return {**arguments, **changed}
    return None


def mutated(bases: list[Place]) -> Iterator[Place]:
    """Return the mutants of those bases that are there."""
    by_name = {one.name: one for one in bases}
    for number, mutant in enumerate(read_mutants()):
        if (base := by_name.get(mutant.base)) is not None:
            name = f"mutant/{number:03}, {mutant.what}"
            yield Place(name=name, source=base.source, arguments=base.arguments, mutant=mutant)
