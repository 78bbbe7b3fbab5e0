"""The tests of a run that use the gate: their red verdicts, and whether the run reached them.

They are noted in the process of the test, not read from pytest's reports: a test may skip itself after its verdict, and a hook
may rewrite a report or the exit status. A child that a test forks sends them through a pipe. Not detected: `os._exit(0)` in the
main process, also in an `atexit` function, and a test that replaces perfguard's own functions.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from _pytest._io import TerminalWriter
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

from perfguard.errors import UsageError, listed
from perfguard.judge.verdict import Verdict
from perfguard.screen import LOG, printable

#: The longest name, and the longest verdict, that a child process sends: a line is written as one up to PIPE_BUF bytes.
_SENT = 150
#: How many tests a line names before it counts the rest.
_NAMED = 10

_COLLECTED_AS = pytest.StashKey[str]()


@dataclass(slots=True, kw_only=True)
class GateTest:
    """The state of one test that uses the gate."""

    nodeid: str
    #: The red verdicts and errors of the last attempt that had any: "a FAILED verdict".
    red: tuple[str, ...] = ()
    #: The user's marker that overrides a verdict: "xfail", "skip", "expectedFailure"; else empty.
    marker: str = ""
    #: Whether an earlier attempt was red, and a later one has a verdict.
    was_red: bool = False
    #: Whether it has a verdict or ended by itself; false if the run was stopped before.
    is_reached: bool = False

    def merge(self, other: GateTest) -> None:
        """Add the state of the same test in another process."""
        self.red = (*self.red, *other.red)
        self.marker = self.marker or other.marker
        self.was_red |= other.was_red
        self.is_reached |= other.is_reached


class GateTests:
    """All selected tests that use the gate, by node id."""

    def __init__(self) -> None:
        self._tests: dict[str, GateTest] = {}
        #: Tests whose current attempt has no verdict yet.
        self._fresh: set[str] = set()
        #: Whether the status of the run has been decided, so that no verdict can change it.
        self.is_decided = False
        #: What children that a test forked noted: the end that this process reads, and the one that they write.
        self._red_children: dict[str, str] = {}
        self._pid = os.getpid()
        self._of_children, self._as_child = os.pipe()
        os.set_blocking(self._of_children, False)
        os.set_blocking(self._as_child, False)

    def __contains__(self, nodeid: str) -> bool:
        return nodeid in self._tests

    # -- what happens to a test ----------------------------------------------------------------------------------------

    def select(self, nodeids: Iterable[str]) -> None:
        """Note the tests that are going to run."""
        for nodeid in nodeids:
            self._tests.setdefault(nodeid, GateTest(nodeid=nodeid))

    def begin(self, item: pytest.Item) -> None:
        """Note that an attempt begins: earlier verdicts count until this one has one."""
        self._fresh.add(item.nodeid)

    def give(self, item: pytest.Item, verdict: Verdict) -> None:
        """Note a verdict of the test."""
        word = verdict.outcome.value
        self._note(item, "" if verdict.passed else f"{'an' if word[0] in 'AEIO' else 'a'} {word} verdict")

    def give_error(self, item: pytest.Item, error: str) -> None:
        """Note an error of perfguard, which left no verdict."""
        self._note(item, f"an error of perfguard: {error}")

    def reach(self, item: pytest.Item, error: BaseException | None = None) -> None:
        """Note that the test has ended by itself, with the `error` it raised."""
        if isinstance(error, (KeyboardInterrupt, pytest.exit.Exception)):
            return
        if (test := self._tests.get(item.nodeid)) is None:
            return
        test.is_reached = True
        if not test.red and isinstance(error, (pytest.skip.Exception, pytest.xfail.Exception)):
            test.marker = _marker_that_skips(item)

    def _note(self, item: pytest.Item, red: str) -> None:
        test = self._tests.setdefault(item.nodeid, GateTest(nodeid=item.nodeid))
        test.is_reached = True
        if item.nodeid in self._fresh:
            self._fresh.discard(item.nodeid)
            test.was_red |= bool(test.red)
            test.red, test.marker = (), ""
        if not red:
            return
        # A marker that the test adds after its first red verdict does not count.
        test.marker = test.marker if test.red else _marker_that_expects_failure(item)
        test.red = (*test.red, red)
        if os.getpid() != self._pid and not test.marker:
            line = json.dumps([item.nodeid[:_SENT], red[:_SENT]]).encode() + b"\n"
            with suppress(BlockingIOError):
                # Full of other red verdicts.
                os.write(self._as_child, line)
        elif self.is_decided and not test.marker:
            # A function of atexit, or a thread that nothing waited for: only the process itself can still be red.
            why = f"perfguard: the run fails: {red} after its end: {item.nodeid}"
            TerminalWriter(sys.stderr).line(LOG.carried(printable(why)))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    def hear_children(self) -> None:
        """Note the red verdicts of forked children: the test in this process knows nothing of them."""
        if os.getpid() != self._pid:
            return
        with suppress(BlockingIOError):
            while sent := os.read(self._of_children, select.PIPE_BUF * 16):
                # A line is shorter than PIPE_BUF, so the system writes it as one.
                for line in sent.splitlines():
                    nodeid, red = json.loads(line)
                    test = self._tests.setdefault(nodeid, GateTest(nodeid=nodeid))
                    self._red_children[nodeid] = what = f"{red} in a child process"
                    test.red, test.marker = (*test.red, what), ""

    # -- from a worker of pytest-xdist to the controller ---------------------------------------------------------------

    def as_documents(self) -> list[dict[str, Any]]:
        """Return all tests as plain documents."""
        self.hear_children()
        return [asdict(test) for test in self._tests.values()]

    def take(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Add the tests of another process."""
        for document in documents:
            test = GateTest(**document)
            if (known := self._tests.setdefault(test.nodeid, test)) is not test:
                known.merge(test)

    # -- what they come to ---------------------------------------------------------------------------------------------

    def red_child_of(self, nodeid: str) -> str:
        """Return a red verdict of a child that a test forked; empty without one."""
        self.hear_children()
        return self._red_children.get(nodeid[:_SENT], "")

    @property
    def red(self) -> list[str]:
        """Tests with a red verdict that no marker overrides."""
        self.hear_children()
        return [test.nodeid for test in self._tests.values() if test.red and not test.marker]

    @property
    def unreached(self) -> list[str]:
        """Tests that the run did not reach, or that it stopped before their verdict."""
        return [test.nodeid for test in self._tests.values() if not test.is_reached]

    def swallowed_lines(self, reported: Mapping[str, str]) -> list[str]:
        """Return one line for each red test that pytest reported as something other than failed.

        `reported` is the word of pytest by node id: passed, failed, skipped, xfailed.
        """
        return [
            f"{printable(nodeid)}: {reported.get(nodeid, 'not reported')} after {printable(self._tests[nodeid].red[0])}"
            for nodeid in self.red
            if reported.get(nodeid) != "failed"
        ]

    def known_line(self) -> str:
        """Return `2 known, not gated: a.py::one (xfail), a.py::two (skip)`, or nothing."""
        known = [test for test in self._tests.values() if test.marker]
        return f"{len(known)} known, not gated: {named(f'{t.nodeid} ({t.marker})' for t in known)}" if known else ""

    def flaky_line(self) -> str:
        """Return the tests that passed after an attempt with a red verdict, or nothing."""
        flaky = [test.nodeid for test in self._tests.values() if test.was_red and not test.red]
        return f"{len(flaky)} flaky, red before the last attempt: {named(flaky)}" if flaky else ""


