"""Findings: a defect or a regression with a stable code and a place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, unique
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Severity(Enum):
    """Severity of a finding; errors decide the outcome, warnings and notes are shown."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


#: What the codes of each family are about: a name, and what it means.
FAMILIES = {
    "A": "layout: which files there are",
    "S": "schema: what a file holds",
    "I": "invariant: what must hold inside a file and between files",
    "C": "capture: how the recording was made",
    "B": "baseline: whether there is something to compare with",
    "R": "regression: what differs from the baseline",
    "U": "user: checks of your own project",
}


class _Named:
    """What follows from a code's name."""

    name: str

    @property
    def family(self) -> str:
        """The letter before the number."""
        return self.name[0]

    @property
    def is_of_comparison(self) -> bool:
        """Whether it comes from the comparison with a baseline, not from the recording itself."""
        return self.family in "BR"


@unique
class Code(_Named, Enum):
    """Stable codes and their headlines; the letter is the family (`FAMILIES`)."""

    A101 = "no profiler output of a known layout"
    A102 = "a required file is missing"
    A103 = "a file that the layout does not know"
    A104 = "data was collected, but not analysed"
    A105 = "files of two ranks in one place"
    A106 = "an unexpected file or rank"
    A107 = "a rank is missing"
    A108 = "more files than the limit"
    A109 = "a link or an entry that is not followed"
    A110 = "the output differs from --expect"
    A111 = "a part could not be checked"
    S101 = "a file cannot be parsed"
    S102 = "the columns are not those of the schema"
    S103 = "a value breaks the schema"
    I101 = "two tables count the same operator differently"
    I102 = "timestamps and occurrences disagree"
    I103 = "trace and occurrences disagree"
    I104 = "a total is not the sum of its parts"
    I105 = "an average or a share does not follow from its parts"
    I106 = "times are out of order or overlap"
    I107 = "memory does not add up"
    I108 = "step times do not add up"
    I109 = "communication does not add up"
    I110 = "a flow has only one end"
    I111 = "the data pipeline does not add up"
    I112 = "a part is longer than its whole"
    I113 = "the files are not of one run"
    I114 = "a name or an id is not unique"
    I115 = "a reference has no target"
    C101 = "the profiled window is not the requested one"
    C102 = "the operators differ from step to step"
    C103 = "no operator was recorded"
    C104 = "an event has neither a time nor a duration"
    C105 = "a step raised"
    C106 = "the loader ended before the window did"
    C107 = "a step was not timed"
    C108 = "the window was interrupted"
    C109 = "the profiler failed"
    C110 = "the profiler's output is incomplete"
    C111 = "an error in the profiler's own log"
    C112 = "a device was traced, but nothing ran on it"
    C113 = "the script failed"
    C114 = "the ranks did not run the same"
    C115 = "two profilers in one process"
    C116 = "work of a device was lost"
    B101 = "no baseline to compare with"
    B102 = "the baseline belongs to another fingerprint"
    B103 = "the baseline was measured on another machine"
    B104 = "a baseline whose test no longer exists"
    B105 = "a test requested perfguard, but measured nothing"
    B106 = "ranks began without a warm-up step"
    B107 = "the machine changed speed, not the model"
    B108 = "time was shown, but not judged"
    B109 = "a timed process was lost"
    B110 = "the baseline would get worse without a reason"
    B111 = "the measurements cannot become the baseline"
    B112 = "the machine was busy"
    B113 = "the stored time is out of date"
    B114 = "the stored baseline cannot be read"
    B115 = "an unnamed parameter does what another one did"
    R101 = "worse than the tolerance allows"
    R102 = "an exact metric differs"
    R103 = "a metric vanished"
    R104 = "a metric is new"
    R105 = "worse, within the wide limit"
    R106 = "better than the tolerance: the baseline is stale"
    R107 = "operators changed"
    R108 = "most of the work is gone"


@dataclass(frozen=True)
class OwnCode(_Named):
    """The code of a user's own check: U and three digits; `value` is its headline, as of a `Code`."""

    name: str
    value: str


#: The first letter of an `OwnCode`, its names, and their beginnings.
OWN_FAMILY = "U"
_OWN, _OWN_BEGINNING = re.compile(r"U[0-9]{3}"), re.compile(r"U[0-9]{0,3}")


def code_named(name: str, headline: str) -> Code | OwnCode:
    """Return a code by its name; `headline` is that of a user's own code. Raises `KeyError` for an unknown code."""
    return OwnCode(name, headline) if _OWN.fullmatch(name) else Code[name]


