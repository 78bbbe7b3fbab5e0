"""Compare measurements with a baseline: each pair becomes a `Comparison`, with a finding if something is wrong.

*Worse* fails. *Better* is reported. *Changed* (other operators or shapes, without evidence of worse) is reported, and fails
only if the policy says so. `work` decides whether changed operators are added work.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from perfguard import thresholds
from perfguard.errors import listed
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.baseline import Baseline
from perfguard.judge.comparison import Comparison, State, comparison_of
from perfguard.judge.kernel_sets import joined
from perfguard.judge.quantities import (
    change_text,
    comparison_text,
    differences,
    limit_text,
    readable,
    show,
    with_unit,
)
from perfguard.judge.step_time import FRESH_TIME, relative_change, step_text
from perfguard.judge.tolerance import Policy, Tolerance, default_tolerance, shown_tolerance
from perfguard.judge.waits import added_waits, where_it_waits
from perfguard.judge.weights import metric_weight, one_sided_weight, share_weight, workload_weight
from perfguard.judge.work import CENSUS, COUNTED, Work, work_of
from perfguard.measure.measurement import (
    ALL_RANKS,
    Better,
    Kind,
    Measurement,
    Metric,
    Value,
    number,
    split_rank,
)
from perfguard.measure.metrics import METRICS
from perfguard.recording import Environment
from perfguard.screen import cut

#: Most names of a kind in one line, and the longest.
_NAMED = 3
_LONGEST = 80

Key = tuple[str, str]


def compare(
    measurements: Iterable[Measurement],
    baseline: Baseline,
    *,
    environment: Environment | None,
    policy: Policy,
) -> tuple[Comparison, ...]:
    """Compare measurements with those of a baseline.

    Timed metrics are not comparable on another machine, or if `policy.judge_time` is False; exact ones always are.
    """
    current = {m.key: m for m in joined(measurements, policy.kernels)}
    reference = {m.key: m for m in joined(baseline.measurements, policy.kernels)}
    is_time_comparable = policy.judge_time and (
        environment is None or baseline.environment is None or environment.machine == baseline.environment.machine
    )
    zeros = _zeros(current, reference), _zeros(reference, current)
    current, reference = current | zeros[0], reference | zeros[1]
    sums, sums_before = _sums(current.values()), _sums(reference.values())
    metrics, metrics_before = ({metric for metric, _ in side} for side in (current, reference))
    fresh = current.get((FRESH_TIME, ""))
    found = []
    for key in sorted(current.keys() | reference.keys()):
        metric = policy.metric(key[0])
        now, before = current.get(key), reference.get(key)
        shown = Comparison(
            metric=key[0],
            subject=key[1],
            state=State.NOT_COMPARABLE,
            judged=False,
            reference=before.value if before else None,
            current=now.value if now else None,
            # The samples of operators would be most of every report.
            reference_samples=before.samples if before and not key[0].startswith("operator_") else (),
        )
        if metric is None or (metric.kind is Kind.TIMED and not is_time_comparable):
            found.append(shown)
            continue
        runs = (len(one.samples) or 1 if one is not None else 0 for one in (before, now))
        pair = _Pair(shown=shown, metric=metric, runs=tuple(runs), tolerance=policy.tolerance(metric, key[1]))
        if now is None and pair.is_of_judged_runs:
            found.append(_unmeasured(pair, by_chance=_is_short_by_chance(metric, current, reference)))
        elif now is None:
            found.append(_gone(pair, is_still_measured=metric.name in metrics))
        elif before is None:
            of_rank = key[0], split_rank(key[1])[0]
            is_more = sums.get(of_rank, 0) > sums_before.get(of_rank, 0)
            found.append(_new(pair, is_metric_known=metric.name in metrics_before, is_more=is_more))
        elif shown.numbers is not None:
            rule = policy.rule(*key)
            one = _numbers(pair, fresh, is_ruled=rule is not None and rule.tolerance is not None)
            found.append(replace(one, allowed=_limit(pair)))
        else:
            found.append(_structures(pair))
    worse = worse_operators(current.values(), reference.values(), policy=policy)
    found = [_with_added_work(one, worse) for one in found]
    found = [_as_change(one, fails=policy.changed_fails) if one.state is State.CHANGED else one for one in found]
    found = [_with_step_time(one, found) for one in found]
    found = [_with_place_of_waits(one, found) for one in found]
    return tuple(_weighted(one, reference, worse) for one in _without_repetition(found))


def _zeros(side: Mapping[Key, Measurement], other: Mapping[Key, Measurement]) -> dict[Key, Measurement]:
    """Return what a side has none of, and is known to have none of, where the other one has some."""
    measured = {metric for metric, _ in side}
    found = {}
    for key in other.keys() - side.keys():
        metric = METRICS.get(key[0])
        if metric is not None and metric.is_zero(key[1], measured=measured, of_subjects=side):
            found[key] = Measurement(metric=key[0], subject=key[1], value=0)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """A comparison to judge. `runs` are the processes of the baseline and of now; `tolerance` is None if it is only shown."""

    shown: Comparison
    metric: Metric
    runs: tuple[int, ...]
    tolerance: Tolerance | None

    @property
    def limits(self) -> Tolerance:
        return self.tolerance or shown_tolerance(self.metric)

    @property
    def numbers(self) -> tuple[float, float]:
        assert self.shown.numbers is not None
        return self.shown.numbers

    @property
    def is_of_judged_runs(self) -> bool:
        """Whether a longer time of controlled processes would fail."""
        return self.metric.by_run and self.tolerance is not None and self.tolerance.relative < math.inf

    def result(
        self, state: State, code: Code | None = None, message: str = "", weight: float = 0.0, *, warns: bool = False
    ) -> Comparison:
        """Return the comparison; with a code and a judged metric, it has a finding."""
        # A side without controlled processes is not a regression.
        is_judged = self.tolerance is not None and (all(self.runs) or not self.metric.by_run)
        finding = None
        if code is not None and is_judged:
            severity = Severity.WARNING if warns else Severity.ERROR
            finding = Finding(code=code, place=self.shown.label, message=message, severity=severity, weight=weight)
        return replace(self.shown, state=state, judged=is_judged, finding=finding)


def _sums(measurements: Iterable[Measurement]) -> dict[Key, float]:
    """Return the sum of each metric over its subjects, by metric and rank."""
    found = defaultdict(list)
    for one in measurements:
        if (value := number(one.value)) is not None:
            found[one.metric, split_rank(one.subject)[0]].append(value)
    return {key: math.fsum(values) for key, values in found.items()}


# -- one pair --------------------------------------------------------------------------------------------------------


def _gone(pair: _Pair, *, is_still_measured: bool) -> Comparison:
    """A missing subject of an exact metric is a change; a missing time, or a whole missing metric, fails."""
    assert pair.shown.reference is not None
    is_change = pair.metric.kind is Kind.EXACT and is_still_measured
    message = f"{pair.shown.label} was {with_unit(pair.shown.reference, pair.metric)}, and is not measured any more"
    state = State.CHANGED if is_change else State.WORSE
    return pair.result(state, Code.R103, message, one_sided_weight(pair.metric))


def _unmeasured(pair: _Pair, *, by_chance: bool) -> Comparison:
    """Return a number of controlled processes that this run does not have: nobody can say that it is not worse.

    It is an error: a run without these processes, or a test whose steps no other process can run, would pass with any time.
    """
    assert pair.shown.reference is not None
    finding = Finding(
        code=Code.B108,
        place=pair.shown.label,
        message=f"was {with_unit(pair.shown.reference, pair.metric)}, and this run did not measure it",
        severity=Severity.WARNING if by_chance else Severity.ERROR,
    )
    return replace(pair.shown, finding=finding)


def _is_short_by_chance(
    metric: Metric, current: Mapping[Key, Measurement], reference: Mapping[Key, Measurement]
) -> bool:
    """Whether a window was too short for the host's memory, although the test times as many steps as before.

    Where it requests fewer than that needs, the speed of the machine decides how many there are.
    """
    steps = [len(side[key].samples) if (key := ("step_time", "")) in side else 0 for side in (current, reference)]
    is_timed = ("step_cost", "") in current
    return metric.name == "host_memory_growth_bytes" and is_timed and steps[0] >= steps[1]


def _new(pair: _Pair, *, is_metric_known: bool, is_more: bool) -> Comparison:
    """A new subject is worse if less is better and the sum over all subjects grew; else it is a change.

    A graph with another name is the same number of compilations. A metric that the baseline lacks altogether is new in
    perfguard, not in the model.
    """
    assert pair.shown.current is not None
    metric = pair.metric
    state = State.CHANGED if metric.only_changes or (metric.kind is Kind.EXACT and not is_more) else State.WORSE
    message = f"{pair.shown.label} is {with_unit(pair.shown.current, metric)}, and the baseline has none"
    weight = one_sided_weight(metric)
    if not is_metric_known:
        return pair.result(State.NOT_COMPARABLE, Code.R104, message, weight, warns=True)
    return pair.result(state, Code.R104, message, weight)


def _numbers(pair: _Pair, fresh: Measurement | None, *, is_ruled: bool) -> Comparison:
    metric, limits = pair.metric, pair.limits
    reference, current = pair.numbers
    # A stated share of the bytes is no noise.
    exact = limits in (Tolerance(), default_tolerance(metric) if metric.kind is Kind.EXACT else Tolerance())
    weight = metric_weight(metric, _relative(reference, current), exact=exact)
    text = f"{pair.shown.label} {comparison_text(reference, current, metric.unit)}"
    if metric.name == "step_cost" and fresh is not None and (time_us := number(fresh.value)) is not None:
        # Readers know a step by its milliseconds; the change of its cost is judged.
        text = step_text(time_us, relative_change(reference, current))
    if limits.is_worse(current, reference, metric.better):
        if metric.by_run:
            return _worse_in_runs(pair, text if metric.name == "step_cost" else _readable_text(pair))
        # A metric without a good direction is judged alone only if a rule of the user names it.
        if metric.only_changes and not is_ruled:
            return pair.result(State.CHANGED, Code.R102 if exact else Code.R101, text, weight)
        message = f"{text} ({_allowed(pair)})"
        return pair.result(State.WORSE, Code.R102 if exact else Code.R101, message, weight)
    if limits.is_warning(current, reference, metric.better):
        warned = f"warned beyond +{100 * (limits.warn_relative or 0):.1f} %"
        warned += "" if limits.relative == math.inf else f", {_allowed(pair)}"
        return pair.result(State.SAME, Code.R105, f"{text} ({warned})", weight, warns=True)
    if limits.is_better(current, reference, metric.better):
        return pair.result(State.BETTER, Code.R106, f"{text}: better than the baseline", weight, warns=True)
    return pair.result(State.SAME)


def _worse_in_runs(pair: _Pair, text: str) -> Comparison:
    """Return a result for a step that was worse in every process: an error if both sides had enough of them, else a warning."""
    reference, current = pair.numbers
    stored, runs = pair.runs
    causes = f" ({pair.metric.causes})" if pair.metric.causes else ""
    few = ""
    if stored < thresholds.BASELINE_RUNS:
        few = (
            f"; this only warns, as the baseline has {stored} of {thresholds.BASELINE_RUNS} runs: "
            f"perfguard baseline refresh --runs {thresholds.BASELINE_RUNS}"
        )
    elif runs < thresholds.FEWEST_RUNS:
        few = f"; this only warns, as {runs} of {thresholds.MOST_RUNS} runs left a time"
    processes = f"all of {runs} fresh processes" if runs > 1 else "1 fresh process"
    weight = metric_weight(pair.metric, _relative(max(reference, pair.limits.absolute), current), exact=False)
    message = f"{text} ({_allowed(pair)}), worse in {processes}{causes}{few}"
    return pair.result(State.WORSE, Code.R105 if few else Code.R101, message, weight, warns=bool(few))


def _structures(pair: _Pair) -> Comparison:
    before, now = pair.shown.reference, pair.shown.current
    assert before is not None
    assert now is not None
    if before == now:
        return pair.result(State.SAME)
    message = f"{pair.shown.label} changed: {differences(before, now)}"
    return pair.result(State.CHANGED, Code.R102, message, metric_weight(pair.metric, 0.0, exact=True))


def _limit(pair: _Pair) -> float | None:
    """Return the last value that does not fail; None if none fails."""
    reference, _ = pair.numbers
    if pair.tolerance is None or pair.tolerance.relative == math.inf:
        return None
    allowance = pair.tolerance.allowance(reference)
    if not allowance:
        return reference
    return reference + (-allowance if pair.metric.better is Better.HIGHER else allowance)


def _relative(reference: float, current: float) -> float:
    return abs(current - reference) / abs(reference) if reference else float(current != reference)


def _readable_text(pair: _Pair) -> str:
    """Return `run_blocked_time 0.05 → 20.1 ms, +20 ms`."""
    reference, current = pair.numbers
    factor, unit = readable(pair.metric.unit, current)
    change = change_text(reference, current)
    if abs(reference) * pair.limits.relative < pair.limits.absolute:
        # A percentage of almost zero is meaningless.
        change = f"+{show((current - reference) / factor)} {unit}"
    return f"{pair.shown.label} {show(reference / factor)} → {show(current / factor)} {unit}, {change}"


def _allowed(pair: _Pair) -> str:
    return limit_text(pair.limits, pair.numbers[0], better=pair.metric.better, unit=pair.metric.unit)


def _as_change(one: Comparison, *, fails: bool) -> Comparison:
    """Return a change without a finding, or with one that says why it fails."""
    if one.finding is None or not fails:
        return replace(one, finding=None)
    return replace(
        one, finding=replace(one.finding, message=f'{one.finding.message} (fails because of changed = "fail")')
    )


# -- all comparisons together ----------------------------------------------------------------------------------------


def _with_step_time(one: Comparison, comparisons: Iterable[Comparison]) -> Comparison:
    """Begin the finding on a longer wait with the whole time of the step: its CPU time and its wait."""
    if one.metric != "run_blocked_time" or one.finding is None or one.state is not State.WORSE:
        return one
    cpu = comparison_of(comparisons, "run_cpu_time")
    if one.numbers is None or cpu is None or cpu.numbers is None:
        return one
    before_us, now_us = (wait + busy for wait, busy in zip(one.numbers, cpu.numbers, strict=True))
    step = step_text(now_us, relative_change(before_us, now_us))
    return replace(one, finding=replace(one.finding, message=f"{step}; it waits longer: {one.finding.message}"))


def _with_place_of_waits(one: Comparison, comparisons: Iterable[Comparison]) -> Comparison:
    """End the finding on more waits or launches with what waits, and in which function, or what is launched."""
    if one.finding is None or not one.is_more:
        return one
    where = where_it_waits(one, comparisons)
    return replace(one, finding=replace(one.finding, message=f"{one.finding.message}: {where}")) if where else one


def worse_operators(
    current: Iterable[Measurement], reference: Iterable[Measurement], *, policy: Policy
) -> dict[str, tuple[str, float]]:
    """Return the operators with added work: subject → growth of the step's work as text, and the operator's part of it.

    Operators that a rule of the user names are judged by that rule.
    """
    found: dict[str, tuple[str, float]] = {}
    for rank, work in _weighed(current, reference, policy).items():
        if work.is_worse:
            found |= {rank + operator: (work.text, work.added[operator]) for operator in work.carriers}
    return found


def lost_work(current: Iterable[Measurement], reference: Iterable[Measurement], *, policy: Policy) -> Finding | None:
    """Return a finding if most of the baseline's work is gone without a replacement: the test is broken."""
    current, reference = tuple(current), tuple(reference)
    calls = {(one.metric, one.subject): one.value for one in current}
    before = {(one.metric, one.subject): one.value for one in reference}
    for rank, work in _weighed(current, reference, policy).items():
        if work.is_mostly_gone:
            where = f" on {rank.removesuffix(':')}" if rank else ""
            unit = "operator time" if work.is_timed else "operators"
            names = [
                _less_text(name, *(side.get(("operator_calls", rank + name)) for side in (before, calls)))
                for name in work.losers
            ]
            message = (
                f"the step{where} lost {100 * work.lost:.0f} % of the baseline's {unit} ({listed(names, _NAMED)}), and what "
                f"was added is {100 * work.added_share:.0f} % of what is left; does it still do its work?"
            )
            return Finding(code=Code.R108, message=message, weight=workload_weight(work.lost))
    return None


