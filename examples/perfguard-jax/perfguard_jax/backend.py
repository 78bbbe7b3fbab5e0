"""The JAX backend: `jax.profiler` with each step in a `StepTraceAnnotation`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import jax

from perfguard.capture import Target
from perfguard.capture.environment import cpu_model
from perfguard.window import StepWindow

#: What a step is called in the trace, as in JAX's own examples; the dialect looks for it.
MARK = "train"


class JaxBackend:
    """Profiles with `jax.profiler`: one directory a cycle, and a mark for each active step."""

    name = "jax"

    def __init__(self) -> None:
        self.conditions: dict[str, bool] = {}
        self._directory = Path()
        self._window = StepWindow()
        self._step = 0
        #: The annotation of the step that is running, and the trace around it.
        self._mark = ExitStack()
        self._is_tracing = False

    def prepare(self, threads: int) -> None:
        """Do nothing: XLA makes its threads when it starts, one for each CPU that the process may use."""

    def restore(self) -> None:
        """Do nothing."""

    def target(self) -> Target:
        """Return what JAX runs on."""
        device = jax.devices()[0]
        return Target(
            device=device.platform,
            mode="jit",
            world_size=jax.process_count(),
            rank=jax.process_index(),
            threads=len(os.sched_getaffinity(0)),
            device_name=cpu_model() if device.platform == "cpu" else device.device_kind,
            packages={name: version(name) for name in ("jax", "jaxlib")},
        )

    def synchronize(self) -> None:
        """Wait for every array that is still held. A step waits for its own results: `jax.block_until_ready(...)`."""
        jax.block_until_ready(jax.live_arrays())

    def start(self, directory: Path, window: StepWindow) -> None:
        """Start with the first step of the window."""
        self._directory, self._window, self._step = directory, window, 0
        self._begin_step()

    def advance(self) -> None:
        """End the step, and begin the next one."""
        self._end_step()
        self._step += 1
        self._begin_step()

    def stop(self) -> None:
        """End what is under way."""
        self._mark.close()
        self._stop_trace()

    def _begin_step(self) -> None:
        cycle, place = divmod(self._step, self._window.steps_per_cycle)
        quiet = self._window.wait + self._window.warmup
        if cycle >= self._window.repeat or place < quiet:
            return
        if place == quiet:
            options = jax.profiler.ProfileOptions()
            # Frames of Python would be most of the trace.
            options.python_tracer_level = 0
            # JAX names a directory by the second, so each cycle has one of its own.
            jax.profiler.start_trace(self._directory / f"cycle{cycle}", profiler_options=options)
            self._is_tracing = True
        self._mark.enter_context(jax.profiler.StepTraceAnnotation(MARK, step_num=self._step))

    def _end_step(self) -> None:
        self._mark.close()
        if self._step % self._window.steps_per_cycle == self._window.steps_per_cycle - 1:
            self._stop_trace()

    def _stop_trace(self) -> None:
        if self._is_tracing:
            self._is_tracing = False
            jax.profiler.stop_trace()
