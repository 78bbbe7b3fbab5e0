"""Collectives: which operators are communication, and those that torch annotates beside its operators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from perfguard.contract import Cycle

#: Collectives on a host: MindSpore's kernels, and what torch's gloo, mpi and nccl backends annotate with its duration.
HOST_COLLECTIVE = re.compile(
    r"^((gloo|mpi|nccl|ucc):\w+|All(Reduce|Gather|ToAll)\w*|ReduceScatter\w*|Reduce|Broadcast|Barrier|(Neighbor|All)\w*Exchange\w*"
    r"|CollectiveScatter|CollectiveGather|Send|Receive)$"
)
#: Beside them a device's own: HCCL's operations (`hcom_allReduce_`), NCCL's kernels (`ncclDevKernel_AllReduce_Sum_f32(...)`).
COLLECTIVE = re.compile(rf"{HOST_COLLECTIVE.pattern}|^hcom_|^nccl(Dev)?Kernel")

#: Columns of annotated collectives.
ANNOTATED = {"operator": str, "start_ns": int, "duration_ns": int}


def annotated_collectives(cycle: Cycle) -> pl.DataFrame:
    """Return what a torch trace annotates as collectives, by start."""
    import polars as pl

    from perfguard.contract.executions import unquoted
    from perfguard.contract.table import nanoseconds

    trace = cycle.content("trace")
    if trace is None or not {"name", "cat", "ts", "dur"} <= set(trace.frame.columns):
        return pl.DataFrame(schema=ANNOTATED)
    named = trace.frame.with_columns(operator=unquoted("name"), category=unquoted("cat"))
    named = named.filter(
        (pl.col("category") == "user_annotation") & pl.col("operator").str.contains(HOST_COLLECTIVE.pattern)
    )
    timed = named.with_columns(start_ns=nanoseconds(named["ts"]), duration_ns=nanoseconds(named["dur"]))
    return timed.select(*ANNOTATED).sort("start_ns")
