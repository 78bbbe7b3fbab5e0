"""What happened to one workload, in words: the first thing a reader sees."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from operator import eq

from perfguard import thresholds
from perfguard.findings import OWN_FAMILY, Code, Finding, Severity
from perfguard.judge import (
    WORKLOAD_METRICS,
    Attribution,
    Cause,
    Comparison,
    Doubt,
    Outcome,
    Refresh,
    Share,
    State,
    Unattributed,
    Verdict,
    attribution_of,
    step_time_of,
    without_details,
)
from perfguard.judge.quantities import change_text, quantity, signed_ms
from perfguard.judge.trend import Trend
from perfguard.measure import METRICS
from perfguard.recording import Provenance
from perfguard.reports.ledger import silence_text
from perfguard.reports.names import cut, printable
from perfguard.reports.upgrades import with_upgrade
from perfguard.workload import workload_of

#: How many findings the first screen tells, and how many operators it names.
_FIRST = 3
#: How many changes of a baseline the page lists.
_CHANGES = 200
_WORDS = re.compile(r"\w+")
#: How much of a shape is written.
_SHAPES = 60

#: What a metric is called in a sentence; `{}` is its subject.
_NOUNS = {
    "step_cost": "The cost of a step",
    "step_ab": "A step beside the base",
    "step_time": "A step of the test's own process",
    "step_cpu_time": "The CPU time of a step",
    "run_wall_p90": "The slow steps (90th percentile)",
    "run_blocked_time": "The wait of a step (sleep, I/O, lock, loader)",
    "pause_between_steps": "The time between two steps (loader, evaluation, logging)",
    "host_memory_growth_bytes": "What a step keeps of the host's memory",
    "peak_memory_bytes": "Peak memory on {}",
    "memory_allocated_bytes": "What a step allocates on {}",
    "memory_allocations": "The number of allocations a step on {}",
    "memory_growth_bytes": "What a step leaves behind on {}",
    "operator_calls": "The calls of {} a step",
    "operator_time": "The time of {} a step",
    "steps": "The number of profiled steps",
    "profiler_overhead": "The profiler's overhead",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One of the worst findings: its code, and what it says."""

    code: str
    severity: str
    headline: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The first screen of one workload, in words. Empty texts are left out."""

    workload: str
    origin: str
    outcome: str
    headline: str
    #: The step time and its change, where the headline does not say them.
    step: str
    where: str
    since: str
    points: tuple[Point, ...]
    more: int
    advice: tuple[tuple[str, str], ...]
    source: str
    recording: str
    changes: tuple[str, ...]


def told(verdict: Verdict, provenance: Provenance) -> Told:
    """Say what happened, where in the model, since when, and what to do next."""
    found = without_details(verdict)
    errors = [finding for finding in found if finding.severity is not Severity.NOTE and not finding.more]
    # What the headline is about is first below it, too.
    worst = [one.label for one in _worst_numbers(verdict)]
    errors.sort(key=lambda finding: worst.index(finding.place) if finding.place in worst else len(worst))
    first = headline(verdict)
    shown = (errors or [finding for finding in found if not finding.more])[:_FIRST]
    return Told(
        workload=printable(verdict.workload),
        origin=printable(verdict.origin),
        outcome=verdict.outcome.value,
        headline=first,
        step=_step(verdict, first),
        where=where_words(verdict),
        since=_since(verdict, provenance),
        points=tuple(_point(one) for one in shown),
        more=sum(one.more or 1 for one in verdict.findings) - len(shown),
        advice=tuple(_advice(verdict)),
        source=printable(verdict.source),
        recording=printable(str(verdict.recording or "")),
        changes=tuple(printable(change) for change in verdict.changes[:_CHANGES]),
    )


def _step(verdict: Verdict, first: str) -> str:
    step = step_time_of(verdict)
    if step is None or step.times in first:
        return ""
    judged = "" if step.judged or step.change is None else " (shown, not judged)"
    return f"A step takes {step.text}{judged}."


def headline(verdict: Verdict) -> str:
    """Return one sentence that says what the outcome is about."""
    worst = next((one for one in verdict.findings if one.severity is Severity.ERROR), None)
    if verdict.passed:
        return _refreshed(verdict) or _green(verdict)
    if worst is None and verdict.coverage.compared:
        return "What it is about is not known to this perfguard; the outcome is that of the one that wrote it."
    if worst is None:
        return "Nothing was compared."
    if verdict.outcome is Outcome.INVALID and worst.code.family == OWN_FAMILY:
        return printable(f"A check of this project is not met, so nothing was compared: {worst.message}.")
    if verdict.outcome is Outcome.INVALID:
        return f"The recording is not whole, so nothing was compared: {worst.code.value}."
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return f"Nothing was judged: {worst.code.value}."
    if verdict.refresh is Refresh.REFUSED:
        return f"The baseline was not refreshed: {worst.code.value}."
    found = _worst_numbers(verdict)
    told = " ".join(sentence(one, verdict) for one in found) or printable(f"{worst.code.value}: {worst.message}")
    traded = trade(verdict)
    return with_upgrade(f"{told}{f' {traded}' if traded else _warned_of_time(verdict, found)}", verdict)


def trade(verdict: Verdict) -> str:
    """Return one sentence about a verdict that is better and worse at once in time or memory; else nothing."""
    failed = {one.place for one in verdict.findings if one.severity is Severity.ERROR}
    sides = {}
    for state in (State.BETTER, State.WORSE):
        found = [
            one for one in verdict.comparisons if one.judged and one.state is state and one.metric in WORKLOAD_METRICS
        ]
        # A time that is the machine's doing is no worse step.
        found = [one for one in found if state is State.BETTER or one.label in failed]
        sides[state] = [f"{_name_of(one)} {change_text(one.reference, one.current)}" for one in found]
    if verdict.outcome is not Outcome.FAILED or not all(sides.values()):
        return ""
    better, worse = (", ".join(sides[state][:_FIRST]) for state in (State.BETTER, State.WORSE))
    return printable(f"Better and worse at once: {better}; but {worse}.")


def _name_of(one: Comparison) -> str:
    """Return what a number of the whole step is called in one line of several."""
    return "step" if one.metric in ("step_cost", "step_ab") else one.label


#: What a reader asks first: how much slower, how much more memory.
_ASKED_FIRST = (
    *("step_cost", "step_ab", "run_blocked_time", "pause_between_steps", "step_time", "run_wall_p90"),
    *("peak_memory_bytes", "host_memory_growth_bytes"),
)


def _worst_numbers(verdict: Verdict) -> list[Comparison]:
    """Return the comparisons a headline is made of: the worst one, and one more of time or memory where those failed, too."""
    failed = {one.place: one for one in verdict.findings if one.severity is Severity.ERROR}
    found = [one for one in verdict.comparisons if one.label in failed]
    first = sorted((one for one in found if one.metric in _ASKED_FIRST), key=lambda one: _ASKED_FIRST.index(one.metric))
    kinds = {"memory" if "memory" in one.metric else "time": one for one in reversed(first)}
    told = [kinds[kind] for kind in ("time", "memory") if kind in kinds]
    worst = next((one for place in failed for one in found if one.label == place), None)
    return told or ([worst] if worst is not None else [])


def _warned_of_time(verdict: Verdict, told: Iterable[Comparison]) -> str:
    """Say of the step what was only warned of, where what failed is no time: whoever reads of memory asks for it next."""
    if any(one.metric in _ASKED_FIRST and "memory" not in one.metric for one in told):
        return ""
    warned = (one for name in _ASKED_FIRST if "memory" not in name for one in _warned_of(verdict) if one.place == name)
    return next((f" As a warning: {_warning(one, verdict)}" for one in warned), "")


def _warned_of(verdict: Verdict) -> list[Finding]:
    """Return what was slower as a warning; where the machine moved it is a note, and nobody is blamed."""
    return [one for one in without_details(verdict) if one.code is Code.R105 and one.severity is Severity.WARNING]


def _warning(finding: Finding, verdict: Verdict) -> str:
    """Say a warning by its number where that rose; else (a step that waits) in the words of who found it."""
    for one in verdict.comparisons:
        before, now = one.reference, one.current
        if (
            one.label == finding.place
            and isinstance(before, (int, float))
            and isinstance(now, (int, float))
            and now > before
        ):
            return sentence(one, verdict)
    return printable(finding.message) + "."


def sentence(one: Comparison, verdict: Verdict) -> str:
    """Say how a number changed: `A step became slower: 0.566 → 2.91 ms (+414.1 %).`"""
    noun = _noun(one)
    step = step_time_of(verdict)
    if step is not None and step.change is not None and one.metric == step.metric:
        pace = "slower" if step.change > 0 else "quicker"
        why = ": it waits" if one.metric == "run_blocked_time" else ""
        return f"A step became {pace}: {step.times} ({step.percentage}){why}."
    unit = METRICS[one.metric].unit if one.metric in METRICS else ""
    if isinstance(one.reference, (int, float)) and isinstance(one.current, (int, float)):
        if one.metric in ("step_cost", "step_ab"):
            # A ratio that nobody knows by its number.
            return f"{noun}: {change_text(one.reference, one.current)}."
        before, now = quantity(one.reference, unit), quantity(one.current, unit)
        return f"{noun}: {before} → {now} ({change_text(one.reference, one.current)})."
    if one.metric == "operator_calls" and (one.is_new or one.is_gone):
        return _new_or_gone(one)
    if one.is_new:
        value = f": {quantity(one.current, unit)}" if isinstance(one.current, (int, float)) else ""
        return f"{noun} is new{value}."
    if one.is_gone:
        return f"{noun} is gone."
    return f"{noun} changed."


def _new_or_gone(calls: Comparison) -> str:
    """Say of an operator that only one side has it, and how often a step called it."""
    count = calls.current if calls.is_new else calls.reference
    often = f"{quantity(count, '')} call{'' if count == 1 else 's'} a step" if isinstance(count, (int, float)) else ""
    if calls.is_new:
        return f"{printable(calls.subject)} is new{often and f': {often}'}."
    return f"{printable(calls.subject)} is gone{often and f'; it had {often}'}."


def _noun(one: Comparison) -> str:
    subject = printable(one.subject)
    return _NOUNS[one.metric].format(subject) if one.metric in _NOUNS else printable(one.label)


def _refreshed(verdict: Verdict) -> str:
    """Say what became of the baseline, where it was to be written."""
    if verdict.refresh in (None, Refresh.DUE):
        return ""
    count = len(verdict.changes)
    changes = f", with {count} change{'' if count == 1 else 's'}" if count else ""
    return f"The baseline was {verdict.refresh.value}{changes}."


def _green(verdict: Verdict) -> str:
    if not verdict.comparisons:
        return "The recording is whole; nothing was compared with it."
    if verdict.outcome is Outcome.CHANGED:
        found = next(one for one in verdict.findings if one.code is Code.R107)
        message = found.message[:1].upper() + found.message[1:]
        return printable(f"{message}. Nothing shows that the step got worse.") + _better(verdict)
    compared = [one.label for one in verdict.comparisons]
    warned = sorted(
        (one for one in _warned_of(verdict) if one.place in compared), key=lambda one: compared.index(one.place)
    )
    if warned:
        return f"Nothing failed, but this is a warning: {_warning(warned[0], verdict)}"
    if better := _better(verdict):
        return f"Nothing got worse.{better}"
    untimed = any(one.code in (Code.B103, Code.B106, Code.B108) for one in verdict.findings)
    time = " Time was shown, and not judged." if untimed else ""
    return f"Nothing got worse: {verdict.coverage.compared} numbers compared.{time}"


def _better(verdict: Verdict) -> str:
    """Say what got better: the whole workload before its parts."""
    found = [one for one in verdict.comparisons if one.judged and one.state is State.BETTER]
    found.sort(key=lambda one: _ASKED_FIRST.index(one.metric) if one.metric in _ASKED_FIRST else len(_ASKED_FIRST))
    if not found:
        return ""
    more = f" {len(found) - 1} more got better." if len(found) > 1 else ""
    return f" {sentence(found[0], verdict)}{more}"


def where_words(verdict: Verdict) -> str:
    """Name the operators that a failing step's time or added work is in, or say why none can be; empty where neither is.

    Calls are exact: an operator that runs more often is named where the recording cannot say which took the time.
    """
    if verdict.outcome is not Outcome.FAILED:
        return ""
    step, found = step_time_of(verdict), attribution_of(verdict)
    is_slower = step is not None and (step.change or 0) > 0
    if is_slower and isinstance(found, Attribution):
        return _where_the_time_went(verdict, found)
    failed = {finding.place for finding in verdict.findings if finding.severity is Severity.ERROR}
    # A rule of the user may fail what runs less often, too.
    calls = [
        one for one in verdict.comparisons if one.metric == "operator_calls" and one.label in failed and one.is_more
    ]
    changes = _by_weight(verdict, calls)
    names = [f"{printable(one.subject)} ({_calls(one)})" for one in changes[:_FIRST]]
    more = f" and {len(changes) - _FIRST} more" if len(changes) > _FIRST else ""
    if names:
        return f"The step does more work: {', '.join(names)}{more}."
    if is_slower and isinstance(found, Unattributed) and found.doubt in (Doubt.OTHER_CHANGE, Doubt.OUTWEIGHED):
        return silence_text(found)
    return ""


def _by_weight(verdict: Verdict, changes: Iterable[Comparison]) -> list[Comparison]:
    """Return operators by their share of the time, then by how much their calls changed; without those of negligible share."""
    shares: dict[str, float] = {}
    for one in verdict.comparisons:
        if one.metric == "operator_share":
            sides = [side for side in (one.reference, one.current) if isinstance(side, (int, float))]
            shares[one.subject] = max(sides, default=0.0)

    def size(one: Comparison) -> tuple[float, float]:
        before = one.reference if isinstance(one.reference, (int, float)) else 0
        now = one.current if isinstance(one.current, (int, float)) else 0
        return -shares.get(one.subject, 0.0), -abs(now - before)

    ordered = sorted(changes, key=size)
    least = thresholds.NEGLIGIBLE_PART * -size(ordered[0])[0] if ordered else 0.0
    return [one for one in ordered if shares.get(one.subject, 0.0) >= least]


def _calls(one: Comparison) -> str:
    if one.is_new:
        return "new"
    return "gone" if one.is_gone else f"{quantity(one.reference, '')} → {quantity(one.current, '')} calls a step"


def _where_the_time_went(verdict: Verdict, found: Attribution) -> str:
    assert verdict.ledger is not None
    first, *others = found.shares
    of_the_whole = ", more than the whole change, because other parts shrank"
    if first.change_ns <= verdict.ledger.change_ns:
        of_the_whole = f", {100 * first.change_ns / verdict.ledger.change_ns:.0f} % of the change in time"
    calls = _calls_of(verdict, first.subject) if first.cause in (Cause.CALLS, Cause.SHAPES) else ""
    why = _CAUSES[first.cause] + _shapes(verdict, first)
    if calls:
        why = calls if first.cause is Cause.CALLS else f"{why}; {calls}"
    then = ", ".join(f"{_share_name(one)} {signed_ms(one.change_ns)}" for one in others[: _FIRST - 1])
    words = f"The largest part is {_share_name(first)} ({why}): {signed_ms(first.change_ns)}{of_the_whole}"
    return f"{words}; then {then}." if then else f"{words}."


def _calls_of(verdict: Verdict, operator: str) -> str:
    """Return how often an operator runs, where that changed."""
    key = ("operator_calls", operator)
    found = next((one for one in verdict.comparisons if (one.metric, one.subject) == key), None)
    return _calls(found) if found is not None and found.reference != found.current else ""


def _share_name(share: Share) -> str:
    return printable(share.subject) or "communication"


def _shapes(verdict: Verdict, share: Share) -> str:
    """Return the shapes that an operator lost and has instead, the pair that is most alike."""
    found = next((c for c in verdict.comparisons if c.metric == "operator_shapes" and c.subject == share.subject), None)
    if found is None or not isinstance(found.reference, dict) or not isinstance(found.current, dict):
        return ""
    gone, new = found.reference.keys() - found.current.keys(), found.current.keys() - found.reference.keys()
    pairs = [(_alike(a, b), a, b) for a in sorted(gone)[:9] for b in sorted(new)[:9]]
    if not pairs:
        return ""
    _, before, now = max(pairs)
    return f": {cut(printable(before), _SHAPES)} → {cut(printable(now), _SHAPES)}"


def _alike(before: str, now: str) -> tuple[int, int]:
    """Return how alike two shapes are: how many of their words are equal, place by place, and how far they begin alike."""
    sides = _WORDS.findall(before), _WORDS.findall(now)
    return sum(map(eq, *sides)), sum(1 for _ in takewhile(lambda pair: eq(*pair), zip(before, now, strict=False)))


_CAUSES = {
    Cause.NEW: "a new operator",
    Cause.VANISHED: "an operator that vanished",
    Cause.RENAMED: "an operator under a new name",
    Cause.CALLS: "the number of calls changed",
    Cause.SHAPES: "its shapes changed",
    Cause.PER_CALL: "each call takes longer",
    Cause.COMMUNICATION: "communication that is not overlapped",
    Cause.IDLE: "idle gaps",
    Cause.OVERLAP: "operators beside each other",
    Cause.PROFILER: "the profiler's own time",
    Cause.RANK: "another rank",
    Cause.RESIDUAL: "the rest",
}


def baseline_commit(verdict: Verdict) -> str:
    """Return the baseline's commit as a shell takes it; empty where it is unknown, or was of a checkout with changes."""
    base = verdict.compared_with.commit if verdict.compared_with else None
    return shlex.quote(printable(base)[:12]) if base and "+" not in base else ""


