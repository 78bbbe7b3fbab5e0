"""What SummaryCollector's rule demands of a summary file: steps, values, doubles, size, told and untold."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.artifacts.readers.summary import read_records
from perfguard.contract import Contract, expectation, inspect
from perfguard.errors import UsageError
from perfguard.findings import Severity
from perfguard.measure import measure
from perfguard.recording import read_recording
from tests.conftest import recorded
from tests.contract.together import inspect_together, places
from tests.dialects.test_summary import GRAPH, LINEAGE, LINEAGE_EVENTS, NAME, VERSION, event, part, scalar, write

LOSS, FIRST = "loss/auto", "first"


def histogram(tag: str) -> bytes:
    return part(1, part(1, tag.encode()) + part(9, b""))


def tensor(tag: str) -> bytes:
    return part(1, part(1, tag.encode()) + part(8, b""))


def record(step: int, *values: bytes) -> bytes:
    return event(100.0 + step, part(5, b"".join(values)), step)


def losses(*steps: int) -> list[bytes]:
    return [record(step, scalar(LOSS, 1.0 / step), histogram("fc.weight/auto")) for step in steps]


@pytest.fixture
def found(tmp_path):
    """Write a summary of these events; return its errors, or findings of another severity, as `CODE message`."""

    def finder(
        events: list[bytes], expect: str = "", *, severity: Severity = Severity.ERROR, per_epoch: int | None = None
    ):
        place = tmp_path / "summary"
        place.mkdir(exist_ok=True)
        write(place, [VERSION, GRAPH, *events])
        write(place, LINEAGE_EVENTS, LINEAGE)
        if per_epoch is not None:
            notes = {"epoch_group": {}, "model_params_file_map": {}, "step_per_epoch": per_epoch, "unit": "step"}
            notes |= {"num_samples": 1, "landscape_size": 40, "create_landscape": {"train": True}}
            (place / "ckpt_dir").mkdir()
            (place / "ckpt_dir" / "train_metadata.json").write_text(json.dumps(notes))
        contract = inspect(read_recording(place), expectation([expect]))
        return [f"{f.code.name} {f.message}" for f in contract.findings if f.severity is severity]

    return finder


# -- read --------------------------------------------------------------------------------------------------------------


def test_every_value_has_its_kind_and_its_number(tmp_path):
    odd = record(1, scalar("a|b%", 0.1), histogram("w"), tensor("t"), part(1, part(1, b"nothing")))
    write(tmp_path, [VERSION, odd, event(102.0, part(5, b""), 2)])
    row = read_records(tmp_path / NAME, {}).frame.row(1, named=True)
    assert row["tags"] == "a%7Cb%25|w|t|nothing"
    assert row["kinds"] == "scalar|histogram|tensor|"
    assert row["scalars"] == "0.10000000149011612|||"
    measured = {one.label: one.value for one in measure(inspect(read_recording(tmp_path)))}
    assert measured["summary_tags"] == ["a%7Cb%25 (scalar)", "nothing", "t (tensor)", "w (histogram)"]
    assert measured["summary_scalar[a%7Cb%25@1]"] == 0.10000000149011612
    assert measured["summary_steps[w]"] == 1


# -- steps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (1,),
        (1, 2, 3, 4, 5),
        (1, 10, 20, 30),
        (1, 3, 6, 9, 12),
        (10, 20, 30, 40),  # epochs of ten steps, in data sink mode
        (101, 110, 120, 130),  # a training that went on
        (1, 7),  # too few to tell
        (1, 4, 6),
    ],
)
@pytest.mark.variants(3)
def test_steps_of_a_frequency_are_clean(found, steps):
    assert found(losses(*steps)) == []


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((1, 2, 4, 5), "there are no values of step 3"),
        ((1, 10, 20, 40, 50), "there are no values of step 30"),
        ((1, 2, 8, 10), "there are no values of steps 4, 6"),
        ((1, 10, 20, 25, 30), "there are no values of steps 5, 15"),
        ((1, 3, 4, 20), "there are no values of steps 2, 5, 6, 7, 8, 9, 10, 11 and 8 more"),
    ],
)
@pytest.mark.variants(2)
def test_a_step_that_was_lost_is_found_untold(found, steps, message):
    assert found(losses(*steps)) == [f"C101 {message}"]


@pytest.mark.parametrize(
    ("steps", "expect", "messages"),
    [
        ((1, 10, 20), "collect_freq=10", []),
        ((1, 10, 20), "collect_freq=10,summary_steps=29", []),
        ((1, 10, 20), "collect_freq=10,summary_steps=30", ["there are no values of step 30"]),
        ((1, 10, 20), "collect_freq=5", ["there are no values of steps 5, 15"]),
        ((1, 10, 20), "collect_freq=20", ["there are values of step 10, which should not be collected"]),
        ((10, 20), "collect_freq=10", ["there are no values of step 1"]),
        (
            (1, 10, 20),
            "collect_freq=10,summary_steps=15",
            ["there are values of step 20, which should not be collected"],
        ),
        ((1,), "collect_freq=10,summary_steps=9", []),
        ((1, 2, 3, 4), "summary_steps=6", ["there are no values of steps 5, 6"]),
    ],
)
@pytest.mark.variants(3)
def test_what_is_told_decides(found, steps, expect, messages):
    assert found(losses(*steps), expect) == [f"C101 {message}" for message in messages]


def test_what_only_operators_of_the_user_wrote_has_no_rule(found):
    assert found([record(step, scalar("mine", 1.0)) for step in (3, 5, 11, 13, 40)], "collect_freq=2") == []


FREQUENCIES = st.tuples(st.integers(1, 9), st.integers(5, 30), st.integers(0, 27), st.sampled_from([1, 1, 1, 100]))


@settings(max_examples=8)
@given(st.lists(FREQUENCIES, min_size=1, max_size=12))
@pytest.mark.exhaustive
def test_any_step_but_the_first_and_last_is_missed(tmp_path_factory, several):
    directories, lost = places(tmp_path_factory.mktemp("any"), 2 * len(several)), []
    for number, (frequency, count, place, first) in enumerate(several):
        base = 0 if first == 1 else 100 // frequency * frequency
        steps = sorted({first, *(base + frequency * (n + 1) for n in range(count))})
        # The gap must not lead to another frequency: what is left must still have the old one in it.
        inner = steps[2:-1]
        lost.append(inner[place % len(inner)])
        for directory, gone in ((directories[2 * number], None), (directories[2 * number + 1], lost[-1])):
            write(directory, LINEAGE_EVENTS, LINEAGE)
            write(directory, [VERSION, *losses(*(step for step in steps if step != gone))])
    found = errors_of(inspect_together([read_recording(one) for one in directories]))
    assert found[::2] == [[]] * len(several)
    assert found[1::2] == [[f"C101 there are no values of step {gone}"] for gone in lost]


def errors_of(contracts: Sequence[Contract]) -> list[list[str]]:
    return [[f"{f.code.name} {f.message}" for f in one.findings if f.severity is Severity.ERROR] for one in contracts]


# -- tensors -----------------------------------------------------------------------------------------------------------


def with_tensors(steps, tensors) -> list[bytes]:
    """Write both as the collector does: a record with tensors alone where only they are due."""
    return [
        record(step, *([scalar(LOSS, 1.0)] if step in steps else []), *([tensor("out")] if step in tensors else []))
        for step in sorted({*steps, *tensors})
    ]


@pytest.mark.parametrize(
    ("tensors", "expect", "messages"),
    [
        ((1, 3, 6, 9), "", []),
        ((1, 3, 6, 9), "collect_tensor_freq=3", []),
        ((1, 3, 6, 9), "collect_freq=2,collect_tensor_freq=3,summary_steps=10", []),
        ((1, 3, 9, 12), "", ["there are no tensors of step 6"]),
        ((1, 2, 4, 6, 8, 10), "collect_freq=2,summary_steps=10", []),
        ((1, 2, 4, 8, 10), "collect_freq=2,summary_steps=10", ["there are no tensors of step 6"]),
        ((1, 3, 6, 9), "collect_tensor_freq=4", ["there are no tensors of steps 4, 8"]),
    ],
)
def test_tensors_have_a_frequency_of_their_own(found, tensors, expect, messages):
    told = found(with_tensors((1, 2, 4, 6, 8, 10), tensors), expect)
    assert [one for one in told if "should not" not in one] == [f"C101 {message}" for message in messages]


@pytest.mark.parametrize(
    ("every", "total", "frequency", "last"),
    [(10, 20, 10, 20), (10, 600, 31, 589), (1, 60, 3, 57), (1, 30, 1, 20), (1, 19, 1, 19), (1, 20, 1, 20)],
)
@pytest.mark.variants(2)
def test_the_default_is_at_most_twenty_steps_with_tensors(found, every, total, frequency, last):
    steps = sorted({1, *range(every, total + 1, every)})
    tensors = sorted({1, *range(frequency, last + 1, frequency)})
    stated = f"collect_freq={every},summary_steps={total}"
    assert found(with_tensors(steps, tensors), stated) == []
    assert found(with_tensors(steps, tensors[:-1]), stated) == [f"C101 there are no tensors of step {last}"]


# -- values ------------------------------------------------------------------------------------------------------------


def test_a_value_that_is_missing_in_a_step_is_found(found):
    events = [*losses(1, 2), record(3, scalar(LOSS, 1.0)), *losses(4)]
    assert found(events) == ["I115 fc.weight/auto has values for 3 of 4 steps, but not for step 3"]
    events = [record(step, scalar(LOSS, 1.0), *([scalar(FIRST, 1.0)] if step != 2 else [])) for step in (1, 2, 3, 4)]
    assert found(events) == []
    assert found(events, severity=Severity.WARNING) == ["I115 first has values for 3 of 4 steps, but not for step 2"]


def test_a_step_in_two_records_is_one(found):
    """The values of summary operators of the first step stand in a record of their own."""
    assert (
        found(
            [
                record(1, scalar(FIRST, 1.0)),
                record(1, scalar(LOSS, 1.0)),
                record(2, scalar(LOSS, 1.0), scalar(FIRST, 1.0)),
            ]
        )
        == []
    )


def test_a_step_is_there_twice_at_the_end_of_an_epoch(found):
    assert found(losses(1, 2, 3, 3, 4, 5, 6, 6)) == []
    assert found(losses(1, 2, 3, 3, 3)) == [
        "I114 loss/auto of step 3 occurs 3 times",
        "I114 fc.weight/auto of step 3 occurs 3 times",
    ]
    assert found(losses(1, 2, 3, 3, 4, 5, 6, 6), per_epoch=3) == []


def test_a_step_that_is_doubled_within_an_epoch_is_found(found):
    assert found(losses(1, 2, 2, 3, 3), severity=Severity.WARNING, per_epoch=3) == [
        "I114 loss/auto of step 2 occurs twice, but no epoch of 3 steps ends there",
        "I114 fc.weight/auto of step 2 occurs twice, but no epoch of 3 steps ends there",
    ]


def test_a_step_with_two_values_is_found(found):
    twice = [record(1, scalar(LOSS, 0.5)), record(1, scalar(LOSS, 0.25))]
    assert found(twice) == ["I114 loss/auto of step 1 is 0.25, but 0.5 in record 3"]
    nan = float("nan")
    assert found([record(1, scalar(LOSS, nan)), record(1, scalar(LOSS, nan))]) == []


# -- size, and what is not there ------------------------------------------------------------------------------------------


def test_a_file_larger_than_its_limit_is_found(found, tmp_path):
    assert found(losses(1, 2, 3), "max_file_size=100000") == []
    size = (tmp_path / "summary" / NAME).stat().st_size
    assert found(losses(1, 2, 3), f"max_file_size={size}") == []
    assert found(losses(1, 2, 3), f"max_file_size={size - 1}") == [
        f"A110 max_file_size={size - 1} is expected, but it has {size} bytes"
    ]


def test_what_did_not_go_into_a_full_file_is_a_warning(found, tmp_path):
    found(losses(1, 2, 3))
    size = (tmp_path / "summary" / NAME).stat().st_size
    told = f"collect_freq=1,summary_steps=9,max_file_size={size + 8}"
    assert found(losses(1, 2, 3), told) == []
    assert found(losses(1, 2, 3), told, severity=Severity.WARNING) == [
        "C101 there are no values of steps 4, 5, 6, 7, 8, 9: the file has reached max_file_size"
    ]
    # What is missing in the middle, or with room to spare, is missing.
    assert found(losses(1, 3), "collect_freq=1,max_file_size=210") == ["C101 there are no values of step 2"]
    assert found(losses(1, 2, 3), "collect_freq=1,summary_steps=9,max_file_size=99999") == [
        "C101 there are no values of steps 4, 5, 6, 7, 8, 9"
    ]


@pytest.mark.parametrize(
    ("expect", "code"), [("lineage", "A102"), ("landscape", "A102"), ("no-lineage,no-landscape", None)]
)
def test_what_is_said_to_be_collected_must_be_there(tmp_path, expect, code):
    write(tmp_path, [VERSION, *losses(1, 2)])
    found = inspect(read_recording(tmp_path), expectation([expect])).findings
    assert [f.code.name for f in found if f.severity is Severity.ERROR] == ([code] if code else [])


def test_lineage_that_should_not_be_there_is_said(found):
    assert found(losses(1, 2), "no-lineage") == [f"A110 no-lineage is expected, but it was on: {LINEAGE} is there"]


def test_a_number_of_summaries_without_one_is_an_error():
    recording = read_recording(Path(__file__).parents[1] / "data" / "recordings" / "torch-mlp")
    messages = [f.message for f in inspect(recording, expectation(["collect_freq=2,max_file_size=10"])).findings]
    assert "collect_freq=2, max_file_size=10 is expected, but there is no summary file" in messages


@pytest.mark.parametrize(
    "word", ["collect_freq=0", "collect_freq=-1", "collect_freq=1.5", "collect_frequency=2", "max_file_size=4GB"]
)
def test_a_number_that_is_none_is_refused(word):
    with pytest.raises(UsageError, match="numbers are ranks=N"):
        expectation([word])


def test_numbers_are_read():
    told = expectation(["collect_freq=2,collect_tensor_freq=3,max_file_size=4294967296,summary_steps=9,steps=3"])
    assert (told.steps, dict(told.numbers)) == (
        3,
        {"collect_freq": 2, "collect_tensor_freq": 3, "max_file_size": 4294967296, "summary_steps": 9},
    )


# -- as metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.0", "2.10"])
def test_real_output_has_its_losses(version):
    for place in recorded(f"mindspore-{version}-summary"):
        measurements = measure(inspect(read_recording(place)))
        found = {one.label: one.value for one in measurements}
        assert found["summary_steps[loss/auto]"] == 6  # of 7 records: the last step ends an epoch
        losses = [found[f"summary_scalar[loss/auto@{step}]"] for step in range(1, 7)]
        assert all(map(math.isfinite, losses))
        assert found["summary_tags"] == ["fc.bias/auto (histogram)", "fc.weight/auto (histogram)", "loss/auto (scalar)"]


@pytest.mark.usefixtures("must_not_hang")
def test_a_step_far_beyond_the_others_is_found(found):
    (said,) = found(losses(1, 2, 3, 4, 2**62))
    assert said == (f"C101 there are no values of steps {', '.join(map(str, range(5, 13)))} and {2**62 - 13} more")


RULES = st.tuples(st.sets(st.integers(1, 40), min_size=1), st.integers(1, 12), st.none() | st.integers(1, 50))


@settings(max_examples=8)
@given(st.lists(RULES, min_size=1, max_size=24))
@pytest.mark.exhaustive
def test_the_steps_that_are_absent_are_those_of_the_rule(tmp_path_factory, several):
    directories, told, wanted = places(tmp_path_factory.mktemp("rule"), len(several)), [], []
    for place, (there, frequency, total) in zip(directories, several, strict=True):
        write(place, LINEAGE_EVENTS, LINEAGE)
        write(place, [VERSION, *losses(*sorted(there))])
        required = {1, *range(frequency, (max(there) if total is None else total) + 1, frequency)}
        told.append(expectation([f"collect_freq={frequency}" + (f",summary_steps={total}" if total else "")]))
        absent, extra = required - there, there - required
        wanted.append([f"C101 there are no values of {in_words(absent)}"] if absent else [])
        if extra:
            wanted[-1].append(f"C101 there are values of {in_words(extra)}, which should not be collected")
    assert errors_of(inspect_together([read_recording(one) for one in directories], told)) == wanted


def in_words(steps: set[int]) -> str:
    named = ", ".join(map(str, sorted(steps)[:8])) + (f" and {len(steps) - 8} more" if len(steps) > 8 else "")
    return f"step{'s' if len(steps) > 1 else ''} {named}"
