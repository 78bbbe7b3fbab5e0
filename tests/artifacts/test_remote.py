"""URLs: what is judged is what is judged of the same directory here."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, count
from pathlib import Path
from unittest import mock

import pytest

from benchmarks import hostile
from perfguard import inputs
from perfguard.artifacts import remote
from perfguard.artifacts.remote import RemoteTree, _packages_of, is_url, local_path
from perfguard.capture.replay import replay_tree, trees_in
from perfguard.contract import reduce, reduction
from perfguard.errors import UsageError
from perfguard.gate import examine
from perfguard.judge.tolerance import Policy
from perfguard.recording import Recording
from perfguard.testing import generate
from perfguard.version import install_command
from tests.cli import run
from tests.conftest import RECORDINGS

fsspec = pytest.importorskip("fsspec", reason="URLs need the extra remote")


@pytest.fixture
def memory():
    """Return a function that puts a directory into memory, and returns its URL."""
    system = fsspec.filesystem("memory")

    def put(directory: Path, name: str = "") -> str:
        name = name or directory.name
        system.makedirs(f"/runs/{name}")
        for path in sorted(directory.rglob("*")):
            there = f"/runs/{name}/{path.relative_to(directory).as_posix()}"
            if path.is_dir():
                system.makedirs(there, exist_ok=True)
            else:
                system.pipe(there, path.read_bytes())
        return f"memory://runs/{name}"

    yield put
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def same(directory: Path, url: str, *more: str) -> str:
    """Judge a directory and a URL; return what is printed of both, if it is the same."""
    here, there = run("check", directory, "--jobs", "1", *more), run("check", url, *more)
    printed = here.stdout.replace(str(directory), url)
    assert (there.exit_code, there.stdout) == (here.exit_code, printed)
    return printed


@pytest.mark.parametrize("name", ["torch-mlp", "torch-repeat2", "mindspore-graph", "mindspore-pynative"])
@pytest.mark.parametrize("inside", ["", pytest.param("profiler", marks=pytest.mark.exhaustive)])
@pytest.mark.variants(1)
def test_a_recording_is_judged_as_it_is_here(memory, name, inside):
    directory = RECORDINGS / name / inside
    assert same(directory, memory(directory, name), "--explain", "--metrics").startswith("PASSED")


@pytest.mark.parametrize(
    "kind",
    [
        "pt-torch",
        "ms-2.0",
        "ir",
        "summary",
        *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in ["pt-npu", "ms-2.5+", "minddata", "memtrack"]),
    ],
)
@pytest.mark.variants(2)
def test_generated_output_is_judged_as_it_is_here(memory, tmp_path, kind):
    directory = generate(kind, seed=2, ranks=2, steps=1, operators=2).write(tmp_path / "out")
    (directory / "what is this.txt").write_text("a stranger")
    same(directory, memory(directory), "--explain")


def test_what_is_wrong_has_the_same_places(memory, tmp_path):
    directory = generate("pt-torch", seed=2, ranks=3, steps=1, operators=2).write(tmp_path / "out")
    traces = sorted(directory.rglob("*.json"))
    traces[0].write_bytes(traces[0].read_bytes()[:-300])
    shutil.copy(traces[1], traces[2])
    found = same(directory, memory(directory))
    assert "S101" in found
    assert "I113" in found


def test_several_recordings_are_judged_one_by_one(memory, tmp_path):
    for name in ("torch-mlp", "mindspore-graph"):
        shutil.copytree(RECORDINGS / name, tmp_path / "runs" / name)
    assert same(tmp_path / "runs", memory(tmp_path / "runs")).count("PASSED") == 2


def test_damaged_facts_name_the_url(memory, tmp_path):
    directory = Path(shutil.copytree(RECORDINGS / "torch-mlp", tmp_path / "damaged"))
    (directory / "recording.json").write_text("{")
    url = memory(directory)
    found = run("check", url)
    assert found.exit_code == 3
    assert f"S101 a file cannot be parsed: {url}/recording.json" in found.stdout


def test_what_is_nothing_known_is_named_by_its_url(memory, tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    same(tmp_path, memory(tmp_path, "notes"))


def test_a_file_that_vanishes_after_the_survey_is_a_finding(memory, tmp_path):
    directory = generate("pt-torch", seed=2, ranks=2, steps=1, operators=2).write(tmp_path / "out")
    (tree,) = trees_in(memory(directory))
    assert tree.sizes
    last = max(tree.sizes)
    fsspec.filesystem("memory").rm(f"/runs/out/{last}")
    found = reduce(replay_tree(tree), tree=tree)
    assert [(one.code.name, one.place) for one in found.findings if one.invalidates] == [("A111", last)]
    assert "FileNotFoundError" in next(one.message for one in found.findings if one.code.name == "A111")
    assert found.read["cycles"] == 2


@pytest.mark.parametrize(("together", "expected"), [(1, [1, 1]), (64, [2, 2])])
@pytest.mark.variants(1)
@pytest.mark.exhaustive
def test_nothing_is_left_of_what_was_fetched(memory, monkeypatch, tmp_path, together, expected):
    monkeypatch.setattr(reduction, "_MOST_OF_A_BATCH", together)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    url = memory(generate("pt-npu", seed=2, ranks=2, steps=1, operators=2).write(tmp_path / "out"))
    held = []

    def look(cycle, findings):
        held.append(_fetched(scratch))

    (tree,) = trees_in(url)
    reduce(replay_tree(tree), measure=look, tree=tree)
    # One batch at a time.
    assert [len(one) for one in held] == expected
    assert _fetched(scratch) == []


def _fetched(scratch: Path) -> list[str]:
    """Return what lies in temporary folders: that where tables spill is empty, and stays until the process ends."""
    return sorted(one.name for folder in scratch.iterdir() for one in folder.iterdir())


def test_names_that_lead_out_are_not_followed(memory, tmp_path):
    url = memory(generate("pt-torch", seed=2, ranks=1, steps=1, operators=2).write(tmp_path / "out"))
    fsspec.filesystem("memory").store["/runs/out/../../etc/x.pt.trace.json"] = fsspec.filesystem("memory").store[
        next(iter(fsspec.filesystem("memory").store))
    ]
    (tree,) = trees_in(url)
    found = reduce(Recording(directory=tree.root), tree=tree)
    assert {one.code.name for one in found.findings if one.invalidates} == {"A109"}
    assert found.read["cycles"] == 1


# -- what is not there -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "package"),
    [("s3://bucket/run", "s3fs"), ("gs://bucket/run", "gcsfs"), ("abfs://c@a.example/run", "adlfs")],
)
def test_the_package_of_a_file_system_is_named_where_it_is_missing(url, package):
    with mock.patch.dict(sys.modules, {package: None}), mock.patch.dict("fsspec.registry._registry", clear=True):
        found = run("check", url)
    protocol = url.partition(":")[0]
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == (
        f"perfguard: {protocol}:// needs the package {package}, and it cannot be imported. Run: pip install {package}\n"
    )


def test_only_packages_that_fsspec_names_are_installed():
    """`git` and `libarchive` are on the index too, and are something else."""
    from fsspec.registry import known_implementations

    packages = {name: _packages_of(name, entry) for name, entry in known_implementations.items()}
    assert {name: packages[name] for name in ("git", "libarchive", "hdfs", "smb", "jupyter", "s3", "github")} == {
        "git": ["pygit2"],
        "libarchive": ["libarchive-c"],
        "hdfs": ["pyarrow"],
        "smb": ["smbprotocol"],
        "jupyter": [],
        "s3": ["s3fs"],
        "github": ["requests"],
    }
    with mock.patch.dict(sys.modules, {"pygit2": None}), mock.patch.dict("fsspec.registry._registry", clear=True):
        found = run("check", "git://x/y")
    assert (found.exit_code, found.stderr.rpartition("Run: ")[2]) == (2, "pip install pygit2\n")


def test_fsspec_is_named_where_it_is_missing():
    with mock.patch.dict(sys.modules, {"fsspec": None, "fsspec.core": None, "fsspec.registry": None}):
        found = run("check", "s3://bucket/run")
    assert found.exit_code == 2
    assert f"Run: {install_command('remote')}" in found.stderr


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memory://nowhere", "memory://nowhere is not a directory"),
        ("nosuch://x/y", "nosuch://x/y cannot be read: "),
        ("file:///no/where", "/no/where does not exist"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(url, words):
    found = run("check", url)
    assert (found.exit_code, found.stdout) == (2, "")
    assert words in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_a_file_is_no_directory(memory, tmp_path):
    (tmp_path / "a.txt").write_text("text")
    found = run("check", memory(tmp_path, "one") + "/a.txt")
    assert found.exit_code == 2
    assert "a.txt is not a directory" in found.stderr


# -- names -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("runs/x", Path("runs/x")),
        ("/runs/x", Path("/runs/x")),
        ("a::b", Path("a::b")),
        ("file:///runs/x", Path("/runs/x")),
        ("s3://bucket/x", None),
        ("simplecache::s3://bucket/x", None),
    ],
)
def test_what_is_a_path_and_what_a_url(name, path):
    assert local_path(name) == path
    assert is_url(name) == ("//" in name)


def test_a_file_url_is_read_where_it_lies():
    directory = RECORDINGS / "torch-mlp"
    found = run("check", f"file://{directory}")
    assert (found.exit_code, found.stdout.split(" (")[0]) == (0, f"PASSED {directory}")


def test_a_tree_is_sent_as_its_url(memory, tmp_path):
    import pickle

    url = memory(RECORDINGS / "torch-mlp", "sent")
    tree = RemoteTree(url)
    assert tree.sizes
    assert len(pickle.dumps(tree)) < 300
    assert pickle.loads(pickle.dumps(tree)).sizes == tree.sizes


# -- a server --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_web_server_is_read_by_processes(tmp_path):
    pytest.importorskip("aiohttp", reason="http:// needs aiohttp")
    directory = generate("pt-torch", seed=2, ranks=3, steps=1, operators=2).write(tmp_path / "out")
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            port = server.stdout.readline().split("port ")[1].split()[0]
            same(directory, f"http://127.0.0.1:{port}/out", "--explain")
            found = run("check", f"http://127.0.0.1:{port}/out", "--jobs", "2")
            assert found.exit_code == 0
        finally:
            server.kill()


@pytest.mark.exhaustive
@pytest.mark.slow
def test_an_s3_server_is_read_by_processes(tmp_path, monkeypatch):
    """A real server of the S3 protocol (moto), in a process of its own."""
    pytest.importorskip("s3fs", reason="s3:// needs s3fs")
    pytest.importorskip("moto.server", reason="an S3 server is moto[server]")
    directory = generate("pt-torch", seed=2, ranks=3, steps=1, operators=2).write(tmp_path / "out")
    code = (
        "import threading\n"
        "from moto.server import ThreadedMotoServer\n"
        "server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)\n"
        "server.start()\n"
        "print(server.get_host_and_port()[1], flush=True)\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        try:
            endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
            for name, value in {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ACCESS_KEY_ID": "x",
                "AWS_SECRET_ACCESS_KEY": "x",
                "AWS_DEFAULT_REGION": "us-east-1",
            }.items():
                monkeypatch.setenv(name, value)
            script = (
                "import s3fs, sys\n"
                "system = s3fs.S3FileSystem()\n"
                "system.mkdir('runs')\n"
                "system.put(sys.argv[1], 'runs/out', recursive=True)\n"
            )
            subprocess.run([sys.executable, "-c", script, str(directory)], check=True)
            for more in (["--jobs", "1"], ["--jobs", "2"]):
                there, here = (
                    subprocess.run(
                        [sys.executable, "-m", "perfguard", "check", place, "--explain", *more],
                        capture_output=True,
                        text=True,
                        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    )
                    for place in ("s3://runs/out", str(directory))
                )
                assert (there.returncode, there.stdout) == (0, here.stdout.replace(str(directory), "s3://runs/out"))
        finally:
            server.kill()


# -- a server that means harm ------------------------------------------------------------------------------------------------

TRACE = "host_1.1795261965060177130.pt.trace.json"
#: What a server answers: by path, its type and the parts of the answer, which may never end.
Answers = Callable[[str], tuple[str, Iterable[bytes]] | None]
HARMFUL: dict[str, tuple[Answers, str]] = {}


def harmful(words: str):
    def register(answers: Answers) -> Answers:
        HARMFUL[answers.__name__.replace("_", " ")] = (answers, words)
        return answers

    return register


def page(*names: str) -> tuple[str, list[bytes]]:
    return "text/html", ["".join(f'<a href="{name}">{name}</a>' for name in names).encode()]


def endless(part: bytes) -> Iterator[bytes]:
    while True:
        yield part


@harmful("recording.json")
def an_endless_recording_json(path):
    return page("recording.json", TRACE) if path == "/" else ("application/json", endless(b" " * 65536))


@harmful(TRACE)
def an_endless_trace(path):
    begin = b'{"schemaVersion": 1, "traceEvents": ['
    return page(TRACE) if path == "/" else ("application/json", chain([begin], endless(b" " * 65536)))


@harmful(TRACE)
def an_endless_trace_in_gzip(path):
    return page(f"{TRACE}.gz") if path == "/" else ("application/gzip", endless(gzip.compress(b" " * 2**20)))


@harmful("cannot be listed")
def an_endless_list(path):
    return "text/html", (b'<a href="f%d">f</a>' % number for number in count())


@harmful("A108")
def folders_in_folders_for_ever(path):
    return page("deeper/", "other.txt") if path.endswith("/") else ("text/plain", [b"nothing"])


@harmful("cannot be listed")
def more_folders_than_there_is_time_for(path):
    time.sleep(0.05)
    return page(*(f"{number}/" for number in range(50)))


@harmful("too slowly")
def a_byte_after_the_other(path):
    def slow() -> Iterator[bytes]:
        for part in endless(b" "):
            time.sleep(0.1)
            yield part

    return page(TRACE) if path == "/" else ("application/json", slow())


@harmful("cannot be listed")
def a_list_byte_after_byte(path):
    def slow() -> Iterator[bytes]:
        for part in endless(b" "):
            time.sleep(0.1)
            yield part

    return "text/html", slow()


@harmful("cannot be listed")
def a_redirect_to_itself(path):
    return None


@harmful("A111")
def a_redirect_of_the_trace(path):
    return page(TRACE) if path == "/" else None


class _Harmful(BaseHTTPRequestHandler):
    answers: Answers

    def do_GET(self):
        answer = self.answers(self.path)
        self.send_response(200 if answer else 302)
        if answer is None:
            self.send_header("Location", self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_header("Content-Type", answer[0])
        self.end_headers()
        if self.command == "GET":
            with suppress(OSError):
                self.wfile.writelines(answer[1])

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    servers = []

    def start(answers: Answers) -> str:
        handler = type("Handler", (_Harmful,), {"answers": staticmethod(answers)})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", sorted(HARMFUL))
@pytest.mark.variants(1)
def test_a_server_that_means_harm_ends_in_words(serve, monkeypatch, tmp_path, must_not_hang, name):
    """With smaller bounds, so that each is met soon."""
    pytest.importorskip("aiohttp", reason="http:// needs aiohttp")
    answers, words = HARMFUL[name]
    smaller = {
        "MAX_UNLISTED_BYTES": 2**21,
        "MAX_PAGE_BYTES": 2**20,
        "LISTING_S": 2,
        "MEGABYTE_S": 1,
    }
    for bound, value in smaller.items():
        monkeypatch.setattr(remote, bound, value)
    monkeypatch.setattr(inputs, "MAX_BYTES", 2**20)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = run("check", serve(answers), "--jobs", "1")
    assert found.exit_code in (2, 3, 4), found.output
    assert words in found.output
    assert "Traceback" not in found.output
    assert "defect" not in found.output


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["an endless recording json", "an endless trace", "an endless list", "folders in folders for ever"]
)
def test_an_endless_answer_costs_no_memory(serve, name):
    """As large as the bounds are: the process is stopped above 512 MB, and after so many CPU seconds."""
    pytest.importorskip("aiohttp", reason="http:// needs aiohttp")
    answers, words = HARMFUL[name]
    cost = hostile.check(serve(answers), peak_kib=512 * 1024)
    assert cost.status in (2, 3, 4), cost.text
    assert words in cost.text


def test_a_list_that_lies_about_a_size_is_not_believed(memory, tmp_path, monkeypatch):
    directory = generate("pt-torch", seed=2, ranks=1, steps=1, operators=2).write(tmp_path / "out")
    url = memory(directory)
    (tree,) = trees_in(url)
    (name,) = (name for name in tree.sizes if name.endswith(".json"))
    tree.sizes[name] = 100
    found = reduce(replay_tree(tree), tree=tree)
    (one,) = (one for one in found.findings if one.code.name == "A111")
    assert "more than the 100 bytes" in one.message


def test_what_does_not_fit_into_the_temporary_folder_is_not_fetched(memory, tmp_path, monkeypatch):
    url = memory(generate("pt-torch", seed=2, ranks=1, steps=1, operators=2).write(tmp_path / "out"))
    monkeypatch.setattr(remote, "MAX_CYCLE_BYTES", 1000)
    found = run("check", url)
    assert found.exit_code == 3
    assert "more than the 1000 that are fetched" in found.output


def test_the_gate_takes_a_tree(memory):
    (tree,) = trees_in(memory(RECORDINGS / "torch-mlp", "gate"))
    verdict = examine(replay_tree(tree), workload="w", policy=Policy(), tree=tree)
    assert verdict.passed
    assert len(verdict.measurements) > 20
    with pytest.raises(UsageError):
        trees_in("memory://nowhere")
