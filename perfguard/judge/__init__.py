"""Judge: is it worse?

Input: a `Contract`, its measurements, and a `Baseline` or None. Output: a `Verdict`. `compare` has the rules for one
measurement, `work` for changed operators, `tolerance` the limits, `weights` the order of findings, `verdict` the rules for the
whole. `common_mode` detects a change of the machine, `pairs` judges A/B runs, `confirmation` uses them to confirm a stored
time. `step_time` is the one time and change in reports, `shown_time` its choice, `ledger` its parts, `attribution` its causes.
`refresh` updates baselines, `renames` finds those of renamed tests, `trend` judges a history, `calibration` the rule for time;
`quantities` writes numbers. Baselines hold facts, tolerances come from the settings: a refresh cannot loosen one.
"""

from __future__ import annotations

from perfguard.judge.attribution import Attribution, Doubt, Share, Unattributed, attribution, attribution_of
from perfguard.judge.baseline import Baseline, BaselineFacts
from perfguard.judge.compare import Comparison, State, compare
from perfguard.judge.confirmation import (
    Confirm,
    PairedRun,
    confirmed,
    confirmed_before,
    why_not_confirmed,
)
from perfguard.judge.ledger import Cause, Entry, Ledger, ledger
from perfguard.judge.pairs import (
    PAIRED_METRICS,
    TIME_METRICS,
    Pace,
    Paired,
    judged_step,
    own_tolerance,
    paired,
    with_pairs,
    without_judged,
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
from perfguard.judge.weights import WORKLOAD_METRICS

__all__ = [
    "GREEN",
    "PAIRED_METRICS",
    "TIME_METRICS",
    "WORKLOAD_METRICS",
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
    "PairedRun",
    "Policy",
    "Refresh",
    "Refreshed",
    "Rule",
    "Share",
    "State",
    "StepTime",
    "Tolerance",
    "Unattributed",
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
    "without_details",
    "without_judged",
    "without_runs",
]
