"""The options of an offline analysis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfguard.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisOptions:
    """How to analyse. `steps` are the first and the last, both included; 1 is the first recorded."""

    steps: tuple[int, int] | None = None
    pretty: bool = False
    keep_raw: bool = False
    jobs: int | None = None
    python: Path | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs must be at least 1, got {self.jobs}.")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"--timeout must be greater than 0 seconds, got {self.timeout_s:g}.")
        if self.steps is not None and not 1 <= self.steps[0] <= self.steps[1]:
            raise UsageError(f"{self.steps_text} is not a range: the first step is 1, and STOP is not before START.")

    @property
    def steps_text(self) -> str:
        """The steps as they are given on the command line; empty without any."""
        return "" if self.steps is None else f"--steps {self.steps[0]}:{self.steps[1]}"
