"""The gate beside pytest's own options and other plugins: each combination has one stated behaviour."""

from __future__ import annotations

import json

import pytest

from tests.plugin.conftest import RECORDINGS, WRITTEN_HEAD, Project

pytestmark = pytest.mark.slow

THREE = {"test_one": "torch-mlp", "test_two": "torch-mlp", "test_three": "torch-repeat2"}


@pytest.fixture(scope="module")
def recorded(module_project) -> Project:
    """Two files, four tests that judge recordings on disk, and their baselines."""
    project: Project = module_project("recorded")
    project.replays("test_a.py", **THREE)
    project.replays("test_b.py", test_four="torch-mlp")
    created = project.run("--perfguard-update")
    assert created.status == 0, created.text
    assert len(project.baselines) == 4
    return project


@pytest.fixture
def fresh(recorded, tmp_path) -> Project:
    """A copy of `recorded` that a test may change."""
    return recorded.copy(tmp_path / "project")


def without(project: Project, *tests: str) -> None:
    """Take tests out of test_a.py."""
    project.replays("test_a.py", **{name: where for name, where in THREE.items() if name not in tests})


# -- options that change how strict pytest is ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("--strict-markers", "--strict-config", "-W", "error", "-x", "--import-mode=importlib", "-s"),
        ("--benchmark-disable", "--tb=short", "-rN"),
        ("-p", "no:benchmark", "-p", "no:xdist", "-p", "no:rerunfailures", "-W", "error"),
        pytest.param(("-o", "addopts=-p no:randomly", "--ff"), marks=pytest.mark.exhaustive),
    ],
    ids=" ".join,
)
@pytest.mark.variants(1)
def test_recordings_are_judged_the_same_under(recorded, arguments):
    run = recorded.run("--perfguard", *arguments)
    assert run.status == 0, run.text
    assert ": 0 worse, 0 better, 0 changed; 0 not comparable" in run.out
    assert len([line for line in run.out.splitlines() if line.startswith("PASSED  ")]) == 4


@pytest.mark.exhaustive
def test_random_order_changes_nothing(recorded):
    run = recorded.run("-o", "addopts=", "--perfguard", "--randomly-seed=1", "-p", "no:cacheprovider")
    assert (run.status, run.counts) == (0, {"passed": 4})
    assert "--randomly-seed=1" in run.out


def test_the_marker_is_known_to_strict_markers_without_the_gate_too(project):
    project.write("test_m.py", "import pytest\n@pytest.mark.perfguard(backend='torch')\ndef test_m(): pass\n")
    run = project.run("--strict-markers", "--strict-config", "-W", "error")
    assert (run.status, run.counts) == (0, {"passed": 1})


def test_no_perfguard_removes_it_wholly(recorded):
    run = recorded.run("-p", "no:perfguard", "test_b.py")
    assert (run.status, run.counts) == (1, {"errors": 1})
    assert "fixture 'perfguard' not found" in run.out
    unknown = recorded.run("-p", "no:perfguard", "--perfguard")
    assert unknown.status == 4
    assert "unrecognized arguments: --perfguard" in unknown.err
    assert "perfguard" not in recorded.run("-p", "no:perfguard", "--help").out


@pytest.mark.exhaustive
def test_without_autoload_the_plugin_can_be_named(recorded):
    run = recorded.run(
        "-o", "addopts=", "-p", "perfguard.plugin", "--perfguard", env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    )
    assert (run.status, run.counts) == (0, {"passed": 4})


def test_exitfirst_stops_after_the_first_verdict_and_says_what_did_not_run(fresh):
    for path in (fresh.directory / "baselines").glob("*.json"):
        path.unlink()
    run = fresh.run("--perfguard", "-x")
    assert (run.status, run.counts["failed"]) == (1, 1)
    assert "3 not run" in run.out
    assert run.line("the run ended early (stopping after 1 failures), 3 not reached: test_a.py::test_two, ")


