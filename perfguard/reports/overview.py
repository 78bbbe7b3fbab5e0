"""Overviews: the result of one workload as text, the first thing that a reader sees."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from perfguard.errors import counted, listed
from perfguard.findings import OWN_FAMILY, Code, Finding, Severity
from perfguard.judge.attribution import attribution_of
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.quantities import change_text, quantity, sides_text
from perfguard.judge.refresh import GIVE_REASON, Refresh
from perfguard.judge.renames import lacks_baseline
from perfguard.judge.shown_time import step_time_of, without_details
from perfguard.judge.trend import Trend
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.judge.waits import added_waits, where_it_waits
from perfguard.measure.measurement import number
from perfguard.measure.metrics import METRICS, unit_of
from perfguard.recording import Provenance
from perfguard.reports.cause import cause_by_shapes, cause_of_the_step, changed_shapes, step_clause
from perfguard.reports.where import failed_places, more_work, where_text
from perfguard.screen import printable
from perfguard.workload import workload_of

#: Most findings on the first screen, and most operators in a sentence.
_FIRST = 3
#: Metrics of a step that are ratios, which mean nothing to a reader.
_STEP = ("step_cost", "step_ab")
#: Packages that a step runs on; other differences of the environment are in the details.
_RUNS_ON = ("torch", "torch_npu", "mindspore", "numpy", "python")

#: The most interesting metrics first: time, then memory.
_FIRST_METRICS = sorted((name for name, one in METRICS.items() if one.leads), key=lambda name: METRICS[name].leads)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first screen of one workload. Empty texts are left out."""

    headline: str
    #: The step time and its change, if they are not in the headline.
    step: str
    where: str
    #: The shapes behind it: operator, shapes of the baseline only, and new ones.
    shapes: tuple[tuple[str, list[str], list[str]], ...]
    since: str
    #: The worst findings with their messages, and the number of the others.
    points: tuple[tuple[Finding, str], ...]
    more: int
    advice: tuple[tuple[str, str], ...]


def overview(verdict: Verdict, provenance: Provenance) -> Overview:
    """Return the result, the place in the model, the commits, and what to do next."""
    found = without_details(verdict)
    errors = [finding for finding in found if finding.severity is not Severity.NOTE and not finding.more]
    # The findings of the headline come first below it.
    worst = [one.label for one in _worst_numbers(verdict)]
    errors.sort(key=lambda finding: worst.index(finding.place) if finding.place in worst else len(worst))
    first = headline(verdict)
    shown = (errors or [finding for finding in found if not finding.more])[:_FIRST]
    return Overview(
        headline=first,
        step=_step(verdict, first),
        where=where_text(verdict, shapes=False, after_work=True),
        shapes=tuple(changed_shapes(verdict, _of_the_cause(verdict))),
        since=_since(verdict, provenance),
        points=tuple((one, _message(one)) for one in shown),
        more=sum(one.more or 1 for one in verdict.findings) - len(shown),
        advice=tuple(_advice(verdict)),
    )


def _step(verdict: Verdict, first: str) -> str:
    step = step_time_of(verdict)
    if step is None or step.times in first:
        return ""
    judged = "" if step.judged or step.change is None else " (shown, not judged)"
    return f"A step takes {step.text}{judged}."


def headline(verdict: Verdict) -> str:
    """Return one sentence about the reason of the outcome."""
    worst = next((one for one in verdict.findings if one.severity is Severity.ERROR), None)
    if verdict.passed:
        return _refreshed(verdict) or _green(verdict)
    if worst is None and verdict.coverage.compared:
        return "Written by a newer perfguard; its outcome is shown unchanged."
    if worst is None:
        return "Nothing was compared."
    if verdict.outcome is Outcome.INVALID and worst.code.family == OWN_FAMILY:
        return printable(f"A check of this project failed, so nothing was compared: {worst.message}.")
    if verdict.outcome is Outcome.INVALID:
        return f"The recording is incomplete or wrong, so nothing was compared: {printable(worst.headline)}."
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return f"Nothing was judged: {printable(worst.headline)}."
    if verdict.refresh is Refresh.REFUSED:
        return f"The baseline was not refreshed: {printable(worst.headline)}."
    found = _worst_numbers(verdict)
    text = _with_cause(verdict, found) or printable(f"{worst.headline}: {worst.message}")
    both = trade_off(verdict)
    return with_upgrade(f"{text}{f' {both}' if both else _time_warning(verdict, found)}", verdict)