def _since(verdict: Verdict, provenance: Provenance) -> str:
    """Say which two commits are compared."""
    base = verdict.compared_with
    now = f"now: commit {commit_words(provenance.commit)}" if provenance.commit else ""
    if provenance.branch and now:
        now += f", branch {printable(provenance.branch)}"
    if base is None:
        return now
    before = "baseline: " + (f"commit {commit_words(base.commit)}" if base.commit else "of an unknown commit")
    if base.reason:
        before += f", stored because “{printable(base.reason)}”"
    return " → ".join(part for part in (before, now) if part)


def commit_words(commit: str) -> str:
    """Return a commit as people write it, and whether files were changed beside it."""
    name, _, rest = printable(commit).partition("+")
    return name[:12] + (" with uncommitted changes" if rest else "")


def since_when(verdict: Verdict, trends: Iterable[Trend]) -> Iterable[str]:
    """Yield what a history says of the numbers that got worse: since which commit; of a green workload, what creeps."""
    from perfguard.reports.trend import trend_lines

    worse = {one.place for one in verdict.findings if one.severity is Severity.ERROR}
    told = [one for one in trends if one.series.label in worse or (not worse and (one.worse or one.creep is not None))]
    for one in sorted(told, key=lambda one: not one.series.label.startswith("step"))[:_FIRST]:
        lines = trend_lines(one)
        # Since which commit is what is asked; that it is worse stands above.
        yield from lines[-1:] if one.changes else lines[:1]


