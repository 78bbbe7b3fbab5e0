"""A report file read again: whole, or as far as this perfguard knows what a newer one wrote."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfguard.documents import checked, format_of, newest_format, parsed, schema, sized_number
from perfguard.errors import PerfguardError, StoreError, UsageError
from perfguard.findings import is_code
from perfguard.judge import Verdict
from perfguard.measure import METRICS
from perfguard.recording import Provenance
from perfguard.reports import RunReport
from perfguard.reports.document import verdict_from_document
from perfguard.validator import Validator
from perfguard.version import __version__

_REMEDY = "Write it again with: pytest --perfguard --perfguard-report FILE"


def read_report(path: Path) -> tuple[Verdict, ...]:
    """Read the verdicts of a report file, to judge by them: one of a newer perfguard is refused, for half of what was measured
    is not to be judged. Raises `StoreError`."""
    document = _parsed(path)
    return _run_report(path, checked(path, document, "report", remedy=_REMEDY)).verdicts


def read_run(path: Path) -> RunReport:
    """Read a report file to show or to keep it, of whichever perfguard; `remarks` say what could not be read, and why.

    Raises `StoreError` for a file that is no report, or damaged.
    """
    document = _parsed(path)
    number, newest = format_of(document), newest_format("report")
    if number <= newest:
        older = () if number in (0, newest) else (_of_an_older(path, document, number, newest),)
        return _run_report(path, checked(path, document, "report", remedy=_REMEDY), remarks=older)
    try:
        left_out = _leave_out_what_is_not_known(document)
        remark = _of_a_newer(path, document, number, newest, left_out)
        return replace(_run_report(path, document, remarks=(remark,)), is_partial=True)
    except (StoreError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path} was written by {_writer(document)}, in format {number}, of which this perfguard "
            f"({__version__}, format {newest}) can read nothing. Run: pip install --upgrade perfguard"
        ) from error


def _parsed(path: Path) -> Any:
    """Return the content of a report file. Raises `UsageError` for a missing file, `StoreError` for a baseline or a trace."""
    if not os.path.exists(path):  # unlike Path.exists, False for a name that no file system accepts
        raise UsageError(f"{path} does not exist; write a report with: pytest --perfguard --perfguard-report {path}")
    document = parsed(path, remedy=_REMEDY, whole=sized_number)
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
        remarks=remarks,
    )


# -- of other versions -----------------------------------------------------------------------------------------------


def _writer(document: Any) -> str:
    version = document.get("perfguard") if isinstance(document, dict) else None
    return f"perfguard {version}" if isinstance(version, str) else "a newer perfguard"


def _of_an_older(path: Path, document: Any, number: int, newest: int) -> str:
    return (
        f"{path} was written by {_writer(document)}, an older one (format {number}; this is {__version__}, format "
        f"{newest}): it knows no steps, no memory over the window, and no limits"
    )


def _of_a_newer(path: Path, document: Any, number: int, newest: int, left_out: Counter[str]) -> str:
    what = ", ".join(f"{count} x {name}" for name, count in sorted(left_out.items())) or "nothing of what it says"
    return (
        f"{path} was written by {_writer(document)}, a newer one (format {number}; this is {__version__}, format "
        f"{newest}), so this was left out: {what}. All of it is shown after: pip install --upgrade perfguard"
    )


#: Lists of a workload whose items stand alone: one that is not known is left out, and counted.
_LISTS = frozenset({"findings", "comparisons", "measurements", "timings", "lost_runs", "steps", "memory", "tolerance"})
#: Parts of a workload without which there is no verdict to show.
_VITAL = frozenset({"workload", "outcome"})
#: How often the document is looked at again after something was left out of it.
_ROUNDS = 20
Place = tuple[str | int, ...]


def _leave_out_what_is_not_known(document: Any) -> Counter[str]:
    """Take out of a newer document, in place, what the schema of this version does not know; returns what, and how often."""
    left_out: Counter[str] = Counter()
    if not isinstance(document, dict):
        raise ValueError("it is no object")
    document["format"] = newest_format("report")
    validator = Validator(schema("report"))
    for _ in range(_ROUNDS):
        errors = list(validator.errors(document))
        if not errors:
            break
        for error in errors:
            if error.validator == "additionalProperties":
                known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
                _take_keys(document, tuple(error.absolute_path), known, left_out)
        doomed = {_item_of(tuple(e.absolute_path)) for e in errors if e.validator != "additionalProperties"}
        # What goes with a workload needs no care of its own. From the last to the first, so that places in lists stay true.
        outer = {place for place in doomed if not any(place[:length] in doomed for length in range(1, len(place)))}
        for place in sorted(outer, key=_order, reverse=True):
            _take(document, place, left_out)
    for one in document["workloads"]:
        _keep_findings_as_notes(one, left_out)
    return left_out


def _order(place: Place) -> list[tuple[str, int]]:
    """Order places part by part, numbers by their size."""
    return [("", part) if isinstance(part, int) else (part, 0) for part in place]


def _take_keys(document: Any, place: Place, known: dict[str, Any], left_out: Counter[str]) -> None:
    found = _at(document, place)
    for key in [key for key in found if key not in known]:
        del found[key]
        left_out[key] += 1


def _item_of(place: Place) -> Place:
    """Return what has to go where something at `place` is not known: an item of a list, a part of a workload, or all of it."""
    if len(place) >= 4 and place[0] == "workloads" and place[2] in _LISTS:
        return place[:4]
    if len(place) >= 3 and place[0] == "workloads":
        return place[:2] if place[2] in _VITAL else place[:3]
    return place[:2]


def _take(document: Any, place: Place, left_out: Counter[str]) -> None:
    """Take one item out; a part of a workload that has to be there becomes an empty one."""
    if len(place) < 2:
        raise ValueError("the document itself is of another form")
    if len(place) == 2:
        left_out["workload" if place[0] == "workloads" else str(place[0])] += 1
        del _at(document, place[:1])[place[1]]
        return
    left_out[str(place[2])] += 1
    holder, last = _at(document, place[:-1]), place[-1]
    if len(place) == 3 and last in _EMPTY:
        holder[last] = json.loads(_EMPTY[str(last)])
    else:
        del holder[last]


#: What stands for a part that cannot be read, where a report has to have it.
_EMPTY = {
    **dict.fromkeys(("fingerprint", "environment", "recording", "baseline"), "null"),
    **dict.fromkeys(("findings", "comparisons", "measurements"), "[]"),
    **dict.fromkeys(("layouts", "notes", "environment_changes", "ignore", "changes"), "[]"),
    "tolerance": "{}",
    "coverage": '{"compared": 0, "worse": 0, "not-comparable": 0}',
}


def _at(document: Any, place: Place) -> Any:
    for part in place:
        document = document[part]
    return document


def _keep_findings_as_notes(workload: dict[str, Any], left_out: Counter[str]) -> None:
    """Findings of codes, and limits of metrics, that this version does not have stay readable as notes; the outcome that they
    led to is in the document."""
    unknown = [one for one in workload["findings"] if not is_code(one["code"])]
    workload["findings"] = [one for one in workload["findings"] if is_code(one["code"])]
    notes = [f"{one['code']} {one['headline']}: {one['message']}" for one in unknown]
    rules = [name for name in workload["tolerance"] if name.partition("[")[0] not in METRICS]
    notes += [f"a tolerance of {name}: {workload['tolerance'].pop(name)}" for name in rules]
    workload["ignore"] = [one for one in workload["ignore"] if is_code(one, beginning=True)]
    workload["notes"] = [*notes, *workload["notes"]]
    if unknown:
        left_out["findings, which are among the notes"] += len(unknown)
