"""Tables of one workload: its operators and metrics as columns for the script, the rest as plain rows for the template."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from perfguard.errors import counted
from perfguard.findings import Finding, Severity, advice, split_place
from perfguard.judge.attribution import Unattributed, attribution_of
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.quantities import change_text, quantity, show
from perfguard.judge.tolerance import Tolerance
from perfguard.judge.verdict import Verdict
from perfguard.measure.measurement import Value, finite, rank_of
from perfguard.measure.metrics import unit_of
from perfguard.recording import Environment
from perfguard.reports.ledger import ledger_rows, unattributed_text
from perfguard.reports.step_time import step_details
from perfguard.screen import cut, printable

#: Most findings of a workload on the page; the JSON report has all of them.
MOST_FINDINGS = 500
#: Longest text of a finding next to an operator; the list of findings has all of it.
_LONGEST = 160
#: Rows of operators, and of numbers, for readers without scripts.
_FIRST_ROWS = 30
#: What a number is that is only shown.
_NOT_JUDGED = "not judged"
#: The worst first.
_STATES = ("worse", "warned", "changed", "better", "not-comparable", "same", _NOT_JUDGED, "")
#: Numbers of what was read, in this order.
_READ = ("rank", "cycle", "file", "row")
#: Metrics in the table of operators, and metrics that are in no table.
_OF_OPERATORS = ("operator_calls", "operator_time", "operator_shapes")
_NOT_LISTED = ("operator_share", "operator_position")


def tables_of(verdict: Verdict) -> dict[str, Any]:
    """Return the tables of a verdict: `operators` and `metrics` for the script; for the template

    - first_operators, first_metrics: their first rows as text, for readers without scripts
    - files: the findings of each file, and left_out, the number of further ones
    - environment: (name, baseline, now, whether they differ)
    - measured: (what, how)
    - step: the numbers behind the step time; ledger: (name, change, description); unattributed: why it names no cause
    """
    found = attribution_of(verdict)
    operators, metrics = _operators(verdict), _metrics(verdict)
    return {
        "operators": operators,
        "metrics": metrics,
        "first_operators": _first_operators(operators),
        "first_metrics": _first_metrics(metrics),
        "files": _files(verdict.findings[:MOST_FINDINGS]),
        "left_out": max(0, len(verdict.findings) - MOST_FINDINGS),
        "environment": list(_environment(verdict)),
        "measured": list(_measured(verdict)),
        "step": step_details(verdict),
        "ledger": ledger_rows(verdict.ledger) if verdict.ledger is not None else [],
        "unattributed": unattributed_text(found) if isinstance(found, Unattributed) else "",
    }


# -- operators and metrics -------------------------------------------------------------------------------------------


def _pairs(verdict: Verdict) -> Iterable[Comparison]:
    """Yield every number with its reference, None if it was not compared. Numbers of one rank are in the heat maps, too."""
    found: Iterable[Comparison] = verdict.comparisons or (
        Comparison(metric=m.metric, subject=m.subject, state=State.SAME, judged=False, reference=None, current=m.value)
        for m in verdict.measurements
    )
    return (one for one in found if rank_of(one.subject) is None or (one.judged and one.state is not State.SAME))


def _by_place(verdict: Verdict) -> dict[str, Finding]:
    """Return what was found of numbers; only the place leads from one to the other in a report that was read."""
    return {finding.place: finding for finding in verdict.findings if finding.code.family == "R"}


def _operators(verdict: Verdict) -> list[list[Any]]:
    """Return `[name, state, calls before, calls now, us before, us now, allowed, why]` for every operator, the slowest first.

    Times and calls are those of a step; `allowed` is the limit of a judged time.
    """
    findings = _by_place(verdict)
    by_name: dict[str, dict[str, Comparison]] = {}
    for one in _pairs(verdict):
        if one.metric in _OF_OPERATORS:
            by_name.setdefault(one.subject.removeprefix("ranks:"), {})[one.metric] = one
    rows: list[list[Any]] = []
    for name, metrics in by_name.items():
        calls, time = metrics.get("operator_calls"), metrics.get("operator_time")
        states = [_state(one, findings) for one in metrics.values() if one.judged] or [_NOT_JUDGED]
        sides = ((one.reference, one.current) if one else (None, None) for one in (calls, time))
        numbers = [finite(side) for pair in sides for side in pair]
        allowed = finite(time.allowed) if time is not None and time.judged else None
        why = "; ".join(_why(findings[one.label], name) for one in metrics.values() if one.label in findings)
        state = min(states, key=_STATES.index) if verdict.comparisons else ""
        if state == State.SAME.value and time is not None and not time.judged:
            # The calls are the same, and the time beside it may not be.
            state = _NOT_JUDGED
        rows.append([printable(name), state, *numbers, allowed, why])
    return sorted(rows, key=lambda row: (-(row[5] or row[4] or 0), row[0]))


def profiled_step(verdict: Verdict) -> tuple[float | None, float | None]:
    """Return the time in us of the profiled step, of both sides: what the times of operators are shares of."""
    found = next((one for one in _pairs(verdict) if one.metric == "profiled_step_time" and not one.subject), None)
    return (None, None) if found is None else (finite(found.reference), finite(found.current))


def _metrics(verdict: Verdict) -> list[list[Any]]:
    """Return all other numbers, the worst first:

    `[label, state, before, now, change in %, allowed, before as text, now as text, change as text, allowed as text]`
    """
    findings = _by_place(verdict)
    rows: list[list[Any]] = []
    for one in _pairs(verdict):
        if one.metric in _OF_OPERATORS or one.metric in _NOT_LISTED:
            continue
        unit = unit_of(one.metric)
        before, now = finite(one.reference), finite(one.current)
        change = finite(100 * (now - before) / abs(before)) if before and now is not None else None
        sides = one.reference, one.current, one.allowed
        before_text, now_text, allowed = (_text(side, unit, sides) for side in sides)
        state = _state(one, findings) if verdict.comparisons else ""
        row = [printable(one.label), state, before, now, change, finite(one.allowed), before_text, now_text]
        rows.append([*row, change_text(one.reference, one.current), allowed])
    return sorted(rows, key=lambda row: (_STATES.index(row[1]), row[0]))


def _first_operators(rows: list[list[Any]]) -> dict[str, Any]:
    """Return the first rows of the operators as text."""
    heads = ("operator", "verdict", "calls a step", "us a step")
    shown = [
        (f"{name} {why}".strip(), state, _sides(calls, calls_now), _sides(us, us_now))
        for name, state, calls, calls_now, us, us_now, _, why in rows[:_FIRST_ROWS]
    ]
    return {"name": "operators", "heads": heads, "rows": shown, "more": max(0, len(rows) - _FIRST_ROWS)}


def _first_metrics(rows: list[list[Any]]) -> dict[str, Any]:
    """Return the first rows of the other numbers as text."""
    heads = ("number", "verdict", "baseline", "now", "change", "allowed")
    shown = [(label, state, *texts) for label, state, _, _, _, _, *texts in rows[:_FIRST_ROWS]]
    return {"name": "numbers", "heads": heads, "rows": shown, "more": max(0, len(rows) - _FIRST_ROWS)}


def _sides(before: float | None, now: float | None) -> str:
    """Return `2 → 4`, or the only side."""
    return " → ".join(show(one) for one in (before, now) if one is not None)


def _state(one: Comparison, findings: Mapping[str, Finding]) -> str:
    """Return the state of a number; "warned" if it is worse within a wide limit."""
    if not one.judged:
        return "not-comparable" if one.state is State.NOT_COMPARABLE else _NOT_JUDGED
    if one.state is State.SAME and one.label in findings and findings[one.label].severity is Severity.WARNING:
        return "warned"
    return one.state.value


def _text(value: Value | None, unit: str, beside: Iterable[object]) -> str:
    if isinstance(value, (list, dict)):
        return f"{len(value)} {'names' if isinstance(value, list) else 'kinds'}"
    return quantity(value, unit, beside=beside)


def _why(finding: Finding, operator: str) -> str:
    """Return the message of a finding without the operator's name, which is in the same row."""
    return cut(printable(finding.message).replace(f"[{printable(operator)}]", "", 1), _LONGEST)


