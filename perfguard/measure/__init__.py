"""Measure: what do the numbers say?

What goes in: a `Contract` whose artifacts could be read. What comes out: `Measurement`s, each of one metric and one subject.
What is measured of a cycle is taken while its artifacts are there (`taken`), perhaps in another process.
`METRICS` is the table of what can be asked; to add one, describe it in the module of its part, where a query of a `metrics.sql`
measures it (`queried_metric`), or decorate the function that does: what every dialect has in `metrics`, collectives in
`communication`, a device's own counters in `device`, the data pipeline in `pipeline`, the values of a training in `summary`,
compiled graphs in `graphs`, the order and the gaps of a profiled step in `timeline`, controlled processes in `runs`. `memory`
has no metric: it is how the memory moved over the window, for those who look.
"""

from __future__ import annotations

from perfguard.measure import communication, device, graphs, pipeline, runs, summary, timeline
from perfguard.measure.measurement import Better, Kind, Measurement, Metric, Statistics
from perfguard.measure.memory import MemoryTrack, memory_tracks
from perfguard.measure.metrics import METRICS, measure, taken
from perfguard.measure.operators import Operator, operators_of
from perfguard.measure.runs import measure_runs
from perfguard.measure.taking import Taking

# The imports above filled METRICS.
del communication, device, graphs, pipeline, runs, summary, timeline

__all__ = [
    "METRICS",
    "Better",
    "Kind",
    "Measurement",
    "MemoryTrack",
    "Metric",
    "Operator",
    "Statistics",
    "Taking",
    "measure",
    "measure_runs",
    "memory_tracks",
    "operators_of",
    "taken",
]
