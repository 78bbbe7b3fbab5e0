"""Two files of an Ascend directory that tell of the same thing: kernels, host operators, API calls, flows, clocks.

Source, unless a function says otherwise: real output of torch_npu level 1, both ranks (msinsight test data), on which each
holds for every row. Where a version might write a column in another way, a check is silent unless nine rows in ten keep it:
what one writer computes for all rows it computes wrong in none or in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from perfguard.artifacts.table import nanoseconds
from perfguard.dialects.ascend.view import view_of
from perfguard.dialects.disagreement import disagreements
from perfguard.dialects.invariants import invariant
from perfguard.dialects.invariants.ascend import distinct_texts, span_ns
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Artifact, Cycle

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


def _row(artifact: Artifact, row: int) -> str:
    assert artifact.content.table is not None
    return f"{artifact.place}{artifact.content.table.place(row)}"


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


@invariant(layouts=("pt-npu",), needs=("trace_view",))
def steps_of_the_tables_are_marked(cycle: Cycle) -> Iterator[Finding]:
    """Where the host was traced and a table names steps, the trace marks them: ProfilerStep#N. Source: torch_npu."""
    artifact = cycle.artifacts["trace_view"]
    view = view_of(artifact.content)
    if not view.has_operators or view.step_marks:
        return
    for slot, column in (("kernel_details", "Step Id"), ("step_trace_time", "Step")):
        table = cycle.artifacts[slot].content.table if slot in cycle.artifacts else None
        if table is not None and column in table.columns:
            texts = distinct_texts(cycle.artifacts[slot].content, column)
            if steps := [text for text in texts if re.fullmatch(r"\s*[0-9]+\s*", text)]:
                message = (
                    f"it marks no step, and {cycle.artifacts[slot].path.name} names {', '.join(sorted(steps)[:8])}"
                )
                yield Finding(code=Code.I113, place=artifact.place, message=message)
                return


@invariant(layouts=("pt-npu",), needs=("kernel_details", "step_trace_time"))
def kernels_name_their_step(cycle: Cycle) -> Iterator[Finding]:
    """Where step_trace_time names a step, some kernel has its Step Id. A warning: kernels of a graph belong to no step."""
    artifact, times = cycle.artifacts["kernel_details"], cycle.artifacts["step_trace_time"]
    table = artifact.content.table
    if table is None or "Step Id" not in table.columns or "Step" not in times.content.frame.columns or not table.height:
        return
    steps = {text.strip() for text in times.content.frame["Step"].drop_nulls().to_list()} - {""}
    named = {text.strip() for text in distinct_texts(artifact.content, "Step Id")} - {""}
    if steps and not named:
        yield Finding(
            code=Code.I113,
            severity=Severity.WARNING,
            place=artifact.place,
            message=f"no kernel has a Step Id, and {times.path.name} has step {', '.join(sorted(steps)[:8])}",
        )


@invariant()
def samples_are_of_the_run(cycle: Cycle) -> Iterator[Finding]:
    """Memory samples lie around the kernels: modules within 30 days (some are read when a driver starts), records within an
    hour.

    Another unit is years away, another run usually more than an hour. Source: real output of torch_npu level 1, whose module
    samples begin 57 minutes before the first kernel; MindSpore 2.10.
    """
    kernels = cycle.artifacts.get("kernel_details")
    if kernels is None or (span := span_ns(kernels.content, "Start Time(us)")) is None:
        return
    first, last = span
    day, hour = 86_400 * 10**9, 3_600 * 10**9
    for slot, column, scale, reach in (
        ("npu_module_mem", "Timestamp(us)", 1, 30 * day),
        ("cpu_ms_memory_record", "Timestamp(ns)", 1000, hour),
    ):
        artifact = cycle.artifacts.get(slot)
        if artifact is None or artifact.content.table is None or column not in artifact.content.frame.columns:
            continue
        frame = artifact.content.frame.with_row_index("row")
        at = nanoseconds(frame[column]) // scale if scale > 1 else nanoseconds(frame[column])
        far = frame.with_columns(at=at).filter((at < first - reach) | (at > last + reach))
        # A record goes on from cycle to cycle: only that none of it is of this one tells of another run. That no module's
        # sample is near is said once, by files_are_of_one_run.
        if (slot == "cpu_ms_memory_record") == (far.height < frame.height):
            continue
        yield from disagreements(
            Code.I113,
            (
                (_row(artifact, row), f"its time lies {abs(time - first) / 1e9:.6g} s from the first kernel")
                for row, time in far.select("row", "at").iter_rows()
            ),
            count=far.height,
            place=artifact.place,
        )
