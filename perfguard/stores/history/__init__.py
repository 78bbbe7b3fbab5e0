"""A history: what every run measured, in one file (SQLite) or in a database that a team shares (PostgreSQL).

What goes in: an `Entry`, one run of a suite, whole or not at all, and the same one only once. What comes out: runs, and
`Series` of numbers in the order of their commits. `entry` has the values and where they come from, `tables` the columns,
`migrations` how older ones become these, `place` names a file, `database` opens it and words what a database says, `archive`
reads and writes them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.errors import UsageError
from perfguard.stores.history.place import NoHistoryError, file_of

if TYPE_CHECKING:
    from perfguard.stores.history.archive import History

#: The file beside pyproject.toml, where nobody named another place.
HISTORY_FILE = "perfguard-history.db"
#: How long a writer waits for the others.
WAIT_S = 30.0

__all__ = ["HISTORY_FILE", "WAIT_S", "NoHistoryError", "open_history"]


def open_history(place: str, *, root: Path, writing: bool = False, wait_s: float | None = None) -> History:
    """Open the history at a file (a relative one lies below `root`) or a URL; raises `UsageError` and `StoreError`.

    Only `writing` makes one that is not there yet; else that is a `NoHistoryError`, also where the packages are missing. One of
    an older perfguard becomes one of this.
    """
    if not writing and "://" not in place and not os.path.exists(file := file_of(place, root=root)):
        raise NoHistoryError(str(file))
    try:
        from perfguard.stores.history.archive import History
        from perfguard.stores.history.database import opened
    except ImportError as error:
        raise UsageError(
            f"perfguard history needs sqlalchemy and alembic, and one cannot be imported ({error}). "
            "Run: pip install 'perfguard[history]'"
        ) from error
    return History(opened(place, root=root, writing=writing, wait_s=WAIT_S if wait_s is None else wait_s))
