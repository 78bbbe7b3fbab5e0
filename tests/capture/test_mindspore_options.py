"""MindSpore's profiler options: what each version, surface and device takes, held against the real wheel where it can be."""

from __future__ import annotations

import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.artifacts.conditions import CONDITIONS
from perfguard.capture.mindspore_options import PARAMETERS, mindspore_options
from perfguard.errors import UsageError
from perfguard.window import StepWindow

#: version, surface, device, options, and what is passed on
TAKEN = [
    ("2.10.0", "env", "cpu", {}, {}),
    ("2.10.0", "env", "cpu", {"start": True}, {}),
    ("2.10.0", "env", "cpu", {"profile_memory": True, "activities": ["CPU"]}, None),
    ("2.10.0rc1", "env", "cpu", {"profile_memory": False}, None),
    ("2.7", "env", "cpu", {"profile_memory": True}, None),
    ("3.1.0", "env", "cpu", {"profile_memory": True}, None),
    (
        "2.10.0",
        "env",
        "ascend",
        {"profiler_level": "Level1"},
        {"profiler_level": "Level1", "aic_metrics": "PipeUtilization"},
    ),
    ("2.10.0", "env", "ascend", {"profiler_level": "Level2", "aic_metrics": "Memory", "l2_cache": True}, None),
    ("2.10.0", "env", "ascend", {"aic_metrics": "AiCoreNone"}, {"aic_metrics": "None"}),
    ("2.10.0", "env", "ascend", {"aic_metrics": "None"}, {"aic_metrics": "None"}),
    ("2.10.0", "env", "ascend", {"export_type": ["Text", "db"]}, {"export_type": ["text", "db"]}),
    ("2.10.0", "env", "ascend", {"host_sys": ["cpu", "osrt", "cpu"]}, {"host_sys": ["cpu", "osrt"]}),
    ("2.10.0", "env", "ascend", {"mstx": True, "mstx_domain_include": ["a"], "mstx_domain_exclude": []}, None),
    ("2.10.0", "env", "ascend", {"profiler_level": "LevelNone", "mstx": True}, None),
    ("2.6.0", "env", "ascend", {"pcie": True, "hbm_ddr": True}, None),
    ("2.5.0", "env", "ascend", {"aicore_metrics": "Memory", "profiler_level": "Level1"}, None),
    ("2.4.1", "env", "ascend", {"with_stack": True, "aicore_metrics": 6, "profile_framework": "time"}, None),
    ("2.2.0", "env", "ascend", {"profile_framework": None}, {"profile_framework": None}),
    ("2.0.0", "env", "cpu", {"timeline_limit": 1}, None),
    ("2.0.0", "env", "gpu", {"op_time": False, "data_process": False}, None),
    ("2.0.0", "env", "ascend", {"profile_memory": True, "profile_communication": True, "aicore_metrics": -1}, None),
    ("1.9.0", "env", "ascend", {"memory": False, "hccl": False, "aicore_metrics": 0, "l2_cache": False}, None),
]


@pytest.mark.parametrize(("version", "surface", "device", "options", "passed"), TAKEN)
def test_what_a_version_takes_is_passed_on(version, surface, device, options, passed):
    made = mindspore_options(version, options, surface=surface, device=device)
    expected = {"start": True, "output_path": "/out", **(options if passed is None else passed)}
    assert json.loads(made.environment("/out")) == expected


