"""The parts of a ledger in words."""

from __future__ import annotations

from perfguard.judge import Cause, Entry, Ledger
from perfguard.reports.terminal import _OF_THE_STEP, _WHOLE, _part


def page_whole(ledger: Ledger) -> str:
    """Return what the whole is: a step, a profiled step, or all that was profiled."""
    return _WHOLE.get(ledger.metric, "step")


def entry_name(entry: Entry) -> str:
    """Return the name of a part: its operator, or what it is of the step."""
    if entry.cause is Cause.RESIDUAL:
        return "residual"
    return _OF_THE_STEP.get(entry.cause) or entry.subject


def entry_text(entry: Entry) -> str:
    """Return a part in words."""
    return "what is left" if entry.cause is Cause.RESIDUAL else _part(entry)
