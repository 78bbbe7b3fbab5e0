"""MindSpeed-LLM: which steps and ranks are profiled, where to, and what perfguard.check expects of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import perfguard
from perfguard.errors import UsageError
from perfguard.integrations.mindspeed_llm import MindSpeedLLMProfile, read_mindspeed_llm
from perfguard.testing import generate
from perfguard.window import Phase, StepWindow
from tests.conftest import CHECKOUT
from tests.facts import refused

#: As examples/mcore/*/pretrain_*.sh have it.
SCRIPT = """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
START=5
DISTRIBUTED_ARGS="
    --nproc_per_node 8 \\
    --nnodes 1
"
PROFILE_ARGS="
    --profile \\
    --profile-step-start $START \\
    --profile-step-end 7 \\
    --profile-ranks 0 1 2 3 \\
    --profile-level level1 \\
    --profile-with-cpu \\
    --profile-with-memory \\
    --profile-save-path './out dir'
"
# --profile-step-start 100
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \\
    $GPT_ARGS \\
    $PROFILE_ARGS \\
    --distributed-backend nccl \\
    | tee logs/train.log   # --profile-with-stack
"""


def of(words: str, **more: Any) -> MindSpeedLLMProfile:
    return read_mindspeed_llm(["--tensor-model-parallel-size", "8", *words.split(), "--bf16"], **more)


def written(place: Path, text: str, name: str = "train.sh") -> Path:
    path = place / name
    path.write_text(text, encoding="utf-8")
    return path


def yaml(**values: Any) -> str:
    keys = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in values.items())
    return f"model:\n  profile_nothing: 1\ntraining:\n  output_dir: ./out\n{keys}"


def test_a_script_says_what_it_profiles(tmp_path):
    found = read_mindspeed_llm(written(tmp_path, SCRIPT.replace("'./out dir'", "./out_dir")))
    assert found.is_on
    assert found.window == StepWindow(skip_first=3, wait=0, warmup=1, active=2)
    assert found.training_steps == (5, 6)
    assert found.ranks == (0, 1, 2, 3)
    assert found.directory == Path("out_dir")
    assert found.options["profile_with_memory"]
    assert not found.options["profile_with_stack"]
    assert found.expectation == "steps=2,memory,no-shapes,no-stack,level1,text,ranks=4"
    assert found.notes == ()


def test_the_defaults_are_those_of_the_source():
    found = of("--profile")
    assert (found.training_steps, found.ranks, found.directory) == ((10, 11), (0,), Path("profile_dir"))
    assert found.expectation == "no-memory,no-shapes,no-stack,level0,text"
    assert found.notes == ("--profile-ranks is not given: rank 0 is profiled, and all ranks by older versions.",)
    assert not of("").is_on
    assert of("").notes == ()


@pytest.mark.parametrize(
    ("start", "iteration", "skip_first", "warmup"),
    [(5, 0, 3, 1), (2, 0, 0, 1), (1, 0, 0, 0), (1003, 1000, 1, 1), (8, 7, 0, 0)],
)
def test_iterations_count_from_1_also_after_a_resume(start, iteration, skip_first, warmup):
    """The profiler's first recorded step is the iteration `start`."""
    found = of(f"--profile --profile-step-start {start} --profile-step-end {start + 3}", iteration=iteration)
    assert found.window == StepWindow(skip_first=skip_first, wait=0, warmup=warmup, active=3)
    assert found.training_steps == (start, start + 2)
    before = [phase for phase, _ in found.window.phases(0) if phase is not Phase.ACTIVE]
    assert iteration + len(before) + 1 == start


