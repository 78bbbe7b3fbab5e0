"""Measurements: a metric, a subject and a number; and the description of a metric."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Container, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

#: A number, a sorted list of names, or a census (text -> number).
Value = float | int | list[str] | dict[str, float]
#: The same, or the samples of a number.
Samples = Value | tuple[float, ...]


def number(value: object) -> float | None:
    """Return a value if it is a number; else None."""
    return value if isinstance(value, (int, float)) else None


def finite(value: object) -> float | None:
    """Return a value if it is a finite number, and no boolean; else None."""
    return None if isinstance(value, bool) or not math.isfinite(number(value) or 0) else number(value)


class Kind(Enum):
    """The two classes of metric."""

    #: The same in every run of unchanged code; judged without a tolerance, on any machine.
    EXACT = "exact"
    #: Depends on the machine; judged with a tolerance, on the same machine only.
    TIMED = "timed"


class Better(Enum):
    """The good direction of a metric."""

    LOWER = "lower"
    HIGHER = "higher"
    #: Neither: a difference is a change, and by itself not worse or better.
    EQUAL = "equal"


class Join(Enum):
    """How the values of several cycles of a rank, or those of all ranks, become one."""

    #: The samples of each, of a timed metric; of exact numbers the mean.
    EACH = "each"
    #: The sum; of the cycles only where each has one.
    SUM = "sum"
    #: The sum, divided by the steps of all cycles where these are known.
    PER_STEP = "per step"
    #: The largest; of samples those whose smallest is the largest.
    LARGEST = "largest"
    #: The largest but that of the very first step, if there is another; a value is a pair, of the first step and the others.
    LARGEST_BUT_FIRST = "largest but the first"
    #: The median of the steps; where a cycle has only a sum, because its steps differ, the sum of all, divided by the steps.
    MEDIAN = "median"
    #: The same of what a step may lack: a cycle without the subject has none of it in any step. A step of which it is not known
    #: makes all of it unknown.
    MEDIAN_OF_ALL = "median of all"
    #: All names.
    UNION = "union"
    #: The one of the first.
    FIRST = "first"
    #: The one of the cycle with the fastest profiled step.
    FASTEST = "fastest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric. `relative`, `absolute` (in `unit`) and `warn_relative` are its default tolerance.

    `subject` is what a measurement is about, such as an operator; empty for a number of the whole workload, or of a rank. With
    an infinite `relative` it never fails, it only warns.

    A metric that is not `gated` is shown and ranked, and judged only if the settings name it; the same holds on the backends
    of `shown_on`. A metric that is measured `by_run` has one sample a process. `causes` names causes of a worse value.

    `cycles` joins the cycles of a rank; `ranks` those of a job to one more measurement, where it has one.

    `noun` begins a sentence about it, with `{}` for the subject. `of_workload`: it is of a workload as a whole, its steps, time
    or memory, and so comes before what is of parts. `leads`: its place among those that a headline may begin with, the most
    interesting first; 0 for none. `for_device` is the good direction of a metric that only changes, where the model is meant
    for a device.

    A subject that is not there is 0 where `zero_with` was measured, of any subject: of copies where kernels were counted, as a
    kind of copy that did not run has no row. It is not where `unknown_with` was measured of it: copies whose bytes are unknown.
    """

    name: str
    unit: str
    kind: Kind
    better: Better
    meaning: str
    subject: str = ""
    relative: float = 0.0
    absolute: float = 0.0
    warn_relative: float | None = None
    gated: bool = True
    shown_on: frozenset[str] = frozenset()
    by_run: bool = False
    causes: str = ""
    cycles: Join = Join.EACH
    ranks: Join | None = None
    noun: str = ""
    of_workload: bool = False
    leads: int = 0
    for_device: Better | None = None
    zero_with: str = ""
    unknown_with: str = ""

    @property
    def only_changes(self) -> bool:
        """Whether a difference is a change, and not worse or better."""
        return self.kind is Kind.EXACT and self.better is Better.EQUAL

    def is_zero(self, subject: str, *, measured: Container[str], of_subjects: Container[tuple[str, str]]) -> bool:
        """Whether a subject that is not there is 0, where these metrics were measured, and these of their subjects."""
        return self.zero_with in measured and (self.unknown_with, subject) not in of_subjects


def per_step(count: float, steps: int | None) -> float:
    """Return a count of the window a step; the count itself if its steps are unknown."""
    if not steps:
        return count
    return count // steps if count % steps == 0 else count / steps


def p90(samples: Sequence[float]) -> float:
    """Return the 90th percentile of at least one sample (linear interpolation between order statistics)."""
    return statistics.quantiles(samples, n=10, method="inclusive")[8] if len(samples) > 1 else samples[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number (or list, or census). `subject` is an operator, a device or empty; with several ranks it begins with `rank1:`.

    For timed metrics `value` is the best of `samples` (the minimum if less is better), the most repeatable statistic of a step
    window.
    """

    metric: str
    subject: str
    value: Value
    samples: tuple[float, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The identity of a measurement inside a workload."""
        return self.metric, self.subject

    @property
    def label(self) -> str:
        """The name in messages: `operator_time[MatMul]`, `step_time`."""
        return label(self.metric, self.subject)

    def as_dict(self) -> dict[str, Any]:
        """Plain form, as baselines and reports keep it."""
        plain: dict[str, Any] = {"metric": self.metric, "subject": self.subject, "value": self.value}
        if self.samples:
            plain |= {
                "samples": list(self.samples),
                "median": statistics.median(self.samples),
                "p90": p90(self.samples),
            }
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Measurement:
        """Invert `as_dict`; median and p90 are computed anew."""
        kept = {name: plain[name] for name in ("metric", "subject", "value")}
        return cls(**kept, samples=tuple(plain.get("samples", ())))


#: A subject of one rank; a subject of all ranks together begins with `ranks:`.
_ONE_RANK = re.compile(r"rank(\d+)(?::(.*))?\Z", re.DOTALL)


def rank_of(subject: str) -> tuple[int, str] | None:
    """Split `rank3:MatMul` into 3 and `MatMul`, and `rank3` into 3 and an empty text; None for other subjects."""
    found = _ONE_RANK.match(subject)
    return None if found is None else (int(found[1]), found[2] or "")


#: Prefix of the subjects of all ranks together: a job does all of their work, and waits for the slowest.
ALL_RANKS = "ranks:"
_LED = re.compile(r"(rank(?:\d+|s):)?(.*)\Z", re.DOTALL)


def split_rank(subject: str) -> tuple[str, str]:
    """Split `rank1:aten::mm` into `rank1:` and `aten::mm`; the prefix is empty with a single rank."""
    found = _LED.match(subject)
    assert found is not None
    return found[1] or "", found[2]


def is_like(name: str, glob: str) -> bool:
    """Whether the name of an operator or a kernel matches a glob of `*` and `?`; brackets are part of such names."""
    return fnmatchcase(name, glob.replace("[", "[[]"))


def label(metric: str, subject: str) -> str:
    """Return a metric and its subject as messages and settings write them."""
    return f"{metric}[{subject}]" if subject else metric
