"""Findings: a defect or a regression with a stable code and a place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, unique


class Severity(Enum):
    """Severity of a finding; errors decide the outcome, warnings and notes are shown."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@unique
class Code(Enum):
    """Stable codes and their headlines. A: layout, S: schema, I: invariants, C: capture, B: baseline, R: regression."""

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
    R101 = "worse than the tolerance allows"
    R102 = "an exact metric differs"
    R103 = "a metric vanished"
    R104 = "a metric is new"
    R105 = "worse, within the wide limit"
    R106 = "better than the tolerance: the baseline is stale"
    R107 = "operators changed"
    R108 = "most of the work is gone"

    @property
    def family(self) -> str:
        """The letter before the number."""
        return self.name[0]

    @property
    def is_of_comparison(self) -> bool:
        """Whether it comes from the comparison with a baseline, not from the recording itself."""
        return self.family in "BR"


@dataclass(frozen=True, slots=True)
class OwnCode:
    """The code of a user's own check: U and three digits; `value` is its headline, as of a `Code`."""

    name: str
    value: str

    @property
    def family(self) -> str:
        """The letter before the number."""
        return self.name[0]

    @property
    def is_of_comparison(self) -> bool:
        """It never comes from the comparison with a baseline."""
        return False


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


_SEVERITY_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def worst_first(findings: tuple[Finding, ...] | list[Finding]) -> tuple[Finding, ...]:
    """Sort findings by severity, then by family (capture, contract, verdict), then by weight."""
    family_order = {family: rank for rank, family in enumerate("CASIUBR")}
    return tuple(
        sorted(
            findings,
            key=lambda f: (
                _SEVERITY_ORDER[f.severity],
                family_order[f.code.family],
                -f.weight,
                f.code.name,
                f.more > 0,
                _natural(f.place),
            ),
        )
    )


