"""A Python interpreter that is to run a command: its version and its frameworks, read without importing any of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from perfguard.errors import UsageError

_PROBE = """
import json, sys
from importlib.metadata import distributions
found = {}
for one in distributions():  # in the order of imports: the first counts
    name = (one.metadata["Name"] or "").lower().replace("-", "_")
    if name in ("mindspore", "torch", "torch_npu", "numpy"):
        found.setdefault(name, one.version)
print(json.dumps({"python": sys.version.split()[0], "packages": found}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A Python, its version, and the versions of its frameworks."""

    path: str
    python: str
    packages: Mapping[str, str]


def interpreter_flags() -> list[str]:
    """Return the flags of this interpreter that change how code runs (-X dev, -O, -W)."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def find_interpreter(path: str) -> Interpreter:
    """Return what a Python has. Raises `UsageError` if it does not work."""
    try:
        done = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False)
        # The last line: a sitecustomize of its own may print as well.
        found = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise UsageError(f"{path} is not a working Python ({error}); name one with --python PATH.") from error
    return Interpreter(path=path, python=found["python"], packages=found["packages"])
