"""The processes of an A/B comparison: each runs one side of `perfguard ab`, or both.

A process `record`s a side (pytest as the user calls it, exact metrics), runs the steps of one workload in `turns` with another
process, or runs those of both sides `together`, each in a thread that owns its step. For a side in a worktree all paths of the
checkout are replaced by the worktree's, also those of an editable install of the project.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from perfguard.capture import Backend
from perfguard.capture.ab.policy import PolicyTree
from perfguard.capture.controlled import TurnsWindow, bind, process_switches
from perfguard.errors import CaptureError
from perfguard.plugin.controlled import (
    IMPORTED_BEFORE,
    Controlled,
    Reasons,
    Request,
    TimedTest,
    read_request,
    run_tests,
    write_request,
)
from perfguard.plugin.gate_tests import is_gate_test
from perfguard.plugin.options import POLICY
from perfguard.plugin.place import Place, opened_below, strangers, taken_from
from perfguard.plugin.session import GateSession
from perfguard.workload import workload_of
from perfguard.writing import write_atomically

#: Pairs of steps that are run and not counted: the sides have just been loaded one after the other.
_UNCOUNTED_PAIRS = 3
#: Seconds that a test is given to end after its last step.
_ENDING_S = 30.0


def main() -> None:
    """Do what the request of a comparison says."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    {"record": _record, "turns": _take_turns, "together": _run_together}[request["do"]](request)


def _record(request: dict[str, Any]) -> None:
    place = Place(request["directory"], request["moved"])
    opened = opened_below(request["moved"][0]) if request["moved"] else {}
    place.settle()
    place.lead_children()
    policy = None if request["policy"] is None else PolicyTree(**request["policy"])
    recorder = Recorder(Path(request["requests"]), request["moved"], policy)
    status = int(pytest.main([*request["arguments"], "-W", IMPORTED_BEFORE], plugins=[recorder]))
    tops = (request["top"], request["directory"], *recorder.roots)
    facts = {
        "status": status,
        "timed": recorder.timed,
        "reasons": recorder.reasons,
        "failed": {node: why for node, why in recorder.failed.items() if node in recorder.guarded},
        "unreached": recorder.unreached,
        "problems": recorder.problems,
        "places": recorder.places,
        "directories": recorder.directories,
        "taken": taken_from(_read_by_tests(opened, policy), request["moved"]) if opened else [],
        "strangers": strangers(tops, request["checkout"]) if request["top"] else [],
    }
    write_atomically(Path(request["result"]), json.dumps(facts))
    sys.exit(status)


def _read_by_tests(opened: Iterable[str], policy: PolicyTree | None) -> list[str]:
    """Leave out what perfguard itself reads of the checkout, where the settings of the working tree count."""
    if policy is None or policy.is_of_base:
        return [*opened]
    return [path for path in opened if not path.endswith(("pyproject.toml", ".sql"))]


