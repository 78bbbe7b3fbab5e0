"""A run in Markdown: for a pull request's comment, a job's page, or any CI that shows such a file.

Written for GitHub Flavored Markdown 0.29 (tables, `<details>`), which GitLab's reads as well. What comes from a recording
stands in code: nothing of it is a link, a mention or a heading.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from perfguard.judge import Outcome, Refresh, Verdict
from perfguard.reports import RunReport
from perfguard.reports.ledger import ledger_lines
from perfguard.reports.names import printable
from perfguard.reports.terminal import coverage_line, finding_lines
from perfguard.reports.words import told

#: GitHub takes comments of at most 65 536 characters; what is longer is cut at a workload.
MOST_CHARACTERS = 60_000
#: How many lines of a ledger and workloads of the table are written, and how much of a line.
_LEDGER = 8
_ROWS = 200
_LINE = 200
_SYMBOLS = {"PASSED": "✅", "FAILED": "❌", "INVALID": "🚫", "INCONCLUSIVE": "❔"}


def report_markdown(report: RunReport) -> str:
    """Return the run: what is not green in words, then a table of all of it."""
    red = [verdict for verdict in report.verdicts if not verdict.passed]
    parts = [_title(report), *_said_of_the_run(report)]
    tables = _table(report.verdicts)
    room = MOST_CHARACTERS - sum(map(len, parts)) - len(tables)
    for number, verdict in enumerate(red):
        section = _section(verdict, report)
        if len(section) > room:
            parts.append(f"{len(red) - number} more are not green; the table names them, the report has all of it.")
            break
        room -= len(section)
        parts.append(section)
    return "\n\n".join([*parts, tables, f"<sub>perfguard{_commits(report)}</sub>"]) + "\n"


def _title(report: RunReport) -> str:
    if not report.verdicts:
        return "### ❔ perfguard: nothing was measured, so nothing was gated"
    counts = ", ".join(
        f"{_SYMBOLS[outcome.value]} {report.outcomes[outcome.value]} {outcome.value.lower()}"
        for outcome in (Outcome.FAILED, Outcome.INVALID, Outcome.INCONCLUSIVE, Outcome.PASSED)
        if outcome.value in report.outcomes
    )
    return f"### perfguard: {counts}"


def _said_of_the_run(report: RunReport) -> Iterable[str]:
    if report.coverage.compared or report.coverage.shown_only:
        yield coverage_line(report.coverage)
    for remark in report.remarks:
        yield f"> {_inline(remark)}"
    if report.unused:
        yield f"Baselines whose test no longer exists (B104): {', '.join(map(_code, report.unused[:10]))}"
    if report.not_run:
        yield f"{len(report.not_run)} not run (skipped, or failed before measuring)."


def _section(verdict: Verdict, report: RunReport) -> str:
    """Return what is to be said of one workload that is not green."""
    words = told(verdict, report.provenance)
    lines = [f"#### {_SYMBOLS[verdict.outcome.value]} {_code(verdict.workload)}", ""]
    lines += [f"**{_inline(words.headline)}**", ""]
    if words.where:
        lines += [_inline(words.where), ""]
    findings = finding_lines(verdict.findings)
    ledger = ledger_lines(verdict.ledger, most=_LEDGER) if verdict.ledger is not None and words.where else []
    lines.append(_fenced(_shortened(line) for line in [*findings, *ledger]))
    if words.source:
        lines += ["", f"The test: {_code(words.source)}"]
    commands = [f"# {what}\n{command}" for what, command in words.advice]
    lines += ["", f"<details><summary>What to do</summary>\n\n{_fenced(commands, 'bash')}\n\n</details>"]
    return "\n".join(lines)


def _table(verdicts: tuple[Verdict, ...]) -> str:
    """Return a row a workload, those that are not green first."""
    ordered = sorted(verdicts, key=lambda verdict: verdict.passed)
    rows = ["| outcome | workload | compared | worse | new | gone | better |", "|---|---|--:|--:|--:|--:|--:|"]
    for verdict in ordered[:_ROWS]:
        found = verdict.coverage
        outcome = verdict.outcome.value if verdict.refresh in (None, Refresh.KEPT) else verdict.refresh.value
        counts = (found.compared, found.worse, found.new, found.gone, found.better)
        cells = [f"{_SYMBOLS[verdict.outcome.value]} {outcome}", _code(verdict.workload), *map(str, counts)]
        rows.append(f"| {' | '.join(cells)} |")
    more = [f"\nand {len(ordered) - _ROWS} more workloads"] if len(ordered) > _ROWS else []
    is_long = len(ordered) > 10
    text = "\n".join([*rows, *more])
    return f"<details><summary>All workloads ({len(ordered)})</summary>\n\n{text}\n\n</details>" if is_long else text


def _commits(report: RunReport) -> str:
    found = report.provenance
    return f", commit {html.escape(printable(found.commit)[:12])}" if found.commit else ""


def _code(text: str) -> str:
    """Return a text as inline code that also stands in a table's cell; Markdown is read inside of an element, too."""
    return f"<code>{_inline(text)}</code>"


#: What Markdown, HTML or a table would read as something else than text.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~!$&]")
#: What GitHub makes a link or a mention of by itself: a comment inside of it, which nobody sees, prevents that.
_LINKED = re.compile(r"(?=@)|(?<=:)(?=//)|(?<=[Ww]{3})(?=\.)")


def _inline(text: str) -> str:
    """Return a text in which nothing is markup, a link or a mention."""
    return _LINKED.sub("<!-- -->", _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", printable(text)))


def _shortened(line: str) -> str:
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"


def _fenced(lines: Iterable[str], language: str = "text") -> str:
    text = "\n".join(lines)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
