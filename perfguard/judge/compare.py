"""Compare measurements with a baseline: every pair becomes a `Comparison`, and a finding where something is wrong.

Three words: *worse* fails; *better* is reported; *changed* (other operators or shapes, and no evidence of worse) is
reported, and fails only where the policy says so. What the operators that changed come to is weighed in `work`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.baseline import Baseline
from perfguard.judge.step_time import FRESH_TIME, relative_change, step_text
from perfguard.judge.tolerance import Policy, Tolerance
from perfguard.judge.work import CENSUS, COUNTED, work_of
from perfguard.measure.measurement import ALL_RANKS, Better, Kind, Measurement, Metric, Value, label, split_rank
from perfguard.measure.metrics import METRICS
from perfguard.recording import Environment

#: Weights put the step's time first, then what else the whole workload lost before what its parts lost, and changed operators
#: before other numbers of parts.
_WEIGHT_STEP = 15_000.0
_WEIGHT_WHOLE = 10_000.0
_WEIGHT_OPERATORS = 1000.0
_WEIGHT_EXACT = 100.0
#: A part that is a million times worse still comes after the whole.
_LARGEST_RATIO_OF_A_PART = 99.0
_LARGEST_RATIO_OF_THE_WHOLE = 4999.0

#: How many names a line gives of a kind before it counts the rest.
_NAMED = 3

#: Metrics of a whole workload: its steps, its time, its memory.
OF_THE_WHOLE = frozenset(
    {
        *("steps", "step_ab", "step_cost", "step_time", "step_cpu_time", "profiler_overhead"),
        *("run_wall_p90", "run_blocked_time", "pause_between_steps", "host_memory_growth_bytes"),
        *("peak_memory_bytes", "memory_allocations", "memory_allocated_bytes", "memory_growth_bytes"),
        "device_calls",
    }
)


class State(Enum):
    """What became of one measurement."""

    SAME = "same"
    WORSE = "worse"
    BETTER = "better"
    #: It differs, and neither side is better by it.
    CHANGED = "changed"
    NOT_COMPARABLE = "not-comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One measurement against its reference. `judged` is False for what is only shown (ranked operators, other machine)."""

    metric: str
    subject: str
    state: State
    judged: bool
    reference: Value | None
    current: Value | None
    #: The farthest value that would not have failed; None where nothing fails by it, and where it is no number.
    allowed: float | None = None
    #: The samples of the reference, of metrics of the whole workload.
    reference_samples: tuple[float, ...] = ()
    finding: Finding | None = None

    @property
    def label(self) -> str:
        """How it is written: `operator_time[MatMul]`."""
        return label(self.metric, self.subject)

    @property
    def is_new(self) -> bool:
        """Whether the baseline has none of it."""
        return self.reference is None

    @property
    def is_gone(self) -> bool:
        """Whether only the baseline has it."""
        return self.current is None

    @property
    def is_more(self) -> bool:
        """Whether there is more of it than in the baseline."""
        before, now = self.reference or 0, self.current or 0
        return isinstance(before, (int, float)) and isinstance(now, (int, float)) and now > before