class Recorder(Reasons):
    """Leaves a request for every workload whose steps another process can run again."""

    def __init__(self, directory: Path, moved: tuple[str, str] | None = None, policy: PolicyTree | None = None) -> None:
        super().__init__()
        self.directory = directory
        self.timed: dict[str, dict[str, Any]] = {}
        #: Files and tests that were named, where projects may lie, and tests that use perfguard.
        self.places: list[str] = []
        self.roots: tuple[str, ...] = ()
        self.guarded: set[str] = set()
        #: Tests that use perfguard, and that a run which ended early did not come to.
        self.unreached: list[str] = []
        #: The directories of their files.
        self.directories: list[str] = []
        #: What the session could not do, such as writing its report.
        self.problems: list[str] = []
        self._moved = moved
        self._policy = policy
        self._environment = dict(os.environ)
        self._switches: dict[str, dict[str, str]] = {}

    def pytest_addoption(self, parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
        """Let pytest know of the settings that this comparison gives it, where `-p no:...` left out what has them."""
        if pluginmanager.is_blocked("cacheprovider"):
            parser.addini("cache_dir", "Where a cache would lie.")
        if pluginmanager.is_blocked("logging"):
            parser.addini("log_file", "Where a log would lie.")

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Remember where pytest looks, and refuse workers: nobody could say whose code they ran."""
        if self._policy is not None:
            config.stash[POLICY] = self._policy
        self.places = [str(one) for one in config.args]
        self.roots = (str(config.rootpath),)
        if getattr(config.option, "numprocesses", None) or getattr(config.option, "tx", None):
            raise pytest.UsageError("perfguard ab runs one test after the other; leave out -n, or write -n0")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Remember which tests use perfguard."""
        self.guarded = {item.nodeid for item in items if is_gate_test(item)}
        self.directories = sorted({str(item.path.parent) for item in items if is_gate_test(item)})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Remember what was set for the whole process while the test ran."""
        try:
            return (yield)
        finally:
            self._switches[item.nodeid] = self._comparable(process_switches(self._environment))

    def _comparable(self, switches: dict[str, str]) -> dict[str, str]:
        """Return settings without this side's own paths, and with those of the checkout instead of its worktree's."""
        switches = {name: value.replace(str(self.directory.parent), "") for name, value in switches.items()}
        if self._moved is None:
            return switches
        checkout, worktree = self._moved
        return {name: value.replace(worktree, checkout) for name, value in switches.items()}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the requests."""
        gate: GateSession | None = session.config.pluginmanager.get_plugin("perfguard-session")
        if gate is None:
            return
        self.unreached = gate.tests.unreached
        self.problems = gate.judging.problems
        # Those with a guard of an autouse fixture are known by what they measured.
        self.guarded |= {workload_of(workload).test for workload in gate.judging.verdicts}
        for workload, (item, settings, took_s) in gate.judging.timeable.items():
            place = self.directory / str(len(self.timed))
            place.mkdir(parents=True)
            test = TimedTest(nodeid=item.nodeid, settings=settings, workloads=frozenset({workload}))
            write_request(session.config, [test], place)
            self.timed[workload] = {
                "request": str(place / "request"),
                "threads": settings.threads,
                "took_s": took_s,
                "before_s": gate.judging.ready_s,
                "switches": self._switches.get(item.nodeid, {}),
            }


class Paired(Controlled):
    """The plugin of a side whose steps are run in turns."""

    def __init__(self, request: Request, cpus: tuple[int, ...], turns: PipeTurns | ThreadTurns) -> None:
        super().__init__(request, cpus)
        self.turns = turns

    def window(self, backend: Backend, test: TimedTest, workload: str) -> TurnsWindow:
        """Return what runs the steps in their turns."""
        return TurnsWindow(backend, self.turns, settle=test.settings.window.skip_first)

    def reason(self, error: str = "") -> str:
        """Return why the test runs no step, or no more: the reason that pytest reported, else `error`."""
        return "; ".join(dict.fromkeys(self.reasons.values())) or error or "the test ended without a step to time"


def _take_turns(request: dict[str, Any]) -> None:
    place = Place(request["directory"], request["moved"])
    place.settle()
    tests = read_request(request["request"])
    turns = PipeTurns(request["commands"], request["replies"])
    side = Paired(tests, bind(tests.threads, tuple(request["cpus"])), turns)
    try:
        run_tests(tests, side)
    finally:
        turns.reply(ended=side.reason())


class PipeTurns:
    """Turns from another process: it sends a line with the number of steps, and gets a line of JSON."""

    def __init__(self, commands: int, replies: int) -> None:
        self._commands = os.fdopen(commands, "r", encoding="ascii")
        self._replies = replies

    def reply(self, **reply: object) -> None:
        """Write one line, unless the other process has ended."""
        with suppress(BrokenPipeError):
            os.write(self._replies, json.dumps(reply).encode() + b"\n")

    def ready(self, clock: str) -> None:
        """Report that the settling steps have run."""
        self.reply(ready=clock)

    def wait(self) -> int:
        """Read the next number of steps; 0 at the end of the pipe."""
        return int(self._commands.readline() or 0)

    def done(self, costs_ns: list[int], wall_ns: list[int]) -> None:
        """Return the costs of the turn."""
        self.reply(costs=[costs_ns, wall_ns])


class ThreadTurns:
    """Turns of one thread, given by another: one of the two always waits."""

    def __init__(self) -> None:
        self.clock: str | None = None
        self._turns: SimpleQueue[int] = SimpleQueue()
        self._replies: SimpleQueue[tuple[list[int], list[int]] | None] = SimpleQueue()

    def ready(self, clock: str) -> None:
        """Report that the settling steps have run."""
        self.clock = clock
        self._replies.put(([], []))

    def wait(self) -> int:
        """Wait until the other thread gives a turn."""
        return self._turns.get()

    def done(self, costs_ns: list[int], wall_ns: list[int]) -> None:
        """Return the costs of the turn."""
        self._replies.put((costs_ns, wall_ns))

    def end(self) -> None:
        """Report that there are no more turns."""
        self._replies.put(None)

    def give(self, steps: int) -> None:
        """Give a turn of so many steps, in the other thread; 0 ends the side."""
        self._turns.put(steps)

    def rest(self) -> tuple[list[int], list[int]] | None:
        """Wait, in the other thread, for the costs of the turn in ns; None if the side has ended."""
        return self._replies.get()


class ThreadSide:
    """One side in a thread of this process, which owns its step: what is local to a thread stays its own."""

    def __init__(self, name: str, request: Request, place: Place, cpus: tuple[int, ...]) -> None:
        self.name = name
        self.place = place
        self.turns = ThreadTurns()
        self.plugin = Paired(request, cpus, self.turns)
        self._error = ""
        self._thread = threading.Thread(target=self._run, args=(request,), daemon=True)

    def start(self) -> None:
        """Run its test up to the steps that are timed. Raises `CaptureError` where it does not come so far."""
        self._thread.start()
        self._required(self.turns.rest())

    def step(self) -> tuple[int, int]:
        """Run one step; return its cost, and how long it took by the clock. Raises `CaptureError` where the test ended."""
        self.place.enter()
        self.turns.give(1)
        reply = self.turns.rest()
        self.place.leave()
        (cost,), (wall,) = self._required(reply)
        return cost, wall

    def finish(self) -> None:
        """Let its test end."""
        self.place.enter()
        self.turns.give(0)
        self._thread.join(_ENDING_S)
        self.place.leave()

    def _run(self, request: Request) -> None:
        try:
            run_tests(request, self.plugin)
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            self._error = f"{type(error).__name__}: {error}"
        finally:
            self.turns.end()

    def _required(self, reply: tuple[list[int], list[int]] | None) -> tuple[list[int], list[int]]:
        if reply is None:
            raise CaptureError(f"{self.name}: {self.plugin.reason(self._error)}")
        return reply


def _run_together(request: dict[str, Any]) -> None:
    result = Path(request["result"])
    try:
        found = _timed_together(request)
    except Exception as error:  # noqa: BLE001 - whatever fails in one process is a reason to use two
        found = {"cannot": str(error)}
    write_atomically(result, json.dumps(found))
    sys.stdout.flush()
    # A test that hangs would keep the process.
    os._exit(0)


def _timed_together(request: dict[str, Any]) -> dict[str, Any]:
    cpus = bind(request["threads"])
    places = {
        name: Place(one["directory"], one["moved"], top=request["checkout"]) for name, one in request["sides"].items()
    }
    sides = {}
    for name, place in places.items():
        place.settle()
        sides[name] = ThreadSide(name, read_request(request["sides"][name]["request"]), place, cpus)
        sides[name].start()
        place.leave()
    found = _interleaved(sides, pairs=request["pairs"], seed=request["seed"])
    clock = sides["base"].turns.clock
    for side in sides.values():
        side.finish()
    return {**found, "clock": clock, "cpus": list(cpus)}


def _interleaved(sides: dict[str, ThreadSide], *, pairs: int, seed: int) -> dict[str, list[int]]:
    """Run pairs of steps, which of the two comes first being drawn for every pair."""
    draw = random.Random(seed)
    costs: dict[str, list[int]] = {f"{name}_{what}": [] for name in sides for what in ("ns", "wall_ns")}
    for number in range(-_UNCOUNTED_PAIRS, pairs):
        for name in draw.sample(sorted(sides), len(sides)):
            cost, wall = sides[name].step()
            if number >= 0:
                costs[f"{name}_ns"].append(cost)
                costs[f"{name}_wall_ns"].append(wall)
    return costs
