"""Settings: every key is read, checked and refused with the nearest known one."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from perfguard import StepWindow
from perfguard.configuration import configuration_schema
from perfguard.errors import UsageError
from perfguard.judge.tolerance import Rule, Tolerance
from perfguard.measure import METRICS
from perfguard.settings import Settings, find_root, read_settings, rules, with_marker
from perfguard.thresholds import MOST_BASELINE_RUNS


def read(tmp_path: Path, table: str) -> Settings:
    (tmp_path / "pyproject.toml").write_text(f"[tool.perfguard]\n{table}\n", encoding="utf-8")
    return read_settings(tmp_path)


def limit(settings: Settings, metric: str, subject: str = "") -> Tolerance | None:
    return settings.policy.tolerance(METRICS[metric], subject)


# -- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "key", "expected"),
    [
        ('baselines = "perf/base"', "baselines", Path("perf/base")),
        (
            "window = { skip_first = 1, wait = 2, warmup = 3, active = 4, repeat = 5 }",
            "window",
            StepWindow(1, 2, 3, 4, 5),
        ),
        ("window = { active = 3 }", "window", StepWindow(active=3)),
        ("window = {}", "window", StepWindow()),
        ("timed_steps = 7", "timed_steps", 7),
        ("threads = 4", "threads", 4),
        ('backend = "torch"', "backend", "torch"),
        ('time = "off"', "time", False),
        ('time = "on"', "time", True),
        ('history = "runs.db"', "history", "runs.db"),
        ('history = "postgresql://host/db"', "history", "postgresql://host/db"),
        ('unused = "warn"', "unused", "warn"),
        ('unused = "fail"', "unused", "fail"),
        ('ignore = ["A103", "C"]', "ignore", ("A103", "C")),
        ("ignore = []", "ignore", ()),
        ("tolerance = {}", "tolerance", ()),
    ],
)
def test_every_key_is_read(tmp_path, line, key, expected):
    settings = read(tmp_path, line)
    assert getattr(settings, key) == expected
    default = Settings(root=tmp_path)
    others = [name for name in Settings.__dataclass_fields__ if name != key]
    assert all(getattr(settings, name) == getattr(default, name) for name in others)


@pytest.mark.parametrize(
    "content", [None, "", "[project]\nname = 'x'\n", "[tool.other]\nkey = 1\n", "[tool.perfguard]\n"]
)
def test_without_a_table_everything_has_its_default(tmp_path, content):
    if content is not None:
        (tmp_path / "pyproject.toml").write_text(content)
    assert read_settings(tmp_path) == Settings(root=tmp_path)


def test_the_schema_has_the_defaults_of_the_settings(tmp_path):
    properties = configuration_schema("settings")["properties"]
    written = {key: one["default"] for key, one in properties.items() if "default" in one}
    defaults = Settings(root=tmp_path)
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in written.items())
    assert read(tmp_path, text) == defaults
    assert {key: one["default"] for key, one in properties["window"]["properties"].items()} == StepWindow().as_dict()
    assert properties["runs"]["maximum"] == MOST_BASELINE_RUNS


def test_the_settings_reach_the_judge(tmp_path):
    settings = read(tmp_path, 'time = "off"\nignore = ["C1"]\ntolerance = { step_time = 0.5 }')
    policy = with_marker(settings, {"tolerance": {"step_time": 0.1}, "ignore": ["A103"]}).policy
    assert policy.judge_time is False
    assert policy.ignore == ("C1", "A103")
    assert policy.settings == (Rule(pattern="step_time", tolerance=Tolerance(relative=0.5)),)
    assert policy.marker == (Rule(pattern="step_time", tolerance=Tolerance(relative=0.1)),)


@pytest.mark.parametrize(
    ("written", "expected"), [("base", "root/base"), ("../base", "root/../base"), ("/base", "/base")]
)
def test_baselines_lie_below_the_root(written, expected):
    settings = Settings(root=Path("root"), baselines=Path(written))
    assert settings.baselines_directory == Path(expected)


# -- where the table is ----------------------------------------------------------------------------------------------


def test_the_root_is_the_nearest_table(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.perfguard]\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")
    assert find_root(inner) == tmp_path
    (inner / "pyproject.toml").write_text("[tool.perfguard]\n")
    assert find_root(inner) == inner


def test_without_a_table_anywhere_the_root_is_where_one_stands(tmp_path):
    assert find_root(tmp_path) == tmp_path


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('baseline = "b"', r"baseline is not a known key; did you mean 'baselines'\?"),
        ("windows = {}", r"windows is not a known key; did you mean 'window'\?"),
        ('changed = "maybe"', r"\[tool.perfguard\].changed must be one of warn, fail, got 'maybe'"),
        ("changed = true", "changed must be one of warn, fail, got true"),
        ('confirm = "maybe"', r"\[tool.perfguard\].confirm must be one of on, off, got 'maybe'"),
        ("confirm = false", "confirm must be one of on, off, got false"),
        ("tolerances = {}", r"tolerances is not a known key; did you mean 'tolerance'\?"),
        ("timed-steps = 3", r"timed-steps is not a known key; did you mean 'timed_steps'\?"),
        ("zzz = 1", "zzz is not a known key; known are baselines, store, window, "),
        ("window = { activ = 3 }", r"\[tool.perfguard\].window.activ is not a known key; did you mean 'active'\?"),
        ("window = { zzz = 3 }", "zzz is not a known key; known are skip_first, wait, warmup, active, repeat"),
        ("tolerance = { step_cost = 0 }", "step_cost = 0 would fail half of all unchanged runs"),
        ("tolerance = { step_ab = 0.0 }", "step_ab = 0 would fail half of all unchanged runs"),
        ("tolerance = { step_cost = { relative = 0 } }", "step_cost = 0 would fail half of all unchanged runs"),
        ("tolerance = { step_cost = { absolute = 0 } }", "step_cost = 0 would fail half of all unchanged runs"),
        ("tolerance = { 'step_cost[*]' = 0 }", "step_cost.* = 0 would fail half of all unchanged runs"),
        ("tolerance = { step_cost = -0.1 }", r"must be a fraction \(0.25 is 25 %\), .* or \"off\", got "),
        (
            "tolerance = { step_cost = 10 }",
            r"step_cost = 10 allows a step that is 11 times as slow. Write a fraction \(0.1 is 10 %\)",
        ),
        ("tolerance = { step_ab = { relative = 5 } }", "step_ab = 5 allows a step that is 6 times as slow"),
        ("runs = -1", "must be an integer from 0"),
        ('runs = "5"', "must be an integer from 0"),
        ("runs = true", "must be an integer from 0"),
        ("runs = 1001", "to 1000"),
        ("tolerance = { step_tme = 0.1 }", r"no metric 'step_tme' to set a tolerance for; did you mean 'step_time'\?"),
        (
            "tolerance = { step_time = { relativ = 0.1 } }",
            r"step_time: relativ is not a known key; did you mean 'relative'\?",
        ),
        (
            "[tool.perfguard.tolerance.step_time]\nwarm = 0.1",
            r"step_time: warm is not a known key; did you mean 'warn'\?",
        ),
        ('ignore = ["C1O1"]', r"no finding code 'C1O1' to ignore; did you mean 'C101'\?"),
        ('ignore = [""]', "no finding code '' to ignore"),
        ("ignore = [101]", r"ignore must be a list of finding codes, such as .*, got \[101\] \(101 is not a string\)"),
    ],
)
def test_what_is_unknown_is_refused_with_the_nearest_known(tmp_path, table, message):
    with pytest.raises(UsageError, match=message):
        read(tmp_path, table)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("baselines = 3", "baselines"),
        ("history = 3", "history"),
        ('baselines = ["b"]', "baselines"),
        ("window = 3", "window"),
        ('window = "3"', "window"),
        ('window = { active = "3" }', "active"),
        ("window = { active = 0 }", "active"),
        ("window = { active = 3.0 }", "active"),
        ("window = { warmup = -1 }", "warmup"),
        ("window = { wait = true }", "wait"),
        ("timed_steps = 0", "timed_steps"),
        ("timed_steps = 2.5", "timed_steps"),
        ("timed_steps = true", "timed_steps"),
        ('timed_steps = "3"', "timed_steps"),
        ("threads = 0", "threads"),
        ("threads = false", "threads"),
        ("backend = 1", "backend"),
        ("time = true", "time"),
        ('time = "ON"', "time"),
        ('unused = "ignore"', "unused"),
        ("unused = true", "unused"),
        ('unused = ["fail"]', "unused"),
        ('ignore = "C101"', "ignore"),
        ("ignore = 101", "ignore"),
        ("tolerance = 0.1", "tolerance"),
        ('tolerance = ["step_time"]', "tolerance"),
        ('tolerance = { step_time = "0.1" }', "step_time"),
        ('tolerance = { step_time = "OFF" }', "step_time"),
        ("tolerance = { step_time = true }", "step_time"),
        ("tolerance = { step_time = -0.1 }", "step_time"),
        ("tolerance = { step_time = nan }", "step_time"),
        ("tolerance = { step_time = inf }", "step_time"),
        ("tolerance = { step_time = [0.1] }", "step_time"),
        ("tolerance = { step_time = { relative = -1 } }", "step_time"),
        ("tolerance = { step_time = { absolute = nan } }", "step_time"),
        ('tolerance = { step_time = { warn = "0.1" } }', "step_time"),
        ("tolerance = { operator_set = 0.1 }", "operator_set"),
        ('tolerance = { "operator_shapes[MatMul]" = 1 }', "operator_shapes"),
        ('tolerance = { "step time" = 1 }', "step time"),
        ('tolerance = { "operator_time[" = 1 }', "operator_time"),
        ('tolerance = { "" = 1 }', "''"),
        ('tolerance = { "step_time\\n" = 1 }', "step_time"),
    ],
)
def test_a_wrong_value_is_refused_by_name(tmp_path, table, named):
    with pytest.raises(UsageError) as raised:
        read(tmp_path, table)
    assert named in str(raised.value)


@pytest.mark.parametrize(
    "content", ["tool = 3\n", "[tool]\nperfguard = 3\n", "[tool]\nperfguard = 'on'\n", "[[tool.perfguard]]\n"]
)
def test_a_table_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(UsageError, match="perfguard"):
        read_settings(tmp_path)


@pytest.mark.parametrize("content", [b"[tool.perfguard", b"\xff", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_toml_is_refused(tmp_path, content):
    (tmp_path / "pyproject.toml").write_bytes(content)
    with pytest.raises(
        UsageError, match=r"pyproject\.toml is not valid TOML: .*Correct it, then run the same command again"
    ):
        read_settings(tmp_path)
    with pytest.raises(UsageError, match=r"pyproject\.toml is not valid TOML"):
        find_root(tmp_path)


# -- markers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keyword", "value", "expected"),
    [
        ("window", StepWindow(active=9), StepWindow(active=9)),
        ("window", None, StepWindow(active=2)),
        ("backend", "mindspore", "mindspore"),
        ("backend", None, "torch"),
        ("timed_steps", 9, 9),
        ("timed_steps", None, 2),
        ("threads", 9, 9),
        ("threads", None, 2),
    ],
)
def test_a_marker_goes_over_the_settings(keyword, value, expected):
    settings = Settings(root=Path(), window=StepWindow(active=2), backend="torch", timed_steps=2, threads=2)
    assert getattr(with_marker(settings, {keyword: value}), keyword) == expected


def test_an_empty_marker_changes_nothing():
    settings = Settings(root=Path(), ignore=("A103",), tolerance=rules({"step_time": 0.5}, where="here"))
    assert with_marker(settings, {}) == settings
    assert with_marker(settings, {"tolerance": None, "ignore": None}) == settings


@pytest.mark.parametrize(
    ("table", "changed", "confirm"),
    [("", "warn", True), ('changed = "fail"\nconfirm = "off"', "fail", False), ('confirm = "on"', "warn", True)],
)
def test_what_changed_and_a_stored_time(tmp_path, table, changed, confirm):
    settings = read(tmp_path, table)
    assert (settings.changed, settings.confirm) == (changed, confirm)
    assert settings.policy.changed_fails is (changed == "fail")
    assert with_marker(settings, {"changed": "fail"}).policy.changed_fails


def test_only_a_marker_isolates(tmp_path):
    assert with_marker(Settings(root=Path()), {"isolated": True}) == Settings(root=Path(), isolated=True)
    with pytest.raises(UsageError, match="isolated is not a known key"):
        read(tmp_path, "isolated = true")


def test_a_marker_ignores_more_never_less():
    settings = Settings(root=Path(), ignore=("A103",))
    assert with_marker(settings, {"ignore": ["C102"]}).policy.ignore == ("A103", "C102")
    assert with_marker(settings, {"ignore": []}).ignore == ("A103",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"windw": StepWindow()}, r"windw is not a known key; did you mean 'window'\?"),
        ({"baselines": "b"}, "baselines is not a known key"),
        ({"zzz": 1}, "zzz is not a known key; known are window, backend, timed_steps, threads, tolerance, ignore"),
        ({"window": 5}, r"window must be a perfguard.StepWindow\(...\), got 5"),
        ({"window": {"active": 5}}, r"window must be a perfguard.StepWindow\(...\), got "),
        ({"timed_steps": 0}, "timed_steps must be an integer of at least 1, got 0"),
        ({"timed_steps": "3"}, "timed_steps must be an integer of at least 1, got '3'"),
        ({"threads": 1.0}, "threads must be an integer of at least 1, got 1.0"),
        ({"backend": 3}, "backend"),
        ({"isolated": "yes"}, "isolated must be true or false, got 'yes'"),
        ({"changed": "maybe"}, "changed must be one of warn, fail, got 'maybe'"),
        ({"confirm": "off"}, "confirm is not a known key"),
        ({"tolerance": 0.1}, "tolerance must be a table of tolerances by metric, such as step_time = 0.25, got "),
        (
            {"tolerance": [("step_time", 0.1)]},
            "tolerance must be a table of tolerances by metric, such as step_time = 0.25, got ",
        ),
        ({"tolerance": {"step_tim": 0.1}}, r"did you mean 'step_time'\?"),
        ({"tolerance": {"step_time": {"relatve": 0.1}}}, r"did you mean 'relative'\?"),
        ({"tolerance": {"step_time": None}}, r"must be a fraction \(0.25 is 25 %\), .* or \"off\", got "),
        ({"tolerance": {3: 0.1}}, "3"),
        ({"ignore": ["C999"]}, "no finding code 'C999'"),
        ({"ignore": "C101"}, "ignore"),
        ({"ignore": "CS"}, "ignore"),
        ({"ignore": 101}, "ignore"),
    ],
)
def test_a_wrong_marker_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        with_marker(Settings(root=Path()), arguments)


# -- tolerances ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", Tolerance()),
        ("0.25", Tolerance(relative=0.25)),
        ("2", Tolerance(relative=2.0)),
        ("{ relative = 0.25, absolute = 50 }", Tolerance(relative=0.25, absolute=50.0)),
        ("{ absolute = 50 }", Tolerance(absolute=50.0)),
        ("{ relative = 0.5, warn = 0.1 }", Tolerance(relative=0.5, warn_relative=0.1)),
        ('"off"', None),
    ],
)
@pytest.mark.parametrize("metric", ["step_time", "operator_calls"])
def test_a_tolerance_is_a_fraction_a_table_or_off(tmp_path, metric, value, expected):
    assert limit(read(tmp_path, f"tolerance = {{ {metric} = {value} }}"), metric, "") == expected


def test_a_table_that_only_warns_keeps_the_limit_of_the_metric(tmp_path):
    # A user who asks to be warned earlier did not ask to fail at once.
    settings = read(tmp_path, "tolerance = { step_time = { warn = 0.1 } }")
    assert limit(settings, "step_time") == Tolerance(relative=METRICS["step_time"].relative, warn_relative=0.1)


@pytest.mark.parametrize("metric", ["operator_set", "operator_shapes"])
def test_what_is_no_number_can_only_be_switched_off(tmp_path, metric):
    assert limit(read(tmp_path, f'tolerance = {{ {metric} = "off" }}'), metric) is None


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("aten::mm", 0.1),
        ("aten::addmm", 0.2),
        ("aten::relu", 0.3),
        ("MatMul", 0.4),
        ("fused[0]", 0.5),
        ("fused0", 0.4),
        ("fused[1]", 0.6),
        ("evaluate_function: AddmmBackward0", 0.7),
    ],
)
def test_the_most_precise_pattern_holds(tmp_path, subject, expected):
    settings = read(
        tmp_path,
        """
        [tool.perfguard.tolerance]
        operator_time = 0.4
        "operator_time[aten::*]" = 0.3
        "operator_time[aten::*mm]" = 0.2
        "operator_time[aten::mm]" = 0.1
        "operator_time[fused[*]]" = 0.6
        "operator_time[fused[0]]" = 0.5
        "operator_time[evaluate_function: AddmmBackward0]" = 0.7
        """,
    )
    assert limit(settings, "operator_time", subject) == Tolerance(relative=expected)


def test_a_marker_goes_over_a_more_precise_setting(tmp_path):
    settings = read(tmp_path, 'tolerance = { "operator_time[MatMul]" = 0.1, step_time = 0.2 }')
    marked = with_marker(settings, {"tolerance": {"operator_time": 0.5}})
    assert limit(marked, "operator_time", "MatMul") == Tolerance(relative=0.5)
    assert limit(marked, "step_time") == Tolerance(relative=0.2)


def test_what_nobody_names_keeps_its_default(tmp_path):
    settings = read(tmp_path, 'tolerance = { "operator_time[MatMul]" = 0.1 }')
    assert limit(settings, "operator_time", "Conv2D") is None
    assert limit(settings, "operator_calls", "MatMul") == Tolerance()
    assert limit(settings, "step_time") == Tolerance(relative=math.inf, warn_relative=1.0)


@pytest.mark.parametrize(("period", "active", "profiled"), [(1, 5, 5), (4, 5, 4), (4, 11, 8), (5, 5, 5), (None, 5, 5)])
def test_whole_periods_are_profiled(period, active, profiled):
    found = with_marker(Settings(root=Path()), {"window": StepWindow(active=active), "period": period})
    assert (found.period, found.window) == (period, StepWindow(active=profiled))


@pytest.mark.parametrize(
    ("period", "message"),
    [
        (0, "period must be"),
        (-4, "period must be"),
        ("4", "period must be"),
        (4.5, "period must be"),
        (True, "period must be"),
        (
            8,
            "@pytest.mark.perfguard(...): period=8 is longer than the window of 5 steps; give it two periods: "
            "window=perfguard.StepWindow(active=16).",
        ),
    ],
)
def test_a_period_that_is_none_is_one_sentence(period, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        with_marker(Settings(root=Path()), {"period": period})


def test_only_a_marker_has_a_period(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.perfguard]\nperiod = 4\n")
    with pytest.raises(UsageError, match="period"):
        read_settings(tmp_path)
