"""trace_view.json of Ascend and MindSpore that goes by in chunks: the same is said and measured as of one chunk."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perfguard.testing import generate
from tests.contract.test_damage import CASES as DAMAGED
from tests.contract.test_damage import document
from tests.dialects.streaming import Judged, Pair, alike, both_ways, the_same

LAYOUTS = ("pt-npu", "ms-2.5+", "ms-2.3", "ms-2.5+cpu")
Events = list[dict[str, Any]]


def said(found: Pair | Path, *, of_a_trace: bool = True, in_a_file: bool = False) -> Judged:
    """Return what is said of a directory, however it is cut. Sums and spreads of floats are added up in another order."""
    judged = the_same(found, digits=6, in_a_file=in_a_file) if isinstance(found, Path) else alike(found, digits=6)
    assert bool(judged.streamed) == of_a_trace
    return judged


def written(place: Path, layout: str, **how: Any) -> Path:
    """Generate a directory in a place of its own."""
    directory = place / str(len(list(place.iterdir())))
    generate(layout, operators=12, **how).write(directory)
    return directory


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    place = tmp_path_factory.mktemp("right")
    several = [(layout, ranks) for layout in LAYOUTS for ranks in (1, 2)]
    pairs = both_ways([written(place, layout, seed=ranks, ranks=ranks, steps=2) for layout, ranks in several])
    return dict(zip(several, pairs, strict=True))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.variants(3)
def test_of_what_is_right_nothing_is_said(right, layout, ranks):
    assert not said(right[layout, ranks]).findings


BESIDE = [case for case in DAMAGED if case.layout in LAYOUTS]


@pytest.fixture(scope="module")
def damaged_beside(tmp_path_factory):
    place = tmp_path_factory.mktemp("beside")
    directories = [written(place, one.layout, seed=3, ranks=one.ranks, conditions=one.conditions) for one in BESIDE]
    for one, directory in zip(BESIDE, directories, strict=True):
        one.damage(directory)
    return dict(zip((one.name for one in BESIDE), both_ways(directories), strict=True))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [case.name for case in BESIDE])
def test_what_is_wrong_beside_the_trace_is_said_alike(damaged_beside, name):
    said(damaged_beside[name])


# -- damage of the trace itself ---------------------------------------------------------------------------------------


def processes(events: Events, name: str) -> set[int]:
    return {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == name}


def of(events: Events, process: str) -> Events:
    return [event for event in events if event["ph"] == "X" and event["pid"] in processes(events, process)]


def where(events: Events, **keys: Any) -> Events:
    return [event for event in events if all(event.get(key) == value for key, value in keys.items())]


def later(event: dict[str, Any], microseconds: str, key: str = "ts") -> None:
    moved = Decimal(str(event[key])) + Decimal(microseconds)
    event[key] = str(moved) if isinstance(event[key], str) else float(moved)


def kernel(events: Events) -> dict[str, Any]:
    return of(events, "Ascend Hardware")[0]


def lanes(events: Events, name: str) -> Events:
    return [event for event in of(events, "Overlap Analysis") if event["name"] == name]


def operator(events: Events) -> dict[str, Any]:
    return next(event for event in events if event.get("args", {}).get("type") == "HostCpuOps")


def steps(events: Events) -> Events:
    return [event for event in events if event["name"].startswith("ProfilerStep#")]


def without(events: Events, *others: dict[str, Any]) -> None:
    events[:] = [event for event in events if not any(event is other for other in others)]


def all_lanes_later(events: Events) -> None:
    for event in lanes(events, "Free"):
        later(event, "3")


def text_ids(events: Events) -> None:
    """Give the flows to the device ids that are no numbers, and take one end away."""
    flows = where(events, cat="async_npu")
    for event in flows:
        event["id"] = f"flow {event['id']}"
    without(events, next(event for event in flows if event["ph"] == "f"))


def queue_in_texts(events: Events) -> None:
    """Write the ids of what ends as texts of the same numbers, and take one begin away."""
    flows = where(events, cat="async_task_queue")
    for event in flows:
        event["id"] = str(event["id"]) if event["ph"] == "f" else event["id"]
    without(events, [event for event in flows if event["ph"] == "s"][2])


def twice(events: Events, event: dict[str, Any]) -> None:
    events.insert(len(events) // 2, dict(event))


def twice_with_a_long_id(events: Events) -> None:
    event = where(events, cat="async_npu", ph="s")[0]
    event["id"] = str(10**30)
    twice(events, event)


def as_kernel(events: Events) -> None:
    events.append({**kernel(events), "name": "Another", "args": {"Task Type": "AI_CORE"}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is done to the events of a trace, and what is said of it."""

    name: str
    damage: Callable[[Events], Any]
    says: str
    layouts: tuple[str, ...] = ("pt-npu", "ms-2.5+", "ms-2.3")


