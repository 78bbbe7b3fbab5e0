"""The dynamic profile of torch_npu: an edit of profiler_config.json during the training requests a window.

With an Ascend device torch_npu's own `torch_npu.profiler.dynamic_profile` does the work, as in MindSpeed-MM, and perfguard
checks its output like any profiler directory; that path was not run on a device. Elsewhere perfguard watches the file and
profiles with torch.profiler, run for real on a CPU (torch 2.13).

Three differences from torch_npu are deliberate: active = 0, which torch_npu resets without a word, is refused in the log; so
is a start_step in the past, for which torch_npu waits forever; and a file that exists at the start may request a window.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import ModuleType
from typing import Any

from perfguard.capture.torch_backend import FLAGS, TorchOptions, imported_torch, npu_profiler
from perfguard.config_files import LARGEST_BYTES, decoded, read_json
from perfguard.configuration import Section, configuration_schema
from perfguard.errors import PerfguardError, StoreError, UsageError
from perfguard.integrations.tools_part import Part, WindowPart, claim
from perfguard.screen import one_line
from perfguard.window import StepWindow
from perfguard.writing import write_atomically

CONFIG_FILE = "profiler_config.json"
LOG_DIRECTORY = "log"
_LOG_BYTES = 200 * 1024
#: Two edits within this time may have the same modification time: FAT counts in steps of two seconds.
_RACY_NS = 2 * 10**9
#: The start_step of a window that begins with the next step.
AT_ONCE = -1
#: Keys that only MindSpore's file of the same name has.
_OF_MINDSPORE = ("stop_step", "prof_path", "analyse_mode", "aicore_metrics", "profiler_level", "profile_communication")


def dynamic_profile(config_path: Path, *, output: Path | None, workload: str, rank: int, world_size: int) -> Part:
    """Return the dynamic profile of a directory, or of the profiler_config.json in one. Raises `UsageError`."""
    directory = (config_path.parent if config_path.name == CONFIG_FILE else config_path).absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(
            f"config_path = {str(config_path)!r} is a file; name a directory, or the {CONFIG_FILE} in one."
        ) from None
    except OSError as error:
        raise UsageError(
            f"config_path = {str(config_path)!r} cannot be created: {error.strerror}; name another directory."
        ) from error
    if (npu := npu_profiler(imported_torch())) is not None:
        return NpuDynamicProfile(directory, npu.dynamic_profile)
    return DynamicProfile(directory, output=output, workload=workload, rank=rank, world_size=world_size)


class NpuDynamicProfile(Part):
    """torch_npu's own dynamic profile, which watches the file, profiles and writes. Not run on a device.

    It ends its window itself, at the latest with the process.
    """

    def __init__(self, directory: Path, module: ModuleType | Any) -> None:
        super().__init__()
        self._directory = directory
        self._module = module
        if os.path.lexists(path := directory / CONFIG_FILE):
            read_dynamic_config(read_bytes(path), one_line(str(path)))

    def start(self) -> None:
        """Have torch_npu watch the directory; it writes the default file and the log."""
        self._module.init(str(self._directory))

    def step(self) -> None:
        """Report a step to torch_npu."""
        self._module.step()


class DynamicProfile(Part):
    """Windows on demand with torch.profiler: each in its own directory below `prof_dir`, and a log.

    An error in an edited file, or of the profiler, is logged; the training goes on, and the next edit counts. An error in the
    file at the start is raised.
    """

    def __init__(self, directory: Path, *, output: Path | None, workload: str, rank: int, world_size: int) -> None:
        super().__init__()
        self.path = directory / CONFIG_FILE
        self._output = output
        # prof_dir is relative to the working directory at the start; a training may change it.
        self._base = Path.cwd()
        self._workload = workload
        self._rank = rank
        self._world_size = world_size
        self._step = 0
        self._watch = WatchedFile(self.path)
        self._refused: bytes | None = None
        self._requested: tuple[dict[str, Any], int] | None = None
        self._window: WindowPart | None = None
        if not os.path.lexists(self.path):
            write_atomically(self.path, json.dumps(default_config(), indent=4))
        self._log, self._handler = _open_log(directory, rank)
        self._log.info("Watching %s.", self.path)

    # -- the loop --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the file that exists before the first step. Raises `UsageError` for an error in it."""
        try:
            data = self._watch.changed()
            config = read_dynamic_config(read_bytes(self.path) if data is None else data, one_line(str(self.path)))
        except OSError as error:
            raise UsageError(f"{one_line(str(self.path))} cannot be read: {error.strerror}.") from error
        if config["start_step"]:
            self._plan(config)
        self._begin_next()

    def step(self) -> None:
        """End a step: close a window that is over, read an edit, begin a window that is due."""
        if self._window is not None:
            self._drive(self._window.driver.end)
        self._step += 1
        self._read_edit()
        self._begin_next()

    def stop(self) -> None:
        """End after the last step: an open window ends as LOADER_ENDED, one that was never reached is logged."""
        if self._window is not None:
            self._drive(self._window.driver.close, after="")
        self._end()

    def abort(self, error: BaseException) -> None:
        """End in mid-step, and keep what an open window recorded."""
        if self._window is not None:
            self._window.driver.abort(error)
            self._finish(self._window)
        self._end()

    def _end(self) -> None:
        if self._requested is not None:
            self._log.warning("Step %d was never reached: the training had %d steps.", self._requested[1], self._step)
            self._requested = None
        self._log.info("Stop watching %s at %d step.", self.path, self._step)
        self._log.removeHandler(self._handler)
        self._handler.close()

    # -- an edit -----------------------------------------------------------------------------------------------------------

    def _read_edit(self) -> None:
        try:
            data = self._watch.changed()
            # Its time may change again after the same contents were refused; they are logged once.
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

    def _plan(self, config: dict[str, Any]) -> None:
        """Set when the window of an edit begins, or log why it does not."""
        if config["is_rank"] and self._rank not in config["rank_list"]:
            self._log.info("Rank %d is not in rank_list %s: nothing to do.", self._rank, config["rank_list"])
            return
        begin = config["start_step"] or AT_ONCE
        if begin != AT_ONCE and begin < self._step:
            past = "start_step = %d of %s is in the past: step %d is next. Write -1 for the next step."
            self._log.warning(past, begin, self.path, self._step)
            return
        if self._requested is not None:
            self._log.info("The window requested before has not begun and is cancelled.")
        self._requested = config, (self._step if begin == AT_ONCE else begin)
        first, warmup, active = self._requested[1], config["warmup"], config["active"]
        self._log.info("Start step will be set to %d: %d warmup and %d active steps.", first, warmup, active)

    # -- a window ------------------------------------------------------------------------------------------------------------

    def _begin_next(self) -> None:
        if self._window is None and self._requested is not None and self._step >= self._requested[1]:
            (config, begin), self._requested = self._requested, None
            if config["start_step"] not in (None, AT_ONCE, 0) and begin < self._step:
                self._log.warning("start_step = %d passed while another window was open.", begin)
            else:
                self._open(config)
        if self._window is not None:
            self._drive(self._window.driver.begin)

    def _open(self, config: dict[str, Any]) -> None:
        place = self._base / (self._output or config["prof_dir"])
        requested = {key: value for key, value in config.items() if key not in ("prof_dir", "is_valid")}
        try:
            options, notes = self._options(config)
            directory = self._claimed(place, config)
            self._window = WindowPart(
                options,
                workload=self._workload,
                directory=directory,
                window=StepWindow(skip_first=0, wait=0, warmup=config["warmup"], active=config["active"]),
                requested=requested | {"start_step": self._step},
                notes=notes,
            )
        except PerfguardError as error:
            self._log.error("%s No window is profiled.", error)
            return
        for note in notes:
            self._log.info("%s", note)
        self._log.info("Start Dynamic Profiler at %d step, in %s.", self._step, directory)

    def _claimed(self, place: Path, config: dict[str, Any]) -> Path:
        """Make a directory for a window that no earlier window or run has used."""
        stem = f"dp_rank_{self._rank}_start_{self._step}_active_{config['active']}"
        try:
            place.mkdir(parents=True, exist_ok=True)
            earlier = [re.fullmatch(rf"{stem}(?:_([0-9]{{1,9}}))?", one) for one in os.listdir(place)]
        except OSError as error:
            raise UsageError(
                f"prof_dir = {str(place)!r} cannot be created: {error.strerror}; name another directory."
            ) from error
        last = max((int(one[1] or 1) for one in earlier if one is not None), default=0)
        directory = place / (f"{stem}_{last + 1}" if last else stem)
        claim(directory, name=f"the directory of this window, {str(directory)!r},")
        return directory

    def _options(self, config: dict[str, Any]) -> tuple[TorchOptions, list[str]]:
        """Return the options for torch, and notes on settings that have no effect here."""
        notes = []
        defaults = default_config()["experimental_config"]
        has_device = imported_torch().cuda.is_available()
        if "CPU" not in config["activities"] and not has_device:
            raise UsageError(
                f"activities = {config['activities']} records nothing here, because torch finds no device; add CPU."
            )
        if "NPU" in config["activities"] and not has_device:
            notes.append("NPU in activities has no effect here: torch_npu finds no device.")
        if named := [key for key, value in config["experimental_config"].items() if value != defaults[key]]:
            notes.append(f"experimental_config has no effect without an Ascend device: {', '.join(named)}.")
        if config["analyse"]:
            notes.append("analyse has no effect here: torch.profiler writes no raw data.")
        options = TorchOptions(
            **{name: config[name] for name in FLAGS},
            host="CPU" in config["activities"],
            device="NPU" in config["activities"],
            metadata={key: json.dumps(value) for key, value in config["metadata"].items()},
            first_step=self._step,
            rank=self._rank,
            world_size=self._world_size,
        )
        return options, notes

    def _drive(self, action: Callable[[], object], *, after: str = " The training goes on.") -> None:
        """Begin, end or close the open window; a failure of it is logged, with `after`."""
        window = self._window
        assert window is not None
        try:
            action()
        except PerfguardError as error:
            window.driver.abort(error)
            self._log.error("%s%s", one_line(str(error)), after)
        if window.driver.has_ended:
            self._finish(window)

    def _finish(self, window: WindowPart) -> None:
        self._window = None
        window.finish()
        if (recording := window.driver.recording) is not None:
            self.recordings.append(recording)
            ending = recording.ending.value if recording.ending else ""
            self._log.info("Stop Dynamic Profiler at %d step: %s.", self._step + 1, ending)
        else:
            self._log.error("%s", one_line(window.driver.problem))


