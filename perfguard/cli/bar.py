"""Progress bars on a terminal: what is done, the rate and the time left."""

from __future__ import annotations

import sys
import threading
from typing import Any, Self

from perfguard.cli.output import screen
from perfguard.screen import is_terminal, width_of

#: Shorter tasks have no bar.
SHOWN_AFTER_S = 2.0


class _Drawn:
    """A bar on standard error; nothing is written without a terminal, or with --quiet."""

    def __init__(self, **look: Any) -> None:
        self._bar: Any = None
        if not is_terminal(sys.stderr) or screen().is_quiet:
            return
        from tqdm import tqdm

        # Its own is one of multiprocessing, which starts a process from Python 3.14 on.
        tqdm.set_lock(threading.RLock())
        # tqdm's monitor thread would only redraw.
        tqdm.monitor_interval = 0
        # Without `nrows`, nothing is shown on a terminal of unknown height.
        self._bar = tqdm(
            total=0, ncols=width_of(sys.stderr), nrows=2, leave=False, smoothing=0.0, file=sys.stderr, **look
        )

    def begin(self, total: int) -> None:
        """Add to the total."""
        if self._bar is not None:
            self._bar.total += total

    def report(self, count: int) -> None:
        """Add to the part that is done."""
        if self._bar is not None:
            self._bar.update(count)

    def clear(self) -> None:
        """Remove the bar, so that other text can be printed; the next report draws it again."""
        if self._bar is not None:
            self._bar.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


class Bar(_Drawn):
    """A `Progress` of the bytes that are read, shown after two seconds."""

    def __init__(self) -> None:
        super().__init__(unit="B", unit_scale=True, delay=SHOWN_AFTER_S)


class Steps(_Drawn):
    """Named steps that take seconds or minutes each, such as runs of a suite; the time left is shown once one has ended."""

    def __init__(self) -> None:
        super().__init__(bar_format="{desc}{postfix}")
        self._workload = ""

    def restart(self, total: int) -> None:
        """Count from 0 again, without the time of earlier steps."""
        if self._bar is not None:
            self._bar.reset(total)

    def begin_workload(self, name: str) -> None:
        """Put a name before all later lines."""
        self._workload = f"{name}: "

    def show(self, what: str) -> None:
        """Show the current step."""
        if self._bar is None:
            return
        from perfguard.reports.table import Cut, cut
        from perfguard.screen import printable

        # A line that wraps cannot be removed.
        on = screen(err=True)
        left = ""
        if 0 < self._bar.n < self._bar.total:
            left_s = self._bar.format_dict["elapsed"] / self._bar.n * (self._bar.total - self._bar.n)
            left = f", about {left_s:.0f} s left"
        line = on.carried(printable(f"perfguard: {self._workload}{what}{left}"))
        self._bar.set_description_str(cut(line, (on.width or 80) - 1, Cut.MIDDLE, on.ellipsis))
