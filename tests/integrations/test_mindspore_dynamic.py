"""profiler_config.json: written, edited and refused; and real trainings that read it while they run."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard import check
from perfguard.errors import StoreError, UsageError
from perfguard.integrations.mindspore_dynamic import write_profiler_config
from tests.programs import run_program

SCRIPT = Path(__file__).parent / "scripts" / "ms_dynamic.py"
V = "2.10.0"

#: What MindSpore 2.10 writes when there is no file.
DEFAULT = {
    "start_step": -1,
    "stop_step": -1,
    "aic_metrics": "AiCoreNone",
    "profiler_level": "Level0",
    "analyse_mode": -1,
    "activities": ["CPU", "NPU"],
    "export_type": ["text"],
    "profile_memory": False,
    "mstx": False,
    "parallel_strategy": False,
    "with_stack": False,
    "data_simplification": True,
    "l2_cache": False,
    "analyse": False,
    "record_shapes": False,
    "prof_path": "./",
    "mstx_domain_include": [],
    "mstx_domain_exclude": [],
    "host_sys": [],
    "sys_io": False,
    "sys_interconnection": False,
}


def written(directory):
    return json.loads((directory / "profiler_config.json").read_text())


def test_a_file_is_made_with_what_a_window_needs(tmp_path):
    path = write_profiler_config(tmp_path / "cfg", start_step=5, stop_step=7, version=V)
    assert path == tmp_path / "cfg" / "profiler_config.json"
    assert written(tmp_path / "cfg") == {"start_step": 5, "stop_step": 7, "analyse": True}


def test_a_file_is_edited_and_the_rest_of_it_kept(tmp_path):
    (tmp_path / "profiler_config.json").write_text(json.dumps(DEFAULT))
    write_profiler_config(tmp_path, start_step=5, stop_step=7, version=V, profile_memory=True)
    assert written(tmp_path) == DEFAULT | {"start_step": 5, "stop_step": 7, "profile_memory": True, "analyse": True}
    write_profiler_config(tmp_path, start_step=-1, stop_step=-1, version=V, analyse=False)
    assert written(tmp_path) == DEFAULT | {"profile_memory": True}
    assert [one.name for one in tmp_path.iterdir()] == ["profiler_config.json"]


def test_an_ascend_device_takes_more(tmp_path):
    options = {"profiler_level": "Level1", "aic_metrics": "PipeUtilization", "host_sys": ["cpu"], "analyse_mode": 1}
    write_profiler_config(tmp_path, start_step=1, stop_step=1, version=V, device="ascend", **options)
    assert written(tmp_path) == {"start_step": 1, "stop_step": 1, "analyse": True} | options


def test_older_versions_have_numbers_and_no_analyse(tmp_path):
    write_profiler_config(tmp_path, start_step=2, stop_step=3, version="2.4.0", device="ascend", aicore_metrics=1)
    assert written(tmp_path) == {"start_step": 2, "stop_step": 3, "aicore_metrics": 1}


@pytest.mark.parametrize(
    ("window", "options", "words"),
    [
        (
            (5, 3),
            {},
            (
                "start_step and stop_step must be a window, 1 <= start_step <= stop_step, got 5 and 3; steps count "
                "from 1, the stop step is included, and both -1 switch profiling off."
            ),
        ),
        ((0, 3), {}, "steps count from 1"),
        (
            (-1, 3),
            {},
            (
                "start_step and stop_step must be a window, 1 <= start_step <= stop_step, got -1 and 3; steps count "
                "from 1, the stop step is included, and both -1 switch profiling off."
            ),
        ),
        (("5", 7), {}, "start_step must be an integer of at least -1, got '5'."),
        ((True, 7), {}, "start_step must be an integer of at least -1, got true."),
        ((5, 7.0), {}, "stop_step must be an integer of at least -1, got 7.0."),
        (
            (5, 7),
            {"profile_memory": "true"},
            "profile_memory must be true or false, got 'true' (write it without quotes).",
        ),
        ((5, 7), {"profile_memory": 1}, "profile_memory must be true or false, got 1."),
        ((5, 7), {"profile_mem": True}, "did you mean 'profile_memory'?"),
        ((5, 7), {"with_stack": True}, "has no effect on a CPU"),
        ((5, 7), {"analyse": False, "analyse_mode": 0}, "has no effect with analyse=False"),
        ((5, 7), {"version": "2.0.0"}, "MindSpore 2.0.0 has no profiler_config.json; it was added in 2.3."),
    ],
)
def test_what_the_monitor_would_reset_is_one_sentence_and_nothing_is_written(tmp_path, window, options, words):
    with pytest.raises(UsageError) as error:
        write_profiler_config(tmp_path, start_step=window[0], stop_step=window[1], **{"version": V, **options})
    assert words in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"start_step": 1,\n  "stop_step" 3}', "line 2, column 15: Expecting ':' delimiter"),
        ("", "is empty. MindSpore would ignore the whole file; correct it, or move it away."),
        ("[1]", "must be a JSON object, got [1]. MindSpore would ignore the whole file; correct it, or move it away."),
        (
            '{"analyse": true, "analyse": false}',
            (
                "is not JSON: an object has the key 'analyse' twice. MindSpore would ignore the whole file; correct "
                "it, or move it away."
            ),
        ),
        ('{"analyse": "yes"}', "analyse must be true or false, got 'yes'."),
        ('{"record_shape": true}', "this version calls it 'record_shapes'"),
        (
            '{"profiler_level": 2}',
            (
                "profiler_level must be one of LevelNone, Level0, Level1, Level2, got 2; 2 means 'Level2', and "
                "MindSpore warns about numbers."
            ),
        ),
        ('{"aic_metrics": "Memory"}', "is reset at profiler_level='Level0'"),
        (
            '{"mstx_domain_include": NaN}',
            (
                "is not JSON: NaN is not a JSON number. MindSpore would ignore the whole file; correct it, or move "
                "it away."
            ),
        ),
        ("[" * 100_000, "nested too deep"),
        ('"\\ud800', "line 1, column"),
    ],
)
def test_a_file_that_mindspore_would_ignore_is_told_by_its_place_and_left_alone(tmp_path, text, words):
    path = tmp_path / "profiler_config.json"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        write_profiler_config(tmp_path, start_step=5, stop_step=7, version=V)
    assert str(path) in str(error.value)
    assert words in str(error.value)
    assert path.read_text() == text


def test_a_file_that_is_no_text_is_one_sentence(tmp_path):
    (tmp_path / "profiler_config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UsageError, match="is not UTF-8"):
        write_profiler_config(tmp_path, start_step=5, stop_step=7, version=V)


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "cfg").write_text("")
    with pytest.raises((UsageError, StoreError), match=r"cfg"):
        write_profiler_config(tmp_path / "cfg", start_step=5, stop_step=7, version=V)


def test_a_file_longer_than_shared_memory_is_refused(tmp_path):
    names = [f"{'x' * 100}{number}" for number in range(11_000)]
    with pytest.raises(UsageError, match="MindSpore reads less than 1048576"):
        write_profiler_config(
            tmp_path, start_step=5, stop_step=7, version=V, device="ascend", mstx=True, mstx_domain_include=names
        )


@settings(max_examples=200)
@given(text=st.text(alphabet='{}[]":,truefalsn-1 \n', max_size=60))
def test_any_text_in_the_file_is_edited_or_refused_in_one_sentence(tmp_path_factory, text):
    directory = tmp_path_factory.mktemp("cfg")
    (directory / "profiler_config.json").write_text(text)
    try:
        write_profiler_config(directory, start_step=5, stop_step=7, version=V)
    except UsageError as error:
        sentence = str(error)
    else:
        assert written(directory)["start_step"] == 5
        return
    assert "\n" not in sentence
    assert (directory / "profiler_config.json").read_text() == text


# -- really run --------------------------------------------------------------------------------------------------------


def train(directory, mode, steps, edits):
    done = run_program(sys.executable, SCRIPT, mode, steps, json.dumps(edits), cwd=directory, GLOG_v="3")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "[ERROR]" not in done.stderr
    # rank0_start5_stop7
    return sorted((directory / "dynamic").glob("rank0_*"), key=lambda one: first_and_last(one)[0])


def first_and_last(window):
    return [int(number) for number in re.findall(r"_(?:start|stop)(\d+)", window.name)]


@pytest.fixture(scope="module")
def mindspore():
    return pytest.importorskip("mindspore", reason="MindSpore is not installed: pip install -e '.[models]'")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_two_windows_switched_on_in_mid_training_are_both_whole(tmp_path, mindspore):
    edits = {"2": {"start_step": 5, "stop_step": 7, "profile_memory": True}, "12": {"start_step": 15, "stop_step": 16}}
    windows = train(tmp_path, "graph", 18, edits)

    assert [first_and_last(one) for one in windows] == [[5, 7], [15, 16]]
    for window, steps in zip(windows, (3, 2), strict=True):
        verdict = check(window, expect=f"graph,memory,steps={steps}")
        assert verdict.layouts == ("ms-2.5+cpu", "ms-dyn")
        (counts,) = window.rglob("cpu_op_type_info_0.csv")
        rows = dict(line.split(",")[:2] for line in counts.read_text().splitlines()[1:])
        assert (int(rows["MatMul"]), int(rows["ApplyMomentum"])) == (2 * steps, 2 * steps)
    check(tmp_path / "dynamic")  # the steps of each are known from its name
    with pytest.raises(AssertionError, match=r"C101.*2 steps were requested"):
        check(windows[0].rename(windows[0].with_name("rank0_start5_stop6")))


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_window_without_analysis_is_raw_data_and_one_cut_short_is_told(tmp_path, mindspore):
    edits = {"1": {"start_step": 3, "stop_step": 4, "analyse": False}, "6": {"start_step": 8, "stop_step": 20}}
    raw, short = train(tmp_path, "graph", 10, edits)
    with pytest.raises(AssertionError, match="A104 data was collected, but not analysed"):
        check(raw)
    with pytest.raises(AssertionError, match=r"C101.*13 steps were requested, but most operators ran 3 times"):
        check(short)
