"""Offline analysis: the profiler's own analyser, run on raw data by whichever Python has it.

An analyser works on a copy with hard links to the raw data. Its result moves into the recording once it is complete; a failure
changes nothing. The analysers log errors and return None, so what they wrote decides. Sources: the wheels mindspore 2.7.0,
2.8.0 and 2.10.0 (`profiler/profiler.py`, `platform/npu_profiler.py`, `common/path_manager.py`) and torch_npu 2.7.1
(`profiler/analysis/_profiling_parser.py`); the documents of MindSpore 2.2 to 2.4 (`Profiler.offline_analyse`,
`Profiler.analyse(offline_path)`), of which no wheel could be run.
"""

from __future__ import annotations

import filecmp
import json
import mmap
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from perfguard import child, scratch
from perfguard.capture.environment import Interpreter, find_interpreter, release
from perfguard.errors import UsageError
from perfguard.inputs import Malformed, read_bytes
from perfguard.integrations.offline_recordings import (
    FRAMEWORK,
    RAW,
    RESULTS,
    TITLES,
    WORK_DIRECTORY,
    Analysed,
    AnalysisOptions,
    Collected,
    find_collected,
    nothing_collected,
    ranks_in,
    refusals,
)

#: Runs in a Python of another environment, with a request as JSON (`_request`).
CHILD = """
import inspect, json, sys
request = json.loads(sys.argv[1])
options = request["options"]
if request["framework"] == "torch_npu":
    from torch_npu.profiler.profiler import analyse
    analyse(request["path"], max_process_number=1)
elif request["release"] < [2, 3]:
    from mindspore import Profiler
    profiler = Profiler(output_path=request["scratch"], start_profile=False)
    profiler.analyse(offline_path=request["path"], pretty=options["pretty"])
else:
    import mindspore
    if request["on_device"] and mindspore.get_context("device_target") == "CPU":
        print("[ERROR] this MindSpore is built for the CPU: it skips what the framework recorded beside an Ascend device")
        sys.exit(1)
    try:
        from mindspore.profiler.profiler import analyse
        options["max_process_number"] = 1
    except ImportError:
        from mindspore import Profiler
        analyse = Profiler.offline_analyse
    known = inspect.signature(analyse).parameters
    if options["step_list"] and "step_list" not in known:
        print("[ERROR] the analyser of this MindSpore takes no steps")
        sys.exit(1)
    analyse(request["path"], **{name: value for name, value in options.items() if name in known})
"""
#: What MindSpore and torch_npu print and log: `[ERROR] ME(...):time [file:line] text`, `[time] [ERROR] [pid] file: text`,
#: `[time] [ERROR] [file:line] text`.
_ERROR = re.compile(
    r"^(?:\[[^\]]*\] )?\[(?:ERROR|CRITICAL)\](?: ME\([^)]*\):\S+)?(?: \[[^\]]*\])?\s*(?:profiler\.py: )?(.*)"
)
_WRAPPING = re.compile(
    r"(?:Call to \w+ failed\. Exception|offline analysis failed): |\[\w+Exception\] code: \d+, msg: (?:Path error\. )?"
)
#: The results of an analysis by 2.2 to 2.4; those of an earlier analysis would be taken for it.
_FLAT_RESULT = re.compile(r"ascend_timeline_display_\d+\.json|step_trace_raw_\d+_detail_time\.csv")


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
    found = shutil.which(python or child.python())
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


# -- the process of an analyser ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Running:
    """An analysis under way."""

    recording: Collected
    version: str
    process: child.Popen[bytes]
    output: IO[bytes]
    copy: Path
    folder: scratch.Folder
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
        # If something cannot be removed, the next analysis reports it.
        self.folder.remove()


def start(recording: Collected, interpreter: Interpreter, options: AnalysisOptions) -> Running:
    """Start the analyser of a recording. Raises `OSError` if no copy can be made."""
    folder = recording.place / WORK_DIRECTORY
    version = interpreter.packages[recording.framework]
    with scratch.abandoned(folder) as is_left:
        if is_left:
            scratch.remove_tree(folder)
    # Fails if another analysis has begun since.
    folder.mkdir(mode=0o700)
    own = scratch.Folder(folder)
    copy = folder / recording.place.name
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
    try:
        copy_recording(recording.place, copy)
        made = add_missing_info(recording, copy, version)
        request = json.dumps(_request(recording, copy, version, options))
        # Errors must come to stderr, whatever this user's log settings are.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GLOG_")}
        process = child.start(
            child.foreign_command(interpreter.path, CHILD, request),
            stdin=child.DEVNULL,
            stdout=output,
            stderr=child.STDOUT,
            env={**child.located(environment), "GLOG_v": "2", "GLOG_logtostderr": "1"},
            # Not beside the copy: a recording that is named json would be a module.
            cwd=tempfile.mkdtemp(dir=folder),
            start_new_session=True,
        )
    except BaseException:
        output.close()
        own.remove()
        raise
    deadline = time.monotonic() + (options.timeout_s or float("inf"))
    return Running(recording, version, process, output, copy, own, made, deadline)


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
        try:
            lines += read_bytes(log).decode("utf-8", "replace").splitlines()
        except (OSError, Malformed) as error:
            lines.append(f"[ERROR] {log.name} cannot be read: {error}")
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
            return f"{path.name} is cut short ({first or 'the disk may be full'})"
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
    import msgspec

    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True


