"""Items of pytest: the node id of a test, whether it uses the fixture, and the arguments of its markers."""

from __future__ import annotations

import pytest

from perfguard.errors import UsageError

_COLLECTED_AS = pytest.StashKey[str]()


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
