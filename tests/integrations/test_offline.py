"""Offline analysis: real MindSpore on the CPU, and stand-ins for the analysers that need a device or are no longer had."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.capture.replay import replay
from perfguard.errors import UsageError
from perfguard.gate import examine
from perfguard.integrations.offline import analyse
from perfguard.integrations.offline_recordings import WORK_DIRECTORY, AnalysisOptions, recorded_steps
from perfguard.judge.tolerance import Policy
from perfguard.scratch import Folder
from perfguard.testing import generate
from tests.facts import codes
from tests.programs import run_program, wait_until

SCRIPTS = Path(__file__).parent / "scripts"
ENDINGS = ("stopped", "raises", "killed", "analysed")
OPTIONS = AnalysisOptions()


def judged(directory):
    verdict = examine(replay(directory), workload="w", policy=Policy())
    return verdict.outcome.value, codes(verdict)


def contents(directory, *, without=("logs",)):
    """Return every file by name, with what is in it."""
    found = (path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file())
    return {name.as_posix(): (directory / name).read_bytes() for name in found if not set(name.parts) & set(without)}


def said(directory, options=OPTIONS):
    return [one.sentence.replace(str(directory), "OUT") for one in analyse(directory, options)]


# -- real MindSpore ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What runs of MindSpore that ended in these ways left behind, really made."""
    pytest.importorskip("mindspore", reason="mindspore is not installed: pip install -e '.[models]'")
    root = tmp_path_factory.mktemp("recorded")
    runs = [
        subprocess.Popen(
            [sys.executable, SCRIPTS / "offline_train.py", root / ending, ending],
            env={**os.environ, "RANK_ID": "1" if ending == "raises" else "0"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for ending in ENDINGS
    ]
    statuses = dict(zip(ENDINGS, [run.wait() for run in runs], strict=True))
    assert statuses == {"stopped": 0, "raises": 1, "killed": -9, "analysed": 0}
    return root


@pytest.fixture
def copy(recorded, tmp_path):
    def copied(ending, name="out"):
        return shutil.copytree(recorded / ending, tmp_path / name)

    return copied


def place_of(directory):
    return next(directory.glob("*_ascend_ms"))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_what_was_never_analysed_passes_once_it_is(recorded, tmp_path):
    """Ranks are analysed at a time, through a link as well, and one of which nothing is left hides no other."""
    places = {ending: tmp_path / "out" / f"rank_{rank}" for rank, ending in enumerate(("stopped", "raises", "killed"))}
    for ending, place in places.items():
        shutil.copytree(recorded / ending, place)
    before = {ending: contents(place) for ending, place in places.items()}
    assert {ending: judged(place) for ending, place in places.items()} == {
        "stopped": ("INVALID", ["A104"]),
        "raises": ("INVALID", ["A104"]),
        "killed": ("INVALID", ["C110"]),
    }
    (tmp_path / "link").symlink_to("out")
    found = {one.place.parent.name: one for one in analyse(tmp_path / "link", AnalysisOptions(jobs=2))}
    assert {name: one.done for name, one in found.items()} == {"rank_0": True, "rank_1": True, "rank_2": False}
    for ending in ("stopped", "raises"):
        out = places[ending]
        assert not found[out.name].doubtful
        assert found[out.name].sentence.endswith(" is analysed by MindSpore " + __import__("mindspore").__version__)
        assert judged(out) == ("PASSED", [])
        after = contents(out)
        (new,) = after.keys() - before[ending].keys()
        # Nothing but what the profiler's own analysis writes; no profiler_info that the profiler did not write.
        assert new.endswith("/ASCEND_PROFILER_OUTPUT/trace_view.json")
        assert {name: after[name] for name in before[ending]} == before[ending]
        assert not (place_of(out) / WORK_DIRECTORY).exists()
        # Its rank is in the names of its files only, and is not 0 where it raises.
        assert len(json.loads((out / new).read_text())) > 10
    # A profiler that was killed in its window.
    assert not found["rank_2"].refused
    assert "could not be analysed: nothing was collected, FRAMEWORK/ is empty or missing" in found["rank_2"].sentence
    assert judged(places["killed"]) == ("INVALID", ["C110"])


@pytest.mark.slow
@pytest.mark.exhaustive
def test_analysing_again_gives_the_same_result_and_another_than_before_is_told(copy):
    out = copy("analysed")
    before = contents(out)
    assert said(out)[0].endswith(" again, with the same result")
    assert contents(out) == before
    trace = place_of(out) / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    trace.write_text("[]")
    (trace.parent / "mine.txt").write_text("a note of my own")
    assert said(out)[0].endswith(" again, with another result than before")
    after = contents(out)
    assert after.pop(f"{place_of(out).name}/ASCEND_PROFILER_OUTPUT/mine.txt") == b"a note of my own"
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(
            lambda place: (place / "profiler_info_0.json").write_text("{"),
            "Failed read json file: OUT/",
            marks=pytest.mark.exhaustive,
        ),
        (lambda place: next(place.glob("FRAMEWORK/*timestamp*")).unlink(), "the analyser wrote nothing into ASCEND_PR"),
    ],
    ids=["broken info", "nothing to tell of"],
)
@pytest.mark.exhaustive
def test_the_analysers_own_error_comes_through_and_nothing_changes(copy, damage, reason):
    out = copy("stopped")
    damage(place_of(out))
    before = contents(out, without=())
    (line,) = said(out)
    assert "could not be analysed: MindSpore 2." in line
    assert reason in line
    assert line.endswith("; nothing of the recording was changed")
    assert contents(out, without=()) == before


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_full_disk_loses_nothing(copy):
    out = copy("analysed")
    before = contents(out, without=())
    found = subprocess.run(
        [sys.executable, "-m", "perfguard", "analyse", out],
        # The limit would truncate byte code as well, and Python would keep it.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 3
    assert "trace_view.json is cut short (Failed to save trace_view.json" in found.stdout
    assert "File too large); nothing of the recording was changed" in found.stdout
    assert contents(out, without=()) == before


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_analysis_that_takes_too_long_is_ended(copy):
    out = copy("stopped")
    before = contents(out, without=())
    (line,) = said(out, AnalysisOptions(timeout_s=0.3))
    assert line.endswith("its analysis did not end in 0.3 s and was stopped; nothing was changed")
    assert contents(out, without=()) == before


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_mindspore_for_the_cpu_does_not_analyse_what_an_ascend_device_recorded(tmp_path):
    pytest.importorskip("mindspore", reason="mindspore is not installed: pip install -e '.[models]'")
    generate("ms-2.5+", conditions={"analysed": False}).write(tmp_path)
    before = contents(tmp_path, without=())
    (line,) = said(tmp_path)
    assert "this MindSpore is built for the CPU: it skips what the framework recorded beside an Ascend device" in line
    assert contents(tmp_path, without=()) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"steps": (2, 3)},
            "--steps 2:3: MindSpore slices by step only what an Ascend device recorded, and ignores it",
        ),
        ({"pretty": True}, "MindSpore since 2.5 accepts --pretty and ignores it; leave it out"),
    ],
)
@pytest.mark.exhaustive
def test_what_mindspore_would_ignore_is_refused(copy, options, reason):
    with pytest.raises(UsageError, match=reason):
        list(analyse(copy("stopped"), AnalysisOptions(**options)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda place: ((place / WORK_DIRECTORY).mkdir(), Folder(place / WORK_DIRECTORY)),
            "another analysis of it is running; if none is, ",
        ),
        (lambda place: linked(place, "FRAMEWORK"), "FRAMEWORK is a link, which analysers do not read"),
        (lambda place: linked(place, "FRAMEWORK/cpu_framework_0.txt"), "FRAMEWORK/cpu_framework_0.txt is a link"),
    ],
    ids=["another analysis", "linked folder", "linked file"],
)
@pytest.mark.exhaustive
def test_a_recording_that_cannot_be_worked_on_is_refused(copy, make, reason):
    out = copy("stopped")
    make(place_of(out))
    with pytest.raises(UsageError, match=reason):
        list(analyse(out, OPTIONS))


