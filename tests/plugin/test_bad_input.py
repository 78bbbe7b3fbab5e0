"""Bad input: each is one clear sentence that names the next command, and nothing that was there before is lost."""

from __future__ import annotations

import json
import re
import resource
import shutil
import sys

import pytest

from perfguard.version import install_command, upgrade_command
from tests.plugin.conftest import RECORDINGS, Project

pytestmark = pytest.mark.slow

REPLAY = f"perfguard.replay({str(RECORDINGS / 'torch-mlp')!r})"
BASELINE = "baselines/test_a--test_one.json"


@pytest.fixture(scope="module")
def recorded_once(module_project) -> Project:
    project: Project = module_project("recorded")
    project.replays(test_one="torch-mlp", test_two="torch-repeat2")
    assert project.run("--perfguard-update").status == 0
    return project


@pytest.fixture
def recorded(recorded_once, tmp_path) -> Project:
    """Two tests with baselines, that a test may damage."""
    return recorded_once.copy(tmp_path / "project")


# -- refused before any test runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        "--perfguard-report=x.json",
        "--perfguard-time=off",
        "--perfguard-time=on",
        "--perfguard-reason=why",
        "--perfguard-recordings=x",
        "--perfguard-baselines=x",
    ],
)
def test_an_option_that_would_do_nothing_is_refused(recorded, option):
    run = recorded.run(option)
    flag = option.partition("=")[0]
    assert (run.status, run.counts) == (4, {})
    assert run.line(flag) == (f"ERROR: {flag} does nothing without --perfguard; run: pytest --perfguard {flag} ...")
    assert not (recorded.directory / "x.json").exists()


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ("baseline = 'x'", "[tool.perfguard].baseline is not a known key; did you mean 'baselines'?"),
        ("window = { activ = 3 }", "window.activ is not a known key; did you mean 'active'?"),
        ("window = { active = 0 }", "[tool.perfguard].window.active must be an integer of at least 1, got 0."),
        ("timed_steps = 0", "timed_steps must be an integer of at least 1, got 0"),
        ("unused = 'ignore'", "[tool.perfguard].unused must be one of fail, warn, got 'ignore'."),
        ("time = 'never'", "[tool.perfguard].time must be one of on, off, got 'never'."),
        ("ignore = ['R999']", "There is no finding code 'R999' to ignore"),
        ("tool = = 3", "is not valid TOML"),
        ("[tool.perfguard.tolerance]\nstep_tme = 0.25", "did you mean 'step_time'?"),
    ],
)
def test_a_setting_that_is_wrong_is_refused_before_any_test_runs(project, settings, sentence):
    table = settings if settings.startswith("[") else f"[tool.perfguard]\n{settings}"
    project.write("pyproject.toml", f"{table}\n")
    project.replays(test_one="torch-mlp")
    run = project.run("--perfguard", "-c", "/dev/null", "--rootdir=.")
    assert (run.status, run.counts) == (4, {}), run.text
    assert run.line(sentence).startswith("ERROR: perfguard: ")


@pytest.mark.parametrize(
    "options",
    [
        ("--perfguard-update", "--perfguard-update-new-only"),
        ("--perfguard-update", "--perfguard-ratchet"),
        ("--perfguard-update-new-only", "--perfguard-ratchet"),
    ],
)
def test_two_ways_to_update_contradict_each_other(recorded, options):
    run = recorded.run(*options)
    assert run.status == 4
    assert f"{' and '.join(options)} contradict each other; give one of them." in run.line("contradict")


@pytest.mark.exhaustive
def test_a_value_that_moves_the_rootdir_is_refused_and_nothing_is_written(project):
    inside = Project(project.directory / "own")
    inside.settings("baselines = 'mine'")
    inside.replays(test_one="torch-mlp")
    report = project.write("elsewhere/r.json", "{}")

    def written() -> list[str]:
        return sorted(str(one.parent.relative_to(project.directory)) for one in project.directory.rglob("test_a*.json"))

    wrong = {}
    values = {
        "--perfguard-report": "../elsewhere/r.json",
        "--perfguard-html": "../elsewhere/r.json",
        "--perfguard-baselines": "../elsewhere",
        "--perfguard-recordings": "../elsewhere",
        "--perfguard-reason": "..",
    }
    for flag, value in values.items():
        run = inside.run("--perfguard-update", flag, value)
        if (run.status, f"Write {flag}={value}" in run.text) != (4, True):
            wrong[flag] = run.text
    run = inside.run("--perfguard-update", env={"PYTEST_ADDOPTS": "--perfguard-report ../elsewhere/r.json"})
    assert (run.status, "Write --perfguard-report=../elsewhere/r.json" in run.text) == (4, True)
    assert (wrong, written(), report.read_text(encoding="utf-8")) == ({}, [], "{}")
    inside.write("r.json", "{}")
    # The other spelling, an option of pytest's own, and a value that moves nothing.
    for words in (
        ("--perfguard-report=../elsewhere/r.json",),
        ("--junitxml", "../elsewhere/r.json"),
        ("--perfguard-report", "r.json"),
    ):
        run = inside.run("--perfguard-update", *words)
        assert (run.status, written()) == (0, ["own/mine"]), run.text


