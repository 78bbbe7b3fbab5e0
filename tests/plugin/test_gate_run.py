"""The gate on real torch steps: which steps run, what a verdict is, what a broken capture does."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass

import pytest

from tests.cli import run as perfguard
from tests.plugin.conftest import RECORDINGS, SECONDS_UNTIL_A_HANG, TORCH_HEAD, WRITTEN_HEAD, Project, Run
from tests.programs import wait_until

pytestmark = pytest.mark.slow

FORMS = (
    TORCH_HEAD
    + """
# Both take as long as what a busy machine adds to one of them.
large, wide = torch.ones(512, 512), torch.ones(2048, 1024)

def step(form):
    with open(f"{form}.log", "a") as file:
        print(torch.autograd._profiler_enabled(), file=file)
    torch.mm(large, large)
    if os.environ.get("EXTRA") == form:
        torch.mm(large, large)
        torch.sigmoid(wide)

def test_callable(perfguard):
    perfguard(lambda: step("callable"))

def test_loop(perfguard):
    for batch in perfguard.steps(range(100)):
        step("loop")

def test_other(perfguard):
    perfguard(matmul)
"""
)


@dataclass
class Story:
    """One project through its life: plain, without baselines, recorded, made slower, refused, accepted, ratcheted."""

    project: Project
    plain: Run
    plain_calls: dict[str, list[str]]
    missing: Run
    missing_calls: dict[str, list[str]]
    created: Run
    created_files: dict[str, bytes]
    worse: Run
    refused: Run
    refused_files: dict[str, bytes]
    accepted: Run
    accepted_files: dict[str, bytes]
    ratcheted: Run
    ratcheted_files: dict[str, bytes]


@pytest.fixture(scope="module")
def story(module_project) -> Story:
    project: Project = module_project("forms")
    project.write("test_forms.py", FORMS)

    def calls() -> dict[str, list[str]]:
        found = {}
        for form in ("callable", "loop"):
            log = project.directory / f"{form}.log"
            found[form] = log.read_text().split()
            log.unlink()
        return found

    plain = project.run()
    plain_calls = calls()
    missing = project.run(
        "--perfguard",
        "--perfguard-report=missing.json",
        "--perfguard-recordings=recordings",
        "--junitxml=missing.xml",
        "--benchmark-json=bench.json",
    )
    missing_calls = calls()
    created = project.run("--perfguard-update", "--perfguard-reason=first")
    created_files = project.baselines
    worse = project.run(
        "--perfguard", "--perfguard-report=worse.json", "--junitxml=worse.xml", env={"EXTRA": "callable"}
    )
    refused = project.run(
        "--perfguard-update", "--perfguard-report=refused.json", "--junitxml=refused.xml", env={"EXTRA": "callable"}
    )
    refused_files = project.baselines
    accepted = project.run("--perfguard-update", "--perfguard-reason=two of them", env={"EXTRA": "callable"})
    accepted_files = project.baselines
    ratcheted = project.run("--perfguard-ratchet", "-k", "loop or other")
    ratcheted_files = project.baselines
    return Story(
        project,
        plain,
        plain_calls,
        missing,
        missing_calls,
        created,
        created_files,
        worse,
        refused,
        refused_files,
        accepted,
        accepted_files,
        ratcheted,
        ratcheted_files,
    )


def test_without_the_gate_each_form_runs_its_step_once(story):
    assert (story.plain.status, story.plain.counts) == (0, {"passed": 3})
    assert story.plain_calls == {"callable": ["False"], "loop": ["False"]}
    said = [line for line in story.plain.out.partition("collected")[2].splitlines() if "perfguard" in line]
    assert said == ["perfguard: 3 tests ran without the gate, and nothing was judged; run: pytest --perfguard"]


@pytest.mark.parametrize("form", ["callable", "loop"])
def test_both_forms_run_every_step_of_every_phase_and_profile_only_the_window(story, form):
    calls = story.missing_calls[form]
    assert len(calls) == 1 + 3 + 1 + 2
    assert calls[2:4] == ["True"] * 2
    assert [*calls[:1], *calls[-3:]] == ["False"] * 4


@pytest.mark.parametrize("form", ["callable", "loop"])
def test_both_forms_run_the_phases_in_one_order(story, form):
    (directory,) = (story.project.directory / "recordings").glob(f"*test_{form}*")
    steps = json.loads((directory / "steps.json").read_text())["steps"]
    assert [s["phase"] for s in steps] == ["settle", "warmup", "active", "active", *["timed"] * 3]
    assert [s["index"] for s in steps] == list(range(7))
    assert json.loads((directory / "recording.json").read_text())["ending"] == "complete"


def test_no_baseline_fails_the_test_and_names_the_refresh_command(story):
    assert (story.missing.status, story.missing.counts["failed"]) == (1, 3)
    assert "error" not in story.missing.counts
    assert "B101 no baseline to compare with" in story.missing.out
    assert "pytest --perfguard --perfguard-update test_forms.py::test_loop" in story.missing.out
    outcomes = story.project.findings("missing.json")
    assert list(outcomes.values()) == [("INCONCLUSIVE", ["B101"])] * 3


def test_a_run_that_only_judges_writes_no_baseline(story):
    assert "0 compared" in story.missing.out
    assert len(story.created_files) == 3
    assert "created: test_forms.py::test_loop" in story.created.out


def test_a_verdict_is_a_failure_of_the_test_in_junit_and_no_error(story):
    suite = story.project.junit("missing.xml")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "3", "0")
    message = suite.findall("testcase/failure")[0].get("message")
    assert "perfguard INCONCLUSIVE: B101" in message


def test_junit_holds_outcome_and_measurements_as_properties(story):
    suite = story.project.junit("worse.xml")
    properties = {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")}
        for case in suite.iter("testcase")
    }
    assert properties["test_callable"]["perfguard.outcome"] == "FAILED"
    assert properties["test_other"]["perfguard.outcome"] == "PASSED"
    assert properties["test_other"]["perfguard.steps"] == "2"
    assert float(properties["test_other"]["perfguard.step_ms"]) > 0


def test_the_callable_form_is_in_the_benchmark_json(story):
    document = json.loads((story.project.directory / "bench.json").read_text())
    rounds = {one["fullname"]: one["stats"]["rounds"] for one in document["benchmarks"]}
    assert rounds == {"test_forms.py::test_callable": 3, "test_forms.py::test_other": 3}


def test_an_update_creates_what_is_missing_with_the_reason(story):
    assert (story.created.status, story.created.counts["passed"]) == (0, 3)
    assert "baselines: 3 created, 0 updated, 0 kept, 0 unused" in story.created.out
    assert {json.loads(content)["reason"] for content in story.created_files.values()} == {"first"}


def test_a_failure_says_how_its_recording_is_kept_where_it_is_not(story):
    assert "--perfguard-recordings=DIR keeps it)" in story.worse.line("recording: ")
    assert "recording: " in story.missing.out
    assert "keeps it" not in story.missing.out


def test_an_extra_operator_is_named_with_its_count(story):
    assert (story.worse.status, story.worse.counts["failed"], story.worse.counts["passed"]) == (1, 1, 2)
    assert "R102 operator_calls[aten::mm] 1 → 2 calls/step, +1 (added work: +" in story.worse.out
    assert "R104 operator_calls[aten::sigmoid] is 1" in story.worse.out
    outcome, codes = story.project.findings("worse.json")["test_forms.py::test_callable"]
    assert outcome == "FAILED"
    assert {"R102", "R104"} <= set(codes)
    assert '--perfguard-update test_forms.py::test_callable --perfguard-reason "..."' in story.worse.out


def test_an_update_that_would_relax_a_baseline_fails_that_test_and_touches_no_file(story):
    """Nor does it touch the files of the two that are the same."""
    assert (story.refused.status, story.refused.counts["failed"], story.refused.counts["passed"]) == (1, 1, 2)
    assert story.refused_files == story.created_files
    line = story.refused.line("FAILED test_forms.py::test_callable - ")
    assert "perfguard FAILED: B110 the baseline would get worse without a reason: " in line
    assert 'if this is intended, say why: --perfguard-reason "..."' in line
    assert "worse: operator_calls[aten::mm] 1 → 2 calls/step" in story.refused.out
    assert "operator_calls[aten::sigmoid] is new: 1 calls/step" in story.refused.out
    assert '--perfguard-update test_forms.py::test_callable --perfguard-reason "..."' in story.refused.out
    assert "baselines: 0 created, 0 updated, 2 kept, 1 refused, 0 unused" in story.refused.out


def test_a_refusal_is_in_the_report_and_in_junit(story):
    assert story.project.findings("refused.json")["test_forms.py::test_callable"] == ("FAILED", ["B110"])
    suite = story.project.junit("refused.xml")
    outcomes = {
        case.get("name"): [p.get("value") for p in case.iter("property") if p.get("name") == "perfguard.outcome"]
        for case in suite.iter("testcase")
    }
    assert outcomes == {"test_callable": ["FAILED"], "test_loop": ["PASSED"], "test_other": ["PASSED"]}


def test_a_relaxation_with_a_reason_is_written_and_the_reason_kept(story):
    assert (story.accepted.status, story.accepted.counts) == (0, {"passed": 3})
    assert "baselines: 0 created, 1 updated, 2 kept, 0 unused" in story.accepted.out
    assert "worse: operator_calls[aten::mm] 1 → 2 calls/step" in story.accepted.out
    reasons = {name: json.loads(content)["reason"] for name, content in story.accepted_files.items()}
    assert sorted(reasons.values()) == ["first", "first", "two of them"]


def test_a_ratchet_of_the_same_model_judges_and_writes_nothing(story):
    assert (story.ratcheted.status, story.ratcheted.counts["passed"]) == (0, 2)
    assert story.ratcheted_files == story.accepted_files
    assert "baselines: " not in story.ratcheted.out.rpartition("PASSED")[2]


def test_an_unchanged_step_passes_beside_a_changed_one(story):
    outcomes = story.project.findings("worse.json")
    assert outcomes["test_forms.py::test_loop"] == ("PASSED", [])
    assert outcomes["test_forms.py::test_other"] == ("PASSED", [])


BROKEN = (
    TORCH_HEAD
    + """
