"""The attribution: which operators a change went to, and when a recording must not name any."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard import thresholds
from perfguard.findings import Code, Finding, Severity
from perfguard.judge.attribution import WITHOUT_OPERATOR, Doubt, Unattributed, attribution, attribution_of
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement

NS = st.integers(-(10**9), 10**9)
CAUSES = st.sampled_from([cause for cause in Cause if cause is not Cause.RESIDUAL])


@st.composite
def ledgers(draw) -> Ledger:
    """Draw a ledger whose parts add up, the residual last, as `ledger` makes them."""
    parts = draw(st.lists(st.tuples(CAUSES, st.sampled_from("abc"), NS), max_size=8))
    entries = [
        Entry(cause=cause, subject="" if cause in WITHOUT_OPERATOR else name, base_ns=0, current_ns=ns)
        for cause, name, ns in parts
    ]
    entries.append(Entry(cause=Cause.RESIDUAL, base_ns=0, current_ns=draw(NS)))
    whole = sum(entry.change_ns for entry in entries)
    return Ledger(metric="run_wall_time", base_ns=10**9, current_ns=10**9 + whole, entries=tuple(entries))


@given(ledgers(), NS)
def test_only_what_outweighs_all_that_is_unknown_is_named(ledger, step_ns):
    found = attribution(ledger, step_ns=step_ns)
    assert ledger.change_ns == sum(entry.change_ns for entry in ledger.entries)
    if isinstance(found, Unattributed):
        assert found.step_ns == step_ns
        assert found.doubt in (Doubt.OTHER_CHANGE, Doubt.OUTWEIGHED)
        assert (found.part is None) == (found.doubt is Doubt.OTHER_CHANGE)
        return
    unknown = sum(abs(entry.change_ns) for entry in ledger.entries if entry.cause in WITHOUT_OPERATOR)
    known = sum(entry.change_ns for entry in ledger.entries if entry.cause not in WITHOUT_OPERATOR)
    assert abs(known) > unknown
    assert known * step_ns > 0
    assert 1 / thresholds.LEDGER_ALIKE <= ledger.change_ns / step_ns <= thresholds.LEDGER_ALIKE
    sizes = [abs(share.change_ns) for share in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= thresholds.NEGLIGIBLE_PART * sizes[0]
    for share in found:
        own = [
            entry.change_ns
            for entry in ledger.entries
            if entry.subject == share.subject and entry.cause not in WITHOUT_OPERATOR
        ]
        assert share.change_ns == sum(own)
        assert share.change_ns * step_ns > 0


@given(ledgers(), st.integers(1, 10**9))
def test_a_change_the_other_way_round_is_judged_alike(ledger, step_ns):
    turned = replace(
        ledger,
        current_ns=2 * ledger.base_ns - ledger.current_ns,
        entries=tuple(replace(entry, current_ns=-entry.current_ns) for entry in ledger.entries),
    )
    one, other = attribution(ledger, step_ns=step_ns), attribution(turned, step_ns=-step_ns)
    assert type(one) is type(other)
    if isinstance(one, tuple):
        assert [share.subject for share in one] == [share.subject for share in other]


def entry(cause: Cause, ns: int, subject: str = "") -> Entry:
    return Entry(cause=cause, subject=subject, base_ns=0, current_ns=ns)


ADDMM, VIEW = entry(Cause.SHAPES, 9_167_000, "aten::addmm"), entry(Cause.CALLS, 62_000, "aten::view")


def judged(*entries: Entry, state: State = State.WORSE, findings=(), change: float = 1.0) -> Verdict:
    whole = sum(one.change_ns for one in entries)
    cost = Comparison(
        metric="step_cost", subject="", state=state, judged=True, reference=1.0, current=1.0 + change, allowed=1.1
    )
    return Verdict(
        workload="w",
        outcome=Outcome.FAILED,
        findings=findings,
        comparisons=(cost,),
        # As long as the ledger says.
        measurements=(Measurement(metric="run_wall_time", subject="", value=whole / 1e3 * (1 + change) / change),),
        ledger=Ledger(metric="run_wall_time", base_ns=0, current_ns=whole, entries=entries),
    )


def test_an_operator_with_a_negligible_part_is_not_named():
    found = attribution_of(judged(VIEW, ADDMM))
    assert [(share.subject, share.change_ns) for share in found] == [("aten::addmm", 9_167_000)]


def only_shown(verdict):
    return replace(verdict, comparisons=tuple(replace(one, judged=False) for one in verdict.comparisons))


MOVED = Finding(code=Code.B107, message="the machine moved")


@pytest.mark.parametrize(
    "verdict, doubt",
    [
        # What profiling adds moved by 89 ms, the step by 44 ms.
        (judged(entry(Cause.PER_CALL, -45_000, "aten::mm"), entry(Cause.PROFILER, 89_000)), Doubt.OUTWEIGHED),
        (judged(entry(Cause.PER_CALL, 1000, "aten::mm"), entry(Cause.IDLE, 20_000)), Doubt.OUTWEIGHED),
        (judged(ADDMM, state=State.SAME, change=0.03), Doubt.ALLOWED),
        (only_shown(judged(ADDMM, state=State.SAME, change=0.03)), Doubt.NOT_JUDGED),
        (judged(ADDMM, findings=(MOVED,)), Doubt.MACHINE),
    ],
    ids=["profiler", "gaps", "allowed", "not judged", "machine"],
)
def test_a_recording_that_cannot_tell_is_silent(verdict, doubt):
    found = attribution_of(verdict)
    assert isinstance(found, Unattributed)
    assert found.doubt is doubt


def test_what_was_only_warned_of_is_attributed_as_well():
    warned = Finding(code=Code.R105, severity=Severity.WARNING, place="step_cost", message="m")
    assert isinstance(attribution_of(judged(ADDMM, state=State.SAME, findings=(warned,))), tuple)
    blamed_on_nobody = replace(warned, severity=Severity.NOTE)
    assert isinstance(attribution_of(judged(ADDMM, state=State.SAME, findings=(blamed_on_nobody,))), Unattributed)


def test_without_a_ledger_or_a_time_there_is_nothing_to_attribute():
    assert attribution_of(replace(judged(ADDMM), ledger=None)) is None
    assert attribution_of(replace(judged(ADDMM), measurements=())) is None
