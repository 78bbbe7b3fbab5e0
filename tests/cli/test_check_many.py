"""`perfguard check` of many ranks: who looks at them, how far it is, and how it is stopped."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfguard.cli.bar import Bar
from perfguard.screen import Screen
from perfguard.testing import generate
from tests.cli import RECORDINGS, run
from tests.programs import wait_until
from tests.runs import several_runs
from tests.terminals import on_a_terminal

CHECK = [sys.executable, "-m", "perfguard", "check"]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Return a directory of eight small ranks: one is cut off, one is a copy of another."""
    directory = several_runs(tmp_path_factory.mktemp("ranks"), 4)
    (directory / "run2" / "a stranger.txt").write_text("x")
    return directory


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """Return a directory whose ranks take most of a second to look at."""
    return generate("pt-torch", seed=1, ranks=80, steps=3, operators=6).write(tmp_path_factory.mktemp("some"))


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Return a directory whose ranks take some seconds to look at."""
    return generate("pt-torch", seed=1, ranks=300, steps=3, operators=6).write(tmp_path_factory.mktemp("many"))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [("--json",), pytest.param(("--explain", "--metrics", "--select", "S,I"), marks=pytest.mark.exhaustive)],
)
def test_what_is_printed_and_written_does_not_depend_on_the_number_of_jobs(ranks, tmp_path, more):
    printed = {
        jobs: run("check", ranks, "--jobs", jobs, "--sarif", tmp_path / f"{jobs}.sarif", *more) for jobs in (1, 3)
    }
    assert {one.exit_code for one in printed.values()} == {3}
    assert len({one.stdout for one in printed.values()}) == 1
    assert {one.stderr for one in printed.values()} == {""}
    assert (tmp_path / "1.sarif").read_bytes() == (tmp_path / "3.sarif").read_bytes()


def test_one_rank_starts_no_process(monkeypatch):
    monkeypatch.setattr("perfguard.engines.local.LocalEngine.open", None)
    assert run("check", RECORDINGS / "torch-mlp", "--jobs", "8").exit_code == 0


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_a_number_of_jobs_is_at_least_one(jobs):
    assert run("check", RECORDINGS / "torch-mlp", "--jobs", jobs).exit_code == 2


# -- quiet -----------------------------------------------------------------------------------------------------------------


def test_quiet_leaves_out_notes_and_nothing_else(tmp_path):
    recording = Path(shutil.copytree(RECORDINGS / "mindspore-graph", tmp_path / "recording"))
    (cycle,) = (recording / "profiler").iterdir()
    (cycle / "a stranger.txt").write_text("x")
    details = next(cycle.glob("**/cpu_op_detail_info*.csv"))
    details.write_text(details.read_text().replace("op_type", "op_kind", 1))
    plain, quiet = run("check", recording), run("check", recording, "--quiet")
    assert "A103 (note)" in plain.stdout
    assert "(note)" not in quiet.stdout
    assert quiet.exit_code == plain.exit_code == 3
    assert set(quiet.stdout.splitlines()) < set(plain.stdout.splitlines())
    assert "S102" in quiet.stdout


def test_quiet_of_what_is_whole_is_its_verdict():
    found = run("check", RECORDINGS / "mindspore-graph", "-q")
    assert re.fullmatch(r"PASSED \S+ \(ms-2.5\+cpu: .*\)\n", found.stdout)


@pytest.mark.parametrize("other", ["--explain", "--metrics"])
def test_quiet_contradicts_what_it_leaves_out(other):
    found = run("check", RECORDINGS / "torch-mlp", "--quiet", other)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "take the one or the other" in found.stderr


# -- the bar ---------------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """What is written to a terminal, and the time there."""

    is_there = True
    now = 100.0

    def isatty(self) -> bool:
        return self.is_there

    def seen(self) -> str:
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


@pytest.fixture
def terminal(monkeypatch):
    found = Terminal()
    monkeypatch.setattr("tqdm.std.time", lambda: found.now)
    return found


def test_the_bar_shows_bytes_once_it_takes_two_seconds(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal)
    with Bar() as bar:
        bar.begin(2_000_000)
        bar.report(500_000)
        assert terminal.seen() == ""
        terminal.now += 2.5
        bar.report(500_000)
        assert re.search(r" 50%\|.*1.00M/2.00M \[", terminal.seen())
        bar.clear()
    assert terminal.seen().strip("\r \n") == ""


@pytest.mark.parametrize(("is_there", "is_wanted"), [(False, True), (True, False)])
def test_there_is_no_bar_where_nobody_sees_it_or_wants_it(terminal, monkeypatch, is_there, is_wanted):
    terminal.is_there = is_there
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("perfguard.cli.bar.screen", lambda: Screen(verbosity=0 if is_wanted else -1))
    with Bar() as bar:
        bar.begin(10)
        terminal.now += 60
        bar.report(5)
        bar.report(5)
    assert terminal.seen() == ""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["2", pytest.param("1", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_a_terminal_sees_how_far_it_is(some, tmp_path, jobs):
    # On a fast machine they do not take two seconds.
    soon = "from perfguard.cli import bar, main; bar.SHOWN_AFTER_S = 0.1; main()"
    command = [sys.executable, "-c", soon, "check", str(some), "--jobs", jobs]
    with open(tmp_path / "output", "wb") as output:
        code, shown = on_a_terminal(command, env=environment(), output=output)
    assert code == 0
    assert (tmp_path / "output").read_text().startswith("PASSED")
    assert "B/s]" in shown


# -- stopped ---------------------------------------------------------------------------------------------------------------


def children_of(pid: int) -> set[int]:
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (place / "stat").read_text().rpartition(")")[2].split()[1] == str(pid):
                found.add(int(place.name))
    return found


def looks(pid: int) -> bool:
    """Whether a process has begun to look at files, which is when it has loaded the database."""
    try:
        return "duckdb" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["2", pytest.param("1", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_ctrl_c_ends_it_with_a_sentence_and_leaves_no_process(many, jobs):
    """As a terminal does it: all processes of the group get the signal."""
    process = subprocess.Popen(
        [*CHECK, str(many), "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    workers: set[int] = set()

    def has_begun() -> bool:
        assert process.poll() is None
        workers.update(children_of(process.pid))
        return any(map(looks, workers if jobs == "2" else [process.pid]))

    wait_until(has_begun)
    os.killpg(process.pid, signal.SIGINT)
    output, error = process.communicate(timeout=600)
    assert (process.returncode, output) == (2, ""), error
    assert error.strip() == "perfguard: stopped before the end; nothing more was done."
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
