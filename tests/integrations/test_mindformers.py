"""MindFormers' YAML: what each version makes of it, what is refused, and its real callbacks on the CPU."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import perfguard
from perfguard.cli import cli
from perfguard.contract import expectation
from perfguard.errors import UsageError
from perfguard.window import StepWindow
from tests.programs import run_program

yaml = pytest.importorskip("yaml", reason="PyYAML is an extra: pip install -e '.[mindformers]'")

from perfguard.configuration import configuration_schema  # noqa: E402
from perfguard.integrations import mindformers  # noqa: E402
from perfguard.integrations.mindformers import read_mindformers  # noqa: E402
from perfguard.version import install_command  # noqa: E402

SCRIPTS = Path(__file__).parent / "scripts"
KEYS = [name for name, one in configuration_schema("mindformers")["properties"].items() if "x-since" in one]
MONITOR_KEYS = configuration_schema("summary_monitor")["properties"]

#: The YAML of MindFormers 1.0's documents.
DOCUMENTED = """
# profile
profile: False
profile_start_step: 1
profile_stop_step: 10
init_start_profile: True
profile_communication: True
profile_memory: True
"""
#: Its SummaryMonitor, as they write it but for the sign of the list.
DOCUMENTED_SUMMARY = """
callbacks:
  - type: SummaryMonitor
    summary_dir: None
    collect_freq: 10
    collect_specified_data: None
    keep_default_action: True
    custom_lineage_data: None
    collect_tensor_freq: None
    max_file_size: None
    export_options: None
"""


@pytest.fixture
def read(tmp_path):
    """Read a YAML text."""

    def reader(text: str, **more: Any):
        path = tmp_path / "task.yaml"
        path.write_text(text, encoding="utf-8")
        return read_mindformers(path, **more)

    return reader


def refused(read, text: str, **more: Any) -> str:
    with pytest.raises(UsageError) as caught:
        read(text, **more)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?", install_command("mindformers")))
    return message


# -- what it says ------------------------------------------------------------------------------------------------------


def test_the_documented_yaml_is_accepted_as_it_stands(read):
    profile = read(DOCUMENTED + DOCUMENTED_SUMMARY, version="1.0")
    assert not profile.is_on
    assert profile.window == StepWindow(skip_first=0, wait=0, warmup=0, active=10)
    assert profile.training_steps == (1, 10)
    assert profile.options == {"profile_memory": True, "profile_communication": True, "start_profile": True}
    assert profile.ranks is None
    assert profile.profile_directory(3) == Path("output/profile/rank_3")
    assert profile.summary.summary_directory(3) == Path("output/summary/rank_3")
    assert profile.notes == ()
    with pytest.raises(FrozenInstanceError):
        profile.is_on = True


def test_nothing_said_is_the_defaults_of_its_version(read):
    now, old = read("profile: True"), read("profile: True", version="1.0")
    assert now.window == old.window == StepWindow(skip_first=0, wait=0, warmup=0, active=10)
    assert now.is_on
    assert now.options == {
        "profile_memory": True,
        "profiler_level": "Level0",
        "with_stack": False,
        "data_simplification": True,
        "mstx": False,
    }
    assert old.options == {"profile_memory": True, "profile_communication": False, "start_profile": True}
    assert now.summary is None


@pytest.mark.parametrize("said", ["yes", "on", "True", "true", "TRUE"])
def test_a_boolean_is_what_yaml_1_1_takes_for_one(read, said):
    assert read(f"profile: {said}").is_on


@pytest.mark.parametrize(
    ("version", "start", "stop", "init_start", "window"),
    [
        ("1.0", 3, 5, False, (3, 5)),
        ("1.3.2", 3, 5, False, (3, 5)),
        ("1.3.2", 3, 5, True, (1, 5)),
        ("1.6.0", 3, 5, False, (4, 6)),
        ("1.7", 3, 5, True, (4, 6)),
        ("1.7", 1, 5, True, (2, 6)),
        ("1.8", 3, 5, False, (3, 5)),
        ("1.8", 1, 5, True, (1, 5)),
        ("2.1.0", 3, 5, True, (3, 5)),
        ("2.1", 1, 1, False, (1, 1)),
        ("2.2", 1, 1, False, (1, 1)),
    ],
)
def test_the_same_yaml_means_other_steps_in_another_version(read, version, start, stop, init_start, window):
    text = f"profile: True\nprofile_start_step: {start}\nprofile_stop_step: {stop}\ninit_start_profile: {init_start}"
    profile = read(text, version=version)
    assert profile.window == StepWindow.from_start_stop(*window)
    assert profile.training_steps == window
    changed = window != (start, stop) or (init_start and start != 1) or version == "2.2"
    assert bool(profile.notes) == changed


@pytest.mark.parametrize(
    ("version", "sink", "start", "stop", "window", "steps"),
    [
        ("1.1", 4, 3, 10, (3, 10), (3, 10)),  # turned off
        ("1.3", 1, 3, 10, (3, 10), (3, 10)),
        ("1.3", 4, 5, 10, (1, 12), (1, 12)),  # 4 to 12: the sink that ends at 4 begins at 1
        ("1.3", 2, 1, 10, (1, 10), (1, 10)),  # 2 to 10
        ("2.1", 1, 3, 10, (3, 10), (3, 10)),
        ("2.1", 4, 5, 10, (4, 12), (13, 48)),
        ("2.1", 3, 5, 10, (3, 11), (7, 33)),  # 10 + 10 % 3, which no 3 divides
        ("2.1", 50, 10, 20, (50, 100), (2451, 5000)),
        ("2.1", -1, 3, 10, (3, 10), None),
        ("1.7", 2, 2, 4, (3, 5), (5, 10)),
    ],
)
def test_a_sink_rounds_the_window_as_mindformers_does(read, version, sink, start, stop, window, steps):
    text = f"profile: True\nprofile_start_step: {start}\nprofile_stop_step: {stop}\ninit_start_profile: False\n"
    profile = read(text + f"runner_config: {{sink_mode: True, sink_size: {sink}}}", version=version)
    assert (profile.window, profile.training_steps) == (StepWindow.from_start_stop(*window), steps)
    without = read(text + f"runner_config: {{sink_mode: False, sink_size: {sink}}}", version=version)
    late = version == "1.7"
    assert without.window == StepWindow.from_start_stop(start + late, stop + late)


@settings(deadline=None)
@given(
    sink=st.integers(1, 60),
    start=st.integers(1, 200),
    more=st.integers(0, 200),
    release=st.sampled_from(["1.8", "2.1"]),
)
def test_rounding_is_that_of_the_trainer(tmp_path_factory, sink, start, more, release):
    stop = start + more
    path = tmp_path_factory.getbasetemp() / "rounding.yaml"
    path.write_text(
        f"profile: True\nprofile_start_step: {start}\nprofile_stop_step: {stop}\n"
        f"runner_config: {{sink_mode: True, sink_size: {sink}}}"
    )
    profile = read_mindformers(path, version=release)
    # mindformers 2.1.0, trainer.py, _build_profile_cb, line by line.
    if start % sink != 0:
        start -= start % sink
        start = max(start, sink)
    if stop % sink != 0:
        stop += stop % sink
        stop = max(stop, start + sink)
    assert profile.window == StepWindow.from_start_stop(start, stop)


@pytest.mark.parametrize(
    ("text", "world", "ranks"),
    [
        ("", None, None),
        ("profile_rank_ids: null", None, None),
        ("profile_rank_ids: [3, 0]", None, (0, 3)),
        ("profile_rank_ids: [3, 0]", 4, (0, 3)),
        ("profile_pipeline: True", 8, (0,)),
        ("profile_pipeline: True\nparallel_config: {pipeline_stage: 4}", 8, (0, 2, 4, 6)),
        ("profile_pipeline: True\nprofile_rank_ids: [1]\nparallel_config: {pipeline_stage: 2}", 8, (0, 1, 4)),
    ],
)
def test_ranks(read, text, world, ranks):
    assert read("profile: True\n" + text, world_size=world).ranks == ranks


def test_directories_follow_the_output(read):
    profile = read("output_dir: ./other")
    assert (profile.directory, profile.profile_directory()) == (Path("other/profile"), Path("other/profile/rank_0"))
    assert read("profile_output: /data").profile_directory(1) == Path("/data/profile/rank_1")


@pytest.mark.parametrize(
    ("text", "world", "words"),
    [
        ("", None, "steps=10,memory,level0"),
        ("profile_memory: False\nprofiler_level: 2", None, "steps=10,no-memory,level2"),
        ("profile_rank_ids: [1, 0]", None, "steps=10,memory,level0,ranks=2"),
        ("profile_rank_ids: [1]", None, "steps=10,memory,level0"),
        ("", 8, "steps=10,memory,level0,ranks=8"),
    ],
)
def test_what_is_expected_is_what_check_takes(read, text, world, words):
    profile = read("profile: True\n" + text, world_size=world)
    assert profile.expectation == words
    assert expectation([profile.expectation]).steps == 10


def test_the_nearer_file_goes_before_its_base(tmp_path):
    (tmp_path / "base.yaml").write_text(
        "profile: True\nprofile_stop_step: 4\nrunner_config: {sink_mode: True, sink_size: 2}\n"
    )
    task = tmp_path / "task.yaml"
    task.write_text("base_config: base.yaml\nprofile_start_step: 2\nrunner_config: {sink_size: 4}\n")
    profile = read_mindformers(task)
    assert (profile.is_on, profile.sink_size, profile.window) == (True, 4, StepWindow.from_start_stop(4, 4))
    task.write_text("base_config: task.yaml")
    with pytest.raises(UsageError, match="base_config leads back to this file"):
        read_mindformers(task)
    (tmp_path / "secret").write_text("root:x:0:0")
    task.write_text("base_config: secret")
    with pytest.raises(
        UsageError, match=r"secret is not a MindFormers configuration: it must have keys with values\.$"
    ):
        read_mindformers(task)
    task.write_text("base_config: [gone.yaml]")
    with pytest.raises(UsageError, match=r"gone\.yaml is missing; name the YAML"):
        read_mindformers(task)


# -- sections --------------------------------------------------------------------------------------------------------------

#: Every key of ProfilerConfig, mindformers 2.1.0, pynative/config/config.py.
PYNATIVE = """
trainer: {type: llm}
profiler:
  enable_profiling: True
  start_step: 5
  end_step: 7
  output_path: ./out/profile
  profiler_rank: [1, 0]
  profiler_level: 2
  mstx: True
  profile_memory: True
  profile_cpu: False
  with_stack: False
