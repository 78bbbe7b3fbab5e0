"""Offline analysis: the profiler's own analyser, run over what was collected and never analysed, by whichever Python has it.

An analyser works on a copy, in which the raw data are hard links: what it made takes its place in the recording once it is
there and whole, and what fails changes nothing. The analysers log what goes wrong and return None, so success is read off
what they wrote. Sources: the wheels mindspore 2.7.0, 2.8.0 and 2.10.0 (`profiler/profiler.py`, `platform/npu_profiler.py`,
`common/path_manager.py`) and torch_npu 2.7.1 (`profiler/analysis/_profiling_parser.py`); the documents of MindSpore 2.2 to
2.4 (`Profiler.offline_analyse`, `Profiler.analyse(offline_path)`), of which no wheel could be run.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from perfguard.artifacts.survey import FoundCycle, survey
from perfguard.capture.replay import recordings_in
from perfguard.errors import UsageError
from perfguard.recording import PROFILER_DIRECTORY, RECORDING_FILE

#: Where the copy lies while an analyser works: in the recording, so that hard links and renames can reach it.
WORK_DIRECTORY = ".perfguard-analysis"
RESULTS = "ASCEND_PROFILER_OUTPUT"
FRAMEWORK = "FRAMEWORK"

_RAW = re.compile(r"FRAMEWORK|PROF_\d+_\d+_[0-9a-zA-Z]+")
#: By these an analysis of 2.2 to 2.4 is known; those of an earlier one would be taken for it.
_FLAT_RESULT = re.compile(r"ascend_timeline_display_\d+\.json|step_trace_raw_\d+_detail_time\.csv")
_RANK = re.compile(r"_(\d+)\.(?:txt|csv)")
#: What MindSpore and torch_npu print and log: `[ERROR] ME(...):time [file:line] text`, `[time] [ERROR] [pid] file: text`,
#: `[time] [ERROR] [file:line] text`.
_ERROR = re.compile(
    r"^(?:\[[^\]]*\] )?\[(?:ERROR|CRITICAL)\](?: ME\([^)]*\):\S+)?(?: \[[^\]]*\])?\s*(?:profiler\.py: )?(.*)"
)
_WRAPPING = re.compile(
    r"(?:Call to \w+ failed\. Exception|offline analysis failed): |\[\w+Exception\] code: \d+, msg: (?:Path error\. )?"
)
#: MindSpore's `FwkFixSizeFormat.OpRangeStruct`, behind a type and a length; the step is the third number.
_OP_RANGE, _OP_RANGE_HEAD = struct.Struct("<5Qi3Hb3?"), struct.Struct("<HI")

#: By layout: the framework, the first and the last release (exclusive) that analyse it.
_ANALYSERS: Mapping[str, tuple[str, tuple[int, int], tuple[int, int]]] = {
    "ms-2.5+cpu": ("mindspore", (2, 5), (99, 0)),
    "ms-2.5+": ("mindspore", (2, 5), (99, 0)),
    "ms-2.3": ("mindspore", (2, 3), (2, 5)),
    "ms-2.1": ("mindspore", (2, 2), (2, 3)),
    "pt-npu": ("torch_npu", (0, 0), (99, 0)),
}
_TITLES = {"mindspore": "MindSpore", "torch_npu": "torch_npu"}
_NONE = {
    "pt-torch": "torch.profiler writes its traces whole: they need no analysis; judge them with: perfguard check {place}",
    "ms-2.0": "MindSpore 2.0 has no offline analysis (2.2 and later have); record it again and call Profiler.analyse()",
    "ms-1.x": "MindSpore 1.x has no offline analysis (2.2 and later have); record it again and call Profiler.analyse()",
}

_PROBE = """
import json, sys
from importlib.metadata import distributions
found = {}
for one in distributions():  # in the order of imports: the first counts
    found.setdefault((one.metadata["Name"] or "").lower().replace("-", "_"), one.version)
