"""The progress bar: how much is done, at which rate, and the time left, on a terminal, once something takes a while."""

from __future__ import annotations

import sys
from typing import Any, Self

from perfguard.cli.output import screen
from perfguard.screen import is_terminal, width_of

#: What is done sooner needs no bar.
SHOWN_AFTER_S = 2.0


class _Drawn:
    """A bar on standard error; nothing is written without a terminal, or with --quiet."""

    def __init__(self, **look: Any) -> None:
        self._bar: Any = None
        if not is_terminal(sys.stderr) or screen().is_quiet:
            return
        from tqdm import tqdm

        # Its monitor is a thread, which would only redraw.
        tqdm.monitor_interval = 0
        # A terminal that does not say how high it is would be shown nothing without `nrows`.
        self._bar = tqdm(
            total=0, ncols=width_of(sys.stderr), nrows=2, leave=False, smoothing=0.0, file=sys.stderr, **look
        )

    def begin(self, total: int) -> None:
        """Add to the total."""
        if self._bar is not None:
            self._bar.total += total

    def report(self, count: int) -> None:
        """Add to what is done."""
        if self._bar is not None:
            self._bar.update(count)

    def clear(self) -> None:
        """Remove the bar, so that something else can be printed; the next report draws it again."""
        if self._bar is not None:
            self._bar.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


class Bar(_Drawn):
    """A `Progress`: bytes that were read, shown after two seconds."""

    def __init__(self) -> None:
        super().__init__(unit="B", unit_scale=True, delay=SHOWN_AFTER_S)


class Steps(_Drawn):
    """Things that take seconds or minutes each, by name, such as runs of a suite; the time left, once one of them is over."""

    def __init__(self) -> None:
        super().__init__(bar_format="{desc}{postfix}")
        self._workload = ""

    def begin_anew(self, total: int) -> None:
        """Count from here: what was done before took its own time."""
        if self._bar is not None:
            self._bar.reset(total)

    def begin_workload(self, name: str) -> None:
        """Put a name before what is shown from now on."""
        self._workload = f"{name}: "

    def say(self, what: str) -> None:
        """Show what is being done now."""
        if self._bar is None:
            return
        from perfguard.reports.names import printable
        from perfguard.reports.table import Cut, cut

        # A line that wraps cannot be taken away.
        on = screen(err=True)
        left = ""
        if 0 < self._bar.n < self._bar.total:
            left_s = self._bar.format_dict["elapsed"] / self._bar.n * (self._bar.total - self._bar.n)
            left = f", about {left_s:.0f} s left"
        line = on.carried(printable(f"perfguard: {self._workload}{what}{left}"))
        self._bar.set_description_str(cut(line, (on.width or 80) - 1, Cut.MIDDLE, on.ellipsis))
