"""Measure: what do the numbers say?

What goes in: a `Contract` whose artifacts could be read. What comes out: `Measurement`s, each of one metric and one subject.
`METRICS` is the table of what can be asked; to add one, write a function with `@metric(...)` in `measure.metrics`.
"""

from __future__ import annotations

from perfguard.measure.measurement import Better, Kind, Measurement, Metric, Statistics
from perfguard.measure.metrics import METRICS, measure

__all__ = ["METRICS", "Better", "Kind", "Measurement", "Metric", "Statistics", "measure"]
