"""Attribution: the operators that caused the change of a step's time, or the reason why none is named.

All reports use it. A wrong cause is worse than none: parts of a ledger that are not work of the model (what profiling adds,
idle gaps, the residual) count as noise, and so does a change that is not significant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from perfguard import thresholds
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.machine import EXCUSES
from perfguard.judge.shown_time import is_significant, step_time_of
from perfguard.judge.verdict import Verdict

#: Parts of a ledger that belong to no operator, and are not work of the model.
WITHOUT_OPERATOR = frozenset({Cause.IDLE, Cause.OVERLAP, Cause.PROFILER, Cause.RANK, Cause.RESIDUAL})


class Doubt(Enum):
    """Why a change of time has no named cause."""

    #: The step was judged, and its change is allowed.
    ALLOWED = "allowed"
    #: The change of the step is only shown.
    NOT_JUDGED = "not-judged"
    #: The machine was busy, or its speed changed.
    MACHINE = "machine"
    #: The profiled step changed differently from the judged step.
    OTHER_CHANGE = "other-change"
    #: The parts without an operator are larger than those of the operators.
    OUTWEIGHED = "outweighed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattributed:
    """Why no operator is named: `step_ns` is the change of the step, `part_ns` that of the largest other part."""

    doubt: Doubt
    step_ns: int = 0
    part: Cause | None = None
    part_ns: int = 0


#: The operators that caused a change, the largest first, without negligible ones: an entry each, with the cause of its largest.
Attribution = tuple[Entry, ...]


def attribution_of(verdict: Verdict) -> Attribution | Unattributed | None:
    """Return the causes of a verdict's change of time; None without a ledger or a timed step."""
    step = step_time_of(verdict)
    if verdict.ledger is None or step is None or step.change is None or step.baseline_ms is None:
        return None
    step_ns = round((step.now_ms - step.baseline_ms) * 1e6)
    if any(finding.code in EXCUSES for finding in verdict.findings):
        return Unattributed(doubt=Doubt.MACHINE, step_ns=step_ns)
    if not is_significant(verdict, step):
        return Unattributed(doubt=Doubt.ALLOWED if step.judged else Doubt.NOT_JUDGED, step_ns=step_ns)
    return attribution(verdict.ledger, step_ns=step_ns)


def attribution(ledger: Ledger, *, step_ns: int) -> Attribution | Unattributed:
    """Attribute a significant change of the step, by `step_ns`, to operators of the ledger."""
    alike = thresholds.LEDGER_ALIKE
    if step_ns * ledger.change_ns <= 0 or not 1 / alike <= ledger.change_ns / step_ns <= alike:
        return Unattributed(doubt=Doubt.OTHER_CHANGE, step_ns=step_ns, part_ns=ledger.change_ns)
    sign = 1 if step_ns > 0 else -1
    others = [entry for entry in ledger.entries if entry.cause in WITHOUT_OPERATOR]
    operators = [entry for entry in ledger.entries if entry.cause not in WITHOUT_OPERATOR]
    explained_ns = sign * sum(entry.change_ns for entry in operators)
    if explained_ns * thresholds.LEDGER_OUTWEIGHED <= sum(abs(entry.change_ns) for entry in others):
        largest = max(others, key=lambda entry: abs(entry.change_ns), default=None)
        part = largest.cause if largest else None
        # A correction has the opposite sign in the ledger.
        opposite = -1 if part in (Cause.PROFILER, Cause.OVERLAP) else 1
        part_ns = opposite * largest.change_ns if largest else 0
        return Unattributed(doubt=Doubt.OUTWEIGHED, step_ns=step_ns, part=part, part_ns=part_ns)
    shares = [share for share in _by_operator(operators) if sign * share.change_ns > 0]
    shares.sort(key=lambda share: (-abs(share.change_ns), share.subject))
    least_ns = thresholds.NEGLIGIBLE_PART * abs(shares[0].change_ns)
    return tuple(share for share in shares if abs(share.change_ns) >= least_ns)


def _by_operator(entries: list[Entry]) -> Iterator[Entry]:
    """Yield the sum of the entries of every operator: more calls and slower calls are one cause."""
    by_subject: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_subject[entry.subject].append(entry)
    for group in by_subject.values():
        largest = max(group, key=lambda entry: abs(entry.change_ns))
        base_ns, current_ns = (sum(getattr(entry, side) for entry in group) for side in ("base_ns", "current_ns"))
        yield replace(largest, base_ns=base_ns, current_ns=current_ns)
