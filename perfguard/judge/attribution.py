"""An attribution: the operators that a step's change went to, or why this recording cannot name them.

A false cause costs more than none. One place decides, for every report: parts of a ledger that are no work of the model (the
profiler's own time, idle gaps, the residual) are noise as well, and a change that no rule sees is nothing but noise.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

from perfguard import thresholds
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.shown_time import is_seen, step_time_of
from perfguard.judge.verdict import EXCUSES, Verdict

#: Parts of a ledger that are of no operator, and no work of the model.
OF_NO_OPERATOR = frozenset({Cause.IDLE, Cause.OVERLAP, Cause.PROFILER, Cause.RANK, Cause.RESIDUAL})


class Doubt(Enum):
    """Why a change of time is attributed to nothing."""

    #: No rule sees the change of the step.
    NOISE = "noise"
    #: The machine moved or was busy, and nothing is blamed on the model.
    MACHINE = "machine"
    #: The recordings moved in another way than the step that is judged.
    OTHER_CHANGE = "other-change"
    #: What no operator explains outweighs what operators do.
    OUTWEIGHED = "outweighed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Why nothing is named: `step_ns` is the change of the step, `part_ns` that of the `part` beside it."""

    doubt: Doubt
    step_ns: int = 0
    part: Cause | None = None
    part_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one operator adds to the change, all of its entries together; without a subject, communication."""

    subject: str
    #: That of its largest entry.
    cause: Cause
    change_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The operators that a change went to, the largest first, without those whose part is negligible."""

    shares: tuple[Share, ...]


def attribution_of(verdict: Verdict) -> Attribution | Silence | None:
    """Return what a verdict's change of time is attributed to; None without a ledger, or a step that was timed."""
    step = step_time_of(verdict)
    if verdict.ledger is None or step is None or step.change is None or step.baseline_ms is None:
        return None
    step_ns = round((step.now_ms - step.baseline_ms) * 1e6)
    if any(finding.code in EXCUSES for finding in verdict.findings):
        return Silence(doubt=Doubt.MACHINE, step_ns=step_ns)
    if not is_seen(verdict, step):
        return Silence(doubt=Doubt.NOISE, step_ns=step_ns)
    return attribution(verdict.ledger, step_ns=step_ns)


def attribution(ledger: Ledger, *, step_ns: int) -> Attribution | Silence:
    """Attribute a change of the step that a rule has seen, by `step_ns`, to operators of the ledger."""
    alike = thresholds.LEDGER_ALIKE
    if step_ns * ledger.change_ns <= 0 or not 1 / alike <= ledger.change_ns / step_ns <= alike:
        return Silence(doubt=Doubt.OTHER_CHANGE, step_ns=step_ns, part_ns=ledger.change_ns)
    one_way = 1 if step_ns > 0 else -1
    others = [entry for entry in ledger.entries if entry.cause in OF_NO_OPERATOR]
    operators = [entry for entry in ledger.entries if entry.cause not in OF_NO_OPERATOR]
    explained_ns = one_way * sum(entry.change_ns for entry in operators)
    if explained_ns * thresholds.LEDGER_OUTWEIGHED <= sum(abs(entry.change_ns) for entry in others):
        largest = max(others, key=lambda entry: abs(entry.change_ns), default=None)
        return Silence(
            doubt=Doubt.OUTWEIGHED,
            step_ns=step_ns,
            part=largest.cause if largest else None,
            part_ns=_moved_ns(largest) if largest else 0,
        )
    shares = [share for share in _shares(operators) if one_way * share.change_ns > 0]
    shares.sort(key=lambda share: (-abs(share.change_ns), share.subject))
    least_ns = thresholds.NEGLIGIBLE_PART * abs(shares[0].change_ns)
    return Attribution(shares=tuple(share for share in shares if abs(share.change_ns) >= least_ns))


def _moved_ns(entry: Entry) -> int:
    """Return by how much a part itself moved: a correction stands in the ledger with the other sign."""
    return -entry.change_ns if entry.cause in (Cause.PROFILER, Cause.OVERLAP) else entry.change_ns


def _shares(entries: list[Entry]) -> list[Share]:
    """Add up the entries of every operator: more calls, and dearer ones, are one cause."""
    by_subject: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_subject[entry.subject].append(entry)
    return [
        Share(
            subject=subject,
            cause=max(group, key=lambda entry: abs(entry.change_ns)).cause,
            change_ns=sum(entry.change_ns for entry in group),
        )
        for subject, group in by_subject.items()
    ]


__all__ = ["OF_NO_OPERATOR", "Attribution", "Doubt", "Share", "Silence", "attribution", "attribution_of"]
