"""What happened, in words: the first thing a reader sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfguard.findings import Code, Finding, Severity
from perfguard.judge.comparison import Comparison, State
from perfguard.judge.ledger import Cause, Entry, Ledger
from perfguard.judge.quantities import change_text, quantity
from perfguard.judge.refresh import Refresh
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.measure import Measurement, StepTimeline
from perfguard.recording import Provenance
from perfguard.reports.overview import headline, overview, sentence
from perfguard.reports.terminal import shown_findings
from perfguard.reports.where import more_work, where_text
from tests.reports import runs_to_show as show

NOBODY = Provenance()


def comparison(metric: str, before, now, subject: str = "", state: State = State.WORSE) -> Comparison:
    return Comparison(metric=metric, subject=subject, state=state, judged=True, reference=before, current=now)


def verdict(outcome: Outcome, *findings: Finding, comparisons=(), **more) -> Verdict:
    return Verdict(workload="a.py::a", outcome=outcome, findings=findings, comparisons=tuple(comparisons), **more)


def error(code: Code, place: str = "", message: str = "m") -> Finding:
    return Finding(code=code, place=place, message=message)


def timed(metric: str, us: float, *samples: float) -> dict[str, tuple[Measurement, ...]]:
    return {"measurements": (Measurement(metric=metric, subject="", value=us, samples=samples),)}


#: Five fresh processes; the cost of a step is what is judged.
FRESH = timed("run_wall_time", 2911.5, 2911.5, 2950.0, 2920.0, 2915.0, 2990.0)
COST = comparison("step_cost", 1.5, 7.711)


LEDGER = Ledger(
    metric="run_wall_time",
    base_ns=566_300,
    current_ns=2_911_500,
    entries=(
        Entry(cause=Cause.SHAPES, subject="aten::mm", base_ns=127_000, current_ns=1_486_500),
        Entry(cause=Cause.IDLE, base_ns=351_000, current_ns=609_700),
        Entry(cause=Cause.RESIDUAL, base_ns=88_300, current_ns=815_300),
    ),
)


@pytest.mark.parametrize(
    "one, expected",
    [
        (comparison("peak_memory_bytes", 7168, 13312, "cpu"), "Peak memory on cpu: 7.00 → 13.0 KiB (+85.7 %)."),
        (
            comparison("operator_calls", 2, 4, "MatMul"),
            "The calls of MatMul a step: 2 → 4 (+100.0 %).",
        ),
        (comparison("step_cpu_time", 100.0, 80.0), "The CPU time of a step: 100 us → 80.0 us (−20.0 %)."),
        (
            comparison("memory_growth_bytes", 0, 4096, "cpu"),
            "What a step leaves behind on cpu: 0 → 4096 bytes/step (+4096).",
        ),
        (comparison("operator_calls", None, 1, "Cast", State.CHANGED), "Cast is new: 1 call a step."),
        (comparison("operator_calls", 2, None, "Cast", State.CHANGED), "Cast is gone; it had 2 calls a step."),
        (comparison("step_cost", 1.5, 6.0), "The cost of a step: +300.0 %."),
        (comparison("operator_shapes", {"1": 1}, {"2": 1}, "Cast"), "operator_shapes[Cast] changed."),
        (comparison("of_a_later_version", 1, 2, "a\u202eb"), "of_a_later_version[a\\u202eb]: 1 → 2 (+100.0 %)."),
    ],
)
def test_a_number_that_moved_is_a_sentence(one, expected):
    assert sentence(one, verdict(Outcome.FAILED)) == expected


@pytest.mark.parametrize(
    "one, now, expected",
    [
        (COST, FRESH, "A step became slower: 0.566 → 2.91 ms (+414.1 %)."),
        (
            comparison("step_time", 100.0, 80.0),
            timed("step_time", 80.0),
            "A step became faster: 100 → 80.0 us (−20.0 %).",
        ),
    ],
)
def test_a_step_is_told_by_the_time_and_the_change_that_every_report_shows(one, now, expected):
    assert sentence(one, verdict(Outcome.FAILED, comparisons=[one], **now)) == expected


def test_a_step_that_stands_still_is_told_by_all_of_its_time():
    stall = replace(comparison("run_blocked_time", 100.0, 20_100.0), allowed=1100.0)
    sides = [stall, comparison("run_cpu_time", 6000.0, 6100.0, state=State.SAME), comparison("step_cost", 1.0, 1.02)]
    found = verdict(Outcome.FAILED, error(Code.R101, "run_blocked_time"), comparisons=sides, **FRESH)
    assert headline(found) == "A step became slower: 6.10 → 26.2 ms (+329.5 %): it waits."


def slower(*entries: Entry) -> Verdict:
    """Return a failing verdict whose step became 1 ms slower, of which the ledger has these parts."""
    whole = sum(entry.change_ns for entry in entries)
    ledger = Ledger(metric="run_wall_time", base_ns=1_000_000, current_ns=1_000_000 + whole, entries=entries)
    cost = comparison("step_cost", 1.0, 2.0)
    now = timed("run_wall_time", 2000.0)
    return verdict(Outcome.FAILED, error(Code.R101, "step_cost"), comparisons=[cost], ledger=ledger, **now)


def part(cause: Cause, ns: int, subject: str = "") -> Entry:
    return Entry(cause=cause, subject=subject, base_ns=0, current_ns=ns)


@pytest.mark.parametrize(
    "entries, expected",
    [
        (
            [part(Cause.SHAPES, 900_000, "aten::mm"), part(Cause.RESIDUAL, 100_000)],
            "The largest part is aten::mm (its shapes changed): +0.900 ms, 90 % of the change in time.",
        ),
        (
            [replace(part(Cause.PER_CALL, 900_000, "aten::mm"), base_calls=0, current_calls=2)],
            "The largest part is aten::mm (newly called): +900 us, 100 % of the change in time.",
        ),
        # All that an operator adds is one part, and what is negligible beside it is not told.
        (
            [
                part(Cause.CALLS, 500_000, "aten::mm"),
                part(Cause.SHAPES, 400_000, "aten::mm"),
                part(Cause.PER_CALL, 60_000, "aten::addmm"),
                part(Cause.CALLS, 40_000, "aten::view"),
            ],
            "The largest part is aten::mm (the number of calls changed): +0.900 ms, 90 % of the change in time; "
            "then aten::addmm +0.0600 ms.",
        ),
        (
            [
                part(Cause.PER_CALL, ns, name)
                for name, ns in zip("abcde", range(240_000, 140_000, -20_000), strict=True)
            ],
            "The time is spread over 5 operators, none of which stands out. The largest parts are a +0.240 ms, b +0.220 ms, "
            "c +0.200 ms.",
        ),
        (
            [part(Cause.PER_CALL, 100_000, "aten::mm"), part(Cause.PROFILER, 890_000), part(Cause.RESIDUAL, 10_000)],
            "Which operator took the time is not known: what profiling adds changed by −0.890 ms, "
            "the step by +1.00 ms.",
        ),
        (
            [part(Cause.PER_CALL, 100_000, "aten::mm"), part(Cause.IDLE, 900_000)],
            "No operator explains the time: between operators it changed by +0.900 ms, in the whole step by +1.00 ms.",
        ),
        (
            [part(Cause.PER_CALL, 100_000, "aten::mm")],
            "Which operator took the time is not known: the profiled step changed by +0.100 ms, the timed one by +1.00 ms.",
        ),
    ],
    ids=[
        "an operator",
        "newly called",
        "all parts of an operator",
        "many operators",
        "the profiler",
        "gaps",
        "another change",
    ],
)
def test_a_cause_is_named_where_operators_outweigh_what_nobody_can_explain(entries, expected):
    assert overview(slower(*entries), NOBODY).where == expected


@pytest.mark.parametrize(
    "least, why",
    [
        (part(Cause.PER_CALL, -200_000, "aten::t"), ", because other parts shrank"),
        (part(Cause.IDLE, -200_000), ", because other parts shrank"),
        (part(Cause.PROFILER, -200_000), ", because profiling adds to it"),
        (part(Cause.OVERLAP, -200_000), ", because operators overlap"),
        (part(Cause.RANK, -200_000), ", because another rank was the slowest before"),
        (part(Cause.RESIDUAL, -200_000), ""),
    ],
    ids=lambda value: value.cause.value if isinstance(value, Entry) else "",
)
def test_a_part_that_is_more_than_the_whole_says_why(least, why):
    more, less = part(Cause.SHAPES, 1_210_000, "aten::mm"), part(Cause.PROFILER, -10_000)
    shown = overview(slower(more, less, least), NOBODY).where
    assert shown == f"The largest part is aten::mm (its shapes changed): +1.21 ms, more than the whole change{why}."


UNKNOWN = "Which operator took the time is not known: what profiling adds changed by −1.00 ms, the step by +1.00 ms."


@pytest.mark.parametrize(
    ("before", "now", "severity", "expected"),
    [
        (3, 7, Severity.ERROR, "The step does more work: aten::mm (3 → 7 calls a step)."),
        (None, 2, Severity.ERROR, "The step does more work: aten::mm (new)."),
        # Failed by a rule of the user, or ignored.
        (7, 3, Severity.ERROR, UNKNOWN),
        (7, None, Severity.ERROR, UNKNOWN),
        (3, 7, Severity.NOTE, UNKNOWN),
    ],
)
def test_added_work_is_named_where_no_operator_has_the_time(before, now, severity, expected):
    found = slower(part(Cause.PROFILER, 1_000_000))
    calls = comparison("operator_calls", before, now, "aten::mm")
    of_calls = replace(error(Code.R102, calls.label), severity=severity)
    found = replace(found, findings=(*found.findings, of_calls), comparisons=(*found.comparisons, calls))
    assert where_text(found) == expected
    # It leads the headline, and then does not follow it.
    is_work = expected != UNKNOWN
    assert headline(found).startswith(f"{expected} A step became slower: ") is is_work
    assert overview(found, NOBODY).where == ("" if is_work else expected)
    first, *_ = shown_findings(found, verbose=False)
    assert first.startswith("more work: aten::mm (") is is_work


def test_what_fails_as_a_change_alone_is_no_more_work():
    """With changed = "fail" a new operator that weighs nothing fails, and the step does no more."""
    new = replace(comparison("operator_calls", None, 1, "aten::div"), state=State.CHANGED)
    found = verdict(Outcome.FAILED, error(Code.R104, new.label), comparisons=[new])
    assert where_text(found) == ""
    worse = replace(found, comparisons=(replace(new, state=State.WORSE),))
    assert where_text(worse) == "The step does more work: aten::div (new)."


def test_added_work_leads_only_where_a_time_failed_and_no_operator_explains_it_otherwise():
    calls = comparison("operator_calls", 3, 7, "aten::mm")
    of_calls = error(Code.R102, calls.label)
    memory = error(Code.R102, "peak_memory_bytes[cpu]")
    without_time = verdict(Outcome.FAILED, memory, of_calls, comparisons=[calls])
    waits = verdict(Outcome.FAILED, error(Code.R101, "run_blocked_time"), of_calls, comparisons=[calls])
    elsewhere = slower(part(Cause.PER_CALL, 900_000, "aten::sort"))
    elsewhere = replace(
        elsewhere, findings=(*elsewhere.findings, of_calls), comparisons=(*elsewhere.comparisons, calls)
    )
    assert [more_work(one) for one in (without_time, waits, elsewhere)] == ["", "", ""]
    assert [where_text(one) for one in (without_time, waits)] == [
        "The step does more work: aten::mm (3 → 7 calls a step)."
    ] * 2
    here = slower(part(Cause.CALLS, 900_000, "aten::mm"))
    here = replace(here, findings=(*here.findings, of_calls), comparisons=(*here.comparisons, calls))
    assert more_work(here) == "aten::mm (3 → 7 calls a step)"


def waiting(*lengths_ns: int) -> list[StepTimeline]:
    """Return steps of 1 ms with a pause of each length after aten::mm."""
    return [
        StepTimeline(
            rank=0,
            step=0,
            duration_ns=1_000_000,
            count=2,
            lanes=("thread 1",),
            names=("aten::mm", "aten::add"),
            spans=((0, 0, 0, 900_000 - length), (0, 1, 900_000, 100_000)),
        )
        for length in lengths_ns
    ]


def test_a_pause_that_made_the_step_slower_is_named():
    pause = "In the profiled step nothing ran for 0.800 ms, after aten::mm and before aten::add."
    idle = slower(part(Cause.PER_CALL, 100_000, "aten::mm"), part(Cause.IDLE, 900_000))
    long, short, longer = waiting(800_000, 10_000, 850_000)
    said = "No operator explains the time: between operators it changed by +0.900 ms, in the whole step by +1.00 ms."
    assert where_text(replace(idle, timeline=long)) == f"{said} {pause}"
    assert where_text(replace(idle, timeline=long, base_timeline=short)) == f"{said} {pause}"
    # One that the baseline has, too, is not what changed; a short one says nothing.
    assert where_text(replace(idle, timeline=long, base_timeline=longer)) == said
    assert where_text(replace(idle, timeline=short)) == said
    # Where the profiled step changed otherwise than the timed one, both of its sides must be known.
    other = slower(part(Cause.IDLE, 9_000_000))
    said = (
        "Which operator took the time is not known: the profiled step changed by +9.00 ms, the timed one by +1.00 ms."
    )
    assert where_text(replace(other, timeline=long)) == said
    assert where_text(replace(other, timeline=long, base_timeline=short)) == f"{said} {pause}"
    # A step that waits fails for its wait, which no operator explains.
    blocked = verdict(
        Outcome.FAILED,
        error(Code.R101, "run_blocked_time"),
        comparisons=[comparison("run_blocked_time", 50.0, 20_000.0), comparison("run_cpu_time", 900.0, 950.0)],
        timeline=long,
        **timed("run_wall_time", 20_000.0),
    )
    blocked = replace(blocked, comparisons=tuple(replace(one, allowed=1000.0) for one in blocked.comparisons))
    assert where_text(blocked) == pause


def test_operators_that_changed_are_told_by_their_share_of_the_time():
    sides = [comparison("operator_calls", 1, calls, name) for name, calls in (("aten::view", 99), ("aten::addmm", 2))]
    shares = [
        comparison("operator_share", share, share, name)
        for name, share in (("aten::view", 0.001), ("aten::addmm", 0.6))
    ]
    errors = [error(Code.R102, side.label) for side in sides]
    found = verdict(Outcome.FAILED, *errors, comparisons=[*sides, *shares])
    assert overview(found, NOBODY).where == "The step does more work: aten::addmm (1 → 2 calls a step)."


def test_a_time_that_was_only_warned_of_stands_beside_the_memory_that_failed():
    warned = Finding(code=Code.R105, place="step_cost", severity=Severity.WARNING, message="m")
    sides = [comparison("peak_memory_bytes", 100, 200, "cpu"), comparison("step_cost", 1.5, 6.0)]
    found = verdict(Outcome.FAILED, error(Code.R102, "peak_memory_bytes[cpu]"), warned, comparisons=sides)
    assert headline(found) == (
        "Peak memory on cpu: 100 → 200 bytes (+100.0 %). As a warning: The cost of a step: +300.0 %."
    )


@pytest.mark.parametrize(
    "severity, now, expected",
    [
        (Severity.WARNING, 6.0, " As a warning: The cost of a step: +300.0 %."),
        # It waits, and its cost did not rise: whoever found it says more.
        (Severity.WARNING, 1.4, " As a warning: it waits."),
        # The machine moved, so nobody is blamed.
        (Severity.NOTE, 6.0, ""),
    ],
)
def test_a_warning_is_one_and_is_told_by_its_number_where_that_rose(severity, now, expected):
    warned = Finding(code=Code.R105, place="step_cost", severity=severity, message="it waits")
    sides = [comparison("peak_memory_bytes", 100, 200, "cpu"), comparison("step_cost", 1.5, now)]
    found = verdict(Outcome.FAILED, error(Code.R102, "peak_memory_bytes[cpu]"), warned, comparisons=sides)
    assert headline(found) == "Peak memory on cpu: 100 → 200 bytes (+100.0 %)." + expected


def test_what_failed_by_a_code_of_later_is_not_said_to_be_uncompared():
    found = verdict(Outcome.FAILED, comparisons=[comparison("steps", 3, 3, state=State.SAME)])
    assert headline(found) == ("Written by a newer perfguard; its outcome is shown unchanged.")


@pytest.mark.parametrize("outcome, is_advised", [(Outcome.PASSED, True), (Outcome.FAILED, False)])
def test_what_got_better_is_stored_by_a_test_that_passes_alone(outcome, is_advised):
    better = Finding(code=Code.R106, severity=Severity.WARNING, message="m")
    found = replace(verdict(outcome, better), workload="a.py::test_b#prefill[128]", source="a.py:3")
    commands = [command for _, command in overview(found, NOBODY).advice]
    assert ("pytest --perfguard-ratchet a.py::test_b" in commands) == is_advised
    assert not any("128" in command for command in commands)


@pytest.mark.parametrize(
    "found, expected",
    [
        (verdict(Outcome.PASSED), "The recording is complete and valid; nothing was compared."),
        (
            verdict(Outcome.PASSED, comparisons=[comparison("steps", 3, 3, state=State.SAME)]),
            "Nothing got worse: 1 number compared.",
        ),
        (
            verdict(
                Outcome.PASSED,
                comparisons=[comparison("step_time", 100.0, 50.0, state=State.BETTER)],
                **timed("step_time", 50.0),
            ),
            "Nothing got worse. A step became faster: 100 → 50.0 us (−50.0 %).",
        ),
        (
            verdict(
                Outcome.PASSED,
                comparisons=[
                    comparison("memory_allocated_bytes", 200, 100, "cpu", state=State.BETTER),
                    comparison("step_time", 100.0, 50.0, state=State.BETTER),
                    comparison("peak_memory_bytes", 200, 100, "cpu", state=State.BETTER),
                ],
                **timed("step_time", 50.0),
            ),
            "Nothing got worse. A step became faster: 100 → 50.0 us (−50.0 %). peak_memory_bytes[cpu], "
            "memory_allocated_bytes[cpu] got better, too.",
        ),
        (
            verdict(Outcome.INVALID, error(Code.C101)),
            "The recording is incomplete or wrong, so nothing was compared: the profiled window is not the requested one.",
        ),
        (verdict(Outcome.INCONCLUSIVE, error(Code.B101)), "Nothing was judged: no baseline to compare with."),
        (
            verdict(Outcome.FAILED, error(Code.B110), refresh=Refresh.REFUSED),
            "The baseline was not refreshed: the baseline would get worse without a reason.",
        ),
        (
            verdict(Outcome.FAILED, error(Code.R103, "gone", "x is not measured")),
            "a metric vanished: x is not measured",
        ),
    ],
)
def test_the_headline_says_what_the_outcome_is_about(found, expected):
    assert headline(found) == expected


SIDES = "a step takes 1.00 → 2.00 ms, +100.0 %"


def shaped(before: dict[str, int], now: dict[str, int], operator: str = "aten::mm") -> Comparison:
    return comparison("operator_shapes", before, now, operator, State.CHANGED)


@pytest.mark.parametrize(
    "entries, shapes, expected",
    [
        # All changed shapes have one new dimension, the last one of a tensor.
        (
            [part(Cause.SHAPES, 900_000, "aten::mm")],
            shaped(
                {"float[10, 64];float[64, 256]": 2, "kept[1]": 1}, {"float[10, 64];float[64, 512]": 2, "kept[1]": 1}
            ),
            f"The matrix product aten::mm is twice as wide (256 → 512): {SIDES}.",
        ),
        (
            [part(Cause.SHAPES, 900_000, "aten::conv2d")],
            shaped({"float[8, 3, 9, 9]": 1}, {"float[32, 3, 9, 9]": 1}, "aten::conv2d"),
            f"The convolution aten::conv2d is 4 times as large (8 → 32): {SIDES}.",
        ),
        # Two dimensions, another dtype, a tensor more: no word is better than a wrong one.
        (
            [part(Cause.SHAPES, 900_000, "MatMul")],
            shaped({"float[8, 3]": 1}, {"float[16, 9]": 1}, "MatMul"),
            f"The matrix product MatMul takes longer for its new shapes: {SIDES}.",
        ),
        (
            [replace(part(Cause.SHAPES, 900_000, "aten::mm"), base_ns=100_000, base_calls=2, current_calls=2)],
            shaped({"float[8]": 1}, {"half[8]": 1}),
            f"The matrix product aten::mm takes 9 times as long each time for its new shapes: {SIDES}.",
        ),
        (
            [replace(part(Cause.CALLS, 900_000, "aten::add"), base_calls=1, current_calls=4)],
            None,
            f"The operator aten::add runs 4 times a step, not 1: {SIDES}.",
        ),
        (
            [replace(part(Cause.NEW, 900_000, "aten::_softmax"), current_calls=1)],
            None,
            f"The softmax aten::_softmax is new and runs once a step: {SIDES}.",
        ),
        (
            [replace(part(Cause.PER_CALL, 900_000, "aten::add"), base_ns=9, base_calls=0, current_calls=2)],
            None,
            f"The operator aten::add is newly called and runs 2 times a step: {SIDES}.",
        ),
        (
            [replace(part(Cause.PER_CALL, 1_800_000, "aten::sort"), base_ns=900_000, base_calls=3, current_calls=3)],
            None,
            f"The operator aten::sort takes twice as long each time: {SIDES}.",
        ),
        ([part(Cause.COMMUNICATION, 900_000)], None, f"Communication takes longer: {SIDES}."),
        (
            [replace(part(Cause.RENAMED, 900_000, "a\u202eb"), renamed_from="b")],
            None,
            f"The operator a\\u202eb replaces b, and takes longer: {SIDES}.",
        ),
        # Several parts, or none that is known: the number alone.
        (
            [
                part(Cause.PER_CALL, 400_000, "a"),
                part(Cause.PER_CALL, 300_000, "b"),
                part(Cause.PER_CALL, 200_000, "c"),
            ],
            None,
            "A step became slower: 1.00 → 2.00 ms (+100.0 %).",
        ),
        (
            [part(Cause.PER_CALL, 100_000, "aten::mm"), part(Cause.PROFILER, 890_000)],
            None,
            "A step became slower: 1.00 → 2.00 ms (+100.0 %).",
        ),
    ],
)
def test_a_headline_begins_with_what_changed_in_the_model(entries, shapes, expected):
    found = slower(*entries)
    found = replace(found, comparisons=(*found.comparisons, *([shapes] if shapes else [])))
    assert headline(found) == expected


def test_shapes_are_exact_so_they_are_named_where_no_time_is_judged():
    more = comparison("peak_memory_bytes", 100, 200, "cpu")
    shares = [comparison("operator_share", 0.5, 0.5, name, State.SAME) for name in ("aten::mm", "aten::relu")]
    shapes = [shaped({"float[256]": 1}, {"float[512]": 1}, name) for name in ("aten::relu", "aten::mm")]
    failed = error(Code.R102, "peak_memory_bytes[cpu]", "memory")
    found = verdict(Outcome.FAILED, failed, comparisons=[more, *shares, *shapes])
    assert headline(found) == (
        "The operator aten::relu is twice as wide (256 → 512), and so is 1 other operator. "
        "Peak memory on cpu: 100 → 200 bytes (+100.0 %)."
    )


def test_a_headline_tells_time_before_memory_and_both_where_both_got_worse():
    found = verdict(
        Outcome.FAILED,
        error(Code.R102, "peak_memory_bytes[cpu]", "memory"),
        error(Code.R102, "operator_calls[a]", "calls"),
        error(Code.R101, "step_time", "time"),
        comparisons=[
            comparison("operator_calls", 1, 2, "a"),
            comparison("peak_memory_bytes", 100, 200, "cpu"),
            comparison("step_time", 10.0, 20.0),
        ],
        **timed("step_time", 20.0),
    )
    assert headline(found) == (
        "The step does more work: a (1 → 2 calls a step). "
        "A step became slower: 10.0 → 20.0 us (+100.0 %). Peak memory on cpu: 100 → 200 bytes (+100.0 %)."
    )
    # What stands first in the headline stands first below it, too.
    assert [message for _, message in overview(found, NOBODY).points] == ["time", "memory", "calls"]


@pytest.mark.parametrize(
    "commit, branch, expected",
    [
        (None, None, "baseline: commit fedcba987654, stored because “a first one”"),
        (
            "abcdefabcdefabcdef",
            None,
            "baseline: commit fedcba987654, stored because “a first one” → now: commit abcdefabcdef",
        ),
        (
            "abcdefabcdefabcdef+dirty",
            "main",
            "baseline: commit fedcba987654, stored because “a first one” → "
            "now: commit abcdefabcdef with uncommitted changes, branch main",
        ),
    ],
)
def test_it_says_since_when(commit, branch, expected):
    assert overview(show.failing(), Provenance(commit=commit, branch=branch)).since == expected


def test_an_operator_whose_shapes_changed_is_told_with_the_pair_that_is_most_alike():
    shapes = comparison(
        "operator_shapes",
        {"float[10, 64];float[64, 256]": 1, "float[256, 64];float[64, 256]": 1, "kept": 1},
        {"float[2048, 64];float[64, 256]": 1, "float[10, 64];float[64, 2048]": 1, "kept": 1},
        "aten::mm",
    )
    found = verdict(Outcome.FAILED, error(Code.R101, "step_cost"), comparisons=[COST, shapes], ledger=LEDGER, **FRESH)
    shown = overview(found, NOBODY)
    assert shown.where == "The largest part is aten::mm (its shapes changed): +1.36 ms, 58 % of the change in time."
    assert shown.shapes == (
        (
            "aten::mm",
            ["float[10, 64];float[64, 256]", "float[256, 64];float[64, 256]"],
            ["float[10, 64];float[64, 2048]", "float[2048, 64];float[64, 256]"],
        ),
    )
    assert where_text(found) == (
        "The largest part is aten::mm (its shapes changed: float[10, 64];float[64, 256] → float[10, 64];float[64, 2048]): "
        "+1.36 ms, 58 % of the change in time."
    )


@pytest.mark.parametrize(
    "make, commands",
    [
        (show.passing, ["perfguard view"]),
        (
            show.failing,
            [
                "pytest --perfguard tests/test_net.py::test_fails",
                "perfguard ab --base fedcba987654 -- tests/test_net.py::test_fails",
                'pytest --perfguard --perfguard-update tests/test_net.py::test_fails --perfguard-reason "..."',
                "perfguard view",
            ],
        ),
        (
            show.without_baseline,
            [
                "pytest --perfguard tests/test_net.py::test_new",
                "pytest --perfguard --perfguard-update tests/test_net.py::test_new",
                "perfguard view",
            ],
        ),
    ],
)
@pytest.mark.variants(1)
def test_it_says_what_to_do_next(make, commands):
    found = [command for _, command in overview(make(), NOBODY).advice]
    assert [one if not one.startswith("perfguard view") else "perfguard view" for one in found] == commands


@pytest.mark.parametrize(
    ("outcome", "look"),
    [(Outcome.INVALID, ["perfguard check recordings/*"]), (Outcome.FAILED, ["perfguard view recordings/*"])],
)
def test_a_recording_that_was_not_kept_is_made_again_where_it_stays(outcome, look):
    gone = replace(show.failing(), outcome=outcome, recording=None)
    commands = [command for _, command in overview(gone, NOBODY).advice]
    again = "pytest --perfguard --perfguard-recordings=recordings tests/test_net.py::test_fails"
    assert commands[-2:] == [again, *look]
    assert not any("DIR" in command for command in commands)


def test_a_passed_test_needs_no_recording_of_its_own():
    gone = replace(show.passing(), recording=None)
    assert [command for _, command in overview(gone, NOBODY).advice] == []


def test_a_name_that_a_shell_would_obey_is_quoted():
    odd = replace(show.failing(), workload="a.py::b; rm -rf ~", source="a.py:1")
    assert "pytest --perfguard 'a.py::b; rm -rf ~'" in [command for _, command in overview(odd, NOBODY).advice]


def test_three_findings_are_told_and_the_rest_is_counted():
    many = [error(Code.R102, f"operator_calls[{n}]") for n in range(5)]
    many.append(Finding(code=Code.R102, message="", more=7))
    many.append(Finding(code=Code.R105, message="w", severity=Severity.NOTE))
    found = overview(verdict(Outcome.FAILED, *many), NOBODY)
    assert (len(found.points), found.more) == (3, 2 + 7 + 1)


@pytest.mark.parametrize(
    "value, unit, expected",
    [
        (0, "bytes", "0 bytes"),
        (1023, "bytes", "1023 bytes"),
        (1536, "bytes/step", "1.50 KiB/step"),
        (5 * 1024**4, "bytes", "5.00 TiB"),
        (-2048, "bytes", "-2.00 KiB"),
        (-0.25, "us", "-0.250 us"),
        (999.4, "us", "999 us"),
        (9999.4, "us", "10.0 ms"),
        (12_345.0, "us/step", "12.3 ms/step"),
        (2_500_000, "us", "2.50 s"),
        (1.5, "ratio", "1.5 ratio"),
        (float("nan"), "us", "no number"),
        (None, "us", ""),
    ],
)
def test_quantities_have_the_unit_that_suits_them(value, unit, expected):
    assert quantity(value, unit) == expected


@pytest.mark.parametrize(
    "value, beside, text",
    [(400.0, [1200.0, None], "0.400 ms"), (1200.0, [400.0], "1.20 ms"), (400.0, [float("inf"), [], "x"], "400 us")],
)
def test_a_time_has_the_unit_of_what_stands_beside_it(value, beside, text):
    assert quantity(value, "us", beside=beside) == text


@pytest.mark.parametrize(
    "before, now, expected",
    [
        (100, 138.3, "+38.3 %"),
        (100, 50, "−50.0 %"),
        (0, 4, "+4"),
        (0, 0, "+0"),
        (-2, 2, "+200.0 %"),
        (1, float("inf"), ""),
        ([], 1, ""),
    ],
)
def test_changes_are_told_as_percentages(before, now, expected):
    assert change_text(before, now) == expected
