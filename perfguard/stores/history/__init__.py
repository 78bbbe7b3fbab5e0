"""The history of all runs, in one file (SQLite) or in a database that a team shares (PostgreSQL).

Input is an `Entry`: one run of a suite, stored completely and only once. Output are runs, and `Series` of numbers in the
order of their commits. `entry` has the values, `tables` the columns, `migrations` the changes of older tables, `database` the
connection and its errors; `archive` reads and writes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.errors import UsageError
from perfguard.stores.history.place import NoHistoryError, file_of
from perfguard.version import install_command

if TYPE_CHECKING:
    from perfguard.stores.history.archive import History

#: The default file, in the directory of pyproject.toml.
HISTORY_FILE = "perfguard-history.db"
#: How long a writer waits for other writers.
WAIT_S = 30.0


def open_history(place: str, *, root: Path, writing: bool = False, wait_s: float | None = None) -> History:
    """Open the history in a file (a relative path starts at `root`) or at a URL. Raises `UsageError` and `StoreError`.

    Only `writing` creates a missing history; otherwise it is a `NoHistoryError`, even without the optional packages. The
    tables of an older perfguard are upgraded.
    """
    if not writing and "://" not in place and not os.path.exists(file := file_of(place, root=root)):
        raise NoHistoryError(str(file))
    try:
        from perfguard.stores.history.archive import History
        from perfguard.stores.history.database import opened
    except ImportError as error:
        raise UsageError(
            f"perfguard history needs sqlalchemy and alembic, and one cannot be imported ({error}). "
            f"Run: {install_command('history')}"
        ) from error
    return History(opened(place, root=root, writing=writing, wait_s=WAIT_S if wait_s is None else wait_s))
