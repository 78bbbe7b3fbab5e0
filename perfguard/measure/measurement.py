"""A measurement: what was asked, of which subject, and the number; and what a metric declares about itself."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

#: A number, a sorted list of names, or a census (text -> number).
Value = float | int | list[str] | dict[str, float]


class Kind(Enum):
    """The two classes of metric."""

    #: The same in every run of unchanged code; gated at zero, on any machine.
    EXACT = "exact"
    #: Moves with the machine; judged with a tolerance, on the same machine only.
    TIMED = "timed"


class Better(Enum):
    """Which direction of a metric is good."""

    LOWER = "lower"
    HIGHER = "higher"
    #: Neither: a difference is a change, and by itself neither worse nor better.
    EQUAL = "equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What can be asked. `relative`, `absolute` (in `unit`) and `warn_relative` are its default tolerance.

    An infinite `relative` never fails, it only warns.

    A metric that is not `gated` is shown and ranked, but decides nothing unless the user names it in the settings; nor does
    it on the backends of `shown_on`. One that is measured `by_run` has one sample a process. `causes` says what makes it
    worse, where its unit does not tell.
    """

    name: str
    unit: str
    kind: Kind
    better: Better
    meaning: str
    relative: float = 0.0
    absolute: float = 0.0
    warn_relative: float | None = None
    gated: bool = True
    shown_on: frozenset[str] = frozenset()
    by_run: bool = False
    causes: str = ""

    @property
    def only_changes(self) -> bool:
        """Whether a difference is a change, and neither worse nor better: exact, and no side is the good one."""
        return self.kind is Kind.EXACT and self.better is Better.EQUAL


@dataclass(frozen=True, slots=True)
class Statistics:
    """Minimum, median and 90th percentile of samples (linear interpolation between order statistics)."""

    minimum: float
    median: float
    p90: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Statistics:
        """Compute them; raises `ValueError` for no samples."""
        if not samples:
            raise ValueError("statistics of no samples")
        p90 = statistics.quantiles(samples, n=10, method="inclusive")[8] if len(samples) > 1 else samples[0]
        return cls(min(samples), statistics.median(samples), p90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number (or list, or census). `subject` is the operator, device or empty; `rank1:` leads it for other ranks.

    For timed metrics `value` is the best of `samples` (the minimum, where less is better), the most repeatable statistic of
    a step window.
    """

    metric: str
    subject: str
    value: Value
    samples: tuple[float, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What identifies a measurement inside a workload."""
        return self.metric, self.subject

    @property
    def label(self) -> str:
        """How it is written: `operator_time[MatMul]`, `step_time`."""
        return label(self.metric, self.subject)

    @property
    def statistics(self) -> Statistics | None:
        """Minimum, median and p90 of the samples, where there are any."""
        return Statistics.of(self.samples) if self.samples else None

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as baselines and reports keep it."""
        plain: dict[str, Any] = {"metric": self.metric, "subject": self.subject, "value": self.value}
        if (found := self.statistics) is not None:
            plain |= {"samples": list(self.samples), "median": found.median, "p90": found.p90}
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Measurement:
        """Invert `as_dict`; median and p90 are computed anew."""
        return cls(
            metric=plain["metric"],
            subject=plain["subject"],
            value=plain["value"],
            samples=tuple(plain.get("samples", ())),
        )


#: A subject of one rank; that of all ranks together begins with `ranks:`.
_ONE_RANK = re.compile(r"rank(\d+)(?::(.*))?\Z", re.DOTALL)


def rank_of(subject: str) -> tuple[int, str] | None:
    """Split `rank3:MatMul` into 3 and `MatMul`, and `rank3` into 3 and nothing; None for what is of no single rank."""
    found = _ONE_RANK.match(subject)
    return None if found is None else (int(found[1]), found[2] or "")


#: What leads a number of all ranks together: a job does all of their work, and waits for the slowest.
ALL_RANKS = "ranks:"
_LED = re.compile(r"(rank(?:\d+|s):)?(.*)\Z", re.DOTALL)


def split_rank(subject: str) -> tuple[str, str]:
    """Split `rank1:aten::mm` into `rank1:` and `aten::mm`; where there is one rank nothing leads the operator."""
    found = _LED.match(subject)
    assert found is not None
    return found[1] or "", found[2]


def label(metric: str, subject: str) -> str:
    """Write a metric and its subject the way messages and settings do."""
    return f"{metric}[{subject}]" if subject else metric
