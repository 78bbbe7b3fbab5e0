"""Confirmation: an A/B run of one workload with the commit of its baseline, by `perfguard ab` in a process."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from perfguard import child, scratch, thresholds
from perfguard.capture.ab.timing import INTERLEAVED
from perfguard.capture.checkout import commit_of_baseline, repository_of
from perfguard.capture.command import last_line, run_command
from perfguard.errors import PerfguardError
from perfguard.judge.baseline import Baseline
from perfguard.judge.confirmation import PairedRun
from perfguard.judge.verdict import Verdict
from perfguard.plugin.rounds import STAYS_BEHIND
from perfguard.reports.reading import read_report
from perfguard.workload import workload_of

#: Options of the run that the comparison does not get: what is written, repeated, distributed or debugged. It gets -k and -m,
#: which selected the test and which conftest.py may read.
_LEFT_OUT = frozenset(
    {
        *("-n", "--numprocesses", "--maxprocesses", "--dist", "--tx", "--pdb", "--trace", "--reruns", "--count"),
        *("-x", "--exitfirst", "--maxfail", "--lf", "--last-failed", "--ff", "--failed-first", "--nf"),
        *("--new-first", "--sw", "--stepwise", "--sw-skip", "--stepwise-skip", "--deselect", "--ignore"),
        *("--ignore-glob", "--co", "--collect-only", "--durations", "--durations-min", "--pastebin", "--basetemp"),
        *("-v", "-vv", "-vvv", "-q", "-qq", "--verbose", "--quiet", "--verbosity", "-r", "--tb"),
        *("--rootdir", "--log-file", "--report-log", "--debug", "--", "-f", "--looponfail"),
        *("--testmon", "--store-durations", "--memray", "--profile", "--profile-svg"),
    }
)
#: Options of plugins that write files, or measure by other means.
_OF_PLUGINS = ("--perfguard", "--cov", "--no-cov", "--benchmark-", "--junit", "--html", "--json-report", "--alluredir")
#: Options of one letter that may have their value glued on.
_GLUED = ("-n", "-r")
#: Options whose value may be a name that was selected as well.
_WITH_VALUE = ("-k", "-m")


@dataclass(slots=True)
class Budget:
    """The seconds left in a run for confirmations: after a drift of the machine every test is suspect."""

    left_s: float = thresholds.CONFIRMATIONS_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Confirms the stored time of one workload. `baseline_file` holds its baseline, `show` gets a line of progress."""

    config: pytest.Config
    workload: str
    baseline_file: Path
    #: How long pytest may take on a side.
    limit_s: float
    budget: Budget
    show: Callable[[str], None]

    def why_not(self, baseline: Baseline) -> str:
        """Return the reason why the commit of a baseline cannot be run; empty if it can."""
        if self.budget.left_s <= 0:
            return f"{thresholds.CONFIRMATIONS_S / 60:.0f} minutes of this run went into other tests"
        return commit_of_baseline(self.baseline_file, baseline.commit_of_time, self._file)[1]

    def __call__(self, baseline: Baseline) -> PairedRun | str:
        """Make an A/B run with the baseline's commit; return a clause if there is none."""
        commit, reason = commit_of_baseline(self.baseline_file, baseline.commit_of_time, self._file)
        if commit is None:
            return reason
        self.show(f"perfguard: {self.workload}: slower than stored, A/B run with {commit[:7]}")
        began = time.monotonic()
        try:
            with scratch.folder() as place:
                return self._compared(commit, place)
        except (OSError, PerfguardError) as error:
            return f"perfguard ab --base {commit[:7]} could not be run: {error}"
        finally:
            self.budget.left_s -= time.monotonic() - began

    @property
    def _file(self) -> Path:
        return self.config.rootpath / self.workload.partition("::")[0]

    def _compared(self, commit: str, place: Path) -> PairedRun | str:
        report, output = place / "report.json", place / "output"
        with open(output, "wb") as stream:
            ended = run_command(
                child.own_command("perfguard.cli:main", *self._arguments(commit, report)),
                environment=_environment(self.config.args),
                mark="PERFGUARD_CONFIRMATION",
                timeout_s=max(60.0, self.budget.left_s),
                output=stream,
                directory=self._directory(),
            )
        if ended.timed_out:
            return f"the A/B run with {commit[:7]} took longer than the time left for confirmations"
        # Why the comparison came to nothing, in its own words.
        last = last_line(output, "INVALID", "not compared", "gone")
        why = f"perfguard ab --base {commit[:7]} {f'says: {last}' if last else ended.sentence(0, '', did='')}"
        if not report.is_file():
            return why
        verdict = {one.workload: one for one in read_report(report)}.get(self.workload)
        return why if verdict is None else _paired_run(verdict, commit)

    def _arguments(self, commit: str, report: Path) -> Iterator[str]:
        # This run's own settings decide, and it said so in its verdict.
        yield from ("ab", "--base", commit, "--policy", "current", "--time", "on", "--timeout", f"{self.limit_s:.0f}")
        yield from ("--report", str(report), "--")
        yield from kept_options(self.config.invocation_params.args, self.config.args)
        # After an `-o addopts=` of the call.
        yield from ("-o", f"addopts={shlex.join(kept_options(self.config.getini('addopts'), self.config.args))}")
        yield f"--rootdir={self.config.rootpath}"
        file, colons, names = workload_of(self.workload).test.partition("::")
        yield f"{os.path.relpath(self.config.rootpath / file, self._directory())}{colons}{names}"

    def _directory(self) -> Path:
        """Return this run's directory, or the test's if they are of different repositories."""
        here = Path(self.config.invocation_params.dir)
        code = self._file.parent
        return here if repository_of(here) == repository_of(code) else code


def kept_options(arguments: Sequence[str | os.PathLike[str]], selected: Sequence[str] = ()) -> list[str]:
    """Return the options of pytest that a run of a single test needs too, with their values, without the `selected` tests."""
    kept: list[str] = []
    keeps_value = False
    for argument in (str(os.fspath(one)) for one in arguments):
        if argument.startswith("-"):
            name = argument.partition("=")[0]
            is_glued = not argument.startswith("--") and argument.startswith(_GLUED)
            keeps_value = not (name in _LEFT_OUT or is_glued or argument.startswith(_OF_PLUGINS))
            if keeps_value:
                kept.append(argument)
        elif keeps_value and (argument not in selected or kept[-1] in _WITH_VALUE):
            kept.append(argument)
            keeps_value = False
        else:
            keeps_value = False
    return kept


def _paired_run(verdict: Verdict, commit: str) -> PairedRun | str:
    is_interleaved = any(note.startswith(INTERLEAVED) for note in verdict.notes)
    found = PairedRun.of(verdict, commit, interleaved=is_interleaved)
    if found is None:
        finding = f"{verdict.outcome.value}: {verdict.findings[0].message}" if verdict.findings else "not timed"
        why = next((note for note in verdict.notes if note.startswith("not timed")), finding)
        return f"the A/B run with {commit[:7]} came to: {why}"
    return found


def _environment(selected: Sequence[str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(STAYS_BEHIND)}
    if options := kept.pop("PYTEST_ADDOPTS", ""):
        kept["PYTEST_ADDOPTS"] = shlex.join(kept_options(shlex.split(options), selected))
    return kept