"""
#: Keys of ProfileConfig, tools/register/llm_template_v2.py.
NESTED = """
output_dir: ./out
training_args: {sink_mode: True, sink_size: 1}
distribute_parallel_config: {pipeline_model_parallel_size: 2}
profile:
  profile_on: True
  profile_output: null
  profiler_level: 1
  profile_start_step: 4
  profile_stop_step: 6
  init_start_profile: False
  profile_rank_ids: [1]
  profile_pipeline: True
  profile_communication: True
  profile_memory: False
  use_llm_token_profile: False
  llm_token_profile_config: null
"""


def test_the_profiler_of_the_pynative_trainer(read):
    profile = read(PYNATIVE)
    assert profile.is_on
    # skip_first = 5 of the schedule, and one step() more before the first step.
    assert profile.window == StepWindow(skip_first=4, wait=0, warmup=0, active=3)
    assert profile.training_steps == (5, 7)
    assert profile.options == {
        "profile_memory": True,
        "profiler_level": "Level2",
        "with_stack": False,
        "mstx": True,
        "profile_cpu": False,
    }
    assert (profile.ranks, profile.notes) == ((0, 1), ())
    assert profile.profile_directory(1) == Path("out/profile/rank_1")
    assert profile.expectation == "steps=3,memory,level2,ranks=2"


@pytest.mark.parametrize(
    ("text", "is_on", "window", "directory"),
    [
        ("profiler: {enable_profiling: True}", True, (1, 1), "profile"),
        ("profiler: {}", False, (1, 1), "profile"),
        ("profiler: {enable_profiling: True}\nprofile: False", True, (1, 1), "profile"),
        # The other trainer profiles, and this section is off.
        ("profiler: {start_step: 3, end_step: 4}\nprofile: True", True, (1, 10), "output/profile"),
        ("profiler: null\nprofile: True", True, (1, 10), "output/profile"),
        ("profile: {profile_on: True, profile_stop_step: 3}", True, (1, 3), "output/profile"),
        ("profile: {}", False, (1, 10), "output/profile"),
    ],
)
def test_defaults_of_the_sections(read, text, is_on, window, directory):
    profile = read(text)
    assert (profile.is_on, profile.training_steps, profile.directory) == (is_on, window, Path(directory))


def test_a_section_profile_is_read_as_the_flat_keys(read):
    profile = read(NESTED, world_size=4)
    assert (profile.is_on, profile.window) == (True, StepWindow(skip_first=3, wait=0, warmup=0, active=3))
    assert profile.options == {
        "profile_memory": False,
        "profiler_level": "Level1",
        "with_stack": False,
        "data_simplification": False,
        "mstx": False,
    }
    # Rank 1 by name, and the first rank of each of two stages.
    assert profile.ranks == (0, 1, 2)
    assert profile.directory == Path("out/profile")
    assert profile.notes == ()


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("profile_everything: True", "profile_everything is not a key that perfguard knows, so it has no part in"),
        ("profiler: {colour: red}", "profiler.colour is not a key that perfguard knows, so it has no part in"),
        ("profile: {colour: red}", "profile.colour is not a key that perfguard knows, so it has no part in"),
    ],
)
def test_an_unknown_key_is_a_note(read, text, note):
    assert [one[: len(note)] for one in read(text).notes] == [note]


def test_a_later_version_is_read_as_the_latest_known_one(read):
    profile = read("profile: True\nprofile_stop_step: 3", version="3.0")
    assert profile.version == "3.0"
    assert profile.notes == ("MindFormers 3.0 is read as 2.1, the latest known version.",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profiler: True", "profiler must be an object"),
        ("profiler: [start_step]", "profiler must be an object"),
        ("profiler: {enable_profiling: 1}", "profiler.enable_profiling must be true or false, got 1."),
        ("profiler: {enable_profiling: null}", "profiler.enable_profiling must be true or false, got null."),
        ("profiler: {start_step: '5'}", "profiler.start_step must be an integer from 1 to 999999999, got '5'."),
        ("profiler: {start_step: 0}", "profiler.start_step must be an integer from 1 to 999999999, got 0."),
        ("profiler: {start_step: 2.0}", "profiler.start_step must be an integer from 1 to 999999999, got 2.0."),
        ("profiler: {start_step: 3}", "profiler.start_step must not be after end_step, got 3 and 1."),
        ("profiler: {end_step: [7]}", "profiler.end_step must be an integer from 1 to 999999999, got [7]."),
        ("profiler: {profiler_level: Level1}", "profiler.profiler_level must be 0, 1 or 2, got 'Level1'."),
        ("profiler: {profiler_level: True}", "profiler.profiler_level must be 0, 1 or 2, got true."),
        ("profiler: {profiler_rank: 0}", "profiler.profiler_rank must be a list of ranks, such as [0, 1], got 0."),
        ("profiler: {profiler_rank: []}", "profiler.profiler_rank is empty; write null"),
        ("profiler: {profiler_rank: [0, 0]}", "profiler.profiler_rank must name every rank once, got [0, 0]."),
        ("profiler: {output_path: 7}", "profiler.output_path must be a directory, got 7."),
        (
            "profiler: {strat_step: 7}",
            "profiler.strat_step is not a key that perfguard knows; did you mean 'start_step'?",
        ),
        (
            "profile: True\nprofiler: {enable_profiling: True}",
            "profiler and profile both switch profiling on, and which trainer runs is not known; leave one of them out.",
        ),
        ("profile: [True]", "profile must be true or false, or a section with profile_on, got [true]."),
        ("profile: {profile_on: 'yes'}", "profile.profile_on must be true or false, got 'yes'."),
        ("profile: {profile_on: True, profiler_level: 5}", "profile.profiler_level must be 0, 1 or 2, got 5."),
        (
            "profile: {profile_on: True, profiler_level: 0, profile_communication: True}",
            "profile.profiler_level must be 1 or 2 with profile_communication: True, got 0; write 1.",
        ),
        ("profile: {profile_on: True}\nmstx: True", "mstx is beside the section profile; write it inside"),
    ],
)
def test_a_bad_section_is_refused_by_name(read, text, words):
    assert words in refused(read, text)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profile: 1", "profile must be true or false, or a section with profile_on, got 1."),
        (
            "profile: 'True'",
            "profile must be true or false, or a section with profile_on, got 'True' (write it without quotes).",
        ),
        ("profile_memory: 0", "profile_memory must be true or false, got 0."),
        ("with_stack: none", "with_stack must be true or false, got 'none'."),
        ("mstx: []", "mstx must be true or false, got []."),
        ("profile_start_step: True", "profile_start_step must be an integer of at most 9 digits, got true."),
        ("profile_start_step: 1.0", "profile_start_step must be an integer of at most 9 digits, got 1.0."),
        ("profile_stop_step: ten", "profile_stop_step must be an integer of at most 9 digits, got 'ten'."),
        ("profile_stop_step: .inf", "profile_stop_step must be an integer of at most 9 digits, got inf."),
        (
            f"profile_stop_step: {10**12}",
            "profile_stop_step must be an integer of at most 9 digits, got 1000000000000.",
        ),
        ("profiler_level: 3", "profiler_level must be 0, 1 or 2, got 3."),
        ("profiler_level: -1", "profiler_level must be 0, 1 or 2, got -1."),
        ("profiler_level: Level1", "profiler_level must be 0, 1 or 2, got 'Level1'."),
        (
            "profile_start_stpe: 3",
            "profile_start_stpe is not a key that perfguard knows; did you mean 'profile_start_step'?",
        ),
        ("Profile: True", "Profile is not a key that perfguard knows; did you mean 'profile'?"),
        ("profiler_levle: 1", "did you mean 'profiler_level'?"),
        ("init_start_profle: True", "did you mean 'init_start_profile'?"),
        ("runer_config: {}", "did you mean 'runner_config'?"),
        (
            "profile_end_step: 4",
            "profile_end_step is TrainingArguments' name for profile_stop_step; write profile_stop_step.",
        ),
        (
            "profile_level: 1",
            "profile_level is 1, and it is profiler_level that counts, which is 0; write profiler_level: 1.",
        ),
        (
            "profile_level: 2\nprofiler_level: 1",
            "profile_level is 2, and it is profiler_level that counts, which is 1; write profiler_level: 2.",
        ),
        (
            "profile_communication: True",
            "profile_communication needs a profiler_level; write profiler_level: 1.",
        ),
        (
            "profile_communication: True\nprofiler_level: 0",
            "profiler_level must be 1 or 2 with profile_communication: True, got 0; write 1.",
        ),
        ("profile_rank_ids: 0", "profile_rank_ids must be a list of ranks, such as [0, 1], got 0."),
        (
            "profile_rank_ids: [0, -1]",
            "must be a list of ranks, such as [0, 1], got [0, -1] (-1 is not an integer from 0 to 999999999).",
        ),
        (
            "profile_rank_ids: [0, True]",
            "must be a list of ranks, such as [0, 1], got [0, true] (true is not an integer from 0 to 999999999).",
        ),
        ("profile_rank_ids: [0, 0]", "profile_rank_ids must name every rank once, got [0, 0]."),
        (
            "profile_rank_ids: []",
            "profile_rank_ids is empty; write null for all ranks, or name some ranks.",
        ),
        (
            "profile_rank_ids: None",
            "profile_rank_ids is the text 'None'; write null for all ranks.",
        ),
        (
            "profile_output: None",
            "profile_output is the text 'None', which names a directory None; write null.",
        ),
        ("profile_output: 3", "profile_output must be a directory, got 3."),
        (
            "profile_pipeline: True",
            "profile_pipeline needs the number of ranks; write read_mindformers(path, world_size=N).",
        ),
        ("runner_config: []", 'runner_config must be an object, {"key": value, ...}, got [].'),
        (
            "runner_config: {sink_size: 0}",
            "runner_config.sink_size must be an integer from 1 to 999999999, or -1 for a whole epoch, got 0.",
        ),
        ("runner_config: {sink_mode: 1}", "runner_config.sink_mode must be true or false, got 1."),
        (
            "runner_config: {sink_mode: True, sink_size: -1, epochs: 2}",
            "profile_stop_step is 10 and is never reached: with sink_size -1 a step is one of 2 epochs.",
        ),
    ],
)
def test_a_bad_value_is_refused_by_name(read, text, words):
    profile = "" if "rofile:" in text.splitlines()[0].partition(" ")[0] else "profile: True\n"
    assert words in refused(read, profile + text)


@pytest.mark.parametrize("version", ["1.0", "1.7", "2.1"])
@pytest.mark.parametrize("init_start", [True, False])
@pytest.mark.parametrize(
    ("start", "stop", "words"),
    [
        (6, 5, "profile_start_step must not be after profile_stop_step, got 6 and 5."),
        (-5, 4, "profile_start_step must be at least 1, got -5."),
        (0, 3, "profile_start_step must be at least 1, got 0."),
        (1, -3, "profile_stop_step must be at least 1, got -3."),
        (1, 0, "profile_stop_step must be at least 1, got 0."),
    ],
)
def test_a_window_that_is_none_is_refused(read, version, start, stop, init_start, words):
    text = f"profile_start_step: {start}\nprofile_stop_step: {stop}\ninit_start_profile: {init_start}"
    assert words in refused(read, text, version=version)


@pytest.mark.parametrize(
    ("version", "text", "words"),
    [
        (
            "1.0",
            "profile_communication: True\ninit_start_profile: False",
            "profile_communication is True and needs init_start_profile: True.",
        ),
        (
            "1.0",
            "use_parallel: True",
            "profile_communication must be True on several devices for MindFormers 1.0; write True.",
        ),
        (
            "1.0",
            "use_parallel: True\ninit_start_profile: False",
            "init_start_profile must be True on several devices for MindFormers 1.0; write True.",
        ),
        (
            "1.0",
            "profile_output: x",
            "profile_output was added in MindFormers 1.2, and this file is read as one of 1.0; leave it out.",
        ),
        (
            "1.2",
            "profiler_level: 1",
            "profiler_level was added in MindFormers 1.3, and this file is read as one of 1.2; leave it out.",
        ),
        (
            "1.3",
            "mstx: True",
            "mstx was added in MindFormers 1.6, and this file is read as one of 1.3; leave it out.",
        ),
        (
            "2.0",
            "profiler: {enable_profiling: True}",
            "profiler was added in MindFormers 2.1, and this file is read as one of 2.0; leave it out.",
        ),
        (
            "1.3",
            "profile_stop_step: 7\nrunner_config: {sink_mode: True, sink_size: 4}",
            "profile_stop_step 7 is read as 10 with sink_size=4, and no sink ends there; write 12.",
        ),
        (
            "1.3",
            "runner_config: {sink_mode: True, sink_size: -1}",
            (
                "runner_config.sink_size is -1, and start and stop are counted in training steps (MindFormers 1.3), so "
                "that they are unknown; write the number of steps of a sink."
            ),
        ),
    ],
)
def test_what_a_version_ignores_or_resets_is_refused(read, version, text, words):
    assert words in refused(read, "profile: True\n" + text, version=version)


def test_what_would_be_reset_is_a_note_where_nothing_is_profiled(read):
    (note,) = read("profile: False\nprofile_communication: True").notes
    assert note.startswith("profile_communication needs a profiler_level")


@pytest.mark.parametrize("version", ["0.8", "1.4", "1.5.0"])
def test_a_version_nobody_read_is_refused(read, version):
    assert f"version {version} of MindFormers is unknown; known are 1.0, 1.1" in refused(read, "", version=version)


@pytest.mark.parametrize("version", ["latest", "", "2", 2.1, None, "2.1.0.", "-1.0"])
def test_a_version_that_is_none_is_refused(read, version):
    assert ('must be a version of MindFormers, such as "1.0" or "2.1", got ') in refused(
        read, "profile: True", version=version
    )


@pytest.mark.parametrize(("world", "written"), [(0, "0"), (-1, "-1"), (True, "true"), ("8", "'8'"), (2.0, "2.0")])
def test_a_world_that_is_none_is_refused(read, world, written):
    assert f"world_size must be an integer from 1 to 999999999, got {written}." in refused(
        read, "profile: True", world_size=world
    )


@pytest.mark.parametrize(
    ("text", "world", "words"),
    [
        ("profile_rank_ids: [0, 8]", 8, "profile_rank_ids must be less than the number of ranks, 8, got [0, 8]."),
        (
            "profile_pipeline: True\nparallel_config: {pipeline_stage: 3}",
            8,
            "profile_pipeline needs a number of ranks that 3 stages divide, got 8.",
        ),
        (
            "profile_pipeline: True\nparallel_config: {pipeline_stage: x}",
            8,
            "parallel_config.pipeline_stage must be an integer from 1 to 999999999, got 'x'.",
        ),
    ],
)
def test_ranks_that_are_not_there_are_refused(read, text, world, words):
    assert words in refused(read, "profile: True\n" + text, world_size=world)


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profile: True\nprofile: False", "is not YAML: line 2, column 1: the key 'profile' is there twice."),
        ("runner_config:\n  a: 1\n  a: 2", "is not YAML: line 3, column 3: the key 'a' is there twice."),
        ("profile: [1", "is not YAML: line 1, column 12: expected ',' or ']', but got '<stream end>'."),
        ("profile: True\n  x: 1", "is not YAML: line 2, column 4: mapping values are not allowed here."),
        ("\tprofile: True", "is not YAML: line 1, column 1: found character '\\t' that cannot start any token."),
        ("callbacks:\n  * type: SummaryMonitor\n", "is not YAML: line 2: a list item begins with '- ', not with '* '."),
        (
            "callbacks:\n  * type: SummaryMonitor\n    collect_freq: 10\n",
            "is not YAML: line 2: a list item begins with '- ', not with '* '.",
        ),
        ("", "is empty."),
        ("# only words\n", "is not a MindFormers configuration: it must have keys with values, got null."),
        ("- 1", "is not a MindFormers configuration: it must have keys with values, got [1]."),
        ("profile", "is not a MindFormers configuration: it must have keys with values, got 'profile'."),
        ("7", "is not a MindFormers configuration: it must have keys with values, got 7."),
        ("a: 1\n---\nb: 2", "is not YAML: line 2, column 1: but found another document."),
        ("d: 2024-13-45", "is not YAML: month must be in 1..12."),
        (
            "profile: \x00",
            (
                'is not YAML: unacceptable character #x0000: special characters are not allowed in "<unicode '
                'string>", position 9.'
            ),
        ),
        (
            "a: " + "9" * 5000,
            ("is not YAML: Exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits."),
        ),
    ],
)
def test_a_file_that_is_no_yaml_is_refused_with_its_line(read, text, words):
    assert words in refused(read, text)


def test_merge_keys_are_bounded(read):
    """Before PyYAML 6.0.4 each line doubles what is in memory; here the entries are different ones."""
    doubling = "m0: &m0 {a: 1}\n" + "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 25))
    wide = "m: &m {" + ", ".join(f"k{n}: 1" for n in range(600)) + "}\n"
    wide += "".join(f"n{n}: {{<<: *m}}\n" for n in range(20))
    assert "merge keys (<<) give more than 10000 entries" in refused(read, wide)
    with suppress(UsageError):
        read(doubling)


def test_a_file_that_is_nested_too_deeply_is_refused(read):
    """At the limit Python begins with: what was imported before may have raised it, and deeper takes long to read."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        assert "is nested too deeply" in refused(read, "a: " + "[" * 1000)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system ['touch {}']",
        "a: !!python/object/new:os.system ['touch {}']",
        "a: !!python/name:os.system ''",
        "a: !!python/module:os ''",
        "!!python/object/apply:os.system ['touch {}']: 1",
        "a: !x {}",
    ],
)
def test_nothing_is_ever_executed(read, tmp_path, text):
    there = tmp_path / "executed"
    assert "could not determine a constructor for the tag" in refused(read, text.replace("{}", str(there)))
    assert not there.exists()


