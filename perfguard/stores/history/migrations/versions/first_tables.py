"""Revision 0001: runs, workloads, outcomes, series and measurements."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, String, Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "perfguard_runs",
        Column("id", Integer, primary_key=True),
        Column("digest", String(64), nullable=False, unique=True),
        Column("commit", Text),
        Column("branch", Text),
        Column("release", Text),
        Column("committed_at_us", BigInteger),
        Column("finished_at_us", BigInteger),
        Column("added_at_us", BigInteger, nullable=False),
        Column("ci_url", Text),
        Column("perfguard", Text, nullable=False),
        sqlite_autoincrement=True,
    )
    for name, text in (("perfguard_workloads", "name"), ("perfguard_facts", "document")):
        op.create_table(
            name,
            Column("id", Integer, primary_key=True),
            Column("key", String(64), nullable=False, unique=True),
            Column(text, Text, nullable=False),
        )
    op.create_table(
        "perfguard_outcomes",
        Column("run_id", Integer, ForeignKey("perfguard_runs.id"), primary_key=True),
        Column("workload_id", Integer, ForeignKey("perfguard_workloads.id"), primary_key=True),
        Column("outcome", String(16), nullable=False),
        Column("finding", Text),
        Column("measurements", Integer, nullable=False),
        Column("fingerprint_id", Integer, ForeignKey("perfguard_facts.id")),
        Column("environment_id", Integer, ForeignKey("perfguard_facts.id")),
        Column("tolerance_id", Integer, ForeignKey("perfguard_facts.id")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "perfguard_series",
        Column("id", Integer, primary_key=True),
        Column("key", String(64), nullable=False, unique=True),
        Column("workload_id", Integer, ForeignKey("perfguard_workloads.id"), nullable=False),
        Column("metric", Text, nullable=False),
        Column("subject", Text, nullable=False),
        Column("unit", Text, nullable=False),
        Column("fingerprint_id", Integer, ForeignKey("perfguard_facts.id")),
        Column("machine", Text, nullable=False),
    )
    op.create_index("ix_perfguard_series_workload_id", "perfguard_series", ["workload_id"])
    op.create_table(
        "perfguard_measurements",
        Column("series_id", Integer, ForeignKey("perfguard_series.id"), primary_key=True, autoincrement=False),
        Column("run_id", Integer, primary_key=True, autoincrement=False),
        Column("value", Double, nullable=False),
        sqlite_with_rowid=False,
    )
