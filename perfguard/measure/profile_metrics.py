"""Metrics of a profile: functions that yield (subject, value or samples) of its operators, memory and steps."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from perfguard.dialects.collectives import COLLECTIVE
from perfguard.dialects.executions import calls_by
from perfguard.measure.measurement import Samples
from perfguard.measure.profile import Profile

ProfileMetric = Callable[[Profile], Iterable[tuple[str, Samples]]]


def per_step(count: int, steps: int | None) -> float | int:
    """Return a count of the window a step; the count itself if its steps are unknown."""
    if not steps:
        return count
    return count // steps if count % steps == 0 else count / steps


# -- operators -------------------------------------------------------------------------------------------------------


def _operator_calls(profile: Profile) -> Iterator[tuple[str, Samples]]:
    for operator, count in calls_by(profile.groups, "operator").items():
        yield operator, per_step(count, profile.steps)


def _operator_shapes(profile: Profile) -> Iterator[tuple[str, Samples]]:
    for operator, by_shapes in profile.calls_by_shapes.items():
        yield operator, {shapes: per_step(calls, profile.steps) for shapes, calls in by_shapes.items()}


def operator_times_us(profile: Profile) -> dict[str, tuple[float, ...]]:
    """Return the self time of every operator, one sample a step; one sample for the window if its steps are unknown."""
    import polars as pl

    groups = profile.groups
    if groups["step"].null_count() or profile.steps is None:
        whole = groups.group_by("operator").agg(pl.col("self_ns").sum()).sort("operator")
        return {operator: (round(ns / 1e3 / (profile.steps or 1), 3),) for operator, ns in whole.iter_rows()}
    by_step = groups.group_by("operator", "step").agg(pl.col("self_ns").sum()).sort("operator", "step")
    times: dict[str, list[float]] = {}
    for operator, _, ns in by_step.iter_rows():
        # Only steps in which it ran: otherwise an operator of every third step has a minimum of zero.
        times.setdefault(operator, []).append(ns / 1e3)
    return {operator: tuple(samples) for operator, samples in times.items()}


def _operator_share(profile: Profile) -> Iterator[tuple[str, Samples]]:
    """Yield fractions that add up to 1."""
    times = {operator: sum(samples) for operator, samples in operator_times_us(profile).items()}
    total = sum(times.values())
    if total > 0:
        yield from ((operator, round(time / total, 6)) for operator, time in times.items())


# -- memory ----------------------------------------------------------------------------------------------------------


def _peak_memory_bytes(profile: Profile) -> Iterator[tuple[str, Samples]]:
    """Yield the largest rise of any step, per device, without the first step if there are more.

    The absolute level is not exact: it contains what earlier tests of the process left alive. Nor is the first step: of what
    was allocated before the window no release counts (`torch_levels`).
    """
    for device, steps in profile.memory_by_device.items():
        later = [step.rise_bytes for step in steps if step.step > 0]
        yield device, max(later or [step.rise_bytes for step in steps])


def _median_of_steps(attribute: str) -> ProfileMetric:
    """Return a metric that yields the median over the steps, per device: a block reused by chance does not change it.

    Where the steps differ by themselves a median would be that of some of them, so it is the mean of the window.
    """

    def values(profile: Profile) -> Iterator[tuple[str, Samples]]:
        for device, steps in profile.memory_by_device.items():
            if profile.steps_differ:
                yield device, per_step(sum(getattr(step, attribute) for step in steps), profile.steps)
                continue
            yield device, statistics.median_low([getattr(step, attribute) for step in steps])

    return values


# -- steps -----------------------------------------------------------------------------------------------------------


def profiled_step_time(profile: Profile) -> Iterator[tuple[str, Samples]]:
    """Yield a sample a step: from the profiler's files, else from perfguard's own clock."""
    if profile.step_ns:
        yield "", tuple(ns / 1e3 for ns in profile.step_ns)


def operator_position(profile: Profile) -> Iterator[tuple[str, Samples]]:
    """Yield positions from 0, in the most frequent order of the steps; operators of other steps follow."""
    import polars as pl

    if not profile.is_timeline:
        return
    firsts = profile.groups.drop_nulls("first_ns").sort("first_ns", maintain_order=True)
    firsts = firsts.with_columns(pl.col("step").fill_null(0)).unique(
        ["step", "operator"], keep="first", maintain_order=True
    )
    by_step = firsts.group_by("step", maintain_order=True).agg("operator")
    counted = Counter(map(tuple, by_step["operator"].to_list()))
    orders = sorted(counted, key=lambda order: (-counted[order], order))
    yield from ((operator, place) for place, operator in enumerate(dict.fromkeys(chain.from_iterable(orders))))


def profiled_step_part(profile: Profile) -> Iterator[tuple[str, Samples]]:
    """Yield parts such that the step is the self time of all operators but collectives - overlap + communication + idle."""
    import polars as pl

    groups = profile.groups
    if not profile.edges_ns or groups["step"].null_count() or not profile.is_timeline:
        return
    start, end = min(profile.edges_ns, key=lambda edges: edges[1] - edges[0])
    step = profile.edges_ns.index((start, end))
    covered = profile.covered[step]
    operators = groups.filter((pl.col("step") == step) & ~pl.col("operator").str.contains(COLLECTIVE.pattern))
    yield "idle", (end - start - covered.either_ns) / 1e3
    yield "overlap", (int(operators["self_ns"].sum()) - covered.operators_ns) / 1e3
    if covered.collectives_ns:
        yield "communication", (covered.either_ns - covered.operators_ns) / 1e3


OF_PROFILE: dict[str, ProfileMetric] = {
    "steps": lambda profile: [] if profile.steps is None else [("", profile.steps)],
    "operator_set": lambda profile: [("", sorted(profile.groups["operator"].unique().to_list()))],
    "operator_calls": _operator_calls,
    "operator_shapes": _operator_shapes,
    "operator_time": lambda profile: operator_times_us(profile).items(),
    "operator_share": _operator_share,
    "peak_memory_bytes": _peak_memory_bytes,
    "memory_allocations": _median_of_steps("allocations"),
    "memory_allocated_bytes": _median_of_steps("allocated_bytes"),
    "memory_growth_bytes": _median_of_steps("growth_bytes"),
    "profiled_step_time": profiled_step_time,
    "operator_position": operator_position,
    "profiled_step_part": profiled_step_part,
}
