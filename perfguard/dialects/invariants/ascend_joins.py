"""What tells of the whole run beside the tables of an Ascend directory: columns of kernels, end of the collection, rank.

Source, unless a function says otherwise: real output of torch_npu level 1, both ranks (msinsight test data).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import span_ns
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

#: Three decimals of a microsecond, printed of a float that holds a quarter of one.
EDGE_NS = 300
#: The profiler ends its collection when the last step has ended.
_COLLECTION_NS = 3600 * 10**9


@invariant(needs=("kernel_details",))
def a_unit_has_its_time_and_its_ratio(cycle: Cycle) -> Iterator[Finding]:
    """Where units have times (PipeUtilization), each has `aic_<unit>_time(us)` and `aic_<unit>_ratio`, and aiv likewise.

    Other groups of counters have ratios alone. Source: CANN documents of op_summary; real output of torch_npu.
    """
    artifact = cycle.artifacts["kernel_details"]
    assert artifact.content.table is not None
    named = [re.fullmatch(r"(ai[cv]_\w+)_(time\(us\)|ratio)", column) for column in artifact.content.table.columns]
    units = {end: {one[1] for one in named if one and one[2] == end} for end in ("time(us)", "ratio")}
    if not units["time(us)"]:
        return
    for end, other in (("time(us)", "ratio"), ("ratio", "time(us)")):
        for unit in sorted(units[other] - units[end]):
            message = f"column '{unit}_{end}' is missing: {unit}_{other} is there"
            yield Finding(code=Code.S102, place=f"{artifact.place}:1", message=message)


@invariant(layouts=("pt-npu",), needs=("kernel_details", "profiler_info"))
def the_collection_ends_with_the_run(cycle: Cycle) -> Iterator[Finding]:
    """collectionTimeEnd of profiler_info [ns] lies behind the last kernel and within an hour of it."""
    artifact = cycle.artifacts["profiler_info"]
    ended = artifact.content.document.get("end_info", {}).get("collectionTimeEnd")
    _, last = span_ns(cycle.artifacts["kernel_details"].content, "Start Time(us)") or (None, None)
    if not isinstance(ended, int) or last is None or not ended:
        return
    if not -EDGE_NS * 10**6 <= ended - last <= _COLLECTION_NS:
        yield Finding(
            code=Code.I113,
            place=f"{artifact.place} $.end_info.collectionTimeEnd",
            message=f"the collection ended {(ended - last) / 1e9:.6g} s after the last kernel of kernel_details.csv began",
        )


@invariant(layouts=("pt-npu",), needs=("profiler_metadata",))
def metadata_is_of_the_rank(cycle: Cycle) -> Iterator[Finding]:
    """distributed_args.rank is the rank profiler_info tells of, and a member of each group it names as its own. Exact.

    Source: torch_npu source: _metadata_manager.py; MindSpeed and MindFormers add distributed_args.
    """
    artifact = cycle.artifacts["profiler_metadata"]
    info = cycle.artifacts.get("profiler_info")
    told = info.content.document.get("rank_id") if info is not None else None
    # A number up to torch_npu 2.6, a text in 2.7.
    told = int(told) if isinstance(told, str) and told.isdigit() else told
    arguments = artifact.content.document.get("distributed_args")
    rank = arguments.get("rank") if isinstance(arguments, Mapping) else None
    if info is not None and isinstance(rank, int) and isinstance(told, int) and told >= 0 and rank != told:
        yield Finding(
            code=Code.I113,
            place=f"{artifact.place} $.distributed_args.rank",
            message=f"it is of rank {rank}, {info.path.name} of rank {told}",
        )
    groups = artifact.content.document.get("parallel_group_info")
    for name, group in groups.items() if isinstance(groups, Mapping) else ():
        members, position = group.get("global_ranks"), group.get("group_rank")
        if not isinstance(members, list) or not isinstance(position, int) or not isinstance(told, int) or told < 0:
            continue
        if not 0 <= position < len(members) or members[position] != told:
            yield Finding(
                code=Code.I113,
                place=f"{artifact.place} $.parallel_group_info",
                message=f"group {name}: place {position} of ranks {members} is not rank {told}",
            )
