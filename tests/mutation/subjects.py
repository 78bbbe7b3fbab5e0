"""Subjects: right directories to corrupt. Recordings of this project, generated ones, and real ones where they are at hand."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perfguard.artifacts.conditions import CONDITIONS
from perfguard.artifacts.survey import FoundCycle, FoundFile, survey
from perfguard.contract import Expectation
from perfguard.errors import UsageError
from perfguard.recording import read_recording
from perfguard.testing import LAYOUTS, conditions_of, generate

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
#: A packed trace above this takes minutes to damage in each of the ways; bytes.
LARGEST = 200_000
#: Layouts that are of no rank, or of all together.
RANKLESS = ("cluster", "dynamic-config", "ir", "memtrack")
#: Real directories that are faulty, and known to be: they have nothing to be silent about.
FAULTY = (
    "*-incomplete",
    "*-not-analysed",
    "*-raced",
    "flat",
    "cluster",
    "minddata",
    "parallel_strategy",
    "torch_npu-2023",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A right directory, what its maker says of it, and the same of another run."""

    name: str
    directory: Path
    expected: Expectation
    #: A directory of the same layout from another run; None where there is none.
    other: Path | None = None
    is_generated: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A file of a subject: relative path, slot, and the layout and rank of its cycle."""

    path: str
    found: FoundFile
    layout: str
    cycle: int


@dataclass(slots=True)
class Inventory:
    """Every file of a subject that a slot has, and the cycles by rank."""

    files: list[Placed] = field(default_factory=list)
    cycles: list[FoundCycle] = field(default_factory=list)


def inventory(directory: Path) -> Inventory:
    """Look at a directory as perfguard does."""
    root = read_recording(directory).profiler_directory
    found = Inventory()
    for number, cycle in enumerate(survey(root).cycles):
        found.cycles.append(cycle)
        for file in cycle.files:
            relative = file.path.relative_to(directory).as_posix()
            found.files.append(Placed(relative, file, cycle.layout.id, number))
    return found


#: Families of layouts; the first that fits a file is its family.
FAMILIES = {
    "ms-1.x": "MindSpore 1.x",
    "ms-2.5+cpu": "MindSpore CPU",
    "minddata": "minddata",
    "summary": "summary and graphs",
    "ir": "summary and graphs",
    "memtrack": "summary and graphs",
    "memory-snapshot": "summary and graphs",
    "dynamic-config": "summary and graphs",
    "cluster": "cluster output",
    "pt-torch": "torch CPU",
    "pt-npu": "Ascend text",
}


def family_of(name: str, path: str, layout: str) -> str:
    """Return the family of a file: rates are printed by it, and each has the same share of a sample."""
    if layout == "cluster":
        return FAMILIES[layout]
    if path.endswith(".db"):
        return "databases"
    if layout == "pt-torch" and name.startswith(_GPU):
        return "torch GPU"
    conditions = name.replace("+", ",").split(",")
    if layout.startswith("ms-2") and "gpu" in conditions:
        return "MindSpore GPU"
    if "-cpu-" in name or "cpu_device" in conditions or (layout == "ms-dyn" and "no-cpu_device" not in conditions):
        return "torch CPU" if layout == "pt-torch" else FAMILIES.get(layout, "MindSpore CPU")
    return FAMILIES.get(layout, "Ascend text")


_GPU = ("hta-", "kineto-", "param-", "tracelens-")


def build(place: Path, *, pattern: str = "*", corpus: Path | None = None, only_small: bool = False) -> list[Subject]:
    """Write every subject whose name matches below `place`."""
    made = [*_recorded(place, pattern), *_generated(place, pattern, only_small=only_small)]
    if not only_small:
        made += real(place, corpus or RECORDINGS.parent, pattern)
    return made


def corpus_directory() -> Path | None:
    """Return where real profiler output lies, or None."""
    named = os.environ.get("PERFGUARD_CORPUS")
    places = [Path(named)] if named else [Path(__file__).parents[3] / "shared" / "corpus"]
    return next((place for place in places if place.is_dir()), None)


def _recorded(place: Path, pattern: str) -> Iterator[Subject]:
    others = {
        "mindspore-graph": "mindspore-pynative",
        "mindspore-pynative": "mindspore-graph",
        "torch-mlp": "torch-repeat2",
        "torch-repeat2": "torch-mlp",
    }
    for directory in sorted(RECORDINGS.iterdir()):
        if fnmatch.fnmatch(directory.name, pattern) and directory.name in others:
            copied = shutil.copytree(directory, place / "recordings" / directory.name)
            other = RECORDINGS / others[directory.name]
            yield Subject(name=directory.name, directory=copied, expected=Expectation(), other=other)


def _generated(place: Path, pattern: str, *, only_small: bool) -> Iterator[Subject]:
    for layout in LAYOUTS:
        plain = conditions_of(layout)
        # What was never analysed is blamed for it, and rightly.
        flips: list[dict[str, bool]] = [{}, *({name: not plain[name]} for name in plain if name != "analysed")]
        for ranks in (1, 3):
            for changed in flips:
                said = "+".join(f"{'' if on else 'no-'}{name}" for name, on in changed.items())
                name = f"{layout},{said or 'plain'},ranks={ranks}"
                if not fnmatch.fnmatch(name, pattern) or (only_small and (said or ranks > 1)):
                    continue
                subject = _generate(place, name, layout, ranks, changed)
                if subject is not None:
                    yield subject


def _generate(place: Path, name: str, layout: str, ranks: int, changed: dict[str, bool]) -> Subject | None:
    folder = place / "generated" / f"{len(list((place / 'generated').glob('*'))):03}"
    try:
        tree = generate(layout, seed=1, ranks=ranks, conditions=changed)
        other = generate(layout, seed=2, ranks=ranks, conditions=changed)
    except UsageError:
        return None  # the condition cannot be alone
    tree.write(folder / "run")
    other.write(folder / "other")
    facts = {key: on for key, on in tree.conditions.items() if key in CONDITIONS}
    expected = Expectation(conditions=facts, ranks=None if layout in RANKLESS else ranks, steps=tree.steps)
    return Subject(name=name, directory=folder / "run", expected=expected, other=folder / "other", is_generated=True)


def real(place: Path, corpus: Path, pattern: str) -> Iterator[Subject]:
    """Copy every real directory whose name matches one of the globs, separated by `|`."""
    clean = [
        directory
        for folder in ("recorded", "msinsight", "mindinsight", "gpu")
        for directory in sorted((corpus / folder).glob("*"))
        if directory.is_dir()
        and not any(fnmatch.fnmatch(directory.name, faulty) for faulty in FAULTY)
        and (folder != "gpu" or max(file.stat().st_size for file in directory.iterdir()) < LARGEST)
    ]
    layouts = {directory: {cycle.layout.id for cycle in survey(directory).cycles} for directory in clean}
    for directory in clean:
        if not any(fnmatch.fnmatch(directory.name, glob) for glob in pattern.split("|")):
            continue
        copied = shutil.copytree(directory, place / "real" / directory.name)
        for folder, _, files in os.walk(copied):
            for one in (folder, *(os.path.join(folder, file) for file in files)):
                os.chmod(one, 0o700)
        kin = [one for one in clean if one != directory and layouts[one] == layouts[directory]]
        ranks = len({file.rank for cycle in survey(directory).cycles for file in cycle.files if file.rank is not None})
        expected = Expectation(ranks=ranks if ranks > 1 else None)
        yield Subject(name=directory.name, directory=copied, expected=expected, other=kin[0] if kin else None)
