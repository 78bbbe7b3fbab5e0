"""Findings: one thing that is wrong, by stable code, with the place where it was seen."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    A105 = "files of two ranks in one place"
    A106 = "something that should not be there"
    A107 = "a rank is missing"
    A108 = "more files than are looked at"
    A109 = "a link or an entry that is not followed"
    A110 = "not what was expected"
    A111 = "something that could not be looked at"
    A112 = "checks that were not made"
    S101 = "a file cannot be read as what it should be"
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
    I110 = "a flow without its other end"
    I111 = "the data pipeline does not add up"
    I112 = "a part is longer than its whole"
    I113 = "the files are not of one run"
    I114 = "a name or a number stands for two things"
    I115 = "a reference leads nowhere"
    C101 = "the profiled window is not the one asked for"
    C102 = "the operators differ from step to step"
    C103 = "no operator was recorded"
    C104 = "an event has neither a time nor a duration"
    C105 = "a step raised"
    C106 = "the loader ended before the window did"
    C107 = "a step was not timed"
    C108 = "the window was interrupted"
    C109 = "the profiler failed"
    C110 = "the profiler stopped half way"
    C111 = "an error in the profiler's own log"
    C112 = "a device was traced, and nothing ran on it"
    C113 = "the script failed"
    C114 = "the ranks did not run the same"
    C115 = "two profilers in one process"
    B101 = "no baseline to compare with"
    B102 = "the baseline belongs to another fingerprint"
    B103 = "the baseline was measured on another machine"
    B104 = "a baseline whose test no longer exists"
    B105 = "a test asked for perfguard and measured nothing"
    B106 = "ranks that began without a step to warm up"
    B107 = "the machine moved, not the model"
    B108 = "time was shown, and not judged"
    B109 = "a timed process was lost"
    B110 = "the baseline would get worse without a reason"
    B111 = "what was measured cannot become the baseline"
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
        """Whether it comes from comparing with a baseline, and not from the recording itself."""
        return self.family in "BR"


@dataclass(frozen=True, slots=True)
class OwnCode:
    """The code of a check that the user wrote: U and three digits; `value` is its headline, as a `Code` has one."""

    name: str
    value: str

    @property
    def family(self) -> str:
        """The letter before the number."""
        return self.name[0]

    @property
    def is_of_comparison(self) -> bool:
        """It never comes from comparing with a baseline."""
        return False


#: What the name of an `OwnCode` is, and what it may begin with.
OWN_FAMILY = "U"
_OWN, _OWN_BEGINNING = re.compile(r"U[0-9]{3}"), re.compile(r"U[0-9]{0,3}")


def code_named(name: str, headline: str) -> Code | OwnCode:
    """Return a code by its name; the headline is that of the user's own codes. Raises `KeyError` where there is none."""
    return OwnCode(name, headline) if _OWN.fullmatch(name) else Code[name]


def is_code(name: str, *, beginning: bool = False) -> bool:
    """Whether a code, or one of its beginnings, has this name. Of the user's own all may be there."""
    if (_OWN_BEGINNING if beginning else _OWN).fullmatch(name):
        return True
    return any(code.name.startswith(name) for code in Code) if beginning else name in Code.__members__


#: Findings of these families say that a recording is not whole, so no number in it is to be trusted.
INVALIDATING_FAMILIES = frozenset("ASIC" + OWN_FAMILY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    `place` is a file with line or JSON path (`op_type_info.csv:7 $.percent`), a metric, or empty;
    `weight` orders findings of one severity, larger is worse.
    """

    code: Code | OwnCode
    message: str
    place: str = ""
    severity: Severity = Severity.ERROR
    weight: float = 0.0
    #: The rank whose files it is about, and the invariant that found it, where there are such.
    rank: int | None = None
    check: str = ""
    #: How many more of its kind it stands for: then it is no finding by itself, but the count of those not worded.
    more: int = 0
    #: The line of the file it is about, as it stands there, cut where it is long; empty where the place names none.
    excerpt: str = ""

    @property
    def invalidates(self) -> bool:
        """Whether this finding makes the recording INVALID."""
        return self.severity is Severity.ERROR and self.code.family in INVALIDATING_FAMILIES


def is_invalid(findings: Iterable[Finding]) -> bool:
    """Whether one of the findings makes a recording INVALID: then no number in it is to be trusted."""
    return any(finding.invalidates for finding in findings)


_PLACE = re.compile(r"^(?P<file>.*?)(?::(?P<line>[0-9]{1,18}))?(?P<inside> \$.*)?\Z", re.DOTALL)


def split_place(place: str) -> tuple[str, int | None, str]:
    """Split `a/b.csv:7 $.percent` into file, line and the path inside."""
    found = _PLACE.match(place)
    assert found is not None
    line = found["line"]
    return found["file"], int(line) if line and int(line) > 0 else None, (found["inside"] or "").strip()


_SEVERITY_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def worst_first(findings: tuple[Finding, ...] | list[Finding]) -> tuple[Finding, ...]:
    """Order findings by severity, then capture before contract before verdict, then weight."""
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
    """Order line 9 before line 10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"([^0-9]*)([0-9]{0,18})", place)]