import gc

def test_loader_ends_early(perfguard):
    for batch in perfguard.steps(range(5)):
        matmul()

def test_loop_is_left(perfguard):
    for batch in perfguard.steps(range(100)):
        matmul()
        if batch == 5:
            break

def test_next_after_a_loop_that_was_left():
    assert gc.isenabled()
    assert not torch.autograd._profiler_enabled()

def test_callable_raises(perfguard):
    done = []
    def step():
        matmul()
        done.append(1)
        if len(done) == 6:
            raise ZeroDivisionError("in the window")
    perfguard(step)

def test_body_raises(perfguard):
    for batch in perfguard.steps(range(100)):
        matmul()
        if batch == 5:
            raise KeyError("in the body")

def test_loader_raises(perfguard):
    def loader():
        yield from range(5)
        raise OSError("the disk of the loader")
    for batch in perfguard.steps(loader()):
        matmul()

def test_next_is_unharmed(perfguard):
    assert gc.isenabled()
    assert not torch.autograd._profiler_enabled()
    perfguard(matmul)

def test_second_of_two_is_left(perfguard):
    perfguard(matmul, name="whole")
    for batch in perfguard.steps(range(100), name="left"):
        matmul()
        if batch == 5:
            break

def test_measures_after_a_loop_it_left(perfguard):
    for batch in perfguard.steps(range(100), name="left"):
        matmul()
        if batch == 5:
            break
    perfguard(matmul, name="whole")

