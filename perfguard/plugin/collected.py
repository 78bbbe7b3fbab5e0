"""What pytest collected in a run, and which stored baselines have no test in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from perfguard.judge import Baseline, Verdict, lacks_baseline, renames
from perfguard.plugin.projects import Projects
from perfguard.settings import has_test_file
from perfguard.workload import moves


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
            owner = next((n for n in self.tests if workload == n or workload.startswith(f"{n}#")), None)
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

    def uncollected(self) -> list[str]:
        """Return the test files with baselines that pytest was called with and did not collect."""
        if getattr(self._config.option, "lf", False):
            return []
        root, directory = self._config.rootpath, Path(self._config.invocation_params.dir)
        named = [directory / argument.partition("::")[0] for argument in self._config.args]
        collected = self.files | {nodeid.partition("::")[0] for nodeid in self.tests}
        files = {workload.partition("::")[0] for workload in self.workloads()} - collected
        return sorted(f for f in files if (root / f).is_file() and any((root / f).is_relative_to(one) for one in named))
