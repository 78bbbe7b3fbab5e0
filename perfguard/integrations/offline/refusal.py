"""Refusals: recordings that an analysis would damage, and options that their analyser ignores."""

from __future__ import annotations

import os
import re
import struct
from contextlib import suppress
from pathlib import Path

from perfguard.integrations.offline.collected import (
    FRAMEWORK,
    RAW,
    RESULTS,
    WORK_DIRECTORY,
    Collected,
    holds_a_file,
    ranks_in,
)
from perfguard.integrations.offline.options import AnalysisOptions

#: MindSpore's `FwkFixSizeFormat.OpRangeStruct`, after a type and a length; the step is the third number.
_OP_RANGE, _OP_RANGE_HEAD = struct.Struct("<5Qi3Hb3?"), struct.Struct("<HI")


def refusal(recording: Collected, options: AnalysisOptions) -> str:
    """Return why a recording must not be analysed, or not with these options; empty if it may be."""
    place = recording.place
    linked = [place / name for name in (FRAMEWORK, RESULTS, "logs")] + sorted((place / FRAMEWORK).glob("*"))
    if link := next((path for path in linked if path.is_symlink()), None):
        return f"{link.relative_to(place)} is a link, which analysers do not read; put its target in its place"
    if _is_simplified(recording):
        named = " (its profiler_info says so)" if 'data_simplification": true' in _info(place) else ""
        return (
            f"it was analysed with data simplification before{named}, and {FRAMEWORK}/ is gone: a second analysis would "
            "lose the framework's side of what is there; record it again, and analyse it with --keep-raw"
        )
    if recording.layout in ("ms-2.1", "ms-2.3") and place.name != "profiler":
        return f"MindSpore before 2.5 reads only a directory called profiler; rename {place.name} to it"
    if options.pretty and recording.layout in ("ms-2.5+", "ms-2.5+cpu"):
        return "MindSpore since 2.5 accepts --pretty and ignores it; leave it out"
    if options.pretty and recording.framework == "torch_npu":
        return "torch_npu's analyser has no --pretty; leave it out"
    if options.steps is not None and (why := _steps_refused(recording, options)):
        return why
    if not os.access(place, os.W_OK | os.X_OK):
        return "it is not writable; change its permissions, or copy it to a writable place"
    if os.path.lexists(place / WORK_DIRECTORY):
        return (
            f"another analysis of it is running, or was killed; if none is, delete {recording.shown / WORK_DIRECTORY} "
            "(it holds copies only)"
        )
    return ""


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
        with suppress(OSError):
            return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _steps_refused(recording: Collected, options: AnalysisOptions) -> str:
    if recording.layout == "ms-2.5+cpu":
        return (
            f"{options.steps_text}: MindSpore slices by step only what an Ascend device recorded, and ignores it here; "
            "leave it out"
        )
    if recording.framework == "torch_npu":
        return f"{options.steps_text}: torch_npu's analyser cannot select steps; leave it out"
    if recording.layout == "ms-2.1":
        return f"{options.steps_text}: MindSpore 2.2 analyses all steps (2.3 and later take a list); leave it out"
    # What 2.3 and 2.4 recorded shows its steps only after its analysis.
    if recording.layout == "ms-2.5+" and options.steps is not None:
        count = recorded_steps(recording.place / FRAMEWORK / "mindspore.op_range")
        if not count:
            return (
                f"{options.steps_text}: {FRAMEWORK}/mindspore.op_range has no steps, so all is analysed; leave it out"
            )
        if options.steps[1] > count:
            return f"{options.steps_text} is outside the recording, which holds the steps 1 to {count}"
    return ""


def recorded_steps(op_range: Path) -> int:
    """Return how many steps the framework's raw records span; 0 if they hold none, or are something else."""
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
