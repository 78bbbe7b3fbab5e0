"""What runs inside the processes of a comparison: where a side's code comes from, and whose turn it is."""

from __future__ import annotations

import gc
import os
import sys
import threading
from types import ModuleType

import pytest

from perfguard.capture.controlled import process_switches
from perfguard.plugin import place as place_module
from perfguard.plugin import side
from perfguard.plugin.side import Place, ThreadTurns, strangers


@pytest.fixture
def trees(tmp_path):
    """A checkout and a worktree of it, each with a module of the same name."""
    for name in ("project", "base"):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / "of_both.py").write_text(f"where = {name!r}\n")
    return tmp_path / "project", tmp_path / "base"


@pytest.fixture
def untouched(monkeypatch):
    """Put paths, modules and the working directory back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(".")
    known = dict(sys.modules)
    yield
    for name in sys.modules.keys() - known.keys():
        del sys.modules[name]


def where() -> str:
    import of_both

    return of_both.where


def test_two_sides_of_one_process_have_modules_of_their_own(trees, untouched):
    top, other = trees
    sys.path.insert(0, str(top / "src"))
    places = {"base": Place(str(other), (str(top), str(other))), "project": Place(str(top), None, top=str(top))}
    for name, place in places.items():
        place.settle()
        assert sys.path[0] == place.directory
        assert where() == name
        place.leave()
        assert "of_both" not in sys.modules
    for name in ("base", "project", "project", "base"):
        places[name].enter()
        assert where() == name
        places[name].leave()


def test_a_module_that_is_loaded_later_is_the_sides_own_as_well(trees, untouched):
    top, other = trees
    sys.path.insert(0, str(top / "src"))
    base, here = Place(str(other), (str(top), str(other))), Place(str(top), None, top=str(top))
    for place in (base, here):
        place.settle()
        place.leave()
    base.enter()
    assert where() == "base"
    base.leave()
    here.enter()
    assert where() == "project"


def test_an_editable_install_leads_into_the_worktree_and_back(trees, untouched, monkeypatch):
    top, other = trees
    finder = ModuleType("__editable___project_finder")
    finder.MAPPING = {"of_both": str(top / "src" / "of_both"), "elsewhere": "/elsewhere"}
    monkeypatch.setitem(sys.modules, finder.__name__, finder)
    found = type("Finder", (), {"__module__": finder.__name__, "find_spec": staticmethod(lambda *a: None)})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, found])
    base, here = Place(str(other), (str(top), str(other))), Place(str(top), None, top=str(top))
    base.settle()
    assert {"of_both": str(other / "src" / "of_both"), "elsewhere": "/elsewhere"} == finder.MAPPING
    base.leave()
    here.settle()
    assert finder.MAPPING["of_both"] == str(top / "src" / "of_both")


@pytest.mark.parametrize(
    "file, name, strange",
    [
        ("base/src/mine.py", "mine", False),
        ("project/src/mine.py", "mine", True),
        ("venv/site-packages/mine/__init__.py", "mine", True),
        ("venv/site-packages/mine/inner.py", "mine.inner", False),
        # Of a package without __init__.py, and of a project that is a part of the tree.
        ("venv/site-packages/spread/of/__init__.py", "spread.of", True),
        ("venv/site-packages/core/__init__.py", "core", True),
        ("venv/site-packages/theirs/__init__.py", "theirs", False),
        ("lib/python3/mine.py", "mine", False),
        ("project/src/perfguard/x.py", "perfguard.x", False),
    ],
)
def test_whose_module_it_is(tmp_path, monkeypatch, file, name, strange):
    (tmp_path / "base" / "src" / "mine").mkdir(parents=True)
    (tmp_path / "base" / "src" / "mine" / "__init__.py").touch()
    for other in ("base/src/spread/of", "base/packages/one/src/core"):
        (tmp_path / other).mkdir(parents=True)
        (tmp_path / other / "__init__.py").touch()
    module = ModuleType(name)
    module.__file__ = str(tmp_path / file)
    monkeypatch.setattr(place_module.sys, "modules", {name: module})
    tops = (str(tmp_path / "base"), str(tmp_path / "base" / "packages" / "one"))
    assert bool(strangers(tops, str(tmp_path / "project"))) is strange


def test_a_python_that_a_side_starts_finds_the_sides_code(trees, untouched, monkeypatch):
    top, other = trees
    monkeypatch.setenv("PYTHONPATH", "/of/the/user")
    # As an editable install has it.
    sys.path.append(str(top / "src"))
    for name, place in {
        "base": Place(str(other), (str(top), str(other))),
        "project": Place(str(top), None, top=str(top)),
    }.items():
        place.settle()
        place.lead_children()
        told = os.environ["PYTHONPATH"].split(os.pathsep)
        assert told == ([str(other / "src")] if name == "base" else []) + ["/of/the/user"]
        place.leave()
        monkeypatch.setenv("PYTHONPATH", "/of/the/user")


def test_what_is_set_for_the_whole_process_is_told(monkeypatch):
    before = dict(os.environ)
    plain = process_switches(before)
    assert not [name for name in plain if name.startswith("$")]
    monkeypatch.setenv("OF_THE_TEST", "1")
    monkeypatch.setenv("PYTEST_OF_ITS_OWN", "1")
    gc.disable()
    try:
        now = process_switches(before)
    finally:
        gc.enable()
    assert {name for name in now if now[name] != plain.get(name)} == {"$OF_THE_TEST", "garbage collection"}


def test_what_torch_keeps_is_told(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install -e '.[models]'")
    before = process_switches(os.environ)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark)
    after = process_switches(os.environ)
    assert {name for name in after if after[name] != before[name]} == {"torch.backends.cudnn.benchmark"}


def test_a_namespace_package_is_where_its_first_directory_is(tmp_path):
    module = ModuleType("spread")
    module.__path__ = [str(tmp_path)]
    assert place_module.file_of(module) == str(tmp_path)
    assert place_module.file_of(ModuleType("built")) is None


def test_only_one_of_two_threads_runs_at_a_time():
    turns, ran = ThreadTurns(), []

    def steps():
        turns.ready("process")
        while count := turns.wait():
            ran.append(count)
            turns.done([count] * count, [9] * count)
        turns.end()

    thread = threading.Thread(target=steps)
    thread.start()
    assert turns.rest() is not None
    assert turns.clock == "process"
    for count in (1, 3):
        turns.give(count)
        assert turns.rest() == ([count] * count, [9] * count)
    turns.give(0)
    assert turns.rest() is None
    thread.join(10)
    assert ran == [1, 3]


class Stepped:
    """A side whose steps cost what it is told."""

    def __init__(self, name: str, cost: int, order: list[str]) -> None:
        self.name, self.cost, self.order = name, cost, order

    def step(self) -> tuple[int, int]:
        self.order.append(self.name)
        return self.cost, 10 * self.cost


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_pairs_are_drawn_in_an_order_that_the_seed_tells(seed):
    def run():
        order: list[str] = []
        sides = {name: Stepped(name, cost, order) for name, cost in (("base", 10), ("current", 20))}
        return side._interleaved(sides, pairs=30, seed=seed), order

    (costs, order), (_, again) = run(), run()
    assert (costs["base_ns"], costs["current_ns"]) == ([10] * 30, [20] * 30)
    assert (costs["base_wall_ns"], costs["current_wall_ns"]) == ([100] * 30, [200] * 30)
    assert order == again
    pairs = [tuple(order[i : i + 2]) for i in range(0, len(order), 2)]
    assert set(pairs) == {("base", "current"), ("current", "base")}
