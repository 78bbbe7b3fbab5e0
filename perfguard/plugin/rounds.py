"""Rounds of timed processes: in a round one fresh process times the selected tests of a file, one after the other.

The first test that needs round N runs it for itself and for the tests after it, whose timings are kept until they need them.
The order is rotated from round to round, so that no test always comes first. Tests of one file share a process if they have
the same backend and threads; a test with `isolated=True`, or one that did not end in a shared process, has a process for each
workload.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from perfguard import child, scratch
from perfguard.capture.command import last_line, run_command
from perfguard.capture.controlled import controlled_environment
from perfguard.plugin.controlled import LogEntry, TimedTest, read_log, write_request
from perfguard.settings import Settings
from perfguard.timing import LostRun, Timing, read_timing

#: Variables that name the current test, or that start coverage in every Python: no tracer may run in a timed process.
STAYS_BEHIND = ("PYTEST_CURRENT_TEST", "COV_CORE_", "COVERAGE_PROCESS_")

#: Whether a workload whose test comes later will need another round, according to its timings.
NeedsRound = Callable[[str, Settings, tuple[Timing, ...]], bool]
#: Called with the round, the test that is timed, its place and the number of tests in the round.
Show = Callable[[int, str, int, int], None]
#: What a round measured, by test and workload.
_Round = dict[str, dict[str, Timing]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Tests that may share a process, in the order of the run."""

    tests: list[TimedTest] = field(default_factory=list)
    #: Tests that have processes of their own.
    alone: set[str] = field(default_factory=set)
    rounds: dict[int, _Round] = field(default_factory=dict)
    #: Round and workload of what was handed out.
    given: set[tuple[int, str]] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """The log of one process, its timings, and how it ended."""

    log: list[LogEntry]
    timings: list[tuple[str, Timing]]
    ending: str

    @property
    def begun(self) -> list[str]:
        """The tests that began, in order."""
        return [entry.nodeid for entry in self.log if entry.what == "begun"]

    def reason(self, nodeid: str) -> str:
        """Return why a test did not end; empty if it did."""
        return next((one.text for one in self.log if (one.what, one.nodeid) == ("ended", nodeid)), self.ending)