def _point(finding: Finding) -> Point:
    place = f"{finding.place}: " if finding.place and finding.code.family != "R" else ""
    return Point(
        code=finding.code.name,
        severity=finding.severity.value,
        headline=finding.code.value,
        message=printable(f"{place}{finding.message}"),
    )


def _advice(verdict: Verdict) -> Iterable[tuple[str, str]]:
    """Yield what to do next, each with its command."""
    recording = shlex.quote(printable(str(verdict.recording or "DIR")))
    test = shlex.quote(printable(workload_of(verdict.workload).test))
    is_test = "::" in verdict.workload and bool(verdict.source)
    if verdict.outcome is Outcome.INVALID:
        yield "See what is wrong with the recording", f"perfguard check {recording} --explain"
    if not verdict.passed and is_test:
        yield "Run it again", f"pytest --perfguard {test}"
    if verdict.outcome is Outcome.FAILED and is_test:
        if commit := baseline_commit(verdict):
            yield "Compare with the baseline's commit, side by side", f"perfguard ab --base {commit} -- {test}"
        yield "If it is intended, accept it", f"pytest --perfguard --perfguard-update {test} --perfguard-reason 'why'"
    if verdict.outcome is Outcome.INCONCLUSIVE and is_test:
        yield "Record a baseline", f"pytest --perfguard --perfguard-update {test}"
    if any(finding.code in (Code.B103, Code.B108) for finding in verdict.findings) and verdict.passed and is_test:
        yield "Measure times to judge by, on this machine", f"perfguard baseline refresh --runs 5 {test}"
    if any(finding.code is Code.R106 for finding in verdict.findings) and verdict.passed and is_test:
        yield "Store what got better", f"pytest --perfguard-ratchet {test}"
    if verdict.recording is not None:
        yield "Look at the timeline, where the recording is", f"perfguard view {recording}"
