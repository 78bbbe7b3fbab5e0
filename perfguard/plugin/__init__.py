"""The pytest plugin's entry: options, the marker and the fixture. Everything else is imported when it is needed.

pytest imports this module in every run of every project that has perfguard installed, and rewrites the assertions of each
module a plugin imports early; so nothing but pytest is imported here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator

    from perfguard.guard import Guard

#: Options that name a file to write: what they put before it makes FORMAT:FILE of it, and what they are for.
_FILES = {
    "--perfguard-out": (
        "",
        "Write a report in any installed format, such as sarif:findings.sarif. May be repeated.",
    ),
    "--perfguard-report": ("json:", "Write everything measured and judged to a JSON file."),
    "--perfguard-html": ("html:", "Write a page that holds everything (pip install 'perfguard[html]')."),
    "--perfguard-markdown": ("markdown:", "Write a summary in Markdown, for a pull request or a job's page."),
    "--perfguard-metrics": ("metrics:", "Write the numbers as OpenMetrics, as GitLab's metrics reports are."),
}
_NEEDS_GATE = {
    "perfguard_time": "--perfguard-time",
    "perfguard_runs": "--perfguard-runs",
    "perfguard_reason": "--perfguard-reason",
    "perfguard_recordings": "--perfguard-recordings",
    "perfguard_baselines": "--perfguard-baselines",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("perfguard", "performance gate (perfguard)")
    group.addoption("--perfguard", action="store_true", help="Measure, profile and judge tests that use perfguard.")
    group.addoption(
        "--perfguard-update",
        action="store_true",
        help="Like --perfguard, but write baselines: create missing ones, rewrite what changed beyond noise.",
    )
    group.addoption(
        "--perfguard-update-new-only",
        action="store_true",
        help="Like --perfguard, and create baselines that are missing; existing ones are judged.",
    )
    group.addoption(
        "--perfguard-ratchet",
        action="store_true",
        help="Like --perfguard, and write into existing baselines what got better beyond its tolerance; never anything worse.",
    )
    group.addoption(
        "--perfguard-reason",
        metavar="TEXT",
        help="Why baselines change; kept in every file that is written. Without it an update refuses what is slower, takes "
        "more memory or more calls.",
    )
    group.addoption(
        "--perfguard-time",
        choices=("on", "off"),
        help="off: judge exact metrics only, and skip the timed steps. Needed under pytest-xdist.",
    )
    group.addoption(
        "--perfguard-runs",
        metavar="N",
        type=int,
        help="How many processes of their own a baseline's times are measured in (default: 5; 0: none).",
    )
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
    group.addoption("--perfguard-baselines", metavar="DIR", help="Where the baselines lie (default: baselines).")
    group.addoption(
        "--perfguard-recordings", metavar="DIR", help="Keep the recordings here (default: pytest's own tmp)."
    )


def _requested(flag: str, form: str, file: str) -> tuple[str, str]:
    """Return the option, and FORMAT:FILE."""
    return flag, form + file


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and start the gate where it was asked for."""
    config.addinivalue_line(
        "markers",
        "perfguard(window=, backend=, timed_steps=, threads=, tolerance=, ignore=, isolated=): how perfguard measures a test.",
    )
    option = config.option
    if _is_asked(option):
        from perfguard.plugin.session import start

        start(config)
        return
    flags = [flag for name, flag in _NEEDS_GATE.items() if getattr(option, name) is not None]
    for flag in (*(flag for flag, _ in option.perfguard_out), *flags):
        raise pytest.UsageError(f"{flag} does nothing without --perfguard; run: pytest --perfguard {flag} ...")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Let no `sys.exit(0)` in a conftest.py end a run that was asked for the gate."""
    try:
        return (yield)
    except SystemExit as error:
        if _is_asked(early_config.known_args_namespace):
            from perfguard.plugin.session import kept_status

            error.code = kept_status(early_config, error.code)
        raise


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Keep the status of a red gate, whatever a hook made of it: this is the last that pytest calls.

    Only a wrapper of this same hook in a conftest.py that says `tryfirst` comes later, and could return another.
    """
    if not _is_asked(config.option):
        return (yield)
    from perfguard.plugin.session import kept_status

    try:
        return kept_status(config, (yield))
    except SystemExit as error:
        error.code = kept_status(config, error.code)
        raise


def _is_asked(option: argparse.Namespace) -> bool:
    updates = option.perfguard_update or option.perfguard_update_new_only or option.perfguard_ratchet
    return bool(option.perfguard or updates)


@pytest.fixture
def perfguard(request: pytest.FixtureRequest) -> Guard:
    """Measure, profile and judge one workload: `perfguard(step)`, or `for batch in perfguard.steps(loader)`.

    Without --perfguard the step runs once, as in any other test.
    """
    if (session := request.config.pluginmanager.get_plugin("perfguard-session")) is not None:
        guard: Guard = session.guard(request)
        return guard
    from perfguard.plugin.plain import PlainGuard

    return PlainGuard(request.node)
