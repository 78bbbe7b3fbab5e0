"""Process groups that a torch trace names in its header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle


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