def _with_cause(verdict: Verdict, found: Iterable[Comparison]) -> str:
    """Return the sentences about the worst numbers, after what changed in the model if that is known."""
    step = step_time_of(verdict)
    sentences = [(step is not None and one.metric == step.metric, sentence(one, verdict)) for one in found]
    others = [text for is_step, text in sentences if not is_step]
    if len(others) < len(sentences) and (cause := cause_of_the_step(verdict)):
        return " ".join([f"{cause}: {step_clause(verdict)}.", *others])
    texts = [text for _, text in sentences]
    if work := more_work(verdict):
        return " ".join([f"The step does more work: {work}.", *texts])
    cause = cause_by_shapes(verdict)
    return " ".join([f"{cause}.", *texts] if cause and texts else texts)


def with_upgrade(text: str, verdict: Verdict) -> str:
    """Return the headline of a FAILED verdict with the upgrade: `...; torch 2.12.0 → 2.13.0 since the baseline`."""
    if verdict.outcome is not Outcome.FAILED:
        return text
    # `Environment.differences` writes `torch: 2.12.0 → 2.13.0`, with `-` for an unknown version.
    changes = dict(change.partition(": ")[::2] for change in verdict.environment_changes)
    upgrades = [f"{name} {changes[name]}" for name in _RUNS_ON if "-" not in changes.get(name, "-").split()]
    if not upgrades:
        return text
    stop = "." if text.endswith(".") else ""
    return f"{text.removesuffix('.')}; {printable(', '.join(upgrades))} since the baseline{stop}"


def trade_off(verdict: Verdict) -> str:
    """Return one sentence about a verdict that is better and worse at once in time or memory; else empty."""
    failed = failed_places(verdict)
    better, worse = [], []
    for one in verdict.comparisons:
        if one.judged and one.metric in METRICS and METRICS[one.metric].of_workload:
            name = "step" if one.metric in _STEP else one.label
            text = f"{name} {change_text(one.reference, one.current)}"
            if one.state is State.BETTER:
                better.append(text)
            # A time that the machine caused is not a worse step.
            elif one.state is State.WORSE and one.label in failed:
                worse.append(text)
    if verdict.outcome is not Outcome.FAILED or not (better and worse):
        return ""
    return printable(f"Better and worse at once: {', '.join(better[:_FIRST])}; but {', '.join(worse[:_FIRST])}.")


def _worst_numbers(verdict: Verdict) -> list[Comparison]:
    """Return the comparisons for a headline: one of time and one of memory that failed, else the worst one."""
    failed = failed_places(verdict)
    found = [one for one in verdict.comparisons if one.label in failed]
    first = sorted((one for one in found if one.metric in _FIRST_METRICS), key=_interest)
    kinds = {"memory" if "memory" in one.metric else "time": one for one in reversed(first)}
    chosen = [kinds[kind] for kind in ("time", "memory") if kind in kinds]
    return chosen or sorted(found, key=lambda one: failed.index(one.label))[:1]


def _interest(one: Comparison) -> int:
    return _FIRST_METRICS.index(one.metric) if one.metric in _FIRST_METRICS else len(_FIRST_METRICS)


def _time_warning(verdict: Verdict, shown: Iterable[Comparison]) -> str:
    """Return the warning about the step's time, if the shown comparisons are not about time."""
    if any(one.metric in _FIRST_METRICS and "memory" not in one.metric for one in shown):
        return ""
    warned = (one for name in _FIRST_METRICS if "memory" not in name for one in _warnings(verdict) if one.place == name)
    return next((f" As a warning: {_warning(one, verdict)}" for one in warned), "")


def _warnings(verdict: Verdict) -> list[Finding]:
    """Return the warnings about slower times; if the machine changed they are notes."""
    return [one for one in without_details(verdict) if one.code is Code.R105 and one.severity is Severity.WARNING]


def _warning(finding: Finding, verdict: Verdict) -> str:
    """Return the sentence about the number if it rose; else (a step that waits) the message."""
    for one in verdict.comparisons:
        if one.label == finding.place and one.numbers is not None and one.is_more:
            return sentence(one, verdict)
    return printable(finding.message) + "."


