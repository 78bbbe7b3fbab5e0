"""Verdicts of the recordings and reports that a command is called with."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfguard import scratch
from perfguard.artifacts.remote import RemoteTree, local_path
from perfguard.capture.replay import recordings_in, replay, replay_tree, trees_in
from perfguard.cli.project import project_settings
from perfguard.contract.progress import Progress
from perfguard.errors import DamagedError, UsageError
from perfguard.findings import Code, Finding
from perfguard.gate import examine, judge_again
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict, without_run_times
from perfguard.recording import RECORDING_FILE, Provenance, Recording
from perfguard.reports import RunReport
from perfguard.reports.reading import read_report, read_run
from perfguard.stores.project import store_of

#: A recording of this machine, or of another file system.
Place = Path | RemoteTree


def places_in(directory: str) -> Sequence[Place]:
    """Return the recordings in a directory of this machine or of another file system; a file of this machine is one."""
    path = local_path(directory)
    if path is not None and os.path.isfile(path):
        return [path]
    return trees_in(directory) if path is None else recordings_in(path)


@contextmanager
def alone(file: Path) -> Iterator[Path]:
    """Give a directory that holds one file alone, so that it is judged without what lies beside it."""
    with scratch.folder() as place:
        there = place / file.name
        try:
            os.link(os.path.realpath(file), there)
        except OSError:
            # Another file system, or a file of another user.
            try:
                shutil.copyfile(file, there)
            except OSError as error:
                raise UsageError(f"{file} cannot be read: {error.strerror}. Change its permissions.") from error
        yield place


def examined(place: Place, policy: Policy, *, found_in: Path | None = None, **how: Any) -> Verdict:
    """Judge one place by itself; damaged facts of perfguard's own are a finding. A file is judged alone.

    `found_in` is the directory in which it was found, if it was not named. `how` are arguments of `examine`.
    """
    if isinstance(place, Path) and os.path.isfile(place):
        with alone(place) as directory:
            verdict = examined(directory, policy, **how)
        # The directory is gone: what is about all of it is about the file.
        findings = tuple(
            replace(one, place=place.name) if one.place == str(directory) else one for one in verdict.findings
        )
        return replace(verdict, workload=str(place), findings=findings, recording=None)
    tree = None if isinstance(place, Path) else place
    name = str(place) if tree is None else tree.shown
    try:
        recording = replay(place, found_in=found_in) if isinstance(place, Path) else replay_tree(place)
        verdict = examine(recording, workload=_beside(name, recording), policy=policy, tree=tree, **how)
    except DamagedError as error:
        return _damaged(name, error)
    # What lies elsewhere has no path here.
    verdict = replace(verdict, recording=verdict.recording if tree is None else None)
    unknown = not verdict.layouts and verdict.fingerprint is None and not recording.leads_out
    return replace(verdict, outcome=Outcome.INCONCLUSIVE) if unknown else verdict


def _beside(name: str, recording: Recording) -> str:
    """Return the name of a directory, and that what is in it beside its recordings is meant, if it has any."""
    return f"{name} (beside its recordings)" if recording.without else name


def _damaged(name: str, error: DamagedError) -> Verdict:
    # What perfguard wrote beside the profiler's output is part of the recording, and damaged: not a wrong call.
    finding = Finding(code=Code.S101, place=RECORDING_FILE, message=str(error))
    return Verdict(workload=name, outcome=Outcome.INVALID, findings=(finding,))


def verdicts_of(path: Path, policy: Policy, *, progress: Progress | None = None) -> dict[str, Verdict]:
    """Return what a recording's directory or a report file holds, by workload. Raises `UsageError` where there is neither."""
    if os.path.isdir(path):
        verdict = _examined_as_recorded(path, policy, progress)
        return {verdict.workload: verdict}
    found: dict[str, Verdict] = {}
    for verdict in read_report(path):
        if verdict.workload in found:
            # One of them would be judged, and the regression may be in the other.
            raise UsageError(
                f"{path} holds {verdict.workload} twice, as reports of several jobs that were joined do; "
                "compare the reports it was made of, one by one."
            )
        found[verdict.workload] = verdict
    return found


def _examined_as_recorded(
    place: Path, policy: Policy, progress: Progress | None = None, *, found_in: Path | None = None
) -> Verdict:
    recording = replay(place, found_in=found_in)
    workload = recording.fingerprint.workload if recording.fingerprint else _beside(str(place), recording)
    return examine(recording, workload=workload, policy=policy, progress=progress)


def judged(directory: Path) -> list[Verdict]:
    """Return a verdict for every recording in a directory: against its baseline where there is one, else by itself.

    Of several recordings of one workload each tells where it lies. The times of controlled processes are in no recording.
    """
    settings = project_settings()
    store = store_of(settings)
    verdicts: list[tuple[Path, Verdict]] = []
    for place in recordings_in(directory):
        try:
            verdict = _examined_as_recorded(place, settings.policy, found_in=directory)
        except DamagedError as error:
            verdicts.append((place, _damaged(str(place), error)))
            continue
        baseline = store.load(verdict.workload) if verdict.fingerprint is not None else None
        if baseline is not None:
            baseline = without_run_times(baseline)
        again = verdict if baseline is None else judge_again(verdict, baseline, policy=settings.policy)
        verdicts.append((place, again))
    names = Counter(verdict.workload for _, verdict in verdicts)
    return [one if names[one.workload] == 1 else replace(one, origin=str(place)) for place, one in verdicts]


def joined(places: Iterable[Path]) -> RunReport:
    """Return several reports and recordings as one report; a workload that is in two of them tells its file."""
    every = {place: _report(place) for place in places}
    if len(every) == 1:
        return every.popitem()[1]
    reports = every.values()
    names = Counter(verdict.workload for one in reports for verdict in one.verdicts)
    told = [
        verdict if names[verdict.workload] == 1 else replace(verdict, origin=_origin(verdict, place))
        for place, one in every.items()
        for verdict in one.verdicts
    ]
    # A recording that is named, and whose directory is named as well, is one.
    verdicts = {(verdict.workload, verdict.origin): verdict for verdict in told}
    origins = {one.provenance for one in reports}
    writers = {one.written_by for one in reports}
    return RunReport(
        verdicts=tuple(verdicts[key] for key in sorted(verdicts)),
        unused=tuple(sorted({name for one in reports for name in one.unused})),
        not_run=tuple(sorted({name for one in reports for name in one.not_run})),
        provenance=origins.pop() if len(origins) == 1 else Provenance(),
        written_by=writers.pop() if len(writers) == 1 else "",
        remarks=tuple(remark for one in reports for remark in one.remarks),
        is_partial=any(one.is_partial for one in reports),
    )


def _origin(verdict: Verdict, place: Path) -> str:
    """Return where a verdict is from: a file that was itself joined, or a directory of many, has told already."""
    known = verdict.origin
    return str(place) if not known else known if Path(known).is_relative_to(place) else f"{known} in {place}"


def _report(place: Path) -> RunReport:
    """Return the content of a report file or of a directory. Raises `UsageError` where there is neither."""
    return RunReport(verdicts=tuple(judged(place))) if os.path.isdir(place) else read_run(place)
