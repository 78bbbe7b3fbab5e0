"""The projects of one run and its collected tests: which baselines there are, and which of them have no test.

A project is a directory whose pyproject.toml has a `[tool.perfguard]`, for the tests below it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfguard.errors import UsageError
from perfguard.judge.baseline import Baseline
from perfguard.judge.renames import lacks_baseline, renames
from perfguard.judge.verdict import Verdict
from perfguard.plugin.options import leaves_out_by_file
from perfguard.settings import Settings, find_root, find_table, has_test_file
from perfguard.stores import Store
from perfguard.stores.project import store_of
from perfguard.workload import moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Settings, and the store of their baselines, by the ids that tests have in this run."""

    settings: Settings
    store: Store


class Projects:
    """Finds the project of every test: the nearest at or above its file, else the one at or above pytest's rootdir.

    `read` returns the settings of a directory, with the options of the command line, which go before all of them. With
    `is_shared` an option names one directory for the baselines of all projects, and they are named from the rootdir. `levels`
    are where to look for the settings of a directory, if not at or above it.
    """

    def __init__(
        self,
        rootdir: Path,
        read: Callable[[Path], Settings],
        *,
        is_shared: bool,
        levels: Callable[[Path], Sequence[Path]] = lambda directory: (),
    ) -> None:
        self._rootdir = rootdir
        self._levels = levels
        self._read = read
        self._is_shared = is_shared
        self._by_root: dict[Path, Project] = {}
        self._by_directory: dict[Path, Project] = {}
        self.main = self._at(find_root(rootdir, levels(rootdir)))

    def of(self, path: Path) -> Project:
        """Return the project of a test file or a directory.

        Raises `UsageError` for settings that are wrong, and for tests of another project that lie outside of the rootdir:
        what pytest calls them depends on how it was started.
        """
        directory = path if path.is_dir() else path.parent
        if (found := self._by_directory.get(directory)) is None:
            root = find_table(directory, self._levels(directory))
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
            if not self._is_shared:
                self._refuse_shared(settings)
            # Of a directory above the rootdir the names stay those of pytest.
            store = store_of(settings, named_from=None if self._is_shared else self._rootdir)
            self._by_root[root] = Project(settings=settings, store=store)
        return self._by_root[root]

    def _refuse_shared(self, settings: Settings) -> None:
        directory = os.path.realpath(settings.baselines_directory)
        for other in self._by_root.values():
            if os.path.realpath(other.settings.baselines_directory) == directory:
                raise UsageError(
                    f"{other.settings.root / 'pyproject.toml'} and {settings.root / 'pyproject.toml'} keep their baselines in "
                    f"one directory, {directory}, where tests of one name would share a file; give each its own `baselines`."
                )


class Collected:
    """The tests and files that pytest collected, in this process and in the workers of pytest-xdist."""

    def __init__(self, config: pytest.Config, projects: Projects) -> None:
        self._config = config
        self._projects = projects
        #: Tests by node id, and whether each is selected to run.
        self.tests: dict[str, bool] = {}
        #: Files that were collected without an error.
        self.files: set[str] = set()

    def as_document(self) -> dict[str, Any]:
        """Return everything as a plain document, for the controller of pytest-xdist."""
        return {"tests": self.tests, "files": sorted(self.files)}

    def merge(self, document: Mapping[str, Any]) -> None:
        """Add what a worker of pytest-xdist collected."""
        self.tests |= document["tests"]
        self.files |= set(document["files"])

    def workloads(self) -> list[str]:
        """Return the workloads that have a baseline, in the projects of all collected files."""
        return self._projects.workloads(self._config.rootpath / nodeid for nodeid in self.files)

    def baselines(self, workloads: Iterable[str]) -> list[Baseline]:
        """Return the baselines of workloads, without those that have none. Raises `StoreError`."""
        return [found for workload in workloads if (found := self._projects.load(workload)) is not None]

    def unused(self, verdicts: Mapping[str, Verdict], passed: set[str]) -> tuple[str, ...]:
        """Return the workloads whose baseline has no test, as far as this run can tell. `passed` are the tests that passed.

        Either the file of the test is gone, or the file was collected without an error and has no such test. Skipped and
        deselected tests exist. A run of single tests (`::`), of last failures or under xdist collects too little.
        """
        is_partial = any("::" in argument for argument in self._config.args)
        is_partial = is_partial or bool(getattr(self._config.option, "lf", False))
        unused = []
        for workload in self.workloads():
            owner = next((one for one in self.tests if _is_of(workload, one)), None)
            if owner is not None:
                if owner in passed and workload not in verdicts:
                    unused.append(workload)
                continue
            is_collected = workload.partition("::")[0] in self.files and not is_partial
            if not self._has_file(workload) or (is_collected and not self._is_of_another_device(workload, verdicts)):
                unused.append(workload)
        return tuple(unused)

    def _has_file(self, workload: str) -> bool:
        """Whether a workload's test file exists; if packages share a baselines directory, also in the other packages."""
        root, rootdir = self._projects.of_workload(workload).settings.root, self._config.rootpath
        if (rootdir / workload.partition("::")[0]).is_file():
            return True
        return root != rootdir and rootdir.is_relative_to(root) and has_test_file(root, workload)

    def _is_of_another_device(self, workload: str, verdicts: Mapping[str, Verdict]) -> bool:
        """Whether a baseline is of a device that this run did not measure: its test may be collected on that device only."""
        here = {verdict.fingerprint.device for verdict in verdicts.values() if verdict.fingerprint is not None}
        stored = self._projects.load(workload) if here else None
        return stored is not None and stored.fingerprint is not None and stored.fingerprint.device not in here

    def moves(self, unused: Iterable[str], verdicts: Mapping[str, Verdict]) -> tuple[tuple[str, str], ...]:
        """Return the places to rename so that tests without a baseline get the unused baselines that look like theirs."""
        without = [verdict for verdict in verdicts.values() if lacks_baseline(verdict)]
        names = renames(without, self.baselines(unused)) if without else {}
        return tuple(moves(names, self.workloads())) if names else ()

    def left_out(self) -> list[str]:
        """Return the tests with baselines that pytest's configuration file deselects."""
        if not leaves_out_by_file(self._config):
            return []
        stored = [*self.workloads()]
        left = [nodeid for nodeid, is_selected in self.tests.items() if not is_selected]
        return sorted(one for one in left if any(_is_of(workload, one) for workload in stored))

    def uncollected(self) -> list[str]:
        """Return the test files with baselines that pytest was called with and did not collect."""
        if getattr(self._config.option, "lf", False):
            return []
        root, directory = self._config.rootpath, Path(self._config.invocation_params.dir)
        named = [directory / argument.partition("::")[0] for argument in self._config.args]
        collected = self.files | {nodeid.partition("::")[0] for nodeid in self.tests}
        files = {workload.partition("::")[0] for workload in self.workloads()} - collected
        return sorted(f for f in files if (root / f).is_file() and any((root / f).is_relative_to(one) for one in named))


def _is_of(workload: str, nodeid: str) -> bool:
    """Whether a workload is of a test, which may measure several: `test_a.py::test_model#decode`."""
    return workload == nodeid or workload.startswith(f"{nodeid}#")
