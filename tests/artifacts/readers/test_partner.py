"""A second process decodes some of the chunks: what is said and measured of a trace is the same."""

from __future__ import annotations

import errno
import gzip
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfguard.artifacts.readers import partner, second_process
from perfguard.artifacts.readers.partner import Partner
from perfguard.testing import conditions_of, generate
from tests.conftest import CHECKOUT, RECORDINGS
from tests.contract.together import places
from tests.dialects.streaming import Waited, all_beside, all_streamed, streamed
from tests.dialects.torch.test_chunks import REAL, damaged

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="memory is handed over with memfd_create (Linux)"
)

LAYOUTS = ("pt-torch", "pt-npu", "ms-2.5+", "ms-2.3", "ms-2.5+cpu")
CONDITIONS = ("memory", "shapes", "stack", "level2")


def often(*variant: Any) -> Any:
    """Mark a variant of what another test runs."""
    return pytest.param(*variant, marks=pytest.mark.exhaustive)


def trace_of(directory: Path) -> Path:
    return next(one for one in sorted(directory.rglob("*.json")) if "trace" in one.name)


def the_same(*directories: Path, at_least: int = 1, **how: Any) -> None:
    """Hold one process against two, of which the second decodes `at_least` so many chunks."""
    second = {"second": how.pop("second")} if "second" in how else {}
    both = zip(all_beside(directories, **second, **how), all_streamed(directories, **how), strict=True)
    for directory, ((found, elsewhere), alone) in zip(directories, both, strict=True):
        assert found == alone, directory
        assert elsewhere >= at_least, directory


@pytest.mark.parametrize("conditions", [("",), often(CONDITIONS)])
@pytest.mark.exhaustive
def test_generated_traces_come_out_the_same(tmp_path, conditions):
    several = [(layout, one) for layout in LAYOUTS for one in conditions if not one or one in conditions_of(layout)]
    directories = places(tmp_path, len(several))
    for (layout, one), directory in zip(several, directories, strict=True):
        generate(layout, seed=4, operators=12, steps=4, conditions={one: True} if one else {}).write(directory)
    the_same(*directories)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.variants(1)
def test_real_recordings_come_out_the_same(name):
    the_same(RECORDINGS / name)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_corpus_comes_out_the_same(real_traces):
    several = sorted({path.parent for path, _ in real_traces})
    the_same(*several, at_least=0, chunk_bytes=30_000)


