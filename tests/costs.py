"""Costs: how much CPU time the modules of the tests take, with all processes that they start.

    pytest -p tests.costs [--costs=FILE] [any other options]

A table of the dearest modules is printed; FILE gets a line of JSON for each test: name, seconds. CPU time is used, since the
time on the clock depends on what else a machine does.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

#: Rows of the table.
_SHOWN = 40

_last = 0.0
_of_tests: dict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FILE", type=Path, help="Write the CPU seconds of every test to FILE.")


def _cpu_s() -> float:
    """Return the CPU time of this process, of all that it waited for, and of those that still run."""
    return sum(os.times()[:4]) + _of_children_s(os.getpid())


def _of_children_s(pid: int) -> float:
    seconds = 0.0
    with suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        for child in (int(word) for task in tasks for word in task.read_text().split()):
            with suppress(OSError):
                # After the name, which may have blanks: fields 14 to 17 are its time and that of those it waited for.
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
                seconds += _of_children_s(child)
    return seconds


def pytest_collection_finish() -> None:
    """Count from here on: what a worker needs to collect belongs to no test."""
    global _last
    _last = _cpu_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give a phase of a test what was used since the last one; xdist brings it to the first process."""
    global _last
    report = yield
    before, _last = _last, _cpu_s()
    report.cpu_s = _last - before  # type: ignore[attr-defined]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _of_tests[report.nodeid] += getattr(report, "cpu_s", 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    of_modules: dict[str, list[float]] = defaultdict(list)
    for name, seconds in _of_tests.items():
        of_modules[name.partition("::")[0]].append(seconds)
    ordered = sorted(of_modules.items(), key=lambda one: -sum(one[1]))
    terminalreporter.section("CPU seconds of the modules")
    for module, costs in ordered[:_SHOWN]:
        terminalreporter.write_line(f"{sum(costs):8.1f} {len(costs):5} {module}")
    total = sum(_of_tests.values())
    terminalreporter.write_line(f"{total:8.1f} {len(_of_tests):5} all {len(of_modules)} modules")
    if path := config.getoption("--costs"):
        lines = (json.dumps([name, round(cost, 4)], ensure_ascii=False) for name, cost in _of_tests.items())
        path.write_text("".join(f"{line}\n" for line in lines))
