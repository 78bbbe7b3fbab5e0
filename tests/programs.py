"""Programs that tests run to their end."""

from __future__ import annotations

import os
import subprocess
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
