"""Rules for a whole recording: it completed, and every cycle, rank and timed step exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.dialects.extract import Ran, has_several_ranks
from perfguard.errors import listed
from perfguard.findings import Code, Finding, Severity
from perfguard.recording import RECORDING_FILE, STEPS_FILE, Ending
from perfguard.window import Phase

if TYPE_CHECKING:
    from perfguard.dialects.extract import Extract
    from perfguard.recording import Recording

_ENDINGS = {
    Ending.STEP_RAISED: Code.C105,
    Ending.LOADER_ENDED: Code.C106,
    Ending.INTERRUPTED: Code.C108,
    Ending.PROFILER_FAILED: Code.C109,
    Ending.SCRIPT_FAILED: Code.C113,
    Ending.TWO_PROFILERS: Code.C115,
}


def the_capture_ended_well(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """A capture that was cut short has less than was requested, whatever the profiler wrote."""
    if recording.ending in _ENDINGS:
        # The cause is listed before its consequences: lost steps, missing files.
        message = recording.reason or "the reason was not recorded"
        yield Finding(code=_ENDINGS[recording.ending], place=RECORDING_FILE, message=message, weight=1.0)


def _windows(extracts: tuple[Extract, ...]) -> Counter[int]:
    """Count the profiler's cycles by rank. Graphs and summaries are no windows."""
    counts: Counter[int] = Counter()
    for extract in extracts:
        counts[extract.rank] += extract.is_window
    return counts