@pytest.mark.exhaustive
def test_last_failed_runs_the_test_whose_verdict_was_red(fresh):
    (gone,) = (fresh.directory / "baselines").glob("*test_two*")
    gone.unlink()
    cache = ("-o", "addopts=-p no:randomly")
    assert fresh.run("--perfguard", *cache).status == 1
    run = fresh.run("--perfguard", "--lf", *cache, "--perfguard-report=report.json")
    assert (run.status, run.counts["failed"]) == (1, 1)
    assert list(fresh.findings()) == ["test_a.py::test_two"]
    assert fresh.report()["summary"]["unused"] == []


# -- pytest-benchmark ------------------------------------------------------------------------------------------------------

MIXED = (
    WRITTEN_HEAD
    + """
def test_guarded(perfguard):
    perfguard(matmul)

def test_guarded_with_benchmark(perfguard, benchmark):
    benchmark(sum, [1, 2])
    perfguard(matmul)

@pytest.mark.parametrize("size", [1, 2])
def test_sizes(perfguard, size):
    perfguard(matmul)

def test_plain():
    pass
"""
)


@pytest.fixture(scope="module")
def mixed(module_project) -> Project:
    project: Project = module_project("mixed")
    project.written()
    project.write("test_mixed.py", MIXED)
    run = project.run("--perfguard-update", "--benchmark-json=bench.json", "-W", "error", "--strict-markers")
    assert run.status == 0, run.text
    return project


@pytest.mark.exhaustive
def test_the_timed_steps_are_in_the_benchmark_json_and_table(mixed):
    document = json.loads((mixed.directory / "bench.json").read_text())
    rounds = {one["name"]: one["stats"]["rounds"] for one in document["benchmarks"]}
    assert rounds.pop("test_guarded_with_benchmark") > 3
    assert rounds == {"test_guarded": 3, "test_sizes[1]": 3, "test_sizes[2]": 3}


@pytest.mark.exhaustive
def test_benchmark_only_runs_guarded_tests_and_no_others(fresh):
    fresh.write("test_plain.py", "def test_plain():\n    pass\n")
    run = fresh.run("--perfguard", "--benchmark-only", "-rs")
    assert (run.status, run.counts) == (0, {"passed": 4, "skipped": 1})
    assert "test_plain.py" in run.line("Skipping non-benchmark")
    assert "unused" not in run.out


def test_benchmark_skip_skips_guarded_tests_and_counts_them(recorded):
    run = recorded.run("--perfguard", "--benchmark-skip", "--perfguard-report=skipped.json")
    # Nothing was measured, so nothing was gated: that is not green.
    assert (run.status, run.counts) == (1, {"skipped": 4})
    assert len(recorded.report("skipped.json")["summary"]["not_run"]) == 4
    assert "4 not run" in run.out


def test_a_quiet_run_and_one_without_guarded_tests_do_not_say_that_nothing_was_judged(fresh):
    fresh.write("test_plain.py", "def test_plain():\n    pass\n")
    for arguments in (("-q",), ("test_plain.py",)):
        run = fresh.run(*arguments)
        assert run.status == 0, run.text
        assert "judged" not in run.out


@pytest.mark.exhaustive
def test_without_an_option_that_asks_for_output_there_is_no_table_of_benchmarks(mixed):
    run = mixed.run("--perfguard", "-k", "test_sizes", "-W", "error", "--perfguard-report=sizes.json")
    assert (run.status, run.counts["passed"]) == (0, 2), run.text
    assert "Name (time in" not in run.out
    for workload in mixed.report("sizes.json")["workloads"]:
        (step_time,) = [m for m in workload["measurements"] if m["metric"] == "step_time"]
        assert len(step_time["samples"]) == 3


@pytest.mark.exhaustive
def test_benchmark_disable_still_measures_and_times(mixed):
    run = mixed.run(
        "--perfguard", "--benchmark-disable", "-k", "test_guarded", "--perfguard-report=disabled.json", "-W", "error"
    )
    assert (run.status, run.counts["passed"]) == (0, 2), run.text
    for workload in mixed.report("disabled.json")["workloads"]:
        (step_time,) = [m for m in workload["measurements"] if m["metric"] == "step_time"]
        assert len(step_time["samples"]) == 3


