"""MindSpore's DynamicProfilerMonitor: writes its profiler_config.json during a training.

The monitor is a callback of MindSpore. It reads the file every few seconds (`poll_interval`), begins at the step in it and
writes `rank<r>_start<a>_stop<b>/`. It only logs an error in the file, and records something else or nothing.
Source: `profiler/dynamic_profiler.py` of 2.7 and 2.10; run for real on a CPU with 2.10.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from perfguard.capture.environment import package_version
from perfguard.capture.mindspore_options import mindspore_options
from perfguard.config_files import read_json, read_text
from perfguard.errors import UsageError
from perfguard.screen import shown
from perfguard.writing import write_atomically

CONFIG_FILE = "profiler_config.json"
#: The monitor copies the file into shared memory of this size.
_MOST_BYTES = 1024 * 1024


def write_profiler_config(
    directory: str | Path,
    *,
    start_step: int,
    stop_step: int,
    version: str | None = None,
    device: str = "cpu",
    **options: Any,
) -> Path:
    """Request a window from a running DynamicProfilerMonitor: write, or edit, `profiler_config.json` in its `cfg_path`.

    Steps of the training count from 1, and `stop_step` is included; -1 and -1 switch profiling off. `start_step` must differ
    from the last one, and be some steps ahead, because the monitor reads the file only every few seconds. The output is
    analysed unless `analyse=False`. Other keys of an existing file are kept. `version` is that of the MindSpore that trains;
    the default is the one installed here. Returns the file's path.

    Raises `UsageError` for options that MindSpore would reset or ignore, also for those already in the file, and `StoreError`
    if the file cannot be written. The file is unchanged then.
    """
    version = version or package_version("mindspore")
    if version is None:
        raise UsageError(
            "MindSpore is not installed here, so its options are unknown; give its version: version='2.10.0'."
        )
    known = mindspore_options(version, {}, surface="dynamic", device=device).parameters
    path = Path(directory) / CONFIG_FILE
    before = _read(path)
    if "analyse" in known and isinstance(before.get("analyse", False), bool):
        # MindSpore's own default leaves raw data, which cannot be checked.
        options.setdefault("analyse", True)
    given = {"start_step": start_step, "stop_step": stop_step, **options}
    document = before | mindspore_options(version, given, surface="dynamic", device=device).document()
    try:
        # Those without effect on this device are allowed.
        mindspore_options(version, document, surface="dynamic", device="ascend")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    text = json.dumps(document, indent=4) + "\n"
    if len(text.encode()) >= _MOST_BYTES:
        raise UsageError(
            f"{path} would have {len(text.encode())} bytes, and MindSpore reads less than {_MOST_BYTES}; shorten it."
        )
    write_atomically(path, text)
    return path


def _read(path: Path) -> dict[str, Any]:
    """Return the document in a file, and an empty one without the file. Raises `UsageError` for one MindSpore would ignore."""
    if not os.path.lexists(path):
        return {}
    try:
        document = read_json(read_text(path, hint="the cfg_path of the DynamicProfilerMonitor"), str(path))
        if not isinstance(document, dict):
            raise UsageError(f"{path} must be a JSON object, got {shown(document)}.")
    except UsageError as error:
        raise UsageError(f"{error} MindSpore would ignore the whole file; correct it, or move it away.") from error
    return document