NPU, HOST = ("pt-npu",), ("ms-2.5+cpu",)
CASES = (
    Case(
        name="a kernel is gone",
        damage=lambda t: without(t, kernel(t)),
        says="no event of the trace with this name",
    ),
    Case(name="a kernel is longer", damage=lambda t: later(kernel(t), "7", "dur"), says="us here,"),
    Case(name="a kernel is later", damage=lambda t: later(kernel(t), "0.002"), says="no event of the trace"),
    Case(name="a kernel too many", damage=as_kernel, says="Another at", layouts=NPU),
    Case(
        name="a kernel has another name",
        damage=lambda t: kernel(t).update(name="x/y"),
        says="no event of the trace with this name",
    ),
    Case(name="no kernels", damage=lambda t: without(t, *of(t, "Ascend Hardware")), says="no event of the trace"),
    Case(
        name="a flow without its end",
        damage=lambda t: without(t, where(t, cat="fwdbwd", ph="f")[0]),
        says="of fwdbwd begins 1 times and ends 0 times",
        layouts=NPU,
    ),
    Case(name="a flow with a text for an id", damage=text_ids, says="of async_npu begins 1 times", layouts=NPU),
    Case(name="a flow with either id", damage=queue_in_texts, says="begins 0 times and ends 1 times", layouts=NPU),
    Case(
        name="a flow that ends elsewhere",
        damage=lambda t: later(where(t, cat="async_npu", ph="f")[1], "0.5"),
        says="has no event",
        layouts=("pt-npu", "ms-2.5+"),
    ),
    Case(
        name="a flow of a thread without events",
        damage=lambda t: where(t, cat="async_npu", ph="s")[3].update(tid=77),
        says="where thread 77 has no event",
        layouts=("pt-npu", "ms-2.5+"),
    ),
    Case(name="a lane is gone", damage=lambda t: without(t, lanes(t, "Computing")[0]), says="add up to"),
    Case(
        name="a lane too early", damage=lambda t: later(lanes(t, "Computing")[1], "-9"), says="before what is before it"
    ),
    Case(name="all lanes too late", damage=all_lanes_later, says="before what is before it ends"),
    Case(
        name="a kernel twice",
        damage=lambda t: twice(t, kernel(t)),
        says="there a second time",
        layouts=("pt-npu", "ms-2.5+"),
    ),
    Case(
        name="a counter twice", damage=lambda t: twice(t, where(t, ph="C")[0]), says="there a second time", layouts=NPU
    ),
    Case(name="a flow twice, its id is long", damage=twice_with_a_long_id, says="there a second time", layouts=NPU),
    Case(
        name="an instant without a time twice",
        damage=lambda t: t.extend({"ph": "i", "name": "mark", "pid": 1} for _ in range(2)),
        says='"mark" is there a second time',
        layouts=NPU,
    ),
    Case(name="a flow twice", damage=lambda t: twice(t, where(t, ph="s")[0]), says="there a second time", layouts=NPU),
    Case(
        name="a counter that is a text",
        damage=lambda t: where(t, ph="C")[0].update(args={"MHz": "fast"}),
        says='carries {"MHz": "fast"}',
        layouts=NPU,
    ),
    Case(
        name="a counter of nothing",
        damage=lambda t: where(t, ph="C")[0].update(args={}),
        says="carries {}",
        layouts=NPU,
    ),
    Case(
        name="a call is longer",
        damage=lambda t: later(of(t, "CANN")[0], "50", "dur"),
        says="events in trace_view.json",
        layouts=("pt-npu", "ms-2.5+"),
    ),
    Case(
        name="an operator is gone",
        damage=lambda t: without(t, where(t, cat="cpu_op")[0]),
        says="cpu_op events in trace_view.json",
        layouts=NPU,
    ),
    Case(name="a step is gone", damage=lambda t: without(t, steps(t)[1]), says="it has steps"),
    Case(
        name="a step of another number",
        damage=lambda t: steps(t)[2].update(name="ProfilerStep#77"),
        says="not consecutive",
    ),
    Case(name="no step", damage=lambda t: without(t, *steps(t)), says="it marks no step", layouts=NPU),
    Case(name="an event of another week", damage=lambda t: later(kernel(t), "604800e6"), says="its time is"),
    Case(
        name="a scope later",
        damage=lambda t: later(of(t, "Scope Layer")[0], "1"),
        says="where no operator",
        layouts=HOST,
    ),
    Case(name="an operator lost", damage=lambda t: without(t, operator(t)), says=" in cpu_op_", layouts=HOST),
    Case(name="an operator later", damage=lambda t: later(operator(t), "3"), says="it begins at", layouts=HOST),
    Case(name="an operator longer", damage=lambda t: later(operator(t), "3", "dur"), says="it lasts", layouts=HOST),
    Case(name="an operator twice", damage=lambda t: twice(t, operator(t)), says="there a second time", layouts=HOST),
)