@pytest.mark.parametrize("name", [REAL[0], often(REAL[1])])
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data(), chunk_bytes=st.integers(2000, 60_000))
@pytest.mark.exhaustive
def test_damage_is_told_in_the_same_words(tmp_path_factory, name, data, chunk_bytes):
    directories = [damaged(data, name, place) for place in places(tmp_path_factory.mktemp("damaged"), 4)]
    the_same(*directories, at_least=0, chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("share", [0.6, *map(often, (0.3, 0.9, 0.999))])
def test_a_trace_that_is_cut_off_is_told_in_the_same_words(tmp_path, share):
    generate("pt-torch", seed=2, operators=12, steps=5).write(tmp_path)
    path = trace_of(tmp_path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    the_same(tmp_path)


def twice(text: bytes) -> bytes:
    return text + text


def broken_in_the_middle(text: bytes) -> bytes:
    place = text.index(b'"ph"', len(text) // 2)
    return text[:place] + b"ph" + text[place + 3 :]


def with_cuts_that_are_none(text: bytes) -> bytes:
    """Put lists of objects into arguments: between two of these it looks as if an event ended."""
    document = json.loads(text)
    for event in document["traceEvents"][40:200:3]:
        event["args"] = {**event.get("args", {}), "list": [{"name": "a"}, {"name": "b"}] * 300}
    return json.dumps(document).encode()


def with_a_long_event(text: bytes) -> bytes:
    document = json.loads(text)
    event = document["traceEvents"][len(document["traceEvents"]) // 2]
    event["args"] = {**event.get("args", {}), "long": "x" * 3_000_000}
    return json.dumps(document).encode()


@pytest.mark.parametrize("change", [twice, broken_in_the_middle, with_cuts_that_are_none, with_a_long_event])
@pytest.mark.variants(2)
def test_what_is_odd_is_told_in_the_same_words(tmp_path, change):
    generate("pt-torch", seed=2, operators=12, steps=5).write(tmp_path)
    path = trace_of(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    the_same(tmp_path)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_gzip_that_is_cut_off_tells_what_came_before(tmp_path, share):
    generate("pt-torch", seed=2, operators=12, steps=9).write(tmp_path)
    path = trace_of(tmp_path)
    document = json.loads(path.read_text())
    # In two of the first chunks, so that the other process is not left alone at once.
    for event in [one for one in document["traceEvents"] if one["ph"] == "X"][5:60:9]:
        event["dur"] = -5
    packed = gzip.compress(json.dumps(document).encode())
    (path.parent / f"{path.name}.gz").write_bytes(packed[: int(len(packed) * share)])
    path.unlink()
    assert len(streamed(tmp_path).findings) > 1
    the_same(tmp_path, at_least=0)


@pytest.mark.parametrize("seed", [0, *map(often, range(1, 6))])
def test_lists_of_objects_in_a_trace_that_is_cut_off_are_told_in_the_same_words(tmp_path, seed):
    random = Random(seed)
    generate("pt-torch", seed=2, operators=12, steps=5).write(tmp_path)
    path = trace_of(tmp_path)
    document = json.loads(path.read_text())
    for number, event in enumerate(document["traceEvents"]):
        if random.random() < 0.3:
            event["args"] = {**event.get("args", {}), "list": [{"name": "a"}] * random.randrange(40)}
        if event["ph"] == "X" and number % 97 == 5:
            event["dur"] = -5
    text = json.dumps(document)
    path.write_text(text[: random.randrange(len(text) // 2, len(text))])
    the_same(tmp_path, at_least=0)


@pytest.mark.exhaustive
def test_gzip_comes_out_the_same(tmp_path):
    generate("pt-torch", seed=2, operators=12, steps=5).write(tmp_path)
    path = trace_of(tmp_path)
    (path.parent / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    the_same(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["pt-torch", "pt-npu", *map(often, LAYOUTS[2:])])
@pytest.mark.variants(1)
def test_a_real_process_does_the_same(tmp_path, monkeypatch, layout):
    # Nothing of the working directory is imported.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pickle.py").write_text("raise SystemExit('a module of the working directory was run')")
    generate(layout, seed=4, operators=12, steps=4).write(tmp_path / "out")
    the_same(tmp_path / "out", at_least=2, second=Waited)


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, often(0), often(3)])
@pytest.mark.exhaustive
def test_a_process_that_is_killed_leaves_its_chunks_to_the_other(tmp_path, monkeypatch, after):
    generate("pt-torch", seed=4, operators=12, steps=6).write(tmp_path)
    started = []
    start = second_process.child.start
    monkeypatch.setattr(second_process.child, "start", lambda *a, **k: started.append(start(*a, **k)) or started[-1])
    events = Partner.events

    def killed(self: Partner, one: Any) -> Any:
        if self.decoded >= after:
            started[-1].kill()
            started[-1].wait()
        return events(self, one)

    monkeypatch.setattr(Partner, "events", killed)
    the_same(tmp_path, at_least=after, second=Waited)
    assert all(one.returncode == -9 for one in started)


@pytest.mark.exhaustive
def test_what_is_asked_for_the_first_time_is_decoded_here(tmp_path):
    # Memory events in the last step only: until then nobody asked for their arguments.
    generate("pt-torch", seed=2, operators=12, steps=5, conditions={"memory": True}).write(tmp_path)
    path = trace_of(tmp_path)
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    last = max(e["ts"] for e in events if str(e["name"]).startswith("ProfilerStep"))
    document["traceEvents"] = [e for e in events if e["name"] != "[memory]" or e["ts"] > last]
    path.write_text(json.dumps(document))
    the_same(tmp_path)


def _runs(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let the second process run a program instead of its own; it finds its arguments as that does."""

    def command(call: str, *arguments: str, **how: object) -> list[str]:
        return [sys.executable, "-c", program, *arguments]

    monkeypatch.setattr(second_process.child, "own_command", command)


def kills_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    _runs(monkeypatch, "import os; os.kill(os.getpid(), 9)")


def says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _runs(monkeypatch, "pass")


def stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    _runs(monkeypatch, "import os; os.kill(os.getpid(), 19)")
    monkeypatch.setattr(second_process, "Second", Waited)
    monkeypatch.setattr(partner, "_TIMEOUT_MS", 3000)


def is_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_process.sys, "executable", "/no/such/python")


def has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def memfd_create(name: str) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(second_process.os, "memfd_create", memfd_create)


@pytest.mark.slow
@pytest.mark.parametrize("how", [kills_itself, says_nothing, stands_still, is_no_python, has_no_room])
@pytest.mark.variants(2)
def test_without_a_second_process_the_first_does_it_all(tmp_path, monkeypatch, how):
    generate("pt-torch", seed=4, operators=12, steps=4).write(tmp_path)
    expected = streamed(tmp_path)
    how(monkeypatch)
    monkeypatch.setattr(second_process, "WORTH_BYTES", 0)
    monkeypatch.setattr(second_process, "_usable_cpus", lambda: 2)
    assert streamed(tmp_path) == expected


@pytest.mark.slow
@pytest.mark.exhaustive
def test_more_files_may_be_open_than_select_bears(tmp_path):
    generate("pt-torch", seed=4, operators=12, steps=4).write(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4000, limits[1]), limits[1]))
    null = os.open(os.devnull, os.O_RDONLY)
    files = [null, *(os.dup(null) for _ in range(1100))]
    try:
        the_same(tmp_path, at_least=2, second=Waited)
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_what_is_printed_over_there_is_no_reply(tmp_path, monkeypatch):
    quiet = second_process.child.own_command

    def talking(*arguments: Any, **how: Any) -> list[str]:
        command = quiet(*arguments, **how)
        program = command.index("-c") + 1
        command[program] = f"print('a module that talks' * 9, flush=True)\n{command[program]}"
        return command

    monkeypatch.setattr(second_process.child, "own_command", talking)
    generate("pt-torch", seed=4, operators=12, steps=4).write(tmp_path)
    the_same(tmp_path, at_least=2, second=Waited)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(0, 1, 2), *map(often, (0, 1, 2))], ids=str)
@pytest.mark.exhaustive
def test_standard_streams_may_be_closed(tmp_path, closed):
    generate("pt-torch", seed=4, operators=12, steps=4).write(tmp_path / "out")
    code = f"""
import os
for file in {closed if isinstance(closed, tuple) else (closed,)}:
    os.close(file)
from pathlib import Path
from tests.dialects.streaming import Waited, beside, streamed
found, elsewhere = beside(Path("out"), second=Waited)
assert found == streamed(Path("out"))
Path("said").write_text(str(elsewhere))
"""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=120)
    assert int((tmp_path / "said").read_text()) >= 2


@pytest.mark.slow
def test_texts_have_one_hash_in_every_process():
    code = "from perfguard.artifacts.trace_rows import hashed; print(hashed([b'', b'x' * 99]).tolist())"
    said = {subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout for _ in range(2)}
    assert len(said) == 1
