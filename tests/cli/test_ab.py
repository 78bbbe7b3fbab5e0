"""`perfguard ab`, as a user types it, in a git repository of its own with uncommitted work in it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import perfguard
from perfguard.capture.ab.sides import Recorded
from perfguard.cli import paired
from perfguard.judge.verdict import Outcome, Verdict
from perfguard.version import same_version
from tests.cli import run
from tests.distributions import TOY, TOY_ENTRIES, add_distribution, python_path
from tests.programs import git, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")]

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "torch-mlp"
REPOSITORY = Path(__file__).parents[2]

SETTINGS = """
[tool.perfguard]
backend = "BACKEND"
timed_steps = 3
window = { skip_first = 1, warmup = 1, active = 2 }

[tool.pytest.ini_options]
addopts = "-p no:randomly -p no:hypothesispytest -p no:benchmark"
"""

MODEL = """
import torch

net = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
inputs = torch.ones(16, 32)
TIMES = 1


def step():
    for _ in range(TIMES):
        net(inputs).sum().backward()
"""

#: What the steps of a framework that takes no time to import do.
TOY_MODEL = """
TIMES = 1


def step():
    for _ in range(TIMES):
        sum(range(2000))
"""

TESTS = """
from model import step


def test_callable(perfguard):
    perfguard(step)
"""

LOOP = """
from model import step


def test_loop(perfguard):
    for _ in perfguard.steps(range(100_000)):
        step()
"""

#: A shell that starts the suite in the background lets it ignore Ctrl-C, and everything below it.
MAIN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from perfguard.cli import main; main()"

#: A test that needs no framework: what was recorded once.
REPLAY = f"""
def test_replay(perfguard):
    perfguard.replay({str(RECORDING)!r})
"""


class Checkout:
    """A user's repository; `base` is a commit, and what is written afterwards is not."""

    #: Most tests judge what was recorded once, for which no framework is imported.
    backend = "replay"

    def __init__(self, top: Path, temporary: Path) -> None:
        self.top = top
        self.temporary = temporary
        top.mkdir()
        temporary.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        return git(self.top, *words)

    def write(self, **files: str) -> None:
        settings = SETTINGS.replace("BACKEND", self.backend)
        for name, text in {"pyproject.toml": settings, **{f"{n}.py": t for n, t in files.items()}}.items():
            (self.top / name).write_text(text)

    def commit(self, **files: str) -> None:
        self.write(**files)
        self.git("add", "-A")
        self.git("commit", "-qm", "base")

    @property
    def environment(self) -> dict[str, str]:
        # pytest's own variables of this run are not the user's.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GIT_"))}
        paths = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**kept, "TMPDIR": str(self.temporary), "PYTHONPATH": paths, "OF_THE_TEST": str(self.temporary)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", MAIN, "ab", *arguments],
            cwd=self.top,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ab(self, *arguments: str, is_child: bool = False) -> tuple[int, str]:
        """Run it to its end, here or in a process of its own; return its exit code and all it said.

        The checkout is as it was, and nothing is left.
        """
        before = self.contents()
        if is_child:
            with self.start(*arguments) as process:
                out, err = process.communicate(timeout=500)
            status, said = process.returncode, out + err
        else:
            with pytest.MonkeyPatch.context() as here:
                for name in os.environ.keys() - self.environment.keys():
                    here.delenv(name)
                for name, value in self.environment.items():
                    here.setenv(name, value)
                here.setattr(tempfile, "tempdir", None)
                here.chdir(self.top)
                found = run("ab", *arguments)
            status, said = found.exit_code, found.output
        assert self.contents() == before
        self.assert_nothing_is_left()
        # It is deleted when the text is read.
        assert "perfguard-ab-" not in said
        return status, said

    def contents(self) -> dict[str, str]:
        index = self.top / ".git" / "index"
        files = (path for path in self.top.rglob("*") if path.is_file() and path != index)
        # pytest-benchmark asks git for the commit, and git then writes the times of files anew into its index.
        staged = self.git("ls-files", "--stage")
        return {"staged": staged} | {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def assert_nothing_is_left(self) -> None:
        assert list(self.temporary.glob("perfguard-*")) == []
        assert len(self.git("worktree", "list").splitlines()) == 1


def test_a_full_disk_is_said_by_its_sentence(tmp_path):
    """The report of a side is larger than the limit, which stands for a full disk; what it measured is lost."""
    checkout = Checkout(tmp_path / "project", tmp_path / "temporary")
    checkout.commit(test_a=REPLAY)
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "ab", "--base", "main", "--time", "off"],
        cwd=checkout.top,
        env={**checkout.environment, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "perfguard: the working tree could not be measured: (deleted)/run-0/report.json cannot be"
    )
    assert done.stderr.endswith("then run the same command again.\n")
    checkout.assert_nothing_is_left()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "project", tmp_path / "tmp")


