"""Checks of a project's own decide its tests: a broken rule is red, and is no baseline."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Project

pytestmark = pytest.mark.slow

CHECK = """-- check: addmm_is_short
-- code: U001
-- needs: executions
-- message: {name} takes {us:.1f} us in step {step}
select cycle, row, name, step, duration_ns / 1e3 as us
from executions
where name = 'aten::addmm' and duration_ns > 30_000
"""


@pytest.fixture
def checked(project) -> Project:
    project.settings('checks = ["perf/checks"]')
    project.write("perf/checks/model.sql", CHECK)
    project.replays(test_one="torch-mlp", test_two="mindspore-graph")
    return project


@pytest.mark.parametrize("parallel", [(), ("-n", "1", "--perfguard-time=off")])
@pytest.mark.variants(1)
def test_a_broken_rule_is_red_and_no_baseline(checked, parallel):
    run = checked.run("--perfguard", "--perfguard-update", *parallel)
    assert run.status == 1
    assert run.counts == {"passed": 1, "failed": 1}
    assert "perfguard INVALID: U001 not met: addmm is short: profiler/" in run.text
    assert "aten::addmm takes 36.2 us in step 0" in run.text
    assert "a check of this project failed, so nothing was compared or stored" in run.text
    assert [path.name for path in (checked.directory / "baselines").iterdir()] == ["test_a--test_two.json"]


@pytest.mark.exhaustive
def test_a_rule_that_only_warns_is_ignored_or_holds_is_green(checked):
    checked.settings('checks = ["perf/checks"]\nignore = ["U001"]')
    for code, *change in ("U002", "-- needs", "-- severity: warning\n-- needs"), ("U003", "30_000", "90_000"):
        source = CHECK.replace("U001", code).replace("is_short", f"is_short_{code}").replace(*change)
        checked.write(f"perf/checks/{code}.sql", source)
    run = checked.run("--perfguard", "--perfguard-update", "--perfguard-report=report.json")
    assert (run.status, run.counts) == (0, {"passed": 2}), run.text
    codes = [found["code"] for one in checked.report()["workloads"] for found in one["findings"]]
    assert (codes.count("U002"), codes.count("U003")) == (1, 0)


def test_a_wrong_check_is_refused_before_any_test_runs(checked):
    checked.write("perf/checks/model.sql", CHECK.replace("duration_ns / 1e3", "duration / 1e3"))
    run = checked.run("--perfguard")
    assert (run.status, run.counts) == (4, {})
    assert "perf/checks/model.sql:5: the query of addmm_is_short: Binder Error" in run.line("Binder Error")
    # Without the gate nobody reads them.
    assert checked.run().status == 0
