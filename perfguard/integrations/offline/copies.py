"""The copy that an analyser works on, and how its results get into the recording."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
from pathlib import Path

from perfguard.integrations.offline.collected import FRAMEWORK, RAW, RESULTS, WORK_DIRECTORY, Collected, ranks_in

#: The results of an analysis by 2.2 to 2.4; those of an earlier analysis would be taken for it.
_FLAT_RESULT = re.compile(r"ascend_timeline_display_\d+\.json|step_trace_raw_\d+_detail_time\.csv")


def copy_recording(place: Path, copy: Path) -> None:
    """Copy a recording without earlier results: raw data as hard links, which an analyser reads or deletes."""
    copy.mkdir()
    shutil.copystat(place, copy)
    for entry in sorted(place.iterdir()):
        if entry.name in (WORK_DIRECTORY, RESULTS, "logs") or _FLAT_RESULT.fullmatch(entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            how = _linked if RAW.fullmatch(entry.name) else shutil.copy2
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
    old, new = (
        sorted(path.relative_to(root / RESULTS) for path in (root / RESULTS).rglob("*") if path.is_file())
        for root in (place, copy)
    )
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
    if not target.is_file() or path.is_symlink():
        return os.path.lexists(target) and path.is_symlink()
    return path.samefile(target) or filecmp.cmp(path, target, shallow=False)


def _files(root: Path) -> list[Path]:
    """Return the files below, relative to it."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file() or path.is_symlink())
    return sorted(name for name in found if name.parts[0] != WORK_DIRECTORY)


def _prune(folder: Path, place: Path) -> None:
    """Remove folders that a deletion left empty."""
    while folder != place and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