def use_torch(checkout):
    pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    checkout.backend = "torch"


# -- real steps --------------------------------------------------------------------------------------------------------


def assert_is_three_times_the_work(checkout, model, report):
    """Commit a model, let it do four times what it did, and compare; return all that was said."""
    checkout.commit(model=model, test_model=TESTS)
    checkout.write(model=model.replace("TIMES = 1", "TIMES = 4"), untracked="print('mine')\n")
    checkout.git("add", "model.py")
    status, said = checkout.ab(
        "--base", "main", "--processes", "3", "--report", str(report), "--", "test_model.py", is_child=True
    )
    assert status == 1, said
    assert "slower step by step in 3 processes" in said
    row = next(line for line in said.splitlines() if line.startswith("FAILED     test_model.py::test_callable"))
    assert "slower, step by step" in row
    assert "perfguard-ab-" not in report.read_text()
    (workload,) = json.loads(report.read_text())["workloads"]
    assert workload["recording"] is None
    found = {one["metric"]: one for one in workload["measurements"]}["step_ab"]
    assert len(found["samples"]) == 3
    assert min(found["samples"]) > 1.5
    assert any(note.startswith("timed interleaved; the order was drawn with seeds ") for note in workload["notes"])
    return said


@pytest.mark.exhaustive
def test_three_times_the_work_fails_and_uncommitted_work_stays_as_it_is(checkout, tmp_path, monkeypatch):
    """Real steps in real processes, of a framework that is imported at once."""
    add_distribution(tmp_path / "site", "perfguard-toy", TOY_ENTRIES)
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path / "site", TOY)["PYTHONPATH"])
    checkout.backend = "toyframe"
    assert_is_three_times_the_work(checkout, TOY_MODEL, tmp_path / "report.json")


@pytest.mark.exhaustive
def test_three_times_the_work_of_torch_is_told_by_its_operators(checkout, tmp_path):
    use_torch(checkout)
    said = assert_is_three_times_the_work(checkout, MODEL, tmp_path / "report.json")
    # On a busy machine another operator may take most of a step of microseconds, and then that one is named.
    assert re.search(
        r"R102 operator_calls\[.*\] \d+ → \d+ calls/step, \+\d+ \(added work: \+300\.0 % operator time in the step, ",
        said,
    ), said
    # Where the time went, if the machine let the two recordings show it.
    assert "aten::addmm: more calls (2 → 8" in said or "more work: " in said, said


@pytest.mark.exhaustive
def test_the_same_commit_where_one_process_does_not_bear_both(checkout):
    use_torch(checkout)
    twice = (
        MODEL + "\nlibrary = torch.library.Library('of_the_test', 'DEF')\nlibrary.define('one(Tensor x) -> Tensor')\n"
    )
    checkout.commit(model=twice, test_model=LOOP)
    status, said = checkout.ab("--base", "HEAD", "--processes", "3", "--", "-k", "loop")
    row = next(line for line in said.splitlines() if "test_model.py::test_loop" in line and "in turns" in line)
    # A busy machine may say what it likes of the time; of what is exact it may not.
    assert status in (0, 1), said
    assert row.rstrip().endswith("same")
    assert "HEAD is checked out, and no tracked file is changed: both sides are the same" in said
    assert (
        "not interleaved: one process cannot run both sides (current: RuntimeError: Only a single TORCH_LIBRARY" in said
    )


