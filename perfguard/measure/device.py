"""The device's own counters: how busy its units were, floating-point operations, the runtime's calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfguard.measure.measurement import Better, Kind, Metric
from perfguard.measure.metrics import Measured, cycle_metric, queried_metric, shown

if TYPE_CHECKING:
    from perfguard.contract import Cycle

queried_metric(
    shown(
        "device_utilisation",
        "fraction",
        "How busy a unit of the device was (cube, vector, memory transfer), weighted by the kernels' durations.",
        better=Better.HIGHER,
    )
)
queried_metric(
    Metric(
        name="device_calls",
        unit="calls/step",
        kind=Kind.EXACT,
        better=Better.LOWER,
        meaning="How often a step launches work on a device (a graph is one launch), copies to, from or on it, and makes the "
        "host wait for it; the median of the steps.",
    )
)


@cycle_metric(
    shown("flops", "MFLOP or GFLOP/s", "Floating-point operations of the window, and per second.", better=Better.EQUAL),
    needs=("flops_summary",),
)
def flops(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Every number of flops_summary under its own key: FLOPs, FLOPS, FLOPS_Utilization, cube_FLOPs, vec_FLOPs, ..."""
    content = cycle.content("flops_summary")
    if content is not None:
        for key, value in sorted(content.document.items()):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                yield key, value


@cycle_metric(
    shown("api_time", "us/step", "Time the host spent in a call of the runtime (Launch, aclrtSynchronizeStream, ...)."),
    needs=("api_statistic",),
)
def api_time(cycle: Cycle) -> Iterator[tuple[str, Measured]]:
    """Time(us) of api_statistic, over the steps of the window where they are known."""
    from perfguard.artifacts.table import as_float64

    content = cycle.content("api_statistic")
    if content is None:
        return
    steps = (cycle.executions.steps if cycle.executions is not None else None) or 1
    frame = content.frame
    sums: dict[str, float] = {}
    for name, time in zip(frame["API Name"].to_list(), as_float64(frame["Time(us)"]).to_list(), strict=True):
        sums[name] = sums.get(name, 0.0) + (time or 0.0)
    yield from ((name, round(time / steps, 3)) for name, time in sorted(sums.items()))
