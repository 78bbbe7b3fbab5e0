"""Findings as SARIF 2.1.0, the format of code-scanning pages.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) 2.1.0, sections 3.14 (run), 3.27 (result), 3.28 (location).
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any
from urllib.parse import quote

from perfguard.findings import Code, Finding, OwnCode, advice, split_place
from perfguard.judge.verdict import Verdict
from perfguard.reports import FunctionReporter, RunReport
from perfguard.version import ADDRESS, __version__

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def report_sarif(report: RunReport) -> str:
    """Return one SARIF log: a run for each verdict, a rule for every code, and for those of the user's own that were found.

    The `level` of a result is the severity of the finding. Its location is the file, relative to the recording, with the line;
    the path inside the file is a logical location. The rank and the name of the check are properties.
    """
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [_run(verdict) for verdict in report.verdicts]}
    return json.dumps(log, indent=2) + "\n"


def _run(verdict: Verdict) -> dict[str, Any]:
    own = {finding.code: None for finding in verdict.findings if isinstance(finding.code, OwnCode)}
    codes = [*Code, *own]
    base = f"{verdict.recording.resolve().as_uri()}/" if verdict.recording else "file:///"
    driver = {"name": "perfguard", "version": __version__, "rules": [_rule(code) for code in codes]}
    if ADDRESS:
        driver["informationUri"] = ADDRESS
    return {
        "tool": {"driver": driver},
        "originalUriBaseIds": {"PROFILER_OUTPUT": {"uri": base}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in verdict.findings],
    }


def _rule(code: Code | OwnCode) -> dict[str, Any]:
    return {
        "id": code.name,
        "shortDescription": {"text": code.value},
        "fullDescription": {"text": advice(code).cause},
        "help": {"text": advice(code).fix},
    }


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    place, line, inside = split_place(finding.place)
    location: dict[str, Any] = {}
    # A finding about a whole rank is about no file; the rank is among the properties.
    if place and not re.fullmatch(r"rank [0-9, ]+", place):
        location["physicalLocation"] = {
            "artifactLocation": {
                "uri": quote(place.encode("utf-8", "surrogateescape")),
                "uriBaseId": "PROFILER_OUTPUT",
            },
            **({"region": {"startLine": line}} if line else {}),
        }
    if inside:
        location["logicalLocations"] = [{"fullyQualifiedName": inside.encode("utf-8", "replace").decode()}]
    result: dict[str, Any] = {
        "ruleId": finding.code.name,
        "ruleIndex": rule,
        "level": finding.severity.value,
        "message": {"text": f"{finding.headline}: {finding.message}".encode("utf-8", "replace").decode()},
        "locations": [location] if location else [],
    }
    if finding.ignored is not None:
        # SARIF 2.1.0, 3.35: suppressed by what is not in the file that it is about.
        result["suppressions"] = [{"kind": "external", "justification": finding.ignored.by}]
    found = {"rank": finding.rank, "check": finding.check or None}
    if properties := {key: value for key, value in found.items() if value is not None}:
        result["properties"] = properties
    return result


SarifReporter = partial(FunctionReporter, report_sarif)
