"""In a job of CI, temporary directories end with the job: neither the message nor a file names one."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import WRITTEN_HEAD

pytestmark = pytest.mark.slow

TESTS = (
    WRITTEN_HEAD
    + """
def test_one(perfguard):
    perfguard(matmul)
"""
)


@pytest.fixture(scope="module")
def one(module_project):
    project = module_project("job")
    project.written()
    project.write("test_j.py", TESTS)
    return project


@pytest.mark.parametrize("options", [[], ["--perfguard-recordings=kept"]], ids=["temporary", "kept"])
@pytest.mark.parametrize("variable", [{}, {"CI": "true"}, {"BUILD_NUMBER": "7"}], ids=["here", "CI", "BUILD_NUMBER"])
@pytest.mark.variants(2)
def test_a_temporary_recording_is_named_only_where_it_stays(one, variable, options):
    run = one.run("--perfguard", "--perfguard-report=j.json", *options, env=variable)
    assert run.counts == {"failed": 1}
    (workload,) = one.report("j.json")["workloads"]
    is_gone = bool(variable) and not options
    assert (workload["recording"] is None) is is_gone
    assert ("recording: deleted with the job; --perfguard-recordings=DIR keeps it" in run.out) is is_gone
    assert ("perfguard-test_j" in run.out) is (not is_gone and not options)
