"""Verdicts for the terminal: the message of a failing test, and the summary of a run."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter
from collections.abc import Iterable
from functools import partial

from perfguard.errors import counted, listed
from perfguard.findings import OWN_FAMILY, Code, Finding, Severity, split_place
from perfguard.judge.baseline import Baseline
from perfguard.judge.comparison import State
from perfguard.judge.quantities import show
from perfguard.judge.refresh import GIVE_REASON, Refresh
from perfguard.judge.renames import lacks_baseline, move_command
from perfguard.judge.shown_time import without_details
from perfguard.judge.verdict import Coverage, Outcome, Verdict
from perfguard.measure import Measurement, Operator
from perfguard.measure.metrics import unit_of
from perfguard.reports import FunctionReporter, RunReport
from perfguard.reports.ledger import full_ledger_lines, short_ledger_lines
from perfguard.reports.overview import baseline_commit, better_names, trade_off, with_upgrade
from perfguard.reports.step_time import step_cells, step_details
from perfguard.reports.table import Column, Cut, table
from perfguard.reports.where import more_work, where_text
from perfguard.screen import LOG, Screen, printable
from perfguard.workload import moved

#: Most findings of one code in a message; the rest is counted.
SHOWN_PER_CODE = 10
#: Most names of metrics in a line.
_NAMED = 4
#: Most shapes of an operator in a table.
_SHAPES = 3
#: The longest names of workloads and of operators in a log, and the shortest on a terminal.
_LONGEST = 100
_LONGEST_OPERATOR = 70
_SHORTEST = 24


def failure_message(
    verdict: Verdict, *, refresh_command: str, verbose: bool = False, is_temporary: bool = False, again: str = ""
) -> str:
    """Return the message of a test that is not green: the worst finding, its cause, what to do, then the details.

    `verbose` (-v) includes every finding, change and part of the ledger. `is_temporary` says that pytest deletes the recording;
    in a job of CI, `again` is the command that records it where it stays.
    """
    again = again if is_temporary else ""
    # pytest's short summary, JUnit's message attribute and IDEs show only the first line.
    worst, *others = shown_findings(verdict, verbose=verbose) or ["nothing was compared"]
    lines = [f"perfguard {verdict.outcome.value}: {worst}"]
    # The cause comes before its effects: views, wrappers, memory. Long parts come after what to do.
    lines += [f"  {line}" for line in (trade_off(verdict), where_text(verdict, after_work=True)) if line]
    if verdict.outcome is Outcome.FAILED and (commit := baseline_commit(verdict)):
        lines.append(f"  see what changed since the baseline: git diff {commit}")
    lines.append(f"  {_advice(verdict, refresh_command, again)}")
    lines += [f"  {line}" for line in others]
    if verdict.refresh is Refresh.REFUSED:
        lines += [f"    {line}" for line in change_lines(verdict.changes, most=most_shown(verbose))]
    lines.append(f"  workload: {printable(verdict.workload)}")
    if verdict.comparisons:
        lines.append(f"  {coverage_line(verdict.coverage)}")
    if line := ignored_line([verdict]):
        lines.append(f"  {line}")
    lines += [f"  {line}" for line in (time_lines(verdict) if verbose else short_ledger_lines(verdict))]
    lines[0] = with_upgrade(lines[0], verdict)
    lines += [f"  {line}" for line in environment_lines(verdict)]
    if again:
        lines.append("  recording: deleted with the job; --perfguard-recordings=DIR keeps it in DIR, for an artifact")
    elif verdict.recording is not None:
        kept = " (pytest deletes it a few runs later; --perfguard-recordings=DIR keeps it)" if is_temporary else ""
        lines.append(f"  recording: {printable(str(verdict.recording))}{kept}")
    return "\n".join(lines)


def time_lines(verdict: Verdict) -> list[str]:
    """Return every number behind the step time, and the whole ledger."""
    return [*step_details(verdict), *(full_ledger_lines(verdict) if verdict.ledger is not None else [])]


def environment_lines(verdict: Verdict, sides: str = "baseline → now") -> list[str]:
    """Return the line about a changed environment, if any."""
    changes = verdict.environment_changes
    return [f"environment, {sides}: {printable('; '.join(changes))}"] if changes else []


def shown_findings(verdict: Verdict, *, verbose: bool) -> list[str]:
    """Return the findings of a verdict, without details of the step time unless `verbose`, after added work."""
    findings = verdict.findings if verbose else without_details(verdict)
    return after_work(finding_lines(findings, most=most_shown(verbose)), verdict)


def after_work(findings: list[str], verdict: Verdict) -> list[str]:
    """Return lines of findings, the first one after the added work if that is the cause of a failing time."""
    work = more_work(verdict)
    return [f"more work: {work}; {findings[0]}", *findings[1:]] if work and findings else findings


def most_shown(verbose: bool) -> int | None:
    """Return how many findings of a code, or changes, are shown at most; None is all."""
    return None if verbose else SHOWN_PER_CODE


def _advice(verdict: Verdict, refresh_command: str, again: str) -> str:
    if verdict.outcome is Outcome.INVALID:
        where = f"perfguard check {shlex.quote(printable(str(verdict.recording or 'DIR')))}"
        if again:
            where = f"{again}, then perfguard check recordings/*"
        # perfguard's own findings come before those of the project's checks.
        worst = next((one for one in verdict.findings if one.severity is Severity.ERROR), None)
        is_own = worst is not None and worst.code.family == OWN_FAMILY
        what = "a check of this project failed" if is_own else "the recording is invalid"
        return f"{what}, so nothing was compared or stored; look at: {where}"
    codes = {finding.code for finding in verdict.findings}
    is_undecided = verdict.outcome is Outcome.INCONCLUSIVE
    if Code.B111 in codes:
        return "nothing was written: the stored baseline is unchanged"
    if is_undecided and verdict.fingerprint is None and verdict.layouts:
        return "it was not recorded by perfguard, so it has no baseline; use: perfguard compare BASE CURRENT"
    if is_undecided and Code.B112 in codes:
        return "run it again when the machine is quiet"
    if is_undecided and Code.B107 in codes:
        again = "run it again when the machine has its old speed"
        return f"{again}; if the new speed is permanent, refresh the baseline: {refresh_command}"
    if Code.B108 in codes and verdict.lost_runs:
        return "find out why the processes ended, then run the same command again"
    if is_undecided and Code.B108 in codes:
        return (
            "measure what the baseline has: leave out --perfguard-runs 0, and time as many steps; or judge exact metrics only: "
            "--perfguard-time=off"
        )
    if is_undecided and Code.B114 in codes:
        return "nothing was compared: restore the baseline as the message says, then run the same command again"
    if is_undecided and Code.B115 in codes:
        return "nothing was compared; with names, the next run shows the commands that give each parameter its baseline"
    if is_undecided and Code.B102 in codes:
        return f"nothing was compared; if it was changed on purpose: {refresh_command} {GIVE_REASON}"
    # A renamed test has a baseline, and B101 says how to keep it.
    if is_undecided and lacks_baseline(verdict):
        return f"nothing was compared; if the test is new, record a baseline with: {refresh_command}"
    if is_undecided:
        return f"nothing was compared; record a baseline with: {refresh_command}"
    first = "move the baseline as B101 says, then " if lacks_baseline(verdict) else ""
    return f"if the change is intended, {first}accept it with: {refresh_command} {GIVE_REASON}"


def finding_lines(findings: Iterable[Finding], *, most: int | None = SHOWN_PER_CODE) -> list[str]:
    """Return one line a finding, at most `most` of each code (None: all), then the numbers of the others."""
    counts: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    lines: list[str] = []
    for finding in findings:
        code = finding.code.name
        counts[code] += finding.more or 1
        if not finding.more and (most is None or shown[code] < most):
            shown[code] += 1
            lines.append(finding_line(finding))
    return lines + [f"{code} and {rest} more like it" for code, rest in (counts - shown).items()]


def checked(
    verdict: Verdict, *, explain: bool, metrics: bool, select: tuple[str, ...] = (), screen: Screen = LOG
) -> list[str]:
    """Return the output of `perfguard check`: outcome, numbers of files, findings by rank and file, worst first.

    `select` are the only codes that counted: a green outcome must show that others were ignored.
    """
    read = verdict.read
    counts = ", ".join(
        f"{count} {noun if count != 1 else noun[:-1]}"
        for noun in ("ranks", "cycles", "files", "rows")
        if (count := read.get(noun, 0)) or noun == "files"
    )
    known = f" ({printable(', '.join(verdict.layouts))}: {counts})" if verdict.layouts else ""
    only = f"; only {', '.join(select)} checked" if select else ""
    ignored = f"; {line}" if (line := ignored_line([verdict])) else ""
    lines = [f"{verdict.outcome.value} {printable(verdict.workload)}{known}{only}{ignored}"]
    findings = [one for one in verdict.findings if not (screen.is_quiet and one.severity is Severity.NOTE)]
    lines += [f"  {line}" for line in grouped_lines(findings, most=most_shown(screen.is_verbose))]
    if explain:
        notes = map(printable, verdict.notes)
        lines += [
            f"  layouts: {printable(', '.join(verdict.layouts)) or 'none recognised'}",
            *(f"  {note}" for note in notes),
        ]
    if metrics and verdict.measurements:
        shown, rest = (verdict.measurements, {}) if screen.is_verbose else _largest(verdict.measurements)
        lines.append(measurement_rows(shown, screen))
        if rest:
            # As short as the narrowest terminal.
            lines.append(f"{sum(rest.values())} smaller not shown; -v shows all")
    return lines


#: Of a metric with many subjects the largest are shown, so that a screen holds them.
_SUBJECTS_SHOWN = 3


def _largest(measurements: Iterable[Measurement]) -> tuple[list[Measurement], dict[str, int]]:
    """Return the measurements with the largest values of each metric, and how many others each metric has."""
    by_metric: dict[str, list[Measurement]] = {}
    for one in measurements:
        by_metric.setdefault(one.metric, []).append(one)
    shown: list[Measurement] = []
    for several in by_metric.values():
        shown += sorted(several, key=_size, reverse=True)[:_SUBJECTS_SHOWN]
    rest = {metric: len(several) - _SUBJECTS_SHOWN for metric, several in by_metric.items()}
    return shown, {metric: count for metric, count in rest.items() if count > 0}


def _size(one: Measurement) -> float:
    return one.value if isinstance(one.value, int | float) else len(one.value)


def grouped_lines(findings: Iterable[Finding], *, most: int | None = SHOWN_PER_CODE) -> list[str]:
    """Return findings below their file, files in the order of their worst finding.

    A headline comes once, above its messages. At most `most` of a code and file are shown (None: all), the others
    are counted. With several ranks each file has its rank.
    """
    groups: dict[tuple[int | None, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rank, split_place(finding.place)[0]), []).append(finding)
    ranks = {rank for rank, _ in groups if rank is not None}
    lines = []
    for (rank, file), group in groups.items():
        name = printable(file) or "the recording"
        has_rank = rank is not None and len(ranks) > 1 and not file.startswith("rank ")
        lines.append(f"rank {rank}: {name}" if has_rank else name)
        lines += [f"  {line}" for line in _lines_in_file(group, most)]
    return lines


def _lines_in_file(findings: Iterable[Finding], most: int | None) -> list[str]:
    """Return the findings of one file by headline and severity: a single one in one line, several below their headline."""
    alike: dict[tuple[str, str, Severity], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.code.name, finding.headline, finding.severity), []).append(finding)
    lines = []
    for (code, headline, severity), group in alike.items():
        head = f"{code} {'' if severity is Severity.ERROR else f'({severity.value}) '}{printable(headline)}:"
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
    """Return the table of `perfguard ops`, with the three most frequent shapes of each operator."""
    shown = list(operators)
    rows = []
    for one in shown:
        frequent = sorted(one.shapes.items(), key=lambda item: (-item[1], item[0]))
        shapes = change_lines(
            (f"{count} x {text}" for text, count in frequent), most=None if screen.is_verbose else _SHAPES
        )
        times = (f"{us:.3f}" for us in (one.total_us, one.average_us, one.self_us))
        where = "device" if one.on_device else "host"
        rows.append((one.rank, printable(one.operator), where, one.occurrences, *times, "\n".join(shapes)))
    if len({one.on_device for one in shown}) > 1:
        return table(_OF_OPERATORS, rows, screen)
    return table(_OF_OPERATORS[:2] + _OF_OPERATORS[3:], [row[:2] + row[3:] for row in rows], screen)


#: The end of a long name matters most, and the beginning of a shape.
_OF_OPERATORS = (
    Column(title="rank", align="right", leaves=3),
    Column(title="operator", least=_SHORTEST, most=_LONGEST_OPERATOR),
    Column(title="runs on"),
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
        # The message begins with the metric, which is the place.
        return printable(f"{finding.code.name} {severity}{finding.message}")
    place = f" {finding.place}" if finding.place else ""
    return printable(f"{finding.code.name} {severity}{finding.headline}:{place} {finding.message}")


def coverage_line(coverage: Coverage, *, is_time_off: bool = False) -> str:
    """Return `412 compared: 9 worse, 2 better, 4 changed; 0 not comparable`, and the number of metrics only shown."""
    why = " (time is off)" if is_time_off and coverage.not_comparable else ""
    line = (
        f"{coverage.compared} compared: {coverage.worse} worse, {coverage.better} better, {coverage.changed} changed; "
        f"{coverage.not_comparable} not comparable{why}"
    )
    return line + (f"; {coverage.shown_only} shown, not judged" if coverage.shown_only else "")


def compared_lines(verdict: Verdict, screen: Screen = LOG, *, ledger: bool, sides: str) -> list[str]:
    """Return the lines of `compare` and `baseline diff` for one workload, above their table; verbose, all details."""
    lines = shown_findings(verdict, verbose=screen.is_verbose)
    if screen.is_verbose:
        lines += step_details(verdict)
    if ledger or (screen.is_verbose and verdict.ledger is not None):
        lines += full_ledger_lines(verdict)
    if sides:
        lines += environment_lines(verdict, sides)
    if screen.is_verbose:
        lines += map(printable, verdict.notes)
    return [f"{verdict.outcome.value} {printable(verdict.workload)}", *(f"  {line}" for line in lines)]


def summary(report: RunReport, screen: Screen = LOG, *, told: bool = False) -> str:
    """Return the summary of a run: a table of workloads, refreshed baselines, warnings and the coverage line.

    Quiet, there is a line for each workload that is not green, and the last lines; verbose, all details, unless they were
    `told` above.
    """
    refreshed = [verdict for verdict in report.verdicts if verdict.refresh is not None]
    last = list(_last_lines(report, refreshed=bool(refreshed), quiet=screen.is_quiet))
    if screen.is_quiet:
        named = (one for one in report.verdicts if not one.passed or one.refresh is Refresh.REFUSED)
        return "\n".join([*map(_one_line, named), *last])
    parts = []
    if report.verdicts:
        rows = [
            (result(one), printable(one.workload), *step_cells(one), one.coverage.worse + one.coverage.changed)
            for one in report.verdicts
        ]
        parts.append(table(_OF_A_RUN, rows, screen))
    if screen.is_verbose and not told:
        parts += ["\n".join(lines) for verdict in report.verdicts if (lines := _all_lines(verdict))]
    if refreshed:
        parts.append("\n".join(_refresh_lines(refreshed, report.unused, most_shown(screen.is_verbose))))
    # The message of a test that is not green has its own; verbose, the details of each workload have them.
    warnings = warning_lines(verdict for verdict in report.verdicts if verdict.passed)
    if warnings and not screen.is_verbose:
        more = len(warnings) - SHOWN_PER_CODE
        others = [f"and {counted(more, 'more warning')}"] if more > 0 else []
        parts.append("\n".join(warnings[:SHOWN_PER_CODE] + others))
    parts.append("\n".join(last))
    return "\n\n".join(parts)


def warning_lines(verdicts: Iterable[Verdict]) -> list[str]:
    """Return the warnings of verdicts, without details of the step time."""
    return [
        f"{printable(verdict.workload)}: {finding_line(finding)}"
        for verdict in verdicts
        for finding in without_details(verdict)
        if finding.severity is Severity.WARNING
    ]


def _one_line(verdict: Verdict) -> str:
    """Return `FAILED test_a.py::test_a: R102 steps 3 → 4 ...`, with the worst finding."""
    worst = next(iter(shown_findings(verdict, verbose=False)), "nothing was compared")
    return f"{result(verdict)}  {printable(verdict.workload)}: {worst}"


def _all_lines(verdict: Verdict) -> list[str]:
    """Return the details of one workload: findings, environment, notes, step times, ledger."""
    notes = map(printable, verdict.notes)
    lines = [*finding_lines(verdict.findings, most=None), *environment_lines(verdict), *notes, *time_lines(verdict)]
    return [printable(verdict.workload), *(f"  {line}" for line in lines)] if lines else []


def result(verdict: Verdict) -> str:
    """Return what became of a verdict's baseline, if it was refreshed; else the outcome."""
    return verdict.outcome.value if verdict.refresh is None else verdict.refresh.value