def compare(
    measurements: Iterable[Measurement],
    baseline: Baseline,
    *,
    environment: Environment | None,
    policy: Policy,
    step: State | None = None,
) -> tuple[Comparison, ...]:
    """Compare every measurement of now with every one of the baseline.

    Timed metrics are not comparable on another machine, nor when `policy.judge_time` is False; exact ones always are.
    `step` is what the step's time was judged to be where something else than `step_cost` judged it.
    """
    current = {m.key: m for m in measurements}
    reference = {m.key: m for m in baseline.measurements}
    same_machine = (
        environment is None or baseline.environment is None or environment.machine == baseline.environment.machine
    )
    known_metrics = {metric for metric, _ in reference}
    totals, totals_before = _totals(current.values()), _totals(reference.values())
    still_measured = {metric for metric, _ in current}
    found = []
    for key in sorted(current.keys() | reference.keys()):
        metric = METRICS.get(key[0])
        now, before = current.get(key), reference.get(key)
        if metric is None or (metric.kind is Kind.TIMED and not (same_machine and policy.judge_time)):
            found.append(_comparison(key, State.NOT_COMPARABLE, False, before, now))
            continue
        tolerance = policy.tolerance(metric, key[1])
        if now is None or before is None:
            # Where nobody ran controlled processes on one of the sides, that is no finding of a number.
            judged = tolerance is not None and not metric.by_run
            if before is None:
                of_all = key[0], split_rank(key[1])[0]
                is_more = totals.get(of_all, 0) > totals_before.get(of_all, 0)
                found.append(_new(metric, key, now, judged, metric.name in known_metrics, is_more=is_more))
            else:
                found.append(_gone(metric, key, before, judged, metric.name in still_measured))
        elif isinstance(now.value, (int, float)) and isinstance(before.value, (int, float)):
            rule = policy.rule(*key)
            is_ruled = rule is not None and rule.tolerance is not None
            time = current.get((FRESH_TIME, ""))
            one = _numbers(metric, key, before, now, tolerance, time, is_ruled=is_ruled)
            found.append(replace(one, allowed=_limit(tolerance, before.value, metric)))
        else:
            found.append(_structures(metric, key, before, now, tolerance is not None))
    worse = worse_operators(current.values(), reference.values(), policy=policy, step=step or _judged_step(found))
    found = [_of_added_work(one, worse) for one in found]
    if not policy.changed_fails:
        found = [replace(one, finding=None) if one.state is State.CHANGED else one for one in found]
    found = [_with_step_time(one, found) for one in found]
    return tuple(_weighed(one, current, reference) for one in _without_repetition(found))


def _with_step_time(one: Comparison, comparisons: Iterable[Comparison]) -> Comparison:
    """Let the finding on a step that stands still begin with the step's one time: what it costs and what it waits."""
    if one.metric != "run_blocked_time" or one.finding is None or one.state is not State.WORSE:
        return one
    cpu = next((other for other in comparisons if other.metric == "run_cpu_time"), None)
    times = (one.reference, one.current, cpu.reference, cpu.current) if cpu is not None else ()
    numbers = [time for time in times if isinstance(time, (int, float))]
    if len(numbers) != 4:
        return one
    waited_us, waits_us, before_us, now_us = numbers
    step = step_text(waits_us + now_us, relative_change(waited_us + before_us, waits_us + now_us))
    return replace(one, finding=replace(one.finding, message=f"{step}; it waits longer: {one.finding.message}"))


def _judged_step(comparisons: Iterable[Comparison]) -> State | None:
    """Return what the time of the step was judged to be, None where it was not judged."""
    return next((one.state for one in comparisons if one.metric == "step_cost" and one.judged), None)


def worse_operators(
    current: Iterable[Measurement], reference: Iterable[Measurement], *, policy: Policy, step: State | None
) -> dict[str, str]:
    """Return the operators that carry added work, by their subject: by how much the step's work grew with them, in words.

    Work counts as added where it weighs more than `thresholds.OPERATOR_WEIGHT`, unless the step's judged time got better.
    Operators that a rule of the user speaks of are judged by that rule.
    """
    if step is State.BETTER:
        return {}
    found: dict[str, str] = {}
    sides = ([one for one in side if _is_weighed(one, policy)] for side in (current, reference))
    for rank, work in work_of(*sides).items():
        growth = work.growth(is_time_same=step is State.SAME)
        if growth > thresholds.OPERATOR_WEIGHT:
            words = (
                f"+{100 * growth:.1f} % {'operator time' if work.is_timed else 'operators'} in the step, all together"
            )
            found |= {rank + operator: words for operator in work.carriers}
    return found


def lost_work(current: Iterable[Measurement], reference: Iterable[Measurement], *, policy: Policy) -> Finding | None:
    """Say that most of the baseline's operator time is gone, and that nothing stands in its place: the test is broken."""
    sides = ([one for one in side if _is_weighed(one, policy)] for side in (current, reference))
    for rank, work in work_of(*sides).items():
        if work.is_mostly_gone:
            where = f" on {rank.removesuffix(':')}" if rank else ""
            message = (
                f"operators that took {100 * work.gone_share:.0f} % of the baseline's operator time{where} are gone, and "
                f"what is new or runs more often takes {100 * work.added_share:.0f} %; does the step still do its work?"
            )
            return Finding(code=Code.R108, message=message, weight=weight_of_the_whole(work.gone_share))
    return None