# -- what has no steps -------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_what_was_recorded_once_is_compared_exactly(checkout):
    checkout.commit(test_replay=REPLAY)
    status, said = checkout.ab("--base-recording", str(RECORDING), is_child=True)
    assert status == 0, said
    assert "PASSED     test_replay.py::test_replay" in said
    assert "\r" not in said
    assert "recording the working tree" not in said
    assert "times are shown, not judged: a stored recording cannot be run again next to the working tree" in said


@pytest.mark.exhaustive
def test_another_environment_is_compared_exactly_and_times_that_are_off_are_off_for_all(checkout):
    checkout.commit(test_replay=REPLAY)
    status, said = checkout.ab("--base-python", sys.executable, "--time", "off")
    assert status == 0, said
    assert f"perfguard ab: {sys.executable} → " in said
    assert "PASSED     test_replay.py::test_replay" in said
    assert "not judged" in said
    assert "not timed" not in said
    assert "no step was timed: --time off" in said.splitlines()
    assert "not comparable (time is off)" in said.splitlines()[-1]


BROKEN = "\n    raise AssertionError('no luck')\n"


@pytest.mark.exhaustive
def test_each_workload_that_is_not_compared_or_not_timed_has_its_reason(checkout, tmp_path, monkeypatch):
    """Nor does a side alone write to the page of a job, which is told of the comparison by --markdown."""
    markdown, page = tmp_path / "ab.md", tmp_path / "page.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    checkout.commit(test_replay=REPLAY, test_other=REPLAY, test_failing="def test_replay(perfguard):" + BROKEN)
    checkout.write(test_other=REPLAY.replace("torch-mlp", "torch-repeat2"), test_failing=REPLAY)
    status, said = checkout.ab("--base", "main", "--markdown", str(markdown))
    assert status == 4, said
    blocks = said.replace("\n  ", "  ").splitlines()
    (same,) = [line for line in blocks if line.startswith("PASSED test_replay.py::test_replay  ")]
    assert same.partition("  ")[2] == (
        "not timed: the test of the base and the working tree has no step that can be run again; "
        "perfguard(step) and perfguard.steps(...) have, replay, script and callback have none"
    )
    (other,) = [line for line in blocks if line.startswith("INCONCLUSIVE test_other.py::test_replay  ")]
    assert "B102 the baseline belongs to another fingerprint" in other
    assert other.endswith("  not timed: the two cannot be compared")
    assert "not compared: test_failing.py::test_replay failed on the base (AssertionError: no luck)" in said
    text = markdown.read_text(encoding="utf-8")
    assert "\n> main <code>(" in text
    assert "\n> not compared: <code>test&#95;failing.py::test&#95;replay</code> failed on the base" in text
    assert "| ✅ PASSED | <code>test&#95;replay.py::test&#95;replay</code> |" in text
    assert not page.exists()


@pytest.mark.exhaustive
def test_what_one_side_lacks_and_what_fails_here_is_told(checkout):
    """Paths into the checkout lead into the base, or it would lack what the checkout lacks."""
    checkout.commit(test_replay=REPLAY, test_old=REPLAY, test_stops=REPLAY, test_fails=REPLAY)
    (checkout.top / "test_old.py").unlink()
    stops = REPLAY.replace("    perfguard.replay", "    raise ValueError('broken today')\n    #")
    checkout.write(test_new=REPLAY, test_stops=stops, test_fails=REPLAY + BROKEN)
    status, said = checkout.ab("--base", "main", "--", str(checkout.top), f"--rootdir={checkout.top}")
    assert status == 1, said
    lines = said.splitlines()
    assert "gone: test_old.py::test_replay ran on the base only" in lines
    assert "new: test_new.py::test_replay ran here only" in lines
    assert "gone: test_stops.py::test_replay ran on the base only (ValueError: broken today)" in lines
    assert "failed: test_fails.py::test_replay failed here (AssertionError: no luck)" in lines
    assert "PASSED     test_replay.py::test_replay" in said
    assert "PASSED     test_fails.py::test_replay" in said


