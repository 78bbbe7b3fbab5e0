"""MindSpore's DynamicProfilerMonitor: its profiler_config.json, written while a training runs, and the windows it recorded.

The monitor is a callback of MindSpore's own. It reads the file again every few seconds (`poll_interval`), begins at the step
named there and writes `rank<r>_start<a>_stop<b>/`. What is wrong in the file it logs, and records something else or nothing.
Source: `profiler/dynamic_profiler.py` of 2.7 and 2.10; run for real on a CPU with 2.10.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfguard.capture.environment import package_version
from perfguard.capture.mindspore_options import mindspore_options
from perfguard.documents import write_atomically
from perfguard.errors import UsageError

CONFIG_FILE = "profiler_config.json"
_WINDOW = re.compile(r"rank(\d+)_start(\d+)_stop(\d+)")
#: The monitor copies the file into shared memory of this size.
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicWindow:
    """One window a DynamicProfilerMonitor wrote; steps count from 1, and `stop_step` is included."""

    directory: Path
    rank: int
    start_step: int
    stop_step: int

    @property
    def steps(self) -> int:
        """How many steps were asked for."""
        return self.stop_step - self.start_step + 1


def write_profiler_config(
    directory: str | Path,
    *,
    start_step: int,
    stop_step: int,
    version: str | None = None,
    device: str = "cpu",
    **options: Any,
) -> Path:
    """Ask a running DynamicProfilerMonitor for a window: write, or edit, `profiler_config.json` in its `cfg_path`.

    The window is that of its training, from 1 on, `stop_step` included; -1 and -1 switch it off. `start_step` must be some
    steps ahead, since the monitor looks every few seconds only, and another one than the last. What was recorded is analysed
    unless `analyse=False`. What the file holds already is kept. `version` is that of the MindSpore that trains, else the one
    installed here. Returns the file's path.

    Raises `UsageError` for what that MindSpore would reset or ignore, also where it stands in the file already, and
    `StoreError` when the file cannot be written; what was there is then untouched.
    """
    version = version or package_version("mindspore")
    if version is None:
        raise UsageError(
            "MindSpore is not installed here, so perfguard cannot tell which options it takes; say version='2.10.0'."
        )
    known = mindspore_options(version, {}, surface="dynamic", device=device).parameters
    path = Path(directory) / CONFIG_FILE
    before = _read(path)
    if "analyse" in known and isinstance(before.get("analyse", False), bool):
        # MindSpore's own default leaves raw data, which nobody can judge.
        options.setdefault("analyse", True)
    given = {"start_step": start_step, "stop_step": stop_step, **options}
    document = before | mindspore_options(version, given, surface="dynamic", device=device).document()
    _require_valid(document, version, path)
    text = json.dumps(document, indent=4) + "\n"
    if len(text.encode()) >= _MOST_BYTES:
        raise UsageError(f"{path} would be longer than the {_MOST_BYTES} bytes MindSpore reads; shorten it.")
    write_atomically(path, text)
    return path


def dynamic_windows(output: str | Path) -> tuple[DynamicWindow, ...]:
    """Return the windows a DynamicProfilerMonitor wrote below its `output_path`, by rank and step.

    Raises `UsageError` when that is no directory.
    """
    root = Path(output)
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory; name the output_path of the DynamicProfilerMonitor.")
    found = [(_WINDOW.fullmatch(one.name), one) for one in root.iterdir() if one.is_dir()]
    windows = [
        DynamicWindow(directory=one, rank=int(match[1]), start_step=int(match[2]), stop_step=int(match[3]))
        for match, one in found
        if match is not None
    ]
    return tuple(sorted(windows, key=lambda window: (window.rank, window.start_step, window.stop_step)))


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read ({error}); mend it, or move it away.") from error
    try:
        document = json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, path))
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{path}, line {error.lineno}, column {error.colno}: {error.msg}; MindSpore would ignore the whole file. Mend it, "
            "or move it away."
        ) from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deep to be a configuration; mend it, or move it away.") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no JSON object; mend it, or move it away.")
    return document


def _require_valid(document: Mapping[str, Any], version: str, path: Path) -> None:
    """Raise `UsageError` for what this MindSpore would reset; what has no effect on this device may stand there."""
    try:
        mindspore_options(version, document, surface="dynamic", device="ascend")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _once(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise UsageError(f"{path}: {key!r} stands there twice; leave one of them.")
        made[key] = value
    return made
