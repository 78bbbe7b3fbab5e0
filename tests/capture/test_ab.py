"""The processes of a comparison, seen from the one that starts them: those that crash, hang, or end too early."""

from __future__ import annotations

import json
import os
import sys
import uuid

import pytest

from perfguard import thresholds
from perfguard.capture.ab import sides as two_sides
from perfguard.capture.ab import timing
from perfguard.capture.ab.sides import Side, Timeable, base_in, base_on, current_side, record
from perfguard.capture.ab.timing import time_pairs
from perfguard.capture.command import last_line
from perfguard.capture.worktree import Place, Worktree
from perfguard.errors import UsageError
from perfguard.timing import LostRun, PairedTiming

#: What a child does that runs steps in turns; `{each}` is done before each turn.
IN_TURNS = """
import json, os, sys, time
asked = json.load(open(sys.argv[1]))
commands, replies = os.fdopen(asked["commands"]), asked["replies"]
def tell(reply): os.write(replies, json.dumps(reply).encode() + b"\\n")
name = "base" if asked["moved"] else "current"
{first}
tell({{"ready": "process"}})
turn = 0
while line := commands.readline():
    turn += 1
    {each}
    tell({{"costs": [[1000 if name == "base" else 2000] * int(line), [5000] * int(line)]}})
"""


@pytest.fixture
def place(tmp_path):
    return Place(directory=tmp_path, mark=uuid.uuid4().hex)


@pytest.fixture
def sides(tmp_path):
    environment = dict(os.environ)
    common = {"python": sys.executable, "home": "", "directory": tmp_path, "environment": environment, "checkout": "/c"}
    about = Timeable(request="", threads=1, took_s=0.0)
    return (Side(name="base", moved=("/c", "/w"), **common), about), (Side(name="current", **common), about)


@pytest.fixture
def child(monkeypatch):
    """Let the sides run other code than perfguard's."""

    def runs(code: str) -> None:
        command_of = two_sides.command_of
        for module in (two_sides, timing):
            monkeypatch.setattr(
                module, "command_of", lambda *request: [sys.executable, "-c", code, command_of(*request)[-1]]
            )

    return runs


def in_turns(first: str = "", each: str = "pass") -> str:
    return IN_TURNS.format(first=first, each=each)


def quiet(what: str) -> None:
    pass


# -- in turns ----------------------------------------------------------------------------------------------------------


def test_two_processes_take_turns(place, sides, child):
    child(in_turns())
    found = time_pairs(*sides, place, processes=5, together=False, show=quiet)
    assert len(found.timings) == thresholds.PROCESS_PAIRS
    assert found.lost == ()
    steps = thresholds.BLOCKS * thresholds.BLOCK_STEPS
    assert all(one.base_wall_ns == one.current_wall_ns == (5000,) * steps for one in found.timings)
    assert all(one.base_ns == (1000,) * steps and one.current_ns == (2000,) * steps for one in found.timings)
    assert not any(one.interleaved for one in found.timings)
    assert len({one.seed for one in found.timings}) == thresholds.PROCESS_PAIRS


def test_what_three_pairs_have_seen_two_more_confirm(place, sides, child):
    child(in_turns())
    asked = []
    found = time_pairs(
        *sides, place, processes=5, together=False, show=quiet, is_suspect=lambda timed: not asked.append(len(timed))
    )
    assert len(found.timings) == thresholds.CONFIRMING_PAIRS
    assert asked == [thresholds.PROCESS_PAIRS]


def test_one_that_crashes_is_told_and_another_pair_takes_its_place(place, sides, child, tmp_path):
    once = f"""
if name == "current" and not os.path.exists({str(tmp_path / "once")!r}):
    open({str(tmp_path / "once")!r}, "w"); os.kill(os.getpid(), 9)
"""
    child(in_turns(once))
    found = time_pairs(*sides, place, processes=5, together=False, show=quiet)
    assert len(found.timings) == thresholds.PROCESS_PAIRS
    (lost,) = found.lost
    assert lost.number == 1
    assert lost.reason == ("of the current side was ended by SIGKILL, which the system sends when memory runs out")


