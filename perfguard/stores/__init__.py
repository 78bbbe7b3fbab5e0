"""Stores of baselines, and the history of all runs (`history`).

A store saves and loads `Baseline`s by workload. To add one, write a class with the methods of `Store`, and add a line to
`STORES`, or an entry point in `perfguard.stores` of another distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from perfguard.extensions import Registry
from perfguard.judge.baseline import Baseline


class Store(Protocol):
    """Storage of one baseline per workload."""

    def load(self, workload: str) -> Baseline | None:
        """Return the baseline, or None. Raises `StoreError` for a damaged one."""

    def save(self, baseline: Baseline) -> None:
        """Save the baseline, completely or not at all. Raises `StoreError`."""

    def delete(self, workload: str) -> None:
        """Delete a baseline."""

    def path(self, workload: str) -> Path:
        """Return the file of a workload's baseline, whether or not it exists."""

    def workloads(self) -> list[str]:
        """Return the names of all workloads that have a baseline."""

    def locked(self) -> AbstractContextManager[object]:
        """Lock the store against other processes while an entry is read and written."""


#: Stores by their name in `store` of [tool.perfguard]; each is created with the directory in `baselines`.
STORES: Registry[Callable[[Path], Store]] = Registry(
    "stores", {"directory": "perfguard.stores.directory:BaselineDirectory"}
)
