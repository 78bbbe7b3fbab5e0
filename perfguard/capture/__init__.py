"""Capture: run a workload under the profiler, leave a recording. The only place that imports a framework.

What goes in: a workload (a callable step, or a loop's batches), a window, a backend. What comes out: a `Recording` on disk,
whether the capture went well or not. To add a backend: one module with one class that keeps `Backend`, and one line in
`BACKENDS`, or in another distribution an entry point in `perfguard.backends`. It has the name of its framework's package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from perfguard.errors import UsageError
from perfguard.extensions import Registry
from perfguard.version import install_command
from perfguard.window import StepWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a backend runs on: half of the fingerprint, and the framework's part of the environment."""

    device: str
    mode: str
    world_size: int
    rank: int
    threads: int
    device_name: str
    packages: dict[str, str]


class Backend(Protocol):
    """One profiler. Methods are called in the order of this list; `stop` also after a failure.

    It may have `clock_mhz() -> float | None` besides: the clock of its device, asked between timed steps.
    """

    name: str
    #: What the profiler records, by condition name of the layouts.
    conditions: dict[str, bool]

    def prepare(self, threads: int) -> None:
        """Set the framework's threads before the workload runs. Raises `CaptureError` without the framework."""

    def restore(self) -> None:
        """Undo what `prepare` changed and can be undone."""

    def target(self) -> Target:
        """Return what the workload ran on; called after its first step."""

    def synchronize(self) -> None:
        """Wait until the device has finished all queued work."""

    def start(self, directory: Path, window: StepWindow) -> None:
        """Begin profiling with the window's wait, warmup, active and repeat, into `directory`."""

    def advance(self) -> None:
        """Tell the profiler that a step has ended."""

    def stop(self) -> None:
        """End profiling and write everything."""


BACKENDS: Registry[Callable[[], Backend]] = Registry(
    "backends",
    {
        "mindspore": "perfguard.capture.mindspore_backend:MindSporeBackend",
        "torch": "perfguard.capture.torch_backend:TorchBackend",
    },
)

#: Judges an existing directory: nothing is run, so it has no class (see `capture.replay`).
REPLAY = "replay"


def backend(name: str | None) -> Backend:
    """Make the backend of that name, or the one whose framework is installed when there is only one.

    Raises `UsageError` when the name is unknown, or when it is needed and missing.
    """
    if name is None:
        installed = [known for known in BACKENDS if find_spec(known) is not None]
        if len(installed) != 1:
            if not installed:
                raise UsageError(
                    "neither mindspore nor torch is installed, so there is no profiler to use. "
                    f"Run: {install_command('torch')}, or: {install_command('mindspore')}"
                )
            raise UsageError(
                f"{' and '.join(installed)} are installed, so perfguard cannot tell which profiler to use; write "
                '@pytest.mark.perfguard(backend="torch") or backend = "torch" in [tool.perfguard].'
            )
        name = installed[0]
    if name not in BACKENDS:
        hint = (
            f"{REPLAY} runs no step: use perfguard.replay(directory)"
            if name == REPLAY
            else "known are " + ", ".join((*BACKENDS, REPLAY))
        )
        raise UsageError(f"There is no backend {name!r} to run a step with; {hint}.")
    return BACKENDS[name]()
