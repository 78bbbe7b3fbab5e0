"""Work: how much the changed operators of a step weigh, which distinguishes added work from replaced work and from free views.

Weights are exact: shares of operator time that the baseline stores, and what calls do by their recorded shapes and types.
No time of the current run is used, so the same two commits have the same weights in every run and on every machine.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from perfguard import thresholds
from perfguard.measure.measurement import ALL_RANKS, Measurement, split_rank

#: Metrics of operators, their calls and their shapes: their differences are weighed together.
CENSUS = frozenset({"operator_calls", "operator_set", "operator_shapes"})
#: Metrics that count operators: their calls, or for graphs that a compiler saved their nodes.
COUNTED = ("operator_calls", "graph_operators")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work that was added and removed between the baseline's step and the current one, on one rank.

    All numbers are fractions of the work of the baseline's step. `added` has operators that are new or do more, `removed` those
    that are gone or do less.
    """

    added: Mapping[str, float]
    removed: Mapping[str, float]
    #: Fraction that is gone, where another type of the same elements is the same work; and operators with the most of it.
    lost: float
    losers: tuple[str, ...]
    #: Whether the fractions are of the baseline's operator time; else they are of calls.
    is_timed: bool
    #: Growth of the operations of products, as a fraction of the baseline's: infinite if it has none, 0 if a shape is unknown.
    operations: float = 0.0

    @property
    def is_worse(self) -> bool:
        """Whether the step does so much more work that it is worse.

        What small products cost is estimated, what they do is exact: if a step has clearly more operations, less estimated work
        is enough.
        """
        if self.growth > thresholds.OPERATOR_WEIGHT:
            return True
        return self.operations > thresholds.OPERATOR_WEIGHT and self.growth > thresholds.PRODUCT_WEIGHT

    @property
    def text(self) -> str:
        """The growth that makes it worse: `+12.0 % operator time in the step, all together`."""
        what = "operator time" if self.is_timed else "operators"
        if self.growth > thresholds.OPERATOR_WEIGHT:
            return f"+{100 * self.growth:.1f} % {what} in the step, all together"
        if math.isinf(self.operations):
            return "the first products of matrices in the step"
        return f"+{100 * self.operations:.1f} % operations of matrix products in the step, all together"

    @property
    def growth(self) -> float:
        """Growth of the work of a step; 0 if new operators replace others.

        What a new operator costs is estimated, so replaced work counts up to `REPLACED_UNCERTAINTY` more. If almost nothing of
        the baseline is left, there is no scale for the new ones.
        """
        added, removed = self.added_work, math.fsum(self.removed.values())
        if removed > 1 - thresholds.SCALE_SHARE:
            return 0.0
        return max(0.0, added - removed * (1 + thresholds.REPLACED_UNCERTAINTY))

    @property
    def added_work(self) -> float:
        """All that was added, as a fraction of the work of the baseline's step."""
        return math.fsum(self.added.values())

    @property
    def added_share(self) -> float:
        """Share of the current work in what was added."""
        now = 1 + self.added_work - math.fsum(self.removed.values())
        return self.added_work / now if now > 0 else 0.0

    @property
    def is_mostly_gone(self) -> bool:
        """Whether most of the baseline's work is gone, with almost no replacement."""
        return self.lost > thresholds.MOSTLY_GONE and self.added_share < thresholds.REPLACEMENT_SHARE

    @property
    def carriers(self) -> frozenset[str]:
        """The operators with the added work: the largest up to half of it, and all with at least `CARRIER_PART` of it.

        The others (views, metadata) cost almost nothing. If the operations of products decide, only products carry it.
        """
        by_operations = self.growth <= thresholds.OPERATOR_WEIGHT < self.operations
        added = {name: share for name, share in self.added.items() if is_product(name) or not by_operations}
        total = math.fsum(added.values())
        found, covered = set(), 0.0
        for name, share in sorted(added.items(), key=lambda item: (-item[1], item[0])):
            if covered < total / 2 or share >= thresholds.CARRIER_PART * total:
                found.add(name)
            covered += share
        return frozenset(found)


def work_of(current: Iterable[Measurement], reference: Iterable[Measurement]) -> dict[str, Work]:
    """Return the work of every rank by the prefix of its subjects: `rank1:`, or empty with a single rank.

    Numbers of all ranks together (`ranks:`) are ignored, because they have no shares. The input is the first existing metric of
    `COUNTED`, `operator_shapes`, and the reference's `operator_share`; without shares, calls replace them.
    """
    now, before = _by_rank(current), _by_rank(reference)
    return {rank: _between(before[rank], now[rank]) for rank in sorted(now.keys() & before.keys())}


# -- what a call does --------------------------------------------------------------------------------------------------