class Rounds:
    """The rounds of one run of pytest, for the tests it selected."""

    def __init__(
        self,
        config: pytest.Config,
        tests: Iterable[tuple[pytest.Item, Settings]],
        *,
        needs_round: NeedsRound,
        show: Show,
    ) -> None:
        self._config = config
        self._needs_round = needs_round
        self._show = show
        self._groups: dict[str, _Group] = {}
        groups: dict[tuple[str, str | None, int], _Group] = {}
        for item, settings in tests:
            # A process has one number of threads, and frameworks in one process disturb each other.
            key = (item.nodeid.partition("::")[0], settings.backend, settings.threads)
            group = self._groups[item.nodeid] = groups.setdefault(key, _Group())
            group.tests.append(TimedTest(nodeid=item.nodeid, settings=settings))
            if settings.isolated:
                group.alone.add(item.nodeid)

    def time(
        self, item: pytest.Item, workload: str, settings: Settings, *, number: int, limit_s: float
    ) -> Timing | LostRun:
        """Return what round `number` measured of a workload, running it where it has not run; a failure is a `LostRun`.

        `limit_s` is how long each test of the round may take.
        """
        group = self._groups.get(item.nodeid, _Group())
        test = TimedTest(nodeid=item.nodeid, settings=settings)
        # A test that a plugin runs again is timed again. One that got the fixture or a marker late is not in the group.
        is_again = (number, workload) in group.given
        if test in group.tests and not is_again:
            group.given.add((number, workload))
            if number not in group.rounds and test.nodeid not in group.alone:
                planned = self._planned(group, test, workload, number)
                group.rounds[number] = self._run(planned, number, group.alone, limit_s)
            if (timing := group.rounds.get(number, {}).get(test.nodeid, {}).get(workload)) is not None:
                return timing
        return self._time_alone(replace(test, workloads=frozenset({workload})), number, limit_s)

    def _planned(self, group: _Group, asker: TimedTest, workload: str, number: int) -> list[TimedTest]:
        """Return the tests of a round that `asker` needs, rotated.

        The first round times all workloads of the tests to come. Later rounds time those that need them: all in a refresh, only
        suspects otherwise, so that one suspect has its processes alone and a slower suite shares them.
        """
        coming = [test for test in group.tests[group.tests.index(asker) :] if test.nodeid not in group.alone]
        if number > 1:
            coming = [again for test in coming if (again := self._again(group, test, workload, number)) is not None]
        shift = (number - 1) % max(1, len(coming))
        return coming[shift:] + coming[:shift]

    def _again(self, group: _Group, test: TimedTest, requested: str, number: int) -> TimedTest | None:
        """Return the test with the workloads that one more round has to time; None without any."""
        # A round that was interrupted left nothing.
        before = [group.rounds.get(earlier, {}).get(test.nodeid, {}) for earlier in range(1, number)]
        workloads = {
            workload
            for workload in before[0]
            if workload == requested
            or (
                (1, workload) not in group.given
                and self._needs_round(
                    workload, test.settings, tuple(one[workload] for one in before if workload in one)
                )
            )
        }
        return replace(test, workloads=frozenset(workloads)) if workloads else None

    def _run(self, planned: Sequence[TimedTest], number: int, alone: set[str], limit_s: float) -> _Round:
        """Run the tests of a round in one process, and those left after an early end in another."""
        found: _Round = {}
        left = list(planned)
        while left:
            ran = self._process(left, number, limit_s, place=len(planned) - len(left), of=len(planned))
            for nodeid, timing in ran.timings:
                found.setdefault(nodeid, {})[timing.workload] = timing
            # If no test began, pytest may not find one of them.
            names = {test.nodeid for test in left}
            tried = names.intersection(ran.begun) or names
            alone |= {nodeid for nodeid in tried if ran.reason(nodeid)}
            left = [test for test in left if test.nodeid not in tried]
        return found

    def _time_alone(self, test: TimedTest, number: int, limit_s: float) -> Timing | LostRun:
        ran = self._process([test], number, limit_s)
        if ran.timings:
            return ran.timings[-1][1]
        reason = ran.reason(test.nodeid)
        return LostRun(number=number, reason=reason or "passed, and did not ask for this workload")

    def _process(self, tests: Sequence[TimedTest], number: int, limit_s: float, *, place: int = 0, of: int = 1) -> _Ran:
        """Run tests in a fresh process; an error is in the result."""
        with scratch.folder() as files:
            request = write_request(self._config, tests, files)
            environment = controlled_environment(os.environ, threads=request.threads)
            environment = {name: value for name, value in environment.items() if not name.startswith(STAYS_BEHIND)}
            self._show(number, tests[0].nodeid, place + 1, of)
            watch = _Watch(files, limit_s, lambda nodeid, begun: self._show(number, nodeid, place + begun, of))
            with open(files / "output", "wb") as output:
                ended = run_command(
                    child.own_command("perfguard.plugin.controlled:main", str(files / "request"), path=sys.path),
                    environment=environment,
                    mark="PERFGUARD_CONTROLLED",
                    timeout_s=None,
                    output=output,
                    directory=Path(request.directory),
                    is_hung=watch,
                )
            # Whatever a hung process logs after that was caused by its end.
            log = watch.log if ended.timed_out else read_log(files)
            return _Ran(
                log=log,
                timings=[(entry.nodeid, read_timing(Path(entry.text))) for entry in log if entry.what == "timed"],
                ending=ended.sentence(limit_s, last_line(files / "output")),
            )


class _Watch:
    """Follows the log of a process: shows the current test, and detects one that exceeds its limit."""

    def __init__(self, place: Path, limit_s: float, show: Callable[[str, int], None]) -> None:
        self.log: list[LogEntry] = []
        self._place = place
        self._limit_s = limit_s
        self._show = show
        self._since = time.monotonic()

    def __call__(self) -> bool:
        """Read the log, and return whether the limit has passed since its last entry."""
        log = read_log(self._place)
        if len(log) == len(self.log):
            return time.monotonic() - self._since > self._limit_s
        before, self.log, self._since = self.log, log, time.monotonic()
        begun = [entry.nodeid for entry in log if entry.what == "begun"]
        if len(begun) > max(1, sum(entry.what == "begun" for entry in before)):
            self._show(begun[-1], len(begun))
        return False
