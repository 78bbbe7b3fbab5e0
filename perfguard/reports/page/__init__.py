"""The page: one HTML file that holds a whole run, for whoever opens it from a CI artifact.

What goes in: a `RunReport`. What comes out: text without a reference to anything outside of it: style, scripts, data and the
plotting library are inside, and a Content-Security-Policy refuses whatever is not. `words` says what happened, `figures` draws,
`tables` lists; `page.html` is the frame, `page.js` shows one workload at a time. Names of a recording come in as text only.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from typing import TYPE_CHECKING, Any

from perfguard.reports import OUTCOME_ORDER, by_outcome, require_page
from perfguard.reports.names import printable
from perfguard.reports.overview import history_lines, overview
from perfguard.reports.page.figure import own_file
from perfguard.reports.page.figures import drawn_trend, figures_of
from perfguard.reports.page.tables import tables_of
from perfguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfguard.judge import Coverage, Verdict
    from perfguard.reports import RunReport


def page_html(report: RunReport, *, timelines: Mapping[Path, bytes] | None = None) -> str:
    """Return the page of a run. `timelines` are traces that go into it, by recording, in the trace event format.

    Raises `UsageError` where the packages it is made with are not installed.
    """
    require_page()
    environment, plotting = _template(), _plotting()
    verdicts = by_outcome(report.verdicts)
    workloads = [_workload(number, verdict, report) for number, verdict in enumerate(verdicts)]
    scripts = {
        "data": _json([one.pop("data") for one in workloads]),
        "plotting": plotting,
        "page": own_file("page.js"),
    }
    given = timelines or {}
    traces = [
        {"number": number, "name": verdict.workload, "text": _packed(given[verdict.recording])}
        for number, verdict in enumerate(verdicts)
        if verdict.recording is not None and verdict.recording in given
    ]
    text: str = environment.get_template("page.html").render(
        report=report,
        version=report.written_by or __version__,
        outcomes=_outcomes(report),
        coverage=_coverage(report.coverage),
        workloads=workloads,
        traces=traces,
        traced=[trace["number"] for trace in traces],
        style=own_file("page.css"),
        scripts=scripts,
        hashes=[_hash(scripts["plotting"]), _hash(scripts["page"])],
    )
    return text


def _workload(number: int, verdict: Verdict, report: RunReport) -> dict[str, Any]:
    """Return what the frame and the script know of one workload."""
    tables = tables_of(verdict)
    trends = [one for one in report.trends if one.series.workload == verdict.workload]
    return {
        "number": number,
        "overview": overview(verdict, report.provenance),
        "tables": tables,
        "history": list(history_lines(verdict, trends)),
        "data": {
            "figures": [*figures_of(verdict), *map(drawn_trend, trends)],
            "operators": tables["operators"],
            "metrics": tables["metrics"],
        },
    }


def _coverage(found: Coverage) -> str:
    """Say how many numbers were judged, in a sentence."""
    counts = {"worse": found.worse, "better": found.better, "changed": found.changed}
    same = found.compared - sum(counts.values())
    told = ", ".join([*(f"{count} {name}" for name, count in counts.items() if count), f"{same} as before"])
    others = {"not comparable": found.not_comparable, "shown only": found.shown_only}
    more = "".join(f"; {count} more {name}" for name, count in others.items() if count)
    return f"{found.compared} numbers judged: {told}{more}"


def _outcomes(report: RunReport) -> list[tuple[str, int]]:
    return [(one.value, report.outcomes[one.value]) for one in OUTCOME_ORDER if one.value in report.outcomes]


def _template() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(own_file),
        # Whatever is put in is escaped for HTML, and before that for the eye: control characters, marks that turn text around.
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _plotting() -> str:
    """Return plotly.js as the Python package ships it."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text


def _json(value: object) -> str:
    """Return JSON that is safe inside a script element: nothing in it ends the element or opens a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _packed(trace: bytes) -> str:
    return base64.b64encode(gzip.compress(trace, mtime=0)).decode("ascii")


def _hash(script: str) -> str:
    """Return what a Content-Security-Policy knows an inline script by (W3C, CSP Level 3, section 2.3.1)."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


class PageReporter:
    """The page that holds everything. Raises `UsageError` where the packages it is made with are not installed."""

    def __init__(self) -> None:
        require_page()

    def text(self, report: RunReport) -> str:
        """Return the page."""
        return page_html(report)
