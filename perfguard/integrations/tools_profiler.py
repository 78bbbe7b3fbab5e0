"""The profiler object of MindSpeed-MM, `start()`, `step()`, `stop()`: reads its tools.json, leaves a perfguard recording.

    prof = perfguard.tools_profiler("tools.json")
    prof.start()
    for batch in loader:
        train_one_step(batch)
        prof.step()
    prof.stop()

Static windows were run for real on a CPU (torch 2.13). On an Ascend device the same code goes through torch_npu, as
MindSpeed-MM's own does, and the memory history through `torch.npu.memory` or `torch.cuda.memory`; neither was run on an
Ascend device. Source: MindSpeed-MM, mindspeed_mm/tools/profiler.py and README.md.

The profiler writes directly into `save_path`, as with MindSpeed-MM, and perfguard's recording.json and steps.json are next to
its files. Several ranks write into `save_path/rank_<r>/`: a recording is of one rank, and `perfguard check save_path` checks
them all.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from perfguard.capture.torch_backend import TorchOptions, imported_torch, npu_profiler, rank_and_world_size
from perfguard.errors import UsageError
from perfguard.integrations.tools_config import EVERY_RANK, ToolsConfig, read_tools_config
from perfguard.integrations.tools_part import Part, WindowPart, claim
from perfguard.integrations.torch_dynamic import dynamic_profile
from perfguard.recording import Recording
from perfguard.window import StepWindow

logger = logging.getLogger(__name__)

#: Keys of static_param that only torch_npu reads, and their purpose.
_OF_ASCEND = {
    "level": "how much it records",
    "aic_metrics_type": "the counters of its AI Core",
    "data_simplification": "whether its raw data is removed",
    "analyse_flag": "whether its raw data is analysed",
}


class _State(Enum):
    NEW = "new"
    RUNNING = "running"
    OVER = "over"


class ProcessEnded(KeyboardInterrupt):
    """The process ended before stop() was called, so its recording is interrupted."""


#: The running object of this process: torch has one profiler at a time.
_running: ToolsProfiler | None = None


def tools_profiler(
    config: str | Path | ToolsConfig, *, output: str | Path | None = None, workload: str = "train"
) -> ToolsProfiler:
    """Return the profiler object of a tools.json (or of the `tools:` of a YAML) for an unchanged training loop.

    `output` replaces `save_path` (static) or `prof_dir` (dynamic); `workload` is the recording's name. Raises `UsageError`
    for an error in the file, in one sentence with its path. Nothing is imported or written before `start()`.
    """
    read = config if isinstance(config, ToolsConfig) else read_tools_config(config)
    return ToolsProfiler(read, output=None if output is None else Path(output), workload=workload)


class ToolsProfiler:
    """A profiler for a loop: `start()` before it, `step()` after every step, `stop()` after it; or a `with` block.

    It does nothing where `enable` is false or `ranks` lacks this rank. `step()` and `stop()` do nothing after the window, so
    that a loop can go on. A loop that raises leaves a recording with the error, at the latest when the process ends.
    """

    def __init__(self, config: ToolsConfig, *, output: Path | None = None, workload: str = "train") -> None:
        self.config = config
        self.output = output
        self.workload = workload
        #: Settings without effect here, a sentence each; set by `start()`.
        self.notes: tuple[str, ...] = ()
        self._state = _State.NEW
        self._parts: list[Part] = []
        self._process = os.getpid()

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The recordings written so far: one of a static profile, one per window of a dynamic profile."""
        return tuple(recording for part in self._parts for recording in part.recordings)

    def start(self) -> None:
        """Begin before the first step. Raises `UsageError` for a second call, a second profiler, or a directory in use."""
        global _running
        if not self._is_enabled:
            return
        if self._state is not _State.NEW:
            raise UsageError(
                "start() of a tools_profiler was called before; make a new tools_profiler for another loop."
            )
        if _running is not None:
            raise UsageError(
                f"A tools_profiler of {_running.config.source} is running in this process, and torch has one profiler at a "
                "time; call its stop() first."
            )
        rank, world_size = rank_and_world_size()
        self._parts = self._make_parts(rank, world_size)
        self._state = _State.RUNNING
        if not self._parts:
            return
        _running = self
        self._process = os.getpid()
        atexit.register(self._at_exit)
        self._call_parts("start")

    def step(self) -> None:
        """End a step, and begin the next one. Raises `UsageError` before `start()`."""
        if self._is_running("step"):
            self._call_parts("step")

    def stop(self) -> None:
        """End after the last step; a window that is not over leaves an incomplete recording."""
        if self._is_running("stop"):
            self._call_parts("stop")
            self._end()

    def __enter__(self) -> ToolsProfiler:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.stop()
        else:
            self._abort(error)

    @property
    def _is_enabled(self) -> bool:
        return self.config.enable or self.config.memory_profile["enable"]

    def _is_running(self, called: str) -> bool:
        if self._state is _State.NEW and self._is_enabled:
            raise UsageError(
                f"{called}() of a tools_profiler was called before start(); call start() once, before the loop."
            )
        return self._state is _State.RUNNING

    def _make_parts(self, rank: int, world_size: int) -> list[Part]:
        parts: list[Part] = []
        notes: list[str] = []
        memory = self.config.memory_profile
        if memory["enable"] and (memory["dump_ranks"] == [EVERY_RANK] or rank in memory["dump_ranks"]):
            parts.append(MemoryHistory(memory, rank=rank, source=self.config.source, prefix=self.config.prefix))
            if memory["mem_info"]:
                notes.append(
                    f"{self.config.prefix}memory_profile.mem_info has no effect here: only MindSpeed-MM writes that log"
                )
        if self.config.holds_for(rank) and self.config.profile_type == "static":
            static, static_notes = self._static(rank, world_size)
            parts.append(static)
            notes += static_notes
        elif self.config.holds_for(rank):
            assert self.config.config_path is not None
            part = dynamic_profile(
                self.config.config_path, output=self.output, workload=self.workload, rank=rank, world_size=world_size
            )
            parts.append(part)
        self.notes = tuple(notes)
        for note in notes:
            logger.info("%s", note)
        return parts

    def _static(self, rank: int, world_size: int) -> tuple[Part, list[str]]:
        param = self.config.static_param
        assert param is not None
        options, notes = _options(param, self.config, npu=npu_profiler(imported_torch()) is not None)
        place = self.output or param["save_path"]
        what = "output" if self.output else f"{self.config.prefix}profile.static_param.save_path"
        name = f"{what} = {str(place)!r}" + ("" if self.output else f" of {self.config.source}")
        # Relative to the working directory at the start; a training may change it.
        place = place.absolute()
        directory = place / f"rank_{rank}" if world_size > 1 else place
        claim(directory, name=name, above=place if world_size > 1 else None)
        part = WindowPart(
            replace(options, rank=rank, world_size=world_size),
            workload=self.workload,
            directory=directory,
            window=StepWindow.from_start_end(param["start_step"], param["end_step"]),
            requested={key: value for key, value in param.items() if key != "save_path"},
            notes=notes,
        )
        return part, notes

    def _call_parts(self, name: str) -> None:
        try:
            for part in self._parts:
                getattr(part, name)()
        except BaseException as error:
            # Keep what the failed profiler wrote, and do not leave torch's profiler on.
            self._abort(error)
            raise

    def _abort(self, error: BaseException) -> None:
        if self._state is _State.RUNNING:
            for part in self._parts:
                part.abort(error)
            self._end()

    def _end(self) -> None:
        global _running
        self._state = _State.OVER
        if _running is self:
            _running = None
            atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        if os.getpid() != self._process:
            # The end of a fork: the recording belongs to its parent.
            return
        error = getattr(sys, "last_value", None)
        kind = type(error).__name__
        why = "" if error is None else f" ({kind}: {error})" if str(error) else f" ({kind})"
        self._abort(ProcessEnded(f"the process ended before stop() was called{why}"))