def _less_text(operator: str, before: Value | None, now: Value | None) -> str:
    """Return `aten::addmm 20 → 1`, or `aten::addmm in other shapes`."""
    return f"{operator} in other shapes" if before == now else f"{operator} {show(before or 0)} → {show(now or 0)}"


def changes_text(comparisons: Iterable[Comparison]) -> str:
    """Return the changes in one line: more waits, new operators, gone operators, other calls and shapes, other metrics.

    Empty without any.
    """
    comparisons = tuple(comparisons)
    found = [one for one in comparisons if one.judged and one.state is State.CHANGED]
    waits = added_waits(comparisons)
    said = {"waiting_operators", waits[0].metric} if waits is not None else set()
    parts = [
        waits[1] if waits is not None and waits[0].state is State.CHANGED else "",
        _counted_changes("kernels", "kernel_calls", found),
        _counted_changes("operators", "operator_calls", found, _of_shapes(found)),
    ]
    others = listed([one.label for one in found if one.metric not in CENSUS | {"kernel_calls"} | said], _NAMED)
    return "; ".join(part for part in (*parts, others and f"changed: {others}") if part)


def _counted_changes(
    what: str, metric: str, changes: Iterable[Comparison], others: Mapping[str, list[str]] | None = None
) -> str:
    """Return `kernels changed: 1 new (a), 1 gone (b)`, by a metric of calls and `others` by kind; empty without any."""
    calls = [one for one in changes if one.metric == metric and split_rank(one.subject)[0] != ALL_RANKS]
    kinds = {
        "new": [_short(one) for one in calls if one.is_new],
        "gone": [_short(one) for one in calls if one.is_gone],
        "called more or less often": [
            f"{_short(one)} {show(one.reference)} → {show(one.current)}"
            for one in calls
            if one.reference is not None and one.current is not None
        ],
        **(others or {}),
    }
    parts = [f"{len(names)} {kind} ({listed(names, _NAMED)})" for kind, names in kinds.items() if names]
    return f"{what} changed: {', '.join(parts)}" if parts else ""