#: version, surface, device, options, and the words of the refusal
REFUSED = [
    # renamed, gone, not there yet
    (
        "2.0.0",
        "env",
        "ascend",
        {"memory": True},
        "'memory' is not an option there; this version calls it 'profile_memory'",
    ),
    (
        "2.0.0",
        "env",
        "cpu",
        {"memory": True},
        "'memory' is not an option there; this version calls it 'profile_memory', which has no effect on a CPU.",
    ),
    ("2.0.0", "env", "ascend", {"hccl": False}, "calls it 'profile_communication'"),
    ("1.9.0", "env", "ascend", {"profile_memory": True}, "calls it 'memory'"),
    ("1.9.0", "env", "ascend", {"profile_communication": True}, "calls it 'hccl'"),
    ("2.10.0", "env", "cpu", {"memory": True}, "calls it 'profile_memory'"),
    ("2.10.0", "env", "ascend", {"hccl": True}, "since 2.5 communication is recorded at profiler_level='Level1'"),
    ("2.10.0", "Profiler", "ascend", {"profile_communication": True}, "since 2.5 communication is recorded at"),
    ("2.10.0", "Profiler", "ascend", {"op_time": True}, "operators are recorded by activities"),
    ("2.10.0", "Profiler", "cpu", {"profile_framework": "all"}, "the host is recorded by activities"),
    (
        "2.10.0",
        "Profiler",
        "cpu",
        {"timeline_limit": 5},
        "'timeline_limit' is not an option there; since 2.5 the timeline has no limit.",
    ),
    ("2.10.0", "profile", "ascend", {"aicore_metrics": 1}, "this version calls it 'aic_metrics'"),
    ("2.10.0", "dynamic", "ascend", {"record_shape": True}, "this version calls it 'record_shapes'"),
    ("2.10.0", "profile", "ascend", {"host_stack": True}, "this version calls it 'with_stack'"),
    ("2.2.0", "env", "ascend", {"with_stack": True}, "'with_stack' is not an option there; it was added in 2.4."),
    (
        "2.6.0",
        "profile",
        "ascend",
        {"record_shapes": True},
        "'record_shapes' is not an option there; it was added in 2.7.",
    ),
    (
        "2.0.0",
        "env",
        "ascend",
        {"profile_framework": "all"},
        "'profile_framework' is not an option there; it was added in 2.1.",
    ),
    ("2.10.0", "env", "cpu", {"profil_memory": True}, "did you mean 'profile_memory'?"),
    ("2.10.0", "env", "cpu", {"xyzzy": True}, "known are start, output_path"),
    ("2.10.0", "env", "cpu", {3: True}, "3 is not an option there; names are strings."),
    (
        "2.0.0",
        "Profiler",
        "ascend",
        {"ascend_job_id": "x"},
        "'ascend_job_id' is not an option there; it analyses an earlier recording, and records nothing.",
    ),
    # the wrong place
    (
        "2.10.0",
        "env",
        "cpu",
        {"start_profile": False},
        (
            "'start_profile' is not an option there; the environment variable always starts at once; its name "
            "for that is 'start'."
        ),
    ),
    ("2.10.0", "env", "cpu", {"schedule": StepWindow()}, "the environment variable records the whole run"),
    ("2.10.0", "profile", "cpu", {"output_path": "/x"}, "on_trace_ready=tensorboard_trace_handler(DIR)"),
    ("2.10.0", "dynamic", "cpu", {"output_path": "/x"}, "'prof_path' here"),
    ("2.0.0", "profile", "cpu", {}, "MindSpore 2.0.0 has no mindspore.profiler.profile; it was added in 2.6."),
    ("2.2.0", "dynamic", "cpu", {}, "MindSpore 2.2.0 has no profiler_config.json; it was added in 2.3."),
    # no effect on the device
    (
        "2.0.0",
        "env",
        "cpu",
        {"profile_memory": True},
        "profile_memory=True has no effect on a CPU, only on an Ascend device; leave it out.",
    ),
    (
        "2.0.0",
        "Profiler",
        "cpu",
        {"op_time": True},
        "op_time=True has no effect on a CPU, only on an Ascend device or a GPU; leave it out.",
    ),
    ("2.0.0", "Profiler", "cpu", {"data_process": True}, "no effect on a CPU"),
    ("2.0.0", "Profiler", "gpu", {"l2_cache": False}, "no effect on a GPU"),
    (
        "2.0.0",
        "Profiler",
        "ascend",
        {"sync_enable": True},
        "sync_enable=True has no effect on an Ascend device, only on a GPU; leave it out.",
    ),
    ("2.10.0", "profile", "cpu", {"record_shapes": True}, "no effect on a CPU"),
    ("2.10.0", "profile", "cpu", {"with_stack": True}, "no effect on a CPU"),
    ("2.10.0", "profile", "cpu", {"activities": ["CPU", "NPU"]}, "NPU has no effect on a CPU"),
    ("2.10.0", "profile", "ascend", {"activities": ["CPU", "GPU"]}, "GPU has no effect on an Ascend device"),
    # types and values
    ("2.10.0", "env", "cpu", {"profile_memory": 1}, "profile_memory must be true or false, got 1."),
    (
        "2.10.0",
        "env",
        "cpu",
        {"profile_memory": "true"},
        "profile_memory must be true or false, got 'true' (write it without quotes).",
    ),
    ("2.10.0", "env", "cpu", {"profile_memory": None}, "profile_memory must be true or false, got null."),
    ("2.0.0", "env", "ascend", {"aicore_metrics": True}, "aicore_metrics must be an integer from -1 to 5, got true."),
    ("2.0.0", "env", "ascend", {"aicore_metrics": 1.0}, "aicore_metrics must be an integer from -1 to 5, got 1.0."),
    ("2.0.0", "env", "ascend", {"aicore_metrics": 6}, "aicore_metrics must be an integer from -1 to 5, got 6."),
    ("2.4.0", "env", "ascend", {"aicore_metrics": 7}, "aicore_metrics must be an integer from -1 to 6, got 7."),
    ("2.0.0", "env", "ascend", {"aicore_metrics": -2}, "aicore_metrics must be an integer from -1 to 5, got -2."),
    (
        "2.0.0",
        "env",
        "ascend",
        {"aicore_metrics": "Memory"},
        "aicore_metrics must be an integer from -1 to 5, got 'Memory'; Memory is 2 in this version.",
    ),
    ("2.0.0", "env", "cpu", {"timeline_limit": 0}, "timeline_limit must be an integer of at least 1, got 0."),
    ("2.0.0", "env", "cpu", {"timeline_limit": True}, "timeline_limit must be an integer of at least 1, got true."),
    (
        "2.2.0",
        "env",
        "ascend",
        {"profile_framework": "host"},
        "profile_framework must be one of all, time, memory, got 'host'.",
    ),
    ("2.10.0", "profile", "ascend", {"profiler_level": "level1"}, "did you mean 'Level1'?"),
    (
        "2.10.0",
        "profile",
        "ascend",
        {"profiler_level": 1},
        "profiler_level must be one of LevelNone, Level0, Level1, Level2, got 1.",
    ),
    (
        "2.5.0",
        "Profiler",
        "ascend",
        {"profiler_level": "LevelNone"},
        "profiler_level must be one of Level0, Level1, Level2, got 'LevelNone' (did you mean 'Level0'?).",
    ),
    ("2.10.0", "env", "ascend", {"aic_metrics": "AicoreNone"}, "did you mean 'AiCoreNone'?"),
    (
        "2.10.0",
        "env",
        "cpu",
        {"activities": "CPU"},
        "activities must be a list of at least one of CPU, NPU, GPU, got 'CPU'.",
    ),
    ("2.10.0", "env", "cpu", {"activities": []}, "activities must be a list of at least one of CPU, NPU, GPU, got []."),
    (
        "2.10.0",
        "env",
        "cpu",
        {"activities": ["cpu"]},
        (
            "activities must be a list of at least one of CPU, NPU, GPU, got ['cpu'] ('cpu' is not one of CPU, "
            "NPU, GPU)."
        ),
    ),
    (
        "2.10.0",
        "env",
        "ascend",
        {"export_type": "db"},
        "export_type must be a list of at least one of text, db, got 'db'.",
    ),
    ("2.10.0", "env", "ascend", {"mstx": True, "mstx_domain_include": [""]}, "a list of names that are not empty"),
    ("2.10.0", "env", "ascend", {"mstx": True, "mstx_domain_include": "a"}, "a list of names that are not empty"),
    (
        "2.10.0",
        "profile",
        "cpu",
        {"schedule": lambda step: step},
        "schedule must be made by mindspore.profiler.schedule(...), or a StepWindow, got <function",
    ),
    (
        "2.10.0",
        "profile",
        "cpu",
        {"on_trace_ready": "out"},
        "on_trace_ready must be callable, as tensorboard_trace_handler(DIR) is, got 'out'.",
    ),
    (
        "2.10.0",
        "env",
        "cpu",
        {"output_path": "data"},
        "output_path must be an absolute path, got 'data'; MindSpore writes a relative one elsewhere.",
    ),
    ("2.10.0", "env", "cpu", {"output_path": 3}, "output_path must be a string that is not empty, got 3."),
    ("2.10.0", "env", "cpu", {"start": False}, "start=False records nothing"),
    ("2.10.0", "env", "cpu", {"start": 1}, "start must be true or false, got 1."),
    # against each other
    ("2.0.0", "env", "ascend", {"op_time": False, "profile_memory": False}, "has no effect with op_time=False"),
    (
        "2.0.0",
        "env",
        "gpu",
        {"op_time": False, "timeline_limit": 5},
        "timeline_limit=5 has no effect with op_time=False",
    ),
    (
        "2.0.0",
        "Profiler",
        "ascend",
        {"profile_communication": True, "start_profile": False},
        (
            "profile_communication=True cannot begin in mid-training, so it excludes start_profile=False; leave "
            "one of them out."
        ),
    ),
    (
        "2.10.0",
        "profile",
        "ascend",
        {"schedule": StepWindow(), "data_process": True},
        "data_process=True is reset by a schedule; leave one of them out.",
    ),
    ("2.10.0", "profile", "ascend", {"aic_metrics": "Memory"}, "is reset at profiler_level='Level0'"),
    ("2.10.0", "profile", "ascend", {"profiler_level": "LevelNone"}, "is reset to 'Level0' without mstx=True"),
    (
        "2.10.0",
        "profile",
        "ascend",
        {"profiler_level": "Level1", "aic_metrics": "AiCoreNone"},
        "is reset to 'PipeUtilization'",
    ),
    ("2.10.0", "profile", "ascend", {"activities": ["NPU"], "record_shapes": True}, "is reset without CPU"),
    ("2.10.0", "profile", "ascend", {"activities": ["NPU"], "with_stack": True}, "is reset without CPU"),
    (
        "2.10.0",
        "profile",
        "ascend",
        {"activities": ["CPU"], "profiler_level": "Level1", "aic_metrics": "Memory"},
        "has no effect without NPU",
    ),
    ("2.10.0", "profile", "ascend", {"mstx_domain_exclude": ["a"]}, "is reset without mstx=True"),
    (
        "2.10.0",
        "profile",
        "ascend",
        {"mstx": True, "mstx_domain_include": ["a"], "mstx_domain_exclude": ["b"]},
        (
            "mstx_domain_include and mstx_domain_exclude exclude each other; MindSpore drops the second, so "
            "leave one out."
        ),
    ),
    (
        "2.10.0",
        "profile",
        "ascend",
        {"hbm_ddr": True},
        "MindSpore warns that hbm_ddr is deprecated; write profile_memory=True instead.",
    ),
    (
        "2.10.0",
        "profile",
        "ascend",
        {"pcie": True},
        "MindSpore warns that pcie is deprecated; write sys_interconnection=True instead.",
    ),
    # windows of profiler_config.json
    (
        "2.10.0",
        "dynamic",
        "cpu",
        {"start_step": 5, "stop_step": 3},
        (
            "start_step and stop_step must be a window, 1 <= start_step <= stop_step, got 5 and 3; steps count "
            "from 1, the stop step is included, and both -1 switch profiling off."
        ),
    ),
    ("2.10.0", "dynamic", "cpu", {"start_step": 0, "stop_step": 3}, "steps count from 1"),
    (
        "2.10.0",
        "dynamic",
        "cpu",
        {"start_step": 5},
        (
            "start_step and stop_step must be a window, 1 <= start_step <= stop_step, got 5 and -1; steps count "
            "from 1, the stop step is included, and both -1 switch profiling off."
        ),
    ),
    (
        "2.10.0",
        "dynamic",
        "cpu",
        {"start_step": True, "stop_step": 3},
        "start_step must be an integer of at least -1, got true.",
    ),
    (
        "2.10.0",
        "dynamic",
        "cpu",
        {"start_step": "5", "stop_step": 7},
        "start_step must be an integer of at least -1, got '5'.",
    ),
    ("2.10.0", "dynamic", "cpu", {"analyse_mode": 0}, "has no effect with analyse=False"),
    (
        "2.10.0",
        "dynamic",
        "cpu",
        {"analyse_mode": 2, "analyse": True},
        "analyse_mode must be an integer from -1 to 1, got 2.",
    ),
    (
        "2.10.0",
        "dynamic",
        "ascend",
        {"profiler_level": 1},
        (
            "profiler_level must be one of LevelNone, Level0, Level1, Level2, got 1; 1 means 'Level1', and "
            "MindSpore warns about numbers."
        ),
    ),
    (
        "2.10.0",
        "dynamic",
        "ascend",
        {"aic_metrics": 5},
        (
            "aic_metrics must be one of PipeUtilization, ArithmeticUtilization, Memory, MemoryL0, MemoryUB, "
            "ResourceConflictRatio, L2Cache, MemoryAccess, AiCoreNone, got 5; 5 means 'ResourceConflictRatio', "
            "and MindSpore warns about numbers."
        ),
    ),
    (
        "2.10.0",
        "dynamic",
        "ascend",
        {"activities": 1},
        (
            "activities must be a list of at least one of CPU, NPU, GPU, got 1; 1 means ['CPU'], and MindSpore "
            "warns about numbers."
        ),
    ),
    (
        "2.10.0",
        "dynamic",
        "ascend",
        {"export_type": 2},
        (
            "export_type must be a list of at least one of text, db, got 2; 2 means ['text', 'db'], and "
            "MindSpore warns about numbers."
        ),
    ),
    # what is no version, no surface, no device
    ("new", "env", "cpu", {}, "The version of MindSpore must be written as 2.10.0, got 'new'."),
    ("0.7.0", "env", "cpu", {}, "The version of MindSpore must be written as 2.10.0, got '0.7.0'."),
    (None, "env", "cpu", {}, "The version of MindSpore must be written as 2.10.0, got None."),
    ("2.10.0", "env", "CPU", {}, "did you mean 'cpu'?"),
    ("2.10.0", "env", "cpu", [], "Profiler options must be a mapping of names to values, got []."),
]


