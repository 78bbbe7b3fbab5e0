"""Verdicts for the terminal: literal verdicts, literal text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.findings import Code, Finding, Severity
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.refresh import Refresh
from perfguard.judge.tolerance import OF_THE_TEST, Policy
from perfguard.judge.verdict import Coverage, Outcome, Verdict
from perfguard.measure import Measurement
from perfguard.reports import REPORTERS, RunReport
from perfguard.reports.ledger import full_ledger_lines, ledger_lines
from perfguard.reports.terminal import (
    checked,
    coverage_line,
    failure_message,
    finding_line,
    finding_lines,
    ignored_line,
    measurement_rows,
    summary,
)
from perfguard.screen import Screen, printable

COMMAND = "pytest --perfguard --perfguard-update test_a.py"
MORE_CALLS = Finding(
    code=Code.R102,
    place="operator_calls[MatMul]",
    message="operator_calls[MatMul] 4 → 5 calls/step, +1 (exact: any increase fails)",
)
SLOWER = Finding(
    code=Code.R101, place="step_time", message="step_time 100.0 → 350.0 us, +250.0 % (allowed +100.0 %)", weight=2.5
)
LEAKED = Finding(code=Code.C101, place="run_ascend", message="5 steps were requested, but the trace marks 4")
STALE = Finding(
    code=Code.R106,
    place="step_time",
    severity=Severity.WARNING,
    message="step_time 100.0 → 20.0 us, −80.0 %: better than the baseline",
)
OTHER_MACHINE = Finding(code=Code.B103, severity=Severity.NOTE, message="times are shown, not judged: A there, B here")
SLOWER_LEDGER = Ledger(
    metric="step_time",
    base_ns=100_000,
    current_ns=350_000,
    entries=(
        Entry(
            cause=Cause.PER_CALL, subject="MatMul", base_ns=62_500, current_ns=242_500, base_calls=5, current_calls=5
        ),
        Entry(cause=Cause.IDLE, base_ns=20_000, current_ns=35_000),
        Entry(cause=Cause.CALLS, subject="MatMul", base_ns=50_000, current_ns=62_500, base_calls=4, current_calls=5),
        Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=42_500),
    ),
)
NO_BASELINE = Finding(code=Code.B101, message="there is none")


def compared(state: State, *, metric: str = "steps", subject: str = "", judged: bool = True, **values: object):
    values = {"reference": 1, "current": 2, "finding": None, **values}
    return Comparison(metric=metric, subject=subject, state=state, judged=judged, **values)


def verdict(outcome: Outcome = Outcome.PASSED, *findings: Finding, **facts: object) -> Verdict:
    return Verdict(**{"workload": "test_a.py::test_a", "outcome": outcome, "findings": findings, **facts})


# -- one finding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "finding, line",
    [
        (MORE_CALLS, "R102 operator_calls[MatMul] 4 → 5 calls/step, +1 (exact: any increase fails)"),
        (STALE, "R106 (warning) step_time 100.0 → 20.0 us, −80.0 %: better than the baseline"),
        (
            LEAKED,
            "C101 the profiled window is not the requested one: run_ascend 5 steps were requested, but the trace marks 4",
        ),
        (NO_BASELINE, "B101 no baseline to compare with: there is none"),
        (
            OTHER_MACHINE,
            "B103 (note) the baseline was measured on another machine: times are shown, not judged: A there, B here",
        ),
        (
            Finding(code=Code.S103, place="op_type_info.csv:7 $.percent", message="'x' is not of type 'number'"),
            "S103 a value breaks the schema: op_type_info.csv:7 $.percent 'x' is not of type 'number'",
        ),
        (
            Finding(code=Code.S103, place="a.csv:2", message="'a:  b' is too long"),
            "S103 a value breaks the schema: a.csv:2 'a:  b' is too long",
        ),
    ],
)
def test_a_finding_is_one_line(finding, line):
    assert finding_line(finding) == line


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain text → é 中 🚀", "plain text → é 中 🚀"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb\tc\x00d\x7fe", "a\\rb\\tc\\x00d\\x7fe"),
        ("\x9b31m", "\\x9b31m"),
        ("turned \u202eround\u2069", "turned \\u202eround\\u2069"),
        ("zero\u200bwidth \ufeffmark", "zero\\u200bwidth \\ufeffmark"),
        ("line\u2028separator\u2029", "line\\u2028separator\\u2029"),
        ("next\x85line", "next\\x85line"),
        ("half a \udcff surrogate", "half a \\udcff surrogate"),
        ("tag \U000e0041", "tag \\U000e0041"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_escaped(text, shown):
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_printable_text_is_printable_can_be_encoded_and_is_stable(text):
    shown = printable(text)
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert printable(shown) == shown
    shown.encode("utf-8")


@given(st.text(st.characters(exclude_categories=())), st.text(), st.sampled_from(Code), st.sampled_from(Severity))
def test_no_finding_can_write_a_second_line(message, place, code, severity):
    line = finding_line(Finding(code=code, message=message, place=place, severity=severity))
    assert len((line + ".").splitlines()) == 1
    assert line.startswith(code.name)


# -- many findings -------------------------------------------------------------------------------------------------------


def of_code(code: Code, count: int) -> list[Finding]:
    return [Finding(code=code, message=f"number {i}") for i in range(count)]


@pytest.mark.parametrize(
    "counts, lengths, last",
    [
        ({Code.R102: 0}, 0, []),
        ({Code.R102: 10}, 10, ["R102 number 9"]),
        ({Code.R102: 11}, 11, ["R102 and 1 more like it"]),
        ({Code.R102: 400}, 11, ["R102 and 390 more like it"]),
        ({Code.C101: 12, Code.R102: 3, Code.R104: 30}, 25, ["C101 and 2 more like it", "R104 and 20 more like it"]),
    ],
)
def test_ten_findings_of_a_code_are_shown_and_the_rest_is_counted(counts, lengths, last):
    lines = finding_lines([finding for code, count in counts.items() for finding in of_code(code, count)])
    assert len(lines) == lengths
    assert lines[len(lines) - len(last) :] == last


@given(st.lists(st.sampled_from([Code.C101, Code.S103, Code.R101, Code.R104]), max_size=60))
def test_every_finding_is_shown_or_counted(codes):
    lines = finding_lines([Finding(code=code, message="x") for code in codes])
    for code in set(codes):
        mine = [line for line in lines if line.startswith(code.name)]
        counted = sum(int(line.split()[2]) for line in mine if line.endswith("more like it"))
        assert sum(not line.endswith("more like it") for line in mine) + counted == codes.count(code)


# -- the message of a failing test ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failing, text",
    [
        pytest.param(
            verdict(
                Outcome.FAILED,
                MORE_CALLS,
                SLOWER,
                comparisons=(
                    compared(
                        State.WORSE,
                        metric="operator_calls",
                        subject="MatMul",
                        reference=4,
                        current=5,
                        finding=MORE_CALLS,
                    ),
                    compared(State.WORSE, metric="step_time", reference=100.0, current=350.0, finding=SLOWER),
                    *[
                        compared(
                            State.SAME,
                            metric="operator_time",
                            subject=name,
                            judged=False,
                            reference=float(before),
                            current=float(now),
                        )
                        for name, before, now in [("Add", 9, 10), ("MatMul", 50, 290), ("Relu", 5, 4), ("Gelu", 1, 8)]
                    ],
                ),
                measurements=(Measurement(metric="step_time", subject="", value=350.0),),
                ledger=SLOWER_LEDGER,
                environment_changes=("torch: 2.12.0 → 2.13.0", "python: 3.10.1 → 3.11.7"),
                recording=Path("/data/recording"),
            ),
            """\
