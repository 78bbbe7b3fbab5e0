"""A torch trace against its own window: where its events lie, what its header and its name say of them.

Source, unless a function says otherwise: real traces of torch 1.12, 2.4 and 2.13 on CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Artifact, Cycle

#: Microseconds are written as floats (2.x) or whole (1.12): an edge may be off by one.
EDGE_NS = 1_000
#: How far the end of a flow may be from the start of its operator: two times, each rounded to nanoseconds.
FLOW_NS = 2
#: From the end of a window until its file is named: what it takes to collect a large trace, and not another run.
_EXPORT_NS = 6 * 3600 * 10**9
_CLOCK_NS = 60 * 10**9
#: What is beyond it is no time of a clock (int64), which the schema says.
_LAST_NS = 2**63 - 1
STEP = r"^ProfilerStep#[0-9]+$"


def outside_words(name: str, start: int, stop: int, begin: int, end: int) -> str:
    """Word an event that lies outside of the window from `begin` to `end` [ns]."""
    return (
        f"{name}: {start / 1000:.3f} to {stop / 1000:.3f} us, the window is {begin / 1000:.3f} to {end / 1000:.3f} us"
    )


def allocated_outside(artifact: Artifact, *, allocations: int, operators: int) -> Finding:
    """Word that no allocation lies in an operator."""
    message = f"none of {allocations} allocations lies in one of {operators} operators of its thread"
    return Finding(code=Code.I112, place=artifact.place, message=message)


def host_reserved(count: float | None, text: str = "") -> str:
    """Word how much the host has reserved; None stands for more bytes than 18 digits tell."""
    return f"the host has reserved {text or count} bytes" if count is not None and abs(count) < 1e18 else _BEYOND


_BEYOND = "the host has reserved more bytes than there are"


def recorded_though_off(artifact: Artifact, *, memory_events: int, with_shapes: int) -> Iterator[Finding]:
    """Hold the header of a trace against how many of its events tell of memory and of shapes."""
    header = artifact.content.document
    for key, count, what in (
        ("profile_memory", memory_events, "memory events"),
        ("record_shapes", with_shapes, "events with Input Dims"),
    ):
        if header.get(key) == 0 and count:
            yield Finding(
                code=Code.I113,
                place=f"{artifact.place} $.{key}",
                message=f"the header says that it was off, and {count} {what} are there",
            )


def named_after_its_end(artifact: Artifact, last: object) -> Iterator[Finding]:
    """Hold the name of a trace against the end [ns] of its last operator."""
    named = re.search(r"\.([0-9]{19})\.pt\.trace\.json(\.gz)?$", artifact.path.name)
    base = artifact.content.document.get("baseTimeNanoseconds")
    if named is None or not isinstance(base, int) or not isinstance(last, int) or base > _LAST_NS:
        return
    after = int(named[1]) - base - last
    if not -_CLOCK_NS <= after <= _EXPORT_NS:
        yield Finding(
            code=Code.I113,
            severity=Severity.WARNING,
            place=artifact.place,
            message=f"its last operator ends {after / 1e9:.1f} s before the time in its name ({named[1]} ns)",
        )


@invariant(needs=("trace",))
def process_groups_are_of_the_world(cycle: Cycle) -> Iterator[Finding]:
    """rank < world_size, at most pg_count groups, each of pg_size ranks of the world. Exact.

    `pg_config` lists the groups that this rank is in, `pg_count` counts all ever made: with `new_group`, a mesh of two
    dimensions, FSDP2 or TP they are more. Source: kineto output_json.cpp; torch.distributed `_world.group_count`.
    """
    artifact = cycle.artifacts["trace"]
    told = artifact.content.document.get("distributedInfo")
    if not isinstance(told, Mapping):
        return
    for message in _group_faults(told):
        yield Finding(code=Code.I109, place=f"{artifact.place} $.distributedInfo", message=message)


def _group_faults(told: Mapping[str, Any]) -> Iterator[str]:
    world, rank, groups = told.get("world_size"), told.get("rank"), told.get("pg_config")
    if not isinstance(world, int) or not isinstance(rank, int):
        return
    if rank >= world:
        yield f"it is rank {rank} of {world}"
    if not isinstance(groups, list) or not groups:
        return
    if isinstance(count := told.get("pg_count"), int) and count < len(groups):
        yield f"it counts {count} process groups and lists {len(groups)}"
    sizes = []
    for group in groups:
        ranks, size = group.get("ranks"), group.get("pg_size")
        if isinstance(ranks, list) and ranks:
            if isinstance(size, int) and size != len(ranks):
                yield f"group {group.get('pg_name')} has size {size} and lists {len(ranks)} ranks"
            if len(set(ranks)) != len(ranks) or not all(isinstance(one, int) and 0 <= one < world for one in ranks):
                yield f"group {group.get('pg_name')} lists ranks {ranks} of a world of {world}"
            sizes.append(len(ranks))
        elif ranks == []:
            # torch lists no ranks of the group that is the world.
            sizes.append(world)
    # The first group made is the world itself.
    if sizes and max(sizes) != world:
        yield f"no process group holds all {world} ranks"
