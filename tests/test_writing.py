"""Writing: nothing is ever half written, and nothing but a file is ever written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perfguard import writing
from perfguard.documents import dumps, read_document
from perfguard.errors import StoreError
from perfguard.writing import append, pieces_of, write_atomically
from tests.cli import TORCH, run
from tests.facts import names_the_next_command, unwritable_directory

REMEDY = "Restore it from version control."
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root makes a device and gives a file away")


def test_directories_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "c.json"
    write_atomically(path, "text é\n")
    assert path.read_bytes() == "text é\n".encode()
    assert os.listdir(path.parent) == ["c.json"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_has_the_mode_of_any_other(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file.json", "text")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (tmp_path / "file.json").stat().st_mode & 0o777 == mode


def test_a_long_name_leaves_room_for_the_temporary_neighbour(tmp_path):
    path = tmp_path / ("n" * 255)
    write_atomically(path, "text")
    assert os.listdir(tmp_path) == [path.name]


_FULL_DISK = """
import resource, sys
from pathlib import Path
from perfguard.writing import write_atomically
from perfguard.errors import StoreError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_atomically(Path(sys.argv[1]), "new" * int(sys.argv[2]))
except StoreError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize("old", [None, "what was there before"])
@pytest.mark.parametrize("size", [2_000, 100_000])
def test_a_full_disk_loses_nothing(tmp_path, old, size):
    path = tmp_path / "baseline.json"
    if old is not None:
        path.write_text(old)
    command = [sys.executable, "-c", _FULL_DISK, str(path), str(size)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    kept = "" if old is None else "The previous file is kept. "
    assert found.stderr.startswith(f"{path} cannot be written: File too large. {kept}Free disk space")
    assert names_the_next_command(found.stderr)
    assert os.listdir(tmp_path) == ([] if old is None else ["baseline.json"])
    assert old is None or path.read_text() == old


def test_a_file_where_a_directory_is_needed_is_named(tmp_path):
    in_the_way = tmp_path / "baselines"
    in_the_way.write_text("not a directory")
    with pytest.raises(StoreError, match=r"x\.json cannot be written") as raised:
        write_atomically(in_the_way / "x.json", "new")
    assert names_the_next_command(str(raised.value))
    # "x.json cannot be written: File exists" would send its reader to the wrong file.
    assert "x.json cannot be written: File exists;" not in str(raised.value)
    assert in_the_way.read_text() == "not a directory"


def test_a_directory_where_the_file_should_be_is_kept(tmp_path):
    path = tmp_path / "x.json"
    path.mkdir()
    (path / "inside").write_text("kept")
    with pytest.raises(StoreError, match=r"x\.json ") as raised:
        write_atomically(path, "new")
    assert names_the_next_command(str(raised.value))
    assert os.listdir(tmp_path) == ["x.json"]
    assert (path / "inside").read_text() == "kept"


@pytest.mark.parametrize("name", ["x.json", "new.json", "inside/new.json"])
def test_an_unwritable_directory_is_one_sentence_and_loses_nothing(name):
    with unwritable_directory() as place:
        with pytest.raises(StoreError, match=r"cannot be written: Permission denied\. ") as raised:
            write_atomically(place / name, "new")
        assert os.listdir(place) == ["x.json"]
        assert (place / "x.json").read_text() == "old"
    assert str(raised.value).startswith(str(place / name))
    assert names_the_next_command(str(raised.value))


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="/proc is the file system that nobody can write")
@pytest.mark.parametrize("path", ["/proc/x.json", "/proc/perfguard/x.json"])
def test_a_file_system_that_takes_no_file_is_one_sentence(path):
    with pytest.raises(StoreError, match=f"{path} cannot be written: .*Free disk space or correct the permissions"):
        write_atomically(Path(path), "new")


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_directory_that_cannot_be_entered_is_one_sentence(mode):
    with unwritable_directory(mode) as place:
        with pytest.raises(StoreError, match=r"new\.json cannot be written: Permission denied"):
            write_atomically(place / "new.json", "new")
        with pytest.raises(StoreError, match=r"x\.json cannot be read: Permission denied"):
            read_document(place / "x.json", "steps", remedy=REMEDY)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_what_is_open_behind_a_descriptor_is_left_alone(tmp_path, name):
    """`>> log` and a file named /dev/stdout: the log would be replaced, and what others wrote into it would be gone."""
    (tmp_path / "log").write_text("precious\n")
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = f"from pathlib import Path; from perfguard.writing import write_atomically as w; w(Path({name!r}), 'x')"
    with (tmp_path / "log").open("a") as log:
        done = subprocess.run([sys.executable, "-c", code], stdout=log, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert "is not a regular file. Write to a file" in done.stderr
    assert (tmp_path / "log").read_text() == "precious\n"


def test_a_write_protected_file_is_kept(tmp_path):
    path = tmp_path / "kept.json"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(StoreError, match=r"kept.json is write-protected, and is kept. Run: chmod u\+w "):
        write_atomically(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777, len([*tmp_path.iterdir()])) == ("old", 0o444, 1)


def test_a_link_that_points_to_itself_is_one_sentence(tmp_path):
    path = tmp_path / "x.json"
    path.symlink_to(path)
    with pytest.raises(StoreError, match=r"x\.json"):
        write_atomically(path, "new")


def test_text_that_cannot_be_encoded_loses_nothing(tmp_path):
    # The id of a test below a directory whose name is not UTF-8 holds such a character.
    path = tmp_path / "x.json"
    write_atomically(path, dumps({"workload": "old"}))
    write_atomically(path, dumps({"workload": "tests/\udcff/test_net.py"}))
    assert json.loads(path.read_text(encoding="utf-8")) == {"workload": "tests/\udcff/test_net.py"}
    assert os.listdir(tmp_path) == ["x.json"]


def test_a_reader_never_sees_half_a_file(tmp_path):
    path = tmp_path / "x.json"
    texts = ["a" * 200_000, "b" * 10]
    write_atomically(path, texts[0])
    over = threading.Event()

    def write() -> None:
        for number in range(60):
            write_atomically(path, texts[number % 2])
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while not over.is_set():
        seen.add(path.read_text())
    writer.join()
    assert seen <= set(texts)
    assert os.listdir(tmp_path) == ["x.json"]


def test_a_text_in_pieces_is_one_text_or_none(tmp_path):
    path = tmp_path / "x.json"
    write_atomically(path, (f"{number}\n" for number in range(3)))
    assert path.read_text() == "0\n1\n2\n"

    def broken():
        yield "half"
        raise StoreError("the database went away. Mend that.")

    with pytest.raises(StoreError, match="went away"):
        write_atomically(path, broken())
    assert path.read_text() == "0\n1\n2\n"
    assert os.listdir(tmp_path) == ["x.json"]


def test_bytes_and_a_file_of_another_program_are_written_as_they_are(tmp_path):
    made = tmp_path / "made"
    write_atomically(made, bytes(range(256)))
    write_atomically(tmp_path / "x.bin", pieces_of(made))
    assert (tmp_path / "x.bin").read_bytes() == bytes(range(256))


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o666])
def test_a_file_that_is_written_again_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "x.json"
    path.write_text("old")
    path.chmod(mode)
    write_atomically(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


@AS_ROOT
def test_a_file_of_another_user_stays_theirs(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("old")
    os.chown(path, 1000, 1000)
    write_atomically(path, "new")
    assert (path.read_text(), path.stat().st_uid, path.stat().st_gid) == ("new", 1000, 1000)


def test_a_new_file_replaces_none(tmp_path):
    path = tmp_path / "x.json"
    write_atomically(path, "first", is_new=True)
    with pytest.raises(StoreError, match=r"x\.json is there already, and is kept\. Move it away"):
        write_atomically(path, "second", is_new=True)
    assert (path.read_text(), os.listdir(tmp_path)) == ("first", ["x.json"])


_KILLED = """
import os, signal, sys
from pathlib import Path
from perfguard import writing
end = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.argv[1] == "before" and setattr(os, "link", end)
sys.argv[1] == "after" and setattr(os, "unlink", end)
writing.write_atomically(Path("x.json"), "new", is_new=True)
"""


@pytest.mark.parametrize(("moment", "text"), [("before", None), ("after", "new")])
def test_a_killed_process_leaves_no_half_of_a_new_file(tmp_path, moment, text):
    subprocess.run([sys.executable, "-c", _KILLED, moment], cwd=tmp_path, check=False)
    path = tmp_path / "x.json"
    assert (path.read_text() if path.exists() else None) == text
    assert len(os.listdir(tmp_path)) == 1 + (text is not None)
    write_atomically(tmp_path / "other", "")
    assert sorted(os.listdir(tmp_path)) == ["other", *(["x.json"] if text else [])]


def test_another_writer_leaves_what_is_not_yet_renamed(tmp_path, monkeypatch):
    def write_beside(*_):
        written = (
            "from pathlib import Path; from perfguard.writing import write_atomically; write_atomically(Path('y'), 'y')"
        )
        subprocess.run([sys.executable, "-c", written], cwd=tmp_path, check=True)

    monkeypatch.setattr(writing, "_be_like", write_beside)
    write_atomically(tmp_path / "x", "x")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x": "x", "y": "y"}


def test_a_directory_that_may_not_be_listed_is_written():
    with unwritable_directory(0o333) as place:
        write_atomically(place / "new.json", "new")
        assert (place / "new.json").read_text() == "new"


def test_what_is_appended_is_added_to_what_is_there(tmp_path):
    append(tmp_path / "page.md", "one\n")
    append(tmp_path / "page.md", "zwölf\n")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == "one\nzwölf\n"


# -- every writer ----------------------------------------------------------------------------------------------------------


def _append(path: Path) -> str:
    try:
        append(path, "new")
    except StoreError as error:
        return str(error)
    return ""


def _called(*words: object):
    def call(path: Path) -> str:
        found = run(*words, path)
        assert (found.exit_code == 0) == (not found.stderr), found.stderr
        return found.stderr

    return call


#: Each kind of writer, as a user calls it; it returns why nothing was written.
WRITERS = {
    "csv": _called("sql", TORCH, "from steps", "--format", "csv", "-o"),
    "table": _called("sql", TORCH, "from steps", "--format", "table", "-o"),
    "parquet": _called("sql", TORCH, "from steps", "--format", "parquet", "-o"),
    "report": _called("report", TORCH, "--json"),
    "append": _append,
}


def protected(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o444)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def to_a_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def to_a_descriptor(path: Path) -> None:
    path.symlink_to("/dev/fd/1")


def to_what_is_protected(path: Path) -> None:
    protected(path.with_name("target"))
    path.symlink_to("target")


@pytest.mark.parametrize(
    "planted",
    [
        protected,
        pipe,
        directory,
        pytest.param(device, marks=AS_ROOT),
        to_a_device,
        to_a_descriptor,
        to_what_is_protected,
    ],
)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.variants(2)
def test_what_is_no_file_or_protected_is_kept_by_every_writer(tmp_path, writer, planted):
    path = tmp_path / "x"
    planted(path)
    before = {one.name: (one.lstat().st_ino, one.lstat().st_mode) for one in tmp_path.iterdir()}
    said = WRITERS[writer](path)
    assert "is not a regular file" in said or "is write-protected, and is kept" in said
    assert {one.name: (one.lstat().st_ino, one.lstat().st_mode) for one in tmp_path.iterdir()} == before
    assert all(one.is_symlink() or one.read_text() == "old" for one in tmp_path.iterdir() if one.is_file())


@pytest.mark.parametrize("target", ["target", "missing"])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.variants(1)
def test_a_link_is_kept_and_its_target_written_by_every_writer(tmp_path, writer, target):
    (tmp_path / "target").write_text("old")
    (tmp_path / "x").symlink_to(target)
    assert WRITERS[writer](tmp_path / "x") == ""
    assert os.readlink(tmp_path / "x") == target
    assert (tmp_path / target).read_bytes() != b"old"
    assert set(os.listdir(tmp_path)) == {"x", "target", target}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.variants(1)
def test_names_that_a_temporary_neighbour_might_have_are_not_followed(tmp_path, writer):
    names = [f"{dot}x{ending}" for dot in (".", "") for ending in (".part", ".tmp", ".new", "~", ".wal")]
    for name in names:
        (tmp_path / name).symlink_to("outside")
    assert WRITERS[writer](tmp_path / "x") == ""
    assert set(os.listdir(tmp_path)) == {"x", *names}
