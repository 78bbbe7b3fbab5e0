"""Judge: is it worse?

What goes in: a `Contract`, its measurements, and a `Baseline` (or none). What comes out: a `Verdict`. `compare` holds the
rules for one measurement, `work` what the operators that changed weigh, `tolerance` how far a timed one may move, `verdict`
what follows for the whole, `common_mode` whether the machine moved, `pairs` what two sides timed beside each other come to,
`confirmation` what such a run says of a stored time, `step_time` the one time and change that reports show and `shown_time`
which of them that is, `ledger` where the time of a step went, `attribution` whether that names a cause, `refresh` what becomes
of a baseline, `renames` which unused one a test without a baseline looks like. Baselines hold facts; tolerances come from the
settings, so that a refresh can never loosen one.
"""

from __future__ import annotations

from perfguard.judge.attribution import Attribution, Doubt, Share, Silence, attribution, attribution_of
from perfguard.judge.baseline import Baseline, BaselineFacts
from perfguard.judge.compare import OF_THE_WHOLE, Comparison, State, compare
from perfguard.judge.confirmation import (
    Confirm,
    SideBySide,
    Unconfirmed,
    confirmed,
    confirmed_before,
    why_not_confirmed,
)
from perfguard.judge.ledger import Cause, Entry, Ledger, ledger
from perfguard.judge.pairs import (
    BESIDE,
    TIMES,
    Pace,
    Paired,
    judged_step,
    own_tolerance,
    paired,
    with_pairs,
    with_times_shown,
)
from perfguard.judge.refresh import Change, Direction, Refresh, Refreshed, ratcheted, refreshed
from perfguard.judge.renames import lacks_baseline, move_command, renames, with_rename
from perfguard.judge.shown_time import step_time_of, without_details
from perfguard.judge.step_time import StepTime
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import (
    GREEN,
    Coverage,
    Outcome,
    Verdict,
    compared,
    could_judge_runs,
    examined,
    has_runs,
    is_suspect,
    with_runs,
    without_runs,
)

__all__ = [
    "BESIDE",
    "GREEN",
    "OF_THE_WHOLE",
    "TIMES",
    "Attribution",
    "Baseline",
    "BaselineFacts",
    "Cause",
    "Change",
    "Comparison",
    "Confirm",
    "Coverage",
    "Direction",
    "Doubt",
    "Entry",
    "Ledger",
    "Outcome",
    "Pace",
    "Paired",
    "Policy",
    "Refresh",
    "Refreshed",
    "Rule",
    "Share",
    "SideBySide",
    "Silence",
    "State",
    "StepTime",
    "Tolerance",
    "Unconfirmed",
    "Verdict",
    "attribution",
    "attribution_of",
    "compare",
    "compared",
    "confirmed",
    "confirmed_before",
    "could_judge_runs",
    "examined",
    "has_runs",
    "is_suspect",
    "judged_step",
    "lacks_baseline",
    "ledger",
    "move_command",
    "own_tolerance",
    "paired",
    "ratcheted",
    "refreshed",
    "renames",
    "step_time_of",
    "why_not_confirmed",
    "with_pairs",
    "with_rename",
    "with_runs",
    "with_times_shown",
    "without_details",
    "without_runs",
]