def test_a_place_that_is_no_file_is_refused(tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9")
    (tmp_path / "large.yaml").write_bytes(b"#" * (mindformers.LARGEST_BYTES + 1))
    for name, words in (
        ("gone.yaml", "is missing; name the YAML of your MindFormers task."),
        (".", "is a directory; name the file in it."),
        ("latin.yaml", "is no configuration file: it is not UTF-8: byte 3 is 0xe9."),
        ("large.yaml", "is no configuration file: it is larger than 4 MiB."),
        ("a\0b", "cannot be read: embedded null byte."),
    ):
        with pytest.raises(UsageError) as caught:
            read_mindformers(tmp_path / name)
        assert words in str(caught.value)


def test_merge_keys_may_be_repeated_and_a_number_is_not_the_string_of_its_digits(read):
    """As PyYAML reads them; only a key of the same type and text is there twice."""
    bases = "one: &one {profile_memory: False}\ntwo: &two {profile: True}\n"
    profile = read(bases + "<<: *one\n<<: *two\n1: a\n'1': b")
    assert profile.is_on
    assert not profile.options["profile_memory"]


def test_a_billion_laughs_are_a_few_names(read):
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)), "profile: True"]
    assert read("\n".join(lines)).is_on
    bomb = "\n".join([*lines, "profile_rank_ids: *a59"])
    assert "profile_rank_ids must be a list of ranks" in refused(read, bomb)


