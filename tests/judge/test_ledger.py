"""The ledger: literal measurements of both sides, and the parts their difference is cut into."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from perfguard.documents import schema
from perfguard.judge.ledger import Cause, Entry, Ledger, ledger
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Outcome, Verdict, compared
from perfguard.measure import Measurement
from perfguard.reports.document import verdict_document, verdict_from_document
from perfguard.reports.ledger import ledger_lines
from tests.facts import FINGERPRINT, HERE, WORKLOAD, baseline, measured
from tests.judge.test_verdict import examine


def operator(
    name: str,
    us: float,
    *,
    calls: float | None = 1,
    shapes: dict[str, float] | str | None = None,
    place: int | None = None,
    rank: str = "",
) -> list[Measurement]:
    """Return what is measured of one operator; shapes as a text are those of every call."""
    found = [measured("operator_time", us, rank + name)]
    if calls is not None:
        found.append(measured("operator_calls", calls, rank + name))
    if shapes is not None:
        found.append(measured("operator_shapes", {shapes: calls} if isinstance(shapes, str) else shapes, rank + name))
    if place is not None:
        found.append(measured("operator_position", place, rank + name))
    return found


def step(us: float, profiled: float | None = None, rank: str = "", **parts: float) -> list[Measurement]:
    found = [measured("step_time", us, rank.rstrip(":"))]
    if profiled is not None:
        found.append(measured("profiled_step_time", profiled, rank))
    return found + [measured("profiled_step_part", value, rank + part) for part, value in parts.items()]


def chain(*operators: tuple[str, str], us: float = 10.0) -> list[Measurement]:
    """Return a step of (name, shapes), in this order."""
    return [one for i, (name, shapes) in enumerate(operators) for one in operator(name, us, shapes=shapes, place=i)]


def parts(found: Ledger | None) -> dict[tuple[str, str], int]:
    """Return (cause, operator) → ns, but for the residual of nothing."""
    assert found is not None
    assert sum(entry.change_ns for entry in found.entries) == found.change_ns
    assert found.entries[-1].cause is Cause.RESIDUAL
    return {
        (entry.cause.value, entry.subject): entry.change_ns
        for entry in found.entries
        if entry.change_ns or entry.cause is not Cause.RESIDUAL
    }


# -- one operator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(operator("Mul", 10), operator("Mul", 10), {}, id="the same"),
        pytest.param([], operator("Mul", 10, calls=2), {("new-operator", "Mul"): 10_000}, id="new"),
        pytest.param(operator("Mul", 10, calls=2), [], {("vanished-operator", "Mul"): -10_000}, id="vanished"),
        pytest.param([], operator("Mul", 0), {("new-operator", "Mul"): 0}, id="new and of no time"),
        pytest.param(
            operator("Mul", 40, calls=4), operator("Mul", 50, calls=5), {("calls", "Mul"): 10_000}, id="one more call"
        ),
        pytest.param(
            operator("Mul", 40, calls=4), operator("Mul", 10, calls=1), {("calls", "Mul"): -30_000}, id="fewer calls"
        ),
        pytest.param(
            operator("Mul", 40, calls=4), operator("Mul", 60, calls=4), {("per-call", "Mul"): 20_000}, id="slower"
        ),
        pytest.param(
            operator("Mul", 40, calls=4),
            operator("Mul", 39.999, calls=4),
            {("per-call", "Mul"): -1},
            id="faster by a ns",
        ),
        pytest.param(
            operator("Mul", 40, calls=4),
            operator("Mul", 60, calls=5),
            {("calls", "Mul"): 10_000, ("per-call", "Mul"): 10_000},
            id="more and slower",
        ),
        pytest.param(
            operator("Mul", 40, calls=4, shapes="[2]"),
            operator("Mul", 60, calls=4, shapes="[4]"),
            {("shapes", "Mul"): 20_000},
            id="other shapes",
        ),
        pytest.param(
            operator("Mul", 40, calls=4, shapes="[2]"),
            operator("Mul", 60, calls=6, shapes="[2]"),
            {("calls", "Mul"): 20_000},
            id="more calls of the same shapes are no other shapes",
        ),
        pytest.param(
            operator("Mul", 30, calls=3, shapes={"[2]": 1, "[3]": 2}),
            operator("Mul", 66, calls=6, shapes={"[2]": 2, "[3]": 4}),
            {("calls", "Mul"): 30_000, ("per-call", "Mul"): 6_000},
            id="the same proportions",
        ),
        pytest.param(
            operator("Mul", 20, calls=2, shapes={"[2]": 1, "[3]": 1}),
            operator("Mul", 26, calls=2, shapes={"[3]": 2}),
            {("shapes", "Mul"): 6_000},
            id="other proportions",
        ),
        pytest.param(
            operator("Mul", 40, calls=4, shapes="[2]"),
            operator("Mul", 60, calls=5, shapes={"[2]": 4, "[9]": 1}),
            {("calls", "Mul"): 10_000, ("shapes", "Mul"): 10_000},
            id="one more call of another shape",
        ),
        pytest.param(
            operator("Mul", 40, calls=4, shapes="[2]"),
            operator("Mul", 60, calls=4),
            {("per-call", "Mul"): 20_000},
            id="shapes of one side only say nothing",
        ),
        pytest.param(
            operator("Mul", 40, calls=None), operator("Mul", 60), {("per-call", "Mul"): 20_000}, id="calls not known"
        ),
        pytest.param(
            operator("Mul", 0, calls=4), operator("Mul", 8, calls=8), {("per-call", "Mul"): 8_000}, id="from 0"
        ),
        pytest.param(
            operator("Mul", 10, calls=0), operator("Mul", 20, calls=2), {("per-call", "Mul"): 10_000}, id="of no calls"
        ),
        pytest.param(
            operator("Mul", 10, calls=3),
            operator("Mul", 10, calls=7),
            {("calls", "Mul"): 13_333, ("per-call", "Mul"): -13_333},
            id="what cannot be divided",
        ),
    ],
)
def test_what_an_operator_adds(before, now, expected):
    other = operator("Other", 5.0)
    found = ledger([*other, *before, *step(100)], [*other, *now, *step(100 + sum(expected.values()) / 1000)])
    assert parts(found) == expected


def test_the_calls_are_paid_at_the_price_before_and_each_costs_more_then():
    found = ledger(operator("Mul", 40, calls=4), operator("Mul", 60, calls=5))
    assert found is not None
    assert [(e.base_ns, e.current_ns, e.base_calls, e.current_calls) for e in found.entries[:2]] == [
        (40_000, 50_000, 4, 5),
        (50_000, 60_000, 5, 5),
    ]


def test_changed_shapes_are_named():
    found = ledger(operator("Mul", 10, shapes="[2]"), operator("Mul", 20, shapes="[4]"))
    assert found is not None
    assert found.entries[0].note == "[2] 1 → 0; [4] 0 → 1"


# -- the whole -------------------------------------------------------------------------------------------------------

MUL, SLOWER = operator("Mul", 10), operator("Mul", 30)


@pytest.mark.parametrize(
    ("before", "now", "metric", "expected"),
    [
        pytest.param(MUL, SLOWER, "operator_time", {("per-call", "Mul"): 20_000}, id="operators alone"),
        pytest.param(
            [*MUL, *step(100)],
            [*SLOWER, *step(125)],
            "step_time",
            {("per-call", "Mul"): 20_000, ("residual", ""): 5_000},
            id="a step that nobody profiled",
        ),
        pytest.param(
            [*MUL, measured("profiled_step_time", 100.0)],
            [*SLOWER, measured("profiled_step_time", 121.0)],
            "profiled_step_time",
            {("per-call", "Mul"): 20_000, ("residual", ""): 1_000},
            id="no step was timed",
        ),
        pytest.param(
            [*MUL, *step(100, 150, idle=90, overlap=0)],
            [*SLOWER, *step(118, 177, idle=97, overlap=0)],
            "step_time",
            {("per-call", "Mul"): 20_000, ("idle", ""): 7_000, ("profiler", ""): -9_000},
            id="gaps, and what the profiler adds",
        ),
        pytest.param(
            [*MUL, *step(100, 100, idle=95, overlap=5)],
            [*SLOWER, *step(100, 100, idle=95, overlap=25)],
            "step_time",
            {("per-call", "Mul"): 20_000, ("overlap", ""): -20_000},
            id="hidden behind others",
        ),
        pytest.param(
            [*MUL, *step(100, 150, idle=140, overlap=0)],
            [*SLOWER, *step(125)],
            "step_time",
            {("per-call", "Mul"): 20_000, ("residual", ""): 5_000},
            id="parts that one side alone knows",
        ),
        pytest.param(
            [*MUL, *step(100), measured("run_wall_time", 90.0), measured("run_cpu_time", 80.0)],
            [*SLOWER, *step(125), measured("run_wall_time", 110.0), measured("run_cpu_time", 180.0)],
            "run_wall_time",
            {("per-call", "Mul"): 20_000},
            id="controlled processes know better",
        ),
        pytest.param(
            [*MUL, *step(100), measured("run_wall_time", 90.0)],
            [*SLOWER, *step(120)],
            "step_time",
            {("per-call", "Mul"): 20_000},
            id="but both must have them",
        ),
    ],
)
def test_the_parts_of_a_step(before, now, metric, expected):
    found = ledger(before, now)
    assert parts(found) == expected
    assert found is not None
    assert (found.metric, found.rank) == (metric, None)


def test_what_the_profiler_adds_is_told_on_both_sides():
    found = ledger([*MUL, *step(100, 150)], [*SLOWER, *step(118, 177)])
    assert found is not None
    (entry,) = [one for one in found.entries if one.cause is Cause.PROFILER]
    assert (entry.base_ns, entry.current_ns) == (-50_000, -59_000)


@pytest.mark.parametrize(
    "sides", [([], []), ([], MUL), (MUL, []), (step(1.0), step(2.0)), (MUL, operator("Mul", 1, rank="rank0:"))]
)
def test_without_operators_on_both_sides_there_is_none(sides):
    assert ledger(*sides) is None


# -- communication ---------------------------------------------------------------------------------------------------


def written(communication: float, free: float) -> list[Measurement]:
    return [
        measured("step_part_time", communication, "communication_not_overlapped"),
        measured("step_part_time", free, "free"),
    ]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(
            [*operator("hcom_allReduce_", 50), *written(10, 80)],
            [*operator("hcom_allReduce_", 90), *written(25, 85)],
            {("communication-not-overlapped", ""): 15_000, ("idle", ""): 5_000},
            id="as the profiler says",
        ),
        pytest.param(
            [*operator("AllReduce", 50), *step(100, 100, idle=40, overlap=0, communication=50)],
            [*operator("AllReduce", 70), *step(120, 120, idle=40, overlap=0, communication=70)],
            {("communication-not-overlapped", ""): 20_000},
            id="as it was seen",
        ),
        pytest.param(
            step(100, 100, idle=90, overlap=0),
            [*operator("AllReduce", 70), *step(160, 160, idle=90, overlap=0, communication=60)],
            {("communication-not-overlapped", ""): 60_000},
            id="where there was none",
        ),
        pytest.param(
            [*operator("AllReduce", 50), *step(100)],
            [*operator("AllReduce", 70), *step(120)],
            {("per-call", "AllReduce"): 20_000},
            id="as operators, where nobody says what they overlap with",
        ),
    ],
)
def test_communication_is_counted_once(before, now, expected):
    assert parts(ledger([*MUL, *before], [*MUL, *now])) == expected


# -- several ranks ---------------------------------------------------------------------------------------------------


def job(*ranks: tuple[float, float]) -> list[Measurement]:
    """Return a job whose ranks took (step, Mul) us."""
    found = [
        one
        for i, (us, mul) in enumerate(ranks)
        for one in (*step(us, rank=f"rank{i}:"), *operator("Mul", mul, rank=f"rank{i}:"))
    ]
    return [*found, *step(max(us for us, _ in ranks)), *operator("Mul", max(mul for _, mul in ranks), rank="ranks:")]


@pytest.mark.parametrize(
    ("before", "now", "rank", "expected"),
    [
        (job((100, 10), (99, 10)), job((130, 40), (110, 20)), 0, {("per-call", "Mul"): 30_000}),
        (
            job((100, 10), (90, 20)),
            job((101, 11), (120, 50)),
            1,
            {("per-call", "Mul"): 30_000, ("slowest-rank", ""): -10_000},
        ),
        (job((100, 10), (100, 10)), job((110, 20), (110, 20)), 0, {("per-call", "Mul"): 10_000}),
    ],
)
def test_of_several_ranks_it_is_that_of_the_slowest(before, now, rank, expected):
    found = ledger(before, now)
    assert parts(found) == expected
    assert found is not None
    assert found.rank == rank
    assert found.change_ns == round(1000 * (max(m.value for m in now if m.metric == "step_time") - 100))


def test_ranks_without_timed_steps_are_told_apart_by_what_was_profiled():
    def profiled(*us: float) -> list[Measurement]:
        return [
            one
            for i, each in enumerate(us)
            for one in (*operator("Mul", 5, rank=f"rank{i}:"), measured("profiled_step_time", each, f"rank{i}:"))
        ]

    found = ledger(profiled(100, 90), profiled(100, 140))
    assert found is not None
    assert (found.metric, found.rank, found.base_ns, found.current_ns) == ("profiled_step_time", 1, 100_000, 140_000)
    assert parts(found) == {("slowest-rank", ""): -10_000, ("residual", ""): 50_000}


# -- renamed operators -----------------------------------------------------------------------------------------------


def renames(found: Ledger | None) -> dict[str, str]:
    assert found is not None
    return {e.renamed_from: e.subject for e in found.entries if e.cause is Cause.RENAMED}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(
            chain(("t", "[2]"), ("addmm", "[2]"), ("relu", "[2]")),
            chain(("t", "[2]"), ("linear", "[2]"), ("relu", "[2]")),
            {"addmm": "linear"},
            id="between the same two",
        ),
        pytest.param(
            chain(("t", "[2]"), ("addmm", "[2]"), ("relu", "[2]")),
            chain(("t", "[2]"), ("linear", "[3]"), ("relu", "[2]")),
            {},
            id="other shapes",
        ),
        pytest.param(
            chain(("addmm", "[2]"), ("t", "[2]"), ("relu", "[2]")),
            chain(("t", "[2]"), ("relu", "[2]"), ("linear", "[2]")),
            {},
            id="another place",
        ),
        pytest.param(
            chain(("t", "[2]"), ("addmm", "[2]"), ("relu", "[2]")),
            chain(("t", "[2]"), ("linear", "[2]"), ("dropout", "[9]"), ("relu", "[2]")),
            {"addmm": "linear"},
            id="beside a new one",
        ),
        pytest.param(
            chain(("t", "[2]"), ("addmm", "[2]"), ("relu", "[2]")),
            chain(("t", "[2]"), ("linear", "[2]"), ("dropout", "[2]"), ("relu", "[2]")),
            {},
            id="which of two is not known",
        ),
        pytest.param(
            chain(("t", "[2]"), ("a", "[2]"), ("b", "[2]"), ("relu", "[2]")),
            chain(("t", "[2]"), ("c", "[2]"), ("d", "[2]"), ("relu", "[2]")),
            {"a": "c", "b": "d"},
            id="two alike, in their order",
        ),
        pytest.param(
            chain(("t", "[2]"), ("a", "[2]"), ("b", "[3]"), ("c", "[2]")),
            chain(("t", "[2]"), ("d", "[2]"), ("e", "[3]"), ("f", "[2]")),
            {"a": "d", "b": "e", "c": "f"},
            id="all that follows",
        ),
        pytest.param(
            chain(("t", "[2]"), ("a", "[2]"), ("x", "[2]"), ("b", "[2]"), ("end", "[2]")),
            chain(("t", "[2]"), ("c", "[2]"), ("y", "[7]"), ("d", "[2]"), ("end", "[2]")),
            {},
            id="three alike and two",
        ),
        pytest.param(chain(("addmm", "[2]")), chain(("linear", "[2]")), {"addmm": "linear"}, id="the only one"),
        pytest.param(
            [*operator("a", 1, place=0), *operator("b", 1, place=1), *operator("c", 1, place=2)],
            [*operator("a", 1, place=0), *operator("x", 1, place=1), *operator("c", 1, place=2)],
            {"b": "x"},
            id="without shapes, between the same two",
        ),
        pytest.param(
            [*operator("a", 1, place=0), *operator("b", 1, place=1)],
            [*operator("a", 1, place=0), *operator("x", 1, place=1)],
            {},
            id="without shapes, at the edge",
        ),
        pytest.param(
            [*operator("a", 1), *operator("b", 1, shapes="[2]")],
            [*operator("a", 1), *operator("x", 1, shapes="[2]")],
            {"b": "x"},
            id="without positions, the only one of these shapes",
        ),
        pytest.param(
            [*operator("a", 1), *operator("b", 1, shapes="[2]")],
            [*operator("a", 1), *operator("x", 1, shapes="[2]"), *operator("y", 1, shapes="[2]")],
            {},
            id="without positions, two of these shapes",
        ),
        pytest.param(
            [*operator("a", 1), *operator("b", 1)], [*operator("a", 1), *operator("x", 1)], {}, id="without both"
        ),
        pytest.param(
            operator("b", 1, calls=2, shapes={"[2]": 1}, place=0),
            operator("x", 1, calls=1, shapes={"[2]": 1}, place=0),
            {},
            id="other calls",
        ),
        pytest.param(
            operator("b", 1, calls=None, shapes={"[2]": 1}, place=0),
            operator("x", 1, calls=None, shapes={"[2]": 1}, place=0),
            {},
            id="calls not known",
        ),
    ],
)
def test_renamed_operators_are_matched_by_place_and_shapes(before, now, expected):
    found = ledger(before, now)
    assert renames(found) == expected
    parts(found)


def test_a_match_says_what_it_is_made_of():
    found = ledger(
        [*chain(("t", "[2]")), *operator("addmm", 40, calls=4, shapes="[2]", place=1), *operator("relu", 1, place=2)],
        [*chain(("t", "[2]")), *operator("linear", 44, calls=4, shapes="[2]", place=1), *operator("relu", 1, place=2)],
    )
    assert found is not None
    assert found.entries[0] == Entry(
        cause=Cause.RENAMED,
        subject="linear",
        renamed_from="addmm",
        base_ns=40_000,
        current_ns=44_000,
        base_calls=4,
        current_calls=4,
        note="same calls and shapes, between t and relu",
    )


@given(st.data())
def test_whatever_is_renamed_in_a_step_is_found(data):
    order = [f"op{i}" for i in range(data.draw(st.integers(1, 12)))]
    facts = {
        name: (data.draw(st.sampled_from(["[2]", "[4]"])), data.draw(st.integers(1, 2)), data.draw(st.floats(0, 1e6)))
        for name in order
    }
    doomed = {name: f"new{name}" for name in data.draw(st.sets(st.sampled_from(order)))}

    def of(name: str, place: int, written: str) -> list[Measurement]:
        shapes, calls, us = facts[name]
        return operator(written, us, calls=calls, shapes=shapes, place=place)

    before = [one for i, name in enumerate(order) for one in of(name, i, name)]
    now = [one for i, name in enumerate(order) for one in of(name, i, doomed.get(name, name))]
    found = ledger(before, now)
    assert renames(found) == doomed
    assert found is not None
    assert found.change_ns == 0


# -- it adds up ------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["Mul", "MatMul", "AllReduce", "hcom_send_", "Relu", "idle", "overlap", "communication", "free", ""]
)
NUMBERS = st.one_of(
    st.just(0.0), st.integers(0, 10), st.floats(0, 1e6), st.floats(), st.sampled_from([10**400, -1e300, math.nan])
)
MEASUREMENTS = st.builds(
    measured,
    st.sampled_from(
        [
            *("operator_time", "operator_time", "operator_calls", "operator_shapes", "operator_position", "steps"),
            *("step_time", "run_wall_time", "profiled_step_time", "profiled_step_part", "step_part_time", "unknown"),
        ]
    ),
    st.one_of(NUMBERS, NUMBERS, st.dictionaries(st.sampled_from(["[2]", "[3]"]), st.floats(0, 9)), st.just(["a"])),
    st.builds(
        str.__add__,
        st.sampled_from(["", "", "rank0:", "rank1:", "ranks:"]),
        st.one_of(NAMES, st.just("communication_not_overlapped"), st.text(max_size=3)),
    ),
)
SIDE = st.lists(MEASUREMENTS, max_size=40, unique_by=lambda m: m.key)
LEDGER = Draft202012Validator(schema("report")["properties"]["workloads"]["items"]["properties"]["ledger"])


def printed(line: str) -> int:
    """Return the tenths of a us a printed part says."""
    return int(line.split(" us  ")[0].strip().replace("−", "-").replace(".", ""))


@given(SIDE, SIDE)
@example([measured("operator_time", 9.0, ""), *operator("Mul", 1)], operator("Mul", 1000))
def test_the_parts_add_up_to_the_last_nanosecond(before, now):
    found = ledger(before, now)
    if found is None:
        return
    assert sum(entry.change_ns for entry in found.entries) == found.change_ns
    assert [e.cause for e in found.entries].count(Cause.RESIDUAL) == 1
    verdict = Verdict(workload="a", outcome=Outcome.PASSED, findings=(), ledger=found)
    document = json.loads(json.dumps(verdict_document(verdict)))
    assert verdict_from_document(document).ledger == found
    LEDGER.validate(document["ledger"])
    for most in (None, 8, 3):
        head, *lines = ledger_lines(found, most=most)
        change = int(head.removesuffix(" us:").rsplit(" ", 1)[1].replace("−", "-").replace(".", ""))
        assert sum(map(printed, lines)) == change
        assert most is None or len(lines) <= most
        assert lines[-1].endswith(" us  residual")


@given(SIDE)
def test_nothing_changed_beside_itself(side):
    found = ledger(side, side)
    if found is not None:
        assert {entry.change_ns for entry in found.entries} == {0}


@given(SIDE, SIDE)
def test_the_way_back_costs_what_the_way_there_brought(before, now):
    there, back = ledger(before, now), ledger(now, before)
    assert (there is None) == (back is None)
    if there is not None and back is not None and there.rank is None and back.rank is None:
        assert back.change_ns == -there.change_ns
        assert back.entries[-1].change_ns == -there.entries[-1].change_ns


# -- in a verdict ----------------------------------------------------------------------------------------------------


def test_a_verdict_has_it_whenever_the_operators_are_known_of_both_sides():
    calls = measured("operator_calls", 2, "Mul")
    stored = baseline(calls, *operator("Mul", 10, calls=None), *step(100))
    now = examine(calls, *operator("Mul", 20, calls=None), *step(110))
    verdict = compared(now, stored, policy=Policy())
    assert verdict.outcome is Outcome.PASSED
    assert parts(verdict.ledger) == {("per-call", "Mul"): 10_000}
    assert compared(now, baseline(calls), policy=Policy()).ledger is None
    assert now.ledger is None


@pytest.mark.parametrize("named", ["operator_time[Mul]", "operator_time[M*]"])
def test_operators_are_ranked_and_gated_only_where_they_are_named(named):
    stored = baseline(measured("operator_calls", 1, "Mul"), measured("operator_time", 10.0, "Mul"))
    now = examine(measured("operator_calls", 1, "Mul"), measured("operator_time", 1000.0, "Mul"))
    assert compared(now, stored, policy=Policy()).outcome is Outcome.PASSED
    policy = Policy(settings=(Rule(pattern=named, tolerance=Tolerance(relative=0.5)),))
    assert compared(now, stored, policy=policy).outcome is Outcome.FAILED


def test_a_stored_baseline_tells_as_much_as_a_recording():
    from perfguard.judge.baseline import Baseline

    sides = [
        [*chain(("t", "[2]"), (name, "[2]"), ("relu", "[2]")), *step(us, us + 50, idle=us + 20, overlap=0)]
        for name, us in (("addmm", 100), ("linear", 130))
    ]
    stored = Baseline(workload=WORKLOAD, fingerprint=FINGERPRINT, environment=HERE, measurements=tuple(sides[0]))
    again = Baseline.from_dict(stored.as_dict())
    assert ledger(again.measurements, sides[1]) == ledger(*sides)


def test_an_entry_of_the_same_operator_is_a_value():
    entry = Entry(cause=Cause.IDLE, base_ns=1, current_ns=3)
    assert replace(entry, current_ns=5).change_ns == 4


# -- on a device ---------------------------------------------------------------------------------------------------------


def device(kernels: dict[str, float], *, name: str = "cuda:0", **us: float) -> list[Measurement]:
    """What is measured of a device: kernels of one call each, and the parts of its step."""
    of_kernels = [one for kernel, time in kernels.items() for one in kernel_of(kernel, time)]
    return of_kernels + [measured("device_time", value, f"{name}:{part}") for part, value in us.items()]


def kernel_of(name: str, us: float) -> list[Measurement]:
    return [measured("kernel_time", us, name), measured("kernel_calls", 1, name)]


#: A step of 100 us, in which the host was busy all the time.
HOST = [*operator("aten::mm", 100.0), measured("profiled_step_time", 100.0)]
BEFORE = device(
    {"gemm": 30.0, "relu": 20.0, "Memcpy HtoD": 10.0, "ncclDevKernel": 40.0},
    computing=45.0, communication=40.0, exposed_communication=25.0, exposed_copying=5.0, idle=25.0,
)  # fmt: skip


def test_a_step_of_a_device_is_what_its_device_did():
    now = device(
        {"gemm": 60.0, "relu": 20.0, "Memcpy HtoD": 10.0, "ncclDevKernel": 40.0},
        computing=75.0, communication=40.0, exposed_communication=20.0, exposed_copying=5.0, idle=40.0,
    )  # fmt: skip
    slower = [*operator("aten::mm", 140.0), measured("profiled_step_time", 140.0)]
    found = ledger([*HOST, *BEFORE], [*slower, *now])
    assert parts(found) == {
        (Cause.PER_CALL.value, "gemm"): 30_000, (Cause.COMMUNICATION.value, ""): -5_000, (Cause.IDLE.value, ""): 15_000,
    }  # fmt: skip
    assert found is not None
    # 60 us of kernels and copies in the 50 us that are neither communication nor idle.
    assert (found.entries[-1].base_ns, found.entries[-1].current_ns) == (-10_000, -10_000)


def test_calls_of_a_kernel_that_runs_in_some_steps_are_left_out():
    now = [*BEFORE, measured("kernel_time", 9.0, "rare"), measured("kernel_calls", 0.2, "rare")]
    found = ledger([*HOST, *BEFORE], [*HOST, *now])
    assert found is not None
    (rare,) = (entry for entry in found.entries if entry.subject == "rare")
    assert (rare.cause, rare.change_ns, rare.current_calls) == (Cause.NEW, 9_000, None)
    assert found.entries[-1].change_ns == -9_000


def test_a_new_kernel_is_a_part_and_so_are_more_calls():
    now = [
        *device({"gemm": 60.0, "relu": 20.0, "Memcpy HtoD": 10.0, "sort": 7.0}, computing=75.0, exposed_communication=0.0,
                exposed_copying=5.0, idle=20.0),
        measured("kernel_calls", 2, "gemm"),
    ]  # fmt: skip
    found = parts(ledger([*HOST, *BEFORE], [*HOST, *now]))
    assert found[Cause.NEW.value, "sort"] == 7_000
    assert found[Cause.CALLS.value, "gemm"] == 30_000


@pytest.mark.parametrize(
    "now",
    [
        pytest.param([], id="one side has none"),
        pytest.param(
            [
                *BEFORE,
                *device({}, name="cuda:1", computing=1.0, exposed_communication=0.0, exposed_copying=0.0, idle=1.0),
            ],
            id="two devices",
        ),
        pytest.param(BEFORE[:-1], id="a part is missing"),
    ],
)
def test_else_it_is_what_the_host_did(now):
    slower = [*operator("aten::mm", 140.0), measured("profiled_step_time", 140.0)]
    assert parts(ledger([*HOST, *BEFORE], [*slower, *now])) == {(Cause.PER_CALL.value, "aten::mm"): 40_000}