def every_cycle_is_there(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """A window that repeats R times leaves R cycles for every rank; graphs and summaries do not count."""
    if recording.window is None or not extracts:
        return
    for rank, count in sorted(_windows(extracts).items()):
        if count != recording.window.repeat:
            yield Finding(
                code=Code.C101,
                place=f"rank {rank}",
                message=f"the window repeats {recording.window.repeat} times, but the profiler wrote {count} cycles",
            )


def every_rank_has_as_many_cycles(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """The ranks of a foreign directory have the same number of cycles: a rank with fewer died. A warning.

    Seen with torch 1.12 and 2.4 on CPU: a rank crashed while it stopped its profiler, after the others had written.
    """
    counts = _windows(extracts)
    if recording.window is not None or len(set(counts.values())) < 2:
        return
    usual = max(sorted(set(counts.values()), reverse=True), key=list(counts.values()).count)
    for rank, count in sorted(counts.items()):
        if count != usual:
            yield Finding(
                code=Code.C101,
                severity=Severity.WARNING,
                place=f"rank {rank}",
                rank=rank,
                message=f"rank {rank} has {count} of the {usual} cycles that other ranks have"
                if count < usual
                else f"rank {rank} has {count} cycles, but other ranks have {usual}",
            )


def every_step_was_timed(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """Every requested step, timed or profiled, has an entry with a duration."""
    if recording.window is None or recording.ending is not Ending.COMPLETE:
        return
    requested = {
        Phase.TIMED: recording.timed_steps or 0,
        Phase.ACTIVE: recording.window.active * recording.window.repeat,
    }
    several = len(recording.ranks) > 1
    for phase, count in requested.items():
        for rank in recording.ranks or (0,):
            timed = sum(step.wall_ns > 0 for step in recording.steps_of(phase, rank=rank))
            if timed != count:
                of = f"of rank {rank} " if several else ""
                message = f"{count} {phase.value} steps {of}were requested, but {timed} have a duration"
                yield Finding(code=Code.C107, place=STEPS_FILE, rank=rank if several else None, message=message)


def every_rank_of_the_world_is_there(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """The directory has as many ranks as a trace states; otherwise some were not copied: a warning.

    Many projects profile rank 0 alone, on purpose: that is a note. Source: torch: distributedInfo.world_size.
    """
    worlds = [extract.world_size for extract in extracts if extract.world_size is not None]
    ranks = sorted({extract.rank for extract in extracts})
    if worlds and len(ranks) < max(worlds) and recording.rank is None:
        yield Finding(
            code=Code.A107,
            severity=Severity.NOTE if ranks == [0] else Severity.WARNING,
            place="ranks",
            message=f"the trace says {max(worlds)} ranks; only rank {listed(ranks)} is here "
            f"(to require them all: `--expect ranks={max(worlds)}`)",
        )


def no_cycle_is_there_twice(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """No two cycles have the same times: one of them is a copy, perhaps instead of another rank's. Exact."""
    seen: dict[tuple[str, bytes], str] = {}
    for extract in extracts:
        for slot, place, digest in extract.times:
            if (same := seen.get((slot, digest))) is None:
                seen[slot, digest] = place
            else:
                yield Finding(
                    code=Code.I113,
                    place=place,
                    rank=extract.rank,
                    message=f"it has the same rows as {same}: one of the two is a copy",
                )


def a_directory_is_of_the_rank_in_its_files(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """The directory above names the same rank as the files. A warning: old GPU files name their device."""
    for extract in extracts:
        above = extract.rank_above
        if above is not None and above != extract.rank:
            yield Finding(
                code=Code.I113,
                severity=Severity.WARNING,
                place=extract.name,
                rank=extract.rank,
                message=f"its files are of rank {extract.rank}, but its directory is of rank {above}",
            )


def every_rank_of_the_recording_is_there(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """A recording of several ranks has output of each. An error: perfguard started them itself."""
    if recording.fingerprint is None or recording.rank is not None or not extracts:
        return
    world = recording.fingerprint.world_size
    there = {extract.rank for extract in extracts}
    yield from missing_ranks(range(world), there, f"{world} ranks were started")


def missing_ranks(required: range, there: set[int], why: str) -> Iterator[Finding]:
    """Yield findings for ranks that are not there, the first hundred one by one."""
    for rank in islice((rank for rank in required if rank not in there), SHOWN_VIOLATIONS):
        yield Finding(code=Code.A107, place=f"rank {rank}", rank=rank, message=f"{why}, but rank {rank} is missing")
    if (more := len(required) - sum(rank in required for rank in there) - SHOWN_VIOLATIONS) > 0:
        yield Finding(code=Code.A107, place="ranks", message=f"and {more} more ranks are missing", more=more)


def _added_up(cycles: list[Ran]) -> tuple[int, Counter[str]]:
    calls: Counter[str] = Counter()
    for _, of_cycle in cycles:
        calls.update(dict(of_cycle))
    return sum(steps for steps, _ in cycles), calls


def ranks_ran_the_same(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """All ranks have the same number of steps, and the same calls of the same operators.

    Different operators are a warning: the stages of a pipeline have their own. Different steps are an error.
    """
    if not has_several_ranks(recording):
        return
    ran: dict[int, list[Ran]] = {}
    for extract in extracts:
        if extract.ran is not None:
            ran.setdefault(extract.rank, []).append(extract.ran)
    if len(ran) < 2:
        return
    first = min(ran)
    first_steps, first_calls = _added_up(ran[first])
    for rank in sorted(ran.keys() - {first}):
        if ran[rank] == ran[first]:
            continue
        steps, calls = _added_up(ran[rank])
        if steps != first_steps:
            message = f"rank {rank} recorded {steps} steps, but rank {first} recorded {first_steps}"
            yield Finding(code=Code.C114, place=f"rank {rank}", rank=rank, message=message)
            continue
        differing = sorted(name for name in calls.keys() | first_calls.keys() if calls[name] != first_calls[name])
        if differing:
            named = listed([f"{name} {calls[name]} x, not {first_calls[name]}" for name in differing], 4)
            yield Finding(
                code=Code.C114,
                severity=Severity.WARNING,
                place=f"rank {rank}",
                rank=rank,
                message=f"rank {rank} ran {named}, as rank {first} did",
            )


#: Their findings come in this order.
RECORDING_INVARIANTS = (
    the_capture_ended_well,
    every_cycle_is_there,
    every_rank_has_as_many_cycles,
    every_step_was_timed,
    every_rank_of_the_world_is_there,
    no_cycle_is_there_twice,
    a_directory_is_of_the_rank_in_its_files,
    every_rank_of_the_recording_is_there,
    ranks_ran_the_same,
)


def check_recording(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """Run every invariant of a whole recording, over the extracts of its cycles."""
    for check in RECORDING_INVARIANTS:
        for finding in check(recording, extracts):
            yield replace(finding, check=check.__name__)