def sentence(one: Comparison, verdict: Verdict) -> str:
    """Return the change of a number: `A step became slower: 0.566 → 2.91 ms (+414.1 %).`"""
    noun = METRICS[one.metric].noun if one.metric in METRICS else ""
    noun = printable(noun.replace("{}", one.subject) or one.label)
    step = step_time_of(verdict)
    if step is not None and step.change is not None and one.metric == step.metric:
        pace = "slower" if step.change > 0 else "faster"
        why = ": it waits" if one.metric == "run_blocked_time" else ""
        return f"A step became {pace}: {step.times} ({step.percentage}){why}."
    unit = unit_of(one.metric)
    if (waits := added_waits([one, *verdict.comparisons])) is not None and waits[0] is one:
        return printable(f"{_sentence_of(waits[1])}.")
    if one.numbers is not None:
        if one.metric in _STEP:
            return f"{noun}: {change_text(one.reference, one.current)}."
        base = unit.partition("/")[0]
        # The noun says what is counted, and that it is of a step.
        shown = unit if noun == printable(one.label) else base if base == "us" else ""
        sides = " → ".join(quantity(side, shown, beside=one.numbers) for side in one.numbers)
        if unit.startswith("bytes"):
            sides = sides_text(*one.numbers, unit)
        cause = printable(where_it_waits(one, verdict.comparisons)) if one.is_more else ""
        return f"{noun}: {sides} ({change_text(one.reference, one.current)}){cause and f': {cause}'}."
    if one.metric == "operator_calls" and (one.is_new or one.is_gone):
        return _new_or_gone(one)
    if one.is_new:
        value = f": {quantity(one.current, unit)}" if isinstance(one.current, (int, float)) else ""
        return f"{noun} is new{value}."
    if one.is_gone:
        return f"{noun} is gone."
    return f"{noun} changed."


def _sentence_of(text: str) -> str:
    return text[:1].upper() + text[1:]


def _new_or_gone(calls: Comparison) -> str:
    """Return the sentence about an operator that only one side has, with its calls a step."""
    count = calls.current if calls.is_new else calls.reference
    often = f"{quantity(count, '')} call{'' if count == 1 else 's'} a step" if isinstance(count, (int, float)) else ""
    if calls.is_new:
        return f"{printable(calls.subject)} is new{often and f': {often}'}."
    return f"{printable(calls.subject)} is gone{often and f'; it had {often}'}."


def _refreshed(verdict: Verdict) -> str:
    """Return the result of a refresh; empty without one."""
    if verdict.refresh in (None, Refresh.DUE):
        return ""
    changes = f", with {counted(len(verdict.changes), 'change')}" if verdict.changes else ""
    return f"The baseline was {verdict.refresh.value}{changes}."


def _green(verdict: Verdict) -> str:
    if not verdict.comparisons:
        return "The recording is complete and valid; nothing was compared."
    if verdict.outcome is Outcome.CHANGED:
        found = next(one for one in verdict.findings if one.code is Code.R107)
        waits = added_waits(verdict.comparisons)
        message = _sentence_of(waits[1]) if waits else cause_by_shapes(verdict) or _sentence_of(found.message)
        return printable(f"{message}. Nothing shows that the step got worse.") + _better(verdict)
    compared = [one.label for one in verdict.comparisons]
    warned = [one for one in _warnings(verdict) if one.place in compared]
    if warned:
        first = min(warned, key=lambda one: compared.index(one.place))
        return f"Nothing failed, but this is a warning: {_warning(first, verdict)}"
    if better := _better(verdict):
        return f"Nothing got worse.{better}"
    is_untimed = any(one.code in (Code.B103, Code.B106, Code.B108) for one in verdict.findings)
    time = " Time was shown, and not judged." if is_untimed else ""
    return f"Nothing got worse: {counted(verdict.coverage.compared, 'number')} compared.{time}"


def _better(verdict: Verdict) -> str:
    """Return the sentence about an improvement: of the whole workload before its parts."""
    found = _improved(verdict)
    if not found:
        return ""
    first, *others = found
    step = step_time_of(verdict)
    more = f" {listed([_short_name(one) for one in others], _FIRST)} got better, too." if others else ""
    cause = cause_of_the_step(verdict) if step is not None and first.metric == step.metric else ""
    return f" {cause}: {step_clause(verdict)}.{more}" if cause else f" {sentence(first, verdict)}{more}"


def better_names(verdict: Verdict) -> list[str]:
    """Return the names of what got better, the whole workload before its parts."""
    return [_short_name(one) for one in _improved(verdict)]


def _improved(verdict: Verdict) -> list[Comparison]:
    found = [one for one in verdict.comparisons if one.judged and one.state is State.BETTER]
    return sorted(found, key=_interest)


def _short_name(one: Comparison) -> str:
    return "step" if one.metric in _STEP else printable(one.label)


