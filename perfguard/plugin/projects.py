"""The projects of one run: a project is a directory whose pyproject.toml has a `[tool.perfguard]`, for the tests below it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from perfguard.errors import UsageError
from perfguard.gate import open_store
from perfguard.judge import Baseline
from perfguard.settings import Settings, find_root, find_table
from perfguard.stores import Store
from perfguard.stores.project import ProjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Settings, and the store of their baselines, by the ids that tests have in this run."""

    settings: Settings
    store: Store


class Projects:
    """Finds the project of every test: the nearest at or above its file, else the one at or above pytest's rootdir.

    `read` returns the settings of a directory, with the options of the command line, which go before all of them. With
    `is_shared` an option names one directory for the baselines of all projects, and they are named from the rootdir.
    """

    def __init__(self, rootdir: Path, read: Callable[[Path], Settings], *, is_shared: bool) -> None:
        self._rootdir = rootdir
        self._read = read
        self._is_shared = is_shared
        self._by_root: dict[Path, Project] = {}
        self._by_directory: dict[Path, Project] = {}
        self.main = self._at(find_root(rootdir))

    def of(self, path: Path) -> Project:
        """Return the project of a test file or a directory.

        Raises `UsageError` for settings that are wrong, and for tests of another project that lie outside of the rootdir:
        what pytest calls them depends on how it was started.
        """
        directory = path if path.is_dir() else path.parent
        if (found := self._by_directory.get(directory)) is None:
            root = find_table(directory)
            found = self.main if root is None else self._at(root)
            if found is not self.main and not directory.is_relative_to(self._rootdir):
                both = os.path.commonpath([found.settings.root, self._rootdir])
                raise UsageError(
                    f"{path} has its settings in {found.settings.root / 'pyproject.toml'}, outside of pytest's rootdir "
                    f"{self._rootdir}; name a rootdir that holds both: pytest --rootdir={both} ..."
                )
            self._by_directory[directory] = found
        return found

    def of_workload(self, workload: str) -> Project:
        """Return the project of a workload of this run."""
        return self.of(self._rootdir / workload.partition("::")[0])

    def load(self, workload: str) -> Baseline | None:
        """Return the baseline of a workload, None when there is none. Raises `StoreError` for a damaged one."""
        return self.of_workload(workload).store.load(workload)

    def workloads(self, below: Iterable[Path] = ()) -> list[str]:
        """Return the workloads with a baseline of all known projects, and of those of more directories."""
        for path in below:
            self.of(path)
        if self._is_shared:
            return self.main.store.workloads()
        return sorted(workload for project in self._by_root.values() for workload in project.store.workloads())

    def _at(self, root: Path) -> Project:
        if root not in self._by_root:
            settings = self._read(root)
            store = open_store(settings.baselines_directory, settings.store)
            if not self._is_shared:
                self._refuse_shared(settings)
                # Of a directory above the rootdir the names stay those of pytest.
                if root != self._rootdir and root.is_relative_to(self._rootdir):
                    store = ProjectStore(store, f"{root.relative_to(self._rootdir).as_posix()}/")
            self._by_root[root] = Project(settings=settings, store=store)
        return self._by_root[root]

    def _refuse_shared(self, settings: Settings) -> None:
        directory = settings.baselines_directory.resolve()
        for other in self._by_root.values():
            if other.settings.baselines_directory.resolve() == directory:
                raise UsageError(
                    f"{other.settings.root / 'pyproject.toml'} and {settings.root / 'pyproject.toml'} keep their baselines in "
                    f"one directory, {directory}, where tests of one name would share a file; give each its own `baselines`."
                )
