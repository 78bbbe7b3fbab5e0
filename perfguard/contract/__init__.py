"""Contract: is everything there, well-formed and consistent?

What goes in: a recording (or a foreign directory). What comes out: a `Contract`, its cycles with their artifacts read into
columns, and every finding of families A (layout), S (schema), I (invariants) and C (capture integrity).
A directory passes five stations: `layout` finds the files, `conditions` says which of them must be there, `readers` turn them
into cell texts, `schema` judges the cells, `invariants` judge what must hold across files. To add one: a slot in
schemas/layouts, a line in `READERS`, a schema in schemas/artifacts, or a decorated function in `invariants`.
"""

from __future__ import annotations

from perfguard.contract.conditions import Expectation, expectation
from perfguard.contract.cycle import Artifact, Asked, Cycle
from perfguard.contract.extract import Extract
from perfguard.contract.inspection import Contract
from perfguard.contract.reduction import inspect, reduce

__all__ = ["Artifact", "Asked", "Contract", "Cycle", "Expectation", "Extract", "expectation", "inspect", "reduce"]