def changes_in_words(comparisons: Iterable[Comparison]) -> str:
    """Name what changed in one line: new operators, operators that are gone, other calls and shapes, other metrics.

    Empty where nothing did.
    """
    found = [one for one in comparisons if one.judged and one.state is State.CHANGED]
    calls = [one for one in found if one.metric == "operator_calls" and split_rank(one.subject)[0] != ALL_RANKS]
    told = {one.subject for one in calls}
    kinds = {
        "new": [one.subject for one in calls if one.is_new],
        "gone": [one.subject for one in calls if one.is_gone],
        "called more or less often": [_from_to(one) for one in calls if not one.is_new and not one.is_gone],
        "called with other shapes": [
            one.subject for one in found if one.metric == "operator_shapes" and one.subject not in told
        ],
    }
    parts = [f"{len(names)} {kind} ({_first(names)})" for kind, names in kinds.items() if names]
    others = _first([one.label for one in found if one.metric not in CENSUS])
    operators = f"operators changed: {', '.join(parts)}" if parts else ""
    return "; ".join(part for part in (operators, others and f"changed: {others}") if part)


def _from_to(one: Comparison) -> str:
    assert one.reference is not None
    assert one.current is not None
    return f"{one.subject} {show(one.reference)} → {show(one.current)}"