#: The number of changes is dropped last, before it the change of the step.
_OF_A_RUN = (
    Column(title="outcome"),
    Column(title="workload", least=_SHORTEST, most=_LONGEST),
    Column(title="step ms", leaves=3),
    Column(title="change", leaves=2),
    Column(title="changed", leaves=1),
)


def _refresh_lines(verdicts: list[Verdict], unused: tuple[str, ...], most: int | None) -> Iterable[str]:
    for verdict in verdicts:
        assert verdict.refresh is not None
        yield f"{verdict.refresh.value}: {printable(verdict.workload)}"
        is_refused = verdict.refresh is Refresh.REFUSED
        findings = finding_lines(verdict.findings, most=most) if is_refused else []
        lines = [*findings, *change_lines(verdict.changes, most=most)]
        # The message of a refused test has the others.
        yield from (f"  {line}" for line in (lines[:1] if is_refused and most is not None else lines))
    yield from (f"unused: {printable(workload)}" for workload in unused)


def change_lines(changes: Iterable[str], *, most: int | None = SHOWN_PER_CODE) -> list[str]:
    """Return one line a change of a baseline, at most `most` (None: all), and the number of the others."""
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
        yield coverage_line(report.coverage, is_time_off=report.leaves_out_time_alone)
        if not quiet:
            yield from _next_to_the_coverage(report, refreshed=refreshed)
    if report.error_rate and not quiet and any(verdict.timings for verdict in report.verdicts):
        yield report.error_rate
    if not report.verdicts:
        why = (
            "its perfguard tests were skipped or failed earlier"
            if report.not_run
            else "no collected test uses perfguard"
        )
        yield f"nothing was measured, so nothing was gated: {why}"
    if report.not_run:
        yield f"{len(report.not_run)} not run (skipped or failed before measuring)"
    if line := ignored_line(report.verdicts):
        yield line


