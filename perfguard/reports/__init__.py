"""Reports: a verdict made visible. The only place that lays out what people and CI see; findings bring their sentence.

What goes in: verdicts. What comes out: text or a document. To add one: a class that keeps `Reporter`, and a line in
`REPORTERS`, or in another distribution an entry point in `perfguard.reporters`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from perfguard.errors import PerfguardError, UsageError
from perfguard.extensions import Registry
from perfguard.judge.comparison import State
from perfguard.judge.trend import Trend
from perfguard.judge.verdict import Coverage, Outcome, Verdict
from perfguard.recording import Provenance
from perfguard.version import install_command
from perfguard.writing import write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The result of a run. `unused` are baselines whose test is gone, `not_run` tests that were skipped."""

    verdicts: tuple[Verdict, ...]
    unused: tuple[str, ...] = ()
    #: Places to rename, old and new, where unused baselines look like what tests without a baseline measured.
    moves: tuple[tuple[str, str], ...] = ()
    not_run: tuple[str, ...] = ()
    #: Whether the user switched times off.
    is_time_off: bool = False
    #: The sentence about the calibrated error rate; empty without a calibration.
    error_rate: str = ""
    provenance: Provenance = field(default_factory=Provenance)
    #: Of a report that was read from a file: the version that wrote it.
    written_by: str = ""
    #: The trends of these workloads in a history, if one was given.
    trends: tuple[Trend, ...] = ()
    #: What the run says beside its verdicts, after remarks on the file that it was read from.
    remarks: tuple[str, ...] = ()
    #: Whether a newer perfguard wrote it, so that parts may be missing.
    is_partial: bool = False

    @property
    def coverage(self) -> Coverage:
        """Sum over the verdicts."""
        return sum((verdict.coverage for verdict in self.verdicts), Coverage())

    @property
    def leaves_out_time_alone(self) -> bool:
        """Whether times are off, and nothing else was left uncompared: no metric that a baseline lacks."""
        left = (one for verdict in self.verdicts for one in verdict.comparisons if one.state is State.NOT_COMPARABLE)
        return self.is_time_off and not any(one.is_new for one in left)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many verdicts of each outcome."""
        return dict(Counter(verdict.outcome.value for verdict in self.verdicts))


#: The order of outcomes in reports: those that need an action first.
OUTCOME_ORDER = (Outcome.FAILED, Outcome.INVALID, Outcome.INCONCLUSIVE, Outcome.CHANGED, Outcome.PASSED)


def by_outcome(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return verdicts in `OUTCOME_ORDER`, then by name."""
    return sorted(verdicts, key=lambda one: (OUTCOME_ORDER.index(one.outcome), one.workload, one.origin))


class Reporter(Protocol):
    """A format of report files. It is made before anything runs, and then raises `UsageError` for what it lacks."""

    def text(self, report: RunReport) -> str:
        """Return the content of the file."""


@dataclass(frozen=True, slots=True)
class FunctionReporter:
    """A reporter that is one function."""

    text: Callable[[RunReport], str]


def require_page() -> None:
    """Raise `UsageError` if Jinja2, which makes the page, is not installed."""
    if find_spec("jinja2") is None:
        raise UsageError(f"the page is made with Jinja2, which is not installed; run: {install_command('html')}")


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


# -- files: requested as FORMAT:FILE, checked before anything runs, written when it has ended ------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFile:
    """A file and its reporter; `option` is the name of the option in messages."""

    format: str
    path: Path
    option: str
    reporter: Reporter

    def write(self, report: RunReport) -> None:
        """Write the file atomically. Raises `StoreError`, and `UsageError` for a reporter that fails."""
        with _of_the_reporter(self.format, self.option):
            text = self.reporter.text(report)
        write_atomically(self.path, text)


def split(requested: str, *, option: str) -> tuple[str, str]:
    """Return format and file of `FORMAT:FILE`. Raises `UsageError`."""
    form, colon, file = requested.partition(":")
    if not colon or not form or not file:
        known = ", ".join(REPORTERS)
        raise UsageError(
            f"{option} takes FORMAT:FILE, such as json:report.json, got {requested!r}; formats are {known}."
        )
    return form, file


def report_file(form: str, path: Path, *, option: str) -> ReportFile:
    """Return the file with its reporter. Raises `UsageError` for an unknown format, or one that cannot be written here."""
    made = REPORTERS[form]
    with _of_the_reporter(form, option):
        reporter = made()
    if not callable(getattr(reporter, "text", None)):
        raise UsageError(f"the reporter {form!r} has no method text(report); correct it, or leave out {option}.")
    return ReportFile(format=form, path=path, option=option, reporter=reporter)


@contextmanager
def _of_the_reporter(form: str, option: str) -> Iterator[None]:
    """Name the reporter that failed."""
    try:
        yield
    except PerfguardError:
        raise
    except Exception as error:
        raise UsageError(
            f"the reporter {form!r} failed ({type(error).__name__}: {error}); correct it, or leave out {option}."
        ) from error
