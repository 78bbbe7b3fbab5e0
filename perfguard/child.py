"""Child processes: the one place in which perfguard starts programs.

A Python that runs perfguard's own code takes no module from the working directory, which may be a stranger's: `python -c`
alone has it first on its path, so that a file `json.py` in it would run. Nothing else in perfguard may use `subprocess` or
`multiprocessing`, whose workers start in that way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess, Popen, TimeoutExpired
from typing import Any

__all__ = [
    "DEVNULL",
    "HOME",
    "PIPE",
    "STDOUT",
    "CompletedProcess",
    "Popen",
    "TimeoutExpired",
    "ask",
    "foreign_command",
    "interpreter_flags",
    "located",
    "own_command",
    "python",
    "run",
    "start",
]

#: The directory that a Python imports this perfguard from.
HOME = str(Path(__file__).resolve().parent.parent)
#: The first statements of a Python that ends with its parent, whatever ends that: Linux kills it (prctl(2): PR_SET_PDEATHSIG
#: is 1); other systems do not.
_END_WITH_PARENT = """
try:
    import ctypes
    getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)(1, 9)
except ImportError:
    pass
"""
#: What a Python of perfguard's own runs.
_PROGRAM = """
import json, sys
how = json.loads(sys.argv[1])
sys.argv[:2] = [how["name"]]
if how["ends_with_parent"]:
    exec(how["ends_with_parent"], {})
path = sys.path[:] if how["path"] is None else how["path"]
sys.path[:] = [how["home"], *filter(None, path)]
from importlib import import_module
if how["name"] == "perfguard":
    import perfguard
del sys.path[0]
function = getattr(import_module(how["module"]), how["function"])
sys.path[:] = path
if how["working_directory"]:
    import os
    sys.path.insert(0, os.getcwd())
sys.exit(function())
"""


def python() -> str:
    """Return the path of the running interpreter, which an embedded one may not know."""
    return sys.executable or sys.orig_argv[0]


def interpreter_flags() -> list[str]:
    """Return the flags of this interpreter that change how code runs (-X dev, -O, -W)."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def own_command(
    call: str,
    *arguments: str,
    interpreter: str | None = None,
    home: str = HOME,
    path: Sequence[str] | None = None,
    isolated: bool = False,
    working_directory: bool = False,
    ends_with_parent: bool = True,
) -> list[str]:
    """Return the command of a Python that calls `module:function`, which finds its arguments in `sys.argv[1:]`.

    Until the call it imports perfguard from `home`, and all else from its own environment, or from `path`, which is then its
    `sys.path`. `isolated` leaves out PYTHONPATH and the user's packages. `working_directory` puts that directory first for the
    call, as `python -m` has it: for code of the user's. `interpreter` has this version of perfguard; None is this one.
    """
    module, _, function = call.partition(":")
    how = {
        "name": module.partition(".")[0],
        "module": module,
        "function": function,
        "home": home,
        # Python ignores entries that are not strings.
        "path": None if path is None else [entry for entry in path if isinstance(entry, str)],
        "working_directory": working_directory,
        "ends_with_parent": _END_WITH_PARENT if ends_with_parent else "",
    }
    flags = ["-I"] if isolated else [*interpreter_flags(), "-P"]
    return [interpreter or python(), *flags, "-c", _PROGRAM, json.dumps(how), *arguments]


def start(command: Sequence[str], **how: Any) -> Popen[bytes]:
    """Start a program; `how` are arguments of `subprocess.Popen`. Raises `OSError` if it cannot be started."""
    return Popen(command, **how)


def run(command: Sequence[str], **how: Any) -> CompletedProcess[str]:
    """Run a program to its end; `how` are arguments of `subprocess.run`. Raises `OSError` and `TimeoutExpired`."""
    return subprocess.run(command, check=False, text=True, errors="replace", **how)


def foreign_command(interpreter: str, program: str, *arguments: str) -> list[str]:
    """Return the command of a Python of any version, which ends with its parent.

    It is for a directory without modules: before 3.11 no option keeps a Python from importing what is there.
    """
    interpreter = os.path.abspath(interpreter) if os.path.dirname(interpreter) else interpreter
    return [interpreter, "-c", _END_WITH_PARENT + program, *arguments]


def located(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for another working directory: places in PYTHONPATH are absolute."""
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(os.path.abspath(place) for place in places if place)
    return {**environment, **({"PYTHONPATH": path} if path else {})}


def ask(
    interpreter: str, program: str, *arguments: str, environment: Mapping[str, str], timeout_s: float | None = None
) -> CompletedProcess[str]:
    """Run a program in a Python of any version, and return what it wrote. Raises `OSError` and `TimeoutExpired`."""
    return run(
        foreign_command(interpreter, program, *arguments),
        env=located(environment),
        cwd=os.sep,
        stdin=DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        start_new_session=True,
    )