def _short(one: Comparison) -> str:
    """Return a subject in a line: names of kernels are types of C++."""
    return cut(one.subject, _LONGEST)


def _of_shapes(changes: Iterable[Comparison]) -> dict[str, list[str]]:
    """Return what changed in the inputs of operators that are called as often."""
    changes = tuple(changes)
    counted = {one.subject for one in changes if one.metric == "operator_calls"}
    return _by_shapes(one for one in changes if one.metric == "operator_shapes" and one.subject not in counted)


#: The type before the sizes of a tensor: `c10::BFloat16[8, 4]`.
_TYPE = re.compile(r"(?:c10::)?([A-Za-z_][A-Za-z0-9_: ]*)\[")


def _untyped(calls_by_shapes: Mapping[str, float]) -> dict[str, float]:
    """Return calls by shapes without types."""
    found: dict[str, float] = defaultdict(float)
    for text, calls in calls_by_shapes.items():
        found[_TYPE.sub("[", text)] += calls
    return found


def _by_shapes(shapes: Iterable[Comparison]) -> dict[str, list[str]]:
    """Return what changed in the inputs of operators with as many calls, and their names: the types alone, or the shapes."""
    found: dict[str, list[str]] = defaultdict(list)
    for one in shapes:
        sides = [value if isinstance(value, dict) else {} for value in (one.reference, one.current)]
        untyped = [_untyped(side) for side in sides]
        types = [{kind for text in side for kind in _TYPE.findall(text)} for side in sides]
        if untyped[0] != untyped[1] or not all(types):
            found["called with other shapes"].append(one.subject)
        elif len(gone := sorted(types[0] - types[1])) == len(new := sorted(types[1] - types[0])) == 1:
            found[f"moved from {gone[0]} to {new[0]}"].append(one.subject)
        else:
            found["called with other types"].append(one.subject)
    return found