@pytest.mark.parametrize(
    ("values", "window", "steps"),
    [
        ({"profile_step_start": 5, "profile_step_end": 7}, StepWindow(skip_first=4, warmup=1, active=2), (6, 7)),
        ({"profile_step_start": 1, "profile_step_end": 2}, StepWindow(skip_first=0, warmup=1, active=1), (2, 2)),
        ({"profile_step_end": 2}, StepWindow(skip_first=0, warmup=0, active=2), (1, 2)),
        ({"profile_step_start": 4}, None, (5, None)),
    ],
)
def test_steps_of_fsdp2_count_from_0(tmp_path, values, window, steps):
    path = written(tmp_path, yaml(profile=True, profile_with_cpu=True, **values), "train.yaml")
    found = read_mindspeed_llm(path, world_size=4)
    assert (found.window, found.training_steps) == (window, steps)
    assert (found.ranks, found.directory) == (None, Path("profile"))
    counted = f"steps={window.active}," if window else ""
    assert found.expectation == f"{counted}no-memory,no-shapes,no-stack,level0,text,ranks=4"


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("--profile-ranks -1", None),
        ("--profile-ranks 3 1", (1, 3)),
        ("--profile-ranks=2", (2,)),
        ('"--profile-ranks 0 1" 5', (0, 1)),
        ("--profile-ranks 0 1\n7", (0, 1)),
        ("--profile-ranks 0 1 | tee 3", (0, 1)),
        ("ARGS=(--profile-ranks 0 1) 4", (0, 1)),
        ('--profile-ranks "0"', (0,)),
        ("RANK=4\n--profile-ranks $RANK ${RANK}", (4,)),
    ],
)
def test_ranks_end_where_the_option_ends(tmp_path, text, ranks):
    assert read_mindspeed_llm(written(tmp_path, f"{text}\n")).ranks == ranks


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "--profile-step-start 7 --profile-step-end 7",
            "--profile-step-start must be less than --profile-step-end, got 7 and 7",
        ),
        (
            "--profile-step-start 5 --profile-step-end -1",
            "--profile-step-end must be an integer from 2 to 10000000, got -1",
        ),
        ("--profile-step-start 0", "--profile-step-start must be an integer from 1 to 10000000, got 0"),
        ("--profile-step-start five", "--profile-step-start must be an integer from 1 to 10000000, got 'five'"),
        ("--profile-step-start", "--profile-step-start has no value."),
        ("--profile-level level3", "--profile-level must be one of level_none, level0, level1, level2, got 'level3'"),
        ("--profile-level Level1", "did you mean 'level1'?"),
        ("--profile-export-type json", "--profile-export-type must be one of text, db, got 'json'"),
        ("--profile-ranks all", "--profile-ranks must be a list of ranks (0 or more, or -1 for all), got ['all']"),
        ("--profile-ranks -1 0", "--profile-ranks must be -1 alone"),
        ("--profile-ranks 9", "--profile-ranks must be less than the number of ranks, 8, got [9]"),
        ("--profile-step-ends 9", "did you mean '--profile-step-end'?"),
        ("--profile-level level0 --profile-level level1", "--profile-level is there twice, with 'level0' and 'level1'"),
        (
            "--profile-with-cpu=yes --profile-step-start 5 --profile-step-end 6",
            "--profile-with-cpu must be true or false",
        ),
        ("--profile-step-start $START", "--profile-step-start is '$START', whose value is not in the file"),
    ],
)
def test_a_wrong_option_is_one_sentence(words, says):
    with refused(says, begins="command line: --profile"):
        of(words, world_size=8)


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("echo hello\n", "train.sh", "train.sh has no --profile, so it profiles nothing."),
        ("", "train.sh", "is empty"),
        ("model: 1\n", "a.yaml", "has no training: key"),
        ("training: 3\n", "a.yaml", "training must be an object"),
        (yaml(profile="yes"), "a.yaml", "training.profile must be true or false, got 'yes'"),
        (
            yaml(profile_step_start="5"),
            "a.yaml",
            "training.profile_step_start must be an integer from 0 to 10000000, got '5'",
        ),
        (yaml(profile_step_start=True), "a.yaml", "training.profile_step_start must be an integer"),
        (yaml(profile_step_start=6, profile_step_end=5), "a.yaml", "must be less than profile_step_end, got 6 and 5"),
        (yaml(profile_ranks={"a": 1}), "a.yaml", "training.profile_ranks must be a list of ranks"),
        (yaml(profile_ranks=[]), "a.yaml", "training.profile_ranks is empty, so no rank is profiled"),
        (yaml(profile_steps_end=5), "a.yaml", "did you mean 'profile_step_end'?"),
        (yaml(profile_save_path=3), "a.yaml", "training.profile_save_path must be a path, got 3"),
        ("S=1\nS=2\n--profile-step-start $S", "t.sh", "whose value is not in the file"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path, text, name, says):
    with refused(says):
        read_mindspeed_llm(written(tmp_path, text, name))


@pytest.mark.parametrize(
    ("more", "says"), [({"world_size": 0}, "world_size must be"), ({"iteration": -1}, "iteration must be")]
)
def test_a_wrong_number_of_the_caller_is_named(more, says):
    with pytest.raises(UsageError, match=says):
        of("--profile", **more)


def test_a_window_before_the_resumed_iteration_is_refused():
    with pytest.raises(UsageError, match="must be greater than the iteration that is resumed, got 5 and 5"):
        of("--profile --profile-step-start 5 --profile-step-end 6", iteration=5)


def test_an_unknown_key_is_a_note(tmp_path):
    assert of("--profile --profile-ranks 0 --profile-hbm").notes == (
        "--profile-hbm is not a key that perfguard knows, so it has no part in what is read.",
    )
    found = read_mindspeed_llm(written(tmp_path, yaml(profile_hbm=True), "a.yaml"))
    assert found.notes == (
        "training.profile_hbm is not a key that perfguard knows, so it has no part in what is read.",
    )


def test_the_page_says_what_is_read():
    page = (CHECKOUT / "docs" / "how-to" / "mindspeed-mm.md").read_text(encoding="utf-8")
    (words,) = re.findall(r"^# (--profile .*)$", page, re.MULTILINE)
    ((directory, expectation),) = re.findall(r"^# (profile\w*): (steps=.*)$", page, re.MULTILINE)
    found = read_mindspeed_llm(words.split(), world_size=8)
    assert (str(found.directory), found.expectation) == (directory, expectation)


@pytest.mark.parametrize("wrong", ["", "steps", "level"])
@pytest.mark.variants(1)
def test_its_expectation_judges_what_was_recorded(tmp_path, wrong):
    """Two ranks of level 1 and two steps, as the generator writes torch_npu's directories."""
    words = "--profile --profile-step-start 5 --profile-step-end 7 --profile-level level1 --profile-with-cpu --profile-ranks -1"
    found = read_mindspeed_llm([*words.split(), "--profile-save-path", str(tmp_path)], world_size=2)
    conditions = {
        "memory": False,
        "shapes": False,
        "stack": False,
        "level1": wrong != "level",
        "level2": False,
        "db": False,
    }
    steps = 3 if wrong == "steps" else 2
    generate("pt-npu", seed=3, ranks=2, steps=steps, operators=8, conditions=conditions).write(found.directory)
    if not wrong:
        perfguard.check(found.directory, expect=found.expectation)
        return
    with pytest.raises(AssertionError, match="steps" if wrong == "steps" else "level1"):
        perfguard.check(found.directory, expect=found.expectation)
