"""Pseudo terminals: what a command writes where somebody looks on."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO


def on_a_terminal(
    command: Sequence[str],
    *,
    columns: int = 80,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> tuple[int, str]:
    """Run a command whose error, and output unless it has its own, is a terminal; return its status and what that shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**(os.environ if env is None else env), "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=theirs, stdout=output or theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        written += part
    os.close(ours)
    return process.wait(60), written.decode().replace("\r\n", "\n")
