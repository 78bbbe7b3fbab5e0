"""`perfguard baseline refresh | show | diff | move | prune`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from perfguard.capture import command
from perfguard.capture.command import Ended
from perfguard.judge.calibration import Calibrated
from perfguard.stores import directory
from perfguard.stores.calibration import Calibration, read_calibration, write_calibration
from perfguard.stores.directory import BaselineDirectory
from tests.cli import RECORDINGS, TORCH, copied, report_file, run, stored

MLP = "tests/test_nets.py::test_mlp"
CNN = "tests/test_nets.py::test_cnn[graph]"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """An empty project, in which every command is called."""
    (tmp_path / "pyproject.toml").write_text("[tool.perfguard]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def two(project):
    """Baselines of two workloads whose test file exists."""
    (project / "tests").mkdir()
    (project / "tests" / "test_nets.py").write_text("")
    return stored(project / "baselines", MLP, CNN, commit="0123456789abcdef0123", reason="first")


# -- refresh -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def replayed(project):
    """A project with a test for each way a recording may differ from its baseline, and one that fails by itself."""
    tests = ["from pathlib import Path", "def test_red():\n    assert 0"]
    for name in ("fresh", "kept", "other", "invalid", "worse", "better"):
        tests.append(f"def test_{name}(perfguard):\n    perfguard.replay(Path(__file__).parent / {name!r})")
        copied(TORCH, project / name, replace=('"aten::addmm"', '"aten::baddbmm"') if name == "other" else None)
    (project / "test_a.py").write_text("\n\n\n".join(tests))
    next((project / "invalid" / "profiler").glob("*.json")).write_text("[]")
    stored(project / "baselines", *(of(name) for name in ("kept", "other", "invalid", "worse", "better")))
    bent(project, of("worse"), "operator_calls", "aten::addmm", 0)
    bent(project, of("better"), "peak_memory_bytes", "cpu", 10**9)
    return project


def of(name: str) -> str:
    return f"test_a.py::test_{name}"


@pytest.fixture
def refresh(capfd):
    """Return a function that refreshes baselines: pytest is a process of its own. It returns the exit code and what is said."""

    def refresh(*arguments: str) -> tuple[int, str]:
        found = run("baseline", "refresh", *arguments)
        return found.exit_code, capfd.readouterr().out

    return refresh


def baseline_files(project: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project / "baselines").glob("*.json")}


def bent(project: Path, workload: str, metric: str, subject: str, value: float) -> None:
    """Store another number in a baseline."""
    store = BaselineDirectory(project / "baselines")
    found = store.load(workload)
    assert found is not None
    numbers = tuple(replace(m, value=value) if m.key == (metric, subject) else m for m in found.measurements)
    assert numbers != found.measurements
    store.save(replace(found, measurements=numbers))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_refresh_creates_keeps_and_shows_before_and_after_of_what_it_updates(replayed, refresh):
    before = baseline_files(replayed)
    status, said = refresh("--reason", "the first one", "-k", "fresh or kept or other")
    assert status == 0, said
    assert "baselines: 1 created, 1 updated, 1 kept" in said
    assert f"created: {of('fresh')}" in said
    assert f"updated: {of('other')}" in said
    assert "  changed: operator_calls[aten::addmm] is gone: 2 calls/step" in said.splitlines()
    assert "  changed: operator_calls[aten::baddbmm] is new: 2 calls/step" in said.splitlines()
    after = baseline_files(replayed)
    document = json.loads(after.pop("test_a--test_fresh.json"))
    assert (document["workload"], document["reason"]) == (of("fresh"), "the first one")
    assert {name for name in before if after[name] != before[name]} == {"test_a--test_other.json"}


@pytest.mark.slow
def test_refresh_refuses_what_is_invalid_and_what_is_worse_without_a_reason(replayed, refresh):
    before = baseline_files(replayed)
    status, said = refresh("-k", "invalid or worse")
    assert status == 3, said
    assert f"refused: {of('invalid')}" in said
    assert f"refused: {of('worse')}" in said
    assert said.count("worse: operator_calls[aten::addmm] 0 → 2 calls/step\n") == 1
    assert baseline_files(replayed) == before

    status, said = refresh(of("worse"), "--reason", "two layers now")
    assert status == 0, said
    assert f"updated: {of('worse')}" in said
    assert "  worse: operator_calls[aten::addmm] 0 → 2 calls/step" in said.splitlines()
    assert json.loads(baseline_files(replayed)["test_a--test_worse.json"])["reason"] == "two layers now"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_ratchet_stores_what_improved_and_fails_what_is_worse(replayed, refresh):
    before = baseline_files(replayed)
    status, said = refresh("--ratchet", "-k", "better")
    assert status == 0, said
    assert "better: peak_memory_bytes[cpu] 954 → 0.00148 MiB" in said
    status, said = refresh("--ratchet", "-k", "worse")
    assert status == 1, said
    assert "R102 operator_calls[aten::addmm] 0 → 2" in said
    after = baseline_files(replayed)
    assert {name for name in before if after[name] != before[name]} == {"test_a--test_better.json"}


def test_new_only_and_ratchet_contradict_each_other():
    found = run("baseline", "refresh", "--new-only", "--ratchet")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == "perfguard: --new-only and --ratchet contradict each other; give one of them.\n"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_new_only_judges_what_is_there(replayed, refresh):
    before = baseline_files(replayed)
    status, said = refresh("--new-only", of("worse"))
    assert status == 1
    assert "R102 operator_calls[aten::addmm]" in said
    assert baseline_files(replayed) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, exit_code", [(("-k", "red"), 1), (("-k", "nothing_is_called_so"), 4), (("--no-such-option",), 2)]
)
@pytest.mark.variants(1)
def test_the_exit_code_of_refresh_follows_pytests(project, refresh, arguments, exit_code):
    (project / "test_red.py").write_text("def test_red():\n    assert 0\n")
    assert refresh(*arguments)[0] == exit_code


@pytest.mark.parametrize(
    "arguments, handed_on",
    [
        ([], ["--perfguard", "--perfguard-update"]),
        (["--new-only"], ["--perfguard", "--perfguard-update-new-only"]),
        (["--ratchet", "t"], ["--perfguard", "--perfguard-ratchet", "t"]),
        (["-k", "a and b", "tests"], ["--perfguard", "--perfguard-update", "-k", "a and b", "tests"]),
        (["tests", "-p", "no:x"], ["--perfguard", "--perfguard-update", "tests", "-p", "no:x"]),
        (["-x", "-rA", "-vv"], ["--perfguard", "--perfguard-update", "-x", "-rA", "-vv"]),
        (["--", "-h"], ["--perfguard", "--perfguard-update", "-h"]),
        (["--", "-k", "x"], ["--perfguard", "--perfguard-update", "-k", "x"]),
        (["--perfguard-time=off"], ["--perfguard", "--perfguard-update", "--perfguard-time=off"]),
        (["--perfguard-reason", "w"], ["--perfguard", "--perfguard-update", "--perfguard-reason", "w"]),
        (["t", "--reason", "-a b"], ["--perfguard", "--perfguard-update", "--perfguard-reason=-a b", "t"]),
        (["-knew"], ["--perfguard", "--perfguard-update", "-knew"]),
    ],
)
def test_everything_else_is_handed_to_pytest_as_it_is(monkeypatch, arguments, handed_on):
    called = []

    def instead(asked: list[str], **_: object) -> Ended:
        called.append(asked)
        return Ended(status=0)

    monkeypatch.setattr(command, "run_command", instead)
    assert run("baseline", "refresh", *arguments).exit_code == 0
    # A report of its own tells the command an INVALID capture from a regression.
    (asked,) = called
    assert [one for one in asked if not one.startswith("--perfguard-report=/")] == [*command.PYTEST, *handed_on]


# -- show ----------------------------------------------------------------------------------------------------------------


def test_show_lists_every_baseline(two):
    found = run("baseline", "show")
    assert found.exit_code == 0
    rows = [line.split() for line in found.stdout.splitlines()]
    assert rows[0] == ["workload", "measurements", "runs", "commit", "reason"]
    assert [(row[0], row[2], row[3], row[4]) for row in rows[2:]] == [
        (CNN, "1", "0123456789ab", "first"),
        (MLP, "1", "0123456789ab", "first"),
    ]


@pytest.mark.parametrize(
    ("commit", "reason"),
    [("12345678901234", "007"), ("0123456789012345", "1e5"), ("1234567e890123", "nan"), ("00000e00000012", None)],
)
def test_show_prints_commit_and_reason_as_they_are(project, commit, reason):
    stored(project / "baselines", MLP, commit=commit, reason=reason)
    row = run("baseline", "show").stdout.splitlines()[2].split()
    assert row[3:] == [commit[:12], reason or "-"]


@pytest.mark.parametrize("name", [MLP, "test_mlp", "::test_mlp", "test_nets.py::test_mlp"])
def test_show_prints_one_by_its_id_or_the_ending_of_it(two, name):
    found = run("baseline", "show", name)
    lines = found.stdout.splitlines()
    assert found.exit_code == 0
    assert lines[0] == f"{MLP}: 1 run, commit 0123456789abcdef0123, reason first"
    assert "  backend: torch" in lines
    assert "  python: 3.11.7" in lines
    assert ["operator_calls[aten::addmm]", "2", "calls/step"] in [line.split() for line in lines]


def test_an_exact_id_is_meant_even_where_it_ends_another(project):
    stored(project / "baselines", "a.py::test_x", "b/a.py::test_x")
    assert run("baseline", "show", "a.py::test_x").stdout.startswith("a.py::test_x: ")


def test_an_ending_of_several_is_ambiguous_and_names_them(project):
    stored(project / "baselines", "a.py::test_x", "b.py::test_x")
    found = run("baseline", "show", "test_x")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "'test_x' names 2 baselines: a.py::test_x, b.py::test_x" in found.stderr


@pytest.mark.parametrize(
    "name, hint",
    [("tests/test_nets.py::test_mpl", f"did you mean '{MLP}'?"), ("zzz", "list them with: perfguard baseline show")],
)
def test_an_unknown_baseline_is_named_with_the_next_step(two, name, hint):
    found = run("baseline", "show", name)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == f"perfguard: There is no baseline of {name!r}; {hint}\n"


def test_an_empty_name_is_no_ending(project):
    stored(project / "baselines", MLP)
    assert run("baseline", "show", "").exit_code == 2


def test_what_a_file_says_is_escaped(project):
    stored(project / "baselines", "a.py::test_\x1b[31m", reason="\x1b[2J gone\nsecond line", commit="\x1b[0m")
    for arguments in (("show",), ("show", "a.py::test_\x1b[31m"), ("show", "\x1b"), ("prune",)):
        found = run("baseline", *arguments, answer="n\n")
        assert not [c for c in found.output if not c.isprintable() and c != "\n"]
        assert "\nsecond line" not in found.output


def test_ambiguous_names_are_escaped(project):
    stored(project / "baselines", "a\x1b[31m.py::test_x", "b\x1b[31m.py::test_x")
    assert "\x1b" not in run("baseline", "show", "test_x").stderr


def test_an_empty_directory_shows_nothing(project):
    (project / "baselines").mkdir()
    assert run("baseline", "show").exit_code == 4


@pytest.mark.parametrize(
    "arguments", [("show",), ("show", "x"), ("diff", "report.json"), ("prune",), ("prune", "x"), ("move", "x", "y")]
)
def test_without_a_directory_the_command_that_makes_one_is_named(project, arguments):
    report_file(project / "report.json", mlp=TORCH)
    found = run("baseline", *arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"perfguard: There are no baselines in {project / 'baselines'}; "
        "record them with: pytest --perfguard --perfguard-update\n"
    )


@pytest.mark.parametrize("where", ["option", "settings", "settings from below"])
def test_baselines_may_lie_elsewhere(project, monkeypatch, where):
    stored(project / "kept" / "here", MLP)
    if where == "option":
        found = run("baseline", "show", "--baselines", "kept/here")
    else:
        (project / "pyproject.toml").write_text('[tool.perfguard]\nbaselines = "kept/here"\n')
        if where == "settings from below":
            monkeypatch.chdir(project / "kept")
        found = run("baseline", "show")
    assert found.exit_code == 0
    assert MLP in found.stdout


@pytest.mark.parametrize("text, message", [("{", "is damaged"), ('{"format": 7}', "has format 7")])
@pytest.mark.parametrize("arguments", [("show",), ("prune", "--yes"), ("diff", "report.json"), ("move", MLP, CNN)])
def test_a_damaged_baseline_is_said_in_one_sentence_and_nothing_is_deleted(two, project, arguments, text, message):
    report_file(project / "report.json", **{MLP: TORCH})
    path = two.path(MLP)
    path.write_text(text)
    found = run("baseline", *arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"{path} {message}" in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert path.read_text() == text


# -- diff ----------------------------------------------------------------------------------------------------------------


def test_a_report_that_equals_the_baselines_differs_in_nothing(two, project):
    found = run("baseline", "diff", report_file(project / "report.json", **{MLP: TORCH, CNN: TORCH}))
    assert found.exit_code == 0
    assert [line for line in found.stdout.splitlines() if line.startswith("PASSED")][:2] == [
        f"PASSED {MLP}",
        f"PASSED {CNN}",
    ]


def test_a_report_with_another_operator_differs(two, project):
    bent(project, CNN, "operator_calls", "aten::mm", 0)
    renamed = copied(TORCH, project / "renamed", replace=('"aten::addmm"', '"aten::baddbmm"'))
    found = run("baseline", "diff", report_file(project / "report.json", **{MLP: renamed, CNN: TORCH}))
    assert found.exit_code == 1
    assert f"CHANGED {MLP}" in found.stdout.splitlines()
    assert f"FAILED {CNN}" in found.stdout.splitlines()
    assert "  R102 operator_calls[aten::mm] 0 → 3 calls/step, +3 (added work: " in found.stdout


@pytest.mark.parametrize(
    "workloads, exit_code, line",
    [
        ({"new.py::test_new": TORCH}, 4, "  B101 no baseline to compare with: there is none"),
        ({MLP: RECORDINGS / "torch-repeat2"}, 4, "  B102 the baseline belongs to another fingerprint: window: "),
        ({}, 4, ""),
    ],
)
def test_a_report_without_anything_to_compare_is_not_green(two, project, workloads, exit_code, line):
    found = run("baseline", "diff", report_file(project / "report.json", **workloads))
    assert found.exit_code == exit_code
    assert line in found.stdout


def test_an_invalid_recording_in_a_report_stays_invalid(two, project):
    torn = copied(TORCH, project / "torn")
    next((torn / "profiler").glob("*.json")).write_text("[]")
    found = run("baseline", "diff", report_file(project / "report.json", **{MLP: torn}))
    assert found.exit_code == 3
    assert f"INVALID {MLP}" in found.stdout


def test_a_missing_report_is_named_with_the_command_that_writes_it(two, project):
    found = run("baseline", "diff", "no.json")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        "perfguard: no.json does not exist; write a report with: pytest --perfguard --perfguard-report no.json\n"
    )


def test_a_directory_is_no_report(two, project):
    found = run("baseline", "diff", project)
    assert found.exit_code == 2
    assert f"{project} cannot be read: it is not a regular file." in found.stderr


def test_a_diff_writes_nothing(two, project):
    before = baseline_files(project)
    renamed = copied(TORCH, project / "renamed", replace=('"aten::addmm"', '"aten::baddbmm"'))
    run("baseline", "diff", report_file(project / "report.json", **{MLP: renamed}))
    assert baseline_files(project) == before


# -- move ----------------------------------------------------------------------------------------------------------------


def test_move_renames_a_test_with_all_it_measured_and_changes_no_number(two, project):
    stored(
        project / "baselines",
        f"{MLP}#decode",
        f"{MLP}[4]",
        f"{MLP}_wide",
        commit="0123456789abcdef0123",
        reason="first",
    )
    new = "tests/test_nets.py::test_dense"
    before = {name: two.load(name) for name in two.workloads()}
    found = run("baseline", "move", MLP, new)
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == [
        f"moved: {MLP} → {new}",
        f"moved: {MLP}#decode → {new}#decode",
        f"moved: {MLP}[4] → {new}[4]",
        "3 baselines moved",
    ]
    assert two.workloads() == sorted([CNN, f"{MLP}_wide", new, f"{new}#decode", f"{new}[4]"])
    for old, ending in ((MLP, ""), (f"{MLP}#decode", "#decode"), (f"{MLP}[4]", "[4]")):
        renamed, was = two.load(new + ending), before[old]
        assert renamed == replace(
            was, workload=new + ending, fingerprint=replace(was.fingerprint, workload=new + ending)
        )


@pytest.mark.parametrize(
    "old, new, ids",
    [
        (
            "tests/test_nets.py",
            "tests/test_models.py",
            ["tests/test_models.py::test_cnn[graph]", "tests/test_models.py::test_mlp"],
        ),
        ("tests/", "./unit", ["unit/test_nets.py::test_cnn[graph]", "unit/test_nets.py::test_mlp"]),
        (MLP, "unit/test_mlp.py::Case::test_mlp", [CNN, "unit/test_mlp.py::Case::test_mlp"]),
    ],
)
def test_move_renames_whole_files_and_directories(two, old, new, ids):
    assert run("baseline", "move", old, new).exit_code == 0
    assert two.workloads() == sorted(ids)


def test_a_move_that_was_killed_is_finished_by_the_next(two):
    """Killed between two files: one baseline is stored under both names."""
    baseline = two.load(MLP)
    two.save(baseline.named("tests/test_later.py::test_mlp"))
    assert run("baseline", "move", MLP, "tests/test_later.py::test_mlp").exit_code == 0
    assert two.workloads() == sorted([CNN, "tests/test_later.py::test_mlp"])


def test_move_takes_the_calibration_along(two, project):
    calibrated = Calibrated(metric="steps", runs=20, values=1, tolerance=0.0)
    calibration = Calibration(runs=20, machine=("a", 2, "a"), workloads={MLP: (calibrated,), CNN: ()}, error_rate=None)
    write_calibration(calibration, two.directory)
    found = run("baseline", "move", MLP, "tests/test_nets.py::test_dense")
    assert found.stdout.splitlines()[-1] == "1 baseline moved, and their calibration"
    moved = read_calibration(two.directory)
    assert moved is not None
    assert moved.workloads == {"tests/test_nets.py::test_dense": (calibrated,)}


@pytest.mark.parametrize(
    "old, new, why",
    [
        (MLP, CNN, f"'{CNN}' has a baseline already, so nothing was moved; "
         f"to see which of the two is right: perfguard baseline show '{CNN}'"),
        (MLP, MLP, f"'{MLP}' has a baseline already"),
        ("tests/test_nets.py", "tests/test_other.py", "'tests/test_other.py::test_mlp' has a baseline already"),
        ("tests/test_net.py", "tests/test_a.py",
         "There is no baseline of 'tests/test_net.py'; did you mean 'tests/test_nets.py'?"),
        ("tests/test_nets.py::test_mpl", "x", f"There is no baseline of 'tests/test_nets.py::test_mpl'; did you mean '{MLP}'?"),
        ("test_cnn", "x", "There is no baseline of 'test_cnn'; did you mean 'tests/test_nets.py::test_cnn'?"),
        ("zzz", "x", "There is no baseline of 'zzz'; list them with: perfguard baseline show"),
        (MLP, "tests/test_models.py", f"'{MLP}' is a test, and 'tests/test_models.py' is a file; name two of one kind."),
        ("tests", "tests/test_models.py", "'tests' is a directory, and 'tests/test_models.py' is a file"),
        ("tests", "..", "'..' is no test, file or directory as baselines are named; see: perfguard baseline show"),
        ("tests", "", "'' is no test, file or directory as baselines are named"),
        ("tests", "/tmp/tests", "'/tmp/tests' is no test, file or directory as baselines are named"),
    ],
)  # fmt: skip
def test_a_move_that_means_nothing_or_would_overwrite_is_refused(two, project, old, new, why):
    stored(project / "baselines", "tests/test_other.py::test_mlp")
    before = baseline_files(project)
    found = run("baseline", "move", old, new)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith(f"perfguard: {why}")
    assert len(found.stderr.splitlines()) == 1
    assert baseline_files(project) == before


def test_a_move_waits_for_whoever_writes(two, monkeypatch):
    monkeypatch.setattr(directory, "_LOCK_SECONDS", 0.1)
    with FileLock(two._lock_path()):
        found = run("baseline", "move", MLP, "tests/test_nets.py::test_dense")
    assert (found.exit_code, two.workloads()) == (2, [CNN, MLP])
    assert "has been locked by another run" in found.stderr


# -- prune ---------------------------------------------------------------------------------------------------------------


def test_prune_has_nothing_to_do_where_every_test_file_exists(two, project):
    found = run("baseline", "prune", "--yes")
    assert found.exit_code == 0
    assert found.stdout == (
        "nothing to prune: the file of every baseline's test exists; name a workload to delete its baseline\n"
    )
    assert len(baseline_files(project)) == 2


def test_prune_asks_and_deletes_what_has_no_test_file(two, project):
    stored(project / "baselines", "tests/test_gone.py::test_old")
    found = run("baseline", "prune", answer="y\n")
    assert found.exit_code == 0
    assert found.stdout.splitlines()[0] == "unused: tests/test_gone.py::test_old"
    assert "Delete 1 baseline?" in found.stdout
    assert found.stdout.splitlines()[-1] == "1 deleted"
    assert two.workloads() == [CNN, MLP]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_prune_deletes_nothing_without_a_yes(two, project, answer):
    stored(project / "baselines", "tests/test_gone.py::test_old")
    found = run("baseline", "prune", answer=answer)
    assert two.workloads() == ["tests/test_gone.py::test_old", CNN, MLP]
    assert found.exit_code != 1, "1 means a regression"


def test_prune_yes_does_not_ask(two, project):
    stored(project / "baselines", "tests/test_gone.py::test_gone", "tests/test_gone.py::test_too")
    found = run("baseline", "prune", "--yes")
    names = "unused: tests/test_gone.py::test_gone\nunused: tests/test_gone.py::test_too\n"
    assert (found.exit_code, found.stdout) == (0, f"{names}2 deleted\n")
    assert sorted(two.workloads()) == sorted([CNN, MLP])


def test_prune_refuses_where_no_test_of_any_baseline_is(two, project):
    """It would delete every baseline of a project whose root is elsewhere."""
    (project / "tests" / "test_nets.py").unlink()
    found = run("baseline", "prune", "--yes")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "run this where pytest runs, or name the workloads to delete" in found.stderr
    assert sorted(two.workloads()) == sorted([CNN, MLP])


def test_prune_deletes_the_named_ones_only(two, project):
    found = run("baseline", "prune", "--yes", "test_mlp")
    assert found.exit_code == 0
    assert found.stdout.splitlines()[-1] == "1 deleted"
    assert two.workloads() == [CNN]


def test_prune_counts_a_baseline_named_twice_once(two):
    found = run("baseline", "prune", "--yes", "test_mlp", MLP)
    assert found.stdout.splitlines()[-1] == "1 deleted"


def test_prune_of_an_unknown_name_deletes_nothing(two):
    found = run("baseline", "prune", "--yes", MLP, "test_mpl")
    assert found.exit_code == 2
    assert "There is no baseline of 'test_mpl'; " in found.stderr
    assert two.workloads() == [CNN, MLP]


def test_prune_of_an_empty_name_deletes_nothing(project):
    store = stored(project / "baselines", MLP)
    found = run("baseline", "prune", "--yes", "")
    assert found.exit_code == 2
    assert store.workloads() == [MLP]


def test_prune_finds_test_files_from_a_directory_below(two, project, monkeypatch):
    monkeypatch.chdir(project / "tests")
    assert run("baseline", "prune", "--yes").stdout.startswith("nothing to prune")
    assert len(baseline_files(project)) == 2
