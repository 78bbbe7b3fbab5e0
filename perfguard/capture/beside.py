"""Two sides beside each other: the processes of `perfguard ab`, seen from the one that starts them.

Each side is recorded by pytest in a process of its own. Then the steps of each workload are timed: both sides in one process,
step by step, where one process bears both; else in two processes that take turns on one CPU. What runs inside is `plugin.side`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfguard import thresholds
from perfguard.capture.command import END_WITH_PARENT, GRACE_S, HOME, Ended, end_command, run_command
from perfguard.capture.controlled import choose_cpus, controlled_environment
from perfguard.capture.worktree import MARK, Place, Worktree, relocated, without_git_variables
from perfguard.errors import UsageError
from perfguard.timing import LostRun, PairedTiming

#: Seconds after which a process is taken for hung: so many, and so many times what its test took when it was recorded.
_LEAST_TIMEOUT_S = 120.0
_TIMEOUT_FACTOR = 20.0
#: Seconds in which an interpreter says what it has.
_PROBE_TIMEOUT_S = 120.0
#: Pairs of processes that are started beyond those needed, in place of lost ones.
_MORE_PAIRS = 2
#: So many lost processes, and none that left a time, and no more are started.
_GIVEN_UP = 2
#: pytest's status where it was called with what is not there.
_REFUSED = 4

#: How the note on the timing of both sides in one process begins.
INTERLEAVED = "timed interleaved"

#: Of one run, beside the mark of the whole comparison.
_RUN_MARK = "PERFGUARD_BESIDE_RUN"
#: perfguard is imported before the side's paths are looked at: it is the running one also where the project is perfguard.
_START = (
    f"{END_WITH_PARENT}; import sys; sys.path.insert(0, sys.argv[1]); import perfguard; del sys.path[0]; "
    "from perfguard.plugin.side import main; main(sys.argv[2])"
)
_PROBE = (
    "import json, os, sys, perfguard, pytest; "
    "print(json.dumps([perfguard.__version__, os.path.dirname(os.path.dirname(os.path.realpath(perfguard.__file__)))]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: which interpreter runs it, where, and the worktree it lies in, if it does."""

    name: str
    python: str
    #: The directory its perfguard is imported from.
    home: str
    directory: Path
    environment: Mapping[str, str]
    #: The top of the checkout, where the other side lies in a worktree of it.
    checkout: str | None = None
    #: The checkout, and the worktree that stands for it, of that other side.
    moved: tuple[str, str] | None = None

    @property
    def top(self) -> str | None:
        """The top of the tree this side's code is to come from; None where both run the same files."""
        return self.moved[1] if self.moved is not None else self.checkout

    def argument(self, text: str) -> str:
        """Return an argument of pytest's as this side is given it: paths into the checkout lead into the worktree."""
        if self.moved is None:
            return text
        option, equals, value = text.partition("=") if text.startswith("-") else ("", "", text)
        path, colons, names = value.partition("::")
        if not os.path.isabs(path):
            return text
        return f"{option}{equals}{relocated(path, *self.moved)}{colons}{names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeable:
    """A workload whose steps another process can run again."""

    request: str
    threads: int
    took_s: float
    #: How long pytest took to come to the test.
    before_s: float = 0.0
    #: What its side had set for the whole process when it ran.
    switches: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What pytest came to on one side. `report` is there where anything was measured, `status` where pytest came to its end."""

    status: int | None
    report: Path
    timed: dict[str, Timeable] = field(default_factory=dict)
    #: Why tests and files did not come to an end, by node.
    reasons: dict[str, str] = field(default_factory=dict)
    #: Modules that were not the side's own.
    strangers: tuple[str, ...] = ()
    #: Tests that use perfguard and failed, and why.
    failed: dict[str, str] = field(default_factory=dict)
    #: Tests that use perfguard, and that a run which ended early did not come to.
    unreached: tuple[str, ...] = ()
    #: Files and tests that were named, and those of them that are not there.
    places: tuple[str, ...] = ()
    not_found: tuple[str, ...] = ()
    last_words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What timing both sides of one workload left: timings, processes that were lost, and what is to be told."""

    timings: tuple[PairedTiming, ...]
    lost: tuple[LostRun, ...]
    notes: tuple[str, ...] = ()