#: A tensor of a census of shapes: `float[8, 4]` of torch, `[8, 4]` of MindSpore. Scalars and lists of them are no tensors.
_TENSOR = re.compile(r"(?P<type>[A-Za-z_][A-Za-z0-9_: ]*)?\[(?P<sizes>[0-9, ]*)\]")
#: Bytes of an element (c10/core/ScalarType.h, as torch names the types in a trace: c10::scalarTypeToTypeMeta(...).name()).
_BYTES = {
    **dict.fromkeys(("bool", "signed char", "unsigned char"), 1),
    **dict.fromkeys(("short int", "short", "c10::Half", "c10::BFloat16"), 2),
    **dict.fromkeys(("double", "long int", "long", "long long", "c10::complex<float>"), 8),
}
_BYTES_OF_FLOAT = 4
#: Products of two matrices and convolutions: they do more with an element than others. `upsample_bilinear2d` is none, and
#: `_native_multi_head_attention` calls the products itself.
_PRODUCT = re.compile(r"mm(_|\b)|matmul|(?<!bi)linear|einsum|(?<!multi_head_)attention", re.IGNORECASE)
_CONVOLUTION = re.compile(r"conv", re.IGNORECASE)
#: Products with an operand before their factors, which is added (addmm, baddbmm, addbmm, _addmm_activation) or whose gradient
#: is wanted (convolution_backward, _scaled_dot_product_flash_attention_backward).
_ADDS = re.compile(r"\badd|\bbadd|_addmm")
_GRADIENT = re.compile(r"_backward|Grad\b")
#: Products of as many operations in an attention: the scores and their product with the values; backward, the scores once
#: more and four gradients (torch/utils/flop_counter.py, sdpa_flop_count and sdpa_backward_flop_count).
_ATTENTION, _ATTENTION_BACKWARD = 2, 5