@dataclass(frozen=True, slots=True)
class Advice:
    """Why a finding comes up, and what to do about it, in one sentence each."""

    cause: str
    fix: str


_LOOK = "look at the recording; refresh if it is intended"
_COLUMNS = "a new profiler version? compare with `perfguard schema show NAME`"
_REPORT = "report it to the profiler's maintainers, with the file and line named"


def advice(code: Code | OwnCode) -> Advice:
    """Return why a finding of a code comes up, and what to do about it."""
    return _OF_THE_USER if isinstance(code, OwnCode) else ADVICE[code]


_OF_THE_USER = Advice("a check of this project's own found rows that break it", "look at the rows, or at its query")

#: One entry a code; `perfguard codes` prints it.
ADVICE: dict[Code, Advice] = {
    Code.A101: Advice(
        "no directory or file below has the names or contents of a known layout",
        "look at the profiler's own log; `perfguard schema list` shows the layouts, `--layout ID` names one",
    ),
    Code.A102: Advice(
        "the layout requires the file under conditions that are known to hold",
        "record again; `perfguard check DIR --explain` says which condition, and who says so",
    ),
    Code.A103: Advice("no slot of the layout has this name (a note)", "nothing, or add a slot to the layout"),
    Code.A104: Advice(
        "raw data is there, and nothing that an analysis would have made of it",
        "let the profiler analyse what it collected: analyse(), offline_analyse(), torch_npu's analyse",
    ),
    Code.A105: Advice(
        "two file names in one cycle carry different ranks, or two files fill one slot",
        "give every rank a directory of its own, or find out which file is a stranger's",
    ),
    Code.A106: Advice(
        "a file, or a rank, is there although what it belongs to was off",
        "it may be left from an earlier run: empty the directory and record again",
    ),
    Code.A107: Advice("`--expect ranks=N` names a rank that left nothing", "look at that rank's own log"),
    Code.A108: Advice(
        "there are more files, or deeper folders, than perfguard looks at",
        "name a directory further down",
    ),
    Code.A109: Advice(
        "a link leads nowhere or out of the directory, or a folder cannot be listed (a link to a folder is a note)",
        "copy what it leads to into the directory, or mend the permissions",
    ),
    Code.A110: Advice(
        "`--expect` says that something was on, or off, and the files say otherwise",
        "look how the profiler was set up; `perfguard check DIR --explain` shows what the files say",
    ),
    Code.A111: Advice(
        "its files vanished, could not be read or fetched, or whoever looked at it died twice: out of memory, most likely",
        "mend what the message names, and check it again, alone: `perfguard check DIR/OF/THAT/RANK`",
    ),
    Code.A112: Advice(
        "a table is so large that its rows went by and were not kept; each was validated, but not joined with other files",
        "read the names: what they check is not known of this rank; a shorter window has smaller tables",
    ),
    Code.S101: Advice(
        "the file is cut off, damaged, or not of its format",
        "it is cut off or damaged at the place named; record again",
    ),
    Code.S102: Advice(
        "a column is missing, unknown, or out of order",
        _COLUMNS,
    ),
    Code.S103: Advice("a cell or a key has another type, or is out of its bounds", _COLUMNS),
    Code.I101: Advice("rows were lost or doubled while one of the tables was written", _REPORT),
    Code.I102: Advice("executions were lost, or written twice", _REPORT),
    Code.I103: Advice("the timeline lost events, doubled them, or moved them", _REPORT),
    Code.I104: Advice("a sum was taken over other rows, or in another unit", _REPORT),
    Code.I105: Advice("an average, a share or a rate was computed from something else", _REPORT),
    Code.I106: Advice("a clock jumped, rows were mixed up, or a time is in another unit", _REPORT),
    Code.I107: Advice("allocations were lost, or two pools were mixed up", _REPORT),
    Code.I108: Advice("the parts of a step do not make up the step", _REPORT),
    Code.I109: Advice("times, sizes and bandwidth of a collective do not fit together", _REPORT),
    Code.I110: Advice("one of the two events that a flow connects was lost", _REPORT),
    Code.I111: Advice("the queue statistics do not follow from what was sampled", _REPORT),
    Code.I112: Advice("self time above total time, or an operator that ends after the one it is in", _REPORT),
    Code.I113: Advice(
        "times, steps or ranks of two files have nothing to do with each other",
        "one of them is left from another run: empty the directory and record again",
    ),
    Code.I114: Advice("a row or an event was written twice", "report it to the profiler's maintainers"),
    Code.I115: Advice(
        "rows were lost, or written by a run that left off half way",
        "report it to the profiler's maintainers, with the row named",
    ),
    Code.C101: Advice(
        "steps were lost, or operators of a neighbouring step were counted",
        "a step was lost, or leaked in: synchronise before the profiler's `step()`",
    ),
    Code.C102: Advice(
        "a step ran operators that its neighbours did not",
        'the model does something in some steps only: settle longer, or `ignore = ["C102"]`',
    ),
    Code.C103: Advice("the window holds nothing", "the step ran elsewhere: another backend, another process?"),
    Code.C104: Advice("an event begins at 0 and lasts 0", "the profiler never filled it in; record again"),
    Code.C105: Advice("the step itself failed", "mend the step"),
    Code.C106: Advice(
        "the loader had fewer batches than the window has steps", "give it more batches, or ask for fewer steps"
    ),
    Code.C107: Advice("steps.json has no duration for it", "record again"),
    Code.C108: Advice("Ctrl-C, or the loop was left early", "let the loop run to its end"),
    Code.C109: Advice(
        "the profiler raised while it started, stopped or wrote",
        "its own error is in the message: a full disk, a bug of the profiler",
    ),
    Code.C110: Advice(
        "the last thing an analysis writes is missing", "look at the end of the profiler's own log; record again"
    ),
    Code.C111: Advice("the profiler logged an error and went on", "its own words are in the message"),
    Code.C112: Advice(
        "the device's collection failed or was never started", "look at the device's own log (PROF_*, plog)"
    ),
    Code.C113: Advice("its exit status was not 0, or its time was over", "its own last words are on standard error"),
    Code.C114: Advice(
        "ranks have other windows, or ran other operators (a warning: stages of a pipeline do)",
        "start all ranks with the same window and the same script",
    ),
    Code.C115: Advice(
        "the script has a profiler of its own, and was to have perfguard's as well",
        "run it without --window, which takes the script's own window, or take its profiler out",
    ),
    Code.B101: Advice("nobody has stored one", "`pytest --perfguard-update`"),
    Code.B102: Advice("window, backend, mode, threads or ranks differ", "measure as the baseline was, or refresh"),
    Code.B103: Advice("CPU model or cores differ (a note)", "times are shown; refresh on this machine to gate them"),
    Code.B104: Advice(
        "the test was renamed or removed", "`perfguard baseline move OLD NEW`, or `perfguard baseline prune`"
    ),
    Code.B105: Advice("the fixture was asked for and never called", "call `perfguard(step)`, or loop to the end"),
    Code.B106: Advice(
        "a collective of the first step waits for the rank that started last (a note)",
        "times are shown; begin the window later, such as with step 3, to gate them",
    ),
    Code.B107: Advice(
        "the calibration kernel and the operators that did not change moved by one factor",
        "run it again when the machine is quiet; refresh if this is what the machine is like now",
    ),
    Code.B108: Advice(
        "the baseline has no controlled runs, or too few processes of this run left a time",
        "`perfguard baseline refresh --runs 5` on this machine, or read why the processes ended",
    ),
    Code.B109: Advice(
        "a process that only times the steps crashed, hung or was killed (a warning; the others count)",
        "its last words are in the message; does the test run by itself?",
    ),
    Code.B110: Advice(
        "a refresh would accept something slower, more memory or added work",
        'mend what got worse, or accept it with a reason: `--perfguard-reason "why"`',
    ),
    Code.B111: Advice(
        "a time of 0, fewer runs than are stored, or nothing of a whole metric; the stored baseline is untouched",
        "record it again as the stored baseline was; the message says how",
    ),
    Code.B112: Advice(
        "other processes took the machine while the steps were timed, and took less of it for the baseline",
        "run it again when the machine is quiet",
    ),
    Code.B113: Advice(
        "the step is as quick as that of the baseline's commit, run beside it, and its stored time says otherwise (a warning)",
        "the machine, or what is installed, is not as it was: refresh the baseline",
    ),
    Code.R101: Advice("the number is beyond its limit", _LOOK),
    Code.R102: Advice("what cannot be noise is another number", _LOOK),
    Code.R103: Advice("the baseline has it, the recording does not", _LOOK),
    Code.R104: Advice(
        "the recording has it, the baseline does not", f"{_LOOK} (a warning where the baseline lacks the whole metric)"
    ),
    Code.R105: Advice("the number is beyond its warning limit (a warning)", "look again"),
    Code.R106: Advice(
        "the number is far better than what is stored (a warning)",
        "refresh, or only tighten: `pytest --perfguard-ratchet`",
    ),
    Code.R107: Advice(
        'other operators, calls or shapes than the baseline\'s (a warning; `changed = "fail"` makes each an error)',
        "`pytest --perfguard --perfguard-update` stores them; no reason is needed",
    ),
    Code.R108: Advice(
        "operators with more than half of the baseline's operator time are gone, and hardly any new one runs instead",
        "look whether the step still runs the model; refresh with a reason if it is intended",
    ),
}
