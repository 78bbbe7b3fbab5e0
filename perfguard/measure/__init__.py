"""Measure: compute the metrics of a recording.

Input: a `Contract` whose artifacts could be read. Output: `Measurement`s, each of one metric and one subject. Each cycle is
measured while its artifacts are in memory, perhaps in a worker process (`cycles`); `aggregation` joins cycles and ranks.

To add a metric, describe it in `metrics.METRICS` and measure it with a query in `dialects/common/metrics.sql`, or in that of
the one dialect that has it. Only what no table has is measured by functions: `runs` (steps that perfguard drove),
`aggregation` (between ranks), `graphs`.
"""

from __future__ import annotations

from perfguard.measure.aggregation import measure
from perfguard.measure.census import Operator, operators_of
from perfguard.measure.cycles import CycleMeasurements, measure_cycle
from perfguard.measure.measurement import Better, Kind, Measurement, Metric
from perfguard.measure.memory import MemoryTrack, memory_tracks
from perfguard.measure.metrics import METRICS, TIME_METRICS
from perfguard.measure.runs import measure_runs
from perfguard.measure.timeline import Pause, StepTimeline, timeline_of

__all__ = [
    "METRICS",
    "TIME_METRICS",
    "Better",
    "CycleMeasurements",
    "Kind",
    "Measurement",
    "MemoryTrack",
    "Metric",
    "Operator",
    "Pause",
    "StepTimeline",
    "measure",
    "measure_cycle",
    "measure_runs",
    "memory_tracks",
    "operators_of",
    "timeline_of",
]
