"""Metrics of a device's own counters: functions of a cycle that yield (subject, value)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfguard.contract import Cycle


def api_time(cycle: Cycle) -> Iterator[tuple[str, float]]:
    """Yield Time(us) of api_statistic, divided by the steps of the window if they are known."""
    content = cycle.content("api_statistic")
    if content is None:
        return
    steps = (cycle.executions.steps if cycle.executions is not None else None) or 1
    yield from ((name, round(time_ns / 1000 / steps, 3)) for name, time_ns in content.work)