def linked(place, name):
    elsewhere = place.parents[1] / "elsewhere"
    (place / name).rename(elsewhere)
    (place / name).symlink_to(elsewhere)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_files_of_two_ranks_in_one_directory_are_not_half_analysed(copy):
    out = copy("stopped")
    one = next(place_of(out).glob("FRAMEWORK/*timestamp*"))
    shutil.copy(one, one.with_name(one.name.replace("_0.", "_1.")))
    (line,) = said(out)
    assert "FRAMEWORK/ holds the files of ranks 0, 1; MindSpore analyses one rank in a directory" in line


AS_NOBODY = """
import os, sys
from pathlib import Path
from perfguard.integrations.offline import analyse
from perfguard.integrations.offline_recordings import AnalysisOptions
from perfguard.artifacts.survey import survey
from perfguard.errors import UsageError
survey(Path(sys.argv[1]))  # reads what perfguard brings along, which somebody else may not be able to
if os.getuid() == 0:
    os.setuid(65534)
try:
    list(analyse(Path(sys.argv[1]), AnalysisOptions()))
except UsageError as error:
    print(error)
"""


def test_a_directory_that_may_not_be_written_is_refused(tmp_path):
    """Root may write everywhere, so the test becomes somebody else."""
    with tempfile.TemporaryDirectory() as temporary:
        os.chmod(temporary, 0o755)
        place = ascend(Path(temporary) / "out")
        place.chmod(0o555)
        found = run_program(sys.executable, "-c", AS_NOBODY, place.parent)
        place.chmod(0o755)
    assert "it is not writable; change its permissions, or copy it to a writable place" in found.stdout, found.stderr


