"""Upgrades: versions that differ from the baseline's, as a possible cause of a regression."""

from __future__ import annotations

from perfguard.judge import Outcome, Verdict
from perfguard.reports.names import printable

#: Packages that a step runs on; other differences of the environment are in the details.
_RUNS_ON = ("torch", "torch_npu", "mindspore", "numpy", "python")


def with_upgrade(text: str, verdict: Verdict) -> str:
    """Return the headline of a FAILED verdict with the upgrade: `...; torch 2.12.0 → 2.13.0 since the baseline`."""
    if verdict.outcome is not Outcome.FAILED:
        return text
    # `Environment.differences` writes `torch: 2.12.0 → 2.13.0`, with `-` for an unknown version.
    changes = dict(change.partition(": ")[::2] for change in verdict.environment_changes)
    upgrades = [f"{name} {changes[name]}" for name in _RUNS_ON if "-" not in changes.get(name, "-").split()]
    if not upgrades:
        return text
    stop = "." if text.endswith(".") else ""
    return f"{text.removesuffix('.')}; {printable(', '.join(upgrades))} since the baseline{stop}"
