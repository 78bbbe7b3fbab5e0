"""Runs pytest, each time in a process of its own that is forked from one with everything imported.

It imports pytest, its plugins and perfguard. A line of its input is the JSON of a run: `modules` that are to be imported as
well, `directory`, `arguments`, `environment`, and the files `out` and `err`. It answers with two lines: the process, and what
the system knows of its end. A run finds what `python -m pytest` finds: paths, arguments, files and threads of its own alone.
"""

import atexit
import gc
import importlib
import json
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

import pytest

RECORDINGS = Path(__file__).parent.parent / "data" / "recordings"


class Imports:
    """Imports while pytest's hook looks on, as it does in a run: it warns of a plugin that it has not seen imported."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.modules = modules

    def pytest_sessionstart(self) -> None:
        for module in self.modules:
            importlib.import_module(module)


def of_perfguard() -> Iterable[str]:
    """Return what a gate that judges recordings imports. None of these computes anything yet, so no thread holds a lock."""
    yield from ("hypothesis", "duckdb", "isal.igzip", "jsonschema", "jsonschema_rs", "numpy", "polars", "tabulate")
    yield from ("tomllib", "wcwidth")
    for name in ("capture.environment", "capture.replay", "plugin.session", "reports.document", "reports.terminal"):
        yield f"perfguard.{name}"
    for name in ("chunks", "decoder", "semicolon"):
        yield f"perfguard.artifacts.readers.{name}"


def make_database() -> None:
    """Make the tables, and prepare what a comparison asks of them: with all that, a small run takes two thirds of its time."""
    from perfguard.artifacts import database
    from perfguard.dialects.queries import all_definitions

    made = database.database()
    made.define(all_definitions())
    for rows in made.waiting.values():
        rows.prepare()
    # A process of its own finds out what that is: polars starts threads there, which no fork of this one would have.
    reads, writes = os.pipe()
    if not os.fork():
        take_database()
        for name in ("torch-mlp", "mindspore-graph"):
            compare(RECORDINGS / name)
        with open(writes, "w", encoding="utf-8") as file:
            json.dump(list(made._prepared), file)
        os._exit(0)
    os.close(writes)
    with open(reads, encoding="utf-8") as file:
        queries = json.load(file)
    os.wait()
    # At its second use a query is prepared.
    for query in [*queries, *queries]:
        made.prepared(query).fetchall()


def take_database() -> None:
    """Take over the database of the process that this one is forked from: it has no thread, and lies in memory."""
    from perfguard.artifacts import database

    database._OWN.database.process = os.getpid()


def compare(recording: Path) -> None:
    """Compare a recording with itself, as a command."""
    from perfguard.cli import cli

    with suppress(SystemExit):
        cli.main(["compare", str(recording), str(recording)])


def pytest_run(directory: str, arguments: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """Become a run of pytest."""
    take_database()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = directory
    sys.argv[:] = [pytest.__file__, *arguments]
    status = int(pytest.main())
    # What follows as Python ends, except that nothing is freed piece by piece: that takes a quarter of a small run.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def bring(modules: Iterable[str]) -> None:
    """Import modules as a run of pytest does."""
    with TemporaryDirectory() as empty:
        options = ["--collect-only", "-c", os.devnull, "--rootdir", empty, "-p", "no:cacheprovider"]
        pytest.main([*options, empty], plugins=[Imports(modules)])
    # What is left of it in a buffer, each fork would write again.
    sys.stdout.flush()
    gc.collect()
    gc.freeze()


def serve(asked: TextIO, answers: int) -> None:
    """Fork a process a line, from one that has its modules: this one has those of a gate."""
    others: dict[str, TextIO] = {}
    for line in asked:
        run = json.loads(line)
        modules = run.pop("modules")
        if modules:
            name = " ".join(modules)
            others[name] = others.get(name) or with_more(modules, answers)
            print(json.dumps({**run, "modules": []}), file=others[name], flush=True)
            continue
        process = os.fork()
        if not process:
            os.closerange(3, 256)
            pytest_run(**run)
        os.write(answers, f"{process}\n".encode())
        os.write(answers, f"{os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}\n".encode())


def with_more(modules: list[str], answers: int) -> TextIO:
    """Fork a process that has these modules too and serves; return where it is asked."""
    reads, writes = os.pipe()
    if not os.fork():
        # Each ends when nobody can ask it any more.
        for number in range(3, 256):
            if number not in (reads, answers):
                with suppress(OSError):
                    os.close(number)
        take_database()
        bring(modules)
        serve(os.fdopen(reads, encoding="utf-8"), answers)
        os._exit(0)
    os.close(reads)
    return os.fdopen(writes, "w", encoding="utf-8")


def main() -> None:
    """Import what a gate needs, and serve."""
    asked, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    bring([*of_perfguard(), "perfguard.dialects.queries"])
    make_database()
    serve(asked, answers)


if __name__ == "__main__":
    main()
