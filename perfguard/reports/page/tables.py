"""Tables of one workload: its operators and metrics as columns for the script, the rest as plain rows for the frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from perfguard.findings import Finding, Severity, split_place
from perfguard.judge import Comparison, State, Unattributed, Verdict, attribution_of
from perfguard.judge.quantities import change_text, quantity
from perfguard.measure import METRICS
from perfguard.measure.measurement import Value, rank_of
from perfguard.reports.ledger import ledger_rows, silence_text
from perfguard.reports.names import printable
from perfguard.reports.step_time import step_details

#: How many findings of a workload are written out; all of them are in the JSON report.
MOST_FINDINGS = 500
#: How much of a finding stands beside an operator; all of it is among the findings.
_LONGEST = 160
#: The worst first.
_STATES = ("worse", "warned", "changed", "better", "not-comparable", "same", "shown", "")
#: What was looked at, in this order.
_READ = ("ranks", "cycles", "files", "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInFile:
    """The findings of one file; each has code, severity, symbol, headline, where, line, message, excerpt and fix, as texts."""

    file: str
    rank: int | None
    findings: tuple[dict[str, str], ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What is listed of a workload."""

    #: Rows for the script; see `_operators` and `_metrics`.
    operators: list[list[Any]]
    metrics: list[list[Any]]
    files: tuple[FoundInFile, ...]
    left_out: int
    #: (name, baseline, now, whether they differ)
    environment: tuple[tuple[str, str, str, bool], ...]
    measured: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    #: The numbers behind the step time, a line each; and every part of the ledger, with why it names no cause, if so.
    step: tuple[str, ...]
    ledger: tuple[tuple[str, str, str], ...]
    silence: str


def tables_of(verdict: Verdict) -> Tables:
    """Return the tables of a verdict."""
    files, left_out = _files(verdict.findings)
    found = attribution_of(verdict)
    return Tables(
        operators=_operators(verdict),
        metrics=_metrics(verdict),
        files=files,
        left_out=left_out,
        environment=tuple(_environment(verdict)),
        measured=tuple(_measured(verdict)),
        notes=tuple(printable(note) for note in verdict.notes),
        step=tuple(step_details(verdict)),
        ledger=tuple(ledger_rows(verdict.ledger)) if verdict.ledger is not None else (),
        silence=silence_text(found) if isinstance(found, Unattributed) else "",
    )


# -- operators and metrics -------------------------------------------------------------------------------------------


def _pairs(verdict: Verdict) -> Iterable[Comparison]:
    """Yield every number with its reference; what was compared with nothing has none. Single ranks are in the heat maps."""
    if verdict.comparisons:
        found: Iterable[Comparison] = verdict.comparisons
    else:
        found = (
            Comparison(
                metric=one.metric,
                subject=one.subject,
                state=State.SAME,
                judged=False,
                reference=None,
                current=one.value,
            )
            for one in verdict.measurements
        )
    # Single ranks are in the heat maps; what was found of one is here as well.
    return (one for one in found if rank_of(one.subject) is None or (one.judged and one.state is not State.SAME))


def _operators(verdict: Verdict) -> list[list[Any]]:
    """Return `[name, verdict, calls before, calls now, us before, us now, allowed, judged, why]` for every operator.

    Times and calls are those of a step; `allowed` is the limit of the time where it is judged. The slowest come first.
    """
    compared = bool(verdict.comparisons)
    # A report that was read knows findings by their place alone.
    told = {finding.place: finding for finding in verdict.findings if finding.code.family == "R"}
    by_name: dict[str, dict[str, Comparison]] = {}
    for one in _pairs(verdict):
        if one.metric in ("operator_calls", "operator_time", "operator_shapes"):
            by_name.setdefault(one.subject.removeprefix("ranks:"), {})[one.metric] = one
    rows = []
    for name, metrics in by_name.items():
        calls, time = metrics.get("operator_calls"), metrics.get("operator_time")
        judged = [one for one in metrics.values() if one.judged]
        state = min((_state(one, told) for one in judged), key=_STATES.index, default="") if compared else ""
        why = "; ".join(_why(told[one.label], name) for one in metrics.values() if one.label in told)
        rows.append(
            [
                printable(name),
                state if judged or not compared else "shown",
                *(_plain(one) for one in ((calls.reference, calls.current) if calls else (None, None))),
                *(_plain(one) for one in ((time.reference, time.current) if time else (None, None))),
                _plain(time.allowed) if time is not None and time.judged else None,
                why,
            ]
        )
    return sorted(rows, key=lambda row: (-(row[5] or row[4] or 0), row[0]))


