"""Progress of a run of pytest: one line on a terminal, which test is measured and how long that will take; nothing in logs."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext

import pytest

from perfguard.reports.table import Cut, cut
from perfguard.screen import screen_of
from perfguard.window import Phase


class RoundProgress:
    """How many rounds of how many tests have run, and how long they took."""

    def __init__(self) -> None:
        self._tests = 0
        self._begun = 0.0
        self._shown = 0

    def begin(self, tests: int) -> None:
        """Set how many tests are going to be measured."""
        self._tests, self._begun = tests, time.monotonic()

    def line(self, name: str, place: int, of: int, number: int, most: int, is_fixed: bool) -> str:
        """Return `perfguard: round 2 of 5: 3 of 7 test_mlp, about 40 s left`.

        `place` is the test's among those `of` the round; unless the number of rounds `is_fixed`, they are at most `most`.
        """
        done, self._shown = self._shown, self._shown + 1
        coming = self._tests * most - done
        left = ""
        if is_fixed and done and coming > 0:
            left = f", about {(time.monotonic() - self._begun) / done * coming:.0f} s left"
        which = f"{place} of {of} " if of > 1 else ""
        return f"perfguard: round {number} of {'' if is_fixed else 'at most '}{most}: {which}{name}{left}"


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
        self.show(f"perfguard: {phase.value} step {done}/{total}, about {left:.0f} s left")

    def clear(self, nodeid: str) -> None:
        """Remove the line, and begin the line of results again, as pytest does for a file."""
        if not self._shown:
            return
        self.show("")
        self._shown = False
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and reporter.showfspath:
            reporter.write_fspath_result(nodeid, "")

    def show(self, line: str) -> None:
        """Show a line at once."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if reporter is None or not reporter.isatty:
            return
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            if not self._shown:
                reporter.ensure_newline()
                self._shown = True
            # A line that wraps cannot be removed.
            on = screen_of(sys.stdout)
            reporter.rewrite(cut(on.carried(line), (on.width or 80) - 1, Cut.END, on.ellipsis), erase=True)
            if not line:
                reporter.rewrite("")
