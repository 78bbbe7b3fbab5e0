"""tools.json of MindSpeed-MM, and the `tools:` of an FSDP2 YAML: what is accepted as it stands, and every bad value by name."""

from __future__ import annotations

import json
import os
import re
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.config_files import LARGEST_BYTES
from perfguard.errors import UsageError
from perfguard.integrations.tools_config import ToolsConfig, read_tools_config, tools_config
from perfguard.version import install_command
from perfguard.window import StepWindow
from tests.facts import refused

#: MindSpeed-MM's own file, whole.
REAL = {
    "profile": {
        "enable": False,
        "profile_type": "static",
        "ranks": [0, 1, 2, 3],
        "static_param": {
            "level": "level1",
            "with_stack": False,
            "with_memory": False,
            "record_shapes": False,
            "with_cpu": True,
            "save_path": "./npu_profiling",
            "start_step": 10,
            "end_step": 11,
            "data_simplification": False,
            "aic_metrics_type": "PipeUtilization",
            "analyse_flag": True,
        },
        "dynamic_param": {"config_path": "path to dynamic config folder"},
    },
    "memory_profile": {
        "enable": False,
        "start_step": 0,
        "end_step": 2,
        "save_path": "./memory_snapshot",
        "dump_ranks": [0],
        "stacks": "all",
        "max_entries": None,
        "mem_info": False,
    },
    "sorafeature": {"save_path": "./sora_features"},
}
STATIC = ("profile", "static_param")
DELETED = object()


def changed(*path: str, to: object, tree: dict | None = None) -> dict:
    """The real file, enabled, with one value changed."""
    found = deepcopy(REAL if tree is None else tree)
    found["profile"]["enable"] = True
    place = found
    for key in path[:-1]:
        place = place[key]
    if to is DELETED:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return found


def written(directory: Path, text: str | bytes, name: str = "tools.json") -> Path:
    path = directory / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_the_real_file_is_accepted_as_it_stands(tmp_path):
    found = read_tools_config(written(tmp_path, json.dumps(REAL)))

    assert found == ToolsConfig(
        source=str(tmp_path / "tools.json"),
        enable=False,
        profile_type="static",
        ranks=[0, 1, 2, 3],
        static_param={**REAL["profile"]["static_param"], "save_path": Path("npu_profiling")},
        config_path=Path("path to dynamic config folder"),
        memory_profile={**REAL["memory_profile"], "save_path": Path("memory_snapshot")},
    )
    assert tools_config({"profile": {}}, source="").memory_profile == found.memory_profile


def test_the_older_form_lacks_two_keys_and_memory_profile():
    tree = {"profile": deepcopy(REAL["profile"])}
    for key in ("aic_metrics_type", "analyse_flag"):
        del tree["profile"]["static_param"][key]
    del tree["profile"]["ranks"]

    found = tools_config(tree, source="tools.json")
    assert found.static_param["aic_metrics_type"] == "PipeUtilization"
    assert found.static_param["analyse_flag"] is True
    assert found.ranks == [-1]


@pytest.mark.parametrize(
    ("ranks", "held", "not_held"),
    [([-1], [0, 7], []), (-1, [0, 7], []), ([0, 3], [0, 3], [1]), (2, [2], [0]), ([1, 1], [1], [0])],
)
def test_ranks(ranks, held, not_held):
    found = tools_config(changed("profile", "ranks", to=ranks), source="tools.json")
    assert [found.holds_for(rank) for rank in held] == [True] * len(held)
    assert not any(found.holds_for(rank) for rank in not_held)


