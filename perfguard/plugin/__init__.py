"""The entry of the pytest plugin: options, the marker and the fixture.

Nothing but pytest is imported here: every run of every project with perfguard installed imports this module.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator

    from perfguard.guard import Guard

_SWITCHES = {
    "--perfguard": "Measure, profile and judge tests that use perfguard.",
    "--perfguard-update": "Like --perfguard, and write baselines: create missing ones, rewrite what changed beyond noise.",
    "--perfguard-update-new-only": "Like --perfguard, and create missing baselines; existing ones are judged.",
    "--perfguard-ratchet": (
        "Like --perfguard, and store in existing baselines what got better beyond its tolerance; never anything worse."
    ),
}
#: Options with a value, each None without it.
_VALUES: dict[str, dict[str, Any]] = {
    "--perfguard-time": {
        "choices": ("on", "off"),
        "help": "Whether times are judged; off also skips the timed steps, and is needed under pytest-xdist.",
    },
    "--perfguard-runs": {
        "metavar": "N",
        "type": int,
        "help": "Number of processes that measure a baseline's times (default: 5; 0: none, and baselines that have them are "
        "not compared).",
    },
    "--perfguard-reason": {
        "metavar": "TEXT",
        "help": "Why baselines change; stored in them. Without it an update refuses what is slower, or uses more memory "
        "or more calls.",
    },
    "--perfguard-recordings": {
        "metavar": "DIR",
        "help": "Keep the recordings in this directory (default: pytest's temporary directory).",
    },
    "--perfguard-baselines": {"metavar": "DIR", "help": "Directory of the baselines (default: baselines)."},
}
#: Options that name a file to write: what they put before it makes FORMAT:FILE of it, and their help.
_FILES = {
    "--perfguard-out": ("", "Write a report in any installed format, such as sarif:findings.sarif. May be repeated."),
    "--perfguard-report": ("json:", "Write everything measured and judged to a JSON file."),
    "--perfguard-html": ("html:", "Write the page with everything (needs the extra html)."),
    "--perfguard-markdown": ("markdown:", "Write a summary in Markdown, for a pull request or a job's page."),
    "--perfguard-metrics": ("metrics:", "Write the numbers as OpenMetrics, for GitLab's metrics reports."),
}

#: How many tests had the fixture in a run without --perfguard.
_UNJUDGED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("perfguard", "performance gate (perfguard)")
    for flag, what in _SWITCHES.items():
        group.addoption(flag, action="store_true", help=what)
    for flag, how in _VALUES.items():
        group.addoption(flag, **how)
    for flag, (form, what) in _FILES.items():
        group.addoption(
            flag,
            dest="perfguard_out",
            action="append",
            default=[],
            type=partial(_requested, flag, form),
            metavar="FILE" if form else "FORMAT:FILE",
            help=what,
        )


def _requested(flag: str, form: str, file: str) -> tuple[str, str]:
    return flag, form + file


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and start the gate if an option requests it."""
    config.addinivalue_line(
        "markers",
        "perfguard(window=, backend=, timed_steps=, threads=, tolerance=, ignore=, changed=, target=, isolated=, period=): "
        "how perfguard measures and judges a test.",
    )
    if _is_requested(config.option):
        from perfguard.plugin.session import start

        start(config)
        return
    files = [flag for flag, _ in config.option.perfguard_out or ()]
    for flag in (*files, *(flag for flag in _VALUES if _value(config.option, flag) is not None)):
        raise pytest.UsageError(f"{flag} does nothing without --perfguard; run: pytest --perfguard {flag} ...")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Keep a `sys.exit(0)` in a conftest.py from ending a run with the gate as green."""
    try:
        return (yield)
    except SystemExit as error:
        if _is_requested(early_config.known_args_namespace):
            from perfguard.plugin.session import kept_status

            error.code = kept_status(early_config, error.code)
        raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Keep the status of a red gate, whatever a hook made of it: only another `tryfirst` wrapper of this hook comes later."""
    if not _is_requested(config.option):
        return (yield)
    from perfguard.plugin.session import kept_status

    try:
        return kept_status(config, (yield))
    except SystemExit as error:
        error.code = kept_status(config, error.code)
        raise


def _is_requested(option: argparse.Namespace) -> bool:
    return any(_value(option, flag) for flag in _SWITCHES)


def _value(option: argparse.Namespace, flag: str) -> Any:
    return getattr(option, flag.removeprefix("--").replace("-", "_"))


@pytest.fixture
def perfguard(request: pytest.FixtureRequest) -> Guard:
    """Measure, profile and judge one workload: `perfguard(step)`, or `for batch in perfguard.steps(loader)`.

    Without --perfguard the step runs once, as in any other test.
    """
    if (session := request.config.pluginmanager.get_plugin("perfguard-session")) is not None:
        guard: Guard = session.guard(request)
        return guard
    from perfguard.plugin.plain import PlainGuard

    request.config.stash[_UNJUDGED] = request.config.stash.get(_UNJUDGED, 0) + 1
    return PlainGuard(request.node)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say that nothing was judged, if a test uses perfguard; with pytest-xdist the tests are in other processes."""
    if terminalreporter.verbosity >= 0 and (tests := config.stash.get(_UNJUDGED, 0)):
        from perfguard.errors import counted

        ran = f"{counted(tests, 'test')} ran without the gate"
        terminalreporter.write_line(f"perfguard: {ran}, and nothing was judged; run: pytest --perfguard")
