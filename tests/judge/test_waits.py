"""What is said of more waits: which operator, and in which function."""

from __future__ import annotations

import pytest

from perfguard.gate import judge_again
from perfguard.judge.compare import changes_text, compare
from perfguard.judge.comparison import State
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Outcome, outcome_of
from perfguard.judge.waits import added_waits
from tests.facts import HERE, baseline, measured
from tests.judge.test_verdict import judge

BEFORE = [
    measured("host_reads", 1),
    measured("waiting_operators", {"aten::item": 1}),
    measured("waiting_functions", ["aten::item in a.py(1): f"]),
]
NOW = [
    measured("host_reads", 2),
    measured("waiting_operators", {"aten::item": 1, "aten::nonzero": 1}),
    measured("waiting_functions", ["aten::item in a.py(1): f", "aten::nonzero in b.py(7): g"]),
]
PLACE = "aten::nonzero 0 → 1, in b.py(7): g"


def judged(before, now, **policy):
    return compare(now, baseline(*before), environment=HERE, policy=Policy(**policy))


def outcome(comparisons) -> Outcome:
    return outcome_of(one.finding for one in comparisons if one.finding is not None)


def test_on_a_cpu_a_read_is_a_change_and_said_first():
    found = judged(BEFORE, NOW)
    assert [one.finding for one in found] == [None] * 3
    assert changes_text(found).startswith(
        f"a step reads values on the host more often, and on a device waits for each: 1 → 2 a step ({PLACE})"
    )


@pytest.mark.parametrize(
    ("metric", "target", "message"),
    [
        ("host_reads", "device", f"host_reads 1 → 2 reads/step, +1 (exact: any increase fails): {PLACE}"),
        (
            "synchronisations",
            "host",
            f"synchronisations 1 → 2 calls/step, +1 (exact: any increase fails): {PLACE}",
        ),
    ],
)
def test_where_it_waits_it_is_worse(metric, target, message):
    sides = [[measured(metric, side[0].value), *side[1:]] for side in (BEFORE, NOW)]
    found = judged(*sides, target=target)
    assert [one.finding.message for one in found if one.finding is not None] == [message]
    assert outcome(found) is Outcome.FAILED
    assert outcome(judged(*reversed(sides), target=target)) is Outcome.PASSED


@pytest.mark.parametrize(
    ("before", "now", "place"),
    [
        pytest.param(BEFORE[:1], NOW[:1], "", id="no operators"),
        pytest.param(BEFORE[:2], NOW[:2], ": aten::nonzero 0 → 1", id="no stacks"),
        pytest.param(
            [BEFORE[0], measured("waiting_operators", {"aten::item": 2})],
            NOW,
            f": {PLACE}",
            id="another in place of it",
        ),
        pytest.param(
            BEFORE,
            [NOW[0], measured("waiting_operators", {"aten::item": 2}), BEFORE[2]],
            ": aten::item 1 → 2, in a.py(1): f",
            id="once more in the same function",
        ),
    ],
)
def test_what_is_not_known_is_not_said(before, now, place):
    (worse,) = (one for one in judged(before, now, target="device") if one.metric == "host_reads")
    assert worse.finding is not None
    assert worse.finding.message.endswith(f"fails){place}")


def test_each_rank_has_its_own():
    sides = [[measured(one.metric, one.value, "rank1:") for one in side] for side in (BEFORE, NOW)]
    found = judged(*([*side, measured("host_reads", 5, "rank0:")] for side in sides), target="device")
    assert [one.label for one in found if one.finding is not None] == ["host_reads[rank1:]"]


def test_fewer_reads_are_a_change_or_better():
    assert {one.state for one in judged(NOW, BEFORE) if one.metric == "host_reads"} == {State.CHANGED}
    assert {one.state for one in judged(NOW, BEFORE, target="device") if one.metric == "host_reads"} == {State.BETTER}


def test_a_rule_of_the_user_counts():
    rule = Rule(pattern="host_reads", tolerance=Tolerance(absolute=1))
    found = judged(BEFORE, NOW, target="device", settings=(rule,))
    assert outcome(found) is not Outcome.FAILED
    assert [one.label for one in found if one.is_allowed_by_a_rule] == ["host_reads"]


def test_what_is_worse_is_named_before_what_is_allowed():
    sides = [
        [measured("host_reads", value, f"rank{rank}:") for rank, value in enumerate(values)]
        for values in ((0, 0), (1, 9))
    ]
    rule = Rule(pattern="host_reads[rank0:]", tolerance=Tolerance(absolute=1))
    found = added_waits(judged(*sides, target="device", settings=(rule,)))
    assert found is not None
    assert found[0].subject == "rank1:"


def test_a_line_that_moved_is_no_other_function():
    functions = ["aten::item in a.py(1): f", "aten::item in a.py(9): g"]
    before = [*BEFORE[:2], measured("waiting_functions", functions)]
    functions = ["aten::item in a.py(2): f", "aten::item in a.py(10): g", "aten::item in b.py(3): h"]
    now = [NOW[0], measured("waiting_operators", {"aten::item": 2}), measured("waiting_functions", functions)]
    (worse,) = (one for one in judged(before, now, target="device") if one.metric == "host_reads")
    assert worse.finding is not None
    assert worse.finding.message.endswith("aten::item 1 → 2, in b.py(3): h")


@pytest.mark.parametrize(
    ("settings", "marker", "outcome"),
    [
        ("host", None, "CHANGED"), ("device", None, "FAILED"), ("device", "host", "CHANGED"), ("host", "device", "FAILED"),
    ],
)  # fmt: skip
def test_the_marker_overrides_the_settings_also_when_it_is_judged_again(settings, marker, outcome):
    policy = Policy(target=settings, marker_target=marker)
    first = judge(BEFORE, NOW, policy=policy)
    assert (first.outcome.value, first.target) == (outcome, marker)
    again = judge_again(first, baseline(*BEFORE), policy=Policy(target=settings))
    assert again.outcome.value == outcome
