"""The report as a JSON document (schema: `report`), and a verdict made of one again."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perfguard.documents import dumps, newest_format
from perfguard.findings import Finding, Severity, code_named
from perfguard.judge import (
    BaselineFacts,
    Comparison,
    Coverage,
    Ledger,
    Outcome,
    Refresh,
    State,
    StepTime,
    Tolerance,
    Verdict,
    step_time_of,
)
from perfguard.measure import METRICS, Measurement, MemoryTrack
from perfguard.recording import Environment, Fingerprint, Step
from perfguard.reports import RunReport
from perfguard.settings import rules
from perfguard.timing import LostRun, Timing
from perfguard.version import __version__
from perfguard.window import Phase


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
        },
    }


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return one verdict as a plain document; it is also how a worker of pytest-xdist hands it over."""
    return {
        "workload": verdict.workload,
        "outcome": verdict.outcome.value,
        **({"step": _step_time_document(step)} if (step := step_time_of(verdict)) is not None else {}),
        "findings": [
            {
                "code": f.code.name,
                "headline": f.code.value,
                "severity": f.severity.value,
                "message": f.message,
                "place": f.place,
                "rank": f.rank,
                "check": f.check,
                "more": f.more,
                "excerpt": f.excerpt,
            }
            for f in verdict.findings
        ],
        "comparisons": [
            {
                "metric": c.metric,
                "subject": c.subject,
                "state": c.state.value,
                "judged": c.judged,
                "reference": c.reference,
                "current": c.current,
                "allowed": c.allowed,
                **({"reference_samples": list(c.reference_samples)} if c.reference_samples else {}),
                "unit": METRICS[c.metric].unit if c.metric in METRICS else "",
            }
            for c in verdict.comparisons
        ],
        "coverage": coverage_document(verdict.coverage),
        "measurements": [m.as_dict() for m in verdict.measurements],
        "fingerprint": verdict.fingerprint.as_dict() if verdict.fingerprint else None,
        "environment": verdict.environment.as_dict() if verdict.environment else None,
        "recording": str(verdict.recording) if verdict.recording else None,
        "layouts": list(verdict.layouts),
        "notes": list(verdict.notes),
        "read": dict(verdict.read),
        "environment_changes": list(verdict.environment_changes),
        "tolerance": {rule.pattern: _tolerance_document(rule.tolerance) for rule in verdict.rules},
        "ignore": list(verdict.ignore),
        "changed": "fail" if verdict.changed_fails else "warn",
        "traits": dict(verdict.traits),
        "baseline": verdict.refresh.value if verdict.refresh else None,
        "changes": list(verdict.changes),
        "timings": [timing.as_dict() for timing in verdict.timings],
        "lost_runs": [{"number": lost.number, "reason": lost.reason} for lost in verdict.lost_runs],
        "ledger": verdict.ledger.as_dict() if verdict.ledger else None,
        "compared_with": verdict.compared_with.as_dict() if verdict.compared_with else None,
        "steps": [_step_document(step) for step in verdict.steps],
        "memory": [track.as_dict() for track in verdict.memory],
        "source": verdict.source,
        **({"origin": verdict.origin} if verdict.origin else {}),
    }


def verdict_from_document(plain: dict[str, Any]) -> Verdict:
    """Invert `verdict_document`, as far as a document goes."""
    return Verdict(
        workload=plain["workload"],
        outcome=Outcome(plain["outcome"]),
        findings=tuple(
            Finding(
                code=code_named(f["code"], f["headline"]),
                message=f["message"],
                place=f["place"],
                severity=Severity(f["severity"]),
                rank=f.get("rank"),
                check=f.get("check", ""),
                more=f.get("more", 0),
                excerpt=f.get("excerpt", ""),
            )
            for f in plain["findings"]
        ),
        comparisons=tuple(
            Comparison(
                metric=c["metric"],
                subject=c["subject"],
                state=_state(c["state"]),
                judged=c["judged"],
                reference=c["reference"],
                current=c["current"],
                allowed=c.get("allowed"),
                reference_samples=tuple(c.get("reference_samples", ())),
            )
            for c in plain["comparisons"]
        ),
        measurements=tuple(Measurement.from_dict(m) for m in plain["measurements"]),
        fingerprint=Fingerprint.from_dict(plain["fingerprint"]) if plain["fingerprint"] else None,
        environment=Environment.from_dict(plain["environment"]) if plain["environment"] else None,
        recording=Path(plain["recording"]) if plain["recording"] else None,
        layouts=tuple(plain["layouts"]),
        refresh=Refresh(plain["baseline"]) if plain["baseline"] else None,
        changes=tuple(plain["changes"]),
        notes=tuple(plain["notes"]),
        read=plain.get("read", {}),
        traits=plain.get("traits", {}),
        environment_changes=tuple(plain["environment_changes"]),
        rules=rules(plain["tolerance"], where="tolerance"),
        ignore=tuple(plain["ignore"]),
        changed_fails=plain.get("changed") == "fail",
        timings=tuple(Timing.from_dict(one) for one in plain.get("timings", ())),
        lost_runs=tuple(LostRun(**one) for one in plain.get("lost_runs", ())),
        ledger=Ledger.from_dict(plain["ledger"]) if plain.get("ledger") else None,
        compared_with=BaselineFacts.from_dict(plain["compared_with"]) if plain.get("compared_with") else None,
        steps=tuple(Step(**{**one, "phase": Phase(one["phase"])}) for one in plain.get("steps", ())),
        memory=tuple(MemoryTrack.from_dict(one) for one in plain.get("memory", ())),
        source=plain.get("source", ""),
        origin=plain.get("origin", ""),
    )


#: What formats 1 and 2 call what only one side has; it failed there.
_ONE_SIDED = ("new", "gone")


def _state(word: str) -> State:
    return State.WORSE if word in _ONE_SIDED else State(word)


def _step_time_document(step: StepTime) -> dict[str, Any]:
    """Return the step time as reports show it; a reader computes it anew from the measurements."""
    return {**step.plain, "judged": step.judged, "metric": step.metric, "source": step.source}


def _step_document(step: Step) -> dict[str, Any]:
    """Return a step as a plain document; a long window has a hundred thousand of them."""
    return {
        "index": step.index,
        "phase": step.phase.value,
        "cycle": step.cycle,
        "start_ns": step.start_ns,
        "wall_ns": step.wall_ns,
        "thread_cpu_ns": step.thread_cpu_ns,
        **({} if step.pause_ns is None else {"pause_ns": step.pause_ns}),
        "rank": step.rank,
    }


def _tolerance_document(tolerance: Tolerance | None) -> Any:
    if tolerance is None:
        return "off"
    warn = {} if tolerance.warn_relative is None else {"warn": tolerance.warn_relative}
    if tolerance.relative == math.inf:
        # It only warns; a reader takes the metric's own limit, which is as infinite.
        return warn
    return {"relative": tolerance.relative, "absolute": tolerance.absolute, **warn}


def coverage_document(coverage: Coverage) -> dict[str, int]:
    """Return the counts under the names of the report."""
    return {name.replace("_", "-"): count for name, count in asdict(coverage).items()}


class JsonReporter:
    """Everything measured and judged, as JSON (schema: report)."""

    def text(self, report: RunReport) -> str:
        """Return the document."""
        return report_json(report)
