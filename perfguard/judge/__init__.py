"""Judge: is it worse?

Input: a `Contract`, its measurements, and a `Baseline` or None. Output: a `Verdict`. `compare` has the rules for one
measurement, `work` for changed operators, `tolerance` the limits, `weights` the order of findings, `verdict` the rules for the
whole, and detects a change of the machine. `pairs` judges A/B runs, `confirmation` uses them to confirm a stored time.
`step_time` is the one time and change in reports, `shown_time` its choice, `ledger` its parts, `attribution` its causes.
`refresh` updates baselines, `renames` finds those of renamed tests, `trend` judges a history, `calibration` the rule for time;
`quantities` writes numbers. Baselines hold facts, tolerances come from the settings: a refresh cannot loosen one.
"""