@pytest.mark.parametrize(
    "arguments, option",
    [
        (("--perfguard-update", "--perfguard-baselines=file/baselines"), "--perfguard-baselines DIR"),
        (("--perfguard", "--perfguard-report=file/report.json"), "--perfguard-report FILE"),
        (("--perfguard", "--perfguard-report=baselines"), "--perfguard-report FILE"),
        (("--perfguard", "--perfguard-recordings=file/recordings"), "--perfguard-recordings DIR"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1],
)
@pytest.mark.variants(2)
def test_a_place_that_cannot_be_written_is_refused_before_any_test_runs(recorded, arguments, option):
    recorded.write("file", "not a directory")
    before = recorded.baselines
    run = recorded.run(*arguments)
    assert (run.status, run.counts) == (4, {}), run.text
    assert run.line("cannot be written").endswith(option + ".")
    assert recorded.baselines == before


# -- wrong in one test: that test fails, its neighbours do not -----------------------------------------------------------

WRONG = f"""
import perfguard as pg
import pytest

@pytest.mark.perfguard(backend="tensorflow")
def test_unknown_backend(perfguard):
    perfguard(print)

@pytest.mark.perfguard(backend=["torch"])
def test_backend_is_no_name(perfguard):
    perfguard(print)

@pytest.mark.perfguard(backend="replay")
def test_replay_runs_no_step(perfguard):
    perfguard(print)

def test_no_backend_named(perfguard):
    perfguard(print)

@pytest.mark.perfguard(windw=3)
def test_unknown_keyword(perfguard):
    perfguard(print)

@pytest.mark.perfguard(pg.StepWindow())
def test_positional(perfguard):
    perfguard(print)

@pytest.mark.perfguard(window=5)
def test_no_window(perfguard):
    perfguard(print)

@pytest.mark.perfguard(tolerance={{"step_time": -1}})
def test_tolerance(perfguard):
    perfguard(print)

@pytest.mark.perfguard(ignore="R102")
def test_ignore_is_no_list(perfguard):
    {REPLAY}

def test_missing_directory(perfguard):
    perfguard.replay("no/such/directory")

def test_empty_directory(perfguard, tmp_path):
    perfguard.replay(tmp_path)

def test_same_name_twice(perfguard):
    perfguard.replay({str(RECORDINGS / "torch-mlp")!r}, name="one")
    perfguard.replay({str(RECORDINGS / "torch-mlp")!r}, name="one")

def test_neighbour(perfguard):
    {REPLAY}
"""


@pytest.fixture(scope="module")
def wrong(module_project):
    project: Project = module_project("wrong")
    project.write("test_w.py", WRONG)
    return project.run("--perfguard-update", "-rA"), project


@pytest.mark.parametrize(
    "test, sentence",
    [
        (
            "test_unknown_backend",
            "There is no backend 'tensorflow' to run a step with; known are mindspore, torch, replay.",
        ),
        ("test_backend_is_no_name", "@pytest.mark.perfguard(...): backend must be a string, got ['torch']"),
        (
            "test_replay_runs_no_step",
            "There is no backend 'replay' to run a step with; replay runs no step: use perfguard.replay(directory).",
        ),
        (
            "test_no_backend_named",
            "mindspore and torch are installed, so perfguard cannot tell which profiler to use; write "
            '@pytest.mark.perfguard(backend="torch") or backend = "torch" in [tool.perfguard].',
        ),
        ("test_unknown_keyword", "@pytest.mark.perfguard(...): windw is not a known key; did you mean 'window'?"),
        (
            "test_positional",
            "@pytest.mark.perfguard takes keywords only, such as window=perfguard.StepWindow(active=5).",
        ),
        ("test_no_window", "@pytest.mark.perfguard(...): window must be a perfguard.StepWindow(...), got 5."),
        ("test_tolerance", "@pytest.mark.perfguard(tolerance=...) step_time must be a fraction (0.25 is 25 %), "),
        ("test_ignore_is_no_list", "@pytest.mark.perfguard(...): ignore must be a list of finding codes, such as"),
        ("test_missing_directory", "no/such/directory does not exist; name a directory that a profiler wrote"),
        ("test_same_name_twice", "perfguard was called twice with name='one' in test_w.py::test_same_name_twice;"),
    ],
)
@pytest.mark.variants(3)
def test_a_wrong_call_fails_its_own_test_with_one_sentence(wrong, test, sentence):
    if test == "test_no_backend_named":
        pytest.importorskip("mindspore", reason="it takes both frameworks not to know which one is meant")
    run, _ = wrong
    said = run.line(f"FAILED test_w.py::{test} - ").partition(" - ")[2]
    assert re.sub(r"^(Failed: perfguard: )test_w\.py:\d+: ", r"\1", said).startswith(f"Failed: perfguard: {sentence}")


def test_a_directory_without_a_recording_is_invalid(wrong):
    run, _ = wrong
    line = run.line("FAILED test_w.py::test_empty_directory")
    assert "perfguard INVALID: A101 no profiler output of a known layout" in line


def test_the_neighbour_of_wrong_calls_is_unharmed(wrong):
    run, project = wrong
    assert "PASSED test_w.py::test_neighbour" in run.out
    assert project.workloads == ["test_w.py::test_neighbour"]


BLOCKED = """
import importlib.metadata
import sys

FRAMEWORKS = ("torch", "mindspore")

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FRAMEWORKS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
HIDDEN = """
version = importlib.metadata.version

def version_of_others(name):
    if name in FRAMEWORKS:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)