# -- findings --------------------------------------------------------------------------------------------------------


def _files(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return findings by file, files in the order of their worst finding: file, rank, findings and their count.

    A finding has its place in the file, its line, and the fix of its code if it is the first one of it.
    """
    groups: dict[tuple[int | None, str], list[tuple[Finding, str, int | None]]] = {}
    for one in findings:
        file, line, inside = ("", None, "") if one.code.is_of_comparison else split_place(one.place)
        where = " ".join(part for part in (f"line {line}" if line else "", printable(inside)) if part)
        groups.setdefault((one.rank if file else None, file), []).append((one, where, line))
    found = []
    for (rank, file), group in groups.items():
        first = {one.code: one for one, *_ in reversed(group)}
        shown = [(one, *place, advice(one.code).fix if first[one.code] is one else "") for one, *place in group]
        count = sum(one.more or 1 for one, *_ in group)
        found.append({"file": printable(file) or "the verdict", "rank": rank, "findings": shown, "count": count})
    return found


# -- environment and how it was measured -----------------------------------------------------------------------------


def _environment(verdict: Verdict) -> Iterable[tuple[str, str, str, bool]]:
    """Yield the environment of both sides, name by name."""
    base = verdict.compared_with.environment if verdict.compared_with else None
    before, now = _flat(base), _flat(verdict.environment)
    for name in sorted(before.keys() | now.keys()):
        sides = before.get(name, ""), now.get(name, "")
        yield name, *sides, bool(base) and sides[0] != sides[1]


def _flat(environment: Environment | None) -> dict[str, str]:
    found = {} if environment is None else environment.flat
    return {printable(str(key)): printable(str(value)) for key, value in found.items()}


def _measured(verdict: Verdict) -> Iterable[tuple[str, str]]:
    """Yield how it was measured."""
    if (found := verdict.fingerprint) is not None:
        yield "backend", f"{found.backend} on {found.device}, {found.mode} mode"
        yield "size", f"{counted(found.world_size, 'rank')}, {counted(found.threads, 'thread')} of the framework"
        steps, window = "the whole run, or that of the script's own profiler", found.window
        if window is not None:
            steps = f"{counted(window.skip_first, 'step')} to settle, {window.wait} wait, {window.warmup} warm-up, "
            steps += f"{window.active} active" + (f", {window.repeat} times" if window.repeat > 1 else "")
        yield "window", steps
    if verdict.layouts:
        read = ", ".join(counted(verdict.read[f"{name}s"], name) for name in _READ if f"{name}s" in verdict.read)
        yield "recording", f"layout {', '.join(verdict.layouts)}: {read}"
    if verdict.timings:
        count = sum(len(timing.wall_ns) for timing in verdict.timings)
        clock = "the clock" if verdict.timings[0].clock == "wall" else "CPU time of all threads"
        processes = counted(len(verdict.timings), "fresh process", "es")
        yield "time", f"{processes}, {counted(count, 'step')} without the profiler, by {clock}"
        if pressures := [timing.cpu_pressure for timing in verdict.timings if timing.cpu_pressure is not None]:
            yield "the machine", f"a process waited for a CPU in {100 * max(pressures):.0f} % of the time, at most"
        if shares := [timing.others_share for timing in verdict.timings if timing.others_share is not None]:
            yield "other processes", f"used {100 * min(shares):.0f} % of the machine's CPU time, at least"
        yield from (("time", note) for note in sorted({note for timing in verdict.timings for note in timing.notes}))
    if verdict.lost_runs:
        yield "lost", "; ".join(f"process {one.number} {one.reason}" for one in verdict.lost_runs)
    if (base := verdict.compared_with) is not None:
        yield "baseline", f"{counted(base.runs, 'process', 'es')}, of commit {base.commit or 'unknown'}"
    yield from (("tolerance", f"{rule.pattern}: {_limit(rule.tolerance)}") for rule in verdict.rules)
    if verdict.ignore:
        yield "ignored", ", ".join(verdict.ignore)


def _limit(limit: Tolerance | None) -> str:
    if limit is None:
        return "off"
    if limit.relative == math.inf:
        return "only warns"
    return f"{100 * limit.relative:g} %" + (f" or {limit.absolute:g}" if limit.absolute else "")