def test_after_everything():
    assert gc.isenabled()
    assert not torch.autograd._profiler_enabled()

def test_asks_and_measures_nothing(perfguard):
    pass

def test_steps_are_never_looped_over(perfguard):
    perfguard.steps(range(100))

def test_twice_without_names(perfguard):
    perfguard(matmul)
    perfguard(matmul)

def test_twice_with_names(perfguard):
    perfguard(matmul, name="prefill")
    perfguard(matmul, name="decode")

def test_not_a_callable(perfguard):
    perfguard(matmul())

def test_skips_itself(perfguard):
    pytest.skip("not here")

def test_skips_after_its_step_raised(perfguard):
    try:
        for batch in perfguard.steps(range(100)):
            if batch == 5:
                raise MemoryError("too large")
    except MemoryError:
        pytest.skip("too large for this machine")
"""
)


@dataclass
class Broken:
    project: Project
    update: Run
    gate: Run


@pytest.fixture(scope="module")
def broken(module_project) -> Broken:
    project: Project = module_project("broken")
    project.write("test_b.py", BROKEN)
    update = project.run(
        "--perfguard",
        "--perfguard-update",
        "--perfguard-report=update.json",
        "--perfguard-recordings=recordings",
        "-rA",
    )
    gate = project.run("--perfguard", "--perfguard-report=gate.json", "-rA", "--junitxml=gate.xml")
    return Broken(project, update, gate)


@pytest.mark.parametrize(
    "test, code, text",
    [
        ("test_loader_ends_early", "C106", "the loader gave 5 batches, the window needs 7"),
        ("test_loop_is_left", "C108", "the loop over perfguard.steps(...) was left before its window was over"),
        ("test_callable_raises", "C105", "ZeroDivisionError: in the window"),
        ("test_body_raises", "C105", "KeyError: 'in the body'"),
        ("test_loader_raises", "C105", "OSError: the disk of the loader"),
    ],
)
@pytest.mark.exhaustive
def test_a_window_that_is_not_whole_is_invalid_and_never_becomes_a_baseline(broken, test, code, text):
    workload = f"test_b.py::{test}"
    for report in ("update.json", "gate.json"):
        outcome, codes = broken.project.findings(report)[workload]
        assert outcome == "INVALID"
        assert code in codes
        messages = [f for one in broken.project.report(report)["workloads"] for f in one["findings"]]
        assert any(text in f["message"] for f in messages if f["code"] == code)
    assert f"FAILED {workload}" in broken.gate.out
    assert workload not in broken.project.workloads
    (refused,) = [w for w in broken.project.report("update.json")["workloads"] if w["workload"] == workload]
    assert refused["baseline"] == "refused"


@pytest.mark.parametrize(
    "test, error",
    [
        ("test_callable_raises", "ZeroDivisionError: in the window"),
        ("test_body_raises", "KeyError: 'in the body'"),
        ("test_loader_raises", "OSError: the disk of the loader"),
    ],
)
@pytest.mark.exhaustive
def test_what_a_step_raises_comes_through_as_it_is(broken, test, error):
    assert f"FAILED test_b.py::{test} - {error}" in broken.gate.out


@pytest.mark.parametrize(
    "test", ["test_next_after_a_loop_that_was_left", "test_next_is_unharmed", "test_after_everything"]
)
def test_the_next_test_finds_the_profiler_stopped_and_garbage_collected(broken, test):
    assert f"PASSED test_b.py::{test}\n" in broken.gate.out


def test_the_recording_of_a_step_that_raised_is_kept_and_marked(broken):
    (directory,) = (broken.project.directory / "recordings").glob("*test_callable_raises*")
    facts = json.loads((directory / "recording.json").read_text())
    assert (facts["ending"], facts["reason"]) == ("step-raised", "step 6 of 7: ZeroDivisionError: in the window")
    assert len(json.loads((directory / "steps.json").read_text())["steps"]) == 5


def test_a_second_window_that_was_left_is_not_forgotten(broken):
    assert "FAILED test_b.py::test_second_of_two_is_left" in broken.update.out
    outcome, codes = broken.project.findings("update.json")["test_b.py::test_second_of_two_is_left#left"]
    assert (outcome, "C108" in codes) == ("INVALID", True)


def test_a_window_that_was_left_before_another_is_not_forgotten(broken):
    assert "FAILED test_b.py::test_measures_after_a_loop_it_left" in broken.gate.out
    outcome, codes = broken.project.findings("gate.json")["test_b.py::test_measures_after_a_loop_it_left#left"]
    assert (outcome, "C108" in codes) == ("INVALID", True)


@pytest.mark.parametrize(
    "test, sentence",
    [
        (
            "test_asks_and_measures_nothing",
            "B105 a test requested perfguard, but measured nothing: test_b.py::test_asks_and_measures_nothing; call",
        ),
        ("test_steps_are_never_looped_over", "B105 a test requested perfguard, but measured nothing"),
        (
            "test_twice_without_names",
            "perfguard was called twice in test_b.py::test_twice_without_names; "
            "give each measurement a name: perfguard(step, name='decode').",
        ),
        ("test_not_a_callable", "perfguard(...) was given None and needs a function"),
    ],
)
def test_a_wrong_use_is_one_sentence_without_a_traceback(broken, test, sentence):
    said = broken.update.line(f"FAILED test_b.py::{test} - ").partition(" - ")[2]
    assert re.sub(r"^(Failed: perfguard: )test_b\.py:\d+: ", r"\1", said).startswith(f"Failed: perfguard: {sentence}")
    (case,) = [c for c in broken.project.junit("gate.xml").iter("testcase") if c.get("name") == test]
    assert "perfguard/plugin" not in (case.find("failure").text or "")


def test_two_measurements_with_names_have_a_baseline_each(broken):
    outcomes = broken.project.findings("gate.json")
    for name in ("prefill", "decode"):
        assert outcomes[f"test_b.py::test_twice_with_names#{name}"] == ("PASSED", [])
        assert f"test_b.py::test_twice_with_names#{name}" in broken.project.workloads


def test_a_test_that_skips_itself_is_skipped(broken):
    assert broken.gate.counts["skipped"] == 2
    assert "test_b.py::test_skips_itself" not in broken.project.findings("gate.json")


def test_a_step_that_raised_counts_whatever_the_test_makes_of_it(broken):
    assert "test_b.py::test_skips_after_its_step_raised: skipped after an INVALID verdict" in broken.gate.out
    outcome, _ = broken.project.findings("gate.json")["test_b.py::test_skips_after_its_step_raised"]
    assert outcome == "INVALID"
    (directory,) = (broken.project.directory / "recordings").glob("*test_skips_after*")
    assert json.loads((directory / "recording.json").read_text())["reason"] == "step 6 of 7: MemoryError: too large"


INTERRUPTED = (
    WRITTEN_HEAD
    + """
