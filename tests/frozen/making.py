"""Making mutants: a seeded sample of what `tests.mutation` does to files, kept as the bytes it changes."""

from __future__ import annotations

import gzip
from pathlib import Path

from perfguard.contract import Expectation
from tests.frozen.mutants import Mutant, content_of, mutant_of
from tests.frozen.places import Place
from tests.mutation import run
from tests.mutation.subjects import Subject

#: What is put in has at most so many bytes; a stale file of a large run has more.
_LARGEST = 20_000


def made(places: list[Place], folder: Path, count: int, of_gpu: int) -> list[Mutant]:
    """Return so many mutants of the places, those of different kinds first, and so many more of what ran on a GPU."""
    subjects = []
    for number, place in enumerate(places):
        directory, expected = place.written(folder / str(number))
        other = (
            None
            if place.source
            else Place(name="", arguments={**place.arguments, "seed": 77}).written(folder / f"{number}-other")[0]
        )
        expected = expected or Expectation()
        subjects.append(
            Subject(
                name=place.name, directory=directory, expected=expected, other=other, is_generated=other is not None
            )
        )
    plan = run.Plan(seed=19, limit=None)
    run._begin(subjects, plan)
    clean = [run.survey_subject(number) for number in range(len(subjects))]
    inside = [mutant for taken in run.chosen_files(clean, subjects, plan) for mutant in run.take_apart(taken)]
    whole = [mutant for one in clean for mutant in one.mutants if mutant.operator in run.KEPT_WHOLE]
    mutants = [*whole, *inside]
    found = _first(subjects, run.chosen(mutants, plan), count)
    on_gpu = [one for one in mutants if subjects[one.subject].name.startswith("corpus/gpu/")]
    found |= _first(subjects, run.chosen(on_gpu, plan), of_gpu)
    return sorted(found, key=lambda one: (one.base, one.path, one.what, one.patches))


def _first(subjects: list[Subject], mutants: list[run.Mutant], count: int) -> set[Mutant]:
    found: set[Mutant] = set()
    for mutant in mutants:
        if len(found) < count and (one := _kept(subjects, mutant)) is not None:
            found.add(one)
    return found


def _kept(subjects: list[Subject], mutant: run.Mutant) -> Mutant | None:
    """Return the mutant as bytes; None where it changes none, or too many."""
    subject = subjects[mutant.subject]
    path = subject.directory / mutant.path
    old = content_of(path)
    new, renamed = old, mutant.path
    if mutant.operator == "drop a file":
        renamed = ""
    elif mutant.operator == "shift a rank suffix":
        renamed = run._shifted(path).relative_to(subject.directory).as_posix()
    else:
        raw = run._sites(mutant.subject, mutant.path)[mutant.site].change(path.read_bytes())
        try:
            new = gzip.decompress(raw) if path.suffix == ".gz" else raw
        except (EOFError, OSError):
            return None  # a gzip that is cut; the suites of damage have those
        if new == old:
            return None
    what = ", ".join(filter(None, (mutant.operator, mutant.slot, mutant.column, mutant.place)))
    one = mutant_of(base=subject.name, what=what, path=mutant.path, old=old, renamed=renamed, new=new)
    return one if sum(len(put) for *_, put in one.patches) <= _LARGEST else None
