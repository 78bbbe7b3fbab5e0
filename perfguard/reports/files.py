"""Files of reports, requested as FORMAT:FILE: checked before anything runs, written when it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfguard.documents import write_atomically
from perfguard.errors import PerfguardError, UsageError
from perfguard.reports import REPORTERS, Reporter, RunReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFile:
    """A file, and what writes it. `option` is what requested it, as messages name it."""

    format: str
    path: Path
    option: str
    reporter: Reporter

    def write(self, report: RunReport) -> None:
        """Write the file, whole or not at all. Raises `StoreError`, and `UsageError` for a reporter that fails."""
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
    """Return the file with its reporter. Raises `UsageError` for a format that is not known, or that cannot be written here."""
    made = REPORTERS[form]
    with _of_the_reporter(form, option):
        reporter = made()
    if not callable(getattr(reporter, "text", None)):
        raise UsageError(f"the reporter {form!r} has no method text(report); mend it, or leave out {option}.")
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
            f"the reporter {form!r} failed ({type(error).__name__}: {error}); mend it, or leave out {option}."
        ) from error