def test_nobody_is_profiled_where_it_is_not_enabled():
    assert not tools_config(REAL, source="tools.json").holds_for(0)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            (*STATIC, "level"),
            "level3",
            "profile.static_param.level must be one of level0, level1, level2, got 'level3' (did you mean 'level0'?).",
        ),
        ((*STATIC, "level"), 1, "profile.static_param.level must be one of level0, level1, level2, got 1."),
        (
            (*STATIC, "level"),
            "Level1",
            "profile.static_param.level must be one of level0, level1, level2, got 'Level1' (did you mean 'level1'?).",
        ),
        (
            (*STATIC, "aic_metrics_type"),
            "Memory",
            (
                "profile.static_param.aic_metrics_type must be one of PipeUtilization, ArithmeticUtilization, got "
                "'Memory'."
            ),
        ),
        (
            (*STATIC, "with_stack"),
            "true",
            "profile.static_param.with_stack must be true or false, got 'true' (write it without quotes).",
        ),
        ((*STATIC, "with_memory"), 1, "profile.static_param.with_memory must be true or false, got 1."),
        ((*STATIC, "record_shapes"), 0, "profile.static_param.record_shapes must be true or false, got 0."),
        ((*STATIC, "with_cpu"), None, "profile.static_param.with_cpu must be true or false, got null."),
        (
            (*STATIC, "data_simplification"),
            [],
            "profile.static_param.data_simplification must be true or false, got [].",
        ),
        ((*STATIC, "analyse_flag"), {}, "profile.static_param.analyse_flag must be true or false, got {}."),
        (
            (*STATIC, "start_step"),
            True,
            "profile.static_param.start_step must be an integer from 0 to 10000000, got true.",
        ),
        (
            (*STATIC, "start_step"),
            "10",
            "profile.static_param.start_step must be an integer from 0 to 10000000, got '10'.",
        ),
        (
            (*STATIC, "start_step"),
            1.0,
            "profile.static_param.start_step must be an integer from 0 to 10000000, got 1.0.",
        ),
        ((*STATIC, "start_step"), -1, "profile.static_param.start_step must be an integer from 0 to 10000000, got -1."),
        (
            (*STATIC, "start_step"),
            11,
            (
                "profile.static_param.start_step must be less than end_step, got 11 and 11; steps count from 0, and "
                "end_step is exclusive."
            ),
        ),
        (
            (*STATIC, "start_step"),
            12,
            (
                "profile.static_param.start_step must be less than end_step, got 12 and 11; steps count from 0, and "
                "end_step is exclusive."
            ),
        ),
        (
            (*STATIC, "end_step"),
            10**9,
            "profile.static_param.end_step must be an integer from 0 to 10000000, got 1000000000.",
        ),
        ((*STATIC, "end_step"), DELETED, "profile.static_param.end_step is missing."),
        ((*STATIC, "save_path"), DELETED, "profile.static_param.save_path is missing."),
        ((*STATIC, "save_path"), 7, "profile.static_param.save_path must be a path, got 7."),
        ((*STATIC, "save_path"), " ", "profile.static_param.save_path must be a path, got ' '."),
        ((*STATIC, "save_path"), "a\0b", "profile.static_param.save_path must be a path, got "),
        ((*STATIC, "save_path"), "\ud800", "profile.static_param.save_path must be a path, got "),
        (
            (*STATIC, "with_stacks"),
            True,
            "profile.static_param.with_stacks is not a known key; did you mean 'with_stack'?",
        ),
        (STATIC, None, 'profile.static_param must be an object, {"key": value, ...}, got null.'),
        (STATIC, [1], 'profile.static_param must be an object, {"key": value, ...}, got [1].'),
        (("profile", "enable"), "true", "profile.enable must be true or false, got 'true' (write it without quotes)."),
        (
            ("profile", "profile_type"),
            "statik",
            "profile.profile_type must be one of static, dynamic, got 'statik' (did you mean 'static'?).",
        ),
        (
            ("profile", "ranks"),
            [],
            "profile.ranks is empty, so no rank is profiled: write -1 for all ranks, or enable = false.",
        ),
        (
            ("profile", "ranks"),
            [-1, 0],
            "profile.ranks must be -1 alone, which means all ranks, or a list of ranks, got [-1, 0].",
        ),
        (
            ("profile", "ranks"),
            [-2],
            (
                "profile.ranks must be a list of ranks (0 or more, or -1 for all), got [-2] (-2 is not an integer of "
                "at least -1)."
            ),
        ),
        (
            ("profile", "ranks"),
            [True],
            (
                "profile.ranks must be a list of ranks (0 or more, or -1 for all), got [true] (true is not an "
                "integer of at least -1)."
            ),
        ),
        (("profile", "ranks"), "all", "profile.ranks must be a list of ranks (0 or more, or -1 for all), got 'all'."),
        (
            ("profile", "ranks"),
            [0, None],
            (
                "profile.ranks must be a list of ranks (0 or more, or -1 for all), got [0, null] (null is not an "
                "integer of at least -1)."
            ),
        ),
        (("profile", "rank"), [0], "profile.rank is not a known key; did you mean 'ranks'?"),
        (("profil",), {}, "profil is not a known key; did you mean 'profile'?"),
        (("profile", "dynamic_param", "config_path"), "", "profile.dynamic_param.config_path must be a path, got ''."),
        (
            ("profile", "dynamic_param", "path"),
            "",
            "profile.dynamic_param.path is not a known key; known are config_path.",
        ),
        (("memory_profile", "enable"), "no", "memory_profile.enable must be true or false, got 'no'."),
        (
            ("memory_profile", "start_step"),
            5,
            (
                "memory_profile.start_step must be less than end_step, got 5 and 2; steps count from 0, and end_step "
                "is exclusive."
            ),
        ),
        (("memory_profile", "stacks"), "c++", "memory_profile.stacks must be one of all, python, got 'c++'."),
        (("memory_profile", "max_entries"), 0, "memory_profile.max_entries must be an integer of at least 1, got 0."),
        (
            ("memory_profile", "max_entries"),
            "9",
            "memory_profile.max_entries must be an integer of at least 1, got '9'.",
        ),
        (
            ("memory_profile", "dump_ranks"),
            ["0"],
            (
                "memory_profile.dump_ranks must be a list of ranks (0 or more, or -1 for all), got ['0'] ('0' is not "
                "an integer of at least -1)."
            ),
        ),
        (("memory_profile", "mem_infos"), 1, "did you mean 'mem_info'?"),
    ],
)
def test_every_bad_value_is_refused_by_name(path, value, sentence):
    with refused(sentence):
        tools_config(changed(*path, to=value), source="tools.json")


