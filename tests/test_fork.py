"""Forks: what they yield and raise, and that nothing of them is left, however they or their parent end."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from perfguard.errors import UsageError
from perfguard.fork import KilledError, forked, limit_time
from tests.programs import wait_until

MIB = 1024**2


def children() -> list[int]:
    """Return the processes whose parent this one is."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return [int(one) for one in found]


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = children()
    files = len(os.listdir("/proc/self/fd"))
    yield
    assert children() == before
    assert len(os.listdir("/proc/self/fd")) == files


def endless():
    while True:
        pass


def test_what_is_yielded_comes_in_its_order():
    assert list(forked(lambda: iter(["a", None, b"c", 4.0, ("d",)]))) == ["a", None, b"c", 4.0, ("d",)]


def test_it_is_another_process_that_has_what_this_one_has():
    kept = {"mine": 1}

    def change():
        kept["mine"] = 2
        yield os.getpid(), kept

    ((process, found),) = forked(change)
    assert process != os.getpid()
    assert (found, kept) == ({"mine": 2}, {"mine": 1})


def test_items_are_made_as_they_are_asked_for():
    found = forked(lambda: iter(range(10**12)))
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    found.close()


def test_an_error_is_raised_here():
    def fail():
        yield 1
        raise UsageError("That is wrong. Correct it.")

    found = forked(fail)
    assert next(found) == 1
    with pytest.raises(UsageError, match=r"That is wrong\. Correct it\."):
        next(found)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_what_would_end_it_is_raised_here_too(error):
    def fail():
        yield from ()
        raise error

    with pytest.raises(type(error)):
        list(forked(fail))


class Unlike(Exception):
    """Its arguments are not those of `__init__`: it cannot be unpickled."""

    def __init__(self, one, other):
        super().__init__(f"{one}{other}")


class Unpicklable(Exception):
    def __init__(self):
        super().__init__(lambda: None)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (EOFError("e"), EOFError, "e"),
        (Unlike("a", "b"), RuntimeError, "Unlike: ab"),
        (Unpicklable(), RuntimeError, "Unpicklable: "),
    ],
    ids=["end", "unlike", "unpicklable"],
)
def test_a_defect_is_raised_here_with_its_place(error, kind, words):
    def fail():
        yield 1
        raise error

    with pytest.raises(kind, match=words) as caught:
        list(forked(fail))
    assert "in fail" in caught.value.__notes__[0]


def test_what_takes_too_long_is_ended(must_not_hang):
    def late():
        limit_time(0.2)
        limit_time(0.2)
        yield endless()

    with pytest.raises(KilledError) as error:
        list(forked(late))
    assert error.value.is_late


def test_a_limit_holds_for_all_items_together_however_coarse_the_timer(must_not_hang):
    def items():
        set_exactly = signal.setitimer
        signal.setitimer = lambda which, seconds: set_exactly(which, math.ceil(seconds * 10) / 10)
        limit_time(0.3)
        while True:
            yield 1

    with pytest.raises(KilledError) as error:
        list(forked(items))
    assert error.value.is_late


def test_waiting_for_the_reader_takes_no_time():
    def items():
        limit_time(0.2)
        for _ in range(3):
            yield bytes(MIB)

    for item in forked(items):
        time.sleep(0.2)
        assert len(item) == MIB


def test_there_is_no_limit_outside():
    limit_time(0.001)
    time.sleep(0.01)


def test_what_takes_too_much_memory_is_an_error():
    with pytest.raises(MemoryError):
        list(forked(lambda: iter([len(bytearray(1024 * MIB))])))
    assert list(forked(lambda: iter([len(bytearray(100 * MIB))]))) == [100 * MIB]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_crash_is_an_error_and_nothing_else(number, capfd):
    def crash():
        os.write(2, b"noise")
        yield os.kill(os.getpid(), number)

    with pytest.raises(KilledError) as error:
        list(forked(crash))
    assert not error.value.is_late
    assert capfd.readouterr() == ("", "")


def test_handlers_of_this_process_are_not_called_in_it():
    before = signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(AssertionError))
    try:
        with pytest.raises(KilledError):
            list(forked(lambda: iter([os.kill(os.getpid(), signal.SIGTERM)])))
        assert list(forked(lambda: iter([os.kill(os.getpid(), signal.SIGINT)]))) == [None]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_threads_are_no_warning():
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert list(forked(lambda: iter([1]))) == [1]
    finally:
        over.set()
        thread.join()


def test_whoever_collects_all_children_disturbs_nothing():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert list(forked(lambda: iter([1]))) == [1]
        with pytest.raises(KilledError):
            list(forked(lambda: iter([os.kill(os.getpid(), signal.SIGKILL)])))
    finally:
        signal.signal(signal.SIGCHLD, before)


_KILLED = """
import os, signal, sys
from perfguard.fork import forked
def busy():
    yield os.getpid()
    while True: pass
found = forked(busy)
print(next(found), flush=True)
os.kill(os.getpid(), int(sys.argv[1]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_parent(number, must_not_hang):
    done = subprocess.run([sys.executable, "-c", _KILLED, str(number.value)], capture_output=True, text=True)
    status = Path(f"/proc/{int(done.stdout)}/status")
    # Nobody may collect it here, which leaves a zombie.
    wait_until(lambda: not status.exists() or "State:\tZ" in status.read_text(encoding="utf-8"))
