"""Renames: unused baselines that are similar to a test without a baseline, and parameters that changed places.

A renamed test has no baseline under its new name, and its old baseline has no test. The user decides about the suggestion.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from dataclasses import replace
from difflib import SequenceMatcher

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity, worst_first
from perfguard.judge.baseline import Baseline, trait_differences
from perfguard.judge.compare import compare
from perfguard.judge.comparison import State
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict, compared
from perfguard.judge.work import COUNTED
from perfguard.measure.measurement import Kind, Measurement
from perfguard.measure.metrics import METRICS
from perfguard.workload import moves, workload_of


def lacks_baseline(verdict: Verdict) -> bool:
    """Whether no baseline is stored under the workload's name."""
    return verdict.compared_with is None and any(finding.code is Code.B101 for finding in verdict.findings)


def renames(verdicts: Iterable[Verdict], unused: Iterable[Baseline]) -> dict[str, str]:
    """Return old name → new name, for verdicts without a baseline and similar unused baselines.

    The most similar come first, and each baseline is used once.
    """
    stored = tuple(unused)
    alike = [
        (found, verdict.workload, baseline.workload)
        for verdict in verdicts
        if lacks_baseline(verdict)
        for baseline in stored
        if (found := _likeness(verdict, baseline)) is not None
    ]
    names: dict[str, str] = {}
    for _, now, before in sorted(alike, reverse=True):
        if before not in names and now not in names.values():
            names[before] = now
    return names


def with_rename(verdict: Verdict, unused: Iterable[Baseline], *, stored: Collection[str], policy: Policy) -> Verdict:
    """Return the verdict of a test without a baseline with a hint to a similar unused one, if any.

    If the test is worse than that baseline, it fails: a new name hides no regression. `stored` are the workloads of all
    baselines.
    """
    unused = tuple(unused)
    names = renames((verdict,), unused)
    if not names:
        return verdict
    ((before, _),) = names.items()
    ((old, new),) = moves(names, stored)
    hint = f"; was this {before}? {move_command(old, new)}"
    told = tuple(replace(f, message=f.message + hint) if f.code is Code.B101 else f for f in verdict.findings)
    known = next(one for one in unused if one.workload == before)
    others = tuple(f for f in told if f.code is not Code.B101)
    alone = replace(verdict, outcome=Outcome.PASSED, findings=others)
    judged = compared(alone, known.named(verdict.workload), policy=policy)
    if judged.outcome is not Outcome.FAILED:
        return replace(verdict, findings=told)
    notes = (replace(f, severity=Severity.NOTE) for f in told if f.code is Code.B101)
    # It has no baseline of its own name.
    return replace(judged, findings=worst_first([*judged.findings, *notes]), compared_with=None)


def with_changed_places(verdict: Verdict, others: Iterable[Baseline], *, policy: Policy) -> Verdict:
    """Return the verdict of a test with an unnamed parameter; INCONCLUSIVE if it does exactly what another number did.

    pytest numbers parameters without names, so that one more at the front gives each the baseline of its neighbour. Whether it
    is that, or the test does other work now, the numbers cannot tell. `others` are the baselines of the other numbers.
    """
    if verdict.outcome is Outcome.INVALID or (verdict.outcome is Outcome.PASSED and not _exact_differences(verdict)):
        return verdict
    was = next((one for one in others if _does_the_same(verdict, one, policy)), None)
    if was is None:
        return verdict
    now, before = (workload_of(name) for name in (verdict.workload, was.workload))
    finding = Finding(
        code=Code.B115,
        message=f"{now.parameters[1:-1]} is what {before.parameters[1:-1]} was: its operators, shapes and bytes are those of "
        f"{was.workload}. If the parameters only changed places, name them: ids=[...]",
    )
    kept = (f for f in verdict.findings if not f.code.is_of_comparison)
    return replace(
        verdict,
        outcome=Outcome.INCONCLUSIVE,
        findings=worst_first([*kept, finding]),
        comparisons=(),
        ledger=None,
        compared_with=None,
        refresh=None,
    )


def _exact_differences(verdict: Verdict) -> bool:
    return any(one.judged and one.state is not State.SAME and _is_exact(one.metric) for one in verdict.comparisons)


def _does_the_same(verdict: Verdict, baseline: Baseline, policy: Policy) -> bool:
    """Whether every exact number is that of a baseline, and there are calls of operators among them."""
    known = baseline.named(verdict.workload)
    if trait_differences((verdict.fingerprint, verdict.traits), (known.fingerprint, known.traits)):
        return False
    found = [
        one
        for one in compare(verdict.measurements, known, environment=verdict.environment, policy=policy)
        if _is_exact(one.metric)
    ]
    return any(one.metric in COUNTED for one in found) and all(one.reference == one.current for one in found)


def _is_exact(metric: str) -> bool:
    return metric in METRICS and METRICS[metric].kind is Kind.EXACT


def move_command(old: str, new: str) -> str:
    """Return the command that renames baselines."""
    return f"perfguard baseline move {shlex.quote(old)} {shlex.quote(new)}"


def _likeness(verdict: Verdict, baseline: Baseline) -> tuple[float, float] | None:
    """Return the similarity of operators, shapes, tests and files, then of the whole names; None if the two are not similar."""
    if trait_differences((verdict.fingerprint, verdict.traits), (baseline.fingerprint, baseline.traits)):
        return None
    operators = _overlap(_calls(verdict.measurements), _calls(baseline.measurements))
    # The names of the tests without the file and `test_`.
    mine, theirs = (one.workload.rpartition("::")[2].removeprefix("test_") for one in (verdict, baseline))
    name = SequenceMatcher(None, mine, theirs).ratio()
    is_in_one_file = verdict.workload.partition("::")[0] == baseline.workload.partition("::")[0]
    if operators < thresholds.RENAMED_OPERATORS and not (is_in_one_file and name >= thresholds.RENAMED_NAME):
        return None
    shapes = _overlap(_shapes(verdict.measurements), _shapes(baseline.measurements))
    return operators + shapes + name + is_in_one_file, SequenceMatcher(
        None, verdict.workload, baseline.workload
    ).ratio()


def _calls(measurements: Iterable[Measurement]) -> dict[str, float]:
    return {
        one.subject: one.value
        for one in measurements
        if one.metric == "operator_calls" and isinstance(one.value, (int, float))
    }


def _shapes(measurements: Iterable[Measurement]) -> dict[str, float]:
    """Return the calls of operators by their shapes."""
    return {
        f"{one.subject} {text}": calls
        for one in measurements
        if one.metric == "operator_shapes" and isinstance(one.value, dict)
        for text, calls in one.value.items()
    }


def _overlap(one: dict[str, float], other: dict[str, float]) -> float:
    """Return the common calls of two steps, as a share of all calls of either."""
    names = one.keys() | other.keys()
    either = sum(max(one.get(name, 0), other.get(name, 0)) for name in names)
    return sum(min(one.get(name, 0), other.get(name, 0)) for name in names) / either if either else 0.0