def test_a_dynamic_profile_needs_its_path():
    tree = changed("profile", "profile_type", to="dynamic")
    del tree["profile"]["dynamic_param"]
    with pytest.raises(UsageError, match=r"^tools\.json: profile\.dynamic_param\.config_path is missing\.$"):
        tools_config(tree, source="tools.json")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty."),
        (" \n", "is empty."),
        ('{"profile": {\n  "enable" true}}', "is not JSON: line 2, column 12: "),
        ('{"profile": ', "is not JSON: line 1, column 13: "),
        ('{"profile": {"enable": true, "enable": false}}', "is not JSON: an object has the key 'enable' twice."),
        ('{"profile": {"ranks": NaN}}', "is not JSON: NaN is not a JSON number."),
        ('{"profile": {"ranks": -Infinity}}', "is not JSON: -Infinity is not a JSON number."),
        (
            '{"profile": {"ranks": ' + "9" * 5000 + "}}",
            "is not JSON: the number 99999999999999999999... has more than 18 digits.",
        ),
        (
            '{"profile": {"static_param": {"start_step": 1e999}}}',
            "is not JSON: a number is inf, which is beyond ±1e+150.",
        ),
        ("[]", 'must be an object, {"key": value, ...}, got [].'),
        ("null", 'must be an object, {"key": value, ...}, got null.'),
        ("{}", "has neither profile nor memory_profile, so it profiles nothing."),
        ("[" * 200_000, "is not JSON: it is nested too deeply."),
        (b'{"profile": "\xff"}', "is no configuration file: it is not UTF-8: byte 13 is 0xff."),
        (b" " * (LARGEST_BYTES + 1), "is no configuration file: it is larger than 1 MiB."),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_configuration_is_refused_in_one_line(tmp_path, text, sentence):
    path = written(tmp_path, text)
    with refused(str(path), sentence):
        read_tools_config(path)


def test_a_file_of_100_mb_is_not_read(tmp_path):
    path = tmp_path / "tools.json"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(UsageError, match="it is larger than 1 MiB"):
        read_tools_config(path)


def test_a_byte_order_mark_is_no_error(tmp_path):
    assert read_tools_config(written(tmp_path, b"\xef\xbb\xbf" + json.dumps(REAL).encode())).ranks == [0, 1, 2, 3]


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for name, sentence in (
        ("none.json", "is missing; name the tools.json of your model."),
        (".", "is a directory; name the file in it."),
        ("pipe.json", "is no configuration file: it is not a regular file."),
        ("a\0b", "cannot be read: "),
        ("x" * 5000, "cannot be read: File name too long."),
    ):
        with refused(sentence):
            read_tools_config(tmp_path / name)
    with pytest.raises(UsageError, match=r"needs the path of a tools\.json, got \{\}"):
        read_tools_config({})


# -- YAML ----------------------------------------------------------------------------------------------------------------


def test_yaml_without_pyyaml_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    path = written(tmp_path, "tools: {}\n", "fsdp2.yaml")
    with pytest.raises(UsageError, match=re.escape(f"PyYAML is not installed. Run: {install_command('mindformers')}")):
        read_tools_config(path)


