"""The progress bar: how much is done, at which rate, and the time left, on a terminal, once something takes a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, TypeVar

from perfguard.screen import is_terminal, screen_of, width_of

#: What is done sooner needs no bar.
SHOWN_AFTER_S = 2.0

Drawn = TypeVar("Drawn", bound="_Drawn")


class _Drawn:
    """A bar on standard error. Where that is no terminal, or the bar is not wanted, nothing is ever written."""

    def __init__(self, *, is_wanted: bool, **look: Any) -> None:
        self._is_wanted = is_wanted and is_terminal(sys.stderr)
        self._look = look
        self._begun = time.monotonic()
        self._total = 0
        self._done = 0
        self._bar: Any = None

    def begin(self, total: int) -> None:
        """So much more is going to be done."""
        self._total += total
        if self._bar is not None:
            self._bar.total = self._total

    def report(self, count: int) -> None:
        """So much more of it was."""
        self._done += count
        if self._bar is not None:
            self._bar.update(count)

    def clear(self) -> None:
        """Take the bar away, so that something else can be printed; it comes back with what is told next."""
        if self._bar is not None:
            self._bar.clear()

    def __enter__(self: Drawn) -> Drawn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def _show(self) -> None:
        from tqdm import tqdm

        # Its monitor is a thread, which would only redraw.
        tqdm.monitor_interval = 0
        self._bar = tqdm(
            total=self._total,
            initial=self._done,
            ncols=width_of(sys.stderr),
            # A terminal that does not say how high it is would be shown nothing.
            nrows=2,
            leave=False,
            smoothing=0.0,
            file=sys.stderr,
            **self._look,
        )
        # The rate is that of all the time, and not only of what came after it was first shown.
        self._bar.initial = 0
        self._bar.start_t -= time.monotonic() - self._begun


class Bar(_Drawn):
    """A `Progress`: bytes that were looked at, shown once that takes over two seconds."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        super().__init__(is_wanted=is_wanted, unit="B", unit_scale=True)

    def report(self, count: int) -> None:
        """So many more bytes were looked at."""
        is_due = self._bar is None and time.monotonic() - self._begun > SHOWN_AFTER_S
        super().report(count)
        if is_due and self._is_wanted:
            self._show()


class Steps(_Drawn):
    """Things that take seconds or minutes each, by name, such as runs of a suite; the time left, once one of them is over."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        super().__init__(is_wanted=is_wanted, bar_format="{desc}{postfix}")

    def begin_anew(self, total: int) -> None:
        """Count from here: what was done before took its own time."""
        self._begun, self._total, self._done = time.monotonic(), total, 0

    def say(self, what: str) -> None:
        """Show what is being done now."""
        if not self._is_wanted:
            return
        from perfguard.reports.names import printable
        from perfguard.reports.table import Cut, cut

        if self._bar is None:
            self._show()
        # A line that wraps cannot be taken away.
        on = screen_of(sys.stderr)
        line = on.carried(printable(self._worded(what)))
        self._bar.set_description_str(cut(line, (on.width or 80) - 1, Cut.MIDDLE, on.ellipsis))

    def _worded(self, what: str) -> str:
        gone_s = time.monotonic() - self._begun
        if not 0 < self._done < self._total:
            return f"perfguard: {what}"
        return f"perfguard: {what}, about {gone_s / self._done * (self._total - self._done):.0f} s left"
