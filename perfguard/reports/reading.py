"""Report files read back: whole, or without the parts of a newer perfguard that this one does not know."""

from __future__ import annotations

import os
from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from perfguard.documents import checked, format_of, newest_format, parsed, schema
from perfguard.errors import PerfguardError, StoreError, UsageError
from perfguard.findings import is_code
from perfguard.judge.verdict import Verdict
from perfguard.measure import METRICS
from perfguard.recording import Provenance
from perfguard.reports import RunReport
from perfguard.reports.document import verdict_from_document
from perfguard.validator import Validator
from perfguard.version import __version__, upgrade_command

_REMEDY = "Write it again with: pytest --perfguard --perfguard-report FILE"
#: Lists of a workload whose items are independent: an unknown one is left out, and counted.
_LISTS = frozenset({"findings", "comparisons", "measurements", "timings", "lost_runs", "steps", "memory", "tolerance"})
#: The parts of a workload without which it is left out.
_VITAL = ["workload", "outcome"]
#: Most validations of a document; each one may find more after something was left out.
_ROUNDS = 20
Place = tuple[str | int, ...]


def read_report(path: Path) -> tuple[Verdict, ...]:
    """Read the verdicts of a report file, to judge by them. Raises `StoreError`, also for one of a newer perfguard: only
    a part of it can be read."""
    return _run_report(path, checked(path, _parsed(path), "report", remedy=_REMEDY)).verdicts


def read_run(path: Path) -> RunReport:
    """Read a report file of any perfguard, to show or to keep it; `remarks` say what was left out, and why.

    Raises `StoreError` for a file that is damaged, or not a report.
    """
    document = _parsed(path)
    number, newest = format_of(document), newest_format("report")
    version = document.get("perfguard") if isinstance(document, dict) else None
    writer = f"perfguard {version}" if isinstance(version, str) else "a newer perfguard"
    age = "a newer" if number > newest else "an older"
    written = f"{path} was written by {writer}, {age} one (format {number}; this is {__version__}, format {newest})"
    if number <= newest:
        older = f"{written}: it knows no steps, no memory over the window, and no limits"
        remarks = () if number in (0, newest) else (older,)
        return _run_report(path, checked(path, document, "report", remedy=_REMEDY), remarks=remarks)
    try:
        left_out = _leave_out_unknown(document)
        what = ", ".join(f"{count} x {name}" for name, count in sorted(left_out.items())) or "nothing of what it says"
        remark = f"{written}, so this was left out: {what}. All of it is shown after: {upgrade_command()}"
        return replace(_run_report(path, document, remarks=(remark,)), is_partial=True)
    except (StoreError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path} was written by {writer}, in format {number}, of which this perfguard ({__version__}, format {newest}) can "
            f"read nothing. Run: {upgrade_command()}"
        ) from error


def _parsed(path: Path) -> Any:
    """Return the content of a report file. Raises `UsageError` for a missing file, `StoreError` for a baseline or a trace."""
    if not os.path.exists(path):  # unlike Path.exists, False for a name that no file system accepts
        raise UsageError(f"{path} does not exist; write a report with: pytest --perfguard --perfguard-report {path}")
    document = parsed(path, remedy=_REMEDY)
    if isinstance(document, list) or (isinstance(document, dict) and "traceEvents" in document):
        raise StoreError(f"{path} is not a report; if a profiler wrote it, name its directory instead. {_REMEDY}")
    if isinstance(document, dict) and "measurements" in document and "workloads" not in document:
        raise StoreError(f"{path} is a baseline, not a report; compare with it by: perfguard baseline diff REPORT")
    return document


def _run_report(path: Path, document: dict[str, Any], *, remarks: tuple[str, ...] = ()) -> RunReport:
    try:
        verdicts = tuple(verdict_from_document(one) for one in document["workloads"])
    except (KeyError, TypeError, ValueError, PerfguardError) as error:
        # A code or a window that this version does not know: the schema cannot list what a later one may add.
        raise StoreError(f"{path} holds what this perfguard does not know: {error}. {_REMEDY}") from error
    summary = document.get("summary", {})
    return RunReport(
        verdicts=verdicts,
        unused=tuple(summary.get("unused", ())),
        not_run=tuple(summary.get("not_run", ())),
        provenance=Provenance(**document.get("run", {})),
        written_by=document["perfguard"],
        remarks=(*remarks, *summary.get("remarks", ())),
    )


# -- of newer versions -----------------------------------------------------------------------------------------------


def _leave_out_unknown(document: Any) -> Counter[str]:
    """Delete, in place, the parts of a newer document that the schema of this version does not allow; return their counts."""
    if not isinstance(document, dict):
        raise ValueError("it is not an object")
    document["format"] = newest_format("report")
    known = deepcopy(schema("report"))
    known["properties"]["workloads"]["items"]["required"] = _VITAL
    validator = Validator(known)
    left_out: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        doomed: dict[Place, str] = {}
        for error in validator.errors(document):
            place = tuple(error.absolute_path)
            if error.validator == "additionalProperties":
                properties = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
                found: Any = error.instance
                doomed |= {(*place, key): key for key in found if key not in properties}
            else:
                doomed |= [_item_of(place)]
        if not doomed:
            break
        # Parts of a deleted part need no deletion. From the last to the first, so that places in lists stay right.
        outer = [place for place in doomed if not any(place[:length] in doomed for length in range(1, len(place)))]
        for place in sorted(outer, key=lambda place: [str(part).zfill(9) for part in place], reverse=True):
            left_out[doomed[place]] += 1
            holder = reduce(getitem, place[:-1], document)
            del holder[place[-1]]
    for one in document["workloads"]:
        _keep_findings_as_notes(one, left_out)
    return left_out


def _item_of(place: Place) -> tuple[Place, str]:
    """Return the part to delete for an error at `place` (a list item, a part of a workload, or all of it) and its name."""
    if len(place) < 2:
        raise ValueError("the document has another form")
    if place[0] != "workloads":
        return place[:2], str(place[0])
    if len(place) == 2 or place[2] in _VITAL:
        return place[:2], "workload"
    return place[: 4 if place[2] in _LISTS else 3], str(place[2])


def _keep_findings_as_notes(workload: dict[str, Any], left_out: Counter[str]) -> None:
    """Turn findings and tolerances of unknown codes and metrics into notes; the document has the outcome they led to."""
    findings, tolerances = workload.get("findings", []), workload.get("tolerance", {})
    unknown = [one for one in findings if not is_code(one["code"])]
    notes = [f"{one['code']} {one['headline']}: {one['message']}" for one in unknown]
    rules = [name for name in tolerances if name.partition("[")[0] not in METRICS]
    notes += [f"a tolerance of {name}: {tolerances.pop(name)}" for name in rules]
    workload["findings"] = [one for one in findings if is_code(one["code"])]
    workload["ignore"] = [one for one in workload.get("ignore", ()) if is_code(one, beginning=True)]
    workload["notes"] = [*notes, *workload.get("notes", ())]
    if unknown:
        left_out["findings, which are among the notes"] += len(unknown)
