"""MindSpore in a recorded process: its steps, and its profiler, by MS_PROFILER_OPTIONS or, for a window, with a schedule."""

from __future__ import annotations

import inspect
import json
import os
import time

from .recorder import Framework, StepRecorder, note_when_on, number_of, packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional


class MindSpore(Framework):
    """Finds steps by the callbacks of `Model.train`, and by wrapped calls of Cells, compiled functions and optimizers."""

    name = "mindspore"
    rank_variable = "RANK_ID"
    follow_at_once = ("optimizer", "call")

    def __init__(self, recorder: StepRecorder, mindspore: Any) -> None:
        super().__init__(recorder)
        self.mindspore = mindspore
        self.synchronous = False
        try:
            # Its place since 2.9; the old name works too, with a message on standard error.
            from mindspore.graph import api
        except ImportError:
            from mindspore.common import api
        self.api = api
        from mindspore.train.callback import _callback

        manager = _callback.CallbackManager
        for name, before in (("on_train_step_begin", True), ("on_train_step_end", False)):
            setattr(manager, name, self.model_step(getattr(manager, name), before))
        from mindspore import nn

        self.optimizer = nn.Optimizer
        nn.Cell.__call__ = self.outermost(nn.Cell.__call__)

        for name in ("_JitExecutor", "_MindsporeFunctionExecutor"):
            if hasattr(self.api, name):
                executor = getattr(self.api, name)
                executor.__call__ = self.outermost(executor.__call__)
        self.watch_own()

    # -- steps ---------------------------------------------------------------------------------------------------------

    def model_step(self, method: Any, before: bool) -> Any:
        """Wrap a method by which `Model.train` calls its callbacks before or after a step."""
        mine, recorder = self, self.recorder

        def call(self: Any, run_context: Any) -> Any:
            if before:
                # What runs until the step ends is a part of it.
                mine.depth += 1
                recorder.begin()
                return method(self, run_context)
            result = method(self, run_context)
            mine.depth -= 1
            recorder.end("model")
            return result

        return call

    def outermost(self, method: Any) -> Any:
        """Wrap a call of a Cell or a compiled function: the outermost such call, or an optimizer's, may end a step."""
        mine, recorder = self, self.recorder

        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            if recorder.is_over() or not recorder.is_mine:
                return method(self, *arguments, **keywords)
            if mine.depth == 0:
                recorder.begin()
            mine.depth += 1
            try:
                result = method(self, *arguments, **keywords)
            finally:
                mine.depth -= 1
            if mine.depth == 0 and isinstance(self, mine.optimizer):
                if recorder.ends_step(self):
                    recorder.end("optimizer")
            # The forward half of a gradient (PyNative) is followed by an optimizer.
            elif mine.depth == 0 and not mine.api._pynative_executor.grad_flag():
                recorder.end("call")
            return result

        return call

    def synchronize(self) -> None:
        """Wait for everything dispatched. On a CPU the first `runtime.synchronize()` only logs an error (2.10)."""
        try:
            from mindspore.runtime.stream import synchronize_
        except ImportError:
            synchronize_ = self.api._pynative_executor.sync
        synchronize_()

    # -- the profiler --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the profiler: as the variable says, or with a schedule."""
        window = self.recorder.window
        self.by_us = True
        self.note_files()
        try:
            if window is None:
                self.start_by_variable()
                return
            # Else memory differs from run to run: see MindSporeBackend.start.
            self.synchronous = self.set_synchronous(True)
            self.start_by_schedule(window)
        finally:
            self.by_us = False

    def start_by_schedule(self, window: Dict[str, int]) -> None:
        """Start with the options of the variable and a schedule, which the variable cannot express."""
        from mindspore.profiler import EnvProfiler, _ExperimentalConfig

        profiler = self.mindspore.profiler
        options = json.loads(os.environ["MS_PROFILER_OPTIONS"])
        given = EnvProfiler._convert_options_to_profiler_params(options)
        kinds = profiler.ProfilerActivity
        if "activities" not in given:
            on_device = self.mindspore.get_context("device_target") == "Ascend"
            given["activities"] = [kinds.CPU, kinds.NPU] if on_device else [kinds.CPU]
        experimental = set(inspect.signature(_ExperimentalConfig.__init__).parameters)
        config = _ExperimentalConfig(**{key: value for key, value in given.items() if key in experimental})
        others = {key: value for key, value in given.items() if key not in experimental}
        for key in ("start", "output_path", "start_profile"):
            others.pop(key, None)
        self.profiler = profiler.profile(
            schedule=profiler.schedule(wait=0, warmup=window["warmup"], active=window["active"], repeat=1),
            on_trace_ready=profiler.tensorboard_trace_handler(self.directory()),
            experimental_config=config,
            **others,
        )

    def start_by_variable(self) -> None:
        """Have MindSpore read MS_PROFILER_OPTIONS now, and never in a script that has its own profiler."""
        options = json.loads(os.environ["MS_PROFILER_OPTIONS"])
        options["output_path"] = self.directory()
        os.environ["MS_PROFILER_OPTIONS"] = json.dumps(options)
        try:
            from mindspore.profiler import envprofiling

            os.environ.pop("MS_PROFILER_RUN_CONFIG", None)
            envprofiling.profiler_check_env()
        except ImportError:
            from mindspore.profiler import envprofiler

            envprofiler.EnvProfiler.init_profiler()

    def advance(self) -> None:
        """Count a step in the profiler's schedule, if it has one."""
        if self.profiler is not None:
            self.profiler.step()

    def stop(self) -> None:
        """Stop and analyse; MindSpore itself stops what the variable started, when the process ends."""
        profiler, self.profiler = self.profiler, None
        if profiler is not None:
            profiler.stop()
            self.set_synchronous(self.synchronous)

    def set_synchronous(self, value: bool) -> bool:
        """Have PyNative operators run one after the other, or not; return the former setting."""
        if self.mindspore.get_context("mode") != self.mindspore.PYNATIVE_MODE:
            return False
        from mindspore import log

        # MindSpore logs at every use that this setting will be renamed.
        logger, silent = log._get_logger(), lambda record: False
        logger.addFilter(silent)
        try:
            before = bool(self.mindspore.get_context("pynative_synchronize"))
            self.mindspore.set_context(pynative_synchronize=value)
        finally:
            logger.removeFilter(silent)
        return before

    def discard(self) -> None:
        """Stop and leave no output: the steps are counted again, or the script has its own profiler."""
        if self.profiler is not None:
            self.stop()
        else:
            from mindspore.profiler import EnvProfiler

            EnvProfiler().analyse()
            os.environ.pop("MS_PROFILER_OPTIONS", None)
        self.remove()

    def monitor_path(self) -> Optional[str]:
        """Return where a handler of MindSpore's own monitor writes; the monitor imported it before it was wrapped."""
        try:
            from mindspore.profiler.common.profiler_context import ProfilerContext
        except ImportError:
            return None
        path: Optional[str] = getattr(ProfilerContext(), "on_trace_ready_output_path", None)
        return path

    def watch_own(self) -> None:
        """Notice a profiler that the script makes, and have it record memory unless the script decides that."""
        mine, recorder = self, self.recorder
        module = self.mindspore.profiler
        makers = [module.Profiler, *([module.profile] if hasattr(module, "profile") else [])]
        for maker in makers:
            make = maker.__init__

            def init(self: Any, *arguments: Any, _make: Any = make, _maker: Any = maker, **keywords: Any) -> None:
                if mine.by_us or keywords.get("env_enable") or not recorder.is_mine or type(self) is not _maker:
                    _make(self, *arguments, **keywords)
                    return
                if recorder.plan["own_memory"] and not arguments:
                    keywords.setdefault("profile_memory", True)
                where = keywords.get("output_path") or mine.handled or mine.monitor_path()
                self.perfguard = recorder.found_own(where, "mindspore." + _maker.__name__)
                self.perfguard["has_schedule"] = keywords.get("schedule") is not None
                _make(self, *arguments, **keywords)
                if keywords.get("start_profile", True) and not self.perfguard["on"]:
                    self.perfguard["on"].append([time.time_ns(), None])

            maker.__init__ = init
            note_when_on(maker, "start", "stop", "analyse")
        if hasattr(module, "tensorboard_trace_handler"):
            module.tensorboard_trace_handler = self.noting_handler(module.tensorboard_trace_handler)

    # -- the facts -----------------------------------------------------------------------------------------------------

    def facts(self) -> Dict[str, Any]:
        """Return the device, the rank and the packages of this process."""
        mindspore = self.mindspore
        device = str(mindspore.get_context("device_target"))
        graph = mindspore.get_context("mode") == mindspore.GRAPH_MODE
        try:
            from mindspore.communication import get_group_size, get_rank

            world_size, rank = int(get_group_size()), int(get_rank())
        except (ImportError, RuntimeError, ValueError):
            world_size, rank = 1, number_of("RANK_ID")
        return {
            "device": device.lower(),
            "device_name": "" if device == "CPU" else device,
            "mode": "graph" if graph else "pynative",
            "rank": rank,
            "world_size": world_size,
            "threads": 0,
            "packages": packages("mindspore"),
        }