FAILS = "def test_first():" + BROKEN


@pytest.mark.exhaustive
def test_a_test_that_pytest_stopped_before_is_not_green(checkout):
    checkout.commit(test_a=FAILS, test_replay=REPLAY, test_0=REPLAY)
    status, said = checkout.ab("--base", "main", "--", "-x")
    assert "failed: test_replay.py::test_replay was not reached here: pytest stopped before it" in said
    assert status == 1, said


@pytest.mark.parametrize(
    ("base", "now", "status", "told"),
    [
        (("r", "old"), ("r",), 1, ["gone: old ran on the base only"]),
        (("r", "t"), ("r",), 1, ["gone: t ran on the base only (pytest stopped before it)"]),
        (("r",), ("r", "t"), 4, ["not compared: t was not reached on the base"]),
        (("r",), ("r", "b"), 4, ["not compared: b failed on the base (ValueError)"]),
        (("r",), ("r", "new"), 0, ["new: new ran here only"]),
        (("f", "r"), ("f", "r"), 1, ["failed: f failed here (OSError: x)"]),
        # Where nothing is common, it is that which counts.
        (("old",), ("new",), 4, ["gone: old ran on the base only", "new: new ran here only"]),
    ],
)
def test_each_of_them_alone_has_its_exit_code(tmp_path, capsys, base, now, status, told):
    """Of two sides: what each measured, the exit code, and the remarks. Only here f fails, only the base fails at b."""
    before, current = (
        {name: Verdict(workload=name, outcome=Outcome.PASSED, findings=()) for name in side} for side in (base, now)
    )
    unreached = ("t",) if {*base} ^ {*now} == {"t"} else ()
    ran = {"status": 1, "report": tmp_path / "none"}
    recorded = Recorded(**ran, failed={"b": "ValueError"}, unreached=unreached if "t" in now else ())
    here = Recorded(**ran, failed={"f": "OSError: x"} if "f" in now else {}, unreached=() if "t" in now else unreached)
    found = paired._found("a → b", before, current, recorded, here)
    assert found.remarks == told
    found.rows.extend(paired.Row(verdict=current[name]) for name in now if name in base)
    assert paired.report(found, ()) == status
    assert set(told) < set(capsys.readouterr().out.splitlines())


NAME = "test_replay.py::test_replay"


@pytest.mark.exhaustive
def test_what_is_worse_is_accepted_if_its_baseline_says_why(checkout):
    """What else does, and does not: tests/cli/test_accepted.py."""
    checkout.commit(test_replay=REPLAY)
    baseline = refresh(checkout)
    checkout.commit()
    checkout.write(test_replay=REPLAY.replace("torch-mlp", "torch-repeat2"))
    status, said = checkout.ab("--base", "main", "--accept-explained")
    assert (status, f"not accepted: {NAME}; if this is intended, store why in the baseline: " in said) == (4, True), (
        said
    )
    baseline.write_text(json.dumps(json.loads(baseline.read_text()) | {"reason": "another model"}))
    report = checkout.top.parent / "report.json"
    status, said = checkout.ab("--base", "main", "--accept-explained", "--report", str(report))
    accepted = f"accepted: {NAME} is not as on the base, and its baseline says why: another model"
    assert (status, accepted in said.splitlines()) == (0, True), said
    assert accepted in json.loads(report.read_text())["summary"]["remarks"]
    # Who asks what is slower is told, and nothing is accepted.
    status, said = checkout.ab("--base", "main")
    assert (status, "accepted" in said) == (4, False), said


