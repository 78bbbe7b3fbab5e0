"""Rules for headers: columns of counters in kernel_details, process groups of a torch trace, the environment of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from perfguard.findings import Code, Finding, Severity

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle

_METADATA = "profiler_metadata.json"
#: The environment variables that torch_npu records, of every release that records any.
_RECORDED = (
    "ASCEND_GLOBAL_LOG_LEVEL",
    "HCCL_RDMA_TC",
    "HCCL_RDMA_SL",
    "ACLNN_CACHE_LIMIT",
    "HOST_CACHE_CAPACITY",
    "ASCEND_ENHANCE_ENABLE",
    "PYTORCH_NPU_ALLOC_CONF",
    "ASCEND_LAUNCH_BLOCKING",
)


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


def the_environment_is_recorded(cycle: Cycle) -> Iterator[Finding]:
    """With the text export, torch_npu writes ENV_VARIABLES into profiler_metadata, with all eight variables.

    It does since 2.1.0.post8, 2.3.1.post2 and 2.4.0, the releases that write `_gc_detect_threshold` into profiler_info.
    A variable that is not set has an empty text. A warning where the whole file is missing: a copy may lack it, and up to
    2.4 an analysis for the database alone removed it. Source: torch_npu, profiler_interface.py (_dump_metadata), _utils.py
    (collect_env_vars) and _profiling_parser.py of 14 releases from 2.1.0.post3 to 2.14.0; real output of torch_npu level 1.
    """
    info = cycle.artifacts["profiler_info"]
    settings = info.content.document.get("config", {}).get("experimental_config", {})
    is_recorded = "_gc_detect_threshold" in settings and "text" in settings.get("_export_type", ())
    metadata = cycle.artifacts.get("profiler_metadata")
    if metadata is None:
        if is_recorded and "trace_view" in cycle.artifacts and not (cycle.place / _METADATA).exists():
            place = str(PurePosixPath(info.place).with_name(_METADATA))
            message = "it is missing, and torch_npu always writes it with the text export"
            yield Finding(code=Code.A102, severity=Severity.WARNING, place=place, message=message)
        return
    recorded = metadata.content.document.get("ENV_VARIABLES")
    if recorded is None and is_recorded:
        message = "ENV_VARIABLES is missing, and torch_npu always writes it with the text export"
        yield Finding(code=Code.S102, place=f"{metadata.place} $", message=message)
    elif recorded is not None and (lost := [name for name in _RECORDED if name not in recorded]):
        message = f"{', '.join(lost)} missing: torch_npu always writes {len(_RECORDED)} variables"
        yield Finding(code=Code.S102, place=f"{metadata.place} $.ENV_VARIABLES", message=message)


def process_groups_are_of_the_world(cycle: Cycle) -> Iterator[Finding]:
    """rank < world_size, at most pg_count numbered groups, each of pg_size ranks of the world. Exact.

    `pg_config` lists the groups of this rank. `pg_count` counts the groups ever made whose names are numbers; a group with a
    hash for a name (`use_local_synchronization`, `split_group`) or a name of the caller's is not counted.
    Source: torch/distributed/distributed_c10d.py, `_process_group_name`; kineto output_json.cpp, addOnDemandDistMetadata.
    """
    artifact = cycle.artifacts["trace"]
    distributed = artifact.content.document.get("distributedInfo")
    if not isinstance(distributed, Mapping):
        return
    for message in _group_faults(distributed):
        yield Finding(code=Code.I109, place=f"{artifact.place} $.distributedInfo", message=message)


def _group_faults(distributed: Mapping[str, Any]) -> Iterator[str]:
    world, rank, groups = (distributed.get(key) for key in ("world_size", "rank", "pg_config"))
    if not isinstance(world, int) or not isinstance(rank, int):
        return
    if rank >= world:
        yield f"rank is {rank}, but there are {world} ranks"
    if not isinstance(groups, list) or not groups:
        return
    numbered = sum(re.fullmatch(r"[0-9]+", str(group.get("pg_name"))) is not None for group in groups)
    if isinstance(count := distributed.get("pg_count"), int) and count < numbered:
        yield f"pg_count is {count}, but {numbered} process groups with a number are listed"
    sizes = []
    for group in groups:
        ranks, size = group.get("ranks"), group.get("pg_size")
        if isinstance(ranks, list) and ranks:
            if isinstance(size, int) and size != len(ranks):
                yield f"group {group.get('pg_name')} has size {size}, but lists {len(ranks)} ranks"
            if len(set(ranks)) != len(ranks) or not all(isinstance(one, int) and 0 <= one < world for one in ranks):
                yield f"group {group.get('pg_name')} lists ranks {ranks} of a world of {world}"
            sizes.append(len(ranks))
        elif ranks == []:
            # torch lists no ranks for the default group.
            sizes.append(world)
    # The default group has all ranks.
    if sizes and max(sizes) != world:
        yield f"no process group has all {world} ranks"
