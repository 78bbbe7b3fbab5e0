"""The report as a JSON document (schema: `report`), and a verdict from such a document."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from functools import cache, partial
from typing import Any, get_type_hints

import msgspec

from perfguard.documents import dumps, newest_format
from perfguard.findings import Finding, Ignored, Severity, code_named
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.refresh import Refresh
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.tolerance import Tolerance
from perfguard.judge.verdict import Coverage, Verdict
from perfguard.measure import METRICS, Measurement, StepTimeline
from perfguard.recording import Fingerprint
from perfguard.reports import FunctionReporter, RunReport
from perfguard.settings import rules
from perfguard.version import __version__
from perfguard.window import Phase

#: Fields of a verdict that have another name or another form in a document; all others are converted by their types.
_OTHER_FORM = frozenset(
    {"findings", "comparisons", "measurements", "rules", "changed_fails", "refresh", "others_share"}
)
#: Fields with a span a line.
_TIMELINES = ("timeline", "base_timeline")
#: States of formats 1 and 2 for a number that only one side has; it failed there.
_ONE_SIDED = ("new", "gone")


def report_json(report: RunReport) -> str:
    """Return the whole report as JSON text, one workload after the other."""
    return dumps(report_document(report))


def report_document(report: RunReport) -> dict[str, Any]:
    """Return the report as a plain document."""
    return {
        "format": newest_format("report"),
        "perfguard": report.written_by or __version__,
        "run": report.provenance.as_dict(),
        "workloads": [verdict_document(verdict) for verdict in report.verdicts],
        "summary": {
            "outcomes": report.outcomes,
            "coverage": coverage_document(report.coverage),
            "unused": list(report.unused),
            "not_run": list(report.not_run),
            "remarks": list(report.remarks),
        },
    }


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return one verdict as a plain document; workers of pytest-xdist send it to the controller."""
    converted = msgspec.to_builtins({name: getattr(verdict, name) for name in _converted()}, enc_hook=str)
    plain: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in converted.items()
    }
    for step in plain["steps"]:
        if step["pause_ns"] is None:
            del step["pause_ns"]
    if plain["ledger"] is not None:
        for part in (plain["ledger"], *plain["ledger"]["entries"]):
            part["change_ns"] = part["current_ns"] - part["base_ns"]
    if not plain["origin"]:
        del plain["origin"]
    if (step_time := step_time_of(verdict)) is not None:
        # A reader computes it from the measurements.
        shown = {"judged": step_time.judged, "metric": step_time.metric, "source": step_time.source}
        plain["step"] = {**step_time.plain, **shown}
    for name in _TIMELINES:
        if (one := plain.pop(name)) is not None:
            # One line a span, because a step has hundreds.
            plain[name] = one | {"spans": [" ".join(map(str, span)) for span in one["spans"]]}
    return plain | {
        "findings": [_finding_document(one) for one in verdict.findings],
        "comparisons": [_comparison_document(one) for one in verdict.comparisons],
        "coverage": coverage_document(verdict.coverage),
        "measurements": [one.as_dict() for one in verdict.measurements],
        "tolerance": {rule.pattern: tolerance_document(rule.tolerance) for rule in verdict.rules},
        "changed": "fail" if verdict.changed_fails else "warn",
        "baseline": verdict.refresh.value if verdict.refresh else None,
    }


@cache
def _converted() -> dict[str, Any]:
    """Return the type of each field of a verdict that msgspec converts."""
    return {name: kind for name, kind in get_type_hints(Verdict).items() if name not in _OTHER_FORM}


def _timeline(plain: dict[str, Any]) -> StepTimeline:
    """Return the timeline of a document. Raises `ValueError` for spans of unknown lanes or names."""
    spans = tuple((*map(int, span.split(" ")),) for span in plain["spans"])
    found: StepTimeline = msgspec.convert(plain | {"spans": spans}, StepTimeline, strict=False)
    if any(lane >= len(found.lanes) or name >= len(found.names) for lane, name, *_ in found.spans):
        raise ValueError("a span of a timeline names a lane or a name that is not there")
    return found


