"""Judge: is it worse?

What goes in: a `Contract`, its measurements, and a `Baseline` (or none). What comes out: a `Verdict`. `compare` holds the rules
for one measurement, `tolerance` how far a timed one may move, `verdict` what follows for the whole, `ledger` where the time of
a step went, `baseline` what a refresh writes. Baselines hold facts; tolerances come from the settings, so that a refresh can
never loosen one.
"""

from __future__ import annotations

from perfguard.judge.baseline import Baseline, Refresh, refreshed
from perfguard.judge.compare import Comparison, State, compare
from perfguard.judge.ledger import Cause, Entry, Ledger, ledger
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Coverage, Outcome, Verdict, compared, examined

__all__ = [
    "Baseline",
    "Cause",
    "Comparison",
    "Coverage",
    "Entry",
    "Ledger",
    "Outcome",
    "Policy",
    "Refresh",
    "Rule",
    "State",
    "Tolerance",
    "Verdict",
    "compare",
    "compared",
    "examined",
    "ledger",
    "refreshed",
]
