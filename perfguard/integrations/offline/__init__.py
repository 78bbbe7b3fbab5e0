"""Offline analysis: the profiler's own analyser, run on raw data by whichever Python has it.

An analyser works on a copy with hard links to the raw data. Its result moves into the recording once it is complete; a failure
changes nothing. The analysers log errors and return None, so what they wrote decides. Sources: the wheels mindspore 2.7.0,
2.8.0 and 2.10.0 (`profiler/profiler.py`, `platform/npu_profiler.py`, `common/path_manager.py`) and torch_npu 2.7.1
(`profiler/analysis/_profiling_parser.py`); the documents of MindSpore 2.2 to 2.4 (`Profiler.offline_analyse`,
`Profiler.analyse(offline_path)`), of which no wheel could be run.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

from perfguard.capture.environment import Interpreter, find_interpreter
from perfguard.errors import UsageError
from perfguard.integrations.offline.process import Running, result_of, start
from perfguard.integrations.offline.recordings import (
    Analysed,
    AnalysisOptions,
    Collected,
    find_collected,
    nothing_collected,
    refusals,
)


def analyse(directory: Path, options: AnalysisOptions) -> Generator[Analysed, None, None]:
    """Analyse every recording in a directory by its profiler's own analyser; yields each as it ends.

    Refusals come before anything runs or changes. Raises `UsageError` when nothing here can be analysed.
    """
    found, results = find_collected(directory)
    if not found and not results:
        raise UsageError(
            f"{directory} holds no profiler output of a layout that can be analysed (links to folders are not followed); "
            "name the directory a profiler wrote, or one above it. See: perfguard check --explain"
        )
    ready = []
    for recording in found:
        if reason := next(refusals(recording, options), ""):
            results.append(recording.refused(reason))
        elif reason := nothing_collected(recording):
            # Not a usage error: the recording is damaged.
            results.append(recording.failed(reason))
        else:
            ready.append(recording)
    if ready:
        interpreter = find_interpreter(_path_of(options.python))
        lacks = [(recording, recording.lack(interpreter)) for recording in ready]
        results += [recording.refused(reason) for recording, reason in lacks if reason]
        ready = [recording for recording, reason in lacks if not reason]
    if not ready and all(one.refused for one in results):
        more = f" (and {len(results) - 1} more recordings here are refused)" if len(results) > 1 else ""
        raise UsageError(results[0].sentence + more)
    yield from results
    if ready:
        yield from _analyse_all(ready, interpreter, options)


def _path_of(python: Path | None) -> str:
    """Return an absolute path: the analysis runs in another directory."""
    found = shutil.which(python or sys.executable)
    if found is None:
        raise UsageError(f"there is no Python {python}; name one with --python PATH.")
    return os.path.abspath(found)


def _analyse_all(ready: list[Collected], interpreter: Interpreter, options: AnalysisOptions) -> Iterator[Analysed]:
    """Run one process a recording, a limited number at a time; none is left running, whatever ends this."""
    jobs = options.jobs or max(1, (os.cpu_count() or 1) // 2)
    waiting, running = list(ready), list[Running]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                recording = waiting.pop(0)
                try:
                    running.append(start(recording, interpreter, options))
                except OSError as error:
                    yield recording.failed(
                        f"its copy cannot be made: {error.strerror or error}; nothing of it was changed"
                    )
            for one in list(running):
                is_late = one.process.poll() is None
                if is_late and time.monotonic() <= one.deadline:
                    continue
                one.end()
                try:
                    yield result_of(one, options, is_late=is_late)
                finally:
                    one.close()
                    running.remove(one)
            time.sleep(0.05)
    finally:
        for one in running:
            one.end()
            one.close()