def verdict_from_document(plain: dict[str, Any]) -> Verdict:
    """Invert `verdict_document`, for older formats too. Raises `KeyError`, `TypeError`, `ValueError` and `PerfguardError`."""
    # JSON may hold 1.0 for 1.
    values = {
        name: msgspec.convert(plain[name], kind, strict=False, dec_hook=lambda kind, value: kind(value))
        for name, kind in _converted().items()
        if name in plain and name not in _TIMELINES
    }
    values |= {name: _timeline(plain[name]) for name in _TIMELINES if name in plain}
    if plain.get("fingerprint"):
        first_rank = min((step.rank for step in values.get("steps", ())), default=0)
        timed = sum(step.phase is Phase.TIMED and step.rank == first_rank for step in values.get("steps", ()))
        values["fingerprint"] = Fingerprint.from_document(plain["fingerprint"], timed_steps=timed)
    return Verdict(
        **values,
        findings=tuple(map(_finding, plain["findings"])),
        comparisons=tuple(map(_comparison, plain.get("comparisons", ()))),
        measurements=tuple(map(Measurement.from_dict, plain.get("measurements", ()))),
        refresh=Refresh(plain["baseline"]) if plain.get("baseline") else None,
        rules=rules(plain.get("tolerance", {}), where="tolerance"),
        changed_fails=plain.get("changed") == "fail",
    )


def _finding_document(one: Finding) -> dict[str, Any]:
    left_out = ("weight", "of_check", "ignored")
    plain = {field.name: getattr(one, field.name) for field in fields(one) if field.name not in left_out}
    if one.ignored is not None:
        plain["ignored"] = {"by": one.ignored.by, "severity": one.ignored.severity.value}
    return plain | {"code": one.code.name, "headline": one.headline, "severity": one.severity.value}


def _finding(plain: dict[str, Any]) -> Finding:
    values = {key: value for key, value in plain.items() if key != "headline"}
    code = code_named(plain["code"], plain["headline"])
    of_check = "" if code.value == plain["headline"] else plain["headline"]
    found = {"code": code, "severity": Severity(plain["severity"]), "of_check": of_check}
    if "ignored" in plain:
        found["ignored"] = msgspec.convert(plain["ignored"], Ignored)
    return Finding(**values | found)


def _comparison_document(one: Comparison) -> dict[str, Any]:
    plain = {field.name: getattr(one, field.name) for field in fields(one) if field.name != "finding"}
    samples = list(plain.pop("reference_samples"))
    unit = METRICS[one.metric].unit if one.metric in METRICS else ""
    return plain | {"state": one.state.value, "unit": unit, **({"reference_samples": samples} if samples else {})}


def _comparison(plain: dict[str, Any]) -> Comparison:
    values = {key: value for key, value in plain.items() if key != "unit"}
    state = State.WORSE if plain["state"] in _ONE_SIDED else State(plain["state"])
    return Comparison(**values | {"state": state, "reference_samples": tuple(plain.get("reference_samples", ()))})


def tolerance_document(tolerance: Tolerance | None) -> Any:
    """Return a tolerance as a rule of the settings."""
    if tolerance is None:
        return "off"
    warn = {} if tolerance.warn_relative is None else {"warn": tolerance.warn_relative}
    # An infinite one only warns; a reader takes the metric's own limit, which is infinite too.
    limits = {} if tolerance.relative == math.inf else {"relative": tolerance.relative, "absolute": tolerance.absolute}
    return limits | warn


def coverage_document(coverage: Coverage) -> dict[str, int]:
    """Return the counts under the names of the report."""
    return {name.replace("_", "-"): count for name, count in asdict(coverage).items()}


JsonReporter = partial(FunctionReporter, report_json)
