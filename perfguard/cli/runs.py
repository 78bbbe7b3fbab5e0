"""Runs read from files, as `perfguard history add` takes them: one from a report, all from an exported history."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.cli.screen import tell_printable
from perfguard.errors import PerfguardError, StoreError, UsageError

if TYPE_CHECKING:
    from perfguard.recording import Provenance
    from perfguard.stores.history.entry import Entry, RunFacts

#: The beginning of an exported history: a list of runs after values that are neither lists nor objects.
_EXPORT = re.compile(r"\s*\{[^{\[]*\"runs\"\s*:\s*\[")


def read_runs(path: Path, *, given: RunFacts) -> tuple[Sequence[Entry], Callable[[Entry], str]]:
    """Return the runs in a file, and a function that names each of them. `given` are the facts given as options.

    Prints what differs in a report of an older perfguard. Raises `StoreError`, also for a report of a newer perfguard: the
    parts that are unknown here could never be added later.
    """
    from perfguard.documents import parsed
    from perfguard.reports.reading import read_run
    from perfguard.stores.history.entry import digest_of, entry_of
    from perfguard.stores.history.exchange import read_entries

    if _is_export(path):
        _refuse_facts_for_an_export(path, given)
        return read_entries(path), lambda entry: f"{path} {entry.digest[:12]}"
    report = read_run(path)
    if report.is_partial:
        raise StoreError(
            f"{path} was written by perfguard {report.written_by}, a newer one, and not all of it could be kept. "
            f"Run: pip install --upgrade perfguard, then add it again"
        )
    digest = digest_of(parsed(path, remedy="Write it again with: pytest --perfguard --perfguard-report FILE"))
    try:
        facts = _facts(report.provenance)
        entry = entry_of(report.verdicts, digest=digest, perfguard=report.written_by, facts=facts)
    except PerfguardError as error:
        raise type(error)(f"{path}: {error}") from error
    for remark in report.remarks:
        tell_printable(remark, err=True)
    return [entry], lambda _: str(path)


def _refuse_facts_for_an_export(path: Path, given: RunFacts) -> None:
    options = {"--commit": given.commit, "--branch": given.branch, "--at": given.committed_at}
    if names := [option for option, value in options.items() if value is not None]:
        raise UsageError(
            f"{path} is an exported history, and each of its runs has a commit, a branch and a time of its own; "
            f"add it without {', '.join(names)}."
        )


def _is_export(path: Path) -> bool:
    """Whether a file begins as an exported history does; the reader of histories then names its errors."""
    if not os.path.isfile(path):
        return False  # opening a pipe without a writer blocks forever
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return _EXPORT.match(file.read(1000)) is not None
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {error.strerror}. Correct that, then run the same command again."
        ) from error


def _facts(provenance: Provenance) -> RunFacts:
    """Return the facts of a report's run; a report of an older perfguard has none."""
    from perfguard.stores.history.entry import RunFacts, instant

    times = {name: getattr(provenance, name) for name in ("committed_at", "finished_at")}
    committed_at, finished_at = (None if one is None else instant(one, where=name) for name, one in times.items())
    return RunFacts(
        commit=provenance.commit,
        branch=provenance.branch,
        ci_url=provenance.ci_url,
        committed_at=committed_at,
        finished_at=finished_at,
    )
