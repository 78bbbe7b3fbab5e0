"""The project of the working directory: its settings, baselines and history."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.cli.options import HISTORY_VARIABLE
from perfguard.errors import UsageError
from perfguard.settings import Settings, find_root, find_table, read_settings
from perfguard.stores import Store
from perfguard.stores.history import HISTORY_FILE, open_history
from perfguard.stores.project import store_of

if TYPE_CHECKING:
    from perfguard.stores.history.archive import History


def project_settings(root: Path | None = None, *, time: str | None = None, baselines: Path | None = None) -> Settings:
    """Return the settings of the project, with the values of `--time` and `--baselines`. Raises `UsageError`."""
    settings = read_settings(root or find_root(Path.cwd()))
    if time is not None:
        settings = replace(settings, time=time == "on")
    return settings if baselines is None else replace(settings, baselines=baselines.absolute())


def open_baselines(baselines: Path | None, workload: str | None = None) -> tuple[Store, Settings]:
    """Return the baselines and settings of the project, or of the project below it that has the workload's file.

    `baselines` is the value of `--baselines`. Raises `UsageError` where there are none.
    """
    here = Path.cwd()
    root = (find_table((here / workload.partition("::")[0]).parent) if workload else None) or find_root(here)
    settings = project_settings(root, baselines=baselines)
    directory = settings.baselines_directory
    if not directory.is_dir():
        raise UsageError(
            f"There are no baselines in {directory}; record them with: pytest --perfguard --perfguard-update"
        )
    return store_of(settings, named_from=here if baselines is None else None), settings


def baselines_of(workload: str, directory: Path) -> Store:
    """Return the baselines that a workload of the tests below a directory is judged against; they may not exist."""
    root = find_table((directory / workload.partition("::")[0]).parent) or find_root(directory)
    return store_of(read_settings(root), named_from=directory)


def open_project_history(place: str | None, *, writing: bool = False) -> History:
    """Open the history at `place`, the value of `--history`, or that of the project. Raises `UsageError` and `StoreError`."""
    named = (os.environ.get(HISTORY_VARIABLE) or None) if place is None else place
    if named is not None:
        return open_history(named, root=Path.cwd(), writing=writing)
    return open_history(project_settings().history or HISTORY_FILE, root=find_root(Path.cwd()), writing=writing)