@pytest.mark.exhaustive
def test_a_first_test_is_accepted_with_its_baseline(checkout):
    checkout.commit(model="")
    checkout.write(test_replay=REPLAY)
    refresh(checkout)
    status, said = checkout.ab("--base", "main", "--accept-explained")
    assert (status, f"accepted: {NAME} is new, and so is its baseline" in said) == (0, True), said


def refresh(checkout) -> Path:
    """Write the baseline, and return its file."""
    with pytest.MonkeyPatch.context() as here:
        here.chdir(checkout.top)
        assert run("baseline", "refresh", "-q").exit_code == 0
    (found,) = (checkout.top / "baselines").glob("*.json")
    return found


# -- whose settings count ------------------------------------------------------------------------------------------------

DEMO = Path(perfguard.__file__).parent / "cli" / "demo_recordings"
IGNORES = 'ignore = ["A", "C", "I", "R", "S"]'
OWN_CHECK = """
-- check: no_mm
-- code: U001
-- needs: spans
-- message: {name} ran
select cycle, row, name from spans where name = 'aten::addmm'
"""
NOT_SET = "not set on the base; the base's counts"
ALL_FIVE = '["A", "C", "I", "R", "S"]'


def replayed(name: str, marker: str = "") -> str:
    """Return a test of a recording of the demo: `twice` is worse than `base`, and `short` is INVALID."""
    replay = f"def test_replay(perfguard):\n    perfguard.replay({str(DEMO / name)!r})\n"
    return f"import pytest\n{marker}\n{replay}"


#: What is committed in [tool.perfguard] of pyproject.toml (None: no table), what is written there afterwards (None: the same),
#: the recording and the marker of the test then, the exit status, and the line that says what differs.
WHOSE = {
    "the change ignores": ("", IGNORES, "twice", "", 1, f"policy: ignore is {ALL_FIVE} here and {NOT_SET}"),
    "no table before": (None, IGNORES, "twice", "", 1, f"policy: ignore is {ALL_FIVE} here and {NOT_SET}"),
    "what is not whole": ("", IGNORES, "short", "", 3, f"policy: ignore is {ALL_FIVE} here and {NOT_SET}"),
    "its tolerance": (
        *("", "tolerance = { memory_allocated_bytes = 9 }", "twice", "", 1),
        "policy: tolerance.memory_allocated_bytes is 9 here and not set on the base; the base's counts",
    ),
    "its marker ignores": (
        *("", None, "twice", "@pytest.mark.perfguard(ignore=['R'])", 1),
        f'policy: ignore of {NAME} is ["R"] here and [] on the base; the base\'s counts',
    ),
    "its marker ignores what is not whole": (
        *("", None, "short", "@pytest.mark.perfguard(ignore=['C', 'A', 'I', 'S'])", 3),
        f'policy: ignore of {NAME} is ["C", "A", "I", "S"] here and [] on the base; the base\'s counts',
    ),
    "the base ignores": (
        *('ignore = ["R"]', "", "twice", "", 0),
        'policy: ignore is not set here and ["R"] on the base; the base\'s counts',
    ),
    "a check is gone": (
        *('checks = ["own"]', "", "base", "", 3),
        'policy: checks is not set here and ["own"] on the base; the base\'s counts',
    ),
    "the same": ('changed = "fail"', None, "base", "", 0, ""),
}


def with_settings(checkout, settings):
    table = "" if settings is None else f"[tool.perfguard]\n{settings}\n"
    (checkout.top / "pyproject.toml").write_text(f'{table}[tool.pytest.ini_options]\naddopts = "-p no:randomly"\n')


