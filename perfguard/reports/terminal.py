"""Verdicts for the terminal: the message of a failing test, and the summary of a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from perfguard.findings import OWN_FAMILY, Code, Finding, OwnCode, Severity, split_place
from perfguard.judge import Baseline, Coverage, Outcome, Refresh, Verdict, move_command, without_details
from perfguard.judge.quantities import show
from perfguard.measure import METRICS, Measurement, Operator
from perfguard.reports import RunReport
from perfguard.reports.ledger import asked_ledger_lines, told_ledger_lines
from perfguard.reports.names import printable
from perfguard.reports.step_time import step_details, step_words
from perfguard.reports.table import Column, Cut, table
from perfguard.reports.upgrades import with_upgrade
from perfguard.reports.words import baseline_commit, trade, where_words
from perfguard.screen import LOG, Screen
from perfguard.workload import moved

#: How many findings of one code a message shows before it counts the rest.
SHOWN_PER_CODE = 10
#: How many different shapes of an operator a table shows.
_SHAPES = 3
#: How much of a name a table in a log shows, of a workload's and of an operator's, and how little one on a screen.
_LONGEST = 100
_LONGEST_OPERATOR = 70
_SHORTEST = 24


def failure_message(verdict: Verdict, *, refresh_command: str, whole: bool = False) -> str:
    """Return the message of a test whose verdict is not green: what is worst, why, what to do, then all that stands behind it.

    `whole` asks for every finding, change and part of the ledger (-v).
    """
    # The first line is all that pytest's short summary, JUnit's message attribute and an IDE show: the worst finding.
    findings = verdict.findings if whole else without_details(verdict)
    worst, *others = finding_lines(findings, most=_most(whole)) or ["nothing was compared"]
    lines = [f"perfguard {verdict.outcome.value}: {worst}"]
    # The cause goes before what it brought with it: views, wrappers, memory. All that may be long goes after what to do.
    lines += [f"  {line}" for line in (trade(verdict), where_words(verdict)) if line]
    if verdict.outcome is Outcome.FAILED and (commit := baseline_commit(verdict)):
        lines.append(f"  see what changed since the baseline: git diff {commit}")
    lines.append(f"  {_advice(verdict, refresh_command)}")
    lines += [f"  {line}" for line in others]
    if verdict.refresh is Refresh.REFUSED:
        lines += [f"    {line}" for line in change_lines(verdict.changes, most=_most(whole))]
    lines.append(f"  workload: {printable(verdict.workload)}")
    if verdict.comparisons:
        lines.append(f"  {coverage_line(verdict.coverage)}")
    lines += [f"  {line}" for line in (whole_time_lines(verdict) if whole else told_ledger_lines(verdict))]
    if verdict.environment_changes:
        lines[0] = with_upgrade(lines[0], verdict)
        lines.append(f"  environment, baseline → now: {printable('; '.join(verdict.environment_changes))}")
    if verdict.recording is not None:
        lines.append(f"  recording: {printable(str(verdict.recording))}")
    return "\n".join(lines)


def whole_time_lines(verdict: Verdict) -> list[str]:
    """Return every number behind the step time, and the whole ledger."""
    return [*step_details(verdict), *(asked_ledger_lines(verdict) if verdict.ledger is not None else [])]


def _most(whole: bool) -> int | None:
    return None if whole else SHOWN_PER_CODE


def _advice(verdict: Verdict, refresh_command: str) -> str:
    if verdict.outcome is Outcome.INVALID:
        where = f"perfguard check {shlex.quote(printable(str(verdict.recording or 'DIR')))}"
        # Those that make it incomplete come before a project's own.
        worst = next((one for one in verdict.findings if one.severity is Severity.ERROR), None)
        is_own = worst is not None and worst.code.family == OWN_FAMILY
        what = "a check of this project is not met" if is_own else "the capture is not whole"
        return f"{what}, so nothing was compared and no baseline was touched; look at: {where}"
    if any(finding.code is Code.B111 for finding in verdict.findings):
        return "nothing was written: the stored baseline is as it was"
    if verdict.outcome is Outcome.INCONCLUSIVE and verdict.fingerprint is None and verdict.layouts:
        return "it was not recorded by perfguard, so it has no baseline; use: perfguard compare BASE CURRENT"
    if verdict.outcome is Outcome.INCONCLUSIVE and any(finding.code is Code.B112 for finding in verdict.findings):
        return "run it again when the machine is quiet"
    if verdict.outcome is Outcome.INCONCLUSIVE and any(finding.code is Code.B107 for finding in verdict.findings):
        return (
            "run it again when the machine is as it was; a machine that stays so needs its own baseline: "
            + refresh_command
        )
    if any(finding.code is Code.B108 for finding in verdict.findings):
        return "look at why the processes ended, then run the same command again"
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return f"nothing was compared; record a baseline with: {refresh_command}"
    return f"if the change is intended, accept it with: {refresh_command} --perfguard-reason 'why'"


def finding_lines(findings: Iterable[Finding], *, most: int | None = SHOWN_PER_CODE) -> list[str]:
    """Return one line a finding, at most so many of each code (None: all there are), the rest counted, notes last."""
    counts: dict[str, int] = {}
    shown: dict[str, int] = {}
    lines: list[str] = []
    for finding in findings:
        code = finding.code.name
        counts[code] = counts.get(code, 0) + (finding.more or 1)
        if not finding.more and (most is None or shown.get(code, 0) < most):
            shown[code] = shown.get(code, 0) + 1
            lines.append(finding_line(finding))
    lines += [
        f"{code} and {count - shown.get(code, 0)} more like it"
        for code, count in counts.items()
        if count > shown.get(code, 0)
    ]
    return lines


def checked(
    verdict: Verdict, *, explain: bool, metrics: bool, select: tuple[str, ...] = (), screen: Screen = LOG
) -> list[str]:
    """Return what `perfguard check` prints: outcome, what was read, findings by rank and file, worst first.

    `select` are the codes that alone were looked at: a green outcome must not look like that of all of them.
    """
    read = verdict.read
    counts = ", ".join(
        f"{count} {noun if count != 1 else noun[:-1]}"
        for noun in ("ranks", "cycles", "files", "rows")
        if (count := read.get(noun, 0)) or noun == "files"
    )
    known = f" ({', '.join(verdict.layouts)}: {counts})" if verdict.layouts else ""
    only = f"; only {', '.join(select)} looked at" if select else ""
    lines = [f"{verdict.outcome.value} {printable(verdict.workload)}{known}{only}"]
    lines += [f"  {line}" for line in grouped_lines(verdict.findings, most=_most(screen.is_verbose))]
    if explain:
        lines += [f"  {line}" for line in explanation(verdict)]
    if metrics and verdict.measurements:
        lines.append(measurement_rows(verdict.measurements, screen))
    return lines


def grouped_lines(findings: Iterable[Finding], *, most: int | None = SHOWN_PER_CODE) -> list[str]:
    """Return findings under the file they are about, files in the order of their worst finding.

    The headline of a code stands once above its messages. At most so many of a code in a file are shown (None: all there
    are), the rest is counted. Ranks are named where there are several.
    """
    groups: dict[tuple[int | None, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rank, split_place(finding.place)[0]), []).append(finding)
    ranks = {rank for rank, _ in groups if rank is not None}
    lines = []
    for (rank, file), group in groups.items():
        name = printable(file) or "the recording"
        is_led = rank is not None and len(ranks) > 1 and not file.startswith("rank ")
        lines.append(f"rank {rank}: {name}" if is_led else name)
        lines += [f"  {line}" for line in _lines_in_file(group, most)]
    return lines


def _lines_in_file(findings: Iterable[Finding], most: int | None) -> list[str]:
    """Return the findings of one file by code and severity: one in a line, several below their headline."""
    alike: dict[tuple[Code | OwnCode, Severity], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.code, finding.severity), []).append(finding)
    lines = []
    for (code, severity), group in alike.items():
        head = f"{code.name} {'' if severity is Severity.ERROR else f'({severity.value}) '}{code.value}:"
        shown = [_message_in_file(finding) for finding in group if not finding.more][:most]
        rest = sum(finding.more or 1 for finding in group) - len(shown)
        if len(shown) == 1 and not rest:
            lines.append(f"{head} {shown[0]}")
            continue
        lines += [head, *(f"  {message}" for message in shown)]
        lines += [f"  and {rest} more like it"] if rest else []
    return lines


def _message_in_file(finding: Finding) -> str:
    _, line, inside = split_place(finding.place)
    where = " ".join(part for part in (f"line {line}" if line else "", inside) if part)
    return printable(f"{where}: {finding.message}" if where else finding.message)


def operator_rows(operators: Iterable[Operator], screen: Screen = LOG) -> str:
    """Return the table of `perfguard ops`; of an operator with many shapes the most frequent three are shown."""
    rows = []
    for one in operators:
        frequent = sorted(one.shapes.items(), key=lambda item: (-item[1], item[0]))
        told = frequent if screen.is_verbose else frequent[:_SHAPES]
        shapes = [f"{count} x {printable(text)}" for text, count in told]
        more = [f"and {len(frequent) - len(told)} more"] if len(frequent) > len(told) else []
        times = (f"{us:.3f}" for us in (one.total_us, one.average_us, one.self_us))
        rows.append((one.rank, printable(one.operator), one.occurrences, *times, "\n".join([*shapes, *more])))
    return table(_OF_OPERATORS, rows, screen)


#: A long name tells most at its end, a shape at its beginning.
_OF_OPERATORS = (
    Column(title="rank", align="right", leaves=3),
    Column(title="operator", least=_SHORTEST, most=_LONGEST_OPERATOR),
    Column(title="occurrences", align="right"),
    Column(title="total us", align="right", leaves=1),
    Column(title="average us", align="right", leaves=4),
    Column(title="self us", align="right", leaves=5),
    Column(title="shapes", least=16, cut=Cut.END, most=_LONGEST_OPERATOR, leaves=2),
)


def finding_line(finding: Finding) -> str:
    """Return `R101 operator_time[MatMul] 8200.0 → 11340.7 us, +38.3 % (allowed +25.0 %)` and the like."""
    severity = "" if finding.severity is Severity.ERROR else f"({finding.severity.value}) "
    if finding.code.family == "R":
        # The message begins with the metric; the place would only repeat it.
        return printable(f"{finding.code.name} {severity}{finding.message}")
    place = f" {finding.place}" if finding.place else ""
    return printable(f"{finding.code.name} {severity}{finding.code.value}:{place} {finding.message}")


def coverage_line(coverage: Coverage, *, is_time_off: bool = False) -> str:
    """Return `412 compared: 9 worse, 2 better, 4 changed; 0 not comparable`, with what was only shown where there is any."""
    why = " (time is off)" if is_time_off and coverage.not_comparable else ""
    line = (
        f"{coverage.compared} compared: {coverage.worse} worse, {coverage.better} better, {coverage.changed} changed; "
        f"{coverage.not_comparable} not comparable{why}"
    )
    return line + (f"; {coverage.shown_only} shown, not judged" if coverage.shown_only else "")


def compared_lines(verdict: Verdict, screen: Screen = LOG, *, ledger: bool, sides: str) -> list[str]:
    """Return what `compare` and `baseline diff` say of one workload above their table; verbose, everything that is known."""
    is_whole = screen.is_verbose
    lines = finding_lines(verdict.findings if is_whole else without_details(verdict), most=_most(is_whole))
    if is_whole:
        lines += step_details(verdict)
    if ledger or (is_whole and verdict.ledger is not None):
        lines += asked_ledger_lines(verdict)
    if verdict.environment_changes and sides:
        lines.append(f"environment, {sides}: {printable('; '.join(verdict.environment_changes))}")
    if is_whole:
        lines += map(printable, verdict.notes)
    return [f"{verdict.outcome.value} {printable(verdict.workload)}", *(f"  {line}" for line in lines)]


def summary(report: RunReport, screen: Screen = LOG, *, told: bool = False) -> str:
    """Return the summary of a run: a table of workloads, refreshed baselines, warnings and the coverage line.

    Quiet, there is a line for each workload that is not green, and the last lines; verbose, everything that is known, unless
    it was `told` above.
    """
    refreshed = [verdict for verdict in report.verdicts if verdict.refresh is not None]
    last = list(_last_lines(report, refreshed=bool(refreshed), quiet=screen.is_quiet))
    if screen.is_quiet:
        return "\n".join([*map(_one_line, filter(_is_told, report.verdicts)), *last])
    parts = []
    if report.verdicts:
        parts.append(_table(report.verdicts, screen))
    if screen.is_verbose and not told:
        parts += ["\n".join(lines) for verdict in report.verdicts if (lines := _all_lines(verdict))]
    if refreshed:
        parts.append("\n".join(_refresh_lines(refreshed, report.unused, _most(screen.is_verbose))))
    warnings = [
        f"{printable(verdict.workload)}: {finding_line(finding)}"
        for verdict in report.verdicts
        for finding in without_details(verdict)
        if finding.severity is Severity.WARNING
    ]
    # Verbose, each workload has said its own.
    if warnings and not screen.is_verbose:
        parts.append("\n".join(warnings[:SHOWN_PER_CODE] + _more(len(warnings))))
    parts.append("\n".join(last))
    return "\n\n".join(parts)


def _is_told(verdict: Verdict) -> bool:
    """Whether a quiet summary names a workload: it is not green, or a refresh was refused."""
    return not verdict.passed or verdict.refresh is Refresh.REFUSED


def _one_line(verdict: Verdict) -> str:
    """Return `FAILED test_a.py::test_a: R102 steps 3 → 4 ...`, with the worst finding."""
    word = verdict.outcome.value if verdict.refresh is None else verdict.refresh.value
    worst = next(iter(finding_lines(without_details(verdict))), "nothing was compared")
    return f"{word}  {printable(verdict.workload)}: {worst}"


def _all_lines(verdict: Verdict) -> list[str]:
    """Return all that is known of one workload beside its row: findings, environment, how it was timed, where time went."""
    lines = finding_lines(verdict.findings, most=None)
    if verdict.environment_changes:
        lines.append(f"environment, baseline → now: {printable('; '.join(verdict.environment_changes))}")
    lines += map(printable, verdict.notes)
    lines += whole_time_lines(verdict)
    return [printable(verdict.workload), *(f"  {line}" for line in lines)] if lines else []


def _more(count: int) -> list[str]:
    more = count - SHOWN_PER_CODE
    return [f"and {more} more warning{'s' if more > 1 else ''}"] if more > 0 else []


def _table(verdicts: Iterable[Verdict], screen: Screen) -> str:
    rows = [
        (
            verdict.outcome.value if verdict.refresh is None else verdict.refresh.value,
            printable(verdict.workload),
            *step_words(verdict),
            str(verdict.coverage.worse + verdict.coverage.changed),
        )
        for verdict in verdicts
    ]
    return table(_OF_A_RUN, rows, screen)


#: What changed stays longest, then by how much the step did.
_OF_A_RUN = (
    Column(title="outcome"),
    Column(title="workload", least=_SHORTEST, most=_LONGEST),
    Column(title="step ms", leaves=3),
    Column(title="change", leaves=2),
    Column(title="changed", leaves=1),
)
#: The columns of a run's summary, where there is room for all of them.
RUN_TITLES = tuple(column.title for column in _OF_A_RUN)


def _refresh_lines(verdicts: list[Verdict], unused: tuple[str, ...], most: int | None) -> Iterable[str]:
    for verdict in verdicts:
        assert verdict.refresh is not None
        yield f"{verdict.refresh.value}: {printable(verdict.workload)}"
        if verdict.refresh is Refresh.REFUSED:
            yield from (f"  {line}" for line in finding_lines(verdict.findings, most=most))
        yield from (f"  {line}" for line in change_lines(verdict.changes, most=most))
    yield from (f"unused: {printable(workload)}" for workload in unused)


def change_lines(changes: Iterable[str], *, most: int | None = SHOWN_PER_CODE) -> list[str]:
    """Return one line a change of a baseline, at most so many (None: all there are), the rest counted."""
    lines = [printable(change) for change in changes]
    more = 0 if most is None else len(lines) - most
    return lines[:most] + ([f"and {more} more"] if more > 0 else [])


def _last_lines(report: RunReport, *, refreshed: bool, quiet: bool) -> Iterable[str]:
    if refreshed:
        counts = {state: sum(v.refresh is state for v in report.verdicts) for state in Refresh}
        named = ", ".join(
            f"{count} {state.value}"
            for state, count in counts.items()
            if count or state not in (Refresh.REFUSED, Refresh.DUE)
        )
        yield f"baselines: {named}, {len(report.unused)} unused"
    elif report.unused:
        for workload in report.unused:
            yield f"B104 {Code.B104.value}: {printable(workload)}"
        renamed = {name for old, new in report.moves for name in moved(report.unused, old, new)}
        yield from (f"was {printable(old)} renamed? {printable(move_command(old, new))}" for old, new in report.moves)
        if gone := [shlex.quote(printable(workload)) for workload in report.unused if workload not in renamed]:
            yield f"remove with: perfguard baseline prune {' '.join(gone)}"
    if any(verdict.refresh is None or verdict.comparisons for verdict in report.verdicts):
        if not quiet and any(f.code.name == "B103" for verdict in report.verdicts for f in verdict.findings):
            yield "times are of another machine than the baselines': shown, not judged"
        yield coverage_line(report.coverage, is_time_off=report.is_time_off)
    if report.error_rate and not quiet and any(verdict.timings for verdict in report.verdicts):
        yield report.error_rate
    if not report.verdicts:
        why = "the tests that use perfguard got not so far" if report.not_run else "no test of this run uses perfguard"
        yield f"nothing was measured, so nothing was gated: {why}"
    if report.not_run:
        yield f"{len(report.not_run)} not run (skipped or failed before measuring)"


def explanation(verdict: Verdict) -> Iterable[str]:
    """Return what could not be known, and which layouts were recognised."""
    yield f"layouts: {', '.join(verdict.layouts) or 'none recognised'}"
    yield from (printable(note) for note in verdict.notes)


def measurement_rows(measurements: Iterable[Measurement], screen: Screen = LOG) -> str:
    """Return a table of measurements."""
    rows = [
        (
            printable(m.label),
            show(m.value) if not isinstance(m.value, dict) else f"{len(m.value)} shapes",
            show(m.statistics.median) if m.statistics else "",
            METRICS[m.metric].unit if m.metric in METRICS else "",
        )
        for m in measurements
    ]
    return table(_OF_MEASUREMENTS, rows, screen)


def baseline_rows(stored: Iterable[Baseline], screen: Screen = LOG) -> str:
    """Return the table of `perfguard baseline show`."""
    rows = [
        (
            printable(one.workload),
            len(one.measurements),
            one.runs,
            printable(one.commit or "-")[:12],
            printable(one.reason or "-"),
        )
        for one in stored
    ]
    return table(_OF_BASELINES, rows, screen)


_OF_BASELINES = (
    Column(title="workload", least=_SHORTEST),
    Column(title="measurements", leaves=2),
    Column(title="runs", leaves=4),
    Column(title="commit", leaves=3),
    Column(title="reason", least=16, cut=Cut.END, leaves=1),
)

_OF_MEASUREMENTS = (
    Column(title="metric", least=_SHORTEST, cut=Cut.MIDDLE),
    Column(title="value"),
    Column(title="median", leaves=2),
    Column(title="unit", leaves=1),
)


class TerminalReporter:
    """The summary of a run, as the terminal has it."""

    def text(self, report: RunReport) -> str:
        """Return the summary without colours."""
        return summary(report)