print(json.dumps({"packages": {name: found[name] for name in ("mindspore", "torch_npu") if name in found}}))
"""
_CHILD = """
import inspect, json, sys
told = json.loads(sys.argv[1])
wanted = told["options"]
if told["framework"] == "torch_npu":
    from torch_npu.profiler.profiler import analyse
    analyse(told["path"], max_process_number=1)
elif told["release"] < [2, 3]:
    from mindspore import Profiler
    Profiler(output_path=told["scratch"], start_profile=False).analyse(offline_path=told["path"], pretty=wanted["pretty"])
else:
    import mindspore
    if told["on_device"] and mindspore.get_context("device_target") == "CPU":
        print("[ERROR] this MindSpore is built for the CPU: it skips what the framework recorded beside an Ascend device")
        sys.exit(1)
    try:
        from mindspore.profiler.profiler import analyse
        wanted["max_process_number"] = 1
    except ImportError:
        from mindspore import Profiler
        analyse = Profiler.offline_analyse
    known = inspect.signature(analyse).parameters
    if wanted["step_list"] and "step_list" not in known:
        print("[ERROR] the analyser of this MindSpore takes no steps")
        sys.exit(1)
    analyse(told["path"], **{name: value for name, value in wanted.items() if name in known})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisOptions:
    """How to analyse. `steps` are the first and the last, both included, 1 being the first recorded."""

    steps: tuple[int, int] | None = None
    pretty: bool = False
    keep_raw: bool = False
    jobs: int | None = None
    python: Path | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs {self.jobs} is no number of analyses at a time; it must be at least 1.")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"--timeout {self.timeout_s:g} is no time; it must be above 0 seconds.")
        if self.steps is not None and not 1 <= self.steps[0] <= self.steps[1]:
            first, last = self.steps
            raise UsageError(f"--steps {first}:{last} is no range; the first step is 1, and STOP is not before START.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """What came of one recording: `said` in one line. `done` where there is a result, `refused` where nothing was tried."""

    place: Path
    said: str
    done: bool = False
    refused: bool = False
    #: The analyser told an error, and wrote something nevertheless.
    doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One recording to be analysed: its real place, how it is called to the user, and by what."""

    place: Path
    shown: Path
    layout: str
    framework: str


@dataclass(frozen=True, slots=True)
class _Running:
    work: _Work
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    #: The copy that is analysed, and the file in it that only the analyser is shown.
    copy: Path
    made: Path | None
    deadline: float


def analyse(directory: Path, options: AnalysisOptions) -> Generator[Analysed, None, None]:
    """Analyse every recording in a directory by its profiler's own analyser; yields each as it ends.

    What must be refused is refused before anything runs or changes. Raises `UsageError` when nothing here can be analysed.
    """
    works, told = _works(directory)
    if not works and not told:
        raise UsageError(
            f"{directory} holds no profiler output of a layout that can be analysed (links to folders are not followed); "
            "name the directory a profiler wrote, or one above it. See: perfguard check --explain"
        )
    ready = []
    for work in works:
        if refusal := _refusal(work, options):
            told.append(_not(work, refusal))
        elif lack := _nothing_collected(work):
            # No wrong call: the recording is what is wrong.
            told.append(_failed(work, lack))
        else:
            ready.append(work)
    python = _python(options.python) if ready else ""
    packages = _packages(python) if ready else {}
    told += [_not(work, refusal) for work in ready if (refusal := _unfit(work, python, packages))]
    ready = [work for work in ready if not _unfit(work, python, packages)]
    if not ready and all(one.refused for one in told):
        raise UsageError(_several([one.said for one in told]))
    yield from told
    yield from _analyse_all(ready, python, packages, options)


def _several(said: list[str]) -> str:
    return said[0] if len(said) == 1 else f"{said[0]} (and {len(said) - 1} more recordings here are refused)"


def _not(work: _Work, reason: str) -> Analysed:
    return Analysed(place=work.shown, said=f"{work.shown} is not analysed: {reason}", refused=True)


# -- before anything runs ----------------------------------------------------------------------------------------------


def _works(directory: Path) -> tuple[list[_Work], list[Analysed]]:
    """Find what can be analysed; of what cannot, say why. Raises `UsageError` when it is no directory."""
    works: dict[Path, _Work] = {}
    told: dict[Path, Analysed] = {}
    for one in recordings_in(directory):
        inside = one / PROFILER_DIRECTORY
        root = inside if os.path.lexists(one / RECORDING_FILE) and inside.is_dir() else one
        for cycle in survey(root).cycles:
            place = Path(os.path.realpath(cycle.place))
            if cycle.layout.id in _ANALYSERS:
                works.setdefault(place, _work(place, cycle))
            elif cycle.layout.id in _NONE:
                # A torch trace is a file of its own: those of one directory are told of once.
                key = cycle.place.parent if cycle.layout.id == "pt-torch" else cycle.place
                reason = _NONE[cycle.layout.id].format(place=key)
                told.setdefault(key, Analysed(place=key, said=f"{key} is not analysed: {reason}", refused=True))
    return list(works.values()), list(told.values())


def _work(place: Path, cycle: FoundCycle) -> _Work:
    return _Work(place=place, shown=cycle.place, layout=cycle.layout.id, framework=_ANALYSERS[cycle.layout.id][0])


def _refusal(work: _Work, options: AnalysisOptions) -> str:
    """Say why a recording must not be analysed, or not so; empty where nothing speaks against it."""
    place = work.place
    for name in (FRAMEWORK, RESULTS, "logs"):
        if (place / name).is_symlink():
            return f"{name} is a link, and analysers read none; put what it points to in its place"
    if linked := next((path for path in sorted((place / FRAMEWORK).glob("*")) if path.is_symlink()), None):
        return f"{FRAMEWORK}/{linked.name} is a link, and analysers read none; put what it points to in its place"
    if _is_simplified(work):
        named = " (its profiler_info says so)" if 'data_simplification": true' in _info(place) else ""
        return (
            f"it was analysed with data simplification before{named}, and {FRAMEWORK}/ is gone: a second analysis would "
            "lose the framework's side of what is there; record it again, and analyse it with --keep-raw"
        )
    if work.layout in ("ms-2.1", "ms-2.3") and place.name != "profiler":
        return f"MindSpore before 2.5 looks for a directory of the name profiler; rename {place.name} to it"
    if options.pretty and work.layout in ("ms-2.5+", "ms-2.5+cpu"):
        return "MindSpore since 2.5 takes --pretty and does nothing with it; leave it out"
    if options.pretty and work.framework == "torch_npu":
        return "torch_npu's analyser knows no --pretty; leave it out"
    if options.steps is not None and (why := _steps_refused(work, options.steps)):
        return why
    if not os.access(place, os.W_OK | os.X_OK):
        return "it may not be written to; mend its permissions, or copy it to where you may write"
    if os.path.lexists(place / WORK_DIRECTORY):
        return (
            f"another analysis of it is running, or was killed; if none is, delete {work.shown / WORK_DIRECTORY} "
            "(it holds copies only)"
        )
    return ""


def _has_device_data(place: Path) -> bool:
    return any(_RAW.fullmatch(path.name) for path in place.glob("PROF_*"))


def _is_simplified(work: _Work) -> bool:
    """Whether a second analysis would lose what the first one shows: the trap that MindSpore documents.

    2.3, 2.4 and older torch_npu delete FRAMEWORK/ when they simplify; MindSpore 2.7 to 2.10 only what they can make again.
    """
    if _holds_a_file(work.place / FRAMEWORK):
        return False
    results = [work.place / RESULTS, *work.place.glob(f"rank-*_ascend_ms/{RESULTS}")]
    if not any(_holds_a_file(one) for one in results):
        return False
    return _recorded_the_framework(_info(work.place)) or not _has_device_data(work.place)


def _nothing_collected(work: _Work) -> str:
    """Say why there is nothing to analyse; empty where there is."""
    if not _holds_a_file(work.place / FRAMEWORK) and not _has_device_data(work.place):
        return (
            f"nothing was collected, {FRAMEWORK}/ is empty or missing (a profiler writes when it stops; one that is killed "
            "writes nothing); record it again"
        )
    if work.layout == "ms-2.5+cpu" and not _info(work.place) and len(ranks := _ranks_in(work.place / FRAMEWORK)) != 1:
        found = f"the files of ranks {', '.join(ranks)}" if ranks else "no file that names its rank"
        return f"{FRAMEWORK}/ holds {found}; MindSpore analyses one rank in a directory: record each rank in its own"
    return ""


def _holds_a_file(directory: Path) -> bool:
    return any(path.is_file() for path in directory.rglob("*"))


def _info(place: Path) -> str:
    """Return the text of profiler_info_<rank>.json; empty where there is none that can be read."""
    for path in sorted([*place.glob("profiler_info*.json"), *place.glob("rank-*_ascend_ms/profiler_info*.json")]):
        # What cannot be read is the analyser's to tell, and check's to judge.
        with suppress(OSError):
            return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _recorded_the_framework(info: str) -> bool:
    """Whether the host's side was asked for; where nobody says, it was, as that is the default."""
    found = re.search(r'"activities":\s*\[([^\]]*)\]', info)
    return found is None or "CPU" in found[1]


def _ranks_in(framework: Path) -> list[str]:
    return sorted({found[1] for path in framework.glob("cpu_*") if (found := _RANK.search(path.name))}, key=int)


def _steps_refused(work: _Work, steps: tuple[int, int]) -> str:
    asked = f"--steps {steps[0]}:{steps[1]}"
    if work.layout == "ms-2.5+cpu":
        return (
            f"{asked}: MindSpore slices by step only what an Ascend device recorded, and ignores it here; leave it out"
        )
    if work.framework == "torch_npu":
        return f"{asked}: torch_npu's analyser knows no steps; leave it out"
    if work.layout == "ms-2.1":
        return f"{asked}: MindSpore 2.2 analyses all steps (2.3 and later know a list); leave it out"
    if work.layout == "ms-2.5+":
        count = _recorded_steps(work.place / FRAMEWORK / "mindspore.op_range")
        if not count:
            return (
                f"{asked}: {FRAMEWORK}/mindspore.op_range tells no steps, so all of it has to be analysed; leave it out"
            )
        if steps[1] > count:
            return f"{asked} is outside the recording, which holds the steps 1 to {count}"
    # What 2.3 and 2.4 recorded shows its steps only when it is analysed.
    return ""


def _recorded_steps(op_range: Path) -> int:
    """Return how many steps the framework's raw records span; 0 where they tell none, or are something else."""
    try:
        content = op_range.read_bytes()
    except OSError:
        return 0
    steps, at = set(), 0
    while at + _OP_RANGE_HEAD.size + _OP_RANGE.size <= len(content):
        _, length = _OP_RANGE_HEAD.unpack_from(content, at)
        at += _OP_RANGE_HEAD.size
        if length < _OP_RANGE.size or at + length > len(content):
            break
        steps.add(_OP_RANGE.unpack_from(content, at)[2])
        at += length
    return max(steps) - min(steps) + 1 if steps else 0


def _python(given: Path | None) -> str:
    """Return an absolute path: the analysis runs in another directory."""
    name = sys.executable if given is None else str(given)
    if (found := shutil.which(name)) is None:
        raise UsageError(f"there is no Python {name}; name one with --python PATH.")
    return os.path.abspath(found)


def _packages(python: str) -> dict[str, str]:
    """Return the versions of the frameworks a Python has, without importing any."""
    try:
        asked = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False)
        found: dict[str, str] = json.loads(asked.stdout)["packages"]
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError) as error:
        raise UsageError(f"{python} is no Python that works ({error}); name one with --python PATH.") from error
    return found