def _weighed(current: Iterable[Measurement], reference: Iterable[Measurement], policy: Policy) -> dict[str, Work]:
    """Return the work of every rank, without operators that a rule of the user names."""
    now, before = (
        [one for one in side if one.metric not in COUNTED or policy.rule(*one.key) is None]
        for side in (current, reference)
    )
    return work_of(now, before)


def _with_added_work(one: Comparison, worse: Mapping[str, tuple[str, float]]) -> Comparison:
    """Make the calls of an operator with added work worse, on its rank and in the sum of all ranks."""
    rank, operator = split_rank(one.subject)
    text, _ = worse.get(one.subject, ("", 0.0))
    if rank == ALL_RANKS:
        text = next((text for subject, (text, _) in worse.items() if split_rank(subject)[1] == operator), "")
    if one.metric not in COUNTED or one.state is not State.CHANGED or not text or not one.is_more:
        return one
    finding = one.finding
    if finding is not None:
        finding = replace(finding, message=f"{finding.message} (added work: {text})")
    return replace(one, state=State.WORSE, finding=finding)


def _weighted(
    one: Comparison, reference: Mapping[Key, Measurement], worse: Mapping[str, tuple[str, float]]
) -> Comparison:
    """Order operators by their share of the baseline's time, or by the work that they add."""
    if one.finding is None or not one.metric.startswith("operator_"):
        return one
    stored = reference.get(("operator_share", one.subject))
    share = number(stored.value) if stored is not None else None
    weight = one.finding.weight + share_weight(min(1.0, max(share or 0.0, worse.get(one.subject, ("", 0.0))[1])))
    return replace(one, finding=replace(one.finding, weight=weight))


def _without_repetition(comparisons: list[Comparison]) -> list[Comparison]:
    """Report an operator once: a new or gone operator has new or gone shapes, and changes the set."""
    calls = [one for one in comparisons if one.metric == "operator_calls" and one.finding is not None]
    reported = {one.subject for one in calls}
    one_sided = {one.subject for one in calls if one.is_new or one.is_gone}

    def is_repeated(one: Comparison) -> bool:
        if one.metric == "operator_shapes":
            return one.subject in one_sided and (one.is_new or one.is_gone)
        if one.metric != "operator_set" or not isinstance(one.reference, list) or not isinstance(one.current, list):
            return False
        prefix = one.subject.partition(":")[0] + ":" if one.subject.startswith("rank") else ""
        return {prefix + name for name in set(one.reference) ^ set(one.current)} <= reported

    return [replace(one, finding=None) if is_repeated(one) else one for one in comparisons]
