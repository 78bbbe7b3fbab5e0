"""The dynamic profile, with real torch on the CPU: profiler_config.json edited while the training runs."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfguard
from perfguard.capture.replay import recordings_in
from perfguard.documents import violations
from perfguard.errors import UsageError
from perfguard.integrations.tools_profiler import ToolsProfiler, tools_profiler
from perfguard.integrations.torch_dynamic import (
    CONFIG_FILE,
    NpuDynamicProfile,
    WatchedFile,
    default_config,
    read_dynamic_config,
)
from perfguard.recording import Ending, read_recording
from tests.installed import needed
from tests.integrations.test_tools_config import anything
from tests.programs import wait_until

torch = needed("torch", "models")

SCRIPT = Path(__file__).parent / "scripts" / "torch_dynamic_loop.py"
FILE = Path("dynamic", CONFIG_FILE)
DEFAULT = default_config()


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def config(config_path="dynamic", ranks=-1) -> Path:
    path = Path("tools.json")
    profile = {"enable": True, "profile_type": "dynamic", "ranks": ranks, "dynamic_param": {"config_path": config_path}}
    path.write_text(json.dumps({"profile": profile}))
    return path


def edited(**values: object) -> str:
    return json.dumps({**DEFAULT, "prof_dir": "windows", "start_step": -1, **values})


def trained(edits: dict[int, object], steps: int = 12, prof: ToolsProfiler | None = None) -> ToolsProfiler:
    """Train; before the end of step k, `edits[k]` is written: a text, a part of a text, or what is to be called."""
    prof = prof or tools_profiler(config())
    prof.start()
    for step in range(steps):
        torch.mm(torch.ones(4, 4), torch.ones(4, 4))
        edit = edits.get(step)
        if callable(edit):
            edit()
        elif edit is not None:
            FILE.write_text(edit)
        prof.step()
    prof.stop()
    assert gc.isenabled()
    assert not torch.autograd._profiler_enabled()
    return prof


def log(directory: str = "dynamic") -> str:
    (path,) = Path(directory, "log").glob("dp_*_rank_*.log")
    return path.read_text()


def windows(prof: ToolsProfiler) -> list[tuple[str, Ending]]:
    return [(one.directory.name, one.ending) for one in prof.recordings]


def steps_marked(directory: Path) -> list[int]:
    (trace,) = directory.glob("*.pt.trace.json")
    return sorted({int(one) for one in re.findall(r"ProfilerStep#([0-9]+)", trace.read_text())})


# -- the file and the log ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("made_before", [False, True])
def test_an_empty_directory_gets_the_file_and_the_log_of_torch_npu(made_before):
    if made_before:
        Path("dynamic").mkdir()
    prof = trained({}, steps=3)

    written = json.loads(FILE.read_text())
    assert written == DEFAULT
    assert list(written) == list(DEFAULT)
    assert violations(written, "profiler_config.npu") == []
    assert prof.recordings == ()
    (path,) = Path("dynamic/log").iterdir()
    assert path.name == f"dp_{os.uname().nodename}_{os.getpid()}_rank_0.log"
    lines = path.read_text().splitlines()
    assert all(re.match(r"[0-9-]+ [0-9:,]+ \[(INFO|WARNING)\] \[[0-9]+\] torch_dynamic\.py: ", line) for line in lines)
    assert [line.rpartition(": ")[2] for line in lines] == [
        f"Watching {FILE.absolute()}.",
        f"Stop watching {FILE.absolute()} at 3 step.",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("config_path", ["dynamic", f"dynamic/{CONFIG_FILE}"])
@pytest.mark.exhaustive
def test_a_file_that_is_there_is_used(config_path):
    FILE.parent.mkdir()
    FILE.write_text(edited(start_step=3, active=2))
    prof = trained({}, prof=tools_profiler(config(config_path)))

    assert windows(prof) == [("dp_rank_0_start_3_active_2", Ending.COMPLETE)]
    assert steps_marked(prof.recordings[0].directory) == [3, 4]
    assert FILE.read_text() == edited(start_step=3, active=2)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_file_that_is_there_may_ask_for_the_first_step():
    FILE.parent.mkdir()
    FILE.write_text(edited())
    prof = trained({})
    assert windows(prof) == [("dp_rank_0_start_0_active_1", Ending.COMPLETE)]
    assert steps_marked(prof.recordings[0].directory) == [0]


# -- windows -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.exhaustive
def test_two_windows_of_one_run_are_recorded_apart_and_judged():
    prof = trained(
        {
            1: edited(active=2, record_shapes=True, profile_memory=True),
            6: edited(active=3, warmup=1, start_step=8, with_stack=True, activities=["CPU"]),
        },
        steps=16,
    )

    assert windows(prof) == [
        ("dp_rank_0_start_2_active_2", Ending.COMPLETE),
        ("dp_rank_0_start_8_active_3", Ending.COMPLETE),
    ]
    first, second = prof.recordings
    assert steps_marked(first.directory) == [2, 3]
    assert steps_marked(second.directory) == [9, 10, 11]
    assert first.conditions == {"memory": True, "shapes": True}
    assert second.conditions == {"memory": False, "shapes": False, "stack": True}
    for recording in (first, second):
        verdict = perfguard.check(recording.directory, expect=f"steps={recording.window.active}")
        calls = {m.subject: m.value for m in verdict.measurements if m.metric == "operator_calls"}
        assert calls == {"aten::mm": 1, "aten::ones": 2, "aten::empty": 2, "aten::fill_": 2, "aten::resolve_conj": 3}
    assert recordings_in(Path("windows")) == sorted(Path("windows").iterdir())
    text = log()
    assert text.count("Start Dynamic Profiler at ") == text.count("Stop Dynamic Profiler at ") == 2
    assert "Start Dynamic Profiler at 2 step, in " in text
    assert "Start Dynamic Profiler at 8 step, in " in text


@pytest.mark.slow
@pytest.mark.exhaustive
def test_edited_from_outside_while_a_loop_waits_for_nobody():
    FILE.parent.mkdir()
    loop = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(config())], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        for number, active in enumerate((2, 3), start=1):
            wait_until(lambda: "Watching" in log() if list(Path("dynamic/log").glob("*")) else False)
            # In two halves, as an editor may be interrupted in: the first is no JSON, and is not taken for the last word.
            text = edited(active=active)
            with FILE.open("w") as file:
                file.write(text[: len(text) // 2])
                file.flush()
                time.sleep(0.05)
                file.write(text[len(text) // 2 :])
            wait_until(lambda number=number: log().count("Stop Dynamic Profiler at ") == number)
    finally:
        Path("enough").touch()
        out, _ = loop.communicate(timeout=600)

    assert loop.returncode == 0
    assert [one.rpartition("_")[2] for one in out.splitlines()[-1].split()] == ["2:complete", "3:complete"], log()
    assert log().count(" is not JSON: line 1, column ") == 2, log()
    assert log().count("Start Dynamic Profiler at ") == 2
    for directory in Path("windows").iterdir():
        active = int(directory.name.rpartition("_")[2])
        perfguard.check(directory, expect=f"steps={active}")
        start = int(directory.name.split("_")[4])
        assert steps_marked(directory) == list(range(start, start + active))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_same_file_saved_again_asks_again():
    prof = trained({1: edited(), 4: edited(), 8: FILE.touch})
    assert windows(prof) == [(f"dp_rank_0_start_{start}_active_1", Ending.COMPLETE) for start in (2, 5, 9)]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_edit_in_a_window_waits_for_its_end():
    prof = trained({1: edited(active=4), 3: edited(active=2)})
    assert [steps_marked(one.directory) for one in prof.recordings] == [[2, 3, 4, 5], [6, 7]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (json.dumps({"active": 2, "prof_dir": "windows"}), 4),  # the file of an older torch_npu has no start_step
        (edited(start_step=0, active=2), 4),
        (edited(start_step=4, active=2), 4),
        (edited(start_step=6, active=2), 6),
        (edited(is_rank=True, rank_list=[0, 3], active=2), 4),
    ],
)
@pytest.mark.variants(2)
def test_when_a_window_begins(text, begins):
    prof = trained({3: text})
    assert [steps_marked(one.directory) for one in prof.recordings] == [[begins, begins + 1]]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_two_runs_are_never_mixed():
    first = trained({1: edited()})
    kept = {one.name: one.read_bytes() for one in first.recordings[0].directory.iterdir()}
    FILE.write_text(json.dumps(DEFAULT))
    second = trained({1: edited()})

    assert windows(second) == [("dp_rank_0_start_2_active_1_2", Ending.COMPLETE)]
    assert {one.name: one.read_bytes() for one in first.recordings[0].directory.iterdir()} == kept


@pytest.mark.slow
@pytest.mark.exhaustive
def test_metadata_and_flops_reach_the_trace_and_the_rest_is_told():
    prof = trained(
        {
            1: edited(
                with_flops=True,
                with_modules=True,
                record_shapes=True,
                analyse=True,
                metadata={"run": {"night": 3}},
                experimental_config={"profiler_level": "Level2"},
            )
        }
    )
    (recording,) = prof.recordings
    (trace,) = recording.directory.glob("*.pt.trace.json")
    head = json.loads(trace.read_text())
    assert (head["with_flops"], head["with_modules"], head["run"]) == (1, 1, {"night": 3})
    options = json.loads((recording.directory / "options.json").read_text())
    assert options["asked"]["experimental_config"] == {"profiler_level": "Level2"}
    assert options["without_meaning"] == [
        "NPU in activities has no effect here: torch_npu finds no device.",
        "experimental_config has no effect without an Ascend device: profiler_level.",
        "analyse has no effect here: torch.profiler writes no raw data.",
    ]
    assert all(note in log() for note in options["without_meaning"])
    perfguard.check(recording.directory, expect="steps=1,shapes")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_output_goes_before_prof_dir_and_the_training_may_change_its_directory():
    def go() -> None:
        FILE.write_text(edited(active=2))
        os.chdir("/")

    here = Path.cwd()
    prof = trained({2: go}, prof=tools_profiler(config(), output="here", workload="demo"))
    assert prof.recordings[0].directory == here / "here" / "dp_rank_0_start_3_active_2"
    assert prof.recordings[0].fingerprint.workload == "demo"
    perfguard.check(prof.recordings[0].directory, expect="steps=2")


# -- what goes wrong: the training goes on -------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (
            '{"active": 3,\n "warm',
            "line 2, column 2: Unterminated string starting at. The training goes on, and the next edit",
        ),
        ("", "is empty: it is being written."),
        ("[]", '{} must be an object, {{"key": value, ...}}, got [].'),
        ('{"active": NaN}', "is not JSON: NaN is not a JSON number."),
        (
            json.dumps({"active": 0}),
            "{}: active must be an integer from 1 to 10000000, got 0 (torch_npu would take 1).",
        ),
        (json.dumps({"active": True}), "{}: active must be an integer from 1 to 10000000, got true."),
        (
            json.dumps({"warmup": -1}),
            "{}: warmup must be an integer from 0 to 10000000, got -1 (torch_npu would take 0).",
        ),
        (
            json.dumps({"start_step": -2}),
            "{}: start_step must be an integer from -1 to 10000000, got -2 (torch_npu would take 0).",
        ),
        (
            json.dumps({"start_step": 2}),
            "start_step = 2 of {} is in the past: step 5 is next. Write -1 for the next step.",
        ),
        (json.dumps({"start_step": 99}), "Step 99 was never reached: the training had 12 steps."),
        (
            json.dumps({"with_stack": "true"}),
            "{}: with_stack must be true or false, got 'true' (write it without quotes).",
        ),
        (
            json.dumps({"activities": ["GPU"]}),
            "{}: activities must be a list of CPU, NPU, got ['GPU'] ('GPU' is not one of CPU, NPU).",
        ),
        (json.dumps({"activities": []}), "{}: activities is empty, so nothing is recorded: name CPU, NPU or both."),
        (
            json.dumps({"is_rank": True}),
            "{}: is_rank is true and rank_list is empty, so no rank is profiled: name ranks, or write false.",
        ),
        (edited(is_rank=True, rank_list=[1]), "Rank 0 is not in rank_list [1]: nothing to do."),
        (
            json.dumps({"rank_list": [-1]}),
            "{}: rank_list must be a list of ranks (0 or more), got [-1] (-1 is not an integer of at least 0).",
        ),
        (json.dumps({"activ": 1}), "{}: activ is not a known key; did you mean 'active'?"),
        (
            json.dumps({"experimental_config": {"profiler_level": "level1"}}),
            "{}: experimental_config.profiler_level must be one of Level_none, Level0, Level1, Level2, got 'level1'",
        ),
        (
            json.dumps({"experimental_config": {"gc_detect_threshold": "1"}}),
            "{}: experimental_config.gc_detect_threshold must be a number of at least 0, got '1'.",
        ),
        (
            json.dumps({"experimental_config": {"export_type": ["csv"]}}),
            "{}: experimental_config.export_type must be a list of text, db, got ['csv'] ('csv' is not one of",
        ),
        (json.dumps({"stop_step": 3, "prof_path": "./"}), "{} is MindSpore's: it has stop_step, prof_path, where"),
        (
            edited(prof_dir="tools.json/below"),
            "prof_dir = '{base}/tools.json/below' cannot be created: Not a directory;",
        ),
        (lambda: FILE.unlink(), "Watching"),
        (lambda: (FILE.unlink(), FILE.mkdir()), "cannot be read: Is a directory. The training goes on."),
        (lambda: (FILE.unlink(), os.mkfifo(FILE)), "is empty: it is being written."),
    ],
)
def test_what_is_wrong_with_an_edit_is_logged_and_the_next_one_counts(edit, sentence):
    prof = trained({4: edit})
    assert prof.recordings == ()
    assert sentence.format(FILE.absolute(), base=Path.cwd()) in log()
    assert log().count(sentence[:40].format(FILE.absolute(), base=Path.cwd())) == 1

    if FILE.is_dir():
        FILE.rmdir()
    FILE.unlink(missing_ok=True)
    for path in Path("dynamic/log").iterdir():
        path.unlink()

    def mended() -> None:
        if FILE.is_dir():
            FILE.rmdir()
        elif FILE.exists() and not FILE.is_file():
            FILE.unlink()
        FILE.write_text(edited())

    again = trained({4: edit, 6: mended})
    assert windows(again) == [("dp_rank_0_start_7_active_1", Ending.COMPLETE)]


@pytest.mark.slow
def test_a_cpu_without_its_operators_has_nothing_to_record():
    if torch.cuda.is_available():
        pytest.skip("torch sees a device here")
    prof = trained({1: edited(activities=["NPU"]), 5: edited()})
    assert windows(prof) == [("dp_rank_0_start_6_active_1", Ending.COMPLETE)]
    assert (
        "activities = ['NPU'] records nothing here, because torch finds no device; add CPU. No window is profiled."
        in log()
    )


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_profiler_that_fails_ends_its_window_only():
    other = torch.profiler.profile()

    def first() -> None:
        other.start()
        FILE.write_text(edited())

    def second() -> None:
        other.stop()
        FILE.write_text(edited())

    prof = trained({1: first, 5: second})
    assert windows(prof) == [
        ("dp_rank_0_start_2_active_1", Ending.PROFILER_FAILED),
        ("dp_rank_0_start_6_active_1", Ending.COMPLETE),
    ]
    assert "another torch profiler is running in this process" in log()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_training_that_ends_in_a_window_leaves_a_recording_that_says_so():
    prof = trained({9: edited(active=5)})
    (recording,) = prof.recordings
    assert (recording.ending, recording.reason) == (
        Ending.LOADER_ENDED,
        "2 steps were run, the window needs 5 (0 settle + 5 profiled + 0 timed)",
    )
    with pytest.raises(AssertionError, match="C106 the loader ended before the window did"):
        perfguard.check(recording.directory)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_loop_that_raises_in_a_window_keeps_it():
    def fail() -> None:
        raise ZeroDivisionError("loss is gone")

    prof = tools_profiler(config())

    def train() -> None:
        with prof:
            for step in range(8):
                torch.ones(3)
                if step == 2:
                    FILE.write_text(edited(active=4))
                if step == 4:
                    fail()
                prof.step()

    with pytest.raises(ZeroDivisionError):
        train()
    (recording,) = prof.recordings
    assert recording == read_recording(recording.directory)
    assert (recording.ending, recording.reason) == (Ending.STEP_RAISED, "step 2 of 4: ZeroDivisionError: loss is gone")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            json.dumps({"start_step": 1, "stop_step": 3, "prof_path": "./"}),
            "{} is MindSpore's: it has stop_step, prof_path, where torch_npu's file of the same name has active and prof_dir; "
            "give MindSpore's DynamicProfilerMonitor a directory of its own.",
        ),
        ('{"active": 3,\n "warm', "{} is not JSON: line 2, column 2: Unterminated string starting at."),
        ("", "{} is empty."),
        (
            json.dumps({"active": 0}),
            "{}: active must be an integer from 1 to 10000000, got 0 (torch_npu would take 1).",
        ),
    ],
)
def test_what_is_wrong_with_the_file_at_the_start_is_raised(text, sentence):
    FILE.parent.mkdir()
    FILE.write_text(text)
    prof = tools_profiler(config())
    with pytest.raises(UsageError) as caught:
        prof.start()
    assert str(caught.value) == sentence.format(FILE.absolute())
    assert FILE.read_text() == text
    with tools_profiler(config("elsewhere")):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config_path", "sentence"),
    [
        ("tools.json", "config_path = 'tools.json' is a file; name a directory, or the profiler_config.json in one."),
        ("x" * 300, "cannot be created: File name too long; name another directory."),
    ],
)
def test_a_place_that_cannot_be_made_is_refused(config_path, sentence):
    with pytest.raises(UsageError, match=re.escape(sentence)):
        tools_profiler(config(config_path)).start()


# -- the watch -----------------------------------------------------------------------------------------------------------


def test_a_watch_tells_every_save_once(tmp_path):
    path = tmp_path / "file"
    watch = WatchedFile(path)
    assert watch.changed() is None
    path.write_text("one")
    assert [watch.changed(), watch.changed()] == [b"one", None]
    path.write_text("two")
    assert [watch.changed(), watch.changed()] == [b"two", None]
    path.unlink()
    assert watch.changed() is None
    path.write_text("two")
    assert [watch.changed(), watch.changed()] == [b"two", None]


def test_an_edit_of_the_same_size_and_time_is_seen_while_it_is_fresh(tmp_path):
    path = tmp_path / "file"
    path.write_text("one")
    watch = WatchedFile(path)
    assert watch.changed() == b"one"
    stamp = path.stat()
    path.write_text("two")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert [watch.changed(), watch.changed()] == [b"two", None]


def test_a_file_that_was_not_edited_for_long_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("one")
    os.utime(path, (1, 1))
    watch = WatchedFile(path)
    assert watch.changed() == b"one"
    monkeypatch.setattr("perfguard.integrations.torch_dynamic._read_stamped", pytest.fail)
    assert watch.changed() is None


# -- the file ------------------------------------------------------------------------------------------------------------


def test_the_default_file_of_torch_npu_is_read():
    found = read_dynamic_config(json.dumps(DEFAULT).encode(), "file")
    assert {key: found[key] for key in DEFAULT} == DEFAULT | {"prof_dir": Path("./")}
    empty = read_dynamic_config(b"{}", "file")
    assert empty == found | {"start_step": None, "experimental_config": {}}


@given(
    st.dictionaries(st.sampled_from([*DEFAULT, "metadata", "is_valid"]) | st.text(max_size=5), anything, max_size=4)
    | anything
)
@pytest.mark.exhaustive
def test_any_json_is_read_or_refused_in_one_line(tree):
    told = ""
    try:
        assert read_dynamic_config(json.dumps(tree).encode(), "file")["activities"]
    except UsageError as error:
        told = str(error)
    assert not told or ("file" in told and len(told.splitlines()) == 1)


def test_on_an_ascend_device_torch_npu_itself_is_asked(tmp_path):
    """As far as the call: what torch_npu does with it was not run on a device."""
    calls = []
    module = SimpleNamespace(init=lambda path: calls.append(path), step=lambda: calls.append("step"))
    profile = NpuDynamicProfile(tmp_path, module)
    profile.start()
    profile.step()
    profile.stop()
    assert calls == [str(tmp_path), "step"]

    (tmp_path / CONFIG_FILE).write_text('{"stop_step": 3}')
    with pytest.raises(UsageError, match="is MindSpore's: it has stop_step"):
        NpuDynamicProfile(tmp_path, module)
