"""What the baselines of two sides explain, as `perfguard ab --accept-explained` asks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perfguard.cli.accepted import accepted
from perfguard.stores.directory import BaselineDirectory

RED, OTHER, MOVED = "tests/test_a.py::test_red", "tests/test_a.py::test_other", "tests/test_a.py::test_moved"
STORED = Path(__file__).parents[2] / "baselines" / "tests.models.test_torch--test_mlp_train.json"


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two projects with the same two baselines, whose reason is "as ever"."""
    stored = BaselineDirectory(STORED.parent).load(json.loads(STORED.read_text())["workload"])
    assert stored is not None
    base = tmp_path / "base"
    (base / "tests").mkdir(parents=True)
    (base / "pyproject.toml").write_text("[tool.perfguard]\n")
    store = BaselineDirectory(base / "baselines")
    with store.locked():
        for name in (RED, OTHER):
            store.save(replace(stored.named(name), reason="as ever"))
    shutil.copytree(base, tmp_path / "current")
    return base, tmp_path / "current"


def change(name: str, **values: object) -> Callable[[Path], object]:
    """Return a change of the baseline of a workload."""

    def write(project: Path) -> None:
        path = BaselineDirectory(project / "baselines").path(name)
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return write


def delete(project: Path) -> None:
    BaselineDirectory(project / "baselines").delete(RED)


def move(project: Path, *, factor: float = 1.0) -> None:
    """Rename the baseline, as `perfguard baseline move` does, perhaps with other numbers."""
    store = BaselineDirectory(project / "baselines")
    stored = store.load(RED)
    assert stored is not None
    first, *others = stored.measurements
    numbers = (replace(first, value=factor * first.value), *others) if factor != 1.0 else stored.measurements
    store.save(replace(stored.named(MOVED), measurements=numbers))
    store.delete(RED)


def elsewhere(project: Path) -> None:
    """Move all baselines to another directory, where each is new."""
    (project / "baselines").rename(project / "elsewhere")
    (project / "pyproject.toml").write_text('[tool.perfguard]\nbaselines = "elsewhere"\n')


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda project: (project / "baselines" / name).write_text(text)


def damage(project: Path) -> None:
    BaselineDirectory(project / "baselines").path(RED).write_text("{")


def replace_by_another(project: Path) -> None:
    store = BaselineDirectory(project / "baselines")
    shutil.copy(store.path(OTHER), store.path(RED))


SAYS = f"accepted: {RED} is not as on the base, and its baseline says why:"
NOT = f"not accepted: {RED}; if this is intended, store why in the baseline: perfguard baseline refresh"
#: What a pull request changes, and what is said of a workload that is not as on the base.
CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "its baseline, with a reason": (change(RED, reason="another model"), f"{SAYS} another model"),
    "with a long reason": (change(RED, reason="x" * 10_000), f"{SAYS} {'x' * 199}…"),
    "with a reason, and where baselines are": (
        lambda project: (change(RED, reason="another model")(project), elsewhere(project)),
        f"{SAYS} another model",
    ),
    "nothing": (lambda project: None, NOT),
    "its baseline, without a reason": (change(RED, reason=None, runs=9), NOT),
    "with the reason it had": (change(RED, reason=" as ever\n", runs=9), NOT),
    "with the reason it had, in other letters": (change(RED, reason="As  ever", runs=9), NOT),
    "with the dots of a message": (change(RED, reason="..."), NOT),
    "the baseline of another": (change(OTHER, reason="another model"), NOT),
    "a file beside it": (write("README.md", "why"), NOT),
    "the calibration": (write("calibration.json", "{}"), NOT),
    "where baselines are": (elsewhere, NOT),
    "its baseline, deleted": (delete, NOT),
    "its baseline, damaged": (damage, f"not accepted: {RED}: "),
    "its baseline, by a copy of another": (replace_by_another, f"not accepted: {RED}: "),
}


@pytest.mark.parametrize("name", CHANGES)
def test_only_the_baseline_of_a_workload_that_says_why_accepts_it(sides, name):
    base, current = sides
    make, said = CHANGES[name]
    make(current)
    found = accepted(base, current, red=[RED], gone=[], new=[], alone=False)
    assert found.names == ({RED} if said.startswith(SAYS) else set())
    assert found.remarks[0].startswith(said)


@pytest.mark.parametrize(
    "make, is_accepted",
    [
        (move, True),
        (lambda project: move(project, factor=2.0), False),
        (delete, False),
        (lambda project: None, False),
        # The old one is still there, so that both are tests.
        (lambda project: (move(project), shutil.copytree(project / ".." / "base", project, dirs_exist_ok=True)), False),
    ],
)
def test_a_test_that_is_gone_is_accepted_if_its_baseline_moved(sides, make, is_accepted):
    base, current = sides
    make(current)
    found = accepted(base, current, red=[], gone=[RED], new=[MOVED], alone=False)
    assert (RED in found.names) is is_accepted
    told = f"accepted: {RED} is called {MOVED} now" if is_accepted else f"not accepted: {RED}; "
    assert found.remarks[0].startswith(told)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_new_test_is_accepted_with_its_baseline_where_there_is_nothing_to_compare(sides, damaged):
    base, current = sides
    (damage if damaged else delete)(base)
    found = accepted(base, current, red=[], gone=[], new=[RED], alone=True)
    assert found.names == (set() if damaged else {RED})
    assert found.remarks[0].startswith(f"not accepted: {RED}: " if damaged else f"accepted: {RED} is new")
    without_baseline = accepted(base, current, red=[], gone=[], new=[MOVED], alone=True)
    assert without_baseline.names == set()
