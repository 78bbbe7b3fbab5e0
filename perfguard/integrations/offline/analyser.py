"""The analysers: which release of which framework analyses a layout, and the code that calls it in another Python."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from perfguard.capture.interpreter import Interpreter
from perfguard.errors import UsageError

Release = tuple[int, int]
_NEWEST: Release = (99, 0)


class Analyser(NamedTuple):
    """A framework, and its first and last release (exclusive) that analyse a layout."""

    framework: str
    first: Release
    end: Release

    def lack(self, interpreter: Interpreter) -> str:
        """Return why this Python cannot analyse the layout; empty if it can."""
        title, version = TITLES[self.framework], interpreter.packages.get(self.framework)
        since = "" if not self.first[0] else f" {self.first[0]}.{self.first[1]}"
        span = " 2.3 or 2.4" if self.end == (2, 5) else f"{since} or later" if since and self.end == _NEWEST else since
        if version is not None and self.first <= release(version) < self.end:
            return ""
        has = f"no {title}" if version is None else f"{title} {version}"
        return (
            f"{title}{span} analyses it, and {interpreter.path} has {has}; name a Python that has it with --python PATH"
        )


#: By layout.
ANALYSERS: Mapping[str, Analyser] = {
    "ms-2.5+cpu": Analyser("mindspore", (2, 5), _NEWEST),
    "ms-2.5+": Analyser("mindspore", (2, 5), _NEWEST),
    "ms-2.3": Analyser("mindspore", (2, 3), (2, 5)),
    "ms-2.1": Analyser("mindspore", (2, 2), (2, 3)),
    "pt-npu": Analyser("torch_npu", (0, 0), _NEWEST),
}
TITLES = {"mindspore": "MindSpore", "torch_npu": "torch_npu"}

#: Runs in a Python of another environment, with a request as JSON (`process.start`).
CHILD = """
import inspect, json, sys
request = json.loads(sys.argv[1])
options = request["options"]
if request["framework"] == "torch_npu":
    from torch_npu.profiler.profiler import analyse
    analyse(request["path"], max_process_number=1)
elif request["release"] < [2, 3]:
    from mindspore import Profiler
    profiler = Profiler(output_path=request["scratch"], start_profile=False)
    profiler.analyse(offline_path=request["path"], pretty=options["pretty"])
else:
    import mindspore
    if request["on_device"] and mindspore.get_context("device_target") == "CPU":
        print("[ERROR] this MindSpore is built for the CPU: it skips what the framework recorded beside an Ascend device")
        sys.exit(1)
    try:
        from mindspore.profiler.profiler import analyse
        options["max_process_number"] = 1
    except ImportError:
        from mindspore import Profiler
        analyse = Profiler.offline_analyse
    known = inspect.signature(analyse).parameters
    if options["step_list"] and "step_list" not in known:
        print("[ERROR] the analyser of this MindSpore takes no steps")
        sys.exit(1)
    analyse(request["path"], **{name: value for name, value in options.items() if name in known})
"""


def release(version: str) -> Release:
    """Return the first two numbers of a version; (0, 0) if there are none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def python_path(given: Path | None) -> str:
    """Return an absolute path: the analysis runs in another directory. Raises `UsageError` if there is no such Python."""
    name = sys.executable if given is None else str(given)
    if (found := shutil.which(name)) is None:
        raise UsageError(f"there is no Python {name}; name one with --python PATH.")
    return os.path.abspath(found)
