"""The guard of a run without --perfguard: every workload runs one step, as a plain test."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from perfguard.capture.driver import require_callable, require_no_awaitable
from perfguard.errors import CaptureError, PerfguardError, UsageError
from perfguard.window import StepWindow

if TYPE_CHECKING:
    from perfguard.capture.script import Script
    from perfguard.capture.training import Training
    from perfguard.guard import Callback

Batch = TypeVar("Batch")


class PlainGuard:
    """Runs every workload of a test once."""

    StepWindow = StepWindow

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(self, step: Callable[[], object], *, name: str | None = None) -> None:
        """Run the step once."""
        __tracebackhide__ = True
        with failing(self._item):
            step = require_callable(step)
        result = step()
        with failing(self._item):
            require_no_awaitable(result)

    def steps(self, batches: Iterable[Batch], *, name: str | None = None) -> Iterator[Batch]:
        """Yield the first batch only."""
        for batch in batches:
            yield batch
            return

    def replay(self, directory: str | os.PathLike[str], *, name: str | None = None) -> None:
        """Require that the directory exists."""
        __tracebackhide__ = True
        from perfguard.capture.replay import replay

        with failing(self._item):
            replay(Path(directory))

    def callback(self, *, name: str | None = None, **how: Any) -> Callback:
        """Return a callback that does nothing."""
        from perfguard.capture.mindspore_callback import plain_callback

        return plain_callback()

    def trainer_callback(self, *, name: str | None = None) -> Any:
        """Return a callback that stops a training of transformers' Trainer after one step."""
        __tracebackhide__ = True
        from perfguard.capture.trainer_callback import trainer_callback

        with failing(self._item):
            return trainer_callback(self._training(name))

    def lightning_callback(self, *, name: str | None = None) -> Any:
        """Return a callback that stops a training of Lightning's Trainer after one step."""
        __tracebackhide__ = True
        from perfguard.capture.lightning_callback import lightning_callback

        with failing(self._item):
            return lightning_callback(self._training(name))

    def _training(self, name: str | None) -> Training[Any]:
        from perfguard.capture.training import OneStep, Training

        return Training(OneStep, done=lambda steps: None, failing=lambda: failing(self._item))

    def script(self, command: Sequence[str | os.PathLike[str]], *, name: str | None = None, **how: Any) -> None:
        """Run the command, without any profiler; fails the test where it fails."""
        __tracebackhide__ = True
        from perfguard import child

        with failing(self._item):
            script = script_of(command, how)
            try:
                status = child.run(script.command, timeout=script.timeout_s).returncode
            except (OSError, child.TimeoutExpired) as error:
                raise CaptureError(f"{script.command[0]} did not run to its end: {error}") from error
        if status:
            pytest.fail(f"{shlex.join(script.command)} ended with status {status}")


def script_of(
    command: Sequence[str | os.PathLike[str]], how: Mapping[str, Any], *, backend: str | None = None
) -> Script:
    """Return the script of `perfguard.script(command, **how)`. Raises `UsageError`."""
    from perfguard.capture.script import Script
    from perfguard.configuration import Section

    if isinstance(command, (str, bytes)):
        raise UsageError(f"perfguard.script({command!r}) takes a list of words, such as ['python', 'train.py'].")
    known = ("window", "python", "launcher", "ranks", "options", "graphs", "timeout")
    Section(how, {"properties": dict.fromkeys(known)}, "perfguard.script(...)").refuse_unknown()
    window, python = how.get("window"), how.get("python")
    return Script(
        command=tuple(os.fspath(word) for word in command),
        backend=backend,
        window=StepWindow.from_text(window) if isinstance(window, str) else window,
        python=None if python is None else Path(python),
        launcher=how.get("launcher"),
        ranks=how.get("ranks", 1),
        options=how.get("options") or {},
        timeout_s=how.get("timeout"),
        graphs=how.get("graphs"),
    )


@contextmanager
def failing(item: pytest.Item) -> Iterator[None]:
    """Turn perfguard's own errors into the failure of a test, without a traceback; a `UsageError` names the test's line."""
    __tracebackhide__ = True
    try:
        yield
    except PerfguardError as error:
        where = f"{source_of(item)}: " if isinstance(error, UsageError) else ""
        # From None: pytest would print the error a second time, as the cause of the failure.
        raise pytest.fail.Exception(f"perfguard: {where}{error}", pytrace=False) from None


def source_of(item: pytest.Item) -> str:
    """Return file and line of a test, as `tests/test_train.py:12`."""
    file, line, _ = item.location
    return file if line is None else f"{file}:{line + 1}"
