"""Paired timing: the steps of one workload on both sides, interleaved in one process or in turns in two."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfguard import child, thresholds
from perfguard.capture.ab.sides import RUN_MARK, Side, Timeable, command_of, fresh_directory, marked, run_side
from perfguard.capture.command import GRACE_S, Ended, end_command, last_line
from perfguard.capture.controlled import choose_cpus, controlled_environment
from perfguard.capture.worktree import Place
from perfguard.timing import LostRun, PairedTiming

#: How many pairs of processes may replace lost ones.
_MORE_PAIRS = 2
#: After so many lost processes without a single time no more are started.
_GIVEN_UP = 2

#: How the note on the timing of both sides in one process begins.
INTERLEAVED = "timed interleaved"

#: Shows what is being done on a terminal.
Show = Callable[[str], None]
IsSuspect = Callable[[tuple[PairedTiming, ...]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTimings:
    """The timings of both sides of one workload, and the processes that left none."""

    timings: tuple[PairedTiming, ...]
    lost: tuple[LostRun, ...]
    #: How the order of the sides was drawn; empty without timings.
    drawn: str = ""
    #: What was not controlled, or not as planned.
    limits: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """All of it for the report."""
        return (*self.limits, self.drawn) if self.drawn else self.limits


def time_pairs(
    base: tuple[Side, Timeable],
    current: tuple[Side, Timeable],
    place: Place,
    *,
    processes: int,
    together: bool,
    show: Show,
    is_suspect: IsSuspect = lambda timings: False,
) -> PairedTimings:
    """Time the steps of one workload on both sides: in one process if `together` and if it can hold both, else in turns.

    `is_suspect` decides whether more pairs of processes have to confirm what the first ones measured.
    """
    limits: tuple[str, ...] = ()
    if together:
        try:
            found = _pairs(
                lambda number: _one_together(base, current, place, number),
                lambda number, of: show(f"interleaved, process {number} of {of}"),
                needed=processes,
            )
            if found.timings or len(found.lost) < _GIVEN_UP:
                return found
            why = f"process {found.lost[-1].number} {found.lost[-1].reason}"
        except _CannotShare as error:
            why = str(error)
        limits = (f"not interleaved: one process cannot run both sides ({why}); two processes took turns",)
    found = _pairs(
        lambda number: _one_in_turns(base, current, place, number),
        lambda number, of: show(f"taking turns, pair {number} of {of}"),
        needed=thresholds.PROCESS_PAIRS,
        is_suspect=is_suspect,
    )
    return replace(found, limits=(*limits, *found.limits))


class _CannotShare(Exception):
    """Why one process cannot run both sides."""


def _pairs(
    one: Callable[[int], PairedTiming | LostRun],
    show: Callable[[int, int], None],
    *,
    needed: int,
    is_suspect: IsSuspect | None = None,
) -> PairedTimings:
    """Call `one` with 1, 2, ... until there are enough timings.

    With `is_suspect` lost ones are replaced, and more confirm a suspect result.
    """
    timings: list[PairedTiming] = []
    lost: list[LostRun] = []
    least, more = needed, 0 if is_suspect is None else _MORE_PAIRS
    while len(timings) < needed and len(timings) + len(lost) < needed + more:
        number = len(timings) + len(lost) + 1
        show(number, needed)
        found = one(number)
        if isinstance(found, PairedTiming):
            timings.append(found)
        else:
            lost.append(found)
        if len(lost) >= _GIVEN_UP and not timings:
            break
        if is_suspect is not None and len(timings) == least and is_suspect(tuple(timings)):
            needed = thresholds.CONFIRMING_PAIRS
    return PairedTimings(timings=tuple(timings), lost=tuple(lost), drawn=_drawn(timings), limits=_uncontrolled(timings))


def _one_together(
    base: tuple[Side, Timeable], current: tuple[Side, Timeable], place: Place, number: int
) -> PairedTiming | LostRun:
    """Time both in one process. Raises `_CannotShare`."""
    own = fresh_directory(place)
    seed = random.SystemRandom().randrange(2**32)
    assert base[0].moved is not None
    result = own / "result.json"
    request = {
        "do": "together",
        "sides": {
            side.name: {"directory": str(side.directory), "moved": side.moved, "request": about.request}
            for side, about in (base, current)
        },
        "checkout": base[0].moved[0],
        "threads": current[1].threads,
        "pairs": thresholds.PAIRS,
        "seed": seed,
        "result": str(result),
    }
    environment = controlled_environment(current[0].environment, threads=current[1].threads)
    timeout_s = thresholds.LEAST_TIMEOUT_S + base[1].timeout_s + current[1].timeout_s
    ended, line = run_side(current[0], request, own, place, environment=environment, timeout_s=timeout_s)
    if not result.is_file():
        return LostRun(number=number, reason=ended.sentence(timeout_s, line))
    found = json.loads(result.read_text(encoding="utf-8"))
    if "cannot" in found:
        raise _CannotShare(found["cannot"])
    return _timing(found, interleaved=True, seed=seed)


def _one_in_turns(
    base: tuple[Side, Timeable], current: tuple[Side, Timeable], place: Place, number: int
) -> PairedTiming | LostRun:
    cpus = choose_cpus(current[1].threads)
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    found: dict[str, Any] = {"base_ns": [], "current_ns": [], "base_wall_ns": [], "current_wall_ns": [], "cpus": cpus}
    try:
        with _started(*base, place, cpus) as one, _started(*current, place, cpus) as other:
            steppers = {"base": one, "current": other}
            found["clock"] = {name: stepper.reply("ready") for name, stepper in steppers.items()}["current"]
            for _ in range(thresholds.BLOCKS):
                for name in draw.sample(sorted(steppers), len(steppers)):
                    costs, walls = steppers[name].run(thresholds.BLOCK_STEPS)
                    found[f"{name}_ns"] += costs
                    found[f"{name}_wall_ns"] += walls
    except _LostProcess as lost:
        return LostRun(number=number, reason=str(lost))
    return _timing(found, interleaved=False, seed=seed)


def _timing(found: Mapping[str, Any], *, interleaved: bool, seed: int) -> PairedTiming:
    names = ("base_ns", "current_ns", "base_wall_ns", "current_wall_ns", "cpus")
    samples = {name: tuple(found[name]) for name in names}
    return PairedTiming(interleaved=interleaved, clock=found["clock"], seed=seed, **samples)


def _drawn(timings: Sequence[PairedTiming]) -> str:
    if not timings:
        return ""
    how = INTERLEAVED if timings[0].interleaved else "timed in turns"
    seeds = " ".join(str(timing.seed) for timing in timings)
    return f"{how}; the order was drawn with seed{'s' if len(timings) > 1 else ''} {seeds}"


def _uncontrolled(timings: Sequence[PairedTiming]) -> tuple[str, ...]:
    return () if all(timing.cpus for timing in timings) else ("the processes could not be bound to one CPU",)


# -- a process that takes turns ----------------------------------------------------------------------------------------


class _LostProcess(Exception):
    """A process that can run no more steps, and why."""


@dataclass(slots=True, kw_only=True)
class _Stepper:
    """A live process of one side that runs steps on request; `commands` and `replies` are pipes."""

    side: Side
    process: child.Popen[bytes]
    commands: int
    replies: int
    output: Path
    timeout_s: float
    read: bytes = b""

    def run(self, steps: int) -> tuple[list[int], list[int]]:
        """Have it run so many steps; return the cost and the wall time of each, in ns."""
        with contextlib.suppress(BrokenPipeError):
            # The other pipe shows that the process has ended.
            os.write(self.commands, f"{steps}\n".encode())
        costs, walls = self.reply("costs")
        return costs, walls

    def reply(self, key: str) -> Any:
        """Wait for its next reply: `ready` after the settling steps, with the clock of its costs, or `costs`."""
        deadline = time.monotonic() + self.timeout_s
        while b"\n" not in self.read:
            readable, _, _ = select.select([self.replies], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise self._lost(Ended(status=0, timed_out=True))
            if not (more := os.read(self.replies, 65536)):
                status = self.process.wait()
                raise self._lost(Ended(status=128 - status if status < 0 else status))
            self.read += more
        line, _, self.read = self.read.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        if key not in reply:
            raise self._lost(f"ended early: {reply.get('ended')}")
        return reply[key]

    def _lost(self, how: Ended | str) -> _LostProcess:
        if isinstance(how, Ended):
            line = last_line(self.output, only_errors=how.timed_out or how.status > 128)
            how = how.sentence(self.timeout_s, line)
        return _LostProcess(f"of the {'base' if self.side.name == 'base' else 'current side'} {how}")


@contextlib.contextmanager
def _started(side: Side, workload: Timeable, place: Place, cpus: tuple[int, ...]) -> Iterator[_Stepper]:
    """Start the process of one side, and end it with everything it started."""
    own = fresh_directory(place)
    (read_commands, commands), (replies, write_replies) = os.pipe(), os.pipe()
    request = {
        "do": "turns",
        "directory": str(side.directory),
        "moved": side.moved,
        "request": workload.request,
        "commands": read_commands,
        "replies": write_replies,
        "cpus": list(cpus),
    }
    environment = marked(controlled_environment(side.environment, threads=workload.threads), place, own)
    with open(own / "output", "wb") as output:
        process = child.start(
            command_of(side, request, own),
            env=environment,
            cwd=side.directory,
            start_new_session=True,
            stdin=child.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(read_commands, write_replies),
        )
    os.close(read_commands)
    os.close(write_replies)
    try:
        try:
            timeout_s = thresholds.LEAST_TIMEOUT_S + workload.timeout_s
            yield _Stepper(
                side=side,
                process=process,
                commands=commands,
                replies=replies,
                output=own / "output",
                timeout_s=timeout_s,
            )
        finally:
            os.close(commands)
        # There are no more turns: its test has a moment to end by itself.
        with contextlib.suppress(child.TimeoutExpired):
            process.wait(GRACE_S)
    finally:
        os.close(replies)
        end_command(process, mark=RUN_MARK, value=environment[RUN_MARK])
        process.wait()
