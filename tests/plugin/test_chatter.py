"""What torch's profiler writes to stderr in every run is one line in the section of a verdict, unless it may be the reason."""

from __future__ import annotations

import pytest

from tests.capture.test_chatter import CHATTER, KEPT
from tests.plugin.conftest import RECORDINGS

pytestmark = pytest.mark.slow

FOLDED = "(perfguard: 2 lines that torch's profiler writes in every run; pytest -v shows them)"
TESTS = f"""
import contextlib, shutil, sys

def speak():
    print({CHATTER[0]!r}, {KEPT[1]!r}, {CHATTER[3]!r}, sep="\\n", file=sys.stderr)

def test_judged(perfguard):
    speak()
    perfguard.replay({str(RECORDINGS / "torch-mlp")!r})

def test_invalid(perfguard, tmp_path):
    speak()
    copy = shutil.copytree({str(RECORDINGS / "torch-mlp")!r}, tmp_path / "copy")
    next((copy / "profiler").rglob("*.json")).write_text("[")
    perfguard.replay(copy)

def test_raises(perfguard):
    speak()
    with contextlib.suppress(BaseException):
        perfguard.replay({str(RECORDINGS / "torch-mlp")!r})
    raise OSError("disk full")
"""


@pytest.fixture(scope="module")
def talking(module_project):
    project = module_project("talking")
    project.write("test_c.py", TESTS)
    return project


def test_chatter_is_folded_where_a_verdict_fails_the_test(talking):
    out = talking.run("--perfguard", "-k", "judged").out
    assert "FAILED test_c.py::test_judged - Failed: perfguard INCONCLUSIVE: B101" in out
    assert (FOLDED in out, KEPT[1] in out, CHATTER[0] in out) == (True, True, False)


@pytest.mark.parametrize("options", [["-k", "invalid"], ["-k", "raises"], ["-v", "-k", "judged"]])
@pytest.mark.variants(1)
def test_every_line_is_shown_where_it_may_be_the_reason_and_with_v(talking, options):
    run = talking.run("--perfguard", *options)
    assert run.counts["failed"] == 1
    assert (FOLDED in run.out, KEPT[1] in run.out, CHATTER[0] in run.out) == (False, True, True)
