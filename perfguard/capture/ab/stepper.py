"""A process that runs the steps of one side in turns with that of the other side."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perfguard import thresholds
from perfguard.capture.ab.pytest_run import Timeable
from perfguard.capture.ab.sides import RUN_MARK, Side, command_of, fresh_directory, marked
from perfguard.capture.command import GRACE_S, Ended, end_command, last_line
from perfguard.capture.controlled import controlled_environment
from perfguard.capture.worktree import Place


class LostProcess(Exception):
    """A process that can run no more steps, and why."""


class Stepper:
    """A live process of one side that runs steps on request."""

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
        """Wait until its steps have settled; return the clock that its costs are read from."""
        return str(self._reply("ready"))

    def run(self, steps: int) -> tuple[list[int], list[int]]:
        """Have it run so many steps; return the cost and the wall time of each, in ns."""
        with contextlib.suppress(BrokenPipeError):
            # The other pipe shows that the process has ended.
            os.write(self._commands, f"{steps}\n".encode())
        costs, walls = self._reply("costs")
        return costs, walls

    def _reply(self, key: str) -> Any:
        reply = self._line()
        if reply is None:
            status = self._process.wait()
            status = 128 - status if status < 0 else status
            line = last_line(self._output, only_errors=status > 128)
            raise self._lost(Ended(status=status).sentence(self._timeout_s, line))
        if key not in reply:
            raise self._lost(f"ended early: {reply.get('ended')}")
        return reply[key]

    def _line(self) -> dict[str, Any] | None:
        deadline = time.monotonic() + self._timeout_s
        while b"\n" not in self._read:
            readable, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                last = last_line(self._output, only_errors=True)
                raise self._lost(Ended(status=0, timed_out=True).sentence(self._timeout_s, last))
            if not (more := os.read(self._replies, 65536)):
                return None
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _lost(self, how: str) -> LostProcess:
        return LostProcess(f"of the {'base' if self._side.name == 'base' else 'current side'} {how}")


@contextmanager
def started(side: Side, workload: Timeable, place: Place, cpus: tuple[int, ...]) -> Iterator[Stepper]:
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
        process = subprocess.Popen(
            command_of(side, request, own),
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
            timeout_s = thresholds.LEAST_TIMEOUT_S + workload.timeout_s
            yield Stepper(side, process, commands, replies, own / "output", timeout_s)
        finally:
            os.close(commands)
        # There are no more turns: its test has a moment to end by itself.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    finally:
        os.close(replies)
        end_command(process, mark=RUN_MARK, value=environment[RUN_MARK])
        process.wait()
