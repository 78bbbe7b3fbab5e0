"""The options of a run with the gate: what they mean, and which runs are refused because they cannot work."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from perfguard.errors import UsageError
from perfguard.gate import Update
from perfguard.reports import ReportFile, report_file, split
from perfguard.settings import Settings, read_settings, run_count

#: Options of pytest that print something and run no test.
_WITHOUT_TESTS = ("help", "version", "markers", "collectonly", "showfixtures", "show_fixtures_per_test", "cacheshow")
_UPDATES = {
    "--perfguard-update": Update.ALL,
    "--perfguard-update-new-only": Update.NEW_ONLY,
    "--perfguard-ratchet": Update.RATCHET,
}


def update_of(config: pytest.Config) -> Update:
    """Return which baselines the run writes. Raises `UsageError` for options that contradict each other."""
    given = [flag for flag in _UPDATES if config.getoption(flag)]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} contradict each other; give one of them.")
    return _UPDATES[given[0]] if given else Update.NOTHING


def settings_in(config: pytest.Config, root: Path) -> Settings:
    """Return the settings of a directory, overridden by the options of the run. Raises `UsageError`."""
    option = config.option
    settings = read_settings(root)
    if option.perfguard_time is not None:
        settings = replace(settings, time=option.perfguard_time == "on")
    if option.perfguard_runs is not None:
        settings = replace(settings, runs=run_count(option.perfguard_runs))
    if option.perfguard_baselines is not None:
        settings = replace(settings, baselines=Path(config.invocation_params.dir) / option.perfguard_baselines)
    return settings


def recordings_directory(config: pytest.Config) -> Path | None:
    """Return the absolute directory of `--perfguard-recordings`, or None."""
    name: str | None = config.option.perfguard_recordings
    if not name:
        return None
    directory = Path(config.invocation_params.dir) / name
    _require_writable(directory, "--perfguard-recordings DIR")
    return directory


def report_files(config: pytest.Config) -> list[ReportFile]:
    """Return the report files to write. Raises `UsageError` for a file that cannot be written."""
    files = []
    for flag, requested in config.option.perfguard_out:
        form, file = split(requested, option=flag)
        option = f"{flag} FORMAT:FILE" if flag == "--perfguard-out" else f"{flag} FILE"
        path = Path(config.invocation_params.dir) / file
        _require_writable(path.parent, option)
        if path.is_dir():
            raise UsageError(f"{path} cannot be written: it is a directory. Name a file with {option}.")
        files.append(report_file(form, path, option=option))
    return files


def named_places(config: pytest.Config) -> list[Path]:
    """Return the files and directories that pytest was called with; its rootdir if it was called with module names."""
    directory = config.invocation_params.dir
    places = [Path(os.path.abspath(directory / argument.partition("::")[0])) for argument in config.args]
    return [place for place in places if place.exists()] or [config.rootpath]


def runs_no_test(config: pytest.Config) -> bool:
    """Whether pytest was called to print something, such as its help, and not to run tests."""
    return any(getattr(config.option, name, None) for name in _WITHOUT_TESTS)


def require_usable(config: pytest.Config, settings: Settings, update: Update) -> None:
    """Raise `UsageError` where tests with these settings cannot be measured in this run."""
    if settings.time and _is_parallel(config):
        raise UsageError(
            "tests that run in parallel disturb each other's time, so --perfguard refuses pytest-xdist; "
            "run without -n, or judge exact metrics only: pytest -n ... --perfguard --perfguard-time=off"
        )
    if update is not Update.NOTHING:
        _require_writable(settings.baselines_directory, "--perfguard-baselines DIR")


def _is_parallel(config: pytest.Config) -> bool:
    if hasattr(config, "workerinput"):
        return True
    # The rule of xdist itself: --dist without -n or --tx distributes nothing.
    option = config.option
    many = bool(getattr(option, "numprocesses", None)) or bool(getattr(option, "tx", None))
    return many and getattr(option, "dist", "no") != "no"


def _require_writable(directory: Path, option: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be written: {error.strerror}. "
            f"Correct its permissions, or name another directory with {option}."
        ) from error