def _first(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _is_weighed(one: Measurement, policy: Policy) -> bool:
    return one.metric not in COUNTED or policy.rule(*one.key) is None


def _of_added_work(one: Comparison, worse: Mapping[str, str]) -> Comparison:
    """Call the calls of an operator worse that carries added work, on its rank and in the sum of all ranks."""
    rank, operator = split_rank(one.subject)
    words = worse.get(one.subject, "")
    if rank == ALL_RANKS:
        words = next((words for subject, words in worse.items() if split_rank(subject)[1] == operator), "")
    if one.metric not in COUNTED or one.state is not State.CHANGED or not words or not one.is_more:
        return one
    finding = one.finding
    if finding is not None:
        finding = replace(finding, message=f"{finding.message} (added work: {words})")
    return replace(one, state=State.WORSE, finding=finding)


def _weighed(
    one: Comparison, current: Mapping[tuple[str, str], Measurement], reference: Mapping[tuple[str, str], Measurement]
) -> Comparison:
    """Put operators that take much of the time before those that take little: aten::addmm before its autograd wrapper."""
    if one.finding is None or not one.metric.startswith("operator_"):
        return one
    key = ("operator_share", one.subject)
    shares = [found.value for found in (current.get(key), reference.get(key)) if found is not None]
    share = max((value for value in shares if isinstance(value, (int, float))), default=0.0)
    return replace(one, finding=replace(one.finding, weight=one.finding.weight + _WEIGHT_EXACT * share))


def _comparison(
    key: tuple[str, str],
    state: State,
    judged: bool,
    before: Measurement | None,
    now: Measurement | None,
    finding: Finding | None = None,
) -> Comparison:
    return Comparison(
        metric=key[0],
        subject=key[1],
        state=state,
        judged=judged,
        reference=before.value if before else None,
        current=now.value if now else None,
        # Those of operators would be most of every report.
        reference_samples=before.samples if before and not key[0].startswith("operator_") else (),
        finding=finding if judged else None,
    )


def _gone(
    metric: Metric, key: tuple[str, str], before: Measurement, judged: bool, is_still_measured: bool
) -> Comparison:
    """One subject fewer is a change where the metric is exact; that a time, or all of a metric, is missing fails."""
    name = label(*key)
    is_change = metric.kind is Kind.EXACT and is_still_measured
    finding = Finding(
        code=Code.R103,
        place=name,
        message=f"{name} was {_with_unit(before.value, metric)}, and is not measured any more",
        weight=_weight_one_sided(metric),
    )
    return _comparison(key, State.CHANGED if is_change else State.WORSE, judged, before, None, finding)


def _totals(measurements: Iterable[Measurement]) -> dict[tuple[str, str], float]:
    """Add up each metric over its subjects, by rank."""
    found = defaultdict(list)
    for one in measurements:
        if isinstance(one.value, (int, float)):
            found[one.metric, split_rank(one.subject)[0]].append(one.value)
    return {of_all: math.fsum(values) for of_all, values in found.items()}


def _new(
    metric: Metric, key: tuple[str, str], now: Measurement | None, judged: bool, is_metric_known: bool, *, is_more: bool
) -> Comparison:
    """One subject more is worse where less would be better, and all subjects together come to more; else it is a change.

    A graph with another name is as many compilations as before. Nobody measured a whole new metric before.
    """
    assert now is not None
    name = label(*key)
    finding = Finding(
        code=Code.R104,
        place=name,
        message=f"{name} is {_with_unit(now.value, metric)}, and the baseline has none",
        severity=Severity.ERROR if is_metric_known else Severity.WARNING,
        weight=_weight_one_sided(metric),
    )
    state = State.CHANGED if metric.only_changes or (metric.kind is Kind.EXACT and not is_more) else State.WORSE
    if not is_metric_known:
        # News of perfguard, not of the model.
        state = State.NOT_COMPARABLE
    return _comparison(key, state, judged, None, now, finding)


def _numbers(
    metric: Metric,
    key: tuple[str, str],
    before: Measurement,
    now: Measurement,
    tolerance: Tolerance | None,
    time: Measurement | None,
    *,
    is_ruled: bool,
) -> Comparison:
    reference, current = before.value, now.value
    assert isinstance(reference, (int, float))
    assert isinstance(current, (int, float))
    judged = tolerance is not None
    limits = tolerance or _as_shown(metric)
    exact = limits.relative == 0 and limits.absolute == 0
    change = _change(reference, current, metric)
    ratio = _relative(reference, current)
    step = f"{label(*key)} {show(reference)} → {show(current)} {metric.unit}, {change}"
    if metric.name == "step_cost" and time is not None and isinstance(time.value, (int, float)):
        # A reader knows a step by its milliseconds; what is judged is the change of its cost.
        step = step_text(time.value, relative_change(reference, current))
    if limits.is_worse(current, reference, metric.better):
        if metric.by_run:
            text = step if metric.name == "step_cost" else _readable_text(metric, key, reference, current, limits)
            return _slower_in_runs(metric, key, before, now, limits, judged, text)
        # A number of which neither side is better is judged by itself only where a rule of the user speaks of it.
        is_change = metric.only_changes and not is_ruled
        finding = Finding(
            code=Code.R102 if exact else Code.R101,
            place=label(*key),
            message=step if is_change else f"{step} ({_allowed(limits, reference, metric)})",
            weight=_weight(metric, ratio, exact=exact),
        )
        return _comparison(key, State.CHANGED if is_change else State.WORSE, judged, before, now, finding)
    if limits.is_warning(current, reference, metric.better):
        finding = Finding(
            code=Code.R105,
            place=label(*key),
            severity=Severity.WARNING,
            message=f"{step} ({_warned(limits, reference, metric)})",
            weight=_weight(metric, ratio, exact=False),
        )
        return _comparison(key, State.SAME, judged, before, now, finding)
    if limits.is_better(current, reference, metric.better):
        finding = Finding(
            code=Code.R106,
            place=label(*key),
            severity=Severity.WARNING,
            message=f"{step}: better than the baseline knows",
            weight=_weight(metric, ratio, exact=exact),
        )
        return _comparison(key, State.BETTER, judged, before, now, finding)
    return _comparison(key, State.SAME, judged, before, now)


def _limit(tolerance: Tolerance | None, reference: float, metric: Metric) -> float | None:
    """Return the farthest value that does not fail; None where none does."""
    if tolerance is None or tolerance.relative == math.inf:
        return None
    allowance = tolerance.allowance(reference)
    if not allowance:
        return reference
    return reference + (-allowance if metric.better is Better.HIGHER else allowance)


def _as_shown(metric: Metric) -> Tolerance:
    """Return what says of a number that is only shown whether it is worse: for one that never fails, where it would warn."""
    relative = metric.warn_relative or 0.0 if metric.relative == math.inf else metric.relative
    return Tolerance(relative=relative, absolute=metric.absolute)


def _slower_in_runs(
    metric: Metric,
    key: tuple[str, str],
    before: Measurement,
    now: Measurement,
    limits: Tolerance,
    judged: bool,
    step: str,
) -> Comparison:
    """Word a step that was slower in every process: an error where both sides had enough of them, else a warning."""
    assert isinstance(before.value, (int, float))
    assert isinstance(now.value, (int, float))
    stored, runs = max(1, len(before.samples)), max(1, len(now.samples))
    causes = f" ({metric.causes})" if metric.causes else ""
    few = ""
    if stored < thresholds.BASELINE_RUNS:
        few = (
            f"; this only warns, as the baseline has {stored} of {thresholds.BASELINE_RUNS} runs: "
            f"perfguard baseline refresh --runs {thresholds.BASELINE_RUNS}"
        )
    elif runs < thresholds.FEWEST_RUNS:
        few = f"; this only warns, as {runs} of {thresholds.MOST_RUNS} runs left a time"
    finding = Finding(
        code=Code.R105 if few else Code.R101,
        place=label(*key),
        severity=Severity.WARNING if few else Severity.ERROR,
        message=f"{step} ({_allowed(limits, before.value, metric)}), "
        f"worse in {'all of ' if runs > 1 else ''}{runs} fresh process{'es' if runs > 1 else ''}{causes}{few}",
        weight=_weight(metric, _relative(max(before.value, limits.absolute), now.value), exact=False),
    )
    return _comparison(key, State.WORSE, judged, before, now, finding)


def _readable_text(metric: Metric, key: tuple[str, str], reference: float, current: float, limits: Tolerance) -> str:
    """Return `run_blocked_time 0.05 → 20.1 ms, +20 ms`."""
    factor, unit = _readable(metric.unit, current)
    change = _change(reference, current, metric)
    if abs(reference) * limits.relative < limits.absolute:
        # Of next to nothing a percentage says nothing.
        change = f"+{show((current - reference) / factor)} {unit}"
    return f"{label(*key)} {show(reference / factor)} → {show(current / factor)} {unit}, {change}"


def _readable(unit: str, largest: float) -> tuple[float, str]:
    """Return by what to divide numbers of a unit for people, and the unit they have then."""
    if unit == "us" and largest >= 1000:
        return 1000.0, "ms"
    if unit.startswith("bytes") and largest >= 1024:
        return 1024.0, unit.replace("bytes", "KiB")
    return 1.0, unit


def _structures(
    metric: Metric, key: tuple[str, str], before: Measurement, now: Measurement, judged: bool
) -> Comparison:
    if now.value == before.value:
        return _comparison(key, State.SAME, judged, before, now)
    finding = Finding(
        code=Code.R102,
        place=label(*key),
        message=f"{label(*key)} changed: {differences(before.value, now.value)}",
        weight=_weight(metric, 0.0, exact=True),
    )
    return _comparison(key, State.CHANGED, judged, before, now, finding)


def _weight(metric: Metric, ratio: float, *, exact: bool) -> float:
    """Return what orders a finding: `ratio` says by how much of its reference a number moved."""
    if metric.name in OF_THE_WHOLE:
        is_time = metric.kind is Kind.TIMED and "bytes" not in metric.unit
        return weight_of_the_step(ratio) if is_time else weight_of_the_whole(ratio)
    ratio = min(ratio, _LARGEST_RATIO_OF_A_PART)
    if metric.kind is Kind.EXACT and metric.name.startswith("operator_"):
        return ratio + (_WEIGHT_OPERATORS if metric.name == "operator_calls" else _WEIGHT_OPERATORS / 2)
    return ratio + (_WEIGHT_EXACT if exact else 0.0)


def weight_of_the_whole(ratio: float) -> float:
    """Return what orders a finding about the whole workload that moved by `ratio`."""
    return _WEIGHT_WHOLE + min(ratio, _LARGEST_RATIO_OF_THE_WHOLE)


def weight_of_the_step(ratio: float) -> float:
    """Return what orders a finding about the step's time: a reader asks for it first, so it leads."""
    return _WEIGHT_STEP + min(ratio, _LARGEST_RATIO_OF_THE_WHOLE)


def _weight_one_sided(metric: Metric) -> float:
    """What vanished is a hundred per cent less."""
    return _WEIGHT_WHOLE + 1.0 if metric.name in OF_THE_WHOLE else _WEIGHT_OPERATORS


def differences(before: Value, now: Value) -> str:
    """Name what differs between two lists of names, or two censuses, at most four of it."""
    old = (
        before
        if isinstance(before, dict)
        else dict.fromkeys(before, 1)
        if isinstance(before, list)
        else {show(before): 1}
    )
    new = now if isinstance(now, dict) else dict.fromkeys(now, 1) if isinstance(now, list) else {show(now): 1}
    parts = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            if isinstance(now, list):
                parts.append(f"{'+' if name in new else '−'} {name}")
            else:
                parts.append(f"{name} {show(old.get(name, 0))} → {show(new.get(name, 0))}")
    more = f" and {len(parts) - 4} more" if len(parts) > 4 else ""
    return "; ".join(parts[:4]) + more


def _without_repetition(comparisons: list[Comparison]) -> list[Comparison]:
    """Say what happened to an operator once: a new or gone operator has new or gone shapes, and changes the set."""
    told = {c.subject for c in comparisons if c.metric == "operator_calls" and c.finding is not None}
    one_sided = {
        c.subject for c in comparisons if c.metric == "operator_calls" and (c.is_new or c.is_gone) and c.finding
    }
    quiet = []
    for one in comparisons:
        if one.metric == "operator_shapes" and one.subject in one_sided and (one.is_new or one.is_gone):
            one = _silenced(one)
        if one.metric == "operator_set" and isinstance(one.reference, list) and isinstance(one.current, list):
            prefix = one.subject.partition(":")[0] + ":" if one.subject.startswith("rank") else ""
            if {prefix + name for name in set(one.reference) ^ set(one.current)} <= told:
                one = _silenced(one)
        quiet.append(one)
    return quiet


def _silenced(one: Comparison) -> Comparison:
    return replace(one, finding=None)


def show(value: Value) -> str:
    """Write a value for people: whole numbers whole, others with one decimal (more when small)."""
    if isinstance(value, dict):
        return ", ".join(f"{name} x {show(count)}" for name, count in value.items())
    if isinstance(value, list):
        return f"{len(value)} names"
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _with_unit(value: Value, metric: Metric) -> str:
    return show(value) if isinstance(value, list) else f"{show(value)} {metric.unit}"


def _relative(reference: float, current: float) -> float:
    return abs(current - reference) / abs(reference) if reference else float(current != reference)


def _change(reference: float, current: float, metric: Metric) -> str:
    difference = current - reference
    if reference == 0:
        return f"{'+' if difference >= 0 else ''}{show(difference)}"
    percent = 100 * difference / abs(reference)
    if isinstance(reference, int) and isinstance(current, int) and abs(difference) < 100:
        return f"{difference:+d}"
    if abs(percent) < 0.05:
        # As a percentage it would be no change at all.
        return f"{'+' if difference >= 0 else ''}{show(difference)} {metric.unit}"
    return f"{percent:+.1f} %"


def _warned(limits: Tolerance, reference: float, metric: Metric) -> str:
    warned = f"warned beyond +{100 * (limits.warn_relative or 0):.1f} %"
    return warned if limits.relative == math.inf else f"{warned}, {_allowed(limits, reference, metric)}"


def _allowed(limits: Tolerance, reference: float, metric: Metric) -> str:
    sign = {Better.LOWER: "+", Better.HIGHER: "−", Better.EQUAL: "±"}[metric.better]
    if limits.relative == limits.absolute == 0:
        return {Better.LOWER: "exact: any increase fails", Better.HIGHER: "exact: any decrease fails"}.get(
            metric.better, "exact: any change fails"
        )
    if abs(reference) * limits.relative >= limits.absolute:
        return f"allowed {sign}{100 * limits.relative:.1f} %"
    factor, unit = _readable(metric.unit, limits.absolute)
    return f"allowed {sign}{show(limits.absolute / factor)} {unit}"
