"""Opening: a file that another process swaps between a look and a read reveals nothing of what is outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from perfguard.artifacts.excerpt import with_excerpts
from perfguard.artifacts.readers import OPAQUE, database
from perfguard.artifacts.survey import survey
from perfguard.artifacts.table import Unreadable
from perfguard.capture.replay import replay
from perfguard.contract.inspection import InspectionOptions
from perfguard.contract.reduction import one_by_one, tasks_of
from perfguard.errors import PerfguardError
from perfguard.findings import Code, Finding
from perfguard.opening import NotRegular, Outside, confined, is_open_twice, listed, open_regular
from perfguard.recording import Recording
from perfguard.testing import generate
from tests.cli import RECORDINGS, TORCH, copied

SECRET = "SECRET"
LEADS_OUT = "it leads out of the directory: it is not read"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text(SECRET, encoding="utf-8")
    return folder


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "own").write_text("own", encoding="utf-8")
    return folder


def read(path: Path) -> str:
    with open_regular(path) as file:
        return file.read().decode()


def names(folder: Path) -> list[str]:
    with listed(folder) as entries:
        return sorted(one.name for one in entries)


# -- what is opened --------------------------------------------------------------------------------------------------

#: What is put at a path, given the folder outside, and the error.
REFUSED: dict[str, tuple[Callable[[Path, Path], None], type[OSError]]] = {
    "a link out": (lambda path, out: path.symlink_to(out / "file"), Outside),
    "a relative link out": (lambda path, out: path.symlink_to(Path("..", out.name, "file")), Outside),
    "a link to a device": (lambda path, out: path.symlink_to("/dev/zero"), NotRegular),
    "a pipe": (lambda path, out: os.mkfifo(path), NotRegular),
    "a folder": (lambda path, out: path.mkdir(), NotRegular),
    "nothing": (lambda path, out: None, FileNotFoundError),
    "a link to itself": (lambda path, out: path.symlink_to(path.name), OSError),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.usefixtures("must_not_hang")
def test_only_a_regular_file_inside_is_opened(inside, outside, what):
    make, error = REFUSED[what]
    make(inside / "x", outside)
    with confined(inside), pytest.raises(error) as caught:
        read(inside / "x")
    assert caught.value.filename == str(inside / "x")
    assert SECRET not in str(caught.value)
    assert outside.name not in str(caught.value)


def test_a_file_is_opened_by_any_name_that_leads_inside(inside, tmp_path):
    (tmp_path / "named").symlink_to(inside)
    (inside / "link").symlink_to("deep/own")
    (inside / "absolute").symlink_to(inside / "deep" / "own")
    for root in (inside, tmp_path / "named", tmp_path / "named" / "deep" / ".."):
        with confined(root):
            for name in ("deep/own", "link", "absolute", "deep/../link"):
                assert read(tmp_path / "named" / name) == "own"


def test_without_a_confinement_a_link_is_followed(inside, outside):
    (inside / "x").symlink_to(outside / "file")
    assert read(inside / "x") == SECRET


def test_the_folder_around_a_file_may_have_become_a_link(inside, outside):
    (outside / "own").write_text(SECRET, encoding="utf-8")
    shutil.rmtree(inside / "deep")
    (inside / "deep").symlink_to(outside)
    with confined(inside):
        with pytest.raises(Outside):
            read(inside / "deep" / "own")
        with pytest.raises(Outside):
            names(inside / "deep")
        assert names(inside) == ["deep"]


def test_every_confinement_holds_and_ends(inside, outside):
    with confined(inside), confined(inside / "deep"):
        assert read(inside / "deep" / "own") == "own"
        with pytest.raises(Outside):
            names(inside)
    with confined(inside), confined(outside), pytest.raises(Outside):
        read(inside / "deep" / "own")
    # A directory whose name begins alike is another one.
    with confined(inside / "de"), pytest.raises(Outside):
        read(inside / "deep" / "own")
    assert read(outside / "file") == SECRET


def test_a_file_that_a_library_opened_by_its_path_is_known(inside):
    with open_regular(inside / "deep" / "own") as mine:
        assert not is_open_twice(mine.fileno())
        with open(inside / "deep" / "own", "rb"):
            assert is_open_twice(mine.fileno())


@pytest.mark.parametrize("what", ["a link out", "a pipe", "a folder"])
@pytest.mark.usefixtures("must_not_hang")
def test_a_system_that_shows_no_paths_refuses_the_same(inside, outside, what, monkeypatch):
    monkeypatch.setattr("perfguard.opening._SHOWS_PATHS", False)
    make, error = REFUSED[what]
    make(inside / "x", outside)
    with confined(inside):
        with pytest.raises(error):
            read(inside / "x")
        assert read(inside / "deep" / "own") == "own"
        assert "deep" in names(inside)
        with pytest.raises(Outside):
            names(outside)


# -- a recording that changes between its survey and the reading of its files --------------------------------------------


def _database(place: Path) -> Path:
    generate("pt-npu", seed=1, conditions={"text": False, "db": True}).write(place)
    return place


#: Directories whose files together are of all formats that perfguard reads.
_GENERATED = (
    *("pt-npu", "ms-2.5+", "ms-2.3", "ms-2.1", "ms-1.x", "ms-2.0"),
    *("minddata", "summary", "ir", "memtrack", "pt-torch", "dynamic-config"),
)
DIRECTORIES: dict[str, Callable[[Path], Path]] = {
    "pt-npu with a database": _database,
    **{name: lambda place, name=name: shutil.copytree(RECORDINGS / name, place) for name in ("torch-mlp",)},
    **{name: lambda place, name=name: generate(name, seed=1).write(place) or place for name in _GENERATED},
}


def inspected(recording: Recording, swap: Callable[[], object]) -> list[Finding]:
    """Return the findings on a recording where something happens after its survey."""
    tasks, _ = tasks_of(recording)
    swap()
    return [finding for one in one_by_one(tasks, InspectionOptions()) for finding in one.findings]


@pytest.mark.parametrize("name", DIRECTORIES)
@pytest.mark.variants(3)
def test_no_reader_reads_a_file_that_became_a_link_out(name, tmp_path, outside):
    place = DIRECTORIES[name](tmp_path / "in")
    recording = replay(place)
    files = {
        file.path
        for cycle in survey(recording.profiler_directory).cycles
        for file in cycle.files
        if file.slot.format != OPAQUE
    }

    def swap() -> None:
        for number, path in enumerate(sorted(files)):
            path.rename(outside / str(number))
            path.symlink_to(outside / str(number))

    found = inspected(recording, swap)
    refused = {one.place for one in found if one.message == LEADS_OUT}
    assert len(files) > 0
    assert refused == {path.relative_to(recording.directory).as_posix() for path in files}
    assert outside.name not in "".join(f"{one.place} {one.message}" for one in found)


def test_a_folder_that_became_a_link_is_not_read_through(tmp_path, outside):
    place = copied(TORCH, tmp_path / "in")

    def swap() -> None:
        (place / "profiler").rename(outside / "theirs")
        (place / "profiler").symlink_to(outside / "theirs")

    assert LEADS_OUT in [one.message for one in inspected(replay(place), swap)]


def test_a_recording_that_became_a_link_is_not_read_through(tmp_path, outside):
    place = copied(TORCH, tmp_path / "in" / "one")

    def swap() -> None:
        place.rename(outside / "theirs")
        place.symlink_to(outside / "theirs")

    assert LEADS_OUT in [one.message for one in inspected(replay(place, found_in=tmp_path / "in"), swap)]


@pytest.mark.parametrize("name", ["torch-mlp", "mindspore-graph"])
@pytest.mark.usefixtures("must_not_hang")
def test_a_file_that_became_a_pipe_is_not_waited_for(name, tmp_path):
    recording = replay(copied(RECORDINGS / name, tmp_path / "in"))
    (path, *_) = [
        file.path
        for cycle in survey(recording.profiler_directory).cycles
        for file in cycle.files
        if file.slot.format != OPAQUE
    ]
    found = inspected(recording, lambda: (path.unlink(), os.mkfifo(path)))
    assert "it is not a regular file" in [one.message for one in found]


def test_a_file_that_was_replaced_by_a_longer_one_is_read_as_one_file(tmp_path):
    recording = replay(copied(TORCH, tmp_path / "in"))
    (trace,) = recording.profiler_directory.iterdir()
    text = trace.read_text(encoding="utf-8")

    def swap() -> None:
        trace.with_name("other").write_text(text + " " * 100_000, encoding="utf-8")
        trace.with_name("other").rename(trace)

    assert inspected(recording, swap) == []


def test_sqlite_opens_the_file_that_was_checked_or_none(tmp_path, outside, monkeypatch):
    place = _database(tmp_path / "in")
    (path,) = place.rglob("*.db")
    shutil.copyfile(path, outside / "theirs")
    quote = database.quote

    def swapping(text: bytes) -> str:
        # It is open by now, and SQLite will open its path.
        path.unlink()
        path.symlink_to(outside / "theirs")
        return quote(text)

    monkeypatch.setattr(database, "quote", swapping)
    with confined(place), pytest.raises(Unreadable, match="replaced while it was read"):
        database.read_database(path, {"properties": {"STRING_IDS": {}}})


def test_an_excerpt_is_never_of_a_file_outside(tmp_path, outside):
    place = tmp_path / "in"
    place.mkdir()
    (place / "a.csv").symlink_to(outside / "file")
    (place / "own.csv").write_text("own\n", encoding="utf-8")
    (place / "link.csv").symlink_to("own.csv")
    several = [Finding(code=Code.S101, place=f"{name}:1", message="x") for name in ("a.csv", "own.csv", "link.csv")]
    assert [one.excerpt for one in with_excerpts(several, place)] == ["", "own", "own"]


@pytest.mark.parametrize("name", ["recording.json", "steps.json"])
def test_a_fact_that_became_a_link_is_not_read(tmp_path, outside, name, monkeypatch):
    place = copied(TORCH, tmp_path / "in")
    monkeypatch.setattr("perfguard.recording.leads_out", lambda path, directory: False)
    text = (place / name).read_text(encoding="utf-8").replace("torch", SECRET)
    (outside / "facts").write_text(text, encoding="utf-8")
    (place / name).unlink()
    (place / name).symlink_to(outside / "facts")
    with pytest.raises(PerfguardError, match="leads out") as caught:
        replay(place)
    assert SECRET not in str(caught.value)


# -- a process that swaps all the time ------------------------------------------------------------------------------------

_SWAPPING = textwrap.dedent(
    """
    import os, sys
    path, outside = sys.argv[1:]
    kept = path + ".kept"
    os.link(path, kept) if os.path.isfile(path) else os.rename(path, kept)
    print("ready", flush=True)
    while True:
        for target in (outside, kept):
            os.symlink(target, path + ".new")
            os.replace(path + ".new", path) if not os.path.isdir(path) or os.path.islink(path) else os.unlink(path + ".new")
    """
)


@pytest.mark.parametrize("part", ["trace", "recording.json", "steps.json", "profiler"])
@pytest.mark.exhaustive
def test_a_process_that_swaps_files_for_links_brings_nothing_of_the_other_side_into_an_output(tmp_path, part):
    theirs = copied(TORCH, tmp_path / "theirs", replace=("aten::linear", f"{SECRET}::linear"), workload=SECRET)
    place = copied(TORCH, tmp_path / "in" / "one")
    (trace,) = (place / "profiler").iterdir()
    inside = f"profiler/{trace.name}" if part == "trace" else part
    swapping = subprocess.Popen(
        [sys.executable, "-c", _SWAPPING, str(place / inside), str(theirs / inside)], stdout=subprocess.PIPE
    )
    try:
        assert swapping.stdout is not None
        assert swapping.stdout.readline() == b"ready\n"
        commands = (
            ["check", "--metrics", "--explain", str(place.parent)],
            ["check", "--json", str(place)],
            ["sql", str(place), "select name from operators"],
            ["ops", str(place)],
        )
        for number in range(24):
            command = [sys.executable, "-m", "perfguard", *commands[number % len(commands)]]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
            assert SECRET not in done.stdout + done.stderr, (number, command)
            assert "Traceback" not in done.stderr, done.stderr
    finally:
        swapping.kill()
        swapping.communicate()
