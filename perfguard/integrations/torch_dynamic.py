"""The dynamic profile of torch_npu: profiler_config.json, edited while the training runs, asks for a window.

Where torch_npu sees a device, its own `torch_npu.profiler.dynamic_profile` does the work, as in MindSpeed-MM, and what it
writes is judged as any directory of a profiler; that path was not run on a device. Elsewhere perfguard watches the file and
profiles with torch.profiler, run for real on a CPU (torch 2.13).

Source: torch_npu, profiler/dynamic_profile.py and _dynamic_profiler/; its default file. Three things differ on purpose:
what torch_npu resets in silence (active = 0) is refused in the log; a start_step that is past is refused in the log, where
torch_npu waits for ever; and a file that is there at the start counts, where it asks for a window.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import ModuleType
from typing import Any

from perfguard.capture.driver import Driver
from perfguard.capture.torch_backend import TorchBackend, TorchOptions, imported_torch, npu_profiler
from perfguard.documents import write_atomically
from perfguard.errors import PerfguardError, StoreError, UsageError
from perfguard.integrations.tools_config import LARGEST_BYTES, LAST_STEP, Section, decoded, one_line, read_json
from perfguard.integrations.tools_part import Part, claim, event_driver, release
from perfguard.recording import Recording
from perfguard.window import StepWindow

CONFIG_FILE = "profiler_config.json"
LOG_DIRECTORY = "log"
_LOG_BYTES = 200 * 1024
#: Two edits within this time of each other may carry the same time: FAT counts in steps of two seconds.
_RACY_NS = 2 * 10**9
#: start_step of a window that begins with the next step.
AT_ONCE = -1

#: What torch_npu writes into an empty directory.
DEFAULT: dict[str, Any] = {
    "activities": ["CPU", "NPU"],
    "prof_dir": "./",
    "analyse": False,
    "async_mode": False,
    "record_shapes": False,
    "profile_memory": False,
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "active": 1,
    "warmup": 0,
    "start_step": 0,
    "is_rank": False,
    "rank_list": [],
    "experimental_config": {
        "profiler_level": "Level0",
        "aic_metrics": "AiCoreNone",
        "l2_cache": False,
        "op_attr": False,
        "gc_detect_threshold": None,
        "data_simplification": True,
        "record_op_args": False,
        "export_type": ["text"],
        "msprof_tx": False,
        "mstx": False,
        "host_sys": [],
        "mstx_domain_include": [],
        "mstx_domain_exclude": [],
        "sys_io": False,
        "sys_interconnection": False,
    },
}
_EXPERIMENTAL: dict[str, Any] = DEFAULT["experimental_config"]
#: Keys that only MindSpore's file of the same name has.
_OF_MINDSPORE = ("stop_step", "prof_path", "analyse_mode", "aicore_metrics", "profiler_level", "profile_communication")
_LEVELS = ("Level_none", "Level0", "Level1", "Level2")
_AIC_METRICS = (
    "AiCoreNone",
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "ResourceConflictRatio",
    "MemoryUB",
    "L2Cache",
    "MemoryAccess",
)
_EXPORT_TYPES = ("text", "db")
_HOST_SYS = ("cpu", "mem", "disk", "network", "osrt")


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicConfig:
    """A profiler_config.json. Steps count from 0: a window of start_step 3 begins when three steps are done.

    `start_step` is None where the file has none, as those of older torch_npu: then an edit alone asks for a window.
    """

    activities: tuple[str, ...] = ("CPU", "NPU")
    prof_dir: Path = Path("./")
    analyse: bool = False
    async_mode: bool = False
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    active: int = 1
    warmup: int = 0
    start_step: int | None = None
    is_rank: bool = False
    rank_list: tuple[int, ...] = ()
    experimental_config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def holds_for(self, rank: int) -> bool:
        """Whether this rank is to be profiled."""
        return not self.is_rank or rank in self.rank_list

    @property
    def window(self) -> StepWindow:
        """The window, from the step on at which it begins."""
        return StepWindow(skip_first=0, wait=0, warmup=self.warmup, active=self.active)


def read_dynamic_config(data: bytes, name: str) -> DynamicConfig:
    """Check what a profiler_config.json holds. Raises `UsageError`, in one line that names the value, or line and column."""
    root = Section.of(read_json(decoded(data, name), name), "", name)
    if found := [key for key in _OF_MINDSPORE if key in root]:
        raise UsageError(
            f"{name} is MindSpore's: it has {', '.join(found)}, where torch_npu's file of the same name has active and "
            "prof_dir; give MindSpore's DynamicProfilerMonitor a directory of its own."
        )
    root.refuse_unknown((*DEFAULT, "metadata", "is_valid"))
    root.boolean("is_valid", False)
    activities = tuple(one.upper() for one in root.texts("activities", ("CPU", "NPU"), ("CPU", "NPU")))
    if not activities:
        raise root.wrong("activities", "records nothing: name CPU, NPU or both")
    is_rank, ranks = root.boolean("is_rank", False), root.integers("rank_list", (), least=0)
    if is_rank and not ranks:
        raise UsageError(
            f"is_rank = True of {name} profiles nobody, as its rank_list is empty; name ranks, or write false."
        )
    return DynamicConfig(
        activities=activities,
        prof_dir=root.path("prof_dir", DEFAULT["prof_dir"]),
        active=root.integer("active", 1, least=1, most=LAST_STEP, reset=" (torch_npu would take 1)"),
        warmup=root.integer("warmup", 0, least=0, most=LAST_STEP, reset=" (torch_npu would take 0)"),
        start_step=root.integer("start_step", AT_ONCE, least=AT_ONCE, most=LAST_STEP, reset=" (torch_npu would take 0)")
        if "start_step" in root
        else None,
        is_rank=is_rank,
        rank_list=ranks,
        experimental_config=_experimental(root.section("experimental_config")),
        metadata=root.section("metadata").plain,
        **{key: root.boolean(key, False) for key in _SWITCHES},
    )


_SWITCHES = tuple(key for key, value in DEFAULT.items() if value is False and key != "is_rank")


def _experimental(section: Section) -> dict[str, Any]:
    section.refuse_unknown(_EXPERIMENTAL)
    found: dict[str, Any] = {
        "profiler_level": section.choice("profiler_level", _LEVELS, "Level0"),
        "aic_metrics": section.choice("aic_metrics", _AIC_METRICS, "AiCoreNone"),
        "gc_detect_threshold": None
        if section.is_null("gc_detect_threshold")
        else section.number("gc_detect_threshold", least=0),
        "export_type": list(section.texts("export_type", ("text",), _EXPORT_TYPES)),
        "host_sys": list(section.texts("host_sys", (), _HOST_SYS)),
    }
    for key, value in _EXPERIMENTAL.items():
        if isinstance(value, bool):
            found[key] = section.boolean(key, value)
        elif key not in found:
            found[key] = list(section.texts(key, ()))
    # Only what the file says: what it leaves out keeps torch_npu's own default.
    return {key: value for key, value in found.items() if key in section}


class Watch:
    """One file, looked at between steps: a `stat` where nothing was edited, read where its time, size or place changed.

    A file edited within two seconds of the look before is read again, as its time may not tell. What is half written is
    told as such by whoever reads it; the rest of it is the next change.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._digest = b""
        self._is_racy = False

    def changed(self) -> bytes | None:
        """Return what the file holds where it was saved since the last call, else None.

        Raises `OSError`, once for each save; a file that is gone is awaited.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            self._stamp = None
            return None
        if _stamp(found) == self._stamp and not self._is_racy:
            return None
        before, self._stamp, self._is_racy = self._stamp, _stamp(found), False
        data, stamps, found = _read(self.path)
        if len(stamps) > 1:
            # Written while it was read: what it holds now is for the next look, whatever it held before.
            self._stamp, self._is_racy = before, True
            return None
        self._stamp = _stamp(found)
        self._is_racy = abs(time.time_ns() - found.st_mtime_ns) < _RACY_NS
        digest = hashlib.sha256(data).digest()
        is_same = self._stamp == before and digest == self._digest
        self._digest = digest
        return None if is_same else data


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> tuple[bytes, set[tuple[int, int, int]], os.stat_result]:
    """Return what a file holds, its stamps around the reading, and how it was found; a pipe is not waited for."""
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        before = os.fstat(file.fileno())
        data = file.read(LARGEST_BYTES + 1) or b""
        after = os.fstat(file.fileno())
    return data, {_stamp(before), _stamp(after)}, after


def dynamic_profile(config_path: Path, *, output: Path | None, workload: str, rank: int, world_size: int) -> Part:
    """Make the dynamic profile of a directory (or of the profiler_config.json in one). Raises `UsageError`."""
    directory = (config_path.parent if config_path.name == CONFIG_FILE else config_path).absolute()
    if os.path.lexists(directory) and not os.path.isdir(directory):
        raise UsageError(
            f"config_path = {str(config_path)!r} is a file; name a directory, or the {CONFIG_FILE} in one."
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"config_path = {str(config_path)!r} cannot be made: {error.strerror}.") from error
    if (npu := npu_profiler(imported_torch())) is not None:
        return NpuDynamicProfile(directory, npu.dynamic_profile)
    return DynamicProfile(directory, output=output, workload=workload, rank=rank, world_size=world_size)


class NpuDynamicProfile:
    """torch_npu's own dynamic profile: it watches the file, profiles and writes. Not run on a device."""

    def __init__(self, directory: Path, module: ModuleType | Any) -> None:
        self.recordings: list[Recording] = []
        self._directory = directory
        self._module = module
        if os.path.lexists(path := directory / CONFIG_FILE):
            read_dynamic_config(_read(path)[0], one_line(str(path)))

    def start(self) -> None:
        """Let torch_npu watch the directory; it writes the default file and the log."""
        self._module.init(str(self._directory))

    def step(self) -> None:
        """Tell torch_npu of a step."""
        self._module.step()

    def stop(self) -> None:
        """Nothing: torch_npu ends its window itself, at the latest with the process."""

    def abort(self, error: BaseException) -> None:
        """Nothing, for the same reason."""


