"""A run in Markdown: for a pull request's comment, a job's page, or any CI that shows such a file.

Written for GitHub Flavored Markdown 0.29 (tables, `<details>`), which GitLab's reads as well. What comes from a recording
stands in code: nothing of it is a link, a mention or a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfguard.findings import Severity
from perfguard.judge import Refresh, Verdict, without_details
from perfguard.reports import TOLD_FIRST, RunReport, in_telling_order
from perfguard.reports.ledger import told_ledger_lines
from perfguard.reports.names import cut, printable, shortened
from perfguard.reports.step_time import step_details, step_words
from perfguard.reports.terminal import coverage_line, finding_line, finding_lines
from perfguard.reports.words import commit_words, told

#: GitHub takes comments of at most 65 536 characters; what is longer is cut at a workload.
MOST_CHARACTERS = 60_000
#: How many workloads of the table are written, and how much of a line and of a name.
_ROWS = 200
_LINE = 200
_NAME = 120
_WARNINGS = 10
_SYMBOLS = {"PASSED": "✅", "CHANGED": "🔶", "FAILED": "❌", "INVALID": "🚫", "INCONCLUSIVE": "❔"}


def report_markdown(report: RunReport) -> str:
    """Return the run: what is not green in words, then a table of all of it."""
    red = [verdict for verdict in in_telling_order(report.verdicts) if not verdict.passed]
    parts = [_title(report), *_said_of_the_run(report)]
    room = MOST_CHARACTERS - sum(map(len, parts))
    table = _table(report.verdicts, room // 2 if red else room)
    room -= len(table)
    for number, verdict in enumerate(red):
        section = _section(verdict, report)
        if len(section) > room:
            parts.append(f"{len(red) - number} more are not green; the table names them, the report has all of it.")
            break
        room -= len(section) + 2
        parts.append(section)
    warned = _warnings(report.verdicts)
    if warned and len(warned) <= room:
        parts.append(warned)
    return "\n\n".join([*parts, table, f"<sub>perfguard{_commits(report)}</sub>"]) + "\n"


def _warnings(verdicts: Iterable[Verdict]) -> str:
    """Return what is to be said of workloads that passed, a line each."""
    lines = [
        f"{shortened(verdict.workload, _NAME)}: {finding_line(finding)}"
        for verdict in verdicts
        for finding in without_details(verdict)
        if verdict.passed and finding.severity is Severity.WARNING
    ]
    more = [f"and {len(lines) - _WARNINGS} more"] if len(lines) > _WARNINGS else []
    told = _fenced(cut(printable(line), _LINE + _NAME) for line in [*lines[:_WARNINGS], *more])
    return f"Warnings of what passed:\n\n{told}" if lines else ""


def _title(report: RunReport) -> str:
    if not report.verdicts and report.is_partial:
        return "### ❔ perfguard: nothing of this report could be read"
    if not report.verdicts:
        return "### ❔ perfguard: nothing was measured, so nothing was gated"
    counts = ", ".join(
        f"{_SYMBOLS[outcome.value]} {report.outcomes[outcome.value]} {outcome.value.lower()}"
        for outcome in TOLD_FIRST
        if outcome.value in report.outcomes
    )
    return f"### perfguard: {counts}"


def _said_of_the_run(report: RunReport) -> Iterable[str]:
    if report.coverage.compared or report.coverage.shown_only:
        yield coverage_line(report.coverage, is_time_off=report.is_time_off)
    for remark in report.remarks:
        yield f"> {_inline(remark)}"
    if report.unused:
        yield f"Baselines whose test no longer exists (B104): {', '.join(map(_code, report.unused[:10]))}"
    if report.not_run:
        yield f"{len(report.not_run)} not run (skipped, or failed before measuring)."


def _section(verdict: Verdict, report: RunReport) -> str:
    """Return what is to be said of one workload that is not green."""
    words = told(verdict, report.provenance)
    lines = [
        f"#### {_SYMBOLS[verdict.outcome.value]} {_code(shortened(verdict.workload, 4 * _NAME))}{_of(verdict)}",
        "",
    ]
    lines += [f"**{_inline(words.headline)}**", ""]
    lines += [f"{_inline(line)}\n" for line in (words.step, words.where) if line]
    findings = finding_lines(without_details(verdict))
    lines.append(_fenced(cut(line, _LINE) for line in [*findings, *told_ledger_lines(verdict)]))
    if details := step_details(verdict):
        told_in = _fenced(cut(line, _LINE) for line in details)
        lines += [
            "",
            f"<details><summary>The time of a step: the numbers behind it</summary>\n\n{told_in}\n\n</details>",
        ]
    if words.source:
        lines += ["", f"The test: {_code(words.source)}"]
    commands = [f"# {what}\n{command}" for what, command in words.advice]
    lines += ["", f"<details><summary>What to do</summary>\n\n{_fenced(commands, 'bash')}\n\n</details>"]
    return "\n".join(lines)


def _table(verdicts: tuple[Verdict, ...], room: int) -> str:
    """Return a row a workload, those that are not green first, in so many characters."""
    ordered = in_telling_order(verdicts)
    rows = [
        "| outcome | workload | step ms | change | compared | worse | better | changed |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    shown = 0
    for verdict in ordered[:_ROWS]:
        found = verdict.coverage
        outcome = verdict.outcome.value if verdict.refresh in (None, Refresh.KEPT) else verdict.refresh.value
        counts = (*step_words(verdict), found.compared, found.worse, found.better, found.changed)
        name = _code(shortened(verdict.workload, _NAME)) + _of(verdict)
        row = f"| {' | '.join([f'{_SYMBOLS[verdict.outcome.value]} {outcome}', name, *map(str, counts)])} |"
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
        shown += 1
    more = [f"\nand {len(ordered) - shown} more workloads"] if len(ordered) > shown else []
    is_long = len(ordered) > 10
    text = "\n".join([*rows, *more])
    return f"<details><summary>All workloads ({len(ordered)})</summary>\n\n{text}\n\n</details>" if is_long else text


def _of(verdict: Verdict) -> str:
    return f" (of {_code(shortened(verdict.origin, _NAME))})" if verdict.origin else ""


def _commits(report: RunReport) -> str:
    found = report.provenance
    return f", commit {_inline(commit_words(found.commit))}" if found.commit else ""


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


def _fenced(lines: Iterable[str], language: str = "text") -> str:
    text = "\n".join(lines)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


class MarkdownReporter:
    """A summary for a pull request or the page of a job."""

    def text(self, report: RunReport) -> str:
        """Return the summary."""
        return report_markdown(report)