@pytest.mark.parametrize(("version", "surface", "device", "options", "words"), REFUSED)
def test_what_the_profiler_would_ignore_is_one_sentence(version, surface, device, options, words):
    with pytest.raises(UsageError) as error:
        mindspore_options(version, options, surface=surface, device=device)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert str(error.value)[-1] in ".?"


@pytest.mark.parametrize(
    ("version", "surface", "device", "options", "conditions"),
    [
        ("2.10.0", "profile", "cpu", {"profile_memory": True}, {"memory": True}),
        ("2.10.0", "profile", "cpu", {}, {"memory": False}),
        ("2.0.0", "env", "cpu", {}, {}),
        ("2.10.0", "dynamic", "cpu", {"analyse": True}, {"memory": False, "analysed": True}),
        (
            "2.0.0",
            "env",
            "ascend",
            {"profile_memory": True, "aicore_metrics": 1},
            {
                "op_time": True,
                "memory": True,
                "communication": False,
                "parallel_strategy": True,
                "flops": False,
                "l2_cache": False,
                "data_process": True,
            },
        ),
    ],
)
def test_conditions_are_what_has_an_effect(version, surface, device, options, conditions):
    assert mindspore_options(version, options, surface=surface, device=device).conditions == conditions


def test_without_op_time_nothing_of_an_operator_is_recorded():
    made = mindspore_options("2.0.0", {"op_time": False}, surface="env", device="ascend")
    assert {name for name, value in made.conditions.items() if value} == {"parallel_strategy", "data_process"}