@pytest.mark.exhaustive
def test_benchmark_cprofile_does_not_break_the_window(mixed):
    run = mixed.run("--perfguard", "--benchmark-cprofile=tottime", "-k", "test_guarded and not with")
    assert (run.status, run.counts["passed"]) == (0, 1), run.text


@pytest.mark.exhaustive
def test_reruns_judge_each_time_and_the_last_verdict_counts(project):
    pytest.importorskip("pytest_rerunfailures", reason="pytest-rerunfailures is not installed")
    project.replays(test_one="torch-mlp")
    assert project.run("--perfguard-update").status == 0
    good, bad = (str(RECORDINGS / name) for name in ("torch-mlp", "torch-repeat2"))
    project.write(
        "test_a.py",
        "from pathlib import Path\n\n"
        "def test_one(perfguard):\n"
        "    seen = Path('seen')\n"
        f"    where = {good!r} if seen.exists() else {bad!r}\n"
        "    seen.touch()\n"
        "    perfguard.replay(where)\n",
    )
    run = project.run("--perfguard", "--reruns=1", "--perfguard-report=report.json", "--junitxml=junit.xml")
    assert (run.status, run.counts) == (0, {"passed": 1, "rerun": 1}), run.text
    assert project.findings() == {"test_a.py::test_one": ("PASSED", [])}
    outcomes = [p.get("value") for p in project.junit().iter("property") if p.get("name") == "perfguard.outcome"]
    assert "1 flaky, red before the last attempt: test_a.py::test_one" in run.out
    # One a try, in their order; pytest-rerunfailures reports each try.
    assert outcomes == ["INCONCLUSIVE", "PASSED"]


# -- baselines without a test ----------------------------------------------------------------------------------------------


def configured(project: Project, addopts: str) -> None:
    """Add to the options that pytest takes from its file."""
    path = project.directory / "pyproject.toml"
    text = path.read_text()
    assert text.count('addopts = "') == 1
    path.write_text(text.replace('addopts = "', f'addopts = "{addopts} '))


@pytest.mark.parametrize("option", ["--perfguard-update", "--perfguard-update-new-only", "--perfguard-ratchet"])
@pytest.mark.variants(1)
def test_a_file_does_not_make_every_run_store_what_it_judges(fresh, option):
    configured(fresh, option)
    run = fresh.run("--perfguard")
    assert run.status == 4, run.text
    assert f"{option} is in addopts of {fresh.directory / 'pyproject.toml'}" in run.text
    assert fresh.run("--perfguard", option).status == 0


@pytest.mark.parametrize(
    ("option", "status"), [("--co", 1), ("--collect-only", 1), ("--markers", 4), ("--fixtures", 1)]
)
@pytest.mark.variants(2)
def test_a_file_does_not_turn_the_gate_into_a_list(fresh, option, status):
    assert fresh.run("--perfguard", option).status == 0
    configured(fresh, option)
    run = fresh.run("--perfguard")
    assert run.status == status, run.text
    assert "perfguard: " in run.text


@pytest.mark.parametrize("option", ["--deselect=test_a.py::test_two", "-k=not two"])
@pytest.mark.variants(1)
def test_what_a_file_leaves_out_is_named(fresh, option):
    assert "left out" not in fresh.run("--perfguard", option).text
    configured(fresh, f"'{option}'")
    run = fresh.run("--perfguard")
    assert (run.status, run.counts) == (0, {"passed": 3, "deselected": 1})
    assert run.line("left out by addopts in").endswith("not gated: test_a.py::test_two")


