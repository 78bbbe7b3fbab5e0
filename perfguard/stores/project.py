"""Baselines of a project; of one in a subdirectory, under names relative to the directory above.

The name of a stored baseline is relative to its project: its file is the same, wherever pytest was started.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perfguard.judge.baseline import Baseline
from perfguard.settings import Settings
from perfguard.stores import STORES, Store


def store_of(settings: Settings, *, named_from: Path | None = None) -> Store:
    """Return the baselines of a project; if it is below `named_from`, their names are relative to that directory."""
    store = STORES[settings.store](settings.baselines_directory)
    if named_from is None or settings.root == named_from or not settings.root.is_relative_to(named_from):
        return store
    return ProjectStore(store, f"{settings.root.relative_to(named_from).as_posix()}/")


class ProjectStore:
    """A store that puts the project's path, such as `packages/a/`, before the names of its workloads."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self.locked = store.locked

    def load(self, workload: str) -> Baseline | None:
        """Return the baseline, or None. Raises `StoreError` for a damaged one."""
        found = self._store.load(self._stored(workload))
        return None if found is None else replace(found, workload=workload)

    def save(self, baseline: Baseline) -> None:
        """Save the baseline under its name in the project."""
        measured = baseline.fingerprint
        if measured is not None:
            # A replayed recording keeps the workload of the recording.
            measured = replace(measured, workload=self._stored(measured.workload))
        self._store.save(replace(baseline, workload=self._stored(baseline.workload), fingerprint=measured))

    def delete(self, workload: str) -> None:
        """Delete a baseline."""
        self._store.delete(self._stored(workload))

    def path(self, workload: str) -> Path:
        """Return the file of a workload."""
        return self._store.path(self._stored(workload))

    def workloads(self) -> list[str]:
        """Return the names of all workloads that have a baseline."""
        return [self._prefix + workload for workload in self._store.workloads()]

    def _stored(self, workload: str) -> str:
        return workload.removeprefix(self._prefix)