def _release(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _unfit(work: _Work, python: str, packages: Mapping[str, str]) -> str:
    """Say why the Python that was chosen cannot analyse it."""
    framework, first, end = _ANALYSERS[work.layout]
    title = _TITLES[framework]
    span = "" if not first[0] else f" {first[0]}.{first[1]}" + (" or later" if end[0] == 99 else "")
    if end == (2, 5):
        span = " 2.3 or 2.4"
    if framework not in packages:
        return f"{title}{span} analyses it, and {python} has no {title}; name a Python that has with --python PATH"
    if not first <= _release(packages[framework]) < end:
        return (
            f"{title}{span} analyses it, and {python} has {title} {packages[framework]}; "
            "name a Python that has with --python PATH"
        )
    return ""


# -- the analysis ------------------------------------------------------------------------------------------------------


def _analyse_all(
    works: list[_Work], python: str, packages: Mapping[str, str], options: AnalysisOptions
) -> Iterator[Analysed]:
    """Run one process a recording, so many at a time; none is left running, whatever ends this."""
    jobs = options.jobs or max(1, (os.cpu_count() or 1) // 2)
    waiting, running = list(works), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                work = waiting.pop(0)
                try:
                    running.append(_start(work, python, packages[work.framework], options))
                except OSError as error:
                    yield _failed(
                        work, f"its copy cannot be made: {error.strerror or error}; nothing of it was changed"
                    )
            for one in list(running):
                is_over = one.process.poll() is not None
                is_late = not is_over and time.monotonic() > one.deadline
                if not is_over and not is_late:
                    continue
                _end(one.process)
                try:
                    yield _ended(one, packages[one.work.framework], options, is_late=is_late)
                finally:
                    one.output.close()
                    _discard(one.work)
                    running.remove(one)
            time.sleep(0.05)
    finally:
        for one in running:
            _end(one.process)
            one.output.close()
            _discard(one.work)


def _start(work: _Work, python: str, version: str, options: AnalysisOptions) -> _Running:
    folder = work.place / WORK_DIRECTORY
    # Fails where another analysis has begun since.
    folder.mkdir(mode=0o700)
    copy = folder / work.place.name
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
    try:
        _copy(work.place, copy)
        made = _missing_info(work, copy, version)
        told = json.dumps(_told(work, copy, version, options))
        # Errors have to come to stderr, whatever this user's log settings are.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GLOG_")}
        process = subprocess.Popen(
            [python, "-c", _CHILD, told],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, "GLOG_v": "2", "GLOG_logtostderr": "1"},
            cwd=folder,
            start_new_session=True,
        )
    except BaseException:
        output.close()
        _discard(work)
        raise
    limit = float("inf") if options.timeout_s is None else options.timeout_s
    return _Running(work, process, output, copy, made, time.monotonic() + limit)


def _told(work: _Work, copy: Path, version: str, options: AnalysisOptions) -> dict[str, Any]:
    """Say to the child what to analyse, and how. Before 2.5 an analyser is given the directory above profiler/."""
    first, last = options.steps or (1, 0)
    return {
        "framework": work.framework,
        "release": list(_release(version)),
        "path": str(copy.parent if work.layout in ("ms-2.1", "ms-2.3") else copy),
        "scratch": str(copy.parent / "scratch"),
        "on_device": work.layout != "ms-2.5+cpu",
        "options": {
            "pretty": options.pretty,
            "step_list": list(range(first, last + 1)) or None,
            "data_simplification": not options.keep_raw,
        },
    }


def _copy(place: Path, copy: Path) -> None:
    """Copy a recording for its analyser: raw data as hard links, which it reads or deletes; no earlier result."""
    copy.mkdir()
    shutil.copystat(place, copy)
    for entry in sorted(place.iterdir()):
        if entry.name in (WORK_DIRECTORY, RESULTS, "logs") or _FLAT_RESULT.fullmatch(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            how = _linked if _RAW.fullmatch(entry.name) else shutil.copy2
            without = shutil.ignore_patterns(RESULTS)
            shutil.copytree(entry, copy / entry.name, symlinks=True, ignore=without, copy_function=how)
        elif entry.is_symlink() or entry.is_file():
            shutil.copy2(entry, copy / entry.name, follow_symlinks=False)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        # A file system without hard links.
        shutil.copy2(source, target)


def _missing_info(work: _Work, copy: Path, version: str) -> Path | None:
    """Write the profiler_info_<rank>.json MindSpore's CPU profiler leaves out, and its analyser cannot do without.

    Ids have to be text. Source: MindSpore 2.7 to 2.10, `_pre_analyse_offline`: "Cannot find profiler_info.json in the ...".
    """
    if work.layout != "ms-2.5+cpu" or any(copy.glob("profiler_info_*.json")):
        return None
    rank = _ranks_in(copy / FRAMEWORK)[0]
    made = copy / f"profiler_info_{rank}.json"
    facts = {
        "profiler_parameters": {"is_set_schedule": False, "activities": ["CPU"]},
        "ms_profiler_info": {"rank_id": rank, "device_id": "0"},
        "ms_version": version,
        "jit_level": "",
    }
    # Not through the umask: the analyser refuses what others may write.
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(facts, file)
    return made


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and the pool it may have left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _discard(work: _Work) -> None:
    # What cannot be removed says so at the next analysis.
    shutil.rmtree(work.place / WORK_DIRECTORY, ignore_errors=True)


# -- after it ran ------------------------------------------------------------------------------------------------------


def _ended(one: _Running, version: str, options: AnalysisOptions, *, is_late: bool) -> Analysed:
    """Find out whether the analysis did its work, and put what it made in its place."""
    work = one.work
    if is_late:
        return _failed(
            work, f"its analysis did not end in {options.timeout_s:g} s and was stopped; nothing was changed"
        )
    by = f"{_TITLES[work.framework]} {version}"
    errors = [
        line.replace(str(one.copy), str(work.shown)).replace(str(one.copy.parent), str(work.shown.parent))
        for line in _errors(one)
    ]
    if problem := _problem(one, errors, options):
        return _failed(work, f"{by}: {problem}; nothing of the recording was changed")
    again = _compared(work, one.copy)
    try:
        _take_over(one, keeps_raw=options.keep_raw or bool(errors))
    except OSError as error:
        return _failed(
            work, f"what {by} made of it cannot be put in its place: {error.strerror or error}; its raw data is whole"
        )
    if errors:
        said = f"{work.shown} is analysed by {by} in part: {errors[0]} (its raw data is kept)"
        return Analysed(place=work.shown, said=said, done=True, doubtful=True)
    return Analysed(place=work.shown, said=f"{work.shown} is analysed by {by}{again}", done=True)


def _failed(work: _Work, reason: str) -> Analysed:
    return Analysed(place=work.shown, said=f"{work.shown} could not be analysed: {reason}")


def _errors(one: _Running) -> list[str]:
    """Return what the analyser told of errors: on its standard streams, and in the logs it wrote."""
    one.output.seek(0)
    lines = one.output.read().decode("utf-8", "replace").splitlines()
    for log in sorted((one.copy / "logs").glob("*.log")):
        lines += log.read_text(encoding="utf-8", errors="replace").splitlines()
    found = [_WRAPPING.sub("", match[1]).strip() for line in lines if (match := _ERROR.match(line))]
    if not found and one.process.returncode:
        # A traceback's last line, or whatever it said last.
        found = [line.strip() for line in lines if line.strip()][-1:]
    return list(dict.fromkeys(filter(None, found)))


def _problem(one: _Running, errors: list[str], options: AnalysisOptions) -> str:
    """Say why what the analyser left is no result; empty where it is one."""
    told = errors[0].rstrip(".") if errors else ""
    status = one.process.returncode
    if status < 0:
        return f"the analyser was ended by {signal.Signals(-status).name}" + (f": {told}" if told else "")
    if status:
        return told or f"the analyser ended with status {status} and told nothing"
    results = _results(one)
    if not results:
        return told or (
            f"the analyser wrote nothing into {RESULTS}/ and told no error (one of its processes may have been killed, or "
            "nothing it knows was recorded)"
        )
    for path in results:
        if path.suffix == ".json" and not _is_whole(path, thoroughly=bool(errors)):
            return f"{path.name} is cut short" + (f" ({told})" if told else " (the disk may be full)")
    if options.steps is not None and one.work.layout == "ms-2.3":
        return _steps_missing(one.copy, options.steps)
    return ""


def _results(one: _Running) -> list[Path]:
    """Return what makes an analysis one: a trace, or a database where that is what was asked for."""
    places = [one.copy / RESULTS, *one.copy.glob(f"rank-*_ascend_ms/{RESULTS}")]
    if one.work.layout == "ms-2.1":
        places = [one.copy]
    names = ("trace_view.json", "*.db", "ascend_timeline_display_*.json")
    return [path for place in places for name in names for path in sorted(place.glob(name)) if path.stat().st_size]


def _is_whole(path: Path, *, thoroughly: bool) -> bool:
    """Whether a JSON file was written to its end; it is read as a whole only where there is reason for doubt."""
    if not thoroughly:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 64))
            return file.read().rstrip().endswith((b"]", b"}"))
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True


