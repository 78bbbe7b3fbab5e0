"""Columns of counters in kernel_details."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.dialects.invariants import invariant
from perfguard.findings import Code, Finding

if TYPE_CHECKING:
    from perfguard.dialects.cycle import Cycle


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