perfguard FAILED: R102 operator_calls[MatMul] 4 → 5 calls/step, +1 (exact: any increase fails); \
torch 2.12.0 → 2.13.0, python 3.10.1 → 3.11.7 since the baseline
  The largest part is MatMul (each call takes longer): +192 us, 77 % of the change in time.
  if the change is intended, accept it with: pytest --perfguard --perfguard-update test_a.py --perfguard-reason "..."
  R101 step_time 100.0 → 350.0 us, +250.0 % (allowed +100.0 %)
  workload: test_a.py::test_a
  2 compared: 2 worse, 0 better, 0 changed; 0 not comparable; 4 shown, not judged
  step +250.0 us:
    +180.0 us  MatMul: slower per call (5 calls, 12.5 → 48.5 us)
     +15.0 us  idle gaps (20.0 → 35.0 us)
     +12.5 us  MatMul: more calls (4 → 5, 12.5 us each)
     +42.5 us  residual
  environment, baseline → now: torch: 2.12.0 → 2.13.0; python: 3.10.1 → 3.11.7
  recording: /data/recording""",
            id="failed",
        ),
        pytest.param(
            verdict(Outcome.INVALID, LEAKED, recording=Path("/data/recording")),
            """\
perfguard INVALID: C101 the profiled window is not the requested one: run_ascend 5 steps were requested, but the trace marks 4
  the recording is invalid, so nothing was compared or stored; look at: perfguard check /data/recording
  workload: test_a.py::test_a
  recording: /data/recording""",
            id="invalid",
        ),
        pytest.param(
            verdict(Outcome.INCONCLUSIVE, NO_BASELINE),
            """\
perfguard INCONCLUSIVE: B101 no baseline to compare with: there is none
  nothing was compared; if the test is new, record a baseline with: pytest --perfguard --perfguard-update test_a.py
  workload: test_a.py::test_a""",
            id="no baseline",
        ),
        pytest.param(
            verdict(Outcome.FAILED, SLOWER, replace(NO_BASELINE, severity=Severity.NOTE)),
            """\
perfguard FAILED: R101 step_time 100.0 → 350.0 us, +250.0 % (allowed +100.0 %)
  if the change is intended, move the baseline as B101 says, then accept it with: pytest --perfguard --perfguard-update \
test_a.py --perfguard-reason "..."
  B101 (note) no baseline to compare with: there is none
  workload: test_a.py::test_a""",
            id="renamed",
        ),
        pytest.param(
            verdict(Outcome.INCONCLUSIVE),
            """\