def _steps_missing(copy: Path, steps: tuple[int, int]) -> str:
    """Say which steps the result has where it has not those asked for: 2.3 and 2.4 slice to nothing without a word."""
    there: set[int] = set()
    for path in copy.glob("step_trace_raw_*_detail_time.csv"):
        rows = path.read_text(encoding="utf-8", errors="replace").splitlines()[1:]
        there |= {int(row.split(",")[0]) for row in rows if row.split(",")[0].isdigit()}
    asked = f"--steps {steps[0]}:{steps[1]}"
    if not there:
        return f"{asked}: no step came out of it (steps are known in graph mode only); analyse it without"
    if not set(range(steps[0], steps[1] + 1)) <= there:
        return f"{asked} is outside the recording, which holds the steps {min(there)} to {max(there)}"
    return ""


def _compared(work: _Work, copy: Path) -> str:
    """Say what became of an earlier result."""
    old, new = (
        sorted(path.relative_to(root / RESULTS) for path in (root / RESULTS).rglob("*") if path.is_file())
        for root in (work.place, copy)
    )
    if not old:
        return ""
    same = old == new and all(
        filecmp.cmp(work.place / RESULTS / name, copy / RESULTS / name, shallow=False) for name in new
    )
    return " again, with the same result" if same else " again, with another result than before"


