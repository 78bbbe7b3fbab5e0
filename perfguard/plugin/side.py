"""One side of `perfguard ab`, or both in one process: what runs in the processes that a comparison starts.

A process is asked to `record` a side (pytest as the user calls it, exact metrics), to run the steps of one workload in
`turns` with another process, or to run those of both sides `together`, each in a thread that owns its step. A side that lies
in a worktree has all paths of the checkout replaced by the worktree's, so that an editable install of the project does not win.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfguard.capture import Backend
from perfguard.capture.controlled import bind
from perfguard.capture.turns import TurnsWindow, process_switches
from perfguard.documents import write_atomically
from perfguard.errors import CaptureError
from perfguard.plugin.controlled import (
    IMPORTED_BEFORE,
    Controlled,
    Reasons,
    Request,
    TimedTest,
    Window,
    request_for,
    run_tests,
)
from perfguard.plugin.items import is_gate_test
from perfguard.plugin.place import Place, strangers
from perfguard.plugin.session import GateSession
from perfguard.workload import workload_of

#: Pairs of steps that are run and not counted: the sides have just been loaded one after the other.
_UNCOUNTED_PAIRS = 3
#: Seconds that a test is given to end after its last step.
_ENDING_S = 30.0


def main(path: str) -> None:
    """Do what a comparison asks of this process."""
    asked = json.loads(Path(path).read_text(encoding="utf-8"))
    {"record": _record, "turns": _take_turns, "together": _run_together}[asked["do"]](asked)


# -- recording a side --------------------------------------------------------------------------------------------------


def _record(asked: dict[str, Any]) -> None:
    place = Place(asked["directory"], asked["moved"])
    place.settle()
    place.lead_children()
    recorder = Recorder(Path(asked["requests"]), asked["moved"])
    status = int(pytest.main([*asked["arguments"], "-W", IMPORTED_BEFORE], plugins=[recorder]))
    tops = (asked["top"], asked["directory"], *recorder.roots)
    facts = {
        "status": status,
        "timed": recorder.timed,
        "reasons": recorder.reasons,
        "failed": {node: why for node, why in recorder.failed.items() if node in recorder.guarded},
        "unreached": recorder.unreached,
        "places": recorder.places,
        "strangers": strangers(tops, asked["checkout"]) if asked["top"] else [],
    }
    write_atomically(Path(asked["result"]), json.dumps(facts))
    sys.exit(status)


class Recorder(Reasons):
    """Leaves a request for every workload whose steps another process can run again."""

    def __init__(self, directory: Path, moved: tuple[str, str] | None = None) -> None:
        super().__init__()
        self.directory = directory
        self.timed: dict[str, dict[str, Any]] = {}
        #: Files and tests that were named, where projects may lie, and tests that use perfguard.
        self.places: list[str] = []
        self.roots: tuple[str, ...] = ()
        self.guarded: set[str] = set()
        #: Tests that use perfguard, and that a run which ended early did not come to.
        self.unreached: list[str] = []
        self._moved = moved
        self._environment = dict(os.environ)
        self._switches: dict[str, dict[str, str]] = {}

    def pytest_addoption(self, parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
        """Let pytest know of the settings that this comparison gives it, where `-p no:...` left out what has them."""
        if pluginmanager.is_blocked("cacheprovider"):
            parser.addini("cache_dir", "Where a cache would lie.")
        if pluginmanager.is_blocked("logging"):
            parser.addini("log_file", "Where a log would lie.")

    def pytest_configure(self, config: pytest.Config) -> None:
        """Remember where pytest looks, and refuse workers: nobody could say whose code they ran."""
        self.places = [str(one) for one in config.args]
        self.roots = (str(config.rootpath),)
        if getattr(config.option, "numprocesses", None) or getattr(config.option, "tx", None):
            raise pytest.UsageError("perfguard ab runs one test after the other; leave out -n, or write -n0")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Remember which tests use perfguard."""
        self.guarded = {item.nodeid for item in items if is_gate_test(item)}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Remember what was set for the whole process while the test ran."""
        try:
            return (yield)
        finally:
            self._switches[item.nodeid] = self._told(process_switches(self._environment))

    def _told(self, switches: dict[str, str]) -> dict[str, str]:
        """Return them as the other side would have them: what lies in a worktree, or is this side's own, has another path."""
        there, here = self._moved if self._moved is not None else ("", "")
        own = str(self.directory.parent)
        told = {name: value.replace(own, "") for name, value in switches.items()}
        return {name: value.replace(here, there) if here else value for name, value in told.items()}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the requests."""
        gate: GateSession | None = session.config.pluginmanager.get_plugin("perfguard-session")
        if gate is None:
            return
        self.unreached = gate.tests.unreached
        # Those with a guard of an autouse fixture are known by what they measured.
        self.guarded |= {workload_of(workload).test for workload in gate.judging.verdicts}
        for workload, (item, settings, took_s) in gate.judging.timeable.items():
            place = self.directory / str(len(self.timed))
            place.mkdir(parents=True)
            test = TimedTest(nodeid=item.nodeid, settings=settings, workloads=frozenset({workload}))
            request = request_for(session.config, [test], place)
            (place / "request").write_bytes(pickle.dumps(request))
            self.timed[workload] = {
                "request": str(place / "request"),
                "threads": settings.threads,
                "took_s": took_s,
                "before_s": gate.judging.ready_s,
                "switches": self._switches.get(item.nodeid, {}),
            }


# -- running steps in turns --------------------------------------------------------------------------------------------


class Beside(Controlled, Reasons):
    """The plugin of a side whose steps are run in turns."""

    def __init__(self, request: Request, cpus: tuple[int, ...], turns: PipeTurns | ThreadTurns) -> None:
        Controlled.__init__(self, request, cpus)
        Reasons.__init__(self)
        self.turns = turns

    def window(self, backend: Backend, test: TimedTest, workload: str) -> Window:
        """Return what runs the steps as their turns come; every turn is handed back when it is over."""
        return TurnsWindow(backend, self.turns, settle=test.settings.window.skip_first)

    def reason(self, error: str = "") -> str:
        """Return why the test came to no step, or to no more: what pytest said of it goes before the error it ended with."""
        return "; ".join(dict.fromkeys(self.reasons.values())) or error or "the test ended without a step to time"


def _request(path: str) -> Request:
    with open(path, "rb") as stream:
        request: Request = pickle.load(stream)
    return request


def _take_turns(asked: dict[str, Any]) -> None:
    place = Place(asked["directory"], asked["moved"])
    place.settle()
    request = _request(asked["request"])
    turns = PipeTurns(asked["commands"], asked["replies"])
    side = Beside(request, bind(request.threads, tuple(asked["cpus"])), turns)
    try:
        run_tests(request, side)
    finally:
        turns.tell({"ended": side.reason()})


class PipeTurns:
    """Turns that another process gives: a line with a number of steps, and a line of JSON back."""

    def __init__(self, commands: int, replies: int) -> None:
        self._commands = os.fdopen(commands, "r", encoding="ascii")
        self._replies = replies

    def tell(self, reply: dict[str, Any]) -> None:
        """Write one line; nobody reads it where the other process has gone."""
        try:
            os.write(self._replies, json.dumps(reply).encode() + b"\n")
        except BrokenPipeError:
            return

    def ready(self, clock: str) -> None:
        """Say so."""
        self.tell({"ready": clock})

    def wait(self) -> int:
        """Read the next number; the end of the pipe is the end of the steps."""
        return int(self._commands.readline() or 0)

    def done(self, costs_ns: list[int], wall_ns: list[int]) -> None:
        """Hand them back."""
        self.tell({"costs": [costs_ns, wall_ns]})


# -- both sides in one process -----------------------------------------------------------------------------------------


class ThreadTurns:
    """Turns of one thread, given by another: at any time one of the two waits."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._steps = 0
        self.clock: str | None = None
        self.costs_ns: list[int] = []
        self.wall_ns: list[int] = []
        self.has_ended = False

    def ready(self, clock: str) -> None:
        """Say so, and let the other thread go on."""
        self.clock = clock
        self._back.release()

    def wait(self) -> int:
        """Wait until the other thread gives a turn."""
        self._go.acquire()
        return self._steps

    def done(self, costs_ns: list[int], wall_ns: list[int]) -> None:
        """Hand them back."""
        self.costs_ns, self.wall_ns = costs_ns, wall_ns
        self._back.release()

    def end(self) -> None:
        """Say that there will be no more turns."""
        self.has_ended = True
        self._back.release()

    def rest(self) -> None:
        """Wait, in the other thread, until this side rests."""
        self._back.acquire()

    def give(self, steps: int) -> None:
        """Give a turn of so many steps, in the other thread; with 0 the side ends."""
        self._steps = steps
        self._go.release()


