"""Collected recordings: what a directory holds that an analyser can finish, and what came of each."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from perfguard.artifacts.survey import survey
from perfguard.capture.replay import recordings_in
from perfguard.integrations.offline.analyser import ANALYSERS
from perfguard.recording import PROFILER_DIRECTORY, RECORDING_FILE

#: Where the copy is while an analyser works: in the recording, so that hard links and renames can reach it.
WORK_DIRECTORY = ".perfguard-analysis"
RESULTS = "ASCEND_PROFILER_OUTPUT"
FRAMEWORK = "FRAMEWORK"
RAW = re.compile(r"FRAMEWORK|PROF_\d+_\d+_[0-9a-zA-Z]+")

#: Layouts without an analysis, and why.
_WITHOUT_ANALYSIS = {
    "pt-torch": "torch.profiler writes complete traces, which need no analysis; judge them with: perfguard check {place}",
    "ms-2.0": "MindSpore 2.0 has no offline analysis (2.2 and later have); record it again and call Profiler.analyse()",
    "ms-1.x": "MindSpore 1.x has no offline analysis (2.2 and later have); record it again and call Profiler.analyse()",
}
_RANK = re.compile(r"_(\d+)\.(?:txt|csv)")


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
        return ANALYSERS[self.layout].framework

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
        inside = one / PROFILER_DIRECTORY
        root = inside if os.path.lexists(one / RECORDING_FILE) and inside.is_dir() else one
        for cycle in survey(root).cycles:
            place, layout = Path(os.path.realpath(cycle.place)), cycle.layout.id
            if layout in ANALYSERS:
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