#: Each case in its first layout, and in all others.
FIRST = [(case.layouts[0], case) for case in CASES]
OTHERS = [(layout, case) for case in CASES for layout in case.layouts[1:]]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    @cache
    def of(is_first: bool):
        several, place = FIRST if is_first else OTHERS, tmp_path_factory.mktemp("damaged")
        directories = [written(place, layout, seed=3, steps=4) for layout, _ in several]
        for (_, case), directory in zip(several, directories, strict=True):
            document("trace_view.json", case.damage)(directory)
        return dict(zip(((layout, case.name) for layout, case in several), both_ways(directories), strict=True))

    return lambda layout, case: of(layout == case.layouts[0])[layout, case.name]


@pytest.mark.parametrize(
    ("layout", "case"),
    [*FIRST, *(pytest.param(*one, marks=pytest.mark.exhaustive) for one in OTHERS)],
    ids=lambda one: getattr(one, "name", one),
)
@pytest.mark.exhaustive
def test_what_is_wrong_in_the_trace_is_said_alike(damaged, layout, case):
    found = said(damaged(layout, case))
    assert any(case.says in finding.message for finding in found.findings), found.reported


LONG_NUMBERS = [(layout, key) for layout in ("pt-npu", "pt-torch") for key in ("pid", "tid", "id", "ts")]


@pytest.fixture(scope="module")
def with_long_numbers(tmp_path_factory):
    place = tmp_path_factory.mktemp("long")
    directories = [written(place, layout, seed=3) for layout, _ in LONG_NUMBERS]
    for (_, key), directory in zip(LONG_NUMBERS, directories, strict=True):
        (trace,) = (
            one for one in directory.rglob("*.json") if one.name.endswith(("trace_view.json", ".pt.trace.json"))
        )
        text, count = re.subn(rf'"{key}": *"?-?[0-9.]+"?', f'"{key}": {"9" * 5000}', trace.read_text(), count=1)
        assert count
        trace.write_text(text)
    return dict(zip(LONG_NUMBERS, both_ways(directories), strict=True))


@pytest.mark.parametrize(("layout", "key"), LONG_NUMBERS)
@pytest.mark.exhaustive
def test_a_number_of_more_digits_than_python_reads_breaks_the_schema(with_long_numbers, layout, key):
    found = said(with_long_numbers[layout, key], of_a_trace=False)
    assert "S103" in {finding.code.name for finding in found.findings}


@pytest.mark.exhaustive
def test_events_alike_but_for_their_arguments_are_no_repeats(tmp_path):
    generate("pt-npu", seed=3, operators=12).write(tmp_path)
    document("trace_view.json", lambda t: t.append({**where(t, ph="C")[0], "args": {"MHz": 1799}}))(tmp_path)
    assert not any(finding.check == "device_events_are_there_once" for finding in said(tmp_path).findings)


@pytest.mark.exhaustive
def test_of_many_repeats_the_first_hundred_are_worded(tmp_path):
    generate("pt-npu", seed=3, operators=12, steps=4).write(tmp_path)
    document("trace_view.json", lambda t: t.extend([dict(event) for event in t]))(tmp_path)
    found = said(tmp_path)
    assert sum("there a second time" in finding.message for finding in found.findings) == 100


@pytest.mark.parametrize(
    "place",
    [
        "msinsight/torch_npu-level1",
        "recorded/mindspore-2.10-cpu-graph-steps2to4",
        "recorded/mindspore-2.10-cpu-graph-window3-raced",
        "recorded/mindspore-2.10-cpu-msrun-2ranks",
        "recorded/mindspore-2.10-cpu-pynative-steps2to4",
        "recorded/mindspore-2.10-cpu-schedule-repeat2",
    ],
)
@pytest.mark.exhaustive
def test_of_real_output_the_same_is_said(corpus, place):
    said(corpus.parent / place, in_a_file=True)


@pytest.mark.exhaustive
def test_of_a_real_trace_with_repeats_the_same_is_said(tmp_path, corpus):
    real = corpus.parent / "msinsight" / "torch_npu-level1" / "rank0_ascend_pt"
    place = Path(shutil.copytree(real, tmp_path / real.name, copy_function=shutil.copyfile))

    def damage(events: Events) -> None:
        for number in range(0, 9000, 900):
            twice(events, events[number])
            if "ts" in events[number + 3]:
                later(events[number + 3], "0.01")
            without(events, events[number + 7])

    document("trace_view.json", damage)(place)
    said(place)
