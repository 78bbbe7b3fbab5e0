"""The values of a training: counted by hand from what was written, and compared."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import pytest

from perfguard import gate
from perfguard.contract import inspect
from perfguard.judge.tolerance import Policy, Rule, Tolerance
from perfguard.judge.verdict import Outcome
from perfguard.measure import METRICS, Kind, measure
from perfguard.recording import read_recording
from tests.dialects.test_summary import LINEAGE_EVENTS, NAME, VERSION, event, part, scalar, write

HISTOGRAM = part(1, part(1, b"fc.weight/auto") + part(9, b""))


def single(number: float) -> float:
    """Return the number a protobuf float keeps."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def summary(place: Path, losses: dict[int, float] | list[tuple[int, float]], name: str = NAME) -> Path:
    """Write a summary of these losses by step."""
    place.mkdir(exist_ok=True)
    pairs = losses.items() if isinstance(losses, dict) else losses
    records = [event(100.0 + n, part(5, scalar("loss/auto", x) + HISTOGRAM), s) for n, (s, x) in enumerate(pairs)]
    write(place, [VERSION, *records], name)
    write(place, LINEAGE_EVENTS, name.replace("_MS", "_lineage"))
    return place


def measured(place: Path) -> dict[str, object]:
    return {one.label: one.value for one in measure(inspect(read_recording(place)))}


def verdicts(base: Path, current: Path, policy: Policy):
    return [gate.examine(read_recording(one), workload="w", policy=policy) for one in (base, current)]


def compared(base: Path, current: Path, policy: Policy | None = None):
    policy = policy or Policy()
    verdict = gate.compare(*verdicts(base, current, policy), policy=policy)
    return verdict.outcome, [(f.code.name, f.place) for f in verdict.findings if f.code.is_of_comparison]


def test_the_loss_of_every_step_is_a_number(tmp_path):
    assert measured(summary(tmp_path / "a", {1: 2.3, 2: 1.5, 3: 0.1})) == {
        "summary_not_finite[loss/auto]": 0,
        "summary_scalar[loss/auto@1]": single(2.3),
        "summary_scalar[loss/auto@2]": 1.5,
        "summary_scalar[loss/auto@3]": single(0.1),
        "summary_steps[fc.weight/auto]": 3,
        "summary_steps[loss/auto]": 3,
        "summary_tags": ["fc.weight/auto (histogram)", "loss/auto (scalar)"],
    }


def test_a_step_that_stands_twice_is_one_number(tmp_path):
    found = measured(summary(tmp_path / "a", [(1, 1.0), (2, 0.5), (2, 0.5)]))
    assert found["summary_steps[loss/auto]"] == 2
    assert found["summary_scalar[loss/auto@2]"] == 0.5


def test_what_is_no_number_is_counted_and_never_stored(tmp_path):
    found = measured(summary(tmp_path / "a", {1: 1.0, 2: math.nan, 3: math.inf, 4: -math.inf, 5: 0.0}))
    assert found["summary_not_finite[loss/auto]"] == 3
    assert [label for label in found if label.startswith("summary_scalar")] == [
        "summary_scalar[loss/auto@1]",
        "summary_scalar[loss/auto@5]",
    ]
    assert "NaN" not in json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(("steps", "kept"), [(200, 200), (201, 101), (1000, 201), (20_001, 201)])
@pytest.mark.variants(2)
def test_a_long_training_keeps_two_hundred_steps_and_the_last(tmp_path, steps, kept):
    found = measured(summary(tmp_path / "a", dict.fromkeys(range(1, steps + 1), 1.0)))
    scalars = [label for label in found if label.startswith("summary_scalar")]
    assert len(scalars) <= kept
    assert f"summary_scalar[loss/auto@{steps}]" in scalars
    assert "summary_scalar[loss/auto@1]" in scalars
    assert found["summary_steps[loss/auto]"] == steps


def test_a_second_file_is_a_run_of_its_own(tmp_path):
    place = summary(tmp_path / "a", {1: 1.0})
    summary(place, {1: 3.0}, NAME.replace(".893.", ".943."))
    found = measured(place)
    assert (found["summary_scalar[loss/auto@1]"], found["summary_scalar[run2:loss/auto@1]"]) == (1.0, 3.0)
    assert found["summary_tags[run2:]"] == found["summary_tags"]


# -- compared ----------------------------------------------------------------------------------------------------------

BASE = {1: 2.0, 2: 1.0, 3: 0.5}


@pytest.mark.parametrize(
    ("current", "outcome", "found"),
    [
        (BASE, Outcome.PASSED, []),
        ({**BASE, 3: 0.5 * (1 + 1e-7)}, Outcome.PASSED, []),  # another instruction set
        ({**BASE, 3: 0.5 * (1 + 1e-5)}, Outcome.PASSED, [("R105", "summary_scalar[loss/auto@3]")]),
        ({**BASE, 3: 0.5 * (1 + 1e-3)}, Outcome.FAILED, [("R101", "summary_scalar[loss/auto@3]")]),
        ({**BASE, 2: 0.9}, Outcome.FAILED, [("R101", "summary_scalar[loss/auto@2]")]),  # better is not as it was either
        (
            {**BASE, 2: math.nan},
            Outcome.FAILED,
            [("R103", "summary_scalar[loss/auto@2]"), ("R102", "summary_not_finite[loss/auto]")],
        ),
        (
            {1: 2.0, 2: 1.0},
            Outcome.FAILED,
            [
                ("R103", "summary_scalar[loss/auto@3]"),
                ("R102", "summary_steps[fc.weight/auto]"),
                ("R102", "summary_steps[loss/auto]"),
            ],
        ),
        (
            {1: 2.0, 2: 1.0, 4: 0.5},
            Outcome.FAILED,
            [("R103", "summary_scalar[loss/auto@3]"), ("R104", "summary_scalar[loss/auto@4]")],
        ),
    ],
)
@pytest.mark.variants(1)
def test_a_changed_loss_is_found(tmp_path, current, outcome, found):
    result, findings = compared(summary(tmp_path / "base", BASE), summary(tmp_path / "now", current))
    assert (result, sorted(findings)) == (outcome, sorted(found))


def test_a_value_that_is_new_is_found(tmp_path):
    now = summary(tmp_path / "now", BASE)
    records = [event(100.0 + s, part(5, scalar("loss/auto", x) + scalar("acc", 1.0)), s) for s, x in BASE.items()]
    write(now, [VERSION, *records])
    result, findings = compared(summary(tmp_path / "base", BASE), now, Policy(changed_fails=True))
    assert result is Outcome.FAILED
    assert ("R102", "summary_tags") in findings


def test_a_loss_that_came_down_to_nothing_may_move_by_little(tmp_path):
    base, now = summary(tmp_path / "base", {1: 1e-9}), summary(tmp_path / "now", {1: 5e-7})
    assert compared(base, now) == (Outcome.PASSED, [])


def test_a_tolerance_of_the_user_holds_for_every_step(tmp_path):
    base, now = summary(tmp_path / "base", BASE), summary(tmp_path / "now", {step: x * 1.5 for step, x in BASE.items()})
    rules = (Rule(pattern="summary_scalar[loss/auto@*]", tolerance=Tolerance(relative=0.6)),)
    assert compared(base, now, Policy(settings=rules)) == (Outcome.PASSED, [])


def test_a_loss_moves_with_the_machine_and_the_rest_does_not():
    assert METRICS["summary_scalar"].kind is Kind.TIMED
    assert {METRICS[name].kind for name in ("summary_tags", "summary_steps", "summary_not_finite")} == {Kind.EXACT}
