"""perfguard fails the build when a model got worse: the public names, nothing else."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfguard.capture.tools_profiler import tools_profiler
    from perfguard.errors import CaptureError, PerfguardError, StoreError, UsageError
    from perfguard.gate import check
    from perfguard.window import StepWindow

__all__ = [
    "CaptureError",
    "PerfguardError",
    "StepWindow",
    "StoreError",
    "UsageError",
    "__version__",
    "check",
    "tools_profiler",
]

__version__ = "0.1.0"

_HOMES = {
    "StepWindow": "perfguard.window",
    "check": "perfguard.gate",
    "tools_profiler": "perfguard.capture.tools_profiler",
    "PerfguardError": "perfguard.errors",
    "UsageError": "perfguard.errors",
    "CaptureError": "perfguard.errors",
    "StoreError": "perfguard.errors",
}


def __getattr__(name: str) -> Any:
    # Looked up on first use: pytest imports this package for every run of every project that has it installed.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'perfguard' has no attribute {name!r}")