def test_levels_are_conditions():
    made = mindspore_options("2.10.0", {"profiler_level": "Level1"}, surface="profile", device="ascend")
    assert (made.conditions["level1"], made.conditions["level2"]) == (True, False)
    assert (made.conditions["host"], made.conditions["npu"], made.conditions["text"], made.conditions["db"]) == (
        True,
        True,
        True,
        False,
    )


def test_every_condition_is_one_of_the_catalogue():
    assert {one.condition for one in PARAMETERS if one.condition} <= CONDITIONS.keys()


@pytest.mark.parametrize("version", ["1.9.0", "2.0.0", "2.1.1", "2.2.0", "2.3.0", "2.4.0", "2.5.0", "2.6.0", "2.10.0"])
@pytest.mark.parametrize("surface", ["Profiler", "profile", "env", "dynamic"])
def test_no_parameter_stands_twice_in_a_version(version, surface):
    numbers = tuple(int(part) for part in version.split(".")[:2])
    names = [one.name for one in PARAMETERS if one.is_in(numbers, surface)]
    assert len(names) == len(set(names))


def test_the_environment_has_one_path():
    with pytest.raises(UsageError, match=r"is given twice"):
        mindspore_options("2.10.0", {"output_path": "/a"}, surface="env").environment("/b")


