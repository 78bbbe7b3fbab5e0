"""The page: one HTML file that holds a whole run, for readers of a CI artifact.

It refers to nothing outside of it: style, script, figures and data are inside, and its Content-Security-Policy refuses
everything else. `page.html` and `figure.html` are the templates; `page.js` shows one workload at a time, sorts, and draws the
timeline. Without scripts all workloads are shown. Names are text only.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from perfguard.errors import counted
from perfguard.judge.verdict import Outcome
from perfguard.reports import OUTCOME_ORDER, FunctionReporter, by_outcome, require_page
from perfguard.reports.overview import history_lines, overview
from perfguard.reports.page.figure import hover_of, own_file
from perfguard.reports.page.figures import drawn_trend, figures_of, trends_in_order
from perfguard.reports.page.tables import profiled_step, tables_of
from perfguard.reports.page.timeline import timeline_rows, timeline_sides
from perfguard.reports.terminal import ignored_line
from perfguard.screen import printable
from perfguard.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfguard.judge.verdict import Coverage, Verdict
    from perfguard.reports import RunReport


def page_html(report: RunReport, *, timelines: Mapping[Path, bytes] | None = None) -> str:
    """Return the page of a run. `timelines` are traces for the page, by recording, in the trace event format.

    Raises `UsageError` if Jinja2 is not installed.
    """
    require_page()
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(own_file),
        # All values are escaped for HTML; before that, control characters and marks that change the direction of text.
        autoescape=True,
        finalize=lambda value: kept(printable(value)) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"broken": broken, "words": words, "hint": hint}
    environment.tests["figure_text"] = lambda value: _NUMBER.fullmatch(str(value)) is not None
    verdicts = by_outcome(report.verdicts)
    workloads = [_workload(number, verdict, report) for number, verdict in enumerate(verdicts)]
    data = _json([one.pop("data") for one in workloads])
    scripts = {"data": data, "page": own_file("timeline.js") + own_file("page.js")}
    given = timelines or {}
    traces = [
        {"number": number, "name": verdict.workload, "text": _base64(gzip.compress(given[verdict.recording], mtime=0))}
        for number, verdict in enumerate(verdicts)
        if verdict.recording is not None and verdict.recording in given
    ]
    text: str = environment.get_template("page.html").render(
        report=report,
        version=report.written_by or __version__,
        outcomes=[
            (one.value, report.outcomes[one.value], all(_is_uncompared(v) for v in verdicts if v.outcome is one))
            for one in OUTCOME_ORDER
            if one.value in report.outcomes
        ],
        coverage=_coverage(report.coverage),
        ignored=ignored_line(report.verdicts),
        workloads=workloads,
        traces=traces,
        traced=[trace["number"] for trace in traces],
        style=own_file("page.css"),
        scripts=scripts,
        # A Content-Security-Policy names inline scripts by their hashes (W3C, CSP Level 3, section 2.3.1).
        hashes=[_base64(hashlib.sha256(scripts[name].encode("utf-8")).digest()) for name in ("page",)],
    )
    return text


def _workload(number: int, verdict: Verdict, report: RunReport) -> dict[str, Any]:
    """Return the values of one workload for the template, and those for the script below `data`."""
    tables = tables_of(verdict)
    trends = [one for one in report.trends if one.series.workload == verdict.workload]
    sides = timeline_sides(verdict)
    figures = [*figures_of(verdict), *map(drawn_trend, trends_in_order(trends))]
    return {
        "number": number,
        "verdict": verdict,
        "uncompared": _is_uncompared(verdict),
        "overview": overview(verdict, report.provenance),
        "tables": tables,
        "history": list(history_lines(verdict, trends)),
        "figures": [(figure, place) for place, figure in enumerate(figures)],
        "kinds": {figure.kind for figure in figures},
        "data": {
            "hover": [hover_of(figure) for figure in figures],
            "operators": tables["operators"],
            "metrics": tables["metrics"],
            "step": profiled_step(verdict),
            "timeline": sides,
        },
        "sides": sides,
        "longest": timeline_rows(verdict),
    }


def _is_uncompared(verdict: Verdict) -> bool:
    """Whether a verdict passed although none of its numbers was judged, which is no reason for green."""
    return verdict.outcome is Outcome.PASSED and verdict.refresh is None and not verdict.coverage.compared


def _coverage(found: Coverage) -> str:
    """Return one sentence on how many numbers were judged; empty if there were none to judge."""
    counts = {"worse": found.worse, "better": found.better, "changed": found.changed}
    same = found.compared - sum(counts.values())
    judged = ", ".join([*(f"{count} {name}" for name, count in counts.items() if count), f"{same} as before"])
    others = {"not comparable": found.not_comparable, "shown only": found.shown_only}
    if not found.compared:
        rest = ", ".join(f"{count} {name}" for name, count in others.items() if count)
        return rest and f"no number judged: {rest}"
    more = "".join(f"; {count} more {name}" for name, count in others.items() if count)
    return f"{counted(found.compared, 'number')} judged: {judged}{more}"


def _json(value: object) -> str:
    """Return JSON for a script element: nothing in it ends the element or opens a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


#: A line may break behind these, and before a bracket.
_BREAKS = re.compile(r"(::|[/_]|(?=\[))")

#: The space between a number and its unit.
_UNIT = re.compile(r"(?<=\d) (?=(?:%|ns|us|ms|s|bytes|[KMGT]iB)(?![\w]))")
#: A cell that is a number, two numbers, or a number with its unit.
_NUMBER = re.compile(r"[+−±-]?\d[\d.e+-]*( → [\d.e+-]+)?( (?:%|ns|us|ms|s|bytes|[KMGT]iB)(/\w+)?)?")


def broken(value: object) -> str:
    """Return a value as HTML in which lines break behind `/`, `::` and `_` and before `[`."""
    import markupsafe

    return markupsafe.Markup(_BREAKS.sub(r"\1<wbr>", str(markupsafe.escape(kept(printable(str(value)))))))


def kept(text: str) -> str:
    """Return a text in which no line breaks between a number and its unit."""
    return _UNIT.sub("\N{NO-BREAK SPACE}", text)


def hint(text: str) -> str:
    """Return one of perfguard's own texts as HTML: what is between backticks is code."""
    import markupsafe

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return broken(text)
    code = markupsafe.Markup("<code>{}</code>")
    return markupsafe.Markup("").join(
        code.format(words(part)) if at % 2 else broken(part) for at, part in enumerate(parts)
    )


def words(command: str) -> str:
    """Return a command as HTML whose options are not broken: a line that begins with one dash reads as another option."""
    import markupsafe

    parts = (
        markupsafe.Markup('<span class="option">{}</span>').format(printable(word))
        if word.startswith("-")
        else broken(word)
        for word in command.split(" ")
    )
    return markupsafe.Markup(" ").join(parts)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def page_reporter() -> FunctionReporter:
    """Return the reporter of the page. Raises `UsageError` if Jinja2 is not installed."""
    require_page()
    return FunctionReporter(page_html)