@pytest.mark.parametrize(
    "first, each, reason",
    [
        ("raise SystemError('no such thing')", "pass", "of the base ended with status 1 and timed nothing: SystemError: no"),
        ("", "if turn == 3 and name == 'base': os.abort()", "of the base was ended by SIGABRT"),
        ("tell({'ended': 'the loader ended after 7 timed steps; give it more.'})", "pass", "of the base ended early: the lo"),
        ("", "if turn == 2 and name == 'current': time.sleep(600)", "of the current side was ended after 8 seconds"),
    ],
)  # fmt: skip
@pytest.mark.variants(2)
def test_where_no_pair_leaves_a_time_the_reason_is_told(place, sides, child, monkeypatch, first, each, reason):
    monkeypatch.setattr(timing.thresholds, "LEAST_TIMEOUT_S", 8.0 if "sleep" in each else 60.0)
    child(in_turns(first, each))
    found = time_pairs(*sides, place, processes=5, together=False, show=quiet)
    assert found.timings == ()
    assert [one.number for one in found.lost] == [1, 2]
    assert found.lost[0].reason.startswith(reason)


def test_processes_that_could_not_be_bound_say_so(place, sides, child, monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    child(in_turns())
    found = time_pairs(*sides, place, processes=5, together=False, show=quiet)
    assert "the processes could not be bound to one CPU" in found.notes
    assert len(found.timings) == thresholds.PROCESS_PAIRS


# -- in one process ----------------------------------------------------------------------------------------------------


def together(monkeypatch, *results):
    """Let the processes that run both sides come to these results, one after the other."""
    left = iter(results)

    def one(base, current, place, number):
        result = next(left)
        if isinstance(result, str):
            raise timing._CannotShare(result)
        return result

    monkeypatch.setattr(timing, "_one_together", one)


TIMED = PairedTiming(interleaved=True, base_ns=(1, 2), current_ns=(1, 2), seed=7, cpus=(0,))
LOST = LostRun(number=1, reason="was ended by SIGSEGV")


def test_the_others_count_where_a_process_is_lost(place, sides, monkeypatch):
    together(monkeypatch, TIMED, LOST, TIMED, LOST, TIMED)
    found = time_pairs(*sides, place, processes=5, together=True, show=quiet)
    assert (len(found.timings), found.lost) == (3, (LOST, LOST))
    assert found.notes == ("timed interleaved; the order was drawn with seeds 7 7 7",)


@pytest.mark.parametrize("results", [("base: no",), (LOST, LOST)], ids=["refused", "lost"])
def test_what_one_process_does_not_bear_takes_turns(place, sides, child, monkeypatch, results):
    together(monkeypatch, *results)
    child(in_turns())
    found = time_pairs(*sides, place, processes=5, together=True, show=quiet)
    assert len(found.timings) == thresholds.PROCESS_PAIRS
    assert not any(one.interleaved for one in found.timings)
    assert found.notes[0].startswith("not interleaved: one process cannot run both sides (")


# -- sides -------------------------------------------------------------------------------------------------------------


def test_arguments_of_a_base_lead_into_its_worktree(tmp_path):
    top, other = tmp_path / "project", tmp_path / "base"
    (top / "sub").mkdir(parents=True)
    (other / "sub").mkdir(parents=True)
    base = base_in(Worktree(top=other, commit="0" * 40), current_side(top / "sub", top))
    assert base.directory == other / "sub"
    assert base.argument(f"{top}/t.py::test[a/b]") == f"{other}/t.py::test[a/b]"
    assert base.argument(f"--rootdir={top}") == f"--rootdir={other}"
    assert base.argument("t.py") == "t.py"
    assert base.argument("--maxfail=1") == "--maxfail=1"
    assert base.argument("-k") == "-k"


def test_the_path_of_modules_leads_into_the_worktree_as_well(tmp_path, monkeypatch):
    top, other = tmp_path / "project", tmp_path / "base"
    top.mkdir()
    other.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(top / "src"), "/elsewhere"]))
    base = base_in(Worktree(top=other, commit="0" * 40), current_side(top, top))
    assert base.environment["PYTHONPATH"] == os.pathsep.join([str(other / "src"), "/elsewhere"])


