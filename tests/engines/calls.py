"""Calls that workers make in the tests of the engines: they must be importable there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path


def doubled(items: Sequence[int]) -> list[int]:
    return [2 * item for item in items]


def slowly_doubled(items: Sequence[int]) -> list[int]:
    time.sleep(0.02 * len(items))
    return doubled(items)


def deadly(items: Sequence[int]) -> list[int]:
    """Die of every 7."""
    if 7 in items:
        os.kill(os.getpid(), signal.SIGKILL)
    return doubled(items)


class DeadlyOnce:
    """Die of every 7 the first time: a file remembers it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, items: Sequence[int]) -> list[int]:
        if 7 in items and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return doubled(items)


def failing(items: Sequence[int]) -> list[int]:
    if 7 in items:
        raise ZeroDivisionError("a mistake of ours")
    return doubled(items)


class Odd(Exception):
    """Cannot be unpickled: it wants two arguments, and remembers one."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def failing_oddly(items: Sequence[int]) -> list[int]:
    raise Odd("an odd mistake", "of ours")


def surroundings(items: Sequence[int]) -> list[tuple[int, str, bool]]:
    import polars as pl

    return [(os.getpid(), f"{pl.thread_pool_size()}", threading.active_count() > 0) for _ in items]