def _take_over(one: _Running, *, keeps_raw: bool) -> None:
    """Put what is new in the copy into the recording, and delete there what the analyser deleted. Raises `OSError`."""
    place, copy = one.work.place, one.copy
    kept = _files(copy)
    for name in kept:
        path, target = copy / name, place / name
        if path == one.made or _is_same(path, target):
            continue
        for folder in reversed(name.parents):
            if not (place / folder).is_dir():
                (place / folder).mkdir()
                shutil.copystat(copy / folder, place / folder)
        # In one move: a reader sees the old file or the new one.
        os.replace(path, target)
    # After everything is there. On a CPU the analyser adds to its results, on a device it begins with none.
    emptied = () if one.work.layout == "ms-2.5+cpu" else (RESULTS,)
    for name in set(_files(place)) - set(kept):
        top = name.parts[0]
        if top in emptied or (_RAW.fullmatch(top) and not keeps_raw):
            (place / name).unlink()
            _prune((place / name).parent, place)


def _is_same(path: Path, target: Path) -> bool:
    if not target.is_file() or path.is_symlink():
        return os.path.lexists(target) and path.is_symlink()
    return path.samefile(target) or filecmp.cmp(path, target, shallow=False)


def _files(root: Path) -> list[Path]:
    """Return the files below, relative to it."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file() or path.is_symlink())
    return sorted(name for name in found if name.parts[0] != WORK_DIRECTORY)


def _prune(folder: Path, place: Path) -> None:
    """Remove folders a deletion left empty."""
    while folder != place and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
