"""Runs pytest in many directories, each in a process of its own that is forked from one with perfguard imported.

`python forks.py RUNS`: RUNS is a JSON file of `[directory, arguments]`. Standard output and error of each run become the files
`out` and `err` of its directory; their statuses are printed as JSON.
"""

import importlib
import json
import os
import sys

import pytest


def run(directory: str, arguments: list[str]) -> int:
    """Return what the system knows of a run of pytest."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.chdir(directory)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
    sys.argv[:] = ["pytest", *arguments]
    sys.exit(pytest.main(arguments))


if __name__ == "__main__":
    for module in ("capture.environment", "capture.replay", "plugin.session", "reports.document", "reports.terminal"):
        importlib.import_module(f"perfguard.{module}")
    with open(sys.argv[1], encoding="utf-8") as runs:
        statuses = [run(directory, arguments) for directory, arguments in json.load(runs)]
    print(json.dumps(statuses))
