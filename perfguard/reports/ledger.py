"""The ledger in words: its lines for a terminal, the names of its parts for a page."""

from __future__ import annotations

from perfguard.judge import Attribution, Cause, Doubt, Entry, Ledger, Unattributed, Verdict, attribution_of
from perfguard.judge.quantities import show, signed_ms, signed_us
from perfguard.reports.names import cut, printable, shortened

#: How many lines of a ledger a message shows, and which part of the whole change is too small for one of its own.
LEDGER_LINES = 8
_SMALL = 100
#: How much of what tells a part is written.
_NOTE = 60


def ledger_lines(ledger: Ledger, *, most: int | None = None) -> list[str]:
    """Return the ledger: the whole, then its parts, the largest first; what is printed adds up as it stands.

    With `most` there are at most so many parts: small ones, and those beyond, are one line. Rounding is in that line, or in the
    residual, which is always the last. The times of the whole are of this ledger alone, so they are only in the whole of it.
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
        told = current - base - sum(tenths for tenths, _ in rows) - _tenths(residual.change_ns)
        rows.append((told, _others(others, own)))
        rows.sort(key=lambda row: -abs(row[0]))
    rows.append((current - base - sum(tenths for tenths, _ in rows), "residual"))
    what = _WHOLE.get(ledger.metric, f"step ({ledger.metric})")
    rank = "" if ledger.rank is None else f" of rank {ledger.rank}, the slowest"
    width = max(len(_signed(tenths)) for tenths, _ in rows)
    times = "" if most is not None else f"{_us(base)} → {_us(current)} us, "
    return [
        f"{what}{rank} {times}{_signed(current - base)} us:",
        *(f"  {_signed(tenths):>{width}} us  {printable(text)}" for tenths, text in rows),
    ]


def asked_ledger_lines(verdict: Verdict) -> list[str]:
    """Return the whole ledger for a user who asks for it, after why it names no cause; or why there is none."""
    if verdict.ledger is None:
        return ["no ledger: it takes a comparison, and the times of operators on both sides"]
    found = attribution_of(verdict)
    return [*([silence_text(found)] if isinstance(found, Unattributed) else []), *ledger_lines(verdict.ledger)]


def told_ledger_lines(verdict: Verdict) -> list[str]:
    """Return the largest parts of the ledger where they name a cause, else nothing: a part of noise is noise."""
    if verdict.ledger is None or not isinstance(attribution_of(verdict), Attribution):
        return []
    return ledger_lines(verdict.ledger, most=LEDGER_LINES)


def silence_text(silence: Unattributed) -> str:
    """Say in one sentence why no operator is named for the time."""
    unknown = "Which operator took the time is not known:"
    step = signed_ms(silence.step_ns)
    if silence.doubt is Doubt.NOISE:
        return f"{unknown} the step changed by {step}, which is within the noise."
    if silence.doubt is Doubt.MACHINE:
        return f"{unknown} the machine was busy or changed its speed, and the step changed by {step}."
    part = signed_ms(silence.part_ns)
    if silence.doubt is Doubt.OTHER_CHANGE:
        return f"{unknown} the profiled step changed by {part}, the timed one by {step}."
    if silence.part is Cause.IDLE and silence.part_ns * silence.step_ns > 0:
        return f"No operator explains the time: between operators it changed by {part}, in the whole step by {step}."
    name = "the time that no operator explains" if silence.part is None else _OF_NO_OPERATOR[silence.part]
    return f"{unknown} {name} changed by {part}, the step by {step}."


_OF_NO_OPERATOR = {
    Cause.IDLE: "the time in which nothing ran",
    Cause.OVERLAP: "the time in which operators ran side by side",
    Cause.PROFILER: "the profiler's own time",
    Cause.RANK: "the time between the ranks",
    Cause.RESIDUAL: "the time that nothing explains",
}
_WHOLE = {
    "run_wall_time": "step by the clock",
    "step_time": "step",
    "profiled_step_time": "profiled step",
    "operator_time": "all that was profiled",
}
_OF_THE_STEP = {
    Cause.COMMUNICATION: "communication not overlapped",
    Cause.IDLE: "idle gaps",
    Cause.OVERLAP: "operators beside each other",
    Cause.PROFILER: "the profiler's own time, which is not in the step",
    Cause.RANK: "another rank was the slowest before",
}


def _part(entry: Entry) -> str:
    name = shortened(entry.subject, 70)
    if entry.cause in _OF_THE_STEP:
        sign = -1 if entry.cause in (Cause.OVERLAP, Cause.PROFILER) else 1
        before, now = (_us(_tenths(sign * ns)) for ns in (entry.base_ns, entry.current_ns))
        return _OF_THE_STEP[entry.cause] + ("" if entry.cause is Cause.RANK else f" ({before} → {now} us)")
    if entry.cause is Cause.NEW:
        return f"{name}: new{_each(entry.current_calls, entry.current_ns)}"
    if entry.cause is Cause.VANISHED:
        return f"{name}: vanished{_each(entry.base_calls, entry.base_ns)}"
    longer = entry.change_ns > 0
    if entry.cause is Cause.CALLS and entry.base_calls and entry.current_calls:
        counts = f"{show(entry.base_calls)} → {show(entry.current_calls)}"
        more = entry.current_calls > entry.base_calls
        return f"{name}: {'more' if more else 'fewer'} calls ({counts}, {_a_call(entry.base_ns, entry.base_calls)} us each)"
    price = _price(entry)
    if entry.cause is Cause.RENAMED:
        return f"{shortened(entry.renamed_from, 70)} → {name}: renamed ({entry.note}; {price})"
    if entry.cause is Cause.SHAPES:
        return f"{name}: changed shapes ({price}; {cut(entry.note, _NOTE)})"
    return f"{name}: {'slower' if longer else 'faster'}{' per call' if entry.current_calls else ''} ({price})"


def _price(entry: Entry) -> str:
    """Return `4 calls, 77.1 → 154.6 us`, each; without the calls the times of all of them."""
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


def _others(entries: list[Entry], told: list[Entry]) -> str:
    """Name what one line stands for: how many operators, and which parts that are of none."""
    names = {entry.subject for entry in entries if entry.cause not in _OF_THE_STEP}
    more = names - {entry.subject for entry in told}
    count = f"{len(more)} other operator{'' if len(more) == 1 else 's'}" if more else "the rest of these operators"
    return ", ".join(
        [*([count] if names else []), *(_OF_THE_STEP[entry.cause] for entry in entries if entry.cause in _OF_THE_STEP)]
    )


def _tenths(ns: int) -> int:
    """Round to tenths of a us, half away from zero: a part and the same part back are alike."""
    return (abs(ns) + 50) // 100 * (1 if ns >= 0 else -1)


def _us(tenths: int) -> str:
    return f"{'−' if tenths < 0 else ''}{abs(tenths) // 10}.{abs(tenths) % 10}"


def _signed(tenths: int) -> str:
    return _us(tenths) if tenths < 0 else f"+{_us(tenths)}"


_NAMES = {
    Cause.COMMUNICATION: "communication not overlapped",
    Cause.IDLE: "idle gaps (nothing ran)",
    Cause.OVERLAP: "operators side by side (correction)",
    Cause.PROFILER: "the profiler's time (correction)",
    Cause.RANK: "another rank was the slowest",
    Cause.RESIDUAL: "not explained (residual)",
}


def entry_name(entry: Entry) -> str:
    """Return the name of a part: its operator, or what it is of the step."""
    return _NAMES.get(entry.cause) or entry.subject


def entry_text(entry: Entry) -> str:
    """Return a part in words."""
    return "what no operator and no gap explains" if entry.cause is Cause.RESIDUAL else _part(entry)


def ledger_rows(ledger: Ledger) -> list[tuple[str, str, str]]:
    """Return every part as (name, change, why), the largest first, for a reader who asks for all of it."""
    return [
        (printable(entry_name(entry)), signed_us(entry.change_ns / 1e3), printable(entry_text(entry)))
        for entry in sorted(ledger.entries, key=lambda entry: -abs(entry.change_ns))
    ]
