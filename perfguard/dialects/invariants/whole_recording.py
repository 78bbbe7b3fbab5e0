"""Rules for a whole recording: it completed, and every cycle, rank and timed step exists."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from perfguard.artifacts.schema import SHOWN_VIOLATIONS
from perfguard.dialects.executions import calls_by
from perfguard.dialects.extract import cycle_fact
from perfguard.dialects.invariants import recording_invariant
from perfguard.findings import Code, Finding, Severity
from perfguard.recording import RECORDING_FILE, STEPS_FILE, Ending
from perfguard.window import Phase

if TYPE_CHECKING:
    import polars as pl

    from perfguard.dialects.cycle import Cycle
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


@recording_invariant
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


@recording_invariant
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


@recording_invariant
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


@recording_invariant
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


@cycle_fact()
def world_size(cycle: Cycle) -> int | None:
    """The number of ranks that a trace states."""
    trace = cycle.content("trace")
    distributed = trace.document.get("distributedInfo") if trace is not None else None
    size = distributed.get("world_size") if isinstance(distributed, Mapping) else None
    return size if isinstance(size, int) else None


@recording_invariant
def every_rank_of_the_world_is_there(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """The directory has as many ranks as a trace states; otherwise some were not copied. A warning.

    Many projects profile one rank only, on purpose. Source: torch: distributedInfo.world_size.
    """
    worlds = [size for extract in extracts if (size := extract.fact(world_size)) is not None]
    ranks = sorted({extract.rank for extract in extracts})
    if worlds and len(ranks) < max(worlds) and recording.rank is None:
        yield Finding(
            code=Code.A107,
            severity=Severity.WARNING,
            place="ranks",
            message=f"the trace says {max(worlds)} ranks; only rank {', '.join(map(str, ranks))} is here "
            f"(if that is intended: `--expect ranks={len(ranks)}`)",
        )


#: Slots with times: two cycles cannot have equal ones.
_TIMED = ("trace", "trace_view", "kernel_details", "cpu_op_execute_timestamp", "output_timeline_data")


@cycle_fact()
def times_seen(cycle: Cycle) -> tuple[tuple[str, str, bytes], ...]:
    """Slot, place and digest of each table with times; equal tables have equal digests."""
    found = []
    for slot in _TIMED:
        artifact = cycle.artifacts.get(slot)
        if artifact is None:
            continue
        if artifact.content.digest:
            # It went by in chunks; the same file again does so too.
            found.append((slot, artifact.place, artifact.content.digest))
        elif artifact.content.table is not None and artifact.content.table.streamed is not None:
            # Of streamed kernels the sums, and the first and last start of each name [ns], are known.
            if cycle.executions is not None and cycle.executions.groups.height:
                found.append((slot, artifact.place, _digest(cycle.executions.groups)))
        elif artifact.content.table is not None and artifact.content.frame.height:
            found.append((slot, artifact.place, _digest(artifact.content.frame)))
    return tuple(found)


def _digest(frame: pl.DataFrame) -> bytes:
    """Return 32 bytes that are the same for equal tables in every process.

    They consist of a hash of the column names, the number of rows, and two sums of a 64-bit hash of each row and its place.
    """
    import polars as pl

    rows = pl.DataFrame({"row": frame.hash_rows(seed=0), "place": pl.int_range(frame.height, eager=True)})
    sums = [int(rows.hash_rows(seed=seed).sum()) % 2**64 for seed in (1, 2)]
    names = hashlib.blake2b("\0".join(frame.columns).encode(), digest_size=8).digest()
    return names + b"".join(number.to_bytes(8, "big") for number in (frame.height, *sums))


@recording_invariant
def no_cycle_is_there_twice(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """No two cycles have the same times: one of them is a copy, perhaps instead of another rank's. Exact."""
    seen: dict[tuple[str, bytes], str] = {}
    for extract in extracts:
        for slot, place, digest in extract.fact(times_seen) or ():
            if (same := seen.get((slot, digest))) is None:
                seen[slot, digest] = place
            else:
                yield Finding(
                    code=Code.I113,
                    place=place,
                    rank=extract.rank,
                    message=f"it has the same rows as {same}: one of the two is a copy",
                )


@recording_invariant
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


@recording_invariant
def every_rank_of_the_recording_is_there(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """A recording of several ranks has output of each. An error: perfguard started them itself."""
    if recording.fingerprint is None or recording.rank is not None or not extracts:
        return
    world = recording.fingerprint.world_size
    there = {extract.rank for extract in extracts}
    for rank in islice((rank for rank in range(world) if rank not in there), SHOWN_VIOLATIONS):
        message = f"{world} ranks were started, but rank {rank} is missing"
        yield Finding(code=Code.A107, place=f"rank {rank}", rank=rank, message=message)
    missing = world - sum(0 <= rank < world for rank in there)
    if (more := missing - SHOWN_VIOLATIONS) > 0:
        message = f"and {more} more ranks are missing"
        yield Finding(code=Code.A107, place="ranks", message=message, more=more)


def _has_several_ranks(recording: Recording) -> bool:
    return recording.fingerprint is not None and recording.rank is None


#: Steps, and calls by operator.
Ran = tuple[int, tuple[tuple[str, int], ...]]


@cycle_fact(is_needed=_has_several_ranks)
def ran_in_the_window(cycle: Cycle) -> Ran | None:
    """The number of steps, and the calls of every operator in them."""
    if cycle.executions is None:
        return None
    calls = calls_by(cycle.executions.of_the_window, "operator")
    return cycle.executions.steps or 0, tuple(calls.items())


def _added_up(cycles: list[Ran]) -> tuple[int, Counter[str]]:
    calls: Counter[str] = Counter()
    for _, of_cycle in cycles:
        calls.update(dict(of_cycle))
    return sum(steps for steps, _ in cycles), calls


@recording_invariant
def ranks_ran_the_same(recording: Recording, extracts: tuple[Extract, ...]) -> Iterator[Finding]:
    """All ranks have the same number of steps, and the same calls of the same operators.

    Different operators are a warning: the stages of a pipeline have their own. Different steps are an error.
    """
    if not _has_several_ranks(recording):
        return
    ran: dict[int, list[Ran]] = {}
    for extract in extracts:
        if (of_cycle := extract.fact(ran_in_the_window)) is not None:
            ran.setdefault(extract.rank, []).append(of_cycle)
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
            named = ", ".join(f"{name} {calls[name]} x, not {first_calls[name]}" for name in differing[:4])
            more = f" and {len(differing) - 4} more" if len(differing) > 4 else ""
            yield Finding(
                code=Code.C114,
                severity=Severity.WARNING,
                place=f"rank {rank}",
                rank=rank,
                message=f"rank {rank} ran {named}{more}, as rank {first} did",
            )