def _steps_missing(copy: Path, steps: tuple[int, int], text: str) -> str:
    """Return which steps the result has if it lacks requested ones: 2.3 and 2.4 write an empty result without an error."""
    there: set[int] = set()
    for path in copy.glob("step_trace_raw_*_detail_time.csv"):
        try:
            rows = read_bytes(path)
        except (OSError, Malformed) as error:
            return f"{path.name} cannot be read: {error}"
        there |= set(map(int, re.findall(rb"^[0-9]{1,18}(?=,)", rows, re.MULTILINE)))
    if not there:
        return f"{text}: the result has no step (only graph mode records steps); analyse it without --steps"
    if not set(range(steps[0], steps[1] + 1)) <= there:
        return f"{text} is outside the recording, which holds the steps {min(there)} to {max(there)}"
    return ""


# -- the copy ----------------------------------------------------------------------------------------------------------


def copy_recording(place: Path, copy: Path) -> None:
    """Copy a recording without earlier results: raw data as hard links, which an analyser reads or deletes."""
    copy.mkdir()
    shutil.copystat(place, copy)
    without = shutil.ignore_patterns(RESULTS)
    for entry in sorted(place.iterdir()):
        if entry.name in (WORK_DIRECTORY, RESULTS, "logs") or _FLAT_RESULT.fullmatch(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            how = _linked if RAW.fullmatch(entry.name) else shutil.copy2
            shutil.copytree(entry, copy / entry.name, symlinks=True, ignore=without, copy_function=how)
        elif entry.is_symlink() or entry.is_file():
            shutil.copy2(entry, copy / entry.name, follow_symlinks=False)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # A file system without hard links.
        shutil.copy2(source, target)


def add_missing_info(recording: Collected, copy: Path, version: str) -> Path | None:
    """Write the profiler_info_<rank>.json that MindSpore's CPU profiler leaves out and its analyser needs.

    Ids must be strings. Source: MindSpore 2.7 to 2.10, `_pre_analyse_offline`: "Cannot find profiler_info.json in the ...".
    """
    if recording.layout != "ms-2.5+cpu" or any(copy.glob("profiler_info_*.json")):
        return None
    rank = ranks_in(copy / FRAMEWORK)[0]
    made = copy / f"profiler_info_{rank}.json"
    facts = {
        "profiler_parameters": {"is_set_schedule": False, "activities": ["CPU"]},
        "ms_profiler_info": {"rank_id": rank, "device_id": "0"},
        "ms_version": version,
        "jit_level": "",
    }
    # Not through the umask: the analyser refuses a file that others may write.
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(facts, file)
    return made


def compared(place: Path, copy: Path) -> str:
    """Return whether the result differs from an earlier one; empty if there is none."""
    old, new = (_files(root / RESULTS) for root in (place, copy))
    if not old:
        return ""
    same = old == new and all(filecmp.cmp(place / RESULTS / name, copy / RESULTS / name, shallow=False) for name in new)
    return " again, with the same result" if same else " again, with another result than before"


def take_over(recording: Collected, copy: Path, made: Path | None, *, keeps_raw: bool) -> None:
    """Move what is new in the copy into the recording, and delete there what the analyser deleted. Raises `OSError`."""
    place = recording.place
    kept = _files(copy)
    for name in kept:
        path, target = copy / name, place / name
        if path == made or _is_same(path, target):
            continue
        for folder in reversed(name.parents):
            if not (place / folder).is_dir():
                (place / folder).mkdir()
                shutil.copystat(copy / folder, place / folder)
        # In one move: a reader sees the old file or the new one.
        os.replace(path, target)
    # After everything has been moved. On a CPU the analyser adds to its results, on a device it begins with none.
    emptied = () if recording.layout == "ms-2.5+cpu" else (RESULTS,)
    for name in set(_files(place)) - set(kept):
        top = name.parts[0]
        if top in emptied or (RAW.fullmatch(top) and not keeps_raw):
            (place / name).unlink()
            _prune((place / name).parent, place)


def _is_same(path: Path, target: Path) -> bool:
    if path.is_symlink():
        return os.path.lexists(target)
    return target.is_file() and (path.samefile(target) or filecmp.cmp(path, target, shallow=False))


def _files(root: Path) -> list[Path]:
    """Return the files below, relative to it."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file() or path.is_symlink())
    return sorted(name for name in found if name.parts[0] != WORK_DIRECTORY)


def _prune(folder: Path, place: Path) -> None:
    """Remove folders that a deletion left empty."""
    while folder != place and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