#: Told what is being done, for a terminal.
Say = Callable[[str], None]


def current_side(directory: Path, checkout: Path | None = None) -> Side:
    """Return the user's own side: this interpreter, this directory, whatever lies there."""
    return Side(
        name="current",
        python=sys.executable,
        home=HOME,
        directory=directory,
        environment=without_git_variables(os.environ),
        checkout=str(checkout) if checkout is not None else None,
    )


def base_in(worktree: Worktree, current: Side) -> Side:
    """Return the side of a worktree of the current side's checkout. Raises `UsageError` where it has no such directory."""
    assert current.checkout is not None
    top = current.checkout
    directory = worktree.top / current.directory.relative_to(top)
    if not directory.is_dir():
        raise UsageError(
            f"{worktree.commit[:12]} has no directory {current.directory.relative_to(top)}; run this where both have tests."
        )
    moved = (top, str(worktree.top))
    environment = dict(current.environment)
    if paths := environment.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.pathsep.join(relocated(one, *moved) for one in paths.split(os.pathsep))
    return replace(current, name="base", directory=directory, environment=environment, checkout=top, moved=moved)


def base_on(python: Path, current: Side, version: str) -> Side:
    """Return the side of another interpreter in the same directory. Raises `UsageError` where it has not this perfguard."""
    path = os.path.abspath(python)
    environment = {**current.environment, "PATH": os.pathsep.join((os.path.dirname(path), os.environ.get("PATH", "")))}
    install = f"{path} -m pip install perfguard=={version}"
    try:
        found = subprocess.run(
            [path, "-c", _PROBE],
            env=environment,
            cwd=current.directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = getattr(error, "strerror", None) or "it did not answer"
        raise UsageError(
            f"{python} cannot be run: {why}; name an interpreter, such as other-env/bin/python."
        ) from error
    said = [line.strip() for line in found.stdout.splitlines() if line.strip()]
    if found.returncode != 0 or not said:
        last = [line.strip() for line in found.stderr.splitlines() if line.strip()][-1:] or ["it said nothing"]
        raise UsageError(f"{python} has no perfguard that can be imported ({last[0]}); run: {install}")
    theirs, home = json.loads(said[-1])
    if theirs != version:
        raise UsageError(f"{python} has perfguard {theirs}, and this is {version}; run: {install}")
    return Side(name="base", python=path, home=home, directory=current.directory, environment=environment)


# -- recording a side --------------------------------------------------------------------------------------------------


def record(
    side: Side, place: Place, arguments: Sequence[str], *, time: bool, timeout_s: float, recordings: Path | None = None
) -> Recorded:
    """Run pytest as the user calls it, on one side, and measure without judging.

    Nothing is written into the side's tree, but by its own tests. Of several files or tests that are named, those that a base
    lacks are left out.
    """
    named = [side.argument(one) for one in arguments]
    while True:
        recorded = _record(side, place, named, time=time, timeout_s=timeout_s, recordings=recordings)
        # pytest names the first that it misses, so there may be more.
        kept = [one for one in named if not _is_among(one, side.directory, recorded.not_found)]
        if side.name != "base" or len(kept) == len(named) or not set(kept) & set(recorded.places):
            return recorded
        named = kept


def _record(
    side: Side, place: Place, arguments: Sequence[str], *, time: bool, timeout_s: float, recordings: Path | None
) -> Recorded:
    own = _fresh(place)
    report, result = own / "report.json", own / "facts.json"
    options = [
        *("--perfguard-update", "--perfguard-runs=0", f"--perfguard-time={'on' if time else 'off'}"),
        *(f"--perfguard-baselines={own / 'baselines'}", f"--perfguard-report={report}"),
        *(f"--perfguard-recordings={recordings or own / 'recordings'}", f"--basetemp={own / 'tmp'}"),
        *("-o", f"cache_dir={own / 'cache'}"),
        # pytest empties it as it starts, and a run that has this one confirm a time is still writing it.
        *("-o", f"log_file={os.devnull}"),
    ]
    asked = {
        "do": "record",
        "directory": str(side.directory),
        "moved": side.moved,
        "top": side.top,
        "checkout": side.checkout,
        "arguments": [*arguments, *options],
        "requests": str(own / "requests"),
        "result": str(result),
    }
    ended, said = _run(side, asked, own, place, environment=side.environment, timeout_s=timeout_s)
    facts = json.loads(result.read_text(encoding="utf-8")) if result.is_file() else {}
    return Recorded(
        status=facts.get("status"),
        report=report,
        timed={name: Timeable(**one) for name, one in facts.get("timed", {}).items()},
        reasons=facts.get("reasons", {}),
        strangers=tuple(facts.get("strangers", ())),
        unreached=tuple(facts.get("unreached", ())),
        failed=facts.get("failed", {}),
        places=tuple(facts.get("places", ())),
        not_found=_not_found(own / "output") if facts.get("status") == _REFUSED else (),
        last_words=ended.sentence(timeout_s, said, did=""),
    )


def _not_found(output: Path) -> tuple[str, ...]:
    """Return the files and tests that pytest says it was named and cannot find."""
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line.partition("not found: ") for line in lines if line.startswith("ERROR: ") and "not found: " in line]
    return tuple(dict.fromkeys(what.partition(" (no ")[0].strip() for _, _, what in told))


