"""What `perfguard ab` came to, for the terminal: a row a workload, both sides' step, and every process's own number."""

from __future__ import annotations

from collections.abc import Iterable

from perfguard.judge import Pace, Paired, Verdict, step_time_of, without_details
from perfguard.judge.step_time import milliseconds, percent
from perfguard.reports.ledger import told_ledger_lines
from perfguard.reports.names import printable
from perfguard.reports.table import Column, Cut, table
from perfguard.reports.terminal import SHOWN_PER_CODE, finding_lines, whole_time_lines
from perfguard.reports.words import where_words
from perfguard.screen import LOG, Screen

#: How many processes' numbers a row shows.
_EACH = 10
#: How the notes begin that say why two sides were not timed, or in another way than they could be.
_NOT_TOGETHER = ("not timed", "not interleaved", "the processes could not")


def beside_lines(verdict: Verdict, *, whole: bool = False) -> list[str]:
    """Return what is to be said of one workload, and nothing of one that is as it was: findings, where the time went, how
    it was timed. `whole` asks for all of that, of any workload (-v)."""
    lines = finding_lines(
        verdict.findings if whole else without_details(verdict), most=None if whole else SHOWN_PER_CODE
    )
    if whole:
        lines += whole_time_lines(verdict)
    else:
        lines += [line for line in (where_words(verdict), *told_ledger_lines(verdict)) if line]
    if (lines or whole) and verdict.environment_changes:
        lines.append(f"environment, base → now: {printable('; '.join(verdict.environment_changes))}")
    lines += [printable(note) for note in verdict.notes if whole or note.startswith(_NOT_TOGETHER)]
    head = f"{verdict.outcome.value} {printable(verdict.workload)}"
    return [head, *(f"  {line}" for line in lines)] if lines else []


def beside_table(rows: Iterable[tuple[Verdict, Paired | None]], screen: Screen = LOG) -> str:
    """Return the table; without a `Paired` only exact metrics were compared."""
    return table(_COLUMNS, [_row(*row) for row in rows], screen)


#: By how much a step changed, and what that was found to be, stay longest.
_COLUMNS = (
    Column(title="outcome"),
    Column(title="workload", least=24, most=100),
    Column(title="base ms", leaves=4),
    Column(title="now ms", leaves=3),
    Column(title="change %", leaves=1),
    Column(title="each process %", least=16, cut=Cut.END, leaves=6),
    Column(title="allowed %", leaves=5),
    Column(title="time", leaves=2),
    Column(title="exact", leaves=7),
)


def _row(verdict: Verdict, found: Paired | None) -> tuple[str, ...]:
    head = (verdict.outcome.value, printable(verdict.workload))
    exact = _exact(verdict)
    step = step_time_of(verdict)
    base, now = ("-", "-") if step is None else (_milliseconds(step.baseline_ms), _milliseconds(step.now_ms))
    if found is None or not found.effects:
        return (*head, base, now, "-", "-", "-", "not judged" if found is None else Pace.UNDECIDED.value, exact)
    each = " ".join(percent(ratio - 1).removesuffix(" %") for ratio in found.ratios[:_EACH])
    more = " …" if len(found.ratios) > _EACH else ""
    change, pace = found.ratio - 1, found.pace.value
    if step is not None and step.metric == "run_blocked_time" and step.change is not None:
        change, pace = step.change, "waits more"
    how = "step by step" if found.interleaved else "in turns"
    return (
        *(*head, base, now, percent(change).removesuffix(" %"), each + more),
        *(f"+{100 * found.allowed:.1f}", f"{pace}, {how}", exact),
    )


def _exact(verdict: Verdict) -> str:
    """Say how many of what was judged changed, time left out."""
    times = ("step_ab", "run_blocked_time")
    judged = [one for one in verdict.comparisons if one.judged and one.metric not in times]
    found = {one.place for one in verdict.findings if one.code.family == "R"}
    changed = sum(one.label in found for one in judged)
    return f"{changed} of {len(judged)} changed" if changed else f"{len(judged)} same"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else milliseconds(value)