# -- held against the real wheel ---------------------------------------------------------------------------------------

LEVELS = ["LevelNone", "Level0", "Level1", "Level2"]
METRICS = ["PipeUtilization", "Memory", "L2Cache", "AiCoreNone"]
FLAGS = [
    "with_stack",
    "profile_memory",
    "data_process",
    "parallel_strategy",
    "l2_cache",
    "hbm_ddr",
    "pcie",
    "sys_io",
    "sys_interconnection",
    "data_simplification",
    "record_shapes",
    "mstx",
]
DYNAMIC_FLAGS = [name for name in FLAGS if name not in ("data_process", "hbm_ddr", "pcie")]
DOMAINS = st.lists(st.sampled_from(["a", "b", ""]), max_size=2, unique=True)


def options_of(flags):
    """Options as a user may write them: right and wrong values, in any combination."""
    wrong = st.sampled_from([1, "true", 0.5, "None", []])
    values = {name: st.booleans() for name in flags}
    values |= {
        "profiler_level": st.sampled_from([*LEVELS, "level1"]),
        "aic_metrics": st.sampled_from([*METRICS, "AicoreNone"]),
        "activities": st.lists(st.sampled_from(["CPU", "NPU", "cpu"]), min_size=1, max_size=2, unique=True),
        "export_type": st.lists(st.sampled_from(["text", "db"]), min_size=1, max_size=2, unique=True),
        "host_sys": st.lists(st.sampled_from(["cpu", "mem", "all"]), max_size=2, unique=True),
        "mstx_domain_include": DOMAINS,
        "mstx_domain_exclude": DOMAINS,
    }
    right = st.fixed_dictionaries({}, optional=values).map(dict)
    spoiled = st.tuples(st.sampled_from(sorted(values)), wrong)
    return st.one_of(right, right, st.tuples(right, spoiled).map(lambda both: both[0] | dict([both[1]])))


