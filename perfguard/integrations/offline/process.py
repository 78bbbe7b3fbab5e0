"""The process of an analyser: started on a copy, and ended with its pool. What it wrote decides whether it succeeded."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from perfguard.capture.interpreter import Interpreter
from perfguard.integrations.offline.analyser import CHILD, TITLES, release
from perfguard.integrations.offline.collected import RESULTS, WORK_DIRECTORY, Analysed, Collected
from perfguard.integrations.offline.copies import add_missing_info, compared, copy_recording, take_over
from perfguard.integrations.offline.options import AnalysisOptions

#: What MindSpore and torch_npu print and log: `[ERROR] ME(...):time [file:line] text`, `[time] [ERROR] [pid] file: text`,
#: `[time] [ERROR] [file:line] text`.
_ERROR = re.compile(
    r"^(?:\[[^\]]*\] )?\[(?:ERROR|CRITICAL)\](?: ME\([^)]*\):\S+)?(?: \[[^\]]*\])?\s*(?:profiler\.py: )?(.*)"
)
_WRAPPING = re.compile(
    r"(?:Call to \w+ failed\. Exception|offline analysis failed): |\[\w+Exception\] code: \d+, msg: (?:Path error\. )?"
)


@dataclass(frozen=True, slots=True)
class Running:
    """An analysis under way."""

    recording: Collected
    version: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    copy: Path
    #: A file in the copy that only the analyser needs.
    made: Path | None
    deadline: float

    def end(self) -> None:
        """End the process and the pool it may have left behind."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Delete its copy."""
        self.output.close()
        _discard(self.recording)


def start(recording: Collected, interpreter: Interpreter, options: AnalysisOptions) -> Running:
    """Start the analyser of a recording. Raises `OSError` if no copy can be made."""
    folder = recording.place / WORK_DIRECTORY
    version = interpreter.packages[recording.framework]
    # Fails if another analysis has begun since.
    folder.mkdir(mode=0o700)
    copy = folder / recording.place.name
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
    try:
        copy_recording(recording.place, copy)
        made = add_missing_info(recording, copy, version)
        request = json.dumps(_request(recording, copy, version, options))
        # Errors must come to stderr, whatever this user's log settings are.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GLOG_")}
        process = subprocess.Popen(
            [interpreter.path, "-c", CHILD, request],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, "GLOG_v": "2", "GLOG_logtostderr": "1"},
            cwd=folder,
            start_new_session=True,
        )
    except BaseException:
        output.close()
        _discard(recording)
        raise
    limit = float("inf") if options.timeout_s is None else options.timeout_s
    return Running(recording, version, process, output, copy, made, time.monotonic() + limit)


def _request(recording: Collected, copy: Path, version: str, options: AnalysisOptions) -> dict[str, Any]:
    """Return the request for `CHILD`. Before 2.5 an analyser takes the directory above profiler/."""
    first, last = options.steps or (1, 0)
    return {
        "framework": recording.framework,
        "release": list(release(version)),
        "path": str(copy.parent if recording.layout in ("ms-2.1", "ms-2.3") else copy),
        "scratch": str(copy.parent / "scratch"),
        "on_device": recording.layout != "ms-2.5+cpu",
        "options": {
            "pretty": options.pretty,
            "step_list": list(range(first, last + 1)) or None,
            "data_simplification": not options.keep_raw,
        },
    }


def _discard(recording: Collected) -> None:
    # If something cannot be removed, the next analysis reports it.
    shutil.rmtree(recording.place / WORK_DIRECTORY, ignore_errors=True)


# -- after it ran ------------------------------------------------------------------------------------------------------


