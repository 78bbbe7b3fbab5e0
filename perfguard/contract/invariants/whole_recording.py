"""What must hold of a whole recording: it ended well, every cycle is there, every timed step was timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.contract.invariants import recording_invariant
from perfguard.findings import Code, Finding, Severity
from perfguard.recording import RECORDING_FILE, STEPS_FILE, Ending
from perfguard.window import Phase

if TYPE_CHECKING:
    from perfguard.contract.inspection import Cycle
    from perfguard.recording import Recording

_ENDINGS = {
    Ending.STEP_RAISED: Code.C105,
    Ending.LOADER_ENDED: Code.C106,
    Ending.INTERRUPTED: Code.C108,
    Ending.PROFILER_FAILED: Code.C109,
}


@recording_invariant
def the_capture_ended_well(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """A capture that was cut short holds less than was asked for, whatever the profiler managed to write."""
    if recording.ending in _ENDINGS:
        # The cause goes before what follows from it: lost steps, missing files.
        message = recording.reason or "nobody wrote down why"
        yield Finding(code=_ENDINGS[recording.ending], place=RECORDING_FILE, message=message, weight=1.0)


@recording_invariant
def every_cycle_is_there(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """A window that repeats R times leaves R cycles for every rank."""
    if recording.window is None or not cycles:
        return
    for rank, count in sorted(Counter(cycle.rank for cycle in cycles).items()):
        if count != recording.window.repeat:
            yield Finding(
                code=Code.C101,
                place=f"rank {rank}",
                message=f"the window repeats {recording.window.repeat} times, the profiler wrote {count} cycles",
            )


@recording_invariant
def every_rank_has_as_many_cycles(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """Ranks of a foreign directory have as many cycles as most of them: one that has fewer died. A warning.

    Seen with torch 1.12 and 2.4 on CPU, where a rank crashed while it stopped its profiler, and the others had written.
    """
    counts = Counter(cycle.rank for cycle in cycles)
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
                message=f"rank {rank} has {count} cycles, other ranks have {usual}",
            )


@recording_invariant
def every_step_was_timed(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """Every step asked for, timed or profiled, has an entry with a duration."""
    if recording.window is None or recording.ending is not Ending.COMPLETE:
        return
    wanted = {
        Phase.TIMED: recording.timed_steps or 0,
        Phase.ACTIVE: recording.window.active * recording.window.repeat,
    }
    for phase in (Phase.TIMED, Phase.ACTIVE):
        steps = recording.steps_of(phase)
        timed = sum(step.wall_ns > 0 for step in steps)
        if timed != wanted[phase]:
            yield Finding(
                code=Code.C107,
                place=STEPS_FILE,
                message=f"{wanted[phase]} {phase.value} steps were asked for, {timed} have a duration",
            )