# -- stand-ins ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Lay out a package that does what STAND_IN says, before the real one; returns how it was called."""

    def lay_out(name, version, behaviour="works"):
        root = tmp_path / "packages"
        package = root / name / "profiler"
        package.mkdir(parents=True)
        shutil.copy(SCRIPTS / "offline_analyser.py", root / name / "offline_analyser.py")
        (root / f"{name}-{version}.dist-info").mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        (root / f"{name}-{version}.dist-info" / "METADATA").write_text(metadata)
        is_mindspore = name == "mindspore"
        first = "from mindspore.offline_analyser import Profiler, get_context\n" if is_mindspore else ""
        (root / name / "__init__.py").write_text(first)
        (package / "__init__.py").write_text("")
        if not is_mindspore or int(version.split(".")[1]) >= 5:
            of = "since_2_5" if is_mindspore else "of_torch_npu"
            (package / "profiler.py").write_text(f"from {name}.offline_analyser import {of} as analyse\n")
        monkeypatch.setenv("PYTHONPATH", str(root))
        monkeypatch.setenv("STAND_IN", behaviour)
        monkeypatch.setenv("STAND_IN_CALL", str(tmp_path / "call.json"))

    lay_out.call = lambda: json.loads((tmp_path / "call.json").read_text())
    return lay_out


def ascend(directory, steps=0):
    """Write what MindSpore collected beside an Ascend device, with raw records of so many steps."""
    generate("ms-2.5+", conditions={"analysed": False}).write(directory)
    place = place_of(directory)
    (place / "FRAMEWORK" / "mindspore.op_range").write_bytes(op_range([7 + step for step in range(steps)]))
    return place


def op_range(steps):
    """Write MindSpore's TLV records: a thread, a flow, the step, times, and a name."""
    name = b"MatMul"
    fields = struct.pack("<HI", 13, len(name)) + name
    fixed = [struct.pack("<5Qi3Hb3?", 1, 2, step, 3, 4, 5, 1, 1, 1, 0, False, False, False) for step in steps]
    return b"".join(struct.pack("<HI", 1, len(one) + len(fields)) + one + fields for one in fixed)


def old(directory):
    """Write what MindSpore 2.3 collected, in the layout of its documents."""
    tree = generate("ms-2.3")
    tree.write(directory)
    shutil.rmtree(next((directory / "profiler").glob("rank-*_ascend_ms")) / "ASCEND_PROFILER_OUTPUT")
    return directory / "profiler"


def test_mindspore_on_ascend_is_called_with_the_steps(tmp_path, stand_in):
    out = tmp_path / "out"
    ascend(out, steps=4)
    stand_in("mindspore", "2.10.0")
    assert [one.done for one in analyse(out, AnalysisOptions(steps=(2, 4), keep_raw=True))] == [True]
    call = stand_in.call()
    assert (call["step_list"], call["data_simplification"], call["jobs"]) == ([2, 3, 4], False, 1)


