"""Progress of a run of pytest: one line on a terminal, which test is measured and how long that will take; nothing in logs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from perfguard.reports.table import Cut, cut
from perfguard.screen import screen_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfguard.window import Phase


class AtWork:
    """Which of the tests that are measured this is, and how long those before it took."""

    def __init__(self) -> None:
        self._nodes: Sequence[str] = ()
        self._begun = 0.0
        self._node = ""
        self._node_begun = 0.0

    def begin(self, nodes: Sequence[str]) -> None:
        """These are going to be measured, in this order."""
        self._nodes, self._begun = nodes, time.monotonic()

    def worded(self, item: pytest.Item, number: int, runs: tuple[int, bool]) -> str:
        """Return `perfguard: test 2 of 7, timed process 3 of 5, about 40 s left: test_mlp`.

        `runs` are how many processes there are, and whether there will be so many; where not, nobody knows the time left.
        """
        now = time.monotonic()
        if number == 1:
            self._node, self._node_begun = item.nodeid, now
        most, is_fixed = runs
        before = self._nodes.index(item.nodeid) if item.nodeid in self._nodes else 0
        which = f"test {before + 1} of {len(self._nodes)}, " if len(self._nodes) > 1 else ""
        left = self._left_s(before, number, most, now) if is_fixed else None
        told = "" if left is None else f", about {left:.0f} s left"
        return f"perfguard: {which}timed process {number} of {'' if is_fixed else 'at most '}{most}{told}: {item.name}"

    def _left_s(self, before: int, number: int, most: int, now: float) -> float | None:
        """Guess from the processes of this test and from the tests before it; None where neither is known."""
        mine = (now - self._node_begun) / (number - 1) * (most - number + 1) if number > 1 else None
        others = len(self._nodes) - before - 1
        if before:
            # This test is one like those before it.
            each = (self._node_begun - self._begun) / before
            return (each if mine is None else mine) + each * others
        return None if mine is None else mine + others * (mine / (most - number + 1)) * most


class ProgressLine:
    """One line on a terminal, for windows that take long; nothing in logs."""

    #: Seconds before the line appears, and between two of its updates.
    APPEARS_AFTER = 2.0
    EVERY = 0.25

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = 0.0
        self._shown_at = 0.0
        self._shown = False

    def __call__(self, phase: Phase, done: int, total: int) -> None:
        """Show where a capture is."""
        now = time.monotonic()
        if done == 1:
            self._began = now
        if now - self._began < self.APPEARS_AFTER or now - self._shown_at < self.EVERY:
            return
        self._shown_at = now
        left = (now - self._began) / done * (total - done)
        self._write(f"perfguard: {phase.value} step {done}/{total}, about {left:.0f} s left")

    def say(self, line: str) -> None:
        """Show a line at once: what it tells of takes seconds."""
        self._write(line)

    def clear(self, nodeid: str) -> None:
        """Take the line away, and begin the line of results anew, as pytest does when it comes to a file."""
        if not self._shown:
            return
        self._write("")
        self._shown = False
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and reporter.showfspath:
            reporter.write_fspath_result(nodeid, "")

    def _write(self, line: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if reporter is None or not reporter.isatty:
            return
        if capture is None:
            self._put(reporter, line)
        else:
            with capture.global_and_fixture_disabled():
                self._put(reporter, line)

    def _put(self, reporter: pytest.TerminalReporter, line: str) -> None:
        if not self._shown:
            reporter.ensure_newline()
            self._shown = True
        # A line that wraps cannot be taken away.
        on = screen_of(sys.stdout)
        reporter.rewrite(cut(on.carried(line), (on.width or 80) - 1, Cut.END, on.ellipsis), erase=True)
        if not line:
            reporter.rewrite("")