class Heard(list):
    """Stands for MindSpore's logger, and keeps what it is told."""

    def warning(self, message, *arguments):
        self.append(str(message))

    error = warning

    def info(self, message, *arguments):
        """Keep nothing."""


@pytest.fixture(scope="module")
def wheel():
    pytest.importorskip("mindspore", reason="MindSpore is not installed: pip install -e '.[models]'")
    from mindspore.profiler import envprofiler
    from mindspore.profiler.common import profiler_parameters
    from mindspore.profiler.dynamic_profile import dynamic_profiler_config_context as dynamic

    heard = Heard()
    with pytest.MonkeyPatch.context() as patch:
        for module in (envprofiler, profiler_parameters, dynamic):
            patch.setattr(module, "logger", heard)
        yield (
            envprofiler.EnvProfiler,
            profiler_parameters.ProfilerParameters,
            dynamic.DynamicProfilerConfigContext,
            heard,
        )


def set_up(parameters, heard, keywords):
    """Return what MindSpore made of the keywords, and all that it had to say."""
    del heard[:]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = parameters(**keywords)
    return made, [*heard, *(str(one.message) for one in told)]


def comparable(value):
    return frozenset(map(str, value)) if isinstance(value, (list, tuple, set)) else value


def accepted(options, surface):
    try:
        return mindspore_options("2.10.0", options, surface=surface, device="ascend")
    except UsageError as error:
        return str(error)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(options=options_of(FLAGS))
