"""Ledger texts: lines for a terminal, rows for a page."""

from __future__ import annotations

from perfguard.errors import counted
from perfguard.judge.attribution import Doubt, Unattributed, attribution_of
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.quantities import show
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.step_time import TimeUnit
from perfguard.judge.verdict import Verdict
from perfguard.screen import cut, printable, shortened

#: Most lines of a ledger in a message; a part needs at least 1/100 of the whole change for a line of its own.
_LINES = 8
_SMALL = 100
#: Longest name of an operator, and longest note of a part.
_NAME, _NOTE = 70, 60
#: The whole change, by metric.
_WHOLE = {
    "run_wall_time": "step (wall time)",
    "step_time": "step",
    "profiled_step_time": "profiled step",
    "operator_time": "all that was profiled",
}
_UNDER_THE_PROFILER = ("profiled_step_time", "operator_time")
#: Parts of no operator: as a line of the ledger, and in a sentence.
_OF_THE_STEP = {
    Cause.COMMUNICATION: "communication not overlapped",
    Cause.IDLE: "idle gaps",
    Cause.OVERLAP: "less: overlapping operators",
    Cause.PROFILER: "less: what profiling adds to a step",
    Cause.RANK: "another rank was the slowest before",
}
_OF_NO_OPERATOR = {
    None: "the time that no operator explains",
    Cause.IDLE: "the time in which nothing ran",
    Cause.OVERLAP: "the time in which operators overlapped",
    Cause.PROFILER: "what profiling adds",
    Cause.RANK: "the time between the ranks",
    Cause.RESIDUAL: "the time that nothing explains",
}


def ledger_lines(ledger: Ledger, *, most: int | None = None, only_shown: bool = False) -> list[str]:
    """Return the whole change, then its parts, the largest first; the printed numbers add up.

    With `most` there are at most so many parts, and the others are one line. Rounding is in that line, or in the residual,
    which is always the last. The times of the whole belong to this ledger alone, so they are shown without `most` only. Whether
    the step is `only_shown`, without a judged time, stands beside them.
    """
    if not ledger.entries:
        return []
    *parts, residual = ledger.entries
    own, others = parts, []
    if most is not None:
        own = [entry for entry in parts if _SMALL * abs(entry.change_ns) >= abs(ledger.change_ns)][: most - 2]
        others = [entry for entry in parts if entry not in own]
    base, current = _tenths(ledger.base_ns), _tenths(ledger.current_ns)
    rows = [(_tenths(entry.change_ns), _part(entry)) for entry in own]
    if others:
        rest = current - base - sum(tenths for tenths, _ in rows) - _tenths(residual.change_ns)
        rows.append((rest, _others(others, own)))
        rows.sort(key=lambda row: -abs(row[0]))
    rows.append((current - base - sum(tenths for tenths, _ in rows), "residual"))
    what = _WHOLE.get(ledger.metric, f"step ({printable(ledger.metric)})")
    rank = "" if ledger.rank is None else f" of rank {ledger.rank}, the slowest"
    width = max(len(_signed(tenths)) for tenths, _ in rows)
    times = "" if most is not None else f"{_us(base)} → {_us(current)} us, "
    shown = " (shown, not judged)" if only_shown else ""
    return [
        f"{what}{rank} {times}{_signed(current - base)} us{shown}:",
        *(f"  {_signed(tenths):>{width}} us  {printable(text)}" for tenths, text in rows),
    ]


def full_ledger_lines(verdict: Verdict) -> list[str]:
    """Return the whole ledger after the reason why it names no cause, if so; or the reason why there is none."""
    if verdict.ledger is None:
        return ["no ledger: it needs a comparison, and the times of operators on both sides"]
    found = attribution_of(verdict)
    # With time off there is no time of the step: what the profiler saw is no verdict.
    is_profiled = verdict.ledger.metric in _UNDER_THE_PROFILER
    lines = ledger_lines(verdict.ledger, only_shown=is_profiled and step_time_of(verdict) is None)
    return [*([unattributed_text(found)] if isinstance(found, Unattributed) else []), *lines]


def short_ledger_lines(verdict: Verdict) -> list[str]:
    """Return the largest parts of the ledger if they name a cause; empty for noise."""
    if verdict.ledger is None or not isinstance(attribution_of(verdict), tuple):
        return []
    return ledger_lines(verdict.ledger, most=_LINES)


def unattributed_text(found: Unattributed) -> str:
    """Return in one sentence why no operator is named for the time."""
    unknown = "Which operator took the time is not known:"
    unit = TimeUnit.of([found.step_ns / 1e3, found.part_ns / 1e3])
    step, part = unit.signed(found.step_ns / 1e3), unit.signed(found.part_ns / 1e3)
    if found.doubt is Doubt.ALLOWED:
        return f"{unknown} the step changed by {step}, which is judged and allowed."
    if found.doubt is Doubt.NOT_JUDGED:
        return f"{unknown} the step changed by {step}, which is shown, not judged."
    if found.doubt is Doubt.MACHINE:
        return f"{unknown} the machine was busy or changed its speed, and the step changed by {step}."
    if found.doubt is Doubt.OTHER_CHANGE:
        return f"{unknown} the profiled step changed by {part}, the timed one by {step}."
    if found.part is Cause.IDLE and found.part_ns * found.step_ns > 0:
        return f"No operator explains the time: between operators it changed by {part}, in the whole step by {step}."
    return f"{unknown} {_OF_NO_OPERATOR[found.part]} changed by {part}, the step by {step}."


