"""The progress bar: bytes looked at, rate and time left, on a terminal, once something takes over two seconds."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import Any

#: What is done sooner needs no bar.
SHOWN_AFTER_S = 2.0


class Bar:
    """A `Progress` on standard error. Where that is no terminal, or the bar is not wanted, nothing is ever written."""

    def __init__(self, *, is_wanted: bool = True) -> None:
        self._is_wanted = is_wanted and sys.stderr.isatty()
        self._begun = time.monotonic()
        self._total = 0
        self._done = 0
        self._bar: Any = None

    def begin(self, total: int) -> None:
        """So many bytes more are going to be looked at."""
        self._total += total
        if self._bar is not None:
            self._bar.total = self._total

    def tell(self, count: int) -> None:
        """So many more of them were."""
        self._done += count
        if not self._is_wanted:
            return
        if self._bar is not None:
            self._bar.update(count)
        elif time.monotonic() - self._begun > SHOWN_AFTER_S:
            self._bar = self._shown()

    def clear(self) -> None:
        """Take the bar away, so that something else can be printed; it comes back with what is told next."""
        if self._bar is not None:
            self._bar.clear()

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def _shown(self) -> Any:
        from tqdm import tqdm

        # Its monitor is a thread, which would only redraw.
        tqdm.monitor_interval = 0
        bar = tqdm(
            total=self._total,
            initial=self._done,
            unit="B",
            unit_scale=True,
            ncols=_columns(),
            # A terminal that does not say how high it is would be shown nothing.
            nrows=2,
            leave=False,
            smoothing=0.0,
            file=sys.stderr,
        )
        # The rate is that of all the time, and not only of what came after it was first shown.
        bar.initial = 0
        bar.start_t -= time.monotonic() - self._begun
        return bar


def _columns() -> int:
    """Return how wide the terminal is; one that does not say so has 80 columns."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