def _metrics(verdict: Verdict) -> list[list[Any]]:
    """Return `[label, verdict, before, now, change in %, allowed, unit, before told, now told, allowed told]` of all others."""
    rows = []
    told = {finding.place: finding for finding in verdict.findings if finding.code.family == "R"}
    for one in _pairs(verdict):
        if one.metric in ("operator_calls", "operator_time", "operator_shapes", "operator_share", "operator_position"):
            continue
        unit = METRICS[one.metric].unit if one.metric in METRICS else ""
        state = _state(one, told)
        before, now = _plain(one.reference), _plain(one.current)
        rows.append(
            [
                printable(one.label),
                state if verdict.comparisons else "",
                before,
                now,
                _plain(100 * (now - before) / abs(before)) if before and now is not None else None,
                _plain(one.allowed),
                _told(one.reference, unit),
                _told(one.current, unit),
                change_text(one.reference, one.current),
                "" if one.allowed is None else quantity(one.allowed, unit),
            ]
        )
    return sorted(rows, key=lambda row: (_rank_of_state(row[1]), row[0]))


def _state(one: Comparison, told: Mapping[str, Finding]) -> str:
    """Return what became of a number, in a word; of one that is worse within a wide limit, that it was warned of."""
    if not one.judged:
        return "not-comparable" if one.state is State.NOT_COMPARABLE else "shown"
    if one.state is State.SAME and one.label in told and told[one.label].severity is Severity.WARNING:
        return "warned"
    return one.state.value


def _rank_of_state(state: str) -> int:
    return _STATES.index(state) if state in _STATES else len(_STATES)


