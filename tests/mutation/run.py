"""The run: every subject clean, a seeded sample of its mutants, and what became of them."""

from __future__ import annotations

import argparse
import fnmatch
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import islice, zip_longest
from pathlib import Path
from random import Random
from typing import Any

from perfguard.artifacts.conditions import evaluate, known_conditions
from perfguard.artifacts.readers import NO_DOCUMENT
from perfguard.contract import Contract, inspect, reading
from perfguard.contract.completeness import stated
from perfguard.documents import schema
from perfguard.findings import Severity
from perfguard.recording import read_recording
from tests.mutation import subjects as directories
from tests.mutation.freedoms import FREEDOMS, Freedom, freedom_of
from tests.mutation.operators import Site, sites_of, view_of
from tests.mutation.subjects import Inventory, Placed, Subject, family_of, inventory
from tests.mutation.values import values_of

#: How many mutants a run makes unless it is told otherwise.
LIMIT = 1100
#: The shares of each family that a recorded run found.
FIGURES = Path(__file__).with_name("figures.toml")
#: A sample of some hundred differs from the next: so far below its recorded share a family may fall.
SLACK = 0.05
#: Mutators of whole files that change one file alone.
KEPT_WHOLE = ("drop a file", "shift a rank suffix")

Key = tuple[str, str, str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One corruption of one subject: enough to make it again in another process."""

    subject: int
    operator: str
    path: str
    layout: str
    slot: str
    #: The version of the file's schema.
    version: str
    column: str
    unit: str
    place: str
    #: Number of the site in its file; -1 for what is done to whole files.
    site: int

    #: What the sample is balanced by, see `subjects.FAMILIES`.
    family: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """What mutants have in common that only differ in where they are: one of each kind comes first."""
        return (self.family, self.operator, self.slot)

    @property
    def freedom(self) -> Freedom | None:
        """The freedom of the writer that makes the mutant right, or None."""
        return freedom_of(self.operator, self.layout, self.slot, self.column)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: the checks (or codes) that found it; empty for a survivor."""

    mutant: Mutant
    killers: tuple[str, ...]
    #: Whether any value differs from the subject's.
    changed: bool = True
    #: The checks that only warned.
    warned: tuple[str, ...] = ()
    #: What `inspect` raised, which it must never do.
    crash: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A file of a subject that can be taken apart."""

    subject: int
    path: str
    layout: str
    slot: str
    version: str
    size: int


@dataclass(slots=True)
class Clean:
    """What an unmutated subject is like: its findings, its files, and the mutants that concern whole files."""

    findings: frozenset[Key]
    errors: tuple[str, ...]
    files: list[Taken] = field(default_factory=list)
    mutants: list[Mutant] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is made of; the same plan makes the same mutants."""

    seed: int = 0
    sites: int = 1
    operator: str = "*"
    #: How many files of a kind (layout, slot, version of the schema) are taken apart; None for all of them.
    files: int | None = 3
    limit: int | None = LIMIT


# -- one process -----------------------------------------------------------------------------------------------------


_subjects: list[Subject] = []
_plan = Plan()


_RANK = re.compile(r"(?<=_)[0-9]+(?=[._]|$)")

_read_before: dict[tuple[Any, ...], Any] = {}


def _begin(found: list[Subject], plan: Plan) -> None:
    global _plan
    _subjects[:] = found
    for known in (_inventory, _contract, _versions):
        known.cache_clear()
    _last_sites.clear()
    _plan = plan
    # A mutant differs from its subject in one file: the others need not be read and checked a thousand times. A file is
    # the same when it is the very same: a hard link to the subject's own.
    read = reading._read_version

    def remembering(file: reading._File, version: str | None) -> Any:
        path = file.found.path
        facts = path.stat() if path.is_file() else None
        if facts is None or facts.st_nlink < 2:
            return read(file, version)
        identity = (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size)
        key = (*identity, version, file.layout, file.place, file.found.slot.name)
        if key not in _read_before:
            content, findings = read(file, version)
            if content is not None and content.event_schema is not None:
                # What went into tables is told once.
                return content, findings
            _read_before[key] = content, findings
        return _read_before[key]

    reading._read_version = remembering


def findings_of(subject: Subject, directory: Path) -> list[Any]:
    """Return the errors and warnings of a directory, judged with what is known of the subject."""
    contract = inspect(read_recording(directory), subject.expected)
    return [one for one in contract.findings if one.severity in (Severity.ERROR, Severity.WARNING)]


def _key(finding: Any) -> Key:
    return (finding.code.name, finding.place, finding.message, finding.rank)


def survey_subject(number: int) -> Clean:
    """Judge a subject as it is; list its files, and the mutants that drop or rename them."""
    subject = _subjects[number]
    found = _contract(number).findings
    clean = Clean(
        findings=frozenset(_key(one) for one in found),
        errors=tuple(f"{one.code.name} {one.place}: {one.message}" for one in found if one.severity is Severity.ERROR),
    )
    looked = _inventory(number)
    versions = _versions(number)
    for placed in looked.files:
        whole, slot = subject.directory / placed.path, placed.found.slot
        taken = Taken(number, placed.path, placed.layout, slot.name, versions.get(placed.path) or "", 0)
        if whole.is_file() and slot.format != "opaque":
            clean.files.append(replace(taken, size=whole.stat().st_size))
        said = "" if slot.required == "optional" or _is_said(number, placed) else ", and no option says it"
        for operator in _file_operators(placed, looked):
            column = f"{slot.required}{said}" if operator == "drop a file" else ""
            clean.mutants.append(_mutant(taken, operator, column=column, unit="", place="", site=-1))
    clean.mutants += _drop_rank(number, looked)
    clean.mutants = [mutant for mutant in clean.mutants if fnmatch.fnmatch(mutant.operator, _plan.operator)]
    return clean


def _is_said(number: int, placed: Placed) -> bool:
    """Whether the rest of a directory, its options and the caller say that a file must be there."""
    subject, required = _subjects[number], placed.found.slot.required
    if required == "always":
        return True
    whole = _inventory(number).cycles[placed.cycle]
    rest = replace(whole, files=tuple(file for file in whole.files if file.path != placed.found.path))
    documents = {
        name: one.content.document
        for cycle in _contract(number).cycles
        if cycle.place == whole.place
        for name, one in cycle.artifacts.items()
        if one.path != placed.found.path and one.content.document is not NO_DOCUMENT
    }
    known = known_conditions(rest, documents, stated(read_recording(subject.directory), subject.expected))
    return evaluate(required, known) is True


def take_apart(taken: Taken) -> list[Mutant]:
    """List the mutants of the inside of a file."""
    return [
        _mutant(taken, site.operator, column=site.column, unit=site.unit, place=site.place, site=index)
        for index, site in enumerate(_sites(taken.subject, taken.path))
        if fnmatch.fnmatch(site.operator, _plan.operator)
    ]


def _mutant(taken: Taken, operator: str, *, column: str, unit: str, place: str, site: int) -> Mutant:
    return Mutant(
        subject=taken.subject,
        operator=operator,
        path=taken.path,
        layout=taken.layout,
        slot=taken.slot,
        version=taken.version,
        column=column,
        unit=unit,
        place=place,
        site=site,
        family=family_of(_subjects[taken.subject].name, taken.path, taken.layout),
    )


def _file_operators(placed: Placed, looked: Inventory) -> Iterator[str]:
    yield "drop a file"
    if _of_another_rank(placed, looked) is not None:
        yield "file of another rank"
    if placed.found.rank is not None and _RANK.search(Path(placed.path).name):
        yield "shift a rank suffix"


def _of_another_rank(placed: Placed, looked: Inventory) -> Placed | None:
    """Return the same file of the next rank that has it."""
    if placed.found.rank is None or not placed.found.path.is_file():
        return None
    same = [one for one in looked.files if one.found.slot.name == placed.found.slot.name]
    return next((one for one in same if one.found.rank not in (None, placed.found.rank)), None)


def _drop_rank(number: int, looked: Inventory) -> Iterator[Mutant]:
    """Yield the loss of one rank of several."""
    expected = _subjects[number].expected.ranks
    if expected is None or expected < 2:
        return
    contract = _contract(number)
    for rank in sorted({cycle.rank for cycle in contract.cycles}):
        layout = next(cycle.layout.id for cycle in contract.cycles if cycle.rank == rank)
        whole = Taken(number, "", layout, "", "", 0)
        yield _mutant(whole, "drop a rank", column="", unit="", place=f"rank {rank}", site=rank or 0)


@cache
def _inventory(number: int) -> Inventory:
    return inventory(_subjects[number].directory)


@lru_cache(maxsize=2)
def _contract(number: int) -> Contract:
    """Judge a subject as it is."""
    subject = _subjects[number]
    return inspect(read_recording(subject.directory), subject.expected)


@cache
def _versions(number: int) -> dict[str, str | None]:
    """Return the schema each file keeps, by its path."""
    directory = _subjects[number].directory
    files = (artifact for cycle in _contract(number).cycles for artifact in cycle.files)
    return {file.path.relative_to(directory).as_posix(): file.schema for file in files}


_last_sites: dict[tuple[int, str], list[Site]] = {}


def _sites(number: int, path: str) -> list[Site]:
    """Take a file apart; the last file's sites are kept, mutants come file by file."""
    if (number, path) not in _last_sites:
        _last_sites.clear()
        placed = next(one for one in _inventory(number).files if one.path == path)
        subject = _subjects[number]
        whole = subject.directory / path
        if not whole.is_file() or placed.found.slot.format == "opaque":
            _last_sites[number, path] = []
            return []
        view = view_of(
            whole,
            placed.found.slot.format,
            stale=_stale(subject, placed),
            units=_units(_versions(number).get(path)),
            seed=f"{_plan.seed} {subject.name} {path}",
            sites=_plan.sites,
        )
        _last_sites[number, path] = sites_of(view)
    return _last_sites[number, path]


@cache
def _files_by_slot(directory: Path) -> dict[tuple[str, int | None], list[Path]]:
    found: dict[tuple[str, int | None], list[Path]] = defaultdict(list)
    for placed in inventory(directory).files:
        found[placed.found.slot.name, placed.found.rank].append(placed.found.path)
    return found


def _stale(subject: Subject, placed: Placed) -> bytes | None:
    if subject.other is None:
        return None
    slot, rank = placed.found.slot.name, placed.found.rank
    by_slot = _files_by_slot(subject.other)
    own = [one.path for one in _inventory(_subjects.index(subject)).files if one.found.slot.name == slot]
    others = by_slot.get((slot, rank), [])
    # Of several in a slot, a rank's own counterpart: its place among its kind.
    position = own.index(placed.path) if len(others) == len(own) else 0
    return others[position].read_bytes() if others and others[min(position, len(others) - 1)].is_file() else None


@cache
def _units(name: str | None) -> Callable[[str], str | None]:
    """Return what a column measures, by the schema: the unit, or None for a name or a number."""
    units: dict[str, str] = {}
    patterns: list[tuple[str, str]] = []
    if name:
        _collect(schema(name), units, patterns)

    def unit(column: str) -> str | None:
        parts = [part for part in column.split(".") if part not in ("[]", "*")]
        for text in (column, column.partition(".")[2], parts[-1] if parts else ""):
            if text in units:
                return units[text]
        return next((unit for pattern, unit in patterns if re.search(pattern, column)), None)

    return unit


def _collect(part: Any, units: dict[str, str], patterns: list[tuple[str, str]]) -> None:
    if isinstance(part, list):
        for one in part:
            _collect(one, units, patterns)
    if not isinstance(part, Mapping):
        return
    for key, value in part.items():
        if key in ("properties", "patternProperties"):
            for name, below in value.items():
                if (unit := _unit(below)) is not None and key == "properties":
                    units.setdefault(name, unit)
                elif unit is not None:
                    patterns.append((name, unit))
        _collect(value, units, patterns)


def _unit(part: Any) -> str | None:
    if not isinstance(part, Mapping):
        return None
    if "x-unit" in part:
        return str(part["x-unit"])
    return _unit(part["items"]) if "items" in part else None


def run_mutants(number: int, mutants: list[Mutant], clean: frozenset[Key], work: Path) -> list[Outcome]:
    """Make mutants of one subject, one after the other, and have each judged."""
    subject = _subjects[number]
    _read_before.clear()
    copied = work / f"{os.getpid()}" / subject.directory.name
    if copied.exists():
        shutil.rmtree(copied)
    shutil.copytree(subject.directory, copied, copy_function=os.link)
    return [_judge(subject, number, mutant, copied, clean) for mutant in mutants]


def _run_batch(task: tuple[int, list[Mutant], frozenset[Key], Path]) -> list[Outcome]:
    return run_mutants(*task)


def _judge(subject: Subject, number: int, mutant: Mutant, copied: Path, clean: frozenset[Key]) -> Outcome:
    undo: list[tuple[Path, Path]] = []
    made: list[Path] = []

    def remove(path: Path) -> None:
        path.unlink()
        undo.append((subject.directory / path.relative_to(copied), path))

    target = copied / mutant.path
    if mutant.operator == "drop a rank":
        for cycle in _contract(number).cycles:
            if cycle.rank == mutant.site:
                for path in _files_of_cycle(cycle):
                    remove(copied / path.relative_to(subject.directory))
    elif mutant.operator == "drop a file":
        remove(target)
    elif mutant.operator == "shift a rank suffix":
        renamed = _shifted(target)
        remove(target)
        os.link(subject.directory / mutant.path, renamed)
        made.append(renamed)
    else:
        raw = target.read_bytes()
        new = _changed(number, mutant, raw)
        form = next(one for one in _inventory(number).files if one.path == mutant.path).found.slot.format
        if new == raw or values_of(new, form) == values_of(raw, form):
            return Outcome(mutant, (), changed=False)
        remove(target)
        target.write_bytes(new)
        made.append(target)
    empty = _prune(copied)
    crash: str = ""
    found: list[Any] = []
    try:
        found = [one for one in findings_of(subject, copied) if _key(one) not in clean]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the suite looks for
        crash = f"{type(error).__name__}: {error}".partition("\n")[0]
    for folder in empty:
        folder.mkdir(parents=True, exist_ok=True)
    for path in made:
        path.unlink()
    for original, path in undo:
        os.link(original, path)
    killers, warned = (
        tuple(sorted({one.check or one.code.name for one in found if one.severity is severity}))
        for severity in (Severity.ERROR, Severity.WARNING)
    )
    return Outcome(mutant, killers, crash=crash, warned=warned)


def _changed(number: int, mutant: Mutant, raw: bytes) -> bytes:
    if mutant.operator != "file of another rank":
        return _sites(number, mutant.path)[mutant.site].change(raw)
    looked = _inventory(number)
    other = _of_another_rank(next(one for one in looked.files if one.path == mutant.path), looked)
    assert other is not None
    return other.found.path.read_bytes()


def _files_of_cycle(cycle: Any) -> Iterable[Path]:
    """Return what a rank left: its directory, or its files where it shares one."""
    if cycle.place.is_file():
        return [cycle.place]
    if cycle.layout.ranks == "suffix":
        return sorted(one.path for one in cycle.files)
    return sorted(path for path in cycle.place.rglob("*") if path.is_file())


def _prune(directory: Path) -> list[Path]:
    """Remove folders that a removed file left empty, and return them."""
    gone = []
    for folder, _, _ in os.walk(directory, topdown=False):
        path = Path(folder)
        if path != directory and not any(path.iterdir()):
            path.rmdir()
            gone.append(path)
    return gone


def _shifted(path: Path) -> Path:
    """Move the last number of a file's name by one, or to the next that no other rank has."""
    found = list(_RANK.finditer(path.name))[-1]
    number, moved = int(found[0]), path
    while moved.exists():
        number += 1
        moved = path.with_name(f"{path.name[: found.start()]}{number}{path.name[found.end() :]}")
    return moved


# -- the whole -------------------------------------------------------------------------------------------------------


def chosen_files(clean: list[Clean], found: list[Subject], plan: Plan) -> list[Taken]:
    """Choose the files that are taken apart: of every kind one generated, one real where there is one, and any other.

    The smallest directory goes first, since a mutant costs what it costs to judge all of its directory; but a file that
    is no more than a header says little, so those of less than half the usual size come last.
    """
    random = Random(plan.seed)
    weights = [sum(file.size for file in one.files) for one in clean]
    by_kind: dict[tuple[str, ...], list[Taken]] = defaultdict(list)
    for one in clean:
        for file in one.files:
            by_kind[file.layout, file.slot, file.version].append(file)
    taken: list[Taken] = []
    for kind in sorted(by_kind):
        files = by_kind[kind]
        usual = sorted(file.size for file in files)[len(files) // 2]
        files.sort(key=lambda file: (file.size < usual / 2, weights[file.subject], file.path))
        made = [file for file in files if found[file.subject].is_generated]
        real = [file for file in files if not found[file.subject].is_generated]
        first = [*made[:1], *real[:1]]
        rest = [file for file in files if file not in first]
        random.shuffle(rest)
        taken += [*first, *rest][: plan.files]
    return taken


def chosen(mutants: Iterable[Mutant], plan: Plan) -> list[Mutant]:
    """Choose the mutants of a run: families take turns, and in a family its kinds do, each drawn once before any again."""
    random = Random(plan.seed)
    families: dict[str, dict[tuple[str, ...], list[Mutant]]] = defaultdict(lambda: defaultdict(list))
    for mutant in mutants:
        families[mutant.family][mutant.kind].append(mutant)
    queues: dict[str, list[Mutant]] = {}
    for family, kinds in sorted(families.items()):
        placed: list[tuple[int, float, Mutant]] = []
        for _, found in sorted(kinds.items()):
            random.shuffle(found)
            placed += [(turn, random.random(), mutant) for turn, mutant in enumerate(found)]
        queues[family] = [mutant for *_, mutant in sorted(placed, key=lambda one: one[:2])]
    turns = zip_longest(*queues.values())
    return list(islice((mutant for turn in turns for mutant in turn if mutant is not None), plan.limit))


@dataclass(slots=True)
class Report:
    """What a run found out."""

    subjects: list[Subject]
    clean: list[Clean]
    outcomes: list[Outcome]
    seconds: float = 0.0

    @property
    def detectable(self) -> list[Outcome]:
        """Outcomes of the mutants that differ in a value, and that no writer is free to write."""
        return [one for one in self.outcomes if one.mutant.freedom is None and one.changed]

    @property
    def rate(self) -> float:
        """The share of detectable mutants that were found."""
        found = self.detectable
        return sum(bool(one.killers) for one in found) / len(found) if found else 1.0

    @property
    def survivors(self) -> list[Outcome]:
        """Detectable mutants that were not found."""
        return [one for one in self.detectable if not one.killers]

    @property
    def crashes(self) -> list[Outcome]:
        """Mutants that made perfguard raise."""
        return [one for one in self.outcomes if one.crash]

    def by(self, group: Callable[[Mutant], str]) -> dict[str, tuple[int, int, int]]:
        """Return of each group how many mutants there were, how many were errors, and how many errors or warnings."""
        found: dict[str, tuple[int, int, int]] = {}
        for one in self.detectable:
            count, red, seen = found.get(group(one.mutant), (0, 0, 0))
            found[group(one.mutant)] = (count + 1, red + bool(one.killers), seen + bool(one.killers or one.warned))
        return dict(sorted(found.items()))

    def fallen(self, figures: Mapping[str, float]) -> dict[str, float]:
        """Return the families whose share of errors is below the recorded one by more than chance of a sample."""
        shares = {family: red / count for family, (count, red, _) in self.by(lambda one: one.family).items()}
        return {family: share for family, share in shares.items() if share < figures.get(family, 0.0) - SLACK}

    @property
    def faults(self) -> list[str]:
        """What fails whatever the shares are: crashes, and right directories that are refused."""
        blamed = [f"{s.name}: {e}" for s, one in zip(self.subjects, self.clean, strict=True) for e in one.errors]
        return [*blamed, *(one.crash for one in self.crashes)]


def recorded_shares() -> dict[str, float]:
    """Return the share of each family that a recorded run found, of figures.toml."""
    figures = tomllib.loads(FIGURES.read_text())["families"] if FIGURES.is_file() else {}
    return {family: one["errors"] / one["mutants"] for family, one in figures.items()}


def run(
    found: list[Subject],
    plan: Plan,
    *,
    processes: int = 2,
    work: Path,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """Judge all subjects, then their mutants; `tell` is called with how many were judged, and of how many."""
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    # Two processes on two cores: the threads of polars would only wait for each other.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    with context.Pool(processes, _begin, (found, plan)) as pool:
        clean = pool.map(survey_subject, range(len(found)), chunksize=1)
        inside = [
            mutant for part in pool.map(take_apart, chosen_files(clean, found, plan), chunksize=1) for mutant in part
        ]
        whole = [mutant for one in clean for mutant in one.mutants]
        by_subject: dict[int, list[Mutant]] = defaultdict(list)
        for mutant in chosen([*whole, *inside], plan):
            by_subject[mutant.subject].append(mutant)
        tasks = [
            (number, batch, clean[number].findings, work)
            for number, mutants in by_subject.items()
            for batch in _batches(sorted(mutants, key=lambda m: (m.path, m.site)))
        ]
        outcomes: list[Outcome] = []
        for part in pool.imap_unordered(_run_batch, tasks, chunksize=1):
            outcomes += part
            tell(len(outcomes), sum(len(batch) for _, batch, *_ in tasks))
    outcomes.sort(key=lambda one: (one.mutant.subject, one.mutant.path, one.mutant.site, one.mutant.operator))
    return Report(found, clean, outcomes, time.monotonic() - began)


def _batches(mutants: list[Mutant], size: int = 60) -> Iterator[list[Mutant]]:
    for at in range(0, len(mutants), size):
        yield mutants[at : at + size]


def main(arguments: list[str]) -> int:
    """Run the suite and print its report; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=LIMIT, help="how many mutants (default %(default)s)")
    parser.add_argument("--all", action="store_true", help="every kind of mutant of every subject")
    parser.add_argument("--sites", type=int, default=1, help="how many places of one column of one file")
    parser.add_argument("--subject", default="*", help="glob of subjects, for instance 'pt-npu*'")
    parser.add_argument("--operator", default="*", help="glob of operators, for instance 'drop*'")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--record", action="store_true", help="store the shares by family, and put them into the docs")
    asked = parser.parse_args(arguments)
    plan = Plan(seed=asked.seed, sites=asked.sites, operator=asked.operator, limit=None if asked.all else asked.limit)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        place = Path(folder)
        found = directories.build(place, pattern=asked.subject, corpus=directories.corpus_directory())
        if not found:
            print(f"no subject is called {asked.subject}", file=sys.stderr)
            return 2
        report = run(found, plan, processes=asked.processes, work=place, tell=_tell)
    for line in lines_of(report):
        print(line)
    if asked.record:
        record(report, plan)
    fallen = report.fallen(recorded_shares())
    for family, share in fallen.items():
        print(f"{family}: {share:.1%} is below the recorded {recorded_shares()[family]:.1%}", file=sys.stderr)
    return 1 if fallen or report.faults else 0


PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "validator-tests.md"
_TABLE = re.compile(r"(?<=<!-- shares -->\n).*?(?=<!-- /shares -->)", re.DOTALL)


def record(report: Report, plan: Plan) -> None:
    """Store the shares of a run by family, and put them into the page of the docs."""
    families = report.by(lambda one: one.family)
    lines = [f"seed = {plan.seed}", f"limit = {plan.limit}", f"directories = {len(report.clean)}", ""]
    for family, (count, red, seen) in families.items():
        lines += [f'[families."{family}"]', f"mutants = {count}", f"errors = {red}", f"with_warnings = {seen}", ""]
    FIGURES.write_text("\n".join(lines))
    total = tuple(sum(one[at] for one in families.values()) for at in range(3))
    table = ["| family | mutants | errors | errors or warnings |", "|---|---:|---:|---:|"]
    for family, (count, red, seen) in [*families.items(), ("all", total)]:
        table.append(f"| {family} | {count} | {red / count:.1%} | {seen / count:.1%} |")
    free = sum(one.mutant.freedom is not None and one.changed for one in report.outcomes)
    same = sum(not one.changed for one in report.outcomes)
    drawn = f"Seed {plan.seed}, {len(report.outcomes)} drawn"
    table.append(f"\n{drawn}; {len(report.clean)} undamaged directories, {len(report.faults)} errors on them.")
    table.append(f"{free} more mutants are what a writer is free to do; {same} changed no value and are none.")
    page = PAGE.read_text()
    assert _TABLE.search(page)
    PAGE.write_text(_TABLE.sub(lambda _: "\n".join(["", *table, "", ""]), page))


def _tell(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of} mutants", end="" if done < of else "\n", file=sys.stderr, flush=True)


def lines_of(report: Report) -> Iterator[str]:
    """Word a report, line by line."""
    yield from _clean_lines(report)
    yield from _share_lines("mutator", report.by(lambda one: one.operator))
    yield from _check_lines(report)
    yield from _freedom_lines(report)
    for one in report.crashes:
        yield f"\nCRASH {one.crash}: {_worded(one.mutant, report)}"
    yield "\nMissed, by family, artifact and mutator: how many of how many"
    counts = report.by(lambda one: " | ".join(one.kind))
    families = report.by(lambda one: one.family)
    for kind, (count, red, _) in sorted(counts.items(), key=lambda one: one[1][1] - one[1][0]):
        if red < count:
            family = kind.partition(" | ")[0]
            share = (count - red) / families[family][0]
            yield f"  {count - red:4} of {count:<4} ({share:.1%} of {family}): {kind}"
    yield "\nMissed, one by one"
    for one in sorted(report.survivors, key=lambda o: (o.mutant.kind, o.mutant.subject)):
        yield f"  {'warned' if one.warned else '      '} {_worded(one.mutant, report)}"
    yield from _share_lines("family", families)
    total, killed = len(report.detectable), len(report.detectable) - len(report.survivors)
    warned = sum(bool(one.killers or one.warned) for one in report.detectable)
    yield (
        f"\nErrors: {report.rate:.2%} ({killed} of {total} mutants), with warnings {warned / max(total, 1):.2%}; "
        f"{len(report.outcomes) - total} more are free or changed no value. "
        f"Errors on {len(report.clean)} undamaged directories: {sum(len(one.errors) for one in report.clean)}. "
        f"{report.seconds:.0f} s."
    )


def _share_lines(name: str, shares: Mapping[str, tuple[int, int, int]]) -> Iterator[str]:
    yield f"\n{name:44} {'mutants':>8} {'errors':>8} {'with warnings':>14}"
    for group, (count, red, seen) in shares.items():
        yield f"{group:44} {count:8} {red / count:8.1%} {seen / count:14.1%}"


def _worded(mutant: Mutant, report: Report) -> str:
    column = f" [{mutant.column}]" if mutant.column else ""
    unit = f" ({mutant.unit})" if mutant.unit else ""
    name = report.subjects[mutant.subject].name
    return f"{mutant.operator}: {mutant.layout} {mutant.slot}{column}{unit}: {name}: {mutant.path}{mutant.place}"


def _clean_lines(report: Report) -> Iterator[str]:
    yield f"Unmutated directories: {len(report.clean)}"
    for subject, clean in zip(report.subjects, report.clean, strict=True):
        for error in clean.errors:
            yield f"  {subject.name}: {error}"


def _check_lines(report: Report) -> Iterator[str]:
    from perfguard.contract.checks import checks_of
    from perfguard.dialects.invariants import INVARIANTS
    from perfguard.dialects.invariants.whole_recording import RECORDING_INVARIANTS
    from perfguard.dialects.queries import folders

    kills: Counter[str] = Counter(killer for one in report.outcomes for killer in one.killers)
    alone: Counter[str] = Counter(one.killers[0] for one in report.outcomes if len(one.killers) == 1)
    yield f"\n{'check or code':60} {'kills':>8} {'alone':>8}"
    for name, count in sorted(kills.items(), key=lambda item: (-item[1], item[0])):
        yield f"{name:60} {count:8} {alone[name]:8}"
    queries = {check.name for folder in folders() for check in checks_of(folder)}
    silent = sorted((INVARIANTS.keys() | {one.__name__ for one in RECORDING_INVARIANTS} | queries) - kills.keys())
    yield f"\nChecks that killed nothing: {len(silent)}"
    for name in silent:
        yield f"  {name}"


def _freedom_lines(report: Report) -> Iterator[str]:
    free = Counter(one.mutant.freedom.freedom for one in report.outcomes if one.mutant.freedom is not None)
    yield f"\nFree: {free.total()}; changed no value: {sum(not one.changed for one in report.outcomes)}"
    for freedom in FREEDOMS:
        yield f"  {free[freedom.freedom]:5} {freedom.mutator}: {freedom.freedom}"