def default_config() -> dict[str, Any]:
    """Return the file that torch_npu writes into an empty directory."""
    return _defaults(configuration_schema("profiler_config.npu")["properties"], without=("metadata", "is_valid"))


def _defaults(properties: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        key: _defaults(one["properties"]) if "properties" in one else one["default"]
        for key, one in properties.items()
        if key not in without
    }


def read_dynamic_config(data: bytes, name: str) -> dict[str, Any]:
    """Return the values of a profiler_config.json by key; of `experimental_config` those that the file has.

    Steps count from 0: a window with start_step 3 begins after three steps. `start_step` is None where the file has none, as
    with older torch_npu: then every edit requests a window. Raises `UsageError`, in one line that names the value.
    """
    root = Section.of(read_json(decoded(data, name), name), configuration_schema("profiler_config.npu"), name)
    if found := [key for key in _OF_MINDSPORE if key in root]:
        raise UsageError(
            f"{name} is MindSpore's: it has {', '.join(found)}, where torch_npu's file of the same name has active and "
            "prof_dir; give MindSpore's DynamicProfilerMonitor a directory of its own."
        )
    config = root.read()
    config["activities"] = [one.upper() for one in config["activities"]]
    if not config["activities"]:
        raise root.error("activities", "is empty, so nothing is recorded: name CPU, NPU or both")
    if config["is_rank"] and not config["rank_list"]:
        raise root.error(
            "is_rank", "is true and rank_list is empty, so no rank is profiled: name ranks, or write false"
        )
    if "start_step" not in root:
        config["start_step"] = None
    experimental = root.section("experimental_config")
    config["experimental_config"] = {key: value for key, value in experimental.read().items() if key in experimental}
    config["metadata"] = root.section("metadata").plain
    return config


