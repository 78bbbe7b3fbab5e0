"""The bootstrap of `perfguard run`: Python imports it in every Python process of the command (site.py), by PYTHONPATH.

So an unmodified script, a launcher's workers and another environment's interpreter all get it. It imports nothing but the
standard library, runs on Python 3.7 and later, and does nothing until the process imports torch or MindSpore. Then
`perfguard_bootstrap`, the package next to it, records the window and leaves a file of plain facts;
`perfguard.capture.script` makes a recording of them.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys

# Every Python of the command starts with this: only a process with a framework imports the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

PLAN = "PERFGUARD_PLAN"
FRAMEWORKS = {
    "torch": ("perfguard_bootstrap.torch_profiler", "Torch"),
    "mindspore": ("perfguard_bootstrap.mindspore_profiler", "MindSpore"),
}


class Finder:
    """Starts a step recorder as soon as a framework has been imported; the framework itself is found as usual."""

    def __init__(self, plan: Dict[str, Any]) -> None:
        self.plan = plan
        # Only its `__path__` is needed from here on: a script may change sys.path.
        importlib.import_module("perfguard_bootstrap")

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Find a framework with all other finders, and add a call after its import."""
        if fullname not in self.plan["backends"]:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module
        options = os.environ.pop("MS_PROFILER_OPTIONS", None) if fullname == "mindspore" else None

        def exec_module(module: Any) -> None:
            execute(module)
            if options is not None:
                os.environ["MS_PROFILER_OPTIONS"] = options
            # A module of the script's own that only has the name lacks one of these.
            if hasattr(module, "__path__") and hasattr(module, "__version__"):
                self.record(fullname, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def record(self, fullname: str, module: Any) -> None:
        """Record the steps of this process."""
        place, name = FRAMEWORKS[fullname]
        recorder = importlib.import_module("perfguard_bootstrap.recorder").StepRecorder(self.plan)
        try:
            getattr(importlib.import_module(place), name)(recorder, module)
        except (AttributeError, ImportError, TypeError) as error:
            # The internals of this version differ: the script runs on, and the facts hold the reason.
            recorder.problem = "{} cannot be watched: {}".format(fullname, error)
            recorder.write(always=True)


def _import_hidden() -> None:
    """Import the sitecustomize that this one hides, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    rest = [place for place in sys.path if os.path.abspath(place or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _begin() -> None:
    text = os.environ.get(PLAN)
    if not text:
        return
    with open(text, encoding="utf-8") as stream:
        plan = json.load(stream)
    if os.environ.get("MS_ROLE") == "MS_SCHED":
        # The scheduler of msrun runs the script as well, and trains nothing.
        os.environ.pop("MS_PROFILER_OPTIONS", None)
    else:
        sys.meta_path.insert(0, Finder(plan))
    with open(os.path.join(plan["facts"], "python-{}".format(os.getpid())), "w", encoding="utf-8"):
        pass


_begin()
_import_hidden()