def is_code(name: str, *, beginning: bool = False) -> bool:
    """Whether a code has this name, or begins with it. Every name of a user's own code counts."""
    if (_OWN_BEGINNING if beginning else _OWN).fullmatch(name):
        return True
    return any(code.name.startswith(name) for code in Code) if beginning else name in Code.__members__


#: An error of these families means that the recording is incomplete or wrong: its numbers are not trustworthy.
INVALIDATING_FAMILIES = frozenset("ASIC" + OWN_FAMILY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Why a finding is a note only: `by` names the setting, marker or option, `severity` is what it would be without."""

    by: str
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One defect of a recording, or one result of a comparison.

    `place` is a file with line or JSON path (`op_type_info.csv:7 $.percent`), a metric, or empty; `weight` orders findings of
    one severity, the largest first.
    """

    code: Code | OwnCode
    message: str
    place: str = ""
    severity: Severity = Severity.ERROR
    weight: float = 0.0
    #: The rank of the file, and the name of the check; None and empty for findings without them.
    rank: int | None = None
    check: str = ""
    #: For a summary: the number of further findings of its kind that are not listed.
    more: int = 0
    #: The line of the file, shortened; empty if the place names no line.
    excerpt: str = ""
    #: What is wrong, by the check that found it; empty where the headline of the code says it.
    of_check: str = ""
    #: Set by a policy that does not judge it.
    ignored: Ignored | None = None

    @property
    def headline(self) -> str:
        """What is wrong, in a few words: many checks share a code."""
        return self.of_check or self.code.value

    @property
    def invalidates(self) -> bool:
        """Whether this finding makes the recording INVALID."""
        return self.severity is Severity.ERROR and self.code.family in INVALIDATING_FAMILIES


def is_invalid(findings: Iterable[Finding]) -> bool:
    """Whether one of the findings makes a recording INVALID, so that its numbers are not trustworthy."""
    return any(finding.invalidates for finding in findings)


_PLACE = re.compile(r"^(?P<file>.*?)(?::(?P<line>[0-9]{1,18}))?(?P<inside> \$.*)?\Z", re.DOTALL)


def split_place(place: str) -> tuple[str, int | None, str]:
    """Split `a/b.csv:7 $.percent` into file, line and path inside the file."""
    found = _PLACE.match(place)
    assert found is not None
    line = found["line"]
    return found["file"], int(line) if line and int(line) > 0 else None, (found["inside"] or "").strip()


def worst_first(findings: tuple[Finding, ...] | list[Finding]) -> tuple[Finding, ...]:
    """Sort findings by severity, then by family (capture, contract, verdict), then by weight."""
    return tuple(sorted(findings, key=_order))


def _order(one: Finding) -> tuple[Any, ...]:
    ranks = [*Severity].index(one.severity), "CASIUBR".index(one.code.family)
    return (*ranks, -one.weight, one.code.name, one.more > 0, _natural(one.place))


def _natural(place: str) -> list[tuple[str, int]]:
    """Return a sort key that puts line 9 before line 10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"([^0-9]*)([0-9]{0,18})", place)]


class Advice(NamedTuple):
    """The cause of a finding and its fix, a sentence each; `advice.toml` has one for each code.

    `severity` are the severities that the code can have; one that is ignored is shown as a note. `outcome` is that of a test
    with an error of this code; empty if the finding alone decides nothing.
    """

    cause: str
    fix: str
    severity: tuple[Severity, ...]
    outcome: str


def advice(code: Code | OwnCode) -> Advice:
    """Return the cause and the fix of a code."""
    return _advice()[OWN_FAMILY if isinstance(code, OwnCode) else code.name]


@cache
def _advice() -> dict[str, Advice]:
    import tomllib

    found = tomllib.loads(Path(__file__).with_name("advice.toml").read_text(encoding="utf-8"))
    return {name: _complete(name, **plain) for name, plain in found.items()}


def _complete(
    name: str, *, cause: str, fix: str, severity: Iterable[str] = (Severity.ERROR.value,), outcome: str = ""
) -> Advice:
    severities = tuple(map(Severity, severity))
    if not outcome and Severity.ERROR in severities:
        outcome = "INVALID" if name[0] in INVALIDATING_FAMILIES else "FAILED"
    return Advice(cause, fix, severities, outcome)