def ignored_line(verdicts: Iterable[Verdict]) -> str:
    """Return `ignored 4 (R101, R102; ignore in pyproject.toml)` and what tolerances allowed; empty if there is neither.

    Whatever a policy takes from a verdict is counted, at every verbosity: a change of the policy may turn a red run green.
    """
    verdicts = tuple(verdicts)
    counts: Counter[str] = Counter()
    by: dict[str, dict[str, None]] = {}
    for one in (one for verdict in verdicts for one in verdict.findings):
        if one.ignored is not None:
            counts[one.ignored.by] += one.more or 1
            by.setdefault(one.ignored.by, {})[one.code.name] = None
    parts = [f"{counts[name]} ({', '.join(sorted(codes))}; {name})" for name, codes in by.items()]
    allowed = [one for verdict in verdicts for one in verdict.comparisons if one.is_allowed_by_a_rule]
    named = listed(list(dict.fromkeys(one.metric for one in allowed)), _NAMED)
    lines = [f"ignored {', '.join(parts)}"] if parts else []
    lines += [f"{len(allowed)} worse, allowed by a tolerance ({named})"] if allowed else []
    return printable("; ".join(lines))


def _next_to_the_coverage(report: RunReport, *, refreshed: bool) -> Iterable[str]:
    """Yield why metrics were not compared where the line above does not say it, and how to store what got better."""
    comparisons = [one for verdict in report.verdicts for one in verdict.comparisons]
    left = [one for one in comparisons if one.state is State.NOT_COMPARABLE]
    elsewhere = [verdict for verdict in report.verdicts if any(one.code is Code.B103 for one in verdict.findings)]
    of_elsewhere = [one for verdict in elsewhere for one in verdict.comparisons if one.state is State.NOT_COMPARABLE]
    if times := sum(not one.is_new and not one.is_gone for one in of_elsewhere):
        yield f"{times} not comparable: times are of another machine than the baselines': shown, not judged"
    elif elsewhere:
        yield "times are of another machine than the baselines': shown, not judged"
    if new := sum(one.is_new for one in left):
        yield f"{new} not comparable: the baselines do not have these metrics; to store them, run: pytest --perfguard-update"
    gone = 0 if report.leaves_out_time_alone else sum(one.is_gone and not one.is_new for one in left)
    if gone and report.is_time_off:
        yield f"{gone} not comparable: time is off"
    elif gone:
        yield f"{gone} not comparable: the baselines have these metrics, and this run did not measure them"
    better = [one for verdict in report.verdicts for one in better_names(verdict)]
    if better and not refreshed and all(verdict.passed for verdict in report.verdicts):
        named = listed(list(dict.fromkeys(better)), _NAMED)
        yield f"{len(better)} better ({named}): to store what got better, run: pytest --perfguard-ratchet"
    elif better and not refreshed:
        yield f"{len(better)} better: {listed(list(dict.fromkeys(better)), _NAMED)}"


def measurement_rows(measurements: Iterable[Measurement], screen: Screen = LOG) -> str:
    """Return a table of measurements."""
    rows = [
        (
            printable(m.label),
            show(m.value) if not isinstance(m.value, dict) else f"{len(m.value)} shapes",
            show(statistics.median(m.samples)) if m.samples else "",
            unit_of(m.metric),
        )
        for m in measurements
    ]
    return table(_OF_MEASUREMENTS, rows, screen)


def baseline_rows(stored: Iterable[Baseline], screen: Screen = LOG) -> str:
    """Return the table of `perfguard baseline show`."""
    rows = []
    for one in stored:
        commit, reason = printable(one.commit or "-")[:12], printable(one.reason or "-")
        rows.append((printable(one.workload), len(one.measurements), one.runs, commit, reason))
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


TerminalReporter = partial(FunctionReporter, summary)
