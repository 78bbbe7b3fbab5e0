"""GitHub Actions: annotations on the tests, or the checked directories, that are not green.

Source: GitHub Docs, "Workflow commands for GitHub Actions" (error, warning); actions/toolkit, core/src/command.ts (escaping).
A step shows at most ten errors and ten warnings, so there is one annotation a test, and the tenth counts the others.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from perfguard.findings import Severity
from perfguard.judge.renames import lacks_baseline
from perfguard.judge.shown_time import without_details
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.reports import RunReport, by_outcome
from perfguard.reports.overview import accept_command
from perfguard.reports.terminal import after_work, finding_line, shown_findings
from perfguard.reports.where import where_text
from perfguard.screen import printable
from perfguard.workload import workload_of

MOST = 10
#: Most findings in an annotation, which has room for a few lines.
_FINDINGS = 6


def is_a_job() -> bool:
    """Whether this process runs in a job of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def job_annotations(report: RunReport, *, root: Path) -> list[str]:
    """Return the workflow commands for a report; none outside of a job of GitHub Actions."""
    if not is_a_job():
        return []
    workspace = Path(found) if (found := os.environ.get("GITHUB_WORKSPACE")) else None
    return workflow_commands(report, root=root, workspace=workspace)


def workflow_commands(report: RunReport, *, root: Path, workspace: Path | None = None) -> list[str]:
    """Return the workflow commands for the tests that are not green, one a line.

    Files are relative to `workspace`, the checkout; those of `report` are relative to `root`.
    """
    by_source: dict[str, list[Verdict]] = {}
    for verdict in by_outcome(report.verdicts):
        if not verdict.passed:
            by_source.setdefault(verdict.source or verdict.workload, []).append(verdict)
    groups = list(by_source.values())
    shown = groups if len(groups) <= MOST else groups[: MOST - 1]
    lines = [_annotation(group, root, workspace) for group in shown]
    if rest := [verdict.workload for group in groups[len(shown) :] for verdict in group]:
        named = "\n".join(printable(name) for name in rest[:_FINDINGS])
        lines.append(f"::error title={_property(f'perfguard: {len(rest)} more are not green')}::{_data(named)}")
    return lines


def _annotation(verdicts: list[Verdict], root: Path, workspace: Path | None) -> str:
    """Return one annotation for the workloads of one test."""
    first = verdicts[0]
    file, _, line = first.source.rpartition(":")
    place: dict[str, str] = {}
    if file and line.isdigit():
        path = root / file
        place = {"file": str(path) if workspace is None else os.path.relpath(path, workspace), "line": line}
    outcomes = " and ".join(dict.fromkeys(verdict.outcome.value for verdict in verdicts))
    place["title"] = f"perfguard {outcomes}: {printable(_in_common(verdicts))}"
    lines, rest = _lines(verdicts)
    more = [f"and {rest} more"] if rest > 0 else []
    more += _guidance(first)
    properties = ",".join(f"{name}={_property(value)}" for name, value in place.items())
    return f"::error {properties}::{_data(chr(10).join([*lines, *more]))}"


def _guidance(verdict: Verdict) -> list[str]:
    """Return where in the model it is, and the next commands. The recording may be gone with the job, so none names it."""
    lines = [where] if (where := where_text(verdict, after_work=True)) else []
    worst = next((one for one in verdict.findings if one.severity is Severity.ERROR), None)
    if worst is not None and verdict.outcome is not Outcome.FAILED:
        lines.append(f"cause and fix: perfguard codes {worst.code.name}")
    if "::" in verdict.workload and verdict.source:
        test = shlex.quote(printable(workload_of(verdict.workload).test))
        lines.append(f"here: pytest --perfguard {test}")
        if verdict.outcome is Outcome.FAILED:
            first = "move the baseline as B101 says, then " if lacks_baseline(verdict) else ""
            lines.append(f"if it is intended: {first}{accept_command(test)}")
    return lines


def _in_common(verdicts: list[Verdict]) -> str:
    """Return the common name of workloads of one place: the only workload, their test, or its function."""
    found = [workload_of(one.workload) for one in verdicts]
    for names in ({one.workload for one in verdicts}, {one.test for one in found}):
        if len(names) == 1:
            return names.pop()
    return found[0].function


def _lines(verdicts: list[Verdict]) -> tuple[list[str], int]:
    """Return the findings of one workload, or the worst of each of several; and the number of findings, or workloads, left."""
    if len(verdicts) > 1:
        worst = [next(iter(shown_findings(one, verbose=False)), one.outcome.value) for one in verdicts]
        lines = [f"{_own(one)}: {line}" for one, line in zip(verdicts, worst, strict=True)]
        return lines[:_FINDINGS], len(lines) - _FINDINGS
    findings = without_details(verdicts[0])
    found = [one for one in findings if not one.more][:_FINDINGS]
    lines = after_work([finding_line(one) for one in found], verdicts[0])
    return lines, sum(one.more or 1 for one in findings) - len(found)


def _own(verdict: Verdict) -> str:
    """Return the part of a workload's name that other workloads of its test do not have: parameters, a name."""
    found = workload_of(verdict.workload)
    name = f"#{found.name}" if found.name else ""
    return printable(found.function.rpartition("::")[2] + found.parameters + name)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
