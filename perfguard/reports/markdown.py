"""Markdown reports: for a comment on a pull request, or the page of a CI job.

The format is GitHub Flavored Markdown 0.29 (tables, `<details>`), which GitLab supports too. Of a foreign text only words and
small numbers are not in code: nothing in it becomes a link, a mention, a reference to an issue or a commit, or a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter

from perfguard.judge.refresh import Refresh
from perfguard.judge.shown_time import without_details
from perfguard.judge.verdict import Verdict
from perfguard.reports import OUTCOME_ORDER, FunctionReporter, RunReport, by_outcome
from perfguard.reports.ledger import short_ledger_lines
from perfguard.reports.overview import commit_name, overview
from perfguard.reports.step_time import step_cells, step_details
from perfguard.reports.terminal import change_lines, coverage_line, finding_lines, ignored_line, warning_lines
from perfguard.screen import cut, printable, shortened

#: GitHub accepts comments of at most 65 536 characters; a longer one is cut at a workload.
MOST_CHARACTERS = 60_000
#: Most rows of the table, and the longest line and name.
_ROWS = 200
_LINE = 200
_NAME = 120
_WARNINGS = 10
#: Most remarks and names in a note of the run, and the longest remark.
_NOTES = 20
_NOTE = 300
_SYMBOLS = {"PASSED": "✅", "CHANGED": "🔶", "FAILED": "❌", "INVALID": "🚫", "INCONCLUSIVE": "❔"}


def report_markdown(report: RunReport) -> str:
    """Return a run: a section for each workload that is not green, then a table of all workloads."""
    red = [verdict for verdict in by_outcome(report.verdicts) if not verdict.passed]
    parts = [_title(report), *_run_notes(report)]
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
    commit = report.provenance.commit
    footer = f"<sub>perfguard{f', commit {_code(commit_name(commit))}' if commit else ''}</sub>"
    return "\n\n".join([*parts, table, footer]) + "\n"


def _warnings(verdicts: Iterable[Verdict]) -> str:
    """Return the warnings of workloads that passed."""
    passed = (replace(one, workload=shortened(one.workload, _NAME)) for one in verdicts if one.passed)
    lines = change_lines((cut(line, _LINE + _NAME) for line in warning_lines(passed)), most=_WARNINGS)
    return f"Warnings of what passed:\n\n{_fenced(lines)}" if lines else ""


def _title(report: RunReport) -> str:
    if not report.verdicts and report.is_partial:
        return "### ❔ perfguard: nothing of this report could be read"
    if not report.verdicts:
        return "### ❔ perfguard: nothing was measured, so nothing was gated"
    counts = ", ".join(
        f"{_SYMBOLS[outcome.value]} {report.outcomes[outcome.value]} {outcome.value.lower()}"
        for outcome in OUTCOME_ORDER
        if outcome.value in report.outcomes
    )
    return f"### perfguard: {counts}"


def _run_notes(report: RunReport) -> Iterable[str]:
    if report.coverage.compared or report.coverage.shown_only:
        yield coverage_line(report.coverage, is_time_off=report.leaves_out_time_alone)
    if line := ignored_line(report.verdicts):
        yield _prose(cut(line, _NOTE))
    for remark in report.remarks[:_NOTES]:
        yield f"> {_prose(cut(remark, _NOTE))}"
    if len(report.remarks) > _NOTES:
        yield f"> and {len(report.remarks) - _NOTES} more"
    if report.unused:
        names = (_code(shortened(name, _NAME)) for name in report.unused[:_NOTES])
        more = f" and {len(report.unused) - _NOTES} more" if len(report.unused) > _NOTES else ""
        yield f"Baselines whose test no longer exists (B104): {', '.join(names)}{more}"
    if report.not_run:
        yield f"{len(report.not_run)} not run (skipped, or failed before measuring)."


def _section(verdict: Verdict, report: RunReport) -> str:
    """Return the section of a workload that is not green."""
    shown = overview(verdict, report.provenance)
    lines = [
        f"#### {_SYMBOLS[verdict.outcome.value]} {_code(shortened(verdict.workload, 4 * _NAME))}{_of(verdict)}",
        "",
    ]
    lines += [f"**{_prose(shown.headline)}**", ""]
    lines += [f"{_prose(line)}\n" for line in (shown.step, shown.where) if line]
    findings = finding_lines(without_details(verdict))
    lines.append(_fenced(cut(line, _LINE) for line in [*findings, *short_ledger_lines(verdict)]))
    if details := step_details(verdict):
        fenced = _fenced(cut(line, _LINE) for line in details)
        lines += ["", _folded("The time of a step: the numbers behind it", fenced)]
    if verdict.source:
        lines += ["", f"The test: {_code(verdict.source)}"]
    commands = [line for what, command in shown.advice for line in (f"# {what}", *command.split("\n"))]
    lines += ["", _folded("What to do", _fenced(commands, "bash"))]
    return "\n".join(lines)


def _table(verdicts: tuple[Verdict, ...], room: int) -> str:
    """Return a row a workload, the not green ones first, in at most `room` characters."""
    ordered = by_outcome(verdicts)
    rows = [
        "| outcome | workload | step ms | change | compared | worse | better | changed |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for verdict in ordered[:_ROWS]:
        found = verdict.coverage
        outcome = verdict.outcome.value if verdict.refresh in (None, Refresh.KEPT) else verdict.refresh.value
        counts = (*step_cells(verdict), found.compared, found.worse, found.better, found.changed)
        name = _code(shortened(verdict.workload, _NAME)) + _of(verdict)
        row = f"| {' | '.join([f'{_SYMBOLS[verdict.outcome.value]} {outcome}', name, *map(str, counts)])} |"
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
    shown = len(rows) - 2
    more = [f"\nand {len(ordered) - shown} more workloads"] if len(ordered) > shown else []
    text = "\n".join([*rows, *more])
    return _folded(f"All workloads ({len(ordered)})", text) if len(ordered) > 10 else text


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _of(verdict: Verdict) -> str:
    return f" (of {_code(shortened(verdict.origin, _NAME))})" if verdict.origin else ""


#: Special characters of Markdown, HTML and tables.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~!$&]")
#: Places where Markdown makes a link by itself, also in the code of an element; an invisible comment there prevents that.
_LINKED = re.compile(r"(?=@)|(?<=:)(?=//)|(?<=[Ww]{3})(?=\.)")
#: Words and small numbers in their punctuation, and signs. Not seven hexadecimal digits, which may be a commit, and nothing
#: that a sign joins: `#12`, `GH-12`, `a/b#12`, `user@host`, `www.a.b` and `:tada:` are none of these.
_PLAIN = re.compile(
    r"(?!.*[0-9a-fA-F]{7})"
    r"""(?:["'“‘(]*(?:[^\W\d_]+(?:['’][^\W\d_]+)*|[+−-]?\d{1,6}(?:[.,]\d{1,6})*%?)["'”’).,;:?…]*|[%=→≤≥±×/–—−+()]+[.,;:]?)"""
)


def _prose(text: str) -> str:
    """Return a text in which GitHub and GitLab link nothing: what is not a plain word or number is in code.

    They make links, mentions, and references to issues and commits from what Markdown left as text, and not from code.
    """
    words = printable(text).split()
    # A line that begins with a number or a sign may begin a list.
    plain = [bool(_PLAIN.fullmatch(word)) and (number > 0 or word[0].isalpha()) for number, word in enumerate(words)]
    parts: list[str] = []
    for is_plain, group in groupby(zip(plain, words, strict=True), key=itemgetter(0)):
        found = " ".join(word for _, word in group)
        parts.append(_escaped(found) if is_plain else _code(found))
    return " ".join(parts)


def _code(text: str) -> str:
    """Return a text as inline code, also for a cell of a table; Markdown is active inside an element, too."""
    return f"<code>{_escaped(text)}</code>"


def _escaped(text: str) -> str:
    """Return a text without markup, and without the links of Markdown itself."""
    return _LINKED.sub("<!-- -->", _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", printable(text)))


def _fenced(lines: Iterable[str], language: str = "text") -> str:
    text = "\n".join(map(printable, lines))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


MarkdownReporter = partial(FunctionReporter, report_markdown)