def result_of(one: Running, options: AnalysisOptions, *, is_late: bool) -> Analysed:
    """Decide whether an analysis that has ended succeeded, and move what it wrote into the recording."""
    recording = one.recording
    if is_late:
        return recording.failed(
            f"its analysis did not end in {options.timeout_s:g} s and was stopped; nothing was changed"
        )
    by = f"{TITLES[recording.framework]} {one.version}"
    errors = [
        line.replace(str(one.copy), str(recording.shown)).replace(str(one.copy.parent), str(recording.shown.parent))
        for line in _errors(one)
    ]
    if problem := _problem(one, errors, options):
        return recording.failed(f"{by}: {problem}; nothing of the recording was changed")
    again = compared(recording.place, one.copy)
    try:
        take_over(recording, one.copy, one.made, keeps_raw=options.keep_raw or bool(errors))
    except OSError as error:
        return recording.failed(
            f"the result of {by} cannot be moved into it: {error.strerror or error}; its raw data is complete"
        )
    how = f" in part: {errors[0]} (its raw data is kept)" if errors else again
    sentence = f"{recording.shown} is analysed by {by}{how}"
    return Analysed(place=recording.shown, sentence=sentence, done=True, doubtful=bool(errors))


def _errors(one: Running) -> list[str]:
    """Return the errors of the analyser: on its standard streams, and in the logs it wrote."""
    one.output.seek(0)
    lines = one.output.read().decode("utf-8", "replace").splitlines()
    for log in sorted((one.copy / "logs").glob("*.log")):
        lines += log.read_text(encoding="utf-8", errors="replace").splitlines()
    found = [_WRAPPING.sub("", match[1]).strip() for line in lines if (match := _ERROR.match(line))]
    if not found and one.process.returncode:
        # The last line of a traceback, or of anything else.
        found = [line.strip() for line in lines if line.strip()][-1:]
    return list(dict.fromkeys(filter(None, found)))


def _problem(one: Running, errors: list[str], options: AnalysisOptions) -> str:
    """Return why the analyser's output is not a result; empty if it is one."""
    first = errors[0].rstrip(".") if errors else ""
    status = one.process.returncode
    if status < 0:
        return f"the analyser was ended by {signal.Signals(-status).name}" + (f": {first}" if first else "")
    if status:
        return first or f"the analyser ended with status {status} and no message"
    results = _results(one)
    if not results:
        return first or (
            f"the analyser wrote nothing into {RESULTS}/ and reported no error (one of its processes may have been killed, "
            "or nothing it knows was recorded)"
        )
    for path in results:
        if path.suffix == ".json" and not _is_complete(path, thoroughly=bool(errors)):
            return f"{path.name} is cut short" + (f" ({first})" if first else " (the disk may be full)")
    if options.steps is not None and one.recording.layout == "ms-2.3":
        return _steps_missing(one.copy, options.steps, options.steps_text)
    return ""


def _results(one: Running) -> list[Path]:
    """Return the files that an analysis must write: a trace, or a database if that was requested."""
    places = [one.copy / RESULTS, *one.copy.glob(f"rank-*_ascend_ms/{RESULTS}")]
    if one.recording.layout == "ms-2.1":
        places = [one.copy]
    names = ("trace_view.json", "*.db", "ascend_timeline_display_*.json")
    return [path for place in places for name in names for path in sorted(place.glob(name)) if path.stat().st_size]


def _is_complete(path: Path, *, thoroughly: bool) -> bool:
    """Whether a JSON file was written to its end; it is parsed only if the analyser reported an error."""
    if not thoroughly:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 64))
            return file.read().rstrip().endswith((b"]", b"}"))
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True


def _steps_missing(copy: Path, steps: tuple[int, int], text: str) -> str:
    """Return which steps the result has if it lacks requested ones: 2.3 and 2.4 write an empty result without an error."""
    there: set[int] = set()
    for path in copy.glob("step_trace_raw_*_detail_time.csv"):
        rows = path.read_text(encoding="utf-8", errors="replace").splitlines()[1:]
        there |= {int(row.split(",")[0]) for row in rows if row.split(",")[0].isdigit()}
    if not there:
        return f"{text}: the result has no step (only graph mode records steps); analyse it without --steps"
    if not set(range(steps[0], steps[1] + 1)) <= there:
        return f"{text} is outside the recording, which holds the steps {min(there)} to {max(there)}"
    return ""