@pytest.mark.parametrize("under", [".", "profile/rank_{rank}"])
def test_ranks_are_found_where_launchers_and_mindformers_put_them(tmp_path, stand_in, under):
    out = tmp_path / "out"
    generate("ms-2.5+", ranks=2, conditions={"analysed": False}).write(tmp_path)
    for rank, place in enumerate(sorted(tmp_path.glob("*_ascend_ms"))):
        shutil.move(place, out / under.format(rank=rank) / place.name)
    stand_in("mindspore", "2.10.0")
    found = list(analyse(out, AnalysisOptions(jobs=2)))
    assert [one.done for one in found] == [True, True]
    assert {one.place.parent for one in found} == {out / under.format(rank=rank) for rank in (0, 1)}


@pytest.mark.parametrize(
    ("recorded_steps", "asked", "reason"),
    [
        (4, (5, 8), "--steps 5:8 is outside the recording, which holds the steps 1 to 4"),
        (4, (4, 5), "--steps 4:5 is outside the recording, which holds the steps 1 to 4"),
        (0, (1, 1), "--steps 1:1: FRAMEWORK/mindspore.op_range has no steps"),
    ],
)
def test_steps_that_are_not_there_are_an_error(tmp_path, recorded_steps, asked, reason):
    ascend(tmp_path, steps=recorded_steps)
    with pytest.raises(UsageError, match=reason):
        list(analyse(tmp_path, AnalysisOptions(steps=asked)))


def test_what_simplification_left_is_not_analysed_again(tmp_path):
    generate("ms-2.5+", conditions={"simplified": True}).write(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(
        UsageError, match="it was analysed with data simplification before \\(its profiler_info says so\\)"
    ):
        list(analyse(tmp_path, OPTIONS))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("keep_raw", [False, True])
def test_mindspore_2_4_simplifies_once(tmp_path, stand_in, keep_raw):
    out = tmp_path / "out"
    place = old(out)
    stand_in("mindspore", "2.4.10")
    options = AnalysisOptions(keep_raw=keep_raw, pretty=True)
    assert [one.done for one in analyse(out, options)] == [True]
    call = stand_in.call()
    assert (call["pretty"], call["step_list"], call["data_simplification"]) == (True, None, not keep_raw)
    assert Path(call["path"]).name == WORK_DIRECTORY
    assert (place / "FRAMEWORK").is_dir() == keep_raw
    assert list(place.glob("PROF_*/**/*.slice_0"))
    if keep_raw:
        assert [one.done for one in analyse(out, options)] == [True]
    else:
        with pytest.raises(UsageError, match="a second analysis would lose the framework's side"):
            list(analyse(out, options))


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ((2, 3), " is analysed by MindSpore 2.4.10"),
        ((2, 5), "--steps 2:5 is outside the recording, which holds the steps 2 to 3"),
        ((5, 8), "--steps 5:8: the result has no step"),
    ],
)
@pytest.mark.variants(1)
def test_mindspore_2_4_slices_to_nothing_without_a_word_and_perfguard_says_it(tmp_path, stand_in, steps, reason):
    out = tmp_path / "out"
    old(out)
    before = contents(out)
    stand_in("mindspore", "2.4.10")
    (line,) = said(out, AnalysisOptions(steps=steps))
    assert reason in line
    assert (contents(out) == before) == ("is analysed" not in line)


def test_ranks_of_2_4_lie_in_their_own_directories(tmp_path, stand_in):
    out = tmp_path / "out"
    for rank in ("rank_0", "rank_1"):
        old(out / rank)
    stand_in("mindspore", "2.4.10")
    assert [one.done for one in analyse(out, AnalysisOptions(jobs=2))] == [True, True]


def test_mindspore_2_2_takes_an_offline_path(tmp_path, stand_in):
    out = tmp_path / "out"
    generate("ms-2.1").write(out)
    (out / "profiler" / "ascend_timeline_display_0.json").unlink(missing_ok=True)
    stand_in("mindspore", "2.2.14")
    assert [one.done for one in analyse(out, OPTIONS)] == [True]
    assert stand_in.call()["start_profile"] is False
    assert stand_in.call()["pretty"] is False
    with pytest.raises(UsageError, match=r"MindSpore 2\.2 analyses all steps"):
        list(analyse(out, AnalysisOptions(steps=(1, 2))))


