"""The table of `perfguard ab`: both sides' step, what each process came to, and what changed besides."""

from __future__ import annotations

import pytest

from perfguard.findings import Code, Finding
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.pairs import with_pairs
from perfguard.judge.shown_time import step_time_of
from perfguard.judge.tolerance import Policy
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement
from perfguard.reports.ab import ab_lines, ab_table
from perfguard.timing import PairedTiming


def verdict(**values) -> Verdict:
    exact = Comparison(metric="steps", subject="", state=State.SAME, judged=True, reference=3, current=3)
    return Verdict(
        **{"workload": "t.py::t", "outcome": Outcome.PASSED, "findings": (), "comparisons": (exact,), **values}
    )


def timed(*percents: int, interleaved: bool = True, **values):
    timings = tuple(
        PairedTiming(interleaved=interleaved, base_ns=(2_000_000,), current_ns=(20_000 * (100 + percent),))
        for percent in percents
    )
    return with_pairs(verdict(**values), timings, (), policy=Policy())


def row(found) -> list[str]:
    """Return the cells of the one row there is."""
    return [cell.strip() for cell in ab_table([found]).splitlines()[-1].split("  ") if cell.strip()]


def test_a_row_tells_both_sides_and_every_process():
    cells = row(timed(8, 9, 7, 8, 10))
    assert cells[:5] == ["FAILED", "t.py::t", "2.00", "2.16", "+8.0"]
    assert cells[5:] == ["+8.0 +9.0 +7.0 +8.0 +10.0", "+5.0", "slower, step by step", "1 same"]
    assert row(timed(-8, -9, -7, interleaved=False))[4:8] == ["−8.0", "−8.0 −9.0 −7.0", "+4.0", "faster, in turns"]
    assert row(timed(9, 9))[7:] == ["undecided, step by step", "1 same"]


def test_a_row_of_a_step_that_waits_tells_its_whole_time():
    waiting = PairedTiming(
        interleaved=True,
        base_ns=(2_000_000,),
        current_ns=(2_000_000,),
        base_wall_ns=(2_100_000,),
        current_wall_ns=(22_100_000,),
    )
    found = with_pairs(verdict(), (waiting,) * 5, (), policy=Policy())
    assert row(found)[2:5] == ["2.10", "22.1", "+952.4"]
    # The wait is a time, so it is not counted with what is exact.
    assert row(found)[7:] == ["waits more, step by step", "1 same"]
    step = step_time_of(found[0])
    assert step is not None
    assert step.source == "5 fresh processes"


def test_more_processes_than_a_line_holds_are_cut():
    assert row(timed(*[1] * 12))[5] == " ".join(["+1.0"] * 10) + " …"


def test_without_times_a_row_is_of_what_is_exact():
    step = Comparison(metric="step_time", subject="", state=State.SAME, judged=False, reference=1500.0, current=1750.0)
    changed = Finding(code=Code.R102, place="steps", message="steps 3 → 4")
    exact = Comparison(
        metric="steps", subject="", state=State.WORSE, judged=True, reference=3, current=4, finding=changed
    )
    now = Measurement(metric="step_time", subject="", value=1750.0)
    cells = row((verdict(findings=(changed,), comparisons=(step, exact), measurements=(now,)), None))
    assert cells == ["PASSED", "t.py::t", "1.50", "1.75", "-", "-", "-", "not judged", "1 of 1 changed"]


def test_nothing_is_said_of_what_is_as_it_was():
    assert ab_lines(verdict()) == []
    assert ab_lines(verdict(notes=("timed interleaved; ...",))) == []
    limited = verdict(notes=("not timed: why", "another"))
    assert ab_lines(limited, limits=("not timed: why",)) == ["PASSED t.py::t", "  not timed: why"]
    assert ab_lines(limited, verbose=True)[-2:] == ["  not timed: why", "  another"]


def test_versions_are_shown_beside_what_changed():
    found = Finding(code=Code.R102, place="steps", message="steps 3 → 4")
    lines = ab_lines(verdict(outcome=Outcome.FAILED, findings=(found,), environment_changes=("torch: 2.13 → 2.14",)))
    assert lines == ["FAILED t.py::t", "  R102 steps 3 → 4", "  environment, base → now: torch: 2.13 → 2.14"]


@pytest.mark.parametrize(
    "current_us, said",
    [
        (2160, "step +160.0 us:"),
        (1950, "the profiled step changed by −50.0 us"),
        (2400, "the profiled step changed by +400 us"),
    ],
)
def test_a_ledger_explains_a_step_that_moved_as_it_did(current_us, said):
    entry = Entry(cause=Cause.PER_CALL, subject="aten::mm", base_ns=2_000_000, current_ns=1000 * current_us)
    residual = Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=0)
    ledger = Ledger(metric="step_time", base_ns=2_000_000, current_ns=1000 * current_us, entries=(entry, residual))
    found, _ = timed(8, 9, 7, 8, 10, ledger=ledger)
    assert any(said in line for line in ab_lines(found))