def _is_among(argument: str, directory: Path, names: Sequence[str]) -> bool:
    """Whether an argument is one of the files or tests named: pytest names a file as it was given, a test by its full path."""
    return argument in names or os.path.join(directory, argument) in names


def _run(
    side: Side,
    asked: Mapping[str, Any],
    own: Path,
    place: Place,
    *,
    environment: Mapping[str, str],
    timeout_s: float,
) -> tuple[Ended, str]:
    """Run one process of a comparison to its end; return how it ended, and its last words."""
    path = own / "asked.json"
    path.write_text(json.dumps(asked), encoding="utf-8")
    with open(own / "output", "wb") as output:
        ended = run_command(
            _command(side, path),
            environment=_marked(environment, place, own),
            mark=_RUN_MARK,
            timeout_s=timeout_s,
            output=output,
            directory=side.directory,
        )
    return ended, _last_words(own / "output", was_ended=ended.timed_out or ended.status > 128)


def _command(side: Side, asked: Path) -> list[str]:
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [side.python, *flags, "-c", _START, side.home, str(asked)]


def _marked(environment: Mapping[str, str], place: Place, own: Path) -> dict[str, str]:
    temporary = own / "temporary"
    temporary.mkdir()
    # Not one compiled file into the user's checkout, and what is temporary goes away with all else. A side alone is no news
    # for the page of a job.
    own_variables = {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(temporary), "GITHUB_STEP_SUMMARY": ""}
    return {**environment, **own_variables, MARK: place.mark, _RUN_MARK: f"{place.mark}-{own.name}"}


