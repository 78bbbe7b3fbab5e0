"""Weights: the order of findings of one severity.

The step's time comes first, then other metrics of the whole workload, then operators that changed, then other metrics of parts.
"""

from __future__ import annotations

from perfguard.measure.measurement import Kind, Metric

_STEP = 15_000.0
_WORKLOAD = 10_000.0
_OPERATORS = 1000.0
_EXACT = 100.0
#: A part that is a million times worse still comes after the whole workload.
_LARGEST_RATIO_OF_A_PART = 99.0
_LARGEST_RATIO = 4999.0


def step_weight(change: float) -> float:
    """Return the weight of a finding about the step's time, which changed by a fraction."""
    return _STEP + min(change, _LARGEST_RATIO)


def workload_weight(change: float) -> float:
    """Return the weight of a finding about the whole workload, which changed by a fraction."""
    return _WORKLOAD + min(change, _LARGEST_RATIO)


def metric_weight(metric: Metric, change: float, *, exact: bool) -> float:
    """Return the weight of a finding about a metric that changed by a fraction of its reference."""
    if metric.of_workload:
        is_time = metric.kind is Kind.TIMED and "bytes" not in metric.unit
        return step_weight(change) if is_time else workload_weight(change)
    change = min(change, _LARGEST_RATIO_OF_A_PART)
    if metric.kind is Kind.EXACT and metric.name.startswith("operator_"):
        return change + (_OPERATORS if metric.name == "operator_calls" else _OPERATORS / 2)
    return change + (_EXACT if exact else 0.0)


def one_sided_weight(metric: Metric) -> float:
    """Return the weight of a finding about a metric that only one side has: a change of 100 %."""
    return workload_weight(1.0) if metric.of_workload else _OPERATORS


def share_weight(share: float) -> float:
    """Return the additional weight of an operator with a share of the time: aten::addmm before its autograd wrapper."""
    return _EXACT * share
