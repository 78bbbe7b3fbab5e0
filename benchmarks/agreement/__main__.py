"""Are the verdicts those a maintainer expects? Planted changes in a project of a user's kind, one table.

Run: python -m benchmarks.agreement [--only NAME]... [--exact] [--rounds N] [--project DIR]

Baselines of the project are made once, by `pytest --perfguard-update`; with --project they are kept for the next call. Every
change is then made in a copy of the sources, and judged by `pytest --perfguard` of the tests that run it. The exit status is 1
where a verdict is not the expected one.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks.agreement.plants import ALL, GREEN, PLANTS, TESTS, Plant
from benchmarks.load import busy
from perfguard.judge.work import work_of
from perfguard.reports.reading import read_run
from perfguard.stores import STORES

PROJECT = Path(__file__).parent / "project"
#: One run of pytest, with the processes it starts.
LIMIT_S = 1800
#: How a failing test begins, in the terminal.
HEADLINE = re.compile(r"(?:Failed: )?perfguard ([A-Z]+: .*)")
STEP_TIME = re.compile(r"([\d.,]+) → ([\d.,]+) ms,? \(?([+−-][\d.]+ %)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of pytest in the project."""

    status: int
    output: str
    junit: str
    markdown: str
    workloads: tuple[dict[str, Any], ...]
    #: By how much operator time grew in each test that has a baseline, as a fraction: what the threshold of added work is for.
    added: tuple[float, ...]

    @property
    def outcomes(self) -> tuple[str, ...]:
        return tuple(one["outcome"] for one in self.workloads)

    @property
    def first_line(self) -> str:
        """What the first failure says; of a green run, what it says got better; where neither is, the last line."""
        found = [match[1] for match in HEADLINE.finditer(self.output)]
        found += [line for line in self.output.splitlines() if re.search(r"\bbetter\b", line)]
        return (found or [*self.output.strip().splitlines()[-1:], ""])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one plant came to."""

    plant: Plant
    outcomes: tuple[str, ...]
    #: How much operator time the operators add that are new or run more often, of each test, before any threshold.
    added: tuple[float, ...]
    first_line: str
    #: What is not as expected; empty where all of it is.
    wrong: tuple[str, ...]


def new_project(directory: Path) -> None:
    """Write the project, without baselines."""
    shutil.copytree(PROJECT, directory, ignore=shutil.ignore_patterns("__pycache__"))
    (directory / TESTS).parent.mkdir()
    (directory / "gates.py").rename(directory / TESTS)


def commit(directory: Path) -> None:
    """Put the project as it is into git, as users do: a stored time is confirmed beside the commit it was measured on."""
    (directory / ".gitignore").write_text("__pycache__\nresults\n", encoding="utf-8")
    who = ["-c", "user.email=perfguard@example.org", "-c", "user.name=perfguard"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "as it is"]):
        subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True)


def planted(plant: Plant, base: Path, directory: Path) -> Path:
    """Copy the project with its baselines, and edit it."""
    shutil.copytree(base, directory, ignore=shutil.ignore_patterns("__pycache__", "results"))
    for file, old, new in plant.edits:
        source = (directory / file).read_text(encoding="utf-8")
        if source.count(old) != 1:
            raise SystemExit(f"{plant.name}: {old!r} is {source.count(old)} times in {file}, not once")
        (directory / file).write_text(source.replace(old, new), encoding="utf-8")
    return directory


def run(directory: Path, tests: Sequence[str], *options: str) -> Run:
    """Run tests of the project as a user does."""
    results = directory / "results"
    shutil.rmtree(results, ignore_errors=True)
    files = {name: results / name for name in ("report.json", "junit.xml", "summary.md")}
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", *options]
    command += [f"--perfguard-report={files['report.json']}", f"--junitxml={files['junit.xml']}"]
    command += [
        f"--perfguard-markdown={files['summary.md']}",
        TESTS,
        "-k",
        " or ".join(f"test_{test}" for test in tests),
    ]
    kept = {
        name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_", "PERFGUARD_"))
    }
    done = subprocess.run(
        command, cwd=directory, env=kept, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    found = {name: path.read_text(encoding="utf-8") if path.is_file() else "" for name, path in files.items()}
    return Run(
        status=done.returncode,
        output=done.stdout + done.stderr,
        junit=found["junit.xml"],
        markdown=found["summary.md"],
        workloads=tuple(json.loads(found["report.json"] or '{"workloads": []}')["workloads"]),
        added=tuple(added_work(directory, files["report.json"])) if found["report.json"] else (),
    )


def added_work(directory: Path, report: Path) -> Iterator[float]:
    """Yield the growth of operator time that is weighed in each test of a report, before any threshold."""
    store = STORES["directory"](directory / "baselines")
    for verdict in read_run(report).verdicts:
        if (baseline := store.load(verdict.workload)) is not None:
            works = work_of(verdict.measurements, baseline.measurements).values()
            yield max((work.growth for work in works), default=0.0)


def judge(plant: Plant, base: Path, directory: Path, *options: str) -> Row:
    """Plant a change, run its tests, and compare what is said with what is expected."""
    with busy(plant.busy):
        found = run(planted(plant, base, directory / "judged"), plant.tests, "--perfguard", *options)
    wrong = [f"{text!r} is not said" for text in plant.says if not re.search(text, found.output)]
    wrong += [f"{text!r} is said" for text in plant.is_silent_on if re.search(text, found.output)]
    if len(found.outcomes) != len(plant.tests):
        wrong.append(f"{len(found.outcomes)} of {len(plant.tests)} tests were judged")
    wrong += [f"{outcome} is not expected" for outcome in sorted(set(found.outcomes) - plant.expected)]
    if (found.status == 0) is not (set(found.outcomes) <= GREEN):
        wrong.append(f"pytest exits {found.status}")
    if plant.is_accepted:
        for mode in ("--perfguard-ratchet", "--perfguard-update"):
            stored = run(planted(plant, base, directory / mode.strip("-")), plant.tests, mode, *options)
            if stored.status or not any(one["baseline"] == "updated" for one in stored.workloads):
                states = ", ".join(str(one["baseline"]) for one in stored.workloads)
                wrong.append(f"{mode} exits {stored.status}, baselines: {states}")
    if plant.has_one_time and "--perfguard-time=off" not in options:
        wrong += several_times(found)
    return Row(plant=plant, outcomes=found.outcomes, added=found.added, first_line=found.first_line, wrong=tuple(wrong))


def several_times(found: Run) -> Iterator[str]:
    """Say where a run of one red test shows another step time or percentage than its failure does."""
    headline = STEP_TIME.search(found.output)
    if headline is None:
        yield "the failure has no step time in ms and percent"
        return
    before, after, change = headline.groups()
    summary = found.output.partition("= perfguard =")[2]
    for where, text in (("the summary", summary), ("JUnit", found.junit), ("Markdown", found.markdown)):
        missing = [one for one in (before, after, change) if one not in text]
        if missing:
            yield f"{where} does not show {', '.join(missing)}"
    for where, text in (("terminal", found.output), ("JUnit", found.junit), ("Markdown", found.markdown)):
        if re.search(r"\bunits\b", text):
            yield f"{where} says 'units'"
        others = {match.groups() for match in STEP_TIME.finditer(text)} - {headline.groups()}
        yield from (f"{where} also shows {one} → {other} ms, {percent}" for one, other, percent in sorted(others))


def table(rows: Sequence[Row]) -> str:
    """Return the rows for a terminal and for a page of the docs."""
    cells = [
        (
            row.plant.name,
            row.plant.kind,
            ", ".join(sorted(set(row.outcomes))) or "nothing",
            " or ".join(sorted(row.plant.expected)),
            ", ".join(f"{100 * one:.1f} %" for one in row.added[:2]),
            f"no: {'; '.join(row.wrong)}" if row.wrong else "yes",
            row.first_line if len(row.first_line) <= 160 else f"{row.first_line[:159]}…",
        )
        for row in rows
    ]
    head = ("planted", "kind", "outcome", "expected", "added work", "agrees", "first line")
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    return str(tabulate(escaped, headers=head, tablefmt="github", disable_numparse=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="a plant, or a glob of names; repeatable")
    parser.add_argument("--exact", action="store_true", help="exact metrics only: seconds a row, and fewer rows")
    parser.add_argument("--rounds", type=int, default=1, help="how often each plant is judged")
    parser.add_argument(
        "--project", type=Path, metavar="DIR", help="make the baselines here, or use those that are here"
    )
    asked = parser.parse_args()
    plants = [one for one in PLANTS if not asked.only or any(fnmatch.fnmatch(one.name, name) for name in asked.only)]
    left_out = [one.name for one in plants if asked.exact and one.needs_time]
    plants = [one for one in plants if one.name not in left_out]
    if not plants:
        parser.error(f"--only {asked.only}: no such plant{' without time' if left_out else ''}")
    options = ("--perfguard-time=off",) if asked.exact else ()
    rows = []
    with tempfile.TemporaryDirectory(prefix="perfguard-agreement-") as place:
        base = (asked.project or Path(place, "base")).absolute()
        if not base.exists():
            # Of all tests where others use them; a renamed test is none of them.
            needed = {test for plant in plants for test in (plant.tests if set(plant.tests) <= set(ALL) else ALL)}
            new_project(base)
            commit(base)
            began = time.monotonic()
            made = run(base, ALL if asked.project else sorted(needed), "--perfguard-update", *options)
            if made.status:
                raise SystemExit(f"the baselines cannot be made:\n{made.output}")
            print(f"baselines of {len(made.workloads)} tests: {time.monotonic() - began:.0f} s", file=sys.stderr)
            commit(base)
        for number in range(asked.rounds):
            for plant in plants:
                rows.append(judge(plant, base, Path(place, f"{plant.name}-{number}"), *options))
                print(f"{plant.name}: {'; '.join(rows[-1].wrong) or 'agrees'}", file=sys.stderr, flush=True)
    print(table(rows))
    counts = {
        kind: [not row.wrong for row in rows if row.plant.kind == kind]
        for kind in dict.fromkeys(r.plant.kind for r in rows)
    }
    print("\n" + ", ".join(f"{kind}: {sum(agree)} of {len(agree)} agree" for kind, agree in counts.items()))
    if left_out:
        print(f"left out without time: {', '.join(left_out)}")
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