def torch_npu(directory):
    tree = generate("pt-npu", conditions={"analysed": False} if "analysed" in generate("pt-npu").conditions else None)
    tree.write(directory)
    place = next(directory.glob("*_ascend_pt"))
    shutil.rmtree(place / "ASCEND_PROFILER_OUTPUT", ignore_errors=True)
    (place / "FRAMEWORK").mkdir(exist_ok=True)
    (place / "FRAMEWORK" / "torch.op_range").write_bytes(b"raw")
    return place


def test_what_a_killed_analysis_left_is_deleted_by_the_next(tmp_path, stand_in):
    place = torch_npu(tmp_path / "out")
    (place / WORK_DIRECTORY / "copy").mkdir(parents=True)
    stand_in("torch_npu", "2.1.0")
    assert [one.done for one in analyse(place, OPTIONS)] == [True]
    assert not (place / WORK_DIRECTORY).exists()


def test_a_recording_whose_name_is_that_of_a_module_is_not_imported(tmp_path, stand_in):
    place = torch_npu(tmp_path / "out").rename(tmp_path / "json")
    (place / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    stand_in("torch_npu", "2.1.0")
    assert [one.done for one in analyse(place, OPTIONS)] == [True]
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("keep_raw", [False, True])
def test_torch_npu_is_called_and_raw_data_are_kept_although_it_has_no_such_option(tmp_path, stand_in, keep_raw):
    out = tmp_path / "out"
    place = torch_npu(out)
    stand_in("torch_npu", "2.1.0", "simplifies")
    assert [one.done for one in analyse(out, AnalysisOptions(keep_raw=keep_raw))] == [True]
    assert stand_in.call()["jobs"] == 1
    assert (place / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").is_file()
    assert (place / "FRAMEWORK").exists() == keep_raw


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"pretty": True}, "torch_npu's analyser has no --pretty"), ({"steps": (1, 2)}, "cannot select steps")],
)
def test_what_torch_npu_does_not_know_is_refused(tmp_path, options, reason):
    torch_npu(tmp_path)
    with pytest.raises(UsageError, match=reason):
        list(analyse(tmp_path, AnalysisOptions(**options)))


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("dies", "the analyser was ended by SIGKILL; nothing of the recording was changed"),
        ("raises", "RuntimeError: no msprof here; nothing of the recording was changed"),
        ("nothing", "the analyser wrote nothing into ASCEND_PROFILER_OUTPUT/ and reported no error"),
        ("fails", "MindSpore 2.10.0: no msprof; nothing of the recording was changed"),
        ("cut", "trace_view.json is cut short (the disk may be full); nothing of the recording was changed"),
        ("hangs", "its analysis did not end in 1 s and was stopped; nothing was changed"),
    ],
)
@pytest.mark.variants(2)
def test_an_analyser_that_does_not_do_its_work_changes_nothing(tmp_path, stand_in, behaviour, reason):
    out = tmp_path / "out"
    place = ascend(out)
    (place / "ASCEND_PROFILER_OUTPUT").mkdir()
    (place / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text("[1, 2]")
    before = contents(out, without=())
    stand_in("mindspore", "2.10.0", behaviour)
    (only,) = analyse(out, AnalysisOptions(timeout_s=1 if behaviour == "hangs" else None))
    assert not only.done
    assert reason in only.sentence
    assert contents(out, without=()) == before
    assert not processes_of(tmp_path)


def processes_of(tmp_path):
    """Return the processes whose environment names this test's directory."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"STAND_IN_CALL={tmp_path}".encode() in environ.read_bytes() and int(environ.parent.name) != os.getpid():
                found.append(environ.parent.name)
        except OSError:
            continue
    return found


def test_a_result_with_an_error_is_kept_and_told_and_so_is_the_raw_data(tmp_path, stand_in):
    out = tmp_path / "out"
    place = ascend(out)
    (place / "PROF_000001_1_ABC").mkdir()
    stand_in("mindspore", "2.10.0", "in part")
    (only,) = analyse(out, OPTIONS)
    assert (only.done, only.doubtful) == (True, True)
    assert only.sentence.endswith(" is analysed by MindSpore 2.10.0 in part: no msprof (its raw data is kept)")
    assert (place / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").is_file()


def test_ctrl_c_ends_the_analysis_and_leaves_the_recording_as_it_was(tmp_path, stand_in):
    out = tmp_path / "out"
    ascend(out)
    before = contents(out, without=())
    stand_in("mindspore", "2.10.0", "hangs")
    command = [sys.executable, "-m", "perfguard", "analyse", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "call.json").is_file)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "stopped before the end" in stderr
    assert contents(out, without=()) == before
    assert not processes_of(tmp_path)


# -- what cannot be analysed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("ms-2.0", "MindSpore 2.0 has no offline analysis \\(2.2 and later have\\)"),
        ("pt-torch", "torch.profiler writes complete traces, which need no analysis; judge them with: perfguard check"),
        ("summary", "holds no profiler output of a layout that can be analysed"),
    ],
)
def test_what_has_no_analysis_is_refused_with_what_to_do(tmp_path, layout, reason):
    generate(layout).write(tmp_path)
    with pytest.raises(UsageError, match=reason):
        list(analyse(tmp_path, OPTIONS))


def test_a_torch_trace_beside_others_is_told_of_and_not_in_the_way(tmp_path, stand_in):
    out = tmp_path / "out"
    ascend(out / "a")
    generate("pt-torch").write(out / "b")
    stand_in("mindspore", "2.10.0")
    assert sorted((one.refused, one.done) for one in analyse(out, OPTIONS)) == [(False, True), (True, False)]


@pytest.mark.parametrize(
    ("layout", "version", "reason"),
    [
        ("ms-2.5+", "2.4.0", "MindSpore 2.5 or later analyses it, and .* has MindSpore 2.4.0"),
        ("ms-2.3", "2.10.0", "MindSpore 2.3 or 2.4 analyses it, and .* has MindSpore 2.10.0"),
        ("ms-2.1", "2.3.1", "MindSpore 2.2 analyses it, and .* has MindSpore 2.3.1"),
        ("pt-npu", "2.10.0", "torch_npu analyses it, and .* has no torch_npu"),
    ],
)
@pytest.mark.variants(2)
def test_the_python_must_have_the_analyser_of_the_recording(tmp_path, stand_in, layout, version, reason):
    out = tmp_path / "out"
    {"ms-2.5+": ascend, "ms-2.3": old, "pt-npu": torch_npu, "ms-2.1": lambda place: generate("ms-2.1").write(place)}[
        layout
    ](out)
    stand_in("mindspore", version)
    with pytest.raises(UsageError, match=reason):
        list(analyse(out, OPTIONS))


@pytest.mark.parametrize(
    ("python", "reason"),
    [("no-such-python", "there is no Python no-such-python"), ("/bin/ls", "/bin/ls is not a working Python")],
)
def test_a_python_that_is_none_is_refused(tmp_path, python, reason):
    ascend(tmp_path)
    with pytest.raises(UsageError, match=reason):
        list(analyse(tmp_path, AnalysisOptions(python=Path(python))))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"jobs": 0}, "--jobs must be at least 1, got 0"),
        ({"timeout_s": 0}, "--timeout must be greater than 0 seconds, got 0"),
        ({"timeout_s": float("nan")}, "--timeout must be greater than 0 seconds, got nan"),
        ({"steps": (0, 3)}, "--steps 0:3 is not a range"),
        ({"steps": (8, 5)}, "--steps 8:5 is not a range"),
    ],
)
def test_wrong_options_are_refused(wrong, reason):
    with pytest.raises(UsageError, match=reason):
        AnalysisOptions(**wrong)


@given(st.lists(st.integers(0, 2**40), max_size=8), st.integers(0, 100))
def test_steps_are_read_as_far_as_the_raw_records_go(tmp_path_factory, steps, lost):
    file = tmp_path_factory.mktemp("raw") / "mindspore.op_range"
    content = op_range(steps)
    file.write_bytes(content[: max(0, len(content) - lost)])
    length = len(op_range([1]))
    whole = steps[: max(0, len(content) - lost) // length]
    assert recorded_steps(file) == (max(whole) - min(whole) + 1 if whole else 0)


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_of_steps_fail(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("raw") / "mindspore.op_range"
    file.write_bytes(content)
    assert recorded_steps(file) >= 0
