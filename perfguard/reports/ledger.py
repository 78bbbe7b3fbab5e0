"""The parts of a ledger in words."""

from __future__ import annotations

from perfguard.judge import Cause, Entry, Ledger
from perfguard.reports.terminal import _WHOLE, _part


def page_whole(ledger: Ledger) -> str:
    """Return what the whole is: a step, a profiled step, or all that was profiled."""
    return _WHOLE.get(ledger.metric, "step in a fresh process")


#: Parts that are no work of the model, and correct what the operators come to.
CORRECTIONS = frozenset({Cause.PROFILER, Cause.OVERLAP, Cause.RANK, Cause.RESIDUAL})
_NAMES = {
    Cause.COMMUNICATION: "communication not overlapped",
    Cause.IDLE: "idle gaps (nothing ran)",
    Cause.OVERLAP: "less: operators side by side",
    Cause.PROFILER: "less: the profiler's own time",
    Cause.RANK: "another rank was the slowest",
    Cause.RESIDUAL: "not explained (residual)",
}


def entry_name(entry: Entry) -> str:
    """Return the name of a part: its operator, or what it is of the step."""
    return _NAMES.get(entry.cause) or entry.subject


def entry_text(entry: Entry) -> str:
    """Return a part in words."""
    return "what no operator and no gap explains" if entry.cause is Cause.RESIDUAL else _part(entry)