@pytest.mark.parametrize("name", WHOSE)
@pytest.mark.variants(1)
def test_a_change_does_not_silence_its_own_comparison(checkout, name):
    before, now, recording, marker, expected, line = WHOSE[name]
    if before and "checks" in before:
        (checkout.top / "own").mkdir()
        (checkout.top / "own" / "own.sql").write_text(OWN_CHECK)
    checkout.commit(test_replay=replayed("base"))
    with_settings(checkout, before)
    checkout.git("add", "-A")
    checkout.git("commit", "-qm", "settings")
    (checkout.top / "test_replay.py").write_text(replayed(recording, marker))
    if now is not None:
        with_settings(checkout, now)
    # Checks are read with the database of this process, whose folder is there until its end.
    status, said = checkout.ab("--base", "main", "--time", "off", is_child="checks" in (before or ""))
    assert status == expected, said
    hint = [
        "policy: the base has no [tool.perfguard], so defaults count; land the settings first, in a change of their own"
    ]
    lines = [line] if line else []
    assert ("both sides are the same" in said) is (name == "the same")
    assert [one for one in said.splitlines() if one.startswith("policy: ")] == (
        hint + lines if name == "no table before" else lines
    )


@pytest.mark.parametrize(
    ("nested", "status"),
    [
        # A table nearer to the tests, with which the change hides the one above it; and one that it removes.
        ("now", 1),
        ("before", 3),
    ],
)
@pytest.mark.exhaustive
def test_settings_nearer_to_a_test_are_those_of_the_base(checkout, nested, status):
    inner = checkout.top / "tests"
    inner.mkdir()
    near = inner / "pyproject.toml"
    (inner / "test_replay.py").write_text(replayed("base"))
    if nested == "before":
        (inner / "own").mkdir()
        (inner / "own" / "own.sql").write_text(OWN_CHECK)
        near.write_text('[tool.perfguard]\nchecks = ["own"]\n')
    with_settings(checkout, "")
    checkout.git("add", "-A")
    checkout.git("commit", "-qm", "base")
    (inner / "test_replay.py").write_text(replayed("twice" if nested == "now" else "base"))
    if nested == "before":
        near.unlink()
    else:
        near.write_text(f"[tool.perfguard]\n{IGNORES}\n")
    found, said = checkout.ab("--base", "main", "--time", "off", "--", "tests")
    assert found == status, said
    assert len([one for one in said.splitlines() if one.startswith("policy: ")]) == 1


def test_the_settings_of_the_working_tree_count_where_the_call_says_so(checkout):
    """Also where the base has settings that this perfguard cannot read."""
    checkout.commit(test_replay=replayed("base"))
    with_settings(checkout, "of_another_version = 1")
    checkout.git("commit", "-qam", "of another version")
    (checkout.top / "test_replay.py").write_text(replayed("twice"))
    with_settings(checkout, IGNORES)
    status, said = checkout.ab("--base", "main", "--time", "off")
    assert status == 3, said
    assert "of_another_version is not a known key" in said
    assert said.rstrip().endswith("or judge by the working tree's settings: --policy current")
    status, said = checkout.ab("--base", "main", "--time", "off", "--policy", "current")
    assert status == 0, said
    assert f"policy: ignore is {ALL_FIVE} here and not set on the base; the working tree's counts" in said.splitlines()
    assert (
        "policy: of_another_version is not set here and 1 on the base; the working tree's counts" in said.splitlines()
    )
    assert re.search(r"^ignored \d+ \(R.*; ignore in pyproject.toml\)$", said.splitlines()[-1])


def test_workers_are_refused(checkout):
    checkout.commit(test_replay=REPLAY)
    status, said = checkout.ab("--base", "main", "--time", "off", "--", "-n2")
    assert (status, "leave out -n, or write -n0" in said) == (2, True), said


@pytest.mark.exhaustive
def test_a_base_that_lacks_the_test_compares_nothing(checkout):
    checkout.commit(test_replay=REPLAY)
    checkout.write(test_new=REPLAY)
    status, said = checkout.ab("--base", "main", "--", "test_new.py::test_replay")
    assert status == 4, said
    assert "nothing was compared: the two have no workload in common" in said


