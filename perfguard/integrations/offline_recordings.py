"""Recordings that an analyser can finish: what a directory holds, the release that analyses each, and refusals."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perfguard import scratch
from perfguard.artifacts.survey import survey
from perfguard.capture.environment import Interpreter, release
from perfguard.capture.replay import recordings_in
from perfguard.errors import UsageError
from perfguard.inputs import Malformed, read_bytes, text_of
from perfguard.opening import open_regular
from perfguard.recording import RECORDING_FILE, leads_out, profiler_directory_in

#: Where the copy is while an analyser works: in the recording, so that hard links and renames can reach it.
WORK_DIRECTORY = ".perfguard-analysis"
RESULTS = "ASCEND_PROFILER_OUTPUT"
FRAMEWORK = "FRAMEWORK"
RAW = re.compile(r"FRAMEWORK|PROF_\d+_\d+_[0-9a-zA-Z]+")
_RANK = re.compile(r"_(\d+)\.(?:txt|csv)")
#: MindSpore's `FwkFixSizeFormat.OpRangeStruct`, after a type and a length; the step is the third number.
_OP_RANGE, _OP_RANGE_HEAD = struct.Struct("<5Qi3Hb3?"), struct.Struct("<HI")

TITLES = {"mindspore": "MindSpore", "torch_npu": "torch_npu"}
#: By layout: the framework that analyses it, its first release and the one after its last, and these releases in words.
_ANALYSERS = {
    "ms-2.5+cpu": ("mindspore", (2, 5), (99, 0), " 2.5 or later"),
    "ms-2.5+": ("mindspore", (2, 5), (99, 0), " 2.5 or later"),
    "ms-2.3": ("mindspore", (2, 3), (2, 5), " 2.3 or 2.4"),
    "ms-2.1": ("mindspore", (2, 2), (2, 3), " 2.2"),
    "pt-npu": ("torch_npu", (0, 0), (99, 0), ""),
}
#: Layouts without an analysis, and why.
_WITHOUT_ANALYSIS = {
    "pt-torch": "torch.profiler writes complete traces, which need no analysis; judge them with: perfguard check {place}",
    "ms-2.0": "MindSpore 2.0 has no offline analysis (2.2 and later have); record it again and call Profiler.analyse()",
    "ms-1.x": "MindSpore 1.x has no offline analysis (2.2 and later have); record it again and call Profiler.analyse()",
}
#: Layouts whose analyser ignores an option, and why.
_WITHOUT_PRETTY = {
    **dict.fromkeys(("ms-2.5+", "ms-2.5+cpu"), "MindSpore since 2.5 accepts --pretty and ignores it"),
    "pt-npu": "torch_npu's analyser has no --pretty",
}
_WITHOUT_STEPS = {
    "ms-2.5+cpu": "MindSpore slices by step only what an Ascend device recorded, and ignores it here",
    "pt-npu": "torch_npu's analyser cannot select steps",
    "ms-2.1": "MindSpore 2.2 analyses all steps (2.3 and later take a list)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisOptions:
    """How to analyse. `steps` are the first and the last, both included; 1 is the first recorded."""

    steps: tuple[int, int] | None = None
    pretty: bool = False
    keep_raw: bool = False
    jobs: int | None = None
    python: Path | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs must be at least 1, got {self.jobs}.")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"--timeout must be greater than 0 seconds, got {self.timeout_s:g}.")
        if self.steps is not None and not 1 <= self.steps[0] <= self.steps[1]:
            raise UsageError(f"{self.steps_text} is not a range: the first step is 1, and STOP is not before START.")

    @property
    def steps_text(self) -> str:
        """The steps as they are given on the command line; empty without any."""
        return "" if self.steps is None else f"--steps {self.steps[0]}:{self.steps[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """The result for one recording. `done` if there is an analysis, `refused` if nothing was tried."""

    place: Path
    sentence: str
    done: bool = False
    refused: bool = False
    #: The analyser reported an error, and wrote something nevertheless.
    doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """One recording that an analyser can finish: its real place, the place shown to the user, and its layout."""

    place: Path
    shown: Path
    layout: str

    @property
    def framework(self) -> str:
        """The framework whose analyser it needs."""
        return _ANALYSERS[self.layout][0]

    def lack(self, interpreter: Interpreter) -> str:
        """Return why this Python cannot analyse it; empty if it can."""
        name, first, end, span = _ANALYSERS[self.layout]
        version = interpreter.packages.get(name)
        if version is not None and first <= release(version) < end:
            return ""
        has = f"no {TITLES[name]}" if version is None else f"{TITLES[name]} {version}"
        return (
            f"{TITLES[name]}{span} analyses it, and {interpreter.path} has {has}; name a Python that has it with --python "
            "PATH"
        )

    def refused(self, reason: str) -> Analysed:
        """Return the result of a recording that is not tried."""
        return Analysed(place=self.shown, sentence=f"{self.shown} is not analysed: {reason}", refused=True)

    def failed(self, reason: str) -> Analysed:
        """Return the result of a recording without an analysis."""
        return Analysed(place=self.shown, sentence=f"{self.shown} could not be analysed: {reason}")


def find_collected(directory: Path) -> tuple[list[Collected], list[Analysed]]:
    """Return what can be analysed, and a refusal for what cannot. Raises `UsageError` when it is no directory."""
    found: dict[Path, Collected] = {}
    refused: dict[Path, Analysed] = {}
    for one in recordings_in(directory):
        if leads_out(one, directory):
            refused[one] = Analysed(place=one, sentence=f"{one} is a link out of {directory}: not read", refused=True)
            continue
        root = profiler_directory_in(one) if os.path.lexists(one / RECORDING_FILE) else one
        for cycle in survey(root).cycles:
            place, layout = Path(os.path.realpath(cycle.place)), cycle.layout.id
            if layout in _ANALYSERS:
                found.setdefault(place, Collected(place=place, shown=cycle.place, layout=layout))
            elif layout in _WITHOUT_ANALYSIS:
                # Each torch trace is a cycle: those of one directory get one refusal.
                key = cycle.place.parent if layout == "pt-torch" else cycle.place
                reason = _WITHOUT_ANALYSIS[layout].format(place=key)
                refused.setdefault(key, Collected(place=key, shown=key, layout=layout).refused(reason))
    return list(found.values()), list(refused.values())


def holds_a_file(directory: Path) -> bool:
    """Whether there is a file in a directory or below it."""
    return any(path.is_file() for path in directory.rglob("*"))


def ranks_in(framework: Path) -> list[str]:
    """Return the ranks that the files of FRAMEWORK/ name (MindSpore on a CPU)."""
    return sorted({found[1] for path in framework.glob("cpu_*") if (found := _RANK.search(path.name))}, key=int)


# -- refusals ----------------------------------------------------------------------------------------------------------


def refusals(recording: Collected, options: AnalysisOptions) -> Iterator[str]:
    """Yield why a recording must not be analysed, or not with these options."""
    place = recording.place
    linked = [place / name for name in (FRAMEWORK, RESULTS, "logs")] + sorted((place / FRAMEWORK).glob("*"))
    if link := next((path for path in linked if path.is_symlink()), None):
        yield f"{link.relative_to(place)} is a link, which analysers do not read; put its target in its place"
    if _is_simplified(recording):
        named = " (its profiler_info says so)" if 'data_simplification": true' in _info(place) else ""
        yield (
            f"it was analysed with data simplification before{named}, and {FRAMEWORK}/ is gone: a second analysis would "
            "lose the framework's side of what is there; record it again, and analyse it with --keep-raw"
        )
    if recording.layout in ("ms-2.1", "ms-2.3") and place.name != "profiler":
        yield f"MindSpore before 2.5 reads only a directory called profiler; rename {place.name} to it"
    if options.pretty and recording.layout in _WITHOUT_PRETTY:
        yield f"{_WITHOUT_PRETTY[recording.layout]}; leave it out"
    if options.steps is not None:
        yield from _steps_refused(recording, options.steps, options.steps_text)
    if not os.access(place, os.W_OK | os.X_OK):
        yield "it is not writable; change its permissions, or copy it to a writable place"
    with scratch.abandoned(place / WORK_DIRECTORY) as is_left:
        if os.path.lexists(place / WORK_DIRECTORY) and not is_left:
            yield (
                f"another analysis of it is running; if none is, delete {recording.shown / WORK_DIRECTORY} "
                "(it holds copies only)"
            )


def _steps_refused(recording: Collected, steps: tuple[int, int], text: str) -> Iterator[str]:
    if recording.layout in _WITHOUT_STEPS:
        yield f"{text}: {_WITHOUT_STEPS[recording.layout]}; leave it out"
    # What 2.3 and 2.4 recorded shows its steps only after its analysis.
    elif recording.layout == "ms-2.5+":
        count = recorded_steps(recording.place / FRAMEWORK / "mindspore.op_range")
        if not count:
            yield f"{text}: {FRAMEWORK}/mindspore.op_range has no steps, so all is analysed; leave it out"
        elif steps[1] > count:
            yield f"{text} is outside the recording, which holds the steps 1 to {count}"


def nothing_collected(recording: Collected) -> str:
    """Return why there is nothing to analyse; empty if there is something."""
    framework = recording.place / FRAMEWORK
    if not holds_a_file(framework) and not _has_device_data(recording.place):
        return (
            f"nothing was collected, {FRAMEWORK}/ is empty or missing (a profiler writes when it stops; one that is killed "
            "writes nothing); record it again"
        )
    if recording.layout == "ms-2.5+cpu" and not _info(recording.place) and len(ranks := ranks_in(framework)) != 1:
        found = f"the files of ranks {', '.join(ranks)}" if ranks else "no file that names its rank"
        return f"{FRAMEWORK}/ holds {found}; MindSpore analyses one rank in a directory: record each rank in its own"
    return ""


def _has_device_data(place: Path) -> bool:
    return any(RAW.fullmatch(path.name) for path in place.glob("PROF_*"))


def _is_simplified(recording: Collected) -> bool:
    """Whether a second analysis would lose what the first one wrote: the trap that MindSpore documents.

    2.3, 2.4 and older torch_npu delete FRAMEWORK/ when they simplify; MindSpore 2.7 to 2.10 only what they can make again.
    """
    place = recording.place
    if holds_a_file(place / FRAMEWORK):
        return False
    if not any(holds_a_file(one) for one in [place / RESULTS, *place.glob(f"rank-*_ascend_ms/{RESULTS}")]):
        return False
    # Without a list of activities the host was recorded: it is the default.
    activities = re.search(r'"activities":\s*\[([^\]]*)\]', _info(place))
    return activities is None or "CPU" in activities[1] or not _has_device_data(place)


def _info(place: Path) -> str:
    """Return the text of profiler_info_<rank>.json; empty if none can be read."""
    for path in sorted([*place.glob("profiler_info*.json"), *place.glob("rank-*_ascend_ms/profiler_info*.json")]):
        # The analyser reports a file that cannot be read, and check judges it.
        with suppress(OSError, Malformed):
            return text_of(read_bytes(path))
    return ""


def recorded_steps(op_range: Path) -> int:
    """Return how many steps the framework's raw records span; 0 if they hold none, or are something else."""
    steps = set()
    try:
        with open_regular(op_range, buffering=1024**2) as file:
            size = os.fstat(file.fileno()).st_size
            while len(head := file.read(_OP_RANGE_HEAD.size)) == _OP_RANGE_HEAD.size:
                _, length = _OP_RANGE_HEAD.unpack(head)
                body = file.read(_OP_RANGE.size)
                rest = length - len(body)
                if len(body) < _OP_RANGE.size or rest < 0 or file.seek(rest, os.SEEK_CUR) > size:
                    break
                steps.add(_OP_RANGE.unpack(body)[2])
    except OSError:
        return 0
    return max(steps) - min(steps) + 1 if steps else 0