def _plain(value: Value | None) -> float | None:
    """Return a number as JSON has it; lists, censuses and what is no number are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value


def _told(value: Value | None, unit: str) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return f"{len(value)} {'names' if isinstance(value, list) else 'kinds'}"
    return quantity(value, unit)


def _why(finding: Finding, operator: str) -> str:
    """Return what was found of an operator without its name, which stands beside it."""
    text = printable(finding.message).replace(f"[{printable(operator)}]", "", 1)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


# -- findings --------------------------------------------------------------------------------------------------------


def _files(findings: tuple[Finding, ...]) -> tuple[tuple[FoundInFile, ...], int]:
    """Group what was found in the recording by file, files in the order of their worst finding; R is in the tables."""
    groups: dict[tuple[int | None, str], list[Finding]] = {}
    shown = 0
    for one in findings:
        shown += 1
        if shown <= MOST_FINDINGS:
            file = "" if one.code.family in "RB" else split_place(one.place)[0]
            groups.setdefault((one.rank if file else None, file), []).append(one)
    found = tuple(
        FoundInFile(
            file=printable(file) or "the verdict",
            rank=rank,
            findings=tuple(_in_file(group)),
            count=sum(one.more or 1 for one in group),
        )
        for (rank, file), group in groups.items()
    )
    return found, max(0, shown - MOST_FINDINGS)


def _in_file(group: Iterable[Finding]) -> Iterable[dict[str, str]]:
    """Yield the findings of a file; what to do about a code stands beside its first."""
    seen: set[str] = set()
    for one in group:
        yield _finding(one, is_first=one.code.name not in seen)
        seen.add(one.code.name)


def _finding(one: Finding, *, is_first: bool) -> dict[str, str]:
    from perfguard.findings import advice

    _, line, inside = split_place(one.place) if one.code.family not in "RB" else ("", None, "")
    where = " ".join(part for part in (f"line {line}" if line else "", printable(inside)) if part)
    message = f"and {one.more} more like it" if one.more else printable(one.message)
    return {
        "code": one.code.name,
        "severity": one.severity.value,
        "symbol": {Severity.ERROR: "✖", Severity.WARNING: "▲", Severity.NOTE: "·"}[one.severity],
        "headline": one.code.value,
        "where": where,
        "message": message,
        "line": str(line or ""),
        "excerpt": printable(one.excerpt),
        "fix": advice(one.code).fix if is_first else "",
    }


# -- environment and how it was measured -----------------------------------------------------------------------------


def _environment(verdict: Verdict) -> Iterable[tuple[str, str, str, bool]]:
    """Yield what the two sides ran in, name by name."""
    base = verdict.compared_with.environment if verdict.compared_with else None
    before, now = (_flat(one.as_dict() if one else None) for one in (base, verdict.environment))
    for name in sorted(before.keys() | now.keys()):
        told = before.get(name, ""), now.get(name, "")
        yield name, *told, bool(base) and told[0] != told[1]


def _flat(plain: dict[str, Any] | None) -> dict[str, str]:
    if plain is None:
        return {}
    packages = plain.pop("packages")
    return {printable(str(key)): printable(str(value)) for key, value in {**plain, **packages}.items()}


def _measured(verdict: Verdict) -> Iterable[tuple[str, str]]:
    """Yield how it was measured, in words."""
    found = verdict.fingerprint
    if found is not None:
        yield "backend", f"{printable(found.backend)} on {printable(found.device)}, {printable(found.mode)} mode"
        ranks, threads = found.world_size, found.threads
        yield (
            "size",
            f"{ranks} rank{'' if ranks == 1 else 's'}, {threads} thread{'' if threads == 1 else 's'} of the framework",
        )
        if (window := found.window) is not None:
            yield (
                "window",
                f"{window.skip_first} steps to settle, {window.wait} wait, {window.warmup} warm-up, {window.active} active"
                + (f", {window.repeat} times" if window.repeat > 1 else ""),
            )
        else:
            yield "window", "the whole run, or that of the script's own profiler"
    if verdict.layouts:
        read = ", ".join(f"{verdict.read[name]} {name}" for name in _READ if name in verdict.read)
        yield "recording", f"layout {', '.join(verdict.layouts)}: {read}"
    if verdict.timings:
        steps = sum(len(timing.wall_ns) for timing in verdict.timings)
        clock = "the clock" if verdict.timings[0].clock == "wall" else "CPU time of all threads"
        yield "time", f"{len(verdict.timings)} fresh processes, {steps} steps without the profiler, by {clock}"
        pressures = [timing.cpu_pressure for timing in verdict.timings if timing.cpu_pressure is not None]
        if pressures:
            yield "the machine", f"somebody waited for a CPU in {100 * max(pressures):.0f} % of the time, at most"
        shares = [timing.others_share for timing in verdict.timings if timing.others_share is not None]
        if shares:
            yield "other processes", f"used {100 * min(shares):.0f} % of the machine's CPU time, at least"
        for note in sorted({note for timing in verdict.timings for note in timing.notes}):
            yield "time", printable(note)
    if verdict.lost_runs:
        yield "lost", "; ".join(printable(f"process {one.number} {one.reason}") for one in verdict.lost_runs)
    if (base := verdict.compared_with) is not None:
        commit = printable(base.commit or "unknown")
        yield "baseline", f"{base.runs} process{'' if base.runs == 1 else 'es'}, of commit {commit}"
    for rule in verdict.rules:
        limit = rule.tolerance
        yield "tolerance", printable(f"{rule.pattern}: {'off' if limit is None else _limit(limit)}")
    if verdict.ignore:
        yield "ignored", ", ".join(verdict.ignore)


def _limit(limit: Any) -> str:
    if limit.relative == math.inf:
        return "only warns"
    return f"{100 * limit.relative:g} %" + (f" or {limit.absolute:g}" if limit.absolute else "")
