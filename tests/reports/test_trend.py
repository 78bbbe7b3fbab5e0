"""How trends are laid out: a row a series, sentences below, and characters that a stream can hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.judge.tolerance import Tolerance, default_tolerance
from perfguard.judge.trend import Moment, Trend, trend
from perfguard.measure import METRICS
from perfguard.reports.trend import _since, drawn, moment_text, trend_lines, trend_text
from perfguard.screen import Screen
from tests.histories import FIRST, commit, series
from tests.installed import needs

needs("ruptures", "history")


def told(values, *, metric="peak_memory_bytes", tolerance=None, **changes) -> Trend:
    found = METRICS[metric]
    return trend(
        series(values, metric=metric, **changes), metric=found, tolerance=tolerance or default_tolerance(found)
    )


def of(number: int) -> str:
    return f"{commit(number)[:12]} (2026-10-{number + 1:02})"


@pytest.mark.parametrize(
    "before, after, text",
    [
        (10, 11, "+10.0 %"),
        (10, 9, "−10.0 %"),
        (5, 5, "0"),
        (0, 0, "0"),
        (0, 4096, "+4096"),
        (0, -3, "−3"),
        (-10, -5, "+50.0 %"),
    ],
)
def test_a_change_is_a_percentage_where_it_can_be(before, after, text):
    assert _since(before, after) == text


@pytest.mark.parametrize(
    "values, picture",
    [
        ([5], "▁"),
        ([5, 5, 5], "▁▁▁"),
        ([0, 7], "▁█"),
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        (range(240), "▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇███"),
    ],
)
def test_numbers_are_drawn_from_their_lowest_to_their_highest(values, picture):
    assert drawn(list(values)) == picture


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=200))
def test_any_numbers_can_be_drawn(values):
    assert 1 <= len(drawn(values)) <= 24


@pytest.mark.parametrize(
    "facts, text",
    [
        ({}, "run 7 (2026-10-01)"),
        ({"commit": "1a2b3c4d5e6f7081"}, "1a2b3c4d5e6f (2026-10-01)"),
        ({"commit": "1a2b3c4d5e6f7081+dirty"}, "1a2b3c4d5e6f+dirty (2026-10-01)"),
        ({"commit": "1a2b3c4d5e6f7081", "release": "v1.2"}, "v1.2 (1a2b3c4d5e6f, 2026-10-01)"),
        ({"release": "v\x1b[31m"}, "v\\x1b[31m (2026-10-01)"),
    ],
)
def test_a_run_is_named_by_what_is_known_of_it(facts, text):
    assert moment_text(Moment(run=7, at=FIRST, **facts)) == text


def test_what_is_worse_is_said_with_both_numbers_and_since_when():
    assert trend_lines(told([7168, 7168, 8192, 8192], releases=[0])) == [
        f"WORSE peak_memory_bytes 7168 → 8192 bytes, +14.3 % since the release v0 ({commit(0)[:12]}, 2026-10-01) "
        "(allowed +0.1 %)",
        f"peak_memory_bytes since {of(2)}: 7168 → 8192 bytes, +14.3 %",
    ]


def test_without_a_release_it_is_held_against_the_first_run():
    (worse, _) = trend_lines(told([1000, 1200], tolerance=Tolerance(relative=0.05)))
    assert worse == f"WORSE peak_memory_bytes 1000 → 1200 bytes, +20.0 % since the first run, {of(0)} (allowed +5.0 %)"
    (worse, _) = trend_lines(told([1000, 1200], tolerance=Tolerance(relative=0.05, absolute=100)))
    assert worse.endswith("(allowed +100 bytes)")


def test_creep_is_said_with_its_runs_and_its_largest_step():
    values = [1000 + 10 * (number // 2) for number in range(30)]
    lines = trend_lines(told(values, tolerance=Tolerance(relative=0.10)))
    assert (
        lines[1]
        == f"peak_memory_bytes creeps since {of(0)}: 1000 → 1140 bytes, +14.0 % over 30 runs, no step larger than 1.0 %"
    )


def test_of_many_changes_the_newest_are_told():
    lines = trend_lines(told([1, 2, 3, 4, 5, 6]))
    assert lines[1] == "peak_memory_bytes changed 2 times before that"
    assert [line.split(": ")[1] for line in lines[2:]] == [
        "3 → 4 bytes, +33.3 %",
        "4 → 5 bytes, +25.0 %",
        "5 → 6 bytes, +20.0 %",
    ]


def test_a_table_a_workload_and_the_sum_below():
    shown = told([5.0, 5.5], metric="step_time")
    found = [told([7, 7, 8], workload="a"), told([7, 7], workload="b", current=False), shown]
    text = trend_text([found[0], found[1], shown])
    first, second, third, last = text.split("\n\n")
    assert first.splitlines()[0] == "a"
    assert first.splitlines()[3].split() == [
        *("WORSE", "peak_memory_bytes", "3", "▁▁█", "8", "bytes", "+14.3", "%", "+14.3", "%")
    ]
    assert second.splitlines()[3].split()[0] == "gone"
    assert third.splitlines()[3].split()[0] == "shown"
    assert last == "1 series of 3 workloads judged: 1 worse, 0 not; 2 shown, not judged"


def test_under_the_release_nothing_stands_of_what_was_not_there_then():
    text = trend_text([told([7, 7, 8], releases=[0]), told([3, 4], metric="steps")])
    released, younger = text.split("\n\n")[0].splitlines()[3:5]
    assert text.splitlines()[1].endswith("since the release")
    assert released.endswith("+14.3 %")
    assert younger.split()[-1] == "-"


@pytest.mark.parametrize("runs, state", [(9, "shown"), (10, "ok")])
def test_a_time_of_few_runs_is_shown_and_not_called_judged(runs, state):
    text = trend_text([told([10.0] * runs, metric="step_cost")])
    assert text.splitlines()[3].split()[0] == state
    assert f"{int(state == 'ok')} series of 1 workload judged" in text


def test_machines_are_named_where_there_are_several():
    text = trend_text([told([5.0, 5.5], metric="step_time", machine=name) for name in ("one", "two")])
    assert "step_time (machine 1)" in text
    assert "\nmachine 1: one\nmachine 2: two" in text
    assert "machine" not in trend_text([told([5.0, 5.5], metric="step_time", machine="one")])


def test_names_are_shown_and_not_obeyed():
    text = trend_text([told([7, 8], workload="\x1b[31m\u202e", subject="<b>\x07")])
    assert "\\x1b[31m\\u202e" in text
    assert "peak_memory_bytes[<b>\\x07]" in text
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("encoding, picture", [("utf-8", "▁▂▃▄▅▆▇█"), ("ascii", "_.-:=+*#"), ("cp437", "_.-:=+*#")])
def test_a_screen_gets_what_it_can_hold(encoding, picture):
    screen = Screen(encoding=encoding)
    assert drawn(range(8), screen) == picture
    text = screen.shown(trend_text([told([7, 8])], screen))
    assert ("7 → 8" in text) == (encoding == "utf-8")
    text.encode(encoding)


def test_on_a_narrow_screen_columns_leave_and_the_metric_is_cut():
    found = [told([7, 8], subject="aten::a_rather_long_name_of_an_operator")]
    lines = trend_text(found, Screen(width=60)).splitlines()
    assert max(map(len, lines[1:4])) <= 60
    assert "trend" not in lines[1]
    assert "since the first run" in lines[1]


@given(st.lists(st.floats(0.001, 1e9), min_size=1, max_size=30))
def test_any_series_can_be_said(values):
    text = trend_text([told(values, metric="step_cost")])
    assert "nan" not in text
    Screen(encoding="ascii").shown(text).encode("ascii")
