"""Contract: is everything there, well-formed and consistent?

What goes in: a recording (or a foreign directory). What comes out: a `Contract`, its cycles with their artifacts read into
columns, and every finding of families A (layout), S (schema), I (invariants) and C (capture integrity). `artifacts` turns files
into tables, `dialects` has the rules for them; this package reads, checks and releases the cycles of a recording.
"""

from __future__ import annotations

from perfguard.artifacts.conditions import Expectation, expectation
from perfguard.contract.inspection import Contract
from perfguard.contract.reduction import inspect, reduce
from perfguard.dialects.cycle import Artifact, Cycle, Requested
from perfguard.dialects.extract import Extract

__all__ = ["Artifact", "Contract", "Cycle", "Expectation", "Extract", "Requested", "expectation", "inspect", "reduce"]
