"""Refreshes: the new content of a stored baseline, its changes, and the reasons to refuse it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from perfguard import thresholds
from perfguard.errors import counted, listed
from perfguard.findings import Code, Finding
from perfguard.judge.baseline import Baseline
from perfguard.judge.compare import Key, compare, lost_work
from perfguard.judge.comparison import State
from perfguard.judge.kernel_sets import as_settings, learned
from perfguard.judge.quantities import show, sides_text, with_unit
from perfguard.judge.step_time import FRESH_TIME, relative_change, step_text
from perfguard.judge.tolerance import Policy, Tolerance, default_tolerance
from perfguard.judge.work import CENSUS
from perfguard.measure.measurement import Better, Kind, Measurement, Metric, label, number
from perfguard.measure.metrics import METRICS, TIME_METRICS
from perfguard.recording import Environment

_COST: Key = ("step_cost", "")

#: The option in messages, as of pytest. Its text is no reason: a command that is copied as it is changes nothing.
GIVE_REASON = '--perfguard-reason "..."'


#: The directions of changes, in the order in which they are reported. WORSE is a relaxed baseline: slower, more memory, added
#: work. CHANGED: neither side is better, another machine measured it, or only one side has it.
_ORDER = (State.WORSE, State.CHANGED, State.BETTER)


class Refresh(Enum):
    """The result of a refresh for one entry."""

    #: Not written yet: the test must pass first.
    DUE = "due"
    CREATED = "created"
    UPDATED = "updated"
    KEPT = "kept"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one stored number. `text` is `operator_calls[MatMul] 2 → 4 calls/step`."""

    key: Key
    direction: State
    text: str

    def __str__(self) -> str:
        return f"{self.direction.value}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The result of a refresh: the stored baseline and the changes of judged metrics, relaxations first.

    If it is `refused`, that finding says why, `stored` is the old baseline, and the changes were not made.
    """

    stored: Baseline | None
    state: Refresh
    changes: tuple[Change, ...] = ()
    refused: Finding | None = None


def reason_in(text: str) -> str | None:
    """Return the reason that a user gave; None for one without a letter or a digit, such as the `...` of a message."""
    return text.strip() if any(map(str.isalnum, text)) else None


def new_reason(before: Baseline | None, now: Baseline | None) -> str | None:
    """Return the reason with which a stored baseline was changed; None if it was not, or the reason is the one it had."""
    if before is None or now is None:
        return None
    reason, old = reason_in(now.reason or ""), reason_in(before.reason or "")
    is_new = (reason or "").casefold().split() != (old or "").casefold().split()
    return reason if is_new else None


def refused_unread(new: Baseline, why: str) -> Refreshed | None:
    """Refuse to replace a stored baseline that cannot be read, and `why`; None if `new` holds a reason.

    Its numbers are unknown, so what replaces it may be worse.
    """
    if _is_accepted(new):
        return None
    return Refreshed(stored=None, state=Refresh.REFUSED, refused=Finding(code=Code.B114, message=why))


def is_swamped(new: Baseline, others_share: float | None) -> bool:
    """Whether other processes used too much of the machine for the times of a script, and the user gave no reason.

    A test is timed in several processes, of which the best counts; a script runs once.
    """
    is_busy = others_share is not None and others_share > thresholds.BUSY_SHARE
    return is_busy and not _is_accepted(new) and any(_is_judged_time(one.metric) for one in new.measurements)


def without_step_times(new: Baseline) -> Baseline:
    """Return a baseline without times that are judged; those of operators are only shown."""
    kept = [one for one in new.measurements if not _is_judged_time(one.metric)]
    return replace(new, measurements=tuple(kept))


def _is_judged_time(name: str) -> bool:
    return name in TIME_METRICS and METRICS[name].gated


def refused_busy(others_share: float) -> Refreshed:
    """Refuse times of a script from a machine that was busy with other processes."""
    message = (
        f"other processes used {100 * others_share:.0f} % of the machine's CPU time while the script ran, so its times are not "
        f"its own. Run it again when the machine is quiet; if it never is, say so: {GIVE_REASON}"
    )
    return Refreshed(stored=None, state=Refresh.REFUSED, refused=Finding(code=Code.B112, message=message))


def replaced(new: Baseline, *, policy: Policy) -> Refreshed:
    """Return the baseline that replaces, with a reason, one that cannot be read."""
    done = refreshed(None, new, policy=policy)
    if done.refused is not None:
        return done
    text = "the stored baseline could not be read, and is replaced"
    return replace(done, state=Refresh.UPDATED, changes=(Change(key=("", ""), direction=State.CHANGED, text=text),))


def refreshed(old: Baseline | None, new: Baseline, *, policy: Policy) -> Refreshed:
    """Return the baseline to store, from the old one and `new`, which holds the reason.

    Worse numbers, lost work and another fingerprint, whose numbers cannot be compared, need one.

    Numbers are replaced if they changed beyond noise: exact metrics at any difference; timed ones beyond their warning limit,
    or all of them on another machine. Operator times and shares, which are ranked and not judged, never cause a write.
    Refused are times that are not a positive number, missing metrics, fewer runs than the old baseline has, and worse numbers;
    a reason accepts missing metrics and worse numbers.
    """
    terms = _Terms(old, new, policy)
    if (no_value := terms.without_value()) is not None:
        return Refreshed(stored=old, state=Refresh.REFUSED, refused=no_value)
    if old is None:
        return Refreshed(stored=new, state=Refresh.CREATED)
    if differing := terms.differing:
        changes = [Change(key=("", ""), direction=State.CHANGED, text=f"fingerprint {one}") for one in differing]
        refused = terms.fewer_runs(terms.before.keys() & terms.after.keys())
        if refused is None and not terms.accepts:
            refused = _to_be_explained(f"the fingerprint differs ({'; '.join(differing)}), so nothing was compared; if")
        return _result(old, new, changes, refused)
    kept, all_changes = terms.merged()
    # Shares are parts of one whole, so all of them come from one recording.
    shares = [one for one in new.measurements if terms.is_unruled_share(one)]
    if shares:
        others = [one for one in kept if not terms.is_unruled_share(one)]
        kept = tuple(sorted([*others, *shares], key=lambda one: one.key))
    # Ranked metrics are left out: forty operator times would hide the one call that matters.
    changes = [one for one in all_changes if one.key[0] not in METRICS or terms.gate(one.key) is not None]
    if not changes:
        return Refreshed(stored=old, state=Refresh.KEPT)
    changes += _chosen_kernels(old, new, policy)
    refused = terms.fewer_runs({change.key for change in changes})
    if refused is None and not terms.accepts:
        refused = terms.missing() or _relaxed(old, new, policy, changes)
    # The stored reason stays until there is a new one.
    stored = replace(
        new,
        measurements=kept,
        environment=terms.environment(),
        # Times that stay are of as many processes as before.
        runs=new.runs if terms.time_known else old.runs,
        reason=new.reason or old.reason,
        time_commit=_time_commit(old, kept),
    )
    return _result(old, stored, changes, refused)


def _chosen_kernels(old: Baseline, new: Baseline, policy: Policy) -> list[Change]:
    """Return, as a change, how to make a set of kernels that ran in place of each other."""
    sets = learned((old.measurements, new.measurements), policy.kernels)
    why = "these kernels ran in place of each other; if a library chooses, write into [tool.perfguard.kernels]: "
    return [Change(key=("kernel_calls", ""), direction=State.CHANGED, text=why + line) for line in as_settings(sets)]


def ratcheted(old: Baseline, new: Baseline, *, policy: Policy) -> Refreshed:
    """Return `old` with the judged numbers that `new` improves beyond their tolerance.

    It can only tighten: numbers that are not better, and numbers from fewer runs than stored, stay. An improvement brings the
    operators of its step, unless they are worse: numbers of one step belong together.
    """
    terms = _Terms(old, new, policy)
    if (no_value := terms.without_value()) is not None:
        return Refreshed(stored=old, state=Refresh.REFUSED, refused=no_value)
    before, after = terms.before, terms.after
    common = () if terms.differing else before.keys() & after.keys()
    improved = {key: after[key] for key in common if terms.improves(before[key], after[key])}
    if not improved:
        return Refreshed(stored=old, state=Refresh.KEPT)
    kept, changed = dict(before), dict[Key, Measurement]()
    has_worse_operators = any(state is State.WORSE and key[0] in CENSUS for key, state in terms.exact.items())
    if not terms.other_machine and not has_worse_operators:
        kept = {key: one for key, one in before.items() if not terms.belongs_to_step(key)}
        changed = {key: one for key, one in after.items() if terms.belongs_to_step(key)}
    stored = replace(
        old,
        measurements=terms.with_the_cost({**kept, **changed, **improved}.values()),
        commit=new.commit,
        time_commit=_time_commit(old, {**before, **improved}.values()),
        reason=new.reason or old.reason,
    )
    changes = [terms.change(key, before[key], improved[key]) for key in sorted(improved)]
    return _result(old, stored, changes, None)


def _time_commit(old: Baseline, kept: Iterable[Measurement]) -> str | None:
    """Return the old baseline's commit if its step time stays: an A/B run with a later one would miss earlier changes."""
    stays = any(one.key == _COST and one in old.measurements for one in kept)
    return (old.commit_of_time or "unknown") if stays else None


