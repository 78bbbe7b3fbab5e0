"""Programs that tests run to their end, and what they wait for."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def run_program(
    *command: object, cwd: Path | None = None, timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with more variables of the environment; return its status and what it wrote, whatever they are."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


def git(place: Path, *words: object) -> str:
    """Run git, with no settings or variables of the user's; it must succeed. Return what it wrote."""
    command = ["git", "-c", "user.email=a@b.c", "-c", "user.name=n", *map(str, words)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {**kept, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.rstrip("\n")


def wait_until(condition: Callable[[], object], seconds: float = 300) -> None:
    """Wait until a condition holds, which it must do in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