def test_baselines_of_a_removed_test_and_a_removed_file_fail_the_run_and_name_the_next_command(fresh):
    """Not so one of a device: `@pytest.mark.parametrize("device", devices())` collects nothing where there is no GPU."""
    without(fresh, "test_two", "test_three")
    (fresh.directory / "test_b.py").unlink()
    (file,) = (fresh.directory / "baselines").glob("*test_three*.json")
    document = json.loads(file.read_text())
    document["fingerprint"]["device"] = "cuda"
    file.write_text(json.dumps(document))
    run = fresh.run("--perfguard", "--perfguard-report=report.json")
    assert (run.status, run.counts) == (1, {"passed": 1})
    unused = ["test_a.py::test_two", "test_b.py::test_four"]
    for name in unused:
        assert f"B104 a baseline whose test no longer exists: {name}" in run.out
    assert "remove with: perfguard baseline prune " in run.out
    assert fresh.report()["summary"]["unused"] == unused
    assert "2 unused baselines (B104)" in run.line("the run fails")


@pytest.mark.exhaustive
def test_unused_warn_lists_it_and_stays_green(fresh):
    without(fresh, "test_two")
    fresh.settings('unused = "warn"')
    run = fresh.run("--perfguard")
    assert run.status == 0
    assert "B104 a baseline whose test no longer exists: test_a.py::test_two" in run.out


@pytest.mark.exhaustive
def test_an_update_lists_unused_baselines_and_deletes_none(fresh):
    without(fresh, "test_two")
    before = fresh.baselines
    run = fresh.run("--perfguard-update")
    assert run.status == 0
    assert "unused: test_a.py::test_two" in run.out
    assert "baselines: 0 created, 0 updated, 3 kept, 1 unused" in run.out
    assert fresh.baselines == before


@pytest.mark.exhaustive
def test_update_new_only_creates_what_is_missing_and_judges_the_rest(fresh):
    before = fresh.baselines
    fresh.replays(
        "test_a.py",
        test_one="torch-repeat2",
        test_two=THREE["test_two"],
        test_three=THREE["test_three"],
        test_new="torch-mlp",
    )
    run = fresh.run("--perfguard", "--perfguard-update-new-only")
    assert (run.status, run.counts["failed"], run.counts["passed"]) == (1, 1, 4)
    after = fresh.baselines
    assert {name: after[name] for name in before} == before
    assert set(fresh.workloads) - {"test_a.py::test_new"} == {
        "test_a.py::test_one",
        "test_a.py::test_two",
        "test_a.py::test_three",
        "test_b.py::test_four",
    }
    assert "created: test_a.py::test_new" in run.out


def test_a_test_that_passed_and_no_longer_measures_a_baseline_leaves_it_unused(fresh):
    """It no longer asks for perfguard, or its measurement has another name."""
    fresh.write("test_b.py", "def test_four():\n    pass\n")
    without(fresh, "test_three")
    other = f"\ndef test_three(perfguard):\n    perfguard.replay({str(RECORDINGS / 'torch-mlp')!r}, name='other')\n"
    fresh.write("test_a.py", (fresh.directory / "test_a.py").read_text() + other)
    run = fresh.run("--perfguard", "--perfguard-update-new-only", "--perfguard-report=report.json")
    assert (run.status, run.counts) == (1, {"passed": 4})
    assert fresh.report()["summary"]["unused"] == ["test_a.py::test_three", "test_b.py::test_four"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "three"),
        ("test_a.py::test_one",),
        pytest.param(("test_a.py",), marks=pytest.mark.exhaustive),
        pytest.param(("--deselect", "test_b.py"), marks=pytest.mark.exhaustive),
        pytest.param(("--ignore", "test_b.py"), marks=pytest.mark.exhaustive),
        ("-o", "addopts=-p no:randomly", "--lf"),
    ],
    ids=" ".join,
)
@pytest.mark.variants(1)
def test_tests_that_were_not_selected_are_not_unused(recorded, arguments):
    run = recorded.run("--perfguard", "--perfguard-report=some.json", *arguments)
    assert run.status == 0, run.text
    assert recorded.report("some.json")["summary"]["unused"] == []
    assert "unused" not in run.out
    assert "B104" not in run.out


