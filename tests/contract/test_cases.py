"""Small inputs from outside of the repository (PERFGUARD_CASES): each says whether it is right, or lost work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perfguard.contract import inspect
from perfguard.findings import Severity
from perfguard.recording import Recording
from tests.conftest import CHECKOUT, corpus_place

CASES = Path(os.environ.get("PERFGUARD_CASES") or CHECKOUT.parent / "shared" / "cases")
#: Small traces of a GPU, and those that take seconds each.
SMALL = ("hta-amd_mi250", "tracelens-compile_triton", "tracelens-h100_bert", "tracelens-h100_nsfw")
LARGE = (
    "hta-df_index_resolver",
    "hta-neg_queue",
    "kineto-rn50_w0_a",
    "param-resnet",
    "tracelens-mi300_resnet_actckpt",
)
LOST = ("no-kernels", "lost-head", "no-launch", "one-kernel", "twice", "early", "overrun")


def run(script: str, *arguments: object) -> None:
    place = CASES / script
    if not place.exists():
        pytest.skip(f"needs {script}, which is not at {CASES}; set PERFGUARD_CASES to where it is")
    done = subprocess.run([sys.executable, place, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def errors(directory: Path) -> list[str]:
    found = inspect(Recording(directory=directory)).findings
    return [f"{one.code.name} {one.message}" for one in found if one.severity is Severity.ERROR]


def real(*parts: str) -> Path:
    place = corpus_place().joinpath(*parts)
    if not place.exists():
        pytest.skip(f"needs output of a device, from the corpus, which is not at {corpus_place()}")
    return place


NAMES = [*SMALL, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in LARGE)]


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(2)
def test_lost_or_impossible_work_of_a_device_is_invalid(tmp_path, name, how):
    if (name, how) == ("kineto-rn50_w0_a", "no-launch"):
        pytest.skip("the calls of torch 1.8 have another category, so this alters nothing")
    run("alter.py", how, real("gpu", name, "rank0.pt.trace.json.gz"), tmp_path)
    assert errors(tmp_path)


@pytest.mark.parametrize("how", ["unnamed", "renamed"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.variants(1)
def test_what_a_writer_may_leave_out_or_repeat_stays_right(tmp_path, name, how):
    run("alter.py", how, real("gpu", name, "rank0.pt.trace.json.gz"), tmp_path)
    assert errors(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "storage",
        *(pytest.param(case, marks=pytest.mark.exhaustive) for case in ("zero", "tail", "groups", "python", "long")),
    ],
)
def test_what_torch_recorded_whole_is_right(tmp_path, case):
    pytest.importorskip("torch", reason="the case is recorded by torch")
    run("record.py", case, tmp_path)
    assert errors(tmp_path) == []


def test_kernels_of_ascend_that_never_arrived_are_missed(tmp_path):
    source = real("msinsight", "torch_npu-level1", "rank0_ascend_pt")
    run("ascend.py", source, tmp_path / "rank0_ascend_pt")
    assert errors(tmp_path)
