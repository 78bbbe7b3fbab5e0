"""Metrics of the steps that perfguard drove itself: functions of a recording that yield (subject, value or samples)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from perfguard import thresholds
from perfguard.measure.measurement import Samples
from perfguard.recording import Recording
from perfguard.window import Phase

StepMetric = Callable[[Recording], Iterator[tuple[str, Samples]]]


def _of_timed_steps(attribute: str) -> StepMetric:
    """Return a metric with one sample a timed step; of several ranks each, and those of the slowest for the job."""

    def values(recording: Recording) -> Iterator[tuple[str, Samples]]:
        ranks = {rank: recording.steps_of(Phase.TIMED, rank=rank) for rank in recording.ranks}
        samples = {rank: tuple(getattr(s, attribute) / 1e3 for s in steps) for rank, steps in ranks.items() if steps}
        if samples:
            yield "", max(samples.values(), key=min)
        if len(samples) > 1:
            yield from ((f"rank{rank}", of_rank) for rank, of_rank in samples.items())

    return values


def pause_between_steps(recording: Recording) -> Iterator[tuple[str, Samples]]:
    """Yield the mean pause of the slowest rank in us, of the timed steps, or of the profiled steps if none is timed.

    Only a script has pauses. The mean, because workers that are late together delay one batch of several; without the
    longest, because there is one process, and one hiccup of the machine is no loader.
    """
    means = []
    for rank in recording.ranks:
        steps = recording.steps_of(Phase.TIMED, rank=rank) or recording.steps_of(Phase.ACTIVE, rank=rank)
        pauses = [step.pause_ns for step in steps if step.pause_ns is not None]
        if len(pauses) >= thresholds.FEWEST_PAUSES:
            means.append(statistics.fmean(sorted(pauses)[:-1]) / 1e3)
    if means:
        yield "", max(means)


def _slowest_rank(recording: Recording) -> Iterator[tuple[str, Samples]]:
    """Yield the slowest rank as the subject, with the ratio of medians."""
    of_rank = {rank: recording.steps_of(Phase.ACTIVE, rank=rank) for rank in recording.ranks}
    medians = {rank: statistics.median(s.wall_ns for s in steps) for rank, steps in of_rank.items() if steps}
    if len(medians) > 1 and min(medians.values()) > 0:
        slowest = max(medians, key=lambda rank: medians[rank])
        yield f"rank{slowest}", round(medians[slowest] / min(medians.values()), 3)


def _profiler_overhead(recording: Recording) -> Iterator[tuple[str, Samples]]:
    """Yield at least 1 on a quiet machine: the distance of the profiled window from the loop of the users."""
    timed = [step.wall_ns for step in recording.steps_of(Phase.TIMED)]
    active = [step.wall_ns for step in recording.steps_of(Phase.ACTIVE)]
    if timed and active and min(timed) > 0:
        yield "", round(min(active) / min(timed), 3)


OF_STEPS: dict[str, StepMetric] = {
    "step_time": _of_timed_steps("wall_ns"),
    # Without the work of the framework's own threads.
    "step_cpu_time": _of_timed_steps("thread_cpu_ns"),
    "pause_between_steps": pause_between_steps,
    "slowest_rank": _slowest_rank,
    "profiler_overhead": _profiler_overhead,
}