SKIPPED = """
import pytest

@pytest.mark.skip(reason="not here")
def test_four(perfguard):
    pass
"""


@pytest.mark.parametrize(
    "source, status, counts",
    [
        (SKIPPED, 0, {"passed": 3, "skipped": 1}),
        ("import pytest\n\npytest.importorskip('no_such_framework')\n", 0, {"passed": 3, "skipped": 1}),
        ("def test_four(:\n", 1, {"passed": 3, "errors": 1}),
    ],
    ids=["marked", "module-level importorskip", "a file that cannot be imported"],
)
@pytest.mark.variants(1)
@pytest.mark.exhaustive
def test_tests_that_were_skipped_are_not_unused(fresh, source, status, counts):
    fresh.write("test_b.py", source)
    run = fresh.run("--perfguard", "--continue-on-collection-errors", "--perfguard-report=report.json")
    assert (run.status, run.counts) == (status, counts), run.text
    assert fresh.report()["summary"]["unused"] == []
    # A file that pytest got nothing of is named; a test that a marker skips is counted in another line.
    not_collected = "not collected, so their baselines were not compared: test_b.py"
    assert (not_collected in run.out) is ("mark.skip" not in source)


def test_the_report_goes_where_it_was_asked_even_if_a_test_changes_directory(project, tmp_path):
    project.write(
        "test_cd.py",
        "import os\n\n"
        "def test_cd(perfguard):\n"
        f"    os.chdir({str(tmp_path)!r})\n"
        f"    perfguard.replay({str(RECORDINGS / 'torch-mlp')!r})\n",
    )
    run = project.run("--perfguard-update", "--perfguard-report=report.json")
    assert run.status == 0
    assert (project.directory / "report.json").is_file()


# -- what the settings take from a verdict ------------------------------------------------------------------------------


MARK = "@pytest.mark.perfguard"
ALLOWED = "1 worse, allowed by a tolerance (memory_allocated_bytes)"


@pytest.mark.parametrize(
    ("settings", "marker", "line"),
    [
        ('ignore = ["R"]', "", "ignored 1 (R102; ignore in pyproject.toml)"),
        ("", f"{MARK}(ignore=['R102'])", "ignored 1 (R102; ignore of the test)"),
        ("", f"{MARK}(tolerance={{'memory_allocated_bytes': 1e9}})", ALLOWED),
        ("", f"{MARK}(tolerance={{'memory_allocated_bytes': 'off'}})", ALLOWED),
    ],
)
@pytest.mark.parametrize("options", [(), ("-q",), ("-v",)], ids=["", "-q", "-v"])
@pytest.mark.variants(1)
def test_a_worse_number_that_the_settings_let_pass_is_counted_in_the_last_line(
    project, settings, marker, line, options
):
    project.replays(test_one="torch-mlp")
    assert project.run("--perfguard-update").status == 0
    (path,) = (project.directory / "baselines").glob("*.json")
    stored = json.loads(path.read_text())
    for one in stored["measurements"]:
        if one["metric"] == "memory_allocated_bytes":
            one["value"] = 1
    path.write_text(json.dumps(stored))
    assert project.run("--perfguard").status == 1
    project.settings(settings)
    project.write("test_a.py", f"import pytest\n{marker}\n{(project.directory / 'test_a.py').read_text()}")
    run = project.run("--perfguard", *options)
    assert run.status == 0
    assert run.line(line).removeprefix("perfguard: ") == line


def test_a_test_of_several_measurements_is_left_out_by_its_name(project):
    recording = str(RECORDINGS / "torch-mlp")
    project.write("test_a.py", f"def test_one(perfguard):\n    perfguard.replay({recording!r}, name='decode')\n")
    project.replays("test_b.py", test_two="torch-mlp")
    assert project.run("--perfguard-update").status == 0
    configured(project, "--deselect=test_a.py::test_one")
    run = project.run("--perfguard")
    assert run.line("left out by addopts in").endswith("not gated: test_a.py::test_one")
