"""A report file read again: whole, or as far as this perfguard knows what a newer one wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import perfguard
from perfguard.documents import format_of, newest_format, parsed, read_document, schema
from perfguard.errors import PerfguardError, StoreError
from perfguard.findings import Code
from perfguard.judge import Verdict
from perfguard.recording import Provenance
from perfguard.reports import RunReport
from perfguard.reports.document import verdict_from_document

_REMEDY = "Write it again with: pytest --perfguard --perfguard-report FILE"


def read_report(path: Path) -> tuple[Verdict, ...]:
    """Read the verdicts of a report file, to judge by them: one of a newer perfguard is refused, for half of what was measured
    is not to be judged. Raises `StoreError`."""
    _refuse_baseline(path)
    return _run_report(path, read_document(path, "report", remedy=_REMEDY)).verdicts


def read_run(path: Path) -> RunReport:
    """Read a report file to show or to keep it, of whichever perfguard; `remarks` say what could not be read, and why.

    Raises `StoreError` for a file that is no report, or damaged.
    """
    _refuse_baseline(path)
    document = parsed(path, remedy=_REMEDY)
    number, newest = format_of(document), newest_format("report")
    if number <= newest:
        older = () if number in (0, newest) else (_of_an_older(path, document, number, newest),)
        return _run_report(path, read_document(path, "report", remedy=_REMEDY), remarks=older)
    try:
        left_out = _leave_out_what_is_not_known(document)
        return _run_report(path, document, remarks=(_of_a_newer(path, document, number, newest, left_out),))
    except (StoreError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path} was written by {_writer(document)}, in format {number}, of which this perfguard "
            f"({perfguard.__version__}, format {newest}) can read nothing. Run: pip install --upgrade perfguard"
        ) from error


def is_baseline(path: Path) -> bool:
    """Whether a file that was named as a report is a baseline."""
    try:
        read_document(path, "baseline", remedy="")
    except StoreError:
        return False
    return True


def _refuse_baseline(path: Path) -> None:
    if is_baseline(path):
        raise StoreError(f"{path} is a baseline, not a report; compare with it by: perfguard baseline diff REPORT")


def _run_report(path: Path, document: dict[str, Any], *, remarks: tuple[str, ...] = ()) -> RunReport:
    try:
        verdicts = tuple(verdict_from_document(one) for one in document["workloads"])
    except (KeyError, PerfguardError) as error:
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
        f"{path} was written by {_writer(document)}, an older one (format {number}; this is {perfguard.__version__}, format "
        f"{newest}): it knows no steps, no memory over the window, and no limits"
    )


def _of_a_newer(path: Path, document: Any, number: int, newest: int, left_out: Counter[str]) -> str:
    what = ", ".join(f"{count} x {name}" for name, count in sorted(left_out.items())) or "nothing of what it says"
    return (
        f"{path} was written by {_writer(document)}, a newer one (format {number}; this is {perfguard.__version__}, format "
        f"{newest}), so this was left out: {what}. All of it is shown after: pip install --upgrade perfguard"
    )


#: Lists of a workload whose items stand alone: one that is not known is left out, and counted.
_LISTS = frozenset({"findings", "comparisons", "measurements", "timings", "lost_runs", "steps", "memory"})
#: How often the document is looked at again after something was left out of it.
_ROUNDS = 20


def _leave_out_what_is_not_known(document: Any) -> Counter[str]:
    """Take out of a newer document, in place, what the schema of this version does not know; returns what, and how often."""
    from jsonschema import Draft202012Validator

    left_out: Counter[str] = Counter()
    if not isinstance(document, dict):
        return left_out
    document["format"] = newest_format("report")
    validator = Draft202012Validator(schema("report"))
    for _ in range(_ROUNDS):
        # From the last to the first, so that a place in a list stays true.
        errors = sorted(validator.iter_errors(document), key=lambda e: [(str(type(p)), p) for p in e.absolute_path])
        if not errors:
            break
        done: set[tuple[str | int, ...]] = set()
        for error in reversed(errors):
            place = tuple(error.absolute_path)
            if error.validator == "additionalProperties":
                _take_keys(document, place, error.schema.get("properties", {}), left_out)
            elif (item := _item_of(place)) not in done:
                done.add(item)
                _take(document, item, left_out)
    for one in document.get("workloads", ()):
        _keep_findings_as_notes(one)
    return left_out


def _take_keys(document: Any, place: Sequence[str | int], known: dict[str, Any], left_out: Counter[str]) -> None:
    found = _at(document, place)
    for key in [key for key in found if key not in known]:
        del found[key]
        left_out[key] += 1


def _item_of(place: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return what has to go where something at `place` is not known: an item of a list, a part of a workload, or all of it."""
    if len(place) >= 4 and place[0] == "workloads" and place[2] in _LISTS:
        return tuple(place[:4])
    return tuple(place[:3])


def _take(document: Any, item: tuple[str | int, ...], left_out: Counter[str]) -> None:
    if not item or len(item) == 1:
        raise ValueError("the document itself is of another form")
    holder = _at(document, item[:-1])
    last = item[-1]
    if len(item) == 3 and last in ("workload", "outcome", "coverage"):
        # Without these there is no verdict to show.
        holder, last = document["workloads"], item[1]
        left_out["workload"] += 1
    elif len(item) == 3 and isinstance(holder, dict) and holder.get(str(last)) is not None:
        holder[str(last)] = [] if isinstance(holder[str(last)], list) else None
        left_out[str(last)] += 1
        return
    else:
        left_out[str(item[2]) if len(item) > 2 else str(item[0])] += 1
    del holder[last]


def _at(document: Any, place: Sequence[str | int]) -> Any:
    for part in place:
        document = document[part]
    return document


def _keep_findings_as_notes(workload: dict[str, Any]) -> None:
    """Findings of codes that this version does not have stay readable; the outcome they led to is in the document."""
    unknown = [one for one in workload["findings"] if one["code"] not in Code.__members__]
    if unknown:
        workload["findings"] = [one for one in workload["findings"] if one["code"] in Code.__members__]
        notes = [f"{one['code']} {one['headline']}: {one['message']}" for one in unknown]
        workload["notes"] = [*notes, *workload["notes"]]
