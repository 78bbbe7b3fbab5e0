"""A directory of baselines: one readable file a test, whatever the test is called, and nothing lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from perfguard.errors import DamagedError, StoreError
from perfguard.gate import Update
from perfguard.judge.tolerance import Policy
from perfguard.recording import read_recording
from perfguard.stores import STORES, directory
from perfguard.stores.directory import BaselineDirectory, file_name
from perfguard.version import upgrade_command
from tests.facts import RECORDINGS, WORKLOAD, baseline, gated, measured, names_the_next_command, unwritable_directory

CALLS = measured("operator_calls", 2, "MatMul")
STEP = measured("step_time", 100.25, samples=(100.25, 0.1 + 0.2, 1e-7, 12345678.9))

ODD_IDS = [
    "tests/test_net.py::test_train",
    "tests/test_net.py::Test_Train",
    "tests/test_net.py::TEST_TRAIN",
    "tests/test_net.py::test_train[a]",
    "tests/test_net.py::test_train[A]",
    "tests/test_net.py::test_train[a/b]",
    "tests/test_net.py::test_train[a.b]",
    "tests/test_net.py::test_train[a\\b]",
    "tests/test_net.py::test_train[../../../etc/passwd]",
    "tests/test_net.py::TestNet::test_train",
    "tests.test_net.py::test_train",
    "tests/test.net.py::test_train",
    "../test_net.py::test_train",
    "/tests/test_net.py::test_train",
    "test_net.py::test_train",
    "test_net.py::test_train#2",
    "",
    ".",
    "..",
    "/",
    "~",
    "-",
    ".hidden",
    "con.py::nul",
    "a\0b",
    "a\nb",
    "a b",
    "nai\u0308f",
    "naïf",
    "测试/test_网络.py::test_训练[形状]",
    "🔥",
    "tests/\udcff/test_net.py::test_train",
    "x" * 300,
    "x" * 301,
    "测" * 400,
    "tests/test_net.py::test_" + "y" * 300,
    "tests/test_net.py::test_" + "y" * 301,
    "d/" * 200 + "test_net.py::test_train",
]
PARTS = st.text(st.sampled_from("aAbB01_-./\\:[]# éß测\n\0"), max_size=12)
IDS = st.one_of(
    st.text(max_size=400), PARTS, st.builds("{}/{}.py::{}".format, PARTS, PARTS, PARTS), st.sampled_from(ODD_IDS)
)


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("tests/models/test_torch.py::test_mlp", "tests.models.test_torch--test_mlp"),
        ("test_net.py::test_train", "test_net--test_train"),
    ],
)
def test_a_plain_id_is_readable(workload, expected):
    assert file_name(workload) == expected


@pytest.mark.parametrize("workload", ["tests/test_net.py::test_train[graph]", "tests/test_net.py::Test_Train"])
def test_any_other_id_is_readable_and_has_a_hash(workload):
    plain, _, digest = file_name(workload).rpartition("-")
    assert plain.lower().startswith("tests.test_net--test_train")
    assert len(digest) == 10
    assert set(digest) <= set("0123456789abcdef")


def assert_safe(workload: str) -> None:
    name = file_name(workload)
    assert name
    assert not name.startswith(".")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    assert len(name) <= 140
    place = Path("/somewhere/baselines")
    path = BaselineDirectory(place).path(workload)
    assert path.parent == place
    assert Path(os.path.normpath(path)) == path


@pytest.mark.parametrize("workload", ODD_IDS, ids=ascii)
def test_an_odd_id_has_a_safe_name(workload):
    assert_safe(workload)


@given(workload=IDS)
def test_every_id_has_a_safe_name(workload):
    assert_safe(workload)


def test_odd_ids_have_different_names_on_a_file_system_that_folds_case():
    assert len({file_name(workload).lower() for workload in ODD_IDS}) == len(ODD_IDS)


@given(one=IDS, other=IDS)
@settings(max_examples=300)
def test_different_ids_have_different_names(one, other):
    assert (file_name(one).lower() == file_name(other).lower()) == (one == other)


@given(workload=IDS)
def test_the_name_of_a_test_is_no_name_of_another(workload):
    assert file_name(file_name(workload)) != file_name(workload)
    assert file_name(workload) != file_name(workload.swapcase()) or workload == workload.swapcase()


# -- round trip ------------------------------------------------------------------------------------------------------


@given(workload=IDS, reason=st.one_of(st.none(), st.text()), value=st.floats(0, 1e149))
@settings(max_examples=60)
def test_a_baseline_is_loaded_as_it_was_saved(workload, reason, value):
    stored = baseline(CALLS, replace(STEP, value=value), workload=workload, reason=reason)
    with tempfile.TemporaryDirectory() as place:
        store = STORES["directory"](Path(place))
        assert store.load(workload) is None
        store.save(stored)
        assert store.load(workload) == stored
        assert store.workloads() == [workload]
        store.delete(workload)
        assert store.load(workload) is None
        assert os.listdir(place) == []


def test_many_odd_ids_live_side_by_side(tmp_path):
    store = BaselineDirectory(tmp_path / "base")
    names = [workload for workload in ODD_IDS if "\udcff" not in workload]
    for number, workload in enumerate(names):
        store.save(baseline(replace(CALLS, value=number), workload=workload))
    assert store.workloads() == sorted(names)
    for number, workload in enumerate(names):
        loaded = store.load(workload)
        assert loaded is not None
        assert loaded.measurements[0].value == number
    assert os.listdir(tmp_path) == ["base"]


def test_an_id_below_a_directory_that_is_not_utf8_is_kept(tmp_path):
    store = BaselineDirectory(tmp_path)
    store.save(baseline(CALLS, workload="tests/\udcff/test_net.py::test_train"))
    assert store.workloads() == ["tests/\udcff/test_net.py::test_train"]


def test_measurements_are_written_one_a_line_and_sorted(tmp_path):
    store = BaselineDirectory(tmp_path)
    some = [measured("steps", 5), CALLS, STEP, measured("operator_set", ["a", "é"]), replace(CALLS, subject="Add")]
    store.save(baseline(*some))
    lines = store.path(WORKLOAD).read_text(encoding="utf-8").splitlines()
    found = [json.loads(line.strip().rstrip(",")) for line in lines if '"metric"' in line]
    assert [(one["metric"], one["subject"]) for one in found] == [
        ("operator_calls", "Add"),
        ("operator_calls", "MatMul"),
        ("operator_set", ""),
        ("step_time", ""),
        ("steps", ""),
    ]
    keys = [line.split('"')[1] for line in lines if line.startswith('  "')]
    assert keys == sorted(keys)
    assert lines[0] == "{"
    assert '"time' not in "".join(line for line in lines if '"metric"' not in line)


def test_one_changed_number_is_one_changed_line(tmp_path):
    store = BaselineDirectory(tmp_path)
    texts = []
    for calls in (2, 3):
        store.save(baseline(replace(CALLS, value=calls), STEP, measured("steps", 5)))
        texts.append(store.path(WORKLOAD).read_text(encoding="utf-8").splitlines())
    changed = [(old, new) for old, new in zip(*texts, strict=True) if old != new]
    assert len(changed) == 1
    assert '"operator_calls"' in changed[0][0]


@given(samples=st.lists(st.floats(0, 1e15), min_size=1, max_size=8))
@settings(max_examples=60)
def test_a_file_that_is_loaded_and_saved_again_is_the_same(samples):
    with tempfile.TemporaryDirectory() as place:
        store = BaselineDirectory(Path(place))
        store.save(baseline(measured("step_time", min(samples), samples=tuple(samples))))
        first = store.path(WORKLOAD).read_bytes()
        loaded = store.load(WORKLOAD)
        assert loaded is not None
        assert loaded.measurements[0].samples == tuple(samples)
        store.save(loaded)
        assert store.path(WORKLOAD).read_bytes() == first


@pytest.mark.parametrize(
    "path", sorted((RECORDINGS.parents[2] / "baselines").glob("*.json")), ids=lambda p: p.stem[:40]
)
def test_the_committed_baselines_are_written_as_they_are_read(tmp_path, path):
    shutil.copy(path, tmp_path)
    store = BaselineDirectory(tmp_path)
    (workload,) = store.workloads()
    assert store.path(workload).name == path.name
    loaded = store.load(workload)
    assert loaded is not None
    store.save(loaded)
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()


# -- nothing there, or damage ----------------------------------------------------------------------------------------


def test_a_directory_that_is_not_there_holds_nothing(tmp_path):
    store = STORES["directory"](tmp_path / "none")
    assert store.load(WORKLOAD) is None
    assert store.workloads() == []
    store.delete(WORKLOAD)
    assert list(tmp_path.iterdir()) == []


def saved(tmp_path: Path) -> tuple[BaselineDirectory, Path]:
    store = BaselineDirectory(tmp_path)
    store.save(baseline(CALLS, STEP))
    return store, store.path(WORKLOAD)


def edit(**changes):
    return lambda text: json.dumps({**json.loads(text), **changes})


def drop(key: str):
    return lambda text: json.dumps({name: value for name, value in json.loads(text).items() if name != key})


def with_value(value: str):
    return lambda text: text.replace('"value": 100.25', f'"value": {value}').replace('"value": 2', f'"value": {value}')


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text[:-3],
        lambda text: "[]",
        lambda text: "null",
        lambda text: text + text,
        lambda text: text.replace('"metric"', '<<<<<<< HEAD\n"metric"', 1),
        drop("format"),
        drop("fingerprint"),
        drop("measurements"),
        drop("runs"),
        edit(format=0),
        edit(format="1"),
        edit(capture="INVALID"),
        edit(fingerprint=None),
        edit(environment=None),
        edit(runs=0),
        edit(commit=5),
        edit(workload=5),
        edit(tolerance={"step_time": 9}),
        edit(measurements={}),
        edit(measurements=[{"metric": "steps", "subject": "", "value": 5, "tolerance": 9}]),
        edit(measurements=[{"metric": "steps", "subject": ""}]),
        edit(measurements=[{"metric": "steps", "subject": "", "value": "5"}]),
        edit(measurements=[{"metric": "steps", "subject": "", "value": None}]),
        edit(measurements=[{"metric": "steps", "subject": "", "value": True}]),
        edit(measurements=[{"metric": "operator_set", "subject": "", "value": [["a"]]}]),
        edit(measurements=[{"metric": "operator_set", "subject": "", "value": [1, None]}]),
        edit(measurements=[{"metric": "operator_shapes", "subject": "a", "value": {"[2]": "many"}}]),
        edit(measurements=[{"metric": "steps", "subject": "", "value": value} for value in (5, 6)]),
        with_value("NaN"),
        with_value("Infinity"),
        with_value("-Infinity"),
        with_value("1e999"),
    ],
    ids=range(34),
)
def test_a_damaged_baseline_is_refused_and_kept(tmp_path, damage):
    store, path = saved(tmp_path)
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    before = path.read_bytes()
    for read in (lambda: store.load(WORKLOAD), store.workloads):
        with pytest.raises(StoreError, match="is damaged") as raised:
            read()
        assert str(path) in str(raised.value)
        assert "pytest --perfguard --perfguard-update" in str(raised.value)
    assert path.read_bytes() == before


def test_a_baseline_of_a_newer_format_says_to_upgrade(tmp_path):
    store, path = saved(tmp_path)
    path.write_text(edit(format=2, unheard="of")(path.read_text()))
    with pytest.raises(StoreError, match=f"format 2.*{re.escape(upgrade_command())}"):
        store.load(WORKLOAD)


def test_the_file_of_another_test_is_not_taken_for_its_own(tmp_path):
    store, path = saved(tmp_path)
    path.rename(store.path("tests/test_net.py::test_copy"))
    with pytest.raises(StoreError, match="test_copy") as raised:
        store.load("tests/test_net.py::test_copy")
    assert names_the_next_command(str(raised.value))


def test_what_is_no_baseline_lies_beside_them_unharmed(tmp_path):
    store, _ = saved(tmp_path)
    for name in ("README.md", ".x.json.abc.tmp", "notes.txt"):
        (tmp_path / name).write_text("mine")
    assert store.workloads() == [WORKLOAD]


# -- a place that cannot be used -------------------------------------------------------------------------------------


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path):
    place = tmp_path / "baselines"
    place.write_text("a file")
    store = BaselineDirectory(place)
    with pytest.raises(StoreError, match="is not a directory, so its baselines cannot be read") as loading:
        store.load(WORKLOAD)
    with pytest.raises(StoreError, match="is not a directory, so its baselines cannot be read"):
        store.workloads()
    with pytest.raises(StoreError, match="cannot be written") as saving:
        store.save(baseline(CALLS))
    with pytest.raises(StoreError, match="--perfguard-baselines DIR") as locking, store.locked():
        pass
    for raised in (loading, saving, locking):
        assert names_the_next_command(str(raised.value))
    assert place.read_text() == "a file"


def test_a_link_is_not_written_through(tmp_path):
    outside = tmp_path / "outside.json"
    store = BaselineDirectory(tmp_path / "baselines")
    store.save(baseline(CALLS))
    path = store.path(WORKLOAD)
    path.rename(outside)
    before = outside.read_text()
    for target, says in ((outside, "is a link, and is not written through"), (tmp_path / "nowhere", "is a link to ")):
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        with pytest.raises(StoreError, match=says) as raised:
            store.save(baseline(STEP))
        assert names_the_next_command(str(raised.value))
    assert (outside.read_text(), (tmp_path / "nowhere").exists()) == (before, False)


def test_the_command_for_a_link_makes_it_a_file_of_its_own(tmp_path):
    store, _ = saved(tmp_path / "baselines")
    path, outside = store.path(WORKLOAD), tmp_path / "out side.json"
    path.rename(outside)
    path.symlink_to(outside)
    before = outside.read_text()
    with pytest.raises(StoreError) as raised:
        store.save(baseline(STEP))
    subprocess.run(str(raised.value).partition("again: ")[2], shell=True, check=True)
    assert (path.is_symlink(), path.read_text()) == (False, before)
    store.save(baseline(STEP))
    assert outside.read_text() == before


NO_FILES = {
    "a directory": (lambda path: path.mkdir(), "is a directory, so"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere.json"), "is a link to nowhere.json, which is no file"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "which is no file"),
    "a link to a directory": (lambda path: path.symlink_to("."), "is a link to ., which is no file"),
    "a pipe": (lambda path: os.mkfifo(path), "is not a regular file"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="no links and pipes for every user")
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_neither_new_nor_replaced(tmp_path, kind):
    make, says = NO_FILES[kind]
    store = BaselineDirectory(tmp_path)
    make(path := store.path(WORKLOAD))
    for use in (lambda: store.load(WORKLOAD), store.workloads):
        with pytest.raises(StoreError, match=re.escape(says)) as raised:
            use()
        assert not isinstance(raised.value, DamagedError), "that could be replaced with a reason"
        assert names_the_next_command(str(raised.value))
        assert "--perfguard-update" not in str(raised.value)
    assert os.path.lexists(path)


def test_a_link_in_the_place_of_the_directory_that_leads_nowhere_is_not_an_empty_one(tmp_path):
    (tmp_path / "baselines").symlink_to("nowhere")
    store = BaselineDirectory(tmp_path / "baselines")
    for use in (lambda: store.load(WORKLOAD), store.workloads):
        with pytest.raises(StoreError, match="is a link that leads to no directory") as raised:
            use()
        assert names_the_next_command(str(raised.value))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no permissions of files")
def test_a_file_that_cannot_be_read_is_neither_new_nor_replaced():
    with unwritable_directory(0o755) as place:
        store = BaselineDirectory(place)
        path, user = store.path(WORKLOAD), os.geteuid()
        os.seteuid(os.getuid())
        store.save(baseline(CALLS))
        path.chmod(0o000)
        os.seteuid(user)
        for use in (lambda: store.load(WORKLOAD), lambda: BaselineDirectory(place).load(WORKLOAD)):
            with pytest.raises(StoreError, match=r"cannot be read: Permission denied\. Run: chmod u") as raised:
                use()
            assert not isinstance(raised.value, DamagedError)


def test_an_unwritable_directory_is_refused():
    with unwritable_directory() as place:
        store = BaselineDirectory(place)
        with pytest.raises(StoreError, match="cannot be written: Permission denied") as raised:
            store.save(baseline(CALLS))
        assert names_the_next_command(str(raised.value))
        assert os.listdir(place) == ["x.json"]


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_directory_that_cannot_be_entered_is_not_an_empty_one(mode):
    with unwritable_directory(mode) as place:
        store = BaselineDirectory(place)
        for use in (lambda: store.load(WORKLOAD), store.workloads, lambda: store.save(baseline(CALLS))):
            with pytest.raises(StoreError, match="Permission denied") as raised:
                use()
            assert names_the_next_command(str(raised.value))


def test_what_cannot_be_removed_names_the_next_command(tmp_path):
    store = BaselineDirectory(tmp_path)
    store.path(WORKLOAD).mkdir()
    with pytest.raises(StoreError, match="cannot be removed") as raised:
        store.delete(WORKLOAD)
    assert names_the_next_command(str(raised.value))


# -- side by side ----------------------------------------------------------------------------------------------------


def test_a_locked_directory_is_waited_for_and_then_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "_LOCK_SECONDS", 0.05)
    store = BaselineDirectory(tmp_path)
    held = FileLock(store._lock_path())
    with held, pytest.raises(StoreError, match="locked by another run") as raised, store.locked():
        pass
    assert names_the_next_command(str(raised.value))
    with store.locked():
        store.save(baseline(CALLS))


def test_the_lock_is_in_a_folder_of_the_user_alone_and_a_planted_one_is_refused(tmp_path, monkeypatch):
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir(mode=0o777)
    victim.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    store = BaselineDirectory(tmp_path / "baselines")
    with store.locked():
        (folder,) = shared.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert [one.name for one in folder.iterdir()] == [store._lock_path().name]
    shutil.rmtree(folder)

    def is_owned_by_another() -> None:
        folder.mkdir(mode=0o700)
        os.chown(folder, 65534, 65534)

    planted = {
        "a link": lambda: folder.symlink_to(victim),
        "a file": folder.touch,
        "open to others": lambda: (folder.mkdir(), folder.chmod(0o770)),
        **({"of another user": is_owned_by_another} if os.geteuid() == 0 else {}),
    }
    for what, plant in planted.items():
        plant()
        with pytest.raises(StoreError, match="set TMPDIR to another directory") as raised, store.locked():
            pass
        assert (what, names_the_next_command(str(raised.value)), list(victim.iterdir())) == (what, True, [])
        shutil.rmtree(folder) if folder.is_dir() and not folder.is_symlink() else folder.unlink()


def test_the_lock_is_given_back_when_something_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "_LOCK_SECONDS", 0.05)
    store = BaselineDirectory(tmp_path)
    with pytest.raises(ZeroDivisionError), store.locked():
        raise ZeroDivisionError
    with store.locked():
        pass


ROUNDS = 15


def count_up(place: str, number: int) -> None:
    """Add to a baseline that all share, and keep some of one's own."""
    store = BaselineDirectory(Path(place))
    for turn in range(ROUNDS):
        with store.locked():
            shared = store.load("shared")
            assert shared is not None
            store.save(replace(shared, runs=shared.runs + 1))
            store.save(baseline(CALLS, workload=f"own {number} {turn}"))


