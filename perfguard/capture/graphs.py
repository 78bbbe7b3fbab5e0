"""Saved graphs: the environment variables that make MindSpore save the graphs it compiles.

`MS_DEV_SAVE_GRAPHS` and `MS_DEV_SAVE_GRAPHS_PATH` are read by MindSpore 2.0 and later. A script that calls
`set_context(save_graphs=..., save_graphs_path=...)` itself keeps the path given here; its level wins in 2.0, and loses in
2.10. Several ranks save in `rank_0`, `rank_1`, ... below the path. Source: MindSpore 2.0.0, 2.7.0 and 2.10.0, run on a CPU.
"""

from __future__ import annotations

import os
from pathlib import Path

from perfguard.errors import UsageError

#: What each level saves.
LEVELS = {
    1: "the graph after every pass",
    2: "and the backend's own steps",
    3: "and every step in a pass, and drawings",
}
LEVEL, PATH, ONLY = "MS_DEV_SAVE_GRAPHS", "MS_DEV_SAVE_GRAPHS_PATH", "MS_DEV_DUMP_IR_PASSES"


def graph_environment(path: str | Path, level: int = 1) -> dict[str, str]:
    """Return the environment variables that make MindSpore save its graphs at `level` (1 to 3) in `path`.

    Set them before Python starts: MindSpore reads them once. `path` must be absolute, because a script may change its
    directory, and new or empty, because a second run would mix its files with those of the first. A filter of passes in the
    caller's environment is switched off, because the passes it leaves out would look lost. Raises `UsageError`.
    """
    if isinstance(level, bool) or level not in LEVELS:
        known = "; ".join(f"{number}: {what}" for number, what in LEVELS.items())
        raise UsageError(f"level must be 1, 2 or 3 ({known}), got {level!r}.")
    place = Path(path)
    if not place.is_absolute():
        raise UsageError(
            f"The path of saved graphs must be absolute, as a script may change its directory, got {str(path)!r}; use "
            f"{str(Path.cwd() / place)!r}."
        )
    try:
        os.lstat(place)
        is_fresh = place.is_dir() and not any(place.iterdir())
    except FileNotFoundError:
        is_fresh = True
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"Graphs cannot be saved in {str(path)!r}: {reason}; name a new directory.") from error
    if not is_fresh:
        raise UsageError(f"{path} exists and is not an empty directory; graphs of two runs would mix: name a new one.")
    return {LEVEL: str(int(level)), PATH: str(place), ONLY: ""}
