"""Fixtures of the whole suite."""

import gc
import os
import shutil
import signal
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.environments import interpreter

pytest_plugins = ["pytester"]

# The main job (tests/models) runs in an environment without it.
with suppress(ModuleNotFoundError):
    from hypothesis import settings

    # How long an example takes is the machine's, and decides no test.
    settings.register_profile("perfguard", deadline=None)
    settings.load_profile("perfguard")

# Hundreds of processes of this suite import perfguard: those before them have compiled it, unless told not to keep that.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Every worker has a thread of polars for each core, which spin while they wait for each other.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
# How wide the screen of whoever runs the suite is, and which colours it has, decides no test.
for _name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PY_COLORS"):
    os.environ.pop(_name, None)

TESTS = Path(__file__).resolve().parent
CHECKOUT = TESTS.parent
#: By a module or a folder of them, what it imports, or starts to run pytest in: that takes seconds, in every worker.
TOGETHER = {
    "plugin": "runs of pytest",
    "capture/test_controlled.py": "torch",
    "capture/test_driver.py": "torch",
    "capture/test_turns.py": "torch",
    "integrations/test_tools_profiler.py": "torch",
    "integrations/test_torch_dynamic.py": "torch",
    "models/test_torch.py": "torch",
    "capture/test_mindspore_callback.py": "mindspore",
    "models/test_mindspore.py": "mindspore",
}
RECORDINGS = CHECKOUT / "tests" / "data" / "recordings"
#: What real profilers wrote without perfguard: tests/data/make.py makes it.
RECORDED = CHECKOUT / "tests" / "data" / "recorded"
#: Far beyond what any test here needs; only a hang reaches it.
SECONDS_UNTIL_A_HANG = 600


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--third", type=int, choices=(0, 1, 2), help="Of the exhaustive tests run those of one third.")


def pytest_configure(config: pytest.Config) -> None:
    # xdist would begin with the modules that have the most tests: here those that take the least time.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False
    # Who names files wants all of their tests.
    named = config.args if config.args_source is pytest.Config.ArgsSource.ARGS else []
    if named and all(".py" in one for one in named) and config.option.markexpr == "not exhaustive":
        config.option.markexpr = ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark variants as exhaustive where a test says how many are enough by default, and begin with what is slow."""
    variants = defaultdict(list)
    for item in items:
        if item.get_closest_marker("variants") is not None and item.get_closest_marker("exhaustive") is None:
            variants[item.parent, getattr(item, "originalname", item.name)].append(item)
    for those in variants.values():
        (enough,) = those[0].get_closest_marker("variants").args  # type: ignore[union-attr]
        # In the order of the table, whatever order they run in: what lies side by side is alike, so those kept are spread.
        those.sort(key=lambda item: tuple(item.callspec.indices.values()))  # type: ignore[attr-defined]
        kept = {number * len(those) // enough for number in range(enough)}
        for number, item in enumerate(those):
            if number not in kept:
                item.add_marker("exhaustive")
    if (third := config.getoption("third")) is not None:
        left = [item for item in items if item.get_closest_marker("exhaustive") and third_of(item) != third]
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
    # What runs frameworks and processes comes first, the largest of it before all, so that no worker has it left at the end.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.parent != TESTS / "plugin", item.path not in slow))


def third_of(item: pytest.Item) -> int:
    """Return the third (0 to 2) of a test: all variants of a test are in one, so that what they share is made once."""
    function = item.nodeid.partition("[")[0]
    return zlib.crc32(function.encode()) % 3


def pytest_collection_finish() -> None:
    """Put thousands of collected tests out of the garbage collector's sight: whole collections are asked for in many tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker whole modules, and all of those together that import the same for seconds."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0].removeprefix(f"{TESTS.name}/")
            return TOGETHER.get(module) or TOGETHER.get(module.partition("/")[0]) or module

    return Scheduling(config, log)


class Hung(BaseException):
    """A test hangs. No Exception, so that nothing under test can take it for one of its own (TimeoutError is an OSError)."""


@pytest.fixture
def environment(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Return what gives the Python of another environment, by its name."""

    def python_of(name: str) -> Path:
        return interpreter(name, Path(request.config.cache.mkdir("environments")))

    return python_of


@pytest.fixture
def copy_recording(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies one of the small recordings and returns its directory."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(RECORDINGS / name, tmp_path / name))

    return copy


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Return the outside corpus, for output that needs a device or a system of its own; or skip where it is not at hand."""
    place = corpus_place()
    if not (place / "recorded").is_dir():
        pytest.skip(
            f"needs output of a device, from the corpus, which is not at {place}; set PERFGUARD_CORPUS to where it is"
        )
    return place / "recorded"


def corpus_place() -> Path:
    """Return where the outside corpus is, if anywhere."""
    named = os.environ.get("PERFGUARD_CORPUS")
    return Path(named) if named else CHECKOUT.parent / "shared" / "corpus"


def gpu_traces() -> list[Any]:
    """Return the real traces of GPUs in the corpus, as parameters; one that skips where it is not at hand."""
    places = sorted(one for one in (corpus_place() / "gpu").glob("*") if one.is_dir())
    if not places:
        return [pytest.param(None, marks=pytest.mark.skip(reason="needs traces of GPUs, from the corpus"), id="none")]
    return [pytest.param(place, id=place.name) for place in places]


def recorded(pattern: str) -> list[Path]:
    """Return the real recordings whose name matches: those of tests/data, of which there must be one, then the corpus's."""
    inside = sorted(RECORDED.glob(pattern))
    assert inside, f"no {pattern} in {RECORDED}"
    return [*inside, *sorted((corpus_place() / "recorded").glob(pattern))]


@pytest.fixture(scope="session")
def real_traces() -> tuple[tuple[Path, str], ...]:
    """Return every real trace that is read in chunks, of tests/data and of the corpus, each with the names of its schemas."""
    from perfguard.artifacts.survey import survey
    from perfguard.dialects.queries import DIALECTS

    places = [*RECORDED.glob("*"), *RECORDINGS.glob("*"), *corpus_place().glob("*/*")]
    found = {
        (file.path, name)
        for directory in sorted(one for one in places if one.is_dir())
        for cycle in survey(directory).cycles
        if cycle.layout.id in DIALECTS
        for file in cycle.files
        if file.slot.name == DIALECTS[cycle.layout.id].slot
        for name in file.slot.schemas
    }
    assert found
    return tuple(sorted(found))


@pytest.fixture
def must_not_hang() -> Iterator[None]:
    """Raise `Hung` inside a test that hangs."""

    def stop(number: int, frame: object) -> None:
        raise Hung(f"still running after {SECONDS_UNTIL_A_HANG} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS_UNTIL_A_HANG)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