def _options(param: dict[str, Any], config: ToolsConfig, *, npu: bool) -> tuple[TorchOptions, list[str]]:
    """Return the options for torch, and notes on those without effect on this device."""
    at = f"{config.prefix}profile.static_param"
    if not npu and not param["with_cpu"] and not imported_torch().cuda.is_available():
        raise UsageError(
            f"{config.source}: {at}.with_cpu is false, which records nothing here because torch finds no device; write true."
        )
    options = TorchOptions(
        record_shapes=param["record_shapes"],
        profile_memory=param["with_memory"],
        with_stack=param["with_stack"],
        host=param["with_cpu"],
        analyse=param["analyse_flag"],
        experimental={
            "profiler_level": param["level"].capitalize(),
            "aic_metrics": param["aic_metrics_type"],
            "data_simplification": param["data_simplification"],
        },
        first_step=param["start_step"],
    )
    if npu:
        return options, []
    return options, [
        f"{at}.{key} = {param[key]!r} has no effect here: it sets up an Ascend device ({what})"
        for key, what in _OF_ASCEND.items()
    ]


class MemoryHistory(Part):
    """`memory_profile`: all allocations of a device between two steps, as a pickle for pytorch.org/memory_viz."""

    def __init__(self, config: dict[str, Any], *, rank: int, source: str, prefix: str = "") -> None:
        super().__init__()
        self._config = config
        self._step = 0
        self._is_on = False
        self._path = config["save_path"] / f"snapshot_rank_{rank}.pickle"
        torch = imported_torch()
        if npu_profiler(torch) is not None:
            self._memory = torch.npu.memory
        elif torch.cuda.is_available():
            self._memory = torch.cuda.memory
        else:
            raise UsageError(
                f"{source}: {prefix}memory_profile.enable is true, and torch finds no device; write false "
                "(profile.static_param.with_memory records the memory of a CPU)."
            )
        named = f"{source}: {prefix}memory_profile.save_path {str(config['save_path'])!r}"
        if os.path.lexists(self._path):
            raise UsageError(
                f"{named} already holds {self._path.name}, and a directory holds one run; move it away or name another "
                "directory."
            )
        try:
            config["save_path"].mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{named} cannot be created: {error.strerror}; name another directory.") from error

    def start(self) -> None:
        """Begin the first step."""
        self._switch()

    def step(self) -> None:
        """End a step; the last one of the window writes the history."""
        self._step += 1
        self._switch()

    def stop(self) -> None:
        """Write the history recorded so far."""
        if self._is_on:
            self._is_on = False
            try:
                self._memory._dump_snapshot(str(self._path))
            finally:
                self._memory._record_memory_history(enabled=None)

    def abort(self, error: BaseException) -> None:
        """Write the history recorded so far; a failure is logged, because `error` is being raised."""
        try:
            self.stop()
        except (RuntimeError, OSError) as second:
            logger.error("The memory history cannot be written to %s: %s", self._path, second)

    def _switch(self) -> None:
        if self._step == self._config["start_step"]:
            entries = self._config["max_entries"]
            self._memory._record_memory_history(
                stacks=self._config["stacks"], max_entries=sys.maxsize if entries is None else entries
            )
            self._is_on = True
        elif self._step == self._config["end_step"]:
            self.stop()