def test_the_tools_of_an_fsdp2_yaml_are_the_same_tree(tmp_path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install -e '.[mindformers]'")
    path = written(tmp_path, yaml.safe_dump({"model": {"any": ["thing"]}, "tools": REAL}), "fsdp2.yaml")

    found = read_tools_config(path)
    assert found == ToolsConfig(
        **{
            **{key: getattr(tools_config(REAL, source=""), key) for key in ToolsConfig.__dataclass_fields__},
            "source": str(path),
            "prefix": "tools.",
        }
    )


def test_an_fsdp2_yaml_has_its_own_defaults(tmp_path):
    """Source: mindspeed_mm/fsdp/params/tools_args.py."""
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install -e '.[mindformers]'")
    text = "tools: {profile: {enable: true}, memory_profile: {}, tensorboard: {enable: true}}\n"
    found = read_tools_config(written(tmp_path, text, "fsdp2.yaml"))

    assert (found.enable, found.profile_type, found.ranks, found.config_path) == (True, "static", [0], None)
    assert found.static_param == {
        **tools_config(changed(*STATIC, to={}) | {"profile": {"static_param": {}}}, source="").static_param,
        "with_cpu": False,
        "save_path": Path("profiling"),
    }
    assert (found.memory_profile["start_step"], found.memory_profile["end_step"]) == (1, 2)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "profile: {enable: true, profile_type: dynamic}",
            "tools.profile.profile_type must be one of static, got 'dynamic'",
        ),
        (
            "profile: {enable: true, static_param: {start_step: 20}}",
            "tools.profile.static_param.start_step must be less than end_step, got 20 and 11;",
        ),
    ],
)
def test_what_fsdp2_cannot_do_is_refused(tmp_path, text, sentence):
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install -e '.[mindformers]'")
    with pytest.raises(UsageError) as caught:
        read_tools_config(written(tmp_path, f"tools: {{{text}}}\n", "fsdp2.yaml"))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "tools:\n  profile:\n    enable: 'true'\n",
            "tools.profile.enable must be true or false, got 'true' (write it without quotes).",
        ),
        (
            "tools:\n  profile:\n    static_param: {levl: level1}\n",
            "tools.profile.static_param.levl is not a known key; did you mean 'level'?",
        ),
        ("tools:\n  profil: {}\n", "did you mean 'profile'?"),
        ("tools:\n  profile: [\n", "is not YAML: line 3, column 1: "),
        (
            "tools:\n  profile:\n    enable: true\n    enable: false\n",
            "is not YAML: line 4, column 5: the key 'enable' is there twice.",
        ),
        (
            "tools: !!python/object/apply:os.system [echo]\n",
            "is not YAML: line 1, column 8: could not determine a constructor",
        ),
        ("model: {}\n", "has no tools: key, where an FSDP2 configuration sets up the profiler."),
        ("tools: 3\n", 'must be an object, {"key": value, ...}, got 3.'),
        (
            "tools: {profile: {ranks: &a [*a]}}\n",
            "is not YAML: it is nested too deeply.",
        ),
        (
            "tools: {profile: {ranks: [.nan]}}\n",
            (
                "tools.profile.ranks must be a list of ranks (0 or more, or -1 for all), got [nan] (nan is not an "
                "integer of at least -1)."
            ),
        ),
        ("? [a, b]\n: 1\ntools: {}\n", "is not YAML: line 1, column 3: "),
        ("\t- x", "is not YAML: line 1, column 1: "),
    ],
)
def test_bad_yaml_is_refused_with_its_place(tmp_path, text, sentence):
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install -e '.[mindformers]'")
    with refused(sentence):
        read_tools_config(written(tmp_path, text, "fsdp2.yml"))


# -- any JSON ------------------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
PATHS = [
    ("profile",),
    ("memory_profile",),
    *[("profile", key) for key in REAL["profile"]],
    *[(*STATIC, key) for key in REAL["profile"]["static_param"]],
    ("profile", "dynamic_param", "config_path"),
    *[("memory_profile", key) for key in REAL["memory_profile"]],
]


def assert_read_or_refused(tree: object) -> None:
    told = ""
    try:
        assert isinstance(tools_config(tree, source="tools.json"), ToolsConfig)
    except UsageError as error:
        told = str(error)
    assert not told or ("tools.json" in told and len(told.splitlines()) == 1)


@given(anything)
def test_any_json_is_read_or_refused_in_one_line(tree):
    assert_read_or_refused(tree)


@given(st.sampled_from(PATHS), anything, st.text(max_size=20), st.booleans())
def test_any_value_in_any_place_is_read_or_refused_in_one_line(path, value, extra, enable):
    tree = deepcopy(REAL)
    tree["profile"]["enable"] = enable
    place = tree
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert_read_or_refused(tree)
    if extra:
        place[extra] = value
        assert_read_or_refused(tree)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any-tools.json"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_tools_config(path)
    assert len(str(caught.value).splitlines()) == 1


@given(st.integers(0, 50), st.integers(1, 50))
def test_the_window_is_the_steps_from_start_to_end(start, length):
    tree = changed(*STATIC, "start_step", to=start)
    tree["profile"]["static_param"]["end_step"] = start + length
    param = tools_config(tree, source="tools.json").static_param
    window = StepWindow.from_start_end(param["start_step"], param["end_step"])
    assert (window.skip_first, window.profiler_steps) == (start, length)