def _of_the_cause(verdict: Verdict) -> list[str]:
    """Return the operators whose shapes explain the verdict: those of its change of time, else all with other shapes."""
    if verdict.outcome is not Outcome.FAILED:
        return []
    found = attribution_of(verdict)
    if isinstance(found, tuple):
        return [one.subject for one in found[:_FIRST]]
    changed = [one for one in verdict.comparisons if one.metric == "operator_shapes" and one.reference != one.current]
    shares = {one.subject: number(one.current) or 0.0 for one in verdict.comparisons if one.metric == "operator_share"}
    return sorted((one.subject for one in changed), key=lambda name: -shares.get(name, 0.0))[:_FIRST]


def baseline_commit(verdict: Verdict) -> str:
    """Return the baseline's commit for a shell; empty if it is unknown, or if the checkout had changes."""
    base = verdict.compared_with.commit if verdict.compared_with else None
    return shlex.quote(printable(base)[:12]) if base and "+" not in base else ""


def _since(verdict: Verdict, provenance: Provenance) -> str:
    """Return the two compared commits."""
    base = verdict.compared_with
    now = f"now: commit {commit_name(provenance.commit)}" if provenance.commit else ""
    if provenance.branch and now:
        now += f", branch {printable(provenance.branch)}"
    if base is None:
        return now
    before = "baseline: " + (f"commit {commit_name(base.commit)}" if base.commit else "of an unknown commit")
    if base.reason:
        before += f", stored because “{printable(base.reason)}”"
    return " → ".join(part for part in (before, now) if part)


def commit_name(commit: str) -> str:
    """Return a short commit, and whether files were changed."""
    name, _, rest = printable(commit).partition("+")
    return name[:12] + (" with uncommitted changes" if rest else "")


def history_lines(verdict: Verdict, trends: Iterable[Trend]) -> Iterable[str]:
    """Yield the commits since which numbers are worse; of a green workload, creeping numbers."""
    from perfguard.reports.trend import trend_lines

    worse = {one.place for one in verdict.findings if one.severity is Severity.ERROR}
    shown = [one for one in trends if one.series.label in worse or (not worse and (one.worse or one.creep is not None))]
    for one in sorted(shown, key=lambda one: not one.series.label.startswith("step"))[:_FIRST]:
        lines = trend_lines(one)
        # The commit matters here; the headline already says that it is worse.
        yield from lines[-1:] if one.changes else lines[:1]


def _message(one: Finding) -> str:
    return printable(f"{one.place}: {one.message}" if one.place and one.code.family != "R" else one.message)


def _advice(verdict: Verdict) -> Iterable[tuple[str, str]]:
    """Yield what to do next, with its command."""
    recording = shlex.quote(printable(str(verdict.recording or "DIR")))
    test = shlex.quote(printable(workload_of(verdict.workload).test))
    is_test = "::" in verdict.workload and bool(verdict.source)
    if verdict.outcome is Outcome.INVALID and (verdict.recording is not None or not is_test):
        yield "See what is wrong with the recording", f"perfguard check {recording} --explain"
    if is_test:
        yield from _advice_on_a_test(verdict, test)
    if verdict.recording is not None:
        yield "Look at the timeline, where the recording is", f"perfguard view {recording}"
    elif is_test and not verdict.passed:
        what = "what is wrong with it" if verdict.outcome is Outcome.INVALID else "its timeline"
        look = "check" if verdict.outcome is Outcome.INVALID else "view"
        yield "Record it again where it stays", f"pytest --perfguard --perfguard-recordings=recordings {test}"
        yield f"Then look at {what}", f"perfguard {look} recordings/*"


def accept_command(test: str) -> str:
    """Return the command that stores what a failing test measured."""
    return f"pytest --perfguard --perfguard-update {test} {GIVE_REASON}"


def _advice_on_a_test(verdict: Verdict, test: str) -> Iterable[tuple[str, str]]:
    codes = {finding.code for finding in verdict.findings}
    if not verdict.passed:
        yield "Run it again", f"pytest --perfguard {test}"
    if verdict.outcome is Outcome.FAILED:
        if commit := baseline_commit(verdict):
            yield "Compare with the baseline's commit, side by side", f"perfguard ab --base {commit} -- {test}"
        first = "move the baseline as B101 says, then " if lacks_baseline(verdict) else ""
        yield f"If it is intended, {first}accept it", accept_command(test)
    if verdict.outcome is Outcome.INCONCLUSIVE:
        record = "If the test is new, record" if lacks_baseline(verdict) else "Record"
        yield f"{record} a baseline", f"pytest --perfguard --perfguard-update {test}"
    if verdict.passed and codes & {Code.B103, Code.B108}:
        yield "Measure times to judge by, on this machine", f"perfguard baseline refresh --runs 5 {test}"
    if verdict.passed and Code.R106 in codes:
        yield "Store what got better", f"pytest --perfguard-ratchet {test}"
