"""The public names of perfguard, a pytest plugin that fails the build when a model gets worse."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfguard.capture.mindspore_callback import mindspore_callback as callback
    from perfguard.capture.script import Script
    from perfguard.errors import CaptureError, PerfguardError, StoreError, UsageError
    from perfguard.gate import check
    from perfguard.guard import Callback, Guard
    from perfguard.integrations.mindformers import read_mindformers
    from perfguard.integrations.mindspeed_llm import read_mindspeed_llm
    from perfguard.integrations.mindspore_dynamic import write_profiler_config
    from perfguard.integrations.tools_profiler import tools_profiler
    from perfguard.version import __version__
    from perfguard.window import StepWindow

__all__ = [
    "Callback",
    "CaptureError",
    "Guard",
    "PerfguardError",
    "Script",
    "StepWindow",
    "StoreError",
    "UsageError",
    "__version__",
    "callback",
    "check",
    "read_mindformers",
    "read_mindspeed_llm",
    "tools_profiler",
    "write_profiler_config",
]

#: Module and name of each public name.
_HOMES = {
    "Callback": ("perfguard.guard", "Callback"),
    "Guard": ("perfguard.guard", "Guard"),
    "Script": ("perfguard.capture.script", "Script"),
    "StepWindow": ("perfguard.window", "StepWindow"),
    "callback": ("perfguard.capture.mindspore_callback", "mindspore_callback"),
    "check": ("perfguard.gate", "check"),
    "read_mindformers": ("perfguard.integrations.mindformers", "read_mindformers"),
    "read_mindspeed_llm": ("perfguard.integrations.mindspeed_llm", "read_mindspeed_llm"),
    "tools_profiler": ("perfguard.integrations.tools_profiler", "tools_profiler"),
    "write_profiler_config": ("perfguard.integrations.mindspore_dynamic", "write_profiler_config"),
    **{name: ("perfguard.errors", name) for name in ("PerfguardError", "UsageError", "CaptureError", "StoreError")},
    "__version__": ("perfguard.version", "__version__"),
}


if not TYPE_CHECKING:
    # Type checkers use the imports above, and report any other name.

    def __getattr__(name: str) -> object:
        # Import on first use: pytest imports this package in every run of every project that has it installed.
        if name in _HOMES:
            from importlib import import_module

            module, inside = _HOMES[name]
            return getattr(import_module(module), inside)
        raise AttributeError(f"module 'perfguard' has no attribute {name!r}")