def test_done(perfguard):
    perfguard.replay(RECORDING)

def test_long(perfguard):
    if not os.environ.get("HANG"):
        perfguard.replay(RECORDING)
        return
    done = []
    def step():
        matmul()
        done.append(1)
        if len(done) == 8:
            open("in-the-window", "w").close()
            time.sleep(600)
    perfguard(step)

def test_never_reached(perfguard):
    perfguard.replay(RECORDING)
""".replace("RECORDING", repr(str(RECORDINGS / "torch-mlp")))
)


@pytest.mark.exhaustive
def test_ctrl_c_in_mid_window_marks_the_recording_and_touches_no_baseline(project):
    project.written()
    project.write("test_long.py", INTERRUPTED)
    assert project.run("--perfguard-update").status == 0
    before = project.baselines
    process = project.start(
        "--perfguard",
        "--perfguard-update",
        "--perfguard-recordings=recordings",
        "--perfguard-report=report.json",
        env={"HANG": "1"},
    )
    sign = project.directory / "in-the-window"
    wait_until(lambda: sign.exists() or process.poll() is not None, SECONDS_UNTIL_A_HANG)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=SECONDS_UNTIL_A_HANG)
    assert process.returncode == 2, out
    assert "KeyboardInterrupt" in out
    assert project.baselines == before
    (directory,) = (project.directory / "recordings").glob("*test_long--test_long*")
    assert json.loads((directory / "recording.json").read_text())["ending"] == "interrupted"
    checked = perfguard("check", directory)
    assert checked.exit_code == 3
    assert "C108" in checked.stdout
    outcomes = project.findings()
    assert outcomes["test_long.py::test_done"] == ("PASSED", [])
    assert outcomes["test_long.py::test_long"][0] == "INVALID"
    assert "unused:" not in out