def _last_words(path: Path, *, was_ended: bool) -> str:
    """Return the last thing a process said that tells something, for one line; one that somebody ended said nothing of it."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E  ", "ERROR: ", "perfguard: ", "Fatal"))]
    telling = errors[-1:] if was_ended else [*errors[-1:], *lines[-1:]]
    return telling[0].removeprefix("E  ").removeprefix("ERROR: ").strip()[:300] if telling else ""


# -- timing both -------------------------------------------------------------------------------------------------------


def time_beside(
    base: tuple[Side, Timeable],
    current: tuple[Side, Timeable],
    place: Place,
    *,
    processes: int,
    together: bool,
    say: Say,
    is_suspect: Callable[[tuple[PairedTiming, ...]], bool] = lambda timings: False,
) -> Beside:
    """Time the steps of one workload on both sides: in one process where that is wanted and they bear it, else in turns.

    `is_suspect` says of pairs that took turns whether more of them have to confirm what they saw.
    """
    notes: tuple[str, ...] = ()
    if together:
        found = _together(base, current, place, processes=processes, say=say)
        if isinstance(found, Beside):
            return found
        notes = (f"not interleaved, as one process does not bear both ({found}); two processes took turns",)
    found = _in_turns(base, current, place, say=say, is_suspect=is_suspect)
    return Beside(timings=found.timings, lost=found.lost, notes=(*notes, *found.notes))


def _together(
    base: tuple[Side, Timeable], current: tuple[Side, Timeable], place: Place, *, processes: int, say: Say
) -> Beside | str:
    """Time both in one process, so many times; or return why that cannot be."""
    timings: list[PairedTiming] = []
    lost: list[LostRun] = []
    for number in range(1, processes + 1):
        say(f"interleaved, process {number} of {processes}")
        found = _one_together(base, current, place, number)
        if isinstance(found, str):
            return found
        if isinstance(found, PairedTiming):
            timings.append(found)
        else:
            lost.append(found)
        if len(lost) >= _GIVEN_UP and not timings:
            return f"process {lost[-1].number} {lost[-1].reason}"
    return Beside(timings=tuple(timings), lost=tuple(lost), notes=_notes(timings))


def _one_together(
    base: tuple[Side, Timeable], current: tuple[Side, Timeable], place: Place, number: int
) -> PairedTiming | LostRun | str:
    own = _fresh(place)
    seed = random.SystemRandom().randrange(2**32)
    assert base[0].moved is not None
    result = own / "result.json"
    asked = {
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
    timeout_s = _timeout(base[1], current[1])
    ended, said = _run(current[0], asked, own, place, environment=environment, timeout_s=timeout_s)
    if not result.is_file():
        return LostRun(number=number, reason=ended.sentence(timeout_s, said))
    found = json.loads(result.read_text(encoding="utf-8"))
    return str(found["cannot"]) if "cannot" in found else _timing(found, interleaved=True, seed=seed)


def _in_turns(
    base: tuple[Side, Timeable],
    current: tuple[Side, Timeable],
    place: Place,
    *,
    say: Say,
    is_suspect: Callable[[tuple[PairedTiming, ...]], bool],
) -> Beside:
    """Time each in a process of its own, block by block, with as many fresh pairs of processes as the rule needs."""
    timings: list[PairedTiming] = []
    lost: list[LostRun] = []
    needed = thresholds.PROCESS_PAIRS
    while len(timings) < needed and len(timings) + len(lost) < needed + _MORE_PAIRS:
        number = len(timings) + len(lost) + 1
        say(f"taking turns, pair {number} of {needed}")
        found = _one_in_turns(base, current, place, number)
        if isinstance(found, PairedTiming):
            timings.append(found)
        else:
            lost.append(found)
        if len(lost) >= _GIVEN_UP and not timings:
            break
        if len(timings) == thresholds.PROCESS_PAIRS and is_suspect(tuple(timings)):
            needed = thresholds.CONFIRMING_PAIRS
    return Beside(timings=tuple(timings), lost=tuple(lost), notes=_notes(timings))


def _one_in_turns(
    base: tuple[Side, Timeable], current: tuple[Side, Timeable], place: Place, number: int
) -> PairedTiming | LostRun:
    cpus = choose_cpus(current[1].threads)
    seed = random.SystemRandom().randrange(2**32)
    draw = random.Random(seed)
    found: dict[str, Any] = {"base_ns": [], "current_ns": [], "base_wall_ns": [], "current_wall_ns": [], "cpus": cpus}
    try:
        with _stepper(*base, place, cpus) as one, _stepper(*current, place, cpus) as other:
            steppers = {"base": one, "current": other}
            found["clock"] = {name: stepper.ready() for name, stepper in steppers.items()}["current"]
            for _ in range(thresholds.BLOCKS):
                for name in draw.sample(sorted(steppers), len(steppers)):
                    costs, walls = steppers[name].run(thresholds.BLOCK_STEPS)
                    found[f"{name}_ns"] += costs
                    found[f"{name}_wall_ns"] += walls
    except _Lost as lost:
        return LostRun(number=number, reason=str(lost))
    return _timing(found, interleaved=False, seed=seed)


class _Lost(Exception):
    """A process that has no more steps to give, and why."""


class _Stepper:
    """A live process of one side, seen from outside: it runs steps when it is told to."""

    def __init__(
        self, side: Side, process: subprocess.Popen[bytes], commands: int, replies: int, output: Path, timeout_s: float
    ) -> None:
        self._side = side
        self._process = process
        self._commands = commands
        self._replies = replies
        self._output = output
        self._timeout_s = timeout_s
        self._read = b""

    def ready(self) -> str:
        """Wait until its steps have settled; return the clock its costs are of."""
        return str(self._reply("ready"))

    def run(self, steps: int) -> tuple[list[int], list[int]]:
        """Let it run so many steps; return what each cost, and how long it took by the clock, in ns."""
        with contextlib.suppress(BrokenPipeError):
            # One that has gone says so at the other pipe.
            os.write(self._commands, f"{steps}\n".encode())
        costs, walls = self._reply("costs")
        return costs, walls

    def _reply(self, wanted: str) -> Any:
        reply = self._line()
        if reply is None:
            status = self._process.wait()
            status = 128 - status if status < 0 else status
            said = _last_words(self._output, was_ended=status > 128)
            raise self._lost(Ended(status=status).sentence(self._timeout_s, said))
        if wanted not in reply:
            raise self._lost(f"ended early: {reply.get('ended')}")
        return reply[wanted]

    def _line(self) -> dict[str, Any] | None:
        deadline = time.monotonic() + self._timeout_s
        while b"\n" not in self._read:
            readable, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                said = _last_words(self._output, was_ended=True)
                raise self._lost(Ended(status=0, timed_out=True).sentence(self._timeout_s, said))
            if not (more := os.read(self._replies, 65536)):
                return None
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _lost(self, how: str) -> _Lost:
        return _Lost(f"of the {'base' if self._side.name == 'base' else 'current side'} {how}")


@contextmanager
def _stepper(side: Side, about: Timeable, place: Place, cpus: tuple[int, ...]) -> Iterator[_Stepper]:
    """Start one side's process, and end it with all it started."""
    own = _fresh(place)
    (read_commands, commands), (replies, write_replies) = os.pipe(), os.pipe()
    asked = {
        "do": "turns",
        "directory": str(side.directory),
        "moved": side.moved,
        "request": about.request,
        "commands": read_commands,
        "replies": write_replies,
        "cpus": list(cpus),
    }
    (own / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    environment = _marked(controlled_environment(side.environment, threads=about.threads), place, own)
    with open(own / "output", "wb") as output:
        process = subprocess.Popen(
            _command(side, own / "asked.json"),
            env=environment,
            cwd=side.directory,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(read_commands, write_replies),
        )
    os.close(read_commands)
    os.close(write_replies)
    try:
        try:
            yield _Stepper(side, process, commands, replies, own / "output", _timeout(about))
        finally:
            os.close(commands)
        # No more turns: its test is given a moment to end as tests do.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    finally:
        os.close(replies)
        end_command(process, mark=_RUN_MARK, value=environment[_RUN_MARK])
        process.wait()


def _fresh(place: Place) -> Path:
    own = place.directory / f"run-{sum(1 for _ in place.directory.glob('run-*'))}"
    own.mkdir()
    return own


def _timeout(*sides: Timeable) -> float:
    return _LEAST_TIMEOUT_S + sum(side.before_s + _TIMEOUT_FACTOR * side.took_s for side in sides)


def _timing(found: Mapping[str, Any], *, interleaved: bool, seed: int) -> PairedTiming:
    return PairedTiming(
        interleaved=interleaved,
        base_ns=tuple(found["base_ns"]),
        current_ns=tuple(found["current_ns"]),
        base_wall_ns=tuple(found["base_wall_ns"]),
        current_wall_ns=tuple(found["current_wall_ns"]),
        clock=found["clock"],
        seed=seed,
        cpus=tuple(found["cpus"]),
    )


def _notes(timings: Sequence[PairedTiming]) -> tuple[str, ...]:
    """Say what the numbers were drawn with, and what could not be controlled."""
    if not timings:
        return ()
    how = INTERLEAVED if timings[0].interleaved else "timed in turns"
    drawn = f"{how}; the order was drawn with seed{'s' if len(timings) > 1 else ''} " + " ".join(
        str(timing.seed) for timing in timings
    )
    unbound = () if all(timing.cpus for timing in timings) else ("the processes could not be bound to one CPU",)
    return (drawn, *unbound)