def named(tests: Iterable[str]) -> str:
    """Return tests for one line."""
    return listed([printable(test) for test in tests], _NAMED)


def _has_marks(item: pytest.Item) -> bool:
    """Whether pytest obeys the markers skip and xfail; with `-p no:skipping` it does not."""
    return item.config.pluginmanager.hasplugin("skipping")


def _marker_that_skips(item: pytest.Item) -> str:
    if not _has_marks(item):
        return ""
    if evaluate_skip_marks(item) is not None:
        return "skip"
    xfail = evaluate_xfail_marks(item)
    return "xfail" if xfail is not None and not xfail.run else ""


def _marker_that_expects_failure(item: pytest.Item) -> str:
    """Return the marker of the test that expects perfguard's failure."""
    if any(getattr(getattr(item, name, None), "__unittest_expecting_failure__", False) for name in ("obj", "cls")):
        return "expectedFailure"
    xfail = evaluate_xfail_marks(item) if _has_marks(item) and not item.config.option.runxfail else None
    if xfail is None:
        return ""
    raises = xfail.raises
    is_other = isinstance(raises, (type, tuple)) and not issubclass(pytest.fail.Exception, raises)
    return "" if is_other else "xfail"


def remember_nodeid(item: pytest.Item) -> None:
    """Remember the node id of collection; `--dist=loadgroup` of pytest-xdist adds a group later (`test_x@gpu`)."""
    item.stash[_COLLECTED_AS] = item.nodeid


def nodeid_of(item: pytest.Item) -> str:
    """Return the node id that a test was collected by, which its baseline is named after."""
    return item.stash.get(_COLLECTED_AS, item.nodeid)


def is_gate_test(item: pytest.Item) -> bool:
    """Whether a test requests the fixture by an argument, through a named fixture or by its own marker; not by autouse."""
    if "perfguard" not in getattr(item, "fixturenames", ()):
        return False
    if _has_marker(item):
        return True
    info = item._fixtureinfo  # type: ignore[attr-defined]
    pending = {*info.argnames, *(name for marker in item.iter_markers("usefixtures") for name in marker.args)}
    named: set[str] = set()
    while pending:
        name = pending.pop()
        named.add(name)
        pending |= {one for made in info.name2fixturedefs.get(name, ()) for one in made.argnames} - named
    return "perfguard" in named


def without_fixture(item: pytest.Item) -> str:
    """Return what is wrong with the marker of a test without the fixture; a marker of the whole module is fine."""
    cls = item.getparent(pytest.Class)
    if cls is not None and hasattr(cls.obj, "assertEqual") and (_has_marker(item) or _has_marker(cls)):
        return "a unittest.TestCase takes no fixture as argument: write the test as a function"
    return "it has the marker, and not the fixture: add the argument `perfguard`" if _has_marker(item) else ""


def _has_marker(node: pytest.Item | pytest.Collector) -> bool:
    return any(marker.name == "perfguard" for marker in node.own_markers)


def marker_arguments(item: pytest.Item) -> dict[str, object]:
    """Return the keywords of all perfguard markers of a test, the closest one winning."""
    arguments: dict[str, object] = {}
    for marker in reversed(list(item.iter_markers("perfguard"))):
        if marker.args:
            raise UsageError(
                "@pytest.mark.perfguard takes keywords only, such as window=perfguard.StepWindow(active=5)."
            )
        arguments |= marker.kwargs
    return arguments