def test_arguments_that_are_taken_are_neither_reset_nor_warned_about(wheel, options):
    _, parameters, _, heard = wheel
    made = accepted(options, "Profiler")
    if isinstance(made, str):
        return
    keywords = made.keywords()
    real, said = set_up(parameters, heard, dict(keywords))
    assert said == []
    assert {name: comparable(getattr(real, name)) for name in keywords} == {
        name: comparable(value) for name, value in keywords.items()
    }


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(options=options_of(FLAGS))
def test_an_environment_is_taken_exactly_where_mindspore_takes_it(wheel, options):
    environment, parameters, _, heard = wheel
    made = accepted(options, "env")
    document = {"start": True, "output_path": "/out", **options}
    if not isinstance(made, str):
        document = json.loads(made.environment("/out"))
    elif "aic_metrics" in document and document["aic_metrics"] == "AiCoreNone":
        return  # Its word in the environment is None; perfguard writes that, a user's own text is not translated here.
    del heard[:]
    try:
        converted = environment._convert_options_to_profiler_params(document)
    except TypeError:
        assert isinstance(made, str)  # MindSpore itself falls over it.
        return
    converted.pop("start")
    spoken = list(heard)
    real, said = set_up(parameters, heard, converted)
    original = real.original_params
    kept = all(comparable(original[name]) == comparable(value) for name, value in document.items() if name in original)
    if isinstance(made, str):
        # MindSpore says nothing of these; its documents do.
        silent = any(words in made for words in ("has no effect", "with_stack=True is reset", "at least one"))
        assert spoken or said or not kept or silent, made
    else:
        assert spoken + said == []
        assert kept


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(options=options_of(DYNAMIC_FLAGS), window=st.tuples(st.integers(-1, 4), st.integers(-1, 4)))
def test_a_dynamic_configuration_that_is_taken_is_not_reset(wheel, options, window):
    _, parameters, context, heard = wheel
    made = accepted({"start_step": window[0], "stop_step": window[1], **options}, "dynamic")
    if isinstance(made, str):
        return
    document = made.document()
    del heard[:]
    read = context(document)
    arguments = {name: value for name, value in read.args.items() if name in parameters.PARAMS}
    assert heard == []
    _, said = set_up(parameters, heard, arguments)
    assert said == []
    assert (read.start_step, read.stop_step) == window
    assert window == (-1, -1) or 1 <= window[0] <= window[1]


@pytest.mark.slow
def test_every_parameter_of_the_wheel_is_known(wheel):
    _, parameters, context, _ = wheel
    for surface, theirs in {
        "Profiler": set(parameters.PARAMS),
        "env": set(parameters.PARAMS) - {"schedule", "on_trace_ready", "start_profile"} | {"start"},
        "dynamic": set(context({}).vars),
        "profile": set(parameters.PARAMS) - {"output_path"},
    }.items():
        assert set(mindspore_options("2.10.0", {}, surface=surface).parameters) == theirs, surface


@pytest.mark.slow
def test_defaults_are_those_of_the_wheel(wheel):
    _, parameters, context, heard = wheel
    real, _ = set_up(parameters, heard, {})
    ours = mindspore_options("2.10.0", {}, surface="Profiler", device="ascend").values
    original = real.original_params | {"aic_metrics": "AiCoreNone"}
    left_out = {"output_path", "schedule", "on_trace_ready"}
    assert {name: comparable(value) for name, value in ours.items() if name not in left_out} == {
        name: comparable(original[name]) for name in ours if name not in left_out
    }
    theirs = context({}).vars
    mine = mindspore_options("2.10.0", {}, surface="dynamic", device="ascend").values
    assert {name: comparable(value) for name, value in mine.items()} == {
        name: comparable(value) for name, value in theirs.items()
    }


@pytest.mark.slow
def test_members_of_the_enums_are_taken_as_their_names(wheel):
    from mindspore.profiler import AicoreMetrics, ExportType, ProfilerActivity, ProfilerLevel

    given_members = {
        "profiler_level": ProfilerLevel.Level2,
        "aic_metrics": AicoreMetrics.Memory,
        "activities": [ProfilerActivity.CPU, ProfilerActivity.NPU],
        "export_type": ExportType.Db,
    }
    made = mindspore_options("2.10.0", given_members, surface="profile", device="ascend")
    assert dict(made.requested) == {
        "profiler_level": "Level2",
        "aic_metrics": "Memory",
        "activities": ("CPU", "NPU"),
        "export_type": ("db",),
    }
    with pytest.raises(
        UsageError, match="profiler_level must be one of LevelNone, Level0, Level1, Level2, got <AicoreMetrics"
    ):
        mindspore_options("2.10.0", {"profiler_level": AicoreMetrics.Memory}, surface="profile", device="ascend")


@pytest.mark.slow
def test_a_window_becomes_a_schedule_and_the_rest_an_experimental_config(wheel):
    options = {"schedule": StepWindow(skip_first=3, active=4), "record_shapes": True, "l2_cache": True}
    keywords = mindspore_options("2.10.0", options, surface="profile", device="ascend").keywords()
    assert keywords["schedule"].to_dict() == StepWindow(skip_first=3, active=4).as_dict()
    assert keywords["experimental_config"].l2_cache is True
    assert set(keywords) == {"schedule", "record_shapes", "experimental_config"}