def _result(old: Baseline, stored: Baseline, changes: list[Change], refused: Finding | None) -> Refreshed:
    ordered = tuple(sorted(changes, key=lambda change: _ORDER.index(change.direction)))
    if refused is not None:
        return Refreshed(stored=old, state=Refresh.REFUSED, changes=ordered, refused=refused)
    return Refreshed(stored=stored, state=Refresh.UPDATED, changes=ordered)


#: The machine's state during the measurement of a step's cost: the cost of one day must not get the load of another.
_STATE_OF_THE_MACHINE = (("run_calibration", ""), ("run_machine_load", ""))
#: What counts the subjects of times, by what these are.
_COUNTS = {"operator": "operator_calls", "kernel": "kernel_calls"}
#: The step's milliseconds: CPU time, and time with its waits.
_OF_THE_STEP = (("run_cpu_time", ""), (FRESH_TIME, ""))
_WAITS: Key = ("run_blocked_time", "")


class _Terms:
    """The two baselines of a refresh, and how their numbers compare. Without an old one, no machine is another one."""

    def __init__(self, old: Baseline | None, new: Baseline, policy: Policy) -> None:
        assert new.fingerprint is not None
        self.old, self.new = old, new
        self.policy = replace(policy, backend=new.fingerprint.backend)
        self.before = {one.key: one for one in old.measurements} if old is not None else {}
        self.after = {one.key: one for one in new.measurements}
        self.differing: list[str] = []
        self.other_machine = False
        #: The results of exact metrics without the user's rules.
        self.exact: dict[Key, State] = {}
        if old is not None:
            assert old.fingerprint is not None
            assert old.environment is not None
            assert new.environment is not None
            self.differing = new.fingerprint.differences(old.fingerprint)
            self.other_machine = old.environment.machine != new.environment.machine
            unruled = replace(self.policy, marker=(), settings=())
            found = compare(new.measurements, old, environment=new.environment, policy=unruled)
            self.exact = {(one.metric, one.subject): one.state for one in found}
        self.time_known = policy.judge_time
        self.time_comparable = self.time_known and not self.other_machine and not new.fingerprint.begins_cold
        #: Whether the user gave a reason.
        self.accepts = _is_accepted(new)
        #: The current step time in us, if fresh processes measured it.
        self.step_us = number(self.after[FRESH_TIME, ""].value) if (FRESH_TIME, "") in self.after else None

    def gate(self, key: Key) -> Tolerance | None:
        """Return the tolerance of a judged metric; None if it is only shown, or time is off."""
        metric = METRICS.get(key[0])
        if metric is None or (metric.kind is Kind.TIMED and not self.time_known):
            return None
        return self.policy.tolerance(metric, key[1])

    def is_unruled_share(self, one: Measurement) -> bool:
        """Whether it is an operator's share of the time, without a rule of the user."""
        return one.metric == "operator_share" and self.policy.rule(*one.key) is None

    def belongs_to_step(self, key: Key) -> bool:
        """Whether a number is a part of the profiled step, and not judged alone by a rule of the user."""
        return key[0].startswith(("operator_", "profiled_step_")) and self.policy.rule(*key) is None

    # -- the new content -------------------------------------------------------------------------------------------------

    def merged(self) -> tuple[tuple[Measurement, ...], list[Change]]:
        """Return the measurements to store, new ones where they changed, and all changes, also of ranked metrics."""
        kept: list[Measurement] = []
        changes: list[Change] = []
        for key in sorted(self.before.keys() | self.after.keys()):
            was, now = self.before.get(key), self.after.get(key)
            metric = METRICS.get(key[0])
            if metric is not None and metric.kind is Kind.TIMED and not self.time_known:
                kept += self._with_time_off(metric, was, now)
            elif was is not None and now is not None and not self._is_changed(was, now):
                kept.append(was)
            else:
                kept += [now] if now is not None else []
                changes.append(self.change(key, was, now))
        return self.with_the_cost(kept), changes

    def with_the_cost(self, kept: Iterable[Measurement]) -> tuple[Measurement, ...]:
        """Take the metrics that belong to the cost of a step from the same side as the cost, except those with own rules.

        Its milliseconds are also new if its waits are new.
        """
        found = {one.key: one for one in kept}
        if (cost := found.get(_COST)) is not None:
            is_old = cost == self.before.get(_COST)
            waits_as_before = found.get(_WAITS) == self.before.get(_WAITS)
            of_side = dict.fromkeys(_STATE_OF_THE_MACHINE, self.before if is_old else self.after)
            of_side |= dict.fromkeys(_OF_THE_STEP, self.before if is_old and waits_as_before else self.after)
            of_side = {key: side for key, side in of_side.items() if self.policy.rule(*key) is None}
            found = {key: one for key, one in found.items() if key not in of_side}
            found |= {key: side[key] for key, side in of_side.items() if key in side}
        return tuple(sorted(found.values(), key=lambda one: one.key))

    def _with_time_off(self, metric: Metric, was: Measurement | None, now: Measurement | None) -> list[Measurement]:
        """Return the time to store if time is off: the stored one, unless its operator or kernel is gone."""
        if was is not None:
            counts = _COUNTS.get(metric.subject)
            is_kept = metric.gated or counts is None or (counts, was.subject) in self.after
            return [was] if is_kept else []
        # The stored times belong to their machine, without times of another one.
        return [now] if now is not None and not self.other_machine else []

    def environment(self) -> Environment | None:
        """Return the environment of the stored numbers: if the times stay, so does their machine."""
        there, here = self.old.environment if self.old is not None else None, self.new.environment
        if self.time_known or there is None or here is None:
            return here
        return replace(here, cpu_model=there.cpu_model, cpu_count=there.cpu_count, device_name=there.device_name)

    def _is_changed(self, was: Measurement, now: Measurement) -> bool:
        """Whether a number changed beyond noise, or comes from more runs than before."""
        metric = METRICS.get(now.metric)
        if metric is None or metric.kind is Kind.EXACT:
            return was.value != now.value
        if self.other_machine or (metric.by_run and _runs(now) > _runs(was)):
            return True
        if metric.by_run and self.accepts:
            # An A/B run can fail a step within the noise of the stored times; accepting that must store the new ones.
            return was.value != now.value
        return self._beyond_noise(was, now, metric)

    def _beyond_noise(self, was: Measurement, now: Measurement, metric: Metric) -> bool:
        limits = self.policy.tolerance(metric, now.subject) or default_tolerance(metric)
        noise = limits.warn_relative if limits.warn_relative is not None else limits.relative
        low, high = sorted(map(abs, _numbers(was, now)))
        return high - low > max(low * noise, limits.absolute)

    def improves(self, was: Measurement, now: Measurement) -> bool:
        """Whether a judged number is better beyond its tolerance."""
        metric, limits = METRICS.get(now.metric), self.gate(now.key)
        if metric is None or limits is None or (metric.by_run and _runs(now) < _runs(was)):
            return False
        if self._direction(now.key, was, now) is not State.BETTER:
            return False
        before, after = _numbers(was, now)
        return limits.is_better(after, before, metric.better)

    # -- changes ---------------------------------------------------------------------------------------------------------

    def change(self, key: Key, was: Measurement | None, now: Measurement | None) -> Change:
        """Return the change of a number, which at least one side has."""
        metric, known = METRICS.get(key[0]), was or now
        assert known is not None
        unit = metric.unit if metric is not None and not isinstance(known.value, list) else ""
        direction = self._direction(key, was, now)
        if was is None or now is None:
            what = "is new" if was is None else "is gone"
            value = show(known.value) if metric is None else with_unit(known.value, metric)
            text = f"{label(*key)} {what}: {value}"
            return Change(key=key, direction=direction, text=text)
        text = f"{label(*key)} {sides_text(was.value, now.value, unit)}"
        if key == _COST and self.step_us:
            # The same text as in a verdict.
            text = step_text(self.step_us, relative_change(was.value, now.value))
        if metric is not None and metric.by_run and _runs(was) != _runs(now):
            text += f", {_counted_runs(now)} instead of {_runs(was)}"
        return Change(key=key, direction=direction, text=text)

    def _direction(self, key: Key, was: Measurement | None, now: Measurement | None) -> State:
        metric = METRICS.get(key[0])
        # `missing` reports whole metrics.
        if metric is None or now is None:
            return State.CHANGED
        if metric.kind is Kind.EXACT:
            # Kernels of a set were compared as one.
            found = self.exact.get(key)
            return found if found in _ORDER else State.CHANGED
        if was is None or metric.better is Better.EQUAL or not self.time_comparable:
            return State.CHANGED
        if not self._beyond_noise(was, now, metric):
            return State.CHANGED
        before, after = _numbers(was, now)
        if (after < before) is (metric.better is Better.LOWER):
            return State.BETTER
        gate = self.gate(key)
        # A metric that can only warn is never worse.
        return State.CHANGED if gate is not None and gate.relative == math.inf else State.WORSE

    # -- refusals --------------------------------------------------------------------------------------------------------

    def without_value(self) -> Finding | None:
        """Refuse judged numbers that are not finite, and times of 0: nothing is comparable with them."""
        for key, one in sorted(self.after.items()):
            metric = METRICS.get(one.metric)
            if metric is None or self.gate(key) is None or not isinstance(one.value, (int, float)):
                continue
            is_time = metric.kind is Kind.TIMED and metric.better is not Better.EQUAL and not metric.absolute
            if (is_time and one.value <= 0) or not math.isfinite(one.value):
                return _unfit(f"{one.label} is {one.value:g} {metric.unit}, which is no measurement; record it again")
        return None

    def fewer_runs(self, written: Iterable[Key]) -> Finding | None:
        """Refuse to replace a number from several runs by one from fewer."""
        for key in sorted(written):
            was, now = self.before.get(key), self.after.get(key)
            if was is None or now is None or self.gate(key) is None:
                continue
            if METRICS[key[0]].by_run and _runs(now) < _runs(was):
                runs = f"{label(*key)} has {_counted_runs(now)}, the stored baseline {_runs(was)}"
                return _unfit(f"{runs}; run: perfguard baseline refresh --runs {_runs(was)}")
        return None

    def missing(self) -> Finding | None:
        """Refuse a recording without a judged metric: it has other settings, or lost data."""
        measured = {name for name, _ in self.after}
        gone = sorted({key[0] for key in self.before if key[0] not in measured and self.gate(key) is not None})
        if not gone:
            return None
        return _unfit(
            f"{listed(gone, 1)} of the stored baseline is missing; record it again, or say why it is gone: {GIVE_REASON}"
        )


def _numbers(was: Measurement, now: Measurement) -> tuple[float, float]:
    before, after = number(was.value), number(now.value)
    assert before is not None
    assert after is not None
    return before, after


def _runs(measurement: Measurement) -> int:
    return len(measurement.samples) or 1


def _counted_runs(measurement: Measurement) -> str:
    return counted(_runs(measurement), "run")


def _relaxed(old: Baseline, new: Baseline, policy: Policy, changes: Iterable[Change]) -> Finding | None:
    """Refuse a step with little of its work left, and numbers that are worse, without a reason."""
    lost = lost_work(new.measurements, old.measurements, policy=policy)
    worse = [change.text for change in changes if change.direction is State.WORSE]
    if lost is None and not worse:
        return None
    return _to_be_explained(f"{lost.message} If" if lost is not None else f"{listed(worse, 1)}; if")


def _to_be_explained(what: str) -> Finding:
    return Finding(code=Code.B110, message=f"{what} this is intended, say why: {GIVE_REASON}")


def _is_accepted(new: Baseline) -> bool:
    """Whether the user gave a reason."""
    return reason_in(new.reason or "") is not None


def _unfit(message: str) -> Finding:
    return Finding(code=Code.B111, message=message)
