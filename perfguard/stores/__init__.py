"""Stores: where baselines live, and beside them the history of all runs (`history`).

What goes in and out: `Baseline`s by the name of their workload. To add one: a class that keeps `Store`, and a line in
`STORES`, or in another distribution an entry point in `perfguard.stores`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from perfguard.extensions import Registry
from perfguard.judge.baseline import Baseline


class Store(Protocol):
    """A place that keeps one baseline a workload."""

    def load(self, workload: str) -> Baseline | None:
        """Return the baseline, None when there is none. Raises `StoreError` for a damaged one."""

    def save(self, baseline: Baseline) -> None:
        """Keep the baseline, whole or not at all. Raises `StoreError`."""

    def delete(self, workload: str) -> None:
        """Forget a baseline."""

    def path(self, workload: str) -> Path:
        """Return the file that the baseline of a workload is kept in, whether or not there is one."""

    def workloads(self) -> list[str]:
        """Return the names of all workloads that have a baseline."""

    def locked(self) -> AbstractContextManager[object]:
        """Hold the store against other processes while an entry is read and written."""


#: By the name that `store` in [tool.perfguard] has; each is given the place that `baselines` names.
STORES: Registry[Callable[[Path], Store]] = Registry(
    "stores", {"directory": "perfguard.stores.directory:BaselineDirectory"}
)