def test_pyyaml_is_asked_for_by_its_extra(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError, match=re.escape(f"Run: {install_command('mindformers')}")):
        read("profile: True")


def test_a_merge_key_is_no_key_twice(read):
    profile = read("base: &base {sink_mode: True, sink_size: 4}\nrunner_config:\n  <<: *base\n  sink_size: 2\n")
    assert profile.sink_size == 2


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(), st.text(max_size=8), st.just("None")
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)
LANDSCAPE = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("landscape_size", "unit", "create_landscape", "num_samples", "intervals"), VALUES)
)
SPECIFIED = st.fixed_dictionaries(
    {}, optional={"collect_metric": VALUES, "histogram_regular": VALUES, "collect_landscape": LANDSCAPE | VALUES}
)
MONITOR = st.fixed_dictionaries(
    {"type": st.just("SummaryMonitor") | VALUES},
    optional={
        **{name: VALUES for name in MONITOR_KEYS if name not in ("type", "collect_specified_data")},
        "collect_specified_data": SPECIFIED | VALUES,
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(KEYS, VALUES),
        "profile_start_step": st.integers(-3, 30) | VALUES,
        "profile_stop_step": st.integers(-3, 30) | VALUES,
        "profile_rank_ids": st.lists(st.integers(-1, 9), max_size=3) | VALUES,
        "runner_config": st.fixed_dictionaries({}, optional={"sink_mode": VALUES, "sink_size": st.integers(-2, 9)}),
        "callbacks": st.lists(MONITOR | VALUES, max_size=2) | VALUES,
        "output_dir": VALUES,
    },
)