class ThreadSide:
    """One side in a thread of this process, which owns its step: what is local to a thread stays its own."""

    def __init__(self, name: str, request: Request, place: Place, cpus: tuple[int, ...]) -> None:
        self.name = name
        self.place = place
        self.turns = ThreadTurns()
        self.plugin = Beside(request, cpus, self.turns)
        self._error = ""
        self._thread = threading.Thread(target=self._run, args=(request,), daemon=True)

    def start(self) -> None:
        """Run its test up to the steps that are timed. Raises `CaptureError` where it does not come so far."""
        self._thread.start()
        self.turns.rest()
        self._require_running()

    def step(self) -> tuple[int, int]:
        """Run one step; return its cost, and how long it took by the clock. Raises `CaptureError` where the test ended."""
        self.place.enter()
        self.turns.give(1)
        self.turns.rest()
        self.place.leave()
        self._require_running()
        return self.turns.costs_ns[0], self.turns.wall_ns[0]

    def finish(self) -> None:
        """Let its test end."""
        self.place.enter()
        self.turns.give(0)
        self._thread.join(_ENDING_S)
        self.place.leave()

    def _run(self, request: Request) -> None:
        try:
            run_tests(request, self.plugin)
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that waits, which is told of it
            self._error = f"{type(error).__name__}: {error}"
        finally:
            self.turns.end()

    def _require_running(self) -> None:
        if self.turns.has_ended:
            raise CaptureError(f"{self.name}: {self.plugin.reason(self._error)}")


def _run_together(asked: dict[str, Any]) -> None:
    result = Path(asked["result"])
    try:
        found = _timed_together(asked)
    except Exception as error:  # noqa: BLE001 - whatever the two do not bear in one process is a reason to run them apart
        found = {"cannot": str(error)}
    write_atomically(result, json.dumps(found))
    sys.stdout.flush()
    # A test that hangs would keep the process.
    os._exit(0)


def _timed_together(asked: dict[str, Any]) -> dict[str, Any]:
    cpus = bind(asked["threads"])
    places = {
        name: Place(one["directory"], one["moved"], top=asked["checkout"]) for name, one in asked["sides"].items()
    }
    sides = {}
    for name, place in places.items():
        place.settle()
        sides[name] = ThreadSide(name, _request(asked["sides"][name]["request"]), place, cpus)
        sides[name].start()
        place.leave()
    found = _interleaved(sides, pairs=asked["pairs"], seed=asked["seed"])
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