def _part(entry: Entry) -> str:
    name = shortened(entry.subject, _NAME)
    if entry.cause in _OF_THE_STEP:
        sign = -1 if entry.cause in (Cause.OVERLAP, Cause.PROFILER) else 1
        before, now = (_us(_tenths(sign * ns)) for ns in (entry.base_ns, entry.current_ns))
        return _OF_THE_STEP[entry.cause] + ("" if entry.cause is Cause.RANK else f" ({before} → {now} us)")
    if is_newly_called(entry):
        return f"{name}: newly called{_each(entry.current_calls, entry.current_ns)}"
    if entry.cause is Cause.NEW:
        return f"{name}: new{_each(entry.current_calls, entry.current_ns)}"
    if entry.cause is Cause.VANISHED:
        return f"{name}: vanished{_each(entry.base_calls, entry.base_ns)}"
    if entry.cause is Cause.CALLS and entry.base_calls and entry.current_calls:
        counts = f"{show(entry.base_calls)} → {show(entry.current_calls)}"
        how = "more" if entry.current_calls > entry.base_calls else "fewer"
        return f"{name}: {how} calls ({counts}, {_a_call(entry.base_ns, entry.base_calls)} us each)"
    price = _price(entry)
    if entry.cause is Cause.RENAMED:
        return f"{shortened(entry.renamed_from, _NAME)} → {name}: renamed ({entry.note}; {price})"
    if entry.cause is Cause.SHAPES:
        return f"{name}: changed shapes ({price}; {cut(entry.note, _NOTE)})"
    return (
        f"{name}: {'slower' if entry.change_ns > 0 else 'faster'}{' per call' if entry.current_calls else ''} ({price})"
    )


def is_newly_called(entry: Entry) -> bool:
    """Whether an operator of the baseline had no calls there, and has some now."""
    return bool(entry.cause is Cause.PER_CALL and entry.base_calls == 0 and entry.current_calls)


def _price(entry: Entry) -> str:
    """Return `4 calls, 77.1 → 154.6 us` with times a call; without calls the total times."""
    if not (entry.base_calls and entry.current_calls):
        return f"{_us(_tenths(entry.base_ns))} → {_us(_tenths(entry.current_ns))} us"
    before, now = _a_call(entry.base_ns, entry.base_calls), _a_call(entry.current_ns, entry.current_calls)
    return f"{_calls(entry.current_calls)}, {before} → {now} us"


def _each(calls: float | None, ns: int) -> str:
    return f" ({_calls(calls)}, {_a_call(ns, calls)} us each)" if calls else ""


def _calls(calls: float) -> str:
    return f"{show(calls)} call{'' if calls == 1 else 's'}"


def _a_call(ns: int, calls: float) -> str:
    return show(ns / calls / 1e3)


def _others(entries: list[Entry], shown: list[Entry]) -> str:
    """Return the content of the line for the others: the number of operators, and the names of parts of the step."""
    names = {entry.subject for entry in entries if entry.cause not in _OF_THE_STEP}
    parts = [_OF_THE_STEP[entry.cause] for entry in entries if entry.cause in _OF_THE_STEP]
    if more := names - {entry.subject for entry in shown}:
        return ", ".join([counted(len(more), "other operator"), *parts])
    return ", ".join([*(["the rest of these operators"] if names else []), *parts])


def _tenths(ns: int) -> int:
    """Round to tenths of a us, half away from zero, so that opposite changes have equal digits."""
    return (abs(ns) + 50) // 100 * (1 if ns >= 0 else -1)


def _us(tenths: int) -> str:
    return f"{'−' if tenths < 0 else ''}{abs(tenths) // 10}.{abs(tenths) % 10}"


def _signed(tenths: int) -> str:
    return _us(tenths) if tenths < 0 else f"+{_us(tenths)}"


def ledger_rows(ledger: Ledger) -> list[tuple[str, str, str]]:
    """Return every part as (name, change, description), the largest first."""
    rows = []
    unit = TimeUnit.of(entry.change_ns / 1e3 for entry in ledger.entries)
    for entry in sorted(ledger.entries, key=lambda entry: -abs(entry.change_ns)):
        name, text = _OF_THE_STEP.get(entry.cause, entry.subject), ""
        if entry.cause is Cause.RESIDUAL:
            name, text = "not explained (residual)", "not explained by operators or gaps"
        rows.append((printable(name), unit.signed(entry.change_ns / 1e3), printable(text or _part(entry))))
    return rows