importlib.metadata.version = version_of_others
"""


@pytest.mark.parametrize("conftest", [BLOCKED + HIDDEN, BLOCKED], ids=["not installed", "cannot be imported"])
@pytest.mark.variants(1)
def test_a_missing_framework_is_one_sentence_with_the_pip_command(project, conftest):
    project.write("conftest.py", conftest)
    tests = [
        f"@pytest.mark.perfguard(backend={framework!r})\ndef test_{framework}(perfguard):\n    perfguard(print)\n\n"
        for framework in ("torch", "mindspore")
    ]
    project.write("test_f.py", f"import pytest\n\n{''.join(tests)}def test_neighbour(perfguard):\n    {REPLAY}\n")
    run = project.run("--perfguard", "--perfguard-update")
    assert (run.status, run.counts) == (1, {"failed": 2, "passed": 1}), run.text
    for framework in ("torch", "mindspore"):
        line = run.line(f"FAILED test_f.py::test_{framework}")
        assert f"perfguard: The {framework} backend needs {framework}, and it" in line.replace("MindSpore", "mindspore")
        assert f"Run: {install_command(framework)}" in line


# -- baselines ----------------------------------------------------------------------------------------------------------

RESTORE = (
    'Restore it from version control, or replace it: pytest --perfguard --perfguard-update --perfguard-reason "..."'
)
DAMAGED = {
    "empty": (b"", "is damaged: it is empty.", RESTORE),
    "conflict": (
        b"{\n<<<<<<< HEAD\n}\n=======\n]\n>>>>>>> b\n",
        "is damaged: it has a merge conflict (line 2); take one side: git checkout --ours ",
        RESTORE,
    ),
    "pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "is damaged: it is a pointer of Git LFS, not the file itself; run: git lfs pull.",
        RESTORE,
    ),
    "cut": (b"{", "is damaged", RESTORE),
    "deep": (b"[" * 100_000, "is damaged", RESTORE),
    "bytes": (b"\xff\xfe", "is damaged", RESTORE),
    "list": (b"[]", "is damaged", RESTORE),
    "bare": (b'{"format": 1}', "is damaged", RESTORE),
    "newer": (
        b'{"format": 99}',
        "has format 99, but this perfguard reads formats up to 1",
        upgrade_command(),
    ),
}


@pytest.fixture(scope="module")
def damaged(module_project):
    """One test with a good baseline, and one with each kind of damaged baseline."""
    project: Project = module_project("damaged")
    project.replays(**{f"test_{name}": "torch-mlp" for name in ("good", *DAMAGED)})
    assert project.run("--perfguard-update").status == 0
    for name, (content, _, _) in DAMAGED.items():
        (project.directory / "baselines" / f"test_a--test_{name}.json").write_bytes(content)
    return project.run("--perfguard", "--perfguard-report=report.json"), project


def test_baselines_that_cannot_be_reached_are_one_sentence(recorded):
    shutil.rmtree(recorded.directory / "baselines")
    (recorded.directory / "baselines").symlink_to("baselines")
    for arguments in (("--perfguard",), ("--perfguard", "-v"), ("--perfguard-update",)):
        run = recorded.run(*arguments)
        assert (run.status, "Traceback" in run.text) == (4 if "-update" in arguments[0] else 1, False), run.text
        assert "baselines cannot be " in run.text


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_baseline_fails_its_own_test_with_one_sentence_and_stays(damaged, name):
    run, project = damaged
    content, sentence, command = DAMAGED[name]
    file = f"baselines/test_a--test_{name}.json"
    line = run.line(f"FAILED test_a.py::test_{name} ")
    assert line.startswith(f"FAILED test_a.py::test_{name} - Failed: perfguard INCONCLUSIVE")
    found = next(one for one in run.text.splitlines() if "B114" in one and file in one)
    assert f"{file} {sentence}" in found
    assert found.endswith(command)
    assert "nothing was measured" not in run.text
    assert (project.directory / file).read_bytes() == content


def test_a_damaged_baseline_takes_no_other_test_with_it(damaged):
    run, _ = damaged
    assert (run.status, run.counts) == (1, {"failed": len(DAMAGED), "passed": 1})
    assert "Traceback" not in run.text
    assert "INTERNALERROR" not in run.text


def test_a_damaged_baseline_does_not_lose_the_report(damaged):
    _, project = damaged
    assert project.findings()["test_a.py::test_good"] == ("PASSED", [])


def test_a_damaged_baseline_is_replaced_with_a_reason_only(recorded):
    (recorded.directory / BASELINE).write_text("{")
    for mode in ("--perfguard-update-new-only", "--perfguard-ratchet", "--perfguard-update"):
        run = recorded.run(mode)
        assert (run.status, run.counts["failed"]) == (1, 1)
        assert (recorded.directory / BASELINE).read_text() == "{"
    run = recorded.run("--perfguard-update", "--perfguard-reason=a lost merge")
    assert (run.status, run.counts) == (0, {"passed": 2})
    assert "changed: the stored baseline could not be read, and is replaced" in run.text
    assert json.loads((recorded.directory / BASELINE).read_text())["workload"] == "test_a.py::test_one"


def test_an_update_does_not_overwrite_a_baseline_of_a_newer_perfguard(recorded):
    (recorded.directory / BASELINE).write_text('{"format": 99}')
    run = recorded.run("--perfguard-update")
    assert (recorded.directory / BASELINE).read_text() == '{"format": 99}'
    assert (run.status, run.counts) == (1, {"failed": 1, "passed": 1})
    assert upgrade_command() in run.line("FAILED test_a.py::test_one")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on a file's size to stand for a full disk")
@pytest.mark.exhaustive
def test_a_full_disk_fails_the_test_and_keeps_the_old_baseline(recorded):
    before = recorded.baselines
    recorded.replays(test_one="torch-repeat2", test_two="torch-repeat2")
    run = recorded.run(
        "--perfguard-update",
        "--perfguard-reason",
        "another window",
        preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (run.status, run.counts) == (1, {"failed": 1, "passed": 1}), run.text
    line = run.line("FAILED test_a.py::test_one")
    assert "cannot be written: File too large. The previous file is kept." in line
    assert "run the same command again" in line
    assert "The above exception" not in run.text
    assert recorded.baselines == before
    assert not list((recorded.directory / "baselines").glob(".*.tmp"))


# -- ids ----------------------------------------------------------------------------------------------------------------


def test_the_same_test_collected_twice_is_refused_with_one_sentence(recorded):
    before = recorded.baselines
    run = recorded.run("--perfguard", "--keep-duplicates", "test_a.py", "test_a.py", "-k", "one")
    assert (run.status, run.counts["failed"], run.counts["passed"]) == (1, 1, 1)
    assert "two tests have the id test_a.py::test_one, so they would share one baseline" in run.line(
        "FAILED test_a.py::test_one"
    )
    assert recorded.baselines == before


IDS = [
    "a/b",
    "..",
    "../../../etc/passwd",
    "[x]",
    "a]b[",
    "grün-模型-🚀",
    "x" * 300,
    "CASE",
    "case",
    " ",
    "a b",
    "#",
    "a::b",
    "\u202egpj",
    "con",
    "%s%n",
    "\n",
]


@pytest.mark.exhaustive
def test_odd_ids_have_a_baseline_each_inside_the_directory(project):
    project.write(
        "test_i.py",
        f"import pytest\n\n@pytest.mark.parametrize('value', {IDS!r}, ids=lambda v: v)\n"
        f"def test_i(perfguard, value):\n    {REPLAY}\n",
    )
    outside = set(project.directory.parent.rglob("*.json"))
    created = project.run("--perfguard-update", "--perfguard-recordings=recordings")
    assert (created.status, created.counts) == (0, {"passed": len(IDS)}), created.text
    assert len(project.baselines) == len(set(project.workloads)) == len(IDS)
    assert all(len(name.encode()) <= 255 for name in project.baselines)
    files = set(project.directory.parent.rglob("*.json")) - outside
    assert {p.parent for p in files} == {project.directory / "baselines"}
    run = project.run("--perfguard", "--perfguard-report=report.json")
    assert (run.status, run.counts) == (0, {"passed": len(IDS)})
    assert set(project.findings()) == set(project.workloads)
    assert project.report()["summary"]["unused"] == []
