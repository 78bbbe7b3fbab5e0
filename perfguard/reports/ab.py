"""A/B results for the terminal: a row a workload, with the step of both sides and the change in each process."""

from __future__ import annotations

from collections.abc import Iterable

from perfguard.judge.pairs import Pace, Paired
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.step_time import percent, three_digits
from perfguard.judge.verdict import Verdict
from perfguard.reports.ledger import short_ledger_lines
from perfguard.reports.table import Column, Cut, table
from perfguard.reports.terminal import environment_lines, shown_findings, time_lines
from perfguard.reports.where import where_text
from perfguard.screen import LOG, Screen, printable

#: Most processes in a row.
_EACH = 10


def ab_lines(verdict: Verdict, *, limits: Iterable[str] = (), verbose: bool = False) -> list[str]:
    """Return findings, the parts of the time and the notes of one workload; empty if it is unchanged, unless `verbose`.

    `limits` are the notes that always matter: the sides were not timed, or not as planned.
    """
    lines = shown_findings(verdict, verbose=verbose)
    if verbose:
        lines += time_lines(verdict)
    else:
        lines += [line for line in (where_text(verdict, after_work=True), *short_ledger_lines(verdict)) if line]
    if lines or verbose:
        lines += environment_lines(verdict, "base → now")
    lines += map(printable, verdict.notes if verbose else limits)
    head = f"{verdict.outcome.value} {printable(verdict.workload)}"
    return [head, *(f"  {line}" for line in lines)] if lines else []


def ab_table(rows: Iterable[tuple[Verdict, Paired | None]], screen: Screen = LOG) -> str:
    """Return the table; rows without a `Paired` have exact metrics only."""
    return table(_COLUMNS, [_row(*row) for row in rows], screen)


#: The change of a step and its result are dropped last.
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
    if found is None or not found.ratios:
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
    """Return how many judged metrics changed, without times."""
    times = ("step_ab", "run_blocked_time")
    judged = [one for one in verdict.comparisons if one.judged and one.metric not in times]
    found = {one.place for one in verdict.findings if one.code.family == "R"}
    changed = sum(one.label in found for one in judged)
    return f"{changed} of {len(judged)} changed" if changed else f"{len(judged)} same"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else three_digits(value)