def read_or_refused(path: Path, **more: Any):
    """Return what was read, or the sentence with which it was refused."""
    try:
        return read_mindformers(path, **more), ""
    except UsageError as error:
        message = str(error)
    assert "\n" not in message
    return None, message


@settings(deadline=None)
@given(document=DOCUMENTS, version=st.sampled_from(mindformers._READ), world=st.none() | st.integers(1, 16))
def test_any_document_is_read_or_refused_in_one_sentence(tmp_path_factory, document, version, world):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    profile, message = read_or_refused(path, version=version, world_size=world)
    if profile is None:
        assert str(path) in message
        return
    assert profile.window.active >= 1
    assert expectation([profile.expectation]).steps == profile.window.active
    if profile.summary is not None:
        json.dumps(collector_arguments(profile.summary))
        assert expectation([profile.summary.expectation(7)]).numbers.get("collect_freq") in (
            None,
            profile.summary.arguments["collect_freq"],
        )


@settings(deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_is_read_or_refused_in_one_sentence(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "text.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    read_or_refused(path)


# -- SummaryMonitor ----------------------------------------------------------------------------------------------------


def monitor(text: str) -> str:
    return "callbacks:\n  - type: MFLossMonitor\n  - type: SummaryMonitor\n" + "".join(
        f"    {line}\n" for line in text.splitlines()
    )


def collector_arguments(summary, rank=0):
    """Return the arguments of `mindspore.SummaryCollector`, as MindFormers gives them."""
    return {"summary_dir": str(summary.summary_directory(rank)), **summary.arguments}


def test_the_documented_monitor_is_the_defaults(read):
    said, unsaid = read(DOCUMENTED_SUMMARY).summary, read(monitor("")).summary
    assert said == unsaid
    assert collector_arguments(said, rank=2) == {
        "summary_dir": "output/summary/rank_2",
        "collect_freq": 10,
        "collect_specified_data": None,
        "keep_default_action": True,
        "custom_lineage_data": None,
        "collect_tensor_freq": None,
        "max_file_size": None,
        "export_options": None,
    }
    assert said.collects == set(MONITOR_KEYS["collect_specified_data"]["properties"])
    assert said.expectation(600) == "collect_freq=10,summary_steps=600,lineage,landscape"


FULL = """summary_dir: ./here
collect_freq: 2
collect_tensor_freq: 3
max_file_size: 4294967296
keep_default_action: False
custom_lineage_data: {author: me, size: 3, rate: 0.5}
export_options: {tensor_format: npy}
collect_specified_data:
  collect_metric: True
  collect_graph: False
  collect_train_lineage: True
  collect_eval_lineage: False
  collect_input_data: False
  collect_dataset_graph: False
  histogram_regular: '^fc.*'
  collect_landscape:
    landscape_size: 256
    unit: epoch
    create_landscape: {train: True, result: False}
    num_samples: 128
    intervals: [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
"""


def test_every_parameter_of_the_monitor_is_read(read):
    summary = read(monitor(FULL)).summary
    arguments = collector_arguments(summary)
    assert arguments["collect_specified_data"]["collect_landscape"]["intervals"] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert arguments["custom_lineage_data"] == {"author": "me", "size": 3, "rate": 0.5}
    assert arguments["export_options"] == {"tensor_format": "npy"}
    assert summary.summary_directory(5) == Path("here")
    assert summary.collects == {"collect_metric", "collect_train_lineage", "histogram_regular", "collect_landscape"}
    words = "collect_freq=2,collect_tensor_freq=3,max_file_size=4294967296,lineage,landscape"
    assert summary.expectation() == words
    assert expectation([words]).numbers["max_file_size"] == 4 * 1024**3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("collect_freq: 0", "callbacks[1].collect_freq must be an integer from 1 to 999999999, got 0."),
        ("collect_freq: True", "callbacks[1].collect_freq must be an integer from 1 to 999999999, got true."),
        ("collect_freq: 2.5", "callbacks[1].collect_freq must be an integer from 1 to 999999999, got 2.5."),
        ("collect_frequency: 2", "callbacks[1].collect_frequency is not a known key; did you mean 'collect_freq'?"),
        (
            "num_process: 2",
            (
                "callbacks[1].num_process is not a known key; known are type, summary_dir, collect_freq, "
                "collect_specified_data, keep_default_action, custom_lineage_data, collect_tensor_freq, "
                "max_file_size, export_options."
            ),
        ),
        ("collect_tensor_freq: -1", "callbacks[1].collect_tensor_freq must be an integer from 1 to 999999999, got -1."),
        (
            "max_file_size: 0",
            (
                "callbacks[1].max_file_size must be an integer of at least 44, the bytes of a file's first record, "
                "got 0."
            ),
        ),
        (
            "max_file_size: 4 GB",
            (
                "callbacks[1].max_file_size must be an integer of at least 44, the bytes of a file's first record, "
                "got '4 GB'."
            ),
        ),
        ("summary_dir: 3", "callbacks[1].summary_dir must be a directory, got 3."),
        ("keep_default_action: 1", "callbacks[1].keep_default_action must be true or false, got 1."),
        ("export_options: npy", "callbacks[1].export_options must be an object, {\"key\": value, ...}, got 'npy'."),
        (
            "export_options: {tensor_format: npz}",
            "callbacks[1].export_options.tensor_format must be one of npy, got 'npz' (did you mean 'npy'?).",
        ),
        (
            "export_options: {format: npy}",
            "callbacks[1].export_options.format is not a known key; did you mean 'tensor_format'?",
        ),
        (
            "custom_lineage_data: [1]",
            'callbacks[1].custom_lineage_data must be an object, {"key": value, ...}, got [1].',
        ),
        (
            "custom_lineage_data: {a: [1]}",
            "callbacks[1].custom_lineage_data.a must be a string, a number or an integer of 32 bits, got [1].",
        ),
        (
            "custom_lineage_data: {a: True}",
            "callbacks[1].custom_lineage_data.a must be a string, a number or an integer of 32 bits, got true.",
        ),
        (
            "custom_lineage_data: {a: 2147483648}",
            "callbacks[1].custom_lineage_data.a must be a string, a number or an integer of 32 bits, got 2147483648.",
        ),
        ("custom_lineage_data: {1: a}", "callbacks[1].custom_lineage_data must have strings as keys, got 1."),
        (
            "collect_specified_data: True",
            'callbacks[1].collect_specified_data must be an object, {"key": value, ...}, got true.',
        ),
        ("collect_specified_data: {collect_metrics: True}", "did you mean 'collect_metric'?"),
        (
            "collect_specified_data: {collect_metric: 1}",
            "callbacks[1].collect_specified_data.collect_metric must be true or false, got 1.",
        ),
        (
            "collect_specified_data: {collect_graph: null}",
            "callbacks[1].collect_specified_data.collect_graph must be true or false, got null.",
        ),
        (
            "collect_specified_data: {histogram_regular: '['}",
            (
                "callbacks[1].collect_specified_data.histogram_regular must be a regular expression, got '[': "
                "unterminated character set at position 0."
            ),
        ),
        (
            "collect_specified_data: {histogram_regular: 3}",
            "callbacks[1].collect_specified_data.histogram_regular must be a string, got 3.",
        ),
        (
            "collect_specified_data: {collect_landscape: True}",
            'callbacks[1].collect_specified_data.collect_landscape must be an object, {"key": value, ...}, got true.',
        ),
        (
            "collect_specified_data: {collect_landscape: {}}",
            "callbacks[1].collect_specified_data.collect_landscape.intervals is missing; write intervals: [[1, 2, 3]].",
        ),
    ],
)
def test_a_bad_value_of_the_monitor_is_refused_by_name(read, text, words):
    assert words in refused(read, monitor(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "landscape_size: 2",
            (
                "callbacks[1].collect_specified_data.collect_landscape.landscape_size must be an integer from 3 to "
                "256, got 2."
            ),
        ),
        (
            "landscape_size: 257",
            (
                "callbacks[1].collect_specified_data.collect_landscape.landscape_size must be an integer from 3 to "
                "256, got 257."
            ),
        ),
        (
            "unit: batch",
            "callbacks[1].collect_specified_data.collect_landscape.unit must be one of step, epoch, got 'batch'.",
        ),
        (
            "num_samples: 0",
            (
                "callbacks[1].collect_specified_data.collect_landscape.num_samples must be an integer from 1 to 999999999, "
                "got 0."
            ),
        ),
        (
            "create_landscape: {train: 1}",
            (
                "callbacks[1].collect_specified_data.collect_landscape.create_landscape.train must be true or false, "
                "got 1."
            ),
        ),
        (
            "create_landscape: {both: True}",
            (
                "callbacks[1].collect_specified_data.collect_landscape.create_landscape.both is not a known key; "
                "known are train, result."
            ),
        ),
        (
            "size: 40",
            (
                "callbacks[1].collect_specified_data.collect_landscape.size is not a known key; known are "
                "landscape_size, unit, create_landscape, num_samples, intervals."
            ),
        ),
        (
            "intervals: [[1, 2]]",
            (
                "callbacks[1].collect_specified_data.collect_landscape.intervals must be a list of lists of at least "
                "three integers, as [[1, 2, 3]], got [[1, 2]] ([1, 2] is not a list of at least three integers)."
            ),
        ),
        (
            "intervals: [1, 2, 3]",
            (
                "callbacks[1].collect_specified_data.collect_landscape.intervals must be a list of lists of at least "
                "three integers, as [[1, 2, 3]], got [1, 2, 3] (1 is not a list of at least three integers)."
            ),
        ),
        (
            "intervals: [[1, 2, x]]",
            (
                "callbacks[1].collect_specified_data.collect_landscape.intervals must be a list of lists of at least "
                "three integers, as [[1, 2, 3]], got [[1, 2, 'x']] ([1, 2, 'x'] is not a list of at least three "
                "integers)."
            ),
        ),
    ],
)
def test_the_bounds_of_a_landscape_hold(read, text, words):
    intervals = "" if "intervals" in text else ", intervals: [[1, 2, 3]]"
    found = refused(read, monitor(f"collect_specified_data: {{collect_landscape: {{{text}{intervals}}}}}"))
    assert words in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "callbacks: SummaryMonitor",
            "callbacks must be a list, in which each callback begins with '- type: ', got 'SummaryMonitor'.",
        ),
        ("callbacks: [SummaryMonitor]", "callbacks[0] has no type; write a callback as '- type: SummaryMonitor'."),
        (
            "callbacks: [{type: SumaryMonitor}]",
            "callbacks[0].type 'SumaryMonitor' is not a callback; did you mean 'SummaryMonitor'?",
        ),
        (
            "callbacks: [{type: SummaryMonitor}, {type: SummaryMonitor}]",
            "callbacks[1] is a second SummaryMonitor, and MindSpore allows one.",
        ),
    ],
)
def test_callbacks_that_are_none_are_refused(read, text, words):
    assert words in refused(read, text)