def _open_log(directory: Path, rank: int) -> tuple[logging.Logger, logging.Handler]:
    """Open the log with torch_npu's path, name, size and line format."""
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


# -- the file ----------------------------------------------------------------------------------------------------------


class WatchedFile:
    """A file that is polled: one `stat` without an edit; a read after its time, size or inode changed.

    A file edited within two seconds of the last read is read again, as its modification time may hide an edit. A half-written
    file is returned as it is; the rest of it is the next change.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._digest = b""
        self._is_racy = False

    def changed(self) -> bytes | None:
        """Return the contents if the file was saved since the last call, else None; None also without a file.

        Raises `OSError`, once for each save.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            self._stamp = None
            return None
        if _stamp(found) == self._stamp and not self._is_racy:
            return None
        before, self._stamp, self._is_racy = self._stamp, _stamp(found), False
        data, stamps, found = _read_stamped(self.path)
        if len(stamps) > 1:
            # Written during the read: the next call returns the contents.
            self._stamp, self._is_racy = before, True
            return None
        self._stamp = _stamp(found)
        self._is_racy = abs(time.time_ns() - found.st_mtime_ns) < _RACY_NS
        digest = hashlib.sha256(data).digest()
        is_same = self._stamp == before and digest == self._digest
        self._digest = digest
        return None if is_same else data


def read_bytes(path: Path) -> bytes:
    """Return the contents of a file, one byte more than a configuration may have at most; never waits for a pipe."""
    return _read_stamped(path)[0]


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read_stamped(path: Path) -> tuple[bytes, set[tuple[int, int, int]], os.stat_result]:
    """Return the contents, the stamps before and after the read, and the last `stat`."""
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        before = os.fstat(file.fileno())
        data = file.read(LARGEST_BYTES + 1) or b""
        after = os.fstat(file.fileno())
    return data, {_stamp(before), _stamp(after)}, after