@pytest.mark.parametrize(
    "base, why",
    [
        pytest.param("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'", id="test"),
        pytest.param(
            "import os; os.kill(os.getpid(), 9)\n",
            "it was ended by SIGKILL, which the system sends",
            id="killed",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
@pytest.mark.exhaustive
def test_a_base_that_cannot_run_is_invalid(checkout, base, why):
    checkout.commit(test_replay=base)
    checkout.write(test_replay=REPLAY, conftest="")
    status, said = checkout.ab("--base", "main")
    assert status == 3, said
    assert said.startswith("INVALID: pytest cannot run the base: ")
    assert why in said
    assert len(said.splitlines()) == 1
    assert said.rstrip().endswith("name another base, then run the same command again")


@pytest.mark.exhaustive
def test_a_base_of_a_perfguard_that_knew_other_settings_is_invalid(checkout):
    checkout.commit(test_replay=REPLAY)
    (checkout.top / "pyproject.toml").write_text("[tool.perfguard]\nof_a_later_version = 1\n")
    checkout.git("commit", "-qam", "later")
    checkout.write()
    status, said = checkout.ab("--base", "HEAD")
    assert status == 3, said
    assert "of_a_later_version is not a known key" in said


@pytest.mark.exhaustive
def test_a_base_that_takes_its_code_from_the_checkout_is_invalid(checkout):
    """As a path hook, or a link in site-packages, might do."""
    hidden = f"import sys; sys.path.insert(0, {str(checkout.top)!r}); import model_of_mine\n"
    checkout.commit(test_replay=REPLAY, conftest=hidden, model_of_mine="")
    status, said = checkout.ab("--base", "main")
    assert status == 3, said
    assert "took model_of_mine from elsewhere, so both sides would run the same code" in said


@pytest.mark.parametrize(
    "reads", ["open(NAME).read()", "__import__('numpy').loadtxt(NAME)", "__import__('os').open(NAME, 0)"]
)
@pytest.mark.variants(1)
def test_a_base_that_reads_files_of_the_checkout_is_invalid(checkout, reads):
    """Those that are the same on both sides, or that git does not have, are no reason."""
    file = checkout.top / "size.txt"
    file.write_text("1")
    data = checkout.top / "data.bin"
    data.write_text("2")
    name = f"NAME = {str(file)!r}\nopen({str(data)!r}).read()\n{reads}\n"
    (checkout.top / ".gitignore").write_text("data.bin\n")
    checkout.commit(test_replay=name + replayed("base"))
    status, said = checkout.ab("--base", "main", "--time", "off")
    assert status == 0, said
    file.write_text("100")
    status, said = checkout.ab("--base", "main", "--time", "off")
    assert status == 3, said
    assert "INVALID: the base read size.txt of the working tree, of which it has another version" in said


@pytest.mark.exhaustive
def test_an_installed_copy_of_the_project_is_not_compared_with_itself(checkout):
    """`pip install ./packages/core` without -e: both sides would run what is installed."""
    where = "packages/core/src"
    checkout.commit(test_replay=REPLAY + "\nimport model_of_mine\n", conftest="")
    installed = checkout.temporary / "site-packages"
    (checkout.top / where / "model_of_mine").mkdir(parents=True)
    (checkout.top / where / "model_of_mine" / "__init__.py").write_text("")
    (checkout.top / "conftest.py").write_text(f"import sys; sys.path.insert(0, {str(installed)!r})\n")
    checkout.git("add", "-A")
    checkout.git("commit", "-qm", "src")
    told = installed / "model_of_mine-1.dist-info"
    told.mkdir(parents=True)
    (installed / "model_of_mine.py").write_text("")
    # As pip writes it.
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: model-of-mine\nVersion: 1\n")
    (told / "RECORD").write_text("model_of_mine.py,,\n")
    origin = {"url": (checkout.top / where).parent.as_uri(), "dir_info": {}}
    (told / "direct_url.json").write_text(json.dumps(origin))
    status, said = checkout.ab("--base", "main")
    assert status == 3, said
    assert "the working tree took model_of_mine from elsewhere, so both sides would run the same code" in said


# -- what is wrong with a call -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, why",
    [
        ([], "needs one base to compare with: --base REF, --base-python PATH or --base-recording PATH."),
        (["--base", "main", "--base-python", sys.executable], "needs one base to compare with"),
        (["--base", "mian"], "There is no commit 'mian'"),
        (
            ["--base", "main", "--processes", "2"],
            "--processes must be 3 to 1000, got 2: fewer cannot tell noise from a change",
        ),
        (["--base-python", sys.executable, "--sensitive"], "--sensitive needs both sides in one process"),
        (["--base-python", sys.executable, "--accept-explained"], "--accept-explained compares stored baselines with"),
        (["--base-python", "no/such/python"], "no/such/python cannot be run: No such file or directory"),
        (["--base-python", "/bin/true"], "has no perfguard that can be imported"),
        (["--base-recording", "no/such"], "no/such does not exist"),
        (["--base", "main", "--", "--perfguard-runs=3"], "perfguard ab sets --perfguard-runs itself"),
        (["--base", "main", "--", "no_such_test.py"], "there is no no_such_test.py; name tests that use perfguard"),
        pytest.param(
            *(["--base", "main", "--", "-k", "nothing"], "pytest collected no test; name tests that use perfguard"),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            *(
                ["--base", "main", "--", "test_plain.py"],
                "nothing was measured here: no test that was run uses perfguard",
            ),
            marks=pytest.mark.exhaustive,
        ),
        (["--base", "main", "--", "test_torn.py"], "nothing was measured here: ValueError: torn"),
    ],
)
@pytest.mark.variants(3)
def test_a_call_that_means_nothing_is_refused_in_one_sentence(checkout, arguments, why):
    torn = "def test_torn(perfguard):\n    raise ValueError('torn')\n"
    checkout.commit(test_replay=REPLAY, test_plain="def test_plain(): pass\n", test_torn=torn)
    status, said = checkout.ab(*arguments)
    assert status == 2, said
    assert said.startswith("perfguard: ")
    assert why in said
    assert len(said.splitlines()) == 1


def test_another_perfguard_in_the_other_environment_is_refused(checkout):
    checkout.commit(test_replay=REPLAY)
    python = checkout.temporary / "python"
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH={checkout.temporary}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (checkout.temporary / "perfguard").mkdir()
    (checkout.temporary / "perfguard" / "__init__.py").write_text("__version__ = '0.0.1'\n")
    status, said = checkout.ab("--base-python", str(python))
    assert status == 2
    assert "has perfguard 0.0.1, and this is " in said
    assert same_version(perfguard.__version__, f"{python} -m pip") in said


# -- however it ends ---------------------------------------------------------------------------------------------------

#: Says that it runs, and does not end.
HANGS = """
import os, pathlib, subprocess, time

def test_hangs(perfguard):
    child = subprocess.Popen(["sleep", "600"])
    pathlib.Path(os.environ["OF_THE_TEST"], "running").write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)
"""


def runs(pid: str) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
@pytest.mark.exhaustive
def test_nothing_is_left_of_a_comparison_that_was_ended(checkout, number):
    checkout.commit(test_hangs=HANGS)
    before = checkout.contents()
    with checkout.start("--base", "main") as process:
        running = checkout.temporary / "running"
        wait_until(running.is_file)
        assert len(checkout.git("worktree", "list").splitlines()) == 2
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
    if number == signal.SIGINT:
        assert process.returncode == 2
        assert "perfguard: stopped before the end" in out + err
    wait_until(lambda: not any(runs(pid) for pid in running.read_text().split()))
    wait_until(lambda: list(checkout.temporary.glob("perfguard-*")) == [])
    assert checkout.contents() == before
    checkout.assert_nothing_is_left()


@pytest.mark.exhaustive
def test_a_test_that_hangs_is_ended(checkout):
    checkout.commit(test_hangs=HANGS)
    status, said = checkout.ab("--base", "main", "--timeout", "12")
    assert status == 3
    assert "INVALID: pytest cannot run the working tree: " in said
    assert "was ended after 12 seconds" in said
    assert not any(runs(pid) for pid in (checkout.temporary / "running").read_text().split())
