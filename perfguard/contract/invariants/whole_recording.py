"""What must hold of a whole recording: it ended well, every cycle is there, every timed step was timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from perfguard.contract.invariants import recording_invariant
from perfguard.findings import Code, Finding, Severity
from perfguard.recording import RECORDING_FILE, STEPS_FILE, Ending
from perfguard.window import Phase

if TYPE_CHECKING:
    from perfguard.contract.inspection import Artifact, Cycle
    from perfguard.recording import Recording

_ENDINGS = {
    Ending.STEP_RAISED: Code.C105,
    Ending.LOADER_ENDED: Code.C106,
    Ending.INTERRUPTED: Code.C108,
    Ending.PROFILER_FAILED: Code.C109,
    Ending.SCRIPT_FAILED: Code.C113,
    Ending.TWO_PROFILERS: Code.C115,
}


@recording_invariant
def the_capture_ended_well(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """A capture that was cut short holds less than was asked for, whatever the profiler managed to write."""
    if recording.ending in _ENDINGS:
        # The cause goes before what follows from it: lost steps, missing files.
        message = recording.reason or "nobody wrote down why"
        yield Finding(code=_ENDINGS[recording.ending], place=RECORDING_FILE, message=message, weight=1.0)


def _windows(cycles: tuple[Cycle, ...]) -> Counter[int]:
    """Count the profiler's cycles by rank. Graphs and summaries lie where they like, and are no window."""
    counts: Counter[int] = Counter()
    for cycle in cycles:
        counts[cycle.rank] += not cycle.layout.nests
    return counts


@recording_invariant
def every_cycle_is_there(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """A window that repeats R times leaves R cycles for every rank; what was saved beside them (graphs, summaries) is none."""
    if recording.window is None or not cycles:
        return
    for rank, count in sorted(_windows(cycles).items()):
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
    counts = _windows(cycles)
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
                else f"rank {rank} has {count} cycles, other ranks have {usual}",
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
    several = len(recording.ranks) > 1
    for phase, count in wanted.items():
        for rank in recording.ranks or (0,):
            timed = sum(step.wall_ns > 0 for step in recording.steps_of(phase, rank=rank))
            if timed != count:
                of = f"of rank {rank} " if several else ""
                message = f"{count} {phase.value} steps {of}were asked for, {timed} have a duration"
                yield Finding(code=Code.C107, place=STEPS_FILE, rank=rank if several else None, message=message)


@recording_invariant
def every_rank_of_the_world_is_there(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """A trace names the size of its world: with fewer ranks here, some were not copied along. A warning.

    Many projects profile one rank only, on purpose. Source: torch: distributedInfo.world_size.
    """
    worlds = [
        told["world_size"]
        for cycle in cycles
        if (trace := cycle.content("trace")) is not None
        and isinstance(told := trace.document.get("distributedInfo"), Mapping)
        and isinstance(told.get("world_size"), int)
    ]
    ranks = sorted({cycle.rank for cycle in cycles})
    if worlds and len(ranks) < max(worlds) and recording.rank is None:
        yield Finding(
            code=Code.A107,
            severity=Severity.WARNING,
            place="ranks",
            message=f"the trace says that there are {max(worlds)} ranks, here are {', '.join(map(str, ranks))} "
            f"(`--expect ranks={len(ranks)}` says that this is all)",
        )


#: What was measured at a time; two cycles cannot have the same.
_TIMED = ("trace", "trace_view", "kernel_details", "cpu_op_execute_timestamp", "output_timeline_data")


@recording_invariant
def no_cycle_is_there_twice(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """Two cycles have not the same times: one of them is a copy, perhaps in the place of another rank's. Exact."""
    seen: dict[tuple[str, int], list[Artifact]] = {}
    for cycle in cycles:
        for slot in _TIMED:
            artifact = cycle.artifacts.get(slot)
            if artifact is None or artifact.content.table is None or not artifact.content.frame.height:
                continue
            frame = artifact.content.frame
            alike = seen.setdefault((slot, frame.height), [])
            same = next((other for other in alike if other.content.frame.equals(frame)), None)
            alike.append(artifact)
            if same is not None:
                yield Finding(
                    code=Code.I113,
                    place=artifact.place,
                    rank=cycle.rank,
                    message=f"it is the same as {same.place}: one of the two is a copy",
                )


@recording_invariant
def a_directory_is_of_the_rank_in_its_files(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """The rank in the name of the directory above is that of the files' names. A warning: old GPU files name their device."""
    for cycle in cycles:
        above = next((parent.rank for parent in cycle.parents if parent.rank is not None), None)
        if above is not None and above != cycle.rank:
            yield Finding(
                code=Code.I113,
                severity=Severity.WARNING,
                place=cycle.place.name,
                rank=cycle.rank,
                message=f"its files are of rank {cycle.rank}, the directory it is in of rank {above}",
            )


@recording_invariant
def every_rank_of_the_recording_is_there(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """A recording of several ranks holds output of each. An error: perfguard started them itself."""
    if recording.fingerprint is None or recording.rank is not None or not cycles:
        return
    there = {cycle.rank for cycle in cycles}
    for rank in range(recording.fingerprint.world_size):
        if rank not in there:
            message = f"{recording.fingerprint.world_size} ranks were started, nothing of rank {rank} is here"
            yield Finding(code=Code.A107, place=f"rank {rank}", rank=rank, message=message)


@recording_invariant
def ranks_ran_the_same(recording: Recording, cycles: tuple[Cycle, ...]) -> Iterator[Finding]:
    """Ranks have as many steps as each other, and ran the same operators as often.

    Operators are a warning: the stages of a pipeline have their own. Steps are an error where perfguard recorded them.
    """
    if recording.fingerprint is None or recording.rank is not None:
        return
    steps: Counter[int] = Counter()
    calls: dict[int, Counter[str]] = {}
    for cycle in cycles:
        if cycle.executions is not None:
            steps[cycle.rank] += cycle.executions.steps or 0
            names = cycle.executions.frame.drop_nulls("step") if cycle.executions.by_step else cycle.executions.frame
            calls.setdefault(cycle.rank, Counter()).update(names["operator"].to_list())
    if len(calls) < 2:
        return
    first = min(calls)
    for rank in sorted(calls.keys() - {first}):
        if steps[rank] != steps[first]:
            message = f"rank {rank} recorded {steps[rank]} steps, rank {first} {steps[first]}"
            yield Finding(code=Code.C114, place=f"rank {rank}", rank=rank, message=message)
            continue
        differing = sorted(
            name for name in calls[rank].keys() | calls[first].keys() if calls[rank][name] != calls[first][name]
        )
        if differing:
            told = ", ".join(f"{name} {calls[rank][name]} x, not {calls[first][name]}" for name in differing[:4])
            more = f" and {len(differing) - 4} more" if len(differing) > 4 else ""
            yield Finding(
                code=Code.C114,
                severity=Severity.WARNING,
                place=f"rank {rank}",
                rank=rank,
                message=f"rank {rank} ran {told}{more}, as rank {first} did",
            )