@cache
def _wrappers() -> frozenset[str]:
    lines = Path(__file__).with_name("torch_wrappers.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def moves_no_data(operator: str) -> bool:
    """Whether an operator of torch only makes a view, or only calls others; autograd's nodes do the latter."""
    return operator in _wrappers() or operator.startswith(("autograd::", "torch::autograd::")) or "Backward" in operator


def is_product(operator: str) -> bool:
    """Whether an operator is a product of matrices, an attention or a convolution, by its name."""
    return _PRODUCT.search(operator) is not None or _CONVOLUTION.search(operator) is not None


def call_work(operator: str, shapes: str, *, by_type: bool) -> float:
    """Return what a call does, in elements of four bytes that it moves, from its recorded shapes and types.

    `CALL_ELEMENTS` for the call itself, the elements of its inputs, and a `FLOPS_PER_ELEMENT`-th of the operations of a
    product. Without `by_type` every element has four bytes.
    """
    if moves_no_data(operator):
        return thresholds.CALL_ELEMENTS
    tensors = _tensors(shapes)
    size = [_BYTES.get(kind, _BYTES_OF_FLOAT) / _BYTES_OF_FLOAT if by_type else 1.0 for kind, _ in tensors]
    elements = math.fsum(one * math.prod(sizes) for one, (_, sizes) in zip(size, tensors, strict=True))
    operations = _operations(operator, [sizes for _, sizes in tensors]) * (size[-1] if size else 1.0)
    return thresholds.CALL_ELEMENTS + elements + operations / thresholds.FLOPS_PER_ELEMENT


def operations_of(operator: str, shapes: str) -> float:
    """Return the floating-point operations of a call by its recorded shapes; 0 if it is no product, or calls others."""
    return 0.0 if moves_no_data(operator) else _operations(operator, [sizes for _, sizes in _tensors(shapes)])


def _tensors(shapes: str) -> list[tuple[str, list[int]]]:
    """Return type and sizes of every tensor in a census of shapes, without scalars."""
    found = []
    for one in _TENSOR.finditer(shapes):
        kind = (one["type"] or "").strip()
        sizes = [int(size) for size in one["sizes"].split(",") if size.strip()]
        if sizes and not kind.startswith("Scalar"):
            found.append((kind, sizes))
    return found


def _operations(operator: str, tensors: list[list[int]]) -> float:
    """Return the floating-point operations of a product or convolution; 0 for others.

    The first two matrices of its inputs are its factors, after one that is added. A product of m x k and k x n does 2 m k n, a
    convolution (of stride 1) does 2 for each weight at each place, and its gradients of input and weight as many each.
    """
    if not is_product(operator):
        return 0.0
    is_gradient = _GRADIENT.search(operator) is not None
    if _ADDS.search(operator):
        tensors = tensors[1:]
    matrices = [one for one in tensors if len(one) >= 2]
    if _CONVOLUTION.search(operator):
        # The gradient, the input, the weight.
        one, other = (matrices[0], matrices[2]) if is_gradient and len(matrices) > 2 else (*matrices, [], [])[:2]
        if not other or "BackpropFilter" in operator:
            # The size of the weight is unknown: its gradient is the product of the input and the gradient of the output.
            return 0.0
        return (4.0 if is_gradient else 2.0) * one[0] * math.prod(one[2:]) * math.prod(other)
    if "attention" in operator.lower():
        times = _ATTENTION_BACKWARD if is_gradient else _ATTENTION
        return times * _product(*matrices[is_gradient:][:2])
    return _product(*matrices[:2])


def _product(one: Sequence[int] = (), other: Sequence[int] = ()) -> float:
    """Return the operations of a product of two matrices, or of batches of them."""
    if not one or not other:
        return 0.0
    common = one[-1] if one[-1] in other[-2:] else one[-2]
    batch = math.prod(other[:-2]) if len(one) > 2 else 1
    return 2.0 * math.prod(one) * math.prod(other) / max(1, common * batch)


# -- two steps ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Side:
    calls: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    #: The calls by shapes, of operators that have any.
    shapes: dict[str, Mapping[str, float]] = field(default_factory=dict)

    def work(self, operator: str, *, with_shapes: bool, by_type: bool) -> float:
        """Return what the calls of an operator in a step do; calls without recorded shapes do as much as the others."""
        calls = self.calls.get(operator, 0)
        shapes = self.shapes.get(operator, {}) if with_shapes else {}
        if not (known := math.fsum(shapes.values())):
            return calls * thresholds.CALL_ELEMENTS
        found = (times * call_work(operator, text, by_type=by_type) for text, times in sorted(shapes.items()))
        return calls * math.fsum(found) / known

    @property
    def operations(self) -> float | None:
        """The operations of the products in a step; None if the shapes of one are unknown."""
        found = []
        for operator, calls in self.calls.items():
            if not calls or moves_no_data(operator) or not is_product(operator):
                continue
            shapes = self.shapes.get(operator, {})
            if not (known := math.fsum(shapes.values())):
                return None
            each = (times * operations_of(operator, text) for text, times in sorted(shapes.items()))
            found.append(calls * math.fsum(each) / known)
        return math.fsum(found)


def _by_rank(measurements: Iterable[Measurement]) -> dict[str, _Side]:
    measurements = tuple(measurements)
    metrics = {one.metric for one in measurements}
    counted = next((name for name in COUNTED if name in metrics), None)
    ranks: dict[str, _Side] = defaultdict(_Side)
    for one in measurements:
        rank, operator = split_rank(one.subject)
        if rank == ALL_RANKS:
            continue
        if one.metric in (counted, "operator_share") and isinstance(one.value, (int, float)):
            values = ranks[rank].calls if one.metric == counted else ranks[rank].shares
            values[operator] = one.value
        elif one.metric == "operator_shapes" and isinstance(one.value, dict):
            ranks[rank].shapes[operator] = one.value
    return ranks


def _between(before: _Side, now: _Side) -> Work:
    is_timed = bool(before.shares)
    total = math.fsum(before.calls.values()) or 1
    costs = before.shares if is_timed else {name: calls / total for name, calls in before.calls.items()}
    with_shapes = bool(before.shapes and now.shapes)
    known = [name for name, calls in before.calls.items() if calls and not moves_no_data(name)] or list(before.calls)

    def unit_cost(new: str) -> float:
        """Return what a unit of work costs in operators like a new one: a product by those of the baseline, if it has any."""
        alike = [name for name in known if is_product(name) is is_product(new)] or known
        units = math.fsum(before.work(name, with_shapes=with_shapes, by_type=True) for name in alike) or 1
        return math.fsum(costs.get(name, 0.0) for name in alike) / units

    cheapest = min((costs.get(name, 0.0) / calls for name, calls in before.calls.items() if calls), default=0.0)

    def cost(name: str, *, by_type: bool) -> float:
        if not before.calls.get(name):
            if moves_no_data(name):
                return cheapest * now.calls.get(name, 0)
            return unit_cost(name) * now.work(name, with_shapes=with_shapes, by_type=by_type)
        on_both = name in before.shapes and name in now.shapes
        was, now_is = (side.work(name, with_shapes=on_both, by_type=by_type) for side in (before, now))
        return costs.get(name, 0.0) * (now_is / was if was else 1.0)

    names = before.calls.keys() | now.calls.keys()
    costs = {name: costs.get(name, 0.0) if before.calls.get(name) else 0.0 for name in names}
    changes = {name: _difference(costs[name], cost(name, by_type=True)) for name in sorted(names)}
    untyped = {name: _difference(costs[name], cost(name, by_type=False)) for name in sorted(before.calls)}
    gone = {name: -change for name, change in untyped.items() if change < 0}
    return Work(
        is_timed=is_timed,
        added={name: change for name, change in changes.items() if change > 0},
        removed={name: -change for name, change in changes.items() if change < 0},
        lost=math.fsum(gone.values()),
        losers=tuple(sorted(gone, key=lambda name: (-gone[name], name))),
        operations=_growth(before.operations, now.operations),
    )


def _growth(before: float | None, now: float | None) -> float:
    if before is None or now is None or now <= before:
        return 0.0
    return now / before - 1 if before else math.inf


def _difference(before: float, now: float) -> float:
    """Return the difference, without what rounding leaves."""
    return 0.0 if math.isclose(before, now, rel_tol=1e-9) else now - before
