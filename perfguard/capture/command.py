"""A command: run in a session of its own, for so long and no longer, and nothing of it is left running."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from perfguard.errors import CaptureError, UsageError

#: Seconds a process is given to end by itself, after each of the signals it is sent.
GRACE_S = 5.0
#: Seconds between two looks at a command that says itself what it is at.
_LOOK_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: The first words of a Python that is to end with the one that starts it, whatever ends that: Linux kills it (prctl(2):
#: PR_SET_PDEATHSIG is 1), elsewhere it goes on.
END_WITH_PARENT = "import ctypes; getattr(ctypes.CDLL(None), 'prctl', lambda *_: 0)(1, 9)"

#: Where this perfguard lies, for a Python that is to import it.
HOME = str(Path(__file__).resolve().parents[2])
_GUARD = (
    "import sys; sys.path.insert(0, sys.argv[1]); from perfguard.capture.command import stand_guard; "
    "stand_guard(*sys.argv[2:])"
)

#: pytest as `python -m pytest` runs it, which ends with the one that starts it.
PYTEST = (
    *(sys.executable, "-c"),
    f"{END_WITH_PARENT}; import sys, pytest; sys.argv[0] = 'pytest'; sys.exit(pytest.console_main())",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended. `status` is what a shell would show: 128 + signal where one ended it."""

    status: int
    timed_out: bool = False
    #: Processes it had left behind, which were ended.
    left_behind: int = 0

    def sentence(self, timeout_s: float, said: str, *, did: str = " and timed nothing") -> str:
        """Say how a process ended that did not do what it was started for; `said` is the last thing it told."""
        said = f": {said}" if said else ""
        if self.timed_out:
            return f"was ended after {timeout_s:.0f} seconds{said}"
        # A program may end with any status by itself: 255 is no signal.
        if self.status - 128 in set(signal.Signals):
            name = signal.Signals(self.status - 128).name
            why = ", as a process is that the system ran out of memory for" if name == "SIGKILL" else ""
            return f"was ended by {name}{why}{said}"
        return f"ended with status {self.status}{did}{said}"


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
    """Run a command to its end; its standard streams are this process's own, or all of them go to `output`.

    It is ended after `timeout_s`; where `is_hung` stands for that, as soon as it says so. It is asked a few times a second.
    `mark` names an environment variable that is set to a unique value: by it every process the command ever started is
    found, in whatever session, and ended, also where this process is killed. Raises `UsageError` when the command cannot be
    started, and `KeyboardInterrupt` after the command has had its own.
    """
    value = uuid.uuid4().hex
    with guarded("perfguard.capture.command:kill_marked", mark, value):
        process = _started(command, {**environment, mark: value}, output, directory)
        timed_out = False
        try:
            status = _wait(process, timeout_s, is_hung)
        except subprocess.TimeoutExpired:
            timed_out = True
            end_command(process, mark=mark, value=value)
            status = process.wait()
        except BaseException:
            end_command(process, mark=mark, value=value)
            process.wait()
            raise
        left = _end_left_behind(mark, value)
    return Ended(status=128 - status if status < 0 else status, timed_out=timed_out, left_behind=left)


def _started(
    command: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None, directory: Path | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            env=environment,
            cwd=directory,
            # Ctrl-C in the terminal is passed on by `run_command`, once.
            start_new_session=True,
            stdin=None if output is None else subprocess.DEVNULL,
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
    """Have a process wait until this one is done, or gone, whatever ended it; it then calls `clear` (`module:function`).

    Raises `UsageError` where that process cannot be started.
    """
    try:
        guardian = subprocess.Popen(
            # Isolated: what lies in the working directory, anybody's, is no module of ours.
            [sys.executable, "-I", "-c", _GUARD, HOME, clear, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=os.path.abspath(os.sep),
            # Out of reach of Ctrl-C, and of whoever ends a larger run that this one is a part of: by a mark.
            start_new_session=True,
            env={name: text for name, text in os.environ.items() if not name.startswith("PERFGUARD_")},
        )
    except OSError as error:
        raise UsageError(f"{sys.executable} cannot be started: {error.strerror}. Mend that, then run again.") from error
    assert guardian.stdin is not None
    try:
        yield
    finally:
        # A byte, and not only the end of the pipe: a child that another thread forked may hold that open.
        with contextlib.suppress(BrokenPipeError):
            guardian.stdin.write(b".")
            guardian.stdin.close()
        guardian.wait()


def stand_guard(clear: str, *arguments: str) -> None:
    """Wait until the process at the other end of standard input is done, or gone; then call the function `clear` names."""
    # Imported before the wait: an upgrade of perfguard meanwhile does not matter.
    function = pkgutil.resolve_name(clear)
    sys.stdin.buffer.read(1)
    function(*arguments)


def _wait(process: subprocess.Popen[bytes], timeout_s: float | None, is_hung: Callable[[], bool] | None) -> int:
    if is_hung is None:
        return process.wait(timeout_s)
    while True:
        try:
            return process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            if is_hung():
                raise


def end_command(process: subprocess.Popen[bytes], *, mark: str, value: str) -> None:
    """End a command that runs too long: an interrupt, so that Python writes what it has; then less kindly."""
    for number in _SIGNALS:
        for pid in {process.pid, *_marked(mark, value)}:
            _send(pid, number)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            # Asked of the process first: what has ended and was not waited for is still in /proc.
            if process.poll() is not None and not _marked(mark, value):
                return
            time.sleep(0.05)


def kill_marked(mark: str, value: str) -> None:
    """Kill every process that has the mark, and wait until none is left."""
    deadline = time.monotonic() + GRACE_S
    while (left := _marked(mark, value)) and time.monotonic() < deadline:
        for pid in left:
            _send(pid, signal.SIGKILL)
        time.sleep(0.05)


def _end_left_behind(mark: str, value: str) -> int:
    """End what the command started and left; a process that is about to end is given a moment."""
    deadline = time.monotonic() + GRACE_S
    while (left := _marked(mark, value)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        _send(pid, signal.SIGKILL)
    return len(left)


def _send(pid: int, number: signal.Signals) -> None:
    # It may have ended in between, or be somebody else's by now.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _marked(mark: str, value: str) -> list[int]:
    """Return the processes that have the mark; without /proc (not Linux) none is found."""
    wanted = f"{mark}={value}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in entry.read_bytes().split(b"\0") and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        except OSError:
            # Ended, or somebody else's.
            continue
    return found


def free_port() -> int:
    """Return a TCP port nobody listens on now. Raises `CaptureError` where there is no loopback."""
    import socket

    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        raise CaptureError(f"no port of 127.0.0.1 can be had: {error.strerror}; a launcher needs one.") from error
