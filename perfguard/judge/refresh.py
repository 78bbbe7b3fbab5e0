"""A refresh: what is written of a new baseline, what of the old one stays, what is refused, and what is told of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from perfguard.findings import Code, Finding
from perfguard.judge.baseline import Baseline
from perfguard.judge.compare import State, compare, lost_work, show
from perfguard.judge.step_time import FRESH_TIME, relative_change, step_text
from perfguard.judge.tolerance import Policy, Tolerance, default_tolerance
from perfguard.judge.work import CENSUS
from perfguard.measure.measurement import Better, Kind, Measurement, Metric, label
from perfguard.measure.metrics import METRICS
from perfguard.recording import Environment

_Key = tuple[str, str]
_COST: _Key = ("step_cost", "")

#: What a shell with other options puts its own in the place of.
REASON_OPTION = "--perfguard-reason"


class Refresh(Enum):
    """What a refresh did to one entry."""

    #: Not written yet: the test has to end well first.
    DUE = "due"
    CREATED = "created"
    UPDATED = "updated"
    KEPT = "kept"
    REFUSED = "refused"


class Direction(Enum):
    """Which way a stored number moves, in the words of a verdict; they are told in this order."""

    #: Slower, more memory, added work: what failed until now passes from now on.
    WORSE = "worse"
    #: Neither side is better, or it was measured on another machine, or only one side has it.
    CHANGED = "changed"
    BETTER = "better"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One stored number that moves. `text` is `operator_calls[MatMul] 2 → 4 calls/step`."""

    key: _Key
    direction: Direction
    text: str

    def __str__(self) -> str:
        return f"{self.direction.value}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What came of a refresh: what is stored from now on, and every change that is more than ranked, relaxations first.

    Where it is `refused`, the finding says why, `stored` is the old baseline, and the changes were not made.
    """

    stored: Baseline | None
    state: Refresh
    changes: tuple[Change, ...] = ()
    refused: Finding | None = None


def refreshed(old: Baseline | None, new: Baseline, *, policy: Policy) -> Refreshed:
    """Return what to store of `new`, which carries the reason: only what is worse needs one.

    Only what changed beyond noise is replaced: exact metrics at any difference; timed ones beyond their warning limit, or
    all of them when the machine is another. Operator times and shares, which are ranked and not gated, never cause a
    write of their own. Refused are times that are no number or 0, metrics that are missing, fewer runs than the old
    baseline has, and what is worse; a reason accepts what is missing and what is worse.
    """
    terms = _Terms.of(old, new, policy)
    if (nothing := _without_value(new.measurements, terms)) is not None:
        return Refreshed(stored=old, state=Refresh.REFUSED, refused=nothing)
    if old is None:
        return Refreshed(stored=new, state=Refresh.CREATED)
    assert old.fingerprint is not None
    assert new.fingerprint is not None
    before, after = _by_key(old), _by_key(new)
    if differing := new.fingerprint.differences(old.fingerprint):
        changes = [Change(key=("", ""), direction=Direction.CHANGED, text=f"fingerprint {one}") for one in differing]
        refused = _fewer_runs(before, after, before.keys() & after.keys(), terms)
        return _told(old, new, changes, refused)
    kept, moved = _merged(before, after, terms)
    # Shares are parts of one whole, on any machine: what they weigh is told from those of one recording only.
    shares = [one for one in new.measurements if _is_unruled_share(one, policy)]
    if shares:
        others = [one for one in kept if not _is_unruled_share(one, policy)]
        kept = tuple(sorted([*others, *shares], key=lambda one: one.key))
    # What is only ranked is left out: a list of forty operator times hides the one call that matters.
    changes = [change for change in moved if change.key[0] not in METRICS or terms.gate(change.key) is not None]
    if not changes:
        return Refreshed(stored=old, state=Refresh.KEPT)
    refused = _fewer_runs(before, after, {change.key for change in changes}, terms)
    if refused is None and not (new.reason or "").strip():
        refused = _missing(before, after, terms) or _broken(old, new, policy) or _worse(changes)
    # The reason that accepted what is stored stays, until somebody gives another.
    stored = replace(
        new,
        measurements=kept,
        environment=_environment(old, new, terms),
        reason=new.reason or old.reason,
        time_commit=_time_commit(old, kept),
    )
    return _told(old, stored, changes, refused)


def ratcheted(old: Baseline, new: Baseline, *, policy: Policy) -> Refreshed:
    """Return `old` with the gated numbers that `new` improves beyond their tolerance, and everything else as it is.

    It can only tighten: what is no improvement is not looked at, and what has fewer runs than the old one stays. With an
    improvement come the operators it was measured with, unless they are worse: numbers of one step belong together.
    """
    terms = _Terms.of(old, new, policy)
    if (nothing := _without_value(new.measurements, terms)) is not None:
        return Refreshed(stored=old, state=Refresh.REFUSED, refused=nothing)
    assert old.fingerprint is not None
    assert new.fingerprint is not None
    before, after = _by_key(old), _by_key(new)
    if new.fingerprint.differences(old.fingerprint):
        return Refreshed(stored=old, state=Refresh.KEPT)
    improved = {key: after[key] for key in before.keys() & after.keys() if _improves(before[key], after[key], terms)}
    if not improved:
        return Refreshed(stored=old, state=Refresh.KEPT)
    kept, changed = dict(before), dict[_Key, Measurement]()
    if not terms.other_machine and not _has_worse_operators(terms):
        kept = {key: one for key, one in before.items() if not _belongs_to_step(key, terms)}
        changed = {key: one for key, one in after.items() if _belongs_to_step(key, terms)}
    stored = replace(
        old,
        measurements=_with_the_cost({**kept, **changed, **improved}.values(), before, after, policy),
        commit=new.commit,
        time_commit=_time_commit(old, {**before, **improved}.values()),
        reason=new.reason or old.reason,
    )
    changes = [_change(key, before[key], improved[key], terms) for key in sorted(improved)]
    return _told(old, stored, changes, None)


def _time_commit(old: Baseline, kept: Iterable[Measurement]) -> str | None:
    """Return the old baseline's commit where its step's time stays: a run side by side with a later one would not see all of
    what came since."""
    stays = any(one.key == _COST and one in old.measurements for one in kept)
    return (old.commit_of_time or "unknown") if stays else None


def _has_worse_operators(terms: _Terms) -> bool:
    return any(state is State.WORSE and key[0] in CENSUS for key, state in terms.exact.items())


def _is_unruled_share(one: Measurement, policy: Policy) -> bool:
    return one.metric == "operator_share" and policy.rule(*one.key) is None


def _belongs_to_step(key: _Key, terms: _Terms) -> bool:
    """Whether a number goes with the profiled step it is a part of; what a rule of the user judges goes by itself."""
    return key[0].startswith(("operator_", "profiled_step_")) and terms.policy.rule(*key) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """On which terms two baselines meet: the rules, whether times are known and can be compared, and what is exactly worse."""

    policy: Policy
    time_known: bool
    other_machine: bool
    time_comparable: bool
    #: What became of every exact number at a tolerance of nothing.
    exact: Mapping[_Key, State]
    #: Whether the user gave a reason.
    accepts: bool = False
    #: How long a step takes now, in us, where fresh processes measured it.
    step_us: float | None = None

    @classmethod
    def of(cls, old: Baseline | None, new: Baseline, policy: Policy) -> _Terms:
        assert new.fingerprint is not None
        assert new.environment is not None
        other_machine = False
        exact: dict[_Key, State] = {}
        policy = replace(policy, backend=new.fingerprint.backend)
        if old is not None:
            assert old.environment is not None
            other_machine = old.environment.machine != new.environment.machine
            unruled = replace(policy, marker=(), settings=())
            found = compare(new.measurements, old, environment=new.environment, policy=unruled)
            exact = {(one.metric, one.subject): one.state for one in found}
        return cls(
            policy=policy,
            time_known=policy.judge_time,
            other_machine=other_machine,
            time_comparable=policy.judge_time and not other_machine and not new.fingerprint.begins_cold,
            exact=exact,
            accepts=bool((new.reason or "").strip()),
            step_us=next(map(_time_us, (m for m in new.measurements if m.key == (FRESH_TIME, ""))), None),
        )

    def gate(self, key: _Key) -> Tolerance | None:
        """Return the tolerance that gates a measurement; None where it is only shown, or time is off."""
        metric = METRICS.get(key[0])
        if metric is None or (metric.kind is Kind.TIMED and not self.time_known):
            return None
        return self.policy.tolerance(metric, key[1])


def _by_key(baseline: Baseline) -> dict[_Key, Measurement]:
    return {one.key: one for one in baseline.measurements}


def _told(old: Baseline, stored: Baseline, changes: list[Change], refused: Finding | None) -> Refreshed:
    order = list(Direction)
    ordered = tuple(sorted(changes, key=lambda change: order.index(change.direction)))
    if refused is not None:
        return Refreshed(stored=old, state=Refresh.REFUSED, changes=ordered, refused=refused)
    return Refreshed(stored=stored, state=Refresh.UPDATED, changes=ordered)


# -- what is written -------------------------------------------------------------------------------------------------


def _merged(
    before: dict[_Key, Measurement], after: dict[_Key, Measurement], terms: _Terms
) -> tuple[tuple[Measurement, ...], list[Change]]:
    """Join old and new: what moved is new, what did not is old. Also returns every change, of ranked metrics as well."""
    kept: list[Measurement] = []
    changes: list[Change] = []
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        metric = METRICS.get(key[0])
        if metric is not None and metric.kind is Kind.TIMED and not terms.time_known:
            kept += _with_time_off(metric, was, now, after, terms)
        elif was is not None and now is not None and not _moved(was, now, terms):
            kept.append(was)
        else:
            kept += [now] if now is not None else []
            changes.append(_change(key, was, now, terms))
    return _with_the_cost(kept, before, after, terms.policy), changes


#: What the cost of a step was measured beside: else the cost of one day has the load of another. And its milliseconds: what it
#: costs, and what it takes with its waits.
_BESIDE_THE_COST = (("run_calibration", ""), ("run_machine_load", ""))
_OF_THE_STEP = (("run_cpu_time", ""), (FRESH_TIME, ""))
_WAITS: _Key = ("run_blocked_time", "")


def _with_the_cost(
    kept: Iterable[Measurement], before: Mapping[_Key, Measurement], after: Mapping[_Key, Measurement], policy: Policy
) -> tuple[Measurement, ...]:
    """Let what belongs to the cost of a step come from the side that the cost comes from, but for what a rule judges by itself.

    Its milliseconds also come along with its waits, where those are new.
    """
    found = {one.key: one for one in kept}
    if (cost := found.get(_COST)) is not None:
        is_old = cost == before.get(_COST)
        waits_as_before = found.get(_WAITS) == before.get(_WAITS)
        of_side = dict.fromkeys(_BESIDE_THE_COST, before if is_old else after)
        of_side |= dict.fromkeys(_OF_THE_STEP, before if is_old and waits_as_before else after)
        of_side = {key: side for key, side in of_side.items() if policy.rule(*key) is None}
        found = {key: one for key, one in found.items() if key not in of_side}
        found |= {key: side[key] for key, side in of_side.items() if key in side}
    return tuple(sorted(found.values(), key=lambda one: one.key))


def _with_time_off(
    metric: Metric, was: Measurement | None, now: Measurement | None, after: dict[_Key, Measurement], terms: _Terms
) -> Iterator[Measurement]:
    """Yield the time to store where nobody looks at times: what is stored stays, unless its operator is gone."""
    if was is not None:
        if metric.gated or not was.subject or ("operator_calls", was.subject) in after:
            yield was
    elif now is not None and not terms.other_machine:
        # The times that stay belong to the machine they were measured on; none of another one may join them.
        yield now


def _environment(old: Baseline, new: Baseline, terms: _Terms) -> Environment | None:
    """Return what the stored numbers were measured on: where times stay, the machine is theirs."""
    there, here = old.environment, new.environment
    if terms.time_known or there is None or here is None:
        return here
    return replace(here, cpu_model=there.cpu_model, cpu_count=there.cpu_count, device_name=there.device_name)


def _moved(was: Measurement, now: Measurement, terms: _Terms) -> bool:
    """Whether a number moved beyond noise, or is known better than before: from more runs."""
    metric = METRICS.get(now.metric)
    if metric is None or metric.kind is Kind.EXACT:
        return was.value != now.value
    if terms.other_machine or (metric.by_run and _runs(now) > _runs(was)):
        return True
    if metric.by_run and terms.accepts:
        # A run side by side fails what is within the noise of the stored times; whoever accepts that wants them as they are.
        return was.value != now.value
    return _beyond_noise(was, now, metric, terms)


def _beyond_noise(was: Measurement, now: Measurement, metric: Metric, terms: _Terms) -> bool:
    limits = terms.policy.tolerance(metric, now.subject) or default_tolerance(metric)
    noise = limits.warn_relative if limits.warn_relative is not None else limits.relative
    assert isinstance(was.value, (int, float))
    assert isinstance(now.value, (int, float))
    low, high = sorted((abs(was.value), abs(now.value)))
    return high - low > max(low * noise, limits.absolute)


def _improves(was: Measurement, now: Measurement, terms: _Terms) -> bool:
    """Whether a gated number is so good that its reference is stale."""
    metric, limits = METRICS.get(now.metric), terms.gate(now.key)
    if metric is None or limits is None or (metric.by_run and _runs(now) < _runs(was)):
        return False
    if _direction(now.key, was, now, terms) is not Direction.BETTER:
        return False
    assert isinstance(was.value, (int, float))
    assert isinstance(now.value, (int, float))
    return limits.is_better(now.value, was.value, metric.better)


def _runs(measurement: Measurement) -> int:
    return len(measurement.samples) or 1


# -- what is told ----------------------------------------------------------------------------------------------------


def _change(key: _Key, was: Measurement | None, now: Measurement | None, terms: _Terms) -> Change:
    metric = METRICS.get(key[0])
    known = was or now
    assert known is not None
    unit = metric.unit if metric is not None and not isinstance(known.value, list) else ""
    direction = _direction(key, was, now, terms)
    if was is None or now is None:
        what = "is new" if was is None else "is gone"
        return Change(key=key, direction=direction, text=f"{label(*key)} {what}: {show(known.value)} {unit}".rstrip())
    text = f"{label(*key)} {show(was.value)} → {show(now.value)} {unit}".rstrip()
    if key == _COST and terms.step_us is not None:
        # As the verdict shows it.
        text = step_text(terms.step_us, relative_change(was.value, now.value))
    if metric is not None and metric.by_run and _runs(was) != _runs(now):
        text += f", {_counted_runs(now)} instead of {_runs(was)}"
    return Change(key=key, direction=direction, text=text)


_DIRECTIONS = {State.WORSE: Direction.WORSE, State.BETTER: Direction.BETTER}


def _direction(key: _Key, was: Measurement | None, now: Measurement | None, terms: _Terms) -> Direction:
    metric = METRICS.get(key[0])
    if metric is None:
        return Direction.CHANGED
    if metric.kind is Kind.EXACT:
        # That one is gone is told by `_missing`.
        return Direction.CHANGED if now is None else _DIRECTIONS.get(terms.exact[key], Direction.CHANGED)
    if was is None or now is None or metric.better is Better.EQUAL:
        return Direction.CHANGED
    gate = terms.gate(key)
    # What can only warn is never worse.
    never_fails = gate is not None and gate.relative == math.inf
    if not (terms.time_comparable and _beyond_noise(was, now, metric, terms)):
        return Direction.CHANGED
    assert isinstance(was.value, (int, float))
    assert isinstance(now.value, (int, float))
    if (now.value < was.value) is (metric.better is Better.LOWER):
        return Direction.BETTER
    return Direction.CHANGED if never_fails else Direction.WORSE


def _time_us(measurement: Measurement) -> float | None:
    return float(measurement.value) if isinstance(measurement.value, (int, float)) and measurement.value > 0 else None


def _counted_runs(measurement: Measurement) -> str:
    return "1 run" if _runs(measurement) == 1 else f"{_runs(measurement)} runs"


# -- what is refused -------------------------------------------------------------------------------------------------


def _without_value(measurements: Iterable[Measurement], terms: _Terms) -> Finding | None:
    """Refuse gated numbers that are none, and times of 0: nothing could ever be compared with them."""
    for one in sorted(measurements, key=lambda one: one.key):
        metric = METRICS.get(one.metric)
        if metric is None or terms.gate(one.key) is None or not isinstance(one.value, (int, float)):
            continue
        nothing = (
            metric.kind is Kind.TIMED and metric.better is not Better.EQUAL and one.value <= 0 and not metric.absolute
        )
        if nothing or not math.isfinite(one.value):
            return _unfit(f"{one.label} is {one.value:g} {metric.unit}, which is no measurement; record it again")
    return None


def _fewer_runs(
    before: dict[_Key, Measurement], after: dict[_Key, Measurement], written: Iterable[_Key], terms: _Terms
) -> Finding | None:
    """Refuse to replace a number of several runs by one of fewer."""
    for key in sorted(written):
        was, now = before.get(key), after.get(key)
        if was is None or now is None or terms.gate(key) is None:
            continue
        if METRICS[key[0]].by_run and _runs(now) < _runs(was):
            runs = f"{label(*key)} has {_counted_runs(now)}, the stored baseline {_runs(was)}"
            return _unfit(f"{runs}; run: perfguard baseline refresh --runs {_runs(was)}")
    return None


def _missing(before: dict[_Key, Measurement], after: dict[_Key, Measurement], terms: _Terms) -> Finding | None:
    """Refuse a recording that has nothing at all of a gated metric: it was made otherwise, or lost something."""
    measured = {name for name, _ in after}
    gone = sorted({key[0] for key in before if key[0] not in measured and terms.gate(key) is not None})
    if not gone:
        return None
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return _unfit(
        f"{gone[0]}{more} of the stored baseline is missing; record it again, or say why it is gone: "
        f'{REASON_OPTION} "why"'
    )


def _broken(old: Baseline, new: Baseline, policy: Policy) -> Finding | None:
    """Refuse a step that hardly does anything any more, without a word."""
    lost = lost_work(new.measurements, old.measurements, policy=policy)
    if lost is None:
        return None
    return Finding(code=Code.B110, message=f'{lost.message} If this is intended, say why: {REASON_OPTION} "why"')


def _worse(changes: Iterable[Change]) -> Finding | None:
    """Refuse to accept what is slower, larger or more without a word."""
    worse = [change.text for change in changes if change.direction is Direction.WORSE]
    if not worse:
        return None
    more = f" and {len(worse) - 1} more" if len(worse) > 1 else ""
    return Finding(code=Code.B110, message=f'{worse[0]}{more}; if this is intended, say why: {REASON_OPTION} "why"')


def _unfit(message: str) -> Finding:
    return Finding(code=Code.B111, message=message)