perfguard INCONCLUSIVE: nothing was compared
  nothing was compared; record a baseline with: pytest --perfguard --perfguard-update test_a.py
  workload: test_a.py::test_a""",
            id="nothing",
        ),
    ],
)
def test_the_message_of_a_failing_test(failing, text):
    assert failure_message(failing, refresh_command=COMMAND) == text


def test_a_recording_that_pytest_deletes_is_told_so_with_what_keeps_it():
    kept = verdict(Outcome.INVALID, LEAKED, recording=Path("/data/recording"))
    *_, last = failure_message(kept, refresh_command=COMMAND, is_temporary=True).splitlines()
    assert last == (
        "  recording: /data/recording (pytest deletes it a few runs later; --perfguard-recordings=DIR keeps it)"
    )


def test_a_recording_that_ends_with_a_job_is_not_named_and_can_be_made_again_where_it_stays():
    again = "pytest --perfguard --perfguard-recordings=recordings test_a.py"
    gone = verdict(Outcome.INVALID, LEAKED, recording=Path("/tmp/recording"))
    message = failure_message(gone, refresh_command=COMMAND, is_temporary=True, again=again)
    assert "/tmp/recording" not in message
    assert f"look at: {again}, then perfguard check recordings/*" in message
    assert message.splitlines()[-1].startswith("  recording: deleted with the job; --perfguard-recordings=DIR keeps it")
    # One that the user keeps is named.
    assert "/tmp/recording" in failure_message(gone, refresh_command=COMMAND, again=again)


def test_a_ledger_is_shown_only_where_a_time_got_worse():
    comparisons = (
        compared(State.WORSE, metric="operator_calls", subject="MatMul", finding=MORE_CALLS),
        compared(State.SAME, metric="operator_time", subject="MatMul", judged=False, reference=50.0, current=290.0),
    )
    failing = verdict(Outcome.FAILED, MORE_CALLS, comparisons=comparisons, ledger=SLOWER_LEDGER)
    assert "residual" not in failure_message(failing, refresh_command=COMMAND)


def test_a_ledger_that_cannot_name_a_cause_says_so_and_shows_its_parts_to_who_asks():
    of_the_profiler = Entry(cause=Cause.PROFILER, base_ns=-300_000, current_ns=-100_000)
    entries = (
        of_operator(Cause.PER_CALL, 0, 50_000),
        of_the_profiler,
        Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=0),
    )
    ledger = Ledger(metric="step_time", base_ns=100_000, current_ns=350_000, entries=entries)
    failing = verdict(
        Outcome.FAILED,
        SLOWER,
        comparisons=(compared(State.WORSE, metric="step_time", reference=100.0, current=350.0, finding=SLOWER),),
        measurements=(Measurement(metric="step_time", subject="", value=350.0),),
        ledger=ledger,
    )
    said = "Which operator took the time is not known: what profiling adds changed by −200 us, the step by +250 us."
    message = failure_message(failing, refresh_command=COMMAND)
    assert message.splitlines()[1] == f"  {said}"
    assert "residual" not in message
    whole = failure_message(failing, refresh_command=COMMAND, verbose=True)
    assert "  step 100.0 → 350.0 us, +250.0 us:" in whole
    assert "residual" in whole
    assert full_ledger_lines(failing)[0] == said


# -- the ledger ----------------------------------------------------------------------------------------------------------


def of_operator(cause: Cause, base: int, current: int, **facts: object) -> Entry:
    return Entry(**{"cause": cause, "subject": "Mul", "base_ns": base, "current_ns": current, **facts})


@pytest.mark.parametrize(
    "entry, text",
    [
        (of_operator(Cause.NEW, 0, 50_000, base_calls=0, current_calls=2), "Mul: new (2 calls, 25 us each)"),
        (of_operator(Cause.NEW, 0, 50_000, base_calls=0), "Mul: new"),
        # The baseline has its time and no calls of it.
        (
            of_operator(Cause.PER_CALL, 10_000, 50_000, base_calls=0, current_calls=2),
            "Mul: newly called (2 calls, 25 us each)",
        ),
        (of_operator(Cause.VANISHED, 50_000, 0, base_calls=1, current_calls=0), "Mul: vanished (1 call, 50 us each)"),
        (
            of_operator(Cause.CALLS, 40_000, 50_000, base_calls=4, current_calls=5),
            "Mul: more calls (4 → 5, 10 us each)",
        ),
        (
            of_operator(Cause.CALLS, 40_000, 5_000, base_calls=4, current_calls=0.5),
            "Mul: fewer calls (4 → 0.5, 10 us each)",
        ),
        (
            of_operator(Cause.PER_CALL, 308_400, 618_400, base_calls=4, current_calls=4),
            "Mul: slower per call (4 calls, 77.1 → 154.6 us)",
        ),
        (
            of_operator(Cause.PER_CALL, 618_400, 308_400, base_calls=4, current_calls=4),
            "Mul: faster per call (4 calls, 154.6 → 77.1 us)",
        ),
        (of_operator(Cause.PER_CALL, 10_000, 20_000), "Mul: slower (10.0 → 20.0 us)"),
        (
            of_operator(Cause.SHAPES, 10_000, 20_000, base_calls=1, current_calls=1, note="[2] 1 → 0; [4] 0 → 1"),
            "Mul: changed shapes (1 call, 10 → 20 us; [2] 1 → 0; [4] 0 → 1)",
        ),
        (
            of_operator(
                Cause.RENAMED,
                40_000,
                44_000,
                base_calls=4,
                current_calls=4,
                renamed_from="Multiply",
                note="same calls and shapes, between t and relu",
            ),
            "Multiply → Mul: renamed (same calls and shapes, between t and relu; 4 calls, 10 → 11 us)",
        ),
        (Entry(cause=Cause.IDLE, base_ns=0, current_ns=12_000), "idle gaps (0.0 → 12.0 us)"),
        (Entry(cause=Cause.OVERLAP, base_ns=-5_000, current_ns=-7_000), "less: overlapping operators (5.0 → 7.0 us)"),
        (
            Entry(cause=Cause.COMMUNICATION, base_ns=5_000, current_ns=9_000),
            "communication not overlapped (5.0 → 9.0 us)",
        ),
        (
            Entry(cause=Cause.PROFILER, base_ns=-50_000, current_ns=-60_000),
            "less: what profiling adds to a step (50.0 → 60.0 us)",
        ),
        (Entry(cause=Cause.RANK, base_ns=10_000, current_ns=0), "another rank was the slowest before"),
    ],
)
def test_a_part_of_a_ledger_says_why(entry, text):
    residual = Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=0)
    ledger = Ledger(metric="step_time", base_ns=0, current_ns=entry.change_ns, entries=(entry, residual))
    _, line, last = ledger_lines(ledger)
    assert line.split(" us  ", 1)[1] == text
    assert last.split() == ["+0.0", "us", "residual"]


@pytest.mark.parametrize(
    "metric, rank, head",
    [
        ("step_time", None, "step 2410.0 → 2890.0 us, +480.0 us:"),
        ("step_time", 3, "step of rank 3, the slowest 2410.0 → 2890.0 us, +480.0 us:"),
        ("run_wall_time", None, "step (wall time) 2410.0 → 2890.0 us, +480.0 us:"),
        ("profiled_step_time", None, "profiled step 2410.0 → 2890.0 us, +480.0 us:"),
        ("operator_time", None, "all that was profiled 2410.0 → 2890.0 us, +480.0 us:"),
    ],
)
def test_a_ledger_says_of_what_it_is(metric, rank, head):
    residual = Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=480_000)
    ledger = Ledger(metric=metric, rank=rank, base_ns=2_410_000, current_ns=2_890_000, entries=(residual,))
    assert ledger_lines(ledger)[0] == head


def test_small_parts_are_one_line_and_what_is_printed_adds_up():
    entries = [
        of_operator(Cause.PER_CALL, 0, 300_040, subject="MatMul"),
        Entry(cause=Cause.IDLE, base_ns=0, current_ns=940),
    ]
    entries += [of_operator(Cause.PER_CALL, 0, 440, subject=f"op{i}") for i in range(10)]
    entries += [Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=1_040)]
    whole = sum(entry.change_ns for entry in entries)
    ledger = Ledger(metric="step_time", base_ns=0, current_ns=whole, entries=tuple(entries))
    assert ledger_lines(ledger, most=8) == [
        "step +306.4 us:",
        "  +300.0 us  MatMul: slower (0.0 → 300.0 us)",
        "    +5.4 us  10 other operators, idle gaps",
        "    +1.0 us  residual",
    ]
    assert [line.split(" us  ")[0].strip() for line in ledger_lines(ledger)] == [
        "step 0.0 → 306.4 us, +306.4 us:",
        *("+300.0", "+0.9", *["+0.4"] * 10, "+1.5"),
    ]


def test_beyond_so_many_lines_even_large_parts_are_one():
    entries = [of_operator(Cause.PER_CALL, 0, 10_000, subject=f"op{i}") for i in range(20)]
    residual = Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=0)
    ledger = Ledger(metric="step_time", base_ns=0, current_ns=200_000, entries=(*entries, residual))
    lines = ledger_lines(ledger, most=8)
    assert len(lines) == 9
    assert lines[1] == "  +140.0 us  14 other operators"


def test_the_small_rest_of_an_operator_already_told_is_no_other_operator():
    entries = (
        of_operator(Cause.CALLS, 10_000, 20_000, base_calls=1, current_calls=2),
        of_operator(Cause.PER_CALL, 20_000, 20_010, base_calls=2, current_calls=2),
        Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=0),
    )
    ledger = Ledger(metric="step_time", base_ns=0, current_ns=10_010, entries=entries)
    assert ledger_lines(ledger, most=8)[2] == "   +0.0 us  the rest of these operators"


def test_a_path_the_advice_names_can_be_copied_into_a_shell():
    import shlex

    failing = verdict(Outcome.INVALID, LEAKED, recording=Path("/data/two words/$(touch x)"))
    advice = failure_message(failing, refresh_command=COMMAND).splitlines()[1].partition("look at: ")[2]
    assert shlex.split(advice) == ["perfguard", "check", "/data/two words/$(touch x)"]


HOSTILE = ["\x1b[31mred", "two\nPASSED lines", "turned \u202e round", "carriage\rreturn", "\udcff"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped_wherever_they_stand(name):
    finding = Finding(code=Code.S103, place=name, message=name)
    worse = Finding(code=Code.R102, place=name, message=name)
    hostile = verdict(
        Outcome.FAILED,
        finding,
        worse,
        Finding(code=Code.C102, place=name, message=name, severity=Severity.WARNING),
        workload=name,
        comparisons=(
            compared(State.WORSE, metric="step_time", reference=1.0, current=9.0, finding=worse),
            compared(State.SAME, metric="operator_time", subject=name, judged=False, reference=1.0, current=9.0),
        ),
        ledger=Ledger(
            metric="step_time",
            base_ns=0,
            current_ns=9000,
            entries=(
                Entry(cause=Cause.RENAMED, subject=name, renamed_from=name, note=name, base_ns=0, current_ns=9000),
                Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=0),
            ),
        ),
        environment_changes=(name,),
        recording=Path(name),
        measurements=(Measurement(metric="operator_calls", subject=name, value=1),),
        notes=(name,),
        changes=(name,),
    )
    texts = [
        failure_message(hostile, refresh_command=COMMAND),
        failure_message(replace(hostile, outcome=Outcome.INVALID), refresh_command=COMMAND),
        summary(RunReport(verdicts=(hostile,), unused=(name,))),
        summary(RunReport(verdicts=(replace(hostile, refresh=Refresh.REFUSED),), unused=(name,))),
        measurement_rows(hostile.measurements),
        *checked(hostile, explain=True, metrics=False),
    ]
    for text in texts:
        assert not [c for c in text if not c.isprintable() and c != "\n"]
        assert "PASSED lines" not in [line.strip() for line in text.splitlines()]
        assert not any(line.lstrip().startswith("PASSED lines") for line in text.splitlines())


def test_a_name_of_ten_thousand_characters_leaves_the_table_readable():
    long = verdict(workload="x" * 10_000 + "::test_end")
    table = summary(RunReport(verdicts=(long,)))
    assert max(map(len, table.splitlines())) < 200
    assert "::test_end" in table


# -- the coverage line ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "coverage, line",
    [
        (Coverage(compared=412, worse=9, changed=4), "412 compared: 9 worse, 0 better, 4 changed; 0 not comparable"),
        (Coverage(), "0 compared: 0 worse, 0 better, 0 changed; 0 not comparable"),
        (
            Coverage(compared=5, better=2, not_comparable=7),
            "5 compared: 0 worse, 2 better, 0 changed; 7 not comparable",
        ),
        (
            Coverage(compared=91, shown_only=91),
            "91 compared: 0 worse, 0 better, 0 changed; 0 not comparable; 91 shown, not judged",
        ),
        (
            Coverage(compared=1, better=1, shown_only=1),
            "1 compared: 0 worse, 1 better, 0 changed; 0 not comparable; 1 shown, not judged",
        ),
    ],
)
def test_the_coverage_line(coverage, line):
    assert coverage_line(coverage) == line


@pytest.mark.parametrize(
    "not_comparable, why", [(252, "252 not comparable (time is off); "), (0, "0 not comparable; ")]
)
def test_the_coverage_line_says_that_time_is_off(not_comparable, why):
    coverage = Coverage(compared=5, not_comparable=not_comparable, shown_only=1)
    assert why in coverage_line(coverage, is_time_off=True)
    assert why.replace(" (time is off)", "") in coverage_line(coverage)


@given(st.lists(st.tuples(st.sampled_from(State), st.booleans()), max_size=30))
def test_nothing_is_left_out_of_the_coverage(found):
    coverage = Coverage.of([compared(state, judged=judged) for state, judged in found])
    assert coverage.compared + coverage.not_comparable + coverage.shown_only == len(found)
    assert coverage.worse + coverage.changed + coverage.better <= coverage.compared


# -- the summary of a run ------------------------------------------------------------------------------------------------

TIMES = (
    Measurement(metric="profiler_overhead", subject="", value=1.5),
    Measurement(metric="step_time", subject="", value=2000.0, samples=(2000.0, 2500.0, 4000.0)),
)


def test_the_summary_of_a_run_that_judged():
    worse = verdict(
        Outcome.FAILED,
        SLOWER,
        workload="test_b.py::test_b",
        comparisons=(
            compared(State.WORSE, metric="step_time", reference=1000.0, current=2000.0),
            compared(State.CHANGED),
            compared(State.CHANGED),
            compared(State.SAME),
            compared(State.NOT_COMPARABLE, judged=False),
        ),
        measurements=TIMES,
    )
    broken = verdict(Outcome.INVALID, LEAKED, workload="test_c.py::test_c")
    report = RunReport(verdicts=(worse, broken), not_run=("test_d.py::test_d",))
    assert REPORTERS["terminal"]().text(report) == (
        "outcome    workload           step ms      change      changed\n"
        "---------  -----------------  -----------  ----------  ---------\n"
        "FAILED     test_b.py::test_b  1.00 → 2.00  (+100.0 %)  3\n"
        "INVALID    test_c.py::test_c  -            -           0\n"
        "\n"
        "4 compared: 1 worse, 0 better, 2 changed; 1 not comparable\n"
        "1 not run (skipped or failed before measuring)"
    )


def test_the_summary_of_a_run_with_warnings_and_baselines_nobody_uses():
    report = RunReport(
        verdicts=(verdict(Outcome.PASSED, STALE, OTHER_MACHINE, comparisons=(compared(State.BETTER),)),),
        unused=("test_old.py::test_old",),
    )
    assert summary(report).splitlines()[3:] == [
        "",
        "test_a.py::test_a: R106 (warning) step_time 100.0 → 20.0 us, −80.0 %: better than the baseline",
        "",
        "B104 a baseline whose test no longer exists: test_old.py::test_old",
        "remove with: perfguard baseline prune test_old.py::test_old",
        "1 compared: 0 worse, 1 better, 0 changed; 0 not comparable",
        "times are of another machine than the baselines': shown, not judged",
        "1 better (steps): to store what got better, run: pytest --perfguard-ratchet",
    ]


def test_what_got_better_is_named_also_where_something_else_failed():
    better = tuple(compared(State.BETTER, metric="peak_memory_bytes", subject=f"cuda:{n}") for n in range(6))
    steps = compared(State.BETTER, metric="step_cost")
    green, red = verdict(Outcome.PASSED, comparisons=(*better, steps)), verdict(Outcome.FAILED, SLOWER)
    named = "step, peak_memory_bytes[cuda:0], peak_memory_bytes[cuda:1], peak_memory_bytes[cuda:2] and 3 more"
    alone = summary(RunReport(verdicts=(green,))).splitlines()
    assert f"7 better ({named}): to store what got better, run: pytest --perfguard-ratchet" in alone
    # A ratchet stores nothing beside a failure.
    assert f"7 better: {named}" in summary(RunReport(verdicts=(green, red))).splitlines()


def test_the_message_of_a_failing_test_is_the_place_of_its_warnings():
    failing = verdict(Outcome.FAILED, SLOWER, STALE)
    assert "R106" in failure_message(failing, refresh_command="...")
    assert "R106" not in summary(RunReport(verdicts=(failing,)))


@pytest.mark.parametrize(
    "count, last", [(10, "test_a.py::test_a: R106"), (11, "and 1 more warning"), (13, "and 3 more warnings")]
)
def test_ten_warnings_are_shown_and_the_rest_is_counted(count, last):
    lines = summary(RunReport(verdicts=(verdict(Outcome.PASSED, *[STALE] * count),))).splitlines()
    assert lines[-3].startswith(last)


LOOSE = Finding(code=Code.B110, message="steps 3 → 4 steps")


def refreshed(state: Refresh, name: str, *changes: str, findings: tuple[Finding, ...] = ()) -> Verdict:
    outcome = Outcome.INVALID if state is Refresh.REFUSED else Outcome.PASSED
    return verdict(outcome, *findings, workload=name, refresh=state, changes=changes)


def test_the_summary_of_a_refresh():
    report = RunReport(
        verdicts=(
            refreshed(Refresh.CREATED, "a"),
            refreshed(
                Refresh.UPDATED,
                "b",
                "worse: operator_calls[MatMul] 4 → 5 calls/step",
                "changed: steps is gone: 3 steps",
            ),
            refreshed(Refresh.KEPT, "c"),
            refreshed(Refresh.REFUSED, "d", findings=(LEAKED,)),
            refreshed(Refresh.REFUSED, "d2", "worse: steps 3 → 4 steps", findings=(LOOSE,)),
        ),
        unused=("e",),
    )
    assert summary(report).splitlines()[8:] == [
        "created: a",
        "updated: b",
        "  worse: operator_calls[MatMul] 4 → 5 calls/step",
        "  changed: steps is gone: 3 steps",
        "kept: c",
        "refused: d",
        "  C101 the profiled window is not the requested one: run_ascend 5 steps were requested, but the trace marks 4",
        "refused: d2",
        "  B110 the baseline would get worse without a reason: steps 3 → 4 steps",
        "unused: e",
        "",
        "baselines: 1 created, 1 updated, 1 kept, 2 refused, 1 unused",
    ]
    assert "  worse: steps 3 → 4 steps" in summary(report, VERBOSE).splitlines()
    assert [line.split()[:2] for line in summary(report).splitlines()[2:6]] == [
        ["created", "a"],
        ["updated", "b"],
        ["kept", "c"],
        ["refused", "d"],
    ]


@pytest.mark.parametrize("count, last", [(10, "  change 9"), (11, "  and 1 more"), (40, "  and 30 more")])
def test_ten_changes_of_a_baseline_are_shown_and_the_rest_is_counted(count, last):
    lines = summary(
        RunReport(verdicts=(refreshed(Refresh.UPDATED, "a", *[f"change {i}" for i in range(count)]),))
    ).splitlines()
    assert lines[-3] == last


def test_a_run_that_refreshed_some_and_judged_others_says_both():
    lines = summary(
        RunReport(verdicts=(refreshed(Refresh.CREATED, "a"), verdict(comparisons=(compared(State.SAME),))))
    ).splitlines()
    assert lines[-2:] == [
        "baselines: 1 created, 0 updated, 0 kept, 0 unused",
        "1 compared: 0 worse, 0 better, 0 changed; 0 not comparable",
    ]


def test_a_run_that_ratcheted_says_what_was_compared_as_well():
    ratcheted = replace(refreshed(Refresh.UPDATED, "a", "better: steps"), comparisons=(compared(State.SAME),))
    assert summary(RunReport(verdicts=(ratcheted,))).splitlines()[-4:] == [
        "  better: steps",
        "",
        "baselines: 0 created, 1 updated, 0 kept, 0 unused",
        "1 compared: 0 worse, 0 better, 0 changed; 0 not comparable",
    ]


def test_a_refused_refresh_names_its_changes_and_the_command_with_a_reason():
    lost = replace(verdict(Outcome.FAILED, LOOSE), refresh=Refresh.REFUSED, changes=("worse: steps 3 → 4 steps",))
    lines = failure_message(lost, refresh_command=COMMAND).splitlines()
    assert lines[:3] == [
        "perfguard FAILED: B110 the baseline would get worse without a reason: steps 3 → 4 steps",
        f'  if the change is intended, accept it with: {COMMAND} --perfguard-reason "..."',
        "    worse: steps 3 → 4 steps",
    ]
    unfit = replace(lost, findings=(Finding(code=Code.B111, message="step_time is 0 us"),))
    message = failure_message(unfit, refresh_command=COMMAND)
    assert "\n  nothing was written: the stored baseline is unchanged\n" in message


def test_a_run_without_verdicts_still_names_unused_baselines():
    assert summary(RunReport(verdicts=(), unused=("a",))).splitlines() == [
        "B104 a baseline whose test no longer exists: a",
        "remove with: perfguard baseline prune a",
        "nothing was measured, so nothing was gated: no collected test uses perfguard",
    ]


# -- less and more -------------------------------------------------------------------------------------------------------

QUIET, VERBOSE = Screen(verbosity=-1), Screen(verbosity=1)
GREEN_ONE = verdict(comparisons=(compared(State.SAME),), workload="a")


@pytest.mark.parametrize(
    "verdicts, lines",
    [
        ((GREEN_ONE,), ["1 compared: 0 worse, 0 better, 0 changed; 0 not comparable"]),
        # What is only warned of is green.
        ((verdict(Outcome.PASSED, STALE),), ["0 compared: 0 worse, 0 better, 0 changed; 0 not comparable"]),
        (
            (GREEN_ONE, verdict(Outcome.FAILED, MORE_CALLS, SLOWER), verdict(Outcome.INVALID, LEAKED, workload="b")),
            [
                f"FAILED  test_a.py::test_a: R102 {MORE_CALLS.message}",
                f"INVALID  b: {finding_line(LEAKED)}",
                "1 compared: 0 worse, 0 better, 0 changed; 0 not comparable",
            ],
        ),
        (
            (refreshed(Refresh.CREATED, "a"), refreshed(Refresh.REFUSED, "d", findings=(LEAKED,))),
            [f"refused  d: {finding_line(LEAKED)}", "baselines: 1 created, 0 updated, 0 kept, 1 refused, 0 unused"],
        ),
        (
            (verdict(Outcome.INCONCLUSIVE, NO_BASELINE),),
            [
                "INCONCLUSIVE  test_a.py::test_a: B101 no baseline to compare with: there is none",
                "0 compared: 0 worse, 0 better, 0 changed; 0 not comparable",
            ],
        ),
        ((), ["nothing was measured, so nothing was gated: no collected test uses perfguard"]),
    ],
)
def test_quiet_is_a_line_a_workload_that_is_not_green_and_the_count(verdicts, lines):
    assert summary(RunReport(verdicts=verdicts, error_rate="1 in 100"), QUIET).splitlines() == lines


def test_what_quiet_must_not_hide_is_said():
    lines = summary(RunReport(verdicts=(GREEN_ONE,), unused=("old",), not_run=("b",)), QUIET).splitlines()
    assert lines[0] == "B104 a baseline whose test no longer exists: old"
    assert lines[-1] == "1 not run (skipped or failed before measuring)"


def test_verbose_adds_what_is_known_of_each_workload():
    known = verdict(
        Outcome.FAILED,
        *of_code(Code.R102, 30),
        ledger=SLOWER_LEDGER,
        environment_changes=("torch: 1 → 2",),
        notes=("timed in 5 processes",),
    )
    lines = summary(RunReport(verdicts=(known,)), VERBOSE).splitlines()
    assert lines[3:6] == ["", "test_a.py::test_a", "  R102 number 0"]
    assert sum("R102 number" in line for line in lines) == 30
    assert "  environment, baseline → now: torch: 1 → 2" in lines
    assert "  timed in 5 processes" in lines
    assert [f"  {line}" for line in ledger_lines(SLOWER_LEDGER)] == lines[
        lines.index("  step 100.0 → 350.0 us, +250.0 us:") : -2
    ]


@pytest.mark.parametrize(
    ("metric", "has_time", "head"),
    [
        ("profiled_step_time", False, "profiled step 100.0 → 350.0 us, +250.0 us (shown, not judged):"),
        ("operator_time", False, "all that was profiled 100.0 → 350.0 us, +250.0 us (shown, not judged):"),
        ("profiled_step_time", True, "profiled step 100.0 → 350.0 us, +250.0 us:"),
        ("step_time", False, "step 100.0 → 350.0 us, +250.0 us:"),
    ],
)
def test_what_only_the_profiler_saw_with_time_off_says_that_it_is_not_judged(metric, has_time, head):
    found = verdict(Outcome.FAILED, *of_code(Code.R102, 1), ledger=replace(SLOWER_LEDGER, metric=metric))
    if has_time:
        found = replace(found, measurements=(Measurement(metric="step_time", subject="", value=350.0),))
    assert head in full_ledger_lines(found)
    assert not any("within the noise" in line for line in full_ledger_lines(found))


def test_a_whole_message_counts_no_finding_away():
    failing = verdict(Outcome.FAILED, *of_code(Code.R102, 30))
    few, all_ = (failure_message(failing, refresh_command=COMMAND, verbose=verbose) for verbose in (False, True))
    assert ("R102 and 20 more like it" in few, "more like it" in all_) == (True, False)
    assert all_.count("R102 number") == 30


# -- measurements --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "measurement, row",
    [
        (Measurement(metric="steps", subject="", value=3), ["steps", "3", "steps"]),
        (Measurement(metric="operator_set", subject="", value=["a", "b"]), ["operator_set", "2", "names", "names"]),
        (
            Measurement(metric="operator_shapes", subject="MatMul", value={"[2, 2]": 1.0}),
            ["operator_shapes[MatMul]", "1", "shapes", "calls/step", "by", "shape"],
        ),
        (
            Measurement(metric="step_time", subject="", value=10.25, samples=(10.25, 20.5, 90.0)),
            ["step_time", "10.2", "20.5", "us"],
        ),
        (Measurement(metric="operator_calls", subject="1e5", value=0.5), ["operator_calls[1e5]", "0.5", "calls/step"]),
        (Measurement(metric="of_the_future", subject="x", value=1), ["of_the_future[x]", "1"]),
    ],
)
def test_a_measurement_is_a_row(measurement, row):
    assert measurement_rows([measurement]).splitlines()[2].split() == row


@pytest.mark.parametrize(
    ("reference", "current", "is_time_off", "says"),
    [
        (
            None,
            1.0,
            False,
            "1 not comparable: the baselines do not have these metrics; to store them, run: pytest --perfguard-update",
        ),
        (1.0, None, False, "1 not comparable: the baselines have these metrics, and this run did not measure them"),
        (1.0, None, True, ""),
    ],
    ids=["new", "not measured", "time is off"],
)
def test_under_the_table_is_why_something_was_not_compared(reference, current, is_time_off, says):
    left = Comparison(
        metric="step_cost", subject="", state=State.NOT_COMPARABLE, judged=False, reference=reference, current=current
    )
    verdict = Verdict(workload="a.py::a", outcome=Outcome.PASSED, findings=(), comparisons=(left,))
    lines = summary(RunReport(verdicts=(verdict,), is_time_off=is_time_off)).splitlines()
    assert [line for line in lines if line.startswith("1 not comparable: ")] == ([says] if says else [])


def test_time_is_not_the_reason_where_a_baseline_lacks_exact_metrics():
    times = [compared(State.NOT_COMPARABLE, judged=False, reference=1.0, current=None) for _ in range(3)]
    new = compared(State.NOT_COMPARABLE, judged=False, reference=None, current=2.0)
    report = RunReport(verdicts=(verdict(Outcome.PASSED, comparisons=(*times, new)),), is_time_off=True)
    lines = [line for line in summary(report).splitlines() if "not comparable" in line]
    assert lines == [
        "0 compared: 0 worse, 0 better, 0 changed; 4 not comparable",
        "1 not comparable: the baselines do not have these metrics; to store them, run: pytest --perfguard-update",
        "3 not comparable: time is off",
    ]


def test_times_of_another_machine_are_counted_as_the_reason():
    times = [compared(State.NOT_COMPARABLE, judged=False, reference=1.0, current=2.0) for _ in range(3)]
    new = compared(State.NOT_COMPARABLE, judged=False, reference=None, current=2.0)
    lines = summary(
        RunReport(verdicts=(verdict(Outcome.PASSED, OTHER_MACHINE, comparisons=(*times, new)),))
    ).splitlines()
    assert "0 compared: 0 worse, 0 better, 0 changed; 4 not comparable" in lines
    assert [line.partition(":")[0] for line in lines if " not comparable: " in line] == [
        "3 not comparable",
        "1 not comparable",
    ]
    assert "3 not comparable: times are of another machine than the baselines': shown, not judged" in lines


# -- what a policy takes from a verdict ------------------------------------------------------------------------------------

SETTINGS = Policy(ignore=("R", "C1"), ignored_by={"C1": OF_THE_TEST})
SUMMARY = Finding(code=Code.C101, message="and more", more=7)


@pytest.mark.parametrize(
    ("findings", "comparisons", "line"),
    [
        ((), (), ""),
        ((OTHER_MACHINE,), (), ""),
        ((MORE_CALLS, SLOWER), (), "ignored 2 (R101, R102; ignore in pyproject.toml)"),
        ((STALE, SUMMARY), (), "ignored 7 (C101; ignore of the test), 1 (R106; ignore in pyproject.toml)"),
        ((), (compared(State.WORSE, metric="peak_memory_bytes", reference=10, current=20),), ""),
        (
            (),
            (
                compared(State.SAME, metric="peak_memory_bytes", reference=10, current=20),
                compared(State.WORSE, metric="memory_growth_bytes", reference=0, current=1, judged=False),
                compared(State.SAME, metric="memory_growth_bytes", reference=1, current=0),
                # What is timed is noisy, and what only changes is said as a change.
                compared(State.SAME, metric="step_cost", reference=1.0, current=2.0),
                compared(State.CHANGED, metric="operator_calls", reference=1, current=2, judged=False),
            ),
            "2 worse, allowed by a tolerance (peak_memory_bytes, memory_growth_bytes)",
        ),
    ],
)
@pytest.mark.parametrize("verbosity", [-1, 0, 1])
def test_what_is_ignored_or_allowed_is_counted_in_the_last_line(findings, comparisons, line, verbosity):
    one = replace(verdict(), findings=SETTINGS.considered(findings), comparisons=comparisons)
    assert ignored_line([one]) == line
    last = summary(RunReport(verdicts=(one,)), Screen(verbosity=verbosity)).splitlines()[-1]
    assert (last == line) is bool(line)
    first = checked(replace(one, comparisons=()), explain=False, metrics=False, screen=Screen(verbosity=verbosity))[0]
    assert first.endswith(f"; {line}") is bool(findings and line)


def test_what_was_ignored_counts_again_for_a_policy_that_does_not_ignore_it():
    findings = (MORE_CALLS, LEAKED, STALE, OTHER_MACHINE)
    assert set(Policy().reconsidered(SETTINGS.considered(findings))) == set(findings)
    assert SETTINGS.reconsidered(SETTINGS.considered(findings)) == SETTINGS.considered(findings)
