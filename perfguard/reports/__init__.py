"""Reports: a verdict made visible. The only place that lays out what people and CI see; findings bring their sentence.

What goes in: verdicts. What comes out: text or a document. To add one: a class that keeps `Reporter`, and a line in
`REPORTERS`, or in another distribution an entry point in `perfguard.reporters`. Files are requested by its name (`files`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Protocol

from perfguard.errors import UsageError
from perfguard.extensions import Registry
from perfguard.judge import Coverage, Outcome, Verdict
from perfguard.judge.trend import Trend
from perfguard.recording import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Everything one run came to. `unused` are baselines whose test is gone, `not_run` tests that were skipped."""

    verdicts: tuple[Verdict, ...]
    unused: tuple[str, ...] = ()
    #: Places to rename, old and new, where unused baselines look like what tests without a baseline measured.
    moves: tuple[tuple[str, str], ...] = ()
    not_run: tuple[str, ...] = ()
    #: Whether the user switched times off, so that none is compared.
    is_time_off: bool = False
    #: What the gate says of its own error rate, where it was calibrated; else empty.
    error_rate: str = ""
    #: Where the run comes from, as far as anybody knows.
    provenance: Provenance = field(default_factory=Provenance)
    #: The perfguard that wrote it, where it was read from a file; and what the reader has to say of the file.
    written_by: str = ""
    #: What a history says of these workloads, where one was asked.
    trends: tuple[Trend, ...] = ()
    remarks: tuple[str, ...] = ()
    #: Whether a newer perfguard wrote it, so that something may have been left out.
    is_partial: bool = False

    @property
    def coverage(self) -> Coverage:
        """Sum over the verdicts."""
        return sum((verdict.coverage for verdict in self.verdicts), Coverage())

    @property
    def outcomes(self) -> dict[str, int]:
        """How many verdicts of each outcome."""
        return dict(Counter(verdict.outcome.value for verdict in self.verdicts))


#: In which order outcomes are told: what somebody has to act on comes first.
OUTCOME_ORDER = (Outcome.FAILED, Outcome.INVALID, Outcome.INCONCLUSIVE, Outcome.CHANGED, Outcome.PASSED)


def by_outcome(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return verdicts by outcome, as `OUTCOME_ORDER` has them, and then by name."""
    return sorted(verdicts, key=lambda one: (OUTCOME_ORDER.index(one.outcome), one.workload, one.origin))


class Reporter(Protocol):
    """A format of report files. It is made before anything runs, and then raises `UsageError` for what it lacks."""

    def text(self, report: RunReport) -> str:
        """Return what is written to the file."""


@dataclass(frozen=True, slots=True)
class FunctionReporter:
    """A reporter that is one function."""

    text: Callable[[RunReport], str]


def require_page() -> None:
    """Raise `UsageError` where the packages that the page is made with are not installed: before anything runs."""
    if find_spec("plotly") is None or find_spec("jinja2") is None:
        raise UsageError(
            "the page is made with plotly and Jinja2, which are not installed; run: pip install 'perfguard[html]'"
        )


REPORTERS: Registry[Callable[[], Reporter]] = Registry(
    "reporters",
    {
        "terminal": "perfguard.reports.terminal:TerminalReporter",
        "json": "perfguard.reports.document:JsonReporter",
        "html": "perfguard.reports.page:page_reporter",
        "markdown": "perfguard.reports.markdown:MarkdownReporter",
        "metrics": "perfguard.reports.openmetrics:MetricsReporter",
        "sarif": "perfguard.reports.sarif:SarifReporter",
    },
)
