"""What nobody could detect: a rule for each kind of corruption that leaves a directory as right as it was, and why."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

_IDENTIFIER = "the column measures nothing, and no other file repeats it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Globs of operator, layout, slot and column (units: glob of its unit, "-" for none), and the reason."""

    operator: str
    layout: str = "*"
    slot: str = "*"
    column: str = "*"
    unit: str = "*"
    #: Columns it does not speak of after all.
    but: str = ""
    because: str

    def covers(self, operator: str, layout: str, slot: str, column: str, unit: str) -> bool:
        """Whether a mutant is one of these."""
        pairs = ((operator, self.operator), (layout, self.layout), (slot, self.slot), (column, self.column))
        if self.but and _matches(column, self.but):
            return False
        return all(_matches(text, globs) for text, globs in (*pairs, (unit, self.unit)))


def _matches(text: str, globs: str) -> bool:
    """Whether a text matches one of several globs, separated by `|`; `[` and `]` mean themselves."""
    return any(fnmatch.fnmatchcase(text, glob.replace("[", "[[]")) for glob in globs.split("|"))


_VALUE = "change a value by a tenth|zero a value|negate a value"
_TEXT = "NaN|Infinity"
_UNIT = "a thousand times too large|a thousand times too small|a hundred times too large|a hundred times too small"
_TRACES = "trace|trace_view|timeline|cpu_timeline_display|ascend_timeline_display|gpu_timeline_display"
_DATABASES = "ascend_pytorch_profiler*|ascend_mindspore_profiler*|analysis|communication_analyzer|cluster_analysis"
_RAGGED = "minddata_pipeline_summary_csv|minddata_pipeline_raw"
_SAMPLED = (
    "npu_module_mem|memory_record|cpu_ms_memory_record|hbm|nic|roce|pcie|hccs|soc_pmu|host_info|minddata_aicpu"
    "|minddata_cpu_utilization"
)
_JOINED = "*Step I*|*step*|*External id|*Ev Idx|*rank*|*world_size|*rankId|*globalTaskId|*Task Id|*task_id"

UNDETECTABLE: tuple[Rule, ...] = (
    # -- names and numbers that stand for something outside of the files
    Rule(operator=_VALUE, unit="-", but=_JOINED, because="an id, an address or an option: any other is as good"),
    Rule(operator=_TEXT, unit="-", because="a text that happens to look like a number may be any text"),
    # -- files
    Rule(operator="drop a file", column="optional", because="the layout may be without it"),
    Rule(
        operator="drop a file",
        column="*, and nobody says it",
        because="whether what it belongs to was on is known from the file alone",
    ),
    # -- logs and sources: lines of free text
    Rule(
        operator="drop a row|duplicate a row|swap two rows", slot="log", because="a log may say anything, in any order"
    ),
    Rule(operator="truncate a file", slot="log", because="a log ends where the process stopped writing"),
    Rule(
        operator="drop a row|duplicate a row|swap two rows",
        slot="*ir|*dot|actor_set|trace_code_graph",
        because="the text of a graph is read for its frame; whether a line of it is right only the compiler knows",
    ),
    Rule(operator="truncate a file", slot="actor_set", column="at a line", because="nothing counts the lines of it"),
    # -- traces
    Rule(operator="swap two rows", slot=_TRACES, because="the events of a trace have no order"),
    Rule(
        operator="drop an event|duplicate an event",
        column="M:*",
        but="M:process_name",
        because="it labels a lane; a lane without a label is drawn by its number, MindSpore 2.0 labels most of them twice",
    ),
    Rule(operator="duplicate an event", column="M:process_name", because="the second label says the same"),
    Rule(operator="*", column="M:*.ts|M:*.cat|M:*.tid", because="what labels a lane has no time and no place"),
)


def rule_of(operator: str, layout: str, slot: str, column: str, unit: str) -> Rule | None:
    """Return the first rule that covers a mutant."""
    found = (rule for rule in UNDETECTABLE if rule.covers(operator, layout, slot, column, unit))
    return next(found, None)