def refresh_all(place: str, number: int) -> None:
    """Refresh one baseline of one's own, and one that all share, through the gate."""
    recording = read_recording(RECORDINGS / "torch-repeat2")
    for workload in (f"own {number}", "shared"):
        verdict = gated(
            recording, STORES["directory"](Path(place)), workload=workload, policy=Policy(), update=Update.ALL
        )
        assert verdict.refresh is not None


def run_side_by_side(function, place: Path, processes: int) -> None:
    context = multiprocessing.get_context("spawn")
    running = [context.Process(target=function, args=(str(place), number)) for number in range(processes)]
    for process in running:
        process.start()
    for process in running:
        process.join(60)
    assert [process.exitcode for process in running] == [0] * processes


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_runs_side_by_side_lose_no_entry(tmp_path, processes):
    store = BaselineDirectory(tmp_path)
    store.save(baseline(CALLS, workload="shared"))
    run_side_by_side(count_up, tmp_path, processes)
    shared = store.load("shared")
    assert shared is not None
    assert shared.runs == 1 + processes * ROUNDS
    assert len(store.workloads()) == 1 + processes * ROUNDS
    assert not list(tmp_path.glob("*.tmp"))
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_refreshes_side_by_side_lose_no_entry(tmp_path, processes):
    run_side_by_side(refresh_all, tmp_path, processes)
    assert STORES["directory"](tmp_path).workloads() == [*(f"own {number}" for number in range(processes)), "shared"]
