"""The options of a run with the gate: what they mean, and which runs are refused because they cannot work."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from dataclasses import replace
from inspect import signature
from itertools import pairwise
from pathlib import Path

import pytest

from perfguard.capture.ab.policy import PolicyTree
from perfguard.errors import UsageError
from perfguard.gate import Update
from perfguard.reports import ReportFile, report_file, split
from perfguard.settings import Settings, read_settings, run_count

#: Whose settings count, in a run for one side of an A/B comparison.
POLICY = pytest.StashKey[PolicyTree]()
#: Options of pytest that print something and run no test.
_WITHOUT_TESTS = ("help", "version", "markers", "collectonly", "showfixtures", "show_fixtures_per_test", "cacheshow")
#: How they are written, and those that leave tests out.
_PRINTING = frozenset((
    *("-h", "--help", "-V", "--version", "--markers", "--co", "--collect-only", "--fixtures", "--funcargs"),
    *("--fixtures-per-test", "--cache-show"),
))  # fmt: skip
_LEAVING_OUT = re.compile(r"-[km]|--deselect|--ignore")
_UPDATES = {
    "--perfguard-update": Update.ALL,
    "--perfguard-update-new-only": Update.NEW_ONLY,
    "--perfguard-ratchet": Update.RATCHET,
}


def require_rootdir(config: pytest.Config) -> None:
    """Raise `UsageError` if the value of an option moved pytest's rootdir, and with it settings and baselines.

    pytest looks for its rootdir before it knows the options of plugins: until then VALUE in `--option VALUE` is a file to
    test, if it exists. In `--option=VALUE` it is not.
    """
    from _pytest.config.findpaths import determine_setup

    option = config.option
    if hasattr(config, "workerinput") or not hasattr(option, "file_or_dir"):
        return  # the controller has checked, and names the rootdir; `pytest --help` runs no test
    how = {
        "inifile": option.inifilename,
        "override_ini": option.override_ini,
        "rootdir_cmd_arg": option.rootdir or None,
        "invocation_dir": config.invocation_params.dir,
    }
    how = {name: how[name] for name in signature(determine_setup).parameters if name in how}

    def setup(*more: str) -> tuple[Path, Path | None]:
        rootdir, file, *_ = determine_setup(args=[*option.file_or_dir, *more], **how)
        return rootdir, file

    expected = setup()
    if expected == (config.rootpath, config.inipath):
        return
    pairs = [(flag, value) for flag, value in pairwise(_typed(config)) if flag.startswith("-") and "=" not in flag]
    if taken := [one for one in pairs if not one[1].startswith("-") and setup(one[1]) != expected]:
        written = " and ".join(f"{flag} {value}" for flag, value in taken)
        instead = " and ".join(f"{flag}={value}" for flag, value in taken)
        raise UsageError(
            f"pytest took the value in {written} for a file to test, so its rootdir is {config.rootpath} with "
            f"{config.inipath or 'no configuration'}, instead of {expected[0]} with {expected[1] or 'no configuration'}. "
            f"Write {instead}"
        )


def update_of(config: pytest.Config) -> Update:
    """Return which baselines the run writes. Raises `UsageError` for options that contradict each other."""
    given = [flag for flag in _UPDATES if config.getoption(flag)]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} contradict each other; give one of them.")
    if given and given[0] in _in_file(config) and given[0] not in _typed(config):
        raise UsageError(
            f"{given[0]} is in addopts of {config.inipath}, where every run would store what it judges. Take it out, and "
            "write it on the command line when baselines are to change."
        )
    return _UPDATES[given[0]] if given else Update.NOTHING


def _in_file(config: pytest.Config) -> list[str]:
    """Return the words in `addopts` of pytest's configuration file, which is part of what is tested."""
    return [str(word) for word in config.getini("addopts")]


def _typed(config: pytest.Config) -> list[str]:
    """Return the words that whoever started pytest wrote."""
    return [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *map(str, config.invocation_params.args)]


def leaves_out_by_file(config: pytest.Config) -> bool:
    """Whether the configuration file deselects or ignores tests."""
    return any(map(_LEAVING_OUT.match, _in_file(config)))


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


def is_in_ci() -> bool:
    """Whether this is a job of CI, by the variables that pytest looks at: what is in a temporary directory ends with it."""
    return any(os.environ.get(name) for name in ("CI", "BUILD_NUMBER"))


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
    """Whether pytest was called to print something, such as its help, and not to run tests; a file's `addopts` are no call."""
    if not any(getattr(config.option, name, None) for name in _WITHOUT_TESTS):
        return False
    is_in_file, is_typed = (
        any(word.partition("=")[0] in _PRINTING for word in words(config)) for words in (_in_file, _typed)
    )
    return is_typed or not is_in_file


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