def _natural(place: str) -> list[tuple[str, int]]:
    """Return a sort key that puts line 9 before line 10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"([^0-9]*)([0-9]{0,18})", place)]


@dataclass(frozen=True, slots=True)
class Advice:
    """The cause of a finding and its fix, a sentence each."""

    cause: str
    fix: str


_LOOK = "look at the recording; refresh the baseline if the change is intended"
_COLUMNS = "a new profiler version? compare with `perfguard schema show NAME`"
_REPORT = "report it to the profiler's maintainers, with file and line"


def advice(code: Code | OwnCode) -> Advice:
    """Return the cause and the fix of a code."""
    return _OF_THE_USER if isinstance(code, OwnCode) else ADVICE[code]


_OF_THE_USER = Advice(
    "a check of this project found violations", "look at the rows in the message, or at the query of the check"
)

#: One entry a code; `perfguard codes` prints it.
ADVICE: dict[Code, Advice] = {
    Code.A101: Advice(
        "no directory or file has the names or contents of a known layout",
        "look at the profiler's log; `perfguard schema list` shows the layouts, `--layout ID` selects one",
    ),
    Code.A102: Advice(
        "the layout requires the file under conditions that are known to hold",
        "record again; `perfguard check DIR --explain` shows the condition and where it comes from",
    ),
    Code.A103: Advice("no slot of the layout has this name (a note)", "nothing, or add a slot to the layout"),
    Code.A104: Advice(
        "there is raw data, but no output of an analysis",
        "run the profiler's analysis: analyse(), offline_analyse(), torch_npu's analyse",
    ),
    Code.A105: Advice(
        "two file names in one cycle carry different ranks, or two files fill one slot",
        "give every rank a directory of its own, or remove the file of the other run",
    ),
    Code.A106: Advice(
        "a file or a rank exists although its option was off",
        "it may be from an earlier run: empty the directory and record again",
    ),
    Code.A107: Advice("`--expect ranks=N` names a rank without files", "look at the log of that rank"),
    Code.A108: Advice(
        "there are more files, or deeper folders, than perfguard's limit",
        "check a directory further down",
    ),
    Code.A109: Advice(
        "a link is broken or leaves the directory, or a folder cannot be listed (a link to a folder is a note)",
        "copy its target into the directory, or correct the permissions",
    ),
    Code.A110: Advice(
        "`--expect` says that an option was on or off, but the files show the opposite",
        "check the profiler's options; `perfguard check DIR --explain` shows what the files say",
    ),
    Code.A111: Advice(
        "files vanished, could not be read or fetched, or the worker process died twice (most likely out of memory)",
        "correct the cause in the message, then check that rank alone: `perfguard check DIR/OF/THAT/RANK`",
    ),
    Code.S101: Advice(
        "the file is truncated, damaged, or in another format",
        "record again; the place shows where reading stopped",
    ),
    Code.S102: Advice(
        "a column is missing, unknown, or out of order",
        _COLUMNS,
    ),
    Code.S103: Advice("a cell or a key has a wrong type, or is out of bounds", _COLUMNS),
    Code.I101: Advice("rows were lost or duplicated when one of the tables was written", _REPORT),
    Code.I102: Advice("executions were lost, or written twice", _REPORT),
    Code.I103: Advice("the timeline lost, duplicated or moved events", _REPORT),
    Code.I104: Advice("a sum is over other rows, or in another unit", _REPORT),
    Code.I105: Advice("an average, a share or a rate was computed from other numbers", _REPORT),
    Code.I106: Advice("a clock jumped, rows are in the wrong order, or a time is in another unit", _REPORT),
    Code.I107: Advice("allocations were lost, or two pools were mixed up", _REPORT),
    Code.I108: Advice("the parts of a step do not add up to the step", _REPORT),
    Code.I109: Advice("times, sizes and bandwidth of a collective are inconsistent", _REPORT),
    Code.I110: Advice("one of the two events that a flow connects was lost", _REPORT),
    Code.I111: Advice("the queue statistics do not follow from the samples", _REPORT),
    Code.I112: Advice("a self time exceeds its total time, or an operator ends after its parent", _REPORT),
    Code.I113: Advice(
        "times, steps or ranks of two files do not match",
        "one of them is from another run: empty the directory and record again",
    ),
    Code.I114: Advice("a row or an event was written twice", "report it to the profiler's maintainers"),
    Code.I115: Advice(
        "rows were lost, or the run stopped early",
        "report it to the profiler's maintainers, with the row",
    ),
    Code.C101: Advice(
        "steps were lost, or operators of a neighbouring step were counted",
        "synchronise before the profiler's `step()`, so that no step is lost or leaks into the window",
    ),
    Code.C102: Advice(
        "a step ran operators that the other steps did not",
        'the model differs from step to step: settle longer, or set `ignore = ["C102"]`',
    ),
    Code.C103: Advice("the window is empty", "check whether the step ran on another backend or in another process"),
    Code.C104: Advice("an event has start 0 and duration 0", "the profiler did not write them; record again"),
    Code.C105: Advice("the step itself failed", "fix the step"),
    Code.C106: Advice(
        "the loader had fewer batches than the window has steps", "give it more batches, or use a shorter window"
    ),
    Code.C107: Advice("steps.json has no duration for it", "record again"),
    Code.C108: Advice("Ctrl-C, or the loop ended early", "let the loop run to its end"),
    Code.C109: Advice(
        "the profiler raised while it started, stopped or wrote",
        "the message shows its error, such as a full disk or a bug of the profiler",
    ),
    Code.C110: Advice(
        "the last file of an analysis is missing", "look at the end of the profiler's log, then record again"
    ),
    Code.C111: Advice("the profiler logged an error and continued", "the message shows the error"),
    Code.C112: Advice("the device's collection failed or did not start", "look at the device's log (PROF_*, plog)"),
    Code.C113: Advice("its exit status was not 0, or it timed out", "its last lines are on standard error"),
    Code.C114: Advice(
        "ranks have different windows, or ran different operators (a warning, because stages of a pipeline do)",
        "start all ranks with the same window and the same script",
    ),
    Code.C115: Advice(
        "the script has its own profiler, and perfguard started another one",
        "run it without --window to use the script's window, or remove the script's profiler",
    ),
    Code.B101: Advice("no baseline is stored", "`pytest --perfguard-update`"),
    Code.B102: Advice(
        "window, backend, mode, threads or ranks differ", "use the settings of the baseline, or refresh it"
    ),
    Code.B103: Advice(
        "CPU model or cores differ (a note)", "times are only shown; refresh on this machine to gate them"
    ),
    Code.B104: Advice(
        "the test was renamed or removed", "`perfguard baseline move OLD NEW`, or `perfguard baseline prune`"
    ),
    Code.B105: Advice(
        "the fixture was requested, but not called", "call `perfguard(step)`, or let the loop run to its end"
    ),
    Code.B106: Advice(
        "a collective of the first step waits for the rank that started last (a note)",
        "times are only shown; start the window later, such as at step 3, to gate them",
    ),
    Code.B107: Advice(
        "the calibration kernel and the unchanged operators changed by the same factor",
        "run it again when the machine is quiet; refresh if the machine has changed for good",
    ),
    Code.B108: Advice(
        "the baseline has no controlled runs, or too few processes of this run left a time",
        "`perfguard baseline refresh --runs 5` on this machine, or find out why the processes ended",
    ),
    Code.B109: Advice(
        "a process that times the steps crashed, hung or was killed (a warning; the others count)",
        "the message shows its last lines; check that the test runs by itself",
    ),
    Code.B110: Advice(
        "a refresh would accept a slower step, more memory or added work",
        'fix the regression, or accept it with a reason: `--perfguard-reason "why"`',
    ),
    Code.B111: Advice(
        "a time is 0, there are fewer runs than stored, or a whole metric is missing; the stored baseline is unchanged",
        "record again with the settings of the stored baseline; the message shows the command",
    ),
    Code.B112: Advice(
        "other processes used more of the machine than when the baseline was made",
        "run it again when the machine is quiet",
    ),
    Code.B113: Advice(
        "the step is slower than its stored time, but as fast as the baseline's commit in an A/B run (a warning)",
        "the machine or the installed packages have changed: refresh the baseline",
    ),
    Code.R101: Advice("the number is beyond its limit", _LOOK),
    Code.R102: Advice("a number without noise has changed", _LOOK),
    Code.R103: Advice("the baseline has the metric, the recording does not", _LOOK),
    Code.R104: Advice(
        "the recording has it, the baseline does not", f"{_LOOK} (a warning if the baseline lacks the whole metric)"
    ),
    Code.R105: Advice("the number is beyond its warning limit (a warning)", "run it again"),
    Code.R106: Advice(
        "the number is far better than the stored one (a warning)",
        "refresh the baseline, or tighten it only: `pytest --perfguard-ratchet`",
    ),
    Code.R107: Advice(
        'other operators, calls or shapes than the baseline\'s (a warning; `changed = "fail"` makes each an error)',
        "store them with `pytest --perfguard --perfguard-update`; no reason is needed",
    ),
    Code.R108: Advice(
        "operators with more than half of the baseline's operator time are gone, and hardly any new one runs instead",
        "check that the step still runs the model; refresh with a reason if it is intended",
    ),
}
