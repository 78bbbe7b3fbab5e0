"""What must not pass in silence: a verdict the test caught, a marker without its fixture, a run that measured nothing."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import RECORDINGS, TORCH_HEAD

pytestmark = pytest.mark.slow

HIDDEN = (
    TORCH_HEAD
    + """
import contextlib
import pathlib
import shutil
import unittest

def test_catches_its_verdict(perfguard):
    with contextlib.suppress(BaseException):
        perfguard(matmul)

def test_skips_after_its_loop(perfguard):
    try:
        for batch in perfguard.steps(range(3)):
            matmul()
    except BaseException:
        pytest.skip("not today")

def test_raises_skip_test_in_its_step(perfguard):
    def skips():
        raise unittest.SkipTest("not today")
    perfguard(skips)

@pytest.mark.perfguard(backend="torch")
def test_has_the_marker_only():
    pass

def test_fails_after_measuring(perfguard):
    perfguard(matmul)
    assert False, "the model is wrong"

def test_profiler_cannot_write(perfguard, request):
    def breaking():
        matmul()
        for place in pathlib.Path("recordings").glob("*cannot_write*/profiler"):
            if place.is_dir():
                shutil.rmtree(place)
                place.write_text("in the way")
    perfguard(breaking)

def test_next(perfguard):
    import gc
    assert gc.isenabled()
    perfguard(matmul)

@pytest.fixture
def loops_and_raises(perfguard):
    for batch in perfguard.steps(range(100)):
        matmul()
        if batch == 5:
            raise ValueError("in a fixture")

def test_of_a_broken_fixture(loops_and_raises):
    pass

def test_last(perfguard):
    import gc
    assert gc.isenabled()
    perfguard(matmul)
"""
)


@pytest.fixture(scope="module")
def project_of_hidden(module_project):
    project = module_project("hidden")
    project.write("test_h.py", HIDDEN)
    return project


@pytest.fixture(scope="module")
def refreshed(project_of_hidden):
    return project_of_hidden.run("--perfguard-update", "--perfguard-recordings=recordings", "--perfguard-report=r.json")


@pytest.fixture(scope="module")
def judged(project_of_hidden, refreshed):
    for path in (project_of_hidden.directory / "baselines").glob("*catches*"):
        path.unlink()
    return project_of_hidden.run("--perfguard", "--perfguard-recordings=recordings", "--perfguard-report=r.json")


def test_a_verdict_that_the_test_caught_fails_it_all_the_same(judged):
    assert "test_h.py::test_catches_its_verdict - Failed: perfguard INCONCLUSIVE: B101" in judged.out


def test_a_verdict_of_a_loop_that_the_test_then_skips_is_named(judged):
    assert "test_h.py::test_skips_after_its_loop: skipped after an INVALID verdict" in judged.out


@pytest.mark.exhaustive
def test_a_step_that_skips_its_test_has_no_verdict(judged, project_of_hidden):
    assert "test_raises_skip_test_in_its_step: " not in judged.out
    assert "test_h.py::test_raises_skip_test_in_its_step" not in project_of_hidden.findings("r.json")


def test_a_marker_without_the_fixture_fails(judged):
    assert "B105 a test requested perfguard, but measured nothing: test_h.py::test_has_the_marker_only" in judged.out
    assert "add the argument `perfguard`" in judged.out


def test_a_test_that_fails_after_measuring_leaves_no_baseline(refreshed, project_of_hidden):
    assert "refused: test_h.py::test_fails_after_measuring" in refreshed.out
    assert not list((project_of_hidden.directory / "baselines").glob("*fails_after*"))


def test_a_profiler_that_cannot_write_is_not_blamed_on_the_step(judged, project_of_hidden):
    assert "Failed: perfguard: the profiler failed while it advanced by a step" in judged.out
    (found,) = [
        codes for name, (outcome, codes) in project_of_hidden.findings("r.json").items() if "cannot_write" in name
    ]
    assert "C109" in found


def test_the_tests_that_follow_are_unharmed(refreshed):
    assert "created: test_h.py::test_next" in refreshed.out
    assert "created: test_h.py::test_last" in refreshed.out


REPLAYS = f"""
import pytest

def test_kept(perfguard):
    perfguard.replay({str(RECORDINGS / "torch-mlp")!r})

def test_removed(perfguard):
    perfguard.replay({str(RECORDINGS / "torch-repeat2")!r})

def test_skipped(perfguard):
    perfguard.replay({str(RECORDINGS / "torch-mlp")!r})
"""


@pytest.fixture(scope="module")
def replays(module_project):
    project = module_project("replays")
    project.write("test_r.py", REPLAYS)
    assert project.run("--perfguard-update").status == 0
    changed = REPLAYS.replace("def test_removed(perfguard)", "def helper(perfguard)")
    changed = changed.replace("def test_skipped", '@pytest.mark.skip(reason="not today")\ndef test_skipped')
    (project.directory / "test_r.py").write_text(changed)
    return project


@pytest.mark.parametrize("options", [(), ("-n1", "--perfguard-time=off")])
@pytest.mark.exhaustive
def test_a_removed_and_a_skipped_test_are_told_side_by_side_too(replays, options):
    run = replays.run("--perfguard", *options)
    assert run.status == 1
    assert "B104 a baseline whose test no longer exists: test_r.py::test_removed" in run.out
    assert "remove with: perfguard baseline prune test_r.py::test_removed" in run.out
    assert "1 not run (skipped or failed before measuring)" in run.out
    assert run.out.splitlines()[-1] == (
        "perfguard: the run fails: 1 unused baseline (B104), "
        "remove it with: perfguard baseline prune test_r.py::test_removed --yes"
    )


@pytest.mark.parametrize(
    ("arguments", "status"), [(("--perfguard-update",), 0), (("--perfguard", "-k", "nothing"), 5), ((), 0)]
)
@pytest.mark.variants(1)
def test_a_run_that_does_not_fail_for_it_says_nothing_of_it(replays, arguments, status):
    run = replays.run(*arguments, "test_r.py")
    assert run.status == status
    assert "the run fails" not in run.text


def test_a_gate_that_measured_nothing_is_red(replays):
    (replays.directory / "test_plain.py").write_text("def test_plain(): pass\n")
    run = replays.run("--perfguard", "test_plain.py")
    assert run.status == 1
    assert run.counts == {"passed": 1}
    assert run.out.splitlines()[-1] == "perfguard: the run fails: nothing was measured, so nothing was gated"
    assert "nothing was measured, so nothing was gated: no collected test" in run.out


def test_collecting_only_measures_and_writes_nothing(replays):
    (replays.directory / "report.json").write_text("kept")
    run = replays.run("--perfguard", "--collect-only", "--perfguard-report=report.json")
    assert run.status == 0
    assert (replays.directory / "report.json").read_text() == "kept"
