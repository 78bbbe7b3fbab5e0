"""A command run in its own session with a time limit; all its processes are ended. The last line of its output."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import re
import signal
import sys
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from perfguard import child
from perfguard.capture.chatter import is_chatter
from perfguard.errors import CaptureError, UsageError

#: Seconds that a process has to end by itself after each signal.
GRACE_S = 5.0
#: Seconds between two calls of `is_hung`.
_LOOK_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)

#: How lines that name an error begin, and what `last_line` leaves out of them.
_ERROR = re.compile(r"(?P<mark>E  \s*|(?:ERROR|perfguard|fatal): )|Fatal|Error|\S+: error: ")

#: pytest as `python -m pytest` runs it; it ends with its parent.
PYTEST = tuple(child.own_command("pytest:console_main", working_directory=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended. `status` is the one a shell shows: 128 + signal after a signal."""

    status: int
    timed_out: bool = False
    #: The number of processes it left behind, which were ended.
    left_behind: int = 0

    def sentence(self, timeout_s: float, line: str, *, did: str = " and timed nothing") -> str:
        """Return how a process without a result ended; `line` is the last line of its output."""
        last = f": {line}" if line else ""
        if self.timed_out:
            return f"was ended after {timeout_s:.0f} seconds{last}"
        # A program may end with any status by itself: 255 is not a signal.
        if self.status - 128 in set(signal.Signals):
            name = signal.Signals(self.status - 128).name
            why = ", which the system sends when memory runs out" if name == "SIGKILL" else ""
            return f"was ended by {name}{why}{last}"
        return f"ended with status {self.status}{did}{last}"


def run_command(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    mark: str,
    timeout_s: float | None,
    output: IO[bytes] | None = None,
    directory: Path | None = None,
    is_hung: Callable[[], bool] | None = None,
) -> Ended:
    """Run a command to its end; its standard streams are those of this process, or all of them go to `output`.

    It is ended after `timeout_s`, or as soon as `is_hung`, which is called a few times a second, returns True. `mark` names
    an environment variable that is set to a unique value: it identifies every process of the command, in any session, so
    that all of them are ended, even if this process is killed. Raises `UsageError` if the command cannot be started, and
    `KeyboardInterrupt` after the command got one.
    """
    value = uuid.uuid4().hex
    with guarded("perfguard.capture.command:kill_marked", mark, value):
        process = _started(command, {**environment, mark: value}, output, directory)
        timed_out = False
        try:
            _wait(process, timeout_s, is_hung)
        except BaseException as error:
            end_command(process, mark=mark, value=value)
            process.wait()
            timed_out = isinstance(error, child.TimeoutExpired)
            if not timed_out:
                raise
        status = process.returncode
        # Some may be about to end.
        _wait_until(lambda: not _marked(mark, value))
        left = _send(_marked(mark, value), signal.SIGKILL)
    return Ended(status=128 - status if status < 0 else status, timed_out=timed_out, left_behind=left)


def _started(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None, directory: Path | None
) -> child.Popen[bytes]:
    try:
        return child.start(
            command,
            env=environment,
            cwd=directory,
            # `run_command` forwards a Ctrl-C of the terminal, once.
            start_new_session=True,
            stdin=None if output is None else child.DEVNULL,
            stdout=output,
            stderr=output,
        )
    except FileNotFoundError:
        raise UsageError(
            f"there is no command {command[0]!r}; name one that is on the PATH, or a path to it."
        ) from None
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror}. Name a program.") from error


@contextlib.contextmanager
def guarded(clear: str, *arguments: str) -> Iterator[None]:
    """Start a guardian process, which calls `clear` (`module:function`) after the block or after the end of this process.

    Raises `UsageError` if it cannot be started.
    """
    try:
        guardian = child.start(
            # It outlives this process, to clear up after it.
            child.own_command(f"{__name__}:stand_guard", clear, *arguments, isolated=True, ends_with_parent=False),
            stdin=child.PIPE,
            stdout=child.DEVNULL,
            stderr=child.DEVNULL,
            cwd=os.path.abspath(os.sep),
            # Neither Ctrl-C nor the end of a larger run, which is found by its mark, must end it.
            start_new_session=True,
            env={name: text for name, text in os.environ.items() if not name.startswith("PERFGUARD_")},
        )
    except OSError as error:
        raise UsageError(f"{child.python()} cannot be started: {error.strerror}. Repair it, then run again.") from error
    assert guardian.stdin is not None
    try:
        yield
    finally:
        # A byte, and not only the end of the pipe: a child that another thread forked may keep the pipe open.
        with contextlib.suppress(BrokenPipeError):
            guardian.stdin.write(b".")
            guardian.stdin.close()
        guardian.wait()


def stand_guard() -> None:
    """Wait until the process at the other end of standard input is done or has ended; then call the function `clear`."""
    clear, *arguments = sys.argv[1:]
    # Imported before the wait, so that an upgrade of perfguard meanwhile does no harm.
    function = pkgutil.resolve_name(clear)
    sys.stdin.buffer.read(1)
    function(*arguments)


def _wait(process: child.Popen[bytes], timeout_s: float | None, is_hung: Callable[[], bool] | None) -> None:
    while process.poll() is None:
        try:
            process.wait(timeout_s if is_hung is None else _LOOK_S)
        except child.TimeoutExpired:
            if is_hung is None or is_hung():
                raise


def end_command(process: child.Popen[bytes], *, mark: str, value: str) -> None:
    """End a command that runs too long: first by an interrupt, so that Python writes its data, then by stronger signals."""
    for number in _SIGNALS:
        _send({process.pid, *_marked(mark, value)}, number)
        # `poll` first: a process that has ended stays in /proc until it is waited for.
        if _wait_until(lambda: process.poll() is not None and not _marked(mark, value)):
            return


def kill_marked(mark: str, value: str) -> None:
    """Kill every process that has the mark, and wait until none is left."""
    _wait_until(lambda: not _send(_marked(mark, value), signal.SIGKILL))


def _wait_until(is_done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + GRACE_S
    while not (done := is_done()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return done


def _send(pids: Collection[int], number: signal.Signals) -> int:
    """Send a signal to processes; return how many there are."""
    for pid in pids:
        # It may have ended, and its number may belong to another user's process now.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return len(pids)


def _marked(mark: str, value: str) -> list[int]:
    """Return the processes with the mark; none without /proc (not Linux)."""
    variable = f"{mark}={value}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable in entry.read_bytes().split(b"\0") and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        except OSError:
            # It has ended, or belongs to another user.
            continue
    return found


def last_line(output: str | Path, *marks: str, only_errors: bool = False) -> str:
    """Return the last error in a process's output, else, unless `only_errors`, its last line; at most 300 characters.

    Errors are those of pytest, Python and perfguard, and lines that begin with one of `marks`.
    """
    text = output if isinstance(output, str) else output.read_text(encoding="utf-8", errors="replace")
    # A line without a letter or a digit is a rule.
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    # What a profiler writes in every run is no reason, unless there is nothing else.
    lines = [line for line in lines if not is_chatter(line)] or lines
    errors = [line for line in lines if _ERROR.match(line) or line.startswith(marks)]
    last = next(reversed(errors or ([] if only_errors else lines)), "")
    found = _ERROR.match(last)
    return last[found.end("mark") if found and found["mark"] else 0 :][:300]


def free_port() -> int:
    """Return a free TCP port. Raises `CaptureError` without a loopback interface."""
    import socket

    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        raise CaptureError(f"127.0.0.1 has no free port: {error.strerror}; a launcher needs one.") from error