# -- the real thing ----------------------------------------------------------------------------------------------------


def child(script: str, *arguments: object, cwd: Path, **environment: str) -> None:
    done = run_program(sys.executable, SCRIPTS / script, *arguments, cwd=cwd, **environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Install the real mindformers of a version beside MindSpore: the wheel and what its callback module imports."""
    pytest.importorskip("mindspore", reason="mindspore is not installed")
    needs = ("pyyaml", "deprecated", "wrapt", "regex", "requests", "urllib3", "idna", "certifi", "tensorboardX")
    places: dict[str, Path] = {}

    def install(version: str) -> Path:
        if version not in places:
            place = tmp_path_factory.mktemp("mindformers")
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--no-compile",
                "--target",
                str(place),
            ]
            command = [*pip, f"mindformers=={version}", *needs]
            done = run_program(*command, timeout=600)
            if done.returncode:
                pytest.skip(f"mindformers {version} cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")
            places[version] = place
        return places[version]

    return install


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "start", "stop", "init_start"),
    [
        ("2.1.0", 3, 5, False),
        pytest.param("1.7.0", 3, 5, False, marks=pytest.mark.exhaustive),
        pytest.param("2.1.0", 1, 2, True, marks=pytest.mark.exhaustive),
    ],
    ids=["window", "window-1.7.0", "from-the-start"],
)
@pytest.mark.exhaustive
def test_the_real_callback_profiles_the_steps_perfguard_reads(tmp_path, wheels, version, start, stop, init_start):
    """mindformers wants MindSpore 2.11, which no index has; its ProfileMonitor and MindFormerConfig run with 2.10."""
    from perfguard.contract import inspect
    from perfguard.recording import read_recording

    task = tmp_path / "task.yaml"
    task.write_text(
        f"run_mode: train\nprofile: True\nprofile_start_step: {start}\nprofile_stop_step: {stop}\n"
        f"init_start_profile: {init_start}\nprofile_memory: False\nprofile_output: ./out\n"
        "runner_config: {epochs: 1, batch_size: 1, sink_mode: True, sink_size: 1}\n"
        "model: {model_config: {type: A}, arch: {type: B}}\n"
    )
    child("mf_real.py", "task.yaml", 8, "times.json", cwd=tmp_path, PYTHONPATH=str(wheels(version)))
    profile = read_mindformers(task, version=version)
    place = tmp_path / profile.directory
    assert (tmp_path / profile.profile_directory(0)).is_dir()
    verdict = perfguard.check(place, expect=profile.expectation + ",ranks=1,graph")
    assert set(verdict.layouts) == {"mf-profile", "ms-2.5+cpu"}

    (cycle,) = inspect(read_recording(place)).cycles
    counted = cycle.executions.counts.by_name
    starts = [at for one in counted for at in (one.first_ns, one.last_ns)]
    times = json.loads((tmp_path / "times.json").read_text())
    ran = [number for number, (begin, end) in enumerate(times, 1) if any(begin <= at <= end for at in starts)]
    assert (ran[0], ran[-1]) == profile.training_steps
    with pytest.raises(AssertionError, match="C101"):
        perfguard.check(place, expect=f"graph,steps={profile.window.active + 1}")


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_real_summary_monitor_is_the_collector_with_these_arguments(tmp_path, wheels):
    (tmp_path / "task.yaml").write_text(
        "run_mode: train\nmodel: {model_config: {type: A}, arch: {type: B}}\n"
        "callbacks:\n  - type: SummaryMonitor\n    collect_freq: 3\n"
    )
    site = str(wheels("2.1.0"))
    child("mf_real.py", "task.yaml", 7, "times.json", cwd=tmp_path, PYTHONPATH=site, LOCAL_DEFAULT_PATH="./output")
    summary = read_mindformers(tmp_path / "task.yaml").summary
    place = tmp_path / summary.summary_directory(0)
    verdict = perfguard.check(place, expect=summary.expectation(7))
    values = {(one.metric, one.subject): one.value for one in verdict.measurements}
    assert values["summary_steps", "loss/auto"] == len({1, 3, 6})


def trained(root: Path, **runs: tuple[str, int, int, float]):
    """Train in one process under the collectors that some YAML ask for, so many steps and epochs, at a rate.

    Return the configuration of each, and where it wrote.
    """
    pytest.importorskip("mindspore", reason="mindspore is not installed")
    found, asked = {}, []
    for name, (text, steps, epochs, rate) in runs.items():
        (root / name).mkdir()
        (root / name / "task.yaml").write_text(monitor(text))
        summary = read_mindformers(root / name / "task.yaml").summary
        asked.append([str(root / name), steps, epochs, collector_arguments(summary), rate])
        found[name] = summary, root / name / summary.summary_directory()
    child("mf_summary.py", json.dumps(asked), cwd=root)
    return found


SMALL = "collect_specified_data: {collect_landscape: null}"


def steps_in(place: Path, condition: str) -> list[int]:
    """Return the steps of which a summary has values."""
    query = f"select distinct step from summary_values where {condition} order by step"
    found = CliRunner().invoke(cli, ["sql", str(place), query, "--format", "json"])
    return [row["step"] for row in json.loads(found.stdout)]


#: What is collected, steps, epochs, and the steps of which there are values and tensors.
COLLECTED = {
    "every": ("collect_freq: 1", 6, 1, [*range(1, 7)], [*range(1, 7)]),
    "epochs": (f"collect_freq: 2\n{SMALL}", 7, 2, [1, *range(2, 15, 2)], [1, *range(2, 15, 2)]),
    "seldom": ("collect_freq: 10", 25, 1, [1, 10, 20], [1, 10, 20]),
    "exported": (
        f"collect_freq: 5\ncollect_tensor_freq: 3\n{SMALL}\nexport_options: {{tensor_format: npy}}\n"
        "custom_lineage_data: {author: me, size: 3, rate: 0.5}",
        12,
        1,
        [1, 5, 10],
        [1, 3, 6, 9, 12],
    ),
    # Tensors of 20 steps and the first, of 60.
    "tensors": (f"collect_freq: 1\n{SMALL}", 30, 2, [*range(1, 61)], [1, *range(3, 58, 3)]),
    "little": (
        "collect_freq: 2\nkeep_default_action: False\ncollect_specified_data: {collect_metric: True}",
        6,
        1,
        [1, 2, 4, 6],
        [1, 2, 4, 6],
    ),
}
SIZED = f"collect_freq: 1\nmax_file_size: 16000\n{SMALL}"


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    runs = {name: (text, steps, epochs, 0.05) for name, (text, steps, epochs, _, _) in COLLECTED.items()}
    return trained(tmp_path_factory.mktemp("collected"), **runs, sized=(SIZED, 60, 1, 0.05))


@pytest.mark.slow
@pytest.mark.parametrize("name", COLLECTED)
@pytest.mark.exhaustive
def test_the_real_collector_leaves_what_is_expected(collected, name):
    summary, place = collected[name]
    _, steps, epochs, values, tensors = COLLECTED[name]
    total = steps * epochs
    perfguard.check(place, expect=summary.expectation(total))
    assert steps_in(place, "tag = 'loss/auto'") == values
    assert steps_in(place, "kind = 'tensor'") == tensors
    exported = sorted(int(path.stem.rpartition("_")[2]) for path in place.rglob("*.npy"))
    assert exported == (tensors if summary.arguments["export_options"] else [])
    assert (steps_in(place, "tag = 'fc.weight/auto'") != []) == ("histogram_regular" in summary.collects)
    # Another frequency, or another length, is not taken for it.
    for wrong in (
        f"collect_freq={summary.arguments['collect_freq'] + 1}",
        summary.expectation(total * 3),
    ):
        with pytest.raises(AssertionError, match="C101"):
            perfguard.check(place, expect=wrong)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_real_collector_keeps_its_size_and_says_so(collected):
    summary, place = collected["sized"]
    verdict = perfguard.check(place, expect=summary.expectation(60))
    warnings = [finding for finding in verdict.findings if finding.code.name == "C101"]
    assert warnings
    assert all("the file has reached max_file_size" in warning.message for warning in warnings)
    with pytest.raises(AssertionError, match="max_file_size=1000 is expected, but it has"):
        perfguard.check(place, expect="max_file_size=1000")


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_loss_is_the_same_in_a_fresh_process_and_another_with_another_rate(tmp_path):
    text = f"collect_freq: 2\n{SMALL}"

    def losses(place: Path) -> dict[str, float]:
        found = perfguard.check(place).measurements
        return {one.subject: one.value for one in found if one.metric == "summary_scalar"}

    of = trained(tmp_path, first=(text, 8, 1, 0.05))
    of |= trained(tmp_path, second=(text, 8, 1, 0.05), third=(text, 8, 1, 0.06))
    first, second, other = (losses(of[name][1]) for name in ("first", "second", "third"))
    assert {"loss/auto@1", "loss/auto@8", "first@8"} <= first.keys()
    assert second == first
    assert other["loss/auto@1"] == first["loss/auto@1"]
    assert abs(other["loss/auto@8"] / first["loss/auto@8"] - 1) > 1e-4