class DynamicProfile:
    """Windows on demand over torch.profiler: each in a directory of its own below `prof_dir`, and a log of what was done.

    Nothing that is wrong with an edited file, or with the profiler, ends the training: it is logged, and the next edit
    counts. What is wrong with the file at the start is raised.
    """

    def __init__(self, directory: Path, *, output: Path | None, workload: str, rank: int, world_size: int) -> None:
        self.recordings: list[Recording] = []
        self.path = directory / CONFIG_FILE
        self._output = output
        # A training may change its working directory; prof_dir is relative to the one at the start.
        self._base = Path.cwd()
        self._workload = workload
        self._rank = rank
        self._world_size = world_size
        self._step = 0
        self._watch = Watch(self.path)
        self._refused: bytes | None = None
        self._asked: tuple[DynamicConfig, int] | None = None
        self._driver: Driver | None = None
        self._window_directory = Path()
        if not os.path.lexists(self.path):
            write_atomically(self.path, json.dumps(DEFAULT, indent=4))
        self._log, self._handler = _open_log(directory, rank)
        self._log.info("Watching %s.", self.path)

    # -- the loop --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the file that is there. Raises `UsageError` for what is wrong with it: no step has run yet."""
        try:
            data = self._watch.changed()
            config = read_dynamic_config(_read(self.path)[0] if data is None else data, one_line(str(self.path)))
        except OSError as error:
            raise UsageError(f"{one_line(str(self.path))} cannot be read: {error.strerror}.") from error
        if config.start_step:
            self._plan(config)
        self._go_on()

    def step(self) -> None:
        """End a step: a window may be over, an edit may ask for one, and the next step may be its first."""
        if self._driver is not None:
            self._end_step(self._driver)
        self._step += 1
        self._look()
        self._go_on()

    def stop(self) -> None:
        """End after the last step: a window under way ends as LOADER_ENDED, one that was never reached is logged."""
        if self._driver is not None:
            driver = self._driver
            try:
                driver.close()
            except PerfguardError as error:
                driver.abort(error)
                self._log.error("%s", one_line(str(error)))
            self._finish(driver)
        self._end()

    def abort(self, error: BaseException) -> None:
        """End in mid-step: a window under way is kept as far as it came."""
        if self._driver is not None:
            driver = self._driver
            driver.abort(error)
            self._finish(driver)
        self._end()

    def _end(self) -> None:
        if self._asked is not None:
            self._log.warning("Step %d was never reached: the training had %d steps.", self._asked[1], self._step)
            self._asked = None
        self._log.info("Stop watching %s at %d step.", self.path, self._step)
        self._close_log()

    def _close_log(self) -> None:
        self._log.removeHandler(self._handler)
        self._handler.close()

    # -- an edit -----------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        try:
            data = self._watch.changed()
            # While it is being written its time may change once more than it itself: that is not told twice.
            if data is None or data == self._refused:
                return
            self._refused = data
            if not data:
                self._log.info("%s is empty: it is being written.", self.path)
                return
            config = read_dynamic_config(data, one_line(str(self.path)))
        except OSError as error:
            self._log.warning("%s cannot be read: %s. The training goes on.", self.path, error.strerror)
        except UsageError as error:
            self._log.warning("%s The training goes on, and the next edit counts.", error)
        else:
            self._refused = None
            self._plan(config)

    def _plan(self, config: DynamicConfig) -> None:
        """Note when the window of an edit begins, or log why it does not."""
        if not config.holds_for(self._rank):
            self._log.info("Rank %d is not in rank_list %s: nothing to do.", self._rank, list(config.rank_list))
            return
        begin = config.start_step or AT_ONCE
        if begin != AT_ONCE and begin < self._step:
            self._log.warning(
                "start_step = %d of %s is past: step %d is next. Write -1 for the next step.",
                begin,
                self.path,
                self._step,
            )
            return
        if self._asked is not None:
            self._log.info("The window asked for before has not begun, and is given up.")
        self._asked = config, (self._step if begin == AT_ONCE else begin)
        self._log.info(
            "Start step will be set to %d: %d warmup and %d active steps.", self._asked[1], config.warmup, config.active
        )

    # -- a window ------------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._driver is None and self._asked is not None and self._step >= self._asked[1]:
            (config, begin), self._asked = self._asked, None
            if config.start_step not in (None, AT_ONCE, 0) and begin < self._step:
                self._log.warning("start_step = %d passed while another window was under way.", begin)
            else:
                self._open(config)
        if self._driver is not None:
            self._begin_step(self._driver)

    def _open(self, config: DynamicConfig) -> None:
        place = self._base / (self._output or config.prof_dir)
        try:
            options, notes = self._options(config)
            directory = self._claimed(place, config)
            self._driver = event_driver(
                TorchBackend(replace(options, directory=directory)),
                workload=self._workload,
                directory=directory,
                window=config.window,
                asked={"start_step": self._step, **_plain(config)},
                notes=notes,
            )
        except PerfguardError as error:
            self._log.error("%s No window is profiled.", error)
            return
        self._window_directory = directory
        for note in notes:
            self._log.info("%s", note)
        self._log.info("Start Dynamic Profiler at %d step, in %s.", self._step, directory)

    def _claimed(self, place: Path, config: DynamicConfig) -> Path:
        """Make the directory of a window: one of its own, whatever earlier windows and runs left."""
        stem = f"dp_rank_{self._rank}_start_{self._step}_active_{config.active}"
        try:
            place.mkdir(parents=True, exist_ok=True)
            earlier = [re.fullmatch(rf"{stem}(?:_([0-9]{{1,9}}))?", one) for one in os.listdir(place)]
        except OSError as error:
            raise UsageError(
                f"prof_dir = {str(place)!r} cannot be made: {error.strerror}; name another place."
            ) from error
        last = max((int(one[1] or 1) for one in earlier if one is not None), default=0)
        directory = place / (f"{stem}_{last + 1}" if last else stem)
        claim(directory, name=f"the place of this window, {str(directory)!r},")
        return directory

    def _options(self, config: DynamicConfig) -> tuple[TorchOptions, list[str]]:
        """Return what torch is asked for, and what of the file has no meaning here."""
        notes = []
        has_device = imported_torch().cuda.is_available()
        if "CPU" not in config.activities and not has_device:
            raise UsageError(
                f"activities = {list(config.activities)} leaves nothing to record here: torch sees no device."
            )
        if "NPU" in config.activities and not has_device:
            notes.append("NPU of activities has no meaning here: torch_npu sees no device.")
        if named := [key for key, value in config.experimental_config.items() if value != _EXPERIMENTAL[key]]:
            notes.append(f"experimental_config has no meaning without an Ascend device: {', '.join(named)}.")
        if config.analyse:
            notes.append("analyse has no meaning here: torch.profiler writes nothing raw.")
        options = TorchOptions(
            record_shapes=config.record_shapes,
            profile_memory=config.profile_memory,
            with_stack=config.with_stack,
            with_flops=config.with_flops,
            with_modules=config.with_modules,
            host="CPU" in config.activities,
            device="NPU" in config.activities,
            metadata={key: json.dumps(value) for key, value in config.metadata.items()},
            first_step=self._step,
            rank=self._rank,
            world_size=self._world_size,
        )
        return options, notes

    def _begin_step(self, driver: Driver) -> None:
        try:
            driver.begin()
        except PerfguardError as error:
            self._give_up(driver, error)

    def _end_step(self, driver: Driver) -> None:
        try:
            driver.end()
        except PerfguardError as error:
            self._give_up(driver, error)
        else:
            if driver.has_ended:
                self._finish(driver)

    def _give_up(self, driver: Driver, error: PerfguardError) -> None:
        driver.abort(error)
        self._log.error("%s The training goes on.", one_line(str(error)))
        self._finish(driver)

    def _finish(self, driver: Driver) -> None:
        self._driver = None
        release(self._window_directory)
        if driver.recording is not None:
            self.recordings.append(driver.recording)
            ending = driver.recording.ending.value if driver.recording.ending else ""
            self._log.info("Stop Dynamic Profiler at %d step: %s.", self._step + 1, ending)
        else:
            self._log.error("%s", one_line(driver.problem))


def _plain(config: DynamicConfig) -> dict[str, Any]:
    skipped = ("prof_dir", "start_step")
    plain = {key: getattr(config, key) for key in DynamicConfig.__dataclass_fields__ if key not in skipped}
    return json.loads(json.dumps(plain))  # type: ignore[no-any-return]


def _open_log(directory: Path, rank: int) -> tuple[logging.Logger, logging.Handler]:
    """Open the log torch_npu would write: the same place, name, size and line."""
    place = directory / LOG_DIRECTORY
    path = place / f"dp_{socket.gethostname()}_{os.getpid()}_rank_{rank}.log"
    try:
        place.mkdir(exist_ok=True)
        handler = RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"{one_line(str(path))} cannot be written: {error.strerror}; name another config_path."
        ) from error
    handler.setFormatter(logging.Formatter("%(asctime)s [%(levelname)s] [%(process)d] %(filename)s: %(message)s"))
    log = logging.Logger("DynamicProfiler", logging.DEBUG)
    log.addHandler(handler)
    return log, handler
