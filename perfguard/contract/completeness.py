"""Completeness: findings about required files that are missing, and files that should not exist."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfguard.artifacts.conditions import (
    Expectation,
    Known,
    contradicted,
    evaluate,
    known_conditions,
    parts_of,
    shown,
    undecided,
)
from perfguard.artifacts.layout import Slot
from perfguard.artifacts.survey import FoundCycle
from perfguard.errors import listed
from perfguard.findings import Code, Finding, Severity
from perfguard.recording import Recording


def stated(recording: Recording, expected: Expectation) -> dict[str, dict[str, bool]]:
    """Return the conditions that the caller and the recording state."""
    recorded = dict(recording.conditions)
    if (fingerprint := recording.fingerprint) is not None:
        recorded["distributed"] = fingerprint.world_size > 1
        if fingerprint.mode in ("graph", "pynative"):
            recorded["graph"] = fingerprint.mode == "graph"
    return {"you": dict(expected.conditions), "the recording": recorded}


def explanation(found: FoundCycle, root: Path, rank: int, known: Mapping[str, Known]) -> Iterator[str]:
    """Yield why a layout was recognised, and which conditions are known to be on or off."""
    place = relative(found.place, root) or found.place.name
    yield f"{place}: layout {found.layout.id}, because {found.because}; rank {rank}"
    for parent in found.parents:
        yield f"{place}: in {relative(parent.place, root)} ({parent.layout.id})"
    if known:
        states = (f"{name} {'on' if one.value else 'off'} ({one.because})" for name, one in sorted(known.items()))
        yield f"{place}: {', '.join(states)}"


def contradictions(
    found: FoundCycle, recording: Recording, documents: Mapping[str, Any], expected: Expectation
) -> Iterator[Finding]:
    """Yield a finding for each expected condition that the files contradict."""
    if not expected.conditions:
        return
    from_files = known_conditions(found, documents, stated(recording, Expectation()))
    for word, known in contradicted(expected.conditions, from_files):
        state = "on" if known.value else "off"
        message = f"{word} is expected, but it was {state}: {known.because}"
        place = relative(found.place, recording.directory) or found.place.name
        yield Finding(code=Code.A110, place=place, message=message)


def layout_findings(found: FoundCycle, root: Path, known: Mapping[str, Known], notes: list[str]) -> Iterator[Finding]:
    """Yield findings for missing and for unexpected files; requirements that cannot be decided are added to `notes`."""
    filled = {file.slot.name for file in found.files}
    rank = next((str(file.rank) for file in found.files if file.rank is not None), "*")
    unknown: dict[str, list[str]] = defaultdict(list)
    for slot in found.layout.slots:
        path = slot.path.replace("{rank}", rank).replace("{_rank}", f"_{rank}")
        need = _need(slot, known)
        if need is None and slot.name not in filled:
            unknown[", ".join(undecided(slot.required, known))].append(path)
        elif need == "always" and slot.name not in filled:
            when = "" if slot.required == "always" else f" where {shown(slot.required)} ({_reasons(slot, known)})"
            yield Finding(
                code=Code[slot.missing],
                place=relative(found.place / path, root),
                message=_absent(slot, f"layout {found.layout.id} requires it{when}"),
            )
        elif need == "never" and slot.name in filled:
            there = next(file for file in found.files if file.slot is slot)
            yield Finding(
                code=Code.A106,
                place=relative(there.path, root),
                message=f"layout {found.layout.id} has it only where {shown(slot.required)} ({_reasons(slot, known)})",
            )
    for names, paths in unknown.items():
        notes.append(f"{found.place.name}: cannot tell whether {names} was on: not required: {', '.join(paths)}")
    if found.unmatched:
        yield Finding(
            code=Code.A103,
            severity=Severity.NOTE,
            place=relative(found.place, root),
            message=f"layout {found.layout.id} has no slot for {listed(found.unmatched)}",
        )


def _reasons(slot: Slot, known: Mapping[str, Known]) -> str:
    names = [name for name, _ in parts_of(slot.required) if name in known]
    return "; ".join(f"{name} {'on' if known[name].value else 'off'}: {known[name].because}" for name in names)


def _absent(slot: Slot, reason: str) -> str:
    if slot.missing == Code.C110.name:
        remark = f". {slot.remark}" if slot.remark else ""
        return (
            f"it is missing: the profiler ended before it wrote the file, or the file was not copied ({reason}){remark}"
        )
    if slot.missing == Code.A104.name:
        return f"the profiler only collected; its analysis writes this file. Run: perfguard analyse DIR ({reason})"
    return reason


def _need(slot: Slot, known: Mapping[str, Known]) -> str | None:
    """Return whether the file of a slot must exist: always, optional or never; None if that cannot be decided."""
    if slot.required in ("always", "optional", "never"):
        return slot.required
    verdict = evaluate(slot.required, known)
    return None if verdict is None else "always" if verdict else slot.otherwise


def relative(path: Path, root: Path) -> str:
    """Return a path as findings show it."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
