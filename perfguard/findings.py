"""Findings: one thing that is wrong, by stable code, with the place where it was seen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique


class Severity(Enum):
    """How much a finding weighs; errors decide the outcome, the rest is shown."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@unique
class Code(Enum):
    """Stable name = headline. A: layout, S: schema, I: invariants, C: capture, B: baseline, R: regression."""

    A101 = "no profiler output of a known layout"
    A102 = "a required file is missing"
    A103 = "a file the layout does not know"
    A104 = "collected, but never analysed"
    S101 = "a file cannot be read as what it should be"
    S102 = "the columns are not those of the schema"
    S103 = "a value breaks the schema"
    I101 = "two tables count the same operator differently"
    I102 = "timestamps and occurrences disagree"
    I103 = "trace and occurrences disagree"
    C101 = "the profiled window is not the one asked for"
    C102 = "the operators differ from step to step"
    C103 = "no operator was recorded"
    C104 = "an event has neither a time nor a duration"
    C105 = "a step raised"
    C106 = "the loader ended before the window did"
    C107 = "a step was not timed"
    C108 = "the window was interrupted"
    C109 = "the profiler failed"
    B101 = "no baseline to compare with"
    B102 = "the baseline belongs to another fingerprint"
    B103 = "the baseline was measured on another machine"
    B104 = "a baseline whose test no longer exists"
    B105 = "a test asked for perfguard and measured nothing"
    R101 = "worse than the tolerance allows"
    R102 = "an exact metric changed"
    R103 = "a metric vanished"
    R104 = "a metric is new"
    R105 = "worse, within the wide limit"
    R106 = "better than the tolerance: the baseline is stale"

    @property
    def family(self) -> str:
        """The letter before the number."""
        return self.name[0]

    @property
    def is_of_comparison(self) -> bool:
        """Whether it comes from comparing with a baseline, and not from the recording itself."""
        return self.family in "BR"


#: Findings of these families say that a recording is not whole, so no number in it is to be trusted.
INVALIDATING_FAMILIES = frozenset("ASIC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    `place` is a file with line or JSON path (`op_type_info.csv:7 $.percent`), a metric, or empty;
    `weight` orders findings of one severity, larger is worse.
    """

    code: Code
    message: str
    place: str = ""
    severity: Severity = Severity.ERROR
    weight: float = 0.0

    @property
    def invalidates(self) -> bool:
        """Whether this finding makes the recording INVALID."""
        return self.severity is Severity.ERROR and self.code.family in INVALIDATING_FAMILIES


_SEVERITY_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def worst_first(findings: tuple[Finding, ...] | list[Finding]) -> tuple[Finding, ...]:
    """Order findings by severity, then capture before contract before verdict, then weight."""
    family_order = {family: rank for rank, family in enumerate("CASIBR")}
    return tuple(
        sorted(
            findings,
            key=lambda f: (_SEVERITY_ORDER[f.severity], family_order[f.code.family], -f.weight, f.code.name, f.place),
        )
    )
