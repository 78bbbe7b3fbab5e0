"""Migrations of a history: Alembic's revisions, run from code inside the transaction that opens it; there is no alembic.ini.

A new history gets the tables of `tables` and the newest revision, an older one the revisions that it lacks. To change a table:
change `tables`, write a revision in `versions`, and name it in `tables.REVISION`.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from perfguard.errors import StoreError
from perfguard.stores.history.tables import METADATA, VERSION_TABLE
from perfguard.version import upgrade_command

_REVISIONS = Path(__file__).parent


def upgrade(connection: Connection, *, place: str, revisions: Path = _REVISIONS) -> None:
    """Create the tables, or run the revisions that a history lacks, in the transaction of `connection`.

    The caller holds the lock against other writers, and commits. Raises `StoreError` for an unknown revision.
    """
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(revisions))
    known = list(scripts.walk_revisions())[::-1]  # the oldest first
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    now = context.get_current_revision()
    names = [one.revision for one in known]
    if now is None:
        METADATA.create_all(connection)
        context.stamp(scripts, names[-1])
        return
    if now not in names:
        raise StoreError(newer(place, now))
    with Operations.context(context):
        for one in known[names.index(now) + 1 :]:
            one.module.upgrade()
            context.stamp(scripts, one.revision)


def newer(place: str, revision: str) -> str:
    """Return the message for a history of a later version."""
    return (
        f"{place} was written by a newer perfguard (revision {revision[:40]} of its tables), and was not changed. "
        f"Run: {upgrade_command()}"
    )
