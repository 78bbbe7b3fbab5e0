"""The forms of MindSpore's flat `profiler/` directory, and the runs of each operator that its files add up."""

from __future__ import annotations

from dataclasses import dataclass

from perfguard.testing.truth import Kernel, Operator, Rank, Truth

STREAM = 519

#: The device's clock at the start of the window, in nanoseconds.
_DEVICE_START = 154_907_895_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form of the files: the version of MindSpore ("1.3", "1.9", "2.0", "2.1" or "2.3"), and a variant."""

    version: str
    #: "kernel-names" (kernel for op in names of columns), "inference" (no backward pass), "documented" (2.3 as in its
    #: documents, where they differ from its source).
    variant: str = ""

    @property
    def since_2_1(self) -> bool:
        """Whether the files are made from msprof's op_summary: times in microseconds."""
        return self.version in ("2.1", "2.3")

    @property
    def before_2_0(self) -> bool:
        """Whether it is 1.x."""
        return self.version.startswith("1.")

    @property
    def kernels(self) -> bool:
        """Whether columns name kernels, not operators."""
        return self.version == "2.3" or self.variant == "kernel-names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """All runs of one operator's kernel."""

    operator: Operator
    kernels: list[Kernel]

    @property
    def name(self) -> str:
        """The operator's full name."""
        return self.operator.full_name

    @property
    def total_ns(self) -> int:
        """Their time together."""
        return sum(one.duration_ns for one in self.kernels)

    @property
    def mean_ns(self) -> float:
        """Their mean time."""
        return self.total_ns / len(self.kernels)


def operator_runs(truth: Truth, rank: Rank) -> list[Runs]:
    """Return the runs of each operator, in the order of the model."""
    return [Runs(operator=one, kernels=kernels) for one, kernels in truth.by_operator(rank.kernels).items()]


def device_ns(rank: Rank, ns: int) -> int:
    """Convert UNIX time to the device's clock, a multiple of its ticks of 10 ns."""
    return (ns - rank.start_ns) // 10 * 10 + _DEVICE_START
