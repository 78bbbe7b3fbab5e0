"""Temporary folders: in use while their process is, and deleted by the next one where it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfguard import scratch
from perfguard.scratch import PREFIX, Folder, abandoned, folder, kept_folder, left, new_folder, own_folder
from perfguard.writing import write_atomically

#: Makes what it is told to make, says so, and waits.
HOLDS = (
    "import sys\nfrom pathlib import Path\nfrom perfguard import scratch, writing\n{make}\nprint(flush=True)\ninput()"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(scratch.tempfile, "tempdir", None)
    return place


def held(make: str) -> subprocess.Popen[bytes]:
    """Return a process that has made something and has not ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS.format(make=make)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    process.stdout.readline()
    return process


def names(place: Path) -> list[str]:
    return sorted(one.name for one in place.iterdir())


def test_a_folder_is_gone_with_its_context_and_with_what_is_protected_in_it(temporary):
    with folder() as found:
        (found / "a" / "b").mkdir(parents=True)
        (found / "a" / "b" / "file").touch()
        (found / "a" / "b").chmod(0o500)
        (found / "a").chmod(0o000)
        assert names(temporary) == [found.name]
    assert names(temporary) == []


def test_what_a_killed_process_left_is_deleted_by_the_next_that_makes_one_and_what_is_in_use_is_not(temporary):
    with held("made = scratch.own_folder()") as alive, held("made = scratch.own_folder()") as killed:
        assert len(names(temporary)) == 2
        killed.kill()
        killed.wait()
        with folder() as found:
            assert len(names(temporary)) == 2
            assert found.name in names(temporary)
        alive.communicate(b"\n")
    (left_over,) = names(temporary)
    assert left_over.startswith(PREFIX)  # it ended without removing its folder
    scratch._sweep.cache_clear()
    own_folder().remove()
    assert names(temporary) == []


def test_a_forked_process_deletes_nothing_of_the_one_that_made_it(temporary):
    made = own_folder()
    if (child := os.fork()) == 0:
        made.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert made.path.is_dir()
    made.remove()


def test_what_is_named_otherwise_or_is_no_folder_of_this_users_is_left_alone(temporary, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (temporary / f"{PREFIX}linkedxx").symlink_to(outside)
    (temporary / f"{PREFIX}file1234").touch()
    os.mkfifo(temporary / f"{PREFIX}pipe1234")
    for name in ("notes", "notes-2026", "Abcdefgh", "12345678.bak"):
        (temporary / f"{PREFIX}{name}").mkdir()
    before = names(temporary)
    own_folder().remove()
    assert names(temporary) == before
    assert (outside / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_folder_of_another_users_is_left_alone(temporary):
    (temporary / f"{PREFIX}12345678").mkdir()
    os.chown(temporary / f"{PREFIX}12345678", 65534, 65534)
    own_folder().remove()
    assert names(temporary) == [f"{PREFIX}12345678"]


def test_a_folder_that_is_kept_is_there_for_good_once_it_holds_its_result(temporary):
    for result in ("(made / 'page').touch()", ""):
        with held(f"made = scratch.kept_folder('perfguard-view-', 'page')\n{result}") as process:
            process.kill()
    assert sorted((temporary / name / "page").exists() for name in names(temporary)) == [False, True]
    made = kept_folder("perfguard-view-", "page")
    assert {made.name: False} == {name: False for name in names(temporary) if not (temporary / name / "page").exists()}
    assert len(names(temporary)) == 2


def test_a_folder_that_another_process_deleted_before_it_was_locked_is_made_again(temporary, monkeypatch):
    made = []

    def first_is_deleted(path: Path) -> Folder:
        made.append(Folder(path))
        if len(made) == 1:
            scratch.remove_tree(path)
        return made[-1]

    monkeypatch.setattr(scratch, "Folder", first_is_deleted)
    found = new_folder()
    assert len(made) == 2
    assert names(temporary) == [found.path.name]


def test_two_processes_never_take_the_same_folder(temporary):
    new_folder().release()
    (path,) = left(PREFIX)
    with abandoned(path) as mine, abandoned(path) as too:
        assert (mine, too) == (True, False)


# -- the neighbour of a file ---------------------------------------------------------------------------------------------

SLOWLY = """
def pieces():
    yield "a" * 10_000
    print(flush=True)
    input()
    yield "b"
writing.write_atomically(Path({path!r}), pieces())
"""


def test_the_neighbour_of_a_file_is_deleted_when_a_file_beside_it_is_written_next(tmp_path):
    place = tmp_path / "written"
    place.mkdir()
    (place / "x").write_text("old")
    (place / ".x.notesabc.tmp").touch()
    with held(SLOWLY.format(path=str(place / "x"))) as killed, held(SLOWLY.format(path=str(place / "y"))) as alive:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert len(names(place)) == 4
        write_atomically(place / "z", "new")
        assert [name for name in names(place) if not name.startswith(".y.")] == [".x.notesabc.tmp", "x", "z"]
        alive.communicate(b"\n\n")
    assert names(place) == [".x.notesabc.tmp", "x", "y", "z"]
    assert (place / "y").read_text() == "a" * 10_000 + "b"
    assert (place / "x").read_text() == "old"


def test_a_link_or_pipe_with_the_name_of_a_neighbour_is_left_alone(tmp_path):
    place = tmp_path / "written"
    place.mkdir()
    (tmp_path / "outside").write_text("kept")
    (place / ".x.abcdefgh-perfguard.tmp").symlink_to(tmp_path / "outside")
    os.mkfifo(place / ".x.12345678-perfguard.tmp")
    write_atomically(place / "x", "new")
    assert len(names(place)) == 3
    assert (tmp_path / "outside").read_text() == "kept"