def test_a_base_without_the_directory_is_refused(tmp_path):
    (tmp_path / "project" / "new").mkdir(parents=True)
    with pytest.raises(UsageError, match="000000000000 has no directory new; run this where both have tests"):
        base_in(
            Worktree(top=tmp_path / "base", commit="0" * 40),
            current_side(tmp_path / "project" / "new", tmp_path / "project"),
        )


def test_an_interpreter_that_says_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(two_sides, "_PROBE_TIMEOUT_S", 0.5)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 60\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match="cannot be run: it did not answer"):
        base_on(python, current_side(tmp_path), "1.0")


def test_what_pytest_cannot_find_on_the_base_is_left_out(place, sides, child, tmp_path):
    (base, _), _ = sides
    code = """
import json, sys
asked = json.load(open(sys.argv[1]))
places = [one for one in asked["arguments"] if one.endswith(".py")]
missing = [one for one in places if one.startswith("new")]
if missing:
    print(f"ERROR: file or directory not found: {missing[0]}")
facts = {"status": 4 if missing else 0, "places": places}
open(asked["result"], "w").write(json.dumps({**facts, "reasons": {"seen": " ".join(asked["arguments"][:2])}}))
"""
    child(code)
    recorded = record(base, place, ["new.py", "newer.py", "old.py"], time=False, timeout_s=600)
    assert (recorded.status, recorded.not_found) == (0, ())
    assert recorded.reasons["seen"].startswith("old.py")
    # Where nothing that was named is left, the whole suite is not what was asked for.
    alone = record(base, place, ["new.py", "-k", "mlp"], time=False, timeout_s=600)
    assert (alone.status, alone.not_found) == (4, ("new.py",))


def test_a_test_that_prints_such_a_line_is_not_missed(place, sides, child):
    child("""
import json, sys
print("ERROR: file or directory not found: new.py")
open(json.load(open(sys.argv[1]))["result"], "w").write(json.dumps({"status": 1, "places": ["new.py", "old.py"]}))
""")
    assert record(sides[0][0], place, ["new.py", "old.py"], time=False, timeout_s=600).not_found == ()


def test_a_child_is_given_nothing_of_the_users_to_write_into(place, sides, child):
    (base, _), _ = sides
    code = """
import json, os, sys, tempfile
asked = json.load(open(sys.argv[1]))
found = [tempfile.gettempdir(), str(sys.dont_write_bytecode), *(a for a in asked["arguments"] if "/" in a)]
open(asked["result"], "w").write(json.dumps({"status": 0, "reasons": {"seen": "\\n".join(found)}}))
"""
    child(code)
    seen = record(base, place, [], time=True, timeout_s=600).reasons["seen"].splitlines()
    assert seen[1] == "True"
    assert all(str(place.directory) in one or one == f"log_file={os.devnull}" for one in (seen[0], *seen[2:]))


def test_a_damaged_line_of_output_is_no_obstacle(tmp_path):
    output = tmp_path / "output"
    output.write_bytes(b"\xff\xfe\nERROR: not found: /w/t.py::x\xff (no match in any of [<Module t.py>])\n")
    assert two_sides._not_found(output)[0].startswith("/w/t.py::x")
    assert last_line(output).startswith("not found: /w/t.py::x")
    output.write_bytes(b"")
    assert last_line(output) == ""


def test_the_facts_of_a_side_are_read_as_they_were_written():
    plain = json.loads(json.dumps({"request": "r", "threads": 2, "took_s": 1.5}))
    assert Timeable(**plain) == Timeable(request="r", threads=2, took_s=1.5)
